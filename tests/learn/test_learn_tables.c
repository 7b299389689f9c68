/* test_learn_tables.c - key lists of tables on their way to the store; a queue that is full. */
#include <pthread.h>

#include "tests/support/learn_host.h"

/* ---- a store that does otherwise ---------------------------------------- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static struct wn__map *gated;
static struct wn__map_ops gated_ops;
static const struct wn__map_ops *real_ops;

START_TEST(a_table_that_goes_takes_everything_along)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table one = table_build(&host, 0, 1), two = table_build(&host, KEYS, 2);
	struct wn_stats stats;

	wn__learn_drain(host.learn);
	for (unsigned round = 0; round < 3; round++) {
		ask_absent(&host, &one, 3000);
		ask_absent(&host, &two, 3000);
	}
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.key_lists, 2);
	wn__learn_table_gone(host.learn, 1);
	wn__learn_table_gone(host.learn, 2);
	wn__learn_table_gone(host.learn, 3);
	wn__learn_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.key_lists_dropped, 2);
	ck_assert_uint_eq(stats.key_lists, 0);
	ck_assert_uint_eq(stats.reversemap_bytes, 0);
	ck_assert_uint_eq(stats.lessons, 0);
	/* Readers that are still open go on, and teach nothing. */
	expect_stored(&host, &one);
	ask_absent(&host, &two, 3000);
	table_free(&one);
	table_free(&two);
	host_close(&host);
}
END_TEST

/* The worker is held up by a store that waits; the queue takes so many and drops the rest. */
static int wait_and_look_up(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			    uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			    size_t *countp)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return real_ops->lookup(map, list, minirun, rank, entries, max, countp);
}

START_TEST(a_full_queue_drops_and_counts)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){
		.background = true, .queue_length = 16});
	struct table table = table_build(&host, 0, 1);
	struct wn_stats stats;
	uint64_t wrong = 0;

	wn__learn_drain(host.learn);
	gated = host.learn->map;
	real_ops = gated->ops;
	gated_ops = *real_ops;
	gated_ops.lookup = wait_and_look_up;
	pthread_mutex_lock(&gate);
	gated->ops = &gated_ops;
	for (uint64_t i = 0; wrong < 100; i++)
		wrong += look_up(&host, &table, (UINT64_C(1) << 40) + i);
	pthread_mutex_unlock(&gate);
	wn__learn_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.false_positives, 100);
	/* One may have been in the worker's hands. */
	ck_assert_uint_ge(stats.queue_drops, 100 - 17);
	ck_assert_uint_eq(stats.adaptations + stats.queue_drops, 100);
	expect_stored(&host, &table);
	table_free(&table);
	host_close(&host);
}
END_TEST

static int wait_and_put(struct wn__map *map, const struct wn__keylist *list,
			const uint64_t *uppers)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return real_ops->put(map, list, uppers);
}

static void gate_puts(struct host *host)
{
	gated = host->learn->map;
	real_ops = gated->ops;
	gated_ops = *real_ops;
	gated_ops.put = wait_and_put;
	gated->ops = &gated_ops;
}

/* ---- tables with many filters ------------------------------------------- */

#define PARTITIONS 300

static size_t put_calls, put_lists, drop_calls;

static void count_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	put_calls++;
	put_lists += count;
	for (size_t i = 0; i < count; i++)
		puts[i].err = real_ops->put(map, puts[i].list, puts[i].uppers);
}

static size_t count_drop_many(struct wn__map *map, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			      size_t count)
{
	size_t dropped = 0;

	drop_calls++;
	for (size_t i = 0; i < count; i++) {
		expect(i == 0 || memcmp(ids[i - 1], ids[i], WN_BLOCK_ID_SIZE) < 0);
		dropped += real_ops->drop(map, ids[i]) == 0;
	}
	return dropped;
}

static void count_calls(struct host *host)
{
	gated = host->learn->map;
	real_ops = gated->ops;
	gated_ops = *real_ops;
	gated_ops.put_many = count_put_many;
	gated_ops.drop_many = count_drop_many;
	gated->ops = &gated_ops;
	put_calls = put_lists = drop_calls = 0;
}

/* A table that is still being built: so many partitions of 8 keys, each the builder's next. */
struct building {
	struct wn_builder *builder;
	struct wn__keylist last;
	struct wn_hash hash; /* a key of the last */
};

static void build_partitions(struct host *host, struct building *building, unsigned count,
			     uint64_t owner)
{
	static uint64_t number;

	for (unsigned i = 0; i < count; i++) {
		struct wn_block_info info;
		size_t size;
		void *block;

		for (unsigned k = 0; k < 8; k++) {
			building->hash = hash_of(host, ++number);
			expect(wn_builder_add_hash(building->builder, building->hash) == 0);
		}
		expect(wn_builder_finish(building->builder, &block, &size) == 0);
		expect(wn_block_read(block, size, WN_CHECK_HEADER, &info, NULL) == 0);
		expect(wn__keylist_of_block(&info, &building->last) == 0);
		building->last.owner = owner;
		wn__worker_hold(host->learn, &building->last,
				wn__builder_take_uppers(building->builder));
		wn_builder_reset(building->builder);
		free(block);
	}
}

static struct building begin_building(struct host *host)
{
	struct building building = {0};

