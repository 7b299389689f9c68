/* test_leveldb_damage.c - tables of LevelDB whose filters, or what leads to them, are damaged on
 * disk. LevelDB itself looks at checksums of these only if it is told to. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/leveldb_db.h"

#define STORED 20000
#define FOOTER 48

struct handle {
	uint64_t offset, size;
};

struct table {
	char path[9000];
	unsigned char *bytes;
	size_t size;
	struct handle metaindex, filters;
};

static uint64_t take_varint(const unsigned char **at)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		unsigned char byte = *(*at)++;

		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return value;
	}
}

static struct handle take_handle(const unsigned char *at)
{
	struct handle handle;

	handle.offset = take_varint(&at);
	handle.size = take_varint(&at);
	return handle;
}

/* One entry is in the metaindex: three sizes, its key, the handle. */
static struct table read_table(const char *path)
{
	struct table table = {.size = 0};
	FILE *file = fopen(path, "rb");
	const unsigned char *entry;
	uint64_t key_size;

	snprintf(table.path, sizeof(table.path), "%s", path);
	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	table.size = (size_t)ftell(file);
	rewind(file);
	table.bytes = malloc(table.size);
	ck_assert_uint_eq(fread(table.bytes, 1, table.size, file), table.size);
	fclose(file);
	table.metaindex = take_handle(table.bytes + table.size - FOOTER);
	entry = table.bytes + table.metaindex.offset;
	ck_assert_uint_eq(take_varint(&entry), 0);
	key_size = take_varint(&entry);
	take_varint(&entry);
	ck_assert_mem_eq(entry, "filter.", 7);
	table.filters = take_handle(entry + key_size);
	return table;
}

static void write_table(const struct table *table)
{
	FILE *file = fopen(table->path, "wb");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(table->bytes, 1, table->size, file), table->size);
	ck_assert_int_eq(fclose(file), 0);
}

/* Do this to each table of the database; how many there were. */
static unsigned each_table(const char *name, void (*change)(struct table *table, uint64_t *random),
			   uint64_t *random)
{
	DIR *directory = opendir(test_path(name));
	const struct dirent *entry;
	unsigned count = 0;

	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory))) {
		char path[9000];
		struct table table;

		if (!strstr(entry->d_name, ".ldb"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", test_path(name), entry->d_name);
		table = read_table(path);
		change(&table, random);
		write_table(&table);
		free(table.bytes);
		count++;
	}
	closedir(directory);
	return count;
}

static void flip_in(struct table *table, struct handle handle, uint64_t *random)
{
	for (unsigned i = 0; i < 41; i++)
		table->bytes[handle.offset + test_random(random) % handle.size] ^=
			(unsigned char)(1u << test_random(random) % 8);
}

static void damage_filters(struct table *table, uint64_t *random)
{
	flip_in(table, table->filters, random);
}

static void damage_metaindex(struct table *table, uint64_t *random)
{
	struct handle one = {table->metaindex.offset + test_random(random) % table->metaindex.size,
			     1};

	flip_in(table, one, random);
}

/* Filters all of one bits, or of zero bits, pass for nothing of ours. */
static void overwrite_filters(struct table *table, uint64_t *random)
{
	memset(table->bytes + table->filters.offset, test_random(random) % 2 ? 0xff : 0,
	       table->filters.size);
}

static void (*const damages[])(struct table *table, uint64_t *random) = {
	damage_filters, damage_metaindex, overwrite_filters};

START_TEST(damaged_filters_deny_no_key)
{
	struct db_setup setup = {.name = "damaged"};
	uint64_t random = test_seed("damaged_filters_deny_no_key", 41);
	struct db db;

	for (int round = 0; round < (test_is_quick() ? 3 : 12); round++) {
		db = db_open(&setup);
		db_put(&db, 0, 2 * STORED);
		db_compact(&db);
		db_ask_absent(&db, 0, 2000);
		db_close(&db);
		ck_assert_uint_gt(each_table("damaged", damages[_i], &random), 0);
		db = db_open(&setup);
		db_expect_right(&db, 0, 2 * STORED);
		/* The damage was there. */
		ck_assert_uint_gt(db_stats(&db).readers_refused, 0);
		db_close(&db);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_damage");
	TCase *tests = tcase_create("damage");
	int result;

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, damaged_filters_deny_no_key, 0,
			    sizeof(damages) / sizeof(damages[0]));
	test_make_top();
	result = test_run(suite);
	test_remove_top();
	return result;
}
