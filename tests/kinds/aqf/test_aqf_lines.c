/* test_aqf_lines.c - AdaptiveQFs in lines answer as the multiset of their fingerprints does. */
#include "tests/support/lines_block.h"

static const struct {
	unsigned extra_bits, quotients, keys_per_span;
} layouts[] = {
	{0, 93, 44045}, {0, 8, 53000},  {0, 26, 50000}, {0, 64, 46800}, {0, 63, 46900},
	{0, 136, 39500}, {1, 90, 39000}, {1, 48, 42000}, {2, 80, 36500}, {3, 70, 34500},
	{4, 72, 32000}, {5, 60, 31000}, {6, 60, 28500}, {7, 60, 27000}, {8, 55, 26000},
};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static struct lines_sample sample_of(unsigned layout, size_t count, uint64_t *random)
{
	return random_sample(count, layouts[layout].extra_bits, layouts[layout].quotients,
			     layouts[layout].keys_per_span, random);
}

START_TEST(any_number_of_keys_in_any_layout)
{
	static const size_t counts[] = {0, 1, 2, 3, 10, 43, 44, 45, 100, 1000, 5000, 40000};
	uint64_t random = test_seed("layouts", 900 + (uint64_t)_i);

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct lines_sample sample = sample_of((unsigned)_i, counts[i], &random);

		sample_build(&sample, test_random(&random) % 64);
		check_sample(&sample, test_is_quick() ? 300 : 5000, &random);
		sample_free(&sample);
	}
}
END_TEST

START_TEST(a_large_filter_has_few_odd_spans_and_its_rate)
{
	uint64_t random = test_seed("large", 930 + (uint64_t)_i);
	size_t count = test_is_quick() ? 100000 : 1000000, hits = 0, queries = 2000000;
	struct lines_sample sample = sample_of((unsigned)_i, count, &random);
	struct wn__lines_calls calls;
	double rate, expected;

	sample_build(&sample, 16);
	calls = wn__lines_calls(&sample.lines);
	check_listing(&sample);
	for (size_t i = 0; i < sample.count; i++)
		expect(calls.query(&sample.lines, sample.hashes[i], NULL));
	for (size_t i = 0; i < queries; i++)
		hits += calls.query(&sample.lines, test_random_hash(&random), NULL);
	rate = (double)hits / (double)queries;
	expected = (double)count / (double)sample.lines.prints;
	fprintf(stderr,
		"%u quotients, %u extra bits: %.3f bits a key, rate %.6f (%.6f), %u odd spans, "
		"%.4f %% of the keys\n", sample.shape.quotients, sample.shape.extra_bits,
		(double)sample.size * 8 / (double)count, rate, expected, sample.lines.odd_spans,
		100.0 * (double)sample.lines.odd_prints / (double)count);
	/* Six standard deviations. */
	ck_assert(rate < expected + 6 * 0.0007071 * __builtin_sqrt(expected) + 2e-6);
	sample_free(&sample);
}
END_TEST

/* ---- the layout for so many bits a key -------------------------------------- */

static double built_bits(double bits_per_key, size_t count, double *oddp, uint64_t *random)
{
	struct lines_sample sample = random_sample(count, 0, 93, 44000, random);
	double bits;

	wn__lines_choose(bits_per_key, sample.count, &sample.shape);
	sample_build(&sample, 0);
	check_sample(&sample, 300, random);
	bits = 8 * (double)(sample.size - WN__BLOCK_MIN_SIZE) / (double)sample.count;
	*oddp = (double)sample.lines.odd_prints / (double)sample.count;
	sample_free(&sample);
	return bits;
}

