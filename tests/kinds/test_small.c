/* Small filters: the frame around them, and the quotient filter's form. Every key is found,
 * whatever the number of keys; bytes that are not a whole filter of ours say "maybe" and are
 * survived; and what is around the filter's bits is as small as it is said to be. */
#include <errno.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "kinds/aqf/aqf_small.h"
#include "tests/support/small_filter.h"

static const struct wn__small_header header = {
	.id = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
	       0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f},
	.secret_sum = UINT64_C(0x0123456789abcdef)};

static struct small_filter make_filter(uint32_t count, unsigned remainder_bits, uint64_t *random,
				       struct wn_hash (*choose)(uint64_t *random))
{
	char options[60];

	snprintf(options, sizeof(options), "aqf:remainder_bits=%u", remainder_bits);
	return small_filter_of(options, count, 0, random, choose);
}

static size_t size_of(const char *options, uint32_t count)
{
	struct wn_config *config = small_config(options);
	size_t size = wn__kind_by_id(WN_KIND_AQF)->small->size(config, count);

	wn_config_destroy(config);
	return size;
}

/* All hashes in a narrow place: one bucket gets them all. */
static struct wn_hash choose_narrow(uint64_t *random)
{
	return (struct wn_hash){UINT64_C(0x7000000000000000) | test_random(random) >> 16,
				test_random(random)};
}

/* Half of them here, half of them anywhere: the directory is far off what is expected. */
static struct wn_hash choose_skewed(uint64_t *random)
{
	struct wn_hash hash = test_random_hash(random);

	if (hash.lo & 1)
		hash.hi >>= 4;
	return hash;
}

static struct wn__aqf_small open_filter(const struct small_filter *filter)
{
	struct wn__aqf_small small;

	small_form_of(filter->bytes, filter->size);
	expect(wn__aqf_small_open(filter->bytes, filter->size, &small));
	return small;
}

static enum wn__aqf_small_answer ask(const struct wn__aqf_small *small, struct wn_hash hash,
				     bool fast)
{
	return fast && wn__cpu_is_fast() ? wn__aqf_small_ask(small, hash, true)
					 : wn__aqf_small_ask(small, hash, false);
}

static void check_keys(const struct small_filter *filter)
{
	struct wn__aqf_small small = open_filter(filter);
	uint32_t count;

	for (uint32_t i = 0; i < filter->count; i++) {
		expect(ask(&small, filter->hashes[i], false) != WN__AQF_SMALL_NO);
		expect(ask(&small, filter->hashes[i], true) != WN__AQF_SMALL_NO);
		expect(wn__aqf_small_search(&small, filter->hashes[i]));
	}
	expect(wn__aqf_small_check(&small, &count));
	expect(count == filter->count);
	expect_small_keys(filter);
}

/* ---- the quotient filter ------------------------------------------------ */

START_TEST(small_never_forgets_a_key)
{
	uint64_t random = test_seed("small_never_forgets_a_key", 1);

	for (uint32_t count = 1; count < 700; count += count < 80 ? 1 : 37)
		for (unsigned bits = WN__AQF_SMALL_MIN_REMAINDER;
		     bits <= WN__AQF_SMALL_MAX_REMAINDER; bits++) {
			struct small_filter filter =
				make_filter(count, bits, &random, test_random_hash);

			check_keys(&filter);
			free_small_filter(&filter);
		}
	for (uint32_t count = 1000; count < 20000; count = count * 3 / 2) {
		struct small_filter filter = make_filter(count, 7, &random, test_random_hash);

		check_keys(&filter);
		free_small_filter(&filter);
	}
}
END_TEST

START_TEST(crafted_hashes_are_found_as_well)
{
	uint64_t random = test_seed("crafted_hashes_are_found_as_well", 2);

	for (uint32_t count = 1; count < 4000; count = count * 3 / 2 + 1)
		for (unsigned bits = 2; bits <= WN__AQF_SMALL_MAX_REMAINDER; bits += 3) {
			struct small_filter narrow =
				make_filter(count, bits, &random, choose_narrow);
			struct small_filter skewed =
				make_filter(count, bits, &random, choose_skewed);

			check_keys(&narrow);
			check_keys(&skewed);
			free_small_filter(&narrow);
			free_small_filter(&skewed);
		}
}
END_TEST

