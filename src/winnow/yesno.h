/* yesno.h - YES/NO lists: every YES item answers yes, every NO item no, anything
 * else yes with a small probability. Items may come, go and change lists.
 *
 * For a list that never changes use a builder (filter.h): the YES items are its
 * keys, the NO items its negatives. It stores the YES items only.
 *
 * Here both lists are stored, a tag beside each fingerprint says which, and no
 * fingerprint is a prefix of another item's hash. Deleting an item shortens the
 * fingerprints that were longer because of it.
 *
 * A key is its bytes where the map keeps keys. Where it keeps hashes only, keys
 * with one full hash (128 bits) are one item.
 *
 * Thread safety: any number of threads may call wn_yesno_query() while one other
 * calls anything else. An item that is on a list answers by it at every moment of
 * another item's coming and going, with one exception: a reader that finds a
 * writer in its way thousands of times in a row (one that the system has put to
 * sleep in the middle of a change) says yes without having seen the tag. */
#ifndef WINNOW_YESNO_H
#define WINNOW_YESNO_H

#include <winnow/aqf.h>
#include <winnow/common.h>
#include <winnow/hash.h>
#include <winnow/reversemap.h>

WN_BEGIN_DECLS

struct wn_yesno;

enum wn_list {
	WN_LIST_YES = 0,
	WN_LIST_NO = 1
};

/* Zero means default. */
struct wn_yesno_options {
	uint64_t yes_capacity;   /* YES items promised; at least 1 */
	uint64_t no_capacity;    /* NO items promised; the room of both is shared */
	unsigned remainder_bits; /* default 9 */
	double load;             /* default 0.9, at most 0.95: the rest is room for extensions;
				  * more is added where remainders are short */
	uint64_t reserved[4];    /* zero; options of later versions (common.h) */
};

/* `map` must be empty; it is taken, also by a failed create. `secret` is copied
 * (NULL: a random one). */
WN_PUBLIC int wn_yesno_create(const struct wn_yesno_options *options,
			      const struct wn_secret *secret, struct wn_revmap *map,
			      struct wn_yesno **listsp);
WN_PUBLIC void wn_yesno_destroy(struct wn_yesno *lists);

/* Put an item on a list. On that list already: nothing changes. On the other:
 * it moves. WN_ERR_FULL when the promised room is gone: the lists are as they
 * were. WN_ERR_UNFIXABLE if an item with the same full hash is on the other list. */
WN_PUBLIC int wn_yesno_add(struct wn_yesno *lists, enum wn_list list, const void *key, size_t size);

/* Take an item off whichever list it is on. WN_ERR_NOT_FOUND if on none. The
 * fingerprints it had made longer become shorter again. */
WN_PUBLIC int wn_yesno_remove(struct wn_yesno *lists, const void *key, size_t size);

/* true: yes. Every YES item and no NO item (but see thread safety above); of
 * anything else one in 2^remainder_bits, times the share of slots YES items fill. */
WN_PUBLIC bool wn_yesno_query(const struct wn_yesno *lists, const void *key, size_t size);

WN_PUBLIC uint64_t wn_yesno_count(const struct wn_yesno *lists, enum wn_list list);
WN_PUBLIC const struct wn_aqf *wn_yesno_filter(const struct wn_yesno *lists);

WN_END_DECLS

#endif /* WINNOW_YESNO_H */
