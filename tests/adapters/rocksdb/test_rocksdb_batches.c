/* test_rocksdb_batches.c - lookups of many keys at once, and of other forms, teach as well. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/rocksdb_learner.h"

#define BATCH 40
#define MAX_BATCH 1000

struct batch {
	char texts[MAX_BATCH][DB_KEY_SIZE];
	const char *keys[MAX_BATCH];
	size_t sizes[MAX_BATCH];
	char *values[MAX_BATCH];
	size_t value_sizes[MAX_BATCH];
	rocksdb_pinnableslice_t *slices[MAX_BATCH];
	char *errors[MAX_BATCH];
};

/* One of the forms of lookup, for `count` numbers. */
typedef void ask_fn(struct learner *learner, rocksdb_column_family_handle_t *family,
		    struct batch *batch, size_t count);

static void ask_multi(struct learner *learner, rocksdb_column_family_handle_t *family,
		      struct batch *batch, size_t count)
{
	(void)family;
	wn_rocksdb_multi_get(learner->wn, learner->db.reading, count, batch->keys, batch->sizes,
			     batch->values, batch->value_sizes, batch->errors);
}

static void ask_multi_family(struct learner *learner, rocksdb_column_family_handle_t *family,
			     struct batch *batch, size_t count)
{
	const rocksdb_column_family_handle_t *families[MAX_BATCH];

	for (size_t i = 0; i < count; i++)
		families[i] = family;
	wn_rocksdb_multi_get_cf(learner->wn, learner->db.reading, families, count, batch->keys,
				batch->sizes, batch->values, batch->value_sizes, batch->errors);
}

static void take_slice(struct batch *batch, size_t i)
{
	const char *value;

	batch->values[i] = NULL;
	if (!batch->slices[i])
		return;
	value = rocksdb_pinnableslice_value(batch->slices[i], &batch->value_sizes[i]);
	batch->values[i] = malloc(batch->value_sizes[i]);
	ck_assert_ptr_nonnull(batch->values[i]);
	memcpy(batch->values[i], value, batch->value_sizes[i]);
	rocksdb_pinnableslice_destroy(batch->slices[i]);
}

static void ask_batched(struct learner *learner, rocksdb_column_family_handle_t *family,
			struct batch *batch, size_t count)
{
	wn_rocksdb_batched_multi_get_cf(learner->wn, learner->db.reading, family, count,
					batch->keys, batch->sizes, batch->slices, batch->errors,
					false);
	for (size_t i = 0; i < count; i++)
		take_slice(batch, i);
}

static void ask_pinned_family(struct learner *learner, rocksdb_column_family_handle_t *family,
			      struct batch *batch, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		batch->errors[i] = NULL;
		batch->slices[i] = wn_rocksdb_get_pinned_cf(learner->wn, learner->db.reading,
							    family, batch->keys[i],
							    batch->sizes[i], &batch->errors[i]);
		take_slice(batch, i);
	}
}

static const struct {
	const char *name;
	ask_fn *ask;
} forms[] = {
	{"multi", ask_multi},
	{"multi_family", ask_multi_family},
	{"batched", ask_batched},
	{"pinned", ask_pinned_family},
};

static const int form_count = sizeof(forms) / sizeof(forms[0]);

static struct learner open_families(const struct db_setup *setup,
				    const struct wn_rocksdb_options *options,
				    rocksdb_column_family_handle_t **familyp)
{
	static const char *const name = "default";
	struct learner learner = {.db.options = rocksdb_options_create()};
	const rocksdb_options_t *family_options = learner.db.options;
	char *error = NULL;

	db_set_options(&learner.db, setup);
	db_set_table(&learner.db, setup);
	learner.db.reading = rocksdb_readoptions_create();
	learner.db.rocks = wn_rocksdb_open_column_families(learner.db.options,
							   test_path(setup->name), 1, &name,
							   &family_options, familyp, options,
							   &learner.wn, &error);
	expect_no(error);
	return learner;
}

/* Ask for numbers first, first + step, ...: the even ones below numbers() are there. */
static void ask_batch(struct learner *learner, rocksdb_column_family_handle_t *family,
		      ask_fn *form, uint64_t first, uint64_t step, size_t count)
{
	static struct batch batch;

	for (size_t i = 0; i < count; i++) {
		db_key(first + i * step, batch.texts[i]);
		batch.keys[i] = batch.texts[i];
		batch.sizes[i] = DB_KEY_SIZE;
	}
	form(learner, family, &batch, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t number = first + i * step, stored;

		expect_no(batch.errors[i]);
		expect((batch.values[i] != NULL) == (number % 2 == 0 && number < numbers()));
		if (!batch.values[i])
			continue;
		expect(batch.value_sizes[i] == sizeof(stored));
		memcpy(&stored, batch.values[i], sizeof(stored));
		expect(stored == number);
		rocksdb_free(batch.values[i]);
	}
}

