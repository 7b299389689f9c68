/* test_journal.c - what was learned, from one opening of a database to the next. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/frozen.h"
#include "learn/saved/journal.h"

static char directory[256];
static char path[512];

static const char *path_of(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void make_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/winnow-saved-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void remove_directory(void)
{
	static const char *const names[] = {"lessons",     "negatives",     "journal",
					    "lessons.new", "negatives.new", "secret"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(path_of(names[i]));
	rmdir(directory);
}

static off_t size_of(const char *name)
{
	struct stat info;

	return stat(path_of(name), &info) == 0 ? info.st_size : -1;
}

/* ---- a state, in memory and on disk ------------------------------------- */

struct state {
	struct frozen_filter *frozen; /* borrowed */
	struct wn__registry *registry;
	struct wn__negatives *negatives;
	struct wn__lessons *lessons;
	struct wn__journal *saved;
};

static int open_journal(const char *where, struct wn__registry *registry,
			struct wn__negatives *negatives, struct wn__journal **journalp)
{
	struct wn__journal_state saved = {.registry = registry, .negatives = negatives};

	return wn__journal_open(where, &saved, journalp);
}

static void load_journal(const char *where, struct wn__registry *registry,
			 struct wn__negatives *negatives)
{
	struct wn__journal_state saved = {.registry = registry, .negatives = negatives};

	wn__journal_load(where, &saved);
}

static struct state state_create(struct frozen_filter *frozen)
{
	struct state state = {.frozen = frozen};

	ck_assert_int_eq(wn__registry_create(0, &state.registry), 0);
	ck_assert_int_eq(wn__negatives_create(NULL, wn_secret_seed(frozen->secret),
					      &state.negatives), 0);
	ck_assert_int_eq(wn__filter_lessons(state.registry, frozen->filter, &state.lessons), 0);
	return state;
}

static struct state state_open(struct frozen_filter *frozen)
{
	struct state state = state_create(frozen);

	ck_assert_int_eq(open_journal(directory, state.registry, state.negatives, &state.saved),
			 0);
	return state;
}

static void state_free(struct state *state)
{
	wn__lessons_release(state->lessons);
	wn__registry_destroy(state->registry);
	wn__negatives_destroy(state->negatives);
}

static void state_close(struct state *state)
{
	wn__journal_close(state->saved);
	state_free(state);
}

/* Where a leak checker finds them. */
static struct wn__journal *left_behind[4096];
static size_t crashes;

/* The process is gone: nothing more is written. What it held open is the test's loss. */
static void state_crash(struct state *state)
{
	left_behind[crashes++] = state->saved;
	state_free(state);
}

static void learn(struct state *state, uint64_t *random, struct wn_hash *queries, size_t count)
{
	uint32_t secret_id = wn_secret_id(state->frozen->secret);

	for (size_t i = 0; i < count; i++) {
		queries[i] = frozen_false_positive(state->frozen, random);
		frozen_teach(state->frozen, state->lessons, queries[i]);
		ck_assert_int_eq(wn__negatives_add(state->negatives, secret_id, queries[i], 1), 0);
	}
}

static size_t count_refuted(const struct state *state, const struct wn_hash *queries, size_t count)
{
	size_t refuted = 0;

	for (size_t i = 0; i < count; i++)
		refuted += !wn__filter_query_learned(state->frozen->filter, state->lessons,
						     queries[i], NULL);
	return refuted;
}

static uint64_t count_negatives(const struct state *state)
{
	struct wn__negatives_stats stats;

	wn__negatives_describe(state->negatives, &stats);
	return stats.count;
}

static struct frozen_filter make_filter(uint64_t *random)
{
	return frozen_make(2000, 4, random, NULL, 0);
}

/* ---- tests -------------------------------------------------------------- */

#define QUERIES 60

