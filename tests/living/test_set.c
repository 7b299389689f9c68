/* test_set.c - filter, secret and reverse map in step. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/set.h>

#include "base/alloc.h"
#include "tests/support/faulty_map.h"
#include "living/set_internal.h"
#include "tests/support/snapshot.h"
#include "tests/support/common.h"

/* ---- helpers ------------------------------------------------------------ */

/* Remainders of 3 bits: one absent key in nine or so is a false positive. */
static struct wn_set_options small_options(uint64_t capacity)
{
	return (struct wn_set_options){
		.aqf = {.capacity = capacity, .remainder_bits = 3, .load = 0.7, .adapt_load = 0.95},
	};
}

static struct wn_set *make_set_with(const struct wn_set_options *options, struct wn_revmap *map)
{
	struct wn_secret *secret = test_secret(1);
	struct wn_set *set;

	ck_assert_int_eq(wn_set_create(options, secret, map, &set), 0);
	wn_secret_destroy(secret);
	return set;
}

static struct wn_revmap *make_map(bool keep_keys)
{
	struct wn_revmap *map;

	ck_assert_int_eq(wn_revmap_memory_create(keep_keys, &map), 0);
	return map;
}

static struct wn_set *make_set(uint64_t capacity, bool keep_keys)
{
	struct wn_set_options options = small_options(capacity);

	return make_set_with(&options, make_map(keep_keys));
}

/* Key number n: four bytes. */
static int insert(struct wn_set *set, uint32_t n)
{
	return wn_set_insert(set, &n, sizeof(n));
}

static bool query(const struct wn_set *set, uint32_t n)
{
	return wn_set_query(set, &n, sizeof(n));
}

static int learn(struct wn_set *set, uint32_t n)
{
	return wn_set_false_positive(set, &n, sizeof(n));
}

static uint64_t count(const struct wn_set *set, uint32_t n)
{
	uint64_t result;

	/* ck_assert() writes to a pipe even when all is well: too slow for what is
	 * called millions of times. */
	if (wn_set_count(set, &n, sizeof(n), &result))
		ck_abort_msg("no count for key %u", n);
	return result;
}

static void insert_range(struct wn_set *set, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		ck_assert_int_eq(insert(set, n), 0);
}

/* Key n that many times. */
static void insert_times(struct wn_set *set, uint32_t n, uint32_t times)
{
	while (times-- > 0)
		ck_assert_int_eq(insert(set, n), 0);
}

static void assert_found_in_range(const struct wn_set *set, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		if (!query(set, n))
			ck_abort_msg("key %u is lost", n);
}

/* The first false positive from `from` on. */
static uint32_t find_false_positive(const struct wn_set *set, uint32_t from)
{
	while (!query(set, from) || count(set, from))
		from++;
	return from;
}

static struct wn_aqf_info describe(const struct wn_set *set)
{
	struct wn_aqf_info info;

	wn_aqf_describe(wn_set_filter(set), &info);
	return info;
}

static struct snapshot snap(const struct wn_set *set)
{
	return take_snapshot(wn_set_filter(set), wn_set_map(set));
}

static struct wn_revmap_entry make_item(uint64_t hi, uint64_t lo, const char *key)
{
	return (struct wn_revmap_entry){.hash = {hi, lo}, .key = key, .key_size = strlen(key)};
}

static uint64_t count_item(const struct wn_set *set, const struct wn_revmap_entry *item)
{
	uint64_t result;

	ck_assert_int_eq(wn__set_count_item(set, item, &result), 0);
	return result;
}

static bool is_seed_same(const struct wn_set *a, const struct wn_set *b)
{
	return !memcmp(wn_secret_seed(wn_set_secret(a)), wn_secret_seed(wn_set_secret(b)),
		       WN_SEED_SIZE);
}

/* ---- create ------------------------------------------------------------- */

static void assert_refused(const struct wn_set_options *options, struct wn_revmap *map)
{
	struct wn_set *set;

	ck_assert_int_eq(wn_set_create(options, NULL, map, &set), WN_ERR_INVALID);
	ck_assert_ptr_null(set);
}

START_TEST(bad_parameters_are_refused_and_the_map_is_taken)
{
	struct wn_revmap_entry item = make_item(1, 1, "key");
	struct wn_set_options options = small_options(10);
	struct wn_revmap *map = make_map(true);

	ck_assert_int_eq(wn_revmap_put(map, 1, 0, &item), 0);
	assert_refused(&options, map); /* not empty */
	assert_refused(&options, NULL);
	options.auto_rebuild = true;
	assert_refused(&options, make_map(false));
	options = small_options(0);
	assert_refused(&options, make_map(true));
	options = small_options(10);
	options.aqf.remainder_bits = 33;
	assert_refused(&options, make_map(true));
	options = small_options(10);
	options.rebuild_at = 1.1;
	assert_refused(&options, make_map(true));
	options.rebuild_at = -0.1;
	assert_refused(&options, make_map(true));
	wn_set_destroy(NULL);
}
END_TEST

START_TEST(without_a_secret_every_set_draws_its_own)
{
	struct wn_set_options options = small_options(10);
	struct wn_set *a, *b;

	ck_assert_int_eq(wn_set_create(&options, NULL, make_map(true), &a), 0);
	ck_assert_int_eq(wn_set_create(&options, NULL, make_map(true), &b), 0);
	ck_assert(!is_seed_same(a, b));
	wn_set_destroy(a);
	wn_set_destroy(b);
}
END_TEST

/* ---- keys and counts ---------------------------------------------------- */

