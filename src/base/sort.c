/* sort.c - sorting hashes, which are evenly spread unless somebody means harm.
 *
 * Two passes by the leading bits, the first into buckets that fit in a core's own
 * cache, the second within each bucket to about one hash in two places; an insertion
 * sort puts the few neighbours in order (one hash in two places, not one in one: fewer
 * coin tosses for the branch predictor). A bucket that is far fuller than chance allows
 * is heap-sorted: crafted hashes cost n log n, never n squared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "sort.h"

#define BUCKET_SHIFT 11 /* a first-pass bucket holds about 2^11 hashes: 32 KiB */
#define MAX_FIRST_BITS 12
#define MAX_SECOND_BITS 16
#define FEW 1024 /* 24 KiB of stack */
#define CROWD 24 /* hashes in one place of the second pass: far beyond chance */

int wn__compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static bool less(struct wn_hash a, struct wn_hash b)
{
	return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

static void insertion_sort(struct wn_hash *hashes, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct wn_hash hash = hashes[i];
		size_t at = i;

		if (!less(hash, hashes[i - 1]))
			continue;
		do
			hashes[at] = hashes[at - 1];
		while (--at > 0 && less(hash, hashes[at - 1]));
		hashes[at] = hash;
	}
}

static void sift_down(struct wn_hash *hashes, size_t at, size_t count)
{
	struct wn_hash hash = hashes[at];

	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && less(hashes[child], hashes[child + 1]))
			child++;
		if (!less(hash, hashes[child]))
			break;
		hashes[at] = hashes[child];
	}
	hashes[at] = hash;
}

static void heap_sort(struct wn_hash *hashes, size_t count)
{
	for (size_t at = count / 2; at-- > 0; )
		sift_down(hashes, at, count);
	for (size_t end = count; end-- > 1; ) {
		struct wn_hash largest = hashes[0];

		hashes[0] = hashes[end];
		hashes[end] = largest;
		sift_down(hashes, 0, end);
	}
}

/* floor(log2(count)); count > 0. */
static unsigned log2_of(size_t count)
{
	return 63 - (unsigned)__builtin_clzll(count);
}

/* `bits` bits of a hash behind the first `skip`. */
static size_t place_of(struct wn_hash hash, unsigned skip, unsigned bits)
{
	return (size_t)(hash.hi << skip >> (64 - bits));
}

/* Turn counts into starts; returns the largest count. */
static uint32_t starts_from_counts(uint32_t *counts, size_t places)
{
	uint32_t sum = 0, largest = 0;

	for (size_t at = 0; at < places; at++) {
		uint32_t count = counts[at];

		largest = count > largest ? count : largest;
		counts[at] = sum;
		sum += count;
	}
	return largest;
}

/* Sort one bucket, in place or into `spare`; where is returned. `places` has room for
 * 2^MAX_SECOND_BITS. */
static const struct wn_hash *sort_bucket(struct wn_hash *hashes, size_t count, unsigned skip,
					 struct wn_hash *spare, uint32_t *places)
{
	unsigned bits;

	if (count < 16) {
		insertion_sort(hashes, count);
		return hashes;
	}
	bits = log2_of(count) + 1;
	if (bits > MAX_SECOND_BITS)
		bits = MAX_SECOND_BITS;
	memset(places, 0, sizeof(*places) << bits);
	for (size_t i = 0; i < count; i++)
		places[place_of(hashes[i], skip, bits)]++;
	if (count > UINT32_MAX || starts_from_counts(places, (size_t)1 << bits) > CROWD) {
		heap_sort(hashes, count);
		return hashes;
	}
	for (size_t i = 0; i < count; i++)
		spare[places[place_of(hashes[i], skip, bits)]++] = hashes[i];
	insertion_sort(spare, count);
	return spare;
}

static void free_all(struct wn__sorter *sorter)
{
	free(sorter->sorted);
	free(sorter->bucket);
	free(sorter->ends);
	free(sorter->places);
	*sorter = (struct wn__sorter){0};
}

int wn__sorter_begin(struct wn__sorter *sorter, size_t count)
{
	unsigned bits = count >> BUCKET_SHIFT ? log2_of(count) - BUCKET_SHIFT : 0;

	if (bits > MAX_FIRST_BITS)
		bits = MAX_FIRST_BITS;
	if (bits == 0)
		bits = 1;
	*sorter = (struct wn__sorter){.count = count, .bits = bits};
	sorter->sorted = wn__alloc_large(count * sizeof(*sorter->sorted));
	sorter->places = wn__alloc(sizeof(*sorter->places) << MAX_SECOND_BITS);
	sorter->ends = wn__calloc(((size_t)1 << bits) + 1, sizeof(*sorter->ends));
	if (sorter->sorted && sorter->places && sorter->ends)
		return 0;
	free_all(sorter);
	return ENOMEM;
}

