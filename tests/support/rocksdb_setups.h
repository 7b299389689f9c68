/* rocksdb_setups.h - databases with filters of several makes. */
#ifndef WN_TESTS_ROCKSDB_SETUPS_H
#define WN_TESTS_ROCKSDB_SETUPS_H

#include "tests/support/rocksdb_db.h"

/* Left to itself, RocksDB would write tables anew under the policy it was just opened with. */
static const struct db_setup winnow = {.name = "winnow", .winnow = "aqf", .no_compaction = true};
static const struct db_setup bloom = {.name = "bloom", .stock = STOCK_BLOOM,
				      .no_compaction = true};

static const struct db_setup none = {.name = "none", .no_compaction = true};

/* ---- what the filters do ------------------------------------------------ */

struct asked {
	uint64_t positives, negatives;
};

static inline struct asked filter_answers(rocksdb_perfcontext_t *context)
{
	return (struct asked){
		rocksdb_perfcontext_metric(context, rocksdb_bloom_sst_hit_count),
		rocksdb_perfcontext_metric(context, rocksdb_bloom_sst_miss_count),
	};
}

/* Ask for absent keys; what did the filters say? */
static inline struct asked ask_absent(struct db *db, uint64_t end)
{
	rocksdb_perfcontext_t *context = rocksdb_perfcontext_create();
	struct asked asked;

	rocksdb_set_perf_level(rocksdb_enable_count);
	rocksdb_perfcontext_reset(context);
	for (uint64_t number = 1; number < end; number += 2)
		expect(!db_has(db, number));
	asked = filter_answers(context);
	rocksdb_set_perf_level(rocksdb_disable);
	rocksdb_perfcontext_destroy(context);
	return asked;
}

/* ---- beside RocksDB's own filters --------------------------------------- */

static inline void reopen_and_expect(const char *name, const struct db_setup *setup, uint64_t end,
				     bool filtered)
{
	struct db db = db_open(name, setup);

	db_expect_right(&db, 0, end);
	if (filtered)
		ck_assert_uint_gt(ask_absent(&db, end).negatives, 1000);
	db_close(&db);
}

static inline void add_table(const char *name, const struct db_setup *setup, uint64_t first,
			     uint64_t end)
{
	struct db db = db_open(name, setup);

	db_put(&db, first, end);
	db_flush(&db);
	db_close(&db);
}

#endif /* WN_TESTS_ROCKSDB_SETUPS_H */
