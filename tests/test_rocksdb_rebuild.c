/* test_rocksdb_rebuild.c - filters that learn by being built again, in real databases. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <pthread.h>

#include "rocksdb_learner.h"

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

START_TEST(false_positives_become_few_and_no_key_is_lost)
{
	static const char *const names[] = {"rebuilt_family", "rebuilt_files", "rebuilt_memory"};
	struct db_setup setup = {.name = names[_i], .no_compaction = true};
	struct wn_rocksdb_options options = seesaw(stores[_i]);
	struct learner learner;
	struct wn_rocksdb_stats stats;
	uint64_t first, last = 0;

	options.synchronous = false;
	many = true;
	learner = learner_fill(&setup, &options);
	first = ask_absent(&learner);
	ck_assert_uint_gt(first, absent_count() / 200);
	for (unsigned round = 0; round < 6; round++)
		last = ask_absent(&learner);
	stats = learner_stats(&learner);
	ck_assert_uint_gt(stats.rebuilt, 0);
	ck_assert_uint_eq(stats.rebuild_failures, 0);
	/* A filter that errs less often than its patience is left alone. */
	ck_assert_uint_lt(last, first / 2);
	expect_stored(&learner);
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

static bool stop;

static void *ask_on(void *given)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		expect_stored(given);
	return NULL;
}

/* Readers, rebuilds, and tables that come and go, all at once. */
START_TEST(stored_keys_are_found_while_filters_are_built_again)
{
	static const struct db_setup setup = {.name = "threads", .partitioned = true,
					      .cached_filters = true};
	struct wn_rocksdb_options options = seesaw(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner;
	pthread_t threads[2];

	options.synchronous = false;
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
	Suite *suite = suite_create("RocksDB, filters built again");
	TCase *tests = tcase_create("rebuild");
	int failed;

	test_make_top();
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, false_positives_become_few_and_no_key_is_lost, 0, 3);
	tcase_add_test(tests, a_compaction_builds_against_what_is_known);
	tcase_add_test(tests, stored_keys_are_found_while_filters_are_built_again);
	tcase_add_test(tests, both_kinds_live_in_one_database);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
