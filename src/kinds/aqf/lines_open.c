/* lines_open.c - opening and checking an AdaptiveQF in lines. */
#include <string.h>

#include <winnow/error.h>

#include "lines_search.h"

static int refuse(const char **reasonp, const char *reason)
{
	*reasonp = reason;
	return WN_ERR_CORRUPT;
}

/* ---- the header ---------------------------------------------------------- */

static bool params_fit(const struct wn__lines_params *params, uint64_t payload_size)
{
	if (params->remainder_bits < 8 || params->remainder_bits > 8 + WN__MAX_EXTRA_BITS ||
	    params->quotients < WN__MIN_QUOTIENTS || params->quotients > WN__MAX_QUOTIENTS ||
	    params->zero != 0 || params->spans < 1)
		return false;
	/* Bounds the sum of the sizes; the exact one is checked next. */
	if (params->spans > payload_size / WN__LINE_SIZE || params->odd_prints > payload_size ||
	    params->lines < params->spans || params->lines > params->spans + 2)
		return false;
	return wn__lines_payload_size(params) == payload_size;
}

/* The items of a line. */
static uint64_t item_mask(const struct wn__lines_shape *shape)
{
	uint64_t mask = 0;

	for (unsigned item = 0; item < wn__lines_max_items(shape); item++)
		mask |= UINT64_C(1) << wn__item_byte(shape->extra_bits, item);
	return mask;
}

static void fill_in(struct wn__lines *lines, const struct wn__lines_params *params,
		    const unsigned char *payload)
{
	*lines = (struct wn__lines){
		.shape = {params->remainder_bits - 8, params->quotients, params->spans},
		.lines = params->lines,
		.extended = params->extended,
		.extra_bits = params->remainder_bits - 8,
		.odd_spans = params->odd_spans,
		.odd_prints = params->odd_prints,
	};
	lines->steps = WN__STEPS * params->spans;
	lines->first_bytes = wn__lines_quotients(&lines->shape) << 8;
	lines->prints = wn__lines_quotients(&lines->shape) << params->remainder_bits;
	lines->items = item_mask(&lines->shape);
	lines->item_shift = 64 - wn__lines_max_items(&lines->shape);
	lines->directory = payload + (size_t)params->lines * WN__LINE_SIZE;
	lines->odd_span_list = lines->directory + params->spans;
	lines->odd_print_list =
		lines->odd_span_list + (size_t)params->odd_spans * WN__ODD_SPAN_SIZE;
	lines->extended_list = lines->odd_print_list + params->odd_prints * WN__ODD_PRINT_SIZE;
}

/* Would a query of this span look in front of the first line? (Behind the last are never more
 * than two, and at least the block's header is there.) */
static bool leads_astray(const struct wn__lines *lines, uint64_t span)
{
	int entry = (signed char)lines->directory[span];

	return entry != WN__ODD && entry >= 64 * (int)span;
}

/* ---- walking ------------------------------------------------------------- */

struct walk {
	const struct wn__lines *lines;
	wn__print_fn *visit;
	void *context;
	uint64_t start; /* step at which the line at hand begins */
	int64_t line;   /* its number; -1: none yet */
	uint32_t odd_span;
	uint64_t odd_print;
	const char *reason;
};

static int stop(struct walk *walk, const char *reason)
{
	walk->reason = reason;
	return WN_ERR_CORRUPT;
}

static const unsigned char *line_at(const struct wn__lines *lines, int64_t number)
{
	return lines->directory - WN__LINE_SIZE * (number + 1);
}

/* Nothing but zeros between the row's end, a bit, and the items, and in unused extra bits. */
static bool is_clean(const struct wn__lines *lines, const unsigned char *line, unsigned row_end,
		     unsigned items)
{
	unsigned extra_bits = lines->extra_bits;
	unsigned char copy[WN__LINE_SIZE];

	memcpy(copy, line, sizeof(copy));
	memset(copy, 0, row_end >> 3);
	copy[row_end >> 3] &= (unsigned char)~((1u << (row_end & 7)) - 1);
	for (unsigned item = 0; item < items; item++) {
		unsigned bit = (item & 7) * extra_bits;
		unsigned char *at = copy + 64 - (item >> 3) * (8 + extra_bits) - extra_bits;

		copy[wn__item_byte(extra_bits, item)] = 0;
		for (unsigned i = bit; i < bit + extra_bits; i++)
			at[i >> 3] &= (unsigned char)~(1u << (i & 7));
	}
	for (unsigned i = 0; i < sizeof(copy); i++)
		if (copy[i])
			return false;
	return true;
}

