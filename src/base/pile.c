/* pile.c - collecting and sorting numbers; see pile.h.
 *
 * A pile begins with one bucket. When that has become large, its numbers are spread over 256, and
 * further ones go there at once: 1 to 2 ns a number, where counting and scattering them in the end
 * takes 3. The numbers of a bucket, or of a part of one that fits in a core's own cache, are sorted
 * by counting their next bits, to about one number in two places; an insertion sort puts the few
 * neighbours in order. Where a place is far fuller than chance allows, the heap sorts instead:
 * crafted numbers cost n log n, never n squared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "bytes.h"
#include "pile.h"

#define FIRST_BITS 8 /* 256 buckets */
#define SPREAD ((size_t)1 << 15)   /* numbers in one bucket, after which there are more */
#define SLAB_CHUNKS ((size_t)1024) /* 4 MiB, which come as huge pages */
#define CHUNK_NUMBERS (WN__PILE_CHUNK / sizeof(uint64_t) - 1)
#define CROWD 32 /* numbers in one place: far beyond chance */
#define MAX_WHOLE ((size_t)1 << 14) /* numbers that are sorted in one go, or else in parts ... */
#define PART_SHIFT 12               /* ... of about 4,096 */
#define MAX_PART_BITS 12
#define MAX_PARTS ((size_t)1 << MAX_PART_BITS)
#define MAX_COUNTED (((size_t)1 << 15) - 1) /* numbers that can be counted in 16 bits, with room */
#define MAX_PLACE_BITS 15

struct wn__pile_slab {
	unsigned char *memory;
	size_t chunks;
};

void wn__pile_init(struct wn__pile *pile)
{
	*pile = (struct wn__pile){.shift = 32};
}

void wn__pile_fini(struct wn__pile *pile)
{
	for (size_t i = 0; i < pile->slab_count; i++)
		free(pile->slabs[i].memory);
	free(pile->slabs);
	wn__pile_init(pile);
}

void wn__pile_empty(struct wn__pile *pile)
{
	pile->count = 0;
	pile->shift = 32;
	pile->slab = pile->chunk = 0;
	pile->unused = NULL;
	memset(pile->at, 0, sizeof(pile->at));
}

/* ---- chunks -------------------------------------------------------------- */

/* Each slab is as large as all before it together. */
static int add_slab(struct wn__pile *pile)
{
	size_t chunks = 0;
	struct wn__pile_slab *slabs;
	unsigned char *memory;

	for (size_t i = 0; i < pile->slab_count && chunks < SLAB_CHUNKS; i++)
		chunks += pile->slabs[i].chunks;
	chunks = chunks == 0 ? 1 : chunks > SLAB_CHUNKS ? SLAB_CHUNKS : chunks;
	slabs = wn__realloc(pile->slabs, (pile->slab_count + 1) * sizeof(*slabs));
	if (!slabs)
		return ENOMEM;
	pile->slabs = slabs;
	memory = chunks < SLAB_CHUNKS ? wn__alloc_aligned(WN__PILE_CHUNK, chunks * WN__PILE_CHUNK) :
					wn__alloc_large(chunks * WN__PILE_CHUNK);
	if (!memory)
		return ENOMEM;
	slabs[pile->slab_count++] = (struct wn__pile_slab){memory, chunks};
	return 0;
}

/* What a chunk begins with. */
static unsigned char *get_link(const unsigned char *chunk)
{
	unsigned char *link;

	memcpy(&link, chunk, sizeof(link));
	return link;
}

static void set_link(unsigned char *chunk, unsigned char *link)
{
	memcpy(chunk, &link, sizeof(link));
}

static unsigned char *take_chunk(struct wn__pile *pile)
{
	unsigned char *chunk = pile->unused;

	if (chunk) {
		pile->unused = get_link(chunk);
		return chunk;
	}
	if (pile->slab < pile->slab_count && pile->chunk == pile->slabs[pile->slab].chunks) {
		pile->slab++;
		pile->chunk = 0;
	}
	if (pile->slab == pile->slab_count && add_slab(pile))
		return NULL;
	return pile->slabs[pile->slab].memory + WN__PILE_CHUNK * pile->chunk++;
}

static void drop_chunk(struct wn__pile *pile, unsigned char *chunk)
{
	set_link(chunk, pile->unused);
	pile->unused = chunk;
}

/* The numbers of a bucket, a chunk at a time, the last first. */
struct walk {
	unsigned char *chunk;
	const uint64_t *numbers;
	size_t count;
};

static bool next_chunk(struct walk *walk)
{
	walk->chunk = get_link(walk->chunk);
	if (!walk->chunk)
		return false;
	walk->numbers = (const uint64_t *)(void *)walk->chunk + 1;
	walk->count = CHUNK_NUMBERS;
	return true;
}

static bool first_chunk(const struct wn__pile *pile, unsigned bucket, struct walk *walk)
{
	unsigned char *at = (unsigned char *)pile->at[bucket];
	size_t used;

	walk->chunk = NULL;
	if (!at)
		return false;
	used = (uintptr_t)at & (WN__PILE_CHUNK - 1);
	used = used ? used : WN__PILE_CHUNK;
	walk->chunk = at - used;
	walk->numbers = (const uint64_t *)(void *)walk->chunk + 1;
	walk->count = used / sizeof(uint64_t) - 1;
	return true;
}

