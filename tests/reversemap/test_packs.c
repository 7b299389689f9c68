/* Packs: what goes in comes out; damage, foreign packs and taken ids are noticed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "tests/support/common.h"
#include "reversemap/packs.h"

#define SUM UINT64_C(0x1234567)

static char top[4096];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

static const char *directory_of(const char *name)
{
	static char path[8192];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

static struct wn__small_id id_of(uint64_t number)
{
	uint64_t state = number;

	return (struct wn__small_id){test_random(&state) | 1, test_random(&state)};
}

/* The hashes of filter `number`; `other`: another set of keys. */
static uint32_t make_hashes(uint64_t number, bool other, struct wn_hash *hashes)
{
	uint64_t state = 2 * number + other + 77;
	uint32_t count = (uint32_t)(1 + number % 60);

	for (uint32_t i = 0; i < count; i++)
		hashes[i] = test_random_hash(&state);
	return (uint32_t)wn__small_sort(hashes, count);
}

static struct wn__packs *open_packs(const char *name)
{
	struct wn__packs *packs;

	ck_assert_int_eq(wn__packs_open(directory_of(name), SUM, &packs), 0);
	return packs;
}

/* A table with the filters from first to end. */
static void put_table(struct wn__packs *packs, uint64_t table, uint64_t first, uint64_t end)
{
	struct wn__pack_writer *writer;
	struct wn_hash hashes[64];

	ck_assert_int_eq(wn__pack_begin(packs, table, &writer), 0);
	for (uint64_t i = first; i < end; i++) {
		uint32_t count = make_hashes(i, false, hashes);

		expect(wn__pack_add(writer, id_of(i), hashes, count) == 0);
	}
	ck_assert_int_eq(wn__pack_finish(writer), 0);
}

static bool has_filter(struct wn__packs *packs, uint64_t number)
{
	struct wn_hash hashes[64];
	uint32_t count = make_hashes(number, false, hashes), found;
	uint64_t *records;
	int err = wn__packs_read(packs, id_of(number), &records, &found);

	if (err)
		return false;
	expect(found == count);
	for (uint32_t i = 0; i < count; i++)
		expect(records[i] == wn__pack_record(hashes[i]));
	free(records);
	return true;
}

static void expect_filters(struct wn__packs *packs, uint64_t first, uint64_t end, bool there)
{
	for (uint64_t i = first; i < end; i++)
		expect(has_filter(packs, i) == there);
}

static unsigned gone_count;

static void note_gone(void *arg, struct wn__small_id id, uint32_t count)
{
	(void)arg;
	(void)id;
	(void)count;
	gone_count++;
}

START_TEST(what_goes_in_comes_out)
{
	struct wn__packs *packs = open_packs("plain");
	struct wn__packs_stats stats;

	put_table(packs, 5, 0, 1000);
	put_table(packs, 6, 1000, 3000);
	for (int round = 0; round < 2; round++) {
		expect_filters(packs, 0, 3000, true);
		expect_filters(packs, 3000, 3100, false);
		wn__packs_describe(packs, &stats);
		ck_assert_uint_eq(stats.packs, 2);
		ck_assert_uint_eq(stats.filters, 3000);
		wn__packs_close(packs);
		packs = open_packs("plain");
	}
	wn__packs_close(packs);
}
END_TEST

START_TEST(an_id_with_other_keys_is_refused)
{
	struct wn__packs *packs = open_packs("taken");
	struct wn__pack_writer *writer;
	struct wn_hash hashes[64];
	uint32_t count = make_hashes(7, true, hashes);

	put_table(packs, 5, 0, 10);
	ck_assert_int_eq(wn__pack_begin(packs, 6, &writer), 0);
	ck_assert_int_eq(wn__pack_add(writer, id_of(7), hashes, count), WN_ERR_MISMATCH);
	/* In the table that is being written as well. */
	ck_assert_int_eq(wn__pack_add(writer, id_of(20), hashes, count), 0);
	count = make_hashes(20, false, hashes);
	ck_assert_int_eq(wn__pack_add(writer, id_of(20), hashes, count), WN_ERR_MISMATCH);
	/* The same keys are welcome. */
	count = make_hashes(8, false, hashes);
	ck_assert_int_eq(wn__pack_add(writer, id_of(8), hashes, count), 0);
	ck_assert_int_eq(wn__pack_finish(writer), 0);
	/* The first table's end leaves the second's filter alone. */
	gone_count = 0;
	wn__packs_retire(packs, 5, note_gone, NULL);
	ck_assert_uint_eq(gone_count, 9);
	expect(has_filter(packs, 8));
	expect(!has_filter(packs, 7));
	wn__packs_close(packs);
}
END_TEST

START_TEST(a_filter_in_two_tables_outlives_either)
{
	struct wn__packs *packs = open_packs("twice");

	put_table(packs, 5, 0, 50);
	put_table(packs, 6, 25, 75);
	wn__packs_retire(packs, 6, NULL, NULL);
	expect_filters(packs, 0, 50, true);
	expect_filters(packs, 50, 75, false);
	wn__packs_close(packs);
}
END_TEST

START_TEST(a_sweep_leaves_what_lives)
{
	struct wn__packs *packs = open_packs("sweep");
	const uint64_t live[] = {2, 6, 9};

	for (uint64_t table = 4; table < 9; table++)
		put_table(packs, table, 10 * table, 10 * table + 10);
	gone_count = 0;
	wn__packs_sweep(packs, live, 3, note_gone, NULL);
	ck_assert_uint_eq(gone_count, 40);
	expect_filters(packs, 60, 70, true);
	expect_filters(packs, 40, 60, false);
	wn__packs_close(packs);
	packs = open_packs("sweep");
	expect_filters(packs, 60, 70, true);
	expect_filters(packs, 70, 90, false);
	wn__packs_close(packs);
}
END_TEST

