/* Several processes want one database, and processes are killed: no key is denied, whoever comes
 * next, and no temporary files stay in the sidecar. Each process that opens a database is started
 * by one that does not. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>

#include "tests/support/file_calls.h"
#include "tests/support/leveldb_twins.h"
#include "tests/support/processes.h"
#include "tests/support/trees.h"

enum { A, B, NEITHER };
enum { TRIES = 20 };

static unsigned record_locks;

static void count_record_locks(enum file_call call, const char *path)
{
	if (call == FILE_RECORD_LOCK && strstr(path, "LOCK"))
		record_locks++;
}

/* And are LevelDB's calls seen? */
static void create_database(void *given)
{
	struct db db;

	watch_file_calls = count_record_locks;
	db = db_open(given);
	watch_file_calls = NULL;
	expect(record_locks > 0);
	db_close(&db);
}

/* ---- handing over -------------------------------------------------------- */

/* When the owner of the database ends: before the other one opens it, or while it is about to take
 * a lock, for which it may have to wait until then. */
enum moment { BEFORE, AT_FLOCK, AT_RECORD_LOCK, MOMENTS };

struct handover {
	struct db_setup setup;
	struct twins twins;
	enum moment moment;
	bool killed;
	struct signal_pipe ready, go, ended; /* owner, owner, other */
	unsigned refused;                    /* openings */
	unsigned denied[4];                  /* keys: at once, again, opened again, compacted */
};

static struct handover *handover; /* in the other process, while it opens */

/* The owner makes a table of one state and leaves another one in the log, with the same keys but
 * for the twins; then it ends. */
static void own(void *given)
{
	struct handover *hand = given;
	struct db db = db_open(&hand->setup);

	give_signal(&hand->ready);
	await_signal(&hand->go);
	put_twins(&db, &hand->twins, A);
	db_compact(&db);
	ask_absent_twins(&db, &hand->twins, NEITHER);
	put_twins(&db, &hand->twins, B);
	wn_leveldb_drain(db.wn);
	if (hand->killed)
		raise(SIGKILL);
	db_close(&db);
}

static void let_owner_end(enum file_call call, const char *path)
{
	struct handover *hand = handover;
	enum file_call awaited = hand->moment == AT_FLOCK ? FILE_FLOCK : FILE_RECORD_LOCK;

	(void)path;
	if (call != awaited)
		return;
	watch_file_calls = NULL;
	give_signal(&hand->go);
	await_signal(&hand->ended);
}

static unsigned count_denied(struct db *db, const struct twins *twins)
{
	return count_denied_twins(db, twins, A) + count_denied_twins(db, twins, B);
}

static void refuse(struct handover *hand)
{
	struct db db = db_try_open(&hand->setup);

	ck_assert_msg(db.level == NULL, "the database was opened twice");
	ck_assert_ptr_nonnull(db.error);
	db_close(&db);
	hand->refused++;
}

/* The database, once the owner has ended. */
static struct db take_over(struct handover *hand)
{
	struct db db;

	if (hand->moment != BEFORE) {
		handover = hand;
		watch_file_calls = let_owner_end;
		db = db_try_open(&hand->setup);
		if (!watch_file_calls && db.level) /* in spite of that */
			return db;
		hand->refused++;
		db_close(&db);
		if (!watch_file_calls) /* refused, although the owner has ended meanwhile */
			return db_open(&hand->setup);
		watch_file_calls = NULL;
	}
	for (unsigned i = 0; i < TRIES; i++)
		refuse(hand);
	give_signal(&hand->go);
	await_signal(&hand->ended);
	return db_open(&hand->setup);
}

static void wait_for_it(void *given)
{
	struct handover *hand = given;
	struct db db = take_over(hand);

	hand->denied[0] = count_denied(&db, &hand->twins);
	ask_absent_twins(&db, &hand->twins, NEITHER);
	hand->denied[1] = count_denied(&db, &hand->twins);
	db_reopen(&db);
	hand->denied[2] = count_denied(&db, &hand->twins);
	db_compact(&db);
	hand->denied[3] = count_denied(&db, &hand->twins);
	db_close(&db);
}

