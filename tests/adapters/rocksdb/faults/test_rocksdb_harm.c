/* test_rocksdb_harm.c - what winnow must not do to the program around it: make lookups wait for
 * its disk, stay in memory when its database is closed, and touch what another database has. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <malloc.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "tests/support/rocksdb_learner.h"

/* ---- a slow disk -------------------------------------------------------- */

/* While this is set, a sync of one of winnow's files does not come back. */
static atomic_bool disk_is_stuck;
static atomic_uint stuck_syncs;

static bool is_winnows(int fd)
{
	char link[64], path[8192];
	ssize_t size;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, path, sizeof(path) - 1);
	if (size < 0)
		return false;
	path[size] = '\0';
	return strstr(path, ".winnow");
}

static int sync_when_free(int fd, long call)
{
	if (is_winnows(fd) && atomic_load(&disk_is_stuck)) {
		atomic_fetch_add(&stuck_syncs, 1);
		while (atomic_load(&disk_is_stuck))
			usleep(1000);
	}
	return (int)syscall(call, fd);
}

/* In place of the C library's, for the whole program. */
int fsync(int fd)
{
	return sync_when_free(fd, SYS_fsync);
}

int fdatasync(int fd)
{
	return sync_when_free(fd, SYS_fdatasync);
}

static void wait_until_stuck(void)
{
	while (atomic_load(&stuck_syncs) == 0)
		usleep(1000);
}

