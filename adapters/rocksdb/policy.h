/* policy.h - what the adapter's objects share: options, secret, statistics.
 *
 * Three objects, and what of RocksDB's they answer to:
 *
 *	policy    FilterPolicy       options, secret, statistics
 *	builder   FilterBitsBuilder  one table's filter, or its partitions one after the other
 *	reader    FilterBitsReader   over one filter block
 *
 * RocksDB owns all three. Readers lie in the block cache, which may be shared with other
 * databases and then outlives this one's policy: builders and readers hold a reference to
 * their policy, and the last one gone frees it. A policy is small. What is large, `learn`,
 * leaves it when the database is closed, so that no reader keeps a closed database in memory;
 * what was learned stays for as long as there are readers of it. */
#ifndef WN_ADAPTERS_ROCKSDB_POLICY_H
#define WN_ADAPTERS_ROCKSDB_POLICY_H

#include <pthread.h>
#include <stdatomic.h>

#include <winnow/filter.h>
#include <winnow/rocksdb.h>

#include "learn/learn.h"
#include "learn/lessons.h"
#include "learn/metrics.h"
#include "shim.h"

/* What a filter of the policy's options takes. Kinds are linear in the number of keys, but
 * for their header; so two filters tell. */
struct wn__measures {
	double empty_bytes;
	double bytes_per_key;
	double rate;
};

/* What filters hash in place of a key: see winnow/hash.h. `function` NULL: the key. */
struct wn__canonizer {
	wn_canonical_fn *function;
	void *arg;
};

struct wn__policy {
	struct wn__metrics metrics; /* first: aligned */
	atomic_size_t references;
	struct wn_secret *secret;
	struct wn__canonizer canonical;
	/* NULL, all three: the filters of this policy do not learn. */
	char *database;                /* its path, canonical */
	struct wn__registry *registry; /* held */
	pthread_mutex_t lock;          /* of `learn` alone */
	struct wn__learn *learn;       /* held; NULL also once the database is closed */
};

/* What RocksDB is shown of a policy: filters of one size. The column families of a database have
 * one policy, and may have filters of different sizes. */
struct wn__recipe {
	struct wn__policy *policy; /* held */
	struct wn_config *config;
	struct wn__measures measures;
};

/* The last release frees. */
struct wn__policy *wn__policy_hold(struct wn__policy *policy);
void wn__policy_release(void *policy);

/* NULL means the default. */
const char *wn__filter_options(const char *options);

/* The secret of a policy's filters, from any secret. Filters of canonical keys must never be asked
 * for a key as it is, nor the other way round, and a block carries its secret's seed: so the seeds
 * themselves are of two sorts. The last 8 bytes of one for canonical keys are a sum of the others;
 * those of one for keys as they are never are. From a secret of the wanted sort: a copy. */
int wn__policy_secret(const struct wn_secret *from, bool canonical, struct wn_secret **secretp);

/* A policy with filters under the secret that wn__policy_secret() makes of this one, or of a random
 * one. They hash what `canonical` (copied; NULL: nothing) makes of a key. They learn by `learn`
 * (held), which is that of the database with this canonical path (copied); or both are NULL. The
 * caller has the one reference. */
int wn__policy_create(const struct wn_secret *secret, const struct wn__canonizer *canonical,
		      struct wn__learn *learn, const char *database, struct wn__policy **policyp);

/* May filters under this secret, a block's own, be asked? Of keys as they are: all of their sort.
 * Of canonical keys: the policy's own only, since others may be of another function. */
bool wn__policy_may_ask(const struct wn__policy *policy, const struct wn_secret *secret);

/* The hash of a key, or of a prefix, by which the policy's filters know it. false: no memory, or
 * the function wrote more than it may. */
bool wn__policy_hash(const struct wn__policy *policy, const struct wn_secret *secret,
		     const void *key, size_t size, struct wn_hash *hashp);

/* To be released; NULL: there is none, or none any more. */
struct wn__learn *wn__policy_learn(struct wn__policy *policy);

/* The database is being closed: let go of `learn`. What was learned stays. */
void wn__policy_leave_learn(struct wn__policy *policy);

/* Is this the path of the policy's database? */
bool wn__policy_is_of(const struct wn__policy *policy, const char *path);

/* As RocksDB sees it; it holds the policy. Its filters have these options, as
 * wn_rocksdb_filterpolicy() takes them, and `bits` a key if they say no size and it is not 0. */
int wn__policy_show(struct wn__policy *policy, const char *options, double bits,
		    rocksdb_filterpolicy_t **shownp);

/* NULL: of all policies. */
void wn__policy_describe(struct wn__policy *policy, struct wn_stats *statsp);

/* Count for the policy and for all policies. */
extern struct wn__metrics wn__all_policies;
#define wn__policy_count(policy, name, more)                                                       \
	(wn__count(&(policy)->metrics, name, more), wn__count(&wn__all_policies, name, more))

/* The functions of struct wn__policy_calls, in builder.c and reader.c; those of open readers are
 * in shim.h. */
void *wn__builder_create(void *recipe, bool verify);
void wn__builder_destroy(void *builder);
void wn__builder_add(void *builder, struct wn__bytes key);
void wn__builder_add_with_prefix(void *builder, struct wn__bytes key, struct wn__bytes prefix);
size_t wn__builder_count(const void *builder);
void wn__builder_finish(void *builder, void **blockp, size_t *sizep);
bool wn__builder_verify(void *builder, struct wn__bytes block);
size_t wn__builder_keys_for_space(const void *builder, size_t bytes);
size_t wn__builder_space_for_keys(const void *builder, size_t keys);
double wn__builder_expected_rate(const void *builder);

bool wn__reader_is_foreign(void *recipe, struct wn__bytes block);
#endif /* WN_ADAPTERS_ROCKSDB_POLICY_H */
