/* bulk.c - walking a table in order and loading one in order. */
#include <winnow/error.h>

#include "aqf_bulk.h"

/* ---- walking ------------------------------------------------------------ */

void wn__scan_init(struct wn__scan *scan, const struct wn__table *table, bool live)
{
	*scan = (struct wn__scan){.table = table, .live = live};
}

/* Move on to the next occupied quotient. */
static bool next_run(struct wn__scan *scan)
{
	const struct wn__table *table = scan->table;

	for (uint64_t block = scan->quotient >> 6; block < table->blocks; block++) {
		uint64_t occupieds = wn__meta(table, block, WN__OCCUPIEDS, scan->live);

		if (block == scan->quotient >> 6)
			occupieds &= ~wn__low_bits(scan->quotient & 63);
		if (occupieds) {
			scan->quotient = block * 64 + (unsigned)__builtin_ctzll(occupieds);
			return true;
		}
	}
	scan->quotient = table->blocks * 64;
	return false;
}

static void read_extras(const struct wn__scan *scan, const struct wn__place *place,
			struct wn__entry *entryp)
{
	const struct wn__table *table = scan->table;
	unsigned extensions = wn__extension_count(table, place, scan->live);
	uint64_t digits = 0;
	wn__u128 bits = 0;

	for (unsigned at = 0; at < extensions; at++) {
		wn__u128 piece = wn__slot(table, place->slot + 1 + at, scan->live) >>
				 table->tag_bits;
		uint64_t end = (uint64_t)(at + 1) * table->extension_bits;

		if (end <= 128)
			bits |= piece << (128 - end);
		else if (end < 128u + table->extension_bits)
			bits |= piece >> (end - 128);
	}
	for (uint64_t slot = place->behind; slot-- > place->slot + 1 + extensions; )
		digits = digits << table->slot_bits | wn__slot(table, slot, scan->live);
	entryp->extensions = extensions;
	entryp->hi = (uint64_t)(bits >> 64);
	entryp->lo = (uint64_t)bits;
	entryp->count = digits + 1;
}

bool wn__scan_next(struct wn__scan *scan, struct wn__entry *entryp)
{
	const struct wn__table *table = scan->table;
	struct wn__place place;
	uint64_t content;

	if (!scan->in_run) {
		if (!next_run(scan))
			return false;
		if (scan->slot < scan->quotient)
			scan->slot = scan->quotient;
		scan->in_run = true;
	}
	if (scan->slot >= wn__physical_slots(table)) {
		scan->damaged = true;
		return false;
	}
	place = wn__place_at(table, scan->slot, scan->live);
	content = wn__slot(table, scan->slot, scan->live);
	*entryp = (struct wn__entry){
		.minirun = scan->quotient << table->remainder_bits | content >> table->tag_bits,
		.tag = (unsigned)(content & wn__low_bits(table->tag_bits)),
		.count = 1,
	};
	if (place.behind > place.slot + 1)
		read_extras(scan, &place, entryp);
	scan->slot = place.behind;
	if (place.ends_run) {
		scan->in_run = false;
		scan->quotient++;
	}
	return true;
}

/* ---- loading ------------------------------------------------------------ */

void wn__loader_init(struct wn__loader *loader, const struct wn__table *table, uint64_t *words,
		     uint8_t *offsets)
{
	*loader = (struct wn__loader){
		.table = table,
		.words = words,
		.offsets = offsets,
		.next_block = 0,
	};
}

/* Write the offsets of the blocks up to `block`: all content of smaller quotients is there. */
static void fill_offsets(struct wn__loader *loader, uint64_t block)
{
	for (; loader->next_block <= block; loader->next_block++) {
		uint64_t first = loader->next_block * 64;
		uint64_t offset = loader->slot > first ? loader->slot - first : 0;

		loader->offsets[loader->next_block] =
			offset < WN__OFFSET_MANY ? (uint8_t)offset : WN__OFFSET_MANY;
	}
}

static void set_bit(struct wn__loader *loader, unsigned which, uint64_t slot)
{
	loader->words[(slot >> 6) * loader->table->block_words + which] |= UINT64_C(1)
									    << (slot & 63);
}

/* Fill the next slot. */
static void put_slot(struct wn__loader *loader, uint64_t content)
{
	const struct wn__table *table = loader->table;
	uint64_t slot = loader->slot++;
	uint64_t bit = (slot & 63) * table->slot_bits;
	uint64_t *words = loader->words + (slot >> 6) * table->block_words + table->meta_words +
			  (bit >> 6);

	words[0] |= content << (bit & 63);
	if ((bit & 63) + table->slot_bits > 64)
		words[1] |= content >> (64 - (bit & 63));
}

