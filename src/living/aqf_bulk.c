/* aqf_bulk.c - whole living filters at once: bulk load, grow, shrink, merge; and the cursor.
 *
 * A minirun's id, quotient << remainder_bits | remainder, is the same number in a
 * filter of twice the slots and one remainder bit less: doubling moves exactly the
 * top bit of the remainder into the quotient. So growing is walking one filter and
 * loading another, ids unchanged, and a merge walks two. */
#include <winnow/error.h>

#include "aqf_internal.h"
#include "kinds/aqf/aqf_bulk.h"

/* ---- the cursor --------------------------------------------------------- */

void wn_aqf_cursor_init(struct wn_aqf_cursor *cursor, const struct wn_aqf *aqf)
{
	*cursor = (struct wn_aqf_cursor){.aqf = aqf, .minirun = WN__NO_MINIRUN};
}

bool wn_aqf_cursor_next(struct wn_aqf_cursor *cursor, struct wn_aqf_entry *entryp)
{
	const struct wn__table *table = &cursor->aqf->table;
	unsigned bits = table->remainder_bits;
	struct wn__scan scan = {
		.table = table,
		.quotient = cursor->quotient,
		.slot = cursor->slot,
		.live = true,
		.in_run = cursor->in_run,
	};
	struct wn__entry entry;
	wn__u128 fraction;

	if (!wn__scan_next(&scan, &entry))
		return false;
	cursor->quotient = scan.quotient;
	cursor->slot = scan.slot;
	cursor->in_run = scan.in_run;
	cursor->rank = entry.minirun == cursor->minirun ? cursor->rank + 1 : 0;
	cursor->minirun = entry.minirun;
	fraction = ((wn__u128)entry.hi << 64 | entry.lo) >> bits |
		   (wn__u128)(entry.minirun & wn__low_bits(bits)) << (128 - bits);
	*entryp = (struct wn_aqf_entry){
		.minirun = entry.minirun,
		.rank = cursor->rank,
		.extensions = entry.extensions,
		.count = entry.count,
		.tag = entry.tag,
		.fraction = {(uint64_t)(fraction >> 64), (uint64_t)fraction},
		.fraction_bits = bits + entry.extensions * table->extension_bits,
	};
	if (entryp->fraction_bits > 128)
		entryp->fraction_bits = 128;
	return true;
}

/* ---- loading ------------------------------------------------------------ */

/* Load into a living filter that is empty. */
static void begin_load(struct wn__loader *loader, struct wn_aqf *aqf)
{
	wn__loader_init(loader, &aqf->table, aqf->words, aqf->offsets);
}

static void end_load(struct wn__loader *loader, struct wn_aqf *aqf)
{
	wn__loader_end(loader);
	aqf->first_fingerprints = loader->fingerprints;
	aqf->extensions = loader->extensions;
	aqf->kept = loader->fingerprints + loader->counters;
}

/* ---- whole filters ------------------------------------------------------ */

static int load_hashes(struct wn_aqf *aqf, const struct wn_hash *hashes, size_t count)
{
	struct wn__loader loader;
	int err;

	for (size_t i = 1; i < count; i++)
		if (wn_hash_compare(hashes[i - 1], hashes[i]) > 0)
			return WN_ERR_INVALID;
	begin_load(&loader, aqf);
	err = wn__loader_add_hashes(&loader, hashes, count);
	if (!err)
		end_load(&loader, aqf);
	return err;
}

int wn_aqf_bulk_load(const struct wn_aqf_options *options, const struct wn_hash *hashes,
		     size_t count, struct wn_aqf **aqfp)
{
	struct wn_aqf_options full = *options;
	struct wn_aqf *aqf;
	int err;

	*aqfp = NULL;
	if (full.capacity == 0)
		full.capacity = count;
	err = wn_aqf_create(&full, &aqf);
	if (err)
		return err;
	err = count > aqf->insert_limit ? WN_ERR_FULL : load_hashes(aqf, hashes, count);
	if (err) {
		wn_aqf_destroy(aqf);
		return err;
	}
	*aqfp = aqf;
	return 0;
}

/* The next entry of two scans in order, the first one's before the second's
 * within a minirun. */
struct pair {
	struct wn__scan scan[2];
	struct wn__entry entry[2];
	bool left[2];
};

static bool next_of_pair(struct pair *pair, struct wn__entry *entryp)
{
	int which;

	if (!pair->left[0] && !pair->left[1])
		return false;
	which = !pair->left[0] ||
		(pair->left[1] && pair->entry[1].minirun < pair->entry[0].minirun);
	*entryp = pair->entry[which];
	pair->left[which] = wn__scan_next(&pair->scan[which], &pair->entry[which]);
	return true;
}

