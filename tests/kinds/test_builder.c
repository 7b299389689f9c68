/* test_builder.c - what builders keep of keys: upper halves of hashes, or all of them. */
#include "tests/support/filter_keys.h"

/* In slots, where builders keep whole hashes, and in lines, where they keep upper halves. */
static const char *const forms[] = {
	"aqf:remainder_bits=2", "aqf:load=0.5", "aqf:bits_per_key=20", "aqf", "aqf:bits_per_key=10",
	"aqf:bits_per_key=18",
};

enum { FORMS = sizeof(forms) / sizeof(forms[0]), SLOTS_FORMS = 3 };

START_TEST(upper_halves_come_in_order_each_once)
{
	enum { COUNT = 3050 };
	struct wn_builder *builder = make_builder(forms[_i]);
	struct wn_hash hashes[COUNT];
	const uint64_t *uppers;
	struct wn_filter *filter;
	struct wn_match last = { 0 };
	size_t size, count;
	void *block;

	ck_assert_ptr_null(wn_builder_uppers(builder, &count));
	ck_assert_uint_eq(count, 0);
	add_keys(builder, 100, 3000);
	add_keys(builder, 50, 3000);
	block = finish(builder, &size);
	uppers = wn_builder_uppers(builder, &count);
	ck_assert_uint_eq(count, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		hashes[i] = hash_of(50 + i);
	qsort(hashes, COUNT, sizeof(hashes[0]), test_compare_hashes);
	filter = open_filter(block, size, WN_CHECK_ALL);
	for (size_t i = 0; i < count; i++) {
		struct wn_match match;

		ck_assert_uint_eq(uppers[i], hashes[i].hi);
		ck_assert(wn_filter_query_hash(filter, hashes[i], &match));
		ck_assert_uint_ge(match.minirun, last.minirun);
		last = match;
	}
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

/* ---- keys that are alike in the upper half ------------------------------- */

#define PAIRS 3000

/* Two keys of each upper half, far from each other and one after the other, and a negative of
 * that upper half beside each pair. */
static void add_pairs(struct wn_builder *builder, struct wn_hash (*pairs)[3], uint64_t *random)
{
	for (size_t i = 0; i < PAIRS; i++) {
		pairs[i][0] = test_random_hash(random);
		for (size_t j = 1; j < 3; j++)
			pairs[i][j] = (struct wn_hash){pairs[i][0].hi, test_random(random)};
		ck_assert_int_eq(wn_builder_add_hash(builder, pairs[i][0]), 0);
		if (i % 2)
			ck_assert_int_eq(wn_builder_add_hash(builder, pairs[i][1]), 0);
		ck_assert_int_eq(wn_builder_add_negative(builder, pairs[i][2]), 0);
	}
	for (size_t i = 0; i < PAIRS; i += 2)
		ck_assert_int_eq(wn_builder_add_hash(builder, pairs[i][1]), 0);
}

START_TEST(keys_with_equal_upper_halves_are_one_in_lines_and_two_in_slots)
{
	struct wn_builder *builder = make_builder(forms[_i]);
	const bool in_lines = _i >= SLOTS_FORMS;
	struct wn_hash pairs[PAIRS][3], others[1000];
	uint64_t random = test_seed("equal_upper_halves", 20261119);
	const uint64_t *uppers;
	struct wn_block_info info;
	struct wn_filter *filter;
	size_t size, count, maybe = 0;
	void *block;

	add_pairs(builder, pairs, &random);
	for (size_t i = 0; i < 1000; i++) {
		others[i] = test_random_hash(&random);
		ck_assert_int_eq(wn_builder_add_negative(builder, others[i]), 0);
	}
	/* In lines those in a row are one at once. */
	ck_assert_uint_eq(wn_builder_count(builder), in_lines ? PAIRS * 3 / 2 : 2 * PAIRS);
	block = finish(builder, &size);
	ck_assert_int_eq(wn_block_read(block, size, WN_CHECK_ALL, &info, NULL), 0);
	uppers = wn_builder_uppers(builder, &count);
	ck_assert_uint_eq(count, in_lines ? PAIRS : 2 * PAIRS);
	ck_assert_uint_eq(info.key_count, count);
	for (size_t i = 1; i < count; i++)
		ck_assert(in_lines ? uppers[i - 1] < uppers[i] : uppers[i - 1] <= uppers[i]);
	filter = open_filter(block, size, WN_CHECK_ALL);
	for (size_t i = 0; i < PAIRS; i++) {
		ck_assert(wn_filter_query_hash(filter, pairs[i][0], NULL));
		ck_assert(wn_filter_query_hash(filter, pairs[i][1], NULL));
		maybe += wn_filter_query_hash(filter, pairs[i][2], NULL);
	}
	ck_assert_uint_eq(maybe, in_lines ? PAIRS : 0);
	/* The other negatives are denied all the same. */
	for (size_t i = 0; i < 1000; i++)
		ck_assert(!wn_filter_query_hash(filter, others[i], NULL));
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

/* Neighbours of keys, and nothing but the last bit of the upper half to tell them by. */
START_TEST(upper_halves_are_told_apart_to_their_last_bit)
{
	struct wn_builder *builder = make_builder(forms[_i]);
	uint64_t random = test_seed("last_bit", 20261119);
	struct wn_hash keys[1000];
	struct wn_filter *filter;
	size_t size, count;
	void *block;

	for (size_t i = 0; i < 1000; i++) {
		keys[i] = test_random_hash(&random);
		keys[i].hi &= ~UINT64_C(1);
		ck_assert_int_eq(wn_builder_add_hash(builder, keys[i]), 0);
		if (i % 2) {
			keys[i].hi |= 1;
			ck_assert_int_eq(wn_builder_add_hash(builder, keys[i]), 0);
		} else {
			ck_assert_int_eq(wn_builder_add_negative(
						 builder, (struct wn_hash){keys[i].hi | 1,
									   keys[i].lo}), 0);
		}
	}
	block = finish(builder, &size);
	wn_builder_uppers(builder, &count);
	ck_assert_uint_eq(count, 1500);
	filter = open_filter(block, size, WN_CHECK_ALL);
	for (size_t i = 0; i < 1000; i++) {
		ck_assert(wn_filter_query_hash(filter, keys[i], NULL));
		keys[i].hi ^= 1;
		ck_assert(wn_filter_query_hash(filter, keys[i], NULL) == (i % 2 == 1));
	}
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("builder");
	TCase *tests = tcase_create("builder");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, upper_halves_come_in_order_each_once, 0, FORMS);
	tcase_add_loop_test(tests, keys_with_equal_upper_halves_are_one_in_lines_and_two_in_slots,
			    0, FORMS);
	tcase_add_loop_test(tests, upper_halves_are_told_apart_to_their_last_bit, 0, FORMS);
	return test_run(suite);
}
