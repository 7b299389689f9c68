/* bench_filters.c - winnow's filters beside RocksDB's own and others: time, space, false positives,
 * and what was asked of each. The options, and the report of the living filter; the rest is in
 * bench/filters/. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_filters.h"
#include "filters/busy.h"
#include "filters/duel.h"
#include "rocksdb_filters.h"

#define PARTS "build,lookup,batch,turn,fpr,living,merge,threads"
#define FILTERS "bloom,bloom_equal,ribbon,fuse8,fuse9,slots"
#define PATHS "portable,sse2,avx2"

const char *const report_columns[COLUMN_COUNT] = {
	[COLUMN_FROZEN] = "winnow block",
	[COLUMN_LIVING] = "winnow living",
};

/* ---- results ------------------------------------------------------------ */

/* The row's index; row_count if there is none. */
static size_t find_row(const struct filter_report *report, const char *name)
{
	size_t i = 0;

	while (i < report->row_count && strcmp(report->rows[i].name, name) != 0)
		i++;
	return i;
}

void report_add(struct filter_report *report, const char *name, const char *unit,
		enum column column, double value)
{
	const size_t at = find_row(report, name);
	struct report_cell *cell;

	if (at == report->row_count) {
		if (at == REPORT_MAX_ROWS)
			bench_die("too many rows");
		report->rows[report->row_count++] =
			(struct report_row){ .name = name, .unit = unit };
	}
	cell = &report->rows[at].cells[column];
	if (cell->count < REPORT_MAX_REPEAT)
		cell->values[cell->count++] = value;
}

static double cell_median(const struct report_cell *cell)
{
	struct report_cell copy = *cell;

	return copy.count > 0 ? bench_median(copy.values, copy.count) : NAN;
}

double report_median(const struct filter_report *report, const char *name, enum column column)
{
	const size_t at = find_row(report, name);

	return at < report->row_count ? cell_median(&report->rows[at].cells[column]) : NAN;
}

static void print_cell(const struct report_row *row, enum column column)
{
	const double median = cell_median(&row->cells[column]);

	if (isnan(median))
		printf(" %13s", "-");
	else if (strcmp(row->unit, "ns") == 0)
		printf(" %13.1f", median);
	else if (strcmp(row->unit, "bits") == 0)
		printf(" %13.3f", median);
	else
		printf(" %13.6f", median);
}

void report_print(const struct filter_report *report)
{
	printf("\n%llu keys: ns per key, medians\n%-28s", (unsigned long long)report->num, "");
	for (int column = 0; column < COLUMN_COUNT; column++)
		printf(" %13s", report_columns[column]);
	putchar('\n');
	for (size_t i = 0; i < report->row_count; i++) {
		printf("%-28s", report->rows[i].name);
		for (int column = 0; column < COLUMN_COUNT; column++)
			print_cell(&report->rows[i], (enum column)column);
		putchar('\n');
	}
}

void report_csv(const struct filter_report *report, FILE *csv)
{
	for (size_t i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];

		for (int column = 0; column < COLUMN_COUNT; column++) {
			struct report_cell copy = row->cells[column];
			const struct bench_quartiles quartiles =
				bench_quartiles(copy.values, copy.count);

			if (copy.count > 0)
				fprintf(csv, "%llu,\"%s\",\"%s\",\"\",%s,%.9g,%.9g,%.9g\n",
					(unsigned long long)report->num, row->name,
					report_columns[column], row->unit, quartiles.lower,
					quartiles.median, quartiles.upper);
		}
	}
}

/* ---- asked and measured of the living filter ----------------------------- */

static void print_target(const char *what, double asked, double measured)
{
	if (isnan(measured))
		return;
	if (isnan(asked))
		printf("  %-58s %8s / %8.2f\n", what, "-", measured);
	else
		printf("  %-58s %8.2f / %8.2f  %s\n", what, asked, measured,
		       measured <= asked ? "reached" : "missed");
}

