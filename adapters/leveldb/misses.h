/* misses.h - absent keys that are asked for again and again, with their bytes.
 *
 * Filters that are built for a compaction are taught about them beforehand. A filter covers a
 * narrow range of keys, so here, unlike in src/negatives.h, the keys themselves are needed: the
 * hash does not tell which filter will be asked.
 *
 * A key is kept when it was a false positive, or when it is asked for a second time: the first
 * time leaves a bit. The number is bounded; past it those go that were not seen lately.
 *
 * Thread safety: any function, any thread, but for create and destroy. */
#ifndef WN_LEVELDB_MISSES_H
#define WN_LEVELDB_MISSES_H

#include <winnow/common.h>
#include <winnow/hash.h>

#include "shim.h"

struct wn__miss {
	struct wn_hash hash;
	uint32_t references; /* under the lock */
	uint32_t size;
	bool hot; /* under the lock */
	char key[];
};

/* In the order of the keys; never changes. */
struct wn__miss_list {
	size_t references; /* under the lock */
	size_t count;
	struct wn__miss *items[];
};

struct wn__misses;

/* The shim, borrowed, has the order of keys; NULL: by their bytes. */
int wn__misses_create(size_t capacity, const struct wn__shim *shim, struct wn__misses **missesp);
void wn__misses_destroy(struct wn__misses *misses); /* NULL is fine */

/* Not found. Keeps it from the second time on. Cheap. */
void wn__misses_note(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size);
/* A false positive: keep it. */
void wn__misses_add(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size);

/* All that is known, or nearly: `exact` waits for none. NULL: nothing, or no memory. */
struct wn__miss_list *wn__misses_list(struct wn__misses *misses, bool exact);
void wn__misses_release(struct wn__misses *misses, struct wn__miss_list *list); /* NULL is fine */

int wn__miss_compare(const struct wn__misses *misses, const void *a, size_t a_size, const void *b,
		     size_t b_size);
uint64_t wn__misses_bytes(struct wn__misses *misses);

/* For the false positives among them: they are worth writing down. Under the lock. */
typedef void wn__miss_fn(void *arg, const char *key, size_t size);
void wn__misses_each(struct wn__misses *misses, wn__miss_fn *each, void *arg);

#endif /* WN_LEVELDB_MISSES_H */
