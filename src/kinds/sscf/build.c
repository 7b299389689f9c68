/* build.c - building a frozen seesaw counting filter.
 *
 * The paper's filter does not know which keys will come, so it seals every cell of every
 * vulnerable key, and a tenth of all keys and more have a function modulated. A table
 * builder has all keys and all vulnerable keys at hand. It first sets the cells of all
 * keys, by their initial functions, and looks which vulnerable keys are false positives:
 * at 12 bits a key three or four in a thousand. For each of these, the costliest first, it
 * seals one cell: the keys that set the cell, mostly a single one, are modulated to
 * another function, and the cell is emptied. A change that would make another vulnerable
 * key a false positive is taken back, and another one tried.
 *
 * So few functions are modulated that the modulator is small and seldom hit by chance:
 * keys that nobody listed have nearly the rate of a Bloom filter of the same size. The
 * bits and the two-round query are the paper's.
 *
 * All of a key's cells lie in one block, and keys and negatives come sorted by hash, hence
 * by block: who uses a cell is found by going through the block's keys. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "sscf_frozen.h"
#include "sscf_theory.h"

#define MODULATOR_BITS 2 /* three backup functions */
#define MAX_USERS 3      /* keys that are modulated to empty one cell */
#define PASSES 2
#define VARIANTS 8

struct builder {
	const struct wn__build_input *input;
	struct wn__sscf_frozen frozen; /* over the bytes below */
	unsigned char *cells;
	unsigned char *modulator;
	unsigned char *moved; /* by key: 0, or the initial function given up plus one */

	/* The vulnerable keys that are served: numbers of negatives, ascending. */
	uint32_t *served;
	size_t served_count;
	bool *wrong; /* by served key: it is a false positive now */
	double expected; /* false positives among them */

	/* Served keys by their modulator cell: those of cell j are
	 * by_cell[starts[j]] to before by_cell[starts[j + 1]]. */
	uint32_t *starts;
	uint32_t *by_cell;
};

/* ---- whom to serve ------------------------------------------------------ */

static int pick_served(struct builder *builder, const struct wn__sscf_choice *choice)
{
	const struct wn__build_input *input = builder->input;
	uint64_t of_class = choice->of_class;

	if (choice->vulnerable == 0)
		return 0;
	builder->served = wn__alloc(choice->vulnerable * sizeof(*builder->served));
	if (!builder->served)
		return ENOMEM;
	for (size_t i = 0; i < input->negative_count; i++) {
		unsigned at = wn__sscf_cost_class(input->costs ? input->costs[i] : 1);

		if (at < choice->cost_class || (at == choice->cost_class && of_class == 0))
			continue;
		of_class -= at == choice->cost_class;
		builder->served[builder->served_count++] = (uint32_t)i;
	}
	return 0;
}

static double option(const struct wn__build_input *input, enum wn__sscf_option at)
{
	return input->config->values[at];
}

/* The parameters, by formula. */
static int choose(struct builder *builder, struct wn__sscf_costs *costs)
{
	const struct wn__build_input *input = builder->input;
	uint64_t keys = input->key_count;
	double bits_per_key = option(input, WN__SSCF_BITS_PER_KEY);
	unsigned hashes = (unsigned)option(input, WN__SSCF_HASHES);
	double bits = bits_per_key * (double)keys;
	double limit = option(input, WN__SSCF_VULNERABLE_SHARE) * (double)keys;
	struct wn__sscf_choice choice = {0};
	struct wn__sscf_shape shape;

	if (keys == 0) {
		builder->frozen.params = (struct wn__sscf_params){
			.hashes = 1, .block_cells = 8, .blocks = 1};
		return 0;
	}
	if (bits > (double)UINT32_MAX * 512)
		return WN_ERR_INVALID;
	shape = wn__sscf_choose_shape((uint64_t)bits, keys, hashes);
	if (input->negative_count > 0 && input->negative_count <= UINT32_MAX) {
		wn__sscf_class_costs(input->costs, input->negative_count, costs);
		choice = wn__sscf_choose_vulnerable(costs, keys, bits_per_key, shape.rate,
						    shape.hashes, MODULATOR_BITS,
						    option(input, WN__SSCF_LISTED_SHARE),
						    limit < 4e9 ? (uint64_t)limit : UINT32_MAX);
	}
	/* As if the modulator cannot be larger than a quarter, which it never should. */
	if ((double)choice.modulator_cells * MODULATOR_BITS * 4 > bits ||
	    choice.modulator_cells > UINT32_MAX / 2)
		choice = (struct wn__sscf_choice){0};
	if (choice.modulator_cells > 0)
		shape = wn__sscf_choose_shape(
			(uint64_t)bits - choice.modulator_cells * MODULATOR_BITS, keys, hashes);
	builder->frozen.params = (struct wn__sscf_params){
		.hashes = shape.hashes,
		.modulator_bits = choice.modulator_cells ? MODULATOR_BITS : 0,
		.block_cells = shape.block_cells,
		.blocks = shape.blocks,
		.modulator_cells = (uint32_t)choice.modulator_cells,
	};
	builder->expected = (double)choice.vulnerable * shape.rate;
	return pick_served(builder, &choice);
}

