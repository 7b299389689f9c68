/* query.c - asking an adaptive quotient filter, living or frozen.
 *
 * Where does the quotient's run start (rank and select within one block and the
 * next); is the remainder among its slots (several compared at once); do the extensions
 * agree? Most queries are for keys that are not there. The common case touches one
 * offset byte, the block's metadata and one or two words of slots, and has no loop. What
 * does not fit this picture falls to walk_run(), which is right in all cases. */
#include <string.h>

#include "aqf_internal.h"

#define BATCH 32

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

/* What a walk through a run finds, and which part of the table that depends on. */
struct walk {
	uint64_t lowest_block; /* looked at to find an offset; UINT64_MAX if none */
	uint64_t highest_slot;
	struct wn_match match;
	unsigned tag;
};

/* Go through the quotient's run, fingerprint by fingerprint. */
WN__INLINE bool walk_run(const struct wn__table *table, struct wn__fingerprint print,
			 uint32_t rank, struct walk *walk, bool live, bool fast)
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

enum answer { NO, YES, WALK };

/* Answer from the quotient's block and the one behind it, or say that it takes a
 * walk. YES only when the match is certain to be the minirun's first fingerprint,
 * and without extensions.
 *
 * Straight code with one branch at the end that is nearly always "no" when the key is
 * not there (the others guard against what hardly happens). Whether a quotient is
 * occupied is a coin toss; a branch on it would be mispredicted twice in five
 * queries, each time only after the wait for the metadata's cache line. So everything
 * is computed for unoccupied quotients too, and thrown away. Few instructions matter
 * as much: the fewer there are, the more queries wait for memory at the same time. */
WN__INLINE enum answer glance(const struct wn__table *table, struct wn__fingerprint print,
			      bool live, bool extended, bool fast)
{
	uint64_t base = (print.quotient >> 6) * table->block_words;
	unsigned home = print.quotient & 63;
	uint64_t occupieds, ends, ends_behind, window, rest, lanes;
	unsigned offset, from, over, start, last, odd = 0;

	if (WN__UNLIKELY(print.quotient >= table->glance_slots))
		return WALK;
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
		return WALK;
	/* Of the block's runs before the quotient's, how many end at or behind `from`,
	 * the first slot its own run can start at? */
	from = (offset > home ? offset : home) & 63;
	over = wn__popcount(occupieds & wn__lower_bits(home)) -
	       wn__popcount((ends & wn__lower_bits(from)) >> offset);
	/* The 64 slots from there on; a bit in front stands for the start. */
	window = ends >> from | ends_behind << 1 << (from ^ 63);
	start = wn__select(window << 1 | 1, over & 63, fast);
	if (WN__UNLIKELY(start >= 64))
		return WALK;
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
		return NO;
	if (odd)
		return WALK;
	lanes &= wn__low_bits((last + 1) * table->slot_bits);
	return lanes ? YES : NO;
}

/* ---- frozen ------------------------------------------------------------- */

WN__INLINE bool frozen_walk(const struct wn__table *table, struct wn_hash hash,
			    struct wn_match *matchp, bool fast)
{
	struct wn__fingerprint print = wn__split(hash, table->slots);
	struct walk state = {.lowest_block = UINT64_MAX};

	if (!wn__is_occupied(table, print.quotient, false) ||
	    !walk_run(table, print, 0, &state, false, fast))
		return false;
	if (matchp)
		*matchp = state.match;
	return true;
}

/* Out of line, so that the common case needs no stack frame for it. */
static bool __attribute__((noinline)) frozen_walk_plain(const struct wn__table *table,
							struct wn_hash hash,
							struct wn_match *matchp)
{
	return frozen_walk(table, hash, matchp, false);
}

WN__TARGET_FAST static bool __attribute__((noinline))
frozen_walk_fast(const struct wn__table *table, struct wn_hash hash, struct wn_match *matchp)
{
	return frozen_walk(table, hash, matchp, true);
}

WN__INLINE void prefetch(const struct wn__table *table, uint64_t quotient)
{
	const unsigned char *at = table->words + (quotient >> 6) * table->block_words * 8;

	__builtin_prefetch(table->offsets + (quotient >> 6));
	__builtin_prefetch(at);
	__builtin_prefetch(at + 56);
	__builtin_prefetch(at + 104);
}

WN__INLINE bool frozen_query(const struct wn__table *table, struct wn_hash hash,
			     struct wn_match *matchp, bool extended, bool fast)
{
	struct wn__fingerprint print = wn__split(hash, table->slots);

	switch (glance(table, print, false, extended, fast)) {
	case NO:
		return false;
	case YES:
		if (matchp)
			*matchp = (struct wn_match){
				.minirun = wn__minirun_of(table, print),
				.known = true,
			};
		return true;
	case WALK:
		break;
	}
	return fast ? frozen_walk_fast(table, hash, matchp)
		    : frozen_walk_plain(table, hash, matchp);
}

