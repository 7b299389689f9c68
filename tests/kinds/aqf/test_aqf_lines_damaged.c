/* test_aqf_lines_damaged.c - blocks of AdaptiveQFs in lines: their bytes, damaged and hostile. */
#include "tests/support/lines_block.h"

static const struct {
	unsigned extra_bits, quotients, keys_per_span;
} layouts[] = {{0, 93, 44000}, {0, 40, 50000}, {1, 76, 40800}, {3, 70, 33500}, {5, 60, 30100},
	       {8, 55, 23000}};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

/* With odd spans, and fingerprints that are extended. */
static struct lines_sample rich_sample(unsigned layout, size_t count, uint64_t *random)
{
	struct lines_sample sample =
		random_sample(count, layouts[layout].extra_bits, layouts[layout].quotients,
			      layouts[layout].keys_per_span, random);

	for (size_t i = 0; i < count / 8; i++)
		sample.hashes[i].hi = UINT64_C(0x7000000000000000) + (i << 20);
	sample.count = sort_distinct(sample.hashes, count);
	sample.negatives = malloc(100 * sizeof(*sample.negatives));
	for (size_t i = 0; i < 100; i++)
		sample.negatives[i] = near_hash(
			&sample, sample.hashes[test_random(random) % sample.count], random);
	sample.negative_count = sort_distinct(sample.negatives, 100);
	drop_stored(&sample);
	sample_build(&sample, 0);
	return sample;
}

static void sign_again(const struct lines_sample *sample)
{
	wn__block_set_header_sum(sample->block);
	wn__block_set_payload_sum(sample->block, sample->size - WN__BLOCK_MIN_SIZE);
}

/* Open as the public function does; NULL if it is refused. */
static struct wn_filter *open_sample(const struct lines_sample *sample, enum wn_check check)
{
	struct wn_filter *filter;
	const char *reason;
	int err = wn_filter_open(sample->block, sample->size, check, sample->secret, &filter,
				 &reason);

	expect((err != 0) == (filter == NULL) && (err != 0) == (reason != NULL));
	return filter;
}

/* Any answers, without reading what is not the block's. */
static void ask_around(const struct lines_sample *sample, unsigned queries, uint64_t *random)
{
	struct wn_block_info info = sample_info(sample, WN_CHECK_HEADER);
	struct wn_hash hashes[64];
	struct wn__lines lines;
	bool answers[64];
	const char *reason;

	if (wn__lines_open(&info, WN_CHECK_HEADER, &lines, &reason))
		return;
	for (unsigned i = 0; i < 64; i++)
		hashes[i] = test_random_hash(random);
	hashes[0].hi = 0;
	hashes[1].hi = UINT64_MAX;
	for (int path = 0; path < WN__PATHS; path++) {
		struct wn__lines_calls calls =
			wn__lines_calls_of(&lines, (enum wn__lines_path)path);
		struct wn_match match;

		if (!calls.query)
			continue;
		for (unsigned i = 0; i < queries; i++)
			calls.query(&lines, i < 64 ? hashes[i] : test_random_hash(random), &match);
		calls.query_batch(&lines, hashes, 64, answers);
	}
	for (uint32_t rank = 0; rank < 3; rank++)
		wn__lines_query_from(&lines, hashes[2 + rank], rank, NULL);
}

/* ---- bytes that may not change --------------------------------------------- */

static void expect_bytes(const unsigned char *bytes, size_t size, const char *wanted)
{
	char text[3];

	for (size_t i = 0; i < size; i++) {
		snprintf(text, sizeof(text), "%02x", bytes[i]);
		if (strncmp(text, wanted + 2 * i, 2) != 0)
			ck_abort_msg("byte %zu is %s and not %.2s", i, text, wanted + 2 * i);
	}
}

/* One span of 93 quotients, 23,808 fingerprints. The keys' are numbers 1,488, 1,489, 1,493 and
 * 11,904: quotients 5, 5, 5 and 46, remainders 208, 209, 213 and 128. So the row is 5 zeros, 3
 * ones, 41 zeros, a one and 47 zeros. */
