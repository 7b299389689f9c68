/* test_reader.c - open filters, asked by key: in every way there is, with one answer. */
#include <string.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "base/sort.h"
#include "learn/lessons.h"
#include "learn/reader.h"
#include "tests/support/common.h"

#define STORED 3000
#define ASKED 20000
#define MAX_SIZE 40

/* In lines, in lines with few bits, in slots, and without fingerprints. */
static const char *const kinds[] = {"aqf", "aqf:bits_per_key=7", "aqf:remainder_bits=5",
				    "sscf:bits_per_key=6"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static struct wn_secret *secret;
static struct wn__registry *registry;

struct opened {
	void *block;
	struct wn__filter_reader *reader;
	struct wn_filter *filter; /* over the same block */
};

struct key {
	unsigned char bytes[MAX_SIZE];
	size_t size;
};

/* Of 1 to 40 bytes, half of them of 9 to 16. Short ones are not many, and may be stored twice. */
static struct key key_of(uint64_t number)
{
	uint64_t random = number + 1;
	struct key key = {.size = number % 2 ? 9 + number / 2 % 8 : 1 + number / 2 % MAX_SIZE};

	for (size_t i = 0; i < key.size; i++)
		key.bytes[i] = (unsigned char)test_random(&random);
	return key;
}

static struct wn_hash hash_of(uint64_t number)
{
	struct key key = key_of(number);

	return wn_hash_key(secret, key.bytes, key.size);
}

/* `without`: a filter of the same keys; what it errs about is told to this one. */
static struct opened build(const char *options, const struct wn_filter *without, bool learns)
{
	struct opened opened;
	struct wn_config *config;
	struct wn_builder *builder;
	size_t size;

	ck_assert_int_eq(wn_config_parse(options, NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	for (uint64_t i = 0; i < STORED; i++)
		expect(wn_builder_add_hash(builder, hash_of(i)) == 0);
	for (uint64_t i = STORED; without && i < ASKED; i++)
		if (wn_filter_query_hash(without, hash_of(i), NULL))
			expect(wn_builder_add_negative(builder, hash_of(i)) == 0);
	ck_assert_int_eq(wn_builder_finish(builder, &opened.block, &size), 0);
	ck_assert_int_eq(wn__filter_reader_open(opened.block, size, secret,
						learns ? registry : NULL, &opened.reader), 0);
	ck_assert_int_eq(wn_filter_open(opened.block, size, WN_CHECK_ALL, secret, &opened.filter,
					NULL), 0);
	ck_assert_ptr_eq(wn__filter_reader_secret(opened.reader), secret);
	ck_assert_ptr_eq(wn__filter_reader_key_secret(opened.reader), secret);
	wn_builder_destroy(builder);
	wn_config_destroy(config);
	return opened;
}

static void drop(struct opened *opened)
{
	wn__filter_reader_close(opened->reader);
	wn_filter_close(opened->filter);
	free(opened->block);
}

/* As a host does. */
static bool ask(const struct wn__filter_reader *reader, const struct key *key, bool *quickp)
{
	bool answer = false;

	*quickp = wn__filter_reader_ask_quickly(reader, key->bytes, key->size, &answer);
	if (*quickp)
		return answer;
	return wn__filter_reader_ask(reader, wn__lookup_hash(secret, key->bytes, key->size));
}

static void begin(struct wn__lookup *lookup, const struct key *key)
{
	wn__lookup_begin(lookup, registry, secret, key->bytes, key->size);
}

static void end(struct wn__lookup *lookup)
{
	wn__current_lookup = lookup->outer;
}

/* The frame notes what the filter itself says of the match, under the whole hash. */
static void expect_noted(const struct opened *opened, const struct wn__lookup *lookup,
			 uint32_t at, struct wn_hash hash, bool learns, bool answer)
{
	struct wn_match match = {0};
	struct wn__lessons *lessons = NULL;
	bool maybe;

	expect(lookup->count == at + (learns && answer));
	if (!learns || !answer)
		return;
	expect(wn__filter_lessons(registry, opened->filter, &lessons) == 0);
	maybe = wn__filter_query_learned(opened->filter, lessons, hash, &match);
	expect(maybe);
	expect(wn_hash_compare(lookup->positives[at].hash, hash) == 0);
	expect(lookup->positives[at].match.minirun == match.minirun);
	expect(lookup->positives[at].match.rank == match.rank);
	expect(lookup->positives[at].match.known == match.known);
	expect(memcmp(lookup->positives[at].list.id, opened->filter->info.id,
		      WN_BLOCK_ID_SIZE) == 0);
	wn__lessons_release(lessons);
}

/* One key: outside of a lookup, in its own lookup three times, and in another's. */
static void ask_in_all_ways(const struct opened *opened, uint64_t number, bool learns,
			    bool expected)
{
	const struct key key = key_of(number);
	const struct wn_hash hash = hash_of(number);
	struct key copy = key, other = key_of(number + 1);
	struct wn__lookup lookup;
	bool quick;

	expect(ask(opened->reader, &key, &quick) == expected);
	expect(quick == (key.size >= 9 && key.size <= 16));
	begin(&lookup, &key);
	for (uint32_t round = 0, noted = 0; round < 3; round++) {
		expect(ask(opened->reader, &copy, &quick) == expected);
		expect(quick == (round > 0 && key.size >= 8 && key.size <= 16));
		expect(lookup.queries == round + 1 && lookup.hashed);
		expect_noted(opened, &lookup, noted, hash, learns, expected);
		noted = lookup.count;
	}
	end(&lookup);
	/* Another key's frame, hashed, and of the same size where that can be. */
	other.size = key.size;
	other.bytes[key.size / 2] = (unsigned char)(key.bytes[key.size / 2] + 1);
	begin(&lookup, &other);
	ask(opened->reader, &other, &quick);
	expect(lookup.hashed);
	lookup.count = 0;
	expect(ask(opened->reader, &key, &quick) == expected && !quick);
	expect_noted(opened, &lookup, 0, hash, learns, expected);
	end(&lookup);
}

/* In one batch, and in one of each size up to that; what is noted is in the keys' order. */
static void ask_in_batches(const struct opened *opened, bool learns)
{
	enum { MOST = 70 };
	struct wn_key given[MOST];
	struct key keys[MOST];
	bool answers[MOST + 1];
	struct wn__lookup lookup;
	uint64_t number = STORED - 100;

	for (size_t count = 0; count <= MOST; count++) {
		uint32_t noted = 0;

		for (size_t i = 0; i < count; i++) {
			keys[i] = key_of(number + i);
			given[i] = (struct wn_key){keys[i].bytes, keys[i].size};
		}
		memset(answers, 2, sizeof(answers));
		wn__lookup_begin(&lookup, registry, secret, NULL, 0);
		wn__filter_reader_ask_batch(opened->reader, given, count, answers);
		end(&lookup);
		expect(lookup.queries == count && ((unsigned char *)answers)[count] == 2);
		for (size_t i = 0; i < count; i++) {
			struct wn_hash hash = hash_of(number + i);

			expect(answers[i] == wn_filter_query_hash(opened->filter, hash, NULL));
			if (!learns || !answers[i])
				continue;
			expect(noted >= WN__LOOKUP_POSITIVES ||
			       wn_hash_compare(lookup.positives[noted].hash, hash) == 0);
			noted++;
		}
		expect(lookup.count == noted);
		number += count;
	}
}

static void expect_one_answer(const struct opened *opened, bool learns)
{
	uint64_t denied = 0;

	for (uint64_t i = 0; i < ASKED; i++) {
		bool expected = wn_filter_query_hash(opened->filter, hash_of(i), NULL);

		expect(expected || i >= STORED);
		ask_in_all_ways(opened, i, learns, expected);
		denied += !expected;
	}
	ck_assert_uint_gt(denied, ASKED / 2);
	ask_in_batches(opened, learns);
}

START_TEST(a_key_has_one_answer_however_it_is_asked_for)
{
	struct opened opened = build(kinds[_i % KINDS], NULL, _i >= KINDS);

	expect_one_answer(&opened, _i >= KINDS);
	drop(&opened);
}
END_TEST

/* What was built against known negatives looks at both halves of a hash. */
START_TEST(filters_with_extensions_are_given_the_whole_hash)
{
	struct opened plain = build(kinds[_i % KINDS], NULL, false);
	struct opened opened = build(kinds[_i % KINDS], plain.filter, _i >= KINDS);
	uint64_t wrong = 0;

	for (uint64_t i = STORED; i < ASKED; i++)
		wrong += wn_filter_query_hash(plain.filter, hash_of(i), NULL);
	/* Short keys are stored, too. */
	ck_assert_uint_gt(wrong, 30);
	expect_one_answer(&opened, _i >= KINDS);
	drop(&plain);
	drop(&opened);
}
END_TEST

/* The stored key that a false positive was about; the hashes are sorted. */
static struct wn_hash stored_at(const struct wn_hash *hashes, const struct wn__shape *shape,
				const struct wn_match *match)
{
	uint32_t rank = 0;

	for (size_t i = 0; i < STORED; i++) {
		if (i && wn_hash_compare(hashes[i - 1], hashes[i]) == 0)
			continue;
		if (wn__hash_minirun(hashes[i], shape->slots, shape->remainder_bits) ==
			    match->minirun &&
		    rank++ == match->rank)
			return hashes[i];
	}
	ck_abort_msg("no stored key is there");
}

/* Learned from in one way, known in all. */
START_TEST(lessons_are_heeded_however_a_key_is_asked_for)
{
	struct opened opened = build(kinds[_i], NULL, true);
	struct wn__lessons *lessons;
	struct wn__shape shape;
	struct wn_hash hashes[STORED];
	struct wn_match match;
	unsigned learned = 0;

	for (size_t i = 0; i < STORED; i++)
		hashes[i] = hash_of(i);
	ck_assert_int_eq(wn__sort_hashes(hashes, STORED), 0);
	ck_assert_int_eq(wn__filter_lessons(registry, opened.filter, &lessons), 0);
	shape = wn__block_shape(&opened.filter->info, opened.filter->kind);
	for (uint64_t i = STORED; i < ASKED && learned < 100; i++) {
		while (wn__filter_query_learned(opened.filter, lessons, hash_of(i), &match)) {
			int err = wn__lessons_learn(lessons,
						    stored_at(hashes, &shape, &match),
						    hash_of(i), &match);

			/* A short key that is stored, too. */
			if (err == WN_ERR_UNFIXABLE)
				break;
			ck_assert_int_eq(err, 0);
			learned++;
		}
	}
	ck_assert_uint_gt(learned, 20);
	for (uint64_t i = 0; i < ASKED; i++) {
		bool expected = wn__filter_query_learned(opened.filter, lessons, hash_of(i), NULL);

		expect(expected || i >= STORED);
		ask_in_all_ways(&opened, i, true, expected);
	}
	wn__lessons_release(lessons);
	drop(&opened);
}
END_TEST

static struct wn_hash asked_with;

static bool deny(const struct wn__asker *asker, const void *key, size_t size)
{
	const struct wn__filter_reader *reader = (const void *)asker;

	asked_with = wn_hash_key(wn__filter_reader_secret(reader), key, size);
	return false;
}

/* A host that hashes keys in its own way sees each of them. */
START_TEST(a_hosts_own_hashes_are_never_passed_by)
{
	struct opened opened = build("aqf", NULL, false);
	const struct key key = key_of(1);
	struct wn__lookup lookup;
	bool answer = true;

	wn__filter_reader_hash_by(opened.reader, deny);
	ck_assert_ptr_null(wn__filter_reader_key_secret(opened.reader));
	ck_assert_ptr_eq(wn__filter_reader_secret(opened.reader), secret);
	ck_assert(wn__filter_reader_ask_quickly(opened.reader, key.bytes, key.size, &answer));
	ck_assert(!answer);
	ck_assert_int_eq(wn_hash_compare(asked_with, hash_of(1)), 0);
	begin(&lookup, &key);
	wn__lookup_hash(secret, key.bytes, key.size);
	ck_assert_uint_eq(lookup.short_size, key.size);
	ck_assert(!wn__filter_reader_ask_quickly(opened.reader, key.bytes, key.size, &answer));
	end(&lookup);
	drop(&opened);
}
END_TEST

/* A filter that is under another secret than the lookup's. */
START_TEST(a_filter_with_its_own_secret_hashes_with_it)
{
	struct wn_secret *ours = secret, *others = test_secret(9);
	struct opened opened;

	secret = others;
	opened = build("aqf", NULL, false);
	for (uint64_t i = 0; i < STORED; i++) {
		const struct key key = key_of(i);
		struct wn__lookup lookup;
		bool quick;

		wn__lookup_begin(&lookup, registry, ours, key.bytes, key.size);
		wn__lookup_hash(ours, key.bytes, key.size);
		expect(ask(opened.reader, &key, &quick) && !quick);
		expect(lookup.queries == 1);
		end(&lookup);
	}
	drop(&opened);
	secret = ours;
	wn_secret_destroy(others);
}
END_TEST

static void set_up(void)
{
	secret = test_secret(1);
	ck_assert_int_eq(wn__registry_create(0, &registry), 0);
}

static void tear_down(void)
{
	wn__registry_destroy(registry);
	wn_secret_destroy(secret);
}

int main(void)
{
	Suite *suite = suite_create("reader");
	TCase *tests = tcase_create("reader");

	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, a_key_has_one_answer_however_it_is_asked_for, 0, 2 * KINDS);
	tcase_add_loop_test(tests, filters_with_extensions_are_given_the_whole_hash, 0, 2 * KINDS);
	/* Those with fingerprints. */
	tcase_add_loop_test(tests, lessons_are_heeded_however_a_key_is_asked_for, 0, 3);
	tcase_add_test(tests, a_hosts_own_hashes_are_never_passed_by);
	tcase_add_test(tests, a_filter_with_its_own_secret_hashes_with_it);
	return test_run(suite);
}
