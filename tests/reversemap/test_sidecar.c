/* test_sidecar.c - the sidecar's files: damage, crashes, full disks. */
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

#include "tests/support/runs_common.h"

#define PAGE 4096

static char directory[PATH_MAX];

static void set_up(void)
{
	make_directory(directory);
}

static void tear_down(void)
{
	remove_directory(directory);
}

static struct wn__map *open_with(struct wn__sidecar_options options)
{
	struct wn__map *map;

	ck_assert_int_eq(wn__map_sidecar_open(directory, &options, &map), 0);
	return map;
}

static struct wn__map *open_store(void)
{
	struct wn__map *map;

	ck_assert_int_eq(wn__map_sidecar_open(directory, NULL, &map), 0);
	return map;
}

/* Put a run into the directory and close it again. */
static void store_sample(const struct sample *sample, unsigned hash_bytes)
{
	struct wn__map *map = open_store();

	ck_assert_int_eq(wn__map_put(map, &sample->list, sample->hashes, hash_bytes), 0);
	wn__map_destroy(map);
}

static void path_of(const unsigned char *id, char *path)
{
	size_t at = (size_t)snprintf(path, PATH_MAX, "%s/", directory);

	for (unsigned i = 0; i < WN_BLOCK_ID_SIZE; i++)
		at += (size_t)snprintf(path + at, PATH_MAX - at, "%02x", id[i]);
	ck_assert_uint_lt(at + 5, PATH_MAX);
	strcpy(path + at, ".run");
}

static unsigned char *read_whole(const struct sample *sample, size_t *sizep)
{
	char path[PATH_MAX];
	unsigned char *bytes = malloc(1 << 20);
	FILE *file;

	path_of(sample->list.id, path);
	file = fopen(path, "rb");
	ck_assert_ptr_nonnull(file);
	*sizep = fread(bytes, 1, 1 << 20, file);
	ck_assert_uint_lt(*sizep, 1 << 20);
	fclose(file);
	return bytes;
}

static void write_whole(const struct sample *sample, const unsigned char *bytes, size_t size)
{
	char path[PATH_MAX];
	FILE *file;

	path_of(sample->list.id, path);
	file = fopen(path, "wb");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
	ck_assert_int_eq(fclose(file), 0);
}

