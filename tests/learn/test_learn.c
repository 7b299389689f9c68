/* test_learn.c - how the filters of a database learn, with a host that is a list of blocks. */
#include <pthread.h>
#include <string.h>

#include <winnow/block.h>
#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tests/support/common.h"
#include "learn/learn.h"
#include "kinds/kind.h"
#include "base/sort.h"

/* One filter in twenty queries errs, of either kind. */
static const char *const kinds[] = {"aqf:remainder_bits=4", "sscf:bits_per_key=6"};

/* ---- a host ------------------------------------------------------------- */

/* One table: numbers from `first` on are stored, 0 to KEYS - 1 of them. */
#define KEYS 20000

struct table {
	struct wn__keylist list;
	void *block;
	struct wn_filter *filter;
	struct wn__lessons *lessons;
	uint64_t first;
};

struct host {
	struct wn_config *config;
	struct wn_secret *secret;
	struct wn__learn *learn;
};

static struct host host_open(const char *kind, struct wn__learn_options options)
{
	struct wn__map *map;
	struct host host;

	ck_assert_int_eq(wn_config_parse(kind, NULL, 0, &host.config), 0);
	host.secret = test_secret(7);
	options.config = host.config;
	ck_assert_int_eq(wn__learn_create(&options, host.secret, &host.learn), 0);
	ck_assert_int_eq(wn__map_memory_create(&map), 0);
	ck_assert_int_eq(wn__worker_adopt(host.learn, map), 0);
	ck_assert_int_eq(wn__worker_start(host.learn), 0);
	return host;
}

static void host_close(struct host *host)
{
	wn__worker_stop(host->learn);
	wn__learn_release(host->learn);
	wn_config_destroy(host->config);
	wn_secret_destroy(host->secret);
}

static struct wn__learn_stats host_stats(const struct host *host)
{
	struct wn__learn_stats stats;

	wn__learn_describe(host->learn, &stats);
	return stats;
}

static struct wn_hash hash_of(const struct host *host, uint64_t number)
{
	return wn_hash(host->secret, &number, sizeof(number));
}

/* Build a table as a host does: against what is known, and the run handed over. */
static struct table table_build(struct host *host, uint64_t first, uint64_t owner)
{
	const struct wn__negatives_view *view = wn__negatives_view(host->learn->negatives);
	struct table table = {.first = first};
	struct wn_builder *builder;
	struct wn_block_info info;
	size_t size, count;

	ck_assert_int_eq(wn_builder_create(host->config, host->secret, &builder), 0);
	for (uint64_t i = 0; i < KEYS; i++)
		expect(wn_builder_add_hash(builder, hash_of(host, first + i)) == 0);
	wn__learn_carry_over(host->learn, view, builder);
	wn__negatives_unview(view);
	ck_assert_int_eq(wn_builder_finish(builder, &table.block, &size), 0);
	ck_assert_int_eq(wn_block_read(table.block, size, WN_CHECK_HEADER, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &table.list), 0);
	table.list.owner = owner;
	wn__worker_put(host->learn, &table.list, wn_builder_hashes(builder, &count));
	ck_assert_int_eq(wn_filter_open(table.block, size, WN_CHECK_ALL, host->secret,
					&table.filter, NULL), 0);
	ck_assert_int_eq(wn__filter_lessons(host->learn->registry, table.filter, &table.lessons),
			 0);
	wn_builder_destroy(builder);
	return table;
}

/* The hashes of the numbers from 0 on, sorted. */
static struct wn_hash *sorted_hashes(const struct host *host)
{
	struct wn_hash *hashes = calloc(KEYS, sizeof(*hashes));

	for (uint64_t i = 0; i < KEYS; i++)
		hashes[i] = hash_of(host, i);
	ck_assert_int_eq(wn__sort_hashes(hashes, KEYS), 0);
	return hashes;
}

/* The run of a table that another host built with these numbers. */
static void table_put(struct host *host, const struct wn__keylist *list)
{
	struct wn_hash *hashes = sorted_hashes(host);

	wn__worker_put(host->learn, list, hashes);
	wn__worker_drain(host->learn);
	free(hashes);
}

