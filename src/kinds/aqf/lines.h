/* lines.h - the AdaptiveQF in lines: a block that answers from one cache line.
 *
 * A quotient filter whose runs do not move each other. There are L *spans* of Q quotients each,
 * more quotients than keys. Of a hash, whose upper half is the fraction x:
 *
 *   step         y = floor(x * 64 L)        64 steps a span; the span is y / 64
 *   fingerprint  F = floor(x * Q L 2^r)     quotient F >> r, remainder the r bits below
 *
 * A step is exactly Q 2^r / 64 fingerprints, so a border between two steps splits none.
 *
 * The fingerprints lie in order in *lines* of 64 bytes. A line takes all fingerprints from one
 * step to another, as many as go in; where it ends is a *border*. The lines are stored in
 * descending order in front of the directory: line k is at directory - 64 (k + 1).
 *
 *   directory  a signed byte a span. For a span c that begins in line i and has a border after
 *              b of its steps (1 to 64; 64: inside there is none), it is 64 (c - i - 1) + b - 1,
 *              and the line of step y is at directory + ((byte - y) & ~63). A span begins in
 *              one of the lines c - 2 to c + 1, and has one border inside at most. What does
 *              not go in so is an *odd* span: its byte is 127.
 *   line       byte 0: B mod 256, where B is the quotient of the line's first fingerprint that
 *              could be. From bit 8 upwards the *row*: for each quotient from B on a 1 for every
 *              fingerprint, then a 0. From byte 63 downwards the remainders' upper 8 bits, in
 *              order; when remainders have e more bits, every eight of these bytes have e bytes
 *              in front (above), the lower e bits of each, the first in the lowest bits. Zeros
 *              between the two.
 *   odd spans  sorted: span, and number of its first fingerprint; then those fingerprints, as
 *              distances from the span's first that could be.
 *   extended   fingerprints that stand for one key only, as negatives known at build time call
 *              for: the upper halves of all keys that have such a fingerprint, sorted. So the
 *              rank is the place among those with the same one.
 *
 * A query multiplies x twice, reads a directory byte and compares 48 or 56 bytes of the line
 * with the remainder: four of five queries for missing keys end there, with one branch taken.
 * The others select the quotient's run in the row, and see whether an equal remainder stands
 * in it.
 *
 * Whatever the bytes are, no query leaves the block: a directory byte leads at most two lines
 * away from those that are its span's. At one end these are in the block's header. At the other
 * wn__lines_open() looks at the first two bytes of the directory. */
#ifndef WN_KINDS_AQF_LINES_H
#define WN_KINDS_AQF_LINES_H

#include <winnow/block.h>
#include <winnow/filter.h>

#include "base/bits.h"
#include "kinds/kind.h"
#include "lines_format.h"

enum {
	WN__STEPS = 64,           /* a span */
	WN__ODD = 127,            /* the directory byte of an odd span */
	WN__ROW_START = 8,        /* bit of a line */
	WN__LINE_BITS = 504,      /* for the row and the remainders */
	WN__LINE_ROW = 184,       /* bits in the row, at most: three words less the first byte */
	WN__LINE_QUOTIENTS = 160, /* a line, at most */
	WN__LINE_ITEMS = 56,      /* bytes that may hold remainders */
	WN__LINE_FEW_ITEMS = 48,  /* where fewer will do, fewer are compared */
	WN__MAX_EXTRA_BITS = 8,
	WN__MIN_QUOTIENTS = 8,    /* a span */
	WN__MAX_QUOTIENTS = 136
};

/* ---- how a filter is laid out (lines_choose.c) --------------------------- */

/* What is chosen before a filter is built. */
struct wn__lines_shape {
	unsigned extra_bits; /* remainder bits beyond 8 */
	unsigned quotients;  /* a span */
	uint64_t spans;
};

/* Is there a layout for so many bits a key? */
bool wn__lines_have(double bits_per_key);

/* The shape with the least rate at so many bits a key, for so many keys. */
void wn__lines_choose(double bits_per_key, uint64_t keys, struct wn__lines_shape *shapep);

/* The same for a known span: for those who measure. `keys_per_span` in thousandths. */
uint64_t wn__lines_spans(uint64_t keys, unsigned keys_per_span);

