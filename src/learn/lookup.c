/* lookup.c - from what a host's lookup found to what its filters got wrong.
 *
 * The host asks its tables from the newest to the oldest and stops where it finds: every
 * positive but the last was false, and the last was true if something was found. Deleted keys,
 * merges and snapshots break the rule; nothing false is learned from them, since a lesson is
 * what tells the query from the stored key, and nothing does (learned.h).
 *
 * A batch asks for many keys at once, table by table. Its positives are told apart by the
 * query's hash; those of one key are in the order of its tables, as ever. */
#include <string.h>

#include "learn.h"

bool wn__learn_begin_lookup(void)
{
	return wn__trace_begin() == 0;
}

static void confirm(struct wn__learn *learn, bool found)
{
	struct wn__trace_entry wrong[WN__TRACE_ENTRIES];
	size_t count;
	uint64_t lost;
	const struct wn__trace_entry *entries = wn__trace_entries(&count, &lost);

	/* Which was the last? */
	if (lost && found) {
		wn__learn_count(learn, WN__LOOKUPS_DISCARDED, 1);
		return;
	}
	if (count == 0)
		return;
	wn__learn_count(learn, WN__POSITIVES, count);
	if (found)
		count--;
	/* Learning may look things up itself. */
	memcpy(wrong, entries, count * sizeof(*wrong));
	for (size_t i = 0; i < count; i++)
		wn__learn_report(learn, &wrong[i]);
}

/* Nothing was found. */
static void note_missing(struct wn__learn *learn, uint32_t secret_id, struct wn_hash hash)
{
	double cost = wn__hot_note(learn->hot, hash);

	if (cost > 0)
		wn__negatives_add(learn->negatives, secret_id, hash, cost);
}

static void sample_lookup(struct wn__learn *learn)
{
	struct wn_hash hash;
	uint32_t secret_id;

	if (wn__hot_samples() && wn__trace_asked(&secret_id, &hash))
		note_missing(learn, secret_id, hash);
}

void wn__learn_end_lookup(struct wn__learn *learn, bool traced, bool found, bool failed)
{
	wn__learn_count(learn, WN__LOOKUPS, 1);
	if (!traced || failed)
		wn__learn_count(learn, WN__LOOKUPS_DISCARDED, 1);
	else
		confirm(learn, found);
	if (learn->hot && !found && !failed)
		sample_lookup(learn);
	wn__trace_end();
}

/* ---- batches ------------------------------------------------------------ */

#define NONE UINT8_MAX

static unsigned bucket_of(struct wn_hash hash)
{
	return (unsigned)(hash.lo % WN__BATCH_BUCKETS);
}

/* Every bucket's entries in the order in which they were noted. */
static void sort_out(struct wn__batch *batch)
{
	memset(batch->first, NONE, sizeof(batch->first));
	for (size_t i = batch->count; i-- > 0;) {
		uint8_t *first = &batch->first[bucket_of(batch->entries[i].hash)];

		batch->next[i] = *first;
		*first = (uint8_t)i;
	}
}

void wn__learn_end_batch(struct wn__learn *learn, bool traced, struct wn__batch *batchp)
{
	const struct wn__trace_entry *entries;
	size_t count = 0;

	batchp->learn = learn;
	batchp->traced = traced;
	batchp->lost = false;
	if (traced) {
		uint64_t lost;

		entries = wn__trace_entries(&count, &lost);
		memcpy(batchp->entries, entries, count * sizeof(*entries));
		batchp->lost = lost > 0;
	}
	batchp->count = count;
	wn__trace_end();
	sort_out(batchp);
	wn__learn_count(learn, WN__POSITIVES, count);
}

/* The next entry of this key, or NONE. */
static uint8_t find_from(const struct wn__batch *batch, uint8_t at, uint32_t secret_id,
			 struct wn_hash hash)
{
	for (; at != NONE; at = batch->next[at]) {
		const struct wn__trace_entry *entry = &batch->entries[at];

		if (entry->filter.secret_id == secret_id &&
		    wn_hash_compare(entry->hash, hash) == 0)
			break;
	}
	return at;
}

void wn__batch_confirm(struct wn__batch *batch, uint32_t secret_id, struct wn_hash hash,
		       bool found, bool failed)
{
	uint8_t at = find_from(batch, batch->first[bucket_of(hash)], secret_id, hash);

	wn__learn_count(batch->learn, WN__LOOKUPS, 1);
	if (!batch->traced || failed || (found && batch->lost)) {
		wn__learn_count(batch->learn, WN__LOOKUPS_DISCARDED, 1);
		return;
	}
	while (at != NONE) {
		uint8_t next = find_from(batch, batch->next[at], secret_id, hash);

		if (!found || next != NONE)
			wn__learn_report(batch->learn, &batch->entries[at]);
		at = next;
	}
	if (batch->learn->hot && !found && wn__hot_samples())
		note_missing(batch->learn, secret_id, hash);
}
