/* filter_sum.c - one filter's bytes: whose they are, and what they hold. */
#include <stdio.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "clusters.h"
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
		       struct wn_filter **filterp)
{
	struct wn_block_info info;
	const char *reason = NULL;
	int err = wn_block_read(bytes.at, bytes.size, WN_CHECK_ALL, &info, &reason);

	if (!err) {
		sum->version = info.version;
		sum->tiny = info.tiny;
		err = wn_filter_open(bytes.at, bytes.size, WN_CHECK_ALL, secret, filterp, &reason);
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
	add_opened(sum, *filterp);
}

void filter_sum_add(struct filter_sum *sum, struct span bytes, uint64_t offset,
		    enum filter_family family, const struct wn_secret *secret,
		    struct problems *problems, struct wn_filter **filterp)
{
	*filterp = NULL;
	if (bytes.size == 0) {
		sum->empty++;
		return;
	}
	sum->count++;
	sum->bytes += bytes.size;
	if (wn_block_is_ours(bytes.at, bytes.size)) {
		sum->kind = FILTER_WINNOW;
		add_winnow(sum, bytes, offset, secret, problems, filterp);
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
