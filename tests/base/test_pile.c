/* test_pile.c - numbers that come in any order, in order, each once. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pile.h"
#include "base/sort.h"
#include "tests/support/common.h"

static const size_t counts[] = {
	0, 1, 2, 15, 16, 17, 510, 511, 512, 1021, 1022, 1023, 4096, 32703, 32704, 32705, 32767,
	32768, 32769, 33214, 33215, 33216, 33217, 100000,
};

enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

struct numbers {
	uint64_t *all;
	size_t count;
};

static struct numbers new_numbers(size_t count)
{
	struct numbers numbers = {malloc((count + 1) * sizeof(uint64_t)), count};

	ck_assert_ptr_nonnull(numbers.all);
	return numbers;
}

static struct numbers random_numbers(size_t count, uint64_t *random)
{
	struct numbers numbers = new_numbers(count);

	for (size_t i = 0; i < count; i++)
		numbers.all[i] = test_random(random);
	return numbers;
}

static void add_all(struct wn__pile *pile, struct numbers numbers)
{
	for (size_t i = 0; i < numbers.count; i++)
		expect(wn__pile_add(pile, numbers.all[i]) == 0);
}

/* The numbers ascending, each once, by qsort(). */
static struct numbers sort_by_hand(struct numbers numbers)
{
	struct numbers sorted = new_numbers(numbers.count);
	size_t kept = 0;

	if (numbers.count)
		memcpy(sorted.all, numbers.all, numbers.count * sizeof(*sorted.all));
	qsort(sorted.all, sorted.count, sizeof(*sorted.all), wn__compare_numbers);
	for (size_t i = 0; i < sorted.count; i++)
		if (i == 0 || sorted.all[i] != sorted.all[kept - 1])
			sorted.all[kept++] = sorted.all[i];
	sorted.count = kept;
	return sorted;
}

static size_t count_changes(struct numbers numbers)
{
	size_t changes = numbers.count > 0;

	for (size_t i = 1; i < numbers.count; i++)
		changes += numbers.all[i] != numbers.all[i - 1];
	return changes;
}

/* The pile holds these numbers, and keeps them. */
static void expect_sorted(const struct wn__pile *pile, struct numbers numbers)
{
	struct numbers wanted = sort_by_hand(numbers);

	expect(pile->count == count_changes(numbers));
	for (unsigned again = 0; again < 2; again++) {
		uint64_t *sorted;
		size_t count;

		ck_assert_int_eq(wn__pile_sort(pile, &sorted, &count), 0);
		ck_assert_ptr_nonnull(sorted);
		ck_assert_uint_eq(count, wanted.count);
		for (size_t i = 0; i < count; i++)
			if (sorted[i] != wanted.all[i])
				ck_abort_msg("number %zu of %zu is wrong", i, count);
		free(sorted);
	}
	free(wanted.all);
}

/* In a new pile, and in one that held something else. */
static void check_numbers(struct numbers numbers)
{
	struct wn__pile pile;

	wn__pile_init(&pile);
	add_all(&pile, numbers);
	expect_sorted(&pile, numbers);
	wn__pile_empty(&pile);
	ck_assert_uint_eq(pile.count, 0);
	ck_assert_uint_eq(pile.shift, 32); /* or small filters would pay for large ones */
	for (size_t i = 0; i < numbers.count / 2; i++)
		expect(wn__pile_add(&pile, ~numbers.all[i]) == 0);
	wn__pile_empty(&pile);
	add_all(&pile, numbers);
	expect_sorted(&pile, numbers);
	wn__pile_fini(&pile);
	free(numbers.all);
}

/* ---- evenly spread ------------------------------------------------------- */

START_TEST(random_numbers_come_in_order)
{
	uint64_t random = test_seed("pile", 20261119);

	check_numbers(random_numbers(counts[_i], &random));
}
END_TEST

START_TEST(all_counts_around_the_spread)
{
	uint64_t random = test_seed("pile", 20261119);
	size_t step = test_is_quick() ? 7 : 1;

	for (size_t count = 32690; count <= 32800; count += step)
		check_numbers(random_numbers(count, &random));
	for (size_t count = 33200; count <= 33230; count += step)
		check_numbers(random_numbers(count, &random));
}
END_TEST

START_TEST(a_million_numbers_come_in_order)
{
	uint64_t random = test_seed("pile", 20261119);

	check_numbers(random_numbers(test_is_quick() ? 300000 : 1000000, &random));
}
END_TEST

