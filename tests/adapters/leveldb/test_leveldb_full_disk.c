/* Disks that are full for a while, and more lessons than are usual: what is learned is kept, as
 * soon as there is room.
 *
 * False positives are counted in passes over the same missing keys. Before each first pass all is
 * compacted into one level, so that a lookup asks one table and compacts nothing. Each process that
 * opens a database is started by one that does not. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include "tests/support/leveldb_db.h"
#include "tests/support/processes.h"
#include "tests/support/trees.h"

#define KEYS ((uint64_t)40000) /* half of them stored */
#define ABSENT ((uint64_t)12000)

/* ---- the disk ------------------------------------------------------------ */

/* Seen by this process and those it starts, and gone with them. */
static bool mount_small_disk(const char *name)
{
	ck_assert_int_eq(mkdir(test_path(name), 0700), 0);
	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tmpfs", test_path(name), "tmpfs", 0, "size=16m") == 0)
		return true;
	fprintf(stderr, "no tmpfs may be mounted here (%s): the full disk is not tried\n",
		strerror(errno));
	return false;
}

/* As much as goes into one more file. */
static size_t fill_file(const char *path)
{
	static const char bytes[65536];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t written = 0;

	ck_assert_msg(fd >= 0 || errno == ENOSPC, "%s: %s", path, strerror(errno));
	for (size_t step = fd < 0 ? 0 : sizeof(bytes); step; step /= 2)
		while (write(fd, bytes, step) == (ssize_t)step)
			written += step;
	if (fd >= 0)
		close(fd);
	return written;
}

/* Until a new file takes no byte: tmpfs does not count exactly. */
static void fill_disk(const char *ballast)
{
	char path[TREE_PATH], name[16];
	unsigned number = 0;

	ck_assert_int_eq(mkdir(ballast, 0700), 0);
	do {
		snprintf(name, sizeof(name), "%u", number++);
		join_path(path, ballast, name);
	} while (fill_file(path));
}

/* ---- one database, in several processes ---------------------------------- */

/* What is done, in order; a count of false positives comes of each pass. */
enum step {
	END, OPEN, CLOSE, KILL, PUT, FILL, MAKE_ROOM, DRAIN,
	PASS_1, /* over the first missing keys */
	PASS_2, /* over others */
};

struct life {
	struct db_setup setup;
	char sidecar[TREE_PATH], ballast[TREE_PATH];
	const enum step *steps;
	uint64_t wrong[32]; /* by the pass's place among the passes */
	uint64_t passes;
};

static void take_steps(void *given)
{
	struct life *life = given;
	struct db db;

	life->passes = 0;
	life->setup.sidecar = life->sidecar;
	for (const enum step *step = life->steps; *step != END; step++) {
		switch (*step) {
		case OPEN:
			db = db_open(&life->setup);
			break;
		case CLOSE:
			db_close(&db);
			break;
		case KILL:
			raise(SIGKILL);
			break;
		case PUT:
			db_put(&db, 0, KEYS);
			db_compact(&db);
			wn_leveldb_drain(db.wn);
			break;
		case FILL:
			fill_disk(life->ballast);
			break;
		case MAKE_ROOM:
			remove_tree(life->ballast);
			break;
		case DRAIN:
			wn_leveldb_drain(db.wn);
			break;
		case PASS_1:
		case PASS_2:
			life->wrong[life->passes++] =
				db_ask_absent(&db, *step == PASS_1 ? 0 : 2 * ABSENT, ABSENT);
			break;
		case END:
			break;
		}
	}
}

static void expect_all_keys(void *given)
{
	struct life *life = given;
	struct db db = db_open(&life->setup);

	db_expect_right(&db, 0, KEYS);
	db_close(&db);
}

/* At the end: that asks for missing keys, too. */
static void expect_keys(struct life *life)
{
	run_process(expect_all_keys, life);
}

static void print_passes(const struct life *life)
{
	fprintf(stderr, "%s: false positives", life->setup.name);
	for (uint64_t i = 0; i < life->passes; i++)
		fprintf(stderr, " %" PRIu64, life->wrong[i]);
	fprintf(stderr, "\n");
}

/* NULL: there is no disk to be filled. */
static struct life *live(const char *name, const enum step *steps)
{
	struct life *life = share_memory(sizeof(*life));
	char disk[64];

