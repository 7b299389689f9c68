/* table.c - the shape of a table of slots, and the offsets of its blocks. */
#include <math.h>

#include <winnow/aqf.h>

#include "aqf_table.h"
#include "kinds/shape.h"

_Static_assert(WN_AQF_MIN_REMAINDER_BITS == WN__SHAPE_MIN_REMAINDER_BITS &&
		       WN_AQF_MAX_REMAINDER_BITS == WN__SHAPE_MAX_REMAINDER_BITS &&
		       WN_AQF_MAX_KEYS <= WN__SHAPE_MAX_KEYS,
	       "every shape that options can say has a reverse map");

uint64_t wn__aqf_slots_for(uint64_t keys, double load)
{
	uint64_t slots = (uint64_t)ceil((double)keys / load);

	return slots > keys ? slots : keys + 1;
}

bool wn__aqf_shape_is_valid(uint64_t slots, unsigned remainder_bits, unsigned extension_bits,
			    unsigned tag_bits)
{
	return tag_bits <= 1 && extension_bits >= WN_AQF_MIN_REMAINDER_BITS &&
	       extension_bits <= WN_AQF_MAX_REMAINDER_BITS &&
	       wn__shape_is_valid((struct wn__shape){slots, remainder_bits});
}

void wn__table_shape(struct wn__table *table, uint64_t slots, uint64_t blocks,
		     unsigned remainder_bits, unsigned extension_bits, unsigned tag_bits,
		     bool extensions)
{
	unsigned widest = remainder_bits > extension_bits ? remainder_bits : extension_bits;
	unsigned slot_bits = widest + tag_bits;

	*table = (struct wn__table){
		.slots = slots,
		.blocks = blocks,
		.meta_words = extensions ? 3 : 2,
		.slot_bits = (uint8_t)slot_bits,
		.remainder_bits = (uint8_t)remainder_bits,
		.extension_bits = (uint8_t)extension_bits,
		.tag_bits = (uint8_t)tag_bits,
		.lanes = (uint8_t)(WN__WINDOW_BITS / slot_bits),
		.remainder_shift = (uint8_t)(64 - remainder_bits),
	};
	table->block_words = table->meta_words + slot_bits;
	table->glance_slots = (blocks - 1) * 64;
	for (unsigned lane = 0; lane < table->lanes; lane++)
		table->lane_ones |= UINT64_C(1) << (lane * slot_bits);
	table->lane_tops = table->lane_ones << (slot_bits - 1);
	table->lane_clean = tag_bits ? ~table->lane_ones : UINT64_MAX;
}

uint64_t wn__exact_offset(const struct wn__table *table, uint64_t block, bool live,
			  uint64_t *lowestp)
{
	uint64_t at = block;
	uint64_t offset;

	while (at > 0 && wn__offset_byte(table, at) == WN__OFFSET_MANY)
		at--;
	if (at < *lowestp)
		*lowestp = at;
	offset = at > 0 ? wn__offset_byte(table, at) : 0;
	for (; at < block; at++) {
		unsigned map = wn__popcount(wn__meta(table, at, WN__OCCUPIEDS, live));
		uint64_t end = at * 64 + offset;

		if (map > 0)
			end = wn__skip_runs(table, end, map, live, false);
		offset = end > (at + 1) * 64 ? end - (at + 1) * 64 : 0;
	}
	return offset;
}
