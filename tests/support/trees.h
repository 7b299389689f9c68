/* trees.h - directories that are copied, moved and removed as a backup's are. */
#ifndef WN_TESTS_TREES_H
#define WN_TESTS_TREES_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header: nftw()"
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "common.h"

enum { TREE_PATH = 1024 };

static inline void join_path(char *path, const char *directory, const char *name)
{
	expect(snprintf(path, TREE_PATH, "%s/%s", directory, name) < TREE_PATH);
}

/* A copy of a path that the next call of test_path() would change. */
static inline void keep_path(char *path, const char *given)
{
	expect(strlen(given) < TREE_PATH);
	strcpy(path, given);
}

static inline void copy_file(const char *from, const char *to)
{
	char bytes[65536];
	ssize_t got;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	expect(in >= 0 && out >= 0);
	while ((got = read(in, bytes, sizeof(bytes))) > 0)
		expect(write(out, bytes, (size_t)got) == got);
	expect(got == 0);
	close(in);
	close(out);
}

/* Files and directories; `to` is made. */
static inline void copy_tree(const char *from, const char *to)
{
	DIR *directory = opendir(from);
	const struct dirent *entry;

	ck_assert_msg(directory != NULL, "%s: %s", from, strerror(errno));
	ck_assert_int_eq(mkdir(to, 0700), 0);
	while ((entry = readdir(directory))) {
		char source[TREE_PATH], target[TREE_PATH];
		struct stat info;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		join_path(source, from, entry->d_name);
		join_path(target, to, entry->d_name);
		ck_assert_int_eq(lstat(source, &info), 0);
		if (S_ISDIR(info.st_mode))
			copy_tree(source, target);
		else if (S_ISREG(info.st_mode))
			copy_file(source, target);
	}
	closedir(directory);
}

static inline int remove_tree_entry(const char *path, const struct stat *info, int kind,
				    struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

/* Need not be there. */
static inline void remove_tree(const char *path)
{
	nftw(path, remove_tree_entry, 16, FTW_DEPTH | FTW_PHYS);
	expect(access(path, F_OK) != 0);
}

struct tree_size {
	uint64_t entries, bytes;
};

/* What is in a directory; entries that disappear meanwhile are not counted. */
static inline struct tree_size measure_tree(const char *path)
{
	struct tree_size size = {0, 0};
	DIR *directory = opendir(path);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		char name[TREE_PATH];
		struct stat info;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		join_path(name, path, entry->d_name);
		if (lstat(name, &info) != 0)
			continue;
		size.entries++;
		if (S_ISDIR(info.st_mode)) {
			struct tree_size inner = measure_tree(name);

			size.entries += inner.entries;
			size.bytes += inner.bytes;
		} else {
			size.bytes += (uint64_t)info.st_size;
		}
	}
	if (directory)
		closedir(directory);
	return size;
}

#endif /* WN_TESTS_TREES_H */
