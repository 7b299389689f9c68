/* learn.c - what a database's filters learn from; see engine.h. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "learn.h"
#include "base/ids.h"
#include "kinds/kind.h"

#define QUEUE_LENGTH 4096
#define SAVE_MS 1000

/* As many false positives are remembered, to tell which ones come again. */
#define REPORTED_TAGS ((size_t)1 << 16)

/* A minirun is a handful of fingerprints, also where remainders are short. */
#define MAX_RANKS 64

/* ---- making and freeing -------------------------------------------------- */

static void free_engine(struct wn__learn *learn)
{
	wn__worker_fini(learn);
	free(learn->reported);
	wn__hot_destroy(learn->hot);
	wn__negatives_destroy(learn->negatives);
	wn__registry_destroy(learn->registry);
	free(learn);
}

static int open_learned(struct wn__learn *learn, const struct wn__learn_options *options)
{
	if (options->name)
		return wn__registry_open(options->name, options->learned_bytes, &learn->registry);
	return wn__registry_create(options->learned_bytes, &learn->registry);
}

int wn__learn_create(const struct wn__learn_options *options, const struct wn_secret *secret,
		      struct wn__learn **enginep)
{
	struct wn__learn *learn = wn__alloc_table(sizeof(*learn));
	size_t queue_length = 0;
	int err;

	*enginep = NULL;
	if (!learn)
		return ENOMEM;
	if (options->background)
		queue_length = options->queue_length ? options->queue_length : QUEUE_LENGTH;
	err = wn__worker_init(learn, queue_length);
	if (err) {
		free(learn);
		return err;
	}
	atomic_store_explicit(&learn->references, 1, memory_order_relaxed);
	learn->background = options->background;
	learn->save_ms = options->save_ms ? options->save_ms : SAVE_MS;
	learn->reported = wn__calloc(REPORTED_TAGS, sizeof(*learn->reported));
	err = learn->reported ? open_learned(learn, options) : ENOMEM;
	if (!err)
		err = wn__negatives_create(NULL, wn_secret_seed(secret), &learn->negatives);
	if (!err && options->config && wn__config_wants_costs(options->config))
		err = wn__hot_create(&learn->hot);
	if (err) {
		free_engine(learn);
		return err;
	}
	*enginep = learn;
	return 0;
}

struct wn__learn *wn__learn_hold(struct wn__learn *learn)
{
	atomic_fetch_add_explicit(&learn->references, 1, memory_order_relaxed);
	return learn;
}

void wn__learn_release(struct wn__learn *learn)
{
	if (!learn)
		return;
	if (atomic_fetch_sub_explicit(&learn->references, 1, memory_order_acq_rel) == 1)
		free_engine(learn);
}

/* ---- statistics --------------------------------------------------------- */

void wn__learn_count(struct wn__learn *learn, enum wn__learn_counter counter, uint64_t more)
{
	static atomic_uint threads;
	static _Thread_local unsigned stripe;

	if (stripe == 0)
		stripe = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) %
				     WN__LEARN_STRIPES;
	atomic_fetch_add_explicit(&learn->stripes[stripe - 1].counters[counter], more,
				  memory_order_relaxed);
}

uint64_t wn__learn_counted(struct wn__learn *learn, enum wn__learn_counter counter)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WN__LEARN_STRIPES; i++)
		sum += atomic_load_explicit(&learn->stripes[i].counters[counter],
					    memory_order_relaxed);
	return sum;
}

