/* file.c - see file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_NOFOLLOW, AT_EACCESS */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

int wn__directory_is_ours(const char *path)
{
	/* Not by making a file: on a full disk that fails, and the directory is ours still. */
	return faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0 ? errno : 0;
}
