/* test_sscf_blocks.c - frozen seesaw counting filters: built, opened, asked. */
#include <errno.h>
#include <math.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "kinds/block_format.h"
#include "kinds/sscf/sscf_frozen.h"
#include "reversemap/map.h"
#include "tests/support/sscf_block.h"

static void expect_all_keys(const struct sample *sample, const struct wn_filter *filter)
{
	for (size_t i = 0; i < sample->key_count; i++)
		expect(wn_filter_query_hash(filter, sample->keys[i], NULL));
}

static double cost_of_mistakes(const struct sample *sample)
{
	double cost = 0;

	for (size_t i = 0; i < sample->negative_count; i++)
		if (wn_filter_query_hash(sample->filter, sample->negatives[i], NULL))
			cost += sample->costs[i];
	return cost;
}

static size_t false_positives(const struct wn_filter *filter, size_t queries, uint64_t *random)
{
	size_t count = 0;

	for (size_t i = 0; i < queries; i++)
		count += wn_filter_query_hash(filter, test_random_hash(random), NULL);
	return count;
}

/* ---- answers ------------------------------------------------------------ */

START_TEST(sscf_block_never_forgets_a_key)
{
	static const char *const options[] = {
		"sscf", "sscf:bits_per_key=1", "sscf:bits_per_key=4", "sscf:bits_per_key=8",
		"sscf:bits_per_key=16.5", "sscf:bits_per_key=28", "sscf:bits_per_key=64",
		"sscf:hashes=1", "sscf:hashes=32", "sscf:bits_per_key=3;hashes=9",
	};
	uint64_t random = test_seed("sscf_block_never_forgets_a_key", 1);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		for (size_t keys = 0; keys < 20000; keys = keys * 3 + 1) {
			struct sample sample = make(options[i], keys, keys * (i % 4),
						    &random);

			expect_all_keys(&sample, sample.filter);
			destroy(&sample);
		}
	}
}
END_TEST

START_TEST(listed_negatives_are_answered_no)
{
	uint64_t random = test_seed("listed_negatives_are_answered_no", 2);
	size_t keys = test_is_quick() ? 20000 : 200000;
	struct sample sample = make("sscf", keys, keys / 16, &random);
	struct wn_filter_info info;

	/* About 0.4% of them would be false positives. One in a thousand of these may be
	 * beyond help. */
	ck_assert(cost_of_mistakes(&sample) < 0.001);
	expect_all_keys(&sample, sample.filter);
	wn_filter_describe(sample.filter, &info);
	ck_assert_double_gt(wn_filter_fact_of(&info, "extensions"), 0);
	destroy(&sample);
}
END_TEST

START_TEST(unlisted_negatives_hardly_suffer)
{
	uint64_t random = test_seed("unlisted_negatives_hardly_suffer", 3);
	size_t queries = test_is_quick() ? 400000 : 4000000;
	struct sample plain = make("sscf", 50000, 0, &random);
	struct sample listed = make("sscf", 50000, 3000, &random);
	size_t before = false_positives(plain.filter, queries, &random);
	size_t after = false_positives(listed.filter, queries, &random);

	ck_assert_msg((double)after < 1.3 * (double)before, "%zu before, %zu after", before, after);
	destroy(&plain);
	destroy(&listed);
}
END_TEST

START_TEST(false_positive_rate_is_as_told)
{
	static const double bits[] = {4, 6, 8, 10, 12};
	uint64_t random = test_seed("false_positive_rate_is_as_told", 4);
	size_t queries = test_is_quick() ? 400000 : 4000000;

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		char options[64];
		struct sample sample;
		struct wn_filter_info info;
		double rate;

		snprintf(options, sizeof(options), "sscf:bits_per_key=%g", bits[i]);
		sample = make(options, 60000, 4000, &random);
		wn_filter_describe(sample.filter, &info);
		rate = (double)false_positives(sample.filter, queries, &random) / (double)queries;
		fprintf(stderr, "%g bits: %.5f, expected %.5f; %.2f bits a key\n", bits[i], rate,
			info.expected_fpr, info.bits_per_key);
		ck_assert(rate > 0.85 * info.expected_fpr && rate < 1.15 * info.expected_fpr);
		ck_assert(info.bits_per_key < bits[i] * 1.01 + 0.05);
		destroy(&sample);
	}
}
END_TEST

