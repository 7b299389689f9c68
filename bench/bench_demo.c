/* bench_demo.c - what winnow is for, in memory and in a few seconds.
 *
 * A table of a million keys stands behind a filter; a "disk read" is counted, not
 * waited for. Millions of queries ask for keys that are not there. RocksDB's Bloom
 * filter and winnow's AdaptiveQF get the same bits per key and the same queries;
 * winnow is told of each wasted read. Where RocksDB is missing, winnow's own filter
 * that is told nothing takes Bloom's place.
 *
 * Exit status 1 if a stored key was denied or a fixed false positive came back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/set.h>

#include "bench_util.h"
#include "rocksdb_filters.h"
#include "zipf.h"

#define INTERVALS 20

enum workload { WORKLOAD_ZIPF, WORKLOAD_UNIFORM, WORKLOAD_ADVERSARY, WORKLOAD_COUNT };
enum side { SIDE_STOCK, SIDE_WINNOW, SIDE_COUNT };

static const char *const workload_names[WORKLOAD_COUNT] = {
	[WORKLOAD_ZIPF] = "Zipfian",
	[WORKLOAD_UNIFORM] = "uniform",
	[WORKLOAD_ADVERSARY] = "adversary",
};

struct demo {
	uint64_t num, queries, universe, clients, seed;
	double exponent, adversary;
	bool with_rocksdb;
	struct wn_secret *secret;
};

/* ---- a set of keys ------------------------------------------------------ */

/* Open addressing with room for `limit` keys. The first word tells the program's
 * keys apart and is never 0 in a set. `mark` belongs to the caller. */
struct key_set {
	uint64_t *words;
	bool *marks;
	size_t mask, count;
};

static void key_set_init(struct key_set *set, size_t limit)
{
	size_t size = 64;

	while (size < 2 * limit)
		size *= 2;
	set->words = bench_alloc(size, sizeof(*set->words));
	set->marks = bench_alloc(size, sizeof(*set->marks));
	memset(set->words, 0, size * sizeof(*set->words));
	memset(set->marks, 0, size * sizeof(*set->marks));
	set->mask = size - 1;
	set->count = 0;
}

static void key_set_fini(struct key_set *set)
{
	free(set->words);
	free(set->marks);
}

/* Where the key is, or would be. */
static size_t key_set_find(const struct key_set *set, const struct bench_key *key)
{
	size_t at = (size_t)key->words[0] & set->mask;

	while (set->words[at] != 0 && set->words[at] != key->words[0])
		at = (at + 1) & set->mask;
	return at;
}

static void key_set_grow(struct key_set *set)
{
	struct key_set larger;

	key_set_init(&larger, set->mask + 1);
	for (size_t i = 0; i <= set->mask; i++) {
		const struct bench_key key = { .words = { set->words[i] } };
		size_t at;

		if (set->words[i] == 0)
			continue;
		at = key_set_find(&larger, &key);
		larger.words[at] = set->words[i];
		larger.marks[at] = set->marks[i];
	}
	larger.count = set->count;
	key_set_fini(set);
	*set = larger;
}

/* True if it was there before. */
static bool key_set_add(struct key_set *set, const struct bench_key *key, size_t *atp)
{
	if (2 * set->count > set->mask)
		key_set_grow(set);
	*atp = key_set_find(set, key);
	if (set->words[*atp] != 0)
		return true;
	set->words[*atp] = key->words[0];
	set->count++;
	return false;
}

/* ---- the two sides ------------------------------------------------------ */

struct tally {
	uint64_t reads; /* of the simulated disk */
	uint64_t false_positives, repeated, returned, adaptations, unfixed;
	uint64_t denied;
	uint64_t curve[INTERVALS];
	double bits, extra_bits, seconds;
};

struct filter {
	enum side side;
	bool told; /* of its false positives */
	struct rf_filter *bloom;
	struct wn_set *set;
};

static struct wn_set *create_set(const struct demo *demo)
{
	const struct wn_set_options options = { .aqf = { .capacity = demo->num } };
	struct wn_revmap *map;
	struct wn_set *set;