START_TEST(golden_bytes)
{
	struct lines_sample sample = {
		.shape = {0, 93, 1},
		.hashes = malloc(4 * sizeof(struct wn_hash)),
		.count = 4,
		.negatives = malloc(sizeof(struct wn_hash)),
		.negative_count = 1,
	};
	const unsigned char *payload;

	sample.hashes[0] = (struct wn_hash){UINT64_C(0x1000000000000000), 1};
	sample.hashes[1] = (struct wn_hash){UINT64_C(0x1003000000000000), 2};
	sample.hashes[2] = (struct wn_hash){UINT64_C(0x1010000000000000), 3};
	sample.hashes[3] = (struct wn_hash){UINT64_C(0x8000000000000000), 4};
	sample.negatives[0] = (struct wn_hash){UINT64_C(0x8000000000000001), 5};
	sample_build(&sample, 0);
	payload = sample.block + WN__BLOCK_HEADER_SIZE;
	ck_assert_uint_eq(sample.size, WN__BLOCK_MIN_SIZE + 64 + 1 + 8);
	expect_bytes(sample.block + WN__BLOCK_PARAMS_AT, 32,
		     "085d0040010000000100000000000000"
		     "01000000000000000000000000000000");
	expect_bytes(payload, 64,
		     "00e0000000000002"
		     "0000000000000000000000000000000000000000000000000000000000000000"
		     "0000000000000000000000000000000000000000"
		     "80d5d1d0");
	expect_bytes(payload + 64, 1, "ff");
	expect_bytes(payload + 65, 8, "0000000000000080");
	sample_free(&sample);
}
END_TEST

/* The sums of whole payloads, one for each layout. */
START_TEST(golden_sums)
{
	static const uint64_t sums[LAYOUTS] = {
		UINT64_C(0xa71232fd8aeb5457), UINT64_C(0x1b11dfdd29660630),
		UINT64_C(0xd773299a8e6bafd7), UINT64_C(0xd7eb569f5de99e0b),
		UINT64_C(0x5403649377296d06), UINT64_C(0xa174d75752432c27),
	};
	uint64_t random = 77;

	for (unsigned layout = 0; layout <= (unsigned)_i; layout++) {
		struct lines_sample sample = rich_sample(layout, 2000, &random);
		uint64_t sum = wn__block_payload_sum(sample.block,
						     sample.size - WN__BLOCK_MIN_SIZE);

		ck_assert_uint_ge(sample.lines.odd_spans, 1);
		ck_assert_uint_ge(sample.lines.extended, 10);
		if (sum != sums[layout])
			ck_abort_msg("layout %u: 0x%016llx", layout, (unsigned long long)sum);
		sample_free(&sample);
	}
}
END_TEST

/* ---- damage ------------------------------------------------------------------ */

