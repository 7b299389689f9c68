/* Databases and sidecar directories that do not belong together: restored from backups, moved, or
 * given to two databases. Whatever one state of a database learned, no key of another is denied.
 *
 * The states are sets of keys whose filters have the same bytes (leveldb_twins.h), made in the same
 * order, so that their tables have the same file numbers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/support/leveldb_twins.h"
#include "tests/support/processes.h"
#include "tests/support/trees.h"

enum { A, B, NEITHER };

static unsigned group_count(void)
{
	return test_is_quick() ? 100 : TWIN_GROUPS;
}

/* test_path() has room for one. */
static void remove_path(const char *name)
{
	remove_tree(test_path(name));
}

static void copy_path(const char *from, const char *to)
{
	char source[TREE_PATH];

	keep_path(source, test_path(from));
	copy_tree(source, test_path(to));
}

static void restore_path(const char *backup, const char *to)
{
	remove_path(to);
	copy_path(backup, to);
}

static void move_path(const char *from, const char *to)
{
	char source[TREE_PATH];

	keep_path(source, test_path(from));
	ck_assert_int_eq(rename(source, test_path(to)), 0);
}

static void format_name(char *name, const char *format, const char *first)
{
	expect(snprintf(name, 64, format, first) < 64);
}

/* An empty directory but for the secret, for hashes that are as before. */
static void make_empty(const char *name, const char *secret_of)
{
	char from[64], to[64], source[TREE_PATH];

	format_name(from, "%s/winnow.secret", secret_of);
	format_name(to, "%s/winnow.secret", name);
	ck_assert_int_eq(mkdir(test_path(name), 0700), 0);
	keep_path(source, test_path(from));
	copy_file(source, test_path(to));
}

/* A database that has nothing but its secret. All begin so: file numbers depend on it. */
static void create_database(const struct db_setup *setup)
{
	struct db db = db_open(setup);

	db_close(&db);
}

/* The first one, and the keys for its secret. */
static struct twins *begin(const struct db_setup *setup)
{
	struct twins *twins = calloc(1, sizeof(*twins));

	plant_secret(setup->name, test_seed(setup->name, 1));
	create_database(setup);
	find_twins(setup->name, group_count(), twins);
	return twins;
}

/* One table of a state, and lessons about the twins of the other. */
static void make_state(const struct db_setup *setup, const struct twins *twins, unsigned which)
{
	struct db db = db_open(setup);

	put_twins(&db, twins, which);
	db_compact(&db);
	ck_assert_uint_eq(count_denied_twins(&db, twins, which), 0);
	learn_absent_twins(&db, twins, which == A ? B : A);
	ck_assert_uint_eq(count_denied_twins(&db, twins, which), 0);
	db_close(&db);
}

static void expect_none_denied(struct db *db, const struct twins *twins, unsigned which,
			       const char *when)
{
	unsigned denied = count_denied_twins(db, twins, which);

	ck_assert_msg(denied == 0, "%s: %u stored keys denied, %u of %u are crafted",
		      when, denied, twins->groups, twins->groups * TWIN_MEMBERS);
}

/* The database is in a state, whatever its sidecar says. Then it goes on learning. */
static void check_state(const struct db_setup *setup, const struct twins *twins, unsigned which)
{
	struct db db = db_open(setup);

	expect_none_denied(&db, twins, which, "opened");
	ask_absent_twins(&db, twins, which == A ? B : A);
	ask_absent_twins(&db, twins, NEITHER);
	expect_none_denied(&db, twins, which, "after learning");
	db_reopen(&db);
	expect_none_denied(&db, twins, which, "opened again");
	db_close(&db);
}

/* ---- one sidecar, two databases ------------------------------------------ */

struct sharing {
	struct db_setup setup;
	const char *directory;
};

static bool says_in_use(const char *error)
{
	return strcasestr(error, "in use") || strcasestr(error, "busy") ||
	       strcasestr(error, "lock");
}

static void fail_to_open(void *given)
{
	struct sharing *sharing = given;
	struct db db = db_try_open(&sharing->setup);

	ck_assert_msg(db.level == NULL, "a second database was opened with %s",
		      sharing->directory);
	ck_assert_ptr_nonnull(db.error);
	ck_assert_msg(strstr(db.error, sharing->directory) && says_in_use(db.error),
		      "the message: %s", db.error);
	db_close(&db);
}

/* In another process, and in the same one. */
START_TEST(a_sidecar_in_use_is_refused_to_a_second_database)
{
	char directory[TREE_PATH];
	struct sharing sharing = {.setup = {.name = "second", .sidecar = directory},
				  .directory = directory};
	struct db_setup first = {.name = "first", .sidecar = directory};
	struct signal_pipe go = make_signal();
	struct db db;
	pid_t other;

	keep_path(directory, test_path("shared-at-once"));
	other = fork();
	ck_assert_int_ge(other, 0);
	if (other == 0) {
		await_signal(&go);
		fail_to_open(&sharing);
		_exit(0);
	}
	db = db_open(&first);
	db_put(&db, 0, 4000);
	db_compact(&db);
	give_signal(&go);
	expect(await_process(other));
	fail_to_open(&sharing);
	db_expect_right(&db, 0, 4000);
	db_close(&db);
	/* Then it is free. */
	db = db_open(&sharing.setup);
	db_put(&db, 0, 4000);
	db_expect_right(&db, 0, 4000);
	db_close(&db);
	close_signal(&go);
}
END_TEST

