/* test_sscf_model.c - the living seesaw counting filter against a model that knows, of
 * every key in it, which cells it uses.
 *
 * The model is told nothing by the filter: it has plain numbers for counters, and a key's
 * record of what its insertion did is what its deletion undoes. */
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>
#include <winnow/sscf.h>

#include "tests/support/common.h"
#include "living/sscf_internal.h"

#define MAX_KEYS 4096
#define NONE UINT32_MAX

struct record {
	struct wn_hash hash;
	uint32_t cells[WN__SSCF_MAX_HASHES];
	uint32_t modulator; /* NONE if nothing was to be modulated */
};

struct model {
	const struct wn_sscf *sscf;
	uint32_t *counts;
	bool *stuck, *sealed, *waiting;
	uint32_t *modulator_counts;
	bool *modulator_stuck;
	unsigned *indexes;
	struct record keys[MAX_KEYS];
	size_t key_count;
	struct wn_hash vulnerable[MAX_KEYS];
	size_t vulnerable_count;
	uint64_t sealed_count;
};

static struct model *make_model(const struct wn_sscf *sscf)
{
	struct model *model = calloc(1, sizeof(*model));

	model->sscf = sscf;
	model->counts = calloc(sscf->cells, sizeof(*model->counts));
	model->stuck = calloc(sscf->cells, sizeof(*model->stuck));
	model->sealed = calloc(sscf->cells, sizeof(*model->sealed));
	model->waiting = calloc(sscf->cells, sizeof(*model->waiting));
	model->modulator_counts = calloc(sscf->modulator_cells, sizeof(uint32_t));
	model->modulator_stuck = calloc(sscf->modulator_cells, sizeof(bool));
	model->indexes = calloc(sscf->modulator_cells, sizeof(*model->indexes));
	return model;
}

static void destroy_model(struct model *model)
{
	free(model->counts);
	free(model->stuck);
	free(model->sealed);
	free(model->waiting);
	free(model->modulator_counts);
	free(model->modulator_stuck);
	free(model->indexes);
	free(model);
}

static bool is_empty(const struct model *model, uint32_t cell)
{
	return model->counts[cell] == 0 && !model->stuck[cell];
}

static void model_vulnerable(struct model *model, struct wn_hash hash)
{
	for (unsigned i = 0; i < model->sscf->hashes; i++) {
		uint32_t cell = wn__sscf_cell(model->sscf, hash, i);

		if (model->sealed[cell] || model->waiting[cell])
			continue;
		if (is_empty(model, cell))
			model->sealed[cell] = true;
		else if (model->sscf->adaptive)
			model->waiting[cell] = true;
		model->sealed_count += model->sealed[cell] || model->waiting[cell];
	}
	if (model->vulnerable_count < MAX_KEYS)
		model->vulnerable[model->vulnerable_count++] = hash;
}

/* Where a key goes that would use the sealed cell of function `first`. */
static void model_modulate(struct model *model, struct record *record, unsigned first)
{
	const struct wn_sscf *sscf = model->sscf;
	uint32_t at = wn__sscf_modulator_cell(record->hash, sscf->modulator_cells);
	unsigned backups = 1u << sscf->index_bits;
	uint32_t cell;

	record->modulator = at;
	if (model->modulator_counts[at] == 0 && !model->modulator_stuck[at]) {
		unsigned index = 0;

		while (index < backups &&
		       model->sealed[wn__sscf_cell(sscf, record->hash, sscf->hashes + index)])
			index++;
		model->indexes[at] = index < backups ? index : 0;
	}
	cell = wn__sscf_cell(sscf, record->hash, sscf->hashes + model->indexes[at]);
	if (!model->sealed[cell])
		record->cells[first] = cell;
	model->modulator_counts[at]++;
	if (model->modulator_counts[at] >= (1u << sscf->counter_bits) - 1)
		model->modulator_stuck[at] = true;
}

