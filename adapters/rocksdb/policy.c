/* policy.c - winnow's filter policy for RocksDB; see policy.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/rocksdb.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/lock.h"
#include "base/secret.h"
#include "kinds/kind.h"
#include "learn/saved/home.h"
#include "learn/lookup.h"
#include "policy.h"

#define ID_PREFIX "winnow."
#define DEFAULT_OPTIONS "aqf"

/* ---- statistics --------------------------------------------------------- */

struct wn__metrics wn__all_policies;

void wn__policy_describe(struct wn__policy *policy, struct wn_stats *statsp)
{
	struct wn__learn *learn = policy ? wn__policy_learn(policy) : NULL;

	*statsp = (struct wn_stats){0};
	wn__metrics_sum(policy ? &policy->metrics : &wn__all_policies, statsp);
	if (learn)
		wn__learn_describe(learn, statsp);
	wn__learn_release(learn);
}

int wn_rocksdb_filterpolicy_stats(const rocksdb_filterpolicy_t *shown,
				  struct wn_stats *statsp)
{
	const struct wn__recipe *recipe =
		shown && wn__shim_fits(NULL, 0) ? wn__shim_policy(shown) : NULL;

	memset(statsp, 0, sizeof(*statsp));
	if (shown && !recipe)
		return WN_ERR_INVALID;
	wn__policy_describe(recipe ? recipe->policy : NULL, statsp);
	return 0;
}

/* ---- the policy --------------------------------------------------------- */

struct wn__policy *wn__policy_hold(struct wn__policy *policy)
{
	atomic_fetch_add_explicit(&policy->references, 1, memory_order_relaxed);
	return policy;
}

void wn__policy_release(void *held)
{
	struct wn__policy *policy = held;

	if (atomic_fetch_sub_explicit(&policy->references, 1, memory_order_acq_rel) != 1)
		return;
	wn__learn_release(policy->learn);
	wn__registry_destroy(policy->registry);
	pthread_mutex_destroy(&policy->lock);
	wn_secret_destroy(policy->secret);
	free(policy->database);
	free(policy);
}

struct wn__learn *wn__policy_learn(struct wn__policy *policy)
{
	struct wn__learn *learn;

	wn__lock(&policy->lock, WN__LOCK_LAST);
	learn = policy->learn ? wn__learn_hold(policy->learn) : NULL;
	wn__unlock(&policy->lock);
	return learn;
}

void wn__policy_leave_learn(struct wn__policy *policy)
{
	struct wn__learn *learn;

	wn__lock(&policy->lock, WN__LOCK_LAST);
	learn = policy->learn;
	policy->learn = NULL;
	wn__unlock(&policy->lock);
	wn__learn_release(learn);
}

bool wn__policy_is_of(const struct wn__policy *policy, const char *path)
{
	char *canonical;
	bool same;

	if (!policy->database)
		return false;
	if (strcmp(path, policy->database) == 0)
		return true;
	canonical = wn__home_canonical(path);
	same = canonical && strcmp(canonical, policy->database) == 0;
	free(canonical);
	return same;
}

/* ---- canonical keys ----------------------------------------------------- */

/* "canonica", so that the sum is not that of anything else. */
#define MARK_SEED UINT64_C(0x6163696e6f6e6163)
#define MARK_AT (WN_SEED_SIZE - 8)

static bool is_marked(const unsigned char *seed)
{
	return get_le64(seed + MARK_AT) == XXH3_64bits_withSeed(seed, MARK_AT, MARK_SEED);
}

int wn__policy_secret(const struct wn_secret *from, bool canonical, struct wn_secret **secretp)
{
	unsigned char seed[WN_SEED_SIZE];

	memcpy(seed, wn_secret_seed(from), sizeof(seed));
	if (canonical)
		put_le64(seed + MARK_AT, XXH3_64bits_withSeed(seed, MARK_AT, MARK_SEED));
	else if (is_marked(seed))
		seed[MARK_AT] ^= 1; /* one of 2^64, or taken from a filter */
	return wn_secret_create(seed, secretp);
}

bool wn__policy_may_ask(const struct wn__policy *policy, const struct wn_secret *secret)
{
	const unsigned char *seed = wn_secret_seed(secret);

	if (policy->canonical.function)
		return memcmp(seed, wn_secret_seed(policy->secret), WN_SEED_SIZE) == 0;
	return !is_marked(seed);
}

/* Most keys need no memory. */
#define CANONICAL_ROOM 256

