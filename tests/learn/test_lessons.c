/* test_lessons.c - what a filter in a block learns beside it. */
#include <errno.h>

#include "base/alloc.h"
#include "tests/support/frozen.h"
#include "learn/lessons_format.h"
#include "learn/lessons_internal.h"
#include "base/sort.h"

static struct wn__registry *new_registry(size_t budget)
{
	struct wn__registry *registry;

	ck_assert_int_eq(wn__registry_create(budget, &registry), 0);
	return registry;
}

static struct wn__lessons *acquire(struct wn__registry *registry,
				   const struct frozen_filter *frozen)
{
	struct wn__lessons *lessons;

	ck_assert_int_eq(wn__filter_lessons(registry, frozen->filter, &lessons), 0);
	return lessons;
}

static struct wn__registry_stats stats_of(struct wn__registry *registry)
{
	struct wn__registry_stats stats;

	wn__registry_describe(registry, &stats);
	return stats;
}

/* Fix `count` false positives; they are put into `fixed` (may be NULL). */
static void teach_some(const struct frozen_filter *frozen, struct wn__lessons *lessons,
		       size_t count, uint64_t *random, struct wn_hash *fixed)
{
	for (size_t i = 0; i < count; i++) {
		struct wn_hash query = frozen_false_positive(frozen, random);

		frozen_teach(frozen, lessons, query);
		if (fixed)
			fixed[i] = query;
	}
}

static size_t count_positives(const struct frozen_filter *frozen,
			      const struct wn__lessons *lessons, const struct wn_hash *hashes,
			      size_t count)
{
	size_t positives = 0;

	for (size_t i = 0; i < count; i++)
		positives += wn__filter_query_learned(frozen->filter, lessons, hashes[i], NULL);
	return positives;
}

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

