/* store.h - where a database keeps its key lists: in memory, in files, or in a column family with
 * files behind it.
 *
 * A column family is gone before its database is, and the database's last flushes come in
 * between. What they build goes into files, and from there into the family when the database
 * is opened again. A change from files to a column family takes the same way. */
#ifndef WN_ADAPTERS_ROCKSDB_STORE_H
#define WN_ADAPTERS_ROCKSDB_STORE_H

#include <rocksdb/c.h>

#include "reversemap/map.h"

struct wn__store_place {
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family; /* borrowed; NULL: none */
	const char *directory;                  /* NULL: in memory */
	bool read_only;
};

/* A store as any other. */
int wn__store_open(const struct wn__store_place *place, struct wn__map **mapp);

/* Before anyone else uses the store: bring the key lists that are in files into the family, if
 * they are those of the `count` tables, in order; drop the others. */
void wn__store_move_in(struct wn__map *map, const uint64_t *tables, size_t count);

/* The family is about to go: wait for those who are reading or writing in it, and use files
 * from now on. Nothing to do where there is no family. */
void wn__store_leave_family(struct wn__map *map);

/* Is the table's number among these? */
bool wn__is_table(uint64_t number, const uint64_t *tables, size_t count);

#endif /* WN_ADAPTERS_ROCKSDB_STORE_H */