/* One query and one batch function per form of table and CPU. */
#define FROZEN_FUNCTIONS(name, target, extended, fast)                                             \
	target static bool query_##name(const void *state, struct wn_hash hash,                    \
					struct wn_match *matchp)                                   \
	{                                                                                          \
		return frozen_query(state, hash, matchp, extended, fast);                          \
	}                                                                                          \
	target static void batch_##name(const void *state, const struct wn_hash *hashes,           \
					size_t count, bool *answersp)                              \
	{                                                                                          \
		frozen_batch(state, hashes, count, answersp, extended, fast);                      \
	}

WN__INLINE void frozen_batch(const struct wn__table *table, const struct wn_hash *hashes,
			     size_t count, bool *answersp, bool extended, bool fast)
{
	for (size_t done = 0; done < count; done += BATCH) {
		size_t here = count - done < BATCH ? count - done : BATCH;

		for (size_t i = 0; i < here; i++)
			prefetch(table, wn__split(hashes[done + i], table->slots).quotient);
		for (size_t i = 0; i < here; i++)
			answersp[done + i] =
				frozen_query(table, hashes[done + i], NULL, extended, fast);
	}
}

FROZEN_FUNCTIONS(plain, , false, false)
FROZEN_FUNCTIONS(extended, , true, false)
FROZEN_FUNCTIONS(plain_fast, WN__TARGET_FAST, false, true)
FROZEN_FUNCTIONS(extended_fast, WN__TARGET_FAST, true, true)

/* Tags are for living filters; a frozen filter that has them is asked slowly. */
static bool query_tagged(const void *state, struct wn_hash hash, struct wn_match *matchp)
{
	return frozen_walk_plain(state, hash, matchp);
}

static void batch_tagged(const void *state, const struct wn_hash *hashes, size_t count,
			 bool *answersp)
{
	for (size_t i = 0; i < count; i++)
		answersp[i] = query_tagged(state, hashes[i], NULL);
}

bool wn__frozen_query_portable(const void *state, struct wn_hash hash, struct wn_match *matchp)
{
	const struct wn__table *table = state;

	if (table->tag_bits)
		return query_tagged(state, hash, matchp);
	return table->meta_words == 3 ? query_extended(state, hash, matchp)
				      : query_plain(state, hash, matchp);
}

void wn__frozen_batch_portable(const void *state, const struct wn_hash *hashes, size_t count,
			       bool *answersp)
{
	const struct wn__table *table = state;

	if (table->tag_bits)
		batch_tagged(state, hashes, count, answersp);
	else if (table->meta_words == 3)
		batch_extended(state, hashes, count, answersp);
	else
		batch_plain(state, hashes, count, answersp);
}

wn__query_fn *wn__frozen_query_for(const struct wn__table *table)
{
	if (!wn__cpu_is_fast() || table->tag_bits)
		return wn__frozen_query_portable;
	return table->meta_words == 3 ? query_extended_fast : query_plain_fast;
}

wn__query_batch_fn *wn__frozen_batch_for(const struct wn__table *table)
{
	if (!wn__cpu_is_fast() || table->tag_bits)
		return wn__frozen_batch_portable;
	return table->meta_words == 3 ? batch_extended_fast : batch_plain_fast;
}

bool wn__frozen_query_from(const struct wn__table *table, struct wn_hash hash, uint32_t rank,
			   struct wn_match *matchp)
{
	struct wn__fingerprint print = wn__split(hash, table->slots);
	struct walk state = {.lowest_block = UINT64_MAX};

	if (!wn__is_occupied(table, print.quotient, false) ||
	    !walk_run(table, print, rank, &state, false, false))
		return false;
	*matchp = state.match;
	return true;
}

/* ---- living ------------------------------------------------------------- */

WN__INLINE uint64_t stamp_of_print(const struct wn_aqf *aqf, struct wn__fingerprint print)
{
	return wn__stamp_read(wn__stamp_of(aqf, wn__minirun_of(&aqf->table, print)));
}

/* A glance under its region's version; WALK also when a writer was at it. A stamp read
 * before the versions are compared is that of the ranks that were seen. */
WN__INLINE enum answer live_glance(const struct wn_aqf *aqf, struct wn__fingerprint print,
				   uint64_t *stampp, bool fast)
{
	uint64_t region = print.quotient >> WN__REGION_SHIFT;
	uint64_t begun = wn__regions_begin(aqf->regions, region, region);
	enum answer answer;

	/* A glance looks into the block behind. */
	if (begun & 1 || ((print.quotient | 63) + 1) >> WN__REGION_SHIFT != region)
		return WALK;
	answer = glance(&aqf->table, print, true, true, fast);
	if (answer == YES)
		*stampp = stamp_of_print(aqf, print);
	return wn__regions_unchanged(aqf->regions, region, region, begun) ? answer : WALK;
}

/* Walk until the regions walked through stood still. */
WN__INLINE bool live_walk(const struct wn_aqf *aqf, struct wn__fingerprint print, uint32_t rank,
			  struct walk *state, bool fast)
{
	uint64_t low = print.quotient >> WN__REGION_SHIFT;
	uint64_t high = low + 1 < aqf->region_count ? low + 1 : low;

