/* bench_small.c - the filters of LevelDB's data blocks: winnow's against LevelDB's Bloom filter.
 *
 * Both are asked and built through LevelDB's class FilterPolicy, from the key to the answer. The
 * filters of one table lie end to end, as in its filter block, and lookups go to any of them. The
 * two take turns in slices, so that a slow moment of the machine falls on both.
 *
 * Instructions, where the machine has no counters for them: run one filter and one operation
 * under callgrind, and divide what it counts by the calls (keys for "build"):
 *
 *	valgrind --tool=callgrind --toggle-collect='work_*' bench/bench_small --keys=36 \
 *		--filters=aqf --work=missing --rounds=1 */
#include <stdlib.h>
#include <string.h>

#include <leveldb/c.h>

#include <winnow/leveldb.h>

#include "bench_util.h"
#include "tools/bench/leveldb_bloom.h"

enum { MAX_FILTERS = 4, MAX_ROUNDS = 1000 };

static const char *const works[] = {"missing", "stored", "build"};
enum { MISSING, STORED, BUILD, WORKS };

static struct {
	uint64_t num, calls, rounds, seed;
	struct bench_list keys;
	const char *filters, *work;
} option = {
	.num = 300000,
	.calls = 20000,
	.rounds = 101,
	.seed = 1,
	.keys = {{36, 144, 563, 2067}, 4},
	.filters = "bloom:bits_per_key=10,aqf",
};

/* One way to make filters, and a table of them. */
struct contender {
	const char *name;
	struct leveldb_bloom *policy;
	char *bytes;     /* of all filters */
	size_t *starts;  /* one more than there are filters */
	double times[WORKS][MAX_ROUNDS];
	double bits, positives;
};

struct table {
	uint64_t keys; /* a filter */
	size_t filters;
	struct bench_key *stored;
	const char **pointers;
	size_t *sizes;
};

struct call {
	uint32_t filter;
	struct bench_key key;
};

/* ---- what is measured: by name, for callgrind --------------------------- */

uint64_t work_ask(const struct contender *contender, const struct call *calls, size_t count);
size_t work_build(const struct contender *contender, const struct table *table, size_t first,
		  size_t end);

static inline uint64_t ask_all(const struct contender *contender, const struct call *calls,
			       size_t count)
{
	uint64_t positives = 0;

	for (size_t i = 0; i < count; i++) {
		const size_t *start = &contender->starts[calls[i].filter];

		positives += leveldb_bloom_may_match(contender->policy,
						     (const char *)&calls[i].key, BENCH_KEY_SIZE,
						     contender->bytes + start[0],
						     start[1] - start[0]);
	}
	return positives;
}

__attribute__((noinline)) uint64_t work_ask(const struct contender *contender,
					    const struct call *calls, size_t count)
{
	return ask_all(contender, calls, count);
}

static char *build_one(const struct contender *contender, const struct table *table, size_t index,
		       size_t *sizep)
{
	const size_t first = index * table->keys;
	char *filter = leveldb_bloom_build(contender->policy, table->pointers + first,
					   table->sizes + first, (int)table->keys, sizep);

	if (filter == NULL)
		bench_die("%s: no filter", contender->name);
	return filter;
}

__attribute__((noinline)) size_t work_build(const struct contender *contender,
					    const struct table *table, size_t first, size_t end)
{
	size_t bytes = 0, size;

	for (size_t i = first; i < end; i++) {
		free(build_one(contender, table, i, &size));
		bytes += size;
	}
	return bytes;
}

/* ---- tables ------------------------------------------------------------- */

static struct table make_table(uint64_t keys)
{
	struct table table = {.keys = keys, .filters = option.num / keys};
	const size_t num = table.filters * keys;

	if (num == 0)
		bench_die("--num is less than --keys");
	table.stored = bench_keys(option.seed, BENCH_STORED, 0, num);
	table.pointers = bench_alloc(num, sizeof(*table.pointers));
	table.sizes = bench_alloc(num, sizeof(*table.sizes));
	for (size_t i = 0; i < num; i++) {
		table.pointers[i] = (const char *)&table.stored[i];
		table.sizes[i] = BENCH_KEY_SIZE;
	}
	return table;
}

