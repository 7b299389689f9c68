/* engine_rocksdb.c - RocksDB, with its own filters or with winnow's.
 *
 * What a lookup did is read from RocksDB's perf context, which counts filters and blocks
 * alike whosever the filter is. It belongs to the thread, so that a lookup on a thread
 * beside, where winnow learns, is not in it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <winnow/error.h>
#include <winnow/rocksdb.h>

#include "base/alloc.h"
#include "bench_engine.h"

struct engine {
	const struct engine_options *options;
	struct filter_choice choice;
	rocksdb_t *rocks;
	struct wn_rocksdb *winnow; /* NULL: not opened through winnow */
	rocksdb_options_t *rocks_options;
	rocksdb_block_based_table_options_t *table_options;
	rocksdb_cache_t *cache;
	rocksdb_writeoptions_t *write_options;
};

struct session {
	struct engine *engine;
	rocksdb_readoptions_t *options;
	rocksdb_perfcontext_t *context;
};

static bool accept_options(const struct engine_options *options, struct failure *failure)
{
	struct filter_choice choice;

	if (!filter_choose(options->filter, &choice, failure))
		return false;
	if (options->feedback == FEEDBACK_STATISTICS)
		return fail(failure, "--feedback=statistics is not available: databases that are "
				     "not opened through winnow do not learn yet");
	return true;
}

/* Take over RocksDB's message. */
static bool fail_rocks(struct failure *failure, const char *what, char *error)
{
	fail(failure, "%s: %s", what, error);
	rocksdb_free(error);
	return false;
}

/* ---- open and close ----------------------------------------------------- */

static void set_stock_filter(struct engine *engine)
{
	rocksdb_filterpolicy_t *policy = NULL;

	if (engine->choice.family == FILTER_BLOOM)
		policy = rocksdb_filterpolicy_create_bloom_full(engine->choice.bits_per_key);
	else if (engine->choice.family == FILTER_RIBBON)
		/* -1: at every level; by default flushed tables get Bloom filters. */
		policy = rocksdb_filterpolicy_create_ribbon_hybrid(
			ribbon_parameter(engine->choice.bits_per_key), -1);
	if (policy)
		rocksdb_block_based_options_set_filter_policy(engine->table_options, policy);
}

static void make_options(struct engine *engine)
{
	const struct engine_options *given = engine->options;
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();

	engine->rocks_options = options;
	engine->table_options = tables;
	engine->write_options = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(engine->write_options, given->disable_wal);
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_max_background_jobs(options, 2);
	rocksdb_options_set_write_buffer_size(options, (size_t)given->write_buffer_size);
	rocksdb_options_set_use_direct_reads(options, given->direct_reads);
	rocksdb_options_set_info_log_level(options, 3 /* errors */);
	rocksdb_block_based_options_set_block_size(tables, (size_t)given->block_size);
	if (given->cache_size > 0) {
		engine->cache = rocksdb_cache_create_lru((size_t)given->cache_size);
		rocksdb_block_based_options_set_block_cache(tables, engine->cache);
	} else {
		rocksdb_block_based_options_set_no_block_cache(tables, 1);
	}
	set_stock_filter(engine);
}

/* Winnow's filter without learning: a policy like any other. */
static bool set_winnow_filter(struct engine *engine, struct failure *failure)
{
	rocksdb_filterpolicy_t *policy;
	int err = wn_rocksdb_filterpolicy(engine->options->filter, NULL, &policy);

	if (err)
		return fail(failure, "making the filter policy '%s' failed: %s",
			    engine->options->filter, wn_strerror(err));
	rocksdb_block_based_options_set_filter_policy(engine->table_options, policy);
	return true;
}

static void open_rocks(struct engine *engine, char **errorp)
{
	const struct engine_options *given = engine->options;
	const struct wn_rocksdb_options winnow = {
		.filter = given->filter,
		.background = given->background,
	};

	rocksdb_options_set_block_based_table_factory(engine->rocks_options,
						      engine->table_options);
	if (engine->choice.family == FILTER_WINNOW && given->feedback == FEEDBACK_WRAPPER)
		engine->rocks = wn_rocksdb_open(engine->rocks_options, given->path, &winnow,
						&engine->winnow, errorp);
	else
		engine->rocks = rocksdb_open(engine->rocks_options, given->path, errorp);
}

