/* test_trace.c - the positives of one lookup. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "tests/support/common.h"
#include "learn/trace.h"

static void note(unsigned n)
{
	struct wn__keylist filter = {.key_count = n + 2, .secret_id = n + 3};
	struct wn_match match = {.minirun = n + 1000, .rank = n + 7, .known = true};

	memset(filter.id, (int)n, sizeof(filter.id));
	wn__trace_note(&filter, (struct wn_hash){n, n + 1}, &match);
	/* Nothing of the caller's is kept. */
	memset(&filter, 0xff, sizeof(filter));
	memset(&match, 0xff, sizeof(match));
}

static void expect_noted(const struct wn__trace_entry *entry, unsigned n)
{
	for (size_t i = 0; i < WN_BLOCK_ID_SIZE; i++)
		expect(entry->filter.id[i] == (unsigned char)n);
	expect(entry->hash.hi == n && entry->hash.lo == n + 1);
	expect(entry->match.minirun == n + 1000 && entry->match.rank == n + 7);
	expect(entry->match.known);
	expect(entry->filter.key_count == n + 2 && entry->filter.secret_id == n + 3);
}

/* The innermost frame holds the numbers from `first` on. */
static void expect_frame(unsigned first, size_t count, uint64_t lost)
{
	size_t noted;
	uint64_t not_noted;
	const struct wn__trace_entry *entries = wn__trace_entries(&noted, &not_noted);

	expect(noted == count);
	expect(not_noted == lost);
	for (unsigned i = 0; i < count; i++)
		expect_noted(&entries[i], first + i);
}

START_TEST(outside_a_lookup_nothing_is_noted)
{
	note(1);
	expect_frame(0, 0, 0);
	wn__trace_clear();
	ck_assert_uint_eq(wn__trace_depth(), 0);
	wn__trace_end();
	ck_assert_uint_eq(wn__trace_depth(), 0);
	ck_assert_int_eq(wn__trace_begin(), 0);
	expect_frame(0, 0, 0);
	note(1);
	wn__trace_end();
	note(2);
	expect_frame(0, 0, 0);
}
END_TEST

START_TEST(positives_are_read_back_in_order)
{
	for (unsigned lookup = 0; lookup < 10; lookup++) {
		ck_assert_int_eq(wn__trace_begin(), 0);
		for (unsigned i = 0; i < lookup; i++)
			note(i + lookup);
		expect_frame(lookup, lookup, 0);
		wn__trace_clear();
		expect_frame(0, 0, 0);
		note(99);
		expect_frame(99, 1, 0);
		wn__trace_end();
	}
}
END_TEST

START_TEST(a_trace_is_bounded_and_says_what_it_lost)
{
	ck_assert_int_eq(wn__trace_begin(), 0);
	for (unsigned i = 0; i < WN__TRACE_ENTRIES + 36; i++)
		note(i);
	expect_frame(0, WN__TRACE_ENTRIES, 36);
	wn__trace_clear();
	expect_frame(0, 0, 0);
	for (unsigned i = 0; i < WN__TRACE_ENTRIES; i++)
		note(i);
	expect_frame(0, WN__TRACE_ENTRIES, 0);
	wn__trace_end();
}
END_TEST

START_TEST(nested_lookups_do_not_disturb_each_other)
{
	ck_assert_int_eq(wn__trace_begin(), 0);
	note(1);
	note(2);
	ck_assert_int_eq(wn__trace_begin(), 0);
	ck_assert_uint_eq(wn__trace_depth(), 2);
	expect_frame(0, 0, 0);
	for (unsigned i = 0; i < WN__TRACE_ENTRIES; i++)
		note(50 + i);
	expect_frame(50, WN__TRACE_ENTRIES - 2, 2);
	wn__trace_clear();
	expect_frame(0, 0, 0);
	note(7);
	wn__trace_end();
	expect_frame(1, 2, 0);
	note(3);
	expect_frame(1, 3, 0);
	wn__trace_end();
}
END_TEST

