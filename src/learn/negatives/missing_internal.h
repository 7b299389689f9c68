/* missing_internal.h - what missing.c and missing_save.c share. */
#ifndef WN_LEARN_NEGATIVES_MISSING_INTERNAL_H
#define WN_LEARN_NEGATIVES_MISSING_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "missing.h"

#define WN__MISSING_WORDS (sizeof(struct wn__missing_key) / sizeof(uint64_t))
#define WN__MISSING_REMEMBERED 4096

_Static_assert(sizeof(struct wn__missing_key) == 64, "a place is a cache line");

struct wn__missing_place {
	atomic_uint_fast64_t words[WN__MISSING_WORDS];
};

struct wn__missing {
	const struct wn_secret *secret;
	wn__compare_fn *compare;
	void *compare_arg;
	uint64_t number; /* no two in a process have the same */
	size_t capacity; /* a power of two */
	struct wn__missing_place *places;
	void *memory; /* they lie in */
	atomic_uint_fast64_t next; /* row */
	atomic_bool changed;       /* since the list was made: something was noted */
	/* Halves of hashes: keys that are saved already, or will be. */
	atomic_uint_fast64_t remembered[WN__MISSING_REMEMBERED];

	/* Held while a list is made, which may take seconds: no lookup takes it. */
	pthread_mutex_t list_lock;
	struct wn__missing_list *list;
	uint64_t list_made, list_took; /* nanoseconds */

	pthread_mutex_t lock; /* of all below */
	bool tracked, changes_lost;
	unsigned char *changes; /* entries of a piece */
	size_t changes_size, changes_room, change_count;
};

/* Under `lock`. */
void wn__missing_changed(struct wn__missing *missing, const void *key, size_t size);

#endif /* WN_LEARN_NEGATIVES_MISSING_INTERNAL_H */
