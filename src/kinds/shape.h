/* shape.h - how a filter takes hashes apart: into quotient, remainder and what is behind it.
 *
 * A kind with fingerprints has the shape of its block. Every other filter has a *plain shape*:
 * its keys and every query fall into miniruns there, too, nearly always none into that of a
 * stored key. One false positive in 16 million shares its minirun with one; all others need one
 * lesson of 16 bytes, and nothing of any key's hash but its minirun. */
#ifndef WN_KINDS_SHAPE_H
#define WN_KINDS_SHAPE_H

#include <winnow/block.h>
#include <winnow/common.h>

struct wn__kind;

/* Part of every lesson that is saved. */
struct wn__shape {
	uint64_t slots;
	unsigned remainder_bits;
};

/* What shapes may be, of any kind: reverse map and lessons refuse others. */
#define WN__SHAPE_MAX_KEYS (UINT64_C(1) << 32)
#define WN__SHAPE_MAX_SLOTS (UINT64_C(1) << 40)
#define WN__SHAPE_MIN_REMAINDER_BITS 2
#define WN__SHAPE_MAX_REMAINDER_BITS 32
bool wn__shape_is_valid(struct wn__shape shape);

/* The bits of a stored key behind the remainder that one lesson holds (learn/lessons.h). */
#define WN__PIECE_BITS 42

/* Key lists keep upper halves, and each factor of two in the number of slots costs one of the bits
 * that these tell. As many slots as are asked for, or a few more, so that a whole piece is known;
 * with more than 22 remainder bits there is no such number, and a filter does not learn. */
uint64_t wn__slots_for_lessons(uint64_t slots, unsigned remainder_bits);

/* The plain shape of a filter in a block: a slot for each key, so many bits of remainder. */
#define WN__PLAIN_REMAINDER_BITS 24

/* That of a table of small filters, whose number of keys is not known while it is built: up to
 * 40 bits of the hash, exactly. Of 2^n keys one query in 2^(40 - n) meets one. */
#define WN__SMALL_SLOTS (UINT64_C(1) << 16)

/* Of a filter of this kind, from its block's header. */
struct wn__shape wn__block_shape(const struct wn_block_info *info, const struct wn__kind *kind);

#endif /* WN_KINDS_SHAPE_H */
