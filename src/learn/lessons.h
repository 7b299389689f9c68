/* lessons.h - what filters have learned since they were built, by filter id.
 *
 * A filter block never changes. When a query's "maybe" turns out to be wrong, what
 * tells the query from the stored key is kept here, beside the block, and survives
 * the reader: a host opens and drops readers by the thousand, and the lessons of a
 * filter wait for the next one under the filter's 128-bit id.
 *
 * A lesson says of one fingerprint, (minirun, rank): the stored key's fraction goes
 * on like this behind the remainder. A query whose own fraction goes on differently
 * did not mean this fingerprint. Lessons are bits of stored keys only, so no lesson
 * can hide the key it came from, whatever the query was.
 *
 * Filters of kinds without fingerprints learn in the same way, under the plain shape
 * (kinds/shape.h), with one lesson more: this minirun has so many stored keys, mostly none.
 * A query is denied where their number is known and each is told from it.
 *
 * All memory is bounded by a budget. Past it the coldest filter's lessons are dropped:
 * its false positives may then come back, once each, and no answer becomes wrong.
 *
 * Thread safety: any number of threads may query, without a lock and without
 * writing shared memory, while others call anything else here. The others take
 * the registry's lock, and none holds it for longer than one filter takes. */
#ifndef WN_LEARN_LESSONS_H
#define WN_LEARN_LESSONS_H

#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

#include "kinds/shape.h"

WN_BEGIN_DECLS

#define WN__REGISTRY_BUDGET ((size_t)64 << 20)
#define WN__REGISTRY_MIN_BUDGET ((size_t)32 << 10)

struct wn__registry; /* the lessons of all filters */
struct wn__lessons;  /* one filter's */

/* ---- the registry ------------------------------------------------------- */

/* `budget` in bytes; 0 means WN__REGISTRY_BUDGET. It bounds all memory that the registry holds:
 * pages of lessons, the directories to them (up to a sixth of the lessons), what each open
 * reader needs (some 120 bytes), the list of changes. Only copies that are being saved do not
 * count. An eighth is kept free of pages, for readers and directories. Below
 * WN__REGISTRY_MIN_BUDGET nothing is learned: there is no room for one slab of pages and its
 * readers. */
int wn__registry_create(size_t budget, struct wn__registry **registryp);

/* The registry of this name, if somebody still holds it; otherwise a new one. From now on it has
 * this budget. A host's readers may outlive its database, in a cache that several share, and
 * serve the same database when it is opened again: what is learned then must reach them. */
int wn__registry_open(const char *name, size_t budget, struct wn__registry **registryp);

/* One more owner, who has to call wn__registry_destroy(), too. */
struct wn__registry *wn__registry_hold(struct wn__registry *registry);

/* NULL is fine. Readers that still hold lessons keep them; the last to let go frees
 * the rest. */
void wn__registry_destroy(struct wn__registry *registry);

/* The lessons of the filter with the WN_BLOCK_ID_SIZE bytes at `id`, new ones if it
 * has none. Everybody who asks for an id gets the same object. Let it go with
 * wn__lessons_release(). On failure *lessonsp is NULL, which is fine to query with:
 * ENOMEM, WN_ERR_FULL if the budget has no room for one more (lessons that nobody reads are
 * dropped first), or WN_ERR_MISMATCH if lessons for this id are of another shape. */
int wn__registry_acquire(struct wn__registry *registry, const unsigned char *id,
				  struct wn__shape shape, struct wn__lessons **lessonsp);
void wn__lessons_release(struct wn__lessons *lessons);

/* The filter's table is gone for good: forget its lessons. Readers that still hold
 * them may go on using them. */
void wn__registry_forget(struct wn__registry *registry, const unsigned char *id);

struct wn__registry_stats {
	uint64_t filters; /* that have lessons */
	uint64_t lessons;
	uint64_t bytes;           /* all memory held, free pages included; within the budget */
	uint64_t dropped_filters; /* for the budget; one may be dropped again and again */
	uint64_t dropped_lessons;
	uint64_t refused;    /* lessons not learned: memory or room refused */
	uint64_t refused_readers; /* that were to have lessons, and work without */
	uint64_t distrusted; /* filters whose lessons contradicted each other */
	uint64_t changes;    /* lessons to be saved; only if they are tracked */
};

void wn__registry_describe(struct wn__registry *registry,
				     struct wn__registry_stats *statsp);

/* ---- one filter (filter_lessons.c) ------------------------------------ */

/* The lessons that belong to an open filter; WN_ERR_READONLY if filters of its kind
 * do not learn. Otherwise as wn__registry_acquire(). */
