/* secret.h - the inside of a secret, for code that hashes on the read path. */
#ifndef WN_BASE_SECRET_H
#define WN_BASE_SECRET_H

/* Compiled in: the values are those of the shared library. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <winnow/hash.h>

#include "hash_short.h"

#if XXH_VERSION_NUMBER < 801
#error "xxHash 0.8.1 or later is needed: the secret is derived differently before"
#endif

#define WN__SECRET_SIZE 192

struct wn_secret {
	unsigned char bytes[WN__SECRET_SIZE]; /* first: starts on a cache line */
	unsigned char seed[WN_SEED_SIZE];
	uint32_t id;
	_Alignas(64) struct wn__hash_words words; /* two lines */
};

/* Each adapter has a copy of this code and is given secrets that libwinnow's copy has made. It
 * reads the seed of these, nothing else, and derives its own: the seed stays where it is, so that
 * the libraries need not be of one version. */
_Static_assert(offsetof(struct wn_secret, seed) == 192, "where the seed is belongs to the ABI");

/* The hash of a key that has not 9 to 16 bytes. */
struct wn_hash wn__hash_other(const struct wn_secret *secret, const void *key, size_t size);

static inline struct wn_hash wn__hash_key(const struct wn_secret *secret, const void *key,
					  size_t size)
{
	struct wn_hash hash;

	if (WN__LIKELY(size - WN__SHORT_MIN < WN__SHORT_SIZES))
		hash = wn__hash_finish(&secret->words, wn__hash_short(&secret->words, key, size));
	else
		hash = wn__hash_other(secret, key, size);
	return wn__in_registers(hash);
}

/* The short id of the WN_SEED_SIZE bytes at `seed`. */
uint32_t wn__seed_id(const void *seed);

/* Fill `size` bytes from the system's random source; an errno if it fails. */
int wn__random(void *bytes, size_t size);

#endif /* WN_BASE_SECRET_H */
