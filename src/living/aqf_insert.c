/* aqf_insert.c - inserting a fingerprint into a living filter.
 *
 * Like every change (aqf_write.c): take the regions, find the place and an empty slot, see that
 * there is room, move slots. There is a short form for what most inserts meet, as queries have
 * wn__glance(): run and empty slot are among the 64 slots from the quotient's on, with no extra
 * slots on the way. It is straight code with next to no branches on what the slots hold: each
 * would be mispredicted in every other insert, and only after the wait for the block's cache
 * lines. Where it does not fit it has changed nothing, and the general form follows. */
#include <winnow/error.h>

#include "aqf_find.h"

/* ---- near the quotient's own slot ---------------------------------------- */

/* A place for a new fingerprint. */
struct near {
	uint64_t slot;
	uint64_t empty;  /* the first empty slot from there on */
	uint64_t before; /* slot of the fingerprint before it in the run, or WN__NO_SLOT */
	uint32_t rank;
	bool last; /* none comes behind it in the run */
};

/* A block's words of metadata and the next one's, as one: 64 bits from `home` on. */
WN__INLINE uint64_t meta_window(const struct wn__table *table, uint64_t base, unsigned which,
				unsigned home)
{
	return wn__word(table, base + which, true) >> home |
	       wn__word(table, base + table->block_words + which, true) << 1 << (63 - home);
}

/* The top bits of the lanes in which `a` is not less than `b`. */
WN__INLINE uint64_t lanes_not_less(const struct wn__table *table, uint64_t a, uint64_t b)
{
	uint64_t tops = table->lane_tops;
	uint64_t rest = (a | tops) - (b & ~tops); /* no lane borrows from another */

	return ((a & ~b) | (~(a ^ b) & rest)) & tops;
}

/* How many of the `length` fingerprints of a run go before a new one, and how many of
 * these have its remainder. */
WN__INLINE unsigned count_before(const struct wn__table *table, uint64_t start, unsigned length,
				 uint64_t remainder, uint32_t *rankp)
{
	uint64_t wanted = table->lane_ones * (remainder << table->tag_bits);
	uint64_t lanes = wn__slot_window(table, start, true) & table->lane_clean;
	unsigned seen = length < table->lanes ? length : table->lanes;
	uint64_t before = lanes_not_less(table, wanted, lanes) &
			  wn__lower_bits(seen * table->slot_bits);
	unsigned count = wn__popcount(before);

	*rankp = wn__popcount(before & lanes_not_less(table, lanes, wanted));
	for (; WN__UNLIKELY(count >= table->lanes && count < length); count++) {
		uint64_t here = wn__slot(table, start + count, true) >> table->tag_bits;

		if (here > remainder)
			break;
		*rankp += here == remainder;
	}
	return count;
}

/* False: the place or the empty slot is not among the 64 slots from the quotient's on, or
 * there are extra slots on the way. All is read under the lock of the region that the quotient's
 * block and the one behind it are in. */
WN__INLINE bool look_near(const struct wn__table *table, uint64_t quotient, uint64_t remainder,
			  struct near *near, bool fast)
{
	uint64_t base = (quotient >> 6) * table->block_words;
	unsigned home = quotient & 63;
	unsigned offset = wn__offset_byte(table, quotient >> 6);
	uint64_t occupieds = wn__word(table, base + WN__OCCUPIEDS, true);
	uint64_t ends = wn__true_runends(table, quotient >> 6, true);
	uint64_t extras;
	unsigned from, open, at, length, before;

