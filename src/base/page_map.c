/* page_map.c - see page_map.h. */
#include <pthread.h>
#include <stdlib.h>

#include "alloc.h"
#include "lock.h"
#include "page_map.h"

struct wn__page_leaf *wn__page_root[1 << WN__PAGE_ROOT_BITS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of making leaves */

/* The leaf of the page, made if need be. */
static struct wn__page_leaf *get_leaf(uintptr_t page)
{
	struct wn__page_leaf **place, *leaf;

	if (page >> (WN__PAGE_LEAF_BITS + WN__PAGE_ROOT_BITS) != 0)
		return NULL;
	place = &wn__page_root[page >> WN__PAGE_LEAF_BITS];
	wn__lock(&lock, WN__LOCK_LAST);
	leaf = *place;
	if (!leaf) {
		leaf = wn__calloc(1, sizeof(*leaf));
		__atomic_store_n(place, leaf, __ATOMIC_RELEASE);
	}
	wn__unlock(&lock);
	return leaf;
}

static bool set_owner(const void *memory, size_t pages, void *owner)
{
	uintptr_t first = (uintptr_t)memory >> WN__PAGE_BITS;

	for (uintptr_t page = first; page < first + pages; page++) {
		struct wn__page_leaf *leaf = get_leaf(page);

		if (!leaf)
			return false;
		__atomic_store_n(&leaf->owners[page & ((1 << WN__PAGE_LEAF_BITS) - 1)], owner,
				 __ATOMIC_RELEASE);
	}
	return true;
}

static size_t count_pages(size_t size)
{
	return (size + WN__OWNED_PAGE - 1) >> WN__PAGE_BITS;
}

void *wn__owned_alloc(size_t size, void *owner)
{
	size_t pages = count_pages(size);
	void *memory = wn__alloc_aligned(WN__OWNED_PAGE, pages << WN__PAGE_BITS);

	if (memory && !set_owner(memory, pages, owner)) {
		wn__owned_free(memory, size);
		return NULL;
	}
	return memory;
}

void wn__owned_free(void *memory, size_t size)
{
	if (!memory)
		return;
	/* Fails only where no owner was noted. */
	set_owner(memory, count_pages(size), NULL);
	free(memory);
}
