/* bench_options.c - see bench_options.h. */
#define _GNU_SOURCE
#include "bench_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_repeat.h"

#define DEFAULT_NUM 1000000
#define DEFAULT_CACHE (8u << 20)
#define DEFAULT_BLOCK 4096
#define DEFAULT_BUFFER (64u << 20)
#define DEFAULT_VALUE 100
#define DEFAULT_KEY 16

enum value_type { NUMBER, BYTES, SHARE, FLAG, TEXT };

struct option {
	const char *name;
	enum value_type type;
	size_t at; /* in struct bench_options; of what the parser itself uses, below */
	double min, max;
	const char *help;
};

/* Words that are taken apart once all of them are known. */
struct raw {
	struct bench_options options;
	const char *engine, *filter, *benchmarks, *dist, *feedback;
};

#define AT(field) offsetof(struct raw, options.field)
#define RAW(field) offsetof(struct raw, field)

static const struct option table[] = {
	{ "engine", TEXT, RAW(engine), 0, 0, "NAME       memory, rocksdb or leveldb (memory)" },
	{ "filter", TEXT, RAW(filter), 0, 0,
	  "LIST       filters to run in turn: aqf, sscf, bloom, ribbon, none; options behind a\n"
	  "                        colon: bloom:bits_per_key=12.8,aqf:remainder_bits=9 (aqf)" },
	{ "benchmarks", TEXT, RAW(benchmarks), 0, 0,
	  "LIST   fillseq fillrandom overwrite flush compact readrandom readmissing\n"
	  "                        readmix ycsba ... ycsbf reopen stats replay, in this order;\n"
	  "                        with a distribution of its own: readmissing@zipfian:1.5\n"
	  "                        (fillrandom,compact,readrandom,readmissing)" },
	{ "num", NUMBER, AT(num), 1, 4e9, "N             keys that the fills write (1000000)" },
	{ "reads", NUMBER, AT(reads), 1, 1e12,
	  "N           operations of the other benchmarks (num)" },
	{ "value_size", BYTES, AT(value_size), 0, 1 << 24, "N      bytes of a value (100)" },
	{ "key_size", BYTES, AT(key_size), KEY_MIN_SIZE, KEY_MAX_SIZE,
	  "N        bytes of a key (16)" },
	{ "cache_size", BYTES, AT(cache_size), 0, 1e15,
	  "BYTES\n                        of the block cache (8388608; with --cold 0)" },
	{ "block_size", BYTES, AT(block_size), 256, 1 << 28, "BYTES  of a data block (4096)" },
	{ "write_buffer_size", BYTES, AT(write_buffer_size), 65536, 1e15,
	  "BYTES\n                        of the memtable (67108864)" },
	{ "direct_reads", FLAG, AT(direct_reads), 0, 1,
	  "          past the page cache (RocksDB)" },
	{ "cold", FLAG, AT(cold), 0, 1,
	  "                  data blocks come from the disk: drop them from the page cache" },
	{ "disable_wal", FLAG, AT(disable_wal), 0, 1, "           write no log (RocksDB)" },
	{ "dist", TEXT, RAW(dist), 0, 0,
	  "DIST         uniform, zipfian:S, hotset:F[:SHARE], adversarial:F, latest\n"
	  "                        (uniform; YCSB: its own)" },
	{ "missing_keys", NUMBER, AT(missing), 1, 1e14,
	  "N    absent keys to ask for, by each client (10 * num)" },
	{ "clients", NUMBER, AT(clients), 1, 1e6,
	  "N         clients with popular absent keys of their own (1)" },
	{ "missing_share", SHARE, AT(missing_share), 0, 1,
	  "F   of readmix's lookups (0.5)" },
	{ "threads", NUMBER, AT(threads), 1, MAX_THREADS,
	  "N         that share the operations (1)" },
	{ "repeat", NUMBER, AT(repeat), 1, MAX_REPEATS,
	  "N          times to run what only reads, the filters taking turns (1)" },
	{ "seed", NUMBER, AT(seed), 0, 1e15, "N            of keys, values and operations (1)" },
	{ "query_seed", NUMBER, AT(query_seed), 0, 1e15, "N      of operations only (seed)" },
	{ "db", TEXT, AT(db), 0, 0,
	  "DIR            the database's directory, which stays (a temporary one)" },
	{ "keys", TEXT, AT(keys), 0, 0, "FILE         keys to store, a line each" },
	{ "negatives", TEXT, AT(negatives), 0, 0,
	  "FILE    absent keys to ask for, a line each, the most frequent first" },
	{ "trace", TEXT, AT(trace), 0, 0, "FILE        operations for replay: get KEY, put KEY" },
	{ "feedback", TEXT, RAW(feedback), 0, 0,
	  "HOW      how winnow's filters learn: wrapper, statistics or none (wrapper)" },
	{ "synchronous", FLAG, AT(synchronous), 0, 1,
	  "           learn before a lookup returns, which is the default" },
	{ "background", FLAG, AT(background), 0, 1,
	  "            learn on a thread beside, after the lookup returned" },
	{ "json", TEXT, AT(json), 0, 0,
	  "FILE         a JSON object per benchmark and filter; -: standard output" },
	{ "report", TEXT, AT(report), 0, 0, "FILE       an HTML page with pictures" },
};

