/* living.c - the living AdaptiveQF: insert, query, adapt, delete, merge,
 * grow, and inserts by two threads. Hashing the key is part of inserts and
 * lookups; the other operations get hashes, as they do in use. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <winnow/aqf.h>

#include "base/sort.h"
#include "bench/bench_filters.h"

static struct wn_aqf_options aqf_options(const struct job *job, size_t capacity)
{
	return (struct wn_aqf_options){
		.capacity = capacity,
		.remainder_bits = (unsigned)job->remainder_bits,
		.load = job->load,
	};
}

static struct wn_aqf *create_aqf(const struct job *job)
{
	const struct wn_aqf_options options = aqf_options(job, job->num);
	struct wn_aqf *aqf;

	bench_ok(wn_aqf_create(&options, &aqf), "creating a filter");
	return aqf;
}

static void insert_keys(const struct job *job, struct wn_aqf *aqf, size_t first, size_t last)
{
	for (size_t i = first; i < last; i++) {
		const struct wn_hash hash = wn_hash_key(job->secret, &job->keys[i], BENCH_KEY_SIZE);

		bench_ok(wn_aqf_insert(aqf, hash, NULL), "inserting");
	}
}

/* ---- insert, query, grow ------------------------------------------------ */

static bool query_living(const struct job *job, const void *aqf, const struct bench_key *key)
{
	return wn_aqf_query(aqf, wn_hash_key(job->secret, key, BENCH_KEY_SIZE), NULL);
}

static void batch_living(const struct job *job, const void *aqf, const struct bench_key *keys,
			 bool *answersp)
{
	struct wn_hash hashes[BATCH];

	for (size_t i = 0; i < BATCH; i++)
		hashes[i] = wn_hash_key(job->secret, &keys[i], BENCH_KEY_SIZE);
	wn_aqf_query_batch(aqf, hashes, BATCH, answersp);
}

static void report_living(const struct job *job, const char *row, double value)
{
	report_add(job->report, row, "ns", COLUMN_LIVING, value);
}

static void ask_living(const struct job *job, const struct wn_aqf *aqf)
{
	report_living(job, ROW_NEGATIVE, time_independent(job, query_living, aqf, job->missing));
	report_living(job, ROW_CHAINED, time_chained(job, query_living, aqf, job->missing));
#if HAVE_FENCE
	report_living(job, ROW_FENCED, time_fenced(job, query_living, aqf, job->missing));
#endif
	report_living(job, ROW_POSITIVE, time_independent(job, query_living, aqf, job->present));
	report_living(job, ROW_BATCH_NEGATIVE, time_batches(job, batch_living, aqf, job->missing));
	report_living(job, ROW_BATCH_POSITIVE, time_batches(job, batch_living, aqf, job->present));
}

static void check_keys(const struct job *job, const struct wn_aqf *aqf, const char *after)
{
	for (size_t i = 0; i < job->num; i++)
		if (!query_living(job, aqf, &job->keys[i]))
			bench_die("key %zu was denied after %s", i, after);
}

static double bits_per_key(const struct job *job, const struct wn_aqf *aqf)
{
	struct wn_aqf_info info;

	wn_aqf_describe(aqf, &info);
	return 8.0 * (double)info.bytes / (double)job->num;
}

static void time_grow(const struct job *job, const struct wn_aqf *aqf, bool check)
{
	const uint64_t start = bench_now();
	struct wn_aqf *grown;

	bench_ok(wn_aqf_grow(aqf, &grown), "growing");
	report_living(job, "grow", per(start, bench_now(), job->num));
	if (check)
		check_keys(job, grown, "growing");
	wn_aqf_destroy(grown);
}

