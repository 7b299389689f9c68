/* worker.c - the threads that write the reverse map and learn; see engine.h.
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

#include "base/alloc.h"
#include "base/bits.h"
#include "kinds/block_build.h"
#include "learn.h"

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

int wn__worker_init(struct wn__learn *learn, size_t queue_length)
{
	learn->feedback = wn__calloc(queue_length + 1, sizeof(*learn->feedback));
	if (!learn->feedback)
		return ENOMEM;
	if (pthread_mutex_init(&learn->lock, NULL) != 0) {
		free(learn->feedback);
		return ENOMEM;
	}
	if (!init_condition(&learn->jobs)) {
		pthread_mutex_destroy(&learn->lock);
		free(learn->feedback);
		return ENOMEM;
	}
	/* Without attributes these cannot fail. */
	pthread_cond_init(&learn->reports, NULL);
	pthread_cond_init(&learn->idle, NULL);
	learn->feedback_length = queue_length;
	learn->last_job = &learn->first_job;
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
static void forget_waiting(struct wn__learn *learn, const struct wn__job *job)
{
	for (const struct wn__waiting *waiting = job->first; waiting; waiting = waiting->next)
		wn__ids_remove(&learn->waiting, waiting->list.id);
}

static struct wn__job *take_job(struct wn__learn *learn)
{
	struct wn__job *job = learn->first_job;

	learn->first_job = job->next;
	if (!learn->first_job)
		learn->last_job = &learn->first_job;
	learn->waiting_bytes -= job->bytes;
	return job;
}

static void queue_job(struct wn__learn *learn, struct wn__job *job)
{
	job->next = NULL;
	*learn->last_job = job;
	learn->last_job = &job->next;
	pthread_cond_signal(&learn->jobs);
}

/* What is held at this place waits for no more. */
static void release_held(struct wn__learn *learn, struct wn__job **at)
{
	struct wn__job *job = *at;

	*at = job->next;
	learn->held_bytes -= job->bytes;
	queue_job(learn, job);
}

static void release_all(struct wn__learn *learn)
{
	while (learn->held)
		release_held(learn, &learn->held);
}

void wn__worker_fini(struct wn__learn *learn)
{
	release_all(learn);
	while (learn->first_job)
		free_job(take_job(learn));
	wn__ids_fini(&learn->waiting);
	free(learn->feedback);
	free(learn->owned);
	wn__map_destroy(learn->map);
	pthread_cond_destroy(&learn->idle);
	pthread_cond_destroy(&learn->reports);
	pthread_cond_destroy(&learn->jobs);
	pthread_mutex_destroy(&learn->lock);
}

/* ---- what waits --------------------------------------------------------- */

static uint64_t minirun_of(const struct wn__keylist *list, struct wn_hash hash)
{
	struct wn__fingerprint print = wn__split(hash, list->slots);

	return print.quotient << list->remainder_bits | print.hi >> (64 - list->remainder_bits);
}

