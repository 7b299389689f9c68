/* living_memory.c - the reverse map in memory.
 *
 * A chained hash table whose nodes stand in one array: a bucket holds the index
 * of its first node, a node the index of the next. Most miniruns have one entry,
 * so a node is an entry, not a minirun: 32 bytes and a bucket's 8, with nothing
 * allocated per entry unless keys are kept. A minirun's entries all share a
 * bucket, and their order in its chain is their rank: a new one goes to the end
 * of the chain, and doubling the buckets keeps the order within each half.
 *
 * Nodes taken out wait in a free list for the next put, so removing needs no
 * memory. The array never becomes smaller until the map is cleared.
 *
 * The table's own hash is not seeded: minirun ids come from a keyed hash, and
 * whoever does not know the secret cannot aim at a bucket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/reversemap.h>

#include "base/alloc.h"

#define NO_NODE UINT64_MAX
#define MIN_BUCKETS 16

struct node {
	uint64_t minirun;
	struct wn_hash hash;
	uint64_t next; /* in the chain, or in the free list */
};

struct kept_key {
	size_t size;
	unsigned char bytes[];
};

/* What wn_revmap_swap() exchanges. */
struct contents {
	uint64_t *buckets;
	uint64_t bucket_count; /* 0 or a power of two */
	struct node *nodes;
	struct kept_key **keys; /* beside nodes[]; NULL when keys are not kept */
	uint64_t node_capacity;
	uint64_t node_count; /* nodes ever used; those behind are untouched */
	uint64_t free_node;
	uint64_t entry_count;
};

struct memory_map {
	struct wn_revmap base;
	struct contents in;
};

static const struct wn_revmap_ops memory_ops;

static struct memory_map *to_memory(struct wn_revmap *map)
{
	return (struct memory_map *)map;
}

static const struct contents *contents_of(const struct wn_revmap *map)
{
	return &((const struct memory_map *)map)->in;
}

/* Every bit of the id must reach the low bits: the quotient stands on top and
 * the remainder's low bits are few. Multiply and fold twice, as finalizers do. */
