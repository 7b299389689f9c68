/* aqf.h - the adaptive quotient filter: a set that learns from its false positives.
 *
 * This is the living form: insert, delete, count, adapt, grow, merge. It takes
 * hashes, not keys, and knows nothing of where the keys are kept: whoever holds
 * the reverse map (reversemap.h) brings the stored key's hash. Filters over an
 * SSTable's immutable block are opened with filter.h.
 *
 * Thread safety: any number of threads may query, and any number may insert,
 * delete, count and adapt, all at the same time; those who insert and delete with a
 * reverse map do it between wn_aqf_begin_change() and wn_aqf_end_change(). Queries
 * take no lock and write no shared memory. create, destroy, grow, shrink, merge,
 * cursors and freeze must not run while another thread changes the same filter.
 *
 * Every function that fails leaves the filter as it was. */
#ifndef WINNOW_AQF_H
#define WINNOW_AQF_H

#include <winnow/common.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

#define WN_AQF_MIN_REMAINDER_BITS 2
#define WN_AQF_MAX_REMAINDER_BITS 32
#define WN_AQF_MAX_LOAD 0.95
#define WN_AQF_MAX_KEYS (UINT64_C(1) << 32)

struct wn_aqf;

/* Zero means default. */
struct wn_aqf_options {
	uint64_t capacity;       /* keys it must hold, whatever it learns; 1 to WN_AQF_MAX_KEYS;
				  * no default. A key's counter takes the room of further
				  * keys, one for each remainder_bits bits of its count */
	unsigned remainder_bits; /* 2 to 32; default 9: one false positive in 512 at full load */
	double load;             /* share of the slots for keys and counters; up to 0.95,
				  * which is the default */
	double adapt_load;       /* the slots from `load` to here are for extensions, and for
				  * counters that found no room; load to 0.99; default 0.98.
				  * 64 slots at least, in a filter of so many keys */
	unsigned tag_bits;       /* 0 or 1: a bit of the caller's beside each fingerprint */
	uint64_t reserved[4];    /* zero; options of later versions (common.h) */
};

WN_PUBLIC int wn_aqf_create(const struct wn_aqf_options *options, struct wn_aqf **aqfp);
WN_PUBLIC void wn_aqf_destroy(struct wn_aqf *aqf);

/* Build from `count` hashes in ascending order, equal ones kept apart as
 * separate fingerprints. options->capacity 0 means `count`. The hashes are not
 * retained. WN_ERR_INVALID if they are not in order. */
WN_PUBLIC int wn_aqf_bulk_load(const struct wn_aqf_options *options, const struct wn_hash *hashes,
			       size_t count, struct wn_aqf **aqfp);

/* Add a fingerprint at the back of its minirun; *matchp (may be NULL) says where
 * it went. Within a change of filter and map (below) take only the rank from it. The
 * same hash may be inserted again: it becomes one more fingerprint.
 * Whether that is the same key only the reverse map can tell; see wn_aqf_count_add().
 * `tag` must fit in the filter's tag_bits.
 * WN_ERR_FULL when keys and counters fill their share of the slots, not before (except
 * for hashes, not random ones, that crowd the last slots). */
WN_PUBLIC int wn_aqf_insert(struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp);
WN_PUBLIC int wn_aqf_insert_tagged(struct wn_aqf *aqf, struct wn_hash hash, unsigned tag,
				   struct wn_match *matchp);

/* May a key with this hash be in the set? *matchp (may be NULL) is the first
 * fingerprint that matches. Next: the first one after *matchp, for the same hash; if
 * the stamp has changed, ranks have, and what comes next may be another one. */
WN_PUBLIC bool wn_aqf_query(const struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp);
WN_PUBLIC bool wn_aqf_query_next(const struct wn_aqf *aqf, struct wn_hash hash,
				 struct wn_match *matchp);
/* As wn_aqf_query(), with the tag of the match, read at the same moment. */
WN_PUBLIC bool wn_aqf_query_tag(const struct wn_aqf *aqf, struct wn_hash hash,
				struct wn_match *matchp, unsigned *tagp);
WN_PUBLIC void wn_aqf_query_batch(const struct wn_aqf *aqf, const struct wn_hash *hashes,
				  size_t count, bool *answersp);

/* The minirun id of a hash; how many fingerprints that minirun holds. The id
 * stays the same through grow and shrink. */
