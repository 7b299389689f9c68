/* test_aqf_blocks_damaged.c - blocks of adaptive quotient filters, damaged and hostile. */
#include "tests/support/aqf_block.h"

static struct block copy_block(struct block from)
{
	struct block copy = {malloc(from.size), from.size};

	expect(copy.bytes);
	memcpy(copy.bytes, from.bytes, from.size);
	return copy;
}

static unsigned char *payload_of(struct block block)
{
	return block.bytes + WN__BLOCK_HEADER_SIZE;
}

static size_t payload_size_of(struct block block)
{
	return block.size - WN__BLOCK_MIN_SIZE;
}

/* Make header and payload sums fit whatever is there now. */
static void sign_again(struct block block)
{
	wn__block_set_header_sum(block.bytes);
	wn__block_set_payload_sum(block.bytes, payload_size_of(block));
}

/* ---- damage ------------------------------------------------------------- */

static void check_refused(struct block block)
{
	struct wn_filter *filter;
	const char *reason = NULL;
	struct wn_aqf *aqf;

	if (wn_filter_open(block.bytes, block.size, WN_CHECK_ALL, secret, &filter, &reason) == 0)
		ck_abort_msg("a damaged block was opened");
	expect(!filter && reason);
	expect(wn_filter_query(filter, "key", 3, NULL));
	expect(wn_aqf_thaw(block.bytes, block.size, NULL, &aqf) != 0 && !aqf);
}

static struct block big_block(struct subject *subjectp, uint64_t *random)
{
	/* 12 bits of remainder and 3 of metadata: 64 KiB. */
	*subjectp = rich_subject(test_is_quick() ? 3000 : 33000, 12, 0, random);
	return freeze(subjectp->aqf);
}

