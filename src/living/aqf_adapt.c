/* aqf_adapt.c - a living filter learns: adapt, and shorten what was learned. */
#include <winnow/error.h>

#include "aqf_find.h"

/* ---- adapt -------------------------------------------------------------- */

static int extend_held(struct wn__hold *hold, const struct wn__place *place,
		       struct wn__fingerprint stored, unsigned had, unsigned wanted)
{
	struct wn_aqf *aqf = hold->aqf;
	const struct wn__table *table = &aqf->table;
	uint64_t slot = place->slot + 1 + had;
	struct wn__empties empties;

	if (!wn__find_empties(hold, slot, wanted - had, &empties) ||
	    !wn__room_claim_extensions(hold, wanted - had))
		return WN_ERR_FULL;
	for (unsigned at = had; at < wanted; at++, slot++)
		wn__insert_slot(aqf, hold->quotient, slot, empties.slots[at - had],
				(struct wn__slot_bits){
					.content = wn__extension_of(table, stored.hi, stored.lo, at)
						   << table->tag_bits,
					.extension = true,
				});
	return 0;
}

int wn_aqf_adapt(struct wn_aqf *aqf, struct wn_hash stored, struct wn_hash query,
		 struct wn_match match)
{
	const struct wn__table *table = &aqf->table;
	struct wn__fingerprint mine = wn__split(stored, table->slots);
	struct wn__fingerprint theirs = wn__split(query, table->slots);
	struct wn__hold hold = wn__hold_take(aqf, mine.quotient);
	struct wn__spot spot;
	int err = wn__find_stored(&hold, mine, match, &spot);

	if (!err && wn__minirun_of(table, theirs) == match.minirun &&
	    wn__extensions_match(table, &spot.place, theirs, true)) {
		unsigned had = wn__extension_count(table, &spot.place, true);
		unsigned common = wn__common_prefix(mine.hi, mine.lo, theirs.hi, theirs.lo);

		if (common == 128)
			err = WN_ERR_UNFIXABLE;
		else
			err = extend_held(&hold, &spot.place, mine, had,
					  (common - table->remainder_bits) /
							  table->extension_bits + 1);
	}
	wn__hold_release(&hold);
	return err;
}

struct lesson {
	struct wn_aqf *aqf;
	struct wn_hash query;
	wn_fetch_fn *fetch;
	void *arg;
	uint32_t fixed;
	bool unfixable;
};

/* Adapt one fingerprint, with what the map says of it. A map that has changed may have
 * no such entry any more: that the match is stale goes first. */
static int adapt_match(struct lesson *lesson, struct wn_match match)
{
	struct wn_hash stored;
	int err;

	if (match.stamp == WN__NO_STAMP)
		return WN_ERR_STALE;
	err = lesson->fetch(lesson->arg, match.minirun, match.rank, &stored);
	if (err)
		return wn__stamp_is(wn__stamp_of(lesson->aqf, match.minirun), match.stamp)
			       ? err
			       : WN_ERR_STALE;
	err = wn_aqf_adapt(lesson->aqf, stored, lesson->query, match);
	if (err == WN_ERR_UNFIXABLE) {
		lesson->unfixable = true;
		return 0;
	}
	lesson->fixed += !err;
	return err;
}

/* All that match from the first on, while the ranks stay what they are. */
static int adapt_matches(struct lesson *lesson)
{
	struct wn_match match;
	bool found = wn_aqf_query(lesson->aqf, lesson->query, &match);
	uint64_t stamp = found ? match.stamp : WN__NO_STAMP;

	lesson->unfixable = false;
	while (found) {
		int err = WN_ERR_STALE;

		if (match.known && match.stamp == stamp)
			err = adapt_match(lesson, match);
		if (err)
			return err;
		found = wn_aqf_query_next(lesson->aqf, lesson->query, &match);
	}
	return 0;
}

int wn_aqf_adapt_all(struct wn_aqf *aqf, struct wn_hash query, wn_fetch_fn *fetch, void *arg,
		     uint32_t *fixedp)
{
	struct lesson lesson = {.aqf = aqf, .query = query, .fetch = fetch, .arg = arg};
	int err;

	for (unsigned tries = 0;; tries++) {
		err = adapt_matches(&lesson);
		if (err != WN_ERR_STALE || tries == WN_AQF_ADAPT_TRIES)
			break;
		sched_yield();
	}
	if (fixedp)
		*fixedp = lesson.fixed;
	return !err && lesson.unfixable ? WN_ERR_UNFIXABLE : err;
}

