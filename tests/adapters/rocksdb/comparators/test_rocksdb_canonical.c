/* test_rocksdb_canonical.c - comparators under which different bytes are equal: no key is
 * denied because its bytes are not those that were stored. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <stdatomic.h>

#include "base/alloc.h"
#include "policy.h"
#include "tests/support/rocksdb_comparators.h"

/* ---- canonical keys ----------------------------------------------------- */

static const char *const filters[] = {"aqf:remainder_bits=4", "sscf"};

START_TEST(keys_that_are_equal_with_other_bytes_are_found)
{
	static const enum wn_rocksdb_store stores[] = {WN_ROCKSDB_COLUMN_FAMILY, WN_ROCKSDB_SIDECAR,
						       WN_ROCKSDB_MEMORY};
	const unsigned absent = 4 * KEYS;
	char name[32];

	for (int i = 0; i < 6; i++) {
		struct wn_rocksdb_options given = {.filter = filters[i % 2],
						   .store = stores[i / 2],
						   .canonical = fold};
		struct own_db own;
		uint64_t before;

		snprintf(name, sizeof(name), "equal-%d", i);
		own = open_good(name, folded, NULL, &given);
		put_keys(&own, KEYS);
		ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
		ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
		/* The filters do deny, and what they learn in one case holds in the other. */
		ck_assert_uint_eq(count_found(&own, KEYS, KEYS + absent, false), 0);
		wn_rocksdb_drain(own.wn);
		before = stats_of(&own).false_positives;
		ck_assert_uint_lt(before, absent / 4);
		if (i % 2 == 0) {
			ck_assert_uint_gt(before, 0);
			ck_assert_uint_eq(count_found(&own, KEYS, KEYS + absent, true), 0);
			ck_assert_uint_le(stats_of(&own).false_positives - before, before / 20);
		}
		ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
		close_own(&own);
		/* Filters and lessons are there again, but for the store in memory. */
		own = open_good(name, folded, NULL, &given);
		ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
		if (i / 2 < 2) {
			ck_assert_uint_eq(stats_of(&own).readers_refused, 0);
			before = stats_of(&own).positives;
			ck_assert_uint_eq(count_found(&own, KEYS, KEYS + absent, true), 0);
			ck_assert_uint_lt(stats_of(&own).positives - before, absent / 4);
		}
		put_keys(&own, KEYS + 100);
		ck_assert_uint_eq(count_found(&own, 0, KEYS + 100, true), KEYS + 100);
		close_own(&own);
	}
}
END_TEST

START_TEST(batches_and_negatives_are_canonical_too)
{
	struct wn_rocksdb_options given = {.filter = filters[0], .canonical = fold};
	struct own_db own = open_good("batches", folded, NULL, &given);
	static char texts[64][600];
	const char *keys[64];
	size_t sizes[64], value_sizes[64];
	char *values[64], *errors[64];
	uint64_t first = 0;

	put_keys(&own, KEYS);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned at = 0; at < 2 * KEYS; at += 64) {
			memset(errors, 0, sizeof(errors));
			for (unsigned i = 0; i < 64; i++) {
				sizes[i] = make_key(at + i, round, texts[i]);
				keys[i] = texts[i];
			}
			wn_rocksdb_multi_get(own.wn, own.db.reading, 64, keys, sizes, values,
					     value_sizes, errors);
			for (unsigned i = 0; i < 64; i++) {
				expect_no(errors[i]);
				expect((values[i] != NULL) == (at + i < KEYS));
				rocksdb_free(values[i]);
			}
		}
		wn_rocksdb_drain(own.wn);
		if (round == 0)
			first = stats_of(&own).false_positives;
	}
	ck_assert_uint_gt(first, 0);
	ck_assert_uint_le(stats_of(&own).false_positives - first, first / 10);
	/* An absent key that is named in capitals is known in small letters. */
	for (unsigned i = 2 * KEYS; i < 3 * KEYS; i++)
		ck_assert_int_eq(wn_rocksdb_add_negative(own.wn, texts[0],
							 make_key(i, true, texts[0]), 1), 0);
	put_keys(&own, KEYS);
	first = stats_of(&own).false_positives;
	ck_assert_uint_eq(count_found(&own, 2 * KEYS, 3 * KEYS, false), 0);
	ck_assert_uint_le(stats_of(&own).false_positives - first, KEYS / 100);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
	close_own(&own);
}
END_TEST

