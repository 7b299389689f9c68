/* bench_frozen.c - filters as an SSTable has them: built once, then asked.
 *
 * winnow's AdaptiveQF block against RocksDB's Bloom and Ribbon. Within a
 * repetition the filters take turns at each operation, so that a slow moment of
 * the machine does not fall on one of them alone. */
#include <math.h>
#include <stdlib.h>

#include <winnow/filter.h>

#include "bench_filters.h"
#include "rocksdb_filters.h"

struct contender {
	enum column column;
	void *block; /* winnow's bytes */
	void *filter;
	size_t bytes;
};

/* ---- building ----------------------------------------------------------- */

static struct wn_builder *create_builder(const struct job *job)
{
	char text[80], message[200] = "";
	struct wn_config *config;
	struct wn_builder *builder;

	snprintf(text, sizeof(text), "aqf:remainder_bits=%llu;load=%.4f",
		 (unsigned long long)job->remainder_bits, job->load);
	if (wn_config_parse(text, message, sizeof(message), &config) != 0)
		bench_die("'%s': %s", text, message);
	bench_ok(wn_builder_create(config, job->secret, &builder), "making a builder");
	wn_config_destroy(config);
	return builder;
}

static void build_frozen(const struct job *job, struct contender *contender)
{
	const uint64_t start = bench_now();
	struct wn_builder *builder = create_builder(job);
	struct wn_filter *filter;
	uint64_t added, end;

	for (size_t i = 0; i < job->num; i++)
		bench_ok(wn_builder_add(builder, &job->keys[i], BENCH_KEY_SIZE), "adding a key");
	added = bench_now();
	bench_ok(wn_builder_finish(builder, &contender->block, &contender->bytes),
		 "finishing the block");
	wn_builder_destroy(builder);
	end = bench_now();
	report_add(job->report, ROW_BUILD, "ns", COLUMN_FROZEN, per(start, end, job->num));
	report_add(job->report, ROW_BUILD_ADD, "ns", COLUMN_FROZEN, per(start, added, job->num));
	report_add(job->report, ROW_BUILD_FINISH, "ns", COLUMN_FROZEN, per(added, end, job->num));
	bench_ok(wn_filter_open(contender->block, contender->bytes, WN_CHECK_HEADER, job->secret,
				&filter, NULL),
		 "opening the block");
	contender->filter = filter;
}

/* From hashes in random order to a block; the hashing is not timed. */
static void build_from_hashes(const struct job *job)
{
	struct wn_hash *hashes = bench_hashes(job->secret, job->keys, job->num);
	const uint64_t start = bench_now();
	struct wn_builder *builder = create_builder(job);
	void *block;
	size_t bytes;

	for (size_t i = 0; i < job->num; i++)
		bench_ok(wn_builder_add_hash(builder, hashes[i]), "adding a hash");
	bench_ok(wn_builder_finish(builder, &block, &bytes), "finishing the block");
	wn_builder_destroy(builder);
	report_add(job->report, ROW_BUILD_HASHES, "ns", COLUMN_FROZEN,
		   per(start, bench_now(), job->num));
	bench_sink += bytes;
	free(block);
	free(hashes);
}

static void build_rocksdb(const struct job *job, struct contender *contender)
{
	const bool ribbon = contender->column == COLUMN_RIBBON;
	const uint64_t start = bench_now();
	struct rf_builder *builder = rf_builder_create(ribbon ? RF_RIBBON : RF_BLOOM,
						       ribbon ? job->ribbon_bits : job->bloom_bits);
	uint64_t added, end;

	if (builder == NULL)
		bench_die("RocksDB gave no filter builder");
	rf_builder_add(builder, job->keys, BENCH_KEY_SIZE, job->num);
	added = bench_now();
	contender->filter = rf_builder_finish(builder);
	end = bench_now();
	if (contender->filter == NULL)
		bench_die("RocksDB gave no filter");
	contender->bytes = rf_size(contender->filter);
	report_add(job->report, ROW_BUILD, "ns", contender->column, per(start, end, job->num));
	report_add(job->report, ROW_BUILD_ADD, "ns", contender->column,
		   per(start, added, job->num));
	report_add(job->report, ROW_BUILD_FINISH, "ns", contender->column,
		   per(added, end, job->num));
}

static void build(const struct job *job, struct contender *contender)
{
	if (contender->column == COLUMN_FROZEN)
		build_frozen(job, contender);
	else
		build_rocksdb(job, contender);
	report_add(job->report, ROW_BITS, "bits", contender->column,
		   8.0 * (double)contender->bytes / (double)job->num);
}

static void discard(struct contender *contender)
{
	if (contender->column == COLUMN_FROZEN) {
		wn_filter_close(contender->filter);
		free(contender->block);
	} else {
		rf_free(contender->filter);
	}
}

/* ---- asking ------------------------------------------------------------- */

static bool query_frozen(const struct job *job, const void *filter, const struct bench_key *key)
{
	(void)job;
	return wn_filter_query(filter, key, BENCH_KEY_SIZE, NULL);
}

