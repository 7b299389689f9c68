/* database.c - databases whose filters learn.
 *
 * Everything is read before LevelDB opens the database, since that may build tables and remove
 * some; nothing is written before LevelDB has the database's lock. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "journal.h"
#include "misses.h"
#include "policy.h"
#include "base/secret.h"
#include "strangers.h"

struct wn_leveldb {
	leveldb_t *level;
	struct wn__policy *policy;
	struct wn__shim *shim;
	leveldb_filterpolicy_t *shown;
	struct wn_secret *secret;
	char *path;
	char *directory; /* the sidecar */
	pthread_t worker;
	bool started, stopping;
	pthread_mutex_t lock; /* of the worker, and of the journal's file */
	pthread_cond_t wake;
};

/* ---- lookups ------------------------------------------------------------ */

static uint16_t first_bits(uint64_t record)
{
	return (uint16_t)(record >> 48);
}

/* Does the record fit the fingerprint that the query matched? */
static bool fits(uint64_t record, struct wn_hash query, uint16_t slack)
{
	int difference = (int)first_bits(record) - (int)(query.hi >> 48);

	return difference <= slack && -difference <= slack;
}

static int learn_match(struct wn__policy *policy, const struct wn__frame *frame,
		       const struct wn__positive *positive, uint32_t index, uint64_t record)
{
	uint64_t stored = record & WN__SMALL_LESSON_MASK;
	int err;

	if (!fits(record, frame->hash, positive->slack))
		return WN_ERR_MISMATCH;
	if (stored == wn__small_lesson_bits(frame->hash))
		return WN_ERR_UNFIXABLE;
	err = wn__small_lessons_learn(policy->lessons, positive->id, index, stored);
	if (!err)
		wn__journal_add(policy->journal, positive->id, index, frame->key, frame->size);
	return err;
}

/* The next filter that is built for it will heed it, after a reopening, too. */
static void note_for_later(struct wn__policy *policy, const struct wn__frame *frame)
{
	static const struct wn__small_id no_id;
	size_t at = frame->hash.lo % WN__NOTED_KEYS;

	if (frame->hashed &&
	    atomic_exchange_explicit(&policy->noted[at], frame->hash.hi, memory_order_relaxed) !=
		    frame->hash.hi)
		wn__journal_add(policy->journal, no_id, WN__JOURNAL_NO_INDEX, frame->key,
				frame->size);
}

static void learn(struct wn__policy *policy, const struct wn__frame *frame,
		  const struct wn__positive *positive)
{
	uint64_t *records = NULL;
	uint32_t count = 0;
	int err = WN_ERR_NOT_FOUND;

	wn__count(policy, WN__FALSE_POSITIVES, 1);
	if (positive->count < 0) {
		note_for_later(policy, frame);
		return;
	}
	if (positive->count && !wn__packs_in_doubt(policy->packs))
		err = wn__packs_read(policy->packs, positive->id, &records, &count);
	for (int i = 0; i < positive->count && !err; i++) {
		uint32_t index = positive->indexes[i];

		err = index < count ? learn_match(policy, frame, positive, index, records[index]) :
				      WN_ERR_CORRUPT;
	}
	free(records);
	wn__count(policy,
		  !err                    ? WN__ADAPTATIONS :
		  err == WN_ERR_UNFIXABLE ? WN__UNFIXABLE :
					    WN__MAP_MISSES,
		  1);
}

/* This thread's lookups are added up and passed on now and then: two locked instructions a
 * lookup were 2% of it. */
static _Thread_local struct {
	struct wn__policy *policy;
	uint32_t lookups, queries;
} counted __attribute__((tls_model("initial-exec")));

static void count_lookup(struct wn__policy *policy, uint32_t queries)
{
	if (counted.policy != policy) {
		counted.policy = policy;
		counted.lookups = counted.queries = 0;
	}
	counted.queries += queries;
	if (++counted.lookups % 64)
		return;
	wn__count(policy, WN__LOOKUPS, counted.lookups);
	wn__count(policy, WN__QUERIES, counted.queries);
	counted.lookups = counted.queries = 0;
}

