/* test_lessons.c - what a filter in a block learns beside it. */
#include <errno.h>

#include "base/alloc.h"
#include "tests/support/lessons.h"

/* ---- answers ------------------------------------------------------------ */

START_TEST(without_lessons_the_filter_answers)
{
	uint64_t random = test_seed("plain", 1);
	struct frozen_filter frozen = frozen_make(2000, 6, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);

	for (int i = 0; i < 50000; i++) {
		struct wn_hash hash = test_random_hash(&random);
		struct wn_match plain = {0}, with, without;
		bool answer = wn_filter_query_hash(frozen.filter, hash, &plain);

		expect(wn__filter_query_learned(frozen.filter, lessons, hash, &with) == answer);
		expect(wn__filter_query_learned(frozen.filter, NULL, hash, &without) == answer);
		expect(with.known == answer && without.known == answer);
		expect(with.minirun == plain.minirun && with.rank == plain.rank);
	}
	ck_assert(wn__filter_query_learned(NULL, lessons, frozen.hashes[0], NULL));
	ck_assert(wn__filter_query_learned(NULL, NULL, frozen.hashes[0], NULL));
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

/* Every fingerprint that a hash matches, found by comparing with all keys; with
 * negatives, the block has extensions. */
START_TEST(query_from_finds_every_match_in_turn)
{
	uint64_t random = test_seed("from", 2);
	struct wn_hash negatives[4000];
	struct frozen_filter frozen;

	for (int i = 0; i < 4000; i++)
		negatives[i] = test_random_hash(&random);
	frozen = frozen_make(3000, 2, &random, negatives, _i ? 4000 : 0);
	for (int i = 0; i < 20000; i++) {
		struct wn_hash hash = test_random_hash(&random);
		const struct wn__table *table = frozen_table(&frozen);
		uint64_t minirun = frozen_minirun(table, hash);
		struct wn_match match;
		uint32_t rank = 0;

		for (size_t at = frozen_first(&frozen, minirun);
		     at < frozen.count && frozen_minirun(table, frozen.hashes[at]) == minirun;
		     at++) {
			/* The key itself matches its own fingerprint. */
			expect(wn__frozen_query_from(table, frozen.hashes[at], rank, &match));
			expect(match.known && match.rank == rank && match.minirun == minirun);
			rank++;
		}
		expect(!wn__frozen_query_from(table, hash, rank, &match));
		for (uint32_t from = 0; from < rank && !_i; from++)
			expect(wn__frozen_query_from(table, hash, from, &match) &&
			       match.rank == from);
	}
	frozen_destroy(&frozen);
}
END_TEST

/* ---- the model ---------------------------------------------------------- */

/* A crowd of absent keys, asked for again and again. */
struct model {
	struct frozen_filter frozen;
	struct wn__registry *registry;
	struct wn__lessons *lessons;
	struct wn_hash *queries;
	bool *fixed;
	size_t query_count;
	uint64_t random;
	uint64_t lessons_taught;
	uint64_t false_positives;
};

static void model_ask(struct model *model)
{
	uint64_t draw = test_random(&model->random);
	/* A product of two draws: some are asked for much more often than others. */
	size_t at = (size_t)((draw >> 32) * (draw & UINT32_MAX) >> 32) * model->query_count >> 32;
	struct wn_match match;

	if (!wn__filter_query_learned(model->frozen.filter, model->lessons, model->queries[at],
				      &match))
		return;
	expect(!model->fixed[at]);
	model->false_positives++;
	model->lessons_taught += frozen_teach(&model->frozen, model->lessons, model->queries[at]);
	model->fixed[at] = true;
}

/* Stored keys; some of them are reported as false positives, wrongly. */
static void model_ask_stored(struct model *model)
{
	size_t at = (size_t)(test_random(&model->random) % model->frozen.count);
	struct wn_hash key = model->frozen.hashes[at];
	struct wn_match match;

	expect(wn__filter_query_learned(model->frozen.filter, model->lessons, key, &match));
	if (wn_hash_compare(frozen_stored(&model->frozen, &match), key) == 0)
		expect(wn__lessons_learn(model->lessons, key, key, &match) ==
		       WN_ERR_UNFIXABLE);
	else
		expect(wn__lessons_learn(model->lessons,
					frozen_stored(&model->frozen, &match), key, &match) == 0);
	expect(wn__filter_query_learned(model->frozen.filter, model->lessons, key, NULL));
}

static void model_new_reader(struct model *model)
{
	wn__lessons_release(model->lessons);
	frozen_close(&model->frozen);
	frozen_open(&model->frozen);
	model->lessons = acquire(model->registry, &model->frozen);
}

static void model_restart(struct model *model)
{
	struct wn__registry *registry = new_registry(0);
	uint64_t lessons = stats_of(model->registry).lessons;
	void *bytes;
	size_t size;

	ck_assert_int_eq(wn__registry_save(model->registry, &bytes, &size), 0);
	wn__lessons_release(model->lessons);
	wn__registry_destroy(model->registry);
	ck_assert_int_eq(wn__registry_load(registry, bytes, size), 0);
	free(bytes);
	model->registry = registry;
	model->lessons = acquire(registry, &model->frozen);
	ck_assert_uint_eq(stats_of(registry).lessons, lessons);
}

START_TEST(keys_are_never_denied_and_lessons_never_forgotten)
{
	struct model model = {.random = test_seed("model", 10 + (uint64_t)_i)};
	size_t rounds = test_is_quick() ? 40000 : 400000;
	struct wn_hash negatives[1000];

	for (int i = 0; i < 1000; i++)
		negatives[i] = test_random_hash(&model.random);
	/* The second time over a block that was adapted when it was built. */
	model.frozen = frozen_make(20000, 4, &model.random, negatives, _i ? 1000 : 0);
	model.registry = new_registry(0);
	model.lessons = acquire(model.registry, &model.frozen);
	model.query_count = rounds / 4;
	model.queries = malloc(model.query_count * sizeof(*model.queries));
	model.fixed = calloc(model.query_count, sizeof(*model.fixed));
	for (size_t i = 0; i < model.query_count; i++)
		model.queries[i] = test_random_hash(&model.random);
	for (size_t i = 1; i <= rounds; i++) {
		model_ask(&model);
		if (i % 8 == 0)
			model_ask_stored(&model);
		if (i % 5000 == 0)
			model_new_reader(&model);
		if (i % (rounds / 4) == 0)
			model_restart(&model);
		if (i % (rounds / 4) == 0)
			frozen_expect_all_keys(&model.frozen, model.lessons);
	}
	for (size_t i = 0; i < model.query_count; i++)
		expect(!model.fixed[i] ||
		       !wn__filter_query_learned(model.frozen.filter, model.lessons,
						 model.queries[i], NULL));
	ck_assert_uint_gt(model.false_positives, rounds / 200);
	ck_assert_uint_ge(stats_of(model.registry).lessons, model.lessons_taught);
	ck_assert_uint_eq(stats_of(model.registry).filters, 1);
	ck_assert_uint_eq(stats_of(model.registry).refused, 0);
	ck_assert_uint_eq(stats_of(model.registry).distrusted, 0);
	free(model.queries);
	free(model.fixed);
	wn__lessons_release(model.lessons);
	wn__registry_destroy(model.registry);
	frozen_destroy(&model.frozen);
}
END_TEST

/* Queries that share 42, 84 and more bits behind the remainder with the key. */
START_TEST(queries_that_differ_in_the_last_bits_are_told_apart)
{
	uint64_t random = test_seed("deep", 20);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);

	for (size_t i = 0; i < frozen.count; i += 7) {
		struct wn_hash key = frozen.hashes[i];
		struct wn_hash queries[3] = {
			{key.hi, key.lo ^ 1},
			{key.hi, key.lo ^ UINT64_C(1) << 50},
			frozen_neighbour(&frozen, key, &random),
		};

		for (int at = 0; at < 3; at++) {
			expect(at == 2 || wn__filter_query_learned(frozen.filter, lessons,
								   queries[at], NULL));
			frozen_teach(&frozen, lessons, queries[at]);
		}
		for (int at = 0; at < 3; at++)
			expect(!wn__filter_query_learned(frozen.filter, lessons, queries[at],
							 NULL));
	}
	frozen_expect_all_keys(&frozen, lessons);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(lessons_can_be_learned_when_the_block_is_gone)
{
	uint64_t random = test_seed("blockless", 21);
	struct frozen_filter frozen = frozen_make(5000, 5, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);

	for (int i = 0; i < 500; i++) {
		struct wn_hash query = frozen_false_positive(&frozen, &random);
		struct wn__lessons *lessons = acquire(registry, &frozen);
		struct wn_match match;

		while (wn__filter_query_learned(frozen.filter, lessons, query, &match)) {
			struct wn_hash stored = frozen_stored(&frozen, &match);

			frozen_close(&frozen);
			expect(wn__lessons_learn(lessons, query, query, &match) ==
			       WN_ERR_UNFIXABLE);
			expect(wn__lessons_learn(lessons, stored, query, &match) == 0);
			frozen_open(&frozen);
		}
		wn__lessons_release(lessons);
	}
	frozen_destroy(&frozen);
	wn__registry_destroy(registry);
}
END_TEST

/* ---- what is refused ---------------------------------------------------- */

START_TEST(a_stored_hash_that_does_not_fit_is_refused)
{
	uint64_t random = test_seed("refused", 30);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	struct wn_match match, unknown = {0};

	for (int i = 0; i < 2000; i++) {
		struct wn_hash query = frozen_false_positive(&frozen, &random), wrong;

		expect(wn_filter_query_hash(frozen.filter, query, &match));
		do
			wrong = test_random_hash(&random);
		while (frozen_minirun(frozen_table(&frozen), wrong) == match.minirun);
		expect(wn__lessons_learn(lessons, wrong, query, &match) == WN_ERR_MISMATCH);
		expect(wn__lessons_learn(lessons, frozen_stored(&frozen, &match),
					wrong, &match) == WN_ERR_MISMATCH);
		expect(wn__lessons_learn(lessons, frozen_stored(&frozen, &match),
					query, &unknown) == WN_ERR_NOT_FOUND);
	}
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

static void expect_distrusted(struct wn__registry *registry, const struct frozen_filter *frozen,
			      const struct wn_match *match, struct wn_hash query)
{
	struct wn__lessons *lessons = acquire(registry, frozen);

	frozen_expect_all_keys(frozen, lessons);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).filters, 0);
	ck_assert_uint_eq(stats_of(registry).distrusted, 1);
	ck_assert_int_eq(wn__lessons_learn(lessons, frozen_stored(frozen, match),
					  query, match), WN_ERR_MISMATCH);
	wn__lessons_release(lessons);
}

