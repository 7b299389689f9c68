/* small.c - the small form of the seesaw counting filter; see sscf_small.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "sscf_frozen.h"
#include "sscf_small.h"

#define LEAST_HASHES 3
#define MOST_HASHES 10
#define VARIANTS 4
#define SHARES 4 /* of the modulator: none, and three more */
#define MODULATOR_BITS 2
/* At least, where there are blocks. They are for the builder, which looks through a block's keys
 * and negatives for each mistake, and cost a few of a hundred false positives more. */
#define BLOCK_CELLS 2048
#define NEGATIVES_A_KEY 2 /* served: with 8 building took 20 times as long */

/* ---- options ------------------------------------------------------------ */

#define LEAST_BITS 400 /* hundredths of a bit a key */
#define MOST_BITS 1800
#define DEFAULT_BITS 1000

static unsigned hundredths_of(const struct wn_config *config)
{
	if (!config->given[WN__SSCF_BITS_PER_KEY])
		return DEFAULT_BITS;
	return (unsigned)(100 * config->values[WN__SSCF_BITS_PER_KEY] + 0.5);
}

static int check_config(const struct wn_config *config, char *message, size_t size)
{
	unsigned bits = hundredths_of(config);

	for (size_t i = 0; i < config->kind->option_count; i++)
		if (config->given[i] && i != WN__SSCF_BITS_PER_KEY) {
			snprintf(message, size, "option '%s' has no meaning in small filters",
				 config->kind->options[i].name);
			return WN_ERR_OPTION;
		}
	if (bits < LEAST_BITS || bits > MOST_BITS) {
		snprintf(message, size, "option 'bits_per_key' is from 4 to 18 in small filters");
		return WN_ERR_OPTION;
	}
	return 0;
}

/* ---- the form ----------------------------------------------------------- */

static size_t modulator_size(size_t size, unsigned share)
{
	size_t bytes = share ? wn__small_payload(size) >> (6 - share) : 0;

	return share && bytes == 0 ? 1 : bytes;
}

/* All parameters, from the size and the last byte. The parts lie within the payload. */
static void derive(const unsigned char *bytes, size_t size, unsigned last,
		   struct wn__sscf_frozen *frozenp)
{
	size_t modulator = modulator_size(size, last >> 5 & (SHARES - 1));
	uint32_t cells = (uint32_t)(8 * (wn__small_payload(size) - modulator));

	*frozenp = (struct wn__sscf_frozen){
		.cells = bytes + wn__small_start(size),
		.params = {
			.hashes = LEAST_HASHES + (last & 7),
			.modulator_bits = modulator ? MODULATOR_BITS : 0,
			.variant = last >> 3 & (VARIANTS - 1),
			.blocks = cells < 2 * BLOCK_CELLS ? 1 : cells / BLOCK_CELLS,
			.modulator_cells = (uint32_t)(8 / MODULATOR_BITS * modulator),
		},
	};
	frozenp->params.block_cells = cells / frozenp->params.blocks;
	frozenp->modulator = frozenp->cells + wn__sscf_cells_size(&frozenp->params);
}

/* ---- asking ------------------------------------------------------------- */

static bool query(const unsigned char *bytes, size_t size, struct wn_hash hash)
{
	struct wn__sscf_frozen frozen;

	derive(bytes, size, bytes[size - 1], &frozen);
	return wn__sscf_query(&frozen, hash, NULL);
}

/* ---- the missing keys --------------------------------------------------- */

static int compare_costs(const void *a, const void *b)
{
	const struct wn__small_negative *one = a, *other = b;

	if (one->cost != other->cost)
		return one->cost > other->cost ? -1 : 1;
	return wn_hash_compare(one->hash, other->hash);
}

static int compare_hashes(const void *a, const void *b)
{
	const struct wn__small_negative *one = a, *other = b;

	return wn_hash_compare(one->hash, other->hash);
}

struct listed {
	struct wn_hash *hashes;
	double *costs;
	size_t count;
};

