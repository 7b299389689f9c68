/* bench_json.c - a result as a JSON object on one line; see bench_result.h. */
#include <math.h>

#include "bench_result.h"

static void print_text(FILE *to, const char *name, const char *text)
{
	fprintf(to, "\"%s\":\"", name);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else if (c < 0x20)
			fprintf(to, "\\u%04x", c);
		else
			fputc(c, to);
	}
	fputs("\",", to);
}

static void print_count(FILE *to, const char *name, uint64_t value)
{
	fprintf(to, "\"%s\":%llu,", name, (unsigned long long)value);
}

/* Numbers have a point in every locale: the program sets none. */
static void print_real(FILE *to, const char *name, double value, int digits)
{
	fprintf(to, "\"%s\":%.*f,", name, digits, isfinite(value) ? value : 0.0);
}

static void print_times(const struct result *result, FILE *to)
{
	print_count(to, "ops", result->ops);
	print_real(to, "seconds", result->seconds, 6);
	print_real(to, "ops_per_sec", result_rate(result), 1);
	print_real(to, "p50_us", result->p50_us, 3);
	print_real(to, "p95_us", result->p95_us, 3);
	print_real(to, "p99_us", result->p99_us, 3);
	print_real(to, "p999_us", result->p999_us, 3);
	print_real(to, "mean_us", result->mean_us, 3);
	print_real(to, "max_us", result->max_us, 3);
	print_real(to, "cpu_seconds", result->cpu_seconds, 6);
	print_real(to, "settle_seconds", result->settle_seconds, 6);
}

static void print_counts(const struct result *result, FILE *to)
{
	print_count(to, "reads", result->reads);
	print_count(to, "writes", result->writes);
	print_count(to, "scanned", result->scanned);
	print_count(to, "found", result->found);
	print_count(to, "wrong_results", result->wrong);
	print_count(to, "filter_queries", result->queries);
	print_count(to, "filter_positives", result->positives);
	print_count(to, "false_positives", result->false_positives);
	print_count(to, "repeated_false_positives", result->repeated);
	print_count(to, "adaptations", result->stats.adaptations);
	print_count(to, "unfixable", result->stats.unfixable);
	print_count(to, "map_misses", result->stats.map_misses);
	print_count(to, "queue_drops", result->stats.queue_drops);
	print_count(to, "carried_over", result->stats.carried_over);
	print_real(to, "bits_per_key", result_bits_per_key(result), 4);
	print_count(to, "filter_bytes", result->stats.filter_bytes);
	print_count(to, "learned_bytes", result->stats.learned_bytes);
	print_count(to, "reversemap_bytes", result->stats.reversemap_bytes);
	print_count(to, "data_block_reads", result->block_reads);
	print_count(to, "disk_bytes_read", result->disk_bytes);
}

bool result_print_json(const struct result *result, FILE *to)
{
	char dist[64];

	dist_print(&result->step->dist, dist, sizeof(dist));
	fputc('{', to);
	print_text(to, "benchmark", result->step->kind->name);
	print_text(to, "engine", result->engine);
	print_text(to, "filter", result->filter);
	print_text(to, "dist", dist);
	print_count(to, "threads", result->threads);
	print_count(to, "repeat", result->repeat);
	print_times(result, to);
	print_counts(result, to);
	fprintf(to, "\"interrupted\":%s}\n", result->interrupted ? "true" : "false");
	return fflush(to) == 0 && !ferror(to);
}
