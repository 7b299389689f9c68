/* test_aqf_threads.c - a living filter shared by threads.
 *
 * Every key has a minirun to itself, so its rank is 0 whatever other threads do, and
 * each thread knows what must be true of its own keys; test_aqf_ranks.c has the keys
 * that share miniruns. Threads count what goes wrong; the main thread fails the test.
 * Built with -fsanitize=thread this is also where races would show. */
#include <pthread.h>

#include "tests/support/shelf.h"

#define MAX_THREADS 4

struct own_key {
	struct wn_hash hash;
	uint64_t count;           /* in the filter; 0: not there */
	struct wn_hash fixed;     /* a query adapted against since it was inserted */
	bool has_fixed;
};

struct worker {
	pthread_t thread;
	struct wn_aqf *aqf;
	struct own_key *keys;
	size_t key_count;
	uint64_t operations;
	uint64_t random;
	uint64_t done[5]; /* inserts, deletes, counts, adaptations, refusals */
	const char *wrong; /* NULL: nothing */
	bool *stop;
};

enum { INSERTS, DELETES, COUNTS, ADAPTATIONS, REFUSALS };

static void blame(struct worker *worker, const char *what)
{
	if (!worker->wrong)
		worker->wrong = what;
}

static uint64_t scaled(uint64_t operations)
{
	return test_is_quick() ? operations / 20 : operations;
}

/* ---- keys --------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	return wn_hash_compare(((const struct own_key *)a)->hash,
			       ((const struct own_key *)b)->hash);
}

/* `count` keys, no two in one minirun, in random order. With `border` above 0 all of
 * their quotients are within so many of a border between regions. */
static struct own_key *make_keys(const struct wn_aqf *aqf, size_t count, uint64_t border,
				 uint64_t *random)
{
	uint64_t mask = wn__low_bits(aqf->table.remainder_bits);
	uint64_t borders = (aqf->table.slots - border) >> WN__REGION_SHIFT;
	struct own_key *keys = calloc(count, sizeof(*keys));
	size_t made = 0;

	while (made < count) {
		while (made < count) {
			uint64_t at = (1 + test_random(random) % (borders ? borders : 1))
				      << WN__REGION_SHIFT;
			struct wn_hash hash = test_random_hash(random);

			if (border)
				hash = craft_key(aqf, at - border +
							      test_random(random) % (2 * border),
						 test_random(random) & mask, random);
			keys[made++].hash = hash;
		}
		qsort(keys, count, sizeof(*keys), compare_keys);
		made = 1;
		for (size_t i = 1; i < count; i++)
			if (minirun_of(aqf, keys[i].hash) != minirun_of(aqf, keys[made - 1].hash))
				keys[made++].hash = keys[i].hash;
	}
	for (size_t i = count; i > 1; i--) {
		size_t other = (size_t)(test_random(random) % i);
		struct own_key swap = keys[i - 1];

		keys[i - 1] = keys[other];
		keys[other] = swap;
	}
	return keys;
}

static struct wn_aqf *new_filter_at(uint64_t capacity, unsigned remainder_bits, double load)
{
	struct wn_aqf_options options = {
		.capacity = capacity, .remainder_bits = remainder_bits, .load = load};
	struct wn_aqf *aqf;

	ck_assert_int_eq(wn_aqf_create(&options, &aqf), 0);
	return aqf;
}

static struct wn_aqf *new_filter(uint64_t capacity, unsigned remainder_bits)
{
	return new_filter_at(capacity, remainder_bits, 0);
}

/* ---- one change --------------------------------------------------------- */

static void insert_own(struct worker *worker, struct own_key *key)
{
	struct wn_match match;
	int err = wn_aqf_insert(worker->aqf, key->hash, &match);

	if (err == WN_ERR_FULL) {
		worker->done[REFUSALS]++;
		return;
	}
	if (err || match.rank != 0)
		blame(worker, "an insert went wrong");
	key->count = 1;
	key->has_fixed = false;
	worker->done[INSERTS]++;
}

/* A stamp stands for several miniruns, so a stale match says that another key was
 * removed, and the next one will do. */
