/* test_lessons_saved.c - lessons to and from bytes, all or what has changed. */
#include "tests/support/lessons.h"

/* An empty minirun, and one with a key whose first piece is 0x123456789ab. */
static void learn_two_miniruns(struct wn__lessons *lessons)
{
	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(0), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 7, wn__lesson_of_count(1), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 7, wn__lesson_word(0, 0, 0x123456789ab), false),
			 0);
}

START_TEST(the_format_is_what_it_was)
{
	static const unsigned char golden[] = {
		0x57, 0x4e, 0x4c, 0x45, 0x41, 0x52, 0x4e, 0x44, 0x01, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x98, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x57, 0x4e, 0x4c, 0x45, 0x53, 0x53, 0x4f, 0x4e,
		0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x61, 0x20, 0x63, 0x72, 0x6f, 0x77, 0x64, 0x20, 0x6f, 0x66, 0x20, 0x6b,
		0x65, 0x79, 0x73, 0x00, 0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xab, 0x89, 0x67, 0x45,
		0x23, 0x05, 0x00, 0x00, 0x8a, 0xc5, 0x91, 0xae, 0x14, 0x24, 0x57, 0x30,
		0x00, 0xb0, 0x10, 0xff, 0x7f, 0xa9, 0x2e, 0x56,
	};
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire_crowd(registry);
	unsigned char old[sizeof(golden)];
	void *bytes;
	size_t size, used;

	learn_two_miniruns(lessons);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	ck_assert_uint_eq(size, sizeof(golden));
	ck_assert_mem_eq(bytes, golden, sizeof(golden));
	/* The one record of it, as it stands in a journal. */
	size -= WN__RECORDS_AT + 8;
	memcpy(old, golden + WN__RECORDS_AT, size);
	ck_assert_int_eq(wn__registry_load_record(registry, old, size, &used), 0);
	ck_assert_uint_eq(used, size);
	/* Versions before 3 took a hash apart in another way. */
	for (uint32_t version = 0; version < 6; version++) {
		put_le32(old + WN__RECORD_VERSION_AT, version);
		wn__record_seal(old, size);
		ck_assert_int_eq(wn__registry_load_record(registry, old, size, &used),
				 version == 3 ? 0 : WN_ERR_VERSION);
	}
	ck_assert_uint_eq(stats_of(registry).lessons, 3);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
}
END_TEST

/* ---- bytes -------------------------------------------------------------- */

static void expect_nothing(struct wn__registry *registry)
{
	struct wn__registry_stats stats = stats_of(registry);

	expect(stats.filters == 0 && stats.lessons == 0 && stats.changes == 0);
}

/* Every byte in turn, every length, and up to `more` bytes behind the end. */
static void expect_damage_is_refused(int (*load)(struct wn__registry *, const void *, size_t),
				     const unsigned char *bytes, size_t size, size_t more)
{
	struct wn__registry *registry = new_registry(0);

	wn__registry_track(registry);
	for (size_t at = 0; at < size; at++) {
		unsigned char *copy = malloc(size); /* so that sanitizers see its end */
		int err;

		memcpy(copy, bytes, size);
		copy[at] ^= (unsigned char)(1 << at % 8);
		err = load(registry, copy, size);
		expect(err == WN_ERR_CORRUPT || err == WN_ERR_VERSION);
		expect_nothing(registry);
		free(copy);
	}
	for (size_t length = 0; length <= size + more; length++) {
		unsigned char *copy = calloc(1, length ? length : 1);

		memcpy(copy, bytes, length < size ? length : size);
		if (length != size)
			expect(load(registry, copy, length) == WN_ERR_CORRUPT);
		expect_nothing(registry);
		free(copy);
	}
	ck_assert_int_eq(load(registry, bytes, size), 0);
	ck_assert_uint_gt(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).changes, 0);
	wn__registry_destroy(registry);
}

