/* leveldb_twins.h - sets of keys whose filters have the same bytes, or nearly: what was learned
 * about one set denies keys of the other, if it is taken for the other's.
 *
 * Sorted keys in groups; in each group one key stands for any of three, the twins. Their hashes
 * begin with the same 16 bits, more than a filter of a data block keeps of a key. A state of a
 * database has one twin of each group; asked for another one, its filters say "maybe". */
#ifndef WN_TESTS_LEVELDB_TWINS_H
#define WN_TESTS_LEVELDB_TWINS_H

#include <winnow/hash.h>

#include "leveldb_db.h"

enum {
	TWIN_GROUPS = 300,
	TWINS = 3,
	TWIN_MEMBERS = 36, /* about a data block */
	TWIN_MIDDLE = 18,
	TWIN_CANDIDATES = 8192,
	TWIN_KEY_SIZE = 18,
};

/* Small remainders, so that twins have the same whatever a block's other keys are. A buffer that
 * takes a whole state: one table is made of it. */
#define TWIN_FILTER "aqf:remainder_bits=3"
#define TWIN_BUFFER ((size_t)8 << 20)

struct twins {
	unsigned groups;
	uint32_t serials[TWIN_GROUPS][TWINS];
};

static inline void twin_key(unsigned group, unsigned member, uint32_t serial, char *key)
{
	char text[48];

	expect(snprintf(text, sizeof(text), "g%04u-%02u-%09" PRIu32, group, member, serial) ==
	       TWIN_KEY_SIZE);
	memcpy(key, text, TWIN_KEY_SIZE);
}

struct twin_candidate {
	uint32_t start, serial;
};

static inline int compare_candidates(const void *a, const void *b)
{
	const struct twin_candidate *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static inline void find_group_twins(const struct wn_secret *secret, unsigned group,
				    uint32_t *serials)
{
	static struct twin_candidate candidates[TWIN_CANDIDATES];

	for (uint32_t base = 1;; base += TWIN_CANDIDATES) {
		for (uint32_t i = 0; i < TWIN_CANDIDATES; i++) {
			char key[TWIN_KEY_SIZE];

			twin_key(group, TWIN_MIDDLE, base + i, key);
			candidates[i] = (struct twin_candidate){
				(uint32_t)(wn_hash_key(secret, key, sizeof(key)).hi >> 48),
				base + i};
		}
		qsort(candidates, TWIN_CANDIDATES, sizeof(*candidates), compare_candidates);
		for (uint32_t i = 0; i + TWINS <= TWIN_CANDIDATES; i++) {
			if (candidates[i].start != candidates[i + TWINS - 1].start)
				continue;
			for (uint32_t j = 0; j < TWINS; j++)
				serials[j] = candidates[i + j].serial;
			return;
		}
	}
}

/* `name`: a database that has its secret. */
static inline void find_twins(const char *name, unsigned groups, struct twins *twins)
{
	struct wn_secret *secret;
	char path[300];

	expect(groups <= TWIN_GROUPS);
	twins->groups = groups;
	snprintf(path, sizeof(path), "%.250s/winnow.secret", name);
	ck_assert_int_eq(wn_secret_load(test_path(path), &secret), 0);
	for (unsigned group = 0; group < groups; group++)
		find_group_twins(secret, group, twins->serials[group]);
	wn_secret_destroy(secret);
}

static inline struct db_setup twin_setup(const char *name)
{
	return (struct db_setup){.name = name, .filter = TWIN_FILTER, .buffer = TWIN_BUFFER};
}

/* A state with twin `which` in each group. */
static inline void put_twins(struct db *db, const struct twins *twins, unsigned which)
{
	for (unsigned group = 0; group < twins->groups; group++) {
		for (unsigned member = 0; member < TWIN_MEMBERS; member++) {
			bool middle = member == TWIN_MIDDLE;
			char key[TWIN_KEY_SIZE], value[100];
			char *error = NULL;

			twin_key(group, member, middle ? twins->serials[group][which] : 0, key);
			memset(value, 'v', sizeof(value));
			memcpy(value, key, sizeof(key));
			leveldb_put(db->level, db->writing, key, sizeof(key), value, sizeof(value),
				    &error);
			expect_no(error);
		}
	}
}

static inline bool has_twin(struct db *db, unsigned group, unsigned member, uint32_t serial)
{
	char key[TWIN_KEY_SIZE];
	char *error = NULL, *value;
	size_t size;

	twin_key(group, member, serial, key);
	value = wn_leveldb_get(db->wn, db->reading, key, sizeof(key), &size, &error);
	expect_no(error);
	if (value)
		expect(size == 100 && memcmp(value, key, sizeof(key)) == 0);
	leveldb_free(value);
	return value != NULL;
}

/* How many keys of a state are not found? */
static inline unsigned count_denied_twins(struct db *db, const struct twins *twins,
					  unsigned which)
{
	unsigned denied = 0;

	for (unsigned group = 0; group < twins->groups; group++)
		denied += !has_twin(db, group, TWIN_MIDDLE, twins->serials[group][which]);
	for (unsigned group = 0; group < twins->groups; group++)
		for (unsigned member = 0; member < TWIN_MEMBERS; member++)
			denied += member != TWIN_MIDDLE && !has_twin(db, group, member, 0);
	return denied;
}

/* How many of the twins that the state has not were taken for stored? They are learned about. */
static inline unsigned ask_absent_twins(struct db *db, const struct twins *twins, unsigned which)
{
	unsigned wrong = 0;

	for (unsigned group = 0; group < twins->groups; group++) {
		uint64_t queries, positives;

		expect(!has_twin(db, group, TWIN_MIDDLE, twins->serials[group][which]));
		wn_leveldb_last_get(&queries, &positives);
		wrong += positives > 0;
	}
	return wrong;
}

/* Nearly all of them are, and none after that: then the filters have the same fingerprints, and
 * something was learned that could do harm. */
static inline void learn_absent_twins(struct db *db, const struct twins *twins, unsigned which)
{
	wn_leveldb_drain(db->wn);
	ck_assert_uint_ge(ask_absent_twins(db, twins, which), twins->groups / 10 * 9);
	ck_assert_uint_eq(ask_absent_twins(db, twins, which), 0);
}

#endif /* WN_TESTS_LEVELDB_TWINS_H */