	bench_ok(wn_revmap_memory_create(false, &map), "making the reverse map");
	bench_ok(wn_set_create(&options, demo->secret, map, &set), "making the set");
	for (uint64_t i = 0; i < demo->num; i++) {
		const struct bench_key key = bench_key(demo->seed, BENCH_STORED, i);

		bench_ok(wn_set_insert(set, &key, BENCH_KEY_SIZE), "inserting");
	}
	return set;
}

static double set_bits(const struct demo *demo, const struct wn_set *set)
{
	struct wn_aqf_info info;

	wn_aqf_describe(wn_set_filter(set), &info);
	return 8.0 * (double)info.bytes / (double)demo->num;
}

/* What the extensions hold, of the bits that are there anyway. */
static double extension_bits(const struct demo *demo, const struct wn_set *set)
{
	struct wn_aqf_info info;

	wn_aqf_describe(wn_set_filter(set), &info);
	return (double)info.extensions * 8.0 * (double)info.bytes / (double)info.slots /
	       (double)demo->num;
}

static void open_filter(const struct demo *demo, struct filter *filter, enum side side,
			double bloom_bits)
{
	struct bench_key *keys;

	*filter = (struct filter){ .side = side, .told = side == SIDE_WINNOW };
	if (side == SIDE_WINNOW || !demo->with_rocksdb) {
		filter->set = create_set(demo);
		return;
	}
	keys = bench_keys(demo->seed, BENCH_STORED, 0, (size_t)demo->num);
	filter->bloom = rf_build(RF_BLOOM, bloom_bits, keys, BENCH_KEY_SIZE, (size_t)demo->num);
	free(keys);
	if (filter->bloom == NULL)
		bench_die("RocksDB gave no filter");
}

static void close_filter(struct filter *filter)
{
	if (filter->bloom != NULL)
		rf_free(filter->bloom);
	wn_set_destroy(filter->set);
}

static bool ask_filter(const struct filter *filter, const struct bench_key *key)
{
	if (filter->bloom != NULL)
		return rf_may_match(filter->bloom, key, BENCH_KEY_SIZE);
	return wn_set_query(filter->set, key, BENCH_KEY_SIZE);
}

/* ---- one workload over one filter --------------------------------------- */

struct run {
	const struct demo *demo;
	const struct key_set *table; /* the keys on the simulated disk */
	struct filter *filter;
	struct tally *tally;
	struct key_set mistakes;   /* false positives seen; mark: winnow has fixed it */
	struct bench_key *found;   /* the adversary's list */
	size_t found_count, found_room;
};

static bool read_disk(struct run *run, const struct bench_key *key)
{
	run->tally->reads++;
	return run->table->words[key_set_find(run->table, key)] != 0;
}

/* The adversary sees a slow answer, and writes the key down. */
static void remember(struct run *run, const struct bench_key *key)
{
	if (run->found_count == run->found_room) {
		run->found_room = run->found_room > 0 ? 2 * run->found_room : 1024;
		run->found = realloc(run->found, run->found_room * sizeof(*run->found));
		if (run->found == NULL)
			bench_die("no memory");
	}
	run->found[run->found_count++] = *key;
}

static void learn(struct run *run, const struct bench_key *key, size_t at)
{
	const int result = wn_set_false_positive(run->filter->set, key, BENCH_KEY_SIZE);

	if (result == 0) {
		run->mistakes.marks[at] = true;
		run->tally->adaptations++;
	} else {
		run->tally->unfixed++;
	}
}

static void ask(struct run *run, const struct bench_key *key, size_t interval)
{
	struct tally *tally = run->tally;
	size_t at;

	if (!ask_filter(run->filter, key) || read_disk(run, key))
		return;
	tally->false_positives++;
	tally->curve[interval]++;
	if (key_set_add(&run->mistakes, key, &at)) {
		tally->repeated++;
		tally->returned += run->mistakes.marks[at];
	} else {
		remember(run, key);
	}
	if (run->filter->told)
		learn(run, key, at);
}

/* A single Zipfian client would show luck, not filters: his most popular key has
 * 38% of the queries, and is either a false positive or not. A thousand clients,
 * each with popular keys of his own, show the mean. */