static void run_insert(const struct job *job, bool first)
{
	struct wn_aqf *aqf = create_aqf(job);
	const uint64_t start = bench_now();

	insert_keys(job, aqf, 0, job->num);
	report_living(job, "insert", per(start, bench_now(), job->num));
	ask_living(job, aqf);
	report_add(job->report, ROW_BITS, "bits", COLUMN_LIVING, bits_per_key(job, aqf));
	if (first) {
		check_keys(job, aqf, "inserting");
		if (job_has(job, "fpr"))
			report_add(job->report, ROW_FPR, "", COLUMN_LIVING,
				   measure_fpr(job, query_living, aqf));
	}
	time_grow(job, aqf, first);
	wn_aqf_destroy(aqf);
}

/* ---- adapt and delete --------------------------------------------------- */

/* A false positive and the fingerprint to blame for it. */
struct fault {
	struct wn_hash stored, query;
	struct wn_match match;
};

static struct wn_aqf *bulk_load(const struct job *job, const struct wn_hash *sorted, size_t count,
				size_t capacity, unsigned more_bits)
{
	struct wn_aqf_options options = aqf_options(job, capacity);
	struct wn_aqf *aqf;

	options.remainder_bits += more_bits;
	bench_ok(wn_aqf_bulk_load(&options, sorted, count, &aqf), "bulk-loading");
	return aqf;
}

static size_t find_faults(const struct job *job, const struct wn_aqf *aqf,
			  const struct wn_hash *sorted, struct fault *faults, size_t wanted)
{
	struct bench_sorted map = { .aqf = aqf, .hashes = sorted, .count = job->num };
	/* About one query in 540 is one; give up on a filter that has far fewer. */
	const uint64_t limit = wanted * (UINT64_C(16) << job->remainder_bits);
	size_t found = 0;

	for (uint64_t i = 0; i < limit && found < wanted; i++) {
		const struct bench_key key = bench_key(job->seed, BENCH_SPARE, i);
		const struct wn_hash query = wn_hash_key(job->secret, &key, BENCH_KEY_SIZE);
		struct fault *fault = &faults[found];

		if (!wn_aqf_query(aqf, query, &fault->match))
			continue;
		fault->query = query;
		bench_ok(bench_fetch_sorted(&map, fault->match.minirun, fault->match.rank,
					    &fault->stored), "finding the stored hash");
		found++;
	}
	return found;
}

static void check_faults(const struct wn_aqf *aqf, const struct fault *faults, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct wn_match match;

		if (wn_aqf_query(aqf, faults[i].query, &match) &&
		    match.rank == faults[i].match.rank)
			bench_die("false positive %zu came back", i);
	}
}

/* Slots beyond insert_limit are the room for extensions; leave some. */
static size_t count_adapts(const struct job *job, const struct wn_aqf *aqf)
{
	struct wn_aqf_info info;
	uint64_t room;

	wn_aqf_describe(aqf, &info);
	room = info.adapt_limit > info.used_slots ? info.adapt_limit - info.used_slots : 0;
	return (size_t)(job->adapts < room / 2 ? job->adapts : room / 2);
}

static void time_adapt(const struct job *job, struct wn_aqf *aqf, const struct fault *faults,
		       size_t count)
{
	const uint64_t start = bench_now();

	for (size_t i = 0; i < count; i++)
		bench_ok(wn_aqf_adapt(aqf, faults[i].stored, faults[i].query, faults[i].match),
			 "adapting");
	if (count > 0)
		report_living(job, "adapt", per(start, bench_now(), count));
	check_faults(aqf, faults, count);
}

static void report_extended(const struct job *job, const struct wn_aqf *aqf)
{
	void *block;
	size_t size;

	bench_ok(wn_aqf_freeze(aqf, job->secret, &block, &size), "freezing");
	report_add(job->report, "bits per key, adapted block", "bits", COLUMN_FROZEN,
		   8.0 * (double)size / (double)job->num);
	report_add(job->report, "bits per key, adapted block", "bits", COLUMN_LIVING,
		   bits_per_key(job, aqf));
	free(block);
}

/* The first hash of each minirun, so that its rank is 0 whatever was deleted
 * before; in random order. */
