/* bench_table.c - results side by side, and in words; see bench_result.h. */
#include <math.h>
#include <string.h>

#include "bench_result.h"

double result_rate(const struct result *result)
{
	return result->seconds > 0.0 ? (double)result->ops / result->seconds : 0.0;
}

double result_bits_per_key(const struct result *result)
{
	return result->stats.filter_keys > 0 ?
	       8.0 * (double)result->stats.filter_bytes / (double)result->stats.filter_keys : 0.0;
}

/* ---- the table ---------------------------------------------------------- */

#define NAME_WIDTH 28

struct table {
	const struct result *results;
	size_t filters, steps;
	int width; /* of a filter's column */
	FILE *to;
};

static const struct result *result_at(const struct table *table, size_t filter, size_t step)
{
	const struct result *result = &table->results[filter * table->steps + step];

	return result->step ? result : NULL;
}

typedef double value_fn(const struct result *result);

static double value_seconds(const struct result *result)
{
	return result->seconds;
}

static double value_p50(const struct result *result)
{
	return result->p50_us;
}

static double value_p99(const struct result *result)
{
	return result->p99_us;
}

static double value_false_positives(const struct result *result)
{
	return (double)result->false_positives;
}

static double value_repeated(const struct result *result)
{
	return (double)result->repeated;
}

static double value_adaptations(const struct result *result)
{
	return (double)result->stats.adaptations;
}

static double value_block_reads(const struct result *result)
{
	return (double)result->block_reads;
}

static double value_wrong(const struct result *result)
{
	return (double)result->wrong;
}

static double value_filter_bytes(const struct result *result)
{
	return (double)result->stats.filter_bytes;
}

static double value_learned(const struct result *result)
{
	return (double)result->stats.learned_bytes;
}

static double value_reversemap(const struct result *result)
{
	return (double)result->stats.reversemap_bytes;
}

struct row {
	const char *name;
	value_fn *value;
	int digits;
	bool for_reads; /* only where something was looked up */
};

static const struct row rows[] = {
	{ "operations a second", result_rate, 0, false },
	{ "p50, microseconds", value_p50, 2, false },
	{ "p99, microseconds", value_p99, 2, false },
	{ "false positives", value_false_positives, 0, true },
	{ "  of these, repeated", value_repeated, 0, true },
	{ "  learned from", value_adaptations, 0, true },
	{ "data blocks read", value_block_reads, 0, true },
	{ "wrong results", value_wrong, 0, true },
};

static const struct row size_rows[] = {
	{ "filters, bits a key", result_bits_per_key, 2, false },
	{ "filters, bytes", value_filter_bytes, 0, false },
	{ "lessons in memory, bytes", value_learned, 0, false },
	{ "reverse map, bytes", value_reversemap, 0, false },
};

static void print_row(const struct table *table, const struct row *row, size_t step)
{
	fprintf(table->to, "  %-*s", NAME_WIDTH, row->name);
	for (size_t f = 0; f < table->filters; f++) {
		const struct result *result = result_at(table, f, step);

		if (result)
			fprintf(table->to, "  %*.*f", table->width, row->digits,
				row->value(result));
		else
			fprintf(table->to, "  %*s", table->width, "-");
	}
	fputc('\n', table->to);
}

static void print_step(const struct table *table, size_t step)
{
	const struct row call = { "seconds", value_seconds, 3, false };
	const struct result *any = NULL;

	for (size_t f = 0; f < table->filters && !any; f++)
		any = result_at(table, f, step);
	if (!any || any->step->kind->type == WORK_STATS)
		return;
	fprintf(table->to, "%s\n", any->step->label);
	if (any->planned <= 1) {
		print_row(table, &call, step);
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!rows[i].for_reads || any->reads > 0)
			print_row(table, &rows[i], step);
}

/* ---- in words ----------------------------------------------------------- */

static bool is_stock(const char *filter)
{
	return strncmp(filter, "bloom", 5) == 0 || strncmp(filter, "ribbon", 6) == 0;
}