START_TEST(every_flipped_bit_is_noticed)
{
	uint64_t random = test_seed("flip", 120);
	struct subject subject;
	struct block block = big_block(&subject, &random);

	if (!test_is_quick())
		ck_assert_uint_ge(block.size, 60000);
	for (size_t bit = 0; bit < block.size * 8; bit++) {
		struct wn_filter *filter;

		block.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		filter = open_block(block, WN_CHECK_ALL);
		if (filter)
			ck_abort_msg("bit %zu of byte %zu is not missed", bit % 8, bit / 8);
		expect(wn_filter_query(filter, "key", 3, NULL));
		block.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	wn_filter_close(open_block(block, WN_CHECK_ALL));
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

START_TEST(a_block_cut_anywhere_is_refused)
{
	uint64_t random = test_seed("cut", 121);
	struct subject subject;
	struct block block = big_block(&subject, &random);

	for (size_t size = 0; size < block.size; size++) {
		/* At every end a block of its own near the borders, where reads could
		 * go too far; elsewhere the same bytes, for speed. */
		bool edge = size < 300 || block.size - size < 300 || size % 512 == 0;
		struct block cut = edge ? copy_block((struct block){block.bytes, size})
					: (struct block){block.bytes, size};

		expect(!open_block(cut, WN_CHECK_ALL));
		expect(!open_block(cut, WN_CHECK_HEADER));
		if (edge)
			free(cut.bytes);
	}
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

static void ask_around(const struct wn_filter *filter, unsigned queries, uint64_t *random)
{
	struct wn_hash hashes[8];
	bool answers[8];

	for (unsigned i = 0; i < queries; i++)
		compare_answers(filter, test_random_hash(random));
	for (int i = 0; i < 8; i++)
		hashes[i] = test_random_hash(random);
	wn_filter_query_batch(filter, hashes, 8, answers);
}

/* Trusted but damaged: wrong answers are all that may come of it. */
START_TEST(a_flipped_bit_in_a_trusted_block_is_memory_safe)
{
	uint64_t random = test_seed("trusted", 122);
	struct subject subject = rich_subject(1500, 7, 0, &random);
	struct block block = freeze(subject.aqf);
	size_t step = test_is_quick() ? 53 : 3;

	for (size_t bit = 0, next; bit < block.size * 8; bit = next) {
		struct wn_filter *filter;

		next = bit + (bit < 8 * WN__BLOCK_HEADER_SIZE ? 1 : step);
		block.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		filter = open_block(block, WN_CHECK_HEADER);
		if (filter)
			ask_around(filter, 60, &random);
		else
			expect(bit / 8 < WN__BLOCK_HEADER_SIZE ||
			       bit / 8 >= block.size - WN__BLOCK_TRAILER_SIZE);
		wn_filter_close(filter);
		block.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

static void fill_with_garbage(struct block block, int style, uint64_t *random)
{
	unsigned char *payload = payload_of(block);

	for (size_t at = 0; at < payload_size_of(block); at++) {
		unsigned char byte = (unsigned char)test_random(random);

		switch (style % 6) {
		case 0:
			payload[at] = byte;
			break;
		case 1:
			payload[at] = 0xff;
			break;
		case 2:
			payload[at] = byte & (unsigned char)test_random(random) &
				      (unsigned char)test_random(random);
			break;
		case 3:
			payload[at] = byte | (unsigned char)test_random(random) |
				      (unsigned char)test_random(random);
			break;
		case 4: /* offsets that are all full, then noise */
			payload[at] = at < params_of(block).blocks ? 0xff : byte;
			break;
		default: /* noise in one byte of sixteen */
			payload[at] = byte % 16 ? payload[at] : (unsigned char)test_random(random);
		}
	}
}

START_TEST(garbage_in_a_trusted_block_is_memory_safe)
{
	uint64_t random = test_seed("garbage", 130 + (uint64_t)_i);
	unsigned bits = 2 + (unsigned)(test_random(&random) % 31);
	struct subject subject = _i % 2 ? rich_subject(600, bits, _i % 4 == 1, &random)
					: plain_subject(600, bits, &random);
	struct block block = freeze(subject.aqf);
	struct wn_filter *filter;
	struct wn_aqf *aqf;

	fill_with_garbage(block, _i / 2, &random);
	filter = open_block(block, WN_CHECK_HEADER);
	ck_assert_ptr_nonnull(filter);
	ask_around(filter, 3000, &random);
	for (size_t at = 0; at < subject.count; at++)
		compare_answers(filter, subject.items[at].hash);
	wn_filter_close(filter);
	/* With sums that fit, the check of the filter itself has to say no. */
	sign_again(block);
	ck_assert_ptr_null(open_block(block, WN_CHECK_ALL));
	ck_assert_int_eq(wn_aqf_thaw(block.bytes, block.size, NULL, &aqf), WN_ERR_CORRUPT);
	ck_assert_ptr_null(aqf);
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

START_TEST(parameters_that_do_not_fit_are_refused)
{
	uint64_t random = test_seed("parameters", 140);
	struct subject subject = rich_subject(700, 9, 0, &random);
	struct block block = freeze(subject.aqf);

	for (size_t at = 0; at < WN_BLOCK_PARAMS_SIZE + 8; at++) {
		for (unsigned value = 0; value < 256; value++) {
			struct block copy;
			struct wn_filter *filter;
			/* The parameters, then the number of keys. */
			size_t where = at < WN_BLOCK_PARAMS_SIZE
					       ? WN__BLOCK_PARAMS_AT + at
					       : WN__BLOCK_KEY_COUNT_AT + at - WN_BLOCK_PARAMS_SIZE;

			if (block.bytes[where] == value)
				continue;
			copy = copy_block(block);
			copy.bytes[where] = (unsigned char)value;
			sign_again(copy);
			filter = open_block(copy, WN_CHECK_HEADER);
			if (filter)
				ask_around(filter, 30, &random);
			wn_filter_close(filter);
			/* What nothing else in the block says: the size of extensions,
			 * the number of counters (for describe alone), and how many of
			 * the last block's slots are quotients. */
			filter = open_block(copy, WN_CHECK_ALL);
			if (filter)
				expect(at == 1 || (at >= 4 && at <= 8));
			wn_filter_close(filter);
			free(copy.bytes);
		}
	}
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

/* Metadata says everything twice: a bit that changed shows even when the sums fit. */
START_TEST(metadata_that_contradicts_itself_is_refused)
{
	uint64_t random = test_seed("metadata", 141);
	struct subject subject = rich_subject(1000, 9, 0, &random);
	struct block block = freeze(subject.aqf);
	struct wn__aqf_params params = params_of(block);
	size_t offsets_size = (size_t)wn__aqf_offsets_size(params.blocks);
	size_t block_size = (params.meta_words + params.remainder_bits) * 8;
	unsigned char *words = payload_of(block) + offsets_size;

	for (size_t bit = 0; bit < params.blocks * 8; bit++) {
		payload_of(block)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		sign_again(block);
		check_refused(block);
		payload_of(block)[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < params.blocks * 3 * 64; bit++) {
		size_t inside = bit % (3 * 64);
		unsigned char *row = words + bit / (3 * 64) * block_size;
		unsigned which = (unsigned)(inside / 64);
		bool extra = get_le64(row + 8 * WN__EXTENSIONS) >> inside % 64 & 1;
		struct wn_filter *filter;

		row[inside / 8] ^= (unsigned char)(1u << inside % 8);
		sign_again(block);
		filter = open_block(block, WN_CHECK_ALL);
		/* An extension may as well be a counter. */
		if (filter)
			expect(which == WN__RUNENDS && extra);
		wn_filter_close(filter);
		row[inside / 8] ^= (unsigned char)(1u << inside % 8);
	}
	sign_again(block);
	wn_filter_close(open_block(block, WN_CHECK_ALL));
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

/* A counter one past the largest would read as a count of 0, which no key has. */
START_TEST(a_counter_past_the_largest_number_is_refused)
{
	struct wn_aqf_options options = {.capacity = 60, .remainder_bits = 8};
	struct subject subject = create_subject(&options);
	struct wn_hash hash = {0, 1};
	struct block block;
	unsigned char *digits;
	struct wn_aqf *aqf;

	insert_item(&subject, hash);
	ck_assert_int_eq(count_item(&subject, 0, UINT64_MAX - 1), 0);
	block = freeze(subject.aqf);
	digits = payload_of(block) + wn__aqf_offsets_size(params_of(block).blocks) + 3 * 8 + 1;
	ck_assert_uint_eq(digits[0], 0xfe);
	ck_assert_uint_eq(digits[7], 0xff);
	digits[0] = 0xff;
	sign_again(block);
	if (wn_aqf_thaw(block.bytes, block.size, NULL, &aqf) == 0) {
		uint64_t count;

		ck_assert_int_eq(wn_aqf_count(aqf, hash, wn_aqf_locate(aqf, hash), &count), 0);
		ck_assert_uint_gt(count, 0);
		wn_aqf_destroy(aqf);
	}
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

/* More extensions than a hash has bits: signed, so somebody meant it. Every function
 * must cope (run it with the undefined behaviour sanitizer). */
START_TEST(more_extensions_than_bits_are_survived)
{
	struct wn_aqf *aqf;
	struct wn_hash hash = {0, 0}, other = {0, 1};
	struct wn_aqf_options options = {.capacity = 300, .remainder_bits = 8};
	struct subject subject = create_subject(&options);
	struct block block;
	unsigned char *words;

	insert_item(&subject, hash);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(count_item(&subject, 0, UINT64_C(1) << 40), 0);
	block = freeze(subject.aqf);
	words = payload_of(block) + wn__aqf_offsets_size(params_of(block).blocks);
	/* Slots 1 to 50 become extensions of the one fingerprint. */
	put_le64(words + 8 * WN__RUNENDS, 1);
	put_le64(words + 8 * WN__EXTENSIONS, UINT64_C(0x7fffffffffffe));
	memset(words + 3 * 8, 0, 64);
	put_le64(block.bytes + WN__BLOCK_PARAMS_AT + 24, 51);
	sign_again(block);
	if (wn_aqf_thaw(block.bytes, block.size, NULL, &aqf) == 0) {
		struct wn_aqf_cursor cursor;
		struct wn_aqf_entry entry;
		struct wn_aqf *grown;

		wn_aqf_cursor_init(&cursor, aqf);
		while (wn_aqf_cursor_next(&cursor, &entry))
			ck_assert_uint_le(entry.fraction_bits, 128);
		wn_aqf_query(aqf, hash, NULL);
		wn_aqf_query(aqf, other, NULL);
		wn_aqf_adapt(aqf, hash, other, wn_aqf_locate(aqf, hash));
		ck_assert_int_eq(wn_aqf_grow(aqf, &grown), 0);
		wn_aqf_shorten(grown, wn_aqf_minirun(grown, hash), NULL);
		wn_aqf_shorten(aqf, wn_aqf_minirun(aqf, hash), NULL);
		wn_aqf_insert(aqf, hash, NULL);
		wn_aqf_shorten(aqf, wn_aqf_minirun(aqf, hash), NULL);
		wn_aqf_delete(aqf, hash, wn_aqf_locate(aqf, hash), NULL);
		wn_aqf_destroy(grown);
		wn_aqf_destroy(aqf);
	}
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_blocks_damaged");
	TCase *tests = tcase_create("blocks");

	tcase_set_timeout(tests, 600);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, every_flipped_bit_is_noticed);
	tcase_add_test(tests, a_block_cut_anywhere_is_refused);
	tcase_add_test(tests, a_flipped_bit_in_a_trusted_block_is_memory_safe);
	tcase_add_loop_test(tests, garbage_in_a_trusted_block_is_memory_safe, 0, 48);
	tcase_add_test(tests, parameters_that_do_not_fit_are_refused);
	tcase_add_test(tests, metadata_that_contradicts_itself_is_refused);
	tcase_add_test(tests, a_counter_past_the_largest_number_is_refused);
	tcase_add_test(tests, more_extensions_than_bits_are_survived);
	return test_run(suite);
}
