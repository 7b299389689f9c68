/* test_aqf_keys.c - AdaptiveQFs in lines that are asked for keys: the answers for their hashes. */
#include "base/secret.h"
#include "tests/support/lines_block.h"

/* Few remainders a line, many, and extra bits: a function each. */
static const struct {
	unsigned extra_bits, quotients, keys_per_span;
} layouts[] = {{0, 93, 44045}, {0, 64, 46800}, {2, 80, 36500}};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]), KEYS = 4000, CROWDS = 3, CROWD = 200 };

static void make_key(uint64_t number, unsigned char key[WN__SHORT_MAX], size_t *sizep)
{
	uint64_t random = number;

	*sizep = WN__SHORT_MIN + number % WN__SHORT_SIZES;
	for (size_t i = 0; i < *sizep; i++)
		key[i] = (unsigned char)test_random(&random);
}

static struct wn_hash hash_key(const struct wn_secret *secret, uint64_t number)
{
	unsigned char key[WN__SHORT_MAX];
	size_t size;

	make_key(number, key, &size);
	return wn_hash_key(secret, key, size);
}

/* The keys from 0 on. Around some of them, and around some missing keys, there are so many hashes
 * more that their spans are odd. */
static struct lines_sample make_sample(unsigned layout, bool negatives)
{
	uint64_t random = 1;
	struct wn_secret *secret = test_secret(1); /* as sample_build() makes it */
	struct lines_sample sample = random_sample(KEYS + 2 * CROWDS * CROWD,
						   layouts[layout].extra_bits,
						   layouts[layout].quotients,
						   layouts[layout].keys_per_span, &random);
	size_t count = 0;

	for (; count < KEYS; count++)
		sample.hashes[count] = hash_key(secret, count);
	for (uint64_t crowd = 0; crowd < 2 * CROWDS; crowd++) {
		struct wn_hash middle = hash_key(secret, crowd % 2 ? crowd : KEYS + crowd);

		for (uint64_t i = 0; i < CROWD; i++)
			sample.hashes[count++] =
				(struct wn_hash){middle.hi + (i << 20), test_random(&random)};
	}
	sample.count = sort_distinct(sample.hashes, count);
	if (negatives) {
		sample.negatives = malloc(10 * KEYS * sizeof(*sample.negatives));
		for (uint64_t i = 0; i < 10 * KEYS; i++)
			sample.negatives[i] = hash_key(secret, KEYS + i);
		sample.negative_count = sort_distinct(sample.negatives, 10 * KEYS);
		drop_stored(&sample);
	}
	sample_build(&sample, 7);
	wn_secret_destroy(secret);
	return sample;
}

/* ---- the asker ----------------------------------------------------------- */

struct told {
	struct wn__asker asker;
	bool verdict; /* what maybe() is to say */
	unsigned calls;
	struct wn_hash hash;
	struct wn_match match;
};

static bool be_told(const struct wn__asker *asker, struct wn_hash hash, struct wn_match *match)
{
	struct told *told = (void *)(uintptr_t)asker;

	told->calls++;
	told->hash = hash;
	told->match = *match;
	return told->verdict;
}

/* On "maybe" the asker is told the whole hash and the match, once, and its word is the answer. */
static bool check_key(const struct lines_sample *sample, struct wn__lines_calls calls,
		      uint64_t number)
{
	struct told told = {
		.asker = {&sample->lines, sample->secret, be_told},
		.verdict = number % 3,
	};
	struct wn_hash hash = hash_key(sample->secret, number);
	unsigned char bytes[WN__SHORT_MAX], *key;
	struct wn_match match = {0};
	bool maybe = calls.query(&sample->lines, hash, &match);
	size_t size;

	make_key(number, bytes, &size);
	key = malloc(size);
	memcpy(key, bytes, size);
	expect(calls.ask_short(&told.asker, key, size) == (maybe && told.verdict));
	expect(told.calls == maybe);
	if (maybe) {
		expect(wn_hash_compare(told.hash, hash) == 0);
		expect(told.match.minirun == match.minirun && told.match.rank == match.rank);
		expect(told.match.known && match.known);
	}
	free(key);
	return maybe;
}

/* The same of many keys of any size, with somebody to tell and without. */
static void check_batch(const struct lines_sample *sample, struct wn__lines_calls calls,
			uint64_t number, size_t count)
{
	struct told told = {.asker = {&sample->lines, sample->secret, be_told}};
	const struct wn__asker alone = {&sample->lines, sample->secret, NULL};
	struct wn_key *keys = malloc((count + 1) * sizeof(*keys));
	bool *answers = malloc(count + 1), *others = malloc(count + 1);
	unsigned maybes = 0;

	for (size_t i = 0; i < count; i++) {
		unsigned char bytes[WN__SHORT_MAX];
		size_t size;

		make_key(number + i, bytes, &size);
		/* Some are of other sizes, and then missing. */
		size = i % 7 ? size : i % 9;
		keys[i] = (struct wn_key){malloc(size + 1), size};
		memcpy((void *)(uintptr_t)keys[i].data, bytes, size);
	}
	answers[count] = others[count] = (_Bool)(number & 1);
	told.verdict = number % 2;
	calls.ask_batch(&told.asker, keys, count, answers);
	calls.ask_batch(&alone, keys, count, others);
	expect(answers[count] == (_Bool)(number & 1) && others[count] == answers[count]);
	for (size_t i = 0; i < count; i++) {
		struct wn_hash hash = wn_hash_key(sample->secret, keys[i].data, keys[i].size);
		bool maybe = calls.query(&sample->lines, hash, NULL);

		expect(others[i] == maybe && answers[i] == (maybe && told.verdict));
		maybes += maybe;
		free((void *)(uintptr_t)keys[i].data);
	}
	expect(told.calls == maybes);
	free(keys);
	free(answers);
	free(others);
}

START_TEST(batches_of_keys_are_answered_as_their_hashes)
{
	struct lines_sample sample = make_sample((unsigned)_i / 2, _i % 2);

	for (int path = 0; path < WN__PATHS; path++) {
		struct wn__lines_calls calls =
			wn__lines_calls_of(&sample.lines, (enum wn__lines_path)path);

		if (!calls.query)
			continue;
		for (size_t count = 0; count <= 100; count++)
			check_batch(&sample, calls, KEYS - 60 + count, count);
	}
	sample_free(&sample);
}
END_TEST

START_TEST(keys_are_answered_as_their_hashes)
{
	struct lines_sample sample = make_sample((unsigned)_i / 2, _i % 2);

	ck_assert_uint_ge(sample.lines.odd_spans, 2);
	ck_assert((sample.lines.extended > 0) == _i % 2);
	for (int path = 0; path < WN__PATHS; path++) {
		struct wn__lines_calls calls =
			wn__lines_calls_of(&sample.lines, (enum wn__lines_path)path);
		uint64_t wrong = 0;

		if (!calls.query)
			continue;
		for (uint64_t i = 0; i < KEYS; i++)
			expect(check_key(&sample, calls, i));
		for (uint64_t i = KEYS; i < 20 * KEYS; i++)
			wrong += check_key(&sample, calls, i);
		ck_assert_uint_gt(wrong, 0);
		ck_assert_uint_lt(wrong, KEYS);
	}
	sample_free(&sample);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_keys");
	TCase *tests = tcase_create("keys");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, keys_are_answered_as_their_hashes, 0, 2 * LAYOUTS);
	tcase_add_loop_test(tests, batches_of_keys_are_answered_as_their_hashes, 0, 2 * LAYOUTS);
	return test_run(suite);
}
