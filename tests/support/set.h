/* set.h - sets of numbered keys. */
#ifndef WN_TESTS_SET_H
#define WN_TESTS_SET_H

#include <string.h>

#include <winnow/set.h>

#include "tests/support/common.h"
#include "tests/support/revmap.h"
#include "tests/support/snapshot.h"

/* Remainders of 3 bits: one absent key in nine or so is a false positive. */
static inline struct wn_set_options small_options(uint64_t capacity)
{
	return (struct wn_set_options){
		.aqf = {.capacity = capacity, .remainder_bits = 3, .load = 0.7, .adapt_load = 0.95},
	};
}

static inline struct wn_set *make_set_with(const struct wn_set_options *options,
					   struct wn_revmap *map)
{
	struct wn_secret *secret = test_secret(1);
	struct wn_set *set;

	ck_assert_int_eq(wn_set_create(options, secret, map, &set), 0);
	wn_secret_destroy(secret);
	return set;
}

static inline struct wn_set *make_set(uint64_t capacity, bool keep_keys)
{
	struct wn_set_options options = small_options(capacity);

	return make_set_with(&options, make_map(keep_keys));
}

/* Key number n: four bytes. */
static inline int insert(struct wn_set *set, uint32_t n)
{
	return wn_set_insert(set, &n, sizeof(n));
}

static inline bool query(const struct wn_set *set, uint32_t n)
{
	return wn_set_query(set, &n, sizeof(n));
}

static inline int learn(struct wn_set *set, uint32_t n)
{
	return wn_set_false_positive(set, &n, sizeof(n));
}

static inline uint64_t count(const struct wn_set *set, uint32_t n)
{
	uint64_t result;

	/* ck_assert() writes to a pipe even when all is well: too slow for what is
	 * called millions of times. */
	if (wn_set_count(set, &n, sizeof(n), &result))
		ck_abort_msg("no count for key %u", n);
	return result;
}

static inline void insert_range(struct wn_set *set, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		ck_assert_int_eq(insert(set, n), 0);
}

/* Key n that many times. */
static inline void insert_times(struct wn_set *set, uint32_t n, uint32_t times)
{
	while (times-- > 0)
		ck_assert_int_eq(insert(set, n), 0);
}

static inline void assert_found_in_range(const struct wn_set *set, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		if (!query(set, n))
			ck_abort_msg("key %u is lost", n);
}

static inline struct wn_aqf_info describe(const struct wn_set *set)
{
	struct wn_aqf_info info;

	wn_aqf_describe(wn_set_filter(set), &info);
	return info;
}

static inline struct snapshot snap(const struct wn_set *set)
{
	return take_snapshot(wn_set_filter(set), wn_set_map(set));
}

static inline bool is_seed_same(const struct wn_set *a, const struct wn_set *b)
{
	return !memcmp(wn_secret_seed(wn_set_secret(a)), wn_secret_seed(wn_set_secret(b)),
		       WN_SEED_SIZE);
}

#endif /* WN_TESTS_SET_H */
