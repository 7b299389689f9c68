/* test_rocksdb_crash.c - databases that learn, killed, out of space and damaged.
 *
 * A child process writes and tells its parent through a pipe what it is about to write and what
 * was acknowledged; then it is killed, at any moment. Its successor looks whether everything is
 * there. The parent itself never opens a database: RocksDB's threads do not survive fork(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw(), unshare() */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/rocksdb_stores.h"

static const struct db_setup plain = {.name = "plain"};

/* Small tables: flushes and compactions are under way most of the time. */
static void set_small(rocksdb_options_t *options)
{
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
	rocksdb_options_set_target_file_size_base(options, 32 << 10);
	rocksdb_options_set_max_bytes_for_level_base(options, 128 << 10);
	rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
}

static struct learner open_small(const char *path, const struct learner_store *store)
{
	struct wn_rocksdb_options options = learner_options(store);

	return learner_open(path, &plain, set_small, 1, &options);
}

/* What is stored under the number; 0: nothing. */
static uint64_t ask(struct learner *learner, uint64_t number)
{
	char key[DB_KEY_SIZE];
	char *error = NULL;
	uint64_t stored = 0;
	size_t size;
	char *value;

	db_key(number, key);
	value = wn_rocksdb_get(learner->wn, learner->db.reading, key, sizeof(key), &size, &error);
	expect_no(error);
	if (!value)
		return 0;
	expect(size == sizeof(stored));
	memcpy(&stored, value, sizeof(stored));
	rocksdb_free(value);
	return stored;
}

/* ---- killed ------------------------------------------------------------- */

#define KILL_KEYS 4000 /* even numbers are keys, odd ones never */

/* The model, which is the parent's, and by fork() its children's: of each number, which
 * versions may be found. Version 0 is nothing, and so is every third one. */
static struct {
	uint32_t acknowledged, begun;
} versions[KILL_KEYS];

static bool is_deletion(uint32_t version)
{
	return version % 3 == 0;
}

enum note_kind { BEGUN = 1, ACKNOWLEDGED, CHECKED };

struct note {
	uint32_t kind, number, version, unused;
};

static void send_note(int pipe, enum note_kind kind, uint64_t number, uint32_t version)
{
	struct note note = {kind, (uint32_t)number, version, 0};

	/* In one piece, as it is shorter than PIPE_BUF. */
	expect(write(pipe, &note, sizeof(note)) == sizeof(note));
}

/* All numbers are as the model says. Where it leaves open whether the last write was made, the
 * parent is told. */
static void check_survivors(struct learner *learner, int pipe)
{
	for (uint64_t number = 0; number < KILL_KEYS; number++) {
		uint32_t first = versions[number].acknowledged, last = versions[number].begun;
		uint64_t value = ask(learner, number);
		uint32_t version = first;

		while (version < last &&
		       value != (is_deletion(version) ? 0 : (number << 32 | version)))
			version++;
		if (value != (is_deletion(version) ? 0 : (number << 32 | version)))
			ck_abort_msg("number %" PRIu64 " is %" PRIx64 ", expected version %" PRIu32
				     " to %" PRIu32, number, value, first, last);
		if (first != last)
			send_note(pipe, ACKNOWLEDGED, number, version);
		versions[number].acknowledged = versions[number].begun = version;
	}
	send_note(pipe, CHECKED, 0, 0);
}

static void write_next(struct learner *learner, rocksdb_writeoptions_t *writing, int pipe,
		       uint64_t number)
{
	uint32_t version = versions[number].begun + 1;
	uint64_t value = number << 32 | version;
	char key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(number, key);
	send_note(pipe, BEGUN, number, version);
	versions[number].begun = version;
	/* What was written without syncing is lost with the machine, not with the process. */
	rocksdb_writeoptions_set_sync(writing, version % 4 == 0);
	if (is_deletion(version))
		rocksdb_delete(learner->db.rocks, writing, key, sizeof(key), &error);
	else
		rocksdb_put(learner->db.rocks, writing, key, sizeof(key), (char *)&value,
			    sizeof(value), &error);
	expect_no(error);
	versions[number].acknowledged = version;
	send_note(pipe, ACKNOWLEDGED, number, version);
}

/* Until it is killed, or has nothing left to do. */
static void run_child(const char *path, const struct learner_store *store, int pipe, uint64_t seed,
		      bool only_check)
{
	struct learner learner = open_small(path, store);
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();

	check_survivors(&learner, pipe);
	for (unsigned i = 0; i < 20000 && !only_check; i++) {
		uint64_t number = test_random(&seed) % KILL_KEYS;

		if (number % 2 == 0)
			write_next(&learner, writing, pipe, number);
		else
			expect(ask(&learner, number) == 0);
		if (test_random(&seed) % 2000 == 0)
			learner_flush(&learner);
	}
	rocksdb_writeoptions_destroy(writing);
	learner_close(&learner);
	_exit(0);
}

