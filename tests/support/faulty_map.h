/* faulty_map.h - a reverse map that can be told to fail, as one on a disk may. */
#ifndef WN_TESTS_FAULTY_MAP_H
#define WN_TESTS_FAULTY_MAP_H

#include <errno.h>

#include <winnow/reversemap.h>

#include "base/alloc.h"
#include "common.h"

struct faulty_map {
	struct wn_revmap base;
	struct wn_revmap *inner;
};

/* The call from now on that fails, with EIO; 0: none. Shared by all such maps. */
static uint64_t map_fail_at;
static uint64_t map_calls;

static const struct wn_revmap_ops faulty_ops;

static inline void fail_map_at(uint64_t nth)
{
	map_fail_at = nth;
	map_calls = 0;
}

static inline bool map_call_fails(void)
{
	return ++map_calls == map_fail_at;
}

static inline struct wn_revmap *inner_map(const struct wn_revmap *map)
{
	return ((const struct faulty_map *)map)->inner;
}

static inline int faulty_wrap(struct wn_revmap *inner, struct wn_revmap **newp)
{
	struct faulty_map *map = calloc(1, sizeof(*map));

	ck_assert_ptr_nonnull(map);
	map->base.ops = &faulty_ops;
	map->base.keeps_keys = inner->keeps_keys;
	map->inner = inner;
	*newp = &map->base;
	return 0;
}

static inline struct wn_revmap *faulty_create(bool keep_keys)
{
	struct wn_revmap *inner, *map;

	ck_assert_int_eq(wn_revmap_memory_create(keep_keys, &inner), 0);
	faulty_wrap(inner, &map);
	return map;
}

static int faulty_put(struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		      const struct wn_revmap_entry *entry)
{
	return map_call_fails() ? EIO : wn_revmap_put(inner_map(map), minirun, rank, entry);
}

static int faulty_get(const struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		      struct wn_revmap_entry *entryp)
{
	return map_call_fails() ? EIO : wn_revmap_get(inner_map(map), minirun, rank, entryp);
}

static int faulty_remove(struct wn_revmap *map, uint64_t minirun, uint32_t rank)
{
	return map_call_fails() ? EIO : wn_revmap_remove(inner_map(map), minirun, rank);
}

static int faulty_visit(const struct wn_revmap *map, wn_revmap_visit_fn *fn, void *arg)
{
	return map_call_fails() ? EIO : wn_revmap_visit(inner_map(map), fn, arg);
}

static uint64_t faulty_count(const struct wn_revmap *map)
{
	return wn_revmap_count(inner_map(map));
}

static void faulty_clear(struct wn_revmap *map)
{
	wn_revmap_clear(inner_map(map));
}

static void faulty_destroy(struct wn_revmap *map)
{
	wn_revmap_destroy(inner_map(map));
	free(map);
}

static int faulty_create_like(const struct wn_revmap *map, struct wn_revmap **newp)
{
	struct wn_revmap *inner;
	int err;

	if (map_call_fails())
		return EIO;
	err = wn_revmap_create_like(inner_map(map), &inner);
	return err ? err : faulty_wrap(inner, newp);
}

static int faulty_swap(struct wn_revmap *a, struct wn_revmap *b)
{
	return map_call_fails() ? EIO : wn_revmap_swap(inner_map(a), inner_map(b));
}

static const struct wn_revmap_ops faulty_ops = {
	.put = faulty_put,
	.get = faulty_get,
	.remove = faulty_remove,
	.visit = faulty_visit,
	.count = faulty_count,
	.clear = faulty_clear,
	.destroy = faulty_destroy,
	.create_like = faulty_create_like,
	.swap = faulty_swap,
};

#endif /* WN_TESTS_FAULTY_MAP_H */
