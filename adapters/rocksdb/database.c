/* database.c - databases whose filters learn; see database.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/sort.h"
#include "database.h"
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
	wn->name = wn__home_canonical(path);
	wn->filter = given->filter ? copy_text(given->filter) : NULL;
	if (given->store != WN_ROCKSDB_MEMORY)
		wn->directory = wn__home_directory(path, given->sidecar_directory);
	if (!wn->path || !wn->name || (given->filter && !wn->filter) ||
	    (given->store != WN_ROCKSDB_MEMORY && !wn->directory))
		return ENOMEM;
	return 0;
}

static int make_secret(struct wn_rocksdb *wn)
{
	struct wn_secret *secret;
	bool new = false;
	int err;

	if (wn->directory)
		err = wn__home_secret(wn->directory, &secret, &new);
	else
		err = wn_secret_create_random(&secret);
	if (err)
		return err;
	err = wn__policy_secret(secret, wn->given.canonical, &wn->secret);
	if (new)
		wn->new_secret = secret;
	else
		wn_secret_destroy(secret);
	return err;
}

/* What is wrong with the filter's options is said in words. */
static int make_engine(struct wn_rocksdb *wn, char *message, size_t size)
{
	struct wn__learn_options options = {
		.background = wn->given.background,
		.learned_bytes = wn->given.learned_bytes,
		.queue_length = wn->given.queue_length,
		.save_ms = wn->given.save_ms,
		.name = wn->name,
	};
	struct wn_config *config;
	int err = wn_config_parse(wn__filter_options(wn->filter), message, size, &config);

	if (err)
		return err;
	options.config = config;
	err = wn__learn_create(&options, wn->secret, &wn->learn);
	wn_config_destroy(config);
	return err;
}

/* RocksDB's own; not known where there is no database yet. Databases may be without the file and
 * have it elsewhere: an open one knows. An errno: not now. */
static int read_identity(const char *path, rocksdb_t *db, struct wn__identity *identityp)
{
	char *name = wn__join_path(path, "IDENTITY");
	int err = ENOMEM;

	identityp->size = 0;
	if (name)
		err = wn__file_read_some(AT_FDCWD, name, identityp->bytes,
					 sizeof(identityp->bytes), &identityp->size);
	free(name);
	if (err == ENOENT || err == ENOTDIR)
		err = 0;
	if (!err && db && identityp->size == 0)
		identityp->size = wn__shim_identity(db, (char *)identityp->bytes,
						    sizeof(identityp->bytes));
	return err;
}

static int prepare(struct wn_rocksdb *wn, const char *path, const struct wn_rocksdb_options *given,
		   char *message, size_t size)
{
	struct wn__identity identity;
	struct wn__canonizer canonical;
	int err = copy_given(wn, path, given);

	if (!err)
		err = make_secret(wn);
	if (!err)
		err = make_engine(wn, message, size);
	if (err)
		return err;
	err = read_identity(wn->path, NULL, &identity);
	if (err)
		return err;
	wn->known = wn->directory && wn__home_belongs(wn->directory, &identity);
	canonical = (struct wn__canonizer){wn->given.canonical, wn->given.canonical_arg};
	err = wn__policy_create(wn->secret, &canonical, wn->learn, wn->name, &wn->policy);
	if (err)
		return err;
	wn->registry = wn->policy->registry;
	wn->key_secret = wn->policy->secret;
	wn->canonical = canonical.function;
	return 0;
}

int wn__database_create(const char *path, const struct wn_rocksdb_options *given, bool read_only,
			struct wn_rocksdb **wnp, char **errptr)
{
	static const struct wn_rocksdb_options defaults;
	struct wn_rocksdb *wn = NULL;
	char message[256] = "";
	int err = WN_ERR_MISMATCH;

