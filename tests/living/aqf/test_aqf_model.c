/* test_aqf_model.c - the living filter against an exact model, operation by operation.
 *
 * The model knows every key's hash, how often it is in the filter, and every
 * minirun's keys in the order of their ranks: an exact reverse map. Some keys are made
 * to be hard: equal 64-bit halves, long common prefixes. After any operation: a key
 * in the model is never denied; a false positive that was adapted against never comes
 * back from a key that was there at the time; counts are exact. */
#include <string.h>

#include <winnow/aqf.h>
#include <winnow/error.h>

#include "living/aqf_internal.h"
#include "tests/support/common.h"

#define KEYS 40000u
#define TABLE (1u << 17)
#define NONE UINT32_MAX

struct key {
	struct wn_hash hash;
	uint64_t count;       /* in the model; 0: not there */
	uint64_t inserted_at; /* operation number */
	uint64_t fixed_at;    /* when it was last adapted against; 0: never */
	uint32_t next;        /* in its chain of the table below */
};

struct model {
	uint64_t random;
	uint64_t now;
	struct wn_aqf *aqf;
	struct wn_secret *secret;
	struct key *keys;
	uint32_t *chains; /* by minirun; within a chain, ranks ascend */
	uint32_t distinct;
	uint64_t adapted, unfixable, full, grown, merged, frozen;
	unsigned remainder_bits; /* at the start */
};

static uint32_t *chain_of(struct model *model, uint64_t minirun)
{
	return &model->chains[(minirun * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - 17)];
}

static uint64_t minirun_of(const struct model *model, uint32_t key)
{
	return wn_aqf_minirun(model->aqf, model->keys[key].hash);
}

/* The key at a rank of a minirun, or NONE. */
static uint32_t key_at(struct model *model, uint64_t minirun, uint32_t rank)
{
	for (uint32_t at = *chain_of(model, minirun); at != NONE; at = model->keys[at].next)
		if (minirun_of(model, at) == minirun && rank-- == 0)
			return at;
	return NONE;
}

static uint32_t rank_of(struct model *model, uint32_t key)
{
	uint64_t minirun = minirun_of(model, key);
	uint32_t rank = 0;

	for (uint32_t at = *chain_of(model, minirun); at != key; at = model->keys[at].next) {
		expect(at != NONE);
		rank += minirun_of(model, at) == minirun;
	}
	return rank;
}

static void append_key(struct model *model, uint32_t key)
{
	uint32_t *link = chain_of(model, minirun_of(model, key));

	while (*link != NONE)
		link = &model->keys[*link].next;
	*link = key;
	model->keys[key].next = NONE;
	model->keys[key].inserted_at = model->now;
	model->distinct++;
}

static struct wn_match match_of(struct model *model, uint32_t key)
{
	struct wn_match match = wn_aqf_locate(model->aqf, model->keys[key].hash);

	match.rank = rank_of(model, key);
	return match;
}

static void unlink_key(struct model *model, uint32_t key)
{
	uint32_t *link = chain_of(model, minirun_of(model, key));

	while (*link != key)
		link = &model->keys[*link].next;
	*link = model->keys[key].next;
	model->distinct--;
}

static int fetch(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	struct model *model = arg;
	uint32_t key = key_at(model, minirun, rank);

	expect(key != NONE);
	*storedp = model->keys[key].hash;
	return 0;
}

/* ---- operations --------------------------------------------------------- */

static void insert_key(struct model *model, uint32_t key)
{
	struct wn_match match;
	int err;

	if (model->keys[key].count > 0) {
		err = wn_aqf_count_add(model->aqf, model->keys[key].hash, match_of(model, key), 1);
		expect(err == 0 || err == WN_ERR_FULL);
		model->keys[key].count += err == 0;
		model->full += err != 0;
		return;
	}
	err = wn_aqf_insert(model->aqf, model->keys[key].hash, &match);
	expect(err == 0 || err == WN_ERR_FULL);
	if (err) {
		model->full++;
		return;
	}
	append_key(model, key);
	model->keys[key].count = 1;
	expect(match.minirun == minirun_of(model, key));
	expect(match.rank == rank_of(model, key));
}