static void delete_own(struct worker *worker, struct own_key *key)
{
	bool removed;
	int err;

	do
		err = wn_aqf_delete(worker->aqf, key->hash, wn_aqf_locate(worker->aqf, key->hash),
				    &removed);
	while (err == WN_ERR_STALE);
	if (err)
		blame(worker, "a delete went wrong");
	if (removed != (key->count == 1))
		blame(worker, "a delete saw another count");
	key->count--;
	worker->done[DELETES]++;
}

static void check_count(struct worker *worker, const struct own_key *key)
{
	uint64_t count;
	int err;

	do
		err = wn_aqf_count(worker->aqf, key->hash, wn_aqf_locate(worker->aqf, key->hash),
				   &count);
	while (err == WN_ERR_STALE);
	if (err || count != key->count)
		blame(worker, "a count is not what this thread made it");
}

static void count_own(struct worker *worker, struct own_key *key)
{
	uint64_t add = test_random(&worker->random) % 6;
	int err;

	do
		err = wn_aqf_count_add(worker->aqf, key->hash,
				       wn_aqf_locate(worker->aqf, key->hash), add);
	while (err == WN_ERR_STALE);
	if (err == WN_ERR_FULL)
		worker->done[REFUSALS]++;
	else if (err)
		blame(worker, "a count went wrong");
	else
		key->count += add;
	check_count(worker, key);
	worker->done[COUNTS]++;
}

static void adapt_own(struct worker *worker, struct own_key *key)
{
	unsigned bits = worker->aqf->table.remainder_bits;
	unsigned bit = bits + (unsigned)(test_random(&worker->random) % 20);
	struct wn_hash query = craft_relative(worker->aqf, key->hash, bit, &worker->random);
	int err;

	do
		err = wn_aqf_adapt(worker->aqf, key->hash, query,
				   wn_aqf_locate(worker->aqf, key->hash));
	while (err == WN_ERR_STALE);
	if (err == WN_ERR_FULL) {
		worker->done[REFUSALS]++;
		return;
	}
	if (err)
		blame(worker, "an adaptation went wrong");
	key->fixed = query;
	key->has_fixed = true;
	worker->done[ADAPTATIONS]++;
}

static void check_own(struct worker *worker, const struct own_key *key)
{
	struct wn_match match = {0};
	bool found = wn_aqf_query(worker->aqf, key->hash, &match);

	if (key->count > 0 && !found)
		blame(worker, "a stored key was denied");
	if (found && match.known &&
	    (match.rank != 0 || match.minirun != minirun_of(worker->aqf, key->hash)))
		blame(worker, "a match in the wrong place");
	if (key->count == 0 && found && match.known)
		blame(worker, "a key that is not there was found");
	if (key->count > 0 && key->has_fixed &&
	    wn_aqf_query(worker->aqf, key->fixed, &match) && match.known)
		blame(worker, "a false positive came back");
}

static void change_own(struct worker *worker, struct own_key *key)
{
	uint64_t choice = test_random(&worker->random) % 16;

	if (key->count == 0)
		insert_own(worker, key);
	else if (choice < 9)
		delete_own(worker, key);
	else if (choice < 12)
		count_own(worker, key);
	else
		adapt_own(worker, key);
}

/* As many operations as asked for, or until told to stop. */
static bool goes_on(const struct worker *worker, uint64_t operations)
{
	if (worker->wrong)
		return false;
	return worker->stop ? !__atomic_load_n(worker->stop, __ATOMIC_RELAXED)
			    : operations < worker->operations;
}

static void *change_all(void *arg)
{
	struct worker *worker = arg;

	for (uint64_t i = 0; goes_on(worker, i); i++) {
		struct own_key *key =
			&worker->keys[test_random(&worker->random) % worker->key_count];

		change_own(worker, key);
		check_own(worker, key);
		check_own(worker,
			  &worker->keys[test_random(&worker->random) % worker->key_count]);
	}
	return NULL;
}

/* ---- readers ------------------------------------------------------------ */