static bool hash_canonically(const struct wn__canonizer *canonical, const struct wn_secret *secret,
			     const void *key, size_t size, struct wn_hash *hashp)
{
	char small[CANONICAL_ROOM];
	char *room = size <= sizeof(small) ? small : wn__alloc(size);
	size_t written;

	if (!room)
		return false;
	written = canonical->function(canonical->arg, key, size, room);
	if (written <= size)
		*hashp = wn__hash_key(secret, room, written);
	if (room != small)
		free(room);
	return written <= size;
}

bool wn__policy_hash(const struct wn__policy *policy, const struct wn_secret *secret,
		     const void *key, size_t size, struct wn_hash *hashp)
{
	if (policy->canonical.function)
		return hash_canonically(&policy->canonical, secret, key, size, hashp);
	*hashp = wn__lookup_hash(secret, key, size);
	return true;
}

/* ---- making ------------------------------------------------------------- */

static int create_secret(const struct wn_secret *given, bool canonical, struct wn_secret **secretp)
{
	struct wn_secret *random = NULL;
	int err = given ? 0 : wn_secret_create_random(&random);

	if (!err)
		err = wn__policy_secret(given ? given : random, canonical, secretp);
	wn_secret_destroy(random);
	return err;
}

/* Build a filter of `keys` evenly spread keys: what is its size, its rate of errors? */
static int measure_filter(const struct wn__recipe *recipe, size_t keys, double *sizep,
			  double *ratep)
{
	struct wn_builder *builder;
	struct wn_filter *filter = NULL;
	struct wn_filter_info info;
	void *block = NULL;
	size_t size = 0;
	const struct wn_secret *secret = recipe->policy->secret;
	int err = wn_builder_create(recipe->config, secret, &builder);

	for (size_t i = 0; i < keys && !err; i++) {
		uint64_t hash = (uint64_t)i * (UINT64_MAX / keys);

		err = wn_builder_add_hash(builder, (struct wn_hash){hash, hash});
	}
	if (!err)
		err = wn_builder_finish(builder, &block, &size);
	if (!err)
		err = wn_filter_open(block, size, WN_CHECK_HEADER, secret, &filter, NULL);
	if (!err) {
		wn_filter_describe(filter, &info);
		*sizep = (double)size;
		*ratep = info.expected_fpr;
	}
	wn_filter_close(filter);
	free(block);
	wn_builder_destroy(builder);
	return err;
}

static int measure(struct wn__recipe *recipe)
{
	const size_t keys = 8192;
	struct wn__measures *measures = &recipe->measures;
	double full_bytes = 0;
	int err = measure_filter(recipe, 0, &measures->empty_bytes, &measures->rate);

	if (!err)
		err = measure_filter(recipe, keys, &full_bytes, &measures->rate);
	if (!err)
		measures->bytes_per_key = (full_bytes - measures->empty_bytes) / (double)keys;
	return err;
}

/* The caller has the one reference. */
static int create_policy(const struct wn_secret *secret, const struct wn__canonizer *canonical,
			 struct wn__policy **policyp)
{
	struct wn__policy *policy = wn__alloc_table(sizeof(*policy));
	int err = ENOMEM;

	*policyp = NULL;
	if (!policy || pthread_mutex_init(&policy->lock, NULL) != 0) {
		free(policy);
		return err;
	}
	atomic_store_explicit(&policy->references, 1, memory_order_relaxed);
	if (canonical)
		policy->canonical = *canonical;
	err = create_secret(secret, policy->canonical.function, &policy->secret);
	if (err) {
		wn__policy_release(policy);
		return err;
	}
	*policyp = policy;
	return 0;
}

/* ---- what RocksDB is shown ---------------------------------------------- */

static void release_recipe(void *held)
{
	struct wn__recipe *recipe = held;

	wn_config_destroy(recipe->config);
	wn__policy_release(recipe->policy);
	free(recipe);
}

static int create_recipe(struct wn__policy *policy, const char *options,
			 struct wn__recipe **recipep)
{
	struct wn__recipe *recipe = wn__calloc(1, sizeof(*recipe));
	int err = ENOMEM;

	*recipep = NULL;
	if (!recipe)
		return err;
	recipe->policy = wn__policy_hold(policy);
	err = wn_config_parse(options, NULL, 0, &recipe->config);
	if (!err)
		err = measure(recipe);
	if (err)
		release_recipe(recipe);
	else
		*recipep = recipe;
	return err;
}

