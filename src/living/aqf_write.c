/* aqf_write.c - changing a living filter: insert, delete, count, tag, adapt, shorten.
 *
 * Every change has the same shape. Take the regions (struct hold); find the
 * fingerprint; see that there is room for all of it; only then move slots. So a
 * change is done whole or not at all.
 *
 * What is found by looking into regions that are not held may be nonsense: each
 * step says how far it looked, and is done again once the regions up to there
 * are held. */
#include <string.h>

#include <winnow/error.h>

#include "kinds/aqf/aqf_internal.h"

/* Slots a region may have in use beyond what the filter's total knows. Small, so
 * that the total is trusted until the filter is all but full. */
#define MAX_PENDING 8

/* The most slots one change can add: extensions of a 128-bit fraction in pieces
 * of 2 bits, or digits of a 64-bit count. */
#define MAX_NEW_SLOTS 64

/* ---- regions ------------------------------------------------------------ */

struct hold {
	struct wn_aqf *aqf;
	uint64_t low, high; /* regions held, both included */
	uint64_t quotient;
	int claimed;  /* kept slots that the filter's total has already */
	bool refused; /* a claim was, by the filter's total */
};

static void release(struct hold *hold)
{
	for (uint64_t at = hold->low; at <= hold->high; at++)
		wn__region_unlock(&hold->aqf->regions[at]);
}

/* Take the quotient's region and the next. Where the quotient's block does not
 * know its offset, take also the region of the block that does. */
static struct hold take(const struct wn_aqf *aqf, uint64_t quotient)
{
	uint64_t region = quotient >> WN__REGION_SHIFT;
	struct hold hold = {
		.aqf = (struct wn_aqf *)(uintptr_t)aqf,
		.low = region,
		.high = region + 1 < aqf->region_count ? region + 1 : region,
		.quotient = quotient,
	};
	const unsigned char *ahead =
		aqf->table.words + (quotient >> 6) * aqf->table.block_words * 8;

	/* Locking is a barrier: what is behind it does not begin before it is done. */
	__builtin_prefetch(ahead, 1);
	__builtin_prefetch(ahead + 64, 1);
	__builtin_prefetch(aqf->table.offsets + (quotient >> 6), 1);
	for (;;) {
		uint64_t block = quotient >> 6;

		for (uint64_t at = hold.low; at <= hold.high; at++)
			wn__region_lock(&hold.aqf->regions[at]);
		while (block > 0 && wn__offset_byte(&aqf->table, block) == WN__OFFSET_MANY)
			block--;
		block >>= WN__REGION_SHIFT - 6;
		if (block >= hold.low)
			return hold;
		release(&hold);
		hold.low = block;
	}
}

/* Hold everything up to `slot`. True if that took more regions: then what was
 * read there before must be read again. */
static bool reach(struct hold *hold, uint64_t slot)
{
	uint64_t region = slot >> WN__REGION_SHIFT;

	if (region >= hold->aqf->region_count)
		region = hold->aqf->region_count - 1;
	if (region <= hold->high)
		return false;
	while (hold->high < region)
		wn__region_lock(&hold->aqf->regions[++hold->high]);
	return true;
}

/* ---- room --------------------------------------------------------------- */

/* Far from the limit, kept slots are counted by region and added to the filter's total
 * in portions, so that writers do not fight over one number. Near it the total must be
 * exact: a sum over regions that others change meanwhile may count a key twice that is
 * being replaced, and refuse another for it. So the first to come near ends the
 * counting in portions, for good. */
enum counting { IN_PORTIONS, SETTLING, EXACTLY };

static unsigned counting(const struct wn_aqf *aqf)
{
	return __atomic_load_n(&aqf->counting, __ATOMIC_ACQUIRE);
}

static void flush_pending(struct wn_aqf *aqf, struct wn__region *region, int32_t pending)
{
	__atomic_fetch_add(&aqf->kept, (uint64_t)(int64_t)pending, __ATOMIC_RELAXED);
	__atomic_store_n(&region->pending, 0, __ATOMIC_RELAXED);
}

/* Whoever takes a region after us finds that nothing may be pending; what was before is
 * added here. A second thread that comes meanwhile does the same and need not wait. */
