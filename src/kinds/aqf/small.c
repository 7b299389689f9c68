/* small.c - the small form of the adaptive quotient filter; see aqf_small.h. */
#include <math.h>
#include <stdio.h>

#include <winnow/error.h>

#include "aqf_small.h"

/* ---- options ------------------------------------------------------------ */

#define DEFAULT_REMAINDER 7
#define MAX_BITS_PER_KEY 18
/* A key takes its remainder and two and a third bits; the four bytes around come out of the last
 * third, at 36 keys. */
#define HUNDREDTHS_AROUND 234

static unsigned remainder_bits_of(const struct wn_config *config)
{
	if (config->given[WN__AQF_REMAINDER_BITS])
		return (unsigned)config->values[WN__AQF_REMAINDER_BITS];
	if (config->given[WN__AQF_BITS_PER_KEY])
		return ((unsigned)(100 * config->values[WN__AQF_BITS_PER_KEY] + 0.5) -
			HUNDREDTHS_AROUND) / 100;
	return DEFAULT_REMAINDER;
}

static int check_config(const struct wn_config *config, char *message, size_t size)
{
	const char *wrong = NULL;

	/* The lower bounds are those of the options themselves. */
	if (config->given[WN__AQF_LOAD])
		wrong = "option 'load' has no meaning: small filters have no slots";
	else if (config->given[WN__AQF_REMAINDER_BITS] &&
		 config->values[WN__AQF_REMAINDER_BITS] > WN__AQF_SMALL_MAX_REMAINDER)
		wrong = "option 'remainder_bits' is at most 16 in small filters";
	else if (config->given[WN__AQF_BITS_PER_KEY] &&
		 config->values[WN__AQF_BITS_PER_KEY] > MAX_BITS_PER_KEY)
		wrong = "option 'bits_per_key' is at most 18 in small filters";
	if (!wrong)
		return 0;
	snprintf(message, size, "%s", wrong);
	return WN_ERR_OPTION;
}

/* ---- asking with care --------------------------------------------------- */

/* The bit where the bucket's first key would stand; 0: the filter is damaged. */
static size_t find_start(const struct wn__aqf_small *small, uint32_t bucket)
{
	size_t bit = 8 * small->unary_at, end = 8 * small->end;
	uint32_t left = bucket + 1; /* 0s to pass */

	while (bit < end) {
		uint64_t word = ~wn__aqf_small_load(small, bit / 8) >> bit % 8;
		unsigned count = wn__popcount(word);

		if (left <= count) {
			bit += wn__select_portable(word, left - 1) + 1;
			return bit <= end ? bit : 0;
		}
		left -= count;
		bit += 64 - bit % 8;
	}
	return 0;
}

static bool get_bit(const struct wn__aqf_small *small, size_t bit)
{
	return small->bytes[bit / 8] >> bit % 8 & 1;
}

/* Which keys are in the bucket? False: the filter is damaged. */
static bool find_bucket(const struct wn__aqf_small *small, uint32_t bucket, uint32_t *firstp,
			uint32_t *countp)
{
	size_t start = find_start(small, bucket), end = 8 * small->end, bit = start;

	*firstp = *countp = 0;
	if (start == 0)
		return false;
	while (bit < end && get_bit(small, bit))
		bit++;
	if (bit >= end)
		return false;
	*firstp = (uint32_t)(start - 8 * small->unary_at - bucket - 1);
	*countp = (uint32_t)(bit - start);
	/* The remainders must not reach into the 0s and 1s. */
	return ((uint64_t)*firstp + *countp) * small->remainder_bits <= end - bit;
}

static uint64_t get_remainder(const struct wn__aqf_small *small, uint32_t index)
{
	size_t at = 8 * small->end - ((size_t)index + 1) * small->remainder_bits;

	return wn__aqf_small_load(small, at / 8) >> at % 8 & wn__lower_bits(small->remainder_bits);
}

bool wn__aqf_small_search(const struct wn__aqf_small *small, struct wn_hash query)
{
	wn__u128 product = (wn__u128)query.hi * small->buckets;
	uint64_t remainder = (uint64_t)product >> (64 - small->remainder_bits);
	uint32_t first, count;

	if (!find_bucket(small, (uint32_t)(product >> 64), &first, &count))
		return true;
	for (uint32_t i = 0; i < count; i++)
		if (get_remainder(small, first + i) == remainder)
			return true;
	return false;
}

/* ---- asking ------------------------------------------------------------- */

