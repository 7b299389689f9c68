/* popular.c - see popular.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "popular.h"

#define PLACES 8192
#define EVERY 8 /* the mean distance of lookups that are looked at */

/* A place: the hash's first 48 bits, and how often it was looked at. 0: empty. */
#define COUNT_BITS 16
#define MAX_COUNT (UINT64_C(1) << (COUNT_BITS - 1))

struct wn__popular {
	atomic_uint_fast64_t places[PLACES]; /* by the hash's last bits */
};

int wn__popular_create(struct wn__popular **popularp)
{
	*popularp = wn__calloc(1, sizeof(**popularp));
	return *popularp ? 0 : ENOMEM;
}

void wn__popular_destroy(struct wn__popular *popular)
{
	free(popular);
}

bool wn__popular_samples(void)
{
	static _Thread_local uint32_t left, random;

	if (left > 0) {
		left--;
		return false;
	}
	random = random * UINT32_C(1664525) + UINT32_C(1013904223);
	left = (random >> 16) % (2 * EVERY - 1);
	return true;
}

double wn__popular_note(struct wn__popular *popular, struct wn_hash hash)
{
	atomic_uint_fast64_t *place = &popular->places[hash.lo % PLACES];
	uint64_t word = atomic_load_explicit(place, memory_order_relaxed);
	uint64_t tag = hash.hi >> COUNT_BITS << COUNT_BITS;
	uint64_t count = 1;

	if ((word ^ tag) >> COUNT_BITS == 0)
		count += word ^ tag;
	/* It goes on from half, and doubles again. */
	atomic_store_explicit(place, tag | (count == MAX_COUNT ? MAX_COUNT / 2 : count),
			      memory_order_relaxed);
	if (count == 1 || (count & (count - 1)) != 0)
		return 0;
	return EVERY * (count == 2 ? 2 : (double)count / 2);
}