static uint64_t next_zipfian(const struct demo *demo, const struct zipf *zipf, uint64_t *state)
{
	const uint64_t client = bench_random_below(state, demo->clients);

	return client * demo->universe + zipf_next(zipf, state);
}

static struct bench_key next_key(const struct run *run, enum workload workload,
				 const struct zipf *zipf, uint64_t *state)
{
	const struct demo *demo = run->demo;
	/* Both are drawn always, so that both filters get the same other queries. */
	const uint64_t item = workload == WORKLOAD_ZIPF ? next_zipfian(demo, zipf, state) :
			      bench_random_below(state, demo->universe);
	const double dice = (double)(bench_random(state) >> 11) * 0x1p-53;

	if (workload == WORKLOAD_ADVERSARY && dice < demo->adversary && run->found_count > 0)
		return run->found[bench_mix(*state) % run->found_count];
	return bench_key(demo->seed, BENCH_MISSING, item);
}

static void ask_all(struct run *run, enum workload workload)
{
	const struct demo *demo = run->demo;
	uint64_t state = bench_mix(demo->seed + (uint64_t)workload);
	const uint64_t start = bench_now();
	struct zipf zipf;

	if (!zipf_init(&zipf, demo->universe, demo->exponent, demo->seed))
		bench_die("no Zipf distribution with exponent %g", demo->exponent);
	for (uint64_t i = 0; i < demo->queries; i++) {
		const struct bench_key key = next_key(run, workload, &zipf, &state);

		ask(run, &key, (size_t)(i * INTERVALS / demo->queries));
	}
	run->tally->seconds = (double)(bench_now() - start) / 1e9;
}

static void count_denied(struct run *run)
{
	for (uint64_t i = 0; i < run->demo->num; i++) {
		const struct bench_key key = bench_key(run->demo->seed, BENCH_STORED, i);

		run->tally->denied += !ask_filter(run->filter, &key);
	}
}

static void run_side(const struct demo *demo, const struct key_set *table, enum workload workload,
		     struct filter *filter, struct tally *tally)
{
	struct run run = { .demo = demo, .table = table, .filter = filter, .tally = tally };

	key_set_init(&run.mistakes, 1024);
	ask_all(&run, workload);
	count_denied(&run);
	if (filter->set != NULL) {
		tally->bits = set_bits(demo, filter->set);
		tally->extra_bits = extension_bits(demo, filter->set);
	} else {
		tally->bits = 8.0 * (double)rf_size(filter->bloom) / (double)demo->num;
	}
	key_set_fini(&run.mistakes);
	free(run.found);
}

static void run_workload(const struct demo *demo, const struct key_set *table,
			 enum workload workload, struct tally tallies[SIDE_COUNT])
{
	struct filter winnow, stock;

	open_filter(demo, &winnow, SIDE_WINNOW, 0.0);
	open_filter(demo, &stock, SIDE_STOCK, set_bits(demo, winnow.set));
	run_side(demo, table, workload, &stock, &tallies[SIDE_STOCK]);
	run_side(demo, table, workload, &winnow, &tallies[SIDE_WINNOW]);
	close_filter(&winnow);
	close_filter(&stock);
}

/* ---- report ------------------------------------------------------------- */

typedef struct tally tallies_table[WORKLOAD_COUNT][SIDE_COUNT];

static const char *stock_name(const struct demo *demo)
{
	return demo->with_rocksdb ? "Bloom" : "not told";
}

static void print_heads(const struct demo *demo, const char *first)
{
	printf("%-30s", "");
	for (int w = 0; w < WORKLOAD_COUNT; w++)
		printf("  %19s", workload_names[w]);
	printf("\n%-30s", first);
	for (int w = 0; w < WORKLOAD_COUNT; w++)
		printf("  %9s %9s", stock_name(demo), "winnow");
	putchar('\n');
}

static void print_counts(const char *name, tallies_table tallies, size_t offset)
{
	printf("%-30s", name);
	for (int w = 0; w < WORKLOAD_COUNT; w++) {
		fputs("  ", stdout);
		for (int s = 0; s < SIDE_COUNT; s++) {
			uint64_t value;

			memcpy(&value, (const char *)&tallies[w][s] + offset, sizeof(value));
			printf("%s%9llu", s > 0 ? " " : "", (unsigned long long)value);
		}
	}
	putchar('\n');
}

