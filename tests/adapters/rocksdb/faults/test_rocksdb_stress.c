/* test_rocksdb_stress.c - many keys and many threads on one database that learns.
 *
 * One thread writes, overwrites and deletes while RocksDB flushes and compacts and others read
 * in all ways there are. What is right is known without a lock: a key's versions are counted
 * up, version 0 is "not there", and whether a version is a value or a deletion follows from key
 * and version alone. Before a version is written it is noted in `begun`, and afterwards in
 * `done`; so an answer must be a version between what `done` said before the question and
 * `begun` said after it. Odd numbers are never written. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/rocksdb_stores.h"

#define READERS 4
#define KEY_SIZE 12

static uint64_t key_count(void)
{
	return test_is_quick() ? 100000 : 2000000;
}

struct world {
	struct learner learner;
	rocksdb_writeoptions_t *writing;
	rocksdb_writebatch_t *batch;
	_Atomic uint32_t *begun, *done; /* by number / 2 */
	atomic_bool stop;
};

/* ---- what is right ------------------------------------------------------ */

/* In the order of their numbers. */
static void make_key(uint64_t number, char *key)
{
	for (unsigned i = 0; i < 8; i++)
		key[i] = (char)(number >> (56 - 8 * i));
	memcpy(key + 8, "-key", KEY_SIZE - 8);
}

static uint64_t read_key(const char *key)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < 8; i++)
		number = number << 8 | (unsigned char)key[i];
	return number;
}

/* A third of all versions but the first are deletions. */
static bool is_deletion(uint64_t number, uint32_t version)
{
	uint64_t state = number << 16 ^ version;

	return version == 0 || (version > 1 && test_random(&state) % 3 == 0);
}

struct value {
	uint64_t number;
	uint64_t version;
};

/* Which versions a question may be answered with. */
struct bounds {
	uint32_t first, last;
};

static uint32_t get_done(struct world *world, uint64_t number)
{
	return number % 2 ? 0 : atomic_load(&world->done[number / 2]);
}

static uint32_t get_begun(struct world *world, uint64_t number)
{
	return number % 2 ? 0 : atomic_load(&world->begun[number / 2]);
}

/* NULL: not there. */
static void expect_within(uint64_t number, struct bounds bounds, const char *found, size_t size)
{
	struct value value;

	if (!found) {
		uint32_t version = bounds.first;

		while (version <= bounds.last && !is_deletion(number, version))
			version++;
		if (version > bounds.last)
			ck_abort_msg("number %" PRIu64 " is lost: versions %" PRIu32 " to %" PRIu32,
				     number, bounds.first, bounds.last);
		return;
	}
	expect(size == sizeof(value));
	memcpy(&value, found, sizeof(value));
	if (value.number != number || value.version < bounds.first || value.version > bounds.last ||
	    is_deletion(number, (uint32_t)value.version))
		ck_abort_msg("number %" PRIu64 " is %" PRIu64 " version %" PRIu64
			     ": expected %" PRIu32 " to %" PRIu32,
			     number, value.number, value.version, bounds.first, bounds.last);
}

/* ---- writing ------------------------------------------------------------ */

#define WRITE_BATCH 64

/* The next version of each number. Different numbers, or one version would hide the other. */
static void write_numbers(struct world *world, const uint64_t *numbers, unsigned count)
{
	char key[KEY_SIZE];
	char *error = NULL;

	rocksdb_writebatch_clear(world->batch);
	for (unsigned i = 0; i < count; i++) {
		uint32_t version = get_done(world, numbers[i]) + 1;
		struct value value = {numbers[i], version};

		make_key(numbers[i], key);
		if (is_deletion(numbers[i], version))
			rocksdb_writebatch_delete(world->batch, key, sizeof(key));
		else
			rocksdb_writebatch_put(world->batch, key, sizeof(key), (char *)&value,
					       sizeof(value));
		atomic_store(&world->begun[numbers[i] / 2], version);
	}
	rocksdb_write(world->learner.db.rocks, world->writing, world->batch, &error);
	expect_no(error);
	for (unsigned i = 0; i < count; i++)
		atomic_store(&world->done[numbers[i] / 2], get_begun(world, numbers[i]));
}

