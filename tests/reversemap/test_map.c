/* test_map.c - the contract of the reverse map of immutable filters, on every store: put, drop,
 * list. */
#include <errno.h>
#include <pthread.h>

#include <winnow/aqf.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "tests/support/map_stores.h"

/* ---- put, drop, list ---------------------------------------------------- */

START_TEST(a_store_lists_what_was_put_and_not_dropped)
{
	struct wn__map *map = open_store(_i);
	struct sample samples[40];
	struct wn__keylist_entry entry;

	assert_count(map, 0);
	for (unsigned i = 0; i < 40; i++) {
		samples[i] = make_sample(i, i * 30, i * 32 + 1, 7);
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), WN_ERR_NOT_FOUND);
		put(map, &samples[i]);
		assert_count(map, i + 1);
	}
	for (unsigned i = 0; i < 40; i += 2)
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), 0);
	assert_count(map, 20);
	for (unsigned i = 0; i < 40; i++) {
		if (i % 2 == 1) {
			expect_list(map, &samples[i], 1);
			continue;
		}
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), WN_ERR_NOT_FOUND);
		ck_assert_int_eq(wn__map_lookup(map, &samples[i].list, 0, 0, &entry),
				 WN_ERR_NOT_FOUND);
		ck_assert_int_eq(wn__map_stream(map, samples[i].list.id, compare_uppers, NULL),
				 WN_ERR_NOT_FOUND);
	}
	ck_assert_uint_eq(stats_of(map).drops, 20);
	for (unsigned i = 0; i < 40; i++)
		free_sample(&samples[i]);
	wn__map_destroy(map);
}
END_TEST

START_TEST(the_list_says_what_was_put)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(12, 700, 737, 9);
	struct wn__keylist_info info;

	put(map, &sample);
	info = only_info(map);
	ck_assert_int_eq(memcmp(info.list.id, sample.list.id, sizeof(info.list.id)), 0);
	ck_assert_uint_eq(info.list.key_count, 700);
	ck_assert_uint_eq(info.list.slots, 737);
	ck_assert_uint_eq(info.list.secret_id, 19);
	ck_assert_uint_eq(info.list.remainder_bits, 9);
	ck_assert_uint_eq(info.list.owner, 1012);
	/* The upper halves, a header, and for each page a sum. */
	ck_assert_uint_eq(info.bytes, 700 * 8 + 64 + 2 * 8);
	sample.list.key_count = 1;
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.uppers), 0);
	ck_assert_uint_eq(only_info(map).list.key_count, 1);
	ck_assert_uint_eq(only_info(map).bytes, 8 + 64 + 8);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_run_put_again_is_replaced)
{
	struct wn__map *map = open_store(_i);
	struct sample first = make_sample(1, 1000, 1053, 9);
	struct sample second = make_sample(2, 3000, 3158, 8);
	struct wn__keylist_entry entry;

	memcpy(second.list.id, first.list.id, sizeof(first.list.id));
	put(map, &first);
	expect_list(map, &first, 1);
	put(map, &second);
	expect_list(map, &second, 1);
	ck_assert_int_eq(wn__map_lookup(map, &first.list, 0, 0, &entry), WN_ERR_MISMATCH);
	assert_count(map, 1);
	free_sample(&first);
	free_sample(&second);
	wn__map_destroy(map);
}
END_TEST

