/* bench_report.c - results as an HTML page; see bench_result.h and report.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "bench_result.h"
#include "tools/report/report.h"

struct points {
	struct report_point latency[LATENCY_POINTS];
	struct report_point curve[CURVE_POINTS];
};

static void set_run(const struct result *result, struct points *points, struct report_run *run)
{
	const uint64_t interval = result->curve_count > 0 ? result->planned / CURVE_POINTS : 0;

	for (size_t i = 0; i < LATENCY_POINTS; i++)
		points->latency[i] = (struct report_point){ latency_percents[i],
							    result->latency_us[i] };
	for (size_t i = 0; i < result->curve_count; i++)
		points->curve[i] = (struct report_point){
			(double)result->planned * (double)(i + 1) / CURVE_POINTS,
			(double)result->curve[i] };
	*run = (struct report_run){
		.benchmark = result->step->label,
		.engine = result->engine,
		.filter = result->filter,
		.ops = result->ops,
		.seconds = result->seconds,
		.ops_per_sec = result_rate(result),
		.latency = points->latency,
		.latency_count = LATENCY_POINTS,
		.false_positives = points->curve,
		.false_positive_count = result->reads > 0 && interval > 0 ? result->curve_count : 0,
		.interval = interval,
		.found = result->found,
		.wrong_results = result->wrong,
		.total_false_positives = result->false_positives,
		.repeated_false_positives = result->repeated,
		.adaptations = result->stats.adaptations,
		.bits_per_key = result_bits_per_key(result),
		.filter_bytes = result->stats.filter_bytes,
		.learned_bytes = result->stats.learned_bytes,
		.reversemap_bytes = result->stats.reversemap_bytes,
		.data_block_reads = result->block_reads,
	};
}

static void add_parameters(struct machine *machine, const struct bench_options *options)
{
	machine_add(machine, "keys", "%llu of %llu bytes, values of %llu bytes, seed %llu",
		    (unsigned long long)options->num, (unsigned long long)options->key_size,
		    (unsigned long long)options->value_size, (unsigned long long)options->seed);
	machine_add(machine, "database", "%s, blocks of %llu bytes, cache of %llu bytes%s",
		    options->engine->name, (unsigned long long)options->block_size,
		    (unsigned long long)options->cache_size,
		    options->direct_reads ? ", direct reads" : "");
	machine_add(machine, "clients and threads", "%llu and %llu",
		    (unsigned long long)options->clients, (unsigned long long)options->threads);
}

int results_write_report(const struct result_set *set, const struct bench_options *options,
			 const char *db, FILE *to)
{
	const struct result *results = set->results;
	const size_t count = result_set_size(set);
	struct report_run *runs = wn__calloc(count, sizeof(*runs));
	struct points *points = wn__calloc(count, sizeof(*points));
	struct machine machine;
	struct report report = { .title = "winnow-bench", .runs = runs };
	int err = ENOMEM;

	machine_describe(&machine, db);
	add_parameters(&machine, options);
	report.facts = machine.facts;
	report.fact_count = machine.count;
	if (runs && points) {
		for (size_t i = 0; i < count; i++)
			if (results[i].step && results[i].planned > 1) {
				set_run(&results[i], &points[report.run_count],
					&runs[report.run_count]);
				report.run_count++;
			}
		err = report_write(&report, to);
	}
	free(runs);
	free(points);
	return err;
}
