/* test_rocksdb_features.c - what RocksDB can do besides put and get, with filters that learn.
 *
 * Each database goes through the same life: keys are written, overwritten, merged, deleted in
 * three ways and written again, and after every step every number is asked for, there or not,
 * by the lookups that the filters learn from and by those they do not. A model says what is
 * right. Deleted keys are reported as false positives all the time; none may be hidden by it
 * when it is back. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/rocksdb_model.h"

/* ---- the model ---------------------------------------------------------- */

static struct model model_copy(const struct model *model)
{
	struct model copy = model_create(model->count);

	memcpy(copy.values, model->values, model->count * sizeof(*model->values));
	return copy;
}

/* ---- writing ------------------------------------------------------------ */

static void merge(struct subject *subject, int family, uint64_t number)
{
	uint64_t more = subject->models[family].values[number] ? ONE_VERSION :
								 ONE_VERSION + number;
	char key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(number, key);
	rocksdb_merge_cf(subject->learner.db.rocks, subject->writing,
			 subject->learner.families[family], key, sizeof(key), (char *)&more,
			 sizeof(more), &error);
	expect_no(error);
	subject->models[family].values[number] += more;
}

static void delete(struct subject *subject, int family, uint64_t number, bool single)
{
	char key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(number, key);
	(single ? rocksdb_singledelete_cf : rocksdb_delete_cf)(
		subject->learner.db.rocks, subject->writing, subject->learner.families[family], key,
		sizeof(key), &error);
	expect_no(error);
	subject->models[family].values[number] = 0;
}

/* All keys from `first`'s to before `end`'s, whatever their numbers. */
static void delete_range(struct subject *subject, int family, uint64_t first, uint64_t last)
{
	struct model *model = &subject->models[family];
	char low[DB_KEY_SIZE], high[DB_KEY_SIZE], key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(first, low);
	db_key(last, high);
	if (memcmp(low, high, sizeof(low)) > 0) {
		memcpy(key, low, sizeof(low));
		memcpy(low, high, sizeof(low));
		memcpy(high, key, sizeof(low));
	}
	rocksdb_delete_range_cf(subject->learner.db.rocks, subject->writing,
				subject->learner.families[family], low, sizeof(low), high,
				sizeof(high), &error);
	expect_no(error);
	for (uint64_t number = 0; number < model->count; number += 2) {
		db_key(number, key);
		if (memcmp(key, low, sizeof(key)) >= 0 && memcmp(key, high, sizeof(key)) < 0)
			model->values[number] = 0;
	}
}

/* What may be done to a number depends on its group of 16, which lies together in key order:
 * RocksDB leaves open what single deletes do to keys that were written more than once. */
static void change_one(struct subject *subject, int family)
{
	struct model *model = &subject->models[family];
	unsigned flags = subject->feature->flags;
	uint64_t number = test_random(&subject->seed) % (model->count / 2) * 2;
	uint64_t chance = test_random(&subject->seed);
	uint64_t group = number / 16 % 4;

	if (flags & WIDE_RANGES)
		group = 2 + group % 2;
	if (group == 0) {
		if (model->values[number])
			delete(subject, family, number, true);
		else
			put(subject, family, number);
	} else if (group == 1 && chance % 8 == 0 && !(flags & NO_RANGES)) {
		delete_range(subject, family, number, number | 15);
	} else if (group == 2 && chance % 4 == 0) {
		delete(subject, family, number, false);
	} else if (group == 3 && chance % 2 == 0) {
		merge(subject, family, number);
	} else {
		put(subject, family, number);
	}
}

static void change_many(struct subject *subject, int family)
{
	uint64_t count = subject->models[family].count / 8;

	for (uint64_t i = 0; i < count; i++)
		change_one(subject, family);
	if (subject->feature->flags & WIDE_RANGES)
		delete_range(subject, family, test_random(&subject->seed) % count,
			     test_random(&subject->seed) % count);
}

static void delete_some(struct subject *subject, int family)
{
	for (uint64_t number = 0; number < subject->models[family].count; number += 2) {
		bool single = number / 16 % 4 == 0 && !(subject->feature->flags & WIDE_RANGES);

		if (number % 7 == 0 && subject->models[family].values[number])
			delete(subject, family, number, single);
	}
}

/* ---- one life ----------------------------------------------------------- */

static void reopen(struct subject *subject)
{
	close_subject(subject);
	open_subject(subject);
	expect_right(subject);
}

static void live(struct subject *subject)
{
	struct learner *learner = &subject->learner;
	const rocksdb_snapshot_t *snapshot;
	struct model old;

	step(subject, put_missing);
	ask_never_stored(subject, subject->asked += number_count());
	step(subject, change_many);
	old = model_copy(&subject->models[0]);
	snapshot = rocksdb_create_snapshot(learner->db.rocks);
	step(subject, delete_some);
	step(subject, change_many);
	rocksdb_readoptions_set_snapshot(learner->db.reading, snapshot);
	expect_model(subject, 0, &old);
	rocksdb_readoptions_set_snapshot(learner->db.reading, NULL);
	step(subject, put_missing);
	if (!(subject->feature->flags & NO_COMPACTION_AT_END))
		learner_compact(learner);
	expect_right(subject);
	rocksdb_readoptions_set_snapshot(learner->db.reading, snapshot);
	expect_model(subject, 0, &old);
	rocksdb_readoptions_set_snapshot(learner->db.reading, NULL);
	rocksdb_release_snapshot(learner->db.rocks, snapshot);
	free(old.values);
	expect_paid_once(subject);
	reopen(subject);
	step(subject, change_many);
	/* The readers of before have the lessons of before, and a store in memory has no key
	 * lists of tables from before. */
	if (subject->store->store != WN_ROCKSDB_MEMORY)
		expect_paid_once(subject);
	expect_right(subject);
}

