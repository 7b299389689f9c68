/* small_table_host.h - a host of learn/small_table.h: a table is an array of filters in memory, one
 * for each data block. */
#ifndef WN_TESTS_SMALL_TABLE_HOST_H
#define WN_TESTS_SMALL_TABLE_HOST_H

#include <string.h>

#include <winnow/error.h>

#include "common.h"
#include "kinds/kind.h"
#include "learn/learn_internal.h"
#include "learn/small_table_internal.h"

/* One query in ten and more is a false positive. */
static const char *const kinds[] = {"aqf:remainder_bits=3", "sscf:bits_per_key=5"};

struct host {
	struct wn_config *config;
	struct wn_secret *secret;
	struct wn__learn *learn;
	struct wn__small_world world;
};

static inline struct wn__small_world world_of(const struct host *host,
					      const struct wn_secret *secret)
{
	return (struct wn__small_world){
		.config = host->config,
		.secret = secret,
		.secret_id = wn__small_secret_id(secret),
		.secret_sum = wn__small_secret_sum(secret, false),
		.metrics = &host->learn->metrics,
	};
}

static inline struct host host_open(const char *kind)
{
	struct wn__learn_options options = {.keeps_missing_keys = true, .missing_keys = 8192};
	struct wn__learn_place place = {0};
	struct host host;

	ck_assert_int_eq(wn_config_parse(kind, NULL, 0, &host.config), 0);
	host.secret = test_secret(7);
	options.config = host.config;
	ck_assert_int_eq(wn__learn_create(&options, host.secret, &host.learn), 0);
	ck_assert_int_eq(wn__map_memory_create(&place.map), 0);
	ck_assert_int_eq(wn__learn_open(host.learn, &place), 0);
	host.world = world_of(&host, host.secret);
	return host;
}

static inline void host_close(struct host *host)
{
	wn__learn_close(host->learn);
	wn__learn_release(host->learn);
	wn_config_destroy(host->config);
	wn_secret_destroy(host->secret);
}

static inline struct wn_stats host_stats(const struct host *host)
{
	struct wn_stats stats = {0};

	wn__learn_describe(host->learn, &stats);
	return stats;
}

/* A list of missing keys that is not old, for the table that is built next. */
static inline void renew_missing(struct host *host)
{
	wn__missing_release(host->learn->missing, wn__missing_list(host->learn->missing, true));
}

/* ---- tables ------------------------------------------------------------- */

/* Even numbers are keys: BLOCK_KEYS in each block. */
#define BLOCKS 50
#define BLOCK_KEYS 40
#define KEYS (BLOCKS * BLOCK_KEYS)
#define KEY_SIZE 12

static inline void make_key(uint64_t number, char *key)
{
	char text[32];

	snprintf(text, sizeof(text), "key%09" PRIu64, number);
	memcpy(key, text, KEY_SIZE);
}

static inline struct wn_hash hash_of(const struct host *host, uint64_t number)
{
	char key[KEY_SIZE];

	make_key(number, key);
	return wn__hash_key(host->secret, key, KEY_SIZE);
}

struct table {
	unsigned char *file; /* its filters, as they lie in a file */
	size_t size, starts[BLOCKS + 1];
	struct wn__small_reader *reader;
};

/* What a host does with a filter that it could not have. */
static inline void add_filter(struct table *table, unsigned block, unsigned char *bytes,
			      size_t size)
{
	static const unsigned char maybe[] = {0xff, 0xff};
	size_t more = bytes ? size : sizeof(maybe);

	table->starts[block] = table->size;
	table->file = realloc(table->file, table->size + more);
	memcpy(table->file + table->size, bytes ? bytes : maybe, more);
	table->starts[block + 1] = table->size += more;
	free(bytes);
}

