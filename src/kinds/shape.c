/* shape.c - see shape.h. */
#include "kind.h"
#include "shape.h"

bool wn__shape_is_valid(struct wn__shape shape)
{
	if (shape.slots < 1 || shape.slots > WN__SHAPE_MAX_SLOTS ||
	    shape.remainder_bits < WN__SHAPE_MIN_REMAINDER_BITS ||
	    shape.remainder_bits > WN__SHAPE_MAX_REMAINDER_BITS)
		return false;
	/* A minirun's number must fit in 64 bits, with one left that is none. */
	return shape.slots <= UINT64_MAX >> shape.remainder_bits;
}

struct wn__shape wn__block_shape(const struct wn_block_info *info, const struct wn__kind *kind)
{
	struct wn__shape shape = {
		.slots = info->key_count ? info->key_count : 1,
		.remainder_bits = WN__PLAIN_REMAINDER_BITS,
	};

	if (kind->shape)
		kind->shape(info, &shape);
	return shape;
}

uint64_t wn__slots_for_lessons(uint64_t slots, unsigned remainder_bits)
{
	if (remainder_bits + WN__PIECE_BITS > 64)
		return slots;
	while ((unsigned)__builtin_ctzll(slots) > 64 - WN__PIECE_BITS - remainder_bits)
		slots++;
	return slots;
}
