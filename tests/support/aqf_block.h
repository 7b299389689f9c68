/* aqf_block.h - adaptive quotient filters as blocks that may be changed. */
#ifndef WN_TESTS_AQF_BLOCK_H
#define WN_TESTS_AQF_BLOCK_H

#include "kinds/aqf/aqf_format.h"
#include "kinds/block_format.h"
#include "tests/support/shelf.h"

static struct wn_secret *secret;

static inline void set_up(void)
{
	secret = test_secret(3);
}

static inline void tear_down(void)
{
	wn_secret_destroy(secret);
}

/* Keys, relatives of which were adapted against, and some counts. */
static inline struct subject rich_subject(uint64_t capacity, unsigned remainder_bits,
					  unsigned tag_bits, uint64_t *random)
{
	struct wn_aqf_options options = {
		.capacity = capacity,
		.remainder_bits = remainder_bits,
		.tag_bits = tag_bits,
	};
	struct subject subject = create_subject(&options);

	for (uint64_t i = 0; i < capacity - capacity / 20; i++)
		expect(insert_tagged(&subject, test_random_hash(random),
				     (unsigned)i & tag_bits) == 0);
	for (uint64_t i = 0; i < capacity / 20; i++) {
		size_t at = (size_t)(test_random(random) % subject.count);
		int err;

		if (i % 4 == 0)
			err = count_item(&subject, at, 1 + i % 5);
		else
			err = adapt_item(&subject, at,
					 craft_relative(subject.aqf, subject.items[at].hash,
							remainder_bits, random));
		expect(err == 0 || err == WN_ERR_FULL);
	}
	return subject;
}

static inline struct subject plain_subject(uint64_t capacity, unsigned remainder_bits,
					   uint64_t *random)
{
	struct wn_aqf_options options = {.capacity = capacity, .remainder_bits = remainder_bits};
	struct subject subject = create_subject(&options);

	for (uint64_t i = 0; i < capacity; i++)
		expect(insert_item(&subject, test_random_hash(random)) == 0);
	return subject;
}

/* A block in memory of exactly its size, so that a sanitizer sees the first byte behind. */
struct block {
	unsigned char *bytes;
	size_t size;
};

static inline struct block freeze(const struct wn_aqf *aqf)
{
	struct block block;
	void *bytes;

	expect(wn_aqf_freeze(aqf, secret, &bytes, &block.size) == 0);
	block.bytes = bytes;
	return block;
}

static inline struct wn__aqf_params params_of(struct block block)
{
	return wn__aqf_params_get(block.bytes + WN__BLOCK_PARAMS_AT);
}

static inline struct wn_filter *open_block(struct block block, enum wn_check check)
{
	struct wn_filter *filter;
	const char *reason;

	wn_filter_open(block.bytes, block.size, check, secret, &filter, &reason);
	expect(filter || reason);
	return filter;
}

/* ---- fast and portable -------------------------------------------------- */

static inline void compare_answers(const struct wn_filter *filter, struct wn_hash hash)
{
	struct wn_match fast = {0}, slow = {0};
	bool batch[2];

	expect(wn_filter_query_hash(filter, hash, &fast) ==
	       wn__frozen_query_portable(filter->state, hash, &slow));
	expect(fast.known == slow.known);
	expect(fast.minirun == slow.minirun && fast.rank == slow.rank);
	wn_filter_query_batch(filter, &hash, 1, &batch[0]);
	wn__frozen_batch_portable(filter->state, &hash, 1, &batch[1]);
	expect(batch[0] == batch[1]);
	expect(batch[0] == wn_filter_query_hash(filter, hash, NULL));
}

#endif /* WN_TESTS_AQF_BLOCK_H */
