/* bits.h - rank, select and 128-bit arithmetic for the quotient filters. */
#ifndef WN_BASE_BITS_H
#define WN_BASE_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include <winnow/hash.h>

#define WN__INLINE static inline __attribute__((always_inline))
#define WN__LIKELY(x) __builtin_expect(!!(x), 1)
#define WN__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A function that every lookup runs. Linkers put all of these side by side: a lookup that comes
 * from the host's code needs four pages of this library's, not seven. */
#define WN__HOT __attribute__((hot))

__extension__ typedef unsigned __int128 wn__u128;

/* Functions that exist twice, for CPUs with and without fast bit manipulation,
 * are written once as WN__INLINE bodies that take `fast` as a constant, and
 * instantiated in two outer functions, one of them marked WN__TARGET_FAST. */
#if defined(__x86_64__)
#define WN__HAVE_FAST 1
#define WN__TARGET_FAST __attribute__((target("popcnt,bmi,bmi2")))
#else
#define WN__HAVE_FAST 0
#define WN__TARGET_FAST
#endif

/* Is the WN__TARGET_FAST form safe and worth it here? */
static inline bool wn__cpu_is_fast(void)
{
#if WN__HAVE_FAST
	/* pdep is microcoded on the first two Zen generations: 100 cycles and more. */
	return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi") &&
	       __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") &&
	       !__builtin_cpu_is("znver2");
#else
	return false;
#endif
}

WN__INLINE unsigned wn__popcount(uint64_t word)
{
	return (unsigned)__builtin_popcountll(word);
}

/* The lowest `count` bits, 0 to 64. */
WN__INLINE uint64_t wn__low_bits(unsigned count)
{
	return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

/* The same for 0 to 63: one instruction on a fast CPU. */
WN__INLINE uint64_t wn__lower_bits(unsigned count)
{
	return (UINT64_C(1) << count) - 1;
}

/* Position of the lowest set bit; 64 if there is none. */
WN__INLINE unsigned wn__lowest_bit(uint64_t word, bool fast)
{
#if WN__HAVE_FAST
	if (fast) {
		uint64_t position;

		/* __builtin_ctzll() of 0 is undefined, and gcc 12 guards against it. */
		__asm__("tzcntq %1, %0" : "=r"(position) : "r"(word) : "cc");
		return (unsigned)position;
	}
#endif
	(void)fast;
	return word ? (unsigned)__builtin_ctzll(word) : 64;
}

/* Byte i: how many bits are set in bytes 0 to i. */
WN__INLINE uint64_t wn__byte_sums(uint64_t word)
{
	uint64_t pairs = word - (word >> 1 & UINT64_C(0x5555555555555555));
	uint64_t fours = (pairs & UINT64_C(0x3333333333333333)) +
			 (pairs >> 2 & UINT64_C(0x3333333333333333));

	return ((fours + (fours >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) *
	       UINT64_C(0x0101010101010101);
}

/* As wn__popcount(), which is a call of the compiler's library where the CPU is not a fast one. */
WN__INLINE unsigned wn__count_bits(uint64_t word, bool fast)
{
	return fast ? wn__popcount(word) : (unsigned)(wn__byte_sums(word) >> 56);
}

/* Eight numbers in the bytes of a word, each at most 64 and none below the one before: how many of
 * them are at most `index`, 0 to 63? */
WN__INLINE unsigned wn__bytes_up_to(uint64_t bytes, unsigned index)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
	/* No byte borrows from the next: 128 + index is more than 64. */
	uint64_t passed = ((index * ones | tops) - bytes) & tops;

	return (unsigned)((passed >> 7) * ones >> 56);
}

/* Position of the set bit with `index` set bits below it; 64 if there is none. First the byte it is
 * in, by the sums of the bytes' set bits, then the place in it, by those of its bits. No branch but
 * one that is never taken: six halvings with a branch each took a lookup 37 ns more. */
WN__INLINE unsigned wn__select_portable(uint64_t word, unsigned index)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t sums = wn__byte_sums(word), bits;
	unsigned base;

	if (index >= sums >> 56)
		return 64;
	base = 8 * wn__bytes_up_to(sums, index);
	index -= (unsigned)(sums << 8 >> base & 0xff);
	/* Byte i is 1 if bit i of the byte is set. */
	bits = (word >> base & 0xff) * ones & UINT64_C(0x8040201008040201);
	bits = (bits + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & ones;
	return base + wn__bytes_up_to(bits * ones, index);
}

/* Zeros above the highest 1; 64 if there is none. */
WN__INLINE unsigned wn__leading_zeros(uint64_t word, bool fast)
{
#if WN__HAVE_FAST
	if (fast) {
		uint64_t zeros;

		__asm__("lzcntq %1, %0" : "=r"(zeros) : "r"(word) : "cc");
		return (unsigned)zeros;
	}
#endif
	(void)fast;
	return word ? (unsigned)__builtin_clzll(word) : 64;
}

WN__INLINE unsigned wn__select(uint64_t word, unsigned index, bool fast)
{
#if WN__HAVE_FAST
	if (fast) {
		uint64_t spread;

		__asm__("pdepq %2, %1, %0" : "=r"(spread) : "r"(UINT64_C(1) << index), "r"(word));
		return wn__lowest_bit(spread, fast);
	}
#endif
	(void)fast;
	return wn__select_portable(word, index);
}

/* A hash under a number of slots: its upper half times `slots` has the quotient as its integer
 * part, and the bits behind the point are the remainder, then the extensions. Behind the last of
 * them that can be 1 (the product ends in as many zeros as `slots` does) comes the lower half, as
 * it is. Two hashes with one quotient differ in their fractions, and the order is that of the
 * hashes. Twice as many slots move the fraction by one bit, all 128 of it. */
struct wn__fingerprint {
	uint64_t quotient;
	uint64_t hi, lo; /* the fraction */
};

WN__INLINE struct wn__fingerprint wn__split(struct wn_hash hash, uint64_t slots)
{
	wn__u128 product = (wn__u128)hash.hi * slots;
	unsigned zeros = (unsigned)__builtin_ctzll(slots);

	return (struct wn__fingerprint){
		.quotient = (uint64_t)(product >> 64),
		.hi = (uint64_t)product | hash.lo >> 1 >> (63 - zeros),
		.lo = hash.lo << zeros,
	};
}

/* The minirun of a hash: quotient and remainder in one number, floor of the upper half times
 * slots * 2^remainder_bits, which is less than 2^64. So the lower half has no part in it. */
WN__INLINE uint64_t wn__hash_minirun(struct wn_hash hash, uint64_t slots, unsigned remainder_bits)
{
	return (uint64_t)((wn__u128)hash.hi * (slots << remainder_bits) >> 64);
}

/* Bits [at, at + width) of the fraction, counted from its first bit; bits past
 * the 128th read as 0. 1 <= width <= 63. */
WN__INLINE uint64_t wn__fraction_bits(uint64_t hi, uint64_t lo, unsigned at, unsigned width)
{
	wn__u128 fraction = (wn__u128)hi << 64 | lo;

	if (at >= 128)
		return 0;
	return (uint64_t)((fraction << at) >> (128 - width));
}

/* How many leading bits two fractions share, up to 128. */
static inline unsigned wn__common_prefix(uint64_t ahi, uint64_t alo, uint64_t bhi, uint64_t blo)
{
	if (ahi != bhi)
		return (unsigned)__builtin_clzll(ahi ^ bhi);
	if (alo != blo)
		return 64 + (unsigned)__builtin_clzll(alo ^ blo);
	return 128;
}

#endif /* WN_BASE_BITS_H */
