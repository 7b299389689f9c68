/* test_column_family.c - runs in a column family of a real database. */
#include <errno.h>
#include <pthread.h>

#include "../reversemap/column_family.h"
#include "alloc.h"
#include "runs_common.h"

#define FAMILY "winnow.reversemap"

static char directory[PATH_MAX];
static char scratch[PATH_MAX + 16];

struct database {
	rocksdb_options_t *options;
	rocksdb_t *db;
	rocksdb_column_family_handle_t *handles[2];
	struct wn__runs *runs;
};

static void set_up(void)
{
	make_directory(directory);
	snprintf(scratch, sizeof(scratch), "%s/scratch", directory);
}

static void tear_down(void)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *text = NULL;

	ck_assert_uint_eq(count_files(scratch, ""), 0);
	ck_assert_int_eq(rmdir(scratch), 0);
	rocksdb_destroy_db(options, directory, &text);
	ck_assert_ptr_null(text);
	rocksdb_options_destroy(options);
	rmdir(directory); /* RocksDB may have done it */
}

static struct database open_database(void)
{
	static const char *const names[] = {"default", FAMILY};
	struct database database = {.options = rocksdb_options_create()};
	const rocksdb_options_t *options[] = {database.options, database.options};
	char *text = NULL;

	rocksdb_options_set_create_if_missing(database.options, 1);
	rocksdb_options_set_create_missing_column_families(database.options, 1);
	database.db = rocksdb_open_column_families(database.options, directory, 2, names, options,
						   database.handles, &text);
	ck_assert_ptr_null(text);
	ck_assert_int_eq(wn__runs_column_family_open(database.db, database.handles[1], scratch,
						     &database.runs),
			 0);
	return database;
}

static void close_database(struct database *database)
{
	wn__runs_destroy(database->runs);
	rocksdb_column_family_handle_destroy(database->handles[0]);
	rocksdb_column_family_handle_destroy(database->handles[1]);
	rocksdb_close(database->db);
	rocksdb_options_destroy(database->options);
}

static void put(struct database *database, const struct sample *sample, unsigned hash_bytes)
{
	ck_assert_int_eq(wn__runs_put(database->runs, &sample->run, sample->hashes, hash_bytes), 0);
}

static void assert_count(struct database *database, size_t count)
{
	struct wn__runs_stats stats;
	struct wn__run_info *infos;
	uint64_t bytes = 0;
	size_t listed;

	ck_assert_int_eq(wn__runs_list(database->runs, &infos, &listed), 0);
	ck_assert_uint_eq(listed, count);
	for (size_t i = 0; i < listed; i++) {
		ck_assert_int_eq(infos[i].error, 0);
		bytes += infos[i].bytes;
	}
	wn__runs_stats(database->runs, &stats);
	ck_assert_uint_eq(stats.runs, count);
	ck_assert_uint_eq(stats.bytes, bytes);
	free(infos);
}

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
		put(&database, &samples[i], (unsigned)_i);
		assert_count(&database, i + 1);
	}
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < SHAPE_COUNT; i++) {
			expect_run(database.runs, &samples[i], 1);
			expect_stream(database.runs, &samples[i]);
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
	struct wn__run_entry entry;
	uint64_t full;

	for (unsigned i = 0; i < 10; i++) {
		samples[i] = make_sample(i, 5000, 5264, 9);
		put(&database, &samples[i], 8);
	}
	full = file_bytes(&database);
	ck_assert_uint_gt(full, 10 * 5000 * 8);
	for (unsigned i = 0; i < 10; i += 2)
		ck_assert_int_eq(wn__runs_drop(database.runs, samples[i].run.id), 0);
	assert_count(&database, 5);
	ck_assert_uint_le(file_bytes(&database), full / 2 + 1000);
	for (unsigned i = 0; i < 10; i++) {
		if (i % 2) {
			expect_run(database.runs, &samples[i], 1);
		} else {
			ck_assert_int_eq(wn__runs_lookup(database.runs, &samples[i].run, 0, 0,
							 &entry),
					 WN_ERR_NOT_FOUND);
			ck_assert_int_eq(wn__runs_drop(database.runs, samples[i].run.id),
					 WN_ERR_NOT_FOUND);
		}
		free_sample(&samples[i]);
	}
	close_database(&database);
}
END_TEST

START_TEST(a_run_put_again_is_replaced_and_dropped_whole)
{
	struct database database = open_database();
	struct sample large = make_sample(1, 5000, 5264, 9), small = make_sample(2, 100, 106, 9);

	memcpy(small.run.id, large.run.id, sizeof(large.run.id));
	put(&database, &large, 16);
	put(&database, &small, 8);
	assert_count(&database, 1);
	expect_run(database.runs, &small, 1);
	expect_stream(database.runs, &small);
	ck_assert_int_eq(wn__runs_drop(database.runs, small.run.id), 0);
	assert_count(&database, 0);
	put(&database, &large, 16);
	expect_run(database.runs, &large, 1);
	ck_assert_int_eq(wn__runs_drop(database.runs, large.run.id), 0);
	assert_count(&database, 0);
	close_database(&database);
	free_sample(&large);
	free_sample(&small);
}
END_TEST

