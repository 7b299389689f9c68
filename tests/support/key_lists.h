/* key_lists.h - key lists to put into stores, and what must come out of them. */
#ifndef WN_TESTS_KEY_LISTS_H
#define WN_TESTS_KEY_LISTS_H

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/bits.h"
#include "common.h"
#include "reversemap/map.h"
#include "base/sort.h"

/* ---- a directory for a test --------------------------------------------- */

static inline void make_directory(char *path)
{
	const char *parent = getenv("TMPDIR");

	if (!parent)
		parent = "/tmp";
	ck_assert_int_lt(snprintf(path, PATH_MAX, "%s/winnow-runs-XXXXXX", parent), PATH_MAX);
	ck_assert_ptr_nonnull(mkdtemp(path));
}

/* Removes the files in it as well. */
static inline void remove_directory(const char *path)
{
	DIR *stream = opendir(path);
	struct dirent *entry;

	ck_assert_ptr_nonnull(stream);
	while ((entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			ck_assert_int_eq(unlinkat(dirfd(stream), entry->d_name, 0), 0);
	}
	closedir(stream);
	ck_assert_int_eq(rmdir(path), 0);
}

/* How many names in it end so. */
static inline unsigned count_files(const char *path, const char *end)
{
	DIR *stream = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	ck_assert_ptr_nonnull(stream);
	while ((entry = readdir(stream))) {
		size_t size = strlen(entry->d_name);

		count += entry->d_name[0] != '.' && size >= strlen(end) &&
			 strcmp(entry->d_name + size - strlen(end), end) == 0;
	}
	closedir(stream);
	return count;
}

/* ---- a key list --------------------------------------------------------- */

struct sample {
	struct wn__keylist list;
	struct wn_hash *hashes;
};

/* The same number gives the same key list. */
static inline struct sample make_sample(uint64_t number, uint64_t count, uint64_t slots,
					unsigned remainder_bits)
{
	uint64_t state = number;
	struct sample sample = {
		.list = {.key_count = count,
			.slots = slots,
			.secret_id = (uint32_t)(number + 7),
			.remainder_bits = remainder_bits,
			.owner = number + 1000},
		.hashes = malloc((count + 1) * sizeof(struct wn_hash)),
	};

	ck_assert_ptr_nonnull(sample.hashes);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t half = test_random(&state);

		memcpy(sample.list.id + i * 8, &half, 8);
	}
	for (uint64_t i = 0; i < count; i++)
		sample.hashes[i] = test_random_hash(&state);
	ck_assert_int_eq(wn__sort_hashes(sample.hashes, count), 0);
	return sample;
}

static inline void free_sample(struct sample *sample)
{
	free(sample->hashes);
}

/* floor(upper half * slots * 2^remainder_bits / 2^64), in limbs of 32 bits: another way than
 * the library's. */
static inline uint64_t minirun_by_hand(const struct wn__keylist *list, struct wn_hash hash)
{
	const uint32_t limbs[2] = {(uint32_t)hash.hi, (uint32_t)(hash.hi >> 32)};
	uint64_t factor = list->slots << list->remainder_bits;
	wn__u128 carry = 0;

	for (unsigned i = 0; i < 2; i++)
		carry = (carry >> 32) + (wn__u128)limbs[i] * factor;
	return (uint64_t)(carry >> 32);
}

/* The hash, or its first bytes and zeros. */
static inline bool is_entry(const struct wn__keylist_entry *entry, struct wn_hash hash)
{
	if (entry->hash.hi != hash.hi)
		return false;
	if (entry->fraction_bits == 128)
		return entry->hash.lo == hash.lo;
	for (unsigned bytes = 8; bytes < 16; bytes++) {
		if (entry->hash.lo == (hash.lo & ~wn__keylist_lost_bits(bytes)))
			return true;
	}
	return false;
}

/* Do the bits that are said to be known agree with the true hash? */
static inline bool are_bits_true(const struct wn__keylist *list,
				 const struct wn__keylist_entry *entry, struct wn_hash hash)
{
	struct wn__fingerprint truth = wn__split(hash, list->slots);
	struct wn__fingerprint told = wn__split(entry->hash, list->slots);

	return truth.quotient == told.quotient && entry->fraction_bits >= list->remainder_bits &&
	       wn__common_prefix(truth.hi, truth.lo, told.hi, told.lo) >= entry->fraction_bits;
}

