/* test_negatives.c - the table of keys that filters were wrong about. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "tests/support/common.h"
#include "learn/negatives/negatives.h"
#include "base/secret.h"

static const unsigned char seed[WN_SEED_SIZE] = "the seed of these tests";
static const unsigned char other_seed[WN_SEED_SIZE] = "another seed";

static struct wn__negatives *new_table(uint32_t capacity, uint64_t half_life)
{
	struct wn__negatives_options options = {.capacity = capacity, .half_life = half_life};
	struct wn__negatives *table;

	ck_assert_int_eq(wn__negatives_create(&options, seed, &table), 0);
	return table;
}

static int add(struct wn__negatives *table, struct wn_hash hash, double cost)
{
	return wn__negatives_add(table, wn__seed_id(seed), hash, cost);
}

static struct wn__negatives_stats stats_of(struct wn__negatives *table)
{
	struct wn__negatives_stats stats;

	wn__negatives_describe(table, &stats);
	return stats;
}

static struct wn_hash number(uint64_t n)
{
	uint64_t random = n;

	return test_random_hash(&random);
}

/* The costliest, up to `wanted` of them; free() them. */
static int top_of(struct wn__negatives *table, size_t wanted, struct wn__negative **topp,
		  size_t *countp)
{
	const struct wn__negatives_view *view = wn__negatives_view(table);

	*topp = NULL;
	*countp = 0;
	if (!view)
		return ENOMEM;
	*countp = view->count < wanted ? view->count : wanted;
	*topp = malloc((*countp + 1) * sizeof(**topp));
	if (*countp)
		memcpy(*topp, view->negatives, *countp * sizeof(**topp));
	wn__negatives_unview(view);
	return 0;
}

/* The hashes that cost at least `least`, in ascending order; free() them. */
static int snapshot(struct wn__negatives *table, double least, struct wn_hash **hashesp,
		    size_t *countp)
{
	const struct wn__negatives_view *view = wn__negatives_view(table);

	*hashesp = NULL;
	*countp = 0;
	if (!view)
		return ENOMEM;
	*hashesp = malloc((view->count + 1) * sizeof(**hashesp));
	while (*countp < view->count && view->negatives[*countp].cost >= least) {
		(*hashesp)[*countp] = view->negatives[*countp].hash;
		++*countp;
	}
	wn__negatives_unview(view);
	qsort(*hashesp, *countp, sizeof(**hashesp), test_compare_hashes);
	return 0;
}

/* The hash's cost, or 0. */
static double cost_of(struct wn__negatives *table, struct wn_hash hash)
{
	struct wn__negative *top;
	double cost = 0;
	size_t count;

	expect(top_of(table, SIZE_MAX, &top, &count) == 0);
	for (size_t i = 0; i < count; i++)
		if (wn_hash_compare(top[i].hash, hash) == 0)
			cost = top[i].cost;
	free(top);
	return cost;
}

START_TEST(every_hash_is_there_once_and_in_order)
{
	struct wn__negatives *table = new_table(10000, 0);
	struct wn_hash *hashes;
	size_t count;

	ck_assert_int_eq(snapshot(table, 0, &hashes, &count), 0);
	ck_assert_uint_eq(count, 0);
	free(hashes);
	for (int round = 0; round < 3; round++)
		for (uint64_t n = 0; n < 5000; n++)
			expect(add(table, number(n), 1) == 0);
	ck_assert_int_eq(snapshot(table, 0, &hashes, &count), 0);
	ck_assert_uint_eq(count, 5000);
	for (size_t i = 1; i < count; i++)
		expect(wn_hash_compare(hashes[i - 1], hashes[i]) < 0);
	free(hashes);
	ck_assert_uint_eq(stats_of(table).count, 5000);
	ck_assert_uint_eq(stats_of(table).reports, 15000);
	ck_assert_uint_eq(stats_of(table).dropped, 0);
	wn__negatives_destroy(table);
	wn__negatives_destroy(NULL);
}
END_TEST

