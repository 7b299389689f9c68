/* Tables whose pack is gone: no filter that is built later may come by the id of one of theirs, and
 * every answer stays right. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>

#include <winnow/error.h>

#include "tests/support/leveldb_db.h"
#include "reversemap/packs.h"
#include "base/secret.h"
#include "adapters/leveldb/strangers.h"

#define SUM UINT64_C(0x1234567)

static bool has_suffix(const char *name, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return length > end && strcmp(name + length - end, suffix) == 0;
}

/* The paths of the files in a directory with this suffix; how many. */
static unsigned list_files(const char *name, const char *suffix, char (*paths)[512], unsigned room)
{
	DIR *directory = opendir(test_path(name));
	const struct dirent *entry;
	unsigned count = 0;

	while (directory && (entry = readdir(directory)))
		if (has_suffix(entry->d_name, suffix) && count < room)
			snprintf(paths[count++], 512, "%.250s/%.250s", test_path(name),
				 entry->d_name);
	if (directory)
		closedir(directory);
	return count;
}

static unsigned char *read_whole(const char *path, size_t *sizep)
{
	FILE *file = fopen(path, "rb");
	unsigned char *bytes;

	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	*sizep = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*sizep);
	expect(fread(bytes, 1, *sizep, file) == *sizep);
	fclose(file);
	return bytes;
}

static void write_whole(const char *path, const unsigned char *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");

	ck_assert_ptr_nonnull(file);
	expect(fwrite(bytes, 1, size, file) == size);
	fclose(file);
}

static void remove_packs(const char *sidecar)
{
	char paths[64][512];
	unsigned count;

	while ((count = list_files(sidecar, ".pack", paths, 64)))
		while (count)
			ck_assert_int_eq(unlink(paths[--count]), 0);
}

/* ---- the register ------------------------------------------------------- */

static struct wn__small_id id_of(uint64_t number)
{
	uint64_t state = number;

	return (struct wn__small_id){test_random(&state) | 1, test_random(&state)};
}

static struct wn__packs *open_packs(const char *name)
{
	struct wn__packs *packs;

	ck_assert_int_eq(wn__packs_open(test_path(name), SUM, &packs), 0);
	return packs;
}

/* A table of one filter with one key; what became of it. */
static int put_table(struct wn__packs *packs, uint64_t table, uint64_t number, uint64_t key)
{
	struct wn__pack_writer *writer;
	struct wn_hash hash = {key, key};
	int err;

	ck_assert_int_eq(wn__pack_begin(packs, table, &writer), 0);
	err = wn__pack_add(writer, id_of(number), &hash, 1);
	ck_assert_int_eq(wn__pack_finish(writer), 0);
	return err;
}

static bool can_read(struct wn__packs *packs, uint64_t number)
{
	uint64_t *records;
	uint32_t count;
	int err = wn__packs_read(packs, id_of(number), &records, &count);

	expect(err == 0 || err == WN_ERR_NOT_FOUND);
	free(records);
	return err == 0;
}

START_TEST(a_strangers_id_is_taken_while_its_table_lives)
{
	struct wn__packs *packs = open_packs("register");
	struct wn__small_id ids[] = {id_of(1), id_of(2), id_of(2)}, last = id_of(2);
	const uint64_t live[] = {6};
	struct wn__packs_stats stats;

	ck_assert_int_eq(wn__packs_add_strangers(packs, 5, ids, 3), 0);
	ck_assert_int_eq(wn__packs_add_strangers(packs, 6, &last, 1), 0);
	ck_assert_int_eq(put_table(packs, 10, 1, 7), WN_ERR_MISMATCH);
	ck_assert_int_eq(put_table(packs, 10, 2, 7), WN_ERR_MISMATCH);
	ck_assert_int_eq(put_table(packs, 10, 3, 7), 0);
	expect(!can_read(packs, 1) && !can_read(packs, 2) && can_read(packs, 3));
	expect(!wn__packs_have(packs, 5) && wn__packs_have(packs, 10));
	wn__packs_describe(packs, &stats);
	ck_assert_uint_eq(stats.packs, 1);
	ck_assert_uint_eq(stats.strangers, 2);
	wn__packs_retire(packs, 5, NULL, NULL);
	ck_assert_int_eq(put_table(packs, 11, 1, 7), 0);
	ck_assert_int_eq(put_table(packs, 12, 2, 7), WN_ERR_MISMATCH);
	wn__packs_sweep(packs, live, 1, NULL, NULL);
	ck_assert_int_eq(put_table(packs, 12, 2, 7), WN_ERR_MISMATCH);
	wn__packs_sweep(packs, live, 0, NULL, NULL);
	ck_assert_int_eq(put_table(packs, 12, 2, 7), 0);
	expect(can_read(packs, 2));
	wn__packs_close(packs);
}
END_TEST