START_TEST(an_empty_set_says_no)
{
	struct wn_set *set = make_set(100, _i);

	for (uint32_t n = 0; n < 1000; n++) {
		ck_assert(!query(set, n));
		ck_assert_uint_eq(count(set, n), 0);
	}
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_key_inserted_again_is_counted)
{
	struct wn_set *set = make_set(300, _i);

	for (uint32_t n = 0; n < 100; n++)
		insert_times(set, n, n % 4 + 1);
	for (uint32_t n = 0; n < 100; n++) {
		ck_assert(query(set, n));
		ck_assert_uint_eq(count(set, n), n % 4 + 1);
	}
	for (uint32_t n = 100; n < 1000; n++)
		ck_assert_uint_eq(count(set, n), 0);
	ck_assert_uint_eq(wn_revmap_count(wn_set_map(set)), 100);
	wn_set_destroy(set);
}
END_TEST

START_TEST(deleting_takes_one_count_and_at_last_the_key)
{
	struct wn_set *set = make_set(300, _i);
	uint32_t key = 7;

	insert_range(set, 0, 200);
	insert_times(set, key, 2);
	for (uint64_t left = 3; left-- > 0;) {
		ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), 0);
		ck_assert_uint_eq(count(set, key), left);
	}
	ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), WN_ERR_NOT_FOUND);
	for (uint32_t n = 0; n < 200; n++)
		ck_assert_uint_eq(count(set, n), n != key);
	assert_found_in_range(set, 8, 200);
	wn_set_destroy(set);
}
END_TEST

START_TEST(deleting_an_absent_key_takes_no_other)
{
	struct wn_set *set = make_set(300, _i);
	struct snapshot before;
	uint32_t maybes = 0;

	insert_range(set, 0, 300);
	before = snap(set);
	for (uint32_t n = 300; n < 2000; n++) {
		maybes += query(set, n);
		ck_assert_int_eq(wn_set_delete(set, &n, sizeof(n)), WN_ERR_NOT_FOUND);
	}
	ck_assert_uint_gt(maybes, 50); /* a bare filter would have lost as many */
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(empty_and_large_keys_are_keys)
{
	struct wn_set *set = make_set(100, true);
	char *large = malloc(65536);
	uint64_t result;

	memset(large, 'k', 65536);
	ck_assert_int_eq(wn_set_insert(set, NULL, 0), 0);
	ck_assert_int_eq(wn_set_insert(set, "", 0), 0);
	ck_assert_int_eq(wn_set_insert(set, large, 65536), 0);
	ck_assert_int_eq(wn_set_insert(set, large, 65535), 0);
	ck_assert(wn_set_query(set, "", 0));
	ck_assert(wn_set_query(set, large, 65536));
	ck_assert_int_eq(wn_set_count(set, "", 0, &result), 0);
	ck_assert_uint_eq(result, 2);
	ck_assert_int_eq(wn_set_count(set, large, 65536, &result), 0);
	ck_assert_uint_eq(result, 1);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	ck_assert(wn_set_query(set, NULL, 0));
	ck_assert(wn_set_query(set, large, 65535));
	ck_assert_int_eq(wn_set_delete(set, large, 65536), 0);
	ck_assert_int_eq(wn_set_delete(set, NULL, 0), 0);
	ck_assert_int_eq(wn_set_delete(set, NULL, 0), 0);
	ck_assert_int_eq(wn_set_delete(set, "", 0), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn_set_insert(set, NULL, 1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_set_delete(set, NULL, 1), WN_ERR_INVALID);
	ck_assert_int_eq(wn_set_count(set, NULL, 1, &result), WN_ERR_INVALID);
	ck_assert_int_eq(wn_set_false_positive(set, NULL, 1), WN_ERR_INVALID);
	free(large);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_full_set_refuses_keys_and_stays_as_it_was)
{
	struct wn_set *set = make_set(100, _i);
	struct snapshot before;
	uint32_t held = 0, key = 5;
	int err;

	while ((err = insert(set, held)) == 0)
		held++;
	ck_assert_int_eq(err, WN_ERR_FULL);
	ck_assert_uint_ge(held, 100);
	before = snap(set);
	for (uint32_t n = held; n < held + 100; n++)
		ck_assert_int_eq(insert(set, n), WN_ERR_FULL);
	assert_same_snapshot(before, snap(set));
	assert_found_in_range(set, 0, held);
	ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), 0);
	ck_assert_int_eq(insert(set, held), 0);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_count_without_room_stays_as_it_was)
{
	struct wn_set *set = make_set(100, _i);
	uint64_t counts[100] = {0};
	uint32_t refused = 0;

	insert_range(set, 0, 100);
	for (uint32_t round = 1; round < 40; round++)
		for (uint32_t n = 0; n < 100; n++) {
			struct snapshot before = snap(set);
			int err = insert(set, n);

			if (err) {
				ck_assert_int_eq(err, WN_ERR_FULL);
				assert_same_snapshot(before, snap(set));
				refused++;
			} else {
				counts[n]++;
			}
		}
	ck_assert_uint_gt(refused, 0);
	for (uint32_t n = 0; n < 100; n++)
		ck_assert_uint_eq(count(set, n), counts[n] + 1);
	wn_set_destroy(set);
}
END_TEST

/* ---- equal hashes ------------------------------------------------------- */

