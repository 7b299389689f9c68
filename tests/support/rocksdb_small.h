/* rocksdb_small.h - databases with small tables: flushes and compactions all the time. */
#ifndef WN_TESTS_ROCKSDB_SMALL_H
#define WN_TESTS_ROCKSDB_SMALL_H

#include "tests/support/rocksdb_stores.h"

static const struct db_setup plain = {.name = "plain"};

/* Small tables: flushes and compactions are under way most of the time. */
static inline void set_small(rocksdb_options_t *options)
{
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
	rocksdb_options_set_target_file_size_base(options, 32 << 10);
	rocksdb_options_set_max_bytes_for_level_base(options, 128 << 10);
	rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
}

/* What is stored under the number; 0: nothing. */
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

/* ---- killed, and what was learned --------------------------------------- */

static inline void set_still(rocksdb_options_t *options)
{
	rocksdb_options_set_disable_auto_compactions(options, 1);
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
}

static inline struct learner open_still(const char *path, const struct learner_store *store)
{
	struct wn_rocksdb_options options = learner_options(store);

	return learner_open(path, &plain, set_still, 1, &options);
}

#endif /* WN_TESTS_ROCKSDB_SMALL_H */