/* With all of each hash. */
static void put_whole(struct host *host, const struct wn__keylist *list)
{
	struct wn_hash *hashes = sorted_hashes(host);

	ck_assert_int_eq(wn__map_put(host->learn->map, list, hashes, 16), 0);
	free(hashes);
}

static void table_free(struct table *table)
{
	wn__lessons_release(table->lessons);
	wn_filter_close(table->filter);
	free(table->block);
}

static bool table_asks(const struct table *table, struct wn_hash hash)
{
	struct wn_match match;
	bool maybe = wn__filter_query_learned(table->filter, table->lessons, hash, &match);

	if (maybe)
		wn__trace_note(&table->list, hash, &match);
	return maybe;
}

/* A lookup in one table; was it asked for nothing? */
static bool look_up(struct host *host, const struct table *table, uint64_t number)
{
	bool traced = wn__learn_begin_lookup();
	bool stored = number >= table->first && number < table->first + KEYS;
	bool maybe;

	if (wn__learn_wants_queries(host->learn))
		wn__trace_ask(wn_secret_id(host->secret), hash_of(host, number));
	maybe = table_asks(table, hash_of(host, number));
	expect(maybe || !stored);
	wn__learn_end_lookup(host->learn, traced, maybe && stored, false);
	return maybe && !stored;
}

/* The false positives among `count` absent numbers. */
static uint64_t ask_absent(struct host *host, const struct table *table, uint64_t count)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++)
		wrong += look_up(host, table, (UINT64_C(1) << 40) + i);
	wn__worker_drain(host->learn);
	return wrong;
}

static void expect_stored(struct host *host, const struct table *table)
{
	for (uint64_t i = 0; i < KEYS; i++)
		expect(!look_up(host, table, table->first + i));
}

/* ---- a store that does otherwise ---------------------------------------- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static struct wn__map *gated;
static struct wn__map_ops gated_ops;
static const struct wn__map_ops *real_ops;

/* ---- tests -------------------------------------------------------------- */

START_TEST(a_false_positive_is_paid_for_once)
{
	struct host host = host_open(kinds[_i / 2], (struct wn__learn_options){
		.background = _i % 2 == 0, .queue_length = 1 << 16});
	struct table table = table_build(&host, 0, 1);
	struct wn__learn_stats stats;
	uint64_t first;

	wn__worker_drain(host.learn);
	first = ask_absent(&host, &table, 10000);
	ck_assert_uint_gt(first, 100);
	ck_assert_uint_eq(ask_absent(&host, &table, 10000), 0);
	expect_stored(&host, &table);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.false_positives, first);
	ck_assert_uint_eq(stats.adaptations, first);
	ck_assert_uint_eq(stats.repeated_false_positives, 0);
	/* Of kinds that want costs, keys that were asked for twice, too. */
	ck_assert_uint_ge(stats.negatives, first);
	if (_i / 2 == 0)
		ck_assert_uint_eq(stats.negatives, first);
	ck_assert_uint_eq(stats.map_runs, 1);
	ck_assert_uint_ge(stats.map_bytes, 8 * KEYS);
	/* A kind without fingerprints wants no more of each hash than its minirun. */
	ck_assert_uint_le(stats.map_bytes, (_i / 2 ? 10 : 12) * KEYS);
	ck_assert_uint_gt(stats.map_reads, 0);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* What may happen to the run of a filter. The query's minirun is empty, or would be if all its
 * keys were in the run: to take what is missing for empty would deny keys. */
enum { MISSING, DROPPED_MEANWHILE, OTHER_FILTERS, OTHER_SHAPE, FEWER_KEYS, OTHER_SECRET, LOSSES };

static int lose_page(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
		     uint32_t rank, struct wn__keylist_entry *entries, size_t max, size_t *countp);

static void lose_run(struct host *host, struct wn__keylist *list, int loss)
{
	struct wn__keylist other = *list;

	if (loss == DROPPED_MEANWHILE) {
		gated = host->learn->map;
		real_ops = gated->ops;
		gated_ops = *real_ops;
		gated_ops.lookup = lose_page;
		gated->ops = &gated_ops;
		return;
	}
	ck_assert_int_eq(wn__map_drop(host->learn->map, list->id), 0);
	other.id[3] ^= loss == OTHER_FILTERS;
	other.remainder_bits -= loss == OTHER_SHAPE;
	other.secret_id ^= loss == OTHER_SECRET;
	other.key_count -= loss == FEWER_KEYS;
	if (loss != MISSING)
		table_put(host, &other);
}