/* ---- repetitions ---------------------------------------------------------- */

START_TEST(repetitions_come_once)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(counts[_i], &random);

	/* In a row, and apart. */
	for (size_t i = 0; i < numbers.count; i++) {
		if (i > 0 && test_random(&random) % 3 == 0)
			numbers.all[i] = numbers.all[i - 1];
		else if (i > 0 && test_random(&random) % 3 == 0)
			numbers.all[i] = numbers.all[test_random(&random) % i];
	}
	check_numbers(numbers);
}
END_TEST

START_TEST(few_numbers_very_often_come_once)
{
	uint64_t random = test_seed("pile", 20261119);

	for (uint64_t different = 2; different <= 300; different *= 5) {
		struct numbers numbers = new_numbers(counts[_i]);
		uint64_t first = test_random(&random);

		for (size_t i = 0; i < numbers.count; i++)
			numbers.all[i] = first + (test_random(&random) % different << 50);
		check_numbers(numbers);
	}
}
END_TEST

START_TEST(one_number_is_one_however_often_it_comes)
{
	static const uint64_t values[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX};

	for (size_t value = 0; value < sizeof(values) / sizeof(values[0]); value++) {
		struct numbers numbers = new_numbers(counts[_i]);

		for (size_t i = 0; i < numbers.count; i++)
			numbers.all[i] = values[value];
		check_numbers(numbers);
	}
}
END_TEST

/* Nothing was added: a number that is 0 is not the last one. */
START_TEST(the_first_number_may_be_any)
{
	static const uint64_t values[] = {0, UINT64_MAX};
	struct wn__pile pile;

	wn__pile_init(&pile);
	for (unsigned i = 0; i < 4; i++) {
		struct numbers numbers = new_numbers(1);

		numbers.all[0] = values[i / 2];
		add_all(&pile, numbers);
		ck_assert_uint_eq(pile.count, 1);
		expect_sorted(&pile, numbers);
		wn__pile_empty(&pile);
		expect_sorted(&pile, (struct numbers){numbers.all, 0});
		free(numbers.all);
	}
	wn__pile_fini(&pile);
	wn__pile_fini(&pile);
}
END_TEST

/* ---- not evenly spread ---------------------------------------------------- */

START_TEST(ordered_numbers_come_in_order)
{
	size_t count = counts[_i];
	struct numbers up = new_numbers(count), down = new_numbers(count);
	struct numbers close = new_numbers(count);
	uint64_t step = count ? UINT64_MAX / count : 1;

	for (size_t i = 0; i < count; i++) {
		up.all[i] = i * step;
		down.all[i] = UINT64_MAX - i * step;
		close.all[i] = UINT64_MAX / 3 + i;
	}
	check_numbers(up);
	check_numbers(down);
	check_numbers(close);
}
END_TEST

/* All begin with these bits. */
static struct numbers crowd(size_t count, uint64_t begin, unsigned bits, uint64_t *random)
{
	struct numbers numbers = random_numbers(count, random);

	for (size_t i = 0; i < count; i++)
		numbers.all[i] = begin << (64 - bits) | numbers.all[i] >> bits;
	return numbers;
}

START_TEST(numbers_in_one_bucket_come_in_order)
{
	uint64_t random = test_seed("pile", 20261119);

	check_numbers(crowd(counts[_i], 0, 8, &random));
	check_numbers(crowd(counts[_i], 255, 8, &random));
	check_numbers(crowd(counts[_i], 77, 8, &random));
	/* In one place of it, and in one of no more than a few numbers. */
	check_numbers(crowd(counts[_i], 0x4d1234, 24, &random));
	check_numbers(crowd(counts[_i], UINT64_C(0x7123456789abc), 51, &random));
	check_numbers(crowd(counts[_i], UINT64_C(0xfffffffffffff), 52, &random));
}
END_TEST

START_TEST(half_in_a_thousandth_come_in_order)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(counts[_i], &random);

	for (size_t i = 0; i < numbers.count; i += 2)
		numbers.all[i] = UINT64_MAX / 3 + numbers.all[i] / 1000;
	check_numbers(numbers);
}
END_TEST

/* Every bucket is fuller in one place than chance allows, with as many others around: heap sort,
 * on inputs that it finds in all orders. */
