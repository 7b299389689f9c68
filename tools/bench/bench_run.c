/* bench_run.c - see bench_run.h. */
#define _GNU_SOURCE
#include "bench_run.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bench/bench_util.h"
#include "bench_cold.h"
#include "bench_worker.h"

#define PROGRESS_NANOSECONDS 200000000

/* ---- the database ------------------------------------------------------- */

struct adoption {
	struct bench *bench;
	uint64_t keys;
	bool foreign;
};

static bool adopt_pair(void *arg, const void *key, size_t key_size, const void *value,
		       size_t value_size)
{
	struct adoption *adoption = arg;
	struct bench *bench = adoption->bench;
	const struct keyspace *keyspace = bench->keyspace;
	uint64_t index;

	if (!keyspace_find(keyspace, key, key_size, &index) ||
	    !truth_adopt(&bench->truth, index, value, value_size)) {
		adoption->foreign = true;
		return false;
	}
	if (index >= keyspace->count && index < keyspace->count + keyspace->inserts &&
	    index - keyspace->count >= atomic_load(&bench->inserted))
		atomic_store(&bench->inserted, index - keyspace->count + 1);
	adoption->keys++;
	return true;
}

/* A database from before: what is in it is true, if it is of our making. */
static bool adopt_database(struct bench *bench, struct failure *failure)
{
	const struct engine_kind *kind = bench->options->engine;
	struct adoption adoption = { .bench = bench };
	struct session *session = kind->begin(bench->engine, failure);
	bool good = session && kind->scan(session, "", 0, SIZE_MAX, adopt_pair, &adoption, failure);

	if (session)
		kind->end(session);
	if (good && adoption.foreign)
		return fail(failure,
			    "the database in '%s' holds something that this benchmark did not "
			    "write: give another --db, or the --seed, --num, --key_size, "
			    "--value_size and --keys it was filled with",
			    bench->engine_options.path);
	return good;
}

bool bench_start(struct bench *bench, struct failure *failure)
{
	const struct engine_kind *kind = bench->options->engine;

	atomic_store(&bench->inserted, 0);
	if (!truth_init(&bench->truth, bench->keyspace, (size_t)bench->options->value_size))
		return fail(failure, "no memory for a byte for each of %llu keys",
			    (unsigned long long)keyspace_room(bench->keyspace));
	id_set_init(&bench->mistakes);
	bench->engine = kind->open(&bench->engine_options, failure);
	if (!bench->engine || (kind->persistent && !adopt_database(bench, failure))) {
		struct failure ignored = { .text = "" };

		bench_end(bench, &ignored);
		return false;
	}
	return true;
}

bool bench_end(struct bench *bench, struct failure *failure)
{
	bool good = true;

	if (bench->engine)
		good = bench->options->engine->close(bench->engine, failure);
	bench->engine = NULL;
	id_set_fini(&bench->mistakes);
	truth_fini(&bench->truth);
	return good;
}

/* ---- threads ------------------------------------------------------------ */

struct crew {
	struct bench *bench;
	struct workload workload;
	struct worker **workers;
	pthread_t *threads;
	unsigned count, started;
	atomic_bool stop; /* one of them has failed */
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool go;
	unsigned running;
};

struct seat {
	struct crew *crew;
	struct worker *worker;
};