static const struct wn__policy_calls calls = {
	.release = release_recipe,
	.create_builder = wn__builder_create,
	.destroy_builder = wn__builder_destroy,
	.add = wn__builder_add,
	.add_with_prefix = wn__builder_add_with_prefix,
	.count = wn__builder_count,
	.finish = wn__builder_finish,
	.verify = wn__builder_verify,
	.keys_for_space = wn__builder_keys_for_space,
	.space_for_keys = wn__builder_space_for_keys,
	.expected_rate = wn__builder_expected_rate,
	.is_foreign = wn__reader_is_foreign,
};

const char *wn__filter_options(const char *options)
{
	return options ? options : DEFAULT_OPTIONS;
}

/* `recipe` is taken. */
static int show(struct wn__recipe *recipe, const char *options, rocksdb_filterpolicy_t **shownp)
{
	size_t size = strlen(ID_PREFIX) + strlen(options) + 1;
	char *id = wn__alloc(size);

	if (id) {
		snprintf(id, size, "%s%s", ID_PREFIX, options);
		*shownp = wn__shim_create(&calls, id, recipe);
	}
	free(id);
	if (*shownp)
		return 0;
	release_recipe(recipe);
	return ENOMEM;
}

int wn__policy_show(struct wn__policy *policy, const char *options, double bits,
		    rocksdb_filterpolicy_t **shownp)
{
	struct wn__recipe *recipe;
	char *text;
	int err = wn__options_of_size(wn__filter_options(options), bits, NULL, 0, &text);

	*shownp = NULL;
	if (!err)
		err = create_recipe(policy, text, &recipe);
	if (!err)
		err = show(recipe, text, shownp);
	free(text);
	return err;
}

static int join_learn(struct wn__policy *policy, struct wn__learn *learn, const char *database)
{
	policy->database = wn__alloc(strlen(database) + 1);
	if (!policy->database)
		return ENOMEM;
	strcpy(policy->database, database);
	policy->learn = wn__learn_hold(learn);
	policy->registry = wn__registry_hold(wn__learn_registry(learn));
	return 0;
}

int wn__policy_create(const struct wn_secret *secret, const struct wn__canonizer *canonical,
		      struct wn__learn *learn, const char *database, struct wn__policy **policyp)
{
	int err;

	*policyp = NULL;
	if (!wn__shim_fits(NULL, 0))
		return WN_ERR_MISMATCH;
	err = create_policy(secret, canonical, policyp);
	if (!err && learn)
		err = join_learn(*policyp, learn, database);
	if (err && *policyp) {
		wn__policy_release(*policyp);
		*policyp = NULL;
	}
	return err;
}

int wn_rocksdb_filterpolicy(const char *options, const struct wn_secret *secret,
			    rocksdb_filterpolicy_t **policyp)
{
	struct wn__policy *policy;
	int err = wn__policy_create(secret, NULL, NULL, NULL, &policy);

	*policyp = NULL;
	if (err)
		return err;
	err = wn__policy_show(policy, options, 0, policyp);
	wn__policy_release(policy);
	return err;
}

/* ---- by name ------------------------------------------------------------ */

/* The options in an id: behind the prefix, and without the braces, if it has any. */
static char *copy_options(const char *id)
{
	size_t length = strlen(id);
	char *options;

	if (length >= 2 && id[0] == '{' && id[length - 1] == '}') {
		id++;
		length -= 2;
	}
	if (length < strlen(ID_PREFIX))
		return NULL;
	id += strlen(ID_PREFIX);
	length -= strlen(ID_PREFIX);
	options = wn__alloc(length + 1);
	if (options) {
		memcpy(options, id, length);
		options[length] = '\0';
	}
	return options;
}

static rocksdb_filterpolicy_t *make_policy(const char *id, char *message, size_t size)
{
	char *options = copy_options(id);
	rocksdb_filterpolicy_t *policy = NULL;
	struct wn_config *config = NULL;
	int err = options ? wn_config_parse(options, message, size, &config) : ENOMEM;

	if (!err)
		err = wn_rocksdb_filterpolicy(options, NULL, &policy);
	if (err && !message[0])
		snprintf(message, size, "winnow: %s", wn_strerror(err));
	wn_config_destroy(config);
	free(options);
	return policy;
}

static bool registered;

__attribute__((constructor)) static void register_policies(void)
{
	registered = wn__shim_fits(NULL, 0) && wn__shim_register(make_policy);
}

/* To be called is to be linked, and the constructor has run by then. */
int wn_rocksdb_register(void)
{
	if (!wn__shim_fits(NULL, 0))
		return WN_ERR_MISMATCH;
	return registered ? 0 : ENOMEM;
}
