/* duel.h - two filters that take turns at the same lookups. */
#ifndef BENCH_FILTERS_DUEL_H
#define BENCH_FILTERS_DUEL_H

#include "results.h"

/* Keys a slice are a multiple of this: of batches, and of filters in turn. */
#define SLICE_UNIT (BATCH * TURN)

/* Fill in the rows of parts "lookup" and "batch". */
void duel_lookups(const struct job *job, struct duel *duel);

/* The row of part "turn": `ours` and `theirs` are TURN filters each. */
void duel_turn(const struct job *job, struct duel *duel, const struct made *ours,
	       const struct made *theirs);

#endif /* BENCH_FILTERS_DUEL_H */