#define OPTION_COUNT (sizeof(table) / sizeof(table[0]))

void bench_options_help(FILE *to)
{
	fputs("usage: winnow-bench [--option=value...]\n"
	      "Runs workloads on storage engines with one filter after the other, on the same\n"
	      "data and with the same operations, and compares.\n\n", to);
	for (size_t i = 0; i < OPTION_COUNT; i++)
		fprintf(to, "  --%s%s%s\n", table[i].name, table[i].type == FLAG ? "" : "=",
			table[i].help);
	fputs("  --help, --version\n\nNumbers may end in k, M or G; bytes in k, M or G for 2^10, "
	      "2^20 or 2^30.\nThe manual page winnow-bench(1) has the rest.\n", to);
}

/* ---- values ------------------------------------------------------------- */

static bool read_unit(const char *unit, double base, double *valuep)
{
	if (*unit == '\0')
		return true;
	switch (*unit) {
	case 'k':
	case 'K':
		*valuep *= base;
		break;
	case 'M':
		*valuep *= base * base;
		break;
	case 'G':
		*valuep *= base * base * base;
		break;
	default:
		return false;
	}
	return unit[1] == '\0';
}

static bool read_number(const struct option *option, const char *text, double *valuep,
			struct failure *failure)
{
	const bool whole = option->type != SHARE;
	char *end;

	errno = 0;
	*valuep = strtod(text, &end);
	if (end == text || errno != 0 || !isfinite(*valuep) ||
	    !read_unit(end, option->type == BYTES ? 1024 : 1000, valuep))
		return fail(failure, "--%s: '%s' is not a number", option->name, text);
	if (whole && *valuep != floor(*valuep))
		return fail(failure, "--%s: %s is not a whole number", option->name, text);
	if (!(*valuep >= option->min && *valuep <= option->max))
		return fail(failure, "--%s: %s is not between %.15g and %.15g", option->name, text,
			    option->min, option->max);
	return true;
}

static bool read_flag(const struct option *option, const char *text, bool *valuep,
		      struct failure *failure)
{
	if (!text || strcmp(text, "1") == 0 || strcmp(text, "true") == 0)
		*valuep = true;
	else if (strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
		*valuep = false;
	else
		return fail(failure, "--%s: '%s' is neither 1 nor 0", option->name, text);
	return true;
}

static bool read_value(const struct option *option, const char *text, struct raw *raw,
		       struct failure *failure)
{
	char *at = (char *)raw + option->at;
	double number;

	if (option->type == FLAG)
		return read_flag(option, text, (bool *)at, failure);
	if (!text || *text == '\0')
		return fail(failure, "--%s: a value is missing", option->name);
	if (option->type == TEXT) {
		*(const char **)at = text;
		return true;
	}
	if (!read_number(option, text, &number, failure))
		return false;
	if (option->type == SHARE)
		memcpy(at, &number, sizeof(number));
	else
		*(uint64_t *)at = (uint64_t)number;
	return true;
}

/* "--name=value" or "--name value". */
static bool read_argument(char **argv, int *ip, struct raw *raw, struct failure *failure)
{
	const char *argument = argv[*ip], *equals = strchr(argument, '=');
	size_t length;

	if (strncmp(argument, "--", 2) != 0)
		return fail(failure, "'%s' is not an option", argument);
	length = equals ? (size_t)(equals - argument) - 2 : strlen(argument) - 2;
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const char *value = equals ? equals + 1 : NULL;

		if (strlen(table[i].name) != length ||
		    memcmp(table[i].name, argument + 2, length) != 0)
			continue;
		if (!value && table[i].type != FLAG && argv[*ip + 1] &&
		    strncmp(argv[*ip + 1], "--", 2) != 0)
			value = argv[++*ip];
		return read_value(&table[i], value, raw, failure);
	}
	return fail(failure, "there is no option '%.*s'", (int)length + 2, argument);
}

/* ---- lists -------------------------------------------------------------- */

static bool split_filters(struct raw *raw, struct failure *failure)
{
	struct bench_options *options = &raw->options;
	char *rest, *word;

	options->filter_list = rest = strdup(raw->filter);
	if (!rest)
		return fail(failure, "no memory");
	while ((word = strsep(&rest, ",")) != NULL) {
		if (*word == '\0')
			return fail(failure, "--filter: '%s' has an empty name in it", raw->filter);
		if (options->filter_count == MAX_FILTERS)
			return fail(failure, "--filter: more than %d filters", MAX_FILTERS);
		for (size_t i = 0; i < options->filter_count; i++)
			if (strcmp(options->filters[i], word) == 0)
				return fail(failure, "--filter: '%s' stands there twice", word);
		options->filters[options->filter_count++] = word;
	}
	return true;
}

