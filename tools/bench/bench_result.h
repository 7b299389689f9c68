/* bench_result.h - what one benchmark with one filter measured, and the ways to show it. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include "bench_options.h"

#define CURVE_POINTS 50
#define LATENCY_POINTS 17

/* The percentiles that are kept. */
extern const double latency_percents[LATENCY_POINTS];

struct result {
	const struct bench_step *step;
	const char *engine, *filter;
	unsigned threads;
	uint64_t planned, ops; /* operations: wanted, and done */
	double seconds, settle_seconds;
	double mean_us, max_us, p50_us, p95_us, p99_us, p999_us;
	double latency_us[LATENCY_POINTS];
	uint64_t reads, writes, scanned, found, wrong;
	uint64_t queries, positives, false_positives, repeated, block_reads;
	struct engine_stats stats; /* sums: during the benchmark; sizes: at its end */
	uint64_t curve[CURVE_POINTS]; /* false positives, interval by interval */
	unsigned curve_count;
	bool interrupted;
};

double result_rate(const struct result *result);         /* operations a second */
double result_bits_per_key(const struct result *result); /* of all filters at the end */

/* One line. False: writing failed. */
bool result_print_json(const struct result *result, FILE *to);

/* All benchmarks, the filters side by side, and a sentence on what was won. `results` has
 * filter_count * step_count of them, a filter's one after the other; those that were not
 * run have no step. */
void results_print_table(const struct result *results, size_t filters, size_t steps, FILE *to);

/* The HTML page. `db` is where the databases were, or NULL. 0 or an errno. */
int results_write_report(const struct result *results, size_t count,
			 const struct bench_options *options, const char *db, FILE *to);

/* ---- the machine -------------------------------------------------------- */

#define MACHINE_FACTS 12

struct machine {
	const char *facts[MACHINE_FACTS][2]; /* name, value */
	char text[MACHINE_FACTS][160];
	size_t count;
};

void machine_describe(struct machine *machine, const char *db);
void machine_add(struct machine *machine, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* BENCH_RESULT_H */
