/* database.c - databases whose filters learn; see database.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "database.h"
#include "learn/journal.h"
#include "state.h"
#include "store.h"

void wn__set_error(char **errptr, const char *what, const char *why)
{
	size_t size = strlen(what) + strlen(why) + 16;
	char *message = malloc(size); /* for rocksdb_free() */

	if (message)
		snprintf(message, size, "winnow: %s: %s", what, why);
	free(*errptr);
	*errptr = message;
}

void wn__set_open_error(char **errptr, const struct wn_rocksdb *wn, int err)
{
	const char *why = wn_strerror(err);

	if (err == EBUSY)
		why = "the directory is in use: by another database, or by this one opened twice";
	wn__set_error(errptr, wn->directory ? wn->directory : wn->path, why);
}

/* ---- all but the database ----------------------------------------------- */

static char *copy_text(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = wn__alloc(size);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

static int copy_given(struct wn_rocksdb *wn, const char *path,
		      const struct wn_rocksdb_options *given)
{
	wn->given = *given;
	wn->given.filter = wn->given.sidecar_directory = NULL;
	wn->path = copy_text(path);
	wn->name = wn__state_canonical(path);
	wn->filter = given->filter ? copy_text(given->filter) : NULL;
	if (given->store != WN_ROCKSDB_MEMORY)
		wn->directory = wn__state_directory(path, given->sidecar_directory);
	if (!wn->path || !wn->name || (given->filter && !wn->filter) ||
	    (given->store != WN_ROCKSDB_MEMORY && !wn->directory))
		return ENOMEM;
	return 0;
}

static int make_secret(struct wn_rocksdb *wn)
{
	if (!wn->directory)
		return wn_secret_create_random(&wn->secret);
	return wn__saved_secret(wn->directory, &wn->secret, &wn->secret_is_new);
}

static int make_engine(struct wn_rocksdb *wn)
{
	struct wn__learn_options options = {
		.background = wn->given.background,
		.learned_bytes = wn->given.learned_bytes,
		.queue_length = wn->given.queue_length,
		.save_ms = wn->given.save_ms,
		.name = wn->name,
	};
	struct wn_config *config;
	int err = wn_config_parse(wn__filter_options(wn->filter), NULL, 0, &config);

	if (err)
		return err;
	options.config = config;
	err = wn__learn_create(&options, wn->secret, &wn->learn);
	wn_config_destroy(config);
	return err;
}

static int prepare(struct wn_rocksdb *wn, const char *path, const struct wn_rocksdb_options *given)
{
	int err = copy_given(wn, path, given);

	if (!err)
		err = make_secret(wn);
	if (!err)
		err = make_engine(wn);
	if (err)
		return err;
	wn->known = wn->directory && wn__state_belongs(wn->directory, path);
	return wn__policy_create(wn->filter, wn->secret, wn->learn, wn->name, &wn->policy);
}

struct wn_rocksdb *wn__database_create(const char *path, const struct wn_rocksdb_options *given,
				       bool read_only, char **errptr)
{
	static const struct wn_rocksdb_options defaults;
	struct wn_rocksdb *wn = wn__calloc(1, sizeof(*wn));
	int err = ENOMEM;

	if (wn) {
		wn->read_only = read_only;
		err = prepare(wn, path, given ? given : &defaults);
	}
	if (!err)
		return wn;
	wn__set_error(errptr, path, wn_strerror(err));
	if (wn)
		wn__database_finish(wn);
	return NULL;
}

/* ---- the store ---------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* The numbers of the database's tables, in order. NULL: no memory. */
static uint64_t *list_tables(struct wn_rocksdb *wn, size_t *countp)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(wn->rocks);
	size_t count = (size_t)rocksdb_livefiles_count(files);
	uint64_t *numbers = wn__calloc(count + 1, sizeof(*numbers));

	for (size_t i = 0; i < count && numbers; i++)
		numbers[i] = wn__shim_file_number(rocksdb_livefiles_name(files, (int)i));
	rocksdb_livefiles_destroy(files);
	if (numbers)
		qsort(numbers, count, sizeof(*numbers), compare_numbers);
	*countp = count;
	return numbers;
}

/* Runs whose table went while nobody listened. */
static int adopt(struct wn_rocksdb *wn)
{
	struct wn__learn *learn = wn->learn;
	size_t count;
	uint64_t *tables = list_tables(wn, &count);
	int err;

	if (!tables) {
		wn__map_destroy(wn->map);
		wn->map = NULL;
		return ENOMEM;
	}
	if (!wn->read_only)
		wn__store_move_in(wn->map, tables, count);
	err = wn__worker_adopt(learn, wn->map);
	for (size_t i = 0; !err && !wn->read_only && i < learn->owned_count; i++) {
		uint64_t owner = learn->owned[i].owner;

		/* They are in order: once a table. */
		if (i > 0 && learn->owned[i - 1].owner == owner)
			continue;
		if (!wn__is_table(owner, tables, count))
			wn__worker_retire(learn, owner);
	}
	free(tables);
	return err;
}

int wn__database_claim(struct wn_rocksdb *wn)
{
	int err;

	if (!wn->directory || wn->read_only)
		return 0;
	err = wn__state_lock(wn->directory, &wn->lock);
	if (!err)
		err = wn__state_claim(wn->directory, wn->path);
	if (!err && wn->secret_is_new)
		err = wn__save_secret(wn->directory, wn->secret);
	return err;
}

