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

/* Where a block's memory comes from, if not from malloc(): a host may want to free it in its own
 * way. */
struct wn__block_memory {
	void *(*take)(size_t size); /* NULL: there is none */
	void (*give_back)(void *memory);
};

/* Zeroed before begin, but for `memory`. */
struct wn__block_writer {
	unsigned char *block; /* NULL before begin */
	size_t size;
	size_t payload_size;
	size_t room; /* bytes that the block may have without being moved */
	const struct wn__block_memory *memory; /* NULL: malloc() */
	struct wn__id_row *row; /* set after begin; NULL: the id is all random */
};

/* Allocate a block with `payload_size` zeroed bytes of payload. In every finished block at least
 * 8 readable bytes follow the payload. *payloadp is 8-byte aligned. */
int wn__block_begin(struct wn__block_writer *writer, size_t payload_size,
		    unsigned char **payloadp);

/* The same, with bytes of any value, all of which the kind writes, and with room for some more. */
int wn__block_begin_raw(struct wn__block_writer *writer, size_t payload_size, size_t more,
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

/* Free the block, if any; the writer is as before begin. */
void wn__block_abandon(struct wn__block_writer *writer);

/* ---- builders (builder.c), for those who have more to do with the keys --------- */

struct wn_builder;
struct wn_filter;

/* Take the memory of blocks from here (borrowed) and not from malloc(). */
void wn__builder_use_memory(struct wn_builder *builder, const struct wn__block_memory *memory);

/* The block just finished, as wn_block_read() would read it, less its payload. NULL if there is
 * none. */
const struct wn_block_info *wn__builder_info(const struct wn_builder *builder);

/* As wn_builder_uppers(), but the array is the caller's, who frees it with free(). */
uint64_t *wn__builder_take_uppers(struct wn_builder *builder);

/* Does the filter, the builder's last one, answer "maybe" for each key? Not once the upper
 * halves were taken. */
bool wn__builder_is_in(const struct wn_builder *builder, const struct wn_filter *filter);

#endif /* WN_KINDS_BLOCK_BUILD_H */