static void *read_all(void *arg)
{
	struct worker *worker = arg;
	uint64_t seen = 0, unsure = 0;

	for (; !__atomic_load_n(worker->stop, __ATOMIC_RELAXED) || seen < worker->key_count;
	     seen++) {
		const struct own_key *key =
			&worker->keys[test_random(&worker->random) % worker->key_count];
		struct wn_match match = {0};
		unsigned tag;
		bool answers[3];

		if (!wn_aqf_query(worker->aqf, key->hash, &match))
			blame(worker, "a stored key was denied to a reader");
		unsure += !match.known;
		if (match.known && match.minirun != minirun_of(worker->aqf, key->hash))
			blame(worker, "a reader was sent to another minirun");
		if (!wn_aqf_query_tag(worker->aqf, key->hash, &match, &tag) || tag)
			blame(worker, "a reader saw a wrong tag");
		if (key->has_fixed && wn_aqf_query(worker->aqf, key->fixed, &match) &&
		    match.known)
			blame(worker, "a false positive came back to a reader");
		wn_aqf_query_batch(worker->aqf,
				   (struct wn_hash[]){key->hash, key->fixed, key->hash}, 3,
				   answers);
		if (!answers[0] || !answers[2])
			blame(worker, "a stored key was denied to a reader in a batch");
	}
	worker->operations = seen;
	worker->done[REFUSALS] = unsure;
	return NULL;
}

/* ---- runs --------------------------------------------------------------- */

static void start(struct worker *worker, void *(*work)(void *))
{
	ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void join(struct worker *worker)
{
	ck_assert_int_eq(pthread_join(worker->thread, NULL), 0);
	ck_assert_msg(!worker->wrong, "%s", worker->wrong);
}

static int compare_items(const void *a, const void *b)
{
	const struct shelf_item *one = a, *two = b;

	return one->minirun < two->minirun ? -1 : one->minirun > two->minirun;
}

/* With all threads gone, the filter is exactly what they remember, and well formed. */
static void check_after(struct wn_aqf *aqf, const struct own_key *keys, size_t count)
{
	struct wn_aqf_cursor cursor;
	struct wn_aqf_entry entry;
	struct subject subject = start_subject(aqf);

	for (size_t i = 0; i < count; i++)
		if (keys[i].count > 0)
			shelve(&subject, subject.count, (struct shelf_item){
				.hash = keys[i].hash,
				.minirun = minirun_of(aqf, keys[i].hash),
				.count = keys[i].count,
			});
	qsort(subject.items, subject.count, sizeof(*subject.items), compare_items);
	/* How far each was extended is for the filter to say; the bits are checked. */
	wn_aqf_cursor_init(&cursor, aqf);
	for (size_t at = 0; wn_aqf_cursor_next(&cursor, &entry); at++) {
		expect(at < subject.count);
		subject.items[at].extensions = entry.extensions;
	}
	check_subject(&subject);
	for (size_t i = 0; i < count; i++)
		if (keys[i].count > 0 && keys[i].has_fixed)
			expect(!wn_aqf_query(aqf, keys[i].fixed, NULL));
	free(subject.items);
}

/* Several at once change keys of their own. */
static void run_writers(struct wn_aqf *aqf, struct own_key *keys, size_t count, unsigned threads,
			uint64_t operations, uint64_t seed, uint64_t done[5])
{
	struct worker workers[MAX_THREADS];
	size_t share = count / threads;

	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys + i * share,
			.key_count = share,
			.operations = scaled(operations) / threads,
			.random = seed + i,
		};
		start(&workers[i], change_all);
	}
	memset(done, 0, 5 * sizeof(*done));
	for (unsigned i = 0; i < threads; i++) {
		join(&workers[i]);
		for (int at = 0; at < 5; at++)
			done[at] += workers[i].done[at];
	}
}

