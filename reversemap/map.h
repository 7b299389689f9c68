/* map.h - the reverse map of immutable filters, one key list for each filter.
 *
 * A filter over an SSTable is built once, and so is its part of the reverse map:
 * the hashes of its keys in fingerprint order, a *key list*. An entry is addressed as in
 * reversemap.h, by minirun and rank. Hashes in ascending order are in fingerprint
 * order too, and a hash tells its minirun, so a key list is the sorted hashes and no
 * index. Those who bring the filter's block know all that is needed to find a key list
 * and to see that it is the right one (struct wn__keylist).
 *
 * No false negative, ever: what is learned from a wrong hash would hide a key. So a
 * key list names its filter, every page of it has a checksum that only fits this page of
 * this key list, and what is read must have the minirun that was asked for. A key list that
 * is missing, another filter's or damaged is an error and a counter; it costs a
 * lesson, not an answer. The learner compares the hash with the fingerprint again.
 *
 * Thread safety: any number of threads may call any of these functions on one
 * store, but for destroy. Puts, and drops, write to disk: call them from a worker,
 * never from a storage engine's callback. */
#ifndef WN_REVERSEMAP_MAP_H
#define WN_REVERSEMAP_MAP_H

#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

struct wn__map;

/* What a filter's block says of itself. */
struct wn__keylist {
	unsigned char id[WN_BLOCK_ID_SIZE];
	uint64_t key_count;
	uint64_t slots;
	uint32_t secret_id;
	unsigned remainder_bits;
	bool plain;     /* a filter without fingerprints, in a plain shape (kinds/shape.h): not
			 * kept, not compared */
	uint64_t owner; /* the caller's own: the SSTable's number, say. Kept and listed,
			 * not compared. */
};

/* Of a filter that does not say how many keys it has: any number will do. */
#define WN__KEYS_UNKNOWN UINT64_MAX

/* Is the stored key list that of the filter `wanted`? */
bool wn__keylist_is_of(const struct wn__keylist *stored, const struct wn__keylist *wanted);

/* From a block's header; owner becomes 0. WN_ERR_INVALID: a kind that is not known, or
 * parameters out of range. */
int wn__keylist_of_block(const struct wn_block_info *info, struct wn__keylist *listp);

/* One stored hash, as far as it is known: a key list holds its upper half, and the lower half
 * reads as 0. Of the fraction that wn__split(hash, slots) gives, the first `fraction_bits` bits
 * are then those of the stored key; those behind may be wrong. They always cover the remainder;
 * 128 if all is known.
 *
 * A lesson that has a bit from behind them HIDES THE STORED KEY: even one asked for
 * by mistake with the key itself as the query, which differs from it only where it is
 * not known. Functions that are given a whole stored hash and choose themselves how
 * much of it they use (wn_aqf_adapt(), wn__lessons_learn()) may be given this one only
 * after wn__keylist_entry_tells() said so; otherwise the false positive is unfixable. */
struct wn__keylist_entry {
	struct wn_hash hash;
	unsigned fraction_bits;
};

/* Can a lesson tell `query`, which matched this entry's fingerprint, from the stored
 * key by known bits only? Lessons come in whole pieces of `piece_bits` bits behind the
 * remainder, up to the one in which the two differ: a filter's extension bits, or
 * those of a learned lesson. Always true if all is known. */
bool wn__keylist_entry_tells(const struct wn__keylist *list,
				       const struct wn__keylist_entry *entry, struct wn_hash query,
				       unsigned piece_bits);

struct wn__keylist_info {
	struct wn__keylist list;  /* if error is set: the id only */
	uint64_t bytes;      /* what it takes in the store */
	int error;           /* why the key list cannot be read, or 0 */
};

/* Called with the next `count` hashes of the key list, their upper halves. A result other than 0
 * ends the walk and is returned. */
typedef int wn__keylist_visit_fn(void *arg, const struct wn__keylist_info *info,
				 const uint64_t *uppers, size_t count);

/* Put a key list of the upper halves of list->key_count hashes in ascending order, as
 * wn_builder_uppers() gives them; they are not retained. A key list with the same id is replaced.
 * On failure the store is as it was, or without the key list that was to be replaced.
 * WN_ERR_INVALID: out of order, or impossible parameters. */
int wn__map_put(struct wn__map *map, const struct wn__keylist *list, const uint64_t *uppers);

/* One of several key lists that are put together; list and upper halves are borrowed. */
struct wn__keylist_put {
	const struct wn__keylist *list;
	const uint64_t *uppers;
	int err; /* what wn__map_put() would have said of it */
};

/* Put several at once: a store may have less to do than for each by itself. They should be
 * filters of one table. */
void wn__map_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count);

/* The bits of each fraction that the upper half tells: 64, less one for each factor of two in the
 * number of slots (base/bits.h). A lesson wants a whole piece behind the remainder. So filters
 * that are to learn have an odd number of slots, or nearly so, and no more than 22 remainder bits;
 * of a plain key list the minirun is enough. */
unsigned wn__keylist_known_bits(const struct wn__keylist *list);

