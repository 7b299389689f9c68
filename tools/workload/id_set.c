/* id_set.c - see id_set.h. */
#include "id_set.h"

#include <stdlib.h>

#include "base/alloc.h"

void id_set_init(struct id_set *set)
{
	pthread_mutex_init(&set->lock, NULL);
	set->ids = NULL;
	set->mask = set->count = 0;
}

void id_set_fini(struct id_set *set)
{
	id_set_clear(set);
	pthread_mutex_destroy(&set->lock);
}

void id_set_clear(struct id_set *set)
{
	free(set->ids);
	set->ids = NULL;
	set->mask = set->count = 0;
}

static struct id_time *find(struct id_time *ids, size_t mask, uint64_t id)
{
	size_t at = (size_t)id & mask;

	while (ids[at].id != 0 && ids[at].id != id)
		at = (at + 1) & mask;
	return &ids[at];
}

static bool grow(struct id_set *set)
{
	const size_t size = set->ids ? 2 * (set->mask + 1) : 1024;
	struct id_time *larger = wn__calloc(size, sizeof(*larger));

	if (!larger)
		return false;
	for (size_t i = 0; set->ids && i <= set->mask; i++)
		if (set->ids[i].id != 0)
			*find(larger, size - 1, set->ids[i].id) = set->ids[i];
	free(set->ids);
	set->ids = larger;
	set->mask = size - 1;
	return true;
}

bool id_set_add(struct id_set *set, uint64_t id, uint64_t start, uint64_t end)
{
	bool known = false;
	struct id_time *at;

	pthread_mutex_lock(&set->lock);
	if ((set->ids && 2 * set->count <= set->mask) || grow(set)) {
		at = find(set->ids, set->mask, id);
		known = at->id == id && at->since <= start;
		if (at->id == 0) {
			*at = (struct id_time){ id, end };
			set->count++;
		}
	}
	pthread_mutex_unlock(&set->lock);
	return known;
}
