/* test_lookup.c - the frame of a lookup: its positives, and its key's hash. */
#include <pthread.h>
#include <string.h>

#include "learn/lookup.h"
#include "tests/support/common.h"

/* Told by their addresses. */
static const char databases[2];
static const struct wn__registry *const ours = (const void *)&databases[0];
static const struct wn__registry *const others = (const void *)&databases[1];

static void begin(struct wn__lookup *lookup, const struct wn_secret *secret)
{
	wn__lookup_begin(lookup, ours, secret, NULL, 0);
}

/* As wn__lookup_end() does first. */
static void end(struct wn__lookup *lookup)
{
	wn__current_lookup = lookup->outer;
}

static void note(unsigned n)
{
	struct wn__keylist list = {.key_count = n + 2, .secret_id = n + 3};
	struct wn_match match = {.minirun = n + 1000, .rank = n + 7, .known = true};

	memset(list.id, (int)n, sizeof(list.id));
	wn__lookup_note(ours, &list, (struct wn_hash){n, n + 1}, &match);
	/* Nothing of the caller's is kept. */
	memset(&list, 0xff, sizeof(list));
	memset(&match, 0xff, sizeof(match));
}

static void expect_noted(const struct wn__positive *positive, unsigned n)
{
	for (size_t i = 0; i < WN_BLOCK_ID_SIZE; i++)
		expect(positive->list.id[i] == (unsigned char)n);
	expect(positive->hash.hi == n && positive->hash.lo == n + 1);
	expect(positive->match.minirun == n + 1000 && positive->match.rank == n + 7);
	expect(positive->match.known);
	expect(positive->list.key_count == n + 2 && positive->list.secret_id == n + 3);
}

/* The frame holds the numbers from `first` on. */
static void expect_frame(const struct wn__lookup *lookup, unsigned first, uint32_t count)
{
	expect(lookup->count == count);
	for (unsigned i = 0; i < count && i < WN__LOOKUP_POSITIVES; i++)
		expect_noted(&lookup->positives[i], first + i);
}

START_TEST(outside_a_lookup_nothing_is_noted)
{
	struct wn__lookup lookup;

	note(1);
	begin(&lookup, NULL);
	expect_frame(&lookup, 0, 0);
	note(1);
	end(&lookup);
	note(2);
	expect_frame(&lookup, 1, 1);
	ck_assert_ptr_null(wn__current_lookup);
}
END_TEST

START_TEST(positives_are_kept_in_order)
{
	for (unsigned round = 0; round < 10; round++) {
		struct wn__lookup lookup;

		begin(&lookup, NULL);
		for (unsigned i = 0; i < round; i++)
			note(i + round);
		expect_frame(&lookup, round, round);
		end(&lookup);
	}
}
END_TEST

START_TEST(a_frame_is_bounded_and_says_how_many_there_were)
{
	struct wn__lookup lookup;

	begin(&lookup, NULL);
	for (unsigned i = 0; i < WN__LOOKUP_POSITIVES + 10; i++)
		note(i % 100);
	expect_frame(&lookup, 0, WN__LOOKUP_POSITIVES + 10);
	end(&lookup);
}
END_TEST

START_TEST(nested_lookups_do_not_disturb_each_other)
{
	struct wn__lookup frames[20];

	for (unsigned i = 0; i < 20; i++) {
		begin(&frames[i], NULL);
		note(i);
		note(i + 1);
	}
	for (unsigned i = 20; i-- > 0;) {
		note(i + 2);
		expect_frame(&frames[i], i, 3);
		end(&frames[i]);
	}
	ck_assert_ptr_null(wn__current_lookup);
}
END_TEST

START_TEST(positives_of_another_database_are_not_noted)
{
	struct wn__keylist list = {.key_count = 1};
	struct wn_match match = {.known = true};
	struct wn__lookup lookup;

	begin(&lookup, NULL);
	wn__lookup_note(others, &list, (struct wn_hash){1, 2}, &match);
	expect_frame(&lookup, 0, 0);
	note(3);
	expect_frame(&lookup, 3, 1);
	end(&lookup);
}
END_TEST