/* Where the quick way is sure it is right, and it is mostly sure. */
START_TEST(the_quick_way_and_the_careful_one_agree)
{
	uint64_t random = test_seed("the_quick_way_and_the_careful_one_agree", 3);
	unsigned long doubts = 0, matches = 0, queries = 0;

	for (uint32_t count = 1; count < 5000; count = count * 4 / 3 + 1) {
		struct small_filter filter = make_filter(count, 7, &random, test_random_hash);
		struct wn__aqf_small small = open_filter(&filter);

		for (int i = 0; i < 2000; i++) {
			struct wn_hash query = test_random_hash(&random);
			bool found = wn__aqf_small_search(&small, query);
			enum wn__aqf_small_answer answer = ask(&small, query, i % 2);

			expect(answer == WN__AQF_SMALL_UNSURE ||
			       found == (answer == WN__AQF_SMALL_MAYBE));
			expect(small_says_maybe(&wn__aqf_small_form, filter.bytes, filter.size,
						query) == found);
			if (count >= 16) {
				matches += found;
				doubts += answer == WN__AQF_SMALL_UNSURE;
				queries++;
			}
		}
		free_small_filter(&filter);
	}
	/* Three keys in four buckets, 128 remainders: 0.59%. */
	expect(matches > queries / 250 && matches < queries / 120);
	expect(doubts < queries / 100);
}
END_TEST

START_TEST(overhead_is_four_bytes_at_36_keys_and_seven_at_2000)
{
	for (unsigned bits = 5; bits <= 12; bits++) {
		/* A remainder, a bit for the key, four thirds of a bit for the buckets; and from
		 * 64 buckets on an eighth of a bit for the directory. */
		double own = 36 * (bits + 1 + 4.0 / 3) / 8;
		char options[60];

		snprintf(options, sizeof(options), "aqf:remainder_bits=%u", bits);
		ck_assert_double_le((double)size_of(options, 36), own + 4 + 1);
		own = 2000 * (bits + 1 + 4.0 / 3 * 1.125 * 1.05) / 8;
		ck_assert_double_le((double)size_of(options, 2000), own + 7 + 1);
	}
	/* As LevelDB's Bloom filter of 10 bits a key, and less. */
	ck_assert_uint_eq(size_of("aqf", 36), 46);
	ck_assert_uint_le(size_of("aqf", 563), 697);
	ck_assert_uint_le(size_of("aqf", 2000), 2496);
}
END_TEST

START_TEST(options_give_the_remainder)
{
	ck_assert_uint_eq(size_of("aqf", 500), size_of("aqf:remainder_bits=7", 500));
	ck_assert_uint_eq(size_of("aqf:bits_per_key=10", 500),
			  size_of("aqf:remainder_bits=7", 500));
	ck_assert_uint_eq(size_of("aqf:bits_per_key=9.34", 500),
			  size_of("aqf:remainder_bits=7", 500));
	ck_assert_uint_eq(size_of("aqf:bits_per_key=9.33", 500),
			  size_of("aqf:remainder_bits=6", 500));
	ck_assert_uint_eq(size_of("aqf:bits_per_key=4.4", 500),
			  size_of("aqf:remainder_bits=2", 500));
	ck_assert_uint_eq(size_of("aqf:bits_per_key=18", 500),
			  size_of("aqf:remainder_bits=15", 500));
}
END_TEST

static void expect_refused(const char *options, const char *said)
{
	struct wn_config *config;
	char message[200], cut[5];

	ck_assert_int_eq(wn_config_parse(options, message, sizeof(message), &config), 0);
	ck_assert_int_eq(wn__small_check_config(config, message, sizeof(message)), WN_ERR_OPTION);
	if (!strstr(message, said))
		ck_abort_msg("%s: %s", options, message);
	ck_assert_int_eq(wn__small_check_config(config, cut, sizeof(cut)), WN_ERR_OPTION);
	ck_assert_uint_eq(strlen(cut), 4);
	wn_config_destroy(config);
}

