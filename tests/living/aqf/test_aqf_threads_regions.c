/* test_aqf_threads_regions.c - threads that meet at the borders of regions and at the limit. */
#include "tests/support/aqf_workers.h"

/* All keys around the borders between regions: writers need two and three at a time, and
 * clusters reach from one into the next. */
START_TEST(threads_that_meet_at_region_borders_do_not_lose_anything)
{
	unsigned threads = 2 + (unsigned)_i % 3;
	uint64_t random = test_seed("borders", 340 + (uint64_t)_i);
	struct wn_aqf *aqf = new_filter(17000, 14);
	uint64_t border = _i < 3 ? 30 : 300;
	size_t count = 3000;
	struct own_key *keys = make_keys(aqf, count, border, &random);
	uint64_t done[5];

	run_writers(aqf, keys, count, threads, 150000, random, done);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* 7,000 keys that fill the slots from 3,900 on, over the borders at 4,096 and 8,192. So
 * many on the first quotient that the next block's offset is full already. */
static void make_cluster(struct worker *worker)
{
	for (size_t i = 0; i < worker->key_count; i++) {
		worker->keys[i].hash = craft_key(worker->aqf, i < 600 ? 3900 : 3900 + i % 200,
						 2 * i, &worker->random);
		insert_own(worker, &worker->keys[i]);
	}
	ck_assert_ptr_null(worker->wrong);
	ck_assert_uint_eq(worker->aqf->offsets[3900 / 64 + 1], WN__OFFSET_MANY);
	ck_assert_uint_eq(worker->aqf->offsets[8192 / 64], WN__OFFSET_MANY);
}

/* A change at the cluster's start moves slots two regions on, where others are at work on
 * both sides of its end. Readers are at it too. */
START_TEST(threads_that_share_a_cluster_over_regions_do_not_lose_anything)
{
	static const uint64_t first[] = {3900, 8300, 11200};
	uint64_t random = test_seed("cluster", 350 + (uint64_t)_i);
	struct wn_aqf *aqf = new_filter(17000, 14);
	size_t fixed = 7000, count = fixed + 900;
	struct own_key *keys = calloc(count, sizeof(*keys));
	bool stop = false;
	struct worker reader = {
		.aqf = aqf,
		.keys = keys,
		.key_count = fixed,
		.random = random,
		.stop = &stop,
	};
	uint64_t done[5];

	make_cluster(&reader);
	for (size_t i = fixed; i < count; i++)
		keys[i].hash = craft_key(aqf, first[i % 3] + i % 400, 2 * i + 1,
					 &random);
	start(&reader, read_all);
	run_writers(aqf, keys + fixed, count - fixed, 2 + (unsigned)_i, 9000, random, done);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&reader);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Where a cluster ends is counted from the block it starts in. A writer far inside the
 * cluster must not count there while another changes that block, though the two move
 * no slot in common. */
START_TEST(a_cluster_is_measured_from_a_block_that_stands_still)
{
	uint64_t random = test_seed("measure", 360);
	struct wn_aqf *aqf = new_filter(17000, 14);
	size_t fixed = 7000, share = 20, count = fixed + 2 * share;
	struct own_key *keys = calloc(count, sizeof(*keys));
	bool stop = false;
	struct worker before = {.aqf = aqf, .random = random, .key_count = fixed, .keys = keys};
	struct worker inside = {.aqf = aqf, .random = random + 1, .key_count = share};

	make_cluster(&before);
	before.keys = keys + fixed;
	before.key_count = share;
	before.stop = &stop;
	inside.keys = before.keys + share;
	inside.operations = scaled(10000);
	for (size_t i = 0; i < share; i++) {
		before.keys[i].hash = craft_key(aqf, 3841 + i, 1, &random);
		inside.keys[i].hash = craft_key(aqf, 8300 + 100 * i, 1, &random);
	}
	start(&before, change_all);
	start(&inside, change_all);
	pthread_join(inside.thread, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&before);
	ck_assert_msg(!inside.wrong, "%s", inside.wrong);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Each thread has its share of the capacity and is never beyond it, learning all the
 * while: none is ever refused, though the others come and go at the limit too. */
static void *replace_keys(void *arg)
{
	struct worker *worker = arg;
	size_t held = worker->key_count / 2;

	for (uint64_t i = 0; i < worker->operations && !worker->wrong; i++) {
		size_t out = (size_t)(test_random(&worker->random) % held);
		size_t in = held + (size_t)(test_random(&worker->random) % held);
		struct own_key swap;

		delete_own(worker, &worker->keys[out]);
		swap = worker->keys[out];
		worker->keys[out] = worker->keys[in];
		worker->keys[in] = swap;
		if (i % 4 == 0)
			adapt_own(worker, &worker->keys[(out + 1) % held]);
		if (wn_aqf_insert(worker->aqf, worker->keys[out].hash, NULL))
			blame(worker, "a key was refused below capacity");
		worker->keys[out].count = 1;
		worker->keys[out].has_fixed = false;
	}
	return NULL;
}

START_TEST(threads_that_replace_keys_at_capacity_are_never_refused)
{
	unsigned threads = 2 + (unsigned)_i;
	uint64_t random = test_seed("replace", 370 + (uint64_t)_i);
	size_t share = 12000 / threads;
	struct wn_aqf *aqf = new_filter(share * threads, 14);
	struct own_key *keys = make_keys(aqf, 2 * share * threads, 0, &random);
	struct worker workers[MAX_THREADS];

	aqf->insert_limit = share * threads;
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys + i * 2 * share,
			.key_count = 2 * share,
			.operations = scaled(200000) / threads,
			.random = random + i,
		};
		for (size_t at = 0; at < share; at++)
			insert_own(&workers[i], &workers[i].keys[at]);
		ck_assert_uint_eq(workers[i].done[REFUSALS], 0);
	}
	ck_assert_int_eq(wn_aqf_insert(aqf, keys[0].hash, NULL), WN_ERR_FULL);
	for (unsigned i = 0; i < threads; i++)
		start(&workers[i], replace_keys);
	for (unsigned i = 0; i < threads; i++)
		join(&workers[i]);
	ck_assert_int_eq(wn_aqf_insert(aqf, keys[0].hash, NULL), WN_ERR_FULL);
	check_after(aqf, keys, 2 * share * threads);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_threads_regions");
	TCase *tests = tcase_create("threads");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, threads_that_meet_at_region_borders_do_not_lose_anything, 0, 6);
	tcase_add_loop_test(tests, threads_that_share_a_cluster_over_regions_do_not_lose_anything,
			    0, 3);
	tcase_add_test(tests, a_cluster_is_measured_from_a_block_that_stands_still);
	tcase_add_loop_test(tests, threads_that_replace_keys_at_capacity_are_never_refused, 0, 3);
	return test_run(suite);
}
