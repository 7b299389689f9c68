/* histogram.h - latencies, counted in buckets that grow with the value.
 *
 * Log-linear: 64 buckets for every doubling, so that a percentile is off by less than
 * one part in 64 whatever the scale. Smallest, largest and mean are exact.
 *
 * Thread safety: one thread at a time; threads keep their own and merge at the end. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS];
	uint64_t count, min, max;
	double sum;
};

void histogram_init(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t value);
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* The value that `percent` of the values are not above; 0 if there are none. */
double histogram_percentile(const struct histogram *histogram, double percent);
double histogram_mean(const struct histogram *histogram);

#endif /* HISTOGRAM_H */
