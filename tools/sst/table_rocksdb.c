/* table_rocksdb.c - RocksDB's properties block. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "table_block.h"
#include "table_rocksdb.h"

#define GLOBAL_SEQNO "rocksdb.external_sst_file.global_seqno"

enum property_type { PROPERTY_NUMBER, PROPERTY_FIXED32, PROPERTY_TEXT };

static const struct {
	const char *name;
	enum property_type type;
	size_t at;
} known[] = {
	{ "rocksdb.num.entries", PROPERTY_NUMBER, offsetof(struct properties, entries) },
	{ "rocksdb.deleted.keys", PROPERTY_NUMBER, offsetof(struct properties, deletions) },
	{ "rocksdb.merge.operands", PROPERTY_NUMBER, offsetof(struct properties, merges) },
	{ "rocksdb.num.range-deletions", PROPERTY_NUMBER,
	  offsetof(struct properties, range_deletions) },
	{ "rocksdb.num.data.blocks", PROPERTY_NUMBER, offsetof(struct properties, data_blocks) },
	{ "rocksdb.num.filter_entries", PROPERTY_NUMBER,
	  offsetof(struct properties, filter_entries) },
	{ "rocksdb.block.based.table.index.type", PROPERTY_FIXED32,
	  offsetof(struct properties, index_type) },
	{ "rocksdb.index.key.is.user.key", PROPERTY_NUMBER,
	  offsetof(struct properties, index_key_is_user_key) },
	{ "rocksdb.index.value.is.delta.encoded", PROPERTY_NUMBER,
	  offsetof(struct properties, index_value_is_delta) },
	{ "rocksdb.filter.policy", PROPERTY_TEXT, offsetof(struct properties, filter_policy) },
	{ "rocksdb.comparator", PROPERTY_TEXT, offsetof(struct properties, comparator) },
	{ "rocksdb.compression", PROPERTY_TEXT, offsetof(struct properties, compression) },
	{ "rocksdb.prefix.extractor.name", PROPERTY_TEXT,
	  offsetof(struct properties, prefix_extractor) },
	{ "rocksdb.block.based.table.whole.key.filtering", PROPERTY_TEXT,
	  offsetof(struct properties, whole_keys) },
	{ "rocksdb.block.based.table.prefix.filtering", PROPERTY_TEXT,
	  offsetof(struct properties, prefixes) },
};

static void keep_text(char *to, struct span value)
{
	size_t size = value.size < PROPERTY_SIZE ? value.size : PROPERTY_SIZE - 1;

	if (size > 0)
		memcpy(to, value.at, size);
	to[size] = '\0';
}

static bool keep_property(struct properties *properties, size_t which, struct span value)
{
	char *at = (char *)properties + known[which].at;
	uint64_t number;

	switch (known[which].type) {
	case PROPERTY_TEXT:
		keep_text(at, value);
		return true;
	case PROPERTY_FIXED32:
		if (value.size != 4)
			return false;
		number = get_le32(value.at);
		break;
	case PROPERTY_NUMBER:
	default:
		if (!span_varint(&value, &number))
			return false;
	}
	memcpy(at, &number, sizeof(number));
	return true;
}

static void parse(struct table *table, const struct block *block, struct properties *properties)
{
	struct block_cursor cursor;

	block_cursor_begin(&cursor, block->content, ENTRY_PLAIN);
	while (block_cursor_next(&cursor)) {
		struct span name = { cursor.key, cursor.key_size };

		for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
			if (span_is(name, known[i].name) &&
			    !keep_property(properties, i, cursor.value))
				problems_add(table->problems, block->offset,
					     "properties: %s has no number", known[i].name);
	}
	if (cursor.wrong)
		problems_add(table->problems, block->offset + block_cursor_place(&cursor),
			     "properties: %s", cursor.wrong);
	else
		properties->present = true;
	block_cursor_end(&cursor);
}

/* Ingesting a file writes a sequence number into this block and leaves the checksum as
 * it was: is it right with zero in that place? */
static bool fits_before_ingestion(const struct table *table, const struct block *block)
{
	struct span stored = block->stored;
	struct block_cursor cursor;
	unsigned char *copy;
	bool fits = false;

	copy = malloc(stored.size + 1);
	if (!copy)
		return false;
	memcpy(copy, stored.at, stored.size + 1);
	block_cursor_begin(&cursor, stored, ENTRY_PLAIN);
	while (block_cursor_next(&cursor))
		if (span_is((struct span){ cursor.key, cursor.key_size }, GLOBAL_SEQNO) &&
		    cursor.value.size == 8) {
			memset(copy + (cursor.value.at - stored.at), 0, 8);
			fits = table_checksum_of(table, copy, stored.size + 1, block->offset) ==
			       get_le32(stored.at + stored.size + 1);
		}
	block_cursor_end(&cursor);
	free(copy);
	return fits;
}

void properties_read(struct table *table, struct handle handle, struct properties *propertiesp)
{
	struct problems unheard = { 0 };
	struct table trial = *table;
	struct block block;
	enum block_state state;

	memset(propertiesp, 0, sizeof(*propertiesp));
	trial.problems = &unheard;
	state = table_read_block(&trial, handle, "properties", &block);
	if (state == BLOCK_BAD && block.stored.size > 0 && block.compression == 0 &&
	    fits_before_ingestion(table, &block)) {
		block.content = block.stored;
		table->blocks_checked++;
		table->bytes_checked += handle.size + TABLE_TRAILER_SIZE;
		state = BLOCK_GOOD;
	} else {
		block_release(&block);
		state = table_read_block(table, handle, "properties", &block);
	}
	if (state == BLOCK_GOOD)
		parse(table, &block, propertiesp);
	block_release(&block);
}

/* ---- what the names mean ------------------------------------------------ */

static bool prefix_rule(const struct properties *properties, bool *cappedp, size_t *lengthp)
{
	static const struct {
		const char *form;
		bool capped;
	} forms[] = { { "rocksdb.FixedPrefix.%zu%n", false }, { "fixed:%zu%n", false },
		      { "rocksdb.CappedPrefix.%zu%n", true }, { "capped:%zu%n", true } };

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		int end = 0;

		if (sscanf(properties->prefix_extractor, forms[i].form, lengthp, &end) == 1 &&
		    properties->prefix_extractor[end] == '\0') {
			*cappedp = forms[i].capped;
			return true;
		}
	}
	return false;
}

bool properties_know_prefixes(const struct properties *properties)
{
	size_t length;
	bool capped;

	return prefix_rule(properties, &capped, &length);
}

bool properties_prefix_of(const struct properties *properties, size_t key_size, size_t *sizep)
{
	size_t length;
	bool capped;

	if (!prefix_rule(properties, &capped, &length) || (!capped && key_size < length))
		return false;
	*sizep = length < key_size ? length : key_size;
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	size_t size = strlen(text), end_size = strlen(end);

	return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

size_t properties_timestamp_size(const struct properties *properties)
{
	return ends_with(properties->comparator, ".u64ts") ? 8 : 0;
}

int properties_compare(const struct properties *properties, struct span a, struct span b,
		       bool *knownp)
{
	const char *name = properties->comparator;
	size_t common = a.size < b.size ? a.size : b.size;
	int order = common > 0 ? memcmp(a.at, b.at, common) : 0;

	if (order == 0)
		order = a.size < b.size ? -1 : a.size > b.size;
	*knownp = true;
	if (strcmp(name, "leveldb.BytewiseComparator") == 0)
		return order;
	if (strcmp(name, "rocksdb.ReverseBytewiseComparator") == 0)
		return -order;
	*knownp = false;
	return 0;
}
