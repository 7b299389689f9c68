/* test_zipf.c - the benchmarks' sampler of Zipf's law (bench/zipf.h). */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/zipf.h"

static uint64_t test_seed(void)
{
	const char *text = getenv("WN_SEED");
	const uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20240509;

	printf("WN_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

START_TEST(samples_follow_the_law)
{
	char message[200] = "";

	ck_assert_msg(zipf_self_check(test_seed(), message, sizeof(message)), "%s", message);
}
END_TEST

/* Pearson's statistic over 50 ranks: mean 49, standard deviation 9.9. */
static double chi_square(double exponent, uint64_t seed)
{
	enum { RANKS = 50, SAMPLES = 500000 };
	uint64_t seen[RANKS] = { 0 };
	double statistic = 0.0;
	struct zipf zipf;

	ck_assert(zipf_init(&zipf, RANKS, exponent, seed));
	for (int i = 0; i < SAMPLES; i++)
		seen[zipf_rank(&zipf, &seed) - 1]++;
	for (uint64_t k = 0; k < RANKS; k++) {
		const double expected = zipf_probability(&zipf, k + 1) * (double)SAMPLES;
		const double difference = (double)seen[k] - expected;

		statistic += difference * difference / expected;
	}
	return statistic;
}

START_TEST(all_ranks_together_fit_as_well_as_chance_allows)
{
	static const double exponents[] = { 0.5, 0.99, 1.0, 1.2, 1.5, 2.0 };
	const uint64_t seed = test_seed();

	for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
		const double statistic = chi_square(exponents[i], seed + i);

		ck_assert_msg(statistic > 12.0 && statistic < 115.0, "exponent %g: chi square %g",
			      exponents[i], statistic);
	}
}
END_TEST

START_TEST(probabilities_add_up_to_one)
{
	static const double exponents[] = { 0.3, 1.0, 1.5 };
	enum { RANKS = 200000 };

	for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
		double sum = 0.0;
		struct zipf zipf;

		ck_assert(zipf_init(&zipf, RANKS, exponents[i], 1));
		for (uint64_t k = RANKS; k >= 1; k--)
			sum += zipf_probability(&zipf, k);
		ck_assert_double_lt(fabs(sum - 1.0), 1e-9);
	}
}
END_TEST

START_TEST(every_item_has_exactly_one_rank)
{
	static const uint64_t counts[] = { 1, 2, 3, 4, 5, 64, 1000, 4097 };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		unsigned char taken[4097] = { 0 };
		struct zipf zipf;

		ck_assert(zipf_init(&zipf, counts[i], 1.0, i));
		for (uint64_t rank = 1; rank <= counts[i]; rank++) {
			const uint64_t item = zipf_item(&zipf, rank);

			ck_assert_uint_lt(item, counts[i]);
			ck_assert_msg(!taken[item], "item %llu of %llu has two ranks",
				      (unsigned long long)item, (unsigned long long)counts[i]);
			taken[item] = 1;
		}
	}
}
END_TEST

/* Were the items in rank order, the first 1,000 ranks would lie in the first
 * thousandth; spread at random their mean is the middle, give or take 0.9%. */
START_TEST(frequent_items_lie_anywhere)
{
	enum { COUNT = 1000000, RANKS = 1000 };
	const uint64_t seed = test_seed();
	double sum = 0.0;
	struct zipf zipf;

	ck_assert(zipf_init(&zipf, COUNT, 1.5, seed));
	for (uint64_t rank = 1; rank <= RANKS; rank++)
		sum += (double)zipf_item(&zipf, rank) / (double)COUNT;
	ck_assert_double_lt(fabs(sum / (double)RANKS - 0.5), 0.06);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_samples)
{
	uint64_t first = 7, second = 7, other = 8;
	bool differs = false;
	struct zipf zipf;

	ck_assert(zipf_init(&zipf, 1000000, 1.0, 3));
	for (int i = 0; i < 100; i++) {
		const uint64_t item = zipf_next(&zipf, &first);

		ck_assert_uint_eq(item, zipf_next(&zipf, &second));
		differs |= item != zipf_next(&zipf, &other);
	}
	ck_assert(differs);
}
END_TEST

START_TEST(bad_parameters_are_refused)
{
	struct zipf zipf;

	ck_assert(!zipf_init(&zipf, 0, 1.0, 1));
	ck_assert(!zipf_init(&zipf, ZIPF_MAX_COUNT + 1, 1.0, 1));
	ck_assert(!zipf_init(&zipf, 10, 0.0, 1));
	ck_assert(!zipf_init(&zipf, 10, -1.0, 1));
	ck_assert(!zipf_init(&zipf, 10, 21.0, 1));
	ck_assert(!zipf_init(&zipf, 10, NAN, 1));
	ck_assert(zipf_init(&zipf, ZIPF_MAX_COUNT, 20.0, 1));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("zipf");
	TCase *tests = tcase_create("zipf");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, samples_follow_the_law);
	tcase_add_test(tests, all_ranks_together_fit_as_well_as_chance_allows);
	tcase_add_test(tests, probabilities_add_up_to_one);
	tcase_add_test(tests, every_item_has_exactly_one_rank);
	tcase_add_test(tests, frequent_items_lie_anywhere);
	tcase_add_test(tests, the_same_seed_gives_the_same_samples);
	tcase_add_test(tests, bad_parameters_are_refused);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
