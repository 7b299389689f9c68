/* aqf_shift.c - moving slots and their metadata up and down by one.
 *
 * Whole words at a time: within a block the slots are one string of bits, so
 * moving a stretch of them is a shift with a mask at either end, and one slot is
 * carried from block to block. All stores are single relaxed words: a reader that
 * looks on sees old or new words in any mix, and finds out by the version. */
#include "aqf_internal.h"

static uint64_t load_at(const struct wn_aqf *aqf, uint64_t index)
{
	return wn__load(aqf->words + index);
}

/* Change the bits under `mask` of a word. */
static void blend(struct wn_aqf *aqf, uint64_t index, uint64_t mask, uint64_t bits)
{
	uint64_t *word = aqf->words + index;

	wn__store(word, (wn__load(word) & ~mask) | (bits & mask));
}

static uint64_t slots_index(const struct wn_aqf *aqf, uint64_t block)
{
	return block * aqf->table.block_words + aqf->table.meta_words;
}

void wn__set_slot(struct wn_aqf *aqf, uint64_t slot, uint64_t content)
{
	unsigned width = aqf->table.slot_bits;
	uint64_t bit = (slot & 63) * width;
	uint64_t index = slots_index(aqf, slot >> 6) + (bit >> 6);
	unsigned shift = bit & 63;
	uint64_t mask = wn__low_bits(width);

	blend(aqf, index, mask << shift, content << shift);
	if (shift + width > 64)
		blend(aqf, index + 1, mask >> (64 - shift), content >> (64 - shift));
}

void wn__set_meta(struct wn_aqf *aqf, unsigned which, uint64_t slot, bool on)
{
	uint64_t bit = UINT64_C(1) << (slot & 63);

	blend(aqf, (slot >> 6) * aqf->table.block_words + which, bit, on ? bit : 0);
}

/* Insert a slot's content at `first` of a block's, and move the slots [first, last) up by one.
 * What the slot `last` held, if that is the block's last. */
WN__INLINE uint64_t insert_content(const struct wn_aqf *aqf, uint64_t *slots, unsigned first,
				   unsigned last, uint64_t content)
{
	const unsigned width = aqf->table.slot_bits, rest = 64 - width;
	unsigned from = first * width, to = (last + 1) * width - 1;
	uint64_t *at = slots + (from >> 6);
	uint64_t *top = at + ((to >> 6) - (from >> 6));
	uint64_t below = wn__low_bits(from & 63), changed = wn__low_bits((to & 63) + 1);
	uint64_t word = wn__load(at);
	/* A word's bits with the new ones put in: what does not fit goes into the next. */
	wn__u128 moved = (wn__u128)(word & ~below) << width | (wn__u128)content << (from & 63);
	uint64_t next = (word & below) | (uint64_t)moved;
	uint64_t carry = (uint64_t)(moved >> 64);

	while (at < top) {
		wn__store(at, next);
		word = wn__load(++at);
		next = word << width | carry;
		carry = word >> rest;
	}
	wn__store(at, (word & ~changed) | (next & changed));
	return carry;
}

/* Within one block, slots (first, last]: each to the next place down. */
static void slots_down(struct wn_aqf *aqf, uint64_t block, unsigned first, unsigned last)
{
	unsigned width = aqf->table.slot_bits;
	unsigned from = first * width;
	unsigned to = last * width - 1;
	uint64_t base = slots_index(aqf, block);
	uint64_t at = base + (from >> 6), highest = base + (to >> 6);
	uint64_t mask = ~wn__low_bits(from & 63);
	uint64_t word;

	if (first == last)
		return;
	word = load_at(aqf, at);
	for (; at < highest; at++, mask = UINT64_MAX) {
		uint64_t above = load_at(aqf, at + 1);

		blend(aqf, at, mask, word >> width | above << (64 - width));
		word = above;
	}
	mask &= wn__low_bits((to & 63) + 1);
	if (at + 1 < base + width)
		blend(aqf, at, mask, word >> width | load_at(aqf, at + 1) << (64 - width));
	else
		blend(aqf, at, mask, word >> width);
}

static void meta_down(struct wn_aqf *aqf, uint64_t block, unsigned which, unsigned first,
		      unsigned last, bool carry)
{
	uint64_t index = block * aqf->table.block_words + which;
	uint64_t mask = wn__low_bits(last + 1) & ~wn__low_bits(first);
	uint64_t high = UINT64_C(1) << last;

	blend(aqf, index, mask, (load_at(aqf, index) >> 1 & ~high) | (carry ? high : 0));
}

static bool meta_bit(const struct wn_aqf *aqf, unsigned which, uint64_t slot)
{
	return wn__bit(load_at(aqf, (slot >> 6) * aqf->table.block_words + which), slot);
}

