/* lines_block.h - AdaptiveQF blocks in lines of any layout, from any hashes, and the multiset of
 * fingerprints that they must answer as. */
#ifndef WN_TESTS_LINES_BLOCK_H
#define WN_TESTS_LINES_BLOCK_H

#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "kinds/aqf/lines.h"
#include "kinds/block_build.h"
#include "kinds/block_format.h"
#include "tests/support/common.h"

struct lines_sample {
	struct wn_secret *secret;
	struct wn__lines_shape shape;
	struct wn_hash *hashes; /* ascending, distinct */
	size_t count;
	struct wn_hash *negatives; /* the same; none of them a key */
	size_t negative_count;
	unsigned char *memory, *block; /* the block is somewhere in the memory */
	size_t size;
	struct wn__lines lines;
};

/* Sort, and drop what is there twice. */
static inline size_t sort_distinct(struct wn_hash *hashes, size_t count)
{
	size_t kept = 0;

	qsort(hashes, count, sizeof(*hashes), test_compare_hashes);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || wn_hash_compare(hashes[kept - 1], hashes[i]) != 0)
			hashes[kept++] = hashes[i];
	return kept;
}

static inline int compare_uppers(const void *a, const void *b)
{
	const struct wn_hash *left = a, *right = b;

	return left->hi < right->hi ? -1 : left->hi > right->hi;
}

/* A block knows the upper halves only. */
static inline bool is_in(const struct wn_hash *hashes, size_t count, struct wn_hash hash)
{
	return count && bsearch(&hash, hashes, count, sizeof(hash), compare_uppers);
}

static inline void drop_stored(struct lines_sample *sample)
{
	size_t kept = 0;

	for (size_t i = 0; i < sample->negative_count; i++)
		if (!is_in(sample->hashes, sample->count, sample->negatives[i]))
			sample->negatives[kept++] = sample->negatives[i];
	sample->negative_count = kept;
}

static inline struct wn_block_info sample_info(const struct lines_sample *sample,
					       enum wn_check check)
{
	struct wn_block_info info;

	expect(wn_block_read(sample->block, sample->size, check, &info, NULL) == 0);
	return info;
}

/* Build and open; hashes and negatives are there. `offset` moves the block in memory. */
static inline void sample_build(struct lines_sample *sample, size_t offset)
{
	uint64_t *uppers = malloc((sample->count + 1) * sizeof(*uppers));
	struct wn__build_input input = {
		.uppers = uppers,
		.key_count = sample->count,
		.negatives = sample->negatives,
		.negative_count = sample->negative_count,
	};
	struct wn__block_writer writer = {0};
	unsigned char params[WN_BLOCK_PARAMS_SIZE] = {0};
	struct wn_block_info info;
	const char *reason = NULL;

	for (size_t i = 0; i < sample->count; i++)
		uppers[i] = sample->hashes[i].hi;
	sample->secret = test_secret(1);
	expect(wn__lines_build(&input, &sample->shape, &writer, params) == 0);
	expect(wn__block_end(&writer, WN_KIND_AQF, params, sample->count, sample->secret) == 0);
	sample->size = writer.size;
	/* The end of the memory is the end of the block: sanitizers see who reads beyond. */
	sample->memory = malloc(offset + writer.size);
	expect(sample->memory);
	sample->block = sample->memory + offset;
	memcpy(sample->block, writer.block, writer.size);
	wn__block_abandon(&writer);
	free(uppers);
	info = sample_info(sample, WN_CHECK_ALL);
	if (wn__lines_open(&info, WN_CHECK_ALL, &sample->lines, &reason))
		ck_abort_msg("%s (%zu keys, %u quotients, %u extra bits)", reason, sample->count,
			     sample->shape.quotients, sample->shape.extra_bits);
}

static inline void sample_free(struct lines_sample *sample)
{
	wn_secret_destroy(sample->secret);
	free(sample->memory);
	free(sample->hashes);
	free(sample->negatives);
}

static inline struct lines_sample random_sample(size_t count, unsigned extra_bits,
						unsigned quotients, unsigned keys_per_span,
						uint64_t *random)
{
	struct lines_sample sample = {
		.shape = {extra_bits, quotients, wn__lines_spans(count, keys_per_span)},
		.hashes = malloc((count + 1) * sizeof(struct wn_hash)),
	};

	for (size_t i = 0; i < count; i++)
		sample.hashes[i] = test_random_hash(random);
	sample.count = sort_distinct(sample.hashes, count);
	return sample;
}

/* ---- the model ----------------------------------------------------------- */

