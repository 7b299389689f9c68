/* test_learn_negatives.c - what new filters are told of missing keys. */
#include "tests/support/learn_host.h"

#define POPULAR 300
#define TIMES 100

/* As a lookup of a batch, or alone. */
static void ask_for(struct host *host, const struct table *table, uint64_t number, bool batched)
{
	struct wn__lookup lookup;
	struct wn__batch batch;

	if (!batched) {
		look_up(host, table, number);
		return;
	}
	begin_lookup(host, &lookup, NULL);
	table_asks(host, table, hash_of(host, number));
	wn__lookup_end_batch(&lookup, host->learn, &batch);
	wn__batch_confirm(&batch, hash_of(host, number), false, false);
}

/* The popular ones, again and again, among others that come once. */
static void ask_popular(struct host *host, const struct table *table, bool batched)
{
	uint64_t once = UINT64_C(1) << 42;

	for (unsigned time = 0; time < TIMES; time++) {
		for (uint64_t i = 0; i < POPULAR; i++)
			ask_for(host, table, (UINT64_C(1) << 41) + i, batched);
		for (uint64_t i = 0; i < POPULAR; i++)
			ask_for(host, table, once++, batched);
	}
}

/* How many of the popular ones does the filter itself say "maybe" to? */
static uint64_t count_popular(struct host *host, const struct table *table)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < POPULAR; i++)
		count += wn_filter_query_hash(table->filter,
					      hash_of(host, (UINT64_C(1) << 41) + i), NULL);
	return count;
}

/* Whether the old filter was wrong about them or not: a filter with other keys errs on others. */
START_TEST(new_filters_know_the_missing_keys_that_are_popular)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1), next, ignorant;
	struct wn_stats stats;
	uint64_t known, unknown;

	wn__learn_drain(host.learn);
	ignorant = table_build(&host, UINT64_C(1) << 50, 2);
	unknown = count_popular(&host, &ignorant);
	ask_popular(&host, &table, _i);
	stats = host_stats(&host);
	/* Of those that came once, none is known but the false positives. */
	ck_assert_uint_ge(stats.negatives, POPULAR * 9 / 10);
	ck_assert_uint_le(stats.negatives, POPULAR + stats.false_positives);
	next = table_build(&host, UINT64_C(1) << 50, 3);
	known = count_popular(&host, &next);
	fprintf(stderr, "%" PRIu64 " false positives, %" PRIu64 " if they are known\n", unknown,
		known);
	ck_assert_uint_gt(unknown, 5);
	ck_assert_uint_le(known, unknown / 5);
	table_free(&table);
	table_free(&next);
	table_free(&ignorant);
	host_close(&host);
}
END_TEST

/* Filters of other kinds are told of their false positives only, and nobody pays for more. */
START_TEST(kinds_that_want_no_costs_are_told_of_false_positives_only)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	struct wn_stats stats;

	wn__learn_drain(host.learn);
	ck_assert_ptr_null(host.learn->popular);
	ask_popular(&host, &table, false);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.negatives, stats.false_positives);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* A lookup that found something, or came to no answer, says nothing of missing keys. */
START_TEST(only_lookups_that_found_nothing_count)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);

	wn__learn_drain(host.learn);
	for (uint64_t i = 0; i < 1000; i++) {
		struct wn__lookup lookup;
		uint64_t number = i % 5;

		begin_lookup(&host, &lookup, &number);
		wn__lookup_hash(host.secret, &number, sizeof(number));
		wn__lookup_end(&lookup, host.learn, i % 2, i % 2 == 0);
		/* A filter that was not asked. */
		begin_lookup(&host, &lookup, &number);
		wn__lookup_end(&lookup, host.learn, false, false);
	}
	ck_assert_uint_eq(host_stats(&host).negatives, 0);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(a_cost_is_about_how_often_a_key_was_asked_for)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	const struct wn__negatives_view *view;

	wn__learn_drain(host.learn);
	for (uint64_t i = 0; i < 1200000; i++)
		look_up(&host, &table, (UINT64_C(1) << 41) + (i % 12 != 0));
	view = wn__negatives_view(host.learn->negatives);
	ck_assert_uint_eq(view->count, 2);
	fprintf(stderr, "costs %.0f and %.0f\n", view->negatives[0].cost,
		view->negatives[1].cost);
	ck_assert_int_eq(wn_hash_compare(view->negatives[0].hash,
					 hash_of(&host, (UINT64_C(1) << 41) + 1)), 0);
	ck_assert(view->negatives[0].cost > 500000 && view->negatives[0].cost < 1200000);
	ck_assert(view->negatives[1].cost > 45000 && view->negatives[1].cost < 110000);
	wn__negatives_unview(view);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(the_costliest_are_carried_over_and_not_all)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct wn_builder *builder;
	void *block;
	size_t size;

	for (uint64_t i = 0; i < 3000; i++)
		ck_assert_int_eq(wn__learn_add_negative(host.learn, hash_of(&host, i), &i,
							sizeof(i), 1 + (i < 10)), 0);
	ck_assert_uint_eq(host_stats(&host).negatives, 3000);
	ck_assert_int_eq(wn_builder_create(host.config, host.secret, &builder), 0);
	for (uint64_t i = 0; i < 2000; i++)
		expect(wn_builder_add_hash(builder, hash_of(&host, 10000 + i)) == 0);
	carry_over(&host, builder);
	ck_assert_uint_eq(host_stats(&host).carried_over, 2000);
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	free(block);
	wn_builder_reset(builder);
	expect(wn_builder_add_hash(builder, hash_of(&host, 10000)) == 0);
	carry_over(&host, builder);
	ck_assert_uint_eq(host_stats(&host).carried_over, 2000 + WN__MIN_CARRIED);
	wn_builder_destroy(builder);
	host_close(&host);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("learn_negatives");
	TCase *tests = tcase_create("learn_negatives");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, new_filters_know_the_missing_keys_that_are_popular, 0, 2);
	tcase_add_test(tests, kinds_that_want_no_costs_are_told_of_false_positives_only);
	tcase_add_test(tests, only_lookups_that_found_nothing_count);
	tcase_add_test(tests, a_cost_is_about_how_often_a_key_was_asked_for);
	tcase_add_test(tests, the_costliest_are_carried_over_and_not_all);
	return test_run(suite);
}
