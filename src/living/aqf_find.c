/* aqf_find.c - the writers' search; see aqf_find.h. */
#include <winnow/error.h>

#include "aqf_find.h"

/* ---- fingerprints ------------------------------------------------------- */

WN__INLINE bool occupied(const struct wn__hold *hold)
{
	return wn__is_occupied(&hold->aqf->table, hold->quotient, true);
}

WN__INLINE uint64_t run_start(const struct wn__hold *hold, bool fast)
{
	uint64_t lowest = UINT64_MAX;

	return wn__keylist_start(&hold->aqf->table, hold->quotient, true, fast, &lowest);
}

/* Where a new fingerprint goes: behind all of its minirun. */
WN__INLINE void look_for_back(const struct wn__hold *hold, uint64_t remainder,
			      struct wn__spot *spot, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t slot = run_start(hold, fast);

	*spot = (struct wn__spot){.before = WN__NO_SLOT, .last = true, .seen = slot};
	if (occupied(hold)) {
		while (slot < wn__physical_slots(table)) {
			struct wn__place place = wn__place_at(table, slot, true);
			uint64_t here = wn__slot(table, slot, true) >> table->tag_bits;

			spot->seen = place.behind;
			if (here > remainder) {
				spot->last = false;
				break;
			}
			if (here == remainder)
				spot->rank++;
			spot->before = slot;
			slot = place.behind;
			if (place.ends_run)
				break;
		}
	}
	spot->place.slot = slot;
}

/* The fingerprint of a rank. */
WN__INLINE void look_for_rank(const struct wn__hold *hold, uint64_t remainder, uint32_t rank,
			      struct wn__spot *spot, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t slot = run_start(hold, fast);

	*spot = (struct wn__spot){.before = WN__NO_SLOT, .seen = slot};
	if (!occupied(hold))
		return;
	while (slot < wn__physical_slots(table)) {
		struct wn__place place = wn__place_at(table, slot, true);
		uint64_t here = wn__slot(table, slot, true) >> table->tag_bits;

		spot->seen = place.behind;
		if (here > remainder)
			return;
		if (here == remainder && spot->rank++ == rank) {
			spot->place = place;
			spot->rank = rank;
			spot->last = place.ends_run;
			spot->found = true;
			return;
		}
		if (place.ends_run)
			return;
		spot->before = slot;
		slot = place.behind;
	}
}

static void look_for_back_plain(const struct wn__hold *hold, uint64_t remainder,
				struct wn__spot *spot)
{
	look_for_back(hold, remainder, spot, false);
}

WN__TARGET_FAST static void look_for_back_fast(const struct wn__hold *hold, uint64_t remainder,
					       struct wn__spot *spot)
{
	look_for_back(hold, remainder, spot, true);
}

static void look_for_rank_plain(const struct wn__hold *hold, uint64_t remainder, uint32_t rank,
				struct wn__spot *spot)
{
	look_for_rank(hold, remainder, rank, spot, false);
}

WN__TARGET_FAST static void look_for_rank_fast(const struct wn__hold *hold, uint64_t remainder,
					       uint32_t rank, struct wn__spot *spot)
{
	look_for_rank(hold, remainder, rank, spot, true);
}

struct wn__spot wn__find_back(struct wn__hold *hold, uint64_t remainder)
{
	struct wn__spot spot;

	do {
		if (hold->aqf->fast)
			look_for_back_fast(hold, remainder, &spot);
		else
			look_for_back_plain(hold, remainder, &spot);
	} while (wn__hold_reach(hold, spot.seen));
	return spot;
}

struct wn__spot wn__find_rank(struct wn__hold *hold, uint64_t remainder, uint32_t rank)
{
	struct wn__spot spot;

	do {
		if (hold->aqf->fast)
			look_for_rank_fast(hold, remainder, rank, &spot);
		else
			look_for_rank_plain(hold, remainder, rank, &spot);
	} while (wn__hold_reach(hold, spot.seen));
	return spot;
}

int wn__find_stored(struct wn__hold *hold, struct wn__fingerprint stored, struct wn_match match,
		    struct wn__spot *spotp)
{
	const struct wn__table *table = &hold->aqf->table;

	if (match.minirun != wn__minirun_of(table, stored))
		return WN_ERR_MISMATCH;
	if (!match.known || !wn__stamp_is(wn__stamp_of(hold->aqf, match.minirun), match.stamp))
		return WN_ERR_STALE;
	*spotp = wn__find_rank(hold, wn__remainder_of(table, stored), match.rank);
	if (!spotp->found)
		return WN_ERR_NOT_FOUND;
	return wn__extensions_match(table, &spotp->place, stored, true) ? 0 : WN_ERR_MISMATCH;
}

/* ---- empty slots -------------------------------------------------------- */

/* How many quotients from `from` to `to`, both included, are occupied. */
WN__INLINE unsigned occupied_between(const struct wn__table *table, uint64_t from, uint64_t to)
{
	uint64_t block = from >> 6, last = to >> 6;
	uint64_t word = wn__meta(table, block, WN__OCCUPIEDS, true) & UINT64_MAX << (from & 63);
	unsigned count = 0;

	while (block < last) {
		count += wn__popcount(word);
		word = wn__meta(table, ++block, WN__OCCUPIEDS, true);
	}
	return count + wn__popcount(word & UINT64_MAX >> (63 - (to & 63)));
}

