/* bench_paper_fig7.c - Figure 7's Zipfian curve: false-positive rate and space
 * while the filter adapts to queries.
 *
 * Each trial is a universe of its own: which of the missing keys are the frequent
 * ones. The instantaneous rate is measured on query sets drawn anew from the same
 * universe, without adapting.
 *
 * Under Zipf's law that rate depends on luck: with exponent 1.5 the first key alone
 * gets 38% of the queries, and it is a false positive in one universe out of 540.
 * So beside the sampled rate stands its mean over all universes, which needs no
 * luck: a key that was asked before is no false positive (this is checked), and
 * any other is one with the filter's plain rate. The mean is therefore the plain
 * rate, as measured, times the share of the queries that are for keys never asked
 * before, as measured. */
#include "bench_paper.h"

#include <stdlib.h>
#include <string.h>

#include <winnow/aqf.h>

#include "bench_util.h"
#include "zipf.h"

#define POINTS 100

struct point {
	double sampled;  /* false-positive rate of this trial's universes */
	double unseen;   /* share of queries for keys not asked before */
	double extra;    /* bits per item */
	double adapted;  /* adaptations */
};

struct fig7 {
	uint64_t slots_log2, remainder_bits, seed, queries, probe, trials, universe;
	double exponent;
	const char *csv_path, *plot_path;

	size_t num;
	struct wn_secret *secret;
	struct wn_hash *hashes;
	struct point points[POINTS + 1]; /* sums over the trials */
	double plain_rate;
	uint64_t returned; /* fixed false positives that came back */
};

/* ---- which ranks were asked --------------------------------------------- */

/* Open addressing; 0 is free, ranks begin with 1. */
struct rank_set {
	uint64_t *ranks;
	uint64_t mask;
};

static void rank_set_init(struct rank_set *set, uint64_t limit)
{
	uint64_t size = 1024;

	while (size < 2 * limit)
		size *= 2;
	set->ranks = bench_alloc((size_t)size, sizeof(*set->ranks));
	memset(set->ranks, 0, (size_t)size * sizeof(*set->ranks));
	set->mask = size - 1;
}

static bool rank_set_has(const struct rank_set *set, uint64_t rank)
{
	uint64_t at = bench_mix(rank) & set->mask;

	while (set->ranks[at] != 0 && set->ranks[at] != rank)
		at = (at + 1) & set->mask;
	return set->ranks[at] == rank;
}

static void rank_set_add(struct rank_set *set, uint64_t rank)
{
	uint64_t at = bench_mix(rank) & set->mask;

	while (set->ranks[at] != 0 && set->ranks[at] != rank)
		at = (at + 1) & set->mask;
	set->ranks[at] = rank;
}

/* ---- one trial ---------------------------------------------------------- */

struct trial {
	struct fig7 *figure;
	struct wn_aqf *aqf;
	struct zipf zipf;
	struct rank_set seen;
	uint64_t key_seed;
	uint64_t query_state, probe_state;
	uint64_t adapted;
};

static struct wn_hash hash_of_rank(const struct trial *trial, uint64_t rank)
{
	const struct bench_key key = bench_key(trial->key_seed, BENCH_MISSING,
					       zipf_item(&trial->zipf, rank));

	return wn_hash_key(trial->figure->secret, &key, BENCH_KEY_SIZE);
}

static void ask_and_adapt(struct trial *trial, uint64_t count)
{
	struct bench_sorted map = {
		.aqf = trial->aqf,
		.hashes = trial->figure->hashes,
		.count = trial->figure->num,
	};

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t rank = zipf_rank(&trial->zipf, &trial->query_state);
		const struct wn_hash hash = hash_of_rank(trial, rank);

		if (wn_aqf_query(trial->aqf, hash, NULL)) {
			if (rank_set_has(&trial->seen, rank))
				trial->figure->returned++;
			bench_ok(wn_aqf_adapt_all(trial->aqf, hash, bench_fetch_sorted, &map,
						  NULL), "adapting");
			trial->adapted++;
		}
		rank_set_add(&trial->seen, rank);
	}
}

static double extra_bits(const struct wn_aqf *aqf)
{
	struct wn_aqf_info info;

	wn_aqf_describe(aqf, &info);
	return (double)info.extensions * 8.0 * (double)info.bytes / (double)info.slots /
	       (double)info.fingerprints;
}

static void measure_point(struct trial *trial, struct point *point)
{
	const uint64_t probe = trial->figure->probe;
	uint64_t wrong = 0, unseen = 0;

	for (uint64_t i = 0; i < probe; i++) {
		const uint64_t rank = zipf_rank(&trial->zipf, &trial->probe_state);
		const bool answer = wn_aqf_query(trial->aqf, hash_of_rank(trial, rank), NULL);
		const bool seen = rank_set_has(&trial->seen, rank);

		wrong += answer;
		unseen += !seen;
		trial->figure->returned += answer && seen;
	}
	point->sampled += (double)wrong / (double)probe;
	point->unseen += (double)unseen / (double)probe;
	point->extra += extra_bits(trial->aqf);
	point->adapted += (double)trial->adapted;
}