/* A result of lookups, and of nothing else: the key list is there, it is the filter's, and it has
 * no hash at this place. The hashes on both sides of the gap were seen in pages that fit
 * their checksums, so the minirun has no more than `rank` hashes. It is not
 * WN_ERR_NOT_FOUND, which is also the result when the key list or a page of it is missing: to
 * take a missing key list for an empty minirun would deny stored keys. */
#define WN__MAP_NO_PLACE (-1000)

/* The hash at a place of the filter `list`. WN__MAP_NO_PLACE: there is none;
 * WN_ERR_NOT_FOUND: no such key list, or it was dropped meanwhile; WN_ERR_MISMATCH: the key list is
 * another filter's; WN_ERR_CORRUPT, WN_ERR_VERSION: it is damaged or cannot be understood;
 * or an errno. */
int wn__map_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			      uint32_t rank, struct wn__keylist_entry *entryp);

/* The hashes of a minirun from `rank` on, at most `max` of them, in one search. The *countp
 * entries are right whatever the result, which says how the list ends. 0: there are `max`, and
 * there may be more; WN__MAP_NO_PLACE: there are no others; the errors of wn__map_lookup(): what
 * comes behind these is not known. */
int wn__map_lookup_minirun(struct wn__map *map, const struct wn__keylist *list,
				     uint64_t minirun, uint32_t rank,
				     struct wn__keylist_entry *entries, size_t max, size_t *countp);

/* All hashes of a key list in order, in pieces. What was visited before a failure was right.
 * Hashes that are not kept whole have the miniruns of the key list's own slots and remainder
 * bits, and of no others. */
int wn__map_stream(struct wn__map *map, const unsigned char *id,
			      wn__keylist_visit_fn *fn, void *arg);

/* Forget a key list. WN_ERR_NOT_FOUND if there is none. */
int wn__map_drop(struct wn__map *map, const unsigned char *id);

/* Forget the key lists of a table, all of them at once, their ids ascending. The number of those
 * that were there and are forgotten is returned. */
size_t wn__map_drop_many(struct wn__map *map,
				    const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count);

/* All key lists, in no order; those that cannot be read as well, so that they can be
 * dropped. *infosp is to be freed with free(). */
int wn__map_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp);

/* NULL is fine. Key lists on disk stay. */
void wn__map_destroy(struct wn__map *map);

struct wn__map_stats {
	uint64_t puts, failed_puts;
	uint64_t drops;
	uint64_t lookups;    /* all of them; of these: */
	uint64_t missing;    /* WN_ERR_NOT_FOUND */
	uint64_t mismatched; /* WN_ERR_MISMATCH */
	uint64_t damaged;    /* WN_ERR_CORRUPT, WN_ERR_VERSION */
	uint64_t failed;     /* an errno */
	uint64_t reads;      /* pages read by lookups and streams */
	uint64_t lists;      /* in the store now */
	uint64_t bytes;      /* they take */
};

void wn__map_stats(const struct wn__map *map, struct wn__map_stats *statsp);

/* ---- stores ------------------------------------------------------------- */

/* In memory; gone with the store. */
int wn__map_memory_create(struct wn__map **mapp);

/* Zero means default. */
struct wn__sidecar_options {
	bool sync;         /* fsync each key list; without it a power cut may cost the last ones */
	bool read_only;    /* put and drop are WN_ERR_READONLY; nothing is swept */
	unsigned max_open; /* files kept open; each lookup under way may add one; default 64 */
};

/* A directory of flat files, one for each key list (doc/formats.md). It is made if it is not
 * there (its parent must be). Temporary files that a crash left behind are swept. At
 * most one process may have it open to write; the database's own lock sees to that.
 * options may be NULL. */
int wn__map_sidecar_open(const char *directory,
				    const struct wn__sidecar_options *options,
				    struct wn__map **mapp);

/* ---- for stores --------------------------------------------------------- */

/* What a store implements. list and hashes have been checked. */
struct wn__map_ops {
	int (*put)(struct wn__map *map, const struct wn__keylist *list, const uint64_t *uppers);
	int (*lookup)(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
		      uint32_t rank, struct wn__keylist_entry *entries, size_t max, size_t *countp);
	int (*stream)(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
		      void *arg);
	int (*drop)(struct wn__map *map, const unsigned char *id);
	/* Put those whose err is 0, and set it. NULL: one after the other. */
	void (*put_many)(struct wn__map *map, struct wn__keylist_put *puts, size_t count);
	/* NULL: one after the other. */
	size_t (*drop_many)(struct wn__map *map, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			    size_t count);
	int (*list)(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp);
	void (*destroy)(struct wn__map *map);
};

/* A store embeds this as its first member. The numbers are for atomic access. */
struct wn__map {
	const struct wn__map_ops *ops;
	struct wn__map_stats stats;
};

static inline void wn__map_count(uint64_t *counter, uint64_t add)
{
	__atomic_fetch_add(counter, add, __ATOMIC_RELAXED);
}

/* ops->put_many() and ops->drop_many(), or what they stand for. */
void wn__map_put_all(struct wn__map *map, struct wn__keylist_put *puts, size_t count);
size_t wn__map_drop_all(struct wn__map *map,
				   const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count);

/* Are these parameters within the limits? */
bool wn__keylist_is_valid(const struct wn__keylist *list);

WN_END_DECLS

#endif /* WN_REVERSEMAP_MAP_H */
