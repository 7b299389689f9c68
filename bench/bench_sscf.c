/* bench_sscf.c - figures of "Seesaw Counting Filter" (Li and others, 2023), measured with
 * winnow: accuracy by cost-weighted false-positive rate, parameters, latency, and the
 * adaptive filter over rounds of churn. One command a figure.
 *
 * Negative i, counted from 1, costs i^-skew. A list that is read from a file is taken to
 * have its costliest negatives first. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/filter.h>
#include <winnow/sscf.h>

#include "bench_util.h"
#include "sscf_baselines.h"

/* ---- data --------------------------------------------------------------- */

static uint64_t key_count = 106087, negative_count = 98989, seeds = 5;
static double vulnerable_share = 0.06;
static const char *key_file, *negative_file;

static const struct bench_option options[] = {
	{"num", BENCH_INTEGER, &key_count, 100, 1e9, "keys, if they are generated"},
	{"num_negatives", BENCH_INTEGER, &negative_count, 100, 1e9, "likewise"},
	{"keys", BENCH_TEXT, &key_file, 0, 0, "a file with a key a line"},
	{"negatives", BENCH_TEXT, &negative_file, 0, 0, "likewise, the costliest first"},
	{"vulnerable", BENCH_REAL, &vulnerable_share, 0, 10, "vulnerable keys, by number of keys"},
	{"seeds", BENCH_INTEGER, &seeds, 1, 1000, "hash functions to take the mean over"},
	{NULL, BENCH_INTEGER, NULL, 0, 0, NULL},
};

struct list {
	char **lines;
	size_t count;
};

static struct list key_list, negative_list;

static struct list read_list(const char *path)
{
	struct list list = {NULL, 0};
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, capacity = 0;
	ssize_t length;

	if (!file)
		bench_die("cannot read %s", path);
	while ((length = getline(&line, &room, file)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		if (list.count == capacity) {
			capacity = capacity ? capacity * 2 : 1024;
			list.lines = realloc(list.lines, capacity * sizeof(*list.lines));
		}
		if (!list.lines || !(list.lines[list.count++] = strdup(line)))
			bench_die("no memory");
	}
	free(line);
	fclose(file);
	return list;
}

static struct list generate_list(const char *prefix, size_t count)
{
	struct list list = {bench_alloc(count, sizeof(*list.lines)), count};

	for (size_t i = 0; i < count; i++)
		if (asprintf(&list.lines[i], "%s%016llx", prefix,
			     (unsigned long long)bench_mix(i + 1)) < 0)
			bench_die("no memory");
	return list;
}

static void make_lists(bool generated)
{
	key_list = key_file && !generated ? read_list(key_file) : generate_list("user", key_count);
	negative_list = negative_file && !generated ? read_list(negative_file) :
						      generate_list("guest", negative_count);
	printf("%zu keys%s%s, %zu negatives%s%s, vulnerable %.0f%% of the keys, mean of %llu "
	       "seeds\n", key_list.count, key_file && !generated ? " of " : " (generated)",
	       key_file && !generated ? key_file : "", negative_list.count,
	       negative_file && !generated ? " of " : " (generated)",
	       negative_file && !generated ? negative_file : "", vulnerable_share * 100,
	       (unsigned long long)seeds);
}

/* One draw of the hash functions. */
struct trial {
	struct wn_secret *secret;
	struct wn_hash *keys, *negatives;
	size_t key_count, negative_count;
	size_t vulnerable; /* so many of the negatives */
	double *costs, total, vulnerable_cost;
};

static struct wn_hash *hash_list(const struct wn_secret *secret, const struct list *list)
{
	struct wn_hash *hashes = bench_alloc(list->count, sizeof(*hashes));

	for (size_t i = 0; i < list->count; i++)
		hashes[i] = wn_hash(secret, list->lines[i], strlen(list->lines[i]));
	return hashes;
}

static struct trial make_trial(uint64_t seed, double skew, double share)
{
	struct trial trial = {.secret = bench_secret(seed + 1),
			      .key_count = key_list.count, .negative_count = negative_list.count};

