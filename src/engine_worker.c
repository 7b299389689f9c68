/* engine_worker.c - the threads that write the reverse map and learn; see engine.h.
 *
 * Two of them. The keeper does jobs, in order (a run is put before the end of its table drops
 * it), and saves what was learned. To put a run takes as long as the store takes, and a RocksDB
 * that stalls its writers may take seconds: so the learner learns beside it, from runs that
 * still wait as well as from those that are stored. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <winnow/error.h>

#include "alloc.h"
#include "bits.h"
#include "engine.h"

/* Hashes that wait to be written. One run may always wait, however long it is. */
#define MAX_WAITING_BYTES ((uint64_t)64 << 20)

/* Kept of each hash beyond a lesson's bits. Without them one key in 250 or so is known too
 * badly to make a lesson of, and its false positives come again; with them one in 16 million.
 * They cost two bytes a key. */
#define SPARE_BITS 16

/* ---- the queue ---------------------------------------------------------- */

/* One that waits by a clock nobody sets. */
static bool init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;
	bool good;

	if (pthread_condattr_init(&attributes) != 0)
		return false;
	good = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
	       pthread_cond_init(condition, &attributes) == 0;
	pthread_condattr_destroy(&attributes);
	return good;
}

int wn__worker_init(struct wn__engine *engine, size_t queue_length)
{
	engine->feedback = wn__calloc(queue_length, sizeof(*engine->feedback));
	if (!engine->feedback)
		return ENOMEM;
	if (pthread_mutex_init(&engine->lock, NULL) != 0) {
		free(engine->feedback);
		return ENOMEM;
	}
	if (!init_condition(&engine->jobs)) {
		pthread_mutex_destroy(&engine->lock);
		free(engine->feedback);
		return ENOMEM;
	}
	/* Without attributes these cannot fail. */
	pthread_cond_init(&engine->reports, NULL);
	pthread_cond_init(&engine->idle, NULL);
	engine->feedback_length = queue_length;
	engine->last_job = &engine->first_job;
	return 0;
}

static void free_job(struct wn__job *job)
{
	free(job->hashes);
	free(job);
}

/* Under the lock, or with nobody else there. */
static struct wn__job *take_job(struct wn__engine *engine)
{
	struct wn__job *job = engine->first_job;

	engine->first_job = job->next;
	if (!engine->first_job)
		engine->last_job = &engine->first_job;
	if (job->hashes)
		engine->waiting_bytes -= job->run.key_count * sizeof(*job->hashes);
	return job;
}

void wn__worker_fini(struct wn__engine *engine)
{
	while (engine->first_job)
		free_job(take_job(engine));
	free(engine->feedback);
	free(engine->owned);
	wn__runs_destroy(engine->runs);
	pthread_cond_destroy(&engine->idle);
	pthread_cond_destroy(&engine->reports);
	pthread_cond_destroy(&engine->jobs);
	pthread_mutex_destroy(&engine->lock);
}

/* ---- what waits --------------------------------------------------------- */

/* With the lock held. */
static const struct wn__job *find_waiting(const struct wn__engine *engine,
					  const struct wn__run *run)
{
	const struct wn__job *job = engine->current_job;

	if (!job || !job->hashes || memcmp(job->run.id, run->id, WN_BLOCK_ID_SIZE) != 0) {
		job = engine->first_job;
		while (job && (!job->hashes ||
			       memcmp(job->run.id, run->id, WN_BLOCK_ID_SIZE) != 0))
			job = job->next;
	}
	return job;
}

bool wn__worker_is_waiting(struct wn__engine *engine, const struct wn__run *run)
{
	bool waiting;

	pthread_mutex_lock(&engine->lock);
	waiting = find_waiting(engine, run) != NULL;
	pthread_mutex_unlock(&engine->lock);
	return waiting;
}

static uint64_t minirun_of(const struct wn__run *run, struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, run->slots);

	return print.quotient << run->remainder_bits | print.hi >> (64 - run->remainder_bits);
}

