/* test_home.c - the directory beside a database: whose it is, and what is removed from it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "learn/saved/home.h"
#include "tests/support/common.h"

#define ID "0123456789abcdef0123456789abcdef"

static char top[PATH_MAX];
static char home_path[PATH_MAX + 16];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

static void set_up(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(top, sizeof(top), "%s/winnow-home-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(home_path, sizeof(home_path), "%s/db.winnow", top);
	ck_assert_int_eq(mkdir(home_path, 0700), 0);
}

static void tear_down(void)
{
	nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *path_in(const char *directory, const char *name)
{
	static char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static const char *path_of(const char *name)
{
	return path_in(home_path, name);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(wn__write_all(fd, "bytes", 5), 0);
	ck_assert_int_eq(close(fd), 0);
}

static bool is_there(const char *name)
{
	struct stat info;

	return lstat(path_of(name), &info) == 0;
}

static struct wn__identity identity_of(const char *text)
{
	struct wn__identity identity = {.size = strlen(text)};

	memcpy(identity.bytes, text, identity.size);
	return identity;
}

static int claim(const char *text)
{
	struct wn__identity identity = identity_of(text);
	struct wn__home *home;
	int err;

	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	err = wn__home_claim(home, &identity);
	wn__home_unlock(home);
	return err;
}

static bool belongs(const char *text)
{
	struct wn__identity identity = identity_of(text);

	return wn__home_belongs(home_path, &identity);
}

/* ---- names -------------------------------------------------------------- */

static void expect_text(char *text, const char *wanted)
{
	ck_assert_ptr_nonnull(text);
	ck_assert_str_eq(text, wanted);
	free(text);
}

START_TEST(a_directory_is_named_after_its_database)
{
	expect_text(wn__home_directory("db", NULL), "db.winnow");
	expect_text(wn__home_directory("a/db//", NULL), "a/db.winnow");
	expect_text(wn__home_directory("db", "else/where/"), "else/where/");
}
END_TEST

START_TEST(every_way_to_write_a_path_is_one_name)
{
	char written[2 * PATH_MAX], *real = realpath(top, NULL);

	ck_assert_ptr_nonnull(real);
	snprintf(written, sizeof(written), "%s/db.winnow", real);
	expect_text(wn__home_canonical(home_path), written);
	expect_text(wn__home_canonical(path_in(top, "./db.winnow/../db.winnow//")), written);
	ck_assert_int_eq(symlink("db.winnow", path_in(top, "other")), 0);
	expect_text(wn__home_canonical(path_in(top, "other")), written);
	/* What is not there yet. */
	snprintf(written, sizeof(written), "%s/new", real);
	expect_text(wn__home_canonical(path_in(top, ".//new/")), written);
	free(real);
	expect_text(wn__home_canonical("/"), "/");
	expect_text(wn__home_canonical("/winnow-is-not-there"), "/winnow-is-not-there");
}
END_TEST

/* ---- the lock ----------------------------------------------------------- */

START_TEST(one_at_a_time_has_the_directory)
{
	struct wn__home *home, *other;

	rmdir(home_path);
	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	ck_assert_int_eq(wn__home_lock(home_path, &other), EBUSY);
	ck_assert_ptr_null(other);
	ck_assert_int_eq(wn__home_remove(home_path), EBUSY);
	wn__home_unlock(home);
	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	wn__home_unlock(home);
	wn__home_unlock(NULL);
	ck_assert_int_eq(wn__home_lock(path_in(top, "no/such"), &home), ENOENT);
	make_file(path_in(top, "file"));
	ck_assert_int_eq(wn__home_lock(path_in(top, "file"), &home), ENOTDIR);
	ck_assert_ptr_null(home);
}
END_TEST

