/* winnow-dump on tables that LevelDB itself has written. */
#define _GNU_SOURCE
#include <ftw.h>
#include <glob.h>
#include <unistd.h>

#include <leveldb/c.h>

#include <winnow/leveldb.h>

#include "kinds/small.h"
#include "tests/support/dump_file.h"
#include "tests/support/files.h"

static char top[4096];

/* ---- a policy with winnow's filters ------------------------------------- */

/* Blocks in LevelDB's tables, as a host of its own might have them. */
struct block_policy {
	struct wn_secret *secret;
	struct wn_builder *builder;
};

static void destroy_nothing(void *state)
{
	(void)state;
}

static char *create_filter(void *state, const char *const *keys, const size_t *sizes, int count,
			   size_t *filter_sizep)
{
	struct block_policy *policy = state;
	void *block = NULL;

	wn_builder_reset(policy->builder);
	for (int i = 0; i < count; i++)
		ck_assert_int_eq(wn_builder_add(policy->builder, keys[i], sizes[i]), 0);
	ck_assert_int_eq(wn_builder_finish(policy->builder, &block, filter_sizep), 0);
	return block;
}

static unsigned char may_match(void *state, const char *key, size_t size, const char *filter,
			       size_t filter_size)
{
	(void)state;
	(void)key;
	(void)size;
	(void)filter;
	(void)filter_size;
	return 1;
}

static const char *policy_name(void *state)
{
	(void)state;
	return "winnow of a test";
}

/* ---- databases ---------------------------------------------------------- */

enum filter { NO_FILTER, BLOOM, WINNOW, SMALL, SMALL_SSCF };

struct setup {
	enum filter filter;
	bool snappy;
	size_t block_size;
	unsigned keys;
};

#define expect_no(error)                                                                           \
	do {                                                                                       \
		if (error)                                                                         \
			ck_abort_msg("LevelDB: %s", error);                                        \
	} while (0)

static leveldb_filterpolicy_t *make_policy(enum filter filter, struct block_policy *blocks)
{
	if (filter == BLOOM)
		return leveldb_filterpolicy_create_bloom(10);
	if (filter == NO_FILTER)
		return NULL;
	if (filter >= SMALL) {
		leveldb_filterpolicy_t *policy;

		ck_assert_int_eq(wn_leveldb_filterpolicy(filter == SMALL_SSCF ? "sscf" : NULL,
							 blocks->secret, NULL, 0, &policy), 0);
		return policy;
	}
	return leveldb_filterpolicy_create(blocks, destroy_nothing, create_filter, may_match,
					   policy_name);
}

/* Write all keys and compact: they are in tables then, each once. */
static void write_keys(leveldb_t *db, unsigned keys)
{
	leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
	char *error = NULL;

	for (unsigned i = 0; i < keys && !error; i++) {
		char key[32], value[80];
		int key_size = snprintf(key, sizeof(key), "key%08u", i);
		int size = snprintf(value, sizeof(value), "the value of key %u, again %u", i, i);

		leveldb_put(db, writing, key, (size_t)key_size, value, (size_t)size, &error);
	}
	expect_no(error);
	leveldb_compact_range(db, NULL, 0, NULL, 0);
	leveldb_writeoptions_destroy(writing);
}

static void make_database(const struct setup *setup, struct block_policy *blocks, const char *path)
{
	leveldb_options_t *options = leveldb_options_create();
	leveldb_filterpolicy_t *policy = make_policy(setup->filter, blocks);
	char *error = NULL;
	leveldb_t *db;

	leveldb_options_set_create_if_missing(options, 1);
	leveldb_options_set_compression(options, setup->snappy ? leveldb_snappy_compression
							       : leveldb_no_compression);
	leveldb_options_set_block_size(options, setup->block_size);
	if (policy)
		leveldb_options_set_filter_policy(options, policy);
	db = leveldb_open(options, path, &error);
	expect_no(error);
	write_keys(db, setup->keys);
	leveldb_close(db);
	leveldb_options_destroy(options);
	if (policy)
		leveldb_filterpolicy_destroy(policy);
}

static void check_dump(const struct dump *dump, const struct setup *setup, const char *path)
{
	static const char *const kinds[] = {"none", "bloom", "aqf", "aqf", "sscf"};

	expect_good(dump, path);
	ck_assert_uint_eq(dump->table.engine, TABLE_LEVELDB);
	ck_assert_str_eq(dump_filter_kind(dump), kinds[setup->filter]);
	ck_assert_uint_eq(dump->filters.layout,
			  setup->filter == NO_FILTER ? LAYOUT_NONE : LAYOUT_BLOCKS);
	/* Snappy is used where it helps. */
	if (setup->snappy)
		ck_assert(dump->compressions & 2);
	else
		ck_assert_uint_eq(dump->compressions, 1);
	if (setup->filter == BLOOM)
		ck_assert(dump_bits_per_key(dump) > 9 && dump_bits_per_key(dump) < 16);
	ck_assert_uint_eq(dump->table.bytes_checked, dump->table.footer_at);
	ck_assert_uint_eq(dump->denied, 0);
	ck_assert_int_eq(dump->filters.sum.small, setup->filter >= SMALL);
}

