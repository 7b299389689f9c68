/* 02_rocksdb_attach.c - winnow in a program that opens its RocksDB database itself.
 *
 * A database with column families, where each family's options say much that winnow has no
 * business with. winnow is put into the options beforehand, and attached when the database is
 * open; it is detached before the database is closed.
 *
 * usage: 02_rocksdb_attach [DIRECTORY], where a database is made, and a directory beside it;
 * without one, in a temporary directory, and removed again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rocksdb/c.h>

#include <winnow/rocksdb.h>

#define KEYS 50000
#define BATCH 100

static void stop_on(char *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error);
	exit(1);
}

static const char *const names[] = {"default", "users"};

struct database {
	rocksdb_options_t *options;
	rocksdb_t *db;
	rocksdb_column_family_handle_t *families[2];
	struct wn_rocksdb *wn;
};

static void open_database(struct database *database, const char *path)
{
	/* Files beside the database: who opens it later without winnow need not know. */
	struct wn_rocksdb_options learning = {.store = WN_ROCKSDB_SIDECAR};
	const rocksdb_options_t *options[2];
	char *error = NULL;

	database->options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(database->options, 1);
	rocksdb_options_set_create_missing_column_families(database->options, 1);

	wn_rocksdb_create(path, &learning, &database->wn, &error);
	stop_on(error);
	wn_rocksdb_prepare(database->wn, database->options, &error);
	stop_on(error);
	options[0] = options[1] = database->options;
	database->db = rocksdb_open_column_families(database->options, path, 2, names, options,
						    database->families, &error);
	stop_on(error);
	wn_rocksdb_attach(database->wn, database->db, NULL, &error);
	stop_on(error);
}

static void close_database(struct database *database)
{
	wn_rocksdb_detach(database->wn);
	for (int i = 0; i < 2; i++)
		rocksdb_column_family_handle_destroy(database->families[i]);
	rocksdb_close(database->db);
	rocksdb_options_destroy(database->options);
}

static void put_users(const struct database *database)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = NULL;

	for (int key = 0; key < 2 * KEYS; key += 2) {
		rocksdb_put_cf(database->db, writing, database->families[1], (char *)&key,
			       sizeof(key), "value", 5, &error);
		stop_on(error);
	}
	rocksdb_flush_cf(database->db, flushing, database->families[1], &error);
	stop_on(error);
	rocksdb_flushoptions_destroy(flushing);
	rocksdb_writeoptions_destroy(writing);
}

/* How many of BATCH keys, every second one from `first` on, are there? */
static int count_batch(const struct database *database, rocksdb_readoptions_t *reading, int first)
{
	int numbers[BATCH], found = 0;
	const char *keys[BATCH];
	size_t sizes[BATCH];
	rocksdb_pinnableslice_t *values[BATCH];
	char *errors[BATCH];

	for (int i = 0; i < BATCH; i++) {
		numbers[i] = first + 2 * i;
		keys[i] = (const char *)&numbers[i];
		sizes[i] = sizeof(numbers[i]);
	}
	wn_rocksdb_batched_multi_get_cf(database->wn, reading, database->families[1], BATCH, keys,
					sizes, values, errors, false);
	for (int i = 0; i < BATCH; i++) {
		stop_on(errors[i]);
		found += values[i] != NULL;
		rocksdb_pinnableslice_destroy(values[i]);
	}
	return found;
}

static int count_found(const struct database *database, int first)
{
	rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
	int found = 0;

	for (int at = first; at < 2 * KEYS; at += 2 * BATCH)
		found += count_batch(database, reading, at);
	rocksdb_readoptions_destroy(reading);
	return found;
}

static unsigned long long ask_absent(const struct database *database)
{
	struct wn_stats before, after;

	wn_rocksdb_stats(database->wn, &before);
	if (count_found(database, 1) != 0)
		exit(1);
	wn_rocksdb_drain(database->wn); /* for the numbers: a program need not wait */
	wn_rocksdb_stats(database->wn, &after);
	return after.false_positives - before.false_positives;
}

int main(int argc, char **argv)
{
	char temporary[] = "winnow-example-XXXXXX", path[4096];
	const char *top = argc > 1 ? argv[1] : mkdtemp(temporary);
	rocksdb_options_t *plain = rocksdb_options_create();
	unsigned long long wrong[2];
	struct database database;
	char *error = NULL;
	int stored;

	if (!top)
		return 1;
	snprintf(path, sizeof(path), "%s%s", top, argc > 1 ? "" : "/db");
	open_database(&database, path);
	put_users(&database);
	wn_rocksdb_drain(database.wn);
	wrong[0] = ask_absent(&database);
	wrong[1] = ask_absent(&database);
	stored = count_found(&database, 0);
	printf("%d absent keys, asked twice in batches of %d: %llu and %llu false positives\n",
	       KEYS, BATCH, wrong[0], wrong[1]);
	printf("%d of %d stored keys found\n", stored, KEYS);
	close_database(&database);
	if (argc < 2) {
		wn_rocksdb_destroy(plain, path, &error);
		stop_on(error);
		rmdir(top);
	}
	rocksdb_options_destroy(plain);
	return stored != KEYS || wrong[0] == 0 || wrong[1] != 0;
}
