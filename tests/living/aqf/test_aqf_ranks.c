/* test_aqf_ranks.c - ranks that move while somebody uses them.
 *
 * Here keys share miniruns on purpose: remainders of 2 bits, few quotients. A rank read
 * from the map is then another key's as soon as a key before it is deleted, and two
 * fingerprints without extensions look alike: nothing but the stamp tells that bits
 * of one key's hash are about to be put into another's fingerprint. */
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/shelf.h"

#define QUOTIENTS 6
#define MINIRUNS (QUOTIENTS * 4)
#define LONGEST 64
#define CHANGERS 2
#define ADAPTERS 2
#define OWN_KEYS 30
#define LASTING_KEYS 24

/* ---- a map -------------------------------------------------------------- */

/* Lists of hashes by minirun. Each call is atomic, and takes its time. */
struct list_map {
	pthread_mutex_t lock;
	unsigned length[MINIRUNS];
	struct wn_hash hashes[MINIRUNS][LONGEST];
};

static unsigned list_of(uint64_t minirun)
{
	return (unsigned)(minirun % MINIRUNS);
}

static void map_put(struct list_map *map, uint64_t minirun, uint32_t rank, struct wn_hash hash)
{
	unsigned list = list_of(minirun);

	pthread_mutex_lock(&map->lock);
	expect(map->length[list] == rank && rank < LONGEST);
	map->hashes[list][map->length[list]++] = hash;
	pthread_mutex_unlock(&map->lock);
}

static uint32_t map_find(struct list_map *map, uint64_t minirun, struct wn_hash hash)
{
	unsigned list = list_of(minirun);
	uint32_t rank = 0;

	pthread_mutex_lock(&map->lock);
	while (rank < map->length[list] && wn_hash_compare(map->hashes[list][rank], hash) != 0)
		rank++;
	pthread_mutex_unlock(&map->lock);
	return rank;
}

static void map_remove(struct list_map *map, uint64_t minirun, uint32_t rank)
{
	unsigned list = list_of(minirun);

	pthread_mutex_lock(&map->lock);
	expect(rank < map->length[list]);
	map->length[list]--;
	for (; rank < map->length[list]; rank++)
		map->hashes[list][rank] = map->hashes[list][rank + 1];
	pthread_mutex_unlock(&map->lock);
}

static int map_fetch(struct list_map *map, uint64_t minirun, uint32_t rank,
		     struct wn_hash *storedp)
{
	unsigned list = list_of(minirun);
	int err = WN_ERR_NOT_FOUND;

	pthread_mutex_lock(&map->lock);
	if (rank < map->length[list]) {
		*storedp = map->hashes[list][rank];
		err = 0;
	}
	pthread_mutex_unlock(&map->lock);
	return err;
}

/* ---- filter and map together -------------------------------------------- */

struct pair {
	struct wn_aqf *aqf;
	struct list_map map;
};

static struct pair *make_pair(void)
{
	struct wn_aqf_options options = {.capacity = 400, .remainder_bits = 2, .load = 0.8};
	struct pair *pair = calloc(1, sizeof(*pair));

	ck_assert_ptr_nonnull(pair);
	ck_assert_int_eq(pthread_mutex_init(&pair->map.lock, NULL), 0);
	ck_assert_int_eq(wn_aqf_create(&options, &pair->aqf), 0);
	return pair;
}

static void destroy_pair(struct pair *pair)
{
	wn_aqf_destroy(pair->aqf);
	pthread_mutex_destroy(&pair->map.lock);
	free(pair);
}

/* Some hash of one of the miniruns. */
static struct wn_hash draw_hash(const struct pair *pair, uint64_t *random)
{
	uint64_t minirun = test_random(random) % MINIRUNS;

	return craft_key(pair->aqf, minirun / 4, minirun % 4, random);
}

static int insert_key(struct pair *pair, struct wn_hash hash)
{
	struct wn_match change = wn_aqf_begin_change(pair->aqf, hash);
	struct wn_match match;
	int err = wn_aqf_insert(pair->aqf, hash, &match);

	if (!err) {
		sched_yield();
		map_put(&pair->map, match.minirun, match.rank, hash);
	}
	wn_aqf_end_change(pair->aqf, change);
	return err;
}

