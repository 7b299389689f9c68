/* sscf.c - the living seesaw counting filter.
 *
 * The paper's section III, with its holes closed. A *seesaw counter* has a negative cell
 * (a vulnerable key seals it) and a positive cell (how many keys use it). A key uses the
 * cells of its k initial functions; if some of these are sealed, the first such function
 * is *modulated*: a backup function stands in whose cell is not sealed. Which one is
 * in the key's cell of the HashModulator, together with a count of the keys that need it
 * to stay. Where none will do, the key uses the sealed cell after all, and is counted too.
 *
 * What a deletion and the second round of a query rest on:
 *
 * 1. A cell is sealed only while its positive cell is empty, and stays sealed. So while a
 *    key is in, the cells it uses that were not sealed when it came are not sealed now.
 * 2. Hence the first sealed one of its functions is the same as when it came: those before
 *    it use cells of their own, not sealed.
 * 3. Its modulator cell counts the key, so the index there is the same as when it came.
 * 4. Hence the backup's cell is sealed now if and only if it was sealed then: if it was
 *    not, the key uses it.
 *
 * So a deletion knows what an insertion did, without the three cases of the paper's prose
 * (the third of which leaves counters too high for ever), as long as no counter wraps and
 * nothing is deleted that is not there. Counters at their maximum stay: a modulator cell
 * so stuck keeps its index for good, a positive cell is never empty again.
 *
 * A query's second round asks by 2. that the one empty cell be the first sealed one of
 * the key's functions; the paper takes any. That turns away all but one in k of the
 * second rounds of vulnerable keys and nearly all of those of others. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "kinds/block_build.h"
#include "kinds/sscf/sscf_theory.h"
#include "sscf_internal.h"

/* ---- make --------------------------------------------------------------- */

#define PADDING 8 /* bytes behind an array that a wide load may touch */
/* Cells that may be sealed, by the number to expect: beyond it every filter gets worse for
 * all keys, and soon worse than one that takes care of nobody. */
#define MOST_SEALED 1.5

static void set_defaults(struct wn_sscf_options *options)
{
	if (options->bits_per_key == 0)
		options->bits_per_key = 20;
	if (options->vulnerable == 0)
		options->vulnerable = options->capacity / 20;
	if (options->vulnerable_cost == 0)
		options->vulnerable_cost = 0.8;
	if (options->cell_bits == 0)
		options->cell_bits = 4;
	if (options->counter_bits == 0)
		options->counter_bits = 3;
	if (options->index_bits == 0)
		options->index_bits = 1;
}

static bool are_valid(const struct wn_sscf_options *options)
{
	return options->capacity >= 1 && options->bits_per_key >= 4 &&
	       options->bits_per_key <= 1000 && options->vulnerable_cost > 0 &&
	       options->vulnerable_cost <= 1 && options->modulator_share >= 0 &&
	       options->modulator_share <= 0.9 && options->cell_bits >= 2 &&
	       options->cell_bits <= 4 && options->counter_bits <= 12 &&
	       options->index_bits <= 3 && options->hashes <= WN__SSCF_MAX_HASHES &&
	       options->bits_per_key * (double)options->capacity < 4e9;
}

/* Options that are in range one by one may still leave no bits for a single cell. */
static int choose(struct wn_sscf *sscf, const struct wn_sscf_options *options)
{
	double bits = options->bits_per_key * (double)options->capacity;
	struct wn__sscf_widths widths = {
		.cell = 1 + options->cell_bits + options->adaptive,
		.modulator = options->counter_bits + options->index_bits,
	};
	struct wn__sscf_letters letters = {
		.keys = (double)options->capacity,
		.vulnerable = (double)options->vulnerable,
		.hashes = options->hashes,
		.backups = 1u << options->index_bits,
		.vulnerable_cost = options->vulnerable_cost,
	};
	struct wn__sscf_rates rates;

	wn__sscf_minimise(&letters, bits, widths, options->modulator_share);
	if (letters.cells < 1)
		return WN_ERR_INVALID;
	if (letters.modulator_cells < 1)
		letters.modulator_cells = 1;
	rates = wn__sscf_theory(&letters);
	sscf->cells = ((uint32_t)letters.cells + 7) / 8 * 8;
	sscf->modulator_cells = (uint32_t)letters.modulator_cells;
	sscf->hashes = letters.hashes;
	sscf->sealed_limit = (uint64_t)(MOST_SEALED * rates.negative * letters.cells) + 64;
	sscf->expected_rate = rates.other_rate;
	sscf->expected_vulnerable_rate = rates.vulnerable_rate;
	return 0;
}