static int lose_page(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
		     uint32_t rank, struct wn__keylist_entry *entries, size_t max, size_t *countp)
{
	int err = real_ops->lookup(map, list, minirun, rank, entries, max, countp);

	/* A store that finds no page says so. */
	return err == WN__MAP_NO_PLACE ? WN_ERR_NOT_FOUND : err;
}

START_TEST(without_a_run_nothing_is_learned)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	struct wn__learn_stats stats;
	uint64_t first;

	wn__worker_drain(host.learn);
	lose_run(&host, &table.list, _i);
	first = ask_absent(&host, &table, 5000);
	ck_assert_uint_gt(first, 50);
	ck_assert_uint_eq(ask_absent(&host, &table, 5000), first);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.lessons, 0);
	ck_assert_uint_eq(stats.adaptations, 0);
	ck_assert_uint_eq(stats.map_misses, 2 * first);
	expect_stored(&host, &table);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* One false positive in 16 million is in a stored key's minirun: here they are made so. */
START_TEST(what_shares_a_minirun_with_stored_keys_is_told_from_each)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	struct wn__keylist_entry found;
	uint64_t told = 0;

	wn__worker_drain(host.learn);
	/* All bits of each hash: otherwise they cannot be told apart, and are unfixable. */
	ck_assert_int_eq(wn__map_drop(host.learn->map, table.list.id), 0);
	put_whole(&host, &table.list);
	for (uint64_t i = 0; i < KEYS; i++) {
		struct wn_hash hash = hash_of(&host, i);
		struct wn_match match;
		bool traced;

		hash.lo ^= UINT64_C(1) << i % 8;
		if (!wn__filter_query_learned(table.filter, table.lessons, hash, &match))
			continue;
		expect(wn__map_lookup(host.learn->map, &table.list, match.minirun, 0,
				       &found) == 0);
		traced = wn__learn_begin_lookup();
		expect(table_asks(&table, hash));
		wn__learn_end_lookup(host.learn, traced, false, false);
		expect(!table_asks(&table, hash));
		expect(table_asks(&table, hash_of(&host, i)));
		told++;
	}
	fprintf(stderr, "%" PRIu64 " told from the stored key\n", told);
	ck_assert_uint_gt(told, 100);
	ck_assert_uint_eq(host_stats(&host).adaptations, told);
	expect_stored(&host, &table);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(a_key_that_is_reported_is_not_denied)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	struct wn__learn_stats stats;

	wn__worker_drain(host.learn);
	/* A deleted key: the filter says "maybe" and nothing is found. */
	for (uint64_t i = 0; i < 1000; i++) {
		bool traced = wn__learn_begin_lookup();

		expect(table_asks(&table, hash_of(&host, i)));
		wn__learn_end_lookup(host.learn, traced, false, false);
	}
	expect_stored(&host, &table);
	stats = host_stats(&host);
	/* Some were taken for another key of the same minirun, and that was wrong. */
	ck_assert_uint_eq(stats.unfixable + stats.adaptations, 1000);
	ck_assert_uint_gt(stats.unfixable, 900);
	if (_i == 1)
		ck_assert_uint_eq(stats.unfixable, 1000);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(what_comes_again_is_counted)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	struct wn__trace_entry entry = {.filter = table.list, .hash = hash_of(&host, 1 << 30)};

	entry.began = wn__trace_clock();
	wn__learn_report(host.learn, &entry);
	ck_assert_uint_eq(host_stats(&host).repeated_false_positives, 0);
	/* A lookup beside that one, which could not know. */
	wn__learn_report(host.learn, &entry);
	ck_assert_uint_eq(host_stats(&host).repeated_false_positives, 0);
	entry.began = wn__trace_clock();
	wn__learn_report(host.learn, &entry);
	wn__learn_report(host.learn, &entry);
	ck_assert_uint_eq(host_stats(&host).repeated_false_positives, 2);
	/* Another filter's is another. */
	entry.filter.id[0] ^= 1;
	wn__learn_report(host.learn, &entry);
	ck_assert_uint_eq(host_stats(&host).repeated_false_positives, 2);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(the_next_filter_is_built_against_what_is_known)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1), next, stranger;
	uint64_t first, carried, fresh;

	wn__worker_drain(host.learn);
	first = ask_absent(&host, &table, 1000);
	ck_assert_uint_gt(first, 10);
	/* What nobody knew about it asks the same of a table with other keys. */
	stranger = table_build(&host, UINT64_C(1) << 50, 2);
	next = table_build(&host, 0, 3);
	wn__worker_drain(host.learn);
	fresh = 0;
	carried = 0;
	for (uint64_t i = 0; i < 1000; i++) {
		struct wn_hash hash = hash_of(&host, (UINT64_C(1) << 40) + i);

		if (!wn_filter_query_hash(table.filter, hash, NULL))
			continue;
		carried += wn_filter_query_hash(next.filter, hash, NULL);
		fresh += wn_filter_query_hash(stranger.filter, hash, NULL);
	}
	fprintf(stderr, "%" PRIu64 " false positives, %" PRIu64 " come again, %" PRIu64
		" in another table\n", first, carried, fresh);
	ck_assert_uint_le(carried, _i == 0 ? 0 : first / 10);
	ck_assert_uint_le(fresh, _i == 0 ? 0 : first / 10);
	table_free(&table);
	table_free(&next);
	table_free(&stranger);
	host_close(&host);
}
END_TEST

