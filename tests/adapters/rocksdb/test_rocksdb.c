/* test_rocksdb.c - winnow's filters in real RocksDB databases. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <errno.h>

#include <winnow/block.h>
#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "adapters/rocksdb/policy.h"
#include "tests/support/rocksdb_db.h"

/* Half of them are keys: the even ones. */
#define SOME_NUMBERS 24000
#define FEW_NUMBERS 6000 /* where most lookups find no filter and read every table */

static uint64_t numbers(void)
{
	return test_is_quick() ? SOME_NUMBERS : 16 * SOME_NUMBERS;
}

/* Left to itself, RocksDB would write tables anew under the policy it was just opened with. */
static const struct db_setup winnow = {.name = "winnow", .winnow = "aqf", .no_compaction = true};
static const struct db_setup bloom = {.name = "bloom", .stock = STOCK_BLOOM,
				      .no_compaction = true};
static const struct db_setup ribbon = {.name = "ribbon", .stock = STOCK_RIBBON,
				       .no_compaction = true};
static const struct db_setup none = {.name = "none", .no_compaction = true};

/* ---- what the filters do ------------------------------------------------ */

struct asked {
	uint64_t positives, negatives;
};

static struct asked filter_answers(rocksdb_perfcontext_t *context)
{
	return (struct asked){
		rocksdb_perfcontext_metric(context, rocksdb_bloom_sst_hit_count),
		rocksdb_perfcontext_metric(context, rocksdb_bloom_sst_miss_count),
	};
}

/* Ask for absent keys; what did the filters say? */
static struct asked ask_absent(struct db *db, uint64_t end)
{
	rocksdb_perfcontext_t *context = rocksdb_perfcontext_create();
	struct asked asked;

	rocksdb_set_perf_level(rocksdb_enable_count);
	rocksdb_perfcontext_reset(context);
	for (uint64_t number = 1; number < end; number += 2)
		expect(!db_has(db, number));
	asked = filter_answers(context);
	rocksdb_set_perf_level(rocksdb_disable);
	rocksdb_perfcontext_destroy(context);
	return asked;
}

/* Is there a key with the prefix of `number`? By an iterator, which asks the filter. */
static bool has_prefix(struct db *db, rocksdb_readoptions_t *reading, uint64_t number)
{
	rocksdb_iterator_t *iterator = rocksdb_create_iterator(db->rocks, reading);
	char key[DB_KEY_SIZE];
	bool found;

	db_key(number, key);
	rocksdb_iter_seek(iterator, key, DB_PREFIX_SIZE);
	found = rocksdb_iter_valid(iterator);
	rocksdb_iter_destroy(iterator);
	return found;
}

static struct asked ask_prefixes(struct db *db, uint64_t end)
{
	rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
	rocksdb_perfcontext_t *context = rocksdb_perfcontext_create();
	struct asked asked;

	rocksdb_readoptions_set_prefix_same_as_start(reading, 1);
	for (uint64_t number = 0; number < end; number += 16)
		expect(has_prefix(db, reading, number));
	rocksdb_set_perf_level(rocksdb_enable_count);
	rocksdb_perfcontext_reset(context);
	for (uint64_t number = end; number < 2 * end; number += 16)
		expect(!has_prefix(db, reading, number + 16));
	asked = filter_answers(context);
	rocksdb_set_perf_level(rocksdb_disable);
	rocksdb_perfcontext_destroy(context);
	rocksdb_readoptions_destroy(reading);
	return asked;
}

/* The default remainder lets one in 540 through. Four are allowed: the promise that is
 * tested is that the filters work at all, behind every option of RocksDB's. */
static void expect_filtered(struct asked asked)
{
	fprintf(stderr, "absent: %" PRIu64 " positives, %" PRIu64 " negatives\n", asked.positives,
		asked.negatives);
	ck_assert_uint_gt(asked.negatives, 1000);
	ck_assert_uint_lt(asked.positives * 128, asked.negatives);
}

/* ---- every way to build tables ------------------------------------------ */

