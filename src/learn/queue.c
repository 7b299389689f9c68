/* queue.c - jobs for the worker, and the key lists in them; see learn_internal.h.
 *
 * To put a key list takes as long as the store takes, and a RocksDB that stalls its writers may
 * take seconds: meanwhile lessons are made of key lists that still wait as well as of those that
 * are stored.
 *
 * A table with partitioned filters has thousands of key lists. They are held back until the table
 * is finished and stored in one call: one file of the column family instead of thousands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/lock.h"
#include "kinds/block_build.h"
#include "learn_internal.h"

/* Hashes that wait to be written. One key list may always wait, however long it is. */
#define MAX_WAITING_BYTES ((uint64_t)64 << 20)

/* Of these, hashes that wait for the end of their table, so that its key lists are stored together:
 * as many as make a table's share worth a call of the store, and of all tables. */
#define ENOUGH_BYTES ((uint64_t)8 << 20)
#define MAX_HELD_BYTES ((uint64_t)32 << 20)

/* ---- the queue ---------------------------------------------------------- */

/* A condition variable on CLOCK_MONOTONIC, so that clock changes do not matter. */
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
void wn__queue_free(struct wn__job *job)
{
	struct wn__waiting *waiting;

	while ((waiting = job->first)) {
		job->first = waiting->next;
		free(waiting->uppers);
		free(waiting);
	}
	free(job);
}

/* Under the lock, as the next four. */
void wn__queue_forget(struct wn__learn *learn, const struct wn__job *job)
{
	wn__assert_locked(&learn->lock);
	for (const struct wn__waiting *waiting = job->first; waiting; waiting = waiting->next)
		wn__ids_remove(&learn->waiting, waiting->list.id);
}

struct wn__job *wn__queue_take(struct wn__learn *learn)
{
	struct wn__job *job = learn->first_job;

	wn__assert_locked(&learn->lock);
	wn__assert(job && learn->waiting_bytes >= job->bytes);
	learn->first_job = job->next;
	if (!learn->first_job)
		learn->last_job = &learn->first_job;
	learn->waiting_bytes -= job->bytes;
	return job;
}

static void queue_job(struct wn__learn *learn, struct wn__job *job)
{
	wn__assert_locked(&learn->lock);
	job->next = NULL;
	*learn->last_job = job;
	learn->last_job = &job->next;
	pthread_cond_signal(&learn->jobs);
}

/* What is held at this place waits for no more. */
static void release_held(struct wn__learn *learn, struct wn__job **at)
{
	struct wn__job *job = *at;

	wn__assert_locked(&learn->lock);
	wn__assert(learn->held_bytes >= job->bytes);
	*at = job->next;
	learn->held_bytes -= job->bytes;
	queue_job(learn, job);
}

void wn__queue_release(struct wn__learn *learn)
{
	wn__assert_locked(&learn->lock);
	while (learn->held)
		release_held(learn, &learn->held);
}

