/* table.c - building the filters of a table.
 *
 * A filter covers the keys of one data block, and is asked for what lies between them and its
 * neighbours'. The known absent keys of that range are tried on the new filter right away: where
 * it is wrong, the stored key's hash is still at hand, and a lesson is made. A seesaw counting
 * filter is built against them. */
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "journal.h"
#include "misses.h"
#include "policy.h"
#include "base/secret.h"
#include "kinds/aqf/aqf_small.h"
#include "kinds/sscf/sscf_small.h"

/* A filter that is built, while the keys behind it are not known. */
struct built {
	unsigned char *bytes; /* a copy */
	size_t size;
	struct wn_hash *hashes;
	uint32_t count;
	struct wn__small_id id;
	char *last_key;
	size_t last_size;
};

struct table {
	struct wn__policy *policy;
	uint64_t number;
	struct wn__pack_writer *pack; /* NULL: its filters are frozen */
	struct wn__miss_list *misses;
	size_t next_miss; /* the first behind the last filter's keys */
	bool begun;       /* sscf: there is a last filter */
	struct built last;
};

/* LevelDB builds one table at a time on a thread. */
static _Thread_local struct table *building;

static void empty(struct built *built)
{
	free(built->bytes);
	free(built->hashes);
	free(built->last_key);
	*built = (struct built){0};
}

/* ---- a table's beginning and end ---------------------------------------- */

void *wn__begin_table(void *given, uint64_t number)
{
	struct wn__policy *policy = given;
	struct table *table = wn__calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->policy = policy;
	table->number = number;
	/* One that a crash left behind. */
	wn__packs_retire(policy->packs, number, wn__forget_filter, policy);
	if (!policy->filter.sscf && wn__pack_begin(policy->packs, number, &table->pack))
		wn__count(policy, WN__PACKS_LOST, 1);
	table->misses = wn__misses_list(policy->misses, false);
	building = table;
	return table;
}

void wn__end_table(void *given, void *ended)
{
	struct wn__policy *policy = given;
	struct table *table = ended;

	if (building == table)
		building = NULL;
	if (table->pack && wn__pack_finish(table->pack))
		wn__count(policy, WN__PACKS_LOST, 1);
	table->pack = NULL;
}

void wn__drop_table(void *given, void *dropped)
{
	struct wn__policy *policy = given;
	struct table *table = dropped;

	wn__end_table(policy, table);
	wn__misses_release(policy->misses, table->misses);
	empty(&table->last);
	free(table);
}

void wn__forget_filter(void *given, struct wn__small_id id, uint32_t count)
{
	struct wn__policy *policy = given;

	wn__small_lessons_forget(policy->lessons, id, count);
}

void wn__remove_table(void *given, uint64_t number)
{
	struct wn__policy *policy = given;

	wn__packs_retire(policy->packs, number, wn__forget_filter, policy);
}

/* ---- carrying over ------------------------------------------------------ */

static void teach(struct wn__policy *policy, const struct built *built, const struct wn__miss *miss)
{
	uint32_t indexes[WN__FRAME_MATCHES];
	uint64_t bits = wn__small_lesson_bits(miss->hash);
	struct wn__small tiny;
	int count;

	if (!wn__small_open(built->bytes, built->size, &tiny))
		return;
	count = wn__small_matches(&tiny, miss->hash, indexes, WN__FRAME_MATCHES);
	for (int i = 0; i < count && i < WN__FRAME_MATCHES; i++) {
		uint64_t stored = wn__small_lesson_bits(built->hashes[indexes[i]]);

		if (stored == bits ||
		    wn__small_lessons_learn(policy->lessons, built->id, indexes[i], stored) != 0)
			continue;
		wn__journal_add(policy->journal, built->id, indexes[i], NULL, 0);
		wn__count(policy, WN__CARRIED_OVER, 1);
	}
}