enum { WAY_FULL = 0, WAY_PARTITIONED = 1, WAY_PREFIX = 2 };

static const struct db_setup ways[] = {
	[WAY_FULL] = {.name = "full", .winnow = "aqf"},
	[WAY_PARTITIONED] = {.name = "partitioned", .winnow = "aqf", .partitioned = true},
	[WAY_PREFIX] = {.name = "prefix", .winnow = "aqf", .prefix = DB_PREFIX_SIZE},
	{.name = "partitioned_cached", .winnow = "aqf", .partitioned = true,
	 .cached_filters = true},
	{.name = "universal", .winnow = "aqf", .universal = true},
	{.name = "subcompactions", .winnow = "aqf", .subcompactions = 4, .compression_threads = 4},
	{.name = "parallel_partitioned", .winnow = "aqf", .partitioned = true,
	 .compression_threads = 3},
	{.name = "prefix_partitioned", .winnow = "aqf", .prefix = DB_PREFIX_SIZE,
	 .partitioned = true},
	{.name = "only_prefixes", .winnow = "aqf", .prefix = DB_PREFIX_SIZE,
	 .only_prefixes = true},
	{.name = "only_prefixes_partitioned", .winnow = "aqf", .prefix = DB_PREFIX_SIZE,
	 .only_prefixes = true, .partitioned = true},
};

static void expect_all_well(struct db *db, const struct db_setup *setup, uint64_t end)
{
	db_expect_right(db, 0, end);
	if (setup->prefix)
		expect_filtered(ask_prefixes(db, end));
	if (!setup->only_prefixes)
		expect_filtered(ask_absent(db, end));
}

START_TEST(every_way_finds_every_key_and_denies_the_rest)
{
	const struct db_setup *setup = &ways[_i];
	uint64_t end = _i == WAY_FULL ? numbers() : SOME_NUMBERS;
	struct wn_rocksdb_stats stats;
	struct db db;

	fprintf(stderr, "-- %s\n", setup->name);
	db = db_open(setup->name, setup);
	db_put(&db, 0, end);
	db_put(&db, 0, end / 2); /* again: doubles within and across tables */
	db_flush(&db);
	expect_all_well(&db, setup, end);
	db_compact(&db);
	expect_all_well(&db, setup, end);
	stats = db_stats(&db);
	ck_assert_uint_gt(stats.filters_built, setup->partitioned ? 5 : 1);
	ck_assert_uint_gt(stats.readers_opened, 0);
	ck_assert_uint_eq(stats.filters_given_up, 0);
	ck_assert_uint_eq(stats.readers_foreign, 0);
	ck_assert_uint_eq(stats.readers_refused, 0);
	db_close(&db);

	db = db_open(setup->name, setup);
	expect_all_well(&db, setup, end);
	db_close(&db);
}
END_TEST

/* A prefix comes with each of its eight keys and stands in the filter once (or twice, where a
 * table ends in between). Partitions have the size that RocksDB asks for, 4 KB, and a header
 * each. */
START_TEST(filters_have_the_size_they_should_have)
{
	const double keys_per_key[] = {1, 1, 1.125}, max_bits[] = {12.4, 13.1, 12.4};
	const int chosen[] = {WAY_FULL, WAY_PARTITIONED, WAY_PREFIX};
	struct db_setup setup = ways[chosen[_i]];
	const uint64_t end = 100000;
	struct wn_rocksdb_stats stats;
	struct db db;
	double keys, bits;
	char name[64];

	setup.no_compaction = true;
	snprintf(name, sizeof(name), "size_%s", setup.name);
	db = db_open(name, &setup);
	db_put(&db, 0, end);
	db_flush(&db);
	stats = db_stats(&db);
	db_close(&db);
	keys = (double)stats.filter_keys / ((double)end / 2);
	bits = 8 * (double)stats.filter_bytes / (double)stats.filter_keys;
	fprintf(stderr, "%s: %" PRIu64 " filters, %.4f keys a key, %.2f bits a key\n", name,
		stats.filters_built, keys, bits);
	ck_assert_double_ge(keys, keys_per_key[_i]);
	ck_assert_double_le(keys, keys_per_key[_i] + 0.01);
	ck_assert_double_ge(bits, 11.5);
	ck_assert_double_le(bits, max_bits[_i]);
}
END_TEST

