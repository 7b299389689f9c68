/* misses.c - a ring of keys, and sorted copies of it; see misses.h.
 *
 * A thread takes a row of places at a time and fills them without asking anybody. A place that
 * is read while it is written gives bytes that nobody asked for, and the user's comparator must
 * not see them: they do not fit the hash, and are left out. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r() */
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "misses.h"
#include "base/secret.h"

#define CAPACITY ((size_t)131072)
#define ROW 64 /* places */
#define WORDS (sizeof(struct wn__miss) / sizeof(uint64_t))
/* A list is made again only after so many times what making it took. */
#define PATIENCE 4

_Static_assert(sizeof(struct wn__miss) == 64, "a place is a cache line");

struct place {
	atomic_uint_fast64_t words[WORDS];
};

struct wn__misses {
	const struct wn_secret *secret;
	const struct wn__shim *shim;
	uint64_t number; /* no two in a process have the same */
	size_t capacity; /* a power of two */
	struct place *places;
	void *memory; /* they lie in */
	atomic_uint_fast64_t next; /* row */

	pthread_mutex_t lock;
	struct wn__miss_list *list;
	uint64_t list_made, list_took; /* nanoseconds */
};

/* This thread's row. */
static _Thread_local struct {
	uint64_t number;
	size_t next, end;
} row __attribute__((tls_model("initial-exec")));

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

/* ---- noting ------------------------------------------------------------- */

static size_t next_place(struct wn__misses *misses)
{
	if (row.number != misses->number || row.next == row.end) {
		uint64_t first = ROW * atomic_fetch_add_explicit(&misses->next, 1,
								 memory_order_relaxed);

		row.number = misses->number;
		row.next = (size_t)first & (misses->capacity - 1);
		row.end = row.next + ROW;
	}
	return row.next++;
}

void wn__misses_note(struct wn__misses *misses, struct wn_hash hash, const char *key, size_t size)
{
	struct place *place;
	struct wn__miss miss;
	uint64_t words[WORDS];

	if (size > WN__MISS_KEY)
		return;
	place = &misses->places[next_place(misses)];
	miss.hash = hash;
	miss.size = (uint8_t)(size + 1); /* 0: an empty place */
	miss.times = 1;
	memcpy(miss.key, key, size);
	memset(miss.key + size, 0, WN__MISS_KEY - size);
	memcpy(words, &miss, sizeof(miss));
	for (size_t i = 0; i < WORDS; i++)
		atomic_store_explicit(&place->words[i], words[i], memory_order_relaxed);
	/* The next lookup's locks would wait for the line that it writes here. */
	__builtin_prefetch(place + 1, 1);
}

/* ---- lists -------------------------------------------------------------- */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static size_t copy_places(struct wn__misses *misses, struct wn__miss *items)
{
	size_t count = 0;

	for (size_t i = 0; i < misses->capacity; i++) {
		struct wn__miss *item = &items[count];
		uint64_t words[WORDS] = {0};

		for (size_t j = 0; j < WORDS; j++)
			words[j] = atomic_load_explicit(&misses->places[i].words[j],
							memory_order_relaxed);
		memcpy(item, words, sizeof(*item));
		if (item->size == 0 || item->size > WN__MISS_KEY + 1)
			continue;
		item->size--;
		if (wn_hash_compare(item->hash, wn__hash_key(misses->secret, item->key,
							     item->size)) == 0)
			count++;
	}
	return count;
}

/* Sorted by eight bytes behind what all have in common, where keys are in the order of their
 * bytes; mostly that is enough. */
struct sorted {
	uint64_t head;
	const struct wn__miss *item;
};

static size_t common_prefix(const struct wn__miss *items, size_t count)
{
	size_t common = count ? items[0].size : 0;

	for (size_t i = 1; i < count; i++) {
		size_t same = 0;

		while (same < common && same < items[i].size &&
		       items[i].key[same] == items[0].key[same])
			same++;
		common = same;
	}
	return common;
}

