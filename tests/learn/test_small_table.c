/* test_small_table.c - tables of small filters that learn as a whole. */
#include <pthread.h>

#include "base/alloc.h"
#include "tests/support/small_table_host.h"

/* ---- learning ----------------------------------------------------------- */

START_TEST(a_false_positive_is_paid_for_once_and_no_key_is_denied)
{
	struct host host = host_open(kinds[_i]);
	struct table table = table_build(&host, 1, RIGHT);
	struct wn_stats stats;
	uint64_t first;

	first = ask_absent(&host, &table); /* its key list may still wait to be stored */
	ck_assert_uint_gt(first, KEYS / 50);
	ck_assert_uint_eq(ask_absent(&host, &table), 0);
	expect_stored(&host, &table);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.adaptations, first);
	ck_assert_uint_eq(stats.repeated_false_positives + stats.reversemap_misses, 0);
	ck_assert_uint_eq(stats.filters_built, BLOCKS);
	ck_assert_uint_eq(stats.filter_keys, KEYS);
	wn__learn_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.key_lists, 1);
	/* A reader that comes later finds the same. */
	wn__small_reader_close(table.reader);
	ck_assert_int_eq(table_open(&host, &table), 0);
	ck_assert_uint_eq(ask_absent(&host, &table), 0);
	expect_stored(&host, &table);
	/* The table is gone, and one of the same number is built. */
	wn__learn_table_gone(host.learn, 1);
	wn__learn_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.key_lists + stats.lessons, 0);
	expect_stored(&host, &table);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(what_is_missing_is_known_to_the_next_table)
{
	struct host host = host_open(kinds[_i]);
	struct table table = table_build(&host, 1, RIGHT), next;
	struct wn_stats before, after;

	ask_absent(&host, &table);
	renew_missing(&host);
	before = host_stats(&host);
	next = table_build(&host, 2, RIGHT);
	after = host_stats(&host);
	ck_assert_uint_gt(after.carried_over, before.carried_over);
	ck_assert_uint_eq(ask_absent(&host, &next), 0);
	expect_stored(&host, &next);
	ck_assert_uint_eq(host_stats(&host).false_positives, before.false_positives);
	table_free(&table);
	table_free(&next);
	host_close(&host);
}
END_TEST