START_TEST(a_stranger_silences_a_pack_until_it_goes)
{
	struct wn__packs *packs = open_packs("silenced");
	struct wn__small_id id = id_of(1);

	ck_assert_int_eq(put_table(packs, 5, 1, 7), 0);
	ck_assert_int_eq(wn__packs_add_strangers(packs, 6, &id, 1), 0);
	expect(!can_read(packs, 1));
	ck_assert_int_eq(put_table(packs, 7, 1, 7), WN_ERR_MISMATCH);
	wn__packs_retire(packs, 6, NULL, NULL);
	expect(can_read(packs, 1));
	ck_assert_int_eq(put_table(packs, 7, 1, 8), WN_ERR_MISMATCH);
	/* The pack's table first. */
	ck_assert_int_eq(wn__packs_add_strangers(packs, 6, &id, 1), 0);
	wn__packs_retire(packs, 5, NULL, NULL);
	ck_assert_int_eq(put_table(packs, 7, 1, 8), WN_ERR_MISMATCH);
	wn__packs_retire(packs, 6, NULL, NULL);
	ck_assert_int_eq(put_table(packs, 7, 1, 8), 0);
	wn__packs_close(packs);
}
END_TEST

START_TEST(unknown_ids_put_everything_in_doubt)
{
	struct wn__packs *packs = open_packs("doubt");

	expect(!wn__packs_in_doubt(packs));
	ck_assert_int_eq(wn__packs_add_strangers(packs, 5, NULL, 0), 0);
	ck_assert_int_eq(wn__packs_add_strangers(packs, 6, NULL, 0), 0);
	wn__packs_retire(packs, 5, NULL, NULL);
	expect(wn__packs_in_doubt(packs));
	wn__packs_retire(packs, 6, NULL, NULL);
	expect(!wn__packs_in_doubt(packs));
	wn__packs_close(packs);
}
END_TEST

/* A pack that was away and came back, while another table came by its id. */
START_TEST(packs_that_disagree_about_an_id_do_not_learn)
{
	struct wn__packs *packs = open_packs("disagree");
	char from[9000], to[9000];

	snprintf(from, sizeof(from), "%s/000005.pack", test_path("disagree"));
	snprintf(to, sizeof(to), "%s/away", test_path("disagree"));
	ck_assert_int_eq(put_table(packs, 5, 1, 7), 0);
	wn__packs_close(packs);
	ck_assert_int_eq(rename(from, to), 0);
	packs = open_packs("disagree");
	ck_assert_int_eq(put_table(packs, 6, 1, 8), 0);
	wn__packs_close(packs);
	ck_assert_int_eq(rename(to, from), 0);
	packs = open_packs("disagree");
	expect(!can_read(packs, 1));
	ck_assert_int_eq(put_table(packs, 7, 1, 7), WN_ERR_MISMATCH);
	wn__packs_close(packs);
}
END_TEST

