/* filter_sum.c - one filter's bytes: whose they are, and what they hold. */
#include <stdio.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "kinds/clusters.h"
#include "filter_sum.h"

/* RocksDB's filters end in five bytes: a positive number of probes (the first Bloom
 * filter) or a negative number for what came after it, and what belongs to that. */
static enum filter_kind rocksdb_kind(struct span bytes, unsigned *probesp)
{
	const unsigned char *meta;

	if (bytes.size < 5)
		return FILTER_OTHER;
	meta = bytes.at + bytes.size - 5;
	switch (meta[0]) {
	case 0:
		return FILTER_TRUE;
	case 0xff:
		/* Which of the newer Bloom filters; there is one. */
		if (meta[1] != 0)
			return FILTER_OTHER;
		*probesp = meta[2] & 31;
		return FILTER_BLOOM;
	case 0xfe:
		return FILTER_RIBBON;
	default:
		*probesp = meta[0];
		return meta[0] < 128 ? FILTER_BLOOM : FILTER_OTHER;
	}
}

static enum filter_kind leveldb_kind(struct span bytes, unsigned *probesp)
{
	*probesp = bytes.at[bytes.size - 1];
	if (*probesp == 0)
		return FILTER_TRUE;
	/* Kept free for other filters, and so says LevelDB's reader "maybe". */
	return *probesp <= 30 ? FILTER_BLOOM : FILTER_OTHER;
}

static void count_cluster(void *context, uint64_t length)
{
	struct filter_sum *sum = context;
	unsigned class = 0;

	while (class + 1 < CLUSTER_CLASSES && cluster_class_end(class) < length)
		class++;
	sum->cluster_classes[class]++;
	sum->clusters++;
	if (length > sum->longest_cluster)
		sum->longest_cluster = length;
}

static void add_opened(struct filter_sum *sum, const struct wn_filter *filter)
{
	struct wn_filter_info info;
	uint64_t keys;

	wn_filter_describe(filter, &info);
	snprintf(sum->name, sizeof(sum->name), "%s", info.kind);
	memcpy(sum->id, info.id, sizeof(sum->id));
	sum->secret_id = wn_secret_id(wn_filter_secret(filter));
	keys = sum->keys + info.key_count;
	if (keys > 0)
		sum->expected_fpr = (sum->expected_fpr * (double)sum->keys +
				     info.expected_fpr * (double)info.key_count) / (double)keys;
	sum->keys = keys;
	sum->slots += info.slots;
	sum->used_slots += info.used_slots;
	sum->extensions += info.extensions;
	sum->remainder_bits = info.remainder_bits;
	if (wn__filter_clusters(filter, count_cluster, sum) == 0)
		sum->has_clusters = true;
}

static void add_winnow(struct filter_sum *sum, struct span bytes, uint64_t offset,
		       const struct wn_secret *secret, struct problems *problems,
		       struct open_filter *openp)
{
	struct wn_block_info info;
	const char *reason = NULL;
	int err = wn_block_read(bytes.at, bytes.size, WN_CHECK_ALL, &info, &reason);

	if (!err) {
		sum->version = info.version;
		sum->tiny = info.tiny;
		err = wn_filter_open(bytes.at, bytes.size, WN_CHECK_ALL, secret, &openp->block,
				     &reason);
	}
	if (err == WN_ERR_MISMATCH) {
		/* A short header has no secret in it; that is no damage. */
		sum->without_secret++;
		sum->secret_id = info.secret_id;
		sum->keys += info.key_count;
		return;
	}
	if (err) {
		sum->refused++;
		problems_add(problems, offset, "winnow filter of %zu bytes: %s", bytes.size,
			     reason ? reason : wn_strerror(err));
		return;
	}
	add_opened(sum, openp->block);
}

/* ---- the small form ----------------------------------------------------- */

/* Whatever its secret: LevelDB's own filters end in a byte of up to 30. */
static bool is_small(struct span bytes, enum filter_family family)
{
	return family == FAMILY_LEVELDB && bytes.size >= WN__SMALL_LEAST_SIZE &&
	       bytes.at[bytes.size - 1] >= WN__SMALL_LAST &&
	       !(get_le32(bytes.at) & WN__SMALL_OTHER);
}

static void add_small(struct filter_sum *sum, struct span bytes, uint64_t offset,
		      const struct wn_secret *secret, struct problems *problems,
		      struct open_filter *openp)
{
	uint32_t id = get_le32(bytes.at) & WN__SMALL_SECRET_MASK, keys;
	struct wn__small small;

