/* decompress.c - Snappy and LZ4 by hand, for they are small; zlib and Zstandard by their
 * libraries, if they were there when this was built. */
#include <errno.h>
#include <stdlib.h>

#ifdef HAVE_LIBZ
#include <zlib.h>
#endif
#ifdef HAVE_LIBZSTD
#include <zstd.h>
#endif

#include <winnow/error.h>

#include "decompress.h"

const char *compression_name(unsigned method)
{
	static const char *const names[] = { "none", "Snappy", "zlib", "bzip2", "LZ4", "LZ4HC",
					     "XPRESS", "Zstandard" };

	return method < sizeof(names) / sizeof(*names) ? names[method] : "unknown";
}

/* Blocks are some kilobytes, rarely megabytes; a few bytes that claim to be gigabytes
 * are not to be given them. */
static bool is_believable(uint64_t size, size_t stored)
{
	return size <= (UINT64_C(16) << 20) + (uint64_t)stored * 256;
}

/* ---- what Snappy and LZ4 share ------------------------------------------ */

struct output {
	unsigned char *start; /* the dictionary, then the original */
	size_t done;
	size_t size;
};

static bool put_literal(struct output *output, struct span *from, uint64_t length)
{
	struct span piece;

	if (length > output->size - output->done || !span_take(from, length, &piece))
		return false;
	if (piece.size > 0)
		memcpy(output->start + output->done, piece.at, piece.size);
	output->done += piece.size;
	return true;
}

/* Byte by byte: what is copied may be what this very copy writes. */
static bool put_copy(struct output *output, uint64_t distance, uint64_t length)
{
	if (distance == 0 || distance > output->done || length > output->size - output->done)
		return false;
	for (; length > 0; length--, output->done++)
		output->start[output->done] = output->start[output->done - distance];
	return true;
}

/* `bytes` bytes, the lowest first. */
static bool take_number(struct span *from, unsigned bytes, uint64_t *valuep)
{
	struct span piece;

	*valuep = 0;
	if (!span_take(from, bytes, &piece))
		return false;
	for (unsigned i = 0; i < bytes; i++)
		*valuep |= (uint64_t)piece.at[i] << 8 * i;
	return true;
}

/* ---- Snappy ------------------------------------------------------------- */

static bool snappy_literal(struct output *output, struct span *from, unsigned tag)
{
	uint64_t length = tag >> 2;

	if (length >= 60 && !take_number(from, (unsigned)length - 59, &length))
		return false;
	return put_literal(output, from, length + 1);
}

static bool snappy_copy(struct output *output, struct span *from, unsigned tag)
{
	uint64_t distance;

	if ((tag & 3) == 1) {
		if (!take_number(from, 1, &distance))
			return false;
		return put_copy(output, (uint64_t)(tag >> 5) << 8 | distance, (tag >> 2 & 7) + 4);
	}
	return take_number(from, (tag & 3) == 2 ? 2 : 4, &distance) &&
	       put_copy(output, distance, (tag >> 2) + 1);
}

static bool snappy(struct output *output, struct span from)
{
	while (from.size > 0) {
		unsigned tag = *from.at;

		from.at++;
		from.size--;
		if (!(tag & 3 ? snappy_copy(output, &from, tag)
			      : snappy_literal(output, &from, tag)))
			return false;
	}
	return output->done == output->size;
}

/* ---- LZ4 ---------------------------------------------------------------- */

/* Four bits, and if they are all set, bytes until one is not 255. */
static bool lz4_length(struct span *from, unsigned start, uint64_t *lengthp)
{
	uint64_t byte = start == 15 ? 255 : 0;

	*lengthp = start;
	while (byte == 255) {
		if (!take_number(from, 1, &byte))
			return false;
		*lengthp += byte;
	}
	return true;
}

static bool lz4(struct output *output, struct span from)
{
	while (from.size > 0) {
		unsigned token = *from.at;
		uint64_t length, distance;

		from.at++;
		from.size--;
		if (!lz4_length(&from, token >> 4, &length) ||
		    !put_literal(output, &from, length))
			return false;
		/* The last piece is a literal alone. */
		if (from.size == 0)
			break;
		if (!take_number(&from, 2, &distance) || !lz4_length(&from, token & 15, &length) ||
		    !put_copy(output, distance, length + 4))
			return false;
	}
	return output->done == output->size;
}

/* Copies of LZ4 may reach back into the dictionary: it is put in front. */
static int by_hand(bool decode(struct output *, struct span), struct span dictionary,
		   struct span stored, uint64_t size, unsigned char **originalp)
{
	struct output output = { .done = dictionary.size, .size = dictionary.size + (size_t)size };

