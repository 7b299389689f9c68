/* test_rocksdb_life.c - databases that learn, from their making to their end: stores that are
 * changed, copies, programs that open them themselves. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <sys/wait.h>

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

static const char *state_path(const char *name)
{
	static char path[8192 + 16];

	snprintf(path, sizeof(path), "%s.winnow", test_path(name));
	return path;
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

/* A stock RocksDB finds everything. */
static void expect_stock_reads(const char *name)
{
	struct db_setup setup = {.stock = STOCK_BLOOM};
	struct db db = db_open(name, &setup);

	db_expect_right(&db, 2, numbers());
	db_close(&db);
}

/* The filters do learn: wrong at first, and then no longer. */
static void expect_learning(struct learner *learner)
{
	ck_assert_uint_gt(ask_absent(learner), absent_count() / 100);
	ck_assert_uint_eq(ask_absent(learner), 0);
	ck_assert_uint_eq(learner_stats(learner).map_misses, 0);
	expect_stored(learner);
}

/* ---- stores ------------------------------------------------------------- */

static int give_away(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return lchown(path, 65534, 65534);
}

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
		/* New tables learn, whatever became of the old ones' runs. */
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
		 * drain does not wait for a table that is just being built: its runs then are in
		 * two files. */
		for (;;) {
			wn_rocksdb_drain(learner.wn);
			count_by_family(&learner, &tables, &own);
			if (own <= 2 * tables)
				break;
			usleep(10000);
		}
		map = learner_stats(&learner).map_runs;
		fprintf(stderr, "%" PRIu64 " runs of %zu tables in %zu files\n", map, tables, own);
		ck_assert_uint_gt(map, 10 * tables);
		ck_assert_uint_eq(learner_stats(&learner).runs_lost, 0);
		ask_absent(&learner);
		ck_assert_uint_eq(ask_absent(&learner), 0);
		ck_assert_uint_eq(learner_stats(&learner).map_misses, 0);
		expect_stored(&learner);
		if (round == 0) {
			/* What the last flush builds goes into files first. */
			db_put(&learner.db, 0, numbers());
			learner_close(&learner);
			learner = learner_open(&setup, &options);
			ck_assert_uint_eq(count_files(setup.name, ".run"), 0);
		} else if (round == 1) {
			/* The runs of tables that are gone are gone with their files. */
			db_compact(&learner.db);
			wn_rocksdb_drain(learner.wn);
		}
	}
	learner_close(&learner);
}
END_TEST

START_TEST(whole_hashes_take_more_room)
{
	static const struct db_setup setups[] = {
		{.name = "chunks", .no_compaction = true},
		{.name = "whole", .no_compaction = true},
	};
	struct wn_rocksdb_options options = quickly();
	uint64_t bytes[2];

	for (unsigned i = 0; i < 2; i++) {
		struct learner learner;
		uint64_t size = 0;
		DIR *open;
		struct dirent *entry;

		options.whole_hashes = i == 1;
		options.store = WN_ROCKSDB_SIDECAR;
		learner = learner_fill(&setups[i], &options);
		expect_learning(&learner);
		learner_close(&learner);
		open = opendir(state_path(setups[i].name));
		ck_assert_ptr_nonnull(open);
		while ((entry = readdir(open))) {
			struct stat info;

			if (!strstr(entry->d_name, ".run"))
				continue;
			ck_assert_int_eq(fstatat(dirfd(open), entry->d_name, &info, 0), 0);
			size += (uint64_t)info.st_size;
		}
		closedir(open);
		bytes[i] = size;
	}
	ck_assert_uint_gt(bytes[1], bytes[0] * 5 / 4);
}
END_TEST

/* ---- owners ------------------------------------------------------------- */

/* Whoever finished a filter, on whatever thread: its run is known by its table's number. A run
 * with a wrong number is swept at the next opening, or stays when its table goes. */
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
	struct wn_rocksdb_stats stats;

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
	/* Each run is a table itself, in winnow's family; a partition has a run of its own. */
	if (!setup.partitioned)
		ck_assert_uint_eq(2 * stats.map_runs, count_tables(&learner));
	ck_assert_uint_gt(stats.map_runs, 0);
	ck_assert_uint_lt(stats.map_bytes, numbers() / 2 * 16 * 2);
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

/* ---- column families ---------------------------------------------------- */

