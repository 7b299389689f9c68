/* store.c - see store.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "column_family.h"
#include "base/alloc.h"
#include "base/lock.h"
#include "base/sort.h"
#include "kinds/block_build.h"
#include "store.h"

struct store {
	struct wn__map base;
	pthread_rwlock_t lock;   /* held while `family` is in use; to write, where it goes */
	struct wn__map *family; /* NULL: none, or gone */
	struct wn__map *files;  /* or memory; NULL: none */
};

static struct store *to_store(struct wn__map *map)
{
	return (struct store *)map;
}

/* ---- what is asked of a store ------------------------------------------- */

static void add_stats(const struct wn__map *part, struct wn__map_stats *sum)
{
	struct wn__map_stats stats = {0};

	if (part)
		wn__map_stats(part, &stats);
	sum->reads += stats.reads;
	sum->lists += stats.lists;
	sum->bytes += stats.bytes;
}

/* The parts count what is read and what is there, the rest is counted around them. */
static void sum_up(struct store *store)
{
	struct wn__map_stats sum = {0};

	add_stats(store->family, &sum);
	add_stats(store->files, &sum);
	__atomic_store_n(&store->base.stats.reads, sum.reads, __ATOMIC_RELAXED);
	__atomic_store_n(&store->base.stats.lists, sum.lists, __ATOMIC_RELAXED);
	__atomic_store_n(&store->base.stats.bytes, sum.bytes, __ATOMIC_RELAXED);
}

static int store_put(struct wn__map *map, const struct wn__keylist *list,
		     const uint64_t *uppers)
{
	struct store *store = to_store(map);
	struct wn__map *part;
	int err;

	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	part = store->family ? store->family : store->files;
	if (part)
		err = part->ops->put(part, list, uppers);
	else
		err = WN_ERR_READONLY;
	sum_up(store);
	wn__unlock_shared(&store->lock);
	return err;
}

static void store_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	struct store *store = to_store(map);
	struct wn__map *part;

	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	part = store->family ? store->family : store->files;
	for (size_t i = 0; i < count; i++) {
		if (!part && !puts[i].err)
			puts[i].err = WN_ERR_READONLY;
	}
	if (part)
		wn__map_put_all(part, puts, count);
	sum_up(store);
	wn__unlock_shared(&store->lock);
}

static int store_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			size_t *countp)
{
	struct store *store = to_store(map);
	int err = WN_ERR_NOT_FOUND;

	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	if (store->family)
		err = store->family->ops->lookup(store->family, list, minirun, rank, entries, max,
						 countp);
	if (err == WN_ERR_NOT_FOUND && store->files)
		err = store->files->ops->lookup(store->files, list, minirun, rank, entries, max,
						countp);
	sum_up(store);
	wn__unlock_shared(&store->lock);
	return err;
}

static int store_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
			void *arg)
{
	struct store *store = to_store(map);
	int err = WN_ERR_NOT_FOUND;

	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	if (store->family)
		err = store->family->ops->stream(store->family, id, fn, arg);
	if (err == WN_ERR_NOT_FOUND && store->files)
		err = store->files->ops->stream(store->files, id, fn, arg);
	sum_up(store);
	wn__unlock_shared(&store->lock);
	return err;
}

static int store_drop(struct wn__map *map, const unsigned char *id)
{
	struct store *store = to_store(map);
	int err = WN_ERR_NOT_FOUND, files_err = WN_ERR_NOT_FOUND;

	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	if (store->family)
		err = store->family->ops->drop(store->family, id);
	if (store->files)
		files_err = store->files->ops->drop(store->files, id);
	sum_up(store);
	wn__unlock_shared(&store->lock);
	return err == WN_ERR_NOT_FOUND ? files_err : err;
}

static size_t store_drop_many(struct wn__map *map, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			      size_t count)
{
	struct store *store = to_store(map);
	size_t dropped = 0;

	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	if (store->family)
		dropped = wn__map_drop_all(store->family, ids, count);
	/* A key list is in one of the two; few are in files. */
	if (store->files && dropped < count)
		dropped += wn__map_drop_all(store->files, ids, count);
	sum_up(store);
	wn__unlock_shared(&store->lock);
	return dropped;
}

static int append_list(struct wn__map *part, struct wn__keylist_info **infosp, size_t *countp)
{
	struct wn__keylist_info *more, *all;
	size_t count;
	int err = wn__map_list(part, &more, &count);

	if (err)
		return err;
	if (*countp == 0) {
		free(*infosp);
		*infosp = more;
		*countp = count;
		return 0;
	}
	all = wn__realloc(*infosp, (*countp + count + 1) * sizeof(*all));
	if (all && count > 0)
		memcpy(all + *countp, more, count * sizeof(*all));
	free(more);
	if (!all)
		return ENOMEM;
	*infosp = all;
	*countp += count;
	return 0;
}

static int store_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp)
{
	struct store *store = to_store(map);
	int err = 0;

	*infosp = NULL;
	*countp = 0;
	wn__lock_to_read(&store->lock, WN__LOCK_STORE);
	if (store->family)
		err = append_list(store->family, infosp, countp);
	if (!err && store->files)
		err = append_list(store->files, infosp, countp);
	wn__unlock_shared(&store->lock);
	if (err) {
		free(*infosp);
		*infosp = NULL;
		*countp = 0;
	}
	return err;
}

static void store_destroy(struct wn__map *map)
{
	struct store *store = to_store(map);

	wn__map_destroy(store->family);
	wn__map_destroy(store->files);
	pthread_rwlock_destroy(&store->lock);
	free(store);
}

/* ---- open --------------------------------------------------------------- */

