/* builder.c - from keys in any order to a block: what all kinds of filters share. */
#include <errno.h>
#include <stdlib.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/pile.h"
#include "base/secret.h"
#include "base/sort.h"
#include "block_build.h"
#include "block_format.h"
#include "kind.h"

/* ---- hashes as they come ------------------------------------------------ */

/* Each chunk is as large as all before it together, between these bounds: a
 * filter of 36 keys costs one page, and a large one is never copied to grow. */
#define MIN_CHUNK_HASHES ((size_t)252) /* with the header, just under 4 KiB */
/* With the header 4 MiB, which come as huge pages: 10 M keys in 32 ns each, not 40. */
#define MAX_CHUNK_HASHES (((size_t)4 << 20) / sizeof(struct wn_hash) - 1)

struct chunk {
	struct chunk *next;
	size_t capacity;
	struct wn_hash hashes[];
};

/* All chunks before the current one are full, those after it empty. */
struct hash_list {
	struct chunk *first;
	struct chunk *current;
	struct wn_hash *at;  /* where the next hash goes, in the current chunk */
	struct wn_hash *end; /* equal to `at` when that chunk is full or missing */
	struct wn_hash last; /* the hash added last, if any */
	size_t count;
};

static void use_chunk(struct hash_list *list, struct chunk *chunk)
{
	list->current = chunk;
	list->at = chunk ? chunk->hashes : NULL;
	list->end = chunk ? chunk->hashes + chunk->capacity : NULL;
}

static int add_chunk(struct hash_list *list)
{
	size_t capacity = list->count;
	struct chunk *chunk;

	if (capacity < MIN_CHUNK_HASHES)
		capacity = MIN_CHUNK_HASHES;
	if (capacity > MAX_CHUNK_HASHES)
		capacity = MAX_CHUNK_HASHES;
	chunk = wn__alloc_large(sizeof(*chunk) + capacity * sizeof(chunk->hashes[0]));
	if (!chunk)
		return ENOMEM;
	chunk->next = NULL;
	chunk->capacity = capacity;
	*(list->current ? &list->current->next : &list->first) = chunk;
	use_chunk(list, chunk);
	return 0;
}

static int next_chunk(struct hash_list *list)
{
	if (!list->current || !list->current->next)
		return add_chunk(list);
	use_chunk(list, list->current->next);
	return 0;
}

/* Adding one hash twice in a row is common (versions of a key, its prefixes)
 * and free to notice; the rest is found after sorting. */
static inline int append(struct hash_list *list, struct wn_hash hash)
{
	/* Keep them in registers. Left alone, gcc 12 swaps the halves through memory: two
	 * stores and a wider load that must wait for both, 5 ns a key. */
	__asm__("" : "+r"(hash.hi), "+r"(hash.lo));
	if (list->count && wn_hash_compare(list->last, hash) == 0)
		return 0;
	if (list->at == list->end) {
		int err = next_chunk(list);

		if (err)
			return err;
	}
	*list->at++ = hash;
	list->last = hash;
	list->count++;
	return 0;
}

static void empty_list(struct hash_list *list)
{
	use_chunk(list, list->first);
	list->count = 0;
}

