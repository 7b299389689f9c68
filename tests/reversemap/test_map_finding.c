/* test_map_finding.c - what every store of the reverse map of immutable filters finds. */
#include <winnow/aqf.h>

#include "kinds/shape.h"
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

		put(map, _i, &sample);
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

	put(map, _i, &sample);
	for (unsigned i = 0; i < 5000; i++) {
		struct wn_hash other = test_random_hash(&state);
		uint64_t minirun = minirun_by_hand(&sample.list, other);
		int err = wn__map_lookup(map, &sample.list, minirun, 0, &entry);

		expect(err == 0 || err == WN__MAP_NO_PLACE);
		if (err == 0)
			expect(minirun_by_hand(&sample.list, entry.hash) == minirun);
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

	put(map, _i, &sample);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t minirun = minirun_by_hand(&sample.list, sample.hashes[i]);
		uint64_t next = i + 1 < 3000 ?
					minirun_by_hand(&sample.list, sample.hashes[i + 1]) :
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

START_TEST(the_bits_said_to_be_known_are_those_of_any_hash_it_may_be)
{
	struct wn__map *map = open_store(_i);
	/* Six times divisible by two, or not at all. */
	unsigned zeros = _i % 2 ? 6 : 0;
	struct sample sample = make_sample(4, 20000, 329 << zeros, 5);
	uint64_t state = test_seed("the_bits_said_to_be_known", 6), known = 0;
	uint64_t lost = wn__keylist_lost_bits(stores[_i].hash_bytes);

	put(map, _i, &sample);
	for (uint64_t i = 0; i < sample.list.key_count; i++) {
		struct wn_hash hash = sample.hashes[i];
		struct wn__keylist_entry entry;

		expect(wn__map_lookup(map, &sample.list, minirun_by_hand(&sample.list, hash), 0,
				       &entry) == 0);
		known += entry.fraction_bits;
		hash = entry.hash;
		hash.lo |= test_random(&state) & lost;
		expect(are_bits_true(&sample.list, &entry, hash));
		hash.lo |= lost;
		expect(are_bits_true(&sample.list, &entry, hash));
	}
	known /= sample.list.key_count;
	ck_assert_uint_eq(known, lost ? 8 * stores[_i].hash_bytes - zeros : 128);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* 12 miniruns; the fifth begins at 5/12 = 0.6aaa... in hexadecimal. The first 8 bytes decide on
 * which side of it a hash is, whatever the others are. */
START_TEST(the_first_bytes_decide_the_minirun)
{
	struct wn__map *map = open_store(_i);
	struct wn_hash hashes[] = {
		{UINT64_C(0x6aaaaaaaaaaaaaa9), UINT64_MAX},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), 0},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_C(0xaaaaaaaaaaaaaaaa)},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_C(0xaaaaaaaaaaaaaaab)},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_MAX},
		{UINT64_C(0x6aaaaaaaaaaaaaab), 0},
	};
	struct sample sample = make_sample(1, 0, 3, 2);

	free_sample(&sample);
	sample.hashes = hashes;
	sample.list.key_count = 6;
	ck_assert_uint_eq(minirun_by_hand(&sample.list, hashes[4]), 4);
	ck_assert_uint_eq(minirun_by_hand(&sample.list, hashes[5]), 5);
	put(map, _i, &sample);
	expect_list(map, &sample, 1);
	ck_assert_uint_eq(only_info(map).hash_bytes, stores[_i].hash_bytes);
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

START_TEST(the_length_advised_makes_the_bits_known)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(5, 20000, 21053, 9);
	unsigned advised = wn__keylist_hash_bytes(&sample.list, 9 + 42);
	unsigned known = 0;

	ck_assert_uint_eq(advised, 8);
	ck_assert_uint_eq(wn__keylist_hash_bytes(&sample.list, 9), 8);
	ck_assert_uint_eq(wn__keylist_hash_bytes(&sample.list, 128), 16);
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, advised), 0);
	for (uint64_t i = 0; i < sample.list.key_count; i++) {
		struct wn__keylist_entry entry;

		expect(wn__map_lookup(map, &sample.list,
				       minirun_by_hand(&sample.list, sample.hashes[i]), 0,
				       &entry) == 0);
		known += entry.fraction_bits >= 9 + 42;
	}
	ck_assert_uint_eq(known, sample.list.key_count);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(equal_hashes_are_entries_of_their_own)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 2000, 2106, 9);

	for (unsigned i = 300; i < 1500; i++)
		sample.hashes[i] = sample.hashes[300];
	put(map, _i, &sample);
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
		sample.hashes[i] = (struct wn_hash){i * i * i * 15000, i};
	put(map, _i, &sample);
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

	put(map, _i, &sample);
	expect_list(map, &sample, 11);
	stats = stats_of(map);
	fprintf(stderr, "%" PRIu64 " keys, %u bytes a hash: %.2f pages a lookup\n", count,
		stores[_i].hash_bytes, (double)stats.reads / (double)stats.lookups);
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
			    STORE_COUNT);
	tcase_add_loop_test(tests, the_first_bytes_decide_the_minirun, 0, STORE_COUNT);
	tcase_add_test(tests, only_known_bits_tell_a_query_from_a_key);
	tcase_add_loop_test(tests, the_length_advised_makes_the_bits_known, 0, STORE_COUNT);
	tcase_add_loop_test(tests, equal_hashes_are_entries_of_their_own, 0, STORE_COUNT);
	tcase_add_loop_test(tests, crafted_hashes_are_found_all_the_same, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_lookup_in_a_million_reads_two_pages_or_three, 0, STORE_COUNT);
	return test_run(suite);
}