static void delete_key(struct model *model, uint32_t key)
{
	bool removed;
	int err;

	if (model->keys[key].count == 0)
		return;
	err = wn_aqf_delete(model->aqf, model->keys[key].hash, match_of(model, key), &removed);
	expect(err == 0);
	expect(removed == (model->keys[key].count == 1));
	if (removed)
		unlink_key(model, key);
	model->keys[key].count--;
}

static void check_not_repeated(struct model *model, uint32_t key, const struct wn_match *match)
{
	uint32_t culprit = key_at(model, match->minirun, match->rank);

	expect(culprit != NONE); /* a match at a rank that is not there */
	/* A fixed false positive does not come back. */
	expect(model->keys[key].fixed_at == 0 ||
	       model->keys[culprit].inserted_at > model->keys[key].fixed_at);
}

static void adapt_to(struct model *model, uint32_t key)
{
	uint32_t fixed;
	int err = wn_aqf_adapt_all(model->aqf, model->keys[key].hash, fetch, model, &fixed);

	expect(err == 0 || err == WN_ERR_FULL);
	if (err) {
		model->full++;
		return;
	}
	expect(!wn_aqf_query(model->aqf, model->keys[key].hash, NULL));
	model->keys[key].fixed_at = model->now;
	model->adapted += fixed;
}

static void query_key(struct model *model, uint32_t key)
{
	struct wn_match match;
	bool found = wn_aqf_query(model->aqf, model->keys[key].hash, &match);
	bool own = false;

	if (!found) {
		expect(model->keys[key].count == 0); /* else a stored key was denied */
		return;
	}
	expect(match.known);
	if (model->keys[key].count == 0) {
		check_not_repeated(model, key, &match);
		adapt_to(model, key);
		return;
	}
	/* One of the matches must be the key's own fingerprint. */
	do
		own = own || key_at(model, match.minirun, match.rank) == key;
	while (wn_aqf_query_next(model->aqf, model->keys[key].hash, &match));
	expect(own);
}

static void check_count(struct model *model, uint32_t key)
{
	uint64_t count;

	if (model->keys[key].count == 0)
		return;
	expect(wn_aqf_count(model->aqf, model->keys[key].hash, match_of(model, key), &count) == 0);
	expect(count == model->keys[key].count);
}

static void add_many(struct model *model, uint32_t key)
{
	uint64_t add = test_random(&model->random) >> (test_random(&model->random) % 60 + 4);
	int err;

	if (model->keys[key].count == 0)
		return;
	err = wn_aqf_count_add(model->aqf, model->keys[key].hash, match_of(model, key), add);
	if (model->keys[key].count + add < add)
		expect(err == WN_ERR_RANGE);
	else
		expect(err == 0 || err == WN_ERR_FULL);
	if (err == 0)
		model->keys[key].count += add;
}

/* Take a key out however high its count has become. */
static void purge_key(struct model *model, uint32_t key)
{
	for (int i = 0; i < 3 && model->keys[key].count > 0; i++)
		delete_key(model, key);
}

static void check_everything(struct model *model)
{
	struct wn_aqf_cursor cursor;
	struct wn_aqf_entry entry;
	struct wn_aqf_info info;
	uint64_t seen = 0, used = 0;

	for (uint32_t key = 0; key < KEYS; key++) {
		if (model->keys[key].count > 0)
			expect(wn_aqf_query(model->aqf, model->keys[key].hash, NULL));
	}
	wn_aqf_describe(model->aqf, &info);
	wn_aqf_cursor_init(&cursor, model->aqf);
	while (wn_aqf_cursor_next(&cursor, &entry)) {
		uint32_t key = key_at(model, entry.minirun, entry.rank);

		expect(key != NONE);
		expect(entry.count == model->keys[key].count);
		used += 1 + entry.extensions;
		seen++;
	}
	expect(seen == model->distinct);
	expect(info.fingerprints == model->distinct);
	expect(used + info.counters == info.used_slots);
}

