/* test_registry.c - lessons of many filters: readers that come and go, and the budget. */
#include "tests/support/lessons.h"

/* ---- coming and going --------------------------------------------------- */

START_TEST(lessons_survive_their_readers_and_nothing_else_does)
{
	uint64_t random = test_seed("churn", 40);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons;
	struct wn_hash fixed[300];
	uint64_t before;

	lessons = acquire(registry, &frozen);
	teach_some(&frozen, lessons, 300, &random, fixed);
	before = stats_of(registry).bytes;
	wn__lessons_release(lessons);
	/* Old directories were kept for the reader. */
	ck_assert_uint_lt(stats_of(registry).bytes, before);
	before = stats_of(registry).bytes;
	for (uint32_t i = 0; i < 20000; i++) {
		unsigned char id[WN_BLOCK_ID_SIZE] = {0};

		memcpy(id + 4, &i, sizeof(i));
		expect(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9}, &lessons) ==
		       0);
		wn__lessons_release(lessons);
	}
	ck_assert_uint_eq(stats_of(registry).bytes, before);
	lessons = acquire(registry, &frozen);
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 300), 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(many_readers_are_open_at_once)
{
	enum { READERS = 5000 };
	static struct wn__lessons *lessons[READERS];
	struct wn__registry *registry = new_registry(0);

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < READERS; i++) {
			unsigned char id[WN_BLOCK_ID_SIZE] = {0};
			struct wn__lessons *again;

			memcpy(id, &i, sizeof(i));
			expect(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9},
						   &lessons[i]) == 0);
			expect(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9},
						   &again) == 0);
			expect(again == lessons[i]);
			wn__lessons_release(again);
		}
		for (uint32_t i = 0; i < READERS; i++)
			wn__lessons_release(lessons[i]);
	}
	wn__registry_destroy(registry);
}
END_TEST

START_TEST(a_forgotten_filter_keeps_its_lessons_while_it_is_read)
{
	uint64_t random = test_seed("forget", 41);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen), *fresh;
	struct wn_hash fixed[300], query;
	struct wn_match match;

	teach_some(&frozen, lessons, 300, &random, fixed);
	wn__registry_forget(registry, frozen.filter->info.id);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).filters, 0);
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 300), 0);
	do
		query = frozen_false_positive(&frozen, &random);
	while (!wn__filter_query_learned(frozen.filter, lessons, query, &match));
	ck_assert_int_eq(wn__lessons_learn(lessons, frozen_stored(&frozen, &match),
					  query, &match), WN_ERR_NOT_FOUND);
	fresh = acquire(registry, &frozen);
	ck_assert_ptr_ne(fresh, lessons);
	ck_assert_uint_eq(count_positives(&frozen, fresh, fixed, 300), 300);
	frozen_teach(&frozen, fresh, query);
	wn__lessons_release(lessons);
	ck_assert(!wn__filter_query_learned(frozen.filter, fresh, query, NULL));
	wn__lessons_release(fresh);
	wn__registry_forget(registry, frozen.filter->info.id);
	wn__registry_forget(registry, frozen.filter->info.id);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(readers_outlive_the_registry)
{
	uint64_t random = test_seed("outlive", 42);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *one = acquire(registry, &frozen), *two = acquire(registry, &frozen);
	struct wn_hash fixed[300];

	teach_some(&frozen, one, 300, &random, fixed);
	wn__registry_destroy(registry);
	ck_assert_uint_eq(count_positives(&frozen, one, fixed, 300), 0);
	wn__lessons_release(one);
	ck_assert_uint_eq(count_positives(&frozen, two, fixed, 300), 0);
	frozen_expect_all_keys(&frozen, two);
	wn__lessons_release(two);
	frozen_destroy(&frozen);
}
END_TEST

/* ---- the budget --------------------------------------------------------- */

/* What is acquired is in use. */
static void warm(struct shelf_of_filters *shelf, int i)
{
	wn__lessons_release(acquire(shelf->registry, &shelf->frozen[i]));
}