static void settle(struct wn_aqf *aqf)
{
	unsigned before = IN_PORTIONS;

	__atomic_compare_exchange_n(&aqf->counting, &before, SETTLING, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	for (uint64_t at = 0; at < aqf->region_count; at++) {
		struct wn__region *region = &aqf->regions[at];

		wn__region_lock(region);
		flush_pending(aqf, region, region->pending);
		wn__region_unlock(region);
	}
	__atomic_store_n(&aqf->counting, EXACTLY, __ATOMIC_RELEASE);
}

/* Before regions are taken for a change that may add kept slots. True: the total is
 * exact, and a refusal is final. False: there is room for as much as all threads can
 * add at once, or it becomes scarce this very moment; on refusal, start over. */
static bool prepare(struct wn_aqf *aqf)
{
	uint64_t scarce = aqf->region_count * MAX_PENDING + MAX_NEW_SLOTS;

	if (counting(aqf) == EXACTLY)
		return true;
	if (__atomic_load_n(&aqf->kept, __ATOMIC_RELAXED) + scarce <= aqf->insert_limit)
		return false;
	settle(aqf);
	return true;
}

/* Count kept slots of the held quotient's region in or out, less what was claimed. */
static void account(struct hold *hold, int fingerprints, int counters)
{
	struct wn__region *home = &hold->aqf->regions[hold->quotient >> WN__REGION_SHIFT];
	int32_t pending = home->pending + fingerprints + counters - hold->claimed;

	hold->claimed = 0;
	if (pending >= MAX_PENDING || pending <= -MAX_PENDING ||
	    (pending != 0 && counting(hold->aqf) != IN_PORTIONS))
		flush_pending(hold->aqf, home, pending);
	else
		__atomic_store_n(&home->pending, pending, __ATOMIC_RELAXED);
	if (fingerprints)
		__atomic_store_n(&home->fingerprints, home->fingerprints + fingerprints,
				 __ATOMIC_RELAXED);
}

static void give_back_extensions(struct wn_aqf *aqf, unsigned count)
{
	if (count > 0)
		__atomic_fetch_sub(&aqf->extensions, count, __ATOMIC_RELAXED);
}

/* Raise a total by `more` unless it would pass the limit. It never does, not even for
 * a moment: others would be refused for that. */
static bool raise_within(uint64_t *total, uint64_t more, uint64_t limit)
{
	uint64_t now = __atomic_load_n(total, __ATOMIC_RELAXED);

	do
		if (now + more > limit)
			return false;
	while (!__atomic_compare_exchange_n(total, &now, now + more, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	return true;
}

static bool claim_kept(struct hold *hold, unsigned more, uint64_t limit)
{
	if (counting(hold->aqf) == IN_PORTIONS)
		return true;
	hold->refused = !raise_within(&hold->aqf->kept, more, limit);
	hold->claimed = hold->refused ? 0 : (int)more;
	return !hold->refused;
}

/* Kept slots that extensions leave room for. Of those that were learned in this filter
 * never less than insert_limit; one that was loaded may have more of them. */
static uint64_t room_beside_extensions(const struct wn_aqf *aqf)
{
	uint64_t extensions = __atomic_load_n(&aqf->extensions, __ATOMIC_RELAXED);

	return aqf->adapt_limit > extensions ? aqf->adapt_limit - extensions : 0;
}

/* Where counters have gone beyond insert_limit keys may follow them, as long as the keys
 * alone are within. */
static bool claim_key(struct hold *hold)
{
	const struct wn_aqf *aqf = hold->aqf;
	uint64_t room = room_beside_extensions(aqf);

	if (claim_kept(hold, 1, room < aqf->insert_limit ? room : aqf->insert_limit))
		return true;
	return wn__aqf_fingerprints(aqf) < aqf->insert_limit && claim_kept(hold, 1, room);
}

static bool claim_counters(struct hold *hold, unsigned more)
{
	return claim_kept(hold, more, room_beside_extensions(hold->aqf));
}

/* Extensions leave room for all keys still to come. */
static bool claim_extensions(struct hold *hold, unsigned more)
{
	struct wn_aqf *aqf = hold->aqf;
	uint64_t kept = __atomic_load_n(&aqf->kept, __ATOMIC_RELAXED);

	if (kept < aqf->insert_limit)
		kept = aqf->insert_limit;
	return kept < aqf->adapt_limit &&
	       raise_within(&aqf->extensions, more, aqf->adapt_limit - kept);
}

/* ---- finding ------------------------------------------------------------ */

/* A fingerprint of the held quotient's run, or the place for a new one. */
struct spot {
	struct wn__place place;
	uint64_t before; /* slot of the fingerprint before it in the run, or WN__NO_SLOT */
	uint32_t rank;
	bool last;   /* none comes behind it in the run */
	bool found;
	uint64_t seen; /* the highest slot looked at */
};

WN__INLINE bool occupied(const struct hold *hold)
{
	return wn__is_occupied(&hold->aqf->table, hold->quotient, true);
}

WN__INLINE uint64_t run_start(const struct hold *hold, bool fast)
{
	uint64_t lowest = UINT64_MAX;

	return wn__keylist_start(&hold->aqf->table, hold->quotient, true, fast, &lowest);
}

/* Where a new fingerprint goes: behind all of its minirun. */
WN__INLINE void look_for_back(const struct hold *hold, uint64_t remainder, struct spot *spot,
			      bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t slot = run_start(hold, fast);

	*spot = (struct spot){.before = WN__NO_SLOT, .last = true, .seen = slot};
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
WN__INLINE void look_for_rank(const struct hold *hold, uint64_t remainder, uint32_t rank,
			      struct spot *spot, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t slot = run_start(hold, fast);

	*spot = (struct spot){.before = WN__NO_SLOT, .seen = slot};
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

static void look_for_back_plain(const struct hold *hold, uint64_t remainder, struct spot *spot)
{
	look_for_back(hold, remainder, spot, false);
}

WN__TARGET_FAST static void look_for_back_fast(const struct hold *hold, uint64_t remainder,
					       struct spot *spot)
{
	look_for_back(hold, remainder, spot, true);
}

static void look_for_rank_plain(const struct hold *hold, uint64_t remainder, uint32_t rank,
				struct spot *spot)
{
	look_for_rank(hold, remainder, rank, spot, false);
}

WN__TARGET_FAST static void look_for_rank_fast(const struct hold *hold, uint64_t remainder,
					       uint32_t rank, struct spot *spot)
{
	look_for_rank(hold, remainder, rank, spot, true);
}

static struct spot find_back(struct hold *hold, uint64_t remainder)
{
	struct spot spot;

	do {
		if (hold->aqf->fast)
			look_for_back_fast(hold, remainder, &spot);
		else
			look_for_back_plain(hold, remainder, &spot);
	} while (reach(hold, spot.seen));
	return spot;
}

static struct spot find_rank(struct hold *hold, uint64_t remainder, uint32_t rank)
{
	struct spot spot;

	do {
		if (hold->aqf->fast)
			look_for_rank_fast(hold, remainder, rank, &spot);
		else
			look_for_rank_plain(hold, remainder, rank, &spot);
	} while (reach(hold, spot.seen));
	return spot;
}

/* Find the fingerprint that stands for `stored`. Bits that agree do not prove that it
 * does: two keys of a minirun without extensions look alike. The stamp does. */
static int find_stored(struct hold *hold, struct wn__fingerprint stored, struct wn_match match,
		       struct spot *spotp)
{
	const struct wn__table *table = &hold->aqf->table;

	if (match.minirun != wn__minirun_of(table, stored))
		return WN_ERR_MISMATCH;
	if (!match.known || !wn__stamp_is(wn__stamp_of(hold->aqf, match.minirun), match.stamp))
		return WN_ERR_STALE;
	*spotp = find_rank(hold, wn__remainder_of(table, stored), match.rank);
	if (!spotp->found)
		return WN_ERR_NOT_FOUND;
	return wn__extensions_match(table, &spotp->place, stored, true) ? 0 : WN_ERR_MISMATCH;
}

/* The first empty slot from `slot` on, or the table's end. A slot is empty if
 * everything of quotients up to its own number ends before it. */
WN__INLINE uint64_t look_for_empty(const struct hold *hold, uint64_t slot, bool fast)
{
	const struct wn__table *table = &hold->aqf->table;
	uint64_t lowest = UINT64_MAX;

	while (slot < wn__physical_slots(table)) {
		uint64_t end = wn__content_end(table, slot, true, true, fast, &lowest);

		if (end <= slot)
			break;
		slot = end;
	}
	return slot;
}

static uint64_t look_for_empty_plain(const struct hold *hold, uint64_t slot)
{
	return look_for_empty(hold, slot, false);
}

WN__TARGET_FAST static uint64_t look_for_empty_fast(const struct hold *hold, uint64_t slot)
{
	return look_for_empty(hold, slot, true);
}

static uint64_t find_empty(struct hold *hold, uint64_t slot)
{
	uint64_t empty;

	do
		empty = hold->aqf->fast ? look_for_empty_fast(hold, slot)
					: look_for_empty_plain(hold, slot);
	while (reach(hold, empty));
	return empty;
}

/* ---- moving ------------------------------------------------------------- */

/* Empty slots to be moved to one place of the held quotient's run. Found before room is
 * claimed, so that a claim never has to be taken back. */
struct empties {
	uint64_t slots[MAX_NEW_SLOTS];
	unsigned count;
};

/* False: the table ends before there are so many. */
static bool find_empties(struct hold *hold, uint64_t slot, unsigned count, struct empties *empties)
{
	empties->count = count;
	for (unsigned at = 0; at < count; at++, slot++) {
		empties->slots[at] = slot = find_empty(hold, slot);
		if (slot >= wn__physical_slots(&hold->aqf->table))
			return false;
	}
	return true;
}

static void open_slots(struct hold *hold, uint64_t slot, const struct empties *empties)
{
	for (unsigned at = 0; at < empties->count; at++)
		wn__open_gap(hold->aqf, hold->quotient, slot, empties->slots[at]);
}

/* Where a gap closed in the held quotient's run stops to move things: the first
 * slot that is empty or starts a run in its own place. */
WN__INLINE uint64_t look_for_stop(const struct hold *hold, bool fast)
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

static uint64_t look_for_stop_plain(const struct hold *hold)
{
	return look_for_stop(hold, false);
}

WN__TARGET_FAST static uint64_t look_for_stop_fast(const struct hold *hold)
{
	return look_for_stop(hold, true);
}

static uint64_t find_stop(struct hold *hold)
{
	uint64_t stop;

	do
		stop = hold->aqf->fast ? look_for_stop_fast(hold) : look_for_stop_plain(hold);
	while (reach(hold, stop));
	return stop;
}

static void close_slots(struct hold *hold, uint64_t slot, uint64_t count)
{
	while (count-- > 0)
		wn__close_gap(hold->aqf, hold->quotient, slot + count, find_stop(hold));
}

static void write_extra(struct wn_aqf *aqf, uint64_t slot, uint64_t content, bool counter)
{
	wn__set_slot(aqf, slot, content);
	wn__set_meta(aqf, WN__EXTENSIONS, slot, true);
	wn__set_meta(aqf, WN__RUNENDS, slot, counter);
}

/* ---- insert ------------------------------------------------------------- */

static int insert_held(struct hold *hold, uint64_t remainder, unsigned tag, uint32_t *rankp)
{
	struct wn_aqf *aqf = hold->aqf;
	struct spot spot = find_back(hold, remainder);
	uint64_t empty = find_empty(hold, spot.place.slot);

	if (empty >= wn__physical_slots(&aqf->table) || !claim_key(hold))
		return WN_ERR_FULL;
	wn__open_gap(aqf, hold->quotient, spot.place.slot, empty);
	wn__set_slot(aqf, spot.place.slot, remainder << aqf->table.tag_bits | tag);
	if (spot.last) {
		wn__set_meta(aqf, WN__RUNENDS, spot.place.slot, true);
		if (spot.before != WN__NO_SLOT)
			wn__set_meta(aqf, WN__RUNENDS, spot.before, false);
		wn__set_meta(aqf, WN__OCCUPIEDS, hold->quotient, true);
	}
	account(hold, 1, 0);
	*rankp = spot.rank;
	return 0;
}

int wn_aqf_insert_tagged(struct wn_aqf *aqf, struct wn_hash hash, unsigned tag,
			 struct wn_match *matchp)
{
	struct wn__fingerprint print = wn__split(hash, aqf->table.slots);
	struct wn_match match = {.minirun = wn__minirun_of(&aqf->table, print)};
	struct hold hold;
	bool final;
	int err;

	if (tag >> aqf->table.tag_bits)
		return WN_ERR_INVALID;
	do {
		final = prepare(aqf);
		hold = take(aqf, print.quotient);
		err = insert_held(&hold, wn__remainder_of(&aqf->table, print), tag, &match.rank);
		match.stamp = wn__stamp_read(wn__stamp_of(aqf, match.minirun));
		release(&hold);
	} while (hold.refused && !final);
	match.known = err == 0;
	if (matchp)
		*matchp = match;
	return err;
}

int wn_aqf_insert(struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp)
{
	return wn_aqf_insert_tagged(aqf, hash, 0, matchp);
}

/* ---- counts ------------------------------------------------------------- */

/* A count of 1 has no digits; a greater one is kept less one, lowest digit first. */
unsigned wn__counter_digits(uint64_t count, unsigned slot_bits)
{
	unsigned digits = 0;

	for (uint64_t rest = count - 1; rest; rest >>= slot_bits)
		digits++;
	return digits;
}

static uint64_t read_count(const struct wn__table *table, const struct wn__place *place)
{
	uint64_t first = place->slot + 1 + wn__extension_count(table, place, true);
	uint64_t count = 0;

	for (uint64_t slot = place->behind; slot-- > first; )
		count = count << table->slot_bits | wn__slot(table, slot, true);
	return count + 1;
}

static int write_count(struct hold *hold, const struct wn__place *place, uint64_t count)
{
	struct wn_aqf *aqf = hold->aqf;
	unsigned width = aqf->table.slot_bits;
	unsigned digits = wn__counter_digits(count, width);
	uint64_t first = place->slot + 1 + wn__extension_count(&aqf->table, place, true);
	unsigned had = (unsigned)(place->behind - first);
	uint64_t rest = count - 1;

	if (digits > had) {
		struct empties empties;

		if (!find_empties(hold, place->behind, digits - had, &empties) ||
		    !claim_counters(hold, digits - had))
			return WN_ERR_FULL;
		open_slots(hold, place->behind, &empties);
	} else {
		close_slots(hold, first + digits, had - digits);
	}
	for (unsigned at = 0; at < digits; at++, rest >>= width)
		write_extra(aqf, first + at, rest & wn__low_bits(width), true);
	account(hold, 0, (int)digits - (int)had);
	return 0;
}

int wn_aqf_count(const struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
		 uint64_t *countp)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct hold hold = take(aqf, print.quotient);
	struct spot spot;
	int err = find_stored(&hold, print, match, &spot);

	*countp = err ? 0 : read_count(&aqf->table, &spot.place);
	release(&hold);
	return err;
}

static int add_held(struct hold *hold, const struct spot *spot, uint64_t add)
{
	uint64_t count = read_count(&hold->aqf->table, &spot->place);

	if (add > UINT64_MAX - count)
		return WN_ERR_RANGE;
	return add > 0 ? write_count(hold, &spot->place, count + add) : 0;
}

int wn_aqf_count_add(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
		     uint64_t add)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct hold hold;
	bool final;
	int err;

	do {
		struct spot spot;

		final = prepare(aqf);
		hold = take(aqf, print.quotient);
		err = find_stored(&hold, print, match, &spot);
		if (!err)
			err = add_held(&hold, &spot, add);
		release(&hold);
	} while (hold.refused && !final);
	return err;
}

/* ---- tags --------------------------------------------------------------- */

int wn_aqf_tag(const struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
	       unsigned *tagp)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct hold hold = take(aqf, print.quotient);
	struct spot spot;
	int err = find_stored(&hold, print, match, &spot);

	*tagp = 0;
	if (!err)
		*tagp = (unsigned)(wn__slot(&aqf->table, spot.place.slot, true) &
				   wn__low_bits(aqf->table.tag_bits));
	release(&hold);
	return err;
}

int wn_aqf_set_tag(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match, unsigned tag)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct hold hold;
	struct spot spot;
	int err;

	if (tag >> aqf->table.tag_bits)
		return WN_ERR_INVALID;
	hold = take(aqf, print.quotient);
	err = find_stored(&hold, print, match, &spot);
	if (!err)
		wn__set_slot(aqf, spot.place.slot,
			     wn__remainder_of(&aqf->table, print) << aqf->table.tag_bits | tag);
	release(&hold);
	return err;
}

/* ---- delete ------------------------------------------------------------- */

static void remove_held(struct hold *hold, const struct spot *spot)
{
	struct wn_aqf *aqf = hold->aqf;
	uint64_t slot = spot->place.slot;
	unsigned extensions = wn__extension_count(&aqf->table, &spot->place, true);
	uint64_t stop;

	close_slots(hold, slot + 1, spot->place.behind - slot - 1);
	stop = find_stop(hold);
	if (spot->last && spot->before != WN__NO_SLOT)
		wn__set_meta(aqf, WN__RUNENDS, spot->before, true);
	else if (spot->last)
		wn__set_meta(aqf, WN__OCCUPIEDS, hold->quotient, false);
	wn__close_gap(aqf, hold->quotient, slot, stop);
	account(hold, -1, 0);
	give_back_extensions(aqf, extensions);
}

int wn_aqf_delete(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match, bool *removedp)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct hold hold = take(aqf, print.quotient);
	struct spot spot;
	int err = find_stored(&hold, print, match, &spot);
	bool removed = false;

	if (!err) {
		uint64_t count = read_count(&aqf->table, &spot.place);

		if (count > 1) {
			err = write_count(&hold, &spot.place, count - 1);
		} else if (!wn__stamp_raise(wn__stamp_of(aqf, match.minirun), match.stamp)) {
			err = WN_ERR_STALE;
		} else {
			remove_held(&hold, &spot);
			removed = true;
		}
	}
	release(&hold);
	if (removedp)
		*removedp = removed;
	return err;
}

