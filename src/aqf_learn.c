/* aqf_learn.c - adaptive quotient filters in blocks, and what they have learned since.
 *
 * The block's filter says "maybe" and which fingerprint matched; the lessons know how
 * that fingerprint goes on. Where they refute the match, the next fingerprint of the
 * minirun has its turn, as in the living filter. Only when none is left the answer is
 * "no". */
#include <string.h>

#include <winnow/error.h>

#include "aqf_internal.h"
#include "learned_internal.h"

static struct wn__tail tail_of(struct wn__fingerprint print, unsigned remainder_bits)
{
	wn__u128 tail = ((wn__u128)print.hi << 64 | print.lo) << remainder_bits;

	return (struct wn__tail){(uint64_t)(tail >> 64), (uint64_t)tail};
}

static bool are_lessons_of(const struct wn__lessons *lessons, const struct wn_filter *filter)
{
	return memcmp(lessons->id, filter->info.id, WN_BLOCK_ID_SIZE) == 0;
}

int wn__filter_lessons(struct wn__learned *learned, const struct wn_filter *filter,
		       struct wn__lessons **lessonsp)
{
	const struct wn__table *table = filter->state;
	struct wn__shape shape;

	*lessonsp = NULL;
	if (filter->kind != &wn__kind_aqf)
		return WN_ERR_READONLY;
	shape = (struct wn__shape){table->slots, table->remainder_bits};
	return wn__learned_acquire(learned, filter->info.id, shape, lessonsp);
}

/* Out of line: filters that said "no" and filters without lessons do not come here. */
static bool __attribute__((noinline)) ask_lessons(const struct wn_filter *filter,
						  const struct wn__lessons *lessons,
						  struct wn_hash hash, struct wn_match *match)
{
	const struct wn__table *table = filter->state;
	struct wn__tail tail;

	/* A host that mixes up its readers must not lose keys. */
	if (!are_lessons_of(lessons, filter))
		return true;
	tail = tail_of(wn__split(hash, table->slots), table->remainder_bits);
	while (match->known && wn__lessons_refute(lessons, match->minirun, match->rank, tail)) {
		if (!wn__frozen_query_from(table, hash, match->rank + 1, match))
			return false;
	}
	return true;
}

bool wn__filter_query_learned(const struct wn_filter *filter, const struct wn__lessons *lessons,
			      struct wn_hash hash, struct wn_match *matchp)
{
	struct wn_match match = {0};
	bool maybe = !filter || filter->query(filter->state, hash, &match);

	if (maybe && filter && wn__lessons_exist(lessons))
		maybe = ask_lessons(filter, lessons, hash, &match);
	if (matchp)
		*matchp = match;
	return maybe;
}

/* ---- learning ----------------------------------------------------------- */

static uint64_t minirun_of(struct wn__fingerprint print, unsigned remainder_bits)
{
	return print.quotient << remainder_bits | print.hi >> (64 - remainder_bits);
}

int wn__lessons_learn(struct wn__lessons *lessons, struct wn_hash stored, struct wn_hash query,
		      const struct wn_match *match)
{
	unsigned bits = lessons->shape.remainder_bits;
	struct wn__fingerprint ours = wn__split(stored, lessons->shape.slots);
	struct wn__fingerprint other = wn__split(query, lessons->shape.slots);
	struct wn__tail tail = tail_of(ours, bits), its = tail_of(other, bits);
	unsigned piece = 0;

	if (!match->known)
		return WN_ERR_NOT_FOUND;
	if (minirun_of(ours, bits) != match->minirun || minirun_of(other, bits) != match->minirun)
		return WN_ERR_MISMATCH;
	while (piece < WN__PIECES && wn__tail_piece(tail, piece) == wn__tail_piece(its, piece))
		piece++;
	if (piece == WN__PIECES)
		return WN_ERR_UNFIXABLE;
	if (match->rank > WN__MAX_RANK)
		return WN_ERR_RANGE;
	return wn__lessons_add(lessons, match->minirun,
			       wn__lesson_word(match->rank, piece, wn__tail_piece(tail, piece)),
			       false);
}

/* Is the fingerprint at the match's rank one that `stored` matches? */
static bool fits_fingerprint(const struct wn__table *table, struct wn_hash stored,
			     const struct wn_match *match)
{
	struct wn_match found;

	return wn__frozen_query_from(table, stored, match->rank, &found) && found.known &&
	       found.minirun == match->minirun && found.rank == match->rank;
}

int wn__filter_learn(const struct wn_filter *filter, struct wn__lessons *lessons,
		     struct wn_hash stored, struct wn_hash query, const struct wn_match *match)
{
	if (filter->kind != &wn__kind_aqf)
		return WN_ERR_READONLY;
	if (!match->known)
		return WN_ERR_NOT_FOUND;
	if (!are_lessons_of(lessons, filter) || !fits_fingerprint(filter->state, stored, match))
		return WN_ERR_MISMATCH;
	return wn__lessons_learn(lessons, stored, query, match);
}
