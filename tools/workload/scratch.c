/* scratch.c - see scratch.h. */
#define _GNU_SOURCE
#include "scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool scratch_create(char **pathp, struct failure *failure)
{
	const char *parent = getenv("TMPDIR");

	if (!parent || *parent == '\0')
		parent = "/tmp";
	if (asprintf(pathp, "%s/winnow-bench-XXXXXX", parent) < 0) {
		*pathp = NULL;
		return fail(failure, "no memory");
	}
	if (!mkdtemp(*pathp)) {
		fail(failure, "cannot make a temporary directory in '%s': %s", parent,
		     strerror(errno));
		free(*pathp);
		*pathp = NULL;
		return false;
	}
	return true;
}

bool directory_make(const char *path, struct failure *failure)
{
	struct stat status;

	if (mkdir(path, 0777) != 0 && errno != EEXIST)
		return fail(failure, "cannot make the directory '%s': %s", path, strerror(errno));
	if (stat(path, &status) != 0)
		return fail(failure, "cannot look into '%s': %s", path, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return fail(failure, "'%s' is not a directory", path);
	if (access(path, W_OK | X_OK) != 0)
		return fail(failure, "cannot write to the directory '%s': %s", path,
			    strerror(errno));
	return true;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	remove(path);
	return 0;
}

void directory_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
