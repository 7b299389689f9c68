/* rocksdb_learner.h - databases whose filters learn, for tests. */
#ifndef WN_TESTS_ROCKSDB_LEARNER_H
#define WN_TESTS_ROCKSDB_LEARNER_H

#include <dirent.h>

#include "rocksdb_db.h"

/* Short remainders: one query in some 20 is a false positive, of each table. */
#define SHORT "aqf:remainder_bits=4"

/* Set by those who want many. */
static bool many;

/* Even numbers are keys. */
static inline uint64_t numbers(void)
{
	return many && !test_is_quick() ? 400000 : 40000;
}

/* Absent numbers that are asked for: odd ones, from all over. */
static inline uint64_t absent_count(void)
{
	return numbers() / 20;
}

static inline uint64_t absent(uint64_t i)
{
	return i * (numbers() / absent_count()) | 1;
}

/* ---- databases that learn ----------------------------------------------- */

struct learner {
	struct db db;
	struct wn_rocksdb *wn;
};

static inline struct wn_rocksdb_options quickly(void)
{
	return (struct wn_rocksdb_options){
		.filter = SHORT,
		.queue_length = 1 << 17,
	};
}

static inline struct learner learner_open(const struct db_setup *setup,
				   const struct wn_rocksdb_options *options)
{
	struct learner learner = {.db.options = rocksdb_options_create()};
	char *error = NULL;

	db_set_options(&learner.db, setup);
	db_set_table(&learner.db, setup);
	if (many)
		rocksdb_options_set_write_buffer_size(learner.db.options, 1 << 20);
	rocksdb_options_set_uint64add_merge_operator(learner.db.options);
	learner.db.reading = rocksdb_readoptions_create();
	learner.db.rocks = wn_rocksdb_open(learner.db.options, test_path(setup->name), options,
					   &learner.wn, &error);
	expect_no(error);
	ck_assert_ptr_nonnull(learner.db.rocks);
	return learner;
}

static inline void learner_close(struct learner *learner)
{
	wn_rocksdb_close(learner->wn);
	rocksdb_readoptions_destroy(learner->db.reading);
	rocksdb_options_destroy(learner->db.options);
}

static inline struct learner learner_fill(const struct db_setup *setup,
				   const struct wn_rocksdb_options *options)
{
	struct learner learner = learner_open(setup, options);

	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	wn_rocksdb_drain(learner.wn);
	return learner;
}

static inline struct wn_stats learner_stats(struct learner *learner)
{
	struct wn_stats stats;

	wn_rocksdb_stats(learner->wn, &stats);
	return stats;
}

/* What is stored under the number, 0 for nothing; values are numbers and never 0. */
static inline uint64_t ask(struct learner *learner, uint64_t number)
{
	char key[DB_KEY_SIZE];
	char *error = NULL;
	uint64_t stored = 0;
	size_t size;
	char *value;

	db_key(number, key);
	value = wn_rocksdb_get(learner->wn, learner->db.reading, key, sizeof(key), &size, &error);
	expect_no(error);
	if (!value)
		return 0;
	expect(size == sizeof(stored));
	memcpy(&stored, value, sizeof(stored));
	rocksdb_free(value);
	return stored;
}

/* Ask for the absent numbers; how many false positives did that cost? */
static inline uint64_t ask_absent(struct learner *learner)
{
	uint64_t before = learner_stats(learner).false_positives, after;

	for (uint64_t i = 0; i < absent_count(); i++)
		expect(ask(learner, absent(i)) == 0);
	wn_rocksdb_drain(learner->wn);
	after = learner_stats(learner).false_positives;
	fprintf(stderr, "%" PRIu64 " false positives\n", after - before);
	return after - before;
}

static inline void expect_stored(struct learner *learner)
{
	for (uint64_t number = 2; number < numbers(); number += 2)
		expect(ask(learner, number) == number);
}

/* From here on tables stay as they are, whatever was going on: a compaction by hand waits for
 * those that are under way. */
static inline void stop_compactions(struct learner *learner)
{
	static const char *const name = "disable_auto_compactions", *const value = "true";
	char *error = NULL;

	rocksdb_set_options(learner->db.rocks, 1, &name, &value, &error);
	expect_no(error);
	db_compact(&learner->db);
	wn_rocksdb_drain(learner->wn);
}

static inline size_t count_tables(struct learner *learner)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(learner->db.rocks);
	int count = rocksdb_livefiles_count(files);

	rocksdb_livefiles_destroy(files);
	return (size_t)count;
}

/* Entries of a directory. */
static inline size_t count_entries(const char *path)
{
	DIR *stream = opendir(path);
	size_t count = 0;

	ck_assert_ptr_nonnull(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count - 2;
}

/* The filters do learn: wrong at first, and then no longer. */
static inline void expect_learning(struct learner *learner)
{
	ck_assert_uint_gt(ask_absent(learner), absent_count() / 100);
	ck_assert_uint_eq(ask_absent(learner), 0);
	ck_assert_uint_eq(learner_stats(learner).reversemap_misses, 0);
	expect_stored(learner);
}

#endif /* WN_TESTS_ROCKSDB_LEARNER_H */
