/* pages.h - finding hashes in a key list's pages, whoever keeps the pages. */
#ifndef WN_REVERSEMAP_PAGES_H
#define WN_REVERSEMAP_PAGES_H

#include "list_format.h"

/* Bring a page: *bytesp becomes wn__keylist_page_size() bytes, in `buffer`
 * (WN__KEYLIST_PAGE_SIZE bytes) or borrowed until the next call. They need not have
 * been checked. */
typedef int wn__page_read_fn(void *arg, const struct wn__keylist_header *header, uint64_t page,
			     unsigned char *buffer, const unsigned char **bytesp);

/* In a store with an index: bring the page that should have the first hash whose first 64
 * bits are not below, and say which one it is. It is a hint, and need not be true.
 * WN_ERR_NOT_FOUND: there is none. */
typedef int wn__page_seek_fn(void *arg, const struct wn__keylist_header *header, uint64_t hash_hi,
			     const unsigned char **bytesp, uint64_t *pagep);

struct wn__keylist_pages {
	struct wn__keylist_header header; /* checked */
	wn__page_read_fn *read;
	wn__page_seek_fn *seek; /* NULL: pages are found by guessing */
	void *arg;
	uint64_t reads; /* pages read so far */
};

/* The header of a key list that is to be put. */
void wn__keylist_header_init(struct wn__keylist_header *header,
			     const struct wn__keylist *list);

/* What wn__map_list() says of a key list. */
struct wn__keylist_info wn__keylist_header_info(const struct wn__keylist_header *header);

/* A list that grows. ENOMEM leaves it as it was; free(list->infos) ends it. */
struct wn__keylist_infos {
	struct wn__keylist_info *infos;
	size_t count;
	size_t capacity;
};

int wn__keylist_infos_add(struct wn__keylist_infos *list,
				    const struct wn__keylist_info *info);

/* As wn__map_lookup_minirun() and wn__map_stream(). */
int wn__keylist_pages_lookup(struct wn__keylist_pages *pages,
				       const struct wn__keylist *list, uint64_t minirun,
				       uint32_t rank, struct wn__keylist_entry *entries, size_t max,
				       size_t *countp);
int wn__keylist_pages_stream(struct wn__keylist_pages *pages, wn__keylist_visit_fn *fn,
				       void *arg);

#endif /* WN_REVERSEMAP_PAGES_H */
