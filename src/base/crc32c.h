/* crc32c.h - the checksum of LevelDB's blocks, and of many of RocksDB's. */
#ifndef WN_BASE_CRC32C_H
#define WN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Castagnoli's polynomial, bits reversed, inverted at start and end. */
uint32_t wn__crc32c(const void *bytes, size_t size);

/* As both engines store it, so that a checksum over checksums says something. */
static inline uint32_t wn__crc32c_masked(const void *bytes, size_t size)
{
	uint32_t crc = wn__crc32c(bytes, size);

	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

#endif /* WN_BASE_CRC32C_H */
