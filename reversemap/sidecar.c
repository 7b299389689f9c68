/* sidecar.c - key lists in flat files beside a database, one file each.
 *
 * A key list is written under a temporary name and renamed when it is complete: under
 * its own name a file is whole, or the machine lost power and the checksums show
 * it. Files are read with pread(): one that is cut short under our hands is then
 * an error, where a mapping would be a signal. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECTORY and friends */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "pages.h"
#include "sidecar.h"

#define DEFAULT_MAX_OPEN 64
#define BUFFER_PAGES 16
#define TEMPORARY_NAME_SIZE (WN__KEYLIST_NAME_SIZE + 24)

struct sidecar {
	struct wn__map base;
	int directory;
	bool sync;
	bool read_only;
	pthread_mutex_t change; /* over what is renamed and removed, and its accounts */
	uint64_t temporaries;   /* made so far */
	struct wn__keylist_files files;
};

static struct sidecar *to_sidecar(struct wn__map *map)
{
	return (struct sidecar *)map;
}

/* ---- put ---------------------------------------------------------------- */

static int write_pages(int fd, const struct wn__keylist_header *header,
		       const uint64_t *uppers, unsigned char *buffer)
{
	uint64_t count = wn__keylist_page_count(header);
	size_t filled = 0;
	int err = 0;

	for (uint64_t page = 0; page < count && !err; page++) {
		filled += wn__keylist_page_put(buffer + filled, header, page, uppers);
		if (filled == (size_t)BUFFER_PAGES * WN__KEYLIST_PAGE_SIZE || page + 1 == count) {
			err = wn__write_all(fd, buffer, filled);
			filled = 0;
		}
	}
	return err;
}

/* A new file under a temporary name, which is left in `name`. */
static int write_temporary(struct sidecar *sidecar, const struct wn__keylist_header *header,
			   const uint64_t *uppers, char *name)
{
	char list_name[WN__KEYLIST_NAME_SIZE];
	unsigned char *buffer;
	uint64_t number = __atomic_add_fetch(&sidecar->temporaries, 1, __ATOMIC_RELAXED);
	int fd, err;

	wn__keylist_name(header->list.id, list_name);
	snprintf(name, TEMPORARY_NAME_SIZE, "%.*s.%" PRIu64 ".tmp", 2 * WN_BLOCK_ID_SIZE, list_name,
		 number);
	buffer = wn__alloc((size_t)BUFFER_PAGES * WN__KEYLIST_PAGE_SIZE);
	if (!buffer)
		return ENOMEM;
	err = wn__file_create(sidecar->directory, name, &fd);
	if (err)
		goto err;
	err = wn__file_finish(fd, write_pages(fd, header, uppers, buffer), sidecar->sync);
	if (err)
		unlinkat(sidecar->directory, name, 0);
err:
	free(buffer);
	return err;
}

