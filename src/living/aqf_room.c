/* aqf_room.c - claiming slots of a living filter; see aqf_room.h. */
#include "aqf_room.h"

/* Whoever takes a region after us finds that nothing may be pending; what was before is
 * added here. A second thread that comes meanwhile does the same and need not wait. */
void wn__room_settle(struct wn_aqf *aqf)
{
	unsigned before = WN__IN_PORTIONS;

	__atomic_compare_exchange_n(&aqf->counting, &before, WN__SETTLING, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	for (uint64_t at = 0; at < aqf->region_count; at++) {
		struct wn__region *region = &aqf->regions[at];

		wn__region_lock(region);
		wn__room_flush(aqf, region, region->pending);
		wn__region_unlock(region);
	}
	__atomic_store_n(&aqf->counting, WN__EXACTLY, __ATOMIC_RELEASE);
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

/* Kept slots that extensions leave room for. Of those that were learned in this filter
 * never less than insert_limit; one that was loaded may have more of them. */
static uint64_t room_beside_extensions(const struct wn_aqf *aqf)
{
	uint64_t extensions = __atomic_load_n(&aqf->extensions, __ATOMIC_RELAXED);

	return aqf->adapt_limit > extensions ? aqf->adapt_limit - extensions : 0;
}

/* Where counters have gone beyond insert_limit keys may follow them, as long as the keys
 * alone are within. */
bool wn__room_claim_scarce_key(struct wn_aqf *aqf)
{
	uint64_t room = room_beside_extensions(aqf);

	if (raise_within(&aqf->kept, 1, room < aqf->insert_limit ? room : aqf->insert_limit))
		return true;
	return wn__aqf_fingerprints(aqf) < aqf->insert_limit && raise_within(&aqf->kept, 1, room);
}

bool wn__room_claim_counters(struct wn__hold *hold, unsigned more)
{
	struct wn_aqf *aqf = hold->aqf;

	if (wn__room_counting(aqf) == WN__IN_PORTIONS)
		return true;
	hold->refused = !raise_within(&aqf->kept, more, room_beside_extensions(aqf));
	hold->claimed = hold->refused ? 0 : (int)more;
	return !hold->refused;
}

/* Extensions leave room for all keys still to come. */
bool wn__room_claim_extensions(struct wn__hold *hold, unsigned more)
{
	struct wn_aqf *aqf = hold->aqf;
	uint64_t kept = __atomic_load_n(&aqf->kept, __ATOMIC_RELAXED);

	if (kept < aqf->insert_limit)
		kept = aqf->insert_limit;
	return kept < aqf->adapt_limit &&
	       raise_within(&aqf->extensions, more, aqf->adapt_limit - kept);
}
