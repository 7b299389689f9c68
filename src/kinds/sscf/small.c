/* small.c - small seesaw counting filters; see tiny_sscf.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sscf_small.h"

#define PLAIN_ID_BITS 10 /* the rest has the size in it */
#define LONG 4095        /* sizes from here on have a field of their own */
#define LONG_FIELD 2
#define LEAST_HASHES 3
#define MOST_HASHES 10
#define VARIANTS 4
#define SHARES 4 /* of the modulator: none, and three more */
#define MODULATOR_BITS 2
#define LEAST_PAYLOAD 9 /* WN__SMALL_LEAST_SIZE with what is around */
/* At least, where there are blocks. They are for the builder, which looks through a block's keys
 * and negatives for each mistake, and cost a few of a hundred false positives more. */
#define BLOCK_CELLS 2048
#define NEGATIVES_A_KEY 2 /* served: with 8 building took 20 times as long */

#define MARKS (WN__SMALL_FROZEN | WN__SMALL_OTHER)

/* ---- the form ----------------------------------------------------------- */

static uint32_t size_mark(size_t size)
{
	return (uint32_t)(size < LONG ? size : LONG) << PLAIN_ID_BITS;
}

static uint32_t get_front(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
}

static size_t payload_size(size_t size)
{
	return size - WN__SMALL_FRONT - 1 - (size >= LONG ? LONG_FIELD : 0);
}

static size_t modulator_size(size_t size, unsigned share)
{
	size_t bytes = share ? payload_size(size) >> (6 - share) : 0;

	return share && bytes == 0 ? 1 : bytes;
}

/* All parameters, from the size and the last byte. The parts lie within the payload. */
static void derive(const unsigned char *bytes, size_t size, unsigned last,
		   struct wn__sscf_frozen *frozenp)
{
	size_t modulator = modulator_size(size, last >> 5 & (SHARES - 1));
	uint32_t cells = (uint32_t)(8 * (payload_size(size) - modulator));

	*frozenp = (struct wn__sscf_frozen){
		.cells = bytes + WN__SMALL_FRONT,
		.params = {
			.hashes = LEAST_HASHES + (last & 7),
			.modulator_bits = modulator ? MODULATOR_BITS : 0,
			.variant = last >> 3 & (VARIANTS - 1),
			.blocks = cells < 2 * BLOCK_CELLS ? 1 : cells / BLOCK_CELLS,
			.modulator_cells = (uint32_t)(8 / MODULATOR_BITS * modulator),
		},
	};
	frozenp->params.block_cells = cells / frozenp->params.blocks;
	frozenp->modulator = frozenp->cells + wn__sscf_cells_size(&frozenp->params);
}

/* ---- asking ------------------------------------------------------------- */

uint32_t wn__small_sscf_secret_id(const unsigned char *bytes, size_t size)
{
	return (get_front(bytes) ^ size_mark(size)) & WN__SMALL_SECRET_MASK;
}

bool wn__small_sscf_claims(const unsigned char *bytes, size_t size, uint32_t secret_id)
{
	uint32_t mask = MARKS | ((UINT32_C(1) << PLAIN_ID_BITS) - 1);

	return size < WN__SMALL_LEAST_SIZE ||
	       ((get_front(bytes) ^ (secret_id | MARKS)) & mask) == 0;
}

bool wn__small_sscf_open(const unsigned char *bytes, size_t size, uint32_t secret_id,
			struct wn__sscf_frozen *frozenp)
{
	if (size < WN__SMALL_LEAST_SIZE || size >> 28 != 0 || bytes[size - 1] < WN__SMALL_LAST ||
	    (get_front(bytes) & MARKS) != MARKS ||
	    wn__small_sscf_secret_id(bytes, size) != (secret_id & WN__SMALL_SECRET_MASK))
		return false;
	if (size >= LONG &&
	    (bytes[size - 3] != (size & 0xff) || bytes[size - 2] != (size >> 8 & 0xff)))
		return false;
	derive(bytes, size, bytes[size - 1], frozenp);
	return true;
}

