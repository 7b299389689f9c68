/* policy.c - making and asking the filters of one data block each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "learn/lookup.h"
#include "open_table.h"
#include "policy.h"

#define DEFAULT_OPTIONS "aqf"

/* ---- keys --------------------------------------------------------------- */

void wn__level_canonical_free(struct wn__level_canonical *canonical)
{
	if (canonical->key != canonical->room)
		free(canonical->key);
}

void wn__level_canonicalize(const struct wn__level_policy *policy, const char *key, size_t size,
		      struct wn__level_canonical *canonicalp)
{
	canonicalp->size = 0;
	canonicalp->key = size <= sizeof(canonicalp->room) ? canonicalp->room : wn__alloc(size);
	if (!canonicalp->key)
		return;
	canonicalp->size = policy->canonical(policy->canonical_arg, key, size, canonicalp->key);
	if (canonicalp->size <= size)
		return;
	wn__level_canonical_free(canonicalp);
	canonicalp->key = NULL;
	canonicalp->size = 0;
}

/* ---- asking ------------------------------------------------------------- */

static void note_unknown(const struct wn__level_policy *policy)
{
	static const struct wn__keylist no_list;

	if (wn__current_lookup)
		wn__lookup_note(policy->registry, &no_list, (struct wn_hash){0, 0}, NULL);
}

/* Is it one of LevelDB's own? Where the tables are seen to be whole when they are opened
 * (open_table.c), the last byte tells. Otherwise the filter may be one of ours that was cut off. */
static bool is_leveldbs(const struct wn__level_policy *policy, const char *filter, size_t size,
			enum wn__small_claim claim)
{
	return claim == WN__SMALL_FOREIGN ||
	       (policy->registry && size > 1 &&
		(unsigned char)filter[size - 1] <= WN__SMALL_LEVELDB_LAST);
}

/* LevelDB's own hash keys as they are. */
static bool ask_other(struct wn__level_policy *policy, const char *key, size_t size,
		      const char *filter, size_t filter_size, enum wn__small_claim claim)
{
	if (is_leveldbs(policy, filter, filter_size, claim) && !policy->canonical) {
		if (!wn__level_bloom_may_match(policy->bloom, key, size, filter, filter_size))
			return false;
	} else {
		wn__count(&policy->metrics, readers_refused, 1);
	}
	note_unknown(policy);
	return true;
}

WN__INLINE bool answer(const struct wn__level_policy *policy, wn__small_query_fn *query,
		   const char *key, size_t size, const unsigned char *bytes, size_t bytes_size,
		   const char *filter)
{
	struct wn_hash hash = wn__lookup_hash(policy->secret, key, size);

	/* Each half on its own: gcc 12 would put them together to store them once, and the query
	 * would wait for it. */
	__asm__("" : "+r"(hash.hi), "+r"(hash.lo));
	return query(bytes, bytes_size, hash) &&
	       (!policy->registry || wn__small_reader_heed(policy->registry, filter, hash));
}

/* A filter that has a header in front, or is none. A function of its own, so
 * that nearly all lookups need no room for what it does. */
__attribute__((noinline)) static bool ask_slowly(struct wn__level_policy *policy, const char *key,
						 size_t size, const char *filter,
						 size_t filter_size)
{
	const unsigned char *bytes = (const unsigned char *)filter;
	size_t bytes_size = filter_size;
	uint32_t secret_id = policy->world.secret_id;
	enum wn__small_claim claim;
	unsigned kind;

	claim = wn__small_claims(bytes, bytes_size, secret_id, &kind);
	if (claim == WN__SMALL_WHOLE && kind == 0) {
		bytes += WN__SMALL_HEADER;
		bytes_size -= WN__SMALL_HEADER;
		claim = wn__small_claims(bytes, bytes_size, secret_id, &kind);
	}
	if (claim == WN__SMALL_WHOLE && !policy->queries[kind])
		claim = WN__SMALL_DAMAGED;
	if (claim != WN__SMALL_WHOLE)
		return ask_other(policy, key, size, filter, filter_size, claim);
	return answer(policy, policy->queries[kind], key, size, bytes, bytes_size, filter);
}

static unsigned char ask(struct wn__level_policy *policy, const char *key, size_t size,
			 const char *filter, size_t filter_size)
{
	const unsigned char *bytes = (const unsigned char *)filter;
	struct wn__lookup *lookup = wn__current_lookup;
	wn__small_query_fn *query;

	if (lookup && lookup->registry == policy->registry)
		lookup->queries++;
	query = wn__small_quick_query(policy->queries, bytes, filter_size,
				      policy->world.secret_id);
	if (WN__UNLIKELY(!query))
		return ask_slowly(policy, key, size, filter, filter_size);
	return answer(policy, query, key, size, bytes, filter_size, filter);
}