static void print_living(const struct job *job, const struct filter_report *report)
{
	const bool standard = job->remainder_bits == 9 && job->load == 0.95 &&
			      report->num >= 1000000;

	report_print(report);
	printf("\n%llu keys, living: asked (at most) / measured\n",
	       (unsigned long long)report->num);
	print_target("bits per key, living", standard ? 12.9 : NAN,
		     report_median(report, ROW_BITS, COLUMN_LIVING));
	print_target("inserts a second, 2 threads : 1 thread", NAN,
		     report_median(report, ROW_THREAD_1, COLUMN_LIVING) /
			     report_median(report, ROW_THREAD_2, COLUMN_LIVING));
	if (job->csv != NULL)
		report_csv(report, job->csv);
}

/* ---- main --------------------------------------------------------------- */

static void run_num(struct job *job, size_t num)
{
	struct filter_report *report = bench_alloc(1, sizeof(*report));

	*report = (struct filter_report){ .num = num };
	job->num = num;
	job->report = report;
	job->keys = bench_keys(job->seed, BENCH_STORED, 0, num);
	job->missing = bench_keys(job->seed, BENCH_MISSING, 0, job->queries);
	job->present = bench_alloc(job->queries, sizeof(*job->present));
	for (size_t i = 0; i < job->queries; i++)
		job->present[i] = bench_key(job->seed, BENCH_STORED, bench_mix(i) % num);
	run_frozen(job);
	run_living(job);
	if (report->row_count > 0)
		print_living(job, report);
	fflush(stdout);
	free(job->keys);
	free(job->missing);
	free(job->present);
	free(report);
}

static void print_setting(const struct job *job)
{
	printf("winnow: %s%s%s; living: %llu-bit remainders, load %.2f\n",
	       job->filter != NULL ? job->filter : "the default filter",
	       job->path != NULL ? ", path " : "", job->path != NULL ? job->path : "",
	       (unsigned long long)job->remainder_bits, job->load);
	if (job->with_rocksdb)
		printf("RocksDB %s: Bloom of %.2f bits a key, Ribbon equivalent to %.2f Bloom "
		       "bits\n", rf_version(), job->bloom_bits, job->ribbon_bits);
	printf("%d-byte keys, hashing included, one thread%s\n"
	       "Lookups: %llu rounds of %llu in turns, %llu places in memory; builds: %llu\n"
	       "All filters in %s pages; in parentheses: bytes off a cache line\n",
	       BENCH_KEY_SIZE, job->busy ? ", beside processes that spin" : "",
	       (unsigned long long)job->rounds, (unsigned long long)job->slice,
	       (unsigned long long)job->places, (unsigned long long)job->repeat, job->pages);
}

static void check_word(const char *option, const char *word, const char *allowed)
{
	bench_check_words(option, word, allowed);
	if (word != NULL && strchr(word, ',') != NULL)
		bench_die("--%s: one of %s", option, allowed);
}

static void check_options(struct job *job)
{
	char message[200] = "";

	bench_check_words("only", job->only, PARTS);
	bench_check_words("against", job->against, FILTERS);
	check_word("pages", job->pages, "small,huge");
	check_word("path", job->path, PATHS);
	job->slice -= job->slice % SLICE_UNIT;
	if (job->slice > job->queries)
		bench_die("--slice: more than --queries");
	job->with_rocksdb = rf_check(message, sizeof(message));
	if (!job->with_rocksdb)
		printf("Without RocksDB's filters: %s.\n", message);
}

static void run(struct job *job, const struct bench_list *nums, const char *csv_path)
{
	job->csv = bench_open(csv_path);
	if (job->csv != NULL)
		fputs("keys,operation,filter,beside,unit,lower quartile,median,upper quartile\n",
		      job->csv);
	if (job->busy)
		busy_start();
	job->secret = bench_secret(job->seed);
	for (size_t i = 0; i < nums->count; i++)
		run_num(job, (size_t)nums->values[i]);
	wn_secret_destroy(job->secret);
	busy_stop();
	bench_close(job->csv, csv_path);
}