static void hand_over(struct handover *hand)
{
	pid_t owner, other;

	run_process(create_database, &hand->setup);
	find_twins(hand->setup.name, hand->twins.groups, &hand->twins);
	hand->ready = make_signal();
	hand->go = make_signal();
	hand->ended = make_signal();
	owner = start_process(own, hand);
	await_signal(&hand->ready);
	other = start_process(wait_for_it, hand);
	expect(await_process(owner) == !hand->killed);
	give_signal(&hand->ended);
	expect(await_process(other));
	close_signal(&hand->ready);
	close_signal(&hand->go);
	close_signal(&hand->ended);
}

START_TEST(whoever_comes_after_a_process_that_just_ended_denies_no_key)
{
	static const char *const moments[] = {"before", "at flock()", "at LevelDB's lock"};
	uint64_t seed = test_seed("whoever_comes_after_a_process_that_just_ended_denies_no_key", 2);
	struct handover *hand = share_memory(sizeof(*hand));
	unsigned denied = 0;

	for (unsigned round = 0; round < (test_is_quick() ? 6 : 24); round++) {
		char name[32];

		snprintf(name, sizeof(name), "handed-%u", round);
		*hand = (struct handover){.setup = twin_setup(name),
					  .twins.groups = 100,
					  .moment = round % MOMENTS,
					  .killed = round / MOMENTS % 2};
		plant_secret(name, seed + round);
		hand_over(hand);
		for (unsigned i = 0; i < 4; i++)
			denied += hand->denied[i];
		fprintf(stderr, "%s, %s: refused %u times; denied %u, %u, %u, %u of %u\n",
			moments[hand->moment], hand->killed ? "killed" : "closed", hand->refused,
			hand->denied[0], hand->denied[1], hand->denied[2], hand->denied[3],
			hand->twins.groups * (TWIN_MEMBERS + 1));
	}
	ck_assert_uint_eq(denied, 0);
}
END_TEST

/* ---- refused ------------------------------------------------------------- */

static void try_often(void *given)
{
	struct handover *hand = given;

	for (unsigned i = 0; i < TRIES; i++)
		refuse(hand);
}

/* Learns before the others come, and after. */
static void learn_on(void *given)
{
	struct handover *hand = given;
	struct db db = db_open(&hand->setup);

	put_twins(&db, &hand->twins, A);
	db_compact(&db);
	learn_absent_twins(&db, &hand->twins, B);
	wn_leveldb_drain(db.wn);
	give_signal(&hand->ready);
	await_signal(&hand->go);
	hand->denied[0] = count_denied_twins(&db, &hand->twins, A);
	hand->denied[1] = ask_absent_twins(&db, &hand->twins, B);
	ask_absent_twins(&db, &hand->twins, NEITHER);
	db_close(&db);
}

static void find_all(void *given)
{
	struct handover *hand = given;
	struct db db = db_open(&hand->setup);

	hand->denied[2] = count_denied_twins(&db, &hand->twins, A);
	hand->denied[3] = ask_absent_twins(&db, &hand->twins, B) +
			  ask_absent_twins(&db, &hand->twins, NEITHER);
	db_close(&db);
}

START_TEST(refused_openings_do_no_harm)
{
	struct handover *hand = share_memory(sizeof(*hand));
	pid_t owner;

	*hand = (struct handover){.setup = twin_setup("refused"), .twins.groups = 100};
	plant_secret("refused", test_seed("refused_openings_do_no_harm", 3));
	run_process(create_database, &hand->setup);
	find_twins("refused", hand->twins.groups, &hand->twins);
	hand->ready = make_signal();
	hand->go = make_signal();
	owner = start_process(learn_on, hand);
	await_signal(&hand->ready);
	run_process(try_often, hand);
	give_signal(&hand->go);
	expect(await_process(owner));
	run_process(find_all, hand);
	ck_assert_uint_eq(hand->refused, TRIES);
	ck_assert_uint_eq(hand->denied[0] + hand->denied[2], 0); /* keys */
	ck_assert_uint_eq(hand->denied[1] + hand->denied[3], 0); /* lessons lost */
}
END_TEST