/* A function of its own, so that the quick way needs no room for what this one does. */
static bool __attribute__((noinline)) search(const unsigned char *bytes, size_t size, uint64_t hi)
{
	struct wn__aqf_small small;

	return !wn__aqf_small_open(bytes, size, &small) ||
	       wn__aqf_small_search(&small, (struct wn_hash){.hi = hi});
}

WN__INLINE bool ask(const unsigned char *bytes, size_t size, uint64_t hi, bool is_short, bool fast)
{
	enum wn__aqf_small_answer answer = WN__AQF_SMALL_UNSURE;
	struct wn__aqf_small small;

	if (WN__LIKELY(wn__aqf_small_open_as(bytes, size, is_short, &small)))
		answer = wn__aqf_small_ask(&small, (struct wn_hash){.hi = hi}, fast);
	if (WN__UNLIKELY(answer == WN__AQF_SMALL_UNSURE))
		return search(bytes, size, hi);
	return answer == WN__AQF_SMALL_MAYBE;
}

static bool __attribute__((noinline)) ask_long(const unsigned char *bytes, size_t size, uint64_t hi)
{
	return ask(bytes, size, hi, false, false);
}

static bool query(const unsigned char *bytes, size_t size, struct wn_hash hash)
{
	return size < WN__SMALL_LONG ? ask(bytes, size, hash.hi, true, false)
				     : ask_long(bytes, size, hash.hi);
}

WN__TARGET_FAST static bool __attribute__((noinline))
ask_long_fast(const unsigned char *bytes, size_t size, uint64_t hi)
{
	return ask(bytes, size, hi, false, true);
}

WN__TARGET_FAST static bool query_fast(const unsigned char *bytes, size_t size,
				       struct wn_hash hash)
{
	return size < WN__SMALL_LONG ? ask(bytes, size, hash.hi, true, true)
				     : ask_long_fast(bytes, size, hash.hi);
}

/* ---- building ----------------------------------------------------------- */

static bool fits(uint32_t count, unsigned remainder_bits, size_t payload)
{
	uint32_t buckets = wn__aqf_small_buckets(payload, remainder_bits);

	return buckets > 0 && (uint64_t)count * (remainder_bits + 1) + buckets + 1 +
					      8 * wn__aqf_small_directory_size(buckets) <=
				      8 * (uint64_t)payload;
}

static size_t size_of(const struct wn_config *config, uint32_t count)
{
	unsigned bits = remainder_bits_of(config);
	size_t payload, size;

	/* Keys and four thirds of a bit a key for the buckets; then what the directory wants. */
	payload = ((size_t)count * (3 * bits + 7)) / 24 + 1;
	payload -= payload > 2 ? 1 : 0;
	while (!fits(count, bits, payload))
		payload++;
	/* The least size gives more room; if a little more of it does not fit, much more does. */
	size = wn__small_size_around(payload);
	while (!fits(count, bits, wn__small_payload(size)))
		size++;
	return size;
}

/* What the directory's byte says if `keys` keys stand before the block's first bucket. */
static int directory_byte(uint32_t block, uint32_t keys)
{
	int64_t difference = (int64_t)keys - (int64_t)block * WN__AQF_SMALL_EXPECTED;

	return difference < -127 || difference > 127 ? WN__AQF_SMALL_UNKNOWN : (int)difference;
}

static void put_directory(const struct wn__aqf_small *small, unsigned char *bytes, uint32_t block,
			  uint32_t keys)
{
	unsigned char *directory = bytes + small->start;

	if (small->is_wide)
		put_le32(directory + 4 * (size_t)(block - 1), keys);
	else
		directory[block - 1] = (unsigned char)directory_byte(block, keys);
}

/* Remainders, from the end of a filter on downwards: `word` has those that are not written yet,
 * from its top down. */
struct tail {
	unsigned char *end;
	uint64_t word;
	unsigned used;
};

static inline void put_remainder(struct tail *tail, uint64_t remainder, unsigned width)
{
	tail->word |= remainder << (64 - width - tail->used);
	tail->used += width;
	if (tail->used < 32)
		return;
	tail->end -= 4;
	put_le32(tail->end, (uint32_t)(tail->word >> 32));
	tail->word <<= 32;
	tail->used -= 32;
}

/* The last byte may have bits of the row in it. */
static void end_tail(struct tail *tail)
{
	for (int left = (int)tail->used; left > 0; left -= 8) {
		*--tail->end |= (unsigned char)(tail->word >> 56);
		tail->word <<= 8;
	}
}

/* A key's 1 in the row has as many 0s in front of it as there are buckets up to its own, and as
 * many 1s as there are keys before it. The row is zeros before. */
