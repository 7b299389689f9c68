/* test_sscf_traps.c - mistakes that published seesaw counting filters have made.
 *
 * One test for each, named after what is right. Keys are looked for until one is found
 * that walks into the trap. */
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>
#include <winnow/sscf.h>

#include "tests/support/common.h"
#include "living/sscf_internal.h"

#define TRIES 50000000

/* Roomy, with 5% vulnerable keys sealed. */
static struct wn_sscf *make(unsigned cell_bits, unsigned counter_bits, bool adaptive,
			    uint64_t *random)
{
	struct wn_sscf_options options = {
		.capacity = 400,
		.bits_per_key = 60,
		.vulnerable = 400,
		.cell_bits = cell_bits,
		.counter_bits = counter_bits,
		.index_bits = 1,
		.adaptive = adaptive,
		.hashes = 4,
		.modulator_share = 0.01,
	};
	struct wn_sscf *sscf;

	ck_assert_int_eq(wn_sscf_create(&options, &sscf), 0);
	for (unsigned i = 0; i < 150; i++)
		ck_assert_int_eq(wn_sscf_add_vulnerable(sscf, test_random_hash(random)), 0);
	return sscf;
}

static bool is_sealed(const struct wn_sscf *sscf, uint32_t cell)
{
	return wn__group_negative(wn__sscf_group(sscf, cell), cell);
}

static unsigned count_of(const struct wn_sscf *sscf, uint32_t cell)
{
	return wn__group_count(sscf, wn__sscf_group(sscf, cell), cell);
}

static unsigned first_sealed(const struct wn_sscf *sscf, struct wn_hash hash)
{
	unsigned function = 0;

	while (function < sscf->hashes && !is_sealed(sscf, wn__sscf_cell(sscf, hash, function)))
		function++;
	return function;
}

static uint32_t modulator_of(const struct wn_sscf *sscf, struct wn_hash hash)
{
	return wn__sscf_modulator_cell(hash, sscf->modulator_cells);
}

static uint32_t backup_cell(const struct wn_sscf *sscf, struct wn_hash hash, unsigned index)
{
	return wn__sscf_cell(sscf, hash, sscf->hashes + index);
}

/* A key one of whose functions is to be modulated and that has, for backup functions 0
 * and 1, a sealed cell or not; in the modulator cell `cell`, if it is below the last. */
static struct wn_hash find_triggered(const struct wn_sscf *sscf, bool sealed0, bool sealed1,
				     uint32_t cell, uint64_t *random)
{
	for (unsigned i = 0; i < TRIES; i++) {
		struct wn_hash hash = test_random_hash(random);
		unsigned first = first_sealed(sscf, hash);

		if (first < sscf->hashes &&
		    is_sealed(sscf, backup_cell(sscf, hash, 0)) == sealed0 &&
		    is_sealed(sscf, backup_cell(sscf, hash, 1)) == sealed1 &&
		    (cell >= sscf->modulator_cells || modulator_of(sscf, hash) == cell) &&
		    count_of(sscf, wn__sscf_cell(sscf, hash, first)) == 0)
			return hash;
	}
	ck_abort_msg("no such key found");
}

static void expect_empty(const struct wn_sscf *sscf)
{
	struct wn_sscf_info info;

	wn_sscf_describe(sscf, &info);
	ck_assert_uint_eq(info.keys, 0);
	ck_assert_uint_eq(info.used_cells, info.stuck_cells);
	ck_assert_uint_eq(info.modulator_used, info.modulator_stuck);
}

/* ---- counters at their maximum ------------------------------------------ */

