/* aqf_room.h - how many slots of a living filter may be in use, and by what.
 *
 * Slots in use are kept ones (fingerprints and counters) or extensions. Keys have
 * insert_limit slots, whatever was learned; extensions have those from there to
 * adapt_limit. Before a change moves a slot, it claims the slots that it is going to use;
 * a claim that is refused leaves the filter as it was (WN_ERR_FULL).
 *
 * A change that may add kept slots is done like this:
 *
 *	do {
 *		final = wn__room_prepare(aqf);
 *		hold = wn__hold_take(aqf, quotient);
 *		... wn__room_claim_key(&hold) ... wn__room_account(&hold, 1, 0) ...
 *		wn__hold_release(&hold);
 *	} while (hold.refused && !final);
 *
 * The functions that every change calls are inline. */
#ifndef WN_LIVING_AQF_ROOM_H
#define WN_LIVING_AQF_ROOM_H

#include "aqf_hold.h"

/* Slots a region may have in use beyond what the filter's total knows. Small, so
 * that the total is trusted until the filter is all but full: for the last 0.8% of its
 * keys each insert writes it. 8 were 2% slower by one thread and 1 to 2% by two, 64 are no
 * faster (bench_filters --only=threads). */
#define WN__MAX_PENDING 32

/* The most slots one change can add: extensions of a 128-bit fraction in pieces
 * of 2 bits, or digits of a 64-bit count. */
#define WN__MAX_NEW_SLOTS 64

/* Far from the limit, kept slots are counted by region and added to the filter's total
 * in portions, so that writers do not fight over one number. Near it the total must be
 * exact: a sum over regions that others change meanwhile may count a key twice that is
 * being replaced, and refuse another for it. So the first to come near ends the
 * counting in portions, for good. */
enum wn__counting { WN__IN_PORTIONS, WN__SETTLING, WN__EXACTLY };

static inline unsigned wn__room_counting(const struct wn_aqf *aqf)
{
	return __atomic_load_n(&aqf->counting, __ATOMIC_ACQUIRE);
}

static inline void wn__room_flush(struct wn_aqf *aqf, struct wn__region *region, int32_t pending)
{
	__atomic_fetch_add(&aqf->kept, (uint64_t)(int64_t)pending, __ATOMIC_RELAXED);
	__atomic_store_n(&region->pending, 0, __ATOMIC_RELAXED);
}

/* End the counting in portions. */
void wn__room_settle(struct wn_aqf *aqf);

/* Before regions are taken for a change that may add kept slots. True: the total is
 * exact, and a refusal is final. False: there is room for as much as all threads can
 * add at once, or it becomes scarce this very moment; on refusal, start over. */
static inline bool wn__room_prepare(struct wn_aqf *aqf)
{
	uint64_t scarce = aqf->region_count * WN__MAX_PENDING + WN__MAX_NEW_SLOTS;

	if (wn__room_counting(aqf) == WN__EXACTLY)
		return true;
	if (__atomic_load_n(&aqf->kept, __ATOMIC_RELAXED) + scarce <= aqf->insert_limit)
		return false;
	wn__room_settle(aqf);
	return true;
}

/* Count kept slots of the held quotient's region in or out, less what was claimed. */
static inline void wn__room_account(struct wn__hold *hold, int fingerprints, int counters)
{
	struct wn__region *home = &hold->aqf->regions[hold->quotient >> WN__REGION_SHIFT];
	int32_t pending = home->pending + fingerprints + counters - hold->claimed;

	hold->claimed = 0;
	if (pending >= WN__MAX_PENDING || pending <= -WN__MAX_PENDING ||
	    (pending != 0 && wn__room_counting(hold->aqf) != WN__IN_PORTIONS))
		wn__room_flush(hold->aqf, home, pending);
	else
		__atomic_store_n(&home->pending, pending, __ATOMIC_RELAXED);
	if (fingerprints)
		__atomic_store_n(&home->fingerprints, home->fingerprints + fingerprints,
				 __ATOMIC_RELAXED);
}

static inline void wn__room_give_back(struct wn_aqf *aqf, unsigned count)
{
	if (count > 0)
		__atomic_fetch_sub(&aqf->extensions, count, __ATOMIC_RELAXED);
}

/* Room for one more key, once the total is exact. */
bool wn__room_claim_scarce_key(struct wn_aqf *aqf);

/* Room for one more key, or for `more` slots of counters or extensions. wn__room_account()
 * enters the kept ones; extensions are entered by the claim. */
static inline bool wn__room_claim_key(struct wn__hold *hold)
{
	if (WN__LIKELY(wn__room_counting(hold->aqf) == WN__IN_PORTIONS))
		return true;
	hold->claimed = wn__room_claim_scarce_key(hold->aqf);
	hold->refused = !hold->claimed;
	return hold->claimed;
}

bool wn__room_claim_counters(struct wn__hold *hold, unsigned more);
bool wn__room_claim_extensions(struct wn__hold *hold, unsigned more);

#endif /* WN_LIVING_AQF_ROOM_H */
