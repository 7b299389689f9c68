/* aqf_hold.h - the regions that a writer holds during one change. */
#ifndef WN_LIVING_AQF_HOLD_H
#define WN_LIVING_AQF_HOLD_H

#include "aqf_internal.h"

struct wn__hold {
	struct wn_aqf *aqf;
	uint64_t low, high; /* regions held, both included */
	uint64_t quotient;
	int claimed;  /* kept slots that the filter's total has already */
	bool refused; /* a claim was, by the filter's total */
};

WN__INLINE void wn__hold_release(struct wn__hold *hold)
{
	for (uint64_t at = hold->low; at <= hold->high; at++)
		wn__region_unlock(&hold->aqf->regions[at]);
}

/* Take the quotient's region. */
WN__INLINE struct wn__hold wn__hold_home(const struct wn_aqf *aqf, uint64_t quotient)
{
	uint64_t region = quotient >> WN__REGION_SHIFT;
	struct wn__hold hold = {
		.aqf = (struct wn_aqf *)(uintptr_t)aqf,
		.low = region,
		.high = region,
		.quotient = quotient,
	};
	const unsigned char *ahead =
		aqf->table.words + (quotient >> 6) * aqf->table.block_words * 8;

	/* Locking is a barrier: what is behind it does not begin before it is done. */
	__builtin_prefetch(ahead, 1);
	__builtin_prefetch(ahead + 64, 1);
	__builtin_prefetch(aqf->table.offsets + (quotient >> 6), 1);
	wn__region_lock(&hold.aqf->regions[region]);
	return hold;
}

/* Take the quotient's region. Where the quotient's block does not know its offset, take
 * also the regions down to the block before it that does. */
static inline struct wn__hold wn__hold_take(const struct wn_aqf *aqf, uint64_t quotient)
{
	struct wn__hold hold = wn__hold_home(aqf, quotient);

	for (;;) {
		uint64_t block = quotient >> 6;

		while (block > 0 && wn__offset_byte(&aqf->table, block) == WN__OFFSET_MANY)
			block--;
		block >>= WN__REGION_SHIFT - 6;
		if (block >= hold.low)
			return hold;
		wn__hold_release(&hold);
		hold.low = block;
		for (uint64_t at = hold.low; at <= hold.high; at++)
			wn__region_lock(&hold.aqf->regions[at]);
	}
}

/* Hold everything up to `slot`. True if that took more regions: then what was
 * read there before must be read again. */
static inline bool wn__hold_reach(struct wn__hold *hold, uint64_t slot)
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

#endif /* WN_LIVING_AQF_HOLD_H */