/* Two tables had a filter when the packs were opened; the one that goes leaves it to the other. */
START_TEST(an_id_of_two_packs_stays_taken_after_reopening)
{
	for (uint64_t first = 5; first <= 6; first++) {
		struct wn__packs *packs = open_packs("shared");

		ck_assert_int_eq(put_table(packs, 5, 1, 7), 0);
		ck_assert_int_eq(put_table(packs, 6, 1, 7), 0);
		wn__packs_close(packs);
		packs = open_packs("shared");
		wn__packs_retire(packs, first, NULL, NULL);
		expect(can_read(packs, 1));
		ck_assert_int_eq(put_table(packs, 7, 1, 8), WN_ERR_MISMATCH);
		wn__packs_retire(packs, 11 - first, NULL, NULL);
		ck_assert_int_eq(put_table(packs, 7, 1, 8), 0);
		wn__packs_retire(packs, 7, NULL, NULL);
		wn__packs_close(packs);
	}
}
END_TEST

/* ---- databases ---------------------------------------------------------- */

static void put_key(struct db *db, const char *key)
{
	char *error = NULL;

	leveldb_put(db->level, db->writing, key, strlen(key), key, strlen(key), &error);
	expect_no(error);
}

static bool has_key(struct db *db, const char *key)
{
	char *error = NULL, *value;
	size_t size;

	value = wn_leveldb_get(db->wn, db->reading, key, strlen(key), &size, &error);
	expect_no(error);
	if (value)
		expect(size == strlen(key) && memcmp(value, key, size) == 0);
	leveldb_free(value);
	return value != NULL;
}

static void spoil(const char *path, int how)
{
	struct stat status;
	FILE *file;

	ck_assert_int_eq(stat(path, &status), 0);
	switch (how) {
	case 0:
		ck_assert_int_eq(unlink(path), 0);
		return;
	case 1:
		ck_assert_int_eq(truncate(path, status.st_size / 2), 0);
		return;
	default: /* in the index */
		file = fopen(path, "r+b");
		ck_assert_ptr_nonnull(file);
		fseek(file, 100, SEEK_SET);
		fputc('?', file);
		fputc('!', file);
		fclose(file);
	}
}

/* Packs are lost in turn, in one of three ways. */
START_TEST(a_table_without_a_pack_gives_right_answers)
{
	uint64_t end = test_is_quick() ? 10000 : 40000;
	struct db_setup setup = {.name = "lost", .filter = "aqf:remainder_bits=3"};
	struct db db = db_open(&setup);

	db_put(&db, 0, end);
	db_compact(&db);
	db_ask_absent(&db, 0, end);
	db_close(&db);
	for (unsigned i = 0; i < (test_is_quick() ? 6 : 15); i++) {
		char packs[64][512];
		unsigned count = list_files("lost.winnow", ".pack", packs, 64);

		ck_assert_uint_gt(count, 0);
		spoil(packs[i / 3 % count], (int)i % 3);
		db = db_open(&setup);
		expect(!db_stats(&db).learning_off);
		db_expect_right(&db, 0, end);
		db_put(&db, end, end + 2000);
		end += 2000;
		db_ask_absent(&db, 0, end);
		db_reopen(&db);
		db_expect_right(&db, 0, end);
		if (i % 3 == 2) {
			db_compact(&db);
			db_expect_right(&db, 0, end);
			db_put(&db, 0, end);
			db_compact(&db);
			ck_assert_uint_eq(db_stats(&db).strangers, 0);
		}
		db_expect_right(&db, 0, end);
		db_close(&db);
	}
}
END_TEST

START_TEST(strangers_are_counted_and_go_with_their_tables)
{
	struct db_setup setup = {.name = "counted"};
	struct db db = db_open(&setup);
	char tables[64][512];
	uint64_t wrong;

	db_put(&db, 0, 20000);
	db_compact(&db);
	db_close(&db);
	remove_packs("counted.winnow");
	db = db_open(&setup);
	ck_assert_uint_eq(db_stats(&db).strangers, list_files("counted", ".ldb", tables, 64));
	ck_assert_uint_eq(db_stats(&db).learning_off, 0);
	/* They do not learn. */
	wrong = db_ask_absent(&db, 0, 9000);
	ck_assert_uint_gt(wrong, 0);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 9000), wrong);
	ck_assert_uint_eq(db_stats(&db).lessons, 0);
	db_put(&db, 0, 20000);
	db_compact(&db);
	ck_assert_uint_eq(db_stats(&db).strangers, 0);
	db_ask_absent(&db, 0, 9000);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 9000), 0);
	db_close(&db);
}
END_TEST