/* ---- cells -------------------------------------------------------------- */

static struct wn_hash key_hash(const struct builder *builder, size_t key)
{
	return wn__sscf_vary(builder->input->keys[key], builder->frozen.params.variant);
}

/* As it was given: wn__sscf_query() varies it. */
static struct wn_hash served_hash(const struct builder *builder, size_t at)
{
	return builder->input->negatives[builder->served[at]];
}

static uint64_t block_start(const struct builder *builder, struct wn_hash hash)
{
	const struct wn__sscf_params *params = &builder->frozen.params;

	return wn__sscf_block(hash, params->blocks) * params->block_cells;
}

static void set_keys(struct builder *builder)
{
	const struct wn__build_input *input = builder->input;
	const struct wn__sscf_params *params = &builder->frozen.params;

	for (size_t key = 0; key < input->key_count; key++) {
		struct wn_hash hash = key_hash(builder, key);
		uint64_t block = block_start(builder, hash);

		for (unsigned i = 0; i < params->hashes; i++)
			wn__sscf_set_bit(builder->cells,
					 block + wn__sscf_place(hash, i, params->block_cells));
	}
}

static unsigned modulator_value(const struct builder *builder, uint32_t cell)
{
	return wn__sscf_modulator_value(&builder->frozen, cell);
}

static void put_modulator(struct builder *builder, uint32_t cell, unsigned value)
{
	wn__sscf_put_bits(builder->modulator, (uint64_t)cell * MODULATOR_BITS, MODULATOR_BITS,
			  value);
}

static bool is_wrong(const struct builder *builder, size_t at)
{
	return wn__sscf_query(&builder->frozen, served_hash(builder, at), NULL);
}

/* ---- emptying a cell ---------------------------------------------------- */

/* Keys and served keys of one block. */
struct range {
	size_t first, end;
};

static struct range keys_of_block(const struct builder *builder, uint64_t block)
{
	const struct wn__build_input *input = builder->input;
	uint32_t blocks = builder->frozen.params.blocks;
	struct range range;
	size_t bounds[2];

	for (unsigned side = 0; side < 2; side++) {
		size_t low = 0, high = input->key_count;

		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (wn__sscf_block(input->keys[middle], blocks) < block + side)
				low = middle + 1;
			else
				high = middle;
		}
		bounds[side] = low;
	}
	range = (struct range){bounds[0], bounds[1]};
	return range;
}

static struct range served_of_block(const struct builder *builder, size_t at)
{
	uint32_t blocks = builder->frozen.params.blocks;
	uint64_t block = wn__sscf_block(served_hash(builder, at), blocks);
	struct range range = {at, at + 1};

	while (range.first > 0 &&
	       wn__sscf_block(served_hash(builder, range.first - 1), blocks) == block)
		range.first--;
	while (range.end < builder->served_count &&
	       wn__sscf_block(served_hash(builder, range.end), blocks) == block)
		range.end++;
	return range;
}

/* Who uses one cell: found for all cells of a vulnerable key at once. */
struct users {
	size_t keys[MAX_USERS];
	unsigned functions[MAX_USERS];
	unsigned count;
	bool stuck; /* too many, or one that cannot be modulated */
};