START_TEST(another_filters_run_is_refused_and_counted)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 1000, 1053, 9);
	uint64_t minirun = minirun_by_hand(&sample.list, sample.uppers[0]);
	struct wn__keylist wrong[5];
	struct wn__keylist_entry entry;

	put(map, &sample);
	for (unsigned i = 0; i < 5; i++)
		wrong[i] = sample.list;
	wrong[0].key_count++;
	wrong[1].slots++;
	wrong[2].secret_id++;
	wrong[3].remainder_bits++;
	wrong[4].owner++;
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(wn__map_lookup(map, &wrong[i], minirun, 0, &entry),
				 WN_ERR_MISMATCH);
		ck_assert_uint_eq(entry.fraction_bits, 0);
	}
	ck_assert_uint_eq(stats_of(map).mismatched, 4);
	ck_assert_int_eq(wn__map_lookup(map, &wrong[4], minirun, 0, &entry), 0);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(what_cannot_be_a_run_is_refused)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 1000, 1053, 9);
	struct wn__keylist wrong[4];
	uint64_t upper;

	for (unsigned i = 0; i < 4; i++)
		wrong[i] = sample.list;
	wrong[0].slots = 0;
	wrong[1].remainder_bits = 1;
	wrong[2].remainder_bits = 33;
	wrong[3].slots = UINT64_C(1) << 41;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(wn__map_put(map, &wrong[i], sample.uppers), WN_ERR_INVALID);
	upper = sample.uppers[999];
	sample.uppers[999] = sample.uppers[997];
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.uppers), WN_ERR_INVALID);
	sample.uppers[999] = upper;
	assert_count(map, 0);
	ck_assert_uint_eq(stats_of(map).failed_puts, 5);
	put(map, &sample);
	ck_assert_uint_eq(stats_of(map).puts, 1);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

struct dropper {
	struct wn__map *map;
	unsigned calls;
};

static int drop_and_stop(void *arg, const struct wn__keylist_info *info,
			 const uint64_t *uppers, size_t count)
{
	struct dropper *dropper = arg;

	ck_assert_ptr_nonnull(uppers);
	ck_assert_uint_gt(count, 0);
	ck_assert_int_eq(wn__map_drop(dropper->map, info->list.id), 0);
	dropper->calls++;
	return 4711;
}

START_TEST(a_visitor_may_drop_the_run_and_stop)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 5000, 5264, 9);
	struct dropper dropper = {.map = map};

	put(map, &sample);
	ck_assert_int_eq(wn__map_stream(map, sample.list.id, drop_and_stop, &dropper), 4711);
	ck_assert_uint_eq(dropper.calls, 1);
	assert_count(map, 0);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* ---- with a real filter ------------------------------------------------- */