/* A reverse map that errs: the wrong hash fits the fingerprint, and denies the key.
 * When the right one is brought, nothing that was learned can be believed. */
START_TEST(two_hashes_for_one_fingerprint_end_all_lessons)
{
	uint64_t random = test_seed("distrust", 32);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0), *other = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	struct wn_hash query = frozen_false_positive(&frozen, &random);
	struct wn_match match;
	void *bytes;
	size_t size;

	teach_some(&frozen, lessons, 100, &random, NULL);
	while (!wn__filter_query_learned(frozen.filter, lessons, query, &match))
		query = frozen_false_positive(&frozen, &random);
	ck_assert_int_eq(wn__lessons_learn(lessons,
					  frozen_neighbour(&frozen, query, &random), query,
					  &match), 0);
	ck_assert_int_eq(wn__lessons_learn(lessons, frozen_stored(&frozen, &match),
					  query, &match), WN_ERR_MISMATCH);
	expect_distrusted(registry, &frozen, &match, query);
	wn__lessons_release(lessons);
	expect_distrusted(registry, &frozen, &match, query);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	lessons = acquire(other, &frozen);
	teach_some(&frozen, lessons, 100, &random, NULL);
	wn__lessons_release(lessons);
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	expect_distrusted(other, &frozen, &match, query);
	free(bytes);
	wn__registry_destroy(registry);
	wn__registry_destroy(other);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(lessons_of_another_filter_are_left_aside)
{
	uint64_t random = test_seed("mixed up", 33);
	struct frozen_filter one = frozen_make(5000, 4, &random, NULL, 0);
	struct frozen_filter two = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &one);

	teach_some(&one, lessons, 3000, &random, NULL);
	frozen_expect_all_keys(&two, lessons);
	for (int i = 0; i < 20000; i++) {
		struct wn_hash hash = test_random_hash(&random);

		expect(wn__filter_query_learned(two.filter, lessons, hash, NULL) ==
		       wn_filter_query_hash(two.filter, hash, NULL));
	}
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&one);
	frozen_destroy(&two);
}
END_TEST

