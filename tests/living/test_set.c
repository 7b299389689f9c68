/* test_set.c - filter, secret and reverse map in step. */
#include <winnow/error.h>

#include "living/set_internal.h"
#include "tests/support/set.h"

/* ---- helpers ------------------------------------------------------------ */

static uint64_t count_item(const struct wn_set *set, const struct wn_revmap_entry *item)
{
	uint64_t result;

	ck_assert_int_eq(wn__set_count_item(set, item, &result), 0);
	return result;
}

/* ---- create ------------------------------------------------------------- */

static void assert_refused(const struct wn_set_options *options, struct wn_revmap *map)
{
	struct wn_set *set;

	ck_assert_int_eq(wn_set_create(options, NULL, map, &set), WN_ERR_INVALID);
	ck_assert_ptr_null(set);
}

START_TEST(bad_parameters_are_refused_and_the_map_is_taken)
{
	struct wn_revmap_entry item = make_item(1, 1, "key");
	struct wn_set_options options = small_options(10);
	struct wn_revmap *map = make_map(true);

	ck_assert_int_eq(wn_revmap_put(map, 1, 0, &item), 0);
	assert_refused(&options, map); /* not empty */
	assert_refused(&options, NULL);
	options.auto_rebuild = true;
	assert_refused(&options, make_map(false));
	options = small_options(0);
	assert_refused(&options, make_map(true));
	options = small_options(10);
	options.aqf.remainder_bits = 33;
	assert_refused(&options, make_map(true));
	options = small_options(10);
	options.rebuild_at = 1.1;
	assert_refused(&options, make_map(true));
	options.rebuild_at = -0.1;
	assert_refused(&options, make_map(true));
	options = small_options(10);
	options.reserved[3] = 1;
	assert_refused(&options, make_map(true));
	options = small_options(10);
	options.aqf.reserved[0] = 1;
	assert_refused(&options, make_map(true));
	wn_set_destroy(NULL);
}
END_TEST

START_TEST(without_a_secret_every_set_draws_its_own)
{
	struct wn_set_options options = small_options(10);
	struct wn_set *a, *b;

	ck_assert_int_eq(wn_set_create(&options, NULL, make_map(true), &a), 0);
	ck_assert_int_eq(wn_set_create(&options, NULL, make_map(true), &b), 0);
	ck_assert(!is_seed_same(a, b));
	wn_set_destroy(a);
	wn_set_destroy(b);
}
END_TEST

/* ---- keys and counts ---------------------------------------------------- */

START_TEST(an_empty_set_says_no)
{
	struct wn_set *set = make_set(100, _i);

	for (uint32_t n = 0; n < 1000; n++) {
		ck_assert(!query(set, n));
		ck_assert_uint_eq(count(set, n), 0);
	}
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_key_inserted_again_is_counted)
{
	struct wn_set *set = make_set(300, _i);

	for (uint32_t n = 0; n < 100; n++)
		insert_times(set, n, n % 4 + 1);
	for (uint32_t n = 0; n < 100; n++) {
		ck_assert(query(set, n));
		ck_assert_uint_eq(count(set, n), n % 4 + 1);
	}
	for (uint32_t n = 100; n < 1000; n++)
		ck_assert_uint_eq(count(set, n), 0);
	ck_assert_uint_eq(wn_revmap_count(wn_set_map(set)), 100);
	wn_set_destroy(set);
}
END_TEST

START_TEST(deleting_takes_one_count_and_at_last_the_key)
{
	struct wn_set *set = make_set(300, _i);
	uint32_t key = 7;

	insert_range(set, 0, 200);
	insert_times(set, key, 2);
	for (uint64_t left = 3; left-- > 0;) {
		ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), 0);
		ck_assert_uint_eq(count(set, key), left);
	}
	ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), WN_ERR_NOT_FOUND);
	for (uint32_t n = 0; n < 200; n++)
		ck_assert_uint_eq(count(set, n), n != key);
	assert_found_in_range(set, 8, 200);
	wn_set_destroy(set);
}
END_TEST