/* Their id is the hash of their bytes, and other keys may make the same bytes. */
START_TEST(tiny_blocks_have_no_lessons)
{
	static const char *const kinds[] = {"aqf", "sscf"};
	struct wn__registry *registry = new_registry(0);
	struct wn_secret *secret = test_secret(1);
	struct wn_builder *builder;
	struct wn__lessons *lessons;
	struct wn_config *config;
	struct wn_filter *filter;
	void *block;
	size_t size;

	ck_assert_int_eq(wn_config_parse(kinds[_i], NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	wn_builder_set_tiny(builder, true);
	ck_assert_int_eq(wn_builder_add(builder, "key", 3), 0);
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, secret, &filter, NULL), 0);
	ck_assert_int_eq(wn__filter_lessons(registry, filter, &lessons), WN_ERR_READONLY);
	ck_assert_ptr_null(lessons);
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
	wn_config_destroy(config);
	wn_secret_destroy(secret);
	wn__registry_destroy(registry);
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
		expect(wn__filter_learn(model->frozen.filter, model->lessons, key, key, &match) ==
		       WN_ERR_UNFIXABLE);
	else
		expect(wn__filter_learn(model->frozen.filter, model->lessons,
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
	struct wn_match match, unknown = {0}, beyond;

	for (int i = 0; i < 2000; i++) {
		struct wn_hash query = frozen_false_positive(&frozen, &random), wrong;

		expect(wn_filter_query_hash(frozen.filter, query, &match));
		do
			wrong = test_random_hash(&random);
		while (frozen_minirun(frozen_table(&frozen), wrong) == match.minirun);
		expect(wn__filter_learn(frozen.filter, lessons, wrong, query, &match) ==
		       WN_ERR_MISMATCH);
		expect(wn__lessons_learn(lessons, wrong, query, &match) == WN_ERR_MISMATCH);
		expect(wn__filter_learn(frozen.filter, lessons, frozen_stored(&frozen, &match),
					wrong, &match) == WN_ERR_MISMATCH);
		beyond = match;
		beyond.rank = 500;
		expect(wn__filter_learn(frozen.filter, lessons, frozen_stored(&frozen, &match),
					query, &beyond) == WN_ERR_MISMATCH);
		expect(wn__filter_learn(frozen.filter, lessons, frozen_stored(&frozen, &match),
					query, &unknown) == WN_ERR_NOT_FOUND);
	}
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(a_stored_hash_that_does_not_fit_the_extensions_is_refused)
{
	uint64_t random = test_seed("extensions", 31);
	struct frozen_filter plain = frozen_make(3000, 4, &random, NULL, 0), frozen;
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons;
	struct wn_hash negatives[500];
	unsigned refused = 0;

	random = test_seed("extensions", 31); /* the same keys again */
	for (int i = 0; i < 500; i++) {
		uint64_t other = (uint64_t)i + 1000;

		negatives[i] = frozen_false_positive(&plain, &other);
	}
	frozen = frozen_make(3000, 4, &random, negatives, 500);
	lessons = acquire(registry, &frozen);
	for (int i = 0; i < 500; i++) {
		const struct wn__table *table = frozen_table(&frozen);
		size_t at = frozen_first(&frozen, frozen_minirun(table, negatives[i]));
		struct wn_match match;

		if (at == frozen.count ||
		    !wn_filter_query_hash(frozen.filter, frozen.hashes[at], &match) ||
		    wn_hash_compare(frozen_stored(&frozen, &match), frozen.hashes[at]) != 0 ||
		    match.minirun != frozen_minirun(table, negatives[i]))
			continue;
		/* The block says "no" to the negative: it cannot be what is stored there. */
		expect(wn__filter_learn(frozen.filter, lessons, negatives[i], frozen.hashes[at],
					&match) == WN_ERR_MISMATCH);
		refused++;
	}
	ck_assert_uint_gt(refused, 100);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&plain);
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
	ck_assert_int_eq(wn__filter_learn(frozen->filter, lessons, frozen_stored(frozen, match),
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
	ck_assert_int_eq(wn__filter_learn(frozen.filter, lessons,
					  frozen_neighbour(&frozen, query, &random), query,
					  &match), 0);
	ck_assert_int_eq(wn__filter_learn(frozen.filter, lessons, frozen_stored(&frozen, &match),
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
	struct wn_hash query = frozen_false_positive(&two, &random);
	struct wn_match match;

	teach_some(&one, lessons, 3000, &random, NULL);
	frozen_expect_all_keys(&two, lessons);
	for (int i = 0; i < 20000; i++) {
		struct wn_hash hash = test_random_hash(&random);

		expect(wn__filter_query_learned(two.filter, lessons, hash, NULL) ==
		       wn_filter_query_hash(two.filter, hash, NULL));
	}
	ck_assert(wn_filter_query_hash(two.filter, query, &match));
	ck_assert_int_eq(wn__filter_learn(two.filter, lessons, frozen_stored(&two, &match), query,
					  &match), WN_ERR_MISMATCH);
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

/* ---- coming and going --------------------------------------------------- */

START_TEST(lessons_survive_their_readers_and_nothing_else_does)
{
	uint64_t random = test_seed("churn", 40);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons;
	struct wn_hash fixed[300];
	uint64_t before;

	lessons = acquire(registry, &frozen);
	teach_some(&frozen, lessons, 300, &random, fixed);
	before = stats_of(registry).bytes;
	wn__lessons_release(lessons);
	/* Old directories were kept for the reader. */
	ck_assert_uint_lt(stats_of(registry).bytes, before);
	before = stats_of(registry).bytes;
	for (uint32_t i = 0; i < 20000; i++) {
		unsigned char id[WN_BLOCK_ID_SIZE] = {0};

		memcpy(id + 4, &i, sizeof(i));
		expect(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9}, &lessons) ==
		       0);
		wn__lessons_release(lessons);
	}
	ck_assert_uint_eq(stats_of(registry).bytes, before);
	lessons = acquire(registry, &frozen);
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 300), 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(many_readers_are_open_at_once)
{
	enum { READERS = 5000 };
	static struct wn__lessons *lessons[READERS];
	struct wn__registry *registry = new_registry(0);

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < READERS; i++) {
			unsigned char id[WN_BLOCK_ID_SIZE] = {0};
			struct wn__lessons *again;

			memcpy(id, &i, sizeof(i));
			expect(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9},
						   &lessons[i]) == 0);
			expect(wn__registry_acquire(registry, id, (struct wn__shape){1000, 9},
						   &again) == 0);
			expect(again == lessons[i]);
			wn__lessons_release(again);
		}
		for (uint32_t i = 0; i < READERS; i++)
			wn__lessons_release(lessons[i]);
	}
	wn__registry_destroy(registry);
}
END_TEST

START_TEST(a_forgotten_filter_keeps_its_lessons_while_it_is_read)
{
	uint64_t random = test_seed("forget", 41);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen), *fresh;
	struct wn_hash fixed[300], query;
	struct wn_match match;

	teach_some(&frozen, lessons, 300, &random, fixed);
	wn__registry_forget(registry, frozen.filter->info.id);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).filters, 0);
	ck_assert_uint_eq(count_positives(&frozen, lessons, fixed, 300), 0);
	do
		query = frozen_false_positive(&frozen, &random);
	while (!wn__filter_query_learned(frozen.filter, lessons, query, &match));
	ck_assert_int_eq(wn__filter_learn(frozen.filter, lessons, frozen_stored(&frozen, &match),
					  query, &match), WN_ERR_NOT_FOUND);
	fresh = acquire(registry, &frozen);
	ck_assert_ptr_ne(fresh, lessons);
	ck_assert_uint_eq(count_positives(&frozen, fresh, fixed, 300), 300);
	frozen_teach(&frozen, fresh, query);
	wn__lessons_release(lessons);
	ck_assert(!wn__filter_query_learned(frozen.filter, fresh, query, NULL));
	wn__lessons_release(fresh);
	wn__registry_forget(registry, frozen.filter->info.id);
	wn__registry_forget(registry, frozen.filter->info.id);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

START_TEST(readers_outlive_the_registry)
{
	uint64_t random = test_seed("outlive", 42);
	struct frozen_filter frozen = frozen_make(5000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *one = acquire(registry, &frozen), *two = acquire(registry, &frozen);
	struct wn_hash fixed[300];

	teach_some(&frozen, one, 300, &random, fixed);
	wn__registry_destroy(registry);
	ck_assert_uint_eq(count_positives(&frozen, one, fixed, 300), 0);
	wn__lessons_release(one);
	ck_assert_uint_eq(count_positives(&frozen, two, fixed, 300), 0);
	frozen_expect_all_keys(&frozen, two);
	wn__lessons_release(two);
	frozen_destroy(&frozen);
}
END_TEST

/* ---- filters without fingerprints --------------------------------------- */

/* Few miniruns and many keys: some have none, others a handful. */
#define CROWD 300
static const struct wn__shape crowded = {.slots = 100, .remainder_bits = 2};

static struct wn__lessons *acquire_crowd(struct wn__registry *registry)
{
	static const unsigned char id[WN_BLOCK_ID_SIZE] = "a crowd of keys";
	struct wn__lessons *lessons;

	ck_assert_int_eq(wn__registry_acquire(registry, id, crowded, &lessons), 0);
	return lessons;
}

static uint64_t crowd_minirun(struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, crowded.slots);

	return print.quotient << crowded.remainder_bits |
	       print.hi >> (64 - crowded.remainder_bits);
}

