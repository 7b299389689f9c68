/* aqf_small.h - the small form of the adaptive quotient filter, within the frame of small.h.
 *
 * It is the quotient filter without the slots: hash * buckets has the quotient as its integer
 * part, and the first bits behind the point are the remainder. The keys' fingerprints in order are
 *
 *	directory  for every 64 buckets but the first, how many keys stand before them: one byte,
 *	           less what is expected; four bytes, as it is, with more than 4,096 buckets
 *	unary      a 0, and for each bucket a 1 for each of its keys and a 0
 *	...        unused bits
 *	remainders the first key's last: key k's end k * remainder_bits before the last byte
 *	last byte  its lower four bits: remainder_bits - 1; the other three are 0
 *
 * Neither the number of keys nor that of buckets is written: the size tells the buckets, and the
 * 0s separate the keys.
 *
 * Thread safety: bytes that do not change. */
#ifndef WN_KINDS_AQF_AQF_SMALL_H
#define WN_KINDS_AQF_AQF_SMALL_H

#include "base/bits.h"
#include "base/bytes.h"
#include "kinds/kind.h"
#include "kinds/small.h"

#define WN__AQF_SMALL_MIN_REMAINDER 2 /* what a config can say */
#define WN__AQF_SMALL_MAX_REMAINDER 16
#define WN__AQF_SMALL_BYTE_DIRECTORY 4096 /* buckets; above, an entry has four bytes */
#define WN__AQF_SMALL_UNKNOWN (-128)      /* more or fewer keys than a byte can say */
#define WN__AQF_SMALL_EXPECTED 48         /* keys in 64 buckets */

struct wn__aqf_small {
	const unsigned char *bytes;
	size_t size;     /* of all */
	size_t start;    /* of the directory */
	size_t end;      /* of the remainders */
	size_t unary_at; /* its first byte */
	uint32_t buckets;
	unsigned remainder_bits;
	bool is_wide; /* the directory has four bytes an entry */
};

/* ---- what every function agrees on -------------------------------------- */

/* A little fewer than would make three keys in four buckets: the leading 0 wants room, too. */
WN__INLINE uint32_t wn__aqf_small_buckets(size_t payload, unsigned remainder_bits)
{
	/* 2^34 / (3 * remainder_bits + 7), rounded down. */
	static const uint64_t reciprocals[WN__AQF_SMALL_MAX_REMAINDER + 1] = {
		0, 1717986918, 1321528398, 1073741824, 904203641, 780903144,
		687194767, 613566756, 554189328, 505290270, 464320788, 429496729,
		399531841, 373475417, 350609575, 330382099, 312361257
	};

	return (uint32_t)((8 * (uint64_t)payload - 1) * reciprocals[remainder_bits] >> 32);
}

WN__INLINE bool wn__aqf_small_is_wide(uint32_t buckets)
{
	return buckets > WN__AQF_SMALL_BYTE_DIRECTORY;
}

WN__INLINE size_t wn__aqf_small_directory_size(uint32_t buckets)
{
	size_t entries = (buckets - 1) / 64;

	return wn__aqf_small_is_wide(buckets) ? 4 * entries : entries;
}

/* ---- asking ------------------------------------------------------------- */

/* Of a whole filter. False: it is damaged. `is_short`, a constant: it is known to have no size
 * field, and so at most 2,508 buckets. */
WN__INLINE bool wn__aqf_small_open_as(const unsigned char *bytes, size_t size, bool is_short,
				      struct wn__aqf_small *smallp)
{
	unsigned last = bytes[size - 1];
	uint32_t entries;

	smallp->bytes = bytes;
	smallp->size = size;
	smallp->start = is_short ? WN__SMALL_FRONT : wn__small_start(size);
	smallp->end = size - 1;
	smallp->remainder_bits = (last & 15) + 1;
	/* At least 3: there are WN__SMALL_LEAST_SIZE bytes. */
	smallp->buckets =
		wn__aqf_small_buckets(smallp->end - smallp->start, smallp->remainder_bits);
	entries = (smallp->buckets - 1) / 64;
	smallp->is_wide = !is_short && wn__aqf_small_is_wide(smallp->buckets);
	smallp->unary_at = smallp->start + (smallp->is_wide ? 4 * entries : entries);
	return !WN__UNLIKELY(last & 0x70);
}

WN__INLINE bool wn__aqf_small_open(const unsigned char *bytes, size_t size,
				   struct wn__aqf_small *smallp)
{
	return wn__aqf_small_open_as(bytes, size, false, smallp);
}

/* 64 bits from a byte on; the filter's end reads as zeros. */
WN__INLINE uint64_t wn__aqf_small_load(const struct wn__aqf_small *small, size_t at)
{
	if (WN__LIKELY(at + 8 <= small->size))
		return get_le64(small->bytes + at);
	if (at >= small->size)
		return 0;
	return get_le64(small->bytes + small->size - 8) >> 8 * (at + 8 - small->size);
}

/* Is there a fingerprint like the query's? Slow and exact; a damaged filter says "maybe". */
bool wn__aqf_small_search(const struct wn__aqf_small *small, struct wn_hash query);

enum wn__aqf_small_answer { WN__AQF_SMALL_NO, WN__AQF_SMALL_MAYBE, WN__AQF_SMALL_UNSURE };

