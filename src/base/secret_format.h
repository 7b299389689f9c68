/* secret_format.h - the bytes of a secret's file; see doc/formats.md. */
#ifndef WN_BASE_SECRET_FORMAT_H
#define WN_BASE_SECRET_FORMAT_H

#include <string.h>

#include "bytes.h"
#include "secret.h"

#define WN__SECRET_FILE_MAGIC "WNSECRET"
#define WN__SECRET_FILE_VERSION 1

enum {
	WN__SECRET_FILE_VERSION_AT = 8,
	WN__SECRET_FILE_RESERVED_AT = 12,
	WN__SECRET_FILE_SEED_AT = 16,
	WN__SECRET_FILE_SUM_AT = 48,
	WN__SECRET_FILE_SIZE = 56
};

static inline void wn__secret_file_write(unsigned char *file, const void *seed)
{
	memcpy(file, WN__SECRET_FILE_MAGIC, 8);
	put_le32(file + WN__SECRET_FILE_VERSION_AT, WN__SECRET_FILE_VERSION);
	put_le32(file + WN__SECRET_FILE_RESERVED_AT, 0);
	memcpy(file + WN__SECRET_FILE_SEED_AT, seed, WN_SEED_SIZE);
	put_le64(file + WN__SECRET_FILE_SUM_AT, XXH3_64bits(file, WN__SECRET_FILE_SUM_AT));
}

static inline bool wn__secret_file_has_magic(const unsigned char *file)
{
	return memcmp(file, WN__SECRET_FILE_MAGIC, 8) == 0;
}

static inline uint32_t wn__secret_file_version(const unsigned char *file)
{
	return get_le32(file + WN__SECRET_FILE_VERSION_AT);
}

static inline bool wn__secret_file_is_whole(const unsigned char *file)
{
	return get_le32(file + WN__SECRET_FILE_RESERVED_AT) == 0 &&
	       get_le64(file + WN__SECRET_FILE_SUM_AT) ==
		       XXH3_64bits(file, WN__SECRET_FILE_SUM_AT);
}

static inline const unsigned char *wn__secret_file_seed(const unsigned char *file)
{
	return file + WN__SECRET_FILE_SEED_AT;
}

#endif /* WN_BASE_SECRET_FORMAT_H */
