/* negatives.h - the keys, as hashes, that filters were wrong about.
 *
 * A new table's filter is built such that it says "no" to them: what the old filters
 * had learned is not lost when a compaction replaces them. Each hash has a cost, how
 * often it was reported of late: costs fade, halving with every so many reports.
 *
 * The number of hashes is bounded. When it is reached the cheapest quarter goes, found
 * exactly, in one go. So a hash that is reported once is forgotten first, and a hash
 * that keeps being reported stays.
 *
 * Hashes mean nothing under another secret: a table is bound to one for life.
 *
 * Thread safety: any function, any thread; there is one lock. */
#ifndef WN_LEARN_NEGATIVES_NEGATIVES_H
#define WN_LEARN_NEGATIVES_NEGATIVES_H

#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

#define WN__NEGATIVES_CAPACITY 65536
#define WN__NEGATIVES_MAX_CAPACITY (UINT32_C(1) << 28)

struct wn__negatives;

/* Zero means default. */
struct wn__negatives_options {
	uint32_t capacity;  /* hashes; 4 to WN__NEGATIVES_MAX_CAPACITY; default 65,536 */
	uint64_t half_life; /* reports after which a cost is half; default 8 * capacity */
};

struct wn__negative {
	struct wn_hash hash;
	double cost; /* as of now */
};

struct wn__negatives_stats {
	uint64_t count;
	uint64_t reports;    /* calls of wn__negatives_add() that were heeded */
	uint64_t dropped;    /* hashes forgotten for lack of room */
	uint64_t generation; /* rises with every change: is there anything to save? */
	uint64_t bytes;
};

/* For hashes under the secret that `seed` (WN_SEED_SIZE bytes, not retained) makes.
 * options may be NULL. */
int wn__negatives_create(const struct wn__negatives_options *options, const void *seed,
				   struct wn__negatives **negativesp);
void wn__negatives_destroy(struct wn__negatives *negatives); /* NULL is fine */

/* A filter was wrong about `hash`, under the secret with this short id
 * (wn_secret_id()). cost: 1 for one mistake. WN_ERR_MISMATCH: another secret's;
 * WN_ERR_INVALID: a cost that is not above 0, or above 1e15; ENOMEM: not noted. */
int wn__negatives_add(struct wn__negatives *negatives, uint32_t secret_id,
				struct wn_hash hash, double cost);

/* What a table was at one moment: all of it, the costliest first, equal costs in the order of
 * the hashes. Everybody who asks between two changes gets the same one, so that a host which
 * builds many filters at once pays for sorting once. */
struct wn__negatives_view {
	const struct wn__negative *negatives;
	size_t count;
};

/* NULL: no memory. Let it go with unview; NULL is fine there. */
const struct wn__negatives_view *wn__negatives_view(struct wn__negatives *negatives);
void wn__negatives_unview(const struct wn__negatives_view *view);

void wn__negatives_describe(struct wn__negatives *negatives,
				      struct wn__negatives_stats *statsp);

/* All of it as bytes (doc/formats.md). *bytesp is malloc()ed. *generationp (may be
 * NULL) is the state that was saved. */
int wn__negatives_save(struct wn__negatives *negatives, void **bytesp, size_t *sizep,
				 uint64_t *generationp);

/* Add what is in the bytes, at the costs they had then. Damage: WN_ERR_CORRUPT or
 * WN_ERR_VERSION; another secret's: WN_ERR_MISMATCH; either way nothing is loaded.
 * ENOMEM: what was loaded before stays. */
int wn__negatives_load(struct wn__negatives *negatives, const void *bytes, size_t size);

/* The same for the one table that the bytes begin with: other bytes may follow. *usedp is how
 * long it is, 0 if it is damaged. */
int wn__negatives_load_first(struct wn__negatives *negatives, const void *bytes,
				       size_t size, size_t *usedp);

/* For hosts that save what has changed, again and again: as wn__registry_track() and
 * wn__registry_take_changes(). What was reported since is given in the form of a table. */
#define WN__NEGATIVES_MAX_CHANGES 65536
void wn__negatives_track(struct wn__negatives *negatives);
int wn__negatives_take_changes(struct wn__negatives *negatives, void **bytesp,
					 size_t *sizep);

WN_END_DECLS

#endif /* WN_LEARN_NEGATIVES_NEGATIVES_H */
