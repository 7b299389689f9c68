/* test_rocksdb_crash.c - databases that learn, killed.
 *
 * A child process writes and tells its parent through a pipe what it is about to write and what
 * was acknowledged; then it is killed, at any moment. Its successor looks whether everything is
 * there. The parent itself never opens a database: RocksDB's threads do not survive fork(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw(), unshare() */
#endif
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/rocksdb_small.h"

static struct learner open_small(const char *path, const struct learner_store *store)
{
	struct wn_rocksdb_options options = learner_options(store);

	return learner_open(path, &plain, set_small, 1, &options);
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

/* ---- killed, and what was learned --------------------------------------- */

#define LESSON_KEYS 8000 /* even numbers below are keys */
#define LESSON_SLICE 1000 /* absent numbers that are asked for in one go */

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

int main(void)
{
	Suite *suite = suite_create("rocksdb_crash");
	TCase *tcase = tcase_create("crash");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, no_acknowledged_key_is_lost_when_it_is_killed, 0, 2);
	tcase_add_loop_test(tcase, what_was_learned_and_saved_is_there_after_a_kill, 0, 2);
	result = test_run(suite);
	test_remove_top();
	return result;
}
