/* table.c - footers, checksums, blocks. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "decompress.h"
#include "base/secret.h" /* xxHash, inlined */
#include "table.h"

#define MAGIC_LEVELDB UINT64_C(0xdb4775248b80fb57) /* and RocksDB's format 0 */
#define MAGIC_ROCKSDB UINT64_C(0x88e241b785f4cff7)

/* Other tables of RocksDB's, known to be told apart. */
#define MAGIC_PLAIN UINT64_C(0x8242229663bf9564)
#define MAGIC_PLAIN_LEGACY UINT64_C(0x4f3418eb7a8f13b8)
#define MAGIC_CUCKOO UINT64_C(0x926789d0c5f17873)

#define OLD_FOOTER_SIZE 48
#define NEW_FOOTER_SIZE 53
#define HANDLES_SIZE 40
#define MAX_FORMAT 7

/* Footers since format 6, behind the checksum's type. */
#define EXTENDED_MAGIC UINT32_C(0x007a003e)

bool take_handle(struct span *from, struct handle *handlep)
{
	return span_varint(from, &handlep->offset) && span_varint(from, &handlep->size);
}

/* ---- checksums ---------------------------------------------------------- */

const char *table_checksum_name(unsigned checksum)
{
	static const char *const names[] = { "none", "crc32c", "xxHash", "xxHash64", "XXH3" };

	return checksum <= CHECKSUM_XXH3 ? names[checksum] : "unknown";
}

static uint32_t plain_checksum(unsigned checksum, const unsigned char *bytes, size_t size)
{
	switch (checksum) {
	case CHECKSUM_CRC32C:
		return wn__crc32c_masked(bytes, size);
	case CHECKSUM_XXHASH:
		return XXH32(bytes, size, 0);
	case CHECKSUM_XXHASH64:
		return (uint32_t)XXH64(bytes, size, 0);
	case CHECKSUM_XXH3:
		/* The last byte, that of the compression, is mixed in apart. */
		if (size == 0)
			return 0;
		return (uint32_t)XXH3_64bits(bytes, size - 1) ^ bytes[size - 1] * 0x6b9083d9u;
	default:
		return 0;
	}
}

static uint32_t context_at(const struct table *table, uint64_t offset)
{
	if (table->context == 0)
		return 0;
	return table->context ^ ((uint32_t)offset + (uint32_t)(offset >> 32));
}

uint32_t table_checksum_of(const struct table *table, const unsigned char *block, size_t size,
			   uint64_t offset)
{
	return plain_checksum(table->checksum, block, size) + context_at(table, offset);
}

/* ---- the footer --------------------------------------------------------- */

static bool refuse(struct table *table, uint64_t offset, const char *text)
{
	problems_add(table->problems, offset, "%s", text);
	return false;
}

/* Both handles and zeros up to the end of `from`, which starts at `offset`. */
static bool read_handles(struct table *table, struct span from, uint64_t offset)
{
	if (!take_handle(&from, &table->metaindex) || !take_handle(&from, &table->index))
		return refuse(table, offset, "footer: no handles of metaindex and index");
	for (size_t i = 0; i < from.size; i++)
		if (from.at[i] != 0) {
			problems_add(table->problems, offset + HANDLES_SIZE - from.size + i,
				     "footer: a byte behind the handles is not zero");
			break;
		}
	return true;
}

/* Format 6: the metaindex ends where the footer starts, and the footer has a checksum
 * of its own. */
static bool read_extended(struct table *table, const unsigned char *footer)
{
	unsigned char copy[NEW_FOOTER_SIZE];
	uint32_t size = get_le32(footer + 13);

	if (get_le32(footer + 1) != EXTENDED_MAGIC)
		return refuse(table, table->footer_at + 1, "footer: no magic of formats 6 and up");
	memcpy(copy, footer, sizeof(copy));
	put_le32(copy + 5, 0);
	table->context = get_le32(footer + 9);
	if (table->checksum != CHECKSUM_NONE &&
	    table_checksum_of(table, copy, sizeof(copy), table->footer_at) !=
		    get_le32(footer + 5))
		return refuse(table, table->footer_at, "footer: wrong checksum");
	if ((uint64_t)size + TABLE_TRAILER_SIZE > table->footer_at)
		return refuse(table, table->footer_at + 13, "footer: the metaindex is too large");
	table->metaindex = (struct handle){ table->footer_at - TABLE_TRAILER_SIZE - size, size };
	return true;
}

static bool read_new_footer(struct table *table)
{
	const unsigned char *footer;

	if (table->file.size < NEW_FOOTER_SIZE)
		return refuse(table, 0, "the file is too short for a RocksDB table");
	table->engine = TABLE_ROCKSDB;
	table->footer_at = table->file.size - NEW_FOOTER_SIZE;
	footer = table->file.at + table->footer_at;
	table->checksum = footer[0];
	table->format_version = get_le32(footer + 1 + HANDLES_SIZE);
	if (table->format_version == 0 || table->format_version > MAX_FORMAT) {
		problems_add(table->problems, table->footer_at + 1 + HANDLES_SIZE,
			     "footer: format version %u is not known here (1 to %d are)",
			     table->format_version, MAX_FORMAT);
		return false;
	}
	if (table->checksum > CHECKSUM_XXH3) {
		problems_add(table->problems, table->footer_at,
			     "footer: checksum type %u is not known here", table->checksum);
		return false;
	}
	if (table->format_version >= 6)
		return read_extended(table, footer);
	return read_handles(table, (struct span){ footer + 1, HANDLES_SIZE },
			    table->footer_at + 1);
}