START_TEST(costs_add_up_and_fade)
{
	struct wn__negatives *table = new_table(1000, 100);
	struct wn_hash *hashes;
	size_t count;

	ck_assert_int_eq(add(table, number(1), 8), 0);
	ck_assert_double_eq_tol(cost_of(table, number(1)), 8, 0.1);
	for (uint64_t n = 0; n < 99; n++)
		ck_assert_int_eq(add(table, number(2), 1), 0);
	ck_assert_double_eq_tol(cost_of(table, number(1)), 4, 0.001);
	for (uint64_t n = 0; n < 100; n++)
		ck_assert_int_eq(add(table, number(2), 1), 0);
	ck_assert_double_eq_tol(cost_of(table, number(1)), 2, 0.001);
	/* 1 + 2^-0.01 + 2^-0.02 + ... over 199 reports */
	ck_assert_double_eq_tol(cost_of(table, number(2)), 107.9, 1);
	ck_assert_int_eq(snapshot(table, 3, &hashes, &count), 0);
	ck_assert_uint_eq(count, 1);
	ck_assert(wn_hash_compare(hashes[0], number(2)) == 0);
	free(hashes);
	wn__negatives_destroy(table);
}
END_TEST

/* Half lives by the thousand: the scores are divided now and then, and go on right. */
START_TEST(costs_fade_for_ever)
{
	struct wn__negatives *table = new_table(1000, 10);

	for (uint64_t n = 0; n < 50000; n++)
		expect(add(table, number(n % 3), 1) == 0);
	/* Each is reported every third time: 1 / (1 - 2^-0.3) when just reported. */
	ck_assert_double_eq_tol(cost_of(table, number(49999 % 3)), 5.33 * 0.933, 0.05);
	ck_assert_double_eq_tol(cost_of(table, number(49998 % 3)), 5.33 * 0.871, 0.05);
	wn__negatives_destroy(table);
}
END_TEST

START_TEST(the_top_comes_costliest_first)
{
	struct wn__negatives *table = new_table(1000, UINT64_C(1) << 40);
	struct wn__negative *top;
	size_t count;

	for (uint64_t n = 1; n <= 500; n++)
		expect(add(table, number(n), (double)n) == 0);
	ck_assert_int_eq(top_of(table, 10, &top, &count), 0);
	ck_assert_uint_eq(count, 10);
	for (uint64_t i = 0; i < 10; i++)
		ck_assert(wn_hash_compare(top[i].hash, number(500 - i)) == 0);
	free(top);
	ck_assert_int_eq(top_of(table, 0, &top, &count), 0);
	ck_assert_uint_eq(count, 0);
	free(top);
	wn__negatives_destroy(table);
}
END_TEST

START_TEST(past_the_capacity_the_cheapest_go)
{
	struct wn__negatives *table = new_table(1000, UINT64_C(1) << 40);
	struct wn__negative *top;
	size_t count;

	for (uint64_t n = 1; n <= 1001; n++)
		expect(add(table, number(n), (double)(n * 7919 % 1009 + 1)) == 0);
	ck_assert_uint_eq(stats_of(table).count, 751);
	ck_assert_uint_eq(stats_of(table).dropped, 250);
	ck_assert_int_eq(top_of(table, 1000, &top, &count), 0);
	/* The 750 costliest of the first 1,000, and the one that came last. */
	for (uint64_t n = 1; n <= 1000; n++) {
		double cost = (double)(n * 7919 % 1009 + 1);
		unsigned dearer = 0, found = 0;

		for (uint64_t other = 1; other <= 1000; other++)
			dearer += (double)(other * 7919 % 1009 + 1) > cost;
		for (size_t i = 0; i < count; i++)
			found += wn_hash_compare(top[i].hash, number(n)) == 0;
		expect(found == (dearer < 750));
	}
	free(top);
	wn__negatives_destroy(table);
}
END_TEST