static void *run_seat(void *arg)
{
	struct seat *seat = arg;
	struct crew *crew = seat->crew;
	struct worker *worker = seat->worker;
	const struct engine_kind *kind = crew->bench->options->engine;

	worker->session = kind->begin(crew->bench->engine, &worker->failure);
	worker->failed = !worker->session;
	pthread_mutex_lock(&crew->lock);
	while (!crew->go)
		pthread_cond_wait(&crew->change, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
	if (worker->session) {
		worker_run(worker, &crew->stop);
		kind->end(worker->session);
	}
	if (worker->failed)
		atomic_store(&crew->stop, true);
	pthread_mutex_lock(&crew->lock);
	crew->running--;
	pthread_cond_broadcast(&crew->change);
	pthread_mutex_unlock(&crew->lock);
	free(seat);
	return NULL;
}

static struct worker *create_worker(struct crew *crew, unsigned number)
{
	const size_t size = (size_t)crew->bench->options->value_size + 8;
	struct worker *worker = wn__calloc(1, sizeof(*worker) + 2 * size);

	if (!worker)
		return NULL;
	worker->bench = crew->bench;
	worker->value = (char *)(worker + 1);
	worker->answer = worker->value + size;
	worker->curve_count = CURVE_POINTS;
	if (crew->workload.ops < worker->curve_count * crew->count)
		worker->curve_count = 1;
	histogram_init(&worker->latency);
	stream_init(&worker->stream, &crew->workload, number, crew->count);
	worker->first = worker->stream.next;
	return worker;
}

static bool start_worker(struct crew *crew)
{
	struct seat *seat = wn__alloc(sizeof(*seat));
	struct worker *worker = create_worker(crew, crew->started);

	if (seat && worker) {
		*seat = (struct seat){ crew, worker };
		crew->workers[crew->started] = worker;
		if (pthread_create(&crew->threads[crew->started], NULL, run_seat, seat) == 0) {
			crew->started++;
			return true;
		}
		crew->workers[crew->started] = NULL;
	}
	free(seat);
	free(worker);
	return false;
}

/* ---- progress ----------------------------------------------------------- */

static uint64_t count_done(const struct crew *crew)
{
	uint64_t done = 0;

	for (unsigned i = 0; i < crew->started; i++)
		done += atomic_load_explicit(&crew->workers[i]->done, memory_order_relaxed);
	return done;
}

static void show_progress(const struct crew *crew, const char *label, double seconds)
{
	const uint64_t done = count_done(crew);
	const double rate = (double)done / seconds;

	fprintf(stderr, "\r%s %s: %.0f%% of %llu, %.0f/s, %.0f s left \033[K", label,
		crew->bench->engine_options.filter,
		100.0 * (double)done / (double)crew->workload.ops,
		(unsigned long long)crew->workload.ops, rate,
		rate > 0 ? (double)(crew->workload.ops - done) / rate : 0.0);
}

static void wait_for_crew(struct crew *crew, const char *label)
{
	const uint64_t start = bench_now();

	pthread_mutex_lock(&crew->lock);
	crew->running = crew->started;
	crew->go = true;
	pthread_cond_broadcast(&crew->change);
	while (crew->running > 0) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += PROGRESS_NANOSECONDS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		if (pthread_cond_timedwait(&crew->change, &crew->lock, &until) == ETIMEDOUT &&
		    crew->bench->progress)
			show_progress(crew, label, (double)(bench_now() - start) / 1e9);
	}
	pthread_mutex_unlock(&crew->lock);
	if (crew->bench->progress)
		fputs("\r\033[K", stderr);
}

/* ---- sums --------------------------------------------------------------- */

const double latency_percents[LATENCY_POINTS] = { 0,  1,  5,    10,   20,    30,   40,     50,  60,
						   70, 80, 90, 95, 99, 99.9, 99.99, 100 };

static void sum_latency(const struct histogram *latency, struct result *resultp)
{
	for (size_t i = 0; i < LATENCY_POINTS; i++)
		resultp->latency_us[i] = histogram_percentile(latency, latency_percents[i]) / 1e3;
	resultp->p50_us = histogram_percentile(latency, 50) / 1e3;
	resultp->p95_us = histogram_percentile(latency, 95) / 1e3;
	resultp->p99_us = histogram_percentile(latency, 99) / 1e3;
	resultp->p999_us = histogram_percentile(latency, 99.9) / 1e3;
	resultp->mean_us = histogram_mean(latency) / 1e3;
	resultp->max_us = (double)latency->max / 1e3;
}

