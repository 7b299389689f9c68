/* open_table.c - see open_table.h.
 *
 * Nothing in the file is trusted but to be what LevelDB reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "open_table.h"
#include "policy.h"

/* A table's end: two handles of up to 20 bytes, filled up with zeros, and a magic number. */
enum { FOOTER_SIZE = 48, MAGIC_AT = 40 };
#define TABLE_MAGIC UINT64_C(0xdb4775248b80fb57)
/* Behind a block: how it is compressed, 0 for not at all, and a checksum. */
enum { TRAILER_SIZE = 5 };

static const char filter_key[] = "filter." WN__FILTER_NAME;
#define FILTER_KEY_SIZE (sizeof(filter_key) - 1)

struct handle {
	uint64_t offset, size;
};

struct wn__open_table {
	enum { BEFORE_FOOTER, BEFORE_METAINDEX, BEFORE_FILTERS } stage;
	struct handle next; /* of the block that is waited for */
	struct wn__small_reader *reader;
};

struct wn__open_table *wn__open_table_create(void)
{
	return wn__calloc(1, sizeof(struct wn__open_table));
}

void wn__open_table_destroy(struct wn__open_table *table)
{
	if (!table)
		return;
	wn__small_reader_close(table->reader);
	free(table);
}

/* ---- bytes -------------------------------------------------------------- */

/* What is left to be read. */
struct span {
	const unsigned char *at, *end;
};

static bool take_varint(struct span *span, uint64_t *valuep)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
		unsigned char byte = *span->at++;

		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*valuep = value;
			return true;
		}
	}
	return false;
}

static bool take_handle(struct span *span, struct handle *handlep)
{
	return take_varint(span, &handlep->offset) && take_varint(span, &handlep->size);
}

/* ---- from the file's end to its filters --------------------------------- */

static bool read_footer(const unsigned char *footer, size_t size, struct handle *handlep)
{
	struct span span = {footer, footer + MAGIC_AT};

	return size == FOOTER_SIZE && get_le64(footer + MAGIC_AT) == TABLE_MAGIC &&
	       take_handle(&span, handlep);
}

/* One entry: how many bytes of its key are the last one's, how many follow, the value's size.
 * Of a key longer than the one that is looked for the beginning is enough. */
static bool take_entry(struct span *span, char *key, uint64_t *key_sizep, struct span *valuep)
{
	uint64_t shared, more, size, left;

	if (!take_varint(span, &shared) || !take_varint(span, &more) || !take_varint(span, &size))
		return false;
	left = (uint64_t)(span->end - span->at);
	if (shared > *key_sizep || more > left || size > left - more)
		return false;
	for (uint64_t i = 0; i < more && shared + i < FILTER_KEY_SIZE; i++)
		key[shared + i] = (char)span->at[i];
	*key_sizep = shared + more;
	*valuep = (struct span){span->at + more, span->at + more + size};
	span->at = valuep->end;
	return true;
}

/* LevelDB looks at checksums of filters, and of what leads to them, only if it is told to. */
static bool is_whole(const unsigned char *block, size_t size)
{
	size_t end = size - TRAILER_SIZE;

	return get_le32(block + end + 1) == wn__crc32c_masked(block, end + 1);
}

/* Behind the entries stand offsets of some of them, and their number. WN__OPEN_TABLE_NONE: there
 * are no filters. A metaindex that cannot be understood, one that is compressed among them (it has
 * one entry, and gains nothing by it), LevelDB must not understand either: it would find filters
 * that nobody has seen to be whole. */
static int read_metaindex(const unsigned char *block, size_t size, struct handle *handlep)
{
	char key[FILTER_KEY_SIZE];
	struct span span, value;
	uint64_t restarts, key_size = 0;
	bool found = false;

	if (size < TRAILER_SIZE + 4 || !is_whole(block, size) || block[size - TRAILER_SIZE] != 0)
		return WN_ERR_CORRUPT;
	size -= TRAILER_SIZE;
	restarts = get_le32(block + size - 4);
	if (restarts > (size - 4) / 4)
		return WN_ERR_CORRUPT;
	span = (struct span){block, block + (size - 4 - 4 * restarts)};
	while (span.at < span.end) {
		if (!take_entry(&span, key, &key_size, &value))
			return WN_ERR_CORRUPT;
		if (key_size != FILTER_KEY_SIZE || memcmp(key, filter_key, FILTER_KEY_SIZE) != 0)
			continue;
		if (found || !take_handle(&value, handlep))
			return WN_ERR_CORRUPT;
		found = true;
	}
	return found ? 0 : WN__OPEN_TABLE_NONE;
}

/* The filters, their offsets and that of the first offset, and a byte. false: there is none. */
static bool find_filters(const unsigned char *block, size_t size, struct wn__small_extent *extentp)
{
	size_t end, filters;

	if (size < 5)
		return false;
	end = get_le32(block + size - 5);
	if (end > size - 5)
		return false;
	filters = (size - 5 - end) / 4;
	extentp->filters_size = end;
	for (size_t i = 0; i < filters; i++) {
		size_t start = get_le32(block + end + 4 * i);
		size_t stop = get_le32(block + end + 4 * i + 4);

		if (start > stop || stop > end)
			return false;
		extentp->first = start;
		extentp->first_size = stop - start;
		if (start < stop)
			return true;
	}
	return false;
}

/* Filters that have no header of this database, and are not LevelDB's own, would be told from ours
 * by 20 bits each: they are not given away. Neither is what is damaged. */
static int open_filters(struct wn__open_table *table, struct wn__registry *registry,
			const struct wn__small_world *world, const char **bytesp, size_t size)
{
	const unsigned char *block = (const unsigned char *)*bytesp;
	struct wn__small_extent extent;
	int err;

	if (size < TRAILER_SIZE || !is_whole(block, size))
		return WN_ERR_CORRUPT;
	if (!find_filters(block, size - TRAILER_SIZE, &extent))
		return WN__OPEN_TABLE_NONE;
	if (block[extent.first + extent.first_size - 1] <= WN__SMALL_LEVELDB_LAST)
		return WN__OPEN_TABLE_FOREIGN;
	err = wn__small_reader_open(registry, world, block, size, &extent, &table->reader);
	if (err)
		return err == ENOMEM ? WN__OPEN_TABLE_NONE : WN_ERR_MISMATCH;
	*bytesp = wn__small_reader_block(table->reader);
	return WN__OPEN_TABLE_LEARNS;
}

int wn__open_table_watch(struct wn__open_table *table, struct wn__registry *registry,
			 const struct wn__small_world *world, uint64_t offset, size_t size,
			 const char **bytesp)
{
	const unsigned char *bytes = (const unsigned char *)*bytesp;

	if (table->stage == BEFORE_FOOTER) {
		table->stage = BEFORE_METAINDEX;
		/* Without a footer LevelDB does not open the table either. */
		return read_footer(bytes, size, &table->next) ? 0 : WN__OPEN_TABLE_NONE;
	}
	if (offset != table->next.offset || size != table->next.size + TRAILER_SIZE)
		return 0; /* the index */
	if (table->stage == BEFORE_FILTERS)
		return open_filters(table, registry, world, bytesp, size);
	table->stage = BEFORE_FILTERS;
	return read_metaindex(bytes, size, &table->next);
}
