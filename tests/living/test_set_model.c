/* test_set_model.c - a set against an exact model, and shared by threads. */
#include <pthread.h>
#include <stdatomic.h>

#include <winnow/error.h>

#include "tests/support/set.h"

/* ---- against a model ---------------------------------------------------- */

#define UNIVERSE 500

struct model {
	struct wn_set *set;
	struct wn_set *side; /* a second set, to be merged */
	uint64_t counts[UNIVERSE], side_counts[UNIVERSE];
	bool learned[UNIVERSE]; /* must say no */
	uint64_t random;
};

/* A new key's own fingerprint may match what was learned before; no other does. */
static void forget_matches_of(struct model *model, uint32_t key)
{
	const struct wn_aqf *aqf = wn_set_filter(model->set);
	const struct wn_secret *secret = wn_set_secret(model->set);
	uint64_t minirun = wn_aqf_minirun(aqf, wn_hash_key(secret, &key, sizeof(key)));

	model->learned[key] = false;
	for (uint32_t n = 0; n < UNIVERSE; n++)
		if (model->learned[n] && query(model->set, n)) {
			struct wn_hash hash = wn_hash_key(secret, &n, sizeof(n));

			ck_assert_uint_eq(minirun, wn_aqf_minirun(aqf, hash));
			model->learned[n] = false;
		}
}

static void step_insert(struct model *model, uint32_t key)
{
	int err = insert(model->set, key);

	if (err == WN_ERR_FULL)
		return;
	ck_assert_int_eq(err, 0);
	if (model->counts[key]++ == 0)
		forget_matches_of(model, key);
}

static void step_delete(struct model *model, uint32_t key)
{
	int err = wn_set_delete(model->set, &key, sizeof(key));

	ck_assert_int_eq(err, model->counts[key] ? 0 : WN_ERR_NOT_FOUND);
	model->counts[key] -= model->counts[key] != 0;
}

static void step_learn(struct model *model, uint32_t key)
{
	int err = learn(model->set, key);

	if (model->counts[key]) {
		ck_assert_int_eq(err, WN_ERR_UNFIXABLE);
	} else if (err != WN_ERR_FULL) {
		ck_assert_int_eq(err, 0);
		ck_assert(!query(model->set, key));
		model->learned[key] = true;
	}
}

static void step_rebuild(struct model *model)
{
	ck_assert_int_eq(wn_set_rebuild(model->set, NULL), 0);
	memset(model->learned, 0, sizeof(model->learned));
}

static void step_resize(struct model *model)
{
	bool grow = test_random(&model->random) % 2;
	int err = grow ? wn_set_grow(model->set) : wn_set_shrink(model->set);

	ck_assert(err == 0 || err == WN_ERR_INVALID || err == WN_ERR_FULL);
}

static void step_side(struct model *model, uint32_t key)
{
	if (insert(model->side, key) == 0)
		model->side_counts[key]++;
}

static void step_merge(struct model *model)
{
	struct wn_set_options options = small_options(150);
	int err = wn_set_merge(model->set, model->side);

	if (err == 0) {
		for (uint32_t n = 0; n < UNIVERSE; n++) {
			model->counts[n] += model->side_counts[n];
			model->side_counts[n] = 0;
			model->learned[n] = model->learned[n] && !query(model->set, n);
		}
		return;
	}
	ck_assert_int_eq(err, WN_ERR_MISMATCH);
	/* Start over with a pair that fits. */
	wn_set_destroy(model->set);
	wn_set_destroy(model->side);
	model->set = make_set_with(&options, make_map(true));
	model->side = make_set_with(&options, make_map(true));
	memset(model->counts, 0, sizeof(model->counts));
	memset(model->side_counts, 0, sizeof(model->side_counts));
	memset(model->learned, 0, sizeof(model->learned));
}

static void assert_as_model(const struct model *model)
{
	for (uint32_t n = 0; n < UNIVERSE; n++) {
		bool answer = query(model->set, n);

		if (count(model->set, n) != model->counts[n] ||
		    count(model->side, n) != model->side_counts[n])
			ck_abort_msg("key %u has a wrong count", n);
		if (model->counts[n] && !answer)
			ck_abort_msg("key %u is lost", n);
		if (model->learned[n] && answer)
			ck_abort_msg("false positive %u came back", n);
	}
}

static void take_step(struct model *model)
{
	uint64_t dice = test_random(&model->random) % 1000;
	uint32_t key = (uint32_t)(test_random(&model->random) % UNIVERSE);

	if (dice < 350)
		step_insert(model, key);
	else if (dice < 700)
		step_delete(model, key);
	else if (dice < 900)
		step_learn(model, key);
	else if (dice < 990)
		step_side(model, key);
	else if (dice < 994)
		step_resize(model);
	else if (dice < 996)
		step_rebuild(model);
	else
		step_merge(model);
}

START_TEST(any_operations_agree_with_an_exact_set)
{
	uint64_t seed = test_seed("set", 100 + (uint64_t)_i);
	uint64_t steps = test_is_quick() ? 1000 : 10000;
	struct model model = {
		.set = make_set(150, true), .side = make_set(150, true), .random = seed};

	for (uint64_t step = 0; step < steps; step++) {
		take_step(&model);
		if (step % 20 == 0)
			assert_as_model(&model);
	}
	assert_as_model(&model);
	wn_set_destroy(model.set);
	wn_set_destroy(model.side);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

static atomic_bool readers_stop;
static atomic_uint readers_lost;

static void *read_keys(void *arg)
{
	const struct wn_set *set = arg;

	while (!readers_stop)
		for (uint32_t n = 0; n < 500; n++)
			if (!query(set, n))
				readers_lost++;
	return NULL;
}

START_TEST(readers_find_every_key_while_one_thread_changes_the_set)
{
	struct wn_set *set = make_set(1500, true);
	uint64_t random = test_seed("set", 7);
	pthread_t readers[2];

	readers_stop = false;
	readers_lost = 0;
	insert_range(set, 0, 500);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&readers[i], NULL, read_keys, set), 0);
	for (uint64_t step = 0; step < 30000; step++) {
		uint32_t key = 500 + (uint32_t)(test_random(&random) % 1000);

		if (count(set, key))
			ck_assert_int_eq(wn_set_delete(set, &key, sizeof(key)), 0);
		else if (step % 8 == 0 && query(set, key))
			learn(set, key);
		else
			insert(set, key);
	}
	readers_stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	ck_assert_uint_eq(readers_lost, 0);
	wn_set_destroy(set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("set_model");
	TCase *model = tcase_create("model");

	suite_add_tcase(suite, model);
	tcase_add_loop_test(model, any_operations_agree_with_an_exact_set, 0, 20);
	tcase_add_test(model, readers_find_every_key_while_one_thread_changes_the_set);
	return test_run(suite);
}