START_TEST(keys_with_equal_halves_of_their_hash_stay_two_keys)
{
	struct wn_set *set = make_set(600, _i);
	struct wn_revmap_entry items[4] = {
		make_item(UINT64_C(1) << 63, 1, "a"),
		make_item(UINT64_C(1) << 63, 2, "b"),
		make_item((UINT64_C(1) << 63) + 1, 2, "c"),
		make_item(UINT64_C(1) << 62, 2, "d"),
	};

	for (unsigned at = 0; at < 4; at++)
		for (unsigned times = 0; times <= at; times++)
			ck_assert_int_eq(wn__set_insert_item(set, &items[at]), 0);
	for (unsigned at = 0; at < 4; at++)
		ck_assert_uint_eq(count_item(set, &items[at]), at + 1);
	ck_assert_int_eq(wn__set_delete_item(set, &items[0]), 0);
	ck_assert_int_eq(wn__set_delete_item(set, &items[0]), WN_ERR_NOT_FOUND);
	/* Learning the one that went leaves the others. */
	ck_assert_int_eq(wn__set_learn_item(set, &items[0]), 0);
	ck_assert(!wn_aqf_query(wn_set_filter(set), items[0].hash, NULL));
	for (unsigned at = 1; at < 4; at++) {
		ck_assert(wn_aqf_query(wn_set_filter(set), items[at].hash, NULL));
		ck_assert_uint_eq(count_item(set, &items[at]), at + 1);
	}
	wn_set_destroy(set);
}
END_TEST

START_TEST(two_keys_with_one_full_hash_stay_two_where_keys_are_kept)
{
	struct wn_set *set = make_set(100, true);
	struct wn_revmap_entry a = make_item(77, 88, "a");
	struct wn_revmap_entry b = make_item(77, 88, "b");
	struct wn_revmap_entry c = make_item(77, 88, "c");

	ck_assert_int_eq(wn__set_insert_item(set, &a), 0);
	ck_assert_int_eq(wn__set_insert_item(set, &b), 0);
	ck_assert_int_eq(wn__set_insert_item(set, &b), 0);
	ck_assert_uint_eq(count_item(set, &a), 1);
	ck_assert_uint_eq(count_item(set, &b), 2);
	ck_assert_uint_eq(count_item(set, &c), 0);
	ck_assert_int_eq(wn__set_learn_item(set, &c), WN_ERR_UNFIXABLE);
	ck_assert_int_eq(wn__set_delete_item(set, &c), WN_ERR_NOT_FOUND);
	ck_assert_int_eq(wn__set_delete_item(set, &a), 0);
	ck_assert_uint_eq(count_item(set, &a), 0);
	ck_assert_uint_eq(count_item(set, &b), 2);
	/* Hashed anew they part. */
	ck_assert_int_eq(wn__set_insert_item(set, &a), 0);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	ck_assert(wn_set_query(set, "a", 1));
	ck_assert(wn_set_query(set, "b", 1));
	wn_set_destroy(set);
}
END_TEST

START_TEST(two_keys_with_one_full_hash_are_one_where_only_hashes_are_kept)
{
	struct wn_set *set = make_set(100, false);
	struct wn_revmap_entry a = make_item(77, 88, "a");
	struct wn_revmap_entry b = make_item(77, 88, "b");

	ck_assert_int_eq(wn__set_insert_item(set, &a), 0);
	ck_assert_int_eq(wn__set_insert_item(set, &b), 0);
	ck_assert_uint_eq(count_item(set, &a), 2);
	ck_assert_uint_eq(wn_revmap_count(wn_set_map(set)), 1);
	wn_set_destroy(set);
}
END_TEST

/* ---- learn -------------------------------------------------------------- */

START_TEST(a_learned_false_positive_never_comes_back)
{
	struct wn_set *set = make_set(1000, _i);
	static bool learned[20000];
	uint32_t fixed = 0;

	insert_range(set, 0, 1000);
	for (uint32_t n = 1000; n < 20000; n++) {
		int err;

		learned[n] = false;
		if (!query(set, n))
			continue;
		err = learn(set, n);
		if (err == WN_ERR_FULL)
			break;
		ck_assert_int_eq(err, 0);
		ck_assert(!query(set, n));
		learned[n] = true;
		fixed++;
	}
	ck_assert_uint_gt(fixed, 100);
	for (uint32_t n = 1000; n < 20000; n++)
		ck_assert(!learned[n] || !query(set, n));
	assert_found_in_range(set, 0, 1000);
	wn_set_destroy(set);
}
END_TEST