/* Hashes are in the order of their miniruns. */
static int find_hashes(const struct wn__waiting *waiting, uint64_t minirun, uint32_t rank,
		       struct wn__keylist_entry *entries, size_t max, size_t *countp)
{
	uint64_t low = 0, high = waiting->list.key_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (minirun_of(&waiting->list, waiting->hashes[middle]) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	for (low += rank; *countp < max && low < waiting->list.key_count; low++, ++*countp) {
		if (minirun_of(&waiting->list, waiting->hashes[low]) != minirun)
			break;
		entries[*countp] = (struct wn__keylist_entry){waiting->hashes[low], 128};
	}
	return *countp < max ? WN__MAP_NO_PLACE : 0;
}

int wn__worker_lookup(struct wn__learn *learn, const struct wn__keylist *list, uint64_t minirun,
		      uint32_t rank, struct wn__keylist_entry *entries, size_t max, size_t *countp)
{
	const struct wn__waiting *waiting;
	int err = WN_ERR_NOT_FOUND;

	*countp = 0;
	pthread_mutex_lock(&learn->lock);
	waiting = wn__ids_find(&learn->waiting, list->id);
	if (waiting && waiting->list.slots == list->slots &&
	    waiting->list.remainder_bits == list->remainder_bits &&
	    waiting->list.key_count == list->key_count &&
	    waiting->list.secret_id == list->secret_id)
		err = find_hashes(waiting, minirun, rank, entries, max, countp);
	pthread_mutex_unlock(&learn->lock);
	return err;
}

/* ---- jobs come ---------------------------------------------------------- */

static struct wn__waiting *copy_run(const struct wn__keylist *list, const struct wn_hash *hashes)
{
	struct wn__waiting *waiting = wn__calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->list = *list;
	waiting->hashes = wn__alloc(list->key_count * sizeof(*hashes));
	if (!waiting->hashes) {
		free(waiting);
		return NULL;
	}
	memcpy(waiting->hashes, hashes, list->key_count * sizeof(*hashes));
	return waiting;
}

/* With the lock held, as the next three: is there room for one more? */
static bool has_room(const struct wn__learn *learn, const struct wn__waiting *waiting,
		     uint64_t bytes)
{
	return !learn->stopping && !wn__ids_find(&learn->waiting, waiting->list.id) &&
	       (learn->waiting_bytes == learn->held_bytes ||
		learn->waiting_bytes + bytes <= MAX_WAITING_BYTES);
}

/* Where the runs of this table are held; where they would be if there are none. Few tables
 * are built at a time. */
static struct wn__job **find_held(struct wn__learn *learn, const unsigned char *id)
{
	struct wn__job **at = &learn->held;

	while (*at && memcmp((*at)->first->list.id, id, WN__ID_PREFIX_SIZE) != 0)
		at = &(*at)->next;
	return at;
}

static void add_to_job(struct wn__job *job, struct wn__waiting *waiting, uint64_t bytes)
{
	if (!job->first)
		job->last = &job->first;
	*job->last = waiting;
	job->last = &waiting->next;
	job->owner = waiting->list.owner;
	job->count++;
	job->bytes += bytes;
}

/* `job` is empty, and taken if it is used. */
static void hold_run(struct wn__learn *learn, struct wn__waiting *waiting, uint64_t bytes,
		     struct wn__job **jobp)
{
	struct wn__job **at = find_held(learn, waiting->list.id);

