/* test_small_reader.c - tables of small filters that are open: their ids, and addresses. */
#include "base/page_map.h"
#include "learn/lessons_internal.h"
#include "tests/support/small_table_host.h"

START_TEST(only_the_first_filter_has_the_header)
{
	struct host host = host_open(kinds[0]);
	struct table table = table_build(&host, 1, RIGHT), other = table_build(&host, 2, RIGHT);
	struct wn__small_header header, others;
	unsigned kind;

	for (unsigned i = 0; i < BLOCKS; i++) {
		const unsigned char *bytes = table.file + table.starts[i];
		size_t size = table.starts[i + 1] - table.starts[i];

		expect(wn__small_claims(bytes, size, host.world.secret_id, &kind) ==
		       WN__SMALL_WHOLE);
		expect((kind == 0) == (i == 0));
		expect(wn__small_get_header(bytes, size, host.world.secret_id, &header) ==
		       (i == 0));
	}
	ck_assert(wn__small_get_header(table.file, table.starts[1], host.world.secret_id, &header));
	ck_assert(wn__small_get_header(other.file, other.starts[1], host.world.secret_id, &others));
	ck_assert_uint_eq(header.secret_sum, host.world.secret_sum);
	/* The same keys, and another table. */
	ck_assert_mem_ne(header.id, others.id, sizeof(header.id));
	table_free(&table);
	table_free(&other);
	host_close(&host);
}
END_TEST

START_TEST(filters_of_another_secret_are_refused)
{
	struct host host = host_open(kinds[0]);
	struct table table = table_build(&host, 1, RIGHT);
	struct wn__small_extent extent = extent_of(&table);
	struct wn__small_world world = host.world;
	struct wn__small_reader *reader = (void *)1;

	/* Its short id is the same by chance. */
	world.secret_sum ^= 1;
	ck_assert_int_eq(wn__small_reader_open(host.learn->registry, &world, table.file,
					       table.size, &extent, &reader), WN_ERR_MISMATCH);
	ck_assert_ptr_null(reader);
	world.secret_id ^= 1;
	ck_assert_int_eq(wn__small_reader_open(host.learn->registry, &world, table.file,
					       table.size, &extent, &reader), WN_ERR_NOT_FOUND);
	/* A table that begins with another filter. */
	extent.first = table.starts[1];
	extent.first_size = table.starts[2] - table.starts[1];
	ck_assert_int_eq(wn__small_reader_open(host.learn->registry, &host.world, table.file,
					       table.size, &extent, &reader), WN_ERR_NOT_FOUND);
	ck_assert_ptr_null(reader);
	table_free(&table);
	host_close(&host);
}
END_TEST

START_TEST(readers_are_found_by_address_while_they_are_open)
{
	struct host host = host_open(kinds[0]), other = host_open(kinds[0]);
	struct table table = table_build(&host, 1, RIGHT), same = {0};
	const unsigned char *block = wn__small_reader_block(table.reader);
	uint64_t number = 1;

	ck_assert_mem_eq(block, table.file, table.size);
	ck_assert_ptr_ne(block, table.file);
	while (!look_up(&host, &table, number))
		number += 2;
	ck_assert(!table_asks(&host, &table, block_of(number), hash_of(&host, number)));
	/* The bytes in the file are nobody's, and another database's lessons are not heeded. */
	same = table;
	same.reader = NULL;
	ck_assert(table_asks(&host, &same, block_of(number), hash_of(&host, number)));
	ck_assert(table_asks(&other, &table, block_of(number), hash_of(&host, number)));
	/* Two readers of one table share their lessons. */
	ck_assert_int_eq(table_open(&host, &same), 0);
	ck_assert(!table_asks(&host, &same, block_of(number), hash_of(&host, number)));
	ck_assert_ptr_ne(wn__small_reader_block(same.reader), block);
	wn__small_reader_close(same.reader);
	ck_assert(!table_asks(&host, &table, block_of(number), hash_of(&host, number)));
	wn__small_reader_close(table.reader);
	table.reader = NULL;
	ck_assert_ptr_null(wn__page_owner(block));
	ck_assert(wn__small_reader_heed(host.learn->registry, block, hash_of(&host, number)));
	wn__small_reader_close(NULL);
	table_free(&table);
	host_close(&host);
	host_close(&other);
}
END_TEST

/* Key lists and lessons on disk have it: XXH3-128 of all filters, the low half first. */
START_TEST(the_id_is_what_it_was)
{
	static const unsigned char golden[WN_BLOCK_ID_SIZE] = {
		0x3e, 0x9c, 0x53, 0x4e, 0xad, 0xed, 0xc2, 0x8c,
		0x6d, 0x0b, 0x63, 0x79, 0x32, 0xff, 0xa1, 0x97,
	};
	unsigned char id[WN_BLOCK_ID_SIZE];

	wn__small_table_id(XXH3_128bits("filters", 7), id);
	ck_assert_mem_eq(id, golden, sizeof(golden));
}
END_TEST

/* A bit that differs is another table: nothing is believed of it. */
START_TEST(lessons_are_bound_to_every_byte)
{
	struct host host = host_open(kinds[0]);
	struct table table = table_build(&host, 1, RIGHT);
	unsigned changed = 0;

	ck_assert_uint_gt(ask_absent(&host, &table), 0);
	for (size_t at = 3; at < table.size; at += 7) {
		struct table damaged = table;
		struct wn__lessons *lessons;
		unsigned char id[WN_BLOCK_ID_SIZE];

		damaged.reader = NULL;
		table.file[at] ^= 1;
		if (table_open(&host, &damaged) == 0) {
			wn__small_table_id(XXH3_128bits(table.file, table.size), id);
			expect(wn__registry_acquire(host.learn->registry, id,
						    (struct wn__shape){WN__SMALL_SLOTS,
								       WN__PLAIN_REMAINDER_BITS},
						    &lessons) == 0);
			expect(!wn__lessons_exist(lessons));
			wn__lessons_release(lessons);
			wn__small_reader_close(damaged.reader);
			changed++;
		}
		table.file[at] ^= 1;
	}
	ck_assert_uint_gt(changed, 100);
	table_free(&table);
	host_close(&host);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("small_reader");
	TCase *tests = tcase_create("small_reader");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, only_the_first_filter_has_the_header);
	tcase_add_test(tests, filters_of_another_secret_are_refused);
	tcase_add_test(tests, readers_are_found_by_address_while_they_are_open);
	tcase_add_test(tests, the_id_is_what_it_was);
	tcase_add_test(tests, lessons_are_bound_to_every_byte);
	return test_run(suite);
}
