/* winnow-dump on tables that RocksDB itself has written, with every option that changes
 * their bytes. */
#define _GNU_SOURCE
#include <glob.h>

#include "tools/sst/decompress.h"
#include "tests/support/dump_file.h"
#include "tests/support/rocksdb_db.h"

enum filter { NO_FILTER, BLOOM, RIBBON, WINNOW, SSCF, FILTERS };

struct setup {
	int format, checksum, compression;
	enum filter filter;
	bool partitioned;
	int index_type;          /* RocksDB's number */
	int restart_interval;    /* of the index */
	bool hash_in_data_blocks;
	size_t prefix;
	bool only_prefixes;
	int dictionary;
	bool odd_entries;        /* deletions among them, and from RocksDB 7.6 on a
				  * range deletion */
	rocksdb_comparator_t *comparator;
	unsigned keys;
};

static rocksdb_block_based_table_options_t *table_options(const struct setup *setup)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_filterpolicy_t *policy = NULL;

	if (setup->filter == BLOOM)
		policy = rocksdb_filterpolicy_create_bloom_full(10);
	else if (setup->filter == RIBBON)
		policy = rocksdb_filterpolicy_create_ribbon(10);
	else if (setup->filter == WINNOW)
		ck_assert_int_eq(wn_rocksdb_filterpolicy("aqf", NULL, &policy), 0);
	else if (setup->filter == SSCF)
		ck_assert_int_eq(wn_rocksdb_filterpolicy("sscf", NULL, &policy), 0);
	if (policy)
		rocksdb_block_based_options_set_filter_policy(table, policy);
	rocksdb_block_based_options_set_format_version(table, setup->format);
	rocksdb_block_based_options_set_index_type(table, setup->partitioned ? 2
								 : setup->index_type);
	rocksdb_block_based_options_set_partition_filters(table, setup->partitioned);
	rocksdb_block_based_options_set_metadata_block_size(table, 512);
	rocksdb_block_based_options_set_block_size(table, 1024);
	if (setup->restart_interval)
		rocksdb_block_based_options_set_index_block_restart_interval(
			table, setup->restart_interval);
	if (setup->hash_in_data_blocks)
		rocksdb_block_based_options_set_data_block_index_type(table, 1);
	rocksdb_block_based_options_set_whole_key_filtering(table, !setup->only_prefixes);
	return table;
}

static void write_entries(rocksdb_sstfilewriter_t *writer, const struct setup *setup)
{
	char *error = NULL;

	for (unsigned i = 0; i < setup->keys && !error; i++) {
		char key[32], value[64];
		size_t key_size = (size_t)snprintf(key, sizeof(key), "key%08u-%u", i, i % 7);
		size_t size = (size_t)snprintf(value, sizeof(value), "the value of key %u, %u, %u",
					       i, i / 3, i % 5);

		if (setup->odd_entries && i % 5 == 0)
			rocksdb_sstfilewriter_delete(writer, key, key_size, &error);
		else
			rocksdb_sstfilewriter_put(writer, key, key_size, value, size, &error);
	}
	expect_no(error);
#if WN_ROCKSDB_VERSION >= 706
	if (setup->odd_entries)
		rocksdb_sstfilewriter_delete_range(writer, "key000001", 9, "key000002", 9, &error);
	expect_no(error);
#endif
}

static const char *const checksums[] = {"kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"};

