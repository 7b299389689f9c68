/* block_format.h - the bytes of a filter block; see doc/formats.md.
 *
 * Offsets and checksums live here and nowhere else. The getters read where they
 * are told to: that the bytes are there is for the caller to know. */
#ifndef WN_KINDS_BLOCK_FORMAT_H
#define WN_KINDS_BLOCK_FORMAT_H

#include <string.h>

#include <winnow/block.h>

#include "base/bytes.h"
#include "base/secret.h"

#define WN__BLOCK_VERSION 1

/* Both forms end in zeros: RocksDB's built-in reader takes such a block for a
 * filter that says "maybe" to everything, and so does LevelDB's. */
#define WN__BLOCK_TRAILER_SIZE 5

static inline bool wn__block_has_trailer(const unsigned char *block, size_t size)
{
	static const unsigned char zeros[WN__BLOCK_TRAILER_SIZE];

	return memcmp(block + size - sizeof(zeros), zeros, sizeof(zeros)) == 0;
}

/* ---- the full form: header, payload, payload's checksum, trailer -------- */

#define WN__BLOCK_MAGIC "WINNOW\x1a\n"
#define WN__BLOCK_MAGIC_SIZE 8

enum {
	WN__BLOCK_VERSION_AT = 8,
	WN__BLOCK_KIND_AT = 10,
	WN__BLOCK_FLAGS_AT = 11,
	WN__BLOCK_HEADER_SIZE_AT = 12,
	WN__BLOCK_PAYLOAD_SIZE_AT = 16,
	WN__BLOCK_KEY_COUNT_AT = 24,
	WN__BLOCK_ID_AT = 32,
	WN__BLOCK_SEED_AT = 48,
	WN__BLOCK_PARAMS_AT = 80,
	WN__BLOCK_RESERVED_AT = 112,
	WN__BLOCK_HEADER_SUM_AT = 120,
	WN__BLOCK_HEADER_SIZE = 128,
	WN__BLOCK_PAYLOAD_SUM_SIZE = 8,
	WN__BLOCK_TAIL_SIZE = WN__BLOCK_PAYLOAD_SUM_SIZE + WN__BLOCK_TRAILER_SIZE,
	WN__BLOCK_MIN_SIZE = WN__BLOCK_HEADER_SIZE + WN__BLOCK_TAIL_SIZE
};

static inline bool wn__block_has_magic(const unsigned char *block)
{
	return memcmp(block, WN__BLOCK_MAGIC, WN__BLOCK_MAGIC_SIZE) == 0;
}

static inline void wn__block_set_magic(unsigned char *block)
{
	memcpy(block, WN__BLOCK_MAGIC, WN__BLOCK_MAGIC_SIZE);
}

static inline unsigned wn__block_version(const unsigned char *block)
{
	return get_le16(block + WN__BLOCK_VERSION_AT);
}

static inline void wn__block_set_version(unsigned char *block, unsigned version)
{
	put_le16(block + WN__BLOCK_VERSION_AT, (uint16_t)version);
}

static inline unsigned wn__block_kind(const unsigned char *block)
{
	return block[WN__BLOCK_KIND_AT];
}

static inline void wn__block_set_kind(unsigned char *block, unsigned kind)
{
	block[WN__BLOCK_KIND_AT] = (unsigned char)kind;
}

static inline unsigned wn__block_flags(const unsigned char *block)
{
	return block[WN__BLOCK_FLAGS_AT];
}

static inline void wn__block_set_flags(unsigned char *block, unsigned flags)
{
	block[WN__BLOCK_FLAGS_AT] = (unsigned char)flags;
}

static inline uint32_t wn__block_header_size(const unsigned char *block)
{
	return get_le32(block + WN__BLOCK_HEADER_SIZE_AT);
}

static inline void wn__block_set_header_size(unsigned char *block, uint32_t size)
{
	put_le32(block + WN__BLOCK_HEADER_SIZE_AT, size);
}

static inline uint64_t wn__block_payload_size(const unsigned char *block)
{
	return get_le64(block + WN__BLOCK_PAYLOAD_SIZE_AT);
}

