/* test_rocksdb_learning.c - filters that learn in real RocksDB databases. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/rocksdb_learner.h"

/* ---- learning ----------------------------------------------------------- */

static const struct {
	struct db_setup setup;
	bool many, worker;
	enum wn_rocksdb_store store;
	size_t cache; /* bytes; 0: RocksDB's default */
} kinds[] = {
	{.setup = {.name = "at_once", .no_compaction = true}, .many = true},
	{.setup = {.name = "worker", .no_compaction = true}, .many = true, .worker = true},
	{.setup = {.name = "sidecar", .no_compaction = true}, .store = WN_ROCKSDB_SIDECAR},
	{.setup = {.name = "memory", .no_compaction = true}, .store = WN_ROCKSDB_MEMORY},
	{.setup = {.name = "levels"}, .worker = true},
	{.setup = {.name = "evicted", .no_compaction = true, .partitioned = true,
		   .cached_filters = true}, .cache = 1 << 20},
};

START_TEST(a_false_positive_is_paid_for_once)
{
	struct db_setup setup = kinds[_i].setup;
	struct wn_rocksdb_options options = quickly();
	struct wn_stats stats;
	struct learner learner;
	uint64_t first;

	many = kinds[_i].many;
	if (kinds[_i].cache)
		setup.cache = rocksdb_cache_create_lru(kinds[_i].cache);
	options.background = kinds[_i].worker;
	options.store = kinds[_i].store;
	learner = learner_fill(&setup, &options);
	if (!setup.no_compaction)
		stop_compactions(&learner);
	first = ask_absent(&learner);
	ck_assert_uint_gt(first, absent_count() / 100);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	stats = learner_stats(&learner);
	ck_assert_uint_eq(stats.lookups, 3 * absent_count());
	ck_assert_uint_eq(stats.adaptations, first);
	ck_assert_uint_gt(stats.lessons, 0);
	ck_assert_uint_eq(stats.unfixable + stats.reversemap_misses + stats.queue_drops, 0);
	/* A table that is compacted before its key list was stored takes that along. */
	ck_assert_uint_eq(stats.key_lists_lost, 0);
	if (setup.no_compaction)
		ck_assert_uint_eq(stats.key_lists_stored, stats.filters_built);
	else
		ck_assert_uint_le(stats.key_lists_stored, stats.filters_built);
	expect_stored(&learner);
	learner_close(&learner);
	if (setup.cache)
		rocksdb_cache_destroy(setup.cache);
}
END_TEST

