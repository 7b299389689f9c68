/* test_rocksdb_harm.c - what winnow must not do to the program around it: make lookups wait for
 * its disk, stay in memory when its database is closed, and touch what another database, another
 * handle or another process has. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/support/rocksdb_learner.h"

static const char *state_path(const char *name)
{
	static char path[8192 + 16];

	snprintf(path, sizeof(path), "%s.winnow", test_path(name));
	return path;
}

static bool is_rocks_error(char *error, const char *words)
{
	bool same = error && strstr(error, words);

	fprintf(stderr, "%s\n", error ? error : "no error");
	rocksdb_free(error);
	return same;
}

static size_t count_entries(const char *path)
{
	DIR *stream = opendir(path);
	size_t count = 0;

	ck_assert_ptr_nonnull(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count - 2;
}

/* ---- a slow disk -------------------------------------------------------- */

/* While this is set, a sync of one of winnow's files does not come back. */
static atomic_bool disk_is_stuck;
static atomic_uint stuck_syncs;

static bool is_winnows(int fd)
{
	char link[64], path[8192];
	ssize_t size;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, path, sizeof(path) - 1);
	if (size < 0)
		return false;
	path[size] = '\0';
	return strstr(path, ".winnow");
}

static int sync_when_free(int fd, long call)
{
	if (is_winnows(fd) && atomic_load(&disk_is_stuck)) {
		atomic_fetch_add(&stuck_syncs, 1);
		while (atomic_load(&disk_is_stuck))
			usleep(1000);
	}
	return (int)syscall(call, fd);
}

/* In place of the C library's, for the whole program. */
int fsync(int fd)
{
	return sync_when_free(fd, SYS_fsync);
}

int fdatasync(int fd)
{
	return sync_when_free(fd, SYS_fdatasync);
}

static void wait_until_stuck(void)
{
	while (atomic_load(&stuck_syncs) == 0)
		usleep(1000);
}

