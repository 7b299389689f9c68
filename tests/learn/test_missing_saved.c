/* test_missing_saved.c - missing keys to and from bytes, all or what has changed. */
#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "tests/support/missing_keys.h"

/* ---- bytes -------------------------------------------------------------- */

START_TEST(what_is_saved_comes_back)
{
	uint64_t random = test_seed("missing", 3);
	struct wn__missing *missing = make(0), *other = make(0);
	struct wn__missing_list *list, *loaded;
	size_t size, used;
	void *bytes;

	for (size_t i = 0; i < 5000; i++) {
		unsigned char key[WN__MISSING_MAX_SIZE];

		for (size_t at = 0; at < sizeof(key); at++)
			key[at] = (unsigned char)test_random(&random);
		note(missing, key, i % (sizeof(key) + 1));
	}
	ck_assert_int_eq(wn__missing_save(missing, &bytes, &size), 0);
	ck_assert_int_eq(wn__missing_load_first(other, bytes, size, &used), 0);
	ck_assert_uint_eq(used, size);
	list = wn__missing_list(missing, true);
	loaded = wn__missing_list(other, true);
	ck_assert_uint_gt(list->count, 4500);
	ck_assert_uint_eq(loaded->count, list->count);
	for (size_t i = 0; i < list->count; i++) {
		expect(loaded->items[i].size == list->items[i].size);
		expect(memcmp(loaded->items[i].key, list->items[i].key, list->items[i].size) == 0);
	}
	wn__missing_release(missing, list);
	wn__missing_release(other, loaded);
	free(bytes);
	wn__missing_destroy(missing);
	wn__missing_destroy(other);
}
END_TEST

/* Three keys: "", "a" and "bc". */
static const unsigned char golden[] = {
	0x57, 0x4e, 0x4d, 0x49, 0x53, 0x53, 0x4e, 0x47, 0x01, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xeb, 0x02, 0x15, 0x2d, 0xed, 0x9b, 0xd4, 0xbf,
	0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x61, 0x02,
	0x62, 0x63, 0x70, 0x99, 0x7f, 0xc2, 0x92, 0x38, 0x58, 0xa6,
};

static void note_golden(struct wn__missing *missing)
{
	note_text(missing, "bc");
	note_text(missing, "a");
	note_text(missing, "");
}

START_TEST(the_format_is_what_it_was)
{
	struct wn__missing *missing = make(0), *other = make(0);
	size_t size, used;
	void *bytes;

	note_golden(missing);
	ck_assert_int_eq(wn__missing_save(missing, &bytes, &size), 0);
	ck_assert_uint_eq(size, sizeof(golden));
	ck_assert_mem_eq(bytes, golden, sizeof(golden));
	ck_assert_int_eq(wn__missing_load_first(other, golden, sizeof(golden), &used), 0);
	ck_assert_uint_eq(used, sizeof(golden));
	expect_texts(other, "*1 a*1 bc*1 ");
	free(bytes);
	wn__missing_destroy(missing);
	wn__missing_destroy(other);
}
END_TEST

static int load_copy(struct wn__missing *missing, const unsigned char *bytes, size_t size,
		     size_t *usedp)
{
	unsigned char *copy = malloc(size ? size : 1); /* so that sanitizers see its end */
	int err;

	memcpy(copy, bytes, size);
	err = wn__missing_load_first(missing, copy, size, usedp);
	free(copy);
	return err;
}

