/* Small filters: every key is found, whatever the number of keys; bytes that are not a whole
 * filter are survived; and what is around the filter's bits is as small as it is said to be. */
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "tests/support/common.h"
#include "kinds/aqf/aqf_small.h"
#include "learn/small_lessons.h"

struct filter {
	struct wn_hash *hashes;
	uint32_t count;
	unsigned char *bytes; /* exactly as long: sanitizers see a step too far */
	size_t size;
};

#define SECRET 0x2b1d5

static struct filter make_filter(uint32_t count, unsigned remainder_bits, uint64_t *random,
				 struct wn_hash (*choose)(uint64_t *random))
{
	struct filter filter = {malloc(count * sizeof(struct wn_hash)), count, NULL, 0};
	struct wn__small_parts parts = {.remainder_bits = remainder_bits, .secret_id = SECRET};

	for (uint32_t i = 0; i < count; i++)
		filter.hashes[i] = choose(random);
	filter.count = (uint32_t)wn__small_sort(filter.hashes, count);
	parts.hashes = filter.hashes;
	parts.count = filter.count;
	filter.size = wn__small_size(filter.count, remainder_bits);
	expect(filter.size > 0);
	filter.bytes = malloc(filter.size);
	wn__small_build(&parts, filter.bytes, filter.size);
	return filter;
}

static void free_filter(struct filter *filter)
{
	free(filter->hashes);
	free(filter->bytes);
}

/* All hashes in a narrow place: one bucket gets them all. */
static struct wn_hash choose_narrow(uint64_t *random)
{
	return (struct wn_hash){UINT64_C(0x7000000000000000) | test_random(random) >> 16,
				test_random(random)};
}

/* Half of them here, half of them anywhere: the directory is far off what is expected. */
static struct wn_hash choose_skewed(uint64_t *random)
{
	struct wn_hash hash = test_random_hash(random);

	if (hash.lo & 1)
		hash.hi >>= 4;
	return hash;
}

static struct wn__small open_filter(const unsigned char *bytes, size_t size)
{
	struct wn__small tiny;
	bool whole;

	expect(wn__small_claims(bytes, size, SECRET, &whole));
	expect(whole);
	expect(wn__small_open(bytes, size, &tiny));
	return tiny;
}

static bool refuses(const struct wn__small *tiny, struct wn_hash hash, bool fast)
{
	return fast && wn__cpu_is_fast() ? wn__small_refuses(tiny, hash, true) :
					   wn__small_refuses(tiny, hash, false);
}

static void check_keys(const struct filter *filter)
{
	struct wn__small tiny = open_filter(filter->bytes, filter->size);
	uint32_t count;

	for (uint32_t i = 0; i < filter->count; i++) {
		uint32_t indexes[64];
		bool named = false;
		int matches;

		expect(!refuses(&tiny, filter->hashes[i], false));
		expect(!refuses(&tiny, filter->hashes[i], true));
		matches = wn__small_matches(&tiny, filter->hashes[i], indexes, 64);
		expect(matches > 0);
		for (int j = 0; j < matches && j < 64; j++)
			named |= indexes[j] == i;
		expect(named || matches > 64);
	}
	expect(wn__small_check(&tiny, &count));
	expect(count == filter->count);
}

START_TEST(tiny_never_forgets_a_key)
{
	uint64_t random = test_seed("tiny_never_forgets_a_key", 1);

	for (uint32_t count = 1; count < 700; count += count < 80 ? 1 : 37)
		for (unsigned bits = 1; bits <= WN__SMALL_MAX_REMAINDER; bits++) {
			struct filter filter = make_filter(count, bits, &random, test_random_hash);

			check_keys(&filter);
			free_filter(&filter);
		}
	for (uint32_t count = 1000; count < 20000; count = count * 3 / 2) {
		struct filter filter = make_filter(count, 7, &random, test_random_hash);

		check_keys(&filter);
		free_filter(&filter);
	}
}
END_TEST

