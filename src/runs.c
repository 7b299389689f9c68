/* runs.c - the part of the run-level reverse map that is the same for every store. */
#include <string.h>

#include <winnow/aqf.h>
#include <winnow/error.h>

#include "aqf_internal.h"
#include "kind.h"
#include "learned.h"
#include "runs.h"

/* Kept of each fraction beyond a lesson's piece. Without them one key in 250 or so is known
 * too badly to make a lesson of, and its false positives come again; with them one in 16
 * million. They cost two bytes a key. */
#define SPARE_BITS 16

bool wn__run_is_valid(const struct wn__run *run)
{
	return run->key_count <= WN_AQF_MAX_KEYS &&
	       wn__aqf_shape_is_valid(run->slots, run->remainder_bits, run->remainder_bits, 0);
}

int wn__run_of_block(const struct wn_block_info *info, struct wn__run *runp)
{
	const struct wn__kind *kind = wn__kind_by_id(info->kind);
	struct wn__shape shape;

	memset(runp, 0, sizeof(*runp));
	if (!kind)
		return WN_ERR_INVALID;
	shape = wn__block_shape(info, kind);
	memcpy(runp->id, info->id, sizeof(runp->id));
	runp->key_count = info->key_count;
	runp->secret_id = info->secret_id;
	runp->slots = shape.slots;
	runp->remainder_bits = shape.remainder_bits;
	runp->plain = !kind->query_from;
	return wn__run_is_valid(runp) ? 0 : WN_ERR_INVALID;
}

bool wn__run_entry_tells(const struct wn__run *run, const struct wn__run_entry *entry,
			 struct wn_hash query, unsigned piece_bits)
{
	struct wn__fingerprint ours = wn__split(entry->hash, run->slots);
	struct wn__fingerprint other = wn__split(query, run->slots);
	unsigned common = wn__common_prefix(ours.hi, ours.lo, other.hi, other.lo);
	unsigned pieces;

	if (entry->fraction_bits >= 128)
		return true;
	if (ours.quotient != other.quotient || common < run->remainder_bits)
		return false;
	pieces = (common - run->remainder_bits) / piece_bits + 1;
	return run->remainder_bits + pieces * piece_bits <= entry->fraction_bits;
}

static bool is_ascending(const struct wn_hash *hashes, uint64_t count)
{
	for (uint64_t i = 1; i < count; i++) {
		if (wn_hash_compare(hashes[i - 1], hashes[i]) > 0)
			return false;
	}
	return true;
}

/* Do the bits that are kept fix the minirun? Those that are not could raise it by one
 * at most. */
static bool is_minirun_fixed(const struct wn__run *run, struct wn_hash hash, uint64_t lost)
{
	struct wn__fingerprint low, high;

	low = wn__split((struct wn_hash){hash.hi, hash.lo & ~lost}, run->slots);
	high = wn__split((struct wn_hash){hash.hi, hash.lo | lost}, run->slots);
	return low.quotient == high.quotient &&
	       (low.hi ^ high.hi) >> (64 - run->remainder_bits) == 0;
}

static bool are_miniruns_fixed(const struct wn__run *run, const struct wn_hash *hashes,
			       unsigned hash_bytes)
{
	uint64_t lost = wn__run_lost_bits(hash_bytes);

	for (uint64_t i = 0; i < run->key_count; i++) {
		if (!is_minirun_fixed(run, hashes[i], lost))
			return false;
	}
	return true;
}

unsigned wn__run_hash_bytes(const struct wn__run *run, unsigned fraction_bits)
{
	unsigned bits = fraction_bits + 64 - (unsigned)__builtin_clzll(run->slots | 1) + 8;

	if (bits <= 64)
		return 8;
	return bits < 128 ? (bits + 7) / 8 : 16;
}

/* To fix the miniruns of all n keys takes log2(n) bits more than to fix that of one. */
unsigned wn__run_lesson_bytes(const struct wn__run *run, unsigned piece_bits)
{
	unsigned more = run->plain ? 64 - (unsigned)__builtin_clzll(run->slots | 1) :
				     piece_bits + SPARE_BITS;

	return wn__run_hash_bytes(run, run->remainder_bits + more);
}

static void check_put(struct wn__run_put *put)
{
	put->err = 0;
	if (put->hash_bytes == 0)
		put->hash_bytes = 16;
	if (!wn__run_is_valid(put->run) || put->hash_bytes < 8 || put->hash_bytes > 16 ||
	    !is_ascending(put->hashes, put->run->key_count))
		put->err = WN_ERR_INVALID;
	else if (put->hash_bytes < 16 &&
		 !are_miniruns_fixed(put->run, put->hashes, put->hash_bytes))
		put->hash_bytes = 16;
}

