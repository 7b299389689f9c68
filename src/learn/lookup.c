/* lookup.c - from what a host's lookup found to what its filters got wrong; see lookup.h.
 *
 * Deleted keys, merges and snapshots break the rule that every positive but the last was false;
 * nothing false is learned from them, since a lesson is what tells the query from the stored
 * key, and nothing does (lessons.h).
 *
 * A batch asks for many keys at once, table by table. Its positives are told apart by the
 * query's hash; those of one key are in the order of its tables, as ever. */
#include <string.h>

#include "learn_internal.h"

/* The attribute once more: gcc takes the definition's. */
_Thread_local struct wn__lookup *wn__current_lookup __attribute__((tls_model("initial-exec")));
struct wn__lesson_clock wn__lesson_clock;

static bool are_equal(const void *a, const void *b, size_t size)
{
	return size - 8 <= 16 - 8 ? wn__same_short(a, b, size) : memcmp(a, b, size) == 0;
}

struct wn_hash wn__lookup_hash_any(struct wn__lookup *lookup, const struct wn_secret *secret,
				   const void *key, size_t size)
{
	if (lookup->secret != secret || !lookup->key || lookup->size != size ||
	    !are_equal(lookup->key, key, size))
		return wn__hash_key(secret, key, size);
	if (!lookup->hashed) {
		lookup->hash = wn__hash_key(secret, key, size);
		lookup->hashed = true;
		if (size - 8 <= 16 - 8)
			lookup->short_size = size;
	}
	return lookup->hash;
}

void wn__lookup_note(const struct wn__registry *registry, const struct wn__keylist *list,
		     struct wn_hash hash, const struct wn_match *match)
{
	static const struct wn_match unknown;
	struct wn__lookup *lookup = wn__current_lookup;

	if (lookup && lookup->registry == registry)
		wn__lookup_note_in(lookup, list, hash, match ? match : &unknown);
}

static void confirm(struct wn__learn *learn, const struct wn__lookup *lookup, bool found)
{
	uint32_t count = lookup->count;

	if (count > WN__LOOKUP_POSITIVES) {
		/* Which was the last? */
		if (found) {
			wn__count(&learn->metrics, lookups_discarded, 1);
			return;
		}
		count = WN__LOOKUP_POSITIVES;
	}
	wn__count(&learn->metrics, positives, count);
	for (uint32_t i = 0; i < count - found; i++)
		wn__learn_report(learn, &lookup->positives[i], lookup->began);
}

/* Was a filter asked for the lookup's key, and is its hash known? */
static bool was_asked_for(const struct wn__lookup *lookup)
{
	return lookup->hashed || (lookup->queries && lookup->short_size == lookup->size);
}

/* Out of line: most lookups have nothing to teach. */
static void __attribute__((noinline)) end_teaching(struct wn__lookup *lookup,
						   struct wn__learn *learn, bool found, bool failed)
{
	wn__count(&learn->metrics, lookups, 1);
	wn__count(&learn->metrics, filter_queries, lookup->queries);
	if (failed) {
		wn__count(&learn->metrics, lookups_discarded, 1);
		return;
	}
	if (lookup->count)
		confirm(learn, lookup, found);
	if (!found && was_asked_for(lookup))
		wn__learn_note_missing(learn, lookup);
}

/* No filter was wrong, and nobody wants to know which keys are missing. */
static bool has_nothing_to_teach(const struct wn__lookup *lookup, const struct wn__learn *learn,
				 bool found, bool failed)
{
	return !failed && lookup->count <= (uint32_t)found &&
	       (found || (!learn->missing && !learn->popular));
}

void WN__HOT wn__lookup_end(struct wn__lookup *lookup, struct wn__learn *learn, bool found,
			    bool failed)
{
	struct wn__stripe *stripe = wn__stripe_of(&learn->metrics);

	/* First: learning may look things up itself. */
	wn__current_lookup = lookup->outer;
	if (WN__UNLIKELY(!stripe) || !has_nothing_to_teach(lookup, learn, found, failed)) {
		end_teaching(lookup, learn, found, failed);
		return;
	}
	wn__stripe_add(stripe, wn__metric(lookups), 1);
	wn__stripe_add(stripe, wn__metric(filter_queries), lookup->queries);
	wn__stripe_add(stripe, wn__metric(positives), lookup->count);
}

/* ---- batches ------------------------------------------------------------ */

#define NONE UINT8_MAX

static unsigned bucket_of(struct wn_hash hash)
{
	return (unsigned)(hash.lo % WN__BATCH_BUCKETS);
}

/* Every bucket's positives in the order in which they were noted. */
static void sort_out(struct wn__batch *batch, uint32_t count)
{
	memset(batch->first, NONE, sizeof(batch->first));
	for (uint32_t i = count; i-- > 0;) {
		uint8_t *first = &batch->first[bucket_of(batch->lookup->positives[i].hash)];

		batch->next[i] = *first;
		*first = (uint8_t)i;
	}
}

void wn__lookup_end_batch(struct wn__lookup *lookup, struct wn__learn *learn,
			  struct wn__batch *batchp)
{
	uint32_t count = lookup->count < WN__LOOKUP_POSITIVES ? lookup->count :
								WN__LOOKUP_POSITIVES;

	wn__current_lookup = lookup->outer;
	batchp->learn = learn;
	batchp->lookup = lookup;
	batchp->secret_id = lookup->secret->id;
	sort_out(batchp, count);
	wn__count(&learn->metrics, filter_queries, lookup->queries);
	wn__count(&learn->metrics, positives, count);
}

/* The next positive of this key, or NONE. */
static uint8_t find_from(const struct wn__batch *batch, uint8_t at, struct wn_hash hash)
{
	for (; at != NONE; at = batch->next[at]) {
		const struct wn__positive *positive = &batch->lookup->positives[at];

		if (positive->list.secret_id == batch->secret_id &&
		    wn_hash_compare(positive->hash, hash) == 0)
			break;
	}
	return at;
}

void wn__batch_confirm(struct wn__batch *batch, struct wn_hash hash, bool found, bool failed)
{
	struct wn__learn *learn = batch->learn;
	uint8_t at = find_from(batch, batch->first[bucket_of(hash)], hash);

	wn__count(&learn->metrics, lookups, 1);
	/* Some positives are not here: of a key that was found, which was the last? */
	if (failed || (found && batch->lookup->count > WN__LOOKUP_POSITIVES)) {
		wn__count(&learn->metrics, lookups_discarded, 1);
		return;
	}
	while (at != NONE) {
		uint8_t next = find_from(batch, batch->next[at], hash);

		if (!found || next != NONE)
			wn__learn_report(learn, &batch->lookup->positives[at],
					 batch->lookup->began);
		at = next;
	}
	if (!found)
		wn__learn_note_missing_hash(learn, batch->secret_id, hash);
}