static int allocate(struct wn_sscf *sscf)
{
	uint64_t groups_size = (uint64_t)(sscf->cells / 8) * sscf->stride;
	uint64_t modulator_size = ((uint64_t)sscf->modulator_cells *
				   (sscf->counter_bits + sscf->index_bits) + 7) / 8;

	sscf->groups = wn__alloc_table(groups_size + PADDING);
	sscf->modulator = wn__alloc_table(modulator_size + PADDING);
	sscf->bytes = groups_size + modulator_size;
	return sscf->groups && sscf->modulator ? 0 : ENOMEM;
}

int wn_sscf_create(const struct wn_sscf_options *given, struct wn_sscf **sscfp)
{
	struct wn_sscf_options options = *given;
	struct wn_sscf *sscf;
	int err;

	*sscfp = NULL;
	set_defaults(&options);
	if (!are_valid(&options) || !wn__is_reserved_zero(&options))
		return WN_ERR_INVALID;
	sscf = wn__calloc(1, sizeof(*sscf));
	if (!sscf)
		return ENOMEM;
	sscf->cell_bits = options.cell_bits;
	sscf->counter_bits = options.counter_bits;
	sscf->index_bits = options.index_bits;
	sscf->adaptive = options.adaptive;
	sscf->stride = 1 + sscf->cell_bits + sscf->adaptive;
	err = choose(sscf, &options);
	if (!err)
		err = allocate(sscf);
	if (err) {
		wn_sscf_destroy(sscf);
		return err;
	}
	*sscfp = sscf;
	return 0;
}

void wn_sscf_destroy(struct wn_sscf *sscf)
{
	if (!sscf)
		return;
	free(sscf->groups);
	free(sscf->modulator);
	free(sscf);
}

/* ---- cells -------------------------------------------------------------- */

static unsigned char *group_bytes(const struct wn_sscf *sscf, uint32_t cell)
{
	return sscf->groups + (uint64_t)(cell / 8) * sscf->stride;
}

static bool is_sealed(const struct wn_sscf *sscf, uint32_t cell)
{
	return wn__group_negative(wn__sscf_group(sscf, cell), cell);
}

static unsigned count_of(const struct wn_sscf *sscf, uint32_t cell)
{
	return wn__group_count(sscf, wn__sscf_group(sscf, cell), cell);
}

static unsigned most_in_cell(const struct wn_sscf *sscf)
{
	return (1u << sscf->cell_bits) - 1;
}

/* Add 1 or -1; the counter's bytes only are written. */
static void add_to_cell(struct wn_sscf *sscf, uint32_t cell, int add)
{
	unsigned char *counters = group_bytes(sscf, cell) + 1;
	unsigned at = cell % 8 * sscf->cell_bits;
	unsigned char *bytes = counters + at / 8;
	/* A counter of three bits may lie in two bytes, but not in the group's last one
	 * and the one behind it. */
	bool two = at % 8 + sscf->cell_bits > 8;
	unsigned word = bytes[0] | (two ? (unsigned)bytes[1] << 8 : 0);

	word += (unsigned)add << at % 8;
	bytes[0] = (unsigned char)word;
	if (two)
		bytes[1] = (unsigned char)(word >> 8);
}

static void increase(struct wn_sscf *sscf, uint32_t cell)
{
	if (count_of(sscf, cell) < most_in_cell(sscf))
		add_to_cell(sscf, cell, 1);
}

static void seal(struct wn_sscf *sscf, uint32_t cell)
{
	unsigned char *bytes = group_bytes(sscf, cell);

	bytes[0] = (unsigned char)(bytes[0] | 1u << cell % 8);
}

