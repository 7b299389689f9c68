/* filters.c - finding the filters of a table. */
#include <stdlib.h>

#include "filters.h"
#include "tools/sst/table_leveldb.h"

static void keep_name(char *to, struct span name)
{
	size_t size = name.size < PROPERTY_SIZE ? name.size : PROPERTY_SIZE - 1;

	if (size > 0)
		memcpy(to, name.at, size);
	to[size] = '\0';
}

bool filters_named(struct filters *filters, struct span name, struct handle handle)
{
	static const struct {
		const char *start;
		enum filter_layout layout;
	} starts[] = { { "fullfilter.", LAYOUT_FULL },
		       { "partitionedfilter.", LAYOUT_PARTITIONED },
		       { "filter.", LAYOUT_BLOCKS } };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		size_t skip = strlen(starts[i].start);

		if (!span_starts(name, starts[i].start))
			continue;
		filters->layout = starts[i].layout;
		filters->handle = handle;
		keep_name(filters->name, (struct span){ name.at + skip, name.size - skip });
		return true;
	}
	return false;
}

static enum filter_origin family_of(const struct filters *filters)
{
	if (strncmp(filters->name, "rocksdb.", 8) == 0)
		return filters->layout == LAYOUT_BLOCKS ? ORIGIN_LEVELDB : ORIGIN_ROCKSDB;
	return strncmp(filters->name, "leveldb.", 8) == 0 ? ORIGIN_LEVELDB : ORIGIN_UNKNOWN;
}

/* A new part, zeroed; NULL if memory is short, which is noted. */
static struct filter_part *add_part(struct filters *filters, struct table *table)
{
	if (filters->count == filters->room) {
		size_t room = filters->room ? filters->room * 2 : 16;
		struct filter_part *parts = realloc(filters->parts, room * sizeof(*parts));

		if (!parts) {
			problems_add(table->problems, filters->handle.offset,
				     "filters: not enough memory");
			return NULL;
		}
		filters->parts = parts;
		filters->room = room;
	}
	filters->parts[filters->count] = (struct filter_part){ .key = NULL };
	return &filters->parts[filters->count++];
}

/* ---- full --------------------------------------------------------------- */

/* Read the filter block at `handle` into `part` and add it up. */
static void read_part(struct filters *filters, struct table *table, struct handle handle,
		      const struct wn_secret *secret, struct filter_part *part)
{
	switch (table_read_block(table, handle, "filter block", &part->block)) {
	case BLOCK_GOOD:
		filter_sum_add(&filters->sum, part->block.content, handle.offset,
			       family_of(filters), secret, table->problems, &part->open);
		return;
	case BLOCK_OPAQUE:
		filters->sum.kind = FILTER_IS_OTHER;
		return;
	case BLOCK_BAD:
		filters->sum.refused++;
	}
}

static void read_full(struct filters *filters, struct table *table, const struct wn_secret *secret)
{
	struct filter_part *part = add_part(filters, table);

	if (part)
		read_part(filters, table, filters->handle, secret, part);
}

/* ---- partitioned -------------------------------------------------------- */

/* The user key in the index's key. */
static bool keep_last_key(struct filter_part *part, const struct block_cursor *cursor,
			  bool is_user_key)
{
	size_t size = cursor->key_size;

	if (!is_user_key) {
		if (size < 8)
			return false;
		size -= 8;
	}
	part->key = malloc(size ? size : 1);
	if (!part->key)
		return false;
	if (size > 0)
		memcpy(part->key, cursor->key, size);
	part->key_size = size;
	return true;
}

static void read_partitions(struct filters *filters, struct table *table,
			    const struct properties *properties, const struct wn_secret *secret)
{
	enum entry_form form = properties->index_value_is_delta ? ENTRY_HANDLE_DELTA : ENTRY_HANDLE;
	struct block_cursor cursor;
	uint64_t end = 0; /* of the partition before */

	if (table_read_block(table, filters->handle, "index of filters", &filters->block) !=
	    BLOCK_GOOD) {
		filters->sum.refused++;
		return;
	}
	block_cursor_begin(&cursor, filters->block.content, form);
	while (block_cursor_next(&cursor)) {
		struct filter_part *part;

		/* They are written one after the other; without this, a few bytes could
		 * name the same filter a million times. */
		if (cursor.handle.offset < end) {
			cursor.wrong = "a partition lies before the end of the one before";
			break;
		}
		part = add_part(filters, table);
		if (!part)
			break;
		if (!keep_last_key(part, &cursor, properties->index_key_is_user_key != 0)) {
			cursor.wrong = "a partition's key is too short";
			break;
		}
		read_part(filters, table, cursor.handle, secret, part);
		end = cursor.handle.offset + cursor.handle.size;
		if (end < cursor.handle.offset)
			break;
	}
	if (cursor.wrong) {
		filters->sum.refused++;
		problems_add(table->problems, filters->block.offset + block_cursor_place(&cursor),
			     "index of filters: %s", cursor.wrong);
	}
	block_cursor_end(&cursor);
}

