/* bench_run.h - running benchmarks on a database, in threads, and checking every answer. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <signal.h>
#include <stdatomic.h>

#include "bench_result.h"
#include "tools/workload/id_set.h"
#include "tools/workload/truth.h"

/* One filter's database. */
struct bench {
	const struct bench_options *options;
	const struct keyspace *keyspace;
	const struct op *trace; /* for replay */
	uint64_t trace_count;
	const volatile sig_atomic_t *stop; /* not 0: end as soon as possible */
	bool progress;                     /* show it on standard error */
	FILE *out;                         /* for the benchmark stats */

	struct engine_options engine_options;
	struct engine *engine;
	struct truth truth;
	struct id_set mistakes; /* absent keys that were false positives in the tables there are */
	atomic_uint_fast64_t inserted; /* keys that inserts have added */
};

/* Open the database and learn what is in it. The fields above the line are set before. */
bool bench_start(struct bench *bench, struct failure *failure);
bool bench_end(struct bench *bench, struct failure *failure);

/* Run a step, for the `repeat`th time from 0 on: always the same operations.
 * False: it failed; *resultp then has what was measured until then. */
bool bench_run(struct bench *bench, size_t step, unsigned repeat, struct result *resultp,
	       struct failure *failure);

#endif /* BENCH_RUN_H */