static size_t choose_victims(const struct job *job, const struct wn_aqf *aqf,
			     const struct wn_hash *sorted, struct wn_hash *victims, size_t wanted)
{
	uint64_t state = job->seed;
	size_t count = 0;
	const size_t step = job->num / wanted > 0 ? job->num / wanted : 1;

	for (size_t i = step; i < job->num && count < wanted; i += step)
		if (wn_aqf_minirun(aqf, sorted[i]) != wn_aqf_minirun(aqf, sorted[i - 1]))
			victims[count++] = sorted[i];
	for (size_t i = count; i > 1; i--) {
		const size_t j = (size_t)bench_random_below(&state, i);
		const struct wn_hash swap = victims[i - 1];

		victims[i - 1] = victims[j];
		victims[j] = swap;
	}
	return count;
}

static void time_delete(const struct job *job, struct wn_aqf *aqf, const struct wn_hash *sorted)
{
	const size_t wanted = job->num < 1000000 ? job->num : 1000000;
	struct wn_hash *victims = bench_alloc(wanted, sizeof(*victims));
	const size_t count = choose_victims(job, aqf, sorted, victims, wanted);
	const uint64_t start = bench_now();

	for (size_t i = 0; i < count; i++)
		bench_ok(wn_aqf_delete(aqf, victims[i], wn_aqf_locate(aqf, victims[i]), NULL),
			 "deleting");
	if (count > 0)
		report_living(job, "delete", per(start, bench_now(), count));
	free(victims);
}

static void run_adapt(const struct job *job, const struct wn_hash *sorted, bool first)
{
	const uint64_t start = bench_now();
	struct wn_aqf *aqf = bulk_load(job, sorted, job->num, job->num, 0);
	const size_t wanted = count_adapts(job, aqf);
	struct fault *faults;
	size_t count;

	report_living(job, "bulk load, sorted hashes", per(start, bench_now(), job->num));
	faults = bench_alloc(wanted, sizeof(*faults));
	count = find_faults(job, aqf, sorted, faults, wanted);
	time_adapt(job, aqf, faults, count);
	free(faults);
	report_extended(job, aqf);
	if (first)
		check_keys(job, aqf, "adapting");
	time_delete(job, aqf, sorted);
	wn_aqf_destroy(aqf);
}

/* ---- merge -------------------------------------------------------------- */

/* Two filters of half the slots and one remainder bit more, every other hash in
 * each: the merged one has the size that the others of this table have. */
static void run_merge(const struct job *job, const struct wn_hash *sorted, bool first)
{
	const size_t half = (job->num + 1) / 2;
	struct wn_hash *part = bench_alloc(half, sizeof(*part));
	struct wn_aqf *parts[2], *merged;
	uint64_t start;

	for (size_t p = 0; p < 2; p++) {
		size_t count = 0;

		for (size_t i = p; i < job->num; i += 2)
			part[count++] = sorted[i];
		parts[p] = bulk_load(job, part, count, half, 1);
	}
	free(part);
	start = bench_now();
	bench_ok(wn_aqf_merge(parts[0], parts[1], &merged), "merging");
	report_living(job, "merge of two halves", per(start, bench_now(), job->num));
	if (first)
		check_keys(job, merged, "merging");
	wn_aqf_destroy(merged);
	wn_aqf_destroy(parts[0]);
	wn_aqf_destroy(parts[1]);
}

/* ---- threads ------------------------------------------------------------ */

#define PASSES 10000 /* even */

struct worker {
	const struct job *job;
	struct wn_aqf *aqf;
	size_t first, last;
	pthread_barrier_t *barrier;
	uint64_t *turn; /* shared by two workers; NULL: there is one */
	unsigned place;
	double line;    /* ns */
	uint64_t start, end, ran;
	pthread_t thread;
};

/* Nanoseconds for a cache line to come from the core that wrote it. An insert by one of two
 * threads waits for one in about every second case, and where the two cores have no cache in
 * common it takes several times as long: a virtual machine's cores may have one today and not
 * tomorrow. The first half of the passes is not timed: both threads come to run in it. */