void wn__sorter_count(struct wn__sorter *sorter, const struct wn_hash *hashes, size_t count)
{
	size_t *counts = sorter->ends + 1;
	unsigned bits = sorter->bits;

	for (size_t i = 0; i < count; i++)
		counts[place_of(hashes[i], 0, bits)]++;
}

/* All are counted: ends[at] becomes the start of bucket `at`, and is its end once the
 * bucket is full. */
static int find_starts(struct wn__sorter *sorter)
{
	size_t largest = 0;

	for (size_t at = 1; at <= (size_t)1 << sorter->bits; at++) {
		largest = sorter->ends[at] > largest ? sorter->ends[at] : largest;
		sorter->ends[at] += sorter->ends[at - 1];
	}
	sorter->counted = true;
	sorter->bucket = wn__alloc(largest * sizeof(*sorter->bucket));
	return sorter->bucket ? 0 : ENOMEM;
}

int wn__sorter_scatter(struct wn__sorter *sorter, const struct wn_hash *hashes, size_t count)
{
	struct wn_hash *sorted = sorter->sorted;
	size_t *ends = sorter->ends;
	unsigned bits = sorter->bits;

	if (!sorter->counted) {
		int err = find_starts(sorter);

		if (err)
			return err;
	}
	for (size_t i = 0; i < count; i++)
		sorted[ends[place_of(hashes[i], 0, bits)]++] = hashes[i];
	return 0;
}

/* Copy a sorted bucket to behind the `kept` hashes before it, each hash once. */
static size_t keep_distinct(struct wn_hash *hashes, size_t kept, const struct wn_hash *from,
			    size_t count)
{
	size_t i = 0;

	if (kept == 0 && count > 0)
		hashes[kept++] = from[i++];
	for (; i < count; i++) {
		/* Always written, seldom taken back: no branch. */
		hashes[kept] = from[i];
		kept += wn_hash_compare(hashes[kept - 1], from[i]) != 0;
	}
	return kept;
}

/* Returns how many are left when `distinct` ones are kept. */
static size_t sort_buckets(struct wn__sorter *sorter, bool distinct)
{
	struct wn_hash *sorted = sorter->sorted;
	size_t kept = 0;

	for (size_t at = 0, start = 0; at < (size_t)1 << sorter->bits; start = sorter->ends[at++]) {
		size_t count = sorter->ends[at] - start;
		const struct wn_hash *bucket = sort_bucket(sorted + start, count, sorter->bits,
							   sorter->bucket, sorter->places);

		if (distinct) {
			kept = keep_distinct(sorted, kept, bucket, count);
		} else {
			memmove(sorted + start, bucket, count * sizeof(*sorted));
			kept += count;
		}
	}
	return kept;
}

size_t wn__sorter_end(struct wn__sorter *sorter, struct wn_hash **sortedp)
{
	size_t distinct = 0;

	if (sortedp) {
		if (sorter->counted)
			distinct = sort_buckets(sorter, true);
		*sortedp = sorter->sorted;
		sorter->sorted = NULL;
	}
	free_all(sorter);
	return distinct;
}

/* As many as fit on the stack: a second pass and nothing else, without asking for memory. (With
 * memory and a first pass, 36 hashes took 135 instructions each, so they take 57.) */
static void sort_few(struct wn_hash *hashes, size_t count)
{
	struct wn_hash spare[FEW];
	uint32_t places[2 * FEW];
	const struct wn_hash *sorted = sort_bucket(hashes, count, 0, spare, places);

	if (sorted != hashes)
		memcpy(hashes, sorted, count * sizeof(*hashes));
}

int wn__sort_hashes(struct wn_hash *hashes, size_t count)
{
	struct wn__sorter sorter;
	int err;

	if (count <= FEW) {
		sort_few(hashes, count);
		return 0;
	}
	err = wn__sorter_begin(&sorter, count);
	if (err)
		return err;
	wn__sorter_count(&sorter, hashes, count);
	err = wn__sorter_scatter(&sorter, hashes, count);
	if (!err) {
		sort_buckets(&sorter, false);
		memcpy(hashes, sorter.sorted, count * sizeof(*hashes));
	}
	free_all(&sorter);
	return err;
}
