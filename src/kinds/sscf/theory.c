/* theory.c - parameters of seesaw counting filters by formula. */
#include <math.h>
#include <string.h>

#include "sscf_format.h"
#include "sscf_theory.h"

static double power(double base, unsigned exponent)
{
	double result = 1;

	for (; exponent; exponent >>= 1, base *= base)
		if (exponent & 1)
			result *= base;
	return result;
}

/* ---- the living form ---------------------------------------------------- */

/* The chance to be taken for a key: in the first round, by k cells that are set; in the
 * second, by k - 1 of them and a function that stands in. As printed that is for
 * whichever cell is empty; otherwise for the first negative cell only. */
static double rate_of_vulnerable(const struct wn__sscf_rates *rates, unsigned k, bool as_printed,
				 double stands_in)
{
	double others = power(rates->mixed, k - 1);
	double ways = as_printed ? k : 1;

	return others * (rates->mixed + ways * (1 - rates->mixed) * stands_in);
}

static double rate_of_others(const struct wn__sscf_rates *rates, unsigned k, bool as_printed,
			     double stands_in)
{
	double plain = (1 - rates->negative) * rates->positive;
	double set = rates->negative * rates->mixed + plain;
	double empty = 0;

	if (as_printed)
		return power(set, k - 1) * (set + (1 - set) * k * stands_in);
	for (unsigned first = 0; first < k; first++)
		empty += power(plain, first) * rates->negative * (1 - rates->mixed) *
			 power(set, k - 1 - first);
	return power(set, k) + empty * stands_in;
}

struct wn__sscf_rates wn__sscf_theory(const struct wn__sscf_letters *letters)
{
	struct wn__sscf_rates rates = {0};
	unsigned k = letters->hashes;
	double touched, per_cell, mean_load, all_negative, stands_in;

	rates.negative = -expm1(-(double)k * letters->vulnerable / letters->cells);
	touched = 1 - power(1 - rates.negative, k);
	rates.triggered = letters->keys * touched;
	per_cell = letters->modulator_cells > 0 ? rates.triggered / letters->modulator_cells : 0;
	rates.load = -expm1(-per_cell);
	/* The mean of the load while the keys come in. */
	mean_load = per_cell > 1e-6 ? 1 - rates.load / per_cell : per_cell / 2;
	all_negative = power(rates.negative, letters->backups);
	rates.modulated = 1 - all_negative - mean_load * (rates.negative - all_negative);
	if (letters->modulator_cells < 1)
		rates.modulated = 0;
	if (rates.negative > 0)
		rates.mixed = -expm1(-letters->keys * (k * rates.negative -
						       rates.modulated * touched) /
				     (letters->cells * rates.negative));
	/* Where all cells are negative there is no other cell; 1 is the limit. */
	rates.positive = 1;
	if (rates.negative < 1)
		rates.positive = -expm1(-(letters->keys * k * (1 - rates.negative) +
					  rates.triggered * rates.modulated) /
					(letters->cells * (1 - rates.negative)));
	stands_in = rates.load * rates.positive * (1 - rates.negative);
	rates.vulnerable_rate = rate_of_vulnerable(&rates, k, letters->as_printed, stands_in);
	rates.other_rate = rate_of_others(&rates, k, letters->as_printed, stands_in);
	rates.cost_rate = letters->vulnerable_cost * rates.vulnerable_rate +
			  (1 - letters->vulnerable_cost) * rates.other_rate;
	return rates;
}

#define SHARES 100 /* of the space, tried for the modulator: 0 to 50% */

/* The best number of hash functions for a space that has been shared out. */
static double settle_letters(struct wn__sscf_letters *letters, unsigned given)
{
	double least = 2;
	unsigned best = 1;

	for (unsigned k = given ? given : 1; k <= (given ? given : WN__SSCF_MAX_HASHES); k++) {
		double rate;

		letters->hashes = k;
		rate = wn__sscf_theory(letters).cost_rate;
		if (rate < least) {
			least = rate;
			best = k;
		}
	}
	letters->hashes = best;
	return least;
}

