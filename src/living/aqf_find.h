/* aqf_find.h - where a writer finds a fingerprint, and how it makes room for slots there.
 *
 * What is found by looking into regions that are not held may be nonsense: each
 * step says how far it looked, and is done again once the regions up to there
 * are held. So every function here may take further regions. */
#ifndef WN_LIVING_AQF_FIND_H
#define WN_LIVING_AQF_FIND_H

#include "aqf_hold.h"
#include "aqf_room.h"

/* A fingerprint of the held quotient's run, or the place for a new one. */
struct wn__spot {
	struct wn__place place;
	uint64_t before; /* slot of the fingerprint before it in the run, or WN__NO_SLOT */
	uint32_t rank;
	bool last;   /* none comes behind it in the run */
	bool found;
	uint64_t seen; /* the highest slot looked at */
};

/* Where a new fingerprint goes: behind all of its minirun. */
struct wn__spot wn__find_back(struct wn__hold *hold, uint64_t remainder);

/* The fingerprint of a rank. */
struct wn__spot wn__find_rank(struct wn__hold *hold, uint64_t remainder, uint32_t rank);

/* Find the fingerprint that stands for `stored`. Bits that agree do not prove that it
 * does: two keys of a minirun without extensions look alike. The stamp does. */
int wn__find_stored(struct wn__hold *hold, struct wn__fingerprint stored, struct wn_match match,
		    struct wn__spot *spotp);

/* How far it is from a slot where `open` runs, 63 at most, have not ended to the first one where
 * none is open, which is empty; 64 or more if it is not within 64 slots. Bit 0 of `behind` is
 * set, the others say which slots come right behind a run; those of `occupieds` which quotients
 * are, from the one after the slot's own number on.
 *
 * Behind the last of the open runs there may be others open. With a branch for each, one would
 * be mispredicted, which takes longer than a few steps in vain: `steps` are taken at once. */
WN__INLINE unsigned wn__pass_runs(uint64_t occupieds, uint64_t behind, unsigned open,
				  unsigned steps, bool fast)
{
	unsigned far = 0;

	while (open > 0) {
		for (unsigned step = 0; step < steps; step++) {
			unsigned passed = wn__select(behind, open, fast);

			far += passed;
			passed &= 63;
			open = wn__popcount(occupieds & wn__lower_bits(passed));
			occupieds >>= passed;
			behind >>= passed;
		}
	}
	return far;
}

/* The first empty slot from `slot` on, or the table's end. */
uint64_t wn__find_empty(struct wn__hold *hold, uint64_t slot);

/* Empty slots to be moved to one place of the held quotient's run. Found before room is
 * claimed, so that a claim never has to be taken back. */
struct wn__empties {
	uint64_t slots[WN__MAX_NEW_SLOTS];
	unsigned count;
};

/* False: the table ends before there are so many. */
bool wn__find_empties(struct wn__hold *hold, uint64_t slot, unsigned count,
		      struct wn__empties *empties);

/* Where a gap closed in the held quotient's run stops to move things: the first
 * slot that is empty or starts a run in its own place. */
uint64_t wn__find_stop(struct wn__hold *hold);

/* Take `count` slots out from `slot` on. */
void wn__close_slots(struct wn__hold *hold, uint64_t slot, uint64_t count);

#endif /* WN_LIVING_AQF_FIND_H */
