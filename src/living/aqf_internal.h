/* aqf_internal.h - what the files of the living adaptive quotient filter share. */
#ifndef WN_LIVING_AQF_INTERNAL_H
#define WN_LIVING_AQF_INTERNAL_H

#include <winnow/aqf.h>

#include "aqf_lock.h"
#include "kinds/aqf/aqf_table.h"

struct wn__scan; /* kinds/aqf/aqf_bulk.h */

struct wn_aqf {
	struct wn__table table;
	/* The same memory as table.words and table.offsets, to be written. */
	uint64_t *words;
	uint8_t *offsets;
	struct wn__region *regions;
	uint64_t region_count;
	uint64_t *stamps; /* of groups of miniruns; see aqf_lock.h */
	uint64_t stamp_mask;
	/* Slots in use are either kept (fingerprints and counters) or extensions. Inserts
	 * and counts have insert_limit slots, whatever was learned: extensions have those
	 * from there to adapt_limit. */
	uint64_t kept; /* less what the regions have pending */
	uint64_t extensions;
	unsigned counting; /* enum wn__counting (aqf_room.h): may the regions have any pending? */
	uint64_t first_fingerprints; /* when the filter was made; the regions count from there */
	uint64_t insert_limit;
	uint64_t adapt_limit;
	double load;
	double adapt_load;
	bool fast;
};

/* ---- lifecycle (aqf.c) -------------------------------------------------- */

/* Check options and fill in defaults. */
int wn__aqf_check_options(const struct wn_aqf_options *options, struct wn_aqf_options *fullp);

/* An empty filter of a given shape. */
int wn__aqf_create_shape(uint64_t slots, unsigned remainder_bits, unsigned extension_bits,
			 unsigned tag_bits, double load, double adapt_load,
			 struct wn_aqf **aqfp);

/* Slots in use; fingerprints. */
uint64_t wn__aqf_used(const struct wn_aqf *aqf);
uint64_t wn__aqf_fingerprints(const struct wn_aqf *aqf);

WN__INLINE uint64_t *wn__stamp_of(const struct wn_aqf *aqf, uint64_t minirun)
{
	return &aqf->stamps[minirun & aqf->stamp_mask];
}

/* ---- moving slots (aqf_shift.c) ----------------------------------------- */

/* Words and slots of a living table, for its writer. */
void wn__set_slot(struct wn_aqf *aqf, uint64_t slot, uint64_t content);
void wn__set_meta(struct wn_aqf *aqf, unsigned which, uint64_t slot, bool on);

/* Move the slots [slot, empty) up by one and leave an empty slot at `slot`. The
 * caller has seen that `empty` is the first empty slot. Offsets of the blocks
 * after `quotient`'s, up to that of `empty`, are raised. */
void wn__open_gap(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t empty);

/* Take the slot out: move the slots (slot, stop) down by one. `stop` is the
 * first slot behind that is empty or the start of a run in its own place. */
void wn__close_gap(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t stop);

/* ---- whole filters (aqf_bulk.c) ----------------------------------------- */

/* Load the entries of `scan` into an empty living filter; WN_ERR_CORRUPT if the
 * scan runs out of its table. */
int wn__aqf_load_scan(struct wn_aqf *aqf, struct wn__scan *scan);

#endif /* WN_LIVING_AQF_INTERNAL_H */