/* LevelDB asks from the newest table to the oldest and stops where it finds: every positive but
 * the last was false, and the last was true if a value came of it. A deleted key breaks the
 * rule, and teaches nothing: nothing tells it from the stored one. */
static void end_lookup(struct wn__policy *policy, const struct wn__frame *frame, bool found,
		       bool failed)
{
	uint32_t count = frame->count;

	count_lookup(policy, frame->queries);
	if (failed || count > WN__FRAME_POSITIVES) {
		wn__count(policy, WN__LOOKUPS_DISCARDED, 1);
		return;
	}
	if (count) {
		wn__count(policy, WN__POSITIVES, count);
		for (uint32_t i = 0; i < count - found; i++)
			learn(policy, frame, &frame->positives[i]);
	}
	if (!found && frame->hashed)
		wn__misses_note(policy->misses, frame->hash, frame->key, frame->size);
}

static _Thread_local struct {
	uint64_t queries, positives;
} last_get __attribute__((tls_model("initial-exec")));

void wn_leveldb_last_get(uint64_t *queriesp, uint64_t *positivesp)
{
	*queriesp = last_get.queries;
	*positivesp = last_get.positives;
}

char *wn_leveldb_get(struct wn_leveldb *wn, const leveldb_readoptions_t *options, const char *key,
		     size_t size, size_t *value_sizep, char **errptr)
{
	struct wn__canonical canonical;
	struct wn__frame frame;
	char *value;

	frame.outer = wn__current_frame;
	frame.policy = wn->policy;
	frame.key = key;
	frame.size = size;
	if (wn->policy->canonical) {
		wn__canonicalize(wn->policy, key, size, &canonical);
		frame.key = canonical.key ? canonical.key : "";
		frame.size = canonical.size;
	}
	frame.hashed = false;
	frame.queries = frame.count = 0;
	wn__current_frame = &frame;
	value = leveldb_get(wn->level, options, key, size, value_sizep, errptr);
	wn__current_frame = frame.outer;
	last_get.queries = frame.queries;
	last_get.positives = frame.count;
	end_lookup(wn->policy, &frame, value, *errptr);
	if (wn->policy->canonical)
		wn__canonical_free(&canonical);
	return value;
}

/* ---- what is kept ------------------------------------------------------- */

/* A lesson is made of what the pack says now; the last filter's records are at hand. */
struct loading {
	struct wn__policy *policy;
	struct wn__small_id id;
	uint64_t *records;
	uint32_t count;
};

static void load_record(void *given, struct wn__small_id id, uint32_t index, const char *key,
			size_t size)
{
	struct loading *loading = given;
	struct wn__policy *policy = loading->policy;

	if (size)
		wn__misses_note(policy->misses, wn__hash_key(policy->secret, key, size), key, size);
	if (index == WN__JOURNAL_NO_INDEX)
		return;
	if (id.lo != loading->id.lo || id.hi != loading->id.hi) {
		free(loading->records);
		loading->id = id;
		if (wn__packs_read(policy->packs, id, &loading->records, &loading->count))
			loading->count = 0;
	}
	if (index < loading->count)
		wn__small_lessons_learn(policy->lessons, id, index,
				       loading->records[index] & WN__SMALL_LESSON_MASK);
}

static void load_journal(struct wn__policy *policy)
{
	struct loading loading = {.policy = policy};

	wn__journal_load(policy->journal, load_record, &loading);
	free(loading.records);
}

static void add_lesson(void *journal, struct wn__small_id id, uint32_t index)
{
	wn__journal_add(journal, id, index, NULL, 0);
}

static void add_all(void *given)
{
	static const struct wn__small_id no_id;
	struct wn__policy *policy = given;
	struct wn__miss_list *list = wn__misses_list(policy->misses, true);

	wn__small_lessons_each(policy->lessons, add_lesson, policy->journal);
	for (size_t i = 0; list && i < list->count; i++)
		wn__journal_add(policy->journal, no_id, WN__JOURNAL_NO_INDEX, list->items[i].key,
				list->items[i].size);
	wn__misses_release(policy->misses, list);
}

