/* reversemap.h - from a fingerprint back to the key it stands for.
 *
 * A filter keeps a few bits of each key's hash. To extend a fingerprint it needs
 * more of them, and asks the reverse map: (minirun id, rank) -> the stored key's
 * full hash, and the key itself where the store keeps keys. This is the
 * interface; the stores are in reversemap/.
 *
 * Thread safety: that of the store; the memory store wants one caller at a time. */
#ifndef WINNOW_REVERSEMAP_H
#define WINNOW_REVERSEMAP_H

#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

struct wn_revmap;

struct wn_revmap_entry {
	struct wn_hash hash;
	const void *key; /* NULL in a store that keeps hashes only; else borrowed from
			  * the map until it changes */
	size_t key_size;
};

/* Called once per entry; a result other than 0 ends the walk and is returned. */
typedef int wn_revmap_visit_fn(void *arg, uint64_t minirun, uint32_t rank,
			       const struct wn_revmap_entry *entry);

/* What a store implements. A failed call leaves the map as it was. */
struct wn_revmap_ops {
	int (*put)(struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		   const struct wn_revmap_entry *entry);
	int (*get)(const struct wn_revmap *map, uint64_t minirun, uint32_t rank,
		   struct wn_revmap_entry *entryp);
	int (*remove)(struct wn_revmap *map, uint64_t minirun, uint32_t rank);
	int (*visit)(const struct wn_revmap *map, wn_revmap_visit_fn *fn, void *arg);
	uint64_t (*count)(const struct wn_revmap *map);
	void (*clear)(struct wn_revmap *map);
	void (*destroy)(struct wn_revmap *map);
	/* Both NULL in a store that cannot be rewritten as a whole. */
	int (*create_like)(const struct wn_revmap *map, struct wn_revmap **newp);
	int (*swap)(struct wn_revmap *a, struct wn_revmap *b);
	uint64_t reserved[4]; /* zero; functions of later versions (common.h) */
};

/* A store embeds this as its first member. */
struct wn_revmap {
	const struct wn_revmap_ops *ops;
	bool keeps_keys;
};

/* Put an entry behind the `rank` entries the minirun has (WN_ERR_INVALID if it
 * has another number of them, or if the store keeps keys and the entry has none;
 * an empty key is one whose pointer is not NULL). Hash and key are copied. */
WN_PUBLIC int wn_revmap_put(struct wn_revmap *map, uint64_t minirun, uint32_t rank,
			    const struct wn_revmap_entry *entry);

/* The entry at a place; WN_ERR_NOT_FOUND if there is none. */
WN_PUBLIC int wn_revmap_get(const struct wn_revmap *map, uint64_t minirun, uint32_t rank,
			    struct wn_revmap_entry *entryp);

/* The rank of the entry that is this key: equal full hash and, where both sides
 * have the key's bytes, equal bytes. WN_ERR_NOT_FOUND if there is none. */
WN_PUBLIC int wn_revmap_find(const struct wn_revmap *map, uint64_t minirun,
			     const struct wn_revmap_entry *wanted, uint32_t *rankp);

/* Take an entry out; the ranks behind it move down by one, as in the filter. */
WN_PUBLIC int wn_revmap_remove(struct wn_revmap *map, uint64_t minirun, uint32_t rank);

/* Visit every entry: ranks of a minirun in order, miniruns in any order. The
 * map must not be changed meanwhile. */
WN_PUBLIC int wn_revmap_visit(const struct wn_revmap *map, wn_revmap_visit_fn *fn, void *arg);

WN_PUBLIC uint64_t wn_revmap_count(const struct wn_revmap *map);
WN_PUBLIC void wn_revmap_clear(struct wn_revmap *map);
WN_PUBLIC void wn_revmap_destroy(struct wn_revmap *map); /* NULL is fine */

/* For rewriting a map all or nothing: fill a new one and let the two change
 * contents as the last step that can fail. create_like: an empty map of the same
 * store and kind; the caller owns *newp. WN_ERR_READONLY from a store that
 * cannot; swap: WN_ERR_MISMATCH unless one was made like the other. */
WN_PUBLIC int wn_revmap_create_like(const struct wn_revmap *map, struct wn_revmap **newp);
WN_PUBLIC int wn_revmap_swap(struct wn_revmap *a, struct wn_revmap *b);

/* A wn_fetch_fn (aqf.h) over a reverse map: `arg` is the struct wn_revmap. */
WN_PUBLIC int wn_revmap_fetch(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp);

/* The store in memory: a hash table from minirun to its entries. Removing never
 * fails for an entry that is there. */
WN_PUBLIC int wn_revmap_memory_create(bool keep_keys, struct wn_revmap **mapp);

WN_END_DECLS

#endif /* WINNOW_REVERSEMAP_H */