/* The rate has one minimum in either, but a grid is as quick and sees a flat one. */
void wn__sscf_minimise(struct wn__sscf_letters *letters, double bits, struct wn__sscf_widths widths,
		       double share)
{
	struct wn__sscf_letters best = *letters, tried = *letters;
	double least = 2;

	for (unsigned step = 0; step <= SHARES; step++) {
		double modulator = bits * (share > 0 ? share : (double)step / (2 * SHARES));
		double rate;

		tried.modulator_cells = floor(modulator / widths.modulator);
		tried.cells = floor((bits - modulator) / widths.cell);
		if (tried.cells < 1)
			break;
		rate = settle_letters(&tried, letters->hashes);
		if (rate < least) {
			least = rate;
			best = tried;
		}
		if (share > 0 || letters->vulnerable == 0)
			break;
	}
	*letters = best;
}

/* ---- the frozen form: layout -------------------------------------------- */

#define LEAST_BLOCK 512        /* a cache line */
#define LARGEST_BLOCK 32768    /* beyond, one block may as well be all */
#define FEWEST_BLOCKS 16       /* fewer: their size is made to fit, not their number */
#define ACCURACY_LOSS (4.0 / 3)
#define MANY_KEYS 65536 /* in a block: chance evens out */

/* Keys fall into blocks by chance: the mean of the rate over a Poisson distribution. */
double wn__sscf_blocked_rate(double keys_per_block, double block_cells, unsigned hashes)
{
	double spread = 8 * sqrt(keys_per_block) + 8;
	double first = floor(keys_per_block > spread ? keys_per_block - spread : 0);
	double last = keys_per_block + spread;
	int sign; /* lgamma() writes it to a variable of the whole process */
	double chance = exp(first * log(keys_per_block) - keys_per_block -
			    lgamma_r(first + 1, &sign));
	double missed_by_key = pow(1 - 1 / block_cells, hashes);
	double empty = pow(missed_by_key, first);
	double rate = 0;

	if (keys_per_block > MANY_KEYS)
		return power(-expm1(-hashes * keys_per_block / block_cells), hashes);
	for (double keys = first; keys <= last; keys++) {
		rate += chance * power(1 - empty, hashes);
		chance *= keys_per_block / (keys + 1);
		empty *= missed_by_key;
	}
	return rate;
}

/* The same when all cells are one block. */
static double plain_rate(double keys, double cells, unsigned hashes)
{
	return power(-expm1(-(double)hashes * keys / cells), hashes);
}

/* blocks == 1: one block with all keys in it. */
static double rate_of(double keys, double cells, double blocks, unsigned hashes)
{
	if (blocks < 2)
		return plain_rate(keys, cells, hashes);
	return wn__sscf_blocked_rate(keys / blocks, cells / blocks, hashes);
}

/* The best number of functions: that of a Bloom filter or a few less. */
static unsigned best_hashes(double keys, double cells, double blocks, double *ratep)
{
	double guess = cells / keys * M_LN2;
	unsigned hashes = guess < 1 ? 1 : guess > WN__SSCF_MAX_HASHES - 1 ? WN__SSCF_MAX_HASHES
									  : (unsigned)guess + 1;

	*ratep = rate_of(keys, cells, blocks, hashes);
	while (hashes > 1) {
		double fewer = rate_of(keys, cells, blocks, hashes - 1);

		if (fewer > *ratep)
			break;
		*ratep = fewer;
		hashes--;
	}
	return hashes;
}

static unsigned settle_hashes(double keys, double cells, double blocks, unsigned given,
			      double *ratep)
{
	if (!given)
		return best_hashes(keys, cells, blocks, ratep);
	*ratep = rate_of(keys, cells, blocks, given);
	return given;
}

static struct wn__sscf_shape shape_of(uint64_t cells, uint64_t keys, uint64_t blocks,
				      unsigned hashes)
{
	struct wn__sscf_shape shape = {.blocks = (uint32_t)blocks};

	shape.block_cells = (uint32_t)(cells / blocks);
	shape.hashes = settle_hashes((double)keys, (double)cells, (double)blocks, hashes,
				     &shape.rate);
	return shape;
}

struct wn__sscf_shape wn__sscf_choose_shape(uint64_t cells, uint64_t keys, unsigned hashes)
{
	double one_block;
	uint64_t size = LEAST_BLOCK;

