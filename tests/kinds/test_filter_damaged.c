/* test_filter_damaged.c - filters in blocks that are damaged, and builders without memory. */
#include <errno.h>

#include "base/alloc.h"
#include "kinds/block_format.h"
#include "tests/support/filter_keys.h"

/* ---- damage ------------------------------------------------------------- */

static void assert_refused(const void *block, size_t size, enum wn_check check)
{
	struct wn_filter *filter = (void *)1;
	const char *reason = NULL;
	int err = wn_filter_open(block, size, check, secret, &filter, &reason);

	if (err >= 0 || filter || !reason)
		ck_abort_msg("size %zu: error %d, filter %p", size, err, (void *)filter);
}

START_TEST(a_damaged_block_is_refused)
{
	struct wn_builder *builder = make_builder(NULL);
	unsigned char *block;
	size_t size;

	add_keys(builder, 0, 500);
	block = finish(builder, &size);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		block[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_refused(block, size, WN_CHECK_ALL);
		block[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	for (size_t cut = 0; cut < size; cut++) {
		assert_refused(block, cut, WN_CHECK_ALL);
		assert_refused(block, cut, WN_CHECK_HEADER);
	}
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

/* With the header's word alone a damaged payload may give wrong answers: the
 * host has promised that there is none. It must not read outside the block. */
START_TEST(a_damaged_payload_is_memory_safe_when_unchecked)
{
	uint64_t random = test_seed("filter", 20240611);
	struct wn_builder *builder = make_builder(NULL);
	unsigned char *block;
	size_t size;

	add_keys(builder, 0, 500);
	for (uint64_t i = 500; i < 20000; i++)
		ck_assert_int_eq(wn_builder_add_negative(builder, hash_of(i)), 0);
	block = finish(builder, &size);
	for (int round = 0; round < 300; round++) {
		struct wn_filter *filter;

		for (int i = 0; i < 1 + round / 10; i++)
			block[128 + test_random(&random) % (size - 141)] =
				(unsigned char)test_random(&random);
		/* It may be refused: then the answer is "maybe". */
		(void)wn_filter_open(block, size, WN_CHECK_HEADER, secret, &filter, NULL);
		(void)count_maybes(filter, 0, 300);
		wn_filter_close(filter);
	}
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(an_unknown_kind_is_refused)
{
	struct wn_builder *builder = make_builder(NULL);
	struct wn_filter *filter;
	const char *reason;
	unsigned char *block;
	size_t size;

	add_keys(builder, 0, 10);
	block = finish(builder, &size);
	wn__block_set_kind(block, 255);
	wn__block_set_header_sum(block);
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, &reason),
			 WN_ERR_VERSION);
	ck_assert_ptr_null(filter);
	ck_assert_ptr_nonnull(strstr(reason, "kind"));
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

/* ---- no memory ---------------------------------------------------------- */

/* Builders keep upper halves, whole hashes, and whole hashes for a kind that wants costs. */
static const char *const forms[] = {"aqf", "aqf:remainder_bits=4", "sscf"};

enum { FORMS = sizeof(forms) / sizeof(forms[0]), SSCF = 2 };

START_TEST(a_key_that_finds_no_memory_changes_nothing)
{
	/* Enough for upper halves to be spread over many buckets. */
	const uint64_t keys = 40000;
	struct wn_builder *builder;
	struct wn_filter *filter;
	uint64_t failures = 0;
	size_t size;
	void *block;

	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn_builder_create(NULL, secret, &builder), ENOMEM);
	ck_assert_ptr_null(builder);
	wn__alloc_fail_at(0);
	builder = make_builder(forms[_i]);
	for (uint64_t i = 0; i < keys; i++) {
		unsigned char key[40];
		size_t key_size = make_key(i, key);

		wn__alloc_fail_at(1);
		if (wn_builder_add(builder, key, key_size) == ENOMEM) {
			failures++;
			ck_assert_uint_eq(wn_builder_count(builder), i);
			ck_assert_int_eq(wn_builder_add(builder, key, key_size), 0);
		}
		wn__alloc_fail_at(1);
		if (wn_builder_add_negative(builder, hash_of(i + keys)) == ENOMEM)
			ck_assert_int_eq(wn_builder_add_negative(builder, hash_of(i + keys)), 0);
	}
	wn__alloc_fail_at(0);
	ck_assert_uint_ge(failures, 2);
	ck_assert_uint_eq(wn_builder_count(builder), keys);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	assert_has_keys(filter, 0, keys);
	if (_i != SSCF)
		ck_assert_uint_eq(count_maybes(filter, keys, keys), 0);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_finish_without_memory_keeps_the_keys)
{
	struct wn_builder *builder = make_builder(forms[_i]);
	struct wn_filter *filter;
	uint64_t failures = 0;
	size_t size = 1, finished;
	void *block = NULL;

	add_keys(builder, 0, 5000);
	for (uint64_t i = 5000; i < 10000; i++)
		ck_assert_int_eq(wn_builder_add_negative(builder, hash_of(i)), 0);
	for (;; failures++) {
		int err;

		block = (void *)1;
		wn__alloc_fail_at(failures + 1);
		err = wn_builder_finish(builder, &block, &size);
		if (!err)
			break;
		ck_assert_int_eq(err, ENOMEM);
		ck_assert_ptr_null(block);
		ck_assert_uint_eq(size, 0);
		ck_assert_uint_eq(wn_builder_count(builder), 5000);
		ck_assert_ptr_null(wn_builder_uppers(builder, &finished));
		ck_assert_uint_eq(finished, 0);
	}
	ck_assert_uint_eq(wn__alloc_calls(), failures);
	ck_assert_uint_ge(failures, 3);
	wn__alloc_fail_at(0);
	filter = open_filter(block, size, WN_CHECK_ALL);
	assert_has_keys(filter, 0, 5000);
	if (_i != SSCF)
		ck_assert_uint_eq(count_maybes(filter, 5000, 5000), 0);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_failed_finish_keeps_the_upper_halves_of_the_last)
{
	struct wn_builder *builder = make_builder(forms[_i]);
	const uint64_t *uppers;
	uint64_t copy[100], nth = 1;
	size_t size, count;
	void *block;
	int err;

	add_keys(builder, 0, 100);
	free(finish(builder, &size));
	uppers = wn_builder_uppers(builder, &count);
	ck_assert_uint_eq(count, 100);
	memcpy(copy, uppers, sizeof(copy));
	add_keys(builder, 100, 100);
	do {
		ck_assert_ptr_eq(wn_builder_uppers(builder, &count), uppers);
		ck_assert_uint_eq(count, 100);
		ck_assert_mem_eq(copy, uppers, sizeof(copy));
		wn__alloc_fail_at(nth++);
		err = wn_builder_finish(builder, &block, &size);
		wn__alloc_fail_at(0);
		ck_assert(err == 0 || err == ENOMEM);
	} while (err);
	ck_assert_uint_gt(nth, 4);
	wn_builder_uppers(builder, &count);
	ck_assert_uint_eq(count, 200);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(an_open_without_memory_gives_no_filter)
{
	struct wn_builder *builder = make_builder(NULL);
	struct wn_filter *filter;
	uint64_t failures = 0;
	size_t size;
	void *block;

	add_keys(builder, 0, 100);
	block = finish(builder, &size);
	for (;; failures++) {
		const char *reason = NULL;
		int err;

		filter = (void *)1;
		wn__alloc_fail_at(failures + 1);
		/* No secret: one more allocation. */
		err = wn_filter_open(block, size, WN_CHECK_ALL, NULL, &filter, &reason);
		if (!err)
			break;
		ck_assert_int_eq(err, ENOMEM);
		ck_assert_ptr_null(filter);
		ck_assert_str_eq(reason, wn_strerror(ENOMEM));
	}
	ck_assert_uint_ge(failures, 3);
	wn__alloc_fail_at(0);
	assert_has_keys(filter, 0, 100);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("filter_damaged");
	TCase *tests = tcase_create("filter_damaged");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_damaged_block_is_refused);
	tcase_add_test(tests, a_damaged_payload_is_memory_safe_when_unchecked);
	tcase_add_test(tests, an_unknown_kind_is_refused);
	tcase_add_loop_test(tests, a_key_that_finds_no_memory_changes_nothing, 0, FORMS);
	tcase_add_loop_test(tests, a_finish_without_memory_keeps_the_keys, 0, FORMS);
	tcase_add_loop_test(tests, a_failed_finish_keeps_the_upper_halves_of_the_last, 0, FORMS);
	tcase_add_test(tests, an_open_without_memory_gives_no_filter);
	return test_run(suite);
}