static void check_database(const struct setup *setup)
{
	static unsigned number;
	struct block_policy blocks = {.secret = test_secret(7)};
	struct dump_options options = {.verify = true, .secret = blocks.secret};
	uint64_t entries = 0, asked = 0, filter_keys = 0;
	char path[4200], pattern[4300];
	glob_t found;

	ck_assert_int_eq(wn_builder_create(NULL, blocks.secret, &blocks.builder), 0);
	snprintf(path, sizeof(path), "%s/db%u-%d", top, number++, (int)getpid());
	make_database(setup, &blocks, path);
	snprintf(pattern, sizeof(pattern), "%s/*.ldb", path);
	ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct span file = read_whole_file(found.gl_pathv[i]);
		struct dump dump;

		dump_read(&dump, file, &options);
		check_dump(&dump, setup, found.gl_pathv[i]);
		entries += dump.entries;
		asked += dump.keys_asked;
		filter_keys += dump.filters.sum.keys;
		print_to_nowhere(&dump);
		dump_release(&dump);
		free((void *)(uintptr_t)file.at);
	}
	ck_assert_uint_eq(entries, setup->keys);
	if (setup->filter >= WINNOW) {
		ck_assert_uint_eq(asked, setup->keys);
		/* The seesaw counting filter's small form does not say. */
		ck_assert_uint_eq(filter_keys, setup->filter == SMALL_SSCF ? 0 : setup->keys);
	}
	globfree(&found);
	wn_builder_destroy(blocks.builder);
	wn_secret_destroy(blocks.secret);
}

#define KEYS (test_is_quick() ? 3000u : 40000u)

START_TEST(tables_without_a_filter)
{
	check_database(&(struct setup){NO_FILTER, false, 4096, KEYS});
	check_database(&(struct setup){NO_FILTER, true, 4096, KEYS});
}
END_TEST

START_TEST(tables_with_bloom_filters)
{
	for (size_t size = 1024; size <= 65536; size *= 8) {
		check_database(&(struct setup){BLOOM, false, size, KEYS});
		check_database(&(struct setup){BLOOM, true, size, KEYS});
	}
}
END_TEST

START_TEST(tables_with_winnow_blocks)
{
	for (size_t size = 1024; size <= 65536; size *= 8) {
		check_database(&(struct setup){WINNOW, false, size, KEYS});
		check_database(&(struct setup){WINNOW, true, size, KEYS});
	}
}
END_TEST

/* Those of the adapter: no block around them. */
START_TEST(tables_with_the_adapters_filters)
{
	for (size_t size = 1024; size <= 65536; size *= 8) {
		check_database(&(struct setup){SMALL, false, size, KEYS});
		check_database(&(struct setup){SMALL, true, size, KEYS});
		check_database(&(struct setup){SMALL_SSCF, size == 1024, size, KEYS});
	}
}
END_TEST

static void check_without_secret(enum filter filter, const char *name)
{
	struct setup setup = {filter, true, 4096, 3000};
	struct block_policy blocks = {.secret = test_secret(9)};
	char path[4200], pattern[4300];
	glob_t found;

	ck_assert_int_eq(wn_builder_create(NULL, blocks.secret, &blocks.builder), 0);
	snprintf(path, sizeof(path), "%s/%s", top, name);
	make_database(&setup, &blocks, path);
	snprintf(pattern, sizeof(pattern), "%s/*.ldb", path);
	ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct dump_options options = {.verify = true};
		struct span file = read_whole_file(found.gl_pathv[i]);
		struct dump dump;

		dump_read(&dump, file, &options);
		expect_good(&dump, found.gl_pathv[i]);
		ck_assert_uint_gt(dump.filters.sum.without_secret, 0);
		ck_assert_uint_eq(dump.filters.sum.secret_id,
				  wn__small_secret_id(blocks.secret));
		ck_assert_uint_eq(dump.keys_asked, 0);
		ck_assert_str_eq(dump.unasked, "the secret of the filters is not given");
		print_to_nowhere(&dump);
		dump_release(&dump);
		free((void *)(uintptr_t)file.at);
	}
	globfree(&found);
	wn_builder_destroy(blocks.builder);
	wn_secret_destroy(blocks.secret);
}

START_TEST(filters_without_their_secret_are_not_damaged)
{
	check_without_secret(SMALL, "small");
	check_without_secret(SMALL_SSCF, "small_sscf");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dump_leveldb");
	TCase *tables = tcase_create("tables");
	const char *tmp = getenv("TMPDIR");
	int status;

	tcase_add_test(tables, tables_without_a_filter);
	tcase_add_test(tables, tables_with_bloom_filters);
	tcase_add_test(tables, tables_with_winnow_blocks);
	tcase_add_test(tables, tables_with_the_adapters_filters);
	tcase_add_test(tables, filters_without_their_secret_are_not_damaged);
	suite_add_tcase(suite, tables);
	snprintf(top, sizeof(top), "%s/winnow-leveldb-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(top)) {
		perror(top);
		return EXIT_FAILURE;
	}
	status = test_run(suite);
	nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return status;
}
