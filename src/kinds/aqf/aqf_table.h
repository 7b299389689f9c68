/* aqf_table.h - the slots of a quotient filter, and how to find one's way in them.
 *
 * Physical layout, living and frozen alike: slots in blocks of 64, each block
 * a row of 64-bit words
 *
 *     occupieds | runends | extensions | slot_bits words of slots
 *
 * (the extensions word is missing when meta_words is 2: a frozen filter without
 * extensions and counters), and beside the blocks one offset byte a block. The
 * metadata is that of section 3.2 and 4.2 of the AdaptiveQF paper:
 *
 *  - occupieds: bit i says that some fingerprint has quotient 64 * block + i;
 *  - a run's fingerprints stand one after the other, sorted by remainder, the
 *    first at its quotient's slot or as soon after it as there is room;
 *  - a fingerprint is its remainder's slot, then its extension slots, then its
 *    counter slots. Extension and counter slots have the extensions bit; the
 *    runends bit tells a counter slot (1) from an extension slot (0);
 *  - the runends bit of a remainder's slot says that the run's last fingerprint
 *    starts here. So only `runends & ~extensions` ends runs: counting the
 *    others in is how published code loses keys;
 *  - offset: how many slots from the block's first on hold fingerprints of
 *    smaller blocks' quotients. WN__OFFSET_MANY means "at least that many":
 *    the exact number is then found from the blocks before. A byte that wraps
 *    around is the other way published code loses keys.
 *
 * Living tables are read and written as aligned native words with relaxed
 * atomics, under the protocol of aqf_lock.h. Frozen ones are bytes anywhere in
 * memory, little-endian, and never change. Everything here is written once for
 * both; `live` and `fast` are constants at every call. Whatever the words hold,
 * no function reads outside the table: frozen tables may come from a file that
 * nobody has checked. */
#ifndef WN_KINDS_AQF_AQF_TABLE_H
#define WN_KINDS_AQF_AQF_TABLE_H

#include "base/bits.h"
#include "base/bytes.h"

#define WN__OFFSET_MANY 255
#define WN__NO_SLOT UINT64_MAX
#define WN__WINDOW_BITS 57

enum { WN__OCCUPIEDS, WN__RUNENDS, WN__EXTENSIONS };

struct wn__table {
	const unsigned char *words;
	const unsigned char *offsets;
	uint64_t slots;  /* quotients are below this */
	uint64_t blocks; /* 64 * blocks >= slots: the rest takes what spills over */
	uint64_t glance_slots; /* quotients in all blocks but the last */
	uint32_t block_words;
	uint8_t meta_words;
	uint8_t slot_bits; /* max(remainder_bits, extension_bits) + tag_bits */
	uint8_t remainder_bits;
	uint8_t extension_bits;
	uint8_t tag_bits;
	/* As many slots as fit in a window are compared at once: */
	uint8_t lanes;
	uint8_t remainder_shift; /* 64 - remainder_bits */
	uint64_t lane_ones;  /* the lowest bit of each lane */
	uint64_t lane_tops;  /* the highest */
	uint64_t lane_clean; /* all but the tags */
};

/* Slots for a number of keys at a load; never 0. */
uint64_t wn__aqf_slots_for(uint64_t keys, double load);

/* Are these parameters within the limits? */
bool wn__aqf_shape_is_valid(uint64_t slots, unsigned remainder_bits, unsigned extension_bits,
			    unsigned tag_bits);

/* Fill in all but the two pointers. The parameters have been checked. */
void wn__table_shape(struct wn__table *table, uint64_t slots, uint64_t blocks,
		     unsigned remainder_bits, unsigned extension_bits, unsigned tag_bits,
		     bool extensions);

WN__INLINE uint64_t wn__physical_slots(const struct wn__table *table)
{
	return table->blocks * 64;
}

/* ---- words and slots ---------------------------------------------------- */

WN__INLINE uint64_t wn__word(const struct wn__table *table, uint64_t index, bool live)
{
	const unsigned char *at = table->words + index * 8;

	if (live)
		return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
	return get_le64(at);
}

