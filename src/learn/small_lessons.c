/* small_lessons.c - one table of lessons for many small filters; see tiny_lessons.h.
 *
 * Linear probing; what is taken out is made good by moving others back, so that there are no
 * tombstones. Between the two changes of `version` entries may be anywhere and half written: a
 * reader believes nothing that it found, or did not find, meanwhile, looks again, and after some
 * rounds says "maybe". An entry that is only added needs no version: its first word is written
 * last. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "small_lessons.h"

#define BUDGET ((size_t)64 << 20)
#define FIRST_PLACES 256
#define USED UINT64_C(1)
#define READ_TRIES 100 /* a move takes less than that many looks, unless its thread is stopped */

struct entry {
	atomic_uint_fast64_t lo; /* 0: empty */
	atomic_uint_fast64_t hi;
	atomic_uint_fast64_t index; /* times 2, and USED */
	atomic_uint_fast64_t bits;
};

struct places {
	struct places *older;
	size_t count; /* a power of two */
	struct entry entries[];
};

struct wn__small_lessons {
	_Atomic(struct places *) places;
	atomic_uint_fast64_t version; /* odd: entries are being moved */
	pthread_mutex_t lock;
	size_t budget, bytes, used;
	size_t hand; /* of the clock */
	uint64_t dropped;
};

