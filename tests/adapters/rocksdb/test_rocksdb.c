/* test_rocksdb.c - winnow's filters in real RocksDB databases. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <winnow/error.h>

#include "tests/support/rocksdb_setups.h"

/* Half of them are keys: the even ones. */
#define SOME_NUMBERS 24000
#define FEW_NUMBERS 6000 /* where most lookups find no filter and read every table */

static uint64_t numbers(void)
{
	return test_is_quick() ? SOME_NUMBERS : 16 * SOME_NUMBERS;
}

static const struct db_setup ribbon = {.name = "ribbon", .stock = STOCK_RIBBON,
				       .no_compaction = true};

/* ---- what the filters do ------------------------------------------------ */

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
	/* Smaller partitions: RocksDB 10 cuts them by the filter's size, not by the index's. */
	{.name = "only_prefixes_partitioned", .winnow = "aqf", .prefix = DB_PREFIX_SIZE,
	 .only_prefixes = true, .partitioned = true, .partition_bytes = 1024},
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
	struct wn_stats stats;
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
	struct wn_stats stats;
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

START_TEST(stock_filters_are_read_and_used)
{
	const struct db_setup *stock = _i % 2 ? &ribbon : &bloom;
	struct db_setup before = *stock, after = winnow;
	uint64_t end = FEW_NUMBERS;
	struct wn_stats stats;
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
	struct wn_stats before, after;

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
	struct wn_stats stats;

	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(stock, &stats), WN_ERR_INVALID);
	rocksdb_filterpolicy_destroy(stock);
	ck_assert_int_eq(wn_rocksdb_filterpolicy(NULL, NULL, &policy), 0);
	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(policy, &stats), 0);
	ck_assert_uint_eq(stats.filters_built, 0);
	rocksdb_filterpolicy_destroy(policy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb");
	TCase *options = tcase_create("options");
	TCase *databases = tcase_create("databases");
	int result;

	test_make_top();
	suite_add_tcase(suite, options);
	suite_add_tcase(suite, databases);
	tcase_add_loop_test(options, options_strings_and_files_name_the_policy, 0,
			    sizeof(option_strings) / sizeof(option_strings[0]));
	tcase_add_test(options, a_policy_made_by_hand_is_named_in_the_options_file);
	tcase_add_test(options, a_wrong_options_string_is_refused_with_a_reason);
	tcase_add_test(options, statistics_are_of_winnows_policies_only);
	tcase_add_loop_test(databases, every_way_finds_every_key_and_denies_the_rest, 0,
			    sizeof(ways) / sizeof(ways[0]));
	tcase_add_loop_test(databases, filters_have_the_size_they_should_have, 0, 3);
	tcase_add_loop_test(databases, stock_filters_are_read_and_used, 0, 4);
	tcase_add_loop_test(databases, stock_rocksdb_reads_and_compacts_what_winnow_wrote, 0, 4);
	tcase_add_test(databases, policies_read_each_others_filters);
	tcase_add_test(databases, readers_outlive_their_policy_in_a_shared_cache);
	result = test_run(suite);
	test_remove_top();
	return result;
}
