/* test_map.c - the contract of the run-level reverse map, on every store. */
#include <errno.h>
#include <pthread.h>

#include <winnow/aqf.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "tests/support/runs_common.h"

/* ---- the stores, each with hashes of several lengths --------------------- */

static char directory[PATH_MAX];

static int open_memory(struct wn__map **runsp)
{
	return wn__map_memory_create(runsp);
}

/* Few open files, so that they must change places. */
static int open_sidecar(struct wn__map **runsp)
{
	return wn__map_sidecar_open(directory, &(struct wn__sidecar_options){.max_open = 3},
				     runsp);
}

static const struct store {
	int (*open)(struct wn__map **runsp);
	unsigned hash_bytes;
} stores[] = {
	{open_memory, 8}, {open_memory, 11}, {open_memory, 16},
	{open_sidecar, 8}, {open_sidecar, 11}, {open_sidecar, 16},
};

#define STORE_COUNT ((int)(sizeof(stores) / sizeof(stores[0])))

static void set_up(void)
{
	make_directory(directory);
}

static void tear_down(void)
{
	remove_directory(directory);
}

static struct wn__map *open_store(int which)
{
	struct wn__map *map;

	ck_assert_int_eq(stores[which].open(&map), 0);
	return map;
}

static void put(struct wn__map *map, int which, const struct sample *sample)
{
	ck_assert_int_eq(wn__map_put(map, &sample->list, sample->hashes, stores[which].hash_bytes),
			 0);
}

static struct wn__map_stats stats_of(const struct wn__map *map)
{
	struct wn__map_stats stats;

	wn__map_stats(map, &stats);
	return stats;
}

/* The list, the accounts and `count` agree. */
static void assert_count(struct wn__map *map, size_t count)
{
	struct wn__keylist_info *infos;
	uint64_t bytes = 0;
	size_t listed;

	ck_assert_int_eq(wn__map_list(map, &infos, &listed), 0);
	ck_assert_uint_eq(listed, count);
	for (size_t i = 0; i < listed; i++) {
		ck_assert_int_eq(infos[i].error, 0);
		bytes += infos[i].bytes;
	}
	ck_assert_uint_eq(stats_of(map).map, count);
	ck_assert_uint_eq(stats_of(map).bytes, bytes);
	free(infos);
}

static struct wn__keylist_info only_info(struct wn__map *map)
{
	struct wn__keylist_info *infos, info;
	size_t count;

	ck_assert_int_eq(wn__map_list(map, &infos, &count), 0);
	ck_assert_uint_eq(count, 1);
	info = infos[0];
	free(infos);
	return info;
}

/* ---- finding ------------------------------------------------------------ */

/* Few slots and remainder bits make long miniruns, which go over many pages. The
 * counts are those around the ends of first and second pages. */
static const struct shape {
	uint64_t count, slots;
	unsigned remainder_bits;
} shapes[] = {
	{0, 1, 2},
	{1, 1, 2},
	{2, 5, 3},
	{250, 300, 2},
	{251, 300, 2},
	{252, 300, 2},
	{365, 300, 2},
	{366, 300, 2},
	{503, 530, 4},
	{504, 530, 4},
	{506, 100, 2},
	{507, 100, 2},
	{736, 1, 2},
	{737, 1, 2},
	{1014, 1, 2},
	{1015, 1, 2},
	{5000, 1, 2},
	{5000, 7, 2},
	{5000, 5264, 2},
	{5000, 5264, 9},
	{3000, UINT32_MAX, 32},
	{3000, UINT64_C(1) << 40, 23},
	{3000, UINT64_C(999999999999), 20},
};

