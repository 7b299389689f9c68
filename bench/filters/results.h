/* results.h - what a run measured for one number of keys. */
#ifndef BENCH_FILTERS_RESULTS_H
#define BENCH_FILTERS_RESULTS_H

#include "contender.h"

/* Two times and their ratio. The ratio's quartiles are those of the rounds' ratios. */
struct duel_cell {
	bool measured;
	struct bench_quartiles ours, theirs, ratio;
};

enum duel_row {
	DUEL_NEGATIVE, DUEL_CHAINED, DUEL_FENCED, DUEL_POSITIVE, DUEL_BATCH_NEGATIVE,
	DUEL_BATCH_POSITIVE, DUEL_TURN, DUEL_ROWS
};

extern const char *const duel_row_names[DUEL_ROWS];

/* Lookups: winnow beside another filter. */
struct duel {
	const struct contender *ours, *theirs;
	unsigned our_offset, their_offset;
	struct duel_cell rows[DUEL_ROWS];
};

/* Building, of all filters in turns. `ours` is winnow's. */
struct build_result {
	bool measured;
	struct bench_quartiles adding, finishing;
	struct duel_cell total;
};

#define MAX_DUELS 32

struct results {
	struct contender_list list;
	struct duel duels[MAX_DUELS];
	size_t duel_count;
	struct build_result builds[MAX_CONTENDERS]; /* as in the list */
};

void results_print(const struct job *job, const struct results *results);
void results_csv(const struct job *job, const struct results *results);

/* What was asked of winnow beside what was measured (targets.c). */
void targets_print(const struct job *job, const struct results *results);

#endif /* BENCH_FILTERS_RESULTS_H */