/* ---- adding --------------------------------------------------------------- */

static int add_chunk(struct wn__pile *pile, unsigned bucket)
{
	unsigned char *chunk = take_chunk(pile), *before = (unsigned char *)pile->at[bucket];

	if (!chunk)
		return ENOMEM;
	if (before)
		before -= WN__PILE_CHUNK;
	set_link(chunk, before);
	pile->at[bucket] = (uint64_t *)(void *)chunk + 1;
	return 0;
}

/* See to it that so many chunks can be taken. */
static int reserve(struct wn__pile *pile, size_t count)
{
	unsigned char *taken = NULL;
	size_t got = 0;

	for (unsigned char *chunk; got < count && (chunk = take_chunk(pile)); got++) {
		set_link(chunk, taken);
		taken = chunk;
	}
	while (taken) {
		unsigned char *next = get_link(taken);

		drop_chunk(pile, taken);
		taken = next;
	}
	return got == count ? 0 : ENOMEM;
}

/* From one bucket to many. */
static int spread(struct wn__pile *pile)
{
	struct walk walk = {0};
	bool more = first_chunk(pile, 0, &walk);

	if (reserve(pile, WN__PILE_BUCKETS + SPREAD / CHUNK_NUMBERS + 1))
		return ENOMEM;
	memset(pile->at, 0, sizeof(pile->at));
	pile->shift = 32 - FIRST_BITS;
	while (more) {
		unsigned char *done = walk.chunk;

		for (size_t i = 0; i < walk.count; i++) {
			unsigned bucket = (unsigned)((walk.numbers[i] >> 32) >> pile->shift);

			/* Cannot fail: see above. */
			if (((uintptr_t)pile->at[bucket] & (WN__PILE_CHUNK - 1)) == 0)
				(void)add_chunk(pile, bucket);
			*pile->at[bucket]++ = walk.numbers[i];
		}
		more = next_chunk(&walk);
		drop_chunk(pile, done);
	}
	return 0;
}

int wn__pile_grow(struct wn__pile *pile, unsigned bucket, uint64_t number)
{
	if (pile->shift == 32 && pile->count >= SPREAD) {
		int err = spread(pile);

		if (err)
			return err;
		bucket = (unsigned)((number >> 32) >> pile->shift);
		if ((uintptr_t)pile->at[bucket] & (WN__PILE_CHUNK - 1))
			return 0;
	}
	return add_chunk(pile, bucket);
}

/* ---- sorting --------------------------------------------------------------- */

static void insertion_sort(uint64_t *numbers, size_t count)
{
	uint64_t before = 0; /* the largest so far */

	for (size_t i = 0; i < count; i++) {
		uint64_t number = numbers[i];
		size_t at = i;

		if (WN__LIKELY(number >= before)) {
			before = number;
			continue;
		}
		do
			numbers[at] = numbers[at - 1];
		while (--at > 0 && number < numbers[at - 1]);
		numbers[at] = number;
	}
}

static void sift_down(uint64_t *numbers, size_t at, size_t count)
{
	uint64_t number = numbers[at];

	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && numbers[child] < numbers[child + 1])
			child++;
		if (number >= numbers[child])
			break;
		numbers[at] = numbers[child];
	}
	numbers[at] = number;
}

static void heap_sort(uint64_t *numbers, size_t count)
{
	for (size_t at = count / 2; at-- > 0; )
		sift_down(numbers, at, count);
	for (size_t end = count; end-- > 1; ) {
		uint64_t largest = numbers[0];

		numbers[0] = numbers[end];
		numbers[end] = largest;
		sift_down(numbers, 0, end);
	}
}

/* Room for sorting a bucket. */
struct bench {
	uint16_t counts[(size_t)1 << MAX_PLACE_BITS];
	uint32_t ends[MAX_PARTS + 1];
	uint64_t numbers[MAX_COUNTED];
};

/* Turn counts into starts. False: there is a crowd. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static bool find_starts(uint16_t *counts, size_t places)
{
	const uint64_t ones = UINT64_C(0x0001000100010001);
	uint64_t sum = 0, any = 0;

	/* Four counts lie in a word; its product with `ones` has the sums of those up to each. */
	for (size_t at = 0; at < places; at += 4) {
		uint64_t four = get_le64(&counts[at]), sums = four * ones;

		put_le64(&counts[at], (sums << 16) + sum * ones);
		sum += sums >> 48;
		any |= four;
	}
	return !(any & ~((CROWD - 1) * ones));
}
#else
static bool find_starts(uint16_t *counts, size_t places)
{
	unsigned sum = 0, any = 0;

	for (size_t at = 0; at < places; at++) {
		unsigned count = counts[at];

		counts[at] = (uint16_t)sum;
		sum += count;
		any |= count;
	}
	return any < CROWD;
}
#endif