START_TEST(every_hash_is_found_at_its_minirun_and_rank)
{
	struct wn__map *map = open_store(_i);

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct sample sample = make_sample(i, shapes[i].count, shapes[i].slots,
						   shapes[i].remainder_bits);

		put(map, _i, &sample);
		expect_run(map, &sample, 1);
		expect_stream(map, &sample);
		free_sample(&sample);
	}
	assert_count(map, sizeof(shapes) / sizeof(shapes[0]));
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_place_where_nothing_is_has_no_hash)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(3, 2000, 2106, 9);
	struct wn__keylist_entry entry;
	uint64_t state = test_seed("a_place_where_nothing_is_has_no_hash", 5);
	uint64_t asked = 0;

	put(map, _i, &sample);
	for (unsigned i = 0; i < 5000; i++) {
		struct wn_hash other = test_random_hash(&state);
		uint64_t minirun = minirun_by_hand(&sample.list, other);
		int err = wn__map_lookup(map, &sample.list, minirun, 0, &entry);

		expect(err == 0 || err == WN__MAP_NO_PLACE);
		if (err == 0)
			expect(minirun_by_hand(&sample.list, entry.hash) == minirun);
		else
			asked++;
	}
	ck_assert_uint_gt(asked, 4900);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, UINT64_MAX, UINT32_MAX, &entry),
			 WN__MAP_NO_PLACE);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, 2106 << 9, 0, &entry),
			 WN__MAP_NO_PLACE);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, 0, UINT32_MAX, &entry),
			 WN__MAP_NO_PLACE);
	ck_assert_uint_eq(stats_of(map).missing, 0);
	ck_assert_uint_eq(stats_of(map).lookups, 5003);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* Under the plain shape nearly every minirun is empty; between any two hashes, too. */
START_TEST(an_empty_minirun_is_proved_to_be_empty)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(4, 3000, 3000, WN__PLAIN_REMAINDER_BITS);
	struct wn__keylist_entry entry;
	uint64_t gaps = 0, miniruns = sample.list.slots << sample.list.remainder_bits;

	put(map, _i, &sample);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t minirun = minirun_by_hand(&sample.list, sample.hashes[i]);
		uint64_t next = i + 1 < 3000 ?
					minirun_by_hand(&sample.list, sample.hashes[i + 1]) :
					miniruns;

		expect(wn__map_lookup(map, &sample.list, minirun, 0, &entry) == 0);
		if (minirun + 1 >= next)
			continue;
		expect(wn__map_lookup(map, &sample.list, minirun + 1, 0, &entry) ==
		       WN__MAP_NO_PLACE);
		expect(wn__map_lookup(map, &sample.list, next - 1, 0, &entry) ==
		       WN__MAP_NO_PLACE);
		gaps++;
	}
	ck_assert_uint_gt(gaps, 2900);
	/* A run that is not there proves nothing. */
	ck_assert_int_eq(wn__map_drop(map, sample.list.id), 0);
	ck_assert_int_eq(wn__map_lookup(map, &sample.list, 0, 0, &entry), WN_ERR_NOT_FOUND);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(the_bits_said_to_be_known_are_those_of_any_hash_it_may_be)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(4, 20000, 21053, 5);
	uint64_t state = test_seed("the_bits_said_to_be_known", 6), known = 0;
	uint64_t lost = wn__keylist_lost_bits(stores[_i].hash_bytes);

	put(map, _i, &sample);
	for (uint64_t i = 0; i < sample.list.key_count; i++) {
		struct wn_hash hash = sample.hashes[i];
		struct wn__keylist_entry entry;

		expect(wn__map_lookup(map, &sample.list, minirun_by_hand(&sample.list, hash), 0,
				       &entry) == 0);
		known += entry.fraction_bits;
		hash = entry.hash;
		hash.lo |= test_random(&state) & lost;
		expect(are_bits_true(&sample.list, &entry, hash));
		hash.lo |= lost;
		expect(are_bits_true(&sample.list, &entry, hash));
	}
	known /= sample.list.key_count;
	/* What is kept less the quotient's 14.4, and where a carry may reach. */
	if (lost)
		ck_assert(known >= 8 * stores[_i].hash_bytes - 17 &&
			  known <= 8 * stores[_i].hash_bytes - 14);
	else
		ck_assert_uint_eq(known, 128);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* 12 miniruns; the fifth begins at 5/12 = 0.6aaa... in hexadecimal: the first bytes
 * do not say on which side of it a hash is. */