START_TEST(options_that_small_filters_do_not_have_are_refused)
{
	expect_refused("aqf:remainder_bits=17", "'remainder_bits' is at most 16");
	expect_refused("aqf:bits_per_key=18.1", "'bits_per_key' is at most 18");
	expect_refused("aqf:load=0.9", "'load'");
	expect_refused("sscf:bits_per_key=3.9", "'bits_per_key' is from 4 to 18");
	expect_refused("sscf:bits_per_key=18.1", "'bits_per_key' is from 4 to 18");
	expect_refused("sscf:hashes=4", "'hashes'");
	expect_refused("sscf:listed_share=0.4", "'listed_share'");
	expect_refused("sscf:vulnerable_share=1", "'vulnerable_share'");
	wn_config_destroy(small_config("aqf:remainder_bits=16"));
	wn_config_destroy(small_config("sscf:bits_per_key=4"));
	wn_config_destroy(small_config("sscf:bits_per_key=18"));
}
END_TEST

/* ---- the frame ---------------------------------------------------------- */

START_TEST(filter_cut_anywhere_says_maybe)
{
	static const char *const options[] = {"aqf", "aqf:remainder_bits=16", "sscf"};
	static const uint32_t counts[] = {1, 2, 36, 50, 700, 850, 1100, 5000};
	uint64_t random = test_seed("filter_cut_anywhere_says_maybe", 4);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
			struct small_filter filter =
				make_small_filter(options[i], counts[j], 10, &random);

			expect_no_cut_is_whole(filter.bytes, filter.size, 7);
			free(filter.bytes);
			small_build(&filter, options[i], &header);
			expect_no_cut_is_whole(filter.bytes, filter.size, 7);
			free_small_filter(&filter);
		}
}
END_TEST

/* Made by whoever chooses the keys: any bytes may stand where a cut puts the end. */
START_TEST(no_cut_is_whole_whatever_the_bytes)
{
	for (size_t size = WN__SMALL_LEAST_SIZE; size < 3000; size += size < 20 ? 1 : 131) {
		unsigned char *bytes = malloc(size);

		memset(bytes, 0xff, size);
		craft_small(bytes, size, WN_KIND_AQF);
		small_form_of(bytes, size);
		expect_no_cut_is_whole(bytes, size, 1);
		/* Every place says that the filter ends there. */
		for (size_t cut = WN__SMALL_LONG; cut < size; cut++) {
			unsigned kind;

			for (unsigned i = 0; i < 3; i++)
				bytes[cut - 4 + i] = (unsigned char)(cut >> 8 * i);
			bytes[cut - 1] = 0xff;
			expect(small_claims(bytes, cut, &kind) == WN__SMALL_DAMAGED);
			memset(bytes + cut - 4, 0xff, 4);
		}
		free(bytes);
	}
}
END_TEST

START_TEST(other_secrets_filters_are_never_whole)
{
	uint64_t random = test_seed("other_secrets_filters_are_never_whole", 9);
	struct small_filter filter = make_small_filter("aqf", 36, 0, &random);
	struct wn__small_header read;
	unsigned kind;

	for (unsigned bit = 0; bit < 20; bit++) {
		expect(wn__small_claims(filter.bytes, filter.size,
					SMALL_SECRET ^ UINT32_C(1) << bit,
					&kind) == WN__SMALL_DAMAGED);
		expect(kind == 0);
	}
	ck_assert_uint_eq(wn__small_named_secret(filter.bytes, filter.size), SMALL_SECRET);
	free(filter.bytes);
	small_build(&filter, "aqf", &header);
	for (unsigned bit = 0; bit < 20; bit++) {
		expect(wn__small_claims(filter.bytes, filter.size,
					SMALL_SECRET ^ UINT32_C(1) << bit,
					&kind) == WN__SMALL_DAMAGED);
		expect(!wn__small_get_header(filter.bytes, filter.size,
					     SMALL_SECRET ^ UINT32_C(1) << bit, &read));
	}
	free_small_filter(&filter);
}
END_TEST

