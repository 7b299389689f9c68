/* contender_rocksdb.c - RocksDB's own Bloom and Ribbon filters. */
#include "bench/rocksdb_filters.h"
#include "contender.h"

static void make(enum rf_kind kind, double bits, const struct bench_key *keys, size_t count,
		 struct made *madep)
{
	const uint64_t start = bench_now();
	struct rf_builder *builder = rf_builder_create(kind, bits);
	uint64_t added;

	if (builder == NULL)
		bench_die("RocksDB gave no filter builder");
	rf_builder_add(builder, keys, BENCH_KEY_SIZE, count);
	added = bench_now();
	madep->own = rf_builder_finish(builder);
	if (madep->own == NULL)
		bench_die("RocksDB gave no filter");
	madep->adding = per(start, added, count);
	madep->finishing = per(added, bench_now(), count);
	madep->bytes = rf_bytes(madep->own);
	madep->size = rf_size(madep->own);
}

static void make_bloom(const struct job *job, const struct contender *contender,
		       const struct bench_key *keys, size_t count, struct made *madep)
{
	(void)job;
	make(RF_BLOOM, contender->bits, keys, count, madep);
}

static void make_ribbon(const struct job *job, const struct contender *contender,
			const struct bench_key *keys, size_t count, struct made *madep)
{
	(void)job;
	make(RF_RIBBON, contender->bits, keys, count, madep);
}

static void unmake(struct made *made)
{
	rf_free(made->own);
}

static void *open_filter(const struct job *job, const struct made *made, const void *bytes)
{
	struct rf_filter *filter = rf_reopen(made->own, bytes);

	(void)job;
	if (filter == NULL)
		bench_die("RocksDB did not open its filter");
	return filter;
}

static void close_filter(void *filter)
{
	rf_free(filter);
}

static bool query_filter(const struct job *job, const void *filter, const struct bench_key *key)
{
	(void)job;
	return rf_may_match(filter, key, BENCH_KEY_SIZE);
}

static void batch_filter(const struct job *job, const void *filter, const struct bench_key *keys,
			 bool *answersp)
{
	(void)job;
	rf_may_match_many(filter, keys, BENCH_KEY_SIZE, BATCH, answersp);
}

/* By key each time, as RocksDB asks its tables. */
static unsigned turn_filters(const struct job *job, void *const *filters,
			     const struct bench_key *key)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < TURN; i++)
		sum += query_filter(job, filters[i], key);
	return sum;
}

static double time_filter(const struct job *job, enum loop loop, const void *filter,
			  const struct bench_key *keys)
{
	return time_loop(job, loop, query_filter, batch_filter, filter, keys);
}

static double time_turn(const struct job *job, void *const *filters, const struct bench_key *keys)
{
	return time_turns(job, turn_filters, filters, keys);
}

const struct contender_type contender_bloom = {
	.make = make_bloom,
	.unmake = unmake,
	.open = open_filter,
	.close = close_filter,
	.query = query_filter,
	.batch = batch_filter,
	.time = time_filter,
	.time_turn = time_turn,
};

const struct contender_type contender_ribbon = {
	.make = make_ribbon,
	.unmake = unmake,
	.open = open_filter,
	.close = close_filter,
	.query = query_filter,
	.batch = batch_filter,
	.time = time_filter,
	.time_turn = time_turn,
};