	output.start = malloc(output.size ? output.size : 1);
	if (!output.start)
		return ENOMEM;
	if (dictionary.size > 0)
		memcpy(output.start, dictionary.at, dictionary.size);
	if (!decode(&output, stored)) {
		free(output.start);
		return WN_ERR_CORRUPT;
	}
	memmove(output.start, output.start + dictionary.size, (size_t)size);
	*originalp = output.start;
	return 0;
}

/* ---- by library --------------------------------------------------------- */

#ifdef HAVE_LIBZ
/* RocksDB's streams have no header of zlib's, and a window of 16 KiB. */
static bool zlib(struct span dictionary, struct span stored, unsigned char *original, size_t size)
{
	z_stream stream = { .next_in = (unsigned char *)(uintptr_t)stored.at,
			    .avail_in = (unsigned)stored.size,
			    .next_out = original,
			    .avail_out = (unsigned)size };
	bool good;

	if (stored.size > UINT32_MAX || size > UINT32_MAX || inflateInit2(&stream, -14) != Z_OK)
		return false;
	good = dictionary.size == 0 ||
	       inflateSetDictionary(&stream, dictionary.at, (unsigned)dictionary.size) == Z_OK;
	good = good && inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
	inflateEnd(&stream);
	return good;
}
#endif

#ifdef HAVE_LIBZSTD
static bool zstandard(struct span dictionary, struct span stored, unsigned char *original,
		      size_t size)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	size_t done = context ? ZSTD_decompress_usingDict(context, original, size, stored.at,
							  stored.size, dictionary.at,
							  dictionary.size)
			      : 0;

	ZSTD_freeDCtx(context);
	return context && !ZSTD_isError(done) && done == size;
}
#endif

#if defined(HAVE_LIBZ) || defined(HAVE_LIBZSTD)
static int by_library(bool decode(struct span, struct span, unsigned char *, size_t),
		      struct span dictionary, struct span stored, uint64_t size,
		      unsigned char **originalp)
{
	unsigned char *original = malloc(size ? (size_t)size : 1);

	if (!original)
		return ENOMEM;
	if (!decode(dictionary, stored, original, (size_t)size)) {
		free(original);
		return WN_ERR_CORRUPT;
	}
	*originalp = original;
	return 0;
}
#endif

/* ---- all ---------------------------------------------------------------- */

static bool can_decompress(unsigned method)
{
	switch (method) {
	case COMPRESSION_SNAPPY:
	case COMPRESSION_LZ4:
	case COMPRESSION_LZ4HC:
		return true;
#ifdef HAVE_LIBZ
	case COMPRESSION_ZLIB:
		return true;
#endif
#ifdef HAVE_LIBZSTD
	case COMPRESSION_ZSTD:
		return true;
#endif
	default:
		return false;
	}
}

/* Where the size of the original stands depends on the method and its age. */
static bool take_size(unsigned method, enum size_form form, struct span *stored, uint64_t *sizep)
{
	struct span front;

	if (method == COMPRESSION_SNAPPY || form == SIZE_IN_FRONT)
		return span_varint(stored, sizep);
	if (method == COMPRESSION_LZ4 || method == COMPRESSION_LZ4HC) {
		if (!span_take(stored, 8, &front))
			return false;
		*sizep = get_le32(front.at);
		return true;
	}
#ifdef HAVE_LIBZSTD
	if (method == COMPRESSION_ZSTD) {
		unsigned long long size = ZSTD_getFrameContentSize(stored->at, stored->size);

		*sizep = size;
		return size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR;
	}
#endif
	return false;
}

int decompress(unsigned method, enum size_form form, struct span dictionary, struct span stored,
	       unsigned char **originalp, size_t *sizep)
{
	size_t whole = stored.size;
	uint64_t size;
	int err = ENOTSUP;

	*originalp = NULL;
	*sizep = 0;
	/* zlib's streams tell no size before format 2: long gone. */
	if (!can_decompress(method) || (method == COMPRESSION_ZLIB && form == SIZE_IN_STREAM))
		return ENOTSUP;
	if (!take_size(method, form, &stored, &size) || !is_believable(size, whole))
		return WN_ERR_CORRUPT;
	if (method == COMPRESSION_SNAPPY)
		err = by_hand(snappy, (struct span){ NULL, 0 }, stored, size, originalp);
	else if (method == COMPRESSION_LZ4 || method == COMPRESSION_LZ4HC)
		err = by_hand(lz4, dictionary, stored, size, originalp);
#ifdef HAVE_LIBZ
	else if (method == COMPRESSION_ZLIB)
		err = by_library(zlib, dictionary, stored, size, originalp);
#endif
#ifdef HAVE_LIBZSTD
	else if (method == COMPRESSION_ZSTD)
		err = by_library(zstandard, dictionary, stored, size, originalp);
#endif
	if (!err)
		*sizep = (size_t)size;
	return err;
}
