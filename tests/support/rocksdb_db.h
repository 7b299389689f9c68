/* rocksdb_db.h - real RocksDB databases for tests: made in a temporary directory, filled with
 * keys that can be told from their number, and checked key by key. */
#ifndef WN_TESTS_ROCKSDB_DB_H
#define WN_TESTS_ROCKSDB_DB_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header: nftw()"
#endif
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>
#include <rocksdb/c.h>

#include <winnow/rocksdb.h>

#include "common.h"
#include "files.h"

/* ---- directories -------------------------------------------------------- */

/* Holds the directories of all tests. Made and removed by the test program itself, not by
 * the processes that Check starts for the tests: those may end early. */
static char test_top[4096];

static inline void test_remove_top(void)
{
	nftw(test_top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void test_make_top(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(test_top, sizeof(test_top), "%s/winnow-rocksdb-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(test_top)) {
		perror(test_top);
		exit(1);
	}
}

static inline const char *test_path(const char *name)
{
	static char path[8192];

	snprintf(path, sizeof(path), "%s/%s", test_top, name);
	return path;
}

/* The database's directory of winnow's own. */
static inline const char *state_path(const char *name)
{
	static char path[8192 + 16];

	snprintf(path, sizeof(path), "%s.winnow", test_path(name));
	return path;
}

/* ---- databases ---------------------------------------------------------- */

/* How a database is to be opened; zero is RocksDB's default. */
struct db_setup {
	const char *name;
	const char *winnow;    /* winnow's options string; NULL: what `stock` says */
	const struct wn_secret *secret;
	enum { STOCK_NONE, STOCK_BLOOM, STOCK_RIBBON } stock;
	bool partitioned;
	size_t partition_bytes; /* 0: RocksDB's */
	bool cached_filters;   /* in the block cache, that is: readers come and go */
	size_t prefix;         /* length; 0: no prefix extractor */
	bool only_prefixes;    /* no whole keys in filters */
	bool no_compaction;
	bool universal;
	uint32_t subcompactions;
	int compression_threads;
	bool no_checksums;
	rocksdb_cache_t *cache; /* borrowed */
};

struct db {
	rocksdb_t *rocks;
	rocksdb_options_t *options;
	rocksdb_readoptions_t *reading;
	rocksdb_column_family_handle_t *family;
	rocksdb_filterpolicy_t *policy; /* while the database is open */
};

#define expect_no(error)                                                                           \
	do {                                                                                       \
		if (error)                                                                         \
			ck_abort_msg("RocksDB: %s", error);                                        \
	} while (0)

static inline rocksdb_filterpolicy_t *db_policy(const struct db_setup *setup)
{
	rocksdb_filterpolicy_t *policy = NULL;

	if (setup->winnow)
		ck_assert_int_eq(wn_rocksdb_filterpolicy(setup->winnow, setup->secret, &policy), 0);
	else if (setup->stock == STOCK_BLOOM)
		policy = rocksdb_filterpolicy_create_bloom_full(10);
	else if (setup->stock == STOCK_RIBBON)
		policy = rocksdb_filterpolicy_create_ribbon(10);
	return policy;
}

/* By its name in options strings: the C interface can say it from RocksDB 7.7 on only. `options`
 * are replaced. */
static inline rocksdb_options_t *with_checksum(rocksdb_options_t *options, const char *name)
{
	rocksdb_options_t *changed = rocksdb_options_create();
	char *error = NULL;
	char string[80];

	snprintf(string, sizeof(string), "block_based_table_factory={checksum=%s}", name);
	rocksdb_get_options_from_string(options, string, changed, &error);
	expect_no(error);
	rocksdb_options_destroy(options);
	return changed;
}

/* Tables that are not block-based. RocksDB 8.5 added arguments. */
static inline void set_plain_tables(rocksdb_options_t *options)
{
#if WN_ROCKSDB_VERSION >= 805
	rocksdb_options_set_plain_table_factory(options, 8, 10, 0.75, 16, 0, 0, 0, 0);
#else
	rocksdb_options_set_plain_table_factory(options, 8, 10, 0.75, 16);
#endif
}

static inline void db_set_table(struct db *db, const struct db_setup *setup)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

	db->policy = db_policy(setup);
	if (db->policy)
		rocksdb_block_based_options_set_filter_policy(table, db->policy);
	if (setup->partitioned) {
		rocksdb_block_based_options_set_index_type(
			table, rocksdb_block_based_table_index_type_two_level_index_search);
		rocksdb_block_based_options_set_partition_filters(table, 1);
		if (setup->partition_bytes)
			rocksdb_block_based_options_set_metadata_block_size(
				table, setup->partition_bytes);
	}
	if (setup->cached_filters)
		rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
	if (setup->cache)
		rocksdb_block_based_options_set_block_cache(table, setup->cache);
	if (setup->only_prefixes)
		rocksdb_block_based_options_set_whole_key_filtering(table, 0);
	rocksdb_options_set_block_based_table_factory(db->options, table);
	rocksdb_block_based_options_destroy(table);
	if (setup->no_checksums)
		db->options = with_checksum(db->options, "kNoChecksum");
}

/* false, and a line that says so: RocksDB was built without this method. It then writes tables
 * uncompressed, and refuses to open databases. */
static inline bool can_compress(int method, const char *name)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *error = NULL;
	rocksdb_t *db;
	bool can;

	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_compression(options, method);
	db = rocksdb_open(options, test_path("compressed"), &error);
	can = !error || !strstr(error, "not linked");
	if (can)
		expect_no(error);
	else
		fprintf(stderr, "skipped: this RocksDB was built without %s\n", name);
	if (db)
		rocksdb_close(db);
	rocksdb_free(error);
	rocksdb_options_destroy(options);
	return can;
}

