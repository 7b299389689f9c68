/* fuzz_block.c - libFuzzer target: any bytes as a filter block.
 *
 * The first byte chooses what is done with the others, and for which kind of filter.
 * As they are, nearly all stop at magic and checksum; so in the other modes these are
 * put right first, of a block or of a small filter, and the input gets to the filter
 * inside. Nothing is asked of the answers, but that there is one, that nothing is read
 * outside the bytes (the sanitizers see to it) and that two ways of asking agree. */
#include <stdlib.h>
#include <string.h>

#include <winnow/aqf.h>
#include <winnow/block.h>
#include <winnow/filter.h>

#include "base/bits.h"
#include "kinds/aqf/lines_format.h"
#include "kinds/block_format.h"
#include "kinds/kind.h"
#include "kinds/small.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AS_IT_IS, REPAIR, REPAIR_LINES, REPAIR_SMALL, MODES };

#define QUERIES 64

static struct wn_secret *secret;
static uint32_t secret_id;
static const unsigned kinds[] = { WN_KIND_AQF, WN_KIND_SSCF };

/* Sizes and params stay the fuzzer's, but for the payload size: one value fits. */
static void repair_block(unsigned char *block, size_t size, unsigned kind)
{
	if (size < WN__BLOCK_MIN_SIZE)
		return;
	memset(block + size - WN__BLOCK_TRAILER_SIZE, 0, WN__BLOCK_TRAILER_SIZE);
	wn__block_set_magic(block);
	wn__block_set_version(block, WN__BLOCK_VERSION);
	wn__block_set_kind(block, kind);
	wn__block_set_flags(block, 0);
	wn__block_set_header_size(block, WN__BLOCK_HEADER_SIZE);
	wn__block_set_payload_size(block, size - WN__BLOCK_MIN_SIZE);
	memset(block + WN__BLOCK_RESERVED_AT, 0, 8);
	wn__block_set_header_sum(block);
	wn__block_set_payload_sum(block, size - WN__BLOCK_MIN_SIZE);
}

/* An AdaptiveQF in lines, with numbers that fit the size: as many spans as the input wants. */
static void repair_lines(unsigned char *block, size_t size)
{
	unsigned char *at = block + WN__BLOCK_PARAMS_AT;
	struct wn__lines_params params;
	size_t left;

	if (size < WN__BLOCK_MIN_SIZE + 4 * (WN__LINE_SIZE + 1))
		return;
	left = size - WN__BLOCK_MIN_SIZE;
	params = wn__lines_params_get(at);
	params.remainder_bits = 8 + params.remainder_bits % 9;
	params.quotients = 8 + params.quotients % 129;
	params.zero = 0;
	params.spans = params.spans % (left / (WN__LINE_SIZE + 1) - 3);
	params.spans += (left - params.spans) % 4; /* so that what is left is a multiple of 4 */
	params.spans += params.spans ? 0 : 4;
	params.lines = (uint32_t)params.spans;
	left -= (WN__LINE_SIZE + 1) * (size_t)params.spans;
	params.odd_spans = left < WN__ODD_SPAN_SIZE ?
				   0 : params.odd_spans % (uint32_t)(left / WN__ODD_SPAN_SIZE + 1);
	left -= params.odd_spans * (size_t)WN__ODD_SPAN_SIZE;
	params.extended = left < WN__EXTENDED_SIZE ?
				  0 : params.extended % (uint32_t)(left / WN__EXTENDED_SIZE + 1);
	left -= params.extended * (size_t)WN__EXTENDED_SIZE;
	params.odd_prints = left / WN__ODD_PRINT_SIZE;
	wn__lines_params_put(at, &params);
	repair_block(block, size, WN_KIND_AQF);
}

static void repair_small(unsigned char *bytes, size_t size, unsigned kind)
{
	uint32_t code = (uint32_t)(size < WN__SMALL_LONG ? size : WN__SMALL_LONG) << 10;
	uint32_t front = kind << 20 | (secret_id ^ code);

	if (size < WN__SMALL_LEAST_SIZE)
		return;
	for (unsigned i = 0; i < 3; i++) {
		bytes[i] = (unsigned char)(front >> 8 * i);
		if (size >= WN__SMALL_LONG)
			bytes[3 + i] = (unsigned char)(size >> 8 * i);
	}
	bytes[size - 1] |= WN__SMALL_LAST;
}

/* Hashes all over the range, the ends included. */
static void make_hashes(struct wn_hash *hashes)
{
	for (uint64_t i = 0; i < QUERIES; i++)
		hashes[i] = (struct wn_hash){ UINT64_MAX / (QUERIES - 1) * i,
					      i * UINT64_C(0x9e3779b97f4a7c15) };
	hashes[QUERIES - 1].hi = UINT64_MAX;
}

