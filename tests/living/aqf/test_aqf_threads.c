/* test_aqf_threads.c - a living filter shared by threads.
 *
 * Every key has a minirun to itself, so its rank is 0 whatever other threads do, and
 * each thread knows what must be true of its own keys; test_aqf_ranks.c has the keys
 * that share miniruns. Threads count what goes wrong; the main thread fails the test.
 * Built with -fsanitize=thread this is also where races would show. */
#include "tests/support/aqf_workers.h"

START_TEST(readers_find_every_key_while_a_writer_changes_others)
{
	uint64_t random = test_seed("readers", 300 + (uint64_t)_i);
	bool border = _i == 1;
	struct wn_aqf *aqf = new_filter(border ? 9000 : 6000, 14);
	size_t stored = 1500, others = border ? 3000 : 5000;
	struct own_key *keys = make_keys(aqf, stored + others, border ? 1000 : 0, &random);
	struct worker writer = {
		.aqf = aqf,
		.keys = keys + stored,
		.key_count = others,
		.operations = scaled(border ? 40000 : 400000),
		.random = random,
	};
	struct worker readers[3];
	bool stop = false;

	/* One in eight of the stored keys has a false positive fixed before anybody looks. */
	for (size_t i = 0; i < stored; i++) {
		insert_own(&writer, &keys[i]);
		if (i % 8 == 0)
			adapt_own(&writer, &keys[i]);
	}
	/* Start near the limit, where shifts are long. */
	for (size_t i = stored; i < stored + others; i++)
		insert_own(&writer, &keys[i]);
	for (int i = 0; i < 3; i++) {
		readers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys,
			.key_count = stored,
			.random = random + 100 + (uint64_t)i,
			.stop = &stop,
		};
		start(&readers[i], read_all);
	}
	start(&writer, change_all);
	pthread_join(writer.thread, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		join(&readers[i]);
	ck_assert_msg(!writer.wrong, "%s", writer.wrong);
	for (int at = INSERTS; at <= ADAPTATIONS; at++)
		ck_assert_uint_gt(writer.done[at], 0);
	check_after(aqf, keys, stored + others);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Adapting only: what was fixed stays fixed at every moment. */
static void *adapt_one_after_the_other(void *arg)
{
	struct worker *worker = arg;

	for (uint64_t i = 0; i < worker->operations && !worker->wrong; i++) {
		struct own_key *key =
			&worker->keys[test_random(&worker->random) % worker->key_count];

		/* Taken out and put back without extensions, to make room. */
		if (key->count == 0) {
			insert_own(worker, key);
		} else if (key->has_fixed) {
			delete_own(worker, key);
			insert_own(worker, key);
		} else {
			adapt_own(worker, key);
		}
		check_own(worker, key);
	}
	return NULL;
}

START_TEST(fixed_false_positives_stay_fixed_while_others_are_adapted)
{
	uint64_t random = test_seed("fixed", 310);
	struct wn_aqf *aqf = new_filter_at(7000, 14, 0.7);
	size_t fixed = 1000, others = 6000;
	struct own_key *keys = make_keys(aqf, fixed + others, 0, &random);
	struct worker writer = {
		.aqf = aqf,
		.keys = keys + fixed,
		.key_count = others,
		.operations = scaled(200000),
		.random = random,
	};
	struct worker readers[3];
	bool stop = false;

	for (size_t i = 0; i < fixed + others; i++) {
		insert_own(&writer, &keys[i]);
		if (i < fixed)
			adapt_own(&writer, &keys[i]);
	}
	for (size_t i = 0; i < fixed; i++)
		ck_assert(keys[i].has_fixed);
	for (int i = 0; i < 3; i++) {
		readers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys,
			.key_count = fixed,
			.random = random + 100 + (uint64_t)i,
			.stop = &stop,
		};
		start(&readers[i], read_all);
	}
	start(&writer, adapt_one_after_the_other);
	pthread_join(writer.thread, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		join(&readers[i]);
	ck_assert_msg(!writer.wrong, "%s", writer.wrong);
	ck_assert_uint_gt(writer.done[ADAPTATIONS], fixed);
	check_after(aqf, keys, fixed + others);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

static void *insert_all(void *arg)
{
	struct worker *worker = arg;

	for (size_t i = 0; i < worker->key_count; i++) {
		insert_own(worker, &worker->keys[i]);
		check_own(worker, &worker->keys[i]);
		if (i % 16 == 0)
			count_own(worker, &worker->keys[i]);
	}
	return NULL;
}

START_TEST(keys_inserted_by_many_threads_are_all_there)
{
	unsigned threads = 2 + (unsigned)_i;
	uint64_t random = test_seed("inserts", 320 + (uint64_t)_i);
	size_t count = (size_t)scaled(200000);
	/* Counters take room of their own, two slots each at most. */
	struct wn_aqf *aqf = new_filter(count + count / 8, 14);
	struct own_key *keys = make_keys(aqf, count, 0, &random);
	struct worker workers[MAX_THREADS];
	struct wn_aqf_info info;
	uint64_t inserted = 0;

	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys + i * (count / threads),
			.key_count = count / threads,
			.random = random + i,
		};
		start(&workers[i], insert_all);
	}
	for (unsigned i = 0; i < threads; i++) {
		join(&workers[i]);
		ck_assert_uint_eq(workers[i].done[REFUSALS], 0);
		inserted += workers[i].done[INSERTS];
	}
	wn_aqf_describe(aqf, &info);
	ck_assert_uint_eq(inserted, count / threads * threads);
	ck_assert_uint_eq(info.fingerprints, inserted);
	ck_assert_uint_gt(info.counters, 0);
	check_after(aqf, keys, inserted);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Everything at once in a few hundred slots. */
START_TEST(threads_that_change_a_small_filter_do_not_lose_anything)
{
	unsigned threads = 2 + (unsigned)_i % 3;
	uint64_t random = test_seed("small", 330 + (uint64_t)_i);
	struct wn_aqf *aqf = new_filter(_i < 3 ? 300 : 1500, 14);
	size_t count = _i < 3 ? 400 : 2000;
	struct own_key *keys = make_keys(aqf, count, 0, &random);
	uint64_t done[5];

	run_writers(aqf, keys, count, threads, 600000, random, done);
	for (int at = 0; at < 5; at++)
		ck_assert_uint_gt(done[at], 0);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_threads");
	TCase *tests = tcase_create("threads");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, readers_find_every_key_while_a_writer_changes_others, 0, 2);
	tcase_add_test(tests, fixed_false_positives_stay_fixed_while_others_are_adapted);
	tcase_add_loop_test(tests, keys_inserted_by_many_threads_are_all_there, 0, 3);
	tcase_add_loop_test(tests, threads_that_change_a_small_filter_do_not_lose_anything, 0, 6);
	return test_run(suite);
}