START_TEST(a_layout_takes_the_bits_it_is_given)
{
	uint64_t random = test_seed("choose", 1100);
	double rate, last = 1;
	size_t count = test_is_quick() ? 200000 : 400000;
	struct wn__lines_shape shape;

	ck_assert(!wn__lines_have(9.99));
	ck_assert(!wn__lines_have(18.01));
	for (double bits = 10; bits <= 18; bits += 0.125) {
		double odd, taken = built_bits(bits, count, &odd, &random);

		ck_assert(wn__lines_have(bits));
		wn__lines_choose(bits, count, &shape);
		rate = (double)count / (double)(wn__lines_quotients(&shape)
						<< wn__lines_remainder_bits(&shape));
		fprintf(stderr, "%.3f bits asked for, %.3f taken: %u + 8 remainder bits, %u "
			"quotients, rate %.6f, odd %.4f %%\n", bits, taken, shape.extra_bits,
			shape.quotients, rate, 100 * odd);
		/* A few odd spans more than usual are no reason to fail. */
		ck_assert(taken < bits + 0.05 && taken > bits - 0.1);
		ck_assert(odd < 0.002);
		ck_assert(rate < last * 1.001);
		last = rate;
	}
	/* The default. */
	wn__lines_choose(11.85, count, &shape);
	rate = (double)count / (double)(wn__lines_quotients(&shape) << 8);
	ck_assert(rate < 0.002);
}
END_TEST

/* ---- hashes that somebody made ------------------------------------------- */

/* The spans of a crowd, the hashes that fall together, ... */
static struct wn_hash craft(unsigned how, size_t i, size_t count, uint64_t *random)
{
	struct wn_hash hash = test_random_hash(random);

	switch (how) {
	case 0: /* all in one fingerprint */
		return (struct wn_hash){UINT64_C(0x8000000000000000), i};
	case 1: /* one after the other */
		return (struct wn_hash){i, i};
	case 2: /* at the other end */
		return (struct wn_hash){UINT64_MAX - i, i};
	case 3: /* half of them in a thousandth */
		hash.hi = i % 2 ? hash.hi / 1000 : hash.hi;
		return hash;
	case 4: /* a crowd every 64th of the range */
		hash.hi = hash.hi >> 58 << 58 | hash.hi % (UINT64_C(1) << 40);
		return hash;
	case 5: /* denser and denser */
		hash.hi = (uint64_t)((wn__u128)hash.hi * hash.hi >> 64);
		return hash;
	case 6: /* many keys of one fingerprint here and there */
		hash.hi = i % 3 ? hash.hi : UINT64_C(0x1111111111111111) * (1 + i % 15);
		return hash;
	case 7: /* evenly, without any chance */
		hash.hi = (uint64_t)(((wn__u128)i << 64) / count);
		return hash;
	case 8: /* only the last quarter */
		hash.hi |= UINT64_C(3) << 62;
		return hash;
	default: /* dense and empty spans in turn */
		hash.hi &= ~(UINT64_C(1) << 52);
		return hash;
	}
}

enum { CRAFTS = 10 };

START_TEST(crafted_hashes_cost_space_and_no_key)
{
	unsigned layout = (unsigned)_i / CRAFTS, how = (unsigned)_i % CRAFTS;
	uint64_t random = test_seed("crafted", 950 + (uint64_t)_i);
	size_t sizes[] = {30, 700, test_is_quick() ? 3000 : 20000};

	for (unsigned size = 0; size < 3; size++) {
		struct lines_sample sample = sample_of(layout, sizes[size], &random);

		for (size_t i = 0; i < sizes[size]; i++)
			sample.hashes[i] = craft(how, i, sizes[size], &random);
		sample.count = sort_distinct(sample.hashes, sizes[size]);
		sample_build(&sample, 0);
		check_sample(&sample, 500, &random);
		sample_free(&sample);
	}
}
END_TEST

/* ---- negatives known at build time ---------------------------------------- */

/* Near ones, far ones, and some that share their upper half with a key, which no block can tell
 * from it. */