/* ---- beside RocksDB's own filters --------------------------------------- */

static void reopen_and_expect(const char *name, const struct db_setup *setup, uint64_t end,
			      bool filtered)
{
	struct db db = db_open(name, setup);

	db_expect_right(&db, 0, end);
	if (filtered)
		ck_assert_uint_gt(ask_absent(&db, end).negatives, 1000);
	db_close(&db);
}

static void add_table(const char *name, const struct db_setup *setup, uint64_t first, uint64_t end)
{
	struct db db = db_open(name, setup);

	db_put(&db, first, end);
	db_flush(&db);
	db_close(&db);
}

START_TEST(stock_filters_are_read_and_used)
{
	const struct db_setup *stock = _i % 2 ? &ribbon : &bloom;
	struct db_setup before = *stock, after = winnow;
	uint64_t end = FEW_NUMBERS;
	struct wn_rocksdb_stats stats;
	struct db db;
	char name[64];

	before.partitioned = after.partitioned = _i >= 2;
	snprintf(name, sizeof(name), "from_%s_%d", stock->name, _i);
	add_table(name, &before, 0, end);
	db = db_open(name, &after);
	db_expect_right(&db, 0, end);
	expect(ask_absent(&db, end).positives * 20 < end);
	stats = db_stats(&db);
	ck_assert_uint_gt(stats.readers_foreign, 0);
	ck_assert_uint_eq(stats.readers_opened, 0);
	ck_assert_uint_eq(stats.readers_refused, 0);

	db_put(&db, end, 2 * end); /* and now both kinds of tables */
	db_flush(&db);
	db_expect_right(&db, 0, 2 * end);
	ck_assert_uint_gt(db_stats(&db).readers_opened, 0);
	db_close(&db);
	reopen_and_expect(name, &before, 2 * end, true);
	reopen_and_expect(name, &none, 2 * end, false);
	reopen_and_expect(name, &after, 2 * end, true);
}
END_TEST

START_TEST(stock_rocksdb_reads_and_compacts_what_winnow_wrote)
{
	struct db_setup before = winnow, after = _i % 2 ? none : bloom;
	uint64_t end = FEW_NUMBERS;
	struct db db;
	char name[64];

	before.partitioned = after.partitioned = _i >= 2;
	snprintf(name, sizeof(name), "to_%s_%d", after.name, _i);
	add_table(name, &before, 0, end);
	add_table(name, &after, end, 2 * end);
	reopen_and_expect(name, &after, 2 * end, false);
	reopen_and_expect(name, &before, 2 * end, true);
	db = db_open(name, &after);
	db_compact(&db);
	db_expect_right(&db, 0, 2 * end);
	db_close(&db);
	reopen_and_expect(name, &before, 2 * end, after.stock != STOCK_NONE);
}
END_TEST

START_TEST(policies_read_each_others_filters)
{
	struct wn_secret *secret = test_secret(1), *other = test_secret(2);
	struct db_setup first = winnow, second = winnow;
	uint64_t end = FEW_NUMBERS;
	struct db db;

	first.secret = secret;
	second.secret = other;
	second.winnow = "aqf:remainder_bits=5";
	add_table("secrets", &first, 0, end);
	db = db_open("secrets", &second);
	wn_secret_destroy(secret); /* both were copied */
	wn_secret_destroy(other);
	db_put(&db, end, 2 * end);
	db_flush(&db);
	db_expect_right(&db, 0, 2 * end);
	ck_assert_uint_lt(ask_absent(&db, 2 * end).positives, end / 10);
	ck_assert_uint_eq(db_stats(&db).readers_refused, 0);
	db_close(&db);
}
END_TEST

/* A cache may be the program's own: readers then stay in it when the database, its options
 * and with them the policy are gone. */
