/* test_aqf_blocks.c - adaptive quotient filters as blocks, and what becomes of filters when
 * memory runs out. */
#include <errno.h>

#include "base/alloc.h"
#include "tests/support/aqf_block.h"

/* ---- there and back ----------------------------------------------------- */

START_TEST(freezing_and_thawing_gives_the_same_filter)
{
	unsigned bits = (unsigned)_i;
	uint64_t random = test_seed("thaw", 100 + bits);
	struct subject subject = rich_subject(500, bits, bits % 2, &random);
	struct block block = freeze(subject.aqf);
	struct wn_aqf *thawed;

	ck_assert_int_eq(wn_aqf_thaw(block.bytes, block.size, NULL, &thawed), 0);
	check_image(subject.aqf, take_image(thawed));
	wn_aqf_destroy(subject.aqf);
	subject.aqf = thawed;
	check_subject(&subject);
	delete_item(&subject, 7);
	count_item(&subject, 9, 77);
	check_subject(&subject);
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

START_TEST(thawing_takes_its_loads_from_the_options)
{
	uint64_t random = 101;
	struct subject subject = plain_subject(1000, 9, &random);
	struct block block = freeze(subject.aqf);
	struct wn_aqf_options options = {.load = 0.5, .adapt_load = 0.6};
	struct wn_aqf_info info;
	struct wn_aqf *thawed;

	ck_assert_int_eq(wn_aqf_thaw(block.bytes, block.size, &options, &thawed), 0);
	wn_aqf_describe(thawed, &info);
	ck_assert_uint_eq(info.insert_limit, info.slots / 2);
	ck_assert_uint_eq(info.fingerprints, 1000);
	ck_assert_int_eq(wn_aqf_insert(thawed, test_random_hash(&random), NULL), WN_ERR_FULL);
	wn_aqf_destroy(thawed);
	options.adapt_load = 0.4;
	ck_assert_int_eq(wn_aqf_thaw(block.bytes, block.size, &options, &thawed), WN_ERR_INVALID);
	ck_assert_ptr_null(thawed);
	options = (struct wn_aqf_options){.load = 2};
	ck_assert_int_eq(wn_aqf_thaw(block.bytes, block.size, &options, &thawed), WN_ERR_INVALID);
	ck_assert_ptr_null(thawed);
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

START_TEST(a_block_without_extensions_leaves_their_bits_out)
{
	uint64_t random = 102;
	struct subject subject = plain_subject(1000, 9, &random);
	struct block plain = freeze(subject.aqf), extended;

	ck_assert_uint_eq(params_of(plain).meta_words, 2);
	ck_assert_int_eq(adapt_item(&subject, 500,
				    craft_relative(subject.aqf, subject.items[500].hash, 9,
						   &random)), 0);
	extended = freeze(subject.aqf);
	ck_assert_uint_eq(params_of(extended).meta_words, 3);
	ck_assert_uint_ge(extended.size, plain.size + 8 * params_of(plain).blocks);
	check_subject(&subject);
	free(plain.bytes);
	free(extended.bytes);
	end_subject(&subject);
}
END_TEST

START_TEST(an_empty_filter_can_be_frozen)
{
	struct wn_aqf_options options = {.capacity = 1};
	struct subject subject = create_subject(&options);
	struct block block = freeze(subject.aqf);
	struct wn_filter *filter = open_block(block, WN_CHECK_ALL);
	struct wn_aqf *thawed;

	ck_assert_ptr_nonnull(filter);
	ck_assert(!wn_filter_query(filter, "x", 1, NULL));
	wn_filter_close(filter);
	ck_assert_int_eq(wn_aqf_thaw(block.bytes, block.size, NULL, &thawed), 0);
	ck_assert_int_eq(wn_aqf_insert(thawed, (struct wn_hash){1, 1}, NULL), 0);
	wn_aqf_destroy(thawed);
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

/* ---- fast and portable -------------------------------------------------- */

START_TEST(both_ways_to_query_a_block_agree)
{
	unsigned bits = 2 + (unsigned)_i / 2;
	uint64_t random = test_seed("portable", 110 + (uint64_t)_i);
	struct subject subject = _i % 2 ? rich_subject(1500, bits, 0, &random)
					: plain_subject(1500, bits, &random);
	struct block block = freeze(subject.aqf);
	struct wn_filter *filter = open_block(block, WN_CHECK_ALL);

	ck_assert_ptr_nonnull(filter);
	ck_assert_uint_eq(params_of(block).meta_words, _i % 2 ? 3 : 2);
	for (size_t at = 0; at < subject.count; at++) {
		struct wn_hash hash = subject.items[at].hash;

		compare_answers(filter, hash);
		compare_answers(filter, craft_relative(subject.aqf, hash, bits, &random));
		compare_answers(filter, test_random_hash(&random));
		expect(wn_filter_query_hash(filter, hash, NULL));
	}
	wn_filter_close(filter);
	free(block.bytes);
	end_subject(&subject);
}
END_TEST

/* ---- no memory ---------------------------------------------------------- */

/* What is needed to make one new filter or block in each way there is. */
struct making {
	const struct wn_aqf *a, *b;
	struct block block;
	struct wn_hash hashes[300];
};

enum product { CREATE, BULK_LOAD, GROW, SHRINK, MERGE, THAW, FREEZE, BUILD, PRODUCTS };

static int build(const struct making *making, void **blockp)
{
	struct wn_builder *builder;
	size_t size;
	int err = wn_builder_create(NULL, secret, &builder);

	*blockp = NULL;
	for (size_t i = 0; !err && i < 300; i++)
		err = i % 3 ? wn_builder_add_hash(builder, making->hashes[i])
			    : wn_builder_add_negative(builder, making->hashes[i]);
	if (!err)
		err = wn_builder_finish(builder, blockp, &size);
	wn_builder_destroy(builder);
	return err;
}

/* Make it and throw it away; NULL must come with an error and not without. */
static int make(const struct making *making, enum product product)
{
	struct wn_aqf_options options = {.capacity = 300};
	struct wn_aqf *aqf = NULL;
	void *block = NULL;
	size_t size = 1;
	int err = 0;

	switch (product) {
	case CREATE:
		err = wn_aqf_create(&options, &aqf);
		break;
	case BULK_LOAD:
		err = wn_aqf_bulk_load(&options, making->hashes, 300, &aqf);
		break;
	case GROW:
		err = wn_aqf_grow(making->a, &aqf);
		break;
	case SHRINK:
		err = wn_aqf_shrink(making->a, &aqf);
		break;
	case MERGE:
		err = wn_aqf_merge(making->a, making->b, &aqf);
		break;
	case THAW:
		err = wn_aqf_thaw(making->block.bytes, making->block.size, NULL, &aqf);
		break;
	case FREEZE:
		err = wn_aqf_freeze(making->a, secret, &block, &size);
		expect(err == 0 || size == 0);
		break;
	default:
		err = build(making, &block);
	}
	expect((err == 0) == (aqf || block));
	wn_aqf_destroy(aqf);
	free(block);
	return err;
}

START_TEST(without_memory_nothing_is_made_and_nothing_is_changed)
{
	enum product product = (enum product)_i;
	uint64_t random = 150;
	struct making making = {.a = NULL};
	struct subject subject, other;
	struct image image, other_image;
	struct wn_aqf *aqf;
	uint64_t failed = 0;

	ck_assert_int_eq(wn__aqf_create_shape(1000, 9, 9, 0, 0.9, 0.95, &aqf), 0);
	subject = start_subject(aqf);
	ck_assert_int_eq(wn__aqf_create_shape(1000, 9, 9, 0, 0.9, 0.95, &aqf), 0);
	other = start_subject(aqf);
	for (int i = 0; i < 300; i++) {
		making.hashes[i] = (struct wn_hash){(uint64_t)i << 54, 1};
		ck_assert_int_eq(insert_item(&subject, test_random_hash(&random)), 0);
		ck_assert_int_eq(insert_item(&other, test_random_hash(&random)), 0);
	}
	count_item(&subject, 3, 1000);
	making.a = subject.aqf;
	making.b = other.aqf;
	making.block = freeze(subject.aqf);
	image = take_image(subject.aqf);
	other_image = take_image(other.aqf);
	for (uint64_t nth = 1;; nth++) {
		int err;

		wn__alloc_fail_at(nth);
		err = make(&making, product);
		if (wn__alloc_calls() < nth) {
			ck_assert_int_eq(err, 0);
			break;
		}
		ck_assert_int_eq(err, ENOMEM);
		failed++;
	}
	wn__alloc_fail_at(0);
	ck_assert_uint_ge(failed, 1);
	check_image(subject.aqf, image);
	check_image(other.aqf, other_image);
	check_subject(&subject);
	free(making.block.bytes);
	end_subject(&subject);
	end_subject(&other);
}
END_TEST

/* Changing a filter takes no memory at all. */
START_TEST(changes_ask_for_no_memory)
{
	struct wn_aqf_options options = {.capacity = 300};
	struct subject subject = create_subject(&options);
	uint64_t random = 151;

	wn__alloc_fail_at(0);
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(insert_item(&subject, test_random_hash(&random)), 0);
	for (size_t at = 0; at < 20; at++) {
		struct wn_hash hash = subject.items[at].hash;

		ck_assert_int_eq(adapt_item(&subject, at,
					    craft_relative(subject.aqf, hash, 20, &random)), 0);
		ck_assert_int_eq(count_item(&subject, at, 3), 0);
		ck_assert_int_eq(wn_aqf_shorten(subject.aqf, minirun_of(subject.aqf, hash), NULL),
				 0);
		delete_item(&subject, at);
	}
	ck_assert_uint_eq(wn__alloc_calls(), 0);
	end_subject(&subject);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_blocks");
	TCase *tests = tcase_create("blocks");

	tcase_set_timeout(tests, 600);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, freezing_and_thawing_gives_the_same_filter, 2, 33);
	tcase_add_test(tests, thawing_takes_its_loads_from_the_options);
	tcase_add_test(tests, a_block_without_extensions_leaves_their_bits_out);
	tcase_add_test(tests, an_empty_filter_can_be_frozen);
	tcase_add_loop_test(tests, both_ways_to_query_a_block_agree, 0, 62);
	tcase_add_loop_test(tests, without_memory_nothing_is_made_and_nothing_is_changed, 0,
			    PRODUCTS);
	tcase_add_test(tests, changes_ask_for_no_memory);
	return test_run(suite);
}