START_TEST(hashes_whose_first_bytes_leave_a_doubt_are_kept_whole)
{
	struct wn__map *map = open_store(_i);
	struct wn_hash hashes[] = {
		{UINT64_C(0x6aaaaaaaaaaaaaa9), 5},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), 0},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_C(0xaaaaaaaaaaaaaaaa)},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_C(0xaaaaaaaaaaaaaaab)},
		{UINT64_C(0x6aaaaaaaaaaaaaaa), UINT64_MAX},
		{UINT64_C(0x6aaaaaaaaaaaaaab), 5},
	};
	struct sample sample = make_sample(1, 0, 3, 2);

	free_sample(&sample);
	sample.hashes = hashes;
	sample.list.key_count = 6;
	ck_assert_uint_eq(minirun_by_hand(&sample.list, hashes[2]), 4);
	ck_assert_uint_eq(minirun_by_hand(&sample.list, hashes[3]), 5);
	put(map, _i, &sample);
	expect_run(map, &sample, 1);
	ck_assert_uint_eq(only_info(map).hash_bytes, 16);
	/* Without the doubtful ones there is no need. */
	hashes[1] = hashes[5];
	sample.list.key_count = 2;
	put(map, _i, &sample);
	expect_run(map, &sample, 1);
	ck_assert_uint_eq(only_info(map).hash_bytes, stores[_i].hash_bytes);
	wn__map_destroy(map);
}
END_TEST

START_TEST(only_known_bits_tell_a_query_from_a_key)
{
	struct wn__keylist list = {.key_count = 1, .slots = 1, .remainder_bits = 4};
	struct wn__keylist_entry entry = {.hash = {UINT64_C(0x5555555555555555), 0},
				      .fraction_bits = 64};

	/* With one slot the fraction is the hash. Pieces of 20 end at 24, 44, 64, 84. */
	for (unsigned differ = 0; differ < 128; differ++) {
		struct wn_hash query = entry.hash;

		if (differ < 64)
			query.hi ^= UINT64_C(1) << (63 - differ);
		else
			query.lo ^= UINT64_C(1) << (127 - differ);
		entry.fraction_bits = 64;
		ck_assert_int_eq(wn__keylist_entry_tells(&list, &entry, query, 20),
				 differ >= 4 && differ < 64);
		entry.fraction_bits = 63;
		ck_assert_int_eq(wn__keylist_entry_tells(&list, &entry, query, 20),
				 differ >= 4 && differ < 44);
		entry.fraction_bits = 128;
		ck_assert(wn__keylist_entry_tells(&list, &entry, query, 20));
	}
	entry.fraction_bits = 127;
	ck_assert(!wn__keylist_entry_tells(&list, &entry, entry.hash, 20));
}
END_TEST

