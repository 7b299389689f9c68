/* bench_paper_fig9.c - Figure 9: the space of YES/NO lists of a million items
 * together, by the ratio of the two, against Theorem 7:
 *
 *   n log(max(1/e, m/n)) + log(e) min(e m, n)
 *
 * bits at least, for n YES and m NO items and false-positive rate e. The text of
 * the paper gives the curve, no numbers. Measured here: the static list (a builder
 * with the NO items as negatives) as a block, all of its bytes counted; and the
 * list that can change (yesno.h), which stores both kinds of items. */
#include "bench_paper.h"

#include <math.h>
#include <stdlib.h>

#include <winnow/filter.h>
#include <winnow/yesno.h>

#include "bench_util.h"

struct fig9 {
	uint64_t items, remainder_bits, seed, min_log2, max_log2, dynamic;
	const char *csv_path, *plot_path;
	double load;
	struct wn_secret *secret;
	uint64_t wrong;
};

struct ratio {
	int log2_ratio; /* NO : YES */
	size_t yes, no;
	double bound, fixed, dynamic; /* bits per YES item */
	double load, fpr;
};

/* Bits per YES item. */
static double theorem7(double yes, double no, double rate)
{
	return log2(fmax(1.0 / rate, no / yes)) + M_LOG2E * fmin(rate * no / yes, 1.0);
}

static struct wn_builder *create_builder(const struct fig9 *figure)
{
	struct wn_config *config;
	struct wn_builder *builder;
	char text[80], message[200] = "";

	snprintf(text, sizeof(text), "aqf:remainder_bits=%llu;load=%.4f",
		 (unsigned long long)figure->remainder_bits, figure->load);
	if (wn_config_parse(text, message, sizeof(message), &config) != 0)
		bench_die("'%s': %s", text, message);
	bench_ok(wn_builder_create(config, figure->secret, &builder), "making a builder");
	wn_config_destroy(config);
	return builder;
}

static void check_block(struct fig9 *figure, struct ratio *ratio, const struct wn_filter *filter)
{
	const size_t queries = 1000000;
	struct wn_filter_info info;
	struct bench_key key;
	uint64_t positives = 0;

	for (size_t i = 0; i < ratio->yes; i++) {
		key = bench_key(figure->seed, BENCH_STORED, i);
		figure->wrong += !wn_filter_query(filter, &key, BENCH_KEY_SIZE, NULL);
	}
	for (size_t i = 0; i < ratio->no; i++) {
		key = bench_key(figure->seed, BENCH_MISSING, i);
		figure->wrong += wn_filter_query(filter, &key, BENCH_KEY_SIZE, NULL);
	}
	for (size_t i = 0; i < queries; i++) {
		key = bench_key(figure->seed, BENCH_OTHER, i);
		positives += wn_filter_query(filter, &key, BENCH_KEY_SIZE, NULL);
	}
	ratio->fpr = (double)positives / (double)queries;
	wn_filter_describe(filter, &info);
	ratio->load = wn_filter_fact_of(&info, "load");
}

static void measure_static(struct fig9 *figure, struct ratio *ratio)
{
	struct wn_builder *builder = create_builder(figure);
	struct wn_filter *filter;
	struct bench_key key;
	void *block;
	size_t size;

	for (size_t i = 0; i < ratio->yes; i++) {
		key = bench_key(figure->seed, BENCH_STORED, i);
		bench_ok(wn_builder_add(builder, &key, BENCH_KEY_SIZE), "adding a YES item");
	}
	for (size_t i = 0; i < ratio->no; i++) {
		key = bench_key(figure->seed, BENCH_MISSING, i);
		bench_ok(wn_builder_add_negative(builder, wn_hash_key(figure->secret, &key,
								  BENCH_KEY_SIZE)),
			 "adding a NO item");
	}
	bench_ok(wn_builder_finish(builder, &block, &size), "finishing the block");
	wn_builder_destroy(builder);
	bench_ok(wn_filter_open(block, size, WN_CHECK_ALL, figure->secret, &filter, NULL),
		 "opening the block");
	check_block(figure, ratio, filter);
	wn_filter_close(filter);
	free(block);
	ratio->fixed = 8.0 * (double)size / (double)ratio->yes;
}

static void measure_dynamic(struct fig9 *figure, struct ratio *ratio)
{
	const struct wn_yesno_options options = {
		.yes_capacity = ratio->yes,
		.no_capacity = ratio->no,
		.remainder_bits = (unsigned)figure->remainder_bits,
	};
	struct wn_revmap *map;
	struct wn_yesno *lists;
	struct wn_aqf_info info;

	bench_ok(wn_revmap_memory_create(false, &map), "making a reverse map");
	bench_ok(wn_yesno_create(&options, figure->secret, map, &lists), "making the lists");
	for (int list = WN_LIST_YES; list <= WN_LIST_NO; list++) {
		const size_t count = list == WN_LIST_YES ? ratio->yes : ratio->no;

		for (size_t i = 0; i < count; i++) {
			const struct bench_key key =
				bench_key(figure->seed,
					  list == WN_LIST_YES ? BENCH_STORED : BENCH_MISSING, i);

			bench_ok(wn_yesno_add(lists, (enum wn_list)list, &key, BENCH_KEY_SIZE),
				 "adding to a list");
		}
	}
	for (size_t i = 0; i < ratio->yes + ratio->no; i++) {
		const bool yes = i < ratio->yes;
		const struct bench_key key = yes ?
			bench_key(figure->seed, BENCH_STORED, i) :
			bench_key(figure->seed, BENCH_MISSING, i - ratio->yes);

		figure->wrong += wn_yesno_query(lists, &key, BENCH_KEY_SIZE) != yes;
	}
	wn_aqf_describe(wn_yesno_filter(lists), &info);
	ratio->dynamic = 8.0 * (double)info.bytes / (double)ratio->yes;
	wn_yesno_destroy(lists);
}

