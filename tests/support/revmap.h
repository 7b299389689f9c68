/* revmap.h - reverse maps in memory, and entries for them. */
#ifndef WN_TESTS_REVMAP_H
#define WN_TESTS_REVMAP_H

#include <string.h>

#include <winnow/reversemap.h>

#include "tests/support/common.h"

static inline struct wn_revmap *make_map(bool keep_keys)
{
	struct wn_revmap *map;

	ck_assert_int_eq(wn_revmap_memory_create(keep_keys, &map), 0);
	return map;
}

static inline struct wn_revmap_entry make_item(uint64_t hi, uint64_t lo, const char *key)
{
	return (struct wn_revmap_entry){.hash = {hi, lo}, .key = key, .key_size = strlen(key)};
}

#endif /* WN_TESTS_REVMAP_H */