/* The fingerprint of item number `item`, whose quotient is known. */
static uint64_t print_of(const struct wn__lines *lines, const unsigned char *line, unsigned item,
			 uint64_t quotient)
{
	uint64_t print = quotient << 8 | line[wn__item_byte(lines->extra_bits, item)];

	if (lines->extra_bits)
		print = print << lines->extra_bits |
			wn__item_extra(line, item, lines->extra_bits);
	return print;
}

/* The line at hand ends at this step. */
static int end_line(struct walk *walk, uint64_t end)
{
	const struct wn__lines *lines = walk->lines;
	const unsigned char *line = line_at(lines, walk->line);
	uint64_t step = wn__lines_step(&lines->shape);
	unsigned bits = wn__lines_remainder_bits(&lines->shape);
	uint64_t quotient = walk->start * step >> bits, last = (end * step - 1) >> bits;
	uint64_t before = walk->start * step;
	unsigned items = 0, bit = WN__ROW_START;

	if (line[0] != (quotient & 255))
		return stop(walk, "AdaptiveQF: a line's first quotient is wrong");
	for (; quotient <= last; bit++) {
		uint64_t print;
		int err;

		if (bit >= WN__ROW_START + WN__LINE_ROW)
			return stop(walk, "AdaptiveQF: a line has no end");
		if (!(line[bit >> 3] >> (bit & 7) & 1)) {
			quotient++;
			continue;
		}
		if (items == wn__lines_max_items(&lines->shape))
			return stop(walk, "AdaptiveQF: a line is too full");
		print = print_of(lines, line, items++, quotient);
		if (print < before || print >= end * step)
			return stop(walk, "AdaptiveQF: fingerprints out of order");
		before = print;
		err = walk->visit(walk->context, print, (uint32_t)walk->line);
		if (err)
			return err;
	}
	if (!is_clean(lines, line, bit, items))
		return stop(walk, "AdaptiveQF: stray bits in a line");
	return 0;
}

static int walk_odd_span(struct walk *walk, uint64_t span)
{
	const struct wn__lines *lines = walk->lines;
	const unsigned char *at =
		lines->odd_span_list + (size_t)walk->odd_span * WN__ODD_SPAN_SIZE;
	uint64_t step = WN__STEPS * wn__lines_step(&lines->shape);
	uint64_t end, before = 0;

	if (walk->odd_span == lines->odd_spans || get_le32(at) != span ||
	    get_le64(at + 4) != walk->odd_print)
		return stop(walk, "AdaptiveQF: an odd span is not in the list");
	walk->odd_span++;
	end = walk->odd_span < lines->odd_spans ? get_le64(at + WN__ODD_SPAN_SIZE + 4) :
						  lines->odd_prints;
	if (end < walk->odd_print || end > lines->odd_prints)
		return stop(walk, "AdaptiveQF: an odd span's fingerprints are out of range");
	for (; walk->odd_print < end; walk->odd_print++) {
		uint64_t print = get_le32(lines->odd_print_list +
					  walk->odd_print * WN__ODD_PRINT_SIZE);
		int err;

		if (print < before || print >= step)
			return stop(walk, "AdaptiveQF: fingerprints out of order");
		before = print;
		err = walk->visit(walk->context, span * step + print, UINT32_MAX);
		if (err)
			return err;
	}
	return 0;
}

/* Lines up to this number, which is not in use, are zero. */
static int skip_lines(struct walk *walk, int64_t number)
{
	static const unsigned char zeros[WN__LINE_SIZE];

	for (; walk->line < number; walk->line++)
		if (memcmp(line_at(walk->lines, walk->line + 1), zeros, sizeof(zeros)) != 0)
			return stop(walk, "AdaptiveQF: an unused line is not empty");
	return 0;
}

/* The span begins in line `number`: in the one at hand, or the one before ends here. */
static int enter_span(struct walk *walk, uint64_t span, int64_t number, bool open)
{
	int err = open ? 0 : skip_lines(walk, (int64_t)span - 3);
	int64_t wanted = open ? walk->line : walk->line + 1;

	if (open && number == wanted + 1) {
		err = end_line(walk, span * WN__STEPS);
		wanted++;
		open = false;
	}
	if (err)
		return err;
	if (number != wanted || number >= walk->lines->lines)
		return stop(walk, "AdaptiveQF: the directory does not follow the lines");
	if (!open)
		walk->start = span * WN__STEPS;
	walk->line = number;
	return 0;
}

