/* yesno.c - dynamic YES/NO lists (paper, section 4.3).
 *
 * Both lists stand in one filter, with a tag bit beside each fingerprint.
 * Invariant: no fingerprint is a prefix of the hash of another item, unless the
 * two hashes are equal; then both items are on the same list. So the first
 * fingerprint that matches an item's hash is its own or carries the same tag.
 *
 * Each fingerprint is also no longer than that takes: an item alone in its
 * minirun has no extension. wn_aqf_shorten() computes exactly this state from any
 * longer one, so a failed add is undone by deleting the new fingerprint and
 * shortening its minirun.
 *
 * Readers beside the writer: a new fingerprint goes to the back of its minirun,
 * behind those of the items that are there, and a query takes the first match. So
 * while the new one is still too short the others answer as before. Extending or
 * shortening an item's fingerprint never makes it miss its own item, and is done
 * one fingerprint at a time, towards a state in which no two are in each other's
 * way. The new item itself may get another's answer until its add returns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/yesno.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "yesno_internal.h"

#define DEFAULT_REMAINDER_BITS 9
#define DEFAULT_LOAD 0.9
/* Items and the extensions expected fill this share; extensions may go a little
 * further. */
#define PLANNED_LOAD WN_AQF_MAX_LOAD
#define ADAPT_LOAD 0.98

struct wn_yesno {
	struct wn_aqf *aqf;
	struct wn_secret *secret;
	struct wn_revmap *map;
	uint64_t counts[2];
};

/* ---- create and destroy ------------------------------------------------- */

/* How many of `items` meet another in their minirun: each has load / 2^r others
 * there, and an extension of at least 2 bits does not always settle it, hence
 * 4/3 extensions each. Those come by pairs, whose number scatters by its square
 * root; six times that and a few for tiny lists make running out a rare event
 * (remainders of 2 or 3 bits need more room than `load` leaves). */
static double expected_extensions(double items, double load, unsigned remainder_bits)
{
	double mean = items * load / (double)(UINT64_C(1) << remainder_bits) * 4 / 3;
	double spread = 0;

	while (spread * spread < 2 * mean)
		spread = spread < 1 ? 1 : spread * 1.0625;
	return mean + 6 * spread + 8;
}

static int plan_filter(const struct wn_yesno_options *options, struct wn_aqf_options *planp)
{
	unsigned bits = options->remainder_bits;
	double load = options->load;
	double items, slots, needed;

	if (bits == 0)
		bits = DEFAULT_REMAINDER_BITS;
	if (load == 0.0)
		load = DEFAULT_LOAD;
	if (bits < WN_AQF_MIN_REMAINDER_BITS || bits > WN_AQF_MAX_REMAINDER_BITS)
		return WN_ERR_INVALID;
	if (!(load > 0.0 && load <= WN_AQF_MAX_LOAD))
		return WN_ERR_INVALID;
	if (options->yes_capacity == 0 || options->yes_capacity > WN_AQF_MAX_KEYS ||
	    options->no_capacity > WN_AQF_MAX_KEYS)
		return WN_ERR_INVALID;
	items = (double)(options->yes_capacity + options->no_capacity);
	slots = items / load;
	needed = (items + expected_extensions(items, load, bits)) / PLANNED_LOAD;
	if (slots < needed)
		slots = needed;
	if (slots * PLANNED_LOAD + 1 > (double)WN_AQF_MAX_KEYS)
		return WN_ERR_INVALID;
	/* The filter keeps room for all items, so the rest is for extensions. */
	*planp = (struct wn_aqf_options){
		.capacity = options->yes_capacity + options->no_capacity,
		.remainder_bits = bits,
		.load = items / slots,
		.adapt_load = ADAPT_LOAD,
		.tag_bits = 1,
	};
	return 0;
}

int wn_yesno_create(const struct wn_yesno_options *options, const struct wn_secret *secret,
		    struct wn_revmap *map, struct wn_yesno **listsp)
{
	struct wn_yesno *lists = NULL;
	struct wn_aqf_options plan;
	int err;