START_TEST(unknown_kinds_are_damaged)
{
	unsigned char bytes[50] = {0};
	unsigned kind;

	for (unsigned id = 0; id < WN__SMALL_KINDS; id++) {
		craft_small(bytes, sizeof(bytes), id);
		ck_assert_uint_eq(wn__small_kind(bytes), id);
		if (id == WN_KIND_AQF || id == WN_KIND_SSCF)
			continue;
		expect(small_claims(bytes, sizeof(bytes), &kind) == WN__SMALL_DAMAGED);
		/* Cut off where it looks like LevelDB's own. */
		bytes[29] = 6;
		expect(small_claims(bytes, 30, &kind) == WN__SMALL_DAMAGED);
		expect(!wn__small_queries()[id]);
	}
}
END_TEST

/* LevelDB's Bloom filters end in their number of probes, up to 30. */
START_TEST(leveldbs_own_filters_are_foreign)
{
	uint64_t random = test_seed("leveldbs_own_filters_are_foreign", 10);
	unsigned long foreign = 0, rounds = 100000;

	for (unsigned long round = 0; round < rounds; round++) {
		unsigned char bytes[46];
		unsigned kind;
		enum wn__small_claim claim;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)test_random(&random);
		bytes[45] = (unsigned char)(1 + round % 30);
		claim = small_claims(bytes, sizeof(bytes), &kind);
		expect(claim != WN__SMALL_WHOLE);
		foreign += claim == WN__SMALL_FOREIGN;
		bytes[45] = (unsigned char)(31 + round % 200);
		bytes[0] = (unsigned char)(~SMALL_SECRET);
		expect(small_claims(bytes, sizeof(bytes), &kind) == WN__SMALL_DAMAGED);
	}
	expect(foreign > rounds - rounds / 800);
}
END_TEST

START_TEST(a_header_reads_back_and_has_a_filter_behind_it)
{
	uint64_t random = test_seed("a_header_reads_back_and_has_a_filter_behind_it", 11);

	for (uint32_t count = 1; count < 6000; count = count * 3 / 2 + 1) {
		struct small_filter filter = make_small_filter("aqf", count, 0, &random);
		unsigned char *plain = filter.bytes;
		size_t size = filter.size;
		struct wn__small_header read;
		unsigned kind = 77;

		expect(!wn__small_get_header(plain, size, SMALL_SECRET, &read));
		small_build(&filter, "aqf", &header);
		ck_assert_uint_eq(filter.size, size + WN__SMALL_HEADER);
		ck_assert_mem_eq(filter.bytes + WN__SMALL_HEADER, plain, size);
		expect(small_claims(filter.bytes, filter.size, &kind) == WN__SMALL_WHOLE);
		ck_assert_uint_eq(kind, 0);
		expect(wn__small_get_header(filter.bytes, filter.size, SMALL_SECRET, &read));
		ck_assert_mem_eq(read.id, header.id, sizeof(read.id));
		ck_assert_uint_eq(read.secret_sum, header.secret_sum);
		ck_assert_uint_eq(wn__small_named_secret(filter.bytes, filter.size), SMALL_SECRET);
		free(plain);
		free_small_filter(&filter);
	}
}
END_TEST

/* Bytes that must never change: databases have them. */
START_TEST(the_bytes_are_the_documented_ones)
{
	static const unsigned char aqf[] = {0xd5, 0x89, 0x12, 0x56, 0x55, 0x05, 0xc0,
					    0x72, 0x50, 0xd2, 0x9b, 0x77, 0x07, 0x84};
	static const unsigned char front[] = {0xd5, 0x15, 0x02};
	static const unsigned char sum[] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
	static const unsigned char sscf[] = {0xd5, 0xf1, 0x22, 0x1f, 0x21, 0x0e, 0xcc, 0xa8,
					     0x05, 0xff, 0x62, 0x18, 0x8e, 0xbe, 0xfd, 0x84};
	struct small_filter filter = {.hashes = malloc(10 * sizeof(struct wn_hash)), .count = 10};

	for (uint64_t i = 0; i < 10; i++)
		filter.hashes[i] = (struct wn_hash){i << 60 | i << 56 | i * 0x123456789abc,
						    i * UINT64_C(0x9e3779b97f4a7c15)};
	small_build(&filter, "aqf:remainder_bits=5", NULL);
	ck_assert_uint_eq(filter.size, sizeof(aqf));
	ck_assert_mem_eq(filter.bytes, aqf, sizeof(aqf));
	free(filter.bytes);
	small_build(&filter, "aqf:remainder_bits=5", &header);
	ck_assert_uint_eq(filter.size, 3 + 16 + 8 + sizeof(aqf));
	ck_assert_mem_eq(filter.bytes, front, 3);
	ck_assert_mem_eq(filter.bytes + 3, header.id, 16);
	ck_assert_mem_eq(filter.bytes + 19, sum, 8);
	ck_assert_mem_eq(filter.bytes + 27, aqf, sizeof(aqf));
	free(filter.bytes);
	small_build(&filter, "sscf:bits_per_key=9", NULL);
	ck_assert_uint_eq(filter.size, sizeof(sscf));
	ck_assert_mem_eq(filter.bytes, sscf, sizeof(sscf));
	free_small_filter(&filter);
}
END_TEST

