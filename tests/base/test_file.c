/* test_file.c - files that are written are nobody else's. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/key_lists.h"

static char directory[PATH_MAX];
static char ours[PATH_MAX + 16], theirs[PATH_MAX + 16];

static void set_up(void)
{
	int fd;

	make_directory(directory);
	snprintf(ours, sizeof(ours), "%s/ours", directory);
	snprintf(theirs, sizeof(theirs), "%s/theirs", directory);
	fd = open(theirs, O_WRONLY | O_CREAT, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(wn__write_all(fd, "theirs", 6), 0);
	close(fd);
}

static void tear_down(void)
{
	remove_directory(directory);
}

static void expect_theirs(void)
{
	char bytes[16];
	int fd = open(theirs, O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, bytes, sizeof(bytes)), 6);
	ck_assert_mem_eq(bytes, "theirs", 6);
	close(fd);
}

/* Under our name: nothing, a file, a second name of theirs, a symbolic link to it. */
static void take_name(int kind)
{
	switch (kind) {
	case 1:
		ck_assert_int_eq(close(open(ours, O_WRONLY | O_CREAT, 0600)), 0);
		break;
	case 2:
		ck_assert_int_eq(link(theirs, ours), 0);
		break;
	case 3:
		ck_assert_int_eq(symlink(theirs, ours), 0);
		break;
	}
}

START_TEST(a_new_file_is_nobody_elses)
{
	struct stat info;
	int fd;

	take_name(_i);
	ck_assert_int_eq(wn__file_create(AT_FDCWD, ours, &fd), 0);
	ck_assert_int_eq(wn__write_all(fd, "new", 3), 0);
	ck_assert_int_eq(close(fd), 0);
	expect_theirs();
	ck_assert_int_eq(lstat(ours, &info), 0);
	ck_assert(S_ISREG(info.st_mode));
	ck_assert_uint_eq(info.st_nlink, 1);
	ck_assert_int_eq(info.st_size, 3);
	ck_assert_uint_eq(info.st_mode & 0777, 0600);
}
END_TEST

