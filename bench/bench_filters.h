/* bench_filters.h - the parts of the bench_filters program. */
#ifndef BENCH_FILTERS_H
#define BENCH_FILTERS_H

#include "bench_util.h"

/* ---- results of the living filter ---------------------------------------- */

enum column { COLUMN_FROZEN, COLUMN_LIVING, COLUMN_COUNT };

#define REPORT_MAX_ROWS 48
#define REPORT_MAX_REPEAT 32

struct report_cell {
	double values[REPORT_MAX_REPEAT];
	size_t count;
};

struct report_row {
	const char *name;
	const char *unit;
	struct report_cell cells[COLUMN_COUNT];
};

struct filter_report {
	uint64_t num;
	struct report_row rows[REPORT_MAX_ROWS];
	size_t row_count;
};

extern const char *const report_columns[COLUMN_COUNT];

/* Rows appear in the order of their first value. `name` and `unit` are kept. */
void report_add(struct filter_report *report, const char *name, const char *unit,
		enum column column, double value);

/* NAN if there is no value. */
double report_median(const struct filter_report *report, const char *name, enum column column);

void report_print(const struct filter_report *report);
void report_csv(const struct filter_report *report, FILE *csv);

/* ---- the job ------------------------------------------------------------ */

#define ROW_BUILD "build from keys"
#define ROW_BUILD_ADD "  adding the keys"
#define ROW_BUILD_FINISH "  making the filter"
#define ROW_NEGATIVE "negative lookup"
#define ROW_CHAINED "negative lookup, chained"
#define ROW_FENCED "negative lookup, fenced"
#define ROW_POSITIVE "positive lookup"
#define ROW_BATCH_NEGATIVE "batch of 32, negative"
#define ROW_BATCH_POSITIVE "batch of 32, positive"
#define ROW_BITS "bits per key"
#define ROW_FPR "false-positive rate"
#define ROW_THREAD_1 "insert by 1 thread"
#define ROW_THREAD_2 "insert by 2 threads"

#define BATCH 32

struct job {
	/* options */
	const char *only;
	uint64_t repeat;
	uint64_t queries;     /* lookups of each kind per repetition */
	uint64_t fpr_queries;
	uint64_t adapts;
	uint64_t remainder_bits;
	uint64_t seed;
	double load;
	double bloom_bits, ribbon_bits;
	bool with_rocksdb;
	const char *filter;   /* winnow's options string; NULL: the library's default */
	const char *against;  /* the other filters, by name */
	const char *path;     /* of the processor, for blocks in lines; NULL: the fastest */
	const char *pages;    /* "small" or "huge" */
	struct bench_list offsets; /* of winnow's block from a cache line */
	uint64_t slice;       /* lookups that a filter is asked before the other has its turn */
	uint64_t rounds;      /* slices of each filter, in each row */
	uint64_t places;      /* in memory, one after the other, for as many parts of the rounds */
	uint64_t turn_keys;   /* of each filter asked in turn; 0: num by their number */
	bool busy;
	FILE *csv;            /* may be NULL */

	/* for one number of keys */
	size_t num;
	struct wn_secret *secret;
	struct bench_key *keys;
	struct bench_key *missing; /* `queries` of them */
	struct bench_key *present; /* `queries` stored keys */
	struct filter_report *report;
};

static inline bool job_has(const struct job *job, const char *part)
{
	return bench_listed(job->only, part);
}

static inline double per(uint64_t start, uint64_t end, size_t count)
{
	return (double)(end - start) / (double)count;
}

/* One lookup by key; inlined into the loops below, so that each loop calls the
 * library's public function directly. */
typedef bool query_fn(const struct job *job, const void *filter, const struct bench_key *key);
typedef void batch_fn(const struct job *job, const void *filter, const struct bench_key *keys,
		      bool *answersp);

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The answers are summed: lookups do not wait for each other. */
ALWAYS_INLINE double time_independent(const struct job *job, query_fn *query, const void *filter,
				      const struct bench_key *keys)
{
	const uint64_t start = bench_now();
	uint64_t sum = 0;

	for (size_t i = 0; i < job->queries; i++)
		sum += query(job, filter, &keys[i]);
	bench_sink += sum;
	return per(start, bench_now(), job->queries);
}

/* Which key comes next depends on the answer. A processor that predicts the
 * answer's branch may still run ahead, as it may in any program. */
ALWAYS_INLINE double time_chained(const struct job *job, query_fn *query, const void *filter,
				  const struct bench_key *keys)
{
	const uint64_t start = bench_now();
	size_t at = 0;

	for (size_t i = 0; i < job->queries; i++) {
		at += 1 + (size_t)query(job, filter, &keys[at]);
		if (at >= job->queries)
			at = 0;
	}
	bench_sink += at;
	return per(start, bench_now(), job->queries);
}

#if defined(__x86_64__)
#define HAVE_FENCE 1
/* The next lookup starts when the last one's loads are done: no running ahead. */
ALWAYS_INLINE double time_fenced(const struct job *job, query_fn *query, const void *filter,
				 const struct bench_key *keys)
{
	const uint64_t start = bench_now();
	uint64_t sum = 0;

	for (size_t i = 0; i < job->queries; i++) {
		sum += query(job, filter, &keys[i]);
		__builtin_ia32_lfence();
	}
	bench_sink += sum;
	return per(start, bench_now(), job->queries);
}
#else
#define HAVE_FENCE 0
#endif

ALWAYS_INLINE double time_batches(const struct job *job, batch_fn *batch, const void *filter,
				  const struct bench_key *keys)
{
	const size_t count = job->queries / BATCH * BATCH;
	const uint64_t start = bench_now();
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i += BATCH) {
		bool answers[BATCH];

		batch(job, filter, keys + i, answers);
		for (size_t j = 0; j < BATCH; j++)
			sum += answers[j];
	}
	bench_sink += sum;
	return per(start, bench_now(), count);
}

ALWAYS_INLINE double measure_fpr(const struct job *job, query_fn *query, const void *filter)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < job->fpr_queries; i++) {
		const struct bench_key key = bench_key(job->seed, BENCH_OTHER, i);

		wrong += query(job, filter, &key);
	}
	return (double)wrong / (double)job->fpr_queries;
}

/* Filters as an SSTable has them: winnow's blocks beside RocksDB's filters and others. */
void run_frozen(struct job *job);

/* The living filter. */
void run_living(struct job *job);

#endif /* BENCH_FILTERS_H */
