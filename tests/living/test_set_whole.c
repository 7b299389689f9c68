/* test_set_whole.c - sets grow, shrink and are merged; memory and stores that fail. */
#include <errno.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "tests/support/faulty_map.h"
#include "tests/support/set.h"

/* ---- helpers ------------------------------------------------------------ */

/* The first false positive from `from` on. */
static uint32_t find_false_positive(const struct wn_set *set, uint32_t from)
{
	while (!query(set, from) || count(set, from))
		from++;
	return from;
}

/* ---- grow, shrink, merge ------------------------------------------------ */

/* Keys 0..n-1 with counts, and as many learned false positives as there is room
 * for among the next 1,000 numbers. */
static void fill_with_everything(struct wn_set *set, uint32_t n, bool *learned)
{
	for (uint32_t key = 0; key < n; key++)
		insert_times(set, key, key % 20 ? 1 : 5);
	for (uint32_t key = n; key < n + 1000; key++) {
		learned[key] = query(set, key) && learn(set, key) == 0;
		if (learned[key])
			ck_assert(!query(set, key));
	}
}

static void assert_has_everything(struct wn_set *set, uint32_t n, const bool *learned)
{
	for (uint32_t key = 0; key < n; key++)
		ck_assert_uint_eq(count(set, key), key % 20 ? 1 : 5);
	for (uint32_t key = n; key < n + 1000; key++)
		ck_assert(!learned[key] || !query(set, key));
}

START_TEST(growing_and_shrinking_keep_keys_counts_and_what_was_learned)
{
	struct wn_set *set = make_set(300, _i);
	uint64_t slots = describe(set).slots;
	static bool learned[1200];
	struct snapshot before;

	fill_with_everything(set, 200, learned);
	before = snap(set);
	ck_assert_int_eq(wn_set_grow(set), 0);
	ck_assert_uint_eq(describe(set).slots, 2 * slots);
	assert_has_everything(set, 200, learned);
	ck_assert_int_eq(wn_set_grow(set), WN_ERR_INVALID); /* 2 remainder bits are left */
	assert_has_everything(set, 200, learned);
	ck_assert_int_eq(wn_set_shrink(set), 0);
	assert_same_snapshot(before, snap(set));
	assert_has_everything(set, 200, learned);
	insert_range(set, 1200, 1201);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_set_too_full_to_shrink_stays_as_it_was)
{
	struct wn_set_options options = small_options(400);
	struct wn_set *set;
	struct snapshot before;

	options.aqf.load = 0.5; /* an even number of slots */
	set = make_set_with(&options, make_map(_i));
	insert_range(set, 0, 400);
	before = snap(set);
	ck_assert_int_eq(wn_set_shrink(set), WN_ERR_FULL);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_merge_adds_keys_and_counts)
{
	struct wn_set *into = make_set(300, _i);
	struct wn_set *from = make_set(300, _i);

	insert_range(into, 0, 200);
	insert_times(into, 150, 3);
	insert_range(from, 100, 300);
	insert_times(from, 150, 20);
	insert_times(from, 151, 6);
	ck_assert_int_eq(wn_set_merge(into, from), 0);
	for (uint32_t n = 0; n < 300; n++) {
		uint64_t expected = n >= 100 && n < 200 ? 2 : 1;

		if (n == 150)
			expected = 25;
		if (n == 151)
			expected = 8;
		ck_assert(query(into, n));
		ck_assert_uint_eq(count(into, n), expected);
		ck_assert_uint_eq(count(from, n), 0);
		ck_assert(!query(from, n));
	}
	ck_assert_uint_eq(snap(into).entries, 300);
	ck_assert_uint_eq(snap(from).entries, 0);
	insert_range(from, 0, 300); /* it is as good as new */
	assert_found_in_range(from, 0, 300);
	wn_set_destroy(into);
	wn_set_destroy(from);
}
END_TEST