/* Sort at most MAX_COUNTED numbers, by the bits behind the first `skip`, into `to`. */
static void sort_by_counting(const uint64_t *from, size_t count, unsigned skip, uint64_t *to,
			     struct bench *bench)
{
	uint16_t *counts = bench->counts;
	unsigned bits, shift;
	uint64_t mask;

	if (count < 16) {
		memcpy(to, from, count * sizeof(*to));
		insertion_sort(to, count);
		return;
	}
	bits = 64 - (unsigned)__builtin_clzll(count);
	shift = 64 - skip - bits;
	mask = ((uint64_t)1 << bits) - 1;
	memset(counts, 0, sizeof(*counts) << bits);
	for (size_t i = 0; i < count; i++)
		counts[from[i] >> shift & mask]++;
	if (!find_starts(counts, (size_t)1 << bits)) {
		memcpy(to, from, count * sizeof(*to));
		heap_sort(to, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		to[counts[from[i] >> shift & mask]++] = from[i];
	insertion_sort(to, count);
}

static void gather(const struct wn__pile *pile, unsigned bucket, uint64_t *to)
{
	struct walk walk = {0};

	for (bool more = first_chunk(pile, bucket, &walk); more; more = next_chunk(&walk)) {
		memcpy(to, walk.numbers, walk.count * sizeof(*to));
		to += walk.count;
	}
}

/* A large bucket: first into parts that fit in a core's own cache. */
static void sort_in_parts(const struct wn__pile *pile, unsigned bucket, size_t count, unsigned skip,
			  uint64_t *to, struct bench *bench)
{
	struct walk walk = {0};
	unsigned bits = 64 - (unsigned)__builtin_clzll(count >> PART_SHIFT);
	uint32_t *ends = bench->ends, start = 0;
	unsigned shift;
	uint64_t mask;
	bool more;

	bits = bits < MAX_PART_BITS ? bits : MAX_PART_BITS;
	shift = 64 - skip - bits;
	mask = ((uint64_t)1 << bits) - 1;
	memset(ends, 0, sizeof(bench->ends));
	for (more = first_chunk(pile, bucket, &walk); more; more = next_chunk(&walk))
		for (size_t i = 0; i < walk.count; i++)
			ends[(walk.numbers[i] >> shift & mask) + 1]++;
	for (size_t part = 0; part < (size_t)1 << bits; part++)
		ends[part + 1] += ends[part];
	for (more = first_chunk(pile, bucket, &walk); more; more = next_chunk(&walk))
		for (size_t i = 0; i < walk.count; i++)
			to[ends[walk.numbers[i] >> shift & mask]++] = walk.numbers[i];
	for (size_t part = 0; part < (size_t)1 << bits; start = ends[part++]) {
		size_t size = ends[part] - start;

		if (size > MAX_COUNTED) {
			heap_sort(to + start, size);
			continue;
		}
		memcpy(bench->numbers, to + start, size * sizeof(*to));
		sort_by_counting(bench->numbers, size, skip + bits, to + start, bench);
	}
}

static void sort_bucket(const struct wn__pile *pile, unsigned bucket, size_t count, uint64_t *to,
			struct bench *bench)
{
	unsigned skip = 32 - pile->shift;

	if (count <= MAX_WHOLE) {
		gather(pile, bucket, bench->numbers);
		sort_by_counting(bench->numbers, count, skip, to, bench);
	} else if (count <= UINT32_MAX) {
		sort_in_parts(pile, bucket, count, skip, to, bench);
	} else {
		gather(pile, bucket, to);
		heap_sort(to, count);
	}
}

static size_t count_bucket(const struct wn__pile *pile, unsigned bucket)
{
	struct walk walk = {0};
	size_t count = 0;

	for (bool more = first_chunk(pile, bucket, &walk); more; more = next_chunk(&walk))
		count += walk.count;
	return count;
}

/* Each number once; how many are left. */
static size_t keep_distinct(uint64_t *numbers, size_t count)
{
	size_t kept = 1;

	while (kept < count && numbers[kept - 1] != numbers[kept])
		kept++;
	if (kept >= count)
		return count;
	for (size_t i = kept + 1; i < count; i++) {
		/* Always written, seldom taken back: no branch. */
		numbers[kept] = numbers[i];
		kept += numbers[kept - 1] != numbers[i];
	}
	return kept;
}

int wn__pile_sort(const struct wn__pile *pile, uint64_t **sortedp, size_t *countp)
{
	uint64_t *sorted = wn__alloc_large(pile->count * sizeof(*sorted));
	struct bench *bench = wn__alloc(sizeof(*bench));
	size_t kept = 0;

	*sortedp = NULL;
	*countp = 0;
	if (!sorted || !bench) {
		free(sorted);
		free(bench);
		return ENOMEM;
	}
	for (unsigned bucket = 0; bucket < WN__PILE_BUCKETS; bucket++) {
		size_t count = count_bucket(pile, bucket);

		sort_bucket(pile, bucket, count, sorted + kept, bench);
		kept += keep_distinct(sorted + kept, count);
	}
	free(bench);
	*sortedp = sorted;
	*countp = kept;
	return 0;
}