/* Take off one count. Which of filter and map is changed first must not matter. */
static int delete_key(struct pair *pair, struct wn_hash hash, bool map_first)
{
	struct wn_match change = wn_aqf_begin_change(pair->aqf, hash);
	struct wn_match at = change;
	uint64_t count;
	int err;

	at.rank = map_find(&pair->map, at.minirun, hash);
	err = wn_aqf_count(pair->aqf, hash, at, &count);
	if (!err && count == 1 && map_first) {
		map_remove(&pair->map, at.minirun, at.rank);
		sched_yield();
	}
	if (!err)
		err = wn_aqf_delete(pair->aqf, hash, at, NULL);
	if (!err && count == 1 && !map_first) {
		sched_yield();
		map_remove(&pair->map, at.minirun, at.rank);
	}
	wn_aqf_end_change(pair->aqf, change);
	return err;
}

/* Without begin and end: the match is taken before the map is read. */
static int count_key(struct pair *pair, struct wn_hash hash)
{
	int err;

	do {
		struct wn_match at = wn_aqf_locate(pair->aqf, hash);

		at.rank = map_find(&pair->map, at.minirun, hash);
		sched_yield();
		err = wn_aqf_count_add(pair->aqf, hash, at, 1);
	} while (err == WN_ERR_STALE);
	return err;
}

/* Every fingerprint has the bits of the hash that the map has for it. */
static void check_bits(const struct pair *pair)
{
	struct wn_aqf_cursor cursor;
	struct wn_aqf_entry entry;

	wn_aqf_cursor_init(&cursor, pair->aqf);
	while (wn_aqf_cursor_next(&cursor, &entry)) {
		unsigned list = list_of(entry.minirun);
		fraction bits = (fraction)entry.fraction.hi << 64 | entry.fraction.lo;

		expect(entry.rank < pair->map.length[list]);
		bits ^= fraction_of(pair->aqf, pair->map.hashes[list][entry.rank]);
		if (bits >> (128 - entry.fraction_bits) != 0)
			ck_abort_msg("a fingerprint has the bits of another key");
	}
}

/* ---- one thread, one interleaving --------------------------------------- */

/* The map is read; before the answer arrives, `victim` is deleted. */
struct slow_fetch {
	struct pair *pair;
	struct wn_hash victim;
	bool map_first;
	unsigned deletes; /* so often; its count is high enough for that */
	unsigned calls;
};

static int fetch_and_delete(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	struct slow_fetch *slow = arg;
	int err = map_fetch(&slow->pair->map, minirun, rank, storedp);

	if (slow->calls++ < slow->deletes)
		expect(delete_key(slow->pair, slow->victim, slow->map_first) == 0);
	return err;
}

/* Keys of one minirun; the query agrees with all of them in the remainder only. */
static void insert_minirun(struct pair *pair, struct wn_hash *keys, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		keys[i] = craft_hash(pair->aqf->table.slots, 3,
				     UINT64_C(1) << 62 | (uint64_t)(i + 1) << 58, 0);
		ck_assert_int_eq(insert_key(pair, keys[i]), 0);
	}
}

START_TEST(a_key_deleted_while_the_map_is_read_leaves_no_bits_behind)
{
	struct pair *pair = make_pair();
	struct wn_hash keys[4];
	struct wn_hash query = craft_hash(pair->aqf->table.slots, 3, UINT64_C(1) << 62, 0);
	struct slow_fetch slow = {.pair = pair, .map_first = _i, .deletes = 1};
	uint32_t fixed;

	insert_minirun(pair, keys, 4);
	slow.victim = keys[0];
	ck_assert_int_eq(wn_aqf_adapt_all(pair->aqf, query, fetch_and_delete, &slow, &fixed), 0);
	for (unsigned i = 1; i < 4; i++)
		ck_assert_msg(wn_aqf_query(pair->aqf, keys[i], NULL), "key %u is denied", i);
	check_bits(pair);
	ck_assert(!wn_aqf_query(pair->aqf, query, NULL));
	ck_assert_uint_eq(fixed, 3);
	for (unsigned i = 1; i < 4; i++)
		ck_assert_int_eq(delete_key(pair, keys[i], true), 0);
	ck_assert(!wn_aqf_query(pair->aqf, keys[1], NULL));
	destroy_pair(pair);
}
END_TEST

/* Ranks that change each time: the work ends, with a result that says so. */
static int fetch_and_replace(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	struct slow_fetch *slow = arg;
	int err = map_fetch(&slow->pair->map, minirun, rank, storedp);

	slow->calls++;
	expect(delete_key(slow->pair, slow->victim, slow->map_first) == 0);
	expect(insert_key(slow->pair, slow->victim) == 0);
	return err;
}

