/* strangers.c - reading the filters of a table by hand; see strangers.h.
 *
 * Nothing in the file is trusted but to be what LevelDB would read: checksums are not looked at,
 * since LevelDB does not look at them either where it reads filters, unless it is told to. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_CLOEXEC */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "policy.h"
#include "shim.h"
#include "strangers.h"

/* A table's end: two handles of up to 20 bytes, filled up with zeros, and a magic number. */
enum { FOOTER_SIZE = 48, MAGIC_AT = 40 };
#define TABLE_MAGIC UINT64_C(0xdb4775248b80fb57)
/* Behind a block: how it is compressed, 0 for not at all, and a checksum. */
enum { TRAILER_SIZE = 5 };
/* A metaindex has one entry. */
#define MOST_METAINDEX ((uint64_t)1 << 20)
#define MOST_FILTERS ((uint64_t)1 << 31)

static const char filter_key[] = "filter." WN__FILTER_NAME;
#define FILTER_KEY_SIZE (sizeof(filter_key) - 1)

struct handle {
	uint64_t offset, size;
};

struct file {
	int fd;
	uint64_t size;
};

/* What is left to be read. */
struct span {
	const unsigned char *at, *end;
};

/* ---- bytes -------------------------------------------------------------- */

static bool take_varint(struct span *span, uint64_t *valuep)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
		unsigned char byte = *span->at++;

		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*valuep = value;
			return true;
		}
	}
	return false;
}

static bool take_handle(struct span *span, struct handle *handlep)
{
	return take_varint(span, &handlep->offset) && take_varint(span, &handlep->size);
}

