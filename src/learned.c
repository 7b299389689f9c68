/* learned.c - the registry of what filters learned: ids, the pool of pages, the budget. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "alloc.h"
#include "bytes.h"
#include "ids.h"
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

/* ---- the budget --------------------------------------------------------- */

/* Shares of the budget that are kept: for all but pages, and of these for all but readers. */
#define OTHERS_SHARE 8
#define READERS_SHARE 16
/* The most that the list of changes may take; past it everything is saved anew. */
#define CHANGES_SHARE 16

/* Of the coldest, so many are looked at. */
#define MAX_LOOKS 64

/* Is there room for `size` bytes, with `kept` bytes left? There is always room for a slab. */
static bool fits(const struct wn__learned *learned, size_t size, size_t kept)
{
	if (!learned->slabs)
		kept += sizeof(struct wn__slab);
	return learned->stats.bytes + size + kept <= learned->budget;
}

/* The coldest that nobody reads; NULL: none nearby. Only these give memory back, the others
 * give pages. */
static struct wn__lessons *find_unread(struct wn__learned *learned)
{
	struct wn__link *link = learned->coldest.next;

	for (unsigned looks = 0; looks < MAX_LOOKS && link != &learned->coldest; looks++) {
		struct wn__lessons *lessons = WN__LESSONS_OF(link, warmth);

		if (lessons->refs == 0)
			return lessons;
		link = link->next;
	}
	return NULL;
}

static bool afford(struct wn__learned *learned, size_t size, size_t kept)
{
	while (!fits(learned, size, kept)) {
		struct wn__lessons *unread = find_unread(learned);

		if (!unread)
			return false;
		wn__learned_drop(unread);
	}
	return true;
}

bool wn__learned_afford(struct wn__learned *learned, size_t size)
{
	return afford(learned, size, 0);
}

/* ---- objects ------------------------------------------------------------ */

static struct wn__lessons **bucket_of(const struct wn__learned *learned, const unsigned char *id)
{
	return &learned->buckets[wn__id_hash(id) & (learned->bucket_count - 1)];
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
	struct wn__lessons **new = NULL;

	/* For a moment there are both. */
	if (fits(learned, 2 * old_count * sizeof(*new), learned->budget / READERS_SHARE))
		new = wn__calloc(2 * old_count, sizeof(*new));
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

static int new_lessons(struct wn__learned *learned, const unsigned char *id,
		       struct wn__shape shape, struct wn__lessons **lessonsp)
{
	struct wn__lessons *lessons;