	life->setup = (struct db_setup){.name = name, .filter = "aqf:remainder_bits=3"};
	life->steps = steps;
	snprintf(disk, sizeof(disk), "%s.disk", name);
	if (!mount_small_disk(disk))
		return NULL;
	join_path(life->sidecar, test_path(disk), "sidecar");
	join_path(life->ballast, test_path(disk), "ballast");
	plant_secret(name, test_seed(name, 5));
	await_process(start_process(take_steps, life));
	print_passes(life);
	return life;
}

/* What a second pass leaves: a key now and then whose hash is too much like a stored one's. None is
 * expected, and no more than that after opening again. */
static void expect_learned(uint64_t first, uint64_t second)
{
	ck_assert_uint_gt(first, ABSENT / 50);
	ck_assert_uint_le(second, first / 200);
}

/* ---- full --------------------------------------------------------------- */

/* The disk is full from before the first write of what was learned until after some tries. */
START_TEST(what_is_learned_after_a_full_disk_is_kept)
{
	static const enum step steps[] = {OPEN, PUT, FILL, PASS_1, DRAIN, DRAIN, MAKE_ROOM,
					  PASS_2, PASS_2, DRAIN, CLOSE, OPEN, PASS_2, CLOSE, END};
	struct life *life = live("after", steps);

	if (!life)
		return;
	ck_assert_uint_eq(life->passes, 4);
	expect_learned(life->wrong[1], life->wrong[2]);
	ck_assert_uint_le(life->wrong[3], life->wrong[2]);
	expect_keys(life);
}
END_TEST

/* The database is closed while there is no room. What it learned then may be lost, but not what it
 * learned before, and nothing later. */
START_TEST(a_full_disk_at_the_end_spoils_nothing)
{
	static const enum step steps[] = {OPEN, PUT, PASS_2, PASS_2, DRAIN, FILL, PASS_1, DRAIN,
					  CLOSE, MAKE_ROOM, OPEN, PASS_2, PASS_1, PASS_1, CLOSE,
					  OPEN, PASS_1, PASS_2, CLOSE, END};
	struct life *life = live("end", steps);

	if (!life)
		return;
	ck_assert_uint_eq(life->passes, 8);
	expect_learned(life->wrong[0], life->wrong[1]);
	ck_assert_uint_le(life->wrong[3], life->wrong[1]);
	ck_assert_uint_le(life->wrong[6], life->wrong[5]);
	ck_assert_uint_le(life->wrong[7], life->wrong[1]);
	expect_keys(life);
}
END_TEST

/* Written by drain, since the process is killed; by close; and after several times. */
START_TEST(what_is_learned_while_a_disk_is_full_is_kept)
{
	static const enum step drained[] = {OPEN, PUT, PASS_2, FILL, PASS_1, DRAIN, PASS_1, PASS_2,
					    DRAIN, MAKE_ROOM, DRAIN, KILL};
	static const enum step closed[] = {OPEN, PUT, PASS_2, FILL, PASS_1, DRAIN, PASS_1, PASS_2,
					   DRAIN, MAKE_ROOM, CLOSE, END};
	static const enum step again[] = {OPEN, PUT, PASS_2, DRAIN, FILL, PASS_1, DRAIN, MAKE_ROOM,
					  FILL, DRAIN, PASS_1, PASS_2, DRAIN, MAKE_ROOM, CLOSE,
					  END};
	static const enum step after[] = {OPEN, PASS_1, PASS_2, CLOSE, END};
	static const enum step *const ways[] = {drained, closed, again};
	static const char *const names[] = {"drained", "closed", "again"};
	uint64_t lost[3] = {0, 0, 0};

	for (unsigned i = 0; i < 3; i++) {
		struct life *life = live(names[i], ways[i]);
		uint64_t left[2];

		if (!life)
			return;
		ck_assert_uint_eq(life->passes, 4);
		expect_learned(life->wrong[0], life->wrong[3]);
		expect_learned(life->wrong[1], life->wrong[2]);
		left[0] = life->wrong[2];
		left[1] = life->wrong[3];
		life->steps = after;
		run_process(take_steps, life);
		print_passes(life);
		for (unsigned pass = 0; pass < 2; pass++)
			if (life->wrong[pass] > left[pass])
				lost[i] += life->wrong[pass] - left[pass];
		expect_keys(life);
	}
	ck_assert_msg(lost[0] + lost[1] + lost[2] == 0,
		      "false positives came back: drained %" PRIu64 ", closed %" PRIu64
		      ", several times %" PRIu64, lost[0], lost[1], lost[2]);
}
END_TEST

