/* test_assert.c - invariants and the order of locks, in builds that assert. */
#include <signal.h>
#include <string.h>

#include "base/lock.h"
#include "tests/support/common.h"

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;

START_TEST(locks_in_their_order_are_fine)
{
	wn__lock(&outer, WN__LOCK_JOURNAL);
	wn__lock_to_read(&shared, WN__LOCK_STORE);
	wn__lock(&inner, WN__LOCK_LAST);
	wn__assert_locked(&outer);
	wn__assert_locked(&shared);
	wn__assert_locked(&inner);
	wn__unlock(&outer);
	wn__unlock(&inner);
	wn__lock(&inner, WN__LOCK_CHANGE);
	wn__unlock(&inner);
	wn__unlock_shared(&shared);
	ck_assert(!wn__lock_is_held(&outer));
}
END_TEST

#if WN__ASSERTS

START_TEST(what_is_not_so_aborts)
{
	wn__assert(1 + 1 == 3);
}
END_TEST

START_TEST(a_lock_that_is_not_held_is_noticed)
{
	wn__assert_locked(&outer);
}
END_TEST

static void *hold(void *lock)
{
	wn__lock(lock, WN__LOCK_LEARN);
	return NULL;
}

START_TEST(a_lock_that_another_thread_holds_is_noticed)
{
	pthread_t thread;

	pthread_create(&thread, NULL, hold, &outer);
	pthread_join(thread, NULL);
	wn__assert_locked(&outer);
}
END_TEST

START_TEST(locks_out_of_order_abort)
{
	wn__lock(&inner, WN__LOCK_LAST);
	wn__lock(&outer, WN__LOCK_JOURNAL);
}
END_TEST

START_TEST(two_locks_of_one_level_abort)
{
	wn__lock(&inner, WN__LOCK_LAST);
	wn__lock(&outer, WN__LOCK_LAST);
}
END_TEST

START_TEST(unlocking_what_is_not_held_aborts)
{
	wn__unlock(&outer);
}
END_TEST

static void add_aborts(TCase *tests)
{
	tcase_add_test_raise_signal(tests, what_is_not_so_aborts, SIGABRT);
	tcase_add_test_raise_signal(tests, a_lock_that_is_not_held_is_noticed, SIGABRT);
	tcase_add_test_raise_signal(tests, a_lock_that_another_thread_holds_is_noticed, SIGABRT);
	tcase_add_test_raise_signal(tests, locks_out_of_order_abort, SIGABRT);
	tcase_add_test_raise_signal(tests, two_locks_of_one_level_abort, SIGABRT);
	tcase_add_test_raise_signal(tests, unlocking_what_is_not_held_aborts, SIGABRT);
}

#else

static unsigned calls;

static bool count_call(void)
{
	calls++;
	return false;
}

START_TEST(conditions_are_not_evaluated)
{
	wn__assert(count_call());
	ck_assert_uint_eq(calls, 0);
}
END_TEST

static void add_aborts(TCase *tests)
{
	(void)count_call;
	tcase_add_test(tests, conditions_are_not_evaluated);
}

#endif

int main(void)
{
	Suite *suite = suite_create("assert");
	TCase *tests = tcase_create("assert");

	if (WN__ASSERTS)
		tcase_add_test(tests, locks_in_their_order_are_fine);
	add_aborts(tests);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
