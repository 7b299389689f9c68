/* engine_leveldb.c - LevelDB with its own Bloom filter, with winnow's, or none.
 *
 * LevelDB counts nothing, so the filter policy that it is given counts and passes on; a
 * lookup calls it on its own thread. Databases opened through winnow count themselves. "none"
 * is a policy, too, whose filters are empty and say "maybe": then the data blocks that lookups
 * look into are counted all the same. What is counted as a data block read may have come from
 * the cache. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <leveldb/c.h>

#include <winnow/error.h>
#include <winnow/leveldb.h>

#include "base/alloc.h"
#include "bench_engine.h"
#include "bench/bench_util.h"
#include "leveldb_bloom.h"

struct counting {
	struct leveldb_bloom *bloom; /* NULL: none */
	atomic_uint_fast64_t bytes, keys; /* of filters built */
};

struct engine {
	const struct engine_options *options;
	struct filter_choice choice;
	leveldb_t *level;
	struct wn_leveldb *winnow; /* NULL: not opened through winnow */
	leveldb_options_t *level_options;
	leveldb_cache_t *cache;
	leveldb_filterpolicy_t *policy;
	leveldb_writeoptions_t *write_options;
	struct counting counting;
};

struct session {
	struct engine *engine;
	leveldb_readoptions_t *options;
};

/* Of this thread's lookup. */
static _Thread_local uint64_t asked, matched;

static bool accept_winnow(const struct engine_options *options, struct failure *failure)
{
	leveldb_filterpolicy_t *policy;
	char message[300] = "no memory";

	if (wn_leveldb_filterpolicy(options->filter, NULL, message, sizeof(message), &policy))
		return fail(failure, "'%s' cannot be had in LevelDB: %s", options->filter,
			    message);
	leveldb_filterpolicy_destroy(policy);
	return true;
}

static bool accept_options(const struct engine_options *options, struct failure *failure)
{
	struct filter_choice choice;

	if (!filter_choose(options->filter, &choice, failure))
		return false;
	if (choice.family == FILTER_RIBBON)
		return fail(failure, "LevelDB has no Ribbon filter; it has bloom and none");
	if (choice.family == FILTER_WINNOW && !accept_winnow(options, failure))
		return false;
	if (options->feedback == FEEDBACK_STATISTICS)
		return fail(failure, "--feedback=statistics belongs to --engine=rocksdb");
	if (options->direct_reads)
		return fail(failure, "LevelDB has no direct reads");
	if (options->disable_wal)
		return fail(failure, "LevelDB always writes its log");
	return true;
}

static bool fail_level(struct failure *failure, const char *what, char *error)
{
	fail(failure, "%s: %s", what, error);
	leveldb_free(error);
	return false;
}

/* ---- the policy --------------------------------------------------------- */

static void destroy_policy(void *state)
{
	struct counting *counting = state;

	leveldb_bloom_destroy(counting->bloom);
	counting->bloom = NULL;
}

static char *create_filter(void *state, const char *const *keys, const size_t *sizes, int count,
			   size_t *sizep)
{
	struct counting *counting = state;
	char *filter;

	*sizep = 0;
	if (!counting->bloom)
		return NULL;
	filter = leveldb_bloom_build(counting->bloom, keys, sizes, count, sizep);
	/* An empty filter would deny its keys, and LevelDB takes no error. */
	if (!filter)
		bench_die("no memory for a filter");
	atomic_fetch_add(&counting->bytes, *sizep);
	atomic_fetch_add(&counting->keys, (uint64_t)count);
	return filter;
}

static uint8_t may_match(void *state, const char *key, size_t size, const char *filter,
			 size_t filter_size)
{
	const struct counting *counting = state;
	bool match;

	match = !counting->bloom || leveldb_bloom_may_match(counting->bloom, key, size, filter,
							    filter_size);
	asked++;
	matched += match;
	return match;
}

static const char *name_policy(void *state)
{
	const struct counting *counting = state;

	return counting->bloom ? leveldb_bloom_name(counting->bloom) : "winnow-bench.none";
}

/* ---- open and close ----------------------------------------------------- */

