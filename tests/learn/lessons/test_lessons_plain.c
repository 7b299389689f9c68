/* test_lessons_plain.c - lessons of filters without fingerprints. */
#include "base/sort.h"
#include "tests/support/lessons.h"

static uint64_t crowd_minirun(struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, crowded.slots);

	return print.quotient << crowded.remainder_bits |
	       print.hi >> (64 - crowded.remainder_bits);
}

static bool crowd_denies(const struct wn__lessons *lessons, struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, crowded.slots);
	wn__u128 tail = ((wn__u128)print.hi << 64 | print.lo) << crowded.remainder_bits;

	return wn__lessons_refute_minirun(lessons, crowd_minirun(hash),
					  (struct wn__tail){(uint64_t)(tail >> 64),
							    (uint64_t)tail});
}

/* The keys of the query's minirun. */
static uint32_t find_crowd(const struct wn_hash *keys, struct wn_hash query, struct wn_hash *stored)
{
	uint32_t count = 0;

	for (size_t i = 0; i < CROWD; i++)
		if (crowd_minirun(keys[i]) == crowd_minirun(query))
			stored[count++] = keys[i];
	return count;
}

static void make_crowd(struct wn_hash *keys, uint64_t *random)
{
	for (size_t i = 0; i < CROWD; i++)
		keys[i] = test_random_hash(random);
	ck_assert_int_eq(wn__sort_hashes(keys, CROWD), 0);
}

static void expect_crowd(const struct wn__lessons *lessons, const struct wn_hash *keys)
{
	for (size_t i = 0; i < CROWD; i++)
		expect(!crowd_denies(lessons, keys[i]));
}

START_TEST(a_query_is_denied_when_every_key_of_its_minirun_is_told_from_it)
{
	uint64_t random = test_seed("crowd", 80);
	struct wn__registry *registry = new_registry(0), *other = new_registry(0);
	struct wn__lessons *lessons = acquire_crowd(registry), *loaded;
	struct wn_hash keys[CROWD], stored[CROWD];
	uint64_t most = 0;
	void *bytes;
	size_t size;

	make_crowd(keys, &random);
	for (int i = 0; i < 5000; i++) {
		/* Some differ from a stored key in its last bits only. */
		struct wn_hash query = i % 5 ? test_random_hash(&random) : keys[i % CROWD];
		uint32_t count;

		query.lo ^= i % 5 == 0;
		count = find_crowd(keys, query, stored);
		most = count > most ? count : most;
		expect(wn__lessons_learn_minirun(lessons, stored, count, query,
						 crowd_minirun(query)) == 0);
		expect(crowd_denies(lessons, query));
	}
	ck_assert_uint_gt(most, 3);
	expect_crowd(lessons, keys);
	for (int i = 0; i < CROWD; i++) {
		uint32_t count = find_crowd(keys, keys[i], stored);

		expect(wn__lessons_learn_minirun(lessons, stored, count, keys[i],
						 crowd_minirun(keys[i])) == WN_ERR_UNFIXABLE);
		expect(wn__lessons_learn_minirun(lessons, stored, count, keys[i],
						 crowd_minirun(keys[i]) + 1) == WN_ERR_MISMATCH);
	}
	expect_crowd(lessons, keys);
	/* Saved, and loaded. */
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	loaded = acquire_crowd(other);
	expect_crowd(loaded, keys);
	for (int i = 0; i < 5000; i++) {
		struct wn_hash query = test_random_hash(&random);

		expect(crowd_denies(loaded, query) == crowd_denies(lessons, query));
	}
	ck_assert_uint_eq(stats_of(other).lessons, stats_of(registry).lessons);
	free(bytes);
	wn__lessons_release(lessons);
	wn__lessons_release(loaded);
	wn__registry_destroy(registry);
	wn__registry_destroy(other);
}
END_TEST

/* The number of keys without all pieces, or pieces without the number, say nothing. */
START_TEST(half_of_the_lessons_deny_nothing)
{
	uint64_t random = test_seed("half", 81);
	struct wn_hash keys[CROWD], stored[CROWD], query;
	uint32_t count;

	make_crowd(keys, &random);
	do {
		query = test_random_hash(&random);
		count = find_crowd(keys, query, stored);
	} while (count < 3);
	for (uint32_t left_out = 0; left_out <= count; left_out++) {
		struct wn__registry *registry = new_registry(0);
		struct wn__lessons *lessons = acquire_crowd(registry);
		struct wn_match match = {.known = true, .minirun = crowd_minirun(query)};

		for (match.rank = 0; match.rank < count; match.rank++)
			if (match.rank != left_out)
				expect(wn__lessons_learn(lessons, stored[match.rank], query,
							 &match) == 0);
		expect(!crowd_denies(lessons, query));
		if (left_out < count)
			expect(wn__lessons_add(lessons, match.minirun, wn__lesson_of_count(count),
					       false) == 0);
		expect(!crowd_denies(lessons, query));
		match.rank = left_out;
		if (left_out < count)
			expect(wn__lessons_learn(lessons, stored[left_out], query, &match) == 0);
		else
			expect(wn__lessons_add(lessons, match.minirun, wn__lesson_of_count(count),
					       false) == 0);
		expect(crowd_denies(lessons, query));
		wn__lessons_release(lessons);
		wn__registry_destroy(registry);
	}
}
END_TEST

START_TEST(two_numbers_for_one_minirun_end_all_lessons)
{
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire_crowd(registry);

	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(0), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 6, wn__lesson_of_count(1), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(0), false), 0);
	ck_assert_uint_eq(stats_of(registry).lessons, 2);
	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(1), false),
			 WN_ERR_MISMATCH);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).distrusted, 1);
	ck_assert_int_eq(wn__lessons_add(lessons, 6, wn__lesson_of_count(1), false),
			 WN_ERR_MISMATCH);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lessons_plain");
	TCase *tests = tcase_create("lessons_plain");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_query_is_denied_when_every_key_of_its_minirun_is_told_from_it);
	tcase_add_test(tests, half_of_the_lessons_deny_nothing);
	tcase_add_test(tests, two_numbers_for_one_minirun_end_all_lessons);
	return test_run(suite);
}
