/* keyspace.h - which keys a benchmark stores, which it asks for in vain, and their values.
 *
 * Stored keys have indexes: those that the fill benchmarks write come first (made from
 * their number, or the lines of a file), then those that inserts add, then those that
 * only a trace names. Absent keys have numbers of their own and are never stored.
 *
 * A key that is made from its number p is the number, 5 bytes big-endian, then a tag of 3
 * bytes, then bytes that depend on all of it and the seed. Stored keys have tag 0 and
 * absent ones another, so that absent keys lie between the stored ones and no table's
 * range of keys gives them away.
 *
 * A value is made from the key's index and a version, so that it can be checked.
 *
 * Thread safety: nothing changes after the making. */
#ifndef KEYSPACE_H
#define KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_MIN_SIZE 8
#define KEY_MAX_SIZE 4096
#define KEYS_MAX (UINT64_C(1) << 32)

/* Lines of a file, or keys that a trace names. */
struct key_list {
	char *bytes;
	size_t *starts; /* one more than keys: where the last one ends */
	size_t count, room, byte_count, byte_room;
};

/* Which number has a key: open addressing over a list. */
struct key_index {
	uint32_t *slots; /* number + 1; 0: empty */
	size_t mask;
};

struct keyspace {
	uint64_t seed;
	size_t key_size;     /* of keys that are made */
	uint64_t count;      /* keys that the fill benchmarks write */
	uint64_t inserts;    /* keys that inserts may add */
	uint64_t absent;     /* absent keys to choose from, by each client */
	struct key_list keys, negatives, extras; /* empty: not given */
	struct key_index key_index, extra_index;
};

/* Add a key to a list; its number is the count before. False: no memory. */
bool key_list_add(struct key_list *list, const void *bytes, size_t size);
void key_list_fini(struct key_list *list);

/* Read the lines of a file. On failure a sentence in `message`, and `*usage` says whether
 * it is the file's content that is wrong. */
bool key_list_read(struct key_list *list, const char *path, char *message, size_t size);

/* Index the lists, once they are read. False if a key stands there twice, is absent
 * as well, or there is no memory: a sentence in `message`. */
bool keyspace_index_lists(struct keyspace *keyspace, char *message, size_t size);
void keyspace_fini(struct keyspace *keyspace);

/* All indexes there are. */
uint64_t keyspace_room(const struct keyspace *keyspace);

/* The key of an index, and an absent key: KEY_MAX_SIZE bytes of room; returns its size.
 * Absent numbers run from 0 to absent * clients - 1. */
size_t keyspace_stored(const struct keyspace *keyspace, uint64_t index, char *keyp);
size_t keyspace_absent(const struct keyspace *keyspace, uint64_t number, char *keyp);

/* Most distinct absent keys that there can be. */
uint64_t keyspace_max_absent(const struct keyspace *keyspace);

/* The index of a key that may be stored. */
bool keyspace_find(const struct keyspace *keyspace, const void *key, size_t size,
		   uint64_t *indexp);

/* The index of a key that a trace names; a new one is added to the extras. False: no
 * memory. Not while others use the keyspace. */
bool keyspace_name(struct keyspace *keyspace, const void *key, size_t size, uint64_t *indexp);

/* The `size` bytes of an index's value, in its nth version. */
void keyspace_value(const struct keyspace *keyspace, uint64_t index, unsigned version,
		    void *valuep, size_t size);
bool keyspace_is_value(const struct keyspace *keyspace, uint64_t index, unsigned version,
		       const void *value, size_t size);

/* A number for a key that tells it from others, but for one chance in 2^64. Not 0. */
uint64_t key_number(const void *key, size_t size);

#endif /* KEYSPACE_H */