/* In the order of their hashes, each once, without such as are keys by now. */
static void list_negatives(const struct wn__small_input *given, struct listed *listed)
{
	struct wn__small_negative *negatives = given->negatives;
	size_t count = given->negative_count, most = (size_t)NEGATIVES_A_KEY * given->key_count;
	uint32_t key = 0;

	if (count > most) {
		qsort(negatives, count, sizeof(*negatives), compare_costs);
		count = most;
	}
	qsort(negatives, count, sizeof(*negatives), compare_hashes);
	for (size_t i = 0; i < count; i++) {
		struct wn_hash hash = negatives[i].hash;
		size_t last = listed->count - 1;

		while (key < given->key_count && wn_hash_compare(given->keys[key], hash) < 0)
			key++;
		if (key < given->key_count && wn_hash_compare(given->keys[key], hash) == 0)
			continue;
		if (listed->count && wn_hash_compare(listed->hashes[last], hash) == 0) {
			listed->costs[last] += negatives[i].cost;
			continue;
		}
		listed->hashes[listed->count] = hash;
		listed->costs[listed->count++] = negatives[i].cost;
	}
}

/* ---- building ----------------------------------------------------------- */

static unsigned choose_hashes(size_t cells, uint32_t count)
{
	/* ln 2 for each cell that a key has, rounded to the nearest. */
	uint64_t hashes = ((uint64_t)cells * 6931 / count + 5000) / 10000;

	return hashes < LEAST_HASHES ? LEAST_HASHES :
	       hashes > MOST_HASHES  ? MOST_HASHES :
				       (unsigned)hashes;
}

static size_t size_of(const struct wn_config *config, uint32_t count)
{
	return wn__small_size_around(((size_t)count * hundredths_of(config) + 799) / 800);
}

struct work {
	const struct wn__small_input *given;
	struct wn__build_input input;
	unsigned char *bytes;
	size_t size;
	unsigned last; /* seven bits of the last byte */
	struct wn__sscf_frozen frozen;
};

static unsigned char *own_bytes(const struct work *work)
{
	return work->bytes + wn__small_start(work->size);
}

/* All but the bits. */
static void begin(struct work *work, unsigned share, unsigned variant)
{
	size_t payload = wn__small_payload(work->size);
	unsigned hashes = choose_hashes(8 * payload, work->given->key_count);

	work->last = share << 5 | variant << 3 | (hashes - LEAST_HASHES);
	memset(own_bytes(work), 0, payload);
	derive(work->bytes, work->size, work->last, &work->frozen);
}

/* Without the negatives: wants no memory, and cannot go wrong. */
static void build_plain(struct work *work)
{
	const struct wn__sscf_params *params = &work->frozen.params;

	begin(work, 0, 0);
	for (uint32_t key = 0; key < work->given->key_count; key++) {
		struct wn_hash hash = wn__sscf_vary(work->given->keys[key], params->variant);
		uint64_t block = wn__sscf_block(hash, params->blocks) * params->block_cells;

		for (unsigned i = 0; i < params->hashes; i++)
			wn__sscf_set_bit(own_bytes(work),
					 block + wn__sscf_place(hash, i, params->block_cells));
	}
}

static bool build_one(struct work *work, unsigned share, unsigned variant, double *costp)
{
	begin(work, share, variant);
	return wn__sscf_fill(&work->input, &work->frozen.params, own_bytes(work), costp) == 0;
}

static size_t count_wrong(const struct work *work)
{
	size_t count = 0;

	for (size_t i = 0; i < work->input.negative_count; i++)
		count += wn__sscf_query(&work->frozen, work->input.negatives[i], NULL);
	return count;
}

/* The variant that does best alone; then, as long as it does at least twice as well, a larger
 * modulator: its bytes are taken from the cells, for which all other missing keys pay. */