static bool crowd_denies(const struct wn__lessons *lessons, struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, crowded.slots);
	wn__u128 tail = ((wn__u128)print.hi << 64 | print.lo) << crowded.remainder_bits;

	return wn__lessons_refute_minirun(lessons, crowd_minirun(hash),
					  (struct wn__tail){(uint64_t)(tail >> 64),
							    (uint64_t)tail});
}

/* The keys of the query's minirun. */
static uint32_t find_crowd(const struct wn_hash *keys, struct wn_hash query, struct wn_hash *stored)
{
	uint32_t count = 0;

	for (size_t i = 0; i < CROWD; i++)
		if (crowd_minirun(keys[i]) == crowd_minirun(query))
			stored[count++] = keys[i];
	return count;
}

static void make_crowd(struct wn_hash *keys, uint64_t *random)
{
	for (size_t i = 0; i < CROWD; i++)
		keys[i] = test_random_hash(random);
	ck_assert_int_eq(wn__sort_hashes(keys, CROWD), 0);
}

static void expect_crowd(const struct wn__lessons *lessons, const struct wn_hash *keys)
{
	for (size_t i = 0; i < CROWD; i++)
		expect(!crowd_denies(lessons, keys[i]));
}

START_TEST(a_query_is_denied_when_every_key_of_its_minirun_is_told_from_it)
{
	uint64_t random = test_seed("crowd", 80);
	struct wn__registry *registry = new_registry(0), *other = new_registry(0);
	struct wn__lessons *lessons = acquire_crowd(registry), *loaded;
	struct wn_hash keys[CROWD], stored[CROWD];
	uint64_t most = 0;
	void *bytes;
	size_t size;

	make_crowd(keys, &random);
	for (int i = 0; i < 5000; i++) {
		/* Some differ from a stored key in its last bits only. */
		struct wn_hash query = i % 5 ? test_random_hash(&random) : keys[i % CROWD];
		uint32_t count;

		query.lo ^= i % 5 == 0;
		count = find_crowd(keys, query, stored);
		most = count > most ? count : most;
		expect(wn__lessons_learn_minirun(lessons, stored, count, query,
						 crowd_minirun(query)) == 0);
		expect(crowd_denies(lessons, query));
	}
	ck_assert_uint_gt(most, 3);
	expect_crowd(lessons, keys);
	for (int i = 0; i < CROWD; i++) {
		uint32_t count = find_crowd(keys, keys[i], stored);

		expect(wn__lessons_learn_minirun(lessons, stored, count, keys[i],
						 crowd_minirun(keys[i])) == WN_ERR_UNFIXABLE);
		expect(wn__lessons_learn_minirun(lessons, stored, count, keys[i],
						 crowd_minirun(keys[i]) + 1) == WN_ERR_MISMATCH);
	}
	expect_crowd(lessons, keys);
	/* Saved, and loaded. */
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	loaded = acquire_crowd(other);
	expect_crowd(loaded, keys);
	for (int i = 0; i < 5000; i++) {
		struct wn_hash query = test_random_hash(&random);

		expect(crowd_denies(loaded, query) == crowd_denies(lessons, query));
	}
	ck_assert_uint_eq(stats_of(other).lessons, stats_of(registry).lessons);
	free(bytes);
	wn__lessons_release(lessons);
	wn__lessons_release(loaded);
	wn__registry_destroy(registry);
	wn__registry_destroy(other);
}
END_TEST

/* The number of keys without all pieces, or pieces without the number, say nothing. */
START_TEST(half_of_the_lessons_deny_nothing)
{
	uint64_t random = test_seed("half", 81);
	struct wn_hash keys[CROWD], stored[CROWD], query;
	uint32_t count;

	make_crowd(keys, &random);
	do {
		query = test_random_hash(&random);
		count = find_crowd(keys, query, stored);
	} while (count < 3);
	for (uint32_t left_out = 0; left_out <= count; left_out++) {
		struct wn__registry *registry = new_registry(0);
		struct wn__lessons *lessons = acquire_crowd(registry);
		struct wn_match match = {.known = true, .minirun = crowd_minirun(query)};

		for (match.rank = 0; match.rank < count; match.rank++)
			if (match.rank != left_out)
				expect(wn__lessons_learn(lessons, stored[match.rank], query,
							 &match) == 0);
		expect(!crowd_denies(lessons, query));
		if (left_out < count)
			expect(wn__lessons_add(lessons, match.minirun, wn__lesson_of_count(count),
					       false) == 0);
		expect(!crowd_denies(lessons, query));
		match.rank = left_out;
		if (left_out < count)
			expect(wn__lessons_learn(lessons, stored[left_out], query, &match) == 0);
		else
			expect(wn__lessons_add(lessons, match.minirun, wn__lesson_of_count(count),
					       false) == 0);
		expect(crowd_denies(lessons, query));
		wn__lessons_release(lessons);
		wn__registry_destroy(registry);
	}
}
END_TEST