/* From a word's top bit down there are fields of so many bits: the lowest bit of each. */
WN__INLINE uint64_t wn__aqf_small_fields(unsigned width)
{
	static const uint64_t lowest[WN__AQF_SMALL_MAX_REMAINDER + 1] = {
		0, 0xffffffffffffffff, 0x5555555555555555, 0x2492492492492492,
		0x1111111111111111, 0x0842108421084210, 0x0410410410410410, 0x0204081020408102,
		0x0101010101010101, 0x0080402010080402, 0x0040100401004010, 0x0020040080100200,
		0x0010010010010010, 0x0008004002001000, 0x0004001000400100, 0x0002000400080010,
		0x0001000100010001
	};

	return lowest[width];
}

/* The bit of the row where a block of 64 buckets begins, behind the 0 in front of its first one.
 * False: the directory does not know. */
WN__INLINE bool wn__aqf_small_block_start(const struct wn__aqf_small *small, uint32_t block,
					  uint32_t *startp)
{
	const unsigned char *directory = small->bytes + small->start;
	uint32_t not_first = 0 - ((0 - block) >> 31); /* all bits, or none */
	int32_t difference;

	if (WN__UNLIKELY(small->is_wide)) {
		*startp = 64 * block + (block ? get_le32(directory + 4 * (block - 1)) : 0);
		return true;
	}
	/* In front of the directory there is a byte, too: no branch for the first block. */
	difference = (signed char)directory[(ptrdiff_t)block - 1];
	*startp = (64 + WN__AQF_SMALL_EXPECTED) * block + ((uint32_t)difference & not_first);
	return difference != WN__AQF_SMALL_UNKNOWN;
}

/* Is the remainder among the first `bits` bits of the window, from the top down? All fields are
 * compared at once. */
WN__INLINE bool wn__aqf_small_has(uint64_t window, unsigned bits, uint64_t remainder,
				  unsigned width)
{
	uint64_t lowest = wn__aqf_small_fields(width), highest = lowest << (width - 1);
	uint64_t others = highest - lowest, differ = window ^ remainder * lowest;
	uint64_t unequal = ((differ & others) + others) | differ;

	return (highest & ~unequal & ~(UINT64_MAX >> bits)) != 0;
}

/* Quick and straight, and now and then unsure: ask wn__aqf_small_search() then. As in the large
 * filters (query.c), whether the bucket is empty is a toss of a coin, and no branch depends on
 * it; nor on which of two words it is in. Bytes that are damaged lead no further than those
 * checked for: a bucket's bit is at most 128 bits behind `at`. */
WN__INLINE enum wn__aqf_small_answer wn__aqf_small_ask(const struct wn__aqf_small *small,
						       struct wn_hash query, bool fast)
{
	wn__u128 product = (wn__u128)query.hi * small->buckets;
	uint32_t bucket = (uint32_t)(product >> 64), row = 8 * (uint32_t)small->unary_at;
	unsigned width = small->remainder_bits;
	uint64_t remainder = (uint64_t)product >> (64 - width), word, other_word;
	uint32_t start, at, bit, behind, run_bits, in_first;
	unsigned count, index;

	if (WN__UNLIKELY(!wn__aqf_small_block_start(small, bucket / 64, &start)))
		return WN__AQF_SMALL_UNSURE;
	start += row;
	at = start / 8;
	if (WN__UNLIKELY(at + 24 > small->size))
		return WN__AQF_SMALL_UNSURE;
	/* The bucket begins behind the 0 with this number, from the block's own first 0 on, in the
	 * first word or in the one behind it. */
	word = ~get_le64(small->bytes + at) >> start % 8;
	other_word = ~get_le64(small->bytes + at + 8);
	count = wn__popcount(word);
	index = bucket % 64 - count;
	in_first = 0 - (index >> 31); /* all bits, or none */
	__asm__("" : "+r"(in_first));
	word = other_word ^ ((word ^ other_word) & (uint64_t)(int32_t)in_first);
	index += count & in_first;
	bit = start + ((64 - start % 8) & ~in_first) + 1;
	index = wn__select(word, index & 63, fast);
	bit += index;
	/* A 1 for each of its keys. */
	run_bits = wn__lowest_bit(~(get_le64(small->bytes + bit / 8) >> bit % 8), fast) * width;
	/* The remainders, the bucket's first one at the top. */
	behind = (bit - row - bucket - 1) * width;
	if (WN__UNLIKELY(index >= 64 || run_bits > 57 || behind / 8 + 8 > small->end))
		return WN__AQF_SMALL_UNSURE;
	word = get_le64(small->bytes + small->end - 8 - behind / 8) << behind % 8;
	return wn__aqf_small_has(word, run_bits, remainder, width) ? WN__AQF_SMALL_MAYBE
								   : WN__AQF_SMALL_NO;
}

/* How many keys there are, and does every bit fit them? For tools and tests. */
bool wn__aqf_small_check(const struct wn__aqf_small *small, uint32_t *countp);

/* ---- the form ----------------------------------------------------------- */

/* The options of the kind (kind.c), by number. */
enum wn__aqf_option { WN__AQF_REMAINDER_BITS, WN__AQF_LOAD, WN__AQF_BITS_PER_KEY };

extern const struct wn__small_form wn__aqf_small_form;

#endif /* WN_KINDS_AQF_AQF_SMALL_H */
