/* bench_words.c - the last line: what was won, in words; see bench_result.h. */
#include "bench_result.h"

#include <math.h>

/* How many false positives, and how many times fewer. */
static void say_counts(FILE *to, const struct result *base, const struct result *other)
{
	const double before = (double)base->false_positives;
	const double after = (double)other->false_positives;

	fprintf(to, "%llu false positives instead of %llu",
		(unsigned long long)other->false_positives,
		(unsigned long long)base->false_positives);
	if (after > 0.0 && before > after)
		fprintf(to, " (%.1f times fewer)", before / after);
	else if (before > 0.0 && after > before)
		fprintf(to, " (%.1f times more)", after / before);
}

static bool any_false_positive(const struct result *a, const struct result *b)
{
	return a->false_positives + b->false_positives > 0;
}

/* Benchmarks that ask for absent keys, run once: one ratio of two speeds, without a range. */
static void say_once(const struct result_set *set, size_t base, size_t other, size_t step, FILE *to)
{
	const struct result *a = result_at(set, base, step, 0);
	const struct result *b = result_at(set, other, step, 0);
	const double rate = result_rate(b) / result_rate(a);

	fprintf(to, "%s: ", a->step->label);
	say_counts(to, a, b);
	if (isfinite(rate))
		fprintf(to, ", at %.2f times the speed", rate);
}

/* Of a filter that learns, the later repetitions tell nothing about the first: most of its
 * mistakes are not made again. */
static void say_first_speed(FILE *to, const struct result *base, const struct result *first,
			    const struct result *last)
{
	const double ratio = result_rate(first) / result_rate(base);

	if (last->false_positives != first->false_positives && isfinite(ratio))
		fprintf(to, "at %.3f times the speed in that pair, ", ratio);
}

static void say_repeated(const struct result_set *set, size_t base, size_t other, size_t step,
			 FILE *to)
{
	const struct spread speed = result_ratio(set, base, other, step, result_rate);
	const struct spread cpu = result_ratio(set, base, other, step, result_cpu);
	const struct result *a = result_at(set, base, step, 0);
	const struct result *b = result_at(set, other, step, 0);
	char words[300];

	fprintf(to, "%s: ", a->step->label);
	if (any_false_positive(a, b)) {
		say_counts(to, a, b);
		fputs(" the first time, ", to);
		say_first_speed(to, a, b, result_last(set, other, step));
		say_counts(to, result_last(set, base, step), result_last(set, other, step));
		fputs(" the last; ", to);
	}
	repeat_say(&speed, &cpu, words, sizeof(words));
	fputs(words, to);
}

/* False: about this step there is nothing to say. */
static bool has_words(const struct result_set *set, size_t base, size_t other, size_t step)
{
	const struct result *a = result_at(set, base, step, 0);
	const struct result *b = result_at(set, other, step, 0);

	if (!a || !b)
		return false;
	if (set->repeats > 1)
		return bench_kind_only_reads(a->step->kind);
	return any_false_positive(a, b) && a->step->kind->percent[OP_GET_ABSENT] > 0;
}

static void say_steps(const struct result_set *set, size_t base, size_t other, FILE *to)
{
	bool any = false;

	for (size_t s = 0; s < set->steps; s++) {
		if (!has_words(set, base, other, s))
			continue;
		if (any)
			fputs("; ", to);
		else
			fprintf(to, "%s against %s. ", result_filter(set, other),
				result_filter(set, base));
		if (set->repeats > 1)
			say_repeated(set, base, other, s, to);
		else
			say_once(set, base, other, s, to);
		any = true;
	}
	if (any)
		fputs(". ", to);
}

void results_print_verdict(const struct result_set *set, FILE *to)
{
	const uint64_t wrong = results_sum_wrong(set);
	size_t base, other;

	if (results_find_pair(set, &base, &other) || (set->repeats > 1 && set->filters > 1))
		say_steps(set, base, other, to);
	if (wrong > 0)
		fprintf(to, "WRONG: %llu answers were not true.\n", (unsigned long long)wrong);
	else
		fputs("Every answer was right.\n", to);
}