/* ---- changes of filter and map ------------------------------------------ */

struct wn_match wn_aqf_begin_change(struct wn_aqf *aqf, struct wn_hash hash)
{
	uint64_t minirun = wn_aqf_minirun(aqf, hash);

	return (struct wn_match){
		.minirun = minirun,
		.known = true,
		.stamp = wn__stamp_lock(wn__stamp_of(aqf, minirun)),
	};
}

void wn_aqf_end_change(struct wn_aqf *aqf, struct wn_match change)
{
	wn__stamp_unlock(wn__stamp_of(aqf, change.minirun), change.stamp);
}

/* ---- shorten ------------------------------------------------------------ */

struct prefix {
	uint64_t hi, lo;
	unsigned bits;
};

/* What is stored of a fingerprint's fraction behind the remainder. */
static struct prefix read_prefix(const struct wn__table *table, const struct wn__place *place)
{
	unsigned extensions = wn__extension_count(table, place, true);
	unsigned bits = extensions * table->extension_bits;
	wn__u128 value = 0;

	for (unsigned at = 0; at < extensions; at++) {
		wn__u128 piece = wn__slot(table, place->slot + 1 + at, true) >> table->tag_bits;
		unsigned end = (at + 1) * table->extension_bits;

		value |= end <= 128 ? piece << (128 - end) : piece >> (end - 128);
	}
	return (struct prefix){(uint64_t)(value >> 64), (uint64_t)value, bits};
}

/* How many extensions tell the fingerprint of `rank` from all others of its
 * minirun; all it has, where one of them is a prefix of the other. */
static unsigned extensions_needed(struct wn__hold *hold, uint64_t remainder, uint32_t rank,
				  struct prefix own)
{
	const struct wn__table *table = &hold->aqf->table;
	unsigned needed = 0;

	for (uint32_t other = 0;; other++) {
		struct wn__spot spot = wn__find_rank(hold, remainder, other);
		struct prefix theirs;
		unsigned common;

		if (!spot.found)
			return needed;
		if (other == rank)
			continue;
		theirs = read_prefix(table, &spot.place);
		common = wn__common_prefix(own.hi, own.lo, theirs.hi, theirs.lo);
		if (common >= own.bits || common >= theirs.bits)
			return own.bits / table->extension_bits;
		if (common / table->extension_bits + 1 > needed)
			needed = common / table->extension_bits + 1;
	}
}

static uint32_t length_held(struct wn__hold *hold, uint64_t remainder)
{
	return wn__find_back(hold, remainder).rank;
}

int wn_aqf_shorten(struct wn_aqf *aqf, uint64_t minirun, uint64_t *freedp)
{
	const struct wn__table *table = &aqf->table;
	uint64_t remainder = minirun & wn__low_bits(table->remainder_bits);
	uint64_t freed = 0;
	struct wn__hold hold;

	if (freedp)
		*freedp = 0;
	if (minirun >> table->remainder_bits >= table->slots)
		return WN_ERR_INVALID;
	hold = wn__hold_take(aqf, minirun >> table->remainder_bits);
	/* No memory is asked for: undoing an insert must not be able to fail. */
	for (uint32_t rank = length_held(&hold, remainder); rank-- > 0; ) {
		struct wn__spot spot = wn__find_rank(&hold, remainder, rank);
		struct prefix own = read_prefix(table, &spot.place);
		unsigned had = own.bits / table->extension_bits;
		unsigned needed = extensions_needed(&hold, remainder, rank, own);

		wn__close_slots(&hold, spot.place.slot + 1 + needed, had - needed);
		wn__room_give_back(aqf, had - needed);
		freed += had - needed;
	}
	wn__hold_release(&hold);
	if (freedp)
		*freedp = freed;
	return 0;
}

uint32_t wn_aqf_minirun_length(const struct wn_aqf *aqf, uint64_t minirun)
{
	uint64_t quotient = minirun >> aqf->table.remainder_bits;
	struct wn__hold hold;
	uint32_t length;

	if (quotient >= aqf->table.slots)
		return 0;
	hold = wn__hold_take(aqf, quotient);
	length = length_held(&hold, minirun & wn__low_bits(aqf->table.remainder_bits));
	wn__hold_release(&hold);
	return length;
}
