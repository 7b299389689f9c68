/* rocksdb.h - winnow's filters in a stock RocksDB.
 *
 * A filter policy for RocksDB's C API: tables that are written with it have winnow's filters
 * instead of Bloom filters. Tables with Bloom or Ribbon filters are read as before, and a
 * RocksDB without winnow reads winnow's tables, with right answers and without the benefit of
 * their filters; so a database can change to winnow and back at any time.
 *
 * Filters learn in databases that were opened with wn_rocksdb_open(), from lookups that are
 * made with wn_rocksdb_get() and its kin. Elsewhere they answer as they were built.
 *
 * With this library in the process, RocksDB's options strings and OPTIONS files know the
 * policy, too: "filter_policy=winnow.aqf:remainder_bits=9".
 *
 * A build of winnow is good for one minor version of RocksDB, from 7.5 on. With another one in the
 * process no database is opened, with a message that names both versions, no policy is made
 * (WN_ERR_MISMATCH), and options strings do not know winnow's; wn_rocksdb_uninstall() and
 * wn_rocksdb_destroy() work.
 *
 * Thread safety: any thread, any time. */
#ifndef WINNOW_ROCKSDB_H
#define WINNOW_ROCKSDB_H

#include <rocksdb/c.h>

#include <winnow/common.h>
#include <winnow/hash.h>
#include <winnow/stats.h>

WN_BEGIN_DECLS

/* Make a filter policy. `options` is a filter's options string, as wn_config_parse() takes it
 * ("aqf:remainder_bits=9"); NULL: "aqf". `secret` is copied; NULL: a random one. Every filter
 * carries its secret's seed, so any winnow policy reads the filters of any other, but for those of
 * databases with a `canonical` function, which say "maybe".
 * Give *policyp to rocksdb_block_based_options_set_filter_policy(), which takes it, or to
 * rocksdb_filterpolicy_destroy().
 * It does not see the comparator, nor does a policy from an options string: they are for tables
 * in which keys that compare as equal have the same bytes.
 * WN_ERR_OPTION: the options string cannot be understood; wn_config_parse() says why.
 * WN_ERR_MISMATCH: this RocksDB is not the version that winnow was built for. */
WN_PUBLIC int wn_rocksdb_filterpolicy(const char *options, const struct wn_secret *secret,
				      rocksdb_filterpolicy_t **policyp);

/* Let RocksDB's options strings and OPTIONS files know the policy. It is done when the library is
 * loaded; but a linker drops a library of which nothing is called, and RocksDB then takes the
 * string, says OK, and makes tables without any filter. So a program that uses nothing else of
 * winnow's calls this. 0, WN_ERR_MISMATCH as above, or ENOMEM. */
WN_PUBLIC int wn_rocksdb_register(void);

/* What `policy` did so far; NULL: all policies of this process, gone ones and those from
 * options strings included. RocksDB keeps a policy for as long as options or databases with
 * it are there; do not ask for longer. WN_ERR_INVALID: not a policy of winnow's. */
WN_PUBLIC int wn_rocksdb_filterpolicy_stats(const rocksdb_filterpolicy_t *policy,
					    struct wn_stats *statsp);

/* ---- databases that learn ----------------------------------------------- */

/* Where the hashes of stored keys are kept, without which nothing can be learned. A database
 * may change from one to another whenever it is opened.
 *
 * With the column family, everyone who opens the database must name that family among the
 * others, or open it through winnow: that is RocksDB's rule for every family.
 * wn_rocksdb_uninstall() drops it. With the sidecar there is no such duty. */
enum wn_rocksdb_store {
	WN_ROCKSDB_COLUMN_FAMILY, /* in a column family of the database, WN_ROCKSDB_REVERSEMAP */
	WN_ROCKSDB_SIDECAR,       /* flat files in the directory beside the database */
	WN_ROCKSDB_MEMORY /* gone when the database is closed: tables from before do not learn */
};

#define WN_ROCKSDB_REVERSEMAP "winnow.reversemap"

/* Zero means default. All stores but the one in memory have a directory beside the database,
 * for what was learned, and for what is on its way. It must be on a local file system, and
 * it is tied to the database: what winnow left there for another database is removed. One
 * database at a time can have it open to write. */