/* Hashes are in the order of their miniruns. */
static int find_hash(const struct wn__job *job, uint64_t minirun, uint32_t rank,
		     struct wn_hash *hashp)
{
	uint64_t low = 0, high = job->run.key_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (minirun_of(&job->run, job->hashes[middle]) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	if (rank >= job->run.key_count - low ||
	    minirun_of(&job->run, job->hashes[low + rank]) != minirun)
		return WN_ERR_NOT_FOUND;
	*hashp = job->hashes[low + rank];
	return 0;
}

int wn__worker_lookup(struct wn__engine *engine, const struct wn__run *run, uint64_t minirun,
		      uint32_t rank, struct wn__run_entry *entryp)
{
	const struct wn__job *job;
	int err = WN_ERR_NOT_FOUND;

	pthread_mutex_lock(&engine->lock);
	job = find_waiting(engine, run);
	if (job && job->run.slots == run->slots && job->run.remainder_bits == run->remainder_bits)
		err = find_hash(job, minirun, rank, &entryp->hash);
	pthread_mutex_unlock(&engine->lock);
	entryp->fraction_bits = 128;
	return err;
}

/* ---- jobs come ---------------------------------------------------------- */

/* Takes the job, or frees it when it is refused. */
static bool append_job(struct wn__engine *engine, struct wn__job *job)
{
	uint64_t bytes = job->hashes ? job->run.key_count * sizeof(*job->hashes) : 0;
	bool room;

	pthread_mutex_lock(&engine->lock);
	room = !engine->stopping &&
	       (bytes == 0 || engine->waiting_bytes == 0 ||
		engine->waiting_bytes + bytes <= MAX_WAITING_BYTES);
	if (room) {
		engine->waiting_bytes += bytes;
		*engine->last_job = job;
		engine->last_job = &job->next;
		pthread_cond_signal(&engine->jobs);
	}
	pthread_mutex_unlock(&engine->lock);
	if (!room)
		free_job(job);
	return room;
}

void wn__worker_put(struct wn__engine *engine, const struct wn__run *run,
		    const struct wn_hash *hashes)
{
	struct wn__job *job;

	if (run->key_count == 0)
		return;
	job = wn__calloc(1, sizeof(*job));
	if (job)
		job->hashes = wn__alloc(run->key_count * sizeof(*hashes));
	if (job && job->hashes) {
		job->run = *run;
		memcpy(job->hashes, hashes, run->key_count * sizeof(*hashes));
		if (append_job(engine, job))
			return;
	} else {
		free(job);
	}
	wn__engine_count(engine, WN__RUNS_LOST, 1);
}

static void forget_filter(struct wn__engine *engine, const unsigned char *id)
{
	wn__learned_forget(engine->learned, id);
	if (engine->rebuilds)
		wn__rebuild_forget(engine->rebuilds, id);
}

/* A table that goes takes along what of it still waits: to store that would be for nothing. */
static void cancel_puts(struct wn__engine *engine, uint64_t owner)
{
	struct wn__job **at = &engine->first_job, *job;

	while ((job = *at)) {
		if (!job->hashes || job->run.owner != owner) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		if (engine->last_job == &job->next)
			engine->last_job = at;
		engine->waiting_bytes -= job->run.key_count * sizeof(*job->hashes);
		forget_filter(engine, job->run.id);
		free_job(job);
	}
}

void wn__worker_retire(struct wn__engine *engine, uint64_t owner)
{
	struct wn__job *job = wn__calloc(1, sizeof(*job));

	pthread_mutex_lock(&engine->lock);
	cancel_puts(engine, owner);
	pthread_mutex_unlock(&engine->lock);
	/* If this is refused, the next open sweeps. */
	if (job) {
		job->run.owner = owner;
		append_job(engine, job);
	}
}

void wn__worker_report(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	bool room;

	pthread_mutex_lock(&engine->lock);
	room = !engine->stopping && engine->feedback_count < engine->feedback_length;
	if (room) {
		size_t at = engine->feedback_first + engine->feedback_count++;

		engine->feedback[at % engine->feedback_length] = *entry;
		pthread_cond_signal(&engine->reports);
	}
	pthread_mutex_unlock(&engine->lock);
	if (!room)
		wn__engine_count(engine, WN__QUEUE_DROPS, 1);
}

/* ---- jobs --------------------------------------------------------------- */

static int note_owner(struct wn__engine *engine, const struct wn__run *run)
{
	size_t room = engine->owned_room ? 2 * engine->owned_room : 64;
	struct wn__owned *owned = engine->owned;

	if (engine->owned_count == engine->owned_room) {
		owned = wn__realloc(owned, room * sizeof(*owned));
		if (!owned)
			return ENOMEM;
		engine->owned = owned;
		engine->owned_room = room;
	}
	owned += engine->owned_count++;
	owned->owner = run->owner;
	memcpy(owned->id, run->id, sizeof(owned->id));
	return 0;
}

static void put_run(struct wn__engine *engine, const struct wn__job *job)
{
	unsigned bits = job->run.remainder_bits + WN__PIECE_BITS + SPARE_BITS;
	unsigned bytes = job->run.rebuilds ? 16 : wn__run_hash_bytes(&job->run, bits);
	int err = note_owner(engine, &job->run);

	if (!err)
		err = wn__runs_put(engine->runs, &job->run, job->hashes, bytes);
	wn__engine_count(engine, err ? WN__RUNS_LOST : WN__RUNS_STORED, 1);
}

static void drop_runs(struct wn__engine *engine, uint64_t owner)
{
	struct wn__owned *owned = engine->owned;

	for (size_t at = 0; at < engine->owned_count;) {
		if (owned[at].owner != owner) {
			at++;
			continue;
		}
		if (wn__runs_drop(engine->runs, owned[at].id) == 0)
			wn__engine_count(engine, WN__RUNS_RETIRED, 1);
		forget_filter(engine, owned[at].id);
		owned[at] = owned[--engine->owned_count];
	}
}

static void do_job(struct wn__engine *engine, const struct wn__job *job)
{
	if (job->hashes)
		put_run(engine, job);
	else
		drop_runs(engine, job->run.owner);
}

/* ---- the learner -------------------------------------------------------- */

static struct wn__trace_entry take_report(struct wn__engine *engine)
{
	struct wn__trace_entry entry = engine->feedback[engine->feedback_first];

