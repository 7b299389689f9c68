/* ids.c - see ids.h. Linear probing; at most half of the places are taken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "ids.h"

#define MIN_ROOM 16

/* Where the id is, or the free place where it would go. There must be places. */
static size_t find_place(void *const *places, size_t room, const unsigned char *id)
{
	size_t place = wn__id_hash(id) & (room - 1);

	while (places[place] && memcmp(places[place], id, WN_BLOCK_ID_SIZE) != 0)
		place = (place + 1) & (room - 1);
	return place;
}

void *wn__ids_find(const struct wn__ids *ids, const unsigned char *id)
{
	return ids->room ? ids->places[find_place(ids->places, ids->room, id)] : NULL;
}

static int grow(struct wn__ids *ids)
{
	size_t room = ids->room ? 2 * ids->room : MIN_ROOM;
	void **places = wn__calloc(room, sizeof(*places));

	if (!places)
		return ENOMEM;
	for (size_t i = 0; i < ids->room; i++) {
		if (ids->places[i])
			places[find_place(places, room, ids->places[i])] = ids->places[i];
	}
	free(ids->places);
	ids->places = places;
	ids->room = room;
	return 0;
}

int wn__ids_add(struct wn__ids *ids, void *thing)
{
	int err = 2 * (ids->count + 1) > ids->room ? grow(ids) : 0;

	if (err)
		return err;
	ids->places[find_place(ids->places, ids->room, thing)] = thing;
	ids->count++;
	return 0;
}

/* Is the way from `home` to `place` over `hole`? All modulo the room. */
static bool passes(size_t home, size_t place, size_t hole, size_t mask)
{
	return ((hole - home) & mask) < ((place - home) & mask);
}

/* What stands behind the hole moves up if it would not be found otherwise. */
static void close_hole(struct wn__ids *ids, size_t hole)
{
	size_t mask = ids->room - 1;

	for (size_t place = (hole + 1) & mask; ids->places[place]; place = (place + 1) & mask) {
		size_t home = wn__id_hash(ids->places[place]) & mask;

		if (passes(home, place, hole, mask)) {
			ids->places[hole] = ids->places[place];
			hole = place;
		}
	}
	ids->places[hole] = NULL;
}

void *wn__ids_remove(struct wn__ids *ids, const unsigned char *id)
{
	size_t place = ids->room ? find_place(ids->places, ids->room, id) : 0;
	void *thing = ids->room ? ids->places[place] : NULL;

	if (thing) {
		close_hole(ids, place);
		ids->count--;
	}
	return thing;
}

void *wn__ids_next(const struct wn__ids *ids, size_t *placep)
{
	while (*placep < ids->room) {
		void *thing = ids->places[(*placep)++];

		if (thing)
			return thing;
	}
	return NULL;
}

void wn__ids_fini(struct wn__ids *ids)
{
	free(ids->places);
	*ids = (struct wn__ids){0};
}
