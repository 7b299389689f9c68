/* rocksdb_model.h - a database that learns, and a model that says what is right. */
#ifndef WN_TESTS_ROCKSDB_MODEL_H
#define WN_TESTS_ROCKSDB_MODEL_H

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

static inline struct model model_create(uint64_t count)
{
	struct model model = {.count = count, .values = calloc(count, sizeof(uint64_t))};

	ck_assert_ptr_nonnull(model.values);
	return model;
}

static inline uint64_t number_count(void)
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
	bool vouched; /* for a comparator of our own */
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

static inline void open_subject(struct subject *subject)
{
	struct wn_rocksdb_options options = learner_options(subject->store);
	const struct feature *feature = subject->feature;

	options.equal_keys_are_identical = feature->vouched;
	if (feature->cache && !subject->setup.cache)
		subject->setup.cache = rocksdb_cache_create_lru(feature->cache);
	subject->learner = learner_open(subject->path, &subject->setup, feature->change,
					feature->families ? feature->families : 1, &options);
}

static inline struct subject begin(const struct feature *feature, const struct learner_store *store)
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

static inline void close_subject(struct subject *subject)
{
	learner_close(&subject->learner);
	if (subject->setup.cache && !(subject->feature->flags & CACHE_STAYS)) {
		rocksdb_cache_destroy(subject->setup.cache);
		subject->setup.cache = NULL;
	}
}

static inline void end(struct subject *subject)
{
	close_subject(subject);
	rocksdb_writeoptions_destroy(subject->writing);
	for (int i = 0; i < LEARNER_MAX_FAMILIES; i++)
		free(subject->models[i].values);
	if (subject->setup.cache)
		rocksdb_cache_destroy(subject->setup.cache);
}

/* ---- writing ------------------------------------------------------------ */

static inline void put(struct subject *subject, int family, uint64_t number)
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

static inline void put_missing(struct subject *subject, int family)
{
	for (uint64_t number = 0; number < subject->models[family].count; number += 2) {
		if (!subject->models[family].values[number])
			put(subject, family, number);
	}
}

/* ---- asking ------------------------------------------------------------- */

static inline uint64_t take_value(char *value, size_t size, const char *error)
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

static inline uint64_t ask(struct subject *subject, int family, uint64_t number)
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

static inline uint64_t ask_pinned(struct subject *subject, int family, uint64_t number)
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

static inline void expect_batch(struct subject *subject, int family, const struct model *model,
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

static inline uint64_t key_number(const char *key)
{
	char text[DB_KEY_SIZE - DB_PREFIX_SIZE + 1] = "";

	memcpy(text, key + DB_PREFIX_SIZE, DB_KEY_SIZE - DB_PREFIX_SIZE);
	return strtoull(text, NULL, 10);
}

/* From where it stands on: how many keys, and are they the model's? */
static inline uint64_t expect_walk(rocksdb_iterator_t *walk, const struct model *model)
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

static inline uint64_t count_stored(const struct model *model, uint64_t first, uint64_t last)
{
	uint64_t stored = 0;

	for (uint64_t number = first; number < last && number < model->count; number++)
		stored += model->values[number] != 0;
	return stored;
}

static inline void expect_iterator(struct subject *subject, int family, const struct model *model)
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
static inline void expect_prefixes(struct subject *subject, int family, const struct model *model)
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
static inline void expect_model(struct subject *subject, int family, const struct model *model)
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

static inline void expect_right(struct subject *subject)
{
	for (int i = 0; i < subject->learner.family_count; i++)
		expect_model(subject, i, &subject->models[i]);
}

/* Numbers, and prefixes, that were never stored. How many false positives does it cost? */
static inline uint64_t ask_never_stored(struct subject *subject, uint64_t first)
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
static inline void expect_paid_once(struct subject *subject)
{
	uint64_t first = subject->asked += number_count();
	struct wn_stats stats;
	uint64_t wrong;

	learner_quiet(&subject->learner);
	wrong = ask_never_stored(subject, first);
	if (!(subject->feature->flags & FEW_FILTERS))
		ck_assert_uint_gt(wrong, 0);
	ck_assert_uint_eq(ask_never_stored(subject, first), 0);
	stats = learner_stats(&subject->learner);
	ck_assert_uint_eq(stats.queue_drops + stats.key_lists_lost, 0);
}

/* ---- one life ----------------------------------------------------------- */

static inline void step(struct subject *subject, void (*change)(struct subject *, int))
{
	for (int i = 0; i < subject->learner.family_count; i++)
		change(subject, i);
	expect_right(subject);
	learner_flush(&subject->learner);
	expect_right(subject);
}

#endif /* WN_TESTS_ROCKSDB_MODEL_H */