START_TEST(equal_costs_make_room_too)
{
	struct wn__negatives *table = new_table(4 + (uint32_t)_i * 97, UINT64_C(1) << 60);
	uint64_t capacity = 4 + (uint64_t)_i * 97;

	for (uint64_t n = 0; n < 20000; n++) {
		expect(add(table, number(n), 1) == 0);
		expect(n % 512 || cost_of(table, number(n)) > 0);
		expect(stats_of(table).count <= capacity);
	}
	ck_assert_uint_ge(stats_of(table).count, capacity / 2);
	ck_assert_uint_eq(stats_of(table).count + stats_of(table).dropped, 20000);
	wn__negatives_destroy(table);
}
END_TEST

/* A few that hurt all the time, among ever new ones. */
START_TEST(what_keeps_hurting_stays)
{
	uint64_t random = test_seed("hot", 1);
	struct wn__negatives *table = new_table(512, 0);

	for (uint64_t n = 0; n < 200000; n++)
		expect(add(table, number(n % 10 == 0 ? test_random(&random) % 64 : 1000 + n), 1) ==
		       0);
	for (uint64_t n = 0; n < 64; n++)
		ck_assert_double_gt(cost_of(table, number(n)), 1);
	wn__negatives_destroy(table);
}
END_TEST

START_TEST(another_secret_is_refused)
{
	struct wn__negatives *table = new_table(100, 0), *other;
	void *bytes;
	size_t size;

	ck_assert_int_eq(wn__negatives_add(table, wn__seed_id(other_seed), number(1), 1),
			 WN_ERR_MISMATCH);
	ck_assert_int_eq(wn__negatives_create(NULL, other_seed, &other), 0);
	ck_assert_int_eq(wn__negatives_add(other, wn__seed_id(other_seed), number(1), 1), 0);
	ck_assert_int_eq(wn__negatives_save(other, &bytes, &size, NULL), 0);
	ck_assert_int_eq(wn__negatives_load(table, bytes, size), WN_ERR_MISMATCH);
	ck_assert_uint_eq(stats_of(table).count, 0);
	ck_assert_uint_eq(stats_of(table).generation, 0);
	free(bytes);
	wn__negatives_destroy(other);
	wn__negatives_destroy(table);
}
END_TEST

START_TEST(senseless_parameters_are_refused)
{
	struct wn__negatives_options small = {.capacity = 3}, large = {.capacity = UINT32_MAX};
	struct wn__negatives *table;

	ck_assert_int_eq(wn__negatives_create(&small, seed, &table), WN_ERR_INVALID);
	ck_assert_ptr_null(table);
	ck_assert_int_eq(wn__negatives_create(&large, seed, &table), WN_ERR_INVALID);
	ck_assert_int_eq(wn__negatives_create(NULL, NULL, &table), WN_ERR_INVALID);
	table = new_table(0, 0);
	ck_assert_int_eq(add(table, number(1), 0), WN_ERR_INVALID);
	ck_assert_int_eq(add(table, number(1), -1), WN_ERR_INVALID);
	ck_assert_int_eq(add(table, number(1), 1e16), WN_ERR_INVALID);
	ck_assert_int_eq(add(table, number(1), (double)NAN), WN_ERR_INVALID);
	ck_assert_uint_eq(stats_of(table).count, 0);
	wn__negatives_destroy(table);
}
END_TEST

/* ---- carried over ------------------------------------------------------- */