START_TEST(every_fingerprint_that_matches_is_fixed)
{
	struct wn_set *set = make_set(1000, _i);
	struct wn_revmap_entry items[6];
	struct wn_revmap_entry absent = make_item(UINT64_C(0x5555555555555555), 1 << 20, "absent");
	char names[6][2];

	for (int at = 0; at < 6; at++) {
		snprintf(names[at], sizeof(names[at]), "%c", 'a' + at);
		/* Like the query in all but a few of the last bits. */
		items[at] = absent;
		items[at].key = names[at];
		items[at].key_size = 1;
		items[at].hash.lo += UINT64_C(1) << (at * 11);
		ck_assert_int_eq(wn__set_insert_item(set, &items[at]), 0);
	}
	ck_assert(wn_aqf_query(wn_set_filter(set), absent.hash, NULL));
	ck_assert_int_eq(wn__set_learn_item(set, &absent), 0);
	ck_assert(!wn_aqf_query(wn_set_filter(set), absent.hash, NULL));
	for (int at = 0; at < 6; at++)
		ck_assert(wn_aqf_query(wn_set_filter(set), items[at].hash, NULL));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_key_of_the_set_is_not_unlearned)
{
	struct wn_set *set = make_set(300, _i);
	struct snapshot before;

	insert_range(set, 0, 300);
	before = snap(set);
	for (uint32_t n = 0; n < 300; n++)
		ck_assert_int_eq(learn(set, n), WN_ERR_UNFIXABLE);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(learning_what_is_no_false_positive_changes_nothing)
{
	struct wn_set *set = make_set(300, _i);
	struct snapshot before;

	insert_range(set, 0, 300);
	before = snap(set);
	for (uint32_t n = 300; n < 1300; n++)
		if (!query(set, n))
			ck_assert_int_eq(learn(set, n), 0);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

/* ---- rebuild ------------------------------------------------------------ */

/* Learn from `from` on until there is no room; the key that found none. */
static uint32_t learn_until_full(struct wn_set *set, uint32_t from)
{
	for (;; from++) {
		int err;

		if (!query(set, from))
			continue;
		err = learn(set, from);
		if (err == WN_ERR_FULL)
			return from;
		ck_assert_int_eq(err, 0);
	}
}

START_TEST(a_rebuild_is_due_when_room_is_gone_and_gives_it_back)
{
	struct wn_set *set = make_set(300, true);
	uint32_t refused;

	for (uint32_t n = 0; n < 250; n++)
		insert_times(set, n, n % 50 ? 1 : 9);
	ck_assert(!wn_set_needs_rebuild(set));
	refused = learn_until_full(set, 1000);
	ck_assert(wn_set_needs_rebuild(set));
	ck_assert_uint_gt(describe(set).extensions, 0);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	ck_assert(!wn_set_needs_rebuild(set));
	ck_assert_uint_eq(describe(set).extensions, 0);
	for (uint32_t n = 0; n < 250; n++)
		ck_assert_uint_eq(count(set, n), n % 50 ? 1 : 9);
	ck_assert_int_eq(learn(set, refused), 0);
	ck_assert(!query(set, refused));
	wn_set_destroy(set);
}
END_TEST

/* One that needs many slots may find none while others still would. */
START_TEST(a_rebuild_is_due_when_something_could_not_be_learned)
{
	struct wn_set *set = make_set(300, true);
	struct wn_revmap_entry item = make_item(UINT64_C(0x5555555555555555), 0, "item");
	struct wn_revmap_entry absent = make_item(UINT64_C(0x5555555555555555), 1, "absent");

	insert_range(set, 0, 250);
	ck_assert_int_eq(wn__set_insert_item(set, &item), 0);
	for (uint32_t n = 1000; describe(set).extensions + 20 <
				describe(set).adapt_limit - describe(set).insert_limit; n++)
		if (query(set, n))
			ck_assert_int_eq(learn(set, n), 0);
	ck_assert(!wn_set_needs_rebuild(set));
	ck_assert_int_eq(wn__set_learn_item(set, &absent), WN_ERR_FULL);
	ck_assert(wn_set_needs_rebuild(set));
	/* A slot given back may be the one that was missing. */
	ck_assert_int_eq(wn__set_delete_item(set, &item), 0);
	ck_assert(!wn_set_needs_rebuild(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_rebuild_is_due_at_the_share_asked_for)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set;
	struct wn_aqf_info info;

	options.rebuild_at = 0.8;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 300);
	for (uint32_t n = 1000; !wn_set_needs_rebuild(set); n++)
		if (query(set, n))
			ck_assert_int_eq(learn(set, n), 0);
	info = describe(set);
	ck_assert_uint_ge(info.used_slots, info.slots * 8 / 10);
	ck_assert_uint_le(info.used_slots, info.slots * 8 / 10 + 50);
	wn_set_destroy(set);
}
END_TEST

START_TEST(keys_and_counters_alone_make_no_rebuild_due)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set;

	options.rebuild_at = 0.5;
	options.auto_rebuild = true;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 300);
	insert_range(set, 0, 50);
	ck_assert_uint_ge(describe(set).used_slots, describe(set).slots / 2);
	ck_assert(!wn_set_needs_rebuild(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_rebuild_takes_the_secret_it_is_given)
{
	struct wn_secret *secret = test_secret(99);
	struct wn_set *set = make_set(300, true);

	insert_range(set, 0, 300);
	ck_assert_int_eq(wn_set_rebuild(set, secret), 0);
	ck_assert_int_eq(memcmp(wn_secret_seed(wn_set_secret(set)), wn_secret_seed(secret),
				WN_SEED_SIZE), 0);
	wn_secret_destroy(secret);
	assert_found_in_range(set, 0, 300);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_rebuild_restores_the_remainder_that_growing_used_up)
{
	struct wn_set *set = make_set(300, true);
	struct wn_aqf_info info = describe(set), grown;

	insert_range(set, 0, 300);
	ck_assert_int_eq(wn_set_grow(set), 0);
	insert_range(set, 300, 600);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), 0);
	grown = describe(set);
	ck_assert_uint_eq(grown.remainder_bits, info.remainder_bits);
	ck_assert_uint_ge(grown.insert_limit, 600);
	ck_assert_uint_le(grown.slots, info.slots * 2);
	ck_assert_uint_eq(grown.fingerprints, 600);
	assert_found_in_range(set, 0, 600);
	wn_set_destroy(set);
}
END_TEST

START_TEST(without_keys_there_is_no_rebuild)
{
	struct wn_set *set = make_set(300, false);
	struct snapshot before;

	insert_range(set, 0, 300);
	before = snap(set);
	ck_assert_int_eq(wn_set_rebuild(set, NULL), WN_ERR_READONLY);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

/* One key goes, one comes, a thousand times, at capacity and learning in between. */
START_TEST(a_full_set_that_has_learned_takes_a_key_for_each_that_leaves)
{
	struct wn_set_options options = {.aqf = {.capacity = 1000, .remainder_bits = 5}};
	struct wn_set *set;
	uint32_t rebuilds = 0, asked = 1000000;

	options.auto_rebuild = _i;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 1000);
	for (uint32_t n = 0; n < 1000; n++) {
		uint64_t before = describe(set).extensions;

		for (uint32_t end = asked + 100; asked < end; asked++)
			if (query(set, asked)) {
				int err = learn(set, asked);

				ck_assert(err == 0 || (err == WN_ERR_FULL && !_i));
			}
		rebuilds += describe(set).extensions + 20 < before;
		ck_assert_int_eq(wn_set_delete(set, &n, sizeof(n)), 0);
		ck_assert_int_eq(insert(set, n + 1000), 0);
	}
	ck_assert(_i ? rebuilds > 0 : describe(set).extensions > 0);
	assert_found_in_range(set, 1000, 2000);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_set_that_rebuilds_itself_always_learns)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set, *unchanged;
	uint32_t learned = 0, rebuilds = 0;

	options.auto_rebuild = true;
	set = make_set_with(&options, make_map(true));
	insert_range(set, 0, 300);
	unchanged = make_set(10, true);
	for (uint32_t n = 1000; rebuilds < 100; n++) {
		uint64_t before = describe(set).extensions;

		if (!query(set, n))
			continue;
		ck_assert_int_eq(learn(set, n), 0);
		ck_assert(!query(set, n));
		learned++;
		rebuilds += describe(set).extensions < before;
		ck_assert(!wn_set_needs_rebuild(set));
	}
	ck_assert(!is_seed_same(set, unchanged));
	ck_assert_uint_gt(learned, 1000);
	assert_found_in_range(set, 0, 300);
	wn_set_destroy(unchanged);
	wn_set_destroy(set);
}
END_TEST

