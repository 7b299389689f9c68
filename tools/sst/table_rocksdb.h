/* table_rocksdb.h - what RocksDB's tables tell about themselves: the properties block. */
#ifndef WN_TOOLS_SST_TABLE_ROCKSDB_H
#define WN_TOOLS_SST_TABLE_ROCKSDB_H

#include "table.h"

#define PROPERTY_SIZE 96

/* What is not told is 0, false or "". */
struct properties {
	bool present;
	uint64_t entries, deletions, merges, range_deletions;
	uint64_t data_blocks;
	uint64_t filter_entries;
	uint64_t index_type;            /* 2 is an index of indexes, 3 has first keys in it */
	uint64_t index_key_is_user_key;
	uint64_t index_value_is_delta;
	char filter_policy[PROPERTY_SIZE];
	char comparator[PROPERTY_SIZE];
	char compression[PROPERTY_SIZE];
	char prefix_extractor[PROPERTY_SIZE];
	char whole_keys[PROPERTY_SIZE]; /* "1" or "0" */
	char prefixes[PROPERTY_SIZE];   /* "1" or "0" */
};

#define INDEX_TWO_LEVELS 2
#define INDEX_FIRST_KEYS 3

/* Read the block at `handle`; problems are noted in the table's list. */
void properties_read(struct table *table, struct handle handle, struct properties *propertiesp);

/* How many bytes of a key are its prefix; false if it has none, or if the extractor
 * is not one of RocksDB's own with a fixed or a capped length. */
bool properties_prefix_of(const struct properties *properties, size_t key_size, size_t *sizep);
bool properties_know_prefixes(const struct properties *properties);

/* Bytes at the end of user keys that no filter sees. */
size_t properties_timestamp_size(const struct properties *properties);

/* -1, 0 or 1 in the table's order, if the comparator is known; else *knownp is false. */
int properties_compare(const struct properties *properties, struct span a, struct span b,
		       bool *knownp);

#endif /* WN_TOOLS_SST_TABLE_ROCKSDB_H */
