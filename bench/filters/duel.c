/* duel.c - two filters that take turns at the same lookups.
 *
 * A round is a slice of keys asked of one filter, then of the other; the order changes from round
 * to round. Only two filters share the caches, and a slow moment of the machine falls on both or
 * on one round. The slice's keys are read before each turn: else they would be in cache for the
 * second alone. They are others in each round of any row, until all job->queries of them were used:
 * asked again soon, a key would find its lines in cache. For the same reason lookups without a
 * clock come before those with one: copying has left more of the filter copied last in cache. */
#include "duel.h"

#include <math.h>
#include <stdlib.h>

#include "seat.h"

/* ---- times ---------------------------------------------------------------- */

struct times {
	double *ours, *theirs, *ratios;
	size_t count;
};

static struct times create_times(const struct job *job)
{
	return (struct times){
		.ours = bench_alloc(job->rounds, sizeof(double)),
		.theirs = bench_alloc(job->rounds, sizeof(double)),
		.ratios = bench_alloc(job->rounds, sizeof(double)),
	};
}

static void add_round(struct times *times, double ours, double theirs)
{
	times->ours[times->count] = ours;
	times->theirs[times->count] = theirs;
	times->ratios[times->count++] = ours / theirs;
}

static void finish_times(struct times *times, struct duel_cell *cell)
{
	cell->measured = times->count > 0 && !isnan(times->ratios[0]);
	if (cell->measured) {
		cell->ours = bench_quartiles(times->ours, times->count);
		cell->theirs = bench_quartiles(times->theirs, times->count);
		cell->ratio = bench_quartiles(times->ratios, times->count);
	}
	free(times->ours);
	free(times->theirs);
	free(times->ratios);
}

/* ---- rounds --------------------------------------------------------------- */

static const struct row {
	const char *part;
	enum loop loop;
	bool present;
} rows[DUEL_TURN] = {
	[DUEL_NEGATIVE] = { "lookup", LOOP_INDEPENDENT, false },
	[DUEL_CHAINED] = { "lookup", LOOP_CHAINED, false },
	[DUEL_FENCED] = { "lookup", LOOP_FENCED, false },
	[DUEL_POSITIVE] = { "lookup", LOOP_INDEPENDENT, true },
	[DUEL_BATCH_NEGATIVE] = { "batch", LOOP_BATCH, false },
	[DUEL_BATCH_POSITIVE] = { "batch", LOOP_BATCH, true },
};

static void read_keys(const struct bench_key *keys, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += keys[i].words[0] ^ keys[i].words[1];
	bench_sink += sum;
}

static double take_turn(const struct job *job, int row, const struct seat *seat,
			const struct bench_key *keys)
{
	const struct contender_type *type = seat->contender->type;
	struct job slice = *job;

	slice.queries = row == DUEL_TURN ? job->slice / TURN : job->slice;
	read_keys(keys, slice.queries);
	if (row == DUEL_TURN)
		return type->time_turn(&slice, seat->filters, keys);
	return type->time(&slice, rows[row].loop, seat->filters[0], keys);
}

/* The two filters, and how many slices of missing and of present keys were asked. */
struct session {
	struct seat ours, theirs;
	size_t asked[2];
};

static const struct bench_key *next_slice(const struct job *job, struct session *session, int row)
{
	const bool present = row < DUEL_TURN && rows[row].present;
	const size_t slices = job->queries / job->slice;
	const size_t at = session->asked[present]++ % slices;

	return (present ? job->present : job->missing) + at * job->slice;
}

/* `times` may be NULL: a warm-up. */
static void run_rounds(const struct job *job, int row, struct session *session, size_t rounds,
		       struct times *times)
{
	for (size_t i = 0; i < rounds; i++) {
		const struct bench_key *keys = next_slice(job, session, row);
		double mine, other;

		if (i % 2 == 0) {
			mine = take_turn(job, row, &session->ours, keys);
			other = take_turn(job, row, &session->theirs, keys);
		} else {
			other = take_turn(job, row, &session->theirs, keys);
			mine = take_turn(job, row, &session->ours, keys);
		}
		if (times != NULL)
			add_round(times, mine, other);
	}
}

#define MAX_WARM_UP ((size_t)1 << 20)

/* As many lookups as the larger filter has lines, or a million. */
static void warm_up(const struct job *job, struct session *session)
{
	const struct seat *larger = session->ours.mapped > session->theirs.mapped ?
				    &session->ours : &session->theirs;
	const size_t lines = larger->mapped / 64;
	const size_t lookups = lines < MAX_WARM_UP ? lines : MAX_WARM_UP;

	run_rounds(job, larger->count == TURN ? DUEL_TURN : DUEL_NEGATIVE, session,
		   lookups / job->slice + 1, NULL);
}

/* Each place is new memory: at 10 million keys RocksDB's batches of a Bloom filter take 16 ns a key
 * in one place and 29 in the next, for as long as they stay there. */
static size_t rounds_of(const struct job *job, uint64_t place)
{
	return (size_t)(job->rounds * (place + 1) / job->places -
			job->rounds * place / job->places);
}

static void run_rows(const struct job *job, struct duel *duel, const struct made *ours,
		     const struct made *theirs, size_t count, const bool *wanted)
{
	struct times times[DUEL_ROWS];
	struct session session = { .asked = { 0, 0 } };

	for (int row = 0; row < DUEL_ROWS; row++)
		if (wanted[row])
			times[row] = create_times(job);
	for (uint64_t place = 0; place < job->places; place++) {
		seat_take(job, duel->ours, ours, count, duel->our_offset, &session.ours);
		seat_take(job, duel->theirs, theirs, count, duel->their_offset, &session.theirs);
		warm_up(job, &session);
		for (int row = 0; row < DUEL_ROWS; row++)
			if (wanted[row])
				run_rounds(job, row, &session, rounds_of(job, place), &times[row]);
		seat_leave(&session.ours);
		seat_leave(&session.theirs);
	}
	for (int row = 0; row < DUEL_ROWS; row++)
		if (wanted[row])
			finish_times(&times[row], &duel->rows[row]);
}

void duel_lookups(const struct job *job, struct duel *duel)
{
	bool wanted[DUEL_ROWS] = { false };
	bool any = false;

	for (int row = 0; row < DUEL_TURN; row++) {
		wanted[row] = job_has(job, rows[row].part);
		any = any || wanted[row];
	}
	if (any)
		run_rows(job, duel, &duel->ours->made, &duel->theirs->made, 1, wanted);
}

void duel_turn(const struct job *job, struct duel *duel, const struct made *ours,
	       const struct made *theirs)
{
	const bool wanted[DUEL_ROWS] = { [DUEL_TURN] = true };

	run_rows(job, duel, ours, theirs, TURN, wanted);
}
