/* bench_repeat.c - see bench_repeat.h. */
#include "bench_repeat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_util.h"

size_t repeat_filter(size_t repeat, size_t turn, size_t filters)
{
	return repeat % 2 == 0 ? turn : filters - 1 - turn;
}

struct spread spread_of(const double *values, size_t count)
{
	struct spread spread = { .count = count < MAX_REPEATS ? count : MAX_REPEATS };
	double sorted[MAX_REPEATS];

	if (spread.count == 0)
		return spread;
	memcpy(sorted, values, spread.count * sizeof(*values));
	spread.median = bench_median(sorted, spread.count);
	spread.low = sorted[0];
	spread.high = sorted[spread.count - 1];
	return spread;
}

static double as_printed(double value)
{
	return round(value * 1000.0) / 1000.0;
}

/* Where a range lies: below 1, around it, above. */
static int side_of(const struct spread *ratio)
{
	if (as_printed(ratio->low) > 1.0)
		return 1;
	return as_printed(ratio->high) < 1.0 ? -1 : 0;
}

static void say_speed(const struct spread *speed, char *textp, size_t size)
{
	const int side = side_of(speed);

	if (speed->count == 0)
		snprintf(textp, size, "no two speeds to compare");
	else if (speed->count == 1)
		snprintf(textp, size, "%.3f times the speed in one pair, which tells no difference "
				      "from chance", speed->median);
	else if (side == 0)
		snprintf(textp, size,
			 "no difference in speed can be seen: %.3f times "
			 "(%.3f to %.3f in %zu pairs)",
			 speed->median, speed->low, speed->high, speed->count);
	else
		snprintf(textp, size,
			 "%s in each of %zu pairs: %.3f times the speed (%.3f to %.3f)",
			 side < 0 ? "slower" : "faster", speed->count, speed->median, speed->low,
			 speed->high);
}

void repeat_say(const struct spread *speed, const struct spread *cpu, char *textp, size_t size)
{
	const int side = side_of(cpu);
	size_t length;

	say_speed(speed, textp, size);
	length = strlen(textp);
	if (cpu->count < 2)
		return;
	if (side == 0)
		snprintf(textp + length, size - length,
			 ", with %.3f times the processor time (%.3f to %.3f)", cpu->median,
			 cpu->low, cpu->high);
	else
		snprintf(textp + length, size - length,
			 ", with %s processor time in each pair: %.3f times (%.3f to %.3f)",
			 side < 0 ? "less" : "more", cpu->median, cpu->low, cpu->high);
}