START_TEST(an_adaptation_that_is_always_overtaken_ends)
{
	struct pair *pair = make_pair();
	struct wn_hash keys[3];
	struct wn_hash query = craft_hash(pair->aqf->table.slots, 3, UINT64_C(1) << 62, 0);
	struct slow_fetch slow = {.pair = pair};
	struct wn_match match, change;
	uint32_t fixed;

	insert_minirun(pair, keys, 3);
	slow.victim = keys[0];
	ck_assert_int_eq(wn_aqf_adapt_all(pair->aqf, query, fetch_and_replace, &slow, &fixed),
			 WN_ERR_STALE);
	ck_assert_uint_eq(slow.calls, WN_AQF_ADAPT_TRIES + 1);
	ck_assert_uint_eq(fixed, 0);
	/* Nor is anything fetched while another changes filter and map. */
	change = wn_aqf_begin_change(pair->aqf, keys[0]);
	slow.calls = 0;
	ck_assert_int_eq(wn_aqf_adapt_all(pair->aqf, query, fetch_and_delete, &slow, &fixed),
			 WN_ERR_STALE);
	ck_assert_uint_eq(slow.calls, 0);
	ck_assert(wn_aqf_query(pair->aqf, keys[0], &match) && match.known);
	ck_assert_int_eq(wn_aqf_delete(pair->aqf, keys[0], match, NULL), WN_ERR_STALE);
	wn_aqf_end_change(pair->aqf, change);
	ck_assert_int_eq(wn_aqf_delete(pair->aqf, keys[0], change, NULL), WN_ERR_STALE);
	slow.deletes = 0;
	ck_assert_int_eq(wn_aqf_adapt_all(pair->aqf, query, fetch_and_delete, &slow, &fixed), 0);
	ck_assert_uint_eq(fixed, 3);
	check_bits(pair);
	destroy_pair(pair);
}
END_TEST

/* A removal makes old matches stale for every function that takes one; counts,
 * extensions and inserts leave ranks as they are, and matches good. */
START_TEST(a_rank_from_before_a_delete_is_refused)
{
	struct pair *pair = make_pair();
	struct wn_hash keys[3];
	struct wn_hash query = craft_hash(pair->aqf->table.slots, 3, UINT64_C(1) << 62, 0);
	struct wn_match old;
	uint64_t count;
	unsigned tag;

	insert_minirun(pair, keys, 2);
	old = wn_aqf_locate(pair->aqf, keys[0]);
	ck_assert_int_eq(wn_aqf_count_add(pair->aqf, keys[0], old, 2), 0);
	ck_assert_int_eq(wn_aqf_insert(pair->aqf, keys[0], NULL), 0);
	ck_assert_int_eq(wn_aqf_set_tag(pair->aqf, keys[0], old, 0), 0);
	ck_assert_int_eq(wn_aqf_delete(pair->aqf, keys[0], old, NULL), 0);
	ck_assert_int_eq(wn_aqf_delete(pair->aqf, keys[0], old, NULL), 0);
	ck_assert_int_eq(wn_aqf_count(pair->aqf, keys[0], old, &count), 0);
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(wn_aqf_delete(pair->aqf, keys[0], old, NULL), 0);
	/* keys[1] has rank 0 now, and its fingerprint looks as that of keys[0] did. */
	ck_assert_int_eq(wn_aqf_delete(pair->aqf, keys[0], old, NULL), WN_ERR_STALE);
	ck_assert_int_eq(wn_aqf_count(pair->aqf, keys[0], old, &count), WN_ERR_STALE);
	ck_assert_int_eq(wn_aqf_count_add(pair->aqf, keys[0], old, 1), WN_ERR_STALE);
	ck_assert_int_eq(wn_aqf_tag(pair->aqf, keys[0], old, &tag), WN_ERR_STALE);
	ck_assert_int_eq(wn_aqf_set_tag(pair->aqf, keys[0], old, 0), WN_ERR_STALE);
	ck_assert_int_eq(wn_aqf_adapt(pair->aqf, keys[0], query, old), WN_ERR_STALE);
	ck_assert(wn_aqf_query(pair->aqf, keys[1], NULL));
	destroy_pair(pair);
}
END_TEST

