/* frozen.c - filters as an SSTable has them: built once, then asked. */
#include <math.h>
#include <stdlib.h>

#include "duel.h"
#include "seat.h"

/* ---- building ------------------------------------------------------------- */

/* Once without a clock, for what is asked afterwards; winnow first, so that Bloom can have as
 * many bits. The heap is then warm for whoever comes first with one. */
static void make_all(const struct job *job, struct contender_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct contender *contender = &list->all[i];

		if (contender->type == &contender_bloom && contender->bits == 0)
			contender->bits = contender_bits(job, &list->all[0]);
		fprintf(stderr, "%zu keys: building %s\n", job->num, contender->name);
		contender->type->make(job, contender, job->keys, job->num, &contender->made);
	}
}

struct build_times {
	double adding[REPORT_MAX_REPEAT], finishing[REPORT_MAX_REPEAT], all[REPORT_MAX_REPEAT];
};

/* Who begins changes from repetition to repetition, and so does the direction. */
static size_t turn_of(size_t at, size_t repetition, size_t count)
{
	const size_t step = repetition % 2 == 0 ? at : count - 1 - at;

	return (step + repetition / 2) % count;
}

/* Small filters more often: the same number of keys takes about the same time. */
static size_t builds_of(const struct job *job)
{
	const size_t times = job->num < 10000000 ? 10000000 / job->num : 1;
	const size_t builds = job->repeat * times;

	return builds < REPORT_MAX_REPEAT ? builds : REPORT_MAX_REPEAT;
}

static void summarise(struct build_times *times, const struct build_times *ours, size_t count,
		      struct build_result *result)
{
	double ratios[REPORT_MAX_REPEAT], totals[REPORT_MAX_REPEAT];

	for (size_t i = 0; i < count; i++) {
		totals[i] = times->all[i];
		ratios[i] = ours->all[i] / times->all[i];
	}
	result->measured = result->total.measured = true;
	result->adding = bench_quartiles(times->adding, count);
	result->finishing = bench_quartiles(times->finishing, count);
	result->total.theirs = bench_quartiles(totals, count);
	result->total.ratio = bench_quartiles(ratios, count);
}

static void time_builds(const struct job *job, struct results *results)
{
	const size_t count = results->list.count, builds = builds_of(job);
	struct build_times times[MAX_CONTENDERS];

	for (size_t repetition = 0; repetition < builds; repetition++) {
		fprintf(stderr, "%zu keys: all builds, %zu of %zu\n", job->num, repetition + 1,
			builds);
		for (size_t i = 0; i < count; i++) {
			const size_t at = turn_of(i, repetition, count);
			const struct contender *contender = &results->list.all[at];
			struct made made;

			contender->type->make(job, contender, job->keys, job->num, &made);
			contender->type->unmake(&made);
			times[at].adding[repetition] = made.adding;
			times[at].finishing[repetition] = made.finishing;
			times[at].all[repetition] = made.adding + made.finishing;
		}
	}
	for (size_t i = 0; i < count; i++)
		summarise(&times[i], &times[0], builds, &results->builds[i]);
}

/* ---- checking ------------------------------------------------------------- */

/* Of large filters so many keys, spread over all. */
#define MAX_CHECKED ((size_t)10000000)

/* A benchmark of a filter that forgets keys is worth nothing. */
static void check_keys(const struct job *job, const struct contender *contender,
		       const void *filter)
{
	const size_t step = job->num > MAX_CHECKED ? job->num / MAX_CHECKED : 1;

	for (size_t i = 0; i + BATCH <= job->num; i += step * BATCH) {
		bool answers[BATCH];

		contender->type->batch(job, filter, &job->keys[i], answers);
		for (size_t j = 0; j < BATCH; j++)
			if (!answers[j] || !contender->type->query(job, filter, &job->keys[i + j]))
				bench_die("%s: key %zu was denied", contender->name, i + j);
	}
}

