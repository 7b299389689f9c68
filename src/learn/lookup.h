/* lookup.h - one lookup of the host's: what its filters answered, and what the host found.
 *
 * A lookup asks the filters of several tables; when it is over, the host knows which of the
 * "maybe"s were wrong. The frame of a lookup lies on the stack of the function that begins it,
 * and the filters that are asked on the same thread find it by wn__current_lookup. It holds
 * copies only: a reader may be closed between its answer and the end of the lookup.
 *
 * The frame also keeps the hash of the key, so that all tables of one lookup hash it once.
 *
 * Lookups may be nested (a merge operator that reads, a store of ours that reads in the middle of
 * a lookup): each has a frame of its own, and what is noted goes to the innermost. Without a
 * frame nothing is noted, and nothing is learned.
 *
 * Thread safety: a frame belongs to its thread. */
#ifndef WN_LEARN_LOOKUP_H
#define WN_LEARN_LOOKUP_H

#include <winnow/filter.h>
#include <winnow/hash.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/secret.h"
#include "reversemap/map.h"

struct wn__learn;
struct wn__registry;

#define WN__LOOKUP_POSITIVES 64

struct wn__positive {
	struct wn__keylist list; /* of which filter: all that its key list is looked up with */
	struct wn_hash hash;     /* the query's, under the filter's secret */
	struct wn_match match;
};

struct wn__lookup {
	struct wn__lookup *outer;
	const struct wn__registry *registry; /* of the database: only its filters are noted */
	const struct wn_secret *secret;      /* the one that the database hashes with now */
	const void *key;                     /* NULL: many keys */
	size_t size;
	size_t short_size; /* the key's size if `hash` is there and it has 8 to 16 bytes; else
			    * SIZE_MAX */
	struct wn_hash hash; /* of the key under the secret */
	bool hashed;         /* `hash` was made because a filter asked for it */
	uint64_t began;      /* wn__lesson_clock() */
	uint32_t queries;    /* filters asked */
	uint32_t count;      /* of positives; may pass their room */
	struct wn__positive positives[WN__LOOKUP_POSITIVES];
};

extern _Thread_local struct wn__lookup *wn__current_lookup
	__attribute__((tls_model("initial-exec")));

/* A clock that ticks when what was learned from a false positive is there for all. What a lookup
 * could not know, because it began before, it does not repeat. */
extern struct wn__lesson_clock {
	_Alignas(64) uint64_t now; /* read by every lookup, written by those that learn */
} wn__lesson_clock;

/* Begin a lookup of this key on this thread; every begin has its end. Secret and key are borrowed
 * until then. `key` may be NULL: many keys. */
WN__INLINE void wn__lookup_begin(struct wn__lookup *lookup, const struct wn__registry *registry,
				 const struct wn_secret *secret, const void *key, size_t size)
{
	lookup->outer = wn__current_lookup;
	lookup->registry = registry;
	lookup->secret = secret;
	lookup->key = key;
	lookup->size = size;
	lookup->short_size = SIZE_MAX;
	lookup->hashed = false;
	lookup->hash = (struct wn_hash){0, 0};
	lookup->began = __atomic_load_n(&wn__lesson_clock.now, __ATOMIC_ACQUIRE);
	lookup->queries = lookup->count = 0;
	wn__current_lookup = lookup;
}

/* Hash a lookup's key before the first filter asks for it, if it has 9 to 16 bytes: the processor
 * does it while the host is still on its way to its tables. Not for hosts that hash keys in a way
 * of their own. */
WN__INLINE void wn__lookup_hash_short(struct wn__lookup *lookup)
{
	const struct wn__hash_words *words = &lookup->secret->words;

	if (WN__UNLIKELY(lookup->size - WN__SHORT_MIN >= WN__SHORT_SIZES))
		return;
	lookup->hash = wn__hash_finish(words, wn__hash_short(words, lookup->key, lookup->size));
	lookup->short_size = lookup->size;
}

