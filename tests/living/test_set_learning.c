/* test_set_learning.c - a set learns, and is rebuilt when it cannot learn any more. */
#include <winnow/error.h>

#include "living/set_internal.h"
#include "tests/support/set.h"

/* ---- learn -------------------------------------------------------------- */

START_TEST(a_learned_false_positive_never_comes_back)
{
	struct wn_set *set = make_set(1000, _i);
	static bool learned[20000];
	uint32_t fixed = 0;

	insert_range(set, 0, 1000);
	for (uint32_t n = 1000; n < 20000; n++) {
		int err;

		learned[n] = false;
		if (!query(set, n))
			continue;
		err = learn(set, n);
		if (err == WN_ERR_FULL)
			break;
		ck_assert_int_eq(err, 0);
		ck_assert(!query(set, n));
		learned[n] = true;
		fixed++;
	}
	ck_assert_uint_gt(fixed, 100);
	for (uint32_t n = 1000; n < 20000; n++)
		ck_assert(!learned[n] || !query(set, n));
	assert_found_in_range(set, 0, 1000);
	wn_set_destroy(set);
}
END_TEST

START_TEST(every_fingerprint_that_matches_is_fixed)
{
	struct wn_set *set = make_set(1000, _i);
	struct wn_revmap_entry items[6];
	struct wn_revmap_entry absent = make_item(UINT64_C(0x5555555555555555), 1 << 20, "absent");
	char names[6][2];

	for (int at = 0; at < 6; at++) {
		snprintf(names[at], sizeof(names[at]), "%c", 'a' + at);
		/* Like the query in all but a few of the last bits. */
		items[at] = absent;
		items[at].key = names[at];
		items[at].key_size = 1;
		items[at].hash.lo += UINT64_C(1) << (at * 11);
		ck_assert_int_eq(wn__set_insert_item(set, &items[at]), 0);
	}
	ck_assert(wn_aqf_query(wn_set_filter(set), absent.hash, NULL));
	ck_assert_int_eq(wn__set_learn_item(set, &absent), 0);
	ck_assert(!wn_aqf_query(wn_set_filter(set), absent.hash, NULL));
	for (int at = 0; at < 6; at++)
		ck_assert(wn_aqf_query(wn_set_filter(set), items[at].hash, NULL));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_key_of_the_set_is_not_unlearned)
{
	struct wn_set *set = make_set(300, _i);
	struct snapshot before;

	insert_range(set, 0, 300);
	before = snap(set);
	for (uint32_t n = 0; n < 300; n++)
		ck_assert_int_eq(learn(set, n), WN_ERR_UNFIXABLE);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(learning_what_is_no_false_positive_changes_nothing)
{
	struct wn_set *set = make_set(300, _i);
	struct snapshot before;

	insert_range(set, 0, 300);
	before = snap(set);
	for (uint32_t n = 300; n < 1300; n++)
		if (!query(set, n))
			ck_assert_int_eq(learn(set, n), 0);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

/* ---- rebuild ------------------------------------------------------------ */

/* Learn from `from` on until there is no room; the key that found none. */
static uint32_t learn_until_full(struct wn_set *set, uint32_t from)
{
	for (;; from++) {
		int err;

		if (!query(set, from))
			continue;
		err = learn(set, from);
		if (err == WN_ERR_FULL)
			return from;
		ck_assert_int_eq(err, 0);
	}
}

START_TEST(a_rebuild_is_due_when_room_is_gone_and_gives_it_back)
{
	struct wn_set *set = make_set(300, true);
	uint32_t refused;

	for (uint32_t n = 0; n < 250; n++)
		insert_times(set, n, n % 50 ? 1 : 9);
	ck_assert(!wn_set_needs_rebuild(set));
	refused = learn_until_full(set, 1000);
	ck_assert(wn_set_needs_rebuild(set));
	ck_assert_uint_gt(describe(set).extensions, 0);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	ck_assert(!wn_set_needs_rebuild(set));
	ck_assert_uint_eq(describe(set).extensions, 0);
	for (uint32_t n = 0; n < 250; n++)
		ck_assert_uint_eq(count(set, n), n % 50 ? 1 : 9);
	ck_assert_int_eq(learn(set, refused), 0);
	ck_assert(!query(set, refused));
	wn_set_destroy(set);
}
END_TEST

/* One that needs many slots may find none while others still would. */
START_TEST(a_rebuild_is_due_when_something_could_not_be_learned)
{
	struct wn_set *set = make_set(300, true);
	struct wn_revmap_entry item = make_item(UINT64_C(0x5555555555555555), 0, "item");
	struct wn_revmap_entry absent = make_item(UINT64_C(0x5555555555555555), 1, "absent");

	insert_range(set, 0, 250);
	ck_assert_int_eq(wn__set_insert_item(set, &item), 0);
	for (uint32_t n = 1000; describe(set).extensions + 20 <
				describe(set).adapt_limit - describe(set).insert_limit; n++)
		if (query(set, n))
			ck_assert_int_eq(learn(set, n), 0);
	ck_assert(!wn_set_needs_rebuild(set));
	ck_assert_int_eq(wn__set_learn_item(set, &absent), WN_ERR_FULL);
	ck_assert(wn_set_needs_rebuild(set));
	/* A slot given back may be the one that was missing. */
	ck_assert_int_eq(wn__set_delete_item(set, &item), 0);
	ck_assert(!wn_set_needs_rebuild(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_rebuild_is_due_at_the_share_asked_for)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set;
	struct wn_aqf_info info;

	options.rebuild_at = 0.8;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 300);
	for (uint32_t n = 1000; !wn_set_needs_rebuild(set); n++)
		if (query(set, n))
			ck_assert_int_eq(learn(set, n), 0);
	info = describe(set);
	ck_assert_uint_ge(info.used_slots, info.slots * 8 / 10);
	ck_assert_uint_le(info.used_slots, info.slots * 8 / 10 + 50);
	wn_set_destroy(set);
}
END_TEST

START_TEST(keys_and_counters_alone_make_no_rebuild_due)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set;

	options.rebuild_at = 0.5;
	options.auto_rebuild = true;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 300);
	insert_range(set, 0, 50);
	ck_assert_uint_ge(describe(set).used_slots, describe(set).slots / 2);
	ck_assert(!wn_set_needs_rebuild(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_rebuild_takes_the_secret_it_is_given)
{
	struct wn_secret *secret = test_secret(99);
	struct wn_set *set = make_set(300, true);

	insert_range(set, 0, 300);
	ck_assert_int_eq(wn_set_rebuild(set, secret), 0);
	ck_assert_int_eq(memcmp(wn_secret_seed(wn_set_secret(set)), wn_secret_seed(secret),
				WN_SEED_SIZE), 0);
	wn_secret_destroy(secret);
	assert_found_in_range(set, 0, 300);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_rebuild_restores_the_remainder_that_growing_used_up)
{
	struct wn_set *set = make_set(300, true);
	struct wn_aqf_info info = describe(set), grown;

	insert_range(set, 0, 300);
	ck_assert_int_eq(wn_set_grow(set), 0);
	insert_range(set, 300, 600);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	grown = describe(set);
	ck_assert_uint_eq(grown.remainder_bits, info.remainder_bits);
	ck_assert_uint_ge(grown.insert_limit, 600);
	ck_assert_uint_le(grown.slots, info.slots * 2);
	ck_assert_uint_eq(grown.fingerprints, 600);
	assert_found_in_range(set, 0, 600);
	wn_set_destroy(set);
}
END_TEST

START_TEST(without_keys_there_is_no_rebuild)
{
	struct wn_set *set = make_set(300, false);
	struct snapshot before;

	insert_range(set, 0, 300);
	before = snap(set);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), WN_ERR_READONLY);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

/* One key goes, one comes, a thousand times, at capacity and learning in between. */
START_TEST(a_full_set_that_has_learned_takes_a_key_for_each_that_leaves)
{
	struct wn_set_options options = {.aqf = {.capacity = 1000, .remainder_bits = 5}};
	struct wn_set *set;
	uint32_t rebuilds = 0, asked = 1000000;

	options.auto_rebuild = _i;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 1000);
	for (uint32_t n = 0; n < 1000; n++) {
		uint64_t before = describe(set).extensions;

		for (uint32_t end = asked + 100; asked < end; asked++)
			if (query(set, asked)) {
				int err = learn(set, asked);

				ck_assert(err == 0 || (err == WN_ERR_FULL && !_i));
			}
		rebuilds += describe(set).extensions + 20 < before;
		ck_assert_int_eq(wn_set_delete(set, &n, sizeof(n)), 0);
		ck_assert_int_eq(insert(set, n + 1000), 0);
	}
	ck_assert(_i ? rebuilds > 0 : describe(set).extensions > 0);
	assert_found_in_range(set, 1000, 2000);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_set_that_rebuilds_itself_always_learns)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set, *unchanged;
	uint32_t learned = 0, rebuilds = 0;

	options.auto_rebuild = true;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 300);
	unchanged = make_set(10, true);
	for (uint32_t n = 1000; rebuilds < 100; n++) {
		uint64_t before = describe(set).extensions;

		if (!query(set, n))
			continue;
		ck_assert_int_eq(learn(set, n), 0);
		ck_assert(!query(set, n));
		learned++;
		rebuilds += describe(set).extensions < before;
		ck_assert(!wn_set_needs_rebuild(set));
	}
	ck_assert(!is_seed_same(set, unchanged));
	ck_assert_uint_gt(learned, 1000);
	assert_found_in_range(set, 0, 300);
	wn_set_destroy(unchanged);
	wn_set_destroy(set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("set_learning");
	TCase *learning = tcase_create("learning");

	suite_add_tcase(suite, learning);
	/* Loops over two: 0 with a map of hashes, 1 with one of keys. */
	tcase_add_loop_test(learning, a_learned_false_positive_never_comes_back, 0, 2);
	tcase_add_loop_test(learning, every_fingerprint_that_matches_is_fixed, 0, 2);
	tcase_add_loop_test(learning, a_key_of_the_set_is_not_unlearned, 0, 2);
	tcase_add_loop_test(learning, learning_what_is_no_false_positive_changes_nothing, 0, 2);
	tcase_add_test(learning, a_rebuild_is_due_when_room_is_gone_and_gives_it_back);
	tcase_add_test(learning, a_rebuild_is_due_when_something_could_not_be_learned);
	tcase_add_test(learning, a_rebuild_is_due_at_the_share_asked_for);
	tcase_add_test(learning, keys_and_counters_alone_make_no_rebuild_due);
	tcase_add_test(learning, a_rebuild_takes_the_secret_it_is_given);
	tcase_add_test(learning, a_rebuild_restores_the_remainder_that_growing_used_up);
	tcase_add_test(learning, without_keys_there_is_no_rebuild);
	tcase_add_loop_test(learning, a_full_set_that_has_learned_takes_a_key_for_each_that_leaves,
			    0, 2);
	tcase_add_test(learning, a_set_that_rebuilds_itself_always_learns);
	return test_run(suite);
}