/* A block of `count` keys and its builder, which has the upper halves. */
static struct wn_builder *build_block(const struct wn_secret *secret, unsigned count,
				      void **blockp, size_t *sizep)
{
	struct wn_config *config;
	struct wn_builder *builder;

	ck_assert_int_eq(wn_config_parse("aqf:remainder_bits=4", NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	for (unsigned i = 0; i < count; i++)
		ck_assert_int_eq(wn_builder_add(builder, &i, sizeof(i)), 0);
	ck_assert_int_eq(wn_builder_finish(builder, blockp, sizep), 0);
	wn_config_destroy(config);
	return builder;
}

static struct wn__keylist run_of_block(const void *block, size_t size)
{
	struct wn_block_info info;
	struct wn__keylist list;

	ck_assert_int_eq(wn_block_read(block, size, WN_CHECK_ALL, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &list), 0);
	info.kind = 15;
	ck_assert_int_eq(wn__keylist_of_block(&info, &(struct wn__keylist){0}), WN_ERR_INVALID);
	return list;
}

/* Tell the filter that `query` was a false positive; is it fixed? */
static bool adapt(struct wn__map *map, const struct wn__keylist *list, struct wn_aqf *aqf,
		  struct wn_hash query)
{
	struct wn__keylist_entry entry;
	struct wn_match match;

	expect(wn_aqf_query(aqf, query, &match) && match.known);
	expect(wn__map_lookup(map, list, match.minirun, match.rank, &entry) == 0);
	return wn__keylist_entry_tells(list, &entry, query, list->remainder_bits) &&
	       wn_aqf_adapt(aqf, entry.hash, query, match) == 0;
}

START_TEST(what_a_filter_mistook_a_query_for_is_found)
{
	struct wn__map *map = open_store(_i);
	struct wn_secret *secret = test_secret(3);
	void *block;
	size_t size, count, fixed = 0;
	struct wn_builder *builder = build_block(secret, 5000, &block, &size);
	const uint64_t *uppers = wn_builder_uppers(builder, &count);
	struct wn__keylist list = run_of_block(block, size);
	struct wn_aqf *aqf;

	ck_assert_uint_eq(list.key_count, count);
	ck_assert_int_eq(wn__map_put(map, &list, uppers), 0);
	ck_assert_int_eq(wn_aqf_thaw(block, size, NULL, &aqf), 0);
	for (unsigned i = 5000; i < 9000; i++) {
		struct wn_hash query = wn_hash_key(secret, &i, sizeof(i));

		if (wn_aqf_query(aqf, query, NULL))
			fixed += adapt(map, &list, aqf, query);
	}
	ck_assert_uint_gt(fixed, 100);
	/* Keys that a tombstone hid, say: wrong confirmations teach nothing false. */
	for (unsigned i = 0; i < 5000; i++)
		adapt(map, &list, aqf, wn_hash_key(secret, &i, sizeof(i)));
	for (unsigned i = 0; i < 5000; i++)
		ck_assert(wn_aqf_query(aqf, wn_hash_key(secret, &i, sizeof(i)), NULL));
	wn_aqf_destroy(aqf);
	free(block);
	wn_builder_destroy(builder);
	wn_secret_destroy(secret);
	wn__map_destroy(map);
}
END_TEST

/* ---- memory refused ----------------------------------------------------- */

START_TEST(opening_without_memory_fails_whole)
{
	struct wn__map *map;
	uint64_t nth = 1;
	int err;

	do {
		wn__alloc_fail_at(nth++);
		err = stores[_i].open(&map);
		wn__alloc_fail_at(0);
		if (err) {
			ck_assert_int_eq(err, ENOMEM);
			ck_assert_ptr_null(map);
		}
	} while (err);
	ck_assert_uint_gt(nth, 2);
	wn__map_destroy(map);
	wn__map_destroy(NULL);
}
END_TEST

static void put_with_failures(struct wn__map *map, const struct sample *sample,
			      unsigned *failuresp)
{
	size_t before = stats_of(map).lists;
	uint64_t nth = 1;
	int err;

	do {
		wn__alloc_fail_at(nth++);
		err = wn__map_put(map, &sample->list, sample->uppers);
		wn__alloc_fail_at(0);
		if (err) {
			++*failuresp;
			ck_assert_int_eq(err, ENOMEM);
			assert_count(map, before);
		}
	} while (err);
	assert_count(map, before + 1);
}

START_TEST(a_put_without_memory_changes_nothing)
{
	struct wn__map *map = open_store(_i);
	unsigned failures = 0;

	for (unsigned i = 0; i < 40; i++) {
		struct sample sample = make_sample(i, 600, 632, 9);

		put_with_failures(map, &sample, &failures);
		expect_list(map, &sample, 1);
		free_sample(&sample);
	}
	ck_assert_uint_ge(failures, 40);
	ck_assert_uint_eq(count_files(directory, ".tmp"), 0);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_list_without_memory_fails_whole)
{
	struct wn__map *map = open_store(_i);
	struct wn__keylist_info *infos;
	uint64_t nth = 1;
	size_t count;
	int err;

	for (unsigned i = 0; i < 100; i++) {
		struct sample sample = make_sample(i, 10, 11, 9);

		put(map, &sample);
		free_sample(&sample);
	}
	do {
		wn__alloc_fail_at(nth++);
		err = wn__map_list(map, &infos, &count);
		wn__alloc_fail_at(0);
		if (err) {
			ck_assert_int_eq(err, ENOMEM);
			ck_assert_ptr_null(infos);
			ck_assert_uint_eq(count, 0);
		}
	} while (err);
	ck_assert_uint_gt(nth, 2);
	ck_assert_uint_eq(count, 100);
	free(infos);
	wn__map_destroy(map);
}
END_TEST

START_TEST(lookups_streams_and_drops_ask_for_no_memory)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 1000, 1053, 9);

	put(map, &sample);
	wn__alloc_fail_at(0);
	expect_list(map, &sample, 1);
	expect_stream(map, &sample);
	ck_assert_int_eq(wn__map_drop(map, sample.list.id), 0);
	ck_assert_uint_eq(wn__alloc_calls(), 0);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

#define SHARED_RUNS 8
#define READERS 3

struct shared {
	struct wn__map *map;
	struct sample samples[SHARED_RUNS];
	bool done;
	uint64_t found;
	uint64_t wrong; /* Check's assertions are for the main thread */
};

static bool has_run(const struct shared *shared)
{
	return !__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
}

static void look_up_one(struct shared *shared, uint64_t *state)
{
	const struct sample *sample = &shared->samples[test_random(state) % SHARED_RUNS];
	uint64_t upper = sample->uppers[test_random(state) % sample->list.key_count];
	uint64_t minirun = minirun_by_hand(&sample->list, upper);
	struct wn__keylist_entry entry;
	uint32_t rank = 0;
	int err;

	do {
		err = wn__map_lookup(shared->map, &sample->list, minirun, rank++, &entry);
	} while (!err && !is_entry(&entry, upper) && rank < 100);
	if (!err && is_entry(&entry, upper))
		__atomic_fetch_add(&shared->found, 1, __ATOMIC_RELAXED);
	else if (err != WN_ERR_NOT_FOUND)
		__atomic_fetch_add(&shared->wrong, 1, __ATOMIC_RELAXED);
}

static void *look_up_all_day(void *arg)
{
	struct shared *shared = arg;
	uint64_t state = (uint64_t)(uintptr_t)&shared;

	while (has_run(shared))
		look_up_one(shared, &state);
	return NULL;
}

static void put_and_drop(struct shared *shared, unsigned rounds)
{
	uint64_t state = test_seed("put_and_drop", 77);
	struct wn__keylist_info *infos;
	size_t count;

	for (unsigned i = 0; i < rounds; i++) {
		const struct sample *sample =
			&shared->samples[test_random(&state) % SHARED_RUNS];

		if (test_random(&state) % 3 == 0)
			wn__map_drop(shared->map, sample->list.id);
		else
			put(shared->map, sample);
		if (i % 16 == 0) {
			ck_assert_int_eq(wn__map_list(shared->map, &infos, &count), 0);
			free(infos);
		}
	}
}

START_TEST(lookups_are_right_while_runs_come_and_go)
{
	struct shared shared = {.map = open_store(_i)};
	pthread_t threads[READERS];
	size_t count = 0;

	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		shared.samples[i] = make_sample(i, 1500, 1579, 4);
		put(shared.map, &shared.samples[i]);
	}
	for (unsigned i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, look_up_all_day, &shared), 0);
	put_and_drop(&shared, test_is_quick() ? 300 : 3000);
	while (__atomic_load_n(&shared.found, __ATOMIC_RELAXED) < 1000 && ++count < 10000)
		put_and_drop(&shared, 10);
	__atomic_store_n(&shared.done, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(shared.wrong, 0);
	ck_assert_uint_ge(shared.found, 1000);
	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		put(shared.map, &shared.samples[i]);
		expect_list(shared.map, &shared.samples[i], 1);
		free_sample(&shared.samples[i]);
	}
	assert_count(shared.map, SHARED_RUNS);
	wn__map_destroy(shared.map);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("map");
	TCase *tests = tcase_create("key_lists");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, a_store_lists_what_was_put_and_not_dropped, 0, STORE_COUNT);
	tcase_add_loop_test(tests, the_list_says_what_was_put, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_run_put_again_is_replaced, 0, STORE_COUNT);
	tcase_add_loop_test(tests, another_filters_run_is_refused_and_counted, 0, STORE_COUNT);
	tcase_add_loop_test(tests, what_cannot_be_a_run_is_refused, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_visitor_may_drop_the_run_and_stop, 0, STORE_COUNT);
	tcase_add_loop_test(tests, what_a_filter_mistook_a_query_for_is_found, 0, STORE_COUNT);
	tcase_add_loop_test(tests, opening_without_memory_fails_whole, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_put_without_memory_changes_nothing, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_list_without_memory_fails_whole, 0, STORE_COUNT);
	tcase_add_loop_test(tests, lookups_streams_and_drops_ask_for_no_memory, 0, STORE_COUNT);
	tcase_add_loop_test(tests, lookups_are_right_while_runs_come_and_go, 0, STORE_COUNT);
	return test_run(suite);
}
