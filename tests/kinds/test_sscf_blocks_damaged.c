/* test_sscf_blocks_damaged.c - blocks of seesaw counting filters, damaged and hostile. */
#include <math.h>
#include <string.h>

#include <winnow/error.h>

#include "kinds/block_format.h"
#include "kinds/sscf/sscf_frozen.h"
#include "tests/support/sscf_block.h"

/* Ask a block in memory of exactly its size: the sanitizers see what is read outside. */
static void ask_everything(const struct sample *sample, const void *bytes, size_t size,
			   enum wn_check check, int *errp)
{
	unsigned char *copy = malloc(size ? size : 1);
	struct wn_filter *filter;
	struct wn_filter_info info;

	memcpy(copy, bytes, size);
	*errp = wn_filter_open(copy, size, check, sample->secret, &filter, NULL);
	expect((*errp == 0) == (filter != NULL));
	for (size_t i = 0; i < sample->key_count; i++) {
		bool maybe = wn_filter_query_hash(filter, sample->keys[i], NULL);

		expect(filter || maybe);
	}
	if (filter)
		wn_filter_describe(filter, &info);
	wn_filter_close(filter);
	free(copy);
}

START_TEST(block_cut_anywhere_says_maybe)
{
	uint64_t random = 15;

	for (unsigned tiny = 0; tiny < 2; tiny++) {
		struct sample sample = make("sscf:bits_per_key=6", 100, 100, &random);

		for (size_t size = 0; size < sample.size; size++) {
			int err;

			ask_everything(&sample, sample.block, size, WN_CHECK_HEADER, &err);
			ck_assert_int_ne(err, 0);
			ask_everything(&sample, (char *)sample.block + size, sample.size - size,
				       WN_CHECK_HEADER, &err);
			ck_assert(err != 0 || size == 0);
		}
		destroy(&sample);
	}
}
END_TEST

START_TEST(every_flipped_bit_is_found)
{
	uint64_t random = 16;

	for (unsigned tiny = 0; tiny < 2; tiny++) {
		struct sample sample = make("sscf:bits_per_key=6", 60, 60, &random);
		unsigned char *bytes = sample.block;

		for (size_t bit = 0; bit < sample.size * 8; bit++) {
			int err;

			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
			ck_assert_msg(err != 0, "bit %zu", bit);
			ask_everything(&sample, bytes, sample.size, WN_CHECK_HEADER, &err);
			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		destroy(&sample);
	}
}
END_TEST

/* Parameters from somebody who knows how to make checksums. */
START_TEST(hostile_parameters_read_nothing_outside)
{
	uint64_t random = test_seed("hostile_parameters_read_nothing_outside", 17);
	struct sample sample = make("sscf:bits_per_key=6", 300, 300, &random);
	unsigned char *bytes = sample.block;
	unsigned char params[WN_BLOCK_PARAMS_SIZE];
	unsigned opened = 0;

	memcpy(params, bytes + WN__BLOCK_PARAMS_AT, sizeof(params));
	for (unsigned round = 0; round < (test_is_quick() ? 20000 : 200000); round++) {
		unsigned char *at = bytes + WN__BLOCK_PARAMS_AT;
		int err;

		memcpy(at, params, sizeof(params));
		for (unsigned i = 0; i <= round % 3; i++)
			at[test_random(&random) % 21] = (unsigned char)test_random(&random);
		if (round % 7 == 0) {
			/* The same number of cells, divided otherwise. */
			put_le32(at + 4, 1u << round % 10);
			put_le32(at + 8, (uint32_t)(wn__sscf_cells_size(&(struct wn__sscf_params){
						    .blocks = get_le32(params + 8),
						    .block_cells = get_le32(params + 4)}) * 8 >>
						    round % 10));
		}
		wn__block_set_header_sum(bytes);
		ask_everything(&sample, bytes, sample.size, WN_CHECK_HEADER, &err);
		opened += err == 0;
		ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
	}
	ck_assert_uint_gt(opened, 0);
	destroy(&sample);
}
END_TEST

START_TEST(parts_that_do_not_fit_are_refused)
{
	uint64_t random = 18;
	struct sample sample = make("sscf:bits_per_key=6", 300, 300, &random);
	unsigned char *bytes = sample.block;
	size_t length = sample.size - WN__BLOCK_MIN_SIZE;
	int err;

	/* A modulator cell more than there should be. */
	memset(bytes + WN__BLOCK_HEADER_SIZE + length - 1, 0x55, 1);
	wn__block_set_payload_sum(bytes, length);
	ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
	ck_assert_int_eq(err, WN_ERR_CORRUPT);
	/* Keys, and not a cell that is set. */
	memset(bytes + WN__BLOCK_HEADER_SIZE, 0, length);
	wn__block_set_payload_sum(bytes, length);
	ask_everything(&sample, bytes, sample.size, WN_CHECK_ALL, &err);
	ck_assert_int_eq(err, WN_ERR_CORRUPT);
	/* A flag from the future. */
	bytes[WN__BLOCK_PARAMS_AT + 2] = 2;
	wn__block_set_header_sum(bytes);
	ask_everything(&sample, bytes, sample.size, WN_CHECK_HEADER, &err);
	ck_assert_int_eq(err, WN_ERR_VERSION);
	destroy(&sample);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sscf_blocks_damaged");
	TCase *all = tcase_create("all");

	suite_add_tcase(suite, all);
	tcase_add_test(all, block_cut_anywhere_says_maybe);
	tcase_add_test(all, every_flipped_bit_is_found);
	tcase_add_test(all, hostile_parameters_read_nothing_outside);
	tcase_add_test(all, parts_that_do_not_fit_are_refused);
	return test_run(suite);
}
