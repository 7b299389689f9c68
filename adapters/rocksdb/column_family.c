/* column_family.c - runs in a column family of a RocksDB database.
 *
 * Each page of a run is a value; its key is the filter's id, the beginning of the page's
 * last hash and the page's number. So RocksDB's index of the file, which it keeps in
 * memory, leads to the page that has a hash: a lookup reads one page. For that the index
 * must hold keys as they are; RocksDB shortens them by default, and would read the page in
 * front every other time.
 *
 * The runs of a table are written as one SST file, or a few, and ingested. Their ids
 * begin alike and overlap no other table's: so the file lands in the last level and is
 * never compacted, and dropping the table's runs is deleting that file.
 *
 * RocksDB copies the file. To move it would make a hard link and leave both names until
 * ours is removed: a crash in between, and a name in our directory leads to a live file
 * of the database. Whoever empties that directory, or writes under that name, would
 * destroy it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECTORY and friends */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"
#include "base/alloc.h"
#include "kinds/block_build.h"
#include "column_family.h"
#include "base/file.h"
#include "base/ids.h"
#include "reversemap/pages.h"

/* The filter's id, the first 64 bits of the page's last hash, the page's number: all with
 * the most significant byte first. */
#define PAGE_AT (WN_BLOCK_ID_SIZE + 8)
#define KEY_SIZE (PAGE_AT + 4)
#define LIMIT_SIZE (KEY_SIZE + 1) /* a key behind all of a run's */

/* What is known of a run in the store, so that a lookup reads the page it looks for and
 * no other: some 100 bytes a run, with its place in the table. */
struct known_run {
	struct wn__keylist_header header; /* begins with the id */
	int error;                    /* it cannot be read; the header has the id alone */
};

struct family_runs {
	struct wn__map base;
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family;
	rocksdb_options_t *options;
	rocksdb_envoptions_t *env_options;
	rocksdb_readoptions_t *read_options;
	rocksdb_writeoptions_t *write_options;
	rocksdb_ingestexternalfileoptions_t *ingest_options;
	pthread_mutex_t change; /* one put or drop at a time: the accounts stay right */
	uint64_t files;         /* written so far */
	char *directory;        /* NULL: read only */
	pthread_mutex_t lock;   /* over `known`, which those who hold `change` may read without */
	struct wn__ids known;
};

static struct family_runs *to_family(struct wn__map *map)
{
	return (struct family_runs *)map;
}

/* ---- keys and errors ---------------------------------------------------- */

static void put_be(char *at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (char)(value >> 8 * (bytes - 1 - i));
}

static void make_key(const unsigned char *id, uint64_t hash_hi, uint64_t page, char *key)
{
	memcpy(key, id, WN_BLOCK_ID_SIZE);
	put_be(key + WN_BLOCK_ID_SIZE, hash_hi, 8);
	put_be(key + PAGE_AT, page, 4);
}

static uint64_t page_of_key(const char *key)
{
	uint64_t page = 0;

	for (unsigned i = PAGE_AT; i < KEY_SIZE; i++)
		page = page << 8 | (unsigned char)key[i];
	return page;
}

static void make_limit(const unsigned char *id, char *limit)
{
	memcpy(limit, id, WN_BLOCK_ID_SIZE);
	memset(limit + WN_BLOCK_ID_SIZE, 0xff, LIMIT_SIZE - WN_BLOCK_ID_SIZE);
}

/* RocksDB's C interface tells errors as text. NULL is no error; the text is freed. */
static int take_error(char *text)
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

static bool is_known(struct family_runs *family, const unsigned char *id,
		     struct known_run *knownp)
{
	const struct known_run *known;

	pthread_mutex_lock(&family->lock);
	known = wn__ids_find(&family->known, id);
	if (known)
		*knownp = *known;
	pthread_mutex_unlock(&family->lock);
	return known;
}

static void account(struct family_runs *family, const struct known_run *known, uint64_t sign)
{
	if (known->error)
		return;
	wn__map_count(&family->base.stats.map, sign);
	wn__map_count(&family->base.stats.bytes, sign * wn__keylist_size(&known->header));
}

