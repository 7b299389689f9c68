/* test_lessons_interrupted.c - a reader of lessons that is stopped half-way, while others go on.
 *
 * Threads stop each other at a given instruction once in a million lookups. A signal's handler
 * does it at any instruction and as often as one likes: it is the writer here, and the thread
 * that it interrupts the reader, which holds no lock and allocates nothing meanwhile. */
#include <signal.h>
#include <sys/time.h>

#include "tests/support/common.h"
#include "learn/lessons_internal.h"

#define FILTERS 400
#define LESSONS 600 /* of a filter */
#define STEP 100    /* lessons an interruption: pages are split, and taken again */

static struct {
	struct wn__lessons *lessons[FILTERS];
	volatile size_t filter;      /* the one that is read and taught */
	volatile uint64_t count;     /* of its lessons: its miniruns from 0 on */
	volatile uint64_t asked;     /* lookups */
	volatile uint64_t taught_at; /* the lookup that was interrupted last */
	volatile bool failed;
} scene;

static struct wn__tail tail_of(uint64_t minirun, unsigned which)
{
	uint64_t random = 2 * minirun + which;
	uint64_t hi = test_random(&random);

	return (struct wn__tail){hi, test_random(&random)};
}

static int teach(uint64_t minirun)
{
	uint64_t piece = wn__tail_piece(tail_of(minirun, 0), 0);

	return wn__lessons_add(scene.lessons[scene.filter], minirun, wn__lesson_word(0, 0, piece),
			       false);
}

/* One interruption a lookup: a reader gives up after a few, and may. */
static void teach_more(int signal)
{
	(void)signal;
	if (scene.taught_at == scene.asked || scene.filter == FILTERS)
		return;
	scene.taught_at = scene.asked;
	for (unsigned i = 0; i < STEP; i++)
		if (teach(scene.count + i) != 0)
			scene.failed = true;
	scene.count += STEP;
}

static bool ask(uint64_t minirun)
{
	return wn__lessons_refute(scene.lessons[scene.filter], minirun, 0, tail_of(minirun, 1));
}

static void interrupt_every(unsigned microseconds)
{
	struct itimerval interval = {{0, microseconds}, {0, microseconds}};

	ck_assert_int_eq(setitimer(ITIMER_REAL, &interval, NULL), 0);
}

/* A page that was split goes to the pool, and from there mostly back to the same filter, for
 * other lessons. A reader that has had it from before must not take it for its own. */
START_TEST(a_lesson_is_seen_while_pages_are_split)
{
	struct sigaction action = {.sa_handler = teach_more, .sa_flags = SA_RESTART};
	uint64_t random = test_seed("lookups", 1), missed = 0;
	struct wn__registry *registry;

	ck_assert_int_eq(wn__registry_create(0, &registry), 0);
	for (unsigned i = 0; i < FILTERS; i++) {
		unsigned char id[WN_BLOCK_ID_SIZE] = {(unsigned char)i, (unsigned char)(i >> 8)};

		ck_assert_int_eq(wn__registry_acquire(registry, id, (struct wn__shape){LESSONS, 4},
						     &scene.lessons[i]), 0);
		scene.filter = i;
		ck_assert_int_eq(teach(0), 0);
	}
	scene.filter = 0;
	scene.count = 1;
	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	interrupt_every(50);
	while (scene.filter < FILTERS && !missed) {
		missed += !ask(test_random(&random) % scene.count);
		scene.asked++;
		if (scene.count < LESSONS)
			continue;
		/* From here on the handler does nothing until the next lookup. */
		scene.taught_at = scene.asked;
		scene.count = 1;
		scene.filter++;
	}
	interrupt_every(0);
	ck_assert_uint_eq(missed, 0);
	ck_assert(!scene.failed);
	for (unsigned i = 0; i < FILTERS; i++)
		wn__lessons_release(scene.lessons[i]);
	wn__registry_destroy(registry);
}
END_TEST

/* The thread sanitizer holds signals back until the next call that it knows: there is none here,
 * and the tests would wait for ever. */
#if defined(__SANITIZE_THREAD__)
#define HOLDS_SIGNALS_BACK true
#elif defined(__has_feature)
#define HOLDS_SIGNALS_BACK __has_feature(thread_sanitizer)
#else
#define HOLDS_SIGNALS_BACK false
#endif

int main(void)
{
	Suite *suite;
	TCase *tests;

	if (HOLDS_SIGNALS_BACK)
		return 77;
	suite = suite_create("lessons_interrupted");
	tests = tcase_create("interrupted");
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_lesson_is_seen_while_pages_are_split);
	return test_run(suite);
}
