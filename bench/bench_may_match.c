/* bench_may_match.c - what RocksDB pays for a filter's answer, from MayMatch() on.
 *
 * Tables' filters are built and opened through the policy objects that RocksDB uses, and asked in
 * one of several ways. Under callgrind that counts in ask() or ask_batch() only, the number of
 * instructions divided by the number of questions is what a question costs; less what it costs
 * with --filter=nothing, the call itself. doc/benchmarks.md has the commands. Without
 * callgrind the nanoseconds are printed. */
#include <stdlib.h>
#include <string.h>

#include <winnow/rocksdb.h>

#include "adapters/rocksdb/policy.h"
#include "base/secret.h"
#include "bench_util.h"
#include "learn/lookup.h"
#include "may_match.h"

#define MAX_TABLES 64
#define MAX_KEY_SIZE 512

enum way { ALONE, LOOKUP, HASHED, BATCH, WAYS };

static const char *const way_names[WAYS] = {"alone", "lookup", "hashed", "batch"};

struct bench {
	const char *filter, *way_name, *options;
	uint64_t num, tables, lookups, key_size, learns, found;
	double bits;
	enum way way;
	rocksdb_filterpolicy_t *policy;
	struct wn_secret *secret; /* the policy's, where it is winnow's */
	struct wn__policy *inner; /* likewise */
	struct wn__learn *learn;
	struct wn_config *config;
	struct asked *asked[MAX_TABLES];
	unsigned char *keys;
	uint64_t questions, positives, nanoseconds;
};

static void write_key(const struct bench *bench, enum bench_set set, uint64_t index,
		      unsigned char *at)
{
	for (size_t done = 0; done < bench->key_size; done += BENCH_KEY_SIZE) {
		const struct bench_key key = bench_key(1 + done, set, index);
		const size_t left = bench->key_size - done;

		memcpy(at + done, &key, left < sizeof(key) ? left : sizeof(key));
	}
}

static unsigned char *make_keys(const struct bench *bench, enum bench_set set, uint64_t first,
				size_t count)
{
	unsigned char *keys = bench_alloc(count, bench->key_size);

	for (size_t i = 0; i < count; i++)
		write_key(bench, set, first + i, keys + i * bench->key_size);
	return keys;
}

/* ---- set up ------------------------------------------------------------- */

static void make_learn(struct bench *bench)
{
	struct wn__learn_options options = {.config = bench->config};
	struct wn__learn_place place = {0};

	bench_ok(wn__learn_create(&options, bench->secret, &bench->learn), "learning");
	bench_ok(wn__map_memory_create(&place.map), "a reverse map");
	bench_ok(wn__learn_open(bench->learn, &place), "learning");
}

static void make_winnow(struct bench *bench)
{
	struct wn_secret *secret = bench_secret(7);

	bench_ok(wn_config_parse(bench->options, NULL, 0, &bench->config), "the options");
	bench_ok(wn__policy_secret(secret, false, &bench->secret), "a secret");
	if (bench->learns)
		make_learn(bench);
	bench_ok(wn__policy_create(bench->secret, NULL, bench->learn,
				   bench->learn ? "nowhere" : NULL, &bench->inner),
		 "the policy");
	bench_ok(wn__policy_show(bench->inner, bench->options, 0, &bench->policy), "the policy");
	wn_secret_destroy(secret);
}

static void make_filters(struct bench *bench)
{
	if (strcmp(bench->filter, "winnow") == 0)
		make_winnow(bench);
	else if (strcmp(bench->filter, "bloom") == 0)
		bench->policy = asked_bloom(bench->bits);
	else if (strcmp(bench->filter, "nothing") != 0)
		bench_die("--filter is winnow, bloom or nothing");
	for (uint64_t i = 0; i < bench->tables; i++) {
		unsigned char *keys = make_keys(bench, BENCH_STORED, i * bench->num,
						(size_t)bench->num);

		bench->asked[i] = asked_create(bench->policy, keys, (size_t)bench->key_size,
					       (size_t)bench->num);
		if (!bench->asked[i])
			bench_die("the filter could not be built");
		free(keys);
	}
}

static void drop_filters(struct bench *bench)
{
	for (uint64_t i = 0; i < bench->tables; i++)
		asked_destroy(bench->asked[i]);
	if (bench->policy)
		rocksdb_filterpolicy_destroy(bench->policy);
	if (bench->inner)
		wn__policy_release(bench->inner);
	if (bench->learn)
		wn__learn_close(bench->learn);
	wn__learn_release(bench->learn);
	wn_config_destroy(bench->config);
	wn_secret_destroy(bench->secret);
}

/* ---- ask ---------------------------------------------------------------- */

