/* test_rocksdb_filters.c - winnow's filters in RocksDB: built, damaged, without memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <errno.h>

#include "adapters/rocksdb/policy.h"
#include "base/alloc.h"
#include "learn/lookup.h"
#include "tests/support/rocksdb_setups.h"

/* ---- damage ------------------------------------------------------------- */

static const unsigned char magic[] = {'W', 'I', 'N', 'N', 'O', 'W', 0x1a, '\n'};

/* The payload's size stands in the header, and 128 bytes are the header. */
static bool is_within_filter(const unsigned char *filter, size_t offset)
{
	uint64_t payload = 0;

	for (int i = 7; i >= 0; i--)
		payload = payload << 8 | filter[16 + i];
	return offset < 128 + payload;
}

/* Turn bits of one byte in each winnow filter in the file that is long enough. */
static int damage_file(const char *path, size_t offset)
{
	FILE *file = fopen(path, "r+b");
	unsigned char *bytes;
	size_t size;
	int damaged = 0;

	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	size = (size_t)ftell(file);
	bytes = malloc(size);
	rewind(file);
	ck_assert_uint_eq(fread(bytes, 1, size, file), size);
	for (size_t at = 0; at + offset < size && at + sizeof(magic) <= size; at++) {
		if (memcmp(bytes + at, magic, sizeof(magic)) != 0 ||
		    !is_within_filter(bytes + at, offset))
			continue;
		fseek(file, (long)(at + offset), SEEK_SET);
		fputc(bytes[at + offset] ^ 0x55, file);
		damaged++;
	}
	ck_assert_int_eq(fclose(file), 0);
	free(bytes);
	return damaged;
}

static int damage_database(const char *name, size_t offset)
{
	char path[2 * 8192];
	struct dirent *entry;
	int damaged = 0;
	DIR *dir;

	dir = opendir(test_path(name));
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length < 4 || strcmp(entry->d_name + length - 4, ".sst") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", test_path(name), entry->d_name);
		damaged += damage_file(path, offset);
	}
	closedir(dir);
	return damaged;
}

/* Version, kind, sizes, parameters, checksum: RocksDB's checksums are off, so the bytes come
 * to our reader. */
START_TEST(a_damaged_header_means_maybe)
{
	const size_t offsets[] = {8, 10, 12, 17, 24, 40, 48, 80, 90, 112, 120};
	struct db_setup setup = winnow;
	const uint64_t end = 4000;
	struct wn_stats stats;
	struct db db;
	char name[64];
	int damaged;

	setup.no_checksums = true;
	setup.partitioned = _i % 2;
	snprintf(name, sizeof(name), "damaged_%d", _i);
	add_table(name, &setup, 0, end);
	damaged = damage_database(name, offsets[_i / 2]);
	ck_assert_int_gt(damaged, 0);
	db = db_open(name, &setup);
	db_expect_right(&db, 0, end);
	stats = db_stats(&db);
	ck_assert_uint_ge(stats.readers_refused, (uint64_t)damaged);
	ck_assert_uint_eq(stats.readers_opened, 0);
	ck_assert_uint_eq(ask_absent(&db, end).negatives, 0);
	db_close(&db);
}
END_TEST

/* What lies behind the header is guarded by RocksDB's checksums: it reads a filter that fails
 * them as "maybe". Without the magic the block is nobody's. */
START_TEST(a_damaged_filter_loses_no_key)
{
	const size_t offsets[] = {0, 5, 130, 1000, 3000};
	const uint64_t end = 20000;
	char name[64];

	snprintf(name, sizeof(name), "checked_%d", _i);
	add_table(name, &winnow, 0, end);
	ck_assert_int_gt(damage_database(name, offsets[_i]), 0);
	reopen_and_expect(name, &winnow, end, false);
	reopen_and_expect(name, &bloom, end, false);
}
END_TEST

static struct wn__recipe *make_inner_policy(rocksdb_filterpolicy_t **shownp)
{
	ck_assert_int_eq(wn_rocksdb_filterpolicy(NULL, NULL, shownp), 0);
	return wn__shim_policy(*shownp);
}

static struct wn__bytes text_bytes(const char *text)
{
	return (struct wn__bytes){text, strlen(text)};
}

