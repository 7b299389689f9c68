/* registry.c - the registry of what filters learned: ids, the pool of pages, the budget. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/lock.h"
#include "lessons_internal.h"

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
static bool fits(const struct wn__registry *registry, size_t size, size_t kept)
{
	if (!registry->slabs)
		kept += sizeof(struct wn__slab);
	return registry->stats.bytes + size + kept <= registry->budget;
}

/* The coldest that nobody reads; NULL: none nearby. Only these give memory back, the others
 * give pages. */
static struct wn__lessons *find_unread(struct wn__registry *registry)
{
	struct wn__link *link = registry->coldest.next;

	for (unsigned looks = 0; looks < MAX_LOOKS && link != &registry->coldest; looks++) {
		struct wn__lessons *lessons = WN__LESSONS_OF(link, warmth);

		if (lessons->refs == 0)
			return lessons;
		link = link->next;
	}
	return NULL;
}

static bool afford(struct wn__registry *registry, size_t size, size_t kept)
{
	while (!fits(registry, size, kept)) {
		struct wn__lessons *unread = find_unread(registry);

		if (!unread)
			return false;
		wn__registry_drop(unread);
	}
	return true;
}

bool wn__registry_afford(struct wn__registry *registry, size_t size)
{
	wn__assert_locked(&registry->lock);
	return afford(registry, size, 0);
}

/* ---- objects ------------------------------------------------------------ */

static struct wn__lessons **bucket_of(const struct wn__registry *registry, const unsigned char *id)
{
	return &registry->buckets[wn__id_hash(id) & (registry->bucket_count - 1)];
}

static struct wn__lessons *find_lessons(const struct wn__registry *registry,
					const unsigned char *id)
{
	struct wn__lessons *lessons = *bucket_of(registry, id);

	wn__assert_locked(&registry->lock);
	while (lessons && memcmp(lessons->id, id, WN_BLOCK_ID_SIZE) != 0)
		lessons = lessons->chain;
	return lessons;
}

static void link_lessons(struct wn__lessons *lessons)
{
	struct wn__lessons **bucket = bucket_of(lessons->registry, lessons->id);

	lessons->chain = *bucket;
	*bucket = lessons;
}

/* If there is no memory, chains become longer. */
static void grow_buckets(struct wn__registry *registry)
{
	size_t old_count = registry->bucket_count;
	struct wn__lessons **old = registry->buckets, *lessons, *next;
	struct wn__lessons **new = NULL;

	/* For a moment there are both. */
	if (fits(registry, 2 * old_count * sizeof(*new), registry->budget / READERS_SHARE))
		new = wn__calloc(2 * old_count, sizeof(*new));
	if (!new)
		return;
	registry->buckets = new;
	registry->bucket_count = 2 * old_count;
	registry->stats.bytes += old_count * sizeof(*new);
	for (size_t at = 0; at < old_count; at++) {
		for (lessons = old[at]; lessons; lessons = next) {
			next = lessons->chain;
			link_lessons(lessons);
		}
	}
	free(old);
}

static int new_lessons(struct wn__registry *registry, const unsigned char *id,
		       struct wn__shape shape, struct wn__lessons **lessonsp)
{
	struct wn__lessons *lessons;

	wn__assert_locked(&registry->lock);
	if (registry->budget < WN__REGISTRY_MIN_BUDGET ||
	    !afford(registry, sizeof(*lessons), registry->budget / READERS_SHARE))
		return WN_ERR_FULL;
	lessons = wn__calloc(1, sizeof(*lessons));
	if (!lessons)
		return ENOMEM;
	lessons->serial = ++registry->last_serial;
	lessons->shape = shape;
	memcpy(lessons->id, id, WN_BLOCK_ID_SIZE);
	lessons->registry = registry;
	lessons->linked = true;
	registry->stats.bytes += sizeof(*lessons);
	if (++registry->object_count > registry->bucket_count)
		grow_buckets(registry);
	link_lessons(lessons);
	*lessonsp = lessons;
	return 0;
}

static void unlink_lessons(struct wn__lessons *lessons)
{
	struct wn__registry *registry = lessons->registry;
	struct wn__lessons **at = bucket_of(registry, lessons->id);

	wn__assert_locked(&registry->lock);
	wn__assert(lessons->linked);
	while (*at != lessons)
		at = &(*at)->chain;
	*at = lessons->chain;
	registry->object_count--;
	if (lessons->count) {
		registry->stats.filters--;
		registry->stats.lessons -= lessons->count;
	}
	ring_remove(&lessons->warmth);
	lessons->linked = false;
}

