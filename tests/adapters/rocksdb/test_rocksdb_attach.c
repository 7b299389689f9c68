/* test_rocksdb_attach.c - programs that open their database or its column families themselves. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/rocksdb_learner.h"

/* ---- what is there ------------------------------------------------------ */

/* A stock RocksDB finds everything. */
static void expect_stock_reads(const char *name)
{
	struct db_setup setup = {.stock = STOCK_BLOOM};
	struct db db = db_open(name, &setup);

	db_expect_right(&db, 2, numbers());
	db_close(&db);
}

/* ---- column families ---------------------------------------------------- */

START_TEST(the_column_family_is_opened_by_those_who_name_it_too)
{
	static const struct db_setup setup = {.name = "named", .no_compaction = true};
	static const char *const names[] = {"default", WN_ROCKSDB_REVERSEMAP};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	const rocksdb_options_t *family_options[] = {learner.db.options, learner.db.options};
	rocksdb_column_family_handle_t *families[2];
	char *error = NULL;

	wn_rocksdb_close(learner.wn);
	learner.db.rocks = wn_rocksdb_open_column_families(learner.db.options,
							   test_path(setup.name), 2, names,
							   family_options, families, &options,
							   &learner.wn, &error);
	expect_no(error);
	expect_learning(&learner);
	for (unsigned i = 0; i < 2; i++)
		rocksdb_column_family_handle_destroy(families[i]);
	wn_rocksdb_close(learner.wn);
	/* A stock RocksDB that does not name it refuses, as with every family. */
	learner.db.rocks = rocksdb_open(learner.db.options, test_path(setup.name), &error);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, WN_ROCKSDB_REVERSEMAP));
	rocksdb_free(error);
	error = NULL;
	learner.db.rocks = rocksdb_open_column_families(learner.db.options, test_path(setup.name),
							2, names, family_options, families,
							&error);
	expect_no(error);
	learner.db.family = families[0];
	db_expect_right(&learner.db, 2, numbers());
	for (unsigned i = 0; i < 2; i++)
		rocksdb_column_family_handle_destroy(families[i]);
	rocksdb_close(learner.db.rocks);
	rocksdb_readoptions_destroy(learner.db.reading);
	rocksdb_options_destroy(learner.db.options);
}
END_TEST

/* Numbers under `family`, the even ones stored, all asked for: how many false positives? */
static uint64_t ask_family(struct learner *learner, rocksdb_column_family_handle_t *family)
{
	uint64_t before = learner_stats(learner).false_positives;

	for (uint64_t number = 0; number < numbers() / 4; number++) {
		char key[DB_KEY_SIZE];
		char *error = NULL, *value;
		size_t size;

		db_key(number, key);
		value = wn_rocksdb_get_cf(learner->wn, learner->db.reading, family, key,
					  sizeof(key), &size, &error);
		expect_no(error);
		expect((value != NULL) == (number % 2 == 0));
		rocksdb_free(value);
	}
	return learner_stats(learner).false_positives - before;
}

static void fill_family(struct learner *learner, rocksdb_column_family_handle_t *family)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = NULL;

	for (uint64_t number = 0; number < numbers() / 4; number += 2) {
		char key[DB_KEY_SIZE];

		db_key(number, key);
		rocksdb_put_cf(learner->db.rocks, writing, family, key, sizeof(key), "x", 1,
			       &error);
		expect_no(error);
	}
	rocksdb_flush_cf(learner->db.rocks, flushing, family, &error);
	expect_no(error);
	wn_rocksdb_drain(learner->wn);
	rocksdb_flushoptions_destroy(flushing);
	rocksdb_writeoptions_destroy(writing);
}

