/* sort.h - putting hashes in order. */
#ifndef WN_BASE_SORT_H
#define WN_BASE_SORT_H

#include <winnow/hash.h>

/* Two uint64_t, for qsort() and bsearch(). */
int wn__compare_numbers(const void *a, const void *b);

/* Sort `count` hashes in ascending order. ENOMEM leaves them as they were. */
int wn__sort_hashes(struct wn_hash *hashes, size_t count);

/* The same for hashes that lie in pieces, into a new array, without gathering them
 * first: begin with how many there are in all; show every piece to count; show every
 * piece again to scatter; end. */
struct wn__sorter {
	struct wn_hash *sorted;
	struct wn_hash *bucket; /* room for one */
	size_t *ends;
	uint32_t *places;
	size_t count;
	unsigned bits;
	bool counted;
};

int wn__sorter_begin(struct wn__sorter *sorter, size_t count);
void wn__sorter_count(struct wn__sorter *sorter, const struct wn_hash *hashes, size_t count);
int wn__sorter_scatter(struct wn__sorter *sorter, const struct wn_hash *hashes, size_t count);
/* The hashes in order, each once, in *sortedp (free it with free()); their number is
 * returned. NULL for *sortedp: give up. Frees everything else. */
size_t wn__sorter_end(struct wn__sorter *sorter, struct wn_hash **sortedp);

#endif /* WN_BASE_SORT_H */
