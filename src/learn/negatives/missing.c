/* missing.c - a ring of keys, and sorted copies of it; see missing.h.
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
#include "base/lock.h"
#include "base/secret.h"
#include "missing_internal.h"

#define CAPACITY ((size_t)131072)
#define ROW 64 /* places */
/* A list is made again only after so many times what making it took: where lookups go on all the
 * time, a compaction spends a twentieth of its time on lists. */
#define PATIENCE 19

/* The words of a place, of which the last has key, size and times. */
enum {
	HI_WORD = offsetof(struct wn__missing_key, hash.hi) / 8,
	LO_WORD = offsetof(struct wn__missing_key, hash.lo) / 8,
	KEY_WORD = offsetof(struct wn__missing_key, key) / 8,
	LAST_WORD = WN__MISSING_WORDS - 1
};

_Static_assert(offsetof(struct wn__missing_key, key) % 8 == 0, "keys begin with a word");
_Static_assert(offsetof(struct wn__missing_key, size) == 8 * LAST_WORD + 6 &&
		       offsetof(struct wn__missing_key, times) == 8 * LAST_WORD + 7,
	       "the last word");

/* This thread's row. */
static _Thread_local struct {
	uint64_t number;
	size_t next, end;
} row __attribute__((tls_model("initial-exec")));

