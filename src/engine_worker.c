/* engine_worker.c - the threads that write the reverse map and learn; see engine.h.
 *
 * The keeper does jobs, in order (a run is put before the end of its table drops it), and saves
 * what was learned. To put a run takes as long as the store takes, and a RocksDB that stalls its
 * writers may take seconds: meanwhile lessons are made of runs that still wait as well as of those
 * that are stored. Where lookups do not learn themselves, a second thread, the learner, does.
 *
 * A table with partitioned filters has thousands of runs. They are held back until the table
 * is finished and stored in one call: one file of the column family instead of thousands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <winnow/error.h>

#include "alloc.h"
#include "bits.h"
#include "block_build.h"
#include "engine.h"

/* Hashes that wait to be written. One run may always wait, however long it is. */
#define MAX_WAITING_BYTES ((uint64_t)64 << 20)

/* Of these, hashes that wait for the end of their table, so that its runs are stored together:
 * as many as make a table's share worth a call of the store, and of all tables. */
#define ENOUGH_BYTES ((uint64_t)8 << 20)
#define MAX_HELD_BYTES ((uint64_t)32 << 20)

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
	engine->feedback = wn__calloc(queue_length + 1, sizeof(*engine->feedback));
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

/* Not in any list or table any more. */
static void free_job(struct wn__job *job)
{
	struct wn__waiting *waiting;

	while ((waiting = job->first)) {
		job->first = waiting->next;
		free(waiting->hashes);
		free(waiting);
	}
	free(job);
}

/* Under the lock, or with nobody else there; as the next four. */
static void forget_waiting(struct wn__engine *engine, const struct wn__job *job)
{
	for (const struct wn__waiting *waiting = job->first; waiting; waiting = waiting->next)
		wn__ids_remove(&engine->waiting, waiting->run.id);
}

static struct wn__job *take_job(struct wn__engine *engine)
{
	struct wn__job *job = engine->first_job;

	engine->first_job = job->next;
	if (!engine->first_job)
		engine->last_job = &engine->first_job;
	engine->waiting_bytes -= job->bytes;
	return job;
}

static void queue_job(struct wn__engine *engine, struct wn__job *job)
{
	job->next = NULL;
	*engine->last_job = job;
	engine->last_job = &job->next;
	pthread_cond_signal(&engine->jobs);
}

/* What is held at this place waits for no more. */
static void release_held(struct wn__engine *engine, struct wn__job **at)
{
	struct wn__job *job = *at;

	*at = job->next;
	engine->held_bytes -= job->bytes;
	queue_job(engine, job);
}

static void release_all(struct wn__engine *engine)
{
	while (engine->held)
		release_held(engine, &engine->held);
}

void wn__worker_fini(struct wn__engine *engine)
{
	release_all(engine);
	while (engine->first_job)
		free_job(take_job(engine));
	wn__ids_fini(&engine->waiting);
	free(engine->feedback);
	free(engine->owned);
	wn__runs_destroy(engine->runs);
	pthread_cond_destroy(&engine->idle);
	pthread_cond_destroy(&engine->reports);
	pthread_cond_destroy(&engine->jobs);
	pthread_mutex_destroy(&engine->lock);
}

/* ---- what waits --------------------------------------------------------- */

static uint64_t minirun_of(const struct wn__run *run, struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, run->slots);

	return print.quotient << run->remainder_bits | print.hi >> (64 - run->remainder_bits);
}

/* Hashes are in the order of their miniruns. */
static int find_hashes(const struct wn__waiting *waiting, uint64_t minirun, uint32_t rank,
		       struct wn__run_entry *entries, size_t max, size_t *countp)
{
	uint64_t low = 0, high = waiting->run.key_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (minirun_of(&waiting->run, waiting->hashes[middle]) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	for (low += rank; *countp < max && low < waiting->run.key_count; low++, ++*countp) {
		if (minirun_of(&waiting->run, waiting->hashes[low]) != minirun)
			break;
		entries[*countp] = (struct wn__run_entry){waiting->hashes[low], 128};
	}
	return *countp < max ? WN__RUN_NO_PLACE : 0;
}

int wn__worker_lookup(struct wn__engine *engine, const struct wn__run *run, uint64_t minirun,
		      uint32_t rank, struct wn__run_entry *entries, size_t max, size_t *countp)
{
	const struct wn__waiting *waiting;
	int err = WN_ERR_NOT_FOUND;

	*countp = 0;
	pthread_mutex_lock(&engine->lock);
	waiting = wn__ids_find(&engine->waiting, run->id);
	if (waiting && waiting->run.slots == run->slots &&
	    waiting->run.remainder_bits == run->remainder_bits &&
	    waiting->run.key_count == run->key_count && waiting->run.secret_id == run->secret_id)
		err = find_hashes(waiting, minirun, rank, entries, max, countp);
	pthread_mutex_unlock(&engine->lock);
	return err;
}

/* ---- jobs come ---------------------------------------------------------- */

static struct wn__waiting *copy_run(const struct wn__run *run, const struct wn_hash *hashes)
{
	struct wn__waiting *waiting = wn__calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->run = *run;
	waiting->hashes = wn__alloc(run->key_count * sizeof(*hashes));
	if (!waiting->hashes) {
		free(waiting);
		return NULL;
	}
	memcpy(waiting->hashes, hashes, run->key_count * sizeof(*hashes));
	return waiting;
}

/* With the lock held, as the next three: is there room for one more? */
static bool has_room(const struct wn__engine *engine, const struct wn__waiting *waiting,
		     uint64_t bytes)
{
	return !engine->stopping && !wn__ids_find(&engine->waiting, waiting->run.id) &&
	       (engine->waiting_bytes == engine->held_bytes ||
		engine->waiting_bytes + bytes <= MAX_WAITING_BYTES);
}

/* Where the runs of this table are held; where they would be if there are none. Few tables
 * are built at a time. */
static struct wn__job **find_held(struct wn__engine *engine, const unsigned char *id)
{
	struct wn__job **at = &engine->held;