	*wnp = NULL;
	if (given && !wn__is_reserved_zero(given)) {
		wn__set_error(errptr, path, WN__UNKNOWN_OPTION);
		return WN_ERR_INVALID;
	}
	if (wn__shim_fits(message, sizeof(message))) {
		message[0] = '\0';
		wn = wn__alloc_table(sizeof(*wn));
		err = ENOMEM;
	}
	if (wn) {
		wn->read_only = read_only;
		err = prepare(wn, path, given ? given : &defaults, message, sizeof(message));
	}
	if (!err) {
		*wnp = wn;
		return 0;
	}
	wn__set_error(errptr, path, message[0] ? message : wn_strerror(err));
	if (wn)
		wn__database_finish(wn);
	return err;
}

/* ---- the store ---------------------------------------------------------- */

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
		qsort(numbers, count, sizeof(*numbers), wn__compare_numbers);
	*countp = count;
	return numbers;
}

/* Key lists that lie in files may go into the family now. */
static int open_learn(struct wn_rocksdb *wn, const char *directory)
{
	struct wn__learn_place place = {
		.map = wn->map,
		.directory = directory,
		.read_only = wn->read_only,
	};
	uint64_t *tables = list_tables(wn, &place.table_count);
	int err;

	if (!tables) {
		wn__map_destroy(wn->map);
		wn->map = NULL;
		return ENOMEM;
	}
	if (!wn->read_only)
		wn__store_move_in(wn->map, tables, place.table_count);
	if (wn->charge)
		wn__learn_charge(wn->learn, wn__shim_charge, wn->charge);
	place.tables = tables;
	err = wn__learn_open(wn->learn, &place);
	free(tables);
	return err;
}

static int claim(struct wn_rocksdb *wn, const struct wn__identity *identity)
{
	int err = wn__home_claim(wn->home, identity);

	if (!err && wn->new_secret)
		err = wn__home_save_secret(wn->directory, wn->new_secret);
	return err;
}

int wn__database_claim(struct wn_rocksdb *wn)
{
	struct wn__identity identity;
	int err = 0;

	if (!wn->directory)
		return 0;
	if (!wn->read_only)
		err = wn__home_lock(wn->directory, &wn->home);
	if (!err)
		err = read_identity(wn->path, wn->rocks, &identity);
	if (err)
		return err;
	if (!wn->read_only)
		return claim(wn, &identity);
	wn->known = wn__home_belongs(wn->directory, &identity);
	return 0;
}

int wn__database_open_store(struct wn_rocksdb *wn, rocksdb_column_family_handle_t *family)
{
	struct wn__store_place place = {
		.db = wn->rocks,
		.family = family,
		.directory = wn->read_only && !wn->known ? NULL : wn->directory,
		.read_only = wn->read_only,
	};
	int err = wn__store_open(&place, &wn->map);

	return err ? err : open_learn(wn, place.directory);
}

void wn__database_finish(struct wn_rocksdb *wn)
{
	if (wn->learn) {
		wn__learn_close(wn->learn);
		wn__learn_charge(wn->learn, NULL, NULL);
	}
	wn__shim_destroy_charge(wn->charge);
	if (wn->policy) {
		wn__policy_leave_learn(wn->policy);
		wn__policy_release(wn->policy);
	}
	wn__learn_release(wn->learn);
	wn_secret_destroy(wn->secret);
	wn_secret_destroy(wn->new_secret);
	wn__home_unlock(wn->home);
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

static void destroy_family(struct wn_rocksdb *wn)
{
	if (wn->family && wn->family_wrapped) {
		wn__shim_destroy_wrapped(wn->family);
		wn->family = NULL;
	}
	destroy_handle(&wn->family);
}

static void close_rocks(struct wn_rocksdb *wn)
{
	if (wn->opener.close) {
		wn->opener.close(wn->opener.arg, wn->opened);
		wn__shim_unwrap(wn->rocks);
	} else {
		rocksdb_close(wn->rocks);
	}
}

static void close_all(struct wn_rocksdb *wn)
{
	/* While the family is there, so that little is left for files. */
	if (wn->map) {
		wn__learn_drain(wn->learn);
		wn__store_leave_family(wn->map);
	}
	destroy_family(wn);
	destroy_handle(&wn->default_family);
	if (wn->opened_here)
		close_rocks(wn);
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
		destroy_family(wn);
	}
}

