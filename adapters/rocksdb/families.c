/* families.c - column families: the user's with winnow's policy, and winnow's own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "database.h"

bool wn__family_exists(const rocksdb_options_t *options, const char *path)
{
	char *error = NULL;
	size_t count = 0;
	char **names = rocksdb_list_column_families(options, path, &count, &error);
	bool found = false;

	/* No database, most likely: whoever opens it will be told. The list is there all the
	 * same, and empty. */
	if (error) {
		rocksdb_free(error);
		count = 0;
	}
	for (size_t i = 0; i < count; i++)
		found = found || strcmp(names[i], WN_ROCKSDB_REVERSEMAP) == 0;
	rocksdb_list_column_families_destroy(names, count);
	return found;
}

/* Its tables come ready made and lie in the last level, each by itself: there is nothing to
 * compact, to compress or to filter, and next to nothing to buffer. A family that cannot stall
 * does not stall the database. */
rocksdb_options_t *wn__family_options(const rocksdb_options_t *like)
{
	rocksdb_options_t *options = rocksdb_options_create();

	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
	rocksdb_options_set_disable_auto_compactions(options, 1);
	/* wn_rocksdb_reversemap_options() may be called where nothing else of winnow's works. */
	if (wn__shim_fits(NULL, 0))
		wn__shim_index_whole_keys(options);
	if (like)
		wn__shim_share_cache(like, options);
	return options;
}

rocksdb_options_t *wn_rocksdb_reversemap_options(void)
{
	return wn__family_options(NULL);
}

/* ---- options with winnow's policy --------------------------------------- */

static bool is_own_database(void *policy, const char *path)
{
	return wn__policy_is_of(policy, path);
}

static void retire_file(void *policy, uint64_t file)
{
	struct wn__learn *learn = wn__policy_learn(policy);

	if (learn)
		wn__learn_table_gone(learn, file);
	wn__learn_release(learn);
}

/* The listener is the policy. */
static const struct wn__listener_calls listener_calls = {is_own_database, retire_file,
							 wn__policy_release};

/* A filter of no given size is as large as the one whose place it takes. */
static int change_options(struct wn_rocksdb *wn, rocksdb_options_t *options, bool listen)
{
	rocksdb_filterpolicy_t *shown;
	enum wn__shim_result result;
	int err = wn__policy_show(wn->policy, wn->filter, wn__shim_bits_per_key(options), &shown);

	if (err)
		return err;
	if (!wn->charge)
		wn->charge = wn__shim_create_charge(options);
	result = wn__shim_change_options(options, shown, listen ? &listener_calls : NULL,
					 listen ? wn__policy_hold(wn->policy) : NULL);
	if (result == WN__SHIM_OK)
		return 0;
	return result == WN__SHIM_NO_MEMORY ? ENOMEM : WN_ERR_INVALID;
}

int wn__options_copy(struct wn_rocksdb *wn, const rocksdb_options_t *options, bool listen,
		     rocksdb_options_t **copyp)
{
	int err;

	*copyp = rocksdb_options_create_copy((rocksdb_options_t *)options);
	err = change_options(wn, *copyp, listen);
	if (err) {
		rocksdb_options_destroy(*copyp);
		*copyp = NULL;
	}
	return err;
}

/* ---- comparators -------------------------------------------------------- */

/* Filters hash bytes. Where the comparator takes different ones for equal, a key that is stored
 * would be denied when it is asked for with others. */
static int check_comparator(const struct wn_rocksdb *wn, const rocksdb_options_t *options)
{
	if (wn->given.canonical || wn->given.equal_keys_are_identical ||
	    wn__shim_tells_bytes_apart(options))
		return 0;
	return WN_ERR_MISMATCH;
}

const char *wn__options_error(int err)
{
	if (err == WN_ERR_INVALID)
		return "its tables are not block-based";
	if (err == WN_ERR_MISMATCH)
		return "its comparator may take keys with different bytes for equal, and filters "
		       "would deny them; say equal_keys_are_identical, or give canonical";
	return wn_strerror(err);
}

/* A block cache that lives longer than a database may hold readers of its filters that ask for keys
 * as they are: RocksDB's, or of a policy without the function. */
static void forget_readers(const struct wn_rocksdb *wn, const rocksdb_options_t *options)
{
	if (wn->given.canonical)
		wn__shim_empty_cache(options);
}

static bool is_own_family(const char *name)
{
	return strcmp(name, WN_ROCKSDB_REVERSEMAP) == 0;
}

/* Each family has its own. false: one is refused, with a message. */
static bool check_families(const struct wn_rocksdb *wn, const struct wn__families *families,
			   char **errptr)
{
	char what[256];

	for (int i = 0; i < families->count; i++) {
		int err = is_own_family(families->names[i]) ?
				  0 :
				  check_comparator(wn, families->options[i]);

		if (err) {
			snprintf(what, sizeof(what), "column family %s", families->names[i]);
			wn__set_error(errptr, what, wn__options_error(err));
			return false;
		}
		forget_readers(wn, families->options[i]);
	}
	return true;
}

/* ---- for programs that open their database themselves ------------------- */

/* All the options that one database is opened with may be prepared: it is told of a table's
 * end once for each listener, and once is enough. */
void wn_rocksdb_prepare(struct wn_rocksdb *wn, rocksdb_options_t *options, char **errptr)
{
	int err = check_comparator(wn, options);

	if (!err)
		err = change_options(wn, options, true);
	if (err)
		wn__set_error(errptr, wn->path, wn__options_error(err));
	else
		forget_readers(wn, options);
}

/* ---- open --------------------------------------------------------------- */

/* The user's families, with options of ours, and one more. */
struct opening {
	int count;
	const char **names;
	rocksdb_options_t **options;
	rocksdb_column_family_handle_t **handles;
};