static int walk_span(struct walk *walk, uint64_t span, bool *openp)
{
	int64_t entry = (signed char)walk->lines->directory[span];
	int64_t number = (int64_t)span - 1 - (entry >> 6);
	uint64_t border = (uint64_t)(entry & 63) + 1;
	int err;

	if (entry == WN__ODD) {
		err = *openp ? end_line(walk, span * WN__STEPS) : 0;
		*openp = false;
		return err ? err : walk_odd_span(walk, span);
	}
	err = enter_span(walk, span, number, *openp);
	*openp = true;
	if (err || border == WN__STEPS)
		return err;
	err = end_line(walk, span * WN__STEPS + border);
	walk->start = span * WN__STEPS + border;
	if (!err && ++walk->line == walk->lines->lines)
		err = stop(walk, "AdaptiveQF: the directory leads beyond the lines");
	return err;
}

/* Lines behind the last that is in use are zero. */
static int check_rest(struct walk *walk)
{
	int err = skip_lines(walk, walk->lines->lines - 1);

	if (err)
		return err;
	if (walk->odd_span != walk->lines->odd_spans || walk->odd_print != walk->lines->odd_prints)
		return stop(walk, "AdaptiveQF: more odd spans than the directory has");
	return 0;
}

int wn__lines_walk(const struct wn__lines *lines, wn__print_fn *visit, void *context,
		   const char **reasonp)
{
	struct walk walk = {
		.lines = lines, .visit = visit, .context = context, .line = -1};
	uint64_t spans = lines->shape.spans;
	bool open = false;
	int err = 0;

	for (uint64_t span = 0; span < spans && !err; span++)
		err = walk_span(&walk, span, &open);
	if (!err && open)
		err = end_line(&walk, spans * WN__STEPS);
	if (!err)
		err = check_rest(&walk);
	*reasonp = walk.reason;
	return err;
}

/* ---- checking everything -------------------------------------------------- */

/* Extended fingerprints: of each that is there, all. */
struct check {
	const struct wn__lines *lines;
	uint64_t count, print;
	uint32_t extended; /* seen so far */
	bool is_extended;  /* those of the fingerprint at hand */
	bool good;
};

static uint64_t extended_key(const struct wn__lines *lines, uint32_t index)
{
	return get_le64(lines->extended_list + (size_t)index * WN__EXTENDED_SIZE);
}

static bool is_next_extended(const struct check *check, uint64_t print)
{
	return check->extended < check->lines->extended &&
	       wn__scale(extended_key(check->lines, check->extended), check->lines->prints) ==
		       print;
}

static int check_print(void *context, uint64_t print, uint32_t line)
{
	struct check *check = context;
	bool same = check->count && print == check->print;

	(void)line;
	if (!same)
		check->is_extended = is_next_extended(check, print);
	check->print = print;
	check->count++;
	if (!check->is_extended)
		return 0;
	if (!is_next_extended(check, print) ||
	    (same && extended_key(check->lines, check->extended) <
			     extended_key(check->lines, check->extended - 1)))
		check->good = false;
	else
		check->extended++;
	return 0;
}

static int check_all(const struct wn__lines *lines, uint64_t key_count, const char **reasonp)
{
	struct check check = {.lines = lines, .good = true};
	int err = wn__lines_walk(lines, check_print, &check, reasonp);

	if (err)
		return err;
	if (check.count != key_count)
		return refuse(reasonp, "AdaptiveQF: wrong number of fingerprints");
	if (!check.good || check.extended != lines->extended)
		return refuse(reasonp, "AdaptiveQF: extended fingerprints do not fit");
	return 0;
}

int wn__lines_open(const struct wn_block_info *info, enum wn_check check, struct wn__lines *linesp,
		   const char **reasonp)
{
	struct wn__lines_params params = wn__lines_params_get(info->params);

	if (!params_fit(&params, info->payload_size))
		return refuse(reasonp, "AdaptiveQF: parameters do not fit the payload");
	fill_in(linesp, &params, info->payload);
	if (leads_astray(linesp, 0) || (params.spans > 1 && leads_astray(linesp, 1)))
		return refuse(reasonp, "AdaptiveQF: the directory leads out of the block");
	return check == WN_CHECK_ALL ? check_all(linesp, info->key_count, reasonp) : 0;
}
