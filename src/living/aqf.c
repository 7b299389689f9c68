/* aqf.c - making, sizing and describing living adaptive quotient filters.
 *
 * The algorithm in one paragraph (Wen et al., Adaptive Quotient Filters, SIGMOD
 * 2024, sections 3 and 4). A key's hash is a fraction x in [0,1). x * slots has
 * an integer part, the quotient, and a fraction, whose first bits are the
 * remainder. Remainders are kept near the slot their quotient names, those of one
 * quotient together in a run, sorted; fingerprints of equal quotient and
 * remainder form a minirun, in the order of their insertion, and a fingerprint's
 * place in it is its rank. When a query matches a fingerprint but is not its key,
 * the fingerprint gets further bits of its own key's hash, in extension slots
 * behind it, until the query differs. The bits come from the reverse map, asked
 * with (minirun, rank); the rank changes only when a fingerprint before it is removed.
 *
 * Where we differ from the paper: any number of slots, not only powers of two; the
 * fraction is 128 bits long; extensions keep their size when the filter grows or
 * shrinks, so that no learned bit is lost (extension_bits and remainder_bits are
 * then different); and offsets are exact at any cluster length.
 *
 * kinds/aqf/aqf_table.h   the slots and their metadata
 * aqf_lock.h              sharing between threads
 * aqf_query.c             queries
 * aqf_insert.c            inserts
 * aqf_write.c             counts, tags, deletes
 * aqf_adapt.c             adapting and shortening
 * aqf_find.c              the writers' search for fingerprints and empty slots
 * aqf_shift.c             moving slots
 * aqf_room.c              how many slots may be in use
 * aqf_bulk.c              whole filters at once
 * aqf_freeze.c            to a block (kinds/aqf/kind.c) and back */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "aqf_internal.h"

#define DEFAULT_REMAINDER_BITS 9
#define DEFAULT_ADAPT_LOAD 0.98
#define MAX_ADAPT_LOAD 0.99
#define MIN_STAMPS 64
#define SLOTS_PER_STAMP 2048 /* between this and half of it */

/* The table goes on behind the last quotient's slot, for what spills over there.
 * At 98% load the chance to need 1,024 such slots is below 1e-18. */
#define MAX_SPILL_SLOTS 960

static bool in_range(double value, double low, double high)
{
	return value >= low && value <= high; /* false for NaN */
}

int wn__aqf_check_options(const struct wn_aqf_options *options, struct wn_aqf_options *fullp)
{
	struct wn_aqf_options full = *options;

	if (full.remainder_bits == 0)
		full.remainder_bits = DEFAULT_REMAINDER_BITS;
	if (full.load == 0)
		full.load = WN_AQF_MAX_LOAD;
	if (full.adapt_load == 0)
		full.adapt_load = full.load > DEFAULT_ADAPT_LOAD ? full.load : DEFAULT_ADAPT_LOAD;
	if (full.capacity < 1 || full.capacity > WN_AQF_MAX_KEYS ||
	    full.remainder_bits < WN_AQF_MIN_REMAINDER_BITS ||
	    full.remainder_bits > WN_AQF_MAX_REMAINDER_BITS ||
	    !in_range(full.load, 1e-6, WN_AQF_MAX_LOAD) ||
	    !in_range(full.adapt_load, full.load, MAX_ADAPT_LOAD) || full.tag_bits > 1 ||
	    !wn__is_reserved_zero(&full))
		return WN_ERR_INVALID;
	*fullp = full;
	return 0;
}

static uint64_t spill_slots(uint64_t slots)
{
	return 64 + (slots < MAX_SPILL_SLOTS ? slots : MAX_SPILL_SLOTS);
}

/* Every filter starts at a number of its own: a match of one is stale in another. */
static uint64_t first_stamp(void)
{
	static uint64_t filters;

	return __atomic_add_fetch(&filters, 1, __ATOMIC_RELAXED) << 32;
}

/* Few are enough: a stamp is wanted for as long as a map is read, by as many as
 * there are threads. */
static int allocate_stamps(struct wn_aqf *aqf)
{
	uint64_t first = first_stamp();
	uint64_t count = MIN_STAMPS;

	while (count < aqf->table.slots / SLOTS_PER_STAMP)
		count *= 2;
	aqf->stamps = wn__alloc_table(count * sizeof(*aqf->stamps));
	if (!aqf->stamps)
		return ENOMEM;
	for (uint64_t at = 0; at < count; at++)
		aqf->stamps[at] = first;
	aqf->stamp_mask = count - 1;
	return 0;
}