START_TEST(tables_of_others_cost_nothing)
{
	const char *filters[] = {"bloom", "none", "bare"};

	for (int i = 0; i < 3; i++) {
		struct db_setup setup = {.name = filters[i],
					 .filter = i == 2 ? NULL : filters[i],
					 .bare_policy = i == 2};
		struct db_setup ours = {.name = filters[i]};
		struct db db = db_open(&setup);

		db_put(&db, 0, 20000);
		db_compact(&db);
		db_close(&db);
		db = db_open(&ours);
		ck_assert_uint_eq(db_stats(&db).strangers, 0);
		ck_assert_uint_eq(db_stats(&db).learning_off, 0);
		db_close(&db);
	}
}
END_TEST

/* ---- tables that cannot be read ----------------------------------------- */

START_TEST(half_a_table_that_a_crash_left_is_nobodys)
{
	struct db_setup setup = {.name = "half"};
	struct db db = db_open(&setup);
	char half[600];

	db_put(&db, 0, 10000);
	db_compact(&db);
	ck_assert_uint_gt(db_ask_absent(&db, 0, 4000), 0);
	db_close(&db);
	snprintf(half, sizeof(half), "%.500s/900000.ldb", test_path("half"));
	write_whole(half, (const unsigned char *)"half a table", 12);
	db = db_open(&setup);
	/* LevelDB removed it. */
	ck_assert_int_ne(access(half, F_OK), 0);
	expect(!db_stats(&db).learning_off);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 4000), 0);
	db_close(&db);
}
END_TEST

static size_t get_varint(const unsigned char **atp)
{
	size_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		unsigned char byte = *(*atp)++;

		value |= (size_t)(byte & 127) << shift;
		if (byte < 128)
			return value;
	}
}

/* The metaindex is no block any more; LevelDB then has no filters of the table, and no trouble. */
static void spoil_metaindex(const char *path)
{
	size_t size, offset;
	unsigned char *bytes = read_whole(path, &size);
	const unsigned char *at = bytes + size - 48;

	offset = get_varint(&at);
	offset += get_varint(&at);
	memset(bytes + offset - 4, 0xff, 4);
	write_whole(path, bytes, size);
	free(bytes);
}

/* The file that is not among those. */
static const char *find_new(char (*paths)[512], unsigned count, char (*old)[512], unsigned olds)
{
	const char *found = NULL;

	for (unsigned i = 0; i < count; i++) {
		unsigned j = 0;

		while (j < olds && strcmp(paths[i], old[j]) != 0)
			j++;
		if (j == olds)
			found = paths[i];
	}
	ck_assert_ptr_nonnull(found);
	return found;
}