/* ---- grow, shrink, merge ------------------------------------------------ */

/* Keys 0..n-1 with counts, and as many learned false positives as there is room
 * for among the next 1,000 numbers. */
static void fill_with_everything(struct wn_set *set, uint32_t n, bool *learned)
{
	for (uint32_t key = 0; key < n; key++)
		insert_times(set, key, key % 20 ? 1 : 5);
	for (uint32_t key = n; key < n + 1000; key++) {
		learned[key] = query(set, key) && learn(set, key) == 0;
		if (learned[key])
			ck_assert(!query(set, key));
	}
}

static void assert_has_everything(struct wn_set *set, uint32_t n, const bool *learned)
{
	for (uint32_t key = 0; key < n; key++)
		ck_assert_uint_eq(count(set, key), key % 20 ? 1 : 5);
	for (uint32_t key = n; key < n + 1000; key++)
		ck_assert(!learned[key] || !query(set, key));
}

START_TEST(growing_and_shrinking_keep_keys_counts_and_what_was_learned)
{
	struct wn_set *set = make_set(300, _i);
	uint64_t slots = describe(set).slots;
	static bool learned[1200];
	struct snapshot before;

	fill_with_everything(set, 200, learned);
	before = snap(set);
	ck_assert_int_eq(wn_set_grow(set), 0);
	ck_assert_uint_eq(describe(set).slots, 2 * slots);
	assert_has_everything(set, 200, learned);
	ck_assert_int_eq(wn_set_grow(set), WN_ERR_INVALID); /* 2 remainder bits are left */
	assert_has_everything(set, 200, learned);
	ck_assert_int_eq(wn_set_shrink(set), 0);
	assert_same_snapshot(before, snap(set));
	assert_has_everything(set, 200, learned);
	insert_range(set, 1200, 1201);
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_set_too_full_to_shrink_stays_as_it_was)
{
	struct wn_set_options options = small_options(400);
	struct wn_set *set;
	struct snapshot before;

	options.aqf.load = 0.5; /* an even number of slots */
	set = make_set_with(&options, make_map(_i));
	insert_range(set, 0, 400);
	before = snap(set);
	ck_assert_int_eq(wn_set_shrink(set), WN_ERR_FULL);
	assert_same_snapshot(before, snap(set));
	wn_set_destroy(set);
}
END_TEST

START_TEST(a_merge_adds_keys_and_counts)
{
	struct wn_set *into = make_set(300, _i);
	struct wn_set *from = make_set(300, _i);

	insert_range(into, 0, 200);
	insert_times(into, 150, 3);
	insert_range(from, 100, 300);
	insert_times(from, 150, 20);
	insert_times(from, 151, 6);
	ck_assert_int_eq(wn_set_merge(into, from), 0);
	for (uint32_t n = 0; n < 300; n++) {
		uint64_t expected = n >= 100 && n < 200 ? 2 : 1;

		if (n == 150)
			expected = 25;
		if (n == 151)
			expected = 8;
		ck_assert(query(into, n));
		ck_assert_uint_eq(count(into, n), expected);
		ck_assert_uint_eq(count(from, n), 0);
		ck_assert(!query(from, n));
	}
	ck_assert_uint_eq(snap(into).entries, 300);
	ck_assert_uint_eq(snap(from).entries, 0);
	insert_range(from, 0, 300); /* it is as good as new */
	assert_found_in_range(from, 0, 300);
	wn_set_destroy(into);
	wn_set_destroy(from);
}
END_TEST

START_TEST(what_both_sets_denied_the_merged_one_denies)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *into, *from;
	static bool denied[3000];

	options.aqf.remainder_bits = 5; /* the merged set may have to double twice */
	into = make_set_with(&options, make_map(_i));
	from = make_set_with(&options, make_map(_i));
	insert_range(into, 0, 200);
	insert_range(from, 100, 300);
	for (uint32_t n = 300; n < 3000; n++) {
		if (query(into, n))
			learn(into, n);
		if (query(from, n))
			learn(from, n);
		denied[n] = !query(into, n) && !query(from, n);
	}
	ck_assert_uint_gt(describe(into).extensions, 20);
	ck_assert_uint_gt(describe(from).extensions, 20);
	ck_assert_int_eq(wn_set_merge(into, from), 0);
	for (uint32_t n = 300; n < 3000; n++)
		ck_assert(!denied[n] || !query(into, n));
	assert_found_in_range(into, 0, 300);
	wn_set_destroy(into);
	wn_set_destroy(from);
}
END_TEST

