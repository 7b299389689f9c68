/* ids.h - a table of things by filter id, for thousands of them.
 *
 * A thing begins with its id. The table holds pointers, at 16 bytes a thing or less; things are
 * the caller's. Not thread-safe. */
#ifndef WN_BASE_IDS_H
#define WN_BASE_IDS_H

#include <winnow/block.h>
#include <winnow/common.h>

#include "bytes.h"

WN_BEGIN_DECLS

/* Filters of one table share half of their ids (formats.md), so every byte counts. */
static inline uint64_t wn__id_hash(const unsigned char *id)
{
	uint64_t hash = (get_le64(id) ^ get_le64(id + 8) * UINT64_C(0x9e3779b97f4a7c15)) *
			UINT64_C(0xff51afd7ed558ccd);

	return hash ^ hash >> 32;
}

/* All zero is an empty one. */
struct wn__ids {
	void **places; /* NULL: free */
	size_t room;   /* a power of two, or 0 */
	size_t count;
};

void *wn__ids_find(const struct wn__ids *ids, const unsigned char *id);

/* The id must not be there yet. ENOMEM leaves the table as it was. */
int wn__ids_add(struct wn__ids *ids, void *thing);

/* What was there, or NULL. */
void *wn__ids_remove(struct wn__ids *ids, const unsigned char *id);

/* The first thing at or behind a place, which moves behind it; NULL: that was all. Begin with
 * place 0; add and remove nothing meanwhile. */
void *wn__ids_next(const struct wn__ids *ids, size_t *placep);

void wn__ids_fini(struct wn__ids *ids);

WN_END_DECLS

#endif /* WN_BASE_IDS_H */
