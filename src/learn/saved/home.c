/* home.c - see home.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dirfd() and friends */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/block.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "home.h"

#define SUFFIX ".winnow"

char *wn__home_directory(const char *path, const char *given)
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
	joined = wn__join_path(real ? real : parent, name);
	free(real);
	return joined;
}

char *wn__home_canonical(const char *path)
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
struct wn__home {
	int fd;
	struct wn__home *next;
};

static pthread_mutex_t homes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wn__home *homes;

static void before_fork(void)
{
	wn__lock(&homes_lock, WN__LOCK_LAST);
}

static void after_fork(void)
{
	wn__unlock(&homes_lock);
}

static void close_in_child(void)
{
	for (struct wn__home *home = homes; home; home = home->next) {
		close(home->fd);
		home->fd = -1;
	}
	wn__unlock(&homes_lock);
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

int wn__home_lock(const char *directory, struct wn__home **homep)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct wn__home *home;
	int err;

	*homep = NULL;
	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return errno;
	home = wn__alloc(sizeof(*home));
	if (!home)
		return ENOMEM;
	pthread_once(&once, watch_forks);
	wn__lock(&homes_lock, WN__LOCK_LAST);
	err = lock_directory(directory, &home->fd);
	if (!err) {
		home->next = homes;
		homes = home;
	}
	wn__unlock(&homes_lock);
	if (err)
		free(home);
	else
		*homep = home;
	return err;
}

void wn__home_unlock(struct wn__home *home)
{
	struct wn__home **at = &homes;

	if (!home)
		return;
	wn__lock(&homes_lock, WN__LOCK_LAST);
	while (*at != home)
		at = &(*at)->next;
	*at = home->next;
	if (home->fd >= 0) {
		/* A child that has not come to closing its own still has the directory open. */
		flock(home->fd, LOCK_UN);
		close(home->fd);
	}
	wn__unlock(&homes_lock);
	free(home);
}

/* ---- identity ----------------------------------------------------------- */

/* That this process is short of something says nothing about what is there: it would be removed,
 * or replaced, for good. */
static bool is_shortage(int err)
{
	return err == ENOMEM || err == EMFILE || err == ENFILE;
}

/* `folder` is the open directory. An errno: not now. */
static int check_identity(int folder, const struct wn__identity *identity, bool *belongsp)
{
	unsigned char noted[WN__IDENTITY_SIZE + 1]; /* one more shows that it is longer */
	size_t size;
	int err = wn__file_read_some(folder, "identity", noted, sizeof(noted), &size);

	*belongsp = size == identity->size && memcmp(noted, identity->bytes, size) == 0;
	/* What else cannot be read names nobody. */
	return is_shortage(err) ? err : 0;
}

bool wn__home_belongs(const char *directory, const struct wn__identity *identity)
{
	int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool belongs;

	if (folder < 0)
		return identity->size == 0;
	if (check_identity(folder, identity, &belongs))
		belongs = false;
	close(folder);
	return belongs;
}

static int note_identity(int folder, const struct wn__identity *identity)
{
	/* Should there be a directory of that name, and empty, it is in the way. */
	unlinkat(folder, "identity", AT_REMOVEDIR);
	return wn__file_replace(folder, "identity", "identity.new", identity->bytes,
				identity->size);
}

/* ---- names of files ----------------------------------------------------- */

static bool ends_in(const char *name, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return length >= end && strcmp(name + length - end, suffix) == 0;
}

#define ID_DIGITS (2 * WN_BLOCK_ID_SIZE)
#define SECRET_DIGITS 16

static size_t count_digits(const char *name)
{
	return strspn(name, "0123456789abcdef");
}

static bool is_among(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

/* reversemap/sidecar.h */
static bool is_temporary_run(const char *name)
{
	if (count_digits(name) != ID_DIGITS)
		return false;
	name += ID_DIGITS;
	if (name[0] == '.' && strcmp(name, ".tmp") != 0)
		name += 1 + strspn(name + 1, "0123456789");
	return strcmp(name, ".tmp") == 0;
}

/* What only a crash leaves. */
static bool is_leftover(const char *name)
{
	static const char *const names[] = {"identity.new", "lessons.new", "negatives.new",
					    "missing.new"};

	if (is_among(name, names, sizeof(names) / sizeof(names[0])))
		return true;
	if (strncmp(name, "secret.", 7) == 0)
		return count_digits(name + 7) == SECRET_DIGITS &&
		       strcmp(name + 7 + SECRET_DIGITS, ".new") == 0;
	if (strncmp(name, "run-", 4) == 0)
		return ends_in(name, ".sst");
	return is_temporary_run(name);
}

static bool is_ours(const char *name)
{
	static const char *const names[] = {"secret",  "identity",  "journal",
					    "lessons", "negatives", "missing"};

	if (is_among(name, names, sizeof(names) / sizeof(names[0])) || is_leftover(name))
		return true;
	return count_digits(name) == ID_DIGITS && strcmp(name + ID_DIGITS, ".run") == 0;
}

static bool is_another_databases(const char *name)
{
	return is_ours(name) && strcmp(name, "secret") != 0;
}

/* Remove the names that `unwanted` says. Of the errors in removing some the last. */
static int remove_names(int folder, bool (*unwanted)(const char *name), int *removalp)
{
	/* Not a dup(): that would share the position with others. */
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int err = errno;

	*removalp = 0;
	if (!stream) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	for (errno = 0; (entry = readdir(stream)); errno = 0) {
		/* A directory is nobody's state, and is never read as one. */
		if (unwanted(entry->d_name) && unlinkat(fd, entry->d_name, 0) < 0 &&
		    errno != ENOENT && errno != EISDIR)
			*removalp = errno;
	}
	err = errno;
	closedir(stream);
	return err;
}

/* ---- claim and removal -------------------------------------------------- */

int wn__home_claim(struct wn__home *home, const struct wn__identity *identity)
{
	bool belongs;
	int removal, err = check_identity(home->fd, identity, &belongs);

	if (err)
		return err;
	if (belongs)
		return remove_names(home->fd, is_leftover, &removal);
	err = remove_names(home->fd, is_another_databases, &removal);
	if (!err)
		err = removal;
	return err ? err : note_identity(home->fd, identity);
}

int wn__home_remove(const char *directory)
{
	struct wn__home *home;
	int removal, err;

	if (access(directory, F_OK) != 0)
		return errno == ENOENT ? 0 : errno;
	err = wn__home_lock(directory, &home);
	if (err)
		return err;
	err = remove_names(home->fd, is_ours, &removal);
	if (!err)
		err = removal;
	/* Somebody else's files are in it: then it stays. */
	if (!err && rmdir(directory) != 0 && errno != ENOTEMPTY && errno != EEXIST)
		err = errno;
	wn__home_unlock(home);
	return err;
}

/* ---- the secret --------------------------------------------------------- */

int wn__home_secret(const char *directory, struct wn_secret **secretp, bool *newp)
{
	char *path = wn__join_path(directory, "secret");
	int err = path ? wn_secret_load(path, secretp) : ENOMEM;

	*newp = err && !is_shortage(err);
	if (*newp)
		err = wn_secret_create_random(secretp);
	else if (err)
		*secretp = NULL;
	free(path);
	return err;
}

int wn__home_save_secret(const char *directory, const struct wn_secret *secret)
{
	char *path = wn__join_path(directory, "secret");
	int err = path ? wn_secret_save(secret, path) : ENOMEM;

	free(path);
	return err;
}
