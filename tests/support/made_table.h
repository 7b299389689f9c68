/* made_table.h - whole tables made by hand, of any format and with any filter. */
#ifndef WN_TESTS_MADE_TABLE_H
#define WN_TESTS_MADE_TABLE_H

#include <winnow/filter.h>

#include "kinds/small.h"
#include "tools/dump/filters.h"
#include "table_writer.h"

/* SMALL: small filters, the first one with a table's header; and those of other keys. */
enum content { NOTHING, WINNOW, ALIEN_KEYS, RAW, SMALL, SMALL_ALIEN_KEYS };

#define MADE_TABLE_SECRET 3 /* for test_secret() */

struct shape {
	bool leveldb;
	unsigned format;
	unsigned checksum;
	enum filter_layout layout;
	enum content content;
	struct span raw;          /* the filter's bytes, with RAW */
	const char *policy;       /* NULL: RocksDB's or LevelDB's own */
	const char *options;      /* of winnow's filters; NULL: the defaults */
	bool delta;               /* index values by difference */
	unsigned wrong_entries;   /* the properties tell of so many more */
	unsigned blocks, keys;    /* data blocks, and keys in each */
};

struct making {
	const struct shape *shape;
	struct table table;       /* for the checksums */
	struct bytes file;
	struct bytes meta, index, entries;
	struct handle data[64];
	struct handle partitions[64];
	struct wn_secret *secret;
	struct wn_config *config;
	struct wn_builder *builder;
};

static inline size_t make_key(char *key, size_t room, unsigned block, unsigned number, bool alien)
{
	return (size_t)snprintf(key, room, "%s%04u/%04u", alien ? "alien" : "key", block, number);
}

/* Keys end in eight bytes that no filter sees. */
static inline void write_data(struct making *making)
{
	const struct shape *shape = making->shape;

	for (unsigned block = 0; block < shape->blocks; block++) {
		for (unsigned i = 0; i < shape->keys; i++) {
			char key[48];
			size_t size = make_key(key, sizeof(key) - 8, block, i, false);

			memcpy(key + size, "\1\0\0\0\0\0\0\0", 8);
			put_entry(&making->entries, key, size + 8, "value", 5);
		}
		making->data[block] = write_entries_block(&making->file, &making->table,
							  &making->entries);
	}
}

/* A filter over the keys of some data blocks; malloc()ed. */
static inline struct span build_filter(struct making *making, unsigned from, unsigned to)
{
	void *block = NULL;
	size_t size = 0;

	wn_builder_reset(making->builder);
	for (unsigned i = from; i < to; i++)
		for (unsigned j = 0; j < making->shape->keys; j++) {
			char key[48];
			size_t length = make_key(key, sizeof(key), i, j,
						 making->shape->content == ALIEN_KEYS);

			expect(wn_builder_add(making->builder, key, length) == 0);
		}
	expect(wn_builder_finish(making->builder, &block, &size) == 0);
	return (struct span){block, size};
}

static inline struct span build_small_filter(struct making *making, unsigned from, unsigned to)
{
	static const struct wn__small_header header = {.id = {0xab, 0xcd}, .secret_sum = 1};
	size_t count = (size_t)(to - from) * making->shape->keys, size, denied;
	struct wn_hash *hashes = malloc(count * sizeof(*hashes));
	struct wn__small_input input = {.config = making->config, .keys = hashes};
	unsigned char *bytes;

	expect(hashes);
	for (size_t i = 0; i < count; i++) {
		char key[48];
		unsigned block = from + (unsigned)(i / making->shape->keys);
		size_t length = make_key(key, sizeof(key), block,
					 (unsigned)(i % making->shape->keys),
					 making->shape->content == SMALL_ALIEN_KEYS);

		hashes[i] = wn_hash_key(making->secret, key, length);
	}
	input.key_count = (uint32_t)wn__small_sort(hashes, count);
	expect(wn__small_build(&input, wn__small_secret_id(making->secret),
			       from == 0 ? &header : NULL, &bytes, &size, &denied) == 0);
	free(hashes);
	return (struct span){bytes, size};
}

static inline struct span filter_for(struct making *making, unsigned from, unsigned to)
{
	unsigned char *copy;

	if (making->shape->content >= SMALL)
		return build_small_filter(making, from, to);
	if (making->shape->content != RAW)
		return build_filter(making, from, to);
	copy = malloc(making->shape->raw.size + 1);
	expect(copy);
	if (making->shape->raw.size > 0)
		memcpy(copy, making->shape->raw.at, making->shape->raw.size);
	return (struct span){copy, making->shape->raw.size};
}

static inline void release(struct span bytes)
{
	free((void *)(uintptr_t)bytes.at);
}

static inline struct handle write_full(struct making *making)
{
	struct span filter = filter_for(making, 0, making->shape->blocks);
	struct handle handle = write_block(&making->file, &making->table, filter, 0);

	release(filter);
	return handle;
}