static void measure_plain_rate(struct fig7 *figure, const struct wn_aqf *aqf)
{
	const uint64_t queries = 4000000;
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < queries; i++) {
		const struct bench_key key = bench_key(figure->seed, BENCH_OTHER, i);

		wrong += wn_aqf_query(aqf, wn_hash_key(figure->secret, &key, BENCH_KEY_SIZE), NULL);
	}
	figure->plain_rate = (double)wrong / (double)queries;
}

static struct wn_aqf *load_filter(const struct fig7 *figure)
{
	const struct wn_aqf_options options = {
		.capacity = figure->num,
		.remainder_bits = (unsigned)figure->remainder_bits,
		.load = 0.9,
	};
	struct wn_aqf *aqf;

	bench_ok(wn_aqf_bulk_load(&options, figure->hashes, figure->num, &aqf), "bulk-loading");
	return aqf;
}

static void run_trial(struct fig7 *figure, uint64_t number)
{
	struct trial trial = {
		.figure = figure,
		.aqf = load_filter(figure),
		.key_seed = figure->seed,
		.query_state = bench_mix(figure->seed + 2 * number),
		.probe_state = bench_mix(figure->seed + 2 * number + 1),
	};

	/* A new permutation makes other keys frequent. */
	if (!zipf_init(&trial.zipf, figure->universe, figure->exponent, figure->seed + number))
		bench_die("no Zipf distribution over %llu items with exponent %g",
			  (unsigned long long)figure->universe, figure->exponent);
	if (number == 0)
		measure_plain_rate(figure, trial.aqf);
	rank_set_init(&trial.seen, figure->queries);
	measure_point(&trial, &figure->points[0]);
	for (uint64_t i = 1; i <= POINTS; i++) {
		uint64_t done = figure->queries * (i - 1) / POINTS;

		ask_and_adapt(&trial, figure->queries * i / POINTS - done);
		measure_point(&trial, &figure->points[i]);
	}
	for (size_t i = 0; i < figure->num; i++)
		if (!wn_aqf_query(trial.aqf, figure->hashes[i], NULL))
			bench_die("stored hash %zu was denied after adapting", i);
	free(trial.seen.ranks);
	wn_aqf_destroy(trial.aqf);
}

/* ---- report ------------------------------------------------------------- */

static void average_points(struct fig7 *figure)
{
	for (size_t i = 0; i <= POINTS; i++) {
		figure->points[i].sampled /= (double)figure->trials;
		figure->points[i].unseen /= (double)figure->trials;
		figure->points[i].extra /= (double)figure->trials;
		figure->points[i].adapted /= (double)figure->trials;
	}
}

static double mean_rate(const struct fig7 *figure, size_t i)
{
	return figure->plain_rate * figure->points[i].unseen;
}

static void print_points(const struct fig7 *figure)
{
	printf("%12s %16s %16s %18s %12s\n", "queries", "FPR, sampled", "FPR, mean",
	       "extra bits/item", "adaptations");
	for (size_t i = 0; i <= POINTS; i++) {
		const struct point *point = &figure->points[i];

		/* Most of the fall is in the first points; then every tenth will do. */
		if (i > 10 && i % 10 != 0)
			continue;
		printf("%12llu %16.3e %16.3e %18.6f %12.1f\n",
		       (unsigned long long)(figure->queries * i / POINTS), point->sampled,
		       mean_rate(figure, i), point->extra, point->adapted);
	}
}

static void write_csv(const struct fig7 *figure)
{
	FILE *csv = bench_open(figure->csv_path);

	if (csv == NULL)
		return;
	fputs("queries,fpr_sampled,fpr_mean,extra_bits_per_item,adaptations\n", csv);
	for (size_t i = 0; i <= POINTS; i++)
		fprintf(csv, "%llu,%.6e,%.6e,%.6e,%.2f\n",
			(unsigned long long)(figure->queries * i / POINTS),
			figure->points[i].sampled, mean_rate(figure, i), figure->points[i].extra,
			figure->points[i].adapted);
	bench_close(csv, figure->csv_path);
}