/* With a size field, a directory of four bytes an entry, and cells in blocks. */
START_TEST(the_bytes_of_large_ones_are_the_documented_ones)
{
	uint64_t random = 12;
	struct small_filter filter = make_small_filter("aqf", 5000, 0, &random);

	ck_assert_uint_eq(filter.size, 6368);
	ck_assert_int_eq(filter.bytes[3] | filter.bytes[4] << 8 | filter.bytes[5] << 16, 6368);
	ck_assert(XXH3_64bits(filter.bytes, filter.size) == UINT64_C(0x728c66d4186e8560));
	free(filter.bytes);
	small_build(&filter, "sscf", NULL);
	ck_assert_uint_eq(filter.size, 6257);
	ck_assert(XXH3_64bits(filter.bytes, filter.size) == UINT64_C(0xdd947962381bdd0e));
	free_small_filter(&filter);
}
END_TEST

START_TEST(secrets_have_ids_and_sums)
{
	struct wn_secret *one = test_secret(1), *other = test_secret(2);

	ck_assert_uint_eq(wn__small_secret_id(one), 0x528e6);
	ck_assert(wn__small_secret_sum(one, false) == UINT64_C(0xdc0e2be9b4b34a4c));
	ck_assert(wn__small_secret_sum(one, true) == UINT64_C(0xa2bce54faf6097fc));
	ck_assert_uint_ne(wn__small_secret_id(one), wn__small_secret_id(other));
	ck_assert(wn__small_secret_sum(one, false) != wn__small_secret_sum(one, true));
	ck_assert(wn__small_secret_sum(one, false) != wn__small_secret_sum(other, false));
	ck_assert((uint32_t)wn__small_secret_sum(one, false) % (1 << 20) !=
		  wn__small_secret_id(one));
	wn_secret_destroy(one);
	wn_secret_destroy(other);
}
END_TEST

START_TEST(what_cannot_be_built_is_refused)
{
	struct wn_config *config = small_config("aqf");
	struct wn_hash key = {1, 2};
	struct wn__small_input input = {.config = config, .keys = &key, .key_count = 1};
	unsigned char *bytes = (void *)1;
	size_t size = 1, denied = 1;

	input.key_count = 0;
	ck_assert_int_eq(wn__small_build(&input, SMALL_SECRET, NULL, &bytes, &size, &denied),
			 WN_ERR_INVALID);
	ck_assert_ptr_null(bytes);
	input.key_count = WN__SMALL_MAX_KEYS + 1;
	ck_assert_int_eq(wn__small_build(&input, SMALL_SECRET, NULL, &bytes, &size, &denied),
			 WN_ERR_INVALID);
	input.key_count = 1;
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__small_build(&input, SMALL_SECRET, &header, &bytes, &size, &denied),
			 ENOMEM);
	ck_assert_ptr_null(bytes);
	ck_assert_uint_eq(size, 0);
	wn_config_destroy(config);
}
END_TEST

/* The most keys at the most bits: the size field can hold it. */
START_TEST(the_largest_filter_fits_the_size_field)
{
	ck_assert_uint_le(size_of("aqf:remainder_bits=16", WN__SMALL_MAX_KEYS), WN__SMALL_MAX_SIZE);
	ck_assert_uint_gt(size_of("aqf:remainder_bits=16", WN__SMALL_MAX_KEYS), 8 << 20);
}
END_TEST