/* The size of a file; false if there is none. */
static bool get_size(const struct sidecar *sidecar, const char *name, uint64_t *sizep)
{
	struct stat status;

	*sizep = 0;
	if (fstatat(sidecar->directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*sizep = (uint64_t)status.st_size;
	return true;
}

/* Numbers are added modulo 2^64, so that they can become smaller. */
static void account(struct sidecar *sidecar, bool had, uint64_t old, bool has, uint64_t new)
{
	wn__map_count(&sidecar->base.stats.lists, (uint64_t)has - (uint64_t)had);
	wn__map_count(&sidecar->base.stats.bytes, new - old);
}

static int publish(struct sidecar *sidecar, const struct wn__keylist_header *header,
		   const char *temporary)
{
	char name[WN__KEYLIST_NAME_SIZE];
	uint64_t old;
	bool had;
	int err = 0;

	wn__keylist_name(header->list.id, name);
	wn__lock(&sidecar->change, WN__LOCK_CHANGE);
	had = get_size(sidecar, name, &old);
	if (renameat(sidecar->directory, temporary, sidecar->directory, name) < 0) {
		err = errno;
		unlinkat(sidecar->directory, temporary, 0);
	} else {
		account(sidecar, had, old, true, wn__keylist_size(header));
		wn__keylist_files_forget(&sidecar->files, header->list.id);
	}
	wn__unlock(&sidecar->change);
	return err;
}

static int sidecar_put(struct wn__map *map, const struct wn__keylist *list,
		       const uint64_t *uppers)
{
	struct sidecar *sidecar = to_sidecar(map);
	char temporary[TEMPORARY_NAME_SIZE];
	struct wn__keylist_header header;
	int err;

	if (sidecar->read_only)
		return WN_ERR_READONLY;
	wn__keylist_header_init(&header, list);
	err = write_temporary(sidecar, &header, uppers, temporary);
	if (!err)
		err = publish(sidecar, &header, temporary);
	if (err)
		return err;
	/* If this fails the key list is there and whole; only a power cut may still take it. */
	return sidecar->sync ? wn__sync_directory(sidecar->directory, ".") : 0;
}

/* ---- read --------------------------------------------------------------- */

static int bring_page(void *arg, const struct wn__keylist_header *header, uint64_t page,
		      unsigned char *buffer, const unsigned char **bytesp)
{
	const struct wn__keylist_file *file = arg;

	*bytesp = buffer;
	return wn__pread_all(file->fd, buffer, wn__keylist_page_size(header, page),
			     page * WN__KEYLIST_PAGE_SIZE);
}

static struct wn__keylist_pages pages_of(struct wn__keylist_file *file)
{
	return (struct wn__keylist_pages){.header = file->header, .read = bring_page, .arg = file};
}

static int sidecar_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			  uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			  size_t *countp)
{
	struct sidecar *sidecar = to_sidecar(map);
	struct wn__keylist_file own, *file;
	struct wn__keylist_pages pages;
	int err;

	err = wn__keylist_files_acquire(&sidecar->files, list->id, &own, &file);
	if (err)
		return err;
	pages = pages_of(file);
	err = wn__keylist_pages_lookup(&pages, list, minirun, rank, entries, max, countp);
	wn__map_count(&map->stats.reads, pages.reads);
	wn__keylist_files_release(&sidecar->files, file);
	return err;
}

static int sidecar_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
			  void *arg)
{
	struct wn__keylist_file file;
	struct wn__keylist_pages pages;
	int err;

	/* Rare and long: not worth a place in the table of open files. */
	err = wn__keylist_file_open(to_sidecar(map)->directory, id, &file);
	if (err)
		return err;
	pages = pages_of(&file);
	err = wn__keylist_pages_stream(&pages, fn, arg);
	wn__map_count(&map->stats.reads, pages.reads);
	close(file.fd);
	return err;
}

/* ---- drop and list ------------------------------------------------------ */

static int sidecar_drop(struct wn__map *map, const unsigned char *id)
{
	struct sidecar *sidecar = to_sidecar(map);
	char name[WN__KEYLIST_NAME_SIZE];
	uint64_t old;
	bool had;
	int err = 0;

	if (sidecar->read_only)
		return WN_ERR_READONLY;
	wn__keylist_name(id, name);
	wn__lock(&sidecar->change, WN__LOCK_CHANGE);
	had = get_size(sidecar, name, &old);
	if (unlinkat(sidecar->directory, name, 0) < 0) {
		err = errno == ENOENT ? WN_ERR_NOT_FOUND : errno;
	} else {
		account(sidecar, had, old, false, 0);
		wn__keylist_files_forget(&sidecar->files, id);
	}
	wn__unlock(&sidecar->change);
	return err;
}

/* Called with each name in the directory. */
typedef int name_fn(struct sidecar *sidecar, const char *name, void *arg);

