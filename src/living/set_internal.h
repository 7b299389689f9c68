/* set_internal.h - the set's operations on a key whose hash is given. Nobody can
 * find two keys with one hash, so tests bring their own hashes. */
#ifndef WN_LIVING_SET_INTERNAL_H
#define WN_LIVING_SET_INTERNAL_H

#include <winnow/set.h>

/* As the functions of set.h; `item` holds the key and what is taken as its hash. */
int wn__set_insert_item(struct wn_set *set, const struct wn_revmap_entry *item);
int wn__set_delete_item(struct wn_set *set, const struct wn_revmap_entry *item);
int wn__set_count_item(const struct wn_set *set, const struct wn_revmap_entry *item,
		       uint64_t *countp);

/* As wn_set_false_positive(), without a rebuild. */
int wn__set_learn_item(struct wn_set *set, const struct wn_revmap_entry *item);

#endif /* WN_LIVING_SET_INTERNAL_H */
