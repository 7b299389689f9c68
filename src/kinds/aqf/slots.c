/* slots.c - adaptive quotient filters in slots: build and open.
 *
 * The paper's form, for sizes at which lines (lines.h) do not do better, and for filters that were
 * living. A table builder has every hash, sorted: the filter is loaded in one pass, at full load,
 * and what is known to hurt (the negatives) is adapted against on the way: of all negatives, the
 * two next to a key in hash order share the longest prefixes with it, so two comparisons a key
 * decide its extensions. A filter without extensions leaves their metadata bit out. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/aqf.h>
#include <winnow/error.h>

#include "base/alloc.h"
#include "aqf_block.h"
#include "aqf_bulk.h"
#include "aqf_format.h"
#include "aqf_internal.h"
#include "aqf_small.h"
#include "kinds/block_build.h"
#include "kinds/kind.h"
#include "kinds/shape.h"

/* ---- build -------------------------------------------------------------- */

/* The keys one after the other, each with the extensions the negatives call for. */
struct key_walk {
	const struct wn__build_input *input;
	const struct wn__table *table;
	size_t key;
	size_t negative; /* the first that is above the key */
};

static unsigned extensions_against(const struct wn__table *table, struct wn__fingerprint key,
				   struct wn_hash negative)
{
	struct wn__fingerprint other = wn__split(negative, table->slots);
	unsigned common;

	if (other.quotient != key.quotient)
		return 0;
	common = wn__common_prefix(key.hi, key.lo, other.hi, other.lo);
	if (common < table->remainder_bits)
		return 0;
	return (common - table->remainder_bits) / table->extension_bits + 1;
}

static bool next_key(struct key_walk *walk, struct wn__fingerprint *printp, unsigned *extensionsp)
{
	const struct wn__build_input *input = walk->input;
	struct wn_hash key;
	unsigned above = 0, below = 0;

	if (walk->key >= input->key_count)
		return false;
	key = input->keys[walk->key++];
	*printp = wn__split(key, walk->table->slots);
	while (walk->negative < input->negative_count &&
	       wn_hash_compare(input->negatives[walk->negative], key) < 0)
		walk->negative++;
	if (walk->negative < input->negative_count)
		above = extensions_against(walk->table, *printp, input->negatives[walk->negative]);
	if (walk->negative > 0)
		below = extensions_against(walk->table, *printp,
					   input->negatives[walk->negative - 1]);
	*extensionsp = above > below ? above : below;
	return true;
}

/* Go through the motions: how many extension slots, and where it all ends. */
static void measure(const struct wn__build_input *input, const struct wn__table *table,
		    uint64_t *extensionsp, uint64_t *endp)
{
	struct key_walk walk = {.input = input, .table = table};
	struct wn__fingerprint print;
	uint64_t total = 0, end = 0;
	unsigned extensions;

	while (next_key(&walk, &print, &extensions)) {
		end = (end > print.quotient ? end : print.quotient) + 1 + extensions;
		total += extensions;
	}
	*extensionsp = total;
	*endp = end;
}

/* The same without negatives. Some key starts the last cluster in its own slot, and
 * all keys from it on follow without a gap: key i as the first one would put the end
 * at quotient + keys from i on, and the true end is the largest of these. */
static uint64_t measure_plain(const struct wn__build_input *input, uint64_t slots)
{
	uint64_t end = 0;

	for (size_t i = 0; i < input->key_count; i++) {
		uint64_t from_here = wn__split(input->keys[i], slots).quotient - i;

		end = (int64_t)(from_here - end) > 0 ? from_here : end;
	}
	return end + input->key_count;
}

/* Find the shape that holds keys and extensions at the load asked for. The number
 * of extensions depends a little on the shape, so look again after changing it; a
 * few rounds settle it, and an exact load matters to nobody. */
static int choose_shape(const struct wn__build_input *input, struct wn__table *table,
			uint64_t *extensionsp)
{
	double load = input->config->values[WN__AQF_LOAD];
	unsigned bits = wn__slots_remainder_bits(input->config);
	uint64_t slots = wn__aqf_slots_for(input->key_count, load);
	uint64_t end = 0;

	*extensionsp = 0;
	for (unsigned round = 0; round < 4; round++) {
		slots = wn__slots_for_lessons(slots, bits);
		if (!wn__aqf_shape_is_valid(slots, bits, bits, 0))
			return WN_ERR_INVALID;
		wn__table_shape(table, slots, 1, bits, bits, 0, true);
		if (input->negative_count > 0)
			measure(input, table, extensionsp, &end);
		else
			end = measure_plain(input, slots);
		if ((double)(input->key_count + *extensionsp) <= load * (double)slots + 1)
			break;
		slots = wn__aqf_slots_for(input->key_count + *extensionsp, load);
	}
	end = end > table->slots ? end : table->slots;
	wn__table_shape(table, table->slots, (end + 63) / 64, bits, bits, 0, *extensionsp > 0);
	return 0;
}