START_TEST(a_positive_without_a_place_is_noted_as_such)
{
	struct wn__keylist list = {.key_count = 1};
	struct wn__lookup lookup;

	begin(&lookup, NULL);
	wn__lookup_note(ours, &list, (struct wn_hash){1, 2}, NULL);
	ck_assert_uint_eq(lookup.count, 1);
	ck_assert(!lookup.positives[0].match.known);
	end(&lookup);
}
END_TEST

static void *note_on_a_thread(void *arg)
{
	unsigned first = *(unsigned *)arg;

	for (unsigned round = 0; round < 1000; round++) {
		struct wn__lookup lookup;

		begin(&lookup, NULL);
		for (unsigned i = 0; i < 5; i++)
			note(first + i);
		expect_frame(&lookup, first, 5);
		end(&lookup);
	}
	return NULL;
}

START_TEST(every_thread_has_its_own_frames)
{
	unsigned firsts[4] = {10, 20, 30, 40};
	pthread_t threads[4];
	struct wn__lookup lookup;

	begin(&lookup, NULL);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, note_on_a_thread, &firsts[i]),
				 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	expect_frame(&lookup, 0, 0);
	end(&lookup);
}
END_TEST

/* ---- the hash ----------------------------------------------------------- */

static void expect_hash(const struct wn_secret *secret, const char *key)
{
	struct wn_hash hash = wn__lookup_hash(secret, key, strlen(key));

	expect(wn_hash_compare(hash, wn_hash_key(secret, key, strlen(key))) == 0);
}

/* Whatever the filters are asked for in a lookup, the hash is that of the key. */
START_TEST(the_hash_is_always_the_keys)
{
	struct wn_secret *secret = test_secret(1), *other = test_secret(2);
	struct wn__lookup lookup, inner;
	char key[] = "a key that is asked for", prefix[] = "a key";

	expect_hash(secret, key);
	wn__lookup_begin(&lookup, ours, secret, key, strlen(key));
	ck_assert(!lookup.hashed);
	expect_hash(secret, prefix);
	expect_hash(other, key);
	ck_assert(!lookup.hashed);
	expect_hash(secret, key);
	ck_assert(lookup.hashed);
	for (unsigned round = 0; round < 3; round++) {
		expect_hash(secret, key);
		expect_hash(secret, prefix);
		expect_hash(secret, "a key that is asked f_r");
		expect_hash(other, key);
	}
	wn__lookup_begin(&inner, ours, other, prefix, strlen(prefix));
	expect_hash(secret, key);
	expect_hash(other, prefix);
	end(&inner);
	expect_hash(secret, key);
	end(&lookup);
	expect_hash(secret, key);
	wn_secret_destroy(secret);
	wn_secret_destroy(other);
}
END_TEST

/* A buffer that is used again for another key, as callers' buffers are. */
START_TEST(a_key_in_the_place_of_another_has_its_own_hash)
{
	struct wn_secret *secret = test_secret(3);
	char key[] = "key 0000", copy[] = "key 0000";
	struct wn__lookup lookup;

	wn__lookup_begin(&lookup, ours, secret, key, strlen(key));
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(copy, sizeof(copy), "key %04u", i % 7);
		expect_hash(secret, copy);
	}
	end(&lookup);
	wn_secret_destroy(secret);
}
END_TEST

/* Which of these are hashed anew? What the frame has is made wrong, to see. */
static bool is_frames(const struct wn_secret *secret, const void *key, size_t size)
{
	const struct wn_hash wrong = {1, 2};
	struct wn_hash hash;

	wn__current_lookup->hash = wrong;
	hash = wn__lookup_hash(secret, key, size);
	wn__current_lookup->hash = wn_hash_key(secret, key, size);
	if (wn_hash_compare(hash, wrong) == 0)
		return true;
	expect(wn_hash_compare(hash, wn_hash_key(secret, key, size)) == 0);
	return false;
}

