/* test_rocksdb_copies.c - databases that learn, read only, copied, restored, fed with tables from
 * elsewhere, reported on, and removed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "tests/support/rocksdb_learner.h"

static bool exists(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0;
}

/* A copy of test_path()'s result, which the next call overwrites. */
static char *keep_path(const char *name)
{
	char *copy = strdup(test_path(name));

	ck_assert_ptr_nonnull(copy);
	return copy;
}

static const enum wn_rocksdb_store stores[] = {WN_ROCKSDB_COLUMN_FAMILY, WN_ROCKSDB_SIDECAR};

/* ---- read only ---------------------------------------------------------- */

static struct learner open_read_only(const char *name, const struct wn_rocksdb_options *options)
{
	struct db_setup setup = {.name = name};
	struct learner learner = {.db.options = rocksdb_options_create()};
	char *error = NULL;

	db_set_options(&learner.db, &setup);
	learner.db.reading = rocksdb_readoptions_create();
	learner.db.rocks = wn_rocksdb_open_for_read_only(learner.db.options, test_path(name), 0,
							 options, &learner.wn, &error);
	expect_no(error);
	return learner;
}

/* What is in the directory: names, sizes and times, in one number. */
static uint64_t directory_sum;

static int add_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)kind;
	(void)where;
	for (const char *at = path; *at; at++)
		directory_sum = directory_sum * 31 + (unsigned char)*at;
	directory_sum += (uint64_t)info->st_size * 1000003 + (uint64_t)info->st_mtim.tv_nsec +
			 (uint64_t)info->st_mtim.tv_sec * 1009;
	return 0;
}

static uint64_t sum_directory(const char *path)
{
	directory_sum = 0;
	ck_assert_int_eq(nftw(path, add_entry, 16, FTW_PHYS), 0);
	return directory_sum;
}

