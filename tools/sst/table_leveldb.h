/* table_leveldb.h - LevelDB's filter block: many small filters in one block. */
#ifndef WN_TOOLS_SST_TABLE_LEVELDB_H
#define WN_TOOLS_SST_TABLE_LEVELDB_H

#include "span.h"

struct small_filters {
	struct span content;  /* borrowed */
	size_t count;
	size_t offsets_at;    /* where the list of their places starts */
	unsigned base_lg;     /* a filter is for data blocks that start within 2^base_lg bytes */
};

/* NULL, or what is wrong. */
const char *small_filters_open(struct small_filters *small, struct span content);

/* Filter `index`, below `count`; false if it is not inside the block. It may be of no
 * bytes: then no data block starts in its range. */
bool small_filters_get(const struct small_filters *small, size_t index, struct span *bytesp);

#endif /* WN_TOOLS_SST_TABLE_LEVELDB_H */
