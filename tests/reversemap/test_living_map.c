/* test_living_map.c - the reverse map's contract, on the memory store. */
#include <errno.h>
#include <string.h>

#include <winnow/aqf.h>
#include <winnow/error.h>
#include <winnow/reversemap.h>

#include "base/alloc.h"
#include "tests/support/common.h"
#include "tests/support/revmap.h"

#define MINIRUN UINT64_C(0x123456789a)

static struct wn_revmap_entry make_entry(uint64_t number, const char *key)
{
	return (struct wn_revmap_entry){
		.hash = {number, ~number}, .key = key, .key_size = key ? strlen(key) : 0};
}

static void put(struct wn_revmap *map, uint64_t minirun, uint32_t rank, uint64_t number,
		const char *key)
{
	struct wn_revmap_entry entry = make_entry(number, key);

	ck_assert_int_eq(wn_revmap_put(map, minirun, rank, &entry), 0);
}

static void assert_entry(const struct wn_revmap *map, uint64_t minirun, uint32_t rank,
			 uint64_t number, const char *key)
{
	struct wn_revmap_entry entry;

	ck_assert_int_eq(wn_revmap_get(map, minirun, rank, &entry), 0);
	ck_assert_uint_eq(entry.hash.hi, number);
	ck_assert_uint_eq(entry.hash.lo, ~number);
	if (!key) {
		ck_assert_ptr_null(entry.key);
		return;
	}
	ck_assert_ptr_nonnull(entry.key);
	ck_assert_uint_eq(entry.key_size, strlen(key));
	ck_assert_int_eq(memcmp(entry.key, key, entry.key_size), 0);
}

static void assert_absent(const struct wn_revmap *map, uint64_t minirun, uint32_t rank)
{
	struct wn_revmap_entry entry;

	ck_assert_int_eq(wn_revmap_get(map, minirun, rank, &entry), WN_ERR_NOT_FOUND);
}

START_TEST(a_new_map_is_empty)
{
	struct wn_revmap *map = make_map(_i);
	struct wn_revmap_entry wanted = make_entry(1, "key");
	uint32_t rank;

	ck_assert_uint_eq(wn_revmap_count(map), 0);
	assert_absent(map, MINIRUN, 0);
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn_revmap_remove(map, MINIRUN, 0), WN_ERR_NOT_FOUND);
	wn_revmap_destroy(map);
	wn_revmap_destroy(NULL);
}
END_TEST

START_TEST(an_entry_comes_back_as_it_was_put)
{
	struct wn_revmap *keys = make_map(true);
	struct wn_revmap *hashes = make_map(false);
	char key[] = "apple";

	put(keys, MINIRUN, 0, 7, key);
	put(hashes, MINIRUN, 0, 7, key);
	memset(key, 'x', sizeof(key)); /* the map has its own copy */
	assert_entry(keys, MINIRUN, 0, 7, "apple");
	assert_entry(hashes, MINIRUN, 0, 7, NULL);
	assert_absent(keys, MINIRUN, 1);
	assert_absent(keys, MINIRUN + 1, 0);
	ck_assert_uint_eq(wn_revmap_count(keys), 1);
	wn_revmap_destroy(keys);
	wn_revmap_destroy(hashes);
}
END_TEST

