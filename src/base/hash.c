/* hash.c - secrets, and the hashes under them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkostemp() */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <winnow/block.h>
#include <winnow/error.h>
#include <winnow/hash.h>

#include "alloc.h"
#include "file.h"
#include "secret.h"
#include "secret_format.h"

#define TEMPORARY_SUFFIX ".XXXXXX"

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

/* Up to `size` bytes; fewer only at the end of the file. */
static int read_all(int fd, unsigned char *bytes, size_t size, size_t *gotp)
{
	*gotp = 0;
	while (*gotp < size) {
		ssize_t got = read(fd, bytes + *gotp, size - *gotp);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			return errno;
		}
		if (got == 0)
			break;
		*gotp += (size_t)got;
	}
	return 0;
}

/* The directory of `path`, cut off in place. */
static const char *cut_to_directory(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return ".";
	slash[slash == path] = '\0';
	return path;
}

static int sync_directory(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return errno;
	/* EINVAL: a file system that has nothing to sync in a directory. */
	if (fsync(fd) < 0 && errno != EINVAL)
		err = errno;
	close(fd);
	return err;
}

/* mkostemp() makes a new file, with mode 0600 at most. */
static int write_temporary(char *name, const unsigned char *bytes, size_t size)
{
	int fd = mkostemp(name, O_CLOEXEC);
	int err;

	if (fd < 0)
		return errno;
	err = wn__write_all(fd, bytes, size);
	if (!err && fsync(fd) < 0)
		err = errno;
	if (close(fd) < 0 && !err)
		err = errno;
	if (err)
		unlink(name);
	return err;
}

int wn_secret_save(const struct wn_secret *secret, const char *path)
{
	unsigned char file[WN__SECRET_FILE_SIZE];
	size_t size = strlen(path) + sizeof(TEMPORARY_SUFFIX);
	char *name = wn__alloc(size);
	int err;

	if (!name)
		return ENOMEM;
	snprintf(name, size, "%s%s", path, TEMPORARY_SUFFIX);
	wn__secret_file_write(file, secret->seed);
	err = write_temporary(name, file, sizeof(file));
	if (err)
		goto err;
	if (rename(name, path) < 0) {
		err = errno;
		unlink(name);
		goto err;
	}
	err = sync_directory(cut_to_directory(name));
err:
	free(name);
	return err;
}

int wn_secret_load(const char *path, struct wn_secret **secretp)
{
	unsigned char file[WN__SECRET_FILE_SIZE + 1]; /* one more shows a file too long */
	size_t size = 0;
	int fd, err;

	*secretp = NULL;
	err = wn__file_open_read(AT_FDCWD, path, &fd);
	if (err)
		return err;
	err = read_all(fd, file, sizeof(file), &size);
	close(fd);
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