START_TEST(every_flipped_bit_is_noticed)
{
	uint64_t random = test_seed("flip", 200 + (uint64_t)_i);
	struct lines_sample sample =
		rich_sample((unsigned)_i, test_is_quick() ? 700 : 5000, &random);

	for (size_t bit = 0; bit < sample.size * 8; bit++) {
		sample.block[bit / 8] ^= (unsigned char)(1u << bit % 8);
		if (open_sample(&sample, WN_CHECK_ALL))
			ck_abort_msg("bit %zu of byte %zu is not missed", bit % 8, bit / 8);
		sample.block[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	sample_free(&sample);
}
END_TEST

START_TEST(a_block_cut_anywhere_is_refused)
{
	uint64_t random = test_seed("cut", 210 + (uint64_t)_i);
	struct lines_sample sample = rich_sample((unsigned)_i, 1000, &random);

	for (size_t size = 0; size < sample.size; size++) {
		struct lines_sample cut = sample;

		cut.block = malloc(size ? size : 1);
		memcpy(cut.block, sample.block, size);
		cut.size = size;
		expect(!open_sample(&cut, WN_CHECK_ALL));
		expect(!open_sample(&cut, WN_CHECK_HEADER));
		free(cut.block);
	}
	sample_free(&sample);
}
END_TEST

/* Trusted but damaged: wrong answers are all that may come of it. With sums that fit, what is
 * opened with every check has as many fingerprints as it says, all of them found. */
START_TEST(a_flipped_bit_is_memory_safe)
{
	uint64_t random = test_seed("trusted", 220 + (uint64_t)_i);
	struct lines_sample sample = rich_sample((unsigned)_i, 1200, &random);
	size_t step = test_is_quick() ? 37 : 3;

	for (size_t bit = 8 * WN__BLOCK_PARAMS_AT; bit < sample.size * 8; bit += step) {
		if (bit / 8 >= WN__BLOCK_RESERVED_AT && bit / 8 < WN__BLOCK_HEADER_SIZE)
			continue;
		if (bit / 8 >= sample.size - WN__BLOCK_TAIL_SIZE)
			break;
		sample.block[bit / 8] ^= (unsigned char)(1u << bit % 8);
		sign_again(&sample);
		ask_around(&sample, 100, &random);
		wn_filter_close(open_sample(&sample, WN_CHECK_ALL));
		sample.block[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	sample_free(&sample);
}
END_TEST

/* A border may lie elsewhere between two fingerprints of one quotient: no other byte will do. */
static void expect_keys_or_refusal(const struct lines_sample *sample)
{
	struct wn_filter *filter = open_sample(sample, WN_CHECK_ALL);

	for (size_t i = 0; i < sample->count && filter; i++)
		expect(wn_filter_query_hash(filter, sample->hashes[i], NULL));
	wn_filter_close(filter);
}

/* Directory bytes lead anywhere, at both ends of the block. */
START_TEST(any_directory_byte_is_memory_safe)
{
	uint64_t random = test_seed("directory", 230 + (uint64_t)_i);
	struct lines_sample sample = rich_sample((unsigned)_i, 300, &random);
	unsigned char *directory =
		sample.block + WN__BLOCK_HEADER_SIZE + (size_t)sample.lines.lines * 64;

	for (size_t span = 0; span < sample.shape.spans; span++) {
		unsigned char right = directory[span];

		for (unsigned byte = 0; byte < 256; byte++) {
			directory[span] = (unsigned char)byte;
			sign_again(&sample);
			ask_around(&sample, 300, &random);
			expect_keys_or_refusal(&sample);
		}
		directory[span] = right;
	}
	sample_free(&sample);
}
END_TEST

START_TEST(garbage_is_memory_safe)
{
	uint64_t random = test_seed("garbage", 240 + (uint64_t)_i);
	struct lines_sample sample = rich_sample((unsigned)_i % LAYOUTS, 900, &random);
	unsigned char *payload = sample.block + WN__BLOCK_HEADER_SIZE;

	for (size_t i = 0; i < sample.size - WN__BLOCK_MIN_SIZE; i++) {
		unsigned char byte = (unsigned char)test_random(&random);

		switch (_i / LAYOUTS) {
		case 0:
			payload[i] = byte;
			break;
		case 1:
			payload[i] = 0xff;
			break;
		case 2:
			payload[i] = 0;
			break;
		default:
			payload[i] = byte % 16 ? payload[i] : (unsigned char)test_random(&random);
		}
	}
	sign_again(&sample);
	ask_around(&sample, 3000, &random);
	expect(!open_sample(&sample, WN_CHECK_ALL));
	sample_free(&sample);
}
END_TEST

START_TEST(parameters_that_do_not_fit_are_refused)
{
	uint64_t random = test_seed("parameters", 270 + (uint64_t)_i);
	struct lines_sample sample = rich_sample((unsigned)_i, 700, &random);

	for (size_t at = 0; at < WN_BLOCK_PARAMS_SIZE + 8; at++) {
		size_t where = at < WN_BLOCK_PARAMS_SIZE ?
				       WN__BLOCK_PARAMS_AT + at :
				       WN__BLOCK_KEY_COUNT_AT + at - WN_BLOCK_PARAMS_SIZE;
		unsigned char right = sample.block[where];

		for (unsigned value = 0; value < 256; value++) {
			if (value == right)
				continue;
			sample.block[where] = (unsigned char)value;
			sign_again(&sample);
			/* Byte 3 tells the form: others have tests of their own. */
			if (at != 3)
				ask_around(&sample, 30, &random);
			expect(!open_sample(&sample, WN_CHECK_ALL));
		}
		sample.block[where] = right;
	}
	sample_free(&sample);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_lines_damaged");
	TCase *tests = tcase_create("lines");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, golden_bytes);
	tcase_add_loop_test(tests, golden_sums, 0, LAYOUTS);
	tcase_add_loop_test(tests, every_flipped_bit_is_noticed, 0, LAYOUTS);
	tcase_add_loop_test(tests, a_block_cut_anywhere_is_refused, 0, LAYOUTS);
	tcase_add_loop_test(tests, a_flipped_bit_is_memory_safe, 0, LAYOUTS);
	tcase_add_loop_test(tests, any_directory_byte_is_memory_safe, 0, LAYOUTS);
	tcase_add_loop_test(tests, garbage_is_memory_safe, 0, LAYOUTS * 4);
	tcase_add_loop_test(tests, parameters_that_do_not_fit_are_refused, 0, LAYOUTS);
	return test_run(suite);
}
