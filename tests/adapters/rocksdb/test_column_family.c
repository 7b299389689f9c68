/* test_column_family.c - key lists in a column family of a real database. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall(), nftw() */
#endif
#include <errno.h>
#include <pthread.h>

#include "kinds/shape.h"
#include "base/alloc.h"
#include "tests/support/family_map.h"

/* Bytes of the family's files. */
static uint64_t file_bytes(struct database *database)
{
	rocksdb_column_family_metadata_t *metadata =
		rocksdb_get_column_family_metadata_cf(database->db, database->handles[1]);
	uint64_t size = rocksdb_column_family_metadata_get_size(metadata);

	rocksdb_column_family_metadata_destroy(metadata);
	return size;
}

static const struct shape {
	uint64_t count, slots;
	unsigned remainder_bits;
} shapes[] = {
	{0, 1, 2}, {1, 1, 2}, {503, 530, 4}, {504, 530, 4}, {5000, 1, 2}, {5000, 5264, 9},
};

#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

START_TEST(runs_are_found_also_after_reopening)
{
	struct database database = open_database();
	struct sample samples[SHAPE_COUNT];

	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		samples[i] = make_sample(i, shapes[i].count, shapes[i].slots,
					 shapes[i].remainder_bits);
		put(&database, &samples[i]);
		assert_count(&database, i + 1);
	}
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < SHAPE_COUNT; i++) {
			expect_list(database.map, &samples[i], 1);
			expect_stream(database.map, &samples[i]);
		}
		close_database(&database);
		database = open_database();
		assert_count(&database, SHAPE_COUNT);
	}
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		free_sample(&samples[i]);
	close_database(&database);
}
END_TEST

START_TEST(a_dropped_run_is_gone_with_its_file)
{
	struct database database = open_database();
	struct sample samples[10];
	struct wn__keylist_entry entry;
	uint64_t full;

	for (unsigned i = 0; i < 10; i++) {
		samples[i] = make_sample(i, 5000, 5264, 9);
		put(&database, &samples[i]);
	}
	full = file_bytes(&database);
	ck_assert_uint_gt(full, 10 * 5000 * 8);
	for (unsigned i = 0; i < 10; i += 2)
		ck_assert_int_eq(wn__map_drop(database.map, samples[i].list.id), 0);
	assert_count(&database, 5);
	ck_assert_uint_le(file_bytes(&database), full / 2 + 1000);
	for (unsigned i = 0; i < 10; i++) {
		if (i % 2) {
			expect_list(database.map, &samples[i], 1);
		} else {
			ck_assert_int_eq(wn__map_lookup(database.map, &samples[i].list, 0, 0,
							 &entry),
					 WN_ERR_NOT_FOUND);
			ck_assert_int_eq(wn__map_drop(database.map, samples[i].list.id),
					 WN_ERR_NOT_FOUND);
		}
		free_sample(&samples[i]);
	}
	close_database(&database);
}
END_TEST

static size_t count_tables(struct database *database)
{
	rocksdb_column_family_metadata_t *metadata =
		rocksdb_get_column_family_metadata_cf(database->db, database->handles[1]);
	size_t count = rocksdb_column_family_metadata_get_file_count(metadata);

	rocksdb_column_family_metadata_destroy(metadata);
	return count;
}

/* So many samples whose ids begin alike, in any order. */
#define TOGETHER 40

static void make_table(uint64_t number, struct sample *samples, struct wn__keylist_put *puts)
{
	for (unsigned i = 0; i < TOGETHER; i++) {
		unsigned place = i * 7 % TOGETHER;

		samples[i] = make_sample(number * TOGETHER + i, 600, 632, 9);
		memcpy(samples[i].list.id, &number, 8);
		samples[i].list.id[8] = (unsigned char)i;
		puts[place] = (struct wn__keylist_put){&samples[i].list, samples[i].uppers, 0};
	}
}

