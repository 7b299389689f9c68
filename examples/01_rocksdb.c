/* 01_rocksdb.c - a RocksDB database whose filters learn.
 *
 * Keys that are not there are asked for three times. The filters are wrong about some of them
 * the first time, and about none of them again, also after the database was closed.
 *
 * usage: 01_rocksdb [DIRECTORY], where a database is made, and a directory beside it; without
 * one, in a temporary directory, and removed again. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rocksdb/c.h>

#include <winnow/rocksdb.h>

#define KEYS 50000

static void stop_on(char *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error);
	exit(1);
}

/* What differs from rocksdb_open(): one more line of options, one more handle. */
static rocksdb_t *open_database(const char *path, struct wn_rocksdb **wnp)
{
	struct wn_rocksdb_options learning = {.filter = "aqf:remainder_bits=6"};
	rocksdb_options_t *options = rocksdb_options_create();
	char *error = NULL;
	rocksdb_t *db;

	rocksdb_options_set_create_if_missing(options, 1);
	db = wn_rocksdb_open(options, path, &learning, wnp, &error);
	stop_on(error);
	rocksdb_options_destroy(options);
	return db;
}

/* Everything but lookups goes to RocksDB's own handle. */
static void put_keys(rocksdb_t *db)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = NULL;

	for (int key = 0; key < 2 * KEYS; key += 2) {
		rocksdb_put(db, writing, (char *)&key, sizeof(key), "value", 5, &error);
		stop_on(error);
	}
	rocksdb_flush(db, flushing, &error);
	stop_on(error);
	rocksdb_flushoptions_destroy(flushing);
	rocksdb_writeoptions_destroy(writing);
}

/* How many of every second key, from `first` on, are there? */
static int count_found(struct wn_rocksdb *wn, int first)
{
	rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
	int found = 0;

	for (int key = first; key < 2 * KEYS; key += 2) {
		char *error = NULL;
		size_t size;
		char *value =
			wn_rocksdb_get(wn, reading, (char *)&key, sizeof(key), &size, &error);

		stop_on(error);
		found += value != NULL;
		rocksdb_free(value);
	}
	rocksdb_readoptions_destroy(reading);
	return found;
}

/* Ask for absent keys; how often were the filters wrong? */
static unsigned long long ask_absent(struct wn_rocksdb *wn)
{
	struct wn_stats before, after;

	wn_rocksdb_stats(wn, &before);
	if (count_found(wn, 1) != 0)
		exit(1);
	wn_rocksdb_drain(wn); /* for the numbers: a program need not wait */
	wn_rocksdb_stats(wn, &after);
	return after.false_positives - before.false_positives;
}

static void remove_database(const char *top, const char *path)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *error = NULL;

	wn_rocksdb_destroy(options, path, &error);
	stop_on(error);
	rocksdb_options_destroy(options);
	rmdir(top);
}

int main(int argc, char **argv)
{
	char temporary[] = "winnow-example-XXXXXX", path[4096];
	const char *top = argc > 1 ? argv[1] : mkdtemp(temporary);
	unsigned long long wrong[3];
	struct wn_rocksdb *wn;
	char *text;
	int stored;

	if (!top)
		return 1;
	snprintf(path, sizeof(path), "%s%s", top, argc > 1 ? "" : "/db");
	put_keys(open_database(path, &wn));
	wn_rocksdb_drain(wn);
	wrong[0] = ask_absent(wn);
	wrong[1] = ask_absent(wn);
	wn_rocksdb_close(wn);

	open_database(path, &wn);
	wrong[2] = ask_absent(wn);
	stored = count_found(wn, 0);
	printf("%d absent keys, asked three times: %llu, %llu and %llu false positives\n", KEYS,
	       wrong[0], wrong[1], wrong[2]);
	printf("%d of %d stored keys found\n\n", stored, KEYS);
	text = wn_rocksdb_property(wn, "winnow.stats");
	if (text)
		printf("Since it was opened again:\n%s", text);
	free(text);
	wn_rocksdb_close(wn);
	if (argc < 2)
		remove_database(top, path);
	return stored != KEYS || wrong[0] == 0 || wrong[1] + wrong[2] != 0;
}
