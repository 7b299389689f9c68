/* test_keyspace.c - what winnow-bench makes its workloads of: keys, and the truth about them. */
#include <math.h>
#include <string.h>

#include "tests/support/common.h"
#include "tests/support/keyspace.h"
#include "tools/workload/id_set.h"
#include "tools/workload/memory_map.h"
#include "tools/workload/truth.h"
#include "tools/workload/workload.h"

/* ---- keys --------------------------------------------------------------- */

START_TEST(stored_keys_are_in_order_and_found_again)
{
	static const size_t sizes[] = { 8, 9, 16, 20, 100 };
	char before[KEY_MAX_SIZE], key[KEY_MAX_SIZE];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct keyspace keyspace;

		init_keyspace(&keyspace, 1000);
		keyspace.key_size = sizes[s];
		memset(before, 0, sizeof(before));
		for (uint64_t i = 0; i < 1010; i++) {
			uint64_t index;

			ck_assert_uint_eq(keyspace_stored(&keyspace, i, key), sizes[s]);
			if (i > 0)
				expect(memcmp(before, key, sizes[s]) < 0);
			memcpy(before, key, sizes[s]);
			expect(keyspace_find(&keyspace, key, sizes[s], &index) && index == i);
		}
	}
}
END_TEST

START_TEST(absent_keys_lie_between_the_stored_and_are_none_of_them)
{
	char key[KEY_MAX_SIZE], first[KEY_MAX_SIZE], last[KEY_MAX_SIZE];
	struct keyspace keyspace;
	uint64_t index;

	init_keyspace(&keyspace, 100);
	keyspace_stored(&keyspace, 0, first);
	keyspace_stored(&keyspace, 99, last);
	for (uint64_t i = 0; i < 100000; i++) {
		const size_t size = keyspace_absent(&keyspace, i, key);

		expect(!keyspace_find(&keyspace, key, size, &index));
		expect(memcmp(first, key, size) < 0);
		if (i % 100 != 99)
			expect(memcmp(key, last, size) < 0);
	}
}
END_TEST

START_TEST(another_seed_makes_other_keys_and_values)
{
	char one[KEY_MAX_SIZE], two[KEY_MAX_SIZE], value[64];
	struct keyspace keyspace;

	init_keyspace(&keyspace, 100);
	keyspace_stored(&keyspace, 5, one);
	keyspace_value(&keyspace, 5, 1, value, sizeof(value));
	keyspace.seed = 2;
	keyspace_stored(&keyspace, 5, two);
	ck_assert_mem_ne(one, two, 16);
	ck_assert(!keyspace_is_value(&keyspace, 5, 1, value, sizeof(value)));
}
END_TEST

START_TEST(keys_of_a_list_are_found_and_doubles_are_refused)
{
	struct keyspace keyspace;
	char key[KEY_MAX_SIZE], message[200];
	uint64_t index;

	init_keyspace(&keyspace, 1000);
	for (int i = 0; i < 1000; i++) {
		const int size = snprintf(key, sizeof(key), "key %d", i);

		ck_assert(key_list_add(&keyspace.keys, key, (size_t)size));
	}
	ck_assert(keyspace_index_lists(&keyspace, message, sizeof(message)));
	for (uint64_t i = 0; i < 1010; i++) {
		const size_t size = keyspace_stored(&keyspace, i, key);

		expect(keyspace_find(&keyspace, key, size, &index) && index == i);
	}
	for (uint64_t i = 0; i < 10000; i++)
		expect(!keyspace_find(&keyspace, key, keyspace_absent(&keyspace, i, key), &index));
	ck_assert(key_list_add(&keyspace.negatives, "key 17", 6));
	ck_assert(!keyspace_index_lists(&keyspace, message, sizeof(message)));
	ck_assert(key_list_add(&keyspace.keys, "key 1", 5));
	ck_assert(!keyspace_index_lists(&keyspace, message, sizeof(message)));
	keyspace_fini(&keyspace);
}
END_TEST

START_TEST(keys_that_a_trace_names_get_indexes_of_their_own)
{
	struct keyspace keyspace;
	char key[KEY_MAX_SIZE];
	uint64_t index;

	init_keyspace(&keyspace, 100);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 3000; i++) {
			const int size = snprintf(key, sizeof(key), "named %d", (int)i);

			expect(keyspace_name(&keyspace, key, (size_t)size, &index));
			expect(index == 110 + i);
			expect(keyspace_stored(&keyspace, index, key) == (size_t)size);
		}
	expect(keyspace_name(&keyspace, key, keyspace_stored(&keyspace, 42, key), &index));
	ck_assert_uint_eq(index, 42);
	ck_assert_uint_eq(keyspace_room(&keyspace), 3110);
	keyspace_fini(&keyspace);
}
END_TEST

/* ---- truth -------------------------------------------------------------- */

static void write_version(struct truth *truth, uint64_t index, char *valuep)
{
	const unsigned version = truth_begin_write(truth, index);

	keyspace_value(truth->keyspace, index, version, valuep, truth->value_size);
	truth_end_write(truth, index, version, true);
}

START_TEST(only_what_was_written_last_is_true)
{
	char old[20], new[20];
	struct keyspace keyspace;
	struct truth truth;
	unsigned before;

	init_keyspace(&keyspace, 100);
	ck_assert(truth_init(&truth, &keyspace, sizeof(old)));
	ck_assert(truth_allows(&truth, 7, truth_version(&truth, 7), false, NULL, 0));
	/* Versions come round. */
	for (int i = 0; i < 600; i++) {
		write_version(&truth, 7, old);
		write_version(&truth, 7, new);
		before = truth_version(&truth, 7);
		expect(truth_allows(&truth, 7, before, true, new, sizeof(new)));
		expect(!truth_allows(&truth, 7, before, true, old, sizeof(old)));
		expect(!truth_allows(&truth, 7, before, true, new, sizeof(new) - 1));
		expect(!truth_allows(&truth, 7, before, false, NULL, 0));
	}
	truth_fini(&truth);
}
END_TEST

