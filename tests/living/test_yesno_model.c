/* test_yesno_model.c - YES/NO lists against an exact model, shared by threads, and with memory
 * and stores that fail. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "living/yesno_internal.h"
#include "tests/support/faulty_map.h"
#include "tests/support/yesno.h"

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
		readers.hashes[n] = wn_hash_key(secret, &n, sizeof(n));
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
	Suite *suite = suite_create("yesno_model");
	TCase *faults = tcase_create("faults");
	TCase *model = tcase_create("model");

	suite_add_tcase(suite, faults);
	suite_add_tcase(suite, model);
	tcase_add_loop_test(faults, a_change_without_memory_changes_nothing, 0, 3);
	tcase_add_loop_test(faults, a_change_that_the_store_refuses_changes_nothing, 0, 3);
	tcase_add_test(faults, creating_without_memory_leaves_nothing_behind);
	tcase_add_loop_test(model, any_operations_agree_with_exact_lists, 0, 20);
	tcase_add_test(model, items_that_stay_answer_right_while_others_come_and_go);
	return test_run(suite);
}
