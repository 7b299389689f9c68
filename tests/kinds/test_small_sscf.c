/* Small seesaw counting filters: every key is found, with and without absent keys to heed; those
 * that are heeded are denied; and bytes that are not a whole filter say "maybe". */
#include <stdlib.h>
#include <string.h>

#include "tests/support/common.h"
#include "kinds/sscf/sscf_small.h"

#define SECRET 0x2b1d5

struct filter {
	struct wn_hash *hashes;
	uint32_t count;
	struct wn_hash *absent;
	size_t absent_count;
	size_t corrected;
	unsigned char *bytes; /* exactly as long: sanitizers see a step too far */
	size_t size;
};

/* With absent keys, some of them twice, and one that is a key by now. */
static struct filter make_filter(uint32_t count, unsigned bits, size_t absent, uint64_t *random)
{
	struct filter filter = {.hashes = malloc(count * sizeof(struct wn_hash)),
				.absent = malloc((absent + 1) * sizeof(struct wn_hash)),
				.absent_count = absent};
	struct wn__small_sscf_negative *negatives = malloc((2 * absent + 1) * sizeof(*negatives));
	struct wn__small_sscf_parts parts = {.bits = bits, .secret_id = SECRET,
					    .negatives = negatives};

	for (uint32_t i = 0; i < count; i++)
		filter.hashes[i] = test_random_hash(random);
	filter.count = (uint32_t)wn__small_sort(filter.hashes, count);
	for (size_t i = 0; i < absent; i++) {
		filter.absent[i] = test_random_hash(random);
		for (size_t times = 0; times < 1 + (i % 4 == 0); times++)
			negatives[parts.negative_count++] = (struct wn__small_sscf_negative){
				filter.absent[i], 1 + (double)(i % 3)};
	}
	if (absent)
		negatives[parts.negative_count++] =
			(struct wn__small_sscf_negative){filter.hashes[count / 2], 9};
	parts.hashes = filter.hashes;
	parts.count = filter.count;
	filter.size = wn__small_sscf_size(filter.count, bits);
	expect(filter.size > 0);
	filter.bytes = malloc(filter.size);
	filter.corrected = wn__small_sscf_build(&parts, filter.bytes, filter.size);
	free(negatives);
	return filter;
}

static void free_filter(struct filter *filter)
{
	free(filter->hashes);
	free(filter->absent);
	free(filter->bytes);
}

static struct wn__sscf_frozen open_filter(const struct filter *filter)
{
	struct wn__sscf_frozen frozen;

	expect(wn__small_sscf_claims(filter->bytes, filter->size, SECRET));
	expect(wn__small_sscf_open(filter->bytes, filter->size, SECRET, &frozen));
	return frozen;
}

static void check_keys(const struct filter *filter)
{
	struct wn__sscf_frozen frozen = open_filter(filter);

	for (uint32_t i = 0; i < filter->count; i++)
		expect(wn__small_sscf_says_maybe(&frozen, filter->hashes[i]));
}

static size_t count_wrong(const struct filter *filter)
{
	struct wn__sscf_frozen frozen = open_filter(filter);
	size_t wrong = 0;

	for (size_t i = 0; i < filter->absent_count; i++)
		wrong += wn__small_sscf_says_maybe(&frozen, filter->absent[i]);
	return wrong;
}

START_TEST(never_forgets_a_key)
{
	uint64_t random = test_seed("never_forgets_a_key", 1);

	for (uint32_t count = 1; count <= 5000; count += count < 80 ? 1 : count / 5)
		for (unsigned bits = 400; bits <= 1800; bits += test_is_quick() ? 350 : 70)
			for (size_t share = 0; share <= 8; share = share ? 4 * share : 1) {
				struct filter filter =
					make_filter(count, bits, share * count / 2, &random);

				check_keys(&filter);
				free_filter(&filter);
			}
}
END_TEST

