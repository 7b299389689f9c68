/* filter_sum.c - one filter's bytes: whose they are, and what they hold. */
#include <math.h>
#include <stdio.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "kinds/clusters.h"
#include "kinds/kind.h"
#include "kinds/small.h"
#include "filter_sum.h"

/* RocksDB's filters end in five bytes: a positive number of probes (the first Bloom
 * filter) or a negative number for what came after it, and what belongs to that. */
static enum filter_kind rocksdb_kind(struct span bytes, unsigned *probesp)
{
	const unsigned char *meta;

	if (bytes.size < 5)
		return FILTER_IS_OTHER;
	meta = bytes.at + bytes.size - 5;
	switch (meta[0]) {
	case 0:
		return FILTER_IS_TRUE;
	case 0xff:
		/* Which of the newer Bloom filters; there is one. */
		if (meta[1] != 0)
			return FILTER_IS_OTHER;
		*probesp = meta[2] & 31;
		return FILTER_IS_BLOOM;
	case 0xfe:
		return FILTER_IS_RIBBON;
	default:
		*probesp = meta[0];
		return meta[0] < 128 ? FILTER_IS_BLOOM : FILTER_IS_OTHER;
	}
}

static enum filter_kind leveldb_kind(struct span bytes, unsigned *probesp)
{
	*probesp = bytes.at[bytes.size - 1];
	if (*probesp == 0)
		return FILTER_IS_TRUE;
	/* Kept free for other filters, and so says LevelDB's reader "maybe". */
	return *probesp <= 30 ? FILTER_IS_BLOOM : FILTER_IS_OTHER;
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

static struct fact_sum *find_fact(struct filter_sum *sum, const char *name)
{
	struct fact_sum *fact = sum->facts;

	for (; fact < sum->facts + sum->fact_count; fact++)
		if (strcmp(fact->name, name) == 0)
			return fact;
	if (sum->fact_count == WN_FILTER_FACTS)
		return NULL;
	sum->fact_count++;
	*fact = (struct fact_sum){name, INFINITY, -INFINITY};
	return fact;
}

/* Some are shown in words of their own; the others by name, whatever they mean. */
static void add_facts(struct filter_sum *sum, const struct wn_filter_fact *facts, unsigned count)
{
	sum->described++;
	for (unsigned i = 0; i < count; i++) {
		const char *name = facts[i].name;
		double value = facts[i].value;
		struct fact_sum *fact;

		if (strcmp(name, "slots") == 0)
			sum->slots += (uint64_t)value;
		else if (strcmp(name, "used_slots") == 0)
			sum->used_slots += (uint64_t)value;
		else if (strcmp(name, "extensions") == 0)
			sum->extensions += (uint64_t)value;
		else if (strcmp(name, "remainder_bits") == 0)
			sum->remainder_bits = (unsigned)value;
		else if (strcmp(name, "load") != 0 && (fact = find_fact(sum, name))) {
			fact->least = fmin(fact->least, value);
			fact->most = fmax(fact->most, value);
		}
	}
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
	add_facts(sum, info.facts, info.fact_count);
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
		err = wn_filter_open(bytes.at, bytes.size, WN_CHECK_ALL, secret, &openp->block,
				     &reason);
	}
	if (err) {
		sum->refused++;
		problems_add(problems, offset, "winnow filter of %zu bytes: %s", bytes.size,
			     reason ? reason : wn_strerror(err));
		return;
	}
	add_opened(sum, openp->block);
}

/* ---- small filters ------------------------------------------------------ */

/* Whatever its secret and kind: LevelDB's own filters end in a byte of up to 30. */
static bool is_small(struct span bytes, enum filter_origin family)
{
	return family == ORIGIN_LEVELDB && bytes.size >= WN__SMALL_LEAST_SIZE &&
	       bytes.at[bytes.size - 1] >= WN__SMALL_LAST;
}

static bool refuse_small(struct filter_sum *sum, struct span bytes, uint64_t offset,
			 struct problems *problems, const char *reason)
{
	sum->refused++;
	problems_add(problems, offset, "small winnow filter of %zu bytes: %s", bytes.size, reason);
	return false;
}

/* Its first filter makes the table known. */
static void take_header(struct filter_sum *sum, struct span *bytesp, uint32_t secret_id)
{
	struct wn__small_header header;

	if (!wn__small_get_header(bytesp->at, bytesp->size, secret_id, &header))
		return;
	sum->has_table_id = true;
	memcpy(sum->id, header.id, sizeof(sum->id));
	bytesp->at += WN__SMALL_HEADER;
	bytesp->size -= WN__SMALL_HEADER;
}