static void forget_run(struct family_runs *family, const unsigned char *id)
{
	struct known_run *known;

	pthread_mutex_lock(&family->lock);
	known = wn__ids_remove(&family->known, id);
	pthread_mutex_unlock(&family->lock);
	if (known)
		account(family, known, UINT64_MAX);
	free(known);
}

/* `known` is taken, or freed on failure. Another of the same id is forgotten. */
static int remember_run(struct family_runs *family, struct known_run *known)
{
	int err;

	forget_run(family, known->header.list.id);
	pthread_mutex_lock(&family->lock);
	err = wn__ids_add(&family->known, known);
	pthread_mutex_unlock(&family->lock);
	if (err)
		free(known);
	else
		account(family, known, 1);
	return err;
}

/* ---- read --------------------------------------------------------------- */

/* A run that is being read. */
struct reading {
	struct family_runs *family;
	rocksdb_iterator_t *iterator;
	const unsigned char *id;
};

/* The page under the iterator, of the size that it must have. WN_ERR_NOT_FOUND: there is none
 * of this run. */
static int take_current(const struct reading *reading, const struct wn__keylist_header *header,
			const unsigned char **bytesp, uint64_t *pagep)
{
	size_t key_size, size;
	const char *key;
	char *text = NULL;

	*bytesp = NULL;
	*pagep = 0;
	if (!rocksdb_iter_valid(reading->iterator)) {
		int err;

		rocksdb_iter_get_error(reading->iterator, &text);
		err = take_error(text);
		return err ? err : WN_ERR_NOT_FOUND;
	}
	key = rocksdb_iter_key(reading->iterator, &key_size);
	if (key_size < WN_BLOCK_ID_SIZE || memcmp(key, reading->id, WN_BLOCK_ID_SIZE) != 0)
		return WN_ERR_NOT_FOUND;
	if (key_size != KEY_SIZE)
		return WN_ERR_CORRUPT;
	*pagep = page_of_key(key);
	*bytesp = (const unsigned char *)rocksdb_iter_value(reading->iterator, &size);
	if (*pagep >= wn__keylist_page_count(header) ||
	    size != wn__keylist_page_size(header, *pagep))
		return WN_ERR_CORRUPT;
	return 0;
}

static int seek_page(void *arg, const struct wn__keylist_header *header, uint64_t hash_hi,
		     const unsigned char **bytesp, uint64_t *pagep)
{
	struct reading *reading = arg;
	char key[KEY_SIZE];

	make_key(reading->id, hash_hi, 0, key);
	rocksdb_iter_seek(reading->iterator, key, sizeof(key));
	return take_current(reading, header, bytesp, pagep);
}

/* Pages are asked for one after the other, or beside the one that was sought. */
static int bring_page(void *arg, const struct wn__keylist_header *header, uint64_t page,
		      unsigned char *buffer, const unsigned char **bytesp)
{
	struct reading *reading = arg;
	uint64_t at;
	int err = take_current(reading, header, bytesp, &at);

	(void)buffer;
	if (err == WN_ERR_NOT_FOUND)
		err = seek_page(arg, header, 0, bytesp, &at);
	while (!err && at != page) {
		uint64_t last = at;

		if (at < page)
			rocksdb_iter_next(reading->iterator);
		else
			rocksdb_iter_prev(reading->iterator);
		err = take_current(reading, header, bytesp, &at);
		/* Pages are in order, and none is missing; if the run was dropped a moment
		 * ago, all are. */
		if (!err && at != (last < page ? last + 1 : last - 1))
			err = WN_ERR_CORRUPT;
	}
	return err;
}

static int start_reading(struct family_runs *family, const unsigned char *id,
			 struct reading *reading, struct wn__keylist_pages *pages)
{
	struct known_run known;

	if (!is_known(family, id, &known))
		return WN_ERR_NOT_FOUND;
	if (known.error)
		return known.error;
	*reading = (struct reading){.family = family, .id = id};
	reading->iterator =
		rocksdb_create_iterator_cf(family->db, family->read_options, family->family);
	*pages = (struct wn__keylist_pages){
		.header = known.header, .read = bring_page, .seek = seek_page, .arg = reading};
	return 0;
}