START_TEST(crafted_hashes_are_found_as_well)
{
	uint64_t random = test_seed("crafted_hashes_are_found_as_well", 2);

	for (uint32_t count = 1; count < 4000; count = count * 3 / 2 + 1)
		for (unsigned bits = 1; bits <= WN__SMALL_MAX_REMAINDER; bits += 3) {
			struct filter narrow = make_filter(count, bits, &random, choose_narrow);
			struct filter skewed = make_filter(count, bits, &random, choose_skewed);

			check_keys(&narrow);
			check_keys(&skewed);
			free_filter(&narrow);
			free_filter(&skewed);
		}
}
END_TEST

/* What the quick way refuses has no match, and mostly the other way round. */
START_TEST(the_quick_way_and_the_careful_one_agree)
{
	uint64_t random = test_seed("the_quick_way_and_the_careful_one_agree", 3);
	unsigned long doubts = 0, matches = 0, queries = 0;

	for (uint32_t count = 1; count < 5000; count = count * 4 / 3 + 1) {
		struct filter filter = make_filter(count, 7, &random, test_random_hash);
		struct wn__small tiny = open_filter(filter.bytes, filter.size);

		for (int i = 0; i < 2000; i++) {
			struct wn_hash query = test_random_hash(&random);
			uint32_t index;
			int found = wn__small_matches(&tiny, query, &index, 1);
			bool refused = refuses(&tiny, query, i % 2);

			expect(found >= 0);
			expect(!(found && refused));
			if (count >= 16) {
				matches += found > 0;
				doubts += !found && !refused;
				queries++;
			}
		}
		free_filter(&filter);
	}
	/* Three keys in four buckets, 128 remainders: 0.59%. */
	expect(matches > queries / 250 && matches < queries / 120);
	expect(doubts < queries / 100);
}
END_TEST

START_TEST(overhead_is_four_bytes_at_36_keys_and_twelve_at_2000)
{
	for (unsigned bits = 5; bits <= 12; bits++) {
		/* A remainder, a bit for the key, four thirds of a bit for the buckets; and from
		 * 64 buckets on an eighth of a bit for the directory. */
		double own = 36 * (bits + 1 + 4.0 / 3) / 8;

		ck_assert_double_le((double)wn__small_size(36, bits), own + 4 + 1);
		own = 2000 * (bits + 1 + 4.0 / 3 * 1.125 * 1.05) / 8;
		ck_assert_double_le((double)wn__small_size(2000, bits), own + 16);
	}
	/* As LevelDB's Bloom filter of 10 bits a key, and less. */
	ck_assert_uint_eq(wn__small_size(36, 7), 46);
	ck_assert_uint_le(wn__small_size(563, 7), 705);
	ck_assert_uint_le(wn__small_size(2000, 7), 2501);
}
END_TEST

START_TEST(filter_cut_anywhere_says_maybe)
{
	uint64_t random = test_seed("filter_cut_anywhere_says_maybe", 4);
	struct filter filter = make_filter(50, 7, &random, test_random_hash);

	for (size_t size = 0; size < filter.size; size++) {
		unsigned char *cut = malloc(size + !size);
		struct wn__small tiny;
		bool whole;

		memcpy(cut, filter.bytes, size);
		/* It is known as ours: LevelDB's own reader is never asked. */
		expect(wn__small_claims(cut, size, SECRET, &whole));
		if (whole && wn__small_open(cut, size, &tiny)) /* the last byte may look right */
			for (int i = 0; i < 200; i++) {
				struct wn_hash query = test_random_hash(&random);
				uint32_t index;

				refuses(&tiny, query, i % 2);
				wn__small_matches(&tiny, query, &index, 1);
			}
		free(cut);
	}
	free_filter(&filter);
}
END_TEST

/* Every bit of small filters, and random bytes: nothing outside the filter is touched, which a
 * sanitizer sees, and everything ends. */
