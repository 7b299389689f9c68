/* id_set.h - a set of 64-bit numbers, 8 bytes each and room: which absent keys were false
 * positives before.
 *
 * Thread safety: any thread; there is one lock. */
#ifndef ID_SET_H
#define ID_SET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_set {
	pthread_mutex_t lock;
	uint64_t *ids; /* 0: empty */
	size_t mask, count;
};

void id_set_init(struct id_set *set);
void id_set_fini(struct id_set *set);
void id_set_clear(struct id_set *set);

/* True if the id, which is not 0, was there before. Without memory it is not noted. */
bool id_set_add(struct id_set *set, uint64_t id);

#endif /* ID_SET_H */