	trial.keys = hash_list(trial.secret, &key_list);
	trial.negatives = hash_list(trial.secret, &negative_list);
	trial.costs = bench_alloc(trial.negative_count, sizeof(*trial.costs));
	trial.vulnerable = (size_t)(share * (double)trial.key_count);
	if (trial.vulnerable > trial.negative_count)
		trial.vulnerable = trial.negative_count;
	for (size_t i = 0; i < trial.negative_count; i++) {
		trial.costs[i] = pow((double)(i + 1), -skew);
		trial.total += trial.costs[i];
		if (i < trial.vulnerable)
			trial.vulnerable_cost += trial.costs[i];
	}
	return trial;
}

static void end_trial(struct trial *trial)
{
	free(trial->keys);
	free(trial->negatives);
	free(trial->costs);
	wn_secret_destroy(trial->secret);
}

/* ---- filters ------------------------------------------------------------ */

typedef bool query_fn(const void *filter, struct wn_hash hash);

struct result {
	double cost_rate; /* weighted */
	double listed;    /* rate of vulnerable keys */
	double unlisted;  /* rate of all others */
};

static bool query_sscf(const void *filter, struct wn_hash hash)
{
	return wn_sscf_query(filter, hash);
}

static bool query_cbf(const void *filter, struct wn_hash hash)
{
	return cbf_query(filter, hash);
}

static bool query_stacked(const void *filter, struct wn_hash hash)
{
	return stacked_query(filter, hash);
}

static bool query_frozen(const void *filter, struct wn_hash hash)
{
	return wn_filter_query_hash(filter, hash, NULL);
}

static struct result measure(const struct trial *trial, query_fn *query, const void *filter)
{
	struct result result = {0};
	double cost = 0;

	for (size_t i = 0; i < trial->key_count; i++)
		if (!query(filter, trial->keys[i]))
			bench_die("a key is missing");
	for (size_t i = 0; i < trial->negative_count; i++) {
		if (!query(filter, trial->negatives[i]))
			continue;
		cost += trial->costs[i];
		*(i < trial->vulnerable ? &result.listed : &result.unlisted) += 1;
	}
	result.cost_rate = cost / trial->total;
	if (trial->vulnerable)
		result.listed /= (double)trial->vulnerable;
	if (trial->negative_count > trial->vulnerable)
		result.unlisted /= (double)(trial->negative_count - trial->vulnerable);
	return result;
}

static struct wn_sscf_options sscf_options(const struct trial *trial, double bits)
{
	return (struct wn_sscf_options){
		.capacity = trial->key_count,
		.bits_per_key = bits,
		.vulnerable = trial->vulnerable ? trial->vulnerable : 1,
		.vulnerable_cost = trial->vulnerable ? trial->vulnerable_cost / trial->total : 0.01,
	};
}

static struct wn_sscf *make_sscf(const struct trial *trial, const struct wn_sscf_options *given)
{
	struct wn_sscf *sscf;

	bench_ok(wn_sscf_create(given, &sscf), "wn_sscf_create");
	for (size_t i = 0; i < trial->vulnerable; i++)
		bench_ok(wn_sscf_add_vulnerable(sscf, trial->negatives[i]), "a vulnerable key");
	return sscf;
}

static struct result try_sscf(const struct trial *trial, const struct wn_sscf_options *given)
{
	struct wn_sscf *sscf = make_sscf(trial, given);
	struct result result;

	for (size_t i = 0; i < trial->key_count; i++)
		wn_sscf_insert(sscf, trial->keys[i]);
	result = measure(trial, query_sscf, sscf);
	wn_sscf_destroy(sscf);
	return result;
}

/* A block, header and all, of at most `bits` bits a key. */
static struct wn_filter *make_frozen(const struct trial *trial, double bits, bool listed,
				     void **blockp)
{
	double header = 141.0 * 8 / (double)trial->key_count;
	struct wn_builder *builder;
	struct wn_config *config;
	struct wn_filter *filter;
	char text[100];
	size_t size;

	snprintf(text, sizeof(text), "sscf:bits_per_key=%g;listed_share=%.6f", bits - header,
		 fmax(trial->vulnerable_cost / trial->total, 0.01));
	bench_ok(wn_config_parse(text, NULL, 0, &config), text);
	bench_ok(wn_builder_create(config, trial->secret, &builder), "wn_builder_create");
	wn_config_destroy(config);
	for (size_t i = 0; i < trial->key_count; i++)
		bench_ok(wn_builder_add_hash(builder, trial->keys[i]), "a key");
	for (size_t i = 0; i < trial->vulnerable && listed; i++)
		bench_ok(wn_builder_add_costly(builder, trial->negatives[i], trial->costs[i]),
			 "a negative");
	bench_ok(wn_builder_finish(builder, blockp, &size), "wn_builder_finish");
	wn_builder_destroy(builder);
	bench_ok(wn_filter_open(*blockp, size, WN_CHECK_HEADER, trial->secret, &filter, NULL),
		 "wn_filter_open");
	return filter;
}

static struct result try_frozen(const struct trial *trial, double bits, bool listed)
{
	void *block;
	struct wn_filter *filter = make_frozen(trial, bits, listed, &block);
	struct result result = measure(trial, query_frozen, filter);