/* ---- killed -------------------------------------------------------------- */

#define KILL_KEYS ((uint64_t)6000)

struct killing {
	struct db_setup setup;
	char sidecar[TREE_PATH];
	unsigned calls;    /* in the sidecar, until it is killed; 0: it is not */
	bool only_renames; /* are counted: before one there is a whole file with another name */
	uint64_t wrong; /* answers */
};

static struct killing *killing;

static void count_down(enum file_call call, const char *path)
{
	if (killing->only_renames && call != FILE_RENAME)
		return;
	if (strncmp(path, killing->sidecar, strlen(killing->sidecar)) == 0 &&
	    __atomic_sub_fetch(&killing->calls, 1, __ATOMIC_RELAXED) == 0)
		raise(SIGKILL);
}

/* Tables are built, learn, and go. */
static void work_until_killed(void *given)
{
	struct db db = db_open(&((struct killing *)given)->setup);

	killing = given;
	if (killing->calls)
		watch_file_calls = count_down;
	for (unsigned i = 0; i < 3; i++) {
		db_put(&db, 0, KILL_KEYS);
		db_compact(&db);
		db_ask_absent(&db, 0, 500);
		wn_leveldb_drain(db.wn);
	}
	if (killing->calls)
		raise(SIGKILL);
	db_close(&db);
}

static void look_after(void *given)
{
	struct killing *after = given;
	struct db db = db_open(&after->setup);

	for (uint64_t number = 0; number < KILL_KEYS; number++)
		after->wrong += db_get(&db, number) != (number % 2 ? UINT64_MAX : number);
	db_put(&db, 0, KILL_KEYS);
	db_compact(&db);
	db_close(&db);
}

/* A database that was never killed, but written as often, has nearly as much beside it. */
START_TEST(what_killed_processes_left_in_the_sidecar_goes)
{
	uint64_t random = test_seed("what_killed_processes_left_in_the_sidecar_goes", 4);
	unsigned cycles = test_is_quick() ? 40 : 50;
	struct killing *state = share_memory(sizeof(*state));
	struct tree_size usual, left;

	*state = (struct killing){.setup = {.name = "spared", .filter = "aqf:remainder_bits=3"}};
	for (unsigned i = 0; i < cycles; i++)
		run_process(work_until_killed, state);
	run_process(look_after, state);
	usual = measure_tree(test_path("spared.winnow"));

	state->setup.name = "killed";
	keep_path(state->sidecar, test_path("killed.winnow"));
	run_process(work_until_killed, &(struct killing){.setup = state->setup});
	for (unsigned i = 0; i < cycles; i++) {
		state->only_renames = i % 2;
		state->calls = 1 + (unsigned)(test_random(&random) % (i % 2 ? 4 : 40));
		expect(!await_process(start_process(work_until_killed, state)));
	}
	state->calls = 0;
	run_process(look_after, state);
	ck_assert_uint_eq(state->wrong, 0);
	left = measure_tree(test_path("killed.winnow"));
	fprintf(stderr, "killed %u times: %" PRIu64 " files, %" PRIu64 " bytes; never: %" PRIu64
		", %" PRIu64 "\n", cycles, left.entries, left.bytes, usual.entries, usual.bytes);
	ck_assert_uint_le(left.entries, usual.entries + 4);
	ck_assert_uint_le(left.bytes, 2 * usual.bytes + (1 << 20));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_processes");
	TCase *tests = tcase_create("leveldb_processes");
	int result;

	test_make_top();
	tcase_add_test(tests, whoever_comes_after_a_process_that_just_ended_denies_no_key);
	tcase_add_test(tests, refused_openings_do_no_harm);
	tcase_add_test(tests, what_killed_processes_left_in_the_sidecar_goes);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
