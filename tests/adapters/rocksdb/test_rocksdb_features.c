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
#include <time.h>

#include "tests/support/rocksdb_stores.h"

/* ---- the model ---------------------------------------------------------- */

/* Even numbers are keys, odd ones never. A value is a number and, above it, how often it was
 * written; 0: not there. Merging adds one to the latter. */
#define ONE_VERSION ((uint64_t)1 << 32)

struct model {
	uint64_t count; /* of numbers, odd ones included */
	uint64_t version;
	uint64_t *values;
};

static struct model model_create(uint64_t count)
{
	struct model model = {.count = count, .values = calloc(count, sizeof(uint64_t))};

	ck_assert_ptr_nonnull(model.values);
	return model;
}

static struct model model_copy(const struct model *model)
{
	struct model copy = model_create(model->count);

	memcpy(copy.values, model->values, model->count * sizeof(*model->values));
	return copy;
}

static uint64_t number_count(void)
{
	return test_is_quick() ? 4000 : 8000;
}

/* ---- the database under test -------------------------------------------- */

enum {
	NO_RANGES = 1,
	NO_COMPACTION_AT_END = 2,
	WIDE_RANGES = 4, /* and no single deletes */
	FEW_FILTERS = 8, /* false positives may be none at all */
	CACHE_STAYS = 16, /* when the database is closed, with readers in it */
};

struct feature {
	struct db_setup setup;
	void (*change)(rocksdb_options_t *);
	int families; /* 0: one */
	unsigned flags;
	size_t cache; /* bytes; 0: RocksDB's default */
};

struct subject {
	struct learner learner;
	const struct feature *feature;
	const struct learner_store *store;
	struct db_setup setup;
	char path[TEST_PATH_SIZE];
	struct model models[LEARNER_MAX_FAMILIES];
	rocksdb_writeoptions_t *writing;
	uint64_t seed;
	uint64_t asked; /* from here on no number was asked for */
};

static void open_subject(struct subject *subject)
{
	struct wn_rocksdb_options options = learner_options(subject->store);
	const struct feature *feature = subject->feature;

	if (feature->cache && !subject->setup.cache)
		subject->setup.cache = rocksdb_cache_create_lru(feature->cache);
	subject->learner = learner_open(subject->path, &subject->setup, feature->change,
					feature->families ? feature->families : 1, &options);
}

static struct subject begin(const struct feature *feature, const struct learner_store *store)
{
	struct subject subject = {
		.feature = feature,
		.store = store,
		.setup = feature->setup,
		.seed = test_seed(feature->setup.name, 1118),
		.writing = rocksdb_writeoptions_create(),
	};

	test_join(subject.path, test_path(feature->setup.name), "-", store->name);
	for (int i = 0; i < LEARNER_MAX_FAMILIES; i++)
		subject.models[i] = model_create(number_count());
	open_subject(&subject);
	return subject;
}

static void close_subject(struct subject *subject)
{
	learner_close(&subject->learner);
	if (subject->setup.cache && !(subject->feature->flags & CACHE_STAYS)) {
		rocksdb_cache_destroy(subject->setup.cache);
		subject->setup.cache = NULL;
	}
}

static void end(struct subject *subject)
{
	close_subject(subject);
	rocksdb_writeoptions_destroy(subject->writing);
	for (int i = 0; i < LEARNER_MAX_FAMILIES; i++)
		free(subject->models[i].values);
	if (subject->setup.cache)
		rocksdb_cache_destroy(subject->setup.cache);
}

/* ---- writing ------------------------------------------------------------ */

static void put(struct subject *subject, int family, uint64_t number)
{
	struct model *model = &subject->models[family];
	uint64_t value = number + ++model->version % 1000 * ONE_VERSION + ONE_VERSION;
	char key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(number, key);
	rocksdb_put_cf(subject->learner.db.rocks, subject->writing,
		       subject->learner.families[family], key, sizeof(key), (char *)&value,
		       sizeof(value), &error);
	expect_no(error);
	model->values[number] = value;
}

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

static void put_missing(struct subject *subject, int family)
{
	for (uint64_t number = 0; number < subject->models[family].count; number += 2) {
		if (!subject->models[family].values[number])
			put(subject, family, number);
	}
}

/* ---- asking ------------------------------------------------------------- */

static uint64_t take_value(char *value, size_t size, const char *error)
{
	uint64_t stored = 0;

	expect_no(error);
	if (!value)
		return 0;
	expect(size == sizeof(stored));
	memcpy(&stored, value, sizeof(stored));
	rocksdb_free(value);
	return stored;
}

