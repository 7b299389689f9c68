/* test_rocksdb_damage.c - databases that learn, out of space and damaged. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw(), unshare() */
#endif
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "tests/support/rocksdb_small.h"

/* ---- out of space ------------------------------------------------------- */

#define FULL_SIZE (4 << 20)

/* The test's own file system, small, seen by this process alone. */
static bool mount_small(const char *path)
{
	char options[64];

	snprintf(options, sizeof(options), "size=%d", FULL_SIZE);
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("winnow-test", path, "tmpfs", 0, options) == 0;
}

/* Take all space there is. */
static void fill_up(const char *path)
{
	static const char bytes[4096];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	for (size_t size = sizeof(bytes); size > 0; size /= 2) {
		while (write(fd, bytes, size) > 0)
			;
	}
	close(fd);
}

static bool put_checked(struct learner *learner, rocksdb_writeoptions_t *writing, uint64_t number)
{
	uint64_t value = number + 1;
	char key[DB_KEY_SIZE];
	char *error = NULL;
	bool good;

	db_key(number, key);
	rocksdb_put(learner->db.rocks, writing, key, sizeof(key), (char *)&value, sizeof(value),
		    &error);
	good = !error;
	if (error)
		fprintf(stderr, "at number %" PRIu64 ": %s\n", number, error);
	rocksdb_free(error);
	return good;
}

/* Even numbers up to `end` are there; the one write that failed may be; and nothing else. */
static void expect_written(struct learner *learner, uint64_t end)
{
	for (uint64_t number = 0; number < end + 1000; number++) {
		uint64_t value = ask(learner, number);

		if (number % 2 == 0 && number < end)
			expect(value == number + 1);
		else
			expect(value == 0 || (number == end && value == end + 1));
	}
}

/* What the child that ran out of space tells. */
struct told {
	uint64_t end; /* even numbers before it were acknowledged */
	bool full;    /* no space is left */
};

static char wal_path[TEST_PATH_SIZE];

static void set_small_with_wal(rocksdb_options_t *options)
{
	set_small(options);
	if (wal_path[0])
		rocksdb_options_set_wal_dir(options, wal_path);
}

static struct learner open_with_wal(const char *path, const struct learner_store *store)
{
	struct wn_rocksdb_options options = learner_options(store);

	return learner_open(path, &plain, set_small_with_wal, 1, &options);
}

static void run_out_of_space(const char *path, const struct learner_store *store,
			     const char *balloon, struct told *told)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	struct learner learner = open_with_wal(path, store);

	for (; told->end < 20000; told->end += 2)
		ck_assert(put_checked(&learner, writing, told->end));
	expect_written(&learner, told->end);
	told->full = true;
	fill_up(balloon);
	/* Without assertions, from 8 or so on, RocksDB stops writes while memtables wait for space:
	 * they are to fail then, and not to wait for ever. */
	rocksdb_writeoptions_set_no_slowdown(writing, 1);
	while (told->end < 400000 && put_checked(&learner, writing, told->end))
		told->end += 2;
	ck_assert_uint_lt(told->end, 400000);
	for (int round = 0; round < 2; round++) {
		expect_written(&learner, told->end);
		wn_rocksdb_drain(learner.wn);
	}
	learner_close(&learner);
	_exit(0);
}

/* RocksDB with assertions, as Debian has it, aborts when it goes on with a file that it could not
 * write to. That is a crash like any other. */
static void expect_end(pid_t child, const struct told *told)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(told->full);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		ck_assert_int_eq(status, 0);
}

START_TEST(a_full_disk_costs_no_acknowledged_key_and_no_right_answer)
{
	const struct learner_store *store = &learner_stores[_i / 2];
	char small[TEST_PATH_SIZE], path[TEST_PATH_SIZE], balloon[TEST_PATH_SIZE], name[32];
	struct told *told;
	struct learner learner;
	pid_t child;

	/* cppcheck-suppress invalidFunctionArg ; -1 is how anonymous memory is asked for */
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(told != MAP_FAILED);
	snprintf(name, sizeof(name), "-%d", _i);
	test_join(small, test_path("small"), "", name);
	test_join(path, small, "/", "db");
	test_join(balloon, small, "/", "balloon");
	/* The log is elsewhere: what fails then is the flush. */
	if (_i % 2)
		test_join(wal_path, test_path("wal"), "", name);
	ck_assert_int_eq(mkdir(small, 0700), 0);
	if (!mount_small(small)) {
		fprintf(stderr, "not tested: no small file system can be mounted here\n");
		return;
	}
	child = fork();
	if (child == 0)
		run_out_of_space(path, store, balloon, told);
	expect_end(child, told);
	ck_assert_int_eq(unlink(balloon), 0);
	learner = open_with_wal(path, store);
	expect_written(&learner, told->end);
	learner_flush(&learner);
	expect_written(&learner, told->end);
	learner_close(&learner);
	munmap(told, sizeof(*told));
}
END_TEST