START_TEST(readers_outlive_their_policy_in_a_shared_cache)
{
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(64 << 20);
	struct db_setup setup = winnow;
	uint64_t end = SOME_NUMBERS;
	struct db db;

	setup.cached_filters = true;
	setup.cache = cache;
	db = db_open("cache", &setup);
	db_put(&db, 0, end);
	db_flush(&db);
	db_expect_right(&db, 0, end);
	ck_assert_uint_gt(db_stats(&db).readers_opened, 0);
	db_close(&db);
	ck_assert_uint_gt(rocksdb_cache_get_usage(cache), 10000);
	rocksdb_cache_set_capacity(cache, 0);
	ck_assert_uint_lt(rocksdb_cache_get_usage(cache), 10000);
	rocksdb_cache_destroy(cache);
}
END_TEST

/* ---- damage ------------------------------------------------------------- */

static const unsigned char magic[] = {'W', 'I', 'N', 'N', 'O', 'W', 0x1a, '\n'};

/* The payload's size stands in the header, and 128 bytes are the header. */
static bool is_within_filter(const unsigned char *filter, size_t offset)
{
	uint64_t payload = 0;

	for (int i = 7; i >= 0; i--)
		payload = payload << 8 | filter[16 + i];
	return offset < 128 + payload;
}

/* Turn bits of one byte in each winnow filter in the file that is long enough. */
static int damage_file(const char *path, size_t offset)
{
	FILE *file = fopen(path, "r+b");
	unsigned char *bytes;
	size_t size;
	int damaged = 0;

	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	size = (size_t)ftell(file);
	bytes = malloc(size);
	rewind(file);
	ck_assert_uint_eq(fread(bytes, 1, size, file), size);
	for (size_t at = 0; at + offset < size && at + sizeof(magic) <= size; at++) {
		if (memcmp(bytes + at, magic, sizeof(magic)) != 0 ||
		    !is_within_filter(bytes + at, offset))
			continue;
		fseek(file, (long)(at + offset), SEEK_SET);
		fputc(bytes[at + offset] ^ 0x55, file);
		damaged++;
	}
	ck_assert_int_eq(fclose(file), 0);
	free(bytes);
	return damaged;
}

static int damage_database(const char *name, size_t offset)
{
	char path[2 * 8192];
	struct dirent *entry;
	int damaged = 0;
	DIR *dir;

	dir = opendir(test_path(name));
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length < 4 || strcmp(entry->d_name + length - 4, ".sst") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", test_path(name), entry->d_name);
		damaged += damage_file(path, offset);
	}
	closedir(dir);
	return damaged;
}

/* Version, kind, sizes, parameters, checksum: RocksDB's checksums are off, so the bytes come
 * to our reader. */
START_TEST(a_damaged_header_means_maybe)
{
	const size_t offsets[] = {8, 10, 12, 17, 24, 40, 48, 80, 90, 112, 120};
	struct db_setup setup = winnow;
	const uint64_t end = 4000;
	struct wn_rocksdb_stats stats;
	struct db db;
	char name[64];
	int damaged;

	setup.no_checksums = true;
	setup.partitioned = _i % 2;
	snprintf(name, sizeof(name), "damaged_%d", _i);
	add_table(name, &setup, 0, end);
	damaged = damage_database(name, offsets[_i / 2]);
	ck_assert_int_gt(damaged, 0);
	db = db_open(name, &setup);
	db_expect_right(&db, 0, end);
	stats = db_stats(&db);
	ck_assert_uint_ge(stats.readers_refused, (uint64_t)damaged);
	ck_assert_uint_eq(stats.readers_opened, 0);
	ck_assert_uint_eq(ask_absent(&db, end).negatives, 0);
	db_close(&db);
}
END_TEST

/* What lies behind the header is guarded by RocksDB's checksums: it reads a filter that fails
 * them as "maybe". Without the magic the block is nobody's. */
