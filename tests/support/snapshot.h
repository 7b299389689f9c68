/* snapshot.h - is a filter with its reverse map as it was? */
#ifndef WN_TESTS_SNAPSHOT_H
#define WN_TESTS_SNAPSHOT_H

#include <winnow/aqf.h>
#include <winnow/reversemap.h>

#include "common.h"

struct snapshot {
	struct wn_aqf_info info;
	uint64_t filter; /* digest of every fingerprint, in order */
	uint64_t map;    /* digest of every entry, in any order */
	uint64_t entries;
};

static inline uint64_t mix_digest(uint64_t digest, uint64_t value)
{
	uint64_t state = digest ^ value;

	return test_random(&state);
}

static inline uint64_t digest_bytes(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint64_t digest = size;

	for (size_t i = 0; i < size; i++)
		digest = mix_digest(digest, at[i]);
	return digest;
}

static inline int digest_entry(void *arg, uint64_t minirun, uint32_t rank,
			       const struct wn_revmap_entry *entry)
{
	struct snapshot *shot = arg;
	uint64_t digest = mix_digest(mix_digest(minirun, rank), entry->hash.hi);

	digest = mix_digest(digest, entry->hash.lo);
	if (entry->key)
		digest = mix_digest(digest, digest_bytes(entry->key, entry->key_size));
	shot->map += digest;
	shot->entries++;
	return 0;
}

static inline struct snapshot take_snapshot(const struct wn_aqf *aqf, const struct wn_revmap *map)
{
	struct snapshot shot = {.filter = 0};
	struct wn_aqf_cursor cursor;
	struct wn_aqf_entry entry;

	wn_aqf_describe(aqf, &shot.info);
	wn_aqf_cursor_init(&cursor, aqf);
	while (wn_aqf_cursor_next(&cursor, &entry)) {
		shot.filter = mix_digest(shot.filter, entry.minirun);
		shot.filter = mix_digest(shot.filter, entry.rank);
		shot.filter = mix_digest(shot.filter, entry.extensions);
		shot.filter = mix_digest(shot.filter, entry.count);
		shot.filter = mix_digest(shot.filter, entry.tag);
		shot.filter = mix_digest(shot.filter, entry.fraction.hi);
		shot.filter = mix_digest(shot.filter, entry.fraction.lo);
	}
	ck_assert_int_eq(wn_revmap_visit(map, digest_entry, &shot), 0);
	ck_assert_uint_eq(wn_revmap_count(map), shot.entries);
	ck_assert_uint_eq(shot.info.fingerprints, shot.entries);
	return shot;
}

static inline void assert_same_snapshot(struct snapshot a, struct snapshot b)
{
	ck_assert_uint_eq(a.info.slots, b.info.slots);
	ck_assert_uint_eq(a.info.used_slots, b.info.used_slots);
	ck_assert_uint_eq(a.info.extensions, b.info.extensions);
	ck_assert_uint_eq(a.info.counters, b.info.counters);
	ck_assert_uint_eq(a.info.remainder_bits, b.info.remainder_bits);
	ck_assert_uint_eq(a.entries, b.entries);
	ck_assert_uint_eq(a.filter, b.filter);
	ck_assert_uint_eq(a.map, b.map);
}

#endif /* WN_TESTS_SNAPSHOT_H */
