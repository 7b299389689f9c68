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

#define WN__BLOCK_VERSION 2

/* A block ends in zeros: RocksDB's built-in reader takes it for a filter that
 * says "maybe" to everything, and so does LevelDB's. */
#define WN__BLOCK_TRAILER_SIZE 5

static inline bool wn__block_has_trailer(const unsigned char *block, size_t size)
{
	static const unsigned char zeros[WN__BLOCK_TRAILER_SIZE];

	return memcmp(block + size - sizeof(zeros), zeros, sizeof(zeros)) == 0;
}

/* Header, payload, payload's checksum, trailer. */
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

#endif /* WN_KINDS_BLOCK_FORMAT_H */
