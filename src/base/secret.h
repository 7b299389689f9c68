/* secret.h - the inside of a secret, for code that hashes on the read path. */
#ifndef WN_BASE_SECRET_H
#define WN_BASE_SECRET_H

/* Inlined, so that a lookup hashes its key without a call through the dynamic
 * linker's table. The values are those of the shared library. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <winnow/hash.h>

#if XXH_VERSION_NUMBER < 801
#error "xxHash 0.8.1 or later is needed: the secret is derived differently before"
#endif

#define WN__SECRET_SIZE 192

struct wn_secret {
	unsigned char bytes[WN__SECRET_SIZE]; /* first: starts on a cache line */
	unsigned char seed[WN_SEED_SIZE];
	uint32_t id;
};

static inline struct wn_hash wn__hash_key(const struct wn_secret *secret, const void *key,
					  size_t size)
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(key, size, secret->bytes, WN__SECRET_SIZE);
	uint64_t hi = hash.high64, lo = hash.low64;

	/* Keep them in registers. Left alone, gcc 12 swaps the halves through memory: two
	 * stores and a wider load that must wait for both, 20 ns a lookup (bench_filters). */
	__asm__("" : "+r"(hi), "+r"(lo));
	return (struct wn_hash){ .hi = hi, .lo = lo };
}

/* The short id of the WN_SEED_SIZE bytes at `seed`. */
uint32_t wn__seed_id(const void *seed);

/* Fill `size` bytes from the system's random source; an errno if it fails. */
int wn__random(void *bytes, size_t size);

#endif /* WN_BASE_SECRET_H */