static void take_note(const struct note *note, bool *checkedp)
{
	if (note->kind == CHECKED) {
		*checkedp = true;
		return;
	}
	expect(note->number < KILL_KEYS);
	versions[note->number].begun = note->version;
	if (note->kind == ACKNOWLEDGED)
		versions[note->number].acknowledged = note->version;
}

static int64_t now_in_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct victim {
	pid_t pid;
	int pipe;
	bool checked;
	uint64_t acknowledged;
};

static struct victim start_child(const char *path, const struct learner_store *store, uint64_t seed,
				 bool only_check)
{
	struct victim victim = {0};
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	victim.pid = fork();
	ck_assert_int_ge(victim.pid, 0);
	if (victim.pid == 0) {
		close(ends[0]);
		run_child(path, store, ends[1], seed, only_check);
	}
	close(ends[1]);
	victim.pipe = ends[0];
	return victim;
}

/* One note; false: it ended, or `deadline` (in ms; -1: none) is over. */
static bool receive(struct victim *victim, int64_t deadline)
{
	struct pollfd ready = {.fd = victim->pipe, .events = POLLIN};
	int64_t left = deadline < 0 ? -1 : deadline - now_in_ms();
	struct note note;
	ssize_t got;

	if (deadline >= 0 && (left <= 0 || poll(&ready, 1, (int)left) == 0))
		return false;
	got = read(victim->pipe, &note, sizeof(note));
	if (got == 0)
		return false;
	expect(got == sizeof(note));
	take_note(&note, &victim->checked);
	victim->acknowledged += note.kind == ACKNOWLEDGED && victim->checked;
	return true;
}

/* Read on to the end; true: it was killed, false: it had finished. */
static bool bury(struct victim *victim)
{
	int status;

	while (receive(victim, -1))
		;
	close(victim->pipe);
	ck_assert_int_eq(waitpid(victim->pid, &status, 0), victim->pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		ck_abort_msg("the child ended by itself, with status %d", status);
	return true;
}

/* Most are killed in the middle of their work, some already while they open and check. */
static void kill_somewhere(struct victim *victim, uint64_t *seed)
{
	bool early = test_random(seed) % 4 == 0;
	int64_t deadline = now_in_ms() + (int64_t)(test_random(seed) % 60);
	uint64_t enough = test_random(seed) % 400;

	if (early) {
		while (receive(victim, deadline))
			;
	} else {
		while ((!victim->checked || victim->acknowledged < enough) && receive(victim, -1))
			;
	}
	kill(victim->pid, SIGKILL);
}

/* Whatever is done to the directory's files is not done to the database's. */
static void expect_own_files(const char *directory)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;
	struct stat info;

	while (stream && (entry = readdir(stream))) {
		if (entry->d_name[0] == '.')
			continue;
		ck_assert_int_eq(fstatat(dirfd(stream), entry->d_name, &info, 0), 0);
		if (info.st_nlink != 1)
			ck_abort_msg("%s has %ju names", entry->d_name, (uintmax_t)info.st_nlink);
	}
	if (stream)
		closedir(stream);
}

START_TEST(no_acknowledged_key_is_lost_when_it_is_killed)
{
	const struct learner_store *store = &learner_stores[_i];
	int rounds = test_is_quick() ? 10 : 100;
	uint64_t seed = test_seed("kill", 90125), written = 0, checked = 0;
	struct victim victim;
	char path[TEST_PATH_SIZE], state[TEST_PATH_SIZE];

	test_join(path, test_path("killed"), "-", store->name);
	test_join(state, path, "", ".winnow");
	for (int round = 0; round < rounds; round++) {
		victim = start_child(path, store, test_random(&seed), false);
		kill_somewhere(&victim, &seed);
		bury(&victim);
		expect_own_files(state);
		written += victim.acknowledged;
		checked += victim.checked;
	}
	victim = start_child(path, store, 0, true);
	ck_assert(!bury(&victim));
	ck_assert(victim.checked);
	fprintf(stderr, "%s: %d rounds, %" PRIu64 " of them checked all keys, %" PRIu64
		" writes acknowledged\n", store->name, rounds, checked, written);
}
END_TEST

/* ---- killed, and what was learned ---------------------------------------- */

