/* bench_sscf.h - the parts of the bench_sscf program: lists of keys and negatives, filters made of
 * them, and figures. */
#ifndef BENCH_SSCF_H
#define BENCH_SSCF_H

#include <winnow/filter.h>
#include <winnow/sscf.h>

#include "bench_util.h"
#include "sscf_baselines.h"

/* ---- data (bench_sscf_trial.c) ------------------------------------------ */

extern const struct bench_option bench_sscf_options[];
extern uint64_t seeds;          /* hash functions to take the mean over */
extern double vulnerable_share; /* vulnerable keys, by number of keys */

void make_lists(bool generated);

/* One draw of the hash functions. */
struct trial {
	struct wn_secret *secret;
	struct wn_hash *keys, *negatives;
	size_t key_count, negative_count;
	size_t vulnerable; /* so many of the negatives */
	double *costs, total, vulnerable_cost;
};

struct trial make_trial(uint64_t seed, double skew, double share);
void end_trial(struct trial *trial);

/* ---- filters (bench_sscf_trial.c) --------------------------------------- */

typedef bool query_fn(const void *filter, struct wn_hash hash);

struct trial_rates {
	double cost_rate; /* weighted */
	double listed;    /* rate of vulnerable keys */
	double unlisted;  /* rate of all others */
};

static inline bool query_sscf(const void *filter, struct wn_hash hash)
{
	return wn_sscf_query(filter, hash);
}

static inline bool query_cbf(const void *filter, struct wn_hash hash)
{
	return cbf_query(filter, hash);
}

static inline bool query_stacked(const void *filter, struct wn_hash hash)
{
	return stacked_query(filter, hash);
}

static inline bool query_frozen(const void *filter, struct wn_hash hash)
{
	return wn_filter_query_hash(filter, hash, NULL);
}

struct wn_sscf_options sscf_options(const struct trial *trial, double bits);
struct wn_sscf *make_sscf(const struct trial *trial, const struct wn_sscf_options *given);

/* A block, header and all, of at most `bits` bits a key. */
struct wn_filter *make_frozen(const struct trial *trial, double bits, bool listed, void **blockp);
struct stacked *make_stacked(const struct trial *trial, double bits);

/* Ask for every key and negative. */
struct trial_rates measure(const struct trial *trial, query_fn *query, const void *filter);

/* Make a filter, insert the keys, and measure it. */
struct trial_rates try_sscf(const struct trial *trial, const struct wn_sscf_options *given);
struct trial_rates try_frozen(const struct trial *trial, double bits, bool listed);
struct trial_rates try_cbf(const struct trial *trial, double bits);
struct trial_rates try_stacked(const struct trial *trial, double bits);

/* Add a seed's share of the mean. */
void add_result(struct trial_rates *sum, struct trial_rates result);

/* ---- figures ------------------------------------------------------------ */

struct row {
	struct trial_rates live, narrow, frozen, plain, cbf, stacked;
};

struct row measure_row(double bits, double skew, double share); /* bench_sscf.c */
void run_fig16(void);                                           /* bench_sscf_churn.c */
void run_fig17(void);

#endif /* BENCH_SSCF_H */