	if (!*at) {
		*at = *jobp;
		*jobp = NULL;
	}
	add_to_job(*at, waiting, bytes);
	learn->held_bytes += bytes;
	if ((*at)->bytes >= ENOUGH_BYTES)
		release_held(learn, at);
	else if (learn->held_bytes > MAX_HELD_BYTES)
		release_all(learn);
}

/* Takes the run, or says no. */
static bool take_run(struct wn__learn *learn, struct wn__waiting *waiting, bool hold)
{
	uint64_t bytes = waiting->list.key_count * sizeof(*waiting->hashes);
	struct wn__job *job = wn__calloc(1, sizeof(*job));
	bool taken;

	if (!job)
		return false;
	pthread_mutex_lock(&learn->lock);
	taken = has_room(learn, waiting, bytes) && wn__ids_add(&learn->waiting, waiting) == 0;
	if (taken)
		learn->waiting_bytes += bytes;
	if (taken && hold) {
		hold_run(learn, waiting, bytes, &job);
	} else if (taken) {
		add_to_job(job, waiting, bytes);
		queue_job(learn, job);
		job = NULL;
	}
	pthread_mutex_unlock(&learn->lock);
	free(job);
	return taken;
}

static void put_or_lose(struct wn__learn *learn, const struct wn__keylist *list,
			const struct wn_hash *hashes, bool hold)
{
	struct wn__waiting *waiting;

	if (list->key_count == 0)
		return;
	waiting = copy_run(list, hashes);
	if (waiting && take_run(learn, waiting, hold))
		return;
	if (waiting)
		free(waiting->hashes);
	free(waiting);
	wn__learn_count(learn, WN__RUNS_LOST, 1);
}

void wn__worker_put(struct wn__learn *learn, const struct wn__keylist *list,
		    const struct wn_hash *hashes)
{
	put_or_lose(learn, list, hashes, false);
}

void wn__worker_hold(struct wn__learn *learn, const struct wn__keylist *list,
		     const struct wn_hash *hashes)
{
	put_or_lose(learn, list, hashes, true);
}

void wn__worker_end_table(struct wn__learn *learn, const unsigned char *id)
{
	struct wn__job **at;

	pthread_mutex_lock(&learn->lock);
	at = find_held(learn, id);
	if (*at)
		release_held(learn, at);
	pthread_mutex_unlock(&learn->lock);
}

/* The table's puts in this list. */
static void cancel_in(struct wn__learn *learn, struct wn__job **at, uint64_t owner)
{
	struct wn__job *job;

	while ((job = *at)) {
		if (!job->first || job->owner != owner) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		if (learn->last_job == &job->next)
			learn->last_job = at;
		learn->waiting_bytes -= job->bytes;
		for (const struct wn__waiting *list = job->first; list; list = list->next)
			wn__registry_forget(learn->registry, list->list.id);
		forget_waiting(learn, job);
		free_job(job);
	}
}

/* A table that goes takes along what of it still waits: to store that would be for nothing. */
static void cancel_puts(struct wn__learn *learn, uint64_t owner)
{
	uint64_t before = learn->waiting_bytes;

	cancel_in(learn, &learn->held, owner);
	learn->held_bytes -= before - learn->waiting_bytes;
	cancel_in(learn, &learn->first_job, owner);
}

void wn__worker_retire(struct wn__learn *learn, uint64_t owner)
{
	struct wn__job *job = wn__calloc(1, sizeof(*job));

	pthread_mutex_lock(&learn->lock);
	cancel_puts(learn, owner);
	/* If this is refused, the next open sweeps. */
	if (job && !learn->stopping) {
		job->owner = owner;
		queue_job(learn, job);
		job = NULL;
	}
	pthread_mutex_unlock(&learn->lock);
	free(job);
}

void wn__worker_report(struct wn__learn *learn, const struct wn__trace_entry *entry)
{
	bool room;

	pthread_mutex_lock(&learn->lock);
	room = !learn->stopping && learn->feedback_count < learn->feedback_length;
	if (room) {
		size_t at = learn->feedback_first + learn->feedback_count++;

		learn->feedback[at % learn->feedback_length] = *entry;
		pthread_cond_signal(&learn->reports);
	}
	pthread_mutex_unlock(&learn->lock);
	if (!room)
		wn__learn_count(learn, WN__QUEUE_DROPS, 1);
}

/* ---- jobs --------------------------------------------------------------- */

static int note_owner(struct wn__learn *learn, const struct wn__keylist *list)
{
	size_t room = learn->owned_room ? 2 * learn->owned_room : 64;
	struct wn__owned *owned = learn->owned;

	if (learn->owned_count == learn->owned_room) {
		owned = wn__realloc(owned, room * sizeof(*owned));
		if (!owned)
			return ENOMEM;
		learn->owned = owned;
		learn->owned_room = room;
	}
	owned += learn->owned_count++;
	owned->owner = list->owner;
	memcpy(owned->id, list->id, sizeof(owned->id));
	return 0;
}

static struct wn__keylist_put make_put(const struct wn__waiting *waiting)
{
	const struct wn__keylist *list = &waiting->list;

