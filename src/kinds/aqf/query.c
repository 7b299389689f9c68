/* query.c - queries over a frozen table. */
#include "aqf_internal.h"
#include "aqf_search.h"

WN__INLINE bool frozen_walk(const struct wn__table *table, struct wn_hash hash,
			    struct wn_match *matchp, bool fast)
{
	struct wn__fingerprint print = wn__split(hash, table->slots);
	struct wn__walk state = {.lowest_block = UINT64_MAX};

	if (!wn__is_occupied(table, print.quotient, false) ||
	    !wn__walk_run(table, print, 0, &state, false, fast))
		return false;
	if (matchp)
		*matchp = state.match;
	return true;
}

/* Out of line, so that the common case needs no stack frame for it. */
static bool __attribute__((noinline)) frozen_walk_plain(const struct wn__table *table,
							struct wn_hash hash,
							struct wn_match *matchp)
{
	return frozen_walk(table, hash, matchp, false);
}

WN__TARGET_FAST static bool __attribute__((noinline))
frozen_walk_fast(const struct wn__table *table, struct wn_hash hash, struct wn_match *matchp)
{
	return frozen_walk(table, hash, matchp, true);
}

WN__INLINE bool frozen_query(const struct wn__table *table, struct wn_hash hash,
			     struct wn_match *matchp, bool extended, bool fast)
{
	struct wn__fingerprint print = wn__split(hash, table->slots);

	switch (wn__glance(table, print, false, extended, fast)) {
	case WN__NO:
		return false;
	case WN__YES:
		if (matchp)
			*matchp = (struct wn_match){
				.minirun = wn__minirun_of(table, print),
				.known = true,
			};
		return true;
	case WN__WALK:
		break;
	}
	return fast ? frozen_walk_fast(table, hash, matchp)
		    : frozen_walk_plain(table, hash, matchp);
}

/* One query and one batch function per form of table and CPU. */
#define FROZEN_FUNCTIONS(name, target, extended, fast)                                             \
	target static bool query_##name(const void *state, struct wn_hash hash,                    \
					struct wn_match *matchp)                                   \
	{                                                                                          \
		return frozen_query(state, hash, matchp, extended, fast);                          \
	}                                                                                          \
	target static void batch_##name(const void *state, const struct wn_hash *hashes,           \
					size_t count, bool *answersp)                              \
	{                                                                                          \
		frozen_batch(state, hashes, count, answersp, extended, fast);                      \
	}

WN__INLINE void frozen_batch(const struct wn__table *table, const struct wn_hash *hashes,
			     size_t count, bool *answersp, bool extended, bool fast)
{
	for (size_t done = 0; done < count; done += WN__BATCH) {
		size_t here = count - done < WN__BATCH ? count - done : WN__BATCH;

		for (size_t i = 0; i < here; i++)
			wn__prefetch(table, wn__split(hashes[done + i], table->slots).quotient);
		for (size_t i = 0; i < here; i++)
			answersp[done + i] =
				frozen_query(table, hashes[done + i], NULL, extended, fast);
	}
}

FROZEN_FUNCTIONS(plain, , false, false)
FROZEN_FUNCTIONS(extended, , true, false)
FROZEN_FUNCTIONS(plain_fast, WN__TARGET_FAST, false, true)
FROZEN_FUNCTIONS(extended_fast, WN__TARGET_FAST, true, true)

/* Tags are for living filters; a frozen filter that has them is asked slowly. */
static bool query_tagged(const void *state, struct wn_hash hash, struct wn_match *matchp)
{
	return frozen_walk_plain(state, hash, matchp);
}

static void batch_tagged(const void *state, const struct wn_hash *hashes, size_t count,
			 bool *answersp)
{
	for (size_t i = 0; i < count; i++)
		answersp[i] = query_tagged(state, hashes[i], NULL);
}

bool wn__frozen_query_portable(const void *state, struct wn_hash hash, struct wn_match *matchp)
{
	const struct wn__table *table = state;

	if (table->tag_bits)
		return query_tagged(state, hash, matchp);
	return table->meta_words == 3 ? query_extended(state, hash, matchp)
				      : query_plain(state, hash, matchp);
}

void wn__frozen_batch_portable(const void *state, const struct wn_hash *hashes, size_t count,
			       bool *answersp)
{
	const struct wn__table *table = state;

	if (table->tag_bits)
		batch_tagged(state, hashes, count, answersp);
	else if (table->meta_words == 3)
		batch_extended(state, hashes, count, answersp);
	else
		batch_plain(state, hashes, count, answersp);
}

wn__query_fn *wn__frozen_query_for(const struct wn__table *table)
{
	if (!wn__cpu_is_fast() || table->tag_bits)
		return wn__frozen_query_portable;
	return table->meta_words == 3 ? query_extended_fast : query_plain_fast;
}

wn__query_batch_fn *wn__frozen_batch_for(const struct wn__table *table)
{
	if (!wn__cpu_is_fast() || table->tag_bits)
		return wn__frozen_batch_portable;
	return table->meta_words == 3 ? batch_extended_fast : batch_plain_fast;
}

bool wn__frozen_query_from(const struct wn__table *table, struct wn_hash hash, uint32_t rank,
			   struct wn_match *matchp)
{
	struct wn__fingerprint print = wn__split(hash, table->slots);
	struct wn__walk state = {.lowest_block = UINT64_MAX};

	if (!wn__is_occupied(table, print.quotient, false) ||
	    !wn__walk_run(table, print, rank, &state, false, false))
		return false;
	*matchp = state.match;
	return true;
}
