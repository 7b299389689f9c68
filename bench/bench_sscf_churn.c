/* bench_sscf_churn.c - figures 16 and 17: latency, and the adaptive filter over rounds of churn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_sscf.h"

/* ---- figure 16: latency ------------------------------------------------- */

enum { INSERT, POSITIVE, NEGATIVE, DELETE, TIMES };

static double since(uint64_t start, size_t count)
{
	return (double)(bench_now() - start) / (double)count;
}

static double time_queries(query_fn *query, const void *filter, const struct wn_hash *hashes,
			   size_t count)
{
	uint64_t start = bench_now(), found = 0;

	for (size_t i = 0; i < count; i++)
		found += query(filter, hashes[i]);
	bench_sink += found;
	return since(start, count);
}

#define TIME_FILTER(times, filter, trial, insert, query, delete)                                   \
	do {                                                                                       \
		uint64_t start = bench_now();                                                      \
		for (size_t at = 0; at < (trial)->key_count; at++)                                 \
			insert(filter, (trial)->keys[at]);                                         \
		(times)[INSERT] = since(start, (trial)->key_count);                                \
		(times)[POSITIVE] = time_queries(query, filter, (trial)->keys,                     \
						 (trial)->key_count);                              \
		(times)[NEGATIVE] = time_queries(query, filter, (trial)->negatives,                \
						 (trial)->negative_count);                         \
		start = bench_now();                                                               \
		for (size_t at = 0; at < (trial)->key_count; at++)                                 \
			delete(filter, (trial)->keys[at]);                                         \
		(times)[DELETE] = since(start, (trial)->key_count);                                \
	} while (0)

static void time_sscf(const struct trial *trial, double *times)
{
	struct wn_sscf_options given = sscf_options(trial, 20);
	struct wn_sscf *sscf = make_sscf(trial, &given);

	TIME_FILTER(times, sscf, trial, wn_sscf_insert, query_sscf, wn_sscf_delete);
	wn_sscf_destroy(sscf);
}

static void time_cbf(const struct trial *trial, double *times)
{
	struct cbf *cbf = cbf_create(20.0 * (double)trial->key_count, (double)trial->key_count);

	TIME_FILTER(times, cbf, trial, cbf_insert, query_cbf, cbf_delete);
	cbf_destroy(cbf);
}

static void time_stacked(const struct trial *trial, double *times)
{
	struct stacked *stacked = make_stacked(trial, 20);

	TIME_FILTER(times, stacked, trial, stacked_insert, query_stacked, stacked_delete);
	stacked_destroy(stacked);
}

static void time_frozen(const struct trial *trial, double *times)
{
	uint64_t start = bench_now();
	void *block;
	struct wn_filter *filter = make_frozen(trial, 20, true, &block);

	times[INSERT] = since(start, trial->key_count);
	times[POSITIVE] = time_queries(query_frozen, filter, trial->keys, trial->key_count);
	times[NEGATIVE] = time_queries(query_frozen, filter, trial->negatives,
				       trial->negative_count);
	times[DELETE] = 0;
	wn_filter_close(filter);
	free(block);
}

/* The least of all rounds: what else runs on the machine only adds. */
void run_fig16(void)
{
	static const struct {
		const char *name;
		void (*run)(const struct trial *trial, double *times);
	} filters[] = {{"SSCF", time_sscf}, {"CBF", time_cbf}, {"stacked", time_stacked},
		       {"block", time_frozen}};
	struct trial trial = make_trial(1, 1.5, vulnerable_share);

	puts("nanoseconds a key at 20 bits, hashing not included, the least of 5 rounds a seed");
	printf("%-10s %8s %8s %8s %8s\n", "", "insert", "positive", "negative", "delete");
	for (size_t at = 0; at < 4; at++) {
		double least[TIMES] = {1e9, 1e9, 1e9, 1e9}, times[TIMES];

		for (uint64_t round = 0; round < seeds * 5; round++) {
			filters[at].run(&trial, times);
			for (unsigned i = 0; i < TIMES; i++)
				least[i] = fmin(least[i], times[i]);
		}
		printf("%-10s %8.1f %8.1f %8.1f %8.1f\n", filters[at].name, least[INSERT],
		       least[POSITIVE], least[NEGATIVE], least[DELETE]);
	}
	end_trial(&trial);
}

/* ---- figure 17: the adaptive filter ------------------------------------- */

#define ROUNDS 40
#define ADAPTIVE_BITS 36.0 /* where the paper's rates begin */

/* Keys beyond the list's come in for those that leave. */
static void churn(struct wn_sscf *sscf, struct trial *trial, double ratio, uint64_t *random)
{
	size_t count = (size_t)(ratio * (double)trial->key_count);

	for (size_t i = 0; i < count; i++) {
		size_t at = (size_t)bench_random_below(random, trial->key_count);

		bench_ok(wn_sscf_delete(sscf, trial->keys[at]), "a deletion");
		trial->keys[at] = (struct wn_hash){bench_random(random), bench_random(random)};
		wn_sscf_insert(sscf, trial->keys[at]);
	}
}

static void run_rounds(double ratio, double *ratesp)
{
	memset(ratesp, 0, (ROUNDS + 1) * sizeof(*ratesp));
	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct trial trial = make_trial(seed, 1.5, vulnerable_share);
		struct wn_sscf_options given = sscf_options(&trial, ADAPTIVE_BITS);
		uint64_t random = seed;
		struct wn_sscf *sscf;

		given.adaptive = true;
		bench_ok(wn_sscf_create(&given, &sscf), "wn_sscf_create");
		for (size_t i = 0; i < trial.key_count; i++)
			wn_sscf_insert(sscf, trial.keys[i]);
		for (size_t i = 0; i < trial.vulnerable; i++)
			bench_ok(wn_sscf_add_vulnerable(sscf, trial.negatives[i]), "a negative");
		for (unsigned round = 0; round <= ROUNDS; round++) {
			if (round > 0)
				churn(sscf, &trial, ratio, &random);
			ratesp[round] += measure(&trial, query_sscf, sscf).cost_rate /
					 (double)seeds;
		}
		wn_sscf_destroy(sscf);
		end_trial(&trial);
	}
}

void run_fig17(void)
{
	static const unsigned shown[] = {0, 1, 2, 5, 10, 20, 30, 40};
	double rates[ROUNDS + 1];
	struct row row = measure_row(ADAPTIVE_BITS, 1.5, vulnerable_share);

	printf("adaptive filter, vulnerable keys named after all keys, 36 bits, skew 1.5: "
	       "cost-weighted rate after rounds of churn (CBF: %.2e, SSCF: %.2e)\n",
	       row.cbf.cost_rate, row.live.cost_rate);
	printf("%-8s", "churn");
	for (size_t i = 0; i < 8; i++)
		printf(" %9u", shown[i]);
	puts("");
	for (unsigned percent = 2; percent <= 10; percent += 4) {
		run_rounds(percent / 100.0, rates);
		printf("%6u%% ", percent);
		for (size_t i = 0; i < 8; i++)
			printf(" %9.2e", rates[shown[i]]);
		puts("");
		fflush(stdout);
	}
}
