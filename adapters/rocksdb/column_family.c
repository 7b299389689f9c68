/* column_family.c - key lists in a column family of a RocksDB database.
 *
 * Each page of a key list is a value; its key is the filter's id, the beginning of the page's
 * last hash and the page's number. So RocksDB's index of the file, which it keeps in
 * memory, leads to the page that has a hash: a lookup reads one page. For that the index
 * must hold keys as they are; RocksDB shortens them by default, and would read the page in
 * front every other time.
 *
 * The key lists of a table are written as one SST file, or a few, and ingested. Their ids
 * begin alike and overlap no other table's: so the file lands in the last level and is
 * never compacted, and dropping the table's key lists is deleting that file.
 *
 * Here: keys, which key lists are there, opening and sweeping. The rest is in
 * column_family_read.c and column_family_write.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dirfd() */
#endif
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "column_family.h"
#include "column_family_internal.h"
#include "shim.h"

/* ---- keys and errors ---------------------------------------------------- */

static void put_be(char *at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (char)(value >> 8 * (bytes - 1 - i));
}

void wn__family_key(const unsigned char *id, uint64_t hash_hi, uint64_t page, char *key)
{
	memcpy(key, id, WN_BLOCK_ID_SIZE);
	put_be(key + WN_BLOCK_ID_SIZE, hash_hi, 8);
	put_be(key + WN__FAMILY_PAGE_AT, page, 4);
}

uint64_t wn__family_key_page(const char *key)
{
	uint64_t page = 0;

	for (unsigned i = WN__FAMILY_PAGE_AT; i < WN__FAMILY_KEY_SIZE; i++)
		page = page << 8 | (unsigned char)key[i];
	return page;
}

void wn__family_limit(const unsigned char *id, char *limit)
{
	memcpy(limit, id, WN_BLOCK_ID_SIZE);
	memset(limit + WN_BLOCK_ID_SIZE, 0xff, WN__FAMILY_LIMIT_SIZE - WN_BLOCK_ID_SIZE);
}

int wn__family_error(char *text)
{
	int err = EIO;

	if (!text)
		return 0;
	if (strncmp(text, "Corruption", strlen("Corruption")) == 0)
		err = WN_ERR_CORRUPT;
	else if (strstr(text, "read only") || strstr(text, "read-only"))
		err = WN_ERR_READONLY;
	else if (strstr(text, "No space left"))
		err = ENOSPC;
	rocksdb_free(text);
	return err;
}

/* ---- what is there ------------------------------------------------------ */

bool wn__family_known(struct wn__family_map *family, const unsigned char *id,
		     struct wn__family_list *knownp)
{
	const struct wn__family_list *known;

	wn__lock(&family->lock, WN__LOCK_LAST);
	known = wn__ids_find(&family->known, id);
	if (known)
		*knownp = *known;
	wn__unlock(&family->lock);
	return known;
}

static void account(struct wn__family_map *family, const struct wn__family_list *known,
		    uint64_t sign)
{
	if (known->error)
		return;
	wn__map_count(&family->base.stats.lists, sign);
	wn__map_count(&family->base.stats.bytes, sign * wn__keylist_size(&known->header));
}

void wn__family_forget(struct wn__family_map *family, const unsigned char *id)
{
	struct wn__family_list *known;

	wn__lock(&family->lock, WN__LOCK_LAST);
	known = wn__ids_remove(&family->known, id);
	wn__unlock(&family->lock);
	if (known)
		account(family, known, UINT64_MAX);
	free(known);
}

int wn__family_remember(struct wn__family_map *family, struct wn__family_list *known)
{
	int err;

	wn__family_forget(family, known->header.list.id);
	wn__lock(&family->lock, WN__LOCK_LAST);
	err = wn__ids_add(&family->known, known);
	wn__unlock(&family->lock);
	if (err)
		free(known);
	else
		account(family, known, 1);
	return err;
}

static struct wn__keylist_info info_of(const struct wn__family_list *known)
{
	struct wn__keylist_info info = {.error = known->error};

	if (!known->error)
		return wn__keylist_header_info(&known->header);
	memcpy(info.list.id, known->header.list.id, WN_BLOCK_ID_SIZE);
	return info;
}

static int family_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp)
{
	struct wn__family_map *family = wn__to_family(map);
	const struct wn__family_list *known;
	struct wn__keylist_info *infos;
	size_t place = 0, count = 0;

	wn__lock(&family->lock, WN__LOCK_LAST);
	infos = wn__calloc(family->known.count + 1, sizeof(*infos));
	while (infos && (known = wn__ids_next(&family->known, &place)))
		infos[count++] = info_of(known);
	wn__unlock(&family->lock);
	if (!infos)
		return ENOMEM;
	*infosp = infos;
	*countp = count;
	return 0;
}

/* ---- open and close ----------------------------------------------------- */

static bool is_scratch(const char *name)
{
	size_t size = strlen(name);

	return strncmp(name, "run-", 4) == 0 && size > 8 && strcmp(name + size - 4, ".sst") == 0;
}

/* Early versions moved files, and what their crash left may be a second name of a live
 * file: it must go, and is never written to. */
static int sweep_directory(const char *directory)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;
	int err = 0;

	if (!stream)
		return errno;
	for (errno = 0; !err && (entry = readdir(stream)); errno = 0) {
		if (is_scratch(entry->d_name) && unlinkat(dirfd(stream), entry->d_name, 0) < 0 &&
		    errno != ENOENT)
			err = errno;
	}
	if (!err)
		err = errno;
	closedir(stream);
	return err;
}