START_TEST(what_was_learned_is_there_after_reopening)
{
	static const struct db_setup setup = {.name = "reopened", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);

	ck_assert_uint_gt(ask_absent(&learner), 0);
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

/* Is the absent number a false positive of some table? */
static bool is_mistaken(struct learner *learner, uint64_t number)
{
	uint64_t before = learner_stats(learner).false_positives;

	expect(ask(learner, number) == 0);
	return learner_stats(learner).false_positives > before;
}

START_TEST(a_known_false_positive_does_not_come_back_with_a_new_table)
{
	static const struct db_setup setup = {.name = "carried", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	bool *mistaken = calloc(absent_count(), sizeof(*mistaken));
	uint64_t known = 0, again = 0;

	ck_assert_ptr_nonnull(mistaken);
	for (uint64_t i = 0; i < absent_count(); i++)
		known += mistaken[i] = is_mistaken(&learner, absent(i));
	ck_assert_uint_gt(known, absent_count() / 100);
	db_compact(&learner.db);
	wn_rocksdb_drain(learner.wn);
	ck_assert_uint_gt(learner_stats(&learner).carried_over, 0);
	for (uint64_t i = 0; i < absent_count(); i++)
		again += mistaken[i] && is_mistaken(&learner, absent(i));
	ck_assert_uint_eq(again, 0);
	expect_stored(&learner);
	learner_close(&learner);
	free(mistaken);
}
END_TEST

static uint64_t ask_family(struct learner *learner, rocksdb_column_family_handle_t *family)
{
	uint64_t before = learner_stats(learner).false_positives;
	char key[DB_KEY_SIZE];
	char *error = NULL;
	size_t size;

	for (uint64_t number = 0; number < numbers(); number++) {
		char *value;

		db_key(number, key);
		value = wn_rocksdb_get_cf(learner->wn, learner->db.reading, family, key,
					  sizeof(key), &size, &error);
		expect_no(error);
		expect((value != NULL) == (number % 2 == 0));
		rocksdb_free(value);
	}
	return learner_stats(learner).false_positives - before;
}

static void fill_family(struct learner *learner, rocksdb_column_family_handle_t *family)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char key[DB_KEY_SIZE];
	char *error = NULL;

	for (uint64_t number = 0; number < numbers(); number += 2) {
		db_key(number, key);
		rocksdb_put_cf(learner->db.rocks, writing, family, key, sizeof(key), "x", 1,
			       &error);
		expect_no(error);
	}
	rocksdb_flush_cf(learner->db.rocks, flushing, family, &error);
	expect_no(error);
	wn_rocksdb_drain(learner->wn);
	rocksdb_flushoptions_destroy(flushing);
	rocksdb_writeoptions_destroy(writing);
}

START_TEST(every_column_family_learns)
{
	static const struct db_setup setup = {.name = "families", .no_compaction = true};
	static const char *const names[] = {"default", "other"};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = {.db.options = rocksdb_options_create()};
	const rocksdb_options_t *family_options[] = {learner.db.options, learner.db.options};
	rocksdb_column_family_handle_t *families[2];
	char *error = NULL;

	db_set_options(&learner.db, &setup);
	rocksdb_options_set_create_missing_column_families(learner.db.options, 1);
	learner.db.reading = rocksdb_readoptions_create();
	learner.db.rocks = wn_rocksdb_open_column_families(
		learner.db.options, test_path(setup.name), 2, names, family_options, families,
		&options, &learner.wn, &error);
	expect_no(error);
	for (unsigned i = 0; i < 2; i++) {
		fill_family(&learner, families[i]);
		ck_assert_uint_gt(ask_family(&learner, families[i]), 100);
		ck_assert_uint_eq(ask_family(&learner, families[i]), 0);
		rocksdb_column_family_handle_destroy(families[i]);
	}
	learner_close(&learner);
}
END_TEST

/* ---- wrong confirmations ------------------------------------------------ */

enum { WAS_DELETED, WAS_OVERWRITTEN, WAS_MERGED, WAS_KEPT };

static int fate(uint64_t number)
{
	return (int)(number / 2 % 4);
}

static void change(struct learner *learner, uint64_t number)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	uint64_t more = 7, new = number + 1;
	char key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(number, key);
	if (fate(number) == WAS_DELETED)
		rocksdb_delete(learner->db.rocks, writing, key, sizeof(key), &error);
	else if (fate(number) == WAS_OVERWRITTEN)
		rocksdb_put(learner->db.rocks, writing, key, sizeof(key), (char *)&new,
			    sizeof(new), &error);
	else if (fate(number) == WAS_MERGED)
		rocksdb_merge(learner->db.rocks, writing, key, sizeof(key), (char *)&more,
			      sizeof(more), &error);
	expect_no(error);
	rocksdb_writeoptions_destroy(writing);
}

static uint64_t changed_value(uint64_t number)
{
	static const int64_t difference[] = {0, 1, 7, 0};

	return fate(number) == WAS_DELETED ? 0 : number + (uint64_t)difference[fate(number)];
}

#define CHANGED 8000

static void expect_changed(struct learner *learner)
{
	for (uint64_t number = 2; number < CHANGED; number += 2)
		expect(ask(learner, number) == changed_value(number));
}