/* The bytes decide, for every size: a copy is the key, and what differs in one bit is not. */
START_TEST(a_key_is_hashed_once_and_only_the_key)
{
	struct wn_secret *secret = test_secret(5), *other = test_secret(6);

	for (size_t size = 0; size <= 70; size++) {
		unsigned char *key = malloc(size + 1), *copy = malloc(size + 1);
		struct wn__lookup lookup, inner;

		memset(key, 'k', size + 1);
		memcpy(copy, key, size + 1);
		wn__lookup_begin(&lookup, ours, secret, key, size);
		expect(!is_frames(secret, copy, size + 1) && !lookup.hashed);
		expect(!is_frames(other, copy, size) && !lookup.hashed);
		expect(!is_frames(secret, copy, size) && lookup.hashed);
		expect(is_frames(secret, copy, size) && is_frames(secret, key, size));
		expect(!is_frames(secret, copy, size + 1));
		expect(!size || !is_frames(secret, copy, size - 1));
		expect(!is_frames(other, copy, size));
		for (size_t bit = 0; bit < 8 * size; bit++) {
			copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
			expect(!is_frames(secret, copy, size));
			copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		/* A frame inside has its own, and the outer one keeps what it has. */
		lookup.hash = wn_hash_key(secret, key, size);
		wn__lookup_begin(&inner, ours, secret, copy, size);
		expect(!is_frames(secret, key, size) && is_frames(secret, key, size));
		end(&inner);
		expect(is_frames(secret, copy, size));
		end(&lookup);
		free(key);
		free(copy);
	}
	wn_secret_destroy(secret);
	wn_secret_destroy(other);
}
END_TEST

/* Hashed when the lookup begins, if the key is short; the answer is the same. */
START_TEST(a_key_hashed_at_the_beginning_is_hashed_once)
{
	struct wn_secret *secret = test_secret(7), *other = test_secret(8);

	for (size_t size = 0; size <= 40; size++) {
		unsigned char key[48], copy[48];
		struct wn__lookup lookup;
		const bool is_short = size >= 9 && size <= 16;

		memset(key, 'k', sizeof(key));
		memcpy(copy, key, sizeof(key));
		wn__lookup_begin(&lookup, ours, secret, key, size);
		wn__lookup_hash_short(&lookup);
		expect(!lookup.hashed);
		if (is_short)
			expect(wn_hash_compare(lookup.hash, wn_hash_key(secret, key, size)) == 0);
		expect(is_frames(secret, copy, size) == is_short);
		expect(!is_frames(other, copy, size) && !is_frames(secret, copy, size + 1));
		copy[size / 2] ^= 1;
		expect(!size || !is_frames(secret, copy, size));
		end(&lookup);
	}
	wn_secret_destroy(secret);
	wn_secret_destroy(other);
}
END_TEST

START_TEST(a_batch_hashes_each_key_by_itself)
{
	struct wn_secret *secret = test_secret(4);
	struct wn__lookup lookup;

	begin(&lookup, secret);
	expect_hash(secret, "one");
	expect_hash(secret, "");
	expect_hash(secret, "other");
	ck_assert(!lookup.hashed);
	end(&lookup);
	wn_secret_destroy(secret);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lookup");
	TCase *frames = tcase_create("frames");
	TCase *hashes = tcase_create("hashes");

	suite_add_tcase(suite, frames);
	tcase_add_test(frames, outside_a_lookup_nothing_is_noted);
	tcase_add_test(frames, positives_are_kept_in_order);
	tcase_add_test(frames, a_frame_is_bounded_and_says_how_many_there_were);
	tcase_add_test(frames, nested_lookups_do_not_disturb_each_other);
	tcase_add_test(frames, positives_of_another_database_are_not_noted);
	tcase_add_test(frames, a_positive_without_a_place_is_noted_as_such);
	tcase_add_test(frames, every_thread_has_its_own_frames);
	suite_add_tcase(suite, hashes);
	tcase_add_test(hashes, the_hash_is_always_the_keys);
	tcase_add_test(hashes, a_key_in_the_place_of_another_has_its_own_hash);
	tcase_add_test(hashes, a_key_is_hashed_once_and_only_the_key);
	tcase_add_test(hashes, a_key_hashed_at_the_beginning_is_hashed_once);
	tcase_add_test(hashes, a_batch_hashes_each_key_by_itself);
	return test_run(suite);
}