static bool read_old_footer(struct table *table)
{
	table->engine = TABLE_LEVELDB;
	table->footer_at = table->file.size - OLD_FOOTER_SIZE;
	table->checksum = CHECKSUM_CRC32C;
	return read_handles(table, (struct span){ table->file.at + table->footer_at, HANDLES_SIZE },
			    table->footer_at);
}

bool table_open(struct table *table, struct span file, struct problems *problems)
{
	*table = (struct table){ .file = file, .problems = problems };
	if (file.size < OLD_FOOTER_SIZE) {
		problems_add(problems, 0, "%zu bytes are too few for a table", file.size);
		return false;
	}
	switch (get_le64(file.at + file.size - 8)) {
	case MAGIC_LEVELDB:
		return read_old_footer(table);
	case MAGIC_ROCKSDB:
		return read_new_footer(table);
	case MAGIC_PLAIN:
	case MAGIC_PLAIN_LEGACY:
	case MAGIC_CUCKOO:
		return refuse(table, file.size - 8,
			      "a plain or cuckoo table of RocksDB's: these have no filter block");
	default:
		return refuse(table, file.size - 8, "no table's magic number at the end: the file "
						    "was cut off, or is no table");
	}
}

/* ---- blocks ------------------------------------------------------------- */

static bool check_bounds(struct table *table, struct handle handle, const char *what)
{
	uint64_t limit = table->footer_at;

	if (handle.offset <= limit && handle.size <= limit - handle.offset &&
	    TABLE_TRAILER_SIZE <= limit - handle.offset - handle.size)
		return true;
	problems_add(table->problems, handle.offset < table->file.size ? handle.offset : limit,
		     "%s: %" PRIu64 " bytes at %" PRIu64 " are not inside the file", what,
		     handle.size, handle.offset);
	return false;
}

static bool check_sum(struct table *table, struct handle handle, const char *what)
{
	const unsigned char *at = table->file.at + handle.offset;
	uint32_t stored = get_le32(at + handle.size + 1);
	uint32_t right;

	if (table->checksum == CHECKSUM_NONE)
		return true;
	right = table_checksum_of(table, at, (size_t)handle.size + 1, handle.offset);
	if (right == stored)
		return true;
	problems_add(table->problems, handle.offset,
		     "%s of %" PRIu64 " bytes: wrong checksum (%s %08x, stored is %08x)", what,
		     handle.size, table_checksum_name(table->checksum), right, stored);
	return false;
}

static enum block_state unpack(struct table *table, const char *what, struct span dictionary,
			       struct block *block)
{
	bool leveldb = table->engine == TABLE_LEVELDB;
	unsigned method = block->compression;
	size_t size;
	int err;

	if (method == COMPRESSION_NONE) {
		block->content = block->stored;
		return BLOCK_GOOD;
	}
	/* LevelDB's second method is Zstandard. */
	if (leveldb && method == 2)
		method = COMPRESSION_ZSTD;
	err = decompress(method,
			 leveldb || table->format_version < 2 ? SIZE_IN_STREAM : SIZE_IN_FRONT,
			 dictionary, block->stored, &block->owned, &size);
	if (!err) {
		block->content = (struct span){ block->owned, size };
		return BLOCK_GOOD;
	}
	if (err == ENOTSUP) {
		table->blocks_opaque++;
		return BLOCK_OPAQUE;
	}
	problems_add(table->problems, block->offset, err == ENOMEM ? "%s: not enough memory"
		     : "%s: cannot be decompressed", what);
	return BLOCK_BAD;
}

static enum block_state read_block(struct table *table, struct handle handle, const char *what,
				   struct span dictionary, struct block *blockp)
{
	*blockp = (struct block){ .offset = handle.offset };
	if (!check_bounds(table, handle, what))
		return BLOCK_BAD;
	blockp->stored = (struct span){ table->file.at + handle.offset, (size_t)handle.size };
	blockp->compression = blockp->stored.at[handle.size];
	if (!check_sum(table, handle, what))
		return BLOCK_BAD;
	table->blocks_checked++;
	table->bytes_checked += handle.size + TABLE_TRAILER_SIZE;
	return unpack(table, what, dictionary, blockp);
}

enum block_state table_read_block(struct table *table, struct handle handle, const char *what,
				  struct block *blockp)
{
	return read_block(table, handle, what, (struct span){ NULL, 0 }, blockp);
}

enum block_state table_read_data_block(struct table *table, struct handle handle,
				       struct block *blockp)
{
	return read_block(table, handle, "data block", table->dictionary, blockp);
}

void block_release(struct block *block)
{
	free(block->owned);
	block->owned = NULL;
}