	while (*at && memcmp((*at)->first->run.id, id, WN__ID_PREFIX_SIZE) != 0)
		at = &(*at)->next;
	return at;
}

static void add_to_job(struct wn__job *job, struct wn__waiting *waiting, uint64_t bytes)
{
	if (!job->first)
		job->last = &job->first;
	*job->last = waiting;
	job->last = &waiting->next;
	job->owner = waiting->run.owner;
	job->count++;
	job->bytes += bytes;
}

/* `job` is empty, and taken if it is used. */
static void hold_run(struct wn__engine *engine, struct wn__waiting *waiting, uint64_t bytes,
		     struct wn__job **jobp)
{
	struct wn__job **at = find_held(engine, waiting->run.id);

	if (!*at) {
		*at = *jobp;
		*jobp = NULL;
	}
	add_to_job(*at, waiting, bytes);
	engine->held_bytes += bytes;
	if ((*at)->bytes >= ENOUGH_BYTES)
		release_held(engine, at);
	else if (engine->held_bytes > MAX_HELD_BYTES)
		release_all(engine);
}

/* Takes the run, or says no. */
static bool take_run(struct wn__engine *engine, struct wn__waiting *waiting, bool hold)
{
	uint64_t bytes = waiting->run.key_count * sizeof(*waiting->hashes);
	struct wn__job *job = wn__calloc(1, sizeof(*job));
	bool taken;

	if (!job)
		return false;
	pthread_mutex_lock(&engine->lock);
	taken = has_room(engine, waiting, bytes) && wn__ids_add(&engine->waiting, waiting) == 0;
	if (taken)
		engine->waiting_bytes += bytes;
	if (taken && hold) {
		hold_run(engine, waiting, bytes, &job);
	} else if (taken) {
		add_to_job(job, waiting, bytes);
		queue_job(engine, job);
		job = NULL;
	}
	pthread_mutex_unlock(&engine->lock);
	free(job);
	return taken;
}

static void put_or_lose(struct wn__engine *engine, const struct wn__run *run,
			const struct wn_hash *hashes, bool hold)
{
	struct wn__waiting *waiting;

	if (run->key_count == 0)
		return;
	waiting = copy_run(run, hashes);
	if (waiting && take_run(engine, waiting, hold))
		return;
	if (waiting)
		free(waiting->hashes);
	free(waiting);
	wn__engine_count(engine, WN__RUNS_LOST, 1);
}

void wn__worker_put(struct wn__engine *engine, const struct wn__run *run,
		    const struct wn_hash *hashes)
{
	put_or_lose(engine, run, hashes, false);
}

void wn__worker_hold(struct wn__engine *engine, const struct wn__run *run,
		     const struct wn_hash *hashes)
{
	put_or_lose(engine, run, hashes, true);
}

void wn__worker_end_table(struct wn__engine *engine, const unsigned char *id)
{
	struct wn__job **at;

	pthread_mutex_lock(&engine->lock);
	at = find_held(engine, id);
	if (*at)
		release_held(engine, at);
	pthread_mutex_unlock(&engine->lock);
}

/* The table's puts in this list. */
static void cancel_in(struct wn__engine *engine, struct wn__job **at, uint64_t owner)
{
	struct wn__job *job;

	while ((job = *at)) {
		if (!job->first || job->owner != owner) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		if (engine->last_job == &job->next)
			engine->last_job = at;
		engine->waiting_bytes -= job->bytes;
		for (const struct wn__waiting *run = job->first; run; run = run->next)
			wn__learned_forget(engine->learned, run->run.id);
		forget_waiting(engine, job);
		free_job(job);
	}
}

/* A table that goes takes along what of it still waits: to store that would be for nothing. */
static void cancel_puts(struct wn__engine *engine, uint64_t owner)
{
	uint64_t before = engine->waiting_bytes;

	cancel_in(engine, &engine->held, owner);
	engine->held_bytes -= before - engine->waiting_bytes;
	cancel_in(engine, &engine->first_job, owner);
}

void wn__worker_retire(struct wn__engine *engine, uint64_t owner)
{
	struct wn__job *job = wn__calloc(1, sizeof(*job));

	pthread_mutex_lock(&engine->lock);
	cancel_puts(engine, owner);
	/* If this is refused, the next open sweeps. */
	if (job && !engine->stopping) {
		job->owner = owner;
		queue_job(engine, job);
		job = NULL;
	}
	pthread_mutex_unlock(&engine->lock);
	free(job);
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

static struct wn__run_put make_put(const struct wn__waiting *waiting)
{
	const struct wn__run *run = &waiting->run;

	return (struct wn__run_put){
		.run = run,
		.hashes = waiting->hashes,
		.hash_bytes = wn__run_lesson_bytes(run, WN__PIECE_BITS),
	};
}

/* In one go if there is memory for it. */
static void put_runs(struct wn__engine *engine, const struct wn__job *job)
{
	struct wn__run_put one, *puts = wn__calloc(job->count, sizeof(*puts));
	size_t count = 0, stored = 0;

	for (const struct wn__waiting *waiting = job->first; waiting; waiting = waiting->next) {
		if (note_owner(engine, &waiting->run))
			continue;
		one = make_put(waiting);
		if (puts) {
			puts[count++] = one;
		} else {
			wn__runs_put_many(engine->runs, &one, 1);
			stored += !one.err;
		}
	}
	if (count > 0)
		wn__runs_put_many(engine->runs, puts, count);
	for (size_t i = 0; i < count; i++)
		stored += !puts[i].err;
	wn__engine_count(engine, WN__RUNS_STORED, stored);
	wn__engine_count(engine, WN__RUNS_LOST, job->count - stored);
	free(puts);
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

/* Take the ids of the owner's runs out of the list. `ids` has room for all; NULL: count only. */
static size_t take_owned(struct wn__engine *engine, uint64_t owner,
			 unsigned char (*ids)[WN_BLOCK_ID_SIZE])
{
	struct wn__owned *owned = engine->owned;
	size_t count = 0;

	for (size_t at = 0; at < engine->owned_count;) {
		if (owned[at].owner != owner) {
			at++;
			continue;
		}
		if (ids) {
			memcpy(ids[count], owned[at].id, sizeof(ids[count]));
			owned[at] = owned[--engine->owned_count];
		} else {
			at++;
		}
		count++;
	}
	return count;
}

/* All in one go: a store may have all of a table's runs in one place. */
static void drop_runs(struct wn__engine *engine, uint64_t owner)
{
	size_t count = take_owned(engine, owner, NULL);
	unsigned char(*ids)[WN_BLOCK_ID_SIZE] = wn__calloc(count + 1, sizeof(*ids));

	if (!ids) /* the next open sweeps */
		return;
	take_owned(engine, owner, ids);
	qsort(ids, count, sizeof(*ids), compare_ids);
	wn__engine_count(engine, WN__RUNS_RETIRED,
			 wn__runs_drop_many(engine->runs,
					    (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, count));
	for (size_t i = 0; i < count; i++)
		wn__learned_forget(engine->learned, ids[i]);
	free(ids);
}

static void do_job(struct wn__engine *engine, const struct wn__job *job)
{
	if (job->first)
		put_runs(engine, job);
	else
		drop_runs(engine, job->owner);
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

	engine->keeper_busy = true;
	pthread_mutex_unlock(&engine->lock);
	do_job(engine, job);
	pthread_mutex_lock(&engine->lock);
	forget_waiting(engine, job);
	pthread_mutex_unlock(&engine->lock);
	free_job(job); /* of thousands of runs: not under the lock */
	pthread_mutex_lock(&engine->lock);
	engine->keeper_busy = false;
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
		} else if (engine->held && engine->stopping) {
			release_all(engine);
		} else if (engine->stopping) {
			break;
		} else {
			wait_for_job(engine, &until);
		}
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

static int compare_owners(const void *a, const void *b)
{
	const struct wn__owned *left = a, *right = b;

	return left->owner < right->owner ? -1 : left->owner > right->owner;
}

/* The runs that the store has from before, a table's side by side. */
static int note_owners(struct wn__engine *engine)
{
	struct wn__run_info *infos;
	size_t count;
	int err = wn__runs_list(engine->runs, &infos, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count && !err; i++)
		err = note_owner(engine, &infos[i].run);
	if (engine->owned_count > 0)
		qsort(engine->owned, engine->owned_count, sizeof(*engine->owned), compare_owners);
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
	if (engine->background)
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

	end_threads(engine, engine->started, engine->started && engine->background);
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
	release_all(engine);
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
