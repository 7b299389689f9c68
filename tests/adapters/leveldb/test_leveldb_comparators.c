/* LevelDB databases with comparators of their own: no key is denied because its bytes are not those
 * that were stored, and a comparator sees no key that nobody wrote or asked for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/leveldb_db.h"

/* ---- comparators -------------------------------------------------------- */

static void leave_alone(void *arg)
{
	(void)arg;
}

static const char *get_name(void *arg)
{
	(void)arg;
	return "winnow.test.comparator";
}

static int compare_folded(void *arg, const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;

	(void)arg;
	for (size_t i = 0; i < shorter; i++) {
		int difference = tolower((unsigned char)a[i]) - tolower((unsigned char)b[i]);

		if (difference)
			return difference;
	}
	return (a_size > b_size) - (a_size < b_size);
}

static size_t fold(void *arg, const char *key, size_t size, char *room)
{
	(void)arg;
	for (size_t i = 0; i < size; i++)
		room[i] = (char)tolower((unsigned char)key[i]);
	return size;
}

static int compare_backwards(void *arg, const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order = memcmp(a, b, shorter);

	(void)arg;
	return -(order ? order : (a_size > b_size) - (a_size < b_size));
}

/* ---- databases ---------------------------------------------------------- */

struct own_db {
	leveldb_comparator_t *comparator;
	leveldb_options_t *options;
	leveldb_t *level;
	struct wn_leveldb *wn;
	leveldb_readoptions_t *reading;
	leveldb_writeoptions_t *writing;
	char *error;
};

static struct own_db open_own(const char *name,
			      int (*compare)(void *, const char *, size_t, const char *, size_t),
			      const struct wn_leveldb_options *given)
{
	struct own_db db = {.comparator = leveldb_comparator_create(NULL, leave_alone, compare,
								    get_name),
			    .options = leveldb_options_create(),
			    .reading = leveldb_readoptions_create(),
			    .writing = leveldb_writeoptions_create()};

	leveldb_options_set_create_if_missing(db.options, 1);
	leveldb_options_set_write_buffer_size(db.options, 128 << 10);
	leveldb_options_set_comparator(db.options, db.comparator);
	db.level = wn_leveldb_open(db.options, test_path(name), given, &db.wn, &db.error);
	return db;
}

static void close_own(struct own_db *db)
{
	wn_leveldb_close(db->wn);
	leveldb_readoptions_destroy(db->reading);
	leveldb_writeoptions_destroy(db->writing);
	leveldb_options_destroy(db->options);
	leveldb_comparator_destroy(db->comparator);
	leveldb_free(db->error);
}

/* "Key-12-...": letters in it have a case. Every 50th is longer than most buffers. */
static size_t make_key(unsigned number, bool upper, char *key)
{
	size_t size = (size_t)snprintf(key, 600, "Key-%08x-%0*d", number * 2654435761u,
				       number % 50 ? 1 : 400, 7);

	for (size_t i = 0; upper && i < size; i++)
		key[i] = (char)toupper((unsigned char)key[i]);
	return size;
}

static void put_keys(struct own_db *db, unsigned count)
{
	char key[600], value[100] = "value";

	for (unsigned i = 0; i < count; i++) {
		leveldb_put(db->level, db->writing, key, make_key(i, false, key), value,
			    sizeof(value), &db->error);
		expect_no(db->error);
	}
	leveldb_compact_range(db->level, NULL, 0, NULL, 0);
}

static unsigned count_found(struct own_db *db, unsigned first, unsigned end, bool upper)
{
	unsigned found = 0;
	char key[600];
	size_t size;

	for (unsigned i = first; i < end; i++) {
		char *value = wn_leveldb_get(db->wn, db->reading, key, make_key(i, upper, key),
					     &size, &db->error);

		expect_no(db->error);
		found += value != NULL;
		leveldb_free(value);
	}
	return found;
}

/* ---- tests -------------------------------------------------------------- */

START_TEST(a_comparator_that_nobody_vouches_for_is_refused)
{
	struct own_db db = open_own("refused", compare_folded, NULL);

	ck_assert_ptr_null(db.level);
	ck_assert_ptr_nonnull(db.error);
	ck_assert_ptr_nonnull(strstr(db.error, "comparator"));
	ck_assert_int_ne(access(test_path("refused"), F_OK), 0);
	ck_assert_int_ne(access(test_path("refused.winnow"), F_OK), 0);
	close_own(&db);
}
END_TEST