/* ---- damage ------------------------------------------------------------- */

START_TEST(damaged_filters_are_survived)
{
	uint64_t random = test_seed("damaged_filters_are_survived", 5);
	static const uint32_t counts[] = {1, 2, 15, 16, 36, 70, 600, 5000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct small_filter filter = make_filter(counts[i], 7, &random, test_random_hash);

		expect_damage_survived(&filter, &random);
		free_small_filter(&filter);
	}
}
END_TEST

/* Random bytes and such as are all alike, in a frame that fits. */
START_TEST(crafted_filters_are_survived)
{
	uint64_t random = test_seed("crafted_filters_are_survived", 6);

	for (int round = 0; round < (test_is_quick() ? 20000 : 200000); round++) {
		size_t size = WN__SMALL_LEAST_SIZE +
			      test_random(&random) % (round % 100 ? 120 : 12000);
		unsigned char *bytes = malloc(size);
		struct wn__small_info info;

		for (size_t i = 0; i < size; i++)
			bytes[i] = (unsigned char)(round % 3 ? test_random(&random) :
							       (round % 2 ? 0xff : 0));
		craft_small(bytes, size, WN_KIND_AQF);
		expect(small_form_of(bytes, size) == &wn__aqf_small_form);
		for (int j = 0; j < 4; j++)
			small_says_maybe(&wn__aqf_small_form, bytes, size,
					 test_random_hash(&random));
		wn__aqf_small_form.describe(bytes, size, &info);
		free(bytes);
	}
}
END_TEST

/* A tool sees every flipped bit of the directory and of the buckets' keys. */
START_TEST(most_flipped_bits_are_seen_by_tools)
{
	uint64_t random = test_seed("most_flipped_bits_are_seen_by_tools", 7);
	struct small_filter filter = make_filter(600, 7, &random, test_random_hash);
	struct wn__aqf_small small = open_filter(&filter);
	size_t unary = 600 + small.buckets + 1;
	struct wn__small_info info;

	for (size_t bit = 8 * small.start; bit < 8 * small.unary_at + unary; bit++) {
		filter.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		expect(!wn__aqf_small_form.describe(filter.bytes, filter.size, &info) ||
		       info.key_count != 600);
		filter.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	expect(wn__aqf_small_form.describe(filter.bytes, filter.size, &info));
	free_small_filter(&filter);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("small");
	TCase *aqf = tcase_create("aqf"), *frame = tcase_create("frame");
	TCase *damage = tcase_create("damage");

	tcase_add_test(aqf, small_never_forgets_a_key);
	tcase_add_test(aqf, crafted_hashes_are_found_as_well);
	tcase_add_test(aqf, the_quick_way_and_the_careful_one_agree);
	tcase_add_test(aqf, overhead_is_four_bytes_at_36_keys_and_seven_at_2000);
	tcase_add_test(aqf, options_give_the_remainder);
	tcase_add_test(aqf, options_that_small_filters_do_not_have_are_refused);
	tcase_add_test(frame, filter_cut_anywhere_says_maybe);
	tcase_add_test(frame, no_cut_is_whole_whatever_the_bytes);
	tcase_add_test(frame, other_secrets_filters_are_never_whole);
	tcase_add_test(frame, unknown_kinds_are_damaged);
	tcase_add_test(frame, leveldbs_own_filters_are_foreign);
	tcase_add_test(frame, a_header_reads_back_and_has_a_filter_behind_it);
	tcase_add_test(frame, the_bytes_are_the_documented_ones);
	tcase_add_test(frame, the_bytes_of_large_ones_are_the_documented_ones);
	tcase_add_test(frame, secrets_have_ids_and_sums);
	tcase_add_test(frame, what_cannot_be_built_is_refused);
	tcase_add_test(frame, the_largest_filter_fits_the_size_field);
	tcase_add_test(damage, damaged_filters_are_survived);
	tcase_add_test(damage, crafted_filters_are_survived);
	tcase_add_test(damage, most_flipped_bits_are_seen_by_tools);
	suite_add_tcase(suite, aqf);
	suite_add_tcase(suite, frame);
	suite_add_tcase(suite, damage);
	return test_run(suite);
}
