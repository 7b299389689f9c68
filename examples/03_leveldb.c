/* 03_leveldb.c - a LevelDB database whose filters learn.
 *
 * Keys that are not there are asked for three times. The filters are wrong about some of them
 * the first time, and about none of them again.
 *
 * usage: 03_leveldb [DIRECTORY], where a database is made, and a directory beside it; without
 * one, it is made in a temporary directory and removed again. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <leveldb/c.h>

#include <winnow/leveldb.h>

#define KEYS 50000

static void stop_on(char *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error);
	exit(1);
}

static void put_keys(leveldb_t *db)
{
	leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
	char *error = NULL;

	for (int key = 0; key < 2 * KEYS; key += 2) {
		leveldb_put(db, writing, (char *)&key, sizeof(key), "value", 5, &error);
		stop_on(error);
	}
	leveldb_compact_range(db, NULL, 0, NULL, 0);
	leveldb_writeoptions_destroy(writing);
}

/* How many of every second key, from `first` on, are there? */
static int count_found(struct wn_leveldb *wn, int first)
{
	leveldb_readoptions_t *reading = leveldb_readoptions_create();
	int found = 0;

	for (int key = first; key < 2 * KEYS; key += 2) {
		char *error = NULL;
		size_t size;
		char *value = wn_leveldb_get(wn, reading, (char *)&key, sizeof(key), &size, &error);

		stop_on(error);
		found += value != NULL;
		leveldb_free(value);
	}
	leveldb_readoptions_destroy(reading);
	return found;
}

/* Ask for absent keys; how often were the filters wrong? */
static unsigned long long ask_absent(struct wn_leveldb *wn)
{
	struct wn_stats before, after;

	wn_leveldb_stats(wn, &before);
	if (count_found(wn, 1) != 0)
		exit(1);
	wn_leveldb_stats(wn, &after);
	return after.false_positives - before.false_positives;
}

static void remove_all(const leveldb_options_t *options, const char *directory)
{
	char command[200];
	char *error = NULL;

	leveldb_destroy_db(options, directory, &error);
	stop_on(error);
	snprintf(command, sizeof(command), "rm -r '%s' '%s.winnow'", directory, directory);
	if (system(command))
		exit(1);
}

int main(int argc, char **argv)
{
	char temporary[] = "winnow-example-XXXXXX";
	const char *directory = argc > 1 ? argv[1] : mkdtemp(temporary);
	leveldb_options_t *options = leveldb_options_create();
	unsigned long long wrong[3];
	struct wn_leveldb *wn;
	char *error = NULL;
	leveldb_t *db;
	int stored;

	if (!directory)
		return 1;
	leveldb_options_set_create_if_missing(options, 1);
	db = wn_leveldb_open(options, directory, NULL, &wn, &error);
	stop_on(error);
	put_keys(db);
	for (int i = 0; i < 3; i++)
		wrong[i] = ask_absent(wn);
	stored = count_found(wn, 0);
	printf("%d absent keys, asked three times: %llu, %llu and %llu false positives\n", KEYS,
	       wrong[0], wrong[1], wrong[2]);
	printf("%d of %d stored keys found\n", stored, KEYS);
	wn_leveldb_close(wn);
	if (argc < 2)
		remove_all(options, directory);
	leveldb_options_destroy(options);
	return stored != KEYS || wrong[0] == 0 || wrong[1] + wrong[2] != 0;
}
