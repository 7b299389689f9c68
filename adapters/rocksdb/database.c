/* database.c - databases whose filters learn.
 *
 * Opening: the database first, the sidecar then. The database's lock keeps other processes
 * out of both, and tables that are written while it opens wait in the queue. Closing: the
 * same order, so that what the last flush built is stored, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/rocksdb.h>

#include "alloc.h"
#include "policy.h"
#include "saved.h"

struct wn_rocksdb {
	rocksdb_t *rocks;
	struct wn__engine *engine;
	struct wn__policy *policy;
	struct wn_secret *secret;
	bool secret_is_new;
	char *directory; /* NULL: the store is in memory */
};

/* ---- open --------------------------------------------------------------- */

static void set_error(char **errptr, const char *what, const char *why)
{
	size_t size = strlen(what) + strlen(why) + 16;
	char *message = malloc(size); /* for rocksdb_free() */

	if (message)
		snprintf(message, size, "winnow: %s: %s", what, why);
	free(*errptr);
	*errptr = message;
}

static int copy_directory(const char *path, const struct wn_rocksdb_options *given, char **copyp)
{
	const char *name = given->sidecar_directory ? given->sidecar_directory : path;
	const char *suffix = given->sidecar_directory ? "" : ".winnow";
	size_t size = strlen(name) + strlen(suffix) + 1;

	if (given->store == WN_ROCKSDB_MEMORY)
		return 0;
	*copyp = wn__alloc(size);
	if (!*copyp)
		return ENOMEM;
	snprintf(*copyp, size, "%s%s", name, suffix);
	/* "db/" means "db". */
	if (!given->sidecar_directory && size > sizeof("/.winnow") &&
	    (*copyp)[size - sizeof("/.winnow")] == '/')
		memmove(*copyp + size - sizeof("/.winnow"), ".winnow", sizeof(".winnow"));
	return 0;
}

static int prepare(struct wn_rocksdb *wn, const char *path, const struct wn_rocksdb_options *given)
{
	struct wn__engine_options options = {
		.synchronous = given->synchronous,
		.learned_bytes = given->learned_bytes,
		.queue_length = given->queue_length,
	};
	int err = copy_directory(path, given, &wn->directory);

	if (err)
		return err;
	err = wn->directory ? wn__saved_secret(wn->directory, &wn->secret, &wn->secret_is_new) :
			      wn_secret_create_random(&wn->secret);
	if (!err)
		err = wn__engine_create(&options, wn->secret, &wn->engine);
	return err;
}

static void retire_file(void *engine, uint64_t file)
{
	wn__worker_retire(engine, file);
}

static void release_engine(void *engine)
{
	wn__engine_release(engine);
}

static const struct wn__listener_calls listener_calls = {retire_file, release_engine};

/* What rocksdb_open_column_families() is given. */
struct families {
	int count;
	const char *const *names;
	const rocksdb_options_t *const *options;
	rocksdb_column_family_handle_t **handlesp;
};

/* A copy of the options with winnow's policy in it. */
static int change_options(struct wn_rocksdb *wn, const struct wn_rocksdb_options *given,
			  const rocksdb_options_t *options, bool listen, rocksdb_options_t **copyp)
{
	rocksdb_filterpolicy_t *shown = wn__policy_show(wn->policy, given->filter);
	enum wn__shim_result result;

	*copyp = NULL;
	if (!shown)
		return ENOMEM;
	result = wn__shim_options(options, shown, listen ? &listener_calls : NULL,
				  listen ? wn__engine_hold(wn->engine) : NULL, copyp);
	if (result == WN__SHIM_OK)
		return 0;
	return result == WN__SHIM_NO_MEMORY ? ENOMEM : WN_ERR_INVALID;
}

static int open_families(struct wn_rocksdb *wn, const rocksdb_options_t *own, const char *path,
			 const struct wn_rocksdb_options *given, const struct families *families,
			 char **errptr)
{
	size_t count = (size_t)families->count;
	rocksdb_options_t **options = wn__calloc(count + 1, sizeof(rocksdb_options_t *));
	int err = options ? 0 : ENOMEM;

	for (size_t i = 0; i < count && !err; i++)
		err = change_options(wn, given, families->options[i], false, &options[i]);
	if (!err)
		wn->rocks = rocksdb_open_column_families(
			own, path, families->count, families->names,
			(const rocksdb_options_t *const *)options, families->handlesp, errptr);
	for (size_t i = 0; options && options[i]; i++)
		rocksdb_options_destroy(options[i]);
	free(options);
	return err;
}

static int open_rocks(struct wn_rocksdb *wn, const rocksdb_options_t *options, const char *path,
		      const struct wn_rocksdb_options *given, const struct families *families,
		      char **errptr)
{
	rocksdb_options_t *own = NULL;
	int err = wn__policy_create(given->filter, wn->secret, wn->engine, &wn->policy);

	if (!err)
		err = change_options(wn, given, options, true, &own);
	if (err)
		return err;
	if (families)
		err = open_families(wn, own, path, given, families, errptr);
	else
		wn->rocks = rocksdb_open(own, path, errptr);
	rocksdb_options_destroy(own);
	return err;
}

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
static void sweep(struct wn_rocksdb *wn)
{
	const struct wn__engine *engine = wn->engine;
	size_t count;
	uint64_t *tables = list_tables(wn, &count);

	for (size_t i = 0; tables && i < engine->owned_count; i++) {
		uint64_t owner = engine->owned[i].owner;

		if (!bsearch(&owner, tables, count, sizeof(owner), compare_numbers))
			wn__worker_retire(wn->engine, owner);
	}
	free(tables);
}

