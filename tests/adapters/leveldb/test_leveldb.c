/* winnow's filters in a real LevelDB: right answers in every company, and filters that learn. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>

#include <winnow/error.h>

#include "tests/support/leveldb_db.h"

static uint64_t scale(uint64_t full, uint64_t quick)
{
	return test_is_quick() ? quick : full;
}

static unsigned count_files(const char *name, const char *suffix)
{
	DIR *directory = opendir(test_path(name));
	const struct dirent *entry;
	unsigned count = 0;

	while (directory && (entry = readdir(directory))) {
		size_t length = strlen(entry->d_name), end = strlen(suffix);

		count += length > end && strcmp(entry->d_name + length - end, suffix) == 0;
	}
	if (directory)
		closedir(directory);
	return count;
}

/* ---- answers ------------------------------------------------------------ */

START_TEST(every_answer_is_right_through_a_databases_life)
{
	uint64_t end = 2 * scale(1000000, 50000);
	struct db_setup setup = {.name = "life", .buffer = scale(4 << 20, 0)};
	struct db db = db_open(&setup);

	db_put(&db, 0, end);
	db_expect_right(&db, 0, end);
	for (uint64_t number = 0; number < end; number += 20)
		db_put_value(&db, number, number + 7);
	for (uint64_t number = 10; number < end; number += 20)
		db_delete(&db, number);
	for (int round = 0; round < 3; round++) {
		for (uint64_t number = 0; number < end; number++) {
			uint64_t right = number % 2 ? UINT64_MAX : number;

			if (number % 20 == 0)
				right = number + 7;
			if (number % 20 == 10)
				right = UINT64_MAX;
			expect(db_get(&db, number) == right);
		}
		if (round == 0)
			db_reopen(&db);
		else
			db_compact(&db);
	}
	ck_assert_uint_gt(db_stats(&db).filters_built, end / 200);
	ck_assert_uint_eq(db_stats(&db).filters_given_up, 0);
	ck_assert_uint_eq(db_stats(&db).readers_refused, 0);
	db_close(&db);
}
END_TEST

START_TEST(snapshots_see_what_was)
{
	struct db_setup setup = {.name = "snapshots"};
	struct db db = db_open(&setup);
	const leveldb_snapshot_t *snapshot;

	db_put(&db, 0, 20000);
	snapshot = leveldb_create_snapshot(db.level);
	for (uint64_t number = 0; number < 20000; number += 2)
		db_delete(&db, number);
	for (uint64_t number = 1; number < 20000; number += 2)
		db_put_value(&db, number, number);
	for (int round = 0; round < 3; round++) {
		for (uint64_t number = 0; number < 20000; number++)
			expect(db_get(&db, number) == (number % 2 ? number : UINT64_MAX));
		leveldb_readoptions_set_snapshot(db.reading, snapshot);
		db_expect_right(&db, 0, 20000);
		leveldb_readoptions_set_snapshot(db.reading, NULL);
		if (round == 0)
			db_compact(&db);
	}
	leveldb_release_snapshot(db.level, snapshot);
	db_compact(&db);
	for (uint64_t number = 0; number < 20000; number++)
		expect(db_get(&db, number) == (number % 2 ? number : UINT64_MAX));
	db_close(&db);
}
END_TEST

START_TEST(all_block_sizes_serve)
{
	size_t sizes[] = {1, 512, 4096, 65536, 262144, 4 << 20};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char name[32];
		struct db_setup setup = {.name = name, .block = sizes[i]};
		struct db db;

		snprintf(name, sizeof(name), "blocks%zu", sizes[i]);
		db = db_open(&setup);
		db_put(&db, 0, 20000);
		db_compact(&db);
		db_expect_right(&db, 0, 20000);
		db_reopen(&db);
		db_expect_right(&db, 0, 20000);
		db_close(&db);
	}
}
END_TEST

/* Bloom, winnow, winnow's bare policy and no policy, in turns; each adds keys. */
START_TEST(lives_beside_the_built_in_bloom_filter)
{
	const char *filters[] = {"bloom", NULL, "bloom", "aqf:remainder_bits=4", "bare", "none",
				 NULL};
	uint64_t step = 10000, end = 0;

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++, end += step) {
		bool bare = filters[i] && strcmp(filters[i], "bare") == 0;
		struct db_setup setup = {.name = "beside",
					 .filter = bare ? NULL : filters[i],
					 .bare_policy = bare};
		struct db db = db_open(&setup);

		db_expect_right(&db, 0, end);
		db_put(&db, end, end + step);
		db_expect_right(&db, 0, end + step);
		if (i % 2)
			db_compact(&db);
		db_expect_right(&db, 0, end + step);
		db_close(&db);
	}
}
END_TEST