/* An index or filter index entry for what holds data block `block` and those before. */
static inline void put_index_entry(struct making *making, unsigned block,
				   const struct handle *handles)
{
	struct bytes *to = &making->index;
	char key[48];
	size_t size = make_key(key, sizeof(key), block, 9999, false);

	if (!making->shape->delta) {
		unsigned char room[20];
		struct bytes value = {room, 0};

		put_handle(&value, handles[block]);
		put_entry(to, key, size, value.at, value.size);
	} else if (block % 4 == 0) {
		put_varint(to, 0);
		put_varint(to, size);
		put_bytes(to, key, size);
		put_handle(to, handles[block]);
	} else {
		int64_t difference = (int64_t)(handles[block].size - handles[block - 1].size);

		/* "key" is what all share. */
		put_varint(to, 3);
		put_varint(to, size - 3);
		put_bytes(to, key + 3, size - 3);
		put_varint(to, difference < 0 ? (uint64_t)-difference * 2 - 1
					      : (uint64_t)difference * 2);
	}
}

static inline struct handle write_partitions(struct making *making)
{
	for (unsigned i = 0; i < making->shape->blocks; i++) {
		struct span filter = filter_for(making, i, i + 1);

		making->partitions[i] = write_block(&making->file, &making->table, filter, 0);
		release(filter);
	}
	for (unsigned i = 0; i < making->shape->blocks; i++)
		put_index_entry(making, i, making->partitions);
	return write_entries_block(&making->file, &making->table, &making->index);
}

/* Ranges of 2^8 bytes: some hold no data block's start, some more than one. */
static inline struct handle write_small_filters(struct making *making)
{
	struct bytes *to = &making->entries;
	uint32_t starts[4096];
	size_t count = 0;
	unsigned block = 0;
	struct handle handle;

	while (block < making->shape->blocks) {
		unsigned first = block;

		expect(count < sizeof(starts) / sizeof(*starts));
		starts[count++] = (uint32_t)to->size;
		while (block < making->shape->blocks && making->data[block].offset >> 8 < count)
			block++;
		if (block > first) {
			struct span filter = filter_for(making, first, block);

			put_bytes(to, filter.at, filter.size);
			release(filter);
		}
	}
	starts[count] = (uint32_t)to->size;
	for (size_t i = 0; i <= count; i++)
		put_u32(to, starts[i]);
	put_bytes(to, "\10", 1);
	handle = write_block(&making->file, &making->table, (struct span){to->at, to->size}, 0);
	to->size = 0;
	return handle;
}

static inline void write_filters(struct making *making)
{
	static const char *const starts[] = {"", "fullfilter.", "partitionedfilter.", "filter."};
	const struct shape *shape = making->shape;
	const char *policy = shape->policy ? shape->policy
			     : shape->leveldb ? "leveldb.BuiltinBloomFilter2"
					      : "rocksdb.BuiltinBloomFilter";
	struct handle handle;
	char name[200];

	if (shape->layout == LAYOUT_NONE)
		return;
	handle = shape->layout == LAYOUT_FULL ? write_full(making)
		 : shape->layout == LAYOUT_PARTITIONED ? write_partitions(making)
						       : write_small_filters(making);
	snprintf(name, sizeof(name), "%s%s", starts[shape->layout], policy);
	put_handle_entry(&making->meta, name, handle);
}

static inline void write_properties(struct making *making)
{
	const struct shape *shape = making->shape;
	struct bytes *to = &making->entries;

	put_text_entry(to, "rocksdb.comparator", "leveldb.BytewiseComparator");
	put_number_entry(to, "rocksdb.index.key.is.user.key", 1);
	put_number_entry(to, "rocksdb.index.value.is.delta.encoded", shape->delta);
	put_number_entry(to, "rocksdb.num.data.blocks", shape->blocks);
	put_number_entry(to, "rocksdb.num.entries",
			 shape->blocks * shape->keys + shape->wrong_entries);
	put_handle_entry(&making->meta, "rocksdb.properties",
			 write_entries_block(&making->file, &making->table, to));
}

/* The file's bytes; malloc()ed. */
static inline struct span make_table(const struct shape *shape)
{
	struct making making = {.shape = shape, .secret = test_secret(MADE_TABLE_SECRET),
				.file = bytes_new(), .meta = bytes_new(), .index = bytes_new(),
				.entries = bytes_new()};
	struct handle index, metaindex;

	expect(shape->blocks <= 64);
	making.table.checksum = shape->leveldb ? CHECKSUM_CRC32C : shape->checksum;
	making.table.format_version = shape->format;
	making.table.context = shape->format >= 6 ? 0x13579bdf : 0;
	expect(wn_config_parse(shape->options ? shape->options : "aqf", NULL, 0,
			       &making.config) == 0);
	expect(wn_builder_create(making.config, making.secret, &making.builder) == 0);
	write_data(&making);
	write_filters(&making);
	for (unsigned i = 0; i < shape->blocks; i++)
		put_index_entry(&making, i, making.data);
	index = write_entries_block(&making.file, &making.table, &making.index);
	if (!shape->leveldb)
		write_properties(&making);
	if (shape->format >= 6)
		put_handle_entry(&making.meta, "rocksdb.index", index);
	metaindex = write_entries_block(&making.file, &making.table, &making.meta);
	if (shape->leveldb || shape->format == 0)
		write_old_footer(&making.file, metaindex, index);
	else
		write_new_footer(&making.file, &making.table, metaindex, index);
	wn_builder_destroy(making.builder);
	wn_config_destroy(making.config);
	wn_secret_destroy(making.secret);
	free(making.meta.at);
	free(making.index.at);
	free(making.entries.at);
	return (struct span){making.file.at, making.file.size};
}

#endif /* WN_TESTS_MADE_TABLE_H */
