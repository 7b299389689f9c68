/* test_rocksdb_handles.c - several handles, names and processes of one database: winnow touches
 * nothing that another of them has. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/rocksdb_learner.h"

static bool is_rocks_error(char *error, const char *words)
{
	bool same = error && strstr(error, words);

	fprintf(stderr, "%s\n", error ? error : "no error");
	rocksdb_free(error);
	return same;
}

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
	struct wn_stats before, after;
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
	ck_assert_uint_gt(after.key_lists, before.key_lists);
	ck_assert_uint_eq(after.key_lists_dropped, 0);
	ask_later_ones(&learner);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	lessons = learner_stats(&learner).lessons;
	ck_assert_uint_gt(lessons, after.lessons);
	ck_assert_uint_eq(learner_stats(&learner).reversemap_misses, 0);
	/* What would be left by a crash now. */
	copy = strdup(test_path("left"));
	ck_assert_int_ge(asprintf(&command, "rm -rf '%s' && cp -a '%s' '%s'", copy,
				  state_path(setup.name), copy), 0);
	ck_assert_int_eq(system(command), 0);
	learner_close(&learner);
	ck_assert_int_eq(nftw(state_path(setup.name), remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
	ck_assert_int_eq(rename(copy, state_path(setup.name)), 0);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(learner_stats(&learner).key_lists, after.key_lists);
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

int main(void)
{
	Suite *suite = suite_create("rocksdb_handles");
	TCase *tcase = tcase_create("harm");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, attaching_a_reader_takes_nothing_from_the_writer, 0, 4);
	tcase_add_loop_test(tcase, a_database_is_one_under_all_its_names, 0, 2);
	tcase_add_test(tcase, two_databases_cannot_have_one_directory);
	tcase_add_test(tcase, a_child_that_lives_on_does_not_keep_the_directory);
	tcase_add_test(tcase, an_open_database_is_not_uninstalled);
	tcase_add_loop_test(tcase, a_sync_without_a_directory_is_an_error, 0, 2);
	tcase_add_test(tcase, a_sync_that_cannot_write_is_an_error);
	result = test_run(suite);
	test_remove_top();
	return result;
}