START_TEST(a_match_of_another_filter_is_stale)
{
	struct wn_aqf_options options = {.capacity = 100, .remainder_bits = 9};
	struct wn_hash hash = {1, 2};
	struct wn_aqf *aqf, *grown;
	struct wn_match match;
	uint64_t count;

	ck_assert_int_eq(wn_aqf_create(&options, &aqf), 0);
	ck_assert_int_eq(wn_aqf_insert(aqf, hash, &match), 0);
	ck_assert_int_eq(wn_aqf_count(aqf, hash, match, &count), 0);
	ck_assert_int_eq(wn_aqf_grow(aqf, &grown), 0);
	ck_assert_int_eq(wn_aqf_count(grown, hash, match, &count), WN_ERR_STALE);
	ck_assert(wn_aqf_query(grown, hash, &match));
	ck_assert_int_eq(wn_aqf_count(grown, hash, match, &count), 0);
	wn_aqf_destroy(aqf);
	wn_aqf_destroy(grown);
}
END_TEST

/* ---- many threads ------------------------------------------------------- */

struct worker {
	pthread_t thread;
	struct pair *pair;
	uint64_t random;
	struct wn_hash keys[LASTING_KEYS + OWN_KEYS];
	uint64_t counts[OWN_KEYS];
	uint64_t changes;  /* to make; 0: until told to stop */
	uint64_t done, stale;
	const char *wrong; /* NULL: nothing */
	bool *stop;
};

static void blame(struct worker *worker, const char *what)
{
	if (!worker->wrong)
		worker->wrong = what;
	__atomic_store_n(worker->stop, true, __ATOMIC_RELAXED);
}

static bool goes_on(const struct worker *worker)
{
	return !__atomic_load_n(worker->stop, __ATOMIC_RELAXED) &&
	       (worker->changes == 0 || worker->done < worker->changes);
}

static void change_key(struct worker *worker, unsigned at)
{
	uint64_t dice = test_random(&worker->random);
	int err;

	if (worker->counts[at] == 0) {
		err = insert_key(worker->pair, worker->keys[at]);
		worker->counts[at] += !err;
	} else if (dice % 8 == 0) {
		err = count_key(worker->pair, worker->keys[at]);
		worker->counts[at] += !err;
	} else {
		err = delete_key(worker->pair, worker->keys[at], dice >> 32 & 1);
		worker->counts[at] -= !err;
		if (err)
			blame(worker, "a stored key could not be deleted");
	}
	if (err && err != WN_ERR_FULL)
		blame(worker, "a change went wrong");
}

static void *change_keys(void *arg)
{
	struct worker *worker = arg;

	for (; goes_on(worker); worker->done++) {
		change_key(worker, (unsigned)(test_random(&worker->random) % OWN_KEYS));
		for (unsigned at = 0; at < OWN_KEYS; at++)
			if (worker->counts[at] > 0 &&
			    !wn_aqf_query(worker->pair->aqf, worker->keys[at], NULL))
				blame(worker, "a stored key was denied to its owner");
	}
	return NULL;
}

/* What the map said is old when it arrives. */
static int fetch_slowly(void *arg, uint64_t minirun, uint32_t rank, struct wn_hash *storedp)
{
	int err = map_fetch(arg, minirun, rank, storedp);

	if (storedp->lo & 1)
		usleep(20);
	else
		sched_yield();
	return err;
}

static void *adapt_keys(void *arg)
{
	struct worker *worker = arg;

	for (; goes_on(worker); worker->done++) {
		struct wn_hash query = draw_hash(worker->pair, &worker->random);
		int err = wn_aqf_adapt_all(worker->pair->aqf, query, fetch_slowly,
					   &worker->pair->map, NULL);

		worker->stale += err == WN_ERR_STALE;
		if (err && err != WN_ERR_STALE && err != WN_ERR_FULL)
			blame(worker, "an adaptation went wrong");
	}
	return NULL;
}

static void *ask_lasting_keys(void *arg)
{
	struct worker *worker = arg;

	for (; goes_on(worker); worker->done++)
		for (unsigned at = 0; at < LASTING_KEYS; at++)
			if (!wn_aqf_query(worker->pair->aqf, worker->keys[at], NULL))
				blame(worker, "a stored key was denied to a reader");
	return NULL;
}

/* WN_SECONDS in the environment: so long. Otherwise so many changes. */
static uint64_t seconds_asked_for(void)
{
	const char *given = getenv("WN_SECONDS");

	return given ? strtoull(given, NULL, 0) : 0;
}

