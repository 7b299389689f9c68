/* database.c - databases whose filters learn.
 *
 * Opening: the directory beside the database is locked, and what lies in it is read; only then
 * LevelDB opens the database, since that may build tables and remove some. Closing: LevelDB
 * first, since it may still build tables.
 *
 * LevelDB gives its databases no identity. The secret serves as one. A copy, which has the same
 * secret, is the same database as far as anybody can tell: what was learned about its tables is
 * about these tables, wherever they lie (learn/small_table.h). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/secret.h"
#include "base/sort.h"
#include "kinds/kind.h"
#include "learn/saved/home.h"
#include "learn/lookup.h"
#include "policy.h"

#define SECRET_NAME "winnow.secret"

struct wn_leveldb {
	leveldb_t *level;
	struct wn__level_shim *shim;
	leveldb_filterpolicy_t *shown;
	struct wn__level_policy *policy;
	struct wn__learn *learn;
	bool learn_is_open;
	struct wn_secret *secret;
	char *path;
	char *directory; /* beside the database */
	bool directory_is_new;
	bool is_new; /* the database is */
	struct wn__home *home; /* its lock */
};

/* ---- lookups ------------------------------------------------------------ */

static _Thread_local struct {
	uint64_t queries, positives;
} last_get __attribute__((tls_model("initial-exec")));

void wn_leveldb_last_get(uint64_t *queriesp, uint64_t *positivesp)
{
	*queriesp = last_get.queries;
	*positivesp = last_get.positives;
}

WN__INLINE char *look_up(struct wn_leveldb *wn, const leveldb_readoptions_t *options,
			 const char *key, size_t size, const char *hashed_key, size_t hashed_size,
			 size_t *value_sizep, char **errptr)
{
	struct wn__lookup lookup;
	char *value;

	wn__lookup_begin(&lookup, wn->policy->registry, wn->policy->secret, hashed_key,
			 hashed_size);
	wn__lookup_hash_short(&lookup);
	value = leveldb_get(wn->level, options, key, size, value_sizep, errptr);
	last_get.queries = lookup.queries;
	last_get.positives = lookup.count;
	wn__lookup_end(&lookup, wn->learn, value, *errptr);
	return value;
}

__attribute__((noinline)) static char *
look_up_canonically(struct wn_leveldb *wn, const leveldb_readoptions_t *options, const char *key,
		    size_t size, size_t *value_sizep, char **errptr)
{
	struct wn__level_canonical canonical;
	char *value;

	wn__level_canonicalize(wn->policy, key, size, &canonical);
	value = look_up(wn, options, key, size, canonical.key, canonical.size, value_sizep,
			errptr);
	wn__level_canonical_free(&canonical);
	return value;
}

char *wn_leveldb_get(struct wn_leveldb *wn, const leveldb_readoptions_t *options, const char *key,
		     size_t size, size_t *value_sizep, char **errptr)
{
	if (WN__UNLIKELY(wn->policy->canonical))
		return look_up_canonically(wn, options, key, size, value_sizep, errptr);
	return look_up(wn, options, key, size, key, size, value_sizep, errptr);
}

/* ---- opening ------------------------------------------------------------ */

static void set_error(char **errptr, const char *what, const char *why)
{
	size_t size = strlen(what) + strlen(why) + 16;
	char *message = malloc(size); /* for leveldb_free() */

	if (message)
		snprintf(message, size, "winnow: %s: %s", what, why);
	free(*errptr);
	*errptr = message;
}

static bool is_there(const char *directory, const char *name)
{
	char *path = wn__join_path(directory, name);
	bool there = path && access(path, F_OK) == 0;

	free(path);
	return there;
}

static int set_paths(struct wn_leveldb *wn, const char *path, const char *sidecar_directory)
{
	size_t length = strlen(path);

	wn->path = wn__alloc(length + 1);
	if (!wn->path)
		return ENOMEM;
	while (length > 1 && path[length - 1] == '/')
		length--;
	memcpy(wn->path, path, length);
	wn->path[length] = '\0';
	wn->directory = wn__home_directory(wn->path, sidecar_directory);
	return wn->directory ? 0 : ENOMEM;
}