START_TEST(merged_sets_go_on_as_sets)
{
	struct wn_set *into = make_set(300, true);
	struct wn_set *from = make_set(300, true);

	insert_range(into, 0, 150);
	insert_range(from, 100, 250);
	ck_assert_int_eq(wn_set_merge(into, from), 0);
	for (uint32_t n = 0; n < 250; n += 2) {
		uint64_t had = count(into, n);

		ck_assert_int_eq(wn_set_delete(into, &n, sizeof(n)), 0);
		ck_assert_uint_eq(count(into, n), had - 1);
	}
	for (uint32_t n = 1000; n < 1100; n++)
		if (query(into, n))
			ck_assert_int_eq(learn(into, n), 0);
	for (uint32_t n = 0; n < 250; n++)
		ck_assert_uint_eq(count(into, n), 1U + (n >= 100 && n < 150) - (n % 2 == 0));
	ck_assert_int_eq(wn_set_rebuild(into, NULL), 0);
	for (uint32_t n = 0; n < 250; n++)
		ck_assert_uint_eq(count(into, n), 1U + (n >= 100 && n < 150) - (n % 2 == 0));
	wn_set_destroy(into);
	wn_set_destroy(from);
}
END_TEST

static void assert_no_merge(struct wn_set *into, struct wn_set *from, int expected)
{
	struct snapshot before = snap(into);

	ck_assert_int_eq(wn_set_merge(into, from), expected);
	assert_same_snapshot(before, snap(into));
	if (from != into)
		wn_set_destroy(from);
}

START_TEST(sets_that_do_not_fit_are_not_merged)
{
	struct wn_set_options options = small_options(300);
	struct wn_set *set = make_set(300, true), *other;

	insert_range(set, 0, 100);
	assert_no_merge(set, set, WN_ERR_INVALID);
	assert_no_merge(set, make_set(301, true), WN_ERR_MISMATCH);
	assert_no_merge(set, make_set(300, false), WN_ERR_MISMATCH);
	ck_assert_int_eq(wn_set_create(&options, NULL, make_map(true), &other), 0);
	assert_no_merge(set, other, WN_ERR_MISMATCH); /* another seed */
	options.aqf.remainder_bits = 4;
	assert_no_merge(set, make_set_with(&options, make_map(true)), WN_ERR_MISMATCH);
	wn_set_destroy(set);
}
END_TEST

/* ---- faults ------------------------------------------------------------- */

struct pair {
	struct wn_set *set, *from;
};

static int do_insert(struct pair *pair)
{
	return insert(pair->set, 5000);
}

static int do_delete(struct pair *pair)
{
	uint32_t key = 3;

	return wn_set_delete(pair->set, &key, sizeof(key));
}

static int do_learn(struct pair *pair)
{
	return learn(pair->set, find_false_positive(pair->set, 10000));
}

static int do_rebuild(struct pair *pair)
{
	return wn_set_rebuild(pair->set, NULL);
}

static int do_grow(struct pair *pair)
{
	return wn_set_grow(pair->set);
}

static int do_shrink(struct pair *pair)
{
	return wn_set_shrink(pair->set);
}

static int do_merge(struct pair *pair)
{
	return wn_set_merge(pair->set, pair->from);
}

static int (*const changes[])(struct pair *) = {do_insert, do_delete, do_learn,  do_rebuild,
						do_grow,   do_shrink, do_merge};
#define CHANGES (int)(sizeof(changes) / sizeof(changes[0]))

static struct pair make_pair(struct wn_revmap *map, struct wn_revmap *other)
{
	struct wn_set_options options = small_options(64);
	struct pair pair;

	options.aqf.load = 0.5; /* an even number of slots */
	pair.set = make_set_with(&options, map);
	pair.from = make_set_with(&options, other);
	insert_range(pair.set, 0, 48); /* three times 16: buckets must grow soon */
	insert_range(pair.from, 20, 50);
	insert_times(pair.from, 25, 5);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(learn(pair.set, find_false_positive(pair.set, 1000)), 0);
	for (uint32_t n = 15; n < 48; n++)
		ck_assert_int_eq(wn_set_delete(pair.set, &n, sizeof(n)), 0);
	return pair;
}

static void destroy_pair(struct pair *pair)
{
	wn_set_destroy(pair->set);
	wn_set_destroy(pair->from);
}

START_TEST(a_change_without_memory_changes_nothing)
{
	struct pair pair = make_pair(make_map(true), make_map(true));
	struct snapshot set = snap(pair.set), from = snap(pair.from);
	int err;

	for (uint64_t nth = 1;; nth++) {
		wn__alloc_fail_at(nth);
		err = changes[_i](&pair);
		if (wn__alloc_calls() < nth) {
			wn__alloc_fail_at(0);
			break;
		}
		wn__alloc_fail_at(0);
		ck_assert_int_eq(err, ENOMEM);
		assert_same_snapshot(set, snap(pair.set));
		assert_same_snapshot(from, snap(pair.from));
		assert_found_in_range(pair.set, 0, 15);
		assert_found_in_range(pair.from, 20, 50);
	}
	ck_assert_int_eq(err, 0);
	destroy_pair(&pair);
}
END_TEST

START_TEST(a_change_that_the_store_refuses_changes_nothing)
{
	struct pair pair = make_pair(faulty_create(true), faulty_create(true));
	struct snapshot set = snap(pair.set), from = snap(pair.from);
	int err;

	for (uint64_t nth = 1;; nth++) {
		struct snapshot now;
		uint64_t calls;

		/* What tells a false positive from a key asks the map as well. */
		uint32_t key = _i == 2 ? find_false_positive(pair.set, 10000) : 0;

		fail_map_at(nth);
		err = _i == 2 ? learn(pair.set, key) : changes[_i](&pair);
		calls = map_calls;
		fail_map_at(0);
		if (calls < nth)
			break;
		ck_assert_int_eq(err, EIO);
		now = snap(pair.set);
		/* Of several matches some may have been learned. */
		if (_i != 2)
			assert_same_snapshot(set, now);
		ck_assert_uint_eq(set.map, now.map);
		assert_same_snapshot(from, snap(pair.from));
		assert_found_in_range(pair.set, 0, 15);
		assert_found_in_range(pair.from, 20, 50);
	}
	ck_assert_int_eq(err, 0);
	destroy_pair(&pair);
}
END_TEST