/* With room for few, the costliest are served. */
START_TEST(the_costliest_are_served_first)
{
	uint64_t random = test_seed("the_costliest_are_served_first", 5);
	struct sample sample =
		make("sscf:bits_per_key=5;vulnerable_share=0.02", 20000, 20000, &random);
	size_t cheap = 0;

	for (size_t i = 0; i < sample.negative_count; i++) {
		bool wrong = wn_filter_query_hash(sample.filter, sample.negatives[i], NULL);

		if (i < 100)
			ck_assert(!wrong);
		else
			cheap += wrong;
	}
	ck_assert_uint_gt(cheap, 100);
	destroy(&sample);
}
END_TEST

/* Named often beats named once: costs add up, one after the other or not. */
START_TEST(costs_of_a_negative_add_up)
{
	uint64_t random = test_seed("costs_of_a_negative_add_up", 6);
	struct sample sample = make("sscf", 20000, 0, &random);
	struct wn_hash cheap[400], dear[200];
	struct wn_builder *builder;
	size_t wrong = 0;

	wn_filter_close(sample.filter);
	free(sample.block);
	builder = fill_builder(&sample, "sscf:bits_per_key=5;vulnerable_share=0.01");
	for (size_t i = 0; i < 200; i++)
		dear[i] = test_random_hash(&random);
	for (size_t i = 0; i < 400; i++)
		cheap[i] = test_random_hash(&random);
	for (size_t round = 0; round < 6; round++) {
		for (size_t i = 0; i < 200; i++)
			for (size_t twice = 0; twice < 2; twice++)
				ck_assert_int_eq(wn_builder_add_negative(builder, dear[i]), 0);
		for (size_t i = 0; i < 400 && round == 3; i++)
			ck_assert_int_eq(wn_builder_add_costly(builder, cheap[i], 8), 0);
	}
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	wn_builder_destroy(builder);
	open_block(&sample);
	for (size_t i = 0; i < 200; i++)
		ck_assert(!wn_filter_query_hash(sample.filter, dear[i], NULL));
	for (size_t i = 0; i < 400; i++)
		wrong += wn_filter_query_hash(sample.filter, cheap[i], NULL);
	ck_assert_uint_gt(wrong, 0);
	destroy(&sample);
}
END_TEST