START_TEST(runs_of_a_table_share_a_file_and_go_with_it)
{
	struct database database = open_database();
	struct sample samples[3][TOGETHER];
	struct wn__keylist_put puts[TOGETHER];
	unsigned char ids[TOGETHER][WN_BLOCK_ID_SIZE];
	struct wn__keylist_entry entry;
	size_t dropped;

	for (unsigned table = 0; table < 3; table++) {
		make_table(table, samples[table], puts);
		wn__map_put_many(database.map, puts, TOGETHER);
		for (unsigned i = 0; i < TOGETHER; i++)
			ck_assert_int_eq(puts[i].err, 0);
	}
	assert_count(&database, 3 * TOGETHER);
	ck_assert_uint_eq(count_tables(&database), 3);
	for (unsigned i = 0; i < TOGETHER; i++) {
		memcpy(ids[i], samples[1][i].list.id, sizeof(ids[i]));
		expect_list(database.map, &samples[1][i], 17);
		expect_stream(database.map, &samples[1][i]);
	}
	/* One by itself leaves the others where they are. */
	ck_assert_int_eq(wn__map_drop(database.map, samples[2][5].list.id), 0);
	dropped = wn__map_drop_many(database.map, (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids,
				     TOGETHER);
	ck_assert_uint_eq(dropped, TOGETHER);
	ck_assert_uint_eq(count_tables(&database), 2);
	for (unsigned round = 0; round < 2; round++) {
		assert_count(&database, 2 * TOGETHER - 1);
		for (unsigned i = 0; i < TOGETHER; i++) {
			expect_list(database.map, &samples[0][i], 17);
			expect(wn__map_lookup(database.map, &samples[1][i].list, 0, 0, &entry) ==
			       WN_ERR_NOT_FOUND);
			if (i != 5)
				expect_list(database.map, &samples[2][i], 17);
		}
		close_database(&database);
		database = open_database();
	}
	for (unsigned i = 0; i < 3 * TOGETHER; i++)
		free_sample(&samples[i / TOGETHER][i % TOGETHER]);
	close_database(&database);
}
END_TEST

START_TEST(a_run_put_again_is_replaced_and_dropped_whole)
{
	struct database database = open_database();
	struct sample large = make_sample(1, 5000, 5264, 9), small = make_sample(2, 100, 106, 9);

	memcpy(small.list.id, large.list.id, sizeof(large.list.id));
	put(&database, &large);
	put(&database, &small);
	assert_count(&database, 1);
	expect_list(database.map, &small, 1);
	expect_stream(database.map, &small);
	ck_assert_int_eq(wn__map_drop(database.map, small.list.id), 0);
	assert_count(&database, 0);
	put(&database, &large);
	expect_list(database.map, &large, 1);
	ck_assert_int_eq(wn__map_drop(database.map, large.list.id), 0);
	assert_count(&database, 0);
	close_database(&database);
	free_sample(&large);
	free_sample(&small);
}
END_TEST

#define KEY_SIZE (WN_BLOCK_ID_SIZE + 8 + 4)

/* The key of a page of the sample: formats.md by hand. */
static void make_key(const struct sample *sample, unsigned page, char *key)
{
	uint64_t last = 503 + 511 * (uint64_t)page - 1;
	uint64_t upper;

	if (last >= sample->list.key_count)
		last = sample->list.key_count - 1;
	upper = sample->uppers[last];
	memset(key, 0, KEY_SIZE);
	memcpy(key, sample->list.id, WN_BLOCK_ID_SIZE);
	for (unsigned i = 0; i < 8; i++)
		key[WN_BLOCK_ID_SIZE + i] = (char)(upper >> 8 * (7 - i));
	key[KEY_SIZE - 1] = (char)page;
}

/* Write a page of the sample over: under its own key, or as if it were another's. */
static void write_value(struct database *database, const struct sample *sample, unsigned page,
			const char *value, size_t size)
{
	rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
	char key[KEY_SIZE], *text = NULL;

	make_key(sample, page, key);
	rocksdb_put_cf(database->db, options, database->handles[1], key, sizeof(key), value, size,
		       &text);
	ck_assert_ptr_null(text);
	rocksdb_writeoptions_destroy(options);
}

static char *read_value(struct database *database, const struct sample *sample, unsigned page,
			size_t *sizep)
{
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();
	char key[KEY_SIZE], *text = NULL, *value;

	make_key(sample, page, key);
	value = rocksdb_get_cf(database->db, options, database->handles[1], key, sizeof(key), sizep,
			       &text);
	ck_assert_ptr_null(text);
	ck_assert_ptr_nonnull(value);
	rocksdb_readoptions_destroy(options);
	return value;
}

static int look_up(struct database *database, const struct sample *sample, uint64_t index)
{
	struct wn__keylist_entry entry;

	return wn__map_lookup(database->map, &sample->list,
			       minirun_by_hand(&sample->list, sample->uppers[index]), 0, &entry);
}

/* Headers are read when the store is opened. */
static void reopen_store(struct database *database)
{
	wn__map_destroy(database->map);
	ck_assert_int_eq(wn__map_column_family_open(database->db, database->handles[1], scratch,
						     &database->map),
			 0);
}

START_TEST(damaged_and_misplaced_pages_are_refused)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 2500, 2632, 30);
	struct sample other = make_sample(2, 2500, 2632, 30);
	size_t size;
	char *page;

	put(&database, &sample);
	put(&database, &other);
	page = read_value(&database, &sample, 2, &size);
	page[100] ^= 1;
	write_value(&database, &sample, 2, page, size);
	ck_assert_int_eq(look_up(&database, &sample, 1200), WN_ERR_CORRUPT);
	page[100] ^= 1;
	write_value(&database, &sample, 2, page, size - 1);
	ck_assert_int_eq(look_up(&database, &sample, 1200), WN_ERR_CORRUPT);
	write_value(&database, &sample, 2, page, size);
	ck_assert_int_eq(look_up(&database, &sample, 1200), 0);
	write_value(&database, &other, 2, page, size);
	ck_assert_int_eq(look_up(&database, &other, 1200), WN_ERR_CORRUPT);
	rocksdb_free(page);
	page = read_value(&database, &sample, 0, &size);
	write_value(&database, &other, 0, page, size);
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_CORRUPT);
	reopen_store(&database);
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_MISMATCH);
	write_value(&database, &other, 0, page, 10);
	reopen_store(&database);
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_CORRUPT);
	ck_assert_int_eq(look_up(&database, &sample, 1200), 0);
	/* What cannot be read can be dropped. */
	ck_assert_int_eq(wn__map_drop(database.map, other.list.id), 0);
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_NOT_FOUND);
	rocksdb_free(page);
	close_database(&database);
	free_sample(&sample);
	free_sample(&other);
}
END_TEST