START_TEST(a_damaged_filter_loses_no_key)
{
	const size_t offsets[] = {0, 5, 130, 1000, 3000};
	const uint64_t end = 20000;
	char name[64];

	snprintf(name, sizeof(name), "checked_%d", _i);
	add_table(name, &winnow, 0, end);
	ck_assert_int_gt(damage_database(name, offsets[_i]), 0);
	reopen_and_expect(name, &winnow, end, false);
	reopen_and_expect(name, &bloom, end, false);
}
END_TEST

static struct wn__policy *make_inner_policy(rocksdb_filterpolicy_t **shownp)
{
	ck_assert_int_eq(wn_rocksdb_filterpolicy(NULL, NULL, shownp), 0);
	return wn__shim_policy(*shownp);
}

static struct wn__bytes text_bytes(const char *text)
{
	return (struct wn__bytes){text, strlen(text)};
}

START_TEST(a_block_cut_anywhere_says_maybe)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__policy *policy = make_inner_policy(&shown);
	void *builder = wn__builder_create(policy, false), *block;
	struct wn_rocksdb_stats stats;
	size_t size;

	wn__builder_add(builder, text_bytes("a key"));
	wn__builder_finish(builder, &block, &size);
	for (size_t cut = 0; cut < size; cut++) {
		struct wn__bytes bytes = {block, cut};
		void *reader;

		expect(!wn__reader_is_foreign(policy, bytes));
		reader = wn__reader_open(policy, bytes);
		expect(wn__reader_query(reader, text_bytes("a key")));
		expect(wn__reader_query(reader, text_bytes("another")));
		wn__reader_close(reader);
	}
	wn_rocksdb_filterpolicy_stats(shown, &stats);
	ck_assert_uint_eq(stats.readers_refused, size);
	free(block);
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

/* ---- the builder -------------------------------------------------------- */

static bool block_has(struct wn__policy *policy, struct wn__bytes block, const char *key)
{
	void *reader = wn__reader_open(policy, block);
	struct wn__bytes bytes = text_bytes(key);
	bool answer = false, alone = wn__reader_query(reader, bytes);

	ck_assert_ptr_nonnull(reader);
	wn__reader_query_batch(reader, &bytes, 1, &answer);
	expect(answer == alone);
	wn__reader_close(reader);
	return answer;
}