/* ---- popular missing keys ----------------------------------------------- */

#define POPULAR 300
#define TIMES 100

/* As a lookup of a batch, or alone. */
static void ask_for(struct host *host, const struct table *table, uint64_t number, bool batched)
{
	uint32_t secret_id = wn_secret_id(host->secret);
	struct wn__batch batch;
	bool traced;

	if (!batched) {
		look_up(host, table, number);
		return;
	}
	traced = wn__learn_begin_lookup();
	table_asks(table, hash_of(host, number));
	wn__learn_end_batch(host->learn, traced, &batch);
	wn__batch_confirm(&batch, secret_id, hash_of(host, number), false, false);
}

/* The popular ones, again and again, among others that come once. */
static void ask_popular(struct host *host, const struct table *table, bool batched)
{
	uint64_t once = UINT64_C(1) << 42;

	for (unsigned time = 0; time < TIMES; time++) {
		for (uint64_t i = 0; i < POPULAR; i++)
			ask_for(host, table, (UINT64_C(1) << 41) + i, batched);
		for (uint64_t i = 0; i < POPULAR; i++)
			ask_for(host, table, once++, batched);
	}
}

/* How many of the popular ones does the filter itself say "maybe" to? */
static uint64_t count_popular(struct host *host, const struct table *table)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < POPULAR; i++)
		count += wn_filter_query_hash(table->filter,
					      hash_of(host, (UINT64_C(1) << 41) + i), NULL);
	return count;
}

/* Whether the old filter was wrong about them or not: a filter with other keys errs on others. */
START_TEST(new_filters_know_the_missing_keys_that_are_popular)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1), next, ignorant;
	struct wn__learn_stats stats;
	uint64_t known, unknown;

	wn__worker_drain(host.learn);
	ignorant = table_build(&host, UINT64_C(1) << 50, 2);
	unknown = count_popular(&host, &ignorant);
	ask_popular(&host, &table, _i);
	stats = host_stats(&host);
	/* Of those that came once, none is known but the false positives. */
	ck_assert_uint_ge(stats.negatives, POPULAR * 9 / 10);
	ck_assert_uint_le(stats.negatives, POPULAR + stats.false_positives);
	next = table_build(&host, UINT64_C(1) << 50, 3);
	known = count_popular(&host, &next);
	fprintf(stderr, "%" PRIu64 " false positives, %" PRIu64 " if they are known\n", unknown,
		known);
	ck_assert_uint_gt(unknown, 5);
	ck_assert_uint_le(known, unknown / 5);
	table_free(&table);
	table_free(&next);
	table_free(&ignorant);
	host_close(&host);
}
END_TEST

