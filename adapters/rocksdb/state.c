/* state.c - see state.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dirfd() and friends */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/block.h>

#include "base/alloc.h"
#include "base/file.h"
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

/* ---- names -------------------------------------------------------------- */

/* realpath() of a directory that is there, in memory of ours. */
static char *resolve(const char *path)
{
	char *real = realpath(path, NULL);
	char *copy = real ? wn__alloc(strlen(real) + 1) : NULL;

	if (copy)
		strcpy(copy, real);
	free(real);
	return copy;
}

static char *join(const char *directory, const char *name)
{
	size_t size = strlen(directory) + strlen(name) + 2;
	char *path = wn__alloc(size);

	if (path)
		snprintf(path, size, "%s/%s", strcmp(directory, "/") == 0 ? "" : directory, name);
	return path;
}

/* A directory that is not there yet: its parent is resolved, or else taken as it is. `path`
 * does not end in a slash, and is changed. */
static char *resolve_parent(char *path)
{
	char *slash = strrchr(path, '/');
	const char *parent = slash == path ? "/" : slash ? path : ".";
	const char *name = slash ? slash + 1 : path;
	char *real, *joined;

	if (slash)
		*slash = '\0';
	real = resolve(parent);
	joined = join(real ? real : parent, name);
	free(real);
	return joined;
}

char *wn__state_canonical(const char *path)
{
	char *canonical = resolve(path), *copy;
	size_t length = strlen(path);

	if (canonical)
		return canonical;
	copy = wn__alloc(length + 1);
	if (!copy)
		return NULL;
	while (length > 1 && path[length - 1] == '/')
		length--;
	memcpy(copy, path, length);
	copy[length] = '\0';
	canonical = resolve_parent(copy);
	free(copy);
	return canonical;
}

/* ---- the lock ----------------------------------------------------------- */

/* Of the directory itself: a file for it could be removed or damaged like any other. The lock
 * belongs to the open directory, and a child that is forked has that, too: it would keep the
 * lock after this process has died. So a child closes what it inherits. */
struct wn__state_lock {
	int fd;
	struct wn__state_lock *next;
};

static pthread_mutex_t locks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wn__state_lock *locks;

static void before_fork(void)
{
	pthread_mutex_lock(&locks_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&locks_lock);
}

static void close_in_child(void)
{
	for (struct wn__state_lock *lock = locks; lock; lock = lock->next) {
		close(lock->fd);
		lock->fd = -1;
	}
	pthread_mutex_unlock(&locks_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, close_in_child);
}

static int lock_directory(const char *directory, int *fdp)
{
	int err = 0;

	*fdp = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fdp < 0)
		return errno;
	if (flock(*fdp, LOCK_EX | LOCK_NB) != 0) {
		err = errno == EWOULDBLOCK ? EBUSY : errno;
		close(*fdp);
	}
	return err;
}

int wn__state_lock(const char *directory, struct wn__state_lock **lockp)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct wn__state_lock *lock;
	int err;

	*lockp = NULL;
	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return errno;
	lock = wn__alloc(sizeof(*lock));
	if (!lock)
		return ENOMEM;
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&locks_lock);
	err = lock_directory(directory, &lock->fd);
	if (!err) {
		lock->next = locks;
		locks = lock;
	}
	pthread_mutex_unlock(&locks_lock);
	if (err)
		free(lock);
	else
		*lockp = lock;
	return err;
}

void wn__state_unlock(struct wn__state_lock *lock)
{
	struct wn__state_lock **at = &locks;

	if (!lock)
		return;
	pthread_mutex_lock(&locks_lock);
	while (*at != lock)
		at = &(*at)->next;
	*at = lock->next;
	if (lock->fd >= 0)
		close(lock->fd);
	pthread_mutex_unlock(&locks_lock);
	free(lock);
}

/* ---- identity ----------------------------------------------------------- */

/* The bytes of a small file; none if it is not there. */
static size_t read_small(const char *directory, const char *name, char *bytes)
{
	int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t got = 0;
	int fd;

	if (folder >= 0 && wn__file_open_read(folder, name, &fd) == 0) {
		got = read(fd, bytes, WN__IDENTITY_SIZE);
		close(fd);
	}
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

static int write_identity(int fd, const char *bytes, size_t size)
{
	int err = wn__write_all(fd, bytes, size);

	if (!err && fsync(fd) != 0)
		err = errno;
	if (close(fd) != 0 && !err)
		err = errno;
	return err;
}

static int note_identity(int folder, const char *bytes, size_t size)
{
	int fd, err = wn__file_create(folder, "identity.new", &fd);

	if (err)
		return err;
	err = write_identity(fd, bytes, size);
	/* Should there be a directory of that name, and empty, it is in the way. */
	unlinkat(folder, "identity", AT_REMOVEDIR);
	if (!err && renameat(folder, "identity.new", folder, "identity") != 0)
		err = errno;
	if (err)
		unlinkat(folder, "identity.new", 0);
	return err;
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
	static const char *const names[] = {"secret",    "identity",      "identity.new",
					    "journal",   "lessons",       "lessons.new",
					    "negatives", "negatives.new"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	if (strncmp(name, "run-", 4) == 0)
		return ends_in(name, ".sst");
	return strspn(name, "0123456789abcdef") == 2 * WN_BLOCK_ID_SIZE &&
	       (ends_in(name, ".run") || ends_in(name, ".tmp"));
}

/* Winnow's files; `claimed`: but the secret. An errno if one cannot be removed. */
static int remove_files(DIR *stream, bool claimed)
{
	struct dirent *entry;
	int err = 0;

	while ((entry = readdir(stream))) {
		const char *name = entry->d_name;

		if (!is_ours(name))
			continue;
		if (claimed && strcmp(name, "secret") == 0)
			continue;
		/* A directory is nobody's state, and is never read as one. */
		if (unlinkat(dirfd(stream), name, 0) != 0 && errno != ENOENT && errno != EISDIR)
			err = errno;
	}
	return err;
}

int wn__state_claim(const char *directory, const char *path)
{
	char real[WN__IDENTITY_SIZE];
	size_t size = read_small(path, "IDENTITY", real);
	DIR *stream;
	int err;

	if (wn__state_belongs(directory, path))
		return 0;
	stream = opendir(directory);
	if (!stream)
		return errno;
	err = remove_files(stream, true);
	if (!err)
		err = note_identity(dirfd(stream), real, size);
	closedir(stream);
	return err;
}

/* With the directory locked. */
static int remove_locked(const char *directory)
{
	DIR *stream = opendir(directory);
	int err;

	if (!stream)
		return errno;
	err = remove_files(stream, false);
	closedir(stream);
	/* Somebody else's files are in it: then it stays. */
	if (!err && rmdir(directory) != 0 && errno != ENOTEMPTY && errno != EEXIST)
		err = errno;
	return err;
}

int wn__state_remove(const char *directory)
{
	struct wn__state_lock *lock;
	int err;

	if (access(directory, F_OK) != 0)
		return errno == ENOENT ? 0 : errno;
	err = wn__state_lock(directory, &lock);
	if (err)
		return err;
	err = remove_locked(directory);
	wn__state_unlock(lock);
	return err;
}
