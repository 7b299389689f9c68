/* leveldb_db.h - real LevelDB databases for tests, made in a temporary directory. */
#ifndef WN_TESTS_LEVELDB_DB_H
#define WN_TESTS_LEVELDB_DB_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header: nftw()"
#endif
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>
#include <leveldb/c.h>

#include <winnow/leveldb.h>

#include "common.h"

/* Made and removed by the test program itself: the processes of tests may end early. */
static char test_top[4096];

static inline int remove_entry(const char *path, const struct stat *info, int kind,
			       struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

static inline void test_remove_top(void)
{
	nftw(test_top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void test_make_top(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(test_top, sizeof(test_top), "%s/winnow-leveldb-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(test_top)) {
		perror(test_top);
		exit(1);
	}
}

static inline const char *test_path(const char *name)
{
	static char path[8192];

	snprintf(path, sizeof(path), "%s/%s", test_top, name);
	return path;
}

struct db_setup {
	const char *name;
	const char *filter;  /* NULL: winnow's default; "bloom", "none": LevelDB's own */
	size_t block;        /* 0: LevelDB's */
	size_t buffer;       /* write buffer; 0: 256 KB, so that there are many tables */
	size_t learned_bytes;
	size_t known_misses;
	const char *sidecar; /* a path; NULL: winnow's default */
	bool bare_policy;    /* winnow's policy in a database that the program opens itself */
};

struct db {
	struct db_setup setup;
	leveldb_t *level;
	struct wn_leveldb *wn;
	leveldb_options_t *options;
	leveldb_filterpolicy_t *policy;
	leveldb_readoptions_t *reading;
	leveldb_writeoptions_t *writing;
	char *error; /* why it could not be opened */
};

#define expect_no(error)                                                                           \
	do {                                                                                       \
		if (error)                                                                         \
			ck_abort_msg("LevelDB: %s", error);                                        \
	} while (0)

/* If it cannot be opened, `level` is NULL. */
static inline struct db db_try_open(const struct db_setup *setup)
{
	struct wn_leveldb_options given = {.filter = setup->filter,
					   .sidecar_directory = setup->sidecar,
					   .learned_bytes = setup->learned_bytes,
					   .known_misses = setup->known_misses};
	struct db db = {.setup = *setup, .options = leveldb_options_create()};
	bool bloom = setup->filter && strcmp(setup->filter, "bloom") == 0;
	bool none = setup->filter && strcmp(setup->filter, "none") == 0;

	leveldb_options_set_create_if_missing(db.options, 1);
	leveldb_options_set_compression(db.options, leveldb_no_compression);
	leveldb_options_set_write_buffer_size(db.options,
					      setup->buffer ? setup->buffer : 256 << 10);
	if (setup->block)
		leveldb_options_set_block_size(db.options, setup->block);
	if (bloom)
		db.policy = leveldb_filterpolicy_create_bloom(10);
	else if (setup->bare_policy)
		ck_assert_int_eq(wn_leveldb_filterpolicy(setup->filter, NULL, NULL, 0, &db.policy),
				 0);
	if (db.policy)
		leveldb_options_set_filter_policy(db.options, db.policy);
	if (bloom || none || setup->bare_policy)
		db.level = leveldb_open(db.options, test_path(setup->name), &db.error);
	else
		db.level = wn_leveldb_open(db.options, test_path(setup->name), &given, &db.wn,
					   &db.error);
	db.reading = leveldb_readoptions_create();
	db.writing = leveldb_writeoptions_create();
	return db;
}

static inline struct db db_open(const struct db_setup *setup)
{
	struct db db = db_try_open(setup);

	expect_no(db.error);
	return db;
}

static inline void db_close(struct db *db)
{
	if (db->wn)
		wn_leveldb_close(db->wn);
	else if (db->level)
		leveldb_close(db->level);
	leveldb_free(db->error);
	leveldb_readoptions_destroy(db->reading);
	leveldb_writeoptions_destroy(db->writing);
	leveldb_options_destroy(db->options);
	if (db->policy)
		leveldb_filterpolicy_destroy(db->policy);
}

static inline void db_reopen(struct db *db)
{
	struct db_setup setup = db->setup;

	db_close(db);
	*db = db_open(&setup);
}

/* The secret of a database that is not there yet: the same hashes for the same seed. */
static inline void plant_secret(const char *name, uint64_t seed)
{
	struct wn_secret *secret = test_secret((unsigned char)seed);
	char path[300];

	snprintf(path, sizeof(path), "%.250s/winnow.secret", name);
	ck_assert_int_eq(mkdir(test_path(name), 0700), 0);
	ck_assert_int_eq(wn_secret_save(secret, test_path(path)), 0);
	wn_secret_destroy(secret);
}

/* ---- keys: the even numbers are stored, the odd ones are not ------------- */

#define DB_KEY_SIZE 18

/* Scattered, so that every table spans all of them. */
static inline void db_key(uint64_t number, char *key)
{
	char text[40];

	snprintf(text, sizeof(text), "%08" PRIx32 "%010" PRIu64,
		 (uint32_t)(number / 4) * UINT32_C(2654435761), number);
	memcpy(key, text, DB_KEY_SIZE);
}

static inline void db_put_value(struct db *db, uint64_t number, uint64_t value)
{
	char key[DB_KEY_SIZE], bytes[90];
	char *error = NULL;

	db_key(number, key);
	memset(bytes, 'v', sizeof(bytes));
	memcpy(bytes, &value, sizeof(value));
	leveldb_put(db->level, db->writing, key, sizeof(key), bytes, sizeof(bytes), &error);
	expect_no(error);
}

static inline void db_put(struct db *db, uint64_t first, uint64_t end)
{
	for (uint64_t number = first; number < end; number += 2)
		db_put_value(db, number, number);
}

static inline void db_delete(struct db *db, uint64_t number)
{
	char key[DB_KEY_SIZE];
	char *error = NULL;

	db_key(number, key);
	leveldb_delete(db->level, db->writing, key, sizeof(key), &error);
	expect_no(error);
}

static inline void db_compact(struct db *db)
{
	leveldb_compact_range(db->level, NULL, 0, NULL, 0);
}

/* The stored value; UINT64_MAX: none. */
static inline uint64_t db_get(struct db *db, uint64_t number)
{
	char key[DB_KEY_SIZE];
	char *error = NULL, *value;
	uint64_t stored = UINT64_MAX;
	size_t size;

	db_key(number, key);
	value = db->wn ? wn_leveldb_get(db->wn, db->reading, key, sizeof(key), &size, &error) :
			 leveldb_get(db->level, db->reading, key, sizeof(key), &size, &error);
	expect_no(error);
	if (value)
		memcpy(&stored, value, sizeof(stored));
	leveldb_free(value);
	return stored;
}

static inline void db_expect_right(struct db *db, uint64_t first, uint64_t end)
{
	for (uint64_t number = first; number < end; number++)
		expect(db_get(db, number) == (number % 2 ? UINT64_MAX : number));
}

static inline struct wn_stats db_stats(struct db *db)
{
	struct wn_stats stats;

	wn_leveldb_stats(db->wn, &stats);
	return stats;
}

/* Ask for absent keys; how often were the filters wrong? */
static inline uint64_t db_ask_absent(struct db *db, uint64_t first, uint64_t count)
{
	uint64_t before = db_stats(db).false_positives;

	for (uint64_t i = 0; i < count; i++)
		expect(db_get(db, (first | 1) + 2 * i) == UINT64_MAX);
	return db_stats(db).false_positives - before;
}

#endif /* WN_TESTS_LEVELDB_DB_H */
