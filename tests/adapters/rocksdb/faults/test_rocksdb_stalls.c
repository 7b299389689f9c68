/* test_rocksdb_stalls.c - nothing waits for itself.
 *
 * RocksDB with one thread for flushes and hardly any for compactions, with buffers so small and
 * limits so low that writers are stopped again and again, while several threads flood the filters
 * with false positives. A flush that waited for a write, or a worker that held what a reader
 * needs, would stand still for good. Everybody counts what it does; a watchdog ends the test when
 * nobody got on for minutes. How long a thing takes decides nothing else. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/support/rocksdb_stores.h"

#define WRITERS 2
#define READERS 3
#define WATCHDOG_SECONDS 300
#define NUMBERS 40000 /* even ones are keys */

static const struct kind {
	const char *name;
	int store; /* of learner_stores */
	bool background;
	int flushes, jobs;
	uint32_t subcompactions;
	size_t queue_length;
} kinds[] = {
	{.name = "one_flush", .flushes = 1, .background = true, .queue_length = 64},
	{.name = "one_job", .jobs = 1},
	{.name = "two_jobs", .jobs = 2, .subcompactions = 2, .background = true,
	 .queue_length = 4096},
	{.name = "sidecar", .store = 1, .flushes = 1},
};

#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* ---- the watchdog ------------------------------------------------------- */

enum { WAITING, PUTTING, GETTING, ITERATING, FLUSHING, COMPACTING, DRAINING, CLOSING };

/* What a thread is at, and how often it got on. */
struct sign {
	atomic_uint_fast64_t count;
	atomic_int doing;
};

struct world {
	struct learner learner;
	const struct kind *kind;
	atomic_bool stop;
	struct sign signs[WRITERS + READERS + 1]; /* the last is the main thread's */
	uint64_t seed;
	uint64_t stopped_seen; /* RocksDB said that writes are stopped */

	pthread_t watchdog;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool is_over;
};

static void show(struct sign *sign, int doing)
{
	atomic_store(&sign->doing, doing);
	atomic_fetch_add(&sign->count, 1);
}

static uint64_t count_signs(struct world *world)
{
	uint64_t count = 0;

	for (unsigned i = 0; i <= WRITERS + READERS; i++)
		count += atomic_load(&world->signs[i].count);
	return count;
}

static void bite(struct world *world)
{
	static const char *const names[] = {"waiting", "putting", "getting", "iterating",
					    "flushing", "compacting", "draining", "closing"};

	fprintf(stderr, "%s: nobody got on for %d seconds\n", world->kind->name, WATCHDOG_SECONDS);
	for (unsigned i = 0; i <= WRITERS + READERS; i++)
		fprintf(stderr, "thread %u: %s\n", i, names[atomic_load(&world->signs[i].doing)]);
	fprintf(stderr, "the core has the stacks: gdb -batch -ex 'thread apply all bt'\n");
	abort();
}

static void *watch(void *given)
{
	struct world *world = given;
	uint64_t last = 0;
	int idle = 0;

	pthread_mutex_lock(&world->lock);
	while (!world->is_over) {
		struct timespec until;
		uint64_t count;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&world->over, &world->lock, &until);
		count = count_signs(world);
		idle = count == last ? idle + 1 : 0;
		last = count;
		if (idle > WATCHDOG_SECONDS)
			bite(world);
	}
	pthread_mutex_unlock(&world->lock);
	return NULL;
}

static void start_watchdog(struct world *world)
{
	ck_assert_int_eq(pthread_mutex_init(&world->lock, NULL), 0);
	ck_assert_int_eq(pthread_cond_init(&world->over, NULL), 0);
	ck_assert_int_eq(pthread_create(&world->watchdog, NULL, watch, world), 0);
}

static void end_watchdog(struct world *world)
{
	pthread_mutex_lock(&world->lock);
	world->is_over = true;
	pthread_cond_signal(&world->over);
	pthread_mutex_unlock(&world->lock);
	pthread_join(world->watchdog, NULL);
	pthread_cond_destroy(&world->over);
	pthread_mutex_destroy(&world->lock);
}

/* ---- threads ------------------------------------------------------------ */

struct worker {
	pthread_t thread;
	struct world *world;
	struct sign *sign;
	uint64_t seed;
};

/* A value starts with its number. */
static void *write_until_stopped(void *given)
{
	struct worker *worker = given;
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	uint64_t value[16] = {0};
	char key[DB_KEY_SIZE];
	char *error = NULL;

	while (!atomic_load(&worker->world->stop)) {
		value[0] = test_random(&worker->seed) % (NUMBERS / 2) * 2;
		show(worker->sign, PUTTING);
		db_key(value[0], key);
		rocksdb_put(worker->world->learner.db.rocks, writing, key, sizeof(key),
			    (char *)value, sizeof(value), &error);
		expect_no(error);
		if (test_random(&worker->seed) % 20000 == 0) {
			show(worker->sign, FLUSHING);
			learner_flush(&worker->world->learner);
		}
		if (test_random(&worker->seed) % 100000 == 0) {
			show(worker->sign, COMPACTING);
			learner_compact(&worker->world->learner);
		}
	}
	show(worker->sign, WAITING);
	rocksdb_writeoptions_destroy(writing);
	return NULL;
}

/* Before the first round every even number was written, and none is deleted. */
static void get(struct worker *worker, rocksdb_readoptions_t *reading, uint64_t number)
{
	char key[DB_KEY_SIZE];
	char *error = NULL;
	uint64_t found;
	size_t size;
	char *value;

	db_key(number, key);
	value = wn_rocksdb_get(worker->world->learner.wn, reading, key, sizeof(key), &size, &error);
	expect_no(error);
	expect((value != NULL) == (number % 2 == 0));
	if (value) {
		expect(size >= sizeof(found));
		memcpy(&found, value, sizeof(found));
		expect(found == number);
	}
	rocksdb_free(value);
}

