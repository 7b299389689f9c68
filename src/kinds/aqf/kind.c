/* kind.c - adaptive quotient filters in blocks: options, and the two forms of a block.
 *
 * In *lines* (lines.h) where these have a layout for the bits a key that are asked for, and in
 * *slots* (slots.c, aqf_table.h) everywhere else: where remainder bits or load are given, and in
 * what was a living filter. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <winnow/aqf.h>
#include <winnow/error.h>

#include "base/alloc.h"
#include "aqf_block.h"
#include "aqf_format.h"
#include "aqf_internal.h"
#include "aqf_small.h"
#include "kinds/kind.h"
#include "kinds/shape.h"
#include "lines.h"

/* ---- options ------------------------------------------------------------ */

static const struct wn__option options[] = {
	[WN__AQF_REMAINDER_BITS] = {"remainder_bits", WN__OPTION_INTEGER, WN_AQF_MIN_REMAINDER_BITS,
				   WN_AQF_MAX_REMAINDER_BITS, 9, true},
	[WN__AQF_LOAD] = {"load", WN__OPTION_REAL, 0.05, WN_AQF_MAX_LOAD, WN_AQF_MAX_LOAD, true},
	/* Picks the layout of lines, or the remainder bits that fit. */
	[WN__AQF_BITS_PER_KEY] = {"bits_per_key", WN__OPTION_REAL, 4.4, 40, 11.85, true},
};

/* A block without extensions has 2.125 metadata bits a slot. */
unsigned wn__slots_remainder_bits(const struct wn_config *config)
{
	double bits;

	if (!config->given[WN__AQF_BITS_PER_KEY])
		return (unsigned)config->values[WN__AQF_REMAINDER_BITS];
	bits = floor(config->values[WN__AQF_BITS_PER_KEY] * config->values[WN__AQF_LOAD] - 2.125);
	if (bits > WN_AQF_MAX_REMAINDER_BITS)
		return WN_AQF_MAX_REMAINDER_BITS;
	return bits < WN_AQF_MIN_REMAINDER_BITS ? 0 : (unsigned)bits;
}

static int check_config(const struct wn_config *config, char *message, size_t size)
{
	if (config->given[WN__AQF_BITS_PER_KEY] && config->given[WN__AQF_REMAINDER_BITS]) {
		snprintf(message, size, "options 'bits_per_key' and 'remainder_bits' say the same "
					"thing twice: give one of them");
		return WN_ERR_OPTION;
	}
	if (wn__slots_remainder_bits(config) == 0) {
		snprintf(message, size,
			 "option 'bits_per_key' is %g: at load %g at least %.2f are needed",
			 config->values[WN__AQF_BITS_PER_KEY], config->values[WN__AQF_LOAD],
			 (WN_AQF_MIN_REMAINDER_BITS + 2.125) / config->values[WN__AQF_LOAD]);
		return WN_ERR_OPTION;
	}
	return 0;
}

/* ---- build -------------------------------------------------------------- */

static bool goes_in_lines(const struct wn_config *config)
{
	return !config->given[WN__AQF_REMAINDER_BITS] && !config->given[WN__AQF_LOAD] &&
	       wn__lines_have(config->values[WN__AQF_BITS_PER_KEY]);
}

static int build(const struct wn__build_input *input, struct wn__block_writer *writer,
		 unsigned char *params)
{
	const struct wn_config *config = input->config;
	struct wn__lines_shape shape;

	if (input->key_count > WN_AQF_MAX_KEYS)
		return WN_ERR_INVALID;
	if (!goes_in_lines(config))
		return wn__slots_build(input, writer, params);
	wn__lines_choose(config->values[WN__AQF_BITS_PER_KEY], input->key_count, &shape);
	return wn__lines_build(input, &shape, writer, params);
}

/* ---- open --------------------------------------------------------------- */

static int open_slots(struct wn_filter *filter, enum wn_check check, const char **reasonp)
{
	struct wn__aqf_frozen *frozen = wn__calloc(1, sizeof(*frozen));
	int err;

	if (!frozen)
		return ENOMEM;
	err = wn__aqf_open_frozen(&filter->info, check, frozen, reasonp);
	if (err) {
		free(frozen);
		return err;
	}
	filter->state = frozen;
	filter->query = wn__frozen_query_for(&frozen->table);
	filter->query_batch = wn__frozen_batch_for(&frozen->table);
	return 0;
}