START_TEST(a_family_that_is_made_later_learns_and_one_that_is_dropped_is_forgotten)
{
	struct db_setup setup = {.name = _i ? "later_sidecar" : "later", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	rocksdb_column_family_handle_t *family;
	char *error = NULL;

	options.store = _i ? WN_ROCKSDB_SIDECAR : WN_ROCKSDB_COLUMN_FAMILY;
	learner = learner_fill(&setup, &options);
	family = wn_rocksdb_create_column_family(learner.wn, learner.db.options, "later", &error);
	expect_no(error);
	fill_family(&learner, family);
	ck_assert_uint_gt(ask_family(&learner, family), 0);
	ck_assert_uint_eq(ask_family(&learner, family), 0);
	rocksdb_drop_column_family(learner.db.rocks, family, &error);
	expect_no(error);
	/* Until the handle goes it can be read. */
	ck_assert_uint_eq(ask_family(&learner, family), 0);
	rocksdb_column_family_handle_destroy(family);
	wn_rocksdb_drain(learner.wn);
	expect_learning(&learner);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* ---- programs that open their database themselves ----------------------- */

struct attached {
	struct learner learner;
	rocksdb_column_family_handle_t *families[2]; /* the second one: with_family */
	bool with_family;
};

static struct attached attach(const char *name, const struct wn_rocksdb_options *options,
			      bool with_family)
{
	static const char *const names[] = {"default", WN_ROCKSDB_REVERSEMAP};
	struct db_setup setup = {.no_compaction = true};
	struct attached attached = {.with_family = with_family};
	struct learner *learner = &attached.learner;
	rocksdb_options_t *own = wn_rocksdb_reversemap_options();
	const rocksdb_options_t *family_options[2];
	char *error = NULL;

	learner->db.options = rocksdb_options_create();
	learner->db.reading = rocksdb_readoptions_create();
	db_set_options(&learner->db, &setup);
	rocksdb_options_set_create_missing_column_families(learner->db.options, 1);
	wn_rocksdb_create(test_path(name), options, &learner->wn, &error);
	expect_no(error);
	wn_rocksdb_prepare(learner->wn, learner->db.options, &error);
	expect_no(error);
	family_options[0] = learner->db.options;
	family_options[1] = own;
	learner->db.rocks = rocksdb_open_column_families(learner->db.options, test_path(name),
							 with_family ? 2 : 1, names,
							 family_options, attached.families,
							 &error);
	expect_no(error);
	wn_rocksdb_attach(learner->wn, learner->db.rocks,
			  with_family ? attached.families[1] : NULL, &error);
	expect_no(error);
	rocksdb_options_destroy(own);
	return attached;
}

static void close_attached(struct attached *attached)
{
	struct learner *learner = &attached->learner;

	for (int i = 0; i < (attached->with_family ? 2 : 1); i++)
		rocksdb_column_family_handle_destroy(attached->families[i]);
	rocksdb_close(learner->db.rocks);
	rocksdb_readoptions_destroy(learner->db.reading);
	rocksdb_options_destroy(learner->db.options);
}

START_TEST(an_attached_database_learns_and_goes_on_when_detached)
{
	const char *name = _i ? "attached_family" : "attached";
	struct wn_rocksdb_options options = quickly();
	struct attached attached = attach(name, &options, _i);
	struct learner *learner = &attached.learner;

	db_put(&learner->db, 0, numbers());
	db_flush(&learner->db);
	wn_rocksdb_drain(learner->wn);
	expect_learning(learner);
	wn_rocksdb_detach(learner->wn);
	/* Readers, builders and the listener are still there. */
	db_put(&learner->db, 0, numbers());
	db_flush(&learner->db);
	db_compact(&learner->db);
	learner->db.family = attached.families[0];
	db_expect_right(&learner->db, 2, numbers());
	close_attached(&attached);
	/* And once more, with what is there. */
	attached = attach(name, &options, _i);
	db_put(&attached.learner.db, 0, numbers());
	db_flush(&attached.learner.db);
	db_compact(&attached.learner.db);
	wn_rocksdb_drain(attached.learner.wn);
	ask_absent(&attached.learner);
	ck_assert_uint_eq(ask_absent(&attached.learner), 0);
	expect_stored(&attached.learner);
	wn_rocksdb_detach(attached.learner.wn);
	close_attached(&attached);
	if (!_i)
		expect_stock_reads(name);
}
END_TEST

START_TEST(a_database_that_is_never_attached_is_a_database)
{
	struct wn_rocksdb_options options = quickly();
	struct db_setup setup = {.no_compaction = true};
	struct db db = {.options = rocksdb_options_create()};
	struct wn_rocksdb *wn;
	char *error = NULL;

	db_set_options(&db, &setup);
	wn_rocksdb_create(test_path("unattached"), &options, &wn, &error);
	expect_no(error);
	wn_rocksdb_prepare(wn, db.options, &error);
	expect_no(error);
	db_open_as_is(&db, "unattached");
	db_put(&db, 0, numbers());
	db_flush(&db);
	db_compact(&db);
	wn_rocksdb_detach(wn);
	db_expect_right(&db, 2, numbers());
	db_close(&db);
}
END_TEST

START_TEST(options_without_block_based_tables_cannot_be_prepared)
{
	rocksdb_options_t *options = rocksdb_options_create();
	struct wn_rocksdb *wn;
	char *error = NULL;

	wn_rocksdb_create(test_path("plain"), NULL, &wn, &error);
	expect_no(error);
	set_plain_tables(options);
	wn_rocksdb_prepare(wn, options, &error);
	ck_assert_ptr_nonnull(strstr(error, "block-based"));
	rocksdb_free(error);
	rocksdb_options_destroy(options);
	wn_rocksdb_detach(wn);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_attach");
	TCase *tcase = tcase_create("life");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, the_column_family_is_opened_by_those_who_name_it_too);
	tcase_add_loop_test(tcase,
			    a_family_that_is_made_later_learns_and_one_that_is_dropped_is_forgotten,
			    0, 2);
	tcase_add_loop_test(tcase, an_attached_database_learns_and_goes_on_when_detached, 0, 2);
	tcase_add_test(tcase, a_database_that_is_never_attached_is_a_database);
	tcase_add_test(tcase, options_without_block_based_tables_cannot_be_prepared);
	result = test_run(suite);
	test_remove_top();
	return result;
}