static void sum_crew(const struct crew *crew, struct result *resultp)
{
	struct histogram *latency = &crew->workers[0]->latency;
	uint64_t first = UINT64_MAX, last = 0, cpu = 0;

	for (unsigned i = 0; i < crew->started; i++) {
		const struct worker *worker = crew->workers[i];

		if (i > 0)
			histogram_merge(latency, &worker->latency);
		first = worker->started < first ? worker->started : first;
		last = worker->ended > last ? worker->ended : last;
		cpu += worker->cpu;
		resultp->reads += worker->reads;
		resultp->writes += worker->writes;
		resultp->scanned += worker->scanned;
		resultp->found += worker->found;
		resultp->wrong += worker->wrong;
		resultp->queries += worker->queries;
		resultp->positives += worker->positives;
		resultp->false_positives += worker->false_positives;
		resultp->repeated += worker->repeated;
		resultp->block_reads += worker->block_reads;
		for (unsigned p = 0; p < CURVE_POINTS; p++)
			resultp->curve[p] += worker->curve[p];
		resultp->curve_count = worker->curve_count;
	}
	resultp->ops = count_done(crew);
	resultp->seconds = last > first ? (double)(last - first) / 1e9 : 0.0;
	resultp->cpu_seconds = (double)cpu / 1e9;
	resultp->interrupted = resultp->ops < crew->workload.ops;
	if (resultp->interrupted)
		resultp->curve_count = (unsigned)((unsigned __int128)resultp->curve_count *
						  resultp->ops / crew->workload.ops);
	sum_latency(latency, resultp);
}

static bool run_crew(struct crew *crew, const char *label, struct result *resultp,
		     struct failure *failure)
{
	bool good = true;

	while (crew->started < crew->count && start_worker(crew))
		;
	if (crew->started < crew->count) {
		fail(failure, "only %u of %u threads could be started", crew->started, crew->count);
		atomic_store(&crew->stop, true);
		good = false;
	}
	wait_for_crew(crew, label);
	for (unsigned i = 0; i < crew->started; i++) {
		pthread_join(crew->threads[i], NULL);
		if (good && crew->workers[i]->failed) {
			*failure = crew->workers[i]->failure;
			good = false;
		}
	}
	if (crew->started > 0)
		sum_crew(crew, resultp);
	for (unsigned i = 0; i < crew->started; i++) {
		stream_fini(&crew->workers[i]->stream);
		free(crew->workers[i]);
	}
	return good;
}

static uint64_t count_ops(const struct bench *bench, const struct bench_kind *kind)
{
	const struct bench_options *options = bench->options;

	switch (kind->type) {
	case WORK_FILL_SEQUENTIAL:
	case WORK_FILL_RANDOM:
		return bench->keyspace->count;
	case WORK_REPLAY:
		return bench->trace_count;
	default:
		return options->reads > 0 ? options->reads : bench->keyspace->count;
	}
}

static bool run_operations(struct bench *bench, size_t number, struct result *resultp,
			   struct failure *failure)
{
	const struct bench_options *options = bench->options;
	const struct bench_step *step = &options->steps[number];
	struct crew crew = {
		.bench = bench,
		.count = (unsigned)options->threads,
		.workload = {
			.kind = step->kind,
			.keyspace = bench->keyspace,
			.trace = bench->trace,
			.dist = step->dist,
			.ops = count_ops(bench, step->kind),
			.clients = bench->keyspace->negatives.count > 0 ? 1 : options->clients,
			.seed = bench_mix(options->query_seed + bench_mix(number + 1)),
			.absent_share = options->missing_share,
		},
	};
	uint64_t disk;
	bool good;

	if (!workload_init(&crew.workload))
		return fail(failure, "%s: this distribution over %llu keys cannot be had",
			    step->label, (unsigned long long)bench->keyspace->count);
	crew.workers = wn__calloc(crew.count, sizeof(struct worker *));
	crew.threads = wn__calloc(crew.count, sizeof(*crew.threads));
	pthread_mutex_init(&crew.lock, NULL);
	pthread_cond_init(&crew.change, NULL);
	resultp->planned = crew.workload.ops;
	disk = cold_bytes_read();
	good = crew.workers && crew.threads ? run_crew(&crew, step->label, resultp, failure) :
					      fail(failure, "no memory for threads");
	resultp->disk_bytes = cold_bytes_read() - disk;
	pthread_mutex_destroy(&crew.lock);
	pthread_cond_destroy(&crew.change);
	free(crew.workers);
	free(crew.threads);
	return good;
}