START_TEST(keys_that_are_equal_with_other_bytes_are_found)
{
	const char *filters[] = {"aqf", "sscf"};

	for (int i = 0; i < 2; i++) {
		struct wn_leveldb_options given = {.filter = filters[i], .canonical = fold};
		struct own_db db = open_own(filters[i], compare_folded, &given);
		struct wn_stats stats;
		unsigned absent = 40000;

		expect_no(db.error);
		put_keys(&db, 5000);
		ck_assert_uint_eq(count_found(&db, 0, 5000, true), 5000);
		ck_assert_uint_eq(count_found(&db, 0, 5000, false), 5000);
		/* The filters do deny, and what they learn in one case holds in the other. */
		ck_assert_uint_eq(count_found(&db, 5000, 5000 + absent, false), 0);
		wn_leveldb_stats(db.wn, &stats);
		ck_assert_uint_lt(stats.false_positives, absent / 20);
		if (i == 0) {
			uint64_t before = stats.false_positives;

			ck_assert_uint_gt(before, 0);
			ck_assert_uint_eq(count_found(&db, 5000, 5000 + absent, true), 0);
			wn_leveldb_stats(db.wn, &stats);
			ck_assert_uint_le(stats.false_positives - before, before / 100);
		}
		ck_assert_uint_eq(count_found(&db, 0, 5000, true), 5000);
		close_own(&db);
		db = open_own(filters[i], compare_folded, &given);
		expect_no(db.error);
		put_keys(&db, 5100);
		ck_assert_uint_eq(count_found(&db, 0, 5100, true), 5100);
		close_own(&db);
	}
}
END_TEST

/* Bloom filters know the bytes that were stored and no others. */
START_TEST(bloom_filters_are_not_asked_for_keys_with_other_bytes)
{
	struct wn_leveldb_options given = {.canonical = fold};
	struct own_db db = open_own("bloom", compare_folded, &given);
	leveldb_filterpolicy_t *bloom = leveldb_filterpolicy_create_bloom(10);

	expect_no(db.error);
	wn_leveldb_close(db.wn);
	leveldb_options_set_filter_policy(db.options, bloom);
	db.level = leveldb_open(db.options, test_path("bloom"), &db.error);
	expect_no(db.error);
	put_keys(&db, 5000);
	leveldb_close(db.level);
	db.level = wn_leveldb_open(db.options, test_path("bloom"), &given, &db.wn, &db.error);
	expect_no(db.error);
	ck_assert_uint_eq(count_found(&db, 0, 5000, true), 5000);
	ck_assert_uint_eq(count_found(&db, 0, 5000, false), 5000);
	close_own(&db);
	leveldb_filterpolicy_destroy(bloom);
}
END_TEST

/* Filters that were built without the function know other hashes, and the other way round. */
START_TEST(the_function_may_come_and_go)
{
	const char *filters[] = {"aqf", "sscf"};

	for (int i = 0; i < 2; i++) {
		char name[32];
		struct wn_leveldb_options raw = {.filter = filters[i],
						 .equal_keys_are_identical = true};
		struct wn_leveldb_options folded = {.filter = filters[i], .canonical = fold};
		struct own_db db;

		snprintf(name, sizeof(name), "come-%s", filters[i]);
		for (unsigned count = 1000; count <= 4000; count += 1000) {
			bool with = count % 2000 == 0;

			db = open_own(name, compare_folded, with ? &folded : &raw);
			expect_no(db.error);
			ck_assert_uint_eq(count_found(&db, 0, count - 1000, false), count - 1000);
			if (with)
				ck_assert_uint_eq(count_found(&db, 0, count - 1000, true),
						  count - 1000);
			/* The next opening finds filters of this one. */
			put_keys(&db, count);
			ck_assert_uint_eq(count_found(&db, 0, count, with), count);
			ck_assert_uint_eq(count_found(&db, count, 4 * count, false), 0);
			close_own(&db);
		}
	}
}
END_TEST

