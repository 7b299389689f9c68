/* test_rocksdb_life.c - databases that learn, from their making to their end: stores that are
 * changed, and the files of tables. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <sys/wait.h>

#include <winnow/error.h>
#include <winnow/rocksdb_embed.h>

#include "tests/support/files.h"
#include "tests/support/rocksdb_learner.h"

/* ---- what is there ------------------------------------------------------ */

/* Does the database have winnow's family? */
static bool has_family(const char *name)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *error = NULL;
	size_t count;
	char **names = rocksdb_list_column_families(options, test_path(name), &count, &error);
	bool found = false;

	expect_no(error);
	for (size_t i = 0; i < count; i++)
		found = found || strcmp(names[i], WN_ROCKSDB_REVERSEMAP) == 0;
	rocksdb_list_column_families_destroy(names, count);
	rocksdb_options_destroy(options);
	return found;
}

/* Files in the directory beside the database whose names end so. */
static size_t count_files(const char *name, const char *end)
{
	DIR *open = opendir(state_path(name));
	struct dirent *entry;
	size_t count = 0;

	ck_assert_ptr_nonnull(open);
	while ((entry = readdir(open))) {
		size_t size = strlen(entry->d_name);

		count += entry->d_name[0] != '.' && size >= strlen(end) &&
			 strcmp(entry->d_name + size - strlen(end), end) == 0;
	}
	closedir(open);
	return count;
}

/* ---- stores ------------------------------------------------------------- */

