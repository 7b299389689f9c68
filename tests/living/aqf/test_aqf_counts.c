/* test_aqf_counts.c - counts and tags of the living adaptive quotient filter. */
#include <math.h>

#include "tests/support/aqf_subject.h"

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

int main(void)
{
	Suite *suite = suite_create("aqf_counts");
	TCase *tests = tcase_create("one fingerprint at a time");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, counts_reach_the_largest_number_and_not_past_it, 2, 33);
	tcase_add_loop_test(tests, deletes_count_down_and_digits_go_away, 2, 12);
	tcase_add_loop_test(tests, counters_and_extensions_stand_side_by_side, 0, 12);
	tcase_add_loop_test(tests, tags_stay_with_their_fingerprints, 2, 33);
	tcase_add_test(tests, without_tag_bits_only_tag_zero_fits);
	tcase_add_test(tests, a_tag_can_be_asked_for_without_the_match);
	return test_run(suite);
}
