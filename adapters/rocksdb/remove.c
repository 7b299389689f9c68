/* remove.c - a database without winnow, and none at all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "database.h"

/* Its own options, as RocksDB wrote them beside it. */
struct loaded {
	rocksdb_options_t *options;
	size_t count;
	char **names;
	rocksdb_options_t **family_options;
};

static bool load_options(const char *path, struct loaded *loaded, char **errptr)
{
	rocksdb_env_t *env = rocksdb_create_default_env();
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(8 << 20);

	rocksdb_load_latest_options(path, env, true, cache, &loaded->options, &loaded->count,
				    &loaded->names, &loaded->family_options, errptr);
	rocksdb_cache_destroy(cache);
	rocksdb_env_destroy(env);
	return !*errptr;
}

static void drop_own(rocksdb_t *db, const struct loaded *loaded,
		     rocksdb_column_family_handle_t **handles, char **errptr)
{
	for (size_t i = 0; i < loaded->count; i++) {
		if (!*errptr && strcmp(loaded->names[i], WN_ROCKSDB_REVERSEMAP) == 0)
			rocksdb_drop_column_family(db, handles[i], errptr);
		rocksdb_column_family_handle_destroy(handles[i]);
	}
}

static void open_and_drop(const char *path, const struct loaded *loaded, char **errptr)
{
	rocksdb_column_family_handle_t **handles = wn__calloc(loaded->count + 1, sizeof(*handles));
	rocksdb_t *db;

	if (!handles) {
		wn__set_error(errptr, path, wn_strerror(ENOMEM));
		return;
	}
	db = rocksdb_open_column_families(
		loaded->options, path, (int)loaded->count, (const char *const *)loaded->names,
		(const rocksdb_options_t *const *)loaded->family_options, handles, errptr);
	if (db) {
		drop_own(db, loaded, handles, errptr);
		rocksdb_close(db);
	}
	free(handles);
}

static void drop_family(const char *path, char **errptr)
{
	struct loaded loaded = {0};

	if (!load_options(path, &loaded, errptr))
		return;
	open_and_drop(path, &loaded, errptr);
	rocksdb_load_latest_options_destroy(loaded.options, loaded.names, loaded.family_options,
					    loaded.count);
}

static void remove_state(const char *path, char **errptr)
{
	char *directory = wn__home_directory(path, NULL);
	int err = directory ? wn__home_remove(directory) : ENOMEM;

	if (err)
		wn__set_error(errptr, directory ? directory : path,
			      err == EBUSY ? "the directory is in use: the database is open" :
					     wn_strerror(err));
	free(directory);
}

void wn_rocksdb_uninstall(const char *path, char **errptr)
{
	rocksdb_options_t *options = rocksdb_options_create();
	bool there = wn__family_exists(options, path);

	rocksdb_options_destroy(options);
	if (there)
		drop_family(path, errptr);
	if (!*errptr)
		remove_state(path, errptr);
}

void wn_rocksdb_destroy(const rocksdb_options_t *options, const char *path, char **errptr)
{
	rocksdb_destroy_db(options, path, errptr);
	if (!*errptr)
		remove_state(path, errptr);
}