START_TEST(a_rank_that_is_not_the_next_is_refused)
{
	struct wn_revmap *map = make_map(_i);
	struct wn_revmap_entry entry = make_entry(1, "key");

	ck_assert_int_eq(wn_revmap_put(map, MINIRUN, 1, &entry), WN_ERR_INVALID);
	ck_assert_uint_eq(wn_revmap_count(map), 0);
	put(map, MINIRUN, 0, 1, "key");
	ck_assert_int_eq(wn_revmap_put(map, MINIRUN, 0, &entry), WN_ERR_INVALID);
	ck_assert_int_eq(wn_revmap_put(map, MINIRUN, 2, &entry), WN_ERR_INVALID);
	ck_assert_int_eq(wn_revmap_put(map, MINIRUN, UINT32_MAX, &entry), WN_ERR_INVALID);
	ck_assert_uint_eq(wn_revmap_count(map), 1);
	put(map, MINIRUN, 1, 1, "key");
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(a_map_of_keys_wants_keys)
{
	struct wn_revmap *map = make_map(true);
	struct wn_revmap_entry entry = make_entry(1, NULL);

	ck_assert_int_eq(wn_revmap_put(map, MINIRUN, 0, &entry), WN_ERR_INVALID);
	ck_assert_uint_eq(wn_revmap_count(map), 0);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(empty_and_large_keys_are_keys)
{
	struct wn_revmap *map = make_map(true);
	char *large = malloc(65537);

	memset(large, 'k', 65536);
	large[65536] = '\0';
	put(map, MINIRUN, 0, 1, "");
	put(map, MINIRUN, 1, 2, large);
	assert_entry(map, MINIRUN, 0, 1, "");
	assert_entry(map, MINIRUN, 1, 2, large);
	free(large);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(ranks_move_down_when_one_is_removed)
{
	struct wn_revmap *map = make_map(true);

	put(map, MINIRUN, 0, 10, "a");
	put(map, MINIRUN, 1, 11, "b");
	put(map, MINIRUN + 1, 0, 20, "other");
	put(map, MINIRUN, 2, 12, "c");
	ck_assert_int_eq(wn_revmap_remove(map, MINIRUN, 3), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn_revmap_remove(map, MINIRUN, 1), 0);
	assert_entry(map, MINIRUN, 0, 10, "a");
	assert_entry(map, MINIRUN, 1, 12, "c");
	assert_absent(map, MINIRUN, 2);
	assert_entry(map, MINIRUN + 1, 0, 20, "other");
	put(map, MINIRUN, 2, 13, "d");
	ck_assert_int_eq(wn_revmap_remove(map, MINIRUN, 0), 0);
	assert_entry(map, MINIRUN, 0, 12, "c");
	assert_entry(map, MINIRUN, 1, 13, "d");
	ck_assert_uint_eq(wn_revmap_count(map), 3);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(find_wants_equal_hash_and_equal_bytes)
{
	struct wn_revmap *map = make_map(true);
	struct wn_revmap_entry wanted;
	uint32_t rank;

	put(map, MINIRUN, 0, 1, "a");
	put(map, MINIRUN, 1, 1, "b"); /* another key of the same hash */
	put(map, MINIRUN, 2, 2, "a");
	wanted = make_entry(1, "b");
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), 0);
	ck_assert_uint_eq(rank, 1);
	wanted = make_entry(2, "a");
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), 0);
	ck_assert_uint_eq(rank, 2);
	wanted = make_entry(1, NULL); /* by hash alone: the first */
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), 0);
	ck_assert_uint_eq(rank, 0);
	wanted = make_entry(1, "bb");
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), WN_ERR_NOT_FOUND);
	wanted = make_entry(2, "b");
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), WN_ERR_NOT_FOUND);
	wanted = make_entry(1, "a");
	wanted.hash.lo ^= 1; /* half a hash is not enough */
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), WN_ERR_NOT_FOUND);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(without_keys_equal_hashes_are_the_same_key)
{
	struct wn_revmap *map = make_map(false);
	struct wn_revmap_entry wanted = make_entry(1, "another");
	uint32_t rank;

	put(map, MINIRUN, 0, 1, "key");
	ck_assert_int_eq(wn_revmap_find(map, MINIRUN, &wanted, &rank), 0);
	ck_assert_uint_eq(rank, 0);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(fetch_gives_the_stored_hash)
{
	struct wn_revmap *map = make_map(false);
	wn_fetch_fn *fetch = wn_revmap_fetch;
	struct wn_hash hash;

	put(map, MINIRUN, 0, 5, NULL);
	ck_assert_int_eq(fetch(map, MINIRUN, 0, &hash), 0);
	ck_assert_uint_eq(hash.hi, 5);
	ck_assert_uint_eq(hash.lo, ~UINT64_C(5));
	ck_assert_int_eq(fetch(map, MINIRUN, 1, &hash), WN_ERR_NOT_FOUND);
	wn_revmap_destroy(map);
}
END_TEST

/* ---- walking ------------------------------------------------------------ */

#define WALK_MINIRUNS 1000

struct walk {
	uint32_t next_rank[WALK_MINIRUNS];
	uint64_t visits;
	uint64_t stop_after;
};

static int visit_in_order(void *arg, uint64_t minirun, uint32_t rank,
			  const struct wn_revmap_entry *entry)
{
	struct walk *walk = arg;

	ck_assert_uint_lt(minirun, WALK_MINIRUNS);
	ck_assert_uint_eq(rank, walk->next_rank[minirun]++);
	ck_assert_uint_eq(entry->hash.hi, minirun * 10 + rank);
	return ++walk->visits == walk->stop_after ? 77 : 0;
}

START_TEST(a_walk_sees_every_entry_in_rank_order)
{
	struct wn_revmap *map = make_map(_i);
	static struct walk walk;
	uint64_t total = 0;

	for (uint32_t rank = 0; rank < 5; rank++)
		for (uint64_t minirun = 0; minirun < WALK_MINIRUNS; minirun++)
			if (minirun % 5 >= rank) {
				put(map, minirun, rank, minirun * 10 + rank, "key");
				total++;
			}
	memset(&walk, 0, sizeof(walk));
	ck_assert_int_eq(wn_revmap_visit(map, visit_in_order, &walk), 0);
	ck_assert_uint_eq(walk.visits, total);
	ck_assert_uint_eq(wn_revmap_count(map), total);
	for (uint32_t minirun = 0; minirun < WALK_MINIRUNS; minirun++)
		ck_assert_uint_eq(walk.next_rank[minirun], minirun % 5 + 1);
	memset(&walk, 0, sizeof(walk));
	walk.stop_after = 3;
	ck_assert_int_eq(wn_revmap_visit(map, visit_in_order, &walk), 77);
	ck_assert_uint_eq(walk.visits, 3);
	wn_revmap_destroy(map);
}
END_TEST

/* ---- whole maps --------------------------------------------------------- */

START_TEST(a_cleared_map_can_be_used_again)
{
	struct wn_revmap *map = make_map(_i);
	const char *key = _i ? "key" : NULL;

	for (uint64_t i = 0; i < 100; i++)
		put(map, i, 0, i, "key");
	wn_revmap_clear(map);
	ck_assert_uint_eq(wn_revmap_count(map), 0);
	assert_absent(map, 5, 0);
	put(map, 5, 0, 6, "key");
	assert_entry(map, 5, 0, 6, key);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(a_map_made_like_another_can_change_places_with_it)
{
	struct wn_revmap *map = make_map(_i);
	const char *key = _i ? "key" : NULL;
	struct wn_revmap *like;

	put(map, 1, 0, 11, "key");
	ck_assert_int_eq(wn_revmap_create_like(map, &like), 0);
	ck_assert_uint_eq(wn_revmap_count(like), 0);
	ck_assert_int_eq(like->keeps_keys, map->keeps_keys);
	put(like, 2, 0, 22, "key");
	put(like, 2, 1, 23, "key");
	ck_assert_int_eq(wn_revmap_swap(map, like), 0);
	ck_assert_uint_eq(wn_revmap_count(map), 2);
	assert_entry(map, 2, 1, 23, key);
	assert_absent(map, 1, 0);
	assert_entry(like, 1, 0, 11, key);
	wn_revmap_destroy(like);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(maps_of_two_kinds_do_not_change_places)
{
	struct wn_revmap *keys = make_map(true);
	struct wn_revmap *hashes = make_map(false);

	put(keys, 1, 0, 11, "key");
	ck_assert_int_eq(wn_revmap_swap(keys, hashes), WN_ERR_MISMATCH);
	assert_entry(keys, 1, 0, 11, "key");
	wn_revmap_destroy(keys);
	wn_revmap_destroy(hashes);
}
END_TEST

START_TEST(a_store_that_cannot_be_rewritten_says_so)
{
	static const struct wn_revmap_ops fixed_ops = {.put = NULL};
	struct wn_revmap map = {.ops = &fixed_ops};
	struct wn_revmap *like;

	ck_assert_int_eq(wn_revmap_create_like(&map, &like), WN_ERR_READONLY);
	ck_assert_ptr_null(like);
	ck_assert_int_eq(wn_revmap_swap(&map, &map), WN_ERR_READONLY);
}
END_TEST

/* ---- memory ------------------------------------------------------------- */

/* Put until the map holds `count` entries, every allocation failing once. */
static void fill_with_failures(struct wn_revmap *map, uint64_t count, uint64_t *failuresp)
{
	for (uint64_t done = 0; done < count; done++) {
		struct wn_revmap_entry entry = make_entry(done, "some key");
		uint64_t nth = 1;
		int err;

		do {
			wn__alloc_fail_at(nth++);
			err = wn_revmap_put(map, done / 3, (uint32_t)(done % 3), &entry);
			wn__alloc_fail_at(0);
			if (err) {
				++*failuresp;
				ck_assert_int_eq(err, ENOMEM);
				ck_assert_uint_eq(wn_revmap_count(map), done);
				assert_absent(map, done / 3, (uint32_t)(done % 3));
			}
		} while (err);
	}
}

START_TEST(a_put_without_memory_changes_nothing)
{
	struct wn_revmap *map = make_map(_i);
	uint64_t failures = 0;

	fill_with_failures(map, 200, &failures);
	ck_assert_uint_ge(failures, _i ? 200 : 8);
	for (uint64_t i = 0; i < 200; i++)
		assert_entry(map, i / 3, (uint32_t)(i % 3), i, _i ? "some key" : NULL);
	wn_revmap_destroy(map);
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn_revmap_memory_create(true, &map), ENOMEM);
	ck_assert_ptr_null(map);
	wn__alloc_fail_at(0);
}
END_TEST

START_TEST(removing_asks_for_no_memory)
{
	struct wn_revmap *map = make_map(_i);

	for (uint64_t i = 0; i < 300; i++)
		put(map, i / 3, (uint32_t)(i % 3), i, "key");
	wn__alloc_fail_at(0);
	for (uint64_t i = 0; i < 300; i++)
		ck_assert_int_eq(wn_revmap_remove(map, i / 3, 0), 0);
	ck_assert_uint_eq(wn__alloc_calls(), 0);
	ck_assert_uint_eq(wn_revmap_count(map), 0);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(hashes_alone_need_no_allocation_each)
{
	struct wn_revmap *map = make_map(false);

	wn__alloc_fail_at(0);
	for (uint64_t i = 0; i < 100000; i++)
		put(map, i, 0, i, NULL);
	ck_assert_uint_lt(wn__alloc_calls(), 100);
	wn_revmap_destroy(map);
}
END_TEST

START_TEST(the_room_of_removed_entries_is_used_again)
{
	struct wn_revmap *map = make_map(false);

	wn__alloc_fail_at(0);
	for (uint64_t i = 0; i < 100000; i++) {
		put(map, i, 0, i, NULL);
		if (i >= 10)
			ck_assert_int_eq(wn_revmap_remove(map, i - 10, 0), 0);
	}
	ck_assert_uint_le(wn__alloc_calls(), 2); /* one for buckets, one for entries */
	wn_revmap_destroy(map);
}
END_TEST

/* ---- against a model ---------------------------------------------------- */

#define MODEL_MINIRUNS 97
#define MODEL_RANKS 40

struct model {
	uint64_t numbers[MODEL_MINIRUNS][MODEL_RANKS];
	uint32_t lengths[MODEL_MINIRUNS];
	uint64_t count;
};

/* Far apart or close together: whatever ids a filter may make. */
static uint64_t model_id(uint64_t minirun)
{
	return minirun % 2 ? minirun : minirun << 55;
}

static void name_key(uint64_t number, char name[24])
{
	snprintf(name, 24, "%llu", (unsigned long long)number);
}

static void model_put(struct model *model, struct wn_revmap *map, uint64_t at, uint64_t number)
{
	uint32_t rank = model->lengths[at];
	char name[24];

	if (rank == MODEL_RANKS)
		return;
	name_key(number, name);
	put(map, model_id(at), rank, number, name);
	model->numbers[at][rank] = number;
	model->lengths[at]++;
	model->count++;
}

static void model_remove(struct model *model, struct wn_revmap *map, uint64_t at, uint32_t rank)
{
	uint64_t *numbers = model->numbers[at];

	if (rank >= model->lengths[at]) {
		ck_assert_int_eq(wn_revmap_remove(map, model_id(at), rank), WN_ERR_NOT_FOUND);
		return;
	}
	ck_assert_int_eq(wn_revmap_remove(map, model_id(at), rank), 0);
	model->lengths[at]--;
	model->count--;
	memmove(numbers + rank, numbers + rank + 1,
		(model->lengths[at] - rank) * sizeof(numbers[0]));
}

static void assert_as_model(const struct model *model, const struct wn_revmap *map)
{
	char name[24];

	ck_assert_uint_eq(wn_revmap_count(map), model->count);
	for (uint64_t at = 0; at < MODEL_MINIRUNS; at++) {
		for (uint32_t rank = 0; rank < model->lengths[at]; rank++) {
			name_key(model->numbers[at][rank], name);
			assert_entry(map, model_id(at), rank, model->numbers[at][rank],
				     map->keeps_keys ? name : NULL);
		}
		assert_absent(map, model_id(at), model->lengths[at]);
	}
}

START_TEST(any_puts_and_removes_agree_with_a_model)
{
	static struct model model;
	struct wn_revmap *map = make_map(_i);
	uint64_t random = test_seed("reversemap", 20240611);

	memset(&model, 0, sizeof(model));
	for (uint64_t step = 0; step < 60000; step++) {
		uint64_t at = test_random(&random) % MODEL_MINIRUNS;
		/* Seasons of growing and of falling. */
		uint64_t puts = step / 5000 % 2 ? 3 : 7;

		if (test_random(&random) % 10 < puts)
			model_put(&model, map, at, step);
		else
			model_remove(&model, map, at,
				     (uint32_t)(test_random(&random) % (model.lengths[at] + 1)));
		if (step % 1000 == 999)
			assert_as_model(&model, map);
	}
	wn_revmap_destroy(map);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reversemap");
	TCase *tests = tcase_create("memory");

	suite_add_tcase(suite, tests);
	/* Loops: 0 without keys, 1 with. */
	tcase_add_loop_test(tests, a_new_map_is_empty, 0, 2);
	tcase_add_test(tests, an_entry_comes_back_as_it_was_put);
	tcase_add_loop_test(tests, a_rank_that_is_not_the_next_is_refused, 0, 2);
	tcase_add_test(tests, a_map_of_keys_wants_keys);
	tcase_add_test(tests, empty_and_large_keys_are_keys);
	tcase_add_test(tests, ranks_move_down_when_one_is_removed);
	tcase_add_test(tests, find_wants_equal_hash_and_equal_bytes);
	tcase_add_test(tests, without_keys_equal_hashes_are_the_same_key);
	tcase_add_test(tests, fetch_gives_the_stored_hash);
	tcase_add_loop_test(tests, a_walk_sees_every_entry_in_rank_order, 0, 2);
	tcase_add_loop_test(tests, a_cleared_map_can_be_used_again, 0, 2);
	tcase_add_loop_test(tests, a_map_made_like_another_can_change_places_with_it, 0, 2);
	tcase_add_test(tests, maps_of_two_kinds_do_not_change_places);
	tcase_add_test(tests, a_store_that_cannot_be_rewritten_says_so);
	tcase_add_loop_test(tests, a_put_without_memory_changes_nothing, 0, 2);
	tcase_add_loop_test(tests, removing_asks_for_no_memory, 0, 2);
	tcase_add_test(tests, hashes_alone_need_no_allocation_each);
	tcase_add_test(tests, the_room_of_removed_entries_is_used_again);
	tcase_add_loop_test(tests, any_puts_and_removes_agree_with_a_model, 0, 2);
	return test_run(suite);
}
