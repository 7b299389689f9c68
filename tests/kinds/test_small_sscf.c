/* Small seesaw counting filters: every key is found, with and without absent keys to heed; those
 * that are heeded are denied; and bytes that are not a whole filter say "maybe". */
#include "base/alloc.h"
#include "kinds/sscf/sscf_small.h"
#include "tests/support/small_filter.h"

/* `bits` a key in hundredths. */
static struct small_filter make_filter(uint32_t count, unsigned bits, size_t absent,
				       uint64_t *random)
{
	char options[60];

	snprintf(options, sizeof(options), "sscf:bits_per_key=%u.%02u", bits / 100, bits % 100);
	return make_small_filter(options, count, absent, random);
}

static bool says_maybe(const struct small_filter *filter, struct wn_hash hash)
{
	return small_says_maybe(&wn__sscf_small_form, filter->bytes, filter->size, hash);
}

static size_t count_wrong(const struct small_filter *filter)
{
	size_t wrong = 0;

	for (size_t i = 0; i < filter->absent_count; i++)
		wrong += says_maybe(filter, filter->absent[i]);
	return wrong;
}

static size_t size_of(uint32_t count, unsigned bits)
{
	uint64_t random = 1;
	struct small_filter filter = make_filter(count, bits, 0, &random);
	size_t size = filter.size;

	free_small_filter(&filter);
	return size;
}

START_TEST(never_forgets_a_key)
{
	uint64_t random = test_seed("never_forgets_a_key", 1);

	for (uint32_t count = 1; count <= 5000; count += count < 80 ? 1 : count / 5)
		for (unsigned bits = 400; bits <= 1800; bits += test_is_quick() ? 350 : 70)
			for (size_t share = 0; share <= 8; share = share ? 4 * share : 1) {
				struct small_filter filter =
					make_filter(count, bits, share * count / 2, &random);

				expect_small_keys(&filter);
				free_small_filter(&filter);
			}
}
END_TEST

START_TEST(large_filters_serve_as_well)
{
	uint64_t random = test_seed("large_filters_serve_as_well", 2);
	struct small_filter filter = make_filter(40000, 1000, 40000, &random);
	size_t wrong;

	expect_small_keys(&filter);
	wrong = count_wrong(&filter);
	expect(wrong < 40);
	free_small_filter(&filter);
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
			struct small_filter filter =
				make_filter(counts[i], 1000, counts[i], &random);

			wrong += count_wrong(&filter);
			corrected += filter.denied;
			free_small_filter(&filter);
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
			struct small_filter filter = make_filter(36, 1000, shares[i] * 36, &random);

			for (int j = 0; j < 1000; j++, queries++)
				wrong += says_maybe(&filter, test_random_hash(&random));
			free_small_filter(&filter);
		}
		fprintf(stderr, "%zu absent a key: %.2f%%\n", shares[i],
			100 * (double)wrong / (double)queries);
		expect(wrong < queries / (i == 2 ? 40 : 80));
	}
}
END_TEST

START_TEST(overhead_is_four_bytes_at_36_keys_and_seven_at_2000)
{
	for (unsigned bits = 400; bits <= 1800; bits += 10) {
		ck_assert_uint_le(size_of(36, bits), (36 * bits + 799) / 800 + 4);
		ck_assert_uint_le(size_of(2000, bits),
				  (2000 * bits + 799) / 800 + (bits < 407 ? 4 : 7));
	}
	ck_assert_uint_eq(size_of(36, 1000), 49);
	ck_assert_uint_eq(size_of(2000, 1000), 2507);
	ck_assert_uint_eq(size_of(1, 1000), WN__SMALL_LEAST_SIZE);
}
END_TEST

/* Without memory the negatives are not heeded, and the keys are. */
START_TEST(without_memory_keys_are_found)
{
	uint64_t random = test_seed("without_memory_keys_are_found", 6);
	struct small_filter filter = make_filter(200, 800, 200, &random);
	struct wn_config *config = small_config("sscf:bits_per_key=8");
	uint64_t calls = 0;

	for (uint64_t nth = 2; nth < calls + 3; nth++) {
		struct wn__small_input input = {.config = config, .keys = filter.hashes,
						.key_count = filter.count};
		unsigned char *bytes;

		input.negatives = small_negatives(&filter, &input.negative_count);
		wn__alloc_fail_at(nth);
		expect(wn__small_build(&input, SMALL_SECRET, NULL, &bytes, &filter.size,
				       &filter.denied) == 0);
		calls = wn__alloc_calls();
		wn__alloc_fail_at(0);
		free(filter.bytes);
		filter.bytes = bytes;
		expect_small_keys(&filter);
		free(input.negatives);
	}
	expect(calls > 3);
	wn_config_destroy(config);
	free_small_filter(&filter);
}
END_TEST

START_TEST(damaged_filters_are_survived)
{
	uint64_t random = test_seed("damaged_filters_are_survived", 7);
	uint32_t counts[] = {1, 2, 9, 36, 600, 5000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct small_filter filter = make_filter(counts[i], 1000, counts[i], &random);

		expect_damage_survived(&filter, &random);
		free_small_filter(&filter);
	}
}
END_TEST

/* Any size and any last byte under a front that fits, the other bits all set. */
START_TEST(crafted_filters_are_survived)
{
	uint64_t random = test_seed("crafted_filters_are_survived", 8);

	for (size_t size = WN__SMALL_LEAST_SIZE; size < 4400; size += size < 200 ? 1 : 97) {
		struct small_filter filter = {.bytes = malloc(size), .size = size};

		memset(filter.bytes, 0xff, size);
		craft_small(filter.bytes, size, WN_KIND_SSCF);
		for (unsigned last = 0x80; last <= 0xff; last++) {
			struct wn__small_info info;

			filter.bytes[size - 1] = (unsigned char)last;
			expect(small_form_of(filter.bytes, size) == &wn__sscf_small_form);
			wn__sscf_small_form.describe(filter.bytes, size, &info);
			for (int j = 0; j < 50; j++)
				expect(says_maybe(&filter, test_random_hash(&random)));
		}
		free_small_filter(&filter);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("small_sscf");
	TCase *tests = tcase_create("small_sscf");

	tcase_add_test(tests, never_forgets_a_key);
	tcase_add_test(tests, large_filters_serve_as_well);
	tcase_add_test(tests, listed_absent_keys_are_denied);
	tcase_add_test(tests, other_absent_keys_are_denied_as_by_a_bloom_filter);
	tcase_add_test(tests, overhead_is_four_bytes_at_36_keys_and_seven_at_2000);
	tcase_add_test(tests, without_memory_keys_are_found);
	tcase_add_test(tests, damaged_filters_are_survived);
	tcase_add_test(tests, crafted_filters_are_survived);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
