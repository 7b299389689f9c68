/* shelf.h - a plain array that does what an adaptive quotient filter should.
 *
 * A shelf holds every fingerprint with its key's full hash, in the order in which a
 * filter's cursor must list them. The operations below are done to a filter and to
 * its shelf alike, and check_subject() compares the two to the last bit. */
#ifndef WN_TESTS_SHELF_H
#define WN_TESTS_SHELF_H

#include <string.h>

#include <winnow/aqf.h>
#include <winnow/error.h>
#include <winnow/filter.h>

#include "kinds/aqf/aqf_internal.h"
#include "living/aqf_internal.h"
#include "common.h"

__extension__ typedef unsigned __int128 fraction;

/* ---- hashes made to measure --------------------------------------------- */

/* The bits of a fraction that no upper half of a hash reaches: as many as `slots` has factors
 * of two. The lower half begins there. */
static inline unsigned zeros_of(uint64_t slots)
{
	return (unsigned)__builtin_ctzll(slots);
}

/* The first hash whose quotient and fraction are these or later; with the upper half that this
 * takes, the lower half is as the fraction says. */
static inline struct wn_hash craft_hash(uint64_t slots, uint64_t quotient, uint64_t hi, uint64_t lo)
{
	unsigned zeros = zeros_of(slots);
	fraction product = ((fraction)quotient << 64 | hi) >> zeros << zeros;

	return (struct wn_hash){
		(uint64_t)(product / slots) + (product % slots != 0),
		(uint64_t)(((fraction)hi << 64 | lo) >> zeros),
	};
}

/* The same with a remainder, and random bits behind it. */
static inline struct wn_hash craft_key(const struct wn_aqf *aqf, uint64_t quotient,
				       uint64_t remainder, uint64_t *random)
{
	unsigned bits = aqf->table.remainder_bits;
	uint64_t hi = remainder << (64 - bits) | test_random(random) >> bits;

	return craft_hash(aqf->table.slots, quotient, hi, test_random(random) >> 1);
}

/* The hash's last bits, from bit `at` of its fraction on, replaced by random ones, and
 * that bit flipped. The upper halves of two hashes differ by one at least, their products by
 * `slots`: where a difference is to be smaller it is in the lower half, and further back. */
static inline struct wn_hash craft_relative(const struct wn_aqf *aqf, struct wn_hash hash,
					    unsigned at, uint64_t *random)
{
	uint64_t slots = aqf->table.slots;
	struct wn__fingerprint print = wn__split(hash, slots), crafted;
	fraction old = (fraction)print.hi << 64 | print.lo, whole, tail;
	struct wn_hash relative;

	for (unsigned tries = 0; tries < 100 && at < 64 - zeros_of(slots); tries++) {
		tail = (fraction)test_random(random) << 63 | test_random(random) >> 1;
		whole = (old ^ (fraction)1 << (127 - at)) ^ tail >> at;
		relative = craft_hash(slots, print.quotient, (uint64_t)(whole >> 64),
				      (uint64_t)whole);
		crafted = wn__split(relative, slots);
		if (crafted.quotient == print.quotient &&
		    wn__common_prefix(crafted.hi, crafted.lo, print.hi, print.lo) == at)
			return relative;
	}
	if (at < 64 - zeros_of(slots))
		at = 64 - zeros_of(slots);
	at -= 64 - zeros_of(slots);
	if (at > 63)
		at = 63;
	relative = hash;
	relative.lo ^= UINT64_C(1) << (63 - at);
	relative.lo ^= at < 63 ? test_random(random) >> 1 >> at : 0;
	return relative;
}

/* ---- the shelf ---------------------------------------------------------- */

struct shelf_item {
	struct wn_hash hash;
	uint64_t minirun;
	uint64_t count;
	uint32_t extensions;
	unsigned tag;
};

struct subject {
	struct wn_aqf *aqf;
	struct shelf_item *items;
	size_t count, room;
};

/* In a way of its own: the product with the slots' odd factor has the lower half behind it. */
static inline fraction fraction_of(const struct wn_aqf *aqf, struct wn_hash hash)
{
	unsigned zeros = zeros_of(aqf->table.slots);
	uint64_t product = hash.hi * (aqf->table.slots >> zeros);

	return ((fraction)product << 64 | hash.lo) << zeros;
}

