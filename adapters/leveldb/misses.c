/* misses.c - see misses.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r() */
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "misses.h"

#define CAPACITY ((size_t)131072)
#define MAX_KEY 1024
#define SKETCH_BITS 21
#define SKETCH_WORDS ((size_t)1 << (SKETCH_BITS - 6))
#define SKETCH_FULL 200000 /* about a tenth of the bits: one key in ten is taken for known */
#define TAG_BITS 18
#define TAGS ((size_t)1 << TAG_BITS)

struct wn__misses {
	const struct wn__shim *shim;
	/* ---- without the lock: losing a bit costs one more lookup ---- */
	atomic_uint_fast64_t *sketches[2]; /* seen once; the older one is only read */
	atomic_uint newer;
	atomic_size_t sketched;
	_Atomic(uint32_t) *tags; /* of keys that are kept */

	pthread_mutex_t lock;
	struct wn__miss **items; /* open addressing by the hash */
	size_t place_count, count, capacity, bytes;
	size_t hand;  /* of the clock */
	size_t fresh; /* came or went since the list was made */
	struct wn__miss_list *list;
};

int wn__miss_compare(const struct wn__misses *misses, const void *a, size_t a_size, const void *b,
		     size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order;

	if (misses->shim)
		return wn__shim_compare(misses->shim, a, a_size, b, b_size);
	order = memcmp(a, b, shorter);
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* ---- the table, under the lock ------------------------------------------ */

static struct wn__miss **find_place(struct wn__misses *misses, struct wn_hash hash)
{
	size_t mask = misses->place_count - 1;
	size_t at = (size_t)hash.lo & mask;

	while (misses->items[at] && wn_hash_compare(misses->items[at]->hash, hash) != 0)
		at = (at + 1) & mask;
	return &misses->items[at];
}

static void let_go(struct wn__misses *misses, struct wn__miss *miss)
{
	if (--miss->references)
		return;
	misses->bytes -= sizeof(*miss) + miss->size;
	free(miss);
}

static void take_out(struct wn__misses *misses, size_t hole)
{
	size_t mask = misses->place_count - 1, at = hole;

	let_go(misses, misses->items[hole]);
	misses->count--;
	misses->fresh++;
	for (;;) {
		size_t home;

		at = (at + 1) & mask;
		if (!misses->items[at])
			break;
		home = (size_t)misses->items[at]->hash.lo & mask;
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		misses->items[hole] = misses->items[at];
		hole = at;
	}
	misses->items[hole] = NULL;
}

static void drop_one(struct wn__misses *misses)
{
	for (size_t i = 0; i < 2 * misses->place_count + 1; i++) {
		struct wn__miss *miss = misses->items[misses->hand];

		if (miss && !miss->hot) {
			take_out(misses, misses->hand);
			return;
		}
		if (miss)
			miss->hot = false;
		misses->hand = (misses->hand + 1) & (misses->place_count - 1);
	}
}

static void keep(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size,
		 bool hot)
{
	struct wn__miss **place = find_place(misses, hash), *miss;

	if (*place) {
		(*place)->hot |= hot;
		return;
	}
	/* Many keys that come twice must not push each other out all the time. */
	if (misses->count >= misses->capacity && !hot && hash.hi % 8)
		return;
	miss = wn__alloc(sizeof(*miss) + size);
	if (!miss)
		return;
	if (misses->count >= misses->capacity)
		drop_one(misses);
	*miss = (struct wn__miss){.hash = hash, .references = 1, .size = (uint32_t)size, .hot = hot};
	memcpy(miss->key, key, size);
	*find_place(misses, hash) = miss;
	misses->count++;
	misses->fresh++;
	misses->bytes += sizeof(*miss) + size;
}

void wn__misses_add(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size)
{
	if (size > MAX_KEY)
		return;
	pthread_mutex_lock(&misses->lock);
	keep(misses, hash, key, size, true);
	pthread_mutex_unlock(&misses->lock);
}

/* ---- seen before? ------------------------------------------------------- */

static bool has_bit(const atomic_uint_fast64_t *sketch, uint64_t bit)
{
	return atomic_load_explicit(&sketch[bit / 64], memory_order_relaxed) >> bit % 64 & 1;
}

static void turn_sketches(struct wn__misses *misses, unsigned newer)
{
	/* One of those that come here at once does it. */
	if (!atomic_compare_exchange_strong(&misses->newer, &newer, 1 - newer))
		return;
	newer = 1 - newer;
	for (size_t i = 0; i < SKETCH_WORDS; i++)
		atomic_store_explicit(&misses->sketches[newer][i], 0, memory_order_relaxed);
	atomic_store_explicit(&misses->sketched, 0, memory_order_relaxed);
}

/* Was the hash seen of late? It is now. */
static bool see(struct wn__misses *misses, struct wn_hash hash)
{
	unsigned newer = atomic_load_explicit(&misses->newer, memory_order_relaxed);
	uint64_t bit = hash.hi >> (64 - SKETCH_BITS);

	if (has_bit(misses->sketches[newer], bit))
		return true;
	if (atomic_fetch_add_explicit(&misses->sketched, 1, memory_order_relaxed) >= SKETCH_FULL)
		turn_sketches(misses, newer);
	atomic_fetch_or_explicit(&misses->sketches[newer][bit / 64], UINT64_C(1) << bit % 64,
				 memory_order_relaxed);
	return has_bit(misses->sketches[1 - newer], bit);
}

void wn__misses_note(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size)
{
	_Atomic(uint32_t) *tag = &misses->tags[hash.hi & (TAGS - 1)];
	uint32_t own = (uint32_t)hash.lo | 1;

	if (!see(misses, hash) || size > MAX_KEY ||
	    atomic_load_explicit(tag, memory_order_relaxed) == own)
		return;
	pthread_mutex_lock(&misses->lock);
	keep(misses, hash, key, size, false);
	pthread_mutex_unlock(&misses->lock);
	atomic_store_explicit(tag, own, memory_order_relaxed);
}

/* ---- lists -------------------------------------------------------------- */

static int compare_items(const void *a, const void *b, void *misses)
{
	const struct wn__miss *left = *(struct wn__miss *const *)a;
	const struct wn__miss *right = *(struct wn__miss *const *)b;

	return wn__miss_compare(misses, left->key, left->size, right->key, right->size);
}

/* Under the lock. */
static struct wn__miss_list *copy_items(struct wn__misses *misses)
{
	struct wn__miss_list *list =
		wn__alloc(sizeof(*list) + misses->count * sizeof(list->items[0]));

	if (!list)
		return NULL;
	list->references = 1;
	list->count = 0;
	for (size_t i = 0; i < misses->place_count; i++) {
		if (!misses->items[i])
			continue;
		misses->items[i]->references++;
		list->items[list->count++] = misses->items[i];
	}
	misses->fresh = 0;
	return list;
}

/* Under the lock. */
static void release_list(struct wn__misses *misses, struct wn__miss_list *list)
{
	if (!list || --list->references)
		return;
	for (size_t i = 0; i < list->count; i++)
		let_go(misses, list->items[i]);
	free(list);
}

/* Sorting is not done under the lock; two who do it at once both have a good list. */
struct wn__miss_list *wn__misses_list(struct wn__misses *misses, bool exact)
{
	struct wn__miss_list *list = NULL;

	pthread_mutex_lock(&misses->lock);
	if (misses->fresh > (exact ? 0 : misses->count / 16)) {
		list = copy_items(misses);
		pthread_mutex_unlock(&misses->lock);
		if (list)
			qsort_r(list->items, list->count, sizeof(list->items[0]), compare_items,
				misses);
		pthread_mutex_lock(&misses->lock);
		if (list) {
			release_list(misses, misses->list);
			misses->list = list;
		}
	}
	list = misses->list;
	if (list)
		list->references++;
	pthread_mutex_unlock(&misses->lock);
	return list;
}

void wn__misses_release(struct wn__misses *misses, struct wn__miss_list *list)
{
	if (!list)
		return;
	pthread_mutex_lock(&misses->lock);
	release_list(misses, list);
	pthread_mutex_unlock(&misses->lock);
}

void wn__misses_each(struct wn__misses *misses, wn__miss_fn *each, void *arg)
{
	pthread_mutex_lock(&misses->lock);
	for (size_t i = 0; i < misses->place_count; i++)
		if (misses->items[i])
			each(arg, misses->items[i]->key, misses->items[i]->size);
	pthread_mutex_unlock(&misses->lock);
}

uint64_t wn__misses_bytes(struct wn__misses *misses)
{
	uint64_t bytes;

	pthread_mutex_lock(&misses->lock);
	bytes = misses->bytes + misses->place_count * sizeof(misses->items[0]) +
		2 * SKETCH_WORDS * sizeof(uint64_t) + TAGS * sizeof(uint32_t);
	pthread_mutex_unlock(&misses->lock);
	return bytes;
}

/* ---- life --------------------------------------------------------------- */

int wn__misses_create(size_t capacity, const struct wn__shim *shim, struct wn__misses **missesp)
{
	struct wn__misses *misses = wn__calloc(1, sizeof(*misses));

	*missesp = NULL;
	if (!misses)
		return ENOMEM;
	misses->shim = shim;
	misses->capacity = capacity ? capacity : CAPACITY;
	misses->place_count = 16;
	while (misses->place_count < misses->capacity / 5 * 8 + 8)
		misses->place_count *= 2;
	misses->items = wn__calloc(misses->place_count, sizeof(misses->items[0]));
	misses->tags = wn__calloc(TAGS, sizeof(misses->tags[0]));
	for (int i = 0; i < 2; i++)
		misses->sketches[i] = wn__calloc(SKETCH_WORDS, sizeof(uint64_t));
	pthread_mutex_init(&misses->lock, NULL);
	if (!misses->items || !misses->tags || !misses->sketches[0] || !misses->sketches[1]) {
		wn__misses_destroy(misses);
		return ENOMEM;
	}
	*missesp = misses;
	return 0;
}

void wn__misses_destroy(struct wn__misses *misses)
{
	if (!misses)
		return;
	release_list(misses, misses->list);
	for (size_t i = 0; misses->items && i < misses->place_count; i++)
		if (misses->items[i])
			let_go(misses, misses->items[i]);
	for (int i = 0; i < 2; i++)
		free(misses->sketches[i]);
	free(misses->tags);
	free(misses->items);
	pthread_mutex_destroy(&misses->lock);
	free(misses);
}
