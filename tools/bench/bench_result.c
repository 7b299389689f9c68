/* bench_result.c - all results of a run, and numbers over repetitions; see bench_result.h. */
#include "bench_result.h"

#include <string.h>

double result_rate(const struct result *result)
{
	return result->seconds > 0.0 ? (double)result->ops / result->seconds : 0.0;
}

double result_cpu(const struct result *result)
{
	return result->ops > 0 ? 1e9 * result->cpu_seconds / (double)result->ops : 0.0;
}

double result_bits_per_key(const struct result *result)
{
	return result->stats.filter_keys > 0 ?
	       8.0 * (double)result->stats.filter_bytes / (double)result->stats.filter_keys : 0.0;
}

/* ---- one of them -------------------------------------------------------- */

size_t result_set_size(const struct result_set *set)
{
	return set->filters * set->steps * set->repeats;
}

struct result *result_slot(const struct result_set *set, size_t filter, size_t step, size_t repeat)
{
	return &set->results[(filter * set->steps + step) * set->repeats + repeat];
}

const struct result *result_at(const struct result_set *set, size_t filter, size_t step,
			       size_t repeat)
{
	const struct result *result = result_slot(set, filter, step, repeat);

	return result->step ? result : NULL;
}

size_t result_repeats(const struct result_set *set, size_t filter, size_t step)
{
	size_t count = 0;

	while (count < set->repeats && result_at(set, filter, step, count))
		count++;
	return count;
}

const struct result *result_last(const struct result_set *set, size_t filter, size_t step)
{
	size_t count = result_repeats(set, filter, step);

	if (count > 1 && result_at(set, filter, step, count - 1)->interrupted)
		count--;
	return count > 0 ? result_at(set, filter, step, count - 1) : NULL;
}

/* ---- over all of them --------------------------------------------------- */

uint64_t results_sum_wrong(const struct result_set *set)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < result_set_size(set); i++)
		wrong += set->results[i].wrong;
	return wrong;
}

const char *result_filter(const struct result_set *set, size_t filter)
{
	for (size_t s = 0; s < set->steps; s++)
		if (result_at(set, filter, s, 0))
			return result_at(set, filter, s, 0)->filter;
	return "none";
}

static bool is_stock(const char *filter)
{
	return strncmp(filter, "bloom", 5) == 0 || strncmp(filter, "ribbon", 6) == 0;
}

static bool is_winnow(const char *filter)
{
	return !is_stock(filter) && strcmp(filter, "none") != 0;
}

bool results_find_pair(const struct result_set *set, size_t *basep, size_t *otherp)
{
	*basep = *otherp = set->filters;
	for (size_t f = set->filters; f-- > 0;) {
		if (is_winnow(result_filter(set, f)))
			*otherp = f;
		else if (is_stock(result_filter(set, f)))
			*basep = f;
	}
	if (*otherp < set->filters && *basep < set->filters)
		return true;
	*basep = 0;
	*otherp = 1;
	return false;
}

struct spread result_spread(const struct result_set *set, size_t filter, size_t step,
			    result_value_fn *value)
{
	const size_t count = result_repeats(set, filter, step);
	double values[MAX_REPEATS];

	for (size_t r = 0; r < count; r++)
		values[r] = value(result_at(set, filter, step, r));
	return spread_of(values, count);
}

struct spread result_ratio(const struct result_set *set, size_t base, size_t filter, size_t step,
			   result_value_fn *value)
{
	double ratios[MAX_REPEATS];
	size_t count = 0;

	for (size_t r = 0; r < set->repeats; r++) {
		const struct result *a = result_at(set, base, step, r);
		const struct result *b = result_at(set, filter, step, r);

		if (a && b && !a->interrupted && !b->interrupted && value(a) > 0.0)
			ratios[count++] = value(b) / value(a);
	}
	return spread_of(ratios, count);
}
