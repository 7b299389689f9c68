/* rebuild.c - see rebuild.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "alloc.h"
#include "bytes.h"
#include "kind.h"
#include "negatives.h"
#include "rebuild.h"

/* False positives before a filter is built again for the first time: this many, and one for
 * so many keys. Building takes as long as some hundred reads from disk for every 100,000 keys. */
#define FIRST_PATIENCE 64
#define KEYS_PER_PATIENCE 1000

/* Each time the patience is doubled: after this many times it is over a million. */
#define MAX_BUILDS 14

/* Of the keys, at most: the filter could not heed more. */
#define LISTED_SHARE 8
#define MIN_LISTED 1024

#define BUCKETS 1024

/* A filter that was built later. */
struct version {
	struct version *older;
	struct wn_filter *filter;
	void *block;
	size_t size;
};

struct wn__rebuild {
	struct version *newest; /* atomic; NULL: none */
	/* The rest is under the registry's lock. */
	struct wn__rebuilds *rebuilds;
	struct wn__rebuild *chain;
	unsigned char id[WN_BLOCK_ID_SIZE];
	size_t readers;
	bool linked;
	bool building;
	unsigned builds;
	uint64_t waiting; /* false positives since it was last built */
	struct wn__negative *listed; /* what it was wrong about; a hash may be there twice */
	size_t listed_count, listed_room;
};

struct wn__rebuilds {
	pthread_mutex_t lock;
	struct wn_config config;
	struct wn_secret *secret;
	size_t budget;
	struct wn__rebuild *buckets[BUCKETS];
	struct wn__rebuilds_stats stats;
};

/* ---- objects ------------------------------------------------------------ */

static struct wn__rebuild **find_place(struct wn__rebuilds *rebuilds, const unsigned char *id)
{
	struct wn__rebuild **place = &rebuilds->buckets[get_le64(id) % BUCKETS];

	while (*place && memcmp((*place)->id, id, WN_BLOCK_ID_SIZE) != 0)
		place = &(*place)->chain;
	return place;
}

/* With the lock held, as all below. */
static struct wn__rebuild *find_or_make(struct wn__rebuilds *rebuilds, const unsigned char *id)
{
	struct wn__rebuild **place = find_place(rebuilds, id);
	struct wn__rebuild *rebuild = *place;

	if (rebuild)
		return rebuild;
	rebuild = wn__calloc(1, sizeof(*rebuild));
	if (rebuild) {
		rebuild->rebuilds = rebuilds;
		rebuild->linked = true;
		memcpy(rebuild->id, id, WN_BLOCK_ID_SIZE);
		rebuilds->stats.bytes += sizeof(*rebuild);
		*place = rebuild;
	}
	return rebuild;
}

static void free_version(struct wn__rebuild *rebuild, struct version *version)
{
	rebuild->rebuilds->stats.bytes -= version->size;
	wn_filter_close(version->filter);
	free(version->block);
	free(version);
}

/* No reader is left: those that were replaced are of no more use. */
static void free_older(struct wn__rebuild *rebuild)
{
	struct version *older = rebuild->newest ? rebuild->newest->older : NULL;

	while (older) {
		struct version *next = older->older;

		free_version(rebuild, older);
		older = next;
	}
	if (rebuild->newest)
		rebuild->newest->older = NULL;
}

static void free_rebuild(struct wn__rebuild *rebuild)
{
	free_older(rebuild);
	if (rebuild->newest)
		free_version(rebuild, rebuild->newest);
	rebuild->rebuilds->stats.bytes -=
		sizeof(*rebuild) + rebuild->listed_room * sizeof(*rebuild->listed);
	free(rebuild->listed);
	free(rebuild);
}

static void unlink_rebuild(struct wn__rebuild *rebuild)
{
	*find_place(rebuild->rebuilds, rebuild->id) = rebuild->chain;
	rebuild->linked = false;
}

/* Nobody reads it, builds it, or has anything to keep in it. */
static void settle(struct wn__rebuild *rebuild)
{
	if (rebuild->readers || rebuild->building)
		return;
	if (rebuild->linked && (rebuild->newest || rebuild->listed_count)) {
		free_older(rebuild);
		return;
	}
	if (rebuild->linked)
		unlink_rebuild(rebuild);
	free_rebuild(rebuild);
}

struct wn__rebuild *wn__rebuild_acquire(struct wn__rebuilds *rebuilds, const unsigned char *id)
{
	struct wn__rebuild *rebuild;

	pthread_mutex_lock(&rebuilds->lock);
	rebuild = find_or_make(rebuilds, id);
	if (rebuild)
		rebuild->readers++;
	pthread_mutex_unlock(&rebuilds->lock);
	return rebuild;
}

void wn__rebuild_release(struct wn__rebuild *rebuild)
{
	struct wn__rebuilds *rebuilds;

	if (!rebuild)
		return;
	rebuilds = rebuild->rebuilds;
	pthread_mutex_lock(&rebuilds->lock);
	rebuild->readers--;
	settle(rebuild);
	pthread_mutex_unlock(&rebuilds->lock);
}