static uint64_t ask(struct subject *subject, int family, uint64_t number)
{
	struct learner *learner = &subject->learner;
	char key[DB_KEY_SIZE];
	char *error = NULL;
	size_t size = 0;
	char *value;

	db_key(number, key);
	value = wn_rocksdb_get_cf(learner->wn, learner->db.reading, learner->families[family], key,
				  sizeof(key), &size, &error);
	return take_value(value, size, error);
}

static uint64_t ask_pinned(struct subject *subject, int family, uint64_t number)
{
	struct learner *learner = &subject->learner;
	rocksdb_pinnableslice_t *pinned;
	uint64_t stored = 0;
	char key[DB_KEY_SIZE];
	char *error = NULL;
	size_t size = 0;

	db_key(number, key);
	pinned = wn_rocksdb_get_pinned_cf(learner->wn, learner->db.reading,
					  learner->families[family], key, sizeof(key), &error);
	expect_no(error);
	if (!pinned)
		return 0;
	memcpy(&stored, rocksdb_pinnableslice_value(pinned, &size), sizeof(stored));
	expect(size == sizeof(stored));
	rocksdb_pinnableslice_destroy(pinned);
	return stored;
}

#define BATCH 40

static void expect_batch(struct subject *subject, int family, const struct model *model,
			 uint64_t first)
{
	struct learner *learner = &subject->learner;
	const rocksdb_column_family_handle_t *families[BATCH];
	rocksdb_pinnableslice_t *pinned[BATCH] = {NULL};
	char texts[BATCH][DB_KEY_SIZE];
	const char *keys[BATCH];
	size_t sizes[BATCH], value_sizes[BATCH] = {0};
	char *values[BATCH] = {NULL}, *errors[BATCH] = {NULL};

	for (unsigned i = 0; i < BATCH; i++) {
		db_key(first + i, texts[i]);
		keys[i] = texts[i];
		sizes[i] = DB_KEY_SIZE;
		families[i] = learner->families[family];
	}
	wn_rocksdb_multi_get_cf(learner->wn, learner->db.reading, families, BATCH, keys, sizes,
				values, value_sizes, errors);
	for (unsigned i = 0; i < BATCH; i++)
		expect(take_value(values[i], value_sizes[i], errors[i]) ==
		       model->values[first + i]);
	wn_rocksdb_batched_multi_get_cf(learner->wn, learner->db.reading, learner->families[family],
					BATCH, keys, sizes, pinned, errors, false);
	for (unsigned i = 0; i < BATCH; i++) {
		expect_no(errors[i]);
		expect((pinned[i] != NULL) == (model->values[first + i] != 0));
		rocksdb_pinnableslice_destroy(pinned[i]);
	}
}

static uint64_t key_number(const char *key)
{
	char text[DB_KEY_SIZE - DB_PREFIX_SIZE + 1] = "";

	memcpy(text, key + DB_PREFIX_SIZE, DB_KEY_SIZE - DB_PREFIX_SIZE);
	return strtoull(text, NULL, 10);
}

/* From where it stands on: how many keys, and are they the model's? */
static uint64_t expect_walk(rocksdb_iterator_t *walk, const struct model *model)
{
	char *error = NULL;
	uint64_t seen = 0;

	for (; rocksdb_iter_valid(walk); rocksdb_iter_next(walk)) {
		size_t size;
		const char *key = rocksdb_iter_key(walk, &size);
		uint64_t number, value;

		expect(size == DB_KEY_SIZE);
		number = key_number(key);
		expect(number < model->count);
		memcpy(&value, rocksdb_iter_value(walk, &size), sizeof(value));
		expect(size == sizeof(value) && value == model->values[number]);
		seen++;
	}
	rocksdb_iter_get_error(walk, &error);
	expect_no(error);
	return seen;
}

static uint64_t count_stored(const struct model *model, uint64_t first, uint64_t last)
{
	uint64_t stored = 0;

	for (uint64_t number = first; number < last && number < model->count; number++)
		stored += model->values[number] != 0;
	return stored;
}

static void expect_iterator(struct subject *subject, int family, const struct model *model)
{
	rocksdb_iterator_t *walk;

	rocksdb_readoptions_set_total_order_seek(subject->learner.db.reading, 1);
	walk = rocksdb_create_iterator_cf(subject->learner.db.rocks, subject->learner.db.reading,
					  subject->learner.families[family]);
	rocksdb_iter_seek_to_first(walk);
	expect(expect_walk(walk, model) == count_stored(model, 0, model->count));
	rocksdb_iter_destroy(walk);
	rocksdb_readoptions_set_total_order_seek(subject->learner.db.reading, 0);
}