START_TEST(a_block_cut_anywhere_says_maybe)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	void *builder = wn__builder_create(recipe, false), *block;
	struct wn_stats stats;
	size_t size;

	wn__builder_add(builder, text_bytes("a key"));
	wn__builder_finish(builder, &block, &size);
	for (size_t cut = 0; cut < size; cut++) {
		struct wn__bytes bytes = {block, cut};
		struct wn__reader *reader;

		expect(!wn__reader_is_foreign(recipe, bytes));
		reader = wn__reader_open(recipe, bytes);
		expect(wn__reader_query(reader, "a key", 5));
		expect(wn__reader_query(reader, "another", 7));
		wn__reader_close(reader);
	}
	wn_rocksdb_filterpolicy_stats(shown, &stats);
	ck_assert_uint_eq(stats.readers_refused, size);
	wn__shim_delete(block);
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

/* ---- the builder -------------------------------------------------------- */

static bool block_has(struct wn__recipe *recipe, struct wn__bytes block, const char *key)
{
	struct wn__reader *reader = wn__reader_open(recipe, block);
	const struct wn__bytes bytes = text_bytes(key), *batch = &bytes;
	bool answer = false, alone = wn__reader_query(reader, bytes.data, bytes.size);

	ck_assert_ptr_nonnull(reader);
	wn__reader_query_batch(reader, &batch, 1, &answer);
	expect(answer == alone);
	wn__reader_close(reader);
	return answer;
}

START_TEST(a_builder_serves_one_partition_after_the_other)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	void *builder = wn__builder_create(recipe, _i);
	char key[32];

	for (int partition = 0; partition < 20; partition++) {
		struct wn__bytes bytes;
		void *block;

		for (int i = 0; i <= 10 * partition; i++) {
			snprintf(key, sizeof(key), "%d/%d", partition, i);
			wn__builder_add(builder, text_bytes(key));
		}
		ck_assert_uint_eq(wn__builder_count(builder), 10 * (size_t)partition + 1);
		wn__builder_finish(builder, &block, &bytes.size);
		bytes.data = block;
		ck_assert_uint_eq(wn__builder_count(builder), 0);
		if (_i)
			ck_assert(wn__builder_verify(builder, bytes));
		ck_assert(block_has(recipe, bytes, key));
		snprintf(key, sizeof(key), "%d/0", partition);
		ck_assert(block_has(recipe, bytes, key));
		wn__shim_delete(block);
	}
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(verify_sees_a_filter_with_a_key_missing)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	void *builder = wn__builder_create(recipe, true);
	void *other = wn__builder_create(recipe, true);
	void *block, *wrong;
	size_t size, wrong_size;

	wn__builder_add(builder, text_bytes("a"));
	wn__builder_add(other, text_bytes("b"));
	wn__builder_finish(builder, &block, &size);
	wn__builder_finish(other, &wrong, &wrong_size);
	ck_assert(wn__builder_verify(builder, (struct wn__bytes){block, size}));
	ck_assert(!wn__builder_verify(builder, (struct wn__bytes){wrong, wrong_size}));
	ck_assert(!wn__builder_verify(builder, (struct wn__bytes){block, size - 1}));
	wn__shim_delete(block);
	wn__shim_delete(wrong);
	wn__builder_destroy(builder);
	wn__builder_destroy(other);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(keys_and_prefixes_in_turn_are_counted_once)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	void *builder = wn__builder_create(recipe, false), *block;
	struct wn__bytes bytes;

	wn__builder_add_with_prefix(builder, text_bytes("aa1"), text_bytes("aa"));
	wn__builder_add_with_prefix(builder, text_bytes("aa1"), text_bytes("aa"));
	wn__builder_add_with_prefix(builder, text_bytes("aa2"), text_bytes("aa"));
	wn__builder_add_with_prefix(builder, text_bytes("bb"), text_bytes("bb"));
	ck_assert_uint_le(wn__builder_count(builder), 5);
	wn__builder_finish(builder, &block, &bytes.size);
	bytes.data = block;
	ck_assert(block_has(recipe, bytes, "aa1") && block_has(recipe, bytes, "aa2"));
	ck_assert(block_has(recipe, bytes, "aa") && block_has(recipe, bytes, "bb"));
	wn__shim_delete(block);
	/* A new partition: what came last in the one before must be added again. */
	wn__builder_add_with_prefix(builder, text_bytes("bb1"), text_bytes("bb"));
	wn__builder_finish(builder, &block, &bytes.size);
	bytes.data = block;
	ck_assert(block_has(recipe, bytes, "bb") && block_has(recipe, bytes, "bb1"));
	wn__builder_add_with_prefix(builder, text_bytes("bb1"), text_bytes("b"));
	wn__shim_delete(block);
	wn__builder_finish(builder, &block, &bytes.size);
	bytes.data = block;
	ck_assert(block_has(recipe, bytes, "b") && block_has(recipe, bytes, "bb1"));
	ck_assert(!block_has(recipe, bytes, "aa"));
	wn__shim_delete(block);
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(space_and_keys_are_estimated_well)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	void *builder = wn__builder_create(recipe, false);

	for (size_t keys = 300; keys < 1000000; keys *= 3) {
		size_t space = wn__builder_space_for_keys(builder, keys), size, back;
		void *block;

		for (size_t i = 0; i < keys; i++)
			wn__builder_add(builder, (struct wn__bytes){&i, sizeof(i)});
		wn__builder_finish(builder, &block, &size);
		wn__shim_delete(block);
		ck_assert_uint_le(space, size + size / 10 + 150);
		ck_assert_uint_ge(space, size - size / 10 - 150);
		back = wn__builder_keys_for_space(builder, space);
		ck_assert_uint_ge(back, keys);
		ck_assert_uint_le(back, keys + 2);
	}
	ck_assert_uint_eq(wn__builder_keys_for_space(builder, 100), 0);
	ck_assert_double_gt(wn__builder_expected_rate(builder), 0.001);
	ck_assert_double_lt(wn__builder_expected_rate(builder), 0.003);
	wn__builder_destroy(builder);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