/* The sidecar is out of space and the database is not. */
START_TEST(a_sidecar_without_space_teaches_nothing_and_answers_right)
{
	rocksdb_writeoptions_t *writing;
	struct wn_rocksdb_options options = learner_options(&learner_stores[0]);
	char small[TEST_PATH_SIZE], balloon[TEST_PATH_SIZE];
	struct learner learner;
	uint64_t end = 0;

	options.store = WN_ROCKSDB_SIDECAR;
	test_join(small, test_path("sidecar"), "", "");
	test_join(balloon, small, "/", "balloon");
	ck_assert_int_eq(mkdir(small, 0700), 0);
	if (!mount_small(small)) {
		fprintf(stderr, "not tested: no small file system can be mounted here\n");
		return;
	}
	writing = rocksdb_writeoptions_create();
	options.sidecar_directory = small;
	learner = learner_open(test_path("beside"), &plain, set_small, 1, &options);
	for (; end < 10000; end += 2)
		ck_assert(put_checked(&learner, writing, end));
	learner_flush(&learner);
	wn_rocksdb_drain(learner.wn);
	fill_up(balloon);
	for (; end < 30000; end += 2)
		ck_assert(put_checked(&learner, writing, end));
	learner_flush(&learner);
	wn_rocksdb_drain(learner.wn);
	ck_assert_uint_gt(learner_stats(&learner).key_lists_lost, 0);
	for (int round = 0; round < 2; round++)
		expect_written(&learner, end);
	learner_close(&learner);
	learner = learner_open(test_path("beside"), &plain, set_small, 1, &options);
	expect_written(&learner, end);
	learner_close(&learner);
	ck_assert_int_eq(unlink(balloon), 0);
	learner = learner_open(test_path("beside"), &plain, set_small, 1, &options);
	expect_written(&learner, end);
	learner_close(&learner);
	rocksdb_writeoptions_destroy(writing);
}
END_TEST

/* ---- damaged ------------------------------------------------------------ */

#define DAMAGE_KEYS 4000

enum damage {
	CUT_TO_NOTHING,
	CUT_IN_HALF,
	CUT_BY_ONE,
	GROWN,
	ONE_BIT,
	MANY_BITS,
	GARBAGE,
	REMOVED,
	A_DIRECTORY,
	A_FIFO, /* opening it waits for somebody at its other end */
	DAMAGES
};

static void flip_bits(int fd, off_t size, unsigned count, uint64_t *seed)
{
	while (count-- > 0) {
		off_t at = (off_t)(test_random(seed) % (uint64_t)size);
		unsigned char byte;

		expect(pread(fd, &byte, 1, at) == 1);
		byte ^= (unsigned char)(1 << test_random(seed) % 8);
		expect(pwrite(fd, &byte, 1, at) == 1);
	}
}

static void write_garbage(int fd, off_t size, uint64_t *seed)
{
	for (off_t at = 0; at < size; at++) {
		unsigned char byte = (unsigned char)test_random(seed);

		expect(pwrite(fd, &byte, 1, at) == 1);
	}
}

static void damage_file(const char *path, enum damage damage, uint64_t *seed)
{
	int fd = open(path, O_RDWR);
	struct stat info;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &info), 0);
	if (damage == CUT_TO_NOTHING)
		expect(ftruncate(fd, 0) == 0);
	else if (damage == CUT_IN_HALF)
		expect(ftruncate(fd, info.st_size / 2) == 0);
	else if (damage == CUT_BY_ONE && info.st_size > 0)
		expect(ftruncate(fd, info.st_size - 1) == 0);
	else if (damage == GROWN)
		expect(pwrite(fd, "winnow", 6, info.st_size) == 6);
	else if (damage == ONE_BIT && info.st_size > 0)
		flip_bits(fd, info.st_size, 1, seed);
	else if (damage == MANY_BITS && info.st_size > 0)
		flip_bits(fd, info.st_size, 50, seed);
	else if (damage == GARBAGE)
		write_garbage(fd, info.st_size, seed);
	close(fd);
	if (damage == REMOVED || damage == A_DIRECTORY || damage == A_FIFO)
		ck_assert_int_eq(unlink(path), 0);
	if (damage == A_DIRECTORY)
		ck_assert_int_eq(mkdir(path, 0700), 0);
	if (damage == A_FIFO)
		ck_assert_int_eq(mkfifo(path, 0600), 0);
}

#define MAX_FILES 64

static int is_file(const struct dirent *entry)
{
	return entry->d_type == DT_REG;
}

/* The names of the files in a directory, in order. 0: there is no such directory. */
static int list_files(const char *directory, char names[MAX_FILES][256])
{
	struct dirent **entries;
	int count = 0, found = scandir(directory, &entries, is_file, alphasort);

	for (int i = 0; i < found; i++) {
		if (count < MAX_FILES)
			snprintf(names[count++], 256, "%s", entries[i]->d_name);
		free(entries[i]);
	}
	if (found >= 0)
		free(entries);
	return count;
}

static void copy_file(const char *from, const char *to)
{
	static char bytes[1 << 16];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t got;

	ck_assert_int_ge(in, 0);
	ck_assert_int_ge(out, 0);
	while ((got = read(in, bytes, sizeof(bytes))) > 0)
		ck_assert_int_eq(write(out, bytes, (size_t)got), got);
	close(in);
	close(out);
}

