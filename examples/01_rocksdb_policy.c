/* 01_rocksdb_policy.c - winnow's filters in a RocksDB database, by its C API.
 *
 * usage: 01_rocksdb_policy [DIRECTORY], where a database is made; without one, it is made in a
 * temporary directory and removed again. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rocksdb/c.h>

#include <winnow/error.h>
#include <winnow/rocksdb.h>

#define KEYS 50000

static void stop_on(char *error)
{
	if (!error)
		return;
	fprintf(stderr, "RocksDB: %s\n", error);
	exit(1);
}

/* The one thing that differs from a database with Bloom filters. */
static rocksdb_options_t *make_options(rocksdb_filterpolicy_t **policyp)
{
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	int err = wn_rocksdb_filterpolicy("aqf:remainder_bits=9", NULL, policyp);

	if (err) {
		fprintf(stderr, "winnow: %s\n", wn_strerror(err));
		exit(1);
	}
	rocksdb_block_based_options_set_filter_policy(table, *policyp);
	rocksdb_options_set_block_based_table_factory(options, table);
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_block_based_options_destroy(table);
	return options;
}

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

static int count_found(rocksdb_t *db, int first)
{
	rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
	int found = 0;

	for (int key = first; key < 2 * KEYS; key += 2) {
		char *error = NULL;
		size_t size;
		char *value = rocksdb_get(db, reading, (char *)&key, sizeof(key), &size, &error);

		stop_on(error);
		found += value != NULL;
		rocksdb_free(value);
	}
	rocksdb_readoptions_destroy(reading);
	return found;
}

int main(int argc, char **argv)
{
	char temporary[] = "winnow-example-XXXXXX";
	const char *directory = argc > 1 ? argv[1] : mkdtemp(temporary);
	struct wn_rocksdb_stats stats;
	rocksdb_filterpolicy_t *policy;
	rocksdb_options_t *options;
	rocksdb_t *db;
	char *error = NULL;
	int stored, absent;

	if (!directory)
		return 1;
	options = make_options(&policy);
	db = rocksdb_open(options, directory, &error);
	stop_on(error);
	put_keys(db);
	stored = count_found(db, 0);
	absent = count_found(db, 1);
	printf("%d of %d stored keys found, %d of %d absent ones\n", stored, KEYS, absent, KEYS);

	wn_rocksdb_filterpolicy_stats(policy, &stats); /* while the database is open */
	printf("%llu filters, %.2f bits a key\n", (unsigned long long)stats.filters_built,
	       8.0 * (double)stats.filter_bytes / (double)stats.filter_keys);
	rocksdb_close(db);
	if (argc < 2) {
		rocksdb_destroy_db(options, directory, &error);
		stop_on(error);
		rmdir(directory);
	}
	rocksdb_options_destroy(options);
	return stored != KEYS || absent != 0 || stats.filter_keys != KEYS;
}
