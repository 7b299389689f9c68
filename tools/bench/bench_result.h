/* bench_result.h - what one benchmark with one filter measured, and the ways to show it. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include "bench_options.h"
#include "bench_repeat.h"

#define CURVE_POINTS 50
#define LATENCY_POINTS 17

/* The percentiles that are kept. */
extern const double latency_percents[LATENCY_POINTS];

struct result {
	const struct bench_step *step;
	const char *engine, *filter;
	unsigned threads;
	unsigned repeat; /* from 0 */
	uint64_t planned, ops; /* operations: wanted, and done */
	double seconds, settle_seconds;
	double cpu_seconds; /* of the threads that make the operations */
	double mean_us, max_us, p50_us, p95_us, p99_us, p999_us;
	double latency_us[LATENCY_POINTS];
	uint64_t reads, writes, scanned, found, wrong;
	uint64_t queries, positives, false_positives, repeated, block_reads;
	uint64_t disk_bytes; /* that the process has had read from disks */
	struct engine_stats stats; /* sums: during the benchmark; sizes: at its end */
	uint64_t curve[CURVE_POINTS]; /* false positives, interval by interval */
	unsigned curve_count;
	bool interrupted;
};

double result_rate(const struct result *result);         /* operations a second */
double result_cpu(const struct result *result);          /* nanoseconds an operation */
double result_bits_per_key(const struct result *result); /* of all filters at the end */

/* One line. False: writing failed. */
bool result_print_json(const struct result *result, FILE *to);

/* All that one call of the program measures. */
struct result_set {
	struct result *results; /* a filter's steps, of each its repetitions; not run: no step */
	size_t filters, steps, repeats;
};

size_t result_set_size(const struct result_set *set);
struct result *result_slot(const struct result_set *set, size_t filter, size_t step, size_t repeat);

/* NULL: it was not run. The last one is that of the last repetition that ran to its end, if there
 * is one. */
const struct result *result_at(const struct result_set *set, size_t filter, size_t step,
			       size_t repeat);
const struct result *result_last(const struct result_set *set, size_t filter, size_t step);
size_t result_repeats(const struct result_set *set, size_t filter, size_t step);

uint64_t results_sum_wrong(const struct result_set *set);

/* The name of a filter that has run; "none" for others. */
const char *result_filter(const struct result_set *set, size_t filter);

typedef double result_value_fn(const struct result *result);

/* Over the repetitions; and of the ratios value of `filter` / value of `base`, pair by pair of
 * the same repetition, where both ran to their ends. */
struct spread result_spread(const struct result_set *set, size_t filter, size_t step,
			    result_value_fn *value);
struct spread result_ratio(const struct result_set *set, size_t base, size_t filter, size_t step,
			   result_value_fn *value);

/* Which filter the others are compared with, and which of these the closing sentence names: the
 * first of the engine's own and the first of winnow's. False: they are not both there; then it
 * is filters 0 and 1, if there are two. */
bool results_find_pair(const struct result_set *set, size_t *basep, size_t *otherp);

/* All benchmarks, the filters side by side, and a sentence on what was won. */
void results_print_table(const struct result_set *set, FILE *to);
void results_print_verdict(const struct result_set *set, FILE *to);

/* The HTML page. `db` is where the databases were, or NULL. 0 or an errno. */
int results_write_report(const struct result_set *set, const struct bench_options *options,
			 const char *db, FILE *to);

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
