/* filters.h - the filters of one table, found and ready to be asked. */
#ifndef WN_TOOLS_DUMP_FILTERS_H
#define WN_TOOLS_DUMP_FILTERS_H

#include "filter_sum.h"
#include "tools/sst/table_block.h"
#include "tools/sst/table_rocksdb.h"

enum filter_layout {
	LAYOUT_NONE,
	LAYOUT_FULL,        /* one for the whole table */
	LAYOUT_PARTITIONED, /* one for each range of keys, found by an index */
	LAYOUT_BLOCKS       /* one for each range of data blocks: LevelDB, and RocksDB once */
};

struct filter_part {
	struct open_filter open;   /* if it is ours, and readable */
	struct block block;
	unsigned char *key;        /* partitioned: no key of the part is behind this user key */
	size_t key_size;
};

struct filters {
	enum filter_layout layout;
	char name[PROPERTY_SIZE];  /* of the policy, as the metaindex has it */
	struct handle handle;      /* of the filter block, or of the index of filters */
	unsigned base_lg;          /* LAYOUT_BLOCKS: a filter is for 2^base_lg bytes of the file */
	struct block block;
	struct filter_part *parts;
	size_t count, room;
	struct filter_sum sum;
};

/* If the metaindex's name is that of a filter, keep it and its handle. */
bool filters_named(struct filters *filters, struct span name, struct handle handle);

/* Read what was named. `secret` may be NULL. Problems go to the table's list. */
void filters_read(struct filters *filters, struct table *table, const struct properties *properties,
		  const struct wn_secret *secret);

enum filter_answer {
	ANSWER_MAYBE,
	ANSWER_NO,
	ANSWER_UNASKED /* there is no filter of ours for it */
};

/* Ask for `asked` (a key or a prefix) of the entry with this user key, which is in the
 * data block at `offset`. */
enum filter_answer filters_ask(const struct filters *filters, const struct properties *properties,
			       uint64_t offset, struct span user_key, struct span asked);

void filters_release(struct filters *filters);

#endif /* WN_TOOLS_DUMP_FILTERS_H */
