/* rocksdb_filters.h - RocksDB's own Bloom and Ribbon filters, driven from C.
 *
 * For comparison only. rocksdb_filters.cc does it; a build without RocksDB links
 * rocksdb_filters_none.c instead, whose rf_check() says so. */
#ifndef ROCKSDB_FILTERS_H
#define ROCKSDB_FILTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rf_kind { RF_BLOOM, RF_RIBBON };

/* The batch RocksDB itself uses in MultiGet. */
#define RF_MAX_BATCH 32

struct rf_builder;
struct rf_filter;

/* Can the filters of the library at run time be driven? If not, `message` says
 * why. Ask this first: the other functions trust the answer. */
bool rf_check(char *message, size_t size);

/* RocksDB's version at run time; static storage. */
const char *rf_version(void);

/* `bits` a key; for Ribbon the bits that a Bloom filter of the same
 * false-positive rate would need, as RocksDB counts. NULL on failure. */
struct rf_builder *rf_builder_create(enum rf_kind kind, double bits);

/* Add `count` keys of `key_size` bytes that stand one behind the other. Hashes
 * them; the filter itself is made at the end. */
void rf_builder_add(struct rf_builder *builder, const void *keys, size_t key_size, size_t count);

/* Make the filter; the builder is gone afterwards. NULL on failure. */
struct rf_filter *rf_builder_finish(struct rf_builder *builder);

/* All of it in one call. */
struct rf_filter *rf_build(enum rf_kind kind, double bits, const void *keys, size_t key_size,
			   size_t count);

bool rf_may_match(const struct rf_filter *filter, const void *key, size_t size);

/* RocksDB's batched lookup: `count` keys, at most RF_MAX_BATCH. */
void rf_may_match_many(const struct rf_filter *filter, const void *keys, size_t key_size,
		       size_t count, bool *answersp);

/* The filter block, borrowed, and its number of bytes. */
const void *rf_bytes(const struct rf_filter *filter);
size_t rf_size(const struct rf_filter *filter);

/* The same filter over a copy of its block at `bytes`, which is borrowed. `filter` must outlive
 * it. NULL on failure. */
struct rf_filter *rf_reopen(const struct rf_filter *filter, const void *bytes);

void rf_free(struct rf_filter *filter);

#ifdef __cplusplus
}
#endif

#endif /* ROCKSDB_FILTERS_H */
