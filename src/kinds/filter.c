/* filter.c - what all kinds of filters share: opening, asking, describing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "kind.h"

/* ---- open --------------------------------------------------------------- */

static bool is_secret_of(const struct wn_secret *secret, const struct wn_block_info *info)
{
	return secret && memcmp(secret->seed, info->seed, WN_SEED_SIZE) == 0;
}

static int settle_secret(struct wn_filter *filter, const struct wn_secret *secret)
{
	int err;

	if (is_secret_of(secret, &filter->info)) {
		filter->secret = secret;
		return 0;
	}
	err = wn_secret_create(filter->info.seed, &filter->owned_secret);
	filter->secret = filter->owned_secret;
	return err;
}

static int open_kind(struct wn_filter *filter, enum wn_check check, const char **reasonp)
{
	int err;

	filter->kind = wn__kind_by_id(filter->info.kind);
	if (!filter->kind) {
		*reasonp = "a filter kind this library does not know";
		return WN_ERR_VERSION;
	}
	filter->query = filter->kind->query;
	filter->query_batch = filter->kind->query_batch;
	filter->query_from = filter->kind->query_from;
	err = filter->kind->open(filter, check, reasonp);
	filter->asker = (struct wn__asker){filter->state, filter->secret, NULL};
	return err;
}

int wn_filter_open(const void *block, size_t size, enum wn_check check,
		   const struct wn_secret *secret, struct wn_filter **filterp,
		   const char **reasonp)
{
	const char *unwanted;
	struct wn_filter *filter;
	int err;

	if (!reasonp)
		reasonp = &unwanted;
	*reasonp = NULL;
	*filterp = NULL;
	filter = wn__calloc(1, sizeof(*filter));
	if (!filter) {
		err = ENOMEM;
		goto err;
	}
	filter->block_size = size;
	err = wn_block_read(block, size, check, &filter->info, reasonp);
	if (err)
		goto err;
	err = settle_secret(filter, secret);
	if (err)
		goto err;
	err = open_kind(filter, check, reasonp);
	if (err)
		goto err;
	*filterp = filter;
	return 0;
err:
	if (!*reasonp)
		*reasonp = wn_strerror(err);
	if (filter)
		wn_secret_destroy(filter->owned_secret);
	free(filter);
	return err;
}

void wn_filter_close(struct wn_filter *filter)
{
	if (!filter)
		return;
	filter->kind->close(filter);
	wn_secret_destroy(filter->owned_secret);
	free(filter);
}

/* ---- ask ---------------------------------------------------------------- */

static bool say_maybe(struct wn_match *matchp)
{
	if (matchp)
		*matchp = (struct wn_match){ .known = false };
	return true;
}

/* Out of line, so that the common case needs no stack frame for it. */
static bool __attribute__((noinline)) query_any(const struct wn_filter *filter, const void *key,
						size_t size, struct wn_match *matchp)
{
	if (!filter)
		return say_maybe(matchp);
	return filter->query(filter->state, wn__hash_key(filter->secret, key, size), matchp);
}

bool wn_filter_query(const struct wn_filter *filter, const void *key, size_t size,
		     struct wn_match *matchp)
{
	if (WN__LIKELY(filter && !matchp && size - WN__SHORT_MIN < WN__SHORT_SIZES) &&
	    WN__LIKELY(filter->ask_short))
		return filter->ask_short(&filter->asker, key, size);
	return query_any(filter, key, size, matchp);
}

bool wn_filter_query_hash(const struct wn_filter *filter, struct wn_hash hash,
			  struct wn_match *matchp)
{
	if (!filter)
		return say_maybe(matchp);
	return filter->query(filter->state, hash, matchp);
}

void wn_filter_query_batch(const struct wn_filter *filter, const struct wn_hash *hashes,
			   size_t count, bool *answersp)
{
	if (filter) {
		filter->query_batch(filter->state, hashes, count, answersp);
		return;
	}
	for (size_t i = 0; i < count; i++)
		answersp[i] = true;
}

#define BATCH ((size_t)32)

/* For kinds that have no function for it. */
static void ask_by_hashes(const struct wn_filter *filter, const struct wn__asker *asker,
			  const struct wn_key *keys, size_t count, bool *answersp)
{
	struct wn_hash hashes[BATCH] = {{0, 0}};
	struct wn_match match;

	for (size_t i = 0; i < count; i++)
		hashes[i] = wn__hash_key(asker->secret, keys[i].data, keys[i].size);
	filter->query_batch(asker->state, hashes, count, answersp);
	if (!asker->maybe)
		return;
	for (size_t i = 0; i < count; i++)
		if (answersp[i])
			answersp[i] = filter->query(asker->state, hashes[i], &match) &&
				      asker->maybe(asker, hashes[i], &match);
}

void wn__filter_ask_batch(const struct wn_filter *filter, const struct wn__asker *asker,
			  const struct wn_key *keys, size_t count, bool *answersp)
{
	if (WN__LIKELY(filter->ask_batch)) {
		filter->ask_batch(asker, keys, count, answersp);
		return;
	}
	for (size_t at = 0; at < count; at += BATCH)
		ask_by_hashes(filter, asker, keys + at, count - at < BATCH ? count - at : BATCH,
			      answersp + at);
}

void wn_filter_query_keys(const struct wn_filter *filter, const struct wn_key *keys, size_t count,
			  bool *answersp)
{
	if (filter) {
		wn__filter_ask_batch(filter, &filter->asker, keys, count, answersp);
		return;
	}
	for (size_t i = 0; i < count; i++)
		answersp[i] = true;
}

const struct wn_secret *wn_filter_secret(const struct wn_filter *filter)
{
	return filter->secret;
}

void wn_filter_describe(const struct wn_filter *filter, struct wn_filter_info *infop)
{
	memset(infop, 0, sizeof(*infop));
	infop->kind = filter->kind->name;
	memcpy(infop->id, filter->info.id, sizeof(infop->id));
	infop->key_count = filter->info.key_count;
	if (infop->key_count)
		infop->bits_per_key = (double)filter->block_size * 8 / (double)infop->key_count;
	filter->kind->describe(filter, infop);
}

double wn_filter_fact_of(const struct wn_filter_info *info, const char *name)
{
	for (unsigned i = 0; i < info->fact_count; i++)
		if (strcmp(info->facts[i].name, name) == 0)
			return info->facts[i].value;
	return 0;
}

void wn__add_fact(struct wn_filter_fact *facts, unsigned *countp, const char *name, double value)
{
	if (*countp < WN_FILTER_FACTS)
		facts[(*countp)++] = (struct wn_filter_fact){name, value};
}

int wn__filter_clusters(const struct wn_filter *filter, wn__cluster_fn *visit, void *context)
{
	if (!filter->kind->clusters)
		return WN_ERR_INVALID;
	return filter->kind->clusters(filter, visit, context);
}
