/* engine_memory.c - filters in front of tables that are in memory: the filters alone decide
 * how fast this is.
 *
 * All keys are in one ordered map, which stands for the disk. A table is a filter and a
 * number; every key says which table holds its newest version, 0 being what was not
 * flushed yet. A lookup asks the tables from the newest to the oldest, and "reads" those
 * that say "maybe".
 *
 * Filters learn through learn.h, as in RocksDB; the reverse map is in memory. One lock: lookups
 * share it, and learn while they do; writes have it to themselves. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "bench_engine.h"
#include "bench/bench_util.h"
#include "learn/learn.h"
#include "learn/lookup.h"
#include "learn/new_table.h"
#include "learn/reader.h"
#include "tools/workload/memory_map.h"
#include "bench/rocksdb_filters.h"

#define MAX_TABLES 64

struct table {
	uint64_t number;
	uint64_t keys, bytes;
	struct rf_filter *stock;
	void *block;
	struct wn__filter_reader *reader;
};

struct engine {
	const struct engine_options *options;
	struct filter_choice choice;
	double stock_bits; /* what a Bloom or Ribbon filter is made with */
	struct wn_config *config;
	struct wn_secret *secret;
	struct wn__learn *teacher; /* NULL: the filters do not learn */
	struct wn__registry *registry;

	pthread_rwlock_t lock;
	struct memory_map map;
	bool unflushed; /* there are keys that are in no table */
	uint64_t unflushed_bytes;
	uint64_t last_number;
	struct table tables[MAX_TABLES]; /* the newest last */
	size_t table_count;
};

struct session {
	struct engine *engine;
};

/* ---- open and close ----------------------------------------------------- */

static bool accept_options(const struct engine_options *options, struct failure *failure)
{
	struct filter_choice choice;
	char message[200];

	if (!filter_choose(options->filter, &choice, failure))
		return false;
	if ((choice.family == FILTER_BLOOM || choice.family == FILTER_RIBBON) &&
	    !rf_check(message, sizeof(message)))
		return fail(failure, "Bloom and Ribbon filters in memory are RocksDB's: %s",
			    message);
	if (options->feedback == FEEDBACK_STATISTICS)
		return fail(failure, "--feedback=statistics belongs to --engine=rocksdb");
	return true;
}

static void close_table(struct table *table)
{
	if (table->stock)
		rf_free(table->stock);
	wn__filter_reader_close(table->reader);
	free(table->block);
}

static bool close_engine(struct engine *engine, struct failure *failure)
{
	(void)failure;
	for (size_t i = 0; i < engine->table_count; i++)
		close_table(&engine->tables[i]);
	if (engine->map.head)
		memory_map_fini(&engine->map);
	if (engine->teacher)
		wn__learn_close(engine->teacher);
	wn__learn_release(engine->teacher);
	wn_config_destroy(engine->config);
	wn_secret_destroy(engine->secret);
	pthread_rwlock_destroy(&engine->lock);
	free(engine);
	return true;
}

static int open_winnow(struct engine *engine)
{
	struct wn__learn_options options = { .background = engine->options->background };
	struct wn__learn_place place = {0};
	int err = wn_config_parse(engine->options->filter, NULL, 0, &engine->config);

	if (err || engine->options->feedback != FEEDBACK_WRAPPER)
		return err;
	options.config = engine->config;
	err = wn__learn_create(&options, engine->secret, &engine->teacher);
	if (!err)
		err = wn__map_memory_create(&place.map);
	if (!err)
		err = wn__learn_open(engine->teacher, &place);
	if (!err)
		engine->registry = wn__learn_registry(engine->teacher);
	return err;
}

static struct engine *open_engine(const struct engine_options *options, struct failure *failure)
{
	struct engine *engine = wn__calloc(1, sizeof(*engine));
	int err;

	if (!engine || !filter_choose(options->filter, &engine->choice, failure)) {
		free(engine);
		return NULL;
	}
	engine->options = options;
	pthread_rwlock_init(&engine->lock, NULL);
	engine->secret = bench_secret(options->seed);
	engine->stock_bits = engine->choice.family == FILTER_RIBBON ?
			     ribbon_parameter(engine->choice.bits_per_key) :
			     engine->choice.bits_per_key;
	err = memory_map_init(&engine->map);
	if (!err && engine->choice.family == FILTER_WINNOW)
		err = open_winnow(engine);
	if (err) {
		close_engine(engine, failure);
		fail(failure, "opening the tables in memory failed: %s", wn_strerror(err));
		return NULL;
	}
	return engine;
}

/* ---- tables ------------------------------------------------------------- */

