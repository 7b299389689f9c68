/* bytes.h - little-endian numbers in unaligned bytes. */
#ifndef WN_BASE_BYTES_H
#define WN_BASE_BYTES_H

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

#endif /* WN_BASE_BYTES_H */
