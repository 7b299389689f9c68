/* test_missing.c - the missing keys that were asked for last: the ring, and lists of it. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "tests/support/missing_keys.h"

/* ---- the ring ----------------------------------------------------------- */

static void note_number(struct wn__missing *missing, uint64_t number)
{
	unsigned char key[8];

	put_le64(key, number);
	note(missing, key, sizeof(key));
}

static uint64_t number_of(const struct wn__missing_key *item)
{
	expect(item->size == 8);
	return get_le64((const unsigned char *)item->key);
}

START_TEST(what_was_asked_for_last_is_listed)
{
	struct wn__missing *missing = make(128);
	struct wn__missing_list *list;

	ck_assert_uint_eq(count_listed(missing), 0);
	for (uint64_t i = 0; i < 1000; i++)
		note_number(missing, i);
	list = wn__missing_list(missing, true);
	ck_assert_uint_eq(list->count, 128);
	expect_sound(missing, list);
	for (size_t i = 0; i < list->count; i++)
		expect(number_of(&list->items[i]) >= 1000 - 128 && list->items[i].times == 1);
	wn__missing_release(missing, list);
	wn__missing_release(missing, NULL);
	wn__missing_destroy(missing);
	wn__missing_destroy(NULL);
}
END_TEST

START_TEST(a_list_is_sorted_and_counts_each_key)
{
	struct wn__missing *missing = make(0);

	for (int i = 0; i < 300; i++)
		note_text(missing, "key/often");
	for (int i = 0; i < 3; i++)
		note_text(missing, "key/thrice");
	note_text(missing, "key/longer than eight bytes 2");
	note_text(missing, "key/longer than eight bytes 1");
	note_text(missing, "key/");
	note_text(missing, "key/longer than eight bytes");
	expect_texts(missing, "key/*1 key/longer than eight bytes*1 "
			      "key/longer than eight bytes 1*1 key/longer than eight bytes 2*1 "
			      "key/often*255 key/thrice*3 ");
	/* Now they have nothing in common. */
	note_text(missing, "");
	note_text(missing, "a");
	note_text(missing, "\xff");
	expect_texts(missing, "*1 a*1 key/*1 key/longer than eight bytes*1 "
			      "key/longer than eight bytes 1*1 key/longer than eight bytes 2*1 "
			      "key/often*255 key/thrice*3 \xff*1 ");
	wn__missing_destroy(missing);
}
END_TEST

/* Zeros at the end are part of a key. */
START_TEST(keys_that_differ_in_their_zeros_are_told_apart)
{
	static const char zeros[WN__MISSING_MAX_SIZE];
	struct wn__missing *missing = make(0);
	struct wn__missing_list *list;

	for (size_t size = WN__MISSING_MAX_SIZE + 1; size-- > 0;)
		note(missing, zeros, size);
	list = wn__missing_list(missing, true);
	ck_assert_uint_eq(list->count, WN__MISSING_MAX_SIZE + 1);
	for (size_t size = 0; size < list->count; size++)
		ck_assert_uint_eq(list->items[size].size, size);
	wn__missing_release(missing, list);
	wn__missing_destroy(missing);
}
END_TEST

static int compare_backwards(void *arg, const void *a, size_t a_size, const void *b, size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order = memcmp(b, a, shorter);

	++*(unsigned *)arg;
	return order ? order : (b_size > a_size) - (b_size < a_size);
}

START_TEST(the_order_is_the_databases)
{
	struct wn__missing *missing;
	unsigned calls = 0;

	ck_assert_int_eq(wn__missing_create(0, secret, compare_backwards, &calls, &missing), 0);
	for (int i = 0; i < 2; i++) {
		note_text(missing, "b");
		note_text(missing, "c");
		note_text(missing, "aa");
		note_text(missing, "a");
	}
	expect_texts(missing, "c*2 b*2 aa*2 a*2 ");
	ck_assert_uint_gt(calls, 0);
	wn__missing_destroy(missing);
}
END_TEST