START_TEST(deleting_an_absent_key_takes_no_other)
{
	struct wn_set *set = make_set(300, _i);
	struct snapshot before;
	uint32_t maybes = 0;

	insert_range(set, 0, 300);
	before = snap(set);
	for (uint32_t n = 300; n < 2000; n++) {
		maybes += query(set, n);
		ck_assert_int_eq(wn_set_delete(set, &n, sizeof(n)), WN_ERR_NOT_FOUND);
	}
	ck_assert_uint_gt(maybes, 50); /* a bare filter would have lost as many */
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(empty_and_large_keys_are_keys)
{
	struct wn_set *set = make_set(100, true);
	char *large = malloc(65536);
	uint64_t result;

	memset(large, 'k', 65536);
	ck_assert_int_eq(wn_set_insert(set, NULL, 0), 0);
	ck_assert_int_eq(wn_set_insert(set, "", 0), 0);
	ck_assert_int_eq(wn_set_insert(set, large, 65536), 0);
	ck_assert_int_eq(wn_set_insert(set, large, 65535), 0);
	ck_assert(wn_set_query(set, "", 0));
	ck_assert(wn_set_query(set, large, 65536));
	ck_assert_int_eq(wn_set_count(set, "", 0, &result), 0);
	ck_assert_uint_eq(result, 2);
	ck_assert_int_eq(wn_set_count(set, large, 65536, &result), 0);
	ck_assert_uint_eq(result, 1);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	ck_assert(wn_set_query(set, NULL, 0));
	ck_assert(wn_set_query(set, large, 65535));
	ck_assert_int_eq(wn_set_delete(set, large, 65536), 0);
	ck_assert_int_eq(wn_set_delete(set, NULL, 0), 0);
	ck_assert_int_eq(wn_set_delete(set, NULL, 0), 0);
	ck_assert_int_eq(wn_set_delete(set, "", 0), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn_set_insert(set, NULL, 1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_set_delete(set, NULL, 1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_set_count(set, NULL, 1, &result), WN_ERR_INVALID);
	ck_assert_int_eq(wn_set_false_positive(set, NULL, 1), WN_ERR_INVALID);
	free(large);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_full_set_refuses_keys_and_stays_as_it_was)
{
	struct wn_set *set = make_set(100, _i);
	struct snapshot before;
	uint32_t held = 0, key = 5;
	int err;

	while ((err = insert(set, held)) == 0)
		held++;
	ck_assert_int_eq(err, WN_ERR_FULL);
	ck_assert_uint_ge(held, 100);
	before = snap(set);
	for (uint32_t n = held; n < held + 100; n++)
		ck_assert_int_eq(insert(set, n), WN_ERR_FULL);
	assert_same_snapshot(before, snap(set));
	assert_found_in_range(set, 0, held);
	ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), 0);
	ck_assert_int_eq(insert(set, held), 0);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_count_without_room_stays_as_it_was)
{
	struct wn_set *set = make_set(100, _i);
	uint64_t counts[100] = {0};
	uint32_t refused = 0;

	insert_range(set, 0, 100);
	for (uint32_t round = 1; round < 40; round++)
		for (uint32_t n = 0; n < 100; n++) {
			struct snapshot before = snap(set);
			int err = insert(set, n);

			if (err) {
				ck_assert_int_eq(err, WN_ERR_FULL);
				assert_same_snapshot(before, snap(set));
				refused++;
			} else {
				counts[n]++;
			}
		}
	ck_assert_uint_gt(refused, 0);
	for (uint32_t n = 0; n < 100; n++)
		ck_assert_uint_eq(count(set, n), counts[n] + 1);
	wn_set_destroy(set);
}
END_TEST

/* ---- equal hashes ------------------------------------------------------- */

START_TEST(keys_with_equal_halves_of_their_hash_stay_two_keys)
{
	struct wn_set *set = make_set(600, _i);
	struct wn_revmap_entry items[4] = {
		make_item(UINT64_C(1) << 63, 1, "a"),
		make_item(UINT64_C(1) << 63, 2, "b"),
		make_item((UINT64_C(1) << 63) + 1, 2, "c"),
		make_item(UINT64_C(1) << 62, 2, "d"),
	};

	for (unsigned at = 0; at < 4; at++)
		for (unsigned times = 0; times <= at; times++)
			ck_assert_int_eq(wn__set_insert_item(set, &items[at]), 0);
	for (unsigned at = 0; at < 4; at++)
		ck_assert_uint_eq(count_item(set, &items[at]), at + 1);
	ck_assert_int_eq(wn__set_delete_item(set, &items[0]), 0);
	ck_assert_int_eq(wn__set_delete_item(set, &items[0]), WN_ERR_NOT_FOUND);
	/* Learning the one that went leaves the others. */
	ck_assert_int_eq(wn__set_learn_item(set, &items[0]), 0);
	ck_assert(!wn_aqf_query(wn_set_filter(set), items[0].hash, NULL));
	for (unsigned at = 1; at < 4; at++) {
		ck_assert(wn_aqf_query(wn_set_filter(set), items[at].hash, NULL));
		ck_assert_uint_eq(count_item(set, &items[at]), at + 1);
	}
	wn_set_destroy(set);
}
END_TEST

START_TEST(two_keys_with_one_full_hash_stay_two_where_keys_are_kept)
{
	struct wn_set *set = make_set(100, true);
	struct wn_revmap_entry a = make_item(77, 88, "a");
	struct wn_revmap_entry b = make_item(77, 88, "b");
	struct wn_revmap_entry c = make_item(77, 88, "c");

	ck_assert_int_eq(wn__set_insert_item(set, &a), 0);
	ck_assert_int_eq(wn__set_insert_item(set, &b), 0);
	ck_assert_int_eq(wn__set_insert_item(set, &b), 0);
	ck_assert_uint_eq(count_item(set, &a), 1);
	ck_assert_uint_eq(count_item(set, &b), 2);
	ck_assert_uint_eq(count_item(set, &c), 0);
	ck_assert_int_eq(wn__set_learn_item(set, &c), WN_ERR_UNFIXABLE);
	ck_assert_int_eq(wn__set_delete_item(set, &c), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn__set_delete_item(set, &a), 0);
	ck_assert_uint_eq(count_item(set, &a), 0);
	ck_assert_uint_eq(count_item(set, &b), 2);
	/* Hashed anew they part. */
	ck_assert_int_eq(wn__set_insert_item(set, &a), 0);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	ck_assert(wn_set_query(set, "a", 1));
	ck_assert(wn_set_query(set, "b", 1));
	wn_set_destroy(set);
}
END_TEST

START_TEST(two_keys_with_one_full_hash_are_one_where_only_hashes_are_kept)
{
	struct wn_set *set = make_set(100, false);
	struct wn_revmap_entry a = make_item(77, 88, "a");
	struct wn_revmap_entry b = make_item(77, 88, "b");

	ck_assert_int_eq(wn__set_insert_item(set, &a), 0);
	ck_assert_int_eq(wn__set_insert_item(set, &b), 0);
	ck_assert_uint_eq(count_item(set, &a), 2);
	ck_assert_uint_eq(wn_revmap_count(wn_set_map(set)), 1);
	wn_set_destroy(set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("set");
	TCase *keys = tcase_create("keys");

	suite_add_tcase(suite, keys);
	tcase_add_test(keys, bad_parameters_are_refused_and_the_map_is_taken);
	tcase_add_test(keys, without_a_secret_every_set_draws_its_own);
	/* Loops over two: 0 with a map of hashes, 1 with one of keys. */
	tcase_add_loop_test(keys, an_empty_set_says_no, 0, 2);
	tcase_add_loop_test(keys, a_key_inserted_again_is_counted, 0, 2);
	tcase_add_loop_test(keys, deleting_takes_one_count_and_at_last_the_key, 0, 2);
	tcase_add_loop_test(keys, deleting_an_absent_key_takes_no_other, 0, 2);
	tcase_add_test(keys, empty_and_large_keys_are_keys);
	tcase_add_loop_test(keys, a_full_set_refuses_keys_and_stays_as_it_was, 0, 2);
	tcase_add_loop_test(keys, a_count_without_room_stays_as_it_was, 0, 2);
	tcase_add_loop_test(keys, keys_with_equal_halves_of_their_hash_stay_two_keys, 0, 2);
	tcase_add_test(keys, two_keys_with_one_full_hash_stay_two_where_keys_are_kept);
	tcase_add_test(keys, two_keys_with_one_full_hash_are_one_where_only_hashes_are_kept);
	return test_run(suite);
}