	if (WN__UNLIKELY(offset >= 64))
		return false;
	/* As in wn__glance(): the run starts where those before it have ended. */
	from = offset > home ? offset : home;
	open = wn__popcount(occupieds & wn__lower_bits(home)) -
	       wn__popcount((ends & wn__lower_bits(from)) >> offset);
	/* From here on, bits and places are counted from the quotient's slot. */
	from -= home;
	extras = meta_window(table, base, WN__EXTENSIONS, home);
	ends = meta_window(table, base, WN__RUNENDS, home) & ~extras;
	at = wn__select(ends >> from << 1 | 1, open & 63, fast) + from;
	length = at < 64 ? wn__lowest_bit(ends >> at, fast) + 1 : 64;
	length &= 0 - (unsigned)(occupieds >> home & 1);
	if (WN__UNLIKELY(at + length >= 64 || ((home + at) & 63) + length > 64))
		return false;
	before = count_before(table, quotient + at, length, remainder, &near->rank);
	near->last = before == length;
	at += before;
	near->slot = quotient + at;
	near->before = before > 0 ? near->slot - 1 : WN__NO_SLOT;
	/* A slot is empty where all runs of quotients up to it have ended. */
	occupieds = meta_window(table, base, WN__OCCUPIEDS, home) >> 1;
	open = wn__popcount(occupieds & wn__lower_bits(at)) + !near->last;
	at += wn__pass_runs(occupieds >> at, ends >> at << 1 | 1, open, 2, fast);
	if (at > 63)
		return false;
	near->empty = quotient + at;
	/* Was it right to take every slot on the way for a fingerprint? */
	return !(extras >> from << from & wn__low_bits(at + 1));
}

WN__INLINE void set_occupied(struct wn_aqf *aqf, uint64_t quotient)
{
	uint64_t *word = aqf->words + (quotient >> 6) * aqf->table.block_words + WN__OCCUPIEDS;

	wn__store(word, wn__load(word) | UINT64_C(1) << (quotient & 63));
}

/* Put the fingerprint in its place, whatever has to move. */
static void put(struct wn_aqf *aqf, uint64_t quotient, struct near near, uint64_t content)
{
	wn__insert_slot(aqf, quotient, near.slot, near.empty,
			(struct wn__slot_bits){.content = content, .runend = near.last});
	if (near.last && near.before != WN__NO_SLOT)
		wn__set_meta(aqf, WN__RUNENDS, near.before, false);
	set_occupied(aqf, quotient);
}

/* If the slots from the new one to the empty one lie in two words of one block: move them,
 * all at once. */
WN__INLINE bool put_near(struct wn_aqf *aqf, uint64_t quotient, const struct near *near,
			 uint64_t content)
{
	const struct wn__table *table = &aqf->table;
	unsigned width = table->slot_bits;
	unsigned slot = near->slot & 63, empty = near->empty & 63;
	unsigned from = slot * width & 63, word = slot * width >> 6;
	unsigned to = (empty + 1) * width - word * 64, high_to;
	/* The end of a run moves up to a fingerprint that comes behind all of it. */
	bool follows = near->before != WN__NO_SLOT, takes_end = follows & near->last;
	uint64_t *base = aqf->words + (near->slot >> 6) * table->block_words;
	uint64_t *low = base + table->meta_words + word;
	uint64_t *high = low + (word + 1 < width); /* a block's last word has none behind it */
	uint64_t low_bits, high_bits, low_mask, high_mask, moved, carry;

	if ((near->slot ^ near->empty) >> 6 || to > 127 || takes_end > slot)
		return false;
	low_bits = wn__load(low);
	high_bits = wn__load(high);
	high_to = to > 64 ? to - 64 : 0;
	low_mask = UINT64_MAX >> (64 - (to - high_to)) & ~wn__lower_bits(from);
	high_mask = wn__lower_bits(high_to);
	moved = low_bits & ~wn__lower_bits(from);
	carry = moved >> (64 - width) | content >> 1 >> (63 - from);
	moved = moved << width | content << from;
	/* The low one last: where both are the same word it is the one that counts. */
	wn__store(high, (high_bits & ~high_mask) | ((high_bits << width | carry) & high_mask));
	wn__store(low, (low_bits & ~low_mask) | (moved & low_mask));
	wn__insert_bit(base + WN__RUNENDS, slot - takes_end, empty, near->last & !follows);
	if ((near->empty ^ quotient) >> 6)
		wn__raise_offset(aqf, near->empty >> 6);
	set_occupied(aqf, quotient);
	return true;
}

/* What the caller is told while the region is held. */
WN__INLINE struct wn_match match_held(const struct wn_aqf *aqf, uint64_t minirun, uint32_t rank)
{
	return (struct wn_match){
		.minirun = minirun,
		.rank = rank,
		.known = true,
		.stamp = wn__stamp_read(wn__stamp_of(aqf, minirun)),
	};
}

/* ---- insert -------------------------------------------------------------- */

