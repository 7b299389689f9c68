/* test_sscf.c - the living seesaw counting filter. */
#include <errno.h>
#include <math.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "tests/support/sscf_sample.h"

/* ---- keys --------------------------------------------------------------- */

START_TEST(sscf_never_forgets_a_key)
{
	uint64_t random = test_seed("sscf_never_forgets_a_key", 1);

	for (uint64_t keys = 1; keys < 60000; keys *= 7) {
		struct wn_sscf_options options = {.capacity = keys, .vulnerable = keys / 10,
						  .adaptive = keys % 2};
		struct sample sample = fill(&options, &random);

		for (size_t i = 0; i < keys; i++)
			expect(wn_sscf_query(sample.sscf, sample.keys[i]));
		destroy(&sample);
	}
}
END_TEST

START_TEST(deleting_every_key_leaves_nothing)
{
	uint64_t random = test_seed("deleting_every_key_leaves_nothing", 2);
	struct wn_sscf_options options = {.capacity = 20000, .vulnerable = 2000,
					  .counter_bits = 8};
	struct sample sample = fill(&options, &random);
	struct wn_sscf_info info;

	for (size_t i = 0; i < sample.key_count; i++) {
		expect(wn_sscf_delete(sample.sscf, sample.keys[i]) == 0);
		if (i % 100 == 0)
			for (size_t at = i + 1; at < sample.key_count; at++)
				expect(wn_sscf_query(sample.sscf, sample.keys[at]));
	}
	wn_sscf_describe(sample.sscf, &info);
	ck_assert_uint_eq(info.keys, 0);
	ck_assert_uint_eq(info.stuck_cells, 0);
	ck_assert_uint_eq(info.used_cells, 0);
	ck_assert_uint_eq(info.modulator_used, 0);
	ck_assert_uint_gt(info.triggered, 0);
	destroy(&sample);
}
END_TEST

START_TEST(vulnerable_keys_are_spared)
{
	uint64_t random = test_seed("vulnerable_keys_are_spared", 3);
	struct wn_sscf_options options = {.capacity = 50000, .vulnerable = 3000};
	struct sample sample = fill(&options, &random);

	ck_assert(vulnerable_rate(&sample) * 20 < other_rate(&sample, 20000, &random));
	destroy(&sample);
}
END_TEST

/* ada-SSCF: vulnerable keys arrive when all cells are in use, and are spared after some
 * coming and going. */
START_TEST(late_vulnerable_keys_are_spared_in_time)
{
	uint64_t random = test_seed("late_vulnerable_keys_are_spared_in_time", 4);
	struct wn_sscf_options options = {.capacity = 20000, .vulnerable = 1000, .adaptive = true};
	struct wn_sscf_info info;
	struct sample sample = {.key_count = 20000, .vulnerable_count = 1000};
	double before;

	ck_assert_int_eq(wn_sscf_create(&options, &sample.sscf), 0);
	sample.keys = malloc(20000 * sizeof(*sample.keys));
	sample.vulnerable = malloc(1000 * sizeof(*sample.vulnerable));
	for (size_t i = 0; i < 20000; i++)
		wn_sscf_insert(sample.sscf, sample.keys[i] = test_random_hash(&random));
	for (size_t i = 0; i < 1000; i++)
		expect(wn_sscf_add_vulnerable(sample.sscf, sample.vulnerable[i] =
						       test_random_hash(&random)) == 0);
	before = vulnerable_rate(&sample);
	wn_sscf_describe(sample.sscf, &info);
	ck_assert_uint_gt(info.waiting_cells, 100);
	for (size_t round = 0; round < 60000; round++) {
		size_t at = test_random(&random) % 20000;

		expect(wn_sscf_delete(sample.sscf, sample.keys[at]) == 0);
		wn_sscf_insert(sample.sscf, sample.keys[at] = test_random_hash(&random));
	}
	for (size_t i = 0; i < 20000; i++)
		expect(wn_sscf_query(sample.sscf, sample.keys[i]));
	ck_assert(vulnerable_rate(&sample) * 5 < before);
	destroy(&sample);
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
	static const struct wn_sscf_options wrong[] = {
		{.capacity = 0},
		{.capacity = 10, .bits_per_key = 1},
		{.capacity = 10, .bits_per_key = (double)NAN},
		{.capacity = UINT64_MAX},
		{.capacity = 10, .vulnerable_cost = 1.5},
		{.capacity = 10, .vulnerable_cost = -1},
		{.capacity = 10, .cell_bits = 1},
		{.capacity = 10, .cell_bits = 5},
		{.capacity = 10, .counter_bits = 13},
		{.capacity = 10, .index_bits = 4},
		{.capacity = 10, .hashes = 33},
		{.capacity = 10, .modulator_share = 0.95},
		{.capacity = 10, .reserved = {[3] = 1}},
		/* In range, but without one whole cell. */
		{.capacity = 1, .bits_per_key = 4},
		{.capacity = 1, .bits_per_key = 5, .adaptive = true},
		{.capacity = 10, .bits_per_key = 4.9, .modulator_share = 0.9},
	};
	struct wn_sscf *sscf;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		sscf = (void *)1;
		ck_assert_int_eq(wn_sscf_create(&wrong[i], &sscf), WN_ERR_INVALID);
		ck_assert_ptr_null(sscf);
	}
	wn_sscf_destroy(NULL);
}
END_TEST