START_TEST(a_name_that_cannot_be_had_is_an_error)
{
	int fd;

	ck_assert_int_eq(mkdir(ours, 0700), 0);
	ck_assert_int_eq(wn__file_create(AT_FDCWD, ours, &fd), EISDIR);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(wn__file_open_own(ours, &fd), EISDIR);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(wn__file_open_read(AT_FDCWD, ours, &fd), EISDIR);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(rmdir(ours), 0);
	ck_assert_int_eq(mkfifo(ours, 0600), 0);
	ck_assert_int_eq(wn__file_open_own(ours, &fd), EINVAL);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(wn__file_open_read(AT_FDCWD, ours, &fd), EINVAL);
	ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(what_is_read_may_have_any_name)
{
	char bytes[16];
	int fd;

	take_name(_i);
	if (_i == 0) {
		ck_assert_int_eq(wn__file_open_read(AT_FDCWD, ours, &fd), ENOENT);
		ck_assert_int_eq(fd, -1);
		return;
	}
	ck_assert_int_eq(wn__file_open_read(AT_FDCWD, ours, &fd), 0);
	ck_assert_int_eq(read(fd, bytes, sizeof(bytes)), _i == 1 ? 0 : 6);
	close(fd);
}
END_TEST

START_TEST(what_is_written_in_place_has_one_name)
{
	static const int expected[] = {0, 0, EMLINK, ELOOP};
	int fd;

	take_name(_i);
	ck_assert_int_eq(wn__file_open_own(ours, &fd), expected[_i]);
	ck_assert_int_eq(fd >= 0, expected[_i] == 0);
	if (fd >= 0)
		close(fd);
	expect_theirs();
}
END_TEST

/* ---- whole files ------------------------------------------------------- */

START_TEST(a_file_is_replaced_whole_and_nobody_elses)
{
	char temporary[PATH_MAX + 32], bytes[16];
	void *all;
	size_t size;

	snprintf(temporary, sizeof(temporary), "%s.new", ours);
	take_name(_i);
	ck_assert_int_eq(link(theirs, temporary), 0);
	ck_assert_int_eq(wn__file_replace(AT_FDCWD, ours, temporary, "whole", 5), 0);
	expect_theirs();
	ck_assert_int_eq(access(temporary, F_OK), -1);
	ck_assert_int_eq(wn__file_read(AT_FDCWD, ours, &all, &size), 0);
	ck_assert_uint_eq(size, 5);
	ck_assert_mem_eq(all, "whole", 5);
	free(all);
	ck_assert_int_eq(wn__file_read_some(AT_FDCWD, ours, bytes, 3, &size), 0);
	ck_assert_uint_eq(size, 3);
	ck_assert_int_eq(wn__file_read_some(AT_FDCWD, ours, bytes, sizeof(bytes), &size), 0);
	ck_assert_uint_eq(size, 5);
}
END_TEST

START_TEST(a_file_that_cannot_be_replaced_is_as_it_was)
{
	char temporary[PATH_MAX + 32];
	size_t size;
	void *all;

	snprintf(temporary, sizeof(temporary), "%s.new", ours);
	ck_assert_int_eq(mkdir(temporary, 0700), 0);
	ck_assert_int_eq(wn__file_replace(AT_FDCWD, theirs, temporary, "whole", 5), EISDIR);
	expect_theirs();
	ck_assert_int_eq(rmdir(temporary), 0);
	ck_assert_int_eq(mkdir(ours, 0700), 0);
	ck_assert_int_eq(wn__file_replace(AT_FDCWD, ours, temporary, "whole", 5), EISDIR);
	ck_assert_int_eq(access(temporary, F_OK), -1);
	ck_assert_int_eq(wn__file_read(AT_FDCWD, ours, &all, &size), EISDIR);
	ck_assert_ptr_null(all);
	ck_assert_uint_eq(size, 0);
	ck_assert_int_eq(rmdir(ours), 0);
}
END_TEST

START_TEST(bytes_behind_the_end_are_not_read)
{
	char bytes[16];
	size_t size;
	int fd;

	ck_assert_int_eq(wn__file_open_read(AT_FDCWD, theirs, &fd), 0);
	ck_assert_int_eq(wn__pread_all(fd, bytes, 4, 2), 0);
	ck_assert_mem_eq(bytes, "eirs", 4);
	ck_assert_int_eq(wn__pread_all(fd, bytes, 5, 2), WN_ERR_CORRUPT);
	ck_assert_int_eq(wn__pread_all(fd, bytes, 1, 600), WN_ERR_CORRUPT);
	ck_assert_int_eq(wn__read_all(fd, bytes, 2, &size), 0);
	ck_assert_uint_eq(size, 2);
	ck_assert_int_eq(wn__read_all(fd, bytes, sizeof(bytes), &size), 0);
	ck_assert_uint_eq(size, 4);
	ck_assert_int_eq(wn__file_finish(fd, WN_ERR_FULL, false), WN_ERR_FULL);
	ck_assert_int_eq(wn__file_finish(-1, 0, true), EBADF);
}
END_TEST

static void expect_joined(const char *first, const char *name, const char *wanted)
{
	char *path = wn__join_path(first, name);

	ck_assert_str_eq(path, wanted);
	free(path);
}

START_TEST(a_path_has_one_slash_where_it_was_joined)
{
	expect_joined("db", "name", "db/name");
	expect_joined("a/db//", "name", "a/db/name");
	expect_joined("/", "name", "/name");
	expect_joined(".", "name", "./name");
	ck_assert_int_eq(wn__sync_directory(AT_FDCWD, directory), 0);
	ck_assert_int_eq(wn__sync_directory(AT_FDCWD, theirs), ENOTDIR);
}
END_TEST

START_TEST(a_directory_that_is_not_there_is_not_ours)
{
	ck_assert_int_eq(wn__directory_is_ours(directory), 0);
	ck_assert_int_eq(wn__directory_is_ours(ours), ENOENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file");
	TCase *tests = tcase_create("file");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, a_new_file_is_nobody_elses, 0, 4);
	tcase_add_test(tests, a_name_that_cannot_be_had_is_an_error);
	tcase_add_loop_test(tests, what_is_read_may_have_any_name, 0, 4);
	tcase_add_loop_test(tests, what_is_written_in_place_has_one_name, 0, 4);
	tcase_add_loop_test(tests, a_file_is_replaced_whole_and_nobody_elses, 0, 4);
	tcase_add_test(tests, a_file_that_cannot_be_replaced_is_as_it_was);
	tcase_add_test(tests, bytes_behind_the_end_are_not_read);
	tcase_add_test(tests, a_path_has_one_slash_where_it_was_joined);
	tcase_add_test(tests, a_directory_that_is_not_there_is_not_ours);
	return test_run(suite);
}