int main(int argc, char **argv)
{
	/* 13.86: RocksDB's Ribbon has then the false-positive rate of winnow's block; compare
	 * the measured rates. */
	struct job job = {
		.repeat = 5, .queries = 2000000, .fpr_queries = 10000000, .adapts = 20000,
		.remainder_bits = 9, .seed = 1, .load = 0.95,
		.bloom_bits = 13.5, .ribbon_bits = 13.86,
		.pages = "small", .slice = 4096, .rounds = 320, .places = 16,
		.offsets = { .values = { 0, 16 }, .count = 2 },
	};
	struct bench_list nums = { .values = { 1000000, 10000000 }, .count = 2 };
	const char *csv_path = NULL;
	const struct bench_option options[] = {
		{ "num", BENCH_LIST, &nums, 1, 4e9, "numbers of keys, comma-separated" },
		{ "only", BENCH_TEXT, &job.only, 0, 0, "parts to run, of " PARTS },
		{ "filter", BENCH_TEXT, &job.filter, 0, 0, "options string of winnow's block" },
		{ "against", BENCH_TEXT, &job.against, 0, 0, "filters beside it, of " FILTERS },
		{ "repeat", BENCH_INTEGER, &job.repeat, 1, REPORT_MAX_REPEAT,
		  "builds of each filter, small ones more often; of the living filter: all" },
		{ "rounds", BENCH_INTEGER, &job.rounds, 1, 1e6,
		  "of lookups in turns, over all places" },
		{ "places", BENCH_INTEGER, &job.places, 1, 1e4,
		  "in memory that filters are copied to, one after the other" },
		{ "slice", BENCH_INTEGER, &job.slice, SLICE_UNIT, 1e6,
		  "lookups until it is the other's turn" },
		{ "queries", BENCH_INTEGER, &job.queries, SLICE_UNIT, 1e9,
		  "different keys to look up; the living filter: lookups a repetition" },
		{ "turn_keys", BENCH_INTEGER, &job.turn_keys, 0, 4e9,
		  "keys of each of the 8 filters asked in turn; 0: an eighth of all" },
		{ "fpr_queries", BENCH_INTEGER, &job.fpr_queries, 1, 1e11,
		  "lookups that measure the false-positive rate" },
		{ "offsets", BENCH_LIST, &job.offsets, 0, 63,
		  "of winnow's block from a cache line, in bytes" },
		{ "pages", BENCH_TEXT, &job.pages, 0, 0, "small or huge, of all filters" },
		{ "path", BENCH_TEXT, &job.path, 0, 0,
		  "the processor's, of blocks in lines: one of " PATHS },
		{ "busy", BENCH_FLAG, &job.busy, 0, 0, "beside a process that spins, a processor" },
		{ "bloom_bits", BENCH_REAL, &job.bloom_bits, 1, 100, "bits a key" },
		{ "ribbon_bits", BENCH_REAL, &job.ribbon_bits, 1, 100,
		  "bits a Bloom filter of the same false-positive rate would need" },
		{ "remainder_bits", BENCH_INTEGER, &job.remainder_bits, 3, 31,
		  "of the living filter, and of slots" },
		{ "load", BENCH_REAL, &job.load, 0.1, 0.95, "share of their slots in use" },
		{ "adapts", BENCH_INTEGER, &job.adapts, 1, 1e9, "false positives to fix" },
		{ "seed", BENCH_INTEGER, &job.seed, 0, 9e15, "of keys and hashes" },
		{ "csv", BENCH_TEXT, &csv_path, 0, 0, "file for the results" },
		{ .name = NULL },
	};

	bench_parse(argc, argv,
		    "usage: bench_filters [--option=value...]\n"
		    "Time and space of winnow's filters beside RocksDB's and others.", options);
	check_options(&job);
	print_setting(&job);
	run(&job, &nums, csv_path);
	return 0;
}
