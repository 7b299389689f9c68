/* test_lessons_threads.c - readers that ask while others teach, drop and save.
 *
 * Threads count what goes wrong; the main thread fails the test. Built with
 * -fsanitize=thread this is also where races would show. */
#include <pthread.h>

#include "tests/support/frozen.h"
#include "base/lock.h"
#include "learn/lessons_internal.h"

#define FILTERS 3
#define READERS 3
#define WORKERS (READERS + 2)
#define MAX_FIXED 20000

struct scene {
	struct frozen_filter frozen[FILTERS];
	struct wn__lessons *lessons[FILTERS];
	struct wn__registry *registry;
	/* Of the first filter: what has been fixed, published by its count. */
	struct wn_hash fixed[MAX_FIXED];
	size_t fixed_count;
	bool stop;
	bool drops; /* the budget is small: what was fixed may come back */
};

struct worker {
	pthread_t thread;
	struct scene *scene;
	uint64_t random;
	uint64_t done;
	const char *wrong;
};

/* One more round, unless it is over. */
static bool goes_on(struct worker *worker)
{
	__atomic_store_n(&worker->done, worker->done + 1, __ATOMIC_RELAXED);
	return !worker->wrong && !__atomic_load_n(&worker->scene->stop, __ATOMIC_RELAXED);
}

static void blame(struct worker *worker, const char *what)
{
	if (!worker->wrong)
		worker->wrong = what;
}

static struct wn_hash any_key(struct worker *worker, const struct frozen_filter *frozen)
{
	return frozen->hashes[test_random(&worker->random) % frozen->count];
}

static void *read_all(void *arg)
{
	struct worker *worker = arg;
	struct scene *scene = worker->scene;

	while (goes_on(worker)) {
		size_t i = worker->done % FILTERS;
		struct frozen_filter *frozen = &scene->frozen[i];
		size_t fixed = __atomic_load_n(&scene->fixed_count, __ATOMIC_ACQUIRE);

		if (!wn__filter_query_learned(frozen->filter, scene->lessons[i],
					      any_key(worker, frozen), NULL))
			blame(worker, "a stored key was denied");
		if (fixed == 0 || scene->drops)
			continue;
		if (wn__filter_query_learned(
			    scene->frozen[0].filter, scene->lessons[0],
			    scene->fixed[test_random(&worker->random) % fixed], NULL))
			blame(worker, "a fixed false positive came back");
	}
	return NULL;
}

/* Readers come and go, as in a small cache. */
static void *open_and_close(void *arg)
{
	struct worker *worker = arg;
	struct scene *scene = worker->scene;

	while (goes_on(worker)) {
		struct frozen_filter *frozen = &scene->frozen[worker->done % FILTERS];
		struct wn__lessons *lessons;

		if (wn__filter_lessons(scene->registry, frozen->filter, &lessons))
			blame(worker, "lessons were not to be had");
		for (int i = 0; i < 20; i++)
			if (!wn__filter_query_learned(frozen->filter, lessons,
						      any_key(worker, frozen), NULL))
				blame(worker, "a stored key was denied");
		wn__lessons_release(lessons);
	}
	return NULL;
}

static void *save_all(void *arg)
{
	struct worker *worker = arg;
	struct scene *scene = worker->scene;

	while (goes_on(worker)) {
		struct wn__registry *copy;
		void *bytes;
		size_t size;

		if (wn__registry_save(scene->registry, &bytes, &size) ||
		    wn__registry_create(0, &copy)) {
			blame(worker, "lessons could not be saved");
			continue;
		}
		if (wn__registry_load(copy, bytes, size))
			blame(worker, "saved lessons could not be loaded");
		free(bytes);
		wn__registry_destroy(copy);
	}
	return NULL;
}

static void teach(struct worker *worker, size_t i)
{
	struct scene *scene = worker->scene;
	struct frozen_filter *frozen = &scene->frozen[i];
	struct wn_hash query = frozen_false_positive(frozen, &worker->random);
	struct wn_match match;

	while (wn__filter_query_learned(frozen->filter, scene->lessons[i], query, &match)) {
		if (wn__lessons_learn(scene->lessons[i],
				     frozen_stored(frozen, &match), query, &match)) {
			blame(worker, "a lesson was refused");
			return;
		}
	}
	if (i > 0 || scene->fixed_count == MAX_FIXED)
		return;
	scene->fixed[scene->fixed_count] = query;
	__atomic_store_n(&scene->fixed_count, scene->fixed_count + 1, __ATOMIC_RELEASE);
}

