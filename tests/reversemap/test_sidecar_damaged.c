/* test_sidecar_damaged.c - the sidecar's files, damaged. */
#include <fcntl.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "kinds/shape.h"
#include "tests/support/sidecar_files.h"

#define PAGE 4096

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
		uint64_t minirun = minirun_by_hand(&sample->list, sample->uppers[i]);
		struct wn__keylist_entry entry;
		uint32_t rank = 0;

		for (uint64_t j = i;
		     j > 0 && minirun_by_hand(&sample->list, sample->uppers[j - 1]) == minirun; j--)
			rank++;
		err = wn__map_lookup(map, &sample->list, minirun, rank, &entry);
		expect(err == 0 || is_refusal(err));
		if (err)
			refused++;
		else
			expect(is_entry(&entry, sample->uppers[i]));
	}
	err = wn__map_stream(map, sample->list.id, compare_uppers, &comparison);
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

	store_sample(&sample);
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

	store_sample(&sample);
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

/* Earlier writers kept up to 16 bytes. The file is whole but for that: all sums are right. */
START_TEST(another_number_of_bytes_a_hash_is_refused)
{
	struct sample sample = make_sample(1, 400, 421, 3);
	unsigned char *bytes;
	size_t size;

	store_sample(&sample);
	bytes = read_whole(&sample, &size);
	ck_assert_uint_eq(bytes[10], 8);
	for (unsigned hash_bytes = 0; hash_bytes < 256; hash_bytes++) {
		struct wn__keylist_info *infos;
		uint64_t digest;
		struct wn__map *map;
		size_t count;

		bytes[10] = (unsigned char)hash_bytes;
		digest = XXH3_64bits(bytes, 56);
		put_le64(bytes + 56, digest);
		put_le64(bytes + size - 8, XXH3_64bits_withSeed(bytes, size - 8, digest));
		write_whole(&sample, bytes, size);
		if (hash_bytes == 8) {
			expect(look_around(&sample) == 0);
			continue;
		}
		expect(look_around(&sample) >= 7);
		map = open_store();
		ck_assert_int_eq(wn__map_list(map, &infos, &count), 0);
		ck_assert_uint_eq(count, 1);
		ck_assert_int_eq(infos[0].error, WN_ERR_CORRUPT);
		free(infos);
		wn__map_destroy(map);
	}
	free(bytes);
	free_sample(&sample);
}
END_TEST

/* 8 bytes a hash: 503 on the first page, 511 on the others. */
START_TEST(an_empty_minirun_is_proved_by_whole_pages_only)
{
	struct sample sample = make_sample(1, 2500, 2500, WN__PLAIN_REMAINDER_BITS);
	struct wn__map *map;
	unsigned char *bytes;
	char path[PATH_MAX];
	size_t size;

	store_sample(&sample);
	bytes = read_whole(&sample, &size);
	path_of(sample.list.id, path);
	for (size_t page = 0; page * PAGE < size; page++) {
		uint64_t first = page ? 503 + (page - 1) * 511 : 0;
		size_t at = page * PAGE + 100;

		write_byte(&sample, at, (unsigned char)(bytes[at] ^ 1));
		map = open_store();
		expect_gaps(map, &sample, first, first + (page ? 511 : 503));
		/* Many are, by other pages. */
		if (page == 3)
			ck_assert_uint_gt(expect_gaps(map, &sample, first, first + 511), 500);
		wn__map_destroy(map);
		write_byte(&sample, at, bytes[at]);
	}
	/* Cut off while it is open, and whole again. */
	map = open_store();
	ck_assert_uint_gt(expect_gaps(map, &sample, 2500, 2500), 2400);
	ck_assert_int_eq(truncate(path, 3 * PAGE), 0);
	expect_gaps(map, &sample, 503 + 2 * 511, 2500);
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

	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.uppers), 0);
	expect_list(map, &sample, 1);
	path_of(sample.list.id, path);
	ck_assert_int_eq(truncate(path, PAGE), 0);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list,
					 minirun_by_hand(&sample.list, sample.uppers[1999]), 0,
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

	store_sample(&there);
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

	store_sample(&sample);
	store_sample(&other);
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

int main(void)
{
	Suite *suite = suite_create("sidecar_damaged");
	TCase *tests = tcase_create("sidecar");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_changed_byte_is_noticed);
	tcase_add_test(tests, a_file_of_another_length_is_refused);
	tcase_add_test(tests, another_number_of_bytes_a_hash_is_refused);
	tcase_add_test(tests, an_empty_minirun_is_proved_by_whole_pages_only);
	tcase_add_test(tests, a_file_cut_short_while_open_is_an_error);
	tcase_add_test(tests, a_run_under_another_name_is_refused);
	tcase_add_test(tests, a_page_of_another_place_or_run_is_refused);
	return test_run(suite);
}