START_TEST(packs_of_another_secret_or_table_are_left_out)
{
	struct wn__packs *packs = open_packs("foreign");
	char from[9000], to[9000];

	put_table(packs, 5, 0, 10);
	wn__packs_close(packs);
	ck_assert_int_eq(wn__packs_open(directory_of("foreign"), SUM + 1, &packs), 0);
	expect_filters(packs, 0, 10, false);
	wn__packs_close(packs);
	snprintf(from, sizeof(from), "%s/000005.pack", directory_of("foreign"));
	snprintf(to, sizeof(to), "%s/000006.pack", directory_of("foreign"));
	ck_assert_int_eq(rename(from, to), 0);
	packs = open_packs("foreign");
	expect_filters(packs, 0, 10, false);
	wn__packs_close(packs);
}
END_TEST

/* No byte of a pack can be changed such that a wrong record comes out. */
START_TEST(damage_is_noticed)
{
	struct wn__packs *packs = open_packs("damage");
	char path[9000];
	FILE *file;
	long size;

	put_table(packs, 5, 0, 12);
	wn__packs_close(packs);
	snprintf(path, sizeof(path), "%s/000005.pack", directory_of("damage"));
	file = fopen(path, "r+b");
	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	for (long at = 0; at < size; at++) {
		int byte;

		fseek(file, at, SEEK_SET);
		byte = fgetc(file);
		fseek(file, at, SEEK_SET);
		fputc(byte ^ (1 << at % 8), file);
		fflush(file);
		packs = open_packs("damage");
		for (uint64_t i = 0; i < 12; i++)
			has_filter(packs, i); /* right, or not there */
		wn__packs_close(packs);
		fseek(file, at, SEEK_SET);
		fputc(byte, file);
		fflush(file);
	}
	fclose(file);
	packs = open_packs("damage");
	expect_filters(packs, 0, 12, true);
	wn__packs_close(packs);
	for (long left = size - 1; left >= 0; left -= 1 + left / 50) {
		ck_assert_int_eq(truncate(path, left), 0);
		packs = open_packs("damage");
		expect_filters(packs, 0, 12, false);
		wn__packs_close(packs);
	}
}
END_TEST

START_TEST(a_pack_that_cannot_be_written_keeps_its_ids_taken)
{
	struct wn__packs *packs;
	struct wn__pack_writer *writer;
	struct wn_hash hashes[64];
	uint32_t count = make_hashes(3, false, hashes);

	ck_assert_int_eq(wn__packs_open("/dev/null/nowhere", SUM, &packs), ENOTDIR);
	ck_assert_int_eq(wn__packs_open(directory_of("no/such"), SUM, &packs), 0);
	ck_assert_int_eq(wn__pack_begin(packs, 5, &writer), 0);
	ck_assert_int_eq(wn__pack_begin(packs, 5, &(struct wn__pack_writer *){NULL}), EEXIST);
	ck_assert_int_eq(wn__pack_add(writer, id_of(3), hashes, count), 0);
	ck_assert_int_ne(wn__pack_finish(writer), 0);
	expect(!has_filter(packs, 3));
	ck_assert_int_eq(wn__pack_begin(packs, 6, &writer), 0);
	count = make_hashes(3, true, hashes);
	ck_assert_int_eq(wn__pack_add(writer, id_of(3), hashes, count), WN_ERR_MISMATCH);
	wn__pack_finish(writer);
	wn__packs_close(packs);
}
END_TEST

START_TEST(a_second_name_of_another_file_is_not_written_to)
{
	char foreign[8192], temporary[8300];
	struct wn__packs *packs;
	struct stat info;

	snprintf(foreign, sizeof(foreign), "%s", directory_of("bystander"));
	ck_assert_int_eq(close(creat(foreign, 0600)), 0);
	ck_assert_int_eq(truncate(foreign, 5), 0);
	ck_assert_int_eq(mkdir(directory_of("linked"), 0700), 0);
	packs = open_packs("linked");
	snprintf(temporary, sizeof(temporary), "%s/%s", directory_of("linked"), "000007.pack.tmp");
	ck_assert_int_eq(link(foreign, temporary), 0);
	put_table(packs, 7, 0, 10);
	expect(has_filter(packs, 3));
	ck_assert_int_ne(access(temporary, F_OK), 0); /* it is the name that is used */
	ck_assert_int_eq(stat(foreign, &info), 0);
	ck_assert_int_eq(info.st_size, 5);
	ck_assert_uint_eq(info.st_nlink, 1);
	wn__packs_close(packs);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("packs");
	TCase *tests = tcase_create("packs");
	const char *tmp = getenv("TMPDIR");
	int result;

	snprintf(top, sizeof(top), "%s/winnow-packs-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(top)) {
		perror(top);
		return 1;
	}
	tcase_add_test(tests, what_goes_in_comes_out);
	tcase_add_test(tests, an_id_with_other_keys_is_refused);
	tcase_add_test(tests, a_filter_in_two_tables_outlives_either);
	tcase_add_test(tests, a_sweep_leaves_what_lives);
	tcase_add_test(tests, packs_of_another_secret_or_table_are_left_out);
	tcase_add_test(tests, damage_is_noticed);
	tcase_add_test(tests, a_pack_that_cannot_be_written_keeps_its_ids_taken);
	tcase_add_test(tests, a_second_name_of_another_file_is_not_written_to);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return result;
}
