/* bench_options.h - winnow-bench's command line. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench_engine.h"
#include "tools/workload/workload.h"

#define MAX_FILTERS 16
#define MAX_BENCHMARKS 64
#define MAX_THREADS 256

/* One word of --benchmarks. */
struct bench_step {
	const struct bench_kind *kind;
	struct dist dist;
	char label[80]; /* the name, and the distribution if it was given here */
};

struct bench_options {
	const struct engine_kind *engine;
	char *filter_list; /* owns the filters' text */
	const char *filters[MAX_FILTERS];
	size_t filter_count;
	struct bench_step steps[MAX_BENCHMARKS];
	size_t step_count;
	uint64_t num, reads, missing, clients;
	uint64_t key_size, value_size;
	uint64_t cache_size, block_size, write_buffer_size;
	uint64_t threads, repeat;
	uint64_t seed, query_seed;
	double missing_share; /* of readmix */
	enum feedback feedback;
	bool direct_reads, disable_wal, background, cold;
	bool synchronous; /* the default; for those who say so */
	const char *db, *keys, *negatives, *trace, *json, *report;
};

enum parse_result { PARSE_GOOD, PARSE_HELP, PARSE_VERSION, PARSE_BAD };

/* PARSE_BAD: a sentence in *failure. Pointers into argv are kept. */
enum parse_result bench_options_parse(int argc, char **argv, struct bench_options *optionsp,
				      struct failure *failure);
void bench_options_fini(struct bench_options *options);
void bench_options_help(FILE *to);

#endif /* BENCH_OPTIONS_H */