int wn__filter_lessons(struct wn__registry *registry, const struct wn_filter *filter,
				 struct wn__lessons **lessonsp);

/* As wn_filter_query_hash(), less what the lessons refute. Either pointer may be
 * NULL. Lessons of another filter are left aside. On true *matchp (may be NULL) is what
 * is learned from: the fingerprint that matched or, for kinds without
 * fingerprints, the query's minirun and rank 0. On false it is the last fingerprint the
 * lessons refuted, or not known if the filter itself said "no". */
bool wn__filter_query_learned(const struct wn_filter *filter,
					const struct wn__lessons *lessons,
					struct wn_hash hash, struct wn_match *matchp);

/* What wn__filter_query_learned() does where the filter itself has said "maybe", with this
 * match. */
bool wn__filter_heed(const struct wn_filter *filter, const struct wn__lessons *lessons,
		     struct wn_hash hash, struct wn_match *match);

/* Do the lessons say that a query with this hash is none of the stored keys of its minirun? For
 * readers: no lock. */
bool wn__lessons_deny(const struct wn__lessons *lessons, uint64_t minirun, struct wn_hash hash);

/* The query matched at *match and was wrong: the fingerprint there is that of `stored`, whose
 * quotient and remainder are checked; extensions that the block may hold are not. 0 also when
 * that was known. WN_ERR_UNFIXABLE if the two are equal. WN_ERR_MISMATCH if stored or query are
 * not what the fingerprint stands for, or if two hashes were brought for one fingerprint: then
 * one of them was wrong, nobody can tell which, and the filter's lessons are dropped for good.
 * WN_ERR_NOT_FOUND: the match names no fingerprint, or the filter was forgotten. ENOMEM,
 * WN_ERR_FULL: no memory or no room; counted as refused. WN_ERR_RANGE: a rank beyond a
 * million. */
int wn__lessons_learn(struct wn__lessons *lessons, struct wn_hash stored, struct wn_hash query,
		      const struct wn_match *match);

/* For kinds without fingerprints: the query is in this minirun, was wrong, and the stored
 * keys of the minirun are these `count`, in order, and no others. A KEY THAT IS LEFT OUT
 * IS DENIED: the caller has seen that there are no more (WN__MAP_NO_PLACE). Results as
 * above; WN_ERR_UNFIXABLE if the query is one of them. */
int wn__lessons_learn_minirun(struct wn__lessons *lessons,
					const struct wn_hash *stored, uint32_t count,
					struct wn_hash query, uint64_t minirun);

/* ---- to and from bytes (lessons_save.c) ----------------------------- */

/* All lessons. *bytesp is malloc()ed; free it with free(). What is learned meanwhile
 * may or may not be in it. */
int wn__registry_save(struct wn__registry *registry, void **bytesp, size_t *sizep);

/* Add the lessons that are in the bytes. Damage: WN_ERR_CORRUPT or WN_ERR_VERSION,
 * and nothing is loaded. On any other failure what was loaded before it stays: each
 * lesson is true on its own. WN_ERR_MISMATCH: a filter is there with another shape or
 * other bits, and its record was passed over. */
int wn__registry_load(struct wn__registry *registry, const void *bytes, size_t size);

/* For hosts that save what has changed, again and again. From track() on, lessons are
 * listed as they are learned, up to WN__REGISTRY_MAX_CHANGES of them. take_changes() gives
 * the list as records, one behind the other, and empties it; *bytesp is malloc()ed, NULL
 * if there is nothing. WN_ERR_FULL: there were more changes than the list holds, or no
 * memory; the list is empty now, and only wn__registry_save() has everything. */
#define WN__REGISTRY_MAX_CHANGES 65536
void wn__registry_track(struct wn__registry *registry);
void wn__registry_untrack(struct wn__registry *registry); /* the list goes */
int wn__registry_take_changes(struct wn__registry *registry, void **bytesp,
					size_t *sizep);

/* Add the lessons of the one record that the bytes begin with; *usedp is how long it is, 0 if
 * it is damaged (WN_ERR_CORRUPT, WN_ERR_VERSION). Other results as of wn__registry_load(). */
int wn__registry_load_record(struct wn__registry *registry, const void *bytes,
				       size_t size, size_t *usedp);

/* Forget the lessons of every filter whose id is not among the `count` ids, which are in
 * ascending order by memcmp(). How many filters that were. */
size_t wn__registry_retain(struct wn__registry *registry,
				    const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count);

WN_END_DECLS

#endif /* WN_LEARN_LESSONS_H */