void wn__rebuild_forget(struct wn__rebuilds *rebuilds, const unsigned char *id)
{
	struct wn__rebuild *rebuild;

	pthread_mutex_lock(&rebuilds->lock);
	rebuild = *find_place(rebuilds, id);
	if (rebuild) {
		unlink_rebuild(rebuild);
		settle(rebuild);
	}
	pthread_mutex_unlock(&rebuilds->lock);
}

bool wn__rebuild_query(const struct wn__rebuild *rebuild, struct wn_hash hash)
{
	const struct version *version;

	if (!rebuild)
		return true;
	version = __atomic_load_n(&rebuild->newest, __ATOMIC_ACQUIRE);
	return !version || wn_filter_query_hash(version->filter, hash, NULL);
}

/* ---- reports ------------------------------------------------------------ */

static size_t max_listed(const struct wn__run *filter)
{
	return MIN_LISTED + (size_t)(filter->key_count / LISTED_SHARE);
}

static int compare_listed(const void *a, const void *b)
{
	return wn_hash_compare(((const struct wn__negative *)a)->hash,
			       ((const struct wn__negative *)b)->hash);
}

/* Entries of the same hash become one. */
static void join_listed(struct wn__rebuild *rebuild)
{
	struct wn__negative *listed = rebuild->listed;
	size_t kept = 0;

	qsort(listed, rebuild->listed_count, sizeof(*listed), compare_listed);
	for (size_t i = 0; i < rebuild->listed_count; i++) {
		if (kept && compare_listed(&listed[kept - 1], &listed[i]) == 0)
			listed[kept - 1].cost += listed[i].cost;
		else
			listed[kept++] = listed[i];
	}
	rebuild->listed_count = kept;
}

static bool make_room(struct wn__rebuild *rebuild, size_t limit)
{
	size_t room = rebuild->listed_room ? 2 * rebuild->listed_room : 64;
	struct wn__negative *listed;

	if (rebuild->listed_count < rebuild->listed_room)
		return true;
	if (rebuild->listed_count)
		join_listed(rebuild);
	if (rebuild->listed_count < rebuild->listed_room / 2)
		return true;
	if (room > limit)
		return rebuild->listed_count < rebuild->listed_room;
	listed = wn__realloc(rebuild->listed, room * sizeof(*listed));
	if (!listed)
		return false;
	rebuild->rebuilds->stats.bytes += (room - rebuild->listed_room) * sizeof(*listed);
	rebuild->listed = listed;
	rebuild->listed_room = room;
	return true;
}

static void list_hash(struct wn__rebuild *rebuild, struct wn_hash hash, size_t limit)
{
	if (make_room(rebuild, limit))
		rebuild->listed[rebuild->listed_count++] = (struct wn__negative){hash, 1};
}

static bool is_due(const struct wn__rebuild *rebuild, const struct wn__run *filter)
{
	uint64_t patience = FIRST_PATIENCE + filter->key_count / KEYS_PER_PATIENCE;

	return !rebuild->building && rebuild->builds < MAX_BUILDS &&
	       rebuild->waiting >= patience << rebuild->builds;
}

bool wn__rebuild_report(struct wn__rebuilds *rebuilds, const struct wn__run *filter,
			struct wn_hash hash)
{
	struct wn__rebuild *rebuild;
	bool due = false;

	pthread_mutex_lock(&rebuilds->lock);
	rebuild = find_or_make(rebuilds, filter->id);
	if (rebuild) {
		rebuild->waiting++;
		list_hash(rebuild, hash, max_listed(filter));
		due = is_due(rebuild, filter);
	}
	pthread_mutex_unlock(&rebuilds->lock);
	return due;
}

/* ---- building ----------------------------------------------------------- */

static int add_hashes(void *arg, const struct wn__run_info *info, const struct wn_hash *hashes,
		      size_t count)
{
	int err = info->hash_bytes == 16 ? 0 : WN_ERR_NOT_FOUND;

	for (size_t i = 0; i < count && !err; i++)
		err = wn_builder_add_hash(arg, hashes[i]);
	return err;
}

/* The list as it is now, into the builder. */
static int add_listed(struct wn__rebuilds *rebuilds, const struct wn__rebuild *rebuild,
		      struct wn_builder *builder)
{
	int err = 0;

	pthread_mutex_lock(&rebuilds->lock);
	for (size_t i = 0; i < rebuild->listed_count && !err; i++)
		err = wn_builder_add_costly(builder, rebuild->listed[i].hash,
					    rebuild->listed[i].cost);
	pthread_mutex_unlock(&rebuilds->lock);
	return err;
}

