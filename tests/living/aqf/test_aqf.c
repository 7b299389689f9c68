/* test_aqf.c - the living adaptive quotient filter: sizes, inserts, deletes.
 *
 * Long clusters are in test_aqf_clusters.c, blocks and failing memory in
 * kinds/test_aqf_blocks.c, threads in test_aqf_threads.c. */
#include <errno.h>
#include <math.h>

#include "tests/support/aqf_subject.h"

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
		{.capacity = 100, .reserved = {1}},
		{.capacity = 100, .reserved = {[3] = UINT64_C(1) << 63}},
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

int main(void)
{
	Suite *suite = suite_create("aqf");
	TCase *tests = tcase_create("one fingerprint at a time");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
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
	return test_run(suite);
}
