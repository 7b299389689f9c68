/* memory_map.c - see memory_map.h. */
#include "memory_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/bench_util.h"
#include "keyspace.h"

#define FIRST_SLOTS 1024

const char *map_entry_key(const struct map_entry *entry)
{
	return (const char *)&entry->next[entry->height];
}

static struct map_entry *create_entry(unsigned height, const void *key, size_t size)
{
	struct map_entry *entry = wn__calloc(1, sizeof(*entry) +
						height * sizeof(entry->next[0]) + size);

	if (!entry)
		return NULL;
	entry->height = height;
	entry->key_size = (uint32_t)size;
	if (size > 0)
		memcpy((char *)&entry->next[height], key, size);
	return entry;
}

int memory_map_init(struct memory_map *map)
{
	*map = (struct memory_map){ .state = 1, .head = create_entry(MAP_HEIGHT, NULL, 0),
				    .slots = wn__calloc(FIRST_SLOTS, sizeof(struct map_entry *)),
				    .mask = FIRST_SLOTS - 1 };
	if (map->head && map->slots)
		return 0;
	memory_map_fini(map);
	return ENOMEM;
}

void memory_map_fini(struct memory_map *map)
{
	struct map_entry *entry = map->head, *next;

	for (; entry; entry = next) {
		next = entry->next[0];
		free(entry->value);
		free(entry);
	}
	map->head = NULL;
	free(map->slots);
	map->slots = NULL;
}

static bool is_below(const struct map_entry *entry, const void *key, size_t size)
{
	const size_t common = entry->key_size < size ? entry->key_size : size;
	const int order = memcmp(map_entry_key(entry), key, common);

	return order < 0 || (order == 0 && entry->key_size < size);
}

/* The last entry below the key on each height. */
static struct map_entry *descend(const struct memory_map *map, const void *key, size_t size,
				 struct map_entry **beforep)
{
	struct map_entry *at = map->head;

	for (unsigned height = MAP_HEIGHT; height-- > 0;) {
		while (at->next[height] && is_below(at->next[height], key, size))
			at = at->next[height];
		if (beforep)
			beforep[height] = at;
	}
	return at->next[0];
}

struct map_entry *memory_map_seek(const struct memory_map *map, const void *key, size_t size)
{
	return descend(map, key, size, NULL);
}

static bool is_key(const struct map_entry *entry, const void *key, size_t size)
{
	return entry && entry->key_size == size && memcmp(map_entry_key(entry), key, size) == 0;
}

/* The key's slot, or the empty one where it would be. */
static struct map_entry **find_slot(struct map_entry **slots, size_t mask, const void *key,
				    size_t size)
{
	size_t at = (size_t)key_number(key, size) & mask;

	while (slots[at] && !is_key(slots[at], key, size))
		at = (at + 1) & mask;
	return &slots[at];
}

struct map_entry *memory_map_find(const struct memory_map *map, const void *key, size_t size)
{
	return *find_slot(map->slots, map->mask, key, size);
}

/* Room for one more, with half of the slots empty. */
static int grow_slots(struct memory_map *map)
{
	const size_t mask = 2 * map->mask + 1;
	struct map_entry **slots;

	if (2 * (map->count + 1) <= map->mask)
		return 0;
	slots = wn__calloc(mask + 1, sizeof(struct map_entry *));
	if (!slots)
		return ENOMEM;
	for (struct map_entry *entry = map->head->next[0]; entry; entry = entry->next[0])
		*find_slot(slots, mask, map_entry_key(entry), entry->key_size) = entry;
	free(map->slots);
	map->slots = slots;
	map->mask = mask;
	return 0;
}

/* A quarter of the entries of a height reach the next. */
static unsigned draw_height(struct memory_map *map)
{
	uint64_t bits = bench_random(&map->state);
	unsigned height = 1;

	for (; height < MAP_HEIGHT && (bits & 3) == 0; bits >>= 2)
		height++;
	return height;
}

static int set_value(struct memory_map *map, struct map_entry *entry, const void *value,
		     size_t size)
{
	if (size > entry->value_room) {
		char *larger = wn__realloc(entry->value, size);

		if (!larger)
			return ENOMEM;
		map->bytes += size - entry->value_room;
		entry->value = larger;
		entry->value_room = size;
	}
	if (size > 0)
		memcpy(entry->value, value, size);
	entry->value_size = size;
	return 0;
}

static int insert(struct memory_map *map, const void *key, size_t key_size, const void *value,
		  size_t value_size, struct map_entry **entryp)
{
	struct map_entry *before[MAP_HEIGHT], *entry;

	if (grow_slots(map))
		return ENOMEM;
	entry = create_entry(draw_height(map), key, key_size);
	if (!entry)
		return ENOMEM;
	if (set_value(map, entry, value, value_size)) {
		free(entry);
		return ENOMEM;
	}
	descend(map, key, key_size, before);
	for (unsigned height = 0; height < entry->height; height++) {
		entry->next[height] = before[height]->next[height];
		before[height]->next[height] = entry;
	}
	*find_slot(map->slots, map->mask, key, key_size) = entry;
	map->count++;
	map->bytes += sizeof(*entry) + key_size;
	*entryp = entry;
	return 0;
}

int memory_map_put(struct memory_map *map, const void *key, size_t key_size, const void *value,
		   size_t value_size, struct map_entry **entryp)
{
	struct map_entry *entry = memory_map_find(map, key, key_size);

	*entryp = NULL;
	if (!entry)
		return insert(map, key, key_size, value, value_size, entryp);
	*entryp = entry;
	return set_value(map, entry, value, value_size);
}