	wn_filter_close(filter);
	free(block);
	return result;
}

static struct result try_cbf(const struct trial *trial, double bits)
{
	struct cbf *cbf = cbf_create(bits * (double)trial->key_count, (double)trial->key_count);
	struct result result;

	for (size_t i = 0; i < trial->key_count; i++)
		cbf_insert(cbf, trial->keys[i]);
	result = measure(trial, query_cbf, cbf);
	cbf_destroy(cbf);
	return result;
}

static struct stacked *make_stacked(const struct trial *trial, double bits)
{
	struct stacked *stacked = stacked_create(bits * (double)trial->key_count,
						 (double)trial->key_count,
						 (double)(trial->vulnerable + 1));

	for (size_t i = 0; i < trial->vulnerable; i++)
		stacked_add_negative(stacked, trial->negatives[i]);
	return stacked;
}

static struct result try_stacked(const struct trial *trial, double bits)
{
	struct stacked *stacked = make_stacked(trial, bits);
	struct result result;

	for (size_t i = 0; i < trial->key_count; i++)
		stacked_insert(stacked, trial->keys[i]);
	result = measure(trial, query_stacked, stacked);
	stacked_destroy(stacked);
	return result;
}

static void add(struct result *sum, struct result result)
{
	sum->cost_rate += result.cost_rate / (double)seeds;
	sum->listed += result.listed / (double)seeds;
	sum->unlisted += result.unlisted / (double)seeds;
}

/* ---- figure 10: parameters ---------------------------------------------- */

/* The mean cost-weighted rate with one of the parameters changed. */
static double parameter_rate(double bits, unsigned hashes, unsigned counter_bits,
			     unsigned index_bits, double share)
{
	double sum = 0;

	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct trial trial = make_trial(seed, 1.5, vulnerable_share);
		struct wn_sscf_options given = sscf_options(&trial, bits);

		given.hashes = hashes;
		given.counter_bits = counter_bits;
		given.index_bits = index_bits;
		given.modulator_share = share;
		sum += try_sscf(&trial, &given).cost_rate;
		end_trial(&trial);
	}
	return sum / (double)seeds;
}

static void run_fig10(void)
{
	static const double sizes[] = {20, 28, 36};

	puts("cost-weighted rate, skew 1.5; (a) by hash functions k, modulator 10% of the space");
	for (size_t i = 0; i < 3; i++) {
		printf("  %2.0f bits:", sizes[i]);
		for (unsigned k = 1; k <= 8; k++)
			printf(" k=%u %.2e", k, parameter_rate(sizes[i], k, 0, 0, 0.1));
		puts("");
	}
	printf("(b) by bits of the modulator's counter, 20 bits:");
	for (unsigned bits = 1; bits <= 12; bits += bits < 4 ? 1 : 4)
		printf(" %u: %.2e", bits, parameter_rate(20, 0, bits, 0, 0.1));
	printf("\n(c) by backup functions, 20 bits:");
	for (unsigned bits = 1; bits <= 3; bits++)
		printf(" %u: %.2e", 1u << bits, parameter_rate(20, 0, 0, bits, 0.1));
	printf("\n(d) by the modulator's share of the space, 20 bits:");
	for (unsigned share = 2; share <= 20; share += 3)
		printf(" %u%%: %.2e", share, parameter_rate(20, 0, 0, 0, share / 100.0));
	printf(" chosen: %.2e\n", parameter_rate(20, 0, 0, 0, 0));
}

/* ---- figures 11 to 14: accuracy ----------------------------------------- */

struct row {
	struct result live, narrow, frozen, plain, cbf, stacked;
};

static struct row measure_row(double bits, double skew, double share)
{
	struct row row = {0};

	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct trial trial = make_trial(seed, skew, share);
		struct wn_sscf_options given = sscf_options(&trial, bits);

		add(&row.live, try_sscf(&trial, &given));
		given.cell_bits = 3;
		add(&row.narrow, try_sscf(&trial, &given));
		add(&row.frozen, try_frozen(&trial, bits, true));
		add(&row.plain, try_frozen(&trial, bits, false));
		add(&row.cbf, try_cbf(&trial, bits));
		add(&row.stacked, try_stacked(&trial, bits));
		end_trial(&trial);
	}
	return row;
}