/* In a block of which all slots move up by one: `bits` are the first, and become what the last
 * one was. */
WN__INLINE void push_block(struct wn_aqf *aqf, uint64_t *base, struct wn__slot_bits *bits)
{
	const unsigned width = aqf->table.slot_bits, rest = 64 - width;
	uint64_t *at = base + aqf->table.meta_words, *end = at + width;
	uint64_t runends = wn__load(base + WN__RUNENDS);
	uint64_t extensions = wn__load(base + WN__EXTENSIONS);
	uint64_t carry = bits->content;

	wn__store(base + WN__RUNENDS, runends << 1 | bits->runend);
	wn__store(base + WN__EXTENSIONS, extensions << 1 | bits->extension);
	while (at < end) {
		uint64_t word = wn__load(at);

		wn__store(at++, word << width | carry);
		carry = word >> rest;
	}
	*bits = (struct wn__slot_bits){carry, runends >> 63, extensions >> 63};
}

/* In a block of which the slots [first, last) move up by one, and the one at `last` is lost or
 * comes out. */
WN__INLINE void push_slots(struct wn_aqf *aqf, uint64_t *base, unsigned first, unsigned last,
			   struct wn__slot_bits *bits)
{
	bits->content = insert_content(aqf, base + aqf->table.meta_words, first, last,
				       bits->content);
	bits->runend = wn__insert_bit(base + WN__RUNENDS, first, last, bits->runend);
	bits->extension = wn__insert_bit(base + WN__EXTENSIONS, first, last, bits->extension);
}

WN__INLINE void insert_slot(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t empty,
			    struct wn__slot_bits bits)
{
	uint64_t block = slot >> 6, top = empty >> 6;
	uint64_t *base = aqf->words + block * aqf->table.block_words;

	if (block == top) {
		push_slots(aqf, base, slot & 63, empty & 63, &bits);
	} else {
		push_slots(aqf, base, slot & 63, 63, &bits);
		for (base += aqf->table.block_words; ++block < top;
		     base += aqf->table.block_words)
			push_block(aqf, base, &bits);
		push_slots(aqf, base, 0, empty & 63, &bits);
	}
	for (block = (quotient >> 6) + 1; block <= top; block++)
		wn__raise_offset(aqf, block);
}

static void insert_slot_plain(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot,
			      uint64_t empty, struct wn__slot_bits bits)
{
	insert_slot(aqf, quotient, slot, empty, bits);
}

/* Shifts by a variable count are one instruction here, and three without. */
WN__TARGET_FAST static void insert_slot_fast(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot,
					     uint64_t empty, struct wn__slot_bits bits)
{
	insert_slot(aqf, quotient, slot, empty, bits);
}

void wn__insert_slot(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t empty,
		     struct wn__slot_bits bits)
{
	if (aqf->fast)
		insert_slot_fast(aqf, quotient, slot, empty, bits);
	else
		insert_slot_plain(aqf, quotient, slot, empty, bits);
}

/* The byte that stands for an offset. */
static uint8_t offset_code(uint64_t offset)
{
	return offset < WN__OFFSET_MANY ? (uint8_t)offset : WN__OFFSET_MANY;
}

void wn__close_gap(struct wn_aqf *aqf, uint64_t quotient, uint64_t slot, uint64_t stop)
{
	uint64_t highest = stop - 1;

	for (uint64_t block = slot >> 6; block <= highest >> 6; block++) {
		bool top = block == highest >> 6;
		unsigned first = block == slot >> 6 ? slot & 63 : 0;
		unsigned last = top ? highest & 63 : 63;
		uint64_t above = (block + 1) * 64; /* not used in the top block */

		slots_down(aqf, block, first, last);
		wn__set_slot(aqf, block * 64 + last,
			     top ? 0 : wn__slot(&aqf->table, above, true));
		meta_down(aqf, block, WN__RUNENDS, first, last,
			  !top && meta_bit(aqf, WN__RUNENDS, above));
		meta_down(aqf, block, WN__EXTENSIONS, first, last,
			  !top && meta_bit(aqf, WN__EXTENSIONS, above));
	}
	for (uint64_t block = (quotient >> 6) + 1; block <= highest >> 6; block++) {
		uint64_t lowest = UINT64_MAX;
		uint64_t offset = wn__offset_byte(&aqf->table, block);

		/* A full byte does not know what it stands for: ask anew. The slots
		 * have moved already, and the blocks before have their new offsets. */
		offset = offset < WN__OFFSET_MANY
				 ? offset - 1
				 : wn__exact_offset(&aqf->table, block, true, &lowest);
		__atomic_store_n(&aqf->offsets[block], offset_code(offset), __ATOMIC_RELAXED);
	}
}