/* Changing a file in place is much faster than writing it anew. */
static void write_byte(const struct sample *sample, size_t at, unsigned char byte)
{
	char path[PATH_MAX];
	int fd;

	path_of(sample->list.id, path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	expect(fd >= 0);
	expect(pwrite(fd, &byte, 1, (off_t)at) == 1);
	close(fd);
}

/* ---- damage ------------------------------------------------------------- */

static bool is_refusal(int err)
{
	return err == WN_ERR_CORRUPT || err == WN_ERR_VERSION || err == WN_ERR_MISMATCH;
}

/* Right or refused, never wrong. How many of the lookups were refused? */
static unsigned look_around(const struct sample *sample)
{
	struct wn__map *map = open_store();
	struct comparison comparison = {.sample = sample};
	uint64_t step = sample->list.key_count / 7;
	unsigned refused = 0;
	int err;

	for (uint64_t i = 0; i < sample->list.key_count; i += step) {
		uint64_t minirun = minirun_by_hand(&sample->list, sample->hashes[i]);
		struct wn__keylist_entry entry;
		uint32_t rank = 0;

		for (uint64_t j = i;
		     j > 0 && minirun_by_hand(&sample->list, sample->hashes[j - 1]) == minirun; j--)
			rank++;
		err = wn__map_lookup(map, &sample->list, minirun, rank, &entry);
		expect(err == 0 || is_refusal(err));
		if (err)
			refused++;
		else
			expect(is_entry(&entry, sample->hashes[i]));
	}
	err = wn__map_stream(map, sample->list.id, compare_hashes, &comparison);
	expect(err ? is_refusal(err) : comparison.seen == sample->list.key_count);
	expect(refused == 0 || err != 0);
	wn__map_destroy(map);
	return refused;
}

START_TEST(a_changed_byte_is_noticed)
{
	struct sample sample = make_sample(1, 600, 632, 3);
	uint64_t state = test_seed("a_changed_byte_is_noticed", 3);
	unsigned char *bytes;
	unsigned refused = 0;
	size_t size;

	store_sample(&sample, _i ? 13 : 8);
	bytes = read_whole(&sample, &size);
	ck_assert_uint_gt(size, PAGE);
	ck_assert_uint_eq(look_around(&sample), 0);
	for (size_t at = 0; at < size; at++) {
		write_byte(&sample, at, (unsigned char)(bytes[at] ^
							(1 + test_random(&state) % 255)));
		refused += look_around(&sample) > 0;
		write_byte(&sample, at, bytes[at]);
	}
	/* The lookups read every page, and every byte is under its page's sum. */
	ck_assert_uint_eq(refused, size);
	ck_assert_uint_eq(look_around(&sample), 0);
	free(bytes);
	free_sample(&sample);
}
END_TEST

START_TEST(a_file_of_another_length_is_refused)
{
	struct sample sample = make_sample(1, 600, 632, 3);
	unsigned char *bytes;
	char path[PATH_MAX];
	size_t size;

	store_sample(&sample, _i ? 13 : 8);
	bytes = read_whole(&sample, &size);
	bytes[size] = 0;
	write_whole(&sample, bytes, size + 1);
	expect(look_around(&sample) >= 7);
	path_of(sample.list.id, path);
	for (size_t cut = size; cut-- > 0;) {
		expect(truncate(path, (off_t)cut) == 0);
		expect(look_around(&sample) >= 7);
	}
	free(bytes);
	free_sample(&sample);
}
END_TEST

/* 9 bytes a hash: 447 on the first page, 454 on the others. */
START_TEST(an_empty_minirun_is_proved_by_whole_pages_only)
{
	struct sample sample = make_sample(1, 2500, 2500, WN__PLAIN_REMAINDER_BITS);
	struct wn__map *map;
	unsigned char *bytes;
	char path[PATH_MAX];
	size_t size;

	store_sample(&sample, 9);
	bytes = read_whole(&sample, &size);
	path_of(sample.list.id, path);
	for (size_t page = 0; page * PAGE < size; page++) {
		uint64_t first = page ? 447 + (page - 1) * 454 : 0;
		size_t at = page * PAGE + 100;

		write_byte(&sample, at, (unsigned char)(bytes[at] ^ 1));
		map = open_store();
		expect_gaps(map, &sample, first, first + (page ? 454 : 447));
		/* Many are, by other pages. */
		if (page == 3)
			ck_assert_uint_gt(expect_gaps(map, &sample, first, first + 454), 500);
		wn__map_destroy(map);
		write_byte(&sample, at, bytes[at]);
	}
	/* Cut off while it is open, and whole again. */
	map = open_store();
	ck_assert_uint_gt(expect_gaps(map, &sample, 2500, 2500), 2400);
	ck_assert_int_eq(truncate(path, 3 * PAGE), 0);
	expect_gaps(map, &sample, 447 + 2 * 454, 2500);
	wn__map_destroy(map);
	free(bytes);
	free_sample(&sample);
}
END_TEST

START_TEST(a_file_cut_short_while_open_is_an_error)
{
	struct sample sample = make_sample(1, 2000, 2106, 3);
	struct wn__map *map = open_store();
	struct wn__keylist_entry entry;
	char path[PATH_MAX];

	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, 8), 0);
	expect_run(map, &sample, 1);
	path_of(sample.list.id, path);
	ck_assert_int_eq(truncate(path, PAGE), 0);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list,
					 minirun_by_hand(&sample.list, sample.hashes[1999]), 0,
					 &entry),
			 WN_ERR_CORRUPT);
	wn__map_destroy(map);
	free_sample(&sample);
}
END_TEST

START_TEST(a_run_under_another_name_is_refused)
{
	struct sample here = make_sample(1, 600, 632, 3), there = make_sample(2, 600, 632, 3);
	struct wn__keylist_info *infos;
	struct wn__keylist_entry entry;
	struct wn__map *map;
	unsigned char *bytes;
	size_t size, count, here_count = 0;

	store_sample(&there, 8);
	bytes = read_whole(&there, &size);
	write_whole(&here, bytes, size);
	map = open_store();
	ck_assert_int_eq(wn__map_lookup(map, &here.list, 0, 0, &entry), WN_ERR_MISMATCH);
	ck_assert_int_eq(wn__map_list(map, &infos, &count), 0);
	ck_assert_uint_eq(count, 2);
	for (size_t i = 0; i < 2; i++) {
		bool is_here = memcmp(infos[i].list.id, here.list.id, sizeof(here.list.id)) == 0;

		here_count += is_here;
		ck_assert_int_eq(infos[i].error, is_here ? WN_ERR_MISMATCH : 0);
		ck_assert_uint_eq(infos[i].bytes, size);
	}
	ck_assert_uint_eq(here_count, 1);
	free(infos);
	/* What cannot be read can be dropped. */
	ck_assert_int_eq(wn__map_drop(map, here.list.id), 0);
	ck_assert_int_eq(wn__map_drop(map, there.list.id), 0);
	ck_assert_uint_eq(count_files(directory, ".run"), 0);
	wn__map_destroy(map);
	free(bytes);
	free_sample(&here);
	free_sample(&there);
}
END_TEST

