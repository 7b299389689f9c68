/* memory.c - key lists in memory: each is the image of its pages, in one piece.
 *
 * A key list is shared: whoever reads it holds a reference, and a drop or a replacement
 * only takes it out of the list. So the lock is held to find a key list, never to read
 * one, and a visitor may call back into the store. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "pages.h"

struct image {
	struct wn__keylist_header header;
	unsigned refs; /* the list's is one of them */
	unsigned char pages[];
};

struct memory_store {
	struct wn__map base;
	pthread_mutex_t lock;
	struct image **images; /* in the order of their ids */
	size_t count;
	size_t capacity;
};

static struct memory_store *to_memory(struct wn__map *map)
{
	return (struct memory_store *)map;
}

static void release(struct image *image)
{
	if (image && __atomic_sub_fetch(&image->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(image);
}

/* ---- the list; under the lock ------------------------------------------- */

/* Where the id is, or would go. */
static size_t find_place(const struct memory_store *memory, const unsigned char *id, bool *foundp)
{
	size_t low = 0, high = memory->count;

	wn__assert_locked(&memory->lock);
	*foundp = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(memory->images[middle]->header.list.id, id, WN_BLOCK_ID_SIZE);

		if (order == 0) {
			*foundp = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void account(struct memory_store *memory, const struct image *image, uint64_t sign)
{
	wn__map_count(&memory->base.stats.lists, sign);
	wn__map_count(&memory->base.stats.bytes, sign * wn__keylist_size(&image->header));
}

static int reserve_place(struct memory_store *memory)
{
	size_t capacity = memory->capacity ? memory->capacity * 2 : 16;
	struct image **images;

	if (memory->count < memory->capacity)
		return 0;
	images = wn__realloc(memory->images, capacity * sizeof(struct image *));
	if (!images)
		return ENOMEM;
	memory->images = images;
	memory->capacity = capacity;
	return 0;
}

/* *oldp becomes what was there; the list's reference to it is the caller's. */
static int insert_image(struct memory_store *memory, struct image *image, struct image **oldp)
{
	struct image **at;
	bool found;
	size_t place = find_place(memory, image->header.list.id, &found);
	int err = found ? 0 : reserve_place(memory);

	wn__assert_locked(&memory->lock);
	*oldp = NULL;
	if (err)
		return err;
	at = memory->images + place;
	if (found) {
		*oldp = *at;
		account(memory, *at, UINT64_MAX);
	} else {
		memmove(at + 1, at, (memory->count - place) * sizeof(*at));
		memory->count++;
	}
	*at = image;
	account(memory, image, 1);
	return 0;
}

static struct image *take_out(struct memory_store *memory, const unsigned char *id)
{
	struct image *image;
	bool found;
	size_t place = find_place(memory, id, &found);
	struct image **at = memory->images + place;

	wn__assert_locked(&memory->lock);
	if (!found)
		return NULL;
	image = *at;
	memory->count--;
	memmove(at, at + 1, (memory->count - place) * sizeof(*at));
	account(memory, image, UINT64_MAX);
	return image;
}

/* ---- the store's functions ---------------------------------------------- */

static int memory_put(struct wn__map *map, const struct wn__keylist *list,
		      const uint64_t *uppers)
{
	struct memory_store *memory = to_memory(map);
	struct wn__keylist_header header;
	struct image *image, *old;
	uint64_t page, count;
	int err;

	wn__keylist_header_init(&header, list);
	image = wn__alloc(sizeof(*image) + (size_t)wn__keylist_size(&header));
	if (!image)
		return ENOMEM;
	image->header = header;
	image->refs = 1;
	count = wn__keylist_page_count(&header);
	for (page = 0; page < count; page++)
		wn__keylist_page_put(image->pages + page * WN__KEYLIST_PAGE_SIZE, &header, page,
				     uppers);
	wn__lock(&memory->lock, WN__LOCK_LAST);
	err = insert_image(memory, image, &old);
	wn__unlock(&memory->lock);
	release(err ? image : old);
	return err;
}

static struct image *acquire(struct memory_store *memory, const unsigned char *id)
{
	struct image *image = NULL;
	size_t place;
	bool found;

	wn__lock(&memory->lock, WN__LOCK_LAST);
	place = find_place(memory, id, &found);
	if (found) {
		image = memory->images[place];
		__atomic_add_fetch(&image->refs, 1, __ATOMIC_RELAXED);
	}
	wn__unlock(&memory->lock);
	return image;
}

static int bring_page(void *arg, const struct wn__keylist_header *header, uint64_t page,
		      unsigned char *buffer, const unsigned char **bytesp)
{
	const struct image *image = arg;

	(void)header;
	(void)buffer;
	*bytesp = image->pages + page * WN__KEYLIST_PAGE_SIZE;
	return 0;
}

static struct wn__keylist_pages pages_of(struct image *image)
{
	return (struct wn__keylist_pages){
		.header = image->header, .read = bring_page, .arg = image};
}

static int memory_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			 uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			 size_t *countp)
{
	struct image *image = acquire(to_memory(map), list->id);
	struct wn__keylist_pages pages;
	int err;

	if (!image)
		return WN_ERR_NOT_FOUND;
	pages = pages_of(image);
	err = wn__keylist_pages_lookup(&pages, list, minirun, rank, entries, max, countp);
	wn__map_count(&map->stats.reads, pages.reads);
	release(image);
	return err;
}

static int memory_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
			 void *arg)
{
	struct image *image = acquire(to_memory(map), id);
	struct wn__keylist_pages pages;
	int err;

	if (!image)
		return WN_ERR_NOT_FOUND;
	pages = pages_of(image);
	err = wn__keylist_pages_stream(&pages, fn, arg);
	wn__map_count(&map->stats.reads, pages.reads);
	release(image);
	return err;
}

static int memory_drop(struct wn__map *map, const unsigned char *id)
{
	struct memory_store *memory = to_memory(map);
	struct image *image;

	wn__lock(&memory->lock, WN__LOCK_LAST);
	image = take_out(memory, id);
	wn__unlock(&memory->lock);
	release(image);
	return image ? 0 : WN_ERR_NOT_FOUND;
}

static int memory_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp)
{
	struct memory_store *memory = to_memory(map);
	struct wn__keylist_info *infos;
	size_t count;

	wn__lock(&memory->lock, WN__LOCK_LAST);
	count = memory->count;
	infos = wn__calloc(count, sizeof(*infos));
	for (size_t i = 0; infos && i < count; i++)
		infos[i] = wn__keylist_header_info(&memory->images[i]->header);
	wn__unlock(&memory->lock);
	if (!infos)
		return ENOMEM;
	*infosp = infos;
	*countp = count;
	return 0;
}

static void memory_destroy(struct wn__map *map)
{
	struct memory_store *memory = to_memory(map);

	for (size_t i = 0; i < memory->count; i++)
		release(memory->images[i]);
	free(memory->images);
	pthread_mutex_destroy(&memory->lock);
	free(memory);
}

static const struct wn__map_ops memory_ops = {
	.put = memory_put,
	.lookup = memory_lookup,
	.stream = memory_stream,
	.drop = memory_drop,
	.list = memory_list,
	.destroy = memory_destroy,
};

int wn__map_memory_create(struct wn__map **mapp)
{
	struct memory_store *memory = wn__calloc(1, sizeof(*memory));

	*mapp = NULL;
	if (!memory)
		return ENOMEM;
	memory->base.ops = &memory_ops;
	pthread_mutex_init(&memory->lock, NULL);
	*mapp = &memory->base;
	return 0;
}
