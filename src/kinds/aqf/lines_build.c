/* lines_build.c - from sorted hashes to an AdaptiveQF in lines.
 *
 * Greedy packing: a line takes steps until one does not fit. Where a line ends is free within the
 * bounds of the directory's bytes:
 *
 *  - Line i ends at step 64 (i + 2) + 63 at the latest: a span begins in line c - 2 or later, and
 *    in c - 2 only with a border inside.
 *  - A line that begins inside a span must reach that span's end. If it does not, the line before
 *    is taken back to the span's start, and this one begins there: one border, not two.
 *  - If that does not help, the span is odd: its fingerprints go to a list of their own. So does
 *    a span that would begin in line c + 2.
 *
 * Whatever the hashes are, crafted ones included, each of these makes progress by a span, and the
 * lines end at L + 2 of them at the latest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "kinds/block_build.h"
#include "lines.h"

/* ---- lists that grow ----------------------------------------------------- */

struct list {
	unsigned char *bytes;
	size_t size, room;
};

/* Room for `size` more bytes; NULL if there is none. */
static unsigned char *append(struct list *list, size_t size)
{
	unsigned char *at;

	if (list->room - list->size < size) {
		size_t room = list->room ? 2 * list->room : 4096;

		at = wn__realloc(list->bytes, room);
		if (!at)
			return NULL;
		list->bytes = at;
		list->room = room;
	}
	at = list->bytes + list->size;
	list->size += size;
	return at;
}

/* ---- packing ------------------------------------------------------------- */

/* Steps and keys, each from the first to the one behind the last. */
struct line {
	uint64_t start, end;
	size_t first, last;
};

struct packer {
	const uint64_t *keys; /* upper halves */
	size_t count;
	struct wn__lines_shape shape;
	uint64_t steps, prints, step; /* in all; in all; fingerprints a step */
	unsigned remainder_bits;
	unsigned max_items, last_items;
	int max_quotients[WN__LINE_ITEMS + 1]; /* beside so many items; -1: too many */
	unsigned char *directory;
	struct line pending; /* packed, and may still lose a piece of its end */
	uint64_t lines;      /* before the pending one */
	bool is_pending;
	struct list odd_spans, odd_prints;
	uint64_t odd_span_count;
};

unsigned wn__lines_max_items(const struct wn__lines_shape *shape)
{
	int lowest = wn__lines_are_few(shape) ? 64 - WN__LINE_FEW_ITEMS : 64 - WN__LINE_ITEMS;
	unsigned items = 0;

	while (items < WN__LINE_ITEMS && wn__item_byte(shape->extra_bits, items) >= lowest)
		items++;
	return items;
}

static unsigned item_bytes(unsigned extra_bits, unsigned items)
{
	return items + extra_bits * ((items + 7) / 8);
}

static int quotients_beside(const struct packer *packer, unsigned items)
{
	int bits = WN__LINE_BITS - (int)items -
		   8 * (int)item_bytes(packer->shape.extra_bits, items);
	int row = WN__LINE_ROW - (int)items;

	if (items > packer->max_items)
		return -1;
	bits = bits < row ? bits : row;
	return bits < WN__LINE_QUOTIENTS ? bits : WN__LINE_QUOTIENTS;
}

static void init_packer(struct packer *packer, const struct wn__build_input *input,
			const struct wn__lines_shape *shape)
{
	*packer = (struct packer){
		.keys = input->uppers,
		.count = input->key_count,
		.shape = *shape,
		.steps = WN__STEPS * shape->spans,
		.prints = wn__lines_quotients(shape) << wn__lines_remainder_bits(shape),
		.step = wn__lines_step(shape),
		.remainder_bits = wn__lines_remainder_bits(shape),
		.max_items = wn__lines_max_items(shape),
	};
	for (unsigned items = 0; items <= WN__LINE_ITEMS; items++)
		packer->max_quotients[items] = quotients_beside(packer, items);
}

static uint64_t step_of(const struct packer *packer, size_t key)
{
	return key < packer->count ? wn__scale(packer->keys[key], packer->steps) :
				     packer->steps;
}

/* The quotient of a step's first fingerprint that could be. */
static uint64_t first_quotient(const struct packer *packer, uint64_t step)
{
	return step * packer->step >> packer->remainder_bits;
}

/* Quotients from `base` to the last before a step. */
static int64_t quotients_to(const struct packer *packer, uint64_t base, uint64_t step)
{
	return (int64_t)((step * packer->step - 1) >> packer->remainder_bits) - (int64_t)base + 1;
}

/* The last step up to `most` at which a line with so many items can end. */
static uint64_t last_end(const struct packer *packer, uint64_t base, size_t items, uint64_t most)
{
	uint64_t behind = base + (uint64_t)packer->max_quotients[items];
	uint64_t end = (behind << packer->remainder_bits) / packer->step;

	return end < most ? end : most;
}