static bool close_engine(struct engine *engine, struct failure *failure)
{
	(void)failure;
	if (engine->winnow)
		wn_leveldb_close(engine->winnow);
	else if (engine->level)
		leveldb_close(engine->level);
	leveldb_writeoptions_destroy(engine->write_options);
	leveldb_options_destroy(engine->level_options);
	leveldb_filterpolicy_destroy(engine->policy);
	leveldb_cache_destroy(engine->cache);
	free(engine);
	return true;
}

/* Winnow's filter without learning: a policy like any other. */
static struct leveldb_bloom *make_winnow_policy(const struct engine *engine)
{
	leveldb_filterpolicy_t *policy;
	struct leveldb_bloom *bloom;

	if (wn_leveldb_filterpolicy(engine->options->filter, NULL, NULL, 0, &policy))
		bench_die("no memory for a filter policy");
	bloom = leveldb_bloom_wrap(policy);
	if (!bloom)
		bench_die("no memory for a filter policy");
	return bloom;
}

static bool learns(const struct engine *engine)
{
	return engine->choice.family == FILTER_WINNOW &&
	       engine->options->feedback == FEEDBACK_WRAPPER;
}

static void make_options(struct engine *engine)
{
	const struct engine_options *given = engine->options;
	leveldb_options_t *options = leveldb_options_create();

	if (engine->choice.family == FILTER_BLOOM)
		engine->counting.bloom =
			leveldb_bloom_create((int)fmax(1.0, round(engine->choice.bits_per_key)));
	else if (engine->choice.family == FILTER_WINNOW && !learns(engine))
		engine->counting.bloom = make_winnow_policy(engine);
	engine->policy = leveldb_filterpolicy_create(&engine->counting, destroy_policy,
						     create_filter, may_match, name_policy);
	engine->cache = leveldb_cache_create_lru((size_t)given->cache_size);
	engine->level_options = options;
	engine->write_options = leveldb_writeoptions_create();
	leveldb_options_set_create_if_missing(options, 1);
	leveldb_options_set_compression(options, leveldb_no_compression);
	leveldb_options_set_filter_policy(options, engine->policy);
	leveldb_options_set_cache(options, engine->cache);
	leveldb_options_set_block_size(options, (size_t)given->block_size);
	leveldb_options_set_write_buffer_size(options, (size_t)given->write_buffer_size);
}

static struct engine *open_engine(const struct engine_options *options, struct failure *failure)
{
	const struct wn_leveldb_options winnow = { .filter = options->filter };
	struct engine *engine = wn__calloc(1, sizeof(*engine));
	char *error = NULL;

	if (!engine || !filter_choose(options->filter, &engine->choice, failure)) {
		free(engine);
		return NULL;
	}
	engine->options = options;
	make_options(engine);
	if (learns(engine))
		engine->level = wn_leveldb_open(engine->level_options, options->path, &winnow,
						&engine->winnow, &error);
	else
		engine->level = leveldb_open(engine->level_options, options->path, &error);
	if (error) {
		fail(failure, "opening the database in '%s' failed: %s", options->path, error);
		leveldb_free(error);
		close_engine(engine, failure);
		return NULL;
	}
	return engine;
}

/* ---- flush and compact -------------------------------------------------- */

/* LevelDB does not say when it is at work; when its list of tables has stood still for a
 * while, it is taken to be at rest. */
static void settle_engine(struct engine *engine)
{
	const struct timespec moment = { 0, 50000000 };
	char *before = leveldb_property_value(engine->level, "leveldb.sstables");

	for (int still = 0; still < 4 && before;) {
		char *now;

		nanosleep(&moment, NULL);
		now = leveldb_property_value(engine->level, "leveldb.sstables");
		still = now && strcmp(before, now) == 0 ? still + 1 : 0;
		leveldb_free(before);
		before = now;
	}
	leveldb_free(before);
}

/* The C interface has no flush; compacting a range writes out the memtable first, and in a
 * range behind all keys there is nothing else to do. */
static bool flush_engine(struct engine *engine, struct failure *failure)
{
	char last[64];

	(void)failure;
	memset(last, 0xff, sizeof(last));
	leveldb_compact_range(engine->level, last, sizeof(last), last, sizeof(last));
	settle_engine(engine);
	return true;
}

