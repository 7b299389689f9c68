/* dump.c - from a table's footer to everything in it.
 *
 * Damage in one place does not keep the others from being looked at: only a footer that
 * cannot be read ends it. */
#include "tools/sst/decompress.h"
#include "dump.h"

#define INTERNAL_SUFFIX 8 /* sequence number and type, behind each user key */

/* ---- the metaindex ------------------------------------------------------ */

static void check_meta_block(struct dump *dump, struct span name, struct handle handle)
{
	char what[80];
	struct block block;

	snprintf(what, sizeof(what), "meta block %.*s", (int)(name.size < 60 ? name.size : 60),
		 (const char *)name.at);
	table_read_block(&dump->table, handle, what, &block);
	block_release(&block);
}

static void note_meta_block(struct dump *dump, struct span name, struct handle handle)
{
	/* Names that only RocksDB uses: a table of its first format then. */
	if (span_starts(name, "rocksdb."))
		dump->table.engine = TABLE_ROCKSDB;
	if (span_is(name, "rocksdb.properties") || span_is(name, "rocksdb.stats"))
		dump->properties_handle = handle;
	else if (span_is(name, "rocksdb.index"))
		dump->table.index = handle;
	else if (span_is(name, "rocksdb.compression_dict"))
		dump->dictionary_handle = handle;
	else if (!filters_named(&dump->filters, name, handle))
		check_meta_block(dump, name, handle);
}

static void read_metaindex(struct dump *dump)
{
	struct table *table = &dump->table;
	struct block *block = &dump->metaindex_block;
	struct block_cursor cursor;

	if (table_read_block(table, table->metaindex, "metaindex", block) != BLOCK_GOOD)
		return;
	block_cursor_begin(&cursor, block->content, ENTRY_HANDLE);
	while (block_cursor_next(&cursor))
		note_meta_block(dump, (struct span){ cursor.key, cursor.key_size }, cursor.handle);
	if (cursor.wrong)
		problems_add(table->problems, block->offset + block_cursor_place(&cursor),
			     "metaindex: %s", cursor.wrong);
	block_cursor_end(&cursor);
	if (table->index.size == 0)
		problems_add(table->problems, block->offset, "the table has no index");
}

/* ---- data blocks -------------------------------------------------------- */

static bool wants_whole_keys(const struct dump *dump)
{
	return strcmp(dump->properties.whole_keys, "0") != 0;
}

static bool wants_prefixes(const struct dump *dump)
{
	return strcmp(dump->properties.prefixes, "1") == 0;
}

/* Ask for all that the filter was told of this key. */
static enum filter_answer ask_for(struct dump *dump, uint64_t offset, struct span key)
{
	const struct properties *properties = &dump->properties;
	size_t stamp = properties_timestamp_size(properties), prefix;
	enum filter_answer answer = ANSWER_UNASKED, second;
	struct span asked = key;

	if (stamp > asked.size)
		return ANSWER_UNASKED;
	asked.size -= stamp;
	if (wants_whole_keys(dump)) {
		answer = filters_ask(&dump->filters, properties, offset, key, asked);
		dump->keys_asked += answer != ANSWER_UNASKED;
	}
	if (answer == ANSWER_NO || !wants_prefixes(dump) ||
	    !properties_prefix_of(properties, asked.size, &prefix))
		return answer;
	second = filters_ask(&dump->filters, properties, offset, key,
			     (struct span){ asked.at, prefix });
	dump->prefixes_asked += second != ANSWER_UNASKED;
	return second;
}

static void walk_entries(struct dump *dump, const struct block *block)
{
	struct block_cursor cursor;
	uint64_t denied = 0, entries = 0;

	block_cursor_begin(&cursor, block->content, ENTRY_PLAIN);
	while (block_cursor_next(&cursor)) {
		struct span key = { cursor.key, cursor.key_size };

		if (key.size < INTERNAL_SUFFIX) {
			cursor.wrong = "a key is too short";
			break;
		}
		key.size -= INTERNAL_SUFFIX;
		entries++;
		denied += ask_for(dump, block->offset, key) == ANSWER_NO;
	}
	if (cursor.wrong)
		problems_add(&dump->problems, block->offset, "data block: %s", cursor.wrong);
	if (denied > 0)
		problems_add(&dump->problems, block->offset,
			     "data block: the filter says no to %zu of its %zu keys",
			     (size_t)denied, (size_t)entries);
	dump->entries += entries;
	dump->denied += denied;
	block_cursor_end(&cursor);
}

/* Blocks of one sort are written one after the other. Without this, a few bytes of index
 * could name the same block a million times. */
static bool comes_after(struct dump *dump, struct handle handle, uint64_t *endp, const char *what)
{
	if (handle.offset < *endp) {
		problems_add(&dump->problems, handle.offset,
			     "%s: it lies before the end of the one before", what);
		return false;
	}
	*endp = handle.offset + handle.size;
	return *endp >= handle.offset;
}

static void walk_data_block(struct dump *dump, struct handle handle)
{
	struct block block;

	dump->data_blocks++;
	switch (table_read_data_block(&dump->table, handle, &block)) {
	case BLOCK_GOOD:
		walk_entries(dump, &block);
		break;
	case BLOCK_OPAQUE:
		dump->unasked = "data blocks are compressed in a way that cannot be read here";
		break;
	case BLOCK_BAD:
		dump->unasked = "data blocks are damaged";
	}
	dump->compressions |= UINT64_C(1) << (block.compression < 63 ? block.compression : 63);
	block_release(&block);
}

static enum entry_form index_form(const struct dump *dump, bool top)
{
	const struct properties *properties = &dump->properties;

