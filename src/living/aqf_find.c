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

/* The slots of a block that come right behind a run and its extra slots. */
WN__INLINE uint64_t behind_runs(uint64_t ends, uint64_t extras)
{
	uint64_t behind = ends << 1;

	/* Where extra slots follow, the carry runs through all of them. */
	return (behind | (extras + (behind & extras))) & ~extras;
}

/* The first empty slot of a block from `at` on, or 64 and more. A slot is empty if all runs of
 * quotients up to its own number have ended before it. Of what the blocks before this one hold
 * the offset is all that matters. */
WN__INLINE unsigned empty_in_block(const struct wn__table *table, uint64_t block, unsigned at,
				   bool fast)
{
	uint64_t occupieds = wn__meta(table, block, WN__OCCUPIEDS, true);
	uint64_t extras = wn__extensions(table, block, true);
	uint64_t ends = wn__meta(table, block, WN__RUNENDS, true) & ~extras;
	uint64_t behind = behind_runs(ends, extras);
	unsigned offset = wn__offset_byte(table, block);
	unsigned open;

	if (at < offset)
		at = offset;
	if (at < 64)
		at += wn__lowest_bit(~(extras >> at), fast);
	if (at > 63)
		return at;
	/* Runs of quotients up to here that have not ended before. */
	open = wn__popcount(occupieds & UINT64_MAX >> (63 - at)) -
	       wn__popcount((ends & wn__lower_bits(at)) >> offset);
	if (open > 63)
		return 64;
	return at + wn__pass_runs(occupieds >> at >> 1, behind >> at | 1, open, 4, fast);
}

WN__INLINE uint64_t look_for_empty(const struct wn__hold *hold, uint64_t slot, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	unsigned at = slot & 63;

	for (uint64_t block = slot >> 6; block < table->blocks; block++, at = 0) {
		const unsigned char *ahead = table->words + (block + 2) * table->block_words * 8;

		/* Whoever comes this far goes on, most of the time, and then moves the slots. */
		__builtin_prefetch(ahead);
		__builtin_prefetch(ahead + 64);
		at = empty_in_block(table, block, at, fast);
		if (at < 64)
			return block * 64 + at;
	}
	return wn__physical_slots(table);
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