struct wn_rocksdb_options {
	const char *filter;            /* a filter's options string; NULL: "aqf". If it says no
					* size ("aqf:bits_per_key=10"), filters have that of the
					* policy whose place they take, if there is one */
	enum wn_rocksdb_store store;
	const char *sidecar_directory; /* winnow's own, and no other files in it; NULL: the
					* database's path with ".winnow" behind it */
	bool background;               /* learn on a thread beside, soon after a lookup returned;
					* default: before it returns */
	size_t learned_bytes;          /* memory for lessons and all that leads to them, never
					* exceeded; 0: 64 MB; below 32 KB nothing is learned */
	size_t queue_length;           /* in the background: false positives that may wait;
					* 0: 4096 */
	unsigned save_ms;              /* between two saves of what was learned; 0: 1000 */
	/* A column family with a comparator that may take keys with different bytes for equal, by
	 * its CanKeysWithDifferentByteContentsBeEqual(), is refused unless one of these is given.
	 * A comparator of the C API is one of these; RocksDB's own are not. */
	bool equal_keys_are_identical; /* keys that compare as equal have the same bytes, but for
					* their timestamps */
	wn_canonical_fn *canonical;    /* filters hash what this makes of a key (without its
					* timestamp), or of a prefix if they have prefixes. For
					* all families. It must be the same one for as long as
					* the database lives. It is called for as long as the
					* database or a block cache that it used is there */
	void *canonical_arg;
	uint64_t reserved[8]; /* zero; options of later versions (winnow/common.h) */
};

struct wn_rocksdb;

/* Open a database whose filters learn, with its default column family only. `options` is
 * copied: the block-based tables' filter policy is replaced by winnow's, all else is as it
 * says. `given` may be NULL. The result is RocksDB's own handle, for everything that is not
 * here; it belongs to *wnp, so close that and not the handle.
 * On failure NULL, with a message in *errptr as from rocksdb_open(). A sidecar directory that
 * cannot be written is a failure. */
WN_PUBLIC rocksdb_t *wn_rocksdb_open(const rocksdb_options_t *options, const char *path,
				     const struct wn_rocksdb_options *given,
				     struct wn_rocksdb **wnp, char **errptr);

/* The same with column families, as rocksdb_open_column_families(); each family's tables must
 * be block-based. Families that are made later have the filters that their options say. */
WN_PUBLIC rocksdb_t *wn_rocksdb_open_column_families(
	const rocksdb_options_t *options, const char *path, int count, const char *const *names,
	const rocksdb_options_t *const *family_options, rocksdb_column_family_handle_t **handlesp,
	const struct wn_rocksdb_options *given, struct wn_rocksdb **wnp, char **errptr);

/* To read only, as rocksdb_open_for_read_only(): what was learned helps, what is learned on
 * the way helps until the close, and nothing is written anywhere. */
WN_PUBLIC rocksdb_t *wn_rocksdb_open_for_read_only(const rocksdb_options_t *options,
						   const char *path,
						   unsigned char error_if_wal_file_exists,
						   const struct wn_rocksdb_options *given,
						   struct wn_rocksdb **wnp, char **errptr);

/* Close the database and save what was learned. NULL is fine. No other call may be under way,
 * and everything of the database's (iterators, snapshots, handles) is to be gone, as for
 * rocksdb_close(). */
WN_PUBLIC void wn_rocksdb_close(struct wn_rocksdb *wn);

/* As rocksdb_create_column_family(), with winnow's filters. Its comparator may be refused
 * (struct wn_rocksdb_options). */
WN_PUBLIC rocksdb_column_family_handle_t *
wn_rocksdb_create_column_family(struct wn_rocksdb *wn, const rocksdb_options_t *options,
				const char *name, char **errptr);

/* ---- for programs that open their database themselves ------------------- */

/* In this order:
 *
 *	wn_rocksdb_create(path, NULL, &wn, &err);
 *	wn_rocksdb_prepare(wn, options, &err);      the options of the database, and of each
 *	                                            family that is to learn
 *	db = rocksdb_open(options, path, &err);     or its kin: see below
 *	wn_rocksdb_attach(wn, db, NULL, &err);
 *	...                                         wn_rocksdb_get() and its kin
 *	wn_rocksdb_detach(wn);
 *	rocksdb_close(db);
 *
 * Tables that are written before attaching wait, up to 4 million keys of them. After detaching
 * the database goes on, and so does the benefit of what was learned; tables that are written
 * then will not learn. Whatever fails, `wn` is to be detached at the end.
 *
 * A database that was opened to read only, or as a secondary instance, can be attached as well:
 * it has the benefit of what had been saved by then, what it learns helps until it is detached,
 * and nothing is written. */
WN_PUBLIC void wn_rocksdb_create(const char *path, const struct wn_rocksdb_options *given,
				 struct wn_rocksdb **wnp, char **errptr);

/* Put winnow's policy and its listener into these options, whose tables must be block-based, and
 * whose comparator must not be one that is refused (struct wn_rocksdb_options). They take the place
 * of those that an earlier call put there: options serve one `wn` at a time. What other databases
 * that are opened with them do does not concern `wn`. Tables of a SstFileWriter with these options
 * have filters, which do not learn. */
WN_PUBLIC void wn_rocksdb_prepare(struct wn_rocksdb *wn, rocksdb_options_t *options,
				  char **errptr);

/* `db` and `family` are borrowed until detaching. `family` is one for winnow's use alone, with
 * wn_rocksdb_reversemap_options(); NULL: key lists go into the directory beside the database, or to
 * memory if the options said so. */
