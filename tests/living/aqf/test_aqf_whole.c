/* test_aqf_whole.c - whole living filters: grown, shrunk, merged, loaded in bulk. */
#include <math.h>

#include "tests/support/aqf_subject.h"

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
	qsort(hashes, count, sizeof(*hashes), test_compare_hashes);
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

int main(void)
{
	Suite *suite = suite_create("aqf_whole");
	TCase *tests = tcase_create("whole filters");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, growing_and_shrinking_keep_everything, 0, 29);
	tcase_add_test(tests, filters_that_cannot_shrink_are_refused);
	tcase_add_loop_test(tests, a_merge_holds_both_and_doubles_when_it_must, 0, 5);
	tcase_add_test(tests, filters_that_do_not_fit_are_not_merged);
	tcase_add_test(tests, extensions_of_two_sizes_are_not_merged);
	tcase_add_test(tests, a_merge_without_remainder_bits_to_give_up_is_refused);
	tcase_add_loop_test(tests, a_bulk_load_is_as_good_as_inserts, 2, 33);
	tcase_add_test(tests, a_bulk_load_out_of_order_or_too_large_is_refused);
	tcase_add_loop_test(tests, both_ways_to_search_do_the_same, 0, 6);
	return test_run(suite);
}
