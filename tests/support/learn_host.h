/* learn_host.h - a host of learn/learn.h: tables are blocks in memory, a lookup asks one. */
#ifndef WN_TESTS_LEARN_HOST_H
#define WN_TESTS_LEARN_HOST_H

#include <string.h>

#include <winnow/block.h>
#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/sort.h"
#include "common.h"
#include "kinds/block_build.h"
#include "learn/learn_internal.h"
#include "learn/new_table.h"

/* One filter in twenty queries errs, of either kind. */
static const char *const kinds[] = {"aqf:remainder_bits=4", "sscf:bits_per_key=6"};

/* One table: numbers from `first` on are stored, 0 to KEYS - 1 of them. */
#define KEYS 20000

struct table {
	struct wn__keylist list;
	void *block;
	struct wn_filter *filter;
	struct wn__lessons *lessons;
	uint64_t first;
};

struct host {
	struct wn_config *config;
	struct wn_secret *secret;
	struct wn__learn *learn;
};

static inline struct host host_open(const char *kind, struct wn__learn_options options)
{
	struct wn__learn_place place = {0};
	struct host host;

	ck_assert_int_eq(wn_config_parse(kind, NULL, 0, &host.config), 0);
	host.secret = test_secret(7);
	options.config = host.config;
	ck_assert_int_eq(wn__learn_create(&options, host.secret, &host.learn), 0);
	ck_assert_int_eq(wn__map_memory_create(&place.map), 0);
	ck_assert_int_eq(wn__learn_open(host.learn, &place), 0);
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

static inline struct wn_hash hash_of(const struct host *host, uint64_t number)
{
	return wn_hash_key(host->secret, &number, sizeof(number));
}

/* Have the builder build against what is known. */
static inline void carry_over(struct host *host, struct wn_builder *builder)
{
	struct wn__new_table *table;

	wn__new_table_begin(host->learn, 0, &table);
	wn__new_table_carry_over(table, builder);
	wn__new_table_end(table);
}

/* Build a table as a host does: against what is known, and the key list handed over. */
static inline struct table table_build(struct host *host, uint64_t first, uint64_t owner)
{
	struct table table = {.first = first};
	struct wn_builder *builder;
	struct wn_block_info info;
	size_t size;

	ck_assert_int_eq(wn_builder_create(host->config, host->secret, &builder), 0);
	for (uint64_t i = 0; i < KEYS; i++)
		expect(wn_builder_add_hash(builder, hash_of(host, first + i)) == 0);
	carry_over(host, builder);
	ck_assert_int_eq(wn_builder_finish(builder, &table.block, &size), 0);
	ck_assert_int_eq(wn_block_read(table.block, size, WN_CHECK_HEADER, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &table.list), 0);
	table.list.owner = owner;
	wn__worker_put(host->learn, &table.list, wn__builder_take_uppers(builder));
	ck_assert_int_eq(wn_filter_open(table.block, size, WN_CHECK_ALL, host->secret,
					&table.filter, NULL), 0);
	ck_assert_int_eq(wn__filter_lessons(host->learn->registry, table.filter, &table.lessons),
			 0);
	wn_builder_destroy(builder);
	return table;
}

/* The key list of a table that another host built with these numbers. */
static inline void table_put(struct host *host, const struct wn__keylist *list)
{
	uint64_t *uppers = calloc(KEYS, sizeof(*uppers));

	for (uint64_t i = 0; i < KEYS; i++)
		uppers[i] = hash_of(host, i).hi;
	qsort(uppers, KEYS, sizeof(*uppers), wn__compare_numbers);
	wn__worker_put(host->learn, list, uppers);
	wn__learn_drain(host->learn);
}

static inline void table_free(struct table *table)
{
	wn__lessons_release(table->lessons);
	wn_filter_close(table->filter);
	free(table->block);
}

static inline bool table_asks(struct host *host, const struct table *table, struct wn_hash hash)
{
	struct wn_match match;
	bool maybe = wn__filter_query_learned(table->filter, table->lessons, hash, &match);

	if (maybe)
		wn__lookup_note(host->learn->registry, &table->list, hash, &match);
	return maybe;
}

static inline void begin_lookup(struct host *host, struct wn__lookup *lookup,
				const uint64_t *number)
{
	wn__lookup_begin(lookup, host->learn->registry, host->secret, number,
			 number ? sizeof(*number) : 0);
}

/* A lookup in one table; was it asked for nothing? */
static inline bool look_up(struct host *host, const struct table *table, uint64_t number)
{
	bool stored = number >= table->first && number < table->first + KEYS;
	struct wn__lookup lookup;
	bool maybe;

	begin_lookup(host, &lookup, &number);
	maybe = table_asks(host, table, wn__lookup_hash(host->secret, &number, sizeof(number)));
	expect(maybe || !stored);
	wn__lookup_end(&lookup, host->learn, maybe && stored, false);
	return maybe && !stored;
}

/* The false positives among `count` absent numbers. */
static inline uint64_t ask_absent(struct host *host, const struct table *table, uint64_t count)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++)
		wrong += look_up(host, table, (UINT64_C(1) << 40) + i);
	wn__learn_drain(host->learn);
	return wrong;
}

static inline void expect_stored(struct host *host, const struct table *table)
{
	for (uint64_t i = 0; i < KEYS; i++)
		expect(!look_up(host, table, table->first + i));
}

#endif /* WN_TESTS_LEARN_HOST_H */
