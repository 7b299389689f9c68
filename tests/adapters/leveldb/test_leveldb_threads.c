/* Readers that learn, while tables are made, compacted away, and put out of a table cache that is
 * too small for them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/leveldb_db.h"

enum {
	READERS = 4,
	VALUE = 4096,  /* about 250 keys in a table of 1 MB, the least that LevelDB makes */
	TABLES = 90,   /* when all is compacted; the least table cache has 64 */
	KEYS = 250 * TABLES,
	BLOCK = 65536, /* 16 keys to a filter */
	CHURN = KEYS / 10,
};

struct shared {
	struct db *db;
	atomic_uint_fast64_t versions[KEYS]; /* that may be found; put before they are written */
	atomic_uint_fast64_t floors[KEYS];   /* and at least this one; put after */
	atomic_bool done;
};

/* Stored keys have even numbers. */
static void put_version(struct shared *shared, unsigned i, uint64_t version)
{
	char key[DB_KEY_SIZE], *error = NULL;
	static char value[VALUE];
	uint64_t words[] = {2 * (uint64_t)i, version};

	db_key(words[0], key);
	memcpy(value, words, sizeof(words));
	atomic_store(&shared->versions[i], version);
	leveldb_put(shared->db->level, shared->db->writing, key, sizeof(key), value, sizeof(value),
		    &error);
	expect_no(error);
	atomic_store(&shared->floors[i], version);
}

static void expect_version(struct shared *shared, leveldb_readoptions_t *reading, unsigned i)
{
	uint64_t least = atomic_load(&shared->floors[i]), words[2];
	char key[DB_KEY_SIZE], *error = NULL, *value;
	size_t size;

	db_key(2 * (uint64_t)i, key);
	value = wn_leveldb_get(shared->db->wn, reading, key, sizeof(key), &size, &error);
	expect_no(error);
	expect(value);
	expect(size == VALUE);
	memcpy(words, value, sizeof(words));
	leveldb_free(value);
	expect(words[0] == 2 * (uint64_t)i);
	expect(words[1] >= least && words[1] <= atomic_load(&shared->versions[i]));
}

static void expect_absent(struct shared *shared, leveldb_readoptions_t *reading, uint64_t number)
{
	char key[DB_KEY_SIZE], *error = NULL;
	size_t size;

	db_key(number | 1, key);
	expect(!wn_leveldb_get(shared->db->wn, reading, key, sizeof(key), &size, &error));
	expect_no(error);
}

struct reader {
	struct shared *shared;
	uint64_t random;
	pthread_t thread;
};

static void *read_all_the_time(void *given)
{
	struct reader *reader = given;
	leveldb_readoptions_t *reading = leveldb_readoptions_create();

	/* Few enough missing keys to be asked for again. */
	while (!atomic_load(&reader->shared->done)) {
		uint64_t random = test_random(&reader->random);

		if (random % 3 == 0)
			expect_version(reader->shared, reading, (unsigned)(random / 3 % KEYS));
		else
			expect_absent(reader->shared, reading, random / 3 % (2 * KEYS));
	}
	leveldb_readoptions_destroy(reading);
	return NULL;
}

static void compact_around(struct db *db, unsigned i)
{
	char key[DB_KEY_SIZE];

	db_key(2 * (uint64_t)i, key);
	if (i % 2)
		leveldb_compact_range(db->level, key, sizeof(key), NULL, 0);
	else
		leveldb_compact_range(db->level, NULL, 0, key, sizeof(key));
}

static void write_rounds(struct shared *shared, unsigned rounds, uint64_t *random)
{
	for (unsigned round = 1; round <= rounds; round++) {
		unsigned first = (unsigned)(test_random(random) % (KEYS - CHURN));
		struct wn_stats stats;

		for (unsigned i = 0; i < CHURN; i++)
			put_version(shared, first + i, round);
		compact_around(shared->db, (unsigned)(test_random(random) % KEYS));
		wn_leveldb_drain(shared->db->wn);
		wn_leveldb_stats(shared->db->wn, &stats);
		expect(stats.false_positives <= stats.positives);
	}
}

static struct db open_small_cache(const char *name)
{
	struct wn_leveldb_options given = {.filter = "aqf:remainder_bits=2"};
	struct db db = {.options = leveldb_options_create()};

	leveldb_options_set_create_if_missing(db.options, 1);
	leveldb_options_set_compression(db.options, leveldb_no_compression);
	leveldb_options_set_write_buffer_size(db.options, 1 << 20);
	leveldb_options_set_max_file_size(db.options, 1 << 20);
	leveldb_options_set_block_size(db.options, BLOCK);
	leveldb_options_set_max_open_files(db.options, 30); /* LevelDB takes 74 */
	db.level = wn_leveldb_open(db.options, test_path(name), &given, &db.wn, &db.error);
	expect_no(db.error);
	db.reading = leveldb_readoptions_create();
	db.writing = leveldb_writeoptions_create();
	return db;
}

static void expect_all(struct shared *shared)
{
	for (unsigned i = 0; i < KEYS; i++)
		expect_version(shared, shared->db->reading, i);
}

START_TEST(readers_find_every_key_while_tables_come_and_go)
{
	uint64_t random = test_seed("readers_find_every_key_while_tables_come_and_go", 6);
	struct shared *shared = calloc(1, sizeof(*shared));
	struct db db = open_small_cache("threads");
	struct reader readers[READERS];
	uint64_t wrong;

	shared->db = &db;
	for (unsigned i = 0; i < KEYS; i++)
		put_version(shared, i, 0);
	db_compact(&db);
	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = (struct reader){.shared = shared, .random = test_random(&random)};
		ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_all_the_time,
						&readers[i]), 0);
	}
	write_rounds(shared, test_is_quick() ? 4 : 24, &random);
	atomic_store(&shared->done, true);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	ck_assert_uint_gt(db_stats(&db).false_positives, 0);
	expect_all(shared);
	/* And they still learn. */
	db_compact(&db);
	wn_leveldb_drain(db.wn);
	wrong = db_ask_absent(&db, 2 * KEYS, KEYS);
	ck_assert_uint_gt(wrong, KEYS / 100);
	ck_assert_uint_le(db_ask_absent(&db, 2 * KEYS, KEYS), wrong / 100);
	expect_all(shared);
	db_close(&db);
	db = open_small_cache("threads");
	expect_all(shared);
	ck_assert_uint_le(db_ask_absent(&db, 2 * KEYS, KEYS), wrong / 100);
	db_close(&db);
	free(shared);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_threads");
	TCase *tests = tcase_create("leveldb_threads");
	int result;

	test_make_top();
	tcase_add_test(tests, readers_find_every_key_while_tables_come_and_go);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