WN_PUBLIC uint64_t wn_aqf_minirun(const struct wn_aqf *aqf, struct wn_hash hash);
WN_PUBLIC uint32_t wn_aqf_minirun_length(const struct wn_aqf *aqf, uint64_t minirun);

/* ---- ranks, and a reverse map in step ------------------------------------
 *
 * A rank leads from a fingerprint to its entry in the reverse map. It is good until
 * a fingerprint of the minirun is removed: then the ranks behind move down, and a
 * function that is given an old one would change another key's fingerprint. So a
 * match carries a stamp, which changes with the ranks, and every function that is
 * given a match refuses an old one: WN_ERR_STALE, nothing is changed, find it again.
 * A stamp stands for a group of miniruns; a refusal may be another minirun's doing.
 *
 * Two ways to use a rank:
 *  - take the match (wn_aqf_query(), wn_aqf_locate()) first, then read the map, then
 *    use both. No lock is held while the map is read.
 *  - between begin_change and end_change. Ranks of this minirun then change by the
 *    caller alone, and the matches of all others are stale. Required to insert and
 *    delete where a map follows: filter and map must change in one order, and nobody
 *    may use the one with the other while only one of them has changed. */

/* The minirun of `hash` and its present stamp, with rank 0; the caller sets the rank
 * that the map gives for the key. */
WN_PUBLIC struct wn_match wn_aqf_locate(const struct wn_aqf *aqf, struct wn_hash hash);

/* Begin a change of filter and map for the minirun of `hash`: wait for the change of
 * another thread in the same group of miniruns, if there is one. The result is a match
 * with rank 0 that is good until wn_aqf_end_change(), for the caller only. A thread
 * makes one such change at a time. Queries and other groups' changes do not wait. */
WN_PUBLIC struct wn_match wn_aqf_begin_change(struct wn_aqf *aqf, struct wn_hash hash);
WN_PUBLIC void wn_aqf_end_change(struct wn_aqf *aqf, struct wn_match change);

/* The functions below speak of one fingerprint: the one of the key with hash
 * `stored`, at `match`. WN_ERR_STALE as above; WN_ERR_NOT_FOUND if the minirun has no
 * such rank; WN_ERR_MISMATCH if the fingerprint there, or the minirun, does not fit
 * `stored`. */

/* Take one count off the fingerprint; the last one removes it, and the ranks
 * behind it in the minirun move down by one. *removedp (may be NULL) says
 * whether the fingerprint is gone. */
WN_PUBLIC int wn_aqf_delete(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
			    bool *removedp);

/* How often the key was inserted (1 for a new fingerprint), and add to that.
 * WN_ERR_RANGE past UINT64_MAX. */
WN_PUBLIC int wn_aqf_count(const struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
			   uint64_t *countp);
WN_PUBLIC int wn_aqf_count_add(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
			       uint64_t add);

/* Read or change the tag. */
WN_PUBLIC int wn_aqf_tag(const struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
			 unsigned *tagp);
WN_PUBLIC int wn_aqf_set_tag(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
			     unsigned tag);

/* A query for `query` matched the fingerprint at `match` and was wrong. Extend that
 * fingerprint with bits of `stored`, the hash of the key it stands for, until
 * `query` no longer matches. 0 also when it did not match any more.
 * WN_ERR_UNFIXABLE if the two hashes are equal, WN_ERR_FULL when there is no room. */
WN_PUBLIC int wn_aqf_adapt(struct wn_aqf *aqf, struct wn_hash stored, struct wn_hash query,
			   struct wn_match match);

/* Fetch from a reverse map the hash stored at (minirun, rank). No lock is held. Any
 * result but 0 ends the caller's work with that result, unless ranks have changed. */
typedef int wn_fetch_fn(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp);

/* Adapt every fingerprint that matches `query`. *fixedp (may be NULL): how many
 * were extended. Those extended before a failure stay extended. A stored key
 * with the query's own full hash is passed over and makes the result
 * WN_ERR_UNFIXABLE once the others are done. Starts over when ranks change on the
 * way; WN_ERR_STALE after WN_AQF_ADAPT_TRIES such starts: the next false positive
 * can teach what is missing. Not between begin_change and end_change. */
#define WN_AQF_ADAPT_TRIES 256
WN_PUBLIC int wn_aqf_adapt_all(struct wn_aqf *aqf, struct wn_hash query, wn_fetch_fn *fetch,
			       void *arg, uint32_t *fixedp);

