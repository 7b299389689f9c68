/* column_family.h - key lists in a column family of a RocksDB database. */
#ifndef WN_ADAPTERS_ROCKSDB_COLUMN_FAMILY_H
#define WN_ADAPTERS_ROCKSDB_COLUMN_FAMILY_H

#include <rocksdb/c.h>

#include "reversemap/map.h"

WN_BEGIN_DECLS

/* A store over `family` of `db`; both are borrowed and must outlive it. The family
 * has the default comparator, no filter policy of ours, and no other use.
 *
 * Key lists come in as SST files, which are written in `directory` first and then copied by
 * RocksDB: a directory of the store's own, made if it is not there. What a crash left
 * in it is swept. If it cannot be made, written or swept, that is an errno. NULL: the
 * store is to be read only, and a put is WN_ERR_READONLY.
 *
 * A put waits for RocksDB, a write stall included: from a flush, a compaction or a
 * listener it would wait for ever. */
int wn__map_column_family_open(rocksdb_t *db, rocksdb_column_family_handle_t *family,
				const char *directory, struct wn__map **mapp);

WN_END_DECLS

#endif /* WN_ADAPTERS_ROCKSDB_COLUMN_FAMILY_H */