START_TEST(damaged_filters_are_survived)
{
	uint64_t random = test_seed("damaged_filters_are_survived", 5);
	uint32_t counts[] = {1, 2, 15, 16, 36, 70, 600, 5000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct filter filter = make_filter(counts[i], 7, &random, test_random_hash);
		size_t bits = 8 * filter.size, step = bits < 6000 ? 1 : 1 + bits / 6000;

		for (size_t bit = 0; bit < bits; bit += step) {
			struct wn__small tiny;
			uint32_t index;
			bool whole;

			filter.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			if (wn__small_claims(filter.bytes, filter.size, SECRET, &whole) && whole &&
			    wn__small_open(filter.bytes, filter.size, &tiny))
				for (int j = 0; j < 20; j++) {
					struct wn_hash query = test_random_hash(&random);

					refuses(&tiny, query, j % 2);
					wn__small_matches(&tiny, query, &index, 1);
				}
			filter.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		free_filter(&filter);
	}
	for (int round = 0; round < (test_is_quick() ? 20000 : 200000); round++) {
		size_t size = WN__SMALL_LEAST_SIZE + test_random(&random) % 120;
		unsigned char *bytes = malloc(size);
		struct wn__small tiny;
		uint32_t index;

		for (size_t i = 0; i < size; i++)
			bytes[i] = (unsigned char)(round % 3 ? test_random(&random) :
							       (round % 2 ? 0xff : 0));
		bytes[size - 1] |= WN__SMALL_LAST;
		if (wn__small_open(bytes, size, &tiny))
			for (int j = 0; j < 4; j++) {
				struct wn_hash query = test_random_hash(&random);

				refuses(&tiny, query, j % 2);
				wn__small_matches(&tiny, query, &index, 1);
			}
		free(bytes);
	}
}
END_TEST

START_TEST(other_keys_or_another_salt_give_another_id)
{
	uint64_t random = test_seed("other_keys_or_another_salt_give_another_id", 6);
	struct filter filter = make_filter(36, 7, &random, test_random_hash);
	struct wn__small_id ids[WN__SMALL_SALTS];

	for (unsigned salt = 0; salt < WN__SMALL_SALTS; salt++) {
		struct wn__small_parts parts = {filter.hashes, 36, 7, SECRET, false, salt};

		wn__small_build(&parts, filter.bytes, filter.size);
		ids[salt] = wn__small_id(filter.bytes, filter.size);
		check_keys(&filter);
		for (unsigned i = 0; i < salt; i++)
			expect(ids[i].lo != ids[salt].lo);
	}
	free_filter(&filter);
	/* One key with the same fingerprint: with few keys the digest tells them apart. */
	for (int i = 0; i < 1000; i++) {
		struct wn_hash a = test_random_hash(&random), b = {a.hi, a.lo + 1};
		struct wn__small_parts parts = {&a, 1, 7, SECRET, false, 0};
		size_t size = wn__small_size(1, 7);
		unsigned char bytes[64];
		struct wn__small_id id;

		wn__small_build(&parts, bytes, size);
		id = wn__small_id(bytes, size);
		parts.hashes = &b;
		wn__small_build(&parts, bytes, size);
		expect(id.lo != wn__small_id(bytes, size).lo);
	}
}
END_TEST

/* ---- lessons ------------------------------------------------------------ */

static struct wn__small_id number_id(uint64_t number)
{
	uint64_t state = number;

	return (struct wn__small_id){test_random(&state) | 1, test_random(&state)};
}

START_TEST(a_lesson_refutes_all_but_its_key)
{
	struct wn__small_lessons *lessons;
	struct wn__small_lessons_stats stats;
	struct wn__small_id id = number_id(1), other = number_id(2);

	ck_assert_int_eq(wn__small_lessons_create(0, &lessons), 0);
	expect(!wn__small_lessons_refute(lessons, id, 3, 77));
	ck_assert_int_eq(wn__small_lessons_learn(lessons, id, 3, 78), 0);
	ck_assert_int_eq(wn__small_lessons_learn(lessons, id, 3, 78), 0);
	expect(wn__small_lessons_refute(lessons, id, 3, 77));
	expect(!wn__small_lessons_refute(lessons, id, 3, 78));
	expect(!wn__small_lessons_refute(lessons, id, 4, 77));
	expect(!wn__small_lessons_refute(lessons, other, 3, 77));
	/* Two truths: neither is believed. */
	ck_assert_int_eq(wn__small_lessons_learn(lessons, id, 3, 79), WN_ERR_MISMATCH);
	expect(!wn__small_lessons_refute(lessons, id, 3, 77));
	ck_assert_int_eq(wn__small_lessons_learn(lessons, id, 5, 1), 0);
	wn__small_lessons_forget(lessons, id, 6);
	expect(!wn__small_lessons_refute(lessons, id, 5, 2));
	wn__small_lessons_describe(lessons, &stats);
	ck_assert_uint_eq(stats.lessons, 0);
	wn__small_lessons_destroy(lessons);
}
END_TEST

START_TEST(lessons_stay_while_others_come_and_go)
{
	struct wn__small_lessons *lessons;
	uint64_t count = 20000;

	ck_assert_int_eq(wn__small_lessons_create(0, &lessons), 0);
	for (uint64_t i = 0; i < count; i++) {
		expect(wn__small_lessons_learn(lessons, number_id(i), (uint32_t)(i % 36), i) == 0);
		if (i % 3 == 2)
			wn__small_lessons_forget(lessons, number_id(i - 1), 36);
	}
	for (uint64_t i = 0; i < count; i++) {
		bool gone = i % 3 == 1 && i + 1 < count;

		expect(wn__small_lessons_refute(lessons, number_id(i), (uint32_t)(i % 36), i + 1) !=
		       gone);
		expect(!wn__small_lessons_refute(lessons, number_id(i), (uint32_t)(i % 36), i));
	}
	wn__small_lessons_destroy(lessons);
}
END_TEST

START_TEST(the_budget_is_kept_and_what_is_used_stays)
{
	struct wn__small_lessons *lessons;
	struct wn__small_lessons_stats stats;
	size_t budget = (size_t)1 << 20;

	ck_assert_int_eq(wn__small_lessons_create(budget, &lessons), 0);
	for (uint64_t i = 0; i < 60000; i++) {
		expect(wn__small_lessons_learn(lessons, number_id(i), 0, i) == 0);
		for (uint64_t hot = 0; i % 64 == 0 && hot < 50 && hot <= i; hot++)
			expect(wn__small_lessons_refute(lessons, number_id(hot), 0, hot + 1));
	}
	wn__small_lessons_describe(lessons, &stats);
	ck_assert_uint_le(stats.bytes, budget);
	ck_assert_uint_gt(stats.dropped, 0);
	ck_assert_uint_gt(stats.lessons, 5000);
	wn__small_lessons_destroy(lessons);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tiny");
	TCase *tests = tcase_create("tiny");

	tcase_add_test(tests, tiny_never_forgets_a_key);
	tcase_add_test(tests, crafted_hashes_are_found_as_well);
	tcase_add_test(tests, the_quick_way_and_the_careful_one_agree);
	tcase_add_test(tests, overhead_is_four_bytes_at_36_keys_and_twelve_at_2000);
	tcase_add_test(tests, filter_cut_anywhere_says_maybe);
	tcase_add_test(tests, damaged_filters_are_survived);
	tcase_add_test(tests, other_keys_or_another_salt_give_another_id);
	tcase_add_test(tests, a_lesson_refutes_all_but_its_key);
	tcase_add_test(tests, lessons_stay_while_others_come_and_go);
	tcase_add_test(tests, the_budget_is_kept_and_what_is_used_stays);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
