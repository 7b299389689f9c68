/* sscf_baselines.c - see sscf_baselines.h. */
#include "sscf_baselines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_util.h"

#define MOST 15u

/* ---- counting Bloom filter ---------------------------------------------- */

struct cbf *cbf_create(double bits, double keys)
{
	struct cbf *cbf = bench_alloc(1, sizeof(*cbf));
	double cells = floor(bits / 4), best = floor(cells / keys * M_LN2);

	cbf->cells = cells < 8 ? 8 : (uint64_t)cells;
	cbf->hashes = best < 1 ? 1 : best > 16 ? 16 : (unsigned)best;
	cbf->counters = bench_alloc(cbf->cells / 2 + 1, 1);
	memset(cbf->counters, 0, cbf->cells / 2 + 1);
	return cbf;
}

void cbf_destroy(struct cbf *cbf)
{
	if (cbf)
		free(cbf->counters);
	free(cbf);
}

/* The usual double hashing, from two independent halves. */
static inline uint64_t cell_of(const struct cbf *cbf, struct wn_hash hash, unsigned function)
{
	uint64_t mixed = hash.hi + function * (hash.lo | 1);

	return (uint64_t)((unsigned __int128)mixed * cbf->cells >> 64);
}

static inline unsigned count_of(const struct cbf *cbf, uint64_t cell)
{
	return cbf->counters[cell / 2] >> (cell % 2 * 4) & MOST;
}

void cbf_insert(struct cbf *cbf, struct wn_hash hash)
{
	for (unsigned i = 0; i < cbf->hashes; i++) {
		uint64_t cell = cell_of(cbf, hash, i);

		if (count_of(cbf, cell) < MOST)
			cbf->counters[cell / 2] = (unsigned char)(cbf->counters[cell / 2] +
								  (1u << cell % 2 * 4));
	}
}

void cbf_delete(struct cbf *cbf, struct wn_hash hash)
{
	for (unsigned i = 0; i < cbf->hashes; i++) {
		uint64_t cell = cell_of(cbf, hash, i);

		if (count_of(cbf, cell) < MOST)
			cbf->counters[cell / 2] = (unsigned char)(cbf->counters[cell / 2] -
								  (1u << cell % 2 * 4));
	}
}

bool cbf_query(const struct cbf *cbf, struct wn_hash hash)
{
	for (unsigned i = 0; i < cbf->hashes; i++)
		if (count_of(cbf, cell_of(cbf, hash, i)) == 0)
			return false;
	return true;
}

/* ---- stacked filter ----------------------------------------------------- */

/* Bits of a counting Bloom filter of this rate, a key. */
static double bits_for(double rate)
{
	return 4 * -log(rate) / (M_LN2 * M_LN2);
}

static double stack_bits(double rate, double keys, double negatives)
{
	return (keys + negatives + keys * rate) * bits_for(rate);
}

/* A layer's functions must not be those of the layer above. */
static struct wn_hash for_layer(struct wn_hash hash, unsigned layer)
{
	return (struct wn_hash){bench_mix(hash.hi + layer), bench_mix(hash.lo ^ layer)};
}

struct stacked *stacked_create(double bits, double keys, double negatives)
{
	struct stacked *stacked = bench_alloc(1, sizeof(*stacked));
	double low = 1e-12, high = 0.999;

	for (unsigned i = 0; i < 100; i++) {
		double middle = sqrt(low * high);

		if (stack_bits(middle, keys, negatives) > bits)
			low = middle;
		else
			high = middle;
	}
	stacked->layers[0] = cbf_create(keys * bits_for(high), keys);
	stacked->layers[1] = cbf_create(negatives * bits_for(high), negatives);
	stacked->layers[2] = cbf_create(keys * high * bits_for(high), keys * high);
	return stacked;
}

void stacked_destroy(struct stacked *stacked)
{
	for (unsigned i = 0; i < 3; i++)
		cbf_destroy(stacked->layers[i]);
	free(stacked);
}

void stacked_add_negative(struct stacked *stacked, struct wn_hash hash)
{
	cbf_insert(stacked->layers[1], for_layer(hash, 1));
}

void stacked_insert(struct stacked *stacked, struct wn_hash hash)
{
	cbf_insert(stacked->layers[0], hash);
	if (cbf_query(stacked->layers[1], for_layer(hash, 1)))
		cbf_insert(stacked->layers[2], for_layer(hash, 2));
}

void stacked_delete(struct stacked *stacked, struct wn_hash hash)
{
	cbf_delete(stacked->layers[0], hash);
	if (cbf_query(stacked->layers[1], for_layer(hash, 1)))
		cbf_delete(stacked->layers[2], for_layer(hash, 2));
}

bool stacked_query(const struct stacked *stacked, struct wn_hash hash)
{
	if (!cbf_query(stacked->layers[0], hash))
		return false;
	if (!cbf_query(stacked->layers[1], for_layer(hash, 1)))
		return true;
	return cbf_query(stacked->layers[2], for_layer(hash, 2));
}
