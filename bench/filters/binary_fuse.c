/* binary_fuse.c - see binary_fuse.h.
 *
 * A key has one cell in each of three neighbouring segments, and its fingerprint is the three
 * cells' exclusive or. Building peels: a cell that only one key has can be set last, whatever the
 * others are; take that key away, look for the next such cell, and set the cells in the reverse
 * of this order. Peeling gets through with 1.125 cells a key, if segments are as long as Graf
 * and Lemire found. If it gets stuck, another seed moves all keys. */
#include "binary_fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_util.h"

#define ALWAYS static inline __attribute__((always_inline))

/* Behind the table, for fingerprints that are read with what follows them. */
#define PADDING 4

/* ---- cells and fingerprints ---------------------------------------------- */

struct cells {
	uint32_t at[3];
};

ALWAYS uint64_t move(const struct binary_fuse *fuse, uint64_t hash)
{
	return bench_mix(hash + fuse->seed);
}

ALWAYS struct cells cells_of(const struct binary_fuse *fuse, uint64_t moved)
{
	const uint32_t mask = fuse->segment - 1;
	const uint32_t first = (uint32_t)(((unsigned __int128)moved * fuse->starts) >> 64);

	return (struct cells){ {
		first,
		(first + fuse->segment) ^ ((uint32_t)(moved >> 18) & mask),
		(first + 2 * fuse->segment) ^ ((uint32_t)moved & mask),
	} };
}

ALWAYS uint32_t print_of(uint64_t moved, unsigned width)
{
	return (uint32_t)(moved ^ moved >> 32) & ((UINT32_C(1) << width) - 1);
}

/* Packed, the first in the lowest bits; little-endian machines only. */
ALWAYS uint32_t get_cell(const unsigned char *table, uint32_t cell, unsigned width)
{
	const uint64_t bit = (uint64_t)cell * width;
	uint32_t word;

	if (width == 8)
		return table[cell];
	memcpy(&word, table + (bit >> 3), sizeof(word));
	return word >> (bit & 7) & ((UINT32_C(1) << width) - 1);
}

/* The cell is zero. */
static void set_cell(unsigned char *table, uint32_t cell, unsigned width, uint32_t value)
{
	const uint64_t bit = (uint64_t)cell * width;
	uint32_t word;

	memcpy(&word, table + (bit >> 3), sizeof(word));
	word |= value << (bit & 7);
	memcpy(table + (bit >> 3), &word, sizeof(word));
}

/* ---- building ----------------------------------------------------------- */

struct peeled {
	uint64_t moved;
	uint32_t turn; /* which of its cells it sets */
};

/* What is needed while a filter is built. */
struct work {
	uint64_t *moved;       /* the hashes under the seed, roughly in order of their first cell */
	uint64_t *sums;        /* a cell: exclusive or of the hashes that have it */
	unsigned char *counts; /* their number by 4, and exclusive or of their turns */
	uint32_t *alone;       /* cells that one hash has */
	struct peeled *order;
};

static void free_work(struct work *work)
{
	free(work->moved);
	free(work->sums);
	free(work->counts);
	free(work->alone);
	free(work->order);
}

static bool get_work(struct work *work, size_t count, size_t cells)
{
	work->moved = malloc((count + 1) * sizeof(*work->moved));
	work->sums = malloc(cells * sizeof(*work->sums));
	work->counts = malloc(cells);
	work->alone = malloc(cells * sizeof(*work->alone));
	work->order = malloc((count + 1) * sizeof(*work->order));
	return work->moved && work->sums && work->counts && work->alone && work->order;
}

#define BUCKET_BITS 10
#define BUCKETS (1 << BUCKET_BITS)

/* By the upper bits, which say where the first cell is: cells are then visited about in order,
 * most of the time in cache. */
static void move_all(const struct binary_fuse *fuse, const uint64_t *hashes, size_t count,
		     uint64_t *movedp)
{
	size_t ends[BUCKETS + 1] = { 0 };

	for (size_t i = 0; i < count; i++)
		ends[(move(fuse, hashes[i]) >> (64 - BUCKET_BITS)) + 1]++;
	for (size_t i = 0; i < BUCKETS; i++)
		ends[i + 1] += ends[i];
	for (size_t i = 0; i < count; i++) {
		const uint64_t moved = move(fuse, hashes[i]);

		movedp[ends[moved >> (64 - BUCKET_BITS)]++] = moved;
	}
}

/* False: a cell has more hashes than can be counted. */
static bool count_all(const struct binary_fuse *fuse, size_t count, struct work *work)
{
	bool good = true;

	memset(work->sums, 0, fuse->cells * sizeof(*work->sums));
	memset(work->counts, 0, fuse->cells);
	for (size_t i = 0; i < count; i++) {
		const struct cells cells = cells_of(fuse, work->moved[i]);

		for (uint32_t turn = 0; turn < 3; turn++) {
			unsigned char *here = &work->counts[cells.at[turn]];

			*here = (unsigned char)((*here + 4) ^ turn);
			good = good && *here >= 4;
			work->sums[cells.at[turn]] ^= work->moved[i];
		}
	}
	return good;
}

