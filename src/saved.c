/* saved.c - see saved.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "saved.h"

static char *join_path(const char *directory, const char *name)
{
	size_t size = strlen(directory) + strlen(name) + 2;
	char *path = wn__alloc(size);

	if (path)
		snprintf(path, size, "%s/%s", directory, name);
	return path;
}

/* ---- the secret --------------------------------------------------------- */

int wn__saved_secret(const char *directory, struct wn_secret **secretp, bool *newp)
{
	char *path = join_path(directory, "secret");
	int err = path ? wn_secret_load(path, secretp) : ENOMEM;

	*newp = false;
	if (path && err) {
		*newp = true;
		err = wn_secret_create_random(secretp);
	}
	free(path);
	return err;
}

int wn__save_secret(const char *directory, const struct wn_secret *secret)
{
	char *path = join_path(directory, "secret");
	int err = path ? wn_secret_save(secret, path) : ENOMEM;

	free(path);
	return err;
}

/* ---- files -------------------------------------------------------------- */

static void *read_rest(int fd, size_t size)
{
	char *bytes = wn__alloc(size ? size : 1);
	size_t done = 0;

	while (bytes && done < size) {
		ssize_t got = read(fd, bytes + done, size - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			free(bytes);
			return NULL;
		}
		done += (size_t)got;
	}
	return bytes;
}

/* NULL: it cannot be read. */
static void *read_file(const char *directory, const char *name, size_t *sizep)
{
	char *path = join_path(directory, name);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *bytes = NULL;
	struct stat info;

	if (fd >= 0 && fstat(fd, &info) == 0) {
		*sizep = (size_t)info.st_size;
		bytes = read_rest(fd, *sizep);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	return bytes;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return false;
		bytes += done;
		size -= (size_t)done;
	}
	return true;
}

static bool write_new(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool good;

	if (fd < 0)
		return false;
	good = write_all(fd, bytes, size) && fsync(fd) == 0;
	return close(fd) == 0 && good;
}

static void write_file(const char *directory, const char *name, const char *new_name,
		       const void *bytes, size_t size)
{
	char *path = join_path(directory, name);
	char *new_path = join_path(directory, new_name);

	if (path && new_path &&
	    (!write_new(new_path, bytes, size) || rename(new_path, path) != 0))
		unlink(new_path);
	free(new_path);
	free(path);
}

/* ---- what was learned --------------------------------------------------- */

void wn__saved_load(const char *directory, struct wn__engine *engine)
{
	size_t size;
	void *bytes = read_file(directory, "lessons", &size);

	if (bytes)
		wn__learned_load(engine->learned, bytes, size);
	free(bytes);
	bytes = read_file(directory, "negatives", &size);
	if (bytes)
		wn__negatives_load(engine->negatives, bytes, size);
	free(bytes);
}

void wn__saved_store(const char *directory, struct wn__engine *engine)
{
	void *bytes;
	size_t size;

	if (wn__learned_save(engine->learned, &bytes, &size) == 0) {
		write_file(directory, "lessons", "lessons.new", bytes, size);
		free(bytes);
	}
	if (wn__negatives_save(engine->negatives, &bytes, &size, NULL) == 0) {
		write_file(directory, "negatives", "negatives.new", bytes, size);
		free(bytes);
	}
}