START_TEST(crowds_in_all_buckets_come_in_order)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(counts[_i], &random);

	for (size_t i = 0; i < numbers.count; i++) {
		uint64_t bucket = numbers.all[i] & UINT64_C(0xff) << 56;

		if (i % 4 == 0)
			numbers.all[i] = bucket | i;
		else if (i % 4 == 1)
			numbers.all[i] = bucket | (numbers.count - i);
		else if (i % 4 == 2)
			numbers.all[i] = bucket | (numbers.all[i] & 1023);
	}
	check_numbers(numbers);
}
END_TEST

/* As many in one place as are still left to the insertion sort, and one and two more. */
START_TEST(places_just_full_enough_come_in_order)
{
	uint64_t random = test_seed("pile", 20261119);

	for (size_t crowded = 22; crowded <= 27; crowded++) {
		for (size_t count = 100; count <= 100000; count *= 10) {
			struct numbers numbers = random_numbers(count, &random);

			for (size_t i = 0; i < crowded; i++)
				numbers.all[i * 3] = UINT64_C(0x8000000000000000) | (crowded - i);
			check_numbers(numbers);
		}
	}
}
END_TEST

START_TEST(the_least_and_the_greatest_are_numbers)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(counts[_i], &random);

	for (size_t i = 0; i < numbers.count; i++) {
		uint64_t kind = test_random(&random) % 5;

		if (kind < 2)
			numbers.all[i] = kind ? UINT64_MAX : 0;
		else if (kind < 4)
			numbers.all[i] = kind % 2 ? UINT64_MAX - i : i;
	}
	check_numbers(numbers);
}
END_TEST

/* Sorting does not end a pile: more may come, and all are there. */
START_TEST(numbers_may_come_after_sorting)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(100000, &random);
	struct wn__pile pile;
	size_t added = 0;

	wn__pile_init(&pile);
	for (size_t i = 0; i < COUNTS; i++) {
		for (; added < counts[i]; added++)
			expect(wn__pile_add(&pile, numbers.all[added]) == 0);
		expect_sorted(&pile, (struct numbers){numbers.all, added});
	}
	wn__pile_fini(&pile);
	free(numbers.all);
}
END_TEST

/* ---- emptied, and used again ---------------------------------------------- */

START_TEST(an_emptied_pile_has_no_old_number_and_wants_no_new_memory)
{
	uint64_t random = test_seed("pile", 20261119);
	struct wn__pile pile;

	wn__pile_init(&pile);
	for (unsigned round = 0; round < 4; round++) {
		struct numbers numbers = random_numbers(counts[_i], &random);

		wn__alloc_fail_at(0);
		add_all(&pile, numbers);
		if (round > 0)
			ck_assert_uint_eq(wn__alloc_calls(), 0);
		expect_sorted(&pile, numbers);
		wn__pile_empty(&pile);
		wn__alloc_fail_at(0);
		/* Fewer, which stay in one bucket or not. */
		numbers.count /= 3;
		add_all(&pile, numbers);
		ck_assert_uint_eq(wn__alloc_calls(), 0);
		expect_sorted(&pile, numbers);
		wn__pile_empty(&pile);
		free(numbers.all);
	}
	expect_sorted(&pile, (struct numbers){NULL, 0});
	wn__pile_fini(&pile);
}
END_TEST

/* ---- no memory ------------------------------------------------------------ */

/* Each allocation that adding makes is refused once, and what was there is still there. */
static size_t add_refused(struct wn__pile *pile, struct numbers numbers, bool check)
{
	size_t refused = 0;

	for (size_t i = 0; i < numbers.count; i++) {
		for (uint64_t nth = 1;; nth++) {
			size_t count = pile->count;
			int err;

			wn__alloc_fail_at(nth);
			err = wn__pile_add(pile, numbers.all[i]);
			wn__alloc_fail_at(0);
			if (!err)
				break;
			refused++;
			ck_assert_int_eq(err, ENOMEM);
			ck_assert_uint_eq(pile->count, count);
			if (check)
				expect_sorted(pile, (struct numbers){numbers.all, i});
		}
	}
	return refused;
}

