/* bench_leveldb.c - winnow's filters in LevelDB beside LevelDB's own, on the same data.
 *
 * usage: bench_leveldb [name=value ...]
 *	num=1000000      keys, of 16 bytes, with values of 100
 *	reads=1000000    lookups for absent keys, in each of the passes
 *	passes=3
 *	block=4096
 *	zipf=0           0: uniform; else the skew, in hundredths (150)
 *	hot=0            percent of the lookups that an adversary makes, who repeats what he found
 *	                 to be false positives in 100,000 lookups before
 *	distinct=0       absent keys to choose from; 0: num
 *	filter=both      bloom, aqf, or duel: both open at once and asked in turns, 5,000 lookups
 *	                 each, so that what else the machine does hits both alike; uniform
 *	cold=0           1: the block cache is empty, and the tables' data blocks are dropped from
 *	                 the page cache every 500 lookups, off the clock, and the packs: they are
 *	                 read from the disk. The last 64 KB of a table, where its filters and its
 *	                 index are, stay.
 *	path=/tmp/bench_leveldb */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <winnow/leveldb.h>

#include "tools/bench/leveldb_bloom.h"
#include "bench_util.h"
#include "zipf.h"

struct setup {
	uint64_t num, reads, passes, block, zipf, hot, distinct, cold;
	const char *filter, *path;
};

struct db {
	leveldb_t *level;
	struct wn_leveldb *wn; /* NULL: stock */
	leveldb_options_t *options;
	leveldb_filterpolicy_t *policy;
	leveldb_cache_t *cache;
	leveldb_readoptions_t *reading;
};

#define KEY_SIZE 16
#define VALUE_SIZE 100
#define MAX_HOT 4000

/* ---- LevelDB's Bloom filter, counted ------------------------------------ */

static uint64_t matched; /* "maybe"s; one thread */

static char *build_bloom(void *bloom, const char *const *keys, const size_t *sizes, int count,
			 size_t *sizep)
{
	return leveldb_bloom_build(bloom, keys, sizes, count, sizep);
}

static uint8_t ask_bloom(void *bloom, const char *key, size_t size, const char *filter,
			 size_t filter_size)
{
	bool match = leveldb_bloom_may_match(bloom, key, size, filter, filter_size);

	matched += match;
	return match;
}

static const char *name_bloom(void *bloom)
{
	return leveldb_bloom_name(bloom);
}

static void destroy_bloom(void *bloom)
{
	leveldb_bloom_destroy(bloom);
}

/* ---- the database ------------------------------------------------------- */

static void stop_on(char *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error);
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Of this thread: on a machine that is shared the other clock says little. */
static double cpu_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* Even numbers are stored and odd ones are not. */
static void make_key(uint64_t number, char *key)
{
	char text[40];

	snprintf(text, sizeof(text), "%016" PRIx64, mix(number));
	memcpy(key, text, KEY_SIZE);
}

static void open_db(struct db *db, const struct setup *setup, const char *filter)
{
	struct wn_leveldb_options given = {.filter = filter};
	char *error = NULL;

	memset(db, 0, sizeof(*db));
	db->options = leveldb_options_create();
	db->reading = leveldb_readoptions_create();
	db->cache = leveldb_cache_create_lru(setup->cold ? 0 : 8 << 20);
	leveldb_options_set_cache(db->options, db->cache);
	leveldb_options_set_create_if_missing(db->options, 1);
	leveldb_options_set_block_size(db->options, setup->block);
	leveldb_options_set_compression(db->options, leveldb_no_compression);
	if (strcmp(filter, "bloom") == 0) {
		db->policy = leveldb_filterpolicy_create(leveldb_bloom_create(10), destroy_bloom,
							 build_bloom, ask_bloom, name_bloom);
		leveldb_options_set_filter_policy(db->options, db->policy);
		db->level = leveldb_open(db->options, setup->path, &error);
	} else {
		db->level = wn_leveldb_open(db->options, setup->path, &given, &db->wn, &error);
	}
	stop_on(error);
}

static void close_db(struct db *db)
{
	if (db->wn)
		wn_leveldb_close(db->wn);
	else
		leveldb_close(db->level);
	leveldb_options_destroy(db->options);
	leveldb_readoptions_destroy(db->reading);
	leveldb_cache_destroy(db->cache);
	if (db->policy)
		leveldb_filterpolicy_destroy(db->policy);
}