static uint64_t get(const atomic_uint_fast64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

/* Release, so that a reader who sees any part of a move also sees the version's change. */
static void set(atomic_uint_fast64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

static size_t home_of(const struct places *places, uint64_t lo, uint64_t index)
{
	uint64_t mixed = (lo ^ index * UINT64_C(0x9e3779b97f4a7c15)) *
			 UINT64_C(0xd6e8feb86659fd93);

	return (size_t)(mixed >> 32) & (places->count - 1);
}

static bool is_entry(const struct entry *entry, struct wn__small_id id, uint32_t index)
{
	return get(&entry->lo) == id.lo && get(&entry->hi) == id.hi &&
	       get(&entry->index) / 2 == index;
}

/* ---- readers ------------------------------------------------------------ */

static void mark_used(struct entry *entry)
{
	if (!(atomic_load_explicit(&entry->index, memory_order_relaxed) & USED))
		atomic_fetch_or_explicit(&entry->index, USED, memory_order_relaxed);
}

static bool refute(struct places *places, struct wn__small_id id, uint32_t index, uint64_t bits)
{
	size_t at = home_of(places, id.lo, index);

	for (size_t i = 0; i < places->count; i++, at = (at + 1) & (places->count - 1)) {
		struct entry *entry = &places->entries[at];

		if (get(&entry->lo) == 0)
			return false;
		if (!is_entry(entry, id, index))
			continue;
		if (get(&entry->bits) == bits)
			return false;
		mark_used(entry);
		return true;
	}
	return false;
}

bool wn__small_lessons_refute(struct wn__small_lessons *lessons, struct wn__small_id id,
			     uint32_t index, uint64_t bits)
{
	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint64_t version = get(&lessons->version);
		struct places *places =
			atomic_load_explicit(&lessons->places, memory_order_acquire);
		bool refuted;

		if (!places)
			return false;
		if (version % 2)
			continue;
		refuted = refute(places, id, index, bits);
		if (get(&lessons->version) == version)
			return refuted;
	}
	return false;
}

/* ---- changes, under the lock -------------------------------------------- */

static struct entry *find_place(struct places *places, struct wn__small_id id, uint32_t index)
{
	size_t at = home_of(places, id.lo, index);

	while (get(&places->entries[at].lo) != 0 && !is_entry(&places->entries[at], id, index))
		at = (at + 1) & (places->count - 1);
	return &places->entries[at];
}

static void fill(struct entry *entry, uint64_t lo, uint64_t hi, uint64_t index, uint64_t bits)
{
	set(&entry->bits, bits);
	set(&entry->index, index);
	set(&entry->hi, hi);
	set(&entry->lo, lo);
}

static void begin_move(struct wn__small_lessons *lessons)
{
	atomic_fetch_add_explicit(&lessons->version, 1, memory_order_acq_rel);
}

static void end_move(struct wn__small_lessons *lessons)
{
	atomic_fetch_add_explicit(&lessons->version, 1, memory_order_acq_rel);
}

/* Within a move. */
static void take_out(struct wn__small_lessons *lessons, struct places *places, size_t hole)
{
	size_t mask = places->count - 1, at = hole;

	for (;;) {
		struct entry *entry = &places->entries[at = (at + 1) & mask];
		uint64_t lo = get(&entry->lo), index = get(&entry->index);
		size_t home;

		if (lo == 0)
			break;
		home = home_of(places, lo, index / 2);
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		set(&places->entries[hole].lo, 0);
		fill(&places->entries[hole], lo, get(&entry->hi), index, get(&entry->bits));
		hole = at;
	}
	set(&places->entries[hole].lo, 0);
	lessons->used--;
}

static int grow(struct wn__small_lessons *lessons)
{
	struct places *old = atomic_load_explicit(&lessons->places, memory_order_relaxed);
	size_t count = old ? 2 * old->count : FIRST_PLACES;
	size_t size = sizeof(struct places) + count * sizeof(struct entry);
	struct places *places;

	if (lessons->bytes + size > lessons->budget)
		return WN_ERR_FULL;
	places = wn__calloc(1, size);
	if (!places)
		return ENOMEM;
	places->older = old;
	places->count = count;
	for (size_t i = 0; old && i < old->count; i++) {
		struct entry *entry = &old->entries[i];
		uint64_t index = get(&entry->index);
		struct wn__small_id id = {get(&entry->lo), get(&entry->hi)};

		if (id.lo != 0)
			fill(find_place(places, id, (uint32_t)(index / 2)), id.lo, id.hi, index,
			     get(&entry->bits));
	}
	/* Readers of the old table must not believe entries that are only kept there. */
	begin_move(lessons);
	atomic_store_explicit(&lessons->places, places, memory_order_release);
	end_move(lessons);
	lessons->bytes += size;
	lessons->hand = 0;
	return 0;
}

/* Sixteen lessons that were of no use since the hand came by last, and at worst any. */
static void drop_unused(struct wn__small_lessons *lessons, struct places *places)
{
	unsigned wanted = 16;

	begin_move(lessons);
	for (size_t i = 0; i < 3 * places->count && wanted; i++) {
		struct entry *entry = &places->entries[lessons->hand];
		uint64_t index = get(&entry->index);

		if (get(&entry->lo) == 0) {
			lessons->hand = (lessons->hand + 1) & (places->count - 1);
		} else if (index & USED) {
			set(&entry->index, index & ~USED);
			lessons->hand = (lessons->hand + 1) & (places->count - 1);
		} else { /* another comes into its place */
			take_out(lessons, places, lessons->hand);
			lessons->dropped++;
			wanted--;
		}
	}
	end_move(lessons);
}

static int make_room(struct wn__small_lessons *lessons)
{
	struct places *places = atomic_load_explicit(&lessons->places, memory_order_relaxed);
	int err;

	if (places && lessons->used < places->count / 8 * 5)
		return 0;
	err = grow(lessons);
	if (!err || !places)
		return err;
	drop_unused(lessons, places);
	return 0;
}

static int learn(struct wn__small_lessons *lessons, struct wn__small_id id, uint32_t index,
		 uint64_t bits)
{
	int err = make_room(lessons);
	struct places *places;
	struct entry *entry;

	if (err)
		return err;
	places = atomic_load_explicit(&lessons->places, memory_order_relaxed);
	entry = find_place(places, id, index);
	if (get(&entry->lo) == 0) {
		fill(entry, id.lo, id.hi, 2 * (uint64_t)index | USED, bits);
		lessons->used++;
		return 0;
	}
	if (get(&entry->bits) == bits)
		return 0;
	begin_move(lessons);
	take_out(lessons, places, (size_t)(entry - places->entries));
	end_move(lessons);
	return WN_ERR_MISMATCH;
}

int wn__small_lessons_learn(struct wn__small_lessons *lessons, struct wn__small_id id,
			    uint32_t index, uint64_t bits)
{
	int err;

	pthread_mutex_lock(&lessons->lock);
	err = learn(lessons, id, index, bits);
	pthread_mutex_unlock(&lessons->lock);
	return err;
}

void wn__small_lessons_forget(struct wn__small_lessons *lessons, struct wn__small_id id,
			     uint32_t count)
{
	struct places *places;

	pthread_mutex_lock(&lessons->lock);
	places = atomic_load_explicit(&lessons->places, memory_order_relaxed);
	for (uint32_t index = 0; places && lessons->used && index < count; index++) {
		struct entry *entry = find_place(places, id, index);

		if (get(&entry->lo) == 0)
			continue;
		begin_move(lessons);
		take_out(lessons, places, (size_t)(entry - places->entries));
		end_move(lessons);
	}
	pthread_mutex_unlock(&lessons->lock);
}

void wn__small_lessons_each(struct wn__small_lessons *lessons, wn__small_lesson_fn *each, void *arg)
{
	struct places *places;

	pthread_mutex_lock(&lessons->lock);
	places = atomic_load_explicit(&lessons->places, memory_order_relaxed);
	for (size_t i = 0; places && i < places->count; i++) {
		const struct entry *entry = &places->entries[i];
		struct wn__small_id id = {get(&entry->lo), get(&entry->hi)};

		if (id.lo != 0)
			each(arg, id, (uint32_t)(get(&entry->index) / 2));
	}
	pthread_mutex_unlock(&lessons->lock);
}

/* ---- life --------------------------------------------------------------- */

int wn__small_lessons_create(size_t budget, struct wn__small_lessons **lessonsp)
{
	struct wn__small_lessons *lessons = wn__calloc(1, sizeof(*lessons));

	*lessonsp = NULL;
	if (!lessons)
		return ENOMEM;
	if (pthread_mutex_init(&lessons->lock, NULL) != 0) {
		free(lessons);
		return ENOMEM;
	}
	lessons->budget = budget ? budget : BUDGET;
	*lessonsp = lessons;
	return 0;
}

void wn__small_lessons_destroy(struct wn__small_lessons *lessons)
{
	struct places *places;

	if (!lessons)
		return;
	places = atomic_load_explicit(&lessons->places, memory_order_relaxed);
	while (places) {
		struct places *older = places->older;

		free(places);
		places = older;
	}
	pthread_mutex_destroy(&lessons->lock);
	free(lessons);
}

void wn__small_lessons_describe(struct wn__small_lessons *lessons,
			       struct wn__small_lessons_stats *statsp)
{
	pthread_mutex_lock(&lessons->lock);
	*statsp = (struct wn__small_lessons_stats){lessons->used, lessons->bytes, lessons->dropped};
	pthread_mutex_unlock(&lessons->lock);
}