/* `count` keys, spread over all and each once, as long as there are so many. */
static void write_round(struct world *world, uint64_t first, uint64_t count)
{
	uint64_t numbers[WRITE_BATCH];
	unsigned filled = 0;

	for (uint64_t i = first; i < first + count; i++) {
		/* A stride that has no divisor in common with the number of keys. */
		numbers[filled++] = i * 1000003 % key_count() * 2;
		if (filled == WRITE_BATCH || i + 1 == first + count) {
			write_numbers(world, numbers, filled);
			filled = 0;
		}
	}
}

/* ---- reading ------------------------------------------------------------ */

struct reader {
	pthread_t thread;
	struct world *world;
	uint64_t seed;
	rocksdb_readoptions_t *reading;
	uint64_t asked;
};

static void get_one(struct reader *reader, uint64_t number)
{
	struct world *world = reader->world;
	struct bounds bounds = {.first = get_done(world, number)};
	char key[KEY_SIZE];
	char *error = NULL;
	size_t size = 0;
	char *value;

	make_key(number, key);
	value = wn_rocksdb_get(world->learner.wn, reader->reading, key, sizeof(key), &size,
			       &error);
	expect_no(error);
	bounds.last = get_begun(world, number);
	expect_within(number, bounds, value, size);
	rocksdb_free(value);
	reader->asked++;
}

static void get_pinned(struct reader *reader, uint64_t number)
{
	struct world *world = reader->world;
	struct bounds bounds = {.first = get_done(world, number)};
	rocksdb_pinnableslice_t *pinned;
	char key[KEY_SIZE];
	char *error = NULL;
	const char *value;
	size_t size = 0;

	make_key(number, key);
	pinned = wn_rocksdb_get_pinned(world->learner.wn, reader->reading, key, sizeof(key),
				       &error);
	expect_no(error);
	bounds.last = get_begun(world, number);
	value = rocksdb_pinnableslice_value(pinned, &size);
	expect_within(number, bounds, value, size);
	rocksdb_pinnableslice_destroy(pinned);
	reader->asked++;
}

#define READ_BATCH 32

static void note_done(struct reader *reader, const uint64_t *numbers, struct bounds *bounds)
{
	for (unsigned i = 0; i < READ_BATCH; i++)
		bounds[i].first = get_done(reader->world, numbers[i]);
}

static void note_begun(struct reader *reader, const uint64_t *numbers, struct bounds *bounds)
{
	for (unsigned i = 0; i < READ_BATCH; i++)
		bounds[i].last = get_begun(reader->world, numbers[i]);
}

static void get_batch(struct reader *reader, const uint64_t *numbers, struct bounds *bounds)
{
	char texts[READ_BATCH][KEY_SIZE];
	const char *keys[READ_BATCH];
	size_t sizes[READ_BATCH], value_sizes[READ_BATCH] = {0};
	char *values[READ_BATCH] = {NULL}, *errors[READ_BATCH] = {NULL};

	for (unsigned i = 0; i < READ_BATCH; i++) {
		make_key(numbers[i], texts[i]);
		keys[i] = texts[i];
		sizes[i] = KEY_SIZE;
	}
	note_done(reader, numbers, bounds);
	wn_rocksdb_multi_get(reader->world->learner.wn, reader->reading, READ_BATCH, keys, sizes,
			     values, value_sizes, errors);
	note_begun(reader, numbers, bounds);
	for (unsigned i = 0; i < READ_BATCH; i++) {
		expect_no(errors[i]);
		expect_within(numbers[i], bounds[i], values[i], value_sizes[i]);
		rocksdb_free(values[i]);
	}
	reader->asked += READ_BATCH;
}

/* What a snapshot shows does not change, whatever is written, flushed and compacted. */
static void get_at_snapshot(struct reader *reader, const uint64_t *numbers, struct bounds *bounds)
{
	struct world *world = reader->world;
	const rocksdb_snapshot_t *snapshot;
	uint64_t seen[READ_BATCH];

	note_done(reader, numbers, bounds);
	snapshot = rocksdb_create_snapshot(world->learner.db.rocks);
	note_begun(reader, numbers, bounds);
	rocksdb_readoptions_set_snapshot(reader->reading, snapshot);
	for (unsigned i = 0; i < 4 * READ_BATCH; i++) {
		unsigned at = i % READ_BATCH;
		char key[KEY_SIZE];
		char *error = NULL;
		struct value value = {0};
		size_t size = 0;
		char *found;

		make_key(numbers[at], key);
		found = wn_rocksdb_get(world->learner.wn, reader->reading, key, sizeof(key), &size,
				       &error);
		expect_no(error);
		expect_within(numbers[at], bounds[at], found, size);
		if (found)
			memcpy(&value, found, sizeof(value));
		expect(i < READ_BATCH || seen[at] == value.version);
		seen[at] = value.version;
		rocksdb_free(found);
	}
	rocksdb_readoptions_set_snapshot(reader->reading, NULL);
	rocksdb_release_snapshot(world->learner.db.rocks, snapshot);
	reader->asked += 4 * READ_BATCH;
}