	if (learned->budget < WN__LEARNED_MIN_BUDGET ||
	    !afford(learned, sizeof(*lessons), learned->budget / READERS_SHARE))
		return WN_ERR_FULL;
	lessons = wn__calloc(1, sizeof(*lessons));
	if (!lessons)
		return ENOMEM;
	lessons->serial = ++learned->last_serial;
	lessons->shape = shape;
	memcpy(lessons->id, id, WN_BLOCK_ID_SIZE);
	lessons->learned = learned;
	lessons->linked = true;
	learned->stats.bytes += sizeof(*lessons);
	if (++learned->object_count > learned->bucket_count)
		grow_buckets(learned);
	link_lessons(lessons);
	*lessonsp = lessons;
	return 0;
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

void wn__learned_drop(struct wn__lessons *lessons)
{
	lessons->learned->stats.dropped_filters++;
	lessons->learned->stats.dropped_lessons += lessons->count;
	wn__lessons_clear(lessons);
	if (lessons->refs == 0)
		settle(lessons);
}

static int drop_coldest(struct wn__learned *learned)
{
	struct wn__lessons *lessons = WN__LESSONS_OF(learned->coldest.next, warmth);

	if (learned->coldest.next == &learned->coldest)
		return WN_ERR_FULL;
	wn__learned_drop(lessons);
	return 0;
}

/* The first one always; then an eighth is left for what is not pages. */
static bool may_add_slab(const struct wn__learned *learned)
{
	size_t kept = learned->slabs ? learned->budget / OTHERS_SHARE : 0;

	return learned->stats.bytes + sizeof(struct wn__slab) + kept <= learned->budget;
}

int wn__learned_reserve(struct wn__learned *learned, size_t count)
{
	int err = 0;

	while (!err && learned->pool_count < count) {
		if (may_add_slab(learned))
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
	/* One that never learns anything has less than a kilobyte, and is not worth telling. */
	if (learned->budget >= WN__LEARNED_MIN_BUDGET)
		learned->stats.bytes =
			sizeof(*learned) + FIRST_BUCKETS * sizeof(*learned->buckets);
	*learnedp = learned;
	return 0;
}

/* ---- registries with a name --------------------------------------------- */

/* Taken before a registry's own lock. */
static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wn__learned *named;

/* Hold it, unless the last one to hold it has just let go. What it has already it keeps, also
 * if the budget is now a smaller one. */
static bool try_hold(struct wn__learned *learned, size_t budget)
{
	bool alive;

	pthread_mutex_lock(&learned->lock);
	alive = learned->users > 0;
	learned->users += alive;
	if (alive)
		learned->budget = budget ? budget : WN__LEARNED_BUDGET;
	pthread_mutex_unlock(&learned->lock);
	return alive;
}

static struct wn__learned *find_named(const char *name, size_t budget)
{
	struct wn__learned *learned = named;

	while (learned && (strcmp(learned->name, name) != 0 || !try_hold(learned, budget)))
		learned = learned->next_named;
	return learned;
}

/* With its name, or not at all. */
static int create_named(const char *name, size_t budget, struct wn__learned **learnedp)
{
	int err = wn__learned_create(budget, learnedp);

	if (err)
		return err;
	(*learnedp)->name = wn__alloc(strlen(name) + 1);
	if (!(*learnedp)->name) {
		wn__learned_destroy(*learnedp);
		*learnedp = NULL;
		return ENOMEM;
	}
	strcpy((*learnedp)->name, name);
	(*learnedp)->next_named = named;
	named = *learnedp;
	return 0;
}

int wn__learned_open(const char *name, size_t budget, struct wn__learned **learnedp)
{
	int err = 0;

	pthread_mutex_lock(&named_lock);
	*learnedp = find_named(name, budget);
	if (!*learnedp)
		err = create_named(name, budget, learnedp);
	pthread_mutex_unlock(&named_lock);
	return err;
}

/* Nobody holds it; who finds it in the list will not touch it after this. */
static void leave_name(struct wn__learned *learned)
{
	struct wn__learned **at = &named;

	if (!learned->name)
		return;
	pthread_mutex_lock(&named_lock);
	while (*at != learned)
		at = &(*at)->next_named;
	*at = learned->next_named;
	pthread_mutex_unlock(&named_lock);
	free(learned->name);
}

/* ---- the end ------------------------------------------------------------ */

static void free_learned(struct wn__learned *learned)
{
	leave_name(learned);
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

struct wn__learned *wn__learned_hold(struct wn__learned *learned)
{
	pthread_mutex_lock(&learned->lock);
	learned->users++;
	pthread_mutex_unlock(&learned->lock);
	return learned;
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
		err = new_lessons(learned, id, shape, &lessons);
	if (err)
		learned->stats.refused_readers++;
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

#define FIRST_CHANGES 32

static bool make_room_for_changes(struct wn__learned *learned, size_t room)
{
	size_t size = room * sizeof(struct wn__change);
	struct wn__change *changes;

	/* For a moment there are both. */
	if (room > WN__LEARNED_MAX_CHANGES || size > learned->budget / CHANGES_SHARE ||
	    !fits(learned, size, 0))
		return false;
	changes = wn__realloc(learned->changes, size);
	if (!changes)
		return false;
	learned->stats.bytes += size - learned->change_room * sizeof(*changes);
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

void wn__learned_untrack(struct wn__learned *learned)
{
	pthread_mutex_lock(&learned->lock);
	free(learned->changes);
	learned->changes = NULL;
	learned->stats.bytes -= learned->change_room * sizeof(*learned->changes);
	learned->change_count = learned->change_room = 0;
	learned->stats.changes = 0;
	learned->tracked = learned->changes_lost = false;
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
