/* registry.c - the registry of what filters learned: ids, the pool of pages, the budget. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/ids.h"
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
	return afford(registry, size, 0);
}

/* ---- objects ------------------------------------------------------------ */

static struct wn__lessons **bucket_of(const struct wn__registry *registry, const unsigned char *id)
{
	return &registry->buckets[wn__id_hash(id) & (registry->bucket_count - 1)];
}

struct wn__lessons *wn__registry_find(const struct wn__registry *registry, const unsigned char *id)
{
	struct wn__lessons *lessons = *bucket_of(registry, id);

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
	if (lessons->linked && lessons->count)
		ring_append(&lessons->registry->coldest, &lessons->warmth);
}

void wn__registry_cool(struct wn__lessons *lessons)
{
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
	page->next = registry->pool;
	registry->pool = page;
	registry->pool_count++;
}

/* ---- the registry ------------------------------------------------------- */

int wn__registry_create(size_t budget, struct wn__registry **learnedp)
{
	struct wn__registry *registry = wn__calloc(1, sizeof(*registry));

	*learnedp = NULL;
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
	*learnedp = registry;
	return 0;
}

/* ---- registries with a name --------------------------------------------- */

/* Taken before a registry's own lock. */
static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wn__registry *named;

/* Hold it, unless the last one to hold it has just let go. What it has already it keeps, also
 * if the budget is now a smaller one. */
static bool try_hold(struct wn__registry *registry, size_t budget)
{
	bool alive;

	pthread_mutex_lock(&registry->lock);
	alive = registry->users > 0;
	registry->users += alive;
	if (alive)
		registry->budget = budget ? budget : WN__REGISTRY_BUDGET;
	pthread_mutex_unlock(&registry->lock);
	return alive;
}

static struct wn__registry *find_named(const char *name, size_t budget)
{
	struct wn__registry *registry = named;

	while (registry && (strcmp(registry->name, name) != 0 || !try_hold(registry, budget)))
		registry = registry->next_named;
	return registry;
}

/* With its name, or not at all. */
static int create_named(const char *name, size_t budget, struct wn__registry **learnedp)
{
	int err = wn__registry_create(budget, learnedp);

	if (err)
		return err;
	(*learnedp)->name = wn__alloc(strlen(name) + 1);
	if (!(*learnedp)->name) {
		wn__registry_destroy(*learnedp);
		*learnedp = NULL;
		return ENOMEM;
	}
	strcpy((*learnedp)->name, name);
	(*learnedp)->next_named = named;
	named = *learnedp;
	return 0;
}

int wn__registry_open(const char *name, size_t budget, struct wn__registry **learnedp)
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
static void leave_name(struct wn__registry *registry)
{
	struct wn__registry **at = &named;

	if (!registry->name)
		return;
	pthread_mutex_lock(&named_lock);
	while (*at != registry)
		at = &(*at)->next_named;
	*at = registry->next_named;
	pthread_mutex_unlock(&named_lock);
	free(registry->name);
}

/* ---- the end ------------------------------------------------------------ */

static void free_learned(struct wn__registry *registry)
{
	leave_name(registry);
	for (size_t at = 0; at < registry->bucket_count; at++) {
		while (registry->buckets[at]) {
			struct wn__lessons *lessons = registry->buckets[at];

			unlink_lessons(lessons);
			free_lessons(lessons);
		}
	}
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

	pthread_mutex_unlock(&registry->lock);
	if (last)
		free_learned(registry);
}

struct wn__registry *wn__registry_hold(struct wn__registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	registry->users++;
	pthread_mutex_unlock(&registry->lock);
	return registry;
}

void wn__registry_destroy(struct wn__registry *registry)
{
	if (!registry)
		return;
	pthread_mutex_lock(&registry->lock);
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
	pthread_mutex_lock(&registry->lock);
	lessons = wn__registry_find(registry, id);
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
	pthread_mutex_unlock(&registry->lock);
	return err;
}

void wn__lessons_release(struct wn__lessons *lessons)
{
	struct wn__registry *registry;

	if (!lessons)
		return;
	registry = lessons->registry;
	pthread_mutex_lock(&registry->lock);
	if (--lessons->refs == 0)
		settle(lessons);
	leave(registry);
}

void wn__lessons_touch(struct wn__lessons *lessons)
{
	if (!lessons || pthread_mutex_trylock(&lessons->registry->lock) != 0)
		return;
	wn__registry_warm(lessons);
	pthread_mutex_unlock(&lessons->registry->lock);
}

void wn__registry_forget(struct wn__registry *registry, const unsigned char *id)
{
	struct wn__lessons *lessons;

	pthread_mutex_lock(&registry->lock);
	lessons = wn__registry_find(registry, id);
	if (lessons) {
		unlink_lessons(lessons);
		if (lessons->refs == 0)
			free_lessons(lessons);
	}
	pthread_mutex_unlock(&registry->lock);
}

void wn__registry_describe(struct wn__registry *registry, struct wn__registry_stats *statsp)
{
	pthread_mutex_lock(&registry->lock);
	*statsp = registry->stats;
	pthread_mutex_unlock(&registry->lock);
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
	pthread_mutex_lock(&registry->lock);
	registry->tracked = true;
	pthread_mutex_unlock(&registry->lock);
}

void wn__registry_untrack(struct wn__registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	free(registry->changes);
	registry->changes = NULL;
	registry->stats.bytes -= registry->change_room * sizeof(*registry->changes);
	registry->change_count = registry->change_room = 0;
	registry->stats.changes = 0;
	registry->tracked = registry->changes_lost = false;
	pthread_mutex_unlock(&registry->lock);
}

void wn__registry_changed(struct wn__lessons *lessons, uint64_t minirun, uint64_t word)
{
	struct wn__registry *registry = lessons->registry;
	struct wn__change *change;

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

	pthread_mutex_lock(&registry->lock);
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
	pthread_mutex_unlock(&registry->lock);
	return forgotten;
}
