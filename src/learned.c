/* learned.c - the registry of what filters learned: ids, the pool of pages, the budget. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "alloc.h"
#include "bytes.h"
#include "learned_internal.h"

#define FIRST_BUCKETS 64
#define SLAB_PAGES 31

struct wn__slab {
	struct wn__slab *next;
	_Alignas(64) struct wn__page pages[SLAB_PAGES];
};

/* ---- rings -------------------------------------------------------------- */

static void ring_init(struct wn__link *ring)
{
	ring->prev = ring->next = ring;
}

static void ring_remove(struct wn__link *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

static void ring_append(struct wn__link *ring, struct wn__link *link)
{
	ring_remove(link);
	link->prev = ring->prev;
	link->next = ring;
	ring->prev->next = link;
	ring->prev = link;
}

/* ---- objects ------------------------------------------------------------ */

static struct wn__lessons **bucket_of(const struct wn__learned *learned, const unsigned char *id)
{
	/* Ids are random numbers, or hashes. */
	return &learned->buckets[get_le64(id) & (learned->bucket_count - 1)];
}

struct wn__lessons *wn__learned_find(const struct wn__learned *learned, const unsigned char *id)
{
	struct wn__lessons *lessons = *bucket_of(learned, id);

	while (lessons && memcmp(lessons->id, id, WN_BLOCK_ID_SIZE) != 0)
		lessons = lessons->chain;
	return lessons;
}

static void link_lessons(struct wn__lessons *lessons)
{
	struct wn__lessons **bucket = bucket_of(lessons->learned, lessons->id);

	lessons->chain = *bucket;
	*bucket = lessons;
}

/* If there is no memory, chains become longer. */
static void grow_buckets(struct wn__learned *learned)
{
	size_t old_count = learned->bucket_count;
	struct wn__lessons **old = learned->buckets, *lessons, *next;
	struct wn__lessons **new = wn__calloc(2 * old_count, sizeof(*new));

	if (!new)
		return;
	learned->buckets = new;
	learned->bucket_count = 2 * old_count;
	learned->stats.bytes += old_count * sizeof(*new);
	for (size_t at = 0; at < old_count; at++) {
		for (lessons = old[at]; lessons; lessons = next) {
			next = lessons->chain;
			link_lessons(lessons);
		}
	}
	free(old);
}

static struct wn__lessons *new_lessons(struct wn__learned *learned, const unsigned char *id,
				       struct wn__shape shape)
{
	struct wn__lessons *lessons = wn__calloc(1, sizeof(*lessons));

	if (!lessons)
		return NULL;
	lessons->serial = ++learned->last_serial;
	lessons->shape = shape;
	memcpy(lessons->id, id, WN_BLOCK_ID_SIZE);
	lessons->learned = learned;
	lessons->linked = true;
	learned->stats.bytes += sizeof(*lessons);
	if (++learned->object_count > learned->bucket_count)
		grow_buckets(learned);
	link_lessons(lessons);
	return lessons;
}

static void unlink_lessons(struct wn__lessons *lessons)
{
	struct wn__learned *learned = lessons->learned;
	struct wn__lessons **at = bucket_of(learned, lessons->id);

	while (*at != lessons)
		at = &(*at)->chain;
	*at = lessons->chain;
	learned->object_count--;
	if (lessons->count) {
		learned->stats.filters--;
		learned->stats.lessons -= lessons->count;
	}
	ring_remove(&lessons->warmth);
	lessons->linked = false;
}

/* Nobody holds it and nobody can find it. */
static void free_lessons(struct wn__lessons *lessons)
{
	wn__lessons_clear(lessons);
	wn__lessons_free_directories(lessons);
	lessons->learned->stats.bytes -= sizeof(*lessons);
	free(lessons);
}

/* The last reader has gone: is there anything to keep? */
static void settle(struct wn__lessons *lessons)
{
	if (lessons->linked && (lessons->count || lessons->distrusted)) {
		wn__lessons_free_directories(lessons);
		return;
	}
	if (lessons->linked)
		unlink_lessons(lessons);
	free_lessons(lessons);
}

void wn__learned_warm(struct wn__lessons *lessons)
{
	if (lessons->linked && lessons->count)
		ring_append(&lessons->learned->coldest, &lessons->warmth);
}

void wn__learned_cool(struct wn__lessons *lessons)
{
	ring_remove(&lessons->warmth);
}

/* ---- pages -------------------------------------------------------------- */

static int add_slab(struct wn__learned *learned)
{
	struct wn__slab *slab = wn__alloc_large(sizeof(*slab));

	if (!slab)
		return ENOMEM;
	slab->next = learned->slabs;
	learned->slabs = slab;
	learned->stats.bytes += sizeof(*slab);
	for (unsigned at = 0; at < SLAB_PAGES; at++) {
		slab->pages[at].version = 0;
		slab->pages[at].owner = 0;
		wn__learned_return_page(learned, &slab->pages[at]);
	}
	return 0;
}

static int drop_coldest(struct wn__learned *learned)
{
	struct wn__lessons *lessons = WN__LESSONS_OF(learned->coldest.next, warmth);

	if (learned->coldest.next == &learned->coldest)
		return WN_ERR_FULL;
	learned->stats.dropped_filters++;
	learned->stats.dropped_lessons += lessons->count;
	wn__lessons_clear(lessons);
	if (lessons->refs == 0)
		settle(lessons);
	return 0;
}

int wn__learned_reserve(struct wn__learned *learned, size_t count)
{
	int err = 0;

	while (!err && learned->pool_count < count) {
		if (learned->stats.bytes + sizeof(struct wn__slab) <= learned->budget)
			err = add_slab(learned);
		else
			err = drop_coldest(learned);
	}
	return err;
}

struct wn__page *wn__learned_take_page(struct wn__lessons *lessons, uint32_t depth)
{
	struct wn__learned *learned = lessons->learned;
	struct wn__page *page = learned->pool;
	uint64_t version = page->version;

	learned->pool = page->next;
	learned->pool_count--;
	__atomic_store_n(&page->version, version + 1, __ATOMIC_RELAXED);
	/* The odd version is seen before any word written under it. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&page->owner, lessons->serial, __ATOMIC_RELAXED);
	for (unsigned at = 0; at < WN__PAGE_LESSONS; at++) {
		__atomic_store_n(&page->lessons[at].minirun, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&page->lessons[at].word, 0, __ATOMIC_RELAXED);
	}
	page->count = 0;
	page->depth = depth;
	__atomic_store_n(&page->version, version + 2, __ATOMIC_RELEASE);
	return page;
}

void wn__learned_return_page(struct wn__learned *learned, struct wn__page *page)
{
	page->next = learned->pool;
	learned->pool = page;
	learned->pool_count++;
}

/* ---- the registry ------------------------------------------------------- */

int wn__learned_create(size_t budget, struct wn__learned **learnedp)
{
	struct wn__learned *learned = wn__calloc(1, sizeof(*learned));

	*learnedp = NULL;
	if (!learned)
		return ENOMEM;
	learned->buckets = wn__calloc(FIRST_BUCKETS, sizeof(*learned->buckets));
	if (!learned->buckets || pthread_mutex_init(&learned->lock, NULL) != 0) {
		free(learned->buckets);
		free(learned);
		return ENOMEM;
	}
	learned->bucket_count = FIRST_BUCKETS;
	learned->budget = budget ? budget : WN__LEARNED_BUDGET;
	learned->users = 1;
	ring_init(&learned->coldest);
	learned->stats.bytes = sizeof(*learned) + FIRST_BUCKETS * sizeof(*learned->buckets);
	*learnedp = learned;
	return 0;
}

static void free_learned(struct wn__learned *learned)
{
	for (size_t at = 0; at < learned->bucket_count; at++) {
		while (learned->buckets[at]) {
			struct wn__lessons *lessons = learned->buckets[at];

			unlink_lessons(lessons);
			free_lessons(lessons);
		}
	}
	while (learned->slabs) {
		struct wn__slab *slab = learned->slabs;

		learned->slabs = slab->next;
		free(slab);
	}
	pthread_mutex_destroy(&learned->lock);
	free(learned->changes);
	free(learned->buckets);
	free(learned);
}

/* Unlocks. */
static void leave(struct wn__learned *learned)
{
	bool last = --learned->users == 0;

	pthread_mutex_unlock(&learned->lock);
	if (last)
		free_learned(learned);
}

void wn__learned_destroy(struct wn__learned *learned)
{
	if (!learned)
		return;
	pthread_mutex_lock(&learned->lock);
	leave(learned);
}

static bool is_same_shape(struct wn__shape a, struct wn__shape b)
{
	return a.slots == b.slots && a.remainder_bits == b.remainder_bits;
}

int wn__learned_acquire(struct wn__learned *learned, const unsigned char *id,
			struct wn__shape shape, struct wn__lessons **lessonsp)
{
	struct wn__lessons *lessons;
	int err = 0;

	*lessonsp = NULL;
	pthread_mutex_lock(&learned->lock);
	lessons = wn__learned_find(learned, id);
	if (!lessons)
		lessons = new_lessons(learned, id, shape);
	if (!lessons)
		err = ENOMEM;
	else if (!is_same_shape(lessons->shape, shape))
		err = WN_ERR_MISMATCH;
	if (!err) {
		lessons->refs++;
		learned->users++;
		wn__learned_warm(lessons);
		*lessonsp = lessons;
	}
	pthread_mutex_unlock(&learned->lock);
	return err;
}

void wn__lessons_release(struct wn__lessons *lessons)
{
	struct wn__learned *learned;

	if (!lessons)
		return;
	learned = lessons->learned;
	pthread_mutex_lock(&learned->lock);
	if (--lessons->refs == 0)
		settle(lessons);
	leave(learned);
}

void wn__lessons_touch(struct wn__lessons *lessons)
{
	if (!lessons || pthread_mutex_trylock(&lessons->learned->lock) != 0)
		return;
	wn__learned_warm(lessons);
	pthread_mutex_unlock(&lessons->learned->lock);
}

void wn__learned_forget(struct wn__learned *learned, const unsigned char *id)
{
	struct wn__lessons *lessons;

	pthread_mutex_lock(&learned->lock);
	lessons = wn__learned_find(learned, id);
	if (lessons) {
		unlink_lessons(lessons);
		if (lessons->refs == 0)
			free_lessons(lessons);
	}
	pthread_mutex_unlock(&learned->lock);
}

void wn__learned_describe(struct wn__learned *learned, struct wn__learned_stats *statsp)
{
	pthread_mutex_lock(&learned->lock);
	*statsp = learned->stats;
	pthread_mutex_unlock(&learned->lock);
}

/* ---- what has changed --------------------------------------------------- */

#define FIRST_CHANGES 256

static bool make_room_for_changes(struct wn__learned *learned, size_t room)
{
	struct wn__change *changes;

	if (room > WN__LEARNED_MAX_CHANGES)
		return false;
	changes = wn__realloc(learned->changes, room * sizeof(*changes));
	if (!changes)
		return false;
	learned->changes = changes;
	learned->change_room = room;
	return true;
}

void wn__learned_track(struct wn__learned *learned)
{
	pthread_mutex_lock(&learned->lock);
	learned->tracked = true;
	pthread_mutex_unlock(&learned->lock);
}

void wn__learned_changed(struct wn__lessons *lessons, uint64_t minirun, uint64_t word)
{
	struct wn__learned *learned = lessons->learned;
	struct wn__change *change;

	if (!learned->tracked || learned->changes_lost)
		return;
	if (learned->change_count == learned->change_room &&
	    !make_room_for_changes(learned, learned->change_room ? 2 * learned->change_room :
								   FIRST_CHANGES)) {
		learned->changes_lost = true;
		learned->change_count = learned->stats.changes = 0;
		return;
	}
	change = &learned->changes[learned->change_count++];
	memcpy(change->id, lessons->id, sizeof(change->id));
	change->shape = lessons->shape;
	change->lesson = (struct wn__lesson){minirun, word};
	learned->stats.changes++;
}

/* ---- what is gone ------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

size_t wn__learned_retain(struct wn__learned *learned,
			  const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count)
{
	size_t forgotten = 0;

	pthread_mutex_lock(&learned->lock);
	for (size_t at = 0; at < learned->bucket_count; at++) {
		struct wn__lessons *lessons = learned->buckets[at], *next;

		for (; lessons; lessons = next) {
			next = lessons->chain;
			if (bsearch(lessons->id, ids, count, WN_BLOCK_ID_SIZE, compare_ids))
				continue;
			forgotten += lessons->count > 0;
			unlink_lessons(lessons);
			if (lessons->refs == 0)
				free_lessons(lessons);
		}
	}
	pthread_mutex_unlock(&learned->lock);
	return forgotten;
}