START_TEST(bloom_filters_of_old_tables_keep_working)
{
	struct db_setup stock = {.name = "old", .filter = "bloom"}, ours = {.name = "old"};
	struct db db = db_open(&stock);
	struct wn_stats stats;

	db_put(&db, 0, 40000);
	db_compact(&db);
	db_close(&db);
	db = db_open(&ours);
	db_ask_absent(&db, 0, 19000);
	stats = db_stats(&db);
	ck_assert_uint_gt(stats.filter_queries, 15000);
	ck_assert_uint_lt(stats.positives, stats.filter_queries / 20);
	/* One in 1,024 is taken for a damaged filter of ours, and says "maybe" (kinds/small.h): of
	 * some 500 often one, which is asked 38 times. */
	ck_assert_uint_le(stats.readers_refused, stats.filter_queries / 50);
	db_close(&db);
}
END_TEST

START_TEST(without_the_secret_filters_say_maybe)
{
	struct db_setup setup = {.name = "secretless"};
	struct db db = db_open(&setup);

	db_put(&db, 0, 20000);
	db_compact(&db);
	db_close(&db);
	/* The copy in the database is enough. */
	nftw(test_path("secretless.winnow"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	db = db_open(&setup);
	db_expect_right(&db, 0, 20000);
	ck_assert_uint_eq(db_stats(&db).readers_refused, 0);
	db_close(&db);
	nftw(test_path("secretless.winnow"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	ck_assert_int_eq(unlink(test_path("secretless/winnow.secret")), 0);
	db = db_open(&setup);
	db_expect_right(&db, 0, 20000);
	ck_assert_uint_gt(db_stats(&db).readers_refused, 0);
	db_put(&db, 20000, 30000);
	db_compact(&db);
	db_expect_right(&db, 0, 30000);
	db_close(&db);
}
END_TEST

START_TEST(options_are_checked)
{
	leveldb_filterpolicy_t *policy;
	char message[200];

	ck_assert_int_eq(wn_leveldb_filterpolicy("aqf:bits_per_key=12", NULL, NULL, 0, &policy), 0);
	leveldb_filterpolicy_destroy(policy);
	ck_assert_int_eq(wn_leveldb_filterpolicy("aqf:remainder_bits=17", NULL, message,
						 sizeof(message), &policy), WN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message, "at most 16 in small filters"));
	ck_assert_ptr_null(policy);
	ck_assert_int_eq(wn_leveldb_filterpolicy("bloom", NULL, NULL, 0, &policy), WN_ERR_OPTION);
}
END_TEST

/* What a new filter of 16 KB blocks takes a key when the program has chosen `bloom` bits (0: no
 * filter) and winnow is given `filter`. */
static double bits_taken(const char *name, int bloom, const char *filter)
{
	struct wn_leveldb_options given = {.filter = filter};
	leveldb_options_t *options = leveldb_options_create();
	leveldb_filterpolicy_t *policy = bloom ? leveldb_filterpolicy_create_bloom(bloom) : NULL;
	struct db db = {.writing = leveldb_writeoptions_create()};
	struct wn_stats stats;
	char *error = NULL;

	leveldb_options_set_create_if_missing(options, 1);
	leveldb_options_set_block_size(options, 1 << 16);
	if (policy)
		leveldb_options_set_filter_policy(options, policy);
	db.level = wn_leveldb_open(options, test_path(name), &given, &db.wn, &error);
	ck_assert_msg(!error, "%s", error);
	db_put(&db, 0, 20000);
	leveldb_compact_range(db.level, NULL, 0, NULL, 0);
	wn_leveldb_stats(db.wn, &stats);
	wn_leveldb_close(db.wn);
	leveldb_writeoptions_destroy(db.writing);
	leveldb_options_destroy(options);
	if (policy)
		leveldb_filterpolicy_destroy(policy);
	ck_assert_uint_gt(stats.filter_keys, 0);
	return 8 * (double)stats.filter_bytes / (double)stats.filter_keys;
}

/* 30 is more than winnow's small filters can have: they have their own size then. */
START_TEST(a_filter_has_the_size_that_was_chosen)
{
	double own = bits_taken("size1", 0, NULL);

	ck_assert_double_gt(bits_taken("size2", 8, NULL), 6.8);
	ck_assert_double_lt(bits_taken("size3", 8, NULL), 8.5);
	ck_assert_double_gt(bits_taken("size4", 14, "sscf"), 13);
	ck_assert_double_lt(bits_taken("size5", 14, NULL), 14.5);
	ck_assert_double_gt(bits_taken("size6", 14, NULL), 12.5);
	ck_assert_double_eq_tol(bits_taken("size7", 30, NULL), own, 0.3);
	ck_assert_double_lt(bits_taken("size8", 14, "aqf:bits_per_key=8"), 8.5);
}
END_TEST

START_TEST(a_database_that_cannot_be_opened_leaves_nothing)
{
	leveldb_options_t *options = leveldb_options_create();
	struct wn_leveldb *wn;
	char *error = NULL;

	ck_assert_ptr_null(wn_leveldb_open(options, test_path("nowhere"), NULL, &wn, &error));
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_null(wn);
	leveldb_free(error);
	ck_assert_int_ne(access(test_path("nowhere.winnow"), F_OK), 0);
	leveldb_options_destroy(options);
}
END_TEST

START_TEST(options_of_later_versions_are_refused)
{
	struct wn_leveldb_options given = {.reserved = {[7] = 1}};
	leveldb_options_t *options = leveldb_options_create();
	struct wn_leveldb *wn;
	char *error = NULL;

	leveldb_options_set_create_if_missing(options, 1);
	ck_assert_ptr_null(wn_leveldb_open(options, test_path("later"), &given, &wn, &error));
	ck_assert_ptr_null(wn);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, "an option that this version does not know"));
	leveldb_free(error);
	ck_assert_int_ne(access(test_path("later"), F_OK), 0);
	ck_assert_int_ne(access(test_path("later.winnow"), F_OK), 0);
	leveldb_options_destroy(options);
}
END_TEST

START_TEST(room_for_later_numbers_is_zero)
{
	struct db_setup setup = {.name = "numbers"};
	struct db db = db_open(&setup);
	struct wn_stats stats;

	memset(&stats, 0xff, sizeof(stats));
	wn_leveldb_stats(db.wn, &stats);
	for (size_t i = 0; i < sizeof(stats.reserved) / sizeof(stats.reserved[0]); i++)
		ck_assert_uint_eq(stats.reserved[i], 0);
	db_close(&db);
}
END_TEST

/* It may be a file system that is not mounted. */
START_TEST(an_open_that_finds_no_database_leaves_what_was_learned)
{
	struct db_setup setup = {.name = "away"};
	leveldb_options_t *options = leveldb_options_create();
	struct db db = db_open(&setup);
	struct wn_leveldb *wn;
	char *error = NULL, other[8192];
	uint64_t first;

	db_put(&db, 0, 40000);
	db_compact(&db);
	first = db_ask_absent(&db, 0, 20000);
	ck_assert_uint_gt(first, 20);
	db_close(&db);
	snprintf(other, sizeof(other), "%s", test_path("elsewhere"));
	ck_assert_int_eq(rename(test_path("away"), other), 0);
	ck_assert_ptr_null(wn_leveldb_open(options, test_path("away"), NULL, &wn, &error));
	ck_assert_ptr_nonnull(error);
	leveldb_free(error);
	leveldb_options_destroy(options);
	nftw(test_path("away"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	ck_assert_int_eq(rename(other, test_path("away")), 0);
	db = db_open(&setup);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 20000), 0);
	db_expect_right(&db, 0, 40000);
	db_close(&db);
}
END_TEST

/* ---- learning ----------------------------------------------------------- */

/* False positives of one pass, and of the ones after it, through everything that happens. */
static void check_passes(const struct db_setup *setup, uint64_t stored, uint64_t absent)
{
	struct db db = db_open(setup);
	uint64_t first, second, third;

	/* Compactions under way would bring filters that have not seen the first pass. */
	db_put(&db, 0, 2 * stored);
	db_compact(&db);
	first = db_ask_absent(&db, 0, absent);
	second = db_ask_absent(&db, 0, absent);
	third = db_ask_absent(&db, 0, absent);
	fprintf(stderr, "%s: %" PRIu64 " %" PRIu64 " %" PRIu64, setup->name, first, second, third);
	expect(first > absent / 500);
	expect(second <= first / 100 && third <= first / 100);
	wn_leveldb_drain(db.wn);
	/* More keys, in between: no block is as it was. */
	db_put(&db, 4 * stored, 5 * stored);
	db_compact(&db);
	expect(db_stats(&db).carried_over > 0);
	third = db_ask_absent(&db, 0, absent);
	fprintf(stderr, ", compacted %" PRIu64, third);
	expect(third <= first / 100);
	db_reopen(&db);
	third = db_ask_absent(&db, 0, absent);
	fprintf(stderr, ", reopened %" PRIu64 "\n", third);
	expect(third <= first / 100);
	ck_assert_uint_eq(db_stats(&db).reversemap_misses, 0);
	db_expect_right(&db, 0, 2 * stored);
	db_close(&db);
}

START_TEST(a_false_positive_is_paid_for_once)
{
	uint64_t absent = scale(100000, 30000), stored = scale(200000, 40000);
	struct db_setup small = {.name = "passes4"};
	struct db_setup large = {.name = "passes64", .block = 65536, .buffer = 1 << 20};
	struct db_setup crude = {.name = "crude", .filter = "aqf:remainder_bits=3"};

	check_passes(&small, stored, absent);
	check_passes(&large, stored, absent);
	check_passes(&crude, stored / 4, absent / 4);
}
END_TEST

START_TEST(key_lists_go_with_their_tables)
{
	struct db_setup setup = {.name = "retire"};
	struct db db = db_open(&setup);

	for (int round = 0; round < 4; round++) {
		db_put(&db, 0, 20000);
		db_compact(&db);
		db_ask_absent(&db, 0, 5000);
		wn_leveldb_drain(db.wn);
		ck_assert_uint_eq(count_files("retire.winnow", ".run"),
				  count_files("retire", ".ldb"));
	}
	for (uint64_t number = 0; number < 20000; number += 2)
		db_delete(&db, number);
	db_compact(&db);
	wn_leveldb_drain(db.wn);
	ck_assert_uint_eq(count_files("retire", ".ldb"), 0);
	ck_assert_uint_eq(count_files("retire.winnow", ".run"), 0);
	ck_assert_uint_eq(db_stats(&db).lessons, 0);
	ck_assert_uint_eq(db_stats(&db).reversemap_bytes, 0);
	db_close(&db);
}
END_TEST

START_TEST(key_lists_that_were_missed_are_swept)
{
	struct db_setup setup = {.name = "sweep"}, stock = {.name = "sweep", .filter = "bloom"};
	struct db db = db_open(&setup);

	db_put(&db, 0, 20000);
	db_compact(&db);
	db_close(&db);
	ck_assert_uint_gt(count_files("sweep.winnow", ".run"), 0);
	db = db_open(&stock);
	db_put(&db, 0, 20000);
	db_compact(&db);
	db_close(&db);
	db = db_open(&setup);
	wn_leveldb_drain(db.wn);
	ck_assert_uint_eq(count_files("sweep.winnow", ".run"), 0);
	db_expect_right(&db, 0, 20000);
	db_close(&db);
}
END_TEST

/* A new database where an old one was, with the old one's sidecar. */
START_TEST(a_sidecar_of_an_old_database_does_no_harm)
{
	struct db_setup setup = {.name = "again"};
	struct db db = db_open(&setup);

	db_put(&db, 0, 20000);
	db_ask_absent(&db, 0, 20000);
	db_close(&db);
	nftw(test_path("again"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	db = db_open(&setup);
	for (uint64_t number = 0; number < 20000; number += number % 50 ? 1 : 2)
		db_put_value(&db, number, number);
	db_compact(&db);
	for (uint64_t number = 0; number < 20000; number += number % 50 ? 1 : 2)
		expect(db_get(&db, number) == number);
	db_close(&db);
}
END_TEST

/* Some table of the database. */
static void find_table(const char *name, char *path, size_t size)
{
	DIR *directory = opendir(test_path(name));
	const struct dirent *entry;

	*path = '\0';
	while ((entry = readdir(directory))) {
		if (strstr(entry->d_name, ".ldb"))
			snprintf(path, size, "%s/%s", test_path(name), entry->d_name);
	}
	closedir(directory);
	ck_assert_int_ne(*path, '\0');
}

START_TEST(a_second_name_of_a_live_table_is_not_written_to)
{
	static const char *const names[] = {"linked.winnow/journal", "linked.winnow/lessons",
					    "linked.winnow/lessons.new", "linked.winnow/missing",
					    "linked.winnow/missing.new", "linked.winnow/identity",
					    "linked.winnow/identity.new"};
	struct db_setup setup = {.name = "linked"};
	struct db db = db_open(&setup);
	char table[8500];

	db_put(&db, 0, 20000);
	db_compact(&db);
	db_close(&db);
	find_table("linked", table, sizeof(table));
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		remove(test_path(names[i]));
		ck_assert_int_eq(link(table, test_path(names[i])), 0);
	}
	db = db_open(&setup);
	db_ask_absent(&db, 0, 20000);
	db_close(&db);
	setup.filter = "bloom";
	db = db_open(&setup);
	db_expect_right(&db, 0, 20000);
	db_close(&db);
}
END_TEST

/* Opening a FIFO waits for somebody at its other end. */
START_TEST(a_fifo_in_the_sidecar_is_not_waited_for)
{
	struct db_setup setup = {.name = "fifo"};
	struct db db = db_open(&setup);
	DIR *directory;
	const struct dirent *entry;

	db_put(&db, 0, 20000);
	db_compact(&db);
	db_ask_absent(&db, 0, 10000);
	db_close(&db);
	directory = opendir(test_path("fifo.winnow"));
	while ((entry = readdir(directory))) {
		char path[9000];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", test_path("fifo.winnow"), entry->d_name);
		ck_assert_int_eq(unlink(path), 0);
		ck_assert_int_eq(mkfifo(path, 0600), 0);
	}
	closedir(directory);
	db = db_open(&setup);
	db_expect_right(&db, 0, 20000);
	db_close(&db);
}
END_TEST

START_TEST(damaged_sidecars_cost_lessons_only)
{
	struct db_setup setup = {.name = "damage"};
	uint64_t random = test_seed("damaged_sidecars_cost_lessons_only", 11);
	struct db db = db_open(&setup);

	db_put(&db, 0, 20000);
	db_compact(&db);
	db_ask_absent(&db, 0, 10000);
	db_close(&db);
	for (int round = 0; round < (test_is_quick() ? 10 : 40); round++) {
		DIR *directory = opendir(test_path("damage.winnow"));
		const struct dirent *entry;

		while ((entry = readdir(directory))) {
			char path[9000];
			FILE *file;
			long size;

			if (entry->d_name[0] == '.' || strcmp(entry->d_name, "secret") == 0)
				continue;
			snprintf(path, sizeof(path), "%s/%s", test_path("damage.winnow"),
				 entry->d_name);
			file = fopen(path, "r+b");
			ck_assert_ptr_nonnull(file);
			fseek(file, 0, SEEK_END);
			size = ftell(file);
			if (size == 0) {
				fputc((int)(test_random(&random) & 255), file);
			} else if (round % 5 == 4) {
				expect(truncate(path, (off_t)(test_random(&random) %
							      (uint64_t)size)) == 0);
			} else {
				for (int i = 0; i < 3; i++) {
					fseek(file, (long)(test_random(&random) % (uint64_t)size),
					      SEEK_SET);
					fputc((int)(test_random(&random) & 255), file);
				}
			}
			fclose(file);
		}
		closedir(directory);
		db = db_open(&setup);
		db_ask_absent(&db, 0, 2000);
		db_expect_right(&db, 0, 20000);
		if (round % 7 == 6) {
			db_put(&db, 0, 20000);
			db_compact(&db);
			db_expect_right(&db, 0, 20000);
		}
		db_close(&db);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb");
	TCase *tests = tcase_create("leveldb");
	int result;

	test_make_top();
	tcase_add_test(tests, every_answer_is_right_through_a_databases_life);
	tcase_add_test(tests, snapshots_see_what_was);
	tcase_add_test(tests, all_block_sizes_serve);
	tcase_add_test(tests, lives_beside_the_built_in_bloom_filter);
	tcase_add_test(tests, bloom_filters_of_old_tables_keep_working);
	tcase_add_test(tests, without_the_secret_filters_say_maybe);
	tcase_add_test(tests, options_are_checked);
	tcase_add_test(tests, a_filter_has_the_size_that_was_chosen);
	tcase_add_test(tests, options_of_later_versions_are_refused);
	tcase_add_test(tests, room_for_later_numbers_is_zero);
	tcase_add_test(tests, a_database_that_cannot_be_opened_leaves_nothing);
	tcase_add_test(tests, an_open_that_finds_no_database_leaves_what_was_learned);
	tcase_add_test(tests, a_false_positive_is_paid_for_once);
	tcase_add_test(tests, key_lists_go_with_their_tables);
	tcase_add_test(tests, key_lists_that_were_missed_are_swept);
	tcase_add_test(tests, a_sidecar_of_an_old_database_does_no_harm);
	tcase_add_test(tests, a_second_name_of_a_live_table_is_not_written_to);
	tcase_add_test(tests, a_fifo_in_the_sidecar_is_not_waited_for);
	tcase_add_test(tests, damaged_sidecars_cost_lessons_only);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