int wn__missing_compare(const struct wn__missing *missing, const void *a, size_t a_size,
			const void *b, size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order;

	if (missing->compare)
		return missing->compare(missing->compare_arg, a, a_size, b, b_size);
	order = memcmp(a, b, shorter);
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* ---- noting ------------------------------------------------------------- */

static size_t next_place(struct wn__missing *missing)
{
	if (row.number != missing->number || row.next == row.end) {
		uint64_t first = ROW * atomic_fetch_add_explicit(&missing->next, 1,
								 memory_order_relaxed);

		row.number = missing->number;
		row.next = (size_t)first & (missing->capacity - 1);
		row.end = row.next + ROW;
	}
	return row.next++;
}

/* 1 to 7 bytes, as the first of a word's. */
static uint64_t load_rest(const unsigned char *at, size_t size)
{
	if (size >= 4)
		return get_le32(at) | (uint64_t)get_le32(at + size - 4) << 8 * (size - 4);
	return (uint64_t)at[0] | (uint64_t)at[size / 2] << 8 * (size / 2) |
	       (uint64_t)at[size - 1] << 8 * (size - 1);
}

static void put_word(struct wn__missing_place *place, size_t at, uint64_t little_endian)
{
	uint64_t word;

	put_le64(&word, little_endian);
	atomic_store_explicit(&place->words[at], word, memory_order_relaxed);
}

/* From register to ring: an item that is put together in memory, of bytes that are then read as
 * words, has each word wait for its bytes (132 instructions and a lookup's slowest part). What is
 * not the key's stays as it was. */
void wn__missing_note(struct wn__missing *missing, struct wn_hash hash, const void *key,
		      size_t size)
{
	const unsigned char *bytes = key;
	/* 0 is an empty place. */
	uint64_t last = (uint64_t)(size + 1) << 48 | UINT64_C(1) << 56, rest = 0;
	struct wn__missing_place *place;
	size_t at = KEY_WORD;

	if (size > WN__MISSING_MAX_SIZE)
		return;
	place = &missing->places[next_place(missing)];
	atomic_store_explicit(&place->words[HI_WORD], hash.hi, memory_order_relaxed);
	atomic_store_explicit(&place->words[LO_WORD], hash.lo, memory_order_relaxed);
	for (; size >= 8; size -= 8, bytes += 8)
		put_word(place, at++, get_le64(bytes));
	if (size)
		rest = load_rest(bytes, size);
	if (at == LAST_WORD)
		last |= rest;
	else if (size)
		put_word(place, at, rest);
	put_word(place, LAST_WORD, last);
	/* Mostly it is set, and nobody writes the line. */
	if (!atomic_load_explicit(&missing->changed, memory_order_relaxed))
		atomic_store_explicit(&missing->changed, true, memory_order_relaxed);
	/* The next lookup's locks would wait for the line that it writes here. */
	__builtin_prefetch(place + 1, 1);
}

/* Is it new among the last ones? Keys that are wrong all the time are saved once. */
static bool is_news(struct wn__missing *missing, struct wn_hash hash)
{
	atomic_uint_fast64_t *half = &missing->remembered[hash.lo % WN__MISSING_REMEMBERED];

	return atomic_exchange_explicit(half, hash.hi, memory_order_relaxed) != hash.hi;
}

void wn__missing_remember(struct wn__missing *missing, struct wn_hash hash, const void *key,
			  size_t size)
{
	if (size > WN__MISSING_MAX_SIZE || !is_news(missing, hash))
		return;
	wn__lock(&missing->lock, WN__LOCK_LAST);
	wn__missing_changed(missing, key, size);
	wn__unlock(&missing->lock);
}

/* ---- lists -------------------------------------------------------------- */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* How many places were ever given away. */
static size_t count_used(const struct wn__missing *missing)
{
	uint64_t rows = atomic_load_explicit(&missing->next, memory_order_relaxed);

	return rows < missing->capacity / ROW ? (size_t)rows * ROW : missing->capacity;
}

static size_t copy_places(const struct wn__missing *missing, size_t used,
			  struct wn__missing_key *items)
{
	size_t count = 0;

	for (size_t i = 0; i < used; i++) {
		struct wn__missing_key *item = &items[count];
		uint64_t words[WN__MISSING_WORDS] = {0};

		for (size_t j = 0; j < WN__MISSING_WORDS; j++)
			words[j] = atomic_load_explicit(&missing->places[i].words[j],
							memory_order_relaxed);
		memcpy(item, words, sizeof(*item));
		if (item->size == 0 || item->size > WN__MISSING_MAX_SIZE + 1)
			continue;
		item->size--;
		if (wn_hash_compare(item->hash, wn__hash_key(missing->secret, item->key,
							     item->size)) == 0)
			count++;
	}
	return count;
}

/* Sorted by eight bytes behind what all have in common, where keys are in the order of their
 * bytes; mostly that is enough. */
struct sorted {
	uint64_t head;
	const struct wn__missing_key *item;
};

static size_t common_prefix(const struct wn__missing_key *items, size_t count)
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

static uint64_t head_of(const struct wn__missing_key *item, size_t common)
{
	unsigned char bytes[8] = {0};
	size_t size = item->size - common;

	memcpy(bytes, item->key + common, size < 8 ? size : 8);
	return __builtin_bswap64(get_le64(bytes));
}

static int compare_sorted(const void *a, const void *b, void *missing)
{
	const struct sorted *left = a, *right = b;

	if (left->head != right->head)
		return left->head < right->head ? -1 : 1;
	return wn__missing_compare(missing, left->item->key, left->item->size, right->item->key,
				right->item->size);
}

static struct wn__missing_list *sort_items(struct wn__missing *missing,
					   const struct wn__missing_key *items, size_t count)
{
	struct sorted *sorted = wn__alloc((count + 1) * sizeof(*sorted));
	struct wn__missing_list *list = wn__alloc(sizeof(*list) + count * sizeof(list->items[0]));
	size_t common = missing->compare ? 0 : common_prefix(items, count);

	if (!sorted || !list) {
		free(sorted);
		free(list);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct sorted){missing->compare ? 0 : head_of(&items[i], common),
					    &items[i]};
	qsort_r(sorted, count, sizeof(*sorted), compare_sorted, missing);
	list->references = 1;
	list->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || compare_sorted(&sorted[i - 1], &sorted[i], missing) != 0)
			list->items[list->count++] = *sorted[i].item;
		else if (list->items[list->count - 1].times < UINT8_MAX)
			list->items[list->count - 1].times++;
	}
	free(sorted);
	return list;
}