START_TEST(a_table_that_cannot_be_read_stops_learning_while_it_lives)
{
	struct db_setup setup = {.name = "unread", .filter = "aqf:remainder_bits=3"};
	struct db db = db_open(&setup);
	char old[64][512], tables[64][512], old_packs[64][512], packs[64][512];
	unsigned olds, count, old_pack_count, pack_count;
	uint64_t wrong, lessons;

	db_put(&db, 0, 10000);
	db_compact(&db);
	ck_assert_uint_gt(db_ask_absent(&db, 0, 4000), 0);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 4000), 0);
	olds = list_files("unread", ".ldb", old, 64);
	old_pack_count = list_files("unread.winnow", ".pack", old_packs, 64);
	/* Behind all others. */
	put_key(&db, "z1");
	put_key(&db, "z9");
	db_reopen(&db);
	db_close(&db);
	count = list_files("unread", ".ldb", tables, 64);
	pack_count = list_files("unread.winnow", ".pack", packs, 64);
	spoil_metaindex(find_new(tables, count, old, olds));
	ck_assert_int_eq(unlink(find_new(packs, pack_count, old_packs, old_pack_count)), 0);
	db = db_open(&setup);
	expect(db_stats(&db).learning_off);
	ck_assert_uint_eq(db_stats(&db).strangers, 1);
	lessons = db_stats(&db).lessons;
	/* What was learned is not believed, and nothing is learned. */
	wrong = db_ask_absent(&db, 0, 4000);
	ck_assert_uint_gt(wrong, 0);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 4000), wrong);
	ck_assert_uint_eq(db_stats(&db).lessons, lessons);
	ck_assert_uint_eq(db_stats(&db).adaptations, 0);
	db_expect_right(&db, 0, 10000);
	/* Until the table goes. */
	put_key(&db, "z1");
	put_key(&db, "z9");
	db_compact(&db);
	expect(!db_stats(&db).learning_off);
	ck_assert_uint_eq(db_stats(&db).strangers, 0);
	ck_assert_uint_eq(db_ask_absent(&db, 0, 4000), 0);
	expect(has_key(&db, "z1") && has_key(&db, "z9"));
	db_expect_right(&db, 0, 10000);
	db_close(&db);
}
END_TEST

/* ---- the collision ------------------------------------------------------ */

enum { KEYS = 24, MIDDLE = 11, KEY_ROOM = 24 };

struct keys {
	char text[KEYS][KEY_ROOM];
};

static void name_key(char *text, unsigned number, uint64_t more)
{
	snprintf(text, KEY_ROOM, "key%02u-%010" PRIu64, number, more);
}

static struct wn__small_id filter_id(const struct wn_secret *secret, const struct keys *keys)
{
	struct wn_hash hashes[KEYS];
	struct wn__small_parts parts = {.hashes = hashes, .count = KEYS, .remainder_bits = 1,
				       .secret_id = wn__small_secret_id(secret)};
	unsigned char bytes[200];
	size_t size = wn__small_size(KEYS, 1);

	expect(size <= sizeof(bytes));
	for (int i = 0; i < KEYS; i++)
		hashes[i] = wn_hash(secret, keys->text[i], strlen(keys->text[i]));
	expect(wn__small_sort(hashes, KEYS) == KEYS);
	wn__small_build(&parts, bytes, size);
	return wn__small_id(bytes, size);
}

/* One of their keys is replaced by another, such that the filters have the same bytes. *triedp:
 * the replacement's number. */
static void find_twin(const struct keys *keys, struct keys *twin, uint64_t *triedp)
{
	struct wn_secret *secret;
	struct wn__small_id id, other;

	ck_assert_int_eq(wn_secret_load(test_path("twins/winnow.secret"), &secret), 0);
	id = filter_id(secret, keys);
	*twin = *keys;
	do {
		expect(++*triedp < 1000000);
		name_key(twin->text[MIDDLE], MIDDLE, *triedp);
		other = filter_id(secret, twin);
	} while (other.lo != id.lo || other.hi != id.hi);
	wn_secret_destroy(secret);
}