static void delete_page(struct database *database, const struct sample *sample, unsigned page)
{
	rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
	char key[KEY_SIZE], *text = NULL;

	make_key(sample, page, key);
	rocksdb_delete_cf(database->db, options, database->handles[1], key, sizeof(key), &text);
	ck_assert_ptr_null(text);
	rocksdb_writeoptions_destroy(options);
}

/* 8 bytes a hash: 503 on the first page, 511 on the others. A key list that is dropped while it is
 * read loses its pages in any order. */
START_TEST(a_page_that_is_missing_proves_nothing)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 2500, 2500, WN__PLAIN_REMAINDER_BITS);

	put(&database, &sample);
	ck_assert_uint_gt(expect_gaps(database.map, &sample, 2500, 2500), 2400);
	for (unsigned page = 5; page-- > 0;) {
		uint64_t first = page ? 503 + (page - 1) * 511 : 0;

		delete_page(&database, &sample, page);
		expect_gaps(database.map, &sample, first, 2500);
	}
	close_database(&database);
	free_sample(&sample);
}
END_TEST

/* Keys are a hint. A page that stands where another minirun's first page should be must not
 * be taken for it: ranks would be counted from the wrong hash. */
START_TEST(a_key_that_lies_does_not_shift_ranks)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 2500, 1, 2); /* 4 miniruns, on 5 pages */
	uint64_t minirun = minirun_by_hand(&sample.list, sample.uppers[1300]), start = 1300;
	struct wn__keylist_entry entry;
	size_t size;
	char *page;
	int err;

	put(&database, &sample);
	while (minirun_by_hand(&sample.list, sample.uppers[start - 1]) == minirun)
		start--;
	page = read_value(&database, &sample, 3, &size);
	expect(start < 503 + 2 * 511);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t *last = &sample.uppers[503 + 3 * 511 - 1], true_last = *last;

		/* In front of the first page of the minirun, or of a later one. */
		*last = sample.uppers[start + i];
		write_value(&database, &sample, 3, page, size);
		*last = true_last;
		err = wn__map_lookup(database.map, &sample.list, minirun, 0, &entry);
		if (!err)
			expect(is_entry(&entry, sample.uppers[start]));
	}
	rocksdb_free(page);
	close_database(&database);
	free_sample(&sample);
}
END_TEST

