/* small_table.c - building a table of small filters; see small_table.h.
 *
 * A filter covers the keys of one data block, and is asked for what lies between them and its
 * neighbours'. Missing keys between two filters' keys may be asked of either. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "kinds/kind.h"
#include "learn_internal.h"
#include "small_table_internal.h"

/* More missing keys that its filters are wrong about than this a table does not remember: they
 * are false positives once more each. */
#define MAX_WRONG 65536

/* A filter that is built, while the keys behind it are not known. */
struct built {
	unsigned char *bytes; /* a copy, NULL: there is none */
	size_t size;
	void *last_key;
	size_t last_size;
};

/* A list that grows. */
struct hashes {
	struct wn_hash *all;
	size_t count, room;
};

struct wn__small_table {
	XXH3_state_t digest;     /* of its filters; first: aligned */
	struct wn__learn *learn; /* held */
	const struct wn__small_world *world;
	uint64_t number;
	struct wn__small_header header;
	bool begun;  /* there was a filter */
	bool ended;
	bool failed; /* keys are missing in the list below */
	struct hashes keys;
	struct hashes wrong; /* missing keys for which a filter says "maybe" */
	struct wn__missing_list *missing;
	size_t next_missing; /* the first behind the last filter's keys */
	struct built last;
};

static int append(struct hashes *list, const struct wn_hash *hashes, size_t count)
{
	size_t room = list->room ? list->room : 1024;
	struct wn_hash *all;

	while (room < list->count + count)
		room *= 2;
	if (room != list->room) {
		all = wn__realloc(list->all, room * sizeof(*all));
		if (!all)
			return ENOMEM;
		list->all = all;
		list->room = room;
	}
	memcpy(list->all + list->count, hashes, count * sizeof(*hashes));
	list->count += count;
	return 0;
}

static void empty(struct built *built)
{
	free(built->bytes);
	free(built->last_key);
	*built = (struct built){0};
}

/* ---- the missing keys among its own ------------------------------------- */

static bool is_behind(const struct wn__small_table *table, size_t at, struct wn__small_key key)
{
	const struct wn__missing_key *item = &table->missing->items[at];

	return wn__missing_compare(table->learn->missing, item->key, item->size, key.bytes,
				   key.size) > 0;
}

/* The first missing key from `at` on that comes behind the key. Mostly it is near. */
static size_t skip_to(const struct wn__small_table *table, size_t at, struct wn__small_key key)
{
	size_t step = 1, low = at, high = at;

	while (high < table->missing->count && !is_behind(table, high, key)) {
		low = high + 1;
		high += step;
		step *= 2;
	}
	if (high > table->missing->count)
		high = table->missing->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_behind(table, middle, key))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Those that will be asked of the filter of these keys: from `first` those before it and among
 * its keys, up to `end`; and of those behind, up to the next filter's unknown first key, about as
 * many as lie between two keys. */
static void find_negatives(const struct wn__small_table *table, size_t first, size_t end,
			   size_t keys, struct wn__small_input *input)
{
	const struct wn__missing_key *items = table->missing->items;
	size_t more = 1 + 2 * (end - first) / keys;

	if (more > table->missing->count - end)
		more = table->missing->count - end;
	end += more;
	if (first == end)
		return;
	input->negatives = wn__alloc((end - first) * sizeof(*input->negatives));
	for (size_t i = first; input->negatives && i < end; i++)
		input->negatives[input->negative_count++] =
			(struct wn__small_negative){items[i].hash, items[i].times};
}

/* Which of the missing keys does the filter take for its own? */
static void try_on(struct wn__small_table *table, const struct built *built, size_t first,
		   size_t end)
{
	for (size_t i = first; i < end && table->wrong.count < MAX_WRONG; i++) {
		const struct wn__missing_key *item = &table->missing->items[i];

		/* Without memory it costs a false positive. */
		if (wn__small_ask(built->bytes, built->size, table->world->secret_id, item->hash))
			(void)append(&table->wrong, &item->hash, 1);
	}
}

/* ---- filters ------------------------------------------------------------ */

static void count_built(const struct wn__small_world *world, uint32_t keys, size_t size)
{
	wn__count(world->metrics, filters_built, 1);
	wn__count(world->metrics, filter_keys, keys);
	wn__count(world->metrics, filter_bytes, size);
}

static void build(const struct wn__small_world *world, struct wn__small_input *input,
		  const struct wn__small_header *header, unsigned char **bytesp, size_t *sizep)
{
	size_t denied;

	if (wn__small_build(input, world->secret_id, header, bytesp, sizep, &denied))
		return;
	count_built(world, input->key_count, *sizep);
	wn__count(world->metrics, carried_over, denied);
}

static bool remember(const struct wn__small_block *block, const unsigned char *bytes, size_t size,
		     struct built *built)
{
	*built = (struct built){.bytes = wn__alloc(size), .size = size,
				.last_key = wn__alloc(block->last.size),
				.last_size = block->last.size};
	if (!built->bytes || !built->last_key) {
		empty(built);
		return false;
	}
	memcpy(built->bytes, bytes, size);
	if (block->last.size)
		memcpy(built->last_key, block->last.bytes, block->last.size);
	return true;
}

static void add_known(struct wn__small_table *table, const struct wn__small_block *block,
		      struct wn__small_input *input, const struct wn__small_header *header,
		      unsigned char **bytesp, size_t *sizep)
{
	/* Nothing before the table's first key is asked of it. */
	size_t start = table->begun ? table->next_missing : skip_to(table, 0, block->first);
	size_t own = skip_to(table, start, block->first);
	size_t end = skip_to(table, own, block->last);
	struct built built;

	if (input->config->kind->wants_costs)
		find_negatives(table, start, end, block->count, input);
	build(table->world, input, header, bytesp, sizep);
	free(input->negatives);
	table->next_missing = end;
	if (!*bytesp || !remember(block, *bytesp, *sizep, &built)) {
		empty(&table->last);
		return;
	}
	if (table->last.bytes)
		try_on(table, &table->last, start, own);
	try_on(table, &built, start, end);
	empty(&table->last);
	table->last = built;
}