START_TEST(two_numbers_for_one_minirun_end_all_lessons)
{
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire_crowd(registry);

	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(0), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 6, wn__lesson_of_count(1), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(0), false), 0);
	ck_assert_uint_eq(stats_of(registry).lessons, 2);
	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(1), false),
			 WN_ERR_MISMATCH);
	ck_assert_uint_eq(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).distrusted, 1);
	ck_assert_int_eq(wn__lessons_add(lessons, 6, wn__lesson_of_count(1), false),
			 WN_ERR_MISMATCH);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
}
END_TEST

/* An empty minirun, and one with a key whose first piece is 0x123456789ab. */
static void learn_two_miniruns(struct wn__lessons *lessons)
{
	ck_assert_int_eq(wn__lessons_add(lessons, 5, wn__lesson_of_count(0), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 7, wn__lesson_of_count(1), false), 0);
	ck_assert_int_eq(wn__lessons_add(lessons, 7, wn__lesson_word(0, 0, 0x123456789ab), false),
			 0);
}

START_TEST(the_format_is_what_it_was)
{
	static const unsigned char golden[] = {
		0x57, 0x4e, 0x4c, 0x45, 0x41, 0x52, 0x4e, 0x44, 0x01, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x98, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x57, 0x4e, 0x4c, 0x45,
		0x53, 0x53, 0x4f, 0x4e, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x61, 0x20, 0x63, 0x72, 0x6f, 0x77, 0x64, 0x20, 0x6f, 0x66, 0x20, 0x6b,
		0x65, 0x79, 0x73, 0x00, 0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xab, 0x89, 0x67, 0x45,
		0x23, 0x05, 0x00, 0x00, 0x4b, 0x06, 0x49, 0x62, 0xa5, 0xbc, 0xa5, 0xf9,
		0xe7, 0xd6, 0x8a, 0x54, 0xb5, 0x81, 0x26, 0xc6,
	};
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire_crowd(registry);
	unsigned char old[sizeof(golden)];
	void *bytes;
	size_t size, used;

	learn_two_miniruns(lessons);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	ck_assert_uint_eq(size, sizeof(golden));
	ck_assert_mem_eq(bytes, golden, sizeof(golden));
	/* The one record of it, as it stands in a journal. */
	size -= WN__RECORDS_AT + 8;
	memcpy(old, golden + WN__RECORDS_AT, size);
	ck_assert_int_eq(wn__registry_load_record(registry, old, size, &used), 0);
	ck_assert_uint_eq(used, size);
	/* Version 1 had no numbers of keys. */
	put_le32(old + WN__RECORD_VERSION_AT, 1);
	wn__record_seal(old, size);
	ck_assert_int_eq(wn__registry_load_record(registry, old, size, &used), WN_ERR_CORRUPT);
	for (unsigned i = 0; i < 2; i++)
		wn__record_set_lesson(old, i, 8 + i, wn__lesson_word(0, 0, i));
	wn__record_set_lesson(old, 2, 10, wn__lesson_word(0, 0, 0));
	wn__record_seal(old, size);
	ck_assert_int_eq(wn__registry_load_record(registry, old, size, &used), 0);
	put_le32(old + WN__RECORD_VERSION_AT, 3);
	wn__record_seal(old, size);
	ck_assert_int_eq(wn__registry_load_record(registry, old, size, &used), WN_ERR_VERSION);
	ck_assert_uint_eq(stats_of(registry).lessons, 6);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
}
END_TEST

/* ---- the budget --------------------------------------------------------- */

#define FILTERS 6
#define BUDGET ((size_t)60 << 10)

struct shelf_of_filters {
	struct frozen_filter frozen[FILTERS];
	struct wn__lessons *lessons[FILTERS];
	struct wn_hash fixed[FILTERS][400];
	struct wn__registry *registry;
	uint64_t random;
};

static void set_up(struct shelf_of_filters *shelf, size_t budget)
{
	shelf->random = test_seed("budget", 50);
	shelf->registry = new_registry(budget);
	for (int i = 0; i < FILTERS; i++) {
		shelf->frozen[i] = frozen_make(3000, 4, &shelf->random, NULL, 0);
		shelf->lessons[i] = acquire(shelf->registry, &shelf->frozen[i]);
	}
}

static void tear_down(struct shelf_of_filters *shelf)
{
	for (int i = 0; i < FILTERS; i++) {
		wn__lessons_release(shelf->lessons[i]);
		frozen_destroy(&shelf->frozen[i]);
	}
	wn__registry_destroy(shelf->registry);
}

static bool has_lessons(struct shelf_of_filters *shelf, int i)
{
	size_t positives =
		count_positives(&shelf->frozen[i], shelf->lessons[i], shelf->fixed[i], 400);

	ck_assert(positives == 0 || positives == 400);
	return positives == 0;
}

