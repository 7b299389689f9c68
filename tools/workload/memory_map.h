/* memory_map.h - an ordered map in memory: what stands for the disk in winnow-bench's memory
 * engine. A skip list for the order, and a hash table beside it to find a key at once.
 *
 * Thread safety: none of its own. */
#ifndef MEMORY_MAP_H
#define MEMORY_MAP_H

#include <stddef.h>
#include <stdint.h>

#define MAP_HEIGHT 16

struct map_entry {
	uint64_t table; /* the caller's: the newest table that holds the key; 0: none yet */
	char *value;    /* its bytes, or NULL */
	size_t value_size, value_room;
	uint32_t key_size;
	unsigned height;
	struct map_entry *next[]; /* height of them, and the key behind */
};

struct memory_map {
	struct map_entry *head;
	struct map_entry **slots; /* the hash table */
	size_t mask;
	uint64_t state; /* of the heights */
	uint64_t count, bytes;
};

int memory_map_init(struct memory_map *map);
void memory_map_fini(struct memory_map *map);

/* NULL: not there. */
struct map_entry *memory_map_find(const struct memory_map *map, const void *key, size_t size);
/* The first whose key is not below; NULL: none. */
struct map_entry *memory_map_seek(const struct memory_map *map, const void *key, size_t size);
static inline struct map_entry *memory_map_first(const struct memory_map *map)
{
	return map->head->next[0];
}

/* Set a key's value; *entryp is its entry. 0 or ENOMEM. */
int memory_map_put(struct memory_map *map, const void *key, size_t key_size, const void *value,
		   size_t value_size, struct map_entry **entryp);

const char *map_entry_key(const struct map_entry *entry);

#endif /* MEMORY_MAP_H */