static void add_user(struct users *users, size_t key, unsigned function, bool is_moved)
{
	for (unsigned i = 0; i < users->count; i++)
		if (users->keys[i] == key)
			users->stuck = true; /* two of its functions are here */
	if (users->count == MAX_USERS || is_moved)
		users->stuck = true;
	if (users->stuck)
		return;
	users->keys[users->count] = key;
	users->functions[users->count++] = function;
}

/* The places of a key's functions in use; a modulated key has the backup's in the place
 * of the one given up. */
static void places_of_key(const struct builder *builder, size_t key, uint64_t *places)
{
	const struct wn__sscf_params *params = &builder->frozen.params;
	struct wn_hash hash = key_hash(builder, key);
	unsigned moved = builder->moved[key];

	for (unsigned i = 0; i < params->hashes; i++)
		places[i] = wn__sscf_place(hash, i, params->block_cells);
	if (moved) {
		uint32_t cell = wn__sscf_modulator_cell(hash, params->modulator_cells);
		unsigned function = params->hashes + modulator_value(builder, cell) - 1;

		places[moved - 1] = wn__sscf_place(hash, function, params->block_cells);
	}
}

static void find_users(const struct builder *builder, struct wn_hash hash, struct users *users)
{
	const struct wn__sscf_params *params = &builder->frozen.params;
	struct range keys = keys_of_block(builder, wn__sscf_block(hash, params->blocks));
	uint64_t wanted[WN__SSCF_MAX_HASHES], places[WN__SSCF_MAX_HASHES];

	memset(users, 0, params->hashes * sizeof(*users));
	for (unsigned i = 0; i < params->hashes; i++)
		wanted[i] = wn__sscf_place(hash, i, params->block_cells);
	for (size_t key = keys.first; key < keys.end; key++) {
		places_of_key(builder, key, places);
		for (unsigned i = 0; i < params->hashes; i++)
			for (unsigned at = 0; at < params->hashes; at++)
				if (places[i] == wanted[at])
					add_user(&users[at], key, i, builder->moved[key] != 0);
	}
}

/* A change, so that it can be taken back. */
struct change {
	uint64_t emptied;
	unsigned count;
	struct {
		size_t key;
		uint64_t cell; /* of the backup function */
		uint32_t modulator;
		unsigned old_value;
		bool was_set;
	} moves[MAX_USERS];
};

static void undo(struct builder *builder, const struct change *change)
{
	wn__sscf_set_bit(builder->cells, change->emptied);
	for (unsigned i = change->count; i-- > 0;) {
		if (!change->moves[i].was_set)
			wn__sscf_clear_bit(builder->cells, change->moves[i].cell);
		put_modulator(builder, change->moves[i].modulator, change->moves[i].old_value);
		builder->moved[change->moves[i].key] = 0;
	}
}

/* Modulate one key. `turn`: which of the backup functions to try first. */
static bool move_key(struct builder *builder, struct change *change, size_t key,
		     unsigned function, unsigned turn)
{
	const struct wn__sscf_params *params = &builder->frozen.params;
	struct wn_hash hash = key_hash(builder, key);
	uint32_t modulator = wn__sscf_modulator_cell(hash, params->modulator_cells);
	unsigned old_value = modulator_value(builder, modulator);
	unsigned value = old_value ? old_value : 1 + turn;
	uint64_t cell = block_start(builder, hash) +
			wn__sscf_place(hash, params->hashes + value - 1, params->block_cells);

	if (cell == change->emptied || (old_value && turn > 0))
		return false;
	change->moves[change->count].key = key;
	change->moves[change->count].cell = cell;
	change->moves[change->count].modulator = modulator;
	change->moves[change->count].old_value = old_value;
	change->moves[change->count++].was_set = wn__sscf_bit(builder->cells, cell);
	wn__sscf_set_bit(builder->cells, cell);
	put_modulator(builder, modulator, value);
	builder->moved[key] = (unsigned char)(function + 1);
	return true;
}

/* Did the change make a served key a false positive that was none? */
static bool does_harm(const struct builder *builder, const struct change *change,
		      struct range neighbours)
{
	for (size_t at = neighbours.first; at < neighbours.end; at++)
		if (!builder->wrong[at] && is_wrong(builder, at))
			return true;
	for (unsigned i = 0; i < change->count; i++) {
		uint32_t cell = change->moves[i].modulator;

		if (change->moves[i].old_value)
			continue;
		for (uint32_t at = builder->starts[cell]; at < builder->starts[cell + 1]; at++)
			if (!builder->wrong[builder->by_cell[at]] &&
			    is_wrong(builder, builder->by_cell[at]))
				return true;
	}
	return false;
}

