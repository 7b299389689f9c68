/* missing.h - the missing keys that were asked for last, with their bytes.
 *
 * Small filters that are built for a compaction are built against them. Such a filter covers a
 * narrow range of keys, so here, unlike in negatives.h, the keys themselves are needed: the hash
 * does not tell which filter will be asked.
 *
 * Every lookup that finds nothing leaves its key in a ring; what is asked for all the time is
 * therefore in it, and the price is 64 bytes written in a row. (A table that kept only keys that
 * come again cost a third of a lookup.) Keys for which a filter was wrong are also saved.
 *
 * Thread safety: any function, any thread, but for create and destroy. */
#ifndef WN_LEARN_NEGATIVES_MISSING_H
#define WN_LEARN_NEGATIVES_MISSING_H

#include <winnow/common.h>
#include <winnow/hash.h>

#include "learn/learn.h"

#define WN__MISSING_MAX_SIZE 46 /* longer keys are not kept */

struct wn__missing_key {
	struct wn_hash hash;
	char key[WN__MISSING_MAX_SIZE]; /* bytes past the size mean nothing */
	uint8_t size;
	uint8_t times; /* in a list: how often it is in the ring, up to 255 */
};

/* In the order of the keys, no two equal; never changes. */
struct wn__missing_list {
	size_t references; /* under the lock of lists */
	size_t count;
	struct wn__missing_key items[];
};

struct wn__missing;

/* Keys are hashed with the secret, borrowed. `compare` NULL: the order is that of their bytes. */
int wn__missing_create(size_t capacity, const struct wn_secret *secret, wn__compare_fn *compare,
		       void *compare_arg, struct wn__missing **missingp);
void wn__missing_destroy(struct wn__missing *missing); /* NULL is fine */

/* A lookup found nothing. */
void wn__missing_note(struct wn__missing *missing, struct wn_hash hash, const void *key,
		      size_t size);

/* A filter was wrong about the key: it is to be saved, too. */
void wn__missing_remember(struct wn__missing *missing, struct wn_hash hash, const void *key,
			  size_t size);

/* All that is known; unless `exact`, it may be a little old, so that making lists takes a small
 * part of the time. NULL: no memory; unless `exact`, only if there is no older list either. */
struct wn__missing_list *wn__missing_list(struct wn__missing *missing, bool exact);
void wn__missing_release(struct wn__missing *missing,
			 struct wn__missing_list *list); /* NULL is fine */

int wn__missing_compare(const struct wn__missing *missing, const void *a, size_t a_size,
			const void *b, size_t b_size);
uint64_t wn__missing_bytes(const struct wn__missing *missing);

/* ---- to and from bytes (missing_save.c; doc/formats.md) ------------------ */

/* All keys. *bytesp is malloc()ed. */
int wn__missing_save(struct wn__missing *missing, void **bytesp, size_t *sizep);

/* As wn__registry_track() and wn__registry_take_changes(): what is remembered from now on. */
#define WN__MISSING_MAX_CHANGES 65536
void wn__missing_track(struct wn__missing *missing);
int wn__missing_take_changes(struct wn__missing *missing, void **bytesp, size_t *sizep);

/* Note the keys of the piece that the bytes begin with. *usedp is how long it is, 0 if it is
 * damaged (WN_ERR_CORRUPT, WN_ERR_VERSION) or another secret's (WN_ERR_MISMATCH). */
int wn__missing_load_first(struct wn__missing *missing, const void *bytes, size_t size,
			   size_t *usedp);

#endif /* WN_LEARN_NEGATIVES_MISSING_H */
