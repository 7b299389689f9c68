/* targets.c - what was asked of winnow's blocks, and whether it was reached. */
#include <math.h>

#include "results.h"

/* The numbers of keys that requirements are for. */
enum size { SIZE_1M, SIZE_10M, SIZE_60M, SIZES };

/* At most so much; NAN: nothing was asked. */
static const double asked_rows[DUEL_ROWS][SIZES] = {
	[DUEL_NEGATIVE] = { 0.65, 0.85, 0.9 },
	[DUEL_POSITIVE] = { 1.2, 0.9, 0.9 },
	[DUEL_BATCH_NEGATIVE] = { NAN, 0.9, 1.0 },
	[DUEL_BATCH_POSITIVE] = { 1.1, 1.1, 1.1 },
	[DUEL_TURN] = { NAN, NAN, NAN }, /* no number was asked: it is for information */
};
static const double asked_build[SIZES] = { 1.2, 0.8, NAN };
static const double asked_bits = 11.85, asked_rate = 0.0020;

/* Filters of about this size; SIZES: none of them. */
static enum size size_of(size_t num)
{
	if (num < 700000)
		return SIZES;
	return num < 3000000 ? SIZE_1M : num < 25000000 ? SIZE_10M : SIZE_60M;
}

static double asked_at(const double *asked, size_t num)
{
	const enum size size = size_of(num);

	return size < SIZES ? asked[size] : NAN;
}

static const char *verdict(double asked, double measured)
{
	return isnan(asked) ? "" : measured <= asked ? "reached" : "missed";
}

static void print_ratio(const char *what, double asked, const struct bench_quartiles *ratio)
{
	printf("  %-66s ", what);
	if (isnan(asked))
		printf("%5s", "-");
	else
		printf("%5.2f", asked);
	printf(" / %5.2f (%.2f to %.2f)  %s\n", ratio->median, ratio->lower, ratio->upper,
	       verdict(asked, ratio->median));
}

static void print_row(const struct job *job, const struct results *results, int row)
{
	for (size_t i = 0; i < results->duel_count; i++) {
		const struct duel *duel = &results->duels[i];
		char what[120];

		if (!duel->theirs->is_mainly || !duel->rows[row].measured)
			continue;
		snprintf(what, sizeof(what), "%s, offset %u : %s, offset %u", duel_row_names[row],
			 duel->our_offset, duel->theirs->name, duel->their_offset);
		print_ratio(what, asked_at(asked_rows[row], job->num), &duel->rows[row].ratio);
	}
}

static void print_builds(const struct job *job, const struct results *results)
{
	for (size_t i = 1; i < results->list.count; i++) {
		const struct contender *contender = &results->list.all[i];
		char what[120];

		if (!results->builds[i].measured || !contender->is_mainly)
			continue;
		snprintf(what, sizeof(what), "%s, hashes kept : %s", ROW_BUILD, contender->name);
		print_ratio(what, asked_at(asked_build, job->num), &results->builds[i].total.ratio);
	}
}

static void print_space(const struct job *job, const struct contender *winnow)
{
	const bool standard = size_of(job->num) < SIZES && job->filter == NULL;
	const double bits = contender_bits(job, winnow);

	printf("  %-66s %5.2f / %5.2f               %s\n", "bits per key", asked_bits, bits,
	       standard ? verdict(asked_bits, bits) : "");
	if (isnan(winnow->fpr))
		return;
	printf("  %-66s %5.4f / %6.5f            %s\n", "at a false-positive rate", asked_rate,
	       winnow->fpr, standard ? verdict(asked_rate, winnow->fpr) : "");
}

void targets_print(const struct job *job, const struct results *results)
{
	printf("\n%zu keys: asked (at most) / measured, the median of ratios (quartiles)\n",
	       job->num);
	for (int row = 0; row < DUEL_ROWS; row++)
		if (asked_rows[row][SIZE_1M] != 0) /* this table has the row */
			print_row(job, results, row);
	print_builds(job, results);
	print_space(job, &results->list.all[0]);
}