START_TEST(a_page_of_another_place_or_run_is_refused)
{
	struct sample sample = make_sample(1, 2500, 2632, 3), other = make_sample(2, 2500, 2632, 3);
	unsigned char *bytes, *others, *mixed = malloc(1 << 20);
	size_t size, others_size;

	store_sample(&sample, 8);
	store_sample(&other, 8);
	bytes = read_whole(&sample, &size);
	others = read_whole(&other, &others_size);
	ck_assert_uint_eq(size, others_size);
	memcpy(mixed, bytes, size);
	memcpy(mixed + PAGE, bytes + 2 * PAGE, PAGE);
	write_whole(&sample, mixed, size);
	ck_assert_uint_gt(look_around(&sample), 0);
	memcpy(mixed, bytes, size);
	memcpy(mixed + PAGE, others + PAGE, PAGE);
	write_whole(&sample, mixed, size);
	ck_assert_uint_gt(look_around(&sample), 0);
	free(mixed);
	free(bytes);
	free(others);
	free_sample(&sample);
	free_sample(&other);
}
END_TEST

/* ---- the directory ------------------------------------------------------ */

START_TEST(runs_are_there_after_reopening)
{
	struct wn__map *map = open_with((struct wn__sidecar_options){.sync = _i});
	struct sample samples[10];
	struct wn__map_stats before, after;

	for (unsigned i = 0; i < 10; i++) {
		samples[i] = make_sample(i, i * 200, i * 211 + 1, 6);
		ck_assert_int_eq(wn__map_put(map, &samples[i].list, samples[i].hashes,
					      i % 2 ? 8 : 16),
				 0);
	}
	wn__map_stats(map, &before);
	wn__map_destroy(map);
	map = open_store();
	wn__map_stats(map, &after);
	ck_assert_uint_eq(after.map, 10);
	ck_assert_uint_eq(after.bytes, before.bytes);
	for (unsigned i = 0; i < 10; i++) {
		expect_run(map, &samples[i], 1);
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
	ck_assert_uint_eq(stats.map, 0);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_read_only_store_reads_only)
{
	struct sample sample = make_sample(1, 600, 632, 3), other = make_sample(2, 600, 632, 3);
	struct wn__map *map;

	store_sample(&sample, 8);
	map = open_with((struct wn__sidecar_options){.read_only = true});
	expect_run(map, &sample, 1);
	ck_assert_int_eq(wn__map_put(map, &other.list, other.hashes, 8), WN_ERR_READONLY);
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
		ck_assert_int_eq(wn__map_put(map, &samples[i].list, samples[i].hashes, 8), 0);
	}
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 20; i++)
			expect_run(map, &samples[i], 50);
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
		'W', 'N', 'R', 'E', 'V', 'R', 'U', 'N', 1,   0,   8,   9,   8,   0,   0,   0,
		1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,
		88,  2,   0,   0,   0,   0,   0,   0,   0x78, 2,  0,   0,   0,   0,   0,   0,
		0xe9, 3,  0,   0,   0,   0,   0,   0,
	};
	struct sample sample = make_sample(1, 600, 632, 9);
	unsigned char *bytes;
	size_t size;

	for (unsigned i = 0; i < WN_BLOCK_ID_SIZE; i++)
		sample.list.id[i] = (unsigned char)(i + 1);
	store_sample(&sample, 8);
	bytes = read_whole(&sample, &size);
	ck_assert_uint_eq(size, 64 + 600 * 8 + 2 * 8);
	ck_assert_int_eq(memcmp(bytes, header, sizeof(header)), 0);
	ck_assert_uint_eq(XXH3_64bits(bytes, size), UINT64_C(4816803220837217902));
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

	ck_assert_int_eq(wn__map_put(map, &small.list, small.hashes, 8), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(wn__map_put(map, &large.list, large.hashes, 8), expected);
		ck_assert_uint_eq(count_files(directory, ""), 1);
	}
	wn__map_stats(map, &stats);
	ck_assert_uint_eq(stats.map, 1);
	ck_assert_uint_eq(stats.failed_puts, 3);
	expect_run(map, &small, 1);
	ck_assert_int_eq(wn__map_drop(map, small.list.id), 0);
	ck_assert_int_eq(wn__map_put(map, &small.list, small.hashes, 16), 0);
	expect_run(map, &small, 1);
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

/* Run `number` of the crash tests. */
static struct sample crash_sample(uint64_t number)
{
	return make_sample(number, 3000 + number * 997, 3200 + number * 1050, 5);
}

/* Writes a byte to `ready` once there is a run. */
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
		if (wn__map_put(map, &sample->list, sample->hashes, round % 2 ? 8 : 16))
			_exit(2);
		if (round == 0 && write(ready, "", 1) != 1)
			_exit(3);
	}
}

/* Start a child that puts runs, let it work a while, and kill it. */
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

/* Every run that is there is one of ours, and whole. */
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
		expect_run(map, &sample, 100);
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

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, a_changed_byte_is_noticed, 0, 2);
	tcase_add_loop_test(tests, a_file_of_another_length_is_refused, 0, 2);
	tcase_add_test(tests, an_empty_minirun_is_proved_by_whole_pages_only);
	tcase_add_test(tests, a_file_cut_short_while_open_is_an_error);
	tcase_add_test(tests, a_run_under_another_name_is_refused);
	tcase_add_test(tests, a_page_of_another_place_or_run_is_refused);
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
