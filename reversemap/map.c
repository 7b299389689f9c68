/* map.c - what is the same for every store of the reverse map of immutable filters. */
#include <string.h>

#include <winnow/error.h>

#include "base/bits.h"
#include "kinds/kind.h"
#include "map.h"

bool wn__keylist_is_valid(const struct wn__keylist *list)
{
	return list->key_count <= WN__SHAPE_MAX_KEYS &&
	       wn__shape_is_valid((struct wn__shape){list->slots, list->remainder_bits});
}

int wn__keylist_of_block(const struct wn_block_info *info, struct wn__keylist *listp)
{
	const struct wn__kind *kind = wn__kind_by_id(info->kind);
	struct wn__shape shape;

	memset(listp, 0, sizeof(*listp));
	if (!kind)
		return WN_ERR_INVALID;
	shape = wn__block_shape(info, kind);
	memcpy(listp->id, info->id, sizeof(listp->id));
	listp->key_count = info->key_count;
	listp->secret_id = info->secret_id;
	listp->slots = shape.slots;
	listp->remainder_bits = shape.remainder_bits;
	listp->plain = !kind->query_from;
	return wn__keylist_is_valid(listp) ? 0 : WN_ERR_INVALID;
}

bool wn__keylist_entry_tells(const struct wn__keylist *list, const struct wn__keylist_entry *entry,
			 struct wn_hash query, unsigned piece_bits)
{
	struct wn__fingerprint ours = wn__split(entry->hash, list->slots);
	struct wn__fingerprint other = wn__split(query, list->slots);
	unsigned common = wn__common_prefix(ours.hi, ours.lo, other.hi, other.lo);
	unsigned pieces;

	if (entry->fraction_bits >= 128)
		return true;
	if (ours.quotient != other.quotient || common < list->remainder_bits)
		return false;
	pieces = (common - list->remainder_bits) / piece_bits + 1;
	return list->remainder_bits + pieces * piece_bits <= entry->fraction_bits;
}

static bool is_ascending(const uint64_t *uppers, uint64_t count)
{
	for (uint64_t i = 1; i < count; i++) {
		if (uppers[i - 1] > uppers[i])
			return false;
	}
	return true;
}

unsigned wn__keylist_known_bits(const struct wn__keylist *list)
{
	return 64 - (unsigned)__builtin_ctzll(list->slots);
}

static void check_put(struct wn__keylist_put *put)
{
	put->err = 0;
	if (!wn__keylist_is_valid(put->list) ||
	    !is_ascending(put->uppers, put->list->key_count))
		put->err = WN_ERR_INVALID;
}

void wn__map_put_all(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	if (map->ops->put_many) {
		map->ops->put_many(map, puts, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (!puts[i].err)
			puts[i].err = map->ops->put(map, puts[i].list, puts[i].uppers);
	}
}

void wn__map_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_put(&puts[i]);
	wn__map_put_all(map, puts, count);
	for (size_t i = 0; i < count; i++)
		wn__map_count(puts[i].err ? &map->stats.failed_puts : &map->stats.puts, 1);
}

int wn__map_put(struct wn__map *map, const struct wn__keylist *list, const uint64_t *uppers)
{
	struct wn__keylist_put put = {.list = list, .uppers = uppers};

	wn__map_put_many(map, &put, 1);
	return put.err;
}

static uint64_t *counter_of(struct wn__map *map, int err)
{
	switch (err) {
	case WN_ERR_NOT_FOUND:
		return &map->stats.missing;
	case WN_ERR_MISMATCH:
		return &map->stats.mismatched;
	case WN_ERR_CORRUPT:
	case WN_ERR_VERSION:
		return &map->stats.damaged;
	default:
		return &map->stats.failed;
	}
}

int wn__map_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
		    uint32_t rank, struct wn__keylist_entry *entryp)
{
	size_t count;

	*entryp = (struct wn__keylist_entry){0};
	return wn__map_lookup_minirun(map, list, minirun, rank, entryp, 1, &count);
}

int wn__map_lookup_minirun(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			    uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			    size_t *countp)
{
	int err;

	*countp = 0;
	err = map->ops->lookup(map, list, minirun, rank, entries, max, countp);
	wn__map_count(&map->stats.lookups, 1);
	if (err && err != WN__MAP_NO_PLACE)
		wn__map_count(counter_of(map, err), 1);
	return err;
}

int wn__map_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
		    void *arg)
{
	return map->ops->stream(map, id, fn, arg);
}

int wn__map_drop(struct wn__map *map, const unsigned char *id)
{
	int err = map->ops->drop(map, id);

	if (!err)
		wn__map_count(&map->stats.drops, 1);
	return err;
}

size_t wn__map_drop_all(struct wn__map *map, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			 size_t count)
{
	size_t dropped = 0;

	if (map->ops->drop_many)
		return map->ops->drop_many(map, ids, count);
	for (size_t i = 0; i < count; i++)
		dropped += map->ops->drop(map, ids[i]) == 0;
	return dropped;
}

size_t wn__map_drop_many(struct wn__map *map, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			  size_t count)
{
	size_t dropped = wn__map_drop_all(map, ids, count);

	wn__map_count(&map->stats.drops, dropped);
	return dropped;
}

int wn__map_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp)
{
	*infosp = NULL;
	*countp = 0;
	return map->ops->list(map, infosp, countp);
}

void wn__map_destroy(struct wn__map *map)
{
	if (map)
		map->ops->destroy(map);
}

static uint64_t read_counter(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void wn__map_stats(const struct wn__map *map, struct wn__map_stats *statsp)
{
	const struct wn__map_stats *stats = &map->stats;

	*statsp = (struct wn__map_stats){
		.puts = read_counter(&stats->puts),
		.failed_puts = read_counter(&stats->failed_puts),
		.drops = read_counter(&stats->drops),
		.lookups = read_counter(&stats->lookups),
		.missing = read_counter(&stats->missing),
		.mismatched = read_counter(&stats->mismatched),
		.damaged = read_counter(&stats->damaged),
		.failed = read_counter(&stats->failed),
		.reads = read_counter(&stats->reads),
		.lists = read_counter(&stats->lists),
		.bytes = read_counter(&stats->bytes),
	};
}
