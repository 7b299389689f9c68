/* report.c - what a database's filters did, in numbers and as text. */
#include <errno.h>

#include "database.h"

void wn_rocksdb_drain(struct wn_rocksdb *wn)
{
	wn__learn_drain(wn->learn);
}

void wn_rocksdb_stats(struct wn_rocksdb *wn, struct wn_stats *statsp)
{
	wn__policy_describe(wn->policy, statsp);
}

int wn_rocksdb_add_negative(struct wn_rocksdb *wn, const char *key, size_t size, double cost)
{
	struct wn_hash hash;

	if (!wn__policy_hash(wn->policy, wn->policy->secret, key, size, &hash))
		return ENOMEM;
	return wn__learn_add_negative(wn->learn, hash, key, size, cost);
}

int wn_rocksdb_sync(struct wn_rocksdb *wn)
{
	wn__learn_drain(wn->learn);
	return wn__learn_sync(wn->learn);
}

char *wn_rocksdb_property(struct wn_rocksdb *wn, const char *name)
{
	struct wn_stats stats;

	wn_rocksdb_stats(wn, &stats);
	return wn__stats_text(&stats, name);
}