static bool set_step(struct raw *raw, const char *word, const struct dist *common,
		     struct bench_step *step, struct failure *failure)
{
	const size_t length = strcspn(word, "@");
	const char *own = word[length] == '@' ? word + length + 1 : NULL;
	char message[400];

	step->kind = bench_kind_find(word, length);
	if (!step->kind)
		return fail(failure, "--benchmarks: there is no benchmark '%.*s'", (int)length,
			    word);
	snprintf(step->label, sizeof(step->label), "%s", word);
	step->dist = *common;
	if (!own && !raw->dist)
		own = step->kind->dist;
	if (own && !dist_parse(own, &step->dist, message, sizeof(message)))
		return fail(failure, "--benchmarks: %s", message);
	if (step->kind->type == WORK_REPLAY && !raw->options.trace)
		return fail(failure, "the benchmark replay needs a file: --trace=FILE");
	return true;
}

static bool split_benchmarks(struct raw *raw, struct failure *failure)
{
	struct bench_options *options = &raw->options;
	char *copy = strdup(raw->benchmarks), *rest = copy, *word;
	struct dist common = { .type = DIST_UNIFORM };
	char message[400];
	bool good = copy;

	if (raw->dist && !dist_parse(raw->dist, &common, message, sizeof(message)))
		good = fail(failure, "--dist: %s", message);
	while (good && (word = strsep(&rest, ",")) != NULL) {
		if (options->step_count == MAX_BENCHMARKS)
			good = fail(failure, "--benchmarks: more than %d", MAX_BENCHMARKS);
		else
			good = set_step(raw, word, &common, &options->steps[options->step_count++],
					failure);
	}
	free(copy);
	return good;
}

static bool set_feedback(struct raw *raw, struct failure *failure)
{
	static const char *const names[] = { [FEEDBACK_WRAPPER] = "wrapper",
					     [FEEDBACK_STATISTICS] = "statistics",
					     [FEEDBACK_NONE] = "none" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(raw->feedback, names[i]) != 0)
			continue;
		raw->options.feedback = (enum feedback)i;
		return true;
	}
	return fail(failure, "--feedback: '%s' is neither wrapper nor statistics nor none",
		    raw->feedback);
}

static bool finish(struct raw *raw, struct failure *failure)
{
	struct bench_options *options = &raw->options;

	options->engine = bench_engine_find(raw->engine, failure);
	if (!options->engine || !set_feedback(raw, failure) || !split_filters(raw, failure) ||
	    !split_benchmarks(raw, failure))
		return false;
	if (options->trace && options->negatives)
		return fail(failure, "give --trace or --negatives, not both: what a trace writes "
				     "is not absent");
	if (options->db && !options->engine->persistent)
		return fail(failure, "--db: the engine %s has no directory", options->engine->name);
	if (options->cold && !options->engine->persistent)
		return fail(failure, "--cold: the engine %s has no directory",
			    options->engine->name);
	if (options->cold && options->threads > 1)
		return fail(failure, "--cold: with one thread only, which stops the clock while it "
				     "drops");
	if (options->cache_size == UINT64_MAX)
		options->cache_size = options->cold ? 0 : DEFAULT_CACHE;
	if (options->query_seed == UINT64_MAX)
		options->query_seed = options->seed;
	return true;
}

enum parse_result bench_options_parse(int argc, char **argv, struct bench_options *optionsp,
				      struct failure *failure)
{
	struct raw raw = {
		.engine = "memory", .filter = "aqf", .feedback = "wrapper",
		.benchmarks = "fillrandom,compact,readrandom,readmissing",
		.options = {
			.num = DEFAULT_NUM, .clients = 1, .key_size = DEFAULT_KEY,
			.value_size = DEFAULT_VALUE, .cache_size = UINT64_MAX,
			.block_size = DEFAULT_BLOCK, .write_buffer_size = DEFAULT_BUFFER,
			.threads = 1, .repeat = 1, .seed = 1, .query_seed = UINT64_MAX,
			.missing_share = 0.5,
		},
	};
	enum parse_result result = PARSE_GOOD;

	for (int i = 1; i < argc && result == PARSE_GOOD; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			result = PARSE_HELP;
		else if (strcmp(argv[i], "--version") == 0)
			result = PARSE_VERSION;
		else if (!read_argument(argv, &i, &raw, failure))
			result = PARSE_BAD;
	}
	if (result == PARSE_GOOD && !finish(&raw, failure))
		result = PARSE_BAD;
	*optionsp = raw.options;
	return result;
}

void bench_options_fini(struct bench_options *options)
{
	free(options->filter_list);
}