static int build_stock(struct engine *engine, struct table *table, bool all)
{
	struct rf_builder *builder = rf_builder_create(
		engine->choice.family == FILTER_RIBBON ? RF_RIBBON : RF_BLOOM, engine->stock_bits);

	if (!builder)
		return ENOMEM;
	for (struct map_entry *entry = memory_map_first(&engine->map); entry;
	     entry = entry->next[0])
		if (all || entry->table == 0)
			rf_builder_add(builder, map_entry_key(entry), entry->key_size, 1);
	table->stock = rf_builder_finish(builder);
	if (!table->stock)
		return ENOMEM;
	table->bytes = rf_size(table->stock);
	return 0;
}

static int build_winnow(struct engine *engine, struct table *table, bool all)
{
	struct wn__new_table *learning = NULL;
	struct wn_builder *builder;
	size_t size;
	int err = wn_builder_create(engine->config, engine->secret, &builder);

	if (err)
		return err;
	for (struct map_entry *entry = memory_map_first(&engine->map); entry && !err;
	     entry = entry->next[0])
		if (all || entry->table == 0)
			err = wn_builder_add(builder, map_entry_key(entry), entry->key_size);
	if (engine->teacher)
		wn__new_table_begin(engine->teacher, table->number, &learning);
	wn__new_table_carry_over(learning, builder);
	if (!err)
		err = wn_builder_finish(builder, &table->block, &size);
	if (!err)
		wn__new_table_built(learning, builder, false);
	wn__new_table_end(learning);
	if (!err)
		err = wn__filter_reader_open(table->block, size, engine->secret,
					     engine->registry, &table->reader);
	if (!err)
		table->bytes = size;
	if (engine->teacher)
		wn__learn_drain(engine->teacher);
	wn_builder_destroy(builder);
	return err;
}

static void forget_tables(struct engine *engine)
{
	for (size_t i = 0; i < engine->table_count; i++) {
		struct table *table = &engine->tables[i];

		if (engine->teacher)
			wn__learn_table_gone(engine->teacher, table->number);
		close_table(table);
	}
	engine->table_count = 0;
}

/* A new table of what was not flushed, or of all keys in place of the tables so far. */
static int make_table(struct engine *engine, bool all)
{
	struct table table = { .number = engine->last_number + 1 };
	int err = 0;

	if (engine->choice.family == FILTER_WINNOW)
		err = build_winnow(engine, &table, all);
	else if (engine->choice.family != FILTER_NONE)
		err = build_stock(engine, &table, all);
	if (err) {
		close_table(&table);
		return err;
	}
	if (all)
		forget_tables(engine);
	for (struct map_entry *entry = memory_map_first(&engine->map); entry;
	     entry = entry->next[0]) {
		if (!all && entry->table != 0)
			continue;
		entry->table = table.number;
		table.keys++;
	}
	engine->last_number = table.number;
	engine->tables[engine->table_count++] = table;
	engine->unflushed = false;
	engine->unflushed_bytes = 0;
	return 0;
}

static int flush_locked(struct engine *engine)
{
	if (!engine->unflushed)
		return 0;
	return make_table(engine, engine->table_count == MAX_TABLES);
}

static bool make_tables(struct engine *engine, bool all, struct failure *failure)
{
	int err = 0;

	pthread_rwlock_wrlock(&engine->lock);
	if (!all)
		err = flush_locked(engine);
	else if (engine->map.count > 0)
		err = make_table(engine, true);
	pthread_rwlock_unlock(&engine->lock);
	return !err || fail(failure, "building a filter failed: %s", wn_strerror(err));
}

static bool flush_engine(struct engine *engine, struct failure *failure)
{
	return make_tables(engine, false, failure);
}

static bool compact_engine(struct engine *engine, struct failure *failure)
{
	return make_tables(engine, true, failure);
}

static void settle_engine(struct engine *engine)
{
	(void)engine;
}

/* ---- lookups ------------------------------------------------------------ */

static struct session *begin_session(struct engine *engine, struct failure *failure)
{
	struct session *session = wn__alloc(sizeof(*session));

	if (!session) {
		fail(failure, "no memory for a thread's session");
		return NULL;
	}
	session->engine = engine;
	return session;
}

static void end_session(struct session *session)
{
	free(session);
}

static bool put_pair(struct session *session, const void *key, size_t key_size, const void *value,
		     size_t value_size, struct failure *failure)
{
	struct engine *engine = session->engine;
	struct map_entry *entry;
	int err;

	pthread_rwlock_wrlock(&engine->lock);
	err = memory_map_put(&engine->map, key, key_size, value, value_size, &entry);
	if (!err) {
		entry->table = 0;
		engine->unflushed = true;
		engine->unflushed_bytes += key_size + value_size;
		if (engine->unflushed_bytes > engine->options->write_buffer_size)
			err = flush_locked(engine);
	}
	pthread_rwlock_unlock(&engine->lock);
	return !err || fail(failure, "writing to memory failed: %s", wn_strerror(err));
}

