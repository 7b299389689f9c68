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
	uint64_t *uppers; /* the upper halves of the hashes, ascending */
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
		.uppers = malloc((count + 1) * sizeof(uint64_t)),
	};

	ck_assert_ptr_nonnull(sample.uppers);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t half = test_random(&state);

		memcpy(sample.list.id + i * 8, &half, 8);
	}
	for (uint64_t i = 0; i < count; i++)
		sample.uppers[i] = test_random_hash(&state).hi;
	qsort(sample.uppers, count, sizeof(*sample.uppers), wn__compare_numbers);
	return sample;
}

static inline void free_sample(struct sample *sample)
{
	free(sample->uppers);
}

/* floor(upper half * slots * 2^remainder_bits / 2^64), in limbs of 32 bits: another way than
 * the library's. */
static inline uint64_t minirun_by_hand(const struct wn__keylist *list, uint64_t upper)
{
	const uint32_t limbs[2] = {(uint32_t)upper, (uint32_t)(upper >> 32)};
	uint64_t factor = list->slots << list->remainder_bits;
	wn__u128 carry = 0;

	for (unsigned i = 0; i < 2; i++)
		carry = (carry >> 32) + (wn__u128)limbs[i] * factor;
	return (uint64_t)(carry >> 32);
}

/* The upper half and zeros. */
static inline bool is_entry(const struct wn__keylist_entry *entry, uint64_t upper)
{
	return entry->hash.hi == upper && entry->hash.lo == 0;
}

/* Do the bits that are said to be known agree with this hash? */
static inline bool do_bits_agree(const struct wn__keylist *list,
				 const struct wn__keylist_entry *entry, struct wn_hash hash)
{
	struct wn__fingerprint truth = wn__split(hash, list->slots);
	struct wn__fingerprint told = wn__split(entry->hash, list->slots);

	return truth.quotient == told.quotient && entry->fraction_bits >= list->remainder_bits &&
	       wn__common_prefix(truth.hi, truth.lo, told.hi, told.lo) >= entry->fraction_bits;
}

/* Are they those of every hash with this upper half? */
static inline bool are_bits_true(const struct wn__keylist *list,
				 const struct wn__keylist_entry *entry, uint64_t upper)
{
	return do_bits_agree(list, entry, (struct wn_hash){upper, 0}) &&
	       do_bits_agree(list, entry, (struct wn_hash){upper, UINT64_MAX}) &&
	       do_bits_agree(list, entry, (struct wn_hash){upper, ~upper});
}

/* All hashes of the minirun that begins with hash number `at`, in one go, and that there are no
 * others. */
static inline void expect_minirun(struct wn__map *map, const struct sample *sample, uint64_t at)
{
	enum { MAX = 20 };
	const struct wn__keylist *list = &sample->list;
	uint64_t minirun = minirun_by_hand(list, sample->uppers[at]);
	struct wn__keylist_entry entries[MAX];
	size_t count, length = 0;

	while (length < MAX && at + length < list->key_count &&
	       minirun_by_hand(list, sample->uppers[at + length]) == minirun)
		length++;
	expect(wn__map_lookup_minirun(map, list, minirun, 0, entries, MAX, &count) ==
	       (length < MAX ? WN__MAP_NO_PLACE : 0));
	expect(count == length);
	for (size_t i = 0; i < count; i++) {
		expect(is_entry(&entries[i], sample->uppers[at + i]));
		expect(are_bits_true(list, &entries[i], sample->uppers[at + i]));
	}
}

/* Look up every `step`th hash where it must be, and past the end of its minirun. */
static inline void expect_list(struct wn__map *map, const struct sample *sample, uint64_t step)
{
	const struct wn__keylist *list = &sample->list;
	uint64_t last = UINT64_MAX;
	uint32_t rank = 0;

	for (uint64_t i = 0; i < list->key_count; i++) {
		uint64_t minirun = minirun_by_hand(list, sample->uppers[i]);
		bool ends = i + 1 == list->key_count ||
			    minirun_by_hand(list, sample->uppers[i + 1]) != minirun;
		struct wn__keylist_entry entry;

		rank = minirun == last ? rank + 1 : 0;
		last = minirun;
		if (i % step != 0)
			continue;
		if (rank == 0)
			expect_minirun(map, sample, i);
		expect(wn__map_lookup(map, list, minirun, rank, &entry) == 0);
		expect(is_entry(&entry, sample->uppers[i]));
		expect(are_bits_true(list, &entry, sample->uppers[i]));
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
		uint64_t minirun = minirun_by_hand(list, sample->uppers[i]);
		uint64_t next = minirun_by_hand(list, sample->uppers[i + 1]);
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

static inline int compare_uppers(void *arg, const struct wn__keylist_info *info,
				 const uint64_t *uppers, size_t count)
{
	struct comparison *comparison = arg;

	expect(memcmp(info->list.id, comparison->sample->list.id, WN_BLOCK_ID_SIZE) == 0);
	expect(comparison->seen + count <= comparison->sample->list.key_count);
	for (size_t i = 0; i < count; i++)
		expect(uppers[i] == comparison->sample->uppers[comparison->seen++]);
	return 0;
}

static inline void expect_stream(struct wn__map *map, const struct sample *sample)
{
	struct comparison comparison = {.sample = sample};

	ck_assert_int_eq(wn__map_stream(map, sample->list.id, compare_uppers, &comparison), 0);
	ck_assert_uint_eq(comparison.seen, sample->list.key_count);
}

#endif /* WN_TESTS_KEY_LISTS_H */