/* Every prefix that was ever stored, and as many that were not. */
static void expect_prefixes(struct subject *subject, int family, const struct model *model)
{
	rocksdb_readoptions_t *reading = subject->learner.db.reading;
	rocksdb_iterator_t *walk;
	char key[DB_KEY_SIZE];

	rocksdb_readoptions_set_prefix_same_as_start(reading, 1);
	walk = rocksdb_create_iterator_cf(subject->learner.db.rocks, reading,
					  subject->learner.families[family]);
	for (uint64_t first = 0; first < 2 * model->count; first += 16) {
		db_key(first, key);
		rocksdb_iter_seek(walk, key, DB_PREFIX_SIZE);
		expect(expect_walk(walk, model) == count_stored(model, first, first + 16));
	}
	rocksdb_iter_destroy(walk);
	rocksdb_readoptions_set_prefix_same_as_start(reading, 0);
}

/* Every number, there or not. */
static void expect_model(struct subject *subject, int family, const struct model *model)
{
	for (uint64_t number = 0; number < model->count; number++)
		expect((number % 5 ? ask : ask_pinned)(subject, family, number) ==
		       model->values[number]);
	for (uint64_t number = 0; number + BATCH <= model->count; number += 7 * BATCH)
		expect_batch(subject, family, model, number);
	expect_iterator(subject, family, model);
	if (subject->setup.prefix)
		expect_prefixes(subject, family, model);
}

static void expect_right(struct subject *subject)
{
	for (int i = 0; i < subject->learner.family_count; i++)
		expect_model(subject, i, &subject->models[i]);
}

/* Numbers, and prefixes, that were never stored. How many false positives does it cost? */
static uint64_t ask_never_stored(struct subject *subject, uint64_t first)
{
	uint64_t before = learner_stats(&subject->learner).false_positives, after;

	for (int family = 0; family < subject->learner.family_count; family++) {
		for (uint64_t i = 0; i < number_count(); i += 3)
			expect(ask(subject, family, first + i) == 0);
	}
	wn_rocksdb_drain(subject->learner.wn);
	after = learner_stats(&subject->learner).false_positives;
	fprintf(stderr, "%s: %" PRIu64 " false positives\n", subject->path, after - before);
	return after - before;
}

/* Ask for something new, and then again. */
static void expect_paid_once(struct subject *subject)
{
	uint64_t first = subject->asked += number_count();
	struct wn_rocksdb_stats stats;
	uint64_t wrong;

	learner_quiet(&subject->learner);
	wrong = ask_never_stored(subject, first);
	if (!(subject->feature->flags & FEW_FILTERS))
		ck_assert_uint_gt(wrong, 0);
	ck_assert_uint_eq(ask_never_stored(subject, first), 0);
	stats = learner_stats(&subject->learner);
	ck_assert_uint_eq(stats.queue_drops + stats.runs_lost, 0);
}

/* ---- one life ----------------------------------------------------------- */

static void step(struct subject *subject, void (*change)(struct subject *, int))
{
	for (int i = 0; i < subject->learner.family_count; i++)
		change(subject, i);
	expect_right(subject);
	learner_flush(&subject->learner);
	expect_right(subject);
}

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
	/* The readers of before have the lessons of before, and a store in memory has no runs of
	 * tables from before. */
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

/* ---- tables and keys that go by themselves ------------------------------ */

static void set_small_fifo(rocksdb_options_t *options)
{
	rocksdb_fifo_compaction_options_t *fifo = rocksdb_fifo_compaction_options_create();

	rocksdb_fifo_compaction_options_set_max_table_files_size(fifo, 8 * number_count());
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_compaction_style(options, rocksdb_fifo_compaction);
	rocksdb_options_set_fifo_compaction_options(options, fifo);
	rocksdb_fifo_compaction_options_destroy(fifo);
}

/* The number's value, or nothing: FIFO compaction drops the oldest tables. */
static uint64_t count_kept(struct subject *subject)
{
	const struct model *model = &subject->models[0];
	uint64_t kept = 0;

	for (uint64_t number = 0; number < model->count; number++) {
		uint64_t value = ask(subject, 0, number);

		expect(value == 0 || value == model->values[number]);
		kept += value != 0;
	}
	return kept;
}

