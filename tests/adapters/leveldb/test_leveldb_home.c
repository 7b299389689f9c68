/* The sidecar directory: what stays in it of databases that are gone, how it grows, and what others
 * may have put there. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <grp.h>
#include <stdatomic.h>

#include "tests/support/leveldb_db.h"
#include "tests/support/processes.h"
#include "tests/support/trees.h"

static void destroy_database(const char *name)
{
	leveldb_options_t *options = leveldb_options_create();
	char *error = NULL;

	leveldb_destroy_db(options, test_path(name), &error);
	expect_no(error);
	leveldb_options_destroy(options);
}

/* ---- keys of databases that are gone ------------------------------------- */

/* What the comparator was shown that begins so. */
static atomic_uint olds_seen, keys_seen;
static atomic_bool watching;

static void look_at(const char *key, size_t size)
{
	atomic_fetch_add(&keys_seen, 1);
	if (size >= 4 && memcmp(key, "old-", 4) == 0)
		atomic_fetch_add(&olds_seen, 1);
}

static int compare_watched(void *arg, const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order = memcmp(a, b, shorter);

	(void)arg;
	if (atomic_load(&watching)) {
		look_at(a, a_size);
		look_at(b, b_size);
	}
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

static const char *name_watched(void *arg)
{
	(void)arg;
	return "winnow.test.watched";
}

static void leave_alone(void *arg)
{
	(void)arg;
}

struct watched {
	struct db db;
	leveldb_comparator_t *comparator;
};

static struct watched open_watched(const char *name)
{
	struct wn_leveldb_options given = {.filter = "aqf:remainder_bits=3",
					   .equal_keys_are_identical = true};
	struct watched watched = {.db.options = leveldb_options_create()};
	struct db *db = &watched.db;

	watched.comparator =
		leveldb_comparator_create(NULL, leave_alone, compare_watched, name_watched);
	leveldb_options_set_create_if_missing(db->options, 1);
	leveldb_options_set_write_buffer_size(db->options, 128 << 10);
	leveldb_options_set_comparator(db->options, watched.comparator);
	db->level = wn_leveldb_open(db->options, test_path(name), &given, &db->wn, &db->error);
	expect_no(db->error);
	db->reading = leveldb_readoptions_create();
	db->writing = leveldb_writeoptions_create();
	return watched;
}

static void close_watched(struct watched *watched)
{
	db_close(&watched->db);
	leveldb_comparator_destroy(watched->comparator);
}

static size_t watched_key(const char *kind, unsigned number, char *key)
{
	return (size_t)snprintf(key, 40, "%s-%08x-%u", kind, number * 2654435761u, number);
}

static void put_watched(struct watched *watched, const char *kind, unsigned count)
{
	struct db *db = &watched->db;
	char key[40];

	for (unsigned i = 0; i < count; i++) {
		leveldb_put(db->level, db->writing, key, watched_key(kind, 2 * i, key), "value", 5,
			    &db->error);
		expect_no(db->error);
	}
	db_compact(db);
	wn_leveldb_drain(db->wn);
}

static unsigned find_watched(struct watched *watched, const char *kind, unsigned first,
			     unsigned count)
{
	struct db *db = &watched->db;
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++) {
		char key[40];
		size_t size;
		char *value = wn_leveldb_get(db->wn, db->reading, key,
					     watched_key(kind, first + 2 * i, key), &size,
					     &db->error);

		expect_no(db->error);
		found += value != NULL;
		leveldb_free(value);
	}
	return found;
}

