/* bench_util.c - see bench_util.h. */
#define _GNU_SOURCE
#include "bench_util.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <winnow/aqf.h>
#include <winnow/error.h>

volatile uint64_t bench_sink;

uint64_t bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
	if (count == 0)
		return 0.0;
	qsort(values, count, sizeof(*values), compare_doubles);
	return (values[(count - 1) / 2] + values[count / 2]) / 2.0;
}

/* Between the two values next to this part of the way. */
static double quantile(const double *sorted, size_t count, double part)
{
	const double at = part * (double)(count - 1);
	const size_t low = (size_t)at;
	const size_t high = low + 1 < count ? low + 1 : low;

	return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

struct bench_quartiles bench_quartiles(double *values, size_t count)
{
	if (count == 0)
		return (struct bench_quartiles){ NAN, NAN, NAN };
	qsort(values, count, sizeof(*values), compare_doubles);
	return (struct bench_quartiles){
		.lower = quantile(values, count, 0.25),
		.median = quantile(values, count, 0.5),
		.upper = quantile(values, count, 0.75),
	};
}

/* ---- keys --------------------------------------------------------------- */

struct bench_key *bench_keys(uint64_t seed, enum bench_set set, uint64_t first, size_t count)
{
	struct bench_key *keys = bench_alloc(count, sizeof(*keys));

	for (size_t i = 0; i < count; i++)
		keys[i] = bench_key(seed, set, first + i);
	return keys;
}

struct wn_hash *bench_hashes(const struct wn_secret *secret, const struct bench_key *keys,
			     size_t count)
{
	struct wn_hash *hashes = bench_alloc(count, sizeof(*hashes));

	for (size_t i = 0; i < count; i++)
		hashes[i] = wn_hash_key(secret, &keys[i], BENCH_KEY_SIZE);
	return hashes;
}

int bench_compare_hashes(const void *a, const void *b)
{
	return wn_hash_compare(*(const struct wn_hash *)a, *(const struct wn_hash *)b);
}

struct wn_secret *bench_secret(uint64_t seed)
{
	unsigned char bytes[WN_SEED_SIZE];
	struct wn_secret *secret;

	for (size_t i = 0; i < sizeof(bytes); i += sizeof(uint64_t)) {
		const uint64_t word = bench_random(&seed);

		memcpy(bytes + i, &word, sizeof(word));
	}
	bench_ok(wn_secret_create(bytes, &secret), "making the secret");
	return secret;
}

int bench_fetch_sorted(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	const struct bench_sorted *sorted = arg;
	size_t low = 0, high = sorted->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (wn_aqf_minirun(sorted->aqf, sorted->hashes[middle]) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	if (rank >= sorted->count - low ||
	    wn_aqf_minirun(sorted->aqf, sorted->hashes[low + rank]) != minirun)
		return WN_ERR_NOT_FOUND;
	*storedp = sorted->hashes[low + rank];
	return 0;
}

/* ---- dying -------------------------------------------------------------- */

static void print_name(void)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
}

void bench_die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	print_name();
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void bench_ok(int result, const char *what)
{
	if (result != 0)
		bench_die("%s failed: %s", what, wn_strerror(result));
}

void *bench_alloc(size_t count, size_t size)
{
	size_t bytes;
	void *memory = NULL;

	if (!__builtin_mul_overflow(count, size, &bytes))
		memory = malloc(bytes > 0 ? bytes : 1);
	if (memory == NULL)
		bench_die("no memory for %zu x %zu bytes", count, size);
	return memory;
}

FILE *bench_open(const char *path)
{
	FILE *file;

	if (path == NULL)
		return NULL;
	file = fopen(path, "w");
	if (file == NULL)
		bench_die("cannot write '%s': %s", path, strerror(errno));
	return file;
}

void bench_close(FILE *file, const char *path)
{
	bool failed;

	if (file == NULL)
		return;
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed)
		bench_die("writing '%s' failed", path);
}

/* ---- options ------------------------------------------------------------ */

__attribute__((format(printf, 1, 2), noreturn))
static void refuse(const char *format, ...)
{
	va_list args;

	print_name();
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; --help lists the options\n", stderr);
	exit(2);
}

static void print_default(const struct bench_option *option)
{
	switch (option->type) {
	case BENCH_INTEGER:
		printf(" (%llu)", (unsigned long long)*(const uint64_t *)option->value);
		break;
	case BENCH_REAL:
		printf(" (%g)", *(const double *)option->value);
		break;
	case BENCH_TEXT:
		if (*(const char *const *)option->value != NULL)
			printf(" (%s)", *(const char *const *)option->value);
		break;
	case BENCH_FLAG:
		break;
	case BENCH_LIST: {
		const struct bench_list *list = option->value;

		for (size_t i = 0; i < list->count; i++)
			printf("%s%llu", i == 0 ? " (" : ",",
			       (unsigned long long)list->values[i]);
		if (list->count > 0)
			putchar(')');
		break;
	}
	}
}