	snprintf(sum->name, sizeof(sum->name), "aqf");
	sum->small = true;
	sum->secret_id = id;
	if (!wn__small_open(bytes.at, bytes.size, &small) || !wn__small_check(&small, &keys)) {
		sum->refused++;
		problems_add(problems, offset, "small winnow filter of %zu bytes: its bits do not "
			     "fit together", bytes.size);
		return;
	}
	if (keys > 0)
		sum->expected_fpr = (sum->expected_fpr * (double)sum->keys +
				     (double)keys / small.buckets /
					     (double)(1u << small.remainder_bits) * keys) /
				    (double)(sum->keys + keys);
	sum->keys += keys;
	sum->slots += small.buckets;
	sum->used_slots += keys;
	sum->remainder_bits = small.remainder_bits;
	if (!secret || (wn__small_secret_id(secret) & WN__SMALL_SECRET_MASK) != id) {
		sum->without_secret++;
		return;
	}
	openp->small = small;
	openp->small_secret = secret;
}

static bool is_small_sscf(struct span bytes, enum filter_family family)
{
	const uint32_t marks = WN__SMALL_FROZEN | WN__SMALL_OTHER;

	return family == FAMILY_LEVELDB && bytes.size >= WN__SMALL_LEAST_SIZE &&
	       bytes.at[bytes.size - 1] >= WN__SMALL_LAST && (get_le32(bytes.at) & marks) == marks;
}

static uint64_t count_set_bits(const unsigned char *bytes, uint64_t size)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < size; i++)
		count += wn__popcount(bytes[i]);
	return count;
}

/* How many keys there are is written nowhere. */
static void add_small_sscf(struct filter_sum *sum, struct span bytes, uint64_t offset,
			   const struct wn_secret *secret, struct problems *problems,
			   struct open_filter *openp)
{
	uint32_t id = wn__small_sscf_secret_id(bytes.at, bytes.size);
	struct wn__sscf_frozen small;
	uint64_t cells, used;
	double rate = 1;

	snprintf(sum->name, sizeof(sum->name), "sscf");
	sum->small = true;
	sum->secret_id = id;
	if (!wn__small_sscf_open(bytes.at, bytes.size, id, &small)) {
		sum->refused++;
		problems_add(problems, offset, "small winnow filter of %zu bytes: it was of "
			     "another size", bytes.size);
		return;
	}
	cells = (uint64_t)small.params.blocks * small.params.block_cells;
	used = count_set_bits(small.cells, wn__sscf_cells_size(&small.params));
	for (unsigned i = 0; i < small.params.hashes; i++)
		rate *= (double)used / (double)cells;
	sum->expected_fpr = (sum->expected_fpr * (double)sum->slots + rate * (double)cells) /
			    (double)(sum->slots + cells);
	sum->slots += cells;
	sum->used_slots += used;
	for (uint32_t cell = 0; cell < small.params.modulator_cells; cell++)
		sum->extensions += wn__sscf_modulator_value(&small, cell) != 0;
	if (!secret || (wn__small_secret_id(secret) & WN__SMALL_SECRET_MASK) != id) {
		sum->without_secret++;
		return;
	}
	openp->small_sscf = small;
	openp->small_secret = secret;
}

/* ---- all ---------------------------------------------------------------- */

bool open_filter_says_maybe(const struct open_filter *open, struct span key)
{
	struct wn_hash hash;
	uint32_t first;

	if (open->block)
		return wn_filter_query(open->block, key.at, key.size, NULL);
	hash = wn_hash(open->small_secret, key.at, key.size);
	if (open->small_sscf.params.hashes)
		return wn__small_sscf_says_maybe(&open->small_sscf, hash);
	return wn__small_matches(&open->small, hash, &first, 1) != 0;
}

void open_filter_close(struct open_filter *open)
{
	wn_filter_close(open->block);
	*open = (struct open_filter){ .block = NULL };
}

void filter_sum_add(struct filter_sum *sum, struct span bytes, uint64_t offset,
		    enum filter_family family, const struct wn_secret *secret,
		    struct problems *problems, struct open_filter *openp)
{
	*openp = (struct open_filter){ .block = NULL };
	if (bytes.size == 0) {
		sum->empty++;
		return;
	}
	sum->count++;
	sum->bytes += bytes.size;
	if (wn_block_is_ours(bytes.at, bytes.size)) {
		sum->kind = FILTER_WINNOW;
		add_winnow(sum, bytes, offset, secret, problems, openp);
	} else if (is_small(bytes, family)) {
		sum->kind = FILTER_WINNOW;
		add_small(sum, bytes, offset, secret, problems, openp);
	} else if (is_small_sscf(bytes, family)) {
		sum->kind = FILTER_WINNOW;
		add_small_sscf(sum, bytes, offset, secret, problems, openp);
	} else if (sum->kind == FILTER_WINNOW) {
		sum->refused++;
		problems_add(problems, offset, "a filter of %zu bytes that is not winnow's among "
			     "those that are", bytes.size);
	} else if (family == FAMILY_ROCKSDB) {
		enum filter_kind kind = rocksdb_kind(bytes, &sum->probes);

		/* Where a Ribbon filter would be larger, its policy makes a Bloom filter. */
		if (sum->kind != FILTER_RIBBON)
			sum->kind = kind;
	} else if (family == FAMILY_LEVELDB) {
		sum->kind = leveldb_kind(bytes, &sum->probes);
	} else {
		sum->kind = FILTER_OTHER;
	}
}