/* Under the lock. */
static void write_down(struct wn_leveldb *wn, bool sync)
{
	struct wn__policy *policy = wn->policy;

	wn__journal_flush(policy->journal, sync);
	if (wn__journal_is_long(policy->journal))
		wn__journal_rewrite(policy->journal, add_all, policy);
}

/* ---- the worker --------------------------------------------------------- */

static void *work(void *given)
{
	struct wn_leveldb *wn = given;

	pthread_mutex_lock(&wn->lock);
	while (!wn->stopping) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&wn->wake, &wn->lock, &until);
		write_down(wn, true);
	}
	pthread_mutex_unlock(&wn->lock);
	return NULL;
}

static int start_worker(struct wn_leveldb *wn)
{
	int err = pthread_create(&wn->worker, NULL, work, wn);

	wn->started = err == 0;
	return err;
}

static void stop_worker(struct wn_leveldb *wn)
{
	if (!wn->started)
		return;
	pthread_mutex_lock(&wn->lock);
	wn->stopping = true;
	pthread_cond_signal(&wn->wake);
	pthread_mutex_unlock(&wn->lock);
	pthread_join(wn->worker, NULL);
	wn->started = false;
}

void wn_leveldb_drain(struct wn_leveldb *wn)
{
	pthread_mutex_lock(&wn->lock);
	write_down(wn, false);
	pthread_mutex_unlock(&wn->lock);
	wn__misses_release(wn->policy->misses, wn__misses_list(wn->policy->misses, true));
}

/* ---- opening ------------------------------------------------------------ */

static void set_error(char **errptr, const char *what, const char *why)
{
	size_t size = strlen(what) + strlen(why) + 16;
	char *message = malloc(size); /* for leveldb_free() */

	if (message)
		snprintf(message, size, "winnow: %s: %s", what, why);
	free(*errptr);
	*errptr = message;
}

static char *join(const char *a, const char *b)
{
	size_t size = strlen(a) + strlen(b) + 1;
	char *joined = wn__alloc(size);

	if (joined)
		snprintf(joined, size, "%s%s", a, b);
	return joined;
}

static int set_paths(struct wn_leveldb *wn, const char *path,
		     const struct wn_leveldb_options *given)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	wn->path = join(path, "");
	if (!wn->path)
		return ENOMEM;
	wn->path[length] = '\0';
	wn->directory = given->sidecar_directory ? join(given->sidecar_directory, "") :
						   join(wn->path, ".winnow");
	return wn->directory ? 0 : ENOMEM;
}

/* The secret is in the database's own directory, too: a copy of that alone can be read, and
 * LevelDB leaves files alone that it does not know. */
static int load_secret(const char *directory, const char *name, struct wn_secret **secretp)
{
	char *path = join(directory, name);
	int err = path ? wn_secret_load(path, secretp) : ENOMEM;

	free(path);
	return err;
}

static int save_secret(const char *directory, const char *name, const struct wn_secret *secret)
{
	char *path = join(directory, name);
	struct wn_secret *there = NULL;
	int err = path ? 0 : ENOMEM;

	if (path && (wn_secret_load(path, &there) != 0 ||
		     memcmp(wn_secret_seed(there), wn_secret_seed(secret), WN_SEED_SIZE) != 0))
		err = wn_secret_save(secret, path);
	wn_secret_destroy(there);
	free(path);
	return err;
}

static int find_secret(struct wn_leveldb *wn)
{
	if (load_secret(wn->path, "/winnow.secret", &wn->secret) == 0 ||
	    load_secret(wn->directory, "/secret", &wn->secret) == 0)
		return 0;
	return wn_secret_create_random(&wn->secret);
}

static const struct wn__shim_calls shim_calls = {wn__begin_table, wn__end_table, wn__drop_table,
						 wn__remove_table};