static bool ask_table(struct engine *engine, const struct table *table, const void *key,
		      size_t size, struct wn_hash hash)
{
	switch (engine->choice.family) {
	case FILTER_NONE:
		return true;
	case FILTER_WINNOW:
		return wn__filter_reader_ask(table->reader, hash);
	default:
		return rf_may_match(table->stock, key, size);
	}
}

static void copy_value(const struct map_entry *entry, void *valuep, size_t room,
		       struct look *lookp)
{
	lookp->found = true;
	lookp->size = entry->value_size;
	memcpy(valuep, entry->value, entry->value_size < room ? entry->value_size : room);
}

static void look_up(struct engine *engine, const void *key, size_t size, void *valuep, size_t room,
		    struct look *lookp)
{
	const bool filtered = engine->choice.family != FILTER_NONE;
	struct map_entry *entry = NULL;
	bool read = engine->unflushed;
	struct wn_hash hash = { 0, 0 };

	if (read)
		entry = memory_map_find(&engine->map, key, size);
	if (entry && entry->table == 0) {
		copy_value(entry, valuep, room, lookp);
		return;
	}
	if (engine->choice.family == FILTER_WINNOW)
		hash = wn__lookup_hash(engine->secret, key, size);
	for (size_t i = engine->table_count; i-- > 0;) {
		const struct table *table = &engine->tables[i];

		lookp->queries += filtered;
		if (!ask_table(engine, table, key, size, hash))
			continue;
		lookp->positives += filtered;
		lookp->block_reads++;
		if (!read)
			entry = memory_map_find(&engine->map, key, size);
		read = true;
		if (entry && entry->table == table->number) {
			copy_value(entry, valuep, room, lookp);
			return;
		}
	}
}

static bool get_value(struct session *session, const void *key, size_t size, void *valuep,
		      size_t room, struct look *lookp, struct failure *failure)
{
	struct engine *engine = session->engine;
	struct wn__lookup lookup;

	(void)failure;
	*lookp = (struct look){ .found = false };
	pthread_rwlock_rdlock(&engine->lock);
	if (engine->teacher)
		wn__lookup_begin(&lookup, engine->registry, engine->secret, key, size);
	look_up(engine, key, size, valuep, room, lookp);
	if (engine->teacher)
		wn__lookup_end(&lookup, engine->teacher, lookp->found, false);
	pthread_rwlock_unlock(&engine->lock);
	return true;
}

static bool scan_pairs(struct session *session, const void *key, size_t size, size_t limit,
		       scan_fn *fn, void *arg, struct failure *failure)
{
	struct engine *engine = session->engine;
	struct map_entry *entry;

	(void)failure;
	pthread_rwlock_rdlock(&engine->lock);
	entry = memory_map_seek(&engine->map, key, size);
	for (size_t i = 0; i < limit && entry; i++, entry = entry->next[0])
		if (!fn(arg, map_entry_key(entry), entry->key_size, entry->value,
			entry->value_size))
			break;
	pthread_rwlock_unlock(&engine->lock);
	return true;
}

/* ---- statistics --------------------------------------------------------- */

static void get_stats(struct engine *engine, struct engine_stats *statsp)
{
	struct wn_stats taught = { 0 };

	if (engine->teacher) {
		wn__learn_drain(engine->teacher);
		wn__learn_describe(engine->teacher, &taught);
	}
	*statsp = (struct engine_stats){
		.adaptations = taught.adaptations,
		.unfixable = taught.unfixable,
		.map_misses = taught.reversemap_misses,
		.queue_drops = taught.queue_drops,
		.carried_over = taught.carried_over,
		.learned_bytes = taught.learned_bytes,
		.reversemap_bytes = taught.reversemap_bytes,
	};
	for (size_t i = 0; i < engine->table_count; i++) {
		statsp->filter_bytes += engine->tables[i].bytes;
		statsp->filter_keys += engine->tables[i].keys;
	}
}

static void print_stats(struct engine *engine, FILE *to)
{
	fprintf(to, "keys in memory        %llu, %llu bytes with their values\n",
		(unsigned long long)engine->map.count, (unsigned long long)engine->map.bytes);
	fprintf(to, "all in tables         %s\n", engine->unflushed ? "no" : "yes");
	for (size_t i = engine->table_count; i-- > 0;)
		fprintf(to, "table %-4llu            %llu keys, filter of %llu bytes\n",
			(unsigned long long)engine->tables[i].number,
			(unsigned long long)engine->tables[i].keys,
			(unsigned long long)engine->tables[i].bytes);
}

const struct engine_kind engine_memory = {
	.name = "memory",
	.accept = accept_options,
	.open = open_engine,
	.close = close_engine,
	.flush = flush_engine,
	.compact = compact_engine,
	.settle = settle_engine,
	.stats = get_stats,
	.print_stats = print_stats,
	.begin = begin_session,
	.end = end_session,
	.put = put_pair,
	.get = get_value,
	.scan = scan_pairs,
};
