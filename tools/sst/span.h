/* span.h - some bytes, and taking pieces off their front without ever passing the end. */
#ifndef WN_TOOLS_SST_SPAN_H
#define WN_TOOLS_SST_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

struct span {
	const unsigned char *at;
	size_t size;
};

static inline bool span_take(struct span *from, uint64_t size, struct span *piecep)
{
	if (size > from->size)
		return false;
	*piecep = (struct span){ from->at, (size_t)size };
	from->at += size;
	from->size -= (size_t)size;
	return true;
}

/* Seven bits a byte, the lowest first; at most 64 bits. */
static inline bool span_varint(struct span *from, uint64_t *valuep)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && from->size > 0; shift += 7) {
		unsigned char byte = *from->at++;

		from->size--;
		if (shift == 63 && byte > 1)
			return false;
		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*valuep = value;
			return true;
		}
	}
	return false;
}

static inline bool span_is(struct span span, const char *text)
{
	return span.size == strlen(text) && memcmp(span.at, text, span.size) == 0;
}

static inline bool span_starts(struct span span, const char *text)
{
	return span.size >= strlen(text) && memcmp(span.at, text, strlen(text)) == 0;
}

#endif /* WN_TOOLS_SST_SPAN_H */
