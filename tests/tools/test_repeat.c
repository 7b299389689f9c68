/* test_repeat.c - winnow-bench's repetitions: turns, ranges, and what is said of them. */
#include <stdlib.h>
#include <string.h>

/* Before check.h, which has a macro of the name of a function in bench_engine.h. */
#include "tools/bench/bench_result.h"

#include "tests/support/common.h"

/* ---- turns -------------------------------------------------------------- */

START_TEST(filters_take_turns_in_alternating_order)
{
	static const size_t two[][2] = { { 0, 1 }, { 1, 0 }, { 0, 1 }, { 1, 0 } };
	static const size_t three[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 0, 1, 2 } };

	for (size_t r = 0; r < 4; r++)
		for (size_t turn = 0; turn < 2; turn++)
			ck_assert_uint_eq(repeat_filter(r, turn, 2), two[r][turn]);
	for (size_t r = 0; r < 3; r++)
		for (size_t turn = 0; turn < 3; turn++)
			ck_assert_uint_eq(repeat_filter(r, turn, 3), three[r][turn]);
	ck_assert_uint_eq(repeat_filter(5, 0, 1), 0);
}
END_TEST

/* ---- ranges ------------------------------------------------------------- */

START_TEST(a_spread_is_median_and_range)
{
	const double odd[] = { 5, 1, 9 }, even[] = { 4, 2, 8, 3 };
	struct spread spread = spread_of(odd, 3);

	ck_assert_double_eq(spread.median, 5);
	ck_assert_double_eq(spread.low, 1);
	ck_assert_double_eq(spread.high, 9);
	spread = spread_of(even, 4);
	ck_assert_double_eq(spread.median, 3.5);
	ck_assert_uint_eq(spread.count, 4);
	spread = spread_of(odd, 0);
	ck_assert_uint_eq(spread.count, 0);
	ck_assert_double_eq(spread.high, 0);
}
END_TEST

/* ---- words -------------------------------------------------------------- */

static const char *say_both(const double *speeds, const double *efforts, size_t count)
{
	static char text[300];
	const struct spread speed = spread_of(speeds, count);
	const struct spread cpu = spread_of(efforts, efforts ? count : 0);

	repeat_say(&speed, &cpu, text, sizeof(text));
	return text;
}

static const char *say(const double *speeds, size_t count)
{
	return say_both(speeds, NULL, count);
}

START_TEST(a_range_with_one_in_it_shows_no_difference)
{
	const double around[] = { 0.9, 1.1, 0.95 }, touching[] = { 0.9, 0.95, 1.0 };
	const double rounded[] = { 0.9, 0.95, 0.99996 };

	ck_assert_str_eq(say(around, 3), "no difference in speed can be seen: 0.950 times "
					 "(0.900 to 1.100 in 3 pairs)");
	ck_assert(strstr(say(touching, 3), "no difference"));
	/* It would be printed as 1.000. */
	ck_assert(strstr(say(rounded, 3), "no difference"));
}
END_TEST

START_TEST(a_range_without_one_is_a_difference)
{
	const double slow[] = { 0.9, 0.999, 0.8 }, fast[] = { 1.2, 1.001 };

	ck_assert_str_eq(say(slow, 3), "slower in each of 3 pairs: 0.900 times the speed "
				       "(0.800 to 0.999)");
	ck_assert(strstr(say(fast, 2), "faster in each of 2 pairs: "));
}
END_TEST

START_TEST(one_pair_shows_nothing)
{
	const double one[] = { 2.0 };

	ck_assert(strstr(say(one, 1), "2.000 times the speed in one pair"));
	ck_assert(!strstr(say(one, 1), "faster"));
	ck_assert_str_eq(say(one, 0), "no two speeds to compare");
}
END_TEST

START_TEST(processor_time_may_show_what_the_clock_hides)
{
	const double speed[] = { 0.9, 1.1 }, more[] = { 1.05, 1.07 }, same[] = { 0.99, 1.05 };

	ck_assert_str_eq(say_both(speed, more, 2),
			 "no difference in speed can be seen: 1.000 times (0.900 to 1.100 in 2 "
			 "pairs), with more processor time in each pair: 1.060 times (1.050 to "
			 "1.070)");
	ck_assert_ptr_nonnull(strstr(say_both(speed, same, 2),
				     "pairs), with 1.020 times the processor time (0.990 to "
				     "1.050)"));
}
END_TEST