/* Tables may be there, under the database's secret. It is also in the database's own directory: a
 * copy of that alone can be read, and LevelDB leaves files alone that it does not know. */
static int find_secret(struct wn_leveldb *wn)
{
	char *path = wn__join_path(wn->path, SECRET_NAME);
	int err = path ? wn_secret_load(path, &wn->secret) : ENOMEM;
	bool is_new;

	free(path);
	/* Gone or damaged; but one that cannot be read just now must not be replaced. */
	if (err == ENOENT || err == ENOTDIR || err < 0)
		err = wn->is_new ? wn_secret_create_random(&wn->secret) :
				   wn__home_secret(wn->directory, &wn->secret, &is_new);
	return err;
}

/* In the database's directory, unless it is there. */
static int save_secret(const struct wn_leveldb *wn)
{
	char *path = wn__join_path(wn->path, SECRET_NAME);
	struct wn_secret *there = NULL;
	int err = path ? 0 : ENOMEM;

	if (path && (wn_secret_load(path, &there) != 0 ||
		     memcmp(wn_secret_seed(there), wn_secret_seed(wn->secret), WN_SEED_SIZE) != 0))
		err = wn_secret_save(wn->secret, path);
	wn_secret_destroy(there);
	free(path);
	return err;
}

static struct wn__identity make_identity(const struct wn_secret *secret)
{
	XXH128_hash_t sum = XXH3_128bits(wn_secret_seed(secret), WN_SEED_SIZE);
	struct wn__identity identity;

	identity.size = (size_t)snprintf((char *)identity.bytes, sizeof(identity.bytes),
					 "%016llx%016llx", (unsigned long long)sum.high64,
					 (unsigned long long)sum.low64);
	return identity;
}

/* From here on the directory is this database's alone, and has its secret. A database that is made
 * now has nothing in it, whatever was at its path before. */
static int claim_directory(struct wn_leveldb *wn)
{
	static const struct wn__identity nobody = {.size = 6, .bytes = "nobody"};
	struct wn__identity identity;
	int err;

	wn->directory_is_new = access(wn->directory, F_OK) != 0;
	err = wn__home_lock(wn->directory, &wn->home);
	if (err)
		return err;
	wn->is_new = !is_there(wn->path, "CURRENT");
	err = find_secret(wn);
	if (err)
		return err;
	identity = make_identity(wn->secret);
	if (wn->is_new)
		err = wn__home_claim(wn->home, &nobody);
	if (!err)
		err = wn__home_claim(wn->home, &identity);
	if (!err)
		err = wn__home_save_secret(wn->directory, wn->secret);
	return err;
}

/* The numbers of the tables in the database's directory, in order. NULL: none, or no memory. */
static uint64_t *list_tables(const struct wn_leveldb *wn, size_t *countp)
{
	DIR *directory = opendir(wn->path);
	uint64_t *numbers = NULL, *more;
	size_t room = 0;
	const struct dirent *entry;

	*countp = 0;
	while (directory && (entry = readdir(directory))) {
		uint64_t number = wn__level_table_number(entry->d_name);

		if (!number)
			continue;
		if (*countp == room) {
			room = 2 * room + 64;
			more = wn__realloc(numbers, room * sizeof(*numbers));
			if (!more)
				break;
			numbers = more;
		}
		numbers[(*countp)++] = number;
	}
	if (directory)
		closedir(directory);
	if (numbers)
		qsort(numbers, *countp, sizeof(*numbers), wn__compare_numbers);
	return numbers;
}

static int compare_keys(void *shim, const void *a, size_t a_size, const void *b, size_t b_size)
{
	return wn__level_compare(shim, a, a_size, b, b_size);
}