START_TEST(large_filters_serve_as_well)
{
	uint64_t random = test_seed("large_filters_serve_as_well", 2);
	struct filter filter = make_filter(40000, 1000, 40000, &random);
	size_t wrong;

	check_keys(&filter);
	wrong = count_wrong(&filter);
	expect(wrong < 40);
	free_filter(&filter);
}
END_TEST

/* One in a hundred would be wrong, and nine of ten of these are not. */
START_TEST(listed_absent_keys_are_denied)
{
	uint64_t random = test_seed("listed_absent_keys_are_denied", 3);
	uint32_t counts[] = {10, 36, 100, 563, 2000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		size_t wrong = 0, corrected = 0, rounds = 200000 / counts[i] / 10;

		for (size_t round = 0; round < rounds; round++) {
			struct filter filter = make_filter(counts[i], 1000, counts[i], &random);

			wrong += count_wrong(&filter);
			corrected += filter.corrected;
			free_filter(&filter);
		}
		fprintf(stderr, "%u keys: %zu corrected, %zu wrong\n", counts[i], corrected, wrong);
		expect(corrected > rounds * counts[i] / 500);
		expect(wrong <= corrected / 9);
	}
}
END_TEST

/* What is not listed pays little. */
START_TEST(other_absent_keys_are_denied_as_by_a_bloom_filter)
{
	uint64_t random = test_seed("other_absent_keys_are_denied_as_by_a_bloom_filter", 4);
	size_t shares[] = {0, 1, 4};

	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		size_t wrong = 0, queries = 0;

		for (int round = 0; round < 400; round++) {
			struct filter filter = make_filter(36, 1000, shares[i] * 36, &random);
			struct wn__sscf_frozen frozen = open_filter(&filter);

			for (int j = 0; j < 1000; j++, queries++)
				wrong += wn__small_sscf_says_maybe(&frozen,
								  test_random_hash(&random));
			free_filter(&filter);
		}
		fprintf(stderr, "%zu absent a key: %.2f%%\n", shares[i],
			100 * (double)wrong / (double)queries);
		expect(wrong < queries / (i == 2 ? 40 : 80));
	}
}
END_TEST

START_TEST(overhead_is_four_bytes_at_36_keys_and_six_at_2000)
{
	for (unsigned bits = 400; bits <= 1800; bits += 10) {
		ck_assert_uint_le(wn__small_sscf_size(36, bits), (36 * bits + 799) / 800 + 4);
		ck_assert_uint_le(wn__small_sscf_size(2000, bits), (2000 * bits + 799) / 800 + 6);
	}
	ck_assert_uint_eq(wn__small_sscf_size(36, 1000), 49);
	ck_assert_uint_eq(wn__small_sscf_size(2000, 1000), 2504);
	ck_assert_uint_eq(wn__small_sscf_size(0, 1000), 0);
	ck_assert_uint_eq(wn__small_sscf_size(36, 399), 0);
}
END_TEST

START_TEST(filter_cut_anywhere_is_not_asked)
{
	uint64_t random = test_seed("filter_cut_anywhere_is_not_asked", 5);
	uint32_t counts[] = {1, 36, 700, 5000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct filter filter = make_filter(counts[i], 1000, 2 * counts[i], &random);

		for (size_t size = 0; size < filter.size; size++) {
			unsigned char *cut = malloc(size + !size);
			struct wn__sscf_frozen frozen;

			memcpy(cut, filter.bytes, size);
			/* It is known as ours: LevelDB's own reader is never asked. */
			expect(wn__small_sscf_claims(cut, size, SECRET));
			expect(!wn__small_sscf_open(cut, size, SECRET, &frozen));
			free(cut);
		}
		free_filter(&filter);
	}
}
END_TEST