void wn__worker_fini(struct wn__learn *learn)
{
	/* Nobody else is there; what it calls wants the lock. */
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	wn__queue_release(learn);
	while (learn->first_job)
		wn__queue_free(wn__queue_take(learn));
	wn__assert(learn->waiting_bytes == 0 && learn->held_bytes == 0);
	wn__unlock(&learn->lock);
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

static uint64_t minirun_of(const struct wn__waiting *waiting, uint64_t index)
{
	return wn__hash_minirun((struct wn_hash){waiting->uppers[index], 0}, waiting->list.slots,
				waiting->list.remainder_bits);
}

/* Hashes are in the order of their miniruns. */
static int find_hashes(const struct wn__waiting *waiting, uint64_t minirun, uint32_t rank,
		       struct wn__keylist_entry *entries, size_t max, size_t *countp)
{
	uint64_t low = 0, high = waiting->list.key_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (minirun_of(waiting, middle) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	for (low += rank; *countp < max && low < waiting->list.key_count; low++, ++*countp) {
		if (minirun_of(waiting, low) != minirun)
			break;
		entries[*countp] = (struct wn__keylist_entry){
			{waiting->uppers[low], 0}, wn__keylist_known_bits(&waiting->list)};
	}
	return *countp < max ? WN__MAP_NO_PLACE : 0;
}

int wn__worker_lookup(struct wn__learn *learn, const struct wn__keylist *list, uint64_t minirun,
		      uint32_t rank, struct wn__keylist_entry *entries, size_t max, size_t *countp)
{
	const struct wn__waiting *waiting;
	int err = WN_ERR_NOT_FOUND;

	*countp = 0;
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	waiting = wn__ids_find(&learn->waiting, list->id);
	if (waiting && wn__keylist_is_of(&waiting->list, list))
		err = find_hashes(waiting, minirun, rank, entries, max, countp);
	wn__unlock(&learn->lock);
	return err;
}

/* ---- jobs come ---------------------------------------------------------- */


/* With the lock held, as the next three: is there room for one more? */
static bool has_room(const struct wn__learn *learn, const struct wn__waiting *waiting,
		     uint64_t bytes)
{
	wn__assert_locked(&learn->lock);
	return !learn->stopping && !wn__ids_find(&learn->waiting, waiting->list.id) &&
	       (learn->waiting_bytes == learn->held_bytes ||
		learn->waiting_bytes + bytes <= MAX_WAITING_BYTES);
}

/* Where the key lists of this table are held; where they would be if there are none. Few tables
 * are built at a time. */
static struct wn__job **find_held(struct wn__learn *learn, const unsigned char *id)
{
	struct wn__job **at = &learn->held;

	wn__assert_locked(&learn->lock);
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
static void hold_list(struct wn__learn *learn, struct wn__waiting *waiting, uint64_t bytes,
		     struct wn__job **jobp)
{
	struct wn__job **at = find_held(learn, waiting->list.id);

	wn__assert_locked(&learn->lock);
	if (!*at) {
		*at = *jobp;
		*jobp = NULL;
	}
	add_to_job(*at, waiting, bytes);
	learn->held_bytes += bytes;
	if ((*at)->bytes >= ENOUGH_BYTES)
		release_held(learn, at);
	else if (learn->held_bytes > MAX_HELD_BYTES)
		wn__queue_release(learn);
}

/* Takes the key list, or says no. */
static bool take_list(struct wn__learn *learn, struct wn__waiting *waiting, bool hold)
{
	uint64_t bytes = waiting->list.key_count * sizeof(*waiting->uppers);
	struct wn__job *job = wn__calloc(1, sizeof(*job));
	bool taken;

	if (!job)
		return false;
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	taken = has_room(learn, waiting, bytes) && wn__ids_add(&learn->waiting, waiting) == 0;
	if (taken)
		learn->waiting_bytes += bytes;
	if (taken && hold) {
		hold_list(learn, waiting, bytes, &job);
	} else if (taken) {
		add_to_job(job, waiting, bytes);
		queue_job(learn, job);
		job = NULL;
	}
	wn__unlock(&learn->lock);
	free(job);
	return taken;
}

/* Takes the upper halves; NULL: there was no memory for them. */
static void put_or_lose(struct wn__learn *learn, const struct wn__keylist *list, uint64_t *uppers,
			bool hold)
{
	struct wn__waiting *waiting = uppers ? wn__calloc(1, sizeof(*waiting)) : NULL;

	if (waiting)
		*waiting = (struct wn__waiting){.list = *list, .uppers = uppers};
	if (waiting && list->key_count > 0 && take_list(learn, waiting, hold))
		return;
	free(uppers);
	free(waiting);
	if (list->key_count > 0)
		wn__count(&learn->metrics, key_lists_lost, 1);
}

void wn__worker_put(struct wn__learn *learn, const struct wn__keylist *list, uint64_t *uppers)
{
	put_or_lose(learn, list, uppers, false);
}

void wn__worker_hold(struct wn__learn *learn, const struct wn__keylist *list, uint64_t *uppers)
{
	put_or_lose(learn, list, uppers, true);
}

void wn__worker_end_table(struct wn__learn *learn, const unsigned char *id)
{
	struct wn__job **at;

	wn__lock(&learn->lock, WN__LOCK_LEARN);
	at = find_held(learn, id);
	if (*at)
		release_held(learn, at);
	wn__unlock(&learn->lock);
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
		wn__queue_forget(learn, job);
		wn__queue_free(job);
	}
}

/* A table that goes takes along what of it still waits: to store that would be for nothing. */
static void cancel_puts(struct wn__learn *learn, uint64_t owner)
{
	uint64_t before = learn->waiting_bytes;

	wn__assert_locked(&learn->lock);
	cancel_in(learn, &learn->held, owner);
	learn->held_bytes -= before - learn->waiting_bytes;
	cancel_in(learn, &learn->first_job, owner);
}

void wn__worker_retire(struct wn__learn *learn, uint64_t owner)
{
	struct wn__job *job = wn__calloc(1, sizeof(*job));

	wn__lock(&learn->lock, WN__LOCK_LEARN);
	cancel_puts(learn, owner);
	/* If this is refused, the next open sweeps. */
	if (job && !learn->stopping) {
		job->owner = owner;
		queue_job(learn, job);
		job = NULL;
	}
	wn__unlock(&learn->lock);
	free(job);
}

void wn__worker_report(struct wn__learn *learn, const struct wn__positive *positive)
{
	bool room;

	wn__lock(&learn->lock, WN__LOCK_LEARN);
	room = !learn->stopping && learn->feedback_count < learn->feedback_length;
	if (room) {
		size_t at = learn->feedback_first + learn->feedback_count++;

		learn->feedback[at % learn->feedback_length] = *positive;
		pthread_cond_signal(&learn->reports);
	}
	wn__unlock(&learn->lock);
	if (!room)
		wn__count(&learn->metrics, queue_drops, 1);
}
