/* popular.h - missing keys that are asked for often, whatever the filters said.
 *
 * A new filter makes other mistakes than the one it replaces, and keys that the old one denied
 * may be among them. Kinds that can heed costs are therefore told of the popular missing keys
 * before anything is wrong with them.
 *
 * One lookup in eight or so is looked at. Its key leaves a tag in a small table; a key whose
 * tag is still there when it is looked at again is popular, and counts. Keys that come once
 * leave nothing but their tag, until the next one takes its place.
 *
 * Thread safety: any thread, any time, without a lock. Two threads at one place may lose a
 * count. */
#ifndef WN_LEARN_NEGATIVES_POPULAR_H
#define WN_LEARN_NEGATIVES_POPULAR_H

#include <winnow/common.h>
#include <winnow/hash.h>

struct wn__popular;

int wn__popular_create(struct wn__popular **popularp);
void wn__popular_destroy(struct wn__popular *popular); /* NULL is fine */

/* Is it this lookup's turn? By thread; the distance varies, so that a period in what is asked
 * for does not hide keys. */
bool wn__popular_samples(void);

/* A lookup whose turn it was found nothing. How many lookups are to be added to the key's cost:
 * 0, or, each time its count has doubled, about as many as there were since the last time. So
 * the popular ones are reported seldom. */
double wn__popular_note(struct wn__popular *popular, struct wn_hash hash);

#endif /* WN_LEARN_NEGATIVES_POPULAR_H */