/* The path of a table; static storage. */
static const char *write_table(const struct setup *setup)
{
	const char *path = test_path("table.sst");
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = table_options(setup);
	rocksdb_sstfilewriter_t *writer;
	char *error = NULL;

	rocksdb_options_set_block_based_table_factory(options, table);
	options = with_checksum(options, checksums[setup->checksum]);
	rocksdb_options_set_compression(options, setup->compression);
	if (setup->dictionary)
		rocksdb_options_set_compression_options(options, -14, 32767, 0, setup->dictionary);
	if (setup->prefix)
		rocksdb_options_set_prefix_extractor(
			options, rocksdb_slicetransform_create_fixed_prefix(setup->prefix));
	if (setup->comparator)
		rocksdb_options_set_comparator(options, setup->comparator);
	writer = rocksdb_sstfilewriter_create(env, options);
	rocksdb_sstfilewriter_open(writer, path, &error);
	expect_no(error);
	write_entries(writer, setup);
	rocksdb_sstfilewriter_finish(writer, &error);
	expect_no(error);
	rocksdb_sstfilewriter_destroy(writer);
	rocksdb_block_based_options_destroy(table);
	rocksdb_options_destroy(options);
	rocksdb_envoptions_destroy(env);
	return path;
}

static const char *describe(const struct setup *setup)
{
	static char text[200];

	snprintf(text, sizeof(text),
		 "format %d, checksum %d, compression %d, filter %d, partitioned %d, index %d, "
		 "restarts %d, prefix %zu, dictionary %d", setup->format, setup->checksum,
		 setup->compression, setup->filter, setup->partitioned, setup->index_type,
		 setup->restart_interval, setup->prefix, setup->dictionary);
	return text;
}

static void check_filter(const struct dump *dump, const struct setup *setup, const char *what)
{
	static const char *const kinds[] = {"none", "bloom", "ribbon", "aqf", "sscf"};

	/* For few keys, RocksDB's Ribbon policy makes Bloom filters. */
	if (strcmp(dump_filter_kind(dump), kinds[setup->filter]) != 0 &&
	    (setup->filter != RIBBON || strcmp(dump_filter_kind(dump), "bloom") != 0))
		ck_abort_msg("%s: the filter is %s", what, dump_filter_kind(dump));
	if (setup->filter == NO_FILTER) {
		ck_assert_uint_eq(dump->filters.layout, LAYOUT_NONE);
		return;
	}
	ck_assert_uint_eq(dump->filters.layout,
			  setup->partitioned ? LAYOUT_PARTITIONED : LAYOUT_FULL);
	if (setup->partitioned && setup->keys > 1000)
		ck_assert_uint_gt(dump->filters.count, 1);
	if (!setup->only_prefixes && !setup->partitioned && setup->keys > 500) {
		ck_assert(dump_bits_per_key(dump) > 6);
		ck_assert(dump_bits_per_key(dump) < 20);
	}
	if (setup->filter < WINNOW) {
		ck_assert_str_eq(dump->unasked, "the filter is not winnow's");
		return;
	}
	if (dump->unasked)
		ck_abort_msg("%s: not asked: %s", what, dump->unasked);
	ck_assert_uint_eq(dump->keys_asked, setup->only_prefixes ? 0 : setup->keys);
	ck_assert_uint_eq(dump->prefixes_asked, setup->prefix ? setup->keys : 0);
	ck_assert_uint_eq(dump->denied, 0);
	ck_assert_int_eq(dump->filters.sum.has_clusters, setup->filter == WINNOW);
	ck_assert_uint_ge(dump->filters.sum.keys, setup->only_prefixes ? 1 : setup->keys);
}

static void check_table(const struct setup *setup)
{
	const char *what = describe(setup);
	struct dump_options options = {.verify = true};
	struct span file = read_whole_file(write_table(setup));
	struct dump dump;

	dump_read(&dump, file, &options);
	expect_good(&dump, what);
	ck_assert_uint_eq(dump.table.engine, TABLE_ROCKSDB);
	/* RocksDB raises the first format by one when it cannot hold the checksum. */
	if (setup->format > 0)
		ck_assert_int_eq((int)dump.table.format_version, setup->format);
	ck_assert_uint_eq(dump.table.checksum, (unsigned)setup->checksum);
	ck_assert_uint_eq(dump.entries, setup->keys);
	ck_assert_uint_eq(dump.table.blocks_opaque, 0);
	check_filter(&dump, setup, what);
	print_to_nowhere(&dump);
	dump_release(&dump);
	free((void *)(uintptr_t)file.at);
}

