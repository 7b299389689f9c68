/* test_sscf_theory.c - the formulas that the seesaw counting filter is made by. */
#include <math.h>

#include "kinds/sscf/sscf_theory.h"
#include "tests/support/sscf_sample.h"

/* Algorithm 3 as it is printed: whichever cell is empty, a backup may stand in. */
static bool query_as_printed(const struct wn_sscf *sscf, struct wn_hash hash)
{
	unsigned value = wn__sscf_modulator(sscf, wn__sscf_modulator_cell(hash,
									  sscf->modulator_cells));
	unsigned empty = 0;
	uint64_t group;
	uint32_t cell;

	for (unsigned i = 0; i < sscf->hashes; i++) {
		cell = wn__sscf_cell(sscf, hash, i);
		empty += wn__group_count(sscf, wn__sscf_group(sscf, cell), cell) == 0;
	}
	if (empty != 1)
		return empty == 0;
	if (wn__modulator_count(sscf, value) == 0)
		return false;
	cell = wn__sscf_cell(sscf, hash, sscf->hashes + wn__modulator_index(sscf, value));
	group = wn__sscf_group(sscf, cell);
	return !wn__group_negative(group, cell) && wn__group_count(sscf, group, cell) > 0;
}

static void expect_near(const char *what, double measured, double expected, double tolerance)
{
	fprintf(stderr, "  %-22s %.5f, by formula %.5f\n", what, measured, expected);
	ck_assert_msg(fabs(measured - expected) <= tolerance * expected, "%s: %g, not %g", what,
		      measured, expected);
}

static const struct {
	double bits, vulnerable_share, modulator_share;
	unsigned hashes, index_bits;
} shapes[] = {
	{12, 0.06, 0.10, 2, 1}, {20, 0.06, 0.10, 3, 1}, {20, 0.20, 0.05, 3, 2},
	{16, 0.10, 0.20, 2, 1}, {28, 0.10, 0.10, 4, 1}, {24, 0.30, 0.15, 4, 3},
};

/* Lemmas 1 to 6 and Theorems 1 and 2, as printed and as we do it. */
START_TEST(the_formulas_of_section_four_hold)
{
	uint64_t random = test_seed("the_formulas_of_section_four_hold", 6);
	uint64_t keys = test_is_quick() ? 60000 : 300000;
	size_t queries = test_is_quick() ? 300000 : 2000000;
	struct wn_sscf_options options = {
		.capacity = keys,
		.bits_per_key = shapes[_i].bits,
		.vulnerable = (uint64_t)((double)keys * shapes[_i].vulnerable_share),
		.counter_bits = 5,
		.index_bits = shapes[_i].index_bits,
		.hashes = shapes[_i].hashes,
		.modulator_share = shapes[_i].modulator_share,
	};
	struct sample sample = fill(&options, &random);
	struct wn__sscf_letters letters = {
		.keys = (double)keys,
		.vulnerable = (double)options.vulnerable,
		.cells = sample.sscf->cells,
		.modulator_cells = sample.sscf->modulator_cells,
		.hashes = options.hashes,
		.backups = 1u << options.index_bits,
		.vulnerable_cost = 0.7,
	};
	struct wn__sscf_rates rates = wn__sscf_theory(&letters), printed;
	struct wn_sscf_info info;
	size_t wrong = 0, wrong_vulnerable = 0;

	letters.as_printed = true;
	printed = wn__sscf_theory(&letters);
	wn_sscf_describe(sample.sscf, &info);
	expect_near("negative cells", (double)info.sealed_cells / (double)info.cells,
		    rates.negative, 0.03);
	expect_near("triggered", (double)info.triggered, rates.triggered, 0.03);
	expect_near("modulator load", (double)info.modulator_used / (double)info.modulator_cells,
		    rates.load, 0.05);
	expect_near("modulated", 1 - (double)info.failed / (double)info.triggered,
		    rates.modulated, 0.02);
	expect_near("mixed cells", (double)info.mixed_cells / (double)info.sealed_cells,
		    rates.mixed, 0.10);
	expect_near("positive cells", (double)(info.used_cells - info.mixed_cells) /
					      (double)(info.cells - info.sealed_cells),
		    rates.positive, 0.03);
	expect_near("other keys", other_rate(&sample, queries, &random), rates.other_rate, 0.08);
	for (size_t i = 0; i < queries; i++)
		wrong += query_as_printed(sample.sscf, test_random_hash(&random));
	expect_near("other keys, as printed", (double)wrong / (double)queries, printed.other_rate,
		    0.08);
	for (size_t i = 0; i < sample.vulnerable_count; i++)
		wrong_vulnerable += query_as_printed(sample.sscf, sample.vulnerable[i]);
	/* Rare: as far as there are enough of them to compare. */
	if (printed.vulnerable_rate * (double)sample.vulnerable_count > 50) {
		expect_near("vulnerable, as printed",
			    (double)wrong_vulnerable / (double)sample.vulnerable_count,
			    printed.vulnerable_rate, 0.6);
	}
	if (rates.vulnerable_rate * (double)sample.vulnerable_count > 50)
		expect_near("vulnerable", vulnerable_rate(&sample), rates.vulnerable_rate, 0.6);
	ck_assert(rates.vulnerable_rate <= printed.vulnerable_rate);
	ck_assert(rates.other_rate <= printed.other_rate);
	ck_assert(fabs(rates.cost_rate - 0.7 * rates.vulnerable_rate - 0.3 * rates.other_rate) <
		  1e-12);
	destroy(&sample);
}
END_TEST

/* Section IV-D: what is chosen fits, and nothing nearby is better. */
START_TEST(the_parameters_chosen_are_the_best_that_fit)
{
	static const double costs[] = {0.1, 0.5, 0.8, 0.99, 1};
	struct wn__sscf_widths widths = {.cell = 5, .modulator = 4};

	for (double bits = 8; bits <= 40; bits += 8) {
		for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
			struct wn__sscf_letters best = {.keys = 1e5, .vulnerable = 6e3,
							.backups = 2,
							.vulnerable_cost = costs[i]};
			double rate;

			wn__sscf_minimise(&best, bits * 1e5, widths, 0);
			ck_assert(best.cells * 5 + best.modulator_cells * 4 <= bits * 1e5);
			ck_assert(best.cells * 5 + best.modulator_cells * 4 > bits * 1e5 - 10);
			rate = wn__sscf_theory(&best).cost_rate;
			for (unsigned share = 1; share < 10; share++) {
				struct wn__sscf_letters other = best;

				other.hashes = 0;
				wn__sscf_minimise(&other, bits * 1e5, widths, share / 10.0);
				ck_assert(wn__sscf_theory(&other).cost_rate >= rate * 0.99999);
				other.hashes = best.hashes + 1;
				ck_assert(wn__sscf_theory(&other).cost_rate >= rate * 0.99999);
			}
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sscf_theory");
	TCase *tests = tcase_create("sscf");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, the_formulas_of_section_four_hold, 0,
			    sizeof(shapes) / sizeof(shapes[0]));
	tcase_add_test(tests, the_parameters_chosen_are_the_best_that_fit);
	return test_run(suite);
}
