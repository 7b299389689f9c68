/* strangers.h - live tables without a pack, and the ids of their filters.
 *
 * A pack may be missing: it is not synced, the disk was full, somebody removed it. The table's
 * filters are there all the same, and are not marked as such that do not learn. A filter built
 * later must not come by the id of one of them: its lessons would be taken for the other's. So
 * before LevelDB opens the database, which may build tables, these tables' filters are read from
 * the files, and their ids registered as strangers (packs.h).
 *
 * Thread safety: before the packs are used. */
#ifndef WN_ADAPTERS_LEVELDB_STRANGERS_H
#define WN_ADAPTERS_LEVELDB_STRANGERS_H

#include "reversemap/packs.h"

/* Every table of the database at `path` that has no pack. An error: an errno; tables that
 * cannot be read are none, and put the packs in doubt. */
int wn__strangers_find(struct wn__packs *packs, const char *path, uint32_t secret_id);

/* The ids of the filters in the table's file that may learn under this secret; free() them.
 * WN_ERR_CORRUPT, an errno: nobody knows. */
int wn__strangers_read(const char *path, uint32_t secret_id, struct wn__small_id **idsp,
		       size_t *countp);

#endif /* WN_ADAPTERS_LEVELDB_STRANGERS_H */