/* Try to empty the cell that `users` use. */
static bool empty_cell(struct builder *builder, size_t wrong, uint64_t cell,
		       const struct users *users, struct range neighbours, unsigned turn)
{
	struct change change = {.emptied = cell};
	bool good = true;

	wn__sscf_clear_bit(builder->cells, cell);
	for (unsigned i = 0; i < users->count && good; i++)
		good = move_key(builder, &change, users->keys[i], users->functions[i], turn);
	good = good && !is_wrong(builder, wrong) && !does_harm(builder, &change, neighbours);
	if (!good)
		undo(builder, &change);
	return good;
}

static bool correct(struct builder *builder, size_t wrong)
{
	const struct wn__sscf_params *params = &builder->frozen.params;
	struct wn_hash hash = wn__sscf_vary(served_hash(builder, wrong), params->variant);
	struct range neighbours = served_of_block(builder, wrong);
	struct users users[WN__SSCF_MAX_HASHES];
	bool good = false;

	find_users(builder, hash, users);
	for (unsigned count = 1; count <= MAX_USERS && !good; count++) {
		for (unsigned i = 0; i < params->hashes && !good; i++) {
			uint64_t cell = block_start(builder, hash) +
					wn__sscf_place(hash, i, params->block_cells);

			if (users[i].stuck || users[i].count != count)
				continue;
			for (unsigned turn = 0; turn < (1u << MODULATOR_BITS) - 1 && !good; turn++)
				good = empty_cell(builder, wrong, cell, &users[i], neighbours,
						  turn);
		}
	}
	for (size_t at = neighbours.first; good && at < neighbours.end; at++)
		builder->wrong[at] = is_wrong(builder, at);
	return good;
}

/* ---- all false positives ------------------------------------------------ */

/* A false positive among the served keys. */
struct mistake {
	double cost;
	size_t at;
};

static int by_cost(const void *a, const void *b)
{
	const struct mistake *one = a, *other = b;

	if (one->cost != other->cost)
		return one->cost > other->cost ? -1 : 1;
	return (one->at > other->at) - (one->at < other->at);
}

static int index_served(struct builder *builder)
{
	uint32_t cells = builder->frozen.params.modulator_cells;

	builder->starts = wn__calloc((size_t)cells + 2, sizeof(*builder->starts));
	builder->by_cell = wn__alloc(builder->served_count * sizeof(*builder->by_cell));
	builder->moved = wn__calloc(builder->input->key_count, 1);
	if (!builder->starts || !builder->by_cell || !builder->moved)
		return ENOMEM;
	/* Counted two places up and moved down by filling: starts[cell] is then right. */
	for (size_t at = 0; at < builder->served_count; at++)
		builder->starts[wn__sscf_modulator_cell(served_hash(builder, at), cells) + 2]++;
	for (size_t cell = 2; cell <= (size_t)cells + 1; cell++)
		builder->starts[cell] += builder->starts[cell - 1];
	for (size_t at = 0; at < builder->served_count; at++) {
		uint32_t cell = wn__sscf_modulator_cell(served_hash(builder, at), cells);

		builder->by_cell[builder->starts[cell + 1]++] = (uint32_t)at;
	}
	return 0;
}

/* The costliest of the mistakes are corrected, one after the other. More of them than
 * the modulator has cells are not of an honest hash's making. */
static void correct_all(struct builder *builder, struct mistake *mistakes, size_t count)
{
	size_t most = builder->frozen.params.modulator_cells;

	qsort(mistakes, count, sizeof(*mistakes), by_cost);
	for (unsigned pass = 0; pass < PASSES; pass++)
		for (size_t i = 0; i < count && i < most; i++)
			if (builder->wrong[mistakes[i].at])
				correct(builder, mistakes[i].at);
}

static size_t count_wrong(struct builder *builder)
{
	size_t count = 0;

	for (size_t at = 0; at < builder->served_count; at++) {
		builder->wrong[at] = is_wrong(builder, at);
		count += builder->wrong[at];
	}
	return count;
}