WN_PUBLIC void wn_rocksdb_attach(struct wn_rocksdb *wn, rocksdb_t *db,
				 rocksdb_column_family_handle_t *family, char **errptr);

/* No lookup of wn's may be under way. The database's other work may. */
WN_PUBLIC void wn_rocksdb_detach(struct wn_rocksdb *wn);

/* For rocksdb_options_destroy(). */
WN_PUBLIC rocksdb_options_t *wn_rocksdb_reversemap_options(void);

/* ---- lookups ------------------------------------------------------------ */

/* As RocksDB's functions of the same names; and the filters learn from what was found. Other
 * lookups have the benefit of what was learned and teach nothing; neither do lookups that fail,
 * or whose read options forbid to read from disk (the tier of the block cache). Snapshots and all
 * else that read options say are heeded.
 *
 * A lookup that a filter was wrong about learns from it before it returns, so that no later one
 * pays for it again: it looks up the stored key's hash, which takes about one read of 4 KB if it
 * is not cached.
 *
 * Of a batch with very many keys not every false positive is seen. Tables from before the
 * directory beside the database was lost learn from single lookups only. */
WN_PUBLIC char *wn_rocksdb_get(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			       const char *key, size_t size, size_t *value_sizep, char **errptr);
WN_PUBLIC char *wn_rocksdb_get_cf(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
				  rocksdb_column_family_handle_t *family, const char *key,
				  size_t size, size_t *value_sizep, char **errptr);
WN_PUBLIC rocksdb_pinnableslice_t *wn_rocksdb_get_pinned(struct wn_rocksdb *wn,
							 const rocksdb_readoptions_t *options,
							 const char *key, size_t size,
							 char **errptr);
WN_PUBLIC rocksdb_pinnableslice_t *
wn_rocksdb_get_pinned_cf(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			 rocksdb_column_family_handle_t *family, const char *key, size_t size,
			 char **errptr);
WN_PUBLIC void wn_rocksdb_multi_get(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
				    size_t count, const char *const *keys, const size_t *sizes,
				    char **valuesp, size_t *value_sizesp, char **errorsp);
WN_PUBLIC void wn_rocksdb_multi_get_cf(struct wn_rocksdb *wn,
				       const rocksdb_readoptions_t *options,
				       const rocksdb_column_family_handle_t *const *families,
				       size_t count, const char *const *keys, const size_t *sizes,
				       char **valuesp, size_t *value_sizesp, char **errorsp);
WN_PUBLIC void wn_rocksdb_batched_multi_get_cf(struct wn_rocksdb *wn,
					       const rocksdb_readoptions_t *options,
					       rocksdb_column_family_handle_t *family,
					       size_t count, const char *const *keys,
					       const size_t *sizes,
					       rocksdb_pinnableslice_t **valuesp, char **errorsp,
					       const bool sorted_input);

/* ---- what goes on -------------------------------------------------------- */

/* Wait until everything that is queued has been stored and learned. */
WN_PUBLIC void wn_rocksdb_drain(struct wn_rocksdb *wn);

/* The same, and have what was learned on disk. 0, also with the store in memory, or an errno;
 * ENOENT: the directory beside the database was removed or replaced while it was open. */
WN_PUBLIC int wn_rocksdb_sync(struct wn_rocksdb *wn);

WN_PUBLIC void wn_rocksdb_stats(struct wn_rocksdb *wn, struct wn_stats *statsp);

/* The same as text, to be freed with free(): "winnow.stats", a name and a number a line;
 * "winnow.prometheus", as Prometheus reads it. NULL: no such property, or no memory. */
WN_PUBLIC char *wn_rocksdb_property(struct wn_rocksdb *wn, const char *name);

/* It is known that this key will be asked for and is not there: new filters are built so that
 * they say "no" to it. cost: how often, compared with others; 1 is what one false positive
 * counts. WN_ERR_INVALID: a cost that is not above 0, or above 1e15. */
WN_PUBLIC int wn_rocksdb_add_negative(struct wn_rocksdb *wn, const char *key, size_t size,
				      double cost);

/* ---- the end -------------------------------------------------------------- */

/* Take winnow out of a database that nobody has open: drop winnow's column family, remove the
 * directory beside the database. Its filters stay, and do no harm. The database is opened with
 * the options that RocksDB wrote beside it; comparators, merge operators and the like that are
 * the program's own are not among them, and a database that needs them is not opened. Open it
 * through winnow with WN_ROCKSDB_SIDECAR then, which drops the family, too. */
WN_PUBLIC void wn_rocksdb_uninstall(const char *path, char **errptr);

/* As rocksdb_destroy_db(), and the directory beside the database as well. */
WN_PUBLIC void wn_rocksdb_destroy(const rocksdb_options_t *options, const char *path,
				  char **errptr);

WN_END_DECLS

#endif /* WINNOW_ROCKSDB_H */
