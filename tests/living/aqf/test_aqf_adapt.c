/* test_aqf_adapt.c - the living adaptive quotient filter learns, keeps room and forgets. */
#include <errno.h>

#include "tests/support/aqf_subject.h"

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

int main(void)
{
	Suite *suite = suite_create("aqf_adapt");
	TCase *tests = tcase_create("adapt");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
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
	return test_run(suite);
}