START_TEST(a_filter_with_a_strangers_bytes_gets_another_salt)
{
	struct db_setup setup = {.name = "twins", .filter = "aqf:remainder_bits=1"};
	struct db db = db_open(&setup);
	struct keys keys, twin, absent;
	uint64_t tried = 0;
	char packs[4][512];

	for (unsigned i = 0; i < KEYS; i++) {
		name_key(keys.text[i], i, 0);
		put_key(&db, keys.text[i]);
	}
	db_compact(&db);
	db_close(&db);
	ck_assert_uint_eq(list_files("twins.winnow", ".pack", packs, 4), 1);
	ck_assert_int_eq(unlink(packs[0]), 0);
	find_twin(&keys, &twin, &tried);
	db = db_open(&setup);
	ck_assert_uint_eq(db_stats(&db).strangers, 1);
	for (int i = 0; i < KEYS; i++)
		put_key(&db, twin.text[i]);
	/* LevelDB makes a table of them while it opens the database. */
	db_reopen(&db);
	ck_assert_uint_eq(list_files("twins", ".ldb", packs, 4), 2);
	/* Few enough lookups: after a hundred in vain LevelDB would make one table of the two. */
	for (int i = 0; i < 4; i++) {
		find_twin(&keys, &absent, &tried);
		expect(!has_key(&db, absent.text[MIDDLE]));
	}
	ck_assert_uint_gt(db_stats(&db).adaptations, 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < KEYS; i++)
			expect(has_key(&db, keys.text[i]) && has_key(&db, twin.text[i]));
		ck_assert_uint_eq(db_stats(&db).strangers, round < 2);
		if (round == 0)
			db_reopen(&db);
		else
			db_compact(&db);
	}
	db_close(&db);
}
END_TEST

/* ---- hostile bytes ------------------------------------------------------ */

START_TEST(damaged_tables_are_survived)
{
	struct db_setup setup = {.name = "hostile"};
	struct db db = db_open(&setup);
	uint64_t random = test_seed("damaged_tables_are_survived", 21);
	char tables[4][512], path[9000];
	struct wn_secret *secret;
	struct wn__small_id *ids;
	unsigned char *bytes;
	size_t size, count;
	uint32_t secret_id;

	db_put(&db, 0, 400);
	db_compact(&db);
	db_close(&db);
	ck_assert_uint_eq(list_files("hostile", ".ldb", tables, 4), 1);
	ck_assert_int_eq(wn_secret_load(test_path("hostile/winnow.secret"), &secret), 0);
	secret_id = wn__small_secret_id(secret);
	wn_secret_destroy(secret);
	ck_assert_int_eq(wn__strangers_read(tables[0], secret_id, &ids, &count), 0);
	ck_assert_uint_gt(count, 3);
	free(ids);
	ck_assert_int_eq(wn__strangers_read(tables[0], secret_id ^ 1, &ids, &count), 0);
	ck_assert_uint_eq(count, 0);
	free(ids);
	bytes = read_whole(tables[0], &size);
	snprintf(path, sizeof(path), "%s", test_path("hostile.bytes"));
	for (int round = 0; round < (test_is_quick() ? 1000 : 4000); round++) {
		/* Metaindex, footer and filters are in the last few hundred bytes. */
		size_t at = size - 1 - test_random(&random) % 700;
		unsigned char old = bytes[at];

		bytes[at] = (unsigned char)test_random(&random);
		write_whole(path, bytes, round % 4 ? size : at);
		wn__strangers_read(path, secret_id, &ids, &count);
		free(ids);
		bytes[at] = old;
	}
	free(bytes);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_strangers");
	TCase *tests = tcase_create("leveldb_strangers");
	int result;

	test_make_top();
	tcase_add_test(tests, a_strangers_id_is_taken_while_its_table_lives);
	tcase_add_test(tests, a_stranger_silences_a_pack_until_it_goes);
	tcase_add_test(tests, unknown_ids_put_everything_in_doubt);
	tcase_add_test(tests, packs_that_disagree_about_an_id_do_not_learn);
	tcase_add_test(tests, an_id_of_two_packs_stays_taken_after_reopening);
	tcase_add_test(tests, a_table_without_a_pack_gives_right_answers);
	tcase_add_test(tests, strangers_are_counted_and_go_with_their_tables);
	tcase_add_test(tests, tables_of_others_cost_nothing);
	tcase_add_test(tests, half_a_table_that_a_crash_left_is_nobodys);
	tcase_add_test(tests, a_table_that_cannot_be_read_stops_learning_while_it_lives);
	tcase_add_test(tests, a_filter_with_a_strangers_bytes_gets_another_salt);
	tcase_add_test(tests, damaged_tables_are_survived);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