/* Append an extension or counter slot to the fingerprint just added. */
static void add_extra(struct wn__loader *loader, uint64_t content, bool counter)
{
	set_bit(loader, WN__EXTENSIONS, loader->slot);
	if (counter)
		set_bit(loader, WN__RUNENDS, loader->slot);
	put_slot(loader, content);
}

int wn__loader_add(struct wn__loader *loader, const struct wn__entry *entry)
{
	const struct wn__table *table = loader->table;
	uint64_t quotient = entry->minirun >> table->remainder_bits;
	uint64_t remainder = entry->minirun & wn__low_bits(table->remainder_bits);
	unsigned digits = wn__counter_digits(entry->count, table->slot_bits);
	uint64_t rest = entry->count - 1;

	if (quotient >> 6 >= loader->next_block)
		fill_offsets(loader, quotient >> 6);
	if (loader->slot < quotient)
		loader->slot = quotient;
	if (loader->slot + 1 + entry->extensions + digits > wn__physical_slots(table))
		return WN_ERR_FULL;
	if (quotient != loader->quotient && loader->fingerprints > 0)
		set_bit(loader, WN__RUNENDS, loader->last_slot);
	set_bit(loader, WN__OCCUPIEDS, quotient);
	loader->quotient = quotient;
	loader->last_slot = loader->slot;
	loader->fingerprints++;
	put_slot(loader, remainder << table->tag_bits | entry->tag);
	for (unsigned at = 0; at < entry->extensions; at++)
		add_extra(loader,
			  wn__fraction_bits(entry->hi, entry->lo, at * table->extension_bits,
					    table->extension_bits)
				  << table->tag_bits,
			  false);
	for (unsigned at = 0; at < digits; at++, rest >>= table->slot_bits)
		add_extra(loader, rest & wn__low_bits(table->slot_bits), true);
	loader->extensions += entry->extensions;
	loader->counters += digits;
	return 0;
}

/* The loop that makes most filters. Its state is in locals: the loader's fields could
 * be anything that a store through `words` changes, as far as the compiler knows. The
 * metadata of the block at hand is collected in registers for the same reason. */
int wn__loader_add_hashes(struct wn__loader *loader, const struct wn_hash *hashes, size_t count)
{
	const struct wn__table table = *loader->table;
	uint64_t *words = loader->words;
	uint64_t limit = wn__physical_slots(&table);
	uint64_t slot = loader->slot, last = loader->last_slot, before = loader->quotient;
	uint64_t started = loader->fingerprints != 0;
	uint64_t next_block = loader->next_block * 64;
	uint64_t occupieds = 0, runends = 0;

	for (size_t i = 0; i < count; i++) {
		struct wn__fingerprint print = wn__split(hashes[i], table.slots);
		uint64_t content = wn__remainder_of(&table, print) << table.tag_bits;
		uint64_t bit;
		uint64_t *at;

		if (WN__UNLIKELY(print.quotient >= next_block)) {
			words[(before >> 6) * table.block_words + WN__OCCUPIEDS] |= occupieds;
			occupieds = 0;
			loader->slot = slot;
			fill_offsets(loader, print.quotient >> 6);
			next_block = loader->next_block * 64;
		}
		occupieds |= UINT64_C(1) << (print.quotient & 63);
		slot = slot > print.quotient ? slot : print.quotient;
		if (WN__UNLIKELY(slot >= limit))
			return WN_ERR_FULL;
		/* No branch on "a new run?": it would be a coin toss. */
		runends |= (uint64_t)(print.quotient != before) * started << (last & 63);
		if (WN__UNLIKELY(slot >> 6 != last >> 6)) {
			words[(last >> 6) * table.block_words + WN__RUNENDS] |= runends;
			runends = 0;
		}
		bit = (slot & 63) * table.slot_bits;
		at = words + (slot >> 6) * table.block_words + table.meta_words + (bit >> 6);
		/* Nor on "two words?". A word is always behind: tables are padded. */
		at[0] |= content << (bit & 63);
		at[1] |= content >> 1 >> (63 - (bit & 63));
		before = print.quotient;
		started = 1;
		last = slot++;
	}
	words[(before >> 6) * table.block_words + WN__OCCUPIEDS] |= occupieds;
	words[(last >> 6) * table.block_words + WN__RUNENDS] |= runends;
	loader->slot = slot;
	loader->last_slot = last;
	loader->quotient = before;
	loader->fingerprints += count;
	return 0;
}

void wn__loader_end(struct wn__loader *loader)
{
	const struct wn__table *table = loader->table;

	if (loader->fingerprints > 0)
		set_bit(loader, WN__RUNENDS, loader->last_slot);
	fill_offsets(loader, table->blocks - 1);
}