void wn__runs_put_all(struct wn__runs *runs, struct wn__run_put *puts, size_t count)
{
	if (runs->ops->put_many) {
		runs->ops->put_many(runs, puts, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (!puts[i].err)
			puts[i].err = runs->ops->put(runs, puts[i].run, puts[i].hashes,
						     puts[i].hash_bytes);
	}
}

void wn__runs_put_many(struct wn__runs *runs, struct wn__run_put *puts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_put(&puts[i]);
	wn__runs_put_all(runs, puts, count);
	for (size_t i = 0; i < count; i++)
		wn__runs_count(puts[i].err ? &runs->stats.failed_puts : &runs->stats.puts, 1);
}

int wn__runs_put(struct wn__runs *runs, const struct wn__run *run, const struct wn_hash *hashes,
		 unsigned hash_bytes)
{
	struct wn__run_put put = {.run = run, .hashes = hashes, .hash_bytes = hash_bytes};

	wn__runs_put_many(runs, &put, 1);
	return put.err;
}

static uint64_t *counter_of(struct wn__runs *runs, int err)
{
	switch (err) {
	case WN_ERR_NOT_FOUND:
		return &runs->stats.missing;
	case WN_ERR_MISMATCH:
		return &runs->stats.mismatched;
	case WN_ERR_CORRUPT:
	case WN_ERR_VERSION:
		return &runs->stats.damaged;
	default:
		return &runs->stats.failed;
	}
}

int wn__runs_lookup(struct wn__runs *runs, const struct wn__run *run, uint64_t minirun,
		    uint32_t rank, struct wn__run_entry *entryp)
{
	size_t count;

	*entryp = (struct wn__run_entry){0};
	return wn__runs_lookup_minirun(runs, run, minirun, rank, entryp, 1, &count);
}

int wn__runs_lookup_minirun(struct wn__runs *runs, const struct wn__run *run, uint64_t minirun,
			    uint32_t rank, struct wn__run_entry *entries, size_t max,
			    size_t *countp)
{
	int err;

	*countp = 0;
	err = runs->ops->lookup(runs, run, minirun, rank, entries, max, countp);
	wn__runs_count(&runs->stats.lookups, 1);
	if (err && err != WN__RUN_NO_PLACE)
		wn__runs_count(counter_of(runs, err), 1);
	return err;
}

int wn__runs_stream(struct wn__runs *runs, const unsigned char *id, wn__run_visit_fn *fn,
		    void *arg)
{
	return runs->ops->stream(runs, id, fn, arg);
}

int wn__runs_drop(struct wn__runs *runs, const unsigned char *id)
{
	int err = runs->ops->drop(runs, id);

	if (!err)
		wn__runs_count(&runs->stats.drops, 1);
	return err;
}

size_t wn__runs_drop_all(struct wn__runs *runs, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			 size_t count)
{
	size_t dropped = 0;

	if (runs->ops->drop_many)
		return runs->ops->drop_many(runs, ids, count);
	for (size_t i = 0; i < count; i++)
		dropped += runs->ops->drop(runs, ids[i]) == 0;
	return dropped;
}

size_t wn__runs_drop_many(struct wn__runs *runs, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			  size_t count)
{
	size_t dropped = wn__runs_drop_all(runs, ids, count);

	wn__runs_count(&runs->stats.drops, dropped);
	return dropped;
}

int wn__runs_list(struct wn__runs *runs, struct wn__run_info **infosp, size_t *countp)
{
	*infosp = NULL;
	*countp = 0;
	return runs->ops->list(runs, infosp, countp);
}

void wn__runs_destroy(struct wn__runs *runs)
{
	if (runs)
		runs->ops->destroy(runs);
}

static uint64_t read_counter(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void wn__runs_stats(const struct wn__runs *runs, struct wn__runs_stats *statsp)
{
	const struct wn__runs_stats *stats = &runs->stats;

	*statsp = (struct wn__runs_stats){
		.puts = read_counter(&stats->puts),
		.failed_puts = read_counter(&stats->failed_puts),
		.drops = read_counter(&stats->drops),
		.lookups = read_counter(&stats->lookups),
		.missing = read_counter(&stats->missing),
		.mismatched = read_counter(&stats->mismatched),
		.damaged = read_counter(&stats->damaged),
		.failed = read_counter(&stats->failed),
		.reads = read_counter(&stats->reads),
		.runs = read_counter(&stats->runs),
		.bytes = read_counter(&stats->bytes),
	};
}