static int family_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			 uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			 size_t *countp)
{
	struct wn__keylist_pages pages;
	struct reading reading;
	int err = start_reading(to_family(map), list->id, &reading, &pages);

	if (err)
		return err;
	err = wn__keylist_pages_lookup(&pages, list, minirun, rank, entries, max, countp);
	wn__map_count(&map->stats.reads, pages.reads);
	rocksdb_iter_destroy(reading.iterator);
	return err;
}

static int family_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
			 void *arg)
{
	struct wn__keylist_pages pages;
	struct reading reading;
	int err = start_reading(to_family(map), id, &reading, &pages);

	if (err)
		return err;
	err = wn__keylist_pages_stream(&pages, fn, arg);
	wn__map_count(&map->stats.reads, pages.reads);
	rocksdb_iter_destroy(reading.iterator);
	return err;
}

/* ---- delete ------------------------------------------------------------- */

/* Is there a key of these runs, or of one between them? */
static bool has_keys(struct family_runs *family, const unsigned char *first, const char *limit)
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

/* The keys of the runs from one id to another. Files that hold nothing else go at once.
 * Keys that are left, as in a file that was compacted after all or holds other runs as
 * well, are covered by a tombstone. */
static int delete_keys(struct family_runs *family, const unsigned char *first,
		       const unsigned char *last)
{
	char limit[LIMIT_SIZE], *text = NULL;
	const char *start = (const char *)first;
	int err;

	make_limit(last, limit);
	rocksdb_delete_file_in_range_cf(family->db, family->family, start, WN_BLOCK_ID_SIZE, limit,
					sizeof(limit), &text);
	err = take_error(text);
	if (err || !has_keys(family, first, limit))
		return err;
	text = NULL;
	rocksdb_delete_range_cf(family->db, family->write_options, family->family, start,
				WN_BLOCK_ID_SIZE, limit, sizeof(limit), &text);
	return take_error(text);
}

/* ---- put ---------------------------------------------------------------- */

/* The first 64 bits of the page's last hash. */
static uint64_t last_hash(const struct wn__keylist_header *header, const struct wn_hash *hashes,
			  uint64_t page)
{
	size_t count = wn__keylist_page_hashes(header, page);

	return count ? hashes[wn__keylist_page_first(header, page) + count - 1].hi : 0;
}

static int write_pages(rocksdb_sstfilewriter_t *writer, const struct wn__keylist_header *header,
		       const struct wn_hash *hashes)
{
	uint64_t count = wn__keylist_page_count(header);
	unsigned char bytes[WN__KEYLIST_PAGE_SIZE];
	char key[KEY_SIZE], *text = NULL;

	for (uint64_t page = 0; page < count && !text; page++) {
		size_t size = wn__keylist_page_put(bytes, header, page, hashes);

		make_key(header->list.id, last_hash(header, hashes, page), page, key);
		rocksdb_sstfilewriter_put(writer, key, sizeof(key), (const char *)bytes, size,
					  &text);
	}
	return take_error(text);
}

/* RocksDB's writer truncates what it finds under the name: so that is an empty file that
 * was made just now, and nobody else's. */
static int reserve_name(const char *path)
{
	int fd, err = wn__file_create(AT_FDCWD, path, &fd);

	if (!err && close(fd) < 0)
		err = errno;
	return err;
}

/* A run on its way into the store. */
struct arrival {
	struct known_run *known;
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
		err = write_pages(writer, &arrivals[i].known->header, arrivals[i].put->hashes);
	if (!err)
		rocksdb_sstfilewriter_finish(writer, &text);
	return err ? err : take_error(text);
}

static int write_file(struct family_runs *family, const struct arrival *arrivals, size_t count,
		      const char *path)
{
	rocksdb_sstfilewriter_t *writer =
		rocksdb_sstfilewriter_create(family->env_options, family->options);
	char *text = NULL;
	int err;

	rocksdb_sstfilewriter_open(writer, path, &text);
	err = take_error(text);
	if (!err)
		err = write_runs(writer, arrivals, count);
	rocksdb_sstfilewriter_destroy(writer);
	return err;
}

static int ingest_file(struct family_runs *family, const char *path)
{
	const char *paths[] = {path};
	char *text = NULL;

	rocksdb_ingest_external_file_cf(family->db, family->family, paths, 1,
					family->ingest_options, &text);
	return take_error(text);
}

