/* hash.c - secrets, and the hashes under them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <winnow/block.h>
#include <winnow/error.h>
#include <winnow/hash.h>

#include "alloc.h"
#include "bits.h"
#include "bytes.h"
#include "file.h"
#include "secret.h"
#include "secret_format.h"

/* A point, 16 hexadecimal digits and ".new": the directory beside a database knows what a crash
 * left behind by that (learn/home.h). */
#define TEMPORARY_SUFFIX_SIZE 22

int wn__random(void *bytes, size_t size)
{
	unsigned char *at = bytes;

	while (size) {
		ssize_t got = getrandom(at, size, 0);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			return errno;
		}
		at += got;
		size -= (size_t)got;
	}
	return 0;
}

uint32_t wn__seed_id(const void *seed)
{
	return (uint32_t)XXH3_64bits(seed, WN_SEED_SIZE);
}

int wn_secret_create(const void *seed, struct wn_secret **secretp)
{
	struct wn_secret *secret;

	*secretp = NULL;
	if (!seed)
		return WN_ERR_INVALID;
	secret = wn__alloc_table(sizeof(*secret));
	if (!secret)
		return ENOMEM;
	memcpy(secret->seed, seed, WN_SEED_SIZE);
	secret->id = wn__seed_id(seed);
	/* Fails for a missing or short buffer only. */
	(void)XXH3_generateSecret(secret->bytes, WN__SECRET_SIZE, seed, WN_SEED_SIZE);
	wn__hash_words_init(&secret->words, secret->bytes);
	*secretp = secret;
	return 0;
}

int wn_secret_create_random(struct wn_secret **secretp)
{
	unsigned char seed[WN_SEED_SIZE];
	int err;

	*secretp = NULL;
	err = wn__random(seed, sizeof(seed));
	return err ? err : wn_secret_create(seed, secretp);
}

void wn_secret_destroy(struct wn_secret *secret)
{
	free(secret);
}

const void *wn_secret_seed(const struct wn_secret *secret)
{
	return secret->seed;
}

uint32_t wn_secret_id(const struct wn_secret *secret)
{
	return secret->id;
}

/* ---- hashes ------------------------------------------------------------- */

/* XXH3's constants, and XXH64's, which it uses. */
#define PRIME32_2 UINT64_C(0x85ebca77)
#define PRIME64_1 UINT64_C(0x9e3779b185ebca87)
#define PRIME64_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME64_4 UINT64_C(0x85ebca77c2b2ae63)
#define AVALANCHE UINT64_C(0x165667919e3779f9)
#define MIX_WORD UINT64_C(0x9fb21c651e98df25)

static uint64_t flip_of(const unsigned char *secret, size_t at)
{
	return get_le64(secret + at) ^ get_le64(secret + at + 8);
}

void wn__hash_words_init(struct wn__hash_words *words, const unsigned char *secret)
{
	*words = (struct wn__hash_words){
		.flip_low = flip_of(secret, 32),
		.flip_high = flip_of(secret, 48),
		.prime1 = PRIME64_1,
		.prime2 = PRIME64_2,
		.prime32 = PRIME32_2 - 1,
		.avalanche = AVALANCHE,
		.flip_word = flip_of(secret, 16),
	};
	for (uint64_t size = WN__SHORT_MIN; size <= WN__SHORT_MAX; size++)
		words->lengths[size - WN__SHORT_MIN] = (size - 1) << 54;
}

/* 4 to 8 bytes: one multiplication by an odd number that the size is in. */
static struct wn_hash __attribute__((noinline))
hash_word(const struct wn_secret *secret, const unsigned char *key,
				size_t size)
{
	uint64_t word = get_le32(key) | (uint64_t)get_le32(key + size - 4) << 32;
	wn__u128 product = (wn__u128)(word ^ secret->words.flip_word) * (PRIME64_1 + 4 * size);
	uint64_t hi = (uint64_t)(product >> 64) + 2 * (uint64_t)product;
	uint64_t lo = (uint64_t)product ^ hi >> 3;

	lo = (lo ^ lo >> 35) * MIX_WORD;
	return wn__in_registers((struct wn_hash){wn__avalanche(hi, AVALANCHE), lo ^ lo >> 28});
}

