/* small_filter.h - small filters for tests: built, cut, asked in every way there is. */
#ifndef WN_TESTS_SMALL_FILTER_H
#define WN_TESTS_SMALL_FILTER_H

#include <stdlib.h>
#include <string.h>

#include <winnow/filter.h>

#include "base/bits.h"
#include "kinds/kind.h"
#include "kinds/small.h"
#include "tests/support/common.h"

#define SMALL_SECRET UINT32_C(0x2b1d5)

struct small_filter {
	struct wn_hash *hashes; /* the keys */
	uint32_t count;
	struct wn_hash *absent; /* told to the builder */
	size_t absent_count;
	size_t denied;
	unsigned char *bytes; /* exactly as long: sanitizers see a step too far */
	size_t size;
};

static inline struct wn_config *small_config(const char *options)
{
	struct wn_config *config;
	char message[200];

	if (wn_config_parse(options, message, sizeof(message), &config) ||
	    wn__small_check_config(config, message, sizeof(message)))
		ck_abort_msg("%s", message);
	return config;
}

/* Some of the missing keys twice, and one that is a key by now. NULL: there are none. */
static inline struct wn__small_negative *small_negatives(const struct small_filter *filter,
							 size_t *countp)
{
	struct wn__small_negative *negatives =
		malloc((2 * filter->absent_count + 1) * sizeof(*negatives));
	size_t count = 0;

	for (size_t i = 0; i < filter->absent_count; i++)
		for (size_t times = 0; times < 1 + (i % 4 == 0); times++)
			negatives[count++] = (struct wn__small_negative){filter->absent[i],
									 1 + (double)(i % 3)};
	if (count)
		negatives[count++] =
			(struct wn__small_negative){filter->hashes[filter->count / 2], 9};
	*countp = count;
	return negatives;
}

/* Build filter->bytes; from the keys and missing keys that are there. */
static inline void small_build(struct small_filter *filter, const char *options,
			       const struct wn__small_header *header)
{
	struct wn_config *config = small_config(options);
	struct wn__small_input input = {.config = config, .keys = filter->hashes,
					.key_count = filter->count};
	unsigned char *bytes;

	input.negatives = small_negatives(filter, &input.negative_count);
	expect(wn__small_build(&input, SMALL_SECRET, header, &bytes, &filter->size,
			       &filter->denied) == 0);
	filter->bytes = malloc(filter->size);
	memcpy(filter->bytes, bytes, filter->size);
	free(bytes);
	free(input.negatives);
	wn_config_destroy(config);
}

static inline struct small_filter small_filter_of(const char *options, uint32_t count,
						  size_t absent, uint64_t *random,
						  struct wn_hash (*choose)(uint64_t *random))
{
	struct small_filter filter = {.hashes = malloc(count * sizeof(struct wn_hash)),
				      .absent = malloc((absent + 1) * sizeof(struct wn_hash)),
				      .absent_count = absent};

	for (uint32_t i = 0; i < count; i++)
		filter.hashes[i] = choose(random);
	filter.count = (uint32_t)wn__small_sort(filter.hashes, count);
	for (size_t i = 0; i < absent; i++)
		filter.absent[i] = test_random_hash(random);
	small_build(&filter, options, NULL);
	return filter;
}

static inline struct small_filter make_small_filter(const char *options, uint32_t count,
						    size_t absent, uint64_t *random)
{
	return small_filter_of(options, count, absent, random, test_random_hash);
}

static inline void free_small_filter(struct small_filter *filter)
{
	free(filter->hashes);
	free(filter->absent);
	free(filter->bytes);
}

/* What lookups ask first must say the same. */
static inline enum wn__small_claim small_claims(const unsigned char *bytes, size_t size,
						unsigned *kindp)
{
	enum wn__small_claim claim = wn__small_claims(bytes, size, SMALL_SECRET, kindp);
	wn__small_query_fn *const *queries = wn__small_queries();
	bool is_filter = claim == WN__SMALL_WHOLE && *kindp != 0;

	expect(wn__small_quick_query(queries, bytes, size, SMALL_SECRET) ==
	       (is_filter ? queries[*kindp] : NULL));
	return claim;
}