static int open_directory(struct wn__family_map *family, const char *directory)
{
	size_t size = directory ? strlen(directory) + 1 : 0;
	int err;

	if (!directory)
		return 0;
	family->directory = wn__alloc(size);
	if (!family->directory)
		return ENOMEM;
	memcpy(family->directory, directory, size);
	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return errno;
	err = sweep_directory(directory);
	return err ? err : wn__directory_is_ours(directory);
}

static void make_options(struct wn__family_map *family)
{
	family->options = rocksdb_options_create();
	rocksdb_options_set_compression(family->options, rocksdb_no_compression);
	wn__shim_index_whole_keys(family->options);
	family->env_options = rocksdb_envoptions_create();
	family->read_options = rocksdb_readoptions_create();
	family->write_options = rocksdb_writeoptions_create();
	family->ingest_options = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(family->ingest_options, 0);
	wn__shim_ingest_unchanged(family->ingest_options);
}

static void family_destroy(struct wn__map *map)
{
	struct wn__family_map *family = wn__to_family(map);
	struct wn__family_list *known;
	size_t place = 0;

	rocksdb_options_destroy(family->options);
	rocksdb_envoptions_destroy(family->env_options);
	rocksdb_readoptions_destroy(family->read_options);
	rocksdb_writeoptions_destroy(family->write_options);
	rocksdb_ingestexternalfileoptions_destroy(family->ingest_options);
	while ((known = wn__ids_next(&family->known, &place)))
		free(known);
	wn__ids_fini(&family->known);
	pthread_mutex_destroy(&family->lock);
	pthread_mutex_destroy(&family->change);
	free(family->directory);
	free(family);
}

/* What the first key found of a key list, and its value, say of it. Early versions had keys
 * without the hash: their key lists cannot be searched, and are dropped by those who list them. */
static int read_known(const char *key, size_t key_size, const unsigned char *value, size_t size,
		      struct wn__family_list *known)
{
	unsigned char id[WN_BLOCK_ID_SIZE] = {0};

	memcpy(id, key, key_size < sizeof(id) ? key_size : sizeof(id));
	if (key_size == WN_BLOCK_ID_SIZE + 4)
		known->error = WN_ERR_VERSION;
	else if (key_size != WN__FAMILY_KEY_SIZE || wn__family_key_page(key) != 0 ||
		 size < WN__KEYLIST_HEADER_SIZE)
		known->error = WN_ERR_CORRUPT;
	else
		known->error = wn__keylist_header_get(value, &known->header);
	if (!known->error && memcmp(known->header.list.id, id, sizeof(id)) != 0)
		known->error = WN_ERR_MISMATCH;
	memcpy(known->header.list.id, id, sizeof(id));
	return known->error;
}

static int remember_current(struct wn__family_map *family, rocksdb_iterator_t *iterator,
			    unsigned char *id)
{
	struct wn__family_list *known = wn__calloc(1, sizeof(*known));
	size_t key_size, size;
	const char *key = rocksdb_iter_key(iterator, &key_size);
	const char *value = rocksdb_iter_value(iterator, &size);

	if (!known)
		return ENOMEM;
	read_known(key, key_size, (const unsigned char *)value, size, known);
	memcpy(id, known->header.list.id, WN_BLOCK_ID_SIZE);
	return wn__family_remember(family, known);
}

/* Which key lists there are already: their first pages are read here, and then no longer. */
static int find_runs(struct wn__family_map *family)
{
	rocksdb_iterator_t *iterator =
		rocksdb_create_iterator_cf(family->db, family->read_options, family->family);
	unsigned char id[WN_BLOCK_ID_SIZE] = {0};
	char limit[WN__FAMILY_LIMIT_SIZE], *text = NULL;
	int err = 0;

	rocksdb_iter_seek_to_first(iterator);
	while (!err && rocksdb_iter_valid(iterator)) {
		err = remember_current(family, iterator, id);
		wn__family_limit(id, limit);
		rocksdb_iter_seek(iterator, limit, sizeof(limit));
	}
	rocksdb_iter_get_error(iterator, &text);
	if (!err)
		err = wn__family_error(text);
	else
		rocksdb_free(text);
	rocksdb_iter_destroy(iterator);
	return err;
}

static const struct wn__map_ops family_ops = {
	.put = wn__family_put,
	.lookup = wn__family_lookup,
	.stream = wn__family_stream,
	.drop = wn__family_drop,
	.put_many = wn__family_put_many,
	.drop_many = wn__family_drop_many,
	.list = family_list,
	.destroy = family_destroy,
};

int wn__map_column_family_open(rocksdb_t *db, rocksdb_column_family_handle_t *handle,
				const char *directory, struct wn__map **mapp)
{
	struct wn__family_map *family = wn__calloc(1, sizeof(*family));
	int err;

	*mapp = NULL;
	if (!family)
		return ENOMEM;
	family->base.ops = &family_ops;
	family->db = db;
	family->family = handle;
	pthread_mutex_init(&family->change, NULL);
	pthread_mutex_init(&family->lock, NULL);
	make_options(family);
	err = open_directory(family, directory);
	if (!err)
		err = find_runs(family);
	if (err) {
		family_destroy(&family->base);
		return err;
	}
	*mapp = &family->base;
	return 0;
}