/* Filters of other kinds are told of their false positives only, and nobody pays for more. */
START_TEST(kinds_that_want_no_costs_are_told_of_false_positives_only)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	struct wn__learn_stats stats;

	wn__worker_drain(host.learn);
	ck_assert(!wn__learn_wants_queries(host.learn));
	ask_popular(&host, &table, false);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.negatives, stats.false_positives);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* A lookup that found something, or came to no answer, says nothing of missing keys. */
START_TEST(only_lookups_that_found_nothing_count)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);

	wn__worker_drain(host.learn);
	for (unsigned i = 0; i < 1000; i++) {
		bool traced = wn__learn_begin_lookup();

		wn__trace_ask(wn_secret_id(host.secret), hash_of(&host, i % 5));
		wn__learn_end_lookup(host.learn, traced, i % 2, i % 2 == 0);
		/* A filter that was not asked. */
		traced = wn__learn_begin_lookup();
		wn__learn_end_lookup(host.learn, traced, false, false);
	}
	ck_assert_uint_eq(host_stats(&host).negatives, 0);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(a_cost_is_about_how_often_a_key_was_asked_for)
{
	struct host host = host_open(kinds[1], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	const struct wn__negatives_view *view;

	wn__worker_drain(host.learn);
	for (uint64_t i = 0; i < 1200000; i++)
		look_up(&host, &table, (UINT64_C(1) << 41) + (i % 12 != 0));
	view = wn__negatives_view(host.learn->negatives);
	ck_assert_uint_eq(view->count, 2);
	fprintf(stderr, "costs %.0f and %.0f\n", view->negatives[0].cost,
		view->negatives[1].cost);
	ck_assert_int_eq(wn_hash_compare(view->negatives[0].hash,
					 hash_of(&host, (UINT64_C(1) << 41) + 1)), 0);
	ck_assert(view->negatives[0].cost > 500000 && view->negatives[0].cost < 1200000);
	ck_assert(view->negatives[1].cost > 45000 && view->negatives[1].cost < 110000);
	wn__negatives_unview(view);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(the_costliest_are_carried_over_and_not_all)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	const struct wn__negatives_view *view;
	struct wn_builder *builder;
	void *block;
	size_t size;

	for (uint64_t i = 0; i < 3000; i++)
		ck_assert_int_eq(wn__learn_add_negative(host.learn, host.secret,
							 hash_of(&host, i), 1 + (i < 10)), 0);
	view = wn__negatives_view(host.learn->negatives);
	ck_assert_uint_eq(view->count, 3000);
	ck_assert_int_eq(wn_builder_create(host.config, host.secret, &builder), 0);
	for (uint64_t i = 0; i < 2000; i++)
		expect(wn_builder_add_hash(builder, hash_of(&host, 10000 + i)) == 0);
	wn__learn_carry_over(host.learn, view, builder);
	ck_assert_uint_eq(host_stats(&host).carried_over, 2000);
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	free(block);
	wn_builder_reset(builder);
	expect(wn_builder_add_hash(builder, hash_of(&host, 10000)) == 0);
	wn__learn_carry_over(host.learn, view, builder);
	ck_assert_uint_eq(host_stats(&host).carried_over, 2000 + WN__MIN_CARRIED);
	wn__negatives_unview(view);
	wn_builder_destroy(builder);
	host_close(&host);
}
END_TEST

START_TEST(a_table_that_goes_takes_everything_along)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table one = table_build(&host, 0, 1), two = table_build(&host, KEYS, 2);
	struct wn__learn_stats stats;

	wn__worker_drain(host.learn);
	for (unsigned round = 0; round < 3; round++) {
		ask_absent(&host, &one, 3000);
		ask_absent(&host, &two, 3000);
	}
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.map_runs, 2);
	wn__worker_retire(host.learn, 1);
	wn__worker_retire(host.learn, 2);
	wn__worker_retire(host.learn, 3);
	wn__worker_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_eq(stats.runs_retired, 2);
	ck_assert_uint_eq(stats.map_runs, 0);
	ck_assert_uint_eq(stats.map_bytes, 0);
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
	struct wn__learn_stats stats;
	uint64_t wrong = 0;

	wn__worker_drain(host.learn);
	gated = host.learn->map;
	real_ops = gated->ops;
	gated_ops = *real_ops;
	gated_ops.lookup = wait_and_look_up;
	pthread_mutex_lock(&gate);
	gated->ops = &gated_ops;
	for (uint64_t i = 0; wrong < 100; i++)
		wrong += look_up(&host, &table, (UINT64_C(1) << 40) + i);
	pthread_mutex_unlock(&gate);
	wn__worker_drain(host.learn);
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
			const struct wn_hash *hashes, unsigned hash_bytes)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return real_ops->put(map, list, hashes, hash_bytes);
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