/* Saturated on insert and decremented on delete, a counter gets to 0 while keys use it. */
START_TEST(full_positive_cells_stay_full)
{
	uint64_t random = test_seed("full_positive_cells_stay_full", 1);

	for (unsigned bits = 2; bits <= 4; bits++) {
		struct wn_sscf *sscf = make(bits, 3, false, &random);
		struct wn_hash hash = test_random_hash(&random);
		unsigned most = 1u << bits;

		for (unsigned i = 0; i < most + 2; i++)
			wn_sscf_insert(sscf, hash);
		for (unsigned i = 0; i < most + 1; i++) {
			ck_assert_int_eq(wn_sscf_delete(sscf, hash), 0);
			ck_assert(wn_sscf_query(sscf, hash));
		}
		wn_sscf_destroy(sscf);
	}
}
END_TEST

START_TEST(full_modulator_counters_stay_full)
{
	uint64_t random = test_seed("full_modulator_counters_stay_full", 2);

	for (unsigned bits = 1; bits <= 3; bits++) {
		struct wn_sscf *sscf = make(4, bits, false, &random);
		struct wn_hash keys[12];
		unsigned count = (1u << bits) + 2;

		keys[0] = find_triggered(sscf, false, false, UINT32_MAX, &random);
		for (unsigned i = 0; i < count; i++) {
			if (i > 0)
				keys[i] = find_triggered(sscf, false, false,
							 modulator_of(sscf, keys[0]), &random);
			wn_sscf_insert(sscf, keys[i]);
		}
		for (unsigned i = 0; i + 1 < count; i++) {
			ck_assert_int_eq(wn_sscf_delete(sscf, keys[i]), 0);
			for (unsigned other = i + 1; other < count; other++)
				ck_assert(wn_sscf_query(sscf, keys[other]));
		}
		wn_sscf_destroy(sscf);
	}
}
END_TEST

/* ---- the modulator ------------------------------------------------------ */

/* As printed, Algorithm 2 counts all modulated keys of a cell but the first. */
START_TEST(the_first_modulated_key_of_a_cell_is_counted)
{
	uint64_t random = test_seed("the_first_modulated_key_of_a_cell_is_counted", 3);
	struct wn_sscf *sscf = make(4, 3, false, &random);
	struct wn_hash one = find_triggered(sscf, false, false, UINT32_MAX, &random);
	struct wn_hash other;

	wn_sscf_insert(sscf, one);
	ck_assert(wn_sscf_query(sscf, one));
	other = find_triggered(sscf, false, false, modulator_of(sscf, one), &random);
	wn_sscf_insert(sscf, other);
	ck_assert_int_eq(wn_sscf_delete(sscf, other), 0);
	ck_assert(wn_sscf_query(sscf, one));
	ck_assert_int_eq(wn_sscf_delete(sscf, one), 0);
	expect_empty(sscf);
	wn_sscf_destroy(sscf);
}
END_TEST

/* A key that found no function to stand in needs its modulator cell to stay as it is all
 * the same: with another index there, its deletion would take another cell for its own. */
START_TEST(a_key_that_failed_to_modulate_holds_the_index)
{
	uint64_t random = test_seed("a_key_that_failed_to_modulate_holds_the_index", 4);
	struct wn_sscf *sscf = make(4, 3, false, &random);
	struct wn_hash first = find_triggered(sscf, false, false, UINT32_MAX, &random);
	uint32_t cell = modulator_of(sscf, first);
	struct wn_hash failed, third, bystander;

	wn_sscf_insert(sscf, first); /* index 0 */
	failed = find_triggered(sscf, true, false, cell, &random);
	wn_sscf_insert(sscf, failed); /* its backup 0 is sealed, its backup 1 is not */
	ck_assert_int_eq(wn_sscf_delete(sscf, first), 0);
	third = find_triggered(sscf, true, false, cell, &random);
	wn_sscf_insert(sscf, third); /* would take index 1, were the cell free */
	do
		bystander = test_random_hash(&random);
	while (first_sealed(sscf, bystander) < sscf->hashes ||
	       wn__sscf_cell(sscf, bystander, 0) != backup_cell(sscf, failed, 1));
	wn_sscf_insert(sscf, bystander);
	ck_assert_int_eq(wn_sscf_delete(sscf, failed), 0);
	ck_assert(wn_sscf_query(sscf, bystander));
	ck_assert(wn_sscf_query(sscf, third));
	ck_assert_int_eq(wn_sscf_delete(sscf, third), 0);
	ck_assert_int_eq(wn_sscf_delete(sscf, bystander), 0);
	expect_empty(sscf);
	wn_sscf_destroy(sscf);
}
END_TEST