START_TEST(other_filters_are_not_taken_for_it)
{
	uint64_t random = test_seed("other_filters_are_not_taken_for_it", 6);
	struct filter filter = make_filter(36, 1000, 36, &random);
	struct wn__small_parts parts = {.hashes = filter.hashes, .count = 36, .remainder_bits = 7,
				       .secret_id = SECRET};
	struct wn__sscf_frozen frozen;
	unsigned char quotient[46];
	bool whole;

	expect(!wn__small_sscf_open(filter.bytes, filter.size, SECRET ^ 1, &frozen));
	expect(!wn__small_sscf_open(filter.bytes, filter.size, SECRET ^ 0x20000, &frozen));
	ck_assert_uint_eq(wn__small_sscf_secret_id(filter.bytes, filter.size), SECRET);
	/* Neither does the other form take it for one of its own. */
	expect(wn__small_claims(filter.bytes, filter.size, SECRET, &whole));
	expect(!whole);
	wn__small_build(&parts, quotient, sizeof(quotient));
	expect(!wn__small_sscf_claims(quotient, sizeof(quotient), SECRET));
	expect(!wn__small_sscf_open(quotient, sizeof(quotient), SECRET, &frozen));
	free_filter(&filter);
}
END_TEST

/* Every bit: nothing outside the filter is touched, which a sanitizer sees. */
START_TEST(damaged_filters_are_survived)
{
	uint64_t random = test_seed("damaged_filters_are_survived", 7);
	uint32_t counts[] = {1, 2, 9, 36, 600, 5000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct filter filter = make_filter(counts[i], 1000, counts[i], &random);
		size_t bits = 8 * filter.size, step = bits < 6000 ? 1 : 7;

		for (size_t bit = 0; bit < bits; bit += bit < bits - 32 ? step : 1) {
			struct wn__sscf_frozen frozen;

			filter.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			if (wn__small_sscf_open(filter.bytes, filter.size, SECRET, &frozen))
				for (int j = 0; j < 200; j++)
					wn__small_sscf_says_maybe(&frozen,
								 test_random_hash(&random));
			filter.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		free_filter(&filter);
	}
}
END_TEST

/* Any size and any last byte under a front that fits, the other bits all set. */
START_TEST(crafted_filters_are_survived)
{
	uint64_t random = test_seed("crafted_filters_are_survived", 8);

	for (size_t size = WN__SMALL_LEAST_SIZE; size < 4400; size += size < 200 ? 1 : 97) {
		struct filter filter = {.bytes = malloc(size), .size = size};
		uint32_t front = (SECRET ^ (uint32_t)(size < 4095 ? size : 4095) << 10) |
				 UINT32_C(3) << 22;

		memset(filter.bytes, 0xff, size);
		filter.bytes[0] = (unsigned char)front;
		filter.bytes[1] = (unsigned char)(front >> 8);
		filter.bytes[2] = (unsigned char)(front >> 16);
		if (size >= 4095) {
			filter.bytes[size - 3] = (unsigned char)size;
			filter.bytes[size - 2] = (unsigned char)(size >> 8);
		}
		for (unsigned last = 0x80; last <= 0xff; last++) {
			struct wn__sscf_frozen frozen;

			filter.bytes[size - 1] = (unsigned char)last;
			frozen = open_filter(&filter);
			for (int j = 0; j < 50; j++)
				expect(wn__small_sscf_says_maybe(&frozen,
								test_random_hash(&random)));
		}
		free_filter(&filter);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tiny_sscf");
	TCase *tests = tcase_create("tiny_sscf");

	tcase_add_test(tests, never_forgets_a_key);
	tcase_add_test(tests, large_filters_serve_as_well);
	tcase_add_test(tests, listed_absent_keys_are_denied);
	tcase_add_test(tests, other_absent_keys_are_denied_as_by_a_bloom_filter);
	tcase_add_test(tests, overhead_is_four_bytes_at_36_keys_and_six_at_2000);
	tcase_add_test(tests, filter_cut_anywhere_is_not_asked);
	tcase_add_test(tests, other_filters_are_not_taken_for_it);
	tcase_add_test(tests, damaged_filters_are_survived);
	tcase_add_test(tests, crafted_filters_are_survived);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