static size_t put_calls, put_runs, drop_calls;

static void count_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	put_calls++;
	put_runs += count;
	for (size_t i = 0; i < count; i++)
		puts[i].err = real_ops->put(map, puts[i].list, puts[i].hashes,
					    puts[i].hash_bytes);
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
	put_calls = put_runs = drop_calls = 0;
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
		size_t size, keys;
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
				wn_builder_hashes(building->builder, &keys));
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

START_TEST(the_runs_of_a_table_are_stored_and_dropped_together)
{
	struct host host = host_open(kinds[0], (struct wn__learn_options){0});
	struct building one, two;

	wn__worker_drain(host.learn);
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
	wn__worker_drain(host.learn);
	ck_assert(!is_learnable(&host, &one)); /* it waits no longer */
	ck_assert_uint_eq(put_calls, 2);
	ck_assert_uint_eq(put_runs, 2 * PARTITIONS);
	ck_assert_uint_eq(host_stats(&host).runs_stored, 2 * PARTITIONS);
	wn__worker_retire(host.learn, 1);
	wn__worker_drain(host.learn);
	ck_assert_uint_eq(drop_calls, 1);
	ck_assert_uint_eq(host_stats(&host).runs_retired, PARTITIONS);
	ck_assert_uint_eq(host_stats(&host).map_runs, PARTITIONS);
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
	wn__worker_drain(host.learn);
	ck_assert_uint_eq(put_calls, 1);
	build_partitions(&host, &building, PARTITIONS, 1);
	ck_assert(is_learnable(&host, &building));
	wn__worker_retire(host.learn, 1);
	ck_assert(!is_learnable(&host, &building));
	end_building(&host, &building);
	wn__worker_drain(host.learn);
	ck_assert_uint_eq(put_runs, PARTITIONS);
	ck_assert_uint_eq(host_stats(&host).map_runs, 0);
	ck_assert_uint_eq(host_stats(&host).runs_lost, 0);
	building = begin_building(&host);
	build_partitions(&host, &building, 5, 2);
	wn_builder_destroy(building.builder);
	host_close(&host); /* stores what is held */
	ck_assert_uint_eq(put_runs, PARTITIONS + 5);
}
END_TEST

/* A store that takes its time holds up nobody. */
START_TEST(a_run_that_waits_to_be_stored_teaches_too)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table table, other;
	struct wn__learn_stats stats;
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
	ck_assert_uint_eq(stats.map_misses + stats.unfixable, 0);
	for (uint64_t i = 0; i < 5000; i++) {
		expect(!look_up(&host, &table, (UINT64_C(1) << 40) + i));
		expect(!look_up(&host, &other, (UINT64_C(1) << 41) + i));
	}
	expect_stored(&host, &table);
	expect_stored(&host, &other);
	/* What is gone before it was stored is not stored, and not remembered. */
	wn__worker_retire(host.learn, 2);
	wn__worker_retire(host.learn, 1);
	pthread_mutex_unlock(&gate);
	wn__worker_drain(host.learn);
	stats = host_stats(&host);
	ck_assert_uint_le(stats.runs_stored, 1);
	ck_assert_uint_eq(stats.map_runs, 0);
	ck_assert_uint_eq(stats.lessons, 0);
	table_free(&table);
	table_free(&other);
	host_close(&host);
}
END_TEST