/* The table's purpose: a new filter that says "no" to all of them. */
START_TEST(a_filter_built_against_the_snapshot_denies_it)
{
	struct wn__negatives *table = new_table(0, 0);
	struct wn_secret *secret = test_secret(1);
	struct wn_builder *builder;
	struct wn_filter *filter;
	struct wn_hash *hashes;
	size_t count, size;
	void *block;

	for (uint64_t n = 0; n < 3000; n++)
		expect(add(table, number(n), 1) == 0);
	ck_assert_int_eq(wn_builder_create(NULL, secret, &builder), 0);
	for (uint64_t n = 10000; n < 20000; n++)
		expect(wn_builder_add_hash(builder, number(n)) == 0);
	ck_assert_int_eq(snapshot(table, 0, &hashes, &count), 0);
	for (size_t i = 0; i < count; i++)
		expect(wn_builder_add_negative(builder, hashes[i]) == 0);
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, NULL), 0);
	for (uint64_t n = 0; n < 3000; n++)
		expect(!wn_filter_query_hash(filter, number(n), NULL));
	for (uint64_t n = 10000; n < 20000; n++)
		expect(wn_filter_query_hash(filter, number(n), NULL));
	wn_filter_close(filter);
	free(block);
	free(hashes);
	wn_builder_destroy(builder);
	wn_secret_destroy(secret);
	wn__negatives_destroy(table);
}
END_TEST

/* ---- bytes -------------------------------------------------------------- */

START_TEST(what_was_saved_comes_back_the_same)
{
	struct wn__negatives *table = new_table(2000, 500), *other = new_table(2000, 500);
	struct wn__negatives *small = new_table(100, 500);
	size_t size, other_size;
	void *bytes, *other_bytes;
	uint64_t generation;

	for (uint64_t n = 0; n < 6000; n++)
		expect(add(table, number(n * n % 1777), 1 + (double)(n % 5)) == 0);
	ck_assert_int_eq(wn__negatives_save(table, &bytes, &size, &generation), 0);
	ck_assert_uint_eq(generation, stats_of(table).generation);
	ck_assert_int_eq(wn__negatives_load(other, bytes, size), 0);
	ck_assert_int_eq(wn__negatives_save(other, &other_bytes, &other_size, NULL), 0);
	ck_assert_uint_eq(size, other_size);
	ck_assert(memcmp(bytes, other_bytes, size) == 0);
	free(other_bytes);
	/* Costs count from when they are loaded; a second time they add up. */
	ck_assert_int_eq(wn__negatives_load(other, bytes, size), 0);
	ck_assert_double_eq_tol(cost_of(other, number(1)), 2 * cost_of(table, number(1)), 1e-9);
	/* Too many for the table: the costliest stay. */
	ck_assert_int_eq(wn__negatives_load(small, bytes, size), 0);
	ck_assert_uint_le(stats_of(small).count, 100);
	ck_assert_uint_gt(stats_of(small).count, 50);
	free(bytes);
	wn__negatives_destroy(table);
	wn__negatives_destroy(other);
	wn__negatives_destroy(small);
}
END_TEST

/* Two hashes, in their order, at costs of 2.5 and 1. */
START_TEST(the_format_is_what_it_was)
{
	static const unsigned char golden[] = {
		0x57, 0x4e, 0x4e, 0x45, 0x47, 0x41, 0x54, 0x56, 0x01, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0xbe, 0x53, 0xb2, 0x61, 0x95, 0x33, 0xaa, 0xd8,
		0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x40, 0x88, 0x77, 0x66, 0x55,
		0x44, 0x33, 0x22, 0x11, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf0, 0x3f, 0x79, 0x12, 0x41, 0xaf,
		0x42, 0xf7, 0x64, 0x18,
	};
	struct wn__negatives *table = new_table(1000, UINT64_C(1) << 60), *other;
	void *bytes;
	size_t size;

	ck_assert_int_eq(add(table, (struct wn_hash){0x1122334455667788, 9}, 1), 0);
	ck_assert_int_eq(add(table, (struct wn_hash){7, 0x99aabbccddeeff00}, 2.5), 0);
	ck_assert_int_eq(wn__negatives_save(table, &bytes, &size, NULL), 0);
	ck_assert_uint_eq(size, sizeof(golden));
	ck_assert_mem_eq(bytes, golden, sizeof(golden));
	other = new_table(1000, 0);
	ck_assert_int_eq(wn__negatives_load(other, golden, sizeof(golden)), 0);
	ck_assert_double_eq_tol(cost_of(other, (struct wn_hash){7, 0x99aabbccddeeff00}), 2.5,
				1e-6);
	free(bytes);
	wn__negatives_destroy(table);
	wn__negatives_destroy(other);
}
END_TEST

