/* run_pages.h - finding hashes in a run's pages, whoever keeps the pages. */
#ifndef WN_RUN_PAGES_H
#define WN_RUN_PAGES_H

#include "run_format.h"

/* Bring a page: *bytesp becomes wn__run_page_size() bytes, in `buffer`
 * (WN__RUN_PAGE_SIZE bytes) or borrowed until the next call. They need not have
 * been checked. */
typedef int wn__page_read_fn(void *arg, const struct wn__run_header *header, uint64_t page,
			     unsigned char *buffer, const unsigned char **bytesp);

/* In a store with an index: bring the page that should have the first hash whose first 64
 * bits are not below, and say which one it is. It is a hint, and need not be true.
 * WN_ERR_NOT_FOUND: there is none. */
typedef int wn__page_seek_fn(void *arg, const struct wn__run_header *header, uint64_t hash_hi,
			     const unsigned char **bytesp, uint64_t *pagep);

struct wn__run_pages {
	struct wn__run_header header; /* checked */
	wn__page_read_fn *read;
	wn__page_seek_fn *seek; /* NULL: pages are found by guessing */
	void *arg;
	uint64_t reads; /* pages read so far */
};

/* The header of a run that is to be put. */
WN_PUBLIC void wn__run_header_init(struct wn__run_header *header, const struct wn__run *run,
				   unsigned hash_bytes);

/* What wn__runs_list() says of a run. */
WN_PUBLIC struct wn__run_info wn__run_header_info(const struct wn__run_header *header);

/* A list that grows. ENOMEM leaves it as it was; free(list->infos) ends it. */
struct wn__run_infos {
	struct wn__run_info *infos;
	size_t count;
	size_t capacity;
};

WN_PUBLIC int wn__run_infos_add(struct wn__run_infos *list, const struct wn__run_info *info);

/* As wn__runs_lookup_minirun() and wn__runs_stream(). */
WN_PUBLIC int wn__run_pages_lookup(struct wn__run_pages *pages, const struct wn__run *run,
				   uint64_t minirun, uint32_t rank,
				   struct wn__run_entry *entries, size_t max, size_t *countp);
WN_PUBLIC int wn__run_pages_stream(struct wn__run_pages *pages, wn__run_visit_fn *fn, void *arg);

#endif /* WN_RUN_PAGES_H */