static void free_table(struct table *table)
{
	free(table->stored);
	free(table->pointers);
	free(table->sizes);
}

static void fill(struct contender *contender, const struct table *table)
{
	size_t room = 0, size;

	contender->bytes = NULL;
	contender->positives = 0;
	contender->starts = bench_alloc(table->filters + 1, sizeof(*contender->starts));
	contender->starts[0] = 0;
	for (size_t i = 0; i < table->filters; i++) {
		char *filter = build_one(contender, table, i, &size);
		const size_t start = contender->starts[i];

		while (start + size > room) {
			room = 2 * room + 65536;
			contender->bytes = realloc(contender->bytes, room);
			if (contender->bytes == NULL)
				bench_die("no memory");
		}
		memcpy(contender->bytes + start, filter, size);
		contender->starts[i + 1] = start + size;
		free(filter);
	}
	contender->bits = 8.0 * (double)contender->starts[table->filters] /
			  (double)(table->filters * table->keys);
	for (size_t i = 0; i < table->filters * table->keys; i++) {
		const struct call call = {(uint32_t)(i / table->keys), table->stored[i]};

		if (ask_all(contender, &call, 1) != 1)
			bench_die("%s: key %zu was denied", contender->name, i);
	}
}

/* ---- rounds ------------------------------------------------------------- */

static void make_calls(const struct table *table, uint64_t round, bool stored,
		       struct call *calls)
{
	uint64_t random = option.seed + 1000 * round;

	for (size_t i = 0; i < option.calls; i++) {
		const size_t filter = bench_random_below(&random, table->filters);
		const size_t key = bench_random_below(&random, table->keys);

		calls[i].filter = (uint32_t)filter;
		calls[i].key = stored ? table->stored[filter * table->keys + key]
				      : bench_key(option.seed, BENCH_MISSING,
						  round * option.calls + i);
	}
}

static double time_asking(struct contender *contender, const struct call *calls, bool missing)
{
	const uint64_t start = bench_now();
	const uint64_t positives = work_ask(contender, calls, option.calls);
	const uint64_t end = bench_now();

	if (missing)
		contender->positives += (double)positives;
	return (double)(end - start) / (double)option.calls;
}

static double time_building(const struct contender *contender, const struct table *table,
			    uint64_t round)
{
	const size_t wanted = (option.calls + table->keys - 1) / table->keys;
	const size_t count = wanted < table->filters ? wanted : table->filters;
	const size_t first = round * count % (table->filters - count + 1);
	const uint64_t start = bench_now();

	bench_sink += work_build(contender, table, first, first + count);
	return (double)(bench_now() - start) / (double)(count * table->keys);
}

static void run_round(struct contender *contenders, size_t count, const struct table *table,
		      uint64_t round, struct call *calls)
{
	for (int work = 0; work < WORKS; work++) {
		if (!bench_listed(option.work, works[work]))
			continue;
		if (work != BUILD)
			make_calls(table, round, work == STORED, calls);
		/* Each goes first in every other round. */
		for (size_t i = 0; i < count; i++) {
			struct contender *contender = &contenders[(i + round) % count];

			contender->times[work][round] =
				work == BUILD ? time_building(contender, table, round)
					      : time_asking(contender, calls,
							    work == MISSING);
		}
	}
}