static uint64_t ask_all(struct learner *learner, rocksdb_column_family_handle_t *family,
			ask_fn *form, size_t count)
{
	uint64_t before = learner_stats(learner).false_positives, after;

	for (uint64_t first = 0; first < numbers(); first += count)
		ask_batch(learner, family, form, first, 1, count);
	wn_rocksdb_drain(learner->wn);
	after = learner_stats(learner).false_positives;
	fprintf(stderr, "%" PRIu64 " false positives\n", after - before);
	return after - before;
}

START_TEST(every_form_of_lookup_teaches)
{
	struct db_setup setup = {.name = forms[_i].name, .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	rocksdb_column_family_handle_t *family;
	struct learner learner = open_families(&setup, &options, &family);
	struct wn_stats stats;
	uint64_t first;

	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	wn_rocksdb_drain(learner.wn);
	first = ask_all(&learner, family, forms[_i].ask, BATCH);
	ck_assert_uint_gt(first, numbers() / 100);
	/* Batches of stored keys overflow the trace now and then, and single lookups do not. */
	for (int pass = 0; pass < 3; pass++)
		ask_all(&learner, family, forms[_i].ask, BATCH);
	ck_assert_uint_eq(ask_all(&learner, family, forms[_i].ask, BATCH), 0);
	stats = learner_stats(&learner);
	ck_assert_uint_eq(stats.lookups, 5 * numbers());
	ck_assert_uint_gt(stats.adaptations, 0);
	/* Nothing that is stored was ever taken for a mistake. */
	ck_assert_uint_eq(stats.unfixable, 0);
	rocksdb_column_family_handle_destroy(family);
	learner_close(&learner);
}
END_TEST

START_TEST(a_batch_that_overflows_the_trace_is_answered_right)
{
	struct db_setup setup = {.name = "overflow", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	rocksdb_column_family_handle_t *family;
	struct learner learner = open_families(&setup, &options, &family);

	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	wn_rocksdb_drain(learner.wn);
	ask_all(&learner, family, forms[_i].ask, MAX_BATCH);
	ck_assert_uint_gt(learner_stats(&learner).lookups_discarded, 0);
	/* Of absent keys alone there are few positives, and then fewer. */
	for (uint64_t at = 1; at + 2 * MAX_BATCH < numbers(); at += 2 * MAX_BATCH)
		ask_batch(&learner, family, forms[_i].ask, at, 2, MAX_BATCH);
	ck_assert_uint_eq(learner_stats(&learner).unfixable, 0);
	rocksdb_column_family_handle_destroy(family);
	learner_close(&learner);
}
END_TEST

/* Keys that come twice, deleted keys and old snapshots: what is learned is true all the same. */
START_TEST(odd_batches_hide_no_key)
{
	struct db_setup setup = {.name = "odd", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	rocksdb_column_family_handle_t *family;
	struct learner learner = open_families(&setup, &options, &family);
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	const rocksdb_snapshot_t *snapshot;
	char *error = NULL;

	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	snapshot = rocksdb_create_snapshot(learner.db.rocks);
	for (uint64_t number = 0; number < numbers(); number += 2) {
		char key[DB_KEY_SIZE];

		db_key(number, key);
		rocksdb_delete(learner.db.rocks, writing, key, sizeof(key), &error);
		expect_no(error);
	}
	db_flush(&learner.db);
	/* Each of them twice. */
	for (int form = 0; form < form_count; form++) {
		static struct batch batch;

		for (size_t i = 0; i < BATCH; i++) {
			db_key(i / 2 * 2, batch.texts[i]);
			batch.keys[i] = batch.texts[i];
			batch.sizes[i] = DB_KEY_SIZE;
		}
		forms[form].ask(&learner, family, &batch, BATCH);
		for (size_t i = 0; i < BATCH; i++)
			expect(!batch.values[i] && !batch.errors[i]);
	}
	ck_assert_uint_gt(learner_stats(&learner).unfixable, 0);
	rocksdb_readoptions_set_snapshot(learner.db.reading, snapshot);
	for (int form = 0; form < form_count; form++) {
		ask_all(&learner, family, forms[form].ask, BATCH);
		ask_batch(&learner, family, forms[form].ask, 8, 0, BATCH);
	}
	rocksdb_release_snapshot(learner.db.rocks, snapshot);
	rocksdb_writeoptions_destroy(writing);
	rocksdb_column_family_handle_destroy(family);
	learner_close(&learner);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_batches");
	TCase *tcase = tcase_create("batches");
	int result;

	test_make_top();
	tcase_add_loop_test(tcase, every_form_of_lookup_teaches, 0, form_count);
	tcase_add_loop_test(tcase, a_batch_that_overflows_the_trace_is_answered_right, 0, 3);
	tcase_add_test(tcase, odd_batches_hide_no_key);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