/* The number of hashes peeled off. */
static size_t peel(const struct binary_fuse *fuse, struct work *work)
{
	size_t waiting = 0, done = 0;

	for (uint32_t cell = 0; cell < fuse->cells; cell++)
		if (work->counts[cell] >> 2 == 1)
			work->alone[waiting++] = cell;
	while (waiting > 0) {
		const uint32_t cell = work->alone[--waiting];
		const uint64_t moved = work->sums[cell];
		const uint32_t turn = work->counts[cell] & 3;
		struct cells cells;

		if (work->counts[cell] >> 2 != 1)
			continue;
		cells = cells_of(fuse, moved);
		work->order[done++] = (struct peeled){ moved, turn };
		for (uint32_t other = 0; other < 3; other++) {
			unsigned char *here = &work->counts[cells.at[other]];

			*here = (unsigned char)((*here - 4) ^ other);
			work->sums[cells.at[other]] ^= moved;
			if (other != turn && *here >> 2 == 1)
				work->alone[waiting++] = cells.at[other];
		}
	}
	return done;
}

static void set_all(const struct binary_fuse *fuse, const struct peeled *order, size_t count,
		    unsigned char *table)
{
	const unsigned width = fuse->width;

	for (size_t i = count; i > 0; i--) {
		const struct peeled peeled = order[i - 1];
		const struct cells cells = cells_of(fuse, peeled.moved);
		uint32_t value = print_of(peeled.moved, width);

		/* Its own cell is still zero. */
		for (unsigned turn = 0; turn < 3; turn++)
			value ^= get_cell(table, cells.at[turn], width);
		set_cell(table, cells.at[peeled.turn], width, value);
	}
}

/* The lengths that Graf and Lemire give for three cells a key. */
static void choose_lengths(struct binary_fuse *fuse, size_t count)
{
	const double keys = count > 2 ? (double)count : 2.0;
	const double bits = floor(log(keys) / log(3.33) + 2.25);
	const double factor = fmax(1.125, 0.875 + 0.25 * log(1e6) / log(keys));
	uint32_t segments;

	fuse->segment = UINT32_C(1) << (unsigned)fmin(bits, 18);
	segments = (uint32_t)ceil(keys * factor / fuse->segment);
	segments = segments > 3 ? segments - 2 : 1;
	fuse->starts = segments * fuse->segment;
	fuse->cells = fuse->starts + 2 * fuse->segment;
}

static bool try_seeds(struct binary_fuse *fuse, const uint64_t *hashes, size_t count,
		      struct work *work)
{
	for (uint64_t i = 1; i <= BINARY_FUSE_TRIES; i++) {
		fuse->seed = bench_mix(i);
		move_all(fuse, hashes, count, work->moved);
		if (count_all(fuse, count, work) && peel(fuse, work) == count)
			return true;
	}
	return false;
}

bool binary_fuse_build(const uint64_t *hashes, size_t count, unsigned width,
		       struct binary_fuse *fusep)
{
	struct binary_fuse fuse = { .width = width };
	struct work work;
	bool good;

	*fusep = (struct binary_fuse){ 0 };
	choose_lengths(&fuse, count);
	fuse.bytes = ((size_t)fuse.cells * width + 7) / 8 + PADDING;
	good = get_work(&work, count, fuse.cells) && try_seeds(&fuse, hashes, count, &work);
	if (good) {
		unsigned char *table = calloc(1, fuse.bytes);

		good = table != NULL;
		if (good)
			set_all(&fuse, work.order, count, table);
		fuse.table = table;
	}
	free_work(&work);
	if (good)
		*fusep = fuse;
	return good;
}

void binary_fuse_free(struct binary_fuse *fuse)
{
	free((void *)fuse->table);
}

/* ---- queries ------------------------------------------------------------ */

ALWAYS bool answer(const struct binary_fuse *fuse, uint64_t moved, unsigned width)
{
	const struct cells cells = cells_of(fuse, moved);

	return (get_cell(fuse->table, cells.at[0], width) ^
		get_cell(fuse->table, cells.at[1], width) ^
		get_cell(fuse->table, cells.at[2], width)) == print_of(moved, width);
}

/* So that common widths are constants. */
ALWAYS bool answer_any(const struct binary_fuse *fuse, uint64_t moved)
{
	switch (fuse->width) {
	case 8:
		return answer(fuse, moved, 8);
	case 9:
		return answer(fuse, moved, 9);
	default:
		return answer(fuse, moved, fuse->width);
	}
}

bool binary_fuse_query(const struct binary_fuse *fuse, uint64_t hash)
{
	return answer_any(fuse, move(fuse, hash));
}

void binary_fuse_query_batch(const struct binary_fuse *fuse, const uint64_t *hashes, size_t count,
			     bool *answersp)
{
	uint64_t moved[32];
	const unsigned char *table = fuse->table;

	for (size_t i = 0; i < count; i++) {
		struct cells cells;

		moved[i] = move(fuse, hashes[i]);
		cells = cells_of(fuse, moved[i]);
		for (unsigned turn = 0; turn < 3; turn++)
			__builtin_prefetch(table + (((uint64_t)cells.at[turn] * fuse->width) >> 3));
	}
	for (size_t i = 0; i < count; i++)
		answersp[i] = answer_any(fuse, moved[i]);
}