	ck_assert_int_eq(wn_builder_create(host->config, host->secret, &building.builder), 0);
	return building;
}

static void end_building(struct host *host, struct building *building)
{
	wn__worker_end_table(host->learn, building->last.id);
	wn_builder_destroy(building->builder);
}

/* Is the key of the last partition to be had from where it waits? */
static bool is_learnable(struct host *host, const struct building *building)
{
	struct wn__fingerprint print = wn__split(building->hash, building->last.slots);
	unsigned bits = building->last.remainder_bits;
	struct wn__keylist_entry entries[8];
	size_t count;

	wn__worker_lookup(host->learn, &building->last,
			  print.quotient << bits | print.hi >> (64 - bits), 0, entries, 8, &count);
	return count > 0;
}

START_TEST(the_key_lists_of_a_table_are_stored_and_dropped_together)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct building one, two;

	wn__learn_drain(host.learn);
	count_calls(&host);
	one = begin_building(&host);
	two = begin_building(&host);
	for (unsigned i = 0; i < PARTITIONS; i++) {
		build_partitions(&host, &one, 1, 1);
		build_partitions(&host, &two, 1, 2);
	}
	ck_assert(is_learnable(&host, &one));
	ck_assert(is_learnable(&host, &two));
	end_building(&host, &one);
	end_building(&host, &two);
	wn__learn_drain(host.learn);
	ck_assert(!is_learnable(&host, &one)); /* it waits no longer */
	ck_assert_uint_eq(put_calls, 2);
	ck_assert_uint_eq(put_lists, 2 * PARTITIONS);
	ck_assert_uint_eq(host_stats(&host).key_lists_stored, 2 * PARTITIONS);
	wn__learn_table_gone(host.learn, 1);
	wn__learn_drain(host.learn);
	ck_assert_uint_eq(drop_calls, 1);
	ck_assert_uint_eq(host_stats(&host).key_lists_dropped, PARTITIONS);
	ck_assert_uint_eq(host_stats(&host).key_lists, PARTITIONS);
	host_close(&host);
}
END_TEST

/* What is held waits neither for ever nor in vain. */
START_TEST(a_table_that_is_not_finished_is_stored_by_a_drain_and_dropped_by_its_end)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct building building = begin_building(&host);

	count_calls(&host);
	build_partitions(&host, &building, PARTITIONS, 1);
	wn__learn_drain(host.learn);
	ck_assert_uint_eq(put_calls, 1);
	build_partitions(&host, &building, PARTITIONS, 1);
	ck_assert(is_learnable(&host, &building));
	wn__learn_table_gone(host.learn, 1);
	ck_assert(!is_learnable(&host, &building));
	end_building(&host, &building);
	wn__learn_drain(host.learn);
	ck_assert_uint_eq(put_lists, PARTITIONS);
	ck_assert_uint_eq(host_stats(&host).key_lists, 0);
	ck_assert_uint_eq(host_stats(&host).key_lists_lost, 0);
	building = begin_building(&host);
	build_partitions(&host, &building, 5, 2);
	wn_builder_destroy(building.builder);
	host_close(&host); /* stores what is held */
	ck_assert_uint_eq(put_lists, PARTITIONS + 5);
}
END_TEST

/* A store that takes its time holds up nobody. */
START_TEST(a_key_list_that_waits_to_be_stored_teaches_too)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table table, other;
	struct wn_stats stats;
	uint64_t first;

	gate_puts(&host);
	pthread_mutex_lock(&gate);
	table = table_build(&host, 0, 1);
	other = table_build(&host, KEYS, 2);
	/* The first is in the worker's hands, or is in the queue like the second. */
	first = 0;
	for (uint64_t i = 0; i < 5000; i++) {
		first += look_up(&host, &table, (UINT64_C(1) << 40) + i);
		first += look_up(&host, &other, (UINT64_C(1) << 41) + i);
	}
	ck_assert_uint_gt(first, 100);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.adaptations, first);
	ck_assert_uint_eq(stats.reversemap_misses + stats.unfixable, 0);
	for (uint64_t i = 0; i < 5000; i++) {
		expect(!look_up(&host, &table, (UINT64_C(1) << 40) + i));
		expect(!look_up(&host, &other, (UINT64_C(1) << 41) + i));
	}
	expect_stored(&host, &table);
	expect_stored(&host, &other);
	/* What is gone before it was stored is not stored, and not remembered. */
	wn__learn_table_gone(host.learn, 2);
	wn__learn_table_gone(host.learn, 1);
	pthread_mutex_unlock(&gate);
	wn__learn_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_le(stats.key_lists_stored, 1);
	ck_assert_uint_eq(stats.key_lists, 0);
	ck_assert_uint_eq(stats.lessons, 0);
	table_free(&table);
	table_free(&other);
	host_close(&host);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("learn_tables");
	TCase *tests = tcase_create("learn_tables");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, a_table_that_goes_takes_everything_along, 0, 2);
	tcase_add_test(tests, a_full_queue_drops_and_counts);
	tcase_add_test(tests, the_key_lists_of_a_table_are_stored_and_dropped_together);
	tcase_add_test(
		tests, a_table_that_is_not_finished_is_stored_by_a_drain_and_dropped_by_its_end);
	tcase_add_loop_test(tests, a_key_list_that_waits_to_be_stored_teaches_too, 0, 2);
	return test_run(suite);
}