/* ---- adapt -------------------------------------------------------------- */

static int extend_held(struct hold *hold, const struct wn__place *place,
		       struct wn__fingerprint stored, unsigned had, unsigned wanted)
{
	struct wn_aqf *aqf = hold->aqf;
	uint64_t slot = place->slot + 1 + had;
	struct empties empties;

	if (!find_empties(hold, slot, wanted - had, &empties) ||
	    !claim_extensions(hold, wanted - had))
		return WN_ERR_FULL;
	open_slots(hold, slot, &empties);
	for (unsigned at = had; at < wanted; at++, slot++)
		write_extra(aqf, slot,
			    wn__extension_of(&aqf->table, stored.hi, stored.lo, at)
				    << aqf->table.tag_bits,
			    false);
	return 0;
}

int wn_aqf_adapt(struct wn_aqf *aqf, struct wn_hash stored, struct wn_hash query,
		 struct wn_match match)
{
	const struct wn__table *table = &aqf->table;
	struct wn__fingerprint mine = wn__split(stored, table->slots);
	struct wn__fingerprint theirs = wn__split(query, table->slots);
	struct hold hold = take(aqf, mine.quotient);
	struct spot spot;
	int err = find_stored(&hold, mine, match, &spot);

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
	release(&hold);
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
static unsigned extensions_needed(struct hold *hold, uint64_t remainder, uint32_t rank,
				  struct prefix own)
{
	const struct wn__table *table = &hold->aqf->table;
	unsigned needed = 0;

