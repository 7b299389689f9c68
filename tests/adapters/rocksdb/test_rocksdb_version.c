/* test_rocksdb_version.c - in a process with a RocksDB of another version than winnow was built
 * for, nothing of winnow's is shown to RocksDB, whatever is called first; see other_version.cc. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <glob.h>

#include <winnow/error.h>

#include "tests/support/files.h"
#include "tests/support/rocksdb_db.h"

static void expect_both_versions(char *error)
{
	const int major = WN_ROCKSDB_VERSION / 100, minor = WN_ROCKSDB_VERSION % 100;
	char there[64], built[64];

	ck_assert_ptr_nonnull(error);
	snprintf(there, sizeof(there), "has RocksDB %d.%d.0", major, minor + 1);
	snprintf(built, sizeof(built), "built for RocksDB %d.%d", major, minor);
	if (!strstr(error, there) || !strstr(error, built))
		ck_abort_msg("it says: %s", error);
	rocksdb_free(error);
}

static rocksdb_options_t *creating_options(void)
{
	rocksdb_options_t *options = rocksdb_options_create();

	rocksdb_options_set_create_if_missing(options, 1);
	return options;
}

START_TEST(no_policy_is_made)
{
	rocksdb_filterpolicy_t *policy = (rocksdb_filterpolicy_t *)&policy;

	ck_assert_int_eq(wn_rocksdb_filterpolicy(NULL, NULL, &policy), WN_ERR_MISMATCH);
	ck_assert_ptr_null(policy);
}
END_TEST

enum { OPEN, OPEN_FAMILIES, OPEN_TO_READ, CREATE, WAYS };

START_TEST(no_database_is_opened_or_made)
{
	rocksdb_options_t *options = creating_options();
	const rocksdb_options_t *all_options = options;
	const char *name = "default", *path = test_path("refused");
	rocksdb_column_family_handle_t *handle = NULL;
	struct wn_rocksdb *wn = (struct wn_rocksdb *)&wn;
	rocksdb_t *db = NULL;
	char *error = NULL;

	if (_i == OPEN)
		db = wn_rocksdb_open(options, path, NULL, &wn, &error);
	else if (_i == OPEN_FAMILIES)
		db = wn_rocksdb_open_column_families(options, path, 1, &name, &all_options,
						     &handle, NULL, &wn, &error);
	else if (_i == OPEN_TO_READ)
		db = wn_rocksdb_open_for_read_only(options, path, 0, NULL, &wn, &error);
	else
		wn_rocksdb_create(path, NULL, &wn, &error);
	expect_both_versions(error);
	ck_assert_ptr_null(db);
	ck_assert_ptr_null(wn);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_ne(access(state_path("refused"), F_OK), 0);
	rocksdb_options_destroy(options);
}
END_TEST

START_TEST(no_policy_is_asked)
{
	rocksdb_filterpolicy_t *policy = rocksdb_filterpolicy_create_bloom_full(10);
	/* What calls any virtual function of it ends here. */
	void *no_functions[8] = {NULL};
	struct wn_stats stats;

	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(policy, &stats), WN_ERR_INVALID);
	rocksdb_filterpolicy_destroy(policy);
	policy = (rocksdb_filterpolicy_t *)no_functions;
	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(policy, &stats), WN_ERR_INVALID);
	ck_assert_int_eq(wn_rocksdb_filterpolicy_stats(NULL, &stats), 0);
}
END_TEST

/* Does a file that matches the pattern have the text? */
static bool file_has(const char *pattern, const char *text)
{
	char line[4096];
	bool found = false;
	glob_t files;
	FILE *file;

	ck_assert_int_eq(glob(pattern, 0, NULL, &files), 0);
	file = fopen(files.gl_pathv[files.gl_pathc - 1], "r");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		found = found || strstr(line, text);
	fclose(file);
	globfree(&files);
	return found;
}

static void put_one(rocksdb_t *db)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	char *error = NULL;

	rocksdb_put(db, writing, "k", 1, "v", 1, &error);
	expect_no(error);
	rocksdb_writeoptions_destroy(writing);
}

/* RocksDB says so, or goes on without a filter. */
START_TEST(options_strings_know_no_policy_of_winnows)
{
	rocksdb_options_t *base = creating_options(), *options = rocksdb_options_create();
	char *error = NULL;
	rocksdb_t *db;

	rocksdb_get_options_from_string(
		base, "block_based_table_factory={filter_policy=winnow.aqf}", options, &error);
	if (!error) {
		db = rocksdb_open(options, test_path("by_name"), &error);
		expect_no(error);
		put_one(db);
		rocksdb_close(db);
		ck_assert(file_has(test_path("by_name/OPTIONS-*"), "filter_policy=nullptr"));
	}
	rocksdb_free(error);
	rocksdb_options_destroy(options);
	rocksdb_options_destroy(base);
}
END_TEST

/* The C interface's part of them is made all the same. */
START_TEST(the_reverse_maps_options_have_rocksdbs_tables)
{
	rocksdb_options_t *options = wn_rocksdb_reversemap_options();
	char *error = NULL;
	rocksdb_t *db;

	rocksdb_options_set_create_if_missing(options, 1);
	db = rocksdb_open(options, test_path("plain"), &error);
	expect_no(error);
	put_one(db);
	rocksdb_close(db);
	ck_assert(file_has(test_path("plain/OPTIONS-*"), "disable_auto_compactions=true"));
	ck_assert(file_has(test_path("plain/OPTIONS-*"), "index_shortening=kShortenSeparators"));
	rocksdb_options_destroy(options);
}
END_TEST

/* A database of a program whose RocksDB was replaced by another: winnow can still be taken out. */
START_TEST(a_database_can_be_rid_of_winnow)
{
	rocksdb_options_t *options = creating_options();
	rocksdb_column_family_handle_t *family;
	const char *path = test_path("left");
	char *error = NULL, **names;
	size_t count;
	rocksdb_t *db = rocksdb_open(options, path, &error);

	expect_no(error);
	family = rocksdb_create_column_family(db, options, WN_ROCKSDB_REVERSEMAP, &error);
	expect_no(error);
	put_one(db);
	rocksdb_column_family_handle_destroy(family);
	rocksdb_close(db);
	wn_rocksdb_uninstall(path, &error);
	expect_no(error);
	names = rocksdb_list_column_families(options, path, &count, &error);
	expect_no(error);
	ck_assert_uint_eq(count, 1);
	rocksdb_list_column_families_destroy(names, count);
	wn_rocksdb_destroy(options, path, &error);
	expect_no(error);
	rocksdb_options_destroy(options);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_version");
	TCase *tcase = tcase_create("another version");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, no_policy_is_made);
	tcase_add_loop_test(tcase, no_database_is_opened_or_made, 0, WAYS);
	tcase_add_test(tcase, options_strings_know_no_policy_of_winnows);
	tcase_add_test(tcase, no_policy_is_asked);
	tcase_add_test(tcase, the_reverse_maps_options_have_rocksdbs_tables);
	tcase_add_test(tcase, a_database_can_be_rid_of_winnow);
	result = test_run(suite);
	test_remove_top();
	return result;
}