START_TEST(a_number_without_memory_changes_nothing)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(counts[_i], &random);
	struct wn__pile pile;

	wn__pile_init(&pile);
	/* Each slab asks for two. */
	ck_assert_uint_ge(add_refused(&pile, numbers, true), counts[_i] ? 2 : 0);
	expect_sorted(&pile, numbers);
	wn__pile_empty(&pile);
	ck_assert_uint_eq(add_refused(&pile, numbers, true), 0);
	expect_sorted(&pile, numbers);
	wn__pile_fini(&pile);
	free(numbers.all);
}
END_TEST

/* All that the spread asks for is refused, one after the other and again and again. */
START_TEST(a_spread_without_memory_changes_nothing)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(40000, &random);
	struct wn__pile pile;
	unsigned refused = 0;
	size_t at = 0;
	int err;

	wn__pile_init(&pile);
	while (pile.shift == 32) {
		for (uint64_t nth = 1;; nth++) {
			for (unsigned again = 0; again < 3; again++) {
				wn__alloc_fail_at(nth);
				err = wn__pile_add(&pile, numbers.all[at]);
				wn__alloc_fail_at(0);
				if (!err)
					break;
				ck_assert_int_eq(err, ENOMEM);
				if (at < 32768)
					continue;
				refused++;
				ck_assert_uint_eq(pile.shift, 32);
				expect_sorted(&pile, (struct numbers){numbers.all, at});
			}
			if (!err)
				break;
		}
		at++;
	}
	ck_assert_uint_ge(at, 32768);
	ck_assert_uint_ge(refused, 3);
	expect_sorted(&pile, (struct numbers){numbers.all, at});
	for (; at < numbers.count; at++)
		expect(wn__pile_add(&pile, numbers.all[at]) == 0);
	expect_sorted(&pile, numbers);
	wn__pile_fini(&pile);
	free(numbers.all);
}
END_TEST

START_TEST(a_sort_without_memory_keeps_the_numbers)
{
	uint64_t random = test_seed("pile", 20261119);
	struct numbers numbers = random_numbers(counts[_i], &random);
	struct wn__pile pile;
	uint64_t nth = 1;
	int err;

	wn__pile_init(&pile);
	add_all(&pile, numbers);
	do {
		uint64_t *sorted = (void *)1;
		size_t count = 1;

		wn__alloc_fail_at(nth++);
		err = wn__pile_sort(&pile, &sorted, &count);
		wn__alloc_fail_at(0);
		if (err) {
			ck_assert_int_eq(err, ENOMEM);
			ck_assert_ptr_null(sorted);
			ck_assert_uint_eq(count, 0);
			expect_sorted(&pile, numbers);
		} else {
			free(sorted);
		}
	} while (err);
	ck_assert_uint_gt(nth, 2);
	expect_sorted(&pile, numbers);
	wn__pile_fini(&pile);
	free(numbers.all);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pile");
	TCase *tests = tcase_create("pile");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, random_numbers_come_in_order, 0, COUNTS);
	tcase_add_test(tests, all_counts_around_the_spread);
	tcase_add_test(tests, a_million_numbers_come_in_order);
	tcase_add_loop_test(tests, repetitions_come_once, 0, COUNTS);
	tcase_add_loop_test(tests, few_numbers_very_often_come_once, 0, COUNTS);
	tcase_add_loop_test(tests, one_number_is_one_however_often_it_comes, 0, COUNTS);
	tcase_add_test(tests, the_first_number_may_be_any);
	tcase_add_loop_test(tests, ordered_numbers_come_in_order, 0, COUNTS);
	tcase_add_loop_test(tests, numbers_in_one_bucket_come_in_order, 0, COUNTS);
	tcase_add_loop_test(tests, half_in_a_thousandth_come_in_order, 0, COUNTS);
	tcase_add_loop_test(tests, crowds_in_all_buckets_come_in_order, 0, COUNTS);
	tcase_add_test(tests, places_just_full_enough_come_in_order);
	tcase_add_loop_test(tests, the_least_and_the_greatest_are_numbers, 0, COUNTS);
	tcase_add_test(tests, numbers_may_come_after_sorting);
	tcase_add_loop_test(tests, an_emptied_pile_has_no_old_number_and_wants_no_new_memory, 0,
			    COUNTS);
	tcase_add_loop_test(tests, a_number_without_memory_changes_nothing, 0, COUNTS);
	tcase_add_test(tests, a_spread_without_memory_changes_nothing);
	tcase_add_loop_test(tests, a_sort_without_memory_keeps_the_numbers, 0, COUNTS);
	return test_run(suite);
}