START_TEST(tables_that_fifo_compaction_drops_take_their_keys_along)
{
	static const struct feature feature = {.setup = {.name = "small_fifo"},
					       .change = set_small_fifo};
	struct subject subject = begin(&feature, &learner_stores[_i]);
	uint64_t kept, slice = subject.models[0].count / 8;

	for (uint64_t first = 0; first < 8 * slice; first += slice) {
		for (uint64_t number = (first + 1) / 2 * 2; number < first + slice; number += 2)
			put(&subject, 0, number);
		learner_flush(&subject.learner);
		count_kept(&subject);
	}
	learner_compact(&subject.learner);
	learner_quiet(&subject.learner);
	kept = count_kept(&subject);
	fprintf(stderr, "%" PRIu64 " of %" PRIu64 " kept\n", kept, 4 * slice);
	ck_assert_uint_lt(kept, 4 * slice);
	expect_paid_once(&subject);
	ck_assert_uint_eq(count_kept(&subject), kept);
	put_missing(&subject, 0);
	count_kept(&subject);
	end(&subject);
}
END_TEST

static unsigned char is_expired(void *state, int level, const char *key, size_t size,
				const char *value, size_t value_size, char **new_value,
				size_t *new_size, unsigned char *changed)
{
	(void)level;
	(void)value;
	(void)value_size;
	(void)new_value;
	(void)new_size;
	(void)changed;
	return *(bool *)state && size == DB_KEY_SIZE && key_number(key) % 3 == 0;
}

static const char *expiry_name(void *state)
{
	(void)state;
	return "expiry";
}

static bool expiring;
static rocksdb_compactionfilter_t *expiry;

static void keep_state(void *state)
{
	(void)state;
}

static void set_expiry(rocksdb_options_t *options)
{
	rocksdb_options_set_compaction_filter(options, expiry);
}

START_TEST(keys_that_a_compaction_filter_removes_can_come_back)
{
	static const struct feature feature = {.setup = {.name = "expiry", .no_compaction = true},
					       .change = set_expiry};
	struct subject subject;
	uint64_t *values;

	expiry = rocksdb_compactionfilter_create(&expiring, keep_state, is_expired, expiry_name);
	subject = begin(&feature, &learner_stores[_i]);
	values = subject.models[0].values;
	step(&subject, put_missing);
	ask_never_stored(&subject, subject.asked += number_count());
	expiring = true;
	learner_compact(&subject.learner);
	expiring = false;
	for (uint64_t number = 0; number < subject.models[0].count; number += 3)
		values[number] = 0;
	expect_right(&subject);
	expect_paid_once(&subject);
	step(&subject, put_missing);
	learner_compact(&subject.learner);
	expect_right(&subject);
	end(&subject);
	rocksdb_compactionfilter_destroy(expiry);
}
END_TEST

#define TTL_SECONDS 1

static uint64_t count_db(struct db *db, uint64_t count)
{
	uint64_t found = 0;

	for (uint64_t number = 0; number < count; number++) {
		bool has = db_has(db, number);

		expect(!has || number % 2 == 0);
		found += has;
	}
	return found;
}

/* RocksDB itself opens databases with a time to live, so the filters do not learn here. */
START_TEST(keys_whose_time_is_over_can_come_back)
{
	static const struct db_setup setup = {.winnow = LEARNER_FILTER, .no_compaction = true};
	struct db db = {.options = rocksdb_options_create(),
			.reading = rocksdb_readoptions_create()};
	uint64_t count = number_count() / 4 * 2;
	char *error = NULL;
	time_t written;

	db_set_options(&db, &setup);
	db_set_table(&db, &setup);
	db.rocks = rocksdb_open_with_ttl(db.options, test_path("ttl"), TTL_SECONDS, &error);
	expect_no(error);
	db_put(&db, 0, count);
	db_flush(&db);
	/* An expired key is there until a compaction meets it. */
	ck_assert_uint_eq(count_db(&db, count), count / 2);
	written = time(NULL);
	while (time(NULL) <= written + TTL_SECONDS + 1)
		usleep(100000);
	db_compact(&db);
	ck_assert_uint_eq(count_db(&db, count), 0);
	db_put(&db, 0, count);
	db_flush(&db);
	ck_assert_uint_eq(count_db(&db, count), count / 2);
	rocksdb_close(db.rocks);
	rocksdb_readoptions_destroy(db.reading);
	rocksdb_options_destroy(db.options);
}
END_TEST

/* ---- timestamps of the user's ------------------------------------------- */

#define TIME_SIZE 8
#define TIMES 5

static void encode_time(uint64_t when, char *text)
{
	for (unsigned i = 0; i < TIME_SIZE; i++)
		text[i] = (char)(when >> 8 * (TIME_SIZE - 1 - i));
}

static int compare_times(void *state, const char *a, size_t a_size, const char *b, size_t b_size)
{
	(void)state;
	expect(a_size == TIME_SIZE && b_size == TIME_SIZE);
	return memcmp(a, b, TIME_SIZE);
}