static int allocate_table(struct wn_aqf *aqf)
{
	/* One word of padding: wn__slot_window() reads one ahead. */
	uint64_t words = aqf->table.blocks * aqf->table.block_words + 1;

	aqf->words = wn__alloc_table(words * sizeof(uint64_t));
	aqf->offsets = wn__alloc_table(aqf->table.blocks);
	aqf->region_count = ((wn__physical_slots(&aqf->table) - 1) >> WN__REGION_SHIFT) + 1;
	aqf->regions = wn__alloc_table(aqf->region_count * sizeof(*aqf->regions));
	if (!aqf->words || !aqf->offsets || !aqf->regions)
		return ENOMEM;
	aqf->table.words = (const unsigned char *)aqf->words;
	aqf->table.offsets = aqf->offsets;
	return allocate_stamps(aqf);
}

static void set_limits(struct wn_aqf *aqf)
{
	uint64_t slots = aqf->table.slots;
	uint64_t adapt = (uint64_t)(aqf->adapt_load * (double)slots);
	uint64_t small;

	aqf->insert_limit = (uint64_t)(aqf->load * (double)slots + 1e-6);
	if (aqf->insert_limit == 0)
		aqf->insert_limit = 1;
	/* In a table of few slots the percentages leave no room to adapt; the spill
	 * slots do. 64 are room for one lesson of any length. */
	small = aqf->insert_limit + (aqf->insert_limit < 64 ? aqf->insert_limit : 64);
	aqf->adapt_limit = adapt > small ? adapt : small;
}

int wn__aqf_create_shape(uint64_t slots, unsigned remainder_bits, unsigned extension_bits,
			 unsigned tag_bits, double load, double adapt_load, struct wn_aqf **aqfp)
{
	struct wn_aqf *aqf;
	int err;

	*aqfp = NULL;
	if (!wn__aqf_shape_is_valid(slots, remainder_bits, extension_bits, tag_bits))
		return WN_ERR_INVALID;
	aqf = wn__alloc_table(sizeof(*aqf)); /* on a cache line */
	if (!aqf)
		return ENOMEM;
	wn__table_shape(&aqf->table, slots, (slots + spill_slots(slots) + 63) / 64,
			remainder_bits, extension_bits, tag_bits, true);
	err = allocate_table(aqf);
	if (err) {
		wn_aqf_destroy(aqf);
		return err;
	}
	aqf->load = load;
	aqf->adapt_load = adapt_load;
	aqf->fast = wn__cpu_is_fast();
	set_limits(aqf);
	*aqfp = aqf;
	return 0;
}

int wn_aqf_create(const struct wn_aqf_options *options, struct wn_aqf **aqfp)
{
	struct wn_aqf_options full;
	int err;

	*aqfp = NULL;
	err = wn__aqf_check_options(options, &full);
	if (err)
		return err;
	return wn__aqf_create_shape(wn__aqf_slots_for(full.capacity, full.load),
				    full.remainder_bits, full.remainder_bits, full.tag_bits,
				    full.load, full.adapt_load, aqfp);
}

void wn_aqf_destroy(struct wn_aqf *aqf)
{
	if (!aqf)
		return;
	free(aqf->words);
	free(aqf->offsets);
	free(aqf->regions);
	free(aqf->stamps);
	free(aqf);
}

uint64_t wn__aqf_used(const struct wn_aqf *aqf)
{
	uint64_t used = __atomic_load_n(&aqf->kept, __ATOMIC_RELAXED) +
			__atomic_load_n(&aqf->extensions, __ATOMIC_RELAXED);

	for (uint64_t at = 0; at < aqf->region_count; at++)
		used += (uint64_t)(int64_t)__atomic_load_n(&aqf->regions[at].pending,
							   __ATOMIC_RELAXED);
	return used;
}

uint64_t wn__aqf_fingerprints(const struct wn_aqf *aqf)
{
	uint64_t fingerprints = aqf->first_fingerprints;

	for (uint64_t at = 0; at < aqf->region_count; at++)
		fingerprints += (uint64_t)(int64_t)__atomic_load_n(&aqf->regions[at].fingerprints,
								   __ATOMIC_RELAXED);
	return fingerprints;
}

void wn_aqf_describe(const struct wn_aqf *aqf, struct wn_aqf_info *infop)
{
	const struct wn__table *table = &aqf->table;

	*infop = (struct wn_aqf_info){
		.slots = table->slots,
		.used_slots = wn__aqf_used(aqf),
		.fingerprints = wn__aqf_fingerprints(aqf),
		.extensions = __atomic_load_n(&aqf->extensions, __ATOMIC_RELAXED),
		.insert_limit = aqf->insert_limit,
		.adapt_limit = aqf->adapt_limit,
		.remainder_bits = table->remainder_bits,
		.extension_bits = table->extension_bits,
		.tag_bits = table->tag_bits,
		.bytes = sizeof(*aqf) + (table->blocks * table->block_words + 1) * 8 +
			 table->blocks + aqf->region_count * sizeof(*aqf->regions) +
			 (aqf->stamp_mask + 1) * sizeof(*aqf->stamps),
	};
	infop->counters = infop->used_slots - infop->fingerprints - infop->extensions;
}