#define KEYS (test_is_quick() ? 600u : 2500u)

/* What this RocksDB writes. */
#define LOWEST_FORMAT (WN_ROCKSDB_VERSION >= 1001 ? 2 : 0)
#define HIGHEST_FORMAT (WN_ROCKSDB_VERSION >= 1004 ? 7 : WN_ROCKSDB_VERSION >= 806 ? 6 : 5)

START_TEST(formats_and_checksums)
{
	for (int format = LOWEST_FORMAT; format <= HIGHEST_FORMAT; format++)
		for (int checksum = 0; checksum <= 4; checksum++)
			for (int filter = 0; filter < FILTERS; filter++)
				for (int partitioned = 0; partitioned < 2; partitioned++)
					check_table(&(struct setup){
						.format = format, .checksum = checksum,
						.filter = (enum filter)filter,
						.partitioned = partitioned, .keys = KEYS});
}
END_TEST

START_TEST(compression)
{
	static const int methods[] = {COMPRESSION_NONE, COMPRESSION_SNAPPY, COMPRESSION_LZ4,
				      COMPRESSION_LZ4HC,
#ifdef HAVE_LIBZ
				      COMPRESSION_ZLIB,
#endif
#ifdef HAVE_LIBZSTD
				      COMPRESSION_ZSTD,
#endif
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++) {
		if (!can_compress(methods[i], compression_name((unsigned)methods[i])))
			continue;
		for (int format = 2; format <= HIGHEST_FORMAT; format++)
			for (int dictionary = 0; dictionary <= 4096; dictionary += 4096)
				check_table(&(struct setup){
					.format = format, .checksum = 1, .filter = WINNOW,
					.compression = methods[i], .dictionary = dictionary,
					.keys = KEYS});
	}
}
END_TEST

START_TEST(a_method_that_is_not_known_is_checksummed_only)
{
	struct setup setup = {.format = 5, .checksum = 4, .filter = WINNOW, .compression = 3,
			      .keys = KEYS};
	struct dump_options options = {.verify = true};
	struct span file;
	struct dump dump;

	if (!can_compress(setup.compression, "bzip2"))
		return;
	file = read_whole_file(write_table(&setup));
	dump_read(&dump, file, &options);
	expect_good(&dump, "bzip2");
	ck_assert_uint_gt(dump.table.blocks_opaque, 0);
	ck_assert_uint_eq(dump.keys_asked, 0);
	ck_assert_ptr_nonnull(dump.unasked);
	print_to_nowhere(&dump);
	dump_release(&dump);
	free((void *)(uintptr_t)file.at);
}
END_TEST

START_TEST(indexes)
{
	for (int format = 2; format <= 5; format++)
		for (int type = 0; type <= 3; type++)
			for (int restarts = 1; restarts <= 17; restarts += 8)
				check_table(&(struct setup){
					.format = format, .checksum = 1, .filter = WINNOW,
					.index_type = type, .restart_interval = restarts,
					/* A hash index needs a prefix extractor. */
					.prefix = type == 1 ? 6 : 0, .keys = KEYS,
					.hash_in_data_blocks = restarts == 9});
}
END_TEST

START_TEST(prefixes)
{
	for (int partitioned = 0; partitioned < 2; partitioned++)
		for (int only = 0; only < 2; only++)
			for (size_t length = 4; length <= 10; length += 3)
				check_table(&(struct setup){
					.format = 5, .checksum = 4, .filter = WINNOW,
					.partitioned = partitioned, .prefix = length,
					.only_prefixes = only, .keys = KEYS});
}
END_TEST

START_TEST(deletions_are_keys_too)
{
	check_table(&(struct setup){.format = 5, .checksum = 4, .filter = WINNOW,
				    .odd_entries = true, .keys = KEYS});
}
END_TEST

