/* policy.h - the filter policy, and the database behind it if there is one. */
#ifndef WN_ADAPTERS_LEVELDB_POLICY_H
#define WN_ADAPTERS_LEVELDB_POLICY_H

#include <pthread.h>
#include <stdatomic.h>

#include <winnow/leveldb.h>

#include "reversemap/packs.h"
#include "shim.h"
#include "learn/small_lessons.h"

/* The name of LevelDB's own: the two then see each other's filters. */
#define WN__FILTER_NAME "leveldb.BuiltinBloomFilter2"

enum wn__counter {
	WN__LOOKUPS,
	WN__LOOKUPS_DISCARDED,
	WN__QUERIES,
	WN__POSITIVES,
	WN__FALSE_POSITIVES,
	WN__ADAPTATIONS,
	WN__UNFIXABLE,
	WN__MAP_MISSES,
	WN__FILTERS_BUILT,
	WN__FILTERS_FROZEN,
	WN__FILTERS_GIVEN_UP,
	WN__FILTER_BYTES,
	WN__FILTER_KEYS,
	WN__FOREIGN_FILTERS,
	WN__PACKS_LOST,
	WN__CARRIED_OVER,
	WN__COUNTERS
};

struct wn__misses;
struct wn__journal;

/* What new filters are. */
struct wn__level_filter {
	bool sscf;
	unsigned remainder_bits; /* aqf */
	unsigned bits;           /* sscf: hundredths of a bit a key */
};

#define WN__NOTED_KEYS 4096

/* What a policy and its database share. */
struct wn__policy {
	struct wn_secret *secret;
	uint32_t secret_id;
	struct wn__level_filter filter;
	bool fast; /* CPU */
	void *bloom;
	wn_canonical_fn *canonical; /* NULL: keys are hashed as they are */
	void *canonical_arg;
	/* ---- with a database; else NULL ---- */
	struct wn__small_lessons *lessons;
	struct wn__packs *packs;
	struct wn__misses *misses;
	struct wn__journal *journal;
	/* Halves of hashes: false positives of sscf filters that the journal has, so that those
	 * that come all the time are not written all the time. */
	atomic_uint_fast64_t noted[WN__NOTED_KEYS];
	atomic_uint_fast64_t counters[WN__COUNTERS];
};

static inline void wn__count(struct wn__policy *policy, enum wn__counter counter, uint64_t more)
{
	atomic_fetch_add_explicit(&policy->counters[counter], more, memory_order_relaxed);
}

/* ---- one lookup --------------------------------------------------------- */

#define WN__FRAME_POSITIVES 24
#define WN__FRAME_MATCHES 4

struct wn__positive {
	struct wn__small_id id;
	uint32_t indexes[WN__FRAME_MATCHES];
	int count;         /* 0: nothing can be learned from it; -1: only by the next filters */
	uint16_t slack;    /* how far a matching key's first 16 bits may be off the query's */
};

/* On the stack of wn_leveldb_get(), which the thread's filters find by a pointer. */
struct wn__frame {
	struct wn__frame *outer;
	struct wn__policy *policy;
	const char *key;
	size_t size;
	bool hashed;
	struct wn_hash hash;
	uint32_t queries, count; /* count may pass the room */
	struct wn__positive positives[WN__FRAME_POSITIVES];
};

extern _Thread_local struct wn__frame *wn__current_frame
	__attribute__((tls_model("initial-exec")));

/* ---- policy.c ----------------------------------------------------------- */

int wn__parse_options(const char *text, struct wn__level_filter *filterp, char *message,
		      size_t size);
int wn__level_policy_create(const struct wn__level_filter *filter, const struct wn_secret *secret,
			    struct wn__policy **policyp);
/* Hash what `canonical` makes of keys; NULL: the keys. Before the policy is used. */
void wn__level_policy_canonicalize(struct wn__policy *policy, wn_canonical_fn *canonical,
				   void *arg);
void wn__level_policy_destroy(void *policy);
leveldb_filterpolicy_t *wn__level_policy_show(struct wn__policy *policy, bool owned);

/* Room for what keys are turned into before they are hashed. */
struct wn__canonical {
	char *key; /* `room`, or malloc()ed; NULL: no memory */
	size_t size;
	char room[256];
};

void wn__canonicalize(const struct wn__policy *policy, const char *key, size_t size,
		      struct wn__canonical *canonicalp);
void wn__canonical_free(struct wn__canonical *canonical);

/* ---- table.c: building -------------------------------------------------- */

char *wn__create_filter(void *policy, const char *const *keys, const size_t *sizes, int count,
			size_t *sizep);
void *wn__begin_table(void *policy, uint64_t number);
void wn__end_table(void *policy, void *table);
void wn__drop_table(void *policy, void *table);
void wn__remove_table(void *policy, uint64_t number);
/* wn__pack_gone_fn: the filter's lessons go, too. */
void wn__forget_filter(void *policy, struct wn__small_id id, uint32_t count);

#endif /* WN_ADAPTERS_LEVELDB_POLICY_H */
