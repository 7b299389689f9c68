/* learn.c - what a database's filters learn from; see learn.h. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "kinds/kind.h"
#include "learn_internal.h"

#define QUEUE_LENGTH 4096
#define SAVE_MS 1000

/* As many false positives are remembered, to tell which ones come again. */
#define REPORTED_TAGS ((size_t)1 << 16)

/* A minirun is a handful of fingerprints, also where remainders are short. */
#define MAX_RANKS 64

/* ---- making and freeing -------------------------------------------------- */

static void free_learn(struct wn__learn *learn)
{
	wn__worker_fini(learn);
	free(learn->reported);
	wn__popular_destroy(learn->popular);
	wn__missing_destroy(learn->missing);
	wn__negatives_destroy(learn->negatives);
	wn__registry_destroy(learn->registry);
	wn_secret_destroy((struct wn_secret *)learn->secret);
	free(learn);
}

static int open_registry(struct wn__learn *learn, const struct wn__learn_options *options)
{
	if (options->name)
		return wn__registry_open(options->name, options->learned_bytes, &learn->registry);
	return wn__registry_create(options->learned_bytes, &learn->registry);
}

/* What new filters are told of missing keys: by key, or by hash, and then of popular ones, too,
 * if they heed costs. */
static int make_negatives(struct wn__learn *learn, const struct wn__learn_options *options)
{
	int err;

	if (options->keeps_missing_keys)
		return wn__missing_create(options->missing_keys, learn->secret, options->compare,
					  options->compare_arg, &learn->missing);
	err = wn__negatives_create(NULL, wn_secret_seed(learn->secret), &learn->negatives);
	if (!err && options->config && wn__config_wants_costs(options->config))
		err = wn__popular_create(&learn->popular);
	return err;
}

static int fill(struct wn__learn *learn, const struct wn__learn_options *options,
		const struct wn_secret *secret)
{
	struct wn_secret *copy;
	int err = wn_secret_create(wn_secret_seed(secret), &copy);

	if (err)
		return err;
	learn->secret = copy;
	learn->background = options->background;
	learn->save_ms = options->save_ms ? options->save_ms : SAVE_MS;
	learn->reported = wn__calloc(REPORTED_TAGS, sizeof(*learn->reported));
	err = learn->reported ? open_registry(learn, options) : ENOMEM;
	return err ? err : make_negatives(learn, options);
}

int wn__learn_create(const struct wn__learn_options *options, const struct wn_secret *secret,
		     struct wn__learn **learnp)
{
	struct wn__learn *learn = wn__alloc_table(sizeof(*learn));
	size_t queue_length = 0;
	int err;

	*learnp = NULL;
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
	err = fill(learn, options, secret);
	if (err) {
		free_learn(learn);
		return err;
	}
	*learnp = learn;
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
		free_learn(learn);
}

struct wn__registry *wn__learn_registry(struct wn__learn *learn)
{
	return learn->registry;
}

/* ---- statistics --------------------------------------------------------- */

void wn__learn_describe(struct wn__learn *learn, struct wn_stats *statsp)
{
	struct wn__registry_stats registry;
	struct wn__negatives_stats negatives = {0};

	wn__registry_describe(learn->registry, &registry);
	if (learn->negatives)
		wn__negatives_describe(learn->negatives, &negatives);
	wn__metrics_sum(&learn->metrics, statsp);
	wn__worker_describe(learn, statsp);
	statsp->negatives += negatives.count;
	statsp->negatives_bytes += negatives.bytes;
	if (learn->missing)
		statsp->negatives_bytes += wn__missing_bytes(learn->missing);
	statsp->lessons += registry.lessons;
	statsp->learned_bytes += registry.bytes;
	statsp->lessons_dropped += registry.dropped_lessons + registry.refused;
}

/* ---- learning ----------------------------------------------------------- */

/* The stored keys of the match's minirun from its rank on, as long as known bits tell them from
 * the query. 0: up to the minirun's end, and WN__MAP_NO_PLACE proved that it is the end.
 * WN_ERR_UNFIXABLE: the next one cannot be told from the query, or there are too many. */
static int collect_stored(struct wn__learn *learn, const struct wn__positive *positive,
			  struct wn_hash *stored, uint32_t *countp)
{
	const struct wn_match *match = &positive->match;
	struct wn__keylist_entry found[MAX_RANKS];
	size_t count;
	int err = wn__worker_lookup(learn, &positive->list, match->minirun, match->rank, found,
				    MAX_RANKS, &count);