START_TEST(databases_that_take_turns_with_a_sidecar_deny_no_key)
{
	char directory[TREE_PATH];
	struct db_setup setups[] = {twin_setup("turns-a"), twin_setup("turns-b")};
	struct twins *twins;

	keep_path(directory, test_path("turns"));
	setups[A].sidecar = setups[B].sidecar = directory;
	twins = begin(&setups[A]);
	make_empty("turns-b", "turns-a");
	create_database(&setups[B]);
	make_state(&setups[A], twins, A);
	make_state(&setups[B], twins, B);
	for (unsigned round = 0; round < 3; round++) {
		check_state(&setups[A], twins, A);
		check_state(&setups[B], twins, B);
	}
	free(twins);
}
END_TEST

/* ---- restored ------------------------------------------------------------ */

/* PATH is lost and started empty; later its backup is restored. PATH.winnow stays all the time. */
START_TEST(a_backup_restored_over_a_database_started_anew_denies_no_key)
{
	struct db_setup setup = twin_setup("anew");
	struct twins *twins = begin(&setup);

	make_state(&setup, twins, B);
	copy_path("anew", "anew.backup");
	remove_path("anew");
	make_empty("anew", "anew.backup");
	create_database(&setup);
	make_state(&setup, twins, A);
	check_state(&setup, twins, A);
	restore_path("anew.backup", "anew");
	check_state(&setup, twins, B);
	free(twins);
}
END_TEST

START_TEST(backups_restored_in_turns_deny_no_key)
{
	struct db_setup setup = twin_setup("two");
	struct twins *twins = begin(&setup);

	copy_path("two", "two.empty");
	make_state(&setup, twins, A);
	copy_path("two", "two.a");
	restore_path("two.empty", "two");
	make_state(&setup, twins, B);
	copy_path("two", "two.b");
	for (unsigned round = 0; round < 3; round++) {
		restore_path("two.a", "two");
		check_state(&setup, twins, A);
		restore_path("two.b", "two");
		check_state(&setup, twins, B);
	}
	free(twins);
}
END_TEST

/* Of a time when the database was in another state; first under the same file numbers. */
START_TEST(an_older_sidecar_denies_no_key)
{
	struct db_setup setup = twin_setup("older");
	struct twins *twins = begin(&setup);
	struct db db;

	copy_path("older", "older.empty");
	make_state(&setup, twins, A);
	copy_path("older.winnow", "older.monday");
	restore_path("older.empty", "older");
	make_state(&setup, twins, B);
	restore_path("older.monday", "older.winnow");
	check_state(&setup, twins, B);
	/* And with later numbers. */
	restore_path("older.monday", "older.winnow");
	db = db_open(&setup);
	put_twins(&db, twins, B);
	db_compact(&db);
	db_close(&db);
	restore_path("older.monday", "older.winnow");
	check_state(&setup, twins, B);
	free(twins);
}
END_TEST

START_TEST(a_sidecar_of_another_database_denies_no_key)
{
	struct db_setup mine = twin_setup("mine"), other = twin_setup("other");
	struct db_setup stranger = {.name = "stranger"};
	struct twins *twins = begin(&mine);
	struct db db;

	make_empty("other", "mine");
	create_database(&other);
	make_state(&mine, twins, A);
	make_state(&other, twins, B);
	remove_path("mine");
	move_path("other", "mine");
	check_state(&mine, twins, B);
	/* And of one with another secret. */
	db = db_open(&stranger);
	db_put(&db, 0, 10000);
	db_compact(&db);
	db_ask_absent(&db, 0, 10000);
	db_close(&db);
	remove_path("mine");
	move_path("stranger", "mine");
	db = db_open(&mine);
	db_expect_right(&db, 0, 10000);
	db_reopen(&db);
	db_expect_right(&db, 0, 10000);
	db_close(&db);
	free(twins);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_restores");
	TCase *tests = tcase_create("leveldb_restores");
	int result;

	test_make_top();
	tcase_add_test(tests, a_sidecar_in_use_is_refused_to_a_second_database);
	tcase_add_test(tests, databases_that_take_turns_with_a_sidecar_deny_no_key);
	tcase_add_test(tests, a_backup_restored_over_a_database_started_anew_denies_no_key);
	tcase_add_test(tests, backups_restored_in_turns_deny_no_key);
	tcase_add_test(tests, an_older_sidecar_denies_no_key);
	tcase_add_test(tests, a_sidecar_of_another_database_denies_no_key);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
