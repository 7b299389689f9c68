/* test_aqf_slots.c - after every single change a living table is, to the last bit, what the
 * loader of kinds/aqf/bulk.c makes of the same fingerprints in order.
 *
 * Inserts have a short form for what is near, and both forms move slots within words, across
 * words, blocks and regions. Keys are made to fall where that matters: on both sides of a block's
 * or a region's border, at the table's end, in runs and in clusters of all lengths, with
 * extensions and counters among them, in slots of every width. Each change is made either as on
 * a fast CPU or as on others, whichever comes. */
#include "kinds/aqf/aqf_bulk.h"
#include "living/aqf_find.h"
#include "tests/support/aqf_subject.h"

struct place {
	uint64_t capacity;
	uint64_t first;  /* quotient */
	uint64_t spread; /* quotients */
	unsigned keys;   /* at most so many */
};

static const struct place places[] = {
	/* a whole table */
	{.capacity = 150, .first = 0, .spread = 150, .keys = 150},
	/* around a block's border; clusters longer than a block */
	{.capacity = 700, .first = 50, .spread = 30, .keys = 90},
	{.capacity = 700, .first = 120, .spread = 300, .keys = 270},
	/* at the table's end: 640 slots */
	{.capacity = 608, .first = 600, .spread = 40, .keys = 60},
	/* around a region's border; from one region into the next */
	{.capacity = 5000, .first = 4060, .spread = 60, .keys = 90},
	{.capacity = 5000, .first = 3900, .spread = 190, .keys = 330},
};

#define PLACES ((int)(sizeof(places) / sizeof(places[0])))
#define WIDTHS (WN_AQF_MAX_REMAINDER_BITS - WN_AQF_MIN_REMAINDER_BITS + 1)

static struct wn__entry entry_of(const struct subject *subject, const struct shelf_item *item)
{
	const struct wn__table *table = &subject->aqf->table;
	struct wn__fingerprint print = wn__split(item->hash, table->slots);
	wn__u128 behind = ((wn__u128)print.hi << 64 | print.lo) << table->remainder_bits;

	return (struct wn__entry){
		.minirun = item->minirun,
		.extensions = item->extensions,
		.tag = item->tag,
		.count = item->count,
		.hi = (uint64_t)(behind >> 64),
		.lo = (uint64_t)behind,
	};
}

static void check_slots(const struct subject *subject)
{
	const struct wn__table *table = &subject->aqf->table;
	size_t words = table->blocks * table->block_words * 8;
	uint64_t *expected = calloc(words + 8, 1);
	uint8_t *offsets = calloc(table->blocks, 1);
	struct wn__loader loader;

	expect(expected && offsets);
	wn__loader_init(&loader, table, expected, offsets);
	for (size_t at = 0; at < subject->count; at++) {
		struct wn__entry entry = entry_of(subject, &subject->items[at]);

		expect(wn__loader_add(&loader, &entry) == 0);
	}
	wn__loader_end(&loader);
	expect(memcmp(expected, subject->aqf->words, words) == 0);
	expect(memcmp(offsets, subject->aqf->offsets, table->blocks) == 0);
	expect(wn__aqf_fingerprints(subject->aqf) == loader.fingerprints);
	expect(wn__aqf_used(subject->aqf) ==
	       loader.fingerprints + loader.extensions + loader.counters);
	check_unlocked(subject->aqf);
	free(expected);
	free(offsets);
}

/* Which slots hold anything, as the paper has it: every fingerprint as soon after the one before
 * as its quotient allows. */
static void check_empties(const struct subject *subject)
{
	struct wn_aqf *aqf = subject->aqf;
	uint64_t physical = wn__physical_slots(&aqf->table), empty = physical;
	bool *used = calloc(physical, 1);
	uint64_t slot = 0;

	expect(used);
	for (size_t at = 0; at < subject->count; at++) {
		const struct shelf_item *item = &subject->items[at];
		unsigned slots = 1 + item->extensions +
				 wn__counter_digits(item->count, aqf->table.slot_bits);

		if (slot < item->minirun >> aqf->table.remainder_bits)
			slot = item->minirun >> aqf->table.remainder_bits;
		while (slots-- > 0)
			used[slot++] = true;
	}
	for (slot = physical; slot-- > 0; ) {
		uint64_t quotient = slot < aqf->table.slots ? slot : aqf->table.slots - 1;
		struct wn__hold hold = wn__hold_take(aqf, quotient);

		if (!used[slot])
			empty = slot;
		expect(wn__find_empty(&hold, slot) == empty);
		wn__hold_release(&hold);
	}
	free(used);
}

static void insert_one(struct subject *subject, const struct place *place, uint64_t *random)
{
	const struct wn_aqf *aqf = subject->aqf;
	uint64_t quotient = place->first + test_random(random) % place->spread;
	/* Some of a few remainders: miniruns of several. */
	uint64_t remainder = test_random(random) >> test_random(random) % 4 % 2 * 60;
	unsigned tag = (unsigned)test_random(random) & (unsigned)wn__low_bits(aqf->table.tag_bits);

	int err;

	if (quotient >= aqf->table.slots || subject->count >= place->keys)
		return;
	remainder &= wn__low_bits(aqf->table.remainder_bits);
	err = insert_tagged(subject, craft_key(aqf, quotient, remainder, random), tag);
	expect(err == 0 || err == WN_ERR_FULL);
}