START_TEST(a_builder_serves_one_partition_after_the_other)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__policy *policy = make_inner_policy(&shown);
	void *builder = wn__builder_create(policy, _i);
	char key[32];

	for (int partition = 0; partition < 20; partition++) {
		struct wn__bytes bytes;
		void *block;

		for (int i = 0; i <= 10 * partition; i++) {
			snprintf(key, sizeof(key), "%d/%d", partition, i);
			wn__builder_add(builder, text_bytes(key));
		}
		ck_assert_uint_eq(wn__builder_count(builder), 10 * (size_t)partition + 1);
		wn__builder_finish(builder, &block, &bytes.size);
		bytes.data = block;
		ck_assert_uint_eq(wn__builder_count(builder), 0);
		if (_i)
			ck_assert(wn__builder_verify(builder, bytes));
		ck_assert(block_has(policy, bytes, key));
		snprintf(key, sizeof(key), "%d/0", partition);
		ck_assert(block_has(policy, bytes, key));
		free(block);
	}
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(verify_sees_a_filter_with_a_key_missing)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__policy *policy = make_inner_policy(&shown);
	void *builder = wn__builder_create(policy, true);
	void *other = wn__builder_create(policy, true);
	void *block, *wrong;
	size_t size, wrong_size;

	wn__builder_add(builder, text_bytes("a"));
	wn__builder_add(other, text_bytes("b"));
	wn__builder_finish(builder, &block, &size);
	wn__builder_finish(other, &wrong, &wrong_size);
	ck_assert(wn__builder_verify(builder, (struct wn__bytes){block, size}));
	ck_assert(!wn__builder_verify(builder, (struct wn__bytes){wrong, wrong_size}));
	ck_assert(!wn__builder_verify(builder, (struct wn__bytes){block, size - 1}));
	free(block);
	free(wrong);
	wn__builder_destroy(builder);
	wn__builder_destroy(other);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(keys_and_prefixes_in_turn_are_counted_once)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__policy *policy = make_inner_policy(&shown);
	void *builder = wn__builder_create(policy, false), *block;
	struct wn__bytes bytes;

	wn__builder_add_with_prefix(builder, text_bytes("aa1"), text_bytes("aa"));
	wn__builder_add_with_prefix(builder, text_bytes("aa1"), text_bytes("aa"));
	wn__builder_add_with_prefix(builder, text_bytes("aa2"), text_bytes("aa"));
	wn__builder_add_with_prefix(builder, text_bytes("bb"), text_bytes("bb"));
	ck_assert_uint_le(wn__builder_count(builder), 5);
	wn__builder_finish(builder, &block, &bytes.size);
	bytes.data = block;
	ck_assert(block_has(policy, bytes, "aa1") && block_has(policy, bytes, "aa2"));
	ck_assert(block_has(policy, bytes, "aa") && block_has(policy, bytes, "bb"));
	free(block);
	/* A new partition: what came last in the one before must be added again. */
	wn__builder_add_with_prefix(builder, text_bytes("bb1"), text_bytes("bb"));
	wn__builder_finish(builder, &block, &bytes.size);
	bytes.data = block;
	ck_assert(block_has(policy, bytes, "bb") && block_has(policy, bytes, "bb1"));
	wn__builder_add_with_prefix(builder, text_bytes("bb1"), text_bytes("b"));
	free(block);
	wn__builder_finish(builder, &block, &bytes.size);
	bytes.data = block;
	ck_assert(block_has(policy, bytes, "b") && block_has(policy, bytes, "bb1"));
	ck_assert(!block_has(policy, bytes, "aa"));
	free(block);
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(space_and_keys_are_estimated_well)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__policy *policy = make_inner_policy(&shown);
	void *builder = wn__builder_create(policy, false);

	for (size_t keys = 300; keys < 1000000; keys *= 3) {
		size_t space = wn__builder_space_for_keys(builder, keys), size, back;
		void *block;

		for (size_t i = 0; i < keys; i++)
			wn__builder_add(builder, (struct wn__bytes){&i, sizeof(i)});
		wn__builder_finish(builder, &block, &size);
		free(block);
		ck_assert_uint_le(space, size + size / 10 + 150);
		ck_assert_uint_ge(space, size - size / 10 - 150);
		back = wn__builder_keys_for_space(builder, space);
		ck_assert_uint_ge(back, keys);
		ck_assert_uint_le(back, keys + 2);
	}
	ck_assert_uint_eq(wn__builder_keys_for_space(builder, 100), 0);
	ck_assert_double_gt(wn__builder_expected_rate(builder), 0.001);
	ck_assert_double_lt(wn__builder_expected_rate(builder), 0.003);
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

/* ---- no memory ---------------------------------------------------------- */

START_TEST(a_refused_allocation_is_an_error_of_making_the_policy)
{
	rocksdb_filterpolicy_t *policy = NULL;
	int err = ENOMEM;
	uint64_t nth;

	for (nth = 1; nth < 1000 && err; nth++) {
		wn__alloc_fail_at(nth);
		err = wn_rocksdb_filterpolicy("aqf", NULL, &policy);
		wn__alloc_fail_at(0);
		ck_assert(err == 0 || err == ENOMEM);
		ck_assert((policy == NULL) == (err != 0));
	}
	ck_assert_uint_gt(nth, 5);
	ck_assert_uint_lt(nth, 1000);
	rocksdb_filterpolicy_destroy(policy);
}
END_TEST

/* RocksDB's thread builds a table, and the nth allocation fails: a filter less, no key less. */
static bool flush_without_memory(const char *name, const struct db_setup *setup, uint64_t nth)
{
	const uint64_t end = 1000;
	struct db db = db_open(name, setup);
	struct wn_rocksdb_stats stats;

	db_put(&db, 0, end);
	wn__alloc_fail_at(nth);
	db_flush(&db);
	wn__alloc_fail_at(0);
	db_expect_right(&db, 0, end);
	stats = db_stats(&db);
	db_close(&db);
	reopen_and_expect(name, setup, end, false);
	reopen_and_expect(name, nth % 2 ? &bloom : &none, end, false);
	return stats.filters_given_up + stats.readers_refused > 0;
}

