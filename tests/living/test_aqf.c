/* test_aqf.c - the living adaptive quotient filter, function by function.
 *
 * Long clusters are in test_aqf_clusters.c, blocks and failing memory in
 * test_aqf_blocks.c, threads in test_aqf_threads.c. */
#include <errno.h>
#include <math.h>

#include "tests/support/shelf.h"

static struct wn_aqf_options with(uint64_t capacity, unsigned remainder_bits)
{
	return (struct wn_aqf_options){.capacity = capacity, .remainder_bits = remainder_bits};
}

static struct subject new_subject(uint64_t capacity, unsigned remainder_bits)
{
	struct wn_aqf_options options = with(capacity, remainder_bits);

	return create_subject(&options);
}

static struct wn_aqf_info info_of(const struct wn_aqf *aqf)
{
	struct wn_aqf_info info;

	wn_aqf_describe(aqf, &info);
	return info;
}

static void fill(struct subject *subject, uint64_t count, uint64_t *random)
{
	for (uint64_t i = 0; i < count; i++)
		expect(insert_item(subject, test_random_hash(random)) == 0);
}

/* Adapt against relatives of random items, `times` times or until room is gone. */
static void learn(struct subject *subject, unsigned times, uint64_t *random)
{
	unsigned bits = subject->aqf->table.remainder_bits;

	while (times-- > 0) {
		size_t at = (size_t)(test_random(random) % subject->count);
		unsigned bit = bits + (unsigned)(test_random(random) % (2 * bits));
		struct wn_hash query = craft_relative(subject->aqf, subject->items[at].hash, bit,
						      random);
		int err = adapt_item(subject, at, query);

		if (err == WN_ERR_FULL)
			return;
		expect(err == 0);
	}
}

static void raise_counts(struct subject *subject, unsigned times, uint64_t *random)
{
	while (times-- > 0) {
		size_t at = (size_t)(test_random(random) % subject->count);
		uint64_t add = test_random(random) >> (4 + test_random(random) % 60);
		int err = count_item(subject, at, add);

		expect(err == 0 || err == WN_ERR_FULL || err == WN_ERR_RANGE);
	}
}

/* ---- create ------------------------------------------------------------- */

static void check_refused(struct wn_aqf_options options)
{
	struct wn_aqf *aqf = (struct wn_aqf *)(void *)&options;
	struct wn_hash hash = {1, 2};

	ck_assert_int_eq(wn_aqf_create(&options, &aqf), WN_ERR_INVALID);
	ck_assert_ptr_null(aqf);
	aqf = (struct wn_aqf *)(void *)&options;
	if (options.capacity > 0)
		ck_assert_int_eq(wn_aqf_bulk_load(&options, &hash, 1, &aqf), WN_ERR_INVALID);
	else
		ck_assert_int_eq(wn_aqf_bulk_load(&options, &hash, 0, &aqf), WN_ERR_INVALID);
	ck_assert_ptr_null(aqf);
}

START_TEST(bad_parameters_are_refused)
{
	static const struct wn_aqf_options bad[] = {
		{.capacity = 0},
		{.capacity = WN_AQF_MAX_KEYS + 1},
		{.capacity = UINT64_MAX},
		{.capacity = 100, .remainder_bits = 1},
		{.capacity = 100, .remainder_bits = 33},
		{.capacity = 100, .remainder_bits = UINT32_MAX},
		{.capacity = 100, .load = -0.5},
		{.capacity = 100, .load = 0.96},
		{.capacity = 100, .load = (double)NAN},
		{.capacity = 100, .load = (double)INFINITY},
		{.capacity = 100, .load = 1e-300},
		{.capacity = 100, .load = 0.9, .adapt_load = 0.89},
		{.capacity = 100, .load = 0.9, .adapt_load = 1},
		{.capacity = 100, .adapt_load = (double)NAN},
		{.capacity = 100, .adapt_load = -1},
		{.capacity = 100, .tag_bits = 2},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_refused(bad[i]);
}
END_TEST

START_TEST(zero_means_default)
{
	struct subject subject = new_subject(1000, 0);
	struct wn_aqf_info info = info_of(subject.aqf);

	ck_assert_uint_eq(info.remainder_bits, 9);
	ck_assert_uint_eq(info.tag_bits, 0);
	ck_assert_uint_ge(info.insert_limit, 1000);
	ck_assert_uint_le(info.slots, 1053);
	ck_assert_uint_eq(info.used_slots, 0);
	ck_assert_uint_eq(info.fingerprints, 0);
	ck_assert_uint_ge(info.adapt_limit, (uint64_t)(0.98 * (double)info.slots));
	ck_assert_uint_ge(info.bytes, info.slots * (9 + 3) / 8);
	end_subject(&subject);
	wn_aqf_destroy(NULL);
}
END_TEST

/* No filter is made: one of 2^32 keys would take gigabytes. */
START_TEST(the_largest_shapes_are_as_documented)
{
	struct wn_aqf_options options = {.capacity = WN_AQF_MAX_KEYS, .remainder_bits = 32};
	uint64_t slots = wn__aqf_slots_for(WN_AQF_MAX_KEYS, 0.95);

	/* Of 2^32 keys at load 0.95, a minirun's id has 33 bits of quotient: with 32 of
	 * remainder too many, with 30 not. */
	ck_assert_int_eq(wn__aqf_check_options(&options, &options), 0);
	ck_assert_uint_ge(slots, WN_AQF_MAX_KEYS);
	ck_assert(!wn__aqf_shape_is_valid(slots, 32, 32, 0));
	ck_assert(wn__aqf_shape_is_valid(slots, 30, 30, 1));
	ck_assert(wn__aqf_shape_is_valid(UINT64_C(1) << 31, 32, 32, 1));
	ck_assert(wn__aqf_shape_is_valid(UINT32_MAX, 32, 32, 1));
	ck_assert(!wn__aqf_shape_is_valid(UINT64_C(1) << 32, 32, 32, 1));
	ck_assert(!wn__aqf_shape_is_valid(0, 9, 9, 0));
	ck_assert(!wn__aqf_shape_is_valid(100, 1, 9, 0));
	ck_assert(!wn__aqf_shape_is_valid(100, 9, 1, 0));
	ck_assert(!wn__aqf_shape_is_valid(100, 33, 9, 0));
	ck_assert(!wn__aqf_shape_is_valid(100, 9, 33, 0));
	ck_assert(!wn__aqf_shape_is_valid(100, 9, 9, 2));
	ck_assert(!wn__aqf_shape_is_valid(UINT64_MAX, 2, 2, 0));
}
END_TEST

/* ---- every size --------------------------------------------------------- */

enum pattern { RANDOM, LAST_QUOTIENT, ONE_QUOTIENT, EQUAL, FIRST_QUOTIENT, PATTERNS };

static struct wn_hash patterned(const struct wn_aqf *aqf, enum pattern pattern, uint64_t *random)
{
	uint64_t slots = aqf->table.slots;
	uint64_t mask = wn__low_bits(aqf->table.remainder_bits);

	switch (pattern) {
	case LAST_QUOTIENT:
		return craft_key(aqf, slots - 1, test_random(random) & mask, random);
	case ONE_QUOTIENT:
		return craft_key(aqf, slots / 2, test_random(random) & mask, random);
	case EQUAL:
		return (struct wn_hash){UINT64_MAX, UINT64_MAX};
	case FIRST_QUOTIENT:
		return craft_key(aqf, 0, test_random(random) & mask, random);
	default:
		return test_random_hash(random);
	}
}

static void fill_and_empty(uint64_t capacity, double load, enum pattern pattern, uint64_t *random)
{
	struct wn_aqf_options options = {.capacity = capacity, .remainder_bits = 5, .load = load};
	struct subject subject = create_subject(&options);

	for (uint64_t i = 0; i < capacity; i++)
		expect(insert_item(&subject, patterned(subject.aqf, pattern, random)) == 0);
	check_subject(&subject);
	while (insert_item(&subject, patterned(subject.aqf, pattern, random)) == 0)
		expect(subject.count <= subject.aqf->insert_limit);
	check_subject(&subject);
	while (subject.count > 0)
		delete_item(&subject, (size_t)(test_random(random) % subject.count));
	check_subject(&subject);
	expect(info_of(subject.aqf).used_slots == 0);
	end_subject(&subject);
}

START_TEST(every_capacity_holds_its_keys_wherever_they_fall)
{
	uint64_t random = test_seed("capacity", 10);

	for (uint64_t capacity = 1; capacity <= 70; capacity++) {
		for (enum pattern pattern = RANDOM; pattern < PATTERNS; pattern++) {
			fill_and_empty(capacity, 0.95, pattern, &random);
			fill_and_empty(capacity, 0.5, pattern, &random);
		}
	}
}
END_TEST

START_TEST(odd_numbers_of_slots_hold_their_keys)
{
	static const uint64_t capacities[] = {127, 128, 129, 255, 511, 961, 1023, 1025, 1499};
	uint64_t random = test_seed("odd", 11);

	for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
		fill_and_empty(capacities[i], 0.95, RANDOM, &random);
		fill_and_empty(capacities[i], 0.777, RANDOM, &random);
	}
}
END_TEST