	if (cells < 2 * LEAST_BLOCK)
		return shape_of((cells + 7) / 8 * 8, keys, 1, hashes);
	settle_hashes((double)keys, (double)cells, 1, hashes, &one_block);
	for (; size <= LARGEST_BLOCK && size <= cells / 2; size *= 2) {
		uint64_t blocks = (cells + size / 2) / size;
		struct wn__sscf_shape shape;

		if (blocks < FEWEST_BLOCKS)
			shape = shape_of(cells / blocks / 8 * 8 * blocks, keys, blocks, hashes);
		else
			shape = shape_of(blocks * size, keys, blocks, hashes);
		if (shape.rate <= ACCURACY_LOSS * one_block)
			return shape;
	}
	/* One block's cells are counted with 32 bits. */
	if (cells <= UINT32_MAX - 7)
		return shape_of((cells + 7) / 8 * 8, keys, 1, hashes);
	return shape_of(cells / LARGEST_BLOCK * LARGEST_BLOCK, keys, cells / LARGEST_BLOCK, hashes);
}

/* ---- the frozen form: whom to serve ------------------------------------- */

#define LEAST_EXPONENT (-64) /* of two */
#define LEAST_MODULATOR 4    /* cells */

unsigned wn__sscf_cost_class(double cost)
{
	int exponent;
	double fraction = frexp(cost, &exponent); /* 0.5 to 1 */

	if (exponent < LEAST_EXPONENT)
		return 0;
	if (exponent >= LEAST_EXPONENT + WN__SSCF_COST_CLASSES / 4)
		return WN__SSCF_COST_CLASSES - 1;
	return (unsigned)(exponent - LEAST_EXPONENT) * 4 + (unsigned)((fraction - 0.5) * 8);
}

void wn__sscf_class_costs(const double *given, size_t count, struct wn__sscf_costs *costs)
{
	memset(costs, 0, sizeof(*costs));
	for (size_t i = 0; i < count; i++) {
		double cost = given ? given[i] : 1;
		unsigned at = wn__sscf_cost_class(cost);

		costs->count[at]++;
		costs->sum[at] += cost;
	}
}

/* With v vulnerable keys served, v * rate functions are modulated. That raises the rate
 * for all others by
 *   c * w * n / N         for the bits the modulator takes from the cells, c = ln(2)^2,
 *   k (1 - p) * v rate / n   for second rounds that find a modulator cell in use,
 * relatively, with p the share of set cells, w the bits of a modulator cell, N the keys.
 * The sum is least at this n: */
static double modulator_for(double modulated, double keys, double second, double width)
{
	return sqrt(second * modulated * keys / (M_LN2 * M_LN2 * width));
}

static double rise(double modulated, double keys, double second, double width)
{
	return 2 * sqrt(M_LN2 * M_LN2 * width * second * modulated / keys);
}

struct wn__sscf_choice wn__sscf_choose_vulnerable(const struct wn__sscf_costs *costs, uint64_t keys,
						  double bits_per_key, double rate,
						  unsigned hashes, unsigned modulator_bits,
						  double listed_share, uint64_t limit)
{
	struct wn__sscf_choice best = {0};
	double second = hashes * exp(-(double)hashes / bits_per_key);
	double total = 0, served = 0, best_gain = 0;
	uint64_t count = 0;

	for (unsigned at = 0; at < WN__SSCF_COST_CLASSES; at++)
		total += costs->sum[at];
	total /= listed_share;
	/* Within a class the gain first falls, then rises: the class's ends are enough. */
	for (unsigned at = WN__SSCF_COST_CLASSES; at-- > 0 && count < limit;) {
		uint64_t room = limit - count;
		uint64_t taken = costs->count[at] < room ? costs->count[at] : room;
		double modulated, gain;

		if (taken == 0)
			continue;
		count += taken;
		served += costs->sum[at] * (double)taken / (double)costs->count[at];
		modulated = (double)count * rate;
		gain = served - (total - served) * rise(modulated, (double)keys, second,
							modulator_bits);
		if (gain <= best_gain)
			continue;
		best_gain = gain;
		best = (struct wn__sscf_choice){
			.vulnerable = count,
			.cost_class = at,
			.of_class = taken,
			.modulator_cells = (uint64_t)ceil(modulator_for(modulated, (double)keys,
									second, modulator_bits)),
		};
	}
	if (best.vulnerable && best.modulator_cells < LEAST_MODULATOR)
		best.modulator_cells = LEAST_MODULATOR;
	return best;
}