static const struct wn__small_form *form_of(const unsigned char *bytes, const char **namep)
{
	const struct wn__kind *kind = wn__kind_by_id(wn__small_kind(bytes));

	*namep = kind ? kind->name : NULL;
	return kind ? kind->small : NULL;
}

/* A mean, by keys; by bytes, where filters do not know how many they have. */
static void add_small_rate(struct filter_sum *sum, const struct wn__small_info *info, size_t size)
{
	double weight = info->counts_keys ? (double)info->key_count : (double)size;

	sum->small_weight += weight;
	sum->expected_fpr += (info->expected_fpr - sum->expected_fpr) * weight / sum->small_weight;
}

/* Make `bytes` the filter itself, behind a header. False: it cannot be read. */
static bool describe_small(struct filter_sum *sum, struct span *bytesp, uint64_t offset,
			   struct problems *problems)
{
	const struct wn__small_form *form;
	struct span whole = *bytesp;
	struct wn__small_info info;
	const char *name;
	unsigned kind;

	/* Under the secret that it names itself: what is asked is whether it was cut off. */
	sum->secret_id = wn__small_named_secret(whole.at, whole.size);
	take_header(sum, bytesp, sum->secret_id);
	form = form_of(bytesp->at, &name);
	if (name || !*sum->name)
		snprintf(sum->name, sizeof(sum->name), "%s", name ? name : "unknown");
	if (!form && wn__small_kind(bytesp->at))
		return refuse_small(sum, whole, offset, problems,
				    "a kind this library does not know");
	if (!form || wn__small_claims(bytesp->at, bytesp->size, sum->secret_id, &kind) !=
			     WN__SMALL_WHOLE)
		return refuse_small(sum, whole, offset, problems, "it was of another size");
	if (!form->describe(bytesp->at, bytesp->size, &info))
		return refuse_small(sum, whole, offset, problems,
				    "its bits do not fit together");
	sum->keys += info.key_count;
	add_small_rate(sum, &info, bytesp->size);
	add_facts(sum, info.facts, info.fact_count);
	return true;
}

static void add_small(struct filter_sum *sum, struct span bytes, uint64_t offset,
		      const struct wn_secret *secret, struct problems *problems,
		      struct open_filter *openp)
{
	sum->small = true;
	if (!describe_small(sum, &bytes, offset, problems))
		return;
	if (!secret || wn__small_secret_id(secret) != sum->secret_id) {
		sum->without_secret++;
		return;
	}
	openp->small = bytes;
	openp->small_secret = secret;
}

/* ---- all ---------------------------------------------------------------- */

bool open_filter_says_maybe(const struct open_filter *open, struct span key)
{
	struct wn_hash hash;

	if (open->block)
		return wn_filter_query(open->block, key.at, key.size, NULL);
	hash = wn_hash_key(open->small_secret, key.at, key.size);
	return wn__small_queries()[wn__small_kind(open->small.at)](open->small.at,
								    open->small.size, hash);
}

void open_filter_close(struct open_filter *open)
{
	wn_filter_close(open->block);
	*open = (struct open_filter){ .block = NULL };
}

void filter_sum_add(struct filter_sum *sum, struct span bytes, uint64_t offset,
		    enum filter_origin family, const struct wn_secret *secret,
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
		sum->kind = FILTER_IS_WINNOW;
		add_winnow(sum, bytes, offset, secret, problems, openp);
	} else if (is_small(bytes, family)) {
		sum->kind = FILTER_IS_WINNOW;
		add_small(sum, bytes, offset, secret, problems, openp);
	} else if (sum->kind == FILTER_IS_WINNOW) {
		sum->refused++;
		problems_add(problems, offset, "a filter of %zu bytes that is not winnow's among "
			     "those that are", bytes.size);
	} else if (family == ORIGIN_ROCKSDB) {
		enum filter_kind kind = rocksdb_kind(bytes, &sum->probes);

		/* Where a Ribbon filter would be larger, its policy makes a Bloom filter. */
		if (sum->kind != FILTER_IS_RIBBON)
			sum->kind = kind;
	} else if (family == ORIGIN_LEVELDB) {
		sum->kind = leveldb_kind(bytes, &sum->probes);
	} else {
		sum->kind = FILTER_IS_OTHER;
	}
}