static void *ask_for_long(void *given)
{
	void **both = given;

	for (unsigned round = 0; round < 3; round++)
		for (uint64_t i = 0; i < 20000; i++) {
			look_up(both[0], both[1], (UINT64_C(1) << 40) + i);
			look_up(both[0], both[1], i % KEYS);
		}
	return NULL;
}

START_TEST(threads_ask_while_it_learns)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);
	void *both[] = {&host, &table};
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_for_long, both), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	wn__worker_drain(host.learn);
	expect_stored(&host, &table);
	table_free(&table);
	host_close(&host);
}
END_TEST

/* A reader in a cache outlives its database, and is found there when it is opened again. */
START_TEST(a_reader_from_before_learns_on_when_the_database_is_opened_again)
{
	static const struct wn__learn_options options = {.name = "shelf"};
	struct host host = host_open(kinds[_i], options), again, other;
	struct table table = table_build(&host, 0, 1);
	const struct wn__learn_options stranger = {.name = "other"};
	struct wn__keylist list = table.list;
	uint64_t first, last;

	wn__worker_drain(host.learn);
	ask_absent(&host, &table, 500);
	wn__worker_stop(host.learn);
	again = host_open(kinds[_i], options);
	other = host_open(kinds[_i], stranger);
	ck_assert_ptr_eq(again.learn->registry, host.learn->registry);
	ck_assert_ptr_ne(other.learn->registry, host.learn->registry);
	table_put(&again, &list);
	first = ask_absent(&again, &table, 5000);
	for (unsigned round = 0; round < 4; round++)
		last = ask_absent(&again, &table, 5000);
	ck_assert_uint_gt(first, 50);
	ck_assert_uint_eq(last, 0);
	expect_stored(&again, &table);
	host_close(&host);
	table_free(&table);
	host_close(&again);
	host_close(&other);
}
END_TEST

START_TEST(a_stopped_engine_still_answers)
{
	struct host host = host_open(kinds[_i], (struct wn__learn_options){0});
	struct table table = table_build(&host, 0, 1);

	wn__worker_drain(host.learn);
	ask_absent(&host, &table, 3000);
	wn__worker_stop(host.learn);
	expect_stored(&host, &table);
	ask_absent(&host, &table, 3000);
	table_free(&table);
	wn__learn_release(host.learn);
	wn_config_destroy(host.config);
	wn_secret_destroy(host.secret);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine");
	TCase *tests = tcase_create("engine");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, a_false_positive_is_paid_for_once, 0, 4);
	tcase_add_loop_test(tests, without_a_run_nothing_is_learned, 0, LOSSES);
	tcase_add_test(tests, what_shares_a_minirun_with_stored_keys_is_told_from_each);
	tcase_add_loop_test(tests, a_key_that_is_reported_is_not_denied, 0, 2);
	tcase_add_test(tests, what_comes_again_is_counted);
	tcase_add_loop_test(tests, the_next_filter_is_built_against_what_is_known, 0, 2);
	tcase_add_loop_test(tests, new_filters_know_the_missing_keys_that_are_popular, 0, 2);
	tcase_add_test(tests, kinds_that_want_no_costs_are_told_of_false_positives_only);
	tcase_add_test(tests, only_lookups_that_found_nothing_count);
	tcase_add_test(tests, a_cost_is_about_how_often_a_key_was_asked_for);
	tcase_add_test(tests, the_costliest_are_carried_over_and_not_all);
	tcase_add_loop_test(tests, a_table_that_goes_takes_everything_along, 0, 2);
	tcase_add_test(tests, a_full_queue_drops_and_counts);
	tcase_add_test(tests, the_runs_of_a_table_are_stored_and_dropped_together);
	tcase_add_test(
		tests, a_table_that_is_not_finished_is_stored_by_a_drain_and_dropped_by_its_end);
	tcase_add_loop_test(tests, a_run_that_waits_to_be_stored_teaches_too, 0, 2);
	tcase_add_loop_test(tests, threads_ask_while_it_learns, 0, 2);
	tcase_add_loop_test(tests, a_stopped_engine_still_answers, 0, 2);
	tcase_add_loop_test(
		tests, a_reader_from_before_learns_on_when_the_database_is_opened_again, 0, 2);
	return test_run(suite);
}