/* ---- results ------------------------------------------------------------ */

#define REPEATS 3

/* Two filters, one benchmark: made-up times and counts. */
static struct result made[2 * REPEATS];
static struct bench_step made_step;
static const struct result_set made_set = { made, 2, 1, REPEATS };

static void make_results(const double *bloom, const double *aqf)
{
	made_step = (struct bench_step){ .kind = bench_kind_find("readmissing", 11),
					 .label = "readmissing" };
	for (unsigned i = 0; i < 2 * REPEATS; i++) {
		const bool learns = i >= REPEATS;
		const unsigned repeat = i % REPEATS;

		made[i] = (struct result){
			.step = &made_step, .engine = "memory", .filter = learns ? "aqf" : "bloom",
			.repeat = repeat, .planned = 1000, .ops = 1000, .reads = 1000,
			.seconds = learns ? aqf[repeat] : bloom[repeat], .cpu_seconds = 1,
			.false_positives = learns ? repeat == 0 ? 30 : 2 : 90,
		};
	}
}

static char *verdict(void)
{
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(to);
	results_print_table(&made_set, to);
	fclose(to);
	return text;
}

START_TEST(ratios_are_of_pairs_not_of_medians)
{
	const double bloom[] = { 1, 2, 4 }, aqf[] = { 2, 4, 8 };
	struct spread ratio;

	make_results(bloom, aqf);
	ratio = result_ratio(&made_set, 0, 1, 0, result_rate);
	ck_assert_uint_eq(ratio.count, REPEATS);
	ck_assert_double_eq(ratio.low, 0.5);
	ck_assert_double_eq(ratio.high, 0.5);
	made[REPEATS + 1].interrupted = true;
	ck_assert_uint_eq(result_ratio(&made_set, 0, 1, 0, result_rate).count, REPEATS - 1);
}
END_TEST

START_TEST(the_verdict_tells_the_first_and_the_last_time)
{
	const double bloom[] = { 1, 1, 1 }, aqf[] = { 1.1, 0.9, 1 };
	static const char words[] =
		"aqf against bloom. readmissing: 30 false positives instead of 90 (3.0 times "
		"fewer) the first time, at 0.909 times the speed in that pair, 2 false positives "
		"instead of 90 (45.0 times fewer) the last; no difference in speed can be seen: "
		"1.000 times (0.909 to 1.111 in 3 pairs), with 1.000 times the processor time "
		"(1.000 to 1.000). Every answer was right.\n";
	char *text;

	make_results(bloom, aqf);
	text = verdict();
	ck_assert_ptr_nonnull(strstr(text, words));
	free(text);
}
END_TEST

START_TEST(wrong_answers_are_summed_over_repetitions)
{
	const double same[] = { 1, 1, 1 };
	char *text;

	make_results(same, same);
	made[1].wrong = 2;
	made[5].wrong = 3;
	text = verdict();
	ck_assert_ptr_nonnull(strstr(text, "WRONG: 5 answers"));
	free(text);
}
END_TEST

START_TEST(what_was_not_run_is_not_compared)
{
	const double same[] = { 1, 1, 1 };
	char *text;

	make_results(same, same);
	for (size_t i = REPEATS; i < 2 * REPEATS; i++)
		made[i].step = NULL;
	ck_assert_uint_eq(result_repeats(&made_set, 0, 0), REPEATS);
	ck_assert_uint_eq(result_repeats(&made_set, 1, 0), 0);
	ck_assert_ptr_null(result_last(&made_set, 1, 0));
	text = verdict();
	ck_assert_ptr_null(strstr(text, "against"));
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("repeat");
	TCase *tests = tcase_create("repeat");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, filters_take_turns_in_alternating_order);
	tcase_add_test(tests, a_spread_is_median_and_range);
	tcase_add_test(tests, a_range_with_one_in_it_shows_no_difference);
	tcase_add_test(tests, a_range_without_one_is_a_difference);
	tcase_add_test(tests, one_pair_shows_nothing);
	tcase_add_test(tests, processor_time_may_show_what_the_clock_hides);
	tcase_add_test(tests, ratios_are_of_pairs_not_of_medians);
	tcase_add_test(tests, the_verdict_tells_the_first_and_the_last_time);
	tcase_add_test(tests, wrong_answers_are_summed_over_repetitions);
	tcase_add_test(tests, what_was_not_run_is_not_compared);
	return test_run(suite);
}
