/* test_map_finding.c - what every store of the reverse map of immutable filters finds. */
#include <winnow/aqf.h>

#include "kinds/shape.h"
#include "learn/lessons.h"
#include "tests/support/map_stores.h"

/* Few slots and remainder bits make long miniruns, which go over many pages. The
 * counts are those around the ends of first and second pages. */
static const struct shape {
	uint64_t count, slots;
	unsigned remainder_bits;
} shapes[] = {
	{0, 1, 2},
	{1, 1, 2},
	{2, 5, 3},
	{250, 300, 2},
	{251, 300, 2},
	{252, 300, 2},
	{365, 300, 2},
	{366, 300, 2},
	{503, 530, 4},
	{504, 530, 4},
	{506, 100, 2},
	{507, 100, 2},
	{736, 1, 2},
	{737, 1, 2},
	{1014, 1, 2},
	{1015, 1, 2},
	{5000, 1, 2},
	{5000, 7, 2},
	{5000, 5264, 2},
	{5000, 5264, 9},
	{3000, UINT32_MAX, 32},
	{3000, UINT64_C(1) << 40, 23},
	{3000, UINT64_C(999999999999), 20},
};

START_TEST(every_hash_is_found_at_its_minirun_and_rank)
{
	struct wn__map *map = open_store(_i);

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct sample sample = make_sample(i, shapes[i].count, shapes[i].slots,
						   shapes[i].remainder_bits);

		put(map, &sample);
		expect_list(map, &sample, 1);
		expect_stream(map, &sample);
		free_sample(&sample);
	}
	assert_count(map, sizeof(shapes) / sizeof(shapes[0]));
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_place_where_nothing_is_has_no_hash)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(3, 2000, 2106, 9);
	struct wn__keylist_entry entry;
	uint64_t state = test_seed("a_place_where_nothing_is_has_no_hash", 5);
	uint64_t asked = 0;

	put(map, &sample);
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t minirun = minirun_by_hand(&sample.list, test_random(&state));
		int err = wn__map_lookup(map, &sample.list, minirun, 0, &entry);

		expect(err == 0 || err == WN__MAP_NO_PLACE);
		if (err == 0)
			expect(minirun_by_hand(&sample.list, entry.hash.hi) == minirun);
		else
			asked++;
	}
	ck_assert_uint_gt(asked, 4900);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, UINT64_MAX, UINT32_MAX, &entry),
			 WN__MAP_NO_PLACE);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, 2106 << 9, 0, &entry),
			 WN__MAP_NO_PLACE);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, 0, UINT32_MAX, &entry),
			 WN__MAP_NO_PLACE);
	ck_assert_uint_eq(stats_of(map).missing, 0);
	ck_assert_uint_eq(stats_of(map).lookups, 5003);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* Under the plain shape nearly every minirun is empty; between any two hashes, too. */
START_TEST(an_empty_minirun_is_proved_to_be_empty)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(4, 3000, 3000, WN__PLAIN_REMAINDER_BITS);
	struct wn__keylist_entry entry;
	uint64_t gaps = 0, miniruns = sample.list.slots << sample.list.remainder_bits;

	put(map, &sample);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t minirun = minirun_by_hand(&sample.list, sample.uppers[i]);
		uint64_t next = i + 1 < 3000 ?
					minirun_by_hand(&sample.list, sample.uppers[i + 1]) :
					miniruns;

		expect(wn__map_lookup(map, &sample.list, minirun, 0, &entry) == 0);
		if (minirun + 1 >= next)
			continue;
		expect(wn__map_lookup(map, &sample.list, minirun + 1, 0, &entry) ==
		       WN__MAP_NO_PLACE);
		expect(wn__map_lookup(map, &sample.list, next - 1, 0, &entry) ==
		       WN__MAP_NO_PLACE);
		gaps++;
	}
	ck_assert_uint_gt(gaps, 2900);
	/* A key list that is not there proves nothing. */
	ck_assert_int_eq(wn__map_drop(map, sample.list.id), 0);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, 0, 0, &entry), WN_ERR_NOT_FOUND);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* 64, less one for each factor of two in the number of slots. */