/* 400 lessons take some 10 KB: the budget holds four filters. */
START_TEST(past_the_budget_the_coldest_filter_is_dropped)
{
	static struct shelf_of_filters shelf;

	set_up(&shelf, BUDGET);
	for (int i = 0; i < 3; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_uint_eq(stats_of(shelf.registry).dropped_filters, 0);
	wn__lessons_touch(shelf.lessons[0]);
	for (int i = 3; i < FILTERS && stats_of(shelf.registry).dropped_filters == 0; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_uint_eq(stats_of(shelf.registry).dropped_filters, 1);
	ck_assert_uint_ge(stats_of(shelf.registry).dropped_lessons, 200);
	ck_assert(has_lessons(&shelf, 0));
	ck_assert(!has_lessons(&shelf, 1));
	ck_assert(has_lessons(&shelf, 2));
	ck_assert_uint_le(stats_of(shelf.registry).bytes, BUDGET);
	for (int i = 0; i < FILTERS; i++)
		frozen_expect_all_keys(&shelf.frozen[i], shelf.lessons[i]);
	/* And it may learn again, at another's cost. */
	teach_some(&shelf.frozen[1], shelf.lessons[1], 400, &shelf.random, shelf.fixed[1]);
	ck_assert(has_lessons(&shelf, 1));
	tear_down(&shelf);
}
END_TEST

START_TEST(what_nobody_reads_can_be_dropped_too)
{
	static struct shelf_of_filters shelf;
	struct wn__registry_stats stats;

	set_up(&shelf, BUDGET);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FILTERS; i++) {
			teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random,
				   shelf.fixed[i]);
			ck_assert(has_lessons(&shelf, i));
			wn__lessons_release(shelf.lessons[i]);
			shelf.lessons[i] = NULL;
			if (i > 0)
				shelf.lessons[i - 1] =
					acquire(shelf.registry, &shelf.frozen[i - 1]);
		}
		shelf.lessons[FILTERS - 1] = acquire(shelf.registry, &shelf.frozen[FILTERS - 1]);
	}
	stats = stats_of(shelf.registry);
	ck_assert_uint_gt(stats.dropped_filters, FILTERS);
	ck_assert_uint_lt(stats.filters, FILTERS);
	ck_assert_uint_le(stats.bytes, BUDGET);
	ck_assert_uint_eq(stats.refused, 0);
	for (int i = 0; i < FILTERS; i++)
		frozen_expect_all_keys(&shelf.frozen[i], shelf.lessons[i]);
	tear_down(&shelf);
}
END_TEST