static void print_heading(const char *first)
{
	printf("%-12s %10s %10s %10s %10s %10s %10s\n", first, "SSCF", "3-bit cell", "CBF",
	       "stacked", "block", "no list");
}

static void print_row(const char *first, const struct row *row)
{
	printf("%-12s %10.2e %10.2e %10.2e %10.2e %10.2e %10.2e\n", first, row->live.cost_rate,
	       row->narrow.cost_rate, row->cbf.cost_rate, row->stacked.cost_rate,
	       row->frozen.cost_rate, row->plain.cost_rate);
	fflush(stdout);
}

static void run_fig11(void)
{
	puts("cost-weighted rate by skew, 20 bits a key");
	print_heading("skew");
	for (double skew = 0.2; skew < 2.7; skew += 0.4) {
		struct row row = measure_row(20, skew, vulnerable_share);
		char name[20];

		snprintf(name, sizeof(name), "%.1f", skew);
		print_row(name, &row);
	}
}

static void run_fig12(void)
{
	puts("cost-weighted rate by vulnerable keys a key, 20 bits, skew 1.0");
	print_heading("vulnerable");
	for (double share = 0.02; share < 0.31; share += 0.04) {
		struct row row = measure_row(20, 1.0, share);
		char name[20];

		snprintf(name, sizeof(name), "%.0f%%", share * 100);
		print_row(name, &row);
	}
}

static void run_fig13(void)
{
	puts("cost-weighted rate by bits a key");
	for (double skew = 1.0; skew < 2.6; skew += 0.5) {
		char name[20];

		snprintf(name, sizeof(name), "skew %.1f", skew);
		print_heading(name);
		for (double bits = 20; bits <= 36; bits += 4) {
			struct row row = measure_row(bits, skew, vulnerable_share);

			snprintf(name, sizeof(name), "  %.0f bits", bits);
			print_row(name, &row);
		}
	}
}

/* What it costs those whom nobody listed. */
static void run_unlisted(void)
{
	static const double sizes[] = {12, 20, 28};

	puts("rate of negatives that are not listed; of the block, that of the listed ones, too");
	printf("%-20s %9s %9s %9s %9s %9s %9s\n", "", "SSCF", "CBF", "SSCF/CBF", "block", "no list",
	       "listed");
	for (size_t i = 0; i < 3; i++) {
		for (double share = 0.01; share < 0.5; share *= 3) {
			struct row row = measure_row(sizes[i], 1.0, share);

			printf("%2.0f bits, listed %3.0f%% %9.2e %9.2e %9.2f %9.2e %9.2e %9.2e\n",
			       sizes[i], share * 100, row.live.unlisted, row.cbf.unlisted,
			       row.live.unlisted / row.cbf.unlisted, row.frozen.unlisted,
			       row.plain.unlisted, row.frozen.listed);
			fflush(stdout);
		}
	}
}

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
static void run_fig16(void)
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

static void run_fig17(void)
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

/* ---- which -------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
	const char *help;
	bool generated;
} commands[] = {
	{"fig10", run_fig10, "parameters", false},
	{"fig11", run_fig11, "accuracy by skew", false},
	{"fig12", run_fig12, "accuracy by number of vulnerable keys", false},
	{"fig13", run_fig13, "accuracy by size, on the lists given", false},
	{"fig14", run_fig13, "the same on generated keys", true},
	{"fig16", run_fig16, "latency", false},
	{"fig17", run_fig17, "the adaptive filter over rounds of churn", false},
	{"unlisted", run_unlisted, "what it costs the negatives that are not listed", false},
};

static void print_usage(FILE *file)
{
	fputs("usage: bench_sscf COMMAND [--option=value...]\n"
	      "Figures of the seesaw counting filter's paper, measured with winnow.\n", file);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(file, "  %-9s %s\n", commands[i].name, commands[i].help);
	fputs("COMMAND --help lists the options.\n", file);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
		print_usage(stdout);
		return 0;
	}
	for (size_t i = 0; argc >= 2 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		bench_parse(argc - 1, argv + 1, "usage: bench_sscf COMMAND [--option=value...]",
			    options);
		make_lists(commands[i].generated);
		commands[i].run();
		return 0;
	}
	print_usage(stderr);
	return 2;
}
