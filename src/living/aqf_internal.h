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
	unsigned counting; /* enum wn__counting (aqf_room.h): may the regions have any pending? */
	bool fast;
	uint64_t first_fingerprints; /* when the filter was made; the regions count from there */
	uint64_t insert_limit;
	uint64_t adapt_limit;
	double load;
	double adapt_load;
	/* Slots in use are either kept (fingerprints and counters) or extensions. Inserts
	 * and counts have insert_limit slots, whatever was learned: extensions have those
	 * from there to adapt_limit. A cache line of their own: who writes them must not
	 * take from the others what all of them read. */
	_Alignas(64) uint64_t kept; /* less what the regions have pending */
	uint64_t extensions;
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

/* All stores are single relaxed words: a reader that looks on sees old and new words in
 * any mix, and finds out by the version. */
WN__INLINE uint64_t wn__load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

WN__INLINE void wn__store(uint64_t *word, uint64_t bits)
{
	__atomic_store_n(word, bits, __ATOMIC_RELAXED);
}

/* Insert a bit at bit `first` of a word: the bits [first, last) move up by one. The bit that
 * was the word's last. */
WN__INLINE bool wn__insert_bit(uint64_t *at, unsigned first, unsigned last, bool bit)
{
	uint64_t word = wn__load(at);
	uint64_t above = UINT64_MAX << first;
	uint64_t changed = above & UINT64_MAX >> (63 - last);

	wn__store(at, (word & ~changed) |
			      (((word & above) << 1 | (uint64_t)bit << first) & changed));
	return word >> 63;
}

/* One more slot of smaller blocks' quotients reaches into the block, or beyond it. */
WN__INLINE void wn__raise_offset(struct wn_aqf *aqf, uint64_t block)
{
	unsigned offset = wn__offset_byte(&aqf->table, block);

	if (offset < WN__OFFSET_MANY)
		__atomic_store_n(&aqf->offsets[block], (uint8_t)(offset + 1), __ATOMIC_RELAXED);
}

/* Words and slots of a living table, for its writer. */
void wn__set_slot(struct wn_aqf *aqf, uint64_t slot, uint64_t content);
void wn__set_meta(struct wn_aqf *aqf, unsigned which, uint64_t slot, bool on);

/* All there is to a slot. */
struct wn__slot_bits {
	uint64_t content;
	bool runend, extension;
};

/* Put a slot in at `slot`: the slots [slot, empty) move up by one. The caller has seen that
 * `empty` is the first empty slot. Offsets of the blocks after `quotient`'s, up to that of
 * `empty`, are raised. */
void wn__insert_slot(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t empty,
		     struct wn__slot_bits bits);

/* Take the slot out: move the slots (slot, stop) down by one. `stop` is the
 * first slot behind that is empty or the start of a run in its own place. */
void wn__close_gap(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t stop);

/* ---- whole filters (aqf_bulk.c) ----------------------------------------- */

/* Load the entries of `scan` into an empty living filter; WN_ERR_CORRUPT if the
 * scan runs out of its table. */
int wn__aqf_load_scan(struct wn_aqf *aqf, struct wn__scan *scan);

#endif /* WN_LIVING_AQF_INTERNAL_H */