/* Can a line have the first `items` keys from `first` on, if it ends behind the last one's step? */
static bool has_room(const struct packer *packer, uint64_t base, size_t first, unsigned items,
		     uint64_t limit)
{
	uint64_t step = step_of(packer, first + items - 1);

	return step < limit &&
	       quotients_to(packer, base, step + 1) <= packer->max_quotients[items];
}

/* The most keys for which there is room. Lines have much the same number of them: it is looked for
 * from that of the line before on. */
static unsigned most_items(struct packer *packer, uint64_t base, size_t first, uint64_t limit)
{
	size_t left = packer->count - first;
	unsigned most = left < packer->max_items ? (unsigned)left : packer->max_items;
	unsigned items = packer->last_items < most ? packer->last_items : most;

	while (items > 0 && !has_room(packer, base, first, items, limit))
		items--;
	while (items < most && has_room(packer, base, first, items + 1, limit))
		items++;
	packer->last_items = items;
	return items;
}

/* As many steps from `start` on as go into line number packer->lines + is_pending. It ends where
 * it starts if the first step is too much. */
static struct line fill_line(struct packer *packer, uint64_t start, size_t first)
{
	uint64_t number = packer->lines + packer->is_pending;
	uint64_t limit = WN__STEPS * (number + 2) + WN__STEPS - 1;
	uint64_t base = first_quotient(packer, start);
	uint64_t behind;
	unsigned items;

	limit = limit < packer->steps ? limit : packer->steps;
	items = most_items(packer, base, first, limit);
	/* The first step of which not all keys have room. */
	behind = step_of(packer, first + items);
	while (items > 0 && step_of(packer, first + items - 1) == behind)
		items--;
	limit = limit < behind ? limit : behind;
	return (struct line){start, last_end(packer, base, items, limit), first, first + items};
}

/* ---- writing ------------------------------------------------------------- */

static void put_extra(unsigned char *bytes, unsigned extra_bits, unsigned item, unsigned extra)
{
	unsigned bit = (item & 7) * extra_bits;
	unsigned char *at = bytes + 64 - (item >> 3) * (8 + extra_bits) - extra_bits;

	extra <<= bit & 7;
	at[bit >> 3] |= (unsigned char)extra;
	if (extra > 255)
		at[(bit >> 3) + 1] |= (unsigned char)(extra >> 8);
}

/* The remainders' upper 8 bits, and behind them the others. */
WN__INLINE void put_item(unsigned char *bytes, unsigned extra_bits, unsigned item, uint64_t print)
{
	bytes[wn__item_byte(extra_bits, item)] = (unsigned char)(print >> extra_bits);
	if (extra_bits)
		put_extra(bytes, extra_bits, item, (unsigned)print & ((1u << extra_bits) - 1));
}

/* Item i of quotient number v has its 1 behind i ones and v zeros. Bits come in order: a word of
 * the row is written when the next begins. */
WN__INLINE void put_keys(const struct packer *packer, const struct line *line, unsigned char *at,
			 unsigned extra_bits)
{
	const uint64_t *keys = packer->keys + line->first, prints = packer->prints;
	const unsigned remainder_bits = 8 + extra_bits;
	unsigned count = (unsigned)(line->last - line->first), word = 0;
	uint64_t base = first_quotient(packer, line->start), row = base & 255;

	for (unsigned item = 0; item < count; item++) {
		uint64_t print = wn__scale(keys[item], prints);
		unsigned bit = WN__ROW_START + item + (unsigned)((print >> remainder_bits) - base);

		if (WN__UNLIKELY(bit >> 6 != word)) {
			put_le64(at + 8 * word, row);
			word = bit >> 6;
			row = 0;
		}
		row |= UINT64_C(1) << (bit & 63);
		put_item(at, extra_bits, item, print);
	}
	/* The word may have remainders in it already. */
	put_le64(at + 8 * word, get_le64(at + 8 * word) | row);
}

static void write_line(const struct packer *packer, const struct line *line, uint64_t number)
{
	unsigned char *at = packer->directory - WN__LINE_SIZE * (number + 1);

	memset(at, 0, WN__LINE_SIZE);
	if (packer->shape.extra_bits)
		put_keys(packer, line, at, packer->shape.extra_bits);
	else
		put_keys(packer, line, at, 0);
}

