/* aqf_query.c - queries over a living filter.
 *
 * The search is that of kinds/aqf/aqf_search.h, done under the versions of the regions it
 * reads (aqf_lock.h) and repeated when a writer was there meanwhile. */
#include "aqf_internal.h"
#include "kinds/aqf/aqf_search.h"

WN__INLINE uint64_t stamp_of_print(const struct wn_aqf *aqf, struct wn__fingerprint print)
{
	return wn__stamp_read(wn__stamp_of(aqf, wn__minirun_of(&aqf->table, print)));
}

/* A glance under its region's version; WN__WALK also when a writer was at it. A stamp read
 * before the versions are compared is that of the ranks that were seen. */
WN__INLINE enum wn__answer live_glance(const struct wn_aqf *aqf, struct wn__fingerprint print,
				       uint64_t *stampp, bool fast)
{
	uint64_t region = print.quotient >> WN__REGION_SHIFT;
	uint64_t begun = wn__regions_begin(aqf->regions, region, region);
	enum wn__answer answer;

	/* A glance looks into the block behind. */
	if (begun & 1 || ((print.quotient | 63) + 1) >> WN__REGION_SHIFT != region)
		return WN__WALK;
	answer = wn__glance(&aqf->table, print, true, true, fast);
	if (answer == WN__YES)
		*stampp = stamp_of_print(aqf, print);
	return wn__regions_unchanged(aqf->regions, region, region, begun) ? answer : WN__WALK;
}

/* Walk until the regions walked through stood still. */
WN__INLINE bool live_walk(const struct wn_aqf *aqf, struct wn__fingerprint print, uint32_t rank,
			  struct wn__walk *state, bool fast)
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
		*state = (struct wn__walk){.lowest_block = UINT64_MAX};
		answer = wn__is_occupied(&aqf->table, print.quotient, true) &&
			 wn__walk_run(&aqf->table, print, rank, state, true, fast);
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
	*state = (struct wn__walk){0};
	return true;
}

static bool __attribute__((noinline)) live_walk_plain(const struct wn_aqf *aqf,
						      struct wn__fingerprint print, uint32_t rank,
						      struct wn__walk *state)
{
	return live_walk(aqf, print, rank, state, false);
}

WN__TARGET_FAST static bool __attribute__((noinline))
live_walk_fast(const struct wn_aqf *aqf, struct wn__fingerprint print, uint32_t rank,
	       struct wn__walk *state)
{
	return live_walk(aqf, print, rank, state, true);
}

static bool walk_from(const struct wn_aqf *aqf, struct wn__fingerprint print, uint32_t rank,
		      struct wn__walk *state)
{
	return aqf->fast ? live_walk_fast(aqf, print, rank, state)
			 : live_walk_plain(aqf, print, rank, state);
}

WN__INLINE bool live_query(const struct wn_aqf *aqf, struct wn__fingerprint print,
			   struct wn_match *matchp, bool fast)
{
	struct wn__walk state;
	uint64_t stamp = 0; /* gcc 12 at -O1 does not see that a "yes" sets it */

	switch (live_glance(aqf, print, &stamp, fast)) {
	case WN__NO:
		return false;
	case WN__YES:
		state.match = (struct wn_match){
			.minirun = wn__minirun_of(&aqf->table, print),
			.known = true,
			.stamp = stamp,
		};
		break;
	case WN__WALK:
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
	struct wn__walk state;

	if (!walk_from(aqf, wn__split(hash, aqf->table.slots), 0, &state))
		return false;
	if (matchp)
		*matchp = state.match;
	*tagp = state.tag;
	return true;
}

bool wn_aqf_query_next(const struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp)
{
	struct wn__walk state;

	if (!matchp->known ||
	    !walk_from(aqf, wn__split(hash, aqf->table.slots), matchp->rank + 1, &state))
		return false;
	*matchp = state.match;
	return true;
}

void wn_aqf_query_batch(const struct wn_aqf *aqf, const struct wn_hash *hashes, size_t count,
			bool *answersp)
{
	for (size_t done = 0; done < count; done += WN__BATCH) {
		size_t here = count - done < WN__BATCH ? count - done : WN__BATCH;

		for (size_t i = done; i < done + here; i++)
			wn__prefetch(&aqf->table, wn__split(hashes[i], aqf->table.slots).quotient);
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
