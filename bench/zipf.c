/* zipf.c - Zipf's law by rejection-inversion (Hormann and Derflinger, 1996).
 *
 * Around each rank k stands a bar of width 1 and height k^-s. The curve x^-s is
 * convex, so over [k - 1/2, k + 1/2] it covers at least the bar's area: it serves
 * as a hat. Its integral has a closed form with a closed inverse: draw a point u
 * of the area, find the x below it, round x to k, and accept if u lies in the
 * last k^-s of the area belonging to k. The first bar is cut to its own size, so
 * that rank 1, the most frequent, is never rejected. The time does not depend on
 * the number of ranks, and no table is needed.
 *
 * The integral of x^-s is (x^(1-s) - 1) / (1-s), and ln x for s = 1. Written with
 * expm1() and log1p() it stays accurate for s near 1. */
#include "zipf.h"

#include <math.h>
#include <stdio.h>

#include "bench_util.h"

/* expm1(t) / t and log1p(t) / t, whose limit at 0 is 1. */
static double expm1_ratio(double t)
{
	return fabs(t) > 1e-8 ? expm1(t) / t : 1.0 + t / 2.0;
}

static double log1p_ratio(double t)
{
	return fabs(t) > 1e-8 ? log1p(t) / t : 1.0 - t / 2.0;
}

static double weight(double exponent, double x)
{
	return exp(-exponent * log(x));
}

/* The integral of x^-exponent from 1 to x, and its inverse. */
static double area(double exponent, double x)
{
	const double log_x = log(x);

	return log_x * expm1_ratio((1.0 - exponent) * log_x);
}

static double area_inverse(double exponent, double u)
{
	double t = u * (1.0 - exponent);

	/* Rounding may step over the end of the area, where log1p() ends. */
	if (t < -1.0)
		t = -1.0;
	return exp(u * log1p_ratio(t));
}

/* The sum over all ranks: the first ones one by one, the rest by the
 * Euler-Maclaurin formula, whose first left-out term is below 1e-13 here. */
static double sum_weights(uint64_t count, double exponent)
{
	const uint64_t head = count < 1000 ? count : 1000;
	double sum = 0.0, first, last;

	for (uint64_t k = head; k >= 1; k--)
		sum += weight(exponent, (double)k);
	if (head == count)
		return sum;
	first = (double)head;
	last = (double)count;
	sum += area(exponent, last) - area(exponent, first);
	sum += (weight(exponent, last) - weight(exponent, first)) / 2.0;
	sum += exponent / 12.0 *
	       (weight(exponent, first) / first - weight(exponent, last) / last);
	return sum;
}

bool zipf_init(struct zipf *zipf, uint64_t count, double exponent, uint64_t seed)
{
	if (count == 0 || count > ZIPF_MAX_COUNT || !(exponent > 0.0 && exponent <= 20.0))
		return false;
	zipf->count = count;
	zipf->exponent = exponent;
	zipf->total = sum_weights(count, exponent);
	zipf->area_first = area(exponent, 1.5) - 1.0;
	zipf->area_last = area(exponent, (double)count + 0.5);
	zipf->sure = 2.0 - area_inverse(exponent, area(exponent, 2.5) - weight(exponent, 2.0));
	zipf->scramble = bench_mix(seed + 1);
	zipf->bits = 1;
	while (zipf->bits < 64 && (count - 1) >> zipf->bits != 0)
		zipf->bits++;
	return true;
}

/* Uniform in (0, 1]: 53 random bits. */
static double draw_unit(uint64_t *state)
{
	return (double)((bench_random(state) >> 11) + 1) * 0x1p-53;
}

uint64_t zipf_rank(const struct zipf *zipf, uint64_t *state)
{
	const double width = zipf->area_last - zipf->area_first;

	for (;;) {
		const double u = zipf->area_last - draw_unit(state) * width;
		const double x = area_inverse(zipf->exponent, u);
		double k = floor(x + 0.5);

		if (!(k >= 1.0))
			k = 1.0;
		else if (k > (double)zipf->count)
			k = (double)zipf->count;
		if (k - x <= zipf->sure ||
		    u >= area(zipf->exponent, k + 0.5) - weight(zipf->exponent, k))
			return (uint64_t)k;
	}
}

/* Each step is a bijection of `bits`-bit numbers. Numbers that land at or above
 * count walk on until they come back below: still a bijection of 0..count-1. */
uint64_t zipf_item(const struct zipf *zipf, uint64_t rank)
{
	const uint64_t mask = zipf->bits == 64 ? UINT64_MAX : (UINT64_C(1) << zipf->bits) - 1;
	const unsigned shift = zipf->bits / 2 + 1;
	uint64_t item = rank - 1;

	do {
		for (int round = 0; round < 3; round++) {
			item = (item + zipf->scramble) & mask;
			item ^= item >> shift;
			item = (item * UINT64_C(0xd6e8feb86659fd93)) & mask;
			item ^= item >> shift;
		}
	} while (item >= zipf->count);
	return item;
}

uint64_t zipf_next(const struct zipf *zipf, uint64_t *state)
{
	return zipf_item(zipf, zipf_rank(zipf, state));
}

double zipf_probability(const struct zipf *zipf, uint64_t rank)
{
	if (rank < 1 || rank > zipf->count)
		return 0.0;
	return weight(zipf->exponent, (double)rank) / zipf->total;
}

/* ---- self-check --------------------------------------------------------- */

#define CHECK_RANKS 16
#define CHECK_SAMPLES 200000

/* Ranks 1..CHECK_RANKS one by one, and all others together: each count has a
 * binomial spread; six standard deviations are passed once in 5e8. */
static bool check_one(uint64_t count, double exponent, uint64_t seed, char *message, size_t size)
{
	uint64_t seen[CHECK_RANKS + 1] = { 0 };
	double rest = 1.0;
	struct zipf zipf;

	zipf_init(&zipf, count, exponent, seed);
	for (int i = 0; i < CHECK_SAMPLES; i++) {
		const uint64_t rank = zipf_rank(&zipf, &seed);

		if (rank < 1 || rank > count) {
			snprintf(message, size, "rank %llu is not one of 1 to %llu",
				 (unsigned long long)rank, (unsigned long long)count);
			return false;
		}
		seen[rank <= CHECK_RANKS ? rank - 1 : CHECK_RANKS]++;
	}
	for (uint64_t k = 0; k <= CHECK_RANKS; k++) {
		const double p = k < CHECK_RANKS ? zipf_probability(&zipf, k + 1) : fmax(rest, 0.0);
		const double expected = p * CHECK_SAMPLES;

		rest -= p;
		if (fabs((double)seen[k] - expected) <= 6.0 * sqrt(expected * (1.0 - p)) + 1.0)
			continue;
		snprintf(message, size,
			 "exponent %g, %llu ranks, rank %llu: %llu times, expected %.0f", exponent,
			 (unsigned long long)count, (unsigned long long)k + 1,
			 (unsigned long long)seen[k], expected);
		return false;
	}
	return true;
}

bool zipf_self_check(uint64_t seed, char *message, size_t size)
{
	static const double exponents[] = { 0.2, 0.99, 1.0, 1.0000001, 1.5, 3.0 };
	static const uint64_t counts[] = { 1, 2, 7, 1000, UINT64_C(1000000000) };

	for (size_t e = 0; e < sizeof(exponents) / sizeof(exponents[0]); e++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
			if (!check_one(counts[c], exponents[e], seed + e, message, size))
				return false;
	return true;
}