/* If one of them waits for the sync, this waits for ever, and Check ends it. */
START_TEST(nobody_waits_for_a_sync)
{
	static const struct db_setup setup = {.name = "slow_disk", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct wn_stats stats;
	struct learner learner;
	char *text;

	options.filter = "aqf:remainder_bits=2";
	options.save_ms = 1;
	learner = learner_fill(&setup, &options);
	atomic_store(&disk_is_stuck, true);
	for (uint64_t i = 0; i < 200; i++)
		expect(ask(&learner, 2 * i + 1) == 0);
	wait_until_stuck();
	/* More than it takes until the block cache is told. */
	for (uint64_t number = 401; number < numbers(); number += 2) {
		expect(ask(&learner, number) == 0);
		expect(ask(&learner, number + 1) == (number + 1 < numbers() ? number + 1 : 0));
		if (number % 100 == 1)
			stats = learner_stats(&learner);
	}
	ck_assert_uint_gt(stats.adaptations, 3000);
	text = wn_rocksdb_property(learner.wn, "winnow.stats");
	ck_assert_ptr_nonnull(text);
	free(text);
	atomic_store(&disk_is_stuck, false);
	ck_assert_int_eq(wn_rocksdb_sync(learner.wn), 0);
	learner_close(&learner);
}
END_TEST

/* ---- lookups that may not read ------------------------------------------ */

START_TEST(a_lookup_that_may_not_read_does_not_read_to_learn)
{
	static const struct db_setup setup = {.name = "tier", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	struct wn_stats before, after;

	/* Blocks of all false positives are in the cache then, and nothing is learned. */
	for (uint64_t i = 0; i < absent_count(); i++)
		expect(!db_has(&learner.db, absent(i)));
	before = learner_stats(&learner);
	rocksdb_readoptions_set_read_tier(learner.db.reading, 1);
	ask_absent(&learner);
	after = learner_stats(&learner);
	ck_assert_uint_eq(after.reversemap_reads, before.reversemap_reads);
	ck_assert_uint_eq(after.lookups_discarded, after.lookups);
	rocksdb_readoptions_set_read_tier(learner.db.reading, 0);
	ck_assert_uint_gt(ask_absent(&learner), 0);
	ck_assert_uint_eq(ask_absent(&learner), 0);
	learner_close(&learner);
}
END_TEST

/* ---- closed databases --------------------------------------------------- */

struct footprint {
	size_t bytes, threads, descriptors;
};

static struct footprint measure(void)
{
	struct mallinfo2 info = mallinfo2();

	return (struct footprint){
		.bytes = info.uordblks + info.hblkhd,
		.threads = count_entries("/proc/self/task"),
		.descriptors = count_entries("/proc/self/fd"),
	};
}

/* As measure. A thread that was joined may stand in /proc for a moment longer: wait for it. One
 * that leaks stays, and there would be one a cycle. */
static struct footprint measure_settled(const struct footprint *before)
{
	struct footprint now = measure();

	for (int i = 0; i < 60000 && now.threads > before->threads; i++) {
		usleep(1000);
		now = measure();
	}
	return now;
}

/* Readers of a closed database lie on in a cache that others use. */
START_TEST(a_closed_database_leaves_the_memory)
{
	struct db_setup setups[] = {
		{.name = "first", .cached_filters = true, .no_compaction = true},
		{.name = "second", .cached_filters = true, .no_compaction = true},
	};
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(8 << 20);
	struct wn_rocksdb_options options = quickly();
	const unsigned cycles = test_is_quick() ? 100 : 1000;
	struct footprint before = {0}, after;

	for (int i = 0; i < 2; i++) {
		struct learner learner;

		setups[i].cache = cache;
		learner = learner_fill(&setups[i], &options);
		ask_absent(&learner);
		learner_close(&learner);
	}
	for (unsigned cycle = 0; cycle < cycles; cycle++) {
		for (int i = 0; i < 2; i++) {
			struct learner learner = learner_open(&setups[i], &options);

			for (uint64_t at = 0; at < 20; at++)
				expect(ask(&learner, absent(at)) == 0);
			learner_close(&learner);
		}
		/* Until then the cache fills, and what the libraries keep for themselves. */
		if (cycle == cycles / 4)
			before = measure();
	}
	after = measure_settled(&before);
	fprintf(stderr, "%u cycles: %zu to %zu bytes, %zu threads, %zu descriptors\n", 2 * cycles,
		before.bytes, after.bytes, after.threads, after.descriptors);
	ck_assert_uint_lt(after.bytes, before.bytes + (1 << 20));
	ck_assert_uint_le(after.threads, before.threads);
	ck_assert_uint_le(after.descriptors, before.descriptors);
	rocksdb_cache_destroy(cache);
}
END_TEST

/* As many databases as there are cycles: nothing of theirs is shared. */
START_TEST(a_reader_keeps_little_of_its_database)
{
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(8 << 20);
	struct wn_rocksdb_options options = quickly();
	const unsigned databases = test_is_quick() ? 40 : 160;
	rocksdb_options_t *rocks = rocksdb_options_create();
	struct footprint before = {0}, after;

	options.store = WN_ROCKSDB_MEMORY;
	for (unsigned i = 0; i < databases; i++) {
		char name[32];
		struct db_setup setup = {.name = name, .cached_filters = true, .cache = cache};
		struct learner learner;
		char *error = NULL;

		snprintf(name, sizeof(name), "many%u", i);
		learner = learner_open(&setup, &options);
		db_put(&learner.db, 0, 2000);
		db_flush(&learner.db);
		for (uint64_t at = 0; at < 20; at++)
			expect(ask(&learner, 2 * at + 1) == 0);
		learner_close(&learner);
		rocksdb_destroy_db(rocks, test_path(name), &error);
		expect_no(error);
		if (i == databases / 4)
			before = measure();
	}
	after = measure();
	fprintf(stderr, "%u databases: %zu to %zu bytes, %zu in the cache\n", databases,
		before.bytes, after.bytes, rocksdb_cache_get_usage(cache));
	/* The filters themselves, and some kilobytes for each. */
	ck_assert_uint_lt(after.bytes, before.bytes + databases * (size_t)(32 << 10));
	rocksdb_options_destroy(rocks);
	rocksdb_cache_destroy(cache);
}
END_TEST

START_TEST(options_that_are_prepared_again_do_not_grow)
{
	rocksdb_options_t *rocks = rocksdb_options_create();
	struct footprint before = {0}, after;

	for (unsigned i = 0; i < 400; i++) {
		struct wn_rocksdb *wn;
		char *error = NULL;

		wn_rocksdb_create(test_path("prepared"), NULL, &wn, &error);
		expect_no(error);
		wn_rocksdb_prepare(wn, rocks, &error);
		expect_no(error);
		wn_rocksdb_detach(wn);
		if (i == 100)
			before = measure();
	}
	after = measure();
	fprintf(stderr, "%zu to %zu bytes\n", before.bytes, after.bytes);
	ck_assert_uint_lt(after.bytes, before.bytes + (256 << 10));
	rocksdb_options_destroy(rocks);
}
END_TEST

/* ---- other databases ---------------------------------------------------- */

static void compact_twice(rocksdb_t *rocks)
{
	struct db db = {.rocks = rocks};

	for (int round = 0; round < 2; round++) {
		db_put(&db, 0, numbers());
		db_flush(&db);
		db_compact(&db);
	}
}

/* Options prepared for one database, with which two are opened (0); or for one after the other,
 * and each then opened (1). */
START_TEST(a_database_does_not_retire_anothers_tables)
{
	static const struct db_setup setup = {.no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner first = {.db.options = rocksdb_options_create()};
	struct wn_rocksdb *second = NULL;
	struct wn_stats before, after;
	rocksdb_t *other;
	char *error = NULL;

	options.store = WN_ROCKSDB_SIDECAR;
	db_set_options(&first.db, &setup);
	first.db.reading = rocksdb_readoptions_create();
	wn_rocksdb_create(test_path("own"), &options, &first.wn, &error);
	wn_rocksdb_prepare(first.wn, first.db.options, &error);
	first.db.rocks = rocksdb_open(first.db.options, test_path("own"), &error);
	wn_rocksdb_attach(first.wn, first.db.rocks, NULL, &error);
	expect_no(error);
	db_put(&first.db, 0, numbers());
	db_flush(&first.db);
	wn_rocksdb_drain(first.wn);
	ck_assert_uint_gt(ask_absent(&first), 0);
	before = learner_stats(&first);
	ck_assert_uint_gt(before.key_lists, 0);
	if (_i) {
		wn_rocksdb_create(test_path("other"), &options, &second, &error);
		wn_rocksdb_prepare(second, first.db.options, &error);
	}
	other = rocksdb_open(first.db.options, test_path("other"), &error);
	if (_i)
		wn_rocksdb_attach(second, other, NULL, &error);
	expect_no(error);
	compact_twice(other);
	wn_rocksdb_drain(first.wn);
	after = learner_stats(&first);
	/* Neither taken away nor added. */
	ck_assert_uint_eq(after.key_lists, before.key_lists);
	ck_assert_uint_eq(after.lessons, before.lessons);
	ck_assert_uint_eq(after.key_lists_dropped, before.key_lists_dropped);
	ck_assert_uint_eq(ask_absent(&first), 0);
	expect_stored(&first);
	if (_i)
		wn_rocksdb_detach(second);
	rocksdb_close(other);
	wn_rocksdb_detach(first.wn);
	rocksdb_close(first.db.rocks);
	rocksdb_readoptions_destroy(first.db.reading);
	rocksdb_options_destroy(first.db.options);
}
END_TEST

/* ---- tables that are not the database's --------------------------------- */

START_TEST(tables_of_a_writer_leave_no_runs)
{
	struct db_setup setup = {.name = "writer", .no_compaction = true};
	struct wn_rocksdb_options options = quickly();
	struct learner learner = learner_fill(&setup, &options);
	rocksdb_options_t *rocks = rocksdb_options_create();
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	uint64_t map = learner_stats(&learner).key_lists;
	char *path = strdup(test_path("written.sst")), *error = NULL;

	wn_rocksdb_prepare(learner.wn, rocks, &error);
	expect_no(error);
	for (unsigned i = 0; i < 20; i++) {
		rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env, rocks);

		rocksdb_sstfilewriter_open(writer, path, &error);
		rocksdb_sstfilewriter_put(writer, "key", 3, "value", 5, &error);
		rocksdb_sstfilewriter_finish(writer, &error);
		expect_no(error);
		rocksdb_sstfilewriter_destroy(writer);
		ck_assert_int_eq(unlink(path), 0);
	}
	wn_rocksdb_drain(learner.wn);
	ck_assert_uint_eq(learner_stats(&learner).key_lists, map);
	learner_close(&learner);
	rocksdb_envoptions_destroy(env);
	rocksdb_options_destroy(rocks);
	free(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_harm");
	TCase *tcase = tcase_create("harm");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, nobody_waits_for_a_sync);
	tcase_add_test(tcase, a_lookup_that_may_not_read_does_not_read_to_learn);
	tcase_add_test(tcase, a_closed_database_leaves_the_memory);
	tcase_add_test(tcase, a_reader_keeps_little_of_its_database);
	tcase_add_test(tcase, options_that_are_prepared_again_do_not_grow);
	tcase_add_loop_test(tcase, a_database_does_not_retire_anothers_tables, 0, 2);
	tcase_add_test(tcase, tables_of_a_writer_leave_no_runs);
	result = test_run(suite);
	test_remove_top();
	return result;
}