START_TEST(tables_of_one_key_and_of_many)
{
	for (int partitioned = 0; partitioned < 2; partitioned++) {
		check_table(&(struct setup){.format = 5, .checksum = 4, .filter = WINNOW,
					    .partitioned = partitioned, .keys = 1});
		check_table(&(struct setup){.format = 5, .checksum = 4, .filter = WINNOW,
					    .partitioned = partitioned, .keys = 20 * KEYS});
	}
}
END_TEST

/* ---- another order of keys ---------------------------------------------- */

static void destroy_nothing(void *state)
{
	(void)state;
}

static int compare_bytes(void *state, const char *a, size_t a_size, const char *b, size_t b_size)
{
	int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

	(void)state;
	return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

static const char *comparator_name(void *state)
{
	(void)state;
	return "of the application";
}

/* Which partition a key belongs to is then not known; some must have it. */
START_TEST(an_unknown_order_of_keys)
{
	rocksdb_comparator_t *comparator =
		rocksdb_comparator_create(NULL, destroy_nothing, compare_bytes, comparator_name);

	for (int partitioned = 0; partitioned < 2; partitioned++)
		check_table(&(struct setup){.format = 5, .checksum = 4, .filter = WINNOW,
					    .partitioned = partitioned, .comparator = comparator,
					    .keys = KEYS});
	rocksdb_comparator_destroy(comparator);
}
END_TEST

/* ---- files of a database ------------------------------------------------ */

static void check_file(const char *path, uint64_t keys)
{
	struct dump_options options = {.verify = true};
	struct span file = read_whole_file(path);
	struct dump dump;

	dump_read(&dump, file, &options);
	expect_good(&dump, path);
	ck_assert_uint_eq(dump.keys_asked, keys);
	dump_release(&dump);
	free((void *)(uintptr_t)file.at);
}

/* Ingesting a file writes a number into its properties, and no new checksum. */
START_TEST(an_ingested_file_is_good)
{
	struct setup setup = {.format = 5, .checksum = 1, .filter = WINNOW, .keys = KEYS};
	const char *list[1] = {strdup(write_table(&setup))};
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_ingestexternalfileoptions_t *ingest = rocksdb_ingestexternalfileoptions_create();
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	char *error = NULL;
	size_t checked = 0;
	rocksdb_t *db;
	glob_t found;

	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_disable_auto_compactions(options, 1);
	db = rocksdb_open(options, test_path("ingested"), &error);
	expect_no(error);
	/* Something to be newer than, so that the number is not zero. */
	rocksdb_put(db, writing, "key00000003-3", 13, "x", 1, &error);
	expect_no(error);
	rocksdb_ingest_external_file(db, list, 1, ingest, &error);
	expect_no(error);
	rocksdb_close(db);
	ck_assert_int_eq(glob(test_path("ingested/*.sst"), 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct stat info;

		ck_assert_int_eq(stat(found.gl_pathv[i], &info), 0);
		/* The other is the memtable's: one key, no filter. */
		if (info.st_size < 4096)
			continue;
		check_file(found.gl_pathv[i], KEYS);
		checked++;
	}
	ck_assert_uint_eq(checked, 1);
	globfree(&found);
	free((void *)(uintptr_t)list[0]);
	rocksdb_writeoptions_destroy(writing);
	rocksdb_ingestexternalfileoptions_destroy(ingest);
	rocksdb_options_destroy(options);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dump_rocksdb");
	TCase *tables = tcase_create("tables"), *files = tcase_create("files");
	int status;

	tcase_add_test(tables, formats_and_checksums);
	tcase_add_test(tables, compression);
	tcase_add_test(tables, a_method_that_is_not_known_is_checksummed_only);
	tcase_add_test(tables, indexes);
	tcase_add_test(tables, prefixes);
	tcase_add_test(tables, deletions_are_keys_too);
	tcase_add_test(tables, tables_of_one_key_and_of_many);
	tcase_add_test(tables, an_unknown_order_of_keys);
	tcase_add_test(files, an_ingested_file_is_good);
	suite_add_tcase(suite, tables);
	suite_add_tcase(suite, files);
	test_make_top();
	status = test_run(suite);
	test_remove_top();
	return status;
}