START_TEST(what_is_written_during_a_lookup_may_be_seen_or_not)
{
	char old[20], new[20];
	struct keyspace keyspace;
	struct truth truth;
	unsigned before;

	init_keyspace(&keyspace, 100);
	ck_assert(truth_init(&truth, &keyspace, sizeof(old)));
	write_version(&truth, 3, old);
	before = truth_version(&truth, 3);
	write_version(&truth, 3, new);
	ck_assert(truth_allows(&truth, 3, before, true, old, sizeof(old)));
	ck_assert(truth_allows(&truth, 3, before, true, new, sizeof(new)));
	/* A write that failed may have come through, and need not. */
	before = truth_begin_write(&truth, 3);
	keyspace_value(&keyspace, 3, before, old, sizeof(old));
	truth_end_write(&truth, 3, before, false);
	before = truth_version(&truth, 3);
	ck_assert(truth_allows(&truth, 3, before, true, old, sizeof(old)));
	ck_assert(truth_allows(&truth, 3, before, true, new, sizeof(new)));
	truth_fini(&truth);
}
END_TEST

START_TEST(a_database_from_before_is_believed_if_it_is_ours)
{
	char value[20];
	struct keyspace keyspace;
	struct truth truth;

	init_keyspace(&keyspace, 100);
	ck_assert(truth_init(&truth, &keyspace, sizeof(value)));
	keyspace_value(&keyspace, 9, 200, value, sizeof(value));
	ck_assert(!truth_adopt(&truth, 8, value, sizeof(value)));
	ck_assert(!truth_adopt(&truth, 9, value, sizeof(value) - 1));
	ck_assert(truth_adopt(&truth, 9, value, sizeof(value)));
	ck_assert_uint_eq(truth_version(&truth, 9), 200);
	truth_fini(&truth);
}
END_TEST

/* ---- sets and maps ------------------------------------------------------ */

START_TEST(a_set_of_ids_tells_new_from_known)
{
	struct id_set set;

	id_set_init(&set);
	for (uint64_t i = 1; i <= 10000; i++)
		expect(!id_set_add(&set, i * i, i, i + 10));
	/* One that began before the first was over does not repeat it. */
	for (uint64_t i = 1; i <= 10000; i++)
		expect(!id_set_add(&set, i * i, i + 9, i + 20));
	for (uint64_t i = 1; i <= 10000; i++)
		expect(id_set_add(&set, i * i, i + 10, i + 20));
	id_set_clear(&set);
	ck_assert(!id_set_add(&set, 25, 100, 200));
	id_set_fini(&set);
}
END_TEST

START_TEST(the_map_in_memory_is_in_order)
{
	uint64_t state = test_seed("map", 11);
	struct map_entry *entry;
	struct memory_map map;
	unsigned count = 0;

	ck_assert_int_eq(memory_map_init(&map), 0);
	for (int i = 0; i < 5000; i++) {
		const uint32_t key = (uint32_t)(test_random(&state) % 3000);
		char text[16];
		const int size = snprintf(text, sizeof(text), "%u", key);

		ck_assert_int_eq(memory_map_put(&map, text, (size_t)size, &key, sizeof(key),
						&entry), 0);
		expect(memory_map_find(&map, text, (size_t)size) == entry);
		expect(memory_map_seek(&map, text, (size_t)size) == entry);
	}
	for (entry = memory_map_first(&map); entry; entry = entry->next[0]) {
		char text[16];
		uint32_t key;
		int size;

		memcpy(&key, entry->value, sizeof(key));
		size = snprintf(text, sizeof(text), "%u", key);
		expect(entry->key_size == (uint32_t)size);
		expect(memcmp(map_entry_key(entry), text, (size_t)size) == 0);
		if (entry->next[0]) {
			const struct map_entry *next = entry->next[0];
			const size_t common = next->key_size < entry->key_size ? next->key_size :
										 entry->key_size;
			const int order = memcmp(text, map_entry_key(next), common);

			expect(order < 0 || (order == 0 && entry->key_size < next->key_size));
		}
		count++;
	}
	ck_assert_uint_eq(count, map.count);
	ck_assert_ptr_null(memory_map_find(&map, "x", 1));
	memory_map_fini(&map);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("keyspace");
	TCase *tests = tcase_create("workload");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, stored_keys_are_in_order_and_found_again);
	tcase_add_test(tests, absent_keys_lie_between_the_stored_and_are_none_of_them);
	tcase_add_test(tests, another_seed_makes_other_keys_and_values);
	tcase_add_test(tests, keys_of_a_list_are_found_and_doubles_are_refused);
	tcase_add_test(tests, keys_that_a_trace_names_get_indexes_of_their_own);
	tcase_add_test(tests, only_what_was_written_last_is_true);
	tcase_add_test(tests, what_is_written_during_a_lookup_may_be_seen_or_not);
	tcase_add_test(tests, a_database_from_before_is_believed_if_it_is_ours);
	tcase_add_test(tests, a_set_of_ids_tells_new_from_known);
	tcase_add_test(tests, the_map_in_memory_is_in_order);
	return test_run(suite);
}