static void print_reals(const char *name, tallies_table tallies, size_t offset, int digits)
{
	printf("%-30s", name);
	for (int w = 0; w < WORKLOAD_COUNT; w++) {
		fputs("  ", stdout);
		for (int s = 0; s < SIDE_COUNT; s++) {
			double value;

			memcpy(&value, (const char *)&tallies[w][s] + offset, sizeof(value));
			printf("%s%9.*f", s > 0 ? " " : "", digits, value);
		}
	}
	putchar('\n');
}

static void print_table(const struct demo *demo, tallies_table tallies)
{
	print_heads(demo, "");
	print_reals("bits per key", tallies, offsetof(struct tally, bits), 2);
	print_counts("wasted disk reads", tallies, offsetof(struct tally, false_positives));
	print_counts("  of these, repeated", tallies, offsetof(struct tally, repeated));
	print_counts("  fixed, yet came back", tallies, offsetof(struct tally, returned));
	print_counts("false positives fixed", tallies, offsetof(struct tally, adaptations));
	print_reals("bits per key to fix them", tallies, offsetof(struct tally, extra_bits), 4);
	print_counts("stored keys denied", tallies, offsetof(struct tally, denied));
	print_reals("seconds for all of it", tallies, offsetof(struct tally, seconds), 2);
}

#define BAR_WIDTH 32

static void print_bar(uint64_t value, uint64_t largest, char mark)
{
	const uint64_t width = largest > 0 ? (value * BAR_WIDTH + largest - 1) / largest : 0;

	for (uint64_t i = 0; i < width; i++)
		putchar(mark);
}

/* One line per interval. */
static void print_curve(const struct demo *demo, tallies_table tallies)
{
	const struct tally *adversary = tallies[WORKLOAD_ADVERSARY];
	uint64_t largest = 0;

	for (int s = 0; s < SIDE_COUNT; s++)
		for (size_t i = 0; i < INTERVALS; i++)
			if (adversary[s].curve[i] > largest)
				largest = adversary[s].curve[i];
	printf("\nWasted disk reads in each %llu queries (bars: the adversary's; # %s, = winnow)\n",
	       (unsigned long long)(demo->queries / INTERVALS), stock_name(demo));
	printf("%9s", "");
	for (int w = 0; w < WORKLOAD_COUNT; w++)
		printf("  %15s", workload_names[w]);
	printf("\n%9s", "queries");
	for (int w = 0; w < WORKLOAD_COUNT; w++)
		printf("  %8s %6s", stock_name(demo), "winnow");
	putchar('\n');
	for (size_t i = 0; i < INTERVALS; i++) {
		printf("%9llu", (unsigned long long)(demo->queries * (i + 1) / INTERVALS));
		for (int w = 0; w < WORKLOAD_COUNT; w++)
			printf("  %8llu %6llu",
			       (unsigned long long)tallies[w][SIDE_STOCK].curve[i],
			       (unsigned long long)tallies[w][SIDE_WINNOW].curve[i]);
		fputs("  ", stdout);
		print_bar(adversary[SIDE_STOCK].curve[i], largest, '#');
		putchar(' ');
		print_bar(adversary[SIDE_WINNOW].curve[i], largest, '=');
		putchar('\n');
	}
}

static double fold(const struct tally *sides)
{
	const uint64_t winnow = sides[SIDE_WINNOW].false_positives;

	return (double)sides[SIDE_STOCK].false_positives / (double)(winnow > 0 ? winnow : 1);
}

