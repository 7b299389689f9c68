/* column_family.c - runs in a column family of a RocksDB database.
 *
 * Each page of a run is a value; its key is the filter's id and the page's number,
 * four bytes, the highest first. A run is written as one SST file and ingested: its
 * keys overlap no other run's, so the file lands in the last level and is never
 * compacted, and dropping the run is deleting that file. */
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

#include "alloc.h"
#include "column_family.h"
#include "run_pages.h"

#define KEY_SIZE (WN_BLOCK_ID_SIZE + 4)
#define LIMIT_SIZE (KEY_SIZE + 1) /* a key behind all of a run's */

struct family_runs {
	struct wn__runs base;
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
};

static struct family_runs *to_family(struct wn__runs *runs)
{
	return (struct family_runs *)runs;
}

/* ---- keys and errors ---------------------------------------------------- */

static void make_key(const unsigned char *id, uint64_t page, char *key)
{
	memcpy(key, id, WN_BLOCK_ID_SIZE);
	for (unsigned i = 0; i < 4; i++)
		key[WN_BLOCK_ID_SIZE + i] = (char)(page >> 8 * (3 - i));
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

/* ---- read --------------------------------------------------------------- */

/* A page's value into `buffer`; it must be of the size given. */
static int get_page(struct family_runs *family, const unsigned char *id, uint64_t page,
		    unsigned char *buffer, size_t minimum, size_t *sizep)
{
	rocksdb_pinnableslice_t *slice;
	char key[KEY_SIZE], *text = NULL;
	const char *value;
	int err;

	make_key(id, page, key);
	*sizep = 0;
	slice = rocksdb_get_pinned_cf(family->db, family->read_options, family->family, key,
				      sizeof(key), &text);
	err = take_error(text);
	if (err || !slice)
		return err ? err : WN_ERR_NOT_FOUND;
	value = rocksdb_pinnableslice_value(slice, sizep);
	if (*sizep < minimum || *sizep > WN__RUN_PAGE_SIZE)
		err = WN_ERR_CORRUPT;
	else
		memcpy(buffer, value, *sizep);
	rocksdb_pinnableslice_destroy(slice);
	return err;
}

/* A run that is being read. Page 0 is kept: it comes with the header. */
struct reading {
	struct family_runs *family;
	unsigned char first[WN__RUN_PAGE_SIZE];
	size_t first_size;
};

static int bring_page(void *arg, const struct wn__run_header *header, uint64_t page,
		      unsigned char *buffer, const unsigned char **bytesp)
{
	struct reading *reading = arg;
	size_t expected = wn__run_page_size(header, page), size = reading->first_size;
	int err = 0;

	*bytesp = page == 0 ? reading->first : buffer;
	if (page != 0)
		err = get_page(reading->family, header->run.id, page, buffer, expected, &size);
	/* A page that is not there: the run was dropped a moment ago. */
	if (!err && size != expected)
		err = WN_ERR_CORRUPT;
	return err;
}

static int start_reading(struct family_runs *family, const unsigned char *id,
			 struct reading *reading, struct wn__run_pages *pages)
{
	int err;

	reading->family = family;
	*pages = (struct wn__run_pages){.read = bring_page, .arg = reading};
	err = get_page(family, id, 0, reading->first, WN__RUN_HEADER_SIZE, &reading->first_size);
	if (!err)
		err = wn__run_header_get(reading->first, &pages->header);
	if (!err && memcmp(pages->header.run.id, id, WN_BLOCK_ID_SIZE) != 0)
		err = WN_ERR_MISMATCH;
	return err;
}

static int family_lookup(struct wn__runs *runs, const struct wn__run *run, uint64_t minirun,
			 uint32_t rank, struct wn__run_entry *entryp)
{
	struct wn__run_pages pages;
	struct reading reading;
	int err = start_reading(to_family(runs), run->id, &reading, &pages);

	if (err)
		return err;
	err = wn__run_pages_lookup(&pages, run, minirun, rank, entryp);
	wn__runs_count(&runs->stats.reads, pages.reads + 1);
	return err;
}

static int family_stream(struct wn__runs *runs, const unsigned char *id, wn__run_visit_fn *fn,
			 void *arg)
{
	struct wn__run_pages pages;
	struct reading reading;
	int err = start_reading(to_family(runs), id, &reading, &pages);

	if (err)
		return err;
	err = wn__run_pages_stream(&pages, fn, arg);
	wn__runs_count(&runs->stats.reads, pages.reads);
	return err;
}

/* ---- put ---------------------------------------------------------------- */

static int write_pages(rocksdb_sstfilewriter_t *writer, const struct wn__run_header *header,
		       const struct wn_hash *hashes)
{
	uint64_t count = wn__run_page_count(header);
	unsigned char bytes[WN__RUN_PAGE_SIZE];
	char key[KEY_SIZE], *text = NULL;

	for (uint64_t page = 0; page < count && !text; page++) {
		size_t size = wn__run_page_put(bytes, header, page, hashes);

		make_key(header->run.id, page, key);
		rocksdb_sstfilewriter_put(writer, key, sizeof(key), (const char *)bytes, size,
					  &text);
	}
	if (!text)
		rocksdb_sstfilewriter_finish(writer, &text);
	return take_error(text);
}

static int write_file(struct family_runs *family, const struct wn__run_header *header,
		      const struct wn_hash *hashes, const char *path)
{
	rocksdb_sstfilewriter_t *writer =
		rocksdb_sstfilewriter_create(family->env_options, family->options);
	char *text = NULL;
	int err;

	rocksdb_sstfilewriter_open(writer, path, &text);
	err = take_error(text);
	if (!err)
		err = write_pages(writer, header, hashes);
	rocksdb_sstfilewriter_destroy(writer);
	return err;
}

static void account(struct family_runs *family, const struct wn__run_header *header, uint64_t sign)
{
	wn__runs_count(&family->base.stats.runs, sign);
	wn__runs_count(&family->base.stats.bytes, sign * wn__run_size(header));
}

/* The run's header, if it has one that can be read. */
static bool get_header(struct family_runs *family, const unsigned char *id,
		       struct wn__run_header *headerp)
{
	struct wn__run_pages pages;
	struct reading reading;
	int err = start_reading(family, id, &reading, &pages);

	*headerp = pages.header;
	return !err;
}

static int ingest_file(struct family_runs *family, const struct wn__run_header *header,
		       const char *path)
{
	const char *paths[] = {path};
	struct wn__run_header old;
	bool had = get_header(family, header->run.id, &old);
	char *text = NULL;
	int err;

	rocksdb_ingest_external_file_cf(family->db, family->family, paths, 1,
					family->ingest_options, &text);
	err = take_error(text);
	if (err)
		return err;
	if (had)
		account(family, &old, UINT64_MAX);
	account(family, header, 1);
	return 0;
}

static int family_put(struct wn__runs *runs, const struct wn__run *run,
		      const struct wn_hash *hashes, unsigned hash_bytes)
{
	struct family_runs *family = to_family(runs);
	size_t size = family->directory ? strlen(family->directory) + 32 : 0;
	char *path = size ? wn__alloc(size) : NULL;
	struct wn__run_header header;
	int err;

	if (!path)
		return size ? ENOMEM : WN_ERR_READONLY;
	wn__run_header_init(&header, run, hash_bytes);
	pthread_mutex_lock(&family->change);
	snprintf(path, size, "%s/run-%" PRIu64 ".sst", family->directory, ++family->files);
	err = write_file(family, &header, hashes, path);
	if (!err)
		err = ingest_file(family, &header, path);
	unlink(path); /* ingesting moved it, or left a second name, or failed */
	pthread_mutex_unlock(&family->change);
	free(path);
	return err;
}

/* ---- drop and list ------------------------------------------------------ */

/* Files that hold the run and nothing else go at once. Keys that are left, as in a
 * file that was compacted after all, are covered by a tombstone. */
static int delete_keys(struct family_runs *family, const unsigned char *id)
{
	char start[KEY_SIZE], limit[LIMIT_SIZE], *text = NULL;
	unsigned char buffer[WN__RUN_PAGE_SIZE];
	size_t size;
	int err;

	make_key(id, 0, start);
	make_limit(id, limit);
	rocksdb_delete_file_in_range_cf(family->db, family->family, start, sizeof(start), limit,
					sizeof(limit), &text);
	err = take_error(text);
	if (err || get_page(family, id, 0, buffer, 0, &size) == WN_ERR_NOT_FOUND)
		return err;
	text = NULL;
	rocksdb_delete_range_cf(family->db, family->write_options, family->family, start,
				sizeof(start), limit, sizeof(limit), &text);
	return take_error(text);
}

static int family_drop(struct wn__runs *runs, const unsigned char *id)
{
	struct family_runs *family = to_family(runs);
	unsigned char buffer[WN__RUN_PAGE_SIZE];
	struct wn__run_header header;
	size_t size;
	bool had;
	int err;

	if (!family->directory)
		return WN_ERR_READONLY;
	pthread_mutex_lock(&family->change);
	had = get_header(family, id, &header);
	err = had ? 0 : get_page(family, id, 0, buffer, 0, &size);
	if (err != WN_ERR_NOT_FOUND)
		err = delete_keys(family, id);
	if (had && !err)
		account(family, &header, UINT64_MAX);
	pthread_mutex_unlock(&family->change);
	return err;
}

/* What the first key found of a run, and its value, say of it. */
static struct wn__run_info read_info(const char *key, size_t key_size, const char *value,
				     size_t size)
{
	struct wn__run_info info = {.error = WN_ERR_CORRUPT};
	char first[KEY_SIZE];
	struct wn__run_header header;

	memcpy(info.run.id, key, key_size < WN_BLOCK_ID_SIZE ? key_size : WN_BLOCK_ID_SIZE);
	make_key(info.run.id, 0, first);
	if (key_size != KEY_SIZE || memcmp(key, first, KEY_SIZE) != 0 || size < WN__RUN_HEADER_SIZE)
		return info;
	info.error = wn__run_header_get((const unsigned char *)value, &header);
	if (!info.error && memcmp(header.run.id, info.run.id, WN_BLOCK_ID_SIZE) != 0)
		info.error = WN_ERR_MISMATCH;
	return info.error ? info : wn__run_header_info(&header);
}

static int list_from(rocksdb_iterator_t *iterator, struct wn__run_infos *list)
{
	char limit[LIMIT_SIZE], *text = NULL;

	rocksdb_iter_seek_to_first(iterator);
	while (rocksdb_iter_valid(iterator)) {
		size_t key_size, size;
		const char *key = rocksdb_iter_key(iterator, &key_size);
		const char *value = rocksdb_iter_value(iterator, &size);
		struct wn__run_info info = read_info(key, key_size, value, size);
		int err = wn__run_infos_add(list, &info);

		if (err)
			return err;
		make_limit(info.run.id, limit);
		rocksdb_iter_seek(iterator, limit, sizeof(limit));
	}
	rocksdb_iter_get_error(iterator, &text);
	return take_error(text);
}

static int family_list(struct wn__runs *runs, struct wn__run_info **infosp, size_t *countp)
{
	struct family_runs *family = to_family(runs);
	rocksdb_iterator_t *iterator =
		rocksdb_create_iterator_cf(family->db, family->read_options, family->family);
	struct wn__run_infos list = {NULL, 0, 0};
	int err = list_from(iterator, &list);

	rocksdb_iter_destroy(iterator);
	if (err) {
		free(list.infos);
		return err;
	}
	*infosp = list.infos;
	*countp = list.count;
	return 0;
}

/* ---- open and close ----------------------------------------------------- */

static int sweep_directory(const char *directory)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	if (!stream)
		return errno;
	while ((entry = readdir(stream))) {
		size_t size = strlen(entry->d_name);

		if (strncmp(entry->d_name, "run-", 4) == 0 && size > 8 &&
		    strcmp(entry->d_name + size - 4, ".sst") == 0)
			unlinkat(dirfd(stream), entry->d_name, 0);
	}
	closedir(stream);
	return 0;
}