bool wn__small_sscf_says_maybe(const struct wn__sscf_frozen *frozen, struct wn_hash hash)
{
	return wn__sscf_query(frozen, hash, NULL);
}

/* ---- the absent keys ---------------------------------------------------- */

static int compare_costs(const void *a, const void *b)
{
	const struct wn__small_sscf_negative *one = a, *other = b;

	if (one->cost != other->cost)
		return one->cost > other->cost ? -1 : 1;
	return wn_hash_compare(one->hash, other->hash);
}

static int compare_hashes(const void *a, const void *b)
{
	const struct wn__small_sscf_negative *one = a, *other = b;

	return wn_hash_compare(one->hash, other->hash);
}

struct listed {
	struct wn_hash *hashes;
	double *costs;
	size_t count;
};

/* In the order of their hashes, each once, without such as are keys by now. */
static void list_negatives(const struct wn__small_sscf_parts *parts, struct listed *listed)
{
	struct wn__small_sscf_negative *given = parts->negatives;
	size_t count = parts->negative_count, most = (size_t)NEGATIVES_A_KEY * parts->count;
	uint32_t key = 0;

	if (count > most) {
		qsort(given, count, sizeof(*given), compare_costs);
		count = most;
	}
	qsort(given, count, sizeof(*given), compare_hashes);
	for (size_t i = 0; i < count; i++) {
		size_t last = listed->count - 1;

		while (key < parts->count && wn_hash_compare(parts->hashes[key], given[i].hash) < 0)
			key++;
		if (key < parts->count && wn_hash_compare(parts->hashes[key], given[i].hash) == 0)
			continue;
		if (listed->count && wn_hash_compare(listed->hashes[last], given[i].hash) == 0) {
			listed->costs[last] += given[i].cost;
			continue;
		}
		listed->hashes[listed->count] = given[i].hash;
		listed->costs[listed->count++] = given[i].cost;
	}
}

/* ---- building ----------------------------------------------------------- */

static unsigned choose_hashes(size_t cells, uint32_t count)
{
	/* ln 2 for each cell that a key has, rounded to the nearest. */
	uint64_t hashes = ((uint64_t)cells * 6931 / count + 5000) / 10000;

	return hashes < LEAST_HASHES ? LEAST_HASHES :
	       hashes > MOST_HASHES  ? MOST_HASHES :
				       (unsigned)hashes;
}

size_t wn__small_sscf_size(uint32_t count, unsigned bits)
{
	size_t payload = ((size_t)count * bits + 799) / 800, size;

	if (count == 0 || count > WN__SMALL_MAX_KEYS || bits < WN__SMALL_SSCF_LEAST_BITS ||
	    bits > WN__SMALL_SSCF_MOST_BITS)
		return 0;
	if (payload < LEAST_PAYLOAD)
		payload = LEAST_PAYLOAD;
	size = WN__SMALL_FRONT + payload + 1;
	return size < LONG ? size : size + LONG_FIELD;
}

struct work {
	const struct wn__small_sscf_parts *parts;
	struct wn__build_input input;
	unsigned char *bytes;
	size_t size;
	struct wn__sscf_frozen frozen;
};

/* All but the bits. */
static void begin(struct work *work, unsigned share, unsigned variant)
{
	size_t payload = payload_size(work->size);
	uint32_t front =
		((work->parts->secret_id & WN__SMALL_SECRET_MASK) ^ size_mark(work->size)) | MARKS;
	unsigned hashes = choose_hashes(8 * payload, work->parts->count);
	unsigned last = WN__SMALL_LAST | share << 5 | variant << 3 | (hashes - LEAST_HASHES);

	memset(work->bytes, 0, work->size);
	work->bytes[0] = (unsigned char)front;
	work->bytes[1] = (unsigned char)(front >> 8);
	work->bytes[2] = (unsigned char)(front >> 16);
	if (work->size >= LONG) {
		work->bytes[work->size - 3] = (unsigned char)work->size;
		work->bytes[work->size - 2] = (unsigned char)(work->size >> 8);
	}
	work->bytes[work->size - 1] = (unsigned char)last;
	derive(work->bytes, work->size, last, &work->frozen);
}

