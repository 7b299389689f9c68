/* kind.h - what a filter kind is: one table of functions.
 *
 * A kind turns sorted hashes into a payload, and answers queries over a payload.
 * Header, checksums, secret, options syntax, sorting and de-duplication are not
 * its business: src/filter.c and src/block.c do these once for all kinds. */
#ifndef WN_KINDS_KIND_H
#define WN_KINDS_KIND_H

#include <winnow/block.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

#include "clusters.h"

struct wn__shape; /* learned.h */

/* The values an options string can set. Every kind names its own in a table;
 * a kind reads its values from wn__config.values[] by index into that table. */
enum wn__option_type { WN__OPTION_INTEGER, WN__OPTION_REAL };

struct wn__option {
	const char *name;
	enum wn__option_type type;
	double min, max;
	double fallback; /* value when the option is not given */
};

#define WN__MAX_OPTIONS 16

struct wn_config {
	const struct wn__kind *kind;
	double values[WN__MAX_OPTIONS];
	bool given[WN__MAX_OPTIONS];
};

/* What a kind's build() gets: everything sorted, distinct, under one secret. */
struct wn__build_input {
	const struct wn_config *config;
	const struct wn_hash *keys; /* ascending, no two equal */
	size_t key_count;
	const struct wn_hash *negatives; /* ascending, no two equal, none a key */
	size_t negative_count;
	/* What a "maybe" to each of them costs, above 0: the sum of what was given for
	 * this hash. NULL for kinds that do not want them: they deny each of them anyway. */
	const double *costs;
	bool tiny; /* short header, see block.h */
};

/* A kind asks for its payload's memory with wn__block_begin() (block_build.h). */
struct wn__block_writer;

typedef bool wn__query_fn(const void *state, struct wn_hash hash, struct wn_match *matchp);
typedef bool wn__query_from_fn(const void *state, struct wn_hash hash, uint32_t rank,
			       struct wn_match *matchp);
typedef void wn__query_batch_fn(const void *state, const struct wn_hash *hashes, size_t count,
				bool *answersp);

struct wn_filter {
	/* The kind's, unless open() has put one in place that fits block or CPU better. */
	wn__query_fn *query;
	void *state; /* the kind's own, from open() */
	wn__query_batch_fn *query_batch;
	const struct wn__kind *kind;
	const struct wn_secret *secret;
	struct wn_secret *owned_secret; /* NULL when `secret` is the host's */
	struct wn_block_info info;
	size_t block_size;
};

struct wn__kind {
	unsigned id;
	const char *name;
	const struct wn__option *options;
	size_t option_count;

	/* Its filters learn after they were built, by lessons beside the block (learned.h). */
	bool learns;

	/* build() heeds what each negative costs. New filters are then also told of missing
	 * keys that are asked for often, though no filter was wrong about them. */
	bool wants_costs;

	/* Refuse combinations of options that make no sense; may be NULL. Fills
	 * `message` with a sentence. */
	int (*check_config)(const struct wn_config *config, char *message, size_t size);

	/* Begin the block, fill its payload and the WN_BLOCK_PARAMS_SIZE bytes at
	 * `params` (zeroed). The caller ends the block. */
	int (*build)(const struct wn__build_input *input, struct wn__block_writer *writer,
		     unsigned char *params);

	/* Open over filter->info. check as in wn_filter_open(). Sets filter->state. */
	int (*open)(struct wn_filter *filter, enum wn_check check, const char **reasonp);
	void (*close)(struct wn_filter *filter);

	wn__query_fn *query;
	wn__query_batch_fn *query_batch;

	/* Kinds with fingerprints: how a block takes hashes apart, and the first fingerprint
	 * that matches from `rank` on. Both NULL for kinds without: the matches of their
	 * query are never known, and their lessons go by the plain shape (runs.h). */
	void (*shape)(const struct wn_block_info *info, struct wn__shape *shapep);
	wn__query_from_fn *query_from;

	/* Extend what matched, with bits of `stored`. A block's bytes never change:
	 * kinds whose learned state lives beside the block return WN_ERR_READONLY. */
	int (*adapt)(struct wn_filter *filter, struct wn_hash stored, struct wn_hash query,
		     const struct wn_match *match);

	/* Fill in what the generic part does not know: slots, extensions, rates. */
	void (*describe)(const struct wn_filter *filter, struct wn_filter_info *infop);

	/* As wn__filter_clusters() (clusters.h); NULL for a kind that has none. */
	int (*clusters)(const struct wn_filter *filter, wn__cluster_fn *visit, void *context);
};

/* All kinds, NULL-terminated: a new kind adds its line in src/filter.c. */
extern const struct wn__kind *const wn__kinds[];
extern const struct wn__kind wn__kind_aqf;
extern const struct wn__kind wn__kind_sscf;

const struct wn__kind *wn__kind_by_id(unsigned id); /* NULL if there is none */

/* The number of the kind that the options are for. For adapters. */
unsigned wn__config_kind(const struct wn_config *config);

/* Does this kind want costs? */
bool wn__config_wants_costs(const struct wn_config *config);

/* The kind's defaults, nothing given. */
void wn__config_init(struct wn_config *config, const struct wn__kind *kind);

#endif /* WN_KINDS_KIND_H */