static void check_all(const struct job *job, struct contender_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct contender *contender = &list->all[i];
		struct seat seat;

		seat_take(job, contender, &contender->made, 1, MALLOC_OFFSET, &seat);
		check_keys(job, contender, seat.filters[0]);
		contender->fpr = NAN;
		if (job_has(job, "fpr"))
			contender->fpr = contender->type->time(job, LOOP_FPR, seat.filters[0],
							       NULL);
		seat_leave(&seat);
	}
}

/* ---- who meets whom -------------------------------------------------------- */

static void add_duel(struct results *results, const struct contender *theirs, unsigned our_offset,
		     unsigned their_offset)
{
	if (results->duel_count == MAX_DUELS)
		bench_die("too many offsets");
	results->duels[results->duel_count++] = (struct duel){
		.ours = &results->list.all[0],
		.theirs = theirs,
		.our_offset = our_offset,
		.their_offset = their_offset,
	};
}

/* The others lie as malloc() lays them; and Bloom filters as winnow's block does, too, where this
 * is not the same. */
static void add_duels(const struct job *job, struct results *results)
{
	for (size_t o = 0; o < job->offsets.count; o++) {
		const unsigned offset = (unsigned)job->offsets.values[o];

		for (size_t i = 1; i < results->list.count; i++) {
			const struct contender *theirs = &results->list.all[i];

			if (theirs->is_mainly || o == 0)
				add_duel(results, theirs, offset, MALLOC_OFFSET);
			if (theirs->is_mainly && offset != MALLOC_OFFSET)
				add_duel(results, theirs, offset, offset);
		}
	}
}

/* ---- filters in turn -------------------------------------------------------- */

static size_t turn_keys(const struct job *job)
{
	return job->turn_keys > 0 ? job->turn_keys : job->num / TURN;
}

/* Each has keys of its own. */
static void make_turn(const struct job *job, const struct contender *contender, struct made *made)
{
	const size_t count = turn_keys(job);

	for (size_t i = 0; i < TURN; i++) {
		struct bench_key *keys = bench_keys(job->seed, BENCH_STORED, i * count, count);

		contender->type->make(job, contender, keys, count, &made[i]);
		free(keys);
	}
}

static void unmake_turn(const struct contender *contender, struct made *made)
{
	for (size_t i = 0; i < TURN; i++)
		contender->type->unmake(&made[i]);
}

static void run_turns(const struct job *job, struct results *results)
{
	struct contender_list *list = &results->list;
	struct made ours[TURN], theirs[TURN];

	make_turn(job, &list->all[0], ours);
	for (size_t i = 1; i < list->count; i++) {
		if (!list->all[i].is_mainly)
			continue;
		fprintf(stderr, "%d filters of %zu keys: %s\n", TURN, turn_keys(job),
			list->all[i].name);
		make_turn(job, &list->all[i], theirs);
		for (size_t d = 0; d < results->duel_count; d++)
			if (results->duels[d].theirs == &list->all[i])
				duel_turn(job, &results->duels[d], ours, theirs);
		unmake_turn(&list->all[i], theirs);
	}
	unmake_turn(&list->all[0], ours);
}

/* ---- all -------------------------------------------------------------------- */

static bool has_work(const struct job *job)
{
	return job_has(job, "build") || job_has(job, "lookup") || job_has(job, "batch") ||
	       job_has(job, "turn") || job_has(job, "fpr");
}

static void run_all(const struct job *job, struct results *results)
{
	make_all(job, &results->list);
	check_all(job, &results->list);
	if (job_has(job, "build"))
		time_builds(job, results);
	add_duels(job, results);
	for (size_t i = 0; i < results->duel_count; i++)
		duel_lookups(job, &results->duels[i]);
	if (job_has(job, "turn") && turn_keys(job) > 0)
		run_turns(job, results);
}

void run_frozen(struct job *job)
{
	struct results results = { .duel_count = 0 };

	if (!has_work(job))
		return;
	contenders_init(job, &results.list);
	run_all(job, &results);
	results_print(job, &results);
	targets_print(job, &results);
	if (job->csv != NULL)
		results_csv(job, &results);
	for (size_t i = 0; i < results.list.count; i++)
		results.list.all[i].type->unmake(&results.list.all[i].made);
	contenders_fini(&results.list);
}
