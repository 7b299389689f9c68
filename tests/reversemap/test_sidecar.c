/* test_sidecar.c - the sidecar's directory: reopening, full disks, crashes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* unshare() */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <xxhash.h>

#include "tests/support/sidecar_files.h"

static struct wn__map *open_with(struct wn__sidecar_options options)
{
	struct wn__map *map;

	ck_assert_int_eq(wn__map_sidecar_open(directory, &options, &map), 0);
	return map;
}

/* ---- the directory ------------------------------------------------------ */

START_TEST(runs_are_there_after_reopening)
{
	struct wn__map *map = open_with((struct wn__sidecar_options){.sync = _i});
	struct sample samples[10];
	struct wn__map_stats before, after;

	for (unsigned i = 0; i < 10; i++) {
		samples[i] = make_sample(i, i * 200, i * 211 + 1, 6);
		ck_assert_int_eq(wn__map_put(map, &samples[i].list, samples[i].uppers),
				 0);
	}
	wn__map_stats(map, &before);
	wn__map_destroy(map);
	map = open_store();
	wn__map_stats(map, &after);
	ck_assert_uint_eq(after.lists, 10);
	ck_assert_uint_eq(after.bytes, before.bytes);
	for (unsigned i = 0; i < 10; i++) {
		expect_list(map, &samples[i], 1);
		expect_stream(map, &samples[i]);
		free_sample(&samples[i]);
	}
	wn__map_destroy(map);
}
END_TEST

static void make_file(const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	ck_assert_int_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
}

START_TEST(temporary_files_are_swept_and_others_are_not)
{
	struct wn__map_stats stats;
	struct wn__map *map;

	make_file("0123456789abcdef0123456789abcdef.17.tmp");
	make_file("0123456789abcdef0123456789abcdef.x.tmp");
	make_file("0123456789abcdef0123456789abcde.17.tmp");
	make_file("0123456789abcdef0123456789abcdeF.run");
	make_file("0123456789abcdef0123456789abcdef.runs");
	make_file("0123456789abcdef");
	make_file("notes.tmp");
	map = open_with((struct wn__sidecar_options){.read_only = true});
	ck_assert_uint_eq(count_files(directory, ""), 7);
	wn__map_destroy(map);
	map = open_store();
	ck_assert_uint_eq(count_files(directory, ""), 6);
	ck_assert_uint_eq(count_files(directory, ".17.tmp"), 1);
	wn__map_stats(map, &stats);
	ck_assert_uint_eq(stats.lists, 0);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_read_only_store_reads_only)
{
	struct sample sample = make_sample(1, 600, 632, 3), other = make_sample(2, 600, 632, 3);
	struct wn__map *map;

	store_sample(&sample);
	map = open_with((struct wn__sidecar_options){.read_only = true});
	expect_list(map, &sample, 1);
	ck_assert_int_eq(wn__map_put(map, &other.list, other.uppers), WN_ERR_READONLY);
	ck_assert_int_eq(wn__map_drop(map, sample.list.id), WN_ERR_READONLY);
	ck_assert_uint_eq(count_files(directory, ""), 1);
	wn__map_destroy(map);
	free_sample(&sample);
	free_sample(&other);
}
END_TEST

START_TEST(a_directory_that_cannot_be_is_an_errno)
{
	struct wn__sidecar_options read_only = {.read_only = true};
	char path[2 * PATH_MAX];
	struct wn__map *map;

	snprintf(path, sizeof(path), "%s/a/b", directory);
	ck_assert_int_eq(wn__map_sidecar_open(path, NULL, &map), ENOENT);
	ck_assert_ptr_null(map);
	snprintf(path, sizeof(path), "%s/a", directory);
	ck_assert_int_eq(wn__map_sidecar_open(path, &read_only, &map), ENOENT);
	ck_assert_int_eq(wn__map_sidecar_open(path, NULL, &map), 0);
	wn__map_destroy(map);
	ck_assert_int_eq(rmdir(path), 0);
	make_file("a");
	ck_assert_int_eq(wn__map_sidecar_open(path, NULL, &map), ENOTDIR);
}
END_TEST

