/* common.h - what the test programs share. */
#ifndef WN_TESTS_COMMON_H
#define WN_TESTS_COMMON_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include <winnow/hash.h>

/* splitmix64: small, and good enough to choose operations with. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

static inline struct wn_hash test_random_hash(uint64_t *state)
{
	uint64_t hi = test_random(state);

	return (struct wn_hash){hi, test_random(state)};
}

/* For qsort(). */
static inline int test_compare_hashes(const void *a, const void *b)
{
	return wn_hash_compare(*(const struct wn_hash *)a, *(const struct wn_hash *)b);
}

/* The seed of a random test: `fallback`, or WN_SEED from the environment. Printed,
 * so that a failure can be run again. */
static inline uint64_t test_seed(const char *what, uint64_t fallback)
{
	const char *given = getenv("WN_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : fallback;

	fprintf(stderr, "%s: WN_SEED=%" PRIu64 "\n", what, seed);
	return seed;
}

/* WN_QUICK=1 in the environment: fewer rounds, for slow builds (sanitizers). */
static inline bool test_is_quick(void)
{
	const char *quick = getenv("WN_QUICK");

	return quick && *quick && *quick != '0';
}

/* A secret whose seed is `first`, first + 1, ... */
static inline struct wn_secret *test_secret(unsigned char first)
{
	unsigned char seed[WN_SEED_SIZE];
	struct wn_secret *secret;

	for (size_t i = 0; i < sizeof(seed); i++)
		seed[i] = (unsigned char)(first + i);
	ck_assert_int_eq(wn_secret_create(seed, &secret), 0);
	return secret;
}

/* ck_assert() writes a note to disk each time; this one only when it fails. For
 * checks that are made millions of times. */
#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("not so: %s", #condition);                                    \
	} while (0)

/* Run a suite as a program does; the result is for main() to return. */
static inline int test_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif /* WN_TESTS_COMMON_H */