/* ---- the reader ---------------------------------------------------------- */

#define SIZES 71

/* Key `number` of a size; at most 100 of each are stored. */
static void fill_key(unsigned char *key, size_t size, uint64_t number)
{
	uint64_t random = size << 32 | number;

	for (size_t i = 0; i < size; i++)
		key[i] = (unsigned char)test_random(&random);
}

static struct wn__reader *build_reader(struct wn__recipe *recipe, void **blockp)
{
	void *builder = wn__builder_create(recipe, false);
	unsigned char key[SIZES];
	struct wn__reader *reader;
	size_t size;

	for (size_t i = 0; i < 100 * SIZES; i++) {
		fill_key(key, i % SIZES, i / SIZES);
		wn__builder_add(builder, (struct wn__bytes){key, i % SIZES});
	}
	wn__builder_finish(builder, blockp, &size);
	reader = wn__reader_open(recipe, (struct wn__bytes){*blockp, size});
	ck_assert_ptr_nonnull(reader);
	wn__builder_destroy(builder);
	return reader;
}

/* In a frame of this key, and of another of the same size that was hashed there. */
static bool ask_in_frames(const struct wn__reader *reader, const struct wn__policy *policy,
			  const unsigned char *key, size_t size)
{
	bool answer = wn__reader_query(reader, key, size);
	unsigned char *copy = malloc(size + 1), other[SIZES];
	struct wn__lookup lookup;

	memcpy(copy, key, size);
	for (unsigned hashed = 0; hashed < 2; hashed++) {
		wn__lookup_begin(&lookup, policy->registry, policy->secret, key, size);
		if (hashed)
			wn__lookup_hash_short(&lookup);
		for (unsigned round = 0; round < 3; round++)
			expect(wn__reader_query(reader, copy, size) == answer);
		expect(lookup.queries == 3);
		wn__current_lookup = lookup.outer;
	}
	for (size_t at = 0; at < size; at++) {
		memcpy(other, key, size);
		other[at] ^= 1;
		wn__lookup_begin(&lookup, policy->registry, policy->secret, other, size);
		wn__reader_query(reader, other, size);
		expect(wn__reader_query(reader, copy, size) == answer);
		wn__current_lookup = lookup.outer;
	}
	free(copy);
	return answer;
}

START_TEST(keys_of_every_size_are_found_in_every_frame)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	struct wn__reader *reader;
	unsigned char key[SIZES];
	unsigned maybes = 0;
	void *block;

	reader = build_reader(recipe, &block);
	for (size_t size = 0; size < SIZES; size++) {
		for (uint64_t number = 0; number < 200; number++) {
			bool answer;

			fill_key(key, size, number);
			answer = ask_in_frames(reader, recipe->policy, key, size);
			expect(answer || number >= 100);
			/* Shorter ones may be stored under another number. */
			maybes += number >= 100 && size > 3 && answer;
		}
	}
	ck_assert_uint_lt(maybes, 100);
	wn__reader_close(reader);
	wn__shim_delete(block);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