static struct wn__missing_list *make_list(struct wn__missing *missing)
{
	size_t used = count_used(missing);
	struct wn__missing_key *items = wn__alloc(used * sizeof(*items));
	struct wn__missing_list *list =
		items ? sort_items(missing, items, copy_places(missing, used, items)) : NULL;

	wn__assert_locked(&missing->list_lock);
	free(items);
	return list;
}

/* Under the lock of lists. */
static void release_list(struct wn__missing_list *list)
{
	if (list && --list->references == 0)
		free(list);
}

/* Under the lock of lists. false: no memory; the last list stays. */
static bool renew_list(struct wn__missing *missing)
{
	uint64_t start = now();
	struct wn__missing_list *list;

	/* First. What is noted meanwhile may be in the list or not. */
	atomic_store(&missing->changed, false);
	list = make_list(missing);
	if (!list)
		atomic_store_explicit(&missing->changed, true, memory_order_relaxed);
	missing->list_made = now();
	missing->list_took = missing->list_made - start;
	if (!list)
		return false;
	release_list(missing->list);
	missing->list = list;
	return true;
}

struct wn__missing_list *wn__missing_list(struct wn__missing *missing, bool exact)
{
	struct wn__missing_list *list = NULL;
	bool old;

	wn__lock(&missing->list_lock, WN__LOCK_LISTS);
	/* Not from before the lock: another thread may have made it meanwhile. */
	old = exact || !missing->list ||
	      (atomic_load_explicit(&missing->changed, memory_order_relaxed) &&
	       now() >= missing->list_made + PATIENCE * missing->list_took);
	if (!old || renew_list(missing) || !exact)
		list = missing->list;
	if (list)
		list->references++;
	wn__unlock(&missing->list_lock);
	return list;
}

void wn__missing_release(struct wn__missing *missing, struct wn__missing_list *list)
{
	if (!list)
		return;
	wn__lock(&missing->list_lock, WN__LOCK_LISTS);
	release_list(list);
	wn__unlock(&missing->list_lock);
}

uint64_t wn__missing_bytes(const struct wn__missing *missing)
{
	return sizeof(*missing) + missing->capacity * sizeof(struct wn__missing_place);
}

/* ---- life --------------------------------------------------------------- */

int wn__missing_create(size_t capacity, const struct wn_secret *secret, wn__compare_fn *compare,
		       void *compare_arg, struct wn__missing **missingp)
{
	static atomic_uint_fast64_t numbers;
	struct wn__missing *missing = wn__calloc(1, sizeof(*missing));

	*missingp = NULL;
	if (!missing)
		return ENOMEM;
	missing->secret = secret;
	missing->compare = compare;
	missing->compare_arg = compare_arg;
	missing->number = 1 + atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed);
	missing->capacity = ROW;
	while (missing->capacity < (capacity ? capacity : CAPACITY))
		missing->capacity *= 2;
	/* One more, that is fetched and never used, and room to begin on a cache line. */
	missing->memory = wn__calloc(missing->capacity + 2, sizeof(*missing->places));
	missing->places = (struct wn__missing_place *)(((uintptr_t)missing->memory + 63) &
						       ~(uintptr_t)63);
	pthread_mutex_init(&missing->list_lock, NULL);
	pthread_mutex_init(&missing->lock, NULL);
	if (!missing->memory) {
		wn__missing_destroy(missing);
		return ENOMEM;
	}
	*missingp = missing;
	return 0;
}

void wn__missing_destroy(struct wn__missing *missing)
{
	if (!missing)
		return;
	release_list(missing->list);
	free(missing->changes);
	free(missing->memory);
	pthread_mutex_destroy(&missing->lock);
	pthread_mutex_destroy(&missing->list_lock);
	free(missing);
}
