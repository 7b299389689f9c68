/* filter_sum.h - the filters of one table, added up to what can be shown. */
#ifndef WN_TOOLS_DUMP_FILTER_SUM_H
#define WN_TOOLS_DUMP_FILTER_SUM_H

#include <winnow/filter.h>

#include "tools/sst/problems.h"
#include "tools/sst/span.h"
#include "kinds/sscf/sscf_small.h"

enum filter_kind {
	FILTER_NONE,
	FILTER_WINNOW,
	FILTER_BLOOM,
	FILTER_RIBBON,
	FILTER_TRUE,   /* a Bloom filter of no probes: says "maybe" to everything */
	FILTER_OTHER   /* of a policy that is not known here */
};

/* Whose bytes the stock filters are made of. */
enum filter_family {
	FAMILY_ROCKSDB,
	FAMILY_LEVELDB,
	FAMILY_UNKNOWN
};

/* Clusters of 1, 2, up to 4, up to 8, ... slots. */
#define CLUSTER_CLASSES 64

struct filter_sum {
	enum filter_kind kind;
	uint64_t count;        /* filters that hold something */
	uint64_t empty;        /* filters of no bytes */
	uint64_t bytes;
	unsigned probes;       /* of a Bloom filter */

	/* winnow's alone: */
	char name[16];         /* "aqf" */
	unsigned version;
	bool tiny;             /* a block with a short header */
	bool small;            /* no block at all: the small forms for LevelDB (tiny.h) */
	unsigned char id[WN_BLOCK_ID_SIZE]; /* of the last one */
	uint32_t secret_id;
	uint64_t keys, slots, used_slots, extensions;
	unsigned remainder_bits;
	double expected_fpr;   /* the mean, by keys */
	bool has_clusters;
	uint64_t clusters, longest_cluster;
	uint64_t cluster_classes[CLUSTER_CLASSES];
	uint64_t refused;      /* filters that cannot be read */
	uint64_t without_secret;
};

/* A filter that can be asked; its bytes and its secret are borrowed. All zero: it cannot. */
struct open_filter {
	struct wn_filter *block;
	struct wn__small small;
	struct wn__sscf_frozen small_sscf; /* no hash functions: it is the other one */
	const struct wn_secret *small_secret; /* NULL: there is no small one */
};

/* Add a filter. If it is winnow's and every byte of it is right, *openp becomes a filter
 * to be asked; close it in any case. What is wrong with it goes to `problems`; its bytes
 * are at `offset` in the file. */
void filter_sum_add(struct filter_sum *sum, struct span bytes, uint64_t offset,
		    enum filter_family family, const struct wn_secret *secret,
		    struct problems *problems, struct open_filter *openp);

static inline bool open_filter_is_there(const struct open_filter *open)
{
	return open->block || open->small_secret;
}

bool open_filter_says_maybe(const struct open_filter *open, struct span key);
void open_filter_close(struct open_filter *open);

/* The bounds of a class of clusters. */
static inline uint64_t cluster_class_end(unsigned class)
{
	return UINT64_C(1) << class;
}

static inline uint64_t cluster_class_start(unsigned class)
{
	return class == 0 ? 1 : cluster_class_end(class - 1) + 1;
}

#endif /* WN_TOOLS_DUMP_FILTER_SUM_H */
