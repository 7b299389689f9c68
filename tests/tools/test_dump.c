/* winnow-dump on tables made by hand: what is whole is said to be, what is not is found,
 * and nothing in a file can do harm. */
#include "base/crc32c.h"
#include "tests/support/dump_file.h"
#include "tests/support/made_table.h"

static void look(struct dump *dump, struct span file)
{
	struct dump_options options = {.verify = true};

	dump_read(dump, file, &options);
}

static const struct shape ordinary = {.format = 5, .checksum = CHECKSUM_XXH3,
				      .layout = LAYOUT_FULL, .content = WINNOW, .delta = true,
				      .blocks = 7, .keys = 11};

/* ---- whole tables ------------------------------------------------------- */

static void check_good(const struct shape *shape)
{
	struct span file = make_table(shape);
	uint64_t keys = shape->blocks * shape->keys;
	struct dump dump;

	look(&dump, file);
	expect_good(&dump, "a table that is whole");
	ck_assert_uint_eq(dump.entries, keys);
	ck_assert_uint_eq(dump.table.engine, shape->leveldb ? TABLE_LEVELDB : TABLE_ROCKSDB);
	ck_assert_uint_eq(dump.filters.layout, shape->layout);
	ck_assert_uint_eq(dump.table.bytes_checked, dump.table.footer_at);
	if (shape->content == WINNOW) {
		ck_assert_str_eq(dump_filter_kind(&dump), shape->options ? shape->options : "aqf");
		ck_assert_uint_eq(dump.keys_asked, keys);
		ck_assert_uint_eq(dump.filters.sum.keys, keys);
		if (dump.filters.sum.has_clusters)
			ck_assert_uint_eq(dump.filters.sum.used_slots, keys);
	}
	ck_assert_uint_eq(dump.denied, 0);
	print_to_nowhere(&dump);
	dump_release(&dump);
	release(file);
}

START_TEST(whole_tables_are_good)
{
	for (unsigned format = 0; format <= 7; format++)
		for (unsigned checksum = 0; checksum <= 4; checksum++)
			for (int layout = LAYOUT_NONE; layout <= LAYOUT_BLOCKS; layout++)
				for (int delta = 0; delta < 2; delta++) {
					struct shape shape = ordinary;

					shape.format = format;
					shape.checksum = format ? checksum : CHECKSUM_CRC32C;
					shape.layout = (enum filter_layout)layout;
					shape.content = layout ? WINNOW : NOTHING;
					shape.delta = delta;
					check_good(&shape);
					shape.options = "sscf";
					check_good(&shape);
				}
}
END_TEST

START_TEST(whole_leveldb_tables_are_good)
{
	struct shape shape = {.leveldb = true, .layout = LAYOUT_BLOCKS, .content = WINNOW};

	for (shape.blocks = 1; shape.blocks < 40; shape.blocks += 6)
		for (shape.keys = 1; shape.keys < 100; shape.keys *= 5)
			check_good(&shape);
	shape.layout = LAYOUT_NONE;
	shape.content = NOTHING;
	check_good(&shape);
}
END_TEST

/* ---- stock filters ------------------------------------------------------ */

/* As LevelDB's adapter makes them, and with the secret that it keeps beside the database. */
static void check_small(const struct shape *shape, bool with_secret)
{
	struct wn_secret *secret = test_secret(MADE_TABLE_SECRET);
	struct dump_options options = {.verify = true, .secret = with_secret ? secret : NULL};
	uint64_t keys = shape->blocks * shape->keys;
	bool counts = strcmp(shape->options, "sscf") != 0;
	struct span file = make_table(shape);
	const struct filter_sum *sum;
	struct dump dump;

	dump_read(&dump, file, &options);
	sum = &dump.filters.sum;
	expect_good(&dump, "a table with small filters");
	ck_assert_str_eq(dump_filter_kind(&dump), shape->options);
	ck_assert(sum->small && sum->has_table_id);
	ck_assert_uint_eq(sum->id[0], 0xab);
	ck_assert_uint_eq(sum->id[1], 0xcd);
	ck_assert_uint_eq(sum->secret_id, wn__small_secret_id(secret));
	ck_assert_uint_eq(sum->without_secret, with_secret ? 0 : sum->count);
	ck_assert_uint_eq(sum->keys, counts ? keys : 0);
	ck_assert_uint_eq(dump.keys_asked, with_secret ? keys : 0);
	ck_assert_uint_eq(dump.denied, 0);
	ck_assert(sum->expected_fpr > 0.001 && sum->expected_fpr < 0.1);
	print_to_nowhere(&dump);
	dump_release(&dump);
	release(file);
	wn_secret_destroy(secret);
}