static void adapt_one(struct subject *subject, uint64_t *random)
{
	size_t at = (size_t)(test_random(random) % subject->count);
	unsigned bits = subject->aqf->table.remainder_bits;
	/* One extension, mostly; now and then all that a hash has. */
	unsigned reach = test_random(random) % 8 > 0 ? bits : 127 - bits;
	unsigned bit = bits + (unsigned)(test_random(random) % reach);
	int err = adapt_item(subject, at, craft_relative(subject->aqf, subject->items[at].hash, bit,
							 random));

	expect(err == 0 || err == WN_ERR_FULL);
}

static void change_one(struct subject *subject, const struct place *place, bool extras,
		       uint64_t *random)
{
	uint64_t choice = test_random(random) % (extras ? 16 : 14);

	subject->aqf->fast = wn__cpu_is_fast() && test_random(random) % 2;
	if (choice < 11 || subject->count == 0)
		insert_one(subject, place, random);
	else if (choice < 14)
		delete_item(subject, (size_t)(test_random(random) % subject->count));
	else if (choice < 15)
		adapt_one(subject, random);
	else
		raise_counts(subject, 1, random);
}

static struct subject new_place(const struct place *place, int width)
{
	struct wn_aqf_options options = {
		.capacity = place->capacity,
		.remainder_bits = WN_AQF_MIN_REMAINDER_BITS + (unsigned)width,
		.tag_bits = (unsigned)width % 2,
	};

	return create_subject(&options);
}

START_TEST(every_change_leaves_what_the_loader_makes)
{
	const struct place *place = &places[_i / WIDTHS];
	uint64_t seed = test_seed("slots", 71 + (uint64_t)_i), random = seed;
	struct subject subject = new_place(place, _i % WIDTHS);
	int steps = test_is_quick() ? 300 : 1500;

	for (int step = 0; step < steps; step++) {
		/* Where there are extra slots nothing is near. */
		change_one(&subject, place, step > steps / 2, &random);
		check_slots(&subject);
		if (step % 100 == 99)
			check_empties(&subject);
	}
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* Nothing but inserts: most of them are near. */
START_TEST(inserts_alone_leave_what_the_loader_makes)
{
	uint64_t seed = test_seed("inserts", 91 + (uint64_t)_i), random = seed;
	struct wn_aqf_options options = {
		.capacity = 4200, /* two regions */
		.remainder_bits = WN_AQF_MIN_REMAINDER_BITS + (unsigned)_i / 2,
		.tag_bits = (unsigned)_i % 2,
	};
	struct subject subject = create_subject(&options);
	unsigned every = test_is_quick() ? 100 : 10;

	while (subject.count < options.capacity) {
		subject.aqf->fast = wn__cpu_is_fast() && test_random(&random) % 2;
		expect(insert_tagged(&subject, test_random_hash(&random),
				     (unsigned)_i % 2 & (unsigned)random) == 0);
		if (subject.count % every == 0)
			check_slots(&subject);
	}
	check_empties(&subject);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* With 2-bit remainders one fingerprint can have 63 extensions and 32 digits of a counter: more
 * than a block of extra slots. */
START_TEST(more_than_a_block_of_extra_slots_is_passed)
{
	uint64_t random = 5 + (uint64_t)_i;
	struct subject subject = new_subject(700, 2);
	struct wn_hash hash = craft_key(subject.aqf, 70 + (uint64_t)_i, 1, &random);

	expect(insert_item(&subject, hash) == 0);
	expect(adapt_item(&subject, 0, craft_relative(subject.aqf, hash, 127, &random)) == 0);
	expect(count_item(&subject, 0, UINT64_MAX - 1) == 0);
	expect(subject.items[0].extensions > 60);
	check_slots(&subject);
	check_empties(&subject);
	for (int i = 0; i < 150; i++) {
		uint64_t quotient = 60 + test_random(&random) % 80;

		expect(insert_item(&subject, craft_key(subject.aqf, quotient, 1, &random)) == 0);
		check_slots(&subject);
	}
	check_empties(&subject);
	check_subject(&subject);
	end_subject(&subject);
}
END_TEST

/* All quotients of a block are occupied and none of their runs ends in it. */
START_TEST(a_block_in_which_64_runs_are_open_has_no_empty_slot)
{
	uint64_t random = 7;
	struct subject subject = new_subject(700, 9);

	for (uint64_t at = 0; at < 134; at++) {
		uint64_t quotient = 64 + (at < 64 ? at : 0);

		expect(insert_item(&subject, craft_key(subject.aqf, quotient, at, &random)) == 0);
		check_slots(&subject);
		check_empties(&subject);
	}
	end_subject(&subject);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_slots");
	TCase *tests = tcase_create("slots");

	tcase_set_timeout(tests, 600);
	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, every_change_leaves_what_the_loader_makes, 0, PLACES * WIDTHS);
	tcase_add_loop_test(tests, inserts_alone_leave_what_the_loader_makes, 0, 2 * WIDTHS);
	tcase_add_loop_test(tests, more_than_a_block_of_extra_slots_is_passed, 0, 64);
	tcase_add_test(tests, a_block_in_which_64_runs_are_open_has_no_empty_slot);
	return test_run(suite);
}