/* An index was stored by a key for which none will do; others must be able to live with
 * it, and to outlive that key. */
START_TEST(an_index_without_a_function_harms_nobody)
{
	uint64_t random = test_seed("an_index_without_a_function_harms_nobody", 5);

	for (unsigned sealed = 0; sealed < 4; sealed++) {
		struct wn_sscf *sscf = make(4, 3, false, &random);
		struct wn_hash failed = find_triggered(sscf, true, true, UINT32_MAX, &random);
		struct wn_hash other;

		wn_sscf_insert(sscf, failed);
		other = find_triggered(sscf, sealed & 1, sealed >> 1, modulator_of(sscf, failed),
				       &random);
		wn_sscf_insert(sscf, other);
		ck_assert(wn_sscf_query(sscf, failed));
		ck_assert(wn_sscf_query(sscf, other));
		ck_assert_int_eq(wn_sscf_delete(sscf, failed), 0);
		ck_assert(wn_sscf_query(sscf, other));
		ck_assert_int_eq(wn_sscf_delete(sscf, other), 0);
		expect_empty(sscf);
		wn_sscf_destroy(sscf);
	}
}
END_TEST

/* Left out, the check costs false positives: a key's backup function was taken because
 * its cell was not sealed. */
START_TEST(a_sealed_cell_never_stands_in)
{
	uint64_t random = test_seed("a_sealed_cell_never_stands_in", 6);
	struct wn_sscf *sscf = make(4, 3, false, &random);
	unsigned found = 0;

	for (unsigned i = 0; i < 400; i++)
		wn_sscf_insert(sscf, test_random_hash(&random));
	for (unsigned i = 0; i < TRIES && found < 10; i++) {
		struct wn_hash hash = test_random_hash(&random);
		unsigned first = first_sealed(sscf, hash), empty = 0;
		unsigned value = wn__sscf_modulator(sscf, modulator_of(sscf, hash));
		uint32_t cell = backup_cell(sscf, hash, wn__modulator_index(sscf, value));

		for (unsigned at = 0; at < sscf->hashes; at++)
			empty += count_of(sscf, wn__sscf_cell(sscf, hash, at)) == 0;
		if (empty != 1 || first == sscf->hashes ||
		    count_of(sscf, wn__sscf_cell(sscf, hash, first)) > 0 ||
		    wn__modulator_count(sscf, value) == 0 || !is_sealed(sscf, cell) ||
		    count_of(sscf, cell) == 0)
			continue;
		found++;
		ck_assert(!wn_sscf_query(sscf, hash));
	}
	ck_assert_uint_gt(found, 0);
	wn_sscf_destroy(sscf);
}
END_TEST

/* ---- deletions ---------------------------------------------------------- */

START_TEST(what_was_never_inserted_is_not_deleted)
{
	uint64_t random = test_seed("what_was_never_inserted_is_not_deleted", 7);
	struct wn_sscf *sscf = make(4, 3, true, &random);
	size_t size = (size_t)(sscf->cells / 8) * sscf->stride;
	unsigned char *before = malloc(size);
	struct wn_hash keys[300];

	ck_assert_int_eq(wn_sscf_delete(sscf, test_random_hash(&random)), WN_ERR_NOT_FOUND);
	for (unsigned i = 0; i < 300; i++)
		wn_sscf_insert(sscf, keys[i] = test_random_hash(&random));
	memcpy(before, sscf->groups, size);
	for (unsigned i = 0; i < 100000; i++) {
		struct wn_hash hash = test_random_hash(&random);

		if (!wn_sscf_query(sscf, hash))
			expect(wn_sscf_delete(sscf, hash) == WN_ERR_NOT_FOUND);
	}
	ck_assert_mem_eq(before, sscf->groups, size);
	for (unsigned i = 0; i < 300; i++)
		ck_assert_int_eq(wn_sscf_delete(sscf, keys[i]), 0);
	expect_empty(sscf);
	free(before);
	wn_sscf_destroy(sscf);
}
END_TEST