static int load_extended(struct wn__loader *loader, const struct wn__build_input *input)
{
	const struct wn__table *table = loader->table;
	struct key_walk walk = {.input = input, .table = table};
	struct wn__fingerprint print;
	unsigned extensions;

	while (next_key(&walk, &print, &extensions)) {
		wn__u128 tail = ((wn__u128)print.hi << 64 | print.lo) << table->remainder_bits;
		struct wn__entry entry = {
			.minirun = wn__minirun_of(table, print),
			.extensions = extensions,
			.count = 1,
			.hi = (uint64_t)(tail >> 64),
			.lo = (uint64_t)tail,
		};
		int err = wn__loader_add(loader, &entry);

		if (err)
			return err;
	}
	return 0;
}

uint64_t wn__aqf_payload_size(const struct wn__table *table)
{
	return wn__aqf_offsets_size(table->blocks) + table->blocks * table->block_words * 8;
}

static void words_to_le(uint64_t *words, uint64_t count)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
	for (uint64_t at = 0; at < count; at++)
		put_le64(&words[at], words[at]);
#else
	(void)words;
	(void)count;
#endif
}

void wn__aqf_put_params(unsigned char *to, const struct wn__table *table, uint64_t used,
			uint64_t counters)
{
	wn__aqf_params_put(to, &(struct wn__aqf_params){
				       .remainder_bits = table->remainder_bits,
				       .extension_bits = table->extension_bits,
				       .tag_bits = table->tag_bits,
				       .meta_words = table->meta_words,
				       .counters = counters < UINT32_MAX ? (uint32_t)counters
									 : UINT32_MAX,
				       .slots = table->slots,
				       .blocks = table->blocks,
				       .used = used,
			       });
}

int wn__slots_build(const struct wn__build_input *input, struct wn__block_writer *writer,
		    unsigned char *params)
{
	struct wn__loader loader;
	struct wn__table table;
	uint64_t extensions;
	unsigned char *payload;
	uint64_t *words;
	int err;

	if (input->key_count > WN_AQF_MAX_KEYS)
		return WN_ERR_INVALID;
	err = choose_shape(input, &table, &extensions);
	if (err)
		return err;
	err = wn__block_begin(writer, wn__aqf_payload_size(&table), &payload);
	if (err)
		return err;
	words = (uint64_t *)(void *)(payload + wn__aqf_offsets_size(table.blocks));
	wn__loader_init(&loader, &table, words, payload);
	/* Cannot fail: measure() has seen where it ends. */
	if (extensions > 0)
		err = load_extended(&loader, input);
	else
		err = wn__loader_add_hashes(&loader, input->keys, input->key_count);
	wn__loader_end(&loader);
	words_to_le(words, table.blocks * table.block_words);
	wn__aqf_put_params(params, &table, input->key_count + extensions, 0);
	return err;
}

/* ---- open --------------------------------------------------------------- */

static int refuse(const char **reasonp, const char *reason)
{
	*reasonp = reason;
	return WN_ERR_CORRUPT;
}

/* The parameters fit each other and the payload's size: constant time. From here on
 * no query can leave the payload, whatever is in it. */
