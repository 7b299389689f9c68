/* hash_short.h - XXH3's 128 bits of short keys, with the secret's words prepared.
 *
 * The hashes are those of XXH3_128bits_withSecret(), to the bit; test_hash compares the two. What
 * the library computes from the secret for each key is computed once for each secret here, and
 * for keys of 9 to 16 bytes the lower half can be left for later: a filter that needs the upper
 * half to say "no" mostly needs no more.
 *
 * With a and b the first and the last 8 bytes of such a key (they overlap), and f and g two words
 * of the secret:
 *
 *	m      = (a ^ b ^ f) * PRIME64_1, 128 bits; its lower half + ((size - 1) << 54)
 *	c      = b ^ g
 *	m.hi  += c + (lower 32 bits of c) * (PRIME32_2 - 1)
 *	m.lo  ^= the bytes of m.hi, swapped
 *	h      = m * PRIME64_2, 128 bits of it; each half is then mixed (avalanche) by itself
 *
 * Constants stand in memory, beside the secret's words: as operands of the instructions that use
 * them they need no register and no instruction, of which a lookup in a large filter has too few
 * at a time. */
#ifndef WN_BASE_HASH_SHORT_H
#define WN_BASE_HASH_SHORT_H

#include <stddef.h>
#include <stdint.h>

#include <winnow/hash.h>

#include "bits.h"
#include "bytes.h"

#define WN__SHORT_MIN 9
#define WN__SHORT_MAX 16
#define WN__SHORT_SIZES (WN__SHORT_MAX - WN__SHORT_MIN + 1)

/* Two cache lines, of which keys of 16 bytes need the second only. */
struct wn__hash_words {
	/* 4 to 8 bytes. */
	uint64_t flip_word;
	/* 9 to 16 bytes. */
	uint64_t lengths[WN__SHORT_SIZES]; /* (size - 1) << 54 */
	uint64_t flip_low, flip_high;
	uint64_t prime1, prime2; /* PRIME64_1, PRIME64_2 */
	uint64_t prime32;        /* PRIME32_2 - 1 */
	uint64_t avalanche;
};

_Static_assert(offsetof(struct wn__hash_words, lengths[16 - WN__SHORT_MIN]) == 64 &&
		       sizeof(struct wn__hash_words) <= 128,
	       "what 16 bytes need is in the second line");

/* Fill them from the bytes of a secret. */
void wn__hash_words_init(struct wn__hash_words *words, const unsigned char *secret);

/* Keep a hash in registers. Left alone, gcc 12 moves its halves through memory as one: two stores
 * and a wider load that must wait for both, 20 ns a lookup (bench_filters); and it multiplies both
 * at once with instructions that cannot multiply 64 bits. */
WN__INLINE struct wn_hash wn__in_registers(struct wn_hash hash)
{
	__asm__("" : "+r"(hash.hi), "+r"(hash.lo));
	return hash;
}

WN__INLINE uint64_t wn__avalanche(uint64_t word, uint64_t factor)
{
	word ^= word >> 37;
	word *= factor;
	return word ^ word >> 32;
}

/* The hash of a key of 9 to 16 bytes, less wn__hash_finish(): the lower half is not mixed. */
WN__INLINE struct wn_hash wn__hash_short(const struct wn__hash_words *words,
					 const unsigned char *key, size_t size)
{
	uint64_t first = get_le64(key), last = get_le64(key + size - 8);
	uint64_t mixed = last ^ words->flip_high;
	wn__u128 product = (wn__u128)(first ^ last ^ words->flip_low) * words->prime1;
	uint64_t lo = (uint64_t)product + words->lengths[size - WN__SHORT_MIN];
	uint64_t hi = (uint64_t)(product >> 64) + mixed + (uint32_t)mixed * words->prime32;

	lo ^= __builtin_bswap64(hi);
	product = (wn__u128)lo * words->prime2;
	hi = hi * words->prime2 + (uint64_t)(product >> 64);
	return (struct wn_hash){wn__avalanche(hi, words->avalanche), (uint64_t)product};
}

WN__INLINE struct wn_hash wn__hash_finish(const struct wn__hash_words *words, struct wn_hash hash)
{
	hash = wn__in_registers(hash);
	hash.lo = wn__avalanche(hash.lo, words->avalanche);
	return wn__in_registers(hash);
}

#endif /* WN_BASE_HASH_SHORT_H */