/* Nobody holds it and nobody can find it. */
static void free_lessons(struct wn__lessons *lessons)
{
	wn__assert_locked(&lessons->registry->lock);
	wn__assert(!lessons->linked && lessons->refs == 0);
	wn__lessons_clear(lessons);
	wn__lessons_free_directories(lessons);
	lessons->registry->stats.bytes -= sizeof(*lessons);
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

void wn__registry_warm(struct wn__lessons *lessons)
{
	wn__assert_locked(&lessons->registry->lock);
	if (lessons->linked && lessons->count)
		ring_append(&lessons->registry->coldest, &lessons->warmth);
}

void wn__registry_cool(struct wn__lessons *lessons)
{
	wn__assert_locked(&lessons->registry->lock);
	ring_remove(&lessons->warmth);
}

/* ---- pages -------------------------------------------------------------- */

static int add_slab(struct wn__registry *registry)
{
	struct wn__slab *slab = wn__alloc_large(sizeof(*slab));

	if (!slab)
		return ENOMEM;
	slab->next = registry->slabs;
	registry->slabs = slab;
	registry->stats.bytes += sizeof(*slab);
	for (unsigned at = 0; at < SLAB_PAGES; at++) {
		slab->pages[at].version = 0;
		slab->pages[at].owner = 0;
		wn__registry_return_page(registry, &slab->pages[at]);
	}
	return 0;
}

void wn__registry_drop(struct wn__lessons *lessons)
{
	wn__assert_locked(&lessons->registry->lock);
	lessons->registry->stats.dropped_filters++;
	lessons->registry->stats.dropped_lessons += lessons->count;
	wn__lessons_clear(lessons);
	if (lessons->refs == 0)
		settle(lessons);
}

static int drop_coldest(struct wn__registry *registry)
{
	struct wn__lessons *lessons = WN__LESSONS_OF(registry->coldest.next, warmth);

	if (registry->coldest.next == &registry->coldest)
		return WN_ERR_FULL;
	wn__registry_drop(lessons);
	return 0;
}

/* The first one always; then an eighth is left for what is not pages. */
static bool may_add_slab(const struct wn__registry *registry)
{
	size_t kept = registry->slabs ? registry->budget / OTHERS_SHARE : 0;

	return registry->stats.bytes + sizeof(struct wn__slab) + kept <= registry->budget;
}

int wn__registry_reserve(struct wn__registry *registry, size_t count)
{
	int err = 0;

	wn__assert_locked(&registry->lock);
	while (!err && registry->pool_count < count) {
		if (may_add_slab(registry))
			err = add_slab(registry);
		else
			err = drop_coldest(registry);
	}
	return err;
}

struct wn__page *wn__registry_take_page(struct wn__lessons *lessons, uint32_t depth)
{
	struct wn__registry *registry = lessons->registry;
	struct wn__page *page = registry->pool;
	uint64_t version = page->version;

	wn__assert_locked(&registry->lock);
	wn__assert(registry->pool_count > 0 && version % 2 == 0);
	registry->pool = page->next;
	registry->pool_count--;
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

void wn__registry_return_page(struct wn__registry *registry, struct wn__page *page)
{
	wn__assert_locked(&registry->lock);
	page->next = registry->pool;
	registry->pool = page;
	registry->pool_count++;
}

/* ---- the registry ------------------------------------------------------- */

int wn__registry_create(size_t budget, struct wn__registry **registryp)
{
	struct wn__registry *registry = wn__calloc(1, sizeof(*registry));

	*registryp = NULL;
	if (!registry)
		return ENOMEM;
	registry->buckets = wn__calloc(FIRST_BUCKETS, sizeof(*registry->buckets));
	if (!registry->buckets || pthread_mutex_init(&registry->lock, NULL) != 0) {
		free(registry->buckets);
		free(registry);
		return ENOMEM;
	}
	registry->bucket_count = FIRST_BUCKETS;
	registry->budget = budget ? budget : WN__REGISTRY_BUDGET;
	registry->users = 1;
	ring_init(&registry->coldest);
	/* One that never learns anything has less than a kilobyte, and is not worth telling. */
	if (registry->budget >= WN__REGISTRY_MIN_BUDGET)
		registry->stats.bytes =
			sizeof(*registry) + FIRST_BUCKETS * sizeof(*registry->buckets);
	*registryp = registry;
	return 0;
}

/* ---- the end ------------------------------------------------------------ */

static void free_registry(struct wn__registry *registry)
{
	wn__registry_leave_name(registry);
	/* Nobody else is there; what it calls wants the lock. */
	wn__lock(&registry->lock, WN__LOCK_LAST);
	for (size_t at = 0; at < registry->bucket_count; at++) {
		while (registry->buckets[at]) {
			struct wn__lessons *lessons = registry->buckets[at];

			unlink_lessons(lessons);
			free_lessons(lessons);
		}
	}
	wn__unlock(&registry->lock);
	while (registry->slabs) {
		struct wn__slab *slab = registry->slabs;

		registry->slabs = slab->next;
		free(slab);
	}
	pthread_mutex_destroy(&registry->lock);
	free(registry->changes);
	free(registry->buckets);
	free(registry);
}

/* Unlocks. */
static void leave(struct wn__registry *registry)
{
	bool last = --registry->users == 0;

	wn__assert_locked(&registry->lock);
	wn__unlock(&registry->lock);
	if (last)
		free_registry(registry);
}

struct wn__registry *wn__registry_hold(struct wn__registry *registry)
{
	wn__lock(&registry->lock, WN__LOCK_LAST);
	registry->users++;
	wn__unlock(&registry->lock);
	return registry;
}

void wn__registry_destroy(struct wn__registry *registry)
{
	if (!registry)
		return;
	wn__lock(&registry->lock, WN__LOCK_LAST);
	leave(registry);
}

static bool is_same_shape(struct wn__shape a, struct wn__shape b)
{
	return a.slots == b.slots && a.remainder_bits == b.remainder_bits;
}

int wn__registry_acquire(struct wn__registry *registry, const unsigned char *id,
			struct wn__shape shape, struct wn__lessons **lessonsp)
{
	struct wn__lessons *lessons;
	int err = 0;

	*lessonsp = NULL;
	wn__lock(&registry->lock, WN__LOCK_LAST);
	lessons = find_lessons(registry, id);
	if (!lessons)
		err = new_lessons(registry, id, shape, &lessons);
	if (err)
		registry->stats.refused_readers++;
	else if (!is_same_shape(lessons->shape, shape))
		err = WN_ERR_MISMATCH;
	if (!err) {
		lessons->refs++;
		registry->users++;
		wn__registry_warm(lessons);
		*lessonsp = lessons;
	}
	wn__unlock(&registry->lock);
	return err;
}

void wn__lessons_release(struct wn__lessons *lessons)
{
	struct wn__registry *registry;

	if (!lessons)
		return;
	registry = lessons->registry;
	wn__lock(&registry->lock, WN__LOCK_LAST);
	if (--lessons->refs == 0)
		settle(lessons);
	leave(registry);
}

void wn__registry_forget(struct wn__registry *registry, const unsigned char *id)
{
	struct wn__lessons *lessons;

	wn__lock(&registry->lock, WN__LOCK_LAST);
	lessons = find_lessons(registry, id);
	if (lessons) {
		unlink_lessons(lessons);
		if (lessons->refs == 0)
			free_lessons(lessons);
	}
	wn__unlock(&registry->lock);
}

void wn__registry_describe(struct wn__registry *registry, struct wn__registry_stats *statsp)
{
	wn__lock(&registry->lock, WN__LOCK_LAST);
	*statsp = registry->stats;
	wn__unlock(&registry->lock);
}

/* ---- what has changed --------------------------------------------------- */

#define FIRST_CHANGES 32

static bool make_room_for_changes(struct wn__registry *registry, size_t room)
{
	size_t size = room * sizeof(struct wn__change);
	struct wn__change *changes;

	/* For a moment there are both. */
	if (room > WN__REGISTRY_MAX_CHANGES || size > registry->budget / CHANGES_SHARE ||
	    !fits(registry, size, 0))
		return false;
	changes = wn__realloc(registry->changes, size);
	if (!changes)
		return false;
	registry->stats.bytes += size - registry->change_room * sizeof(*changes);
	registry->changes = changes;
	registry->change_room = room;
	return true;
}

void wn__registry_track(struct wn__registry *registry)
{
	wn__lock(&registry->lock, WN__LOCK_LAST);
	registry->tracked = true;
	wn__unlock(&registry->lock);
}

void wn__registry_untrack(struct wn__registry *registry)
{
	wn__lock(&registry->lock, WN__LOCK_LAST);
	free(registry->changes);
	registry->changes = NULL;
	registry->stats.bytes -= registry->change_room * sizeof(*registry->changes);
	registry->change_count = registry->change_room = 0;
	registry->stats.changes = 0;
	registry->tracked = registry->changes_lost = false;
	wn__unlock(&registry->lock);
}

void wn__registry_changed(struct wn__lessons *lessons, uint64_t minirun, uint64_t word)
{
	struct wn__registry *registry = lessons->registry;
	struct wn__change *change;

	wn__assert_locked(&registry->lock);
	if (!registry->tracked || registry->changes_lost)
		return;
	if (registry->change_count == registry->change_room &&
	    !make_room_for_changes(registry, registry->change_room ? 2 * registry->change_room :
								   FIRST_CHANGES)) {
		registry->changes_lost = true;
		registry->change_count = registry->stats.changes = 0;
		return;
	}
	change = &registry->changes[registry->change_count++];
	memcpy(change->id, lessons->id, sizeof(change->id));
	change->shape = lessons->shape;
	change->lesson = (struct wn__lesson){minirun, word};
	registry->stats.changes++;
}

/* ---- what is gone ------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, WN_BLOCK_ID_SIZE);
}

size_t wn__registry_retain(struct wn__registry *registry,
			  const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count)
{
	size_t forgotten = 0;

	wn__lock(&registry->lock, WN__LOCK_LAST);
	for (size_t at = 0; at < registry->bucket_count; at++) {
		struct wn__lessons *lessons = registry->buckets[at], *next;

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
	wn__unlock(&registry->lock);
	return forgotten;
}