int wn__database_open_store(struct wn_rocksdb *wn, rocksdb_column_family_handle_t *family)
{
	struct wn__place place = {
		.db = wn->rocks,
		.family = family,
		.directory = wn->read_only && !wn->known ? NULL : wn->directory,
		.read_only = wn->read_only,
		.whole_hashes = wn->given.whole_hashes,
	};
	int err = wn__store_open(&place, &wn->map);

	if (!err)
		err = adopt(wn);
	if (err)
		return err;
	if (place.directory)
		wn__learn_keep(wn->learn, place.directory, wn->read_only);
	if (wn->charge)
		wn__learn_charge(wn->learn, wn__shim_charge, wn->charge);
	return wn__worker_start(wn->learn);
}

void wn__database_finish(struct wn_rocksdb *wn)
{
	if (wn->learn) {
		wn__worker_stop(wn->learn);
		wn__learn_charge(wn->learn, NULL, NULL);
	}
	wn__shim_destroy_charge(wn->charge);
	if (wn->policy) {
		wn__policy_leave_engine(wn->policy);
		wn__policy_release(wn->policy);
	}
	wn__learn_release(wn->learn);
	wn_secret_destroy(wn->secret);
	wn__state_unlock(wn->lock);
	free(wn->directory);
	free(wn->filter);
	free(wn->name);
	free(wn->path);
	free(wn);
}

/* ---- open and close ----------------------------------------------------- */

static void destroy_handle(rocksdb_column_family_handle_t **handlep)
{
	if (*handlep)
		rocksdb_column_family_handle_destroy(*handlep);
	*handlep = NULL;
}

static void close_all(struct wn_rocksdb *wn)
{
	/* While the family is there, so that little is left for files. */
	if (wn->map) {
		wn__worker_drain(wn->learn);
		wn__store_leave_family(wn->map);
	}
	destroy_handle(&wn->family);
	destroy_handle(&wn->default_family);
	if (wn->opened_here)
		rocksdb_close(wn->rocks);
	wn__database_finish(wn);
}

/* Make winnow's family, or drop it if it is not wanted any more. */
static void settle_family(struct wn_rocksdb *wn, const rocksdb_options_t *like, char **errptr)
{
	bool wanted = wn->given.store == WN_ROCKSDB_COLUMN_FAMILY;

	if (wn->read_only)
		return;
	if (wanted && !wn->family) {
		rocksdb_options_t *options = wn__family_options(like);

		wn->family = rocksdb_create_column_family(wn->rocks, options, WN_ROCKSDB_REVERSEMAP,
							  errptr);
		rocksdb_options_destroy(options);
		if (*errptr)
			wn->family = NULL;
	} else if (!wanted && wn->family) {
		rocksdb_drop_column_family(wn->rocks, wn->family, errptr);
		destroy_handle(&wn->family);
	}
}

static bool open_all(struct wn_rocksdb *wn, const rocksdb_options_t *options,
		     const struct wn__families *families, bool error_if_log, char **errptr)
{
	int err = wn__open_with_families(wn, options, families, error_if_log, errptr);

	if (err) {
		wn__set_error(errptr, wn->path, err == WN_ERR_INVALID ?
				      "its tables are not block-based" : wn_strerror(err));
		return false;
	}
	if (!wn->rocks)
		return false;
	err = wn__database_claim(wn);
	if (!err)
		settle_family(wn, options, errptr);
	if (*errptr)
		return false;
	if (!err)
		err = wn__database_open_store(wn, wn->family);
	if (err)
		wn__set_open_error(errptr, wn, err);
	return !err;
}

static rocksdb_t *open_database(struct wn_rocksdb *wn, const rocksdb_options_t *options,
				const struct wn__families *families, bool error_if_log,
				struct wn_rocksdb **wnp, char **errptr)
{
	if (!wn)
		return NULL;
	if (open_all(wn, options, families, error_if_log, errptr)) {
		*wnp = wn;
		return wn->rocks;
	}
	for (int i = 0; wn->rocks && i < families->count; i++)
		destroy_handle(&families->handlesp[i]);
	close_all(wn);
	return NULL;
}

static rocksdb_t *open_default(const rocksdb_options_t *options, const char *path, bool read_only,
			       bool error_if_log, const struct wn_rocksdb_options *given,
			       struct wn_rocksdb **wnp, char **errptr)
{
	static const char *const name = "default";
	struct wn_rocksdb *wn = wn__database_create(path, given, read_only, errptr);
	struct wn__families families = {1, &name, &options, wn ? &wn->default_family : NULL};

	*wnp = NULL;
	return open_database(wn, options, &families, error_if_log, wnp, errptr);
}

rocksdb_t *wn_rocksdb_open(const rocksdb_options_t *options, const char *path,
			   const struct wn_rocksdb_options *given, struct wn_rocksdb **wnp,
			   char **errptr)
{
	return open_default(options, path, false, false, given, wnp, errptr);
}

rocksdb_t *wn_rocksdb_open_for_read_only(const rocksdb_options_t *options, const char *path,
					 unsigned char error_if_wal_file_exists,
					 const struct wn_rocksdb_options *given,
					 struct wn_rocksdb **wnp, char **errptr)
{
	return open_default(options, path, true, error_if_wal_file_exists, given, wnp, errptr);
}

rocksdb_t *wn_rocksdb_open_column_families(const rocksdb_options_t *options, const char *path,
					   int count, const char *const *names,
					   const rocksdb_options_t *const *family_options,
					   rocksdb_column_family_handle_t **handlesp,
					   const struct wn_rocksdb_options *given,
					   struct wn_rocksdb **wnp, char **errptr)
{
	struct wn__families families = {count, names, family_options, handlesp};

	*wnp = NULL;
	return open_database(wn__database_create(path, given, false, errptr), options, &families,
			     false, wnp, errptr);
}

void wn_rocksdb_close(struct wn_rocksdb *wn)
{
	if (wn)
		close_all(wn);
}