static void set_waiting(struct wn_sscf *sscf, uint32_t cell, bool waiting)
{
	unsigned char *bytes = group_bytes(sscf, cell) + 1 + sscf->cell_bits;

	*bytes = (unsigned char)((*bytes & ~(1u << cell % 8)) | (unsigned)waiting << cell % 8);
}

/* The transport of the paper's section III-H: only into a cell that nobody uses. */
static void decrease(struct wn_sscf *sscf, uint32_t cell)
{
	uint64_t group = wn__sscf_group(sscf, cell);
	unsigned count = wn__group_count(sscf, group, cell);

	if (count == most_in_cell(sscf) || count == 0)
		return;
	add_to_cell(sscf, cell, -1);
	if (count == 1 && sscf->adaptive && wn__group_waiting(sscf, group, cell)) {
		set_waiting(sscf, cell, false);
		seal(sscf, cell);
	}
}

int wn_sscf_add_vulnerable(struct wn_sscf *sscf, struct wn_hash hash)
{
	if (sscf->sealed + sscf->hashes > sscf->sealed_limit)
		return WN_ERR_FULL;
	for (unsigned i = 0; i < sscf->hashes; i++) {
		uint32_t cell = wn__sscf_cell(sscf, hash, i);
		uint64_t group = wn__sscf_group(sscf, cell);

		if (wn__group_negative(group, cell) ||
		    (sscf->adaptive && wn__group_waiting(sscf, group, cell)))
			continue;
		if (wn__group_count(sscf, group, cell) == 0)
			seal(sscf, cell);
		else if (sscf->adaptive)
			set_waiting(sscf, cell, true);
		else
			continue;
		sscf->sealed++;
	}
	return 0;
}

/* ---- the modulator ------------------------------------------------------ */

static void put_modulator(struct wn_sscf *sscf, uint32_t cell, unsigned count, unsigned index)
{
	unsigned width = sscf->counter_bits + sscf->index_bits;
	uint64_t at = (uint64_t)cell * width;
	unsigned char *bytes = sscf->modulator + at / 8;
	uint32_t mask = ((UINT32_C(1) << width) - 1) << at % 8;
	uint32_t value = (uint32_t)(count | index << sscf->counter_bits) << at % 8;

	put_le32(bytes, (get_le32(bytes) & ~mask) | value);
}

static unsigned most_in_modulator(const struct wn_sscf *sscf)
{
	return (1u << sscf->counter_bits) - 1;
}

/* One key more that needs the index to stay. */
static void count_in_modulator(struct wn_sscf *sscf, uint32_t cell, unsigned value, unsigned index)
{
	unsigned count = wn__modulator_count(sscf, value);

	if (count < most_in_modulator(sscf))
		put_modulator(sscf, cell, count + 1, index);
}

static void uncount_in_modulator(struct wn_sscf *sscf, uint32_t cell, unsigned value)
{
	unsigned count = wn__modulator_count(sscf, value);

	if (count < most_in_modulator(sscf) && count > 0)
		put_modulator(sscf, cell, count - 1,
			      count > 1 ? wn__modulator_index(sscf, value) : 0);
}

/* ---- keys --------------------------------------------------------------- */

/* What a key uses. */
struct places {
	uint32_t cells[WN__SSCF_MAX_HASHES]; /* by function */
	unsigned first_sealed; /* the function to be modulated; sscf->hashes if there is none */
};

static void find_places(const struct wn_sscf *sscf, struct wn_hash hash, struct places *places)
{
	places->first_sealed = sscf->hashes;
	for (unsigned i = sscf->hashes; i-- > 0;) {
		places->cells[i] = wn__sscf_cell(sscf, hash, i);
		if (is_sealed(sscf, places->cells[i]))
			places->first_sealed = i;
	}
}

/* The first backup function whose cell is not sealed, or 0 if there is none: then all
 * are sealed, and will be, and any index says so. */
static unsigned find_backup(const struct wn_sscf *sscf, struct wn_hash hash)
{
	for (unsigned index = 0; index < 1u << sscf->index_bits; index++)
		if (!is_sealed(sscf, wn__sscf_cell(sscf, hash, sscf->hashes + index)))
			return index;
	return 0;
}