static inline void db_set_options(struct db *db, const struct db_setup *setup)
{
	rocksdb_options_t *options = db->options;

	rocksdb_options_set_create_if_missing(options, 1);
	/* Small tables, so that there are many. */
	rocksdb_options_set_write_buffer_size(options, 256 << 10);
	rocksdb_options_set_target_file_size_base(options, 256 << 10);
	rocksdb_options_set_max_bytes_for_level_base(options, 1 << 20);
	if (setup->no_compaction)
		rocksdb_options_set_disable_auto_compactions(options, 1);
	if (setup->universal)
		rocksdb_options_set_compaction_style(options, rocksdb_universal_compaction);
	if (setup->subcompactions)
		rocksdb_options_set_max_subcompactions(options, setup->subcompactions);
	if (setup->compression_threads && can_compress(rocksdb_lz4_compression, "LZ4")) {
		rocksdb_options_set_compression(options, rocksdb_lz4_compression);
		rocksdb_options_set_compression_options_parallel_threads(
			options, setup->compression_threads);
	}
	if (setup->prefix)
		rocksdb_options_set_prefix_extractor(
			options, rocksdb_slicetransform_create_fixed_prefix(setup->prefix));
}

/* With db->options as they are. */
static inline void db_open_as_is(struct db *db, const char *name)
{
	const rocksdb_options_t *family_options = db->options;
	const char *family_name = "default";
	char *error = NULL;

	db->reading = rocksdb_readoptions_create();
	db->rocks = rocksdb_open_column_families(db->options, test_path(name), 1, &family_name,
						 &family_options, &db->family, &error);
	expect_no(error);
}

static inline struct db db_open(const char *name, const struct db_setup *setup)
{
	struct db db = {.options = rocksdb_options_create()};

	db_set_options(&db, setup);
	db_set_table(&db, setup);
	db_open_as_is(&db, name);
	return db;
}

