/* bench_filters.c - winnow's AdaptiveQF beside RocksDB's own Bloom and Ribbon
 * filters: time, space, false positives, and what was asked of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_filters.h"
#include "rocksdb_filters.h"

#define PARTS "build,lookup,batch,fpr,living,merge,threads"

const char *const report_columns[COLUMN_COUNT] = {
	[COLUMN_FROZEN] = "winnow block",
	[COLUMN_LIVING] = "winnow living",
	[COLUMN_BLOOM] = "Bloom",
	[COLUMN_RIBBON] = "Ribbon",
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

static const char *skip_spaces(const char *text)
{
	return text + strspn(text, " ");
}

void report_csv(const struct filter_report *report, FILE *csv)
{
	for (size_t i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];

		for (int column = 0; column < COLUMN_COUNT; column++) {
			const struct report_cell *cell = &row->cells[column];

			if (cell->count == 0)
				continue;
			fprintf(csv, "%llu,\"%s\",%s,%s,%.9g", (unsigned long long)report->num,
				skip_spaces(row->name), report_columns[column], row->unit,
				cell_median(cell));
			for (size_t j = 0; j < cell->count; j++)
				fprintf(csv, "%s%.9g", j == 0 ? ",\"" : " ", cell->values[j]);
			fputs("\"\n", csv);
		}
	}
}

/* ---- asked and measured ------------------------------------------------- */

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

static double ratio(const struct filter_report *report, const char *row, enum column column,
		    const char *other_row, enum column other_column)
{
	return report_median(report, row, column) /
	       report_median(report, other_row, other_column);
}

static void print_lookup_targets(const struct filter_report *report)
{
	/* Asked at 1 M and 10 M keys; beyond, the ratio is for information. */
	const double asked = report->num >= 1000000 && report->num <= 10000000 ? 1.0 : NAN;
	static const char *const rows[] = { ROW_CHAINED, ROW_FENCED, ROW_POSITIVE,
					    ROW_BATCH_NEGATIVE, ROW_BATCH_POSITIVE };

	print_target("negative lookup, block : Bloom", asked,
		     ratio(report, ROW_NEGATIVE, COLUMN_FROZEN, ROW_NEGATIVE, COLUMN_BLOOM));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char what[80];

		snprintf(what, sizeof(what), "%s, block : Bloom", rows[i]);
		print_target(what, NAN,
			     ratio(report, rows[i], COLUMN_FROZEN, rows[i], COLUMN_BLOOM));
	}
	print_target("negative lookup, living : Bloom", NAN,
		     ratio(report, ROW_NEGATIVE, COLUMN_LIVING, ROW_NEGATIVE, COLUMN_BLOOM));
	print_target("negative lookup, block : Ribbon", NAN,
		     ratio(report, ROW_NEGATIVE, COLUMN_FROZEN, ROW_NEGATIVE, COLUMN_RIBBON));
}

static void print_build_targets(const struct filter_report *report)
{
	print_target("build from unsorted hashes : Bloom's build from keys", 1.5,
		     ratio(report, ROW_BUILD_HASHES, COLUMN_FROZEN, ROW_BUILD, COLUMN_BLOOM));
	print_target("build from unsorted hashes : Ribbon's build from keys", 1.0 / 3.0,
		     ratio(report, ROW_BUILD_HASHES, COLUMN_FROZEN, ROW_BUILD, COLUMN_RIBBON));
	print_target("build from keys : Bloom's", NAN,
		     ratio(report, ROW_BUILD, COLUMN_FROZEN, ROW_BUILD, COLUMN_BLOOM));
	print_target("build from keys : Ribbon's", NAN,
		     ratio(report, ROW_BUILD, COLUMN_FROZEN, ROW_BUILD, COLUMN_RIBBON));
	print_target("build from hashes : Bloom's, its hashing left out too", NAN,
		     ratio(report, ROW_BUILD_HASHES, COLUMN_FROZEN, ROW_BUILD_FINISH,
			   COLUMN_BLOOM));
}