/* Put the cell that is used by function places->first_sealed in its place: that of backup
 * function `index` or, if it is sealed too, its own. */
static bool modulate(const struct wn_sscf *sscf, struct wn_hash hash, struct places *places,
		     unsigned index)
{
	uint32_t cell = wn__sscf_cell(sscf, hash, sscf->hashes + index);

	if (is_sealed(sscf, cell))
		return false;
	places->cells[places->first_sealed] = cell;
	return true;
}

static void insert_modulated(struct wn_sscf *sscf, struct wn_hash hash, struct places *places)
{
	uint32_t cell = wn__sscf_modulator_cell(hash, sscf->modulator_cells);
	unsigned value = wn__sscf_modulator(sscf, cell);
	unsigned index = wn__modulator_count(sscf, value) ? wn__modulator_index(sscf, value) :
							    find_backup(sscf, hash);

	sscf->triggered++;
	if (!modulate(sscf, hash, places, index))
		sscf->failed++;
	count_in_modulator(sscf, cell, value, index);
}

void wn_sscf_insert(struct wn_sscf *sscf, struct wn_hash hash)
{
	struct places places;

	find_places(sscf, hash, &places);
	if (places.first_sealed < sscf->hashes)
		insert_modulated(sscf, hash, &places);
	for (unsigned i = 0; i < sscf->hashes; i++)
		increase(sscf, places.cells[i]);
	sscf->keys++;
}

/* Does every cell have as many keys as functions of this key use it? */
static bool may_use(const struct wn_sscf *sscf, const struct places *places)
{
	for (unsigned i = 0; i < sscf->hashes; i++) {
		unsigned count = count_of(sscf, places->cells[i]), needed = 0;

		if (count == most_in_cell(sscf))
			continue;
		for (unsigned other = 0; other < sscf->hashes; other++)
			needed += places->cells[other] == places->cells[i];
		if (count < needed)
			return false;
	}
	return true;
}

/* First everything is found out, then everything is changed: a cell that is sealed on the
 * way would make another function the first sealed one. */
int wn_sscf_delete(struct wn_sscf *sscf, struct wn_hash hash)
{
	uint32_t cell = wn__sscf_modulator_cell(hash, sscf->modulator_cells);
	unsigned value = wn__sscf_modulator(sscf, cell);
	struct places places;
	bool is_counted;

	find_places(sscf, hash, &places);
	is_counted = places.first_sealed < sscf->hashes;
	if (is_counted) {
		if (wn__modulator_count(sscf, value) == 0)
			return WN_ERR_NOT_FOUND;
		modulate(sscf, hash, &places, wn__modulator_index(sscf, value));
	}
	if (sscf->keys == 0 || !may_use(sscf, &places))
		return WN_ERR_NOT_FOUND;
	if (is_counted)
		uncount_in_modulator(sscf, cell, value);
	for (unsigned i = 0; i < sscf->hashes; i++)
		decrease(sscf, places.cells[i]);
	sscf->keys--;
	return 0;
}

/* ---- ask ---------------------------------------------------------------- */

static bool __attribute__((noinline)) second_round(const struct wn_sscf *sscf, struct wn_hash hash)
{
	unsigned value = wn__sscf_modulator(sscf,
					    wn__sscf_modulator_cell(hash, sscf->modulator_cells));
	uint32_t cell;

	if (wn__modulator_count(sscf, value) == 0)
		return false;
	cell = wn__sscf_cell(sscf, hash, sscf->hashes + wn__modulator_index(sscf, value));
	return !is_sealed(sscf, cell) && count_of(sscf, cell) > 0;
}

/* No branch before all cells are known: of a negative key's cells about half are empty,
 * and a branch on each would be a coin toss. */
bool wn_sscf_query(const struct wn_sscf *sscf, struct wn_hash hash)
{
	unsigned sealed = 0, modulated = 0, empty = 0;

	for (unsigned i = 0; i < sscf->hashes; i++) {
		uint32_t cell = wn__sscf_cell(sscf, hash, i);
		uint64_t group = wn__sscf_group(sscf, cell);
		unsigned is_empty = wn__group_count(sscf, group, cell) == 0;
		unsigned is_negative = wn__group_negative(group, cell);

		modulated |= is_empty & is_negative & ~sealed;
		sealed |= is_negative;
		empty += is_empty;
	}
	if (empty == 0)
		return true;
	return empty == 1 && modulated && second_round(sscf, hash);
}

