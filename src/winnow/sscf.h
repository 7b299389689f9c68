/* sscf.h - the seesaw counting filter: a set that keys enter and leave, and that takes
 * care of vulnerable keys: absent ones whose false positives cost more than others'.
 *
 * Keys come as hashes (hash.h). A vulnerable key seals its cells; keys that come later
 * and would use a sealed cell use another one instead, and a small table, the
 * HashModulator, remembers which. With `adaptive` set, vulnerable keys may be named at
 * any time (the paper's ada-SSCF): cells that are in use are sealed once the last key has
 * left them.
 *
 * A key that was inserted is never answered "no" until it is deleted as often as it was
 * inserted. Counters that have reached their maximum stay there: the filter then errs
 * towards "maybe".
 *
 * Thread safety: any number of threads may query, or one may do anything else. */
#ifndef WINNOW_SSCF_H
#define WINNOW_SSCF_H

#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

struct wn_sscf;

/* Zero means default. */
struct wn_sscf_options {
	uint64_t capacity;      /* keys; must be given. More may be inserted: accuracy falls */
	double bits_per_key;    /* all memory of the filter, by capacity; 4 to 1000; default 20 */
	uint64_t vulnerable;    /* vulnerable keys to expect; default capacity / 20 */
	double vulnerable_cost; /* their share of the costs of all negatives, up to 1;
				 * default 0.8 */
	bool adaptive;          /* vulnerable keys may come later, for a bit more a cell */
	unsigned cell_bits;     /* of a positive cell's counter, 2 to 4; default 4 */
	unsigned counter_bits;  /* of a modulator cell's counter, 1 to 12; default 3 */
	unsigned index_bits;    /* of a modulator cell's index, 1 to 3; default 1 */

	/* By default these are chosen such that the cost-weighted rate of false positives
	 * is least. */
	unsigned hashes;        /* initial hash functions, 1 to 32 */
	double modulator_share; /* of the memory, up to 0.9 */
	uint64_t reserved[4];   /* zero; options of later versions (common.h) */
};

/* The caller owns *sscfp. WN_ERR_INVALID: no capacity, options out of range, or so few
 * bits (bits_per_key * capacity, less the modulator's share) that there is not one cell. */
WN_PUBLIC int wn_sscf_create(const struct wn_sscf_options *options, struct wn_sscf **sscfp);
WN_PUBLIC void wn_sscf_destroy(struct wn_sscf *sscf); /* NULL is fine */

/* Name a vulnerable key. Of its cells, those without keys are sealed; those in use are
 * sealed later if the filter is adaptive, and never if it is not: name vulnerable keys
 * first. Naming one again does nothing. One that is in the set, or comes later, is
 * answered "maybe" as any key is. WN_ERR_FULL: the cells to be sealed are half as many
 * again as options.vulnerable keys would seal; more would make the filter worse for all. */
WN_PUBLIC int wn_sscf_add_vulnerable(struct wn_sscf *sscf, struct wn_hash hash);

/* A key enters, as often as it is inserted. */
WN_PUBLIC void wn_sscf_insert(struct wn_sscf *sscf, struct wn_hash hash);

/* A key leaves. WN_ERR_NOT_FOUND, and nothing is changed, if it certainly was not there.
 * To delete a key that was not there and is a false positive breaks the promise to
 * others: delete only what was inserted. */
WN_PUBLIC int wn_sscf_delete(struct wn_sscf *sscf, struct wn_hash hash);

/* May the key be in the set? false is certain. */
WN_PUBLIC bool wn_sscf_query(const struct wn_sscf *sscf, struct wn_hash hash);

/* Make a block of the filter as it is (filter.h opens it), for hashes under `secret`.
 * *blockp is malloc()ed. With `keep_negatives` the block gives the filter's answer to
 * every hash. Without, it is about half the size, and says "maybe" to all that the filter
 * does and to more: where the filter turned down a second round by looking at sealed
 * cells (to 27% of unlisted negatives instead of 16%, at 20 bits a key). Who has all keys
 * at hand builds an "sscf" block (filter.h) instead, which is better than either. */
WN_PUBLIC int wn_sscf_freeze(const struct wn_sscf *sscf, const struct wn_secret *secret,
			     bool keep_negatives, void **blockp, size_t *sizep);

struct wn_sscf_info {
	uint64_t keys;            /* inserted less deleted */
	uint64_t cells;
	uint64_t used_cells;      /* with keys */
	uint64_t sealed_cells;    /* of vulnerable keys */
	uint64_t mixed_cells;     /* of both */
	uint64_t waiting_cells;   /* to be sealed when they are empty */
	uint64_t stuck_cells;     /* at their maximum, for good */
	uint64_t modulator_cells;
	uint64_t modulator_used;
	uint64_t modulator_stuck;
	uint64_t triggered;       /* insertions that met a sealed cell, ever; of these: */
	uint64_t failed;          /* found no function to stand in */
	unsigned hashes;
	uint64_t bytes;           /* the filter's memory */
	double expected_rate;     /* for negatives that nobody listed, by formula, at capacity */
	double expected_vulnerable_rate;
	uint64_t reserved[6];     /* zero */
};

/* Counts cell by cell: slow. */
WN_PUBLIC void wn_sscf_describe(const struct wn_sscf *sscf, struct wn_sscf_info *infop);

WN_END_DECLS

#endif /* WINNOW_SSCF_H */