	return (struct wn__keylist_put){
		.list = list,
		.hashes = waiting->hashes,
		.hash_bytes = wn__keylist_lesson_bytes(list, WN__PIECE_BITS),
	};
}

/* In one go if there is memory for it. */
static void put_runs(struct wn__learn *learn, const struct wn__job *job)
{
	struct wn__keylist_put one, *puts = wn__calloc(job->count, sizeof(*puts));
	size_t count = 0, stored = 0;

	for (const struct wn__waiting *waiting = job->first; waiting; waiting = waiting->next) {
		if (note_owner(learn, &waiting->list))
			continue;
		one = make_put(waiting);
		if (puts) {
			puts[count++] = one;
		} else {
			wn__map_put_many(learn->map, &one, 1);
			stored += !one.err;
		}
	}
	if (count > 0)
		wn__map_put_many(learn->map, puts, count);
	for (size_t i = 0; i < count; i++)
		stored += !puts[i].err;
	wn__learn_count(learn, WN__RUNS_STORED, stored);
	wn__learn_count(learn, WN__RUNS_LOST, job->count - stored);
	free(puts);
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

/* Take the ids of the owner's runs out of the list. `ids` has room for all; NULL: count only. */
static size_t take_owned(struct wn__learn *learn, uint64_t owner,
			 unsigned char (*ids)[WN_BLOCK_ID_SIZE])
{
	struct wn__owned *owned = learn->owned;
	size_t count = 0;

	for (size_t at = 0; at < learn->owned_count;) {
		if (owned[at].owner != owner) {
			at++;
			continue;
		}
		if (ids) {
			memcpy(ids[count], owned[at].id, sizeof(ids[count]));
			owned[at] = owned[--learn->owned_count];
		} else {
			at++;
		}
		count++;
	}
	return count;
}

/* All in one go: a store may have all of a table's runs in one place. */
static void drop_runs(struct wn__learn *learn, uint64_t owner)
{
	size_t count = take_owned(learn, owner, NULL);
	unsigned char(*ids)[WN_BLOCK_ID_SIZE] = wn__calloc(count + 1, sizeof(*ids));

	if (!ids) /* the next open sweeps */
		return;
	take_owned(learn, owner, ids);
	qsort(ids, count, sizeof(*ids), compare_ids);
	wn__learn_count(learn, WN__RUNS_RETIRED,
			 wn__map_drop_many(learn->map,
					    (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, count));
	for (size_t i = 0; i < count; i++)
		wn__registry_forget(learn->registry, ids[i]);
	free(ids);
}

static void do_job(struct wn__learn *learn, const struct wn__job *job)
{
	if (job->first)
		put_runs(learn, job);
	else
		drop_runs(learn, job->owner);
}

/* ---- the learner -------------------------------------------------------- */

static struct wn__trace_entry take_report(struct wn__learn *learn)
{
	struct wn__trace_entry entry = learn->feedback[learn->feedback_first];

	learn->feedback_first = (learn->feedback_first + 1) % learn->feedback_length;
	learn->feedback_count--;
	return entry;
}

/* Locked before and after; not while it learns. */
static void do_report(struct wn__learn *learn)
{
	struct wn__trace_entry entry = take_report(learn);

	learn->learner_busy = true;
	pthread_mutex_unlock(&learn->lock);
	wn__learn_learn(learn, &entry);
	pthread_mutex_lock(&learn->lock);
	learn->learner_busy = false;
}

static void *learn_all(void *given)
{
	struct wn__learn *learn = given;

	pthread_mutex_lock(&learn->lock);
	for (;;) {
		if (learn->feedback_count) {
			do_report(learn);
		} else if (learn->stopping) {
			break;
		} else {
			pthread_cond_broadcast(&learn->idle);
			pthread_cond_wait(&learn->reports, &learn->lock);
		}
	}
	pthread_mutex_unlock(&learn->lock);
	return NULL;
}

/* ---- the keeper --------------------------------------------------------- */

/* Locked before and after; not while it works. Until it is done, lessons are made of what the
 * job holds. */
static void do_next_job(struct wn__learn *learn)
{
	struct wn__job *job = take_job(learn);

	learn->keeper_busy = true;
	pthread_mutex_unlock(&learn->lock);
	do_job(learn, job);
	pthread_mutex_lock(&learn->lock);
	forget_waiting(learn, job);
	pthread_mutex_unlock(&learn->lock);
	free_job(job); /* of thousands of runs: not under the lock */
	pthread_mutex_lock(&learn->lock);
	learn->keeper_busy = false;
}

static struct timespec now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time;
}

static struct timespec next_save(const struct wn__learn *learn)
{
	struct timespec time = now();

	time.tv_sec += learn->save_ms / 1000;
	time.tv_nsec += (long)(learn->save_ms % 1000) * 1000000;
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
static void save(struct wn__learn *learn)
{
	pthread_mutex_unlock(&learn->lock);
	wn__learn_sync(learn);
	pthread_mutex_lock(&learn->lock);
}

static void wait_for_job(struct wn__learn *learn, const struct timespec *until)
{
	pthread_cond_broadcast(&learn->idle);
	if (learn->saved)
		pthread_cond_timedwait(&learn->jobs, &learn->lock, until);
	else
		pthread_cond_wait(&learn->jobs, &learn->lock);
}

static void *keep(void *given)
{
	struct wn__learn *learn = given;
	struct timespec until = next_save(learn);

	pthread_mutex_lock(&learn->lock);
	for (;;) {
		if (learn->saved && is_past(&until)) {
			save(learn);
			until = next_save(learn);
		} else if (learn->first_job) {
			do_next_job(learn);
		} else if (learn->held && learn->stopping) {
			release_all(learn);
		} else if (learn->stopping) {
			break;
		} else {
			wait_for_job(learn, &until);
		}
	}
	pthread_mutex_unlock(&learn->lock);
	return NULL;
}

static int compare_owners(const void *a, const void *b)
{
	const struct wn__owned *left = a, *right = b;

	return left->owner < right->owner ? -1 : left->owner > right->owner;
}

/* The runs that the store has from before, a table's side by side. */
static int note_owners(struct wn__learn *learn)
{
	struct wn__keylist_info *infos;
	size_t count;
	int err = wn__map_list(learn->map, &infos, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count && !err; i++)
		err = note_owner(learn, &infos[i].list);
	if (learn->owned_count > 0)
		qsort(learn->owned, learn->owned_count, sizeof(*learn->owned), compare_owners);
	free(infos);
	return err;
}

int wn__worker_adopt(struct wn__learn *learn, struct wn__map *map)
{
	learn->map = map;
	return note_owners(learn);
}

/* Tell both to end, and wait for them. */
static void end_threads(struct wn__learn *learn, bool keeper, bool learner)
{
	pthread_mutex_lock(&learn->lock);
	learn->stopping = true;
	pthread_cond_signal(&learn->jobs);
	pthread_cond_signal(&learn->reports);
	pthread_mutex_unlock(&learn->lock);
	if (learner)
		pthread_join(learn->learner, NULL);
	if (keeper)
		pthread_join(learn->keeper, NULL);
}

int wn__worker_start(struct wn__learn *learn)
{
	int err = pthread_create(&learn->keeper, NULL, keep, learn);

	if (err)
		return err;
	if (learn->background)
		err = pthread_create(&learn->learner, NULL, learn_all, learn);
	learn->started = !err;
	if (err)
		end_threads(learn, true, false);
	return err;
}

/* The learner ends first: what it learns last is saved, too. */
void wn__worker_stop(struct wn__learn *learn)
{
	struct wn__saved *saved;
	struct wn__map *map;

	end_threads(learn, learn->started, learn->started && learn->background);
	pthread_mutex_lock(&learn->lock);
	saved = learn->saved;
	map = learn->map;
	learn->saved = NULL;
	learn->map = NULL;
	learn->started = false;
	pthread_mutex_unlock(&learn->lock);
	wn__saved_close(saved);
	wn__map_destroy(map);
}

static bool is_idle(const struct wn__learn *learn)
{
	return !learn->keeper_busy && !learn->learner_busy && !learn->first_job &&
	       !learn->feedback_count;
}

void wn__worker_drain(struct wn__learn *learn)
{
	pthread_mutex_lock(&learn->lock);
	release_all(learn);
	while (learn->started && !learn->stopping && !is_idle(learn))
		pthread_cond_wait(&learn->idle, &learn->lock);
	pthread_mutex_unlock(&learn->lock);
}

void wn__worker_describe(struct wn__learn *learn, struct wn__learn_stats *statsp)
{
	struct wn__map_stats map = {0};
	struct wn__saved_stats saved = {0};

	pthread_mutex_lock(&learn->lock);
	if (learn->map)
		wn__map_stats(learn->map, &map);
	if (learn->saved)
		wn__saved_describe(learn->saved, &saved);
	pthread_mutex_unlock(&learn->lock);
	statsp->map_runs = map.map;
	statsp->map_bytes = map.bytes;
	statsp->map_reads = map.reads;
	statsp->saves = saved.syncs;
	statsp->save_failures = saved.failures + wn__learn_counted(learn, WN__SAVE_FAILURES);
}
