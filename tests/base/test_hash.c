/* test_hash.c - secrets, the hashes under them, the secret's file; error names. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp() */
#endif
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/block.h>
#include <winnow/error.h>
#include <winnow/hash.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "tests/support/common.h"

#define FILE_SIZE 56

/* ---- hashes ------------------------------------------------------------- */

static void make_vector_key(unsigned char *key, size_t size)
{
	for (size_t i = 0; i < size; i++)
		key[i] = (unsigned char)(i * 131 + (i >> 8));
}

static struct wn_secret *make_vector_secret(void)
{
	unsigned char seed[WN_SEED_SIZE];
	struct wn_secret *secret;

	for (size_t i = 0; i < sizeof(seed); i++)
		seed[i] = (unsigned char)(i * 7 + 1);
	ck_assert_int_eq(wn_secret_create(seed, &secret), 0);
	return secret;
}

/* Computed with the shared library of xxHash 0.8.1. Blocks on disk depend on
 * these: they never change. */
static const struct {
	size_t size;
	uint64_t hi, lo;
} vectors[] = {
	{ 0, UINT64_C(0x080b7cbad1c61ef7), UINT64_C(0x4f9abb560b64ea0c) },
	{ 1, UINT64_C(0x14bb1cb6d286c802), UINT64_C(0xb87421e3aa8411a6) },
	{ 2, UINT64_C(0x2a5dca9900b78747), UINT64_C(0x85bd0f603693cb29) },
	{ 3, UINT64_C(0x915e9076ef7aafba), UINT64_C(0x14c3563feda4bdbd) },
	{ 4, UINT64_C(0xafc9389c91e1e1cd), UINT64_C(0xdce57ef3560a2967) },
	{ 8, UINT64_C(0x78c139d432c3de6c), UINT64_C(0x79498f4673da9e15) },
	{ 9, UINT64_C(0xfb93f609b518a292), UINT64_C(0xb4f65e5ccf497509) },
	{ 16, UINT64_C(0x611498a47167341a), UINT64_C(0xbfcd8ad509341ea9) },
	{ 17, UINT64_C(0xeee78c09f5a59df0), UINT64_C(0x0eba404b24ca84fe) },
	{ 32, UINT64_C(0x753b5f97696e004f), UINT64_C(0x3c6647777a91d19d) },
	{ 64, UINT64_C(0x7a99232846cb8dd5), UINT64_C(0x70988b0f18618c24) },
	{ 128, UINT64_C(0xec4dd8c550ecbcdc), UINT64_C(0xfd11abd946859010) },
	{ 129, UINT64_C(0xd96817c91a1fb082), UINT64_C(0xd3e264fc8f1a8074) },
	{ 240, UINT64_C(0x0db99dd64520412a), UINT64_C(0xd74db6b5131390eb) },
	{ 241, UINT64_C(0xf6c58b96ab1949c1), UINT64_C(0x7c7ae9e1f8dea3bb) },
	{ 1024, UINT64_C(0x5fa86522f63ccb3a), UINT64_C(0x85b213f78db0efc6) },
	{ 65536, UINT64_C(0x6a9ced77498a027e), UINT64_C(0xfbfc509f1e7bbc64) },
};

START_TEST(hashes_are_those_of_the_test_vectors)
{
	static unsigned char key[65536];
	struct wn_secret *secret = make_vector_secret();

	make_vector_key(key, sizeof(key));
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		struct wn_hash hash = wn_hash_key(secret, key, vectors[i].size);

		ck_assert_uint_eq(hash.hi, vectors[i].hi);
		ck_assert_uint_eq(hash.lo, vectors[i].lo);
	}
	ck_assert_uint_eq(wn_secret_id(secret), 0xae6f56c6);
	wn_secret_destroy(secret);
}
END_TEST

static struct wn_hash hash_by_library(const struct wn_secret *secret, const void *key, size_t size)
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(key, size, secret->bytes, WN__SECRET_SIZE);

	return (struct wn_hash){ .hi = hash.high64, .lo = hash.low64 };
}

static struct wn_secret *random_secret(uint64_t *random)
{
	unsigned char seed[WN_SEED_SIZE];
	struct wn_secret *secret;

