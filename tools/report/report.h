/* report.h - what was measured, as one HTML page: pictures and tables.
 *
 * The page stands alone: no script, no font, no image from anywhere else, and it
 * follows the reader's choice of light or dark. All strings are borrowed, may hold
 * any bytes and may be NULL; numbers may be anything, NaN included. */
#ifndef WN_TOOLS_REPORT_REPORT_H
#define WN_TOOLS_REPORT_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report_point {
	double x, y;
};

/* One benchmark with one filter. */
struct report_run {
	const char *benchmark, *engine, *filter;
	uint64_t ops;
	double seconds, ops_per_sec;
	/* x: percentile from 0 to 100, y: microseconds */
	const struct report_point *latency;
	size_t latency_count;
	/* x: operations done so far, y: false positives in the interval that ends there */
	const struct report_point *false_positives;
	size_t false_positive_count;
	uint64_t interval; /* operations an interval */
	uint64_t found, wrong_results, total_false_positives, repeated_false_positives, adaptations;
	double bits_per_key;
	uint64_t filter_bytes, learned_bytes, reversemap_bytes, data_block_reads;
};

struct report {
	const char *title;
	const char *const (*facts)[2]; /* machine, parameters: name, value */
	size_t fact_count;
	const struct report_run *runs;
	size_t run_count;
};

/* Write the page. 0, or the errno that writing ended with. */
int report_write(const struct report *report, FILE *to);

#endif /* WN_TOOLS_REPORT_REPORT_H */