START_TEST(tables_with_small_filters_are_good)
{
	static const char *const kinds[] = {"aqf", "sscf"};
	struct shape shape = {.leveldb = true, .layout = LAYOUT_BLOCKS, .content = SMALL};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		shape.options = kinds[i];
		for (shape.blocks = 1; shape.blocks < 40; shape.blocks += 6)
			for (shape.keys = 20; shape.keys < 500; shape.keys *= 4) {
				check_small(&shape, true);
				check_small(&shape, false);
			}
	}
}
END_TEST

/* Other keys' filters are found; under another secret nothing is asked, and nothing is wrong. */
START_TEST(small_filters_that_deny_keys_are_found)
{
	struct wn_secret *secret = test_secret(MADE_TABLE_SECRET), *other = test_secret(4);
	struct shape shape = {.leveldb = true, .layout = LAYOUT_BLOCKS, .blocks = 5, .keys = 20,
			      .content = SMALL_ALIEN_KEYS};
	struct dump_options options = {.verify = true, .secret = secret};
	struct span file = make_table(&shape);
	struct dump dump;

	dump_read(&dump, file, &options);
	ck_assert_uint_eq(dump.keys_asked, 100);
	ck_assert_uint_gt(dump.denied, 50);
	ck_assert_uint_gt(dump.problems.count, 0);
	dump_release(&dump);
	options.secret = other;
	dump_read(&dump, file, &options);
	expect_good(&dump, "a table of another secret");
	ck_assert_uint_eq(dump.keys_asked, 0);
	dump_release(&dump);
	release(file);
	wn_secret_destroy(secret);
	wn_secret_destroy(other);
}
END_TEST

static void check_raw(const char *bytes, size_t size, enum filter_layout layout, const char *policy,
		      const char *kind)
{
	struct shape shape = ordinary;
	struct span file;
	struct dump dump;

	shape.layout = layout;
	shape.leveldb = layout == LAYOUT_BLOCKS;
	shape.delta = !shape.leveldb;
	shape.content = RAW;
	shape.raw = (struct span){(const unsigned char *)bytes, size};
	shape.policy = policy;
	file = make_table(&shape);
	look(&dump, file);
	expect_good(&dump, kind);
	ck_assert_str_eq(dump_filter_kind(&dump), kind);
	ck_assert_uint_eq(dump.keys_asked, 0);
	ck_assert_ptr_nonnull(dump.unasked);
	print_to_nowhere(&dump);
	dump_release(&dump);
	release(file);
}

START_TEST(filters_of_others_are_named)
{
	static const char bloom[69] = {[64] = -1, [66] = 6}, old[69] = {[64] = 6, [65] = 1},
			  ribbon[69] = {[64] = -2, [66] = 1}, later[69] = {[64] = -3},
			  always[69] = {0}, level[9] = {[8] = 6}, level_later[9] = {[8] = 31};

	check_raw(bloom, sizeof(bloom), LAYOUT_FULL, NULL, "bloom");
	check_raw(bloom, sizeof(bloom), LAYOUT_PARTITIONED, NULL, "bloom");
	check_raw(old, sizeof(old), LAYOUT_FULL, NULL, "bloom");
	check_raw(ribbon, sizeof(ribbon), LAYOUT_FULL, NULL, "ribbon");
	check_raw(later, sizeof(later), LAYOUT_FULL, NULL, "unknown");
	check_raw(always, sizeof(always), LAYOUT_FULL, NULL, "true");
	check_raw("x", 1, LAYOUT_FULL, NULL, "unknown");
	check_raw("", 0, LAYOUT_FULL, NULL, "none");
	check_raw(level, sizeof(level), LAYOUT_BLOCKS, NULL, "bloom");
	check_raw(level_later, sizeof(level_later), LAYOUT_BLOCKS, NULL, "unknown");
	check_raw("", 0, LAYOUT_BLOCKS, NULL, "none");
	check_raw(bloom, sizeof(bloom), LAYOUT_FULL, "somebody.else's", "unknown");
	check_raw(level, sizeof(level), LAYOUT_BLOCKS, "\x1b]0;\xff\"\\\n\x7f", "unknown");
}
END_TEST

