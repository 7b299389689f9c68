/* aqf_search.h - looking for a fingerprint in a table, living or frozen.
 *
 * Where does the quotient's run start (rank and select within one block and the
 * next); is the remainder among its slots (several compared at once); do the extensions
 * agree? Most queries are for keys that are not there. The common case, wn__glance(),
 * touches one offset byte, the block's metadata and one or two words of slots, and has no
 * loop. What does not fit this picture falls to wn__walk_run(), which is right in all
 * cases.
 *
 * Both are inlined into the query functions of frozen filters (query.c) and living ones
 * (living/aqf_query.c), with `live`, `extended` and `fast` as constants. */
#ifndef WN_KINDS_AQF_AQF_SEARCH_H
#define WN_KINDS_AQF_AQF_SEARCH_H

#include "aqf_table.h"

/* Queries of a batch whose memory is asked for before the first is answered. */
#define WN__BATCH 32

/* What a walk through a run finds, and which part of the table that depends on. */
struct wn__walk {
	uint64_t lowest_block; /* looked at to find an offset; UINT64_MAX if none */
	uint64_t highest_slot;
	struct wn_match match;
	unsigned tag;
};

/* Go through the quotient's run, fingerprint by fingerprint. */
WN__INLINE bool wn__walk_run(const struct wn__table *table, struct wn__fingerprint print,
			     uint32_t rank, struct wn__walk *walk, bool live, bool fast)
{
	uint64_t remainder = wn__remainder_of(table, print);
	uint64_t slot = wn__keylist_start(table, print.quotient, live, fast, &walk->lowest_block);
	uint32_t at_rank = 0;
	bool last = false;

	for (; !last; ) {
		struct wn__place place;
		uint64_t content;

		if (slot >= wn__physical_slots(table)) {
			/* A frozen table nobody has checked, or a living one read while it
			 * changes: never "no". */
			walk->highest_slot = wn__physical_slots(table) - 1;
			walk->match = (struct wn_match){0};
			walk->tag = 0;
			return true;
		}
		place = wn__place_at(table, slot, live);
		if (place.behind > walk->highest_slot)
			walk->highest_slot = place.behind;
		content = wn__slot(table, slot, live);
		if (content >> table->tag_bits > remainder)
			return false;
		if (content >> table->tag_bits == remainder) {
			if (at_rank >= rank && wn__extensions_match(table, &place, print, live)) {
				walk->match = (struct wn_match){
					.minirun = wn__minirun_of(table, print),
					.rank = at_rank,
					.known = true,
				};
				walk->tag = (unsigned)(content & wn__low_bits(table->tag_bits));
				return true;
			}
			at_rank++;
		}
		last = place.ends_run;
		slot = place.behind;
	}
	return false;
}

enum wn__answer { WN__NO, WN__YES, WN__WALK };

/* Answer from the quotient's block and the one behind it, or say that it takes a
 * walk. WN__YES only when the match is certain to be the minirun's first fingerprint,
 * and without extensions.
 *
 * Straight code with one branch at the end that is nearly always "no" when the key is
 * not there (the others guard against what hardly happens). Whether a quotient is
 * occupied is a coin toss; a branch on it would be mispredicted twice in five
 * queries, each time only after the wait for the metadata's cache line. So everything
 * is computed for unoccupied quotients too, and thrown away. Few instructions matter
 * as much: the fewer there are, the more queries wait for memory at the same time. */
WN__INLINE enum wn__answer wn__glance(const struct wn__table *table, struct wn__fingerprint print,
				      bool live, bool extended, bool fast)
{
	uint64_t base = (print.quotient >> 6) * table->block_words;
	unsigned home = print.quotient & 63;
	uint64_t occupieds, ends, ends_behind, window, rest, lanes;
	unsigned offset, from, over, start, last, odd = 0;

	if (WN__UNLIKELY(print.quotient >= table->glance_slots))
		return WN__WALK;
	/* The block's lines are the one it starts in, the one its runends' successor is
	 * in, and this one in between. */
	__builtin_prefetch(table->words + base * 8 + 56);
	offset = wn__offset_byte(table, print.quotient >> 6);
	occupieds = wn__word(table, base + WN__OCCUPIEDS, live);
	ends = wn__word(table, base + WN__RUNENDS, live);
	ends_behind = wn__word(table, base + table->block_words + WN__RUNENDS, live);
	if (extended) {
		/* The run may be anywhere from its home on: extra slots in either block
		 * take a walk. They are few. */
		odd = (wn__word(table, base + WN__EXTENSIONS, live) |
		       wn__word(table, base + table->block_words + WN__EXTENSIONS, live)) != 0;
	}
	if (WN__UNLIKELY(offset >= 64))
		return WN__WALK;
	/* Of the block's runs before the quotient's, how many end at or behind `from`,
	 * the first slot its own run can start at? */
	from = (offset > home ? offset : home) & 63;
	over = wn__popcount(occupieds & wn__lower_bits(home)) -
	       wn__popcount((ends & wn__lower_bits(from)) >> offset);
	/* The 64 slots from there on; a bit in front stands for the start. */
	window = ends >> from | ends_behind << 1 << (from ^ 63);
	start = wn__select(window << 1 | 1, over & 63, fast);
	if (WN__UNLIKELY(start >= 64))
		return WN__WALK;
	rest = window >> start;
	start += from;
	lanes = wn__window_at(table, start < 64 ? base : base + table->block_words, start & 63,
			      live);
	last = wn__lowest_bit(rest, fast);
	odd |= last >= table->lanes;
	/* Slot 63 may have extra slots in a block that was not looked at. */
	odd |= (start & 63) + last >= (extended ? 63 : 64);
	if (live)
		lanes &= table->lane_clean;
	/* A lane of zero bits borrows from the one above, which may look zero then; the
	 * lowest that looks zero is. Lanes behind the run's end are left out only below:
	 * they match one query in a hundred. */
	lanes ^= table->lane_ones *
		 (wn__remainder_of(table, print) << (live ? table->tag_bits : 0));
	lanes = (lanes - table->lane_ones) & ~lanes & table->lane_tops;
	if (WN__LIKELY(!(occupieds >> home & (odd | (lanes != 0)))))
		return WN__NO;
	if (odd)
		return WN__WALK;
	lanes &= wn__low_bits((last + 1) * table->slot_bits);
	return lanes ? WN__YES : WN__NO;
}

WN__INLINE void wn__prefetch(const struct wn__table *table, uint64_t quotient)
{
	const unsigned char *at = table->words + (quotient >> 6) * table->block_words * 8;

	__builtin_prefetch(table->offsets + (quotient >> 6));
	__builtin_prefetch(at);
	__builtin_prefetch(at + 56);
	__builtin_prefetch(at + 104);
}

#endif /* WN_KINDS_AQF_AQF_SEARCH_H */
