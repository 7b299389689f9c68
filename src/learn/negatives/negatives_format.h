/* negatives_format.h - the bytes of a saved negatives table; see doc/formats.md. */
#ifndef WN_LEARN_NEGATIVES_NEGATIVES_FORMAT_H
#define WN_LEARN_NEGATIVES_NEGATIVES_FORMAT_H

#include <string.h>

#include "base/bytes.h"
#include "negatives.h"
#include "base/secret.h"

#define WN__NEGATIVES_MAGIC "WNNEGATV"
#define WN__NEGATIVES_VERSION 1

enum {
	WN__NEGATIVES_VERSION_AT = 8,
	WN__NEGATIVES_RESERVED_AT = 12,
	WN__NEGATIVES_SEED_SUM_AT = 16,
	WN__NEGATIVES_COUNT_AT = 24,
	WN__NEGATIVES_AT = 32,
	WN__NEGATIVES_ENTRY_SIZE = 24,
	WN__NEGATIVES_MIN_SIZE = WN__NEGATIVES_AT + 8
};

static inline size_t wn__negatives_size(uint64_t count)
{
	return WN__NEGATIVES_MIN_SIZE + (size_t)count * WN__NEGATIVES_ENTRY_SIZE;
}

static inline bool wn__negatives_have_magic(const unsigned char *bytes)
{
	return memcmp(bytes, WN__NEGATIVES_MAGIC, 8) == 0;
}

static inline uint32_t wn__negatives_version(const unsigned char *bytes)
{
	return get_le32(bytes + WN__NEGATIVES_VERSION_AT);
}

static inline uint32_t wn__negatives_reserved(const unsigned char *bytes)
{
	return get_le32(bytes + WN__NEGATIVES_RESERVED_AT);
}

static inline uint64_t wn__negatives_seed_sum(const unsigned char *bytes)
{
	return get_le64(bytes + WN__NEGATIVES_SEED_SUM_AT);
}

static inline uint64_t wn__negatives_count(const unsigned char *bytes)
{
	return get_le64(bytes + WN__NEGATIVES_COUNT_AT);
}

static inline void wn__negatives_write_head(unsigned char *bytes, uint64_t seed_sum,
					    uint64_t count)
{
	memcpy(bytes, WN__NEGATIVES_MAGIC, 8);
	put_le32(bytes + WN__NEGATIVES_VERSION_AT, WN__NEGATIVES_VERSION);
	put_le32(bytes + WN__NEGATIVES_RESERVED_AT, 0);
	put_le64(bytes + WN__NEGATIVES_SEED_SUM_AT, seed_sum);
	put_le64(bytes + WN__NEGATIVES_COUNT_AT, count);
}

static inline struct wn__negative wn__negatives_get(const unsigned char *bytes, uint64_t index)
{
	const unsigned char *at =
		bytes + WN__NEGATIVES_AT + (size_t)index * WN__NEGATIVES_ENTRY_SIZE;
	struct wn__negative negative = {.hash = {get_le64(at), get_le64(at + 8)}};
	uint64_t cost = get_le64(at + 16);

	memcpy(&negative.cost, &cost, sizeof(cost));
	return negative;
}

static inline void wn__negatives_put(unsigned char *bytes, uint64_t index,
				     struct wn__negative negative)
{
	unsigned char *at = bytes + WN__NEGATIVES_AT + (size_t)index * WN__NEGATIVES_ENTRY_SIZE;
	uint64_t cost;

	memcpy(&cost, &negative.cost, sizeof(cost));
	put_le64(at, negative.hash.hi);
	put_le64(at + 8, negative.hash.lo);
	put_le64(at + 16, cost);
}

static inline void wn__negatives_seal(unsigned char *bytes, size_t size)
{
	put_le64(bytes + size - 8, XXH3_64bits(bytes, size - 8));
}

static inline bool wn__negatives_are_whole(const unsigned char *bytes, size_t size)
{
	return get_le64(bytes + size - 8) == XXH3_64bits(bytes, size - 8);
}

#endif /* WN_LEARN_NEGATIVES_NEGATIVES_FORMAT_H */
