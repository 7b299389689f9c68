/* bench_util.h - what all benchmark programs share: a clock, keys made from a
 * counter, options, and dying with a sentence. */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <winnow/hash.h>

/* ---- time --------------------------------------------------------------- */

/* Nanoseconds of the monotonic clock. */
uint64_t bench_now(void);

/* The middle value (the mean of the middle two); sorts `values`. */
double bench_median(double *values, size_t count);

struct bench_quartiles {
	double lower, median, upper;
};

/* A quarter of the values is below `lower`, a quarter above `upper`; sorts `values`. Without
 * values all three are NAN. */
struct bench_quartiles bench_quartiles(double *values, size_t count);

/* Give results to this, so that the work behind them cannot be optimised away. */
extern volatile uint64_t bench_sink;

/* ---- numbers and keys --------------------------------------------------- */

/* A bijection of 64-bit numbers whose output bits all depend on all input bits. */
static inline uint64_t bench_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	return x;
}

/* A stream of 64-bit numbers; any start value of *state will do. */
static inline uint64_t bench_random(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	return bench_mix(*state);
}

/* Uniform in [0, limit), by multiplication: the bias is below limit / 2^64. */
static inline uint64_t bench_random_below(uint64_t *state, uint64_t limit)
{
	return (uint64_t)(((unsigned __int128)bench_random(state) * limit) >> 64);
}

#define BENCH_KEY_SIZE 16

struct bench_key {
	uint64_t words[2];
};

/* Four sets of keys, 2^62 keys each; no key is in two of them. */
enum bench_set { BENCH_STORED, BENCH_MISSING, BENCH_SPARE, BENCH_OTHER };

static inline struct bench_key bench_key(uint64_t seed, enum bench_set set, uint64_t index)
{
	struct bench_key key;

	key.words[0] = bench_mix((index << 2 | (uint64_t)set) ^ seed);
	key.words[1] = bench_mix(key.words[0] + seed);
	return key;
}

/* `count` keys from `first` on; free with free(). */
struct bench_key *bench_keys(uint64_t seed, enum bench_set set, uint64_t first, size_t count);

/* Their hashes, in the same order; free with free(). */
struct wn_hash *bench_hashes(const struct wn_secret *secret, const struct bench_key *keys,
			     size_t count);

/* For qsort(). */
int bench_compare_hashes(const void *a, const void *b);

/* A secret that is the same for the same seed, so that runs can be repeated. */
struct wn_secret *bench_secret(uint64_t seed);

/* ---- the hash behind a fingerprint -------------------------------------- */

struct wn_aqf;

/* Sorted hashes of which a filter was bulk-loaded: within a minirun the rank is
 * the order here, so that a binary search serves as the reverse map. */
struct bench_sorted {
	const struct wn_aqf *aqf;
	const struct wn_hash *hashes;
	size_t count;
};

/* A wn_fetch_fn; `arg` is a struct bench_sorted. */
int bench_fetch_sorted(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp);

/* ---- dying -------------------------------------------------------------- */

void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Die unless `result` (of winnow) is 0. */
void bench_ok(int result, const char *what);

/* malloc() of count * size, or die. */
void *bench_alloc(size_t count, size_t size);

/* fopen(path, "w"), or die; NULL path: NULL. Close: dies when a write failed. */
FILE *bench_open(const char *path);
void bench_close(FILE *file, const char *path);

/* ---- options ------------------------------------------------------------ */

enum bench_type {
	BENCH_INTEGER, /* uint64_t; 10000000, 10M, 10k, 1G */
	BENCH_REAL,    /* double */
	BENCH_TEXT,    /* const char *, borrowed from argv */
	BENCH_FLAG,    /* bool; given without a value */
	BENCH_LIST     /* struct bench_list */
};

#define BENCH_LIST_MAX 16

struct bench_list {
	uint64_t values[BENCH_LIST_MAX];
	size_t count;
};

struct bench_option {
	const char *name; /* without the dashes; NULL ends the table */
	enum bench_type type;
	void *value;     /* holds the default */
	double min, max; /* of numbers */
	const char *help;
};

/* Read "--name=value" arguments from argv[1] on. An argument that cannot be
 * understood ends the program with status 2 and a sentence; --help ends it too. */
void bench_parse(int argc, char **argv, const char *usage, const struct bench_option *options);

/* Is `word` in the comma-separated `list`? A NULL list has every word. */
bool bench_listed(const char *list, const char *word);

/* Die unless all words in `list` are in the comma-separated `allowed`. */
void bench_check_words(const char *option, const char *list, const char *allowed);

#endif /* BENCH_UTIL_H */