START_TEST(a_table_built_without_memory_loses_no_key)
{
	struct db_setup setup = winnow;
	uint64_t nth = 0;
	bool failed = true;

	setup.partitioned = _i;
	while (failed) {
		char name[64];

		snprintf(name, sizeof(name), "memory_%d_%d", _i, (int)++nth);
		failed = flush_without_memory(name, &setup, nth);
	}
	fprintf(stderr, "%" PRIu64 " allocations failed, one at a time\n", nth - 1);
	ck_assert_uint_ge(nth, 8);
}
END_TEST

/* ---- names and options -------------------------------------------------- */

static struct db open_with_string(const char *name, const char *string)
{
	struct db db = {.options = rocksdb_options_create()};
	rocksdb_options_t *base = rocksdb_options_create();
	char *error = NULL;

	rocksdb_options_set_create_if_missing(base, 1);
	rocksdb_get_options_from_string(base, string, db.options, &error);
	expect_no(error);
	rocksdb_options_destroy(base);
	db_open_as_is(&db, name);
	return db;
}

static void write_and_expect_built(struct db *db)
{
	struct wn_rocksdb_stats before, after;

	wn_rocksdb_filterpolicy_stats(NULL, &before);
	db_put(db, 0, 20000);
	db_flush(db);
	db_expect_right(db, 0, 20000);
	wn_rocksdb_filterpolicy_stats(NULL, &after);
	ck_assert_uint_gt(after.filters_built, before.filters_built);
	ck_assert_uint_ge(after.filter_keys, before.filter_keys + 10000);
	ck_assert_uint_gt(after.readers_opened, before.readers_opened);
}

static struct db open_with_latest_options(const char *name)
{
	rocksdb_env_t *env = rocksdb_create_default_env();
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(8 << 20);
	rocksdb_options_t *options, **families;
	char **names, *error = NULL;
	struct db db = {.rocks = NULL};
	size_t count;

	rocksdb_load_latest_options(test_path(name), env, false, cache, &options, &count, &names,
				    &families, &error);
	expect_no(error);
	ck_assert_uint_eq(count, 1);
	db.options = rocksdb_options_create_copy(families[0]);
	rocksdb_load_latest_options_destroy(options, names, families, count);
	rocksdb_cache_destroy(cache);
	rocksdb_env_destroy(env);
	db_open_as_is(&db, name);
	return db;
}

static const char *const option_strings[] = {
	"winnow.aqf",
	"winnow.aqf:remainder_bits=7",
	"{winnow.aqf:remainder_bits=7;load=0.9}",
};

START_TEST(options_strings_and_files_name_the_policy)
{
	char string[256], name[64];
	struct db db;

	snprintf(string, sizeof(string), "block_based_table_factory={filter_policy=%s}",
		 option_strings[_i]);
	snprintf(name, sizeof(name), "options_%d", _i);
	db = open_with_string(name, string);
	write_and_expect_built(&db);
	db_close(&db);

	/* RocksDB has left an OPTIONS file behind. */
	db = open_with_latest_options(name);
	write_and_expect_built(&db);
	db_close(&db);
}
END_TEST

START_TEST(a_policy_made_by_hand_is_named_in_the_options_file)
{
	struct db_setup setup = winnow;
	struct db db;

	setup.winnow = "aqf:remainder_bits=11;load=0.9";
	db = db_open("by_hand", &setup);
	db_close(&db);
	db = open_with_latest_options("by_hand");
	write_and_expect_built(&db);
	db_close(&db);
}
END_TEST