void wn_sscf_describe(const struct wn_sscf *sscf, struct wn_sscf_info *infop)
{
	*infop = (struct wn_sscf_info){
		.keys = sscf->keys,
		.cells = sscf->cells,
		.modulator_cells = sscf->modulator_cells,
		.triggered = sscf->triggered,
		.failed = sscf->failed,
		.hashes = sscf->hashes,
		.bytes = sscf->bytes,
		.expected_rate = sscf->expected_rate,
		.expected_vulnerable_rate = sscf->expected_vulnerable_rate,
	};
	for (uint32_t cell = 0; cell < sscf->cells; cell++) {
		uint64_t group = wn__sscf_group(sscf, cell);
		unsigned count = wn__group_count(sscf, group, cell);
		bool sealed = wn__group_negative(group, cell);

		infop->used_cells += count > 0;
		infop->sealed_cells += sealed;
		infop->mixed_cells += sealed && count > 0;
		infop->waiting_cells += sscf->adaptive && wn__group_waiting(sscf, group, cell);
		infop->stuck_cells += count == most_in_cell(sscf);
	}
	for (uint32_t cell = 0; cell < sscf->modulator_cells; cell++) {
		unsigned count = wn__modulator_count(sscf, wn__sscf_modulator(sscf, cell));

		infop->modulator_used += count > 0;
		infop->modulator_stuck += count == most_in_modulator(sscf);
	}
}

/* ---- freeze ------------------------------------------------------------- */

static void copy_cells(const struct wn_sscf *sscf, unsigned char *cells, unsigned char *negatives)
{
	for (uint32_t cell = 0; cell < sscf->cells; cell++) {
		uint64_t group = wn__sscf_group(sscf, cell);

		if (wn__group_count(sscf, group, cell) > 0)
			wn__sscf_set_bit(cells, cell);
		if (negatives && wn__group_negative(group, cell))
			wn__sscf_set_bit(negatives, cell);
	}
}

static uint32_t copy_modulator(const struct wn_sscf *sscf, unsigned width, unsigned char *modulator)
{
	uint32_t used = 0;

	for (uint32_t cell = 0; cell < sscf->modulator_cells; cell++) {
		unsigned value = wn__sscf_modulator(sscf, cell);

		if (wn__modulator_count(sscf, value) == 0)
			continue;
		used++;
		wn__sscf_put_bits(modulator, (uint64_t)cell * width, width,
				  wn__modulator_index(sscf, value) + 1);
	}
	return used;
}

int wn_sscf_freeze(const struct wn_sscf *sscf, const struct wn_secret *secret,
		   bool keep_negatives, void **blockp, size_t *sizep)
{
	struct wn__sscf_params params = {
		.hashes = sscf->hashes,
		.modulator_bits = sscf->index_bits + 1,
		.keeps_negatives = keep_negatives,
		.block_cells = sscf->cells,
		.blocks = 1,
		.modulator_cells = sscf->modulator_cells,
	};
	unsigned char bytes[WN_BLOCK_PARAMS_SIZE] = {0};
	struct wn__block_writer writer = {0};
	uint64_t cells_size = wn__sscf_cells_size(&params);
	unsigned char *payload;
	int err;

	*blockp = NULL;
	*sizep = 0;
	err = wn__block_begin(&writer, wn__sscf_payload_size(&params), &payload);
	if (err)
		return err;
	copy_cells(sscf, payload, keep_negatives ? payload + cells_size : NULL);
	params.modulated = copy_modulator(sscf, params.modulator_bits,
					  payload + cells_size * (keep_negatives ? 2 : 1));
	wn__sscf_params_put(bytes, &params);
	err = wn__block_end(&writer, WN_KIND_SSCF, bytes, sscf->keys, secret);
	if (err) {
		wn__block_abandon(&writer);
		return err;
	}
	*blockp = writer.block;
	*sizep = writer.size;
	return 0;
}
