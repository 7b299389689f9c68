/* column_family_write.c - putting key lists into a column family, by ingesting files, and dropping
 * them; see column_family.c.
 *
 * RocksDB copies the file. To move it would make a hard link and leave both names until
 * ours is removed: a crash in between, and a name in our directory leads to a live file
 * of the database. Whoever empties that directory, or writes under that name, would
 * destroy it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "column_family_internal.h"

/* ---- delete ------------------------------------------------------------- */

/* Is there a key of these key lists, or of one between them? */
static bool has_keys(struct wn__family_map *family, const unsigned char *first, const char *limit)
{
	rocksdb_iterator_t *iterator =
		rocksdb_create_iterator_cf(family->db, family->read_options, family->family);
	size_t size = 0;
	const char *key;
	bool found;

	rocksdb_iter_seek(iterator, (const char *)first, WN_BLOCK_ID_SIZE);
	key = rocksdb_iter_valid(iterator) ? rocksdb_iter_key(iterator, &size) : NULL;
	found = key && memcmp(key, limit, size < WN_BLOCK_ID_SIZE ? size : WN_BLOCK_ID_SIZE) <= 0;
	rocksdb_iter_destroy(iterator);
	return found;
}

/* The keys of the key lists from one id to another. Files that hold nothing else go at once.
 * Keys that are left, as in a file that was compacted after all or holds other key lists as
 * well, are covered by a tombstone. */
static int delete_keys(struct wn__family_map *family, const unsigned char *first,
		       const unsigned char *last)
{
	char limit[WN__FAMILY_LIMIT_SIZE], *text = NULL;
	const char *start = (const char *)first;
	int err;

	wn__family_limit(last, limit);
	rocksdb_delete_file_in_range_cf(family->db, family->family, start, WN_BLOCK_ID_SIZE, limit,
					sizeof(limit), &text);
	err = wn__family_error(text);
	if (err || !has_keys(family, first, limit))
		return err;
	text = NULL;
	rocksdb_delete_range_cf(family->db, family->write_options, family->family, start,
				WN_BLOCK_ID_SIZE, limit, sizeof(limit), &text);
	return wn__family_error(text);
}

/* ---- put ---------------------------------------------------------------- */

/* The first 64 bits of the page's last hash. */
static uint64_t last_hash(const struct wn__keylist_header *header, const uint64_t *uppers,
			  uint64_t page)
{
	size_t count = wn__keylist_page_hashes(header, page);

	return count ? uppers[wn__keylist_page_first(page) + count - 1] : 0;
}

static int write_pages(rocksdb_sstfilewriter_t *writer, const struct wn__keylist_header *header,
		       const uint64_t *uppers)
{
	uint64_t count = wn__keylist_page_count(header);
	unsigned char bytes[WN__KEYLIST_PAGE_SIZE];
	char key[WN__FAMILY_KEY_SIZE], *text = NULL;

	for (uint64_t page = 0; page < count && !text; page++) {
		size_t size = wn__keylist_page_put(bytes, header, page, uppers);

		wn__family_key(header->list.id, last_hash(header, uppers, page), page, key);
		rocksdb_sstfilewriter_put(writer, key, sizeof(key), (const char *)bytes, size,
					  &text);
	}
	return wn__family_error(text);
}

/* RocksDB's writer truncates what it finds under the name: so that is an empty file that
 * was made just now, and nobody else's. */
static int reserve_name(const char *path)
{
	int fd, err = wn__file_create(AT_FDCWD, path, &fd);

	return err ? err : wn__file_finish(fd, 0, false);
}

/* A key list on its way into the store. */
struct arrival {
	struct wn__family_list *known;
	struct wn__keylist_put *put;
};

/* In the order of their ids, which is that of the keys. */
static int compare_arrivals(const void *a, const void *b)
{
	const struct arrival *left = a, *right = b;

	return memcmp(left->put->list->id, right->put->list->id, WN_BLOCK_ID_SIZE);
}

static int write_runs(rocksdb_sstfilewriter_t *writer, const struct arrival *arrivals,
		      size_t count)
{
	char *text = NULL;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = write_pages(writer, &arrivals[i].known->header, arrivals[i].put->uppers);
	if (!err)
		rocksdb_sstfilewriter_finish(writer, &text);
	return err ? err : wn__family_error(text);
}

static int write_file(struct wn__family_map *family, const struct arrival *arrivals, size_t count,
		      const char *path)
{
	rocksdb_sstfilewriter_t *writer =
		rocksdb_sstfilewriter_create(family->env_options, family->options);
	char *text = NULL;
	int err;

	rocksdb_sstfilewriter_open(writer, path, &text);
	err = wn__family_error(text);
	if (!err)
		err = write_runs(writer, arrivals, count);
	rocksdb_sstfilewriter_destroy(writer);
	return err;
}

static int ingest_file(struct wn__family_map *family, const char *path)
{
	const char *paths[] = {path};
	char *text = NULL;

	rocksdb_ingest_external_file_cf(family->db, family->family, paths, 1,
					family->ingest_options, &text);
	return wn__family_error(text);
}

