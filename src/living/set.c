/* set.c - filter, secret and reverse map, kept in step.
 *
 * The one invariant: the filter's minirun and the map's list of entries under its
 * id have the same length, and the fingerprint at a rank was made from the hash
 * of the entry at that rank. Every change has one step that can fail last, or a
 * step before it that can be taken back:
 *
 *   insert  fingerprint, then entry; if the entry is refused the fingerprint,
 *	     which is the last of its minirun, is taken out again.
 *   delete  entry, then fingerprint: once its count has been read, taking a
 *	     fingerprint out cannot fail.
 *   merge and rebuild (paper, section 4.4)  a new filter and a new map beside
 *	     the old ones; the maps' change of contents is the last that can fail.
 *
 * Inserts and deletes stand between wn_aqf_begin_change() and wn_aqf_end_change();
 * functions below that take a `change` are called there.
 *
 * Queries use the filter and the secret and nothing else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/set.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "set_internal.h"

/* A rebuild that gives back less than this share of the slots is not worth
 * hashing every key anew: without the bound, a set whose keys and counters alone
 * reach the limit would be rebuilt for every false positive. */
#define WORTH_A_REBUILD (1.0 / 256)

struct wn_set {
	struct wn_aqf *aqf;
	struct wn_secret *secret;
	struct wn_revmap *map;
	struct wn_aqf_options options; /* as asked for, remainder_bits resolved */
	uint64_t created_slots;        /* what `options` gave */
	double rebuild_at;             /* 0: the filter's adapt_limit */
	bool auto_rebuild;
	bool starved; /* an adaptation found no room */
};

/* ---- create and destroy ------------------------------------------------- */

static int copy_secret(const struct wn_secret *secret, struct wn_secret **copyp)
{
	if (secret == NULL)
		return wn_secret_create_random(copyp);
	return wn_secret_create(wn_secret_seed(secret), copyp);
}

static int check_options(const struct wn_set_options *options, const struct wn_revmap *map)
{
	if (map == NULL || !wn__is_reserved_zero(map->ops) || wn_revmap_count(map) != 0 ||
	    !wn__is_reserved_zero(options))
		return WN_ERR_INVALID;
	if (!(options->rebuild_at >= 0.0 && options->rebuild_at <= 1.0))
		return WN_ERR_INVALID;
	if (options->auto_rebuild && !map->keeps_keys)
		return WN_ERR_INVALID;
	return 0;
}

int wn_set_create(const struct wn_set_options *options, const struct wn_secret *secret,
		  struct wn_revmap *map, struct wn_set **setp)
{
	struct wn_set *set = NULL;
	struct wn_aqf_info info;
	int err;

	*setp = NULL;
	err = check_options(options, map);
	if (err)
		goto err;
	err = ENOMEM;
	set = wn__calloc(1, sizeof(*set));
	if (set == NULL)
		goto err;
	err = copy_secret(secret, &set->secret);
	if (err)
		goto err;
	err = wn_aqf_create(&options->aqf, &set->aqf);
	if (err)
		goto err;
	wn_aqf_describe(set->aqf, &info);
	set->map = map;
	set->options = options->aqf;
	set->options.remainder_bits = info.remainder_bits;
	set->created_slots = info.slots;
	set->rebuild_at = options->rebuild_at;
	set->auto_rebuild = options->auto_rebuild;
	*setp = set;
	return 0;
err:
	wn_set_destroy(set);
	wn_revmap_destroy(map);
	return err;
}

void wn_set_destroy(struct wn_set *set)
{
	if (set == NULL)
		return;
	wn_aqf_destroy(set->aqf);
	wn_secret_destroy(set->secret);
	wn_revmap_destroy(set->map);
	free(set);
}

/* ---- keys --------------------------------------------------------------- */

/* In an entry a NULL key means that there is none; an empty key may come as NULL. */
static struct wn_revmap_entry make_item(const struct wn_set *set, const void *key, size_t size)
{
	if (key == NULL)
		key = "";
	return (struct wn_revmap_entry){
		.hash = wn_hash_key(set->secret, key, size), .key = key, .key_size = size};
}

static bool is_key(const void *key, size_t size)
{
	return key != NULL || size == 0;
}

/* The key at a rank that nobody else can change: grow, merge and rebuild are alone. */
static struct wn_match at_rank(const struct wn_aqf *aqf, struct wn_hash hash, uint32_t rank)
{
	struct wn_match match = wn_aqf_locate(aqf, hash);

	match.rank = rank;
	return match;
}

/* Set the item's rank in `matchp`. The filter is asked first: its "no" is certain,
 * and the map may be slow. */