static const struct wn__map_ops store_ops = {
	.put = store_put,
	.lookup = store_lookup,
	.stream = store_stream,
	.drop = store_drop,
	.put_many = store_put_many,
	.drop_many = store_drop_many,
	.list = store_list,
	.destroy = store_destroy,
};

static int open_files(struct store *store, const struct wn__store_place *place)
{
	struct wn__sidecar_options options = {.read_only = place->read_only};
	int err;

	if (!place->directory)
		return wn__map_memory_create(&store->files);
	err = wn__map_sidecar_open(place->directory, &options, &store->files);
	/* To read a database that has none is no reason to make one. */
	return place->read_only ? 0 : err;
}

int wn__store_open(const struct wn__store_place *place, struct wn__map **mapp)
{
	struct store *store = wn__calloc(1, sizeof(*store));
	const char *scratch = place->read_only ? NULL : place->directory;
	int err;

	*mapp = NULL;
	if (!store)
		return ENOMEM;
	store->base.ops = &store_ops;
	err = pthread_rwlock_init(&store->lock, NULL);
	if (err) {
		free(store);
		return err;
	}
	err = open_files(store, place);
	if (!err && place->family)
		err = wn__map_column_family_open(place->db, place->family, scratch,
						  &store->family);
	if (err) {
		store_destroy(&store->base);
		return err;
	}
	sum_up(store);
	*mapp = &store->base;
	return 0;
}

void wn__store_leave_family(struct wn__map *map)
{
	struct store *store = to_store(map);

	wn__lock_to_write(&store->lock, WN__LOCK_STORE);
	wn__map_destroy(store->family);
	store->family = NULL;
	wn__unlock_shared(&store->lock);
}

/* ---- from files into the family ----------------------------------------- */

struct hashes {
	uint64_t *all;
	uint64_t room, count;
};

static int take_hashes(void *arg, const struct wn__keylist_info *info, const uint64_t *uppers,
		       size_t count)
{
	struct hashes *taken = arg;

	(void)info;
	if (count > taken->room - taken->count)
		return WN_ERR_CORRUPT;
	memcpy(taken->all + taken->count, uppers, count * sizeof(*uppers));
	taken->count += count;
	return 0;
}

static int take_run(struct store *store, const struct wn__keylist_info *info,
		    struct wn__keylist_put *put)
{
	struct hashes taken = {.room = info->list.key_count};
	int err;

	taken.all = wn__alloc((taken.room + 1) * sizeof(*taken.all));
	*put = (struct wn__keylist_put){&info->list, taken.all, 0};
	if (!taken.all)
		return ENOMEM;
	err = wn__map_stream(store->files, info->list.id, take_hashes, &taken);
	return !err && taken.count != taken.room ? WN_ERR_CORRUPT : err;
}

/* What cannot be moved stays in its file, from where it is read as well; what cannot even be
 * read goes. */
static void leave_file(struct store *store, const struct wn__keylist_info *info, int err)
{
	if (!err || err == WN_ERR_CORRUPT)
		wn__map_drop(store->files, info->list.id);
}

/* The filters of one table, which go into the family together. */
static void move_runs(struct store *store, const struct wn__keylist_info *infos, size_t count)
{
	struct wn__keylist_put *puts = wn__calloc(count, sizeof(*puts));
	size_t good = 0;

	if (!puts)
		return;
	for (size_t i = 0; i < count; i++) {
		int err = take_run(store, &infos[i], &puts[good]);

		if (!err) {
			good++;
			continue;
		}
		free((void *)puts[good].uppers);
		leave_file(store, &infos[i], err);
	}
	wn__map_put_many(store->family, puts, good);
	for (size_t i = 0; i < good; i++) {
		if (!puts[i].err)
			wn__map_drop(store->files, puts[i].list->id);
		free((void *)puts[i].uppers);
	}
	free(puts);
}

bool wn__is_table(uint64_t number, const uint64_t *tables, size_t count)
{
	return bsearch(&number, tables, count, sizeof(number), wn__compare_numbers);
}

static int compare_infos(const void *a, const void *b)
{
	const struct wn__keylist_info *left = a, *right = b;

	return memcmp(left->list.id, right->list.id, WN_BLOCK_ID_SIZE);
}

/* In memory at once; one key list always is. */
#define MAX_MOVED_KEYS (1 << 19)

/* How many at the beginning belong to one table. */
static size_t count_together(const struct wn__keylist_info *infos, size_t count)
{
	uint64_t keys = infos[0].list.key_count;
	size_t together = 1;

	while (together < count &&
	       memcmp(infos[together].list.id, infos[0].list.id, WN__ID_PREFIX_SIZE) == 0 &&
	       (keys += infos[together].list.key_count) <= MAX_MOVED_KEYS)
		together++;
	return together;
}

void wn__store_move_in(struct wn__map *map, const uint64_t *tables, size_t count)
{
	struct store *store = to_store(map);
	struct wn__keylist_info *infos;
	size_t files, wanted = 0, together;

	if (!store->family || !store->files ||
	    wn__map_list(store->files, &infos, &files))
		return;
	for (size_t i = 0; i < files; i++) {
		if (!infos[i].error && wn__is_table(infos[i].list.owner, tables, count))
			infos[wanted++] = infos[i];
		else
			wn__map_drop(store->files, infos[i].list.id);
	}
	if (wanted > 0)
		qsort(infos, wanted, sizeof(*infos), compare_infos);
	for (size_t i = 0; i < wanted; i += together) {
		together = count_together(infos + i, wanted - i);
		move_runs(store, infos + i, together);
	}
	free(infos);
	sum_up(store);
}
