/* leveldb.h - winnow's filters in LevelDB.
 *
 * Two ways. wn_leveldb_open() opens a database whose filters learn from the lookups made with
 * wn_leveldb_get(); what they learned lies in a directory beside the database. With
 * wn_leveldb_filterpolicy() a program that opens its database itself has the same filters, and
 * they do not learn. That policy does not see the comparator: it is for databases in which keys
 * that compare as equal have the same bytes.
 *
 * The filters live beside LevelDB's own Bloom filters, in both directions: tables with Bloom
 * filters keep them and are read with them, and stock LevelDB reads winnow's tables, with right
 * answers and without a filter.
 *
 * Thread safety: as LevelDB: any number of threads may use an open database. */
#ifndef WINNOW_LEVELDB_H
#define WINNOW_LEVELDB_H

#include <leveldb/c.h>

#include <winnow/common.h>
#include <winnow/hash.h>
#include <winnow/stats.h>

WN_BEGIN_DECLS

/* Zero means default. */
struct wn_leveldb_options {
	/* A filter's options string: "aqf", "aqf:remainder_bits=7", "aqf:bits_per_key=10"; or
	 * "sscf", "sscf:bits_per_key=10", which heeds the missing keys that are known when it is
	 * built. NULL: "aqf". If it says no size, filters have that of the policy whose place
	 * they take, if there is one. */
	const char *filter;
	const char *sidecar_directory; /* winnow's own, and no other files in it; NULL: the
					* database's path with ".winnow" behind it. One database at
					* a time can have it open */
	size_t learned_bytes;          /* memory for lessons; 0: 64 MB */
	/* Missing keys to build new filters against, 64 bytes each; 0: 131,072; at most
	 * WN_LEVELDB_MAX_KNOWN_MISSES. */
	size_t known_misses;
	/* A database with a comparator of its own is refused unless one of these is given. */
	bool equal_keys_are_identical; /* keys that compare as equal have the same bytes */
	wn_canonical_fn *canonical;    /* filters hash what this makes of a key */
	void *canonical_arg;
	uint64_t reserved[8]; /* zero; options of later versions (winnow/common.h) */
};

#define WN_LEVELDB_MAX_KNOWN_MISSES ((size_t)1 << 26)

struct wn_leveldb;

/* Open a database whose filters learn. `options` is copied; its filter policy is replaced, and
 * its Env is watched. `given` may be NULL. The result is LevelDB's own handle, for everything
 * that is not here; it belongs to *wnp: close that and not the handle. What `options` refers to
 * (cache, comparator, Env) must outlive the database, as for leveldb_open().
 * On failure NULL, with a message in *errptr as from leveldb_open(). */
WN_PUBLIC leveldb_t *wn_leveldb_open(const leveldb_options_t *options, const char *path,
				     const struct wn_leveldb_options *given,
				     struct wn_leveldb **wnp, char **errptr);

/* Close the database and keep what was learned. NULL is fine. No other call may be under way. */
WN_PUBLIC void wn_leveldb_close(struct wn_leveldb *wn);

/* As leveldb_get(), snapshots included; and the filters learn from what was found. */
WN_PUBLIC char *wn_leveldb_get(struct wn_leveldb *wn, const leveldb_readoptions_t *options,
			       const char *key, size_t size, size_t *value_sizep, char **errptr);

/* How many filters this thread's last wn_leveldb_get() asked, and how many said "maybe". */
WN_PUBLIC void wn_leveldb_last_get(uint64_t *queriesp, uint64_t *positivesp);

/* Write to disk what was learned, and let the next filters know of all missing keys so far. Both
 * happen by themselves about once a second. */
WN_PUBLIC void wn_leveldb_drain(struct wn_leveldb *wn);

WN_PUBLIC void wn_leveldb_stats(struct wn_leveldb *wn, struct wn_stats *statsp);

/* The same as text: "winnow.stats", a line for each number, or "winnow.prometheus", in Prometheus'
 * text format. Free it with free(). NULL: another name, or no memory. */
WN_PUBLIC char *wn_leveldb_property(struct wn_leveldb *wn, const char *name);

/* A filter policy for leveldb_options_set_filter_policy(). `text` as in the options above, NULL:
 * the default. `secret` is copied; all of a database's filters want the same one, now and later:
 * filters under another one say "maybe". NULL: one that is built in, the same for everybody;
 * then whoever can choose keys can choose such that are false positives.
 * WN_ERR_OPTION, with a sentence in `message` (may be NULL). Destroy it with
 * leveldb_filterpolicy_destroy(), after the database. */
WN_PUBLIC int wn_leveldb_filterpolicy(const char *text, const struct wn_secret *secret,
				      char *message, size_t message_size,
				      leveldb_filterpolicy_t **policyp);

WN_END_DECLS

#endif /* WINNOW_LEVELDB_H */