/* Two keys of 8 to 16 bytes, in place of a call of memcmp(). */
WN__INLINE bool wn__same_short(const void *a, const void *b, size_t size)
{
	const unsigned char *one = a, *other = b;

	return ((get_le64(one) ^ get_le64(other)) |
		(get_le64(one + size - 8) ^ get_le64(other + size - 8))) == 0;
}

/* Are these the bytes of the lookup's key, and is it hashed, and short? The bytes decide, not the
 * place: filters may be asked for other keys in the midst of a lookup (a prefix; a read without a
 * frame), and for this one in a copy. The secret is told by its address: the frame's own outlives
 * the frame, so no other can have it. */
WN__INLINE bool wn__lookup_has(const struct wn__lookup *lookup, const struct wn_secret *secret,
			       const void *key, size_t size)
{
	return WN__LIKELY(lookup->short_size == size && lookup->secret == secret) &&
	       WN__LIKELY(wn__same_short(lookup->key, key, size));
}

/* As wn__lookup_has() for keys of 17 to 32 bytes. */
WN__INLINE bool wn__lookup_has_longer(const struct wn__lookup *lookup,
				      const struct wn_secret *secret, const void *key, size_t size)
{
	const unsigned char *ours = lookup->key, *given = key;

	return size - 17 <= 32 - 17 && lookup->size == size && lookup->secret == secret &&
	       lookup->hashed && wn__same_short(ours, given, 16) &&
	       wn__same_short(ours + size - 16, given + size - 16, 16);
}

/* The hash of a key in this lookup, whatever the key: hashed once if it is the lookup's. */
struct wn_hash wn__lookup_hash_any(struct wn__lookup *lookup, const struct wn_secret *secret,
				   const void *key, size_t size);

/* The hash of a key that a filter is asked for. */
WN__INLINE struct wn_hash wn__lookup_hash(const struct wn_secret *secret, const void *key,
					  size_t size)
{
	struct wn__lookup *lookup = wn__current_lookup;
	struct wn_hash hash;

	if (!lookup)
		hash = wn__hash_key(secret, key, size);
	else if (wn__lookup_has(lookup, secret, key, size))
		hash = lookup->hash;
	else
		hash = wn__lookup_hash_any(lookup, secret, key, size);
	return wn__in_registers(hash);
}

/* Note a positive in this frame. Positives without room are counted. */
WN__INLINE void wn__lookup_note_in(struct wn__lookup *lookup, const struct wn__keylist *list,
				   struct wn_hash hash, const struct wn_match *match)
{
	uint32_t at = lookup->count++;

	if (WN__UNLIKELY(at >= WN__LOOKUP_POSITIVES))
		return;
	lookup->positives[at].list = *list;
	lookup->positives[at].hash = hash;
	lookup->positives[at].match = *match;
}

/* Note a positive of the database's in the innermost frame, if there is one. `match` may be NULL:
 * nothing can be learned from it. */
void wn__lookup_note(const struct wn__registry *registry, const struct wn__keylist *list,
		     struct wn_hash hash, const struct wn_match *match);

/* The lookup is over. The host asked its tables from the newest to the oldest and stopped where
 * it found: every positive but the last was false, and the last was true if `found`. `failed`:
 * the lookup came to no answer. What was wrong is learned from before this returns. */
void wn__lookup_end(struct wn__lookup *lookup, struct wn__learn *learn, bool found, bool failed);

/* A batch of lookups, which began as one does, with key NULL, is over: its positives are told
 * apart, and then each of its keys is confirmed. A batch may bring a key twice; what is learned
 * from it then is no less true. Hashes are those under the frame's secret; filters under
 * another one are left aside. */
#define WN__BATCH_BUCKETS 256

struct wn__batch {
	struct wn__learn *learn;
	const struct wn__lookup *lookup;
	uint32_t secret_id;
	uint8_t first[WN__BATCH_BUCKETS], next[WN__LOOKUP_POSITIVES]; /* UINT8_MAX: none */
};

void wn__lookup_end_batch(struct wn__lookup *lookup, struct wn__learn *learn,
			  struct wn__batch *batchp);
void wn__batch_confirm(struct wn__batch *batch, struct wn_hash hash, bool found, bool failed);

#endif /* WN_LEARN_LOOKUP_H */