START_TEST(the_length_advised_makes_the_bits_known)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(5, 20000, 21053, 9);
	unsigned advised = wn__keylist_hash_bytes(&sample.list, 9 + 42);
	unsigned known = 0;

	ck_assert_uint_eq(advised, 10);
	ck_assert_uint_eq(wn__keylist_hash_bytes(&sample.list, 9), 8);
	ck_assert_uint_eq(wn__keylist_hash_bytes(&sample.list, 128), 16);
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, advised), 0);
	for (uint64_t i = 0; i < sample.list.key_count; i++) {
		struct wn__keylist_entry entry;

		expect(wn__map_lookup(map, &sample.list,
				       minirun_by_hand(&sample.list, sample.hashes[i]), 0,
				       &entry) == 0);
		known += entry.fraction_bits >= 9 + 42;
	}
	ck_assert_uint_gt(known, sample.list.key_count * 249 / 250);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(equal_hashes_are_entries_of_their_own)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 2000, 2106, 9);

	for (unsigned i = 300; i < 1500; i++)
		sample.hashes[i] = sample.hashes[300];
	put(map, _i, &sample);
	expect_run(map, &sample, 1);
	expect_stream(map, &sample);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(crafted_hashes_are_found_all_the_same)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(2, 100000, 105264, 9);
	uint64_t reads;

	/* Each distance is a little larger than the one before: no straight line. */
	for (uint64_t i = 0; i < sample.list.key_count; i++)
		sample.hashes[i] = (struct wn_hash){i * i * i * 15000, i};
	put(map, _i, &sample);
	expect_run(map, &sample, 37);
	/* Every second lookup is for a rank that is not there. */
	reads = stats_of(map).reads / stats_of(map).lookups;
	ck_assert_uint_le(reads, 6 + 9 + 2);
	expect_stream(map, &sample);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_lookup_in_a_million_reads_two_pages_or_three)
{
	struct wn__map *map = open_store(_i);
	uint64_t count = test_is_quick() ? 100000 : 1000000;
	struct sample sample = make_sample(9, count, count * 20 / 19 + 1, 9);
	struct wn__map_stats stats;

	put(map, _i, &sample);
	expect_run(map, &sample, 11);
	stats = stats_of(map);
	fprintf(stderr, "%" PRIu64 " keys, %u bytes a hash: %.2f pages a lookup\n", count,
		stores[_i].hash_bytes, (double)stats.reads / (double)stats.lookups);
	ck_assert_uint_lt(stats.reads, 3 * stats.lookups);
	ck_assert_uint_eq(stats.damaged + stats.mismatched + stats.failed, 0);
	expect_stream(map, &sample);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* ---- put, drop, list ---------------------------------------------------- */

START_TEST(a_store_lists_what_was_put_and_not_dropped)
{
	struct wn__map *map = open_store(_i);
	struct sample samples[40];
	struct wn__keylist_entry entry;

	assert_count(map, 0);
	for (unsigned i = 0; i < 40; i++) {
		samples[i] = make_sample(i, i * 30, i * 32 + 1, 7);
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), WN_ERR_NOT_FOUND);
		put(map, _i, &samples[i]);
		assert_count(map, i + 1);
	}
	for (unsigned i = 0; i < 40; i += 2)
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), 0);
	assert_count(map, 20);
	for (unsigned i = 0; i < 40; i++) {
		if (i % 2 == 1) {
			expect_run(map, &samples[i], 1);
			continue;
		}
		ck_assert_int_eq(wn__map_drop(map, samples[i].list.id), WN_ERR_NOT_FOUND);
		ck_assert_int_eq(wn__map_lookup(map, &samples[i].list, 0, 0, &entry),
				 WN_ERR_NOT_FOUND);
		ck_assert_int_eq(wn__map_stream(map, samples[i].list.id, compare_hashes, NULL),
				 WN_ERR_NOT_FOUND);
	}
	ck_assert_uint_eq(stats_of(map).drops, 20);
	for (unsigned i = 0; i < 40; i++)
		free_sample(&samples[i]);
	wn__map_destroy(map);
}
END_TEST

START_TEST(the_list_says_what_was_put)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(12, 700, 737, 9);
	struct wn__keylist_info info;

	put(map, _i, &sample);
	info = only_info(map);
	ck_assert_int_eq(memcmp(info.list.id, sample.list.id, sizeof(info.list.id)), 0);
	ck_assert_uint_eq(info.list.key_count, 700);
	ck_assert_uint_eq(info.list.slots, 737);
	ck_assert_uint_eq(info.list.secret_id, 19);
	ck_assert_uint_eq(info.list.remainder_bits, 9);
	ck_assert_uint_eq(info.list.owner, 1012);
	ck_assert_uint_eq(info.hash_bytes, stores[_i].hash_bytes);
	/* The hashes, a header, and for each page a sum and what was too small for a hash. */
	ck_assert_uint_ge(info.bytes, 700 * stores[_i].hash_bytes + 64 + 16);
	ck_assert_uint_lt(info.bytes, 700 * stores[_i].hash_bytes + 64 + 64);
	sample.list.key_count = 1;
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, 0), 0);
	ck_assert_uint_eq(only_info(map).hash_bytes, 16);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_run_put_again_is_replaced)
{
	struct wn__map *map = open_store(_i);
	struct sample first = make_sample(1, 1000, 1053, 9);
	struct sample second = make_sample(2, 3000, 3158, 8);
	struct wn__keylist_entry entry;

	memcpy(second.list.id, first.list.id, sizeof(first.list.id));
	put(map, _i, &first);
	expect_run(map, &first, 1);
	put(map, _i, &second);
	expect_run(map, &second, 1);
	ck_assert_int_eq(wn__map_lookup(map, &first.list, 0, 0, &entry), WN_ERR_MISMATCH);
	assert_count(map, 1);
	free_sample(&first);
	free_sample(&second);
	wn__map_destroy(map);
}
END_TEST