	*listsp = NULL;
	err = WN_ERR_INVALID;
	if (map == NULL || !wn__is_reserved_zero(map->ops) || wn_revmap_count(map) != 0 ||
	    !wn__is_reserved_zero(options))
		goto err;
	err = plan_filter(options, &plan);
	if (err)
		goto err;
	err = ENOMEM;
	lists = wn__calloc(1, sizeof(*lists));
	if (lists == NULL)
		goto err;
	err = secret == NULL ? wn_secret_create_random(&lists->secret)
			       : wn_secret_create(wn_secret_seed(secret), &lists->secret);
	if (err)
		goto err;
	err = wn_aqf_create(&plan, &lists->aqf);
	if (err)
		goto err;
	lists->map = map;
	*listsp = lists;
	return 0;
err:
	wn_yesno_destroy(lists);
	wn_revmap_destroy(map);
	return err;
}

void wn_yesno_destroy(struct wn_yesno *lists)
{
	if (lists == NULL)
		return;
	wn_aqf_destroy(lists->aqf);
	wn_secret_destroy(lists->secret);
	wn_revmap_destroy(lists->map);
	free(lists);
}

/* ---- what is there ------------------------------------------------------ */

/* What the minirun of an item holds. */
struct survey {
	struct wn_match item; /* the item itself, if found */
	struct wn_match twin; /* another key with the item's hash, if has_twin */
	unsigned tag;  /* of these two, as far as they are there */
	bool found;
	bool has_twin;
};

/* `change` is what wn_aqf_begin_change() gave for the item. */
static int survey_minirun(const struct wn_yesno *lists, const struct wn_revmap_entry *item,
			  struct wn_match change, struct survey *surveyp)
{
	struct wn_revmap_entry entry;
	uint32_t rank;
	int err;

	*surveyp = (struct survey){.item = change, .twin = change};
	err = wn_revmap_find(lists->map, change.minirun, item, &surveyp->item.rank);
	if (err != 0 && err != WN_ERR_NOT_FOUND)
		return err;
	surveyp->found = err == 0;
	for (rank = 0;; rank++) {
		err = wn_revmap_get(lists->map, change.minirun, rank, &entry);
		if (err)
			break;
		if (wn_hash_compare(entry.hash, item->hash) != 0 ||
		    (surveyp->found && rank == surveyp->item.rank))
			continue;
		surveyp->twin.rank = rank;
		surveyp->has_twin = true;
	}
	if (err != WN_ERR_NOT_FOUND)
		return err;
	if (!surveyp->found && !surveyp->has_twin)
		return 0;
	return wn_aqf_tag(lists->aqf, item->hash,
			  surveyp->found ? surveyp->item : surveyp->twin, &surveyp->tag);
}

/* ---- change ------------------------------------------------------------- */

/* Tell the new fingerprint and each of those before it apart, both ways. */
static int separate(struct wn_yesno *lists, struct wn_hash hash, struct wn_match new)
{
	struct wn_match before = new;
	struct wn_revmap_entry other;
	int err;

	for (before.rank = 0; before.rank < new.rank; before.rank++) {
		err = wn_revmap_get(lists->map, before.minirun, before.rank, &other);
		if (err)
			return err;
		if (wn_hash_compare(hash, other.hash) == 0)
			continue;
		err = wn_aqf_adapt(lists->aqf, other.hash, hash, before);
		if (err)
			return err;
		err = wn_aqf_adapt(lists->aqf, hash, other.hash, new);
		if (err)
			return err;
	}
	return 0;
}

/* The map comes last: it need not be undone. */
static int add_new_item(struct wn_yesno *lists, enum wn_list list,
			const struct wn_revmap_entry *item, struct wn_match change)
{
	struct wn_match match;
	int err;

	err = wn_aqf_insert_tagged(lists->aqf, item->hash, (unsigned)list, &match);
	if (err)
		return err;
	change.rank = match.rank;
	err = separate(lists, item->hash, change);
	if (err == 0)
		err = wn_revmap_put(lists->map, change.minirun, change.rank, item);
	if (err) {
		(void)wn_aqf_delete(lists->aqf, item->hash, change, NULL);
		(void)wn_aqf_shorten(lists->aqf, change.minirun, NULL);
		return err;
	}
	lists->counts[list]++;
	return 0;
}

static int move_item(struct wn_yesno *lists, enum wn_list list, struct wn_hash hash,
		     const struct survey *survey)
{
	int err;

	if (survey->has_twin)
		return WN_ERR_UNFIXABLE;
	err = wn_aqf_set_tag(lists->aqf, hash, survey->item, (unsigned)list);
	if (err)
		return err;
	lists->counts[survey->tag]--;
	lists->counts[list]++;
	return 0;
}