static void model_insert(struct model *model, struct wn_hash hash)
{
	const struct wn_sscf *sscf = model->sscf;
	struct record *record = &model->keys[model->key_count++];
	unsigned first = sscf->hashes;

	*record = (struct record){.hash = hash, .modulator = NONE};
	for (unsigned i = 0; i < sscf->hashes; i++) {
		record->cells[i] = wn__sscf_cell(sscf, hash, i);
		if (first == sscf->hashes && model->sealed[record->cells[i]])
			first = i;
	}
	if (first < sscf->hashes)
		model_modulate(model, record, first);
	for (unsigned i = 0; i < sscf->hashes; i++)
		if (++model->counts[record->cells[i]] >= (1u << sscf->cell_bits) - 1)
			model->stuck[record->cells[i]] = true;
}

static void model_delete(struct model *model, size_t at)
{
	const struct wn_sscf *sscf = model->sscf;
	struct record *record = &model->keys[at];

	if (record->modulator != NONE)
		model->modulator_counts[record->modulator]--;
	for (unsigned i = 0; i < sscf->hashes; i++) {
		uint32_t cell = record->cells[i];

		model->counts[cell]--;
		if (is_empty(model, cell) && model->waiting[cell]) {
			model->waiting[cell] = false;
			model->sealed[cell] = true;
		}
	}
	*record = model->keys[--model->key_count];
}

/* Cell by cell: is the filter in the state that the keys in it make? */
static void compare(const struct model *model)
{
	const struct wn_sscf *sscf = model->sscf;
	unsigned most = (1u << sscf->cell_bits) - 1;
	unsigned modulator_most = (1u << sscf->counter_bits) - 1;

	for (uint32_t cell = 0; cell < sscf->cells; cell++) {
		uint64_t group = wn__sscf_group(sscf, cell);
		unsigned count = wn__group_count(sscf, group, cell);

		expect(count == (model->stuck[cell] ? most : model->counts[cell]));
		expect(wn__group_negative(group, cell) == model->sealed[cell]);
		if (sscf->adaptive)
			expect(wn__group_waiting(sscf, group, cell) == model->waiting[cell]);
	}
	for (uint32_t cell = 0; cell < sscf->modulator_cells; cell++) {
		unsigned value = wn__sscf_modulator(sscf, cell);
		unsigned count = wn__modulator_count(sscf, value);

		expect(count == (model->modulator_stuck[cell] ? modulator_most
							      : model->modulator_counts[cell]));
		if (count > 0)
			expect(wn__modulator_index(sscf, value) == model->indexes[cell]);
	}
}

/* ---- live and frozen ---------------------------------------------------- */

/* A block with negative bits answers as the filter. One without says "maybe" to all
 * that the filter does, and to no hash with two empty cells. */
static void compare_answer(const struct wn_sscf *sscf, const struct wn_filter *with,
			   const struct wn_filter *without, struct wn_hash hash)
{
	bool maybe = wn_sscf_query(sscf, hash);

	expect(wn_filter_query_hash(with, hash, NULL) == maybe);
	if (maybe)
		expect(wn_filter_query_hash(without, hash, NULL));
}

static void compare_frozen(const struct model *model, uint64_t *random)
{
	struct wn_secret *secret = test_secret(9);
	struct wn_filter *filters[2];
	void *blocks[2];
	size_t size;

	for (unsigned i = 0; i < 2; i++) {
		expect(wn_sscf_freeze(model->sscf, secret, i == 0, &blocks[i], &size) == 0);
		expect(wn_filter_open(blocks[i], size, WN_CHECK_ALL, secret, &filters[i],
				      NULL) == 0);
	}
	for (size_t i = 0; i < model->key_count; i++) {
		compare_answer(model->sscf, filters[0], filters[1], model->keys[i].hash);
		expect(wn_filter_query_hash(filters[0], model->keys[i].hash, NULL));
		expect(wn_filter_query_hash(filters[1], model->keys[i].hash, NULL));
	}
	for (size_t i = 0; i < model->vulnerable_count; i++)
		compare_answer(model->sscf, filters[0], filters[1], model->vulnerable[i]);
	for (unsigned i = 0; i < 2000; i++)
		compare_answer(model->sscf, filters[0], filters[1], test_random_hash(random));
	for (unsigned i = 0; i < 2; i++) {
		wn_filter_close(filters[i]);
		free(blocks[i]);
	}
	wn_secret_destroy(secret);
}

/* ---- operations --------------------------------------------------------- */

static void expect_all_keys(const struct model *model)
{
	for (size_t i = 0; i < model->key_count; i++)
		expect(wn_sscf_query(model->sscf, model->keys[i].hash));
}

