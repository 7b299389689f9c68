/* table_writer.h - small tables of RocksDB's and LevelDB's shape, made by hand: for tests
 * that must run without either engine, or want what neither would write. */
#ifndef WN_TESTS_TABLE_WRITER_H
#define WN_TESTS_TABLE_WRITER_H

#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "tools/sst/table.h"

#define WRITER_ROOM (1 << 20)

/* ---- bytes -------------------------------------------------------------- */

struct bytes {
	unsigned char *at;
	size_t size;
};

static inline struct bytes bytes_new(void)
{
	struct bytes bytes = {calloc(1, WRITER_ROOM), 0};

	expect(bytes.at);
	return bytes;
}

static inline void put_bytes(struct bytes *to, const void *from, size_t size)
{
	expect(to->size + size <= WRITER_ROOM);
	if (size > 0)
		memcpy(to->at + to->size, from, size);
	to->size += size;
}

static inline void put_varint(struct bytes *to, uint64_t value)
{
	do {
		unsigned char byte = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));

		put_bytes(to, &byte, 1);
		value >>= 7;
	} while (value);
}

static inline void put_u32(struct bytes *to, uint32_t value)
{
	unsigned char number[4];

	put_le32(number, value);
	put_bytes(to, number, 4);
}

static inline void put_handle(struct bytes *to, struct handle handle)
{
	put_varint(to, handle.offset);
	put_varint(to, handle.size);
}

/* ---- blocks of entries -------------------------------------------------- */

static inline void put_entry(struct bytes *to, const void *key, size_t key_size, const void *value,
			     size_t value_size)
{
	put_varint(to, 0);
	put_varint(to, key_size);
	put_varint(to, value_size);
	put_bytes(to, key, key_size);
	put_bytes(to, value, value_size);
}

static inline void put_handle_entry(struct bytes *to, const char *key, struct handle handle)
{
	unsigned char room[20];
	struct bytes value = {room, 0};

	put_handle(&value, handle);
	put_entry(to, key, strlen(key), value.at, value.size);
}

static inline void put_number_entry(struct bytes *to, const char *key, uint64_t number)
{
	unsigned char room[10];
	struct bytes value = {room, 0};

	put_varint(&value, number);
	put_entry(to, key, strlen(key), value.at, value.size);
}

static inline void put_text_entry(struct bytes *to, const char *key, const char *value)
{
	put_entry(to, key, strlen(key), value, strlen(value));
}

/* One restart, at the first entry. */
static inline void put_restarts(struct bytes *to)
{
	put_u32(to, 0);
	put_u32(to, 1);
}

/* Append a block and its trailer to the file. */
static inline struct handle write_block(struct bytes *file, const struct table *table,
					struct span content, unsigned char compression)
{
	struct handle handle = {file->size, content.size};

	put_bytes(file, content.at, content.size);
	put_bytes(file, &compression, 1);
	put_u32(file, table_checksum_of(table, file->at + handle.offset, content.size + 1,
					handle.offset));
	return handle;
}

/* The same for a block of entries, which is then empty again. */
static inline struct handle write_entries_block(struct bytes *file, const struct table *table,
						struct bytes *entries)
{
	struct handle handle;

	put_restarts(entries);
	handle = write_block(file, table, (struct span){entries->at, entries->size}, 0);
	entries->size = 0;
	return handle;
}

/* ---- footers ------------------------------------------------------------ */

static inline void write_old_footer(struct bytes *file, struct handle metaindex,
				    struct handle index)
{
	size_t start = file->size;

	put_handle(file, metaindex);
	put_handle(file, index);
	file->size = start + 40;
	put_u32(file, 0x8b80fb57);
	put_u32(file, 0xdb477524);
}

static inline void write_new_footer(struct bytes *file, const struct table *table,
				    struct handle metaindex, struct handle index)
{
	unsigned char checksum = (unsigned char)table->checksum;
	size_t start = file->size;

	put_bytes(file, &checksum, 1);
	if (table->format_version < 6) {
		put_handle(file, metaindex);
		put_handle(file, index);
	} else {
		put_u32(file, 0x007a003e);
		put_u32(file, 0);
		put_u32(file, table->context);
		put_u32(file, (uint32_t)metaindex.size);
	}
	file->size = start + 41;
	put_u32(file, table->format_version);
	put_u32(file, 0x85f4cff7);
	put_u32(file, 0x88e241b7);
	if (table->format_version >= 6)
		put_le32(file->at + start + 5,
			 table_checksum_of(table, file->at + start, file->size - start, start));
}

#endif /* WN_TESTS_TABLE_WRITER_H */