static unsigned char may_match(void *policy, const char *key, size_t size, const char *filter,
			       size_t filter_size)
{
	return ask(policy, key, size, filter, filter_size);
}

static unsigned char may_match_canonically(void *policy, const char *key, size_t size,
					   const char *filter, size_t filter_size)
{
	struct wn__level_canonical canonical;
	unsigned char answer = 1;

	wn__level_canonicalize(policy, key, size, &canonical);
	if (canonical.key)
		answer = ask(policy, canonical.key, canonical.size, filter, filter_size);
	wn__level_canonical_free(&canonical);
	return answer;
}

/* ---- building ----------------------------------------------------------- */

/* The tables that this thread is building. In the middle of a compaction's table LevelDB may write
 * one of the memtable. */
struct building {
	struct building *outer;
	const struct wn__level_policy *policy;
	struct wn__small_table *table;
};

static _Thread_local struct building *building;

static void *begin_table(void *given, uint64_t number)
{
	struct wn__level_policy *policy = given;
	struct building *begun = wn__alloc(sizeof(*begun));

	if (!begun)
		return NULL;
	begun->outer = building;
	begun->policy = policy;
	begun->table = wn__small_table_begin(policy->learn, &policy->world, number);
	building = begun;
	return begun;
}

static void end_table(void *policy, void *ended)
{
	struct building **at = &building;

	(void)policy;
	while (*at && *at != ended)
		at = &(*at)->outer;
	if (*at)
		*at = (*at)->outer;
	wn__small_table_end(((struct building *)ended)->table);
}

static void drop_table(void *policy, void *dropped)
{
	end_table(policy, dropped);
	wn__small_table_free(((struct building *)dropped)->table);
	free(dropped);
}

static void remove_table(void *given, uint64_t number)
{
	struct wn__level_policy *policy = given;

	wn__learn_table_gone(policy->learn, number);
}

static bool hash_keys(const struct wn__level_policy *policy, const char *const *keys,
		      const size_t *sizes, int count, struct wn_hash *hashes)
{
	struct wn__level_canonical canonical;
	bool good = true;

	for (int i = 0; i < count && good; i++) {
		if (!policy->canonical) {
			hashes[i] = wn__hash_key(policy->secret, keys[i], sizes[i]);
			continue;
		}
		wn__level_canonicalize(policy, keys[i], sizes[i], &canonical);
		good = canonical.key;
		if (good)
			hashes[i] = wn__hash_key(policy->secret, canonical.key, canonical.size);
		wn__level_canonical_free(&canonical);
	}
	return good;
}

/* One that every reader takes for "maybe". LevelDB takes no filter at all for "no", and whatever it
 * is given it frees: without two bytes of memory there is no right answer. LevelDB itself ends the
 * process when an allocation of its own fails. */
static char *give_up(struct wn__level_policy *policy, size_t *sizep)
{
	char *bytes = malloc(2);

	if (!bytes)
		abort();
	wn__count(&policy->metrics, filters_given_up, 1);
	memset(bytes, 0xff, 2);
	*sizep = 2;
	return bytes;
}

static char *create_filter(void *given, const char *const *keys, const size_t *sizes, int count,
			   size_t *sizep)
{
	struct wn__level_policy *policy = given;
	struct wn__small_block block = {.count = count > 0 ? (size_t)count : 0};
	unsigned char *bytes = NULL;

	*sizep = 0;
	if (block.count == 0)
		return NULL;
	block.hashes = wn__alloc(block.count * sizeof(*block.hashes));
	block.first = (struct wn__small_key){keys[0], sizes[0]};
	block.last = (struct wn__small_key){keys[count - 1], sizes[count - 1]};
	if (block.hashes && hash_keys(policy, keys, sizes, count, block.hashes))
		wn__small_table_add(building && building->policy == policy ? building->table : NULL,
				    &policy->world, &block, &bytes, sizep);
	free(block.hashes);
	return bytes ? (char *)bytes : give_up(policy, sizep);
}

/* ---- open tables -------------------------------------------------------- */

static void *begin_reading(void *policy)
{
	(void)policy;
	return wn__open_table_create();
}