static void delete_absent(struct wn_sscf *sscf, struct wn_hash hash)
{
	if (!wn_sscf_query(sscf, hash))
		expect(wn_sscf_delete(sscf, hash) == WN_ERR_NOT_FOUND);
}

static void add_vulnerable(struct wn_sscf *sscf, struct model *model, struct wn_hash hash)
{
	int err = wn_sscf_add_vulnerable(sscf, hash);

	if (!err)
		model_vulnerable(model, hash);
	else
		expect(err == WN_ERR_FULL &&
		       model->sealed_count + sscf->hashes > sscf->sealed_limit);
}

static void step(struct wn_sscf *sscf, struct model *model, size_t target, uint64_t *random)
{
	unsigned what = (unsigned)(test_random(random) % 1000);
	struct wn_hash hash = test_random_hash(random);

	/* Now and then a key that is in already, or a vulnerable one. */
	if (what % 16 == 0 && model->key_count > 0)
		hash = model->keys[hash.hi % model->key_count].hash;
	else if (what % 16 == 1 && model->vulnerable_count > 0)
		hash = model->vulnerable[hash.hi % model->vulnerable_count];
	if (what < 2) {
		add_vulnerable(sscf, model, hash);
	} else if (what < 300) {
		if (model->key_count > 0)
			expect(wn_sscf_query(sscf,
					     model->keys[hash.lo % model->key_count].hash));
	} else if (what < 340) {
		delete_absent(sscf, hash);
	} else if (model->key_count < target && what % 2) {
		wn_sscf_insert(sscf, hash);
		model_insert(model, hash);
	} else if (model->key_count > target / 2 || what % 3 == 0) {
		size_t at;

		if (model->key_count == 0)
			return;
		at = hash.lo % model->key_count;
		expect(wn_sscf_delete(sscf, model->keys[at].hash) == 0);
		model_delete(model, at);
	} else if (model->key_count < target) {
		wn_sscf_insert(sscf, hash);
		model_insert(model, hash);
	}
}

static void run(const struct wn_sscf_options *options, uint64_t steps, uint64_t *random)
{
	struct wn_sscf *sscf;
	struct wn_sscf_info info;
	struct model *model;

	ck_assert_int_eq(wn_sscf_create(options, &sscf), 0);
	model = make_model(sscf);
	for (size_t i = 0; i < options->vulnerable / 2; i++)
		add_vulnerable(sscf, model, test_random_hash(random));
	for (uint64_t i = 1; i <= steps; i++) {
		step(sscf, model, options->capacity, random);
		if (i % (steps / 10) == 0) {
			compare(model);
			expect_all_keys(model);
			compare_frozen(model, random);
		}
	}
	wn_sscf_describe(sscf, &info);
	fprintf(stderr, "%llu keys, %llu cells (%llu sealed, %llu stuck), %llu modulated, "
			"%llu failed\n",
		(unsigned long long)info.keys, (unsigned long long)info.cells,
		(unsigned long long)info.sealed_cells, (unsigned long long)info.stuck_cells,
		(unsigned long long)info.triggered, (unsigned long long)info.failed);
	expect(info.keys == model->key_count);
	destroy_model(model);
	wn_sscf_destroy(sscf);
}

/* Each seed another filter: counters of all widths, roomy and cramped. */
START_TEST(sscf_does_what_the_model_does)
{
	uint64_t random = test_seed("sscf_does_what_the_model_does", 1000 + (uint64_t)_i);
	struct wn_sscf_options options = {
		.capacity = 500 + test_random(&random) % 3000,
		.bits_per_key = 12 + (double)(test_random(&random) % 20),
		.adaptive = _i % 4 != 0,
		.cell_bits = 2 + (unsigned)_i % 3,
		.counter_bits = 1 + (unsigned)_i % 4,
		.index_bits = 1 + (unsigned)_i % 3,
	};

	options.vulnerable = options.capacity / (2 + (unsigned)_i % 7 * 5);
	run(&options, test_is_quick() ? 100000 : 1000000, &random);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sscf_model");
	TCase *tests = tcase_create("model");

	tcase_add_loop_test(tests, sscf_does_what_the_model_does, 0, test_is_quick() ? 8 : 20);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