/* ---- any options -------------------------------------------------------- */

static bool is_rate(double rate)
{
	return rate >= 0 && rate <= 1; /* false for NaN */
}

#define PICK(random, ...)                                                                          \
	(((const double[]){__VA_ARGS__})[test_random(random) %                                     \
					 (sizeof((double[]){__VA_ARGS__}) / sizeof(double))])

/* Values at the borders of what is allowed, and beyond. */
static struct wn_sscf_options draw_options(uint64_t *random)
{
	struct wn_sscf_options options = {
		.capacity = (uint64_t)PICK(random, 1, 1, 2, 3, 7, 8, 9, 100, 5000),
		.bits_per_key = PICK(random, 0, 3.999, 4, 4, 4.001, 5, 5.999, 6, 20, 999, 1000,
				     1000.1),
		.vulnerable_cost = PICK(random, 0, 1e-300, 0.5, 1, 1.001),
		.modulator_share = PICK(random, 0, 1e-300, 0.001, 0.5, 0.9, 0.9001),
		.adaptive = test_random(random) % 2,
		.cell_bits = (unsigned)(test_random(random) % 6),
		.counter_bits = (unsigned)PICK(random, 0, 1, 2, 12, 13),
		.index_bits = (unsigned)(test_random(random) % 5),
		.hashes = (unsigned)PICK(random, 0, 0, 1, 2, 32, 33),
	};

	switch (test_random(random) % 4) {
	case 0:
		options.vulnerable = UINT64_MAX;
		break;
	case 1:
		options.vulnerable = 1 + test_random(random) % (1000 * options.capacity);
		break;
	case 2:
		options.vulnerable = 1;
		break;
	default:
		break;
	}
	return options;
}

static void check_block(const struct wn_sscf *sscf, bool keep_negatives,
			const struct wn_secret *secret, const struct wn_hash *keys, size_t count)
{
	struct wn_filter *filter;
	struct wn_filter_info info;
	const char *reason = "";
	void *block;
	size_t size;

	expect(wn_sscf_freeze(sscf, secret, keep_negatives, &block, &size) == 0);
	if (wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, &reason))
		ck_abort_msg("refused: %s", reason);
	for (size_t i = 0; i < count; i++)
		expect(wn_filter_query_hash(filter, keys[i], NULL));
	wn_filter_describe(filter, &info);
	expect(is_rate(info.expected_fpr) && is_rate(wn_filter_fact_of(&info, "load")));
	wn_filter_close(filter);
	free(block);
}

static void use_filter(struct wn_sscf *sscf, const struct wn_secret *secret, uint64_t *random)
{
	struct wn_hash keys[40];
	struct wn_sscf_info info;

	wn_sscf_describe(sscf, &info);
	expect(info.cells >= 1 && info.hashes >= 1 && info.bytes >= 1);
	expect(is_rate(info.expected_rate) && is_rate(info.expected_vulnerable_rate));
	check_block(sscf, true, secret, keys, 0);
	for (size_t i = 0; i < 40; i++) {
		int err = wn_sscf_add_vulnerable(sscf, test_random_hash(random));

		expect(err == 0 || err == WN_ERR_FULL);
		wn_sscf_insert(sscf, keys[i] = test_random_hash(random));
	}
	for (size_t i = 0; i < 40; i++)
		expect(wn_sscf_query(sscf, keys[i]));
	check_block(sscf, false, secret, keys, 40);
	check_block(sscf, true, secret, keys, 40);
}

