/* open_table.h - finding the filters of a table while LevelDB opens it.
 *
 * LevelDB reads a table's footer first, then its index, the metaindex to which the footer leads,
 * and the filters to which the metaindex leads. Whoever sees these reads sees where the filters
 * are, and where in memory they come to lie. No file is read for it.
 *
 * Thread safety: LevelDB opens a table with one thread; afterwards nothing is left to watch. */
#ifndef WN_ADAPTERS_LEVELDB_OPEN_TABLE_H
#define WN_ADAPTERS_LEVELDB_OPEN_TABLE_H

#include "learn/small_table.h"

struct wn__open_table;

struct wn__open_table *wn__open_table_create(void); /* NULL: no memory */
void wn__open_table_destroy(struct wn__open_table *table); /* NULL is fine */

/* Results of watch(), besides 0. */
enum {
	WN__OPEN_TABLE_LEARNS = 1, /* its filters are to be read from *bytesp, which is changed */
	WN__OPEN_TABLE_FOREIGN,    /* LevelDB's own */
	WN__OPEN_TABLE_NONE        /* no filters, or not to be found */
};

/* LevelDB has read `size` bytes at `offset` of the file. 0: watch on. Otherwise there is nothing
 * left to watch: one of the above; or WN_ERR_MISMATCH, filters that were not made for this
 * database, or WN_ERR_CORRUPT, damaged ones. It must not get them: it then has none for this
 * table, and reads. */
int wn__open_table_watch(struct wn__open_table *table, struct wn__registry *registry,
			 const struct wn__small_world *world, uint64_t offset, size_t size,
			 const char **bytesp);

#endif /* WN_ADAPTERS_LEVELDB_OPEN_TABLE_H */