static bool print_verdict(const struct demo *demo, tallies_table tallies)
{
	uint64_t denied = 0, returned = 0, unfixed = 0;

	for (int w = 0; w < WORKLOAD_COUNT; w++) {
		for (int s = 0; s < SIDE_COUNT; s++)
			denied += tallies[w][s].denied;
		returned += tallies[w][SIDE_WINNOW].returned;
		unfixed += tallies[w][SIDE_WINNOW].unfixed;
	}
	putchar('\n');
	if (unfixed > 0)
		printf("%llu false positives could not be fixed.\n", (unsigned long long)unfixed);
	if (denied > 0 || returned > 0) {
		printf("WRONG: %llu stored keys denied, %llu fixed false positives came back.\n",
		       (unsigned long long)denied, (unsigned long long)returned);
		return false;
	}
	printf("Against %s with the same bits per key, winnow cut the wasted disk reads "
	       "%.1f-fold on Zipfian queries, %.1f-fold on uniform ones and %.1f-fold under an "
	       "adversary; it made no mistake twice, and denied no stored key.\n",
	       demo->with_rocksdb ? "RocksDB's Bloom filter"
				  : "the same filter that learns nothing",
	       fold(tallies[WORKLOAD_ZIPF]), fold(tallies[WORKLOAD_UNIFORM]),
	       fold(tallies[WORKLOAD_ADVERSARY]));
	return true;
}

/* ---- main --------------------------------------------------------------- */

static void load_table(const struct demo *demo, struct key_set *table)
{
	key_set_init(table, (size_t)demo->num);
	for (uint64_t i = 0; i < demo->num; i++) {
		const struct bench_key key = bench_key(demo->seed, BENCH_STORED, i);
		size_t at;

		key_set_add(table, &key, &at);
	}
}

static void print_setting(const struct demo *demo, const char *why_not)
{
	printf("A table of %llu keys behind a filter; %llu queries for keys that are not there:\n",
	       (unsigned long long)demo->num, (unsigned long long)demo->queries);
	printf("  Zipfian    %llu clients, each with popular keys of its own (exponent %g)\n",
	       (unsigned long long)demo->clients, demo->exponent);
	printf("  uniform    any of %llu keys\n", (unsigned long long)demo->universe);
	printf("  adversary  uniform, but %g%% repeat queries that were slow before\n",
	       100.0 * demo->adversary);
	if (demo->with_rocksdb)
		printf("Bloom is that of RocksDB %s; winnow is told of each wasted disk read.\n\n",
		       rf_version());
	else
		printf("No RocksDB (%s): winnow's filter that is told nothing stands in for "
		       "it.\n\n",
		       why_not);
}

int main(int argc, char **argv)
{
	struct demo demo = {
		.num = 1000000, .queries = 2000000, .universe = 10000000, .clients = 1000,
		.seed = 1, .exponent = 1.5, .adversary = 0.1,
	};
	const struct bench_option options[] = {
		{ "num", BENCH_INTEGER, &demo.num, 1, 1e9, "stored keys" },
		{ "queries", BENCH_INTEGER, &demo.queries, INTERVALS, 1e10,
		  "queries for missing keys" },
		{ "universe", BENCH_INTEGER, &demo.universe, 1, 1e12,
		  "missing keys to draw from, per client" },
		{ "clients", BENCH_INTEGER, &demo.clients, 1, 1e6, "Zipfian clients" },
		{ "exponent", BENCH_REAL, &demo.exponent, 0.01, 20, "Zipf's" },
		{ "adversary", BENCH_REAL, &demo.adversary, 0, 1, "the adversary's share" },
		{ "seed", BENCH_INTEGER, &demo.seed, 0, 9e15, "of keys, hashes and queries" },
		{ .name = NULL },
	};
	tallies_table tallies = { 0 };
	struct key_set table;
	char message[200] = "";
	bool good;

	bench_parse(argc, argv, "usage: bench_demo [--option=value...]", options);
	if (!zipf_self_check(demo.seed, message, sizeof(message)))
		bench_die("the Zipf sampler is wrong: %s", message);
	demo.with_rocksdb = rf_check(message, sizeof(message));
	demo.secret = bench_secret(demo.seed);
	print_setting(&demo, message);
	load_table(&demo, &table);
	for (int w = 0; w < WORKLOAD_COUNT; w++) {
		fprintf(stderr, "%s queries...\n", workload_names[w]);
		run_workload(&demo, &table, (enum workload)w, tallies[w]);
	}
	print_table(&demo, tallies);
	print_curve(&demo, tallies);
	good = print_verdict(&demo, tallies);
	key_set_fini(&table);
	wn_secret_destroy(demo.secret);
	return good ? 0 : 1;
}