static void replace_filter(struct model *model, struct wn_aqf *aqf)
{
	wn_aqf_destroy(model->aqf);
	model->aqf = aqf;
	check_everything(model);
}

static void grow_or_shrink(struct model *model)
{
	struct wn_aqf_info info;
	struct wn_aqf *aqf;
	int err;

	wn_aqf_describe(model->aqf, &info);
	if (info.remainder_bits < model->remainder_bits ||
	    (info.remainder_bits <= model->remainder_bits + 1 &&
	     info.remainder_bits > 2 && test_random(&model->random) % 2))
		err = info.remainder_bits < model->remainder_bits
			      ? wn_aqf_shrink(model->aqf, &aqf)
			      : wn_aqf_grow(model->aqf, &aqf);
	else
		err = wn_aqf_shrink(model->aqf, &aqf);
	expect(err == 0 || err == WN_ERR_FULL || err == WN_ERR_INVALID);
	if (err == 0) {
		model->grown++;
		replace_filter(model, aqf);
	}
}

/* Fill a twin of the filter with keys that are not in it, and merge the two. */
static void merge_twin(struct model *model)
{
	struct wn_aqf_info info;
	struct wn_aqf *twin, *merged;
	uint32_t added[200];
	unsigned count = 0;
	int err;

	wn_aqf_describe(model->aqf, &info);
	expect(wn__aqf_create_shape(info.slots, info.remainder_bits, info.extension_bits,
					      0, 0.9, 0.95, &twin) == 0);
	for (unsigned i = 0; i < 200; i++) {
		uint32_t key = (uint32_t)(test_random(&model->random) % KEYS);

		if (model->keys[key].count > 0)
			continue;
		if (wn_aqf_insert(twin, model->keys[key].hash, NULL) != 0)
			break;
		model->keys[key].count = 1;
		added[count++] = key;
	}
	err = wn_aqf_merge(model->aqf, twin, &merged);
	wn_aqf_destroy(twin);
	if (err) {
		expect(err == WN_ERR_FULL);
		for (unsigned i = 0; i < count; i++)
			model->keys[added[i]].count = 0;
		return;
	}
	for (unsigned i = 0; i < count; i++)
		append_key(model, added[i]);
	model->merged++;
	replace_filter(model, merged);
}

/* To a block, opened and asked, and back. */
static void freeze_and_thaw(struct model *model)
{
	struct wn_aqf_info info;
	struct wn_filter_info frozen;
	struct wn_filter *filter;
	struct wn_aqf *aqf;
	const char *reason;
	void *block;
	size_t size;

	expect(wn_aqf_freeze(model->aqf, model->secret, &block, &size) == 0);
	if (wn_filter_open(block, size, WN_CHECK_ALL, model->secret, &filter, &reason))
		ck_abort_msg("refused: %s", reason);
	for (uint32_t key = 0; key < KEYS; key++) {
		struct wn_match live = {0}, dead = {0};
		bool maybe = wn_aqf_query(model->aqf, model->keys[key].hash, &live);

		expect(wn_filter_query_hash(filter, model->keys[key].hash, &dead) == maybe);
		expect(live.minirun == dead.minirun);
		expect(live.rank == dead.rank);
	}
	wn_aqf_describe(model->aqf, &info);
	wn_filter_describe(filter, &frozen);
	expect(wn_filter_fact_of(&frozen, "used_slots") == (double)info.used_slots);
	expect(wn_filter_fact_of(&frozen, "extensions") == (double)info.extensions);
	wn_filter_close(filter);
	expect(wn_aqf_thaw(block, size, NULL, &aqf) == 0);
	free(block);
	model->frozen++;
	replace_filter(model, aqf);
}