START_TEST(what_was_synced_survives_a_crash)
{
	uint64_t random = test_seed("saved", 1);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash queries[QUERIES], later[QUERIES];
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, queries, QUERIES);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	learn(&state, &random, later, QUERIES);
	state_crash(&state);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, queries, QUERIES), QUERIES);
	ck_assert_uint_lt(count_refuted(&state, later, QUERIES), QUERIES);
	ck_assert_uint_eq(count_negatives(&state), QUERIES);
	frozen_expect_all_keys(&frozen, state.lessons);
	state_close(&state);
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(a_close_saves_everything_in_two_files)
{
	uint64_t random = test_seed("saved", 2);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash queries[QUERIES];
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, queries, QUERIES);
	state_close(&state);
	ck_assert_int_eq(size_of("journal"), 0);
	ck_assert_int_gt(size_of("lessons"), 0);
	ck_assert_int_gt(size_of("negatives"), 0);
	for (int round = 0; round < 3; round++) {
		state = state_open(&frozen);
		ck_assert_uint_eq(count_refuted(&state, queries, QUERIES), QUERIES);
		ck_assert_uint_eq(count_negatives(&state), QUERIES);
		state_close(&state);
	}
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(a_sync_writes_only_what_is_new)
{
	uint64_t random = test_seed("saved", 3);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash queries[QUERIES], one;
	struct wn__journal_stats stats;
	struct state state;
	off_t before;

	make_directory();
	state = state_open(&frozen);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	ck_assert_int_eq(size_of("journal"), 0);
	learn(&state, &random, queries, QUERIES);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	before = size_of("journal");
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	ck_assert_int_eq(size_of("journal"), before);
	learn(&state, &random, &one, 1);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	ck_assert_int_gt(size_of("journal"), before);
	ck_assert_int_lt(size_of("journal") - before, before / 2);
	wn__journal_describe(state.saved, &stats);
	ck_assert_uint_eq(stats.syncs, 2);
	ck_assert_uint_eq(stats.failures + stats.damaged, 0);
	state_close(&state);
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

/* A crash in the middle of a write, wherever that is; and then life goes on. */
START_TEST(a_journal_cut_anywhere_keeps_what_is_before)
{
	uint64_t random = test_seed("saved", 4);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash first[5], second[5], third[5];
	struct state state;
	off_t half, all;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, first, 5);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	half = size_of("journal");
	learn(&state, &random, second, 5);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	all = size_of("journal");
	state_crash(&state);
	for (off_t length = all - 1; length >= half; length--) {
		ck_assert_int_eq(truncate(path_of("journal"), length), 0);
		state = state_open(&frozen);
		expect(count_refuted(&state, first, 5) == 5);
		frozen_expect_all_keys(&frozen, state.lessons);
		state_crash(&state);
	}
	state = state_open(&frozen);
	learn(&state, &random, third, 5);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	state_crash(&state);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, first, 5), 5);
	ck_assert_uint_eq(count_refuted(&state, third, 5), 5);
	state_close(&state);
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

static void flip_byte(const char *name, off_t at)
{
	int fd = open(path_of(name), O_RDWR);
	unsigned char byte;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

START_TEST(damage_costs_lessons_and_never_a_key)
{
	static const char *const names[] = {"lessons", "negatives", "journal"};
	uint64_t random = test_seed("saved", 5);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash queries[10], more[10];
	struct wn__journal_stats stats;
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, queries, 10);
	state_close(&state);
	state = state_open(&frozen);
	learn(&state, &random, more, 10);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	state_crash(&state);
	for (off_t at = 0; at < size_of(names[_i]); at++) {
		struct state loaded = state_create(&frozen);

		flip_byte(names[_i], at);
		load_journal(directory, loaded.registry, loaded.negatives);
		frozen_expect_all_keys(&frozen, loaded.lessons);
		if (_i != 0)
			expect(count_refuted(&loaded, queries, 10) == 10);
		state_free(&loaded);
		flip_byte(names[_i], at);
	}
	flip_byte(names[_i], 3);
	state = state_open(&frozen);
	wn__journal_describe(state.saved, &stats);
	ck_assert_uint_eq(stats.damaged, 1);
	state_close(&state);
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(a_long_journal_is_merged)
{
	uint64_t random = test_seed("saved", 6);
	struct frozen_filter frozen = frozen_make(100000, 4, &random, NULL, 0);
	size_t count = 5000;
	struct wn_hash *queries = calloc(16 * count, sizeof(*queries));
	struct state state;
	off_t longest = 0;
	unsigned round = 0;

	make_directory();
	state = state_open(&frozen);
	do {
		longest = size_of("journal");
		ck_assert_uint_lt(round, 16);
		learn(&state, &random, queries + round++ * count, count);
		ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	} while (size_of("journal") > longest);
	ck_assert_int_eq(size_of("journal"), 0);
	ck_assert_int_gt(longest, 1 << 19);
	state_crash(&state);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, queries, round * count), round * count);
	frozen_expect_all_keys(&frozen, state.lessons);
	state_close(&state);
	remove_directory();
	free(queries);
	frozen_destroy(&frozen);
}
END_TEST

