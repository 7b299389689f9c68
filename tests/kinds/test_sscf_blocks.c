/* test_sscf_blocks.c - frozen seesaw counting filters: built, opened, asked, damaged. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "kinds/block_format.h"
#include "tests/support/common.h"
#include "kinds/kind.h"
#include "reversemap/map.h"
#include "kinds/sscf/sscf_frozen.h"
#include "learn/trace.h"

struct sample {
	struct wn_secret *secret;
	struct wn_hash *keys;
	struct wn_hash *negatives;
	double *costs;
	size_t key_count, negative_count;
	void *block;
	size_t size;
	struct wn_filter *filter;
};

static struct wn_builder *fill_builder(const struct sample *sample, const char *options)
{
	struct wn_builder *builder;
	struct wn_config *config;
	char message[200];

	if (wn_config_parse(options, message, sizeof(message), &config))
		ck_abort_msg("%s", message);
	ck_assert_int_eq(wn_builder_create(config, sample->secret, &builder), 0);
	wn_config_destroy(config);
	for (size_t i = 0; i < sample->key_count; i++)
		expect(wn_builder_add_hash(builder, sample->keys[i]) == 0);
	for (size_t i = 0; i < sample->negative_count; i++)
		expect(wn_builder_add_costly(builder, sample->negatives[i], sample->costs[i]) == 0);
	return builder;
}

static void open_block(struct sample *sample)
{
	const char *reason;

	if (wn_filter_open(sample->block, sample->size, WN_CHECK_ALL, sample->secret,
			   &sample->filter, &reason))
		ck_abort_msg("%s", reason);
}

/* Random keys and negatives; negative i costs 1 / (i + 1). */
static struct sample make(const char *options, size_t keys, size_t negatives, bool tiny,
			  uint64_t *random)
{
	struct sample sample = {.secret = test_secret(5), .key_count = keys,
				.negative_count = negatives};
	struct wn_builder *builder;

	sample.keys = malloc((keys + 1) * sizeof(*sample.keys));
	sample.negatives = malloc((negatives + 1) * sizeof(*sample.negatives));
	sample.costs = malloc((negatives + 1) * sizeof(*sample.costs));
	for (size_t i = 0; i < keys; i++)
		sample.keys[i] = test_random_hash(random);
	for (size_t i = 0; i < negatives; i++) {
		sample.negatives[i] = test_random_hash(random);
		sample.costs[i] = 1 / (double)(i + 1);
	}
	builder = fill_builder(&sample, options);
	wn_builder_set_tiny(builder, tiny);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	wn_builder_destroy(builder);
	open_block(&sample);
	return sample;
}

static void destroy(struct sample *sample)
{
	wn_filter_close(sample->filter);
	free(sample->block);
	free(sample->keys);
	free(sample->negatives);
	free(sample->costs);
	wn_secret_destroy(sample->secret);
}

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
			struct sample sample = make(options[i], keys, keys * (i % 4), keys % 2,
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
	struct sample sample = make("sscf", keys, keys / 16, false, &random);
	struct wn_filter_info info;

	/* About 0.4% of them would be false positives. One in a thousand of these may be
	 * beyond help. */
	ck_assert(cost_of_mistakes(&sample) < 0.001);
	expect_all_keys(&sample, sample.filter);
	wn_filter_describe(sample.filter, &info);
	ck_assert_uint_gt(info.extensions, 0);
	destroy(&sample);
}
END_TEST

