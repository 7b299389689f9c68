/* test_alloc.c - the door to the heap. */
#include <string.h>

#include "base/alloc.h"
#include "tests/support/common.h"

START_TEST(nothing_fails_unless_asked)
{
	wn__alloc_fail_at(0);
	for (int i = 0; i < 100; i++)
		free(wn__alloc(8));
	ck_assert_uint_eq(wn__alloc_calls(), 100);
}
END_TEST

START_TEST(exactly_the_nth_call_fails)
{
	wn__alloc_fail_at(3);
	for (int i = 1; i <= 6; i++) {
		void *memory = wn__alloc(8);

		ck_assert_int_eq(memory == NULL, i == 3);
		free(memory);
	}
	ck_assert_uint_eq(wn__alloc_calls(), 6);
}
END_TEST

START_TEST(every_function_can_be_made_to_fail)
{
	void *memory = wn__alloc(1);

	wn__alloc_fail_at(1);
	ck_assert_ptr_null(wn__alloc(1));
	wn__alloc_fail_at(1);
	ck_assert_ptr_null(wn__calloc(1, 1));
	wn__alloc_fail_at(1);
	ck_assert_ptr_null(wn__realloc(memory, 100));
	wn__alloc_fail_at(1);
	ck_assert_ptr_null(wn__alloc_table(1));
	free(memory);
}
END_TEST

START_TEST(a_failed_realloc_keeps_the_memory)
{
	char *memory = wn__alloc(6);
	char *larger;

	strcpy(memory, "stays");
	wn__alloc_fail_at(1);
	ck_assert_ptr_null(wn__realloc(memory, 1000));
	ck_assert_str_eq(memory, "stays");
	larger = wn__realloc(memory, 1000);
	ck_assert_ptr_nonnull(larger);
	ck_assert_str_eq(larger, "stays");
	free(larger);
}
END_TEST

START_TEST(size_zero_gives_unique_pointers)
{
	void *memory[6] = { wn__alloc(0),     wn__alloc(0),	    wn__calloc(0, 8),
			    wn__calloc(8, 0), wn__realloc(NULL, 0), wn__alloc_table(0) };

	for (int i = 0; i < 6; i++) {
		ck_assert_ptr_nonnull(memory[i]);
		for (int j = 0; j < i; j++)
			ck_assert_ptr_ne(memory[i], memory[j]);
	}
	for (int i = 0; i < 6; i++)
		free(memory[i]);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
	volatile size_t huge = SIZE_MAX;

	ck_assert_ptr_null(wn__calloc(huge / 2, 3));
	ck_assert_ptr_null(wn__alloc_table(huge));
	ck_assert_ptr_null(wn__alloc_table(huge - 63));
	ck_assert_ptr_null(wn__alloc_table(huge / 2));
}
END_TEST

/* Memory that was used before, so that zeros are not there by chance. */
static void dirty_the_heap(size_t size)
{
	char *memory = malloc(size);

	ck_assert_ptr_nonnull(memory);
	memset(memory, 0xa5, size);
	__asm__ volatile("" : : "r"(memory) : "memory");
	free(memory);
}

START_TEST(tables_are_aligned_and_zero)
{
	static const size_t sizes[] = {
		1, 63, 64, 65, 1000, 100000, 4 << 20, (4 << 20) + 1, 9 << 20,
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned char *table;
		unsigned any = 0;

		dirty_the_heap(sizes[i]);
		table = wn__alloc_table(sizes[i]);
		ck_assert_ptr_nonnull(table);
		ck_assert_uint_eq((uintptr_t)table % 64, 0);
		if (sizes[i] >= 4 << 20)
			ck_assert_uint_eq((uintptr_t)table % (2 << 20), 0);
		for (size_t at = 0; at < sizes[i]; at++)
			any |= table[at];
		ck_assert_uint_eq(any, 0);
		memset(table, 1, sizes[i]);
		free(table);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("alloc");
	TCase *tests = tcase_create("alloc");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, nothing_fails_unless_asked);
	tcase_add_test(tests, exactly_the_nth_call_fails);
	tcase_add_test(tests, every_function_can_be_made_to_fail);
	tcase_add_test(tests, a_failed_realloc_keeps_the_memory);
	tcase_add_test(tests, size_zero_gives_unique_pointers);
	tcase_add_test(tests, sizes_that_overflow_are_refused);
	tcase_add_test(tests, tables_are_aligned_and_zero);
	return test_run(suite);
}
