/* test_rocksdb_comparators.c - RocksDB databases with comparators of their own: which are
 * served, and which refused. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/rocksdb_comparators.h"

/* ---- which comparators -------------------------------------------------- */

START_TEST(a_comparator_that_nobody_vouches_for_is_refused)
{
	struct own_db own = open_own("refused", folded, NULL, NULL);

	expect_refused(&own, "default");
	ck_assert_int_ne(access(test_path("refused"), F_OK), 0);
	ck_assert_int_ne(access(test_path("refused.winnow"), F_OK), 0);
	close_own(&own);

	own = prepare_own(folded, NULL);
	own.db.rocks = wn_rocksdb_open_for_read_only(own.db.options, test_path("refused"), 0, NULL,
						     &own.wn, &own.error);
	expect_refused(&own, "default");
	close_own(&own);

	own = prepare_own(folded, NULL);
	wn_rocksdb_create(test_path("refused"), NULL, &own.wn, &own.error);
	expect_no(own.error);
	wn_rocksdb_prepare(own.wn, own.db.options, &own.error);
	expect_refused(&own, "refused");
	close_own(&own);
}
END_TEST

START_TEST(every_family_has_its_own_comparator)
{
	static const char *const names[] = {"default", "other"};
	struct wn_rocksdb_options given = {.canonical = fold};
	struct own_db own = prepare_own(NULL, NULL);
	struct own_db odd = prepare_own(folded, NULL);
	const rocksdb_options_t *both[] = {own.db.options, odd.db.options};
	rocksdb_column_family_handle_t *handles[2] = {NULL}, *third;

	rocksdb_options_set_create_missing_column_families(own.db.options, 1);
	own.db.rocks = wn_rocksdb_open_column_families(own.db.options, test_path("families"), 2,
						       names, both, handles, NULL, &own.wn,
						       &own.error);
	expect_refused(&own, "other");
	rocksdb_free(own.error);
	own.error = NULL;

	own.db.rocks = wn_rocksdb_open(own.db.options, test_path("families"), NULL, &own.wn,
				       &own.error);
	expect_no(own.error);
	third = wn_rocksdb_create_column_family(own.wn, odd.db.options, "third", &own.error);
	ck_assert_ptr_null(third);
	ck_assert_ptr_nonnull(strstr(own.error, "third"));
	ck_assert_ptr_nonnull(strstr(own.error, "comparator"));
	rocksdb_free(own.error);
	own.error = NULL;
	wn_rocksdb_close(own.wn);

	own.db.rocks = wn_rocksdb_open_column_families(own.db.options, test_path("families"), 2,
						       names, both, handles, &given, &own.wn,
						       &own.error);
	expect_no(own.error);
	third = wn_rocksdb_create_column_family(own.wn, odd.db.options, "third", &own.error);
	expect_no(own.error);
	put_in(&own, handles[0], 500);
	put_in(&own, handles[1], KEYS);
	put_in(&own, third, 500);
	ck_assert_uint_eq(count_in(&own, handles[0], 0, 500, false), 500);
	ck_assert_uint_eq(count_in(&own, handles[0], 0, 500, true), 0);
	ck_assert_uint_eq(count_in(&own, handles[1], 0, KEYS, true), KEYS);
	ck_assert_uint_eq(count_in(&own, third, 0, 500, true), 500);
	rocksdb_column_family_handle_destroy(handles[0]);
	rocksdb_column_family_handle_destroy(handles[1]);
	rocksdb_column_family_handle_destroy(third);
	close_own(&odd);
	close_own(&own);
}
END_TEST

static struct own_db open_by_name(const char *name, const char *text)
{
	struct own_db own = prepare_own(NULL, NULL);
	rocksdb_options_t *options = rocksdb_options_create();

	rocksdb_get_options_from_string(own.db.options, text, options, &own.error);
	expect_no(own.error);
	rocksdb_options_destroy(own.db.options);
	own.db.options = options;
	own.db.rocks = wn_rocksdb_open(options, test_path(name), NULL, &own.wn, &own.error);
	expect_no(own.error);
	return own;
}

START_TEST(comparators_of_rocksdb_are_accepted)
{
	static const char *const texts[] = {"comparator=leveldb.BytewiseComparator",
					    "comparator=rocksdb.ReverseBytewiseComparator"};
	char name[32];

	for (int i = 0; i < 2; i++) {
		struct own_db own;

		snprintf(name, sizeof(name), "builtin-%d", i);
		own = open_by_name(name, texts[i]);
		put_keys(&own, KEYS);
		ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
		ck_assert_uint_eq(count_found(&own, KEYS, 2 * KEYS, false), 0);
		ck_assert_uint_gt(stats_of(&own).filters_built, 0);
		close_own(&own);
	}
}
END_TEST

START_TEST(timestamps_of_rocksdb_are_accepted)
{
	struct own_db own = open_by_name("times", "comparator=leveldb.BytewiseComparator.u64ts");
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	static const char early[8] = {1}, late[8] = {2};
	char key[600];
	size_t size;

	for (unsigned i = 0; i < KEYS; i++) {
		size = make_key(i, false, key);
		rocksdb_put_with_ts(own.db.rocks, own.writing, key, size, i % 2 ? early : late, 8,
				    "value", 5, &own.error);
		expect_no(own.error);
	}
	rocksdb_flush(own.db.rocks, flushing, &own.error);
	expect_no(own.error);
	rocksdb_readoptions_set_timestamp(own.db.reading, late, 8);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_eq(count_found(&own, KEYS, 2 * KEYS, false), 0);
	rocksdb_flushoptions_destroy(flushing);
	close_own(&own);
}
END_TEST

START_TEST(another_order_of_the_same_bytes_is_served)
{
	struct wn_rocksdb_options given = {.filter = "aqf:remainder_bits=4",
					   .equal_keys_are_identical = true};
	struct own_db own = open_good("backwards", backwards, NULL, &given);
	uint64_t first;

	put_keys(&own, KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_eq(count_found(&own, KEYS, 3 * KEYS, false), 0);
	first = stats_of(&own).false_positives;
	ck_assert_uint_gt(first, 0);
	wn_rocksdb_drain(own.wn);
	ck_assert_uint_eq(count_found(&own, KEYS, 3 * KEYS, false), 0);
	ck_assert_uint_le(stats_of(&own).false_positives - first, first / 20);
	close_own(&own);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_comparators");
	TCase *tests = tcase_create("rocksdb_comparators");
	int failed;

	test_make_top();
	make_comparators();
	tcase_add_test(tests, a_comparator_that_nobody_vouches_for_is_refused);
	tcase_add_test(tests, every_family_has_its_own_comparator);
	tcase_add_test(tests, comparators_of_rocksdb_are_accepted);
	tcase_add_test(tests, timestamps_of_rocksdb_are_accepted);
	tcase_add_test(tests, another_order_of_the_same_bytes_is_served);
	suite_add_tcase(suite, tests);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