static inline uint64_t minirun_of(const struct wn_aqf *aqf, struct wn_hash hash)
{
	fraction product = (fraction)hash.hi * aqf->table.slots;

	return (uint64_t)(product >> (64 - aqf->table.remainder_bits));
}

static inline unsigned stored_bits(const struct wn_aqf *aqf, const struct shelf_item *item)
{
	unsigned bits = aqf->table.remainder_bits + item->extensions * aqf->table.extension_bits;

	return bits < 128 ? bits : 128;
}

static inline unsigned shared_bits(const struct wn_aqf *aqf, struct wn_hash a, struct wn_hash b)
{
	fraction differ = fraction_of(aqf, a) ^ fraction_of(aqf, b);
	unsigned bits = 0;

	while (bits < 128 && !(differ >> (127 - bits) & 1))
		bits++;
	return bits;
}

static inline bool item_matches(const struct wn_aqf *aqf, const struct shelf_item *item,
				struct wn_hash hash)
{
	return item->minirun == minirun_of(aqf, hash) &&
	       shared_bits(aqf, item->hash, hash) >= stored_bits(aqf, item);
}

/* The first item whose minirun is not below this one. */
static inline size_t first_of_minirun(const struct subject *subject, uint64_t minirun)
{
	size_t low = 0, high = subject->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (subject->items[middle].minirun < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline uint32_t rank_of(const struct subject *subject, size_t at)
{
	return (uint32_t)(at - first_of_minirun(subject, subject->items[at].minirun));
}

static inline size_t length_of_minirun(const struct subject *subject, uint64_t minirun)
{
	return first_of_minirun(subject, minirun + 1) - first_of_minirun(subject, minirun);
}

/* The match that leads to a rank, as the filter stands now. */
static inline struct wn_match at_rank(const struct wn_aqf *aqf, struct wn_hash hash, uint32_t rank)
{
	struct wn_match match = wn_aqf_locate(aqf, hash);

	match.rank = rank;
	return match;
}

static inline struct wn_match match_of(const struct subject *subject, size_t at)
{
	return at_rank(subject->aqf, subject->items[at].hash, rank_of(subject, at));
}

/* The index of the item with this hash; there must be one. */
static inline size_t find_item(const struct subject *subject, struct wn_hash hash)
{
	size_t at = first_of_minirun(subject, minirun_of(subject->aqf, hash));

	while (at < subject->count && wn_hash_compare(subject->items[at].hash, hash) != 0)
		at++;
	expect(at < subject->count);
	return at;
}

static inline int fetch_item(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	const struct subject *subject = arg;

	expect(rank < length_of_minirun(subject, minirun));
	*storedp = subject->items[first_of_minirun(subject, minirun) + rank].hash;
	return 0;
}

/* ---- one filter and its shelf ------------------------------------------- */

static inline struct subject start_subject(struct wn_aqf *aqf)
{
	return (struct subject){.aqf = aqf};
}

static inline struct subject create_subject(const struct wn_aqf_options *options)
{
	struct wn_aqf *aqf;

	ck_assert_int_eq(wn_aqf_create(options, &aqf), 0);
	return start_subject(aqf);
}

static inline void end_subject(struct subject *subject)
{
	wn_aqf_destroy(subject->aqf);
	free(subject->items);
}

static inline void shelve(struct subject *subject, size_t at, struct shelf_item item)
{
	if (subject->count == subject->room) {
		subject->room = subject->room * 2 + 64;
		subject->items =
			realloc(subject->items, subject->room * sizeof(*subject->items));
		expect(subject->items);
	}
	memmove(subject->items + at + 1, subject->items + at,
		(subject->count - at) * sizeof(*subject->items));
	subject->items[at] = item;
	subject->count++;
}

static inline int insert_tagged(struct subject *subject, struct wn_hash hash, unsigned tag)
{
	uint64_t minirun = minirun_of(subject->aqf, hash);
	size_t at = first_of_minirun(subject, minirun + 1);
	struct wn_match match;
	int err = wn_aqf_insert_tagged(subject->aqf, hash, tag, &match);

	if (err) {
		expect(!match.known);
		return err;
	}
	expect(match.known && match.minirun == minirun);
	expect(match.rank == length_of_minirun(subject, minirun));
	shelve(subject, at, (struct shelf_item){
				    .hash = hash,
				    .minirun = minirun,
				    .count = 1,
				    .tag = tag,
			    });
	return 0;
}

static inline int insert_item(struct subject *subject, struct wn_hash hash)
{
	return insert_tagged(subject, hash, 0);
}

/* Take off one count. */
static inline void delete_item(struct subject *subject, size_t at)
{
	struct shelf_item *item = &subject->items[at];
	bool removed;

	expect(wn_aqf_delete(subject->aqf, item->hash, match_of(subject, at), &removed) == 0);
	expect(removed == (item->count == 1));
	if (--item->count > 0)
		return;
	subject->count--;
	memmove(item, item + 1, (subject->count - at) * sizeof(*item));
}

static inline int count_item(struct subject *subject, size_t at, uint64_t add)
{
	struct shelf_item *item = &subject->items[at];
	int err = wn_aqf_count_add(subject->aqf, item->hash, match_of(subject, at), add);

	if (!err)
		item->count += add;
	return err;
}

static inline int adapt_item(struct subject *subject, size_t at, struct wn_hash query)
{
	const struct wn__table *table = &subject->aqf->table;
	struct shelf_item *item = &subject->items[at];
	bool matches = item_matches(subject->aqf, item, query);
	unsigned shared = shared_bits(subject->aqf, item->hash, query);
	int err = wn_aqf_adapt(subject->aqf, item->hash, query, match_of(subject, at));

	if (!err && matches)
		item->extensions = (shared - table->remainder_bits) / table->extension_bits + 1;
	return err;
}

/* ---- comparing ---------------------------------------------------------- */

/* The cursor lists what is on the shelf, in its order. */
static inline void check_listing(const struct subject *subject)
{
	const struct wn_aqf *aqf = subject->aqf;
	struct wn_aqf_cursor cursor;
	struct wn_aqf_entry entry;
	struct wn_aqf_info info;
	uint64_t extensions = 0;
	size_t at = 0;

	wn_aqf_cursor_init(&cursor, aqf);
	for (; wn_aqf_cursor_next(&cursor, &entry); at++) {
		const struct shelf_item *item = &subject->items[at];
		fraction stored = (fraction)entry.fraction.hi << 64 | entry.fraction.lo;

		expect(at < subject->count);
		expect(entry.minirun == item->minirun);
		expect(entry.rank == rank_of(subject, at));
		expect(entry.extensions == item->extensions);
		expect(entry.count == item->count);
		expect(entry.tag == item->tag);
		expect(entry.fraction_bits == stored_bits(aqf, item));
		if (entry.fraction_bits < 128)
			expect(stored << entry.fraction_bits == 0);
		expect((stored ^ fraction_of(aqf, item->hash)) >> (128 - entry.fraction_bits) == 0);
		extensions += entry.extensions;
	}
	expect(at == subject->count);
	wn_aqf_describe(aqf, &info);
	expect(info.fingerprints == subject->count);
	expect(info.extensions == extensions);
	expect(info.used_slots == info.fingerprints + info.extensions + info.counters);
}

/* A query matches the fingerprints it should, one after the other, and no other. */
static inline void check_matches(const struct subject *subject, struct wn_hash hash)
{
	size_t first = first_of_minirun(subject, minirun_of(subject->aqf, hash));
	size_t behind = first_of_minirun(subject, minirun_of(subject->aqf, hash) + 1);
	struct wn_match match = {0};
	bool found = wn_aqf_query(subject->aqf, hash, &match);
	bool batch;

	wn_aqf_query_batch(subject->aqf, &hash, 1, &batch);
	expect(batch == found);
	for (size_t at = first; at < behind; at++) {
		if (!item_matches(subject->aqf, &subject->items[at], hash))
			continue;
		expect(found && match.known);
		expect(match.minirun == subject->items[at].minirun);
		expect(match.rank == at - first);
		found = wn_aqf_query_next(subject->aqf, hash, &match);
	}
	expect(!found);
}

static inline void check_keys(const struct subject *subject)
{
	for (size_t at = 0; at < subject->count; at++) {
		uint64_t count;

		check_matches(subject, subject->items[at].hash);
		expect(wn_aqf_count(subject->aqf, subject->items[at].hash, match_of(subject, at),
				    &count) == 0);
		expect(count == subject->items[at].count);
	}
}

/* A block made of it is well formed down to the last offset, and answers alike. */
static inline void check_frozen(const struct subject *subject)
{
	struct wn_secret *secret = test_secret(1);
	struct wn_filter *filter;
	const char *reason = NULL;
	void *block;
	size_t size;

	expect(wn_aqf_freeze(subject->aqf, secret, &block, &size) == 0);
	if (wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, &reason))
		ck_abort_msg("refused: %s", reason);
	for (size_t at = 0; at < subject->count; at++) {
		struct wn_match live, dead, slow;
		struct wn_hash hash = subject->items[at].hash;

		expect(wn_aqf_query(subject->aqf, hash, &live));
		expect(wn_filter_query_hash(filter, hash, &dead));
		expect(wn__frozen_query_portable(filter->state, hash, &slow));
		expect(live.minirun == dead.minirun && live.rank == dead.rank && dead.known);
		expect(live.minirun == slow.minirun && live.rank == slow.rank && slow.known);
	}
	wn_filter_close(filter);
	free(block);
	wn_secret_destroy(secret);
}

/* Writers have let go of everything. */
static inline void check_unlocked(const struct wn_aqf *aqf)
{
	for (uint64_t at = 0; at < aqf->region_count; at++)
		expect(aqf->regions[at].version % 2 == 0);
}

static inline void check_subject(const struct subject *subject)
{
	check_unlocked(subject->aqf);
	check_listing(subject);
	check_keys(subject);
	check_frozen(subject);
}

/* ---- two filters -------------------------------------------------------- */

/* The same fingerprints with all they carry. The sizes of the tables may differ. */
static inline void check_same_content(const struct wn_aqf *a, const struct wn_aqf *b)
{
	struct wn_aqf_cursor at, bt;
	struct wn_aqf_entry one, two;

	wn_aqf_cursor_init(&at, a);
	wn_aqf_cursor_init(&bt, b);
	while (wn_aqf_cursor_next(&at, &one)) {
		expect(wn_aqf_cursor_next(&bt, &two));
		expect(one.minirun == two.minirun && one.rank == two.rank);
		expect(one.extensions == two.extensions && one.count == two.count);
		expect(one.tag == two.tag);
	}
	expect(!wn_aqf_cursor_next(&bt, &two));
}

/* Every word of the table, offsets included: to see that nothing has changed. */
struct image {
	unsigned char *bytes;
	size_t words_size, offsets_size;
	struct wn_aqf_info info;
};

static inline struct image take_image(const struct wn_aqf *aqf)
{
	const struct wn__table *table = &aqf->table;
	struct image image = {
		.words_size = table->blocks * table->block_words * 8,
		.offsets_size = table->blocks,
	};

	image.bytes = malloc(image.words_size + image.offsets_size);
	expect(image.bytes);
	memcpy(image.bytes, aqf->words, image.words_size);
	memcpy(image.bytes + image.words_size, aqf->offsets, image.offsets_size);
	wn_aqf_describe(aqf, &image.info);
	return image;
}

/* Compares and frees it. */
static inline void check_image(const struct wn_aqf *aqf, struct image image)
{
	struct wn_aqf_info info;

	expect(memcmp(image.bytes, aqf->words, image.words_size) == 0);
	expect(memcmp(image.bytes + image.words_size, aqf->offsets, image.offsets_size) == 0);
	wn_aqf_describe(aqf, &info);
	expect(info.used_slots == image.info.used_slots);
	expect(info.fingerprints == image.info.fingerprints);
	expect(info.extensions == image.info.extensions);
	expect(info.counters == image.info.counters);
	check_unlocked(aqf);
	free(image.bytes);
}

#endif /* WN_TESTS_SHELF_H */
