/* pile.h - numbers of 64 bits that come in any order, and are then wanted in order, each once.
 *
 * They should be evenly spread, as hashes are; others cost time, not answers. Each number goes
 * straight to one of 256 buckets, by its first bits, so that sorting finds them grouped. */
#ifndef WN_BASE_PILE_H
#define WN_BASE_PILE_H

#include <winnow/common.h>

#include "bits.h"

/* Bytes, and their alignment: an address tells when a chunk is full. */
#define WN__PILE_CHUNK ((size_t)4096)
#define WN__PILE_BUCKETS 256

struct wn__pile_slab;

struct wn__pile {
	size_t count; /* what was added, repetitions in a row counted once */
	uint64_t last;
	unsigned shift; /* of a number's upper 32 bits, to the bucket: 32 for one bucket, or 24 */
	struct wn__pile_slab *slabs;
	size_t slab_count;
	size_t slab, chunk;    /* the next that is not in use */
	unsigned char *unused; /* chunks that have been in use */
	/* Where each bucket's next number goes: a multiple of the chunk's size if there is no
	 * room. A chunk begins with the address of the bucket's chunk before it. */
	uint64_t *at[WN__PILE_BUCKETS];
};

void wn__pile_init(struct wn__pile *pile);
void wn__pile_fini(struct wn__pile *pile);

/* Forget all numbers, keep the memory. */
void wn__pile_empty(struct wn__pile *pile);

/* Make room for this number in this bucket, which may not be its bucket any more. ENOMEM: nothing
 * is changed. */
int wn__pile_grow(struct wn__pile *pile, unsigned bucket, uint64_t number);

/* ENOMEM leaves the pile as it was. */
WN__INLINE int wn__pile_add(struct wn__pile *pile, uint64_t number)
{
	unsigned bucket = (unsigned)((number >> 32) >> pile->shift);

	if (number == pile->last && pile->count)
		return 0;
	if (WN__UNLIKELY(((uintptr_t)pile->at[bucket] & (WN__PILE_CHUNK - 1)) == 0)) {
		int err = wn__pile_grow(pile, bucket, number);

		if (err)
			return err;
		bucket = (unsigned)((number >> 32) >> pile->shift);
	}
	*pile->at[bucket]++ = number;
	pile->last = number;
	pile->count++;
	return 0;
}

/* A new array (free it with free()) of the numbers in ascending order, each once. The pile keeps
 * them. */
int wn__pile_sort(const struct wn__pile *pile, uint64_t **sortedp, size_t *countp);

#endif /* WN_BASE_PILE_H */