/* The regions of the quotient's block and of the one behind it are one. */
WN__INLINE bool has_block_behind(const struct wn__table *table, uint64_t quotient)
{
	return quotient < table->glance_slots &&
	       (quotient >> 6 & ((1 << (WN__REGION_SHIFT - 6)) - 1)) !=
		       (1 << (WN__REGION_SHIFT - 6)) - 1;
}

/* False: nothing was done. */
WN__INLINE bool insert_near(struct wn_aqf *aqf, uint64_t minirun, unsigned tag,
			    struct wn_match *matchp, bool fast)
{
	const struct wn__table *table = &aqf->table;
	uint64_t quotient = minirun >> table->remainder_bits;
	uint64_t remainder = minirun & wn__lower_bits(table->remainder_bits);
	struct wn__hold hold;
	struct near near;
	bool done;

	if (!has_block_behind(table, quotient))
		return false;
	wn__room_prepare(aqf);
	hold = wn__hold_home(aqf, quotient);
	done = look_near(table, quotient, remainder, &near, fast) &&
	       wn__room_claim_key(&hold);
	if (done) {
		uint64_t content = remainder << table->tag_bits | tag;

		if (!put_near(aqf, quotient, &near, content))
			put(aqf, quotient, near, content);
		wn__room_account(&hold, 1, 0);
		if (matchp)
			*matchp = match_held(aqf, minirun, near.rank);
	}
	wn__region_unlock(&aqf->regions[hold.low]);
	return done;
}

static int insert_held(struct wn__hold *hold, uint64_t remainder, unsigned tag, uint32_t *rankp)
{
	const struct wn__table *table = &hold->aqf->table;
	struct wn__spot spot = wn__find_back(hold, remainder);
	struct near near = {
		.slot = spot.place.slot,
		.before = spot.before,
		.last = spot.last,
		.empty = wn__find_empty(hold, spot.place.slot),
	};

	*rankp = spot.rank;
	if (near.empty >= wn__physical_slots(table) || !wn__room_claim_key(hold))
		return WN_ERR_FULL;
	put(hold->aqf, hold->quotient, near, remainder << table->tag_bits | tag);
	wn__room_account(hold, 1, 0);
	return 0;
}

/* Wherever it goes. */
static __attribute__((noinline)) int insert_far(struct wn_aqf *aqf, uint64_t minirun, unsigned tag,
						struct wn_match *matchp)
{
	unsigned bits = aqf->table.remainder_bits;
	struct wn__hold hold;
	bool final;
	int err;

	do {
		uint32_t rank;

		final = wn__room_prepare(aqf);
		hold = wn__hold_take(aqf, minirun >> bits);
		err = insert_held(&hold, minirun & wn__low_bits(bits), tag, &rank);
		if (matchp)
			*matchp = match_held(aqf, minirun, rank);
		wn__hold_release(&hold);
	} while (hold.refused && !final);
	if (matchp)
		matchp->known = err == 0;
	return err;
}

WN__INLINE int insert(struct wn_aqf *aqf, struct wn_hash hash, unsigned tag,
		      struct wn_match *matchp, bool fast)
{
	uint64_t minirun = wn__hash_minirun(hash, aqf->table.slots, aqf->table.remainder_bits);

	if (insert_near(aqf, minirun, tag, matchp, fast))
		return 0;
	return insert_far(aqf, minirun, tag, matchp);
}

static __attribute__((noinline)) int insert_plain(struct wn_aqf *aqf, struct wn_hash hash,
						  unsigned tag, struct wn_match *matchp)
{
	return insert(aqf, hash, tag, matchp, false);
}

WN__TARGET_FAST static int insert_fast(struct wn_aqf *aqf, struct wn_hash hash, unsigned tag,
				       struct wn_match *matchp)
{
	return insert(aqf, hash, tag, matchp, true);
}

int wn_aqf_insert_tagged(struct wn_aqf *aqf, struct wn_hash hash, unsigned tag,
			 struct wn_match *matchp)
{
	if (tag >> aqf->table.tag_bits)
		return WN_ERR_INVALID;
	return aqf->fast ? insert_fast(aqf, hash, tag, matchp)
			 : insert_plain(aqf, hash, tag, matchp);
}

int wn_aqf_insert(struct wn_aqf *aqf, struct wn_hash hash, struct wn_match *matchp)
{
	return wn_aqf_insert_tagged(aqf, hash, 0, matchp);
}
