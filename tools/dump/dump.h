/* dump.h - all that can be said about one table and its filters. */
#ifndef WN_TOOLS_DUMP_DUMP_H
#define WN_TOOLS_DUMP_DUMP_H

#include <stdio.h>

#include "filters.h"
#include "tools/sst/problems.h"
#include "tools/sst/table.h"
#include "tools/sst/table_rocksdb.h"

struct dump_options {
	bool verify;                    /* read every block, ask for every key */
	const struct wn_secret *secret; /* for filters without their own, or NULL */
};

struct dump {
	bool is_table;          /* the footer could be read */
	struct problems problems;
	struct table table;
	struct properties properties;
	struct filters filters;

	/* From walking the data blocks, if that was done: */
	bool walked;
	uint64_t data_blocks, entries;
	uint64_t compressions;  /* a bit for each method seen, the highest for all others */
	uint64_t keys_asked, prefixes_asked, denied;
	const char *unasked;    /* why not every key was asked for, or NULL */

	/* Not for others: */
	struct block metaindex_block, index_block, dictionary_block;
	struct handle properties_handle, dictionary_handle;
	uint64_t data_end, index_end;
};

/* Look at a file's bytes, which are borrowed until dump_release(). Whatever they are,
 * this comes to an end; what is wrong with them is in dump->problems. */
void dump_read(struct dump *dump, struct span file, const struct dump_options *options);
void dump_release(struct dump *dump);

/* Keys that the filters are for: their own count, or RocksDB's, or the walk's; 0 if
 * nobody knows. */
uint64_t dump_filter_keys(const struct dump *dump);
double dump_bits_per_key(const struct dump *dump);
const char *dump_filter_kind(const struct dump *dump); /* "aqf", "bloom", ..., "none" */

/* For people, and for programs. */
void dump_print_text(const struct dump *dump, const char *path, FILE *to);
void dump_print_json(const struct dump *dump, const char *path, FILE *to);

#endif /* WN_TOOLS_DUMP_DUMP_H */