START_TEST(a_database_opened_to_read_has_the_benefit_and_is_not_written)
{
	struct db_setup setup = {.name = _i ? "read_files" : "read_family", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	uint64_t sum;

	options.store = stores[_i];
	learner = learner_fill(&setup, &options);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	learner_close(&learner);
	sum = sum_directory(state_path(setup.name));
	learner = open_read_only(setup.name, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	/* Others are learned for as long as it is open. */
	for (uint64_t number = 1; number < numbers(); number += 2)
		expect(ask(&learner, number) == 0);
	ck_assert_uint_gt(learner_stats(&learner).adaptations, 0);
	ck_assert_uint_eq(learner_stats(&learner).reversemap_misses, 0);
	expect_stored(&learner);
	learner_close(&learner);
	ck_assert_uint_eq(sum_directory(state_path(setup.name)), sum);
}
END_TEST

START_TEST(a_database_without_a_directory_can_be_read)
{
	struct db_setup setup = {.name = "read_plain", .stock = STOCK_BLOOM};
	struct db db = db_open(setup.name, &setup);
	struct learner learner;

	db_put(&db, 0, numbers());
	db_flush(&db);
	db_close(&db);
	learner = open_read_only(setup.name, NULL);
	expect_stored(&learner);
	learner_close(&learner);
	ck_assert(!exists(state_path(setup.name)));
}
END_TEST

/* ---- copies ------------------------------------------------------------- */

/* Right answers; and new tables learn. */
static void expect_good_copy(const char *name, const struct wn_rocksdb_options *options)
{
	struct db_setup setup = {.name = name, .no_compaction = true};
	struct learner learner = learner_open(&setup, options);

	ask_absent(&learner);
	expect_stored(&learner);
	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	db_compact(&learner.db);
	wn_rocksdb_drain(learner.wn);
	ask_absent(&learner);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}

START_TEST(a_checkpoint_is_a_database_of_its_own)
{
	struct db_setup setup = {.name = _i ? "point_files" : "point_family",
				 .no_compaction = true};
	const char *copy = _i ? "point_files_copy" : "point_family_copy";
	struct wn_rocksdb_options options = quickly();
	rocksdb_checkpoint_t *checkpoint;
	struct learner learner;
	char *error = NULL;

	options.store = stores[_i];
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	checkpoint = rocksdb_checkpoint_object_create(learner.db.rocks, &error);
	expect_no(error);
	rocksdb_checkpoint_create(checkpoint, test_path(copy), 0, &error);
	expect_no(error);
	rocksdb_checkpoint_object_destroy(checkpoint);
	expect_good_copy(copy, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(a_backup_can_be_restored_in_place)
{
	struct db_setup setup = {.name = _i ? "backup_files" : "backup_family",
				 .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	char *backup_path = keep_path(_i ? "backup_1" : "backup_0");
	rocksdb_restore_options_t *restoring = rocksdb_restore_options_create();
	rocksdb_backup_engine_t *backup;
	struct learner learner;
	char *error = NULL;

	options.store = stores[_i];
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	backup = rocksdb_backup_engine_open(learner.db.options, backup_path, &error);
	expect_no(error);
	rocksdb_backup_engine_create_new_backup(backup, learner.db.rocks, &error);
	expect_no(error);
	/* It goes on, with other tables under the numbers that the backup's next ones have. */
	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	db_compact(&learner.db);
	learner_close(&learner);
	rocksdb_backup_engine_restore_db_from_latest_backup(
		backup, test_path(setup.name), test_path(setup.name), restoring, &error);
	expect_no(error);
	expect_good_copy(setup.name, &options);
	rocksdb_restore_options_destroy(restoring);
	rocksdb_backup_engine_close(backup);
	free(backup_path);
}
END_TEST

/* ---- tables from elsewhere ---------------------------------------------- */

/* A table with the even numbers from `first` to `end`. */
static void write_table(const rocksdb_options_t *options, const char *path, uint64_t first,
			uint64_t end)
{
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env, options);
	char *error = NULL;

	rocksdb_sstfilewriter_open(writer, path, &error);
	expect_no(error);
	for (uint64_t number = first; number < end; number += 2) {
		char key[16];

		snprintf(key, sizeof(key), "%015" PRIu64, number % 1000000000);
		rocksdb_sstfilewriter_put(writer, key, 15, (const char *)&number, sizeof(number),
					  &error);
		expect_no(error);
	}
	rocksdb_sstfilewriter_finish(writer, &error);
	expect_no(error);
	rocksdb_sstfilewriter_destroy(writer);
	rocksdb_envoptions_destroy(env);
}

static void ask_ingested(struct learner *learner, uint64_t end)
{
	for (uint64_t number = 0; number < end; number++) {
		char key[16], *error = NULL, *value;
		size_t size;

		snprintf(key, sizeof(key), "%015" PRIu64, number % 1000000000);
		value = wn_rocksdb_get(learner->wn, learner->db.reading, key, 15, &size, &error);
		expect_no(error);
		expect((value != NULL) == (number % 2 == 0));
		rocksdb_free(value);
	}
}

/* 0: without filters; 1: with Bloom filters; 2: with winnow's, made elsewhere; 3: with those
 * of this very database. */
START_TEST(tables_from_elsewhere_are_read_right)
{
	static const char *const names[] = {"none", "bloom", "elsewhere", "own"};
	static const struct db_setup tables[] = {
		{.stock = STOCK_NONE}, {.stock = STOCK_BLOOM}, {.winnow = SHORT}, {.winnow = SHORT},
	};
	struct db_setup setup = {.name = names[_i], .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	struct db elsewhere = {.options = rocksdb_options_create()};
	rocksdb_ingestexternalfileoptions_t *ingesting = rocksdb_ingestexternalfileoptions_create();
	char *path = keep_path("table.sst"), *error = NULL;
	const char *paths[] = {path};

	db_set_table(&elsewhere, &tables[_i]);
	if (_i == 3)
		wn_rocksdb_prepare(learner.wn, elsewhere.options, &error);
	expect_no(error);
	write_table(elsewhere.options, path, 0, 20000);
	rocksdb_ingest_external_file(learner.db.rocks, paths, 1, ingesting, &error);
	expect_no(error);
	wn_rocksdb_drain(learner.wn);
	for (int pass = 0; pass < 3; pass++) {
		ask_ingested(&learner, 20000);
		expect_stored(&learner);
		if (pass == 1)
			db_compact(&learner.db);
	}
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ask_ingested(&learner, 20000);
	expect_stored(&learner);
	learner_close(&learner);
	rocksdb_ingestexternalfileoptions_destroy(ingesting);
	rocksdb_options_destroy(elsewhere.options);
	unlink(path);
	free(path);
}
END_TEST

/* ---- the end ------------------------------------------------------------ */

START_TEST(an_uninstalled_database_is_stock)
{
	struct db_setup setup = {.name = _i ? "un_files" : "un_family", .no_compaction = true};
	struct db_setup stock = {.stock = STOCK_BLOOM};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	char *error = NULL;
	struct db db;

	options.store = stores[_i];
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	if (_i == 0) {
		/* Somebody has it open. */
		wn_rocksdb_uninstall(test_path(setup.name), &error);
		ck_assert_ptr_nonnull(error);
		rocksdb_free(error);
		error = NULL;
	}
	learner_close(&learner);
	ck_assert(exists(state_path(setup.name)));
	wn_rocksdb_uninstall(test_path(setup.name), &error);
	expect_no(error);
	ck_assert(!exists(state_path(setup.name)));
	db = db_open(setup.name, &stock);
	db_expect_right(&db, 2, numbers());
	db_close(&db);
	/* And again, when there is nothing to do. */
	wn_rocksdb_uninstall(test_path(setup.name), &error);
	expect_no(error);
	expect_good_copy(setup.name, &options);
}
END_TEST

START_TEST(a_destroyed_database_leaves_nothing)
{
	static const struct db_setup setup = {.name = "destroyed", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	rocksdb_options_t *plain = rocksdb_options_create();
	char *error = NULL;

	learner_close(&learner);
	wn_rocksdb_destroy(plain, test_path(setup.name), &error);
	expect_no(error);
	ck_assert(!exists(state_path(setup.name)));
	rocksdb_options_destroy(plain);
}
END_TEST

START_TEST(what_a_destroyed_database_left_is_not_taken_for_the_next_ones)
{
	static const struct db_setup setup = {.name = "successor", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	rocksdb_options_t *plain = rocksdb_options_create();
	struct learner learner;
	char *error = NULL;

	options.store = WN_ROCKSDB_SIDECAR;
	learner = learner_fill(&setup, &options);
	ask_absent(&learner);
	learner_close(&learner);
	rocksdb_destroy_db(plain, test_path(setup.name), &error);
	expect_no(error);
	ck_assert(exists(state_path(setup.name)));
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(learner_stats(&learner).lessons, 0);
	ck_assert_uint_eq(learner_stats(&learner).key_lists, 0);
	ck_assert_uint_eq(learner_stats(&learner).negatives, 0);
	learner_close(&learner);
	rocksdb_options_destroy(plain);
	learner = learner_fill(&setup, &options);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	learner_close(&learner);
}
END_TEST

/* ---- reports ------------------------------------------------------------ */

static uint64_t number_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	ck_assert_msg(at != NULL, "no %s in:\n%s", name, text);
	return strtoull(at + strlen(name), NULL, 10);
}

/* The user names a directory that holds other things. */
START_TEST(only_files_of_winnows_are_ever_removed)
{
	static const char *const names[] = {"notes.txt", "run", "0123.run", "000012.sst",
					    "lessons.txt", "run-7.sst.old"};
	static const struct db_setup setup = {.name = "guest", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	char directory[8192], path[8300];
	rocksdb_options_t *stock;
	struct learner learner;
	char *error = NULL;

	snprintf(directory, sizeof(directory), "%s", test_path("shelf"));
	ck_assert_int_eq(mkdir(directory, 0700), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		fclose(fopen(path, "w"));
	}
	options.sidecar_directory = directory;
	for (unsigned round = 0; round < 2; round++) {
		learner = learner_fill(&setup, &options);
		ask_absent(&learner);
		learner_close(&learner);
		/* Another database then finds what this one left. */
		wn_rocksdb_uninstall(test_path("guest"), &error);
		expect_no(error);
		stock = rocksdb_options_create();
		rocksdb_destroy_db(stock, test_path("guest"), &error);
		rocksdb_options_destroy(stock);
		expect_no(error);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		ck_assert_int_eq(access(path, F_OK), 0);
	}
}
END_TEST

START_TEST(statistics_come_as_text_too)
{
	static const struct db_setup setup = {.name = "text", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	struct wn_stats stats;
	char *text;

	ask_absent(&learner);
	stats = learner_stats(&learner);
	ck_assert_uint_gt(stats.key_lists, 0);
	ck_assert_uint_gt(stats.reversemap_bytes, stats.filter_keys * 8);
	ck_assert_uint_gt(stats.reversemap_reads, 0);
	ck_assert_uint_gt(stats.negatives, 0);
	ck_assert_uint_eq(stats.repeated_false_positives, 0);
	text = wn_rocksdb_property(learner.wn, "winnow.stats");
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(number_behind(text, "\nfalse_positives: "), stats.false_positives);
	ck_assert_uint_eq(number_behind(text, "lookups: "), stats.lookups);
	free(text);
	text = wn_rocksdb_property(learner.wn, "winnow.prometheus");
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(number_behind(text, "\nwinnow_adaptations_total "), stats.adaptations);
	ck_assert_uint_eq(number_behind(text, "\nwinnow_lessons "), stats.lessons);
	ck_assert_ptr_nonnull(strstr(text, "# TYPE winnow_reversemap_bytes gauge\n"));
	ck_assert_int_eq(text[strlen(text) - 1], '\n');
	free(text);
	ck_assert_ptr_null(wn_rocksdb_property(learner.wn, "winnow.weather"));
	learner_close(&learner);
}
END_TEST

START_TEST(a_key_that_is_known_to_be_absent_is_never_mistaken)
{
	static const struct db_setup setup = {.name = "known", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_open(&setup, &options);
	const uint64_t known = 1000; /* which the smallest filter heeds as well */

	for (uint64_t i = 0; i < known; i++) {
		char key[DB_KEY_SIZE];

		db_key(absent(i), key);
		ck_assert_int_eq(wn_rocksdb_add_negative(learner.wn, key, sizeof(key), 1), 0);
	}
	ck_assert_int_ne(wn_rocksdb_add_negative(learner.wn, "key", 3, 0), 0);
	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	wn_rocksdb_drain(learner.wn);
	for (uint64_t i = 0; i < known; i++)
		expect(ask(&learner, absent(i)) == 0);
	ck_assert_uint_eq(learner_stats(&learner).false_positives, 0);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(what_was_learned_is_charged_to_the_block_cache)
{
	struct db_setup setup = {.name = "charged", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	uint64_t registry;

	many = true;
	options.filter = "aqf:remainder_bits=2";
	setup.cache = rocksdb_cache_create_lru(64 << 20);
	learner = learner_fill(&setup, &options);
	for (uint64_t number = 1; number < numbers(); number += 2)
		expect(ask(&learner, number) == 0);
	registry = learner_stats(&learner).learned_bytes;
	ck_assert_uint_gt(registry, 64 << 10);
	/* RocksDB reserves by the quarter of a megabyte, and it is told now and then. */
	ck_assert_uint_ge(rocksdb_cache_get_pinned_usage(setup.cache), registry / 2);
	learner_close(&learner);
	ck_assert_uint_lt(rocksdb_cache_get_pinned_usage(setup.cache), 64 << 10);
	rocksdb_cache_destroy(setup.cache);
}
END_TEST

START_TEST(filters_that_are_built_again_learn_in_databases_as_well)
{
	static const struct db_setup setup = {.name = "rebuilt", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner;
	uint64_t first = 0, last = 0;

	options.filter = "sscf";
	learner = learner_fill(&setup, &options);
	for (int pass = 0; pass < 4; pass++) {
		uint64_t before = learner_stats(&learner).false_positives;

		for (uint64_t number = 1; number < numbers(); number += 2)
			expect(ask(&learner, number) == 0);
		last = learner_stats(&learner).false_positives - before;
		if (pass == 0)
			first = last;
	}
	fprintf(stderr, "%" PRIu64 " false positives, then %" PRIu64 "\n", first, last);
	ck_assert_uint_le(last, first);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_copies");
	TCase *tcase = tcase_create("copies");
	int result;

	test_make_top();
	tcase_add_loop_test(tcase, a_database_opened_to_read_has_the_benefit_and_is_not_written, 0,
			    2);
	tcase_add_test(tcase, a_database_without_a_directory_can_be_read);
	tcase_add_loop_test(tcase, a_checkpoint_is_a_database_of_its_own, 0, 2);
	tcase_add_loop_test(tcase, a_backup_can_be_restored_in_place, 0, 2);
	tcase_add_loop_test(tcase, tables_from_elsewhere_are_read_right, 0, 4);
	tcase_add_loop_test(tcase, an_uninstalled_database_is_stock, 0, 2);
	tcase_add_test(tcase, a_destroyed_database_leaves_nothing);
	tcase_add_test(tcase, what_a_destroyed_database_left_is_not_taken_for_the_next_ones);
	tcase_add_test(tcase, only_files_of_winnows_are_ever_removed);
	tcase_add_test(tcase, statistics_come_as_text_too);
	tcase_add_test(tcase, a_key_that_is_known_to_be_absent_is_never_mistaken);
	tcase_add_test(tcase, what_was_learned_is_charged_to_the_block_cache);
	tcase_add_test(tcase, filters_that_are_built_again_learn_in_databases_as_well);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