/* The database is destroyed as LevelDB does it, or its directory is removed; the sidecar stays. */
START_TEST(a_comparator_sees_no_key_of_a_destroyed_database)
{
	unsigned seen[2];

	for (unsigned way = 0; way < 2; way++) {
		const char *name = way ? "removed" : "destroyed";
		struct watched watched = open_watched(name);

		put_watched(&watched, "old", 8000);
		expect(find_watched(&watched, "old", 1, 20000) == 0);
		wn_leveldb_drain(watched.db.wn);
		close_watched(&watched);
		if (way)
			remove_tree(test_path(name));
		else
			destroy_database(name);
		atomic_store(&watching, true);
		atomic_store(&olds_seen, 0);
		atomic_store(&keys_seen, 0);
		watched = open_watched(name);
		put_watched(&watched, "new", 8000);
		expect(find_watched(&watched, "new", 1, 20000) == 0);
		put_watched(&watched, "new", 9000);
		expect(find_watched(&watched, "new", 0, 9000) == 9000);
		close_watched(&watched);
		atomic_store(&watching, false);
		ck_assert_uint_gt(atomic_load(&keys_seen), 8000);
		seen[way] = atomic_load(&olds_seen);
	}
	ck_assert_msg(seen[0] + seen[1] == 0,
		      "old keys were compared: %u times after leveldb_destroy_db(), %u times after "
		      "the directory was removed", seen[0], seen[1]);
}
END_TEST

/* ---- growth -------------------------------------------------------------- */

/* It learns about as much each time, of other missing keys. What is kept of these is bounded by an
 * option, and a journal may grow to a few megabytes before it is made shorter. */
START_TEST(a_sidecar_does_not_grow_with_the_databases_it_had)
{
	const unsigned cycles = 50, few = 10;
	struct db_setup setup = {.name = "cycles",
				 .filter = "aqf:remainder_bits=2",
				 .known_misses = 4096};
	struct tree_size early = {0, 0}, late = {0, 0};
	uint64_t wrong = 0;

	for (unsigned cycle = 0; cycle < cycles; cycle++) {
		struct db db = db_open(&setup);
		struct tree_size *most = cycle < few ? &early : &late, size;

		db_put(&db, 0, 20000);
		db_compact(&db);
		wn_leveldb_drain(db.wn);
		wrong += db_ask_absent(&db, cycle * 40000, 20000);
		db_close(&db);
		size = measure_tree(test_path("cycles.winnow"));
		most->entries = size.entries > most->entries ? size.entries : most->entries;
		most->bytes = size.bytes > most->bytes ? size.bytes : most->bytes;
		/* This leaves the directory there, with the secret in it. */
		destroy_database("cycles");
		if (cycle % 5 == 4)
			remove_tree(test_path("cycles"));
	}
	fprintf(stderr, "at most %" PRIu64 " files, %" PRIu64 " bytes in %u cycles; later %" PRIu64
		", %" PRIu64 "; %" PRIu64 " false positives\n", early.entries, early.bytes, few,
		late.entries, late.bytes, wrong);
	ck_assert_uint_gt(wrong, cycles * 1000);
	ck_assert_uint_le(late.entries, early.entries + 4);
	ck_assert_uint_le(late.bytes, 2 * early.bytes + (4 << 20));
}
END_TEST

/* ---- what others put there ----------------------------------------------- */

#define PRECIOUS "These bytes belong to somebody else.\n"

static void write_precious(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	expect(write(fd, PRECIOUS, sizeof(PRECIOUS) - 1) == sizeof(PRECIOUS) - 1);
	close(fd);
}

static void expect_precious(const char *path)
{
	char bytes[100];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	expect(read(fd, bytes, sizeof(bytes)) == sizeof(PRECIOUS) - 1);
	expect(memcmp(bytes, PRECIOUS, sizeof(PRECIOUS) - 1) == 0);
	close(fd);
}

/* Right answers, through learning and compactions, or a message. True: it was opened. */
static bool live_or_refuse(const struct db_setup *setup, bool there)
{
	struct db db = db_try_open(setup);
	bool opened = db.level;

	if (opened) {
		if (there)
			db_expect_right(&db, 0, 4000);
		db_put(&db, 0, 4000);
		db_compact(&db);
		wn_leveldb_drain(db.wn);
		db_ask_absent(&db, 0, 4000);
		db_expect_right(&db, 0, 4000);
	} else {
		ck_assert_ptr_nonnull(db.error);
		ck_assert_uint_gt(strlen(db.error), 10);
	}
	db_close(&db);
	return opened;
}