/* If one of them waits for the sync, this waits for ever, and Check ends it. */
START_TEST(nobody_waits_for_a_sync)
{
	static const struct db_setup setup = {.name = "slow_disk", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct wn_rocksdb_stats stats;
	struct learner learner;
	char *text;

	options.filter = "aqf:remainder_bits=2";
	options.save_ms = 1;
	learner = learner_fill(&setup, &options);
	atomic_store(&disk_is_stuck, true);
	for (uint64_t i = 0; i < 200; i++)
		expect(ask(&learner, 2 * i + 1) == 0);
	wait_until_stuck();
	/* More than it takes until the block cache is told. */
	for (uint64_t number = 401; number < numbers(); number += 2) {
		expect(ask(&learner, number) == 0);
		expect(ask(&learner, number + 1) == (number + 1 < numbers() ? number + 1 : 0));
		if (number % 100 == 1)
			stats = learner_stats(&learner);
	}
	ck_assert_uint_gt(stats.adaptations, 3000);
	text = wn_rocksdb_property(learner.wn, "winnow.stats");
	ck_assert_ptr_nonnull(text);
	free(text);
	atomic_store(&disk_is_stuck, false);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	learner_close(&learner);
}
END_TEST

/* ---- lookups that may not read ------------------------------------------ */

START_TEST(a_lookup_that_may_not_read_does_not_read_to_learn)
{
	static const struct db_setup setup = {.name = "tier", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	struct wn_rocksdb_stats before, after;

	/* Blocks of all false positives are in the cache then, and nothing is learned. */
	for (uint64_t i = 0; i < absent_count(); i++)
		expect(!db_has(&learner.db, absent(i)));
	before = learner_stats(&learner);
	rocksdb_readoptions_set_read_tier(learner.db.reading, 1);
	ask_absent(&learner);
	after = learner_stats(&learner);
	ck_assert_uint_eq(after.map_reads, before.map_reads);
	ck_assert_uint_eq(after.lookups_discarded, after.lookups);
	rocksdb_readoptions_set_read_tier(learner.db.reading, 0);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	learner_close(&learner);
}
END_TEST

/* ---- closed databases --------------------------------------------------- */

struct footprint {
	size_t bytes, threads, descriptors;
};

static struct footprint measure(void)
{
	struct mallinfo2 info = mallinfo2();

	return (struct footprint){
		.bytes = info.uordblks + info.hblkhd,
		.threads = count_entries("/proc/self/task"),
		.descriptors = count_entries("/proc/self/fd"),
	};
}

/* As measure. A thread that was joined may stand in /proc for a moment longer: wait for it. One
 * that leaks stays, and there would be one a cycle. */
static struct footprint measure_settled(const struct footprint *before)
{
	struct footprint now = measure();

	for (int i = 0; i < 60000 && now.threads > before->threads; i++) {
		usleep(1000);
		now = measure();
	}
	return now;
}

/* Readers of a closed database lie on in a cache that others use. */
START_TEST(a_closed_database_leaves_the_memory)
{
	struct db_setup setups[] = {
		{.name = "first", .cached_filters = true, .no_compaction = true},
		{.name = "second", .cached_filters = true, .no_compaction = true},
	};
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(8 << 20);
	struct wn_rocksdb_options options = quickly();
	const unsigned cycles = test_is_quick() ? 100 : 1000;
	struct footprint before = {0}, after;

	for (int i = 0; i < 2; i++) {
		struct learner learner;

		setups[i].cache = cache;
		learner = learner_fill(&setups[i], &options);
		ask_absent(&learner);
		learner_close(&learner);
	}
	for (unsigned cycle = 0; cycle < cycles; cycle++) {
		for (int i = 0; i < 2; i++) {
			struct learner learner = learner_open(&setups[i], &options);

			for (uint64_t at = 0; at < 20; at++)
				expect(ask(&learner, absent(at)) == 0);
			learner_close(&learner);
		}
		/* Until then the cache fills, and what the libraries keep for themselves. */
		if (cycle == cycles / 4)
			before = measure();
	}
	after = measure_settled(&before);
	fprintf(stderr, "%u cycles: %zu to %zu bytes, %zu threads, %zu descriptors\n", 2 * cycles,
		before.bytes, after.bytes, after.threads, after.descriptors);
	ck_assert_uint_lt(after.bytes, before.bytes + (1 << 20));
	ck_assert_uint_le(after.threads, before.threads);
	ck_assert_uint_le(after.descriptors, before.descriptors);
	rocksdb_cache_destroy(cache);
}
END_TEST

/* As many databases as there are cycles: nothing of theirs is shared. */
START_TEST(a_reader_keeps_little_of_its_database)
{
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(8 << 20);
	struct wn_rocksdb_options options = quickly();
	const unsigned databases = test_is_quick() ? 40 : 160;
	rocksdb_options_t *rocks = rocksdb_options_create();
	struct footprint before = {0}, after;

	options.store = WN_ROCKSDB_MEMORY;
	for (unsigned i = 0; i < databases; i++) {
		char name[32];
		struct db_setup setup = {.name = name, .cached_filters = true, .cache = cache};
		struct learner learner;
		char *error = NULL;

		snprintf(name, sizeof(name), "many%u", i);
		learner = learner_open(&setup, &options);
		db_put(&learner.db, 0, 2000);
		db_flush(&learner.db);
		for (uint64_t at = 0; at < 20; at++)
			expect(ask(&learner, 2 * at + 1) == 0);
		learner_close(&learner);
		rocksdb_destroy_db(rocks, test_path(name), &error);
		expect_no(error);
		if (i == databases / 4)
			before = measure();
	}
	after = measure();
	fprintf(stderr, "%u databases: %zu to %zu bytes, %zu in the cache\n", databases,
		before.bytes, after.bytes, rocksdb_cache_get_usage(cache));
	/* The filters themselves, and some kilobytes for each. */
	ck_assert_uint_lt(after.bytes, before.bytes + databases * (size_t)(32 << 10));
	rocksdb_options_destroy(rocks);
	rocksdb_cache_destroy(cache);
}
END_TEST

START_TEST(options_that_are_prepared_again_do_not_grow)
{
	rocksdb_options_t *rocks = rocksdb_options_create();
	struct footprint before = {0}, after;

	for (unsigned i = 0; i < 400; i++) {
		struct wn_rocksdb *wn;
		char *error = NULL;

		wn_rocksdb_create(test_path("prepared"), NULL, &wn, &error);
		expect_no(error);
		wn_rocksdb_prepare(wn, rocks, &error);
		expect_no(error);
		wn_rocksdb_detach(wn);
		if (i == 100)
			before = measure();
	}
	after = measure();
	fprintf(stderr, "%zu to %zu bytes\n", before.bytes, after.bytes);
	ck_assert_uint_lt(after.bytes, before.bytes + (256 << 10));
	rocksdb_options_destroy(rocks);
}
END_TEST

/* ---- other databases ---------------------------------------------------- */

static void compact_twice(rocksdb_t *rocks)
{
	struct db db = {.rocks = rocks};

	for (int round = 0; round < 2; round++) {
		db_put(&db, 0, numbers());
		db_flush(&db);
		db_compact(&db);
	}
}

/* Options prepared for one database, with which two are opened (0); or for one after the other,
 * and each then opened (1). */
START_TEST(a_database_does_not_retire_anothers_tables)
{
	static const struct db_setup setup = {.no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner first = {.db.options = rocksdb_options_create()};
	struct wn_rocksdb *second = NULL;
	struct wn_rocksdb_stats before, after;
	rocksdb_t *other;
	char *error = NULL;

	options.store = WN_ROCKSDB_SIDECAR;
	db_set_options(&first.db, &setup);
	first.db.reading = rocksdb_readoptions_create();
	wn_rocksdb_create(test_path("own"), &options, &first.wn, &error);
	wn_rocksdb_prepare(first.wn, first.db.options, &error);
	first.db.rocks = rocksdb_open(first.db.options, test_path("own"), &error);
	wn_rocksdb_attach(first.wn, first.db.rocks, NULL, &error);
	expect_no(error);
	db_put(&first.db, 0, numbers());
	db_flush(&first.db);
	wn_rocksdb_drain(first.wn);
	ck_assert_uint_gt(ask_absent(&first), 0);
	before = learner_stats(&first);
	ck_assert_uint_gt(before.map_runs, 0);
	if (_i) {
		wn_rocksdb_create(test_path("other"), &options, &second, &error);
		wn_rocksdb_prepare(second, first.db.options, &error);
	}
	other = rocksdb_open(first.db.options, test_path("other"), &error);
	if (_i)
		wn_rocksdb_attach(second, other, NULL, &error);
	expect_no(error);
	compact_twice(other);
	wn_rocksdb_drain(first.wn);
	after = learner_stats(&first);
	/* Neither taken away nor added. */
	ck_assert_uint_eq(after.map_runs, before.map_runs);
	ck_assert_uint_eq(after.lessons, before.lessons);
	ck_assert_uint_eq(after.runs_retired, before.runs_retired);
	ck_assert_uint_eq(ask_absent(&first), 0);
	expect_stored(&first);
	if (_i)
		wn_rocksdb_detach(second);
	rocksdb_close(other);
	wn_rocksdb_detach(first.wn);
	rocksdb_close(first.db.rocks);
	rocksdb_readoptions_destroy(first.db.reading);
	rocksdb_options_destroy(first.db.options);
}
END_TEST

/* ---- other handles of the same database --------------------------------- */

enum { READ_ONLY, SECONDARY };

/* Numbers that are not stored, and are asked for later than the others. */
static void ask_later_ones(struct learner *learner)
{
	for (uint64_t number = numbers() + 1; number < 2 * numbers(); number += 20)
		expect(ask(learner, number) == 0);
}

/* Open a reader, do `between`, attach it and ask. */
static void attach_reader(int kind, const char *name, const struct wn_rocksdb_options *options,
			  void (*between)(void *arg), void *arg)
{
	static const struct db_setup setup = {.no_compaction = true};
	struct learner reader = {.db.options = rocksdb_options_create()};
	char *path = strdup(test_path(name)), *error = NULL;

	db_set_options(&reader.db, &setup);
	rocksdb_options_set_max_open_files(reader.db.options, -1);
	reader.db.reading = rocksdb_readoptions_create();
	wn_rocksdb_create(path, options, &reader.wn, &error);
	wn_rocksdb_prepare(reader.wn, reader.db.options, &error);
	if (kind == SECONDARY)
		reader.db.rocks = rocksdb_open_as_secondary(reader.db.options, path,
							    test_path("follower"), &error);
	else
		reader.db.rocks = rocksdb_open_for_read_only(reader.db.options, path, 0, &error);
	expect_no(error);
	between(arg);
	wn_rocksdb_attach(reader.wn, reader.db.rocks, NULL, &error);
	expect_no(error);
	expect_stored(&reader);
	/* What the other one had learned by then helps. */
	ck_assert_uint_eq(ask_absent(&reader), 0);
	wn_rocksdb_detach(reader.wn);
	rocksdb_close(reader.db.rocks);
	rocksdb_readoptions_destroy(reader.db.reading);
	rocksdb_options_destroy(reader.db.options);
	free(path);
}

/* The writer goes on: a table that the reader does not know, and lessons. */
static void write_on(void *learner)
{
	db_put(&((struct learner *)learner)->db, 4 * numbers(), 5 * numbers());
	db_flush(&((struct learner *)learner)->db);
	wn_rocksdb_drain(((struct learner *)learner)->wn);
	ask_absent(learner);
	ck_assert_int_eq(wn_rocksdb_sync(((struct learner *)learner)->wn), 0);
}

/* A process that opens and attaches a reader when it is told to. It is made before there is any
 * RocksDB in this one, whose threads would not be there after a fork. */
struct other_process {
	pid_t id;
	int to, from;
};

static void say(int fd)
{
	ck_assert_int_eq(write(fd, "", 1), 1);
}

static void hear(int fd)
{
	char word;

	ck_assert_int_eq(read(fd, &word, 1), 1);
}

static void say_and_hear(void *ends)
{
	say(((int *)ends)[1]);
	hear(((int *)ends)[0]);
}

static struct other_process start_process(int kind, const char *name,
					  const struct wn_rocksdb_options *options)
{
	struct other_process process;
	int to[2], from[2];

	ck_assert_int_eq(pipe(to), 0);
	ck_assert_int_eq(pipe(from), 0);
	process = (struct other_process){fork(), to[1], from[0]};
	ck_assert_int_ge(process.id, 0);
	if (process.id == 0) {
		int ends[] = {to[0], from[1]};

		close(to[1]);
		hear(to[0]);
		attach_reader(kind, name, options, say_and_hear, ends);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	return process;
}

static void run_process(struct other_process *process, void (*between)(void *arg), void *arg)
{
	int status;

	say(process->to);
	hear(process->from);
	between(arg);
	say(process->to);
	ck_assert_int_eq(waitpid(process->id, &status, 0), process->id);
	ck_assert_int_eq(status, 0);
}

START_TEST(attaching_a_reader_takes_nothing_from_the_writer)
{
	static const char *const names[] = {"read", "followed", "read_beside", "followed_beside"};
	struct db_setup setup = {.name = names[_i], .no_compaction = true};
	const int kind = _i % 2 ? SECONDARY : READ_ONLY;
	struct wn_rocksdb_options options = quickly();
	struct wn_rocksdb_stats before, after;
	struct other_process process;
	struct learner learner;
	uint64_t lessons;
	char *copy, *command;

	options.store = WN_ROCKSDB_SIDECAR;
	process = start_process(kind, setup.name, &options);
	learner = learner_fill(&setup, &options);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	before = learner_stats(&learner);
	if (_i < 2)
		attach_reader(kind, setup.name, &options, write_on, &learner);
	else
		run_process(&process, write_on, &learner);
	after = learner_stats(&learner);
	ck_assert_uint_gt(after.map_runs, before.map_runs);
	ck_assert_uint_eq(after.runs_retired, 0);
	ask_later_ones(&learner);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	lessons = learner_stats(&learner).lessons;
	ck_assert_uint_gt(lessons, after.lessons);
	ck_assert_uint_eq(learner_stats(&learner).map_misses, 0);
	/* What would be left by a crash now. */
	copy = strdup(test_path("left"));
	ck_assert_int_ge(asprintf(&command, "rm -rf '%s' && cp -a '%s' '%s'", copy,
				  state_path(setup.name), copy), 0);
	ck_assert_int_eq(system(command), 0);
	learner_close(&learner);
	ck_assert_int_eq(nftw(state_path(setup.name), remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
	ck_assert_int_eq(rename(copy, state_path(setup.name)), 0);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(learner_stats(&learner).map_runs, after.map_runs);
	ck_assert_uint_eq(learner_stats(&learner).lessons, lessons);
	learner_close(&learner);
	free(command);
	free(copy);
}
END_TEST

/* ---- other names of the same database ----------------------------------- */

/* RocksDB itself lets one process have "db" and "./db" open at once. */
START_TEST(a_database_is_one_under_all_its_names)
{
	struct db_setup setup = {.name = "named", .no_compaction = true, .cached_filters = true};
	struct db_setup spelled = setup;
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	struct wn_rocksdb *again;
	char *error = NULL;

	setup.cache = rocksdb_cache_create_lru(64 << 20);
	spelled.cache = setup.cache;
	spelled.name = _i ? "./named/" : "named/../named";
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	ck_assert_ptr_null(wn_rocksdb_open(learner.db.options, test_path(spelled.name), &options,
					   &again, &error));
	ck_assert_ptr_null(again);
	ck_assert(is_rocks_error(error, "in use"));
	learner_close(&learner);
	/* Readers of before are still in the cache, and must see what is learned from now on. */
	learner = learner_open(&spelled, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	ask_later_ones(&learner);
	ask_later_ones(&learner);
	ck_assert_uint_eq(learner_stats(&learner).repeated_false_positives, 0);
	expect_stored(&learner);
	learner_close(&learner);
	rocksdb_cache_destroy(setup.cache);
}
END_TEST

/* ---- the directory ------------------------------------------------------ */

START_TEST(two_databases_cannot_have_one_directory)
{
	struct db_setup setup = {.name = "tenant", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	struct wn_rocksdb *other;
	uint64_t lessons;
	char *directory = strdup(test_path("shared")), *error = NULL;

	options.sidecar_directory = directory;
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	lessons = learner_stats(&learner).lessons;
	ck_assert_ptr_null(wn_rocksdb_open(learner.db.options, test_path("lodger"), &options,
					   &other, &error));
	ck_assert(is_rocks_error(error, "in use"));
	error = NULL;
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(learner_stats(&learner).lessons, lessons);
	learner_close(&learner);
	free(directory);
}
END_TEST

/* A process that forks and dies, and one that it leaves behind. */
START_TEST(a_child_that_lives_on_does_not_keep_the_directory)
{
	struct db_setup setup = {.name = "parent", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	int ready[2], over[2], status;
	struct learner learner;
	pid_t parent;
	char word;

	options.store = WN_ROCKSDB_SIDECAR;
	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(over), 0);
	parent = fork();
	ck_assert_int_ge(parent, 0);
	if (parent == 0) {
		learner = learner_fill(&setup, &options);
		ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
		if (fork() == 0) {
			close(over[1]);
			say(ready[1]);
			/* Until the test is over. */
			while (read(over[0], &word, 1) > 0)
				;
			_exit(0);
		}
		hear(ready[0]);
		raise(SIGKILL);
	}
	ck_assert_int_eq(waitpid(parent, &status, 0), parent);
	ck_assert(WIFSIGNALED(status));
	learner = learner_open(&setup, &options);
	ask_absent(&learner);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	learner_close(&learner);
	close(over[1]);
}
END_TEST

START_TEST(an_open_database_is_not_uninstalled)
{
	struct db_setup setup = {.name = "busy", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	char *error = NULL;

	options.store = WN_ROCKSDB_SIDECAR;
	learner = learner_fill(&setup, &options);
	wn_rocksdb_uninstall(test_path(setup.name), &error);
	ck_assert(is_rocks_error(error, "in use"));
	ask_absent(&learner);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	learner_close(&learner);
}
END_TEST

/* 0: it is removed; 1: another one is in its place. */
START_TEST(a_sync_without_a_directory_is_an_error)
{
	struct db_setup setup = {.name = _i ? "replaced" : "removed", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);

	ask_absent(&learner);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	ck_assert_int_eq(nftw(state_path(setup.name), remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
	if (_i)
		ck_assert_int_eq(mkdir(state_path(setup.name), 0700), 0);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), ENOENT);
	ask_later_ones(&learner);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), ENOENT);
	ck_assert_uint_ge(learner_stats(&learner).save_failures, 2);
	expect_stored(&learner);
	learner_close(&learner);
	/* Nothing was put where something else is now. */
	if (_i)
		ck_assert_uint_eq(count_entries(state_path(setup.name)), 0);
	learner = learner_open(&setup, &options);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* Damage costs lessons and no answer; but nobody is told that they were saved. */
START_TEST(a_sync_that_cannot_write_is_an_error)
{
	struct db_setup setup = {.name = "unwritten", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	char path[8300];

	ck_assert_int_eq(mkdir(state_path(setup.name), 0700), 0);
	snprintf(path, sizeof(path), "%s/journal", state_path(setup.name));
	ck_assert_int_eq(mkdir(path, 0700), 0);
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	ck_assert_int_ne(wn_rocksdb_sync(learner.wn), 0);
	ck_assert_uint_gt(learner_stats(&learner).save_failures, 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* ---- tables that are not the database's --------------------------------- */

START_TEST(tables_of_a_writer_leave_no_runs)
{
	struct db_setup setup = {.name = "writer", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	rocksdb_options_t *rocks = rocksdb_options_create();
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	uint64_t map = learner_stats(&learner).map_runs;
	char *path = strdup(test_path("written.sst")), *error = NULL;

	wn_rocksdb_prepare(learner.wn, rocks, &error);
	expect_no(error);
	for (unsigned i = 0; i < 20; i++) {
		rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env, rocks);

		rocksdb_sstfilewriter_open(writer, path, &error);
		rocksdb_sstfilewriter_put(writer, "key", 3, "value", 5, &error);
		rocksdb_sstfilewriter_finish(writer, &error);
		expect_no(error);
		rocksdb_sstfilewriter_destroy(writer);
		ck_assert_int_eq(unlink(path), 0);
	}
	wn_rocksdb_drain(learner.wn);
	ck_assert_uint_eq(learner_stats(&learner).map_runs, map);
	learner_close(&learner);
	rocksdb_envoptions_destroy(env);
	rocksdb_options_destroy(rocks);
	free(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_harm");
	TCase *tcase = tcase_create("harm");
	int result;

	test_make_top();
	tcase_add_test(tcase, nobody_waits_for_a_sync);
	tcase_add_test(tcase, a_lookup_that_may_not_read_does_not_read_to_learn);
	tcase_add_test(tcase, a_closed_database_leaves_the_memory);
	tcase_add_test(tcase, a_reader_keeps_little_of_its_database);
	tcase_add_test(tcase, options_that_are_prepared_again_do_not_grow);
	tcase_add_loop_test(tcase, a_database_does_not_retire_anothers_tables, 0, 2);
	tcase_add_loop_test(tcase, attaching_a_reader_takes_nothing_from_the_writer, 0, 4);
	tcase_add_loop_test(tcase, a_database_is_one_under_all_its_names, 0, 2);
	tcase_add_test(tcase, two_databases_cannot_have_one_directory);
	tcase_add_test(tcase, a_child_that_lives_on_does_not_keep_the_directory);
	tcase_add_test(tcase, an_open_database_is_not_uninstalled);
	tcase_add_loop_test(tcase, a_sync_without_a_directory_is_an_error, 0, 2);
	tcase_add_test(tcase, a_sync_that_cannot_write_is_an_error);
	tcase_add_test(tcase, tables_of_a_writer_leave_no_runs);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
