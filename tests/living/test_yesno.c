/* test_yesno.c - YES/NO lists: every item answers by its list, always. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/yesno.h>

#include "base/alloc.h"
#include "tests/support/faulty_map.h"
#include "tests/support/snapshot.h"
#include "tests/support/common.h"
#include "living/yesno_internal.h"

/* ---- helpers ------------------------------------------------------------ */

/* The lists, and their map borrowed for a look inside. */
struct fixture {
	struct wn_yesno *lists;
	struct wn_revmap *map;
};

static struct fixture make_lists_over(uint64_t yes, uint64_t no, unsigned bits,
				      struct wn_revmap *map)
{
	struct wn_yesno_options options = {
		.yes_capacity = yes, .no_capacity = no, .remainder_bits = bits};
	struct wn_secret *secret = test_secret(5);
	struct fixture fixture = {.map = map};

	ck_assert_int_eq(wn_yesno_create(&options, secret, map, &fixture.lists), 0);
	wn_secret_destroy(secret);
	return fixture;
}

static struct wn_revmap *make_map(bool keep_keys)
{
	struct wn_revmap *map;

	ck_assert_int_eq(wn_revmap_memory_create(keep_keys, &map), 0);
	return map;
}

static struct fixture make_lists(uint64_t yes, uint64_t no, unsigned bits, bool keep_keys)
{
	return make_lists_over(yes, no, bits, make_map(keep_keys));
}

static int add(struct wn_yesno *lists, enum wn_list list, uint32_t n)
{
	return wn_yesno_add(lists, list, &n, sizeof(n));
}

static int drop(struct wn_yesno *lists, uint32_t n)
{
	return wn_yesno_remove(lists, &n, sizeof(n));
}

static bool query(const struct wn_yesno *lists, uint32_t n)
{
	return wn_yesno_query(lists, &n, sizeof(n));
}

static struct wn_aqf_info describe(const struct wn_yesno *lists)
{
	struct wn_aqf_info info;

	wn_aqf_describe(wn_yesno_filter(lists), &info);
	return info;
}

static struct snapshot snap(const struct fixture *fixture)
{
	return take_snapshot(wn_yesno_filter(fixture->lists), fixture->map);
}

static struct wn_revmap_entry make_item(uint64_t hi, uint64_t lo, const char *key)
{
	return (struct wn_revmap_entry){.hash = {hi, lo}, .key = key, .key_size = strlen(key)};
}

/* Even numbers on YES, odd ones on NO. */
static enum wn_list list_of(uint32_t n)
{
	return n % 2 ? WN_LIST_NO : WN_LIST_YES;
}

static void add_range(struct wn_yesno *lists, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		ck_assert_int_eq(add(lists, list_of(n), n), 0);
}

static void assert_range(const struct wn_yesno *lists, uint32_t from, uint32_t to)
{
	/* ck_assert() writes to a pipe even when all is well: too slow for what is
	 * called millions of times. */
	for (uint32_t n = from; n < to; n++)
		if (query(lists, n) != (list_of(n) == WN_LIST_YES))
			ck_abort_msg("item %u answers wrong", n);
}

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

/* Items that share a minirun: their hashes part only at the bit given. */
static struct wn_revmap_entry close_item(unsigned bit, const char *key)
{
	struct wn_revmap_entry item =
		make_item(UINT64_C(0x5555555555555555), UINT64_C(0x5555555555555555), key);

	if (bit < 64)
		item.hash.lo ^= UINT64_C(1) << bit;
	else if (bit < 128)
		item.hash.hi ^= UINT64_C(1) << (bit - 64);
	return item;
}

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

/* ---- faults ------------------------------------------------------------- */

/* What is tried in turn: add to a minirun that has others, move, remove. */
static int try_change(struct fixture *fixture, int change)
{
	struct wn_revmap_entry added = close_item(30, "new");
	struct wn_revmap_entry first = close_item(128, "a");

	switch (change) {
	case 0:
		return wn__yesno_add_item(fixture->lists, WN_LIST_NO, &added);
	case 1:
		return wn__yesno_add_item(fixture->lists, WN_LIST_NO, &first);
	default:
		return wn__yesno_remove_item(fixture->lists, &first);
	}
}

static void add_close_items(struct fixture *fixture)
{
	struct wn_revmap_entry a = close_item(128, "a"), b = close_item(80, "b");

	/* 16 entries: the next needs more buckets and nodes. */
	add_range(fixture->lists, 0, 14);
	ck_assert_int_eq(wn__yesno_add_item(fixture->lists, WN_LIST_YES, &a), 0);
	ck_assert_int_eq(wn__yesno_add_item(fixture->lists, WN_LIST_NO, &b), 0);
}

