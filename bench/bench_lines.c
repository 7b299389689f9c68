/* bench_lines.c - layouts of AdaptiveQFs in lines: for so many bits a key, the most quotients
 * with which few keys are in odd spans, and the rate they give. The table of
 * src/kinds/aqf/lines_choose.c was made with it. */
#include <math.h>
#include <stdlib.h>

#include <winnow/filter.h>

#include "base/pile.h"
#include "bench_util.h"
#include "kinds/aqf/aqf_table.h"
#include "kinds/aqf/lines.h"
#include "kinds/block_build.h"

struct trial {
	double bits, rate, odd_share;
};

static struct trial try_layout(const struct wn__build_input *input,
			       const struct wn__lines_shape *shape)
{
	struct wn__block_writer writer = {0};
	unsigned char bytes[WN_BLOCK_PARAMS_SIZE] = {0};
	double keys = (double)input->key_count;
	struct wn__lines_params params;
	struct trial trial;

	bench_ok(wn__lines_build(input, shape, &writer, bytes), "building");
	params = wn__lines_params_get(bytes);
	trial.bits = 8.0 * (double)writer.size / keys;
	trial.odd_share = (double)params.odd_prints / keys;
	trial.rate = -expm1(-keys / (double)wn__lines_quotients(shape) *
			    ldexp(1, -(int)wn__lines_remainder_bits(shape)));
	wn__block_abandon(&writer);
	return trial;
}

/* The most quotients that the bits and the share of keys in odd spans allow. */
static void find_most(const struct wn__build_input *input, double bits, double odd_share,
		      unsigned extra_bits)
{
	unsigned low = WN__MIN_QUOTIENTS - 1, high = WN__MAX_QUOTIENTS + 1;
	struct trial best = {0};

	while (high - low > 1) {
		unsigned middle = (low + high) / 2;
		struct wn__lines_shape shape = {
			extra_bits, middle,
			wn__lines_spans(input->key_count, (unsigned)(520000 / (bits - 0.012)))};
		struct trial trial = try_layout(input, &shape);

		if (trial.bits <= bits && trial.odd_share <= odd_share) {
			low = middle;
			best = trial;
		} else {
			high = middle;
		}
	}
	if (low >= WN__MIN_QUOTIENTS)
		printf("  %2u remainder bits, %3u quotients: rate %.3e, %.3f bits, %.4f %% odd\n",
		       8 + extra_bits, low, best.rate, best.bits, 100 * best.odd_share);
}

static double slots_rate(double bits)
{
	return 0.95 * ldexp(1, -(int)floor(bits * 0.95 - 2.125));
}

int main(int argc, char **argv)
{
	uint64_t num = 500000, seed = 1;
	double from = 10, to = 18, by = 0.5, odd_share = 0.00025;
	const struct bench_option options[] = {
		{"num", BENCH_INTEGER, &num, 1000, 1e8, "keys"},
		{"seed", BENCH_INTEGER, &seed, 0, 9e15, "of the hashes"},
		{"from", BENCH_REAL, &from, 6, 30, "bits a key, the first"},
		{"to", BENCH_REAL, &to, 6, 30, "the last"},
		{"by", BENCH_REAL, &by, 0.01, 10, "the next"},
		{"odd_share", BENCH_REAL, &odd_share, 0, 1, "of the keys in odd spans, at most"},
		{.name = NULL},
	};
	struct wn__pile pile;
	uint64_t *uppers;
	size_t count;

	bench_parse(argc, argv,
		    "usage: bench_lines [--option=value...]\n"
		    "Layouts of adaptive quotient filters in lines, by bits a key.", options);
	wn__pile_init(&pile);
	for (uint64_t i = 0; i < num; i++)
		bench_ok(wn__pile_add(&pile, bench_mix(seed ^ bench_mix(i))), "adding");
	bench_ok(wn__pile_sort(&pile, &uppers, &count), "sorting");
	wn__pile_fini(&pile);
	for (double bits = from; bits < to + by / 2; bits += by) {
		struct wn__build_input input = {.uppers = uppers, .key_count = count};

		printf("%.2f bits a key (in slots: rate %.3e)\n", bits, slots_rate(bits));
		for (unsigned extra_bits = 0; extra_bits <= WN__MAX_EXTRA_BITS; extra_bits++)
			find_most(&input, bits, odd_share, extra_bits);
	}
	free(uppers);
	return 0;
}
