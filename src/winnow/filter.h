/* filter.h - filters of any kind: build a block from keys, open it, ask it.
 *
 * Thread safety: one thread uses a builder at a time. An open filter never
 * changes; any number of threads may query it. */
#ifndef WINNOW_FILTER_H
#define WINNOW_FILTER_H

#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

/* Kind numbers, as they stand in blocks. */
enum wn_kind {
	WN_KIND_AQF = 1, /* adaptive quotient filter */
	WN_KIND_SSCF = 2 /* seesaw counting filter, frozen */
};

/* Where a query matched: what the reverse map is asked with. */
struct wn_match {
	uint64_t minirun; /* the minirun's id: quotient and remainder in one number */
	uint32_t rank;    /* the fingerprint's rank within the minirun */
	bool known;       /* false: "maybe" without a fingerprint to show for it */
	uint64_t stamp;   /* living filters: the state of the minirun's ranks (aqf.h); else 0 */
};

/* ---- options ------------------------------------------------------------ */

struct wn_config;

/* Parse "kind" or "kind:option=value;option=value", e.g.
 * "aqf:remainder_bits=9;load=0.95". The caller owns *configp.
 * WN_ERR_OPTION on a string that cannot be understood, with a sentence in
 * `message` (may be NULL) that names the option, the value and what is allowed. */
WN_PUBLIC int wn_config_parse(const char *text, char *message, size_t message_size,
			      struct wn_config **configp);
WN_PUBLIC void wn_config_destroy(struct wn_config *config);

/* ---- build -------------------------------------------------------------- */

struct wn_builder;

/* `config` is copied; `secret` is borrowed and must outlive the builder.
 * NULL config: "aqf" with its defaults. */
WN_PUBLIC int wn_builder_create(const struct wn_config *config, const struct wn_secret *secret,
				struct wn_builder **builderp);
WN_PUBLIC void wn_builder_destroy(struct wn_builder *builder);

/* Add a key, or a key's hash under the builder's secret. Adding a key twice
 * is the same as adding it once, and of the kind "aqf" in lines (the default) so are two keys
 * whose hashes have equal upper halves. ENOMEM leaves the builder as it was. */
WN_PUBLIC int wn_builder_add(struct wn_builder *builder, const void *key, size_t size);
WN_PUBLIC int wn_builder_add_hash(struct wn_builder *builder, struct wn_hash hash);

/* Name a hash that the finished filter should answer "no" (unless it is a key's: keys win).
 * An "aqf" filter always does, unless a key has the same upper half (hash.hi); a kind that has
 * only so much room for them ("sscf") sees to the costliest first. `cost`, above 0 and
 * up to 1e15 (WN_ERR_INVALID otherwise), is what a wrong "maybe" costs, in any unit.
 * Naming a hash again adds to its cost; wn_builder_add_negative() adds 1. */
WN_PUBLIC int wn_builder_add_negative(struct wn_builder *builder, struct wn_hash hash);
WN_PUBLIC int wn_builder_add_costly(struct wn_builder *builder, struct wn_hash hash, double cost);

/* Keys added since creation or the last reset, repetitions that came one after
 * the other counted once. */
WN_PUBLIC size_t wn_builder_count(const struct wn_builder *builder);

/* Make the block. *blockp is malloc()ed; free it with free(). On failure the
 * builder keeps its keys. After success wn_builder_uppers() can be asked;
 * call wn_builder_reset() before adding the keys of the next block. */
WN_PUBLIC int wn_builder_finish(struct wn_builder *builder, void **blockp, size_t *sizep);

/* The upper halves (hash.hi) of the keys' hashes, in fingerprint order (by minirun, then rank), of
 * the block just finished: what its key list is made of. Borrowed until the next finish that
 * succeeds, reset or destroy. NULL if there is none. */
WN_PUBLIC const uint64_t *wn_builder_uppers(const struct wn_builder *builder, size_t *countp);

/* Forget keys and negatives; keep the memory for the next block. */
WN_PUBLIC void wn_builder_reset(struct wn_builder *builder);

/* ---- open and query ----------------------------------------------------- */

struct wn_filter;

/* Open a filter over `block`, which is borrowed and must outlive *filterp.
 * `secret` (borrowed, may be NULL) is used if it is the block's own; otherwise
 * the block's secret is derived from the seed it carries.
 * On refusal *filterp is NULL and *reasonp (may be NULL) says why. */
WN_PUBLIC int wn_filter_open(const void *block, size_t size, enum wn_check check,
			     const struct wn_secret *secret, struct wn_filter **filterp,
			     const char **reasonp);
WN_PUBLIC void wn_filter_close(struct wn_filter *filter);

/* May the key be in the set? false is certain. A NULL filter answers true: a
 * filter that could not be opened must not hide a key.
 * *matchp (may be NULL) says where a true came from. */
WN_PUBLIC bool wn_filter_query(const struct wn_filter *filter, const void *key, size_t size,
			       struct wn_match *matchp);
WN_PUBLIC bool wn_filter_query_hash(const struct wn_filter *filter, struct wn_hash hash,
				    struct wn_match *matchp);

/* `count` queries at once, memory fetched ahead: answersp[i] for hashes[i]. */
WN_PUBLIC void wn_filter_query_batch(const struct wn_filter *filter, const struct wn_hash *hashes,
				     size_t count, bool *answersp);

/* A key, where it lies. */
struct wn_key {
	const void *data;
	size_t size;
};

/* The same for keys, which are hashed on the way: faster than to hash them all before. */
WN_PUBLIC void wn_filter_query_keys(const struct wn_filter *filter, const struct wn_key *keys,
				    size_t count, bool *answersp);

/* The secret this filter hashes with; borrowed from the filter or the host. */
WN_PUBLIC const struct wn_secret *wn_filter_secret(const struct wn_filter *filter);

/* ---- describe ----------------------------------------------------------- */

/* One of a kind's own numbers. */
struct wn_filter_fact {
	const char *name; /* static text: letters, digits and underscores */
	double value;
};

#define WN_FILTER_FACTS 16

struct wn_filter_info {
	const char *kind;    /* its name in options strings, such as "aqf" */
	unsigned char id[WN_BLOCK_ID_SIZE];
	uint64_t key_count;
	double bits_per_key; /* of the whole block; 0 if there are no keys */
	double expected_fpr;
	/* "aqf" and "sscf" tell slots (home slots; seesaw cells), used_slots, load (used_slots
	 * by slots) and extensions (slots that hold extensions; modulator cells in use), and
	 * "aqf" remainder_bits. */
	unsigned fact_count;
	struct wn_filter_fact facts[WN_FILTER_FACTS];
	uint64_t reserved[8]; /* zero */
};

WN_PUBLIC void wn_filter_describe(const struct wn_filter *filter, struct wn_filter_info *infop);

/* The fact of this name; 0 if the kind does not tell it. */
WN_PUBLIC double wn_filter_fact_of(const struct wn_filter_info *info, const char *name);

WN_END_DECLS

#endif /* WINNOW_FILTER_H */