START_TEST(batches_of_all_sizes_answer_as_single_questions)
{
	rocksdb_filterpolicy_t *shown;
	struct wn__recipe *recipe = make_inner_policy(&shown);
	unsigned char keys[WN__MAX_BATCH][SIZES];
	struct wn__bytes bytes[WN__MAX_BATCH];
	const struct wn__bytes *batch[WN__MAX_BATCH];
	bool answers[WN__MAX_BATCH + 1];
	struct wn__reader *reader, *refused;
	void *block;

	reader = build_reader(recipe, &block);
	refused = wn__reader_open(recipe, (struct wn__bytes){"not a filter", 12});
	for (uint64_t number = 0; number < 3000; number++) {
		size_t count = number % (WN__MAX_BATCH + 1);

		for (size_t i = 0; i < count; i++) {
			size_t size = (number + i) % SIZES;

			fill_key(keys[i], size, (number / SIZES + i) % 200);
			bytes[i] = (struct wn__bytes){keys[i], size};
			batch[i] = &bytes[i];
		}
		memset(answers, 2, sizeof(answers));
		wn__reader_query_batch(reader, batch, count, answers);
		for (size_t i = 0; i < count; i++)
			expect(answers[i] == wn__reader_query(reader, keys[i], bytes[i].size));
		expect(((unsigned char *)answers)[count] == 2);
		memset(answers, 0, sizeof(answers));
		wn__reader_query_batch(refused, batch, count, answers);
		for (size_t i = 0; i < count; i++)
			expect(answers[i] && wn__reader_query(refused, keys[i], bytes[i].size));
	}
	wn__reader_close(refused);
	wn__reader_close(reader);
	wn__shim_delete(block);
	rocksdb_filterpolicy_destroy(shown);
}
END_TEST

/* ---- no memory ---------------------------------------------------------- */

START_TEST(a_refused_allocation_is_an_error_of_making_the_policy)
{
	rocksdb_filterpolicy_t *policy = NULL;
	int err = ENOMEM;
	uint64_t nth;

	for (nth = 1; nth < 1000 && err; nth++) {
		wn__alloc_fail_at(nth);
		err = wn_rocksdb_filterpolicy("aqf", NULL, &policy);
		wn__alloc_fail_at(0);
		ck_assert(err == 0 || err == ENOMEM);
		ck_assert((policy == NULL) == (err != 0));
	}
	ck_assert_uint_gt(nth, 5);
	ck_assert_uint_lt(nth, 1000);
	rocksdb_filterpolicy_destroy(policy);
}
END_TEST

/* RocksDB's thread builds a table, and the nth allocation fails: a filter less, no key less. */
static bool flush_without_memory(const char *name, const struct db_setup *setup, uint64_t nth)
{
	const uint64_t end = 1000;
	struct db db = db_open(name, setup);
	struct wn_stats stats;

	db_put(&db, 0, end);
	wn__alloc_fail_at(nth);
	db_flush(&db);
	wn__alloc_fail_at(0);
	db_expect_right(&db, 0, end);
	stats = db_stats(&db);
	db_close(&db);
	reopen_and_expect(name, setup, end, false);
	reopen_and_expect(name, nth % 2 ? &bloom : &none, end, false);
	return stats.filters_given_up + stats.readers_refused > 0;
}

START_TEST(a_table_built_without_memory_loses_no_key)
{
	struct db_setup setup = winnow;
	uint64_t nth = 0;
	bool failed = true;

	setup.partitioned = _i;
	while (failed) {
		char name[64];

		snprintf(name, sizeof(name), "memory_%d_%d", _i, (int)++nth);
		failed = flush_without_memory(name, &setup, nth);
	}
	fprintf(stderr, "%" PRIu64 " allocations failed, one at a time\n", nth - 1);
	ck_assert_uint_ge(nth, 8);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_filters");
	TCase *builder = tcase_create("builder");
	TCase *damage = tcase_create("damage");
	int result;

	test_make_top();
	suite_add_tcase(suite, builder);
	suite_add_tcase(suite, damage);
	tcase_add_loop_test(builder, a_builder_serves_one_partition_after_the_other, 0, 2);
	tcase_add_test(builder, verify_sees_a_filter_with_a_key_missing);
	tcase_add_test(builder, keys_and_prefixes_in_turn_are_counted_once);
	tcase_add_test(builder, space_and_keys_are_estimated_well);
	tcase_add_test(builder, keys_of_every_size_are_found_in_every_frame);
	tcase_add_test(builder, batches_of_all_sizes_answer_as_single_questions);
	tcase_add_loop_test(damage, a_damaged_header_means_maybe, 0, 22);
	tcase_add_loop_test(damage, a_damaged_filter_loses_no_key, 0, 5);
	tcase_add_test(damage, a_block_cut_anywhere_says_maybe);
	tcase_add_test(damage, a_refused_allocation_is_an_error_of_making_the_policy);
	tcase_add_loop_test(damage, a_table_built_without_memory_loses_no_key, 0, 2);
	result = test_run(suite);
	test_remove_top();
	return result;
}
