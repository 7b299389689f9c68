/* bytes.h - little-endian numbers in unaligned bytes. */
#ifndef WN_BASE_BYTES_H
#define WN_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Its own inverse: to little-endian and back. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WN__SWAP_LE(bits, value) (value)
#else
#define WN__SWAP_LE(bits, value) __builtin_bswap##bits(value)
#endif

#define WN__DEFINE_LE(bits)                                                     \
	static inline uint##bits##_t get_le##bits(const void *at)               \
	{                                                                       \
		uint##bits##_t value;                                           \
										\
		memcpy(&value, at, sizeof(value));                              \
		return WN__SWAP_LE(bits, value);                                \
	}                                                                       \
	static inline void put_le##bits(void *at, uint##bits##_t value)         \
	{                                                                       \
		value = WN__SWAP_LE(bits, value);                               \
		memcpy(at, &value, sizeof(value));                              \
	}

WN__DEFINE_LE(16)
WN__DEFINE_LE(32)
WN__DEFINE_LE(64)

#undef WN__DEFINE_LE
#undef WN__SWAP_LE

/* Are they zero? What a caller's structure holds for later versions must be. */
static inline bool wn__all_zero(const uint64_t *numbers, size_t count)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < count; i++)
		bits |= numbers[i];
	return bits == 0;
}

#define wn__is_reserved_zero(options)                                                              \
	wn__all_zero((options)->reserved,                                                          \
		     sizeof((options)->reserved) / sizeof((options)->reserved[0]))

/* Why options with something else there are refused. */
#define WN__UNKNOWN_OPTION "an option that this version does not know: reserved must be zero"

#endif /* WN_BASE_BYTES_H */
