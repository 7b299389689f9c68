/* bench_worker.h - one thread of a benchmark: makes operations, times and checks them. */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include "bench_run.h"
#include "tools/workload/histogram.h"

struct worker {
	struct bench *bench;
	struct stream stream;
	struct session *session;
	unsigned curve_count;
	uint64_t first;            /* of its operations */
	atomic_uint_fast64_t done; /* operations, for those who watch */
	uint64_t started, ended;   /* nanoseconds, without `off` */
	uint64_t cpu;              /* nanoseconds of this thread's processor time */
	uint64_t off, cpu_off;     /* nanoseconds spent dropping the cache; see --cold */
	struct histogram latency;
	uint64_t reads, writes, scanned, found, wrong;
	uint64_t queries, positives, false_positives, repeated, block_reads;
	uint64_t curve[CURVE_POINTS];
	char key[KEY_MAX_SIZE];
	char *value, *answer; /* value_size bytes each, and some */
	bool failed;
	struct failure failure;
};

/* Make all operations of the stream; `*stop` not 0 ends it. */
void worker_run(struct worker *worker, const atomic_bool *stop);

#endif /* BENCH_WORKER_H */