WN__INLINE uint64_t wn__meta(const struct wn__table *table, uint64_t block, unsigned which,
			     bool live)
{
	return wn__word(table, block * table->block_words + which, live);
}

WN__INLINE uint64_t wn__extensions(const struct wn__table *table, uint64_t block, bool live)
{
	return table->meta_words == 3 ? wn__meta(table, block, WN__EXTENSIONS, live) : 0;
}

/* The runends that end runs. */
WN__INLINE uint64_t wn__true_runends(const struct wn__table *table, uint64_t block, bool live)
{
	return wn__meta(table, block, WN__RUNENDS, live) & ~wn__extensions(table, block, live);
}

WN__INLINE unsigned wn__offset_byte(const struct wn__table *table, uint64_t block)
{
	return __atomic_load_n(table->offsets + block, __ATOMIC_RELAXED);
}

WN__INLINE bool wn__bit(uint64_t word, uint64_t slot)
{
	return word >> (slot & 63) & 1;
}

/* What a block has from one of its slots on, in the lowest WN__WINDOW_BITS bits at
 * least; behind the block's end comes whatever is next in memory (a word is always
 * there: tables are padded). `base` is the index of the block's first word. */
WN__INLINE uint64_t wn__window_at(const struct wn__table *table, uint64_t base, uint64_t slot,
				  bool live)
{
	uint64_t bit = slot * table->slot_bits;
	uint64_t index = base + table->meta_words;
	unsigned shift = bit & 63;

	if (!live)
		return get_le64(table->words + index * 8 + (bit >> 3)) >> (bit & 7);
	index += bit >> 6;
	return wn__word(table, index, live) >> shift |
	       wn__word(table, index + 1, live) << 1 << (63 - shift);
}

WN__INLINE uint64_t wn__slot_window(const struct wn__table *table, uint64_t slot, bool live)
{
	return wn__window_at(table, (slot >> 6) * table->block_words, slot & 63, live);
}

/* The slot's content: a remainder (tag included), an extension or a digit. */
WN__INLINE uint64_t wn__slot(const struct wn__table *table, uint64_t slot, bool live)
{
	return wn__slot_window(table, slot, live) & wn__low_bits(table->slot_bits);
}

WN__INLINE uint64_t wn__remainder_of(const struct wn__table *table, struct wn__fingerprint print)
{
	return print.hi >> table->remainder_shift;
}

WN__INLINE uint64_t wn__minirun_of(const struct wn__table *table, struct wn__fingerprint print)
{
	return print.quotient << table->remainder_bits | wn__remainder_of(table, print);
}

/* The bits that extension `index` of a fraction holds. */
WN__INLINE uint64_t wn__extension_of(const struct wn__table *table, uint64_t hi, uint64_t lo,
				     unsigned index)
{
	return wn__fraction_bits(hi, lo, table->remainder_bits + index * table->extension_bits,
				 table->extension_bits);
}

/* A fraction's bits end here: no fingerprint can have more extensions. */
WN__INLINE unsigned wn__max_extensions(const struct wn__table *table)
{
	return (128u - table->remainder_bits + table->extension_bits - 1) / table->extension_bits;
}

/* ---- finding runs ------------------------------------------------------- */

/* The slot behind a fingerprint's extra slots, given the slot behind its
 * remainder. */
WN__INLINE uint64_t wn__skip_extras(const struct wn__table *table, uint64_t slot, bool live)
{
	if (table->meta_words == 2)
		return slot;
	while (slot < wn__physical_slots(table)) {
		uint64_t others = ~wn__extensions(table, slot >> 6, live) >> (slot & 63);

		if (others)
			return slot + (unsigned)__builtin_ctzll(others);
		slot = (slot | 63) + 1;
	}
	return slot;
}

/* The slot behind the `count`th run (1 is the first) that ends at or after
 * `slot`; the table's end if there are not so many. */