/* The directory's bytes of the spans that begin in the line. */
static void write_entries(const struct packer *packer, const struct line *line, uint64_t number)
{
	uint64_t span = (line->start + WN__STEPS - 1) / WN__STEPS;

	for (; span * WN__STEPS < line->end; span++) {
		uint64_t border = line->end - span * WN__STEPS;

		border = border < WN__STEPS ? border : WN__STEPS;
		packer->directory[span] =
			(unsigned char)(64 * ((int64_t)span - (int64_t)number - 1) +
					(int64_t)border - 1);
	}
}

static void write_pending(struct packer *packer)
{
	if (!packer->is_pending)
		return;
	write_line(packer, &packer->pending, packer->lines);
	write_entries(packer, &packer->pending, packer->lines);
	packer->lines++;
	packer->is_pending = false;
}

/* ---- spans that do not fit ----------------------------------------------- */

/* The first key of a span, which `key` is in or right behind. */
static size_t first_key(const struct packer *packer, uint64_t span, size_t key)
{
	while (key > 0 && step_of(packer, key - 1) >= span * WN__STEPS)
		key--;
	return key;
}

static size_t behind_last_key(const struct packer *packer, uint64_t span, size_t key)
{
	while (key < packer->count && step_of(packer, key) < (span + 1) * WN__STEPS)
		key++;
	return key;
}

static int note_odd(struct packer *packer, uint64_t span, size_t first, size_t last)
{
	uint64_t base = span * WN__STEPS * packer->step;
	unsigned char *at = append(&packer->odd_spans, WN__ODD_SPAN_SIZE);

	if (!at)
		return ENOMEM;
	put_le32(at, (uint32_t)span);
	put_le64(at + 4, packer->odd_prints.size / WN__ODD_PRINT_SIZE);
	packer->odd_span_count++;
	packer->directory[span] = WN__ODD;
	for (size_t key = first; key < last; key++) {
		at = append(&packer->odd_prints, WN__ODD_PRINT_SIZE);
		if (!at)
			return ENOMEM;
		put_le32(at, (uint32_t)(wn__scale(packer->keys[key], packer->prints) - base));
	}
	return 0;
}

/* Lines that stay empty, so that the span can begin in line span - 2. */
static void leave_lines(struct packer *packer, uint64_t span)
{
	while (packer->lines + packer->is_pending + 2 < span) {
		write_pending(packer);
		memset(packer->directory - WN__LINE_SIZE * (packer->lines + 1), 0, WN__LINE_SIZE);
		packer->lines++;
	}
}

/* Make the span odd; the pending line ends where it begins. Packing goes on behind it. */
static int skip_span(struct packer *packer, uint64_t span, uint64_t *stepp, size_t *keyp)
{
	size_t first = first_key(packer, span, *keyp);
	size_t last = behind_last_key(packer, span, *keyp);

	if (packer->is_pending && packer->pending.end > span * WN__STEPS) {
		packer->pending.end = span * WN__STEPS;
		packer->pending.last = first;
		packer->is_pending = packer->pending.end > packer->pending.start;
	}
	leave_lines(packer, span + 1);
	*stepp = (span + 1) * WN__STEPS;
	*keyp = last;
	return note_odd(packer, span, first, last);
}

/* Can the pending line end where the span begins, so that the next begins there? */
static bool can_retreat(const struct packer *packer, uint64_t span)
{
	return packer->is_pending && packer->pending.start < span * WN__STEPS &&
	       span >= packer->lines;
}

static int pack(struct packer *packer)
{
	uint64_t start = 0;
	size_t key = 0;
	int err = 0;

	/* There are never more than two lines more than spans: see above. If there were, the block
	 * would be none, and not memory in front of it. */
	while (start < packer->steps && !err && packer->lines <= packer->shape.spans) {
		struct line line = fill_line(packer, start, key);
		uint64_t span = start / WN__STEPS;
		bool inside = start % WN__STEPS != 0;
		uint64_t number = packer->lines + packer->is_pending;

		if (inside && line.end < (span + 1) * WN__STEPS && can_retreat(packer, span)) {
			key = first_key(packer, span, key);
			start = span * WN__STEPS;
			packer->pending.end = start;
			packer->pending.last = key;
			continue;
		}
		if (line.end == start || (inside && line.end < (span + 1) * WN__STEPS)) {
			err = skip_span(packer, span, &start, &key);
			continue;
		}
		write_pending(packer);
		packer->pending = line;
		packer->is_pending = true;
		start = line.end;
		key = line.last;
		/* The next span would begin in line number + 1. */
		if (number > 0 && line.end <= (number - 1) * WN__STEPS && start < packer->steps)
			err = skip_span(packer, number - 1, &start, &key);
	}
	write_pending(packer);
	return err ? err : start < packer->steps ? WN_ERR_FULL : 0;
}

/* ---- extended fingerprints ------------------------------------------------ */