START_TEST(the_column_family_is_opened_by_those_who_name_it_too)
{
	static const struct db_setup setup = {.name = "named", .no_compaction = true};
	static const char *const names[] = {"default", WN_ROCKSDB_REVERSEMAP};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	const rocksdb_options_t *family_options[] = {learner.db.options, learner.db.options};
	rocksdb_column_family_handle_t *families[2];
	char *error = NULL;

	wn_rocksdb_close(learner.wn);
	learner.db.rocks = wn_rocksdb_open_column_families(learner.db.options,
							   test_path(setup.name), 2, names,
							   family_options, families, &options,
							   &learner.wn, &error);
	expect_no(error);
	expect_learning(&learner);
	for (unsigned i = 0; i < 2; i++)
		rocksdb_column_family_handle_destroy(families[i]);
	wn_rocksdb_close(learner.wn);
	/* A stock RocksDB that does not name it refuses, as with every family. */
	learner.db.rocks = rocksdb_open(learner.db.options, test_path(setup.name), &error);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, WN_ROCKSDB_REVERSEMAP));
	rocksdb_free(error);
	error = NULL;
	learner.db.rocks = rocksdb_open_column_families(learner.db.options, test_path(setup.name),
							2, names, family_options, families,
							&error);
	expect_no(error);
	learner.db.family = families[0];
	db_expect_right(&learner.db, 2, numbers());
	for (unsigned i = 0; i < 2; i++)
		rocksdb_column_family_handle_destroy(families[i]);
	rocksdb_close(learner.db.rocks);
	rocksdb_readoptions_destroy(learner.db.reading);
	rocksdb_options_destroy(learner.db.options);
}
END_TEST

/* Numbers under `family`, the even ones stored, all asked for: how many false positives? */
static uint64_t ask_family(struct learner *learner, rocksdb_column_family_handle_t *family)
{
	uint64_t before = learner_stats(learner).false_positives;

	for (uint64_t number = 0; number < numbers() / 4; number++) {
		char key[DB_KEY_SIZE];
		char *error = NULL, *value;
		size_t size;

		db_key(number, key);
		value = wn_rocksdb_get_cf(learner->wn, learner->db.reading, family, key,
					  sizeof(key), &size, &error);
		expect_no(error);
		expect((value != NULL) == (number % 2 == 0));
		rocksdb_free(value);
	}
	return learner_stats(learner).false_positives - before;
}

static void fill_family(struct learner *learner, rocksdb_column_family_handle_t *family)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = NULL;

	for (uint64_t number = 0; number < numbers() / 4; number += 2) {
		char key[DB_KEY_SIZE];

		db_key(number, key);
		rocksdb_put_cf(learner->db.rocks, writing, family, key, sizeof(key), "x", 1,
			       &error);
		expect_no(error);
	}
	rocksdb_flush_cf(learner->db.rocks, flushing, family, &error);
	expect_no(error);
	wn_rocksdb_drain(learner->wn);
	rocksdb_flushoptions_destroy(flushing);
	rocksdb_writeoptions_destroy(writing);
}