static int find_item(const struct wn_set *set, const struct wn_revmap_entry *item,
		     struct wn_match *matchp)
{
	if (!wn_aqf_query(set->aqf, item->hash, NULL))
		return WN_ERR_NOT_FOUND;
	return wn_revmap_find(set->map, matchp->minirun, item, &matchp->rank);
}

static int insert_new_item(struct wn_set *set, const struct wn_revmap_entry *item,
			   struct wn_match change)
{
	struct wn_match match;
	int err;

	err = wn_aqf_insert(set->aqf, item->hash, &match);
	if (err)
		return err;
	change.rank = match.rank;
	err = wn_revmap_put(set->map, change.minirun, change.rank, item);
	if (err)
		(void)wn_aqf_delete(set->aqf, item->hash, change, NULL);
	return err;
}

static int insert_or_count(struct wn_set *set, const struct wn_revmap_entry *item,
			   struct wn_match change)
{
	int err;

	err = find_item(set, item, &change);
	if (err == 0)
		return wn_aqf_count_add(set->aqf, item->hash, change, 1);
	if (err != WN_ERR_NOT_FOUND)
		return err;
	return insert_new_item(set, item, change);
}

int wn__set_insert_item(struct wn_set *set, const struct wn_revmap_entry *item)
{
	struct wn_match change = wn_aqf_begin_change(set->aqf, item->hash);
	int err = insert_or_count(set, item, change);

	wn_aqf_end_change(set->aqf, change);
	return err;
}

int wn_set_insert(struct wn_set *set, const void *key, size_t size)
{
	struct wn_revmap_entry item;

	if (!is_key(key, size))
		return WN_ERR_INVALID;
	item = make_item(set, key, size);
	return wn__set_insert_item(set, &item);
}

static int delete_one(struct wn_set *set, const struct wn_revmap_entry *item,
		      struct wn_match change)
{
	uint64_t count;
	int err;

	err = find_item(set, item, &change);
	if (err)
		return err;
	err = wn_aqf_count(set->aqf, item->hash, change, &count);
	if (err)
		return err;
	if (count == 1) {
		err = wn_revmap_remove(set->map, change.minirun, change.rank);
		if (err)
			return err;
	}
	set->starved = false;
	return wn_aqf_delete(set->aqf, item->hash, change, NULL);
}

int wn__set_delete_item(struct wn_set *set, const struct wn_revmap_entry *item)
{
	struct wn_match change = wn_aqf_begin_change(set->aqf, item->hash);
	int err = delete_one(set, item, change);

	wn_aqf_end_change(set->aqf, change);
	return err;
}

int wn_set_delete(struct wn_set *set, const void *key, size_t size)
{
	struct wn_revmap_entry item;

	if (!is_key(key, size))
		return WN_ERR_INVALID;
	item = make_item(set, key, size);
	return wn__set_delete_item(set, &item);
}

bool wn_set_query(const struct wn_set *set, const void *key, size_t size)
{
	return wn_aqf_query(set->aqf, wn_hash_key(set->secret, key, size), NULL);
}

int wn__set_count_item(const struct wn_set *set, const struct wn_revmap_entry *item,
		       uint64_t *countp)
{
	struct wn_match match = wn_aqf_locate(set->aqf, item->hash);
	int err;

	*countp = 0;
	err = find_item(set, item, &match);
	if (err == WN_ERR_NOT_FOUND)
		return 0;
	if (err)
		return err;
	return wn_aqf_count(set->aqf, item->hash, match, countp);
}

int wn_set_count(const struct wn_set *set, const void *key, size_t size, uint64_t *countp)
{
	struct wn_revmap_entry item;

	*countp = 0;
	if (!is_key(key, size))
		return WN_ERR_INVALID;
	item = make_item(set, key, size);
	return wn__set_count_item(set, &item, countp);
}

/* ---- rebuild ------------------------------------------------------------ */

static void replace_filter(struct wn_set *set, struct wn_aqf *aqf)
{
	wn_aqf_destroy(set->aqf);
	set->aqf = aqf;
	set->starved = false;
}

/* Options for a filter of the present size: the promise made at creation, scaled
 * with the slots, and no less than what is in use. The remainder has the bits
 * asked for, of which growing may have used some up: with the keys at hand the
 * false-positive rate can be restored. Slots are no narrower than now, so that
 * counters need no more of them. */
static struct wn_aqf_options current_options(const struct wn_set *set)
{
	struct wn_aqf_options options = set->options;
	struct wn_aqf_info info;
	unsigned __int128 scaled;