static void print_targets(const struct job *job, const struct filter_report *report)
{
	const bool standard = job->remainder_bits == 9 && job->load == 0.95 &&
			      report->num >= 1000000;

	printf("\n%llu keys: asked (at most) / measured\n", (unsigned long long)report->num);
	print_lookup_targets(report);
	print_build_targets(report);
	print_target("bits per key, living", standard ? 12.9 : NAN,
		     report_median(report, ROW_BITS, COLUMN_LIVING));
	print_target("bits per key, block without extensions", standard ? 11.9 : NAN,
		     report_median(report, ROW_BITS, COLUMN_FROZEN));
	print_target("inserts a second, 2 threads : 1 thread", NAN,
		     ratio(report, ROW_THREAD_1, COLUMN_LIVING, ROW_THREAD_2, COLUMN_LIVING));
}

/* ---- main --------------------------------------------------------------- */

static void run_num(struct job *job, size_t num, FILE *csv)
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
	report_print(report);
	print_targets(job, report);
	fflush(stdout);
	if (csv != NULL)
		report_csv(report, csv);
	free(job->keys);
	free(job->missing);
	free(job->present);
	free(report);
}

static void print_setting(const struct job *job)
{
	printf("winnow: AdaptiveQF, %llu-bit remainders, load %.2f; %d-byte keys, one thread, "
	       "%llu repetitions, %llu lookups each\n",
	       (unsigned long long)job->remainder_bits, job->load, BENCH_KEY_SIZE,
	       (unsigned long long)job->repeat, (unsigned long long)job->queries);
	if (job->with_rocksdb)
		printf("RocksDB %s: Bloom of %.2f bits a key, Ribbon equivalent to %.2f Bloom "
		       "bits\n", rf_version(), job->bloom_bits, job->ribbon_bits);
}

int main(int argc, char **argv)
{
	/* 13.86: RocksDB's Ribbon has then the false-positive rate of the AdaptiveQF
	 * with 9-bit remainders at 95% load; compare the measured rates. */
	struct job job = {
		.repeat = 3, .queries = 2000000, .fpr_queries = 10000000, .adapts = 20000,
		.remainder_bits = 9, .seed = 1, .load = 0.95,
		.bloom_bits = 13.5, .ribbon_bits = 13.86,
	};
	struct bench_list nums = { .values = { 1000000, 10000000 }, .count = 2 };
	const char *csv_path = NULL;
	const struct bench_option options[] = {
		{ "num", BENCH_LIST, &nums, 1, 4e9, "numbers of keys, comma-separated" },
		{ "repeat", BENCH_INTEGER, &job.repeat, 1, REPORT_MAX_REPEAT, "repetitions" },
		{ "queries", BENCH_INTEGER, &job.queries, BATCH, 1e9,
		  "lookups of each kind per repetition" },
		{ "fpr_queries", BENCH_INTEGER, &job.fpr_queries, 1, 1e11,
		  "lookups that measure the false-positive rate" },
		{ "adapts", BENCH_INTEGER, &job.adapts, 1, 1e9, "false positives to fix" },
		{ "remainder_bits", BENCH_INTEGER, &job.remainder_bits, 3, 31, "of winnow" },
		{ "load", BENCH_REAL, &job.load, 0.1, 0.95, "share of winnow's slots in use" },
		{ "bloom_bits", BENCH_REAL, &job.bloom_bits, 1, 100, "bits a key" },
		{ "ribbon_bits", BENCH_REAL, &job.ribbon_bits, 1, 100,
		  "bits a Bloom filter of the same false-positive rate would need" },
		{ "seed", BENCH_INTEGER, &job.seed, 0, 9e15, "of keys and hashes" },
		{ "only", BENCH_TEXT, &job.only, 0, 0, "parts to run, of " PARTS },
		{ "csv", BENCH_TEXT, &csv_path, 0, 0, "file for the results" },
		{ .name = NULL },
	};
	char message[200] = "";
	FILE *csv;

	bench_parse(argc, argv,
		    "usage: bench_filters [--option=value...]\n"
		    "Time and space of winnow's filters beside RocksDB's.", options);
	bench_check_words("only", job.only, PARTS);
	job.with_rocksdb = rf_check(message, sizeof(message));
	if (!job.with_rocksdb)
		printf("Without RocksDB's filters: %s.\n", message);
	csv = bench_open(csv_path);
	if (csv != NULL)
		fputs("keys,operation,filter,unit,median,repetitions\n", csv);
	print_setting(&job);
	job.secret = bench_secret(job.seed);
	for (size_t i = 0; i < nums.count; i++)
		run_num(&job, (size_t)nums.values[i], csv);
	wn_secret_destroy(job.secret);
	bench_close(csv, csv_path);
	return 0;
}