/* In full filters and in partitions, with and without whole keys. */
START_TEST(prefixes_are_canonical_too)
{
	struct wn_rocksdb_options given = {.filter = filters[0], .canonical = fold};
	char name[32];

	for (int i = 0; i < 4; i++) {
		struct db_setup setup = {.prefix = PREFIX_SIZE,
					 .partitioned = i % 2,
					 .only_prefixes = i / 2};
		struct own_db own;
		unsigned seen = 0;

		snprintf(name, sizeof(name), "prefixes-%d", i);
		own = open_good(name, folded, &setup, &given);
		put_keys(&own, KEYS);
		ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
		ck_assert_uint_eq(count_found(&own, KEYS, 2 * KEYS, true), 0);
		for (unsigned k = 0; k < KEYS; k++) {
			rocksdb_iterator_t *iterator =
				rocksdb_create_iterator(own.db.rocks, own.db.reading);
			char key[600];

			make_key(k, true, key);
			rocksdb_iter_seek(iterator, key, PREFIX_SIZE);
			seen += rocksdb_iter_valid(iterator);
			rocksdb_iter_destroy(iterator);
		}
		ck_assert_uint_eq(seen, KEYS);
		close_own(&own);
	}
}
END_TEST

/* ---- filters of the other sort ------------------------------------------ */

/* Where readers live on, too, in a cache that is there before and after. */
static struct db_setup cached(rocksdb_cache_t *cache, bool bloom)
{
	return (struct db_setup){.cached_filters = cache != NULL,
				 .cache = cache,
				 .no_compaction = true,
				 .stock = bloom ? STOCK_BLOOM : STOCK_NONE};
}

/* They know the bytes that were stored and no others. */
START_TEST(bloom_filters_are_not_asked_for_keys_with_other_bytes)
{
	struct wn_rocksdb_options given = {.canonical = fold};
	rocksdb_cache_t *cache = _i ? rocksdb_cache_create_lru(8 << 20) : NULL;
	struct db_setup setup = cached(cache, true);
	const char *name = _i ? "bloom-cached" : "bloom";
	struct own_db own = open_stock(name, folded, &setup);

	put_keys(&own, KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_lt(count_found(&own, 0, KEYS, true), KEYS); /* or this tests nothing */
	close_own(&own);
	own = open_good(name, folded, &setup, &given);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_eq(stats_of(&own).readers_foreign, 0);
	close_own(&own);
	if (cache)
		rocksdb_cache_destroy(cache);
}
END_TEST

/* Filters that were built without the function know other hashes, and the other way round. */
START_TEST(the_function_may_come_and_go)
{
	rocksdb_cache_t *cache = _i / 2 ? rocksdb_cache_create_lru(8 << 20) : NULL;
	struct wn_rocksdb_options raw = {.filter = filters[_i % 2],
					 .equal_keys_are_identical = true};
	struct wn_rocksdb_options with_function = {.filter = filters[_i % 2], .canonical = fold};
	struct db_setup setup = cached(cache, false);
	uint64_t refused = 0;
	char name[32];

	snprintf(name, sizeof(name), "come-%d", _i);
	for (unsigned count = 1000; count <= 6000; count += 1000) {
		bool with = count % 2000 == 0;
		struct own_db own = open_good(name, folded, &setup, with ? &with_function : &raw);

		ck_assert_uint_eq(count_found(&own, 0, count - 1000, false), count - 1000);
		if (with)
			ck_assert_uint_eq(count_found(&own, 0, count - 1000, true), count - 1000);
		if (count > 1000)
			refused += stats_of(&own).readers_refused;
		/* The next opening finds filters of this one. */
		put_keys(&own, count);
		ck_assert_uint_eq(count_found(&own, 0, count, with), count);
		ck_assert_uint_eq(count_found(&own, count, 4 * count, false), 0);
		ck_assert_uint_lt(stats_of(&own).false_positives, count);
		close_own(&own);
	}
	ck_assert_uint_gt(refused, 0);
	if (cache)
		rocksdb_cache_destroy(cache);
}
END_TEST

/* Nor do filters of the two sorts that lie side by side in one database mix. */
START_TEST(filters_of_both_sorts_serve_one_database)
{
	struct wn_rocksdb_options raw = {.equal_keys_are_identical = true};
	struct wn_rocksdb_options with_function = {.canonical = fold};
	struct db_setup setup = cached(NULL, false);

	for (unsigned round = 0; round < 6; round++) {
		struct own_db own =
			open_good("both", folded, &setup, round % 2 ? &with_function : &raw);
		char key[600];

		for (unsigned i = round; i < KEYS; i += 6) {
			size_t size = make_key(i, false, key);

			rocksdb_put(own.db.rocks, own.writing, key, size, "v", 1, &own.error);
			expect_no(own.error);
		}
		db_flush(&own.db);
		for (unsigned i = 0; i < KEYS; i++)
			expect(count_found(&own, i, i + 1, round % 2) == (i % 6 <= round));
		close_own(&own);
	}
}
END_TEST

/* Programs that know nothing of the function. */
START_TEST(nobody_else_asks_a_canonical_filter)
{
	struct wn_rocksdb_options given = {.store = WN_ROCKSDB_SIDECAR, .canonical = fold};
	struct db_setup by_hand = {.winnow = "aqf", .no_compaction = true};
	struct db_setup bloom = {.stock = STOCK_BLOOM, .no_compaction = true};
	struct own_db own = open_good("nobody", folded, NULL, &given);

	put_keys(&own, KEYS);
	close_own(&own);
	own = open_stock("nobody", folded, &by_hand);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
	ck_assert_uint_gt(db_stats(&own.db).readers_refused, 0);
	close_own(&own);
	own = open_stock("nobody", folded, &bloom);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
	close_own(&own);
}
END_TEST

/* A copy of a database is another one: its filters might be of another function. */
START_TEST(filters_of_another_database_are_not_asked)
{
	struct wn_rocksdb_options given = {.canonical = fold};
	struct wn_rocksdb_options other = {.canonical = raise_case};
	struct own_db own = open_good("first", folded, NULL, &given);
	rocksdb_checkpoint_t *maker;

	put_keys(&own, KEYS);
	maker = rocksdb_checkpoint_object_create(own.db.rocks, &own.error);
	expect_no(own.error);
	rocksdb_checkpoint_create(maker, test_path("second"), 0, &own.error);
	expect_no(own.error);
	rocksdb_checkpoint_object_destroy(maker);
	close_own(&own);
	own = open_good("second", folded, NULL, &other);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, false), KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
	put_keys(&own, KEYS);
	ck_assert_uint_eq(count_found(&own, 0, KEYS, true), KEYS);
	ck_assert_uint_eq(count_found(&own, KEYS, 2 * KEYS, true), 0);
	close_own(&own);
}
END_TEST