/* Whatever happens, nothing is left in the directory. */
static int write_and_ingest(struct family_runs *family, const struct arrival *arrivals,
			    size_t count)
{
	size_t size = strlen(family->directory) + 32;
	char *path = wn__alloc(size);
	int err;

	if (!path)
		return ENOMEM;
	snprintf(path, size, "%s/run-%" PRIu64 ".sst", family->directory, ++family->files);
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

/* Another run of the same id has other keys: its pages would stand between the new ones. */
static int make_way(struct family_runs *family, const struct wn__keylist_header *header)
{
	struct known_run old;
	int err;

	if (!is_known(family, header->list.id, &old) ||
	    (!old.error && old.header.digest == header->digest))
		return 0;
	err = delete_keys(family, header->list.id, header->list.id);
	if (!err)
		forget_run(family, header->list.id);
	return err;
}

/* Those that can be put: the number of them. The others' errors are set. */
static size_t prepare(struct family_runs *family, struct wn__keylist_put *puts, size_t count,
		      struct arrival *arrivals)
{
	size_t ready = 0;

	for (size_t i = 0; i < count; i++) {
		struct wn__keylist_put *put = &puts[i];
		struct known_run *known = put->err ? NULL : wn__calloc(1, sizeof(*known));

		if (put->err)
			continue;
		put->err = ENOMEM;
		if (!known)
			continue;
		wn__keylist_header_init(&known->header, put->list, put->hash_bytes);
		put->err = make_way(family, &known->header);
		if (put->err)
			free(known);
		else
			arrivals[ready++] = (struct arrival){known, put};
	}
	return ready;
}

/* All in one file. */
static void put_arrivals(struct family_runs *family, struct arrival *arrivals, size_t count)
{
	int err;

	qsort(arrivals, count, sizeof(*arrivals), compare_arrivals);
	err = count ? write_and_ingest(family, arrivals, count) : 0;
	for (size_t i = 0; i < count; i++) {
		arrivals[i].put->err = err;
		if (err)
			free(arrivals[i].known);
		else
			arrivals[i].put->err = remember_run(family, arrivals[i].known);
	}
}

static void fail_puts(struct wn__keylist_put *puts, size_t count, int err)
{
	for (size_t i = 0; i < count; i++) {
		if (!puts[i].err)
			puts[i].err = err;
	}
}

static void family_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count)
{
	struct family_runs *family = to_family(map);
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
	pthread_mutex_lock(&family->change);
	put_arrivals(family, arrivals, prepare(family, puts, count, arrivals));
	pthread_mutex_unlock(&family->change);
	free(arrivals);
}

static int family_put(struct wn__map *map, const struct wn__keylist *list,
		      const struct wn_hash *hashes, unsigned hash_bytes)
{
	struct wn__keylist_put put = {.list = list, .hashes = hashes, .hash_bytes = hash_bytes};

	family_put_many(map, &put, 1);
	return put.err;
}

/* ---- drop and list ------------------------------------------------------ */

static int drop_range(struct family_runs *family, const unsigned char *first,
		      const unsigned char *last)
{
	return family->directory ? delete_keys(family, first, last) : WN_ERR_READONLY;
}