START_TEST(lessons_of_another_shape_are_not_handed_out)
{
	unsigned char id[WN_BLOCK_ID_SIZE] = "shape";
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons, *other;

	ck_assert_int_eq(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9}, &lessons),
			 0);
	ck_assert_int_eq(wn__registry_acquire(registry, id, (struct wn__shape){1001, 9}, &other),
			 WN_ERR_MISMATCH);
	ck_assert_ptr_null(other);
	ck_assert_int_eq(wn__registry_acquire(registry, id, (struct wn__shape){1000, 8}, &other),
			 WN_ERR_MISMATCH);
	ck_assert_int_eq(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9}, &other),
			 0);
	ck_assert_ptr_eq(lessons, other);
	wn__lessons_release(lessons);
	wn__lessons_release(other);
	wn__lessons_release(NULL);
	wn__registry_destroy(registry);
	wn__registry_destroy(NULL);
}
END_TEST

/* What a reader may come upon that was held up for a while. */
START_TEST(pages_in_other_hands_are_not_believed)
{
	uint64_t random = test_seed("hands", 34);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	struct wn_hash fixed[10];
	struct wn__page *page;

	teach_some(&frozen, lessons, 10, &random, fixed);
	ck_assert_uint_eq(lessons->directory->depth, 0);
	page = lessons->directory->pages[0];
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 10), 0);
	page->owner++;
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 10), 10);
	page->owner--;
	page->version++;
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 10), 10);
	page->version++;
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 10), 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