/* The kind's form, of a whole filter. */
static inline const struct wn__small_form *small_form_of(const unsigned char *bytes, size_t size)
{
	unsigned kind;

	expect(small_claims(bytes, size, &kind) == WN__SMALL_WHOLE);
	expect(kind != 0 && kind == wn__small_kind(bytes));
	return wn__kind_by_id(kind)->small;
}

/* By every function that there is: they must agree. */
static inline bool small_says_maybe(const struct wn__small_form *form, const unsigned char *bytes,
				    size_t size, struct wn_hash hash)
{
	bool answer = form->query(bytes, size, hash);

	if (form->query_fast && wn__cpu_is_fast())
		expect(form->query_fast(bytes, size, hash) == answer);
	return answer;
}

static inline void expect_small_keys(const struct small_filter *filter)
{
	const struct wn__small_form *form = small_form_of(filter->bytes, filter->size);
	struct wn__small_info info;

	for (uint32_t i = 0; i < filter->count; i++)
		expect(small_says_maybe(form, filter->bytes, filter->size, filter->hashes[i]));
	expect(form->describe(filter->bytes, filter->size, &info));
	expect(!info.counts_keys || info.key_count == filter->count);
	expect(info.expected_fpr >= 0 && info.expected_fpr <= 1);
}

/* Cut anywhere it is ours and damaged, never another's, whatever the bytes in it. */
static inline void expect_no_cut_is_whole(const unsigned char *bytes, size_t size, size_t step)
{
	for (size_t cut = 0; cut < size; cut += cut < 1200 || cut + 100 > size ? 1 : step) {
		unsigned char *copy = malloc(cut + !cut);
		struct wn__small_header header;
		unsigned kind = 77;

		memcpy(copy, bytes, cut);
		expect(small_claims(copy, cut, &kind) == WN__SMALL_DAMAGED);
		expect(!wn__small_get_header(copy, cut, SMALL_SECRET, &header));
		free(copy);
	}
}

/* Whatever a filter's bits are: nothing outside is touched, which a sanitizer sees, and all
 * functions agree. */
static inline void expect_damage_survived(struct small_filter *filter, uint64_t *random)
{
	size_t bits = 8 * filter->size, step = bits < 6000 ? 1 : 1 + bits / 6000;

	for (size_t bit = 0; bit < bits; bit += bit < bits - 32 ? step : 1) {
		struct wn__small_info info;
		unsigned kind;

		filter->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		if (small_claims(filter->bytes, filter->size, &kind) == WN__SMALL_WHOLE &&
		    kind != 0) {
			const struct wn__small_form *form = wn__kind_by_id(kind)->small;

			for (int j = 0; j < 20; j++)
				small_says_maybe(form, filter->bytes, filter->size,
						 test_random_hash(random));
			form->describe(filter->bytes, filter->size, &info);
		}
		filter->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

/* Make the bytes a whole filter of the kind, in front and size: the rest is as it was. */
static inline void craft_small(unsigned char *bytes, size_t size, unsigned kind)
{
	uint32_t code = (uint32_t)(size < WN__SMALL_LONG ? size : WN__SMALL_LONG) << 10;
	uint32_t front = kind << 20 | (SMALL_SECRET ^ code);

	for (unsigned i = 0; i < 3; i++) {
		bytes[i] = (unsigned char)(front >> 8 * i);
		if (size >= WN__SMALL_LONG)
			bytes[3 + i] = (unsigned char)(size >> 8 * i);
	}
	bytes[size - 1] |= WN__SMALL_LAST;
}

#endif /* WN_TESTS_SMALL_FILTER_H */