/* ---- by data blocks ----------------------------------------------------- */

static void read_blocks(struct filters *filters, struct table *table,
			const struct wn_secret *secret)
{
	struct small_filters small;
	const char *wrong;

	if (table_read_block(table, filters->handle, "filter block", &filters->block) !=
	    BLOCK_GOOD) {
		filters->sum.refused++;
		return;
	}
	wrong = small_filters_open(&small, filters->block.content);
	if (wrong) {
		filters->sum.refused++;
		problems_add(table->problems, filters->block.offset, "filter block: %s", wrong);
		return;
	}
	filters->base_lg = small.base_lg;
	for (size_t i = 0; i < small.count; i++) {
		struct filter_part *part = add_part(filters, table);
		struct span bytes;
		uint64_t offset;

		if (!part)
			return;
		if (!small_filters_get(&small, i, &bytes)) {
			filters->sum.refused++;
			problems_add(table->problems, filters->block.offset,
				     "filter block: filter %zu is not inside it", i);
			return;
		}
		offset = filters->block.offset + (uint64_t)(bytes.at - small.content.at);
		filter_sum_add(&filters->sum, bytes, offset, family_of(filters), secret,
			       table->problems, &part->open);
	}
}

void filters_read(struct filters *filters, struct table *table, const struct properties *properties,
		  const struct wn_secret *secret)
{
	switch (filters->layout) {
	case LAYOUT_NONE:
		return;
	case LAYOUT_FULL:
		read_full(filters, table, secret);
		return;
	case LAYOUT_PARTITIONED:
		read_partitions(filters, table, properties, secret);
		return;
	case LAYOUT_BLOCKS:
		read_blocks(filters, table, secret);
	}
}

/* ---- asking ------------------------------------------------------------- */

static enum filter_answer ask_part(const struct filter_part *part, struct span asked)
{
	if (!open_filter_is_there(&part->open))
		return ANSWER_UNASKED;
	return open_filter_says_maybe(&part->open, asked) ? ANSWER_MAYBE : ANSWER_NO;
}

/* The order of keys is not known: one of the partitions must say "maybe". */
static enum filter_answer ask_all(const struct filters *filters, struct span asked)
{
	enum filter_answer answer = ANSWER_UNASKED;

	for (size_t i = 0; i < filters->count; i++) {
		enum filter_answer one = ask_part(&filters->parts[i], asked);

		if (one != ANSWER_NO)
			return one;
		answer = one;
	}
	return answer;
}

/* The first partition whose last key is not before the entry's; the last one, if it is
 * behind them all, as RocksDB does. */
static enum filter_answer ask_partitions(const struct filters *filters,
					 const struct properties *properties, struct span user_key,
					 struct span asked)
{
	size_t low = 0, high = filters->count - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct filter_part *part = &filters->parts[middle];
		bool known;
		int order = properties_compare(properties,
					       (struct span){ part->key, part->key_size },
					       user_key, &known);

		if (!known)
			return ask_all(filters, asked);
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return ask_part(&filters->parts[low], asked);
}

enum filter_answer filters_ask(const struct filters *filters, const struct properties *properties,
			       uint64_t offset, struct span user_key, struct span asked)
{
	if (filters->count == 0)
		return ANSWER_UNASKED;
	switch (filters->layout) {
	case LAYOUT_FULL:
		return ask_part(&filters->parts[0], asked);
	case LAYOUT_PARTITIONED:
		return ask_partitions(filters, properties, user_key, asked);
	case LAYOUT_BLOCKS:
		offset >>= filters->base_lg;
		return offset < filters->count ? ask_part(&filters->parts[offset], asked)
					       : ANSWER_UNASKED;
	case LAYOUT_NONE:
		break;
	}
	return ANSWER_UNASKED;
}

void filters_release(struct filters *filters)
{
	for (size_t i = 0; i < filters->count; i++) {
		open_filter_close(&filters->parts[i].open);
		block_release(&filters->parts[i].block);
		free(filters->parts[i].key);
	}
	block_release(&filters->block);
	free(filters->parts);
}