START_TEST(another_filters_run_is_refused_and_counted)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 1000, 1053, 9);
	uint64_t minirun = minirun_by_hand(&sample.list, sample.hashes[0]);
	struct wn__keylist wrong[5];
	struct wn__keylist_entry entry;

	put(map, _i, &sample);
	for (unsigned i = 0; i < 5; i++)
		wrong[i] = sample.list;
	wrong[0].key_count++;
	wrong[1].slots++;
	wrong[2].secret_id++;
	wrong[3].remainder_bits++;
	wrong[4].owner++;
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(wn__map_lookup(map, &wrong[i], minirun, 0, &entry),
				 WN_ERR_MISMATCH);
		ck_assert_uint_eq(entry.fraction_bits, 0);
	}
	ck_assert_uint_eq(stats_of(map).mismatched, 4);
	ck_assert_int_eq(wn__map_lookup(map, &wrong[4], minirun, 0, &entry), 0);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

START_TEST(what_cannot_be_a_run_is_refused)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 1000, 1053, 9);
	struct wn__keylist wrong[4];
	struct wn_hash hash;

	for (unsigned i = 0; i < 4; i++)
		wrong[i] = sample.list;
	wrong[0].slots = 0;
	wrong[1].remainder_bits = 1;
	wrong[2].remainder_bits = 33;
	wrong[3].slots = UINT64_C(1) << 41;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(wn__map_put(map, &wrong[i], sample.hashes, 8), WN_ERR_INVALID);
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, 7), WN_ERR_INVALID);
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, 17), WN_ERR_INVALID);
	hash = sample.hashes[999];
	sample.hashes[999] = sample.hashes[997];
	ck_assert_int_eq(wn__map_put(map, &sample.list, sample.hashes, 16), WN_ERR_INVALID);
	sample.hashes[999] = hash;
	assert_count(map, 0);
	ck_assert_uint_eq(stats_of(map).failed_puts, 7);
	put(map, _i, &sample);
	ck_assert_uint_eq(stats_of(map).puts, 1);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

struct dropper {
	struct wn__map *map;
	unsigned calls;
};

static int drop_and_stop(void *arg, const struct wn__keylist_info *info,
			 const struct wn_hash *hashes, size_t count)
{
	struct dropper *dropper = arg;

	ck_assert_ptr_nonnull(hashes);
	ck_assert_uint_gt(count, 0);
	ck_assert_int_eq(wn__map_drop(dropper->map, info->list.id), 0);
	dropper->calls++;
	return 4711;
}

START_TEST(a_visitor_may_drop_the_run_and_stop)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 5000, 5264, 9);
	struct dropper dropper = {.map = map};

	put(map, _i, &sample);
	ck_assert_int_eq(wn__map_stream(map, sample.list.id, drop_and_stop, &dropper), 4711);
	ck_assert_uint_eq(dropper.calls, 1);
	assert_count(map, 0);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* ---- with a real filter ------------------------------------------------- */