/* Write a page of the sample over: under its own key, or as if it were another's. */
static void write_value(struct database *database, const struct sample *sample, unsigned page,
			const char *value, size_t size)
{
	rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
	char key[WN_BLOCK_ID_SIZE + 4] = {0}, *text = NULL;

	memcpy(key, sample->run.id, WN_BLOCK_ID_SIZE);
	key[sizeof(key) - 1] = (char)page;
	rocksdb_put_cf(database->db, options, database->handles[1], key, sizeof(key), value, size,
		       &text);
	ck_assert_ptr_null(text);
	rocksdb_writeoptions_destroy(options);
}

static char *read_value(struct database *database, const struct sample *sample, unsigned page,
			size_t *sizep)
{
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();
	char key[WN_BLOCK_ID_SIZE + 4] = {0}, *text = NULL, *value;

	memcpy(key, sample->run.id, WN_BLOCK_ID_SIZE);
	key[sizeof(key) - 1] = (char)page;
	value = rocksdb_get_cf(database->db, options, database->handles[1], key, sizeof(key), sizep,
			       &text);
	ck_assert_ptr_null(text);
	ck_assert_ptr_nonnull(value);
	rocksdb_readoptions_destroy(options);
	return value;
}

static int look_up(struct database *database, const struct sample *sample, uint64_t index)
{
	struct wn__run_entry entry;

	return wn__runs_lookup(database->runs, &sample->run,
			       minirun_by_hand(&sample->run, sample->hashes[index]), 0, &entry);
}

START_TEST(damaged_and_misplaced_pages_are_refused)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 2500, 2632, 30);
	struct sample other = make_sample(2, 2500, 2632, 30);
	size_t size;
	char *page;

	put(&database, &sample, 8);
	put(&database, &other, 8);
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
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_MISMATCH);
	write_value(&database, &other, 0, page, 10);
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_CORRUPT);
	/* What cannot be read can be dropped. */
	ck_assert_int_eq(wn__runs_drop(database.runs, other.run.id), 0);
	ck_assert_int_eq(look_up(&database, &other, 0), WN_ERR_NOT_FOUND);
	rocksdb_free(page);
	close_database(&database);
	free_sample(&sample);
	free_sample(&other);
}
END_TEST

START_TEST(files_of_a_crash_are_swept)
{
	struct database database = open_database();
	char path[PATH_MAX + 64];
	FILE *file;

	close_database(&database);
	snprintf(path, sizeof(path), "%s/run-7.sst", scratch);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fclose(file);
	database = open_database();
	ck_assert_uint_eq(count_files(scratch, ""), 0);
	close_database(&database);
}
END_TEST

START_TEST(memory_refused_changes_nothing)
{
	struct database database = open_database();
	struct sample sample = make_sample(1, 600, 632, 9);
	struct wn__run_info *infos;
	size_t count;

	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__runs_put(database.runs, &sample.run, sample.hashes, 8), ENOMEM);
	wn__alloc_fail_at(0);
	assert_count(&database, 0);
	put(&database, &sample, 8);
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__runs_list(database.runs, &infos, &count), ENOMEM);
	wn__alloc_fail_at(0);
	ck_assert_ptr_null(infos);
	expect_run(database.runs, &sample, 1);
	ck_assert_uint_eq(wn__alloc_calls(), 0);
	close_database(&database);
	free_sample(&sample);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

#define SHARED_RUNS 4

struct shared {
	struct wn__runs *runs;
	struct sample samples[SHARED_RUNS];
	bool done;
	uint64_t found, wrong;
};

static void *look_up_all_day(void *arg)
{
	struct shared *shared = arg;

	for (uint64_t i = 0; !__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE); i++) {
		const struct sample *sample = &shared->samples[i % SHARED_RUNS];
		struct wn_hash hash = sample->hashes[i % sample->run.key_count];
		struct wn__run_entry entry;
		int err = wn__runs_lookup(shared->runs, &sample->run,
					  minirun_by_hand(&sample->run, hash), 0, &entry);

		if (!err && is_entry(&entry, hash))
			__atomic_fetch_add(&shared->found, 1, __ATOMIC_RELAXED);
		else if (err != WN_ERR_NOT_FOUND)
			__atomic_fetch_add(&shared->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

START_TEST(lookups_are_right_while_runs_come_and_go)
{
	struct database database = open_database();
	struct shared shared = {.runs = database.runs};
	unsigned rounds = test_is_quick() ? 20 : 100;
	pthread_t threads[2];

	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		shared.samples[i] = make_sample(i, 1500, 1579, 32);
		put(&database, &shared.samples[i], 8);
	}
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, look_up_all_day, &shared), 0);
	for (unsigned i = 0; i < rounds; i++) {
		const struct sample *sample = &shared.samples[i % SHARED_RUNS];

		ck_assert_int_eq(wn__runs_drop(shared.runs, sample->run.id), 0);
		put(&database, sample, 8);
	}
	__atomic_store_n(&shared.done, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(shared.wrong, 0);
	ck_assert_uint_gt(shared.found, 0);
	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		expect_run(shared.runs, &shared.samples[i], 1);
		free_sample(&shared.samples[i]);
	}
	close_database(&database);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("column family");
	TCase *tests = tcase_create("column family");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, runs_are_found_also_after_reopening, 8, 17);
	tcase_add_test(tests, a_dropped_run_is_gone_with_its_file);
	tcase_add_test(tests, a_run_put_again_is_replaced_and_dropped_whole);
	tcase_add_test(tests, damaged_and_misplaced_pages_are_refused);
	tcase_add_test(tests, files_of_a_crash_are_swept);
	tcase_add_test(tests, memory_refused_changes_nothing);
	tcase_add_test(tests, lookups_are_right_while_runs_come_and_go);
	return test_run(suite);
}
