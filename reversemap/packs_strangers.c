/* packs_strangers.c - tables without a pack, and ids that are taken by nobody knows whom; see
 * packs.h.
 *
 * A stranger's place has no table, and counts how many tables have it. It comes before a pack's
 * filter with the same id: that one does not learn, and gets its place back when the last
 * stranger is gone. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "packs_internal.h"

/* ---- under the lock ----------------------------------------------------- */

void wn__packs_set_unread(struct wn__packs *packs, uint32_t table)
{
	if (packs->tables[table].unread)
		return;
	packs->tables[table].unread = true;
	atomic_fetch_add_explicit(&packs->unread, 1, memory_order_release);
}

void wn__packs_estrange(struct wn__packs *packs, struct wn__pack_place *place)
{
	if (place->table != WN__PACK_STRANGER) {
		packs->tables[place->table].robbed = true;
		place->table = WN__PACK_STRANGER;
		place->at = 0;
	}
	place->at++;
}

static int take_id(struct wn__packs *packs, uint64_t id_lo)
{
	struct wn__pack_place *place = wn__packs_find(packs, id_lo);

	if (!place)
		return wn__packs_register(packs,
					  (struct wn__pack_place){id_lo, WN__PACK_STRANGER, 1});
	wn__packs_estrange(packs, place);
	return 0;
}

void wn__packs_forget_strangers(struct wn__packs *packs, uint32_t table)
{
	struct wn__pack_table *own = &packs->tables[table];

	for (size_t i = 0; i < own->stranger_count; i++) {
		struct wn__pack_place *place = wn__packs_find(packs, own->strangers[i]);

		if (place && place->table == WN__PACK_STRANGER && --place->at == 0)
			wn__packs_unregister(packs, place);
	}
	free(own->strangers);
	own->strangers = NULL;
	own->stranger_count = 0;
	if (own->unread)
		atomic_fetch_sub_explicit(&packs->unread, 1, memory_order_release);
	own->unread = false;
}

/* A number may have two files, by LevelDB's old name and by its new one. */
static int find_slot(struct wn__packs *packs, uint64_t number, uint32_t *tablep)
{
	int err = 0;

	*tablep = wn__packs_find_table(packs, number);
	if (*tablep == UINT32_MAX)
		err = wn__packs_new_table(packs, number, tablep);
	else if (!packs->tables[*tablep].strange)
		err = EEXIST;
	if (!err)
		packs->tables[*tablep].strange = true;
	return err;
}

static int take_ids(struct wn__packs *packs, uint32_t table, const struct wn__small_id *ids,
		    size_t count)
{
	struct wn__pack_table *own = &packs->tables[table];
	uint64_t *strangers = wn__realloc(own->strangers, (own->stranger_count + count) *
								  sizeof(*strangers));
	int err = 0;

	if (!strangers)
		return ENOMEM;
	own->strangers = strangers;
	for (size_t i = 0; i < count && !err; i++) {
		err = take_id(packs, ids[i].lo);
		if (!err)
			strangers[own->stranger_count++] = ids[i].lo;
	}
	return err;
}

/* ---- for all ------------------------------------------------------------ */

bool wn__packs_have(struct wn__packs *packs, uint64_t number)
{
	uint32_t table;
	bool there;

	pthread_mutex_lock(&packs->lock);
	table = wn__packs_find_table(packs, number);
	there = table != UINT32_MAX && !packs->tables[table].strange;
	pthread_mutex_unlock(&packs->lock);
	return there;
}

int wn__packs_add_strangers(struct wn__packs *packs, uint64_t number,
			    const struct wn__small_id *ids, size_t count)
{
	uint32_t table;
	int err;

	if (ids && count == 0)
		return 0;
	pthread_mutex_lock(&packs->lock);
	err = find_slot(packs, number, &table);
	if (!err && ids)
		err = take_ids(packs, table, ids, count);
	else if (!err)
		wn__packs_set_unread(packs, table);
	pthread_mutex_unlock(&packs->lock);
	return err;
}

bool wn__packs_in_doubt(struct wn__packs *packs)
{
	return atomic_load_explicit(&packs->unread, memory_order_acquire) != 0;
}
