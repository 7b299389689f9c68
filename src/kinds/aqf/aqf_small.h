/* aqf_small.h - a quotient filter for a few dozen to a few thousand keys, with four bytes around it.
 *
 * LevelDB makes a filter for every data block. The form is that of the adaptive quotient filter
 * without the slots: hash * buckets has the quotient as its integer part, and the first bits
 * behind the point are the remainder. The keys' fingerprints in order are
 *
 *	front      3 bytes: 22 bits of the secret's id, "may not learn", a bit for another kind
 *	directory  for every 64 buckets but the first, how many keys stand before them: one byte,
 *	           less what is expected; four bytes, as it is, with more than 4,096 buckets
 *	unary      a 0, and for each bucket a 1 for each of its keys and a 0
 *	...        unused bits
 *	remainders the first key's last: key k's end k * remainder_bits before the end
 *	digest     8 bytes of the keys' digest if there are few keys or many
 *	last byte  128, 64 if there is a digest, two bits of salt, remainder_bits - 1
 *
 * Neither the number of keys nor that of buckets is written: the size tells the buckets, and the
 * 0s separate the keys. The last byte is more than 30: LevelDB's own filters take such a filter
 * for one of a later version and say "maybe". The secret's id stands in front, so that a filter
 * that was cut off is not taken for one of LevelDB's.
 *
 * What such a filter learns lies beside it (tiny_lessons.h), under its id: the hash of its bytes.
 * Two filters with one id must therefore have the same keys. Digest and salt are there for that;
 * whoever builds filters that learn has to see to it (reversemap/packs.h).
 *
 * Thread safety: bytes that do not change. */
#ifndef WN_KINDS_AQF_AQF_SMALL_H
#define WN_KINDS_AQF_AQF_SMALL_H

#include <winnow/common.h>
#include <winnow/hash.h>

#include "base/bits.h"
#include "base/bytes.h"

WN_BEGIN_DECLS

#define WN__SMALL_FRONT 3
#define WN__SMALL_ID_BITS 22
#define WN__SMALL_SECRET_MASK ((UINT32_C(1) << WN__SMALL_ID_BITS) - 1)
#define WN__SMALL_FROZEN (UINT32_C(1) << 22) /* may not learn: its id was not watched over */
#define WN__SMALL_OTHER (UINT32_C(1) << 23)  /* another kind: tiny_sscf.h */
#define WN__SMALL_LAST 0x80
#define WN__SMALL_DIGESTED 0x40
#define WN__SMALL_DIGEST_SIZE 8
#define WN__SMALL_SALTS 4
#define WN__SMALL_LEAST_SIZE 13
#define WN__SMALL_MAX_REMAINDER 16
#define WN__SMALL_MAX_KEYS (UINT32_C(1) << 24)
#define WN__SMALL_SMALL_DIRECTORY 4096 /* buckets; above, an entry has four bytes */
#define WN__SMALL_UNKNOWN (-128)       /* more or fewer keys than a byte can say */
#define WN__SMALL_EXPECTED 48          /* keys in 64 buckets */

/* The id of a filter that may learn. */
struct wn__small_id {
	uint64_t lo, hi;
};

struct wn__small {
	const unsigned char *bytes;
	size_t size;     /* of all */
	size_t end;      /* of the remainders */
	size_t unary_at; /* its first byte */
	uint32_t buckets;
	unsigned remainder_bits;
};

/* ---- what every function agrees on -------------------------------------- */

/* A little fewer than would make three keys in four buckets: the leading 0 wants room, too. */
WN__INLINE uint32_t wn__small_buckets(size_t payload, unsigned remainder_bits)
{
	/* 2^34 / (3 * remainder_bits + 7), rounded down. */
	static const uint64_t reciprocals[WN__SMALL_MAX_REMAINDER + 1] = {
		0, 1717986918, 1321528398, 1073741824, 904203641, 780903144,
		687194767, 613566756, 554189328, 505290270, 464320788, 429496729,
		399531841, 373475417, 350609575, 330382099, 312361257
	};

	return (uint32_t)((8 * (uint64_t)payload - 1) * reciprocals[remainder_bits] >> 32);
}

