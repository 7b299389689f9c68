/* reader.c - asking one filter block. */
#include <stdlib.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "base/alloc.h"
#include "learn/reader.h"
#include "policy.h"

/* Shorter than any filter of RocksDB's that denies something. What is that short was cut off,
 * and RocksDB reads a block without bits as one without keys: a "no" too many. */
#define FOREIGN_MIN_SIZE 16

struct wn__reader {
	struct wn__filter_reader filter; /* first; its secret is the policy's, if it is that one */
	struct wn__policy *policy;
};

bool wn__reader_is_foreign(void *shared, struct wn__bytes block)
{
	struct wn__policy *policy = ((const struct wn__recipe *)shared)->policy;

	/* RocksDB's filters hash keys as they are. */
	if (block.size < FOREIGN_MIN_SIZE || wn_block_is_ours(block.data, block.size) ||
	    policy->canonical.function)
		return false;
	wn__policy_count(policy, readers_foreign, 1);
	return true;
}

static bool say_maybe(const struct wn__asker *asker, const void *key, size_t size)
{
	(void)asker;
	(void)key;
	(void)size;
	return true;
}

/* Of a block that could not be opened. Never written. */
static struct wn__reader maybe_reader = {.filter = {.ask_short = say_maybe}};

/* Keys that are hashed in the user's way, and a reader that can only say "maybe". */
static bool query_canonically(const struct wn__reader *reader, const void *key, size_t size)
{
	struct wn_hash hash;

	return reader == &maybe_reader ||
	       !wn__policy_hash(reader->policy, wn__filter_reader_secret(&reader->filter), key,
				size, &hash) ||
	       wn__filter_reader_ask(&reader->filter, hash);
}

static bool ask_canonically(const struct wn__asker *asker, const void *key, size_t size)
{
	/* The asker is the filter reader's, and that is the reader's. */
	return query_canonically((const void *)asker, key, size);
}

/* Keys whose hash is not known: a lookup's long key in its first filter, other keys than the
 * lookup's, filters under another secret. */
static bool __attribute__((noinline)) query_anew(const struct wn__reader *reader, const void *key,
						 size_t size)
{
	const struct wn_secret *secret = wn__filter_reader_key_secret(&reader->filter);
	struct wn__lookup *lookup = wn__current_lookup;

	if (WN__UNLIKELY(!secret))
		return query_canonically(reader, key, size);
	if (lookup)
		return wn__filter_reader_ask(&reader->filter,
					     wn__lookup_hash_any(lookup, secret, key, size));
	return wn__filter_reader_ask(&reader->filter, wn__hash_key(secret, key, size));
}

/* What is not the usual. */
static bool __attribute__((noinline)) query_any(const struct wn__reader *reader, const void *key,
						size_t size)
{
	const struct wn_secret *secret = wn__filter_reader_key_secret(&reader->filter);
	struct wn__lookup *lookup = wn__current_lookup;

	if (lookup && wn__lookup_has_longer(lookup, secret, key, size))
		return wn__filter_reader_ask_hashed(&reader->filter, lookup);
	return query_anew(reader, key, size);
}

static int open_filter(const struct wn__policy *policy, struct wn__bytes block,
		       struct wn__filter_reader *filter)
{
	int err = wn__filter_reader_init(filter, block.data, block.size, policy->secret,
					 policy->registry);

	if (err)
		return err;
	if (!wn__policy_may_ask(policy, wn__filter_reader_secret(filter))) {
		wn__filter_reader_fini(filter);
		return WN_ERR_MISMATCH;
	}
	if (policy->canonical.function)
		wn__filter_reader_hash_by(filter, ask_canonically);
	return 0;
}

struct wn__reader *wn__reader_open(void *shared, struct wn__bytes block)
{
	struct wn__policy *policy = ((const struct wn__recipe *)shared)->policy;
	struct wn__reader *reader = wn__alloc_aligned(64, (sizeof(*reader) + 63) & ~(size_t)63);

	if (!reader || open_filter(policy, block, &reader->filter)) {
		free(reader);
		wn__policy_count(policy, readers_refused, 1);
		return &maybe_reader;
	}
	reader->policy = wn__policy_hold(policy);
	wn__policy_count(policy, readers_opened, 1);
	return reader;
}

void wn__reader_close(struct wn__reader *reader)
{
	if (reader == &maybe_reader)
		return;
	wn__filter_reader_fini(&reader->filter);
	wn__policy_release(reader->policy);
	free(reader);
}

bool WN__HOT wn__reader_query(const struct wn__reader *reader, const void *key, size_t size)
{
	bool answer;

	if (WN__LIKELY(wn__filter_reader_ask_quickly(&reader->filter, key, size, &answer)))
		return answer;
	return query_any(reader, key, size);
}

/* The frame of a batch has no key: each is hashed for each table. */
void wn__reader_query_batch(const struct wn__reader *reader, const struct wn__bytes *const *keys,
			    size_t count, bool *answersp)
{
	const struct wn_secret *secret = wn__filter_reader_key_secret(&reader->filter);
	struct wn_key given[WN__MAX_BATCH];

	if (WN__UNLIKELY(!secret)) {
		for (size_t i = 0; i < count; i++)
			answersp[i] = query_canonically(reader, keys[i]->data, keys[i]->size);
		return;
	}
	for (size_t i = 0; i < count; i++)
		given[i] = (struct wn_key){keys[i]->data, keys[i]->size};
	wn__filter_reader_ask_batch(&reader->filter, given, count, answersp);
}