/* More keys on the last quotient than there are slots behind it: a refusal, no harm. */
START_TEST(what_does_not_fit_behind_the_last_quotient_is_refused)
{
	struct subject subject = new_subject(5000, 9);
	uint64_t random = 12;
	struct image image;

	while (insert_item(&subject, patterned(subject.aqf, LAST_QUOTIENT, &random)) == 0)
		;
	ck_assert_uint_ge(subject.count, 1000);
	ck_assert_uint_lt(subject.count, 5000);
	check_subject(&subject);
	image = take_image(subject.aqf);
	ck_assert_int_eq(insert_item(&subject, patterned(subject.aqf, LAST_QUOTIENT, &random)),
			 WN_ERR_FULL);
	ck_assert_int_eq(count_item(&subject, subject.count - 1, 1), WN_ERR_FULL);
	ck_assert_int_eq(count_item(&subject, 0, 1), WN_ERR_FULL);
	check_image(subject.aqf, image);
	fill(&subject, 100, &random);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* ---- every remainder ---------------------------------------------------- */

static uint64_t count_false_positives(const struct wn_aqf *aqf, uint64_t queries, uint64_t *random)
{
	uint64_t found = 0;

	while (queries-- > 0)
		found += wn_aqf_query(aqf, test_random_hash(random), NULL);
	return found;
}

START_TEST(every_remainder_size_keeps_all_keys_and_the_promised_rate)
{
	unsigned bits = (unsigned)_i;
	uint64_t random = test_seed("rate", 100 + bits);
	uint64_t keys = test_is_quick() ? 2000 : 20000, queries = keys * 10;
	struct subject subject = new_subject(keys, bits);
	struct wn_aqf_info info;
	double rate, expected, slack;
	uint64_t found;

	fill(&subject, info_of(subject.aqf).insert_limit, &random);
	check_listing(&subject);
	check_keys(&subject);
	info = info_of(subject.aqf);
	rate = -expm1(-(double)info.fingerprints / (double)info.slots * ldexp(1, -(int)bits));
	expected = rate * (double)queries;
	/* Seven standard deviations of the queries, and some for the filter's own. */
	slack = 7 * sqrt(expected) + 0.03 * expected + 3;
	found = count_false_positives(subject.aqf, queries, &random);
	ck_assert_msg(fabs((double)found - expected) <= slack,
		      "%u bits: %" PRIu64 " false positives, not about %g", bits, found, expected);
	end_subject(&subject);
}
END_TEST

/* ---- insert ------------------------------------------------------------- */

START_TEST(a_full_filter_refuses_and_stays_as_it_was)
{
	uint64_t random = test_seed("full", 13);
	struct subject subject = new_subject(3000, 7);
	struct image image;

	fill(&subject, info_of(subject.aqf).insert_limit, &random);
	learn(&subject, 20, &random);
	image = take_image(subject.aqf);
	for (int i = 0; i < 1000; i++)
		expect(insert_item(&subject, test_random_hash(&random)) == WN_ERR_FULL);
	check_image(subject.aqf, image);
	/* Room that deletes give back can be used again. */
	while (info_of(subject.aqf).used_slots >= info_of(subject.aqf).insert_limit)
		delete_item(&subject, 0);
	fill(&subject, 1, &random);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(one_hash_inserted_again_is_one_more_fingerprint)
{
	struct subject subject = new_subject(100, 9);
	struct wn_hash hash = {UINT64_C(0x0123456789abcdef), 42};
	struct wn_match match;

	for (uint32_t rank = 0; rank < 50; rank++) {
		ck_assert_int_eq(wn_aqf_insert(subject.aqf, hash, &match), 0);
		ck_assert_uint_eq(match.rank, rank);
		ck_assert_uint_eq(match.minirun, wn_aqf_minirun(subject.aqf, hash));
		ck_assert(match.known);
		ck_assert_uint_eq(wn_aqf_minirun_length(subject.aqf, match.minirun), rank + 1);
	}
	ck_assert_uint_eq(info_of(subject.aqf).fingerprints, 50);
	end_subject(&subject);
}
END_TEST

START_TEST(keys_with_one_equal_half_stay_two_keys)
{
	struct wn_hash same_hi[2] = {{77, 1}, {77, 2}};
	struct wn_hash same_lo[2] = {{UINT64_C(1) << 40, 5}, {UINT64_C(1) << 41, 5}};
	struct wn_hash *pairs[2] = {same_hi, same_lo};

	for (int i = 0; i < 2; i++) {
		struct subject subject = new_subject(100, 9);
		struct wn_hash *pair = pairs[i];

		ck_assert_int_eq(insert_item(&subject, pair[0]), 0);
		ck_assert_int_eq(insert_item(&subject, pair[1]), 0);
		ck_assert_int_eq(adapt_item(&subject, find_item(&subject, pair[0]), pair[1]), 0);
		ck_assert_int_eq(adapt_item(&subject, find_item(&subject, pair[1]), pair[0]), 0);
		check_subject(&subject);
		delete_item(&subject, find_item(&subject, pair[0]));
		check_subject(&subject);
		ck_assert(!wn_aqf_query(subject.aqf, pair[0], NULL));
		ck_assert(wn_aqf_query(subject.aqf, pair[1], NULL));
		end_subject(&subject);
	}
}
END_TEST

START_TEST(minirun_lengths_are_those_of_the_miniruns)
{
	uint64_t random = test_seed("length", 14);
	struct subject subject = new_subject(500, 2);

	fill(&subject, 500, &random);
	for (uint64_t minirun = 0; minirun < info_of(subject.aqf).slots * 4; minirun++)
		expect(wn_aqf_minirun_length(subject.aqf, minirun) ==
		       length_of_minirun(&subject, minirun));
	ck_assert_uint_eq(wn_aqf_minirun_length(subject.aqf, info_of(subject.aqf).slots * 4), 0);
	ck_assert_uint_eq(wn_aqf_minirun_length(subject.aqf, UINT64_MAX), 0);
	end_subject(&subject);
}
END_TEST

/* ---- delete ------------------------------------------------------------- */

START_TEST(ranks_behind_a_deleted_one_move_down)
{
	struct subject subject = new_subject(200, 4);
	uint64_t random = test_seed("ranks", 15);

	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(insert_item(&subject, craft_key(subject.aqf, 60, 7, &random)), 0);
	for (int i = 0; i < 60; i++) {
		uint64_t quotient = 50 + test_random(&random) % 20;

		ck_assert_int_eq(insert_item(&subject, craft_key(subject.aqf, quotient, 7,
								 &random)), 0);
	}
	/* Extended, every one has its own rank and no other's. */
	learn(&subject, 60, &random);
	while (subject.count > 0) {
		delete_item(&subject, (size_t)(test_random(&random) % subject.count));
		check_subject(&subject);
	}
	end_subject(&subject);
}
END_TEST

static void check_all_refuse(struct wn_aqf *aqf, struct wn_hash stored, struct wn_match match,
			     int expected)
{
	struct image image = take_image(aqf);
	bool removed = true;
	uint64_t count = 1;
	unsigned tag = 1;

	expect(wn_aqf_delete(aqf, stored, match, &removed) == expected && !removed);
	expect(wn_aqf_delete(aqf, stored, match, NULL) == expected);
	expect(wn_aqf_count(aqf, stored, match, &count) == expected && count == 0);
	expect(wn_aqf_count_add(aqf, stored, match, 1) == expected);
	expect(wn_aqf_tag(aqf, stored, match, &tag) == expected && tag == 0);
	expect(wn_aqf_set_tag(aqf, stored, match, 0) == expected);
	expect(wn_aqf_adapt(aqf, stored, stored, match) == expected);
	check_image(aqf, image);
}

static void check_every_function_says(struct wn_aqf *aqf, struct wn_hash stored, uint32_t rank,
				      int expected)
{
	check_all_refuse(aqf, stored, at_rank(aqf, stored, rank), expected);
}

START_TEST(a_rank_that_is_not_there_is_not_found)
{
	struct subject subject = new_subject(100, 9);
	uint64_t random = 16;
	struct wn_hash hash = craft_key(subject.aqf, 10, 5, &random);

	/* Empty; another remainder, below and above; too high a rank. */
	check_every_function_says(subject.aqf, hash, 0, WN_ERR_NOT_FOUND);
	insert_item(&subject, hash);
	check_every_function_says(subject.aqf, hash, 1, WN_ERR_NOT_FOUND);
	check_every_function_says(subject.aqf, hash, UINT32_MAX, WN_ERR_NOT_FOUND);
	check_every_function_says(subject.aqf, craft_key(subject.aqf, 10, 4, &random), 0,
				  WN_ERR_NOT_FOUND);
	check_every_function_says(subject.aqf, craft_key(subject.aqf, 10, 6, &random), 0,
				  WN_ERR_NOT_FOUND);
	check_every_function_says(subject.aqf, craft_key(subject.aqf, 11, 5, &random), 0,
				  WN_ERR_NOT_FOUND);
	end_subject(&subject);
}
END_TEST

START_TEST(a_stored_hash_that_does_not_fit_is_a_mismatch)
{
	struct subject subject = new_subject(100, 9);
	uint64_t random = 17;
	struct wn_hash hash = craft_key(subject.aqf, 10, 5, &random);
	struct wn_hash other = craft_relative(subject.aqf, hash, 20, &random);
	struct wn_match match;

	insert_item(&subject, hash);
	ck_assert_int_eq(adapt_item(&subject, 0, other), 0);
	check_every_function_says(subject.aqf, other, 0, WN_ERR_MISMATCH);
	check_every_function_says(subject.aqf, craft_relative(subject.aqf, hash, 9, &random), 0,
				  WN_ERR_MISMATCH);
	/* A minirun that is not the stored hash's. */
	match = wn_aqf_locate(subject.aqf, hash);
	match.minirun++;
	check_all_refuse(subject.aqf, hash, match, WN_ERR_MISMATCH);
	match.minirun = UINT64_MAX;
	check_all_refuse(subject.aqf, hash, match, WN_ERR_MISMATCH);
	end_subject(&subject);
}
END_TEST

/* ---- counts ------------------------------------------------------------- */

START_TEST(counts_reach_the_largest_number_and_not_past_it)
{
	unsigned bits = (unsigned)_i;
	struct subject subject = new_subject(300, bits);
	uint64_t random = 18;
	struct image image;
	size_t at;

	fill(&subject, 100, &random);
	at = find_item(&subject, subject.items[50].hash);
	for (unsigned shift = 0; shift < 64; shift++) {
		ck_assert_int_eq(count_item(&subject, at, (UINT64_C(1) << shift) -
						  (shift == 63)), 0);
		check_listing(&subject);
		check_keys(&subject);
	}
	ck_assert_uint_eq(subject.items[at].count, UINT64_MAX);
	ck_assert_uint_eq(info_of(subject.aqf).counters, (64 + bits - 1) / bits);
	image = take_image(subject.aqf);
	ck_assert_int_eq(count_item(&subject, at, 1), WN_ERR_RANGE);
	ck_assert_int_eq(count_item(&subject, at, UINT64_MAX), WN_ERR_RANGE);
	ck_assert_int_eq(count_item(&subject, at, 0), 0);
	check_image(subject.aqf, image);
	check_subject(&subject);
	delete_item(&subject, at);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(deletes_count_down_and_digits_go_away)
{
	unsigned bits = (unsigned)_i;
	struct subject subject = new_subject(60, bits);
	uint64_t random = 19;
	struct wn_hash hash = craft_key(subject.aqf, 30, 1, &random);

	for (uint64_t quotient = 28; quotient < 40; quotient++)
		insert_item(&subject, craft_key(subject.aqf, quotient, 2, &random));
	insert_item(&subject, hash);
	ck_assert_int_eq(count_item(&subject, find_item(&subject, hash), 600), 0);
	ck_assert_uint_eq(info_of(subject.aqf).counters, wn__counter_digits(601, bits));
	for (uint64_t left = 601; left > 0; left--) {
		check_listing(&subject);
		check_keys(&subject);
		delete_item(&subject, find_item(&subject, hash));
		ck_assert_uint_eq(info_of(subject.aqf).counters,
				  left > 2 ? wn__counter_digits(left - 1, bits) : 0);
	}
	ck_assert_uint_eq(subject.count, 12);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* Counts and extensions on the same fingerprints, among others, at high load. */
START_TEST(counters_and_extensions_stand_side_by_side)
{
	uint64_t random = test_seed("side by side", 20 + (uint64_t)_i);
	struct wn_aqf_options options = {
		.capacity = 400,
		.remainder_bits = 2 + (unsigned)_i,
		.tag_bits = (unsigned)_i % 2,
	};
	struct subject subject = create_subject(&options);

	fill(&subject, 200, &random);
	for (int round = 0; round < 20; round++) {
		raise_counts(&subject, 5, &random);
		learn(&subject, 10, &random);
		check_subject(&subject);
		for (int i = 0; i < 20; i++)
			delete_item(&subject, (size_t)(test_random(&random) % subject.count));
		while (subject.count < 200 && insert_item(&subject, test_random_hash(&random)) == 0)
			;
		check_subject(&subject);
	}
	end_subject(&subject);
}
END_TEST

/* ---- adapt -------------------------------------------------------------- */

START_TEST(adapting_fixes_and_doing_it_again_changes_nothing)
{
	struct subject subject = new_subject(300, 9);
	uint64_t random = 21;
	struct wn_hash hash = craft_key(subject.aqf, 100, 5, &random);
	struct image image;

	fill(&subject, 200, &random);
	insert_item(&subject, hash);
	for (unsigned bit = 9; bit < 110; bit += 4) {
		struct wn_hash query = craft_relative(subject.aqf, hash, bit, &random);

		ck_assert_int_eq(adapt_item(&subject, find_item(&subject, hash), query), 0);
		ck_assert(!wn_aqf_query(subject.aqf, query, NULL));
		check_subject(&subject);
		image = take_image(subject.aqf);
		ck_assert_int_eq(adapt_item(&subject, find_item(&subject, hash), query), 0);
		check_image(subject.aqf, image);
	}
	/* A query of another minirun did not match in the first place. */
	image = take_image(subject.aqf);
	ck_assert_int_eq(adapt_item(&subject, find_item(&subject, hash),
				    craft_key(subject.aqf, 100, 6, &random)), 0);
	ck_assert_int_eq(adapt_item(&subject, find_item(&subject, hash),
				    craft_key(subject.aqf, 101, 5, &random)), 0);
	check_image(subject.aqf, image);
	end_subject(&subject);
}
END_TEST

static int fetch_fails(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	(void)minirun;
	(void)rank;
	(void)storedp;
	return *(int *)arg;
}

START_TEST(equal_hashes_cannot_be_fixed)
{
	struct subject subject = new_subject(100, 9);
	uint64_t random = 22;
	struct wn_hash hash = craft_key(subject.aqf, 50, 5, &random);
	struct wn_hash other = craft_relative(subject.aqf, hash, 30, &random);
	uint32_t fixed = 9;
	struct image image;

	insert_item(&subject, hash);
	image = take_image(subject.aqf);
	ck_assert_int_eq(adapt_item(&subject, 0, hash), WN_ERR_UNFIXABLE);
	ck_assert_int_eq(wn_aqf_adapt_all(subject.aqf, hash, fetch_item, &subject, &fixed),
			 WN_ERR_UNFIXABLE);
	ck_assert_uint_eq(fixed, 0);
	check_image(subject.aqf, image);
	/* The others of the minirun are fixed all the same, before it and behind it. */
	insert_item(&subject, other);
	insert_item(&subject, hash);
	insert_item(&subject, other);
	ck_assert_int_eq(wn_aqf_adapt_all(subject.aqf, hash, fetch_item, &subject, &fixed),
			 WN_ERR_UNFIXABLE);
	ck_assert_uint_eq(fixed, 2);
	subject.items[1].extensions = subject.items[3].extensions = 3;
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(adapt_all_fixes_every_match_of_a_minirun)
{
	struct subject subject = new_subject(200, 9);
	uint64_t random = 23;
	struct wn_hash query = craft_key(subject.aqf, 50, 5, &random);
	uint32_t fixed;

	for (unsigned bit = 9; bit < 99; bit += 9)
		insert_item(&subject, craft_relative(subject.aqf, query, bit, &random));
	for (size_t at = 0; at < subject.count; at++)
		subject.items[at].extensions = (uint32_t)at + 1;
	ck_assert_int_eq(wn_aqf_adapt_all(subject.aqf, query, fetch_item, &subject, &fixed), 0);
	ck_assert_uint_eq(fixed, 10);
	ck_assert(!wn_aqf_query(subject.aqf, query, NULL));
	check_subject(&subject);
	ck_assert_int_eq(wn_aqf_adapt_all(subject.aqf, query, fetch_item, &subject, NULL), 0);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(adapt_all_hands_on_what_the_reverse_map_says)
{
	struct subject subject = new_subject(200, 9);
	uint64_t random = 24;
	struct wn_hash hash = craft_key(subject.aqf, 50, 5, &random);
	struct wn_hash query = craft_relative(subject.aqf, hash, 9, &random);
	struct image image;
	uint32_t fixed = 7;
	int says = EIO;

	insert_item(&subject, hash);
	image = take_image(subject.aqf);
	ck_assert_int_eq(wn_aqf_adapt_all(subject.aqf, query, fetch_fails, &says, &fixed), EIO);
	ck_assert_uint_eq(fixed, 0);
	says = WN_ERR_CORRUPT;
	ck_assert_int_eq(wn_aqf_adapt_all(subject.aqf, query, fetch_fails, &says, NULL),
			 WN_ERR_CORRUPT);
	check_image(subject.aqf, image);
	end_subject(&subject);
}
END_TEST

START_TEST(without_room_an_adaptation_changes_nothing)
{
	uint64_t random = test_seed("no room", 25);
	struct subject subject = new_subject(1000, 6);
	uint64_t refused = 0;

	fill(&subject, info_of(subject.aqf).insert_limit, &random);
	for (int i = 0; i < 3000; i++) {
		size_t at = (size_t)(test_random(&random) % subject.count);
		unsigned bit = 6 + (unsigned)(test_random(&random) % 100);
		struct wn_hash query = craft_relative(subject.aqf, subject.items[at].hash, bit,
						      &random);
		struct image image = take_image(subject.aqf);
		int err = adapt_item(&subject, at, query);

		expect(err == 0 || err == WN_ERR_FULL);
		expect(info_of(subject.aqf).used_slots <= info_of(subject.aqf).adapt_limit);
		if (err) {
			refused++;
			check_image(subject.aqf, image);
		} else {
			free(image.bytes);
		}
	}
	ck_assert_uint_gt(refused, 100);
	ck_assert_uint_eq(info_of(subject.aqf).used_slots, info_of(subject.aqf).adapt_limit);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* One slot and all the room: then the fraction is the hash itself, and a query that
 * differs in the last bit takes every extension there can be. */
START_TEST(the_last_bit_of_a_hash_tells_keys_apart)
{
	unsigned bits = 2 + (unsigned)_i % 31;
	unsigned extension_bits = 2 + (unsigned)(_i * 7) % 31;
	uint64_t random = 26;
	struct wn_hash hash = {test_random(&random), test_random(&random)};
	struct wn_hash query = {hash.hi, hash.lo ^ 1};
	struct wn_aqf *aqf;
	struct subject subject;

	ck_assert_int_eq(wn__aqf_create_shape(1, bits, extension_bits, (unsigned)_i % 2,
					      0.5, 0.9, &aqf), 0);
	aqf->insert_limit = 2;
	aqf->adapt_limit = 128;
	subject = start_subject(aqf);
	ck_assert_int_eq(insert_item(&subject, hash), 0);
	ck_assert_int_eq(insert_item(&subject, query), 0);
	ck_assert_int_eq(adapt_item(&subject, 0, query), 0);
	ck_assert_uint_eq(subject.items[0].extensions,
			  (128 - bits + extension_bits - 1) / extension_bits);
	check_subject(&subject);
	ck_assert_int_eq(adapt_item(&subject, 1, hash), 0);
	check_subject(&subject);
	/* Nothing is left that could be told apart. */
	ck_assert_int_eq(adapt_item(&subject, 0, hash), WN_ERR_UNFIXABLE);
	ck_assert_int_eq(count_item(&subject, 0, 2),
			 info_of(aqf).used_slots < 128 ? 0 : WN_ERR_FULL);
	check_subject(&subject);
	delete_item(&subject, 1);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* ---- tags --------------------------------------------------------------- */

START_TEST(tags_stay_with_their_fingerprints)
{
	struct wn_aqf_options options = {
		.capacity = 400,
		.remainder_bits = (unsigned)_i,
		.tag_bits = 1,
	};
	struct subject subject = create_subject(&options);
	uint64_t random = test_seed("tags", 27);

	for (int i = 0; i < 300; i++)
		expect(insert_tagged(&subject, test_random_hash(&random),
				     (unsigned)(test_random(&random) & 1)) == 0);
	learn(&subject, 20, &random);
	raise_counts(&subject, 5, &random);
	check_subject(&subject);
	for (size_t at = 0; at < subject.count; at++) {
		struct shelf_item *item = &subject.items[at];
		struct wn_match match;
		unsigned tag;

		item->tag ^= at % 3 == 0;
		expect(wn_aqf_set_tag(subject.aqf, item->hash, match_of(&subject, at), item->tag) ==
		       0);
		expect(wn_aqf_tag(subject.aqf, item->hash, match_of(&subject, at), &tag) == 0);
		expect(tag == item->tag);
		expect(wn_aqf_query_tag(subject.aqf, item->hash, &match, &tag));
		expect(tag == subject.items[first_of_minirun(&subject, match.minirun) +
					    match.rank].tag);
	}
	check_subject(&subject);
	ck_assert_int_eq(wn_aqf_insert_tagged(subject.aqf, subject.items[0].hash, 2, NULL),
			 WN_ERR_INVALID);
	ck_assert_int_eq(wn_aqf_set_tag(subject.aqf, subject.items[0].hash, match_of(&subject, 0),
					2), WN_ERR_INVALID);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(without_tag_bits_only_tag_zero_fits)
{
	struct subject subject = new_subject(10, 9);
	struct wn_hash hash = {1, 2};
	struct wn_match match;
	unsigned tag = 5;

	insert_item(&subject, hash);
	ck_assert_int_eq(wn_aqf_insert_tagged(subject.aqf, hash, 1, NULL), WN_ERR_INVALID);
	ck_assert_int_eq(wn_aqf_set_tag(subject.aqf, hash, match_of(&subject, 0), 1),
			 WN_ERR_INVALID);
	ck_assert_int_eq(wn_aqf_set_tag(subject.aqf, hash, match_of(&subject, 0), 0), 0);
	ck_assert_int_eq(wn_aqf_tag(subject.aqf, hash, match_of(&subject, 0), &tag), 0);
	ck_assert_uint_eq(tag, 0);
	tag = 5;
	ck_assert(wn_aqf_query_tag(subject.aqf, hash, &match, &tag));
	ck_assert_uint_eq(tag, 0);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* As with wn_aqf_query(), whoever does not want the match need not take it. */
START_TEST(a_tag_can_be_asked_for_without_the_match)
{
	struct wn_aqf_options options = {.capacity = 10, .tag_bits = 1};
	struct subject subject = create_subject(&options);
	struct wn_hash hash = {1, 2};
	unsigned tag = 0;

	insert_tagged(&subject, hash, 1);
	ck_assert(wn_aqf_query_tag(subject.aqf, hash, NULL, &tag));
	ck_assert_uint_eq(tag, 1);
	end_subject(&subject);
}
END_TEST

/* ---- capacity ----------------------------------------------------------- */

/* Learn whatever there is room for, before and between the inserts. */
static void fill_and_learn(struct subject *subject, uint64_t capacity, uint64_t *random)
{
	while (subject->count < capacity) {
		expect(insert_item(subject, test_random_hash(random)) == 0);
		learn(subject, 20, random);
	}
}

static void replace_and_learn(struct subject *subject, unsigned times, uint64_t *random)
{
	while (times-- > 0) {
		delete_item(subject, (size_t)(test_random(random) % subject->count));
		if (subject->count > 0)
			learn(subject, 20, random);
		expect(insert_item(subject, test_random_hash(random)) == 0);
	}
}

START_TEST(what_was_learned_takes_no_room_from_keys)
{
	static const uint64_t capacities[] = {1, 2, 3, 10, 64, 65, 300, 1000, 5000, 13000};
	static const double loads[] = {0.95, 0.9, 0.5};
	uint64_t capacity = capacities[_i];
	uint64_t random = test_seed("learned", 40 + (uint64_t)_i);

	for (size_t i = 0; i < 3; i++) {
		struct wn_aqf_options options = {
			.capacity = capacity, .remainder_bits = 5, .load = loads[i]};
		struct subject subject = create_subject(&options);
		struct wn_aqf_info info;

		fill_and_learn(&subject, capacity, &random);
		replace_and_learn(&subject, 1000, &random);
		info = info_of(subject.aqf);
		ck_assert_uint_ge(info.fingerprints, capacity);
		ck_assert(info.extensions > 0 || capacity == 1);
		ck_assert_uint_le(info.used_slots, info.adapt_limit);
		if (capacity <= 1000)
			check_subject(&subject);
		end_subject(&subject);
	}
}
END_TEST

/* However a filter was made, it takes keys up to the insert_limit that it states. */
START_TEST(filters_made_from_others_hold_what_they_state)
{
	uint64_t random = test_seed("made", 60);
	struct subject subject = new_subject(1000, 9);
	struct wn_secret *secret = test_secret(1);
	struct wn_aqf *made[3];
	void *block;
	size_t size;

	fill_and_learn(&subject, 800, &random);
	ck_assert_int_eq(wn_aqf_grow(subject.aqf, &made[0]), 0);
	ck_assert_int_eq(wn_aqf_freeze(subject.aqf, secret, &block, &size), 0);
	ck_assert_int_eq(wn_aqf_thaw(block, size, NULL, &made[1]), 0);
	ck_assert_int_eq(wn_aqf_shrink(made[0], &made[2]), 0);
	for (int i = 0; i < 3; i++) {
		wn_aqf_destroy(subject.aqf);
		subject.aqf = made[i];
		while (info_of(made[i]).fingerprints < info_of(made[i]).insert_limit)
			expect(wn_aqf_insert(made[i], test_random_hash(&random), NULL) == 0);
		ck_assert_int_eq(wn_aqf_insert(made[i], test_random_hash(&random), NULL),
				 WN_ERR_FULL);
	}
	free(block);
	wn_secret_destroy(secret);
	end_subject(&subject);
}
END_TEST

/* A counter slot counts as a key: so many inserts, of new keys or old ones, are taken. */
START_TEST(so_many_inserts_as_promised_succeed_counted_or_not)
{
	uint64_t random = test_seed("counted", 61);
	struct subject subject = new_subject(1000, 9);

	for (unsigned i = 0; i < 1000; i++) {
		if (i % 2)
			expect(count_item(&subject, subject.count / 2, 1 + i % 3) == 0);
		else
			expect(insert_item(&subject, test_random_hash(&random)) == 0);
		learn(&subject, 20, &random);
	}
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* ---- shorten ------------------------------------------------------------ */

START_TEST(shortening_keeps_what_tells_the_stored_apart)
{
	struct subject subject = new_subject(5000, 9);
	uint64_t random = 28;
	struct wn_hash query = craft_key(subject.aqf, 50, 5, &random);
	uint64_t minirun = wn_aqf_minirun(subject.aqf, query);
	uint64_t before, freed;

	fill(&subject, 100, &random);
	/* Ten that part at bits 9, 18, 27, ... and are extended far beyond. */
	for (unsigned bit = 9; bit < 90; bit += 9)
		insert_item(&subject, craft_relative(subject.aqf, query, bit, &random));
	for (size_t at = first_of_minirun(&subject, minirun); at < subject.count &&
	     subject.items[at].minirun == minirun; at++)
		ck_assert_int_eq(adapt_item(&subject, at,
					    craft_relative(subject.aqf, subject.items[at].hash, 100,
							   &random)), 0);
	count_item(&subject, first_of_minirun(&subject, minirun) + 3, 1000);
	check_subject(&subject);
	before = info_of(subject.aqf).used_slots;
	ck_assert_int_eq(wn_aqf_shorten(subject.aqf, minirun, &freed), 0);
	ck_assert_uint_eq(info_of(subject.aqf).used_slots, before - freed);
	ck_assert_uint_gt(freed, 0);
	for (size_t at = first_of_minirun(&subject, minirun), n = 0; n < 9; at++, n++)
		subject.items[at].extensions = (uint32_t)(n < 8 ? n + 1 : 8);
	check_subject(&subject);
	/* Each still matches itself alone. */
	for (size_t at = first_of_minirun(&subject, minirun), n = 0; n < 9; at++, n++) {
		struct wn_match match;

		ck_assert(wn_aqf_query(subject.aqf, subject.items[at].hash, &match));
		ck_assert_uint_eq(match.rank, n);
		ck_assert(!wn_aqf_query_next(subject.aqf, subject.items[at].hash, &match));
	}
	ck_assert_int_eq(wn_aqf_shorten(subject.aqf, minirun, &freed), 0);
	ck_assert_uint_eq(freed, 0);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(a_fingerprint_alone_in_its_minirun_is_shortened_to_nothing)
{
	struct subject subject = new_subject(200, 9);
	uint64_t random = 29;
	uint64_t freed = 9;

	fill(&subject, 180, &random);
	learn(&subject, 20, &random);
	for (size_t at = 0; at < subject.count; at++) {
		if (length_of_minirun(&subject, subject.items[at].minirun) > 1)
			continue;
		expect(wn_aqf_shorten(subject.aqf, subject.items[at].minirun, &freed) == 0);
		expect(freed == subject.items[at].extensions);
		subject.items[at].extensions = 0;
		check_subject(&subject);
	}
	/* Miniruns that are empty or cannot be. */
	ck_assert_int_eq(wn_aqf_shorten(subject.aqf, minirun_of(subject.aqf,
								  test_random_hash(&random)),
					NULL), 0);
	ck_assert_int_eq(wn_aqf_shorten(subject.aqf, info_of(subject.aqf).slots << 9, &freed),
			 WN_ERR_INVALID);
	ck_assert_uint_eq(freed, 0);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* ---- grow, shrink, merge ------------------------------------------------ */

/* A filter with a bit of everything, three quarters full. */
static struct subject rich_subject(unsigned remainder_bits, unsigned tag_bits, double share,
				   uint64_t *random)
{
	struct wn_aqf_options options = {
		.capacity = 950,
		.remainder_bits = remainder_bits,
		.tag_bits = tag_bits,
	};
	struct subject subject = create_subject(&options);

	while ((double)subject.count < share * 950)
		expect(insert_tagged(&subject, test_random_hash(random),
				     (unsigned)test_random(random) & tag_bits) == 0);
	learn(&subject, 12, random);
	raise_counts(&subject, 4, random);
	return subject;
}

/* The same items on the shelf, another filter. */
static void change_filter(struct subject *subject, struct wn_aqf *aqf)
{
	wn_aqf_destroy(subject->aqf);
	subject->aqf = aqf;
}

static void check_still_fixed(const struct subject *subject, const struct wn_hash *fixed,
			      size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect(!wn_aqf_query(subject->aqf, fixed[i], NULL));
}

/* Find false positives, fix them, and say which they were. */
static void fix_some(struct subject *subject, struct wn_hash *fixed, size_t count,
		     uint64_t *random)
{
	for (size_t done = 0; done < count; ) {
		struct wn_hash query = test_random_hash(random);
		struct wn_match match;
		int err = 0;

		if (!wn_aqf_query(subject->aqf, query, &match))
			continue;
		while (!err && wn_aqf_query(subject->aqf, query, &match))
			err = adapt_item(subject, first_of_minirun(subject, match.minirun) +
						  match.rank, query);
		expect(err == 0);
		fixed[done++] = query;
	}
}

START_TEST(growing_and_shrinking_keep_everything)
{
	unsigned bits = 3 + (unsigned)_i;
	uint64_t random = test_seed("grow", 30 + (uint64_t)_i);
	struct subject subject = rich_subject(bits, (unsigned)_i % 2, 0.6, &random);
	struct wn_hash fixed[8];
	struct wn_aqf *other;
	struct image image;

	if (bits < 12)
		fix_some(&subject, fixed, 8, &random);
	check_subject(&subject);
	for (int round = 0; round < 4; round++) {
		image = take_image(subject.aqf);
		if (bits - (unsigned)round == 2) {
			ck_assert_int_eq(wn_aqf_grow(subject.aqf, &other), WN_ERR_INVALID);
			ck_assert_ptr_null(other);
			free(image.bytes);
			break;
		}
		ck_assert_int_eq(wn_aqf_grow(subject.aqf, &other), 0);
		ck_assert_uint_eq(info_of(other).slots, 2 * info_of(subject.aqf).slots);
		ck_assert_uint_eq(info_of(other).remainder_bits, bits - (unsigned)round - 1);
		check_image(subject.aqf, image);
		check_same_content(subject.aqf, other);
		change_filter(&subject, other);
		check_subject(&subject);
		if (bits < 12)
			check_still_fixed(&subject, fixed, 8);
	}
	/* And it goes on being a filter. */
	fill(&subject, 200, &random);
	learn(&subject, 5, &random);
	raise_counts(&subject, 4, &random);
	if (bits < 12)
		fix_some(&subject, fixed, 8, &random);
	check_subject(&subject);
	while (wn_aqf_shrink(subject.aqf, &other) == 0) {
		check_same_content(subject.aqf, other);
		change_filter(&subject, other);
		check_subject(&subject);
		if (bits < 12)
			check_still_fixed(&subject, fixed, 8);
	}
	end_subject(&subject);
}
END_TEST

START_TEST(filters_that_cannot_shrink_are_refused)
{
	uint64_t random = 31;
	struct wn_aqf *odd, *wide, *other = NULL;
	struct subject subject = new_subject(190, 9);

	ck_assert_uint_eq(info_of(subject.aqf).slots, 200);
	fill(&subject, 180, &random);
	other = subject.aqf;
	ck_assert_int_eq(wn_aqf_shrink(subject.aqf, &other), WN_ERR_FULL);
	ck_assert_ptr_null(other);
	check_subject(&subject);
	end_subject(&subject);
	ck_assert_int_eq(wn__aqf_create_shape(201, 9, 9, 0, 0.9, 0.9, &odd), 0);
	ck_assert_int_eq(wn_aqf_shrink(odd, &other), WN_ERR_INVALID);
	ck_assert_ptr_null(other);
	wn_aqf_destroy(odd);
	ck_assert_int_eq(wn__aqf_create_shape(200, 32, 32, 0, 0.9, 0.9, &wide), 0);
	ck_assert_int_eq(wn_aqf_shrink(wide, &other), WN_ERR_INVALID);
	wn_aqf_destroy(wide);
}
END_TEST

/* Put b's items behind a's, minirun by minirun. */
static void merge_shelves(struct subject *a, const struct subject *b)
{
	for (size_t at = 0; at < b->count; at++)
		shelve(a, first_of_minirun(a, b->items[at].minirun + 1), b->items[at]);
}

START_TEST(a_merge_holds_both_and_doubles_when_it_must)
{
	static const double shares[] = {0.1, 0.4, 0.5, 0.6, 0.9};
	uint64_t random = test_seed("merge", 32 + (uint64_t)_i);
	double share = shares[_i];
	struct subject a = rich_subject(4, 1, share, &random);
	struct subject b = rich_subject(4, 1, share, &random);
	struct image before_a = take_image(a.aqf), before_b = take_image(b.aqf);
	uint64_t slots = info_of(a.aqf).slots;
	uint64_t used = info_of(a.aqf).used_slots + info_of(b.aqf).used_slots;
	struct wn_aqf *merged;

	ck_assert_int_eq(wn_aqf_merge(a.aqf, b.aqf, &merged), 0);
	check_image(a.aqf, before_a);
	check_image(b.aqf, before_b);
	ck_assert_uint_eq(info_of(merged).used_slots, used);
	ck_assert_uint_eq(info_of(merged).slots,
			  (double)used > 0.95 * (double)slots ? 2 * slots : slots);
	merge_shelves(&a, &b);
	change_filter(&a, merged);
	check_subject(&a);
	fill(&a, 20, &random);
	learn(&a, 10, &random);
	check_subject(&a);
	end_subject(&a);
	end_subject(&b);
}
END_TEST

START_TEST(filters_that_do_not_fit_are_not_merged)
{
	static const struct {
		uint64_t slots;
		unsigned remainder_bits, extension_bits, tag_bits;
		int expected;
	} others[] = {
		{1000, 9, 9, 0, 0},
		{1001, 9, 9, 0, WN_ERR_MISMATCH},
		{2000, 8, 8, 0, WN_ERR_MISMATCH},
		{1000, 8, 9, 0, WN_ERR_MISMATCH},
		{1000, 9, 9, 1, WN_ERR_MISMATCH},
		{1000, 9, 8, 0, 0},
	};
	uint64_t random = 33;
	struct wn_aqf *aqf, *other, *merged;
	struct subject subject;

	ck_assert_int_eq(wn__aqf_create_shape(1000, 9, 9, 0, 0.9, 0.95, &aqf), 0);
	subject = start_subject(aqf);
	fill(&subject, 500, &random);
	learn(&subject, 10, &random);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		ck_assert_int_eq(wn__aqf_create_shape(others[i].slots, others[i].remainder_bits,
						      others[i].extension_bits, others[i].tag_bits,
						      0.9, 0.95, &other), 0);
		merged = aqf;
		ck_assert_int_eq(wn_aqf_merge(aqf, other, &merged), others[i].expected);
		if (others[i].expected)
			ck_assert_ptr_null(merged);
		else
			check_same_content(aqf, merged);
		wn_aqf_destroy(merged);
		ck_assert_int_eq(wn_aqf_merge(other, aqf, &merged), others[i].expected);
		if (!others[i].expected)
			check_same_content(aqf, merged);
		wn_aqf_destroy(merged);
		wn_aqf_destroy(other);
	}
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

START_TEST(extensions_of_two_sizes_are_not_merged)
{
	uint64_t random = 34;
	struct subject pair[2];
	struct wn_aqf *merged;

	for (unsigned i = 0; i < 2; i++) {
		struct wn_aqf *aqf;

		ck_assert_int_eq(wn__aqf_create_shape(1000, 9, 8 + i, 0, 0.9, 0.95, &aqf), 0);
		pair[i] = start_subject(aqf);
		fill(&pair[i], 300, &random);
		learn(&pair[i], 3, &random);
	}
	ck_assert_int_eq(wn_aqf_merge(pair[0].aqf, pair[1].aqf, &merged), WN_ERR_MISMATCH);
	ck_assert_ptr_null(merged);
	check_subject(&pair[0]);
	check_subject(&pair[1]);
	end_subject(&pair[0]);
	end_subject(&pair[1]);
}
END_TEST

START_TEST(a_merge_without_remainder_bits_to_give_up_is_refused)
{
	uint64_t random = 35;
	struct subject a = rich_subject(2, 0, 0.8, &random);
	struct subject b = rich_subject(2, 0, 0.8, &random);
	struct wn_aqf *merged = a.aqf;

	ck_assert_int_eq(wn_aqf_merge(a.aqf, b.aqf, &merged), WN_ERR_FULL);
	ck_assert_ptr_null(merged);
	check_subject(&a);
	check_subject(&b);
	end_subject(&a);
	end_subject(&b);
}
END_TEST

/* ---- bulk load ---------------------------------------------------------- */

static int compare_hashes(const void *a, const void *b)
{
	return wn_hash_compare(*(const struct wn_hash *)a, *(const struct wn_hash *)b);
}

START_TEST(a_bulk_load_is_as_good_as_inserts)
{
	unsigned bits = (unsigned)_i;
	uint64_t random = test_seed("bulk", 36);
	size_t count = 3000;
	struct wn_hash *hashes = malloc(count * sizeof(*hashes));
	struct wn_aqf_options options = {.remainder_bits = bits, .tag_bits = bits % 2};
	struct subject loaded, inserted;
	struct wn_aqf *aqf;

	for (size_t i = 0; i < count; i++)
		hashes[i] = i % 10 && i ? test_random_hash(&random) : hashes[i / 2];
	hashes[0] = (struct wn_hash){0, 0};
	hashes[1] = (struct wn_hash){UINT64_MAX, UINT64_MAX};
	qsort(hashes, count, sizeof(*hashes), compare_hashes);
	ck_assert_int_eq(wn_aqf_bulk_load(&options, hashes, count, &aqf), 0);
	loaded = start_subject(aqf);
	options.capacity = count;
	inserted = create_subject(&options);
	for (size_t i = 0; i < count; i++) {
		expect(insert_item(&inserted, hashes[i]) == 0);
		shelve(&loaded, i, inserted.items[i]);
	}
	ck_assert_uint_eq(info_of(aqf).slots, info_of(inserted.aqf).slots);
	check_image(loaded.aqf, take_image(inserted.aqf));
	check_subject(&loaded);
	learn(&loaded, 20, &random);
	delete_item(&loaded, 100);
	check_subject(&loaded);
	end_subject(&inserted);
	end_subject(&loaded);
	free(hashes);
}
END_TEST

START_TEST(a_bulk_load_out_of_order_or_too_large_is_refused)
{
	struct wn_hash hashes[4] = {{1, 0}, {1, 2}, {1, 1}, {3, 0}};
	struct wn_aqf_options options = {.capacity = 4};
	struct wn_aqf *aqf = (struct wn_aqf *)(void *)hashes;

	ck_assert_int_eq(wn_aqf_bulk_load(&options, hashes, 4, &aqf), WN_ERR_INVALID);
	ck_assert_ptr_null(aqf);
	ck_assert_int_eq(wn_aqf_bulk_load(&options, hashes, 2, &aqf), 0);
	ck_assert_uint_eq(info_of(aqf).fingerprints, 2);
	wn_aqf_destroy(aqf);
	ck_assert_int_eq(wn_aqf_bulk_load(&options, hashes, 0, &aqf), 0);
	ck_assert_uint_eq(info_of(aqf).fingerprints, 0);
	ck_assert(!wn_aqf_query(aqf, hashes[0], NULL));
	wn_aqf_destroy(aqf);
	options.capacity = 1;
	ck_assert_int_eq(wn_aqf_bulk_load(&options, hashes, 2, &aqf), WN_ERR_FULL);
	ck_assert_ptr_null(aqf);
}
END_TEST

/* ---- fast and portable -------------------------------------------------- */

START_TEST(both_ways_to_search_do_the_same)
{
	uint64_t seed = test_seed("portable", 37 + (uint64_t)_i), random = seed;
	struct subject fast = new_subject(600, 4 + (unsigned)_i);
	struct subject slow = new_subject(600, 4 + (unsigned)_i);

	slow.aqf->fast = false;
	for (int step = 0; step < 3000; step++) {
		uint64_t choice = test_random(&random) % 8;
		size_t at = fast.count ? (size_t)(test_random(&random) % fast.count) : 0;
		struct wn_hash hash = test_random_hash(&random);
		uint64_t twin = random;

		if (choice < 4 || fast.count == 0) {
			expect(insert_item(&fast, hash) == insert_item(&slow, hash));
		} else if (choice == 4) {
			delete_item(&fast, at);
			delete_item(&slow, at);
		} else if (choice == 5) {
			expect(count_item(&fast, at, hash.lo >> 60) ==
			       count_item(&slow, at, hash.lo >> 60));
		} else {
			learn(&fast, 1, &random);
			learn(&slow, 1, &twin);
		}
		for (int i = 0; i < 20; i++) {
			struct wn_match one = {0}, two = {0};

			hash = test_random_hash(&random);
			expect(wn_aqf_query(fast.aqf, hash, &one) ==
			       wn_aqf_query(slow.aqf, hash, &two));
			expect(one.minirun == two.minirun && one.rank == two.rank);
		}
	}
	check_subject(&fast);
	check_subject(&slow);
	check_image(fast.aqf, take_image(slow.aqf));
	end_subject(&fast);
	end_subject(&slow);
}
END_TEST

/* ---- the suite ---------------------------------------------------------- */

static TCase *new_case(Suite *suite, const char *name)
{
	TCase *tests = tcase_create(name);

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	return tests;
}

static void add_single(Suite *suite)
{
	TCase *tests = new_case(suite, "one fingerprint at a time");

	tcase_add_test(tests, bad_parameters_are_refused);
	tcase_add_test(tests, zero_means_default);
	tcase_add_test(tests, the_largest_shapes_are_as_documented);
	tcase_add_test(tests, every_capacity_holds_its_keys_wherever_they_fall);
	tcase_add_test(tests, odd_numbers_of_slots_hold_their_keys);
	tcase_add_test(tests, what_does_not_fit_behind_the_last_quotient_is_refused);
	tcase_add_loop_test(tests, every_remainder_size_keeps_all_keys_and_the_promised_rate, 2,
			    33);
	tcase_add_test(tests, a_full_filter_refuses_and_stays_as_it_was);
	tcase_add_test(tests, one_hash_inserted_again_is_one_more_fingerprint);
	tcase_add_test(tests, keys_with_one_equal_half_stay_two_keys);
	tcase_add_test(tests, minirun_lengths_are_those_of_the_miniruns);
	tcase_add_test(tests, ranks_behind_a_deleted_one_move_down);
	tcase_add_test(tests, a_rank_that_is_not_there_is_not_found);
	tcase_add_test(tests, a_stored_hash_that_does_not_fit_is_a_mismatch);
	tcase_add_loop_test(tests, counts_reach_the_largest_number_and_not_past_it, 2, 33);
	tcase_add_loop_test(tests, deletes_count_down_and_digits_go_away, 2, 12);
	tcase_add_loop_test(tests, counters_and_extensions_stand_side_by_side, 0, 12);
	tcase_add_loop_test(tests, tags_stay_with_their_fingerprints, 2, 33);
	tcase_add_test(tests, without_tag_bits_only_tag_zero_fits);
	tcase_add_test(tests, a_tag_can_be_asked_for_without_the_match);
}

static void add_adapt(Suite *suite)
{
	TCase *tests = new_case(suite, "adapt");

	tcase_add_test(tests, adapting_fixes_and_doing_it_again_changes_nothing);
	tcase_add_test(tests, equal_hashes_cannot_be_fixed);
	tcase_add_test(tests, adapt_all_fixes_every_match_of_a_minirun);
	tcase_add_test(tests, adapt_all_hands_on_what_the_reverse_map_says);
	tcase_add_test(tests, without_room_an_adaptation_changes_nothing);
	tcase_add_loop_test(tests, the_last_bit_of_a_hash_tells_keys_apart, 0, 124);
	tcase_add_loop_test(tests, what_was_learned_takes_no_room_from_keys, 0, 10);
	tcase_add_test(tests, filters_made_from_others_hold_what_they_state);
	tcase_add_test(tests, so_many_inserts_as_promised_succeed_counted_or_not);
	tcase_add_test(tests, shortening_keeps_what_tells_the_stored_apart);
	tcase_add_test(tests, a_fingerprint_alone_in_its_minirun_is_shortened_to_nothing);
}

static void add_whole(Suite *suite)
{
	TCase *tests = new_case(suite, "whole filters");

	tcase_add_loop_test(tests, growing_and_shrinking_keep_everything, 0, 29);
	tcase_add_test(tests, filters_that_cannot_shrink_are_refused);
	tcase_add_loop_test(tests, a_merge_holds_both_and_doubles_when_it_must, 0, 5);
	tcase_add_test(tests, filters_that_do_not_fit_are_not_merged);
	tcase_add_test(tests, extensions_of_two_sizes_are_not_merged);
	tcase_add_test(tests, a_merge_without_remainder_bits_to_give_up_is_refused);
	tcase_add_loop_test(tests, a_bulk_load_is_as_good_as_inserts, 2, 33);
	tcase_add_test(tests, a_bulk_load_out_of_order_or_too_large_is_refused);
	tcase_add_loop_test(tests, both_ways_to_search_do_the_same, 0, 6);
}

int main(void)
{
	Suite *suite = suite_create("aqf");

	add_single(suite);
	add_adapt(suite);
	add_whole(suite);
	return test_run(suite);
}