static void free_list(struct hash_list *list)
{
	struct chunk *chunk = list->first;

	while (chunk) {
		struct chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

/* ---- what the negatives cost ------------------------------------------- */

#define MAX_COST 1e15

/* Beside a hash_list: costs[i] is that of the list's hash i. */
struct cost_list {
	double *costs;
	size_t capacity;
};

static int make_room(struct cost_list *list, size_t count)
{
	size_t capacity = list->capacity ? list->capacity : MIN_CHUNK_HASHES;
	double *costs;

	if (count <= list->capacity)
		return 0;
	while (capacity < count)
		capacity *= 2;
	costs = wn__realloc(list->costs, capacity * sizeof(*costs));
	if (!costs)
		return ENOMEM;
	list->costs = costs;
	list->capacity = capacity;
	return 0;
}

static int append_costly(struct hash_list *hashes, struct cost_list *costs, struct wn_hash hash,
			 double cost)
{
	size_t count = hashes->count;
	int err = make_room(costs, count + 1);

	if (!err)
		err = append(hashes, hash);
	if (err)
		return err;
	if (hashes->count > count)
		costs->costs[count] = cost;
	else
		costs->costs[count - 1] += cost; /* the same as the one before */
	return 0;
}

/* ---- hashes in order ---------------------------------------------------- */

struct hash_array {
	struct wn_hash *hashes;
	size_t count;
};

/* Show every piece of the list to the sorter. */
static int show_list(const struct hash_list *list, struct wn__sorter *sorter, bool scatter)
{
	size_t left = list->count;
	int err = 0;

	for (const struct chunk *chunk = list->first; left && !err; chunk = chunk->next) {
		size_t count = left < chunk->capacity ? left : chunk->capacity;

		if (scatter)
			err = wn__sorter_scatter(sorter, chunk->hashes, count);
		else
			wn__sorter_count(sorter, chunk->hashes, count);
		left -= count;
	}
	return err;
}

/* The list's hashes ascending, each once. */
static int sort_list(const struct hash_list *list, struct hash_array *arrayp)
{
	struct wn__sorter sorter;
	int err;

	*arrayp = (struct hash_array){ NULL, 0 };
	err = wn__sorter_begin(&sorter, list->count);
	if (err)
		return err;
	show_list(list, &sorter, false);
	err = show_list(list, &sorter, true);
	arrayp->count = wn__sorter_end(&sorter, err ? NULL : &arrayp->hashes);
	return err;
}

/* How far from a hash `from` a hash `to` should be, among `count` evenly spread ones. */
static size_t distance(uint64_t from, uint64_t to, size_t count)
{
	return (size_t)((wn__u128)(to - from) * count >> 64);
}

/* About where `hash` is in the array. Twice is worth it: the first guess is off by the
 * square root of their number, the second by the square root of that. */
static size_t guess(const struct hash_array *array, struct wn_hash hash)
{
	size_t at = distance(0, hash.hi, array->count);

	for (unsigned i = 0; i < 2; i++) {
		uint64_t here = array->hashes[at].hi;

		if (here <= hash.hi)
			at += distance(here, hash.hi, array->count);
		else
			at -= at < distance(hash.hi, here, array->count) ?
				      at : distance(hash.hi, here, array->count);
		at = at < array->count ? at : array->count - 1;
	}
	return at;
}

/* Where `hash` is in the array; it is there. From the guess on by doubled steps, so that
 * crafted hashes are found soon enough, too. */
static size_t find(const struct hash_array *array, struct wn_hash hash)
{
	size_t at = guess(array, hash);
	size_t low = at, high = at + 1;

	for (size_t step = 1; low && wn_hash_compare(array->hashes[low], hash) > 0; step *= 2)
		low = low > step ? low - step : 0;
	for (size_t step = 1; high < array->count; step *= 2) {
		if (wn_hash_compare(array->hashes[high], hash) > 0)
			break;
		high = array->count - high > step ? high + step : array->count;
	}
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (wn_hash_compare(array->hashes[middle], hash) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The costs of the sorted hashes: of each, the sum of what was given. */
static int sort_costs(const struct hash_list *list, const struct cost_list *given,
		      const struct hash_array *array, double **costsp)
{
	size_t done = 0;

	*costsp = wn__calloc(array->count ? array->count : 1, sizeof(**costsp));
	if (!*costsp)
		return ENOMEM;
	for (const struct chunk *chunk = list->first; done < list->count; chunk = chunk->next) {
		for (size_t i = 0; i < chunk->capacity && done < list->count; i++, done++)
			(*costsp)[find(array, chunk->hashes[i])] += given->costs[done];
	}
	return 0;
}

/* ---- keys ---------------------------------------------------------------- */

/* A block's keys: one of the two arrays is there, as the kind wants it. */
struct key_array {
	struct wn_hash *hashes;
	uint64_t *uppers;
	size_t count;
};

static void free_keys(struct key_array *keys)
{
	free(keys->hashes);
	free(keys->uppers);
	*keys = (struct key_array){0};
}

/* Is the hash above, a key, or below key number `at`? */
static int compare_key(const struct key_array *keys, size_t at, struct wn_hash hash)
{
	if (keys->hashes)
		return wn_hash_compare(hash, keys->hashes[at]);
	return hash.hi < keys->uppers[at] ? -1 : hash.hi > keys->uppers[at];
}

/* Take out of `array` what is in `keys` too, and its costs, if there are any. */
static void drop_keys(struct hash_array *array, double *costs, const struct key_array *keys)
{
	size_t kept = 0, key = 0;

	for (size_t i = 0; i < array->count; i++) {
		struct wn_hash hash = array->hashes[i];

		while (key < keys->count && compare_key(keys, key, hash) > 0)
			key++;
		if (key < keys->count && compare_key(keys, key, hash) == 0)
			continue;
		if (costs)
			costs[kept] = costs[i];
		array->hashes[kept++] = hash;
	}
	array->count = kept;
}

/* ---- build -------------------------------------------------------------- */

struct wn_builder {
	struct wn__pile uppers; /* of the keys, or, where the kind wants more: */
	struct hash_list keys;
	bool upper_halves;
	const struct wn_secret *secret;
	struct hash_list negatives;
	struct cost_list costs; /* of the negatives */
	struct key_array finished; /* of the last block; empty before */
	struct wn_block_info info; /* of the last block; version 0 before */
	const struct wn__block_memory *memory;
	struct wn_config config;
	struct wn__id_row ids; /* of its filters */
};

int wn_builder_create(const struct wn_config *config, const struct wn_secret *secret,
		      struct wn_builder **builderp)
{
	const struct wn__kind *kind;
	struct wn_builder *builder;

	*builderp = NULL;
	if (!secret)
		return WN_ERR_INVALID;
	builder = wn__calloc(1, sizeof(*builder));
	if (!builder)
		return ENOMEM;
	if (config)
		builder->config = *config;
	else
		wn__config_init(&builder->config, wn__kind_at(0));
	builder->secret = secret;
	kind = builder->config.kind;
	builder->upper_halves = kind->upper_halves && kind->upper_halves(&builder->config);
	wn__pile_init(&builder->uppers);
	*builderp = builder;
	return 0;
}

void wn_builder_destroy(struct wn_builder *builder)
{
	if (!builder)
		return;
	wn__pile_fini(&builder->uppers);
	free_list(&builder->keys);
	free_list(&builder->negatives);
	free(builder->costs.costs);
	free_keys(&builder->finished);
	free(builder);
}

WN__INLINE int add_hash(struct wn_builder *builder, struct wn_hash hash)
{
	if (WN__LIKELY(builder->upper_halves))
		return wn__pile_add(&builder->uppers, hash.hi);
	return append(&builder->keys, hash);
}

int wn_builder_add(struct wn_builder *builder, const void *key, size_t size)
{
	return add_hash(builder, wn__hash_key(builder->secret, key, size));
}

int wn_builder_add_hash(struct wn_builder *builder, struct wn_hash hash)
{
	return add_hash(builder, hash);
}

int wn_builder_add_negative(struct wn_builder *builder, struct wn_hash hash)
{
	return append_costly(&builder->negatives, &builder->costs, hash, 1);
}

int wn_builder_add_costly(struct wn_builder *builder, struct wn_hash hash, double cost)
{
	if (!(cost > 0 && cost <= MAX_COST))
		return WN_ERR_INVALID;
	return append_costly(&builder->negatives, &builder->costs, hash, cost);
}

size_t wn_builder_count(const struct wn_builder *builder)
{
	return builder->upper_halves ? builder->uppers.count : builder->keys.count;
}

static int sort_keys(const struct wn_builder *builder, struct key_array *keysp)
{
	struct hash_array sorted;
	int err;

	*keysp = (struct key_array){0};
	if (builder->upper_halves)
		return wn__pile_sort(&builder->uppers, &keysp->uppers, &keysp->count);
	err = sort_list(&builder->keys, &sorted);
	keysp->hashes = sorted.hashes;
	keysp->count = sorted.count;
	return err;
}

static int build_block(struct wn_builder *builder, const struct key_array *keys,
		       const struct hash_array *negatives, const double *costs,
		       struct wn__block_writer *writer)
{
	const struct wn__kind *kind = builder->config.kind;
	unsigned char params[WN_BLOCK_PARAMS_SIZE] = { 0 };
	struct wn__build_input input = {
		.config = &builder->config,
		.keys = keys->hashes,
		.uppers = keys->uppers,
		.key_count = keys->count,
		.negatives = negatives->hashes,
		.negative_count = negatives->count,
		.costs = costs,
	};
	int err = kind->build(&input, writer, params);

	writer->row = &builder->ids;
	if (!err)
		err = wn__block_end(writer, kind->id, params, keys->count, builder->secret);
	return err;
}

static struct wn_block_info info_of(const struct wn_builder *builder,
				    const struct wn__block_writer *writer)
{
	struct wn_block_info info = {
		.version = WN__BLOCK_VERSION,
		.kind = builder->config.kind->id,
		.key_count = builder->finished.count,
		.secret_id = builder->secret->id,
		.payload_size = writer->payload_size,
	};

	wn__block_get_id(writer->block, info.id);
	wn__block_get_seed(writer->block, info.seed);
	wn__block_get_params(writer->block, info.params);
	return info;
}

/* Key lists keep upper halves, whatever the kind. */
static int finish_keys(struct wn_builder *builder, struct key_array *keys)
{
	if (!keys->uppers) {
		keys->uppers = wn__alloc(keys->count * sizeof(*keys->uppers));
		if (!keys->uppers)
			return ENOMEM;
		for (size_t i = 0; i < keys->count; i++)
			keys->uppers[i] = keys->hashes[i].hi;
	}
	free_keys(&builder->finished);
	builder->finished = *keys;
	*keys = (struct key_array){0};
	return 0;
}

int wn_builder_finish(struct wn_builder *builder, void **blockp, size_t *sizep)
{
	struct hash_array negatives = { NULL, 0 };
	struct key_array keys = {0};
	struct wn__block_writer writer = {.memory = builder->memory};
	double *costs = NULL;
	int err;

	*blockp = NULL;
	*sizep = 0;
	err = sort_keys(builder, &keys);
	if (err)
		goto err;
	err = sort_list(&builder->negatives, &negatives);
	if (err)
		goto err;
	if (builder->config.kind->wants_costs)
		err = sort_costs(&builder->negatives, &builder->costs, &negatives, &costs);
	if (err)
		goto err;
	drop_keys(&negatives, costs, &keys);
	err = build_block(builder, &keys, &negatives, costs, &writer);
	if (!err)
		err = finish_keys(builder, &keys);
	if (err)
		goto err;
	builder->info = info_of(builder, &writer);
	*blockp = writer.block;
	*sizep = writer.size;
	writer.block = NULL;
err:
	wn__block_abandon(&writer);
	free_keys(&keys);
	free(negatives.hashes);
	free(costs);
	return err;
}

void wn__builder_use_memory(struct wn_builder *builder, const struct wn__block_memory *memory)
{
	builder->memory = memory;
}

const struct wn_block_info *wn__builder_info(const struct wn_builder *builder)
{
	return builder->info.version ? &builder->info : NULL;
}

uint64_t *wn__builder_take_uppers(struct wn_builder *builder)
{
	uint64_t *uppers = builder->finished.uppers;

	builder->finished.uppers = NULL;
	free_keys(&builder->finished);
	return uppers;
}

const uint64_t *wn_builder_uppers(const struct wn_builder *builder, size_t *countp)
{
	*countp = builder->finished.count;
	return builder->finished.uppers;
}

bool wn__builder_is_in(const struct wn_builder *builder, const struct wn_filter *filter)
{
	const struct key_array *keys = &builder->finished;

	for (size_t i = 0; i < keys->count; i++) {
		struct wn_hash hash = keys->hashes ? keys->hashes[i] :
						     (struct wn_hash){keys->uppers[i], 0};

		if (!wn_filter_query_hash(filter, hash, NULL))
			return false;
	}
	return true;
}

void wn_builder_reset(struct wn_builder *builder)
{
	wn__pile_empty(&builder->uppers);
	empty_list(&builder->keys);
	empty_list(&builder->negatives);
	free_keys(&builder->finished);
	builder->info.version = 0;
}