void wn__learn_describe(struct wn__learn *learn, struct wn__learn_stats *statsp)
{
	struct wn__registry_stats registry;
	struct wn__negatives_stats negatives;

	*statsp = (struct wn__learn_stats){0};
	wn__registry_describe(learn->registry, &registry);
	wn__negatives_describe(learn->negatives, &negatives);
	wn__worker_describe(learn, statsp);
	statsp->negatives = negatives.count;
	statsp->lessons_dropped = registry.dropped_lessons + registry.refused;
	statsp->repeated_false_positives = wn__learn_counted(learn, WN__REPEATED_FALSE_POSITIVES);
	statsp->lookups = wn__learn_counted(learn, WN__LOOKUPS);
	statsp->lookups_discarded = wn__learn_counted(learn, WN__LOOKUPS_DISCARDED);
	statsp->positives = wn__learn_counted(learn, WN__POSITIVES);
	statsp->false_positives = wn__learn_counted(learn, WN__FALSE_POSITIVES);
	statsp->adaptations = wn__learn_counted(learn, WN__ADAPTATIONS);
	statsp->unfixable = wn__learn_counted(learn, WN__UNFIXABLE);
	statsp->map_misses = wn__learn_counted(learn, WN__MAP_MISSES);
	statsp->queue_drops = wn__learn_counted(learn, WN__QUEUE_DROPS);
	statsp->runs_stored = wn__learn_counted(learn, WN__RUNS_STORED);
	statsp->runs_lost = wn__learn_counted(learn, WN__RUNS_LOST);
	statsp->runs_retired = wn__learn_counted(learn, WN__RUNS_RETIRED);
	statsp->carried_over = wn__learn_counted(learn, WN__CARRIED_OVER);
	statsp->lessons = registry.lessons;
	statsp->learned_bytes = registry.bytes;
}

/* ---- learning ----------------------------------------------------------- */

/* The stored keys of the match's minirun from its rank on, as long as known bits tell them from
 * the query. 0: up to the minirun's end, and WN__MAP_NO_PLACE proved that it is the end.
 * WN_ERR_UNFIXABLE: the next one cannot be told from the query, or there are too many. */
static int collect_stored(struct wn__learn *learn, const struct wn__trace_entry *entry,
			  struct wn_hash *stored, uint32_t *countp)
{
	const struct wn_match *match = &entry->match;
	struct wn__keylist_entry found[MAX_RANKS];
	size_t count;
	int err = wn__worker_lookup(learn, &entry->filter, match->minirun, match->rank, found,
				    MAX_RANKS, &count);