	if (!properties->index_value_is_delta)
		return ENTRY_HANDLE;
	/* First keys are only in what leads to data blocks. */
	return properties->index_type == INDEX_FIRST_KEYS && top ? ENTRY_HANDLE_DELTA_KEY
								 : ENTRY_HANDLE_DELTA;
}

static void walk_index(struct dump *dump, const struct block *index, bool top)
{
	bool two_levels = top && dump->properties.index_type == INDEX_TWO_LEVELS;
	struct block_cursor cursor;

	block_cursor_begin(&cursor, index->content, index_form(dump, top));
	while (block_cursor_next(&cursor)) {
		struct block lower;

		if (!two_levels) {
			if (!comes_after(dump, cursor.handle, &dump->data_end, "data block"))
				break;
			walk_data_block(dump, cursor.handle);
			continue;
		}
		if (!comes_after(dump, cursor.handle, &dump->index_end, "index partition"))
			break;
		if (table_read_block(&dump->table, cursor.handle, "index partition", &lower) ==
		    BLOCK_GOOD)
			walk_index(dump, &lower, false);
		block_release(&lower);
	}
	if (cursor.wrong)
		problems_add(&dump->problems, index->offset + block_cursor_place(&cursor),
			     "index: %s", cursor.wrong);
	block_cursor_end(&cursor);
}

/* What was counted on the way against what the table says of itself. */
static void compare_counts(struct dump *dump)
{
	const struct properties *properties = &dump->properties;
	bool complete = dump->table.blocks_opaque == 0 && dump->problems.count == 0;

	if (!properties->present || !complete)
		return;
	/* RocksDB 11 does not count the blocks that it held back to make a dictionary of them. */
	if (properties->data_blocks > dump->data_blocks ||
	    (properties->data_blocks < dump->data_blocks && dump->dictionary_handle.size == 0))
		problems_add(&dump->problems, dump->properties_handle.offset,
			     "the properties tell of %zu data blocks, the index of %zu",
			     (size_t)properties->data_blocks, (size_t)dump->data_blocks);
	if (properties->entries - properties->range_deletions != dump->entries)
		problems_add(&dump->problems, dump->properties_handle.offset,
			     "the properties tell of %zu entries, the data blocks hold %zu",
			     (size_t)(properties->entries - properties->range_deletions),
			     (size_t)dump->entries);
}

static const char *why_unasked(const struct dump *dump)
{
	const struct filter_sum *sum = &dump->filters.sum;

	if (sum->kind == FILTER_IS_NONE)
		return sum->refused ? "the filter cannot be read" : "there is no filter";
	if (sum->kind != FILTER_IS_WINNOW)
		return "the filter is not winnow's";
	if (sum->without_secret)
		return "the secret of the filters is not given";
	if (sum->refused)
		return "the filter cannot be read";
	if (wants_prefixes(dump) && !properties_know_prefixes(&dump->properties))
		return "the filter holds prefixes of a kind not known here";
	return dump->unasked;
}

static void walk(struct dump *dump)
{
	dump->walked = true;
	walk_index(dump, &dump->index_block, true);
	dump->unasked = why_unasked(dump);
	compare_counts(dump);
}

/* ---- all ---------------------------------------------------------------- */

static bool must_walk(const struct dump *dump, const struct dump_options *options)
{
	/* LevelDB counts its keys nowhere; its tables are small. */
	return options->verify || dump->table.engine == TABLE_LEVELDB;
}

void dump_read(struct dump *dump, struct span file, const struct dump_options *options)
{
	struct table *table = &dump->table;

	memset(dump, 0, sizeof(*dump));
	dump->is_table = table_open(table, file, &dump->problems);
	if (!dump->is_table)
		return;
	read_metaindex(dump);
	if (dump->properties_handle.size > 0)
		properties_read(table, dump->properties_handle, &dump->properties);
	else if (table->engine == TABLE_ROCKSDB)
		problems_add(&dump->problems, table->metaindex.offset,
			     "the table has no properties block");
	if (dump->dictionary_handle.size > 0 &&
	    table_read_block(table, dump->dictionary_handle, "compression dictionary",
			     &dump->dictionary_block) == BLOCK_GOOD)
		table->dictionary = dump->dictionary_block.content;
	filters_read(&dump->filters, table, &dump->properties, options->secret);
	if (table->index.size == 0 ||
	    table_read_block(table, table->index, "index", &dump->index_block) != BLOCK_GOOD)
		dump->unasked = "the index cannot be read here";
	else if (must_walk(dump, options))
		walk(dump);
}

void dump_release(struct dump *dump)
{
	filters_release(&dump->filters);
	block_release(&dump->metaindex_block);
	block_release(&dump->index_block);
	block_release(&dump->dictionary_block);
}

uint64_t dump_filter_keys(const struct dump *dump)
{
	if (dump->filters.sum.kind == FILTER_IS_WINNOW && dump->filters.sum.keys)
		return dump->filters.sum.keys;
	if (dump->properties.filter_entries)
		return dump->properties.filter_entries;
	return dump->properties.entries ? dump->properties.entries : dump->entries;
}

double dump_bits_per_key(const struct dump *dump)
{
	uint64_t keys = dump_filter_keys(dump);

	return keys ? (double)dump->filters.sum.bytes * 8 / (double)keys : 0;
}

const char *dump_filter_kind(const struct dump *dump)
{
	switch (dump->filters.sum.kind) {
	case FILTER_IS_WINNOW:
		return *dump->filters.sum.name ? dump->filters.sum.name : "winnow";
	case FILTER_IS_BLOOM:
		return "bloom";
	case FILTER_IS_RIBBON:
		return "ribbon";
	case FILTER_IS_TRUE:
		return "true";
	case FILTER_IS_OTHER:
		return "unknown";
	case FILTER_IS_NONE:
		break;
	}
	return dump->filters.sum.refused ? "unreadable" : "none";
}
