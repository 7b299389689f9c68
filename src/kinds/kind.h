/* kind.h - what a filter kind is: one table of functions.
 *
 * A kind turns sorted hashes into a payload, and answers queries over a payload.
 * Header, checksums, secret, options syntax, sorting and de-duplication are not
 * its business: builder.c, filter.c and block.c do these once for all kinds. */
#ifndef WN_KINDS_KIND_H
#define WN_KINDS_KIND_H

#include <winnow/block.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

#include "clusters.h"
#include "shape.h"

struct wn__hash_words;
struct wn__small_form;

/* The values an options string can set. Every kind names its own in a table;
 * a kind reads its values from wn__config.values[] by index into that table. */
enum wn__option_type { WN__OPTION_INTEGER, WN__OPTION_REAL };

struct wn__option {
	const char *name;
	enum wn__option_type type;
	double min, max;
	double fallback; /* value when the option is not given */
	bool sizes;      /* it sets how large a filter is */
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
	const struct wn_hash *keys; /* ascending, no two equal; NULL where upper_halves() is true */
	const uint64_t *uppers;     /* there their upper halves, the same; NULL elsewhere */
	size_t key_count;
	const struct wn_hash *negatives; /* ascending, no two equal, none a key */
	size_t negative_count;
	/* What a "maybe" to each of them costs, above 0: the sum of what was given for
	 * this hash. NULL for kinds that do not want them: they deny each of them anyway. */
	const double *costs;
};

/* A kind asks for its payload's memory with wn__block_begin() (block_build.h). */
struct wn__block_writer;

typedef bool wn__query_fn(const void *state, struct wn_hash hash, struct wn_match *matchp);
typedef bool wn__query_from_fn(const void *state, struct wn_hash hash, uint32_t rank,
			       struct wn_match *matchp);
typedef void wn__query_batch_fn(const void *state, const struct wn_hash *hashes, size_t count,
				bool *answersp);

/* The shortest way from a key of 9 to 16 bytes to a "no". The key is hashed where it is asked for,
 * compiled for the CPU as the query is, and only as far as the query needs: the upper half of the
 * hash mostly decides. Nothing comes back but the answer: where the filter says "maybe", the rest
 * is the last thing it does, a call of asker->maybe() with the whole hash. So nobody has to keep
 * anything for later when he asks. */
struct wn__asker {
	const void *state; /* the filter's */
	const struct wn_secret *secret; /* the filter's */
	/* NULL: "maybe" is the answer. */
	bool (*maybe)(const struct wn__asker *asker, struct wn_hash hash, struct wn_match *match);
};

typedef bool wn__ask_short_fn(const struct wn__asker *asker, const void *key, size_t size);

/* The same for many keys of any size: hashing them and fetching memory for them go on side by
 * side. */
typedef void wn__ask_batch_fn(const struct wn__asker *asker, const struct wn_key *keys,
			      size_t count, bool *answersp);

struct wn_filter {
	/* Who asks when wn_filter_query() is called. */
	struct wn__asker asker;
	/* From open(), where a kind has it; otherwise NULL. */
	wn__ask_short_fn *ask_short;
	/* The kind's, unless open() has put one in place that fits block or CPU better. */
	wn__query_fn *query;
	void *state; /* the kind's own, from open() */
	wn__query_batch_fn *query_batch;
	wn__query_from_fn *query_from; /* NULL: a kind without fingerprints */
	wn__ask_batch_fn *ask_batch;   /* from open(); NULL as for ask_short */
	const struct wn__kind *kind;
	const struct wn_secret *secret;
	struct wn_secret *owned_secret; /* NULL when `secret` is the host's */
	struct wn_block_info info;
	size_t block_size;
};

/* How filters learn after they were built. Nothing is built again at run time: a block's bytes
 * never change, and what is learned lies beside it. */
enum wn__learning {
	WN__LEARNS_NOT,
	/* By lessons (learn/lessons.h): kinds with fingerprints (shape() and query_from()) by
	 * fingerprint, others in the plain shape by minirun. */
	WN__LEARNS_BY_LESSON
};

struct wn__kind {
	unsigned id;      /* as it stands in blocks: 1 to 255, or 15 with a small form */
	const char *name; /* as it stands in options strings, without a colon */
	const struct wn__option *options;
	size_t option_count;

	enum wn__learning learns;

	/* Do blocks of these options know the upper 64 bits of hashes and no others? Builders
	 * then keep 8 bytes a key instead of 16, and take half the time. Keys with equal upper
	 * halves are one key. NULL: none do. */
	bool (*upper_halves)(const struct wn_config *config);

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
	 * query are never known, and their lessons go by the plain shape (shape.h). */
	void (*shape)(const struct wn_block_info *info, struct wn__shape *shapep);
	wn__query_from_fn *query_from;

	/* Fill in what the generic part does not know: the expected rate, and facts. */
	void (*describe)(const struct wn_filter *filter, struct wn_filter_info *infop);

	/* As wn__filter_clusters() (clusters.h); NULL for a kind that has none. */
	int (*clusters)(const struct wn_filter *filter, wn__cluster_fn *visit, void *context);

	/* Filters of a few dozen keys, without a block (small.h); NULL: no small form. */
	const struct wn__small_form *small;
};

/* Ask a filter many keys, whatever its kind. `asker` is the filter's own, or a reader's of the same
 * state. */
void wn__filter_ask_batch(const struct wn_filter *filter, const struct wn__asker *asker,
			  const struct wn_key *keys, size_t count, bool *answersp);

/* A new kind adds its line in kinds.c. */
extern const struct wn__kind wn__kind_aqf;
extern const struct wn__kind wn__kind_sscf;

/* All kinds by number, from 0 on; NULL: there are no more. The first is the default. */
const struct wn__kind *wn__kind_at(size_t index);
const struct wn__kind *wn__kind_by_id(unsigned id); /* NULL if there is none */

/* Add a kind, which is borrowed for as long as the process lives. For tests and for kinds outside
 * of this library. Not thread-safe: before anything else of the library is used. WN_ERR_INVALID:
 * a function is missing, or id or name are taken or not allowed; ENOSPC: there are too many. */
int wn__kind_register(const struct wn__kind *kind);

/* Does this kind want costs? */
bool wn__config_wants_costs(const struct wn_config *config);

/* Add a fact to an array of WN_FILTER_FACTS; for describe(). */
void wn__add_fact(struct wn_filter_fact *facts, unsigned *countp, const char *name, double value);

/* Write the options string `options` with "bits_per_key=BITS" behind it, BITS in tenths; the same
 * string if it says a size itself, if `bits` is 0, or if its kind cannot have that size. ENOMEM, or
 * what wn_config_parse() says of `options`, with its message. free(*textp). */
int wn__options_of_size(const char *options, double bits, char *message, size_t message_size,
			char **textp);

/* The kind's defaults, nothing given. */
void wn__config_init(struct wn_config *config, const struct wn__kind *kind);

#endif /* WN_KINDS_KIND_H */
