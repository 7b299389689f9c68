/* Cluster lengths of filters in blocks, against a table of slots filled one by one. */
#include <winnow/error.h>
#include <winnow/filter.h>

#include "kinds/clusters.h"
#include "tests/support/common.h"

#define MAX_CLUSTERS 100000

struct lengths {
	uint64_t at[MAX_CLUSTERS];
	size_t count;
};

static struct lengths seen, wanted;

static void note(void *context, uint64_t length)
{
	struct lengths *to = context;

	expect(to->count < MAX_CLUSTERS);
	to->at[to->count++] = length;
}

/* A key goes to its own slot or the first free one behind; a cluster starts where one is
 * in its own. The hashes are in order, and without extensions each takes one slot. */
static void expect_lengths(const uint64_t *uppers, size_t count, uint64_t slots)
{
	uint64_t end = 0, start = 0;

	wanted.count = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t quotient = (uint64_t)((unsigned __int128)uppers[i] * slots >> 64);

		if (quotient >= end) {
			if (end > start)
				note(&wanted, end - start);
			start = end = quotient;
		}
		end++;
	}
	if (end > start)
		note(&wanted, end - start);
}

/* In lines no run pushes another: clusters are runs. */
static void expect_runs(const uint64_t *uppers, size_t count, uint64_t quotients)
{
	uint64_t run = 0, last = UINT64_MAX;

	wanted.count = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t quotient = (uint64_t)((unsigned __int128)uppers[i] * quotients >> 64);

		if (quotient != last && run) {
			note(&wanted, run);
			run = 0;
		}
		last = quotient;
		run++;
	}
	if (run)
		note(&wanted, run);
}

typedef void expect_fn(const uint64_t *uppers, size_t count, uint64_t slots);

static void check_filter(size_t keys, const char *options, expect_fn *expect_clusters,
			 uint64_t *seed)
{
	struct wn_secret *secret = test_secret(1);
	struct wn_filter_info info;
	const uint64_t *uppers;
	struct wn_builder *builder;
	struct wn_config *config;
	struct wn_filter *filter;
	void *block = NULL;
	size_t size, count;
	uint64_t total = 0;

	ck_assert_int_eq(wn_config_parse(options, NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	for (size_t i = 0; i < keys; i++)
		expect(wn_builder_add_hash(builder, test_random_hash(seed)) == 0);
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	uppers = wn_builder_uppers(builder, &count);
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, NULL), 0);
	wn_filter_describe(filter, &info);
	seen.count = 0;
	ck_assert_int_eq(wn__filter_clusters(filter, note, &seen), 0);
	for (size_t i = 0; i < seen.count; i++)
		total += seen.at[i];
	ck_assert_double_eq((double)total, wn_filter_fact_of(&info, "used_slots"));
	expect_clusters(uppers, count, (uint64_t)wn_filter_fact_of(&info, "slots"));
	ck_assert_uint_eq(seen.count, wanted.count);
	for (size_t i = 0; i < seen.count; i++)
		expect(seen.at[i] == wanted.at[i]);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
	wn_config_destroy(config);
	wn_secret_destroy(secret);
}

START_TEST(clusters_are_those_of_the_slots)
{
	uint64_t seed = test_seed("clusters", 3);

	check_filter(0, "aqf:load=0.95", expect_lengths, &seed);
	check_filter(1, "aqf:load=0.95", expect_lengths, &seed);
	for (size_t keys = 10; keys <= (test_is_quick() ? 10000u : 100000u); keys *= 10) {
		check_filter(keys, "aqf:load=0.5", expect_lengths, &seed);
		check_filter(keys, "aqf:load=0.95", expect_lengths, &seed);
		check_filter(keys, "aqf:load=0.2;remainder_bits=2", expect_lengths, &seed);
	}
}
END_TEST

START_TEST(clusters_in_lines_are_runs)
{
	uint64_t seed = test_seed("runs", 4);

	for (size_t keys = 0; keys <= (test_is_quick() ? 10000u : 100000u); keys = 10 * keys + 1) {
		check_filter(keys, "aqf", expect_runs, &seed);
		check_filter(keys, "aqf:bits_per_key=10", expect_runs, &seed);
		check_filter(keys, "aqf:bits_per_key=17", expect_runs, &seed);
	}
}
END_TEST

/* Extensions take slots, and so are in the clusters. */
START_TEST(extensions_lengthen_clusters)
{
	struct wn_secret *secret = test_secret(1);
	struct wn_filter_info info;
	struct wn_builder *builder;
	struct wn_filter *filter;
	uint64_t total = 0, state = test_seed("extensions", 8);
	struct wn_config *config;
	void *block = NULL;
	size_t size;

	ck_assert_int_eq(wn_config_parse("aqf:remainder_bits=9", NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	for (int i = 0; i < 500; i++) {
		struct wn_hash hash = test_random_hash(&state);

		expect(wn_builder_add_hash(builder, hash) == 0);
		hash.lo ^= 1;
		expect(wn_builder_add_negative(builder, hash) == 0);
	}
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, NULL), 0);
	wn_filter_describe(filter, &info);
	ck_assert_double_gt(wn_filter_fact_of(&info, "extensions"), 500);
	seen.count = 0;
	ck_assert_int_eq(wn__filter_clusters(filter, note, &seen), 0);
	for (size_t i = 0; i < seen.count; i++)
		total += seen.at[i];
	ck_assert_double_eq((double)total, wn_filter_fact_of(&info, "used_slots"));
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
	wn_config_destroy(config);
	wn_secret_destroy(secret);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cluster_lengths");
	TCase *lengths = tcase_create("lengths");

	tcase_add_test(lengths, clusters_are_those_of_the_slots);
	tcase_add_test(lengths, clusters_in_lines_are_runs);
	tcase_add_test(lengths, extensions_lengthen_clusters);
	suite_add_tcase(suite, lengths);
	return test_run(suite);
}