void wn__small_table_add(struct wn__small_table *table, const struct wn__small_world *world,
			 const struct wn__small_block *block, unsigned char **bytesp,
			 size_t *sizep)
{
	struct wn__small_input input = {.config = world->config, .keys = block->hashes};
	const struct wn__small_header *header = table && !table->begun ? &table->header : NULL;

	*bytesp = NULL;
	*sizep = 0;
	input.key_count = (uint32_t)wn__small_sort(block->hashes, block->count);
	if (input.key_count == 0)
		return;
	if (table && append(&table->keys, block->hashes, input.key_count))
		table->failed = true;
	if (table && table->missing)
		add_known(table, block, &input, header, bytesp, sizep);
	else
		build(world, &input, header, bytesp, sizep);
	if (table && *bytesp) {
		XXH3_128bits_update(&table->digest, *bytesp, *sizep);
		table->begun = true;
	}
}

/* ---- a table's beginning and end ---------------------------------------- */

/* NULL: no missing key is known, or there is no memory to learn from them. */
static struct wn__missing_list *get_missing(struct wn__missing *missing)
{
	struct wn__missing_list *list = missing ? wn__missing_list(missing, false) : NULL;

	if (!list || list->count)
		return list;
	wn__missing_release(missing, list);
	return NULL;
}

struct wn__small_table *wn__small_table_begin(struct wn__learn *learn,
					      const struct wn__small_world *world,
					      uint64_t number)
{
	struct wn__small_table *table = wn__alloc_table(sizeof(*table));

	/* A crash may have left key lists of another file with this number. */
	wn__learn_table_gone(learn, number);
	if (!table)
		return NULL;
	if (wn__random(table->header.id, sizeof(table->header.id))) {
		free(table);
		return NULL;
	}
	XXH3_128bits_reset(&table->digest);
	table->header.secret_sum = world->secret_sum;
	table->learn = wn__learn_hold(learn);
	table->world = world;
	table->number = number;
	table->missing = get_missing(learn->missing);
	return table;
}

/* The stored keys in the minirun of the hash. */
static size_t find_minirun(const struct hashes *keys, uint64_t minirun, size_t *firstp)
{
	size_t low = 0, high = keys->count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (wn__hash_minirun(keys->all[middle], WN__SMALL_SLOTS,
				     WN__PLAIN_REMAINDER_BITS) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	*firstp = low;
	for (end = low; end < keys->count; end++)
		if (wn__hash_minirun(keys->all[end], WN__SMALL_SLOTS, WN__PLAIN_REMAINDER_BITS) !=
		    minirun)
			break;
	return end - low;
}

/* All keys of the table are here, in order: a minirun's are those that are found. */
static void learn_wrong(struct wn__small_table *table, const unsigned char *id)
{
	struct wn__shape shape = {WN__SMALL_SLOTS, WN__PLAIN_REMAINDER_BITS};
	struct wn__lessons *lessons;
	size_t learned = 0;

	if (table->wrong.count == 0 || wn__registry_acquire(table->learn->registry, id,
							    shape, &lessons))
		return;
	for (size_t i = 0; i < table->wrong.count; i++) {
		struct wn_hash hash = table->wrong.all[i];
		uint64_t minirun = wn__hash_minirun(hash, shape.slots, shape.remainder_bits);
		size_t first, count = find_minirun(&table->keys, minirun, &first);

		learned += wn__lessons_learn_minirun(lessons, table->keys.all + first,
						     (uint32_t)count, hash, minirun) == 0;
	}
	wn__count(&table->learn->metrics, carried_over, learned);
	wn__lessons_release(lessons);
}

/* The keys' upper halves, in a new array. */
static uint64_t *take_uppers(const struct hashes *keys)
{
	uint64_t *uppers = wn__alloc(keys->count * sizeof(*uppers));

	for (size_t i = 0; uppers && i < keys->count; i++)
		uppers[i] = keys->all[i].hi;
	return uppers;
}

static void hand_over(struct wn__small_table *table, const unsigned char *id)
{
	uint64_t *uppers = take_uppers(&table->keys);
	struct wn__keylist list = {
		.key_count = table->keys.count,
		.slots = WN__SMALL_SLOTS,
		.secret_id = table->world->secret->id,
		.remainder_bits = WN__PLAIN_REMAINDER_BITS,
		.plain = true,
		.owner = table->number,
	};

	memcpy(list.id, id, sizeof(list.id));
	wn__worker_put(table->learn, &list, uppers);
}

void wn__small_table_end(struct wn__small_table *table)
{
	unsigned char id[WN_BLOCK_ID_SIZE];

	if (!table || table->ended)
		return;
	table->ended = true;
	if (!table->begun)
		return;
	if (!table->failed)
		table->keys.count = wn__small_sort(table->keys.all, table->keys.count);
	if (table->failed || table->keys.count == 0) {
		wn__count(&table->learn->metrics, key_lists_lost, 1);
		return;
	}
	wn__small_table_id(XXH3_128bits_digest(&table->digest), id);
	learn_wrong(table, id);
	hand_over(table, id);
}

void wn__small_table_free(struct wn__small_table *table)
{
	if (!table)
		return;
	wn__small_table_end(table);
	if (table->missing)
		wn__missing_release(table->learn->missing, table->missing);
	empty(&table->last);
	free(table->keys.all);
	free(table->wrong.all);
	wn__learn_release(table->learn);
	free(table);
}
