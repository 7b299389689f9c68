/* rocksdb_filters_none.c - rocksdb_filters.h in a build without RocksDB. */
#include "rocksdb_filters.h"

#include <stdio.h>

bool rf_check(char *message, size_t size)
{
	snprintf(message, size, "built without RocksDB");
	return false;
}

const char *rf_version(void)
{
	return "none";
}

struct rf_builder *rf_builder_create(enum rf_kind kind, double bits)
{
	(void)kind;
	(void)bits;
	return NULL;
}

void rf_builder_add(struct rf_builder *builder, const void *keys, size_t key_size, size_t count)
{
	(void)builder;
	(void)keys;
	(void)key_size;
	(void)count;
}

struct rf_filter *rf_builder_finish(struct rf_builder *builder)
{
	(void)builder;
	return NULL;
}

struct rf_filter *rf_build(enum rf_kind kind, double bits, const void *keys, size_t key_size,
			   size_t count)
{
	(void)kind;
	(void)bits;
	(void)keys;
	(void)key_size;
	(void)count;
	return NULL;
}

bool rf_may_match(const struct rf_filter *filter, const void *key, size_t size)
{
	(void)filter;
	(void)key;
	(void)size;
	return true;
}

void rf_may_match_many(const struct rf_filter *filter, const void *keys, size_t key_size,
		       size_t count, bool *answersp)
{
	(void)filter;
	(void)keys;
	(void)key_size;
	for (size_t i = 0; i < count; i++)
		answersp[i] = true;
}

const void *rf_bytes(const struct rf_filter *filter)
{
	(void)filter;
	return NULL;
}

struct rf_filter *rf_reopen(const struct rf_filter *filter, const void *bytes)
{
	(void)filter;
	(void)bytes;
	return NULL;
}

size_t rf_size(const struct rf_filter *filter)
{
	(void)filter;
	return 0;
}

void rf_free(struct rf_filter *filter)
{
	(void)filter;
}
