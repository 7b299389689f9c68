/* worker.c - the threads that write the reverse map and learn; see learn.h.
 *
 * The writer does jobs, in order (a key list is put before the end of its table drops it), and
 * saves what was learned. Where lookups do not learn themselves, a second thread, the learner,
 * does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "learn_internal.h"

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
		.uppers = waiting->uppers,
	};
}

/* In one go if there is memory for it. */
static void put_lists(struct wn__learn *learn, const struct wn__job *job)
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
	wn__count(&learn->metrics, key_lists_stored, stored);
	wn__count(&learn->metrics, key_lists_lost, job->count - stored);
	free(puts);
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

/* Take the ids of the owner's key lists out of the list. `ids` has room for all; NULL: count
 * only. */
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

/* All in one go: a store may have all of a table's key lists in one place. */
static void drop_lists(struct wn__learn *learn, uint64_t owner)
{
	size_t count = take_owned(learn, owner, NULL);
	unsigned char(*ids)[WN_BLOCK_ID_SIZE] = wn__calloc(count + 1, sizeof(*ids));

	if (!ids) /* the next open sweeps */
		return;
	take_owned(learn, owner, ids);
	qsort(ids, count, sizeof(*ids), compare_ids);
	wn__count(&learn->metrics, key_lists_dropped,
		  wn__map_drop_many(learn->map,
					    (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, count));
	for (size_t i = 0; i < count; i++)
		wn__registry_forget(learn->registry, ids[i]);
	free(ids);
}

static void do_job(struct wn__learn *learn, const struct wn__job *job)
{
	if (job->first)
		put_lists(learn, job);
	else
		drop_lists(learn, job->owner);
}

/* ---- the learner -------------------------------------------------------- */

static struct wn__positive take_report(struct wn__learn *learn)
{
	struct wn__positive positive = learn->feedback[learn->feedback_first];

	wn__assert_locked(&learn->lock);
	learn->feedback_first = (learn->feedback_first + 1) % learn->feedback_length;
	learn->feedback_count--;
	return positive;
}

/* Locked before and after; not while it learns. */
static void do_report(struct wn__learn *learn)
{
	struct wn__positive positive = take_report(learn);

	learn->learner_busy = true;
	wn__unlock(&learn->lock);
	wn__learn_from(learn, &positive);
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	learn->learner_busy = false;
}

static void *learn_all(void *given)
{
	struct wn__learn *learn = given;

	wn__lock(&learn->lock, WN__LOCK_LEARN);
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
	wn__unlock(&learn->lock);
	return NULL;
}

/* ---- the writer --------------------------------------------------------- */

/* Locked before and after; not while it works. Until it is done, lessons are made of what the
 * job holds. */
static void do_next_job(struct wn__learn *learn)
{
	struct wn__job *job = wn__queue_take(learn);

	wn__assert_locked(&learn->lock);
	learn->writer_busy = true;
	wn__unlock(&learn->lock);
	do_job(learn, job);
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	wn__queue_forget(learn, job);
	wn__unlock(&learn->lock);
	wn__queue_free(job); /* of thousands of key lists: not under the lock */
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	learn->writer_busy = false;
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
	wn__unlock(&learn->lock);
	wn__learn_sync(learn);
	wn__lock(&learn->lock, WN__LOCK_LEARN);
}

static void wait_for_job(struct wn__learn *learn, const struct timespec *until)
{
	wn__assert_locked(&learn->lock);
	pthread_cond_broadcast(&learn->idle);
	if (learn->journal)
		pthread_cond_timedwait(&learn->jobs, &learn->lock, until);
	else
		pthread_cond_wait(&learn->jobs, &learn->lock);
}

static void *write_all(void *given)
{
	struct wn__learn *learn = given;
	struct timespec until = next_save(learn);

	wn__lock(&learn->lock, WN__LOCK_LEARN);
	for (;;) {
		if (learn->journal && is_past(&until)) {
			save(learn);
			until = next_save(learn);
		} else if (learn->first_job) {
			do_next_job(learn);
		} else if (learn->held && learn->stopping) {
			wn__queue_release(learn);
		} else if (learn->stopping) {
			break;
		} else {
			wait_for_job(learn, &until);
		}
	}
	wn__unlock(&learn->lock);
	return NULL;
}

static int compare_owners(const void *a, const void *b)
{
	const struct wn__owned *left = a, *right = b;

	return left->owner < right->owner ? -1 : left->owner > right->owner;
}

/* The key lists that the store has from before, a table's side by side. */
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
static void end_threads(struct wn__learn *learn, bool writer, bool learner)
{
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	learn->stopping = true;
	pthread_cond_signal(&learn->jobs);
	pthread_cond_signal(&learn->reports);
	wn__unlock(&learn->lock);
	if (learner)
		pthread_join(learn->learner, NULL);
	if (writer)
		pthread_join(learn->writer, NULL);
}

int wn__worker_start(struct wn__learn *learn)
{
	int err = pthread_create(&learn->writer, NULL, write_all, learn);

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
	struct wn__journal *journal;
	struct wn__map *map;

	end_threads(learn, learn->started, learn->started && learn->background);
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	journal = learn->journal;
	map = learn->map;
	learn->journal = NULL;
	learn->map = NULL;
	learn->started = false;
	wn__unlock(&learn->lock);
	wn__journal_close(journal);
	wn__map_destroy(map);
}

static bool is_idle(const struct wn__learn *learn)
{
	wn__assert_locked(&learn->lock);
	return !learn->writer_busy && !learn->learner_busy && !learn->first_job &&
	       !learn->feedback_count;
}

void wn__learn_drain(struct wn__learn *learn)
{
	if (learn->missing)
		wn__missing_release(learn->missing, wn__missing_list(learn->missing, true));
	wn__lock(&learn->lock, WN__LOCK_LEARN);
	wn__queue_release(learn);
	while (learn->started && !learn->stopping && !is_idle(learn))
		pthread_cond_wait(&learn->idle, &learn->lock);
	wn__unlock(&learn->lock);
}

void wn__worker_describe(struct wn__learn *learn, struct wn_stats *statsp)
{
	struct wn__map_stats map = {0};
	struct wn__journal_stats journal = {0};

	wn__lock(&learn->lock, WN__LOCK_LEARN);
	if (learn->map)
		wn__map_stats(learn->map, &map);
	if (learn->journal)
		wn__journal_describe(learn->journal, &journal);
	wn__unlock(&learn->lock);
	statsp->key_lists += map.lists;
	statsp->reversemap_bytes += map.bytes;
	statsp->reversemap_reads += map.reads;
	statsp->saves += journal.syncs;
	statsp->save_failures += journal.failures;
}