/* A block of `count` keys and its builder, which has the hashes. */
static struct wn_builder *build_block(const struct wn_secret *secret, unsigned count,
				      void **blockp, size_t *sizep)
{
	struct wn_config *config;
	struct wn_builder *builder;

	ck_assert_int_eq(wn_config_parse("aqf:remainder_bits=4", NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	for (unsigned i = 0; i < count; i++)
		ck_assert_int_eq(wn_builder_add(builder, &i, sizeof(i)), 0);
	ck_assert_int_eq(wn_builder_finish(builder, blockp, sizep), 0);
	wn_config_destroy(config);
	return builder;
}

static struct wn__keylist run_of_block(const void *block, size_t size)
{
	struct wn_block_info info;
	struct wn__keylist list;

	ck_assert_int_eq(wn_block_read(block, size, WN_CHECK_ALL, &info, NULL), 0);
	ck_assert_int_eq(wn__keylist_of_block(&info, &list), 0);
	info.kind = 15;
	ck_assert_int_eq(wn__keylist_of_block(&info, &(struct wn__keylist){0}), WN_ERR_INVALID);
	return list;
}

/* Tell the filter that `query` was a false positive; is it fixed? */
static bool adapt(struct wn__map *map, const struct wn__keylist *list, struct wn_aqf *aqf,
		  struct wn_hash query)
{
	struct wn__keylist_entry entry;
	struct wn_match match;

	expect(wn_aqf_query(aqf, query, &match) && match.known);
	expect(wn__map_lookup(map, list, match.minirun, match.rank, &entry) == 0);
	return wn__keylist_entry_tells(list, &entry, query, list->remainder_bits) &&
	       wn_aqf_adapt(aqf, entry.hash, query, match) == 0;
}

START_TEST(what_a_filter_mistook_a_query_for_is_found)
{
	struct wn__map *map = open_store(_i);
	struct wn_secret *secret = test_secret(3);
	void *block;
	size_t size, count, fixed = 0;
	struct wn_builder *builder = build_block(secret, 5000, &block, &size);
	const struct wn_hash *hashes = wn_builder_hashes(builder, &count);
	struct wn__keylist list = run_of_block(block, size);
	struct wn_aqf *aqf;

	ck_assert_uint_eq(list.key_count, count);
	ck_assert_int_eq(wn__map_put(map, &list, hashes, stores[_i].hash_bytes), 0);
	ck_assert_int_eq(wn_aqf_thaw(block, size, NULL, &aqf), 0);
	for (unsigned i = 5000; i < 9000; i++) {
		struct wn_hash query = wn_hash(secret, &i, sizeof(i));

		if (wn_aqf_query(aqf, query, NULL))
			fixed += adapt(map, &list, aqf, query);
	}
	ck_assert_uint_gt(fixed, 100);
	/* Keys that a tombstone hid, say: wrong confirmations teach nothing false. */
	for (unsigned i = 0; i < 5000; i++)
		adapt(map, &list, aqf, wn_hash(secret, &i, sizeof(i)));
	for (unsigned i = 0; i < 5000; i++)
		ck_assert(wn_aqf_query(aqf, wn_hash(secret, &i, sizeof(i)), NULL));
	wn_aqf_destroy(aqf);
	free(block);
	wn_builder_destroy(builder);
	wn_secret_destroy(secret);
	wn__map_destroy(map);
}
END_TEST

/* ---- memory refused ----------------------------------------------------- */

START_TEST(opening_without_memory_fails_whole)
{
	struct wn__map *map;
	uint64_t nth = 1;
	int err;

	do {
		wn__alloc_fail_at(nth++);
		err = stores[_i].open(&map);
		wn__alloc_fail_at(0);
		if (err) {
			ck_assert_int_eq(err, ENOMEM);
			ck_assert_ptr_null(map);
		}
	} while (err);
	ck_assert_uint_gt(nth, 2);
	wn__map_destroy(map);
	wn__map_destroy(NULL);
}
END_TEST

static void put_with_failures(struct wn__map *map, int which, const struct sample *sample,
			      unsigned *failuresp)
{
	size_t before = stats_of(map).map;
	uint64_t nth = 1;
	int err;

	do {
		wn__alloc_fail_at(nth++);
		err = wn__map_put(map, &sample->list, sample->hashes, stores[which].hash_bytes);
		wn__alloc_fail_at(0);
		if (err) {
			++*failuresp;
			ck_assert_int_eq(err, ENOMEM);
			assert_count(map, before);
		}
	} while (err);
	assert_count(map, before + 1);
}

START_TEST(a_put_without_memory_changes_nothing)
{
	struct wn__map *map = open_store(_i);
	unsigned failures = 0;

	for (unsigned i = 0; i < 40; i++) {
		struct sample sample = make_sample(i, 600, 632, 9);

		put_with_failures(map, _i, &sample, &failures);
		expect_run(map, &sample, 1);
		free_sample(&sample);
	}
	ck_assert_uint_ge(failures, 40);
	ck_assert_uint_eq(count_files(directory, ".tmp"), 0);
	wn__map_destroy(map);
}
END_TEST

START_TEST(a_list_without_memory_fails_whole)
{
	struct wn__map *map = open_store(_i);
	struct wn__keylist_info *infos;
	uint64_t nth = 1;
	size_t count;
	int err;

	for (unsigned i = 0; i < 100; i++) {
		struct sample sample = make_sample(i, 10, 11, 9);

		put(map, _i, &sample);
		free_sample(&sample);
	}
	do {
		wn__alloc_fail_at(nth++);
		err = wn__map_list(map, &infos, &count);
		wn__alloc_fail_at(0);
		if (err) {
			ck_assert_int_eq(err, ENOMEM);
			ck_assert_ptr_null(infos);
			ck_assert_uint_eq(count, 0);
		}
	} while (err);
	ck_assert_uint_gt(nth, 2);
	ck_assert_uint_eq(count, 100);
	free(infos);
	wn__map_destroy(map);
}
END_TEST

START_TEST(lookups_streams_and_drops_ask_for_no_memory)
{
	struct wn__map *map = open_store(_i);
	struct sample sample = make_sample(1, 1000, 1053, 9);

	put(map, _i, &sample);
	wn__alloc_fail_at(0);
	expect_run(map, &sample, 1);
	expect_stream(map, &sample);
	ck_assert_int_eq(wn__map_drop(map, sample.list.id), 0);
	ck_assert_uint_eq(wn__alloc_calls(), 0);
	free_sample(&sample);
	wn__map_destroy(map);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

#define SHARED_RUNS 8
#define READERS 3

struct shared {
	struct wn__map *map;
	struct sample samples[SHARED_RUNS];
	bool done;
	uint64_t found;
	uint64_t wrong; /* Check's assertions are for the main thread */
};

static bool has_run(const struct shared *shared)
{
	return !__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
}

static void look_up_one(struct shared *shared, uint64_t *state)
{
	const struct sample *sample = &shared->samples[test_random(state) % SHARED_RUNS];
	struct wn_hash hash = sample->hashes[test_random(state) % sample->list.key_count];
	uint64_t minirun = minirun_by_hand(&sample->list, hash);
	struct wn__keylist_entry entry;
	uint32_t rank = 0;
	int err;

	do {
		err = wn__map_lookup(shared->map, &sample->list, minirun, rank++, &entry);
	} while (!err && !is_entry(&entry, hash) && rank < 100);
	if (!err && is_entry(&entry, hash))
		__atomic_fetch_add(&shared->found, 1, __ATOMIC_RELAXED);
	else if (err != WN_ERR_NOT_FOUND)
		__atomic_fetch_add(&shared->wrong, 1, __ATOMIC_RELAXED);
}

static void *look_up_all_day(void *arg)
{
	struct shared *shared = arg;
	uint64_t state = (uint64_t)(uintptr_t)&shared;

	while (has_run(shared))
		look_up_one(shared, &state);
	return NULL;
}

static void put_and_drop(struct shared *shared, int which, unsigned rounds)
{
	uint64_t state = test_seed("put_and_drop", 77);
	struct wn__keylist_info *infos;
	size_t count;

	for (unsigned i = 0; i < rounds; i++) {
		const struct sample *sample =
			&shared->samples[test_random(&state) % SHARED_RUNS];

		if (test_random(&state) % 3 == 0)
			wn__map_drop(shared->map, sample->list.id);
		else
			put(shared->map, which, sample);
		if (i % 16 == 0) {
			ck_assert_int_eq(wn__map_list(shared->map, &infos, &count), 0);
			free(infos);
		}
	}
}

START_TEST(lookups_are_right_while_runs_come_and_go)
{
	struct shared shared = {.map = open_store(_i)};
	pthread_t threads[READERS];
	size_t count = 0;

	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		shared.samples[i] = make_sample(i, 1500, 1579, 4);
		put(shared.map, _i, &shared.samples[i]);
	}
	for (unsigned i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, look_up_all_day, &shared), 0);
	put_and_drop(&shared, _i, test_is_quick() ? 300 : 3000);
	while (__atomic_load_n(&shared.found, __ATOMIC_RELAXED) < 1000 && ++count < 10000)
		put_and_drop(&shared, _i, 10);
	__atomic_store_n(&shared.done, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(shared.wrong, 0);
	ck_assert_uint_ge(shared.found, 1000);
	for (unsigned i = 0; i < SHARED_RUNS; i++) {
		put(shared.map, _i, &shared.samples[i]);
		expect_run(shared.map, &shared.samples[i], 1);
		free_sample(&shared.samples[i]);
	}
	assert_count(shared.map, SHARED_RUNS);
	wn__map_destroy(shared.map);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("runs");
	TCase *tests = tcase_create("runs");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, every_hash_is_found_at_its_minirun_and_rank, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_place_where_nothing_is_has_no_hash, 0, STORE_COUNT);
	tcase_add_loop_test(tests, an_empty_minirun_is_proved_to_be_empty, 0, STORE_COUNT);
	tcase_add_loop_test(tests, the_bits_said_to_be_known_are_those_of_any_hash_it_may_be, 0,
			    STORE_COUNT);
	tcase_add_loop_test(tests, hashes_whose_first_bytes_leave_a_doubt_are_kept_whole, 0,
			    STORE_COUNT);
	tcase_add_test(tests, only_known_bits_tell_a_query_from_a_key);
	tcase_add_loop_test(tests, the_length_advised_makes_the_bits_known, 0, STORE_COUNT);
	tcase_add_loop_test(tests, equal_hashes_are_entries_of_their_own, 0, STORE_COUNT);
	tcase_add_loop_test(tests, crafted_hashes_are_found_all_the_same, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_lookup_in_a_million_reads_two_pages_or_three, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_store_lists_what_was_put_and_not_dropped, 0, STORE_COUNT);
	tcase_add_loop_test(tests, the_list_says_what_was_put, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_run_put_again_is_replaced, 0, STORE_COUNT);
	tcase_add_loop_test(tests, another_filters_run_is_refused_and_counted, 0, STORE_COUNT);
	tcase_add_loop_test(tests, what_cannot_be_a_run_is_refused, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_visitor_may_drop_the_run_and_stop, 0, STORE_COUNT);
	tcase_add_loop_test(tests, what_a_filter_mistook_a_query_for_is_found, 0, STORE_COUNT);
	tcase_add_loop_test(tests, opening_without_memory_fails_whole, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_put_without_memory_changes_nothing, 0, STORE_COUNT);
	tcase_add_loop_test(tests, a_list_without_memory_fails_whole, 0, STORE_COUNT);
	tcase_add_loop_test(tests, lookups_streams_and_drops_ask_for_no_memory, 0, STORE_COUNT);
	tcase_add_loop_test(tests, lookups_are_right_while_runs_come_and_go, 0, STORE_COUNT);
	return test_run(suite);
}