static int compare_plain(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

	return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

static int compare_without_time(void *state, const char *a, size_t a_size,
				unsigned char a_has_time, const char *b, size_t b_size,
				unsigned char b_has_time)
{
	(void)state;
	return compare_plain(a, a_has_time ? a_size - TIME_SIZE : a_size, b,
			     b_has_time ? b_size - TIME_SIZE : b_size);
}

/* The newest of a key's versions comes first. */
static int compare_with_time(void *state, const char *a, size_t a_size, const char *b,
			     size_t b_size)
{
	int order = compare_without_time(state, a, a_size, 1, b, b_size, 1);

	if (order)
		return order;
	return compare_times(state, b + b_size - TIME_SIZE, TIME_SIZE, a + a_size - TIME_SIZE,
			     TIME_SIZE);
}

static const char *comparator_name(void *state)
{
	(void)state;
	return "keys with times";
}

static rocksdb_comparator_t *timely;

static void set_timely(rocksdb_options_t *options)
{
	rocksdb_options_set_comparator(options, timely);
}

/* What is done to a number at a time: nothing, or it is written or deleted. */
enum deed { NOTHING, WRITTEN, DELETED };

static enum deed deed(uint64_t number, uint64_t when)
{
	uint64_t state = number * TIMES + when;

	if (number % 2)
		return NOTHING;
	return when == 1 ? WRITTEN : (enum deed)(test_random(&state) % 3);
}

static uint64_t value_at(uint64_t number, uint64_t when)
{
	while (when > 0 && deed(number, when) == NOTHING)
		when--;
	return when == 0 || deed(number, when) == DELETED ? 0 : number + when * ONE_VERSION;
}

static void do_deed(struct subject *subject, uint64_t number, uint64_t when)
{
	uint64_t value = number + when * ONE_VERSION;
	rocksdb_t *rocks = subject->learner.db.rocks;
	char key[DB_KEY_SIZE], stamp[TIME_SIZE];
	char *error = NULL;

	db_key(number, key);
	encode_time(when, stamp);
	if (deed(number, when) == WRITTEN)
		rocksdb_put_with_ts(rocks, subject->writing, key, sizeof(key), stamp,
				    sizeof(stamp), (char *)&value, sizeof(value), &error);
	else if (deed(number, when) == DELETED)
		rocksdb_delete_with_ts(rocks, subject->writing, key, sizeof(key), stamp,
				       sizeof(stamp), &error);
	expect_no(error);
}

/* At every time up to now; and it is `now` from then on. */
static void expect_times(struct subject *subject, uint64_t now)
{
	static char stamp[TIME_SIZE]; /* borrowed by the options */

	for (uint64_t when = 0; when <= now; when++) {
		encode_time(when, stamp);
		rocksdb_readoptions_set_timestamp(subject->learner.db.reading, stamp,
						  sizeof(stamp));
		for (uint64_t number = 0; number < number_count(); number++)
			expect(ask(subject, 0, number) == value_at(number, when));
	}
}

START_TEST(every_time_has_its_own_answer)
{
	static const struct feature feature = {.setup = {.name = "timestamps"},
					       .change = set_timely};
	struct subject subject;

	timely = rocksdb_comparator_with_ts_create(NULL, keep_state, compare_with_time,
						   compare_times, compare_without_time,
						   comparator_name, TIME_SIZE);
	subject = begin(&feature, &learner_stores[_i]);
	for (uint64_t when = 1; when <= TIMES; when++) {
		for (uint64_t number = 0; number < number_count(); number++)
			do_deed(&subject, number, when);
		learner_flush(&subject.learner);
		expect_times(&subject, when);
	}
	learner_compact(&subject.learner);
	expect_times(&subject, TIMES);
	expect_paid_once(&subject);
	close_subject(&subject);
	open_subject(&subject);
	expect_times(&subject, TIMES);
	end(&subject);
	rocksdb_comparator_destroy(timely);
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
	tcase_add_loop_test(tcase, every_answer_is_the_models_and_false_positives_are_paid_for_once,
			    0, stores * FEATURES);
	tcase_add_loop_test(tcase, tables_that_fifo_compaction_drops_take_their_keys_along, 0,
			    LEARNER_STORES);
	tcase_add_loop_test(tcase, keys_that_a_compaction_filter_removes_can_come_back, 0,
			    LEARNER_STORES);
	tcase_add_test(tcase, keys_whose_time_is_over_can_come_back);
	tcase_add_loop_test(tcase, every_time_has_its_own_answer, 0, LEARNER_STORES);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
