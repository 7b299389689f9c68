/* policy.c - winnow's filter policy for RocksDB; see policy.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/rocksdb.h>

#include "base/alloc.h"
#include "policy.h"
#include "state.h"

#define ID_PREFIX "winnow."
#define DEFAULT_OPTIONS "aqf"

/* ---- statistics --------------------------------------------------------- */

static struct wn__counters of_all_policies;

void wn__policy_count(struct wn__policy *policy, enum wn__counter counter, uint64_t more)
{
	atomic_fetch_add_explicit(&policy->counters.values[counter], more, memory_order_relaxed);
	atomic_fetch_add_explicit(&of_all_policies.values[counter], more, memory_order_relaxed);
}

static uint64_t get_count(struct wn__counters *counters, enum wn__counter counter)
{
	return atomic_load_explicit(&counters->values[counter], memory_order_relaxed);
}

static void describe_learning(struct wn__learn *learn, struct wn_rocksdb_stats *statsp)
{
	struct wn__learn_stats stats;

	wn__learn_describe(learn, &stats);
	statsp->lookups = stats.lookups;
	statsp->lookups_discarded = stats.lookups_discarded;
	statsp->positives = stats.positives;
	statsp->false_positives = stats.false_positives;
	statsp->adaptations = stats.adaptations;
	statsp->unfixable = stats.unfixable;
	statsp->map_misses = stats.map_misses;
	statsp->queue_drops = stats.queue_drops;
	statsp->runs_stored = stats.runs_stored;
	statsp->runs_lost = stats.runs_lost;
	statsp->runs_retired = stats.runs_retired;
	statsp->carried_over = stats.carried_over;
	statsp->lessons = stats.lessons;
	statsp->learned_bytes = stats.learned_bytes;
	statsp->lessons_dropped = stats.lessons_dropped;
	statsp->repeated_false_positives = stats.repeated_false_positives;
	statsp->negatives = stats.negatives;
	statsp->map_runs = stats.map_runs;
	statsp->map_bytes = stats.map_bytes;
	statsp->map_reads = stats.map_reads;
	statsp->saves = stats.saves;
	statsp->save_failures = stats.save_failures;
}

void wn__policy_describe(struct wn__policy *policy, struct wn_rocksdb_stats *statsp)
{
	struct wn__counters *counters = policy ? &policy->counters : &of_all_policies;
	struct wn__learn *learn;

	*statsp = (struct wn_rocksdb_stats){
		.filters_built = get_count(counters, WN__FILTERS_BUILT),
		.filter_keys = get_count(counters, WN__FILTER_KEYS),
		.filter_bytes = get_count(counters, WN__FILTER_BYTES),
		.filters_given_up = get_count(counters, WN__FILTERS_GIVEN_UP),
		.readers_opened = get_count(counters, WN__READERS_OPENED),
		.readers_foreign = get_count(counters, WN__READERS_FOREIGN),
		.readers_refused = get_count(counters, WN__READERS_REFUSED),
	};
	learn = policy ? wn__policy_engine(policy) : NULL;
	if (learn)
		describe_learning(learn, statsp);
	wn__learn_release(learn);
}

int wn_rocksdb_filterpolicy_stats(const rocksdb_filterpolicy_t *shown,
				  struct wn_rocksdb_stats *statsp)
{
	struct wn__policy *policy = shown ? wn__shim_policy(shown) : NULL;

	memset(statsp, 0, sizeof(*statsp));
	if (shown && !policy)
		return WN_ERR_INVALID;
	wn__policy_describe(policy, statsp);
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
	wn_config_destroy(policy->config);
	wn_secret_destroy(policy->secret);
	free(policy->database);
	free(policy);
}

struct wn__learn *wn__policy_engine(struct wn__policy *policy)
{
	struct wn__learn *learn;

	pthread_mutex_lock(&policy->lock);
	learn = policy->learn ? wn__learn_hold(policy->learn) : NULL;
	pthread_mutex_unlock(&policy->lock);
	return learn;
}

void wn__policy_leave_engine(struct wn__policy *policy)
{
	struct wn__learn *learn;

	pthread_mutex_lock(&policy->lock);
	learn = policy->learn;
	policy->learn = NULL;
	pthread_mutex_unlock(&policy->lock);
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
	canonical = wn__state_canonical(path);
	same = canonical && strcmp(canonical, policy->database) == 0;
	free(canonical);
	return same;
}

static int create_secret(const struct wn_secret *given, struct wn_secret **secretp)
{
	if (given)
		return wn_secret_create(wn_secret_seed(given), secretp);
	return wn_secret_create_random(secretp);
}