/* Far more mistakes than chance makes: they are those of the filter before this one. */
static bool are_too_many(const struct builder *builder, size_t count)
{
	return (double)count > 2 * builder->expected + 4;
}

static void use_variant(struct builder *builder, unsigned variant)
{
	builder->frozen.params.variant = variant;
	memset(builder->cells, 0, wn__sscf_cells_size(&builder->frozen.params));
	set_keys(builder);
}

static int correct_mistakes(struct builder *builder, size_t count)
{
	struct mistake *mistakes = wn__alloc(count * sizeof(*mistakes));
	size_t found = 0;
	int err;

	if (!mistakes)
		return ENOMEM;
	for (size_t at = 0; at < builder->served_count; at++)
		if (builder->wrong[at])
			mistakes[found++] = (struct mistake){
				builder->input->costs ? builder->input->costs[builder->served[at]]
						      : 1, at};
	err = index_served(builder);
	if (!err)
		correct_all(builder, mistakes, count);
	free(mistakes);
	return err;
}

static int serve(struct builder *builder)
{
	size_t count;

	builder->wrong = wn__calloc(builder->served_count, sizeof(*builder->wrong));
	if (!builder->wrong)
		return ENOMEM;
	count = count_wrong(builder);
	for (unsigned variant = 1; variant < VARIANTS && are_too_many(builder, count); variant++) {
		use_variant(builder, variant);
		count = count_wrong(builder);
	}
	return count ? correct_mistakes(builder, count) : 0;
}

static void place_parts(struct builder *builder, unsigned char *payload)
{
	builder->cells = payload;
	builder->modulator = payload + wn__sscf_cells_size(&builder->frozen.params);
	builder->frozen.cells = builder->cells;
	builder->frozen.modulator = builder->modulator;
	set_keys(builder);
}

static void count_modulated(struct builder *builder)
{
	struct wn__sscf_params *params = &builder->frozen.params;

	for (uint32_t cell = 0; cell < params->modulator_cells; cell++)
		params->modulated += modulator_value(builder, cell) != 0;
}

static int fill(struct builder *builder, unsigned char *payload)
{
	int err = 0;

	place_parts(builder, payload);
	if (builder->served_count > 0)
		err = serve(builder);
	count_modulated(builder);
	return err;
}

static void free_parts(struct builder *builder)
{
	free(builder->served);
	free(builder->wrong);
	free(builder->starts);
	free(builder->by_cell);
	free(builder->moved);
}

int wn__sscf_fill(const struct wn__build_input *input, const struct wn__sscf_params *params,
		  unsigned char *payload, double *costp)
{
	struct builder builder = {.input = input, .frozen.params = *params};
	size_t room = input->negative_count + 1;
	int err = 0;

	*costp = 0;
	builder.served = wn__alloc(room * sizeof(*builder.served));
	builder.wrong = wn__calloc(room, sizeof(*builder.wrong));
	if (builder.served && builder.wrong) {
		size_t count;

		for (size_t i = 0; i < input->negative_count; i++)
			builder.served[builder.served_count++] = (uint32_t)i;
		place_parts(&builder, payload);
		count = count_wrong(&builder);
		if (count > 0 && params->modulator_cells > 0) {
			err = correct_mistakes(&builder, count);
			count_wrong(&builder);
		}
		for (size_t i = 0; i < builder.served_count; i++)
			if (builder.wrong[i])
				*costp += input->costs ? input->costs[i] : 1;
	} else {
		err = ENOMEM;
	}
	free_parts(&builder);
	return err;
}

int wn__sscf_build(const struct wn__build_input *input, struct wn__block_writer *writer,
		   unsigned char *params)
{
	struct builder builder = {.input = input};
	struct wn__sscf_costs *costs = wn__alloc(sizeof(*costs));
	unsigned char *payload;
	int err = costs ? 0 : ENOMEM;

	if (!err)
		err = choose(&builder, costs);
	free(costs);
	if (!err)
		err = wn__block_begin(writer, wn__sscf_payload_size(&builder.frozen.params),
				      &payload);
	if (!err)
		err = fill(&builder, payload);
	if (!err)
		wn__sscf_params_put(params, &builder.frozen.params);
	free_parts(&builder);
	return err;
}
