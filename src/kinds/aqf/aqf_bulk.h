/* aqf_bulk.h - walk a table's fingerprints in order, and load a table in order. */
#ifndef WN_KINDS_AQF_AQF_BULK_H
#define WN_KINDS_AQF_AQF_BULK_H

#include <winnow/hash.h>

#include "aqf_table.h"

struct wn__entry {
	uint64_t minirun;
	uint32_t extensions;
	unsigned tag;
	uint64_t count;
	uint64_t hi, lo; /* the bits in the extensions, the first on top */
};

#define WN__NO_MINIRUN UINT64_MAX

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

#endif /* WN_KINDS_AQF_AQF_BULK_H */
