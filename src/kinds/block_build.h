/* block_build.h - writing a block: header and payload in one allocation. */
#ifndef WN_KINDS_BLOCK_BUILD_H
#define WN_KINDS_BLOCK_BUILD_H

#include <winnow/block.h>
#include <winnow/hash.h>

/* Ids of filters that belong together, the partitions of a table: 8 random bytes that they
 * share, a number that counts up, 4 random bytes. A store that sorts by id has them side by
 * side. All zero is a new row. */
#define WN__ID_PREFIX_SIZE 8

struct wn__id_row {
	unsigned char prefix[WN__ID_PREFIX_SIZE];
	uint32_t next; /* 0: the prefix is yet to be drawn */
};

struct wn__block_writer {
	unsigned char *block; /* malloc()ed; NULL before begin */
	size_t size;
	size_t payload_size;
	struct wn__id_row *row; /* set after begin; NULL: the id is all random */
};

/* Allocate a block with `payload_size` zeroed bytes of payload. *payloadp is
 * 8-byte aligned. In every finished block at least 8 readable bytes follow the
 * payload. */
int wn__block_begin(struct wn__block_writer *writer, size_t payload_size,
		    unsigned char **payloadp);

/* The same, with bytes of any value: the kind writes them all. */
int wn__block_begin_raw(struct wn__block_writer *writer, size_t payload_size,
			unsigned char **payloadp);

/* Another payload size. What there was stays, as far as it goes; new bytes have any value. On
 * ENOMEM the block is as it was. */
int wn__block_resize(struct wn__block_writer *writer, size_t payload_size,
		     unsigned char **payloadp);

/* Write header, checksums and trailer around the payload. `params` is
 * WN_BLOCK_PARAMS_SIZE bytes. A filter id is drawn; that can fail with an errno.
 * The writer keeps the block either way. */
int wn__block_end(struct wn__block_writer *writer, unsigned kind, const unsigned char *params,
		  uint64_t key_count, const struct wn_secret *secret);

/* Free the block, if any. */
void wn__block_abandon(struct wn__block_writer *writer);

#endif /* WN_KINDS_BLOCK_BUILD_H */
