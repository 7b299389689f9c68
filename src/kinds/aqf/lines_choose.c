/* lines_choose.c - which layout of lines has the least rate at so many bits a key.
 *
 * More quotients make longer rows and fewer false positives; more remainder bits do so, too, and
 * beyond some number of quotients they do it for less. The table is what bench/bench_lines found:
 * for so many bits a key, the most quotients with which no more than 0.025% of the keys are in odd
 * spans. In between, straight lines.
 *
 * Below 10 bits a key the remainders would have to be shorter than a byte. Above 18 a line holds so
 * few fingerprints that chance leaves much of it empty, and the form in slots, whose rate is the
 * lower one from 14.97 bits on, by up to 1.7, would be better by more than 2. */
#include "lines.h"

static const struct layout {
	double bits; /* a key, from here to the next row */
	unsigned extra_bits;
	double quotients, last_quotients; /* at both ends */
} layouts[] = {
	{10.00, 0, 20, 43},   /* rates 1.0e-2 to 4.5e-3 */
	{10.50, 0, 43, 65},   /* 2.8e-3 */
	{11.00, 0, 65, 83},   /* 2.1e-3 */
	{11.50, 0, 83, 109},  /* 1.5e-3 */
	{12.25, 1, 60, 101},  /* 1.4e-3 to 7.5e-4 */
	{13.50, 2, 60, 77},   /* 6.3e-4 to 4.7e-4 */
	{14.00, 2, 77, 83},   /* 4.3e-4 */
	{14.25, 3, 42, 54},   /* 4.2e-4 to 3.2e-4 */
	{14.75, 3, 54, 70},   /* 2.3e-4 */
	{15.50, 3, 70, 90},   /* 1.7e-4 */
	{16.50, 3, 90, 109},  /* 1.4e-4 */
	{17.00, 5, 53, 64},   /* 7.0e-5 to 5.7e-5 */
	{17.50, 5, 64, 71},   /* 5.0e-5 */
	{18.00, 0, 0, 0},     /* from here on: slots */
};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) - 1 };

uint64_t wn__lines_spans(uint64_t keys, unsigned keys_per_span)
{
	return (uint64_t)((wn__u128)keys * 1000 / keys_per_span) + 1;
}

/* A line and its directory byte take 520 bits; odd spans and the block's frame a little more. */
static unsigned keys_per_span(double bits_per_key)
{
	return (unsigned)(520 * 1000 / (bits_per_key - 0.012));
}

bool wn__lines_have(double bits_per_key)
{
	return bits_per_key >= layouts[0].bits && bits_per_key <= layouts[LAYOUTS].bits;
}

void wn__lines_choose(double bits_per_key, uint64_t keys, struct wn__lines_shape *shapep)
{
	const struct layout *layout = &layouts[LAYOUTS - 1];
	double share;

	while (layout->bits > bits_per_key)
		layout--;
	share = (bits_per_key - layout->bits) / (layout[1].bits - layout->bits);
	*shapep = (struct wn__lines_shape){
		.extra_bits = layout->extra_bits,
		.quotients = (unsigned)(layout->quotients +
					share * (layout->last_quotients - layout->quotients)),
		.spans = wn__lines_spans(keys, keys_per_span(bits_per_key)),
	};
	while (wn__slots_for_lessons(wn__lines_quotients(shapep),
				     wn__lines_remainder_bits(shapep)) !=
	       wn__lines_quotients(shapep))
		shapep->spans++;
}