	engine->feedback_first = (engine->feedback_first + 1) % engine->feedback_length;
	engine->feedback_count--;
	return entry;
}

/* Locked before and after; not while it learns. */
static void do_report(struct wn__engine *engine)
{
	struct wn__trace_entry entry = take_report(engine);

	engine->learner_busy = true;
	pthread_mutex_unlock(&engine->lock);
	wn__engine_learn(engine, &entry);
	pthread_mutex_lock(&engine->lock);
	engine->learner_busy = false;
}

static void *learn(void *given)
{
	struct wn__engine *engine = given;

	pthread_mutex_lock(&engine->lock);
	for (;;) {
		if (engine->feedback_count) {
			do_report(engine);
		} else if (engine->stopping) {
			break;
		} else {
			pthread_cond_broadcast(&engine->idle);
			pthread_cond_wait(&engine->reports, &engine->lock);
		}
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

/* ---- the keeper --------------------------------------------------------- */

/* Locked before and after; not while it works. Until it is done, lessons are made of what the
 * job holds. */
static void do_next_job(struct wn__engine *engine)
{
	struct wn__job *job = take_job(engine);

	engine->current_job = job;
	engine->keeper_busy = true;
	pthread_mutex_unlock(&engine->lock);
	do_job(engine, job);
	pthread_mutex_lock(&engine->lock);
	engine->keeper_busy = false;
	engine->current_job = NULL;
	free_job(job);
}

static struct timespec now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time;
}

static struct timespec next_save(const struct wn__engine *engine)
{
	struct timespec time = now();

	time.tv_sec += engine->save_ms / 1000;
	time.tv_nsec += (long)(engine->save_ms % 1000) * 1000000;
	if (time.tv_nsec >= 1000000000) {
		time.tv_sec++;
		time.tv_nsec -= 1000000000;
	}
	return time;
}

static bool is_past(const struct timespec *time)
{
	struct timespec current = now();

	return current.tv_sec > time->tv_sec ||
	       (current.tv_sec == time->tv_sec && current.tv_nsec >= time->tv_nsec);
}

/* Locked before and after; not while it writes. */
static void save(struct wn__engine *engine)
{
	pthread_mutex_unlock(&engine->lock);
	wn__engine_sync(engine);
	pthread_mutex_lock(&engine->lock);
}

static void wait_for_job(struct wn__engine *engine, const struct timespec *until)
{
	pthread_cond_broadcast(&engine->idle);
	if (engine->saved)
		pthread_cond_timedwait(&engine->jobs, &engine->lock, until);
	else
		pthread_cond_wait(&engine->jobs, &engine->lock);
}

static void *keep(void *given)
{
	struct wn__engine *engine = given;
	struct timespec until = next_save(engine);

	pthread_mutex_lock(&engine->lock);
	for (;;) {
		if (engine->saved && is_past(&until)) {
			save(engine);
			until = next_save(engine);
		} else if (engine->first_job) {
			do_next_job(engine);
		} else if (engine->stopping) {
			break;
		} else {
			wait_for_job(engine, &until);
		}
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

/* The runs that the store has from before. */
static int note_owners(struct wn__engine *engine)
{
	struct wn__run_info *infos;
	size_t count;
	int err = wn__runs_list(engine->runs, &infos, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count && !err; i++)
		err = note_owner(engine, &infos[i].run);
	free(infos);
	return err;
}

int wn__worker_adopt(struct wn__engine *engine, struct wn__runs *runs)
{
	engine->runs = runs;
	return note_owners(engine);
}

/* Tell both to end, and wait for them. */
static void end_threads(struct wn__engine *engine, bool keeper, bool learner)
{
	pthread_mutex_lock(&engine->lock);
	engine->stopping = true;
	pthread_cond_signal(&engine->jobs);
	pthread_cond_signal(&engine->reports);
	pthread_mutex_unlock(&engine->lock);
	if (learner)
		pthread_join(engine->learner, NULL);
	if (keeper)
		pthread_join(engine->keeper, NULL);
}

int wn__worker_start(struct wn__engine *engine)
{
	int err = pthread_create(&engine->keeper, NULL, keep, engine);

	if (err)
		return err;
	err = pthread_create(&engine->learner, NULL, learn, engine);
	engine->started = !err;
	if (err)
		end_threads(engine, true, false);
	return err;
}

/* The learner ends first: what it learns last is saved, too. */
void wn__worker_stop(struct wn__engine *engine)
{
	struct wn__saved *saved;
	struct wn__runs *runs;

	end_threads(engine, engine->started, engine->started);
	pthread_mutex_lock(&engine->lock);
	saved = engine->saved;
	runs = engine->runs;
	engine->saved = NULL;
	engine->runs = NULL;
	engine->started = false;
	pthread_mutex_unlock(&engine->lock);
	wn__saved_close(saved);
	wn__runs_destroy(runs);
}

static bool is_idle(const struct wn__engine *engine)
{
	return !engine->keeper_busy && !engine->learner_busy && !engine->first_job &&
	       !engine->feedback_count;
}

void wn__worker_drain(struct wn__engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	while (engine->started && !engine->stopping && !is_idle(engine))
		pthread_cond_wait(&engine->idle, &engine->lock);
	pthread_mutex_unlock(&engine->lock);
}

void wn__worker_describe(struct wn__engine *engine, struct wn__engine_stats *statsp)
{
	struct wn__runs_stats runs = {0};
	struct wn__saved_stats saved = {0};

	pthread_mutex_lock(&engine->lock);
	if (engine->runs)
		wn__runs_stats(engine->runs, &runs);
	if (engine->saved)
		wn__saved_describe(engine->saved, &saved);
	pthread_mutex_unlock(&engine->lock);
	statsp->map_runs = runs.runs;
	statsp->map_bytes = runs.bytes;
	statsp->map_reads = runs.reads;
	statsp->saves = saved.syncs;
	statsp->save_failures = saved.failures + wn__engine_counted(engine, WN__SAVE_FAILURES);
}