START_TEST(wrong_confirmations_hide_no_key)
{
	static const struct db_setup setup = {.name = "changed", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(learner.db.rocks);

	ask_absent(&learner);
	for (uint64_t number = 2; number < CHANGED; number += 2)
		change(&learner, number);
	expect_changed(&learner);
	db_flush(&learner.db);
	for (int round = 0; round < 3; round++) {
		expect_changed(&learner);
		rocksdb_readoptions_set_snapshot(learner.db.reading, snapshot);
		expect_stored(&learner);
		rocksdb_readoptions_set_snapshot(learner.db.reading, NULL);
		if (round == 1)
			db_compact(&learner.db);
	}
	ck_assert_uint_gt(learner_stats(&learner).unfixable, 0);
	rocksdb_release_snapshot(learner.db.rocks, snapshot);
	db_compact(&learner.db);
	expect_changed(&learner);
	learner_close(&learner);
}
END_TEST

/* ---- at the same time --------------------------------------------------- */

struct asker {
	pthread_t thread;
	struct learner *learner;
	uint64_t seed;
	atomic_bool *stop;
	uint64_t wrong;
};

static void *ask_until_stopped(void *given)
{
	struct asker *asker = given;

	/* However slow the machine is, each has asked often enough to have been wrong. */
	for (unsigned asked = 0; asked < 2000 || !atomic_load(asker->stop); asked++) {
		uint64_t number = test_random(&asker->seed) % numbers();
		uint64_t found;

		if (number < 2)
			continue;
		found = ask(asker->learner, number);
		asker->wrong += found != (number % 2 ? 0 : number);
	}
	return NULL;
}

START_TEST(readers_flushes_and_compactions_do_not_disturb_each_other)
{
	struct db_setup setup = {.name = _i ? "threads" : "threads_at_once"};
	struct wn_rocksdb_options options = {.filter = SHORT, .background = _i};
	struct learner learner = learner_fill(&setup, &options);
	uint64_t seed = test_seed("threads", 4711);
	atomic_bool stop = false;
	struct asker askers[2];

	for (unsigned i = 0; i < 2; i++) {
		askers[i] = (struct asker){.learner = &learner, .seed = seed + i, .stop = &stop};
		ck_assert_int_eq(pthread_create(&askers[i].thread, NULL, ask_until_stopped,
						&askers[i]), 0);
	}
	for (int round = 0; round < 3; round++) {
		db_put(&learner.db, 0, numbers());
		db_flush(&learner.db);
		db_compact(&learner.db);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(askers[i].thread, NULL);
		ck_assert_uint_eq(askers[i].wrong, 0);
	}
	wn_rocksdb_drain(learner.wn);
	ck_assert_uint_gt(learner_stats(&learner).adaptations, 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

static void *spin_until_stopped(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		;
	return NULL;
}

/* All threads ask for the same absent numbers, each in an order of its own. */
static void *ask_absent_at_random(void *given)
{
	struct asker *asker = given;

	for (uint64_t i = 0; i < 4 * absent_count(); i++) {
		uint64_t number = absent(test_random(&asker->seed) % absent_count());

		asker->wrong += ask(asker->learner, number) != 0;
	}
	return NULL;
}

/* The machine has more to do than processors to do it, and the key lists of all tables are still on
 * their way to the store. */
START_TEST(nobody_pays_twice_on_a_busy_machine)
{
	struct db_setup setup = {.name = "busy", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	uint64_t seed = test_seed("busy", 815);
	atomic_bool stop = false;
	pthread_t spinners[4];
	struct asker askers[4];
	struct wn_stats stats;
	struct learner learner;

	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&spinners[i], NULL, spin_until_stopped, &stop), 0);
	options.store = _i ? WN_ROCKSDB_SIDECAR : WN_ROCKSDB_COLUMN_FAMILY;
	learner = learner_open(&setup, &options);
	db_put(&learner.db, 0, numbers());
	db_flush(&learner.db);
	for (unsigned i = 0; i < 4; i++) {
		askers[i] = (struct asker){.learner = &learner, .seed = seed + i};
		ck_assert_int_eq(pthread_create(&askers[i].thread, NULL, ask_absent_at_random,
						&askers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(askers[i].thread, NULL);
		ck_assert_uint_eq(askers[i].wrong, 0);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(spinners[i], NULL);
	stats = learner_stats(&learner);
	ck_assert_uint_gt(stats.false_positives, absent_count() / 100);
	ck_assert_uint_eq(stats.repeated_false_positives, 0);
	ck_assert_uint_eq(stats.reversemap_misses + stats.unfixable, 0);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

START_TEST(a_full_queue_drops_and_closing_does_not_mind)
{
	static const struct db_setup setup = {.name = "full_queue", .no_compaction = true};
	struct wn_rocksdb_options options = {.filter = SHORT, .background = true,
					     .queue_length = 1};
	struct learner learner = learner_fill(&setup, &options);

	/* Often two tables are wrong about a number, and the worker would have to be done
	 * with the one before the other is reported: sooner or later it is not. */
	for (uint64_t i = 1; i < 100000000 && learner_stats(&learner).queue_drops == 0; i += 2)
		expect(ask(&learner, i % 2000000 + numbers()) == 0);
	ck_assert_uint_gt(learner_stats(&learner).queue_drops, 0);
	/* Its last flush is made while it closes. */
	db_put(&learner.db, 0, numbers());
	learner_close(&learner);
	learner = learner_open(&setup, &options);
	expect_stored(&learner);
	learner_close(&learner);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_learning");
	TCase *tcase = tcase_create("learning");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, a_false_positive_is_paid_for_once, 0,
			    sizeof(kinds) / sizeof(kinds[0]));
	tcase_add_test(tcase, what_was_learned_is_there_after_reopening);
	tcase_add_test(tcase, a_known_false_positive_does_not_come_back_with_a_new_table);
	tcase_add_test(tcase, every_column_family_learns);
	tcase_add_test(tcase, wrong_confirmations_hide_no_key);
	tcase_add_loop_test(tcase, readers_flushes_and_compactions_do_not_disturb_each_other, 0, 2);
	tcase_add_loop_test(tcase, nobody_pays_twice_on_a_busy_machine, 0, 2);
	tcase_add_test(tcase, a_full_queue_drops_and_closing_does_not_mind);
	result = test_run(suite);
	test_remove_top();
	return result;
}