/* A list of many keys takes long, and the comparator may do anything: lookups go on. */
static int compare_and_remember(void *arg, const void *a, size_t a_size, const void *b,
				size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order = memcmp(a, b, shorter);

	remember(*(struct wn__missing **)arg, a, a_size);
	note(*(struct wn__missing **)arg, b, b_size);
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

START_TEST(nobody_waits_for_a_list_to_remember_a_key)
{
	struct wn__missing *missing;

	ck_assert_int_eq(wn__missing_create(0, secret, compare_and_remember, &missing, &missing),
			 0);
	wn__missing_track(missing);
	note_text(missing, "b");
	note_text(missing, "a");
	alarm(60); /* it would wait for itself */
	ck_assert_uint_eq(count_listed(missing), 2);
	alarm(0);
	wn__missing_destroy(missing);
}
END_TEST

START_TEST(keys_that_are_too_long_are_not_kept)
{
	char key[WN__MISSING_MAX_SIZE + 1] = "long";
	struct wn__missing *missing = make(0);
	void *bytes;
	size_t size;

	wn__missing_track(missing);
	note(missing, key, sizeof(key));
	remember(missing, key, sizeof(key));
	note(missing, key, sizeof(key) - 1);
	ck_assert_uint_eq(count_listed(missing), 1);
	ck_assert_int_eq(wn__missing_take_changes(missing, &bytes, &size), 0);
	ck_assert_ptr_null(bytes);
	wn__missing_destroy(missing);
}
END_TEST

/* Keys of every size, whatever longer key was in their place before. */
START_TEST(keys_are_kept_byte_by_byte)
{
	struct wn__missing *missing = make(64);
	struct wn__missing_list *list;
	char key[WN__MISSING_MAX_SIZE];

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (char)(0xf0 - i);
	for (size_t i = 0; i < 64; i++)
		note(missing, key, sizeof(key));
	for (size_t size = 0; size <= sizeof(key); size++)
		note(missing, key, size);
	list = wn__missing_list(missing, true);
	ck_assert_uint_eq(list->count, sizeof(key) + 1);
	for (size_t size = 0; size <= sizeof(key); size++) {
		ck_assert_uint_eq(list->items[size].size, size);
		expect(memcmp(list->items[size].key, key, size) == 0);
	}
	wn__missing_release(missing, list);
	wn__missing_destroy(missing);
}
END_TEST

/* A place that is read while it is written: any of its bytes may be another key's. The comparator
 * must not see it. */
START_TEST(torn_entries_are_left_out)
{
	static const char key[] = "a key";
	struct wn__missing *missing = make(64);
	unsigned char *place = (unsigned char *)missing->places[0].words;
	const size_t size_at = offsetof(struct wn__missing_key, size);
	const size_t end = offsetof(struct wn__missing_key, key) + sizeof(key) - 1;

	note(missing, key, sizeof(key) - 1);
	ck_assert_uint_eq(count_listed(missing), 1);
	for (size_t bit = 0; bit < 8 * sizeof(struct wn__missing_key); bit++) {
		if (bit / 8 >= end && bit / 8 != size_at)
			continue;
		place[bit / 8] ^= (unsigned char)(1 << bit % 8);
		expect(count_listed(missing) == 0);
		place[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	ck_assert_uint_eq(count_listed(missing), 1);
	wn__missing_destroy(missing);
}
END_TEST

/* Made again only after some time; those who do not care get the last one. */
START_TEST(a_list_is_shared_while_it_is_young)
{
	struct wn__missing *missing = make(64);
	struct wn__missing_list *first, *second, *third;

	note_text(missing, "a");
	first = wn__missing_list(missing, false);
	ck_assert_uint_eq(first->count, 1);
	note_text(missing, "b");
	/* Another thread has made it while this one waited for the lock. */
	missing->list_made += UINT64_C(1000000000000);
	second = wn__missing_list(missing, false);
	ck_assert_ptr_eq(second, first);
	ck_assert_uint_eq(second->count, 1);
	third = wn__missing_list(missing, true);
	ck_assert_ptr_ne(third, first);
	ck_assert_uint_eq(third->count, 2);
	/* Old, and nothing is new. */
	missing->list_made = 0;
	wn__missing_release(missing, second);
	second = wn__missing_list(missing, false);
	ck_assert_ptr_eq(second, third);
	note_text(missing, "c");
	wn__missing_release(missing, second);
	second = wn__missing_list(missing, false);
	ck_assert_uint_eq(second->count, 3);
	ck_assert_uint_eq(first->count, 1); /* still there */
	wn__missing_release(missing, first);
	wn__missing_release(missing, second);
	wn__missing_release(missing, third);
	wn__missing_destroy(missing);
}
END_TEST

#define THREADS 4

static void *note_for_long(void *given)
{
	for (uint64_t i = 0; i < 200000; i++)
		note_number(given, i % 1000);
	return NULL;
}

START_TEST(threads_note_while_lists_are_made)
{
	struct wn__missing *missing = make(64); /* a row: they write over each other's */
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, note_for_long, missing), 0);
	for (unsigned i = 0; i < 500; i++) {
		struct wn__missing_list *list = wn__missing_list(missing, true);

		expect_sound(missing, list);
		for (size_t at = 0; at < list->count; at++)
			expect(number_of(&list->items[at]) < 1000);
		wn__missing_release(missing, list);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_gt(count_listed(missing), 0);
	wn__missing_destroy(missing);
}
END_TEST

/* ---- no memory ---------------------------------------------------------- */

START_TEST(without_memory_there_is_no_ring)
{
	struct wn__missing *missing;

	for (uint64_t nth = 1; nth <= 2; nth++) {
		missing = (void *)1;
		wn__alloc_fail_at(nth);
		ck_assert_int_eq(wn__missing_create(64, secret, NULL, NULL, &missing), ENOMEM);
		ck_assert_ptr_null(missing);
	}
	wn__alloc_fail_at(3);
	ck_assert_int_eq(wn__missing_create(64, secret, NULL, NULL, &missing), 0);
	ck_assert_uint_eq(wn__alloc_calls(), 2);
	wn__alloc_fail_at(0);
	wn__missing_destroy(missing);
}
END_TEST

START_TEST(without_memory_there_is_no_list)
{
	struct wn__missing *missing = make(64);
	struct wn__missing_list *list;
	uint64_t nth = 0;
	size_t size;
	void *bytes;

	note_text(missing, "a");
	do {
		wn__alloc_fail_at(++nth);
		list = wn__missing_list(missing, true);
		ck_assert((list == NULL) == (nth < 4));
	} while (!list);
	wn__missing_release(missing, list);
	/* A list from before is not all that is known. */
	note_text(missing, "b");
	for (nth = 1; nth <= 4; nth++) {
		bytes = (void *)1;
		wn__alloc_fail_at(nth);
		ck_assert_int_eq(wn__missing_save(missing, &bytes, &size), ENOMEM);
		ck_assert_ptr_null(bytes);
		ck_assert_uint_eq(size, 0);
	}
	/* It will do for those who do not care. */
	missing->list_made = 0;
	wn__missing_release(missing, wn__missing_list(missing, true));
	wn__alloc_fail_at(1);
	list = wn__missing_list(missing, false);
	wn__alloc_fail_at(0);
	ck_assert_ptr_nonnull(list);
	wn__missing_release(missing, list);
	expect_texts(missing, "a*1 b*1 ");
	wn__missing_destroy(missing);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("missing");
	TCase *tests = tcase_create("missing");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, what_was_asked_for_last_is_listed);
	tcase_add_test(tests, a_list_is_sorted_and_counts_each_key);
	tcase_add_test(tests, keys_that_differ_in_their_zeros_are_told_apart);
	tcase_add_test(tests, the_order_is_the_databases);
	tcase_add_test(tests, nobody_waits_for_a_list_to_remember_a_key);
	tcase_add_test(tests, keys_that_are_too_long_are_not_kept);
	tcase_add_test(tests, keys_are_kept_byte_by_byte);
	tcase_add_test(tests, torn_entries_are_left_out);
	tcase_add_test(tests, a_list_is_shared_while_it_is_young);
	tcase_add_test(tests, threads_note_while_lists_are_made);
	tcase_add_test(tests, without_memory_there_is_no_ring);
	tcase_add_test(tests, without_memory_there_is_no_list);
	return test_run(suite);
}