static bool query_rocksdb(const struct job *job, const void *filter, const struct bench_key *key)
{
	(void)job;
	return rf_may_match(filter, key, BENCH_KEY_SIZE);
}

static void batch_frozen(const struct job *job, const void *filter, const struct bench_key *keys,
			 bool *answersp)
{
	struct wn_hash hashes[BATCH];

	for (size_t i = 0; i < BATCH; i++)
		hashes[i] = wn_hash(job->secret, &keys[i], BENCH_KEY_SIZE);
	wn_filter_query_batch(filter, hashes, BATCH, answersp);
}

static void batch_rocksdb(const struct job *job, const void *filter, const struct bench_key *keys,
			  bool *answersp)
{
	(void)job;
	rf_may_match_many(filter, keys, BENCH_KEY_SIZE, BATCH, answersp);
}

enum loop { LOOP_INDEPENDENT, LOOP_CHAINED, LOOP_FENCED, LOOP_BATCH, LOOP_FPR };

ALWAYS_INLINE double time_loop(const struct job *job, enum loop loop, query_fn *query,
			       batch_fn *batch, const void *filter, const struct bench_key *keys)
{
	switch (loop) {
	case LOOP_INDEPENDENT:
		return time_independent(job, query, filter, keys);
	case LOOP_CHAINED:
		return time_chained(job, query, filter, keys);
	case LOOP_FENCED:
#if HAVE_FENCE
		return time_fenced(job, query, filter, keys);
#else
		return NAN;
#endif
	case LOOP_BATCH:
		return time_batches(job, batch, filter, keys);
	case LOOP_FPR:
		return measure_fpr(job, query, filter);
	}
	return NAN;
}

static void run_loop(const struct job *job, const char *row, const char *unit, enum loop loop,
		     const struct bench_key *keys, struct contender *contenders, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const void *filter = contenders[i].filter;
		double value;

		if (contenders[i].column == COLUMN_FROZEN)
			value = time_loop(job, loop, query_frozen, batch_frozen, filter, keys);
		else
			value = time_loop(job, loop, query_rocksdb, batch_rocksdb, filter, keys);
		if (!isnan(value))
			report_add(job->report, row, unit, contenders[i].column, value);
	}
}

static void ask_all(const struct job *job, struct contender *contenders, size_t count)
{
	if (job_has(job, "lookup")) {
		run_loop(job, ROW_NEGATIVE, "ns", LOOP_INDEPENDENT, job->missing, contenders,
			 count);
		run_loop(job, ROW_CHAINED, "ns", LOOP_CHAINED, job->missing, contenders, count);
		run_loop(job, ROW_FENCED, "ns", LOOP_FENCED, job->missing, contenders, count);
		run_loop(job, ROW_POSITIVE, "ns", LOOP_INDEPENDENT, job->present, contenders,
			 count);
	}
	if (job_has(job, "batch")) {
		run_loop(job, ROW_BATCH_NEGATIVE, "ns", LOOP_BATCH, job->missing, contenders,
			 count);
		run_loop(job, ROW_BATCH_POSITIVE, "ns", LOOP_BATCH, job->present, contenders,
			 count);
	}
}

/* A benchmark of a filter that forgets keys is worth nothing. */
static void check_keys(const struct job *job, const struct contender *contender)
{
	for (size_t i = 0; i < job->num; i++) {
		const bool answer = contender->column == COLUMN_FROZEN ?
				    query_frozen(job, contender->filter, &job->keys[i]) :
				    query_rocksdb(job, contender->filter, &job->keys[i]);

		if (!answer)
			bench_die("%s: key %zu was denied", report_columns[contender->column], i);
	}
}

void run_frozen(struct job *job)
{
	static const enum column columns[] = { COLUMN_FROZEN, COLUMN_BLOOM, COLUMN_RIBBON };
	const size_t count = job->with_rocksdb ? 3 : 1;

	if (!job_has(job, "build") && !job_has(job, "lookup") && !job_has(job, "batch") &&
	    !job_has(job, "fpr"))
		return;
	for (uint64_t repetition = 0; repetition < job->repeat; repetition++) {
		struct contender contenders[3];

		fprintf(stderr, "%zu keys, blocks, repetition %llu\n", job->num,
			(unsigned long long)repetition + 1);
		for (size_t i = 0; i < count; i++) {
			contenders[i] = (struct contender){ .column = columns[i] };
			build(job, &contenders[i]);
		}
		if (job_has(job, "build"))
			build_from_hashes(job);
		ask_all(job, contenders, count);
		if (repetition == 0) {
			for (size_t i = 0; i < count; i++)
				check_keys(job, &contenders[i]);
			if (job_has(job, "fpr"))
				run_loop(job, ROW_FPR, "", LOOP_FPR, NULL, contenders, count);
		}
		for (size_t i = 0; i < count; i++)
			discard(&contenders[i]);
	}
}
