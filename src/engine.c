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
#include "ids.h"
#include "kind.h"

#define QUEUE_LENGTH 4096
#define SAVE_MS 1000

/* As many false positives are remembered, to tell which ones come again. */
#define REPORTED_TAGS ((size_t)1 << 16)

/* A minirun is a handful of fingerprints, also where remainders are short. */
#define MAX_RANKS 64

/* ---- making and freeing -------------------------------------------------- */

static void free_engine(struct wn__engine *engine)
{
	wn__worker_fini(engine);
	free(engine->reported);
	wn__hot_destroy(engine->hot);
	wn__negatives_destroy(engine->negatives);
	wn__learned_destroy(engine->learned);
	free(engine);
}

static int open_learned(struct wn__engine *engine, const struct wn__engine_options *options)
{
	if (options->name)
		return wn__learned_open(options->name, options->learned_bytes, &engine->learned);
	return wn__learned_create(options->learned_bytes, &engine->learned);
}

int wn__engine_create(const struct wn__engine_options *options, const struct wn_secret *secret,
		      struct wn__engine **enginep)
{
	struct wn__engine *engine = wn__alloc_table(sizeof(*engine));
	size_t queue_length = 0;
	int err;

	*enginep = NULL;
	if (!engine)
		return ENOMEM;
	if (options->background)
		queue_length = options->queue_length ? options->queue_length : QUEUE_LENGTH;
	err = wn__worker_init(engine, queue_length);
	if (err) {
		free(engine);
		return err;
	}
	atomic_store_explicit(&engine->references, 1, memory_order_relaxed);
	engine->background = options->background;
	engine->save_ms = options->save_ms ? options->save_ms : SAVE_MS;
	engine->reported = wn__calloc(REPORTED_TAGS, sizeof(*engine->reported));
	err = engine->reported ? open_learned(engine, options) : ENOMEM;
	if (!err)
		err = wn__negatives_create(NULL, wn_secret_seed(secret), &engine->negatives);
	if (!err && options->config && wn__config_wants_costs(options->config))
		err = wn__hot_create(&engine->hot);
	if (err) {
		free_engine(engine);
		return err;
	}
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

	*statsp = (struct wn__engine_stats){0};
	wn__learned_describe(engine->learned, &learned);
	wn__negatives_describe(engine->negatives, &negatives);
	wn__worker_describe(engine, statsp);
	statsp->negatives = negatives.count;
	statsp->lessons_dropped = learned.dropped_lessons + learned.refused;
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
	statsp->learned_bytes = learned.bytes;
}

/* ---- learning ----------------------------------------------------------- */

/* The stored keys of the match's minirun from its rank on, as long as known bits tell them from
 * the query. 0: up to the minirun's end, and WN__RUN_NO_PLACE proved that it is the end.
 * WN_ERR_UNFIXABLE: the next one cannot be told from the query, or there are too many. */
static int collect_stored(struct wn__engine *engine, const struct wn__trace_entry *entry,
			  struct wn_hash *stored, uint32_t *countp)
{
	const struct wn_match *match = &entry->match;
	struct wn__run_entry found[MAX_RANKS];
	size_t count;
	int err = wn__worker_lookup(engine, &entry->filter, match->minirun, match->rank, found,
				    MAX_RANKS, &count);

	/* Not waiting to be stored: then it is stored, or is not to be had. */
	if (err == WN_ERR_NOT_FOUND)
		err = wn__runs_lookup_minirun(engine->runs, &entry->filter, match->minirun,
					      match->rank, found, MAX_RANKS, &count);
	for (*countp = 0; *countp < count; ++*countp) {
		if (!wn__run_entry_tells(&entry->filter, &found[*countp], entry->hash,
					 WN__PIECE_BITS))
			return WN_ERR_UNFIXABLE;
		stored[*countp] = found[*countp].hash;
	}
	if (err == WN__RUN_NO_PLACE)
		return 0;
	return err ? err : WN_ERR_UNFIXABLE;
}

/* With the match refuted, the minirun's next fingerprint would have its turn in the next
 * lookup: the ranks behind it are dealt with as well, as far as there are any. */