static void put_keys(const struct wn__small_input *input, const struct wn__aqf_small *small,
		     unsigned char *bytes)
{
	struct tail tail = {.end = bytes + small->end};
	unsigned char *row = bytes + small->unary_at;
	uint32_t blocks = (small->buckets - 1) / 64, block = 0;

	for (uint32_t key = 0; key < input->key_count; key++) {
		wn__u128 product = (wn__u128)input->keys[key].hi * small->buckets;
		uint32_t bucket = (uint32_t)(product >> 64);
		size_t bit = 1 + (size_t)bucket + key;

		while (block < bucket / 64)
			put_directory(small, bytes, ++block, key);
		row[bit / 8] |= (unsigned char)(1 << bit % 8);
		put_remainder(&tail, (uint64_t)product >> (64 - small->remainder_bits),
			      small->remainder_bits);
	}
	while (block < blocks)
		put_directory(small, bytes, ++block, input->key_count);
	end_tail(&tail);
}

/* Negatives are not heeded: what such a filter gets wrong it learns. */
static size_t build(const struct wn__small_input *input, unsigned char *bytes, size_t size,
		    unsigned *lastp)
{
	struct wn__aqf_small small;

	*lastp = remainder_bits_of(input->config) - 1;
	bytes[size - 1] = (unsigned char)(WN__SMALL_LAST | *lastp);
	if (wn__aqf_small_open(bytes, size, &small))
		put_keys(input, &small, bytes);
	return 0;
}

/* ---- for tools ---------------------------------------------------------- */

static bool directory_fits(const struct wn__aqf_small *small, uint32_t block, uint32_t keys)
{
	const unsigned char *directory = small->bytes + small->start;

	if (small->is_wide)
		return get_le32(directory + 4 * (size_t)(block - 1)) == keys;
	return (signed char)directory[block - 1] == directory_byte(block, keys);
}

/* One walk over the 0s and 1s: each bucket's keys, where its 1s end, what the directory says. */
static bool check_buckets(const struct wn__aqf_small *small, uint32_t *countp, size_t *bitp)
{
	size_t bit = 8 * small->unary_at, end = 8 * small->end;
	uint32_t keys = 0;

	if (get_bit(small, bit++))
		return false;
	for (uint32_t bucket = 0; bucket < small->buckets; bucket++) {
		uint32_t first = keys;

		if (bucket && bucket % 64 == 0 && !directory_fits(small, bucket / 64, keys))
			return false;
		for (; bit < end && get_bit(small, bit); bit++) {
			if ((uint64_t)++keys * small->remainder_bits > end - bit)
				return false;
			if (keys - first > 1 &&
			    get_remainder(small, keys - 2) > get_remainder(small, keys - 1))
				return false;
		}
		if (bit++ >= end)
			return false;
	}
	*countp = keys;
	*bitp = bit;
	return true;
}

bool wn__aqf_small_check(const struct wn__aqf_small *small, uint32_t *countp)
{
	size_t bit, remainders_at;
	uint32_t keys;

	*countp = 0;
	if (!check_buckets(small, &keys, &bit))
		return false;
	remainders_at = 8 * small->end;
	if ((uint64_t)keys * small->remainder_bits > remainders_at - bit)
		return false;
	for (remainders_at -= (size_t)keys * small->remainder_bits; bit < remainders_at; bit++)
		if (get_bit(small, bit))
			return false;
	*countp = keys;
	return true;
}

static void tell(struct wn__small_info *infop, const char *name, double value)
{
	wn__add_fact(infop->facts, &infop->fact_count, name, value);
}

static bool describe(const unsigned char *bytes, size_t size, struct wn__small_info *infop)
{
	struct wn__aqf_small small;
	uint32_t keys;
	double load;

	*infop = (struct wn__small_info){0};
	if (!wn__aqf_small_open(bytes, size, &small) || !wn__aqf_small_check(&small, &keys) ||
	    keys == 0)
		return false;
	load = (double)keys / small.buckets;
	infop->key_count = keys;
	infop->counts_keys = true;
	infop->bits_per_key = 8 * (double)size / keys;
	infop->expected_fpr = load * ldexp(1, -(int)small.remainder_bits);
	tell(infop, "remainder_bits", small.remainder_bits);
	tell(infop, "slots", small.buckets);
	tell(infop, "used_slots", keys);
	tell(infop, "load", load);
	return true;
}

const struct wn__small_form wn__aqf_small_form = {
	.check_config = check_config,
	.size = size_of,
	.build = build,
	.query = query,
	.query_fast = query_fast,
	.describe = describe,
};