/* The database is whole: without the sidecar, and where winnow is not needed. */
static void expect_unharmed(const char *name)
{
	struct db_setup bloom = {.name = name, .filter = "bloom"};
	struct db db = db_open(&bloom);

	db_expect_right(&db, 0, 4000);
	db_close(&db);
}

static void make_linked_sidecar(const char *path)
{
	char target[TREE_PATH];

	expect(snprintf(target, sizeof(target), "%s.target", path) < TREE_PATH);
	ck_assert_int_eq(mkdir(target, 0700), 0);
	ck_assert_int_eq(symlink(target, path), 0);
}

static void make_dangling_sidecar(const char *path)
{
	ck_assert_int_eq(symlink("/nowhere/at/all", path), 0);
}

static void make_fifo_sidecar(const char *path)
{
	ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void make_unwritable_sidecar(const char *path)
{
	ck_assert_int_eq(mkdir(path, 0500), 0);
}

static void make_unreadable_sidecar(const char *path)
{
	ck_assert_int_eq(mkdir(path, 0), 0);
}

static const struct odd_sidecar {
	const char *name;
	void (*make)(const char *path);
} odd_sidecars[] = {
	{"a-file", write_precious},
	{"a-link", make_linked_sidecar},
	{"a-dangling-link", make_dangling_sidecar},
	{"a-fifo", make_fifo_sidecar},
	{"unwritable", make_unwritable_sidecar},
	{"unreadable", make_unreadable_sidecar},
};

/* Root may write everywhere. */
static void become_nobody(void)
{
	if (geteuid() != 0)
		return;
	ck_assert_int_eq(setgroups(0, NULL), 0);
	ck_assert_int_eq(setgid(65534), 0);
	ck_assert_int_eq(setuid(65534), 0);
}

struct odd_life {
	struct db_setup setup;
	const struct odd_sidecar *odd;
	char sidecar[TREE_PATH];
	bool there; /* the database has its keys */
	bool opened;
};

static void live_oddly(void *given)
{
	struct odd_life *life = given;

	become_nobody();
	if (life->there) {
		struct db_setup good = {.name = life->setup.name};

		expect(live_or_refuse(&good, false));
	}
	life->odd->make(life->sidecar);
	life->setup.sidecar = life->sidecar;
	life->opened = live_or_refuse(&life->setup, life->there);
	if (life->opened)
		live_or_refuse(&life->setup, true);
	if (life->there || life->opened)
		expect_unharmed(life->setup.name);
}

/* The database was there before, with a good one, or begins so. */
START_TEST(an_odd_sidecar_path_gives_right_answers_or_a_message)
{
	struct odd_life *life = share_memory(sizeof(*life));
	size_t count = sizeof(odd_sidecars) / sizeof(odd_sidecars[0]);

	ck_assert_int_eq(chmod(test_top, 0777), 0);
	for (size_t i = 0; i < 2 * count; i++) {
		char name[64];

		*life = (struct odd_life){.odd = &odd_sidecars[i / 2], .there = i % 2};
		snprintf(name, sizeof(name), "%s-%s", life->odd->name, i % 2 ? "later" : "first");
		life->setup.name = name;
		expect(snprintf(life->sidecar, TREE_PATH, "%s.odd", test_path(name)) < TREE_PATH);
		run_process(live_oddly, life);
		fprintf(stderr, "%s: %s\n", name, life->opened ? "opened" : "refused");
		if (life->odd->make == write_precious)
			expect_precious(life->sidecar);
	}
}
END_TEST

/* ---- entries ------------------------------------------------------------- */

enum entry_kind {
	DIRECTORY,
	FULL_DIRECTORY,
	FIFO,
	LINK_TO_PRECIOUS, /* symbolic */
	NAME_OF_PRECIOUS, /* hard */
	NAME_OF_TABLE,
	EMPTY_FILE,
	KINDS
};

static const char *const kind_names[] = {
	"directory", "directory with a file in it", "FIFO", "symbolic link",
	"second name of a file", "second name of a table", "empty file"
};

enum { MAX_NAMES = 64 };

struct names {
	char names[MAX_NAMES][128];
	unsigned count;
};

/* With those that the files may have for a while. */
static void add_name(struct names *names, const char *name)
{
	static const char *const suffixes[] = {"", ".tmp", ".new"};

	for (unsigned i = 0; i < 3 && names->count < MAX_NAMES; i++)
		snprintf(names->names[names->count++], 128, "%.100s%s", name, suffixes[i]);
}

static struct names list_names(const char *path)
{
	struct names names = {.count = 0};
	DIR *directory = opendir(path);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			add_name(&names, entry->d_name);
	if (directory)
		closedir(directory);
	return names;
}

static void find_table(const char *name, char *path)
{
	DIR *directory = opendir(test_path(name));
	const struct dirent *entry;

	path[0] = '\0';
	while ((entry = readdir(directory)))
		if (strstr(entry->d_name, ".ldb"))
			join_path(path, test_path(name), entry->d_name);
	closedir(directory);
	ck_assert_int_ne(path[0], '\0');
}

static void put_entry(enum entry_kind kind, const char *path, const char *precious,
		      const char *table)
{
	char inner[TREE_PATH];

	remove_tree(path);
	switch (kind) {
	case DIRECTORY:
	case FULL_DIRECTORY:
		ck_assert_int_eq(mkdir(path, 0700), 0);
		if (kind == FULL_DIRECTORY) {
			join_path(inner, path, "file");
			write_precious(inner);
		}
		break;
	case FIFO:
		ck_assert_int_eq(mkfifo(path, 0600), 0);
		break;
	case LINK_TO_PRECIOUS:
		ck_assert_int_eq(symlink(precious, path), 0);
		break;
	case NAME_OF_PRECIOUS:
		ck_assert_int_eq(link(precious, path), 0);
		break;
	case NAME_OF_TABLE:
		ck_assert_int_eq(link(table, path), 0);
		break;
	default:
		close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
}

/* All names that were seen in the sidecar are such entries, or every other one. */
static void try_entries(const char *name, const struct names *names, enum entry_kind kind,
			unsigned step)
{
	struct db_setup setup = {.name = name};
	char sidecar[TREE_PATH], precious[TREE_PATH], table[TREE_PATH], path[TREE_PATH];
	bool opened;

	keep_path(precious, test_path("precious"));
	expect(snprintf(sidecar, sizeof(sidecar), "%s.winnow", test_path(name)) < TREE_PATH);
	write_precious(precious);
	find_table(name, table);
	for (unsigned i = step - 1; i < names->count; i += step) {
		join_path(path, sidecar, names->names[i]);
		put_entry(kind, path, precious, table);
	}
	opened = live_or_refuse(&setup, true);
	if (opened)
		live_or_refuse(&setup, true);
	fprintf(stderr, "%s, every %u: %s\n", kind_names[kind], step,
		opened ? "opened" : "refused");
	expect_precious(precious);
	expect_unharmed(name);
	for (unsigned i = 0; i < names->count; i++) {
		join_path(path, sidecar, names->names[i]);
		remove_tree(path);
	}
}

START_TEST(odd_entries_in_a_sidecar_give_right_answers_or_a_message)
{
	struct db_setup setup = {.name = "entries"};
	struct names names;

	expect(live_or_refuse(&setup, false));
	names = list_names(test_path("entries.winnow"));
	ck_assert_uint_gt(names.count, 0);
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (unsigned step = 1; step <= 2; step++)
			try_entries("entries", &names, (enum entry_kind)kind, step);
	/* And it has recovered. */
	expect(live_or_refuse(&setup, true));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_home");
	TCase *tests = tcase_create("leveldb_home");
	int result;

	test_make_top();
	tcase_add_test(tests, a_comparator_sees_no_key_of_a_destroyed_database);
	tcase_add_test(tests, a_sidecar_does_not_grow_with_the_databases_it_had);
	tcase_add_test(tests, an_odd_sidecar_path_gives_right_answers_or_a_message);
	tcase_add_test(tests, odd_entries_in_a_sidecar_give_right_answers_or_a_message);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