/* Keys that were missing and are stored now must not be denied. */
START_TEST(keys_that_were_missing_are_found)
{
	struct host host = host_open(kinds[_i]);
	struct table table;

	for (uint64_t i = 0; i < KEYS; i++) {
		char key[KEY_SIZE];

		make_key(2 * i, key);
		wn__missing_note(host.learn->missing, hash_of(&host, 2 * i), key, KEY_SIZE);
	}
	renew_missing(&host);
	table = table_build(&host, 1, RIGHT);
	ck_assert_uint_eq(host_stats(&host).lessons, 0);
	expect_stored(&host, &table);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* A host that loses track of what belongs to the table that it builds. */
START_TEST(a_table_whose_filters_are_not_those_of_its_key_list_learns_nothing)
{
	struct host host = host_open(kinds[_i % 2]);
	struct table table = table_build(&host, 1, 1 + _i / 2), right;
	uint64_t first = ask_absent(&host, &table);

	ck_assert_uint_gt(first, KEYS / 50);
	expect_stored(&host, &table);
	ck_assert_uint_eq(ask_absent(&host, &table), first);
	ck_assert_uint_eq(host_stats(&host).lessons, 0);
	ck_assert_uint_eq(host_stats(&host).reversemap_misses, 2 * first);
	/* Nor when it is told of the missing keys while it is built. */
	table_free(&table);
	renew_missing(&host);
	table = table_build(&host, 2, 1 + _i / 2);
	expect_stored(&host, &table);
	ask_absent(&host, &table);
	expect_stored(&host, &table);
	/* Others are none the worse. */
	right = table_build(&host, 3, RIGHT);
	ask_absent(&host, &right);
	ck_assert_uint_eq(ask_absent(&host, &right), 0);
	expect_stored(&host, &right);
	table_free(&right);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* ---- keys that share a minirun ------------------------------------------ */

/* One filter whose keys are these hashes; missing keys that lie among its own are known. */
static struct table build_crafted(struct host *host, struct wn_hash *hashes, size_t count)
{
	struct wn__small_table *build = wn__small_table_begin(host->learn, &host->world, 1);
	struct wn__small_block block = {hashes, count, {"a", 1}, {"z", 1}};
	struct table table = {0};
	unsigned char *bytes;
	size_t size;

	wn__small_table_add(build, &host->world, &block, &bytes, &size);
	ck_assert_ptr_nonnull(bytes);
	add_filter(&table, 0, bytes, size);
	wn__small_table_end(build);
	wn__small_table_free(build);
	ck_assert_int_eq(table_open(host, &table), 0);
	return table;
}

/* The minirun is the first 40 bits; these differ from the hash in one bit behind them. */
static size_t make_neighbours(struct wn_hash hash, struct wn_hash *hashes)
{
	static const unsigned bits[] = {0, 1, 23, 64, 65, 100, 127};
	size_t count = sizeof(bits) / sizeof(bits[0]);

	for (size_t i = 0; i < count; i++) {
		hashes[i] = hash;
		if (bits[i] < 64)
			hashes[i].hi ^= UINT64_C(1) << bits[i];
		else
			hashes[i].lo ^= UINT64_C(1) << (bits[i] - 64);
	}
	return count;
}

START_TEST(a_missing_key_is_told_from_the_stored_keys_of_its_minirun)
{
	/* Kinds without memory of missing keys: all are left to the lessons. */
	struct host host = host_open(kinds[0]);
	struct wn_hash hash = wn__hash_key(host.secret, "missing", 7), hashes[8], kept[8];
	size_t count = make_neighbours(hash, hashes);
	struct table table;

	memcpy(kept, hashes, sizeof(kept));
	wn__missing_note(host.learn->missing, hash, "missing", 7);
	renew_missing(&host);
	table = build_crafted(&host, hashes, count);
	ck_assert_uint_eq(host_stats(&host).lessons, count + 1); /* and how many they are */
	ck_assert(!table_asks(&host, &table, 0, hash));
	for (size_t i = 0; i < count; i++)
		ck_assert(table_asks(&host, &table, 0, kept[i]));
	table_free(&table);
	host_close(&host);
}
END_TEST

/* It is stored itself, beside those that are like it. */
START_TEST(a_stored_key_is_not_denied_for_its_neighbours)
{
	struct host host = host_open(kinds[0]);
	struct wn_hash hash = wn__hash_key(host.secret, "missing", 7), hashes[9], kept[9];
	size_t count = make_neighbours(hash, hashes);
	struct table table;

	hashes[count++] = hash;
	memcpy(kept, hashes, sizeof(kept));
	wn__missing_note(host.learn->missing, hash, "missing", 7);
	renew_missing(&host);
	table = build_crafted(&host, hashes, count);
	ck_assert_uint_eq(host_stats(&host).lessons, 0);
	for (size_t i = 0; i < count; i++)
		ck_assert(table_asks(&host, &table, 0, kept[i]));
	table_free(&table);
	host_close(&host);
}
END_TEST

/* A lookup of a hash; true: "maybe", and it was wrong. */
static bool ask_hash(struct host *host, const struct table *table, struct wn_hash hash)
{
	struct wn__lookup lookup;
	bool maybe;

	wn__lookup_begin(&lookup, host->learn->registry, host->secret, NULL, 0);
	maybe = table_asks(host, table, 0, hash);
	wn__lookup_end(&lookup, host->learn, false, false);
	return maybe;
}

/* The key list has the upper half of each hash, and not enough of what could tell these apart:
 * they stay. */
START_TEST(a_query_is_told_from_the_keys_of_its_minirun_or_stays)
{
	struct host host = host_open(kinds[0]);
	struct wn_hash hash = wn__hash_key(host.secret, "missing", 7), hashes[8], kept[8];
	size_t count = make_neighbours(hash, hashes);
	struct table table;

	memcpy(kept, hashes, sizeof(kept));
	table = build_crafted(&host, hashes, count);
	wn__learn_drain(host.learn);
	ck_assert(ask_hash(&host, &table, hash));
	ck_assert_uint_eq(host_stats(&host).unfixable, 1);
	ck_assert_uint_eq(host_stats(&host).lessons, 0);
	/* Every stored one is reported, wrongly. */
	for (size_t i = 0; i < count; i++)
		ck_assert(ask_hash(&host, &table, kept[i]));
	for (size_t i = 0; i < count; i++)
		ck_assert(table_asks(&host, &table, 0, kept[i]));
	table_free(&table);
	host_close(&host);
}
END_TEST

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static const struct wn__map_ops *real_ops;

static int wait_and_put(struct wn__map *map, const struct wn__keylist *list,
			const uint64_t *uppers)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return real_ops->put(map, list, uppers);
}

/* While the list waits no more is known than when it is stored, and no less: none of its keys
 * may be missing there. */
START_TEST(keys_of_a_minirun_stay_while_their_list_waits)
{
	struct host host = host_open(kinds[0]);
	struct wn_hash hash = wn__hash_key(host.secret, "missing", 7), hashes[8], kept[8];
	size_t count = make_neighbours(hash, hashes);
	struct wn__map_ops ops;
	struct table table;

	real_ops = host.learn->map->ops;
	ops = *real_ops;
	ops.put = wait_and_put;
	host.learn->map->ops = &ops;
	pthread_mutex_lock(&gate);
	memcpy(kept, hashes, sizeof(kept));
	table = build_crafted(&host, hashes, count);
	/* Every stored one is reported, wrongly. */
	for (size_t i = 0; i < count; i++)
		ck_assert(ask_hash(&host, &table, kept[i]));
	ck_assert_uint_eq(host_stats(&host).unfixable, count);
	ck_assert(ask_hash(&host, &table, hash));
	ck_assert_uint_eq(host_stats(&host).unfixable, count + 1);
	ck_assert_uint_eq(host_stats(&host).adaptations, 0);
	ck_assert_uint_eq(host_stats(&host).lessons, 0);
	ck_assert(ask_hash(&host, &table, hash));
	for (size_t i = 0; i < count; i++)
		ck_assert(ask_hash(&host, &table, kept[i]));
	pthread_mutex_unlock(&gate);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* ---- no memory ---------------------------------------------------------- */

/* Build, open and ask, with the nth allocation refused; true if there was none. The worker's are
 * among them. */
static bool try_everything(struct host *host, uint64_t nth)
{
	struct table table = {0};
	struct wn__small_table *build;
	bool done;

	wn__alloc_fail_at(nth);
	build = wn__small_table_begin(host->learn, &host->world, nth);
	build_blocks(host, build, &table, RIGHT);
	wn__small_table_free(build);
	if (table_open(host, &table) != 0)
		ck_assert_ptr_null(table.reader);
	ask_absent(host, &table);
	expect_stored(host, &table);
	wn__learn_drain(host->learn);
	ask_absent(host, &table);
	done = wn__alloc_calls() < nth;
	wn__alloc_fail_at(0);
	expect_stored(host, &table);
	table_free(&table);
	wn__learn_table_gone(host->learn, nth);
	return done;
}

START_TEST(every_allocation_may_fail)
{
	struct host host = host_open(kinds[_i]);
	uint64_t nth = 1;

	while (!try_everything(&host, nth)) {
		nth += test_is_quick() ? 7 : 1;
		renew_missing(&host);
	}
	fprintf(stderr, "%" PRIu64 " allocations\n", nth);
	ck_assert_uint_gt(nth, 2 * BLOCKS);
	host_close(&host);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("small_table");
	TCase *tests = tcase_create("small_table");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, a_false_positive_is_paid_for_once_and_no_key_is_denied, 0, 2);
	tcase_add_loop_test(tests, what_is_missing_is_known_to_the_next_table, 0, 2);
	tcase_add_loop_test(tests, keys_that_were_missing_are_found, 0, 2);
	tcase_add_loop_test(
		tests, a_table_whose_filters_are_not_those_of_its_key_list_learns_nothing, 0,
		2 * (MISTAKES - 1));
	tcase_add_test(tests, a_missing_key_is_told_from_the_stored_keys_of_its_minirun);
	tcase_add_test(tests, a_stored_key_is_not_denied_for_its_neighbours);
	tcase_add_test(tests, a_query_is_told_from_the_keys_of_its_minirun_or_stays);
	tcase_add_test(tests, keys_of_a_minirun_stay_while_their_list_waits);
	tcase_add_loop_test(tests, every_allocation_may_fail, 0, 2);
	return test_run(suite);
}
