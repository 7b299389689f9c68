/* yesno.h - YES/NO lists of numbered items. */
#ifndef WN_TESTS_YESNO_H
#define WN_TESTS_YESNO_H

#include <string.h>

#include <winnow/yesno.h>

#include "tests/support/common.h"
#include "tests/support/revmap.h"
#include "tests/support/snapshot.h"

/* ---- helpers ------------------------------------------------------------ */

/* The lists, and their map borrowed for a look inside. */
struct fixture {
	struct wn_yesno *lists;
	struct wn_revmap *map;
};

static inline struct fixture make_lists_over(uint64_t yes, uint64_t no, unsigned bits,
					     struct wn_revmap *map)
{
	struct wn_yesno_options options = {
		.yes_capacity = yes, .no_capacity = no, .remainder_bits = bits};
	struct wn_secret *secret = test_secret(5);
	struct fixture fixture = {.map = map};

	ck_assert_int_eq(wn_yesno_create(&options, secret, map, &fixture.lists), 0);
	wn_secret_destroy(secret);
	return fixture;
}

static inline struct fixture make_lists(uint64_t yes, uint64_t no, unsigned bits, bool keep_keys)
{
	return make_lists_over(yes, no, bits, make_map(keep_keys));
}

static inline int add(struct wn_yesno *lists, enum wn_list list, uint32_t n)
{
	return wn_yesno_add(lists, list, &n, sizeof(n));
}

static inline int drop(struct wn_yesno *lists, uint32_t n)
{
	return wn_yesno_remove(lists, &n, sizeof(n));
}

static inline bool query(const struct wn_yesno *lists, uint32_t n)
{
	return wn_yesno_query(lists, &n, sizeof(n));
}

static inline struct wn_aqf_info describe(const struct wn_yesno *lists)
{
	struct wn_aqf_info info;

	wn_aqf_describe(wn_yesno_filter(lists), &info);
	return info;
}

static inline struct snapshot snap(const struct fixture *fixture)
{
	return take_snapshot(wn_yesno_filter(fixture->lists), fixture->map);
}

/* Even numbers on YES, odd ones on NO. */
static inline enum wn_list list_of(uint32_t n)
{
	return n % 2 ? WN_LIST_NO : WN_LIST_YES;
}

static inline void add_range(struct wn_yesno *lists, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		ck_assert_int_eq(add(lists, list_of(n), n), 0);
}

static inline void assert_range(const struct wn_yesno *lists, uint32_t from, uint32_t to)
{
	/* ck_assert() writes to a pipe even when all is well: too slow for what is
	 * called millions of times. */
	for (uint32_t n = from; n < to; n++)
		if (query(lists, n) != (list_of(n) == WN_LIST_YES))
			ck_abort_msg("item %u answers wrong", n);
}

/* ---- facts -------------------------------------------------------------- */

/* Items that share a minirun: their hashes part only at the bit given. */
static inline struct wn_revmap_entry close_item(unsigned bit, const char *key)
{
	struct wn_revmap_entry item =
		make_item(UINT64_C(0x5555555555555555), UINT64_C(0x5555555555555555), key);

	if (bit < 64)
		item.hash.lo ^= UINT64_C(1) << bit;
	else if (bit < 128)
		item.hash.hi ^= UINT64_C(1) << (bit - 64);
	return item;
}

#endif /* WN_TESTS_YESNO_H */