START_TEST(too_deep_a_lookup_is_not_traced)
{
	for (unsigned i = 0; i < WN__TRACE_DEPTH; i++) {
		ck_assert_int_eq(wn__trace_begin(), 0);
		note(i);
	}
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(wn__trace_begin(), WN_ERR_FULL);
		note(77);
		wn__trace_clear();
		expect_frame(0, 0, 0);
	}
	ck_assert_uint_eq(wn__trace_depth(), WN__TRACE_DEPTH + 3);
	for (unsigned i = 0; i < 3; i++)
		wn__trace_end();
	for (unsigned i = WN__TRACE_DEPTH; i-- > 0;) {
		expect_frame(i, 1, 0);
		wn__trace_end();
	}
	ck_assert_uint_eq(wn__trace_depth(), 0);
}
END_TEST

START_TEST(only_the_first_lookup_allocates)
{
	wn__alloc_fail_at(0);
	for (unsigned lookup = 0; lookup < 5; lookup++) {
		ck_assert_int_eq(wn__trace_begin(), 0);
		for (unsigned i = 0; i < 100; i++)
			note(i);
		wn__trace_end();
	}
	ck_assert_uint_eq(wn__alloc_calls(), 1);
}
END_TEST

START_TEST(without_memory_a_lookup_is_not_traced)
{
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__trace_begin(), ENOMEM);
	ck_assert_uint_eq(wn__trace_depth(), 1);
	note(1);
	ck_assert_int_eq(wn__trace_begin(), ENOMEM);
	note(1);
	expect_frame(0, 0, 0);
	wn__trace_clear();
	wn__trace_end();
	wn__trace_end();
	wn__alloc_fail_at(0);
	ck_assert_int_eq(wn__trace_begin(), 0);
	note(4);
	expect_frame(4, 1, 0);
	wn__trace_end();
}
END_TEST

static void *trace_on_its_own(void *arg)
{
	unsigned mine = *(const unsigned *)arg;

	for (unsigned lookup = 0; lookup < 2000; lookup++) {
		if (wn__trace_begin() != 0)
			return arg;
		for (unsigned i = 0; i < 5; i++)
			note(mine + i);
		expect_frame(mine, 5, 0);
		wn__trace_end();
	}
	return NULL;
}

/* Thread after thread: sanitizers see whether each one's trace is freed. */
START_TEST(every_thread_has_its_own_trace)
{
	for (unsigned round = 0; round < 20; round++) {
		unsigned numbers[3] = {1, 100, 200};
		pthread_t threads[3];
		void *failed;

		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(pthread_create(&threads[i], NULL, trace_on_its_own,
							&numbers[i]), 0);
		for (int i = 0; i < 3; i++) {
			pthread_join(threads[i], &failed);
			ck_assert_ptr_null(failed);
		}
	}
}
END_TEST

START_TEST(the_last_query_of_a_lookup_is_kept)
{
	struct wn_hash hash;
	uint32_t secret_id;

	wn__trace_ask(1, (struct wn_hash){2, 3});
	ck_assert(!wn__trace_asked(&secret_id, &hash));
	ck_assert_int_eq(wn__trace_begin(), 0);
	ck_assert(!wn__trace_asked(&secret_id, &hash));
	wn__trace_ask(1, (struct wn_hash){2, 3});
	wn__trace_ask(4, (struct wn_hash){5, 6});
	ck_assert_int_eq(wn__trace_begin(), 0);
	ck_assert(!wn__trace_asked(&secret_id, &hash));
	wn__trace_ask(7, (struct wn_hash){8, 9});
	wn__trace_end();
	ck_assert(wn__trace_asked(&secret_id, &hash));
	ck_assert_uint_eq(secret_id, 4);
	ck_assert(hash.hi == 5 && hash.lo == 6);
	wn__trace_clear();
	ck_assert(!wn__trace_asked(&secret_id, &hash));
	wn__trace_end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace");
	TCase *tests = tcase_create("trace");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, outside_a_lookup_nothing_is_noted);
	tcase_add_test(tests, positives_are_read_back_in_order);
	tcase_add_test(tests, a_trace_is_bounded_and_says_what_it_lost);
	tcase_add_test(tests, nested_lookups_do_not_disturb_each_other);
	tcase_add_test(tests, too_deep_a_lookup_is_not_traced);
	tcase_add_test(tests, only_the_first_lookup_allocates);
	tcase_add_test(tests, without_memory_a_lookup_is_not_traced);
	tcase_add_test(tests, every_thread_has_its_own_trace);
	tcase_add_test(tests, the_last_query_of_a_lookup_is_kept);
	return test_run(suite);
}