	for (size_t i = 0; i < sizeof(seed); i++)
		seed[i] = (unsigned char)test_random(random);
	ck_assert_int_eq(wn_secret_create(seed, &secret), 0);
	return secret;
}

/* Random bytes, but one key in four has none or all of its bits set. */
static void make_random_key(unsigned char *key, size_t size, uint64_t *random)
{
	uint64_t sort = test_random(random) % 8;

	for (size_t i = 0; i < size; i++)
		key[i] = (unsigned char)(sort > 1 ? test_random(random) : 0 - sort);
}

/* A key of memory of its own, so that the sanitizers see a read beyond it. */
static void compare_with_library(const struct wn_secret *secret, size_t size, uint64_t *random)
{
	unsigned char *key = malloc(size ? size : 1);
	struct wn_hash wanted, got;

	make_random_key(key, size, random);
	wanted = hash_by_library(secret, key, size);
	got = wn__hash_key(secret, key, size);
	expect(wn_hash_compare(got, wanted) == 0);
	if (size >= WN__SHORT_MIN && size <= WN__SHORT_MAX) {
		got = wn__hash_short(&secret->words, key, size);
		expect(got.hi == wanted.hi);
		got = wn__hash_finish(&secret->words, got);
	} else {
		got = wn__hash_other(secret, key, size);
	}
	expect(wn_hash_compare(got, wanted) == 0);
	free(key);
}

/* What we write out for short keys is XXH3's, to the bit, under every secret. */
START_TEST(hashes_are_those_of_the_library)
{
	uint64_t random = test_seed("hashes", 1);

	for (unsigned round = 0; round < 1000; round++) {
		struct wn_secret *secret = random_secret(&random);

		for (size_t size = 0; size <= 300; size++)
			compare_with_library(secret, size, &random);
		/* The sizes that are written out, more often. */
		for (size_t i = 0; i < 700; i++)
			compare_with_library(secret, i % 40, &random);
		wn_secret_destroy(secret);
	}
}
END_TEST

/* A word that is wrong is seen: one bit of it changes the hashes of the sizes that it is for. */
START_TEST(every_prepared_word_counts)
{
	struct wn_secret *secret = test_secret(1);
	unsigned char *words = (unsigned char *)&secret->words;
	unsigned char key[WN__SHORT_MAX] = "sixteen bytes...";
	struct wn_hash before[WN__SHORT_MAX + 1];

	for (size_t size = 4; size <= WN__SHORT_MAX; size++)
		before[size] = wn__hash_key(secret, key, size);
	for (size_t bit = 0; bit < 8 * sizeof(secret->words); bit++) {
		unsigned changed = 0;

		words[bit / 8] ^= (unsigned char)(1 << bit % 8);
		for (size_t size = 4; size <= WN__SHORT_MAX; size++)
			changed += wn_hash_compare(wn__hash_key(secret, key, size),
						   before[size]) != 0;
		words[bit / 8] ^= (unsigned char)(1 << bit % 8);
		expect(changed > 0);
	}
	wn_secret_destroy(secret);
}
END_TEST

/* Called a million times, and each ck_assert() is a message to the runner. */
static void assert_differ(struct wn_hash a, struct wn_hash b)
{
	if (a.hi == b.hi || a.lo == b.lo)
		ck_abort_msg("two hashes share 64 bits");
}