/* ---- seeds -------------------------------------------------------------- */

static struct wn__policy *policy_of(const struct wn_secret *secret, wn_canonical_fn *function)
{
	struct wn__canonizer canonizer = {function, NULL};
	struct wn__policy *policy;

	ck_assert_int_eq(wn__policy_create(secret, &canonizer, NULL, NULL, &policy), 0);
	return policy;
}

/* Also if somebody gives a policy for plain keys a secret that he took from such a filter. */
START_TEST(no_seed_is_of_both_sorts)
{
	struct wn_secret *secret = test_secret(3), *other = test_secret(4), *marked, *again;
	struct wn__policy *plain = policy_of(secret, NULL), *canonical = policy_of(secret, fold);
	struct wn__policy *stolen;

	ck_assert_mem_eq(wn_secret_seed(plain->secret), wn_secret_seed(secret), WN_SEED_SIZE);
	ck_assert_int_eq(wn__policy_secret(secret, true, &marked), 0);
	ck_assert_int_eq(wn__policy_secret(marked, true, &again), 0);
	ck_assert_mem_eq(wn_secret_seed(marked), wn_secret_seed(again), WN_SEED_SIZE);
	ck_assert_mem_eq(wn_secret_seed(marked), wn_secret_seed(canonical->secret), WN_SEED_SIZE);
	stolen = policy_of(marked, NULL);
	ck_assert(wn__policy_may_ask(plain, secret));
	ck_assert(wn__policy_may_ask(plain, other));
	ck_assert(wn__policy_may_ask(plain, stolen->secret));
	ck_assert(!wn__policy_may_ask(plain, marked));
	ck_assert(!wn__policy_may_ask(stolen, marked));
	ck_assert(wn__policy_may_ask(canonical, marked));
	ck_assert(!wn__policy_may_ask(canonical, secret));
	ck_assert(!wn__policy_may_ask(canonical, stolen->secret));
	wn__policy_release(plain);
	wn__policy_release(canonical);
	wn__policy_release(stolen);
	wn_secret_destroy(secret);
	wn_secret_destroy(other);
	wn_secret_destroy(marked);
	wn_secret_destroy(again);
}
END_TEST