static inline void db_close(struct db *db)
{
	rocksdb_column_family_handle_destroy(db->family);
	rocksdb_close(db->rocks);
	rocksdb_readoptions_destroy(db->reading);
	rocksdb_options_destroy(db->options);
}

static inline struct wn_stats db_stats(const struct db *db)
{
	struct wn_stats stats;

	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(db->policy, &stats), 0);
	return stats;
}

static inline void db_flush(struct db *db)
{
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = NULL;

	rocksdb_flush(db->rocks, flushing, &error);
	expect_no(error);
	rocksdb_flushoptions_destroy(flushing);
}

static inline void db_compact(struct db *db)
{
	rocksdb_compact_range(db->rocks, NULL, 0, NULL, 0);
}

/* ---- keys --------------------------------------------------------------- */

#define DB_KEY_SIZE 18
#define DB_PREFIX_SIZE 8 /* the first part of a key: 16 numbers share it */

/* Even numbers are stored and odd ones are not; they lie side by side in key order. An
 * absent prefix is that of a number past all that are stored, scattered between the others. */
static inline void db_key(uint64_t number, char *key)
{
	uint32_t group = (uint32_t)(number / 16) * UINT32_C(2654435761);
	char text[32]; /* for any number, if the compiler asks */

	snprintf(text, sizeof(text), "%08" PRIx32 "%010" PRIu64, group, number);
	memcpy(key, text, DB_KEY_SIZE);
}

static inline void db_put(struct db *db, uint64_t first, uint64_t end)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	char key[DB_KEY_SIZE];
	char *error = NULL;

	rocksdb_writeoptions_disable_WAL(writing, 1);
	for (uint64_t number = first; number < end; number += 2) {
		db_key(number, key);
		rocksdb_put(db->rocks, writing, key, sizeof(key), (char *)&number, sizeof(number),
			    &error);
		expect_no(error);
	}
	rocksdb_writeoptions_destroy(writing);
}

static inline bool db_has(struct db *db, uint64_t number)
{
	char key[DB_KEY_SIZE];
	char *error = NULL;
	uint64_t stored = 0;
	size_t size;
	char *value;

	db_key(number, key);
	value = rocksdb_get(db->rocks, db->reading, key, sizeof(key), &size, &error);
	expect_no(error);
	if (!value)
		return false;
	expect(size == sizeof(stored));
	memcpy(&stored, value, sizeof(stored));
	expect(stored == number);
	rocksdb_free(value);
	return true;
}

#define DB_BATCH 50 /* more than RocksDB asks a filter in one go */

static inline void db_expect_batch(struct db *db, uint64_t first)
{
	char texts[DB_BATCH][DB_KEY_SIZE];
	const char *keys[DB_BATCH];
	size_t sizes[DB_BATCH];
	rocksdb_pinnableslice_t *values[DB_BATCH] = {NULL};
	char *errors[DB_BATCH] = {NULL};

	for (unsigned i = 0; i < DB_BATCH; i++) {
		db_key(first + i, texts[i]);
		keys[i] = texts[i];
		sizes[i] = DB_KEY_SIZE;
	}
	rocksdb_batched_multi_get_cf(db->rocks, db->reading, db->family, DB_BATCH, keys, sizes,
				     values, errors, false);
	for (unsigned i = 0; i < DB_BATCH; i++) {
		expect_no(errors[i]);
		expect((values[i] != NULL) == ((first + i) % 2 == 0));
		rocksdb_pinnableslice_destroy(values[i]);
	}
}

/* Every number from `first` to `end`: the even ones are there, the odd ones are not. */
static inline void db_expect_right(struct db *db, uint64_t first, uint64_t end)
{
	for (uint64_t number = first; number < end; number++)
		expect(db_has(db, number) == (number % 2 == 0));
	for (uint64_t number = first; number + DB_BATCH <= end; number += 16 * DB_BATCH)
		db_expect_batch(db, number);
}

#endif /* WN_TESTS_ROCKSDB_DB_H */