START_TEST(whatever_is_created_can_be_used_frozen_and_opened)
{
	uint64_t random = test_seed("options", 20);
	struct wn_secret *secret = test_secret(1);
	unsigned rounds = test_is_quick() ? 3000 : 30000, created = 0;

	for (unsigned round = 0; round < rounds; round++) {
		struct wn_sscf_options options = draw_options(&random);
		struct wn_sscf *sscf;
		int err = wn_sscf_create(&options, &sscf);

		expect(err == 0 || (err == WN_ERR_INVALID && !sscf));
		if (err)
			continue;
		created++;
		use_filter(sscf, secret, &random);
		wn_sscf_destroy(sscf);
	}
	ck_assert_uint_gt(created, rounds / 20);
	wn_secret_destroy(secret);
}
END_TEST

/* The same for blocks made from all keys at once. */
static void build_block(const struct wn_config *config, const struct wn_secret *secret,
			uint64_t *random)
{
	size_t count = (size_t)PICK(random, 0, 1, 2, 3, 8, 40, 40, 1000);
	size_t negatives = (size_t)PICK(random, 0, 1, 10, 2000);
	struct wn_filter_info info;
	struct wn_builder *builder;
	struct wn_filter *filter;
	struct wn_hash *keys = malloc((count + 1) * sizeof(*keys));
	const char *reason = "";
	void *block;
	size_t size;

	expect(wn_builder_create(config, secret, &builder) == 0);
	for (size_t i = 0; i < count; i++)
		expect(wn_builder_add_hash(builder, keys[i] = test_random_hash(random)) == 0);
	for (size_t i = 0; i < negatives; i++)
		expect(wn_builder_add_costly(builder, test_random_hash(random),
					     PICK(random, 1e-300, 1, 1e15)) == 0);
	expect(wn_builder_finish(builder, &block, &size) == 0);
	if (wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, &reason))
		ck_abort_msg("refused: %s", reason);
	for (size_t i = 0; i < count; i++)
		expect(wn_filter_query_hash(filter, keys[i], NULL));
	wn_filter_describe(filter, &info);
	expect(wn_filter_fact_of(&info, "slots") >= 1);
	expect(is_rate(info.expected_fpr) && is_rate(wn_filter_fact_of(&info, "load")));
	wn_filter_close(filter);
	wn_builder_destroy(builder);
	free(block);
	free(keys);
}

START_TEST(whatever_an_options_string_allows_can_be_built_and_opened)
{
	uint64_t random = test_seed("options string", 21);
	struct wn_secret *secret = test_secret(1);

	for (unsigned round = 0; round < (test_is_quick() ? 300 : 3000); round++) {
		double bits = PICK(&random, 1, 1.001, 2, 12, 64, 0.999, 64.1);
		double vulnerable = PICK(&random, 0, 0.000001, 8, 1000, 1000.1);
		double listed = PICK(&random, 0.01, 0.5, 1, 0, 1.001);
		unsigned hashes = (unsigned)PICK(&random, 1, 2, 32, 0, 33);
		bool in_range = bits >= 1 && bits <= 64 && vulnerable <= 1000 && listed >= 0.01 &&
				listed <= 1 && hashes >= 1 && hashes <= 32;
		struct wn_config *config;
		char text[200];

		snprintf(text, sizeof(text),
			 "sscf:bits_per_key=%g;vulnerable_share=%f;listed_share=%g;hashes=%u",
			 bits, vulnerable, listed, hashes);
		expect(wn_config_parse(text, NULL, 0, &config) == (in_range ? 0 : WN_ERR_OPTION));
		if (in_range)
			build_block(config, secret, &random);
		wn_config_destroy(config);
	}
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(without_memory_there_is_no_filter_and_no_block)
{
	struct wn_sscf_options options = {.capacity = 1000};
	struct wn_secret *secret = test_secret(1);
	struct wn_sscf *sscf;
	uint64_t refused = 0;
	void *block;
	size_t size;
	int err;

	do {
		wn__alloc_fail_at(++refused);
		err = wn_sscf_create(&options, &sscf);
		wn__alloc_fail_at(0);
		ck_assert(err == 0 || (err == ENOMEM && !sscf));
	} while (err);
	ck_assert_uint_gt(refused, 3);
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn_sscf_freeze(sscf, secret, true, &block, &size), ENOMEM);
	wn__alloc_fail_at(0);
	ck_assert_ptr_null(block);
	wn_sscf_destroy(sscf);
	wn_secret_destroy(secret);
}
END_TEST