static double pass_line(uint64_t *turn, unsigned place)
{
	uint64_t start = 0;

	for (uint64_t mine = place; mine < 2 * PASSES; mine += 2) {
		if (mine == PASSES + place)
			start = bench_now();
		/* Give way now and then: there may be one core. */
		for (unsigned spins = 1; __atomic_load_n(turn, __ATOMIC_ACQUIRE) != mine; spins++)
			if (spins % 4096 == 0)
				sched_yield();
		__atomic_store_n(turn, mine + 1, __ATOMIC_RELEASE);
	}
	return per(start, bench_now(), PASSES);
}

static uint64_t thread_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	pthread_barrier_wait(worker->barrier);
	if (worker->turn)
		worker->line = pass_line(worker->turn, worker->place);
	worker->ran = thread_time();
	worker->start = bench_now();
	insert_keys(worker->job, worker->aqf, worker->first, worker->last);
	worker->end = bench_now();
	worker->ran = thread_time() - worker->ran;
	return NULL;
}

/* From the first one's start to the last one's end, by their own clocks: this program's main
 * thread may have had to wait for a core, and missed the start by a millisecond or two. */
static void report_workers(const struct job *job, const struct worker *workers, unsigned count,
			   const char *row)
{
	uint64_t start = workers[0].start, end = workers[0].end;

	for (unsigned i = 0; i < count; i++) {
		const struct worker *worker = &workers[i];

		start = worker->start < start ? worker->start : start;
		end = worker->end > end ? worker->end : end;
		if ((double)worker->ran < 0.95 * (double)(worker->end - worker->start))
			fprintf(stderr, "%s: other processes had a core meanwhile\n", row);
	}
	report_living(job, row, per(start, end, job->num));
}

static void run_threads(const struct job *job, unsigned count, const char *row, bool first)
{
	struct worker workers[2];
	struct wn_aqf *aqf = create_aqf(job);
	_Alignas(64) uint64_t turn[8] = { 0 }; /* a line of its own */
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, count);
	for (unsigned i = 0; i < count; i++) {
		workers[i] = (struct worker){
			.job = job,
			.aqf = aqf,
			.first = job->num * i / count,
			.last = job->num * (i + 1) / count,
			.barrier = &barrier,
			.turn = count == 2 ? turn : NULL,
			.place = i,
		};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			bench_die("cannot start a thread");
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	report_workers(job, workers, count, row);
	if (count == 2)
		report_living(job, "  a cache line, core to core", workers[0].line);
	pthread_barrier_destroy(&barrier);
	if (first)
		check_keys(job, aqf, row);
	wn_aqf_destroy(aqf);
}

/* ---- all ---------------------------------------------------------------- */

static struct wn_hash *sort_hashes(const struct job *job)
{
	struct wn_hash *sorted = bench_alloc(job->num, sizeof(*sorted));

	for (size_t i = 0; i < job->num; i++)
		sorted[i] = wn_hash_key(job->secret, &job->keys[i], BENCH_KEY_SIZE);
	bench_ok(wn__sort_hashes(sorted, job->num), "sorting");
	for (size_t i = 1; i < job->num; i++) {
		if (wn_hash_compare(sorted[i - 1], sorted[i]) == 0)
			bench_die("two keys share a hash");
	}
	return sorted;
}

void run_living(struct job *job)
{
	const bool living = job_has(job, "living"), merge = job_has(job, "merge");
	struct wn_hash *sorted = living || merge ? sort_hashes(job) : NULL;

	for (uint64_t repetition = 0; repetition < job->repeat; repetition++) {
		const bool first = repetition == 0;

		if (!living && !merge && !job_has(job, "threads"))
			break;
		fprintf(stderr, "%zu keys, living filter, repetition %llu\n", job->num,
			(unsigned long long)repetition + 1);
		if (living) {
			run_insert(job, first);
			run_adapt(job, sorted, first);
		}
		if (merge)
			run_merge(job, sorted, first);
		if (job_has(job, "threads")) {
			run_threads(job, 1, ROW_THREAD_1, first);
			run_threads(job, 2, ROW_THREAD_2, first);
		}
	}
	free(sorted);
}