static bool is_winnow(const char *filter)
{
	return !is_stock(filter) && strcmp(filter, "none") != 0;
}

static const char *filter_of(const struct table *table, size_t filter)
{
	for (size_t s = 0; s < table->steps; s++)
		if (result_at(table, filter, s))
			return result_at(table, filter, s)->filter;
	return "none";
}

/* The first filter that learns, and the first that it can be compared with. */
static bool find_pair(const struct table *table, size_t *winnowp, size_t *stockp)
{
	*winnowp = *stockp = table->filters;
	for (size_t f = table->filters; f-- > 0;) {
		if (is_winnow(filter_of(table, f)))
			*winnowp = f;
		else if (is_stock(filter_of(table, f)))
			*stockp = f;
	}
	return *winnowp < table->filters && *stockp < table->filters;
}

static void say_step(FILE *to, const struct result *stock, const struct result *winnow)
{
	const double before = (double)stock->false_positives;
	const double after = (double)winnow->false_positives;
	const double rate = result_rate(winnow) / result_rate(stock);

	fprintf(to, "%s: %llu false positives instead of %llu", stock->step->label,
		(unsigned long long)winnow->false_positives,
		(unsigned long long)stock->false_positives);
	if (after > 0.0 && before > after)
		fprintf(to, " (%.1f times fewer)", before / after);
	else if (before > 0.0 && after > before)
		fprintf(to, " (%.1f times more)", after / before);
	if (isfinite(rate))
		fprintf(to, ", at %.2f times the speed", rate);
}

static uint64_t sum_wrong(const struct table *table)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < table->filters * table->steps; i++)
		wrong += table->results[i].wrong;
	return wrong;
}

/* The last line: what was won by learning, on the benchmarks that ask for absent keys. */
static void print_verdict(const struct table *table)
{
	const uint64_t wrong = sum_wrong(table);
	size_t winnow, stock;
	bool any = false;

	if (find_pair(table, &winnow, &stock)) {
		for (size_t s = 0; s < table->steps; s++) {
			const struct result *a = result_at(table, stock, s);
			const struct result *b = result_at(table, winnow, s);

			if (!a || !b || a->false_positives + b->false_positives == 0 ||
			    a->step->kind->percent[OP_GET_ABSENT] == 0)
				continue;
			if (any)
				fputs("; ", table->to);
			else
				fprintf(table->to, "%s against %s. ", filter_of(table, winnow),
					filter_of(table, stock));
			say_step(table->to, a, b);
			any = true;
		}
		if (any)
			fputs(". ", table->to);
	}
	if (wrong > 0)
		fprintf(table->to, "WRONG: %llu answers were not true.\n",
			(unsigned long long)wrong);
	else
		fputs("Every answer was right.\n", table->to);
}

static void print_heads(const struct table *table)
{
	fprintf(table->to, "\n  %-*s", NAME_WIDTH, "");
	for (size_t f = 0; f < table->filters; f++)
		fprintf(table->to, "  %*s", table->width, filter_of(table, f));
	fputc('\n', table->to);
}

void results_print_table(const struct result *results, size_t filters, size_t steps, FILE *to)
{
	struct table table = { results, filters, steps, 12, to };
	size_t last = steps;

	for (size_t f = 0; f < filters; f++) {
		const int length = (int)strlen(filter_of(&table, f));

		table.width = length > table.width ? length : table.width;
	}
	for (size_t s = 0; s < steps; s++)
		for (size_t f = 0; f < filters; f++)
			if (result_at(&table, f, s))
				last = s;
	if (last == steps)
		return;
	print_heads(&table);
	for (size_t s = 0; s < steps; s++)
		print_step(&table, s);
	fputs("at the end\n", to);
	for (size_t i = 0; i < sizeof(size_rows) / sizeof(size_rows[0]); i++)
		print_row(&table, &size_rows[i], last);
	fputc('\n', to);
	print_verdict(&table);
}