/* Without the negatives: wants no memory, and cannot go wrong. */
static void build_plain(struct work *work)
{
	const struct wn__sscf_params *params = &work->frozen.params;

	begin(work, 0, 0);
	for (uint32_t key = 0; key < work->parts->count; key++) {
		struct wn_hash hash = wn__sscf_vary(work->parts->hashes[key], params->variant);
		uint64_t block = wn__sscf_block(hash, params->blocks) * params->block_cells;

		for (unsigned i = 0; i < params->hashes; i++)
			wn__sscf_set_bit(work->bytes + WN__SMALL_FRONT,
					 block + wn__sscf_place(hash, i, params->block_cells));
	}
}

static bool build_one(struct work *work, unsigned share, unsigned variant, double *costp)
{
	begin(work, share, variant);
	return wn__sscf_fill(&work->input, &work->frozen.params, work->bytes + WN__SMALL_FRONT,
			     costp) == 0;
}

static size_t count_wrong(const struct work *work)
{
	size_t count = 0;

	for (size_t i = 0; i < work->input.negative_count; i++)
		count += wn__small_sscf_says_maybe(&work->frozen, work->input.negatives[i]);
	return count;
}

/* The variant that does best alone; then, as long as it does at least twice as well, a larger
 * modulator: its bytes are taken from the cells, for which all other absent keys pay. */
static bool build_best(struct work *work)
{
	unsigned share = 0, variant = 0, last_share = 0, last_variant = 0;
	size_t mistakes = count_wrong(work);
	double cost, best;

	if (!build_one(work, 0, 0, &best))
		return false;
	for (unsigned i = 1; i < VARIANTS && best > 0; i++) {
		last_variant = i;
		if (!build_one(work, 0, i, &cost))
			return false;
		if (cost < best) {
			best = cost;
			variant = i;
			mistakes = count_wrong(work);
		}
	}
	for (unsigned i = 1; i < SHARES && best > 0; i++) {
		/* A modulator that is mostly full can do no more. */
		if (mistakes > 8 / MODULATOR_BITS * modulator_size(work->size, i) / 2)
			continue;
		last_share = i;
		last_variant = variant;
		if (!build_one(work, i, variant, &cost))
			return false;
		if (cost <= best / 2) {
			best = cost;
			share = i;
		}
	}
	return (share == last_share && variant == last_variant) ||
	       build_one(work, share, variant, &cost);
}

static bool contains_all(const struct work *work)
{
	for (uint32_t key = 0; key < work->parts->count; key++)
		if (!wn__small_sscf_says_maybe(&work->frozen, work->parts->hashes[key]))
			return false;
	return true;
}

size_t wn__small_sscf_build(const struct wn__small_sscf_parts *parts, unsigned char *bytes,
			   size_t size)
{
	size_t room = parts->negative_count, before, after;
	struct work work = {.parts = parts, .bytes = bytes, .size = size};
	struct listed listed = {NULL, NULL, 0};

	build_plain(&work);
	if (room == 0)
		return 0;
	listed.hashes = wn__alloc(room * sizeof(*listed.hashes));
	listed.costs = wn__alloc(room * sizeof(*listed.costs));
	if (listed.hashes && listed.costs)
		list_negatives(parts, &listed);
	work.input = (struct wn__build_input){.keys = parts->hashes, .key_count = parts->count,
					      .negatives = listed.hashes,
					      .negative_count = listed.count,
					      .costs = listed.costs};
	before = after = count_wrong(&work);
	if (before > 0) {
		/* A filter that denied one of its keys would lose it: nothing is taken on trust. */
		if (!build_best(&work) || !contains_all(&work))
			build_plain(&work);
		after = count_wrong(&work);
	}
	free(listed.hashes);
	free(listed.costs);
	return before > after ? before - after : 0;
}