static void measure_ratio(struct fig9 *figure, int log2_ratio, struct ratio *ratio)
{
	const double share = 1.0 / (1.0 + exp2(log2_ratio));

	*ratio = (struct ratio){ .log2_ratio = log2_ratio, .dynamic = NAN };
	ratio->yes = (size_t)llround(share * (double)figure->items);
	if (ratio->yes == 0)
		ratio->yes = 1;
	ratio->no = (size_t)figure->items - ratio->yes;
	ratio->bound = theorem7((double)ratio->yes, (double)ratio->no,
				exp2(-(double)figure->remainder_bits));
	measure_static(figure, ratio);
	if (figure->dynamic != 0)
		measure_dynamic(figure, ratio);
}

static void print_ratio(const struct ratio *ratio, FILE *csv)
{
	printf("%8d %9zu %9zu %9.3f %9.3f %8.3f %10.3f %8.4f %10.6f\n", ratio->log2_ratio,
	       ratio->yes, ratio->no, ratio->bound, ratio->fixed, ratio->fixed / ratio->bound,
	       ratio->dynamic, ratio->load, ratio->fpr);
	fflush(stdout);
	if (csv != NULL)
		fprintf(csv, "%d,%zu,%zu,%.4f,%.4f,%.4f,%.6f\n", ratio->log2_ratio, ratio->yes,
			ratio->no, ratio->bound, ratio->fixed, ratio->dynamic, ratio->fpr);
}

static void write_plot(const struct fig9 *figure, const struct ratio *ratios, size_t count)
{
	FILE *gnuplot;

	if (figure->plot_path == NULL)
		return;
	gnuplot = popen("gnuplot", "w");
	if (gnuplot == NULL)
		bench_die("cannot start gnuplot");
	fputs("set datafile missing 'nan'\n$points << END\n", gnuplot);
	for (size_t i = 0; i < count; i++)
		fprintf(gnuplot, "%d %g %g %g\n", ratios[i].log2_ratio, ratios[i].bound,
			ratios[i].fixed, ratios[i].dynamic);
	fprintf(gnuplot,
		"END\n"
		"set terminal pngcairo size 900,520\n"
		"set output '%s'\n"
		"set title 'Space of YES/NO lists'\n"
		"set xlabel 'log2 of NO items : YES items'\n"
		"set ylabel 'bits per YES item'\n"
		"set logscale y 2\nset grid\nset key left\n"
		"plot $points using 1:3 with linespoints title 'static list, block', "
		"'' using 1:4 with linespoints title 'changing lists', "
		"'' using 1:2 with lines dt 2 title 'lower bound (Theorem 7)'\n",
		figure->plot_path);
	if (pclose(gnuplot) != 0)
		bench_die("gnuplot failed; is it installed?");
	printf("plot: %s\n", figure->plot_path);
}

int run_fig9(int argc, char **argv)
{
	struct fig9 figure = {
		.items = 1000000, .remainder_bits = 9, .seed = 1, .min_log2 = 10, .max_log2 = 10,
		.dynamic = 1, .load = 0.95,
	};
	const struct bench_option options[] = {
		{ "items", BENCH_INTEGER, &figure.items, 2, 1e9, "YES and NO items together" },
		{ "remainder_bits", BENCH_INTEGER, &figure.remainder_bits, 2, 31,
		  "the false-positive rate is 2 to the minus this" },
		{ "min_log2", BENCH_INTEGER, &figure.min_log2, 0, 30,
		  "NO : YES from 2 to the minus this" },
		{ "max_log2", BENCH_INTEGER, &figure.max_log2, 0, 30, "NO : YES up to 2 to this" },
		{ "load", BENCH_REAL, &figure.load, 0.1, 0.95, "of the static list" },
		{ "dynamic", BENCH_INTEGER, &figure.dynamic, 0, 1, "1: changing lists as well" },
		{ "seed", BENCH_INTEGER, &figure.seed, 0, 9e15, "of items and hashes" },
		{ "csv", BENCH_TEXT, &figure.csv_path, 0, 0, "file for the results" },
		{ "plot", BENCH_TEXT, &figure.plot_path, 0, 0, "PNG file, drawn by gnuplot" },
		{ .name = NULL },
	};
	struct ratio ratios[61];
	size_t count = 0;
	FILE *csv;

	bench_parse(argc, argv, "usage: bench_paper fig9", options);
	figure.secret = bench_secret(figure.seed);
	csv = bench_open(figure.csv_path);
	if (csv != NULL)
		fputs("log2_ratio,yes,no,bound,static,dynamic,fpr\n", csv);
	printf("Figure 9: %llu items, false-positive rate 2^-%llu; bits per YES item\n\n",
	       (unsigned long long)figure.items, (unsigned long long)figure.remainder_bits);
	printf("%8s %9s %9s %9s %9s %8s %10s %8s %10s\n", "NO:YES", "YES", "NO", "bound",
	       "static", ": bound", "dynamic", "load", "FPR");
	for (int i = -(int)figure.min_log2; i <= (int)figure.max_log2; i++) {
		measure_ratio(&figure, i, &ratios[count]);
		print_ratio(&ratios[count++], csv);
	}
	printf("\nbound: Theorem 7, without its O(1). NO:YES is a power of two. Wrong answers for "
	       "listed items: %llu\n", (unsigned long long)figure.wrong);
	bench_close(csv, figure.csv_path);
	write_plot(&figure, ratios, count);
	wn_secret_destroy(figure.secret);
	return figure.wrong > 0 ? 1 : 0;
}