START_TEST(a_database_may_change_its_store_at_any_opening)
{
	static const enum wn_rocksdb_store stores[] = {
		WN_ROCKSDB_COLUMN_FAMILY, WN_ROCKSDB_SIDECAR, WN_ROCKSDB_COLUMN_FAMILY,
		WN_ROCKSDB_MEMORY, WN_ROCKSDB_SIDECAR, WN_ROCKSDB_MEMORY, WN_ROCKSDB_COLUMN_FAMILY,
	};
	static const struct db_setup setup = {.name = "changing", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();

	for (unsigned i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		struct learner learner;

		options.store = stores[i];
		learner = learner_open(&setup, &options);
		if (i == 0)
			db_put(&learner.db, 0, numbers());
		db_flush(&learner.db);
		ask_absent(&learner);
		expect_stored(&learner);
		/* New tables learn, whatever became of the old ones' key lists. */
		db_put(&learner.db, 0, numbers());
		db_flush(&learner.db);
		db_compact(&learner.db);
		wn_rocksdb_drain(learner.wn);
		ask_absent(&learner);
		ck_assert_uint_eq(ask_absent(&learner), 0);
		expect_stored(&learner);
		learner_close(&learner);
		ck_assert_int_eq(has_family(setup.name), stores[i] == WN_ROCKSDB_COLUMN_FAMILY);
		if (stores[i] == WN_ROCKSDB_COLUMN_FAMILY)
			ck_assert_uint_eq(count_files(setup.name, ".run"), 0);
	}
}
END_TEST

START_TEST(runs_in_files_move_into_the_column_family)
{
	static const struct db_setup setup = {.name = "moving", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;

	options.store = WN_ROCKSDB_SIDECAR;
	learner = learner_fill(&setup, &options);
	learner_close(&learner);
	ck_assert_uint_gt(count_files(setup.name, ".run"), 0);
	options.store = WN_ROCKSDB_COLUMN_FAMILY;
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(count_files(setup.name, ".run"), 0);
	expect_learning(&learner);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	learner_close(&learner);
}
END_TEST

START_TEST(what_the_last_flush_builds_learns_after_the_next_opening)
{
	static const struct db_setup setup = {.name = "last_flush", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_open(&setup, &options);

	/* Written without a log: RocksDB flushes it when it is closed. */
	db_put(&learner.db, 0, numbers());
	learner_close(&learner);
	ck_assert_uint_gt(count_files(setup.name, ".run"), 0);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(count_files(setup.name, ".run"), 0);
	expect_learning(&learner);
	learner_close(&learner);
}
END_TEST

/* Root may write everywhere, and becomes somebody else. The parent never opens the database:
 * RocksDB's threads do not survive fork(). */
static void open_without_writing(const char *name, enum wn_rocksdb_store store)
{
	struct wn_rocksdb_options options = quickly();
	rocksdb_options_t *rocks_options = rocksdb_options_create();
	struct wn_rocksdb *wn;
	char *error = NULL;
	rocksdb_t *db;

	options.store = store;
	rocksdb_options_set_create_if_missing(rocks_options, 1);
	ck_assert(geteuid() != 0 || setuid(65534) == 0);
	db = wn_rocksdb_open(rocks_options, test_path(name), &options, &wn, &error);
	ck_assert_ptr_null(db);
	ck_assert_ptr_null(wn);
	ck_assert_ptr_nonnull(strstr(error, "Permission denied"));
	_exit(0);
}

START_TEST(a_directory_that_cannot_be_written_is_a_failure)
{
	static const struct {
		const char *name;
		enum wn_rocksdb_store store;
	} cases[] = {
		{"unwritable_family", WN_ROCKSDB_COLUMN_FAMILY},
		{"unwritable_sidecar", WN_ROCKSDB_SIDECAR},
	};
	struct db_setup setup = {.name = cases[_i].name, .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct learner learner;

		options.store = cases[_i].store;
		learner = learner_fill(&setup, &options);
		learner_close(&learner);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(test_top, 0755), 0);
		ck_assert_int_eq(nftw(test_path(setup.name), give_away, 8, FTW_PHYS), 0);
		ck_assert_int_eq(nftw(state_path(setup.name), give_away, 8, FTW_PHYS), 0);
		ck_assert_int_eq(chown(state_path(setup.name), 0, 0), 0);
	}
	ck_assert_int_eq(chmod(state_path(setup.name), 0555), 0);
	child = fork();
	if (child == 0)
		open_without_writing(setup.name, cases[_i].store);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* Tables of the database, and in winnow's own family. */
static void count_by_family(struct learner *learner, size_t *tablesp, size_t *ownp)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(learner->db.rocks);
	int count = rocksdb_livefiles_count(files);

	*tablesp = *ownp = 0;
	for (int i = 0; i < count; i++) {
		bool own = strcmp(rocksdb_livefiles_column_family_name(files, i),
				  WN_ROCKSDB_REVERSEMAP) == 0;

		++*(own ? ownp : tablesp);
	}
	rocksdb_livefiles_destroy(files);
}

/* Thousands of filters, a handful of files. */
START_TEST(the_filters_of_a_table_share_a_file)
{
	struct db_setup setup = {
		.name = "shared",
		.no_compaction = true,
		.partitioned = true,
		.partition_bytes = 512,
	};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	size_t tables, own;

	for (int round = 0; round < 3; round++) {
		uint64_t map;

		/* RocksDB removes the tables that a compaction replaced when it comes to it. A
		 * drain does not wait for a table that is just being built: its key lists then
		 * are in two files. */
		for (;;) {
			wn_rocksdb_drain(learner.wn);
			count_by_family(&learner, &tables, &own);
			if (own <= 2 * tables)
				break;
			usleep(10000);
		}
		map = learner_stats(&learner).key_lists;
		fprintf(stderr, "%" PRIu64 " runs of %zu tables in %zu files\n", map, tables, own);
		ck_assert_uint_gt(map, 10 * tables);
		ck_assert_uint_eq(learner_stats(&learner).key_lists_lost, 0);
		ask_absent(&learner);
		ck_assert_uint_eq(ask_absent(&learner), 0);
		ck_assert_uint_eq(learner_stats(&learner).reversemap_misses, 0);
		expect_stored(&learner);
		if (round == 0) {
			/* What the last flush builds goes into files first. */
			db_put(&learner.db, 0, numbers());
			learner_close(&learner);
			learner = learner_open(&setup, &options);
			ck_assert_uint_eq(count_files(setup.name, ".run"), 0);
		} else if (round == 1) {
			/* The key lists of tables that are gone are gone with their files. */
			db_compact(&learner.db);
			wn_rocksdb_drain(learner.wn);
		}
	}
	learner_close(&learner);
}
END_TEST

/* ---- owners ------------------------------------------------------------- */

/* Whoever finished a filter, on whatever thread: its key list is known by its table's number. A
 * key list with a wrong number is swept at the next opening, or stays when its table goes. */
START_TEST(runs_have_the_numbers_of_their_tables)
{
	static const struct db_setup setups[] = {
		{.name = "subcompactions", .no_compaction = true, .subcompactions = 4},
		{.name = "partitions", .no_compaction = true, .partitioned = true,
		 .subcompactions = 4, .compression_threads = 2},
	};
	struct db_setup setup = setups[_i];
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	struct wn_stats stats;

	/* Overwritten ten times. */
	for (int round = 0; round < 10; round++) {
		db_put(&learner.db, 0, numbers());
		db_flush(&learner.db);
		db_compact(&learner.db);
	}
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	wn_rocksdb_drain(learner.wn);
	stats = learner_stats(&learner);
	/* Each key list is a table itself, in winnow's family; a partition has a key list of its
	 * own. */
	if (!setup.partitioned)
		ck_assert_uint_eq(2 * stats.key_lists, count_tables(&learner));
	ck_assert_uint_gt(stats.key_lists, 0);
	ck_assert_uint_lt(stats.reversemap_bytes, numbers() / 2 * 16 * 2);
	expect_learning(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(options_that_forbid_to_open_are_heeded)
{
	static const struct db_setup setup = {.name = "forbidden", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	char *error = NULL;

	wn_rocksdb_close(learner.wn);
	rocksdb_options_set_error_if_exists(learner.db.options, 1);
	ck_assert_ptr_null(wn_rocksdb_open(learner.db.options, test_path(setup.name), &options,
					   &learner.wn, &error));
	ck_assert_ptr_nonnull(error);
	rocksdb_free(error);
	rocksdb_readoptions_destroy(learner.db.reading);
	rocksdb_options_destroy(learner.db.options);
	learner = learner_open(&setup, &options);
	expect_learning(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(options_of_later_versions_are_refused)
{
	struct wn_rocksdb_options given = {.reserved = {[7] = 1}};
	rocksdb_options_t *options = rocksdb_options_create();
	struct wn_rocksdb *wn;
	char *error = NULL;

	rocksdb_options_set_create_if_missing(options, 1);
	ck_assert_ptr_null(wn_rocksdb_open(options, test_path("later"), &given, &wn, &error));
	ck_assert_ptr_null(wn);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, "an option that this version does not know"));
	rocksdb_free(error);
	error = NULL;
	wn_rocksdb_create(test_path("later"), &given, &wn, &error);
	ck_assert_ptr_null(wn);
	ck_assert_ptr_nonnull(error);
	rocksdb_free(error);
	ck_assert_int_ne(access(test_path("later"), F_OK), 0);
	ck_assert_int_ne(access(state_path("later"), F_OK), 0);
	rocksdb_options_destroy(options);
}
END_TEST

START_TEST(openers_of_later_versions_are_refused)
{
	const struct wn_rocksdb_opener opener = {.reserved = {[3] = 1}};
	const char *const names[] = {"default"};
	rocksdb_options_t *options = rocksdb_options_create();
	const rocksdb_options_t *const each[] = {options};
	struct wn_rocksdb *wn;
	char *error = NULL;
	void *handle;

	ck_assert_int_eq(wn_rocksdb_open_by(&opener, options, test_path("later"), 1, names, each,
					    &handle, NULL, &wn, &error), WN_ERR_INVALID);
	ck_assert_ptr_null(wn);
	ck_assert_ptr_nonnull(error);
	rocksdb_free(error);
	rocksdb_options_destroy(options);
}
END_TEST

START_TEST(room_for_later_numbers_is_zero)
{
	static const struct db_setup setup = {.name = "numbers", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	struct wn_stats stats;

	memset(&stats, 0xff, sizeof(stats));
	wn_rocksdb_stats(learner.wn, &stats);
	for (size_t i = 0; i < sizeof(stats.reserved) / sizeof(stats.reserved[0]); i++)
		ck_assert_uint_eq(stats.reserved[i], 0);
	learner_close(&learner);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_life");
	TCase *tcase = tcase_create("life");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, a_database_may_change_its_store_at_any_opening);
	tcase_add_test(tcase, runs_in_files_move_into_the_column_family);
	tcase_add_test(tcase, what_the_last_flush_builds_learns_after_the_next_opening);
	tcase_add_loop_test(tcase, a_directory_that_cannot_be_written_is_a_failure, 0, 2);
	tcase_add_test(tcase, the_filters_of_a_table_share_a_file);
	tcase_add_loop_test(tcase, runs_have_the_numbers_of_their_tables, 0, 2);
	tcase_add_test(tcase, options_that_forbid_to_open_are_heeded);
	tcase_add_test(tcase, options_of_later_versions_are_refused);
	tcase_add_test(tcase, openers_of_later_versions_are_refused);
	tcase_add_test(tcase, room_for_later_numbers_is_zero);
	result = test_run(suite);
	test_remove_top();
	return result;
}