static int open_store(struct wn_rocksdb *wn)
{
	struct wn__runs *runs;
	int err = wn->directory ? wn__runs_sidecar_open(wn->directory, NULL, &runs) :
				  wn__runs_memory_create(&runs);

	if (err)
		return err;
	err = wn__worker_adopt(wn->engine, runs);
	if (!err && wn->secret_is_new)
		err = wn__save_secret(wn->directory, wn->secret);
	if (err)
		return err;
	sweep(wn);
	if (wn->directory)
		wn__engine_keep(wn->engine, wn->directory, false);
	return wn__worker_start(wn->engine);
}

/* In this order: what the database's last flush builds is still stored. */
static void close_all(struct wn_rocksdb *wn)
{
	if (wn->rocks)
		rocksdb_close(wn->rocks);
	if (wn->engine)
		wn__worker_stop(wn->engine);
	if (wn->policy)
		wn__policy_release(wn->policy);
	wn__engine_release(wn->engine);
	wn_secret_destroy(wn->secret);
	free(wn->directory);
	free(wn);
}

static bool open_all(struct wn_rocksdb *wn, const rocksdb_options_t *options, const char *path,
		     const struct wn_rocksdb_options *given, const struct families *families,
		     char **errptr)
{
	int err = prepare(wn, path, given);

	if (!err)
		err = open_rocks(wn, options, path, given, families, errptr);
	if (err) {
		set_error(errptr, path, err == WN_ERR_INVALID ? "its tables are not block-based" :
								wn_strerror(err));
		return false;
	}
	if (!wn->rocks)
		return false;
	err = open_store(wn);
	if (!err)
		return true;
	set_error(errptr, wn->directory ? wn->directory : path, wn_strerror(err));
	for (int i = 0; families && i < families->count; i++) {
		rocksdb_column_family_handle_destroy(families->handlesp[i]);
		families->handlesp[i] = NULL;
	}
	return false;
}

static rocksdb_t *open_database(const rocksdb_options_t *options, const char *path,
				const struct families *families,
				const struct wn_rocksdb_options *given, struct wn_rocksdb **wnp,
				char **errptr)
{
	static const struct wn_rocksdb_options defaults;
	struct wn_rocksdb *wn = wn__calloc(1, sizeof(*wn));

	*wnp = NULL;
	if (!wn) {
		set_error(errptr, path, wn_strerror(ENOMEM));
		return NULL;
	}
	if (!open_all(wn, options, path, given ? given : &defaults, families, errptr)) {
		close_all(wn);
		return NULL;
	}
	*wnp = wn;
	return wn->rocks;
}

rocksdb_t *wn_rocksdb_open(const rocksdb_options_t *options, const char *path,
			   const struct wn_rocksdb_options *given, struct wn_rocksdb **wnp,
			   char **errptr)
{
	return open_database(options, path, NULL, given, wnp, errptr);
}

rocksdb_t *wn_rocksdb_open_column_families(const rocksdb_options_t *options, const char *path,
					   int count, const char *const *names,
					   const rocksdb_options_t *const *family_options,
					   rocksdb_column_family_handle_t **handlesp,
					   const struct wn_rocksdb_options *given,
					   struct wn_rocksdb **wnp, char **errptr)
{
	struct families families = {count, names, family_options, handlesp};

	return open_database(options, path, &families, given, wnp, errptr);
}

void wn_rocksdb_close(struct wn_rocksdb *wn)
{
	if (!wn)
		return;
	rocksdb_close(wn->rocks);
	wn->rocks = NULL;
	wn__worker_stop(wn->engine);
	close_all(wn);
}

void wn_rocksdb_drain(struct wn_rocksdb *wn)
{
	wn__worker_drain(wn->engine);
}

void wn_rocksdb_stats(struct wn_rocksdb *wn, struct wn_rocksdb_stats *statsp)
{
	wn__policy_describe(wn->policy, statsp);
}

/* ---- lookups ------------------------------------------------------------ */

char *wn_rocksdb_get(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options, const char *key,
		     size_t size, size_t *value_sizep, char **errptr)
{
	bool traced = wn__engine_begin_lookup();
	char *value = rocksdb_get(wn->rocks, options, key, size, value_sizep, errptr);

	wn__engine_end_lookup(wn->engine, traced, value, *errptr);
	return value;
}

char *wn_rocksdb_get_cf(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			rocksdb_column_family_handle_t *family, const char *key, size_t size,
			size_t *value_sizep, char **errptr)
{
	bool traced = wn__engine_begin_lookup();
	char *value = rocksdb_get_cf(wn->rocks, options, family, key, size, value_sizep, errptr);

	wn__engine_end_lookup(wn->engine, traced, value, *errptr);
	return value;
}

rocksdb_pinnableslice_t *wn_rocksdb_get_pinned(struct wn_rocksdb *wn,
					       const rocksdb_readoptions_t *options,
					       const char *key, size_t size, char **errptr)
{
	bool traced = wn__engine_begin_lookup();
	rocksdb_pinnableslice_t *value = rocksdb_get_pinned(wn->rocks, options, key, size, errptr);

	wn__engine_end_lookup(wn->engine, traced, value, *errptr);
	return value;
}