static bool close_engine(struct engine *engine, struct failure *failure)
{
	(void)failure;
	if (engine->winnow)
		wn_rocksdb_close(engine->winnow);
	else if (engine->rocks)
		rocksdb_close(engine->rocks);
	rocksdb_writeoptions_destroy(engine->write_options);
	rocksdb_options_destroy(engine->rocks_options);
	rocksdb_block_based_options_destroy(engine->table_options);
	if (engine->cache)
		rocksdb_cache_destroy(engine->cache);
	free(engine);
	return true;
}

static struct engine *open_engine(const struct engine_options *options, struct failure *failure)
{
	struct engine *engine = wn__calloc(1, sizeof(*engine));
	char *error = NULL;

	if (!engine || !filter_choose(options->filter, &engine->choice, failure)) {
		free(engine);
		return NULL;
	}
	engine->options = options;
	make_options(engine);
	if (engine->choice.family == FILTER_WINNOW && options->feedback == FEEDBACK_NONE &&
	    !set_winnow_filter(engine, failure)) {
		close_engine(engine, failure);
		return NULL;
	}
	open_rocks(engine, &error);
	if (error) {
		fail(failure, "opening the database in '%s' failed: %s%s", options->path, error,
		     options->direct_reads ? " (with --direct_reads, which not every file system "
					     "has)" : "");
		rocksdb_free(error);
		close_engine(engine, failure);
		return NULL;
	}
	return engine;
}

/* ---- flush and compact -------------------------------------------------- */

static bool is_busy(struct engine *engine)
{
	static const char *const properties[] = {
		"rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending",
		"rocksdb.num-running-compactions", "rocksdb.compaction-pending",
	};
	uint64_t errors = 0;
	bool busy = false;

	/* After an error, a full disk say, what is pending stays so. */
	if (rocksdb_property_int(engine->rocks, "rocksdb.background-errors", &errors) == 0 &&
	    errors > 0)
		return false;
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
		uint64_t value = 0;

		if (rocksdb_property_int(engine->rocks, properties[i], &value) == 0)
			busy = busy || value > 0;
	}
	return busy;
}

static void settle_engine(struct engine *engine)
{
	const struct timespec moment = { 0, 5000000 };

	while (is_busy(engine))
		nanosleep(&moment, NULL);
	if (engine->winnow)
		wn_rocksdb_drain(engine->winnow);
}

static bool flush_engine(struct engine *engine, struct failure *failure)
{
	rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
	char *error = NULL;

	rocksdb_flushoptions_set_wait(options, 1);
	rocksdb_flush(engine->rocks, options, &error);
	rocksdb_flushoptions_destroy(options);
	if (error)
		return fail_rocks(failure, "flushing failed", error);
	settle_engine(engine);
	return true;
}

static bool compact_engine(struct engine *engine, struct failure *failure)
{
	rocksdb_compactoptions_t *options;

	if (!flush_engine(engine, failure))
		return false;
	options = rocksdb_compactoptions_create();
	/* 2: the bottommost level too, so that every table is written by this run. */
	rocksdb_compactoptions_set_bottommost_level_compaction(options, 2);
	rocksdb_compact_range_opt(engine->rocks, options, NULL, 0, NULL, 0);
	rocksdb_compactoptions_destroy(options);
	settle_engine(engine);
	return true;
}

/* ---- statistics --------------------------------------------------------- */

