/* test_rocksdb_toy_kind.c - a kind that the library does not know, in a real RocksDB: it learns
 * without any code of its own for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/rocksdb_learner.h"
#include "tests/support/toy_kind.h"

static const enum wn_rocksdb_store stores[] = {WN_ROCKSDB_COLUMN_FAMILY, WN_ROCKSDB_SIDECAR};

/* The number behind a name in a text property. */
static uint64_t get_number(struct wn_rocksdb *wn, const char *property, const char *name)
{
	char *text = wn_rocksdb_property(wn, property);
	uint64_t number;
	const char *at;

	ck_assert_ptr_nonnull(text);
	at = strstr(text, name);
	ck_assert_msg(at, "no %s in: %s", name, text);
	number = strtoull(at + strlen(name), NULL, 10);
	free(text);
	return number;
}

static struct wn_rocksdb_options toys(enum wn_rocksdb_store store)
{
	struct wn_rocksdb_options options = quickly();

	options.filter = "toy";
	options.store = store;
	return options;
}

START_TEST(a_kind_of_its_own_learns_in_a_database)
{
	static const char *const names[] = {"family", "sidecar"};
	struct db_setup setup = {.name = names[_i], .no_compaction = true};
	struct wn_rocksdb_options options = toys(stores[_i]);
	struct learner learner = learner_fill(&setup, &options);
	struct wn_stats stats;
	uint64_t first;

	ck_assert_uint_gt(ask_absent(&learner), absent_count() / 20);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	/* New tables err anew, once. */
	db_compact(&learner.db);
	wn_rocksdb_drain(learner.wn);
	first = ask_absent(&learner);
	ck_assert_uint_gt(first, absent_count() / 20);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	stats = learner_stats(&learner);
	ck_assert_uint_eq(stats.adaptations, stats.false_positives);
	ck_assert_uint_eq(stats.repeated_false_positives, 0);
	ck_assert_uint_eq(stats.unfixable + stats.reversemap_misses, 0);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(it_is_counted_like_any_other)
{
	static const struct db_setup setup = {.name = "counted", .no_compaction = true};
	struct wn_rocksdb_options options = toys(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner = learner_fill(&setup, &options);
	uint64_t wrong = ask_absent(&learner);
	struct wn_stats stats = learner_stats(&learner);

	ck_assert_uint_gt(wrong, 0);
	ck_assert_uint_eq(get_number(learner.wn, "winnow.stats", "\nfalse_positives:"), wrong);
	ck_assert_uint_eq(get_number(learner.wn, "winnow.stats", "\nfilters_built:"),
			  stats.filters_built);
	ck_assert_uint_eq(get_number(learner.wn, "winnow.stats", "\nfilter_keys:"),
			  stats.filter_keys);
	ck_assert_uint_ge(stats.filter_keys, numbers() / 2 - 1);
	ck_assert_uint_eq(get_number(learner.wn, "winnow.prometheus",
				     "\nwinnow_adaptations_total "), wrong);
	/* A tag of 16 bits for each key, and a block's frame around them. */
	ck_assert_uint_eq(stats.filter_bytes, 2 * stats.filter_keys + 141 * stats.filters_built);
	ck_assert_uint_gt(stats.readers_opened, 0);
	ck_assert_uint_eq(stats.readers_refused, 0);
	learner_close(&learner);
}
END_TEST

/* Tables of either kind lie beside each other. */
START_TEST(kinds_change_at_any_opening)
{
	static const struct db_setup setup = {.name = "kinds", .no_compaction = true};
	static const char *const filters[] = {"toy", "aqf", "toy:number=7", "sscf", "toy"};
	struct wn_rocksdb_options options = toys(WN_ROCKSDB_COLUMN_FAMILY);
	struct learner learner;

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		options.filter = filters[i];
		learner = i ? learner_open(&setup, &options) : learner_fill(&setup, &options);
		if (i) {
			db_put(&learner.db, 0, numbers() / 4);
			db_flush(&learner.db);
			wn_rocksdb_drain(learner.wn);
		}
		ask_absent(&learner);
		ck_assert_uint_eq(ask_absent(&learner), 0);
		expect_stored(&learner);
		ck_assert_uint_eq(learner_stats(&learner).readers_refused, 0);
		learner_close(&learner);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("RocksDB, a kind of its own");
	TCase *tests = tcase_create("toy_kind");
	int failed;

	if (wn__kind_register(&toy_kind))
		return EXIT_FAILURE;
	test_make_top();
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, a_kind_of_its_own_learns_in_a_database, 0, 2);
	tcase_add_test(tests, it_is_counted_like_any_other);
	tcase_add_test(tests, kinds_change_at_any_opening);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