	for (unsigned tries = 0; tries < WN__READ_TRIES; tries++) {
		uint64_t begun = wn__regions_begin(aqf->regions, low, high);
		bool answer;

		if (begun & 1) {
			wn__cpu_relax();
			continue;
		}
		*state = (struct walk){.lowest_block = UINT64_MAX};
		answer = wn__is_occupied(&aqf->table, print.quotient, true) &&
			 walk_run(&aqf->table, print, rank, state, true, fast);
		if (answer && state->match.known)
			state->match.stamp = stamp_of_print(aqf, print);
		if (state->lowest_block != UINT64_MAX &&
		    state->lowest_block >> (WN__REGION_SHIFT - 6) < low)
			low = state->lowest_block >> (WN__REGION_SHIFT - 6);
		else if (high + 1 < aqf->region_count &&
			 state->highest_slot >> WN__REGION_SHIFT > high)
			high++;
		else if (wn__regions_unchanged(aqf->regions, low, high, begun))
			return answer;
	}
	*state = (struct walk){0};
	return true;
}

static bool __attribute__((noinline)) live_walk_plain(const struct wn_aqf *aqf,
						      struct wn__fingerprint print, uint32_t rank,
						      struct walk *state)
{
	return live_walk(aqf, print, rank, state, false);
}

WN__TARGET_FAST static bool __attribute__((noinline))
live_walk_fast(const struct wn_aqf *aqf, struct wn__fingerprint print, uint32_t rank,
	       struct walk *state)
{
	return live_walk(aqf, print, rank, state, true);
}

static bool walk_from(const struct wn_aqf *aqf, struct wn__fingerprint print, uint32_t rank,
		      struct walk *state)
{
	return aqf->fast ? live_walk_fast(aqf, print, rank, state)
			 : live_walk_plain(aqf, print, rank, state);
}

WN__INLINE bool live_query(const struct wn_aqf *aqf, struct wn__fingerprint print,
			   struct wn_match *matchp, bool fast)
{
	struct walk state;
	uint64_t stamp;

	switch (live_glance(aqf, print, &stamp, fast)) {
	case NO:
		return false;
	case YES:
		state.match = (struct wn_match){
			.minirun = wn__minirun_of(&aqf->table, print),
			.known = true,
			.stamp = stamp,
		};
		break;
	case WALK:
		if (!walk_from(aqf, print, 0, &state))
			return false;
		break;
	}
	if (matchp)
		*matchp = state.match;
	return true;
}

static bool live_query_plain(const struct wn_aqf *aqf, struct wn_hash hash,
			     struct wn_match *matchp)
{
	return live_query(aqf, wn__split(hash, aqf->table.slots), matchp, false);
}

WN__TARGET_FAST static bool live_query_fast(const struct wn_aqf *aqf, struct wn_hash hash,
					    struct wn_match *matchp)
{
	return live_query(aqf, wn__split(hash, aqf->table.slots), matchp, true);
}

bool wn_aqf_query(const struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp)
{
	return aqf->fast ? live_query_fast(aqf, hash, matchp) : live_query_plain(aqf, hash, matchp);
}

bool wn_aqf_query_tag(const struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp,
		      unsigned *tagp)
{
	struct walk state;

	if (!walk_from(aqf, wn__split(hash, aqf->table.slots), 0, &state))
		return false;
	if (matchp)
		*matchp = state.match;
	*tagp = state.tag;
	return true;
}

bool wn_aqf_query_next(const struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp)
{
	struct walk state;

	if (!matchp->known ||
	    !walk_from(aqf, wn__split(hash, aqf->table.slots), matchp->rank + 1, &state))
		return false;
	*matchp = state.match;
	return true;
}

void wn_aqf_query_batch(const struct wn_aqf *aqf, const struct wn_hash *hashes, size_t count,
			bool *answersp)
{
	for (size_t done = 0; done < count; done += BATCH) {
		size_t here = count - done < BATCH ? count - done : BATCH;

		for (size_t i = done; i < done + here; i++)
			prefetch(&aqf->table, wn__split(hashes[i], aqf->table.slots).quotient);
		for (size_t i = done; i < done + here; i++)
			answersp[i] = wn_aqf_query(aqf, hashes[i], NULL);
	}
}

/* ---- what the filter says of miniruns ----------------------------------- */

uint64_t wn_aqf_minirun(const struct wn_aqf *aqf, struct wn_hash hash)
{
	return wn__minirun_of(&aqf->table, wn__split(hash, aqf->table.slots));
}

struct wn_match wn_aqf_locate(const struct wn_aqf *aqf, struct wn_hash hash)
{
	uint64_t minirun = wn_aqf_minirun(aqf, hash);

	return (struct wn_match){
		.minirun = minirun,
		.known = true,
		.stamp = wn__stamp_read(wn__stamp_of(aqf, minirun)),
	};
}
