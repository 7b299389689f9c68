/* negatives.c - the table of keys that filters were wrong about.
 *
 * Entries stand in an array in no order; an index of 32-bit numbers, half full at
 * most, leads from a hash to its entry.
 *
 * Costs fade without being touched: instead of making all old costs smaller, each new
 * one counts more, 2^(clock / half life) times. Before the numbers become too large
 * for a double all of them are divided. Comparing needs no division at all. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "negatives.h"
#include "negatives_format.h"

#define FIRST_ROOM 256
#define MAX_COST 1e15
/* 2^this times the largest cost and the largest count still fits in a double. */
#define MAX_FADING 512.0
#define NO_ENTRY 0 /* the index holds numbers from 1 on */

struct entry {
	struct wn_hash hash;
	double score; /* the cost, times the weight of the time it was noted at */
};

/* A view and who holds it: the table itself, and those who asked. */
struct view {
	struct wn__negatives_view shown; /* first */
	size_t references;               /* atomic */
	uint64_t generation;
	struct wn__negative negatives[];
};

struct wn__negatives {
	pthread_mutex_t lock;
	uint64_t seed_sum; /* the lower half is the secret's short id */
	size_t capacity;
	double half_life;
	uint64_t clock; /* reports since the scores were last divided */
	struct entry *entries;
	size_t count;
	size_t room; /* of entries; the index has twice as many places */
	uint32_t *index;
	uint64_t reports, dropped, generation;
	struct view *view; /* the last one made, or NULL */
	bool tracked, changes_lost;
	struct wn__negative *changes;
	size_t change_count, change_room;
};

/* ---- the index ---------------------------------------------------------- */

/* The place of the hash, or the free place where it belongs. */
static uint32_t *find_place(const struct wn__negatives *negatives, struct wn_hash hash)
{
	size_t mask = 2 * negatives->room - 1;
	size_t at = (size_t)hash.lo & mask;

	while (negatives->index[at] != NO_ENTRY &&
	       wn_hash_compare(negatives->entries[negatives->index[at] - 1].hash, hash) != 0)
		at = (at + 1) & mask;
	return &negatives->index[at];
}

static void rebuild_index(struct wn__negatives *negatives)
{
	memset(negatives->index, 0, 2 * negatives->room * sizeof(negatives->index[0]));
	for (size_t i = 0; i < negatives->count; i++)
		*find_place(negatives, negatives->entries[i].hash) = (uint32_t)(i + 1);
}

static int grow(struct wn__negatives *negatives)
{
	size_t room = negatives->room ? 2 * negatives->room : FIRST_ROOM;
	struct entry *entries = wn__alloc(room * sizeof(*entries));
	uint32_t *index = wn__alloc(2 * room * sizeof(*index));

	if (!entries || !index) {
		free(entries);
		free(index);
		return ENOMEM;
	}
	if (negatives->count)
		memcpy(entries, negatives->entries, negatives->count * sizeof(*entries));
	free(negatives->entries);
	free(negatives->index);
	negatives->entries = entries;
	negatives->index = index;
	negatives->room = room;
	rebuild_index(negatives);
	return 0;
}

/* ---- costs -------------------------------------------------------------- */

static double weight(const struct wn__negatives *negatives)
{
	return exp2((double)negatives->clock / negatives->half_life);
}

static void tick(struct wn__negatives *negatives)
{
	double now;

	wn__assert_locked(&negatives->lock);
	if ((double)++negatives->clock / negatives->half_life < MAX_FADING)
		return;
	now = weight(negatives);
	for (size_t i = 0; i < negatives->count; i++)
		negatives->entries[i].score /= now;
	negatives->clock = 0;
}

static size_t count_below(const struct wn__negatives *negatives, double score)
{
	size_t below = 0;

	for (size_t i = 0; i < negatives->count; i++)
		below += negatives->entries[i].score < score;
	return below;
}

