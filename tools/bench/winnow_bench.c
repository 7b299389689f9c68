/* winnow_bench.c - workloads on storage engines, with one filter after the other or, where they
 * are repeated, with the filters taking turns.
 *
 * Exit status: 0; 1 if something failed or an answer was wrong; 2 if the command line
 * cannot be followed; 128 and the signal's number if it was interrupted. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <winnow/version.h>

#include "base/alloc.h"
#include "bench_cold.h"
#include "bench_options.h"
#include "bench_run.h"
#include "tools/workload/scratch.h"

#define EXIT_USAGE 2
#define ABSENT_PER_KEY 10

static volatile sig_atomic_t stopped; /* the signal */

static void stop(int signal)
{
	stopped = signal;
}

/* A second one ends the program at once. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = stop, .sa_flags = (int)SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* A file that grows past its limit is a failed write like any other. */
	signal(SIGXFSZ, SIG_IGN);
}

static int complain(const struct failure *failure, int status)
{
	fflush(stdout);
	fprintf(stderr, "winnow-bench: %s%s\n", failure->text,
		status == EXIT_USAGE ? "; --help lists the options" : "");
	return status;
}

/* Everything that belongs to one call of the program. */
struct program {
	struct bench_options options;
	struct keyspace keyspace;
	struct op *trace;
	uint64_t trace_count;
	struct result_set results;
	FILE *json, *report;
	FILE *out; /* what people read */
	char *scratch;
};

/* ---- what can be wrong before anything runs ----------------------------- */

/* Every insert of YCSB may take a new key; a database from before may hold some. */
static uint64_t count_inserts(const struct bench_options *options, uint64_t count)
{
	const uint64_t ops = options->reads > 0 ? options->reads : count;
	uint64_t inserts = options->db ? count : 0;

	for (size_t i = 0; i < options->step_count; i++)
		if (options->steps[i].kind->percent[OP_INSERT] > 0)
			inserts += ops / 10 + 100;
	return inserts < KEYS_MAX - count ? inserts : KEYS_MAX - count;
}

static bool set_absent(struct program *program, struct failure *failure)
{
	const struct bench_options *options = &program->options;
	struct keyspace *keyspace = &program->keyspace;
	const uint64_t most = keyspace_max_absent(keyspace);

	if (keyspace->negatives.count > 0) {
		keyspace->absent = keyspace->negatives.count;
		return true;
	}
	keyspace->absent = options->missing > 0 ? options->missing :
						  keyspace->count * ABSENT_PER_KEY;
	if (keyspace->absent > most / options->clients)
		return fail(failure, "%llu clients with %llu absent keys each are too many: with "
				     "%llu stored keys, %llu in all are the most",
			    (unsigned long long)options->clients,
			    (unsigned long long)keyspace->absent,
			    (unsigned long long)keyspace->count, (unsigned long long)most);
	return true;
}

static bool set_keys(struct program *program, struct failure *failure)
{
	const struct bench_options *options = &program->options;
	struct keyspace *keyspace = &program->keyspace;
	char *message = failure->text;
	const size_t size = sizeof(failure->text);

	keyspace->seed = options->seed;
	keyspace->key_size = (size_t)options->key_size;
	if ((options->keys && !key_list_read(&keyspace->keys, options->keys, message, size)) ||
	    (options->negatives &&
	     !key_list_read(&keyspace->negatives, options->negatives, message, size)))
		return false;
	keyspace->count = keyspace->keys.count > 0 ? keyspace->keys.count : options->num;
	program->options.num = keyspace->count;
	keyspace->inserts = count_inserts(options, keyspace->count);
	if (!keyspace_index_lists(keyspace, message, size))
		return false;
	if (options->trace && !trace_read(options->trace, keyspace, &program->trace,
					  &program->trace_count, message, size))
		return false;
	return set_absent(program, failure);
}

static void set_engine_options(const struct program *program, size_t filter,
			       struct engine_options *optionsp)
{
	const struct bench_options *options = &program->options;

	*optionsp = (struct engine_options){
		.filter = options->filters[filter],
		.feedback = options->feedback,
		.background = options->background,
		.direct_reads = options->direct_reads,
		.disable_wal = options->disable_wal,
		.cache_size = options->cache_size,
		.block_size = options->block_size,
		.write_buffer_size = options->write_buffer_size,
		.seed = options->seed,
	};
}

static bool check_filters(const struct program *program, struct failure *failure)
{
	for (size_t i = 0; i < program->options.filter_count; i++) {
		struct engine_options options;

		set_engine_options(program, i, &options);
		if (!program->options.engine->accept(&options, failure))
			return false;
	}
	return true;
}

static bool open_output(const char *path, FILE **filep, struct failure *failure)
{
	if (!path)
		return true;
	*filep = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
	return *filep || fail(failure, "cannot write '%s': %s", path, strerror(errno));
}

