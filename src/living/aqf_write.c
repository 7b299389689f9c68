/* aqf_write.c - changing a living filter: count, tag, delete. Inserts are in aqf_insert.c.
 *
 * Every change has the same shape. Take the regions (aqf_hold.h); find the
 * fingerprint (aqf_find.h); see that there is room for all of it (aqf_room.h); only then
 * move slots. So a change is done whole or not at all. */
#include <winnow/error.h>

#include "aqf_find.h"

/* ---- counts ------------------------------------------------------------- */

static uint64_t read_count(const struct wn__table *table, const struct wn__place *place)
{
	uint64_t first = place->slot + 1 + wn__extension_count(table, place, true);
	uint64_t count = 0;

	for (uint64_t slot = place->behind; slot-- > first; )
		count = count << table->slot_bits | wn__slot(table, slot, true);
	return count + 1;
}

static int write_count(struct wn__hold *hold, const struct wn__place *place, uint64_t count)
{
	struct wn_aqf *aqf = hold->aqf;
	unsigned width = aqf->table.slot_bits;
	unsigned digits = wn__counter_digits(count, width);
	uint64_t first = place->slot + 1 + wn__extension_count(&aqf->table, place, true);
	unsigned had = (unsigned)(place->behind - first);
	uint64_t rest = count - 1;

	if (digits > had) {
		struct wn__empties empties;

		if (!wn__find_empties(hold, place->behind, digits - had, &empties) ||
		    !wn__room_claim_counters(hold, digits - had))
			return WN_ERR_FULL;
		for (unsigned at = had; at < digits; at++)
			wn__insert_slot(aqf, hold->quotient, first + at, empties.slots[at - had],
					(struct wn__slot_bits){.runend = true, .extension = true});
	} else {
		wn__close_slots(hold, first + digits, had - digits);
	}
	for (unsigned at = 0; at < digits; at++, rest >>= width)
		wn__set_slot(aqf, first + at, rest & wn__low_bits(width));
	wn__room_account(hold, 0, (int)digits - (int)had);
	return 0;
}

int wn_aqf_count(const struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
		 uint64_t *countp)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct wn__hold hold = wn__hold_take(aqf, print.quotient);
	struct wn__spot spot;
	int err = wn__find_stored(&hold, print, match, &spot);

	*countp = err ? 0 : read_count(&aqf->table, &spot.place);
	wn__hold_release(&hold);
	return err;
}

static int add_held(struct wn__hold *hold, const struct wn__spot *spot, uint64_t add)
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
	struct wn__hold hold;
	bool final;
	int err;

	do {
		struct wn__spot spot;

		final = wn__room_prepare(aqf);
		hold = wn__hold_take(aqf, print.quotient);
		err = wn__find_stored(&hold, print, match, &spot);
		if (!err)
			err = add_held(&hold, &spot, add);
		wn__hold_release(&hold);
	} while (hold.refused && !final);
	return err;
}

/* ---- tags --------------------------------------------------------------- */

int wn_aqf_tag(const struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
	       unsigned *tagp)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct wn__hold hold = wn__hold_take(aqf, print.quotient);
	struct wn__spot spot;
	int err = wn__find_stored(&hold, print, match, &spot);

	*tagp = 0;
	if (!err)
		*tagp = (unsigned)(wn__slot(&aqf->table, spot.place.slot, true) &
				   wn__low_bits(aqf->table.tag_bits));
	wn__hold_release(&hold);
	return err;
}

int wn_aqf_set_tag(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match, unsigned tag)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct wn__hold hold;
	struct wn__spot spot;
	int err;

	if (tag >> aqf->table.tag_bits)
		return WN_ERR_INVALID;
	hold = wn__hold_take(aqf, print.quotient);
	err = wn__find_stored(&hold, print, match, &spot);
	if (!err)
		wn__set_slot(aqf, spot.place.slot,
			     wn__remainder_of(&aqf->table, print) << aqf->table.tag_bits | tag);
	wn__hold_release(&hold);
	return err;
}

/* ---- delete ------------------------------------------------------------- */

static void remove_held(struct wn__hold *hold, const struct wn__spot *spot)
{
	struct wn_aqf *aqf = hold->aqf;
	uint64_t slot = spot->place.slot;
	unsigned extensions = wn__extension_count(&aqf->table, &spot->place, true);
	uint64_t stop;

	wn__close_slots(hold, slot + 1, spot->place.behind - slot - 1);
	stop = wn__find_stop(hold);
	if (spot->last && spot->before != WN__NO_SLOT)
		wn__set_meta(aqf, WN__RUNENDS, spot->before, true);
	else if (spot->last)
		wn__set_meta(aqf, WN__OCCUPIEDS, hold->quotient, false);
	wn__close_gap(aqf, hold->quotient, slot, stop);
	wn__room_account(hold, -1, 0);
	wn__room_give_back(aqf, extensions);
}

int wn_aqf_delete(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match, bool *removedp)
{
	struct wn__fingerprint print = wn__split(stored, aqf->table.slots);
	struct wn__hold hold = wn__hold_take(aqf, print.quotient);
	struct wn__spot spot;
	int err = wn__find_stored(&hold, print, match, &spot);
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
	wn__hold_release(&hold);
	if (removedp)
		*removedp = removed;
	return err;
}