static double number_of(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

/* The largest score that fewer than `wanted` entries are below. Found by bisection
 * over the bits, which for numbers from 0 on are in the order of the numbers: needs
 * no memory, and 64 looks at each entry. */
static double score_of_rank(const struct wn__negatives *negatives, size_t wanted)
{
	uint64_t low = 0; /* fewer are below it */
	uint64_t step = UINT64_C(1) << 62;

	for (; step; step /= 2) {
		double middle = number_of(low + step);

		if (isfinite(middle) && count_below(negatives, middle) < wanted)
			low += step;
	}
	return number_of(low);
}

/* The cheapest quarter goes; of those that cost the same, whichever come first. */
static void drop_cheapest(struct wn__negatives *negatives)
{
	size_t unwanted = negatives->count / 4; /* capacity is 4 at least */
	double limit = score_of_rank(negatives, unwanted);
	size_t at_limit = unwanted - count_below(negatives, limit);
	size_t kept = 0;

	for (size_t i = 0; i < negatives->count; i++) {
		struct entry entry = negatives->entries[i];

		if (entry.score < limit)
			continue;
		if (entry.score == limit && at_limit > 0) {
			at_limit--;
			continue;
		}
		negatives->entries[kept++] = entry;
	}
	negatives->dropped += negatives->count - kept;
	negatives->count = kept;
	rebuild_index(negatives);
}

/* ---- adding ------------------------------------------------------------- */

static int add_score(struct wn__negatives *negatives, struct wn_hash hash, double score)
{
	uint32_t *place = negatives->room ? find_place(negatives, hash) : NULL;

	wn__assert_locked(&negatives->lock);
	if (place && *place != NO_ENTRY) {
		negatives->entries[*place - 1].score += score;
		return 0;
	}
	if (negatives->count == negatives->capacity) {
		drop_cheapest(negatives);
	} else if (negatives->count == negatives->room) {
		int err = grow(negatives);

		if (err)
			return err;
	}
	negatives->entries[negatives->count++] = (struct entry){hash, score};
	*find_place(negatives, hash) = (uint32_t)negatives->count;
	return 0;
}

/* To be saved. */
static void note_change(struct wn__negatives *negatives, struct wn_hash hash, double cost)
{
	size_t room = negatives->change_room ? 2 * negatives->change_room : FIRST_ROOM;
	struct wn__negative *changes;

	wn__assert_locked(&negatives->lock);
	if (!negatives->tracked || negatives->changes_lost)
		return;
	if (negatives->change_count == negatives->change_room) {
		changes = room <= WN__NEGATIVES_MAX_CHANGES ?
				  wn__realloc(negatives->changes, room * sizeof(*changes)) :
				  NULL;
		negatives->changes_lost = !changes;
		if (!changes)
			return;
		negatives->changes = changes;
		negatives->change_room = room;
	}
	negatives->changes[negatives->change_count++] = (struct wn__negative){hash, cost};
}

static bool is_cost(double cost)
{
	return cost > 0 && cost <= MAX_COST;
}

int wn__negatives_add(struct wn__negatives *negatives, uint32_t secret_id, struct wn_hash hash,
		      double cost)
{
	int err;

	if (secret_id != (uint32_t)negatives->seed_sum)
		return WN_ERR_MISMATCH;
	if (!is_cost(cost))
		return WN_ERR_INVALID;
	wn__lock(&negatives->lock, WN__LOCK_LAST);
	err = add_score(negatives, hash, cost * weight(negatives));
	if (!err) {
		tick(negatives);
		note_change(negatives, hash, cost);
		negatives->reports++;
		negatives->generation++;
	}
	wn__unlock(&negatives->lock);
	return err;
}

/* ---- create ------------------------------------------------------------- */

int wn__negatives_create(const struct wn__negatives_options *options, const void *seed,
			 struct wn__negatives **negativesp)
{
	uint32_t capacity = options && options->capacity ? options->capacity
							 : WN__NEGATIVES_CAPACITY;
	uint64_t half_life = options && options->half_life ? options->half_life
							   : UINT64_C(8) * capacity;
	struct wn__negatives *negatives;

	*negativesp = NULL;
	if (!seed || capacity < 4 || capacity > WN__NEGATIVES_MAX_CAPACITY)
		return WN_ERR_INVALID;
	negatives = wn__calloc(1, sizeof(*negatives));
	if (!negatives)
		return ENOMEM;
	if (pthread_mutex_init(&negatives->lock, NULL) != 0) {
		free(negatives);
		return ENOMEM;
	}
	negatives->seed_sum = XXH3_64bits(seed, WN_SEED_SIZE);
	negatives->capacity = capacity;
	negatives->half_life = (double)half_life;
	*negativesp = negatives;
	return 0;
}

void wn__negatives_destroy(struct wn__negatives *negatives)
{
	if (!negatives)
		return;
	pthread_mutex_destroy(&negatives->lock);
	wn__negatives_unview(negatives->view ? &negatives->view->shown : NULL);
	free(negatives->entries);
	free(negatives->index);
	free(negatives->changes);
	free(negatives);
}

void wn__negatives_describe(struct wn__negatives *negatives, struct wn__negatives_stats *statsp)
{
	wn__lock(&negatives->lock, WN__LOCK_LAST);
	*statsp = (struct wn__negatives_stats){
		.count = negatives->count,
		.reports = negatives->reports,
		.dropped = negatives->dropped,
		.generation = negatives->generation,
		.bytes = sizeof(*negatives) +
			 negatives->room * (sizeof(struct entry) + 2 * sizeof(uint32_t)),
	};
	wn__unlock(&negatives->lock);
}

/* ---- looking ------------------------------------------------------------ */

/* All entries with their costs of now; free() them. */
static struct wn__negative *copy_entries(struct wn__negatives *negatives, size_t *countp,
					 uint64_t *generationp)
{
	struct wn__negative *copy;
	double now;

	wn__lock(&negatives->lock, WN__LOCK_LAST);
	copy = wn__alloc(negatives->count * sizeof(*copy));
	now = weight(negatives);
	for (size_t i = 0; copy && i < negatives->count; i++) {
		copy[i].hash = negatives->entries[i].hash;
		copy[i].cost = negatives->entries[i].score / now;
	}
	*countp = negatives->count;
	*generationp = negatives->generation;
	wn__unlock(&negatives->lock);
	return copy;
}

static int compare_hashes(const void *a, const void *b)
{
	return wn_hash_compare(((const struct wn__negative *)a)->hash,
			       ((const struct wn__negative *)b)->hash);
}

static int compare_costs(const void *a, const void *b)
{
	double left = ((const struct wn__negative *)a)->cost;
	double right = ((const struct wn__negative *)b)->cost;

	if (left != right)
		return left > right ? -1 : 1;
	return compare_hashes(a, b);
}

/* ---- views -------------------------------------------------------------- */

void wn__negatives_unview(const struct wn__negatives_view *shown)
{
	struct view *view = (struct view *)(uintptr_t)shown;

	if (view && __atomic_sub_fetch(&view->references, 1, __ATOMIC_ACQ_REL) == 0)
		free(view);
}

/* A view of now; the caller has its one reference. */
static struct view *make_view(struct wn__negatives *negatives)
{
	uint64_t generation;
	size_t count;
	struct wn__negative *copy = copy_entries(negatives, &count, &generation);
	struct view *view = copy ? wn__alloc(sizeof(*view) + count * sizeof(*copy)) : NULL;

	if (view) {
		qsort(copy, count, sizeof(*copy), compare_costs);
		if (count)
			memcpy(view->negatives, copy, count * sizeof(*copy));
		view->shown = (struct wn__negatives_view){view->negatives, count};
		view->references = 1;
		view->generation = generation;
	}
	free(copy);
	return view;
}

const struct wn__negatives_view *wn__negatives_view(struct wn__negatives *negatives)
{
	struct view *view, *old = NULL;

	wn__lock(&negatives->lock, WN__LOCK_LAST);
	view = negatives->view;
	if (view && view->generation == negatives->generation)
		__atomic_add_fetch(&view->references, 1, __ATOMIC_RELAXED);
	else
		view = NULL;
	wn__unlock(&negatives->lock);
	if (view)
		return &view->shown;
	view = make_view(negatives);
	if (!view)
		return NULL;
	/* The table keeps the newest. */
	__atomic_add_fetch(&view->references, 1, __ATOMIC_RELAXED);
	wn__lock(&negatives->lock, WN__LOCK_LAST);
	old = negatives->view;
	negatives->view = view;
	wn__unlock(&negatives->lock);
	wn__negatives_unview(old ? &old->shown : NULL);
	return &view->shown;
}

/* ---- to and from bytes -------------------------------------------------- */

/* `list` is put in order, and entries of the same hash into one. */
static int write_bytes(const struct wn__negatives *negatives, struct wn__negative *list,
		       size_t count, void **bytesp, size_t *sizep)
{
	unsigned char *bytes = wn__alloc(wn__negatives_size(count));
	size_t kept = 0;

	if (!bytes)
		return ENOMEM;
	qsort(list, count, sizeof(*list), compare_hashes);
	for (size_t i = 0; i < count; i++) {
		if (kept && compare_hashes(&list[kept - 1], &list[i]) == 0)
			list[kept - 1].cost += list[i].cost;
		else
			list[kept++] = list[i];
	}
	wn__negatives_write_head(bytes, negatives->seed_sum, kept);
	for (size_t i = 0; i < kept; i++)
		wn__negatives_put(bytes, i, list[i]);
	wn__negatives_seal(bytes, wn__negatives_size(kept));
	*bytesp = bytes;
	*sizep = wn__negatives_size(kept);
	return 0;
}

int wn__negatives_save(struct wn__negatives *negatives, void **bytesp, size_t *sizep,
		       uint64_t *generationp)
{
	struct wn__negative *copy;
	uint64_t unwanted;
	size_t count;
	int err;

	*bytesp = NULL;
	*sizep = 0;
	copy = copy_entries(negatives, &count, generationp ? generationp : &unwanted);
	if (!copy)
		return ENOMEM;
	err = write_bytes(negatives, copy, count, bytesp, sizep);
	free(copy);
	return err;
}

void wn__negatives_track(struct wn__negatives *negatives)
{
	wn__lock(&negatives->lock, WN__LOCK_LAST);
	negatives->tracked = true;
	wn__unlock(&negatives->lock);
}

int wn__negatives_take_changes(struct wn__negatives *negatives, void **bytesp, size_t *sizep)
{
	struct wn__negative *changes;
	size_t count;
	bool lost;

	*bytesp = NULL;
	*sizep = 0;
	wn__lock(&negatives->lock, WN__LOCK_LAST);
	changes = negatives->changes;
	count = negatives->change_count;
	lost = negatives->changes_lost;
	negatives->changes = NULL;
	negatives->change_count = negatives->change_room = 0;
	negatives->changes_lost = false;
	wn__unlock(&negatives->lock);
	if (!lost && count && write_bytes(negatives, changes, count, bytesp, sizep))
		lost = true;
	free(changes);
	return lost ? WN_ERR_FULL : 0;
}

/* The table that starts at `bytes`; *sizep is how long it is. */
static int check_bytes(const unsigned char *bytes, size_t room, size_t *sizep)
{
	uint64_t count;

	if (room < WN__NEGATIVES_MIN_SIZE || !wn__negatives_have_magic(bytes))
		return WN_ERR_CORRUPT;
	if (wn__negatives_version(bytes) != WN__NEGATIVES_VERSION)
		return WN_ERR_VERSION;
	count = wn__negatives_count(bytes);
	if (count > room / WN__NEGATIVES_ENTRY_SIZE || wn__negatives_size(count) > room)
		return WN_ERR_CORRUPT;
	*sizep = wn__negatives_size(count);
	if (wn__negatives_reserved(bytes) != 0 || !wn__negatives_are_whole(bytes, *sizep))
		return WN_ERR_CORRUPT;
	for (uint64_t i = 0; i < count; i++) {
		struct wn__negative negative = wn__negatives_get(bytes, i);

		/* A cost may have grown and faded: 0 is what very old ones end as. */
		if (!(negative.cost >= 0) || !isfinite(negative.cost))
			return WN_ERR_CORRUPT;
		if (i > 0 && wn_hash_compare(wn__negatives_get(bytes, i - 1).hash,
					     negative.hash) >= 0)
			return WN_ERR_CORRUPT;
	}
	return 0;
}

/* They have been checked. */
static int load_bytes(struct wn__negatives *negatives, const void *bytes)
{
	uint64_t count;
	double now;
	int err = 0;

	if (wn__negatives_seed_sum(bytes) != negatives->seed_sum)
		return WN_ERR_MISMATCH;
	count = wn__negatives_count(bytes);
	wn__lock(&negatives->lock, WN__LOCK_LAST);
	now = weight(negatives);
	for (uint64_t i = 0; i < count && !err; i++) {
		struct wn__negative negative = wn__negatives_get(bytes, i);

		err = add_score(negatives, negative.hash, fmin(negative.cost, MAX_COST) * now);
	}
	negatives->generation += count > 0;
	wn__unlock(&negatives->lock);
	return err;
}

int wn__negatives_load_first(struct wn__negatives *negatives, const void *bytes, size_t size,
			     size_t *usedp)
{
	int err = check_bytes(bytes, size, usedp);

	if (err) {
		*usedp = 0;
		return err;
	}
	return load_bytes(negatives, bytes);
}

int wn__negatives_load(struct wn__negatives *negatives, const void *bytes, size_t size)
{
	size_t used;
	int err = check_bytes(bytes, size, &used);

	if (!err && used != size)
		err = WN_ERR_CORRUPT;
	return err ? err : load_bytes(negatives, bytes);
}
