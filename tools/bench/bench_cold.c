/* bench_cold.c - see bench_cold.h. */
#define _GNU_SOURCE
#include "bench_cold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE 4096
#define FOOTER 48

bool cold_check(const char *path, struct failure *failure)
{
	struct statfs found;

	if (statfs(path, &found) != 0)
		return fail(failure, "cannot look at the directory '%s': %s", path,
			    strerror(errno));
	if (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC)
		return fail(failure, "--cold: '%s' is in memory (tmpfs), nothing can be "
				     "dropped there; give another --db or TMPDIR", path);
	return true;
}

static bool is_table(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (strncmp(dot, ".ldb", 4) == 0 || strncmp(dot, ".sst", 4) == 0);
}

/* ---- where the data blocks of a table end ------------------------------- */

static bool take_varint(const unsigned char **atp, const unsigned char *end, uint64_t *valuep)
{
	*valuep = 0;
	for (unsigned shift = 0; shift < 64 && *atp < end; shift += 7) {
		const unsigned char byte = *(*atp)++;

		*valuep |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Behind the data blocks is the filter block, then the metaindex, whose one entry says where it is:
 * three lengths (0, of the key, of the value), the key, and the filter block's offset. */
static uint64_t find_filter(int fd, uint64_t metaindex)
{
	unsigned char block[200];
	const ssize_t got = pread(fd, block, sizeof(block), (off_t)metaindex);
	const unsigned char *at = block, *end = block + (got > 0 ? got : 0);
	uint64_t shared, key, value, filter;

	if (!take_varint(&at, end, &shared) || !take_varint(&at, end, &key) ||
	    !take_varint(&at, end, &value) || shared != 0 || key == 0 ||
	    key >= (uint64_t)(end - at))
		return metaindex;
	at += key;
	return take_varint(&at, end, &filter) && filter < metaindex ? filter : metaindex;
}

/* LevelDB's; 0 if this is none. */
static size_t data_size(int fd, off_t size)
{
	unsigned char footer[FOOTER];
	const unsigned char *at = footer;
	uint64_t metaindex;

	if (size < FOOTER || pread(fd, footer, FOOTER, size - FOOTER) != FOOTER ||
	    !take_varint(&at, footer + FOOTER, &metaindex) || metaindex >= (uint64_t)size)
		return 0;
	return (size_t)find_filter(fd, metaindex) / PAGE * PAGE;
}

/* ---- dropping ----------------------------------------------------------- */

/* A page that is mapped is not dropped. Only mappings that are shared and read-only are touched: of
 * others the contents would be lost. */
static void unmap_table(char *line)
{
	unsigned long first, end;
	char mode[8];
	int fd;

	if (sscanf(line, "%lx-%lx %7s", &first, &end, mode) != 3 || strcmp(mode, "r--s") != 0)
		return;
	fd = open(strchr(line, '/'), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	end = first + data_size(fd, lseek(fd, 0, SEEK_END));
	if (end > first)
		madvise((void *)first, end - first, MADV_DONTNEED);
	close(fd);
}

static void unmap_tables(const char *path)
{
	char *absolute = realpath(path, NULL);
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t room = 0;

	while (maps && absolute && getline(&line, &room, maps) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strstr(line, absolute) && is_table(line))
			unmap_table(line);
	}
	free(line);
	if (maps)
		fclose(maps);
	free(absolute);
}

/* A length of 0 means all of the file. */
static void drop_file(int directory, const char *name, bool mapped, bool written)
{
	const int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t front = 0;

	if (fd < 0)
		return;
	if (written)
		fdatasync(fd);
	if (mapped && is_table(name))
		front = data_size(fd, lseek(fd, 0, SEEK_END));
	posix_fadvise(fd, 0, (off_t)front, POSIX_FADV_DONTNEED);
	close(fd);
}

static void drop_directory(const char *path, bool mapped, bool written)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			drop_file(dirfd(directory), entry->d_name, mapped, written);
	if (directory)
		closedir(directory);
}

void cold_drop(const char *path, bool mapped, bool written)
{
	char *beside;

	if (mapped)
		unmap_tables(path);
	drop_directory(path, mapped, written);
	if (asprintf(&beside, "%s.winnow", path) < 0)
		return;
	drop_directory(beside, false, written);
	free(beside);
}

uint64_t cold_bytes_read(void)
{
	FILE *file = fopen("/proc/self/io", "re");
	unsigned long long bytes = 0;
	char line[80];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "read_bytes: %llu", &bytes) == 1)
			break;
	if (file)
		fclose(file);
	return bytes;
}