/* 400 lessons take some 10 KB: the budget holds four filters. */
START_TEST(past_the_budget_the_coldest_filter_is_dropped)
{
	static struct shelf_of_filters shelf;

	set_up(&shelf, BUDGET);
	for (int i = 0; i < 3; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_uint_eq(stats_of(shelf.registry).dropped_filters, 0);
	warm(&shelf, 0);
	for (int i = 3; i < FILTERS && stats_of(shelf.registry).dropped_filters == 0; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_uint_eq(stats_of(shelf.registry).dropped_filters, 1);
	ck_assert_uint_ge(stats_of(shelf.registry).dropped_lessons, 200);
	ck_assert(has_lessons(&shelf, 0));
	ck_assert(!has_lessons(&shelf, 1));
	ck_assert(has_lessons(&shelf, 2));
	ck_assert_uint_le(stats_of(shelf.registry).bytes, BUDGET);
	for (int i = 0; i < FILTERS; i++)
		frozen_expect_all_keys(&shelf.frozen[i], shelf.lessons[i]);
	/* And it may learn again, at another's cost. */
	teach_some(&shelf.frozen[1], shelf.lessons[1], 400, &shelf.random, shelf.fixed[1]);
	ck_assert(has_lessons(&shelf, 1));
	tear_down(&shelf);
}
END_TEST

START_TEST(what_nobody_reads_can_be_dropped_too)
{
	static struct shelf_of_filters shelf;
	struct wn__registry_stats stats;

	set_up(&shelf, BUDGET);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FILTERS; i++) {
			teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random,
				   shelf.fixed[i]);
			ck_assert(has_lessons(&shelf, i));
			wn__lessons_release(shelf.lessons[i]);
			shelf.lessons[i] = NULL;
			if (i > 0)
				shelf.lessons[i - 1] =
					acquire(shelf.registry, &shelf.frozen[i - 1]);
		}
		shelf.lessons[FILTERS - 1] = acquire(shelf.registry, &shelf.frozen[FILTERS - 1]);
	}
	stats = stats_of(shelf.registry);
	ck_assert_uint_gt(stats.dropped_filters, FILTERS);
	ck_assert_uint_lt(stats.filters, FILTERS);
	ck_assert_uint_le(stats.bytes, BUDGET);
	ck_assert_uint_eq(stats.refused, 0);
	for (int i = 0; i < FILTERS; i++)
		frozen_expect_all_keys(&shelf.frozen[i], shelf.lessons[i]);
	tear_down(&shelf);
}
END_TEST

