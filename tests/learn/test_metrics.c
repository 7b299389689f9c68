/* test_metrics.c - counters, and what is shown of them. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "learn/metrics.h"
#include "tests/support/common.h"

/* The text between name and number, and both of these. */
static void expect_line(const char *text, const char *before, const char *name, const char *after,
			uint64_t value)
{
	char line[600];

	snprintf(line, sizeof(line), "%s%s%s%" PRIu64 "\n", before, name, after, value);
	if (!strstr(text, line))
		ck_abort_msg("no line '%s' in: %s", line, text);
}

/* A number of its own for each member. */
static struct wn_stats made_stats(void)
{
	uint64_t value = 0;
	struct wn_stats stats = {0};

#define FILL(name, help) stats.name = ++value * UINT64_C(1000000007);
	WN_STATS(FILL, FILL)
#undef FILL
	return stats;
}

START_TEST(a_line_in_the_list_is_a_member_and_is_shown_in_both_texts)
{
	struct wn_stats stats = made_stats();
	char *plain = wn__stats_text(&stats, "winnow.stats");
	char *prometheus = wn__stats_text(&stats, "winnow.prometheus");
	size_t lines = 0, expected = 0;

#define PLAIN(name, help) expect_line(plain, "", #name, ": ", stats.name);
	WN_STATS(PLAIN, PLAIN)
#undef PLAIN
#define COUNTER(name, help)                                                                        \
	expected++;                                                                                \
	expect_line(prometheus,                                                                    \
		    "# HELP winnow_" #name "_total " help ".\n# TYPE winnow_" #name                \
		    "_total counter\nwinnow_", #name, "_total ", stats.name);
#define GAUGE(name, help)                                                                          \
	expected++;                                                                                \
	expect_line(prometheus,                                                                    \
		    "# HELP winnow_" #name " " help ".\n# TYPE winnow_" #name                      \
		    " gauge\nwinnow_", #name, " ", stats.name);
	WN_STATS(COUNTER, GAUGE)
#undef COUNTER
#undef GAUGE
	ck_assert_uint_eq(expected, WN__METRICS);
	ck_assert_uint_eq(sizeof(stats), 64 * sizeof(uint64_t)); /* programs are compiled with it */
	for (const char *at = plain; (at = strchr(at, '\n')); at++)
		lines++;
	ck_assert_uint_eq(lines, expected);
	free(plain);
	free(prometheus);
}
END_TEST

START_TEST(the_largest_numbers_are_shown_whole)
{
	struct wn_stats stats;
	char *text;

	memset(&stats, 0xff, sizeof(stats));
	for (int i = 0; i < 2; i++) {
		size_t numbers = 0;

		text = wn__stats_text(&stats, i ? "winnow.stats" : "winnow.prometheus");
		for (const char *at = text; (at = strstr(at, " 18446744073709551615\n")); at++)
			numbers++;
		ck_assert_uint_eq(numbers, WN__METRICS);
		free(text);
	}
}
END_TEST

START_TEST(other_properties_are_nobodys)
{
	struct wn_stats stats = {0};

	ck_assert_ptr_null(wn__stats_text(&stats, ""));
	ck_assert_ptr_null(wn__stats_text(&stats, "winnow"));
	ck_assert_ptr_null(wn__stats_text(&stats, "winnow.stats2"));
	ck_assert_ptr_null(wn__stats_text(&stats, "rocksdb.stats"));
	wn__alloc_fail_at(1);
	ck_assert_ptr_null(wn__stats_text(&stats, "winnow.stats"));
	wn__alloc_fail_at(0);
}
END_TEST

START_TEST(each_counter_is_its_own)
{
	struct wn__metrics *metrics = wn__alloc_table(sizeof(*metrics));
	struct wn_stats stats = {0}, expected = made_stats();

	ck_assert_ptr_nonnull(metrics);
#define COUNT(name, help)                                                                          \
	wn__count(metrics, name, expected.name - 1);                                               \
	wn__count(metrics, name, 1);
	WN_STATS(COUNT, COUNT)
#undef COUNT
	wn__metrics_sum(metrics, &stats);
	ck_assert_mem_eq(&stats, &expected, sizeof(stats));
	/* It is added to what is there. */
	wn__metrics_sum(metrics, &stats);
	ck_assert_uint_eq(stats.lookups, 2 * expected.lookups);
	ck_assert_uint_eq(stats.readers_refused, 2 * expected.readers_refused);
	free(metrics);
}
END_TEST

#define THREADS 40 /* more than there are stripes */
#define ROUNDS 50000

static void *count_for_long(void *metrics)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		wn__count(metrics, lookups, 1);
		wn__count(metrics, positives, 3);
	}
	return NULL;
}

START_TEST(the_sum_is_that_of_all_threads)
{
	struct wn__metrics *metrics = wn__alloc_table(sizeof(*metrics));
	struct wn_stats stats = {0};
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_for_long, metrics), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	wn__metrics_sum(metrics, &stats);
	ck_assert_uint_eq(stats.lookups, THREADS * ROUNDS);
	ck_assert_uint_eq(stats.positives, 3 * THREADS * ROUNDS);
	ck_assert_uint_eq(stats.false_positives, 0);
	/* They did not all count in one place. */
	ck_assert_uint_lt(atomic_load(&metrics->stripes[0].counts[0]), THREADS * ROUNDS);
	free(metrics);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("metrics");
	TCase *tests = tcase_create("metrics");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_line_in_the_list_is_a_member_and_is_shown_in_both_texts);
	tcase_add_test(tests, the_largest_numbers_are_shown_whole);
	tcase_add_test(tests, other_properties_are_nobodys);
	tcase_add_test(tests, each_counter_is_its_own);
	tcase_add_test(tests, the_sum_is_that_of_all_threads);
	return test_run(suite);
}
