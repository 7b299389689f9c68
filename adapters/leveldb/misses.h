/* misses.h - the absent keys that were asked for last, with their bytes.
 *
 * Filters that are built for a compaction are taught about them beforehand. A filter covers a
 * narrow range of keys, so here, unlike in src/negatives.h, the keys themselves are needed: the
 * hash does not tell which filter will be asked.
 *
 * Every lookup that finds nothing leaves its key in a ring; what is asked for all the time is
 * therefore in it, and the price is 64 bytes written in a row. (A table that kept only keys that
 * come again cost a third of a lookup.)
 *
 * Thread safety: any function, any thread, but for create and destroy. */
#ifndef WN_ADAPTERS_LEVELDB_MISSES_H
#define WN_ADAPTERS_LEVELDB_MISSES_H

#include <winnow/common.h>
#include <winnow/hash.h>

#include "shim.h"

#define WN__MISS_KEY 46 /* longer keys are not kept */

struct wn__miss {
	struct wn_hash hash;
	uint8_t size;
	uint8_t times; /* in a list: how often it is in the ring, up to 255 */
	char key[WN__MISS_KEY];
};

/* In the order of the keys, no two equal; never changes. */
struct wn__miss_list {
	size_t references; /* under the lock */
	size_t count;
	struct wn__miss items[];
};

struct wn__misses;

/* Keys are hashed with the secret, borrowed. The shim, borrowed, has the order of keys; NULL: by
 * their bytes. */
int wn__misses_create(size_t capacity, const struct wn_secret *secret,
		      const struct wn__shim *shim, struct wn__misses **missesp);
void wn__misses_destroy(struct wn__misses *misses); /* NULL is fine */

/* Not found. */
void wn__misses_note(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size);

/* All that is known; unless `exact`, it may be a little old, so that making lists takes a small
 * part of the time. NULL: nothing, or no memory. */
struct wn__miss_list *wn__misses_list(struct wn__misses *misses, bool exact);
void wn__misses_release(struct wn__misses *misses, struct wn__miss_list *list); /* NULL is fine */

int wn__miss_compare(const struct wn__misses *misses, const void *a, size_t a_size, const void *b,
		     size_t b_size);
uint64_t wn__misses_bytes(const struct wn__misses *misses);

#endif /* WN_ADAPTERS_LEVELDB_MISSES_H */