/* The same by keys, in a batch and one by one. */
static void ask_for_keys(const struct wn_filter *filter)
{
	uint64_t bytes[QUERIES][2];
	struct wn_key keys[QUERIES];
	bool answers[QUERIES];

	for (uint64_t i = 0; i < QUERIES; i++) {
		bytes[i][0] = bytes[i][1] = i * UINT64_C(0x9e3779b97f4a7c15);
		keys[i] = (struct wn_key){bytes[i], i % 17};
	}
	wn_filter_query_keys(filter, keys, QUERIES, answers);
	for (size_t i = 0; i < QUERIES; i++)
		if (wn_filter_query(filter, keys[i].data, keys[i].size, NULL) != answers[i])
			abort();
}

static void ask(const struct wn_filter *filter)
{
	struct wn_filter_info info;
	struct wn_hash hashes[QUERIES];
	bool answers[QUERIES];

	make_hashes(hashes);
	wn_filter_describe(filter, &info);
	wn_filter_query_batch(filter, hashes, QUERIES, answers);
	for (size_t i = 0; i < QUERIES; i++) {
		struct wn_match match;

		if (wn_filter_query_hash(filter, hashes[i], &match) != answers[i])
			abort();
	}
	ask_for_keys(filter);
	(void)wn_filter_query(filter, NULL, 0, NULL);
}

static void try_block(const unsigned char *block, size_t size, enum wn_check check)
{
	struct wn_block_info info;
	struct wn_filter *filter;
	const char *reason;
	int err = wn_block_read(block, size, check, &info, &reason);

	if ((err != 0) != (reason != NULL))
		abort();
	if (!err && (info.payload < block || info.payload_size + 8 > size))
		abort();
	if (!err && !wn_block_is_ours(block, size))
		abort();
	err = wn_filter_open(block, size, check, secret, &filter, &reason);
	if ((err != 0) != (filter == NULL) || (err != 0) != (reason != NULL))
		abort();
	if (filter)
		ask(filter);
	wn_filter_close(filter);
}

static void ask_small(const struct wn__small_form *form, const unsigned char *bytes, size_t size)
{
	struct wn_hash hashes[QUERIES];
	struct wn__small_info info;

	make_hashes(hashes);
	for (size_t i = 0; i < QUERIES; i++) {
		bool answer = form->query(bytes, size, hashes[i]);

		if (form->query_fast && wn__cpu_is_fast() &&
		    form->query_fast(bytes, size, hashes[i]) != answer)
			abort();
	}
	form->describe(bytes, size, &info);
}

static void try_small(const unsigned char *bytes, size_t size)
{
	enum wn__small_claim claim;
	struct wn__small_header header;
	unsigned kind;

	claim = wn__small_claims(bytes, size, secret_id, &kind);
	if ((wn__small_quick_query(wn__small_queries(), bytes, size, secret_id) != NULL) !=
	    (claim == WN__SMALL_WHOLE && kind != 0))
		abort();
	if (claim != WN__SMALL_WHOLE)
		return;
	if (kind == 0) {
		if (!wn__small_get_header(bytes, size, secret_id, &header))
			abort();
		bytes += WN__SMALL_HEADER;
		size -= WN__SMALL_HEADER;
		if (wn__small_claims(bytes, size, secret_id, &kind) != WN__SMALL_WHOLE ||
		    kind == 0)
			abort();
	}
	ask_small(wn__kind_by_id(kind)->small, bytes, size);
}

static void try_thaw(const unsigned char *block, size_t size)
{
	struct wn_aqf *aqf;

	if (wn_aqf_thaw(block, size, NULL, &aqf) == 0)
		wn_aqf_destroy(aqf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char seed[WN_SEED_SIZE] = { 1 };
	unsigned char *block;
	unsigned kind;

	if (!secret && wn_secret_create(seed, &secret))
		return 0;
	secret_id = wn__small_secret_id(secret);
	if (size < 1)
		return 0;
	/* An exact copy: whatever lies behind it belongs to nobody. */
	block = malloc(size - 1 ? size - 1 : 1);
	if (!block)
		return 0;
	memcpy(block, data + 1, size - 1);
	kind = kinds[data[0] / MODES % (sizeof(kinds) / sizeof(kinds[0]))];
	if (data[0] % MODES == REPAIR)
		repair_block(block, size - 1, kind);
	else if (data[0] % MODES == REPAIR_LINES)
		repair_lines(block, size - 1);
	else if (data[0] % MODES == REPAIR_SMALL)
		repair_small(block, size - 1, kind);
	try_block(block, size - 1, WN_CHECK_HEADER);
	try_block(block, size - 1, WN_CHECK_ALL);
	try_thaw(block, size - 1);
	try_small(block, size - 1);
	free(block);
	return 0;
}
