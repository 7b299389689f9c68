/* small.c - building small filters, and asking them with care; see tiny.h. */
#include <winnow/hash.h>

#include "base/secret.h"
#include "base/sort.h"
#include "aqf_small.h"

/* With fewer keys the fingerprints alone do not tell sets of keys apart; with so many more the
 * digest costs nothing. Between, two sets that differ in one key are told apart by chance and,
 * where it fails, by the salt. */
#define FEW_KEYS 16
#define MANY_KEYS 512

/* ---- asking with care --------------------------------------------------- */

/* The bit where the bucket's first key would stand; 0: the filter is damaged. */
static size_t find_start(const struct wn__small *tiny, uint32_t bucket)
{
	size_t first = 8 * tiny->unary_at, bit = first, end = 8 * tiny->end;
	uint32_t left = bucket + 1; /* 0s to pass */

	while (bit < end) {
		uint64_t word = ~wn__small_load(tiny, bit / 8) >> bit % 8;
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

bool wn__small_find_bucket(const struct wn__small *tiny, uint32_t bucket, uint32_t *firstp,
			  uint32_t *countp)
{
	size_t start = find_start(tiny, bucket), end = 8 * tiny->end, bit = start;

	*firstp = *countp = 0;
	if (start == 0)
		return false;
	while (bit < end && tiny->bytes[bit / 8] >> bit % 8 & 1)
		bit++;
	if (bit >= end)
		return false;
	*firstp = (uint32_t)(start - 8 * tiny->unary_at - bucket - 1);
	*countp = (uint32_t)(bit - start);
	/* The remainders must not reach into the 0s and 1s. */
	return ((uint64_t)*firstp + *countp) * tiny->remainder_bits <= end - bit;
}

static uint64_t get_remainder(const struct wn__small *tiny, uint32_t index)
{
	size_t at = 8 * tiny->end - ((size_t)index + 1) * tiny->remainder_bits;

	return wn__small_load(tiny, at / 8) >> at % 8 & wn__lower_bits(tiny->remainder_bits);
}

int wn__small_matches(const struct wn__small *tiny, struct wn_hash query, uint32_t *indexes,
		     int room)
{
	wn__u128 product = (wn__u128)query.hi * tiny->buckets;
	uint64_t remainder = (uint64_t)product >> (64 - tiny->remainder_bits);
	uint32_t first, count;
	int found = 0;

	if (!wn__small_find_bucket(tiny, (uint32_t)(product >> 64), &first, &count))
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		if (get_remainder(tiny, first + i) != remainder)
			continue;
		if (found < room)
			indexes[found] = first + i;
		found++;
	}
	return found;
}

bool wn__small_check(const struct wn__small *tiny, uint32_t *countp)
{
	uint32_t first, count, keys = 0;

	*countp = 0;
	for (uint32_t bucket = 0; bucket < tiny->buckets; bucket++) {
		if (!wn__small_find_bucket(tiny, bucket, &first, &count) || first != keys)
			return false;
		keys += count;
		for (uint32_t i = 1; i < count; i++)
			if (get_remainder(tiny, first + i - 1) > get_remainder(tiny, first + i))
				return false;
	}
	*countp = keys;
	return true;
}

struct wn__small_id wn__small_id(const unsigned char *bytes, size_t size)
{
	XXH128_hash_t hash = XXH3_128bits(bytes, size);

	/* 0 is what an empty place of a table has. */
	return (struct wn__small_id){.lo = hash.low64 ? hash.low64 : 1, .hi = hash.high64};
}

/* ---- building ----------------------------------------------------------- */

static bool has_digest(uint32_t count)
{
	return count < FEW_KEYS || count >= MANY_KEYS;
}

static bool fits(uint32_t count, unsigned remainder_bits, size_t payload)
{
	uint32_t buckets = wn__small_buckets(payload, remainder_bits);

	return buckets > 0 && (uint64_t)count * (remainder_bits + 1) + buckets + 1 +
					      8 * wn__small_directory_size(buckets) <=
				      8 * (uint64_t)payload;
}

size_t wn__small_size(uint32_t count, unsigned remainder_bits)
{
	size_t around = WN__SMALL_FRONT + (has_digest(count) ? WN__SMALL_DIGEST_SIZE : 0) + 1;
	size_t payload;

	if (count == 0 || count > WN__SMALL_MAX_KEYS || remainder_bits == 0 ||
	    remainder_bits > WN__SMALL_MAX_REMAINDER)
		return 0;
	/* Keys and four thirds of a bit a key for the buckets; then what the directory wants. */
	payload = ((size_t)count * (3 * remainder_bits + 7)) / 24 + 1;
	payload -= payload > 2 ? 1 : 0;
	while (!fits(count, remainder_bits, payload) || payload + around < WN__SMALL_LEAST_SIZE)
		payload++;
	return payload + around;
}

/* The bits must be 0 before. */
static void put_bits(unsigned char *bytes, size_t at, uint64_t value, unsigned width)
{
	for (unsigned i = 0; i < width; i++)
		bytes[(at + i) / 8] |= (unsigned char)((value >> i & 1) << (at + i) % 8);
}

/* Before the block's first bucket stand `keys` keys. */
static void put_directory(unsigned char *bytes, uint32_t buckets, uint32_t block, uint32_t keys)
{
	int64_t difference = (int64_t)keys - (int64_t)block * WN__SMALL_EXPECTED;

	if (buckets > WN__SMALL_SMALL_DIRECTORY) {
		put_le32(bytes + WN__SMALL_FRONT + 4 * (block - 1), keys);
		return;
	}
	if (difference < -127 || difference > 127)
		difference = WN__SMALL_UNKNOWN;
	bytes[WN__SMALL_FRONT + block - 1] = (unsigned char)difference;
}

static void put_keys(const struct wn__small_parts *parts, const struct wn__small *tiny,
		     unsigned char *bytes)
{
	size_t bit = 8 * tiny->unary_at + 1;
	uint32_t key = 0;

	for (uint32_t bucket = 0; bucket < tiny->buckets; bucket++) {
		if (bucket && bucket % 64 == 0)
			put_directory(bytes, tiny->buckets, bucket / 64, key);
		for (; key < parts->count; key++) {
			wn__u128 product = (wn__u128)parts->hashes[key].hi * tiny->buckets;

			if ((uint32_t)(product >> 64) != bucket)
				break;
			put_bits(bytes, bit++, 1, 1);
			put_bits(bytes,
				 8 * tiny->end - ((size_t)key + 1) * parts->remainder_bits,
				 (uint64_t)product >> (64 - parts->remainder_bits),
				 parts->remainder_bits);
		}
		bit++;
	}
}

void wn__small_build(const struct wn__small_parts *parts, unsigned char *bytes, size_t size)
{
	struct wn__small_id digest = wn__small_keys_digest(parts->hashes, parts->count);
	uint32_t front = (parts->secret_id & WN__SMALL_SECRET_MASK) |
			 (parts->frozen ? WN__SMALL_FROZEN : 0);
	unsigned salt = (unsigned)(parts->salt + digest.hi) % WN__SMALL_SALTS;
	struct wn__small tiny;

	memset(bytes, 0, size);
	bytes[0] = (unsigned char)front;
	bytes[1] = (unsigned char)(front >> 8);
	bytes[2] = (unsigned char)(front >> 16);
	bytes[size - 1] = (unsigned char)(WN__SMALL_LAST | salt << 4 | (parts->remainder_bits - 1));
	if (has_digest(parts->count)) {
		bytes[size - 1] |= WN__SMALL_DIGESTED;
		put_le64(bytes + size - 1 - WN__SMALL_DIGEST_SIZE, digest.lo);
	}
	if (wn__small_open(bytes, size, &tiny))
		put_keys(parts, &tiny, bytes);
}

struct wn__small_id wn__small_keys_digest(const struct wn_hash *hashes, size_t count)
{
	XXH128_hash_t hash = XXH3_128bits(hashes, count * sizeof(*hashes));

	return (struct wn__small_id){.lo = hash.low64, .hi = hash.high64};
}

uint32_t wn__small_secret_id(const struct wn_secret *secret)
{
	return (uint32_t)XXH3_64bits_withSeed(wn_secret_seed(secret), WN_SEED_SIZE, 1) &
	       WN__SMALL_SECRET_MASK;
}

size_t wn__small_sort(struct wn_hash *hashes, size_t count)
{
	size_t kept = 0;

	if (wn__sort_hashes(hashes, count) != 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || wn_hash_compare(hashes[kept - 1], hashes[i]) != 0)
			hashes[kept++] = hashes[i];
	return kept;
}