static unsigned count_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 1000; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

START_TEST(few_files_are_kept_open_and_none_is_lost)
{
	unsigned before = count_descriptors();
	struct wn__map *map = open_with((struct wn__sidecar_options){.max_open = 4});
	struct sample samples[20];

	for (unsigned i = 0; i < 20; i++) {
		samples[i] = make_sample(i, 600, 632, 6);
		ck_assert_int_eq(wn__map_put(map, &samples[i].list, samples[i].uppers), 0);
	}
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 20; i++)
			expect_list(map, &samples[i], 50);
	}
	ck_assert_uint_eq(count_descriptors(), before + 1 + 4);
	for (unsigned i = 0; i < 20; i++) {
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), 0);
		free_sample(&samples[i]);
	}
	ck_assert_uint_eq(count_descriptors(), before + 1);
	wn__map_destroy(map);
	ck_assert_uint_eq(count_descriptors(), before);
}
END_TEST

/* ---- the bytes ---------------------------------------------------------- */

/* Whoever changes the format sees it here, and raises its version. */
START_TEST(the_format_is_what_it_was)
{
	static const unsigned char header[] = {
		'W', 'N', 'R', 'E', 'V', 'R', 'U', 'N', 2,   0,   8,   9,   8,   0,   0,   0,
		1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,
		88,  2,   0,   0,   0,   0,   0,   0,   0x78, 2,  0,   0,   0,   0,   0,   0,
		0xe9, 3,  0,   0,   0,   0,   0,   0,
	};
	struct sample sample = make_sample(1, 600, 632, 9);
	unsigned char *bytes;
	size_t size;

	for (unsigned i = 0; i < WN_BLOCK_ID_SIZE; i++)
		sample.list.id[i] = (unsigned char)(i + 1);
	store_sample(&sample);
	ck_assert_uint_eq(count_files(directory, "0102030405060708090a0b0c0d0e0f10.run"), 1);
	bytes = read_whole(&sample, &size);
	ck_assert_uint_eq(size, 64 + 600 * 8 + 2 * 8);
	ck_assert_int_eq(memcmp(bytes, header, sizeof(header)), 0);
	ck_assert_uint_eq(XXH3_64bits(bytes, size), UINT64_C(4137162221751135964));
	free(bytes);
	free_sample(&sample);
}
END_TEST

/* ---- full disks --------------------------------------------------------- */

/* Puts that fail for want of room leave no file; then there is room again. */
static void put_until_full(struct wn__map *map, int expected)
{
	struct sample small = make_sample(1, 1000, 1053, 9);
	struct sample large = make_sample(2, 50000, 52632, 9);
	struct wn__map_stats stats;

	ck_assert_int_eq(wn__map_put(map, &small.list, small.uppers), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(wn__map_put(map, &large.list, large.uppers), expected);
		ck_assert_uint_eq(count_files(directory, ""), 1);
	}
	wn__map_stats(map, &stats);
	ck_assert_uint_eq(stats.lists, 1);
	ck_assert_uint_eq(stats.failed_puts, 3);
	expect_list(map, &small, 1);
	ck_assert_int_eq(wn__map_drop(map, small.list.id), 0);
	ck_assert_int_eq(wn__map_put(map, &small.list, small.uppers), 0);
	expect_list(map, &small, 1);
	free_sample(&small);
	free_sample(&large);
}

START_TEST(a_file_that_may_not_grow_fails_and_leaves_nothing)
{
	struct wn__map *map = open_store();
	struct rlimit saved, limit;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &saved), 0);
	limit = saved;
	limit.rlim_cur = 150000;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	put_until_full(map, EFBIG);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &saved), 0);
	wn__map_destroy(map);
}
END_TEST

/* Seen by this process alone, and gone with it. */
static bool mount_small_disk(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("tmpfs", directory, "tmpfs", 0, "size=128k") == 0;
}