START_TEST(creating_without_memory_leaves_nothing_behind)
{
	struct wn_set_options options = small_options(64);
	struct wn_set *set;
	uint64_t calls;
	int err;

	for (uint64_t nth = 1;; nth++) {
		struct wn_revmap *map = make_map(true);

		wn__alloc_fail_at(nth);
		err = wn_set_create(&options, NULL, map, &set);
		calls = wn__alloc_calls();
		wn__alloc_fail_at(0);
		if (calls < nth)
			break;
		ck_assert_int_eq(err, ENOMEM);
		ck_assert_ptr_null(set);
	}
	ck_assert_int_eq(err, 0);
	wn_set_destroy(set);
}
END_TEST

/* ---- against a model ---------------------------------------------------- */

#define UNIVERSE 500

struct model {
	struct wn_set *set;
	struct wn_set *side; /* a second set, to be merged */
	uint64_t counts[UNIVERSE], side_counts[UNIVERSE];
	bool learned[UNIVERSE]; /* must say no */
	uint64_t random;
};

/* A new key's own fingerprint may match what was learned before; no other does. */
static void forget_matches_of(struct model *model, uint32_t key)
{
	const struct wn_aqf *aqf = wn_set_filter(model->set);
	const struct wn_secret *secret = wn_set_secret(model->set);
	uint64_t minirun = wn_aqf_minirun(aqf, wn_hash(secret, &key, sizeof(key)));

	model->learned[key] = false;
	for (uint32_t n = 0; n < UNIVERSE; n++)
		if (model->learned[n] && query(model->set, n)) {
			struct wn_hash hash = wn_hash(secret, &n, sizeof(n));

			ck_assert_uint_eq(minirun, wn_aqf_minirun(aqf, hash));
			model->learned[n] = false;
		}
}

static void step_insert(struct model *model, uint32_t key)
{
	int err = insert(model->set, key);

	if (err == WN_ERR_FULL)
		return;
	ck_assert_int_eq(err, 0);
	if (model->counts[key]++ == 0)
		forget_matches_of(model, key);
}

static void step_delete(struct model *model, uint32_t key)
{
	int err = wn_set_delete(model->set, &key, sizeof(key));

	ck_assert_int_eq(err, model->counts[key] ? 0 : WN_ERR_NOT_FOUND);
	model->counts[key] -= model->counts[key] != 0;
}

static void step_learn(struct model *model, uint32_t key)
{
	int err = learn(model->set, key);

	if (model->counts[key]) {
		ck_assert_int_eq(err, WN_ERR_UNFIXABLE);
	} else if (err != WN_ERR_FULL) {
		ck_assert_int_eq(err, 0);
		ck_assert(!query(model->set, key));
		model->learned[key] = true;
	}
}

static void step_rebuild(struct model *model)
{
	ck_assert_int_eq(wn_set_rebuild(model->set, NULL), 0);
	memset(model->learned, 0, sizeof(model->learned));
}

static void step_resize(struct model *model)
{
	bool grow = test_random(&model->random) % 2;
	int err = grow ? wn_set_grow(model->set) : wn_set_shrink(model->set);

	ck_assert(err == 0 || err == WN_ERR_INVALID || err == WN_ERR_FULL);
}

static void step_side(struct model *model, uint32_t key)
{
	if (insert(model->side, key) == 0)
		model->side_counts[key]++;
}

static void step_merge(struct model *model)
{
	struct wn_set_options options = small_options(150);
	int err = wn_set_merge(model->set, model->side);

	if (err == 0) {
		for (uint32_t n = 0; n < UNIVERSE; n++) {
			model->counts[n] += model->side_counts[n];
			model->side_counts[n] = 0;
			model->learned[n] = model->learned[n] && !query(model->set, n);
		}
		return;
	}
	ck_assert_int_eq(err, WN_ERR_MISMATCH);
	/* Start over with a pair that fits. */
	wn_set_destroy(model->set);
	wn_set_destroy(model->side);
	model->set = make_set_with(&options, make_map(true));
	model->side = make_set_with(&options, make_map(true));
	memset(model->counts, 0, sizeof(model->counts));
	memset(model->side_counts, 0, sizeof(model->side_counts));
	memset(model->learned, 0, sizeof(model->learned));
}

static void assert_as_model(const struct model *model)
{
	for (uint32_t n = 0; n < UNIVERSE; n++) {
		bool answer = query(model->set, n);

		if (count(model->set, n) != model->counts[n] ||
		    count(model->side, n) != model->side_counts[n])
			ck_abort_msg("key %u has a wrong count", n);
		if (model->counts[n] && !answer)
			ck_abort_msg("key %u is lost", n);
		if (model->learned[n] && answer)
			ck_abort_msg("false positive %u came back", n);
	}
}

static void take_step(struct model *model)
{
	uint64_t dice = test_random(&model->random) % 1000;
	uint32_t key = (uint32_t)(test_random(&model->random) % UNIVERSE);

	if (dice < 350)
		step_insert(model, key);
	else if (dice < 700)
		step_delete(model, key);
	else if (dice < 900)
		step_learn(model, key);
	else if (dice < 990)
		step_side(model, key);
	else if (dice < 994)
		step_resize(model);
	else if (dice < 996)
		step_rebuild(model);
	else
		step_merge(model);
}

