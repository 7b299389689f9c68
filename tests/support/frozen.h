/* frozen.h - a filter in a block, for tests that know every key in it. */
#ifndef WN_TESTS_FROZEN_H
#define WN_TESTS_FROZEN_H

#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/sort.h"
#include "kinds/aqf/aqf_internal.h"
#include "common.h"
#include "learn/lessons.h"

struct frozen_filter {
	struct wn_secret *secret;
	struct wn_hash *hashes; /* in fingerprint order: by minirun, then rank */
	size_t count;
	void *block;
	size_t size;
	struct wn_filter *filter; /* NULL while closed */
};

static inline void frozen_open(struct frozen_filter *frozen)
{
	ck_assert_int_eq(wn_filter_open(frozen->block, frozen->size, WN_CHECK_HEADER,
					frozen->secret, &frozen->filter, NULL), 0);
}

static inline void frozen_close(struct frozen_filter *frozen)
{
	wn_filter_close(frozen->filter);
	frozen->filter = NULL;
}

/* `count` random keys; the block is adapted against the negatives. */
static inline struct frozen_filter frozen_make(size_t count, unsigned remainder_bits,
					       uint64_t *random, const struct wn_hash *negatives,
					       size_t negative_count)
{
	struct frozen_filter frozen = {.secret = test_secret(1)};
	struct wn_builder *builder;
	struct wn_config *config;
	const uint64_t *uppers;
	char text[64];

	snprintf(text, sizeof(text), "aqf:remainder_bits=%u", remainder_bits);
	ck_assert_int_eq(wn_config_parse(text, NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, frozen.secret, &builder), 0);
	frozen.hashes = malloc((count + 1) * sizeof(*frozen.hashes));
	for (size_t i = 0; i < count; i++) {
		frozen.hashes[i] = test_random_hash(random);
		ck_assert_int_eq(wn_builder_add_hash(builder, frozen.hashes[i]), 0);
	}
	ck_assert_int_eq(wn__sort_hashes(frozen.hashes, count), 0);
	for (size_t i = 0; i < negative_count; i++)
		ck_assert_int_eq(wn_builder_add_negative(builder, negatives[i]), 0);
	ck_assert_int_eq(wn_builder_finish(builder, &frozen.block, &frozen.size), 0);
	uppers = wn_builder_uppers(builder, &frozen.count);
	ck_assert_uint_eq(frozen.count, count);
	for (size_t i = 0; i < count; i++)
		expect(uppers[i] == frozen.hashes[i].hi);
	wn_builder_destroy(builder);
	wn_config_destroy(config);
	frozen_open(&frozen);
	return frozen;
}

static inline void frozen_destroy(struct frozen_filter *frozen)
{
	frozen_close(frozen);
	free(frozen->block);
	free(frozen->hashes);
	wn_secret_destroy(frozen->secret);
}

static inline const struct wn__table *frozen_table(const struct frozen_filter *frozen)
{
	return frozen->filter->state;
}

static inline uint64_t frozen_minirun(const struct wn__table *table, struct wn_hash hash)
{
	return wn__minirun_of(table, wn__split(hash, table->slots));
}

/* The index of the first key whose minirun is this or a later one. */
static inline size_t frozen_first(const struct frozen_filter *frozen, uint64_t minirun)
{
	size_t low = 0, high = frozen->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (frozen_minirun(frozen_table(frozen), frozen->hashes[middle]) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The reverse map: the key at a match. */
static inline struct wn_hash frozen_stored(const struct frozen_filter *frozen,
					   const struct wn_match *match)
{
	size_t at = frozen_first(frozen, match->minirun) + match->rank;

	expect(match->known && at < frozen->count);
	expect(frozen_minirun(frozen_table(frozen), frozen->hashes[at]) == match->minirun);
	return frozen->hashes[at];
}

static inline bool frozen_is_stored(const struct frozen_filter *frozen, struct wn_hash hash)
{
	size_t at = frozen_first(frozen, frozen_minirun(frozen_table(frozen), hash));

	for (; at < frozen->count; at++) {
		int order = wn_hash_compare(frozen->hashes[at], hash);

		if (order >= 0)
			return order == 0;
	}
	return false;
}

/* A hash in the same minirun as `hash`, its tail drawn anew. */
static inline struct wn_hash frozen_neighbour(const struct frozen_filter *frozen,
					      struct wn_hash hash, uint64_t *random)
{
	const struct wn__table *table = frozen_table(frozen);
	/* Hashes of one minirun lie within 2^64 / slots / 2^remainder bits of each other. */
	uint64_t width = UINT64_MAX / table->slots >> table->remainder_bits;
	struct wn_hash other;

	do {
		other = (struct wn_hash){
			hash.hi - width + test_random(random) % (2 * width + 1),
			test_random(random),
		};
	} while (frozen_minirun(table, other) != frozen_minirun(table, hash) ||
		 frozen_is_stored(frozen, other));
	return other;
}

/* A hash that is not stored and that the block's filter says "maybe" to. */
static inline struct wn_hash frozen_false_positive(const struct frozen_filter *frozen,
						   uint64_t *random)
{
	struct wn_hash hash;

	do
		hash = test_random_hash(random);
	while (!wn_filter_query_hash(frozen->filter, hash, NULL) ||
	       frozen_is_stored(frozen, hash));
	return hash;
}

/* Teach until the query is answered "no"; how many lessons that took. */
static inline unsigned frozen_teach(const struct frozen_filter *frozen,
				    struct wn__lessons *lessons, struct wn_hash query)
{
	struct wn_match match;
	unsigned taught = 0;

	while (wn__filter_query_learned(frozen->filter, lessons, query, &match)) {
		struct wn_hash stored = frozen_stored(frozen, &match);

		expect(wn__lessons_learn(lessons, stored, query, &match) == 0);
		expect(++taught <= 1000);
	}
	return taught;
}

static inline void frozen_expect_all_keys(const struct frozen_filter *frozen,
					  const struct wn__lessons *lessons)
{
	for (size_t i = 0; i < frozen->count; i++)
		expect(wn__filter_query_learned(frozen->filter, lessons, frozen->hashes[i], NULL));
}

#endif /* WN_TESTS_FROZEN_H */