static int read_at(const struct file *file, unsigned char *bytes, size_t size, uint64_t at)
{
	while (size) {
		ssize_t got = pread(file->fd, bytes, size, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : WN_ERR_CORRUPT;
		bytes += got;
		size -= (size_t)got;
		at += (uint64_t)got;
	}
	return 0;
}

/* A block that is not compressed, or WN_ERR_CORRUPT. free() it. */
static int read_block(const struct file *file, struct handle handle, uint64_t most,
		      unsigned char **bytesp)
{
	size_t size = (size_t)handle.size + TRAILER_SIZE;
	unsigned char *bytes;
	int err;

	*bytesp = NULL;
	if (handle.size > most || handle.offset > file->size ||
	    handle.size + TRAILER_SIZE > file->size - handle.offset)
		return WN_ERR_CORRUPT;
	bytes = wn__alloc(size);
	if (!bytes)
		return ENOMEM;
	err = read_at(file, bytes, size, handle.offset);
	if (!err && bytes[handle.size] != 0)
		err = WN_ERR_CORRUPT;
	if (err)
		free(bytes);
	else
		*bytesp = bytes;
	return err;
}

/* ---- from the file's end to its filters --------------------------------- */

static int find_metaindex(const struct file *file, struct handle *handlep)
{
	unsigned char footer[FOOTER_SIZE];
	struct span span = {footer, footer + MAGIC_AT};
	int err;

	if (file->size < FOOTER_SIZE)
		return WN_ERR_CORRUPT;
	err = read_at(file, footer, sizeof(footer), file->size - FOOTER_SIZE);
	if (err)
		return err;
	if (get_le64(footer + MAGIC_AT) != TABLE_MAGIC || !take_handle(&span, handlep))
		return WN_ERR_CORRUPT;
	return 0;
}

/* One entry: how many bytes of its key are the last one's, how many follow, the value's size.
 * Of a key longer than the one that is looked for the beginning is enough. */
static bool take_entry(struct span *span, char *key, uint64_t *key_sizep, struct span *valuep)
{
	uint64_t shared, more, size, left;

	if (!take_varint(span, &shared) || !take_varint(span, &more) || !take_varint(span, &size))
		return false;
	left = (uint64_t)(span->end - span->at);
	if (shared > *key_sizep || more > left || size > left - more)
		return false;
	for (uint64_t i = 0; i < more && shared + i < FILTER_KEY_SIZE; i++)
		key[shared + i] = (char)span->at[i];
	*key_sizep = shared + more;
	*valuep = (struct span){span->at + more, span->at + more + size};
	span->at = valuep->end;
	return true;
}

/* The handle's size is 0 if there are no filters. Behind the entries stand offsets of some of
 * them, and their number. */
static int find_filters(const unsigned char *block, uint64_t size, struct handle *handlep)
{
	char key[FILTER_KEY_SIZE];
	struct span span, value;
	uint64_t restarts, key_size = 0;
	bool found = false;

	*handlep = (struct handle){0, 0};
	if (size < 4)
		return WN_ERR_CORRUPT;
	restarts = get_le32(block + size - 4);
	if (restarts > (size - 4) / 4)
		return WN_ERR_CORRUPT;
	span = (struct span){block, block + (size - 4 - 4 * restarts)};
	while (span.at < span.end) {
		if (!take_entry(&span, key, &key_size, &value))
			return WN_ERR_CORRUPT;
		if (key_size != FILTER_KEY_SIZE || memcmp(key, filter_key, FILTER_KEY_SIZE) != 0)
			continue;
		if (found || !take_handle(&value, handlep))
			return WN_ERR_CORRUPT;
		found = true;
	}
	return 0;
}

/* ---- filters ------------------------------------------------------------ */

/* The ids that lessons are asked for under; see ask() in policy.c. */
static bool may_learn(const unsigned char *bytes, size_t size, uint32_t secret_id)
{
	struct wn__small tiny;
	bool whole;

	return wn__small_claims(bytes, size, secret_id, &whole) && whole &&
	       wn__small_open(bytes, size, &tiny) && wn__small_learns(&tiny);
}

/* The filters, their offsets and that of the first offset, and a byte. A filter ends where the
 * next one begins, so that none is looked at twice; LevelDB leaves out those for which that is
 * not so. */
static int read_ids(const unsigned char *block, size_t size, uint32_t secret_id,
		    struct wn__small_id **idsp, size_t *countp)
{
	size_t end, filters, count = 0;
	struct wn__small_id *ids;

	if (size < 5)
		return WN_ERR_CORRUPT;
	end = get_le32(block + size - 5);
	if (end > size - 5)
		return WN_ERR_CORRUPT;
	filters = (size - 5 - end) / 4;
	ids = wn__alloc((filters + 1) * sizeof(*ids));
	if (!ids)
		return ENOMEM;
	for (size_t i = 0; i < filters; i++) {
		size_t start = get_le32(block + end + 4 * i);
		size_t stop = get_le32(block + end + 4 * i + 4);

		if (start > stop || stop > end) {
			free(ids);
			return WN_ERR_CORRUPT;
		}
		if (start < stop && may_learn(block + start, stop - start, secret_id))
			ids[count++] = wn__small_id(block + start, stop - start);
	}
	*idsp = ids;
	*countp = count;
	return 0;
}

static int read_filters(const struct file *file, uint32_t secret_id, struct wn__small_id **idsp,
			size_t *countp)
{
	struct handle handle;
	unsigned char *block = NULL;
	int err = find_metaindex(file, &handle);

	if (!err)
		err = read_block(file, handle, MOST_METAINDEX, &block);
	if (!err)
		err = find_filters(block, handle.size, &handle);
	free(block);
	if (err || handle.size == 0)
		return err;
	err = read_block(file, handle, MOST_FILTERS, &block);
	if (!err)
		err = read_ids(block, (size_t)handle.size, secret_id, idsp, countp);
	free(block);
	return err;
}

int wn__strangers_read(const char *path, uint32_t secret_id, struct wn__small_id **idsp,
		       size_t *countp)
{
	struct file file = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
	struct stat status;
	int err = 0;

	*idsp = NULL;
	*countp = 0;
	if (file.fd < 0 || fstat(file.fd, &status) < 0)
		err = errno;
	if (!err) {
		file.size = (uint64_t)status.st_size;
		err = read_filters(&file, secret_id, idsp, countp);
	}
	if (file.fd >= 0)
		close(file.fd);
	return err;
}

/* ---- the directory ------------------------------------------------------ */

static int add_table(struct wn__packs *packs, const char *path, uint64_t number,
		     uint32_t secret_id)
{
	struct wn__small_id *ids = NULL;
	size_t count;
	int err = wn__strangers_read(path, secret_id, &ids, &count);

	if (err && err != ENOENT) /* that one went just now */
		err = wn__packs_add_strangers(packs, number, NULL, 0);
	else if (!err && count)
		err = wn__packs_add_strangers(packs, number, ids, count);
	else
		err = 0;
	free(ids);
	return err;
}

int wn__strangers_find(struct wn__packs *packs, const char *path, uint32_t secret_id)
{
	DIR *directory = opendir(path);
	const struct dirent *entry = NULL;
	int err = 0;

	if (!directory)
		return errno == ENOENT ? 0 : errno;
	while (!err && (errno = 0, entry = readdir(directory))) {
		uint64_t number = wn__shim_table_number(entry->d_name);
		size_t size = strlen(path) + strlen(entry->d_name) + 2;
		char *name;

		if (!number || wn__packs_have(packs, number))
			continue;
		name = wn__alloc(size);
		err = ENOMEM;
		if (name) {
			snprintf(name, size, "%s/%s", path, entry->d_name);
			err = add_table(packs, name, number, secret_id);
		}
		free(name);
	}
	if (!err && !entry)
		err = errno;
	closedir(directory);
	return err;
}