START_TEST(what_both_sets_denied_the_merged_one_denies)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *into, *from;
	static bool denied[3000];

	options.aqf.remainder_bits = 5; /* the merged set may have to double twice */
	into = make_set_with(&options, make_map(_i));
	from = make_set_with(&options, make_map(_i));
	insert_range(into, 0, 200);
	insert_range(from, 100, 300);
	for (uint32_t n = 300; n < 3000; n++) {
		if (query(into, n))
			learn(into, n);
		if (query(from, n))
			learn(from, n);
		denied[n] = !query(into, n) && !query(from, n);
	}
	ck_assert_uint_gt(describe(into).extensions, 20);
	ck_assert_uint_gt(describe(from).extensions, 20);
	ck_assert_int_eq(wn_set_merge(into, from), 0);
	for (uint32_t n = 300; n < 3000; n++)
		ck_assert(!denied[n] || !query(into, n));
	assert_found_in_range(into, 0, 300);
	wn_set_destroy(into);
	wn_set_destroy(from);
}
END_TEST

START_TEST(merged_sets_go_on_as_sets)
{
	struct wn_set *into = make_set(300, true);
	struct wn_set *from = make_set(300, true);

	insert_range(into, 0, 150);
	insert_range(from, 100, 250);
	ck_assert_int_eq(wn_set_merge(into, from), 0);
	for (uint32_t n = 0; n < 250; n += 2) {
		uint64_t had = count(into, n);

		ck_assert_int_eq(wn_set_delete(into, &n, sizeof(n)), 0);
		ck_assert_uint_eq(count(into, n), had - 1);
	}
	for (uint32_t n = 1000; n < 1100; n++)
		if (query(into, n))
			ck_assert_int_eq(learn(into, n), 0);
	for (uint32_t n = 0; n < 250; n++)
		ck_assert_uint_eq(count(into, n), 1U + (n >= 100 && n < 150) - (n % 2 == 0));
	ck_assert_int_eq(wn_set_rebuild(into, NULL), 0);
	for (uint32_t n = 0; n < 250; n++)
		ck_assert_uint_eq(count(into, n), 1U + (n >= 100 && n < 150) - (n % 2 == 0));
	wn_set_destroy(into);
	wn_set_destroy(from);
}
END_TEST

static void assert_no_merge(struct wn_set *into, struct wn_set *from, int expected)
{
	struct snapshot before = snap(into);

	ck_assert_int_eq(wn_set_merge(into, from), expected);
	assert_same_snapshot(before, snap(into));
	if (from != into)
		wn_set_destroy(from);
}

START_TEST(sets_that_do_not_fit_are_not_merged)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set = make_set(300, true), *other;

	insert_range(set, 0, 100);
	assert_no_merge(set, set, WN_ERR_INVALID);
	assert_no_merge(set, make_set(301, true), WN_ERR_MISMATCH);
	assert_no_merge(set, make_set(300, false), WN_ERR_MISMATCH);
	ck_assert_int_eq(wn_set_create(&options, NULL, make_map(true), &other), 0);
	assert_no_merge(set, other, WN_ERR_MISMATCH); /* another seed */
	options.aqf.remainder_bits = 4;
	assert_no_merge(set, make_set_with(&options, make_map(true)), WN_ERR_MISMATCH);
	wn_set_destroy(set);
}
END_TEST

/* ---- faults ------------------------------------------------------------- */

struct pair {
	struct wn_set *set, *from;
};

static int do_insert(struct pair *pair)
{
	return insert(pair->set, 5000);
}

static int do_delete(struct pair *pair)
{
	uint32_t key = 3;

	return wn_set_delete(pair->set, &key, sizeof(key));
}

static int do_learn(struct pair *pair)
{
	return learn(pair->set, find_false_positive(pair->set, 10000));
}

static int do_rebuild(struct pair *pair)
{
	return wn_set_rebuild(pair->set, NULL);
}

static int do_grow(struct pair *pair)
{
	return wn_set_grow(pair->set);
}

static int do_shrink(struct pair *pair)
{
	return wn_set_shrink(pair->set);
}

static int do_merge(struct pair *pair)
{
	return wn_set_merge(pair->set, pair->from);
}

static int (*const changes[])(struct pair *) = {do_insert, do_delete, do_learn,  do_rebuild,
						do_grow,   do_shrink, do_merge};
#define CHANGES (int)(sizeof(changes) / sizeof(changes[0]))

static struct pair make_pair(struct wn_revmap *map, struct wn_revmap *other)
{
	struct wn_set_options options = small_options(64);
	struct pair pair;

	options.aqf.load = 0.5; /* an even number of slots */
	pair.set = make_set_with(&options, map);
	pair.from = make_set_with(&options, other);
	insert_range(pair.set, 0, 48); /* three times 16: buckets must grow soon */
	insert_range(pair.from, 20, 50);
	insert_times(pair.from, 25, 5);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(learn(pair.set, find_false_positive(pair.set, 1000)), 0);
	for (uint32_t n = 15; n < 48; n++)
		ck_assert_int_eq(wn_set_delete(pair.set, &n, sizeof(n)), 0);
	return pair;
}

