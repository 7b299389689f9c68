/* reader.c - asking one filter block. */
#include <stdlib.h>

#include <winnow/block.h>
#include <winnow/filter.h>

#include "alloc.h"
#include "policy.h"

/* Shorter than any filter of RocksDB's that denies something. What is that short was cut off,
 * and RocksDB reads a block without bits as one without keys: a "no" too many. */
#define FOREIGN_MIN_SIZE 16

struct reader {
	struct wn__policy *policy;
	struct wn_filter *filter; /* its secret is borrowed from the policy, if it is that one */
};

bool wn__reader_is_foreign(void *shared, struct wn__bytes block)
{
	if (block.size < FOREIGN_MIN_SIZE || wn_block_is_ours(block.data, block.size))
		return false;
	wn__policy_count(shared, WN__READERS_FOREIGN, 1);
	return true;
}

void *wn__reader_open(void *shared, struct wn__bytes block)
{
	struct wn__policy *policy = shared;
	struct reader *reader = wn__alloc(sizeof(*reader));

	/* RocksDB has checksummed the bytes. */
	if (!reader || wn_filter_open(block.data, block.size, WN_CHECK_HEADER, policy->secret,
				      &reader->filter, NULL)) {
		free(reader);
		wn__policy_count(policy, WN__READERS_REFUSED, 1);
		return NULL;
	}
	reader->policy = wn__policy_hold(policy);
	wn__policy_count(policy, WN__READERS_OPENED, 1);
	return reader;
}

void wn__reader_close(void *given)
{
	struct reader *reader = given;

	if (!reader)
		return;
	wn_filter_close(reader->filter);
	wn__policy_release(reader->policy);
	free(reader);
}

bool wn__reader_query(const void *given, struct wn__bytes key)
{
	const struct reader *reader = given;

	return !reader || wn_filter_query(reader->filter, key.data, key.size, NULL);
}

void wn__reader_query_batch(const void *given, const struct wn__bytes *keys, size_t count,
			    bool *answersp)
{
	const struct reader *reader = given;
	const struct wn_filter *filter = reader ? reader->filter : NULL;
	struct wn_hash hashes[WN__MAX_BATCH];

	for (size_t i = 0; i < count && filter; i++)
		hashes[i] = wn_hash(wn_filter_secret(filter), keys[i].data, keys[i].size);
	wn_filter_query_batch(filter, hashes, count, answersp);
}