START_TEST(readers_find_every_key_while_a_writer_changes_others)
{
	uint64_t random = test_seed("readers", 300 + (uint64_t)_i);
	bool border = _i == 1;
	struct wn_aqf *aqf = new_filter(border ? 9000 : 6000, 14);
	size_t stored = 1500, others = border ? 3000 : 5000;
	struct own_key *keys = make_keys(aqf, stored + others, border ? 1000 : 0, &random);
	struct worker writer = {
		.aqf = aqf,
		.keys = keys + stored,
		.key_count = others,
		.operations = scaled(border ? 40000 : 400000),
		.random = random,
	};
	struct worker readers[3];
	bool stop = false;

	/* One in eight of the stored keys has a false positive fixed before anybody looks. */
	for (size_t i = 0; i < stored; i++) {
		insert_own(&writer, &keys[i]);
		if (i % 8 == 0)
			adapt_own(&writer, &keys[i]);
	}
	/* Start near the limit, where shifts are long. */
	for (size_t i = stored; i < stored + others; i++)
		insert_own(&writer, &keys[i]);
	for (int i = 0; i < 3; i++) {
		readers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys,
			.key_count = stored,
			.random = random + 100 + (uint64_t)i,
			.stop = &stop,
		};
		start(&readers[i], read_all);
	}
	start(&writer, change_all);
	pthread_join(writer.thread, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		join(&readers[i]);
	ck_assert_msg(!writer.wrong, "%s", writer.wrong);
	for (int at = INSERTS; at <= ADAPTATIONS; at++)
		ck_assert_uint_gt(writer.done[at], 0);
	check_after(aqf, keys, stored + others);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Adapting only: what was fixed stays fixed at every moment. */
static void *adapt_one_after_the_other(void *arg)
{
	struct worker *worker = arg;

	for (uint64_t i = 0; i < worker->operations && !worker->wrong; i++) {
		struct own_key *key =
			&worker->keys[test_random(&worker->random) % worker->key_count];

		/* Taken out and put back without extensions, to make room. */
		if (key->count == 0) {
			insert_own(worker, key);
		} else if (key->has_fixed) {
			delete_own(worker, key);
			insert_own(worker, key);
		} else {
			adapt_own(worker, key);
		}
		check_own(worker, key);
	}
	return NULL;
}

START_TEST(fixed_false_positives_stay_fixed_while_others_are_adapted)
{
	uint64_t random = test_seed("fixed", 310);
	struct wn_aqf *aqf = new_filter_at(7000, 14, 0.7);
	size_t fixed = 1000, others = 6000;
	struct own_key *keys = make_keys(aqf, fixed + others, 0, &random);
	struct worker writer = {
		.aqf = aqf,
		.keys = keys + fixed,
		.key_count = others,
		.operations = scaled(200000),
		.random = random,
	};
	struct worker readers[3];
	bool stop = false;

	for (size_t i = 0; i < fixed + others; i++) {
		insert_own(&writer, &keys[i]);
		if (i < fixed)
			adapt_own(&writer, &keys[i]);
	}
	for (size_t i = 0; i < fixed; i++)
		ck_assert(keys[i].has_fixed);
	for (int i = 0; i < 3; i++) {
		readers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys,
			.key_count = fixed,
			.random = random + 100 + (uint64_t)i,
			.stop = &stop,
		};
		start(&readers[i], read_all);
	}
	start(&writer, adapt_one_after_the_other);
	pthread_join(writer.thread, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		join(&readers[i]);
	ck_assert_msg(!writer.wrong, "%s", writer.wrong);
	ck_assert_uint_gt(writer.done[ADAPTATIONS], fixed);
	check_after(aqf, keys, fixed + others);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

static void *insert_all(void *arg)
{
	struct worker *worker = arg;

	for (size_t i = 0; i < worker->key_count; i++) {
		insert_own(worker, &worker->keys[i]);
		check_own(worker, &worker->keys[i]);
		if (i % 16 == 0)
			count_own(worker, &worker->keys[i]);
	}
	return NULL;
}

START_TEST(keys_inserted_by_many_threads_are_all_there)
{
	unsigned threads = 2 + (unsigned)_i;
	uint64_t random = test_seed("inserts", 320 + (uint64_t)_i);
	size_t count = (size_t)scaled(200000);
	/* Counters take room of their own, two slots each at most. */
	struct wn_aqf *aqf = new_filter(count + count / 8, 14);
	struct own_key *keys = make_keys(aqf, count, 0, &random);
	struct worker workers[MAX_THREADS];
	struct wn_aqf_info info;
	uint64_t inserted = 0;

	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys + i * (count / threads),
			.key_count = count / threads,
			.random = random + i,
		};
		start(&workers[i], insert_all);
	}
	for (unsigned i = 0; i < threads; i++) {
		join(&workers[i]);
		ck_assert_uint_eq(workers[i].done[REFUSALS], 0);
		inserted += workers[i].done[INSERTS];
	}
	wn_aqf_describe(aqf, &info);
	ck_assert_uint_eq(inserted, count / threads * threads);
	ck_assert_uint_eq(info.fingerprints, inserted);
	ck_assert_uint_gt(info.counters, 0);
	check_after(aqf, keys, inserted);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Everything at once in a few hundred slots. */
START_TEST(threads_that_change_a_small_filter_do_not_lose_anything)
{
	unsigned threads = 2 + (unsigned)_i % 3;
	uint64_t random = test_seed("small", 330 + (uint64_t)_i);
	struct wn_aqf *aqf = new_filter(_i < 3 ? 300 : 1500, 14);
	size_t count = _i < 3 ? 400 : 2000;
	struct own_key *keys = make_keys(aqf, count, 0, &random);
	uint64_t done[5];

	run_writers(aqf, keys, count, threads, 600000, random, done);
	for (int at = 0; at < 5; at++)
		ck_assert_uint_gt(done[at], 0);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* All keys around the borders between regions: writers need two and three at a time, and
 * clusters reach from one into the next. */
START_TEST(threads_that_meet_at_region_borders_do_not_lose_anything)
{
	unsigned threads = 2 + (unsigned)_i % 3;
	uint64_t random = test_seed("borders", 340 + (uint64_t)_i);
	struct wn_aqf *aqf = new_filter(17000, 14);
	uint64_t border = _i < 3 ? 30 : 300;
	size_t count = 3000;
	struct own_key *keys = make_keys(aqf, count, border, &random);
	uint64_t done[5];

	run_writers(aqf, keys, count, threads, 150000, random, done);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* 7,000 keys that fill the slots from 3,900 on, over the borders at 4,096 and 8,192. So
 * many on the first quotient that the next block's offset is full already. */
static void make_cluster(struct worker *worker)
{
	for (size_t i = 0; i < worker->key_count; i++) {
		worker->keys[i].hash = craft_key(worker->aqf, i < 600 ? 3900 : 3900 + i % 200,
						 2 * i, &worker->random);
		insert_own(worker, &worker->keys[i]);
	}
	ck_assert_ptr_null(worker->wrong);
	ck_assert_uint_eq(worker->aqf->offsets[3900 / 64 + 1], WN__OFFSET_MANY);
	ck_assert_uint_eq(worker->aqf->offsets[8192 / 64], WN__OFFSET_MANY);
}

/* A change at the cluster's start moves slots two regions on, where others are at work on
 * both sides of its end. Readers are at it too. */
START_TEST(threads_that_share_a_cluster_over_regions_do_not_lose_anything)
{
	static const uint64_t first[] = {3900, 8300, 11200};
	uint64_t random = test_seed("cluster", 350 + (uint64_t)_i);
	struct wn_aqf *aqf = new_filter(17000, 14);
	size_t fixed = 7000, count = fixed + 900;
	struct own_key *keys = calloc(count, sizeof(*keys));
	bool stop = false;
	struct worker reader = {
		.aqf = aqf,
		.keys = keys,
		.key_count = fixed,
		.random = random,
		.stop = &stop,
	};
	uint64_t done[5];

	make_cluster(&reader);
	for (size_t i = fixed; i < count; i++)
		keys[i].hash = craft_key(aqf, first[i % 3] + i % 400, 2 * i + 1,
					 &random);
	start(&reader, read_all);
	run_writers(aqf, keys + fixed, count - fixed, 2 + (unsigned)_i, 9000, random, done);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&reader);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Where a cluster ends is counted from the block it starts in. A writer far inside the
 * cluster must not count there while another changes that block, though the two move
 * no slot in common. */
START_TEST(a_cluster_is_measured_from_a_block_that_stands_still)
{
	uint64_t random = test_seed("measure", 360);
	struct wn_aqf *aqf = new_filter(17000, 14);
	size_t fixed = 7000, share = 20, count = fixed + 2 * share;
	struct own_key *keys = calloc(count, sizeof(*keys));
	bool stop = false;
	struct worker before = {.aqf = aqf, .random = random, .key_count = fixed, .keys = keys};
	struct worker inside = {.aqf = aqf, .random = random + 1, .key_count = share};

	make_cluster(&before);
	before.keys = keys + fixed;
	before.key_count = share;
	before.stop = &stop;
	inside.keys = before.keys + share;
	inside.operations = scaled(10000);
	for (size_t i = 0; i < share; i++) {
		before.keys[i].hash = craft_key(aqf, 3841 + i, 1, &random);
		inside.keys[i].hash = craft_key(aqf, 8300 + 100 * i, 1, &random);
	}
	start(&before, change_all);
	start(&inside, change_all);
	pthread_join(inside.thread, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&before);
	ck_assert_msg(!inside.wrong, "%s", inside.wrong);
	check_after(aqf, keys, count);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

/* Each thread has its share of the capacity and is never beyond it, learning all the
 * while: none is ever refused, though the others come and go at the limit too. */
static void *replace_keys(void *arg)
{
	struct worker *worker = arg;
	size_t held = worker->key_count / 2;

	for (uint64_t i = 0; i < worker->operations && !worker->wrong; i++) {
		size_t out = (size_t)(test_random(&worker->random) % held);
		size_t in = held + (size_t)(test_random(&worker->random) % held);
		struct own_key swap;

		delete_own(worker, &worker->keys[out]);
		swap = worker->keys[out];
		worker->keys[out] = worker->keys[in];
		worker->keys[in] = swap;
		if (i % 4 == 0)
			adapt_own(worker, &worker->keys[(out + 1) % held]);
		if (wn_aqf_insert(worker->aqf, worker->keys[out].hash, NULL))
			blame(worker, "a key was refused below capacity");
		worker->keys[out].count = 1;
		worker->keys[out].has_fixed = false;
	}
	return NULL;
}

START_TEST(threads_that_replace_keys_at_capacity_are_never_refused)
{
	unsigned threads = 2 + (unsigned)_i;
	uint64_t random = test_seed("replace", 370 + (uint64_t)_i);
	size_t share = 12000 / threads;
	struct wn_aqf *aqf = new_filter(share * threads, 14);
	struct own_key *keys = make_keys(aqf, 2 * share * threads, 0, &random);
	struct worker workers[MAX_THREADS];

	aqf->insert_limit = share * threads;
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.aqf = aqf,
			.keys = keys + i * 2 * share,
			.key_count = 2 * share,
			.operations = scaled(200000) / threads,
			.random = random + i,
		};
		for (size_t at = 0; at < share; at++)
			insert_own(&workers[i], &workers[i].keys[at]);
		ck_assert_uint_eq(workers[i].done[REFUSALS], 0);
	}
	ck_assert_int_eq(wn_aqf_insert(aqf, keys[0].hash, NULL), WN_ERR_FULL);
	for (unsigned i = 0; i < threads; i++)
		start(&workers[i], replace_keys);
	for (unsigned i = 0; i < threads; i++)
		join(&workers[i]);
	ck_assert_int_eq(wn_aqf_insert(aqf, keys[0].hash, NULL), WN_ERR_FULL);
	check_after(aqf, keys, 2 * share * threads);
	free(keys);
	wn_aqf_destroy(aqf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_threads");
	TCase *tests = tcase_create("threads");

	tcase_set_timeout(tests, 600);
	tcase_add_loop_test(tests, readers_find_every_key_while_a_writer_changes_others, 0, 2);
	tcase_add_test(tests, fixed_false_positives_stay_fixed_while_others_are_adapted);
	tcase_add_loop_test(tests, keys_inserted_by_many_threads_are_all_there, 0, 3);
	tcase_add_loop_test(tests, threads_that_change_a_small_filter_do_not_lose_anything, 0, 6);
	tcase_add_loop_test(tests, threads_that_meet_at_region_borders_do_not_lose_anything, 0, 6);
	tcase_add_loop_test(tests, threads_that_share_a_cluster_over_regions_do_not_lose_anything,
			    0, 3);
	tcase_add_test(tests, a_cluster_is_measured_from_a_block_that_stands_still);
	tcase_add_loop_test(tests, threads_that_replace_keys_at_capacity_are_never_refused, 0, 3);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
