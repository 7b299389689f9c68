/* test_rocksdb_key_lists.c - the stored key lists of filters that learn: kept, lost, damaged,
 * refused. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "tests/support/rocksdb_learner.h"

/* Call `fn` for every key list in a database's sidecar; how many are there? */
static size_t visit_runs(const char *name, void (*fn)(const char *path))
{
	char directory[8192 + 16], path[16384];
	size_t count = 0;
	struct dirent *entry;
	DIR *open;

	snprintf(directory, sizeof(directory), "%s.winnow", test_path(name));
	open = opendir(directory);
	ck_assert_ptr_nonnull(open);
	while ((entry = readdir(open))) {
		const char *end = strrchr(entry->d_name, '.');

		if (!end || strcmp(end, ".run") != 0)
			continue;
		count++;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		if (fn)
			fn(path);
	}
	closedir(open);
	return count;
}

START_TEST(runs_go_with_their_tables)
{
	static const struct db_setup setup = {.name = "retired"};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	size_t tables;

	options.store = WN_ROCKSDB_SIDECAR;
	learner = learner_fill(&setup, &options);
	for (int round = 0; round < 3; round++) {
		db_put(&learner.db, 0, numbers() / 4);
		db_flush(&learner.db);
		db_compact(&learner.db);
	}
	stop_compactions(&learner);
	tables = count_tables(&learner);
	ck_assert_uint_gt(learner_stats(&learner).key_lists_stored, tables);
	/* RocksDB removes old tables when it likes, but before it is closed. */
	learner_close(&learner);
	ck_assert_uint_eq(visit_runs(setup.name, NULL), tables);
	learner = learner_open(&setup, &options);
	stop_compactions(&learner);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	tables = count_tables(&learner);
	learner_close(&learner);
	ck_assert_uint_eq(visit_runs(setup.name, NULL), tables);
}
END_TEST

/* As if killed: nothing is closed. */
static void fill_and_die(const struct db_setup *setup, const struct wn_rocksdb_options *options)
{
	struct learner learner = learner_fill(setup, options);

	ask_absent(&learner);
	_exit(0);
}

START_TEST(a_crash_costs_lessons_and_no_answer)
{
	static const struct db_setup setup = {.name = "crashed", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	pid_t child = fork();
	int status;

	if (child == 0)
		fill_and_die(&setup, &options);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	learner = learner_open(&setup, &options);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	ck_assert_uint_eq(learner_stats(&learner).reversemap_misses, 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

static void remove_run(const char *path)
{
	ck_assert_int_eq(remove(path), 0);
}

static void damage_run(const char *path)
{
	FILE *file = fopen(path, "r+b");
	long size;

	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	for (long at = 0; at < size; at += 64) {
		int byte;

		fseek(file, at, SEEK_SET);
		byte = fgetc(file);
		fseek(file, at, SEEK_SET);
		fputc(byte ^ 0x10, file);
	}
	fclose(file);
}

START_TEST(missing_and_damaged_runs_teach_nothing)
{
	struct db_setup setup = {.name = _i ? "damaged" : "missing", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct wn_stats stats;
	struct learner learner;

	options.store = WN_ROCKSDB_SIDECAR;
	learner = learner_fill(&setup, &options);
	learner_close(&learner);
	ck_assert_uint_gt(visit_runs(setup.name, _i ? damage_run : remove_run), 1);
	learner = learner_open(&setup, &options);
	ask_absent(&learner);
	stats = learner_stats(&learner);
	ck_assert_uint_eq(stats.adaptations, 0);
	ck_assert_uint_eq(stats.reversemap_misses, stats.false_positives);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(a_directory_that_cannot_be_made_is_an_error_of_opening)
{
	static const struct db_setup setup = {.name = "no_directory"};
	struct wn_rocksdb_options options = {.sidecar_directory = "/dev/null/winnow"};
	struct wn_rocksdb *wn = (void *)&options;
	struct db db = {.options = rocksdb_options_create()};
	char *error = NULL;

	db_set_options(&db, &setup);
	ck_assert_ptr_null(wn_rocksdb_open(db.options, test_path(setup.name), &options, &wn,
					   &error));
	ck_assert_ptr_null(wn);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, "/dev/null/winnow"));
	rocksdb_free(error);
	/* It was closed again. */
	db_open_as_is(&db, setup.name);
	db_close(&db);
}
END_TEST

START_TEST(what_cannot_be_opened_is_refused_with_a_reason)
{
	struct wn_rocksdb_options options = {.filter = "nonsense"};
	rocksdb_options_t *plain = rocksdb_options_create();
	struct wn_rocksdb *wn;
	char *error = NULL;

	/* No such database, and it is not to be made. */
	ck_assert_ptr_null(wn_rocksdb_open(plain, test_path("absent"), NULL, &wn, &error));
	ck_assert_ptr_nonnull(error);
	rocksdb_free(error);
	error = NULL;
	ck_assert_ptr_null(wn_rocksdb_open(plain, test_path("absent"), &options, &wn, &error));
	ck_assert_ptr_nonnull(strstr(error, "winnow"));
	rocksdb_free(error);
	error = NULL;
	rocksdb_options_set_create_if_missing(plain, 1);
	set_plain_tables(plain);
	ck_assert_ptr_null(wn_rocksdb_open(plain, test_path("absent"), NULL, &wn, &error));
	ck_assert_ptr_nonnull(strstr(error, "block-based"));
	rocksdb_free(error);
	rocksdb_options_destroy(plain);
	wn_rocksdb_close(NULL);
}
END_TEST

/* The nth allocation of opening fails; false: there are not so many. */
static bool open_without_memory(rocksdb_options_t *options, uint64_t nth, uint64_t *failedp)
{
	struct wn_rocksdb_options learning = quickly();
	struct wn_rocksdb *wn;
	char *error = NULL;
	bool reached;

	wn__alloc_fail_at(nth);
	wn_rocksdb_open(options, test_path("memory_refused"), &learning, &wn, &error);
	reached = wn__alloc_calls() >= nth;
	wn__alloc_fail_at(0);
	*failedp += wn == NULL;
	ck_assert((wn == NULL) == (error != NULL));
	rocksdb_free(error);
	wn_rocksdb_close(wn);
	return reached;
}

START_TEST(a_refused_allocation_is_an_error_of_opening)
{
	rocksdb_options_t *options = rocksdb_options_create();
	uint64_t nth = 1, failed = 0;

	rocksdb_options_set_create_if_missing(options, 1);
	while (open_without_memory(options, nth, &failed))
		nth++;
	fprintf(stderr, "%" PRIu64 " allocations, %" PRIu64 " errors\n", nth - 1, failed);
	ck_assert_uint_gt(failed, 10);
	rocksdb_options_destroy(options);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_key_lists");
	TCase *tcase = tcase_create("learning");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, runs_go_with_their_tables);
	tcase_add_loop_test(tcase, missing_and_damaged_runs_teach_nothing, 0, 2);
	tcase_add_test(tcase, a_directory_that_cannot_be_made_is_an_error_of_opening);
	tcase_add_test(tcase, what_cannot_be_opened_is_refused_with_a_reason);
	tcase_add_test(tcase, a_crash_costs_lessons_and_no_answer);
	tcase_add_test(tcase, a_refused_allocation_is_an_error_of_opening);
	result = test_run(suite);
	test_remove_top();
	return result;
}
