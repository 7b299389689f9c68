/* policy.h - the filter policy that LevelDB is given, and the database behind it, if any. */
#ifndef WN_ADAPTERS_LEVELDB_POLICY_H
#define WN_ADAPTERS_LEVELDB_POLICY_H

#include <winnow/leveldb.h>

#include "learn/learn.h"
#include "learn/metrics.h"
#include "learn/small_table.h"
#include "shim.h"

/* The name of LevelDB's own: the two then see each other's filters. */
#define WN__FILTER_NAME "leveldb.BuiltinBloomFilter2"

/* What a policy and its database share. */
struct wn__level_policy {
	struct wn__metrics metrics; /* first: aligned */
	struct wn__small_world world;
	struct wn_config *config;
	struct wn_secret *secret;
	wn__small_query_fn *const *queries; /* by kind */
	void *bloom;
	wn_canonical_fn *canonical; /* NULL: keys are hashed as they are */
	void *canonical_arg;
	struct wn__learn *learn;       /* NULL: its filters do not learn */
	struct wn__registry *registry; /* of `learn` */
};

/* NULL means the default. */
const char *wn__level_filter_options(const char *options);

/* Options as for wn_leveldb_filterpolicy(); the secret is copied. Keys are hashed as `canonical`
 * gives them; NULL: as they are. WN_ERR_OPTION, with a sentence in `message`. */
int wn__level_policy_create(const char *options, const struct wn_secret *secret,
		      wn_canonical_fn *canonical, void *canonical_arg, char *message, size_t size,
		      struct wn__level_policy **policyp);
void wn__level_policy_destroy(void *policy); /* NULL is fine */
leveldb_filterpolicy_t *wn__level_policy_show(struct wn__level_policy *policy, bool owned);

/* Room for what keys are turned into before they are hashed. */
struct wn__level_canonical {
	char *key; /* `room`, or malloc()ed; NULL: no memory, or the function wrote too much */
	size_t size;
	char room[256];
};

void wn__level_canonicalize(const struct wn__level_policy *policy, const char *key, size_t size,
		      struct wn__level_canonical *canonicalp);
void wn__level_canonical_free(struct wn__level_canonical *canonical);

/* What LevelDB's Env sees of tables; the owner is the policy. */
extern const struct wn__level_calls wn__level_calls;

#endif /* WN_ADAPTERS_LEVELDB_POLICY_H */