START_TEST(any_operations_agree_with_an_exact_set)
{
	uint64_t seed = test_seed("set", 100 + (uint64_t)_i);
	uint64_t steps = test_is_quick() ? 1000 : 10000;
	struct model model = {
		.set = make_set(150, true), .side = make_set(150, true), .random = seed};

	for (uint64_t step = 0; step < steps; step++) {
		take_step(&model);
		if (step % 20 == 0)
			assert_as_model(&model);
	}
	assert_as_model(&model);
	wn_set_destroy(model.set);
	wn_set_destroy(model.side);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

static atomic_bool readers_stop;
static atomic_uint readers_lost;

static void *read_keys(void *arg)
{
	const struct wn_set *set = arg;

	while (!readers_stop)
		for (uint32_t n = 0; n < 500; n++)
			if (!query(set, n))
				readers_lost++;
	return NULL;
}

START_TEST(readers_find_every_key_while_one_thread_changes_the_set)
{
	struct wn_set *set = make_set(1500, true);
	uint64_t random = test_seed("set", 7);
	pthread_t readers[2];

	readers_stop = false;
	readers_lost = 0;
	insert_range(set, 0, 500);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&readers[i], NULL, read_keys, set), 0);
	for (uint64_t step = 0; step < 30000; step++) {
		uint32_t key = 500 + (uint32_t)(test_random(&random) % 1000);

		if (count(set, key))
			ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), 0);
		else if (step % 8 == 0 && query(set, key))
			learn(set, key);
		else
			insert(set, key);
	}
	readers_stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	ck_assert_uint_eq(readers_lost, 0);
	wn_set_destroy(set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("set");
	TCase *keys = tcase_create("keys");
	TCase *learning = tcase_create("learning");
	TCase *whole = tcase_create("whole sets");
	TCase *faults = tcase_create("faults");
	TCase *model = tcase_create("model");

	suite_add_tcase(suite, keys);
	suite_add_tcase(suite, learning);
	suite_add_tcase(suite, whole);
	suite_add_tcase(suite, faults);
	suite_add_tcase(suite, model);
	/* Loops over two: 0 with a map of hashes, 1 with one of keys. */
	tcase_add_test(keys, bad_parameters_are_refused_and_the_map_is_taken);
	tcase_add_test(keys, without_a_secret_every_set_draws_its_own);
	tcase_add_loop_test(keys, an_empty_set_says_no, 0, 2);
	tcase_add_loop_test(keys, a_key_inserted_again_is_counted, 0, 2);
	tcase_add_loop_test(keys, deleting_takes_one_count_and_at_last_the_key, 0, 2);
	tcase_add_loop_test(keys, deleting_an_absent_key_takes_no_other, 0, 2);
	tcase_add_test(keys, empty_and_large_keys_are_keys);
	tcase_add_loop_test(keys, a_full_set_refuses_keys_and_stays_as_it_was, 0, 2);
	tcase_add_loop_test(keys, a_count_without_room_stays_as_it_was, 0, 2);
	tcase_add_loop_test(keys, keys_with_equal_halves_of_their_hash_stay_two_keys, 0, 2);
	tcase_add_test(keys, two_keys_with_one_full_hash_stay_two_where_keys_are_kept);
	tcase_add_test(keys, two_keys_with_one_full_hash_are_one_where_only_hashes_are_kept);
	tcase_add_loop_test(learning, a_learned_false_positive_never_comes_back, 0, 2);
	tcase_add_loop_test(learning, every_fingerprint_that_matches_is_fixed, 0, 2);
	tcase_add_loop_test(learning, a_key_of_the_set_is_not_unlearned, 0, 2);
	tcase_add_loop_test(learning, learning_what_is_no_false_positive_changes_nothing, 0, 2);
	tcase_add_test(learning, a_rebuild_is_due_when_room_is_gone_and_gives_it_back);
	tcase_add_test(learning, a_rebuild_is_due_when_something_could_not_be_learned);
	tcase_add_test(learning, a_rebuild_is_due_at_the_share_asked_for);
	tcase_add_test(learning, keys_and_counters_alone_make_no_rebuild_due);
	tcase_add_test(learning, a_rebuild_takes_the_secret_it_is_given);
	tcase_add_test(learning, a_rebuild_restores_the_remainder_that_growing_used_up);
	tcase_add_test(learning, without_keys_there_is_no_rebuild);
	tcase_add_loop_test(learning, a_full_set_that_has_learned_takes_a_key_for_each_that_leaves,
			    0, 2);
	tcase_add_test(learning, a_set_that_rebuilds_itself_always_learns);
	tcase_add_loop_test(whole, growing_and_shrinking_keep_keys_counts_and_what_was_learned, 0,
			    2);
	tcase_add_loop_test(whole, a_set_too_full_to_shrink_stays_as_it_was, 0, 2);
	tcase_add_loop_test(whole, a_merge_adds_keys_and_counts, 0, 2);
	tcase_add_loop_test(whole, what_both_sets_denied_the_merged_one_denies, 0, 2);
	tcase_add_test(whole, merged_sets_go_on_as_sets);
	tcase_add_test(whole, sets_that_do_not_fit_are_not_merged);
	tcase_add_loop_test(faults, a_change_without_memory_changes_nothing, 0, CHANGES);
	tcase_add_loop_test(faults, a_change_that_the_store_refuses_changes_nothing, 0, CHANGES);
	tcase_add_test(faults, creating_without_memory_leaves_nothing_behind);
	tcase_add_loop_test(model, any_operations_agree_with_an_exact_set, 0, 20);
	tcase_add_test(model, readers_find_every_key_while_one_thread_changes_the_set);
	return test_run(suite);
}