WN__INLINE unsigned wn__lines_remainder_bits(const struct wn__lines_shape *shape)
{
	return 8 + shape->extra_bits;
}

WN__INLINE uint64_t wn__lines_quotients(const struct wn__lines_shape *shape)
{
	return shape->quotients * shape->spans;
}

/* Fingerprints a step. */
WN__INLINE uint64_t wn__lines_step(const struct wn__lines_shape *shape)
{
	return (uint64_t)shape->quotients << wn__lines_remainder_bits(shape) >> 6;
}

/* Are fewer bytes compared? With extra bits the remainders reach further down, and with few
 * quotients there are more of them. */
WN__INLINE bool wn__lines_are_few(const struct wn__lines_shape *shape)
{
	return shape->extra_bits == 0 && shape->quotients >= 80;
}

/* The byte of a line that has the upper 8 bits of a remainder. */
WN__INLINE int wn__item_byte(unsigned extra_bits, unsigned item)
{
	return 63 - (int)((item >> 3) * (8 + extra_bits) + extra_bits + (item & 7));
}

/* Remainders a line, at most. */
unsigned wn__lines_max_items(const struct wn__lines_shape *shape);

/* floor(x * factor) of the fraction with this upper half. */
WN__INLINE uint64_t wn__scale(uint64_t upper, uint64_t factor)
{
	return (uint64_t)((wn__u128)upper * factor >> 64);
}

/* ---- build (lines_build.c) ---------------------------------------------- */

struct wn__block_writer;

int wn__lines_build(const struct wn__build_input *input, const struct wn__lines_shape *shape,
		    struct wn__block_writer *writer, unsigned char *params);

/* ---- an open filter (lines_open.c) --------------------------------------- */

struct wn__lines {
	/* What every query reads. */
	const unsigned char *directory;
	uint64_t steps;       /* 64 a span */
	uint64_t first_bytes; /* quotients * 256: x times this is quotient and first byte */
	/* What a "maybe" reads. */
	uint64_t items;       /* bytes of a line that may hold the first byte of a remainder */
	unsigned item_shift;  /* 64 less their number */
	unsigned extra_bits;
	uint64_t prints;
	uint32_t extended;
	uint32_t odd_spans;
	uint64_t odd_prints;
	const unsigned char *odd_span_list;
	const unsigned char *odd_print_list;
	const unsigned char *extended_list;
	struct wn__lines_shape shape;
	uint32_t lines;
};

/* As wn_filter_open() says of checks. The result borrows from the payload. */
int wn__lines_open(const struct wn_block_info *info, enum wn_check check, struct wn__lines *linesp,
		   const char **reasonp);

/* The fingerprints in order, each with its step's line, UINT32_MAX if it is in an odd span. A
 * result other than 0 ends the walk and is returned. WN_ERR_CORRUPT: the block is damaged, and
 * *reasonp says how. */
typedef int wn__print_fn(void *context, uint64_t print, uint32_t line);
int wn__lines_walk(const struct wn__lines *lines, wn__print_fn *visit, void *context,
		   const char **reasonp);

/* ---- queries (lines_query.c) --------------------------------------------- */

/* The ways to do it; all give the same answers. */
enum wn__lines_path { WN__PATH_PORTABLE, WN__PATH_SSE2, WN__PATH_AVX2, WN__PATHS };

struct wn__lines_calls {
	wn__query_fn *query; /* NULL where this CPU cannot run it */
	wn__query_batch_fn *query_batch;
	wn__ask_short_fn *ask_short;
	wn__ask_batch_fn *ask_batch;
};

struct wn__lines_calls wn__lines_calls_of(const struct wn__lines *lines, enum wn__lines_path path);

/* The fastest. */
struct wn__lines_calls wn__lines_calls(const struct wn__lines *lines);

wn__query_from_fn wn__lines_query_from; /* state: struct wn__lines */

/* ---- describe (clusters.c) ----------------------------------------------- */

/* As wn__filter_clusters(): the lengths of all runs. */
int wn__lines_clusters(const struct wn__lines *lines, wn__cluster_fn *visit, void *context);

#endif /* WN_KINDS_AQF_LINES_H */
