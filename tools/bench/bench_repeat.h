/* bench_repeat.h - repetitions: in which order the filters take turns, and what a few times
 * allow one to say.
 *
 * Pure functions of their arguments. */
#ifndef BENCH_REPEAT_H
#define BENCH_REPEAT_H

#include <stddef.h>

#define MAX_REPEATS 1000

/* Which filter runs as the `turn`th of a repetition: a b, b a, a b, ... So what comes before and
 * after a turn, and a machine that becomes slower or faster, is the same for both. */
size_t repeat_filter(size_t repeat, size_t turn, size_t filters);

struct spread {
	size_t count;
	double median, low, high;
};

/* Of the first MAX_REPEATS values. None: all 0. */
struct spread spread_of(const double *values, size_t count);

/* What the ratios of two filters' speeds, and of their processor time, allow one to say, each
 * ratio of a pair of neighbours. Processor time is told too, because on a busy machine the clock
 * may hide a difference. Whether 1 is in a range is judged by the three digits that are printed. */
void repeat_say(const struct spread *speed, const struct spread *cpu, char *textp, size_t size);

#endif /* BENCH_REPEAT_H */