static int open_directory(struct family_runs *family, const char *directory)
{
	size_t size = directory ? strlen(directory) + 1 : 0;

	if (!directory)
		return 0;
	family->directory = wn__alloc(size);
	if (!family->directory)
		return ENOMEM;
	memcpy(family->directory, directory, size);
	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return errno;
	return sweep_directory(directory);
}

static void make_options(struct family_runs *family)
{
	family->options = rocksdb_options_create();
	rocksdb_options_set_compression(family->options, rocksdb_no_compression);
	family->env_options = rocksdb_envoptions_create();
	family->read_options = rocksdb_readoptions_create();
	family->write_options = rocksdb_writeoptions_create();
	family->ingest_options = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(family->ingest_options, 1);
}

static void family_destroy(struct wn__runs *runs)
{
	struct family_runs *family = to_family(runs);

	rocksdb_options_destroy(family->options);
	rocksdb_envoptions_destroy(family->env_options);
	rocksdb_readoptions_destroy(family->read_options);
	rocksdb_writeoptions_destroy(family->write_options);
	rocksdb_ingestexternalfileoptions_destroy(family->ingest_options);
	pthread_mutex_destroy(&family->change);
	free(family->directory);
	free(family);
}

/* How many runs there are already, and how much they take. */
static int count_runs(struct family_runs *family)
{
	struct wn__run_info *infos;
	size_t count;
	int err = wn__runs_list(&family->base, &infos, &count);

	for (size_t i = 0; i < count; i++) {
		if (infos[i].error)
			continue;
		wn__runs_count(&family->base.stats.runs, 1);
		wn__runs_count(&family->base.stats.bytes, infos[i].bytes);
	}
	free(infos);
	return err;
}

static const struct wn__runs_ops family_ops = {
	.put = family_put,
	.lookup = family_lookup,
	.stream = family_stream,
	.drop = family_drop,
	.list = family_list,
	.destroy = family_destroy,
};

int wn__runs_column_family_open(rocksdb_t *db, rocksdb_column_family_handle_t *handle,
				const char *directory, struct wn__runs **runsp)
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
	make_options(family);
	err = open_directory(family, directory);
	if (!err)
		err = count_runs(family);
	if (err) {
		family_destroy(&family->base);
		return err;
	}
	*runsp = &family->base;
	return 0;
}
