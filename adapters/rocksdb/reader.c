/* reader.c - asking one filter block. */
#include <stdlib.h>
#include <string.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "base/alloc.h"
#include "learn/reader.h"
#include "policy.h"

/* Shorter than any filter of RocksDB's that denies something. What is that short was cut off,
 * and RocksDB reads a block without bits as one without keys: a "no" too many. */
#define FOREIGN_MIN_SIZE 16

struct reader {
	struct wn__policy *policy;
	struct wn__filter_reader *filter; /* its secret is the policy's, if it is that one */
};

bool wn__reader_is_foreign(void *shared, struct wn__bytes block)
{
	struct wn__policy *policy = shared;

	/* RocksDB's filters hash keys as they are. */
	if (block.size < FOREIGN_MIN_SIZE || wn_block_is_ours(block.data, block.size) ||
	    policy->canonical.function)
		return false;
	wn__policy_count(policy, readers_foreign, 1);
	return true;
}

static int open_filter(const struct wn__policy *policy, struct wn__bytes block,
		       struct wn__filter_reader **filterp)
{
	int err = wn__filter_reader_open(block.data, block.size, policy->secret, policy->registry,
					 filterp);

	if (!err && !wn__policy_may_ask(policy, wn__filter_reader_secret(*filterp))) {
		wn__filter_reader_close(*filterp);
		*filterp = NULL;
		err = WN_ERR_MISMATCH;
	}
	return err;
}

void *wn__reader_open(void *shared, struct wn__bytes block)
{
	struct wn__policy *policy = shared;
	struct reader *reader = wn__alloc(sizeof(*reader));

	if (!reader || open_filter(policy, block, &reader->filter)) {
		free(reader);
		wn__policy_count(policy, readers_refused, 1);
		return NULL;
	}
	reader->policy = wn__policy_hold(policy);
	wn__policy_count(policy, readers_opened, 1);
	return reader;
}

void wn__reader_close(void *given)
{
	struct reader *reader = given;

	if (!reader)
		return;
	wn__filter_reader_close(reader->filter);
	wn__policy_release(reader->policy);
	free(reader);
}

bool wn__reader_query(const void *given, struct wn__bytes key)
{
	const struct reader *reader = given;
	struct wn_hash hash;

	if (!reader || !wn__policy_hash(reader->policy, wn__filter_reader_secret(reader->filter),
					key.data, key.size, &hash))
		return true;
	return wn__filter_reader_ask(reader->filter, hash);
}

void wn__reader_query_batch(const void *given, const struct wn__bytes *keys, size_t count,
			    bool *answersp)
{
	const struct reader *reader = given;
	struct wn_hash hashes[WN__MAX_BATCH] = {{0, 0}};
	bool known[WN__MAX_BATCH];

	if (!reader) {
		memset(answersp, true, count * sizeof(*answersp));
		return;
	}
	for (size_t i = 0; i < count; i++)
		known[i] = wn__policy_hash(reader->policy,
					   wn__filter_reader_secret(reader->filter), keys[i].data,
					   keys[i].size, &hashes[i]);
	wn__filter_reader_ask_batch(reader->filter, hashes, count, answersp);
	for (size_t i = 0; i < count; i++)
		answersp[i] = answersp[i] || !known[i];
}
