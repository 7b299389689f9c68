/* sscf_small.h - a seesaw counting filter for a few dozen to a few thousand keys, with four bytes
 * around it; of the family of small filters in tiny.h.
 *
 *	front      3 bytes: 22 bits of the secret's id, the upper 12 of them added, bit by bit, to
 *	           the filter's size (4,095 if it is more); both upper bits set
 *	cells      bits, as in the large form (sscf_cells.h)
 *	modulator  none, or a 32nd, 16th or 8th of the bytes between: cells of two bits
 *	size       2 bytes, the size's lower half, if it is 4,095 or more
 *	last byte  128, two bits for the modulator's share, two of variant, three of hashes - 3
 *
 * The size tells all else. That it is told by the front as well is for filters that were cut
 * off: half of all bytes would do as a last one, and bits in the wrong places deny keys.
 *
 * It is built against the absent keys that are known then, and does not learn afterwards. With so
 * few keys it is mostly enough to choose among four variants of the hash functions: one of them
 * makes no mistake. Where none is without, functions are modulated (sscf_build.c).
 *
 * Thread safety: bytes that do not change. */
#ifndef WN_KINDS_SSCF_SSCF_SMALL_H
#define WN_KINDS_SSCF_SSCF_SMALL_H

#include "sscf_frozen.h"
#include "kinds/aqf/aqf_small.h"

WN_BEGIN_DECLS

#define WN__SMALL_SSCF_LEAST_BITS 400 /* hundredths of a bit a key */
#define WN__SMALL_SSCF_MOST_BITS 1800

/* ---- asking ------------------------------------------------------------- */

/* May these be bytes of such a filter under this secret, whole or cut off? Of other filters
 * one in 4,096 looks like it. */
bool wn__small_sscf_claims(const unsigned char *bytes, size_t size, uint32_t secret_id);

/* Fills *frozenp, over the bytes. False: cut off, or under another secret. */
bool wn__small_sscf_open(const unsigned char *bytes, size_t size, uint32_t secret_id,
				  struct wn__sscf_frozen *frozenp);

bool wn__small_sscf_says_maybe(const struct wn__sscf_frozen *frozen, struct wn_hash hash);

/* The secret's id that a whole filter names. For tools; of WN__SMALL_LEAST_SIZE bytes or more. */
uint32_t wn__small_sscf_secret_id(const unsigned char *bytes, size_t size);

/* ---- building ----------------------------------------------------------- */

struct wn__small_sscf_negative {
	struct wn_hash hash;
	double cost; /* above 0 */
};

struct wn__small_sscf_parts {
	const struct wn_hash *hashes; /* ascending, no two equal */
	uint32_t count;               /* 1 to WN__SMALL_MAX_KEYS */
	unsigned bits;                /* hundredths of a bit a key, within the bounds above */
	uint32_t secret_id;
	/* Known absent keys in any order, which is changed. */
	struct wn__small_sscf_negative *negatives;
	size_t negative_count;
};

/* The bytes that the filter takes; 0: a parameter is out of range. */
size_t wn__small_sscf_size(uint32_t count, unsigned bits);

/* Into `size` bytes of wn__small_sscf_size(). Without memory the negatives are not heeded. How
 * many of them would be false positives otherwise, and are none. */
size_t wn__small_sscf_build(const struct wn__small_sscf_parts *parts,
				     unsigned char *bytes, size_t size);

WN_END_DECLS

#endif /* WN_KINDS_SSCF_SSCF_SMALL_H */
