/* clusters.c - clusters of a quotient filter in a block. */
#include <winnow/error.h>

#include "aqf_bulk.h"
#include "aqf_internal.h"
#include "lines.h"

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

/* In lines runs do not push each other: each is a cluster. */
struct run_count {
	wn__cluster_fn *visit;
	void *context;
	unsigned bits;
	uint64_t quotient, length;
};

static int count_run(void *context, uint64_t print, uint32_t line)
{
	struct run_count *count = context;

	(void)line;
	if (count->length && print >> count->bits != count->quotient) {
		count->visit(count->context, count->length);
		count->length = 0;
	}
	count->quotient = print >> count->bits;
	count->length++;
	return 0;
}

int wn__lines_clusters(const struct wn__lines *lines, wn__cluster_fn *visit, void *context)
{
	struct run_count count = {
		.visit = visit,
		.context = context,
		.bits = wn__lines_remainder_bits(&lines->shape),
	};
	const char *reason;
	int err = wn__lines_walk(lines, count_run, &count, &reason);

	if (!err && count.length)
		visit(context, count.length);
	return err;
}
