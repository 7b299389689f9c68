/* builder.c - one table's filter, or its partitions one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/filter.h>

#include "base/alloc.h"
#include "kinds/block_build.h"
#include "learn/new_table.h"
#include "policy.h"

/* The last of a row that mostly repeats itself. */
struct last {
	struct wn_hash hash;
	bool known;
};

struct builder {
	struct wn__policy *policy;
	struct wn__measures measures; /* the recipe's */
	struct wn_builder *keys;
	struct last key, prefix; /* of add_with_prefix() */
	struct wn__new_table *table; /* NULL: it does not learn */
	bool verify;
	bool finished; /* keys are still there, for verify() only */
	bool failed;   /* a key is missing: there can be no filter */
};

/* A table that the database knows nothing of, as SstFileWriter makes them, has no number. */
static void begin_table(struct builder *builder)
{
	struct wn__learn *learn = wn__policy_learn(builder->policy);

	if (learn)
		wn__new_table_begin(learn, wn__shim_building(builder->policy), &builder->table);
	wn__learn_release(learn);
}

/* RocksDB frees blocks itself. */
static const struct wn__block_memory block_memory = {wn__shim_new, wn__shim_delete};

void *wn__builder_create(void *shared, bool verify)
{
	const struct wn__recipe *recipe = shared;
	struct wn__policy *policy = recipe->policy;
	struct builder *builder = wn__calloc(1, sizeof(*builder));

	if (!builder || wn_builder_create(recipe->config, policy->secret, &builder->keys)) {
		free(builder);
		wn__policy_count(policy, filters_given_up, 1);
		return NULL;
	}
	wn__builder_use_memory(builder->keys, &block_memory);
	builder->policy = wn__policy_hold(policy);
	builder->measures = recipe->measures;
	begin_table(builder);
	builder->verify = verify;
	return builder;
}

void wn__builder_destroy(void *given)
{
	struct builder *builder = given;

	wn__new_table_end(builder->table);
	wn_builder_destroy(builder->keys);
	wn__policy_release(builder->policy);
	free(builder);
}

static void empty_builder(struct builder *builder)
{
	wn_builder_reset(builder->keys);
	builder->key.known = false;
	builder->prefix.known = false;
	builder->finished = false;
	builder->failed = false;
}

void wn__builder_add(void *given, struct wn__bytes key)
{
	struct builder *builder = given;
	struct wn_hash hash;

	if (builder->finished)
		empty_builder(builder);
	if (!wn__policy_hash(builder->policy, builder->policy->secret, key.data, key.size, &hash) ||
	    wn_builder_add_hash(builder->keys, hash))
		builder->failed = true;
}

static void add_unless_last(struct builder *builder, struct wn__bytes key, struct last *last)
{
	struct wn_hash hash;

	if (!wn__policy_hash(builder->policy, builder->policy->secret, key.data, key.size, &hash)) {
		builder->failed = true;
		return;
	}
	if (last->known && wn_hash_compare(last->hash, hash) == 0)
		return;
	*last = (struct last){hash, true};
	if (wn_builder_add_hash(builder->keys, hash))
		builder->failed = true;
}

void wn__builder_add_with_prefix(void *given, struct wn__bytes key, struct wn__bytes prefix)
{
	struct builder *builder = given;

	if (builder->finished)
		empty_builder(builder);
	add_unless_last(builder, prefix, &builder->prefix);
	add_unless_last(builder, key, &builder->key);
}

/* A key that could not be added counts: from 9.6 on RocksDB does not finish a partition of no
 * keys, and asks another one for those keys, which would deny them. */
size_t wn__builder_count(const void *given)
{
	const struct builder *builder = given;

	return builder->finished ? 0 : wn_builder_count(builder->keys) + builder->failed;
}

static void count_filter(const struct builder *builder, size_t size)
{
	wn__policy_count(builder->policy, filters_built, 1);
	wn__policy_count(builder->policy, filter_keys, wn__builder_info(builder->keys)->key_count);
	wn__policy_count(builder->policy, filter_bytes, size);
}

void wn__builder_finish(void *given, void **blockp, size_t *sizep)
{
	struct builder *builder = given;

	*blockp = NULL;
	*sizep = 0;
	if (builder->finished)
		empty_builder(builder);
	wn__new_table_carry_over(builder->table, builder->keys);
	if (builder->failed || wn_builder_finish(builder->keys, blockp, sizep)) {
		wn__policy_count(builder->policy, filters_given_up, 1);
	} else {
		count_filter(builder, *sizep);
		wn__new_table_built(builder->table, builder->keys, builder->verify);
	}
	if (builder->verify && *blockp)
		builder->finished = true;
	else
		empty_builder(builder);
}

bool wn__builder_verify(void *given, struct wn__bytes block)
{
	const struct builder *builder = given;
	struct wn_filter *filter;
	bool good;
	int err = wn_filter_open(block.data, block.size, WN_CHECK_ALL, builder->policy->secret,
				 &filter, NULL);

	if (err)
		return err == ENOMEM; /* says nothing about the block */
	good = wn__builder_is_in(builder->keys, filter);
	wn_filter_close(filter);
	return good;
}

size_t wn__builder_keys_for_space(const void *given, size_t bytes)
{
	const struct wn__measures *measures = &((const struct builder *)given)->measures;
	double left = (double)bytes - measures->empty_bytes;

	return left > 0 ? (size_t)(left / measures->bytes_per_key) : 0;
}

size_t wn__builder_space_for_keys(const void *given, size_t keys)
{
	const struct wn__measures *measures = &((const struct builder *)given)->measures;

	return (size_t)(measures->empty_bytes + measures->bytes_per_key * (double)keys + 1);
}

double wn__builder_expected_rate(const void *given)
{
	return ((const struct builder *)given)->measures.rate;
}