static void print_row(struct contender *contenders, size_t count, uint64_t keys, int work)
{
	const size_t rounds = option.rounds;
	double ratios[MAX_ROUNDS];

	for (size_t i = 0; i < count; i++) {
		struct contender *contender = &contenders[i];
		double *times = contender->times[work], median, ratio;

		for (size_t j = 0; j < rounds; j++)
			ratios[j] = times[j] / contenders[0].times[work][j];
		ratio = bench_median(ratios, rounds);
		/* The first one's times are left in their order for the others. */
		printf("%8llu  %-8s %-28s", (unsigned long long)keys, works[work],
		       contender->name);
		if (i == 0) {
			double copy[MAX_ROUNDS];

			memcpy(copy, times, sizeof(copy));
			median = bench_median(copy, rounds);
			printf("%8.2f ns  (%.2f to %.2f)", median, copy[rounds / 4],
			       copy[rounds * 3 / 4]);
		} else {
			median = bench_median(times, rounds);
			printf("%8.2f ns  (%.2f to %.2f)  ratio %.3f (%.3f to %.3f)", median,
			       times[rounds / 4], times[rounds * 3 / 4], ratio,
			       ratios[rounds / 4], ratios[rounds * 3 / 4]);
		}
		printf("  %.2f bits", contender->bits);
		if (work == MISSING)
			printf("  fpr %.5f", contender->positives /
						     (double)(option.calls * rounds));
		putchar('\n');
	}
}

static void run(struct contender *contenders, size_t count, uint64_t keys)
{
	struct table table = make_table(keys);
	struct call *calls = bench_alloc(option.calls, sizeof(*calls));

	for (size_t i = 0; i < count; i++)
		fill(&contenders[i], &table);
	for (uint64_t round = 0; round < option.rounds; round++)
		run_round(contenders, count, &table, round, calls);
	for (int work = 0; work < WORKS; work++)
		if (bench_listed(option.work, works[work]))
			print_row(contenders, count, keys, work);
	for (size_t i = 0; i < count; i++) {
		free(contenders[i].bytes);
		free(contenders[i].starts);
	}
	free(calls);
	free_table(&table);
}

/* ---- the policies ------------------------------------------------------- */

static struct leveldb_bloom *make_policy(const char *name)
{
	leveldb_filterpolicy_t *policy;
	char message[200] = "no memory";
	int bits = 10;

	if (strncmp(name, "bloom", 5) == 0) {
		if (sscanf(name, "bloom:bits_per_key=%d", &bits) != 1 && strcmp(name, "bloom") != 0)
			bench_die("'%s' is not bloom:bits_per_key=N", name);
		return leveldb_bloom_create(bits);
	}
	if (wn_leveldb_filterpolicy(name, NULL, message, sizeof(message), &policy) != 0)
		bench_die("'%s': %s", name, message);
	return leveldb_bloom_wrap(policy);
}

int main(int argc, char **argv)
{
	static struct contender contenders[MAX_FILTERS];
	const struct bench_option options[] = {
		{"num", BENCH_INTEGER, &option.num, 1, 1e9, "keys in all filters"},
		{"keys", BENCH_LIST, &option.keys, 1, 4e6, "keys a filter"},
		{"calls", BENCH_INTEGER, &option.calls, 1, 1e9, "lookups, or keys built, a slice"},
		{"rounds", BENCH_INTEGER, &option.rounds, 1, MAX_ROUNDS, "slices of each"},
		{"seed", BENCH_INTEGER, &option.seed, 0, 1e15, "of keys and lookups"},
		{"filters", BENCH_TEXT, &option.filters, 0, 0, "the first is compared with"},
		{"work", BENCH_TEXT, &option.work, 0, 0, "missing,stored,build"},
		{NULL, BENCH_TEXT, NULL, 0, 0, NULL},
	};
	char *names, *rest, *name;
	size_t count = 0;

	bench_parse(argc, argv, "bench_small: filters of LevelDB's data blocks", options);
	bench_check_words("work", option.work, "missing,stored,build");
	names = rest = strdup(option.filters);
	while (names && (name = strsep(&rest, ",")) != NULL) {
		if (count == MAX_FILTERS)
			bench_die("more than %d filters", MAX_FILTERS);
		contenders[count].name = name;
		contenders[count].policy = make_policy(name);
		if (contenders[count++].policy == NULL)
			bench_die("no memory for '%s'", name);
	}
	for (size_t i = 0; i < option.keys.count; i++)
		run(contenders, count, option.keys.values[i]);
	for (size_t i = 0; i < count; i++)
		leveldb_bloom_destroy(contenders[i].policy);
	free(names);
	return 0;
}