#define LESSON_KEYS 8000 /* even numbers below are keys */
#define LESSON_SLICE 1000 /* absent numbers that are asked for in one go */

static void set_still(rocksdb_options_t *options)
{
	rocksdb_options_set_disable_auto_compactions(options, 1);
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
}

static struct learner open_still(const char *path, const struct learner_store *store)
{
	struct wn_rocksdb_options options = learner_options(store);

	return learner_open(path, &plain, set_still, 1, &options);
}

/* Ask for the slice's absent numbers; how many false positives did it cost? */
static uint64_t ask_slice(struct learner *learner, uint64_t slice)
{
	uint64_t before = learner_stats(learner).false_positives;

	for (uint64_t i = 0; i < LESSON_SLICE; i++)
		expect(ask(learner, LESSON_KEYS + slice * LESSON_SLICE + i) == 0);
	wn_rocksdb_drain(learner->wn);
	return learner_stats(learner).false_positives - before;
}

/* Learn something new, and wait until something was saved. */
static void learn_and_save(struct learner *learner, uint64_t slice, uint64_t saves)
{
	ck_assert_uint_gt(ask_slice(learner, slice), 0);
	while (learner_stats(learner).saves <= saves)
		usleep(1000);
}

/* The first slices are known from before. Learns `known`, and two more: the first save that is
 * seen may have begun before, but the second one has everything. */
static void run_pupil(const char *path, const struct learner_store *store, int pipe,
		      uint64_t known)
{
	struct learner learner = open_still(path, store);
	uint64_t other = 1000 + 3 * known, saves;

	if (known == 0) {
		db_put(&learner.db, 0, LESSON_KEYS);
		learner_flush(&learner);
		wn_rocksdb_drain(learner.wn);
	}
	for (uint64_t slice = 0; slice < known; slice++)
		ck_assert_uint_eq(ask_slice(&learner, slice), 0);
	ck_assert_uint_gt(ask_slice(&learner, known), 0);
	saves = learner_stats(&learner).saves;
	learn_and_save(&learner, other, saves);
	learn_and_save(&learner, other + 1, saves + 1);
	send_note(pipe, CHECKED, 0, 0);
	for (uint64_t slice = 100000; slice < 110000; slice++)
		ask_slice(&learner, slice);
	_exit(0);
}

START_TEST(what_was_learned_and_saved_is_there_after_a_kill)
{
	const struct learner_store *store = &learner_stores[_i];
	uint64_t rounds = test_is_quick() ? 2 : 6, seed = test_seed("pupil", 1969);
	struct learner learner;
	char path[TEST_PATH_SIZE];

	test_join(path, test_path("pupil"), "-", store->name);
	for (uint64_t round = 0; round < rounds; round++) {
		struct victim victim = {0};
		int ends[2];

		ck_assert_int_eq(pipe(ends), 0);
		victim.pid = fork();
		if (victim.pid == 0)
			run_pupil(path, store, ends[1], round);
		close(ends[1]);
		victim.pipe = ends[0];
		while (!victim.checked && receive(&victim, -1))
			;
		usleep((useconds_t)(test_random(&seed) % 30000));
		kill(victim.pid, SIGKILL);
		bury(&victim);
		ck_assert(victim.checked);
	}
	learner = open_still(path, store);
	for (uint64_t slice = 0; slice < rounds; slice++)
		ck_assert_uint_eq(ask_slice(&learner, slice), 0);
	for (uint64_t number = 2; number < LESSON_KEYS; number++)
		expect(ask(&learner, number) == (number % 2 ? 0 : number));
	learner_close(&learner);
}
END_TEST

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
	ck_assert_uint_gt(learner_stats(&learner).runs_lost, 0);
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
	Suite *suite = suite_create("rocksdb_crash");
	TCase *tcase = tcase_create("crash");
	int result;

	test_make_top();
	tcase_add_loop_test(tcase, no_acknowledged_key_is_lost_when_it_is_killed, 0, 2);
	tcase_add_loop_test(tcase, what_was_learned_and_saved_is_there_after_a_kill, 0, 2);
	tcase_add_loop_test(tcase, a_full_disk_costs_no_acknowledged_key_and_no_right_answer, 0,
			    2 * LEARNER_STORES);
	tcase_add_test(tcase, a_sidecar_without_space_teaches_nothing_and_answers_right);
	/* The store in memory leaves nothing behind. */
	tcase_add_loop_test(tcase, damaged_state_costs_lessons_and_no_answer, 0,
			    (test_is_quick() ? 1 : 2) * DAMAGES);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