START_TEST(costs_out_of_range_are_refused)
{
	struct wn_secret *secret = test_secret(1);
	struct wn_builder *builder;
	struct wn_hash hash = {1, 2};

	ck_assert_int_eq(wn_builder_create(NULL, secret, &builder), 0);
	ck_assert_int_eq(wn_builder_add_costly(builder, hash, 0), WN_ERR_INVALID);
	ck_assert_int_eq(wn_builder_add_costly(builder, hash, -1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_builder_add_costly(builder, hash, 2e15), WN_ERR_INVALID);
	ck_assert_int_eq(wn_builder_add_costly(builder, hash, (double)NAN),
			 WN_ERR_INVALID);
	ck_assert_int_eq(wn_builder_add_costly(builder, hash, 1e-300), 0);
	ck_assert_int_eq(wn_builder_add_costly(builder, hash, 1e15), 0);
	wn_builder_destroy(builder);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(keys_win_over_negatives)
{
	uint64_t random = test_seed("keys_win_over_negatives", 7);
	struct sample sample = make("sscf", 5000, 0, &random);
	struct wn_builder *builder;

	wn_filter_close(sample.filter);
	free(sample.block);
	builder = fill_builder(&sample, "sscf");
	for (size_t i = 0; i < sample.key_count; i++)
		expect(wn_builder_add_costly(builder, sample.keys[i], 1e9) == 0);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	wn_builder_destroy(builder);
	open_block(&sample);
	expect_all_keys(&sample, sample.filter);
	destroy(&sample);
}
END_TEST

START_TEST(a_batch_answers_as_queries_do)
{
	static const char *const options[] = {"sscf:bits_per_key=2", "sscf", "sscf:bits_per_key=20",
					      "sscf:hashes=17"};
	uint64_t random = test_seed("a_batch_answers_as_queries_do", 8);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct sample sample = make(options[i], 3000, 1000, &random);
		struct wn_hash hashes[1001];
		bool answers[1001];

		for (size_t at = 0; at < 1001; at++)
			hashes[at] = at % 2 ? sample.keys[at] : test_random_hash(&random);
		for (size_t count = 0; count <= 1001; count = count * 2 + 1) {
			wn_filter_query_batch(sample.filter, hashes, count, answers);
			for (size_t at = 0; at < count; at++) {
				struct wn_match match = {.known = true};
				bool maybe = wn_filter_query_hash(sample.filter, hashes[at],
								  &match);

				expect(answers[at] == maybe);
				expect(!maybe || !match.known);
			}
		}
		destroy(&sample);
	}
}
END_TEST

/* The code for a given number of functions says what the general code says. */
START_TEST(all_query_functions_agree)
{
	uint64_t random = test_seed("all_query_functions_agree", 9);

	for (unsigned hashes = 1; hashes <= 32; hashes++) {
		char options[64];
		struct sample sample;

		snprintf(options, sizeof(options), "sscf:bits_per_key=6;hashes=%u", hashes);
		sample = make(options, 2000, 500, &random);
		for (size_t i = 0; i < 4000; i++) {
			struct wn_hash hash = test_random_hash(&random);

			expect(wn_filter_query_hash(sample.filter, hash, NULL) ==
			       wn__sscf_query(sample.filter->state, hash, NULL));
		}
		destroy(&sample);
	}
}
END_TEST

START_TEST(empty_filter_denies_everything)
{
	uint64_t random = 10;

	for (size_t negatives = 0; negatives < 20; negatives += 10) {
		struct sample sample = make("sscf", 0, negatives, &random);

		ck_assert_uint_eq(false_positives(sample.filter, 1000, &random), 0);
		destroy(&sample);
	}
}
END_TEST

/* Whoever knows the secret can put all keys into one block, or on one cell. */
START_TEST(crafted_hashes_cost_accuracy_only)
{
	uint64_t random = test_seed("crafted_hashes_cost_accuracy_only", 11);

	for (unsigned way = 0; way < 3; way++) {
		struct sample sample = make("sscf", 20000, 20000, &random);
		struct wn_builder *builder;

		wn_filter_close(sample.filter);
		free(sample.block);
		for (size_t i = 0; i < 20000; i++) {
			if (way == 0) {
				sample.keys[i].hi >>= 20;
				sample.negatives[i].hi >>= 20;
			} else if (way == 1) {
				sample.keys[i].lo = 1;
				sample.negatives[i].lo = i % 2;
			} else {
				sample.keys[i] = (struct wn_hash){i, 7};
				sample.negatives[i] = (struct wn_hash){i, 8};
			}
		}
		builder = fill_builder(&sample, "sscf");
		ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
		wn_builder_destroy(builder);
		open_block(&sample);
		expect_all_keys(&sample, sample.filter);
		destroy(&sample);
	}
}
END_TEST

START_TEST(every_refused_allocation_leaves_the_builder)
{
	uint64_t random = 12;
	struct sample sample = make("sscf:bits_per_key=5", 2000, 500, &random);
	struct wn_builder *builder = fill_builder(&sample, "sscf:bits_per_key=5");
	uint64_t refused = 0;
	void *block;
	size_t size;
	int err;

	do {
		wn__alloc_fail_at(++refused);
		err = wn_builder_finish(builder, &block, &size);
		wn__alloc_fail_at(0);
		ck_assert(err == 0 || (err == ENOMEM && !block));
	} while (err);
	ck_assert_uint_gt(refused, 10);
	ck_assert_uint_eq(size, sample.size);
	/* The same filter, but for its random id. */
	ck_assert_mem_eq((char *)block + WN__BLOCK_HEADER_SIZE,
			 (char *)sample.block + WN__BLOCK_HEADER_SIZE,
			 size - WN__BLOCK_HEADER_SIZE);
	free(block);
	wn_builder_destroy(builder);
	destroy(&sample);
}
END_TEST

/* ---- key lists ---------------------------------------------------------- */

struct seen {
	const struct wn_hash *sorted;
	size_t count;
};

static int compare_uppers(void *arg, const struct wn__keylist_info *info, const uint64_t *uppers,
			  size_t count)
{
	struct seen *seen = arg;

	(void)info;
	for (size_t i = 0; i < count; i++)
		expect(uppers[i] == seen->sorted[seen->count++].hi);
	return 0;
}

static void check_key_list(const struct sample *sample, const struct wn_builder *builder)
{
	struct wn_hash *sorted = malloc(sample->key_count * sizeof(*sorted));
	struct seen seen = {.sorted = sorted};
	struct wn_block_info info;
	struct wn__map *map;
	struct wn__keylist list;
	const uint64_t *uppers;
	size_t count;

	uppers = wn_builder_uppers(builder, &count);
	ck_assert_int_eq(wn_block_read(sample->block, sample->size, WN_CHECK_ALL, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &list), 0);
	ck_assert_uint_eq(list.key_count, count);
	ck_assert_uint_eq(count, sample->key_count);
	ck_assert(list.plain);
	ck_assert_int_eq(wn__map_memory_create(&map), 0);
	ck_assert_int_eq(wn__map_put(map, &list, uppers), 0);
	memcpy(sorted, sample->keys, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), test_compare_hashes);
	ck_assert_int_eq(wn__map_stream(map, list.id, compare_uppers, &seen), 0);
	ck_assert_uint_eq(seen.count, count);
	wn__map_destroy(map);
	free(sorted);
}

