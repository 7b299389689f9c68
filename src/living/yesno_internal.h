/* yesno_internal.h - the lists' operations on an item whose hash is given. Nobody
 * can find two keys with one hash, so tests bring their own hashes. */
#ifndef WN_LIVING_YESNO_INTERNAL_H
#define WN_LIVING_YESNO_INTERNAL_H

#include <winnow/yesno.h>

/* As the functions of yesno.h; `item` holds the key and what is taken as its hash. */
int wn__yesno_add_item(struct wn_yesno *lists, enum wn_list list,
		       const struct wn_revmap_entry *item);
int wn__yesno_remove_item(struct wn_yesno *lists, const struct wn_revmap_entry *item);
bool wn__yesno_query_hash(const struct wn_yesno *lists, struct wn_hash hash);

#endif /* WN_LIVING_YESNO_INTERNAL_H */