static void free_opening(struct opening *opening)
{
	for (int i = 0; opening->options && i < opening->count; i++) {
		if (opening->options[i])
			rocksdb_options_destroy(opening->options[i]);
	}
	free(opening->names);
	free(opening->options);
	free(opening->handles);
}

/* Someone who lists the families of a database and opens them all names winnow's as well. */
static int copy_family(struct wn_rocksdb *wn, const struct wn__families *families, int i,
		       struct opening *opening)
{
	opening->names[i] = families->names[i];
	if (is_own_family(families->names[i])) {
		opening->options[i] = wn__family_options(families->options[0]);
		return 0;
	}
	return wn__options_copy(wn, families->options[i], false, &opening->options[i]);
}

static int fill_opening(struct wn_rocksdb *wn, const struct wn__families *families, bool with_own,
			struct opening *opening)
{
	size_t room = (size_t)families->count + 1;
	int err = 0;

	opening->count = families->count + (with_own ? 1 : 0);
	opening->names = wn__calloc(room, sizeof(*opening->names));
	opening->options = wn__calloc(room, sizeof(*opening->options));
	opening->handles = wn__calloc(room, sizeof(*opening->handles));
	if (!opening->names || !opening->options || !opening->handles)
		return ENOMEM;
	for (int i = 0; i < families->count && !err; i++)
		err = copy_family(wn, families, i, opening);
	if (!err && with_own) {
		opening->names[families->count] = WN_ROCKSDB_REVERSEMAP;
		opening->options[families->count] = wn__family_options(families->options[0]);
	}
	return err;
}

/* The handles of the program's families, and winnow's. */
static void open_by_c_api(struct wn_rocksdb *wn, const rocksdb_options_t *own,
			  const struct opening *opening, const struct wn__families *families,
			  bool error_if_log, char **errptr)
{
	const rocksdb_options_t *const *options =
		(const rocksdb_options_t *const *)opening->options;
	size_t count = (size_t)families->count;

	if (wn->read_only)
		wn->rocks = rocksdb_open_for_read_only_column_families(
			own, wn->path, opening->count, opening->names, options, opening->handles,
			error_if_log, errptr);
	else
		wn->rocks = rocksdb_open_column_families(own, wn->path, opening->count,
							 opening->names, options,
							 opening->handles, errptr);
	if (!wn->rocks)
		return;
	memcpy(families->handlesp, opening->handles, count * sizeof(*opening->handles));
	wn->family = opening->count > families->count ? opening->handles[count] : NULL;
}

static int open_by_opener(struct wn_rocksdb *wn, const rocksdb_options_t *own,
			  const struct opening *opening, const struct wn__families *families)
{
	const rocksdb_options_t *const *options =
		(const rocksdb_options_t *const *)opening->options;
	size_t count = (size_t)families->count;
	void **handles = (void **)opening->handles;

	wn->opened = wn->opener.open(wn->opener.arg, own, opening->count, opening->names, options,
				     handles);
	if (!wn->opened)
		return WN_ERR_NOT_FOUND;
	memcpy(families->opener_handlesp, handles, count * sizeof(*handles));
	if (opening->count > families->count) {
		wn->family = wn__shim_wrap_family(handles[count]);
		wn->family_wrapped = true;
	}
	wn->rocks = wn__shim_wrap(wn->opened);
	if (!wn->rocks || (opening->count > families->count && !wn->family))
		return ENOMEM;
	wn->read_only = wn__is_read_only(wn->rocks);
	return 0;
}

static int open_rocks(struct wn_rocksdb *wn, const rocksdb_options_t *own,
		      const struct opening *opening, const struct wn__families *families,
		      bool error_if_log, char **errptr)
{
	int err = 0;

	if (wn->opener.open)
		err = open_by_opener(wn, own, opening, families);
	else
		open_by_c_api(wn, own, opening, families, error_if_log, errptr);
	wn->opened_here = wn->opened || wn->rocks;
	return err;
}

int wn__open_with_families(struct wn_rocksdb *wn, const rocksdb_options_t *options,
			   const struct wn__families *families, bool error_if_log, char **errptr)
{
	struct opening opening = {0};
	rocksdb_options_t *own = NULL;
	int err;

	if (!check_families(wn, families, errptr))
		return WN_ERR_MISMATCH;
	err = fill_opening(wn, families, wn__family_exists(options, wn->path), &opening);
	if (!err)
		err = wn__options_copy(wn, options, !wn->read_only, &own);
	if (!err)
		err = open_rocks(wn, own, &opening, families, error_if_log, errptr);
	if (own)
		rocksdb_options_destroy(own);
	free_opening(&opening);
	return err;
}

void wn_rocksdb_prepare_family(struct wn_rocksdb *wn, rocksdb_options_t *options, char **errptr)
{
	int err = check_comparator(wn, options);

	if (!err)
		err = change_options(wn, options, false);
	if (err)
		wn__set_error(errptr, wn->path, wn__options_error(err));
}

rocksdb_column_family_handle_t *
wn_rocksdb_create_column_family(struct wn_rocksdb *wn, const rocksdb_options_t *options,
				const char *name, char **errptr)
{
	rocksdb_column_family_handle_t *family = NULL;
	rocksdb_options_t *copy;
	int err = check_comparator(wn, options);

	if (!err)
		err = wn__options_copy(wn, options, false, &copy);
	if (err) {
		wn__set_error(errptr, name, wn__options_error(err));
		return NULL;
	}
	family = rocksdb_create_column_family(wn->rocks, copy, name, errptr);
	rocksdb_options_destroy(copy);
	return *errptr ? NULL : family;
}
