/* bench_table.c - results side by side; see bench_result.h. */
#include <string.h>

#include "bench_result.h"

/* ---- the table ---------------------------------------------------------- */

#define NAME_WIDTH 28

struct table {
	const struct result_set *set;
	int width; /* of a filter's column */
	FILE *to;
};

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
	result_value_fn *value;
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

/* A name, and a cell for each filter. */
static void print_name(const struct table *table, const char *name)
{
	fprintf(table->to, "  %-*s", NAME_WIDTH, name);
}

static void print_cell(const struct table *table, const double *value, int digits)
{
	if (value)
		fprintf(table->to, "  %*.*f", table->width, digits, *value);
	else
		fprintf(table->to, "  %*s", table->width, "-");
}

static void print_row_of(const struct table *table, const struct row *row, const char *name,
			 size_t step, bool last)
{
	print_name(table, name);
	for (size_t f = 0; f < table->set->filters; f++) {
		const struct result *result = last ? result_last(table->set, f, step) :
						     result_at(table->set, f, step, 0);
		const double value = result ? row->value(result) : 0.0;

		print_cell(table, result ? &value : NULL, row->digits);
	}
	fputc('\n', table->to);
}

static void print_row(const struct table *table, const struct row *row, size_t step)
{
	print_row_of(table, row, row->name, step, false);
}

/* ---- repetitions -------------------------------------------------------- */

/* Filters whose counts change from one repetition to the next learn: a mean would be of neither. */
static const struct row count_rows[] = {
	{ "false positives", value_false_positives, 0, true },
	{ "  of these, repeated", value_repeated, 0, true },
	{ "  learned from", value_adaptations, 0, true },
	{ "data blocks read", value_block_reads, 0, true },
};

static const struct row time_rows[] = {
	{ "p50, microseconds, median", value_p50, 2, false },
	{ "p99, microseconds, median", value_p99, 2, false },
};

enum part { MEDIAN, LOW, HIGH };

static double part_of(const struct spread *spread, enum part part)
{
	return part == MEDIAN ? spread->median : part == LOW ? spread->low : spread->high;
}

static void print_part(const struct table *table, const struct row *row, const char *name,
		       enum part part, size_t step)
{
	print_name(table, name);
	for (size_t f = 0; f < table->set->filters; f++) {
		const struct spread spread = result_spread(table->set, f, step, row->value);
		const double value = part_of(&spread, part);

		print_cell(table, spread.count > 0 ? &value : NULL, row->digits);
	}
	fputc('\n', table->to);
}

static void print_range(const struct table *table, const struct row *row, size_t step)
{
	print_part(table, row, row->name, MEDIAN, step);
	print_part(table, row, "  lowest", LOW, step);
	print_part(table, row, "  highest", HIGH, step);
}

static void print_ratio_part(const struct table *table, const struct row *row, const char *name,
			     enum part part, size_t step)
{
	size_t base, other;

	results_find_pair(table->set, &base, &other);
	print_name(table, name);
	for (size_t f = 0; f < table->set->filters; f++) {
		const struct spread ratio = result_ratio(table->set, base, f, step, row->value);
		const double value = part_of(&ratio, part);

		if (f == base)
			fprintf(table->to, "  %*s", table->width, "1");
		else
			print_cell(table, ratio.count > 0 ? &value : NULL, row->digits);
	}
	fputc('\n', table->to);
}

static void print_ratio(const struct table *table, const struct row *row, size_t step)
{
	print_ratio_part(table, row, row->name, MEDIAN, step);
	print_ratio_part(table, row, "  lowest", LOW, step);
	print_ratio_part(table, row, "  highest", HIGH, step);
}

static double sum_wrong_of(const struct table *table, size_t filter, size_t step)
{
	uint64_t wrong = 0;

	for (size_t r = 0; r < result_repeats(table->set, filter, step); r++)
		wrong += result_at(table->set, filter, step, r)->wrong;
	return (double)wrong;
}

