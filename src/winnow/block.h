/* block.h - the self-describing filter block: what lies around a filter's bits.
 * The bytes are written down in doc/formats.md.
 *
 * Thread safety: these functions only read the bytes they are given. */
#ifndef WINNOW_BLOCK_H
#define WINNOW_BLOCK_H

#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

#define WN_BLOCK_ID_SIZE 16
#define WN_BLOCK_PARAMS_SIZE 32

/* How much of a block to check. */
enum wn_check {
	/* The header alone, in constant time: for hosts that have already
	 * checksummed the bytes, as RocksDB does. */
	WN_CHECK_HEADER,
	/* Every byte, and that the filter inside is well formed. */
	WN_CHECK_ALL
};

struct wn_block_info {
	unsigned version;
	unsigned kind;                         /* one of the kinds in filter.h */
	uint64_t key_count;
	uint32_t secret_id;                    /* the seed's short id */
	unsigned char id[WN_BLOCK_ID_SIZE];
	unsigned char seed[WN_SEED_SIZE];
	unsigned char params[WN_BLOCK_PARAMS_SIZE]; /* meaning up to the kind */
	const unsigned char *payload;          /* borrowed from the block */
	size_t payload_size;
	uint64_t reserved[4];                  /* zero */
};

/* True if the bytes claim to be a winnow block: the magic in front. Says nothing
 * about damage: a block that was cut off is still ours, and no other reader's. */
WN_PUBLIC bool wn_block_is_ours(const void *block, size_t size);

/* Check `block` and read its header into *infop, whose pointers borrow from
 * `block`. Refusals: WN_ERR_CORRUPT or WN_ERR_VERSION, with *reasonp (static
 * text, may be asked for as NULL) saying what is wrong. WN_CHECK_ALL covers
 * header and payload checksums; whether the payload is a well-formed filter is
 * for wn_filter_open() to say. */
WN_PUBLIC int wn_block_read(const void *block, size_t size, enum wn_check check,
			    struct wn_block_info *infop, const char **reasonp);

/* The short id of a secret's seed. */
WN_PUBLIC uint32_t wn_secret_id(const struct wn_secret *secret);

WN_END_DECLS

#endif /* WINNOW_BLOCK_H */