static int add_or_move(struct wn_yesno *lists, enum wn_list list,
		       const struct wn_revmap_entry *item, struct wn_match change)
{
	struct survey survey;
	int err;

	err = survey_minirun(lists, item, change, &survey);
	if (err)
		return err;
	if (survey.found && survey.tag == (unsigned)list)
		return 0;
	if (survey.found)
		return move_item(lists, list, item->hash, &survey);
	if (survey.has_twin && survey.tag != (unsigned)list)
		return WN_ERR_UNFIXABLE;
	return add_new_item(lists, list, item, change);
}

int wn__yesno_add_item(struct wn_yesno *lists, enum wn_list list,
		       const struct wn_revmap_entry *item)
{
	struct wn_match change;
	int err;

	if (list != WN_LIST_YES && list != WN_LIST_NO)
		return WN_ERR_INVALID;
	change = wn_aqf_begin_change(lists->aqf, item->hash);
	err = add_or_move(lists, list, item, change);
	wn_aqf_end_change(lists->aqf, change);
	return err;
}

/* Shortening gives slots back, and changes no item's answer: the item is gone
 * whether or not it succeeds, and the next one in the minirun does the rest. */
static int remove_one(struct wn_yesno *lists, const struct wn_revmap_entry *item,
		      struct wn_match change)
{
	struct survey survey;
	int err;

	err = survey_minirun(lists, item, change, &survey);
	if (err)
		return err;
	if (!survey.found)
		return WN_ERR_NOT_FOUND;
	err = wn_revmap_remove(lists->map, survey.item.minirun, survey.item.rank);
	if (err)
		return err;
	err = wn_aqf_delete(lists->aqf, item->hash, survey.item, NULL);
	if (err)
		return err;
	(void)wn_aqf_shorten(lists->aqf, survey.item.minirun, NULL);
	lists->counts[survey.tag]--;
	return 0;
}

int wn__yesno_remove_item(struct wn_yesno *lists, const struct wn_revmap_entry *item)
{
	struct wn_match change = wn_aqf_begin_change(lists->aqf, item->hash);
	int err = remove_one(lists, item, change);

	wn_aqf_end_change(lists->aqf, change);
	return err;
}

/* In an entry a NULL key means that there is none; an empty key may come as NULL. */
static int make_item(const struct wn_yesno *lists, const void *key, size_t size,
		     struct wn_revmap_entry *itemp)
{
	if (key == NULL && size != 0)
		return WN_ERR_INVALID;
	itemp->hash = wn_hash_key(lists->secret, key, size);
	itemp->key = key == NULL ? "" : key;
	itemp->key_size = size;
	return 0;
}

int wn_yesno_add(struct wn_yesno *lists, enum wn_list list, const void *key, size_t size)
{
	struct wn_revmap_entry item;
	int err;

	err = make_item(lists, key, size, &item);
	return err != 0 ? err : wn__yesno_add_item(lists, list, &item);
}

int wn_yesno_remove(struct wn_yesno *lists, const void *key, size_t size)
{
	struct wn_revmap_entry item;
	int err;

	err = make_item(lists, key, size, &item);
	return err != 0 ? err : wn__yesno_remove_item(lists, &item);
}

/* ---- query -------------------------------------------------------------- */

/* Match and tag must come from one moment: between two calls a writer could move
 * another fingerprint to the match's rank. A match without a fingerprint has no
 * tag to go by, and a YES item must never be denied. */
bool wn__yesno_query_hash(const struct wn_yesno *lists, struct wn_hash hash)
{
	struct wn_match match;
	unsigned tag;

	if (!wn_aqf_query_tag(lists->aqf, hash, &match, &tag))
		return false;
	return !match.known || tag == WN_LIST_YES;
}

bool wn_yesno_query(const struct wn_yesno *lists, const void *key, size_t size)
{
	return wn__yesno_query_hash(lists, wn_hash_key(lists->secret, key, size));
}

uint64_t wn_yesno_count(const struct wn_yesno *lists, enum wn_list list)
{
	return list == WN_LIST_YES || list == WN_LIST_NO ? lists->counts[list] : 0;
}

const struct wn_aqf *wn_yesno_filter(const struct wn_yesno *lists)
{
	return lists->aqf;
}
