/* rocksdb_stores.h - databases that learn, for tests: in every store, with short remainders and
 * therefore many false positives, and asked when nothing moves in them. */
#ifndef WN_TESTS_ROCKSDB_STORES_H
#define WN_TESTS_ROCKSDB_STORES_H

#include "rocksdb_db.h"

#define TEST_PATH_SIZE 8192

/* Two parts and what is between them. */
static inline void test_join(char *path, const char *first, const char *between, const char *second)
{
	ck_assert_int_lt(snprintf(path, TEST_PATH_SIZE, "%s%s%s", first, between, second),
			 TEST_PATH_SIZE);
}

/* One query in some 20 is a false positive, of each table. */
#define LEARNER_FILTER "aqf:remainder_bits=4"

/* Where the reverse map is kept. */
static const struct learner_store {
	const char *name;
	enum wn_rocksdb_store store;
} learner_stores[] = {
	{"default", (enum wn_rocksdb_store)0},
	{"sidecar", WN_ROCKSDB_SIDECAR},
	{"memory", WN_ROCKSDB_MEMORY},
};

#define LEARNER_STORES ((int)(sizeof(learner_stores) / sizeof(learner_stores[0])))
#define LEARNER_MAX_FAMILIES 2

struct learner {
	struct db db; /* rocks, options, reading; and policy is not set */
	struct wn_rocksdb *wn;
	int family_count;
	rocksdb_column_family_handle_t *families[LEARNER_MAX_FAMILIES];
};

/* No false positive finds the queue full. */
static inline struct wn_rocksdb_options learner_options(const struct learner_store *store)
{
	return (struct wn_rocksdb_options){
		.filter = LEARNER_FILTER,
		.store = store->store,
		.queue_length = 1 << 17,
	};
}

/* `change`, if not NULL, has the last word on RocksDB's options. */
static inline struct learner learner_open(const char *path, const struct db_setup *setup,
					  void (*change)(rocksdb_options_t *), int family_count,
					  const struct wn_rocksdb_options *options)
{
	static const char *const names[LEARNER_MAX_FAMILIES] = {"default", "other"};
	struct learner learner = {.db.options = rocksdb_options_create()};
	const rocksdb_options_t *family_options[LEARNER_MAX_FAMILIES];
	char *error = NULL;

	db_set_options(&learner.db, setup);
	db_set_table(&learner.db, setup);
	rocksdb_options_set_create_missing_column_families(learner.db.options, 1);
	if (change)
		change(learner.db.options);
	for (int i = 0; i < family_count; i++)
		family_options[i] = learner.db.options;
	learner.family_count = family_count;
	learner.db.reading = rocksdb_readoptions_create();
	learner.db.rocks = wn_rocksdb_open_column_families(
		learner.db.options, path, family_count, names, family_options, learner.families,
		options, &learner.wn, &error);
	expect_no(error);
	ck_assert_ptr_nonnull(learner.db.rocks);
	return learner;
}

static inline void learner_close(struct learner *learner)
{
	for (int i = 0; i < learner->family_count; i++)
		rocksdb_column_family_handle_destroy(learner->families[i]);
	wn_rocksdb_close(learner->wn);
	rocksdb_readoptions_destroy(learner->db.reading);
	rocksdb_options_destroy(learner->db.options);
}

static inline struct wn_stats learner_stats(const struct learner *learner)
{
	struct wn_stats stats;

	wn_rocksdb_stats(learner->wn, &stats);
	return stats;
}

static inline void learner_flush(struct learner *learner)
{
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = NULL;

	for (int i = 0; i < learner->family_count; i++) {
		rocksdb_flush_cf(learner->db.rocks, flushing, learner->families[i], &error);
		expect_no(error);
	}
	rocksdb_flushoptions_destroy(flushing);
}

static inline void learner_compact(struct learner *learner)
{
	for (int i = 0; i < learner->family_count; i++)
		rocksdb_compact_range_cf(learner->db.rocks, learner->families[i], NULL, 0, NULL, 0);
}

static inline uint64_t learner_property(const struct learner *learner, const char *name)
{
	uint64_t value = 0;

	ck_assert_int_eq(rocksdb_property_int(learner->db.rocks, name, &value), 0);
	return value;
}

/* From here on no table comes or goes by itself; and everything is learned. */
static inline void learner_quiet(struct learner *learner)
{
	static const char *const keys[] = {"disable_auto_compactions"};
	static const char *const values[] = {"true"};
	char *error = NULL;

	for (int i = 0; i < learner->family_count; i++) {
		rocksdb_set_options_cf(learner->db.rocks, learner->families[i], 1, keys, values,
				       &error);
		expect_no(error);
	}
	learner_flush(learner);
	while (learner_property(learner, "rocksdb.num-running-compactions") > 0 ||
	       learner_property(learner, "rocksdb.num-running-flushes") > 0)
		usleep(1000);
	wn_rocksdb_drain(learner->wn);
}

#endif /* WN_TESTS_ROCKSDB_STORES_H */
