/* id_set.h - which absent keys were false positives before, and since when that was known: a
 * 64-bit number and a time, 16 bytes each and room.
 *
 * Thread safety: any thread; there is one lock. */
#ifndef ID_SET_H
#define ID_SET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_time {
	uint64_t id;    /* 0: empty */
	uint64_t since; /* when the first lookup that told was over */
};

struct id_set {
	pthread_mutex_t lock;
	struct id_time *ids;
	size_t mask, count;
};

void id_set_init(struct id_set *set);
void id_set_fini(struct id_set *set);
void id_set_clear(struct id_set *set);

/* A lookup from `start` to `end` was wrong about the id, which is not 0. True if that was known
 * before it began: two lookups side by side that are wrong about one key do not repeat each
 * other. Without memory it is not noted. */
bool id_set_add(struct id_set *set, uint64_t id, uint64_t start, uint64_t end);

#endif /* ID_SET_H */
