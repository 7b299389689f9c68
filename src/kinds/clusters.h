/* clusters.h - how long the clusters of a filter are: for those who look into one. */
#ifndef WN_KINDS_CLUSTERS_H
#define WN_KINDS_CLUSTERS_H

#include <winnow/filter.h>

typedef void wn__cluster_fn(void *context, uint64_t length);

/* Call `visit` with the length, in slots, of each cluster of an open filter, first to
 * last: a cluster starts where a run is in its own place, and goes on for as long as
 * runs are pushed on by the one before. WN_ERR_INVALID: a kind that has no clusters.
 * WN_ERR_CORRUPT: the filter, opened with its header checked alone, is damaged; what
 * was visited before was there. */
int wn__filter_clusters(const struct wn_filter *filter, wn__cluster_fn *visit, void *context);

#endif /* WN_KINDS_CLUSTERS_H */
