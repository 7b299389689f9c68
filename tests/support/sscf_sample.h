/* sscf_sample.h - a living seesaw counting filter with its keys. */
#ifndef WN_TESTS_SSCF_SAMPLE_H
#define WN_TESTS_SSCF_SAMPLE_H

#include <winnow/sscf.h>

#include "living/sscf_internal.h"
#include "tests/support/common.h"

struct sample {
	struct wn_sscf *sscf;
	struct wn_hash *keys, *vulnerable;
	size_t key_count, vulnerable_count;
};

/* Vulnerable keys first, then keys. */
static inline struct sample fill(const struct wn_sscf_options *options, uint64_t *random)
{
	struct sample sample = {.key_count = options->capacity,
				.vulnerable_count = options->vulnerable};

	ck_assert_int_eq(wn_sscf_create(options, &sample.sscf), 0);
	sample.keys = malloc((sample.key_count + 1) * sizeof(*sample.keys));
	sample.vulnerable = malloc((sample.vulnerable_count + 1) * sizeof(*sample.vulnerable));
	for (size_t i = 0; i < sample.vulnerable_count; i++) {
		sample.vulnerable[i] = test_random_hash(random);
		expect(wn_sscf_add_vulnerable(sample.sscf, sample.vulnerable[i]) == 0);
	}
	for (size_t i = 0; i < sample.key_count; i++) {
		sample.keys[i] = test_random_hash(random);
		wn_sscf_insert(sample.sscf, sample.keys[i]);
	}
	return sample;
}

static inline void destroy(struct sample *sample)
{
	wn_sscf_destroy(sample->sscf);
	free(sample->keys);
	free(sample->vulnerable);
}

static inline double vulnerable_rate(const struct sample *sample)
{
	size_t wrong = 0;

	for (size_t i = 0; i < sample->vulnerable_count; i++)
		wrong += wn_sscf_query(sample->sscf, sample->vulnerable[i]);
	return (double)wrong / (double)sample->vulnerable_count;
}

static inline double other_rate(const struct sample *sample, size_t queries, uint64_t *random)
{
	size_t wrong = 0;

	for (size_t i = 0; i < queries; i++)
		wrong += wn_sscf_query(sample->sscf, test_random_hash(random));
	return (double)wrong / (double)queries;
}

#endif /* WN_TESTS_SSCF_SAMPLE_H */