START_TEST(a_wrong_options_string_is_refused_with_a_reason)
{
	rocksdb_options_t *base = rocksdb_options_create(), *options = rocksdb_options_create();
	rocksdb_filterpolicy_t *policy;
	char *error = NULL;

	rocksdb_get_options_from_string(
		base, "block_based_table_factory={filter_policy=winnow.aqf:colour=3}", options,
		&error);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, "colour"));
	rocksdb_free(error);
	rocksdb_options_destroy(options);
	rocksdb_options_destroy(base);
	ck_assert_int_eq(wn_rocksdb_filterpolicy("aqf:colour=3", NULL, &policy), WN_ERR_OPTION);
	ck_assert_ptr_null(policy);
	ck_assert_int_eq(wn_rocksdb_filterpolicy("", NULL, &policy), WN_ERR_OPTION);
}
END_TEST

START_TEST(statistics_are_of_winnows_policies_only)
{
	rocksdb_filterpolicy_t *stock = rocksdb_filterpolicy_create_bloom(10), *policy;
	struct wn_rocksdb_stats stats;

	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(stock, &stats), WN_ERR_INVALID);
	rocksdb_filterpolicy_destroy(stock);
	ck_assert_int_eq(wn_rocksdb_filterpolicy(NULL, NULL, &policy), 0);
	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(policy, &stats), 0);
	ck_assert_uint_eq(stats.filters_built, 0);
	rocksdb_filterpolicy_destroy(policy);
}
END_TEST

/* ------------------------------------------------------------------------- */

static void add_database_tests(Suite *suite)
{
	TCase *tcase = tcase_create("databases");

	tcase_add_loop_test(tcase, every_way_finds_every_key_and_denies_the_rest, 0,
			    sizeof(ways) / sizeof(ways[0]));
	tcase_add_loop_test(tcase, filters_have_the_size_they_should_have, 0, 3);
	tcase_add_loop_test(tcase, stock_filters_are_read_and_used, 0, 4);
	tcase_add_loop_test(tcase, stock_rocksdb_reads_and_compacts_what_winnow_wrote, 0, 4);
	tcase_add_test(tcase, policies_read_each_others_filters);
	tcase_add_test(tcase, readers_outlive_their_policy_in_a_shared_cache);
	suite_add_tcase(suite, tcase);
}

static void add_damage_tests(Suite *suite)
{
	TCase *tcase = tcase_create("damage");

	tcase_add_loop_test(tcase, a_damaged_header_means_maybe, 0, 22);
	tcase_add_loop_test(tcase, a_damaged_filter_loses_no_key, 0, 5);
	tcase_add_test(tcase, a_block_cut_anywhere_says_maybe);
	tcase_add_test(tcase, a_refused_allocation_is_an_error_of_making_the_policy);
	tcase_add_loop_test(tcase, a_table_built_without_memory_loses_no_key, 0, 2);
	suite_add_tcase(suite, tcase);
}

static void add_builder_tests(Suite *suite)
{
	TCase *tcase = tcase_create("builder");

	tcase_add_loop_test(tcase, a_builder_serves_one_partition_after_the_other, 0, 2);
	tcase_add_test(tcase, verify_sees_a_filter_with_a_key_missing);
	tcase_add_test(tcase, keys_and_prefixes_in_turn_are_counted_once);
	tcase_add_test(tcase, space_and_keys_are_estimated_well);
	suite_add_tcase(suite, tcase);
}

static void add_option_tests(Suite *suite)
{
	TCase *tcase = tcase_create("options");

	tcase_add_loop_test(tcase, options_strings_and_files_name_the_policy, 0,
			    sizeof(option_strings) / sizeof(option_strings[0]));
	tcase_add_test(tcase, a_policy_made_by_hand_is_named_in_the_options_file);
	tcase_add_test(tcase, a_wrong_options_string_is_refused_with_a_reason);
	tcase_add_test(tcase, statistics_are_of_winnows_policies_only);
	suite_add_tcase(suite, tcase);
}

int main(void)
{
	Suite *suite = suite_create("rocksdb");
	int result;

	test_make_top();
	add_builder_tests(suite);
	add_option_tests(suite);
	add_damage_tests(suite);
	add_database_tests(suite);
	result = test_run(suite);
	test_remove_top();
	return result;
}