/* ---- damage ------------------------------------------------------------- */

START_TEST(a_filter_that_denies_keys_is_found)
{
	for (int layout = LAYOUT_FULL; layout <= LAYOUT_BLOCKS; layout++) {
		struct shape shape = ordinary;
		struct span file;
		struct dump dump;

		shape.layout = (enum filter_layout)layout;
		shape.content = ALIEN_KEYS;
		file = make_table(&shape);
		look(&dump, file);
		ck_assert_uint_gt(dump.denied, shape.blocks * shape.keys / 2);
		ck_assert_uint_eq(dump.keys_asked, shape.blocks * shape.keys);
		ck_assert_uint_gt(dump.problems.count, 1);
		ck_assert_uint_eq(dump.problems.list[0].offset, 0);
		ck_assert_ptr_nonnull(strstr(dump.problems.list[0].text, "the filter says no to"));
		dump_release(&dump);
		release(file);
	}
}
END_TEST

START_TEST(counts_that_differ_are_found)
{
	struct shape shape = ordinary;
	struct span file;
	struct dump dump;

	shape.wrong_entries = 1;
	file = make_table(&shape);
	look(&dump, file);
	ck_assert_uint_eq(dump.problems.count, 1);
	ck_assert_str_eq(dump.problems.list[0].text,
			 "the properties tell of 78 entries, the data blocks hold 77");
	dump_release(&dump);
	release(file);
}
END_TEST

/* A small filter of an adapter's, by its last byte; its bits say nothing sensible. */
START_TEST(a_small_filter_of_noise_is_found)
{
	unsigned char noise[60];
	struct shape shape = {.leveldb = true, .layout = LAYOUT_BLOCKS, .content = RAW,
			      .blocks = 3, .keys = 9, .raw = {noise, sizeof(noise)}};
	uint64_t seed = test_seed("noise", 4);

	for (unsigned round = 0; round < (test_is_quick() ? 200u : 5000u); round++) {
		struct span file;
		struct dump dump;

		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (unsigned char)test_random(&seed);
		noise[sizeof(noise) - 1] |= 0x80;
		file = make_table(&shape);
		look(&dump, file);
		expect(dump.filters.sum.small);
		expect(dump.problems.count > 0 || dump.filters.sum.without_secret > 0);
		print_to_nowhere(&dump);
		dump_release(&dump);
		release(file);
	}
}
END_TEST

/* Copies of exactly the size, so that a step beyond is seen by the sanitizers. */
static void check_flips(const struct shape *shape)
{
	struct span file = make_table(shape);
	unsigned char *copy = malloc(file.size);
	size_t step = test_is_quick() ? 7 : 1;
	struct dump dump;
	uint64_t footer;

	look(&dump, file);
	expect_good(&dump, "before the damage");
	footer = dump.table.footer_at;
	dump_release(&dump);
	expect(copy);
	for (size_t at = 0; at < file.size; at++) {
		if (at < footer && at % step != 0)
			continue;
		for (unsigned bit = 0; bit < 8; bit += at < footer ? 7 : 1) {
			memcpy(copy, file.at, file.size);
			copy[at] = (unsigned char)(copy[at] ^ 1u << bit);
			look(&dump, (struct span){copy, file.size});
			/* What a footer says can be as true as before. */
			if (at < footer && dump.problems.count == 0)
				ck_abort_msg("bit %u of byte %zu was flipped unseen", bit, at);
			dump_release(&dump);
		}
	}
	free(copy);
	release(file);
}

START_TEST(no_flipped_bit_goes_unseen)
{
	static const unsigned formats[] = {0, 2, 5, 6};

	for (size_t i = 0; i < 4; i++)
		for (int layout = LAYOUT_FULL; layout <= LAYOUT_BLOCKS; layout++) {
			struct shape shape = ordinary;

			shape.format = formats[i];
			shape.checksum = shape.format ? CHECKSUM_XXH3 : CHECKSUM_CRC32C;
			shape.layout = (enum filter_layout)layout;
			shape.keys = 3;
			check_flips(&shape);
		}
	check_flips(&(struct shape){.leveldb = true, .layout = LAYOUT_BLOCKS, .content = WINNOW,
				    .blocks = 5, .keys = 3});
	check_flips(&(struct shape){.leveldb = true, .layout = LAYOUT_BLOCKS, .content = SMALL,
				    .blocks = 5, .keys = 3});
}
END_TEST

