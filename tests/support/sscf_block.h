/* sscf_block.h - a frozen seesaw counting filter with its keys and negatives. */
#ifndef WN_TESTS_SSCF_BLOCK_H
#define WN_TESTS_SSCF_BLOCK_H

#include <winnow/filter.h>

#include "kinds/kind.h"
#include "tests/support/common.h"

struct sample {
	struct wn_secret *secret;
	struct wn_hash *keys;
	struct wn_hash *negatives;
	double *costs;
	size_t key_count, negative_count;
	void *block;
	size_t size;
	struct wn_filter *filter;
};

static inline struct wn_builder *fill_builder(const struct sample *sample, const char *options)
{
	struct wn_builder *builder;
	struct wn_config *config;
	char message[200];

	if (wn_config_parse(options, message, sizeof(message), &config))
		ck_abort_msg("%s", message);
	ck_assert_int_eq(wn_builder_create(config, sample->secret, &builder), 0);
	wn_config_destroy(config);
	for (size_t i = 0; i < sample->key_count; i++)
		expect(wn_builder_add_hash(builder, sample->keys[i]) == 0);
	for (size_t i = 0; i < sample->negative_count; i++)
		expect(wn_builder_add_costly(builder, sample->negatives[i], sample->costs[i]) == 0);
	return builder;
}

static inline void open_block(struct sample *sample)
{
	const char *reason;

	if (wn_filter_open(sample->block, sample->size, WN_CHECK_ALL, sample->secret,
			   &sample->filter, &reason))
		ck_abort_msg("%s", reason);
}

/* Random keys and negatives; negative i costs 1 / (i + 1). */
static inline struct sample make(const char *options, size_t keys, size_t negatives,
				 uint64_t *random)
{
	struct sample sample = {.secret = test_secret(5), .key_count = keys,
				.negative_count = negatives};
	struct wn_builder *builder;

	sample.keys = malloc((keys + 1) * sizeof(*sample.keys));
	sample.negatives = malloc((negatives + 1) * sizeof(*sample.negatives));
	sample.costs = malloc((negatives + 1) * sizeof(*sample.costs));
	for (size_t i = 0; i < keys; i++)
		sample.keys[i] = test_random_hash(random);
	for (size_t i = 0; i < negatives; i++) {
		sample.negatives[i] = test_random_hash(random);
		sample.costs[i] = 1 / (double)(i + 1);
	}
	builder = fill_builder(&sample, options);
	ck_assert_int_eq(wn_builder_finish(builder, &sample.block, &sample.size), 0);
	wn_builder_destroy(builder);
	open_block(&sample);
	return sample;
}

static inline void destroy(struct sample *sample)
{
	wn_filter_close(sample->filter);
	free(sample->block);
	free(sample->keys);
	free(sample->negatives);
	free(sample->costs);
	wn_secret_destroy(sample->secret);
}

#endif /* WN_TESTS_SSCF_BLOCK_H */