static int walk_directory(struct sidecar *sidecar, name_fn *fn, void *arg)
{
	/* Not a dup(): that would share the position with other walks. */
	int fd = openat(sidecar->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int err = 0;

	if (!stream) {
		err = errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	for (errno = 0; !err && (entry = readdir(stream)); errno = 0)
		err = fn(sidecar, entry->d_name, arg);
	if (!err)
		err = errno;
	closedir(stream);
	return err;
}

static int add_info(struct sidecar *sidecar, const char *name, void *arg)
{
	unsigned char id[WN_BLOCK_ID_SIZE];
	struct wn__keylist_info info = {0};
	struct wn__keylist_file file;
	int err;

	if (!wn__keylist_name_parse(name, id))
		return 0;
	err = wn__keylist_file_open(sidecar->directory, id, &file);
	if (err == WN_ERR_NOT_FOUND) /* dropped since */
		return 0;
	if (err) {
		memcpy(info.list.id, id, sizeof(id));
		info.error = err;
		get_size(sidecar, name, &info.bytes);
	} else {
		info = wn__keylist_header_info(&file.header);
		close(file.fd);
	}
	return wn__keylist_infos_add(arg, &info);
}

static int sidecar_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp)
{
	struct wn__keylist_infos list = {NULL, 0, 0};
	int err = walk_directory(to_sidecar(map), add_info, &list);

	if (err) {
		free(list.infos);
		return err;
	}
	*infosp = list.infos;
	*countp = list.count;
	return 0;
}

/* ---- open and close ----------------------------------------------------- */

/* A temporary file that cannot be removed does no harm: it is no key list. */
static int sweep_or_count(struct sidecar *sidecar, const char *name, void *arg)
{
	unsigned char id[WN_BLOCK_ID_SIZE];
	uint64_t size;

	(void)arg;
	if (wn__keylist_name_is_temporary(name)) {
		if (!sidecar->read_only)
			unlinkat(sidecar->directory, name, 0);
	} else if (wn__keylist_name_parse(name, id) && get_size(sidecar, name, &size)) {
		account(sidecar, false, 0, true, size);
	}
	return 0;
}

static void sidecar_destroy(struct wn__map *map)
{
	struct sidecar *sidecar = to_sidecar(map);

	wn__keylist_files_fini(&sidecar->files);
	if (sidecar->directory >= 0)
		close(sidecar->directory);
	pthread_mutex_destroy(&sidecar->change);
	free(sidecar);
}

static const struct wn__map_ops sidecar_ops = {
	.put = sidecar_put,
	.lookup = sidecar_lookup,
	.stream = sidecar_stream,
	.drop = sidecar_drop,
	.list = sidecar_list,
	.destroy = sidecar_destroy,
};

static int open_directory(struct sidecar *sidecar, const char *directory)
{
	if (!sidecar->read_only && mkdir(directory, 0700) < 0 && errno != EEXIST)
		return errno;
	sidecar->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sidecar->directory < 0)
		return errno;
	return sidecar->read_only ? 0 : wn__directory_is_ours(directory);
}

int wn__map_sidecar_open(const char *directory, const struct wn__sidecar_options *options,
			  struct wn__map **mapp)
{
	struct wn__sidecar_options wanted = options ? *options : (struct wn__sidecar_options){0};
	struct sidecar *sidecar = wn__calloc(1, sizeof(*sidecar));
	int err;

	*mapp = NULL;
	if (!sidecar)
		return ENOMEM;
	sidecar->base.ops = &sidecar_ops;
	sidecar->directory = -1;
	sidecar->sync = wanted.sync;
	sidecar->read_only = wanted.read_only;
	pthread_mutex_init(&sidecar->change, NULL);
	err = open_directory(sidecar, directory);
	if (!err)
		err = wn__keylist_files_init(&sidecar->files, sidecar->directory,
					 wanted.max_open ? wanted.max_open : DEFAULT_MAX_OPEN);
	if (!err)
		err = walk_directory(sidecar, sweep_or_count, NULL);
	if (err) {
		sidecar_destroy(&sidecar->base);
		return err;
	}
	*mapp = &sidecar->base;
	return 0;
}
