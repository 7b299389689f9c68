/* small_table_internal.h - what small_table.c and small_reader.c share. */
#ifndef WN_LEARN_SMALL_TABLE_INTERNAL_H
#define WN_LEARN_SMALL_TABLE_INTERNAL_H

#include "base/bytes.h"
#include "base/secret.h"
#include "small_table.h"

/* The table's id from the digest of its filters. */
static inline void wn__small_table_id(XXH128_hash_t digest, unsigned char *idp)
{
	put_le64(idp, digest.low64);
	put_le64(idp + 8, digest.high64);
}

#endif /* WN_LEARN_SMALL_TABLE_INTERNAL_H */