/* Build a filter of `keys` evenly spread keys: what is its size, its rate of errors? */
static int measure_filter(const struct wn__policy *policy, size_t keys, double *sizep,
			  double *ratep)
{
	struct wn_builder *builder;
	struct wn_filter *filter = NULL;
	struct wn_filter_info info;
	void *block = NULL;
	size_t size = 0;
	int err = wn_builder_create(policy->config, policy->secret, &builder);

	for (size_t i = 0; i < keys && !err; i++) {
		uint64_t hash = (uint64_t)i * (UINT64_MAX / keys);

		err = wn_builder_add_hash(builder, (struct wn_hash){hash, hash});
	}
	if (!err)
		err = wn_builder_finish(builder, &block, &size);
	if (!err)
		err = wn_filter_open(block, size, WN_CHECK_HEADER, policy->secret, &filter, NULL);
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

static int measure(const struct wn__policy *policy, struct wn__measures *measuresp)
{
	const size_t keys = 8192;
	double full_bytes = 0;
	int err = measure_filter(policy, 0, &measuresp->empty_bytes, &measuresp->rate);

	if (!err)
		err = measure_filter(policy, keys, &full_bytes, &measuresp->rate);
	if (!err)
		measuresp->bytes_per_key = (full_bytes - measuresp->empty_bytes) / (double)keys;
	return err;
}

/* The caller has the one reference. */
static int create_policy(const char *options, const struct wn_secret *secret,
			 struct wn__policy **policyp)
{
	struct wn__policy *policy = wn__calloc(1, sizeof(*policy));
	int err = ENOMEM;

	*policyp = NULL;
	if (!policy || pthread_mutex_init(&policy->lock, NULL) != 0) {
		free(policy);
		return err;
	}
	atomic_store_explicit(&policy->references, 1, memory_order_relaxed);
	err = wn_config_parse(options, NULL, 0, &policy->config);
	if (!err)
		err = create_secret(secret, &policy->secret);
	if (!err)
		err = measure(policy, &policy->measures);
	if (err) {
		wn__policy_release(policy);
		return err;
	}
	*policyp = policy;
	return 0;
}

/* ---- what RocksDB is shown ---------------------------------------------- */

static const struct wn__policy_calls calls = {
	.release = wn__policy_release,
	.create_builder = wn__builder_create,
	.destroy_builder = wn__builder_destroy,
	.add = wn__builder_add,
	.add_with_prefix = wn__builder_add_with_prefix,
	.count = wn__builder_count,
	.finish = wn__builder_finish,
	.give_up = wn__builder_give_up,
	.verify = wn__builder_verify,
	.keys_for_space = wn__builder_keys_for_space,
	.space_for_keys = wn__builder_space_for_keys,
	.expected_rate = wn__builder_expected_rate,
	.is_foreign = wn__reader_is_foreign,
	.open_reader = wn__reader_open,
	.close_reader = wn__reader_close,
	.query = wn__reader_query,
	.query_batch = wn__reader_query_batch,
};

const char *wn__filter_options(const char *options)
{
	return options ? options : DEFAULT_OPTIONS;
}

rocksdb_filterpolicy_t *wn__policy_show(struct wn__policy *policy, const char *options)
{
	const char *given = wn__filter_options(options);
	size_t size = strlen(ID_PREFIX) + strlen(given) + 1;
	rocksdb_filterpolicy_t *shown = NULL;
	char *id = wn__alloc(size);

	if (id) {
		snprintf(id, size, "%s%s", ID_PREFIX, given);
		shown = wn__shim_create(&calls, id, wn__policy_hold(policy));
		if (!shown)
			wn__policy_release(policy);
	}
	free(id);
	return shown;
}

static int join_engine(struct wn__policy *policy, struct wn__learn *learn, const char *database)
{
	policy->database = wn__alloc(strlen(database) + 1);
	if (!policy->database)
		return ENOMEM;
	strcpy(policy->database, database);
	policy->learn = wn__learn_hold(learn);
	policy->registry = wn__registry_hold(learn->registry);
	return 0;
}

int wn__policy_create(const char *options, const struct wn_secret *secret,
		      struct wn__learn *learn, const char *database,
		      struct wn__policy **policyp)
{
	int err;

	*policyp = NULL;
	if (!wn__shim_fits())
		return WN_ERR_MISMATCH;
	err = create_policy(wn__filter_options(options), secret, policyp);
	if (!err && learn)
		err = join_engine(*policyp, learn, database);
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
	int err = wn__policy_create(options, secret, NULL, NULL, &policy);

	*policyp = NULL;
	if (err)
		return err;
	*policyp = wn__policy_show(policy, options);
	wn__policy_release(policy);
	return *policyp ? 0 : ENOMEM;
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

__attribute__((constructor)) static void register_policies(void)
{
	wn__shim_register(make_policy);
}
