/* test_yesno.c - YES/NO lists: every item answers by its list, always. */
#include <winnow/error.h>

#include "living/yesno_internal.h"
#include "tests/support/yesno.h"

/* ---- facts -------------------------------------------------------------- */

static void assert_refused(struct wn_yesno_options options)
{
	struct wn_yesno *lists;

	ck_assert_int_eq(wn_yesno_create(&options, NULL, make_map(true), &lists), WN_ERR_INVALID);
	ck_assert_ptr_null(lists);
}

START_TEST(bad_parameters_are_refused_and_the_map_is_taken)
{
	struct wn_yesno_options good = {.yes_capacity = 10};
	struct wn_revmap_entry item = make_item(1, 1, "key");
	struct wn_revmap *map = make_map(true);
	struct wn_yesno *lists;

	assert_refused((struct wn_yesno_options){.no_capacity = 10});
	assert_refused((struct wn_yesno_options){.yes_capacity = 10, .remainder_bits = 1});
	assert_refused((struct wn_yesno_options){.yes_capacity = 10, .remainder_bits = 33});
	assert_refused((struct wn_yesno_options){.yes_capacity = 10, .load = 0.96});
	assert_refused((struct wn_yesno_options){.yes_capacity = 10, .load = -0.5});
	assert_refused((struct wn_yesno_options){.yes_capacity = 10, .reserved = {[3] = 1}});
	assert_refused((struct wn_yesno_options){.yes_capacity = UINT64_MAX, .no_capacity = 2});
	assert_refused((struct wn_yesno_options){.yes_capacity = WN_AQF_MAX_KEYS,
						 .no_capacity = WN_AQF_MAX_KEYS});
	ck_assert_int_eq(wn_revmap_put(map, 1, 0, &item), 0);
	ck_assert_int_eq(wn_yesno_create(&good, NULL, map, &lists), WN_ERR_INVALID);
	ck_assert_int_eq(wn_yesno_create(&good, NULL, NULL, &lists), WN_ERR_INVALID);
	ck_assert_int_eq(wn_yesno_create(&good, NULL, make_map(true), &lists), 0);
	ck_assert_int_eq(add(lists, (enum wn_list)2, 1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_yesno_add(lists, WN_LIST_YES, NULL, 1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_yesno_remove(lists, NULL, 1), WN_ERR_INVALID);
	ck_assert_uint_eq(wn_yesno_count(lists, (enum wn_list)2), 0);
	wn_yesno_destroy(lists);
	wn_yesno_destroy(NULL);
}
END_TEST

START_TEST(empty_lists_say_no)
{
	struct fixture fixture = make_lists(10, 10, 2, _i);

	for (uint32_t n = 0; n < 100; n++)
		ck_assert(!query(fixture.lists, n));
	ck_assert_int_eq(drop(fixture.lists, 1), WN_ERR_NOT_FOUND);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

/* The loop is over remainder bits: the fewer, the more collisions. */
START_TEST(every_item_answers_by_its_list)
{
	struct fixture fixture = make_lists(1000, 1000, (unsigned)_i, true);
	uint32_t yes = 0;

	for (uint32_t n = 0; n < 2000; n++) {
		ck_assert_int_eq(add(fixture.lists, list_of(n), n), 0);
		ck_assert(query(fixture.lists, n) == (list_of(n) == WN_LIST_YES));
	}
	assert_range(fixture.lists, 0, 2000);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_YES), 1000);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_NO), 1000);
	if (_i <= 4)
		ck_assert_uint_gt(describe(fixture.lists).extensions, 50);
	for (uint32_t n = 2000; n < 12000; n++)
		yes += query(fixture.lists, n);
	/* At most half of what matches has a YES tag; with room for chance. */
	ck_assert_uint_lt(yes, 10000 / (1U << _i) / 2 + 200);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(an_item_added_again_changes_nothing)
{
	struct fixture fixture = make_lists(100, 100, 3, _i);
	struct snapshot before;

	add_range(fixture.lists, 0, 200);
	before = snap(&fixture);
	add_range(fixture.lists, 0, 200);
	assert_same_snapshot(before, snap(&fixture));
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_YES), 100);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(an_item_added_to_the_other_list_moves)
{
	struct fixture fixture = make_lists(100, 100, 3, _i);
	uint64_t used;

	add_range(fixture.lists, 0, 200);
	used = describe(fixture.lists).used_slots;
	for (uint32_t n = 0; n < 200; n += 4)
		ck_assert_int_eq(add(fixture.lists, WN_LIST_NO, n), 0);
	for (uint32_t n = 0; n < 200; n++)
		ck_assert(query(fixture.lists, n) == (n % 4 == 2));
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_YES), 50);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_NO), 150);
	ck_assert_uint_eq(describe(fixture.lists).used_slots, used);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(empty_and_large_keys_are_items)
{
	struct fixture fixture = make_lists(10, 10, 3, true);
	char *large = malloc(65536);

	memset(large, 'k', 65536);
	ck_assert_int_eq(wn_yesno_add(fixture.lists, WN_LIST_YES, NULL, 0), 0);
	ck_assert_int_eq(wn_yesno_add(fixture.lists, WN_LIST_NO, large, 65536), 0);
	ck_assert(wn_yesno_query(fixture.lists, "", 0));
	ck_assert(!wn_yesno_query(fixture.lists, large, 65536));
	ck_assert_int_eq(wn_yesno_remove(fixture.lists, "", 0), 0);
	ck_assert_int_eq(wn_yesno_remove(fixture.lists, NULL, 0), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn_yesno_add(fixture.lists, WN_LIST_YES, large, 65536), 0);
	ck_assert(wn_yesno_query(fixture.lists, large, 65536));
	free(large);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(removing_an_absent_item_takes_no_other)
{
	struct fixture fixture = make_lists(100, 100, 2, _i);
	struct snapshot before;

	add_range(fixture.lists, 0, 200);
	before = snap(&fixture);
	for (uint32_t n = 200; n < 1000; n++)
		ck_assert_int_eq(drop(fixture.lists, n), WN_ERR_NOT_FOUND);
	assert_same_snapshot(before, snap(&fixture));
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(removing_shortens_what_was_longer_because_of_it)
{
	struct fixture fixture = make_lists(500, 500, 3, _i);

	add_range(fixture.lists, 0, 1000);
	ck_assert_uint_gt(describe(fixture.lists).extensions, 50);
	for (uint32_t n = 0; n < 1000; n++) {
		ck_assert_int_eq(drop(fixture.lists, n), 0);
		assert_range(fixture.lists, n + 1, n + 30 < 1000 ? n + 30 : 1000);
	}
	ck_assert_uint_eq(describe(fixture.lists).extensions, 0);
	ck_assert_uint_eq(describe(fixture.lists).used_slots, 0);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_YES), 0);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_NO), 0);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(the_last_of_a_minirun_has_no_extension)
{
	struct fixture fixture = make_lists(200, 200, 3, _i);
	struct wn_revmap_entry items[4] = {close_item(128, "a"), close_item(90, "b"),
					   close_item(40, "c"), close_item(0, "d")};

	for (unsigned at = 0; at < 4; at++)
		ck_assert_int_eq(wn__yesno_add_item(fixture.lists, at % 2, &items[at]), 0);
	for (unsigned at = 0; at < 4; at++)
		ck_assert(wn__yesno_query_hash(fixture.lists, items[at].hash) == (at % 2 == 0));
	ck_assert_uint_gt(describe(fixture.lists).extensions, 20);
	for (unsigned at = 0; at < 3; at++) {
		uint64_t before = describe(fixture.lists).extensions;

		ck_assert_int_eq(wn__yesno_remove_item(fixture.lists, &items[at]), 0);
		ck_assert_uint_lt(describe(fixture.lists).extensions, before);
		for (unsigned left = at + 1; left < 4; left++)
			ck_assert(wn__yesno_query_hash(fixture.lists, items[left].hash) ==
				  (left % 2 == 0));
	}
	ck_assert_uint_eq(describe(fixture.lists).extensions, 0);
	ck_assert_uint_eq(describe(fixture.lists).fingerprints, 1);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

/* ---- room --------------------------------------------------------------- */

START_TEST(the_promised_items_fit)
{
	static const uint64_t sizes[] = {1, 2, 10, 100, 3000};

	for (unsigned at = 0; at < sizeof(sizes) / sizeof(sizes[0]); at++) {
		uint32_t size = (uint32_t)sizes[at];
		struct fixture fixture = make_lists(size, size, (unsigned)_i, false);

		add_range(fixture.lists, 0, 2 * size);
		assert_range(fixture.lists, 0, 2 * size);
		wn_yesno_destroy(fixture.lists);
	}
}
END_TEST

START_TEST(full_lists_stay_as_they_were)
{
	struct fixture fixture = make_lists(50, 50, (unsigned)_i, true);
	struct snapshot before;
	uint32_t refused = 0;
	static bool held[2000];

	for (uint32_t n = 0; n < 2000; n++) {
		int err;

		before = snap(&fixture);
		err = add(fixture.lists, list_of(n), n);
		held[n] = err == 0;
		if (err == 0)
			continue;
		refused++;
		ck_assert_int_eq(err, WN_ERR_FULL);
		assert_same_snapshot(before, snap(&fixture));
	}
	ck_assert_uint_gt(refused, 100);
	for (uint32_t n = 0; n < 2000; n++)
		if (held[n])
			ck_assert(query(fixture.lists, n) == (list_of(n) == WN_LIST_YES));
	wn_yesno_destroy(fixture.lists);
}
END_TEST

/* A single add can need more slots than are left, after it has taken some. */
START_TEST(an_add_that_runs_out_half_way_is_undone)
{
	struct fixture fixture = make_lists(30, 30, 2, _i);
	static const unsigned bits[] = {128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	char name[2] = "a";
	struct snapshot before;
	unsigned added = 0;
	int err = 0;

	while (added < 12 && err == 0) {
		struct wn_revmap_entry item = close_item(bits[added], name);

		before = snap(&fixture);
		err = wn__yesno_add_item(fixture.lists, added % 2, &item);
		if (err == 0) {
			added++;
			name[0]++;
		}
	}
	/* Each takes some 60 slots: far more than 60 items were promised. */
	ck_assert_int_eq(err, WN_ERR_FULL);
	assert_same_snapshot(before, snap(&fixture));
	for (unsigned at = 0; at < added; at++)
		ck_assert(wn__yesno_query_hash(fixture.lists, close_item(bits[at], "").hash) ==
			  (at % 2 == 0));
	wn_yesno_destroy(fixture.lists);
}
END_TEST

/* ---- equal hashes ------------------------------------------------------- */

START_TEST(keys_with_equal_halves_of_their_hash_are_told_apart)
{
	struct fixture fixture = make_lists(300, 300, 3, _i);
	struct wn_revmap_entry a = make_item(7, 1, "a");
	struct wn_revmap_entry b = make_item(7, 2, "b");
	struct wn_revmap_entry c = make_item(8, 2, "c");

	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_YES, &a), 0);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &b), 0);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_YES, &c), 0);
	ck_assert(wn__yesno_query_hash(fixture.lists, a.hash));
	ck_assert(!wn__yesno_query_hash(fixture.lists, b.hash));
	ck_assert(wn__yesno_query_hash(fixture.lists, c.hash));
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(one_full_hash_cannot_be_on_both_lists)
{
	struct fixture fixture = make_lists(300, 300, 3, true);
	struct wn_revmap_entry a = make_item(77, 88, "a");
	struct wn_revmap_entry b = make_item(77, 88, "b");
	struct wn_revmap_entry near = make_item(77, 89, "near");
	struct snapshot before;

	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_YES, &a), 0);
	before = snap(&fixture);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &b), WN_ERR_UNFIXABLE);
	assert_same_snapshot(before, snap(&fixture));

	/* On one list they are two items, which must then stay there. */
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_YES, &b), 0);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_YES), 2);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &near), 0);
	before = snap(&fixture);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &a), WN_ERR_UNFIXABLE);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &b), WN_ERR_UNFIXABLE);
	assert_same_snapshot(before, snap(&fixture));
	ck_assert(wn__yesno_query_hash(fixture.lists, a.hash));
	ck_assert(!wn__yesno_query_hash(fixture.lists, near.hash));

	/* With one gone the other is free to move. */
	ck_assert_int_eq(wn__yesno_remove_item(fixture.lists, &a), 0);
	ck_assert_int_eq(wn__yesno_remove_item(fixture.lists, &a), WN_ERR_NOT_FOUND);
	ck_assert(wn__yesno_query_hash(fixture.lists, b.hash));
	ck_assert(!wn__yesno_query_hash(fixture.lists, near.hash));
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &b), 0);
	ck_assert(!wn__yesno_query_hash(fixture.lists, b.hash));
	ck_assert_int_eq(wn__yesno_remove_item(fixture.lists, &near), 0);
	ck_assert_uint_eq(describe(fixture.lists).extensions, 0);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(one_full_hash_is_one_item_where_only_hashes_are_kept)
{
	struct fixture fixture = make_lists(100, 100, 3, false);
	struct wn_revmap_entry a = make_item(77, 88, "a");
	struct wn_revmap_entry b = make_item(77, 88, "b");

	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_YES, &a), 0);
	ck_assert_int_eq(wn__yesno_add_item(fixture.lists, WN_LIST_NO, &b), 0);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_YES), 0);
	ck_assert_uint_eq(wn_yesno_count(fixture.lists, WN_LIST_NO), 1);
	ck_assert(!wn__yesno_query_hash(fixture.lists, a.hash));
	wn_yesno_destroy(fixture.lists);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("yesno");
	TCase *facts = tcase_create("facts");
	TCase *room = tcase_create("room");

	suite_add_tcase(suite, facts);
	suite_add_tcase(suite, room);
	tcase_add_test(facts, bad_parameters_are_refused_and_the_map_is_taken);
	/* Loops over two: 0 with a map of hashes, 1 with one of keys. */
	tcase_add_loop_test(facts, empty_lists_say_no, 0, 2);
	tcase_add_loop_test(facts, every_item_answers_by_its_list, 2, 10);
	tcase_add_loop_test(facts, an_item_added_again_changes_nothing, 0, 2);
	tcase_add_loop_test(facts, an_item_added_to_the_other_list_moves, 0, 2);
	tcase_add_test(facts, empty_and_large_keys_are_items);
	tcase_add_loop_test(facts, removing_an_absent_item_takes_no_other, 0, 2);
	tcase_add_loop_test(facts, removing_shortens_what_was_longer_because_of_it, 0, 2);
	tcase_add_loop_test(facts, the_last_of_a_minirun_has_no_extension, 0, 2);
	tcase_add_loop_test(facts, keys_with_equal_halves_of_their_hash_are_told_apart, 0, 2);
	tcase_add_test(facts, one_full_hash_cannot_be_on_both_lists);
	tcase_add_test(facts, one_full_hash_is_one_item_where_only_hashes_are_kept);
	/* Loops over remainder bits. */
	tcase_add_loop_test(room, the_promised_items_fit, 2, 13);
	tcase_add_loop_test(room, full_lists_stay_as_they_were, 2, 6);
	tcase_add_loop_test(room, an_add_that_runs_out_half_way_is_undone, 0, 2);
	return test_run(suite);
}