static int learn_ranks(struct wn__lessons *lessons, const struct wn__trace_entry *entry,
		       const struct wn_hash *stored, uint32_t count)
{
	struct wn_match match = entry->match;
	int err = wn__lessons_learn(lessons, stored[0], entry->hash, &match);

	for (uint32_t i = 1; i < count && !err; i++) {
		match.rank++;
		if (wn__lessons_learn(lessons, stored[i], entry->hash, &match))
			break;
	}
	return err;
}

/* A filter with fingerprints is told how those go on that matched. One without is told of
 * all keys of the minirun, and that there are no others: not one may be missing. */
static int teach(struct wn__engine *engine, struct wn__lessons *lessons,
		 const struct wn__trace_entry *entry)
{
	struct wn_hash stored[MAX_RANKS];
	uint32_t count;
	int err = collect_stored(engine, entry, stored, &count);

	if (entry->filter.plain)
		return err ? err :
			     wn__lessons_learn_minirun(lessons, stored, count, entry->hash,
						       entry->match.minirun);
	if (count > 0)
		return learn_ranks(lessons, entry, stored, count);
	return err ? err : WN_ERR_NOT_FOUND;
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

	if (entry->match.known && engine->runs)
		err = wn__learned_acquire(engine->learned, filter->id, shape, &lessons);
	if (!err)
		err = teach(engine, lessons, entry);
	if (!err)
		wn__engine_count(engine, WN__ADAPTATIONS, 1);
	else if (err == WN_ERR_UNFIXABLE)
		wn__engine_count(engine, WN__UNFIXABLE, 1);
	else if (err != WN_ERR_FULL) /* the registry counts what the budget refuses */
		wn__engine_count(engine, WN__MAP_MISSES, 1);
	/* If only the budget was in the way, the next filter may still do better. */
	if (lessons && (!err || err == WN_ERR_FULL))
		wn__negatives_add(engine->negatives, filter->secret_id, entry->hash, 1);
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

/* The place of a false positive among those that are remembered. An older one may have taken
 * it: then it counts as new. */
static struct wn__reported *find_reported(struct wn__engine *engine,
					  const struct wn__trace_entry *entry, uint64_t *tagp)
{
	uint64_t tag = entry->hash.lo ^ wn__id_hash(entry->filter.id);

	*tagp = tag | 1; /* 0 is an empty place */
	return &engine->reported[tag % REPORTED_TAGS];
}

/* Was the same false positive dealt with before this lookup began? */
static bool is_repeated(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	uint64_t tag;
	const struct wn__reported *place = find_reported(engine, entry, &tag);

	return atomic_load_explicit(&place->tag, memory_order_relaxed) == tag &&
	       atomic_load_explicit(&place->since, memory_order_relaxed) <= entry->began;
}

static void remember(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	uint64_t tag;
	struct wn__reported *place = find_reported(engine, entry, &tag);

	if (atomic_load_explicit(&place->tag, memory_order_relaxed) == tag)
		return;
	/* Two threads may mix theirs up here: it is a count, and rarely off by one. */
	atomic_store_explicit(&place->since, wn__trace_tick(), memory_order_relaxed);
	atomic_store_explicit(&place->tag, tag, memory_order_relaxed);
}

void wn__engine_report(struct wn__engine *engine, const struct wn__trace_entry *entry)
{
	bool repeated = is_repeated(engine, entry);

	wn__engine_count(engine, WN__FALSE_POSITIVES, 1);
	if (repeated)
		wn__engine_count(engine, WN__REPEATED_FALSE_POSITIVES, 1);
	if (engine->background)
		wn__worker_report(engine, entry);
	else
		wn__engine_learn(engine, entry);
	remember(engine, entry);
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
	/* Others in this process may write what is only read here: lessons of filters that are
	 * not known here may well be theirs. */
	if (read_only) {
		wn__saved_load(directory, engine->learned, engine->negatives);
		return;
	}
	engine->save_error =
		wn__saved_open(directory, engine->learned, engine->negatives, &engine->saved);
	if (engine->save_error)
		wn__engine_count(engine, WN__SAVE_FAILURES, 1);
	forget_strangers(engine);
}

int wn__engine_sync(struct wn__engine *engine)
{
	return engine->saved ? wn__saved_sync(engine->saved) : engine->save_error;
}
