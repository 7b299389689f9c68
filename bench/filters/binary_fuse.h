/* binary_fuse.h - a 3-wise binary fuse filter (Graf and Lemire 2022), as a baseline.
 *
 * It needs all hashes at once, keeps a fingerprint of `width` bits for each, at 1.125 to 1.13
 * times the width a key for large sets, and says yes to 1 in 2^width of other keys. It stores no
 * fingerprint of any one key, so that it can neither learn nor be counted or merged. */
#ifndef BINARY_FUSE_H
#define BINARY_FUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BINARY_FUSE_MAX_WIDTH 16

/* Seeds tried; one succeeds more often than not. */
#define BINARY_FUSE_TRIES 32

struct binary_fuse {
	uint64_t seed;
	uint32_t segment;   /* its length, a power of two */
	uint32_t starts;    /* where a key's first cell may be: below this */
	uint32_t cells;
	unsigned width;
	const void *table;
	size_t bytes;       /* of the table */
};

/* Make *fusep of distinct hashes; free its table with binary_fuse_free(). False: no memory, or
 * no seed has worked. */
bool binary_fuse_build(const uint64_t *hashes, size_t count, unsigned width,
		       struct binary_fuse *fusep);
void binary_fuse_free(struct binary_fuse *fuse);

bool binary_fuse_query(const struct binary_fuse *fuse, uint64_t hash);

/* Up to 32 at once: the memory of all is fetched before the first is answered. */
void binary_fuse_query_batch(const struct binary_fuse *fuse, const uint64_t *hashes, size_t count,
			     bool *answersp);

#endif /* BINARY_FUSE_H */