START_TEST(a_full_disk_fails_and_leaves_nothing)
{
	struct wn__map *map;

	if (!mount_small_disk()) {
		fprintf(stderr, "no tmpfs may be mounted here (%s): the full disk is not tried\n",
			strerror(errno));
		return;
	}
	map = open_with((struct wn__sidecar_options){.sync = true});
	put_until_full(map, ENOSPC);
	wn__map_destroy(map);
	ck_assert_int_eq(umount(directory), 0);
}
END_TEST

/* ---- crashes ------------------------------------------------------------ */

#define CRASH_RUNS 12

/* Key list `number` of the crash tests. */
static struct sample crash_sample(uint64_t number)
{
	return make_sample(number, 3000 + number * 997, 3200 + number * 1050, 5);
}

/* Writes a byte to `ready` once there is a key list. */
static void put_until_killed(int ready)
{
	struct wn__map *map;
	struct sample samples[CRASH_RUNS];

	if (wn__map_sidecar_open(directory, NULL, &map))
		_exit(1);
	for (uint64_t i = 0; i < CRASH_RUNS; i++)
		samples[i] = crash_sample(i);
	for (unsigned round = 0;; round++) {
		const struct sample *sample = &samples[round % CRASH_RUNS];

		/* File systems take their time to replace a file: let most be new. */
		if (round % 8)
			wn__map_drop(map, sample->list.id);
		if (wn__map_put(map, &sample->list, sample->uppers))
			_exit(2);
		if (round == 0 && write(ready, "", 1) != 1)
			_exit(3);
	}
}

/* Start a child that puts key lists, let it work a while, and kill it. */
static void kill_one(uint64_t *state)
{
	struct timespec pause = {.tv_nsec = (long)(test_random(state) % 20000000)};
	int ready[2], status;
	char byte;
	pid_t child;

	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		put_until_killed(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	nanosleep(&pause, NULL);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(ready[0]);
	close(ready[1]);
}

/* Every key list that is there is one of ours, and whole. */
static size_t assert_whole_runs(void)
{
	struct wn__map *map = open_store();
	struct wn__keylist_info *infos;
	size_t count;

	ck_assert_uint_eq(count_files(directory, ".tmp"), 0);
	ck_assert_int_eq(wn__map_list(map, &infos, &count), 0);
	ck_assert_uint_eq(count, count_files(directory, ""));
	for (size_t i = 0; i < count; i++) {
		struct sample sample = crash_sample(infos[i].list.owner - 1000);

		ck_assert_int_eq(infos[i].error, 0);
		ck_assert_int_eq(memcmp(infos[i].list.id, sample.list.id, WN_BLOCK_ID_SIZE), 0);
		expect_list(map, &sample, 100);
		expect_stream(map, &sample);
		free_sample(&sample);
	}
	free(infos);
	wn__map_destroy(map);
	return count;
}

START_TEST(a_killed_process_leaves_whole_runs_only)
{
	uint64_t state = test_seed("a_killed_process", 8);
	unsigned rounds = test_is_quick() ? 5 : 20, found = 0, torn = 0;

	for (unsigned round = 0; round < rounds; round++) {
		kill_one(&state);
		torn += count_files(directory, ".tmp");
		found += (unsigned)assert_whole_runs();
	}
	fprintf(stderr, "%u rounds: %u whole runs found, %u torn files swept\n", rounds, found,
		torn);
	ck_assert_uint_ge(found, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sidecar");
	TCase *tests = tcase_create("sidecar");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, runs_are_there_after_reopening, 0, 2);
	tcase_add_test(tests, temporary_files_are_swept_and_others_are_not);
	tcase_add_test(tests, a_read_only_store_reads_only);
	tcase_add_test(tests, a_directory_that_cannot_be_is_an_errno);
	tcase_add_test(tests, few_files_are_kept_open_and_none_is_lost);
	tcase_add_test(tests, the_format_is_what_it_was);
	tcase_add_test(tests, a_file_that_may_not_grow_fails_and_leaves_nothing);
	tcase_add_test(tests, a_full_disk_fails_and_leaves_nothing);
	tcase_add_test(tests, a_killed_process_leaves_whole_runs_only);
	return test_run(suite);
}
