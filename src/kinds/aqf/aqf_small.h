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

WN__INLINE size_t wn__aqf_small_directory_size(uint32_t buckets)
{
	size_t entries = (buckets - 1) / 64;

	return buckets <= WN__AQF_SMALL_BYTE_DIRECTORY ? entries : 4 * entries;
}

/* ---- asking ------------------------------------------------------------- */

/* Of a whole filter. False: it is damaged. */
WN__INLINE bool wn__aqf_small_open(const unsigned char *bytes, size_t size,
				   struct wn__aqf_small *smallp)
{
	unsigned last = bytes[size - 1];

	smallp->bytes = bytes;
	smallp->size = size;
	smallp->start = wn__small_start(size);
	smallp->end = size - 1;
	smallp->remainder_bits = (last & 15) + 1;
	smallp->buckets =
		wn__aqf_small_buckets(smallp->end - smallp->start, smallp->remainder_bits);
	if (WN__UNLIKELY(smallp->buckets == 0 || (last & 0x70)))
		return false;
	smallp->unary_at = smallp->start + wn__aqf_small_directory_size(smallp->buckets);
	return smallp->unary_at < smallp->end;
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

/* Quick and straight, and now and then unsure: ask wn__aqf_small_search() then. As in the large
 * filters (query.c), whether the bucket is empty is a toss of a coin, and no branch depends on
 * it. */
WN__INLINE enum wn__aqf_small_answer wn__aqf_small_ask(const struct wn__aqf_small *small,
						       struct wn_hash query, bool fast)
{
	wn__u128 product = (wn__u128)query.hi * small->buckets;
	uint32_t bucket = (uint32_t)(product >> 64);
	unsigned width = small->remainder_bits;
	uint64_t remainder = (uint64_t)product >> (64 - width);
	uint64_t ones = wn__lower_bits(width);
	uint32_t block = bucket / 64;
	int64_t before = 0;
	size_t at, bit, start;
	uint64_t word, second_word, keys, window;
	unsigned count, index, shift;
	int64_t window_at;
	bool second, found;

	if (block) {
		if (WN__UNLIKELY(small->buckets > WN__AQF_SMALL_BYTE_DIRECTORY)) {
			before = get_le32(small->bytes + small->start + 4 * (block - 1));
		} else {
			int difference = (signed char)small->bytes[small->start + block - 1];

			if (WN__UNLIKELY(difference == WN__AQF_SMALL_UNKNOWN))
				return WN__AQF_SMALL_UNSURE;
			before = (int64_t)block * WN__AQF_SMALL_EXPECTED + difference;
		}
	}
	start = 8 * small->unary_at + 64 * (size_t)block + (size_t)before;
	at = start / 8;
	if (WN__UNLIKELY(at + 24 > small->size))
		return WN__AQF_SMALL_UNSURE;
	/* The bucket begins behind the 0 with this number, from the block's own first 0 on. */
	index = bucket % 64;
	shift = start % 8;
	word = ~get_le64(small->bytes + at) >> shift;
	second_word = ~get_le64(small->bytes + at + 8);
	count = wn__popcount(word);
	second = index >= count;
	index -= second ? count : 0;
	word = second ? second_word : word;
	bit = second ? 8 * at + 64 : start;
	index = wn__select(word, index & 63, fast);
	bit += index + 1;
	if (WN__UNLIKELY(index >= 64 || bit / 8 + 8 > small->size))
		return WN__AQF_SMALL_UNSURE;
	keys = get_le64(small->bytes + bit / 8) >> bit % 8;
	/* Three remainders at once: more keys than that are rare. */
	window_at = (int64_t)(8 * small->end) -
		    (int64_t)(bit - 8 * small->unary_at - bucket - 1 + 3) * width;
	if (WN__UNLIKELY(window_at < 0 || (keys & 15) == 15))
		return WN__AQF_SMALL_UNSURE;
	window = wn__aqf_small_load(small, (size_t)window_at / 8) >> window_at % 8;
	window ^= remainder | remainder << width | remainder << 2 * width;
	found = (((keys & 1) != 0) & ((window >> 2 * width & ones) == 0)) |
		(((keys & 3) == 3) & ((window >> width & ones) == 0)) |
		(((keys & 7) == 7) & ((window & ones) == 0));
	return found ? WN__AQF_SMALL_MAYBE : WN__AQF_SMALL_NO;
}

/* How many keys there are, and does every bit fit them? For tools and tests. */
bool wn__aqf_small_check(const struct wn__aqf_small *small, uint32_t *countp);

/* ---- the form ----------------------------------------------------------- */

/* The options of the kind (kind.c), by number. */
enum wn__aqf_option { WN__AQF_REMAINDER_BITS, WN__AQF_LOAD, WN__AQF_BITS_PER_KEY };

extern const struct wn__small_form wn__aqf_small_form;

#endif /* WN_KINDS_AQF_AQF_SMALL_H */