static int family_drop(struct wn__map *map, const unsigned char *id)
{
	struct family_runs *family = to_family(map);
	struct known_run known;
	int err;

	pthread_mutex_lock(&family->change);
	err = is_known(family, id, &known) ? drop_range(family, id, id) : WN_ERR_NOT_FOUND;
	if (!err)
		forget_run(family, id);
	pthread_mutex_unlock(&family->change);
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

static size_t family_drop_many(struct wn__map *map,
			       const unsigned char (*ids)[WN_BLOCK_ID_SIZE], size_t count)
{
	struct family_runs *family = to_family(map);
	size_t together, dropped = 0;
	struct known_run known;

	pthread_mutex_lock(&family->change);
	for (; count > 0; ids += together, count -= together) {
		together = count_together(ids, count);
		if (drop_range(family, ids[0], ids[together - 1]))
			continue;
		for (size_t i = 0; i < together; i++) {
			dropped += is_known(family, ids[i], &known);
			forget_run(family, ids[i]);
		}
	}
	pthread_mutex_unlock(&family->change);
	return dropped;
}

static struct wn__keylist_info info_of(const struct known_run *known)
{
	struct wn__keylist_info info = {.error = known->error};

	if (!known->error)
		return wn__keylist_header_info(&known->header);
	memcpy(info.list.id, known->header.list.id, WN_BLOCK_ID_SIZE);
	return info;
}

static int family_list(struct wn__map *map, struct wn__keylist_info **infosp, size_t *countp)
{
	struct family_runs *family = to_family(map);
	const struct known_run *known;
	struct wn__keylist_info *infos;
	size_t place = 0, count = 0;

	pthread_mutex_lock(&family->lock);
	infos = wn__calloc(family->known.count + 1, sizeof(*infos));
	while (infos && (known = wn__ids_next(&family->known, &place)))
		infos[count++] = info_of(known);
	pthread_mutex_unlock(&family->lock);
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

static int open_directory(struct family_runs *family, const char *directory)
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

static void make_options(struct family_runs *family)
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
	struct family_runs *family = to_family(map);
	struct known_run *known;
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

/* What the first key found of a run, and its value, say of it. Early versions had keys
 * without the hash: their runs cannot be searched, and are dropped by those who list them. */
static int read_known(const char *key, size_t key_size, const unsigned char *value, size_t size,
		      struct known_run *known)
{
	unsigned char id[WN_BLOCK_ID_SIZE] = {0};

	memcpy(id, key, key_size < sizeof(id) ? key_size : sizeof(id));
	if (key_size == WN_BLOCK_ID_SIZE + 4)
		known->error = WN_ERR_VERSION;
	else if (key_size != KEY_SIZE || page_of_key(key) != 0 || size < WN__KEYLIST_HEADER_SIZE)
		known->error = WN_ERR_CORRUPT;
	else
		known->error = wn__keylist_header_get(value, &known->header);
	if (!known->error && memcmp(known->header.list.id, id, sizeof(id)) != 0)
		known->error = WN_ERR_MISMATCH;
	memcpy(known->header.list.id, id, sizeof(id));
	return known->error;
}

static int remember_current(struct family_runs *family, rocksdb_iterator_t *iterator,
			    unsigned char *id)
{
	struct known_run *known = wn__calloc(1, sizeof(*known));
	size_t key_size, size;
	const char *key = rocksdb_iter_key(iterator, &key_size);
	const char *value = rocksdb_iter_value(iterator, &size);

	if (!known)
		return ENOMEM;
	read_known(key, key_size, (const unsigned char *)value, size, known);
	memcpy(id, known->header.list.id, WN_BLOCK_ID_SIZE);
	return remember_run(family, known);
}

/* Which runs there are already: their first pages are read here, and then no longer. */
static int find_runs(struct family_runs *family)
{
	rocksdb_iterator_t *iterator =
		rocksdb_create_iterator_cf(family->db, family->read_options, family->family);
	unsigned char id[WN_BLOCK_ID_SIZE] = {0};
	char limit[LIMIT_SIZE], *text = NULL;
	int err = 0;

	rocksdb_iter_seek_to_first(iterator);
	while (!err && rocksdb_iter_valid(iterator)) {
		err = remember_current(family, iterator, id);
		make_limit(id, limit);
		rocksdb_iter_seek(iterator, limit, sizeof(limit));
	}
	rocksdb_iter_get_error(iterator, &text);
	if (!err)
		err = take_error(text);
	else
		rocksdb_free(text);
	rocksdb_iter_destroy(iterator);
	return err;
}

static const struct wn__map_ops family_ops = {
	.put = family_put,
	.lookup = family_lookup,
	.stream = family_stream,
	.drop = family_drop,
	.put_many = family_put_many,
	.drop_many = family_drop_many,
	.list = family_list,
	.destroy = family_destroy,
};

int wn__map_column_family_open(rocksdb_t *db, rocksdb_column_family_handle_t *handle,
				const char *directory, struct wn__map **runsp)
{
	struct family_runs *family = wn__calloc(1, sizeof(*family));
	int err;

	*runsp = NULL;
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
	*runsp = &family->base;
	return 0;
}