START_TEST(runs_with_keys_of_another_version_are_listed_and_dropped)
{
	struct database database = open_database();
	rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
	struct sample sample = make_sample(1, 2500, 2632, 9);
	char key[WN_BLOCK_ID_SIZE + 4] = {0}, *text = NULL;
	struct wn__keylist_info *infos;
	size_t count;

	memcpy(key, sample.list.id, WN_BLOCK_ID_SIZE);
	rocksdb_put_cf(database.db, options, database.handles[1], key, sizeof(key), "page", 4,
		       &text);
	ck_assert_ptr_null(text);
	reopen_store(&database);
	ck_assert_int_eq(wn__map_list(database.map, &infos, &count), 0);
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(infos[0].error, WN_ERR_VERSION);
	ck_assert_mem_eq(infos[0].list.id, sample.list.id, WN_BLOCK_ID_SIZE);
	free(infos);
	ck_assert_int_eq(look_up(&database, &sample, 0), WN_ERR_VERSION);
	ck_assert_int_eq(wn__map_drop(database.map, sample.list.id), 0);
	reopen_store(&database);
	assert_count(&database, 0);
	put(&database, &sample);
	expect_list(database.map, &sample, 1);
	rocksdb_writeoptions_destroy(options);
	close_database(&database);
	free_sample(&sample);
}
END_TEST

/* Whatever is not in memory is one block, however long the key list is. */
START_TEST(a_lookup_reads_one_page)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	struct sample sample = make_sample(1, 1000000, 1052632, 9);
	uint64_t state = 1, lookups = 5000, blocks;
	rocksdb_perfcontext_t *context;
	struct wn__map_stats stats;
	struct database database;

	rocksdb_block_based_options_set_no_block_cache(table, 1);
	table_options = table;
	database = open_database();
	put(&database, &sample);
	rocksdb_set_perf_level(rocksdb_enable_count);
	context = rocksdb_perfcontext_create();
	rocksdb_perfcontext_reset(context);
	for (uint64_t i = 0; i < lookups; i++) {
		uint64_t upper = sample.uppers[test_random(&state) % sample.list.key_count];
		struct wn__keylist_entry entries[64];
		size_t count;

		expect(wn__map_lookup_minirun(database.map, &sample.list,
					       minirun_by_hand(&sample.list, upper), 0, entries, 64,
					       &count) == WN__MAP_NO_PLACE);
		expect(count > 0);
	}
	blocks = rocksdb_perfcontext_metric(context, rocksdb_block_read_count);
	wn__map_stats(database.map, &stats);
	fprintf(stderr, "%.3f pages and %.3f blocks a lookup\n",
		(double)stats.reads / (double)lookups, (double)blocks / (double)lookups);
	ck_assert_uint_lt(stats.reads, lookups + lookups / 20);
	ck_assert_uint_ge(blocks, lookups);
	ck_assert_uint_lt(blocks, lookups + lookups / 20);
	rocksdb_perfcontext_destroy(context);
	close_database(&database);
	rocksdb_block_based_options_destroy(table);
	free_sample(&sample);
}
END_TEST