/* More than a list of changes holds, at once. */
START_TEST(changes_that_were_not_listed_are_saved_all_the_same)
{
	uint64_t random = test_seed("saved", 7);
	struct frozen_filter frozen = frozen_make(200000, 3, &random, NULL, 0);
	size_t count = WN__REGISTRY_MAX_CHANGES + 5000;
	struct wn_hash *queries = calloc(count, sizeof(*queries));
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, queries, count);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	state_crash(&state);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, queries, count), count);
	state_close(&state);
	remove_directory();
	free(queries);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(a_full_disk_is_counted_and_made_good_later)
{
	uint64_t random = test_seed("saved", 8);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash first[5], second[QUERIES];
	struct rlimit limit, small;
	struct wn__journal_stats stats;
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, first, 5);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = (rlim_t)size_of("journal") + 50;
	learn(&state, &random, second, QUERIES);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_ne(wn__journal_sync(state.saved), 0);
	ck_assert_int_ne(wn__journal_sync(state.saved), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	wn__journal_describe(state.saved, &stats);
	ck_assert_uint_eq(stats.failures, 2);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	state_crash(&state);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, first, 5), 5);
	ck_assert_uint_eq(count_refuted(&state, second, QUERIES), QUERIES);
	state_close(&state);
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(a_directory_that_cannot_be_written_is_said)
{
	uint64_t random = test_seed("saved", 9);
	struct frozen_filter frozen = make_filter(&random);
	struct state state = state_create(&frozen);

	ck_assert_int_ne(
		open_journal("/proc/self/none", state.registry, state.negatives, &state.saved), 0);
	ck_assert_ptr_null(state.saved);
	make_directory();
	ck_assert_int_eq(mkdir(path_of("journal"), 0700), 0);
	ck_assert_int_ne(open_journal(directory, state.registry, state.negatives, &state.saved),
			 0);
	state_free(&state);
	rmdir(path_of("journal"));
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

/* Somebody else's file, under a name of ours as well. */
static void link_foreign(const char *name, const char *bytes)
{
	char foreign[300];
	int fd;

	snprintf(foreign, sizeof(foreign), "%s.foreign", directory);
	fd = open(foreign, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
	close(fd);
	remove(path_of(name));
	ck_assert_int_eq(link(foreign, path_of(name)), 0);
	ck_assert_int_eq(rename(foreign, path_of("secret")), 0);
}

static void expect_foreign(const char *bytes)
{
	char read_back[64] = "";
	int fd = open(path_of("secret"), O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, read_back, sizeof(read_back)), (ssize_t)strlen(bytes));
	ck_assert_str_eq(read_back, bytes);
	close(fd);
}

START_TEST(a_file_with_a_second_name_is_not_written_to)
{
	static const char *const names[] = {"lessons.new", "negatives.new", "journal"};
	uint64_t random = test_seed("saved", 10);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash queries[QUERIES];
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, queries, QUERIES);
	state_close(&state);
	for (size_t i = 0; i < 3; i++) {
		link_foreign(names[i], "somebody else's");
		state = state_create(&frozen);
		ck_assert_int_eq(
			open_journal(directory, state.registry, state.negatives, &state.saved), 0);
		learn(&state, &random, queries, QUERIES);
		ck_assert_int_eq(wn__journal_sync(state.saved), 0);
		state_close(&state);
		expect_foreign("somebody else's");
		remove(path_of("secret"));
	}
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

/* As "cp -al" makes it: both have the same files until one of them writes. */
START_TEST(a_copy_made_of_links_keeps_what_it_had)
{
	uint64_t random = test_seed("saved", 11);
	struct frozen_filter frozen = make_filter(&random);
	struct wn_hash first[QUERIES], second[QUERIES];
	char command[2048], copied[512], own[512];
	struct state state;

	make_directory();
	state = state_open(&frozen);
	learn(&state, &random, first, QUERIES);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	state_crash(&state);
	snprintf(own, sizeof(own), "%s", directory);
	snprintf(copied, sizeof(copied), "%s.copy", directory);
	snprintf(command, sizeof(command), "cp -al '%s' '%s'", own, copied);
	ck_assert_int_eq(system(command), 0);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, first, QUERIES), QUERIES);
	learn(&state, &random, second, QUERIES);
	ck_assert_int_eq(wn__journal_sync(state.saved), 0);
	state_crash(&state);
	/* The original has both, the copy what was there when it was made. */
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, first, QUERIES), QUERIES);
	ck_assert_uint_eq(count_refuted(&state, second, QUERIES), QUERIES);
	state_close(&state);
	snprintf(command, sizeof(command), "rm -rf '%s' && mv '%s' '%s'", own, copied, own);
	ck_assert_int_eq(system(command), 0);
	state = state_open(&frozen);
	ck_assert_uint_eq(count_refuted(&state, first, QUERIES), QUERIES);
	ck_assert_uint_lt(count_refuted(&state, second, QUERIES), QUERIES);
	state_close(&state);
	remove_directory();
	frozen_destroy(&frozen);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("saved");
	TCase *tests = tcase_create("saved");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, what_was_synced_survives_a_crash);
	tcase_add_test(tests, a_close_saves_everything_in_two_files);
	tcase_add_test(tests, a_sync_writes_only_what_is_new);
	tcase_add_test(tests, a_journal_cut_anywhere_keeps_what_is_before);
	tcase_add_loop_test(tests, damage_costs_lessons_and_never_a_key, 0, 3);
	tcase_add_test(tests, a_long_journal_is_merged);
	tcase_add_test(tests, changes_that_were_not_listed_are_saved_all_the_same);
	tcase_add_test(tests, a_full_disk_is_counted_and_made_good_later);
	tcase_add_test(tests, a_directory_that_cannot_be_written_is_said);
	tcase_add_test(tests, a_file_with_a_second_name_is_not_written_to);
	tcase_add_test(tests, a_copy_made_of_links_keeps_what_it_had);
	return test_run(suite);
}
