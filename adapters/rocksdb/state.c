/* state.c - see state.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dirfd() and friends */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <winnow/block.h>

#include "alloc.h"
#include "state.h"

#define SUFFIX ".winnow"

char *wn__state_directory(const char *path, const char *given)
{
	const char *name = given ? given : path;
	size_t length = strlen(name);
	char *directory = wn__alloc(length + sizeof(SUFFIX));

	if (!directory)
		return NULL;
	/* "db/" means "db". */
	while (!given && length > 1 && name[length - 1] == '/')
		length--;
	memcpy(directory, name, length);
	memcpy(directory + length, given ? "" : SUFFIX, given ? 1 : sizeof(SUFFIX));
	return directory;
}

/* ---- identity ----------------------------------------------------------- */

/* The bytes of a small file; none if it is not there. */
static size_t read_small(const char *directory, const char *name, char *bytes)
{
	int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = folder >= 0 ? openat(folder, name, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t got = fd >= 0 ? read(fd, bytes, WN__IDENTITY_SIZE) : 0;

	if (fd >= 0)
		close(fd);
	if (folder >= 0)
		close(folder);
	return got > 0 ? (size_t)got : 0;
}

bool wn__state_belongs(const char *directory, const char *path)
{
	char noted[WN__IDENTITY_SIZE], real[WN__IDENTITY_SIZE];
	size_t noted_size = read_small(directory, "identity", noted);
	size_t real_size = read_small(path, "IDENTITY", real);

	return noted_size == real_size && memcmp(noted, real, real_size) == 0;
}

static void note_identity(int folder, const char *bytes, size_t size)
{
	int fd = openat(folder, "identity.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool good;

	if (fd < 0)
		return;
	good = write(fd, bytes, size) == (ssize_t)size && fsync(fd) == 0;
	if (close(fd) != 0 || !good || renameat(folder, "identity.new", folder, "identity") != 0)
		unlinkat(folder, "identity.new", 0);
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return length >= end && strcmp(name + length - end, suffix) == 0;
}

/* A name that winnow gives to its files (doc/formats.md). The user may have named a directory
 * that holds others: these are not winnow's to remove. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {"secret",      "identity",  "identity.new",
					    "journal",     "lessons",   "lessons.new",
					    "negatives",   "negatives.new"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	if (strncmp(name, "run-", 4) == 0)
		return ends_in(name, ".sst");
	return strspn(name, "0123456789abcdef") == 2 * WN_BLOCK_ID_SIZE &&
	       (ends_in(name, ".run") || ends_in(name, ".tmp"));
}

/* Winnow's files but the one to be kept (NULL: none). An errno if one cannot be removed. */
static int remove_files(DIR *stream, const char *kept)
{
	struct dirent *entry;
	int err = 0;

	while ((entry = readdir(stream))) {
		const char *name = entry->d_name;

		if (!is_ours(name) || (kept && strcmp(name, kept) == 0))
			continue;
		if (unlinkat(dirfd(stream), name, 0) != 0 && errno != ENOENT)
			err = errno;
	}
	return err;
}

void wn__state_claim(const char *directory, const char *path)
{
	char real[WN__IDENTITY_SIZE];
	size_t size = read_small(path, "IDENTITY", real);
	DIR *stream;

	if (wn__state_belongs(directory, path))
		return;
	stream = opendir(directory);
	if (!stream)
		return;
	remove_files(stream, "secret");
	note_identity(dirfd(stream), real, size);
	closedir(stream);
}

int wn__state_remove(const char *directory)
{
	DIR *stream = opendir(directory);
	int err;

	if (!stream)
		return errno == ENOENT ? 0 : errno;
	err = remove_files(stream, NULL);
	closedir(stream);
	/* Somebody else's files are in it: then it stays. */
	if (!err && rmdir(directory) != 0 && errno != ENOTEMPTY && errno != EEXIST)
		err = errno;
	return err;
}
