/* home.h - the directory beside a database: what was learned, the secret, and key lists that are
 * in files.
 *
 * A database that was destroyed may leave its directory behind, and one that is made in its
 * place counts its tables from 1 again. A host that gives every database an identity of its own
 * has it kept here: the file "identity" names the database that the rest of the directory is
 * about. A directory of another identity is emptied before it is used.
 *
 * Whoever writes to the directory holds a lock on it: two databases that were given the same
 * directory, or one database that is opened twice under two names (RocksDB lets "db" and "./db"
 * be open in one process), would overwrite each other's files.
 *
 * The user may have named a directory that holds other files: these are not winnow's to remove.
 * Names that winnow gives to its files, all of which a claim for another database and a removal
 * remove, but for the secret, which a claim leaves:
 *
 *	^(secret|identity|journal|lessons|negatives|missing)$
 *	^[0-9a-f]{32}\.run$
 *
 * and what only a crash leaves behind, which every claim sweeps:
 *
 *	^(identity|lessons|negatives|missing)\.new$
 *	^secret\.[0-9a-f]{16}\.new$
 *	^[0-9a-f]{32}(\.[0-9]*)?\.tmp$
 *	^run-.*\.sst$
 *
 * Whatever has such a name is unlinked and never opened to write: it may be a second name of a
 * live file. A directory of such a name stays.
 *
 * Thread safety: any thread, any time; the use of one `struct wn__home` by one thread. */
#ifndef WN_LEARN_SAVED_HOME_H
#define WN_LEARN_SAVED_HOME_H

#include <winnow/hash.h>

WN_BEGIN_DECLS

/* RocksDB's are 36 characters. */
#define WN__IDENTITY_SIZE 128

/* Of a database: no other has it. size 0: not known. */
struct wn__identity {
	size_t size;
	unsigned char bytes[WN__IDENTITY_SIZE];
};

/* The directory of the database at `path`: `given`, or NULL for its default. To be freed;
 * NULL: no memory. */
char *wn__home_directory(const char *path, const char *given);

/* The same text for every way to write the path of one directory, which need not be there yet:
 * without ".", "..", doubled slashes and symbolic links. To be freed; NULL: no memory. */
char *wn__home_canonical(const char *path);

/* A directory that is locked. */
struct wn__home;

/* Make the directory if it is not there, and lock it. EBUSY: somebody else has; or another
 * errno. */
int wn__home_lock(const char *directory, struct wn__home **homep);
void wn__home_unlock(struct wn__home *home); /* NULL is fine */

/* Is what lies in the directory about this database? Also where there is no directory, or it
 * names no database, and the identity is not known. */
bool wn__home_belongs(const char *directory, const struct wn__identity *identity);

/* It is from now on: another database's key lists, lessons and missing keys are removed, its secret
 * stays. In either case what a crash left is swept; where that cannot be removed it stays, and
 * does no harm. An errno: the directory cannot be read, emptied or written. */
int wn__home_claim(struct wn__home *home, const struct wn__identity *identity);

/* Remove winnow's files in the directory, and the directory if that was all. 0 if it was not
 * there; EBUSY: it is in use; or an errno. */
int wn__home_remove(const char *directory);

/* The directory's secret, or a new one if it has none that can be read. *newp: save it. ENOMEM,
 * EMFILE, ENFILE: it may have one. */
int wn__home_secret(const char *directory, struct wn_secret **secretp, bool *newp);
int wn__home_save_secret(const char *directory, const struct wn_secret *secret);

WN_END_DECLS

#endif /* WN_LEARN_SAVED_HOME_H */