static inline void wn__block_set_payload_size(unsigned char *block, uint64_t size)
{
	put_le64(block + WN__BLOCK_PAYLOAD_SIZE_AT, size);
}

static inline uint64_t wn__block_key_count(const unsigned char *block)
{
	return get_le64(block + WN__BLOCK_KEY_COUNT_AT);
}

static inline void wn__block_set_key_count(unsigned char *block, uint64_t count)
{
	put_le64(block + WN__BLOCK_KEY_COUNT_AT, count);
}

static inline unsigned char *wn__block_id(unsigned char *block)
{
	return block + WN__BLOCK_ID_AT;
}

static inline void wn__block_get_id(const unsigned char *block, unsigned char *id)
{
	memcpy(id, block + WN__BLOCK_ID_AT, WN_BLOCK_ID_SIZE);
}

static inline void wn__block_get_seed(const unsigned char *block, unsigned char *seed)
{
	memcpy(seed, block + WN__BLOCK_SEED_AT, WN_SEED_SIZE);
}

static inline void wn__block_set_seed(unsigned char *block, const unsigned char *seed)
{
	memcpy(block + WN__BLOCK_SEED_AT, seed, WN_SEED_SIZE);
}

static inline void wn__block_get_params(const unsigned char *block, unsigned char *params)
{
	memcpy(params, block + WN__BLOCK_PARAMS_AT, WN_BLOCK_PARAMS_SIZE);
}

static inline void wn__block_set_params(unsigned char *block, const unsigned char *params)
{
	memcpy(block + WN__BLOCK_PARAMS_AT, params, WN_BLOCK_PARAMS_SIZE);
}

static inline uint64_t wn__block_reserved(const unsigned char *block)
{
	return get_le64(block + WN__BLOCK_RESERVED_AT);
}

static inline uint64_t wn__block_header_sum(const unsigned char *block)
{
	return get_le64(block + WN__BLOCK_HEADER_SUM_AT);
}

static inline uint64_t wn__block_sum_header(const unsigned char *block)
{
	return XXH3_64bits(block, WN__BLOCK_HEADER_SUM_AT);
}

static inline void wn__block_set_header_sum(unsigned char *block)
{
	put_le64(block + WN__BLOCK_HEADER_SUM_AT, wn__block_sum_header(block));
}

static inline uint64_t wn__block_payload_sum(const unsigned char *block, size_t payload_size)
{
	return get_le64(block + WN__BLOCK_HEADER_SIZE + payload_size);
}

static inline uint64_t wn__block_sum_payload(const unsigned char *block, size_t payload_size)
{
	return XXH3_64bits(block + WN__BLOCK_HEADER_SIZE, payload_size);
}

static inline void wn__block_set_payload_sum(unsigned char *block, size_t payload_size)
{
	put_le64(block + WN__BLOCK_HEADER_SIZE + payload_size,
		 wn__block_sum_payload(block, payload_size));
}

/* ---- the tiny form: payload, then a tail that is read from its end ------ */

#define WN__SMALL_MAGIC 0xf7
#define WN__SMALL_VERSION 1
#define WN__SMALL_MAX_KIND 15

/* The id is a hash of all bytes; this bounds what opening costs. Larger filters
 * get the full form: there the header is nothing. */
#define WN__SMALL_MAX_PAYLOAD ((size_t)64 << 10)

/* Distances from the block's end. */
enum {
	WN__SMALL_SUM_AT = WN__BLOCK_TRAILER_SIZE + 4,
	WN__SMALL_MAGIC_AT = WN__SMALL_SUM_AT + 1,
	WN__SMALL_KIND_AT = WN__SMALL_MAGIC_AT + 1,
	WN__SMALL_LENGTHS_AT = WN__SMALL_KIND_AT + 1,
	WN__SMALL_SECRET_ID_AT = WN__SMALL_LENGTHS_AT + 4,
	WN__SMALL_FIXED_SIZE = WN__SMALL_SECRET_ID_AT, /* then key count, then params */
	WN__SMALL_MIN_SIZE = WN__SMALL_FIXED_SIZE + 1,
	WN__SMALL_MAX_TAIL_SIZE = WN__SMALL_FIXED_SIZE + 8 + WN_BLOCK_PARAMS_SIZE
};