	/* Not waiting to be stored: then it is stored, or unavailable. */
	if (err == WN_ERR_NOT_FOUND)
		err = wn__map_lookup_minirun(learn->map, &positive->list, match->minirun,
					     match->rank, found, MAX_RANKS, &count);
	for (*countp = 0; *countp < count; ++*countp) {
		if (!wn__keylist_entry_tells(&positive->list, &found[*countp], positive->hash,
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
static int learn_ranks(struct wn__lessons *lessons, const struct wn__positive *positive,
		       const struct wn_hash *stored, uint32_t count)
{
	struct wn_match match = positive->match;
	int err = wn__lessons_learn(lessons, stored[0], positive->hash, &match);

	for (uint32_t i = 1; i < count && !err; i++) {
		match.rank++;
		if (wn__lessons_learn(lessons, stored[i], positive->hash, &match))
			break;
	}
	return err;
}

/* A filter with fingerprints is told how those go on that matched. One without is told of
 * all keys of the minirun, and that there are no others: not one may be missing. */
static int teach(struct wn__learn *learn, struct wn__lessons *lessons,
		 const struct wn__positive *positive)
{
	struct wn_hash stored[MAX_RANKS];
	uint32_t count;
	int err = collect_stored(learn, positive, stored, &count);

	if (positive->list.plain)
		return err ? err :
			     wn__lessons_learn_minirun(lessons, stored, count, positive->hash,
						       positive->match.minirun);
	if (count > 0)
		return learn_ranks(lessons, positive, stored, count);
	return err ? err : WN_ERR_NOT_FOUND;
}

/* Lessons between two tellings; they take 16 bytes each, and more in pages half full. */
#define CHARGE_EVERY 1024

static void tell_charge(struct wn__learn *learn)
{
	struct wn__registry_stats stats;

	wn__registry_describe(learn->registry, &stats);
	learn->charge(learn->charge_arg, stats.bytes);
}

void wn__learn_charge(struct wn__learn *learn, wn__charge_fn *charge, void *arg)
{
	learn->charge = charge;
	learn->charge_arg = arg;
	if (charge)
		tell_charge(learn);
}

static void learn_and_count(struct wn__learn *learn, const struct wn__positive *positive)
{
	const struct wn__keylist *list = &positive->list;
	struct wn__shape shape = {list->slots, list->remainder_bits};
	struct wn__lessons *lessons = NULL;
	int err = WN_ERR_NOT_FOUND;

	if (positive->match.known && learn->map)
		err = wn__registry_acquire(learn->registry, list->id, shape, &lessons);
	if (!err)
		err = teach(learn, lessons, positive);
	if (!err)
		wn__count(&learn->metrics, adaptations, 1);
	else if (err == WN_ERR_UNFIXABLE)
		wn__count(&learn->metrics, unfixable, 1);
	else if (err != WN_ERR_FULL) /* the registry counts what the budget refuses */
		wn__count(&learn->metrics, reversemap_misses, 1);
	/* If only the budget was in the way, the next filter may still do better. */
	if (learn->negatives && lessons && (!err || err == WN_ERR_FULL))
		wn__negatives_add(learn->negatives, list->secret_id, positive->hash, 1);
	wn__lessons_release(lessons);
}

void wn__learn_from(struct wn__learn *learn, const struct wn__positive *positive)
{
	learn_and_count(learn, positive);
	if (learn->charge &&
	    atomic_fetch_add_explicit(&learn->learned_since, 1, memory_order_relaxed) %
				    CHARGE_EVERY == CHARGE_EVERY - 1)
		tell_charge(learn);
}

/* The place of a false positive among those that are remembered. An older one may have taken
 * it: then it counts as new. */
static struct wn__reported *find_reported(struct wn__learn *learn,
					  const struct wn__positive *positive, uint64_t *tagp)
{
	uint64_t tag = positive->hash.lo ^ wn__id_hash(positive->list.id);

	*tagp = tag | 1; /* 0 is an empty place */
	return &learn->reported[tag % REPORTED_TAGS];
}

/* Was the same false positive dealt with before this lookup began? */
static bool is_repeated(struct wn__learn *learn, const struct wn__positive *positive,
			uint64_t began)
{
	uint64_t tag;
	const struct wn__reported *place = find_reported(learn, positive, &tag);

	return atomic_load_explicit(&place->tag, memory_order_relaxed) == tag &&
	       atomic_load_explicit(&place->since, memory_order_relaxed) <= began;
}

static void remember(struct wn__learn *learn, const struct wn__positive *positive)
{
	uint64_t tag;
	struct wn__reported *place = find_reported(learn, positive, &tag);

	if (atomic_load_explicit(&place->tag, memory_order_relaxed) == tag)
		return;
	/* Two threads may mix theirs up here: it is a count, and rarely off by one. */
	atomic_store_explicit(&place->since,
			      __atomic_add_fetch(&wn__lesson_clock.now, 1, __ATOMIC_ACQ_REL),
			      memory_order_relaxed);
	atomic_store_explicit(&place->tag, tag, memory_order_relaxed);
}

void wn__learn_report(struct wn__learn *learn, const struct wn__positive *positive,
		      uint64_t began)
{
	bool repeated = is_repeated(learn, positive, began);

	wn__count(&learn->metrics, false_positives, 1);
	if (repeated)
		wn__count(&learn->metrics, repeated_false_positives, 1);
	if (learn->background)
		wn__worker_report(learn, positive);
	else
		wn__learn_from(learn, positive);
	remember(learn, positive);
}

/* ---- missing keys ------------------------------------------------------- */

void wn__learn_note_missing_hash(struct wn__learn *learn, uint32_t secret_id, struct wn_hash hash)
{
	double cost;

	if (!learn->popular || !wn__popular_samples())
		return;
	cost = wn__popular_note(learn->popular, hash);
	if (cost > 0)
		wn__negatives_add(learn->negatives, secret_id, hash, cost);
}

void wn__learn_note_missing(struct wn__learn *learn, const struct wn__lookup *lookup)
{
	if (!learn->missing) {
		wn__learn_note_missing_hash(learn, lookup->secret->id, lookup->hash);
		return;
	}
	wn__missing_note(learn->missing, lookup->hash, lookup->key, lookup->size);
	if (lookup->count)
		wn__missing_remember(learn->missing, lookup->hash, lookup->key, lookup->size);
}

int wn__learn_add_negative(struct wn__learn *learn, struct wn_hash hash, const void *key,
			   size_t size, double cost)
{
	if (!learn->missing)
		return wn__negatives_add(learn->negatives, learn->secret->id, hash, cost);
	wn__missing_note(learn->missing, hash, key, size);
	wn__missing_remember(learn->missing, hash, key, size);
	return 0;
}

/* ---- opening and closing ------------------------------------------------ */

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

/* What has no key list had its table deleted, and could learn no more if it had not. */
static void forget_unlisted(struct wn__learn *learn)
{
	size_t count = learn->owned_count;
	unsigned char(*ids)[WN_BLOCK_ID_SIZE] = wn__calloc(count + 1, sizeof(*ids));

	if (!ids)
		return;
	for (size_t i = 0; i < count; i++)
		memcpy(ids[i], learn->owned[i].id, sizeof(ids[i]));
	qsort(ids, count, sizeof(*ids), compare_ids);
	wn__registry_retain(learn->registry, (const unsigned char(*)[WN_BLOCK_ID_SIZE])ids, count);
	free(ids);
}

static void load(struct wn__learn *learn, const char *directory, bool read_only)
{
	struct wn__journal_state state = {learn->registry, learn->negatives, learn->missing};

	/* Others in this process may write what is only read here: lessons of filters that are
	 * not known here may well be theirs. */
	if (read_only) {
		wn__journal_load(directory, &state);
		return;
	}
	learn->save_error = wn__journal_open(directory, &state, &learn->journal);
	if (learn->save_error)
		wn__count(&learn->metrics, save_failures, 1);
	forget_unlisted(learn);
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Key lists whose table went while nobody listened. */
static void sweep(struct wn__learn *learn, const struct wn__learn_place *place)
{
	for (size_t i = 0; i < learn->owned_count; i++) {
		uint64_t owner = learn->owned[i].owner;

		/* They are in order: once a table. */
		if (i > 0 && learn->owned[i - 1].owner == owner)
			continue;
		if (!place->table_count ||
		    !bsearch(&owner, place->tables, place->table_count, sizeof(owner),
			     compare_numbers))
			wn__worker_retire(learn, owner);
	}
}

int wn__learn_open(struct wn__learn *learn, const struct wn__learn_place *place)
{
	int err = wn__worker_adopt(learn, place->map);

	if (err)
		return err;
	if (!place->read_only)
		sweep(learn, place);
	if (place->directory)
		load(learn, place->directory, place->read_only);
	return wn__worker_start(learn);
}

void wn__learn_close(struct wn__learn *learn)
{
	wn__worker_stop(learn);
}

int wn__learn_sync(struct wn__learn *learn)
{
	return learn->journal ? wn__journal_sync(learn->journal) : learn->save_error;
}

void wn__learn_table_gone(struct wn__learn *learn, uint64_t number)
{
	wn__worker_retire(learn, number);
}