/* The first miss from `at` on that comes behind the key. Mostly it is near. */
static size_t skip_to(const struct table *table, size_t at, const char *key, size_t size)
{
	const struct wn__misses *misses = table->policy->misses;
	size_t step = 1, low = at, high = at;

	while (high < table->misses->count &&
	       wn__miss_compare(misses, table->misses->items[high].key,
				table->misses->items[high].size, key, size) <= 0) {
		low = high + 1;
		high += step;
		step *= 2;
	}
	if (high > table->misses->count)
		high = table->misses->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (wn__miss_compare(misses, table->misses->items[middle].key,
				     table->misses->items[middle].size, key, size) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Absent keys between two filters' keys may be looked for in either. */
static void carry_over(struct table *table, const struct built *built, const char *first_key,
		       size_t first_size)
{
	size_t first, end;

	if (!table->misses)
		return;
	if (!table->last.bytes) { /* nothing before the table's first key is looked for in it */
		table->next_miss = skip_to(table, 0, first_key, first_size);
	} else {
		first = skip_to(table, table->next_miss, first_key, first_size);
		for (size_t i = table->next_miss; i < first; i++)
			teach(table->policy, &table->last, &table->misses->items[i]);
	}
	end = skip_to(table, table->next_miss, built->last_key, built->last_size);
	for (size_t i = table->next_miss; i < end; i++)
		teach(table->policy, built, &table->misses->items[i]);
	table->next_miss = end;
}

static void remember(struct table *table, const unsigned char *bytes, size_t size,
		     const struct wn_hash *hashes, uint32_t count, struct wn__small_id id,
		     const char *first_key, size_t first_size, const char *last_key,
		     size_t last_size)
{
	struct built built = {
		.bytes = wn__alloc(size),
		.size = size,
		.hashes = wn__alloc(count * sizeof(*hashes)),
		.count = count,
		.id = id,
		.last_key = wn__alloc(last_size + 1),
		.last_size = last_size,
	};

	if (!built.bytes || !built.hashes || !built.last_key) {
		empty(&built);
		empty(&table->last);
		return;
	}
	memcpy(built.bytes, bytes, size);
	memcpy(built.hashes, hashes, count * sizeof(*hashes));
	memcpy(built.last_key, last_key, last_size);
	carry_over(table, &built, first_key, first_size);
	empty(&table->last);
	table->last = built;
}

/* ---- filters ------------------------------------------------------------ */

/* Register the filter, with another salt where its id is taken. False: it must not learn. */
static bool register_filter(struct table *table, struct wn__small_parts *parts,
			    unsigned char *bytes, size_t size, struct wn__small_id *idp)
{
	int err = WN_ERR_MISMATCH;

	for (parts->salt = 0; err == WN_ERR_MISMATCH && parts->salt < WN__SMALL_SALTS;
	     parts->salt++) {
		wn__small_build(parts, bytes, size);
		*idp = wn__small_id(bytes, size);
		err = wn__pack_add(table->pack, *idp, parts->hashes, parts->count);
	}
	return err == 0;
}

static void count_built(struct wn__policy *policy, uint32_t keys, size_t size)
{
	wn__count(policy, WN__FILTERS_BUILT, 1);
	wn__count(policy, WN__FILTER_KEYS, keys);
	wn__count(policy, WN__FILTER_BYTES, size);
}

static char *build(struct wn__policy *policy, const struct wn_hash *hashes, uint32_t count,
		   const char *const *keys, const size_t *sizes, int key_count, size_t *sizep)
{
	struct table *table = building && building->policy == policy ? building : NULL;
	struct wn__small_parts parts = {
		.hashes = hashes,
		.count = count,
		.remainder_bits = policy->filter.remainder_bits,
		.secret_id = policy->secret_id,
	};
	size_t size = wn__small_size(count, policy->filter.remainder_bits);
	unsigned char *bytes = size ? wn__alloc(size) : NULL;
	struct wn__small_id id;

	if (!bytes)
		return NULL;
	if (table && table->pack && register_filter(table, &parts, bytes, size, &id)) {
		remember(table, bytes, size, hashes, count, id, keys[0], sizes[0],
			 keys[key_count - 1], sizes[key_count - 1]);
	} else {
		parts.frozen = true;
		parts.salt = 0;
		wn__small_build(&parts, bytes, size);
		wn__count(policy, WN__FILTERS_FROZEN, 1);
	}
	count_built(policy, count, size);
	*sizep = size;
	return (char *)bytes;
}

/* ---- seesaw counting filters -------------------------------------------- */

/* The known absent keys that will be looked for in a filter of these keys: those since the last
 * filter's keys; and of those behind its own, up to the next filter's unknown first key, about as
 * many as lie between two keys. */
static struct wn__small_sscf_negative *find_negatives(struct table *table, const char *const *keys,
						     const size_t *sizes, int count,
						     size_t *foundp)
{
	struct wn__small_sscf_negative *negatives;
	const struct wn__miss *items = table->misses->items;
	size_t first, end, more;

	*foundp = 0;
	/* Nothing before the table's first key is looked for in it. */
	first = table->begun ? table->next_miss : skip_to(table, 0, keys[0], sizes[0]);
	end = skip_to(table, first, keys[count - 1], sizes[count - 1]);
	table->begun = true;
	table->next_miss = end;
	more = 1 + 2 * (end - first) / (size_t)count;
	if (more > table->misses->count - end)
		more = table->misses->count - end;
	end += more;
	if (first == end)
		return NULL;
	negatives = wn__alloc((end - first) * sizeof(*negatives));
	for (size_t i = first; negatives && i < end; i++)
		negatives[(*foundp)++] =
			(struct wn__small_sscf_negative){items[i].hash, items[i].times};
	return negatives;
}

static char *build_sscf(struct wn__policy *policy, const struct wn_hash *hashes, uint32_t distinct,
			const char *const *keys, const size_t *sizes, int count, size_t *sizep)
{
	struct table *table = building && building->policy == policy ? building : NULL;
	struct wn__small_sscf_parts parts = {
		.hashes = hashes,
		.count = distinct,
		.bits = policy->filter.bits,
		.secret_id = policy->secret_id,
	};
	size_t size = wn__small_sscf_size(distinct, policy->filter.bits);
	unsigned char *bytes = size ? wn__alloc(size) : NULL;

	if (!bytes)
		return NULL;
	if (table && table->misses)
		parts.negatives = find_negatives(table, keys, sizes, count, &parts.negative_count);
	wn__count(policy, WN__CARRIED_OVER, wn__small_sscf_build(&parts, bytes, size));
	wn__count(policy, WN__FILTERS_FROZEN, 1);
	count_built(policy, distinct, size);
	free(parts.negatives);
	*sizep = size;
	return (char *)bytes;
}

/* ---- all ---------------------------------------------------------------- */

/* One byte that every reader takes for "maybe"; LevelDB wants a result. */
static char *give_up(struct wn__policy *policy, size_t *sizep)
{
	char *bytes = malloc(2);

	wn__count(policy, WN__FILTERS_GIVEN_UP, 1);
	*sizep = bytes ? 2 : 0;
	if (bytes)
		memset(bytes, 0xff, 2);
	return bytes;
}

static bool hash_keys(const struct wn__policy *policy, const char *const *keys,
		      const size_t *sizes, int count, struct wn_hash *hashes)
{
	struct wn__canonical canonical;
	bool good = true;

	for (int i = 0; i < count && good; i++) {
		if (!policy->canonical) {
			hashes[i] = wn__hash_key(policy->secret, keys[i], sizes[i]);
			continue;
		}
		wn__canonicalize(policy, keys[i], sizes[i], &canonical);
		good = canonical.key;
		if (good)
			hashes[i] = wn__hash_key(policy->secret, canonical.key, canonical.size);
		wn__canonical_free(&canonical);
	}
	return good;
}

char *wn__create_filter(void *given, const char *const *keys, const size_t *sizes, int count,
			size_t *sizep)
{
	struct wn__policy *policy = given;
	struct wn_hash *hashes;
	char *bytes = NULL;

	*sizep = 0;
	if (count <= 0)
		return NULL;
	hashes = wn__alloc((size_t)count * sizeof(*hashes));
	if (hashes && hash_keys(policy, keys, sizes, count, hashes)) {
		size_t distinct = wn__small_sort(hashes, (size_t)count);

		if (distinct)
			bytes = (policy->filter.sscf ? build_sscf : build)(
				policy, hashes, (uint32_t)distinct, keys, sizes, count, sizep);
	}
	free(hashes);
	return bytes ? bytes : give_up(policy, sizep);
}