/* On the way from slot to slot, a block's metadata at hand. */
struct sweep {
	uint64_t block;
	uint64_t occupieds, ends, extras;
	unsigned at;
	unsigned open; /* runs of quotients up to here that have not ended before */
};

WN__INLINE void enter_block(const struct wn__table *table, struct sweep *sweep, uint64_t block)
{
	const unsigned char *ahead = table->words + (block + 2) * table->block_words * 8;

	/* Whoever comes this far goes on, most of the time, and then moves the slots. */
	__builtin_prefetch(ahead);
	__builtin_prefetch(ahead + 64);
	sweep->block = block;
	sweep->occupieds = wn__meta(table, block, WN__OCCUPIEDS, true);
	sweep->extras = wn__extensions(table, block, true);
	sweep->ends = wn__meta(table, block, WN__RUNENDS, true) & ~sweep->extras;
}

/* On to the next block. The extra slots it begins with, if any, are those of what was passed;
 * there may be more than a block of them. */
WN__INLINE bool next_block(const struct wn__table *table, struct sweep *sweep, bool fast)
{
	sweep->open -= wn__popcount(sweep->ends >> sweep->at);
	sweep->open += wn__popcount(sweep->occupieds >> sweep->at >> 1);
	do {
		if (sweep->block + 1 == table->blocks)
			return false;
		enter_block(table, sweep, sweep->block + 1);
		sweep->at = wn__lowest_bit(~sweep->extras, fast);
		sweep->open += wn__popcount(sweep->occupieds & wn__low_bits(sweep->at + 1));
	} while (sweep->at > 63);
	return true;
}

/* To the slot behind the runs that are open here. False at the table's end. */
WN__INLINE bool pass_runs(const struct wn__table *table, struct sweep *sweep, bool fast)
{
	unsigned last = sweep->open > 64 ? 64 : wn__select(sweep->ends >> sweep->at,
							   sweep->open - 1, fast);
	unsigned next = sweep->at + last + 1;

	if (next < 64)
		next += wn__lowest_bit(~sweep->extras >> next, fast);
	if (next > 63)
		return next_block(table, sweep, fast);
	sweep->open = wn__popcount(sweep->occupieds >> sweep->at >> 1 &
				   wn__lower_bits(next - sweep->at));
	sweep->at = next;
	return true;
}

/* A slot is empty if everything of quotients up to its own number ends before it. */
WN__INLINE uint64_t look_for_empty(const struct wn__hold *hold, uint64_t slot, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t lowest = UINT64_MAX;
	uint64_t end = wn__content_end(table, slot, true, true, fast, &lowest);
	struct sweep sweep;

	if (end <= slot || end >= wn__physical_slots(table))
		return end <= slot ? slot : wn__physical_slots(table);
	enter_block(table, &sweep, end >> 6);
	sweep.at = end & 63;
	sweep.open = occupied_between(table, slot + 1, end);
	while (sweep.open > 0)
		if (!pass_runs(table, &sweep, fast))
			return wn__physical_slots(table);
	return sweep.block * 64 + sweep.at;
}

static uint64_t look_for_empty_plain(const struct wn__hold *hold, uint64_t slot)
{
	return look_for_empty(hold, slot, false);
}

WN__TARGET_FAST static uint64_t look_for_empty_fast(const struct wn__hold *hold, uint64_t slot)
{
	return look_for_empty(hold, slot, true);
}

uint64_t wn__find_empty(struct wn__hold *hold, uint64_t slot)
{
	uint64_t empty;

	do
		empty = hold->aqf->fast ? look_for_empty_fast(hold, slot)
					: look_for_empty_plain(hold, slot);
	while (wn__hold_reach(hold, empty));
	return empty;
}

bool wn__find_empties(struct wn__hold *hold, uint64_t slot, unsigned count,
		      struct wn__empties *empties)
{
	empties->count = count;
	for (unsigned at = 0; at < count; at++, slot++) {
		empties->slots[at] = slot = wn__find_empty(hold, slot);
		if (slot >= wn__physical_slots(&hold->aqf->table))
			return false;
	}
	return true;
}

WN__INLINE uint64_t look_for_stop(const struct wn__hold *hold, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t lowest = UINT64_MAX;
	uint64_t end = wn__content_end(table, hold->quotient, true, true, fast, &lowest);

	while (end < wn__physical_slots(table)) {
		uint64_t next = wn__content_end(table, end - 1, true, true, fast, &lowest);

		if (next <= end)
			break;
		end = next;
	}
	return end;
}

static uint64_t look_for_stop_plain(const struct wn__hold *hold)
{
	return look_for_stop(hold, false);
}

WN__TARGET_FAST static uint64_t look_for_stop_fast(const struct wn__hold *hold)
{
	return look_for_stop(hold, true);
}

uint64_t wn__find_stop(struct wn__hold *hold)
{
	uint64_t stop;

	do
		stop = hold->aqf->fast ? look_for_stop_fast(hold) : look_for_stop_plain(hold);
	while (wn__hold_reach(hold, stop));
	return stop;
}

void wn__close_slots(struct wn__hold *hold, uint64_t slot, uint64_t count)
{
	while (count-- > 0)
		wn__close_gap(hold->aqf, hold->quotient, slot + count, wn__find_stop(hold));
}