WN__INLINE uint64_t wn__skip_runs(const struct wn__table *table, uint64_t slot, unsigned count,
				  bool live, bool fast)
{
	while (slot < wn__physical_slots(table)) {
		uint64_t ends = wn__true_runends(table, slot >> 6, live) >> (slot & 63);
		unsigned here = wn__popcount(ends);

		if (count <= here) {
			slot += wn__select(ends, count - 1, fast) + 1;
			return wn__skip_extras(table, slot, live);
		}
		count -= here;
		slot = (slot | 63) + 1;
	}
	return wn__physical_slots(table);
}

/* Where the fingerprints of smaller blocks' quotients end, in slots from the
 * block's first on, however many. *lowestp becomes the lowest block looked at. */
uint64_t wn__exact_offset(const struct wn__table *table, uint64_t block, bool live,
			  uint64_t *lowestp);

/* The slot behind everything that belongs to quotients below `quotient`, or to
 * it as well if `through`. At or before `quotient` if there is nothing in the way. */
WN__INLINE uint64_t wn__content_end(const struct wn__table *table, uint64_t quotient, bool through,
				    bool live, bool fast, uint64_t *lowestp)
{
	uint64_t block = quotient >> 6;
	uint64_t before = wn__low_bits((unsigned)(quotient & 63) + through);
	unsigned map = wn__popcount(wn__meta(table, block, WN__OCCUPIEDS, live) & before);
	uint64_t offset = wn__offset_byte(table, block);

	if (WN__UNLIKELY(offset == WN__OFFSET_MANY))
		offset = wn__exact_offset(table, block, live, lowestp);
	if (map == 0)
		return block * 64 + offset;
	return wn__skip_runs(table, block * 64 + offset, map, live, fast);
}

/* The slot where the quotient's run starts, or would start. */
WN__INLINE uint64_t wn__keylist_start(const struct wn__table *table, uint64_t quotient, bool live,
				  bool fast, uint64_t *lowestp)
{
	uint64_t end = wn__content_end(table, quotient, false, live, fast, lowestp);

	return end > quotient ? end : quotient;
}

WN__INLINE bool wn__is_occupied(const struct wn__table *table, uint64_t quotient, bool live)
{
	return wn__bit(wn__meta(table, quotient >> 6, WN__OCCUPIEDS, live), quotient);
}

/* ---- one fingerprint ---------------------------------------------------- */

struct wn__place {
	uint64_t slot;    /* the remainder's slot */
	uint64_t behind;  /* the slot behind its last extra slot */
	bool ends_run;
};

WN__INLINE struct wn__place wn__place_at(const struct wn__table *table, uint64_t slot, bool live)
{
	return (struct wn__place){
		.slot = slot,
		.behind = wn__skip_extras(table, slot + 1, live),
		.ends_run = wn__bit(wn__meta(table, slot >> 6, WN__RUNENDS, live), slot),
	};
}

/* How many of the extra slots are extensions; the others are counter digits. */
WN__INLINE unsigned wn__extension_count(const struct wn__table *table,
					const struct wn__place *place, bool live)
{
	unsigned count = 0;

	for (uint64_t slot = place->slot + 1; slot < place->behind; slot++) {
		if (wn__bit(wn__meta(table, slot >> 6, WN__RUNENDS, live), slot))
			break;
		count++;
	}
	return count;
}

/* A count of 1 has no digits; a greater one is kept less one, lowest digit first. */
static inline unsigned wn__counter_digits(uint64_t count, unsigned slot_bits)
{
	unsigned digits = 0;

	for (uint64_t rest = count - 1; rest; rest >>= slot_bits)
		digits++;
	return digits;
}

/* Are the extensions of the fingerprint at `place` those of this fraction? */
WN__INLINE bool wn__extensions_match(const struct wn__table *table, const struct wn__place *place,
				     struct wn__fingerprint print, bool live)
{
	unsigned index = 0;

	for (uint64_t slot = place->slot + 1; slot < place->behind; slot++, index++) {
		if (wn__bit(wn__meta(table, slot >> 6, WN__RUNENDS, live), slot))
			break;
		if (wn__slot(table, slot, live) !=
		    wn__extension_of(table, print.hi, print.lo, index) << table->tag_bits)
			return false;
	}
	return true;
}

#endif /* WN_KINDS_AQF_AQF_TABLE_H */
