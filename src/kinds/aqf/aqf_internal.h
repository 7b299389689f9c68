/* aqf_internal.h - what the files of adaptive quotient filters in blocks share. */
#ifndef WN_KINDS_AQF_AQF_INTERNAL_H
#define WN_KINDS_AQF_AQF_INTERNAL_H

#include "aqf_table.h"
#include "kinds/kind.h"

/* ---- build (slots.c) ---------------------------------------------------- */

/* The remainder bits that the options ask for; 0: fewer than there can be. */
unsigned wn__slots_remainder_bits(const struct wn_config *config);

/* As struct wn__kind's build(). */
int wn__slots_build(const struct wn__build_input *input, struct wn__block_writer *writer,
		    unsigned char *params);

/* ---- queries (query.c) -------------------------------------------------- */

/* Queries over a frozen table; `state` is a struct wn__table. The portable ones are
 * right for every table, the others the fastest for a table on this CPU. */
wn__query_fn wn__frozen_query_portable;
wn__query_batch_fn wn__frozen_batch_portable;
wn__query_fn *wn__frozen_query_for(const struct wn__table *table);
wn__query_batch_fn *wn__frozen_batch_for(const struct wn__table *table);

/* The first fingerprint that matches from `rank` on; what comes after a match is
 * found from its rank + 1. Not known: the table is damaged, and the answer "maybe". */
bool wn__frozen_query_from(const struct wn__table *table, struct wn_hash hash, uint32_t rank,
			   struct wn_match *matchp);

/* ---- describe (clusters.c) ---------------------------------------------- */

int wn__aqf_clusters(const struct wn_filter *filter, wn__cluster_fn *visit, void *context);

#endif /* WN_KINDS_AQF_AQF_INTERNAL_H */