static void write_plot(const struct fig7 *figure)
{
	FILE *gnuplot;

	if (figure->plot_path == NULL)
		return;
	gnuplot = popen("gnuplot", "w");
	if (gnuplot == NULL)
		bench_die("cannot start gnuplot");
	fputs("$points << END\n", gnuplot);
	for (size_t i = 0; i <= POINTS; i++)
		fprintf(gnuplot, "%g %g %g %g\n", (double)(figure->queries * i / POINTS) / 1e6,
			figure->points[i].sampled, mean_rate(figure, i), figure->points[i].extra);
	fprintf(gnuplot,
		"END\n"
		"set terminal pngcairo size 900,520\n"
		"set output '%s'\n"
		"set title 'False positives while adapting, Zipf %g'\n"
		"set xlabel 'million queries'\n"
		"set ylabel 'false-positive rate'\n"
		"set y2label 'extra bits per item'\n"
		"set logscale y\nset format y '10^{%%L}'\n"
		"set y2tics\nset ytics nomirror\nset grid\n"
		"plot $points using 1:3 with lines lw 2 title 'rate, mean over universes', "
		"'' using 1:2 with points pt 7 ps 0.4 title 'rate, sampled', "
		"'' using 1:4 axes x1y2 with lines dt 2 title 'extra bits per item (right)'\n",
		figure->plot_path, figure->exponent);
	if (pclose(gnuplot) != 0)
		bench_die("gnuplot failed; is it installed?");
	printf("plot: %s\n", figure->plot_path);
}

static void print_summary(const struct fig7 *figure)
{
	const struct point *first = &figure->points[0], *last = &figure->points[POINTS];

	printf("\nplain false-positive rate of the filter: %.6f\n", figure->plain_rate);
	printf("fall of the mean rate: %.0f x (the paper: about 100 x)\n",
	       mean_rate(figure, 0) / mean_rate(figure, POINTS));
	if (last->sampled > 0.0)
		printf("fall of the sampled rate, %llu universes: %.0f x\n",
		       (unsigned long long)figure->trials, first->sampled / last->sampled);
	printf("extra space: %.6f bits per item (the paper: below 0.001)\n", last->extra);
	printf("fixed false positives that came back: %llu\n",
	       (unsigned long long)figure->returned);
}

int run_fig7(int argc, char **argv)
{
	static struct fig7 figure = {
		.slots_log2 = 22, .remainder_bits = 9, .seed = 1, .queries = 3000000,
		.probe = 200000, .trials = 4, .universe = 1000000000, .exponent = 1.5,
	};
	const struct bench_option options[] = {
		{ "slots_log2", BENCH_INTEGER, &figure.slots_log2, 10, 30,
		  "slots, as a power of two" },
		{ "remainder_bits", BENCH_INTEGER, &figure.remainder_bits, 3, 31, "of the filter" },
		{ "queries", BENCH_INTEGER, &figure.queries, POINTS, 1e9,
		  "queries that adapt; the paper has 3 million" },
		{ "probe", BENCH_INTEGER, &figure.probe, 1, 1e9,
		  "queries that measure, at each 1%" },
		{ "trials", BENCH_INTEGER, &figure.trials, 1, 10000, "universes to average" },
		{ "universe", BENCH_INTEGER, &figure.universe, 1, 1e14,
		  "missing keys; the paper has a billion" },
		{ "exponent", BENCH_REAL, &figure.exponent, 0.01, 20, "Zipf's" },
		{ "seed", BENCH_INTEGER, &figure.seed, 0, 9e15, "of keys, hashes, queries" },
		{ "csv", BENCH_TEXT, &figure.csv_path, 0, 0, "file for the curve" },
		{ "plot", BENCH_TEXT, &figure.plot_path, 0, 0, "PNG file, drawn by gnuplot" },
		{ .name = NULL },
	};
	struct bench_key *keys;
	char message[200];

	bench_parse(argc, argv, "usage: bench_paper fig7", options);
	if (!zipf_self_check(figure.seed, message, sizeof(message)))
		bench_die("the Zipf sampler is wrong: %s", message);
	figure.num = (size_t)(0.9 * (double)(UINT64_C(1) << figure.slots_log2));
	figure.secret = bench_secret(figure.seed);
	keys = bench_keys(figure.seed, BENCH_STORED, 0, figure.num);
	figure.hashes = bench_hashes(figure.secret, keys, figure.num);
	free(keys);
	qsort(figure.hashes, figure.num, sizeof(*figure.hashes), bench_compare_hashes);
	printf("Figure 7: Zipf %g over %llu missing keys, 2^%llu slots, %zu stored keys (90%%), "
	       "%llu universes\n\n", figure.exponent, (unsigned long long)figure.universe,
	       (unsigned long long)figure.slots_log2, figure.num,
	       (unsigned long long)figure.trials);
	for (uint64_t i = 0; i < figure.trials; i++)
		run_trial(&figure, i);
	average_points(&figure);
	print_points(&figure);
	print_summary(&figure);
	write_csv(&figure);
	write_plot(&figure);
	free(figure.hashes);
	wn_secret_destroy(figure.secret);
	return figure.returned > 0 ? 1 : 0;
}
