/* test_filter.c - builder and filter, from keys to answers. */
#include "tests/support/filter_keys.h"

/* ---- build and ask ------------------------------------------------------ */

static void check_no_key_is_forgotten(const char *options, uint64_t first, uint64_t count)
{
	struct wn_builder *builder = make_builder(options);
	struct wn_filter *filter;
	size_t size;
	void *block;

	add_keys(builder, first, count);
	ck_assert_uint_eq(wn_builder_count(builder), count);
	block = finish(builder, &size);
	for (int check = WN_CHECK_HEADER; check <= WN_CHECK_ALL; check++) {
		filter = open_filter(block, size, (enum wn_check)check);
		assert_has_keys(filter, first, count);
		wn_filter_close(filter);
	}
	free(block);
	wn_builder_destroy(builder);
}

START_TEST(no_key_is_ever_forgotten)
{
	static const uint64_t counts[] = {
		0, 1, 2, 36, 63, 64, 65, 252, 253, 504, 505, 2067, 100000,
	};
	uint64_t random = test_seed("filter", 20240611);

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint64_t first = test_random(&random) >> 1;

		check_no_key_is_forgotten(NULL, first, counts[i]);
		check_no_key_is_forgotten("aqf:remainder_bits=2", first, counts[i]);
		check_no_key_is_forgotten("aqf:remainder_bits=32;load=0.5", first, counts[i]);
	}
}
END_TEST