static int open_all(struct wn_rocksdb *wn, const rocksdb_options_t *options,
		    const struct wn__families *families, bool error_if_log, char **errptr)
{
	int err = wn__open_with_families(wn, options, families, error_if_log, errptr);

	if (err && !*errptr)
		wn__set_error(errptr, wn->path, wn__options_error(err));
	if (err || !wn->rocks)
		return err ? err : WN_ERR_NOT_FOUND;
	err = wn__database_claim(wn);
	if (!err)
		settle_family(wn, options, errptr);
	if (*errptr)
		return EIO;
	if (!err)
		err = wn__database_open_store(wn, wn->family);
	if (err)
		wn__set_open_error(errptr, wn, err);
	return err;
}

static int open_database(struct wn_rocksdb *wn, const rocksdb_options_t *options,
			 const struct wn__families *families, bool error_if_log,
			 struct wn_rocksdb **wnp, char **errptr)
{
	int err = open_all(wn, options, families, error_if_log, errptr);

	if (!err) {
		*wnp = wn;
		return 0;
	}
	/* RocksDB wants them gone before it closes. */
	for (int i = 0; wn->opened_here && i < families->count; i++) {
		if (families->handlesp)
			destroy_handle(&families->handlesp[i]);
		else
			wn__shim_destroy_bare(families->opener_handlesp[i]);
	}
	close_all(wn);
	return err;
}

/* The handle that callers of the C API get. */
static rocksdb_t *rocks_of(struct wn_rocksdb *const *wnp)
{
	return *wnp ? (*wnp)->rocks : NULL;
}

static rocksdb_t *open_default(const rocksdb_options_t *options, const char *path, bool read_only,
			       bool error_if_log, const struct wn_rocksdb_options *given,
			       struct wn_rocksdb **wnp, char **errptr)
{
	static const char *const name = "default";
	struct wn__families families = {.count = 1, .names = &name, .options = &options};
	struct wn_rocksdb *wn;

	*wnp = NULL;
	if (wn__database_create(path, given, read_only, &wn, errptr))
		return NULL;
	families.handlesp = &wn->default_family;
	open_database(wn, options, &families, error_if_log, wnp, errptr);
	return rocks_of(wnp);
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
	struct wn__families families = {count, names, family_options, handlesp, NULL};
	struct wn_rocksdb *wn;

	*wnp = NULL;
	if (!wn__database_create(path, given, false, &wn, errptr))
		open_database(wn, options, &families, false, wnp, errptr);
	return rocks_of(wnp);
}

int wn_rocksdb_open_by(const struct wn_rocksdb_opener *opener, const rocksdb_options_t *options,
		       const char *path, int count, const char *const *names,
		       const rocksdb_options_t *const *family_options, void **handlesp,
		       const struct wn_rocksdb_options *given, struct wn_rocksdb **wnp,
		       char **errptr)
{
	struct wn__families families = {count, names, family_options, NULL, handlesp};
	struct wn_rocksdb *wn;
	int err;

	*wnp = NULL;
	if (!wn__is_reserved_zero(opener)) {
		wn__set_error(errptr, path, WN__UNKNOWN_OPTION);
		return WN_ERR_INVALID;
	}
	err = wn__database_create(path, given, false, &wn, errptr);
	if (err)
		return err;
	wn->opener = *opener;
	return open_database(wn, options, &families, false, wnp, errptr);
}

void wn_rocksdb_close(struct wn_rocksdb *wn)
{
	if (wn)
		close_all(wn);
}
