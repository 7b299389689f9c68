/* query.c - asking a frozen seesaw counting filter.
 *
 * As in the paper's Algorithm 3: a key whose initial cells are all set is taken; one of
 * whose cells two or more are empty is not, for at most one function of a key is ever
 * modulated; and with one empty cell the modulator says which function stands in.
 *
 * Straight code for the first eight functions: of a negative key about half of its
 * cells are empty, and after eight of them nearly every one is known. A branch after each
 * would be mispredicted every second time. */
#include <stdlib.h>

#include "sscf_frozen.h"

#define FIRST_PROBES 8
#define BATCH 16
#define LINE 64
#define SPREAD_OUT 1024 /* blocks above this are fetched cell by cell */

/* With negative bits more is known: a key's modulated function is the first whose cell is
 * sealed (sscf.c). That cell must be the empty one. */
static bool is_first_sealed_empty(const struct wn__sscf_frozen *frozen, struct wn_hash hash)
{
	const struct wn__sscf_params *params = &frozen->params;
	uint64_t block = wn__sscf_block(hash, params->blocks) * params->block_cells;

	for (unsigned i = 0; i < params->hashes; i++) {
		uint64_t cell = block + wn__sscf_place(hash, i, params->block_cells);

		if (wn__sscf_bit(frozen->negatives, cell))
			return !wn__sscf_bit(frozen->cells, cell);
	}
	return false;
}

/* The second round: one initial cell is empty. For a hash that has been varied. */
static bool __attribute__((noinline)) second_round(const struct wn__sscf_frozen *frozen,
						   struct wn_hash hash)
{
	const struct wn__sscf_params *params = &frozen->params;
	uint64_t cell;
	unsigned value;

	if (params->modulator_cells == 0)
		return false;
	value = wn__sscf_modulator_value(
		frozen, wn__sscf_modulator_cell(hash, params->modulator_cells));
	if (value == 0)
		return false;
	cell = wn__sscf_block(hash, params->blocks) * params->block_cells +
	       wn__sscf_place(hash, params->hashes + value - 1, params->block_cells);
	if (frozen->negatives && (wn__sscf_bit(frozen->negatives, cell) ||
				  !is_first_sealed_empty(frozen, hash)))
		return false;
	return wn__sscf_bit(frozen->cells, cell);
}

/* How many of the functions from `first` to before `end` have an empty cell. */
WN__INLINE unsigned count_empty(const struct wn__sscf_frozen *frozen, struct wn_hash hash,
				uint64_t block, unsigned first, unsigned end)
{
	unsigned set = 0;

	for (unsigned i = first; i < end; i++)
		set += wn__sscf_bit(frozen->cells,
				    block + wn__sscf_place(hash, i, frozen->params.block_cells));
	return end - first - set;
}

WN__INLINE bool ask(const struct wn__sscf_frozen *frozen, struct wn_hash given, unsigned hashes)
{
	struct wn_hash hash = wn__sscf_vary(given, frozen->params.variant);
	uint64_t block = wn__sscf_block(hash, frozen->params.blocks) * frozen->params.block_cells;
	unsigned first = hashes < FIRST_PROBES ? hashes : FIRST_PROBES;
	unsigned empty = count_empty(frozen, hash, block, 0, first);

	if (WN__LIKELY(empty > 1))
		return false;
	for (unsigned i = first; i < hashes && empty <= 1; i++)
		empty += count_empty(frozen, hash, block, i, i + 1);
	if (empty != 1)
		return empty == 0;
	return second_round(frozen, hash);
}

WN__INLINE void fetch(const struct wn__sscf_frozen *frozen, struct wn_hash given, unsigned hashes)
{
	struct wn_hash hash = wn__sscf_vary(given, frozen->params.variant);
	uint32_t block_cells = frozen->params.block_cells;
	uint64_t block = wn__sscf_block(hash, frozen->params.blocks) * block_cells;

	if (block_cells <= SPREAD_OUT) {
		for (uint64_t at = block; at < block + block_cells; at += LINE * 8)
			__builtin_prefetch(frozen->cells + at / 8);
		__builtin_prefetch(frozen->cells + (block + block_cells - 1) / 8);
		return;
	}
	for (unsigned i = 0; i < hashes && i < FIRST_PROBES; i++)
		__builtin_prefetch(frozen->cells +
				   (block + wn__sscf_place(hash, i, block_cells)) / 8);
}

WN__INLINE void ask_batch(const struct wn__sscf_frozen *frozen, const struct wn_hash *asked,
			  size_t count, bool *answersp, unsigned hashes)
{
	for (size_t done = 0; done < count; done += BATCH) {
		size_t end = count - done < BATCH ? count : done + BATCH;

		for (size_t i = done; i < end; i++)
			fetch(frozen, asked[i], hashes);
		for (size_t i = done; i < end; i++)
			answersp[i] = ask(frozen, asked[i], hashes);
	}
}

WN__INLINE bool ask_and_tell(const void *state, struct wn_hash hash, struct wn_match *matchp,
			     unsigned hashes)
{
	bool maybe = ask(state, hash, hashes);

	if (maybe && matchp)
		*matchp = (struct wn_match){.known = false};
	return maybe;
}

bool wn__sscf_query(const void *state, struct wn_hash hash, struct wn_match *matchp)
{
	const struct wn__sscf_frozen *frozen = state;

	return ask_and_tell(state, hash, matchp, frozen->params.hashes);
}

void wn__sscf_query_batch(const void *state, const struct wn_hash *hashes, size_t count,
			  bool *answersp)
{
	const struct wn__sscf_frozen *frozen = state;

	ask_batch(frozen, hashes, count, answersp, frozen->params.hashes);
}

/* The usual numbers of functions have code of their own, without loops. */
#define FOR_HASHES(k)                                                                              \
	static bool query_##k(const void *state, struct wn_hash hash, struct wn_match *matchp)     \
	{                                                                                          \
		return ask_and_tell(state, hash, matchp, k);                                       \
	}                                                                                          \
	static void batch_##k(const void *state, const struct wn_hash *hashes, size_t count,       \
			      bool *answersp)                                                      \
	{                                                                                          \
		ask_batch(state, hashes, count, answersp, k);                                      \
	}

FOR_HASHES(3)
FOR_HASHES(4)
FOR_HASHES(5)
FOR_HASHES(6)
FOR_HASHES(7)
FOR_HASHES(8)
FOR_HASHES(9)
FOR_HASHES(10)
FOR_HASHES(11)
FOR_HASHES(12)

static const struct {
	wn__query_fn *query;
	wn__query_batch_fn *batch;
} by_hashes[] = {
	[3] = {query_3, batch_3},    [4] = {query_4, batch_4},    [5] = {query_5, batch_5},
	[6] = {query_6, batch_6},    [7] = {query_7, batch_7},    [8] = {query_8, batch_8},
	[9] = {query_9, batch_9},    [10] = {query_10, batch_10}, [11] = {query_11, batch_11},
	[12] = {query_12, batch_12},
};

static bool has_own_code(unsigned hashes)
{
	return hashes < sizeof(by_hashes) / sizeof(by_hashes[0]) && by_hashes[hashes].query;
}

wn__query_fn *wn__sscf_query_for(unsigned hashes)
{
	return has_own_code(hashes) ? by_hashes[hashes].query : wn__sscf_query;
}

wn__query_batch_fn *wn__sscf_batch_for(unsigned hashes)
{
	return has_own_code(hashes) ? by_hashes[hashes].batch : wn__sscf_query_batch;
}