static inline bool wn__small_has_magic(const unsigned char *end)
{
	return *(end - WN__SMALL_MAGIC_AT) == WN__SMALL_MAGIC;
}

static inline void wn__small_set_magic(unsigned char *end)
{
	*(end - WN__SMALL_MAGIC_AT) = WN__SMALL_MAGIC;
}

static inline unsigned wn__small_version(const unsigned char *end)
{
	return *(end - WN__SMALL_KIND_AT) >> 4;
}

static inline unsigned wn__small_kind(const unsigned char *end)
{
	return *(end - WN__SMALL_KIND_AT) & 15;
}

static inline void wn__small_set_version_and_kind(unsigned char *end, unsigned version,
						 unsigned kind)
{
	*(end - WN__SMALL_KIND_AT) = (unsigned char)(version << 4 | kind);
}

static inline size_t wn__small_params_length(const unsigned char *end)
{
	return *(end - WN__SMALL_LENGTHS_AT) & 63;
}

/* 1, 2, 4 or 8 bytes. */
static inline size_t wn__small_count_length(const unsigned char *end)
{
	return (size_t)1 << (*(end - WN__SMALL_LENGTHS_AT) >> 6);
}

static inline void wn__small_set_lengths(unsigned char *end, size_t params_length,
					unsigned count_length_log2)
{
	*(end - WN__SMALL_LENGTHS_AT) = (unsigned char)(count_length_log2 << 6 | params_length);
}

static inline size_t wn__small_tail_size(const unsigned char *end)
{
	return WN__SMALL_FIXED_SIZE + wn__small_count_length(end) + wn__small_params_length(end);
}

static inline uint32_t wn__small_secret_id(const unsigned char *end)
{
	return get_le32(end - WN__SMALL_SECRET_ID_AT);
}

static inline void wn__small_set_secret_id(unsigned char *end, uint32_t id)
{
	put_le32(end - WN__SMALL_SECRET_ID_AT, id);
}

static inline uint64_t wn__small_key_count(const unsigned char *end)
{
	size_t length = wn__small_count_length(end);
	unsigned char bytes[8] = { 0 };

	memcpy(bytes, end - WN__SMALL_FIXED_SIZE - length, length);
	return get_le64(bytes);
}

/* The lengths are set first, here and below. */
static inline void wn__small_set_key_count(unsigned char *end, uint64_t count)
{
	size_t length = wn__small_count_length(end);
	unsigned char bytes[8];

	put_le64(bytes, count);
	memcpy(end - WN__SMALL_FIXED_SIZE - length, bytes, length);
}

/* The rest of `params` becomes zero. The length must have been checked. */
static inline void wn__small_get_params(const unsigned char *end, unsigned char *params)
{
	memset(params, 0, WN_BLOCK_PARAMS_SIZE);
	memcpy(params, end - wn__small_tail_size(end), wn__small_params_length(end));
}

static inline void wn__small_set_params(unsigned char *end, const unsigned char *params)
{
	memcpy(end - wn__small_tail_size(end), params, wn__small_params_length(end));
}

/* The id: a hash of everything before the checksum. The checksum is its lowest
 * 32 bits, so that one pass over the bytes gives both. */
static inline void wn__small_get_id(const unsigned char *block, size_t size, unsigned char *id)
{
	XXH128_hash_t hash = XXH3_128bits(block, size - WN__SMALL_SUM_AT);

	put_le64(id, hash.low64);
	put_le64(id + 8, hash.high64);
}

static inline bool wn__small_sum_fits(const unsigned char *end, const unsigned char *id)
{
	return get_le32(end - WN__SMALL_SUM_AT) == get_le32(id);
}

static inline void wn__small_set_sum(unsigned char *block, size_t size)
{
	unsigned char id[WN_BLOCK_ID_SIZE];

	wn__small_get_id(block, size, id);
	put_le32(block + size - WN__SMALL_SUM_AT, get_le32(id));
}

#endif /* WN_KINDS_BLOCK_FORMAT_H */