	wn_aqf_describe(set->aqf, &info);
	scaled = (unsigned __int128)options.capacity * info.slots;
	scaled = (scaled + set->created_slots - 1) / set->created_slots;
	if (scaled < info.fingerprints + info.counters)
		scaled = info.fingerprints + info.counters;
	if (scaled > WN_AQF_MAX_KEYS)
		scaled = WN_AQF_MAX_KEYS;
	options.capacity = (uint64_t)scaled;
	if (options.remainder_bits < info.remainder_bits)
		options.remainder_bits = info.remainder_bits;
	if (options.remainder_bits < info.extension_bits)
		options.remainder_bits = info.extension_bits;
	return options;
}

struct rehash {
	const struct wn_aqf *old_aqf;
	struct wn_aqf *aqf;
	struct wn_secret *secret;
	struct wn_revmap *map;
};

static int rehash_entry(void *arg, uint64_t minirun, uint32_t rank,
			const struct wn_revmap_entry *entry)
{
	struct rehash *new = arg;
	struct wn_revmap_entry item = *entry;
	struct wn_match match = at_rank(new->old_aqf, entry->hash, rank);
	uint64_t count;
	int err;

	(void)minirun;
	err = wn_aqf_count(new->old_aqf, entry->hash, match, &count);
	if (err)
		return err;
	item.hash = wn_hash_key(new->secret, entry->key, entry->key_size);
	err = wn_aqf_insert(new->aqf, item.hash, &match);
	if (err)
		return err;
	if (count > 1) {
		err = wn_aqf_count_add(new->aqf, item.hash, match, count - 1);
		if (err)
			return err;
	}
	return wn_revmap_put(new->map, match.minirun, match.rank, &item);
}

int wn_set_rebuild(struct wn_set *set, const struct wn_secret *secret)
{
	struct wn_aqf_options options = current_options(set);
	struct rehash new = {.old_aqf = set->aqf};
	int err;

	if (!set->map->keeps_keys)
		return WN_ERR_READONLY;
	err = copy_secret(secret, &new.secret);
	if (err)
		goto err;
	err = wn_aqf_create(&options, &new.aqf);
	if (err)
		goto err;
	err = wn_revmap_create_like(set->map, &new.map);
	if (err)
		goto err;
	err = wn_revmap_visit(set->map, rehash_entry, &new);
	if (err)
		goto err;
	err = wn_revmap_swap(set->map, new.map);
	if (err)
		goto err;
	replace_filter(set, new.aqf);
	wn_secret_destroy(set->secret);
	set->secret = new.secret;
	wn_revmap_destroy(new.map);
	return 0;
err:
	wn_revmap_destroy(new.map);
	wn_aqf_destroy(new.aqf);
	wn_secret_destroy(new.secret);
	return err;
}

bool wn_set_needs_rebuild(const struct wn_set *set)
{
	struct wn_aqf_info info;
	double limit;

	wn_aqf_describe(set->aqf, &info);
	if ((double)info.extensions <= WORTH_A_REBUILD * (double)info.slots)
		return false;
	limit = set->rebuild_at == 0.0 ? (double)info.adapt_limit
				       : set->rebuild_at * (double)info.slots;
	return set->starved || (double)info.used_slots >= limit;
}

/* ---- learn -------------------------------------------------------------- */

int wn__set_learn_item(struct wn_set *set, const struct wn_revmap_entry *item)
{
	struct wn_match match = wn_aqf_locate(set->aqf, item->hash);
	int err;

	err = find_item(set, item, &match);
	if (err == 0)
		return WN_ERR_UNFIXABLE;
	if (err != WN_ERR_NOT_FOUND)
		return err;
	err = wn_aqf_adapt_all(set->aqf, item->hash, wn_revmap_fetch, set->map, NULL);
	if (err == WN_ERR_FULL)
		set->starved = true;
	return err;
}

int wn_set_false_positive(struct wn_set *set, const void *key, size_t size)
{
	struct wn_revmap_entry item;
	int err, rebuild_err;

	if (!is_key(key, size))
		return WN_ERR_INVALID;
	item = make_item(set, key, size);
	err = wn__set_learn_item(set, &item);
	if (err != 0 && err != WN_ERR_FULL)
		return err;
	if (!set->auto_rebuild || !wn_set_needs_rebuild(set))
		return err;
	rebuild_err = wn_set_rebuild(set, NULL);
	if (rebuild_err) /* if the key was learned, that stands */
		return err == 0 ? 0 : rebuild_err;
	/* Under the new secret the key may match again. */
	item = make_item(set, key, size);
	return wn__set_learn_item(set, &item);
}

/* ---- grow, shrink, merge ------------------------------------------------ */