static void iterate(struct worker *worker, rocksdb_readoptions_t *reading)
{
	rocksdb_iterator_t *walk =
		rocksdb_create_iterator(worker->world->learner.db.rocks, reading);

	rocksdb_iter_seek_to_first(walk);
	for (unsigned i = 0; i < 1000; i++, rocksdb_iter_next(walk))
		expect(rocksdb_iter_valid(walk));
	rocksdb_iter_destroy(walk);
}

static void *read_until_stopped(void *given)
{
	struct worker *worker = given;
	rocksdb_readoptions_t *reading = rocksdb_readoptions_create();

	while (!atomic_load(&worker->world->stop)) {
		uint64_t chance = test_random(&worker->seed);

		show(worker->sign, GETTING);
		/* Mostly what is not there. */
		get(worker, reading, test_random(&worker->seed) % NUMBERS | (chance % 8 != 0));
		if (chance % 10000 == 0) {
			show(worker->sign, ITERATING);
			iterate(worker, reading);
		}
		/* One of them only: the queue may not be empty before the flood is over. */
		if (chance % 5000 == 1 && worker->sign == &worker->world->signs[WRITERS]) {
			show(worker->sign, DRAINING);
			wn_rocksdb_drain(worker->world->learner.wn);
		}
	}
	show(worker->sign, WAITING);
	rocksdb_readoptions_destroy(reading);
	return NULL;
}

/* ---- the whole ---------------------------------------------------------- */

static const struct kind *kind_now;

static void set_stalling(rocksdb_options_t *options)
{
	rocksdb_options_enable_statistics(options);
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
	rocksdb_options_set_max_write_buffer_number(options, 2);
	rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
	rocksdb_options_set_level0_slowdown_writes_trigger(options, 3);
	rocksdb_options_set_level0_stop_writes_trigger(options, 4);
	rocksdb_options_set_target_file_size_base(options, 64 << 10);
	rocksdb_options_set_max_bytes_for_level_base(options, 256 << 10);
	if (kind_now->flushes) {
		rocksdb_options_set_max_background_flushes(options, kind_now->flushes);
		rocksdb_options_set_max_background_compactions(options, 1);
	}
	if (kind_now->jobs)
		rocksdb_options_set_max_background_jobs(options, kind_now->jobs);
	if (kind_now->subcompactions)
		rocksdb_options_set_max_subcompactions(options, kind_now->subcompactions);
}

static int64_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void run_threads(struct world *world)
{
	struct worker workers[WRITERS + READERS];
	int64_t end = seconds_now() + (test_is_quick() ? 1 : 15);

	for (unsigned i = 0; i < WRITERS + READERS; i++) {
		workers[i] = (struct worker){.world = world, .sign = &world->signs[i],
					     .seed = world->seed + i};
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL,
						i < WRITERS ? write_until_stopped :
							      read_until_stopped,
						&workers[i]), 0);
	}
	while (seconds_now() < end) {
		world->stopped_seen +=
			learner_property(&world->learner, "rocksdb.is-write-stopped");
		usleep(20000);
	}
	atomic_store(&world->stop, true);
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		pthread_join(workers[i].thread, NULL);
}

static void print_stalls(struct world *world)
{
	char *text = rocksdb_options_statistics_get_string(world->learner.db.options);
	const char *line = text ? strstr(text, "rocksdb.stall.micros") : NULL;
	struct wn_stats stats = learner_stats(&world->learner);

	fprintf(stderr,
		"%s: %.*s, seen stopped %" PRIu64 " times; %" PRIu64 " false positives, %" PRIu64
		" adaptations, %" PRIu64 " misses, %" PRIu64 " drops, %" PRIu64 " runs stored\n",
		world->kind->name, line ? (int)strcspn(line, "\n") : 0, line ? line : "",
		world->stopped_seen, stats.false_positives, stats.adaptations,
		stats.reversemap_misses, stats.queue_drops, stats.key_lists_stored);
	rocksdb_free(text);
}

START_TEST(no_deadlock_when_writes_are_stopped_and_the_queue_is_flooded)
{
	static const struct db_setup setup = {.name = "stalls"};
	struct world world = {.kind = &kinds[_i], .seed = test_seed(kinds[_i].name, 5150)};
	struct wn_rocksdb_options options = learner_options(&learner_stores[kinds[_i].store]);
	struct sign *own = &world.signs[WRITERS + READERS];

	options.background = kinds[_i].background;
	options.queue_length = kinds[_i].queue_length;
	kind_now = &kinds[_i];
	start_watchdog(&world);
	world.learner = learner_open(test_path(kinds[_i].name), &setup, set_stalling, 1, &options);
	db_put(&world.learner.db, 0, NUMBERS);
	run_threads(&world);
	show(own, DRAINING);
	wn_rocksdb_drain(world.learner.wn);
	print_stalls(&world);
	show(own, CLOSING);
	learner_close(&world.learner);
	end_watchdog(&world);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_stalls");
	TCase *tcase = tcase_create("stalls");
	int result;

	test_make_top();
	tcase_add_loop_test(tcase, no_deadlock_when_writes_are_stopped_and_the_queue_is_flooded, 0,
			    KINDS);
	suite_add_tcase(suite, tcase);
	result = test_run(suite);
	test_remove_top();
	return result;
}