static void destroy_pair(struct pair *pair)
{
	wn_set_destroy(pair->set);
	wn_set_destroy(pair->from);
}

START_TEST(a_change_without_memory_changes_nothing)
{
	struct pair pair = make_pair(make_map(true), make_map(true));
	struct snapshot set = snap(pair.set), from = snap(pair.from);
	int err;

	for (uint64_t nth = 1;; nth++) {
		wn__alloc_fail_at(nth);
		err = changes[_i](&pair);
		if (wn__alloc_calls() < nth) {
			wn__alloc_fail_at(0);
			break;
		}
		wn__alloc_fail_at(0);
		ck_assert_int_eq(err, ENOMEM);
		assert_same_snapshot(set, snap(pair.set));
		assert_same_snapshot(from, snap(pair.from));
		assert_found_in_range(pair.set, 0, 15);
		assert_found_in_range(pair.from, 20, 50);
	}
	ck_assert_int_eq(err, 0);
	destroy_pair(&pair);
}
END_TEST

START_TEST(a_change_that_the_store_refuses_changes_nothing)
{
	struct pair pair = make_pair(faulty_create(true), faulty_create(true));
	struct snapshot set = snap(pair.set), from = snap(pair.from);
	int err;

	for (uint64_t nth = 1;; nth++) {
		struct snapshot now;
		uint64_t calls;

		/* What tells a false positive from a key asks the map as well. */
		uint32_t key = _i == 2 ? find_false_positive(pair.set, 10000) : 0;

		fail_map_at(nth);
		err = _i == 2 ? learn(pair.set, key) : changes[_i](&pair);
		calls = map_calls;
		fail_map_at(0);
		if (calls < nth)
			break;
		ck_assert_int_eq(err, EIO);
		now = snap(pair.set);
		/* Of several matches some may have been learned. */
		if (_i != 2)
			assert_same_snapshot(set, now);
		ck_assert_uint_eq(set.map, now.map);
		assert_same_snapshot(from, snap(pair.from));
		assert_found_in_range(pair.set, 0, 15);
		assert_found_in_range(pair.from, 20, 50);
	}
	ck_assert_int_eq(err, 0);
	destroy_pair(&pair);
}
END_TEST

START_TEST(creating_without_memory_leaves_nothing_behind)
{
	struct wn_set_options options = small_options(64);
	struct wn_set *set;
	uint64_t calls;
	int err;

	for (uint64_t nth = 1;; nth++) {
		struct wn_revmap *map = make_map(true);

		wn__alloc_fail_at(nth);
		err = wn_set_create(&options, NULL, map, &set);
		calls = wn__alloc_calls();
		wn__alloc_fail_at(0);
		if (calls < nth)
			break;
		ck_assert_int_eq(err, ENOMEM);
		ck_assert_ptr_null(set);
	}
	ck_assert_int_eq(err, 0);
	wn_set_destroy(set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("set_whole");
	TCase *whole = tcase_create("whole sets");
	TCase *faults = tcase_create("faults");

	suite_add_tcase(suite, whole);
	suite_add_tcase(suite, faults);
	/* Loops over two: 0 with a map of hashes, 1 with one of keys. */
	tcase_add_loop_test(whole, growing_and_shrinking_keep_keys_counts_and_what_was_learned, 0,
			    2);
	tcase_add_loop_test(whole, a_set_too_full_to_shrink_stays_as_it_was, 0, 2);
	tcase_add_loop_test(whole, a_merge_adds_keys_and_counts, 0, 2);
	tcase_add_loop_test(whole, what_both_sets_denied_the_merged_one_denies, 0, 2);
	tcase_add_test(whole, merged_sets_go_on_as_sets);
	tcase_add_test(whole, sets_that_do_not_fit_are_not_merged);
	tcase_add_loop_test(faults, a_change_without_memory_changes_nothing, 0, CHANGES);
	tcase_add_loop_test(faults, a_change_that_the_store_refuses_changes_nothing, 0, CHANGES);
	tcase_add_test(faults, creating_without_memory_leaves_nothing_behind);
	return test_run(suite);
}
