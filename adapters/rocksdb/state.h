/* state.h - the directory beside a database: what was learned, and runs that are in files.
 *
 * A database that was destroyed may leave its directory behind, and one that is made in its
 * place counts its tables from 1 again. RocksDB gives every database an identity; the file
 * "identity" in the directory names the database that the rest of it is about.
 *
 * Whoever writes to the directory holds a lock on it: two databases that were
 * given the same directory, or one database that is opened twice under two names (RocksDB
 * itself lets "db" and "./db" be open in one process), would overwrite each other's files. */
#ifndef WN_ADAPTERS_ROCKSDB_STATE_H
#define WN_ADAPTERS_ROCKSDB_STATE_H

#include <winnow/common.h>

/* RocksDB's are 36 characters. */
#define WN__IDENTITY_SIZE 128

/* The directory of the database at `path`: `given`, or NULL for its default. To be freed;
 * NULL: no memory. */
char *wn__state_directory(const char *path, const char *given);

/* The same text for every way to write the path of one directory, which need not be there yet:
 * without ".", "..", doubled slashes and symbolic links. To be freed; NULL: no memory. */
char *wn__state_canonical(const char *path);

struct wn__state_lock;

/* Make the directory if it is not there, and lock it. EBUSY: somebody else has; or another
 * errno. */
int wn__state_lock(const char *directory, struct wn__state_lock **lockp);
void wn__state_unlock(struct wn__state_lock *lock); /* NULL is fine */

/* Is what lies in the directory about the database at `path`? Also where neither is there. */
bool wn__state_belongs(const char *directory, const char *path);

/* It is from now on: another database's runs and lessons are removed, its secret stays. The
 * directory must be there, and locked. An errno: it cannot be written. */
int wn__state_claim(const char *directory, const char *path);

/* Remove winnow's files in the directory, and the directory if that was all. 0 if it was not
 * there; EBUSY: it is in use; or an errno. */
int wn__state_remove(const char *directory);

#endif /* WN_ADAPTERS_ROCKSDB_STATE_H */