/* Two functions of a key on one cell. `sealed`: that cell is sealed. */
static struct wn_hash find_doubled(const struct wn_sscf *sscf, bool sealed, unsigned count,
				   uint64_t *random)
{
	for (unsigned i = 0; i < TRIES; i++) {
		struct wn_hash hash = test_random_hash(random);
		uint32_t cell = wn__sscf_cell(sscf, hash, 1);

		if (cell == wn__sscf_cell(sscf, hash, 2) && is_sealed(sscf, cell) == sealed &&
		    first_sealed(sscf, hash) == (sealed ? 1u : sscf->hashes) &&
		    count_of(sscf, cell) == count)
			return hash;
	}
	ck_abort_msg("no such key found");
}

START_TEST(two_functions_on_one_cell_count_twice)
{
	uint64_t random = test_seed("two_functions_on_one_cell_count_twice", 8);

	for (unsigned sealed = 0; sealed < 2; sealed++) {
		struct wn_sscf *sscf = make(4, 3, true, &random);
		struct wn_hash hash = find_doubled(sscf, sealed, 0, &random);

		for (unsigned round = 0; round < 3; round++) {
			wn_sscf_insert(sscf, hash);
			wn_sscf_insert(sscf, hash);
			/* Its cells are to be sealed as soon as it is gone. */
			ck_assert_int_eq(wn_sscf_add_vulnerable(sscf, hash), 0);
			ck_assert_int_eq(wn_sscf_delete(sscf, hash), 0);
			ck_assert(wn_sscf_query(sscf, hash));
			ck_assert_int_eq(wn_sscf_delete(sscf, hash), 0);
			expect_empty(sscf);
		}
		wn_sscf_destroy(sscf);
	}
}
END_TEST

/* A key that would take two from a cell with one key was not there. */
START_TEST(a_cell_is_not_counted_below_zero)
{
	uint64_t random = test_seed("a_cell_is_not_counted_below_zero", 9);
	struct wn_sscf *sscf = make(4, 3, false, &random);
	struct wn_hash absent = find_doubled(sscf, false, 0, &random);
	struct wn_hash keys[4];

	/* Keys on each of its cells. */
	for (unsigned i = 0; i < 4; i++) {
		uint32_t wanted = wn__sscf_cell(sscf, absent, i);

		do
			keys[i] = test_random_hash(&random);
		while (wn__sscf_cell(sscf, keys[i], 0) != wanted ||
		       first_sealed(sscf, keys[i]) < sscf->hashes);
		if (i != 2)
			wn_sscf_insert(sscf, keys[i]);
	}
	ck_assert(wn_sscf_query(sscf, absent)); /* a false positive */
	ck_assert_int_eq(wn_sscf_delete(sscf, absent), WN_ERR_NOT_FOUND);
	for (unsigned i = 0; i < 4; i++)
		ck_assert(i == 2 || wn_sscf_query(sscf, keys[i]));
	wn_sscf_destroy(sscf);
}
END_TEST

/* ---- vulnerable keys that come late ------------------------------------- */