static inline void add_block(struct host *host, struct wn__small_table *build, struct table *table,
			     unsigned block)
{
	uint64_t first = UINT64_C(2) * block * BLOCK_KEYS, last = first + 2 * (BLOCK_KEYS - 1);
	char first_key[KEY_SIZE], last_key[KEY_SIZE];
	struct wn_hash hashes[BLOCK_KEYS];
	struct wn__small_block keys = {.hashes = hashes, .count = BLOCK_KEYS,
				       .first = {first_key, KEY_SIZE},
				       .last = {last_key, KEY_SIZE}};
	unsigned char *bytes;
	size_t size;

	for (unsigned i = 0; i < BLOCK_KEYS; i++)
		hashes[i] = hash_of(host, first + 2 * i);
	make_key(first, first_key);
	make_key(last, last_key);
	wn__small_table_add(build, &host->world, &keys, &bytes, &size);
	ck_assert((bytes == NULL) == (size == 0));
	add_filter(table, block, bytes, size);
}

/* What may go wrong between a host and its table. */
enum { RIGHT, ONE_LEFT_OUT, ONE_TOO_MANY, ONE_TWICE, NOT_BUILT, MISTAKES };

static inline void build_blocks(struct host *host, struct wn__small_table *build,
				struct table *table, int mistake)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct table elsewhere = {0};

		if (i == 20 && (mistake == ONE_TOO_MANY || mistake == ONE_TWICE))
			add_block(host, build, &elsewhere, mistake == ONE_TWICE ? 0 : i + 1);
		free(elsewhere.file);
		if (i == 20 && mistake == NOT_BUILT)
			add_filter(table, i, NULL, 0);
		else
			add_block(host, i == 20 && mistake == ONE_LEFT_OUT ? NULL : build, table,
				  i);
	}
}

static inline struct wn__small_extent extent_of(const struct table *table)
{
	return (struct wn__small_extent){table->size, 0, table->starts[1]};
}

static inline int table_open(struct host *host, struct table *table)
{
	struct wn__small_extent extent = extent_of(table);

	return wn__small_reader_open(host->learn->registry, &host->world, table->file, table->size,
				     &extent, &table->reader);
}

static inline struct table table_build(struct host *host, uint64_t number, int mistake)
{
	struct wn__small_table *build =
		wn__small_table_begin(host->learn, &host->world, number);
	struct table table = {0};

	ck_assert_ptr_nonnull(build);
	build_blocks(host, build, &table, mistake);
	wn__small_table_end(build);
	wn__small_table_end(build);
	wn__small_table_free(build);
	ck_assert_int_eq(table_open(host, &table), 0);
	return table;
}

static inline void table_free(struct table *table)
{
	wn__small_reader_close(table->reader);
	free(table->file);
}

/* As hosts ask: the filter, and what its table has learned. */
static inline bool table_asks(struct host *host, const struct table *table, unsigned block,
			      struct wn_hash hash)
{
	const unsigned char *bytes =
		table->reader ? wn__small_reader_block(table->reader) : table->file;
	const unsigned char *filter = bytes + table->starts[block];
	size_t size = table->starts[block + 1] - table->starts[block];

	return wn__small_ask(filter, size, host->world.secret_id, hash) &&
	       wn__small_reader_heed(host->learn->registry, filter, hash);
}

/* Keys between two blocks may be asked of either. */
static inline unsigned block_of(uint64_t number)
{
	return (unsigned)((number + number / BLOCK_KEYS / 2 % 2) / 2 / BLOCK_KEYS);
}

/* Was it asked for nothing? */
static inline bool look_up(struct host *host, const struct table *table, uint64_t number)
{
	bool stored = number % 2 == 0, maybe;
	struct wn__lookup lookup;
	char key[KEY_SIZE];

	make_key(number, key);
	wn__lookup_begin(&lookup, host->learn->registry, host->secret, key, KEY_SIZE);
	maybe = table_asks(host, table, block_of(number),
			   wn__lookup_hash(host->secret, key, KEY_SIZE));
	expect(maybe || !stored);
	wn__lookup_end(&lookup, host->learn, maybe && stored, false);
	return maybe && !stored;
}

static inline uint64_t ask_absent(struct host *host, const struct table *table)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < KEYS - 1; i++)
		wrong += look_up(host, table, 2 * i + 1);
	return wrong;
}

static inline void expect_stored(struct host *host, const struct table *table)
{
	for (uint64_t i = 0; i < KEYS; i++)
		expect(!look_up(host, table, 2 * i));
}

#endif /* WN_TESTS_SMALL_TABLE_HOST_H */