	for (uint32_t other = 0;; other++) {
		struct spot spot = find_rank(hold, remainder, other);
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

static uint32_t length_held(struct hold *hold, uint64_t remainder)
{
	return find_back(hold, remainder).rank;
}

int wn_aqf_shorten(struct wn_aqf *aqf, uint64_t minirun, uint64_t *freedp)
{
	const struct wn__table *table = &aqf->table;
	uint64_t remainder = minirun & wn__low_bits(table->remainder_bits);
	uint64_t freed = 0;
	struct hold hold;

	if (freedp)
		*freedp = 0;
	if (minirun >> table->remainder_bits >= table->slots)
		return WN_ERR_INVALID;
	hold = take(aqf, minirun >> table->remainder_bits);
	/* No memory is asked for: undoing an insert must not be able to fail. */
	for (uint32_t rank = length_held(&hold, remainder); rank-- > 0; ) {
		struct spot spot = find_rank(&hold, remainder, rank);
		struct prefix own = read_prefix(table, &spot.place);
		unsigned had = own.bits / table->extension_bits;
		unsigned needed = extensions_needed(&hold, remainder, rank, own);

		close_slots(&hold, spot.place.slot + 1 + needed, had - needed);
		give_back_extensions(aqf, had - needed);
		freed += had - needed;
	}
	release(&hold);
	if (freedp)
		*freedp = freed;
	return 0;
}

uint32_t wn_aqf_minirun_length(const struct wn_aqf *aqf, uint64_t minirun)
{
	uint64_t quotient = minirun >> aqf->table.remainder_bits;
	struct hold hold;
	uint32_t length;

	if (quotient >= aqf->table.slots)
		return 0;
	hold = take(aqf, quotient);
	length = length_held(&hold, minirun & wn__low_bits(aqf->table.remainder_bits));
	release(&hold);
	return length;
}
