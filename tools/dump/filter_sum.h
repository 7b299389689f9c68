/* filter_sum.h - the filters of one table, added up to what can be shown. */
#ifndef WN_TOOLS_DUMP_FILTER_SUM_H
#define WN_TOOLS_DUMP_FILTER_SUM_H

#include <winnow/filter.h>

#include "tools/sst/problems.h"
#include "tools/sst/span.h"

enum filter_kind {
	FILTER_IS_NONE,
	FILTER_IS_WINNOW,
	FILTER_IS_BLOOM,
	FILTER_IS_RIBBON,
	FILTER_IS_TRUE,   /* a Bloom filter of no probes: says "maybe" to everything */
	FILTER_IS_OTHER   /* of a policy that is not known here */
};

/* Whose bytes the stock filters are made of. */
enum filter_origin {
	ORIGIN_ROCKSDB,
	ORIGIN_LEVELDB,
	ORIGIN_UNKNOWN
};

/* Clusters of 1, 2, up to 4, up to 8, ... slots. */
#define CLUSTER_CLASSES 64

/* One of a kind's own numbers, over all filters. */
struct fact_sum {
	const char *name;
	double least, most;
};

struct filter_sum {
	enum filter_kind kind;
	uint64_t count;        /* filters that hold something */
	uint64_t empty;        /* filters of no bytes */
	uint64_t bytes;
	unsigned probes;       /* of a Bloom filter */

	/* winnow's alone: */
	char name[16];         /* "aqf" */
	unsigned version;
	bool small;            /* no block at all: LevelDB's (kinds/small.h) */
	bool has_table_id;     /* one of the small ones has a header */
	unsigned char id[WN_BLOCK_ID_SIZE]; /* of the last one; of the table, if they are small */
	uint32_t secret_id;
	uint64_t keys;
	uint64_t described;    /* filters that the rest is about */
	/* Facts by these names (filter.h), added up; and those by other names. */
	uint64_t slots, used_slots, extensions;
	unsigned remainder_bits;
	unsigned fact_count;
	struct fact_sum facts[WN_FILTER_FACTS];
	double expected_fpr;   /* the mean, by keys */
	double small_weight;   /* what that is the mean over, of small filters */
	bool has_clusters;
	uint64_t clusters, longest_cluster;
	uint64_t cluster_classes[CLUSTER_CLASSES];
	uint64_t refused;      /* filters that cannot be read */
	uint64_t without_secret;
};

/* A filter that can be asked; its bytes and its secret are borrowed. All zero: it cannot. */
struct open_filter {
	struct wn_filter *block;
	struct span small;     /* without a table's header */
	const struct wn_secret *small_secret; /* NULL: there is no small one */
};

/* Add a filter. If it is winnow's and every byte of it is right, *openp becomes a filter
 * to be asked; close it in any case. What is wrong with it goes to `problems`; its bytes
 * are at `offset` in the file. */
void filter_sum_add(struct filter_sum *sum, struct span bytes, uint64_t offset,
		    enum filter_origin family, const struct wn_secret *secret,
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
