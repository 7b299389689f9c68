/* test_file.c - files that are written are nobody else's. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/runs_common.h"

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
	tcase_add_test(tests, a_directory_that_is_not_there_is_not_ours);
	return test_run(suite);
}
