/* test_column_family_files.c - the scratch files of a store in a column family: whose they are,
 * and what becomes of them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall(), nftw() */
#endif
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/support/family_map.h"
#include "tests/support/files.h"

START_TEST(files_of_a_crash_are_swept)
{
	struct database database = open_database();
	char path[PATH_MAX + 64];
	FILE *file;

	close_database(&database);
	snprintf(path, sizeof(path), "%s/run-7.sst", scratch);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fclose(file);
	database = open_database();
	ck_assert_uint_eq(count_files(scratch, ""), 0);
	close_database(&database);
}
END_TEST

/* ---- whose file is it? -------------------------------------------------- */

static bool kills; /* this process dies where a written scratch file would be removed */

/* In front of the C library's, for RocksDB as well: between ingesting a file and removing it. */
static void die_at(int where, const char *path)
{
	const char *name = strrchr(path, '/');
	struct stat info;

	name = name ? name + 1 : path;
	if (kills && strncmp(name, "run-", 4) == 0 &&
	    fstatat(where, path, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_size > 0)
		raise(SIGKILL);
}

WN_PUBLIC int unlink(const char *path)
{
	die_at(AT_FDCWD, path);
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

WN_PUBLIC int unlinkat(int where, const char *path, int flags)
{
	die_at(where, path);
	return (int)syscall(SYS_unlinkat, where, path, flags);
}

/* RocksDB's threads do not survive fork(): every process that opens the database is a child of
 * one that does not. How it ended is returned. */
static int run_child(void (*act)(void))
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		act();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

static void expect_success(int status)
{
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void put_and_die(void)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 5000, 5264, 9);

	kills = true;
	put(&database, &sample);
}

static void put_and_close(void)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 5000, 5264, 9);

	put(&database, &sample);
	close_database(&database);
}

/* What was ingested is there and can be read, and so is what comes after it. */
static void expect_ingested(void)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 5000, 5264, 9), next = make_sample(2, 5000, 5264, 9);

	ck_assert_uint_eq(count_files(scratch, ""), 0);
	expect_list(database.map, &sample, 1);
	put(&database, &next);
	expect_list(database.map, &next, 1);
	expect_stream(database.map, &sample);
	close_database(&database);
}

/* Every file that an earlier life left is its own, and is then damaged. */
static unsigned damage_scratch(void)
{
	DIR *stream = opendir(scratch);
	struct dirent *entry;
	struct stat info;
	unsigned count = 0;

	ck_assert_ptr_nonnull(stream);
	while ((entry = readdir(stream))) {
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		ck_assert_int_eq(fstatat(dirfd(stream), entry->d_name, &info, 0), 0);
		ck_assert_uint_eq(info.st_nlink, 1);
		fd = openat(dirfd(stream), entry->d_name, O_WRONLY | O_TRUNC);
		ck_assert_int_ge(fd, 0);
		close(fd);
		count++;
	}
	closedir(stream);
	return count;
}

START_TEST(a_kill_behind_the_ingestion_leaves_no_name_of_a_live_file)
{
	int status = run_child(put_and_die);

	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGKILL);
	ck_assert_uint_eq(damage_scratch(), 1);
	expect_success(run_child(expect_ingested));
}
END_TEST

/* Some SST file of the database. */
static void find_table(char *path)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	*path = '\0';
	ck_assert_ptr_nonnull(stream);
	while ((entry = readdir(stream))) {
		if (strstr(entry->d_name, ".sst"))
			snprintf(path, PATH_MAX + 300, "%s/%s", directory, entry->d_name);
	}
	closedir(stream);
	ck_assert_int_ne(*path, '\0');
}

/* As the move of an early version left it. */
static void link_table(const char *name)
{
	char table[PATH_MAX + 300], path[PATH_MAX + 64];

	find_table(table);
	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	ck_assert_int_eq(link(table, path), 0);
}

START_TEST(a_second_name_of_a_live_file_is_removed_and_not_written)
{
	expect_success(run_child(put_and_close));
	link_table("run-1.sst");
	expect_success(run_child(expect_ingested));
	expect_success(run_child(expect_ingested));
}
END_TEST

/* No file can be made or removed in the scratch directory: root may do everything, and
 * becomes somebody else. */
static void open_where_nothing_can_be_removed(void)
{
	static const char *const names[] = {"default", FAMILY};
	rocksdb_options_t *options = rocksdb_options_create();
	const rocksdb_options_t *all[] = {options, options};
	rocksdb_column_family_handle_t *handles[2];
	struct wn__map *map;
	struct sample sample = make_sample(2, 5000, 5264, 9);
	char *text = NULL;
	rocksdb_t *db;

	if (geteuid() == 0) {
		ck_assert_int_eq(nftw(directory, give_away, 8, FTW_PHYS), 0);
		ck_assert_int_eq(lchown(scratch, 0, 0), 0);
	}
	ck_assert_int_eq(chmod(scratch, 0555), 0);
	ck_assert(geteuid() != 0 || setuid(65534) == 0);
	db = rocksdb_open_column_families(options, directory, 2, names, all, handles, &text);
	ck_assert_ptr_null(text);
	if (wn__map_column_family_open(db, handles[1], scratch, &map) == 0) {
		wn__map_put(map, &sample.list, sample.uppers);
		_exit(3);
	}
	rocksdb_column_family_handle_destroy(handles[0]);
	rocksdb_column_family_handle_destroy(handles[1]);
	rocksdb_close(db);
	rocksdb_options_destroy(options);
}

START_TEST(a_directory_that_cannot_be_written_is_refused)
{
	int status;

	expect_success(run_child(put_and_close));
	link_table("run-1.sst");
	status = run_child(open_where_nothing_can_be_removed);
	ck_assert_int_eq(chmod(scratch, 0700), 0);
	expect_success(run_child(expect_ingested));
	expect_success(status);
}
END_TEST

/* A name that is taken by what cannot be unlinked. */
START_TEST(leftovers_that_cannot_be_swept_are_an_error)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 600, 632, 9);
	char path[PATH_MAX + 64];
	struct wn__map *map;

	snprintf(path, sizeof(path), "%s/run-1.sst", scratch);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_ne(wn__map_put(database.map, &sample.list, sample.uppers), 0);
	assert_count(&database, 0);
	ck_assert_int_ne(wn__map_column_family_open(database.db, database.handles[1], scratch,
						     &map),
			 0);
	ck_assert_ptr_null(map);
	ck_assert_int_eq(rmdir(path), 0);
	put(&database, &sample);
	expect_list(database.map, &sample, 1);
	close_database(&database);
	free_sample(&sample);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("column family files");
	TCase *tests = tcase_create("column family");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, files_of_a_crash_are_swept);
	tcase_add_test(tests, a_kill_behind_the_ingestion_leaves_no_name_of_a_live_file);
	tcase_add_test(tests, a_second_name_of_a_live_file_is_removed_and_not_written);
	tcase_add_test(tests, a_directory_that_cannot_be_written_is_refused);
	tcase_add_test(tests, leftovers_that_cannot_be_swept_are_an_error);
	return test_run(suite);
}
