/* sidecar_files.c - which key lists' files are open.
 *
 * Files are opened and read outside the lock. One that was opened while a key list was
 * being replaced or removed may be the old one: it serves the caller who opened it,
 * and is not kept for others. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_NOFOLLOW and friends */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "sidecar.h"

/* ---- names -------------------------------------------------------------- */

#define HEX_SIZE (2 * WN_BLOCK_ID_SIZE)

void wn__keylist_name(const unsigned char *id, char *name)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < WN_BLOCK_ID_SIZE; i++) {
		*name++ = digits[id[i] >> 4];
		*name++ = digits[id[i] & 15];
	}
	memcpy(name, ".run", sizeof(".run"));
}

static int digit_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The id in front of a name; the rest of the name, or NULL if there is no id. */
static const char *parse_id(const char *name, unsigned char *id)
{
	for (size_t i = 0; i < WN_BLOCK_ID_SIZE; i++, name += 2) {
		int high = digit_value(name[0]);
		int low = high < 0 ? -1 : digit_value(name[1]);

		if (low < 0)
			return NULL;
		id[i] = (unsigned char)(high << 4 | low);
	}
	return name;
}

bool wn__keylist_name_parse(const char *name, unsigned char *idp)
{
	const char *rest = parse_id(name, idp);

	return rest && strcmp(rest, ".run") == 0;
}

bool wn__keylist_name_is_temporary(const char *name)
{
	unsigned char id[WN_BLOCK_ID_SIZE];
	const char *rest = parse_id(name, id);

	if (!rest || *rest++ != '.')
		return false;
	rest += strspn(rest, "0123456789");
	return strcmp(rest, ".tmp") == 0;
}

/* ---- one file ----------------------------------------------------------- */

static int check_file(int fd, const unsigned char *id, struct wn__keylist_header *headerp)
{
	unsigned char bytes[WN__KEYLIST_HEADER_SIZE];
	struct stat status;
	int err;

	if (fstat(fd, &status) < 0)
		return errno;
	if (!S_ISREG(status.st_mode))
		return WN_ERR_CORRUPT;
	err = wn__pread_all(fd, bytes, sizeof(bytes), 0);
	if (!err)
		err = wn__keylist_header_get(bytes, headerp);
	if (err)
		return err;
	if (memcmp(headerp->list.id, id, WN_BLOCK_ID_SIZE) != 0)
		return WN_ERR_MISMATCH;
	return (uint64_t)status.st_size == wn__keylist_size(headerp) ? 0 : WN_ERR_CORRUPT;
}

int wn__keylist_file_open(int directory, const unsigned char *id, struct wn__keylist_file *file)
{
	char name[WN__KEYLIST_NAME_SIZE];
	int err;

	*file = (struct wn__keylist_file){.fd = -1};
	wn__keylist_name(id, name);
	do {
		file->fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	} while (file->fd < 0 && errno == EINTR);
	if (file->fd < 0)
		return errno == ENOENT ? WN_ERR_NOT_FOUND : errno;
	err = check_file(file->fd, id, &file->header);
	if (err) {
		close(file->fd);
		file->fd = -1;
	}
	return err;
}

/* ---- the table ---------------------------------------------------------- */

int wn__keylist_files_init(struct wn__keylist_files *files, int directory, unsigned count)
{
	*files = (struct wn__keylist_files){.directory = directory, .count = count};
	files->files = wn__calloc(count, sizeof(*files->files));
	if (!files->files)
		return ENOMEM;
	for (unsigned i = 0; i < count; i++)
		files->files[i].fd = -1;
	pthread_mutex_init(&files->lock, NULL);
	return 0;
}

void wn__keylist_files_fini(struct wn__keylist_files *files)
{
	if (!files->files)
		return;
	for (unsigned i = 0; i < files->count; i++) {
		if (files->files[i].fd >= 0)
			close(files->files[i].fd);
	}
	free(files->files);
	pthread_mutex_destroy(&files->lock);
}

/* Under the lock, as the next three. A table of a few dozen is searched faster than
 * a file is read. */
static struct wn__keylist_file *find_file(struct wn__keylist_files *files, const unsigned char *id)
{
	wn__assert_locked(&files->lock);
	for (unsigned i = 0; i < files->count; i++) {
		struct wn__keylist_file *file = &files->files[i];

		if (file->fd >= 0 && !file->dropped &&
		    memcmp(file->header.list.id, id, WN_BLOCK_ID_SIZE) == 0)
			return file;
	}
	return NULL;
}

static struct wn__keylist_file *use_file(struct wn__keylist_files *files,
					 struct wn__keylist_file *file)
{
	wn__assert_locked(&files->lock);
	file->refs++;
	file->last_use = ++files->clock;
	return file;
}

/* A free place, or that of the file unused for longest; NULL if all are in use. */
static struct wn__keylist_file *make_place(struct wn__keylist_files *files)
{
	struct wn__keylist_file *oldest = NULL;

	wn__assert_locked(&files->lock);
	for (unsigned i = 0; i < files->count; i++) {
		struct wn__keylist_file *file = &files->files[i];

		if (file->fd < 0)
			return file;
		if (file->refs == 0 && (!oldest || file->last_use < oldest->last_use))
			oldest = file;
	}
	if (oldest) {
		close(oldest->fd);
		oldest->fd = -1;
	}
	return oldest;
}

/* Keep what was just opened, unless there is no place or it may be out of date. */
static struct wn__keylist_file *keep_file(struct wn__keylist_files *files,
					  struct wn__keylist_file *own, uint64_t drops)
{
	struct wn__keylist_file *place;

	wn__assert_locked(&files->lock);
	if (files->drops != drops)
		return own;
	place = find_file(files, own->header.list.id);
	if (place) { /* another thread was faster */
		close(own->fd);
		return use_file(files, place);
	}
	place = make_place(files);
	if (!place)
		return own;
	*place = *own;
	place->kept = true;
	return use_file(files, place);
}

int wn__keylist_files_acquire(struct wn__keylist_files *files, const unsigned char *id,
			  struct wn__keylist_file *own, struct wn__keylist_file **filep)
{
	struct wn__keylist_file *file;
	uint64_t drops;
	int err;

	*filep = NULL;
	wn__lock(&files->lock, WN__LOCK_LAST);
	drops = files->drops;
	file = find_file(files, id);
	if (file)
		*filep = use_file(files, file);
	wn__unlock(&files->lock);
	if (file)
		return 0;
	err = wn__keylist_file_open(files->directory, id, own);
	if (err)
		return err;
	wn__lock(&files->lock, WN__LOCK_LAST);
	*filep = keep_file(files, own, drops);
	wn__unlock(&files->lock);
	return 0;
}

void wn__keylist_files_release(struct wn__keylist_files *files, struct wn__keylist_file *file)
{
	if (!file->kept) {
		close(file->fd);
		return;
	}
	wn__lock(&files->lock, WN__LOCK_LAST);
	wn__assert(file->refs > 0);
	if (--file->refs == 0 && file->dropped) {
		close(file->fd);
		*file = (struct wn__keylist_file){.fd = -1};
	}
	wn__unlock(&files->lock);
}

void wn__keylist_files_forget(struct wn__keylist_files *files, const unsigned char *id)
{
	struct wn__keylist_file *file;

	wn__lock(&files->lock, WN__LOCK_LAST);
	files->drops++;
	file = find_file(files, id);
	if (file && file->refs > 0) {
		file->dropped = true;
	} else if (file) {
		close(file->fd);
		*file = (struct wn__keylist_file){.fd = -1};
	}
	wn__unlock(&files->lock);
}