/* Numbers that follow each other. */
static void iterate(struct reader *reader, uint64_t *numbers, struct bounds *bounds)
{
	rocksdb_iterator_t *walk;
	char key[KEY_SIZE];
	char *error = NULL;
	unsigned at = 0;

	for (unsigned i = 1; i < READ_BATCH; i++)
		numbers[i] = numbers[0] + i;
	note_done(reader, numbers, bounds);
	walk = rocksdb_create_iterator(reader->world->learner.db.rocks, reader->reading);
	note_begun(reader, numbers, bounds);
	make_key(numbers[0], key);
	for (rocksdb_iter_seek(walk, key, sizeof(key)); at < READ_BATCH; rocksdb_iter_next(walk)) {
		bool valid = rocksdb_iter_valid(walk);
		size_t size = 0;
		uint64_t number = valid ? read_key(rocksdb_iter_key(walk, &size)) : UINT64_MAX;
		const char *value = valid ? rocksdb_iter_value(walk, &size) : NULL;

		for (; at < READ_BATCH && numbers[at] < number; at++)
			expect_within(numbers[at], bounds[at], NULL, 0);
		if (!valid || at == READ_BATCH)
			break;
		expect_within(number, bounds[at++], value, size);
	}
	rocksdb_iter_get_error(walk, &error);
	expect_no(error);
	rocksdb_iter_destroy(walk);
	reader->asked += READ_BATCH;
}

static void *read_until_stopped(void *given)
{
	struct reader *reader = given;
	struct bounds bounds[READ_BATCH];
	uint64_t numbers[READ_BATCH];

	while (!atomic_load(&reader->world->stop)) {
		for (unsigned i = 0; i < READ_BATCH; i++)
			numbers[i] = test_random(&reader->seed) % (2 * key_count());
		switch (test_random(&reader->seed) % 8) {
		case 0:
			get_batch(reader, numbers, bounds);
			break;
		case 1:
			get_at_snapshot(reader, numbers, bounds);
			break;
		case 2:
			iterate(reader, numbers, bounds);
			break;
		case 3:
			for (unsigned i = 0; i < READ_BATCH; i++)
				get_pinned(reader, numbers[i]);
			break;
		default:
			for (unsigned i = 0; i < READ_BATCH; i++)
				get_one(reader, numbers[i]);
		}
	}
	return NULL;
}

/* ---- the whole ---------------------------------------------------------- */

static void change_options(rocksdb_options_t *options)
{
	rocksdb_options_set_write_buffer_size(options, test_is_quick() ? 512 << 10 : 8 << 20);
	rocksdb_options_set_target_file_size_base(options, test_is_quick() ? 256 << 10 : 4 << 20);
	rocksdb_options_set_max_bytes_for_level_base(options, test_is_quick() ? 1 << 20 : 16 << 20);
	rocksdb_options_set_max_background_jobs(options, 3);
	rocksdb_options_set_max_subcompactions(options, 2);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
}

/* Every key by iterator, and some of them by lookup. Nobody writes. */
static void expect_all(struct world *world)
{
	struct reader reader = {.world = world, .reading = world->learner.db.reading};
	rocksdb_iterator_t *walk = rocksdb_create_iterator(world->learner.db.rocks, reader.reading);
	char *error = NULL;

	rocksdb_iter_seek_to_first(walk);
	for (uint64_t number = 0; number < 2 * key_count(); number++) {
		struct bounds bounds = {get_done(world, number), get_done(world, number)};
		size_t size = 0;

		if (rocksdb_iter_valid(walk) &&
		    read_key(rocksdb_iter_key(walk, &size)) == number) {
			const char *value = rocksdb_iter_value(walk, &size);

			expect_within(number, bounds, value, size);
			rocksdb_iter_next(walk);
		} else {
			expect_within(number, bounds, NULL, 0);
		}
	}
	expect(!rocksdb_iter_valid(walk));
	rocksdb_iter_get_error(walk, &error);
	expect_no(error);
	rocksdb_iter_destroy(walk);
	for (uint64_t i = 0; i < key_count() / 8; i++)
		get_one(&reader, i * 7 % key_count() * 2);
}