/* It would keep the lock after its parent has died. */
START_TEST(a_child_does_not_inherit_the_lock)
{
	struct wn__home *home;
	int channel[2], status;
	pid_t child;
	char byte;

	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	ck_assert_int_eq(pipe(channel), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		close(channel[1]);
		_exit(read(channel[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(channel[0]);
	wn__home_unlock(home);
	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	close(channel[1]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	wn__home_unlock(home);
}
END_TEST

/* ---- identity ----------------------------------------------------------- */

START_TEST(a_directory_belongs_to_who_claimed_it_last)
{
	ck_assert(belongs(""));
	ck_assert(!belongs("one"));
	ck_assert_int_eq(claim("one"), 0);
	ck_assert(belongs("one"));
	ck_assert(!belongs("on"));
	ck_assert(!belongs("one "));
	ck_assert(!belongs(""));
	ck_assert_int_eq(claim("two"), 0);
	ck_assert(belongs("two") && !belongs("one"));
	ck_assert(!is_there("identity.new"));
	ck_assert_int_eq(wn__home_remove(home_path), 0);
	ck_assert(belongs("") && !belongs("two"));
}
END_TEST

START_TEST(an_identity_is_noted_byte_by_byte)
{
	struct wn__identity identity = {.size = 5, .bytes = {'a', 0, 0xff, '\n', 0}};
	unsigned char noted[WN__IDENTITY_SIZE + 1];
	struct wn__home *home;
	FILE *file;

	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	ck_assert_int_eq(wn__home_claim(home, &identity), 0);
	wn__home_unlock(home);
	file = fopen(path_of("identity"), "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fread(noted, 1, sizeof(noted), file), identity.size);
	ck_assert_mem_eq(noted, identity.bytes, identity.size);
	fclose(file);
}
END_TEST

START_TEST(an_identity_of_full_length_is_told_from_a_longer_one)
{
	char text[WN__IDENTITY_SIZE + 1] = "";
	FILE *file;

	memset(text, 'i', WN__IDENTITY_SIZE);
	ck_assert_int_eq(claim(text), 0);
	ck_assert(belongs(text));
	file = fopen(path_of("identity"), "a");
	ck_assert_ptr_nonnull(file);
	fputc('i', file);
	fclose(file);
	ck_assert(!belongs(text));
}
END_TEST

static const char *const kept_for_its_database[] = {"journal", "lessons",  "negatives",
						    "missing", ID ".run"};
static const char *const left_by_a_crash[] = {
	"identity.new", "lessons.new",  "negatives.new", "missing.new",
	ID ".tmp",      ID ".17.tmp",   "run-1.sst",     "secret.0123456789abcdef.new"};
static const char *const of_others[] = {
	"lessons.txt",   "notes.new", "notes.tmp",     "journal.new", "run-7.sst.old",
	ID ".x.tmp",     ID "a.run",  ID ".run.old",   ID,            "secret.new",
	"secret.01.new", "MANIFEST",  "0123abcd.run",  "000007.sst",  "identity.new.old"};

#define COUNT(names) (sizeof(names) / sizeof((names)[0]))

static void make_all(const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		make_file(path_of(names[i]));
}

static void expect_all(const char *const *names, size_t count, bool there)
{
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(is_there(names[i]) == there, "%s", names[i]);
}

START_TEST(what_a_crash_left_is_swept_and_nothing_else)
{
	ck_assert_int_eq(claim("one"), 0);
	make_file(path_of("secret"));
	make_all(kept_for_its_database, COUNT(kept_for_its_database));
	make_all(left_by_a_crash, COUNT(left_by_a_crash));
	make_all(of_others, COUNT(of_others));
	ck_assert_int_eq(claim("one"), 0);
	expect_all(kept_for_its_database, COUNT(kept_for_its_database), true);
	expect_all(left_by_a_crash, COUNT(left_by_a_crash), false);
	expect_all(of_others, COUNT(of_others), true);
	ck_assert(is_there("secret") && is_there("identity"));
}
END_TEST

START_TEST(of_another_database_the_secret_alone_stays)
{
	ck_assert_int_eq(claim("one"), 0);
	make_file(path_of("secret"));
	make_all(kept_for_its_database, COUNT(kept_for_its_database));
	make_all(left_by_a_crash, COUNT(left_by_a_crash));
	make_all(of_others, COUNT(of_others));
	ck_assert_int_eq(claim("two"), 0);
	expect_all(kept_for_its_database, COUNT(kept_for_its_database), false);
	expect_all(left_by_a_crash, COUNT(left_by_a_crash), false);
	expect_all(of_others, COUNT(of_others), true);
	ck_assert(is_there("secret") && is_there("identity"));
}
END_TEST

START_TEST(removal_leaves_what_is_not_winnows)
{
	ck_assert_int_eq(claim("one"), 0);
	make_file(path_of("secret"));
	make_all(kept_for_its_database, COUNT(kept_for_its_database));
	make_all(left_by_a_crash, COUNT(left_by_a_crash));
	make_all(of_others, COUNT(of_others));
	ck_assert_int_eq(wn__home_remove(home_path), 0);
	expect_all(kept_for_its_database, COUNT(kept_for_its_database), false);
	expect_all(left_by_a_crash, COUNT(left_by_a_crash), false);
	expect_all(of_others, COUNT(of_others), true);
	ck_assert(!is_there("secret") && !is_there("identity"));
	for (size_t i = 0; i < COUNT(of_others); i++)
		ck_assert_int_eq(unlink(path_of(of_others[i])), 0);
	ck_assert_int_eq(wn__home_remove(home_path), 0);
	ck_assert_int_ne(access(home_path, F_OK), 0);
	ck_assert_int_eq(wn__home_remove(home_path), 0);
}
END_TEST

/* ---- entries that mean harm --------------------------------------------- */

static void expect_theirs(void)
{
	char bytes[16];
	size_t size;

	ck_assert_int_eq(wn__file_read_some(AT_FDCWD, path_in(top, "theirs"), bytes, sizeof(bytes),
					    &size), 0);
	ck_assert_uint_eq(size, 5);
	ck_assert_mem_eq(bytes, "bytes", 5);
}

START_TEST(a_second_name_of_a_live_file_is_unlinked_and_not_written)
{
	char theirs[2 * PATH_MAX];
	struct wn_secret *secret = test_secret(1);

	snprintf(theirs, sizeof(theirs), "%s/theirs", top);
	make_file(theirs);
	for (int kind = 0; kind < 2; kind++) {
		int (*make)(const char *, const char *) = kind ? symlink : link;

		for (size_t i = 0; i < COUNT(kept_for_its_database); i++)
			ck_assert_int_eq(make(theirs, path_of(kept_for_its_database[i])), 0);
		for (size_t i = 0; i < COUNT(left_by_a_crash); i++)
			ck_assert_int_eq(make(theirs, path_of(left_by_a_crash[i])), 0);
		unlink(path_of("identity"));
		ck_assert_int_eq(make(theirs, path_of("identity")), 0);
		ck_assert_int_eq(make(theirs, path_of("secret")), 0);
		ck_assert_int_eq(claim("one"), 0);
		ck_assert(belongs("one"));
		ck_assert_int_eq(wn__home_save_secret(home_path, secret), 0);
		expect_theirs();
		expect_all(kept_for_its_database, COUNT(kept_for_its_database), false);
		expect_all(left_by_a_crash, COUNT(left_by_a_crash), false);
		ck_assert_int_eq(unlink(path_of("secret")), 0);
	}
	wn_secret_destroy(secret);
}
END_TEST

/* Opening a FIFO waits for its other end. */
START_TEST(a_fifo_is_not_waited_for)
{
	struct wn_secret *secret;
	bool new;

	ck_assert_int_eq(mkfifo(path_of("identity"), 0600), 0);
	ck_assert_int_eq(mkfifo(path_of("identity.new"), 0600), 0);
	ck_assert_int_eq(mkfifo(path_of("secret"), 0600), 0);
	ck_assert_int_eq(mkfifo(path_of("lessons"), 0600), 0);
	ck_assert(!belongs("one"));
	ck_assert_int_eq(claim("one"), 0);
	ck_assert(belongs("one"));
	ck_assert(!is_there("lessons"));
	ck_assert_int_eq(wn__home_secret(home_path, &secret, &new), 0);
	ck_assert(new);
	ck_assert_int_eq(wn__home_save_secret(home_path, secret), 0);
	wn_secret_destroy(secret);
	ck_assert_int_eq(wn__home_secret(home_path, &secret, &new), 0);
	ck_assert(!new);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(a_directory_of_one_of_the_names_stays)
{
	ck_assert_int_eq(mkdir(path_of("lessons"), 0700), 0);
	ck_assert_int_eq(mkdir(path_of("journal"), 0700), 0);
	make_file(path_of("journal/file"));
	ck_assert_int_eq(mkdir(path_of("run-1.sst"), 0700), 0);
	/* An empty one is in the way of the identity. */
	ck_assert_int_eq(mkdir(path_of("identity"), 0700), 0);
	ck_assert_int_eq(claim("one"), 0);
	ck_assert(belongs("one"));
	ck_assert_int_eq(claim("one"), 0);
	ck_assert(is_there("lessons") && is_there("journal/file") && is_there("run-1.sst"));
	ck_assert_int_eq(wn__home_remove(home_path), 0);
	ck_assert(is_there("journal/file"));
}
END_TEST

/* ---- the secret --------------------------------------------------------- */

START_TEST(a_secret_is_found_again)
{
	struct wn_secret *secret, *again;
	bool new;

	ck_assert_int_eq(wn__home_secret(home_path, &secret, &new), 0);
	ck_assert(new);
	ck_assert_int_eq(wn__home_save_secret(home_path, secret), 0);
	ck_assert_int_eq(wn__home_secret(home_path, &again, &new), 0);
	ck_assert(!new);
	ck_assert_mem_eq(wn_secret_seed(secret), wn_secret_seed(again), WN_SEED_SIZE);
	wn_secret_destroy(again);
	/* Damage: a new one. */
	ck_assert_int_eq(truncate(path_of("secret"), 20), 0);
	ck_assert_int_eq(wn__home_secret(home_path, &again, &new), 0);
	ck_assert(new);
	ck_assert_mem_ne(wn_secret_seed(secret), wn_secret_seed(again), WN_SEED_SIZE);
	wn_secret_destroy(again);
	wn_secret_destroy(secret);
}
END_TEST

/* Or it would be replaced, and all that was learned under it lost. */
START_TEST(a_shortage_does_not_cost_the_secret_or_the_lessons)
{
	struct wn_secret *secret = test_secret(7), *again;
	struct wn__identity identity = identity_of("one");
	uint64_t calls;
	struct wn__home *home;
	bool new;

	ck_assert_int_eq(claim("one"), 0);
	ck_assert_int_eq(wn__home_save_secret(home_path, secret), 0);
	make_file(path_of("lessons"));
	wn__alloc_fail_at(0);
	ck_assert_int_eq(wn__home_secret(home_path, &again, &new), 0);
	calls = wn__alloc_calls();
	wn_secret_destroy(again);
	for (uint64_t nth = 1; nth <= calls; nth++) {
		wn__alloc_fail_at(nth);
		ck_assert_int_eq(wn__home_secret(home_path, &again, &new), ENOMEM);
		wn__alloc_fail_at(0);
		ck_assert(!new);
		ck_assert_ptr_null(again);
	}
	ck_assert_int_eq(wn__home_lock(home_path, &home), 0);
	for (uint64_t nth = 1; nth <= 4; nth++) {
		wn__alloc_fail_at(nth);
		(void)wn__home_claim(home, &identity);
		wn__alloc_fail_at(0);
		ck_assert(is_there("lessons"));
	}
	wn__home_unlock(home);
	wn_secret_destroy(secret);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("home");
	TCase *tests = tcase_create("home");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_directory_is_named_after_its_database);
	tcase_add_test(tests, every_way_to_write_a_path_is_one_name);
	tcase_add_test(tests, one_at_a_time_has_the_directory);
	tcase_add_test(tests, a_child_does_not_inherit_the_lock);
	tcase_add_test(tests, a_directory_belongs_to_who_claimed_it_last);
	tcase_add_test(tests, an_identity_is_noted_byte_by_byte);
	tcase_add_test(tests, an_identity_of_full_length_is_told_from_a_longer_one);
	tcase_add_test(tests, what_a_crash_left_is_swept_and_nothing_else);
	tcase_add_test(tests, of_another_database_the_secret_alone_stays);
	tcase_add_test(tests, removal_leaves_what_is_not_winnows);
	tcase_add_test(tests, a_second_name_of_a_live_file_is_unlinked_and_not_written);
	tcase_add_test(tests, a_fifo_is_not_waited_for);
	tcase_add_test(tests, a_directory_of_one_of_the_names_stays);
	tcase_add_test(tests, a_secret_is_found_again);
	tcase_add_test(tests, a_shortage_does_not_cost_the_secret_or_the_lessons);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