/* Directories are flat here, and one need not be there. */
static void copy_directory(const char *from, const char *to)
{
	static char names[MAX_FILES][256];
	int count = list_files(from, names);

	nftw(to, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (access(from, F_OK) != 0)
		return;
	ck_assert_int_eq(mkdir(to, 0700), 0);
	for (int i = 0; i < count; i++) {
		char source[TEST_PATH_SIZE], target[TEST_PATH_SIZE];

		test_join(source, from, "/", names[i]);
		test_join(target, to, "/", names[i]);
		copy_file(source, target);
	}
}

/* Twice, since the second time it is asked with what the first time taught. */
static void expect_all(struct learner *learner)
{
	for (int round = 0; round < 2; round++) {
		for (uint64_t number = 2; number < DAMAGE_KEYS; number++)
			expect(ask(learner, number) == (number % 2 ? 0 : number));
		wn_rocksdb_drain(learner->wn);
	}
}

static void prepare(const char *path, const struct learner_store *store)
{
	struct learner learner = open_still(path, store);

	for (uint64_t first = 0; first < DAMAGE_KEYS; first += DAMAGE_KEYS / 2) {
		db_put(&learner.db, first, first + DAMAGE_KEYS / 2);
		learner_flush(&learner);
	}
	expect_all(&learner);
	ck_assert_uint_gt(learner_stats(&learner).lessons, 0);
	learner_close(&learner);
}

struct places {
	char original[TEST_PATH_SIZE], copy[TEST_PATH_SIZE];
	char original_state[TEST_PATH_SIZE], copy_state[TEST_PATH_SIZE];
};

/* A copy that is not damaged has learned what the original had. */
static void expect_copy_knows(const struct places *places, const struct learner_store *store)
{
	struct learner learner;

	copy_directory(places->original, places->copy);
	copy_directory(places->original_state, places->copy_state);
	learner = open_still(places->copy, store);
	expect_all(&learner);
	ck_assert_uint_eq(learner_stats(&learner).false_positives, 0);
	learner_close(&learner);
}

static bool can_open(const char *path, const char *state, const struct learner_store *store)
{
	struct wn_rocksdb_options options = learner_options(store);
	rocksdb_options_t *plainly = rocksdb_options_create();
	struct wn_rocksdb *wn;
	char *error = NULL;

	wn_rocksdb_open(plainly, path, &options, &wn, &error);
	ck_assert((wn == NULL) == (error != NULL));
	if (error)
		ck_assert_ptr_nonnull(strstr(error, state));
	rocksdb_free(error);
	rocksdb_options_destroy(plainly);
	if (!wn)
		return false;
	wn_rocksdb_close(wn);
	return true;
}

static void open_damaged(const struct places *places, const struct learner_store *store,
			 const char *name, enum damage damage, uint64_t *seed)
{
	char path[TEST_PATH_SIZE];
	struct learner learner;

	copy_directory(places->original, places->copy);
	copy_directory(places->original_state, places->copy_state);
	test_join(path, places->copy_state, "/", name);
	fprintf(stderr, "%s, damage %d\n", name, (int)damage);
	damage_file(path, damage, seed);
	/* The one thing that may be refused, since it could never be saved; with a reason. */
	if (damage == A_DIRECTORY && strcmp(name, "secret") == 0 &&
	    !can_open(places->copy, places->copy_state, store))
		ck_assert_int_eq(rmdir(path), 0);
	for (int round = 0; round < (test_is_quick() ? 1 : 2); round++) {
		learner = open_still(places->copy, store);
		expect_all(&learner);
		learner_close(&learner);
	}
}

START_TEST(damaged_state_costs_lessons_and_no_answer)
{
	const struct learner_store *store = &learner_stores[_i / DAMAGES];
	enum damage damage = (enum damage)(_i % DAMAGES);
	uint64_t seed = test_seed("damage", 31337);
	static char names[MAX_FILES][256];
	struct places places;
	char suffix[16];
	int count;

	snprintf(suffix, sizeof(suffix), "-%d", _i);
	test_join(places.original, test_path("sound"), "", suffix);
	test_join(places.copy, test_path("damaged"), "", suffix);
	test_join(places.original_state, places.original, "", ".winnow");
	test_join(places.copy_state, places.copy, "", ".winnow");
	prepare(places.original, store);
	expect_copy_knows(&places, store);
	count = list_files(places.original_state, names);
	for (int i = 0; i < count; i++)
		open_damaged(&places, store, names[i], damage, &seed);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_damage");
	TCase *tcase = tcase_create("crash");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, a_full_disk_costs_no_acknowledged_key_and_no_right_answer, 0,
			    2 * LEARNER_STORES);
	tcase_add_test(tcase, a_sidecar_without_space_teaches_nothing_and_answers_right);
	/* The store in memory leaves nothing behind. */
	tcase_add_loop_test(tcase, damaged_state_costs_lessons_and_no_answer, 0,
			    (test_is_quick() ? 1 : 2) * DAMAGES);
	result = test_run(suite);
	test_remove_top();
	return result;
}
