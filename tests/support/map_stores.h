/* map_stores.h - the stores of the reverse map of immutable filters, for tests of their common
 * contract. */
#ifndef WN_TESTS_MAP_STORES_H
#define WN_TESTS_MAP_STORES_H

#include "tests/support/key_lists.h"

static char directory[PATH_MAX];

static inline int open_memory(struct wn__map **mapp)
{
	return wn__map_memory_create(mapp);
}

/* Few open files, so that they must change places. */
static inline int open_sidecar(struct wn__map **mapp)
{
	return wn__map_sidecar_open(directory, &(struct wn__sidecar_options){.max_open = 3},
				     mapp);
}

static const struct store {
	const char *name;
	int (*open)(struct wn__map **mapp);
} stores[] = {
	{"memory", open_memory},
	{"sidecar", open_sidecar},
};

#define STORE_COUNT ((int)(sizeof(stores) / sizeof(stores[0])))

static inline void set_up(void)
{
	make_directory(directory);
}

static inline void tear_down(void)
{
	remove_directory(directory);
}

static inline struct wn__map *open_store(int which)
{
	struct wn__map *map;

	ck_assert_int_eq(stores[which].open(&map), 0);
	return map;
}

static inline void put(struct wn__map *map, const struct sample *sample)
{
	ck_assert_int_eq(wn__map_put(map, &sample->list, sample->uppers), 0);
}

static inline struct wn__map_stats stats_of(const struct wn__map *map)
{
	struct wn__map_stats stats;

	wn__map_stats(map, &stats);
	return stats;
}

/* The list, the accounts and `count` agree. */
static inline void assert_count(struct wn__map *map, size_t count)
{
	struct wn__keylist_info *infos;
	uint64_t bytes = 0;
	size_t listed;

	ck_assert_int_eq(wn__map_list(map, &infos, &listed), 0);
	ck_assert_uint_eq(listed, count);
	for (size_t i = 0; i < listed; i++) {
		ck_assert_int_eq(infos[i].error, 0);
		bytes += infos[i].bytes;
	}
	ck_assert_uint_eq(stats_of(map).lists, count);
	ck_assert_uint_eq(stats_of(map).bytes, bytes);
	free(infos);
}

static inline struct wn__keylist_info only_info(struct wn__map *map)
{
	struct wn__keylist_info *infos, info;
	size_t count;

	ck_assert_int_eq(wn__map_list(map, &infos, &count), 0);
	ck_assert_uint_eq(count, 1);
	info = infos[0];
	free(infos);
	return info;
}

#endif /* WN_TESTS_MAP_STORES_H */