static int read_params(const struct wn_block_info *info, struct wn__aqf_frozen *frozen,
		       const char **reasonp)
{
	struct wn__aqf_params params = wn__aqf_params_get(info->params);
	const unsigned char *words;

	if (!wn__aqf_shape_is_valid(params.slots, params.remainder_bits, params.extension_bits,
				    params.tag_bits))
		return refuse(reasonp, "AdaptiveQF: parameters out of range");
	if (params.meta_words != 2 && params.meta_words != 3)
		return refuse(reasonp, "AdaptiveQF: unknown metadata layout");
	/* Bounds the products below; the exact size is checked next. */
	if (params.blocks > info->payload_size || params.blocks < (params.slots + 63) / 64)
		return refuse(reasonp, "AdaptiveQF: number of blocks does not fit");
	wn__table_shape(&frozen->table, params.slots, params.blocks, params.remainder_bits,
			params.extension_bits, params.tag_bits, params.meta_words == 3);
	if (wn__aqf_payload_size(&frozen->table) != info->payload_size)
		return refuse(reasonp, "AdaptiveQF: payload size does not fit the parameters");
	if (params.used > params.blocks * 64 || params.used < info->key_count ||
	    (params.meta_words == 2 && params.used != info->key_count))
		return refuse(reasonp, "AdaptiveQF: number of used slots does not fit");
	words = info->payload + wn__aqf_offsets_size(params.blocks);
	frozen->table.words = words;
	frozen->table.offsets = info->payload;
	frozen->used = params.used;
	frozen->counters = params.counters;
	return 0;
}

/* Does every block's offset say what the runs say? Called when all content of
 * quotients below the block is known to end at `end`. */
static bool offset_fits(const struct wn__table *table, uint64_t block, uint64_t end)
{
	uint64_t offset = end > block * 64 ? end - block * 64 : 0;

	return wn__offset_byte(table, block) ==
	       (offset < WN__OFFSET_MANY ? offset : WN__OFFSET_MANY);
}

/* Walk the runs: sorted, within the table, offsets as they should be. */
static int check_runs(const struct wn__aqf_frozen *frozen, uint64_t key_count, const char **reasonp)
{
	const struct wn__table *table = &frozen->table;
	struct wn__scan scan;
	struct wn__entry entry;
	uint64_t fingerprints = 0, used = 0, last = 0, block = 0;
	uint64_t end = 0; /* behind the fingerprint before */

	wn__scan_init(&scan, table, false);
	for (; wn__scan_next(&scan, &entry); last = entry.minirun, end = scan.slot) {
		uint64_t quotient = entry.minirun >> table->remainder_bits;

		for (; block <= quotient >> 6; block++)
			if (!offset_fits(table, block, end))
				return refuse(reasonp, "AdaptiveQF: wrong offset");
		if (entry.minirun < last)
			return refuse(reasonp, "AdaptiveQF: fingerprints out of order");
		if (entry.count == 0 || entry.extensions > wn__max_extensions(table))
			return refuse(reasonp, "AdaptiveQF: a fingerprint is too long");
		fingerprints++;
		used += 1 + entry.extensions +
			wn__counter_digits(entry.count, table->slot_bits);
	}
	if (scan.damaged)
		return refuse(reasonp, "AdaptiveQF: a run has no end");
	for (; block < table->blocks; block++)
		if (!offset_fits(table, block, end))
			return refuse(reasonp, "AdaptiveQF: wrong offset");
	if (fingerprints != key_count || used != frozen->used)
		return refuse(reasonp, "AdaptiveQF: wrong number of fingerprints");
	return 0;
}

/* No bits where no slot is in use: they would be counted as ends of runs. */
static int check_strays(const struct wn__aqf_frozen *frozen, uint64_t key_count,
			const char **reasonp)
{
	const struct wn__table *table = &frozen->table;
	uint64_t occupied = 0, ends = 0, extras = 0;

	for (uint64_t block = 0; block < table->blocks; block++) {
		uint64_t occupieds = wn__meta(table, block, WN__OCCUPIEDS, false);

		if (occupieds && block * 64 + 63 - (unsigned)__builtin_clzll(occupieds) >=
					 table->slots)
			return refuse(reasonp, "AdaptiveQF: a quotient out of range");
		occupied += wn__popcount(occupieds);
		ends += wn__popcount(wn__true_runends(table, block, false));
		extras += wn__popcount(wn__extensions(table, block, false));
	}
	if (occupied != ends)
		return refuse(reasonp, "AdaptiveQF: runs and ends of runs differ in number");
	if (extras != frozen->used - key_count)
		return refuse(reasonp, "AdaptiveQF: stray extension bits");
	return 0;
}

int wn__aqf_open_frozen(const struct wn_block_info *info, enum wn_check check,
			struct wn__aqf_frozen *frozen, const char **reasonp)
{
	int err = read_params(info, frozen, reasonp);

	if (!err && check == WN_CHECK_ALL)
		err = check_strays(frozen, info->key_count, reasonp);
	if (!err && check == WN_CHECK_ALL)
		err = check_runs(frozen, info->key_count, reasonp);
	return err;
}
