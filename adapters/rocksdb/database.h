/* database.h - one database whose filters learn.
 *
 *	database.c   open and close; winnow opens the database
 *	attach.c     attach and detach; the program opens it
 *	families.c   column families, winnow's own among them
 *	store.c      where key lists are
 *	reader.c     filters that are open
 *	lookup.c     lookups that teach
 *	embed.c      the same for layers above RocksDB that open and ask it themselves
 *	report.c     statistics, also as text
 *	remove.c     the end
 *
 * Opening: first the secret and the policy, for tables that are written while the database
 * opens; then the database, whose lock keeps other processes out of the directory, too; then
 * the store. Key lists of tables that were written before wait in the worker's queue. Closing: the
 * store leaves its column family, the database closes, and what its last flush built goes into
 * files. */
#ifndef WN_ADAPTERS_ROCKSDB_DATABASE_H
#define WN_ADAPTERS_ROCKSDB_DATABASE_H

#include <winnow/rocksdb_embed.h>

#include "learn/lookup.h"
#include "learn/saved/home.h"
#include "policy.h"

struct wn_rocksdb {
	/* What a lookup reads: one cache line. */
	rocksdb_t *rocks;
	struct wn__learn *learn;
	const struct wn__registry *registry; /* the policy's */
	const struct wn_secret *key_secret;  /* the policy's */
	bool canonical;                      /* keys are hashed in the user's way */

	bool opened_here;                /* and to be closed here, */
	struct wn_rocksdb_opener opener; /* in this way, if one is given; with these handles: */
	void *opened;                    /* the opener's */
	rocksdb_column_family_handle_t *default_family; /* or NULL */
	rocksdb_column_family_handle_t *family;         /* winnow's; or NULL */
	bool family_wrapped;                            /* by wn__shim_wrap_family() */
	bool read_only;
	struct wn_rocksdb_options given; /* its strings are no longer there */
	char *filter;                    /* copy; NULL: the default */
	char *path;      /* as given */
	char *name;      /* the same for every way to write the path */
	char *directory; /* NULL: the store is in memory */
	struct wn__home *home; /* the directory, locked; or NULL */
	struct wn__policy *policy;
	struct wn_secret *secret;     /* the policy's */
	struct wn_secret *new_secret; /* for the directory, which has none; or NULL */
	bool known;            /* what lies in the directory is about this database */
	void *charge;          /* to the block cache; NULL: none, or not yet */
	struct wn__map *map; /* that of `learn`, while it is open; NULL: there is no store */
};

/* What rocksdb_open_column_families() is given. */
struct wn__families {
	int count;
	const char *const *names;
	const rocksdb_options_t *const *options;
	rocksdb_column_family_handle_t **handlesp; /* of the C API, */
	void **opener_handlesp;                    /* or an opener's */
};

/* "winnow: what: why", for rocksdb_free(); an older message is freed. */
void wn__set_error(char **errptr, const char *what, const char *why);

/* What keeps the directory beside the database, or the store, from being opened. */
void wn__set_open_error(char **errptr, const struct wn_rocksdb *wn, int err);

/* ---- database.c --------------------------------------------------------- */

/* All but the database and the store. On failure an error, with a message. */
int wn__database_create(const char *path, const struct wn_rocksdb_options *given, bool read_only,
			struct wn_rocksdb **wnp, char **errptr);

/* With wn->rocks open: the directory is there and this database's. Before the store. */
int wn__database_claim(struct wn_rocksdb *wn);

/* With wn->rocks open; `family` is where key lists go, NULL: to the directory, or to memory. */
int wn__database_open_store(struct wn_rocksdb *wn, rocksdb_column_family_handle_t *family);

/* Everything but what is RocksDB's: the store, what was learned, `wn`. */
void wn__database_finish(struct wn_rocksdb *wn);

/* ---- lookup.c ----------------------------------------------------------- */

/* Begin a lookup of this key, or of many: NULL. */
WN__INLINE void wn__begin_lookup(const struct wn_rocksdb *wn, struct wn__lookup *lookup,
				 const char *key, size_t size)
{
	wn__lookup_begin(lookup, wn->registry, wn->key_secret, key, size);
	if (key && WN__LIKELY(!wn->canonical))
		wn__lookup_hash_short(lookup);
}

/* A key of a batch, whose lookups are over. */
void wn__confirm_key(const struct wn_rocksdb *wn, struct wn__batch *batch, const char *key,
		     size_t size, bool found, bool failed);

/* ---- attach.c ----------------------------------------------------------- */

/* Read-only handles and secondary instances do not say so. */
bool wn__is_read_only(rocksdb_t *db);

/* ---- families.c --------------------------------------------------------- */

/* Is winnow's family in the database at this path? */
bool wn__family_exists(const rocksdb_options_t *options, const char *path);

/* The options of winnow's family; its tables use the same block cache as those of `like`
 * (may be NULL). */
rocksdb_options_t *wn__family_options(const rocksdb_options_t *like);

/* What is wrong with a family's options, for a message. */
const char *wn__options_error(int err);

/* A copy of the options with winnow's policy, and its listener if `listen`. WN_ERR_INVALID: its
 * tables are not block-based. */
int wn__options_copy(struct wn_rocksdb *wn, const rocksdb_options_t *options, bool listen,
		     rocksdb_options_t **copyp);

/* Open wn->path with these families and, if it is there, winnow's own. On failure wn->rocks is
 * NULL, and either an error is returned, or there is a message in *errptr or the opener's. */
int wn__open_with_families(struct wn_rocksdb *wn, const rocksdb_options_t *options,
			   const struct wn__families *families, bool error_if_log, char **errptr);

#endif /* WN_ADAPTERS_ROCKSDB_DATABASE_H */