static void fill(struct db *db, const struct setup *setup)
{
	leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
	char key[KEY_SIZE], value[VALUE_SIZE];
	char *error = NULL;
	double start = now();

	memset(value, 'v', sizeof(value));
	for (uint64_t i = 0; i < setup->num; i++) {
		make_key(2 * (mix(i) % setup->num), key);
		leveldb_put(db->level, writing, key, KEY_SIZE, value, sizeof(value), &error);
		stop_on(error);
	}
	leveldb_writeoptions_destroy(writing);
	printf("  fill %.0f/s\n", (double)setup->num / (now() - start));
	start = now();
	leveldb_compact_range(db->level, NULL, 0, NULL, 0);
	printf("  compact %.1f s\n", now() - start);
}

#define TAIL ((size_t)64 << 10)

/* LevelDB maps its tables: what is mapped stays in the page cache. Filters and index are used
 * where they are mapped, too; in a database that is larger than the memory they would stay. */
static void unmap_pages(const char *path)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long first, end;

		if (strstr(line, path) && sscanf(line, "%lx-%lx", &first, &end) == 2 &&
		    end - first > TAIL)
			madvise((void *)first, end - first - TAIL, MADV_DONTNEED);
	}
	if (maps)
		fclose(maps);
}

static void drop_files(const char *path, size_t tail)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	off_t size;

	while (directory && (entry = readdir(directory))) {
		int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		size = lseek(fd, 0, SEEK_END);
		if (size > (off_t)tail)
			posix_fadvise(fd, 0, (size - (off_t)tail) / 4096 * 4096,
				      POSIX_FADV_DONTNEED);
		close(fd);
	}
	if (directory)
		closedir(directory);
}

static void drop_page_cache(const char *path)
{
	char beside[4096];

	snprintf(beside, sizeof(beside), "%s.winnow", path);
	unmap_pages(path);
	drop_files(path, TAIL);
	drop_files(beside, 0);
}

static bool get(struct db *db, uint64_t number)
{
	char key[KEY_SIZE];
	char *error = NULL, *value;
	size_t size;

	make_key(number, key);
	value = db->wn ? wn_leveldb_get(db->wn, db->reading, key, KEY_SIZE, &size, &error) :
			 leveldb_get(db->level, db->reading, key, KEY_SIZE, &size, &error);
	stop_on(error);
	leveldb_free(value);
	return value != NULL;
}

/* How many filters let the last lookup through? */
static uint64_t last_positives(struct db *db)
{
	uint64_t queries, positives = matched;

	if (db->wn)
		wn_leveldb_last_get(&queries, &positives);
	matched = 0;
	return positives;
}

static size_t find_hot(struct db *db, const struct setup *setup, uint64_t *hot)
{
	size_t count = 0;

	for (uint64_t i = 0; i < 100000 && count < MAX_HOT; i++) {
		uint64_t number = 2 * (mix(i ^ 0x5bd1e995) % setup->num) + 1;

		get(db, number);
		if (last_positives(db))
			hot[count++] = number;
	}
	return count;
}

static void run_passes(struct db *db, const struct setup *setup, const char *filter)
{
	uint64_t distinct = setup->distinct ? setup->distinct : setup->num;
	struct zipf zipf;
	static uint64_t hot[MAX_HOT];
	size_t hot_count = 0;

	if (setup->zipf)
		zipf_init(&zipf, distinct, (double)setup->zipf / 100, 7);
	if (setup->hot)
		hot_count = find_hot(db, setup, hot);
	for (uint64_t pass = 0; pass < setup->passes; pass++) {
		uint64_t random = 42 + pass, positives = 0;
		double start = now(), cpu = cpu_now(), off = 0, cpu_off = 0;

		for (uint64_t i = 0; i < setup->reads; i++) {
			uint64_t at = bench_random(&random), number;

			if (setup->cold && i % 500 == 0) {
				double began = now(), cpu_began = cpu_now();

				drop_page_cache(setup->path);
				off += now() - began;
				cpu_off += cpu_now() - cpu_began;
			}

			if (hot_count && at % 100 < setup->hot)
				number = hot[(at >> 32) % hot_count];
			else if (setup->zipf)
				number = 2 * (mix(zipf_next(&zipf, &random)) % setup->num) + 1;
			else
				number = 2 * (mix(at % distinct) % setup->num) + 1;
			if (get(db, number))
				exit(2);
			positives += last_positives(db);
		}
		start = now() - start - off;
		cpu = cpu_now() - cpu - cpu_off;
		printf("  %-6s pass %" PRIu64 "  %9.0f/s  %6.0f ns of CPU  %8" PRIu64
		       " false positives\n",
		       filter, pass + 1, (double)setup->reads / start,
		       1e9 * cpu / (double)setup->reads, positives);
	}
}