START_TEST(the_bits_said_to_be_known_are_those_of_any_hash_it_may_be)
{
	struct wn__map *map = open_store(_i % STORE_COUNT);
	unsigned zeros = (unsigned)(_i / STORE_COUNT);
	struct sample sample = make_sample(4, 20000, UINT64_C(329) << zeros, 5);
	uint64_t state = test_seed("the_bits_said_to_be_known", 6), next = 0;

	ck_assert_uint_eq(wn__keylist_known_bits(&sample.list), 64 - zeros);
	put(map, &sample);
	for (uint64_t i = 0; i < sample.list.key_count; i++) {
		struct wn_hash hash = {sample.uppers[i], test_random(&state)};
		struct wn__fingerprint truth = wn__split(hash, sample.list.slots), other;
		struct wn__keylist_entry entry;

		expect(wn__map_lookup(map, &sample.list,
				      minirun_by_hand(&sample.list, hash.hi), 0, &entry) == 0);
		expect(entry.fraction_bits == 64 - zeros);
		expect(do_bits_agree(&sample.list, &entry,
				     (struct wn_hash){entry.hash.hi, hash.lo}));
		expect(are_bits_true(&sample.list, &entry, entry.hash.hi));
		/* The next bit is known of none. */
		hash.lo ^= UINT64_C(1) << 63;
		other = wn__split(hash, sample.list.slots);
		next += wn__common_prefix(truth.hi, truth.lo, other.hi, other.lo) == 64 - zeros;
	}
	ck_assert_uint_eq(next, sample.list.key_count);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(known_bits_are_64_less_the_factors_of_two_of_the_slots)
{
	struct wn__keylist list = {.key_count = 1, .remainder_bits = 9};

	for (unsigned zeros = 0; zeros <= 40; zeros++) {
		list.slots = UINT64_C(1) << zeros;
		ck_assert_uint_eq(wn__keylist_known_bits(&list), 64 - zeros);
		list.slots |= 1;
		ck_assert_uint_eq(wn__keylist_known_bits(&list), 64);
	}
}
END_TEST

/* 12 miniruns; the fifth begins at 5/12 = 0.6aaa... in hexadecimal. The upper half decides on
 * which side of it a hash is, whatever the lower half is. */
START_TEST(the_upper_half_decides_the_minirun)
{
	struct wn__map *map = open_store(_i);
	uint64_t uppers[] = {
		UINT64_C(0x6aaaaaaaaaaaaaa9), UINT64_C(0x6aaaaaaaaaaaaaaa),
		UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_C(0x6aaaaaaaaaaaaaaa),
		UINT64_C(0x6aaaaaaaaaaaaaab),
	};
	struct sample sample = make_sample(1, 0, 3, 2);

	free_sample(&sample);
	sample.uppers = uppers;
	sample.list.key_count = 5;
	ck_assert_uint_eq(minirun_by_hand(&sample.list, uppers[3]), 4);
	ck_assert_uint_eq(minirun_by_hand(&sample.list, uppers[4]), 5);
	for (unsigned i = 0; i < 5; i++)
		for (uint64_t lo = UINT64_MAX; lo; lo >>= 1)
			ck_assert_uint_eq(wn__hash_minirun((struct wn_hash){uppers[i], lo}, 3, 2),
					  minirun_by_hand(&sample.list, uppers[i]));
	put(map, &sample);
	expect_list(map, &sample, 1);
	wn__map_destroy(map);
}
END_TEST

START_TEST(only_known_bits_tell_a_query_from_a_key)
{
	struct wn__keylist list = {.key_count = 1, .slots = 1, .remainder_bits = 4};
	struct wn__keylist_entry entry = {.hash = {UINT64_C(0x5555555555555555), 0},
				      .fraction_bits = 64};

	/* With one slot the fraction is the hash. Pieces of 20 end at 24, 44, 64, 84. */
	for (unsigned differ = 0; differ < 128; differ++) {
		struct wn_hash query = entry.hash;

		if (differ < 64)
			query.hi ^= UINT64_C(1) << (63 - differ);
		else
			query.lo ^= UINT64_C(1) << (127 - differ);
		entry.fraction_bits = 64;
		ck_assert_int_eq(wn__keylist_entry_tells(&list, &entry, query, 20),
				 differ >= 4 && differ < 64);
		entry.fraction_bits = 63;
		ck_assert_int_eq(wn__keylist_entry_tells(&list, &entry, query, 20),
				 differ >= 4 && differ < 44);
		entry.fraction_bits = 128;
		ck_assert(wn__keylist_entry_tells(&list, &entry, query, 20));
	}
	entry.fraction_bits = 127;
	ck_assert(!wn__keylist_entry_tells(&list, &entry, entry.hash, 20));
}
END_TEST

/* Of the pieces that lessons come in, one is known behind up to 22 remainder bits. */
START_TEST(a_lessons_first_piece_is_known_up_to_22_remainder_bits)
{
	struct wn__keylist_entry entry = {.hash = {UINT64_C(0x5555555555555555), 0}};

	for (unsigned bits = 2; bits <= 32; bits++) {
		for (uint64_t slots = 1; slots <= 2; slots++) {
			struct wn__keylist list = {
				.key_count = 1, .slots = slots, .remainder_bits = bits};
			struct wn_hash query = entry.hash;

			/* The first bit behind the remainder. */
			query.hi ^= UINT64_C(1) << (64 - slots - bits);
			entry.fraction_bits = wn__keylist_known_bits(&list);
			ck_assert_int_eq(wn__keylist_entry_tells(&list, &entry, query,
								 WN__PIECE_BITS),
					 bits + slots - 1 <= 22);
		}
	}
}
END_TEST

/* As they come out of a store: bits of the lower half tell nothing, and those of the upper half
 * only in a piece that is known to its end. */
START_TEST(only_known_bits_of_a_stored_list_tell_a_query_from_a_key)
{
	struct wn__map *map = open_store(_i % STORE_COUNT);
	unsigned zeros = (unsigned)(_i / STORE_COUNT);
	struct sample sample = make_sample(6, 500, UINT64_C(1) << zeros, 10 - zeros);

	put(map, &sample);
	for (uint64_t i = 0; i < sample.list.key_count; i++) {
		uint64_t upper = sample.uppers[i];
		struct wn__keylist_entry entry;

		expect(wn__map_lookup(map, &sample.list, minirun_by_hand(&sample.list, upper), 0,
				      &entry) == 0);
		for (unsigned bit = 0; bit < 128; bit++) {
			struct wn_hash query = entry.hash;
			bool tells;

			if (bit < 64)
				query.hi ^= UINT64_C(1) << (63 - bit);
			else
				query.lo ^= UINT64_C(1) << (127 - bit);
			/* Quotient and remainder are the first 10 bits; then come pieces. */
			tells = wn__keylist_entry_tells(&sample.list, &entry, query, 20);
			expect(tells == (bit >= 10 && bit < 50));
		}
	}
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(equal_hashes_are_entries_of_their_own)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 2000, 2106, 9);

	for (unsigned i = 300; i < 1500; i++)
		sample.uppers[i] = sample.uppers[300];
	put(map, &sample);
	expect_list(map, &sample, 1);
	expect_stream(map, &sample);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(crafted_hashes_are_found_all_the_same)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(2, 100000, 105264, 9);
	uint64_t reads;

	/* Each distance is a little larger than the one before: no straight line. */
	for (uint64_t i = 0; i < sample.list.key_count; i++)
		sample.uppers[i] = i * i * i * 15000;
	put(map, &sample);
	expect_list(map, &sample, 37);
	/* Every second lookup is for a rank that is not there. */
	reads = stats_of(map).reads / stats_of(map).lookups;
	ck_assert_uint_le(reads, 6 + 9 + 2);
	expect_stream(map, &sample);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_lookup_in_a_million_reads_two_pages_or_three)
{
	struct wn__map *map = open_store(_i);
	uint64_t count = test_is_quick() ? 100000 : 1000000;
	struct sample sample = make_sample(9, count, count * 20 / 19 + 1, 9);
	struct wn__map_stats stats;

	put(map, &sample);
	expect_list(map, &sample, 11);
	stats = stats_of(map);
	fprintf(stderr, "%" PRIu64 " keys, %s: %.2f pages a lookup\n", count, stores[_i].name,
		(double)stats.reads / (double)stats.lookups);
	ck_assert_uint_lt(stats.reads, 3 * stats.lookups);
	ck_assert_uint_eq(stats.damaged + stats.mismatched + stats.failed, 0);
	expect_stream(map, &sample);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("map_finding");
	TCase *tests = tcase_create("key_lists");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, every_hash_is_found_at_its_minirun_and_rank, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_place_where_nothing_is_has_no_hash, 0, STORE_COUNT);
	tcase_add_loop_test(tests, an_empty_minirun_is_proved_to_be_empty, 0, STORE_COUNT);
	tcase_add_loop_test(tests, the_bits_said_to_be_known_are_those_of_any_hash_it_may_be, 0,
			    7 * STORE_COUNT);
	tcase_add_test(tests, known_bits_are_64_less_the_factors_of_two_of_the_slots);
	tcase_add_loop_test(tests, the_upper_half_decides_the_minirun, 0, STORE_COUNT);
	tcase_add_test(tests, only_known_bits_tell_a_query_from_a_key);
	tcase_add_test(tests, a_lessons_first_piece_is_known_up_to_22_remainder_bits);
	tcase_add_loop_test(tests, only_known_bits_of_a_stored_list_tell_a_query_from_a_key, 0,
			    4 * STORE_COUNT);
	tcase_add_loop_test(tests, equal_hashes_are_entries_of_their_own, 0, STORE_COUNT);
	tcase_add_loop_test(tests, crafted_hashes_are_found_all_the_same, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_lookup_in_a_million_reads_two_pages_or_three, 0, STORE_COUNT);
	return test_run(suite);
}
