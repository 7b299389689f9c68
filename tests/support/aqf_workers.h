/* aqf_workers.h - threads that change a living filter, each its own keys. */
#ifndef WN_TESTS_AQF_WORKERS_H
#define WN_TESTS_AQF_WORKERS_H

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

static inline void blame(struct worker *worker, const char *what)
{
	if (!worker->wrong)
		worker->wrong = what;
}

static inline uint64_t scaled(uint64_t operations)
{
	return test_is_quick() ? operations / 20 : operations;
}

/* ---- keys --------------------------------------------------------------- */

static inline int compare_keys(const void *a, const void *b)
{
	return wn_hash_compare(((const struct own_key *)a)->hash,
			       ((const struct own_key *)b)->hash);
}

/* `count` keys, no two in one minirun, in random order. With `border` above 0 all of
 * their quotients are within so many of a border between regions. */
static inline struct own_key *make_keys(const struct wn_aqf *aqf, size_t count, uint64_t border,
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

static inline struct wn_aqf *new_filter_at(uint64_t capacity, unsigned remainder_bits, double load)
{
	struct wn_aqf_options options = {
		.capacity = capacity, .remainder_bits = remainder_bits, .load = load};
	struct wn_aqf *aqf;

	ck_assert_int_eq(wn_aqf_create(&options, &aqf), 0);
	return aqf;
}

static inline struct wn_aqf *new_filter(uint64_t capacity, unsigned remainder_bits)
{
	return new_filter_at(capacity, remainder_bits, 0);
}

/* ---- one change --------------------------------------------------------- */

static inline void insert_own(struct worker *worker, struct own_key *key)
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
static inline void delete_own(struct worker *worker, struct own_key *key)
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

static inline void check_count(struct worker *worker, const struct own_key *key)
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

static inline void count_own(struct worker *worker, struct own_key *key)
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

static inline void adapt_own(struct worker *worker, struct own_key *key)
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

static inline void check_own(struct worker *worker, const struct own_key *key)
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

static inline void change_own(struct worker *worker, struct own_key *key)
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
static inline bool goes_on(const struct worker *worker, uint64_t operations)
{
	if (worker->wrong)
		return false;
	return worker->stop ? !__atomic_load_n(worker->stop, __ATOMIC_RELAXED)
			    : operations < worker->operations;
}

static inline void *change_all(void *arg)
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

static inline void *read_all(void *arg)
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

static inline void start(struct worker *worker, void *(*work)(void *))
{
	ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static inline void join(struct worker *worker)
{
	ck_assert_int_eq(pthread_join(worker->thread, NULL), 0);
	ck_assert_msg(!worker->wrong, "%s", worker->wrong);
}

static inline int compare_items(const void *a, const void *b)
{
	const struct shelf_item *one = a, *two = b;

	return one->minirun < two->minirun ? -1 : one->minirun > two->minirun;
}

/* With all threads gone, the filter is exactly what they remember, and well formed. */
static inline void check_after(struct wn_aqf *aqf, const struct own_key *keys, size_t count)
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
static inline void run_writers(struct wn_aqf *aqf, struct own_key *keys, size_t count,
			       unsigned threads, uint64_t operations, uint64_t seed,
			       uint64_t done[5])
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

#endif /* WN_TESTS_AQF_WORKERS_H */