/* ---- the features ------------------------------------------------------- */

static void set_merging(rocksdb_options_t *options)
{
	rocksdb_options_set_uint64add_merge_operator(options);
}

static void set_row_cache(rocksdb_options_t *options)
{
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(4 << 20);

	set_merging(options);
	rocksdb_options_set_row_cache(options, cache);
	rocksdb_cache_destroy(cache);
}

static void set_blobs(rocksdb_options_t *options)
{
	set_merging(options);
	rocksdb_options_set_enable_blob_files(options, 1);
	rocksdb_options_set_min_blob_size(options, 0);
	rocksdb_options_set_blob_file_size(options, 64 << 10);
	rocksdb_options_set_enable_blob_gc(options, 1);
	rocksdb_options_set_blob_gc_age_cutoff(options, 0.5);
}

static void set_fifo(rocksdb_options_t *options)
{
	rocksdb_fifo_compaction_options_t *fifo = rocksdb_fifo_compaction_options_create();

	set_merging(options);
	rocksdb_fifo_compaction_options_set_max_table_files_size(fifo, 1 << 30);
	rocksdb_options_set_compaction_style(options, rocksdb_fifo_compaction);
	rocksdb_options_set_fifo_compaction_options(options, fifo);
	rocksdb_fifo_compaction_options_destroy(fifo);
}

static void set_few_files(rocksdb_options_t *options)
{
	set_merging(options);
	rocksdb_options_set_max_open_files(options, 20);
	rocksdb_options_set_target_file_size_base(options, 32 << 10);
}

static void set_mmap(rocksdb_options_t *options)
{
	set_merging(options);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_allow_mmap_reads(options, 1);
}

static void set_direct(rocksdb_options_t *options)
{
	set_merging(options);
	rocksdb_options_set_use_direct_reads(options, 1);
}

static void set_many_jobs(rocksdb_options_t *options)
{
	set_merging(options);
	rocksdb_options_set_max_background_jobs(options, 4);
	rocksdb_options_set_target_file_size_base(options, 32 << 10);
}

static void set_without_last_filters(rocksdb_options_t *options)
{
	set_merging(options);
	rocksdb_options_set_optimize_filters_for_hits(options, 1);
}

static const struct feature features[] = {
	{.setup = {.name = "levels"}, .change = set_merging},
	{.setup = {.name = "level_zero", .no_compaction = true}, .change = set_merging,
	 .flags = NO_COMPACTION_AT_END},
	{.setup = {.name = "universal", .universal = true}, .change = set_merging},
	{.setup = {.name = "fifo"}, .change = set_fifo},
	{.setup = {.name = "wide_ranges"}, .change = set_merging, .flags = WIDE_RANGES},
	{.setup = {.name = "subcompactions", .subcompactions = 3}, .change = set_many_jobs},
	{.setup = {.name = "parallel", .compression_threads = 3, .partitioned = true},
	 .change = set_many_jobs},
	{.setup = {.name = "prefixes", .prefix = DB_PREFIX_SIZE}, .change = set_merging},
	{.setup = {.name = "only_prefixes", .prefix = DB_PREFIX_SIZE, .only_prefixes = true},
	 .change = set_merging},
	{.setup = {.name = "partitioned_prefixes", .prefix = DB_PREFIX_SIZE, .partitioned = true},
	 .change = set_merging},
	{.setup = {.name = "row_cache"}, .change = set_row_cache, .flags = NO_RANGES},
	{.setup = {.name = "blobs"}, .change = set_blobs},
	{.setup = {.name = "evicted", .partitioned = true, .cached_filters = true},
	 .change = set_few_files, .cache = 1 << 20},
	{.setup = {.name = "kept_cache", .partitioned = true, .cached_filters = true},
	 .change = set_merging, .cache = 8 << 20, .flags = CACHE_STAYS},
	{.setup = {.name = "mmap"}, .change = set_mmap},
	{.setup = {.name = "direct"}, .change = set_direct},
	{.setup = {.name = "no_last_level"}, .change = set_without_last_filters,
	 .flags = FEW_FILTERS},
	{.setup = {.name = "families"}, .change = set_merging, .families = 2},
};

#define FEATURES ((int)(sizeof(features) / sizeof(features[0])))

START_TEST(every_answer_is_the_models_and_false_positives_are_paid_for_once)
{
	const struct feature *feature = &features[_i % FEATURES];
	struct subject subject = begin(feature, &learner_stores[_i / FEATURES]);

	live(&subject);
	end(&subject);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_features");
	TCase *tcase = tcase_create("features");
	/* Shortened: all features in one store, and some of them in all. */
	int stores = test_is_quick() ? 1 : LEARNER_STORES;
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	/* Shortened: all features in one store, and some of them in all. */
	tcase_add_loop_test(tcase, every_answer_is_the_models_and_false_positives_are_paid_for_once,
			    0, stores * FEATURES);
	result = test_run(suite);
	test_remove_top();
	return result;
}
