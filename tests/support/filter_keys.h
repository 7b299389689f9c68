/* filter_keys.h - filters in blocks for tests: keys by number, built, asked. */
#ifndef WN_TESTS_FILTER_KEYS_H
#define WN_TESTS_FILTER_KEYS_H

#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/bytes.h"
#include "common.h"

static struct wn_secret *secret;

static inline void set_up(void)
{
	secret = test_secret(1);
}

static inline void tear_down(void)
{
	wn_secret_destroy(secret);
}

/* A key of 8 to 39 bytes; the same number gives the same key. */
static inline size_t make_key(uint64_t number, unsigned char key[40])
{
	uint64_t random = number;
	size_t size = 8 + number % 32;

	put_le64(key, number);
	for (size_t i = 8; i < size; i++)
		key[i] = (unsigned char)test_random(&random);
	return size;
}

static inline struct wn_hash hash_of(uint64_t number)
{
	unsigned char key[40];
	size_t size = make_key(number, key);

	return wn_hash_key(secret, key, size);
}

static inline void add_keys(struct wn_builder *builder, uint64_t first, uint64_t count)
{
	unsigned char key[40];

	for (uint64_t i = first; i < first + count; i++) {
		size_t size = make_key(i, key);

		if (wn_builder_add(builder, key, size))
			ck_abort_msg("key %llu was not added", (unsigned long long)i);
	}
}

static inline bool asks_maybe(const struct wn_filter *filter, uint64_t number)
{
	unsigned char key[40];
	size_t size = make_key(number, key);

	return wn_filter_query(filter, key, size, NULL);
}

static inline void assert_has_keys(const struct wn_filter *filter, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		if (!asks_maybe(filter, i))
			ck_abort_msg("key %llu was forgotten", (unsigned long long)i);
	}
}

static inline uint64_t count_maybes(const struct wn_filter *filter, uint64_t first, uint64_t count)
{
	uint64_t maybes = 0;

	for (uint64_t i = first; i < first + count; i++)
		maybes += asks_maybe(filter, i);
	return maybes;
}

static inline struct wn_builder *make_builder(const char *options)
{
	struct wn_config *config = NULL;
	struct wn_builder *builder;

	if (options)
		ck_assert_int_eq(wn_config_parse(options, NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	wn_config_destroy(config);
	return builder;
}

/* An exact copy of the block, so that a sanitizer sees reads behind it. */
static inline void *finish(struct wn_builder *builder, size_t *sizep)
{
	void *block, *copy;

	ck_assert_int_eq(wn_builder_finish(builder, &block, sizep), 0);
	copy = malloc(*sizep);
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, block, *sizep);
	free(block);
	return copy;
}

static inline struct wn_filter *open_filter(const void *block, size_t size, enum wn_check check)
{
	struct wn_filter *filter;
	const char *reason;
	int err = wn_filter_open(block, size, check, secret, &filter, &reason);

	ck_assert_msg(err == 0, "error %d: %s", err, reason);
	ck_assert_ptr_null(reason);
	return filter;
}

#endif /* WN_TESTS_FILTER_KEYS_H */