/* Without checksums nothing is sure, but nothing breaks either. */
START_TEST(without_checksums_damage_does_no_harm)
{
	uint64_t seed = test_seed("damage", 71);
	unsigned rounds = test_is_quick() ? 500 : 5000;

	for (int layout = LAYOUT_FULL; layout <= LAYOUT_BLOCKS; layout++) {
		struct shape shape = ordinary;
		unsigned char *copy;
		struct span file;

		shape.layout = (enum filter_layout)layout;
		shape.checksum = CHECKSUM_NONE;
		file = make_table(&shape);
		copy = malloc(file.size);
		expect(copy);
		for (unsigned round = 0; round < rounds; round++) {
			struct dump dump;

			memcpy(copy, file.at, file.size);
			for (unsigned i = 0; i <= test_random(&seed) % 3; i++)
				copy[test_random(&seed) % file.size] =
					(unsigned char)test_random(&seed);
			look(&dump, (struct span){copy, file.size});
			print_to_nowhere(&dump);
			dump_release(&dump);
		}
		free(copy);
		release(file);
	}
}
END_TEST

START_TEST(a_file_cut_anywhere_is_found)
{
	struct span file = make_table(&ordinary);

	for (size_t size = 0; size < file.size; size++) {
		unsigned char *copy = malloc(size + 1);
		struct dump dump;

		expect(copy);
		memcpy(copy, file.at, size);
		look(&dump, (struct span){copy, size});
		expect(!dump.is_table && dump.problems.count == 1);
		expect(dump.problems.list[0].offset <= size);
		print_to_nowhere(&dump);
		dump_release(&dump);
		free(copy);
	}
	release(file);
}
END_TEST

/* One index entry a data block, all of them the same one. */
START_TEST(a_block_is_not_read_twice)
{
	struct bytes file = bytes_new(), entries = bytes_new();
	struct table table = {.checksum = CHECKSUM_CRC32C};
	struct handle data, index, metaindex;
	struct dump dump;

	put_entry(&entries, "key\1\0\0\0\0\0\0\0", 11, "value", 5);
	data = write_entries_block(&file, &table, &entries);
	for (int i = 0; i < 1000; i++)
		put_handle_entry(&entries, "key", data);
	index = write_entries_block(&file, &table, &entries);
	metaindex = write_entries_block(&file, &table, &entries);
	write_old_footer(&file, metaindex, index);
	look(&dump, (struct span){file.at, file.size});
	ck_assert_uint_eq(dump.entries, 1);
	ck_assert_uint_eq(dump.problems.count, 1);
	dump_release(&dump);
	free(file.at);
	free(entries.at);
}
END_TEST

START_TEST(other_tables_are_told_apart)
{
	static const uint64_t magics[] = {UINT64_C(0x8242229663bf9564),
					  UINT64_C(0x4f3418eb7a8f13b8),
					  UINT64_C(0x926789d0c5f17873)};
	unsigned char file[100] = {0};
	struct dump dump;

	for (size_t i = 0; i < 3; i++) {
		put_le64(file + 92, magics[i]);
		look(&dump, (struct span){file, sizeof(file)});
		ck_assert(!dump.is_table);
		ck_assert_ptr_nonnull(strstr(dump.problems.list[0].text, "no filter block"));
		dump_release(&dump);
	}
	put_le64(file + 92, UINT64_C(0x88e241b785f4cff7));
	put_le32(file + 88, 8);
	look(&dump, (struct span){file, sizeof(file)});
	ck_assert_str_eq(dump.problems.list[0].text,
			 "footer: format version 8 is not known here (1 to 7 are)");
	ck_assert_uint_eq(dump.problems.list[0].offset, 88);
	dump_release(&dump);
}
END_TEST

/* ---- what is printed ---------------------------------------------------- */

