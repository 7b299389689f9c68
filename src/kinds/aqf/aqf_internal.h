/* aqf_internal.h - what the files of the adaptive quotient filter share. */
#ifndef WN_KINDS_AQF_AQF_INTERNAL_H
#define WN_KINDS_AQF_AQF_INTERNAL_H

#include <winnow/aqf.h>
#include <winnow/error.h>

#include "living/aqf_lock.h"
#include "aqf_table.h"
#include "kinds/kind.h"

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
	unsigned counting; /* enum counting in aqf_write.c: may the regions have any pending? */
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

/* Slots for a number of keys at a load; never 0. */
uint64_t wn__aqf_slots_for(uint64_t keys, double load);

/* Are these parameters within the limits? */
bool wn__aqf_shape_is_valid(uint64_t slots, unsigned remainder_bits, unsigned extension_bits,
			    unsigned tag_bits);

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

/* ---- queries (aqf_query.c) ---------------------------------------------- */

/* Queries over a frozen table; `state` is a struct wn__table. The portable ones are
 * right for every table, the others the fastest for a table on this CPU. */
wn__query_fn wn__frozen_query_portable;
wn__query_batch_fn wn__frozen_batch_portable;
wn__query_fn *wn__frozen_query_for(const struct wn__table *table);
wn__query_batch_fn *wn__frozen_batch_for(const struct wn__table *table);

/* The first fingerprint that matches from `rank` on; what comes after a match is
 * found from its rank + 1. Not known: the table is damaged, and the answer "maybe". */
bool wn__frozen_query_from(const struct wn__table *table, struct wn_hash hash, uint32_t rank,
			   struct wn_match *matchp);

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

/* ---- enumerate and load (aqf_bulk.c) ------------------------------------ */

struct wn__entry {
	uint64_t minirun;
	uint32_t extensions;
	unsigned tag;
	uint64_t count;
	uint64_t hi, lo; /* the bits in the extensions, the first on top */
};

#define WN__NO_MINIRUN UINT64_MAX

/* Counter digits of a count. */
unsigned wn__counter_digits(uint64_t count, unsigned slot_bits);

/* Appends fingerprints in order to an empty table, words in native order. */
struct wn__loader {
	const struct wn__table *table;
	uint64_t *words;
	uint8_t *offsets;
	uint64_t slot;       /* the next free one */
	uint64_t last_slot;  /* of the last fingerprint's remainder */
	uint64_t quotient;   /* its quotient */
	uint64_t next_block; /* the first whose offset is not written yet */
	uint64_t fingerprints;
	uint64_t extensions; /* slots */
	uint64_t counters;   /* slots */
};

void wn__loader_init(struct wn__loader *loader, const struct wn__table *table, uint64_t *words,
		     uint8_t *offsets);
/* Write the offsets of the blocks up to `block`: all content of smaller
 * quotients is there. */
void wn__loader_fill_offsets(struct wn__loader *loader, uint64_t block);
/* WN_ERR_FULL when it would pass the table's end: the table is then useless. */
int wn__loader_add(struct wn__loader *loader, const struct wn__entry *entry);
void wn__loader_end(struct wn__loader *loader);

/* Add hashes in ascending order, without extensions and counters. */
int wn__loader_add_hashes(struct wn__loader *loader, const struct wn_hash *hashes, size_t count);

/* Walks a table of either form; as struct wn_aqf_cursor does. */
struct wn__scan {
	const struct wn__table *table;
	uint64_t quotient;
	uint64_t slot;
	bool live;
	bool in_run;
	bool damaged; /* set when the scan ran out of the table */
};

void wn__scan_init(struct wn__scan *scan, const struct wn__table *table, bool live);
bool wn__scan_next(struct wn__scan *scan, struct wn__entry *entryp);

/* Load the entries of `scan` into an empty living filter; WN_ERR_CORRUPT if the
 * scan runs out of its table. */
int wn__aqf_load_scan(struct wn_aqf *aqf, struct wn__scan *scan);

/* ---- describe (aqf_clusters.c) ------------------------------------------- */

int wn__aqf_clusters(const struct wn_filter *filter, wn__cluster_fn *visit, void *context);

#endif /* WN_KINDS_AQF_AQF_INTERNAL_H */