static void assert_unchanged(struct fixture *fixture, struct snapshot before)
{
	assert_same_snapshot(before, snap(fixture));
	assert_range(fixture->lists, 0, 14);
	ck_assert_uint_eq(wn_yesno_count(fixture->lists, WN_LIST_YES), 8);
	ck_assert_uint_eq(wn_yesno_count(fixture->lists, WN_LIST_NO), 8);
}

START_TEST(a_change_without_memory_changes_nothing)
{
	struct fixture fixture = make_lists(100, 100, 3, true);
	struct snapshot before;
	uint64_t calls, failures = 0;
	int err;

	add_close_items(&fixture);
	before = snap(&fixture);
	for (uint64_t nth = 1;; nth++) {
		wn__alloc_fail_at(nth);
		err = try_change(&fixture, _i);
		calls = wn__alloc_calls();
		wn__alloc_fail_at(0);
		if (calls < nth)
			break;
		failures++;
		ck_assert_int_eq(err, ENOMEM);
		assert_unchanged(&fixture, before);
	}
	ck_assert_int_eq(err, 0);
	if (_i == 0)
		ck_assert_uint_ge(failures, 3);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(a_change_that_the_store_refuses_changes_nothing)
{
	struct fixture fixture = make_lists_over(100, 100, 3, faulty_create(true));
	struct snapshot before;
	uint64_t calls;
	int err;

	add_close_items(&fixture);
	before = snap(&fixture);
	for (uint64_t nth = 1;; nth++) {
		fail_map_at(nth);
		err = try_change(&fixture, _i);
		calls = map_calls;
		fail_map_at(0);
		if (calls < nth)
			break;
		ck_assert_int_eq(err, EIO);
		assert_unchanged(&fixture, before);
	}
	ck_assert_int_eq(err, 0);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

START_TEST(creating_without_memory_leaves_nothing_behind)
{
	struct wn_yesno_options options = {.yes_capacity = 10, .no_capacity = 10};
	struct wn_yesno *lists;
	uint64_t calls;
	int err;

	for (uint64_t nth = 1;; nth++) {
		struct wn_revmap *map = make_map(true);

		wn__alloc_fail_at(nth);
		err = wn_yesno_create(&options, NULL, map, &lists);
		calls = wn__alloc_calls();
		wn__alloc_fail_at(0);
		if (calls < nth)
			break;
		ck_assert_int_eq(err, ENOMEM);
		ck_assert_ptr_null(lists);
	}
	ck_assert_int_eq(err, 0);
	wn_yesno_destroy(lists);
}
END_TEST

/* ---- against a model ---------------------------------------------------- */

#define UNIVERSE 400
#define OFF_LISTS 2

struct model {
	struct fixture fixture;
	unsigned list[UNIVERSE]; /* an enum wn_list, or OFF_LISTS */
	uint64_t counts[3];
};

static void assert_as_model(const struct model *model)
{
	const struct wn_yesno *lists = model->fixture.lists;

	for (uint32_t n = 0; n < UNIVERSE; n++)
		if (model->list[n] != OFF_LISTS &&
		    query(lists, n) != (model->list[n] == WN_LIST_YES))
			ck_abort_msg("item %u answers wrong", n);
	ck_assert_uint_eq(wn_yesno_count(lists, WN_LIST_YES), model->counts[WN_LIST_YES]);
	ck_assert_uint_eq(wn_yesno_count(lists, WN_LIST_NO), model->counts[WN_LIST_NO]);
}

static void put_in_model(struct model *model, uint32_t n, unsigned list)
{
	model->counts[model->list[n]]--;
	model->list[n] = list;
	model->counts[list]++;
}

static void step_add(struct model *model, uint32_t n, unsigned list)
{
	struct snapshot before = snap(&model->fixture);
	int err = add(model->fixture.lists, list, n);

	if (err) {
		ck_assert_int_eq(err, WN_ERR_FULL);
		ck_assert_uint_eq(model->list[n], OFF_LISTS);
		assert_same_snapshot(before, snap(&model->fixture));
		return;
	}
	put_in_model(model, n, list);
}

static void step_remove(struct model *model, uint32_t n)
{
	int err = drop(model->fixture.lists, n);

	ck_assert_int_eq(err, model->list[n] == OFF_LISTS ? WN_ERR_NOT_FOUND : 0);
	put_in_model(model, n, OFF_LISTS);
}

/* The lists made anew from the items that are left need the same slots: nothing
 * of what came and went has stayed behind. */
static void assert_as_short_as_new(const struct model *model, unsigned bits)
{
	struct fixture new = make_lists(UNIVERSE / 4, UNIVERSE / 4, bits, true);
	struct wn_aqf_info mine = describe(model->fixture.lists), fresh;

	for (uint32_t n = 0; n < UNIVERSE; n++)
		if (model->list[n] != OFF_LISTS)
			ck_assert_int_eq(add(new.lists, model->list[n], n), 0);
	fresh = describe(new.lists);
	ck_assert_uint_eq(mine.fingerprints, fresh.fingerprints);
	ck_assert_uint_eq(mine.extensions, fresh.extensions);
	ck_assert_uint_eq(mine.used_slots, fresh.used_slots);
	wn_yesno_destroy(new.lists);
}

START_TEST(any_operations_agree_with_exact_lists)
{
	uint64_t random = test_seed("yesno", 100 + (uint64_t)_i);
	uint64_t steps = test_is_quick() ? 1000 : 10000;
	unsigned bits = 2 + (unsigned)_i % 3;
	struct model model = {.fixture = make_lists(UNIVERSE / 4, UNIVERSE / 4, bits, true)};

	for (uint32_t n = 0; n < UNIVERSE; n++)
		model.list[n] = OFF_LISTS;
	model.counts[OFF_LISTS] = UNIVERSE;
	for (uint64_t step = 0; step < steps; step++) {
		uint32_t n = (uint32_t)(test_random(&random) % UNIVERSE);
		/* Seasons: more comes than goes until there is no room, and back. */
		uint64_t adds = step / 500 % 2 ? 3 : 8;

		if (test_random(&random) % 10 < adds)
			step_add(&model, n, test_random(&random) % 2);
		else
			step_remove(&model, n);
		if (model.list[n] != OFF_LISTS)
			ck_assert(query(model.fixture.lists, n) == (model.list[n] == WN_LIST_YES));
		if (step % 20 == 0)
			assert_as_model(&model);
		if (step % 250 == 0 && model.counts[OFF_LISTS] >= UNIVERSE / 2)
			assert_as_short_as_new(&model, bits);
	}
	assert_as_model(&model);
	wn_yesno_destroy(model.fixture.lists);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

#define STANDING 300

struct readers {
	const struct wn_aqf *aqf;
	struct wn_hash hashes[STANDING];
	atomic_bool stop;
	atomic_uint wrong;
};

/* An answer without a fingerprint is a reader's doubt, and no mistake. */
static void *read_items(void *arg)
{
	struct readers *readers = arg;
	struct wn_match match;
	unsigned tag;

	while (!readers->stop)
		for (uint32_t n = 0; n < STANDING; n++)
			if (!wn_aqf_query_tag(readers->aqf, readers->hashes[n], &match, &tag) ||
			    (match.known && tag != list_of(n)))
				readers->wrong++;
	return NULL;
}

START_TEST(items_that_stay_answer_right_while_others_come_and_go)
{
	struct fixture fixture = make_lists(400, 400, 2, true);
	struct wn_secret *secret = test_secret(5);
	uint64_t random = test_seed("yesno", 7);
	static struct readers readers;
	pthread_t threads[2];

	readers.aqf = wn_yesno_filter(fixture.lists);
	readers.stop = false;
	readers.wrong = 0;
	add_range(fixture.lists, 0, STANDING);
	for (uint32_t n = 0; n < STANDING; n++)
		readers.hashes[n] = wn_hash(secret, &n, sizeof(n));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, read_items, &readers), 0);
	for (uint64_t step = 0; step < 40000; step++) {
		uint32_t n = STANDING + (uint32_t)(test_random(&random) % 700);

		if (drop(fixture.lists, n) == WN_ERR_NOT_FOUND)
			add(fixture.lists, test_random(&random) % 2, n);
	}
	readers.stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(readers.wrong, 0);
	assert_range(fixture.lists, 0, STANDING);
	wn_secret_destroy(secret);
	wn_yesno_destroy(fixture.lists);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("yesno");
	TCase *facts = tcase_create("facts");
	TCase *room = tcase_create("room");
	TCase *faults = tcase_create("faults");
	TCase *model = tcase_create("model");

	suite_add_tcase(suite, facts);
	suite_add_tcase(suite, room);
	suite_add_tcase(suite, faults);
	suite_add_tcase(suite, model);
	/* Loops over two: 0 with a map of hashes, 1 with one of keys. */
	tcase_add_test(facts, bad_parameters_are_refused_and_the_map_is_taken);
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
	tcase_add_loop_test(faults, a_change_without_memory_changes_nothing, 0, 3);
	tcase_add_loop_test(faults, a_change_that_the_store_refuses_changes_nothing, 0, 3);
	tcase_add_test(faults, creating_without_memory_leaves_nothing_behind);
	tcase_add_loop_test(model, any_operations_agree_with_exact_lists, 0, 20);
	tcase_add_test(model, items_that_stay_answer_right_while_others_come_and_go);
	return test_run(suite);
}
