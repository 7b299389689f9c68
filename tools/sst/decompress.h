/* decompress.h - what a block was before it was stored. */
#ifndef WN_TOOLS_SST_DECOMPRESS_H
#define WN_TOOLS_SST_DECOMPRESS_H

#include "span.h"

/* The methods, numbered as RocksDB does. */
enum compression {
	COMPRESSION_NONE = 0,
	COMPRESSION_SNAPPY = 1,
	COMPRESSION_ZLIB = 2,
	COMPRESSION_BZIP2 = 3,
	COMPRESSION_LZ4 = 4,
	COMPRESSION_LZ4HC = 5,
	COMPRESSION_XPRESS = 6,
	COMPRESSION_ZSTD = 7
};

/* Never NULL. */
const char *compression_name(unsigned method);

/* How the size of the original is told. */
enum size_form {
	SIZE_IN_FRONT,  /* a varint, since format 2 of RocksDB */
	SIZE_IN_STREAM  /* as the method does by itself, or eight bytes for LZ4 */
};

/* The original of `stored`; *originalp is malloc()ed. `dictionary` may be empty.
 * ENOTSUP: a method this program was built without. WN_ERR_CORRUPT: these bytes are
 * none of the method's, or claim to be more than can be believed. ENOMEM. */
int decompress(unsigned method, enum size_form form, struct span dictionary, struct span stored,
	       unsigned char **originalp, size_t *sizep);

#endif /* WN_TOOLS_SST_DECOMPRESS_H */