static int open_learn(struct wn_leveldb *wn, const struct wn_leveldb_options *given)
{
	bool bytewise = wn__level_is_bytewise(wn->shim);
	struct wn__learn_options options = {
		.learned_bytes = given->learned_bytes,
		.config = wn->policy->config,
		.keeps_missing_keys = true,
		.missing_keys = given->known_misses,
		.compare = bytewise ? NULL : compare_keys,
		.compare_arg = wn->shim,
	};
	struct wn__learn_place place = {.directory = wn->directory};
	uint64_t *tables;
	int err = wn__learn_create(&options, wn->secret, &wn->learn);

	if (!err)
		err = wn__map_sidecar_open(wn->directory, NULL, &place.map);
	if (err)
		return err;
	tables = list_tables(wn, &place.table_count);
	place.tables = tables;
	err = wn__learn_open(wn->learn, &place);
	free(tables);
	wn->learn_is_open = true;
	wn->policy->learn = wn->learn;
	wn->policy->registry = wn__learn_registry(wn->learn);
	return err;
}

/* All but the database. What is wrong with the options is told before anything is touched. */
static bool prepare(struct wn_leveldb *wn, const leveldb_options_t *options, const char *path,
		    const struct wn_leveldb_options *given, char **errptr)
{
	bool odd;
	int err;

	if (given->known_misses > WN_LEVELDB_MAX_KNOWN_MISSES) {
		set_error(errptr, "known_misses", "more than 67,108,864");
		return false;
	}
	wn->shim = wn__level_watch(options, &wn__level_calls, &odd);
	if (!wn->shim) {
		set_error(errptr, path, wn_strerror(odd ? WN_ERR_VERSION : ENOMEM));
		return false;
	}
	if (!wn__level_is_bytewise(wn->shim) && !given->canonical &&
	    !given->equal_keys_are_identical) {
		set_error(errptr, "comparator",
			  "it may take keys with different bytes for equal, and filters would deny "
			  "them; say equal_keys_are_identical, or give canonical");
		return false;
	}
	err = set_paths(wn, path, given->sidecar_directory);
	if (err)
		set_error(errptr, path, wn_strerror(err));
	return err == 0;
}

/* A filter of no given size is as large as the one whose place it takes, if it can be. */
static int create_policy(struct wn_leveldb *wn, const struct wn_leveldb_options *given,
			 char *message, size_t size)
{
	char *sized;
	int err = wn__options_of_size(wn__level_filter_options(given->filter),
				      wn__level_bits_per_key(wn->shim), message, size, &sized);

	if (err)
		return err;
	err = wn__level_policy_create(sized, wn->secret, given->canonical, given->canonical_arg,
				      message, size, &wn->policy);
	free(sized);
	if (err != WN_ERR_OPTION)
		return err;
	return wn__level_policy_create(given->filter, wn->secret, given->canonical,
				       given->canonical_arg, message, size, &wn->policy);
}

static bool make_policy(struct wn_leveldb *wn, const struct wn_leveldb_options *given,
			char **errptr)
{
	char message[256] = "";
	int err = create_policy(wn, given, message, sizeof(message));

	if (err) {
		set_error(errptr, "filter", message[0] ? message : wn_strerror(err));
		return false;
	}
	wn__level_set_owner(wn->shim, wn->policy);
	wn->shown = wn__level_policy_show(wn->policy, false);
	leveldb_options_set_filter_policy(wn__level_options(wn->shim), wn->shown);
	return true;
}

static const char *explain(int err)
{
	if (err == EBUSY)
		return "the directory is in use: by another database, or by this one opened twice";
	return wn_strerror(err);
}

/* Will the options do? Before the directory is touched. */
static bool check_options(const struct wn_leveldb_options *given, char **errptr)
{
	static const unsigned char seed[WN_SEED_SIZE];
	char message[256] = "";
	struct wn__level_policy *policy = NULL;
	struct wn_secret *secret;
	int err;

	if (!wn__is_reserved_zero(given)) {
		set_error(errptr, "options", WN__UNKNOWN_OPTION);
		return false;
	}
	err = wn_secret_create(seed, &secret);
	if (!err)
		err = wn__level_policy_create(given->filter, secret, NULL, NULL, message,
					sizeof(message), &policy);
	if (err)
		set_error(errptr, "filter", message[0] ? message : wn_strerror(err));
	wn__level_policy_destroy(policy);
	wn_secret_destroy(secret);
	return err == 0;
}