/* ---- memory refused ----------------------------------------------------- */

/* Everything once, with the nth allocation refused. True when there was none. */
static bool try_everything(const struct frozen_filter *frozen, uint64_t nth, uint64_t random)
{
	struct wn__registry *registry = NULL, *other = NULL;
	struct wn__lessons *lessons = NULL;
	struct wn_match match;
	unsigned failed = 0;
	void *bytes = NULL;
	size_t size;
	bool done;

	wn__alloc_fail_at(nth);
	failed += wn__registry_create(0, &registry) != 0;
	failed += registry && wn__filter_lessons(registry, frozen->filter, &lessons) != 0;
	for (int i = 0; lessons && i < 400; i++) {
		struct wn_hash query = frozen_false_positive(frozen, &random);

		while (wn__filter_query_learned(frozen->filter, lessons, query, &match)) {
			int err = wn__lessons_learn(lessons,
						   frozen_stored(frozen, &match), query, &match);

			expect(err == 0 || err == ENOMEM);
			failed += err != 0;
		}
	}
	failed += registry && wn__registry_save(registry, &bytes, &size) != 0;
	failed += bytes && wn__registry_create(0, &other) != 0;
	failed += bytes && other && wn__registry_load(other, bytes, size) != 0;
	done = wn__alloc_calls() < nth;
	wn__alloc_fail_at(0);
	frozen_expect_all_keys(frozen, lessons);
	/* Longer chains in a table are no failure; nothing else goes unsaid. */
	expect(done ? failed == 0 : failed <= 1);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	wn__registry_destroy(other);
	return done;
}

START_TEST(every_allocation_may_fail)
{
	uint64_t random = test_seed("memory", 60);
	struct frozen_filter frozen = frozen_make(3000, 4, &random, NULL, 0);
	uint64_t nth = 1;

	while (!try_everything(&frozen, nth, random))
		nth++;
	ck_assert_uint_gt(nth, 15);
	frozen_destroy(&frozen);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lessons");
	TCase *tests = tcase_create("lessons");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, without_lessons_the_filter_answers);
	tcase_add_loop_test(tests, query_from_finds_every_match_in_turn, 0, 2);
	tcase_add_loop_test(tests, keys_are_never_denied_and_lessons_never_forgotten, 0, 2);
	tcase_add_test(tests, queries_that_differ_in_the_last_bits_are_told_apart);
	tcase_add_test(tests, lessons_can_be_learned_when_the_block_is_gone);
	tcase_add_test(tests, a_stored_hash_that_does_not_fit_is_refused);
	tcase_add_test(tests, two_hashes_for_one_fingerprint_end_all_lessons);
	tcase_add_test(tests, lessons_of_another_filter_are_left_aside);
	tcase_add_test(tests, lessons_of_another_shape_are_not_handed_out);
	tcase_add_test(tests, pages_in_other_hands_are_not_believed);
	tcase_add_test(tests, every_allocation_may_fail);
	return test_run(suite);
}