START_TEST(another_order_of_the_same_bytes_is_served)
{
	struct wn_leveldb_options given = {.equal_keys_are_identical = true};
	struct own_db db = open_own("backwards", compare_backwards, &given);
	struct wn_stats stats;
	uint64_t first;

	expect_no(db.error);
	put_keys(&db, 5000);
	ck_assert_uint_eq(count_found(&db, 0, 5000, false), 5000);
	ck_assert_uint_eq(count_found(&db, 5000, 45000, false), 0);
	wn_leveldb_stats(db.wn, &stats);
	first = stats.false_positives;
	ck_assert_uint_gt(first, 0);
	wn_leveldb_drain(db.wn);
	put_keys(&db, 5000);
	ck_assert_uint_eq(count_found(&db, 5000, 45000, false), 0);
	wn_leveldb_stats(db.wn, &stats);
	ck_assert_uint_le(stats.false_positives - first, first / 10);
	close_own(&db);
}
END_TEST

START_TEST(more_known_misses_than_memory_are_refused)
{
	size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2 + 2, WN_LEVELDB_MAX_KNOWN_MISSES + 1};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct wn_leveldb_options given = {.known_misses = sizes[i],
						   .equal_keys_are_identical = true};
		struct own_db db = open_own("misses", compare_backwards, &given);

		ck_assert_ptr_null(db.level);
		ck_assert_ptr_nonnull(strstr(db.error, "known_misses"));
		close_own(&db);
	}
}
END_TEST

/* ---- torn keys ---------------------------------------------------------- */

static atomic_uint torn;

/* All keys are one letter, 40 times. LevelDB shortens keys between blocks to a beginning. */
static int compare_uniform(void *arg, const char *a, size_t a_size, const char *b, size_t b_size)
{
	for (size_t i = 1; i < a_size; i++)
		if (a[i] != a[0])
			atomic_fetch_add(&torn, 1);
	for (size_t i = 1; i < b_size; i++)
		if (b[i] != b[0])
			atomic_fetch_add(&torn, 1);
	return -compare_backwards(arg, a, a_size, b, b_size);
}

struct asker {
	struct own_db *db;
	unsigned char first;
	atomic_bool *done;
	pthread_t thread;
};

static void *ask_all_the_time(void *given)
{
	struct asker *asker = given;
	leveldb_readoptions_t *reading = leveldb_readoptions_create();

	for (unsigned i = 0; !atomic_load(asker->done); i++) {
		char key[40], *error = NULL;
		size_t size;

		memset(key, asker->first + (int)(i % 100), sizeof(key));
		leveldb_free(wn_leveldb_get(asker->db->wn, reading, key, sizeof(key), &size,
					    &error));
		expect_no(error);
	}
	leveldb_readoptions_destroy(reading);
	return NULL;
}

START_TEST(a_comparator_sees_whole_keys_only)
{
	struct wn_leveldb_options given = {.equal_keys_are_identical = true, .known_misses = 64};
	struct own_db db = open_own("torn", compare_uniform, &given);
	atomic_bool done = false;
	struct asker askers[3];

	expect_no(db.error);
	for (int i = 0; i < 256; i += 2) {
		char key[40];

		memset(key, i, sizeof(key));
		leveldb_put(db.level, db.writing, key, sizeof(key), "v", 1, &db.error);
		expect_no(db.error);
	}
	leveldb_compact_range(db.level, NULL, 0, NULL, 0);
	for (int i = 0; i < 3; i++) {
		askers[i] = (struct asker){&db, (unsigned char)(70 * i), &done, 0};
		ck_assert_int_eq(pthread_create(&askers[i].thread, NULL, ask_all_the_time,
						&askers[i]), 0);
	}
	for (int i = 0; i < (test_is_quick() ? 2000 : 20000); i++)
		wn_leveldb_drain(db.wn);
	atomic_store(&done, true);
	for (int i = 0; i < 3; i++)
		pthread_join(askers[i].thread, NULL);
	ck_assert_uint_eq(atomic_load(&torn), 0);
	close_own(&db);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_comparators");
	TCase *tests = tcase_create("leveldb_comparators");
	int failed;

	test_make_top();
	tcase_add_test(tests, a_comparator_that_nobody_vouches_for_is_refused);
	tcase_add_test(tests, keys_that_are_equal_with_other_bytes_are_found);
	tcase_add_test(tests, bloom_filters_are_not_asked_for_keys_with_other_bytes);
	tcase_add_test(tests, the_function_may_come_and_go);
	tcase_add_test(tests, another_order_of_the_same_bytes_is_served);
	tcase_add_test(tests, more_known_misses_than_memory_are_refused);
	tcase_add_test(tests, a_comparator_sees_whole_keys_only);
	suite_add_tcase(suite, tests);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
