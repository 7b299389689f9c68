/* family_map.h - a database whose column family is a store of the reverse map. */
#ifndef WN_TESTS_FAMILY_MAP_H
#define WN_TESTS_FAMILY_MAP_H

#include "adapters/rocksdb/column_family.h"
#include "tests/support/key_lists.h"

#define FAMILY "winnow.reversemap"

static char directory[PATH_MAX];
static char scratch[PATH_MAX + 16];

struct database {
	rocksdb_options_t *options;
	rocksdb_t *db;
	rocksdb_column_family_handle_t *handles[2];
	struct wn__map *map;
};

static inline void set_up(void)
{
	make_directory(directory);
	snprintf(scratch, sizeof(scratch), "%s/scratch", directory);
}

static inline void tear_down(void)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *text = NULL;

	ck_assert_uint_eq(count_files(scratch, ""), 0);
	ck_assert_int_eq(rmdir(scratch), 0);
	rocksdb_destroy_db(options, directory, &text);
	ck_assert_ptr_null(text);
	rocksdb_options_destroy(options);
	rmdir(directory); /* RocksDB may have done it */
}

static rocksdb_block_based_table_options_t *table_options; /* NULL: the default */

static inline struct database open_database(void)
{
	static const char *const names[] = {"default", FAMILY};
	struct database database = {.options = rocksdb_options_create()};
	const rocksdb_options_t *options[] = {database.options, database.options};
	char *text = NULL;

	rocksdb_options_set_create_if_missing(database.options, 1);
	rocksdb_options_set_create_missing_column_families(database.options, 1);
	if (table_options)
		rocksdb_options_set_block_based_table_factory(database.options, table_options);
	database.db = rocksdb_open_column_families(database.options, directory, 2, names, options,
						   database.handles, &text);
	ck_assert_ptr_null(text);
	ck_assert_int_eq(wn__map_column_family_open(database.db, database.handles[1], scratch,
						     &database.map),
			 0);
	return database;
}

static inline void close_database(struct database *database)
{
	wn__map_destroy(database->map);
	rocksdb_column_family_handle_destroy(database->handles[0]);
	rocksdb_column_family_handle_destroy(database->handles[1]);
	rocksdb_close(database->db);
	rocksdb_options_destroy(database->options);
}

static inline void put(struct database *database, const struct sample *sample)
{
	ck_assert_int_eq(wn__map_put(database->map, &sample->list, sample->uppers), 0);
}

static inline void assert_count(struct database *database, size_t count)
{
	struct wn__map_stats stats;
	struct wn__keylist_info *infos;
	uint64_t bytes = 0;
	size_t listed;

	ck_assert_int_eq(wn__map_list(database->map, &infos, &listed), 0);
	ck_assert_uint_eq(listed, count);
	for (size_t i = 0; i < listed; i++) {
		ck_assert_int_eq(infos[i].error, 0);
		bytes += infos[i].bytes;
	}
	wn__map_stats(database->map, &stats);
	ck_assert_uint_eq(stats.lists, count);
	ck_assert_uint_eq(stats.bytes, bytes);
	free(infos);
}

#endif /* WN_TESTS_FAMILY_MAP_H */
