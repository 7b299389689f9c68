/* clusters.c - clusters of a quotient filter in a block. */
#include <winnow/error.h>

#include "aqf_bulk.h"
#include "aqf_internal.h"

/* The state of an open filter starts with its table. */
int wn__aqf_clusters(const struct wn_filter *filter, wn__cluster_fn *visit, void *context)
{
	const struct wn__table *table = filter->state;
	struct wn__scan scan;
	struct wn__entry entry;
	uint64_t start = 0, end = 0; /* of the cluster at hand */

	wn__scan_init(&scan, table, false);
	while (wn__scan_next(&scan, &entry)) {
		uint64_t quotient = entry.minirun >> table->remainder_bits;

		/* Within a run, `end` is always behind its quotient. */
		if (quotient >= end) {
			if (end > start)
				visit(context, end - start);
			start = quotient;
		}
		end = scan.slot;
	}
	if (end > start)
		visit(context, end - start);
	return scan.damaged ? WN_ERR_CORRUPT : 0;
}