static uint64_t head_of(const struct wn__miss *item, size_t common)
{
	unsigned char bytes[8] = {0};
	size_t size = item->size - common;

	memcpy(bytes, item->key + common, size < 8 ? size : 8);
	return __builtin_bswap64(get_le64(bytes));
}

static int compare_sorted(const void *a, const void *b, void *misses)
{
	const struct sorted *left = a, *right = b;

	if (left->head != right->head)
		return left->head < right->head ? -1 : 1;
	return wn__miss_compare(misses, left->item->key, left->item->size, right->item->key,
				right->item->size);
}

static struct wn__miss_list *sort_items(struct wn__misses *misses, const struct wn__miss *items,
					size_t count)
{
	struct sorted *sorted = wn__alloc((count + 1) * sizeof(*sorted));
	struct wn__miss_list *list = wn__alloc(sizeof(*list) + count * sizeof(list->items[0]));
	size_t common = misses->shim ? 0 : common_prefix(items, count);

	if (!sorted || !list) {
		free(sorted);
		free(list);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct sorted){misses->shim ? 0 : head_of(&items[i], common),
					    &items[i]};
	qsort_r(sorted, count, sizeof(*sorted), compare_sorted, misses);
	list->references = 1;
	list->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || compare_sorted(&sorted[i - 1], &sorted[i], misses) != 0)
			list->items[list->count++] = *sorted[i].item;
		else if (list->items[list->count - 1].times < UINT8_MAX)
			list->items[list->count - 1].times++;
	}
	free(sorted);
	return list;
}

static struct wn__miss_list *make_list(struct wn__misses *misses)
{
	struct wn__miss *items = wn__alloc(misses->capacity * sizeof(*items));
	struct wn__miss_list *list =
		items ? sort_items(misses, items, copy_places(misses, items)) : NULL;

	free(items);
	return list;
}

/* Under the lock. */
static void release_list(struct wn__miss_list *list)
{
	if (list && --list->references == 0)
		free(list);
}

struct wn__miss_list *wn__misses_list(struct wn__misses *misses, bool exact)
{
	struct wn__miss_list *list;
	uint64_t start = now();

	pthread_mutex_lock(&misses->lock);
	if (exact || !misses->list ||
	    start - misses->list_made >= PATIENCE * misses->list_took) {
		list = make_list(misses);
		if (list) {
			release_list(misses->list);
			misses->list = list;
		}
		misses->list_made = now();
		misses->list_took = misses->list_made - start;
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
	release_list(list);
	pthread_mutex_unlock(&misses->lock);
}

uint64_t wn__misses_bytes(const struct wn__misses *misses)
{
	return sizeof(*misses) + misses->capacity * sizeof(struct place);
}

/* ---- life --------------------------------------------------------------- */

int wn__misses_create(size_t capacity, const struct wn_secret *secret,
		      const struct wn__shim *shim, struct wn__misses **missesp)
{
	static atomic_uint_fast64_t numbers;
	struct wn__misses *misses = wn__calloc(1, sizeof(*misses));

	*missesp = NULL;
	if (!misses)
		return ENOMEM;
	misses->secret = secret;
	misses->shim = shim;
	misses->number = 1 + atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed);
	misses->capacity = ROW;
	while (misses->capacity < (capacity ? capacity : CAPACITY))
		misses->capacity *= 2;
	/* One more, that is fetched and never used, and room to begin on a cache line. */
	misses->memory = wn__calloc(misses->capacity + 2, sizeof(*misses->places));
	misses->places = (struct place *)(((uintptr_t)misses->memory + 63) & ~(uintptr_t)63);
	pthread_mutex_init(&misses->lock, NULL);
	if (!misses->memory) {
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
	release_list(misses->list);
	free(misses->memory);
	pthread_mutex_destroy(&misses->lock);
	free(misses);
}