START_TEST(damaged_bytes_are_refused_whole)
{
	struct wn__negatives *table = new_table(100, 0), *other = new_table(100, 0);
	unsigned char *bytes;
	size_t size;

	for (uint64_t n = 0; n < 50; n++)
		ck_assert_int_eq(add(table, number(n), 1), 0);
	ck_assert_int_eq(wn__negatives_save(table, (void **)&bytes, &size, NULL), 0);
	for (size_t at = 0; at < size; at++) {
		int err;

		bytes[at] ^= (unsigned char)(1 << at % 8);
		err = wn__negatives_load(other, bytes, size);
		expect(err == WN_ERR_CORRUPT || err == WN_ERR_VERSION);
		expect(stats_of(other).count == 0);
		bytes[at] ^= (unsigned char)(1 << at % 8);
	}
	for (size_t length = 0; length < size; length++) {
		unsigned char *copy = malloc(length ? length : 1);

		memcpy(copy, bytes, length);
		expect(wn__negatives_load(other, copy, length) == WN_ERR_CORRUPT);
		expect(stats_of(other).count == 0);
		free(copy);
	}
	ck_assert_int_eq(wn__negatives_load(other, bytes, size), 0);
	ck_assert_uint_eq(stats_of(other).count, 50);
	free(bytes);
	wn__negatives_destroy(table);
	wn__negatives_destroy(other);
}
END_TEST

/* ---- memory and threads ------------------------------------------------- */

static bool try_everything(uint64_t nth)
{
	struct wn__negatives_options options = {.capacity = 1000};
	struct wn__negatives *table = NULL, *other = NULL;
	struct wn__negative *top = NULL;
	struct wn_hash *hashes = NULL;
	void *bytes = NULL;
	size_t size, count;
	unsigned failed = 0;
	bool done;

	wn__alloc_fail_at(nth);
	failed += wn__negatives_create(&options, seed, &table) != 0;
	for (uint64_t n = 0; table && n < 2000; n++) {
		int err = add(table, number(n), 1);

		expect(err == 0 || err == ENOMEM);
		failed += err != 0;
	}
	failed += table && snapshot(table, 0, &hashes, &count) != 0;
	failed += table && top_of(table, 5, &top, &count) != 0;
	failed += table && wn__negatives_save(table, &bytes, &size, NULL) != 0;
	failed += bytes && wn__negatives_create(&options, seed, &other) != 0;
	failed += other && wn__negatives_load(other, bytes, size) != 0;
	done = wn__alloc_calls() < nth;
	wn__alloc_fail_at(0);
	expect(failed == (done ? 0u : 1u));
	free(hashes);
	free(top);
	free(bytes);
	wn__negatives_destroy(table);
	wn__negatives_destroy(other);
	return done;
}

START_TEST(every_allocation_may_fail)
{
	uint64_t nth = 1;

	while (!try_everything(nth))
		nth++;
	ck_assert_uint_gt(nth, 10);
}
END_TEST

static void *report(void *arg)
{
	struct wn__negatives *table = arg;

	for (uint64_t n = 0; n < 20000; n++) {
		struct wn_hash *hashes;
		size_t count;

		if (add(table, number(n % 3000), 1))
			return table;
		if (n % 1000)
			continue;
		if (snapshot(table, 0, &hashes, &count))
			return table;
		free(hashes);
	}
	return NULL;
}

START_TEST(threads_share_a_table)
{
	struct wn__negatives *table = new_table(2000, 0);
	pthread_t threads[3];
	void *failed;

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, report, table), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(stats_of(table).reports, 60000);
	ck_assert_uint_le(stats_of(table).count, 2000);
	wn__negatives_destroy(table);
}
END_TEST