static int extend_minirun(struct list *list, const uint64_t *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned char *at = append(list, WN__EXTENDED_SIZE);

		if (!at)
			return ENOMEM;
		put_le64(at, keys[i]);
	}
	return 0;
}

/* The first key from number `from` on whose fingerprint is not below, found by doubled steps:
 * negatives are few. */
static size_t find_key(const struct wn__build_input *input, uint64_t prints, size_t from,
		       uint64_t print)
{
	size_t low = from, high = from, step = 1;

	while (high < input->key_count && wn__scale(input->uppers[high], prints) < print) {
		low = high + 1;
		high = input->key_count - high > step ? high + step : input->key_count;
		step *= 2;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (wn__scale(input->uppers[middle], prints) < print)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The keys of all miniruns that a negative is in: none of them may answer for it. */
static int extend(const struct wn__build_input *input, uint64_t prints, struct list *list)
{
	uint64_t before = UINT64_MAX;
	size_t last = 0;
	int err = 0;

	for (size_t i = 0; i < input->negative_count && !err; i++) {
		uint64_t print = wn__scale(input->negatives[i].hi, prints);
		size_t first;

		if (print == before)
			continue;
		before = print;
		first = find_key(input, prints, last, print);
		last = find_key(input, prints, first, print + 1);
		err = extend_minirun(list, input->uppers + first, last - first);
	}
	return err;
}

/* ---- the block ------------------------------------------------------------ */

/* Blocks up to this size are moved to where they would be without the lines that were not
 * needed; in larger ones these are left empty. */
#define WORTH_A_MOVE ((size_t)1 << 20)

/* Lines and directory are written. How many lines there are now, L to L + 2: the first queries
 * reach no further, the last no further back. */
static uint64_t settle_lines(const struct packer *packer, unsigned char *payload)
{
	uint64_t spans = packer->shape.spans;
	uint64_t lines = packer->lines > spans ? packer->lines : spans;
	size_t unused;

	if ((spans + 2) * WN__LINE_SIZE > WORTH_A_MOVE)
		lines = spans + 2;
	memset(packer->directory - lines * WN__LINE_SIZE, 0,
	       (size_t)(lines - packer->lines) * WN__LINE_SIZE);
	unused = (size_t)(spans + 2 - lines) * WN__LINE_SIZE;
	if (unused)
		memmove(payload, payload + unused, (size_t)(lines * WN__LINE_SIZE + spans));
	return lines;
}

static unsigned char *put_list(unsigned char *at, const struct list *list)
{
	if (list->size)
		memcpy(at, list->bytes, list->size);
	return at + list->size;
}

/* Pack into a new block, which is then as large as it has to be. */
static int pack_block(struct packer *packer, const struct list *extended,
		      struct wn__block_writer *writer, unsigned char *params)
{
	uint64_t spans = packer->shape.spans;
	struct wn__lines_params to = {
		.remainder_bits = packer->remainder_bits,
		.quotients = packer->shape.quotients,
		.spans = spans,
	};
	unsigned char *payload;
	size_t size = (size_t)((spans + 2) * WN__LINE_SIZE + spans);
	/* The odd spans' fingerprints take less, nearly always. */
	int err = wn__block_begin_raw(writer, size, size / 256 + extended->size, &payload);

	if (err)
		return err;
	packer->directory = payload + (spans + 2) * WN__LINE_SIZE;
	err = pack(packer);
	if (err)
		return err;
	to.lines = (uint32_t)settle_lines(packer, payload);
	to.odd_spans = (uint32_t)packer->odd_span_count;
	to.odd_prints = packer->odd_prints.size / WN__ODD_PRINT_SIZE;
	to.extended = (uint32_t)(extended->size / WN__EXTENDED_SIZE);
	err = wn__block_resize(writer, (size_t)wn__lines_payload_size(&to), &payload);
	if (err)
		return err;
	payload += (size_t)to.lines * WN__LINE_SIZE + spans;
	payload = put_list(payload, &packer->odd_spans);
	payload = put_list(payload, &packer->odd_prints);
	put_list(payload, extended);
	wn__lines_params_put(params, &to);
	return 0;
}

int wn__lines_build(const struct wn__build_input *input, const struct wn__lines_shape *shape,
		    struct wn__block_writer *writer, unsigned char *params)
{
	struct list extended = {0};
	struct packer packer;
	int err;

	init_packer(&packer, input, shape);
	err = extend(input, packer.prints, &extended);
	if (!err && extended.size / WN__EXTENDED_SIZE > UINT32_MAX)
		err = WN_ERR_INVALID;
	if (!err)
		err = pack_block(&packer, &extended, writer, params);
	free(extended.bytes);
	free(packer.odd_spans.bytes);
	free(packer.odd_prints.bytes);
	return err;
}
