/* results.c - tables and lines of comma-separated values. */
#include "results.h"

#include <math.h>

const char *const duel_row_names[DUEL_ROWS] = {
	[DUEL_NEGATIVE] = ROW_NEGATIVE,
	[DUEL_CHAINED] = ROW_CHAINED,
	[DUEL_FENCED] = ROW_FENCED,
	[DUEL_POSITIVE] = ROW_POSITIVE,
	[DUEL_BATCH_NEGATIVE] = ROW_BATCH_NEGATIVE,
	[DUEL_BATCH_POSITIVE] = ROW_BATCH_POSITIVE,
	[DUEL_TURN] = "8 filters in turn, a filter",
};

/* ---- tables --------------------------------------------------------------- */

static void print_quartiles(const struct bench_quartiles *quartiles, int decimals)
{
	printf("  %7.*f %7.*f %7.*f", decimals, quartiles->lower, decimals, quartiles->median,
	       decimals, quartiles->upper);
}

static void print_cell(const char *name, const struct duel_cell *cell)
{
	printf("%-28s", name);
	print_quartiles(&cell->ours, 1);
	print_quartiles(&cell->theirs, 1);
	print_quartiles(&cell->ratio, 2);
	putchar('\n');
}

static void print_duel(const struct job *job, const struct duel *duel)
{
	char theirs[64];

	snprintf(theirs, sizeof(theirs), "%s (%u)", duel->theirs->name, duel->their_offset);
	printf("\n%zu keys, ns: quartiles   winnow (%u)%*s%-25s ratio\n", job->num,
	       duel->our_offset, duel->our_offset < 10 ? 16 : 15, "", theirs);
	for (int row = 0; row < DUEL_ROWS; row++)
		if (duel->rows[row].measured)
			print_cell(duel_row_names[row], &duel->rows[row]);
}

static void print_number(double value, int decimals)
{
	if (isnan(value))
		printf(" %10s", "-");
	else
		printf(" %10.*f", decimals, value);
}

static const struct duel *first_duel(const struct results *results, const struct contender *theirs)
{
	for (size_t i = 0; i < results->duel_count; i++)
		if (results->duels[i].theirs == theirs)
			return &results->duels[i];
	return NULL;
}

static const enum duel_row summary_rows[] = {
	DUEL_NEGATIVE, DUEL_POSITIVE, DUEL_BATCH_NEGATIVE, DUEL_BATCH_POSITIVE
};

/* A filter on a line: what it takes, and how much of its time winnow's takes. */
static void print_summary_line(const struct job *job, const struct results *results, size_t at)
{
	const struct contender *contender = &results->list.all[at];
	const struct duel *duel = first_duel(results, contender);
	const struct build_result *build = &results->builds[at];

	printf("%-28s", contender->name);
	print_number(contender_bits(job, contender), 3);
	print_number(contender->fpr, 6);
	if (at == 0) {
		putchar('\n');
		return;
	}
	print_number(build->measured ? build->total.ratio.median : NAN, 2);
	for (size_t i = 0; i < sizeof(summary_rows) / sizeof(summary_rows[0]); i++) {
		const struct duel_cell *cell = &duel->rows[summary_rows[i]];

		print_number(cell->measured ? cell->ratio.median : NAN, 2);
	}
	putchar('\n');
}

static void print_summary(const struct job *job, const struct results *results)
{
	printf("\n%-28s %10s %10s   ratios, winnow : the other\n%-28s %10s %10s %10s %10s %10s "
	       "%10s %10s\n", "", "bits", "false", "space", "a key", "positives", "build",
	       "negative", "positive", "batch neg.", "batch pos.");
	for (size_t i = 0; i < results->list.count; i++)
		print_summary_line(job, results, i);
}

