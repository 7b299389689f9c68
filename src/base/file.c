/* file.c - see file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_NOFOLLOW, AT_EACCESS */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "alloc.h"
#include "file.h"

int wn__file_create(int directory, const char *name, int *fdp)
{
	*fdp = -1;
	if (unlinkat(directory, name, 0) < 0 && errno != ENOENT)
		return errno;
	*fdp = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return *fdp < 0 ? errno : 0;
}

static int check_regular(int fd, struct stat *infop)
{
	if (fstat(fd, infop) < 0)
		return errno;
	if (S_ISDIR(infop->st_mode))
		return EISDIR;
	return S_ISREG(infop->st_mode) ? 0 : EINVAL;
}

/* Give the file to the caller, or close it. */
static int hand_out(int fd, int err, int *fdp)
{
	*fdp = err ? -1 : fd;
	if (err && fd >= 0)
		close(fd);
	return err;
}

/* O_NONBLOCK, here and below: a FIFO would wait for somebody at its other end. */
int wn__file_open_read(int directory, const char *name, int *fdp)
{
	struct stat info;
	int fd;

	do {
		fd = openat(directory, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	return hand_out(fd, fd < 0 ? errno : check_regular(fd, &info), fdp);
}

static int check_own(int fd)
{
	struct stat info;
	int err = check_regular(fd, &info);

	return !err && info.st_nlink != 1 ? EMLINK : err;
}

int wn__file_open_own(const char *path, int *fdp)
{
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	return hand_out(fd, fd < 0 ? errno : check_own(fd), fdp);
}

int wn__write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size > 0) {
		ssize_t done = write(fd, at, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		at += done;
		size -= (size_t)done;
	}
	return 0;
}

int wn__read_all(int fd, void *bytes, size_t size, size_t *gotp)
{
	char *at = bytes;

	*gotp = 0;
	while (*gotp < size) {
		ssize_t got = read(fd, at + *gotp, size - *gotp);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno;
		if (got == 0)
			break;
		*gotp += (size_t)got;
	}
	return 0;
}

int wn__pread_all(int fd, void *bytes, size_t size, uint64_t at)
{
	char *to = bytes;

	while (size > 0) {
		ssize_t got = pread(fd, to, size, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : WN_ERR_CORRUPT;
		to += got;
		size -= (size_t)got;
		at += (uint64_t)got;
	}
	return 0;
}

int wn__file_finish(int fd, int err, bool sync)
{
	if (!err && sync && fsync(fd) < 0)
		err = errno;
	if (close(fd) < 0 && !err)
		err = errno;
	return err;
}

/* ---- whole files ------------------------------------------------------- */

int wn__file_read_some(int directory, const char *name, void *bytes, size_t room, size_t *sizep)
{
	int fd, err = wn__file_open_read(directory, name, &fd);

	*sizep = 0;
	if (err)
		return err;
	err = wn__read_all(fd, bytes, room, sizep);
	if (err)
		*sizep = 0;
	close(fd);
	return err;
}

/* A file that became shorter meanwhile is read as it is now. */
static int read_open(int fd, void **bytesp, size_t *sizep)
{
	struct stat info;
	size_t size;
	int err;

	if (fstat(fd, &info) < 0)
		return errno;
	size = (size_t)info.st_size;
	*bytesp = wn__alloc(size);
	if (!*bytesp)
		return ENOMEM;
	err = wn__read_all(fd, *bytesp, size, sizep);
	if (err) {
		free(*bytesp);
		*bytesp = NULL;
		*sizep = 0;
	}
	return err;
}

int wn__file_read(int directory, const char *name, void **bytesp, size_t *sizep)
{
	int fd, err = wn__file_open_read(directory, name, &fd);

	*bytesp = NULL;
	*sizep = 0;
	if (err)
		return err;
	err = read_open(fd, bytesp, sizep);
	close(fd);
	return err;
}

static int write_new(int directory, const char *name, const void *bytes, size_t size)
{
	int fd, err = wn__file_create(directory, name, &fd);

	return err ? err : wn__file_finish(fd, wn__write_all(fd, bytes, size), true);
}

/* The directory that the name is in. */
static int sync_parent(int directory, const char *name)
{
	const char *slash = strrchr(name, '/');
	size_t length = !slash ? 1 : slash == name ? 1 : (size_t)(slash - name);
	char *parent = wn__alloc(length + 1);
	int err;

	if (!parent)
		return ENOMEM;
	memcpy(parent, slash ? name : ".", length);
	parent[length] = '\0';
	err = wn__sync_directory(directory, parent);
	free(parent);
	return err;
}

int wn__file_replace(int directory, const char *name, const char *temporary, const void *bytes,
		     size_t size)
{
	int err = write_new(directory, temporary, bytes, size);

	if (!err && renameat(directory, temporary, directory, name) < 0)
		err = errno;
	if (err) {
		unlinkat(directory, temporary, 0);
		return err;
	}
	return sync_parent(directory, name);
}

/* ---- directories -------------------------------------------------------- */

char *wn__join_path(const char *directory, const char *name)
{
	size_t length = strlen(directory);
	size_t size = length + strlen(name) + 2;
	char *path = wn__alloc(size);

	/* Of the slashes at the end only the root's counts. */
	while (length > 0 && directory[length - 1] == '/')
		length--;
	if (path)
		snprintf(path, size, "%.*s/%s", (int)length, directory, name);
	return path;
}

int wn__sync_directory(int directory, const char *path)
{
	int fd = openat(directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return errno;
	if (fsync(fd) < 0 && errno != EINVAL)
		err = errno;
	close(fd);
	return err;
}

int wn__directory_is_ours(const char *path)
{
	/* Not by making a file: on a full disk that fails, and the directory is ours still. */
	return faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0 ? errno : 0;
}