START_TEST(other_keys_are_mostly_not_there)
{
	uint64_t first = test_seed("filter", 20240611) >> 1;
	struct wn_builder *builder = make_builder("aqf:remainder_bits=9");
	struct wn_filter *filter;
	struct wn_filter_info info;
	size_t size;
	void *block;
	uint64_t maybes;

	add_keys(builder, first, 50000);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	maybes = count_maybes(filter, first + 50000, 200000);
	wn_filter_describe(filter, &info);
	/* 371 are expected; half and twice are 9 and more standard deviations off. */
	ck_assert_double_eq_tol(info.expected_fpr, 0.95 / 512, 1e-4);
	ck_assert_uint_gt(maybes, 185);
	ck_assert_uint_lt(maybes, 742);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_filter_of_nothing_says_no)
{
	struct wn_builder *builder = make_builder(NULL);
	struct wn_filter *filter;
	struct wn_filter_info info;
	size_t size, count;
	void *block;

	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	ck_assert_uint_eq(count_maybes(filter, 0, 10000), 0);
	ck_assert(!wn_filter_query(filter, NULL, 0, NULL));
	wn_filter_describe(filter, &info);
	ck_assert_uint_eq(info.key_count, 0);
	ck_assert(info.bits_per_key == 0);
	ck_assert_ptr_nonnull(wn_builder_uppers(builder, &count));
	ck_assert_uint_eq(count, 0);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_key_added_often_is_in_once)
{
	struct wn_builder *builder = make_builder(NULL);
	struct wn_block_info info;
	struct wn_filter *filter;
	size_t size, count;
	void *block;

	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(wn_builder_add(builder, "again", 5), 0);
	ck_assert_uint_eq(wn_builder_count(builder), 1);
	add_keys(builder, 0, 1000);
	add_keys(builder, 0, 1000);
	ck_assert_int_eq(wn_builder_add(builder, "again", 5), 0);
	ck_assert_uint_eq(wn_builder_count(builder), 2002);
	block = finish(builder, &size);
	ck_assert_int_eq(wn_block_read(block, size, WN_CHECK_ALL, &info, NULL), 0);
	ck_assert_uint_eq(info.key_count, 1001);
	ck_assert_ptr_nonnull(wn_builder_uppers(builder, &count));
	ck_assert_uint_eq(count, 1001);
	filter = open_filter(block, size, WN_CHECK_ALL);
	assert_has_keys(filter, 0, 1000);
	ck_assert(wn_filter_query(filter, "again", 5, NULL));
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(empty_and_large_keys_are_keys)
{
	static unsigned char large[65536];
	struct wn_builder *builder = make_builder("aqf:remainder_bits=32");
	struct wn_filter *filter;
	size_t size;
	void *block;

	ck_assert_int_eq(wn_builder_add(builder, NULL, 0), 0);
	ck_assert_int_eq(wn_builder_add(builder, large, sizeof(large)), 0);
	ck_assert_int_eq(wn_builder_add(builder, "with\0zero", 9), 0);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	ck_assert(wn_filter_query(filter, "", 0, NULL));
	ck_assert(wn_filter_query(filter, large, sizeof(large), NULL));
	ck_assert(wn_filter_query(filter, "with\0zero", 9, NULL));
	ck_assert(!wn_filter_query(filter, "with\0Zero", 9, NULL));
	ck_assert(!wn_filter_query(filter, large, sizeof(large) - 1, NULL));
	ck_assert(!wn_filter_query(filter, large, 1, NULL));
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(keys_and_hashes_are_the_same_to_a_builder)
{
	struct wn_builder *builder = make_builder(NULL);
	struct wn_filter *filter;
	size_t size;
	void *block;

	for (uint64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(wn_builder_add_hash(builder, hash_of(i)), 0);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	assert_has_keys(filter, 0, 1000);
	for (uint64_t i = 0; i < 5000; i++) {
		struct wn_match by_hash = { 0 }, by_key = { 0 };
		unsigned char key[40];
		size_t key_size = make_key(i, key);
		bool maybe = wn_filter_query_hash(filter, hash_of(i), &by_hash);

		ck_assert(wn_filter_query(filter, key, key_size, &by_key) == maybe);
		if (maybe) {
			ck_assert(by_hash.known);
			ck_assert_uint_eq(by_hash.minirun, by_key.minirun);
			ck_assert_uint_eq(by_hash.rank, by_key.rank);
		}
	}
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(negatives_answer_no_and_keys_win)
{
	uint64_t random = test_seed("filter", 20240611);

	for (int round = 0; round < 20; round++) {
		uint64_t first = test_random(&random) >> 1;
		uint64_t count = 1 + test_random(&random) % 3000;
		struct wn_builder *builder = make_builder("aqf:remainder_bits=3");
		struct wn_filter *filter;
		size_t size;
		void *block;

		add_keys(builder, first, count);
		/* The first half of these are keys, and all come twice. */
		for (uint64_t i = 0; i < 2 * count; i++)
			ck_assert_int_eq(wn_builder_add_negative(
						 builder, hash_of(first + count / 2 + i % count)),
					 0);
		block = finish(builder, &size);
		filter = open_filter(block, size, WN_CHECK_ALL);
		assert_has_keys(filter, first, count);
		ck_assert_uint_eq(count_maybes(filter, first + count, count / 2), 0);
		wn_filter_close(filter);
		free(block);
		wn_builder_destroy(builder);
	}
}
END_TEST

START_TEST(negatives_that_are_keys_cost_nothing)
{
	struct wn_builder *builder = make_builder("aqf:remainder_bits=9");
	struct wn_filter_info info;
	struct wn_filter *filter;
	size_t size;
	void *block;

	add_keys(builder, 0, 1000);
	for (uint64_t i = 1000; i-- > 0; )
		ck_assert_int_eq(wn_builder_add_negative(builder, hash_of(i)), 0);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	assert_has_keys(filter, 0, 1000);
	wn_filter_describe(filter, &info);
	ck_assert_double_eq(wn_filter_fact_of(&info, "extensions"), 0);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_builder_can_be_used_again)
{
	struct wn_builder *builder = make_builder(NULL);

	for (uint64_t round = 0; round < 6; round++) {
		uint64_t count = round % 2 ? 100 : 5000 + round * 1000;
		struct wn_filter *filter;
		struct wn_filter_info info;
		size_t size, left;
		void *block;

		add_keys(builder, round * 100000, count);
		ck_assert_int_eq(wn_builder_add_negative(builder, hash_of(99999999)), 0);
		block = finish(builder, &size);
		filter = open_filter(block, size, WN_CHECK_ALL);
		wn_filter_describe(filter, &info);
		ck_assert_uint_eq(info.key_count, count);
		assert_has_keys(filter, round * 100000, count);
		wn_filter_close(filter);
		free(block);
		wn_builder_reset(builder);
		ck_assert_uint_eq(wn_builder_count(builder), 0);
		ck_assert_ptr_null(wn_builder_uppers(builder, &left));
		ck_assert_uint_eq(left, 0);
	}
	wn_builder_destroy(builder);
	wn_builder_destroy(NULL);
}
END_TEST

START_TEST(a_reset_does_not_swallow_the_key_before_it)
{
	struct wn_builder *builder = make_builder(NULL);

	ck_assert_int_eq(wn_builder_add(builder, "key", 3), 0);
	wn_builder_reset(builder);
	ck_assert_int_eq(wn_builder_add(builder, "key", 3), 0);
	ck_assert_uint_eq(wn_builder_count(builder), 1);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(finishing_twice_gives_the_same_filter)
{
	struct wn_builder *builder = make_builder(NULL);
	struct wn_block_info a, b;
	size_t first_size, second_size;
	void *first, *second;

	add_keys(builder, 0, 1000);
	first = finish(builder, &first_size);
	second = finish(builder, &second_size);
	ck_assert_int_eq(wn_block_read(first, first_size, WN_CHECK_ALL, &a, NULL), 0);
	ck_assert_int_eq(wn_block_read(second, second_size, WN_CHECK_ALL, &b, NULL), 0);
	ck_assert_uint_eq(a.payload_size, b.payload_size);
	ck_assert_mem_eq(a.payload, b.payload, a.payload_size);
	ck_assert_mem_ne(a.id, b.id, WN_BLOCK_ID_SIZE);
	free(first);
	free(second);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_batch_answers_as_single_queries_do)
{
	enum { MAX = 1000 };
	uint64_t random = test_seed("filter", 20240611);
	struct wn_builder *builder = make_builder("aqf:remainder_bits=2");
	struct wn_hash hashes[MAX];
	bool answers[MAX + 1];
	struct wn_filter *filter;
	size_t size;
	void *block;

	add_keys(builder, 0, 2000);
	for (uint64_t i = 2000; i < 2500; i++)
		ck_assert_int_eq(wn_builder_add_negative(builder, hash_of(i)), 0);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	for (size_t count = 0; count <= MAX; count += 1 + count / 8) {
		for (size_t i = 0; i < count; i++)
			hashes[i] = hash_of(test_random(&random) % 4000);
		memset(answers, 0, sizeof(answers));
		wn_filter_query_batch(filter, hashes, count, answers);
		for (size_t i = 0; i < count; i++)
			ck_assert(answers[i] == wn_filter_query_hash(filter, hashes[i], NULL));
		ck_assert(!answers[count]);
	}
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

/* Of all forms, some of which have functions of their own for it. */
START_TEST(batches_of_keys_answer_as_single_keys)
{
	enum { MAX = 300 };
	static const char *const options[] = {NULL, "aqf:remainder_bits=2", "sscf:bits_per_key=8"};
	uint64_t random = test_seed("filter", 20240611);
	struct wn_builder *builder = make_builder(options[_i]);
	struct wn_key keys[MAX];
	uint64_t numbers[MAX][2];
	bool answers[MAX + 1];
	struct wn_filter *filter;
	size_t size;
	void *block;

	for (uint64_t i = 0; i < 2000; i++)
		ck_assert_int_eq(wn_builder_add(builder, (uint64_t[]){i, ~i}, 16), 0);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_ALL);
	for (size_t count = 0; count <= MAX; count += 1 + count / 8) {
		for (size_t i = 0; i < count; i++) {
			numbers[i][0] = test_random(&random) % 4000;
			numbers[i][1] = ~numbers[i][0];
			keys[i] = (struct wn_key){numbers[i], i % 50 ? 16 : i / 50 * 3};
		}
		memset(answers, 2, sizeof(answers));
		wn_filter_query_keys(filter, keys, count, answers);
		for (size_t i = 0; i < count; i++) {
			struct wn_match match;
			bool one = wn_filter_query(filter, keys[i].data, keys[i].size, NULL);

			expect(answers[i] == one);
			expect(one == wn_filter_query(filter, keys[i].data, keys[i].size, &match));
			expect(one || numbers[i][0] >= 2000 || keys[i].size < 16);
		}
		expect(((unsigned char *)answers)[count] == 2);
	}
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

START_TEST(a_missing_filter_says_maybe)
{
	const struct wn_key keys[3] = {{"a", 1}, {"b", 1}, {"c", 1}};
	struct wn_hash hashes[3] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
	struct wn_match match = { .minirun = 1, .rank = 1, .known = true };
	bool answers[4] = { false };

	ck_assert(wn_filter_query(NULL, "key", 3, &match));
	ck_assert(!match.known);
	match.known = true;
	ck_assert(wn_filter_query_hash(NULL, hashes[0], &match));
	ck_assert(!match.known);
	ck_assert(wn_filter_query_hash(NULL, hashes[0], NULL));
	wn_filter_query_batch(NULL, hashes, 3, answers);
	ck_assert(answers[0] && answers[1] && answers[2] && !answers[3]);
	memset(answers, 0, sizeof(answers));
	wn_filter_query_keys(NULL, keys, 3, answers);
	ck_assert(answers[0] && answers[1] && answers[2] && !answers[3]);
	wn_filter_close(NULL);
}
END_TEST

START_TEST(describe_tells_what_was_built)
{
	struct wn_builder *builder = make_builder("aqf:remainder_bits=11;load=0.5");
	struct wn_filter_info info;
	struct wn_filter *filter;
	size_t size;
	void *block;

	add_keys(builder, 0, 10000);
	block = finish(builder, &size);
	filter = open_filter(block, size, WN_CHECK_HEADER);
	wn_filter_describe(filter, &info);
	ck_assert_str_eq(info.kind, "aqf");
	ck_assert_uint_eq(info.key_count, 10000);
	ck_assert_double_eq(wn_filter_fact_of(&info, "remainder_bits"), 11);
	ck_assert_double_eq(wn_filter_fact_of(&info, "used_slots"), 10000);
	ck_assert_double_eq(wn_filter_fact_of(&info, "extensions"), 0);
	ck_assert_double_eq_tol(wn_filter_fact_of(&info, "load"), 0.5, 0.01);
	ck_assert_double_eq_tol(info.bits_per_key, 8.0 * (double)size / 10000, 1e-9);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
}
END_TEST

/* ---- secrets ------------------------------------------------------------ */

START_TEST(a_full_block_is_read_with_any_secret)
{
	struct wn_secret *other = test_secret(2);
	struct wn_builder *builder = make_builder(NULL);
	struct wn_filter *filter;
	size_t size;
	void *block;

	add_keys(builder, 0, 1000);
	block = finish(builder, &size);
	wn_builder_destroy(builder);

	filter = open_filter(block, size, WN_CHECK_ALL);
	ck_assert_ptr_eq(wn_filter_secret(filter), secret);
	wn_filter_close(filter);
	for (int given = 0; given <= 1; given++) {
		ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, given ? other : NULL,
						&filter, NULL),
				 0);
		ck_assert_ptr_ne(wn_filter_secret(filter), other);
		ck_assert_mem_eq(wn_secret_seed(wn_filter_secret(filter)), wn_secret_seed(secret),
				 WN_SEED_SIZE);
		assert_has_keys(filter, 0, 1000);
		wn_filter_close(filter);
	}
	free(block);
	wn_secret_destroy(other);
}
END_TEST

START_TEST(a_builder_needs_a_secret)
{
	struct wn_builder *builder = (void *)1;

	ck_assert_int_eq(wn_builder_create(NULL, NULL, &builder), WN_ERR_INVALID);
	ck_assert_ptr_null(builder);
}
END_TEST

/* Stores sort by id: the filters of one builder stand side by side, and no two are alike. */
START_TEST(the_ids_of_a_builder_begin_alike_and_ascend)
{
	unsigned char last[2][WN_BLOCK_ID_SIZE] = {{0}};
	struct wn_builder *builders[2];

	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(wn_builder_create(NULL, secret, &builders[i]), 0);
	for (unsigned i = 0; i < 600; i++) {
		struct wn_block_info info;
		size_t size;
		void *block;

		ck_assert_int_eq(wn_builder_add(builders[i % 2], &i, sizeof(i)), 0);
		ck_assert_int_eq(wn_builder_finish(builders[i % 2], &block, &size), 0);
		ck_assert_int_eq(wn_block_read(block, size, WN_CHECK_ALL, &info, NULL), 0);
		if (i > 1) {
			expect(memcmp(info.id, last[i % 2], 8) == 0);
			expect(memcmp(info.id, last[i % 2], 12) > 0);
		}
		memcpy(last[i % 2], info.id, sizeof(info.id));
		wn_builder_reset(builders[i % 2]);
		free(block);
	}
	ck_assert_int_ne(memcmp(last[0], last[1], 8), 0);
	for (unsigned i = 0; i < 2; i++)
		wn_builder_destroy(builders[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("filter");
	TCase *tests = tcase_create("filter");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, no_key_is_ever_forgotten);
	tcase_add_test(tests, other_keys_are_mostly_not_there);
	tcase_add_test(tests, a_filter_of_nothing_says_no);
	tcase_add_test(tests, a_key_added_often_is_in_once);
	tcase_add_test(tests, empty_and_large_keys_are_keys);
	tcase_add_test(tests, keys_and_hashes_are_the_same_to_a_builder);
	tcase_add_test(tests, negatives_answer_no_and_keys_win);
	tcase_add_test(tests, negatives_that_are_keys_cost_nothing);
	tcase_add_test(tests, a_builder_can_be_used_again);
	tcase_add_test(tests, a_reset_does_not_swallow_the_key_before_it);
	tcase_add_test(tests, finishing_twice_gives_the_same_filter);
	tcase_add_test(tests, a_batch_answers_as_single_queries_do);
	tcase_add_loop_test(tests, batches_of_keys_answer_as_single_keys, 0, 3);
	tcase_add_test(tests, a_missing_filter_says_maybe);
	tcase_add_test(tests, describe_tells_what_was_built);
	tcase_add_test(tests, a_full_block_is_read_with_any_secret);
	tcase_add_test(tests, a_builder_needs_a_secret);
	tcase_add_test(tests, the_ids_of_a_builder_begin_alike_and_ascend);
	return test_run(suite);
}