static void add_negatives(struct lines_sample *sample, size_t count, uint64_t *random)
{
	sample->negatives = malloc(count * sizeof(*sample->negatives));
	for (size_t i = 0; i < count; i++) {
		struct wn_hash key = sample->hashes[test_random(random) % sample->count];

		sample->negatives[i] = i % 3 ? near_hash(sample, key, random) :
					       test_random_hash(random);
		if (i % 7 == 0)
			sample->negatives[i] = (struct wn_hash){key.hi, key.lo ^ (1 + i)};
	}
	sample->negative_count = sort_distinct(sample->negatives, count);
	drop_stored(sample);
}

START_TEST(negatives_known_at_build_time_are_denied)
{
	uint64_t random = test_seed("negatives", 980 + (uint64_t)_i);
	struct lines_sample sample = sample_of((unsigned)_i, 2000, &random);

	for (size_t i = 0; i < sample.count; i += 5) /* company in some fingerprints */
		sample.hashes[i] = near_hash(&sample, sample.hashes[i + 1], &random);
	sample.count = sort_distinct(sample.hashes, sample.count);
	add_negatives(&sample, 1500, &random);
	sample_build(&sample, 3);
	ck_assert_uint_gt(sample.lines.extended, 100);
	check_sample(&sample, 3000, &random);
	sample_free(&sample);
}
END_TEST

START_TEST(negatives_in_odd_spans_are_denied)
{
	uint64_t random = test_seed("odd negatives", 999);
	struct lines_sample sample = sample_of(0, 3000, &random);

	for (size_t i = 0; i < 3000; i++)
		sample.hashes[i].hi = i % 2 ? UINT64_C(0x4000000000000000) + i / 6 :
					      sample.hashes[i].hi;
	sample.count = sort_distinct(sample.hashes, 3000);
	add_negatives(&sample, 2000, &random);
	sample_build(&sample, 0);
	ck_assert_uint_ge(sample.lines.odd_spans, 1);
	check_sample(&sample, 3000, &random);
	sample_free(&sample);
}
END_TEST

/* ---- batches --------------------------------------------------------------- */

START_TEST(batches_of_any_size_answer_as_single_queries)
{
	uint64_t random = test_seed("batches", 1000 + (uint64_t)_i);
	struct lines_sample sample = sample_of((unsigned)_i, 5000, &random);
	struct wn_hash hashes[200];
	bool answers[201];

	sample_build(&sample, 16);
	for (size_t count = 0; count <= 200; count++) {
		for (size_t i = 0; i < count; i++)
			hashes[i] = i % 2 ? test_random_hash(&random) :
					    sample.hashes[test_random(&random) % sample.count];
		for (int path = 0; path < WN__PATHS; path++) {
			struct wn__lines_calls calls =
				wn__lines_calls_of(&sample.lines, (enum wn__lines_path)path);

			if (!calls.query)
				continue;
			memset(answers, 2, sizeof(answers));
			calls.query_batch(&sample.lines, hashes, count, answers);
			for (size_t i = 0; i < count; i++)
				expect(answers[i] == calls.query(&sample.lines, hashes[i], NULL));
			expect(((unsigned char *)answers)[count] == 2);
		}
	}
	sample_free(&sample);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_lines");
	TCase *tests = tcase_create("lines");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, any_number_of_keys_in_any_layout, 0, LAYOUTS);
	tcase_add_loop_test(tests, a_large_filter_has_few_odd_spans_and_its_rate, 0, LAYOUTS);
	tcase_add_test(tests, a_layout_takes_the_bits_it_is_given);
	tcase_add_loop_test(tests, crafted_hashes_cost_space_and_no_key, 0, LAYOUTS * CRAFTS);
	tcase_add_loop_test(tests, negatives_known_at_build_time_are_denied, 0, LAYOUTS);
	tcase_add_test(tests, negatives_in_odd_spans_are_denied);
	tcase_add_loop_test(tests, batches_of_any_size_answer_as_single_queries, 0, LAYOUTS);
	return test_run(suite);
}
