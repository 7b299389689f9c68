/* lessons.h - filters that learn by lessons, for tests: registries, filters with lessons, several
 * under one budget. */
#ifndef WN_TESTS_LESSONS_H
#define WN_TESTS_LESSONS_H

#include "frozen.h"
#include "learn/lessons_format.h"
#include "learn/lessons_internal.h"

static inline struct wn__registry *new_registry(size_t budget)
{
	struct wn__registry *registry;

	ck_assert_int_eq(wn__registry_create(budget, &registry), 0);
	return registry;
}

static inline struct wn__lessons *acquire(struct wn__registry *registry,
					  const struct frozen_filter *frozen)
{
	struct wn__lessons *lessons;

	ck_assert_int_eq(wn__filter_lessons(registry, frozen->filter, &lessons), 0);
	return lessons;
}

static inline struct wn__registry_stats stats_of(struct wn__registry *registry)
{
	struct wn__registry_stats stats;

	wn__registry_describe(registry, &stats);
	return stats;
}

/* Fix `count` false positives; they are put into `fixed` (may be NULL). */
static inline void teach_some(const struct frozen_filter *frozen, struct wn__lessons *lessons,
			      size_t count, uint64_t *random, struct wn_hash *fixed)
{
	for (size_t i = 0; i < count; i++) {
		struct wn_hash query = frozen_false_positive(frozen, random);

		frozen_teach(frozen, lessons, query);
		if (fixed)
			fixed[i] = query;
	}
}

static inline size_t count_positives(const struct frozen_filter *frozen,
				     const struct wn__lessons *lessons,
				     const struct wn_hash *hashes, size_t count)
{
	size_t positives = 0;

	for (size_t i = 0; i < count; i++)
		positives += wn__filter_query_learned(frozen->filter, lessons, hashes[i], NULL);
	return positives;
}

/* ---- several filters under one budget ----------------------------------- */

#define FILTERS 6
#define BUDGET ((size_t)60 << 10)

struct shelf_of_filters {
	struct frozen_filter frozen[FILTERS];
	struct wn__lessons *lessons[FILTERS];
	struct wn_hash fixed[FILTERS][400];
	struct wn__registry *registry;
	uint64_t random;
};

static inline void set_up(struct shelf_of_filters *shelf, size_t budget)
{
	shelf->random = test_seed("budget", 50);
	shelf->registry = new_registry(budget);
	for (int i = 0; i < FILTERS; i++) {
		shelf->frozen[i] = frozen_make(3000, 4, &shelf->random, NULL, 0);
		shelf->lessons[i] = acquire(shelf->registry, &shelf->frozen[i]);
	}
}

static inline void tear_down(struct shelf_of_filters *shelf)
{
	for (int i = 0; i < FILTERS; i++) {
		wn__lessons_release(shelf->lessons[i]);
		frozen_destroy(&shelf->frozen[i]);
	}
	wn__registry_destroy(shelf->registry);
}

static inline bool has_lessons(struct shelf_of_filters *shelf, int i)
{
	size_t positives =
		count_positives(&shelf->frozen[i], shelf->lessons[i], shelf->fixed[i], 400);

	ck_assert(positives == 0 || positives == 400);
	return positives == 0;
}

/* ---- filters without fingerprints --------------------------------------- */

/* Few miniruns and many keys: some have none, others a handful. */
#define CROWD 300
static const struct wn__shape crowded = {.slots = 100, .remainder_bits = 2};

static inline struct wn__lessons *acquire_crowd(struct wn__registry *registry)
{
	static const unsigned char id[WN_BLOCK_ID_SIZE] = "a crowd of keys";
	struct wn__lessons *lessons;

	ck_assert_int_eq(wn__registry_acquire(registry, id, crowded, &lessons), 0);
	return lessons;
}

#endif /* WN_TESTS_LESSONS_H */
