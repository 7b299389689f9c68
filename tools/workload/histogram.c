/* histogram.c - see histogram.h. */
#include "histogram.h"

#include <math.h>
#include <string.h>

#define SUB_BUCKETS (1u << HISTOGRAM_SUB_BITS)

void histogram_init(struct histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->min = UINT64_MAX;
}

/* Values below 64 have a bucket each; above, the top bit says which row of 64, and the
 * six bits behind it which bucket of the row. */
static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < SUB_BUCKETS)
		return (unsigned)value;
	shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
	return (shift + 1) * SUB_BUCKETS + (unsigned)((value >> shift) & (SUB_BUCKETS - 1));
}

static double bucket_middle(unsigned bucket)
{
	const unsigned row = bucket / SUB_BUCKETS, column = bucket % SUB_BUCKETS;

	if (row == 0)
		return column;
	return ldexp(SUB_BUCKETS + column + 0.5, (int)row - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->counts[bucket_of(value)]++;
	histogram->count++;
	histogram->sum += (double)value;
	if (value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram->counts[i] += other->counts[i];
	histogram->count += other->count;
	histogram->sum += other->sum;
	if (other->min < histogram->min)
		histogram->min = other->min;
	if (other->max > histogram->max)
		histogram->max = other->max;
}

double histogram_percentile(const struct histogram *histogram, double percent)
{
	const double wanted = ceil(percent / 100.0 * (double)histogram->count);
	uint64_t seen = 0;
	double value;

	if (histogram->count == 0)
		return 0.0;
	if (wanted <= 1.0)
		return (double)histogram->min;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->counts[i];
		if ((double)seen < wanted)
			continue;
		if (seen == histogram->count && wanted >= (double)seen)
			break;
		value = bucket_middle(i);
		return fmin(fmax(value, (double)histogram->min), (double)histogram->max);
	}
	return (double)histogram->max;
}

double histogram_mean(const struct histogram *histogram)
{
	return histogram->count > 0 ? histogram->sum / (double)histogram->count : 0.0;
}