static void start(struct worker *worker, struct scene *scene, uint64_t random,
		  void *(*work)(void *))
{
	*worker = (struct worker){.scene = scene, .random = random};
	ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void finish(struct worker *worker)
{
	pthread_join(worker->thread, NULL);
	ck_assert_msg(!worker->wrong, "%s", worker->wrong);
}

/* All of them have been at it for a while. */
static bool all_busy(const struct worker *workers)
{
	for (int i = 0; i < WORKERS; i++)
		if (__atomic_load_n(&workers[i].done, __ATOMIC_RELAXED) < 5)
			return false;
	return true;
}

/* Pages have changed hands often enough, if they are to. Which filter is the coldest depends on
 * the readers, so how many lessons that takes does, too. */
static bool have_dropped(const struct scene *scene)
{
	struct wn__registry_stats stats;

	wn__registry_describe(scene->registry, &stats);
	return !scene->drops || stats.dropped_filters > 3;
}

/* The second time with a budget so small that pages go from filter to filter all the
 * time, under the readers' hands. */
START_TEST(readers_are_right_while_filters_learn)
{
	static struct scene scene;
	uint64_t random = test_seed("threads", 100 + (uint64_t)_i);
	struct worker workers[WORKERS];
	struct worker teacher = {.scene = &scene, .random = random + 50};
	unsigned lessons = test_is_quick() ? 3000 : 30000;
	struct wn__registry_stats stats;

	scene.drops = _i;
	ck_assert_int_eq(wn__registry_create(_i ? 60 << 10 : 0, &scene.registry), 0);
	for (int i = 0; i < FILTERS; i++) {
		scene.frozen[i] = frozen_make(5000, 4, &random, NULL, 0);
		ck_assert_int_eq(wn__filter_lessons(scene.registry, scene.frozen[i].filter,
						    &scene.lessons[i]), 0);
	}
	for (unsigned i = 0; i < READERS; i++)
		start(&workers[i], &scene, random + i, read_all);
	start(&workers[READERS], &scene, random + 10, open_and_close);
	start(&workers[READERS + 1], &scene, random + 11, save_all);
	for (unsigned i = 0; !teacher.wrong &&
			     (i < lessons || !all_busy(workers) || !have_dropped(&scene)); i++)
		teach(&teacher, i % FILTERS);
	__atomic_store_n(&scene.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < WORKERS; i++)
		finish(&workers[i]);
	ck_assert_msg(!teacher.wrong, "%s", teacher.wrong);
	wn__registry_describe(scene.registry, &stats);
	ck_assert(have_dropped(&scene));
	if (!_i)
		ck_assert_uint_eq(stats.dropped_filters, 0);
	ck_assert_uint_eq(stats.distrusted, 0);
	for (int i = 0; i < FILTERS; i++) {
		frozen_expect_all_keys(&scene.frozen[i], scene.lessons[i]);
		wn__lessons_release(scene.lessons[i]);
		frozen_destroy(&scene.frozen[i]);
	}
	wn__registry_destroy(scene.registry);
}
END_TEST

/* ---- pages that change hands -------------------------------------------- */

/* Two filters with the same miniruns and other keys in them have one page in turn: a
 * reader that takes the other's page for its own denies a key. */
struct rivals {
	struct wn__registry *registry;
	struct wn__lessons *lessons[2];
	bool stop;
};

#define MINIRUNS 20 /* they fit in one page */

static struct wn__tail tail_of(uint64_t minirun, unsigned which)
{
	uint64_t random = 2 * minirun + which;
	uint64_t hi = test_random(&random);

	return (struct wn__tail){hi, test_random(&random)};
}

static void *ask_rivals(void *arg)
{
	struct rivals *rivals = arg;
	uint64_t random = 1;

	while (!__atomic_load_n(&rivals->stop, __ATOMIC_RELAXED)) {
		uint64_t minirun = test_random(&random) % MINIRUNS;
		unsigned which = test_random(&random) & 1;

		if (wn__lessons_refute(rivals->lessons[which], minirun, 0,
				       tail_of(minirun, which)))
			return arg;
	}
	return NULL;
}

static void teach_rival(struct rivals *rivals, unsigned which)
{
	/* The page that is returned last is the first to be taken. */
	wn__lock(&rivals->registry->lock, WN__LOCK_LAST);
	wn__lessons_clear(rivals->lessons[!which]);
	wn__unlock(&rivals->registry->lock);
	for (uint64_t minirun = 0; minirun < MINIRUNS; minirun++) {
		uint64_t piece = wn__tail_piece(tail_of(minirun, which), 0);

		expect(wn__lessons_add(rivals->lessons[which], minirun,
				       wn__lesson_word(0, 0, piece), false) == 0);
	}
}

START_TEST(a_page_speaks_for_its_owner_only)
{
	struct rivals rivals = {.stop = false};
	unsigned rounds = test_is_quick() ? 30000 : 400000;
	pthread_t readers[READERS];
	void *denied = NULL, *result;

	ck_assert_int_eq(wn__registry_create(0, &rivals.registry), 0);
	for (unsigned i = 0; i < 2; i++) {
		unsigned char id[WN_BLOCK_ID_SIZE] = {(unsigned char)i};

		ck_assert_int_eq(wn__registry_acquire(rivals.registry, id,
						     (struct wn__shape){MINIRUNS, 4},
						     &rivals.lessons[i]), 0);
	}
	for (int i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&readers[i], NULL, ask_rivals, &rivals), 0);
	for (unsigned i = 0; i < rounds; i++)
		teach_rival(&rivals, i & 1);
	__atomic_store_n(&rivals.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < READERS; i++) {
		pthread_join(readers[i], &result);
		denied = result ? result : denied;
	}
	ck_assert_ptr_null(denied);
	for (unsigned i = 0; i < 2; i++)
		wn__lessons_release(rivals.lessons[i]);
	wn__registry_destroy(rivals.registry);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("learned_threads");
	TCase *tests = tcase_create("threads");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, readers_are_right_while_filters_learn, 0, 2);
	tcase_add_test(tests, a_page_speaks_for_its_owner_only);
	return test_run(suite);
}