/* The two halves of a product, folded into one. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	wn__u128 product = (wn__u128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* 17 to 32 bytes: the first 16 and the last 16, each folded with words of the secret and combined
 * with the sum of the other. */
static struct wn_hash __attribute__((noinline))
hash_pair(const struct wn_secret *secret, const unsigned char *key,
				size_t size)
{
	const unsigned char *words = secret->bytes, *end = key + size;
	uint64_t a = get_le64(key), b = get_le64(key + 8);
	uint64_t c = get_le64(end - 16), d = get_le64(end - 8);
	uint64_t lo = size * PRIME64_1 + fold(a ^ get_le64(words), b ^ get_le64(words + 8));
	uint64_t hi = fold(c ^ get_le64(words + 16), d ^ get_le64(words + 24));

	struct wn_hash hash;

	lo ^= c + d;
	hi ^= a + b;
	hash = wn__in_registers((struct wn_hash){
		.hi = lo * PRIME64_1 + hi * PRIME64_4 + size * PRIME64_2,
		.lo = lo + hi,
	});
	hash.hi = 0 - wn__avalanche(hash.hi, AVALANCHE);
	hash = wn__in_registers(hash);
	hash.lo = wn__avalanche(hash.lo, AVALANCHE);
	return wn__in_registers(hash);
}

static struct wn_hash __attribute__((noinline))
hash_by_library(const struct wn_secret *secret, const void *key, size_t size)
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(key, size, secret->bytes, WN__SECRET_SIZE);

	return wn__in_registers((struct wn_hash){.hi = hash.high64, .lo = hash.low64});
}

/* The three are not inlined: each saves the registers that it needs itself. */
struct wn_hash wn__hash_other(const struct wn_secret *secret, const void *key, size_t size)
{
	if (size - 4 <= 8 - 4)
		return hash_word(secret, key, size);
	if (size - 17 <= 32 - 17)
		return hash_pair(secret, key, size);
	return hash_by_library(secret, key, size);
}

struct wn_hash wn_hash_key(const struct wn_secret *secret, const void *key, size_t size)
{
	return wn__hash_key(secret, key, size);
}

/* ---- the secret's file -------------------------------------------------- */

int wn_secret_save(const struct wn_secret *secret, const char *path)
{
	unsigned char file[WN__SECRET_FILE_SIZE];
	size_t size = strlen(path) + TEMPORARY_SUFFIX_SIZE;
	char *temporary = wn__alloc(size);
	uint64_t number;
	int err = temporary ? wn__random(&number, sizeof(number)) : ENOMEM;

	if (!err) {
		snprintf(temporary, size, "%s.%016" PRIx64 ".new", path, number);
		wn__secret_file_write(file, secret->seed);
		err = wn__file_replace(AT_FDCWD, path, temporary, file, sizeof(file));
	}
	free(temporary);
	return err;
}

int wn_secret_load(const char *path, struct wn_secret **secretp)
{
	unsigned char file[WN__SECRET_FILE_SIZE + 1]; /* one more shows a file too long */
	size_t size;
	int err = wn__file_read_some(AT_FDCWD, path, file, sizeof(file), &size);

	*secretp = NULL;
	if (err)
		return err;
	if (size < WN__SECRET_FILE_SIZE || !wn__secret_file_has_magic(file))
		return WN_ERR_CORRUPT;
	if (wn__secret_file_version(file) != WN__SECRET_FILE_VERSION)
		return WN_ERR_VERSION;
	if (size != WN__SECRET_FILE_SIZE || !wn__secret_file_is_whole(file))
		return WN_ERR_CORRUPT;
	return wn_secret_create(wn__secret_file_seed(file), secretp);
}