static int prepare(struct wn_leveldb *wn, const leveldb_options_t *options, const char *path,
		   const struct wn_leveldb_options *given,
		   const struct wn__level_filter *filter)
{
	struct wn__policy *policy;
	uint64_t sum;
	bool odd;
	int err = set_paths(wn, path, given);

	if (!err)
		err = find_secret(wn);
	if (!err)
		err = wn__level_policy_create(filter, wn->secret, &wn->policy);
	if (err)
		return err;
	policy = wn->policy;
	wn__level_policy_canonicalize(policy, given->canonical, given->canonical_arg);
	wn->shim = wn__shim_watch(options, &shim_calls, policy, &odd);
	if (!wn->shim)
		return odd ? WN_ERR_VERSION : ENOMEM;
	sum = XXH3_64bits(wn_secret_seed(wn->secret), WN_SEED_SIZE);
	err = wn__small_lessons_create(given->learned_bytes, &policy->lessons);
	if (!err)
		err = wn__packs_open(wn->directory, sum, &policy->packs);
	if (!err)
		err = wn__strangers_find(policy->packs, wn->path, policy->secret_id);
	if (!err)
		err = wn__misses_create(given->known_misses, wn->secret,
					wn__shim_is_bytewise(wn->shim) ? NULL : wn->shim,
					&policy->misses);
	if (!err)
		err = wn__journal_create(wn->directory, sum, &policy->journal);
	if (err)
		return err;
	load_journal(policy);
	wn->shown = wn__level_policy_show(policy, false);
	leveldb_options_set_filter_policy(wn__shim_options(wn->shim), wn->shown);
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Packs whose table went while nobody watched. */
static void sweep(struct wn_leveldb *wn)
{
	DIR *directory = opendir(wn->path);
	uint64_t *numbers = NULL;
	size_t count = 0, room = 0;
	const struct dirent *entry;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		uint64_t number = wn__shim_table_number(entry->d_name);

		if (number && count == room) {
			uint64_t *more =
				wn__realloc(numbers, (room = 2 * room + 64) * sizeof(*numbers));

			if (!more)
				goto out;
			numbers = more;
		}
		if (number)
			numbers[count++] = number;
	}
	if (count)
		qsort(numbers, count, sizeof(*numbers), compare_numbers);
	wn__packs_sweep(wn->policy->packs, numbers, count, wn__forget_filter, wn->policy);
out:
	closedir(directory);
	free(numbers);
}

static int settle(struct wn_leveldb *wn)
{
	int err = mkdir(wn->directory, 0700) < 0 && errno != EEXIST ? errno : 0;

	if (!err)
		err = save_secret(wn->path, "/winnow.secret", wn->secret);
	if (!err)
		err = save_secret(wn->directory, "/secret", wn->secret);
	if (err)
		return err;
	sweep(wn);
	return start_worker(wn);
}

static void close_all(struct wn_leveldb *wn)
{
	struct wn__policy *policy = wn->policy;

	if (wn->level)
		leveldb_close(wn->level);
	stop_worker(wn);
	wn__shim_unwatch(wn->shim);
	if (wn->shown)
		leveldb_filterpolicy_destroy(wn->shown);
	if (policy) {
		wn__journal_destroy(policy->journal);
		wn__misses_destroy(policy->misses);
		wn__packs_close(policy->packs);
		wn__small_lessons_destroy(policy->lessons);
	}
	wn__level_policy_destroy(policy);
	wn_secret_destroy(wn->secret);
	pthread_cond_destroy(&wn->wake);
	pthread_mutex_destroy(&wn->lock);
	free(wn->directory);
	free(wn->path);
	free(wn);
}

static struct wn_leveldb *create(void)
{
	struct wn_leveldb *wn = wn__calloc(1, sizeof(*wn));
	pthread_condattr_t monotonic;

