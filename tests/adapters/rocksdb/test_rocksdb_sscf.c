/* test_rocksdb_sscf.c - filters without fingerprints that learn, in real databases. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <pthread.h>

#include "tests/support/rocksdb_learner.h"

/* One query in some 20 is a false positive. */
#define SEESAW "sscf:bits_per_key=6"

static const enum wn_rocksdb_store stores[] = {WN_ROCKSDB_COLUMN_FAMILY, WN_ROCKSDB_SIDECAR,
					       WN_ROCKSDB_MEMORY};

static struct wn_rocksdb_options seesaw(enum wn_rocksdb_store store)
{
	struct wn_rocksdb_options options = quickly();

	options.filter = SEESAW;
	options.store = store;
	return options;
}

/* Asked three times, the second time in the same filters, the third time after reopening. */
START_TEST(a_false_positive_is_paid_for_once_and_no_key_is_lost)
{
	static const char *const names[] = {"once_family", "once_files", "once_memory"};
	struct db_setup setup = {.name = names[_i], .no_compaction = true};
	struct wn_rocksdb_options options = seesaw(stores[_i]);
	struct learner learner;
	struct wn_stats stats;
	uint64_t first;

	many = true;
	learner = learner_fill(&setup, &options);
	first = ask_absent(&learner);
	ck_assert_uint_gt(first, absent_count() / 200);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	stats = learner_stats(&learner);
	ck_assert_uint_eq(stats.repeated_false_positives, 0);
	ck_assert_uint_eq(stats.adaptations, first);
	ck_assert_uint_eq(stats.reversemap_misses + stats.unfixable, 0);
	ck_assert_uint_le(stats.reversemap_bytes, 10 * stats.filter_keys);
	expect_stored(&learner);
	learner_close(&learner);
	/* With the store in memory, the lessons are gone with the key lists. */
	learner = learner_open(&setup, &options);
	if (stores[_i] != WN_ROCKSDB_MEMORY)
		ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* A deleted key is in the filters, and nothing is found. */
START_TEST(deleted_keys_teach_nothing)
{
	static const struct db_setup setup = {.name = "deleted", .no_compaction = true};
	struct wn_rocksdb_options options = seesaw(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner = learner_fill(&setup, &options);
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(learner.db.rocks);
	char key[DB_KEY_SIZE], *error = NULL;

	for (uint64_t number = 2; number < 2000; number += 2) {
		db_key(number, key);
		rocksdb_delete(learner.db.rocks, writing, key, sizeof(key), &error);
		expect_no(error);
	}
	db_flush(&learner.db);
	wn_rocksdb_drain(learner.wn);
	for (uint64_t number = 2; number < 2000; number += 2)
		expect(ask(&learner, number) == 0);
	ck_assert_uint_gt(learner_stats(&learner).unfixable, 900);
	rocksdb_readoptions_set_snapshot(learner.db.reading, snapshot);
	expect_stored(&learner);
	rocksdb_readoptions_set_snapshot(learner.db.reading, NULL);
	rocksdb_release_snapshot(learner.db.rocks, snapshot);
	rocksdb_writeoptions_destroy(writing);
	learner_close(&learner);
}
END_TEST

START_TEST(a_compaction_builds_against_what_is_known)
{
	static const struct db_setup setup = {.name = "carried", .no_compaction = true};
	struct wn_rocksdb_options options = seesaw(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner = learner_fill(&setup, &options);
	uint64_t first, after;

	first = ask_absent(&learner);
	db_compact(&learner.db);
	wn_rocksdb_drain(learner.wn);
	after = ask_absent(&learner);
	ck_assert_uint_gt(first, 20);
	ck_assert_uint_lt(after, first / 2);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* More keys, and all in one new table: its filter errs on others than the old ones did. What is
 * popular is known before. */
START_TEST(a_new_filter_knows_the_popular_missing_keys)
{
	static const struct db_setup setup = {.name = "popular", .no_compaction = true};
	struct wn_rocksdb_options options = seesaw(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner = learner_open(&setup, &options);
	uint64_t before, after;

	db_put(&learner.db, 0, numbers() / 2);
	db_flush(&learner.db);
	for (unsigned round = 0; round < 120; round++)
		for (uint64_t i = 0; i < absent_count(); i++)
			expect(ask(&learner, absent(i)) == 0);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	db_put(&learner.db, numbers() / 2, numbers());
	db_compact(&learner.db);
	wn_rocksdb_drain(learner.wn);
	before = learner_stats(&learner).false_positives;
	ask_absent(&learner);
	after = learner_stats(&learner).false_positives;
	/* One query in 20 would be one. */
	ck_assert_uint_le(after - before, absent_count() / 200);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

static bool stop;

static void *ask_on(void *given)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		expect_stored(given);
	return NULL;
}

/* Of either kind, whatever is asked for, and however many tables there are. */
START_TEST(memory_stays_within_the_budget)
{
	static const char *const kinds[] = {SHORT, SEESAW};
	static const size_t budgets[] = {4 << 10, 100 << 10};
	char name[32];
	const struct db_setup setup = {.name = name, .no_compaction = true, .partitioned = true,
				       .cached_filters = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;

	snprintf(name, sizeof(name), "budget_%d", _i);
	options.filter = kinds[_i % 2];
	options.learned_bytes = budgets[_i / 2];
	learner = learner_open(&setup, &options);
	for (unsigned round = 0; round < 4; round++) {
		db_put(&learner.db, 0, numbers());
		db_flush(&learner.db);
		for (uint64_t i = 0; i < 2 * absent_count(); i++) {
			expect(ask(&learner, (i * 7 % numbers()) | 1) == 0);
			if (i % 50 == 0)
				expect(learner_stats(&learner).learned_bytes <= budgets[_i / 2]);
		}
	}
	expect_stored(&learner);
	ck_assert((learner_stats(&learner).lessons > 0) == (_i / 2 == 1));
	learner_close(&learner);
}
END_TEST

/* Readers, lessons, and tables that come and go, all at once. */
START_TEST(stored_keys_are_found_while_filters_learn)
{
	static const struct db_setup setup = {.name = "threads", .partitioned = true,
					      .cached_filters = true};
	struct wn_rocksdb_options options = seesaw(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner;
	pthread_t threads[2];

	options.background = true;
	learner = learner_fill(&setup, &options);
	stop = false;
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_on, &learner), 0);
	for (unsigned round = 0; round < (test_is_quick() ? 3 : 12); round++) {
		ask_absent(&learner);
		db_put(&learner.db, 0, numbers());
		db_flush(&learner.db);
		if (round % 3 == 2)
			db_compact(&learner.db);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(both_kinds_live_in_one_database)
{
	static const struct db_setup setup = {.name = "kinds", .no_compaction = true};
	struct wn_rocksdb_options seesaws = seesaw(WN_ROCKSDB_COLUMN_FAMILY), quotients = quickly();
	struct learner learner = learner_fill(&setup, &seesaws);

	ask_absent(&learner);
	learner_close(&learner);
	learner = learner_open(&setup, &quotients);
	db_put(&learner.db, 0, numbers() / 2);
	db_flush(&learner.db);
	wn_rocksdb_drain(learner.wn);
	ask_absent(&learner);
	expect_stored(&learner);
	learner_close(&learner);
	learner = learner_open(&setup, &seesaws);
	ask_absent(&learner);
	expect_stored(&learner);
	db_compact(&learner.db);
	wn_rocksdb_drain(learner.wn);
	ask_absent(&learner);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("RocksDB, seesaw counting filters");
	TCase *tests = tcase_create("sscf");
	int failed;

	test_make_top();
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, a_false_positive_is_paid_for_once_and_no_key_is_lost, 0, 3);
	tcase_add_test(tests, deleted_keys_teach_nothing);
	tcase_add_test(tests, a_compaction_builds_against_what_is_known);
	tcase_add_test(tests, a_new_filter_knows_the_popular_missing_keys);
	tcase_add_loop_test(tests, memory_stays_within_the_budget, 0, 4);
	tcase_add_test(tests, stored_keys_are_found_while_filters_learn);
	tcase_add_test(tests, both_kinds_live_in_one_database);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
