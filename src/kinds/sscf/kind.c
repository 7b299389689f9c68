/* kind.c - seesaw counting filters in blocks: options, opening, describing.
 *
 * Nothing is deleted from an immutable table, so of the paper's counters (section III) a
 * block keeps one bit a positive cell, and of the HashModulator which function stands in,
 * or none. The negative cells serve the living filter when keys are inserted; in a query
 * they only turn away a few false positives of the second round, and doubling the
 * positive cells instead turns away far more: they are kept only on request, by those
 * who freeze a living filter and want its answers bit by bit. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "sscf_frozen.h"
#include "sscf_small.h"
#include "sscf_theory.h"

static const struct wn__option options[] = {
	[WN__SSCF_BITS_PER_KEY] = {"bits_per_key", WN__OPTION_REAL, 1, 64, 12, true},
	/* The most vulnerable keys, by the number of keys. What is best is found by
	 * their costs; this is for those who know better. */
	[WN__SSCF_VULNERABLE_SHARE] = {"vulnerable_share", WN__OPTION_REAL, 0, 1000, 8, false},
	/* How much of what all negatives cost is that of the listed ones. */
	[WN__SSCF_LISTED_SHARE] = {"listed_share", WN__OPTION_REAL, 0.01, 1, 0.5, false},
	[WN__SSCF_HASHES] = {"hashes", WN__OPTION_INTEGER, 1, WN__SSCF_MAX_HASHES, 0, false},
};

/* ---- open --------------------------------------------------------------- */

static int refuse(const char **reasonp, const char *reason)
{
	*reasonp = reason;
	return WN_ERR_CORRUPT;
}

static bool is_shape_valid(const struct wn__sscf_params *params)
{
	if (params->hashes < 1 || params->hashes > WN__SSCF_MAX_HASHES ||
	    params->block_cells < 1 || params->blocks < 1)
		return false;
	if (params->modulator_cells == 0)
		return params->modulator_bits == 0 && params->modulated == 0;
	return params->modulator_bits >= 1 &&
	       params->modulator_bits <= WN__SSCF_MAX_MODULATOR_BITS &&
	       params->modulated <= params->modulator_cells;
}

/* The parameters fit each other and the payload's size; fills `frozen`. Constant time.
 * From here on no query can leave the payload. */
static int read_frozen(const struct wn_block_info *info, struct wn__sscf_frozen *frozen,
		       const char **reasonp)
{
	struct wn__sscf_params params = wn__sscf_params_get(info->params);
	uint64_t cells_size;

	if (!wn__sscf_params_are_known(info->params)) {
		*reasonp = "SSCF: the block uses a feature this library does not know";
		return WN_ERR_VERSION;
	}
	if (!is_shape_valid(&params))
		return refuse(reasonp, "SSCF: parameters out of range");
	if (wn__sscf_payload_size(&params) != info->payload_size)
		return refuse(reasonp, "SSCF: payload size does not fit the parameters");
	cells_size = wn__sscf_cells_size(&params);
	*frozen = (struct wn__sscf_frozen){
		.cells = info->payload,
		.negatives = params.keeps_negatives ? info->payload + cells_size : NULL,
		.modulator = info->payload + cells_size * (params.keeps_negatives ? 2 : 1),
		.params = params,
	};
	return 0;
}

static uint64_t count_bits(const unsigned char *bytes, uint64_t size)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < size; i++)
		count += wn__popcount(bytes[i]);
	return count;
}

static uint64_t count_modulated(const struct wn__sscf_frozen *frozen)
{
	uint64_t count = 0;

	for (uint32_t cell = 0; cell < frozen->params.modulator_cells; cell++)
		count += wn__sscf_modulator_value(frozen, cell) != 0;
	return count;
}

/* No bits behind the last one that means something. */
static bool is_rest_zero(const unsigned char *bytes, uint64_t bits)
{
	return bits % 8 == 0 || bytes[bits / 8] >> (bits % 8) == 0;
}

static int check_payload(const struct wn__sscf_frozen *frozen, uint64_t key_count,
			 const char **reasonp)
{
	const struct wn__sscf_params *params = &frozen->params;
	uint64_t cells = (uint64_t)params->blocks * params->block_cells;
	uint64_t set = count_bits(frozen->cells, wn__sscf_cells_size(params));

	if (!is_rest_zero(frozen->cells, cells) ||
	    (frozen->negatives && !is_rest_zero(frozen->negatives, cells)) ||
	    !is_rest_zero(frozen->modulator,
			  (uint64_t)params->modulator_cells * params->modulator_bits))
		return refuse(reasonp, "SSCF: stray bits");
	/* More cells than so many keys set may be left over from a living filter. */
	if (set == 0 && key_count > 0)
		return refuse(reasonp, "SSCF: number of keys does not fit");
	if (count_modulated(frozen) != params->modulated)
		return refuse(reasonp, "SSCF: wrong number of modulated functions");
	return 0;
}

static int open_filter(struct wn_filter *filter, enum wn_check check, const char **reasonp)
{
	struct wn__sscf_frozen *frozen = wn__calloc(1, sizeof(*frozen));
	int err;

	if (!frozen)
		return ENOMEM;
	err = read_frozen(&filter->info, frozen, reasonp);
	if (!err && check == WN_CHECK_ALL)
		err = check_payload(frozen, filter->info.key_count, reasonp);
	if (err) {
		free(frozen);
		return err;
	}
	filter->state = frozen;
	filter->query = wn__sscf_query_for(frozen->params.hashes);
	filter->query_batch = wn__sscf_batch_for(frozen->params.hashes);
	return 0;
}

static void close_filter(struct wn_filter *filter)
{
	free(filter->state);
}

/* Of the queries whose cells are all set but one, some find a function that stands in. */
static double second_round(const struct wn__sscf_params *params, double set_share)
{
	if (params->modulator_cells == 0)
		return 0;
	return params->hashes * (1 - set_share) * params->modulated / params->modulator_cells;
}

static void tell(struct wn_filter_info *infop, const char *name, double value)
{
	wn__add_fact(infop->facts, &infop->fact_count, name, value);
}

static void describe(const struct wn_filter *filter, struct wn_filter_info *infop)
{
	const struct wn__sscf_frozen *frozen = filter->state;
	const struct wn__sscf_params *params = &frozen->params;
	double keys = (double)infop->key_count;
	double cells = (double)((uint64_t)params->blocks * params->block_cells);
	double set = (double)count_bits(frozen->cells, wn__sscf_cells_size(params));

	infop->expected_fpr = pow(set / cells, params->hashes);
	if (params->blocks > 1 && infop->key_count > 0)
		infop->expected_fpr = wn__sscf_blocked_rate(keys / params->blocks,
							    params->block_cells, params->hashes);
	infop->expected_fpr *= 1 + second_round(params, set / cells);
	if (infop->expected_fpr > 1)
		infop->expected_fpr = 1;
	tell(infop, "slots", cells);
	tell(infop, "used_slots", set);
	tell(infop, "load", set / cells);
	tell(infop, "extensions", params->modulated);
}

const struct wn__kind wn__kind_sscf = {
	.id = WN_KIND_SSCF,
	.name = "sscf",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.learns = WN__LEARNS_BY_LESSON,
	.wants_costs = true,
	.build = wn__sscf_build,
	.open = open_filter,
	.close = close_filter,
	.query = wn__sscf_query,
	.query_batch = wn__sscf_query_batch,
	.describe = describe,
	.small = &wn__sscf_small_form,
};