static enum wn__level_read was_read(void *given, void *table, uint64_t offset, size_t size,
				   const char **bytesp)
{
	struct wn__level_policy *policy = given;
	int err = wn__open_table_watch(table, policy->registry, &policy->world, offset, size,
				       bytesp);

	if (!err)
		return WN__LEVEL_READ_ON;
	if (err < 0) {
		wn__count(&policy->metrics, readers_refused, 1);
		return WN__LEVEL_READ_REFUSED;
	}
	if (err == WN__OPEN_TABLE_LEARNS)
		wn__count(&policy->metrics, readers_opened, 1);
	else if (err == WN__OPEN_TABLE_FOREIGN)
		wn__count(&policy->metrics, readers_foreign, 1);
	return WN__LEVEL_READ_DONE;
}

static void end_reading(void *policy, void *table)
{
	(void)policy;
	wn__open_table_destroy(table);
}

const struct wn__level_calls wn__level_calls = {
	.begin_table = begin_table,
	.end_table = end_table,
	.drop_table = drop_table,
	.remove_table = remove_table,
	.begin_reading = begin_reading,
	.was_read = was_read,
	.end_reading = end_reading,
};

/* ---- the policy --------------------------------------------------------- */

const char *wn__level_filter_options(const char *options)
{
	return options ? options : DEFAULT_OPTIONS;
}

static int parse_options(const char *options, struct wn_config **configp, char *message,
			 size_t size)
{
	int err = wn_config_parse(wn__level_filter_options(options), message, size, configp);

	if (err)
		return err;
	err = wn__small_check_config(*configp, message, size);
	if (err) {
		wn_config_destroy(*configp);
		*configp = NULL;
	}
	return err;
}

static void fill_world(struct wn__level_policy *policy)
{
	bool canonical = policy->canonical != NULL;

	policy->world = (struct wn__small_world){
		.config = policy->config,
		.secret = policy->secret,
		/* A filter of hashes of another sort would deny its keys: it is a foreign one. */
		.secret_id = wn__small_secret_id(policy->secret) ^ (canonical ? UINT32_MAX : 0),
		.secret_sum = wn__small_secret_sum(policy->secret, canonical),
		.metrics = &policy->metrics,
	};
}

int wn__level_policy_create(const char *options, const struct wn_secret *secret,
		      wn_canonical_fn *canonical, void *canonical_arg, char *message, size_t size,
		      struct wn__level_policy **policyp)
{
	struct wn__level_policy *policy = wn__alloc_table(sizeof(*policy));
	int err;

	*policyp = NULL;
	if (!policy)
		return ENOMEM;
	policy->canonical = canonical;
	policy->canonical_arg = canonical_arg;
	policy->queries = wn__small_queries();
	err = parse_options(options, &policy->config, message, size);
	if (!err)
		err = wn_secret_create(wn_secret_seed(secret), &policy->secret);
	if (!err) {
		policy->bloom = wn__level_bloom_create();
		err = policy->bloom ? 0 : ENOMEM;
	}
	if (err) {
		wn__level_policy_destroy(policy);
		return err;
	}
	fill_world(policy);
	*policyp = policy;
	return 0;
}

void wn__level_policy_destroy(void *given)
{
	struct wn__level_policy *policy = given;

	if (!policy)
		return;
	if (policy->bloom)
		wn__level_bloom_destroy(policy->bloom);
	wn_secret_destroy(policy->secret);
	wn_config_destroy(policy->config);
	free(policy);
}

static const char *get_name(void *policy)
{
	(void)policy;
	return WN__FILTER_NAME;
}

static void leave_alone(void *policy)
{
	(void)policy;
}

leveldb_filterpolicy_t *wn__level_policy_show(struct wn__level_policy *policy, bool owned)
{
	return leveldb_filterpolicy_create(policy, owned ? wn__level_policy_destroy : leave_alone,
					   create_filter,
					   policy->canonical ? may_match_canonically : may_match,
					   get_name);
}

int wn_leveldb_filterpolicy(const char *text, const struct wn_secret *secret, char *message,
			    size_t message_size, leveldb_filterpolicy_t **policyp)
{
	static const unsigned char seed[WN_SEED_SIZE] = "winnow: the same for everybody.";
	struct wn_secret *common = NULL;
	struct wn__level_policy *policy;
	int err = secret ? 0 : wn_secret_create(seed, &common);

	*policyp = NULL;
	if (!err)
		err = wn__level_policy_create(text, secret ? secret : common, NULL, NULL, message,
					message_size, &policy);
	wn_secret_destroy(common);
	if (!err)
		*policyp = wn__level_policy_show(policy, true);
	return err;
}