/* ---- whose file is it? -------------------------------------------------- */

START_TEST(memory_refused_changes_nothing)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 600, 632, 9);
	struct wn__keylist_info *infos;
	size_t count;
	int err = ENOMEM;

	for (unsigned at = 1; err; at++) {
		assert_count(&database, 0);
		wn__alloc_fail_at(at);
		err = wn__map_put(database.map, &sample.list, sample.uppers);
		wn__alloc_fail_at(0);
		ck_assert(!err || err == ENOMEM);
	}
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__map_list(database.map, &infos, &count), ENOMEM);
	wn__alloc_fail_at(0);
	ck_assert_ptr_null(infos);
	expect_list(database.map, &sample, 1);
	ck_assert_uint_eq(wn__alloc_calls(), 0);
	close_database(&database);
	free_sample(&sample);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

#define SHARED_RUNS 4

struct shared {
	struct wn__map *map;
	struct sample samples[SHARED_RUNS];
	bool done;
	uint64_t found, wrong;
};

static void *look_up_all_day(void *arg)
{
	struct shared *shared = arg;

	for (uint64_t i = 0; !__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE); i++) {
		const struct sample *sample = &shared->samples[i % SHARED_RUNS];
		uint64_t upper = sample->uppers[i % sample->list.key_count];
		struct wn__keylist_entry entry;
		int err = wn__map_lookup(shared->map, &sample->list,
					  minirun_by_hand(&sample->list, upper), 0, &entry);

		if (!err && is_entry(&entry, upper))
			__atomic_fetch_add(&shared->found, 1, __ATOMIC_RELAXED);
		else if (err != WN_ERR_NOT_FOUND)
			__atomic_fetch_add(&shared->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

START_TEST(lookups_are_right_while_runs_come_and_go)
{
	struct database database = open_database();
	struct shared shared = {.map = database.map};
	unsigned rounds = test_is_quick() ? 20 : 100;
	pthread_t threads[2];

	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		shared.samples[i] = make_sample(i, 1500, 1579, 32);
		put(&database, &shared.samples[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, look_up_all_day, &shared), 0);
	for (unsigned i = 0; i < rounds; i++) {
		const struct sample *sample = &shared.samples[i % SHARED_RUNS];

		ck_assert_int_eq(wn__map_drop(shared.map, sample->list.id), 0);
		put(&database, sample);
	}
	__atomic_store_n(&shared.done, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(shared.wrong, 0);
	ck_assert_uint_gt(shared.found, 0);
	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		expect_list(shared.map, &shared.samples[i], 1);
		free_sample(&shared.samples[i]);
	}
	close_database(&database);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("column family");
	TCase *tests = tcase_create("column family");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, runs_are_found_also_after_reopening);
	tcase_add_test(tests, a_dropped_run_is_gone_with_its_file);
	tcase_add_test(tests, runs_of_a_table_share_a_file_and_go_with_it);
	tcase_add_test(tests, a_run_put_again_is_replaced_and_dropped_whole);
	tcase_add_test(tests, damaged_and_misplaced_pages_are_refused);
	tcase_add_test(tests, a_page_that_is_missing_proves_nothing);
	tcase_add_test(tests, a_key_that_lies_does_not_shift_ranks);
	tcase_add_test(tests, runs_with_keys_of_another_version_are_listed_and_dropped);
	tcase_add_test(tests, a_lookup_reads_one_page);
	tcase_add_test(tests, memory_refused_changes_nothing);
	tcase_add_test(tests, lookups_are_right_while_runs_come_and_go);
	return test_run(suite);
}