static inline uint64_t print_of_hash(const struct lines_sample *sample, struct wn_hash hash)
{
	const struct wn__lines_shape *shape = &sample->shape;
	wn__u128 all = (wn__u128)(shape->quotients * shape->spans) << (8 + shape->extra_bits);

	return (uint64_t)(hash.hi * all >> 64);
}

/* The first key whose fingerprint is not below. */
static inline size_t first_key_of(const struct lines_sample *sample, uint64_t print)
{
	size_t low = 0, high = sample->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (print_of_hash(sample, sample->hashes[middle]) < print)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline bool is_extended(const struct lines_sample *sample, uint64_t print)
{
	for (size_t i = 0; i < sample->negative_count; i++)
		if (print_of_hash(sample, sample->negatives[i]) == print)
			return true;
	return false;
}

/* What the filter must answer from a rank on: the rank, or UINT32_MAX for "no". */
static inline uint32_t model_rank(const struct lines_sample *sample, struct wn_hash hash,
				  uint32_t rank)
{
	uint64_t print = print_of_hash(sample, hash);
	size_t first = first_key_of(sample, print);
	bool extended = is_extended(sample, print);

	for (size_t at = first + rank; at < sample->count; at++) {
		if (print_of_hash(sample, sample->hashes[at]) != print)
			break;
		if (!extended || sample->hashes[at].hi == hash.hi)
			return (uint32_t)(at - first);
	}
	return UINT32_MAX;
}

/* All ways to ask, all ranks. */
static inline void check_answer(const struct lines_sample *sample, struct wn_hash hash)
{
	uint32_t rank = model_rank(sample, hash, 0);
	struct wn_match match;

	for (int path = 0; path < WN__PATHS; path++) {
		struct wn__lines_calls calls =
			wn__lines_calls_of(&sample->lines, (enum wn__lines_path)path);
		bool answer;

		if (!calls.query)
			continue;
		match = (struct wn_match){0};
		expect(calls.query(&sample->lines, hash, &match) == (rank != UINT32_MAX));
		expect(calls.query(&sample->lines, hash, NULL) == (rank != UINT32_MAX));
		if (rank != UINT32_MAX)
			expect(match.known && match.rank == rank &&
			       match.minirun == print_of_hash(sample, hash));
		calls.query_batch(&sample->lines, &hash, 1, &answer);
		expect(answer == (rank != UINT32_MAX));
	}
	for (unsigned from = 0; from < 4; from++) {
		rank = model_rank(sample, hash, from);
		match = (struct wn_match){0};
		expect(wn__lines_query_from(&sample->lines, hash, from, &match) ==
		       (rank != UINT32_MAX));
		if (rank != UINT32_MAX)
			expect(match.known && match.rank == rank);
	}
}

/* The filter lists just the keys' fingerprints. */
struct listing {
	const struct lines_sample *sample;
	size_t count;
};

static inline int list_print(void *context, uint64_t print, uint32_t line)
{
	struct listing *listing = context;
	const struct lines_sample *sample = listing->sample;

	(void)line;
	expect(listing->count < sample->count);
	expect(print_of_hash(sample, sample->hashes[listing->count++]) == print);
	return 0;
}

static inline void check_listing(const struct lines_sample *sample)
{
	struct listing listing = {.sample = sample};
	const char *reason;

	expect(wn__lines_walk(&sample->lines, list_print, &listing, &reason) == 0);
	expect(listing.count == sample->count);
}

/* A hash of the same fingerprint as this one, or of one beside it. */
static inline struct wn_hash near_hash(const struct lines_sample *sample, struct wn_hash hash,
				       uint64_t *random)
{
	uint64_t width = UINT64_MAX / (wn__lines_quotients(&sample->shape)
				       << (8 + sample->shape.extra_bits));

	hash.hi += test_random(random) % (4 * width + 1) - 2 * width;
	if (test_random(random) % 4)
		hash.lo = test_random(random);
	return hash;
}

static inline void check_sample(const struct lines_sample *sample, size_t queries,
				uint64_t *random)
{
	size_t step = sample->count / queries + 1;

	check_listing(sample);
	for (size_t i = 0; i < sample->count; i += step) {
		check_answer(sample, sample->hashes[i]);
		check_answer(sample, near_hash(sample, sample->hashes[i], random));
	}
	for (size_t i = 0; i < queries; i++)
		check_answer(sample, test_random_hash(random));
	for (size_t i = 0; i < sample->negative_count; i += sample->negative_count / queries + 1) {
		struct wn_match match;

		expect(!wn__lines_query_from(&sample->lines, sample->negatives[i], 0, &match));
		check_answer(sample, sample->negatives[i]);
	}
}

#endif /* WN_TESTS_LINES_BLOCK_H */