START_TEST(json_is_escaped)
{
	struct span file = make_table(&ordinary);
	struct dump dump;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	look(&dump, file);
	strcpy(dump.filters.name, "a\"b\\c\n\xff");
	dump_print_json(&dump, "\"x\"", to);
	fclose(to);
	ck_assert_ptr_nonnull(strstr(text, "\"file\":\"\\\"x\\\"\","));
	ck_assert_ptr_nonnull(strstr(text, "\"policy\":\"a\\\"b\\\\c\\u000a\\u00ff\","));
	ck_assert_ptr_nonnull(strstr(text, "\"ok\":true,\"problem_count\":0,\"problems\":[]}\n"));
	for (const char *at = text; *at; at++)
		expect((*at >= 0x20 && *at < 0x7f) || (*at == '\n' && at[1] == '\0'));
	free(text);
	dump_release(&dump);
	release(file);
}
END_TEST

/* ---- checksums ---------------------------------------------------------- */

START_TEST(crc32c_is_castagnolis)
{
	unsigned char bytes[300];
	uint64_t seed = 5;

	ck_assert_uint_eq(wn__crc32c("123456789", 9), 0xe3069283);
	ck_assert_uint_eq(wn__crc32c("", 0), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)test_random(&seed);
	for (size_t size = 0; size < sizeof(bytes); size++) {
		uint32_t rest = UINT32_MAX;

		for (size_t i = 0; i < size * 8; i++) {
			rest ^= bytes[i / 8] >> i % 8 & 1;
			rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78 : 0);
		}
		ck_assert_uint_eq(wn__crc32c(bytes, size), ~rest);
	}
}
END_TEST

/* ---- files for tests/winnow_dump.sh -------------------------------------- */

static const char *directory;

static void write_file(const char *name, const struct shape *shape)
{
	struct span file = make_table(shape);
	char path[4096];
	FILE *to;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	to = fopen(path, "wb");
	ck_assert_ptr_nonnull(to);
	ck_assert_uint_eq(fwrite(file.at, 1, file.size, to), file.size);
	ck_assert_int_eq(fclose(to), 0);
	release(file);
}

START_TEST(files_are_written)
{
	static const unsigned char bloom[69] = {[64] = 255, [66] = 6};
	struct shape shape = ordinary;

	write_file("full.sst", &shape);
	shape.layout = LAYOUT_PARTITIONED;
	write_file("partitioned.sst", &shape);
	shape.layout = LAYOUT_FULL;
	shape.content = ALIEN_KEYS;
	write_file("denies.sst", &shape);
	shape.content = RAW;
	shape.raw = (struct span){bloom, sizeof(bloom)};
	write_file("bloom.sst", &shape);
	shape.layout = LAYOUT_NONE;
	shape.content = NOTHING;
	write_file("none.sst", &shape);
	write_file("level.ldb", &(struct shape){.leveldb = true, .layout = LAYOUT_BLOCKS,
						.content = WINNOW, .blocks = 5, .keys = 20});
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("dump");
	TCase *whole = tcase_create("whole"), *damage = tcase_create("damage");

	if (argc == 3 && strcmp(argv[1], "--write") == 0) {
		directory = argv[2];
		tcase_add_test(whole, files_are_written);
		suite_add_tcase(suite, whole);
		suite_add_tcase(suite, damage);
		return test_run(suite);
	}
	tcase_add_test(whole, whole_tables_are_good);
	tcase_add_test(whole, whole_leveldb_tables_are_good);
	tcase_add_test(whole, tables_with_small_filters_are_good);
	tcase_add_test(whole, filters_of_others_are_named);
	tcase_add_test(whole, json_is_escaped);
	tcase_add_test(whole, crc32c_is_castagnolis);
	tcase_add_test(damage, a_filter_that_denies_keys_is_found);
	tcase_add_test(damage, small_filters_that_deny_keys_are_found);
	tcase_add_test(damage, a_small_filter_of_noise_is_found);
	tcase_add_test(damage, counts_that_differ_are_found);
	tcase_add_test(damage, no_flipped_bit_goes_unseen);
	tcase_add_test(damage, without_checksums_damage_does_no_harm);
	tcase_add_test(damage, a_file_cut_anywhere_is_found);
	tcase_add_test(damage, a_block_is_not_read_twice);
	tcase_add_test(damage, other_tables_are_told_apart);
	suite_add_tcase(suite, whole);
	suite_add_tcase(suite, damage);
	return test_run(suite);
}