static void start(struct worker *worker, void *(*work)(void *))
{
	ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

/* Of the lasting and the changing keys of a minirun, either may come first. */
static void prepare(struct pair *pair, struct worker *changers, struct worker *reader,
		    uint64_t *random)
{
	for (unsigned at = 0; at < OWN_KEYS; at++) {
		for (unsigned i = 0; i < CHANGERS; i++) {
			changers[i].keys[at] = draw_hash(pair, random);
			change_key(&changers[i], at);
		}
		if (at < LASTING_KEYS) {
			reader->keys[at] = draw_hash(pair, random);
			ck_assert_int_eq(insert_key(pair, reader->keys[at]), 0);
		}
	}
}

static void empty(struct pair *pair, struct worker *changers, struct worker *reader)
{
	struct wn_aqf_info info;

	for (unsigned at = 0; at < LASTING_KEYS; at++)
		expect(delete_key(pair, reader->keys[at], false) == 0);
	for (unsigned i = 0; i < CHANGERS; i++)
		for (unsigned at = 0; at < OWN_KEYS; at++)
			for (; changers[i].counts[at] > 0; changers[i].counts[at]--)
				expect(delete_key(pair, changers[i].keys[at], true) == 0);
	wn_aqf_describe(pair->aqf, &info);
	ck_assert_uint_eq(info.fingerprints, 0);
	ck_assert_uint_eq(info.used_slots, 0);
	for (unsigned list = 0; list < MINIRUNS; list++)
		ck_assert_uint_eq(pair->map.length[list], 0);
}

static void join(struct worker *worker)
{
	ck_assert_int_eq(pthread_join(worker->thread, NULL), 0);
}

START_TEST(threads_whose_keys_share_miniruns_never_deny_one)
{
	uint64_t random = test_seed("ranks", 400 + (uint64_t)_i);
	uint64_t seconds = seconds_asked_for();
	struct pair *pair = make_pair();
	struct worker changers[CHANGERS], adapters[ADAPTERS], reader;
	uint64_t changes = 0, adaptations = 0, stale = 0;
	bool stop = false;

	reader = (struct worker){.pair = pair, .stop = &stop};
	for (unsigned i = 0; i < CHANGERS; i++) {
		changers[i] = reader;
		changers[i].random = test_random(&random);
		changers[i].changes = seconds ? 0 : test_is_quick() ? 10000 : 50000;
	}
	for (unsigned i = 0; i < ADAPTERS; i++) {
		adapters[i] = reader;
		adapters[i].random = test_random(&random);
	}
	prepare(pair, changers, &reader, &random);
	start(&reader, ask_lasting_keys);
	for (unsigned i = 0; i < ADAPTERS; i++)
		start(&adapters[i], adapt_keys);
	for (unsigned i = 0; i < CHANGERS; i++)
		start(&changers[i], change_keys);
	for (uint64_t tenth = 0; tenth < 10 * seconds; tenth++)
		if (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
			usleep(100000);
	if (seconds)
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < CHANGERS; i++)
		join(&changers[i]);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&reader);
	for (unsigned i = 0; i < ADAPTERS; i++)
		join(&adapters[i]);
	for (unsigned i = 0; i < CHANGERS; i++) {
		changes += changers[i].done;
		adaptations += adapters[i].done;
		stale += adapters[i].stale;
	}
	fprintf(stderr, "%" PRIu64 " changes, %" PRIu64 " adaptations, %" PRIu64 " given up\n",
		changes, adaptations, stale);
	ck_assert_msg(!reader.wrong, "%s after %" PRIu64 " changes", reader.wrong, changes);
	for (unsigned i = 0; i < CHANGERS; i++)
		ck_assert_msg(!changers[i].wrong, "%s after %" PRIu64 " changes",
			      changers[i].wrong, changes);
	for (unsigned i = 0; i < ADAPTERS; i++)
		ck_assert_msg(!adapters[i].wrong, "%s", adapters[i].wrong);
	check_bits(pair);
	empty(pair, changers, &reader);
	destroy_pair(pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_ranks");
	TCase *one = tcase_create("one thread");
	TCase *many = tcase_create("many threads");

	tcase_set_timeout(many, 600 + (double)seconds_asked_for());
	tcase_add_loop_test(one, a_key_deleted_while_the_map_is_read_leaves_no_bits_behind, 0, 2);
	tcase_add_test(one, an_adaptation_that_is_always_overtaken_ends);
	tcase_add_test(one, a_rank_from_before_a_delete_is_refused);
	tcase_add_test(one, a_match_of_another_filter_is_stale);
	tcase_add_loop_test(many, threads_whose_keys_share_miniruns_never_deny_one, 0, 2);
	suite_add_tcase(suite, one);
	suite_add_tcase(suite, many);
	return test_run(suite);
}