int wn_set_grow(struct wn_set *set)
{
	struct wn_aqf *aqf;
	int err;

	err = wn_aqf_grow(set->aqf, &aqf);
	if (err == 0)
		replace_filter(set, aqf);
	return err;
}

int wn_set_shrink(struct wn_set *set)
{
	struct wn_aqf *aqf;
	int err;

	err = wn_aqf_shrink(set->aqf, &aqf);
	if (err == 0)
		replace_filter(set, aqf);
	return err;
}

struct merging {
	struct wn_aqf *aqf;
	struct wn_revmap *map;
};

static int copy_entry(void *arg, uint64_t minirun, uint32_t rank,
		      const struct wn_revmap_entry *entry)
{
	struct merging *merged = arg;

	return wn_revmap_put(merged->map, minirun, rank, entry);
}

/* The key's second fingerprint, at rank `second`, goes into its first. Taking it
 * out first gives at least the slot that a longer counter may need. One count at
 * a time is no more work than the inserts that made the count. */
static int fold_counts(struct wn_aqf *aqf, struct wn_hash hash, uint32_t first, uint32_t second)
{
	uint64_t count;
	bool removed;
	int err;

	err = wn_aqf_count(aqf, hash, at_rank(aqf, hash, second), &count);
	if (err)
		return err;
	do {
		err = wn_aqf_delete(aqf, hash, at_rank(aqf, hash, second), &removed);
		if (err)
			return err;
	} while (!removed);
	return wn_aqf_count_add(aqf, hash, at_rank(aqf, hash, first), count);
}

static int count_entries(const struct wn_revmap *map, uint64_t minirun, uint32_t *lengthp)
{
	struct wn_revmap_entry entry;
	uint32_t length = 0;
	int err;

	while ((err = wn_revmap_get(map, minirun, length, &entry)) == 0)
		length++;
	*lengthp = length;
	return err == WN_ERR_NOT_FOUND ? 0 : err;
}

/* In the merged filter the minirun holds `into`'s fingerprints and behind them
 * `from`'s. The map has the former and those of the latter that were visited and
 * stayed; so its length is the rank of the fingerprint that belongs to `entry`. */
static int merge_entry(void *arg, uint64_t minirun, uint32_t rank,
		       const struct wn_revmap_entry *entry)
{
	struct merging *merged = arg;
	uint32_t length, found;
	int err;

	(void)rank;
	err = count_entries(merged->map, minirun, &length);
	if (err)
		return err;
	err = wn_revmap_find(merged->map, minirun, entry, &found);
	if (err == 0)
		return fold_counts(merged->aqf, entry->hash, found, length);
	if (err != WN_ERR_NOT_FOUND)
		return err;
	return wn_revmap_put(merged->map, minirun, length, entry);
}

static int check_merge(const struct wn_set *into, const struct wn_set *from)
{
	if (into == from)
		return WN_ERR_INVALID;
	if (memcmp(wn_secret_seed(into->secret), wn_secret_seed(from->secret), WN_SEED_SIZE) != 0)
		return WN_ERR_MISMATCH;
	return into->map->keeps_keys == from->map->keeps_keys ? 0 : WN_ERR_MISMATCH;
}

int wn_set_merge(struct wn_set *into, struct wn_set *from)
{
	struct merging merged = {0};
	struct wn_aqf *empty = NULL;
	int err;

	err = check_merge(into, from);
	if (err)
		return err;
	err = wn_aqf_merge(into->aqf, from->aqf, &merged.aqf);
	if (err)
		goto err;
	err = wn_aqf_create(&from->options, &empty);
	if (err)
		goto err;
	err = wn_revmap_create_like(into->map, &merged.map);
	if (err)
		goto err;
	err = wn_revmap_visit(into->map, copy_entry, &merged);
	if (err)
		goto err;
	err = wn_revmap_visit(from->map, merge_entry, &merged);
	if (err)
		goto err;
	err = wn_revmap_swap(into->map, merged.map);
	if (err)
		goto err;
	replace_filter(into, merged.aqf);
	replace_filter(from, empty);
	wn_revmap_clear(from->map);
	wn_revmap_destroy(merged.map);
	return 0;
err:
	wn_revmap_destroy(merged.map);
	wn_aqf_destroy(empty);
	wn_aqf_destroy(merged.aqf);
	return err;
}

/* ---- parts -------------------------------------------------------------- */

const struct wn_aqf *wn_set_filter(const struct wn_set *set)
{
	return set->aqf;
}

const struct wn_secret *wn_set_secret(const struct wn_set *set)
{
	return set->secret;
}

const struct wn_revmap *wn_set_map(const struct wn_set *set)
{
	return set->map;
}
