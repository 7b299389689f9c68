/* table.h - the tables of RocksDB and LevelDB, read from their bytes.
 *
 * Both engines' tables are rows of blocks: each some bytes, a byte for the method of
 * compression and a checksum. A footer at the end tells where the index is, which leads
 * to the data blocks, and where the metaindex is, which leads to all else by name.
 * Nothing in the bytes is believed before it was checked. */
#ifndef WN_TOOLS_SST_TABLE_H
#define WN_TOOLS_SST_TABLE_H

#include "problems.h"
#include "span.h"

#define TABLE_TRAILER_SIZE 5

enum table_engine {
	TABLE_ROCKSDB,
	TABLE_LEVELDB
};

/* As they stand in RocksDB's footer; LevelDB has the first only. */
enum table_checksum {
	CHECKSUM_NONE,
	CHECKSUM_CRC32C,
	CHECKSUM_XXHASH,
	CHECKSUM_XXHASH64,
	CHECKSUM_XXH3
};

/* Where a block is; the trailer is behind it. */
struct handle {
	uint64_t offset, size;
};

struct table {
	struct span file;            /* borrowed */
	struct problems *problems;   /* borrowed: everything that is wrong goes here */
	enum table_engine engine;
	unsigned format_version;     /* RocksDB's */
	unsigned checksum;
	uint32_t context;            /* mixed into the checksums since format 6, or 0 */
	uint64_t footer_at;
	struct handle metaindex;
	struct handle index;         /* since format 6 named by the metaindex: size 0 until then */
	struct span dictionary;      /* for data blocks; borrowed */
	uint64_t blocks_checked;     /* whose checksums fit */
	uint64_t bytes_checked;      /* in these, trailers included */
	uint64_t blocks_opaque;      /* that could not be decompressed here */
};

/* A block's content, decompressed if need be. */
struct block {
	struct span content;
	struct span stored;          /* as it is in the file */
	uint64_t offset;
	unsigned compression;
	unsigned char *owned;        /* NULL when `content` is in the file itself */
};

enum block_state {
	BLOCK_GOOD,
	BLOCK_OPAQUE, /* its checksum fits, but it cannot be decompressed here */
	BLOCK_BAD     /* a problem was noted */
};

/* Read the footer. false: a problem was noted, and nothing can be known. A table with
 * LevelDB's footer is taken for LevelDB's: RocksDB's first format has the same. */
bool table_open(struct table *table, struct span file, struct problems *problems);

/* The block at `handle`, called `what` in problems. Release it in any case. */
enum block_state table_read_block(struct table *table, struct handle handle, const char *what,
				  struct block *blockp);
/* The same for a data block: the dictionary counts. */
enum block_state table_read_data_block(struct table *table, struct handle handle,
				       struct block *blockp);
void block_release(struct block *block);

/* The checksum of a block and its compression byte, as the trailer should have it. */
uint32_t table_checksum_of(const struct table *table, const unsigned char *block, size_t size,
			   uint64_t offset);
const char *table_checksum_name(unsigned checksum);

bool take_handle(struct span *from, struct handle *handlep);

#endif /* WN_TOOLS_SST_TABLE_H */