WN__INLINE size_t wn__small_directory_size(uint32_t buckets)
{
	size_t entries = (buckets - 1) / 64;

	return buckets <= WN__SMALL_SMALL_DIRECTORY ? entries : 4 * entries;
}

/* ---- asking ------------------------------------------------------------- */

/* Is this a filter of ours under the secret with this id? Such as were cut off, too: they say
 * "maybe". *wholep: it can be asked. */
WN__INLINE bool wn__small_claims(const unsigned char *bytes, size_t size, uint32_t secret_id,
				bool *wholep)
{
	uint32_t front;

	*wholep = false;
	if (size < WN__SMALL_LEAST_SIZE)
		return true;
	front = get_le32(bytes) & 0xffffff;
	if ((front & WN__SMALL_SECRET_MASK) != (secret_id & WN__SMALL_SECRET_MASK))
		return bytes[size - 1] > 30;
	*wholep = bytes[size - 1] >= WN__SMALL_LAST && !(front & WN__SMALL_OTHER);
	return true;
}

/* After wn__small_claims(). False: it is damaged. */
WN__INLINE bool wn__small_open(const unsigned char *bytes, size_t size, struct wn__small *tinyp)
{
	unsigned last = bytes[size - 1];
	size_t end = size - 1 - (last & WN__SMALL_DIGESTED ? WN__SMALL_DIGEST_SIZE : 0);

	tinyp->bytes = bytes;
	tinyp->size = size;
	tinyp->end = end;
	tinyp->remainder_bits = (last & 15) + 1;
	/* Longer ones are not built, and would wrap. */
	if (WN__UNLIKELY(size >> 28 != 0))
		return false;
	tinyp->buckets = wn__small_buckets(end - WN__SMALL_FRONT, tinyp->remainder_bits);
	if (WN__UNLIKELY(tinyp->buckets == 0))
		return false;
	tinyp->unary_at = WN__SMALL_FRONT + wn__small_directory_size(tinyp->buckets);
	return tinyp->unary_at < end;
}

WN__INLINE bool wn__small_learns(const struct wn__small *tiny)
{
	return !(get_le32(tiny->bytes) & WN__SMALL_FROZEN);
}

/* 64 bits from a byte on; the filter's end reads as zeros. */
WN__INLINE uint64_t wn__small_load(const struct wn__small *tiny, size_t at)
{
	if (WN__LIKELY(at + 8 <= tiny->size))
		return get_le64(tiny->bytes + at);
	if (at >= tiny->size)
		return 0;
	return get_le64(tiny->bytes + tiny->size - 8) >> 8 * (at + 8 - tiny->size);
}

/* Which keys are in the query's bucket? Slow and always right; false: the filter is damaged. */
bool wn__small_find_bucket(const struct wn__small *tiny, uint32_t bucket,
				    uint32_t *firstp, uint32_t *countp);

/* The keys, by their number in the order of hashes, whose fingerprint is the query's: up to
 * `room` of them. The number of all, or -1: the filter is damaged, and says "maybe". */
int wn__small_matches(const struct wn__small *tiny, struct wn_hash query,
			       uint32_t *indexes, int room);

/* Is "no" certain? Quick and straight, and now and then false where it could have been true:
 * ask wn__small_matches() then. As in the large filters (aqf_query.c), whether the bucket is
 * empty is a toss of a coin, and no branch depends on it. */