/* ---- frozen ------------------------------------------------------------- */

/* With negative bits: the same answer to every hash. Without: "maybe" to all that the
 * filter says so to, and otherwise only where but one cell is empty. */
START_TEST(a_frozen_filter_answers_as_the_living_one)
{
	uint64_t random = test_seed("a_frozen_filter_answers_as_the_living_one", 5);
	struct wn_sscf_options options = {.capacity = 30000, .vulnerable = 2000,
					  .index_bits = 1 + (unsigned)_i};
	struct sample sample = fill(&options, &random);
	struct wn_secret *secret = test_secret(1);
	struct wn_filter *with, *without;
	void *blocks[2];
	size_t sizes[2], more = 0, maybes = 0;

	ck_assert_int_eq(wn_sscf_freeze(sample.sscf, secret, true, &blocks[0], &sizes[0]), 0);
	ck_assert_int_eq(wn_sscf_freeze(sample.sscf, secret, false, &blocks[1], &sizes[1]), 0);
	ck_assert_uint_lt(sizes[0], (size_t)(30000 * 20 / 8 / 2));
	ck_assert_uint_lt(sizes[1], (size_t)(30000 * 20 / 8 / 3));
	ck_assert_int_eq(wn_filter_open(blocks[0], sizes[0], WN_CHECK_ALL, secret, &with, NULL), 0);
	ck_assert_int_eq(wn_filter_open(blocks[1], sizes[1], WN_CHECK_ALL, secret, &without, NULL),
			 0);
	for (size_t i = 0; i < 200000; i++) {
		struct wn_hash hash = i < 30000 ? sample.keys[i] :
				      i < 32000 ? sample.vulnerable[i - 30000] :
						  test_random_hash(&random);
		bool maybe = wn_sscf_query(sample.sscf, hash);
		bool frozen = wn_filter_query_hash(without, hash, NULL);

		expect(wn_filter_query_hash(with, hash, NULL) == maybe);
		expect(!maybe || frozen);
		maybes += maybe;
		more += frozen && !maybe;
	}
	fprintf(stderr, "%zu maybes, %zu more without negative bits\n", maybes, more);
	ck_assert_uint_gt(more, 0);
	ck_assert_uint_lt(more, maybes);
	wn_filter_close(with);
	wn_filter_close(without);
	free(blocks[0]);
	free(blocks[1]);
	wn_secret_destroy(secret);
	destroy(&sample);
}
END_TEST

/* Left over from keys that are gone, full cells stay; a block of them is good. */
START_TEST(a_filter_with_stuck_cells_and_no_keys_can_be_frozen)
{
	struct wn_sscf_options options = {.capacity = 100, .cell_bits = 2};
	struct wn_secret *secret = test_secret(1);
	struct wn_hash hash = {1, 2};
	struct wn_filter *filter;
	struct wn_sscf *sscf;
	void *block;
	size_t size;

	ck_assert_int_eq(wn_sscf_create(&options, &sscf), 0);
	for (unsigned i = 0; i < 4; i++)
		wn_sscf_insert(sscf, hash);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(wn_sscf_delete(sscf, hash), 0);
	ck_assert_int_eq(wn_sscf_delete(sscf, hash), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn_sscf_freeze(sscf, secret, true, &block, &size), 0);
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, NULL), 0);
	ck_assert(wn_filter_query_hash(filter, hash, NULL));
	wn_filter_close(filter);
	free(block);
	wn_sscf_destroy(sscf);
	wn_secret_destroy(secret);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sscf");
	TCase *tests = tcase_create("sscf");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, sscf_never_forgets_a_key);
	tcase_add_test(tests, deleting_every_key_leaves_nothing);
	tcase_add_test(tests, vulnerable_keys_are_spared);
	tcase_add_test(tests, late_vulnerable_keys_are_spared_in_time);
	tcase_add_test(tests, options_out_of_range_are_refused);
	tcase_add_test(tests, whatever_is_created_can_be_used_frozen_and_opened);
	tcase_add_test(tests, whatever_an_options_string_allows_can_be_built_and_opened);
	tcase_add_test(tests, without_memory_there_is_no_filter_and_no_block);
	tcase_add_loop_test(tests, a_frozen_filter_answers_as_the_living_one, 0, 3);
	tcase_add_test(tests, a_filter_with_stuck_cells_and_no_keys_can_be_frozen);
	return test_run(suite);
}