START_TEST(a_view_is_shared_until_something_changes)
{
	struct wn__negatives *table = new_table(100000, 0);
	const struct wn__negatives_view *one, *two, *three;

	one = wn__negatives_view(table);
	ck_assert_uint_eq(one->count, 0);
	for (uint64_t i = 1; i <= 100; i++)
		expect(add(table, number(i), (double)i) == 0);
	two = wn__negatives_view(table);
	three = wn__negatives_view(table);
	ck_assert_ptr_eq(two, three);
	ck_assert_uint_eq(one->count, 0);
	ck_assert_uint_eq(two->count, 100);
	for (size_t i = 1; i < two->count; i++)
		ck_assert(two->negatives[i - 1].cost >= two->negatives[i].cost);
	expect(add(table, number(1000), 1e6) == 0);
	wn__negatives_unview(three);
	three = wn__negatives_view(table);
	ck_assert_ptr_ne(two, three);
	ck_assert_uint_eq(three->count, 101);
	wn__negatives_destroy(table);
	/* Who holds one may go on reading. */
	ck_assert_double_gt(three->negatives[0].cost, two->negatives[0].cost);
	wn__negatives_unview(one);
	wn__negatives_unview(two);
	wn__negatives_unview(three);
	wn__negatives_unview(NULL);
}
END_TEST

START_TEST(changes_add_up_to_the_table)
{
	struct wn__negatives *table = new_table(100000, 0), *disk = new_table(100000, 0);
	struct wn__negatives_stats stats;
	unsigned char *bytes;
	size_t size, used;

	expect(add(table, number(5), 1) == 0);
	wn__negatives_track(table);
	for (unsigned round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 50; i++)
			expect(add(table, number(i % 10), 1) == 0);
		ck_assert_int_eq(wn__negatives_take_changes(table, (void **)&bytes, &size), 0);
		ck_assert_int_eq(wn__negatives_load_first(disk, bytes, size, &used), 0);
		ck_assert_uint_eq(used, size);
		free(bytes);
	}
	wn__negatives_describe(disk, &stats);
	ck_assert_uint_eq(stats.count, 10);
	ck_assert_int_eq(wn__negatives_take_changes(table, (void **)&bytes, &size), 0);
	ck_assert_ptr_null(bytes);
	for (uint64_t i = 0; i <= WN__NEGATIVES_MAX_CHANGES; i++)
		expect(add(table, number(i), 1) == 0);
	ck_assert_int_eq(wn__negatives_take_changes(table, (void **)&bytes, &size), WN_ERR_FULL);
	ck_assert_ptr_null(bytes);
	wn__negatives_destroy(table);
	wn__negatives_destroy(disk);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("negatives");
	TCase *tests = tcase_create("negatives");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, every_hash_is_there_once_and_in_order);
	tcase_add_test(tests, costs_add_up_and_fade);
	tcase_add_test(tests, costs_fade_for_ever);
	tcase_add_test(tests, the_top_comes_costliest_first);
	tcase_add_test(tests, past_the_capacity_the_cheapest_go);
	tcase_add_loop_test(tests, equal_costs_make_room_too, 0, 4);
	tcase_add_test(tests, what_keeps_hurting_stays);
	tcase_add_test(tests, another_secret_is_refused);
	tcase_add_test(tests, senseless_parameters_are_refused);
	tcase_add_test(tests, a_filter_built_against_the_snapshot_denies_it);
	tcase_add_test(tests, what_was_saved_comes_back_the_same);
	tcase_add_test(tests, the_format_is_what_it_was);
	tcase_add_test(tests, damaged_bytes_are_refused_whole);
	tcase_add_test(tests, every_allocation_may_fail);
	tcase_add_test(tests, threads_share_a_table);
	tcase_add_test(tests, a_view_is_shared_until_something_changes);
	tcase_add_test(tests, changes_add_up_to_the_table);
	return test_run(suite);
}