static bool compact_engine(struct engine *engine, struct failure *failure)
{
	if (!flush_engine(engine, failure))
		return false;
	leveldb_compact_range(engine->level, NULL, 0, NULL, 0);
	settle_engine(engine);
	return true;
}

/* ---- statistics --------------------------------------------------------- */

static void get_winnow_stats(struct engine *engine, struct engine_stats *statsp)
{
	struct wn_stats stats;

	wn_leveldb_stats(engine->winnow, &stats);
	*statsp = (struct engine_stats){
		.adaptations = stats.adaptations,
		.unfixable = stats.unfixable,
		.map_misses = stats.reversemap_misses,
		.carried_over = stats.carried_over,
		.filter_bytes = stats.filter_bytes,
		.filter_keys = stats.filter_keys,
		.learned_bytes = stats.learned_bytes + stats.negatives_bytes,
		.reversemap_bytes = stats.reversemap_bytes,
	};
}

static void get_stats(struct engine *engine, struct engine_stats *statsp)
{
	*statsp = (struct engine_stats){
		.filter_bytes = atomic_load(&engine->counting.bytes),
		.filter_keys = atomic_load(&engine->counting.keys),
	};
	if (engine->winnow)
		get_winnow_stats(engine, statsp);
}

static void print_stats(struct engine *engine, FILE *to)
{
	static const char *const names[] = { "leveldb.stats", "leveldb.approximate-memory-usage" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *value = leveldb_property_value(engine->level, names[i]);

		if (value)
			fprintf(to, "%s\n%s\n", names[i], value);
		leveldb_free(value);
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
	session->options = leveldb_readoptions_create();
	return session;
}

static void end_session(struct session *session)
{
	leveldb_readoptions_destroy(session->options);
	free(session);
}

static bool put_pair(struct session *session, const void *key, size_t key_size, const void *value,
		     size_t value_size, struct failure *failure)
{
	struct engine *engine = session->engine;
	char *error = NULL;

	leveldb_put(engine->level, engine->write_options, key, key_size, value, value_size,
		    &error);
	return !error || fail_level(failure, "writing to the database failed", error);
}

static bool get_value(struct session *session, const void *key, size_t size, void *valuep,
		      size_t room, struct look *lookp, struct failure *failure)
{
	const bool filtered = session->engine->counting.bloom || session->engine->winnow;
	char *error = NULL, *value;

	*lookp = (struct look){ .found = false };
	asked = matched = 0;
	value = session->engine->winnow ?
			wn_leveldb_get(session->engine->winnow, session->options, key, size,
				       &lookp->size, &error) :
			leveldb_get(session->engine->level, session->options, key, size,
				    &lookp->size, &error);
	if (error)
		return fail_level(failure, "reading from the database failed", error);
	if (session->engine->winnow)
		wn_leveldb_last_get(&asked, &matched);
	lookp->queries = filtered ? asked : 0;
	lookp->positives = filtered ? matched : 0;
	lookp->block_reads = matched;
	if (value) {
		lookp->found = true;
		memcpy(valuep, value, lookp->size < room ? lookp->size : room);
		leveldb_free(value);
	}
	return true;
}

static bool scan_pairs(struct session *session, const void *key, size_t size, size_t limit,
		       scan_fn *fn, void *arg, struct failure *failure)
{
	leveldb_iterator_t *iterator = leveldb_create_iterator(session->engine->level,
							       session->options);
	char *error = NULL;
	bool more = true;

	leveldb_iter_seek(iterator, key, size);
	for (size_t i = 0; i < limit && more && leveldb_iter_valid(iterator); i++) {
		size_t key_size, value_size;
		const char *found = leveldb_iter_key(iterator, &key_size);
		const char *value = leveldb_iter_value(iterator, &value_size);

		more = fn(arg, found, key_size, value, value_size);
		leveldb_iter_next(iterator);
	}
	leveldb_iter_get_error(iterator, &error);
	leveldb_iter_destroy(iterator);
	return !error || fail_level(failure, "scanning the database failed", error);
}

const struct engine_kind engine_leveldb = {
	.name = "leveldb",
	.persistent = true,
	.maps_tables = true,
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