START_TEST(saved_lessons_come_back_the_same)
{
	static struct shelf_of_filters shelf;
	struct wn__registry *other = new_registry(0);
	size_t size, other_size;
	void *bytes, *other_bytes;

	set_up(&shelf, 0);
	for (int i = 0; i < FILTERS; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_int_eq(wn__registry_save(shelf.registry, &bytes, &size), 0);
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	ck_assert_int_eq(wn__registry_save(other, &other_bytes, &other_size), 0);
	ck_assert_uint_eq(size, other_size);
	ck_assert(memcmp(bytes, other_bytes, size) == 0);
	/* Twice is as good as once. */
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	ck_assert_uint_eq(stats_of(other).lessons, stats_of(shelf.registry).lessons);
	ck_assert_uint_eq(stats_of(other).changes, 0);
	for (int i = 0; i < FILTERS; i++) {
		wn__lessons_release(shelf.lessons[i]);
		shelf.lessons[i] = acquire(other, &shelf.frozen[i]);
		ck_assert(has_lessons(&shelf, i));
		frozen_expect_all_keys(&shelf.frozen[i], shelf.lessons[i]);
	}
	free(bytes);
	free(other_bytes);
	wn__registry_destroy(other);
	tear_down(&shelf);
}
END_TEST

/* The one record that is there, and nothing behind it. */
static int load_one_record(struct wn__registry *registry, const void *bytes, size_t size)
{
	size_t used;
	int err = wn__registry_load_record(registry, bytes, size, &used);

	if (err)
		expect(used == 0);
	else if (used != size)
		err = WN_ERR_CORRUPT;
	return err;
}

START_TEST(damaged_bytes_are_refused_whole)
{
	uint64_t random = test_seed("damage", 70);
	struct frozen_filter one = frozen_make(1000, 4, &random, NULL, 0);
	struct frozen_filter two = frozen_make(1000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &one);
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	teach_some(&one, lessons, 20, &random, NULL);
	ck_assert_uint_eq(stats_of(registry).changes, stats_of(registry).lessons);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	expect_damage_is_refused(load_one_record, bytes, size, 0);
	free(bytes);
	wn__lessons_release(lessons);
	lessons = acquire(registry, &two);
	teach_some(&two, lessons, 20, &random, NULL);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	expect_damage_is_refused(wn__registry_load, bytes, size, 16);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&one);
	frozen_destroy(&two);
}
END_TEST

START_TEST(nothing_is_saved_and_loaded_too)
{
	struct wn__registry *registry = new_registry(0);
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	ck_assert_int_eq(wn__registry_load(registry, bytes, size), 0);
	expect_nothing(registry);
	free(bytes);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	ck_assert_ptr_null(bytes);
	wn__registry_destroy(registry);
}
END_TEST

/* A host that writes what has changed: what was learned since the last time. */
static uint64_t sync_changes(struct wn__registry *registry, struct wn__registry *disk)
{
	uint64_t count = stats_of(registry).changes, before = stats_of(disk).lessons;
	unsigned char *bytes, *at;
	size_t size, used;

	ck_assert_int_eq(wn__registry_take_changes(registry, (void **)&bytes, &size), 0);
	for (at = bytes; at < bytes + size; at += used)
		ck_assert_int_eq(wn__registry_load_record(disk, at, (size_t)(bytes + size - at),
							 &used), 0);
	free(bytes);
	ck_assert_uint_eq(stats_of(disk).lessons - before, count);
	ck_assert_uint_eq(stats_of(registry).changes, 0);
	return count;
}

START_TEST(only_what_changed_is_given_to_be_saved)
{
	static struct shelf_of_filters shelf;
	struct wn__registry *disk = new_registry(0);

	set_up(&shelf, 0);
	wn__registry_track(shelf.registry);
	ck_assert_uint_eq(sync_changes(shelf.registry, disk), 0);
	for (int i = 0; i < FILTERS; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_uint_eq(sync_changes(shelf.registry, disk), stats_of(shelf.registry).lessons);
	while (stats_of(shelf.registry).changes == 0)
		teach_some(&shelf.frozen[3], shelf.lessons[3], 1, &shelf.random, NULL);
	ck_assert_uint_eq(sync_changes(shelf.registry, disk), 1);
	ck_assert_uint_eq(stats_of(disk).lessons, stats_of(shelf.registry).lessons);
	wn__registry_destroy(disk);
	tear_down(&shelf);
}
END_TEST

START_TEST(more_changes_than_are_listed_are_said_to_be_lost)
{
	uint64_t random = test_seed("changes", 77);
	struct frozen_filter frozen = frozen_make(200000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	while (stats_of(registry).lessons <= WN__REGISTRY_MAX_CHANGES)
		teach_some(&frozen, lessons, 1000, &random, NULL);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), WN_ERR_FULL);
	ck_assert_ptr_null(bytes);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	while (stats_of(registry).changes == 0)
		teach_some(&frozen, lessons, 1, &random, NULL);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	ck_assert_ptr_nonnull(bytes);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lessons_saved");
	TCase *tests = tcase_create("lessons_saved");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, the_format_is_what_it_was);
	tcase_add_test(tests, saved_lessons_come_back_the_same);
	tcase_add_test(tests, damaged_bytes_are_refused_whole);
	tcase_add_test(tests, nothing_is_saved_and_loaded_too);
	tcase_add_test(tests, only_what_changed_is_given_to_be_saved);
	tcase_add_test(tests, more_changes_than_are_listed_are_said_to_be_lost);
	return test_run(suite);
}
