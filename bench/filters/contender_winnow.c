/* contender_winnow.c - winnow's blocks: built, opened and asked by the library's public functions.
 * Only --path reaches inside. */
#include <stdlib.h>
#include <string.h>

#include <winnow/filter.h>

#include "contender.h"
#include "kinds/aqf/lines.h"

static void make(const struct job *job, const struct contender *contender,
		 const struct bench_key *keys, size_t count, struct made *madep)
{
	const uint64_t start = bench_now();
	struct wn_builder *builder;
	uint64_t added;
	size_t kept;

	bench_ok(wn_builder_create(contender->config, job->secret, &builder), "making a builder");
	for (size_t i = 0; i < count; i++)
		bench_ok(wn_builder_add(builder, &keys[i], BENCH_KEY_SIZE), "adding a key");
	added = bench_now();
	bench_ok(wn_builder_finish(builder, &madep->own, &madep->size), "finishing the block");
	/* What the reverse map is written from. */
	if (wn_builder_uppers(builder, &kept) == NULL || kept != count)
		bench_die("the builder did not keep %zu hashes", count);
	wn_builder_destroy(builder);
	madep->bytes = madep->own;
	madep->adding = per(start, added, count);
	madep->finishing = per(added, bench_now(), count);
}

static void unmake(struct made *made)
{
	free(made->own);
}

/* ---- open ----------------------------------------------------------------- */

static enum wn__lines_path path_named(const char *name)
{
	return strcmp(name, "portable") == 0 ? WN__PATH_PORTABLE :
	       strcmp(name, "sse2") == 0 ? WN__PATH_SSE2 : WN__PATH_AVX2;
}

/* Blocks in slots and other kinds stay as they are. */
static void take_path(struct wn_filter *filter, const char *name)
{
	struct wn__lines_calls calls;

	if (filter->kind != &wn__kind_aqf || !wn__params_are_lines(filter->info.params))
		return;
	calls = wn__lines_calls_of(filter->state, path_named(name));
	if (calls.query == NULL)
		bench_die("this processor cannot take the path '%s'", name);
	filter->query = calls.query;
	filter->query_batch = calls.query_batch;
	filter->ask_short = calls.ask_short;
	filter->ask_batch = calls.ask_batch;
}

static void *open_block(const struct job *job, const struct made *made, const void *bytes)
{
	struct wn_filter *filter;

	bench_ok(wn_filter_open(bytes, made->size, WN_CHECK_HEADER, job->secret, &filter, NULL),
		 "opening the block");
	if (job->path != NULL)
		take_path(filter, job->path);
	return filter;
}

static void close_block(void *filter)
{
	wn_filter_close(filter);
}

/* ---- ask ------------------------------------------------------------------ */

static bool query_block(const struct job *job, const void *filter, const struct bench_key *key)
{
	(void)job;
	return wn_filter_query(filter, key, BENCH_KEY_SIZE, NULL);
}

static void batch_block(const struct job *job, const void *filter, const struct bench_key *keys,
			bool *answersp)
{
	struct wn_key given[BATCH];

	(void)job;
	for (size_t i = 0; i < BATCH; i++)
		given[i] = (struct wn_key){&keys[i], BENCH_KEY_SIZE};
	wn_filter_query_keys(filter, given, BATCH, answersp);
}

/* One hash serves all filters of a database. */
static unsigned turn_blocks(const struct job *job, void *const *filters,
			    const struct bench_key *key)
{
	const struct wn_hash hash = wn_hash_key(job->secret, key, BENCH_KEY_SIZE);
	unsigned sum = 0;

	for (unsigned i = 0; i < TURN; i++)
		sum += wn_filter_query_hash(filters[i], hash, NULL);
	return sum;
}

static double time_block(const struct job *job, enum loop loop, const void *filter,
			 const struct bench_key *keys)
{
	return time_loop(job, loop, query_block, batch_block, filter, keys);
}

static double time_turn(const struct job *job, void *const *filters, const struct bench_key *keys)
{
	return time_turns(job, turn_blocks, filters, keys);
}

const struct contender_type contender_winnow = {
	.make = make,
	.unmake = unmake,
	.open = open_block,
	.close = close_block,
	.query = query_block,
	.batch = batch_block,
	.time = time_block,
	.time_turn = time_turn,
};