/* ---- runs --------------------------------------------------------------- */

/* Random hashes, but one in eight is a relative of another: equal high half, equal
 * low half, or equal up to some bit. */
static void make_keys(struct model *model)
{
	for (uint32_t key = 0; key < KEYS; key++) {
		struct wn_hash hash = test_random_hash(&model->random);
		struct wn_hash other;

		if (key > 0) {
			unsigned shared = (unsigned)(test_random(&model->random) % 64);

			other = model->keys[test_random(&model->random) % key].hash;
			switch (test_random(&model->random) % 24) {
			case 0:
				hash.hi = other.hi;
				break;
			case 1:
				hash.lo = other.lo;
				break;
			case 2:
				hash.hi = other.hi ^ (hash.hi >> shared >> 1);
				break;
			default:
				break;
			}
		}
		model->keys[key] = (struct key){.hash = hash, .next = NONE};
	}
}

static void start(struct model *model, uint64_t seed)
{
	unsigned char zero[WN_SEED_SIZE] = {0};
	struct wn_aqf_options options = {0};

	*model = (struct model){.random = seed};
	model->keys = malloc(KEYS * sizeof(*model->keys));
	model->chains = malloc(TABLE * sizeof(*model->chains));
	ck_assert(model->keys && model->chains);
	memset(model->chains, 0xff, TABLE * sizeof(*model->chains));
	make_keys(model);
	options.capacity = 2000 + test_random(&model->random) % 8000;
	options.remainder_bits = 3 + (unsigned)(seed % 9);
	options.load = seed % 3 ? 0.95 : 0.8;
	model->remainder_bits = options.remainder_bits;
	ck_assert_int_eq(wn_aqf_create(&options, &model->aqf), 0);
	ck_assert_int_eq(wn_secret_create(zero, &model->secret), 0);
}

static void finish(struct model *model)
{
	check_everything(model);
	wn_aqf_destroy(model->aqf);
	wn_secret_destroy(model->secret);
	free(model->keys);
	free(model->chains);
}

static void step(struct model *model)
{
	uint64_t choice = test_random(&model->random) % 100000;
	uint32_t key = (uint32_t)(test_random(&model->random) % KEYS);

	model->now++;
	if (choice < 25000)
		insert_key(model, key);
	else if (choice < 35000)
		delete_key(model, key);
	else if (choice < 45000)
		purge_key(model, key);
	else if (choice < 90000)
		query_key(model, key);
	else if (choice < 97000)
		check_count(model, key);
	else if (choice < 99970)
		add_many(model, key % 500);
	else if (choice < 99980)
		grow_or_shrink(model);
	else if (choice < 99990)
		merge_twin(model);
	else
		freeze_and_thaw(model);
}

START_TEST(aqf_agrees_with_an_exact_model)
{
	uint64_t seed = test_seed("model", 1000 + (uint64_t)_i);
	uint64_t steps = test_is_quick() ? 50000 : 1000000;
	struct model model;

	start(&model, seed);
	while (model.now < steps)
		step(&model);
	fprintf(stderr,
		"model: %" PRIu64 " operations, %u keys, adapted %" PRIu64 ", full %" PRIu64
		", grown %" PRIu64 ", merged %" PRIu64 ", frozen %" PRIu64 "\n",
		model.now, model.distinct, model.adapted, model.full, model.grown, model.merged,
		model.frozen);
	ck_assert_uint_gt(model.adapted, 0);
	finish(&model);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_model");
	TCase *tcase = tcase_create("model");

	tcase_set_timeout(tcase, 3600);
	tcase_add_loop_test(tcase, aqf_agrees_with_an_exact_model, 0, 20);
	suite_add_tcase(suite, tcase);
	return test_run(suite);
}