static void clear_away(const struct setup *setup)
{
	char command[20000];

	snprintf(command, sizeof(command), "rm -rf '%s' '%s.winnow'", setup->path, setup->path);
	if (system(command))
		exit(1);
}

static void run(const struct setup *setup, const char *filter)
{
	struct db db;

	clear_away(setup);
	printf("%s\n", filter);
	open_db(&db, setup, filter);
	fill(&db, setup);
	close_db(&db);
	open_db(&db, setup, filter);
	run_passes(&db, setup, filter);
	close_db(&db);
	clear_away(setup);
}

static void run_duel(const struct setup *given)
{
	static const char *const filters[] = {"bloom", "aqf"};
	char paths[2][4096];
	struct setup setups[2];
	struct db dbs[2];

	for (int i = 0; i < 2; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s.%s", given->path, filters[i]);
		setups[i] = *given;
		setups[i].path = paths[i];
		clear_away(&setups[i]);
		open_db(&dbs[i], &setups[i], filters[i]);
		fill(&dbs[i], &setups[i]);
		close_db(&dbs[i]);
		open_db(&dbs[i], &setups[i], filters[i]);
	}
	for (uint64_t pass = 0; pass < given->passes; pass++) {
		double cpu[2] = {0}, time[2] = {0};
		uint64_t positives[2] = {0};

		for (uint64_t done = 0; done < given->reads; done += 5000)
			for (int i = 0; i < 2; i++) {
				uint64_t random = 1000003 * pass + done;

				cpu[i] -= cpu_now();
				time[i] -= now();
				for (int j = 0; j < 5000; j++) {
					if (get(&dbs[i], bench_random(&random) | 1))
						exit(2);
					positives[i] += last_positives(&dbs[i]);
				}
				cpu[i] += cpu_now();
				time[i] += now();
			}
		printf("  pass %" PRIu64 ": bloom %.0f ns, aqf %.0f ns of CPU: "
		       "%.3f times the speed (by the clock %.3f); "
		       "%" PRIu64 " and %" PRIu64 " false positives\n",
		       pass + 1, 1e9 * cpu[0] / (double)given->reads,
		       1e9 * cpu[1] / (double)given->reads, cpu[0] / cpu[1], time[0] / time[1],
		       positives[0], positives[1]);
	}
	for (int i = 0; i < 2; i++) {
		close_db(&dbs[i]);
		clear_away(&setups[i]);
	}
}

static void take(struct setup *setup, const char *argument)
{
	const struct {
		const char *name;
		uint64_t *number;
	} numbers[] = {{"num=", &setup->num},       {"reads=", &setup->reads},
		       {"passes=", &setup->passes}, {"block=", &setup->block},
		       {"zipf=", &setup->zipf},     {"hot=", &setup->hot},
		       {"distinct=", &setup->distinct}, {"cold=", &setup->cold}};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strncmp(argument, numbers[i].name, strlen(numbers[i].name)) == 0) {
			*numbers[i].number =
				strtoull(argument + strlen(numbers[i].name), NULL, 10);
			return;
		}
	if (strncmp(argument, "filter=", 7) == 0) {
		setup->filter = argument + 7;
	} else if (strncmp(argument, "path=", 5) == 0) {
		setup->path = argument + 5;
	} else {
		fprintf(stderr, "bench_leveldb: what is %s?\n", argument);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct setup setup = {.num = 1000000, .reads = 1000000, .passes = 3, .block = 4096,
			      .filter = "both", .path = "/tmp/bench_leveldb"};

	for (int i = 1; i < argc; i++)
		take(&setup, argv[i]);
	if (strcmp(setup.filter, "duel") == 0) {
		run_duel(&setup);
	} else if (strcmp(setup.filter, "both") != 0) {
		run(&setup, setup.filter);
	} else {
		run(&setup, "bloom");
		run(&setup, "aqf");
	}
	return 0;
}