	/* Not waiting to be stored: then it is stored, or is not to be had. */
	if (err == WN_ERR_NOT_FOUND)
		err = wn__map_lookup_minirun(learn->map, &entry->filter, match->minirun,
					      match->rank, found, MAX_RANKS, &count);
	for (*countp = 0; *countp < count; ++*countp) {
		if (!wn__keylist_entry_tells(&entry->filter, &found[*countp], entry->hash,
					 WN__PIECE_BITS))
			return WN_ERR_UNFIXABLE;
		stored[*countp] = found[*countp].hash;
	}
	if (err == WN__MAP_NO_PLACE)
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
static int teach(struct wn__learn *learn, struct wn__lessons *lessons,
		 const struct wn__trace_entry *entry)
{
	struct wn_hash stored[MAX_RANKS];
	uint32_t count;
	int err = collect_stored(learn, entry, stored, &count);

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

static void tell_charge(struct wn__learn *learn)
{
	struct wn__learn_stats stats;

	wn__learn_describe(learn, &stats);
	learn->charge(learn->charge_arg, stats.learned_bytes);
}

void wn__learn_charge(struct wn__learn *learn, wn__charge_fn *charge, void *arg)
{
	learn->charge = charge;
	learn->charge_arg = arg;
	if (charge)
		tell_charge(learn);
}

static void learn_from(struct wn__learn *learn, const struct wn__trace_entry *entry)
{
	const struct wn__keylist *filter = &entry->filter;
	struct wn__shape shape = {filter->slots, filter->remainder_bits};
	struct wn__lessons *lessons = NULL;
	int err = WN_ERR_NOT_FOUND;

	if (entry->match.known && learn->map)
		err = wn__registry_acquire(learn->registry, filter->id, shape, &lessons);
	if (!err)
		err = teach(learn, lessons, entry);
	if (!err)
		wn__learn_count(learn, WN__ADAPTATIONS, 1);
	else if (err == WN_ERR_UNFIXABLE)
		wn__learn_count(learn, WN__UNFIXABLE, 1);
	else if (err != WN_ERR_FULL) /* the registry counts what the budget refuses */
		wn__learn_count(learn, WN__MAP_MISSES, 1);
	/* If only the budget was in the way, the next filter may still do better. */
	if (lessons && (!err || err == WN_ERR_FULL))
		wn__negatives_add(learn->negatives, filter->secret_id, entry->hash, 1);
	wn__lessons_release(lessons);
}

void wn__learn_learn(struct wn__learn *learn, const struct wn__trace_entry *entry)
{
	learn_from(learn, entry);
	if (learn->charge &&
	    atomic_fetch_add_explicit(&learn->learned_since, 1, memory_order_relaxed) %
				    CHARGE_EVERY == CHARGE_EVERY - 1)
		tell_charge(learn);
}

/* The place of a false positive among those that are remembered. An older one may have taken
 * it: then it counts as new. */
static struct wn__reported *find_reported(struct wn__learn *learn,
					  const struct wn__trace_entry *entry, uint64_t *tagp)
{
	uint64_t tag = entry->hash.lo ^ wn__id_hash(entry->filter.id);

	*tagp = tag | 1; /* 0 is an empty place */
	return &learn->reported[tag % REPORTED_TAGS];
}

/* Was the same false positive dealt with before this lookup began? */
static bool is_repeated(struct wn__learn *learn, const struct wn__trace_entry *entry)
{
	uint64_t tag;
	const struct wn__reported *place = find_reported(learn, entry, &tag);

	return atomic_load_explicit(&place->tag, memory_order_relaxed) == tag &&
	       atomic_load_explicit(&place->since, memory_order_relaxed) <= entry->began;
}

static void remember(struct wn__learn *learn, const struct wn__trace_entry *entry)
{
	uint64_t tag;
	struct wn__reported *place = find_reported(learn, entry, &tag);

	if (atomic_load_explicit(&place->tag, memory_order_relaxed) == tag)
		return;
	/* Two threads may mix theirs up here: it is a count, and rarely off by one. */
	atomic_store_explicit(&place->since, wn__trace_tick(), memory_order_relaxed);
	atomic_store_explicit(&place->tag, tag, memory_order_relaxed);
}

void wn__learn_report(struct wn__learn *learn, const struct wn__trace_entry *entry)
{
	bool repeated = is_repeated(learn, entry);

	wn__learn_count(learn, WN__FALSE_POSITIVES, 1);
	if (repeated)
		wn__learn_count(learn, WN__REPEATED_FALSE_POSITIVES, 1);
	if (learn->background)
		wn__worker_report(learn, entry);
	else
		wn__learn_learn(learn, entry);
	remember(learn, entry);
}

/* ---- building ----------------------------------------------------------- */

void wn__learn_carry_over(struct wn__learn *learn, const struct wn__negatives_view *view,
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
	wn__learn_count(learn, WN__CARRIED_OVER, added);
}

int wn__learn_add_negative(struct wn__learn *learn, const struct wn_secret *secret,
			    struct wn_hash hash, double cost)
{
	return wn__negatives_add(learn->negatives, wn_secret_id(secret), hash, cost);
}

/* ---- saving ------------------------------------------------------------- */

static int compare_owned(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

/* What has no run had its table deleted, and could learn no more if it had not. */
static void forget_strangers(struct wn__learn *learn)
{
	size_t count = learn->owned_count;
	unsigned char(*ids)[WN_BLOCK_ID_SIZE] = wn__calloc(count + 1, sizeof(*ids));

	if (!ids)
		return;
	for (size_t i = 0; i < count; i++)
		memcpy(ids[i], learn->owned[i].id, sizeof(ids[i]));
	qsort(ids, count, sizeof(*ids), compare_owned);
	wn__registry_retain(learn->registry, (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, count);
	free(ids);
}

void wn__learn_keep(struct wn__learn *learn, const char *directory, bool read_only)
{
	/* Others in this process may write what is only read here: lessons of filters that are
	 * not known here may well be theirs. */
	if (read_only) {
		wn__saved_load(directory, learn->registry, learn->negatives);
		return;
	}
	learn->save_error =
		wn__saved_open(directory, learn->registry, learn->negatives, &learn->saved);
	if (learn->save_error)
		wn__learn_count(learn, WN__SAVE_FAILURES, 1);
	forget_strangers(learn);
}

int wn__learn_sync(struct wn__learn *learn)
{
	return learn->saved ? wn__saved_sync(learn->saved) : learn->save_error;
}