START_TEST(unlisted_negatives_hardly_suffer)
{
	uint64_t random = test_seed("unlisted_negatives_hardly_suffer", 3);
	size_t queries = test_is_quick() ? 400000 : 4000000;
	struct sample plain = make("sscf", 50000, 0, false, &random);
	struct sample listed = make("sscf", 50000, 3000, false, &random);
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
		sample = make(options, 60000, 4000, false, &random);
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
	struct sample sample = make("sscf:bits_per_key=5;vulnerable_share=0.02", 20000, 20000,
				    false, &random);
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
	struct sample sample = make("sscf", 20000, 0, false, &random);
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
	struct sample sample = make("sscf", 5000, 0, false, &random);
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
		struct sample sample = make(options[i], 3000, 1000, i == 0, &random);
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
		sample = make(options, 2000, 500, false, &random);
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
		struct sample sample = make("sscf", 0, negatives, negatives > 0, &random);

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
		struct sample sample = make("sscf", 20000, 20000, false, &random);
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
	struct sample sample = make("sscf:bits_per_key=5", 2000, 500, false, &random);
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

/* ---- runs --------------------------------------------------------------- */

static int add_to_builder(void *arg, const struct wn__keylist_info *info,
			  const struct wn_hash *hashes, size_t count)
{
	expect(info->hash_bytes == 16);
	for (size_t i = 0; i < count; i++)
		expect(wn_builder_add_hash(arg, hashes[i]) == 0);
	return 0;
}

/* What an engine does: keep the run, learn of mistakes, build again. */
START_TEST(a_filter_built_again_from_its_run_denies_its_mistakes)
{
	uint64_t random = test_seed("a_filter_built_again_from_its_run_denies_its_mistakes", 13);
	struct sample sample = make("sscf:bits_per_key=8", 30000, 0, false, &random);
	struct wn_builder *builder = fill_builder(&sample, "sscf:bits_per_key=8");
	struct wn_hash mistakes[200];
	struct wn_block_info info;
	const struct wn_hash *hashes;
	struct wn__map *runs;
	struct wn__keylist run;
	size_t count;

	wn_filter_close(sample.filter);
	free(sample.block);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	open_block(&sample);
	hashes = wn_builder_hashes(builder, &count);
	ck_assert_int_eq(wn_block_read(sample.block, sample.size, WN_CHECK_ALL, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &run), 0);
	ck_assert_uint_eq(run.key_count, count);
	ck_assert(run.plain);
	ck_assert_int_eq(wn__map_memory_create(&runs), 0);
	ck_assert_int_eq(wn__map_put(runs, &run, hashes, 0), 0);

	for (size_t i = 0; i < 200; i++) {
		do
			mistakes[i] = test_random_hash(&random);
		while (!wn_filter_query_hash(sample.filter, mistakes[i], NULL));
	}
	wn_filter_close(sample.filter);
	free(sample.block);
	wn_builder_reset(builder);
	ck_assert_int_eq(wn__map_stream(runs, run.id, add_to_builder, builder), 0);
	for (size_t i = 0; i < 200; i++)
		ck_assert_int_eq(wn_builder_add_costly(builder, mistakes[i], 5), 0);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	open_block(&sample);
	expect_all_keys(&sample, sample.filter);
	for (size_t i = 0; i < 200; i++)
		ck_assert(!wn_filter_query_hash(sample.filter, mistakes[i], NULL));
	wn_builder_destroy(builder);
	wn__map_destroy(runs);
	destroy(&sample);
}
END_TEST

START_TEST(the_trace_names_filters_without_miniruns)
{
	uint64_t random = 14;
	struct sample sample = make("sscf", 100, 0, false, &random);
	struct wn_block_info info;
	const struct wn__trace_entry *entries;
	struct wn_match match;
	struct wn__keylist run;
	size_t count;

	ck_assert_int_eq(wn_block_read(sample.block, sample.size, WN_CHECK_ALL, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &run), 0);
	ck_assert_int_eq(wn__trace_begin(), 0);
	ck_assert(wn_filter_query_hash(sample.filter, sample.keys[0], &match));
	wn__trace_note(&run, sample.keys[0], &match);
	entries = wn__trace_entries(&count, NULL);
	ck_assert_uint_eq(count, 1);
	ck_assert(!entries[0].match.known);
	ck_assert_mem_eq(entries[0].filter.id, info.id, WN_BLOCK_ID_SIZE);
	wn__trace_end();
	destroy(&sample);
}
END_TEST

/* ---- damage ------------------------------------------------------------- */

/* Ask a block in memory of exactly its size: the sanitizers see what is read outside. */
static void ask_everything(const struct sample *sample, const void *bytes, size_t size,
			   enum wn_check check, int *errp)
{
	unsigned char *copy = malloc(size ? size : 1);
	struct wn_filter *filter;
	struct wn_filter_info info;

	memcpy(copy, bytes, size);
	*errp = wn_filter_open(copy, size, check, sample->secret, &filter, NULL);
	expect((*errp == 0) == (filter != NULL));
	for (size_t i = 0; i < sample->key_count; i++) {
		bool maybe = wn_filter_query_hash(filter, sample->keys[i], NULL);

		expect(filter || maybe);
	}
	if (filter)
		wn_filter_describe(filter, &info);
	wn_filter_close(filter);
	free(copy);
}

START_TEST(block_cut_anywhere_says_maybe)
{
	uint64_t random = 15;

	for (unsigned tiny = 0; tiny < 2; tiny++) {
		struct sample sample = make("sscf:bits_per_key=6", 100, 100, tiny, &random);

		for (size_t size = 0; size < sample.size; size++) {
			int err;

			ask_everything(&sample, sample.block, size, WN_CHECK_HEADER, &err);
			ck_assert_int_ne(err, 0);
			ask_everything(&sample, (char *)sample.block + size, sample.size - size,
				       WN_CHECK_HEADER, &err);
			ck_assert(err != 0 || size == 0);
		}
		destroy(&sample);
	}
}
END_TEST

START_TEST(every_flipped_bit_is_found)
{
	uint64_t random = 16;

	for (unsigned tiny = 0; tiny < 2; tiny++) {
		struct sample sample = make("sscf:bits_per_key=6", 60, 60, tiny, &random);
		unsigned char *bytes = sample.block;

		for (size_t bit = 0; bit < sample.size * 8; bit++) {
			int err;

			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
			ck_assert_msg(err != 0, "bit %zu", bit);
			ask_everything(&sample, bytes, sample.size, WN_CHECK_HEADER, &err);
			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		destroy(&sample);
	}
}
END_TEST

/* Parameters from somebody who knows how to make checksums. */
START_TEST(hostile_parameters_read_nothing_outside)
{
	uint64_t random = test_seed("hostile_parameters_read_nothing_outside", 17);
	struct sample sample = make("sscf:bits_per_key=6", 300, 300, false, &random);
	unsigned char *bytes = sample.block;
	unsigned char params[WN_BLOCK_PARAMS_SIZE];
	unsigned opened = 0;

	memcpy(params, bytes + WN__BLOCK_PARAMS_AT, sizeof(params));
	for (unsigned round = 0; round < (test_is_quick() ? 20000 : 200000); round++) {
		unsigned char *at = bytes + WN__BLOCK_PARAMS_AT;
		int err;

		memcpy(at, params, sizeof(params));
		for (unsigned i = 0; i <= round % 3; i++)
			at[test_random(&random) % 21] = (unsigned char)test_random(&random);
		if (round % 7 == 0) {
			/* The same number of cells, divided otherwise. */
			put_le32(at + 4, 1u << round % 10);
			put_le32(at + 8, (uint32_t)(wn__sscf_cells_size(&(struct wn__sscf_params){
						    .blocks = get_le32(params + 8),
						    .block_cells = get_le32(params + 4)}) * 8 >>
						    round % 10));
		}
		wn__block_set_header_sum(bytes);
		ask_everything(&sample, bytes, sample.size, WN_CHECK_HEADER, &err);
		opened += err == 0;
		ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
	}
	ck_assert_uint_gt(opened, 0);
	destroy(&sample);
}
END_TEST

START_TEST(parts_that_do_not_fit_are_refused)
{
	uint64_t random = 18;
	struct sample sample = make("sscf:bits_per_key=6", 300, 300, false, &random);
	unsigned char *bytes = sample.block;
	size_t length = sample.size - WN__BLOCK_MIN_SIZE;
	int err;

	/* A modulator cell more than there should be. */
	memset(bytes + WN__BLOCK_HEADER_SIZE + length - 1, 0x55, 1);
	wn__block_set_payload_sum(bytes, length);
	ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
	ck_assert_int_eq(err, WN_ERR_CORRUPT);
	/* Keys, and not a cell that is set. */
	memset(bytes + WN__BLOCK_HEADER_SIZE, 0, length);
	wn__block_set_payload_sum(bytes, length);
	ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
	ck_assert_int_eq(err, WN_ERR_CORRUPT);
	/* A flag from the future. */
	bytes[WN__BLOCK_PARAMS_AT + 2] = 2;
	wn__block_set_header_sum(bytes);
	ask_everything(&sample, bytes, sample.size, WN_CHECK_HEADER, &err);
	ck_assert_int_eq(err, WN_ERR_VERSION);
	destroy(&sample);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		sscf_block_never_forgets_a_key,
		listed_negatives_are_answered_no,
		unlisted_negatives_hardly_suffer,
		false_positive_rate_is_as_told,
		the_costliest_are_served_first,
		costs_of_a_negative_add_up,
		costs_out_of_range_are_refused,
		keys_win_over_negatives,
		a_batch_answers_as_queries_do,
		all_query_functions_agree,
		empty_filter_denies_everything,
		crafted_hashes_cost_accuracy_only,
		every_refused_allocation_leaves_the_builder,
		a_filter_built_again_from_its_run_denies_its_mistakes,
		the_trace_names_filters_without_miniruns,
		block_cut_anywhere_says_maybe,
		every_flipped_bit_is_found,
		hostile_parameters_read_nothing_outside,
		parts_that_do_not_fit_are_refused,
	};
	Suite *suite = suite_create("sscf_blocks");
	TCase *all = tcase_create("all");

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(all, tests[i]);
	suite_add_tcase(suite, all);
	return test_run(suite);
}
