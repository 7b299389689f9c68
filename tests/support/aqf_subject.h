/* aqf_subject.h - filters and their shelves, filled at random. */
#ifndef WN_TESTS_AQF_SUBJECT_H
#define WN_TESTS_AQF_SUBJECT_H

#include "tests/support/shelf.h"

static inline struct wn_aqf_options with(uint64_t capacity, unsigned remainder_bits)
{
	return (struct wn_aqf_options){.capacity = capacity, .remainder_bits = remainder_bits};
}

static inline struct subject new_subject(uint64_t capacity, unsigned remainder_bits)
{
	struct wn_aqf_options options = with(capacity, remainder_bits);

	return create_subject(&options);
}

static inline struct wn_aqf_info info_of(const struct wn_aqf *aqf)
{
	struct wn_aqf_info info;

	wn_aqf_describe(aqf, &info);
	return info;
}

static inline void fill(struct subject *subject, uint64_t count, uint64_t *random)
{
	for (uint64_t i = 0; i < count; i++)
		expect(insert_item(subject, test_random_hash(random)) == 0);
}

/* Adapt against relatives of random items, `times` times or until room is gone. */
static inline void learn(struct subject *subject, unsigned times, uint64_t *random)
{
	unsigned bits = subject->aqf->table.remainder_bits;

	while (times-- > 0) {
		size_t at = (size_t)(test_random(random) % subject->count);
		unsigned bit = bits + (unsigned)(test_random(random) % (2 * bits));
		struct wn_hash query = craft_relative(subject->aqf, subject->items[at].hash, bit,
						      random);
		int err = adapt_item(subject, at, query);

		if (err == WN_ERR_FULL)
			return;
		expect(err == 0);
	}
}

static inline void raise_counts(struct subject *subject, unsigned times, uint64_t *random)
{
	while (times-- > 0) {
		size_t at = (size_t)(test_random(random) % subject->count);
		uint64_t add = test_random(random) >> (4 + test_random(random) % 60);
		int err = count_item(subject, at, add);

		expect(err == 0 || err == WN_ERR_FULL || err == WN_ERR_RANGE);
	}
}

#endif /* WN_TESTS_AQF_SUBJECT_H */