/* What an engine does: keep the key list, learn of mistakes, build again from the keys. */
START_TEST(a_filter_built_again_denies_its_mistakes)
{
	uint64_t random = test_seed("a_filter_built_again_denies_its_mistakes", 13);
	struct sample sample = make("sscf:bits_per_key=8", 30000, 0, &random);
	struct wn_builder *builder = fill_builder(&sample, "sscf:bits_per_key=8");
	struct wn_hash mistakes[200];

	wn_filter_close(sample.filter);
	free(sample.block);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	open_block(&sample);
	check_key_list(&sample, builder);
	for (size_t i = 0; i < 200; i++) {
		do
			mistakes[i] = test_random_hash(&random);
		while (!wn_filter_query_hash(sample.filter, mistakes[i], NULL));
	}
	wn_filter_close(sample.filter);
	free(sample.block);
	wn_builder_reset(builder);
	for (size_t i = 0; i < sample.key_count; i++)
		ck_assert_int_eq(wn_builder_add_hash(builder, sample.keys[i]), 0);
	for (size_t i = 0; i < 200; i++)
		ck_assert_int_eq(wn_builder_add_costly(builder, mistakes[i], 5), 0);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	open_block(&sample);
	expect_all_keys(&sample, sample.filter);
	for (size_t i = 0; i < 200; i++)
		ck_assert(!wn_filter_query_hash(sample.filter, mistakes[i], NULL));
	wn_builder_destroy(builder);
	destroy(&sample);
}
END_TEST

/* The lower half decides, too: keys of one upper half are keys of their own, each in the key
 * list, and a negative of a key's upper half is denied. */
START_TEST(sscf_knows_whole_hashes)
{
	uint64_t random = test_seed("sscf_knows_whole_hashes", 14);
	struct sample sample = make("sscf:bits_per_key=12", 0, 0, &random);
	struct wn_builder *builder = fill_builder(&sample, "sscf:bits_per_key=12");
	struct wn_hash hashes[3 * 5000];
	size_t count, maybe = 0;
	const uint64_t *uppers;

	wn_filter_close(sample.filter);
	free(sample.block);
	for (size_t i = 0; i < 5000; i++) {
		struct wn_hash hash = test_random_hash(&random);

		for (size_t j = 0; j < 3; j++)
			hashes[3 * i + j] = (struct wn_hash){hash.hi, test_random(&random)};
		ck_assert_int_eq(wn_builder_add_hash(builder, hashes[3 * i]), 0);
		ck_assert_int_eq(wn_builder_add_hash(builder, hashes[3 * i + 1]), 0);
	}
	ck_assert_uint_eq(wn_builder_count(builder), 10000);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	uppers = wn_builder_uppers(builder, &count);
	ck_assert_uint_eq(count, 10000);
	for (size_t i = 0; i < count; i += 2)
		ck_assert_uint_eq(uppers[i], uppers[i + 1]);
	open_block(&sample);
	for (size_t i = 0; i < 5000; i++) {
		ck_assert(wn_filter_query_hash(sample.filter, hashes[3 * i], NULL));
		ck_assert(wn_filter_query_hash(sample.filter, hashes[3 * i + 1], NULL));
		maybe += wn_filter_query_hash(sample.filter, hashes[3 * i + 2], NULL);
	}
	ck_assert_uint_lt(maybe, 500);
	wn_builder_destroy(builder);
	destroy(&sample);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sscf_blocks");
	TCase *all = tcase_create("all");

	suite_add_tcase(suite, all);
	tcase_add_test(all, sscf_block_never_forgets_a_key);
	tcase_add_test(all, listed_negatives_are_answered_no);
	tcase_add_test(all, unlisted_negatives_hardly_suffer);
	tcase_add_test(all, false_positive_rate_is_as_told);
	tcase_add_test(all, the_costliest_are_served_first);
	tcase_add_test(all, costs_of_a_negative_add_up);
	tcase_add_test(all, costs_out_of_range_are_refused);
	tcase_add_test(all, keys_win_over_negatives);
	tcase_add_test(all, a_batch_answers_as_queries_do);
	tcase_add_test(all, all_query_functions_agree);
	tcase_add_test(all, empty_filter_denies_everything);
	tcase_add_test(all, crafted_hashes_cost_accuracy_only);
	tcase_add_test(all, every_refused_allocation_leaves_the_builder);
	tcase_add_test(all, a_filter_built_again_denies_its_mistakes);
	tcase_add_test(all, sscf_knows_whole_hashes);
	return test_run(suite);
}