WN__INLINE bool wn__small_refuses(const struct wn__small *tiny, struct wn_hash query, bool fast)
{
	wn__u128 product = (wn__u128)query.hi * tiny->buckets;
	uint32_t bucket = (uint32_t)(product >> 64);
	unsigned width = tiny->remainder_bits;
	uint64_t remainder = (uint64_t)product >> (64 - width);
	uint64_t ones = wn__lower_bits(width);
	uint32_t block = bucket / 64;
	int64_t before = 0;
	size_t at, bit, start;
	uint64_t word, second_word, keys, window;
	unsigned count, index, shift;
	int64_t window_at;
	bool second;

	if (block) {
		if (WN__UNLIKELY(tiny->buckets > WN__SMALL_SMALL_DIRECTORY)) {
			before = get_le32(tiny->bytes + WN__SMALL_FRONT + 4 * (block - 1));
		} else {
			int difference = (signed char)tiny->bytes[WN__SMALL_FRONT + block - 1];

			if (WN__UNLIKELY(difference == WN__SMALL_UNKNOWN))
				return false;
			before = (int64_t)block * WN__SMALL_EXPECTED + difference;
		}
	}
	start = 8 * tiny->unary_at + 64 * (size_t)block + (size_t)before;
	at = start / 8;
	if (WN__UNLIKELY(at + 24 > tiny->size))
		return false;
	/* The bucket begins behind the 0 with this number, from the block's own first 0 on. */
	index = bucket % 64;
	shift = start % 8;
	word = ~get_le64(tiny->bytes + at) >> shift;
	second_word = ~get_le64(tiny->bytes + at + 8);
	count = wn__popcount(word);
	second = index >= count;
	index -= second ? count : 0;
	word = second ? second_word : word;
	bit = second ? 8 * at + 64 : start;
	index = wn__select(word, index & 63, fast);
	bit += index + 1;
	if (WN__UNLIKELY(index >= 64 || bit / 8 + 8 > tiny->size))
		return false;
	keys = get_le64(tiny->bytes + bit / 8) >> bit % 8;
	/* Three remainders at once: more keys than that are rare. */
	window_at = (int64_t)(8 * tiny->end) -
		    (int64_t)(bit - 8 * tiny->unary_at - bucket - 1 + 3) * width;
	if (WN__UNLIKELY(window_at < 0 || (keys & 15) == 15))
		return false;
	window = wn__small_load(tiny, (size_t)window_at / 8) >> window_at % 8;
	window ^= remainder | remainder << width | remainder << 2 * width;
	return !(((keys & 1) != 0) & ((window >> 2 * width & ones) == 0)) &
	       !(((keys & 3) == 3) & ((window >> width & ones) == 0)) &
	       !(((keys & 7) == 7) & ((window & ones) == 0));
}

/* The id under which the filter's lessons are found. */
struct wn__small_id wn__small_id(const unsigned char *bytes, size_t size);

/* ---- building ----------------------------------------------------------- */

struct wn__small_parts {
	const struct wn_hash *hashes; /* ascending, no two equal */
	uint32_t count;               /* 1 to WN__SMALL_MAX_KEYS */
	unsigned remainder_bits;      /* 1 to WN__SMALL_MAX_REMAINDER */
	uint32_t secret_id;           /* wn__secret_short_id() */
	bool frozen;                  /* may not learn */
	unsigned salt;                /* 0 to WN__SMALL_SALTS - 1 */
};

/* Put hashes in order, each once; how many are left. 0: no memory. */
size_t wn__small_sort(struct wn_hash *hashes, size_t count);

/* The bytes that the filter takes; 0: a parameter is out of range. */
size_t wn__small_size(uint32_t count, unsigned remainder_bits);
/* Into `size` bytes of wn__small_size(). */
void wn__small_build(const struct wn__small_parts *parts, unsigned char *bytes,
			      size_t size);

/* A digest of the keys, for telling sets of keys apart: no two by chance are alike. */
struct wn__small_id wn__small_keys_digest(const struct wn_hash *hashes, size_t count);

/* The short id of a secret, from its 32 bytes. */
uint32_t wn__small_secret_id(const struct wn_secret *secret);

/* How many keys there are, and does every bit fit them? For tools and tests. */
bool wn__small_check(const struct wn__small *tiny, uint32_t *countp);

WN_END_DECLS

#endif /* WN_KINDS_AQF_AQF_SMALL_H */