/* 0, or the status to end with. */
static int prepare(struct program *program, struct failure *failure)
{
	const struct bench_options *options = &program->options;

	if (!set_keys(program, failure) || !check_filters(program, failure))
		return EXIT_USAGE;
	if (options->report && strcmp(options->report, "-") == 0) {
		fail(failure, "--report: a page is written to a file, not to standard output");
		return EXIT_USAGE;
	}
	if (!open_output(options->json, &program->json, failure) ||
	    !open_output(options->report, &program->report, failure))
		return EXIT_FAILURE;
	program->out = program->json == stdout ? stderr : stdout;
	program->results = (struct result_set){
		.filters = options->filter_count,
		.steps = options->step_count,
		.repeats = (size_t)options->repeat,
	};
	program->results.results = wn__calloc(result_set_size(&program->results),
					      sizeof(struct result));
	if (!program->results.results) {
		fail(failure, "no memory for the results");
		return EXIT_FAILURE;
	}
	if (options->engine->persistent &&
	    (options->db ? !directory_make(options->db, failure) :
			   !scratch_create(&program->scratch, failure)))
		return EXIT_FAILURE;
	if (options->cold && !cold_check(options->db ? options->db : program->scratch, failure))
		return EXIT_FAILURE;
	return 0;
}

/* ---- running ------------------------------------------------------------ */

/* One filter's database is in --db itself; several have a directory each in it, by the
 * filter's name, and so have temporary ones. */
static char *database_path(const struct program *program, size_t filter)
{
	const struct bench_options *options = &program->options;
	const char *parent = options->db ? options->db : program->scratch;
	char *path;

	if (options->db && options->filter_count == 1)
		return strdup(options->db);
	if (asprintf(&path, "%s/%s", parent, options->filters[filter]) < 0)
		return NULL;
	for (char *at = path + strlen(parent) + 1; *at; at++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-",
			    *at))
			*at = '-';
	return path;
}

static void print_line(const struct program *program, const struct result *result)
{
	fprintf(program->out, "%-28s %-20s ", result->step->label, result->filter);
	if (program->options.repeat > 1 && bench_kind_only_reads(result->step->kind))
		fprintf(program->out, "%3u/%llu ", result->repeat + 1,
			(unsigned long long)program->options.repeat);
	if (result->planned <= 1)
		fprintf(program->out, "%.3f s", result->seconds);
	else
		fprintf(program->out, "%llu operations in %.2f s, %.0f/s, p50 %.2f us, p99 %.2f us",
			(unsigned long long)result->ops, result->seconds, result_rate(result),
			result->p50_us, result->p99_us);
	if (result->reads > 0)
		fprintf(program->out, ", %llu false positives",
			(unsigned long long)result->false_positives);
	if (result->wrong > 0)
		fprintf(program->out, ", %llu WRONG", (unsigned long long)result->wrong);
	fprintf(program->out, "%s\n", result->interrupted ? " (not to the end)" : "");
	fflush(program->out);
}

/* One filter's database while it is open. */
struct database {
	struct bench bench;
	char *path; /* NULL in memory */
	size_t filter;
	bool open;
};

static bool open_database(struct program *program, size_t filter, struct database *database,
			  struct failure *failure)
{
	struct bench *bench = &database->bench;

	database->filter = filter;
	bench->options = &program->options;
	bench->keyspace = &program->keyspace;
	bench->trace = program->trace;
	bench->trace_count = program->trace_count;
	bench->stop = &stopped;
	bench->progress = isatty(STDERR_FILENO);
	bench->out = program->out;
	set_engine_options(program, filter, &bench->engine_options);
	if (program->options.engine->persistent) {
		database->path = database_path(program, filter);
		if (!database->path)
			return fail(failure, "no memory");
		bench->engine_options.path = database->path;
		if (!directory_make(database->path, failure))
			return false;
	}
	database->open = bench_start(bench, failure);
	return database->open;
}

/* Temporary databases make room for the next. */
static bool close_database(const struct program *program, struct database *database,
			   struct failure *failure)
{
	const bool good = !database->open || bench_end(&database->bench, failure);

	if (program->scratch && database->path)
		directory_remove(database->path);
	free(database->path);
	return good;
}

static bool write_json(struct program *program, const struct result *result,
		       struct failure *failure)
{
	if (!program->json || result_print_json(result, program->json))
		return true;
	fail(failure, "writing '%s' failed: %s", program->options.json, strerror(errno));
	if (program->json != stdout)
		fclose(program->json);
	program->json = NULL;
	return false;
}