/* ---- one benchmark ------------------------------------------------------ */

static bool reopen(struct bench *bench, struct failure *failure)
{
	const struct engine_kind *kind = bench->options->engine;
	bool good;

	if (!kind->persistent)
		return true;
	good = kind->close(bench->engine, failure);
	bench->engine = good ? kind->open(&bench->engine_options, failure) : NULL;
	return bench->engine;
}

/* Benchmarks that are one call. */
static bool run_call(struct bench *bench, enum work_type type, struct result *resultp,
		     struct failure *failure)
{
	const struct engine_kind *kind = bench->options->engine;
	const uint64_t start = bench_now();
	bool good = true;

	if (type == WORK_FLUSH)
		good = kind->flush(bench->engine, failure);
	else if (type == WORK_COMPACT)
		good = kind->compact(bench->engine, failure);
	else if (type == WORK_REOPEN)
		good = reopen(bench, failure);
	else
		kind->print_stats(bench->engine, bench->out);
	resultp->planned = resultp->ops = 1;
	resultp->seconds = (double)(bench_now() - start) / 1e9;
	resultp->p50_us = resultp->p95_us = resultp->p99_us = resultp->p999_us =
		resultp->mean_us = resultp->max_us = resultp->seconds * 1e6;
	for (size_t i = 0; i < LATENCY_POINTS; i++)
		resultp->latency_us[i] = resultp->seconds * 1e6;
	return good;
}

/* Benchmarks that write leave everything in tables and nothing under way, so that what comes
 * after them finds the same with every filter. */
static bool settle(struct bench *bench, struct result *resultp, struct failure *failure)
{
	const uint64_t start = bench_now();
	bool good = bench->options->engine->flush(bench->engine, failure);

	resultp->settle_seconds = (double)(bench_now() - start) / 1e9;
	return good;
}

static void subtract_sums(struct engine_stats *stats, const struct engine_stats *before)
{
	stats->adaptations -= before->adaptations;
	stats->unfixable -= before->unfixable;
	stats->map_misses -= before->map_misses;
	stats->queue_drops -= before->queue_drops;
	stats->carried_over -= before->carried_over;
}

bool bench_run(struct bench *bench, size_t number, unsigned repeat, struct result *resultp,
	       struct failure *failure)
{
	const struct bench_step *step = &bench->options->steps[number];
	const struct engine_kind *kind = bench->options->engine;
	const enum work_type type = step->kind->type;
	/* A database that is opened again counts from 0. */
	const bool fresh = type == WORK_REOPEN && kind->persistent;
	struct engine_stats before = { 0 };
	bool good;

	*resultp = (struct result){
		.step = step,
		.engine = kind->name,
		.filter = bench->engine_options.filter,
		.threads = (unsigned)bench->options->threads,
		.repeat = repeat,
	};
	if (!fresh)
		kind->stats(bench->engine, &before);
	if (type == WORK_FLUSH || type == WORK_COMPACT || type == WORK_REOPEN ||
	    type == WORK_STATS)
		good = run_call(bench, type, resultp, failure);
	else
		good = run_operations(bench, number, resultp, failure);
	if (good && bench_kind_writes(step->kind))
		good = settle(bench, resultp, failure);
	/* New tables err anew. */
	if (bench_kind_writes(step->kind) || type == WORK_FLUSH || type == WORK_COMPACT)
		id_set_clear(&bench->mistakes);
	if (bench->engine) {
		kind->stats(bench->engine, &resultp->stats);
		if (!fresh)
			subtract_sums(&resultp->stats, &before);
	}
	return good;
}
