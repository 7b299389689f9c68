/* set.h - a set of keys behind an adaptive quotient filter: filter, secret and
 * reverse map in one object that keeps them in step.
 *
 * For those who embed winnow in front of their own store. wn_set_query() is the
 * filter's answer; when the store says that a "maybe" was wrong, tell
 * wn_set_false_positive(), and it never comes back.
 *
 * A key is its bytes where the map keeps keys. Where it keeps hashes only, keys
 * with one full hash (128 bits) are one key.
 *
 * Every function that fails leaves the set as it was, unless it says otherwise.
 *
 * Thread safety: any number of threads may call wn_set_query() while one other
 * calls anything else, except for grow, shrink, merge and rebuild (and the rebuild
 * that wn_set_false_positive() does by itself when asked to): these replace the
 * filter and must be alone. */
#ifndef WINNOW_SET_H
#define WINNOW_SET_H

#include <winnow/aqf.h>
#include <winnow/common.h>
#include <winnow/hash.h>
#include <winnow/reversemap.h>

WN_BEGIN_DECLS

struct wn_set;

/* Zero means default. */
struct wn_set_options {
	struct wn_aqf_options aqf;
	/* Slots in use, as a share, at which a rebuild with a new secret is due;
	 * default: aqf.adapt_load. */
	double rebuild_at;
	/* Rebuild inside wn_set_false_positive() when due, instead of leaving it to
	 * the caller. WN_ERR_INVALID with a map that does not keep keys. */
	bool auto_rebuild;
	uint64_t reserved[4]; /* zero; options of later versions (common.h) */
};

/* `map` must be empty; it is taken: wn_set_destroy() destroys it, and so does a
 * failed create. `secret` is copied (NULL: a random one). */
WN_PUBLIC int wn_set_create(const struct wn_set_options *options, const struct wn_secret *secret,
			    struct wn_revmap *map, struct wn_set **setp);
WN_PUBLIC void wn_set_destroy(struct wn_set *set);

/* Add a key (any bytes; size 0 is a key too); a key that is there already gets its
 * count raised by one. So many inserts as aqf.capacity succeed, whatever was learned;
 * WN_ERR_FULL: no room beyond that, growing gives some. */
WN_PUBLIC int wn_set_insert(struct wn_set *set, const void *key, size_t size);

/* Take one count off a key; the last one removes it. WN_ERR_NOT_FOUND if the
 * key is not in the set: unlike a bare filter, this is never mistaken. */
WN_PUBLIC int wn_set_delete(struct wn_set *set, const void *key, size_t size);

/* May the key be in the set? The filter's answer; false is certain. */
WN_PUBLIC bool wn_set_query(const struct wn_set *set, const void *key, size_t size);

/* How often the key was inserted; 0 if it is not in the set. Exact: asks the
 * reverse map too. */
WN_PUBLIC int wn_set_count(const struct wn_set *set, const void *key, size_t size,
			   uint64_t *countp);

/* The key is not in the set although wn_set_query() said maybe: learn it.
 * A key that is in the set changes nothing and is WN_ERR_UNFIXABLE; so is one that
 * shares its full hash with a key of the set. WN_ERR_FULL: no room; what could be
 * learned before that stays learned. With auto_rebuild a rebuild under a random
 * secret follows when it is due, and the key is learned under that; if it had been
 * learned already and the rebuild fails, the result is 0 and the rebuild stays due. */
WN_PUBLIC int wn_set_false_positive(struct wn_set *set, const void *key, size_t size);

/* Is a rebuild due? Yes when rebuild_at is reached, or something could not be
 * learned for want of room; but never while extensions hold less than 1 slot in
 * 256, for a rebuild gives back nothing else.
 * Rebuild: every key hashed anew under `secret` (copied; NULL: a random one),
 * extensions dropped, counts kept, and the remainder bits that growing had used
 * up restored. WN_ERR_READONLY if the map does not keep keys or cannot be
 * rewritten. The old and the new set are in memory together for a while. */
WN_PUBLIC bool wn_set_needs_rebuild(const struct wn_set *set);
WN_PUBLIC int wn_set_rebuild(struct wn_set *set, const struct wn_secret *secret);

/* Double or halve the slots; errors as for wn_aqf_grow() and wn_aqf_shrink(). */
WN_PUBLIC int wn_set_grow(struct wn_set *set);
WN_PUBLIC int wn_set_shrink(struct wn_set *set);

/* Move all of `from` into `into`; on success `from` is empty and of the size it was
 * created with. Both must share a seed and both or neither keep keys, else
 * WN_ERR_MISMATCH; further errors as for wn_aqf_merge(). Keys that are in both end up
 * once, with their counts added. What both answered "no" to stays "no". On failure
 * both are as they were. */
WN_PUBLIC int wn_set_merge(struct wn_set *into, struct wn_set *from);

/* Borrowed, for those who need the parts. */
WN_PUBLIC const struct wn_aqf *wn_set_filter(const struct wn_set *set);
WN_PUBLIC const struct wn_secret *wn_set_secret(const struct wn_set *set);
WN_PUBLIC const struct wn_revmap *wn_set_map(const struct wn_set *set);

WN_END_DECLS

#endif /* WINNOW_SET_H */