static bool run_once(struct program *program, struct database *database, size_t step,
		     size_t repeat, struct failure *failure)
{
	struct result *result = result_slot(&program->results, database->filter, step, repeat);
	struct failure writing = { .text = "" };
	bool good = bench_run(&database->bench, step, (unsigned)repeat, result, failure);

	print_line(program, result);
	if (!write_json(program, result, &writing) && good) {
		*failure = writing;
		good = false;
	}
	return good;
}

/* What only reads, as often as it is wanted, the filters taking turns; the rest once each. */
static bool run_step(struct program *program, struct database *databases, size_t count,
		     size_t step, struct failure *failure)
{
	const struct bench_options *options = &program->options;
	const size_t repeats = bench_kind_only_reads(options->steps[step].kind) ?
			       (size_t)options->repeat : 1;

	for (size_t r = 0; r < repeats; r++)
		for (size_t turn = 0; turn < count && !stopped; turn++)
			if (!run_once(program, &databases[repeat_filter(r, turn, count)], step, r,
				      failure))
				return false;
	return true;
}

/* Some of the filters, whose databases are open at the same time. */
static bool run_group(struct program *program, size_t first, size_t count,
		      struct failure *failure)
{
	struct database *databases = wn__calloc(count, sizeof(*databases));
	bool good = true;

	if (!databases)
		return fail(failure, "no memory for %zu databases", count);
	for (size_t i = 0; i < count && good; i++)
		good = open_database(program, first + i, &databases[i], failure);
	for (size_t s = 0; s < program->options.step_count && good && !stopped; s++)
		good = run_step(program, databases, count, s, failure);
	for (size_t i = 0; i < count; i++) {
		struct failure closing = { .text = "" };

		if (!close_database(program, &databases[i], &closing) && good) {
			*failure = closing;
			good = false;
		}
	}
	free(databases);
	return good;
}

/* Filters that do not take turns have the machine for themselves, one after the other. */
static bool run_filters(struct program *program, struct failure *failure)
{
	const size_t filters = program->options.filter_count;
	const size_t group = program->options.repeat > 1 ? filters : 1;

	for (size_t first = 0; first < filters && !stopped; first += group)
		if (!run_group(program, first, group, failure))
			return false;
	return true;
}

static bool close_output(const char *path, FILE *file, struct failure *failure)
{
	const bool failed = fflush(file) != 0 || ferror(file);

	if ((file != stdout && fclose(file) != 0) || failed)
		return fail(failure, "writing '%s' failed: %s", path, strerror(errno));
	return true;
}

static bool write_outputs(struct program *program, struct failure *failure)
{
	const struct bench_options *options = &program->options;
	bool good = true;

	if (program->report) {
		const char *db = options->db ? options->db : program->scratch;

		errno = results_write_report(&program->results, options, db, program->report);
		if (errno)
			good = fail(failure, "writing '%s' failed: %s", options->report,
				    strerror(errno));
		if (!close_output(options->report, program->report, failure))
			good = false;
		if (good)
			fprintf(program->out, "\nThe report is in %s\n", options->report);
	}
	results_print_table(&program->results, program->out);
	if (program->json && !close_output(options->json, program->json, failure))
		good = false;
	if (fflush(program->out) != 0 || ferror(program->out))
		good = fail(failure, "writing to standard output failed: %s", strerror(errno));
	return good;
}

static int run_all(struct program *program)
{
	struct failure failure = { .text = "" }, later = { .text = "" };
	int status = EXIT_SUCCESS;

	catch_signals();
	if (!run_filters(program, &failure))
		status = complain(&failure, EXIT_FAILURE);
	if (!write_outputs(program, &later))
		status = complain(&later, EXIT_FAILURE);
	if (!status && results_sum_wrong(&program->results) > 0)
		status = EXIT_FAILURE;
	return stopped && !status ? 128 + stopped : status;
}

static void clean_up(struct program *program)
{
	if (program->scratch)
		directory_remove(program->scratch);
	free(program->scratch);
	free(program->results.results);
	free(program->trace);
	keyspace_fini(&program->keyspace);
	bench_options_fini(&program->options);
}

int main(int argc, char **argv)
{
	struct program program = { .json = NULL };
	struct failure failure = { .text = "" };
	int status;

	switch (bench_options_parse(argc, argv, &program.options, &failure)) {
	case PARSE_HELP:
		bench_options_help(stdout);
		return EXIT_SUCCESS;
	case PARSE_VERSION:
		printf("winnow-bench %s\n", WN_VERSION_STRING);
		return EXIT_SUCCESS;
	case PARSE_BAD:
		bench_options_fini(&program.options);
		return complain(&failure, EXIT_USAGE);
	case PARSE_GOOD:
		break;
	}
	status = prepare(&program, &failure);
	status = status ? complain(&failure, status) : run_all(&program);
	clean_up(&program);
	return status;
}