/* All hashes of the minirun that begins with hash number `at`, in one go, and that there are no
 * others. */
static inline void expect_minirun(struct wn__map *map, const struct sample *sample, uint64_t at)
{
	enum { MAX = 20 };
	const struct wn__keylist *list = &sample->list;
	uint64_t minirun = minirun_by_hand(list, sample->hashes[at]);
	struct wn__keylist_entry entries[MAX];
	size_t count, length = 0;

	while (length < MAX && at + length < list->key_count &&
	       minirun_by_hand(list, sample->hashes[at + length]) == minirun)
		length++;
	expect(wn__map_lookup_minirun(map, list, minirun, 0, entries, MAX, &count) ==
	       (length < MAX ? WN__MAP_NO_PLACE : 0));
	expect(count == length);
	for (size_t i = 0; i < count; i++) {
		expect(is_entry(&entries[i], sample->hashes[at + i]));
		expect(are_bits_true(list, &entries[i], sample->hashes[at + i]));
	}
}

/* Look up every `step`th hash where it must be, and past the end of its minirun. */
static inline void expect_list(struct wn__map *map, const struct sample *sample, uint64_t step)
{
	const struct wn__keylist *list = &sample->list;
	uint64_t last = UINT64_MAX;
	uint32_t rank = 0;

	for (uint64_t i = 0; i < list->key_count; i++) {
		uint64_t minirun = minirun_by_hand(list, sample->hashes[i]);
		bool ends = i + 1 == list->key_count ||
			    minirun_by_hand(list, sample->hashes[i + 1]) != minirun;
		struct wn__keylist_entry entry;

		rank = minirun == last ? rank + 1 : 0;
		last = minirun;
		if (i % step != 0)
			continue;
		if (rank == 0)
			expect_minirun(map, sample, i);
		expect(wn__map_lookup(map, list, minirun, rank, &entry) == 0);
		expect(is_entry(&entry, sample->hashes[i]));
		expect(are_bits_true(list, &entry, sample->hashes[i]));
		if (ends)
			expect(wn__map_lookup(map, list, minirun, rank + 1, &entry) ==
			       WN__MAP_NO_PLACE);
	}
}

/* A page of the key list is lost or damaged, the one with the hashes from `first` to `end` - 1.
 * What is stored is never said not to be, and an empty minirun is only known to be empty if the
 * hashes on both sides of it are on other pages. Returns how many are. */
static inline uint64_t expect_gaps(struct wn__map *map, const struct sample *sample,
				   uint64_t first, uint64_t end)
{
	const struct wn__keylist *list = &sample->list;
	uint64_t proved = 0;

	for (uint64_t i = 0; i + 1 < list->key_count; i++) {
		uint64_t minirun = minirun_by_hand(list, sample->hashes[i]);
		uint64_t next = minirun_by_hand(list, sample->hashes[i + 1]);
		struct wn__keylist_entry entry;
		int err = wn__map_lookup(map, list, minirun, 0, &entry);

		expect(err != WN__MAP_NO_PLACE);
		if (minirun + 1 >= next)
			continue;
		err = wn__map_lookup(map, list, minirun + 1, 0, &entry);
		expect(err != 0);
		if (i + 1 >= first && i < end)
			expect(err != WN__MAP_NO_PLACE);
		proved += err == WN__MAP_NO_PLACE;
	}
	return proved;
}

/* For wn__map_stream(): compares with a sample. */
struct comparison {
	const struct sample *sample;
	uint64_t seen;
};

static inline int compare_hashes(void *arg, const struct wn__keylist_info *info,
				 const struct wn_hash *hashes, size_t count)
{
	struct comparison *comparison = arg;

	expect(comparison->seen + count <= comparison->sample->list.key_count);
	for (size_t i = 0; i < count; i++) {
		struct wn_hash hash = comparison->sample->hashes[comparison->seen++];

		expect(hashes[i].hi == hash.hi);
		expect(hashes[i].lo == (hash.lo & ~wn__keylist_lost_bits(info->hash_bytes)));
	}
	return 0;
}

static inline void expect_stream(struct wn__map *map, const struct sample *sample)
{
	struct comparison comparison = {.sample = sample};

	ck_assert_int_eq(wn__map_stream(map, sample->list.id, compare_hashes, &comparison), 0);
	ck_assert_uint_eq(comparison.seen, sample->list.key_count);
}

#endif /* WN_TESTS_KEY_LISTS_H */