/* Whatever happens, nothing is left in the directory. */
static int write_and_ingest(struct wn__family_map *family, const struct arrival *arrivals,
			    size_t count)
{
	char name[32], *path;
	int err;

	snprintf(name, sizeof(name), "run-%" PRIu64 ".sst", ++family->files);
	path = wn__join_path(family->directory, name);
	if (!path)
		return ENOMEM;
	err = reserve_name(path);
	if (!err) {
		err = write_file(family, arrivals, count, path);
		if (!err)
			err = ingest_file(family, path);
		unlink(path);
	}
	free(path);
	return err;
}

/* Another key list of the same id has other keys: its pages would stand between the new ones. */
static int make_way(struct wn__family_map *family, const struct wn__keylist_header *header)
{
	struct wn__family_list old;
	int err;

	if (!wn__family_known(family, header->list.id, &old) ||
	    (!old.error && old.header.digest == header->digest))
		return 0;
	err = delete_keys(family, header->list.id, header->list.id);
	if (!err)
		wn__family_forget(family, header->list.id);
	return err;
}

/* Those that can be put: the number of them. The others' errors are set. */
static size_t prepare(struct wn__family_map *family, struct wn__keylist_put *puts, size_t count,
		      struct arrival *arrivals)
{
	size_t ready = 0;

	for (size_t i = 0; i < count; i++) {
		struct wn__keylist_put *put = &puts[i];
		struct wn__family_list *known = put->err ? NULL : wn__calloc(1, sizeof(*known));

		if (put->err)
			continue;
		put->err = ENOMEM;
		if (!known)
			continue;
		wn__keylist_header_init(&known->header, put->list);
		put->err = make_way(family, &known->header);
		if (put->err)
			free(known);
		else
			arrivals[ready++] = (struct arrival){known, put};
	}
	return ready;
}

/* All in one file. */
static void put_arrivals(struct wn__family_map *family, struct arrival *arrivals, size_t count)
{
	int err;

	qsort(arrivals, count, sizeof(*arrivals), compare_arrivals);
	err = count ? write_and_ingest(family, arrivals, count) : 0;
	for (size_t i = 0; i < count; i++) {
		arrivals[i].put->err = err;
		if (err)
			free(arrivals[i].known);
		else
			arrivals[i].put->err = wn__family_remember(family, arrivals[i].known);
	}
}

static void fail_puts(struct wn__keylist_put *puts, size_t count, int err)
{
	for (size_t i = 0; i < count; i++) {
		if (!puts[i].err)
			puts[i].err = err;
	}
}

void wn__family_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	struct wn__family_map *family = wn__to_family(map);
	struct arrival *arrivals;

	if (!family->directory) {
		fail_puts(puts, count, WN_ERR_READONLY);
		return;
	}
	arrivals = wn__calloc(count, sizeof(*arrivals));
	if (!arrivals) {
		fail_puts(puts, count, ENOMEM);
		return;
	}
	wn__lock(&family->change, WN__LOCK_CHANGE);
	put_arrivals(family, arrivals, prepare(family, puts, count, arrivals));
	wn__unlock(&family->change);
	free(arrivals);
}

int wn__family_put(struct wn__map *map, const struct wn__keylist *list,
		   const uint64_t *uppers)
{
	struct wn__keylist_put put = {.list = list, .uppers = uppers};

	wn__family_put_many(map, &put, 1);
	return put.err;
}

/* ---- drop --------------------------------------------------------------- */

static int drop_range(struct wn__family_map *family, const unsigned char *first,
		      const unsigned char *last)
{
	return family->directory ? delete_keys(family, first, last) : WN_ERR_READONLY;
}

int wn__family_drop(struct wn__map *map, const unsigned char *id)
{
	struct wn__family_map *family = wn__to_family(map);
	struct wn__family_list known;
	int err;

	wn__lock(&family->change, WN__LOCK_CHANGE);
	err = wn__family_known(family, id, &known) ? drop_range(family, id, id) : WN_ERR_NOT_FOUND;
	if (!err)
		wn__family_forget(family, id);
	wn__unlock(&family->change);
	return err;
}

/* How many ids at the beginning share a prefix: the filters of one table, and nobody else's
 * are between them. */
static size_t count_together(const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count)
{
	size_t together = 1;

	while (together < count && memcmp(ids[together], ids[0], WN__ID_PREFIX_SIZE) == 0)
		together++;
	return together;
}

size_t wn__family_drop_many(struct wn__map *map,
			       const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count)
{
	struct wn__family_map *family = wn__to_family(map);
	size_t together, dropped = 0;
	struct wn__family_list known;

	wn__lock(&family->change, WN__LOCK_CHANGE);
	for (; count > 0; ids += together, count -= together) {
		together = count_together(ids, count);
		if (drop_range(family, ids[0], ids[together - 1]))
			continue;
		for (size_t i = 0; i < together; i++) {
			dropped += wn__family_known(family, ids[i], &known);
			wn__family_forget(family, ids[i]);
		}
	}
	wn__unlock(&family->change);
	return dropped;
}
