/* test_page_map.c - from an address to the owner of its page. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/page_map.h"
#include "tests/support/common.h"

START_TEST(every_byte_of_owned_memory_leads_to_its_owner)
{
	static const size_t sizes[] = {1, 100, WN__OWNED_PAGE - 1, WN__OWNED_PAGE,
				       WN__OWNED_PAGE + 1, 10 * WN__OWNED_PAGE, 3 << 20};
	char *memory[sizeof(sizes) / sizeof(sizes[0])];
	int owners[sizeof(sizes) / sizeof(sizes[0])];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memory[i] = wn__owned_alloc(sizes[i], &owners[i]);
		ck_assert_ptr_nonnull(memory[i]);
		ck_assert_uint_eq((uintptr_t)memory[i] % WN__OWNED_PAGE, 0);
		memset(memory[i], 0xaa, sizes[i]);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t at = 0; at < sizes[i]; at++)
			expect(wn__page_owner(memory[i] + at) == &owners[i]);
		wn__owned_free(memory[i], sizes[i]);
		for (size_t at = 0; at < sizes[i]; at++)
			expect(wn__page_owner(memory[i] + at) == NULL);
	}
	wn__owned_free(NULL, 0);
}
END_TEST

START_TEST(other_memory_is_nobodys)
{
	static char here[3 * WN__OWNED_PAGE];
	char *heap = malloc(100), local = 0;

	ck_assert_ptr_null(wn__page_owner(here));
	ck_assert_ptr_null(wn__page_owner(heap));
	ck_assert_ptr_null(wn__page_owner(&local));
	ck_assert_ptr_null(wn__page_owner(NULL));
	/* No address that a program has. */
	ck_assert_ptr_null(wn__page_owner((const void *)UINTPTR_MAX));
	ck_assert_ptr_null(wn__page_owner((const void *)((uintptr_t)1 << 48)));
	free(heap);
}
END_TEST

/* The page is refused, or its leaf. A leaf is made for the first page only. */
START_TEST(without_memory_nothing_is_owned)
{
	int owner;
	char *memory;
	uint64_t nth = 0;

	do {
		wn__alloc_fail_at(++nth);
		memory = wn__owned_alloc(5 * WN__OWNED_PAGE, &owner);
	} while (!memory);
	wn__alloc_fail_at(0);
	ck_assert_uint_ge(nth, 2);
	ck_assert_ptr_eq(wn__page_owner(memory), &owner);
	wn__owned_free(memory, 5 * WN__OWNED_PAGE);
}
END_TEST

/* Threads allocate and free; each finds what it has just noted, and what stays. */
static char *lasting;
static int lasting_owner;

static void *come_and_go(void *unused)
{
	int owner;

	for (unsigned i = 0; i < 20000; i++) {
		size_t size = 1 + i % 40 * WN__OWNED_PAGE / 4;
		char *memory = wn__owned_alloc(size, &owner);

		expect(memory && wn__page_owner(memory) == &owner);
		expect(wn__page_owner(memory + size - 1) == &owner);
		wn__owned_free(memory, size);
		expect(wn__page_owner(lasting) == &lasting_owner);
	}
	return unused;
}

START_TEST(threads_come_and_go)
{
	pthread_t threads[4];

	lasting = wn__owned_alloc(100, &lasting_owner);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	wn__owned_free(lasting, 100);
	ck_assert_ptr_null(wn__page_owner(lasting));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page_map");
	TCase *tests = tcase_create("page_map");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, every_byte_of_owned_memory_leads_to_its_owner);
	tcase_add_test(tests, other_memory_is_nobodys);
	tcase_add_test(tests, without_memory_nothing_is_owned);
	tcase_add_test(tests, threads_come_and_go);
	return test_run(suite);
}