/* For lists where every hash that must be told apart is itself stored (YES/NO
 * lists): cut the extensions of the minirun's fingerprints to what tells them
 * from each other. Not for filters that were adapted against queries: what was
 * learned would be lost. *freedp (may be NULL): slots given back. */
WN_PUBLIC int wn_aqf_shorten(struct wn_aqf *aqf, uint64_t minirun, uint64_t *freedp);

/* Twice the slots and one remainder bit less; half the slots and one more. The
 * fingerprints, their ranks and minirun ids, extensions and counts stay. The
 * original is untouched; the caller owns *newp. A filter that ends up with more
 * extensions than its slots from load to adapt_load takes fewer keys. grow:
 * WN_ERR_INVALID when only 2 remainder bits are left; shrink: WN_ERR_INVALID for an
 * odd number of slots or 32 remainder bits, WN_ERR_FULL when half the slots are too
 * few. */
WN_PUBLIC int wn_aqf_grow(const struct wn_aqf *aqf, struct wn_aqf **newp);
WN_PUBLIC int wn_aqf_shrink(const struct wn_aqf *aqf, struct wn_aqf **newp);

/* A new filter with the fingerprints of both, doubled as often as needed to
 * hold them. In a shared minirun a's fingerprints come first, then b's: a rank
 * of b moves up by the length of a's minirun. WN_ERR_MISMATCH unless slots,
 * remainder bits and tag bits are equal (and, if both hold extensions, their
 * size). Both must have been filled under one secret; that cannot be seen here. */
WN_PUBLIC int wn_aqf_merge(const struct wn_aqf *a, const struct wn_aqf *b, struct wn_aqf **newp);

/* ---- enumerate ---------------------------------------------------------- */

struct wn_aqf_entry {
	uint64_t minirun;
	uint32_t rank;
	uint32_t extensions;   /* extension slots */
	uint64_t count;
	unsigned tag;
	struct wn_hash fraction; /* the stored bits behind the quotient, first bit on top */
	unsigned fraction_bits;  /* how many those are: remainder and extensions */
	uint64_t reserved[2];    /* zero */
};

/* Fields are private; a cursor needs no cleaning up. */
struct wn_aqf_cursor {
	const struct wn_aqf *aqf;
	uint64_t quotient;
	uint64_t slot;
	uint64_t minirun;
	uint32_t rank;
	bool in_run;
	uint64_t reserved[2];
};

WN_PUBLIC void wn_aqf_cursor_init(struct wn_aqf_cursor *cursor, const struct wn_aqf *aqf);
/* The next fingerprint in order, or false at the end. */
WN_PUBLIC bool wn_aqf_cursor_next(struct wn_aqf_cursor *cursor, struct wn_aqf_entry *entryp);

/* ---- to and from blocks ------------------------------------------------- */

/* Write the filter as a block. *blockp is malloc()ed; free it with free().
 * `secret` is the one the hashes were made with. A filter without extensions
 * and counters leaves their metadata bit out. */
WN_PUBLIC int wn_aqf_freeze(const struct wn_aqf *aqf, const struct wn_secret *secret,
			    void **blockp, size_t *sizep);

/* A living copy of an AdaptiveQF block; every byte is checked. options (may be
 * NULL) gives load and adapt_load; the rest comes from the block. */
WN_PUBLIC int wn_aqf_thaw(const void *block, size_t size, const struct wn_aqf_options *options,
			  struct wn_aqf **aqfp);

/* ---- describe ----------------------------------------------------------- */

struct wn_aqf_info {
	uint64_t slots;            /* home slots: quotients run from 0 to slots - 1 */
	uint64_t used_slots;       /* slots that hold anything */
	uint64_t fingerprints;
	uint64_t extensions;       /* slots that hold extensions */
	uint64_t counters;         /* slots that hold counter digits */
	uint64_t insert_limit;     /* fingerprints and counters at which inserts end */
	uint64_t adapt_limit;      /* used slots at which adaptations end, with those counted in
				    * that insert_limit still reserves */
	unsigned remainder_bits;
	unsigned extension_bits;
	unsigned tag_bits;
	size_t bytes;              /* memory of the filter, all of it */
	uint64_t reserved[6];      /* zero */
};

WN_PUBLIC void wn_aqf_describe(const struct wn_aqf *aqf, struct wn_aqf_info *infop);

WN_END_DECLS

#endif /* WINNOW_AQF_H */