static void print_builds(const struct job *job, const struct results *results)
{
	if (!results->builds[0].measured)
		return;
	printf("\n%zu keys, ns: quartiles   %-25s %-14s %-13s winnow's : its\n", job->num,
	       "build from keys", "adding keys", "making");
	for (size_t i = 0; i < results->list.count; i++) {
		const struct build_result *build = &results->builds[i];

		printf("%-28s", results->list.all[i].name);
		print_quartiles(&build->total.theirs, 1);
		printf("  %11.1f  %12.1f  ", build->adding.median, build->finishing.median);
		print_quartiles(&build->total.ratio, 2);
		putchar('\n');
	}
}

void results_print(const struct job *job, const struct results *results)
{
	for (size_t i = 0; i < results->duel_count; i++)
		print_duel(job, &results->duels[i]);
	print_builds(job, results);
	print_summary(job, results);
}

/* ---- comma-separated values ------------------------------------------------ */

/* Names have commas of their own. `offset` below 0: none. */
static void write_name(FILE *csv, const struct contender *contender, int offset)
{
	if (contender == NULL)
		fputs(",\"\"", csv);
	else if (offset < 0)
		fprintf(csv, ",\"%s\"", contender->name);
	else
		fprintf(csv, ",\"%s (%d)\"", contender->name, offset);
}

struct csv_line {
	const char *row, *unit;
	const struct contender *filter, *beside;
	int offset, beside_offset;
};

static void write_line(const struct job *job, const struct csv_line *line,
		       const struct bench_quartiles *quartiles)
{
	if (isnan(quartiles->median))
		return;
	fprintf(job->csv, "%zu,\"%s\"", job->num, line->row);
	write_name(job->csv, line->filter, line->offset);
	write_name(job->csv, line->beside, line->beside_offset);
	fprintf(job->csv, ",%s,%.9g,%.9g,%.9g\n", line->unit, quartiles->lower,
		quartiles->median, quartiles->upper);
}

static void write_duel(const struct job *job, const struct duel *duel)
{
	for (int row = 0; row < DUEL_ROWS; row++) {
		const struct duel_cell *cell = &duel->rows[row];
		struct csv_line line = {
			.row = duel_row_names[row],
			.unit = "ns",
			.filter = duel->ours,
			.beside = duel->theirs,
			.offset = (int)duel->our_offset,
			.beside_offset = (int)duel->their_offset,
		};

		if (!cell->measured)
			continue;
		write_line(job, &line, &cell->ours);
		line.unit = "ratio";
		write_line(job, &line, &cell->ratio);
		line.unit = "ns";
		line.filter = duel->theirs;
		line.offset = (int)duel->their_offset;
		line.beside = duel->ours;
		line.beside_offset = (int)duel->our_offset;
		write_line(job, &line, &cell->theirs);
	}
}

static void write_value(const struct job *job, const char *row, const char *unit,
			const struct contender *filter, double value)
{
	const struct csv_line line = { row, unit, filter, NULL, -1, -1 };
	const struct bench_quartiles same = { value, value, value };

	write_line(job, &line, &same);
}

static void write_build(const struct job *job, const struct contender *winnow,
			const struct contender *filter, const struct build_result *build)
{
	struct csv_line line = { "adding the keys", "ns", filter, NULL, -1, -1 };

	if (!build->measured)
		return;
	write_line(job, &line, &build->adding);
	line.row = "making the filter";
	write_line(job, &line, &build->finishing);
	line.row = ROW_BUILD;
	write_line(job, &line, &build->total.theirs);
	line = (struct csv_line){ ROW_BUILD, "ratio", winnow, filter, -1, -1 };
	if (filter != winnow)
		write_line(job, &line, &build->total.ratio);
}

void results_csv(const struct job *job, const struct results *results)
{
	const struct contender *all = results->list.all;

	for (size_t i = 0; i < results->duel_count; i++)
		write_duel(job, &results->duels[i]);
	for (size_t i = 0; i < results->list.count; i++) {
		write_value(job, ROW_BITS, "bits", &all[i], contender_bits(job, &all[i]));
		write_value(job, ROW_FPR, "", &all[i], all[i].fpr);
		write_build(job, &all[0], &all[i], &results->builds[i]);
	}
}