/* Sealing a cell that stands in for another would deny the key that uses it. */
START_TEST(a_cell_that_a_modulated_key_uses_is_sealed_when_it_is_gone)
{
	uint64_t random = test_seed("a_cell_that_a_modulated_key_uses", 10);

	for (unsigned adaptive = 0; adaptive < 2; adaptive++) {
		struct wn_sscf *sscf = make(4, 3, adaptive, &random);
		struct wn_hash key = find_triggered(sscf, false, false, UINT32_MAX, &random);
		uint32_t cell = backup_cell(sscf, key, 0);
		struct wn_hash vulnerable;

		wn_sscf_insert(sscf, key);
		do
			vulnerable = test_random_hash(&random);
		while (wn__sscf_cell(sscf, vulnerable, 0) != cell);
		ck_assert_int_eq(wn_sscf_add_vulnerable(sscf, vulnerable), 0);
		ck_assert(wn_sscf_query(sscf, key));
		ck_assert(!is_sealed(sscf, cell));
		ck_assert_int_eq(wn_sscf_delete(sscf, key), 0);
		ck_assert(is_sealed(sscf, cell) == adaptive);
		expect_empty(sscf);
		wn_sscf_destroy(sscf);
	}
}
END_TEST

/* ---- space -------------------------------------------------------------- */

/* A negative cell is a bit, and all bits are counted. */
START_TEST(the_memory_is_what_was_asked_for)
{
	for (unsigned cell_bits = 2; cell_bits <= 4; cell_bits++) {
		for (unsigned adaptive = 0; adaptive < 2; adaptive++) {
			struct wn_sscf_options options = {.capacity = 100000, .bits_per_key = 20,
							  .cell_bits = cell_bits,
							  .adaptive = adaptive};
			struct wn_sscf_info info;
			struct wn_sscf *sscf;

			ck_assert_int_eq(wn_sscf_create(&options, &sscf), 0);
			wn_sscf_describe(sscf, &info);
			ck_assert_uint_le(info.bytes, 250000 + 16);
			ck_assert_uint_ge(info.bytes, 249900);
			wn_sscf_destroy(sscf);
		}
	}
}
END_TEST

/* Too many vulnerable keys make a filter worse than one without any. */
START_TEST(vulnerable_keys_beyond_reason_are_refused)
{
	uint64_t random = test_seed("vulnerable_keys_beyond_reason_are_refused", 11);
	struct wn_sscf_options options = {.capacity = 10000, .vulnerable = 500};
	struct wn_sscf_info info;
	struct wn_sscf *sscf;
	unsigned taken = 0;

	ck_assert_int_eq(wn_sscf_create(&options, &sscf), 0);
	while (wn_sscf_add_vulnerable(sscf, test_random_hash(&random)) == 0)
		taken++;
	ck_assert_uint_ge(taken, 500);
	ck_assert_uint_lt(taken, 1500);
	wn_sscf_describe(sscf, &info);
	ck_assert_uint_lt(info.sealed_cells, info.cells / 10);
	wn_sscf_destroy(sscf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sscf_traps");
	TCase *tests = tcase_create("traps");

	tcase_add_test(tests, full_positive_cells_stay_full);
	tcase_add_test(tests, full_modulator_counters_stay_full);
	tcase_add_test(tests, the_first_modulated_key_of_a_cell_is_counted);
	tcase_add_test(tests, a_key_that_failed_to_modulate_holds_the_index);
	tcase_add_test(tests, an_index_without_a_function_harms_nobody);
	tcase_add_test(tests, a_sealed_cell_never_stands_in);
	tcase_add_test(tests, what_was_never_inserted_is_not_deleted);
	tcase_add_test(tests, two_functions_on_one_cell_count_twice);
	tcase_add_test(tests, a_cell_is_not_counted_below_zero);
	tcase_add_test(tests, a_cell_that_a_modulated_key_uses_is_sealed_when_it_is_gone);
	tcase_add_test(tests, the_memory_is_what_was_asked_for);
	tcase_add_test(tests, vulnerable_keys_beyond_reason_are_refused);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