/* Load `into` with what is in a, and in b unless that is NULL. */
static int load_filters(struct wn_aqf *into, const struct wn_aqf *a, const struct wn_aqf *b)
{
	struct wn__loader loader;
	struct wn__entry entry;
	struct pair pair = {0};

	wn__scan_init(&pair.scan[0], &a->table, true);
	pair.left[0] = wn__scan_next(&pair.scan[0], &pair.entry[0]);
	if (b) {
		wn__scan_init(&pair.scan[1], &b->table, true);
		pair.left[1] = wn__scan_next(&pair.scan[1], &pair.entry[1]);
	}
	begin_load(&loader, into);
	while (next_of_pair(&pair, &entry)) {
		int err = wn__loader_add(&loader, &entry);

		if (err)
			return err;
	}
	end_load(&loader, into);
	return 0;
}

int wn__aqf_load_scan(struct wn_aqf *aqf, struct wn__scan *scan)
{
	struct wn__loader loader;
	struct wn__entry entry;

	begin_load(&loader, aqf);
	while (wn__scan_next(scan, &entry)) {
		int err = wn__loader_add(&loader, &entry);

		if (err)
			return err;
	}
	end_load(&loader, aqf);
	return scan->damaged ? WN_ERR_CORRUPT : 0;
}

static uint64_t extension_slots(const struct wn_aqf *aqf)
{
	struct wn_aqf_info info;

	wn_aqf_describe(aqf, &info);
	return info.extensions;
}

/* A filter of another shape with the fingerprints of a, and of b unless NULL.
 * Extensions keep their size; where there are none it is free to follow the
 * remainder's. */
static int reshape(const struct wn_aqf *a, const struct wn_aqf *b, uint64_t slots,
		   unsigned remainder_bits, struct wn_aqf **newp)
{
	unsigned extension_bits = remainder_bits;
	struct wn_aqf *aqf;
	int err;

	if (extension_slots(a) > 0)
		extension_bits = a->table.extension_bits;
	else if (b && extension_slots(b) > 0)
		extension_bits = b->table.extension_bits;
	err = wn__aqf_create_shape(slots, remainder_bits, extension_bits, a->table.tag_bits,
				   a->load, a->adapt_load, &aqf);
	if (err)
		return err;
	err = load_filters(aqf, a, b);
	if (err) {
		wn_aqf_destroy(aqf);
		return err;
	}
	*newp = aqf;
	return 0;
}

int wn_aqf_grow(const struct wn_aqf *aqf, struct wn_aqf **newp)
{
	*newp = NULL;
	if (aqf->table.remainder_bits <= WN_AQF_MIN_REMAINDER_BITS)
		return WN_ERR_INVALID;
	return reshape(aqf, NULL, aqf->table.slots * 2, aqf->table.remainder_bits - 1u, newp);
}

int wn_aqf_shrink(const struct wn_aqf *aqf, struct wn_aqf **newp)
{
	uint64_t slots = aqf->table.slots / 2;

	*newp = NULL;
	if (aqf->table.slots % 2 || aqf->table.remainder_bits >= WN_AQF_MAX_REMAINDER_BITS)
		return WN_ERR_INVALID;
	if ((double)wn__aqf_used(aqf) > aqf->adapt_load * (double)slots)
		return WN_ERR_FULL;
	return reshape(aqf, NULL, slots, aqf->table.remainder_bits + 1u, newp);
}

static bool can_merge(const struct wn_aqf *a, const struct wn_aqf *b)
{
	if (a->table.slots != b->table.slots ||
	    a->table.remainder_bits != b->table.remainder_bits ||
	    a->table.tag_bits != b->table.tag_bits)
		return false;
	return a->table.extension_bits == b->table.extension_bits || extension_slots(a) == 0 ||
	       extension_slots(b) == 0;
}

int wn_aqf_merge(const struct wn_aqf *a, const struct wn_aqf *b, struct wn_aqf **newp)
{
	double used = (double)wn__aqf_used(a) + (double)wn__aqf_used(b);
	uint64_t slots = a->table.slots;
	unsigned bits = a->table.remainder_bits;

	*newp = NULL;
	if (!can_merge(a, b))
		return WN_ERR_MISMATCH;
	for (;; slots *= 2, bits--) {
		int err = WN_ERR_FULL;

		if (used <= a->load * (double)slots + 1e-6)
			err = reshape(a, b, slots, bits, newp);
		/* Crafted hashes can crowd the table's end though there is room. */
		if (err != WN_ERR_FULL || bits <= WN_AQF_MIN_REMAINDER_BITS)
			return err;
	}
}