START_TEST(a_filter_that_outgrows_the_budget_starts_over)
{
	uint64_t random = test_seed("alone", 51);
	struct frozen_filter frozen = frozen_make(20000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(BUDGET);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	struct wn_hash query;

	for (int i = 0; i < 20000; i++) {
		query = frozen_false_positive(&frozen, &random);
		frozen_teach(&frozen, lessons, query);
		expect(!wn__filter_query_learned(frozen.filter, lessons, query, NULL));
	}
	ck_assert_uint_gt(stats_of(registry).dropped_filters, 1);
	ck_assert_uint_eq(stats_of(registry).filters, 1);
	ck_assert_uint_eq(stats_of(registry).refused, 0);
	ck_assert_uint_le(stats_of(registry).bytes, BUDGET);
	frozen_expect_all_keys(&frozen, lessons);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

/* ---- every budget, all the time ----------------------------------------- */

/* The library's own smallest useful one is among them. */
static const size_t budgets[] = {1, 4 << 10, 16 << 10, (32 << 10) - 1, 32 << 10, 40 << 10,
				 100 << 10, 100 << 10 | 13, 1 << 20, 4 << 20};

#define BUDGETS (sizeof(budgets) / sizeof(budgets[0]))
#define READERS 4000

static struct wn__lessons *acquire_number(struct wn__registry *registry, uint64_t number)
{
	unsigned char id[WN_BLOCK_ID_SIZE] = {0};
	struct wn__lessons *lessons;
	int err;

	put_le64(id, number * UINT64_C(0x9e3779b97f4a7c15));
	err = wn__registry_acquire(registry, id, (struct wn__shape){1000000, 9}, &lessons);
	expect(err == 0 || err == WN_ERR_FULL);
	expect((err == 0) == (lessons != NULL));
	return lessons;
}

/* A lesson on a place of its own; NULL is fine. */
static void learn_anything(struct wn__lessons *lessons, uint64_t *random)
{
	uint64_t minirun = test_random(random) >> 36;
	int err = 0;

	if (lessons)
		err = wn__lessons_add(lessons, minirun, wn__lesson_word(0, 0, minirun & 0xff),
				      false);
	expect(err == 0 || err == WN_ERR_FULL);
}

static void expect_within(struct wn__registry *registry, size_t budget)
{
	expect(stats_of(registry).bytes <= budget);
}

/* Thousands of readers come and go, some learn, and what changed is taken now and then. */
START_TEST(memory_is_within_the_budget_at_any_time)
{
	uint64_t random = test_seed("any time", 53);
	struct wn__registry *registry = new_registry(budgets[_i]);
	static struct wn__lessons *open[READERS];
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t number = test_random(&random) % READERS;

		if (open[number] && i % 3 == 0) {
			wn__lessons_release(open[number]);
			open[number] = NULL;
		} else if (!open[number]) {
			open[number] = acquire_number(registry, number);
		}
		expect_within(registry, budgets[_i]);
		learn_anything(open[i % 2 ? number : number % 8], &random);
		expect_within(registry, budgets[_i]);
		if (i % 1000 == 999) {
			wn__registry_take_changes(registry, &bytes, &size);
			free(bytes);
			expect_within(registry, budgets[_i]);
		}
	}
	/* All that learn anything learn something. */
	ck_assert((stats_of(registry).lessons > 0) == (budgets[_i] >= WN__REGISTRY_MIN_BUDGET));
	if (budgets[_i] <= 100 << 10)
		ck_assert_uint_gt(stats_of(registry).refused_readers, 0);
	else if (budgets[_i] >= 4 << 20)
		ck_assert_uint_eq(stats_of(registry).refused_readers, 0);
	for (unsigned i = 0; i < READERS; i++)
		wn__lessons_release(open[i]);
	expect_within(registry, budgets[_i]);
	wn__registry_destroy(registry);
}
END_TEST

/* Its directory doubles and doubles, and so does the list of changes. */
START_TEST(one_filter_alone_is_within_the_budget)
{
	uint64_t random = test_seed("one alone", 54);
	struct wn__registry *registry = new_registry(budgets[_i]);
	struct wn__lessons *lessons = acquire_number(registry, 1);
	uint64_t most = 0;

	wn__registry_track(registry);
	for (unsigned i = 0; i < 300000; i++) {
		learn_anything(lessons, &random);
		expect_within(registry, budgets[_i]);
		most = stats_of(registry).lessons > most ? stats_of(registry).lessons : most;
	}
	fprintf(stderr, "%zu bytes: up to %" PRIu64 " lessons, %" PRIu64 " dropped, %" PRIu64
		" refused\n", budgets[_i], most, stats_of(registry).dropped_lessons,
		stats_of(registry).refused);
	/* 16 bytes each, in pages two thirds full; and half of the smallest budgets is slabs. */
	if (budgets[_i] >= WN__REGISTRY_MIN_BUDGET)
		ck_assert_uint_gt(most, budgets[_i] / 75);
	ck_assert_uint_eq(stats_of(registry).refused, 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
}
END_TEST

/* Nothing is dropped before it has to be. */
START_TEST(within_the_budget_nothing_is_dropped)
{
	uint64_t random = test_seed("within", 55);
	struct wn__registry *registry = new_registry(100 << 10);
	struct wn__lessons *open[20];

	wn__registry_track(registry);
	for (unsigned i = 0; i < 20; i++)
		open[i] = acquire_number(registry, i);
	for (unsigned i = 0; i < 20 * 70; i++)
		learn_anything(open[i % 20], &random);
	ck_assert_uint_gt(stats_of(registry).bytes, 50 << 10);
	ck_assert_uint_eq(stats_of(registry).dropped_lessons, 0);
	ck_assert_uint_eq(stats_of(registry).refused, 0);
	ck_assert_uint_eq(stats_of(registry).refused_readers, 0);
	for (unsigned i = 0; i < 20; i++)
		wn__lessons_release(open[i]);
	wn__registry_destroy(registry);
}
END_TEST

/* What nobody reads makes room for those who want to read. */
START_TEST(a_new_reader_comes_before_lessons_that_nobody_reads)
{
	uint64_t random = test_seed("before", 56);
	struct wn__registry *registry = new_registry(64 << 10);
	static struct wn__lessons *open[READERS];
	unsigned count = 0;

	for (unsigned i = 0; i < READERS; i++) {
		struct wn__lessons *lessons = acquire_number(registry, READERS + i);

		learn_anything(lessons, &random);
		wn__lessons_release(lessons);
	}
	ck_assert_uint_gt(stats_of(registry).filters, 10);
	while (count < READERS && (open[count] = acquire_number(registry, count)))
		count++;
	ck_assert_uint_gt(count, 80);
	ck_assert_uint_lt(count, READERS);
	ck_assert_uint_eq(stats_of(registry).filters, 0);
	/* Those that are open can still learn. */
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(wn__lessons_add(open[i], i, wn__lesson_of_count(0), false), 0);
	ck_assert_uint_eq(stats_of(registry).lessons, 5);
	expect_within(registry, 64 << 10);
	for (unsigned i = 0; i < count; i++)
		wn__lessons_release(open[i]);
	wn__registry_destroy(registry);
}
END_TEST

START_TEST(a_budget_for_nothing_learns_nothing)
{
	uint64_t random = test_seed("nothing", 52);
	struct frozen_filter frozen = frozen_make(1000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(1);
	struct wn__lessons *lessons;

	ck_assert_int_eq(wn__filter_lessons(registry, frozen.filter, &lessons), WN_ERR_FULL);
	ck_assert_ptr_null(lessons);
	ck_assert_uint_eq(stats_of(registry).refused_readers, 1);
	ck_assert_uint_eq(stats_of(registry).bytes, 0);
	ck_assert(wn__filter_query_learned(frozen.filter, lessons,
					   frozen_false_positive(&frozen, &random), NULL));
	frozen_expect_all_keys(&frozen, lessons);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

START_TEST(only_filters_that_are_named_are_retained)
{
	static struct shelf_of_filters shelf;
	unsigned char ids[2][WN_BLOCK_ID_SIZE];

	set_up(&shelf, 0);
	for (int i = 0; i < FILTERS; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	memcpy(ids[0], shelf.frozen[1].filter->info.id, WN_BLOCK_ID_SIZE);
	memcpy(ids[1], shelf.frozen[3].filter->info.id, WN_BLOCK_ID_SIZE);
	qsort(ids, 2, sizeof(ids[0]), compare_ids);
	ck_assert_uint_eq(wn__registry_retain(shelf.registry,
					     (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, 2),
			  FILTERS - 2);
	ck_assert_uint_eq(stats_of(shelf.registry).filters, 2);
	for (int i = 0; i < FILTERS; i++) {
		wn__lessons_release(shelf.lessons[i]);
		shelf.lessons[i] = acquire(shelf.registry, &shelf.frozen[i]);
		ck_assert(has_lessons(&shelf, i) == (i == 1 || i == 3));
	}
	tear_down(&shelf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("registry");
	TCase *tests = tcase_create("registry");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, lessons_survive_their_readers_and_nothing_else_does);
	tcase_add_test(tests, many_readers_are_open_at_once);
	tcase_add_test(tests, a_forgotten_filter_keeps_its_lessons_while_it_is_read);
	tcase_add_test(tests, readers_outlive_the_registry);
	tcase_add_test(tests, past_the_budget_the_coldest_filter_is_dropped);
	tcase_add_test(tests, what_nobody_reads_can_be_dropped_too);
	tcase_add_test(tests, a_filter_that_outgrows_the_budget_starts_over);
	tcase_add_test(tests, a_budget_for_nothing_learns_nothing);
	tcase_add_loop_test(tests, memory_is_within_the_budget_at_any_time, 0, BUDGETS);
	tcase_add_loop_test(tests, one_filter_alone_is_within_the_budget, 0, BUDGETS);
	tcase_add_test(tests, within_the_budget_nothing_is_dropped);
	tcase_add_test(tests, a_new_reader_comes_before_lessons_that_nobody_reads);
	tcase_add_test(tests, only_filters_that_are_named_are_retained);
	return test_run(suite);
}