static uint64_t ask_absent(struct world *world)
{
	struct reader reader = {.world = world, .reading = world->learner.db.reading};
	uint64_t before = learner_stats(&world->learner).false_positives, count;

	for (uint64_t i = 0; i < key_count() / 10; i++)
		get_one(&reader, i * 20 + 1);
	wn_rocksdb_drain(world->learner.wn);
	count = learner_stats(&world->learner).false_positives - before;
	fprintf(stderr, "quiet: %" PRIu64 " false positives of %" PRIu64 "\n", count,
		key_count() / 10);
	return count;
}

/* Everything is written once, and then half as much again, with flushes and compactions that
 * somebody asked for. */
static void write_all(struct world *world)
{
	uint64_t count = key_count(), part = count / 8;

	write_round(world, 0, count);
	for (uint64_t first = 0; first < count / 2; first += part) {
		write_round(world, first + count / 3, part);
		learner_flush(&world->learner);
	}
	learner_compact(&world->learner);
	/* The same keys over and over. */
	for (int round = 0; round < 4; round++)
		write_round(world, count / 7, count / 20);
	learner_flush(&world->learner);
}

static void run_readers(struct world *world, uint64_t seed)
{
	struct reader readers[READERS];
	uint64_t asked = 0;

	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = (struct reader){.world = world, .seed = seed + i,
					     .reading = rocksdb_readoptions_create()};
		ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_until_stopped,
						&readers[i]), 0);
	}
	write_all(world);
	atomic_store(&world->stop, true);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		rocksdb_readoptions_destroy(readers[i].reading);
		asked += readers[i].asked;
	}
	fprintf(stderr, "%" PRIu64 " questions while it was written\n", asked);
}

static void expect_quiet_promise(struct world *world)
{
	struct wn_stats stats;

	learner_quiet(&world->learner);
	ck_assert_uint_gt(ask_absent(world), 0);
	ck_assert_uint_eq(ask_absent(world), 0);
	stats = learner_stats(&world->learner);
	fprintf(stderr, "%" PRIu64 " false positives, %" PRIu64 " adaptations, %" PRIu64
		" unfixable, %" PRIu64 " map misses, %" PRIu64 " drops, %" PRIu64 " runs lost\n",
		stats.false_positives, stats.adaptations, stats.unfixable, stats.reversemap_misses,
		stats.queue_drops, stats.key_lists_lost);
}

START_TEST(every_answer_is_right_while_four_threads_read_and_one_writes)
{
	static const struct db_setup setup = {.name = "stress"};
	/* At full length the default store alone. */
	const struct learner_store *store = &learner_stores[_i];
	struct wn_rocksdb_options options = learner_options(store);
	struct world world = {
		.writing = rocksdb_writeoptions_create(),
		.batch = rocksdb_writebatch_create(),
		.begun = calloc(key_count(), sizeof(uint32_t)),
		.done = calloc(key_count(), sizeof(uint32_t)),
	};
	char path[TEST_PATH_SIZE];

	ck_assert(world.begun && world.done);
	test_join(path, test_path(setup.name), "-", store->name);
	rocksdb_writeoptions_disable_WAL(world.writing, 1);
	world.learner = learner_open(path, &setup, change_options, 1, &options);
	run_readers(&world, test_seed("stress", 2718));
	expect_all(&world);
	expect_quiet_promise(&world);
	learner_close(&world.learner);
	world.learner = learner_open(path, &setup, change_options, 1, &options);
	expect_all(&world);
	learner_close(&world.learner);
	rocksdb_writebatch_destroy(world.batch);
	rocksdb_writeoptions_destroy(world.writing);
	free(world.begun);
	free(world.done);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_stress");
	TCase *tcase = tcase_create("stress");
	int result;

	test_make_top();
	tcase_add_loop_test(tcase, every_answer_is_right_while_four_threads_read_and_one_writes, 0,
			    test_is_quick() ? LEARNER_STORES : 1);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