START_TEST(every_bit_of_a_key_counts)
{
	struct wn_secret *secret = test_secret(3);
	unsigned char key[300];

	make_vector_key(key, sizeof(key));
	for (size_t size = 1; size <= sizeof(key); size++) {
		struct wn_hash hash = wn_hash_key(secret, key, size);

		for (size_t bit = 0; bit < 8 * size; bit++) {
			key[bit / 8] ^= (unsigned char)(1 << bit % 8);
			assert_differ(hash, wn_hash_key(secret, key, size));
			key[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
	}
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(keys_of_zeros_differ_by_their_length)
{
	static const unsigned char zeros[600];
	struct wn_secret *secret = test_secret(4);
	struct wn_hash hashes[601];

	for (size_t size = 0; size <= sizeof(zeros); size++) {
		hashes[size] = wn_hash_key(secret, zeros, size);
		for (size_t other = 0; other < size; other++)
			assert_differ(hashes[size], hashes[other]);
	}
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(the_empty_key_may_be_a_null_pointer)
{
	struct wn_secret *secret = test_secret(5);

	ck_assert_int_eq(
		wn_hash_compare(wn_hash_key(secret, NULL, 0), wn_hash_key(secret, "x", 0)), 0);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(keys_may_lie_anywhere)
{
	struct wn_secret *secret = test_secret(6);
	unsigned char key[300], moved[308];

	make_vector_key(key, sizeof(key));
	for (size_t shift = 0; shift < 8; shift++) {
		memcpy(moved + shift, key, sizeof(key));
		for (size_t size = 0; size <= sizeof(key); size += 13)
			ck_assert_int_eq(wn_hash_compare(wn_hash_key(secret, key, size),
							 wn_hash_key(secret, moved + shift, size)),
					 0);
	}
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(another_seed_gives_other_hashes_for_every_length)
{
	unsigned char seed[WN_SEED_SIZE] = { 0 }, key[300];
	struct wn_secret *a, *b;

	make_vector_key(key, sizeof(key));
	ck_assert_int_eq(wn_secret_create(seed, &a), 0);
	for (size_t bit = 0; bit < 8 * sizeof(seed); bit += 5) {
		seed[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ck_assert_int_eq(wn_secret_create(seed, &b), 0);
		seed[bit / 8] ^= (unsigned char)(1 << bit % 8);
		for (size_t size = 0; size <= sizeof(key); size++)
			assert_differ(wn_hash_key(a, key, size), wn_hash_key(b, key, size));
		ck_assert_uint_ne(wn_secret_id(a), wn_secret_id(b));
		wn_secret_destroy(b);
	}
	wn_secret_destroy(a);
}
END_TEST

START_TEST(compare_orders_fractions)
{
	struct wn_hash a = { 1, 9 }, b = { 2, 0 }, c = { 2, 1 };

	ck_assert_int_eq(wn_hash_compare(a, b), -1);
	ck_assert_int_eq(wn_hash_compare(b, a), 1);
	ck_assert_int_eq(wn_hash_compare(b, c), -1);
	ck_assert_int_eq(wn_hash_compare(c, b), 1);
	ck_assert_int_eq(wn_hash_compare(c, c), 0);
}
END_TEST

/* ---- secrets ------------------------------------------------------------ */

START_TEST(a_seed_is_kept_and_copied)
{
	unsigned char seed[WN_SEED_SIZE] = "thirty-two bytes of bad entropy";
	unsigned char copy[WN_SEED_SIZE];
	struct wn_secret *secret;

	memcpy(copy, seed, sizeof(seed));
	ck_assert_int_eq(wn_secret_create(seed, &secret), 0);
	memset(seed, 0, sizeof(seed));
	ck_assert_mem_eq(wn_secret_seed(secret), copy, sizeof(copy));
	wn_secret_destroy(secret);
	wn_secret_destroy(NULL);
}
END_TEST

START_TEST(random_secrets_differ)
{
	struct wn_secret *a, *b;

	ck_assert_int_eq(wn_secret_create_random(&a), 0);
	ck_assert_int_eq(wn_secret_create_random(&b), 0);
	ck_assert_mem_ne(wn_secret_seed(a), wn_secret_seed(b), WN_SEED_SIZE);
	assert_differ(wn_hash_key(a, "key", 3), wn_hash_key(b, "key", 3));
	wn_secret_destroy(a);
	wn_secret_destroy(b);
}
END_TEST

START_TEST(without_memory_there_is_no_secret)
{
	struct wn_secret *secret = (void *)1;

	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn_secret_create_random(&secret), ENOMEM);
	ck_assert_ptr_null(secret);
	ck_assert_int_eq(wn_secret_create(NULL, &secret), WN_ERR_INVALID);
}
END_TEST

/* ---- the file ----------------------------------------------------------- */

static char directory[200], path[256];

static void enter_directory(void)
{
	const char *base = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/winnow-XXXXXX", base ? base : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/secret", directory);
}

static void leave_directory(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(directory), 0);
}

static void write_file(const void *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
	ck_assert_int_eq(fclose(file), 0);
}

static void read_file(unsigned char bytes[FILE_SIZE + 1])
{
	FILE *file = fopen(path, "rb");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fread(bytes, 1, FILE_SIZE + 1, file), FILE_SIZE);
	fclose(file);
}

static size_t count_files(void)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	size_t count = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void assert_loads(const struct wn_secret *secret)
{
	struct wn_secret *loaded;

	ck_assert_int_eq(wn_secret_load(path, &loaded), 0);
	ck_assert_mem_eq(wn_secret_seed(loaded), wn_secret_seed(secret), WN_SEED_SIZE);
	ck_assert_int_eq(
		wn_hash_compare(wn_hash_key(loaded, "key", 3), wn_hash_key(secret, "key", 3)), 0);
	wn_secret_destroy(loaded);
}

static void assert_load_fails(int error)
{
	struct wn_secret *loaded = (void *)1;

	ck_assert_int_eq(wn_secret_load(path, &loaded), error);
	ck_assert_ptr_null(loaded);
}

START_TEST(a_saved_secret_comes_back)
{
	struct wn_secret *secret = test_secret(7);
	struct stat status;

	ck_assert_int_eq(wn_secret_save(secret, path), 0);
	assert_loads(secret);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_eq(status.st_mode & 0777, 0600);
	ck_assert_uint_eq(count_files(), 1);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(a_path_without_directory_is_here)
{
	struct wn_secret *secret = test_secret(7);

	ck_assert_int_eq(chdir(directory), 0);
	ck_assert_int_eq(wn_secret_save(secret, "secret"), 0);
	assert_loads(secret);
	ck_assert_uint_eq(count_files(), 1);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(the_file_has_the_documented_bytes)
{
	static const unsigned char expected[16] = { 'W', 'N', 'S', 'E', 'C', 'R', 'E', 'T', 1 };
	static const unsigned char sum[8] = { 0x7e, 0xc6, 0x4f, 0x01, 0x89, 0x8b, 0x65, 0x0e };
	struct wn_secret *secret = test_secret(8);
	unsigned char bytes[FILE_SIZE + 1];

	ck_assert_int_eq(wn_secret_save(secret, path), 0);
	read_file(bytes);
	ck_assert_mem_eq(bytes, expected, sizeof(expected));
	ck_assert_mem_eq(bytes + 16, wn_secret_seed(secret), WN_SEED_SIZE);
	ck_assert_mem_eq(bytes + 48, sum, sizeof(sum));
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(saving_replaces_a_file)
{
	struct wn_secret *old = test_secret(9), *new = test_secret(10);
	struct stat before, after;

	ck_assert_int_eq(wn_secret_save(old, path), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert_int_eq(wn_secret_save(new, path), 0);
	ck_assert_int_eq(stat(path, &after), 0);
	assert_loads(new);
	ck_assert_uint_ne(before.st_ino, after.st_ino);
	ck_assert_int_eq(after.st_mode & 0777, 0600);
	ck_assert_uint_eq(count_files(), 1);
	wn_secret_destroy(old);
	wn_secret_destroy(new);
}
END_TEST

START_TEST(every_flipped_bit_in_the_file_is_noticed)
{
	struct wn_secret *secret = test_secret(11);
	unsigned char bytes[FILE_SIZE + 1];

	ck_assert_int_eq(wn_secret_save(secret, path), 0);
	read_file(bytes);
	for (size_t bit = 0; bit < 8 * FILE_SIZE; bit++) {
		bool version = bit / 8 >= 8 && bit / 8 < 12;

		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		write_file(bytes, FILE_SIZE);
		assert_load_fails(version ? WN_ERR_VERSION : WN_ERR_CORRUPT);
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(a_file_cut_or_grown_is_noticed)
{
	struct wn_secret *secret = test_secret(12);
	unsigned char bytes[FILE_SIZE + 1];

	ck_assert_int_eq(wn_secret_save(secret, path), 0);
	read_file(bytes);
	bytes[FILE_SIZE] = 0;
	for (size_t size = 0; size < FILE_SIZE; size++) {
		write_file(bytes, size);
		assert_load_fails(WN_ERR_CORRUPT);
	}
	write_file(bytes, FILE_SIZE + 1);
	assert_load_fails(WN_ERR_CORRUPT);
	write_file(bytes, FILE_SIZE);
	assert_loads(secret);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(errors_of_the_system_pass_through)
{
	struct wn_secret *secret = test_secret(13);
	char other[300];

	assert_load_fails(ENOENT);
	snprintf(other, sizeof(other), "%s/missing/secret", directory);
	ck_assert_int_eq(wn_secret_save(secret, other), ENOENT);
	/* A directory in the way of rename(): nothing may stay behind. */
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(wn_secret_save(secret, path), EISDIR);
	assert_load_fails(EISDIR);
	ck_assert_uint_eq(count_files(), 1);
	ck_assert_int_eq(rmdir(path), 0);
	wn_secret_destroy(secret);
}
END_TEST

START_TEST(without_memory_the_old_file_stays)
{
	struct wn_secret *old = test_secret(14), *new = test_secret(15);

	ck_assert_int_eq(wn_secret_save(old, path), 0);
	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn_secret_save(new, path), ENOMEM);
	wn__alloc_fail_at(1);
	assert_load_fails(ENOMEM);
	wn__alloc_fail_at(0);
	assert_loads(old);
	wn_secret_destroy(old);
	wn_secret_destroy(new);
}
END_TEST

/* ---- errors ------------------------------------------------------------- */

START_TEST(every_error_has_its_own_name)
{
	for (int a = WN_ERR_STALE; a <= 40; a++) {
		ck_assert_ptr_nonnull(wn_strerror(a));
		ck_assert_uint_gt(strlen(wn_strerror(a)), 3);
		for (int b = WN_ERR_STALE; b < a; b++)
			ck_assert_str_ne(wn_strerror(a), wn_strerror(b));
	}
	ck_assert_str_eq(wn_strerror(ENOMEM), strerror(ENOMEM));
}
END_TEST

START_TEST(unknown_errors_have_a_name_too)
{
	static const int unknown[] = { WN_ERR_STALE - 1, -1000000, INT32_MIN, 1000000, INT32_MAX };

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		ck_assert_str_eq(wn_strerror(unknown[i]), "an unknown error");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hash");
	TCase *hashes = tcase_create("hashes");
	TCase *secrets = tcase_create("secrets");
	TCase *files = tcase_create("files");
	TCase *errors = tcase_create("errors");

	suite_add_tcase(suite, hashes);
	tcase_add_test(hashes, hashes_are_those_of_the_test_vectors);
	tcase_add_test(hashes, hashes_are_those_of_the_library);
	tcase_add_test(hashes, every_prepared_word_counts);
	tcase_add_test(hashes, every_bit_of_a_key_counts);
	tcase_add_test(hashes, keys_of_zeros_differ_by_their_length);
	tcase_add_test(hashes, the_empty_key_may_be_a_null_pointer);
	tcase_add_test(hashes, keys_may_lie_anywhere);
	tcase_add_test(hashes, another_seed_gives_other_hashes_for_every_length);
	tcase_add_test(hashes, compare_orders_fractions);

	suite_add_tcase(suite, secrets);
	tcase_add_test(secrets, a_seed_is_kept_and_copied);
	tcase_add_test(secrets, random_secrets_differ);
	tcase_add_test(secrets, without_memory_there_is_no_secret);

	suite_add_tcase(suite, files);
	tcase_add_checked_fixture(files, enter_directory, leave_directory);
	tcase_add_test(files, a_saved_secret_comes_back);
	tcase_add_test(files, a_path_without_directory_is_here);
	tcase_add_test(files, the_file_has_the_documented_bytes);
	tcase_add_test(files, saving_replaces_a_file);
	tcase_add_test(files, every_flipped_bit_in_the_file_is_noticed);
	tcase_add_test(files, a_file_cut_or_grown_is_noticed);
	tcase_add_test(files, errors_of_the_system_pass_through);
	tcase_add_test(files, without_memory_the_old_file_stays);

	suite_add_tcase(suite, errors);
	tcase_add_test(errors, every_error_has_its_own_name);
	tcase_add_test(errors, unknown_errors_have_a_name_too);
	return test_run(suite);
}
