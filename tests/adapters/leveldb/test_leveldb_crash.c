/* test_leveldb_crash.c - databases whose process is killed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/leveldb_db.h"
#include "tests/support/processes.h"

static uint64_t scale(uint64_t full, uint64_t quick)
{
	return test_is_quick() ? quick : full;
}

/* Puts keys and asks until it is killed. It says how far it came through the pipe. */
static void live_until_killed(int out, uint64_t first, uint64_t round)
{
	struct db_setup setup = {.name = "killed"};
	struct db db = db_open(&setup);

	for (uint64_t number = first;; number += 2) {
		db_put_value(&db, number, number);
		expect(write(out, &number, sizeof(number)) == sizeof(number));
		if (db_get(&db, number + 1 - (number * round) % 5000 / 2 * 2) != UINT64_MAX &&
		    number > 10000)
			_exit(3);
		if ((number - first) % 3000 == 2000)
			wn_leveldb_drain(db.wn);
	}
}

/* What is seen of it afterwards. */
struct aftermath {
	uint64_t first, next; /* numbers that must be there; the one that may be */
	uint64_t lessons;
	bool all;
};

static void look_at_the_dead(void *given)
{
	struct aftermath *aftermath = given;
	struct db_setup setup = {.name = "killed"};
	struct db db = db_open(&setup);

	db_expect_right(&db, aftermath->all ? 0 : aftermath->first, aftermath->next);
	/* One more may have been put than was said. */
	if (db_get(&db, aftermath->next) == aftermath->next)
		aftermath->next += 2;
	aftermath->lessons += db_stats(&db).lessons;
	expect(db_stats(&db).readers_refused == 0);
	db_close(&db);
}

/* How many pairs were put. This process opens no database (processes.h). */
static uint64_t put_and_kill(uint64_t first, uint64_t round, uint64_t wanted)
{
	uint64_t done = 0, number;
	int pipes[2], status;
	pid_t child;

	ck_assert_int_eq(pipe(pipes), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		close(pipes[0]);
		live_until_killed(pipes[1], first, round);
	}
	close(pipes[1]);
	while (done < wanted && read(pipes[0], &number, sizeof(number)) == sizeof(number))
		done++;
	kill(child, SIGKILL);
	while (read(pipes[0], &number, sizeof(number)) == sizeof(number))
		done++;
	close(pipes[0]);
	expect(waitpid(child, &status, 0) == child);
	expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return done;
}

START_TEST(kill_9_loses_nothing)
{
	uint64_t rounds = scale(100, 15);
	uint64_t random = test_seed("kill_9_loses_nothing", 12);
	struct aftermath *aftermath = share_memory(sizeof(*aftermath));

	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t wanted = 500 + test_random(&random) % 2500;

		aftermath->first = aftermath->next;
		aftermath->next += 2 * put_and_kill(aftermath->first, round, wanted);
		aftermath->all = round % 5 == 4 || round + 1 == rounds;
		run_process(look_at_the_dead, aftermath);
	}
	/* What was learned before a kill was there after it. */
	ck_assert_uint_gt(aftermath->lessons, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leveldb_crash");
	TCase *tests = tcase_create("leveldb_crash");
	int result;

	test_make_top();
	tcase_add_test(tests, kill_9_loses_nothing);
	suite_add_tcase(suite, tests);
	result = test_run(suite);
	test_remove_top();
	return result;
}