	if (!wn)
		return NULL;
	pthread_mutex_init(&wn->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&wn->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return wn;
}

static bool open_all(struct wn_leveldb *wn, const leveldb_options_t *options, const char *path,
		     const struct wn_leveldb_options *given, char **errptr)
{
	struct wn__level_filter filter;
	char message[200];
	int err = wn__parse_options(given->filter, &filter, message, sizeof(message));

	if (err) {
		set_error(errptr, "filter", message);
		return false;
	}
	if (given->known_misses > WN_LEVELDB_MAX_KNOWN_MISSES) {
		set_error(errptr, "known_misses", "more than 67,108,864");
		return false;
	}
	err = prepare(wn, options, path, given, &filter);
	if (err) {
		set_error(errptr, path, wn_strerror(err));
		return false;
	}
	if (!wn__shim_is_bytewise(wn->shim) && !given->canonical &&
	    !given->equal_keys_are_identical) {
		set_error(errptr, "comparator",
			  "it may take keys with different bytes for equal, and filters would deny "
			  "them; say equal_keys_are_identical, or give canonical");
		return false;
	}
	wn->level = leveldb_open(wn__shim_options(wn->shim), path, errptr);
	if (!wn->level)
		return false;
	err = settle(wn);
	if (err)
		set_error(errptr, wn->directory, wn_strerror(err));
	return err == 0;
}

leveldb_t *wn_leveldb_open(const leveldb_options_t *options, const char *path,
			   const struct wn_leveldb_options *given, struct wn_leveldb **wnp,
			   char **errptr)
{
	static const struct wn_leveldb_options defaults;
	struct wn_leveldb *wn = create();

	*wnp = NULL;
	if (!wn) {
		set_error(errptr, path, wn_strerror(ENOMEM));
		return NULL;
	}
	if (!open_all(wn, options, path, given ? given : &defaults, errptr)) {
		close_all(wn);
		return NULL;
	}
	*wnp = wn;
	return wn->level;
}

void wn_leveldb_close(struct wn_leveldb *wn)
{
	if (!wn)
		return;
	leveldb_close(wn->level);
	wn->level = NULL;
	stop_worker(wn);
	write_down(wn, true);
	close_all(wn);
}

/* ---- counting ----------------------------------------------------------- */

void wn_leveldb_stats(struct wn_leveldb *wn, struct wn_leveldb_stats *statsp)
{
	struct wn__policy *policy = wn->policy;
	struct wn__small_lessons_stats lessons;
	struct wn__packs_stats packs;
	uint64_t counts[WN__COUNTERS];

	for (int i = 0; i < WN__COUNTERS; i++)
		counts[i] = atomic_load_explicit(&policy->counters[i], memory_order_relaxed);
	wn__small_lessons_describe(policy->lessons, &lessons);
	wn__packs_describe(policy->packs, &packs);
	*statsp = (struct wn_leveldb_stats){
		.lookups = counts[WN__LOOKUPS],
		.lookups_discarded = counts[WN__LOOKUPS_DISCARDED],
		.filter_queries = counts[WN__QUERIES],
		.positives = counts[WN__POSITIVES],
		.false_positives = counts[WN__FALSE_POSITIVES],
		.adaptations = counts[WN__ADAPTATIONS],
		.unfixable = counts[WN__UNFIXABLE],
		.map_misses = counts[WN__MAP_MISSES],
		.filters_built = counts[WN__FILTERS_BUILT],
		.filters_frozen = counts[WN__FILTERS_FROZEN],
		.filters_given_up = counts[WN__FILTERS_GIVEN_UP],
		.filter_bytes = counts[WN__FILTER_BYTES],
		.filter_keys = counts[WN__FILTER_KEYS],
		.foreign_filters = counts[WN__FOREIGN_FILTERS],
		.packs_lost = counts[WN__PACKS_LOST],
		.carried_over = counts[WN__CARRIED_OVER],
		.lessons = lessons.lessons,
		.learned_bytes = lessons.bytes + wn__misses_bytes(policy->misses),
		.reversemap_bytes = packs.bytes,
		.strangers = packs.strangers,
		.learning_off = packs.unread != 0,
	};
}
