/* filter_lessons.c - filters in blocks, and what they have learned since.
 *
 * A kind with fingerprints says "maybe" and which fingerprint matched; the lessons know how
 * that fingerprint goes on. Where they refute the match, the next fingerprint of the minirun
 * has its turn, as in the living filter. Only when none is left the answer is "no".
 *
 * A kind without fingerprints only says "maybe". Its keys lie in the miniruns of the plain
 * shape (kinds/shape.h) all the same, and so does the query. The lessons may know how many stored
 * keys there are in the query's minirun, and how each of them goes on. If all of them go on
 * differently the query is none of them, and the answer is "no". A stored key is never
 * denied: its own rank agrees with every lesson on it. */
#include <string.h>

#include <winnow/error.h>

#include "base/bits.h"
#include "kinds/kind.h"
#include "lessons_internal.h"

static struct wn__tail tail_of(struct wn__fingerprint print, unsigned remainder_bits)
{
	wn__u128 tail = ((wn__u128)print.hi << 64 | print.lo) << remainder_bits;

	return (struct wn__tail){(uint64_t)(tail >> 64), (uint64_t)tail};
}

static bool are_lessons_of(const struct wn__lessons *lessons, const struct wn_filter *filter)
{
	return memcmp(lessons->id, filter->info.id, WN_BLOCK_ID_SIZE) == 0;
}

int wn__filter_lessons(struct wn__registry *registry, const struct wn_filter *filter,
		       struct wn__lessons **lessonsp)
{
	*lessonsp = NULL;
	if (filter->kind->learns != WN__LEARNS_BY_LESSON)
		return WN_ERR_READONLY;
	return wn__registry_acquire(registry, filter->info.id,
				   wn__block_shape(&filter->info, filter->kind), lessonsp);
}

/* ---- asking ------------------------------------------------------------- */

/* Out of line: filters that said "no" and filters without lessons do not come here. */
static bool __attribute__((noinline)) ask_lessons(const struct wn_filter *filter,
						  const struct wn__lessons *lessons,
						  struct wn_hash hash, struct wn_match *match)
{
	const struct wn__shape *shape = &lessons->shape;
	struct wn__tail tail;

	/* A host that mixes up its readers must not lose keys. */
	if (!are_lessons_of(lessons, filter))
		return true;
	tail = tail_of(wn__split(hash, shape->slots), shape->remainder_bits);
	if (!filter->query_from)
		return !wn__lessons_refute_minirun(lessons, match->minirun, tail);
	while (match->known && wn__lessons_refute(lessons, match->minirun, match->rank, tail)) {
		if (!filter->query_from(filter->state, hash, match->rank + 1, match))
			return false;
	}
	return true;
}

bool wn__lessons_deny(const struct wn__lessons *lessons, uint64_t minirun, struct wn_hash hash)
{
	const struct wn__shape *shape = &lessons->shape;

	return wn__lessons_refute_minirun(lessons, minirun,
					  tail_of(wn__split(hash, shape->slots),
						  shape->remainder_bits));
}

/* Where the query is in the plain shape. */
static struct wn_match place_of(const struct wn_filter *filter, struct wn_hash hash)
{
	struct wn__shape shape = wn__block_shape(&filter->info, filter->kind);

	return (struct wn_match){
		.minirun = wn__hash_minirun(hash, shape.slots, shape.remainder_bits),
		.known = true,
	};
}

bool wn__filter_heed(const struct wn_filter *filter, const struct wn__lessons *lessons,
		     struct wn_hash hash, struct wn_match *match)
{
	if (!filter->query_from)
		*match = place_of(filter, hash);
	return !wn__lessons_exist(lessons) || ask_lessons(filter, lessons, hash, match);
}

bool wn__filter_query_learned(const struct wn_filter *filter, const struct wn__lessons *lessons,
			      struct wn_hash hash, struct wn_match *matchp)
{
	struct wn_match match = {0};
	bool maybe = !filter || filter->query(filter->state, hash, &match);

	if (maybe && filter)
		maybe = wn__filter_heed(filter, lessons, hash, &match);
	if (matchp)
		*matchp = match;
	return maybe;
}

/* ---- learning ----------------------------------------------------------- */

/* A stored key and a query that should be in one minirun, and where they differ. */
struct pair {
	struct wn__tail stored;
	unsigned piece; /* the first that differs; WN__PIECES: none */
	bool fits;
};

static struct pair compare(const struct wn__lessons *lessons, struct wn_hash stored,
			   struct wn_hash query, uint64_t minirun)
{
	unsigned bits = lessons->shape.remainder_bits;
	struct wn__fingerprint ours = wn__split(stored, lessons->shape.slots);
	struct wn__fingerprint other = wn__split(query, lessons->shape.slots);
	struct wn__tail its = tail_of(other, bits);
	struct pair pair = {
		.stored = tail_of(ours, bits),
		.fits = wn__hash_minirun(stored, lessons->shape.slots, bits) == minirun &&
			wn__hash_minirun(query, lessons->shape.slots, bits) == minirun,
	};

	while (pair.piece < WN__PIECES &&
	       wn__tail_piece(pair.stored, pair.piece) == wn__tail_piece(its, pair.piece))
		pair.piece++;
	return pair;
}

static int check_pair(const struct pair *pair)
{
	if (!pair->fits)
		return WN_ERR_MISMATCH;
	return pair->piece == WN__PIECES ? WN_ERR_UNFIXABLE : 0;
}

static int add_piece(struct wn__lessons *lessons, const struct pair *pair, uint64_t minirun,
		     uint32_t rank)
{
	uint64_t bits = wn__tail_piece(pair->stored, pair->piece);

	return wn__lessons_add(lessons, minirun, wn__lesson_word(rank, pair->piece, bits), false);
}

int wn__lessons_learn(struct wn__lessons *lessons, struct wn_hash stored, struct wn_hash query,
		      const struct wn_match *match)
{
	struct pair pair = compare(lessons, stored, query, match->minirun);
	int err = match->known ? check_pair(&pair) : WN_ERR_NOT_FOUND;

	if (err)
		return err;
	if (match->rank > WN__MAX_RANK)
		return WN_ERR_RANGE;
	return add_piece(lessons, &pair, match->minirun, match->rank);
}

int wn__lessons_learn_minirun(struct wn__lessons *lessons, const struct wn_hash *stored,
			      uint32_t count, struct wn_hash query, uint64_t minirun)
{
	struct pair pair;
	int err = 0;

	if (wn__hash_minirun(query, lessons->shape.slots, lessons->shape.remainder_bits) != minirun)
		return WN_ERR_MISMATCH;
	if (count > WN__MAX_RANK)
		return WN_ERR_RANGE;
	for (uint32_t rank = 0; rank < count && !err; rank++) {
		pair = compare(lessons, stored[rank], query, minirun);
		err = check_pair(&pair);
	}
	for (uint32_t rank = 0; rank < count && !err; rank++) {
		pair = compare(lessons, stored[rank], query, minirun);
		err = add_piece(lessons, &pair, minirun, rank);
	}
	/* Last: readers believe the pieces only with the number of keys. */
	return err ? err : wn__lessons_add(lessons, minirun, wn__lesson_of_count(count), false);
}
