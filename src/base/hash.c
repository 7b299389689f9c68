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

struct wn_hash wn_hash(const struct wn_secret *secret, const void *key, size_t size)
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
