/* living.c - the part of the reverse map that is the same for every store. */
#include <string.h>

#include <winnow/error.h>
#include <winnow/reversemap.h>

int wn_revmap_put(struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		  const struct wn_revmap_entry *entry)
{
	if (map->keeps_keys && entry->key == NULL)
		return WN_ERR_INVALID;
	return map->ops->put(map, minirun, rank, entry);
}

int wn_revmap_get(const struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		  struct wn_revmap_entry *entryp)
{
	*entryp = (struct wn_revmap_entry){0};
	return map->ops->get(map, minirun, rank, entryp);
}

static bool is_same_key(const struct wn_revmap_entry *a, const struct wn_revmap_entry *b)
{
	if (wn_hash_compare(a->hash, b->hash) != 0)
		return false;
	if (a->key == NULL || b->key == NULL)
		return true;
	return a->key_size == b->key_size && memcmp(a->key, b->key, a->key_size) == 0;
}

int wn_revmap_find(const struct wn_revmap *map, uint64_t minirun,
		   const struct wn_revmap_entry *wanted, uint32_t *rankp)
{
	struct wn_revmap_entry entry;
	uint32_t rank;
	int err;

	*rankp = 0;
	for (rank = 0;; rank++) {
		err = wn_revmap_get(map, minirun, rank, &entry);
		if (err)
			return err;
		if (is_same_key(&entry, wanted)) {
			*rankp = rank;
			return 0;
		}
	}
}

int wn_revmap_remove(struct wn_revmap *map, uint64_t minirun, uint32_t rank)
{
	return map->ops->remove(map, minirun, rank);
}

int wn_revmap_visit(const struct wn_revmap *map, wn_revmap_visit_fn *fn, void *arg)
{
	return map->ops->visit(map, fn, arg);
}

uint64_t wn_revmap_count(const struct wn_revmap *map)
{
	return map->ops->count(map);
}

void wn_revmap_clear(struct wn_revmap *map)
{
	map->ops->clear(map);
}

void wn_revmap_destroy(struct wn_revmap *map)
{
	if (map != NULL)
		map->ops->destroy(map);
}

int wn_revmap_create_like(const struct wn_revmap *map, struct wn_revmap **newp)
{
	*newp = NULL;
	if (map->ops->create_like == NULL || map->ops->swap == NULL)
		return WN_ERR_READONLY;
	return map->ops->create_like(map, newp);
}

int wn_revmap_swap(struct wn_revmap *a, struct wn_revmap *b)
{
	if (a->ops != b->ops || a->keeps_keys != b->keeps_keys)
		return WN_ERR_MISMATCH;
	if (a->ops->swap == NULL)
		return WN_ERR_READONLY;
	return a->ops->swap(a, b);
}

int wn_revmap_fetch(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	struct wn_revmap_entry entry;
	int err;

	err = wn_revmap_get(arg, minirun, rank, &entry);
	*storedp = entry.hash;
	return err;
}
