/* Snappy and LZ4, read by hand: streams made by hand, and streams that are none. The
 * engines' own streams are in the suites of winnow-dump. */
#include <errno.h>
#include <string.h>

#include <winnow/error.h>

#include "tests/support/common.h"
#include "tools/sst/decompress.h"

static const struct span nothing;

/* The stream is copied to memory of exactly its size: a step beyond is seen. */
static int unpack(unsigned method, struct span dictionary, const char *stream, size_t size,
		  unsigned char **originalp, size_t *original_sizep)
{
	unsigned char *copy = malloc(size ? size : 1);
	int err;

	expect(copy);
	memcpy(copy, stream, size);
	err = decompress(method, SIZE_IN_FRONT, dictionary, (struct span){copy, size}, originalp,
			 original_sizep);
	free(copy);
	return err;
}

static void check(unsigned method, struct span dictionary, const char *stream, size_t size,
		  const char *wanted)
{
	unsigned char *original;
	size_t original_size;

	ck_assert_int_eq(unpack(method, dictionary, stream, size, &original, &original_size), 0);
	ck_assert_uint_eq(original_size, strlen(wanted));
	ck_assert_mem_eq(original, wanted, original_size);
	free(original);
	/* Cut anywhere, it is no stream any more. */
	for (size_t cut = 0; cut < size; cut++) {
		int err = unpack(method, dictionary, stream, cut, &original, &original_size);

		expect(err == WN_ERR_CORRUPT && original == NULL);
	}
}

static void refuse(unsigned method, const char *stream, size_t size)
{
	unsigned char *original;
	size_t original_size;

	ck_assert_int_eq(unpack(method, nothing, stream, size, &original, &original_size),
			 WN_ERR_CORRUPT);
	ck_assert_ptr_null(original);
}

#define STREAM(text) text, sizeof(text) - 1

START_TEST(snappy_streams)
{
	char stream[200], wanted[200];

	check(1, nothing, STREAM("\x05\x10hello"), "hello");
	/* A copy of one byte of distance, then of two, then of four. */
	check(1, nothing, STREAM("\x0c\x0c" "abcd\x01\x04\x0e\x08\x00"), "abcdabcdabcd");
	check(1, nothing, STREAM("\x08\x0c" "abcd\x0f\x04\x00\x00\x00"), "abcdabcd");
	/* A copy of what it writes itself. */
	check(1, nothing, STREAM("\x08\x00" "a\x0d\x01"), "aaaaaaaa");
	/* A length in a byte of its own. */
	memcpy(stream, "\x64\xf0\x63", 3);
	memset(stream + 3, 'x', 100);
	memset(wanted, 'x', 100);
	wanted[100] = '\0';
	check(1, nothing, stream, 103, wanted);
}
END_TEST

START_TEST(snappy_that_is_none)
{
	refuse(1, STREAM(""));
	refuse(1, STREAM("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
	refuse(1, STREAM("\x05\x14hello!"));           /* more than was told */
	refuse(1, STREAM("\x06\x10hello"));            /* less */
	refuse(1, STREAM("\x05\x00" "a\x01\x02"));     /* from before the start */
	refuse(1, STREAM("\x05\x00" "a\x01\x00"));     /* from nowhere */
	refuse(1, STREAM("\x01\xfc\xff\xff\xff\xff")); /* a literal of four gigabytes */
	refuse(1, STREAM("\xff\xff\xff\xff\x0f\x00" "a")); /* a few bytes for four gigabytes */
}
END_TEST

START_TEST(lz4_streams)
{
	struct span dictionary = {(const unsigned char *)"dictionary", 10};

	check(4, nothing, STREAM("\x05\x50hello"), "hello");
	check(5, nothing, STREAM("\x0d\x40" "abcd\x04\x00\x50" "hello"), "abcdabcdhello");
	check(4, nothing, STREAM("\x19\x1f" "a\x01\x00\x00\x50" "hello"),
	      "aaaaaaaaaaaaaaaaaaaahello");
	check(4, nothing, STREAM("\x12\xf0\x03" "abcdefghijklmnopqr"), "abcdefghijklmnopqr");
	check(4, dictionary, STREAM("\x0f\x06\x0a\x00\x50-read"), "dictionary-read");
}
END_TEST

START_TEST(lz4_that_is_none)
{
	refuse(4, STREAM(""));
	refuse(4, STREAM("\x05\x60hello!"));
	refuse(4, STREAM("\x06\x50hello"));
	refuse(4, STREAM("\x0d\x40" "abcd\x05\x00\x50" "hello"));
	refuse(4, STREAM("\x0d\x40" "abcd\x00\x00\x50" "hello"));
	refuse(4, STREAM("\x05\xf0\xff\xff\xff\xff\xff"));
}
END_TEST

START_TEST(random_streams_do_no_harm)
{
	uint64_t seed = test_seed("streams", 13);
	unsigned rounds = test_is_quick() ? 20000 : 400000;

	for (unsigned round = 0; round < rounds; round++) {
		char stream[40];
		size_t size = test_random(&seed) % sizeof(stream);
		unsigned char *original;
		size_t original_size;

		for (size_t i = 0; i < size; i++)
			stream[i] = (char)(test_random(&seed) >> test_random(&seed) % 8 & 255);
		if (unpack((unsigned)(test_random(&seed) % 8), nothing, stream, size, &original,
			   &original_size) == 0)
			free(original);
		else
			expect(original == NULL);
	}
}
END_TEST

START_TEST(what_is_not_known_is_said_to_be)
{
	unsigned char *original;
	size_t size;

	ck_assert_int_eq(unpack(COMPRESSION_XPRESS, nothing, "x", 1, &original, &size), ENOTSUP);
	ck_assert_int_eq(unpack(200, nothing, "x", 1, &original, &size), ENOTSUP);
	ck_assert_str_eq(compression_name(COMPRESSION_ZSTD), "Zstandard");
	ck_assert_str_eq(compression_name(200), "unknown");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("decompress");
	TCase *streams = tcase_create("streams");

	tcase_add_test(streams, snappy_streams);
	tcase_add_test(streams, snappy_that_is_none);
	tcase_add_test(streams, lz4_streams);
	tcase_add_test(streams, lz4_that_is_none);
	tcase_add_test(streams, random_streams_do_no_harm);
	tcase_add_test(streams, what_is_not_known_is_said_to_be);
	suite_add_tcase(suite, streams);
	return test_run(suite);
}