START_TEST(damaged_bytes_are_refused_whole)
{
	struct wn__missing *missing = make(64);
	unsigned char bytes[sizeof(golden) + 16];
	size_t used;

	memcpy(bytes, golden, sizeof(golden));
	for (size_t bit = 0; bit < 8 * sizeof(golden); bit++) {
		int err;

		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		used = 1;
		err = load_copy(missing, bytes, sizeof(golden), &used);
		expect(err == WN_ERR_CORRUPT || err == WN_ERR_VERSION);
		expect(used == 0 && count_listed(missing) == 0);
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	for (size_t cut = 0; cut < sizeof(golden); cut++) {
		expect(load_copy(missing, bytes, cut, &used) == WN_ERR_CORRUPT);
		expect(used == 0 && count_listed(missing) == 0);
	}
	/* Another piece may follow. */
	memset(bytes + sizeof(golden), 0xaa, sizeof(bytes) - sizeof(golden));
	ck_assert_int_eq(load_copy(missing, bytes, sizeof(bytes), &used), 0);
	ck_assert_uint_eq(used, sizeof(golden));
	expect_texts(missing, "*1 a*1 bc*1 ");
	wn__missing_destroy(missing);
}
END_TEST

/* Put the right checksum under the first `size` bytes, and load them. */
static int load_crafted(struct wn__missing *missing, unsigned char *bytes, size_t size,
			size_t *usedp)
{
	put_le64(bytes + size, XXH3_64bits(bytes, size));
	return load_copy(missing, bytes, size + 8, usedp);
}

START_TEST(crafted_bytes_do_no_harm)
{
	struct wn__missing *missing = make(64);
	unsigned char bytes[sizeof(golden)];
	const size_t end = sizeof(golden) - 8;
	size_t used;

	memcpy(bytes, golden, sizeof(golden));
	put_le32(bytes + 8, 2);
	ck_assert_int_eq(load_crafted(missing, bytes, end, &used), WN_ERR_VERSION);
	ck_assert_uint_eq(used, 0);
	put_le32(bytes + 8, 1);
	/* A size of entries that goes beyond the end, and one that wraps around. */
	for (unsigned i = 0; i < 2; i++) {
		put_le64(bytes + 24, i ? UINT64_MAX - 38 : end);
		ck_assert_int_eq(load_crafted(missing, bytes, end, &used), WN_ERR_CORRUPT);
	}
	put_le64(bytes + 24, end - 32);
	ck_assert_uint_eq(count_listed(missing), 0);
	/* An entry that goes beyond the entries' end: those before it are right. */
	bytes[33] = 5; /* it has four */
	ck_assert_int_eq(load_crafted(missing, bytes, end, &used), 0);
	ck_assert_uint_eq(used, sizeof(golden));
	expect_texts(missing, "*1 ");
	wn__missing_destroy(missing);
}
END_TEST

START_TEST(another_secrets_keys_are_passed_over)
{
	struct wn_secret *others = test_secret(2);
	struct wn__missing *missing;
	size_t used;

	ck_assert_int_eq(wn__missing_create(64, others, NULL, NULL, &missing), 0);
	ck_assert_int_eq(wn__missing_load_first(missing, golden, sizeof(golden), &used),
			 WN_ERR_MISMATCH);
	ck_assert_uint_eq(used, sizeof(golden));
	ck_assert_uint_eq(count_listed(missing), 0);
	wn__missing_destroy(missing);
	wn_secret_destroy(others);
}
END_TEST

/* ---- what has changed --------------------------------------------------- */

/* Take what has changed, and load it into another. */
static void expect_changes(struct wn__missing *missing, const char *wanted)
{
	struct wn__missing *other = make(0);
	size_t size, used;
	void *bytes;

	ck_assert_int_eq(wn__missing_take_changes(missing, &bytes, &size), 0);
	ck_assert((bytes == NULL) == (size == 0));
	if (bytes)
		ck_assert_int_eq(wn__missing_load_first(other, bytes, size, &used), 0);
	expect_texts(other, wanted);
	free(bytes);
	wn__missing_destroy(other);
}

START_TEST(only_what_is_remembered_is_given_to_be_saved)
{
	struct wn__missing *missing = make(0);

	remember(missing, "too early", 9);
	wn__missing_track(missing);
	expect_changes(missing, "");
	note_text(missing, "noted");
	for (int i = 0; i < 10; i++) {
		remember(missing, "one", 3);
		remember(missing, "two", 3);
	}
	remember(missing, "", 0);
	expect_changes(missing, "*1 one*1 two*1 ");
	expect_changes(missing, "");
	/* It is saved already. */
	remember(missing, "one", 3);
	remember(missing, "three", 5);
	expect_changes(missing, "three*1 ");
	wn__missing_destroy(missing);
}
END_TEST

START_TEST(more_changes_than_are_kept_are_said_to_be_lost)
{
	struct wn__missing *missing = make(0);
	void *bytes;
	size_t size;

	wn__missing_track(missing);
	for (uint64_t i = 0; i <= WN__MISSING_MAX_CHANGES; i++)
		remember(missing, &i, sizeof(i));
	ck_assert_int_eq(wn__missing_take_changes(missing, &bytes, &size), WN_ERR_FULL);
	ck_assert_ptr_null(bytes);
	ck_assert_uint_eq(size, 0);
	expect_changes(missing, "");
	remember(missing, "again", 5);
	expect_changes(missing, "again*1 ");
	for (uint64_t i = 0; i < WN__MISSING_MAX_CHANGES; i++)
		remember(missing, &i, sizeof(i));
	ck_assert_int_eq(wn__missing_take_changes(missing, &bytes, &size), 0);
	ck_assert_uint_eq(size, 40 + 9 * WN__MISSING_MAX_CHANGES);
	free(bytes);
	wn__missing_destroy(missing);
}
END_TEST

START_TEST(changes_that_find_no_memory_are_said_to_be_lost)
{
	struct wn__missing *missing = make(64);
	void *bytes;
	size_t size;

	wn__missing_track(missing);
	wn__alloc_fail_at(1);
	remember(missing, "a", 1);
	ck_assert_int_eq(wn__missing_take_changes(missing, &bytes, &size), WN_ERR_FULL);
	ck_assert_ptr_null(bytes);
	remember(missing, "b", 1);
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__missing_take_changes(missing, &bytes, &size), WN_ERR_FULL);
	wn__alloc_fail_at(0);
	ck_assert_ptr_null(bytes);
	remember(missing, "c", 1);
	expect_changes(missing, "c*1 ");
	wn__missing_destroy(missing);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("missing_saved");
	TCase *tests = tcase_create("missing_saved");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, what_is_saved_comes_back);
	tcase_add_test(tests, the_format_is_what_it_was);
	tcase_add_test(tests, damaged_bytes_are_refused_whole);
	tcase_add_test(tests, crafted_bytes_do_no_harm);
	tcase_add_test(tests, another_secrets_keys_are_passed_over);
	tcase_add_test(tests, only_what_is_remembered_is_given_to_be_saved);
	tcase_add_test(tests, more_changes_than_are_kept_are_said_to_be_lost);
	tcase_add_test(tests, changes_that_find_no_memory_are_said_to_be_lost);
	return test_run(suite);
}
