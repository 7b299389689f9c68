/* new_table.c - see new_table.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kinds/block_build.h"
#include "learn_internal.h"
#include "new_table.h"

struct wn__new_table {
	struct wn__learn *learn; /* held */
	uint64_t number;
	/* What its filters are built against, taken at the first one: a table may have
	 * thousands, and reports go on. */
	const struct wn__negatives_view *view;
	unsigned char last_id[WN_BLOCK_ID_SIZE]; /* of the key list handed over last, */
	bool handed_over;                        /* if any was */
};

void wn__new_table_begin(struct wn__learn *learn, uint64_t number, struct wn__new_table **tablep)
{
	struct wn__new_table *table = wn__calloc(1, sizeof(*table));

	*tablep = table;
	if (!table)
		return;
	table->learn = wn__learn_hold(learn);
	table->number = number;
}

void wn__new_table_carry_over(struct wn__new_table *table, struct wn_builder *builder)
{
	size_t limit = wn_builder_count(builder), added = 0;
	const struct wn__negatives_view *view;

	if (!table || !table->learn->negatives)
		return;
	if (!table->view)
		table->view = wn__negatives_view(table->learn->negatives);
	view = table->view;
	if (!view)
		return;
	if (limit < WN__MIN_CARRIED)
		limit = WN__MIN_CARRIED;
	if (limit > view->count)
		limit = view->count;
	while (added < limit &&
	       wn_builder_add_costly(builder, view->negatives[added].hash,
				     fmax(view->negatives[added].cost, DBL_MIN)) == 0)
		added++;
	wn__count(&table->learn->metrics, carried_over, added);
}

static uint64_t *copy_uppers(const struct wn_builder *builder)
{
	size_t count;
	const uint64_t *uppers = wn_builder_uppers(builder, &count);
	uint64_t *copy = wn__alloc(count * sizeof(*copy));

	if (copy && count)
		memcpy(copy, uppers, count * sizeof(*copy));
	return copy;
}

void wn__new_table_built(struct wn__new_table *table, struct wn_builder *builder, bool keep)
{
	const struct wn_block_info *info = wn__builder_info(builder);
	struct wn__keylist list;

	if (!table || !info || wn__keylist_of_block(info, &list))
		return;
	list.owner = table->number;
	if (!list.owner) {
		wn__count(&table->learn->metrics, key_lists_lost, 1);
		return;
	}
	wn__worker_hold(table->learn, &list,
			keep ? copy_uppers(builder) : wn__builder_take_uppers(builder));
	memcpy(table->last_id, list.id, sizeof(table->last_id));
	table->handed_over = true;
}

void wn__new_table_end(struct wn__new_table *table)
{
	if (!table)
		return;
	if (table->handed_over)
		wn__worker_end_table(table->learn, table->last_id);
	wn__negatives_unview(table->view);
	wn__learn_release(table->learn);
	free(table);
}