START_TEST(a_family_that_is_made_later_learns_and_one_that_is_dropped_is_forgotten)
{
	struct db_setup setup = {.name = _i ? "later_sidecar" : "later", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	rocksdb_column_family_handle_t *family;
	char *error = NULL;

	options.store = _i ? WN_ROCKSDB_SIDECAR : WN_ROCKSDB_COLUMN_FAMILY;
	learner = learner_fill(&setup, &options);
	family = wn_rocksdb_create_column_family(learner.wn, learner.db.options, "later", &error);
	expect_no(error);
	fill_family(&learner, family);
	ck_assert_uint_gt(ask_family(&learner, family), 0);
	ck_assert_uint_eq(ask_family(&learner, family), 0);
	rocksdb_drop_column_family(learner.db.rocks, family, &error);
	expect_no(error);
	/* Until the handle goes it can be read. */
	ck_assert_uint_eq(ask_family(&learner, family), 0);
	rocksdb_column_family_handle_destroy(family);
	wn_rocksdb_drain(learner.wn);
	expect_learning(&learner);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* ---- programs that open their database themselves ----------------------- */

struct attached {
	struct learner learner;
	rocksdb_column_family_handle_t *families[2]; /* the second one: with_family */
	bool with_family;
};

static struct attached attach(const char *name, const struct wn_rocksdb_options *options,
			      bool with_family)
{
	static const char *const names[] = {"default", WN_ROCKSDB_REVERSEMAP};
	struct db_setup setup = {.no_compaction = true};
	struct attached attached = {.with_family = with_family};
	struct learner *learner = &attached.learner;
	rocksdb_options_t *own = wn_rocksdb_reversemap_options();
	const rocksdb_options_t *family_options[2];
	char *error = NULL;

	learner->db.options = rocksdb_options_create();
	learner->db.reading = rocksdb_readoptions_create();
	db_set_options(&learner->db, &setup);
	rocksdb_options_set_create_missing_column_families(learner->db.options, 1);
	wn_rocksdb_create(test_path(name), options, &learner->wn, &error);
	expect_no(error);
	wn_rocksdb_prepare(learner->wn, learner->db.options, &error);
	expect_no(error);
	family_options[0] = learner->db.options;
	family_options[1] = own;
	learner->db.rocks = rocksdb_open_column_families(learner->db.options, test_path(name),
							 with_family ? 2 : 1, names,
							 family_options, attached.families,
							 &error);
	expect_no(error);
	wn_rocksdb_attach(learner->wn, learner->db.rocks,
			  with_family ? attached.families[1] : NULL, &error);
	expect_no(error);
	rocksdb_options_destroy(own);
	return attached;
}

static void close_attached(struct attached *attached)
{
	struct learner *learner = &attached->learner;

	for (int i = 0; i < (attached->with_family ? 2 : 1); i++)
		rocksdb_column_family_handle_destroy(attached->families[i]);
	rocksdb_close(learner->db.rocks);
	rocksdb_readoptions_destroy(learner->db.reading);
	rocksdb_options_destroy(learner->db.options);
}

START_TEST(an_attached_database_learns_and_goes_on_when_detached)
{
	const char *name = _i ? "attached_family" : "attached";
	struct wn_rocksdb_options options = quickly();
	struct attached attached = attach(name, &options, _i);
	struct learner *learner = &attached.learner;

	db_put(&learner->db, 0, numbers());
	db_flush(&learner->db);
	wn_rocksdb_drain(learner->wn);
	expect_learning(learner);
	wn_rocksdb_detach(learner->wn);
	/* Readers, builders and the listener are still there. */
	db_put(&learner->db, 0, numbers());
	db_flush(&learner->db);
	db_compact(&learner->db);
	learner->db.family = attached.families[0];
	db_expect_right(&learner->db, 2, numbers());
	close_attached(&attached);
	/* And once more, with what is there. */
	attached = attach(name, &options, _i);
	db_put(&attached.learner.db, 0, numbers());
	db_flush(&attached.learner.db);
	db_compact(&attached.learner.db);
	wn_rocksdb_drain(attached.learner.wn);
	ask_absent(&attached.learner);
	ck_assert_uint_eq(ask_absent(&attached.learner), 0);
	expect_stored(&attached.learner);
	wn_rocksdb_detach(attached.learner.wn);
	close_attached(&attached);
	if (!_i)
		expect_stock_reads(name);
}
END_TEST

START_TEST(a_database_that_is_never_attached_is_a_database)
{
	struct wn_rocksdb_options options = quickly();
	struct db_setup setup = {.no_compaction = true};
	struct db db = {.options = rocksdb_options_create()};
	struct wn_rocksdb *wn;
	char *error = NULL;

	db_set_options(&db, &setup);
	wn_rocksdb_create(test_path("unattached"), &options, &wn, &error);
	expect_no(error);
	wn_rocksdb_prepare(wn, db.options, &error);
	expect_no(error);
	db_open_as_is(&db, "unattached");
	db_put(&db, 0, numbers());
	db_flush(&db);
	db_compact(&db);
	wn_rocksdb_detach(wn);
	db_expect_right(&db, 2, numbers());
	db_close(&db);
}
END_TEST

START_TEST(options_without_block_based_tables_cannot_be_prepared)
{
	rocksdb_options_t *options = rocksdb_options_create();
	struct wn_rocksdb *wn;
	char *error = NULL;

	wn_rocksdb_create(test_path("plain"), NULL, &wn, &error);
	expect_no(error);
	rocksdb_options_set_plain_table_factory(options, 8, 10, 0.75, 16);
	wn_rocksdb_prepare(wn, options, &error);
	ck_assert_ptr_nonnull(strstr(error, "block-based"));
	rocksdb_free(error);
	rocksdb_options_destroy(options);
	wn_rocksdb_detach(wn);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_life");
	TCase *tcase = tcase_create("life");
	int result;

	test_make_top();
	tcase_add_test(tcase, a_database_may_change_its_store_at_any_opening);
	tcase_add_test(tcase, runs_in_files_move_into_the_column_family);
	tcase_add_test(tcase, what_the_last_flush_builds_learns_after_the_next_opening);
	tcase_add_loop_test(tcase, a_directory_that_cannot_be_written_is_a_failure, 0, 2);
	tcase_add_test(tcase, the_filters_of_a_table_share_a_file);
	tcase_add_test(tcase, whole_hashes_take_more_room);
	tcase_add_loop_test(tcase, runs_have_the_numbers_of_their_tables, 0, 2);
	tcase_add_test(tcase, options_that_forbid_to_open_are_heeded);
	tcase_add_test(tcase, the_column_family_is_opened_by_those_who_name_it_too);
	tcase_add_loop_test(
		tcase, a_family_that_is_made_later_learns_and_one_that_is_dropped_is_forgotten, 0,
		2);
	tcase_add_loop_test(tcase, an_attached_database_learns_and_goes_on_when_detached, 0, 2);
	tcase_add_test(tcase, a_database_that_is_never_attached_is_a_database);
	tcase_add_test(tcase, options_without_block_based_tables_cannot_be_prepared);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
