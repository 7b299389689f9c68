/* crc32c.c - eight bytes a step, by eight tables: table k says what a byte does to the
 * remainder when k more bytes follow it in the step. */
#include <pthread.h>

#include "bytes.h"
#include "crc32c.h"

static uint32_t tables[8][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t rest = byte;

		for (int bit = 0; bit < 8; bit++)
			rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0);
		tables[0][byte] = rest;
	}
	for (unsigned k = 1; k < 8; k++)
		for (unsigned byte = 0; byte < 256; byte++) {
			uint32_t before = tables[k - 1][byte];

			tables[k][byte] = before >> 8 ^ tables[0][before & 255];
		}
}

uint32_t wn__crc32c(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint32_t rest = UINT32_MAX;

	pthread_once(&tables_made, make_tables);
	for (; size >= 8; at += 8, size -= 8) {
		uint64_t word = get_le64(at) ^ rest;

		rest = 0;
		for (unsigned i = 0; i < 8; i++)
			rest ^= tables[7 - i][word >> 8 * i & 255];
	}
	for (; size > 0; at++, size--)
		rest = rest >> 8 ^ tables[0][(rest ^ *at) & 255];
	return ~rest;
}