/* A filter with all keys of the run: not one fewer. */
static int make_version(struct wn__rebuilds *rebuilds, struct wn__runs *runs,
			const struct wn__rebuild *rebuild, const struct wn__run *filter,
			struct version *version)
{
	struct wn_builder *builder;
	size_t count = 0;
	int err = wn_builder_create(&rebuilds->config, rebuilds->secret, &builder);

	if (!err)
		err = wn__runs_stream(runs, filter->id, add_hashes, builder);
	if (!err)
		err = add_listed(rebuilds, rebuild, builder);
	if (!err)
		err = wn_builder_finish(builder, &version->block, &version->size);
	if (!err)
		wn_builder_hashes(builder, &count);
	wn_builder_destroy(builder);
	if (!err && count != filter->key_count)
		err = WN_ERR_MISMATCH;
	if (!err)
		err = wn_filter_open(version->block, version->size, WN_CHECK_HEADER,
				     rebuilds->secret, &version->filter, NULL);
	return err;
}

/* With the lock held. Takes the version. */
static int publish(struct wn__rebuild *rebuild, struct version *version)
{
	struct wn__rebuilds *rebuilds = rebuild->rebuilds;

	if (!rebuild->linked)
		return WN_ERR_NOT_FOUND;
	if (rebuilds->stats.bytes + version->size > rebuilds->budget)
		return WN_ERR_FULL;
	version->older = rebuild->newest;
	__atomic_store_n(&rebuild->newest, version, __ATOMIC_RELEASE);
	rebuilds->stats.bytes += version->size;
	rebuilds->stats.built++;
	return 0;
}

/* The one who builds: at most one, and the object stays meanwhile. */
static struct wn__rebuild *begin_building(struct wn__rebuilds *rebuilds, const unsigned char *id)
{
	struct wn__rebuild *rebuild;

	pthread_mutex_lock(&rebuilds->lock);
	rebuild = *find_place(rebuilds, id);
	if (rebuild && rebuild->building)
		rebuild = NULL;
	if (rebuild) {
		rebuild->building = true;
		/* Also if it fails: it is not tried again at once. */
		rebuild->waiting = 0;
		rebuild->builds++;
	}
	pthread_mutex_unlock(&rebuilds->lock);
	return rebuild;
}

static int end_building(struct wn__rebuilds *rebuilds, struct wn__rebuild *rebuild, int err,
			struct version *version)
{
	pthread_mutex_lock(&rebuilds->lock);
	if (!err)
		err = publish(rebuild, version);
	rebuilds->stats.failed += err != 0;
	rebuild->building = false;
	settle(rebuild);
	pthread_mutex_unlock(&rebuilds->lock);
	return err;
}

int wn__rebuild_build(struct wn__rebuilds *rebuilds, struct wn__runs *runs,
		      const struct wn__run *filter)
{
	struct wn__rebuild *rebuild;
	struct version *version;
	int err;

	if (filter->secret_id != wn_secret_id(rebuilds->secret))
		return WN_ERR_MISMATCH;
	rebuild = begin_building(rebuilds, filter->id);
	if (!rebuild)
		return WN_ERR_NOT_FOUND;
	version = wn__calloc(1, sizeof(*version));
	err = version ? make_version(rebuilds, runs, rebuild, filter, version) : ENOMEM;
	err = end_building(rebuilds, rebuild, err, version);
	if (err && version) {
		wn_filter_close(version->filter);
		free(version->block);
		free(version);
	}
	return err;
}

/* ---- the registry ------------------------------------------------------- */

int wn__rebuilds_create(const struct wn_config *config, const struct wn_secret *secret,
			size_t budget, struct wn__rebuilds **rebuildsp)
{
	struct wn__rebuilds *rebuilds = wn__calloc(1, sizeof(*rebuilds));
	int err;

	*rebuildsp = NULL;
	if (!rebuilds)
		return ENOMEM;
	if (pthread_mutex_init(&rebuilds->lock, NULL) != 0) {
		free(rebuilds);
		return ENOMEM;
	}
	err = wn_secret_create(wn_secret_seed(secret), &rebuilds->secret);
	if (err) {
		pthread_mutex_destroy(&rebuilds->lock);
		free(rebuilds);
		return err;
	}
	rebuilds->config = *config;
	rebuilds->budget = budget;
	*rebuildsp = rebuilds;
	return 0;
}

void wn__rebuilds_destroy(struct wn__rebuilds *rebuilds)
{
	if (!rebuilds)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		while (rebuilds->buckets[i]) {
			struct wn__rebuild *rebuild = rebuilds->buckets[i];

			unlink_rebuild(rebuild);
			free_rebuild(rebuild);
		}
	}
	pthread_mutex_destroy(&rebuilds->lock);
	wn_secret_destroy(rebuilds->secret);
	free(rebuilds);
}

void wn__rebuilds_describe(struct wn__rebuilds *rebuilds, struct wn__rebuilds_stats *statsp)
{
	pthread_mutex_lock(&rebuilds->lock);
	*statsp = rebuilds->stats;
	pthread_mutex_unlock(&rebuilds->lock);
}
