/* zipf.h - an exact sampler of Zipf's law: rank k of n comes with a probability
 * proportional to k^-exponent, for any exponent above 0.
 *
 * Thread safety: a sampler never changes after zipf_init(); each thread brings
 * its own random state. */
#ifndef ZIPF_H
#define ZIPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZIPF_MAX_COUNT (UINT64_C(1) << 48)

/* Fields are private. */
struct zipf {
	uint64_t count;
	double exponent;
	double total;      /* the sum of k^-exponent over all ranks */
	double area_first; /* the area under the hat, from its left... */
	double area_last;  /* ...to its right end */
	double sure;       /* below this distance a point is under the curve for sure */
	uint64_t scramble;
	unsigned bits;
};

/* False if count is 0 or above ZIPF_MAX_COUNT, or the exponent is not above 0
 * and at most 20. `seed` chooses the permutation of zipf_next(). */
bool zipf_init(struct zipf *zipf, uint64_t count, double exponent, uint64_t seed);

/* A rank, 1 (the most frequent) to count. *state is the random state: any value
 * to begin with, the same value gives the same sequence. */
uint64_t zipf_rank(const struct zipf *zipf, uint64_t *state);

/* An item, 0 to count - 1: a rank sent through a fixed permutation, so that the
 * frequent items lie anywhere. */
uint64_t zipf_next(const struct zipf *zipf, uint64_t *state);

/* The item that has this rank: a bijection. */
uint64_t zipf_item(const struct zipf *zipf, uint64_t rank);

/* The probability of a rank. */
double zipf_probability(const struct zipf *zipf, uint64_t rank);

/* Draw samples for several exponents and compare them with the law. On failure
 * a sentence in `message`. A right sampler fails for fewer than one seed in a
 * million. */
bool zipf_self_check(uint64_t seed, char *message, size_t size);

#endif /* ZIPF_H */
