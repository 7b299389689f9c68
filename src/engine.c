/* engine.c - what a database's filters learn from; see engine.h. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "alloc.h"
#include "bytes.h"
#include "engine.h"
#include "kind.h"

#define QUEUE_LENGTH 4096
#define SAVE_MS 1000

/* As many false positives are remembered, to tell which ones come again. */
#define REPORTED_TAGS ((size_t)1 << 16)

/* A minirun is a handful of fingerprints, also where remainders are short. */
#define MAX_RANKS 64

/* ---- engines of one database, one after the other ----------------------- */

static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wn__engine *named;

/* Hold it, unless its last reference is just being released. */
static bool try_hold(struct wn__engine *engine)
{
	size_t references = atomic_load_explicit(&engine->references, memory_order_relaxed);

	while (references > 0) {
		if (atomic_compare_exchange_weak_explicit(&engine->references, &references,
							  references + 1, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

/* The one of this name whose lessons are still being read. */
static void find_elder(struct wn__engine *engine)
{
	pthread_mutex_lock(&named_lock);
	for (struct wn__engine *other = named; other && !engine->elder; other = other->next) {
		struct wn__engine *elder = other->elder ? other->elder : other;

		if (strcmp(other->name, engine->name) == 0 && try_hold(elder))
			engine->elder = elder;
	}
	pthread_mutex_unlock(&named_lock);
}

/* From here on others may find it. */
static void enter_name(struct wn__engine *engine)
{
	if (!engine->name)
		return;
	pthread_mutex_lock(&named_lock);
	engine->next = named;
	named = engine;
	pthread_mutex_unlock(&named_lock);
}

static void leave_name(struct wn__engine *engine)
{
	struct wn__engine **at = &named;

	pthread_mutex_lock(&named_lock);
	while (*at && *at != engine)
		at = &(*at)->next;
	if (*at)
		*at = engine->next;
	pthread_mutex_unlock(&named_lock);
	free(engine->name);
}

static void free_engine(struct wn__engine *engine)
{
	struct wn__engine *elder = engine->elder;

	wn__worker_fini(engine);
	leave_name(engine);
	free(engine->reported);
	wn__negatives_destroy(engine->negatives);
	if (!elder || engine->learned != elder->learned)
		wn__learned_destroy(engine->learned);
	if (!elder || engine->rebuilds != elder->rebuilds)
		wn__rebuilds_destroy(engine->rebuilds);
	wn__engine_release(elder);
	free(engine);
}

static int take_name(struct wn__engine *engine, const char *name)
{
	if (!name)
		return 0;
	engine->name = wn__alloc(strlen(name) + 1);
	if (!engine->name)
		return ENOMEM;
	strcpy(engine->name, name);
	find_elder(engine);
	return 0;
}

int wn__engine_create(const struct wn__engine_options *options, const struct wn_secret *secret,
		      struct wn__engine **enginep)
{
	struct wn__engine *engine = wn__alloc_table(sizeof(*engine));
	int err;

	*enginep = NULL;
	if (!engine)
		return ENOMEM;
	err = wn__worker_init(engine, options->queue_length ? options->queue_length : QUEUE_LENGTH);
	if (err) {
		free(engine);
		return err;
	}
	atomic_store_explicit(&engine->references, 1, memory_order_relaxed);
	engine->synchronous = options->synchronous;
	engine->save_ms = options->save_ms ? options->save_ms : SAVE_MS;
	engine->reported = wn__calloc(REPORTED_TAGS, sizeof(*engine->reported));
	err = engine->reported ? take_name(engine, options->name) : ENOMEM;
	if (!err && engine->elder)
		engine->learned = engine->elder->learned;
	else if (!err)
		err = wn__learned_create(options->learned_bytes, &engine->learned);
	if (!err)
		err = wn__negatives_create(NULL, wn_secret_seed(secret), &engine->negatives);
	if (!err && engine->elder && engine->elder->rebuilds)
		engine->rebuilds = engine->elder->rebuilds;
	else if (!err && options->config && wn__kind_rebuilds(wn__config_kind(options->config)))
		err = wn__rebuilds_create(options->config, secret,
					  options->learned_bytes ? options->learned_bytes :
								   WN__LEARNED_BUDGET,
					  &engine->rebuilds);
	if (err) {
		free_engine(engine);
		return err;
	}
	enter_name(engine);
	*enginep = engine;
	return 0;
}

struct wn__engine *wn__engine_hold(struct wn__engine *engine)
{
	atomic_fetch_add_explicit(&engine->references, 1, memory_order_relaxed);
	return engine;
}

void wn__engine_release(struct wn__engine *engine)
{
	if (!engine)
		return;
	if (atomic_fetch_sub_explicit(&engine->references, 1, memory_order_acq_rel) == 1)
		free_engine(engine);
}

/* ---- statistics --------------------------------------------------------- */

void wn__engine_count(struct wn__engine *engine, enum wn__engine_counter counter, uint64_t more)
{
	static atomic_uint threads;
	static _Thread_local unsigned stripe;

	if (stripe == 0)
		stripe = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) %
				     WN__ENGINE_STRIPES;
	atomic_fetch_add_explicit(&engine->stripes[stripe - 1].counters[counter], more,
				  memory_order_relaxed);
}

uint64_t wn__engine_counted(struct wn__engine *engine, enum wn__engine_counter counter)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WN__ENGINE_STRIPES; i++)
		sum += atomic_load_explicit(&engine->stripes[i].counters[counter],
					    memory_order_relaxed);
	return sum;
}

void wn__engine_describe(struct wn__engine *engine, struct wn__engine_stats *statsp)
{
	struct wn__learned_stats learned;
	struct wn__negatives_stats negatives;
	struct wn__rebuilds_stats rebuilds = {0};

	*statsp = (struct wn__engine_stats){0};
	wn__learned_describe(engine->learned, &learned);
	wn__negatives_describe(engine->negatives, &negatives);
	wn__worker_describe(engine, statsp);
	if (engine->rebuilds)
		wn__rebuilds_describe(engine->rebuilds, &rebuilds);
	statsp->negatives = negatives.count;
	statsp->lessons_dropped = learned.dropped_lessons;
	statsp->repeated_false_positives = wn__engine_counted(engine, WN__REPEATED_FALSE_POSITIVES);
	statsp->lookups = wn__engine_counted(engine, WN__LOOKUPS);
	statsp->lookups_discarded = wn__engine_counted(engine, WN__LOOKUPS_DISCARDED);
	statsp->positives = wn__engine_counted(engine, WN__POSITIVES);
	statsp->false_positives = wn__engine_counted(engine, WN__FALSE_POSITIVES);
	statsp->adaptations = wn__engine_counted(engine, WN__ADAPTATIONS);
	statsp->unfixable = wn__engine_counted(engine, WN__UNFIXABLE);
	statsp->map_misses = wn__engine_counted(engine, WN__MAP_MISSES);
	statsp->queue_drops = wn__engine_counted(engine, WN__QUEUE_DROPS);
	statsp->runs_stored = wn__engine_counted(engine, WN__RUNS_STORED);
	statsp->runs_lost = wn__engine_counted(engine, WN__RUNS_LOST);
	statsp->runs_retired = wn__engine_counted(engine, WN__RUNS_RETIRED);
	statsp->carried_over = wn__engine_counted(engine, WN__CARRIED_OVER);
	statsp->lessons = learned.lessons;
	statsp->learned_bytes = learned.bytes + rebuilds.bytes;
	statsp->rebuilt = rebuilds.built;
	statsp->rebuild_failures = rebuilds.failed;
}

/* ---- learning ----------------------------------------------------------- */

/* What tells the query from the key at this rank; WN_ERR_UNFIXABLE: nothing that is known. */
static int learn_rank(struct wn__engine *engine, struct wn__lessons *lessons,
		      const struct wn__trace_entry *entry, uint32_t rank)
{
	struct wn_match match = entry->match;
	struct wn__run_entry stored;
	int err = wn__worker_lookup(engine, &entry->filter, match.minirun, rank, &stored);

	if (err)
		err = wn__runs_lookup(engine->runs, &entry->filter, match.minirun, rank, &stored);
	if (err)
		return err;
	if (!wn__run_entry_tells(&entry->filter, &stored, entry->hash, WN__PIECE_BITS))
		return WN_ERR_UNFIXABLE;
	match.rank = rank;
	return wn__lessons_learn(lessons, stored.hash, entry->hash, &match);
}

/* With the match refuted, the minirun's next fingerprint would have its turn in the next
 * lookup: the ranks behind it are dealt with as well, as far as there are any. */
static void learn_ranks_behind(struct wn__engine *engine, struct wn__lessons *lessons,
			       const struct wn__trace_entry *entry)
{
	uint32_t rank = entry->match.rank;
	int err = 0;

	for (unsigned more = 0; more < MAX_RANKS && !err; more++)
		err = learn_rank(engine, lessons, entry, ++rank);
}

/* A filter that learns by being built again. What it was wrong about counts as learned once
 * there is a filter that was built against it. */
static void learn_by_rebuilding(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	const struct wn__run *filter = &entry->filter;

	wn__negatives_add(engine->negatives, filter->secret_id, entry->hash, 1);
	if (!engine->rebuilds || !engine->runs ||
	    !wn__rebuild_report(engine->rebuilds, filter, entry->hash) ||
	    wn__worker_is_waiting(engine, filter))
		return;
	if (wn__rebuild_build(engine->rebuilds, engine->runs, filter) == 0)
		wn__engine_count(engine, WN__ADAPTATIONS, 1);
	else
		wn__engine_count(engine, WN__MAP_MISSES, 1);
}

/* Lessons between two tellings; they take 16 bytes each, and more in pages half full. */
#define CHARGE_EVERY 1024

static void tell_charge(struct wn__engine *engine)
{
	struct wn__engine_stats stats;

	wn__engine_describe(engine, &stats);
	engine->charge(engine->charge_arg, stats.learned_bytes);
}

void wn__engine_charge(struct wn__engine *engine, wn__charge_fn *charge, void *arg)
{
	engine->charge = charge;
	engine->charge_arg = arg;
	if (charge)
		tell_charge(engine);
}

static void learn(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	const struct wn__run *filter = &entry->filter;
	struct wn__shape shape = {filter->slots, filter->remainder_bits};
	struct wn__lessons *lessons = NULL;
	int err = WN_ERR_NOT_FOUND;

	if (filter->rebuilds) {
		learn_by_rebuilding(engine, entry);
		return;
	}
	if (entry->match.known && engine->runs)
		err = wn__learned_acquire(engine->learned, filter->id, shape, &lessons);
	if (!err)
		err = learn_rank(engine, lessons, entry, entry->match.rank);
	if (!err) {
		wn__engine_count(engine, WN__ADAPTATIONS, 1);
		learn_ranks_behind(engine, lessons, entry);
		wn__negatives_add(engine->negatives, filter->secret_id, entry->hash, 1);
	} else {
		wn__engine_count(engine, err == WN_ERR_UNFIXABLE ? WN__UNFIXABLE : WN__MAP_MISSES,
				 1);
	}
	wn__lessons_release(lessons);
}

void wn__engine_learn(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	learn(engine, entry);
	if (engine->charge &&
	    atomic_fetch_add_explicit(&engine->learned_since, 1, memory_order_relaxed) %
				    CHARGE_EVERY == CHARGE_EVERY - 1)
		tell_charge(engine);
}

/* Was this one reported before? The tag of an older one may have taken its place: then it
 * counts as new. */
static bool is_repeated(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	uint64_t tag = entry->hash.lo ^ get_le64(entry->filter.id);
	atomic_uint_fast64_t *place = &engine->reported[tag % REPORTED_TAGS];

	tag |= 1; /* 0 is an empty place */
	if (atomic_load_explicit(place, memory_order_relaxed) == tag)
		return true;
	atomic_store_explicit(place, tag, memory_order_relaxed);
	return false;
}

void wn__engine_report(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	wn__engine_count(engine, WN__FALSE_POSITIVES, 1);
	if (is_repeated(engine, entry))
		wn__engine_count(engine, WN__REPEATED_FALSE_POSITIVES, 1);
	if (engine->synchronous)
		wn__engine_learn(engine, entry);
	else
		wn__worker_report(engine, entry);
}

/* ---- building ----------------------------------------------------------- */

void wn__engine_carry_over(struct wn__engine *engine, const struct wn__negatives_view *view,
			   struct wn_builder *builder)
{
	size_t limit = wn_builder_count(builder), added = 0;

	if (limit < WN__MIN_CARRIED)
		limit = WN__MIN_CARRIED;
	if (!view)
		return;
	if (limit > view->count)
		limit = view->count;
	while (added < limit &&
	       wn_builder_add_costly(builder, view->negatives[added].hash,
				     fmax(view->negatives[added].cost, DBL_MIN)) == 0)
		added++;
	wn__engine_count(engine, WN__CARRIED_OVER, added);
}

int wn__engine_add_negative(struct wn__engine *engine, const struct wn_secret *secret,
			    struct wn_hash hash, double cost)
{
	return wn__negatives_add(engine->negatives, wn_secret_id(secret), hash, cost);
}

/* ---- saving ------------------------------------------------------------- */

static int compare_owned(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

/* What has no run had its table deleted, and could learn no more if it had not. */
static void forget_strangers(struct wn__engine *engine)
{
	size_t count = engine->owned_count;
	unsigned char(*ids)[WN_BLOCK_ID_SIZE] = wn__calloc(count + 1, sizeof(*ids));

	if (!ids)
		return;
	for (size_t i = 0; i < count; i++)
		memcpy(ids[i], engine->owned[i].id, sizeof(ids[i]));
	qsort(ids, count, sizeof(*ids), compare_owned);
	wn__learned_retain(engine->learned, (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, count);
	free(ids);
}

void wn__engine_keep(struct wn__engine *engine, const char *directory, bool read_only)
{
	if (read_only)
		wn__saved_load(directory, engine->learned, engine->negatives);
	else if (wn__saved_open(directory, engine->learned, engine->negatives, &engine->saved))
		wn__engine_count(engine, WN__SAVE_FAILURES, 1);
	forget_strangers(engine);
}

int wn__engine_sync(struct wn__engine *engine)
{
	return engine->saved ? wn__saved_sync(engine->saved) : 0;
}
