/* test_ids.c - things by filter id. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/common.h"
#include "base/ids.h"

#define THINGS 3000

struct thing {
	unsigned char id[WN_BLOCK_ID_SIZE];
	bool there;
};

static struct thing things[THINGS];

/* Ids as filters have them: those of one table begin alike and count up. */
static void make_things(uint64_t *random)
{
	for (unsigned i = 0; i < THINGS; i++) {
		uint64_t prefix = i / 1000, noise = test_random(random);

		memcpy(things[i].id, &prefix, 8);
		for (unsigned k = 0; k < 4; k++)
			things[i].id[8 + k] = (unsigned char)(i % 1000 >> 8 * (3 - k));
		memcpy(things[i].id + 12, &noise, 4);
		things[i].there = false;
	}
}

static void expect_all(const struct wn__ids *ids, size_t count)
{
	size_t place = 0, seen = 0;

	ck_assert_uint_eq(ids->count, count);
	for (unsigned i = 0; i < THINGS; i++)
		expect(wn__ids_find(ids, things[i].id) == (things[i].there ? &things[i] : NULL));
	for (const struct thing *thing; (thing = wn__ids_next(ids, &place)); seen++)
		expect(thing->there);
	ck_assert_uint_eq(seen, count);
}

START_TEST(things_come_and_go)
{
	uint64_t random = test_seed("ids", 4);
	struct wn__ids ids = {0};
	size_t count = 0;

	make_things(&random);
	expect_all(&ids, 0);
	for (unsigned step = 0; step < 20000; step++) {
		struct thing *thing = &things[test_random(&random) % THINGS];

		if (thing->there)
			expect(wn__ids_remove(&ids, thing->id) == thing);
		else
			expect(wn__ids_add(&ids, thing) == 0);
		thing->there = !thing->there;
		count = thing->there ? count + 1 : count - 1;
		if (step % 1000 == 0)
			expect_all(&ids, count);
	}
	expect_all(&ids, count);
	wn__ids_fini(&ids);
}
END_TEST

START_TEST(what_is_not_there_is_not_removed)
{
	uint64_t random = 1;
	struct wn__ids ids = {0};

	make_things(&random);
	ck_assert_ptr_null(wn__ids_remove(&ids, things[0].id));
	ck_assert_int_eq(wn__ids_add(&ids, &things[0]), 0);
	ck_assert_ptr_null(wn__ids_remove(&ids, things[1].id));
	ck_assert_uint_eq(ids.count, 1);
	wn__ids_fini(&ids);
}
END_TEST

/* A table's filters count up: their ids' hashes must be as good as random ones, or a table of
 * 10,000 partitions is one chain. */
START_TEST(ids_of_one_table_are_spread)
{
	static unsigned buckets[1024];
	unsigned fullest = 0;
	uint64_t random = test_seed("spread", 5), prefix = test_random(&random);

	for (uint32_t i = 0; i < 10240; i++) {
		unsigned char id[WN_BLOCK_ID_SIZE] = {0};
		unsigned *bucket;

		memcpy(id, &prefix, 8);
		for (unsigned k = 0; k < 4; k++)
			id[8 + k] = (unsigned char)(i >> 8 * (3 - k));
		bucket = &buckets[wn__id_hash(id) % 1024];
		if (++*bucket > fullest)
			fullest = *bucket;
	}
	ck_assert_uint_lt(fullest, 40);
}
END_TEST

START_TEST(memory_refused_leaves_the_table)
{
	uint64_t random = 2;
	struct wn__ids ids = {0};

	make_things(&random);
	for (unsigned i = 0; i < 100; i++) {
		wn__alloc_fail_at(1);
		if (wn__ids_add(&ids, &things[i])) {
			wn__alloc_fail_at(0);
			ck_assert_uint_eq(ids.count, i);
			ck_assert_int_eq(wn__ids_add(&ids, &things[i]), 0);
		}
		wn__alloc_fail_at(0);
		things[i].there = true;
		expect_all(&ids, i + 1);
	}
	wn__ids_fini(&ids);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ids");
	TCase *tests = tcase_create("ids");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, things_come_and_go);
	tcase_add_test(tests, what_is_not_there_is_not_removed);
	tcase_add_test(tests, ids_of_one_table_are_spread);
	tcase_add_test(tests, memory_refused_leaves_the_table);
	return test_run(suite);
}