/* A database that is not there, and is not to be made: LevelDB says so. What was learned about it
 * stays: a file system may not be mounted just now. */
static bool is_refused(const struct wn_leveldb *wn, char **errptr)
{
	leveldb_t *level;

	if (is_there(wn->path, "CURRENT") || wn__level_creates(wn->shim))
		return false;
	level = leveldb_open(wn__level_options(wn->shim), wn->path, errptr);
	if (level) { /* somebody made it meanwhile */
		leveldb_close(level);
		set_error(errptr, wn->path, "it was made while it was opened; try again");
	}
	return true;
}

static bool open_all(struct wn_leveldb *wn, const leveldb_options_t *options, const char *path,
		     const struct wn_leveldb_options *given, char **errptr)
{
	int err;

	if (!check_options(given, errptr) || !prepare(wn, options, path, given, errptr) ||
	    is_refused(wn, errptr))
		return false;
	err = claim_directory(wn);
	if (!err && !make_policy(wn, given, errptr))
		return false;
	if (!err)
		err = open_learn(wn, given);
	if (err) {
		set_error(errptr, wn->directory, explain(err));
		return false;
	}
	wn->level = leveldb_open(wn__level_options(wn->shim), path, errptr);
	if (!wn->level)
		return false;
	err = save_secret(wn);
	if (err)
		set_error(errptr, wn->path, wn_strerror(err));
	return err == 0;
}

/* ---- closing ------------------------------------------------------------ */

static void close_all(struct wn_leveldb *wn)
{
	if (wn->level)
		leveldb_close(wn->level);
	if (wn->learn_is_open)
		wn__learn_close(wn->learn);
	wn__level_unwatch(wn->shim);
	if (wn->shown)
		leveldb_filterpolicy_destroy(wn->shown);
	wn__learn_release(wn->learn);
	wn__level_policy_destroy(wn->policy);
	wn_secret_destroy(wn->secret);
	wn__home_unlock(wn->home);
	free(wn->directory);
	free(wn->path);
	free(wn);
}

/* What could not be opened leaves no directory behind. */
static void take_back(struct wn_leveldb *wn)
{
	char *directory = wn->home && wn->directory_is_new ? wn->directory : NULL;

	if (directory)
		wn->directory = NULL;
	close_all(wn);
	if (directory)
		wn__home_remove(directory);
	free(directory);
}

leveldb_t *wn_leveldb_open(const leveldb_options_t *options, const char *path,
			   const struct wn_leveldb_options *given, struct wn_leveldb **wnp,
			   char **errptr)
{
	static const struct wn_leveldb_options defaults;
	struct wn_leveldb *wn = wn__calloc(1, sizeof(*wn));

	*wnp = NULL;
	if (!wn) {
		set_error(errptr, path, wn_strerror(ENOMEM));
		return NULL;
	}
	if (!open_all(wn, options, path, given ? given : &defaults, errptr)) {
		take_back(wn);
		return NULL;
	}
	*wnp = wn;
	return wn->level;
}

void wn_leveldb_close(struct wn_leveldb *wn)
{
	if (wn)
		close_all(wn);
}

void wn_leveldb_drain(struct wn_leveldb *wn)
{
	wn__learn_drain(wn->learn);
	wn__learn_sync(wn->learn);
}

/* ---- counting ----------------------------------------------------------- */

void wn_leveldb_stats(struct wn_leveldb *wn, struct wn_stats *statsp)
{
	*statsp = (struct wn_stats){0};
	wn__metrics_sum(&wn->policy->metrics, statsp);
	wn__learn_describe(wn->learn, statsp);
}

char *wn_leveldb_property(struct wn_leveldb *wn, const char *name)
{
	struct wn_stats stats;

	wn_leveldb_stats(wn, &stats);
	return wn__stats_text(&stats, name);
}