static void ask_tables(struct bench *bench, const void *key)
{
	for (uint64_t i = 0; i < bench->tables; i++)
		bench->positives += ask(bench->asked[i], key, (size_t)bench->key_size);
}

static void ask_in_lookup(struct bench *bench, const void *key)
{
	struct wn__lookup lookup;

	if (!bench->inner) {
		ask_tables(bench, key);
		return;
	}
	wn__lookup_begin(&lookup, bench->inner->registry, bench->inner->secret, key,
			 (size_t)bench->key_size);
	if (bench->way == HASHED) {
		/* RocksDB's key is a copy of the caller's. */
		unsigned char copy[MAX_KEY_SIZE];

		memcpy(copy, key, (size_t)bench->key_size);
		bench_sink += wn__lookup_hash(bench->inner->secret, copy,
					      (size_t)bench->key_size)
				      .hi;
		ask_tables(bench, copy);
	} else {
		ask_tables(bench, key);
	}
	wn__current_lookup = lookup.outer;
}

static void ask_batches(struct bench *bench)
{
	struct asked_keys *batch = asked_keys_create();
	bool answers[ASK_MAX_BATCH];

	if (!batch)
		bench_die("no memory");
	for (uint64_t at = 0; at + ASK_MAX_BATCH <= bench->lookups; at += ASK_MAX_BATCH) {
		asked_keys_set(batch, bench->keys + at * bench->key_size, (size_t)bench->key_size,
			       ASK_MAX_BATCH);
		for (uint64_t i = 0; i < bench->tables; i++) {
			ask_batch(bench->asked[i], batch, answers);
			for (unsigned j = 0; j < ASK_MAX_BATCH; j++)
				bench->positives += answers[j];
			bench->questions += ASK_MAX_BATCH;
		}
	}
	asked_keys_destroy(batch);
}

static void ask_all(struct bench *bench)
{
	const uint64_t start = bench_now();

	if (bench->way == BATCH) {
		ask_batches(bench);
	} else {
		for (uint64_t i = 0; i < bench->lookups; i++) {
			const void *key = bench->keys + i * bench->key_size;

			if (bench->way == ALONE)
				ask_tables(bench, key);
			else
				ask_in_lookup(bench, key);
		}
		bench->questions = bench->lookups * bench->tables;
	}
	bench->nanoseconds = bench_now() - start;
}

int main(int argc, char **argv)
{
	struct bench bench = {
		.filter = "winnow", .way_name = "alone", .options = "aqf", .num = 10000,
		.tables = 1, .lookups = 20000, .key_size = 16, .bits = 13.5,
	};
	const struct bench_option options[] = {
		{"filter", BENCH_TEXT, &bench.filter, 0, 0, "winnow, bloom, nothing"},
		{"way", BENCH_TEXT, &bench.way_name, 0, 0,
		 "alone; lookup: in a lookup frame; hashed: the same, hashed before; batch: of 32"},
		{"options", BENCH_TEXT, &bench.options, 0, 0, "winnow's filter options"},
		{"bits", BENCH_REAL, &bench.bits, 1, 100, "Bloom's bits a key"},
		{"num", BENCH_INTEGER, &bench.num, 1, 1e9, "keys a table"},
		{"tables", BENCH_INTEGER, &bench.tables, 1, MAX_TABLES, "asked one after another"},
		{"lookups", BENCH_INTEGER, &bench.lookups, 1, 1e9, "keys that are asked for"},
		{"key_size", BENCH_INTEGER, &bench.key_size, 8, MAX_KEY_SIZE, "bytes a key"},
		{"learns", BENCH_INTEGER, &bench.learns, 0, 1, "1: readers have lessons"},
		{"found", BENCH_INTEGER, &bench.found, 0, 1, "1: keys that the tables have"},
		{NULL, BENCH_TEXT, NULL, 0, 0, NULL},
	};

	bench_parse(argc, argv, "bench_may_match [--filter=winnow] [--way=alone] ...", options);
	while (bench.way < WAYS && strcmp(bench.way_name, way_names[bench.way]) != 0)
		bench.way++;
	if (bench.way == WAYS)
		bench_die("--way is alone, lookup, hashed or batch");
	make_filters(&bench);
	bench.keys = make_keys(&bench, bench.found ? BENCH_STORED : BENCH_MISSING, 0,
			       (size_t)bench.lookups);
	ask_all(&bench);
	printf("%llu questions, %llu positive, %.1f ns a question\n",
	       (unsigned long long)bench.questions, (unsigned long long)bench.positives,
	       (double)bench.nanoseconds / (double)(bench.questions ? bench.questions : 1));
	free(bench.keys);
	drop_filters(&bench);
	return 0;
}