__attribute__((noreturn))
static void print_help(const char *usage, const struct bench_option *options)
{
	printf("%s\n", usage);
	for (; options->name != NULL; options++) {
		printf("  --%s%s %s", options->name, options->type == BENCH_FLAG ? "" : "=...",
		       options->help);
		print_default(options);
		putchar('\n');
	}
	exit(0);
}

static bool read_unit(const char *end, double *valuep)
{
	switch (*end) {
	case '\0':
		return true;
	case 'k':
	case 'K':
		*valuep *= 1e3;
		break;
	case 'M':
		*valuep *= 1e6;
		break;
	case 'G':
		*valuep *= 1e9;
		break;
	default:
		return false;
	}
	return end[1] == '\0';
}

/* Values of any type pass through a double: exact up to 2^53, which is above
 * every maximum an integer option has. */
static double read_number(const struct bench_option *option, const char *text)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (end == text || errno != 0 || !read_unit(end, &value))
		refuse("--%s: '%s' is not a number", option->name, text);
	if (!(value >= option->min && value <= option->max))
		refuse("--%s: %s is not between %.15g and %.15g", option->name, text, option->min,
		       option->max);
	if (option->type != BENCH_REAL && value != (double)(uint64_t)value)
		refuse("--%s: %s is not a whole number", option->name, text);
	return value;
}

static void read_list(const struct bench_option *option, const char *text)
{
	struct bench_list *list = option->value;
	char *copy = strdup(text), *rest = copy, *word;

	if (copy == NULL)
		bench_die("no memory");
	list->count = 0;
	while ((word = strsep(&rest, ",")) != NULL) {
		if (list->count == BENCH_LIST_MAX)
			refuse("--%s: more than %d values", option->name, BENCH_LIST_MAX);
		list->values[list->count++] = (uint64_t)read_number(option, word);
	}
	free(copy);
}

static void read_value(const struct bench_option *option, const char *text)
{
	switch (option->type) {
	case BENCH_INTEGER:
		*(uint64_t *)option->value = (uint64_t)read_number(option, text);
		break;
	case BENCH_REAL:
		*(double *)option->value = read_number(option, text);
		break;
	case BENCH_TEXT:
		if (*text == '\0')
			refuse("--%s: a value is missing", option->name);
		*(const char **)option->value = text;
		break;
	case BENCH_FLAG:
		refuse("--%s has no value", option->name);
	case BENCH_LIST:
		read_list(option, text);
		break;
	}
}

static void read_argument(const char *argument, const struct bench_option *options)
{
	const char *equals = strchr(argument, '=');
	size_t length;

	if (strncmp(argument, "--", 2) != 0)
		refuse("'%s' is not an option", argument);
	length = equals != NULL ? (size_t)(equals - argument) - 2 : strlen(argument) - 2;
	for (; options->name != NULL; options++) {
		if (strlen(options->name) != length ||
		    memcmp(options->name, argument + 2, length) != 0)
			continue;
		if (equals != NULL)
			read_value(options, equals + 1);
		else if (options->type == BENCH_FLAG)
			*(bool *)options->value = true;
		else
			refuse("--%s: a value is missing", options->name);
		return;
	}
	refuse("there is no option '%.*s'", (int)length + 2, argument);
}

void bench_parse(int argc, char **argv, const char *usage, const struct bench_option *options)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0)
			print_help(usage, options);
	for (int i = 1; i < argc; i++)
		read_argument(argv[i], options);
}

bool bench_listed(const char *list, const char *word)
{
	const size_t length = strlen(word);

	if (list == NULL)
		return true;
	for (;;) {
		const size_t here = strcspn(list, ",");

		if (here == length && memcmp(list, word, length) == 0)
			return true;
		if (list[here] == '\0')
			return false;
		list += here + 1;
	}
}

void bench_check_words(const char *option, const char *list, const char *allowed)
{
	char *copy, *rest, *word;

	if (list == NULL)
		return;
	copy = rest = strdup(list);
	if (copy == NULL)
		bench_die("no memory");
	while ((word = strsep(&rest, ",")) != NULL)
		if (*word == '\0' || !bench_listed(allowed, word))
			refuse("--%s: '%s' is not one of %s", option, word, allowed);
	free(copy);
}
