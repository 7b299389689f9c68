/* rebuild.h - filters that are built again after they were wrong too often.
 *
 * Some kinds of filters cannot learn one key at a time (sscf): what they were wrong about has
 * to be known when they are built. For these the false positives of each filter are listed,
 * and when there are enough of them the filter is built a second time, from its run in the
 * reverse map, with the list as its negatives. The table's own block stays as it is; the new
 * one lies in memory under the old one's id, and a key must pass both. Both hold every key,
 * so no key is lost, whichever of the two a reader sees.
 *
 * What a reader may be looking at is freed when no reader of this filter is left, or with all
 * of them: new filters come seldom, for each wants twice as many false positives as the one
 * before.
 *
 * Thread safety: any thread, any time. A query takes no lock and writes nothing.
 *
 * Not for users: adapters are libraries of their own, therefore WN_PUBLIC. */
#ifndef WN_REBUILD_H
#define WN_REBUILD_H

#include <winnow/common.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

#include "runs.h"

WN_BEGIN_DECLS

struct wn__rebuilds; /* of one engine */
struct wn__rebuild;  /* of one filter */

/* Both are copied. budget: bytes for filters and lists. */
int wn__rebuilds_create(const struct wn_config *config, const struct wn_secret *secret,
			size_t budget, struct wn__rebuilds **rebuildsp);
void wn__rebuilds_destroy(struct wn__rebuilds *rebuilds); /* NULL is fine; no reader is left */

/* For a reader of the filter with this id. NULL, which is fine to query: no memory. */
WN_PUBLIC struct wn__rebuild *wn__rebuild_acquire(struct wn__rebuilds *rebuilds,
						  const unsigned char *id);
WN_PUBLIC void wn__rebuild_release(struct wn__rebuild *rebuild);

/* Does the filter that was built later say "maybe", too? true if there is none. */
WN_PUBLIC bool wn__rebuild_query(const struct wn__rebuild *rebuild, struct wn_hash hash);

/* The filter was wrong about `hash`. true: it is time to build it again. */
bool wn__rebuild_report(struct wn__rebuilds *rebuilds, const struct wn__run *filter,
			struct wn_hash hash);

/* Build it again from its run. Reads the store. WN_ERR_NOT_FOUND: there is no run, or it has
 * not all of each hash; WN_ERR_MISMATCH: another secret's; WN_ERR_FULL: over the budget;
 * and what the store and the builder say. */
int wn__rebuild_build(struct wn__rebuilds *rebuilds, struct wn__runs *runs,
		      const struct wn__run *filter);

/* The filter's table is gone. */
void wn__rebuild_forget(struct wn__rebuilds *rebuilds, const unsigned char *id);

struct wn__rebuilds_stats {
	uint64_t built;  /* filters, again for each time */
	uint64_t failed; /* that could not be built */
	uint64_t bytes;  /* filters and lists, now */
};

void wn__rebuilds_describe(struct wn__rebuilds *rebuilds, struct wn__rebuilds_stats *statsp);

WN_END_DECLS

#endif /* WN_REBUILD_H */