static uint64_t mix_minirun(uint64_t minirun)
{
	minirun = (minirun ^ (minirun >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	minirun = (minirun ^ (minirun >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return minirun ^ (minirun >> 32);
}

static uint64_t bucket_of(const struct contents *in, uint64_t minirun)
{
	return mix_minirun(minirun) & (in->bucket_count - 1);
}

/* The link that points to the entry at `rank` of the minirun, or the chain's
 * last link if there is none; *passedp is the number of entries passed. The
 * table must have buckets. */
static uint64_t *find_link(const struct contents *in, uint64_t minirun, uint32_t rank,
			   uint32_t *passedp)
{
	uint64_t *link = &in->buckets[bucket_of(in, minirun)];
	uint32_t passed = 0;

	while (*link != NO_NODE) {
		struct node *node = &in->nodes[*link];

		if (node->minirun == minirun) {
			if (passed == rank)
				break;
			passed++;
		}
		link = &node->next;
	}
	*passedp = passed;
	return link;
}

/* ---- room --------------------------------------------------------------- */

/* Doubling splits the chain of bucket b over b and b + half; appending to each
 * in turn keeps the order. */
static void split_chain(struct contents *in, uint64_t bucket, uint64_t half)
{
	uint64_t *low = &in->buckets[bucket];
	uint64_t *high = &in->buckets[bucket + half];
	uint64_t index = *low;

	while (index != NO_NODE) {
		struct node *node = &in->nodes[index];

		if (bucket_of(in, node->minirun) == bucket) {
			*low = index;
			low = &node->next;
		} else {
			*high = index;
			high = &node->next;
		}
		index = node->next;
	}
	*low = NO_NODE;
	*high = NO_NODE;
}

static int grow_buckets(struct contents *in)
{
	uint64_t old_count = in->bucket_count;
	uint64_t new_count = old_count == 0 ? MIN_BUCKETS : old_count * 2;
	uint64_t *buckets;
	uint64_t b;

	if (new_count > SIZE_MAX / sizeof(*buckets))
		return ENOMEM;
	buckets = wn__realloc(in->buckets, (size_t)new_count * sizeof(*buckets));
	if (buckets == NULL)
		return ENOMEM;
	in->buckets = buckets;
	in->bucket_count = new_count;
	for (b = 0; b < old_count; b++)
		split_chain(in, b, old_count);
	for (b = old_count == 0 ? 0 : new_count; b < new_count; b++)
		buckets[b] = NO_NODE;
	return 0;
}

static int grow_nodes(struct contents *in, bool keep_keys)
{
	uint64_t capacity = in->node_capacity == 0 ? MIN_BUCKETS : in->node_capacity * 2;
	struct kept_key **keys;
	struct node *nodes;

	if (capacity > SIZE_MAX / sizeof(*nodes))
		return ENOMEM;
	nodes = wn__realloc(in->nodes, (size_t)capacity * sizeof(*nodes));
	if (nodes == NULL)
		return ENOMEM;
	in->nodes = nodes;
	if (keep_keys) {
		keys = wn__realloc(in->keys, (size_t)capacity * sizeof(struct kept_key *));
		if (keys == NULL)
			return ENOMEM;
		in->keys = keys;
	}
	in->node_capacity = capacity;
	return 0;
}

/* Make sure that one more entry fits. What was gained stays on failure: it is
 * room, not contents. */
static int reserve_entry(struct contents *in, bool keep_keys)
{
	int err;

	if (in->entry_count == in->bucket_count) {
		err = grow_buckets(in);
		if (err)
			return err;
	}
	if (in->free_node != NO_NODE || in->node_count < in->node_capacity)
		return 0;
	return grow_nodes(in, keep_keys);
}

static uint64_t take_node(struct contents *in)
{
	uint64_t index = in->free_node;

	if (index == NO_NODE)
		return in->node_count++;
	in->free_node = in->nodes[index].next;
	return index;
}

static struct kept_key *copy_key(const void *bytes, size_t size)
{
	struct kept_key *key;

	if (size > SIZE_MAX - sizeof(*key))
		return NULL;
	key = wn__alloc(sizeof(*key) + size);
	if (key == NULL)
		return NULL;
	key->size = size;
	if (size != 0)
		memcpy(key->bytes, bytes, size);
	return key;
}

/* ---- the store's functions ---------------------------------------------- */

static int memory_put(struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		      const struct wn_revmap_entry *entry)
{
	struct contents *in = &to_memory(map)->in;
	struct kept_key *key = NULL;
	uint64_t *link;
	uint64_t index;
	uint32_t passed;
	int err;

	err = reserve_entry(in, map->keeps_keys);
	if (err)
		return err;
	/* No entry has the highest rank, so this ends at the chain's end. */
	link = find_link(in, minirun, UINT32_MAX, &passed);
	if (passed != rank)
		return WN_ERR_INVALID;
	if (map->keeps_keys) {
		key = copy_key(entry->key, entry->key_size);
		if (key == NULL)
			return ENOMEM;
	}
	index = take_node(in);
	in->nodes[index] = (struct node){
		.minirun = minirun, .hash = entry->hash, .next = NO_NODE};
	if (map->keeps_keys)
		in->keys[index] = key;
	*link = index;
	in->entry_count++;
	return 0;
}

static void read_node(const struct contents *in, uint64_t index, struct wn_revmap_entry *entryp)
{
	entryp->hash = in->nodes[index].hash;
	entryp->key = NULL;
	entryp->key_size = 0;
	if (in->keys != NULL) {
		entryp->key = in->keys[index]->bytes;
		entryp->key_size = in->keys[index]->size;
	}
}

static int memory_get(const struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		      struct wn_revmap_entry *entryp)
{
	const struct contents *in = contents_of(map);
	const uint64_t *link;
	uint32_t passed;

	if (in->entry_count == 0)
		return WN_ERR_NOT_FOUND;
	link = find_link(in, minirun, rank, &passed);
	if (*link == NO_NODE)
		return WN_ERR_NOT_FOUND;
	read_node(in, *link, entryp);
	return 0;
}

static int memory_remove(struct wn_revmap *map, uint64_t minirun, uint32_t rank)
{
	struct contents *in = &to_memory(map)->in;
	uint64_t *link;
	uint64_t index;
	uint32_t passed;

	if (in->entry_count == 0)
		return WN_ERR_NOT_FOUND;
	link = find_link(in, minirun, rank, &passed);
	index = *link;
	if (index == NO_NODE)
		return WN_ERR_NOT_FOUND;
	*link = in->nodes[index].next;
	in->nodes[index].next = in->free_node;
	in->free_node = index;
	if (in->keys != NULL)
		free(in->keys[index]);
	in->entry_count--;
	return 0;
}

static int visit_chain(const struct contents *in, uint64_t bucket, wn_revmap_visit_fn *fn,
		       void *arg)
{
	uint64_t first = in->buckets[bucket];
	uint64_t index;
	int result;

	for (index = first; index != NO_NODE; index = in->nodes[index].next) {
		const struct node *node = &in->nodes[index];
		struct wn_revmap_entry entry;
		uint32_t rank = 0;
		uint64_t before;

		/* Chains are short; counting again is cheaper than remembering. */
		for (before = first; before != index; before = in->nodes[before].next)
			rank += in->nodes[before].minirun == node->minirun;
		read_node(in, index, &entry);
		result = fn(arg, node->minirun, rank, &entry);
		if (result != 0)
			return result;
	}
	return 0;
}

static int memory_visit(const struct wn_revmap *map, wn_revmap_visit_fn *fn, void *arg)
{
	const struct contents *in = contents_of(map);
	uint64_t b;
	int result;

	for (b = 0; b < in->bucket_count; b++) {
		result = visit_chain(in, b, fn, arg);
		if (result != 0)
			return result;
	}
	return 0;
}

static uint64_t memory_count(const struct wn_revmap *map)
{
	return contents_of(map)->entry_count;
}

static void free_kept_keys(const struct contents *in)
{
	uint64_t index, b;

	for (b = 0; b < in->bucket_count; b++)
		for (index = in->buckets[b]; index != NO_NODE; index = in->nodes[index].next)
			free(in->keys[index]);
}

static void memory_clear(struct wn_revmap *map)
{
	struct contents *in = &to_memory(map)->in;

	if (in->keys != NULL)
		free_kept_keys(in);
	free(in->buckets);
	free(in->nodes);
	free(in->keys);
	*in = (struct contents){.free_node = NO_NODE};
}

static void memory_destroy(struct wn_revmap *map)
{
	memory_clear(map);
	free(to_memory(map));
}

static int memory_create_like(const struct wn_revmap *map, struct wn_revmap **newp)
{
	return wn_revmap_memory_create(map->keeps_keys, newp);
}

static int memory_swap(struct wn_revmap *a, struct wn_revmap *b)
{
	struct contents held = to_memory(a)->in;

	to_memory(a)->in = to_memory(b)->in;
	to_memory(b)->in = held;
	return 0;
}

static const struct wn_revmap_ops memory_ops = {
	.put = memory_put,
	.get = memory_get,
	.remove = memory_remove,
	.visit = memory_visit,
	.count = memory_count,
	.clear = memory_clear,
	.destroy = memory_destroy,
	.create_like = memory_create_like,
	.swap = memory_swap,
};

int wn_revmap_memory_create(bool keep_keys, struct wn_revmap **mapp)
{
	struct memory_map *map;

	*mapp = NULL;
	map = wn__calloc(1, sizeof(*map));
	if (map == NULL)
		return ENOMEM;
	map->base.ops = &memory_ops;
	map->base.keeps_keys = keep_keys;
	map->in.free_node = NO_NODE;
	*mapp = &map->base;
	return 0;
}
