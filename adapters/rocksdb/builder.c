/* builder.c - one table's filter, or its partitions one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "policy.h"

/* The last of a row that mostly repeats itself. */
struct last {
	struct wn_hash hash;
	bool known;
};

struct builder {
	struct wn__policy *policy;
	struct wn_builder *keys;
	struct last key, prefix; /* of add_with_prefix() */
	const struct wn__negatives_view *view; /* what it is built against; NULL: not yet */
	uint64_t file; /* the table's number; 0: not known */
	unsigned char last_id[WN_BLOCK_ID_SIZE]; /* of the run handed over last, */
	bool handed_over;                        /* if any was */
	bool verify;
	bool finished; /* keys are still there, for verify() only */
	bool failed;   /* a key is missing: there can be no filter */
};

void *wn__builder_create(void *shared, bool verify)
{
	struct wn__policy *policy = shared;
	struct builder *builder = wn__calloc(1, sizeof(*builder));

	if (!builder || wn_builder_create(policy->config, policy->secret, &builder->keys)) {
		free(builder);
		wn__policy_count(policy, WN__FILTERS_GIVEN_UP, 1);
		return NULL;
	}
	builder->policy = wn__policy_hold(policy);
	builder->file = wn__shim_building(policy);
	builder->verify = verify;
	return builder;
}

static void end_table(const struct builder *builder)
{
	struct wn__learn *learn = wn__policy_engine(builder->policy);

	if (learn)
		wn__worker_end_table(learn, builder->last_id);
	wn__learn_release(learn);
}

void wn__builder_destroy(void *given)
{
	struct builder *builder = given;

	if (builder->handed_over)
		end_table(builder);
	wn__negatives_unview(builder->view);
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

	if (builder->finished)
		empty_builder(builder);
	if (wn_builder_add(builder->keys, key.data, key.size))
		builder->failed = true;
}

static void add_unless_last(struct builder *builder, struct wn__bytes key, struct last *last)
{
	struct wn_hash hash = wn_hash(builder->policy->secret, key.data, key.size);

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

size_t wn__builder_count(const void *given)
{
	const struct builder *builder = given;

	return builder->finished ? 0 : wn_builder_count(builder->keys);
}

static void count_filter(const struct builder *builder, size_t size)
{
	size_t keys;

	wn_builder_hashes(builder->keys, &keys);
	wn__policy_count(builder->policy, WN__FILTERS_BUILT, 1);
	wn__policy_count(builder->policy, WN__FILTER_KEYS, keys);
	wn__policy_count(builder->policy, WN__FILTER_BYTES, size);
}

void wn__builder_give_up(void *given)
{
	const struct builder *builder = given;

	wn__policy_count(builder->policy, WN__FILTERS_GIVEN_UP, 1);
}

/* What other filters were wrong about, this one will not be. The view is that of the table's
 * first partition: a table may have thousands, and feedback goes on. */
static void carry_over(struct builder *builder, struct wn__learn *learn)
{
	if (!learn)
		return;
	if (!builder->view)
		builder->view = wn__negatives_view(learn->negatives);
	wn__learn_carry_over(learn, builder->view, builder->keys);
}

/* A table that the database knows nothing of, as SstFileWriter makes them, has no number. Its
 * end would not be told, so its run would stay for ever: it does not learn. */
static void hand_over_run(struct builder *builder, struct wn__learn *learn, const void *block,
			  size_t size)
{
	struct wn_block_info info;
	struct wn__keylist list;
	size_t keys;
	const struct wn_hash *hashes = wn_builder_hashes(builder->keys, &keys);

	if (!learn || wn_block_read(block, size, WN_CHECK_HEADER, &info, NULL) ||
	    wn__keylist_of_block(&info, &list) || list.key_count != keys)
		return;
	list.owner = builder->file;
	if (!list.owner) {
		wn__learn_count(learn, WN__RUNS_LOST, 1);
		return;
	}
	wn__worker_hold(learn, &list, hashes);
	memcpy(builder->last_id, list.id, sizeof(builder->last_id));
	builder->handed_over = true;
}

void wn__builder_finish(void *given, void **blockp, size_t *sizep)
{
	struct builder *builder = given;
	struct wn__learn *learn = wn__policy_engine(builder->policy);

	*blockp = NULL;
	*sizep = 0;
	if (builder->finished)
		empty_builder(builder);
	carry_over(builder, learn);
	if (builder->failed || wn_builder_finish(builder->keys, blockp, sizep)) {
		wn__builder_give_up(builder);
	} else {
		count_filter(builder, *sizep);
		hand_over_run(builder, learn, *blockp, *sizep);
	}
	wn__learn_release(learn);
	if (builder->verify && *blockp)
		builder->finished = true;
	else
		empty_builder(builder);
}

bool wn__builder_verify(void *given, struct wn__bytes block)
{
	const struct builder *builder = given;
	size_t keys;
	const struct wn_hash *hashes = wn_builder_hashes(builder->keys, &keys);
	struct wn_filter *filter;
	bool good = true;
	int err = wn_filter_open(block.data, block.size, WN_CHECK_ALL, builder->policy->secret,
				 &filter, NULL);

	if (err)
		return err == ENOMEM; /* says nothing about the block */
	for (size_t i = 0; i < keys && good; i++)
		good = wn_filter_query_hash(filter, hashes[i], NULL);
	wn_filter_close(filter);
	return good;
}

size_t wn__builder_keys_for_space(const void *given, size_t bytes)
{
	const struct wn__measures *measures = &((const struct builder *)given)->policy->measures;
	double left = (double)bytes - measures->empty_bytes;

	return left > 0 ? (size_t)(left / measures->bytes_per_key) : 0;
}

size_t wn__builder_space_for_keys(const void *given, size_t keys)
{
	const struct wn__measures *measures = &((const struct builder *)given)->policy->measures;

	return (size_t)(measures->empty_bytes + measures->bytes_per_key * (double)keys + 1);
}

double wn__builder_expected_rate(const void *given)
{
	return ((const struct builder *)given)->policy->measures.rate;
}
