/* state.h - the directory beside a database: what was learned, and runs that are in files.
 *
 * A database that was destroyed may leave its directory behind, and one that is made in its
 * place counts its tables from 1 again. RocksDB gives every database an identity; the file
 * "identity" in the directory names the database that the rest of it is about. */
#ifndef WN_ROCKSDB_STATE_H
#define WN_ROCKSDB_STATE_H

#include <winnow/common.h>

/* RocksDB's are 36 characters. */
#define WN__IDENTITY_SIZE 128

/* The directory of the database at `path`: `given`, or NULL for its default. To be freed;
 * NULL: no memory. */
char *wn__state_directory(const char *path, const char *given);

/* Is what lies in the directory about the database at `path`? Also where neither is there. */
bool wn__state_belongs(const char *directory, const char *path);

/* It is from now on: another database's runs and lessons are removed, its secret stays. The
 * directory must be there. What cannot be written is found out by the next one who asks. */
void wn__state_claim(const char *directory, const char *path);

/* Remove winnow's files in the directory, and the directory if that was all. 0 if it was not
 * there, or an errno. */
int wn__state_remove(const char *directory);

#endif /* WN_ROCKSDB_STATE_H */