/* A number of the aggregated table properties, "name=123; ". */
static uint64_t read_property(const char *properties, const char *name)
{
	const char *at = properties ? strstr(properties, name) : NULL;

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void get_stats(struct engine *engine, struct engine_stats *statsp)
{
	char *properties = rocksdb_property_value(engine->rocks,
						  "rocksdb.aggregated-table-properties");
	struct wn_stats winnow = { 0 };

	if (engine->winnow) {
		wn_rocksdb_drain(engine->winnow);
		wn_rocksdb_stats(engine->winnow, &winnow);
	}
	*statsp = (struct engine_stats){
		.adaptations = winnow.adaptations,
		.unfixable = winnow.unfixable,
		.map_misses = winnow.reversemap_misses,
		.queue_drops = winnow.queue_drops,
		.carried_over = winnow.carried_over,
		.filter_bytes = read_property(properties, "filter block size="),
		.filter_keys = read_property(properties, "# entries="),
		.learned_bytes = winnow.learned_bytes,
		.reversemap_bytes = winnow.reversemap_bytes,
	};
	rocksdb_free(properties);
}

static void print_stats(struct engine *engine, FILE *to)
{
	static const char *const names[] = { "rocksdb.stats",
					     "rocksdb.aggregated-table-properties" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *value = rocksdb_property_value(engine->rocks, names[i]);

		if (value)
			fprintf(to, "%s\n", value);
		rocksdb_free(value);
	}
}

/* ---- operations --------------------------------------------------------- */

static struct session *begin_session(struct engine *engine, struct failure *failure)
{
	struct session *session = wn__alloc(sizeof(*session));

	if (!session) {
		fail(failure, "no memory for a thread's session");
		return NULL;
	}
	session->engine = engine;
	session->options = rocksdb_readoptions_create();
	rocksdb_set_perf_level(rocksdb_enable_count);
	session->context = rocksdb_perfcontext_create();
	return session;
}

static void end_session(struct session *session)
{
	rocksdb_set_perf_level(rocksdb_disable);
	rocksdb_perfcontext_destroy(session->context);
	rocksdb_readoptions_destroy(session->options);
	free(session);
}

static bool put_pair(struct session *session, const void *key, size_t key_size, const void *value,
		     size_t value_size, struct failure *failure)
{
	struct engine *engine = session->engine;
	char *error = NULL;

	rocksdb_put(engine->rocks, engine->write_options, key, key_size, value, value_size,
		    &error);
	return !error || fail_rocks(failure, "writing to the database failed", error);
}

static bool get_value(struct session *session, const void *key, size_t size, void *valuep,
		      size_t room, struct look *lookp, struct failure *failure)
{
	struct engine *engine = session->engine;
	rocksdb_pinnableslice_t *pinned;
	char *error = NULL;
	uint64_t hits;

	*lookp = (struct look){ .found = false };
	rocksdb_perfcontext_reset(session->context);
	if (engine->winnow)
		pinned = wn_rocksdb_get_pinned(engine->winnow, session->options, key, size,
					       &error);
	else
		pinned = rocksdb_get_pinned(engine->rocks, session->options, key, size, &error);
	if (error)
		return fail_rocks(failure, "reading from the database failed", error);
	hits = rocksdb_perfcontext_metric(session->context, rocksdb_bloom_sst_hit_count);
	lookp->positives = hits;
	lookp->queries = hits + rocksdb_perfcontext_metric(session->context,
							   rocksdb_bloom_sst_miss_count);
	lookp->block_reads = rocksdb_perfcontext_metric(session->context,
							rocksdb_block_read_count);
	if (pinned) {
		const char *value = rocksdb_pinnableslice_value(pinned, &lookp->size);

		lookp->found = true;
		memcpy(valuep, value, lookp->size < room ? lookp->size : room);
		rocksdb_pinnableslice_destroy(pinned);
	}
	return true;
}

static bool scan_pairs(struct session *session, const void *key, size_t size, size_t limit,
		       scan_fn *fn, void *arg, struct failure *failure)
{
	rocksdb_iterator_t *iterator = rocksdb_create_iterator(session->engine->rocks,
							       session->options);
	char *error = NULL;
	bool more = true;

	rocksdb_iter_seek(iterator, key, size);
	for (size_t i = 0; i < limit && more && rocksdb_iter_valid(iterator); i++) {
		size_t key_size, value_size;
		const char *found = rocksdb_iter_key(iterator, &key_size);
		const char *value = rocksdb_iter_value(iterator, &value_size);

		more = fn(arg, found, key_size, value, value_size);
		rocksdb_iter_next(iterator);
	}
	rocksdb_iter_get_error(iterator, &error);
	rocksdb_iter_destroy(iterator);
	return !error || fail_rocks(failure, "scanning the database failed", error);
}

const struct engine_kind engine_rocksdb = {
	.name = "rocksdb",
	.persistent = true,
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
