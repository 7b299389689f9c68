/* contender.h - the filters that are compared, and what each of them can do.
 *
 * A contender is *made* from keys, which is what building costs. What is asked are copies of the
 * bytes made, in memory of our choice (seat.h). */
#ifndef BENCH_FILTERS_CONTENDER_H
#define BENCH_FILTERS_CONTENDER_H

#include "bench/bench_filters.h"

enum loop { LOOP_INDEPENDENT, LOOP_CHAINED, LOOP_FENCED, LOOP_BATCH, LOOP_FPR };

/* Filters that are asked in turn, as a lookup that goes through levels does. */
#define TURN 8

/* What a build gave, and its time in nanoseconds a key. */
struct made {
	void *own; /* the type's */
	const void *bytes;
	size_t size;
	double adding, finishing;
};

struct contender;

struct contender_type {
	void (*make)(const struct job *job, const struct contender *contender,
		     const struct bench_key *keys, size_t count, struct made *madep);
	void (*unmake)(struct made *made);
	/* Over a copy of made->bytes, which is borrowed; `made` stays, too. */
	void *(*open)(const struct job *job, const struct made *made, const void *bytes);
	void (*close)(void *filter);
	bool (*query)(const struct job *job, const void *filter, const struct bench_key *key);
	void (*batch)(const struct job *job, const void *filter, const struct bench_key *keys,
		      bool *answersp);
	/* job->queries lookups: nanoseconds a lookup (LOOP_FPR: the rate). NAN: cannot do. */
	double (*time)(const struct job *job, enum loop loop, const void *filter,
		       const struct bench_key *keys);
	/* TURN filters are asked for each of job->queries keys: nanoseconds a filter. */
	double (*time_turn)(const struct job *job, void *const *filters,
			    const struct bench_key *keys);
};

extern const struct contender_type contender_winnow, contender_bloom, contender_ribbon,
	contender_fuse;

struct contender {
	const char *word; /* in --against */
	char name[40];
	const struct contender_type *type;
	struct wn_config *config; /* winnow: NULL: the library's default */
	double bits;              /* Bloom, Ribbon */
	unsigned width;           /* binary fuse */
	bool is_mainly;           /* what requirements are about: asked at all offsets, in turn */
	struct made made;
	double fpr;
};

/* The loops over the type's own functions, inlined. */
ALWAYS_INLINE double time_loop(const struct job *job, enum loop loop, query_fn *query,
			       batch_fn *batch, const void *filter, const struct bench_key *keys)
{
	switch (loop) {
	case LOOP_INDEPENDENT:
		return time_independent(job, query, filter, keys);
	case LOOP_CHAINED:
		return time_chained(job, query, filter, keys);
	case LOOP_FENCED:
#if HAVE_FENCE
		return time_fenced(job, query, filter, keys);
#else
		break;
#endif
	case LOOP_BATCH:
		return time_batches(job, batch, filter, keys);
	case LOOP_FPR:
		return measure_fpr(job, query, filter);
	}
	return __builtin_nan("");
}

/* How many of TURN filters say yes. */
typedef unsigned turn_fn(const struct job *job, void *const *filters, const struct bench_key *key);

ALWAYS_INLINE double time_turns(const struct job *job, turn_fn *turn, void *const *filters,
				const struct bench_key *keys)
{
	const uint64_t start = bench_now();
	uint64_t sum = 0;

	for (size_t i = 0; i < job->queries; i++)
		sum += turn(job, filters, &keys[i]);
	bench_sink += sum;
	return per(start, bench_now(), job->queries) / TURN;
}

#define MAX_CONTENDERS 8

/* The list of a run, winnow first; those that --against names, in a fixed order. */
struct contender_list {
	struct contender all[MAX_CONTENDERS];
	size_t count;
};

void contenders_init(const struct job *job, struct contender_list *list);
void contenders_fini(struct contender_list *list);

static inline double contender_bits(const struct job *job, const struct contender *contender)
{
	return 8.0 * (double)contender->made.size / (double)job->num;
}

#endif /* BENCH_FILTERS_CONTENDER_H */