static int open_lines(struct wn_filter *filter, enum wn_check check, const char **reasonp)
{
	struct wn__lines *lines = wn__alloc_aligned(64, (sizeof(*lines) + 63) & ~(size_t)63);
	struct wn__lines_calls calls;
	int err;

	if (!lines)
		return ENOMEM;
	err = wn__lines_open(&filter->info, check, lines, reasonp);
	if (err) {
		free(lines);
		return err;
	}
	calls = wn__lines_calls(lines);
	filter->state = lines;
	filter->query = calls.query;
	filter->query_batch = calls.query_batch;
	filter->query_from = wn__lines_query_from;
	filter->ask_short = calls.ask_short;
	filter->ask_batch = calls.ask_batch;
	return 0;
}

static int open_filter(struct wn_filter *filter, enum wn_check check, const char **reasonp)
{
	return wn__params_are_lines(filter->info.params) ? open_lines(filter, check, reasonp) :
							   open_slots(filter, check, reasonp);
}

static void close_filter(struct wn_filter *filter)
{
	free(filter->state);
}

/* ---- describe ----------------------------------------------------------- */

static void tell(struct wn_filter_info *infop, const char *name, double value)
{
	wn__add_fact(infop->facts, &infop->fact_count, name, value);
}

static double rate_of(double keys, double slots, unsigned remainder_bits)
{
	return -expm1(-keys / slots * ldexp(1, -(int)remainder_bits));
}

static void describe_slots(const struct wn__aqf_frozen *frozen, struct wn_filter_info *infop)
{
	const struct wn__table *table = &frozen->table;
	uint64_t extras = frozen->used - infop->key_count;

	infop->expected_fpr = rate_of((double)infop->key_count, (double)table->slots,
				      table->remainder_bits);
	tell(infop, "remainder_bits", table->remainder_bits);
	tell(infop, "slots", (double)table->slots);
	tell(infop, "used_slots", (double)frozen->used);
	tell(infop, "load", (double)frozen->used / (double)table->slots);
	tell(infop, "extensions",
	     extras > frozen->counters ? (double)(extras - frozen->counters) : 0);
}

static void describe_lines(const struct wn__lines *lines, struct wn_filter_info *infop)
{
	double slots = (double)wn__lines_quotients(&lines->shape);
	double keys = (double)infop->key_count;

	infop->expected_fpr = rate_of(keys, slots, wn__lines_remainder_bits(&lines->shape));
	tell(infop, "remainder_bits", wn__lines_remainder_bits(&lines->shape));
	tell(infop, "slots", slots);
	tell(infop, "used_slots", keys);
	tell(infop, "load", keys / slots);
	tell(infop, "extensions", lines->extended);
	tell(infop, "lines", lines->lines);
	tell(infop, "odd_spans", lines->odd_spans);
	tell(infop, "odd_keys", (double)lines->odd_prints);
}

static void describe(const struct wn_filter *filter, struct wn_filter_info *infop)
{
	if (wn__params_are_lines(filter->info.params))
		describe_lines(filter->state, infop);
	else
		describe_slots(filter->state, infop);
}

static void get_shape(const struct wn_block_info *info, struct wn__shape *shapep)
{
	if (wn__params_are_lines(info->params)) {
		struct wn__lines_params params = wn__lines_params_get(info->params);

		*shapep = (struct wn__shape){params.quotients * params.spans,
					     params.remainder_bits};
	} else {
		struct wn__aqf_params params = wn__aqf_params_get(info->params);

		*shapep = (struct wn__shape){params.slots, params.remainder_bits};
	}
}

static bool query_from(const void *state, struct wn_hash hash, uint32_t rank,
		       struct wn_match *matchp)
{
	return wn__frozen_query_from(state, hash, rank, matchp);
}

static int visit_clusters(const struct wn_filter *filter, wn__cluster_fn *visit, void *context)
{
	return wn__params_are_lines(filter->info.params) ?
		       wn__lines_clusters(filter->state, visit, context) :
		       wn__aqf_clusters(filter, visit, context);
}

const struct wn__kind wn__kind_aqf = {
	.id = WN_KIND_AQF,
	.name = "aqf",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.learns = WN__LEARNS_BY_LESSON,
	.upper_halves = goes_in_lines,
	.check_config = check_config,
	.build = build,
	.open = open_filter,
	.close = close_filter,
	.query = wn__frozen_query_portable,
	.query_batch = wn__frozen_batch_portable,
	.shape = get_shape,
	.query_from = query_from,
	.describe = describe,
	.clusters = visit_clusters,
	.small = &wn__aqf_small_form,
};