static void print_wrong(const struct table *table, size_t step)
{
	print_name(table, "wrong results, of all");
	for (size_t f = 0; f < table->set->filters; f++) {
		const double wrong = sum_wrong_of(table, f, step);

		print_cell(table, result_at(table->set, f, step, 0) ? &wrong : NULL, 0);
	}
	fputc('\n', table->to);
}

static void print_count_rows(const struct table *table, size_t step)
{
	for (size_t i = 0; i < sizeof(count_rows) / sizeof(count_rows[0]); i++) {
		char name[NAME_WIDTH + 20];

		snprintf(name, sizeof(name), "%s, first", count_rows[i].name);
		print_row_of(table, &count_rows[i], name, step, false);
		print_row_of(table, &count_rows[i], "  last", step, true);
	}
}

static void print_repeated(const struct table *table, size_t step, bool for_reads)
{
	const struct row rate = { "operations a second, median", result_rate, 0, false };
	const struct row cpu = { "CPU, ns an operation, median", result_cpu, 0, false };
	const struct row speed = { "ratio of speeds, median", result_rate, 3, false };
	const struct row effort = { "ratio of CPU time, median", result_cpu, 3, false };

	print_range(table, &rate, step);
	print_range(table, &cpu, step);
	if (table->set->filters > 1) {
		print_ratio(table, &speed, step);
		print_ratio(table, &effort, step);
	}
	for (size_t i = 0; i < sizeof(time_rows) / sizeof(time_rows[0]); i++)
		print_part(table, &time_rows[i], time_rows[i].name, MEDIAN, step);
	if (for_reads)
		print_count_rows(table, step);
	print_wrong(table, step);
}

/* ---- all of it ---------------------------------------------------------- */

static void print_once(const struct table *table, size_t step, bool for_reads)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!rows[i].for_reads || for_reads)
			print_row(table, &rows[i], step);
}

static void print_step(const struct table *table, size_t step)
{
	const struct row call = { "seconds", value_seconds, 3, false };
	const struct result *any = NULL;
	size_t repeats = 0;

	for (size_t f = table->set->filters; f-- > 0;) {
		const size_t count = result_repeats(table->set, f, step);

		any = count > 0 ? result_at(table->set, f, step, 0) : any;
		repeats = count > repeats ? count : repeats;
	}
	if (!any || any->step->kind->type == WORK_STATS)
		return;
	if (repeats > 1)
		fprintf(table->to, "%s, %zu times\n", any->step->label, repeats);
	else
		fprintf(table->to, "%s\n", any->step->label);
	if (any->planned <= 1)
		print_row(table, &call, step);
	else if (repeats > 1)
		print_repeated(table, step, any->reads > 0);
	else
		print_once(table, step, any->reads > 0);
}

static void print_heads(const struct table *table)
{
	fprintf(table->to, "\n  %-*s", NAME_WIDTH, "");
	for (size_t f = 0; f < table->set->filters; f++)
		fprintf(table->to, "  %*s", table->width, result_filter(table->set, f));
	fputc('\n', table->to);
}

/* The last step that ran with any filter; `steps` if none did. */
static size_t find_last_step(const struct result_set *set)
{
	for (size_t s = set->steps; s-- > 0;)
		for (size_t f = 0; f < set->filters; f++)
			if (result_at(set, f, s, 0))
				return s;
	return set->steps;
}

void results_print_table(const struct result_set *set, FILE *to)
{
	struct table table = { set, 12, to };
	const size_t last = find_last_step(set);

	if (last == set->steps)
		return;
	for (size_t f = 0; f < set->filters; f++) {
		const int length = (int)strlen(result_filter(set, f));

		table.width = length > table.width ? length : table.width;
	}
	print_heads(&table);
	for (size_t s = 0; s < set->steps; s++)
		print_step(&table, s);
	fputs("at the end\n", to);
	for (size_t i = 0; i < sizeof(size_rows) / sizeof(size_rows[0]); i++)
		print_row_of(&table, &size_rows[i], size_rows[i].name, last, true);
	fputc('\n', to);
	results_print_verdict(set, to);
}
