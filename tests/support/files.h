/* files.h - visitors for nftw(); define _GNU_SOURCE before the first include. */
#ifndef WN_TESTS_FILES_H
#define WN_TESTS_FILES_H

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static inline int remove_entry(const char *path, const struct stat *info, int kind,
			       struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

/* To nobody. */
static inline int give_away(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return lchown(path, 65534, 65534);
}

#endif /* WN_TESTS_FILES_H */