/* ---- much ---------------------------------------------------------------- */

/* The false positives of 16 MB of the shortest records there are, of 28 bytes. Few known misses:
 * lessons are meant. Nothing in between may lessen them. */
#define MUCH ((uint64_t)16 << 20)
#define LEAST_RECORD 28

struct much {
	uint64_t stored, absent;
	uint64_t first, second, reopened; /* false positives */
};

static size_t much_key(uint64_t number, uint64_t absent, char *key)
{
	/* Absent keys are long, and follow stored ones. */
	return (size_t)snprintf(key, 400, absent ? "%010" PRIu64 "-%0*" PRIu64 : "%010" PRIu64,
				number, 300, absent);
}

static struct db open_much(void)
{
	struct db db = {.options = leveldb_options_create()};
	struct wn_leveldb_options given = {.filter = "aqf:remainder_bits=2",
					   .learned_bytes = (size_t)512 << 20,
					   .known_misses = 64};

	leveldb_options_set_create_if_missing(db.options, 1);
	leveldb_options_set_compression(db.options, leveldb_no_compression);
	leveldb_options_set_write_buffer_size(db.options, (size_t)16 << 20);
	leveldb_options_set_max_file_size(db.options, (size_t)16 << 20);
	db.level = wn_leveldb_open(db.options, test_path("much"), &given, &db.wn, &db.error);
	expect_no(db.error);
	db.reading = leveldb_readoptions_create();
	db.writing = leveldb_writeoptions_create();
	return db;
}

static uint64_t ask_much(struct db *db, const struct much *much)
{
	uint64_t before = db_stats(db).false_positives;

	for (uint64_t i = 0; i < much->absent; i++) {
		char key[400], *error = NULL;
		size_t size = much_key(i % much->stored, 1 + i / much->stored, key), value_size;

		expect(!wn_leveldb_get(db->wn, db->reading, key, size, &value_size, &error));
		expect_no(error);
		if (i % 100000 == 99999)
			wn_leveldb_drain(db->wn);
	}
	return db_stats(db).false_positives - before;
}

static void expect_stored(struct db *db, const struct much *much)
{
	for (uint64_t i = 0; i < much->stored; i += 7) {
		char key[400], *error = NULL, *value;
		size_t size = much_key(i, 0, key), value_size;

		value = wn_leveldb_get(db->wn, db->reading, key, size, &value_size, &error);
		expect_no(error);
		expect(value);
		leveldb_free(value);
	}
}

static void learn_much(void *given)
{
	struct much *much = given;
	struct db db = open_much();
	char key[400];

	for (uint64_t i = 0; i < much->stored; i++) {
		leveldb_put(db.level, db.writing, key, much_key(i, 0, key), "v", 1, &db.error);
		expect_no(db.error);
	}
	db_compact(&db);
	wn_leveldb_drain(db.wn);
	much->first = ask_much(&db, much);
	much->second = ask_much(&db, much);
	db_close(&db);
}

static void ask_much_again(void *given)
{
	struct much *much = given;
	struct db db = open_much();

	much->reopened = ask_much(&db, much);
	expect_stored(&db, much);
	db_close(&db);
}

START_TEST(more_than_16_megabytes_of_lessons_are_kept)
{
	struct much *much = share_memory(sizeof(*much));

	much->stored = test_is_quick() ? 100000 : 2200000;
	much->absent = test_is_quick() ? 150000 : 4400000;
	run_process(learn_much, much);
	run_process(ask_much_again, much);
	fprintf(stderr, "false positives: %" PRIu64 ", again %" PRIu64 ", reopened %" PRIu64 "\n",
		much->first, much->second, much->reopened);
	if (!test_is_quick())
		ck_assert_uint_gt(much->first * LEAST_RECORD, MUCH);
	/* A bucket with many keys has more that match than a lookup notes. */
	ck_assert_uint_le(much->second, much->first / 1000);
	ck_assert_uint_le(much->reopened, much->second);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_full_disk");
	TCase *tests = tcase_create("leveldb_full_disk");
	int result;

	test_make_top();
	tcase_add_test(tests, what_is_learned_after_a_full_disk_is_kept);
	tcase_add_test(tests, a_full_disk_at_the_end_spoils_nothing);
	tcase_add_test(tests, what_is_learned_while_a_disk_is_full_is_kept);
	tcase_add_test(tests, more_than_16_megabytes_of_lessons_are_kept);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
