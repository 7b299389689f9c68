/* test_leveldb_toy_kind.c - a kind that the library does not know, in a real LevelDB: it learns
 * without any code of its own for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/leveldb_db.h"
#include "tests/support/toy_kind.h"

/* Tags of 16 bits: a filter errs the more often the more keys it has. */
#define BLOCK (1 << 20)
#define NUMBERS 40000
#define ABSENT 4000

/* The number behind a name in a text property. */
static uint64_t get_number(struct wn_leveldb *wn, const char *property, const char *name)
{
	char *text = wn_leveldb_property(wn, property);
	uint64_t number;
	const char *at;

	ck_assert_ptr_nonnull(text);
	at = strstr(text, name);
	ck_assert_msg(at, "no %s in: %s", name, text);
	number = strtoull(at + strlen(name), NULL, 10);
	free(text);
	return number;
}

START_TEST(a_kind_of_its_own_learns_in_a_database)
{
	struct db_setup setup = {.name = "toy", .filter = "toy", .block = BLOCK,
				 .buffer = 4 << 20};
	struct db db = db_open(&setup);
	struct wn_stats stats;
	uint64_t first;

	db_put(&db, 0, NUMBERS);
	db_compact(&db);
	wn_leveldb_drain(db.wn);
	first = db_ask_absent(&db, 0, ABSENT);
	ck_assert_uint_gt(first, ABSENT / 50);
	ck_assert_uint_eq(db_ask_absent(&db, 0, ABSENT), 0);
	db_expect_right(&db, 0, NUMBERS);
	ck_assert_uint_eq(db_ask_absent(&db, 0, ABSENT), 0);
	stats = db_stats(&db);
	ck_assert_uint_eq(stats.adaptations, stats.false_positives);
	ck_assert_uint_eq(stats.unfixable + stats.reversemap_misses, 0);
	/* What is missing is known to the next tables. */
	for (uint64_t number = 0; number < NUMBERS; number += 20)
		db_put_value(&db, number, number);
	db_compact(&db);
	wn_leveldb_drain(db.wn);
	db_expect_right(&db, 0, NUMBERS);
	ck_assert_uint_eq(db_ask_absent(&db, 0, ABSENT), 0);
	db_reopen(&db);
	ck_assert_uint_eq(db_ask_absent(&db, 0, ABSENT), 0);
	db_expect_right(&db, 0, NUMBERS);
	db_close(&db);
}
END_TEST

START_TEST(it_is_counted_like_any_other)
{
	struct db_setup setup = {.name = "counted", .filter = "toy", .block = BLOCK,
				 .buffer = 4 << 20};
	struct db db = db_open(&setup);
	struct wn_stats stats;
	uint64_t wrong;

	db_put(&db, 0, NUMBERS);
	db_compact(&db);
	wn_leveldb_drain(db.wn);
	wrong = db_ask_absent(&db, 0, ABSENT);
	stats = db_stats(&db);
	ck_assert_uint_gt(wrong, 0);
	ck_assert_uint_eq(get_number(db.wn, "winnow.stats", "\nfalse_positives:"), wrong);
	ck_assert_uint_eq(get_number(db.wn, "winnow.stats", "\nfilter_keys:"), stats.filter_keys);
	ck_assert_uint_ge(stats.filter_keys, NUMBERS / 2);
	ck_assert_uint_ge(stats.filter_bytes, 2 * stats.filter_keys);
	ck_assert_uint_le(stats.filter_bytes, 3 * stats.filter_keys);
	ck_assert_uint_eq(get_number(db.wn, "winnow.prometheus", "\nwinnow_adaptations_total "),
			  wrong);
	ck_assert_uint_gt(stats.readers_opened, 0);
	ck_assert_uint_eq(stats.readers_refused + stats.filters_given_up, 0);
	db_close(&db);
}
END_TEST

/* Blocks as LevelDB makes them: a few dozen keys in each filter. */
START_TEST(filters_of_a_few_keys_serve)
{
	struct db_setup setup = {.name = "small", .filter = "toy"};
	struct db db = db_open(&setup);

	for (int i = 0; i < 2; i++) {
		db_put(&db, 0, NUMBERS);
		db_compact(&db);
		db_expect_right(&db, 0, NUMBERS);
		ck_assert_uint_eq(db_ask_absent(&db, 0, NUMBERS / 2), 0);
		db_reopen(&db);
	}
	db_close(&db);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("LevelDB, a kind of its own");
	TCase *tests = tcase_create("toy_kind");
	int failed;

	if (wn__kind_register(&toy_kind))
		return EXIT_FAILURE;
	test_make_top();
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_kind_of_its_own_learns_in_a_database);
	tcase_add_test(tests, it_is_counted_like_any_other);
	tcase_add_test(tests, filters_of_a_few_keys_serve);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
