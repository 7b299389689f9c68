/* bench_sscf.c - figures of "Seesaw Counting Filter" (Li and others, 2023), measured with
 * winnow: accuracy by cost-weighted false-positive rate, parameters, latency, and the
 * adaptive filter over rounds of churn. One command a figure.
 *
 * Negative i, counted from 1, costs i^-skew. A list that is read from a file is taken to
 * have its costliest negatives first. */
#include <stdio.h>
#include <string.h>

#include "bench_sscf.h"

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

struct row measure_row(double bits, double skew, double share)
{
	struct row row = {0};

	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct trial trial = make_trial(seed, skew, share);
		struct wn_sscf_options given = sscf_options(&trial, bits);

		add_result(&row.live, try_sscf(&trial, &given));
		given.cell_bits = 3;
		add_result(&row.narrow, try_sscf(&trial, &given));
		add_result(&row.frozen, try_frozen(&trial, bits, true));
		add_result(&row.plain, try_frozen(&trial, bits, false));
		add_result(&row.cbf, try_cbf(&trial, bits));
		add_result(&row.stacked, try_stacked(&trial, bits));
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
			    bench_sscf_options);
		make_lists(commands[i].generated);
		commands[i].run();
		return 0;
	}
	print_usage(stderr);
	return 2;
}