/* ---- what goes wrong ---------------------------------------------------- */

START_TEST(a_key_without_memory_for_it_is_not_denied)
{
	struct wn_rocksdb_options given = {.canonical = fold};
	struct own_db own = open_good("memory", folded, NULL, &given);
	struct wn__policy *policy;
	struct wn_hash hash;
	char key[600];

	put_keys(&own, 200);
	for (uint64_t nth = 1; nth <= 8; nth++) {
		for (unsigned i = 0; i < 200; i += 50) {
			unsigned found;

			wn__alloc_fail_at(nth);
			found = count_found(&own, i, i + 1, true);
			wn__alloc_fail_at(0);
			ck_assert_uint_eq(found, 1);
		}
	}
	/* While it is built: a filter without the key is none. */
	policy = policy_of(NULL, fold);
	memset(key, 'k', sizeof(key));
	wn__alloc_fail_at(1);
	ck_assert(!wn__policy_hash(policy, policy->secret, key, sizeof(key), &hash));
	wn__alloc_fail_at(0);
	ck_assert(wn__policy_hash(policy, policy->secret, key, sizeof(key), &hash));
	wn__policy_release(policy);
	close_own(&own);
}
END_TEST

START_TEST(a_function_that_says_more_than_it_may_costs_the_filter)
{
	struct wn_rocksdb_options given = {.canonical = write_too_much};
	struct own_db own = open_good("too-much", folded, NULL, &given);

	put_keys(&own, 1000);
	ck_assert_uint_gt(stats_of(&own).filters_given_up, 0);
	ck_assert_uint_eq(count_found(&own, 0, 1000, true), 1000);
	close_own(&own);
}
END_TEST

/* The first digits of the keys that fail; see make_key(). */
static atomic_uint first_failing;

/* As if there were no memory for the last keys in order. */
static size_t fold_or_fail(void *arg, const char *key, size_t size, char *room)
{
	char digits[3] = "";

	if (size > 6)
		memcpy(digits, key + 4, 2);
	return fold(arg, key, size, room) +
	       (strtoul(digits, NULL, 16) >= atomic_load(&first_failing));
}

/* The last partition may have no key that could be added, and must be there all the same: RocksDB
 * would ask the one in front of it. Partitions are as small as can be, and end before the first
 * key that fails some time. */
START_TEST(keys_that_cannot_be_added_at_the_end_are_not_denied)
{
	struct wn_rocksdb_options given = {.canonical = fold_or_fail};
	struct db_setup setup = {.partitioned = true, .partition_bytes = 1};

	for (unsigned first = 0x40; first < 0x80; first++) {
		struct own_db own;
		char name[32];

		snprintf(name, sizeof(name), "failing-from-%x", first);
		own = open_good(name, folded, &setup, &given);
		atomic_store(&first_failing, first);
		put_keys(&own, 256);
		atomic_store(&first_failing, 256);
		ck_assert_uint_eq(count_found(&own, 0, 256, false), 256);
		ck_assert_uint_gt(stats_of(&own).filters_built, 0); /* the one in front */
		ck_assert_uint_gt(stats_of(&own).filters_given_up, 0);
		close_own(&own);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_canonical");
	TCase *tests = tcase_create("rocksdb_canonical");
	int failed;

	test_make_top();
	make_comparators();
	tcase_add_test(tests, keys_that_are_equal_with_other_bytes_are_found);
	tcase_add_test(tests, batches_and_negatives_are_canonical_too);
	tcase_add_test(tests, prefixes_are_canonical_too);
	tcase_add_loop_test(tests, bloom_filters_are_not_asked_for_keys_with_other_bytes, 0, 2);
	tcase_add_loop_test(tests, the_function_may_come_and_go, 0, 4);
	tcase_add_test(tests, filters_of_both_sorts_serve_one_database);
	tcase_add_test(tests, nobody_else_asks_a_canonical_filter);
	tcase_add_test(tests, filters_of_another_database_are_not_asked);
	tcase_add_test(tests, no_seed_is_of_both_sorts);
	tcase_add_test(tests, a_key_without_memory_for_it_is_not_denied);
	tcase_add_test(tests, a_function_that_says_more_than_it_may_costs_the_filter);
	tcase_add_test(tests, keys_that_cannot_be_added_at_the_end_are_not_denied);
	suite_add_tcase(suite, tests);
	failed = test_run(suite);
	test_remove_top();
	return failed;
}