static bool build_best(struct work *work)
{
	unsigned share = 0, variant = 0, last_share = 0, last_variant = 0;
	size_t mistakes = count_wrong(work);
	double cost, best;

	if (!build_one(work, 0, 0, &best))
		return false;
	for (unsigned i = 1; i < VARIANTS && best > 0; i++) {
		last_variant = i;
		if (!build_one(work, 0, i, &cost))
			return false;
		if (cost < best) {
			best = cost;
			variant = i;
			mistakes = count_wrong(work);
		}
	}
	for (unsigned i = 1; i < SHARES && best > 0; i++) {
		/* A modulator that is mostly full can do no more. */
		if (mistakes > 8 / MODULATOR_BITS * modulator_size(work->size, i) / 2)
			continue;
		last_share = i;
		last_variant = variant;
		if (!build_one(work, i, variant, &cost))
			return false;
		if (cost <= best / 2) {
			best = cost;
			share = i;
		}
	}
	return (share == last_share && variant == last_variant) ||
	       build_one(work, share, variant, &cost);
}

static bool contains_all(const struct work *work)
{
	for (uint32_t key = 0; key < work->given->key_count; key++)
		if (!wn__sscf_query(&work->frozen, work->given->keys[key], NULL))
			return false;
	return true;
}

static size_t build(const struct wn__small_input *given, unsigned char *bytes, size_t size,
		    unsigned *lastp)
{
	size_t room = given->negative_count, before, after;
	struct work work = {.given = given, .bytes = bytes, .size = size};
	struct listed listed = {NULL, NULL, 0};

	build_plain(&work);
	*lastp = work.last;
	if (room == 0)
		return 0;
	listed.hashes = wn__alloc(room * sizeof(*listed.hashes));
	listed.costs = wn__alloc(room * sizeof(*listed.costs));
	if (listed.hashes && listed.costs)
		list_negatives(given, &listed);
	work.input = (struct wn__build_input){.keys = given->keys, .key_count = given->key_count,
					      .negatives = listed.hashes,
					      .negative_count = listed.count,
					      .costs = listed.costs};
	before = after = count_wrong(&work);
	if (before > 0) {
		/* A filter that denied one of its keys would lose it: nothing is taken on trust. */
		if (!build_best(&work) || !contains_all(&work))
			build_plain(&work);
		after = count_wrong(&work);
	}
	*lastp = work.last;
	free(listed.hashes);
	free(listed.costs);
	return before > after ? before - after : 0;
}

/* ---- for tools ---------------------------------------------------------- */

static uint64_t count_bits(const unsigned char *bytes, uint64_t size)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < size; i++)
		count += wn__popcount(bytes[i]);
	return count;
}

/* No bits behind the last cell, in its byte or in those behind the modulator. */
static bool is_rest_zero(const struct wn__sscf_frozen *frozen, const unsigned char *end)
{
	const struct wn__sscf_params *params = &frozen->params;
	uint64_t cells = (uint64_t)params->blocks * params->block_cells;
	const unsigned char *rest = frozen->modulator + params->modulator_cells /
							(8 / MODULATOR_BITS);

	return (cells % 8 == 0 || frozen->cells[cells / 8] >> cells % 8 == 0) &&
	       count_bits(rest, (uint64_t)(end - rest)) == 0;
}

static void tell(struct wn__small_info *infop, const char *name, double value)
{
	wn__add_fact(infop->facts, &infop->fact_count, name, value);
}

/* How many keys there are is written nowhere. */
static bool describe(const unsigned char *bytes, size_t size, struct wn__small_info *infop)
{
	struct wn__sscf_frozen frozen;
	unsigned modulated = 0;
	double cells, set;

	*infop = (struct wn__small_info){.counts_keys = false};
	derive(bytes, size, bytes[size - 1], &frozen);
	if (!is_rest_zero(&frozen, bytes + size - 1))
		return false;
	cells = (double)((uint64_t)frozen.params.blocks * frozen.params.block_cells);
	set = (double)count_bits(frozen.cells, wn__sscf_cells_size(&frozen.params));
	for (uint32_t cell = 0; cell < frozen.params.modulator_cells; cell++)
		modulated += wn__sscf_modulator_value(&frozen, cell) != 0;
	infop->expected_fpr = pow(set / cells, frozen.params.hashes);
	tell(infop, "slots", cells);
	tell(infop, "used_slots", set);
	tell(infop, "load", set / cells);
	tell(infop, "extensions", modulated);
	return true;
}

const struct wn__small_form wn__sscf_small_form = {
	.check_config = check_config,
	.size = size_of,
	.build = build,
	.query = query,
	.describe = describe,
};
