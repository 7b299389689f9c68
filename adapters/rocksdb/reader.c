/* reader.c - asking one filter block. */
#include <stdlib.h>

#include <winnow/block.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "kinds/kind.h"
#include "policy.h"

/* Shorter than any filter of RocksDB's that denies something. What is that short was cut off,
 * and RocksDB reads a block without bits as one without keys: a "no" too many. */
#define FOREIGN_MIN_SIZE 16

struct reader {
	struct wn__policy *policy;
	struct wn_filter *filter; /* its secret is borrowed from the policy, if it is that one */
	struct wn__lessons *lessons; /* NULL: it does not learn */
	struct wn__keylist list;          /* what the trace is told; only if it learns */
	bool tells_queries;          /* to the trace */
};

bool wn__reader_is_foreign(void *shared, struct wn__bytes block)
{
	if (block.size < FOREIGN_MIN_SIZE || wn_block_is_ours(block.data, block.size))
		return false;
	wn__policy_count(shared, WN__READERS_FOREIGN, 1);
	return true;
}

/* Whatever fails here, the filter is asked as it was built. */
static void open_learned(struct reader *reader, struct wn__bytes block)
{
	struct wn__registry *registry = reader->policy->registry;
	struct wn_block_info info;

	reader->lessons = NULL;
	reader->tells_queries = registry && wn__config_wants_costs(reader->policy->config);
	if (!registry || wn_block_read(block.data, block.size, WN_CHECK_HEADER, &info, NULL) ||
	    wn__keylist_of_block(&info, &reader->list))
		return;
	wn__filter_lessons(registry, reader->filter, &reader->lessons);
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
	open_learned(reader, block);
	wn__policy_count(policy, WN__READERS_OPENED, 1);
	return reader;
}

void wn__reader_close(void *given)
{
	struct reader *reader = given;

	if (!reader)
		return;
	wn__lessons_release(reader->lessons);
	wn_filter_close(reader->filter);
	wn__policy_release(reader->policy);
	free(reader);
}

static bool ask_and_note(const struct reader *reader, struct wn_hash hash)
{
	struct wn_match match;

	if (!wn__filter_query_learned(reader->filter, reader->lessons, hash, &match))
		return false;
	if (wn__trace_depth() > 0)
		wn__trace_note(&reader->list, hash, &match);
	return true;
}

bool wn__reader_query(const void *given, struct wn__bytes key)
{
	const struct reader *reader = given;
	const struct wn_secret *secret;
	struct wn_hash hash;

	if (!reader)
		return true;
	secret = wn_filter_secret(reader->filter);
	hash = wn_hash(secret, key.data, key.size);
	if (reader->tells_queries)
		wn__trace_ask(wn_secret_id(secret), hash);
	if (!reader->lessons)
		return wn_filter_query_hash(reader->filter, hash, NULL);
	return ask_and_note(reader, hash);
}

void wn__reader_query_batch(const void *given, const struct wn__bytes *keys, size_t count,
			    bool *answersp)
{
	const struct reader *reader = given;
	const struct wn_filter *filter = reader ? reader->filter : NULL;
	struct wn_hash hashes[WN__MAX_BATCH] = {{0, 0}};

	for (size_t i = 0; i < count && filter; i++)
		hashes[i] = wn_hash(wn_filter_secret(filter), keys[i].data, keys[i].size);
	wn_filter_query_batch(filter, hashes, count, answersp);
	for (size_t i = 0; i < count && filter && reader->lessons; i++)
		answersp[i] = answersp[i] && ask_and_note(reader, hashes[i]);
}