START_TEST(a_filter_that_outgrows_the_budget_starts_over)
{
	uint64_t random = test_seed("alone", 51);
	struct frozen_filter frozen = frozen_make(20000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(BUDGET);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	struct wn_hash query;

	for (int i = 0; i < 20000; i++) {
		query = frozen_false_positive(&frozen, &random);
		frozen_teach(&frozen, lessons, query);
		expect(!wn__filter_query_learned(frozen.filter, lessons, query, NULL));
	}
	ck_assert_uint_gt(stats_of(registry).dropped_filters, 1);
	ck_assert_uint_eq(stats_of(registry).filters, 1);
	ck_assert_uint_eq(stats_of(registry).refused, 0);
	ck_assert_uint_le(stats_of(registry).bytes, BUDGET);
	frozen_expect_all_keys(&frozen, lessons);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

/* ---- every budget, all the time ----------------------------------------- */

/* The library's own smallest useful one is among them. */
static const size_t budgets[] = {1, 4 << 10, 16 << 10, (32 << 10) - 1, 32 << 10, 40 << 10,
				 100 << 10, 100 << 10 | 13, 1 << 20, 4 << 20};

#define BUDGETS (sizeof(budgets) / sizeof(budgets[0]))
#define READERS 4000

static struct wn__lessons *acquire_number(struct wn__registry *registry, uint64_t number)
{
	unsigned char id[WN_BLOCK_ID_SIZE] = {0};
	struct wn__lessons *lessons;
	int err;

	put_le64(id, number * UINT64_C(0x9e3779b97f4a7c15));
	err = wn__registry_acquire(registry, id, (struct wn__shape){1000000, 9}, &lessons);
	expect(err == 0 || err == WN_ERR_FULL);
	expect((err == 0) == (lessons != NULL));
	return lessons;
}

/* A lesson on a place of its own; NULL is fine. */
static void learn_anything(struct wn__lessons *lessons, uint64_t *random)
{
	uint64_t minirun = test_random(random) >> 36;
	int err = 0;

	if (lessons)
		err = wn__lessons_add(lessons, minirun, wn__lesson_word(0, 0, minirun & 0xff),
				      false);
	expect(err == 0 || err == WN_ERR_FULL);
}

static void expect_within(struct wn__registry *registry, size_t budget)
{
	expect(stats_of(registry).bytes <= budget);
}

/* Thousands of readers come and go, some learn, and what changed is taken now and then. */
START_TEST(memory_is_within_the_budget_at_any_time)
{
	uint64_t random = test_seed("any time", 53);
	struct wn__registry *registry = new_registry(budgets[_i]);
	static struct wn__lessons *open[READERS];
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t number = test_random(&random) % READERS;

		if (open[number] && i % 3 == 0) {
			wn__lessons_release(open[number]);
			open[number] = NULL;
		} else if (!open[number]) {
			open[number] = acquire_number(registry, number);
		}
		expect_within(registry, budgets[_i]);
		learn_anything(open[i % 2 ? number : number % 8], &random);
		expect_within(registry, budgets[_i]);
		if (i % 1000 == 999) {
			wn__registry_take_changes(registry, &bytes, &size);
			free(bytes);
			expect_within(registry, budgets[_i]);
		}
	}
	/* All that learn anything learn something. */
	ck_assert((stats_of(registry).lessons > 0) == (budgets[_i] >= WN__REGISTRY_MIN_BUDGET));
	if (budgets[_i] <= 100 << 10)
		ck_assert_uint_gt(stats_of(registry).refused_readers, 0);
	else if (budgets[_i] >= 4 << 20)
		ck_assert_uint_eq(stats_of(registry).refused_readers, 0);
	for (unsigned i = 0; i < READERS; i++)
		wn__lessons_release(open[i]);
	expect_within(registry, budgets[_i]);
	wn__registry_destroy(registry);
}
END_TEST

/* Its directory doubles and doubles, and so does the list of changes. */
START_TEST(one_filter_alone_is_within_the_budget)
{
	uint64_t random = test_seed("one alone", 54);
	struct wn__registry *registry = new_registry(budgets[_i]);
	struct wn__lessons *lessons = acquire_number(registry, 1);
	uint64_t most = 0;

	wn__registry_track(registry);
	for (unsigned i = 0; i < 300000; i++) {
		learn_anything(lessons, &random);
		expect_within(registry, budgets[_i]);
		most = stats_of(registry).lessons > most ? stats_of(registry).lessons : most;
	}
	fprintf(stderr, "%zu bytes: up to %" PRIu64 " lessons, %" PRIu64 " dropped, %" PRIu64
		" refused\n", budgets[_i], most, stats_of(registry).dropped_lessons,
		stats_of(registry).refused);
	/* 16 bytes each, in pages two thirds full; and half of the smallest budgets is slabs. */
	if (budgets[_i] >= WN__REGISTRY_MIN_BUDGET)
		ck_assert_uint_gt(most, budgets[_i] / 75);
	ck_assert_uint_eq(stats_of(registry).refused, 0);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
}
END_TEST

/* Nothing is dropped before it has to be. */
START_TEST(within_the_budget_nothing_is_dropped)
{
	uint64_t random = test_seed("within", 55);
	struct wn__registry *registry = new_registry(100 << 10);
	struct wn__lessons *open[20];

	wn__registry_track(registry);
	for (unsigned i = 0; i < 20; i++)
		open[i] = acquire_number(registry, i);
	for (unsigned i = 0; i < 20 * 70; i++)
		learn_anything(open[i % 20], &random);
	ck_assert_uint_gt(stats_of(registry).bytes, 50 << 10);
	ck_assert_uint_eq(stats_of(registry).dropped_lessons, 0);
	ck_assert_uint_eq(stats_of(registry).refused, 0);
	ck_assert_uint_eq(stats_of(registry).refused_readers, 0);
	for (unsigned i = 0; i < 20; i++)
		wn__lessons_release(open[i]);
	wn__registry_destroy(registry);
}
END_TEST

/* What nobody reads makes room for those who want to read. */
START_TEST(a_new_reader_comes_before_lessons_that_nobody_reads)
{
	uint64_t random = test_seed("before", 56);
	struct wn__registry *registry = new_registry(64 << 10);
	static struct wn__lessons *open[READERS];
	unsigned count = 0;

	for (unsigned i = 0; i < READERS; i++) {
		struct wn__lessons *lessons = acquire_number(registry, READERS + i);

		learn_anything(lessons, &random);
		wn__lessons_release(lessons);
	}
	ck_assert_uint_gt(stats_of(registry).filters, 10);
	while (count < READERS && (open[count] = acquire_number(registry, count)))
		count++;
	ck_assert_uint_gt(count, 80);
	ck_assert_uint_lt(count, READERS);
	ck_assert_uint_eq(stats_of(registry).filters, 0);
	/* Those that are open can still learn. */
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(wn__lessons_add(open[i], i, wn__lesson_of_count(0), false), 0);
	ck_assert_uint_eq(stats_of(registry).lessons, 5);
	expect_within(registry, 64 << 10);
	for (unsigned i = 0; i < count; i++)
		wn__lessons_release(open[i]);
	wn__registry_destroy(registry);
}
END_TEST

START_TEST(a_budget_for_nothing_learns_nothing)
{
	uint64_t random = test_seed("nothing", 52);
	struct frozen_filter frozen = frozen_make(1000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(1);
	struct wn__lessons *lessons;

	ck_assert_int_eq(wn__filter_lessons(registry, frozen.filter, &lessons), WN_ERR_FULL);
	ck_assert_ptr_null(lessons);
	ck_assert_uint_eq(stats_of(registry).refused_readers, 1);
	ck_assert_uint_eq(stats_of(registry).bytes, 0);
	ck_assert(wn__filter_query_learned(frozen.filter, lessons,
					   frozen_false_positive(&frozen, &random), NULL));
	frozen_expect_all_keys(&frozen, lessons);
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
			int err = wn__filter_learn(frozen->filter, lessons,
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

/* ---- bytes -------------------------------------------------------------- */

static void expect_nothing(struct wn__registry *registry)
{
	struct wn__registry_stats stats = stats_of(registry);

	expect(stats.filters == 0 && stats.lessons == 0 && stats.changes == 0);
}

/* Every byte in turn, every length, and up to `more` bytes behind the end. */
static void expect_damage_is_refused(int (*load)(struct wn__registry *, const void *, size_t),
				     const unsigned char *bytes, size_t size, size_t more)
{
	struct wn__registry *registry = new_registry(0);

	wn__registry_track(registry);
	for (size_t at = 0; at < size; at++) {
		unsigned char *copy = malloc(size); /* so that sanitizers see its end */
		int err;

		memcpy(copy, bytes, size);
		copy[at] ^= (unsigned char)(1 << at % 8);
		err = load(registry, copy, size);
		expect(err == WN_ERR_CORRUPT || err == WN_ERR_VERSION);
		expect_nothing(registry);
		free(copy);
	}
	for (size_t length = 0; length <= size + more; length++) {
		unsigned char *copy = calloc(1, length ? length : 1);

		memcpy(copy, bytes, length < size ? length : size);
		if (length != size)
			expect(load(registry, copy, length) == WN_ERR_CORRUPT);
		expect_nothing(registry);
		free(copy);
	}
	ck_assert_int_eq(load(registry, bytes, size), 0);
	ck_assert_uint_gt(stats_of(registry).lessons, 0);
	ck_assert_uint_eq(stats_of(registry).changes, 0);
	wn__registry_destroy(registry);
}

START_TEST(saved_lessons_come_back_the_same)
{
	static struct shelf_of_filters shelf;
	struct wn__registry *other = new_registry(0);
	size_t size, other_size;
	void *bytes, *other_bytes;

	set_up(&shelf, 0);
	for (int i = 0; i < FILTERS; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_int_eq(wn__registry_save(shelf.registry, &bytes, &size), 0);
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	ck_assert_int_eq(wn__registry_save(other, &other_bytes, &other_size), 0);
	ck_assert_uint_eq(size, other_size);
	ck_assert(memcmp(bytes, other_bytes, size) == 0);
	/* Twice is as good as once. */
	ck_assert_int_eq(wn__registry_load(other, bytes, size), 0);
	ck_assert_uint_eq(stats_of(other).lessons, stats_of(shelf.registry).lessons);
	ck_assert_uint_eq(stats_of(other).changes, 0);
	for (int i = 0; i < FILTERS; i++) {
		wn__lessons_release(shelf.lessons[i]);
		shelf.lessons[i] = acquire(other, &shelf.frozen[i]);
		ck_assert(has_lessons(&shelf, i));
		frozen_expect_all_keys(&shelf.frozen[i], shelf.lessons[i]);
	}
	free(bytes);
	free(other_bytes);
	wn__registry_destroy(other);
	tear_down(&shelf);
}
END_TEST

/* The one record that is there, and nothing behind it. */
static int load_one_record(struct wn__registry *registry, const void *bytes, size_t size)
{
	size_t used;
	int err = wn__registry_load_record(registry, bytes, size, &used);

	if (err)
		expect(used == 0);
	else if (used != size)
		err = WN_ERR_CORRUPT;
	return err;
}

START_TEST(damaged_bytes_are_refused_whole)
{
	uint64_t random = test_seed("damage", 70);
	struct frozen_filter one = frozen_make(1000, 4, &random, NULL, 0);
	struct frozen_filter two = frozen_make(1000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &one);
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	teach_some(&one, lessons, 20, &random, NULL);
	ck_assert_uint_eq(stats_of(registry).changes, stats_of(registry).lessons);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	expect_damage_is_refused(load_one_record, bytes, size, 0);
	free(bytes);
	wn__lessons_release(lessons);
	lessons = acquire(registry, &two);
	teach_some(&two, lessons, 20, &random, NULL);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	expect_damage_is_refused(wn__registry_load, bytes, size, 16);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&one);
	frozen_destroy(&two);
}
END_TEST

START_TEST(nothing_is_saved_and_loaded_too)
{
	struct wn__registry *registry = new_registry(0);
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	ck_assert_int_eq(wn__registry_save(registry, &bytes, &size), 0);
	ck_assert_int_eq(wn__registry_load(registry, bytes, size), 0);
	expect_nothing(registry);
	free(bytes);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	ck_assert_ptr_null(bytes);
	wn__registry_destroy(registry);
}
END_TEST

/* A host that writes what has changed: what was learned since the last time. */
static uint64_t sync_changes(struct wn__registry *registry, struct wn__registry *disk)
{
	uint64_t count = stats_of(registry).changes, before = stats_of(disk).lessons;
	unsigned char *bytes, *at;
	size_t size, used;

	ck_assert_int_eq(wn__registry_take_changes(registry, (void **)&bytes, &size), 0);
	for (at = bytes; at < bytes + size; at += used)
		ck_assert_int_eq(wn__registry_load_record(disk, at, (size_t)(bytes + size - at),
							 &used), 0);
	free(bytes);
	ck_assert_uint_eq(stats_of(disk).lessons - before, count);
	ck_assert_uint_eq(stats_of(registry).changes, 0);
	return count;
}

START_TEST(only_what_changed_is_given_to_be_saved)
{
	static struct shelf_of_filters shelf;
	struct wn__registry *disk = new_registry(0);

	set_up(&shelf, 0);
	wn__registry_track(shelf.registry);
	ck_assert_uint_eq(sync_changes(shelf.registry, disk), 0);
	for (int i = 0; i < FILTERS; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	ck_assert_uint_eq(sync_changes(shelf.registry, disk), stats_of(shelf.registry).lessons);
	while (stats_of(shelf.registry).changes == 0)
		teach_some(&shelf.frozen[3], shelf.lessons[3], 1, &shelf.random, NULL);
	ck_assert_uint_eq(sync_changes(shelf.registry, disk), 1);
	ck_assert_uint_eq(stats_of(disk).lessons, stats_of(shelf.registry).lessons);
	wn__registry_destroy(disk);
	tear_down(&shelf);
}
END_TEST

START_TEST(more_changes_than_are_listed_are_said_to_be_lost)
{
	uint64_t random = test_seed("changes", 77);
	struct frozen_filter frozen = frozen_make(200000, 4, &random, NULL, 0);
	struct wn__registry *registry = new_registry(0);
	struct wn__lessons *lessons = acquire(registry, &frozen);
	void *bytes;
	size_t size;

	wn__registry_track(registry);
	while (stats_of(registry).lessons <= WN__REGISTRY_MAX_CHANGES)
		teach_some(&frozen, lessons, 1000, &random, NULL);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), WN_ERR_FULL);
	ck_assert_ptr_null(bytes);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	while (stats_of(registry).changes == 0)
		teach_some(&frozen, lessons, 1, &random, NULL);
	ck_assert_int_eq(wn__registry_take_changes(registry, &bytes, &size), 0);
	ck_assert_ptr_nonnull(bytes);
	free(bytes);
	wn__lessons_release(lessons);
	wn__registry_destroy(registry);
	frozen_destroy(&frozen);
}
END_TEST

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

START_TEST(only_filters_that_are_named_are_retained)
{
	static struct shelf_of_filters shelf;
	unsigned char ids[2][WN_BLOCK_ID_SIZE];

	set_up(&shelf, 0);
	for (int i = 0; i < FILTERS; i++)
		teach_some(&shelf.frozen[i], shelf.lessons[i], 400, &shelf.random, shelf.fixed[i]);
	memcpy(ids[0], shelf.frozen[1].filter->info.id, WN_BLOCK_ID_SIZE);
	memcpy(ids[1], shelf.frozen[3].filter->info.id, WN_BLOCK_ID_SIZE);
	qsort(ids, 2, sizeof(ids[0]), compare_ids);
	ck_assert_uint_eq(wn__registry_retain(shelf.registry,
					     (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, 2),
			  FILTERS - 2);
	ck_assert_uint_eq(stats_of(shelf.registry).filters, 2);
	for (int i = 0; i < FILTERS; i++) {
		wn__lessons_release(shelf.lessons[i]);
		shelf.lessons[i] = acquire(shelf.registry, &shelf.frozen[i]);
		ck_assert(has_lessons(&shelf, i) == (i == 1 || i == 3));
	}
	tear_down(&shelf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("learned");
	TCase *tests = tcase_create("learned");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, without_lessons_the_filter_answers);
	tcase_add_loop_test(tests, tiny_blocks_have_no_lessons, 0, 2);
	tcase_add_loop_test(tests, query_from_finds_every_match_in_turn, 0, 2);
	tcase_add_loop_test(tests, keys_are_never_denied_and_lessons_never_forgotten, 0, 2);
	tcase_add_test(tests, queries_that_differ_in_the_last_bits_are_told_apart);
	tcase_add_test(tests, lessons_can_be_learned_when_the_block_is_gone);
	tcase_add_test(tests, a_stored_hash_that_does_not_fit_is_refused);
	tcase_add_test(tests, a_stored_hash_that_does_not_fit_the_extensions_is_refused);
	tcase_add_test(tests, two_hashes_for_one_fingerprint_end_all_lessons);
	tcase_add_test(tests, lessons_of_another_filter_are_left_aside);
	tcase_add_test(tests, lessons_of_another_shape_are_not_handed_out);
	tcase_add_test(tests, pages_in_other_hands_are_not_believed);
	tcase_add_test(tests, lessons_survive_their_readers_and_nothing_else_does);
	tcase_add_test(tests, many_readers_are_open_at_once);
	tcase_add_test(tests, a_forgotten_filter_keeps_its_lessons_while_it_is_read);
	tcase_add_test(tests, readers_outlive_the_registry);
	tcase_add_test(tests, a_query_is_denied_when_every_key_of_its_minirun_is_told_from_it);
	tcase_add_test(tests, half_of_the_lessons_deny_nothing);
	tcase_add_test(tests, two_numbers_for_one_minirun_end_all_lessons);
	tcase_add_test(tests, the_format_is_what_it_was);
	tcase_add_test(tests, past_the_budget_the_coldest_filter_is_dropped);
	tcase_add_test(tests, what_nobody_reads_can_be_dropped_too);
	tcase_add_test(tests, a_filter_that_outgrows_the_budget_starts_over);
	tcase_add_test(tests, a_budget_for_nothing_learns_nothing);
	tcase_add_loop_test(tests, memory_is_within_the_budget_at_any_time, 0, BUDGETS);
	tcase_add_loop_test(tests, one_filter_alone_is_within_the_budget, 0, BUDGETS);
	tcase_add_test(tests, within_the_budget_nothing_is_dropped);
	tcase_add_test(tests, a_new_reader_comes_before_lessons_that_nobody_reads);
	tcase_add_test(tests, every_allocation_may_fail);
	tcase_add_test(tests, saved_lessons_come_back_the_same);
	tcase_add_test(tests, damaged_bytes_are_refused_whole);
	tcase_add_test(tests, nothing_is_saved_and_loaded_too);
	tcase_add_test(tests, only_what_changed_is_given_to_be_saved);
	tcase_add_test(tests, more_changes_than_are_listed_are_said_to_be_lost);
	tcase_add_test(tests, only_filters_that_are_named_are_retained);
	return test_run(suite);
}
