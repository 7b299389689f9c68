/* packs_write.c - a table's pack, collected in memory and written in one go; see packs.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_CLOEXEC and friends */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/file.h"
#include "packs_internal.h"

struct wn__pack_writer {
	struct wn__packs *packs;
	uint32_t table;
	uint64_t number;
	uint32_t filters, filter_room;
	unsigned char *records; /* as they go to the file */
	size_t keys, key_room;
};

int wn__pack_begin(struct wn__packs *packs, uint64_t number, struct wn__pack_writer **writerp)
{
	struct wn__pack_writer *writer = wn__calloc(1, sizeof(*writer));
	uint32_t old;
	int err;

	*writerp = NULL;
	if (!writer)
		return ENOMEM;
	writer->packs = packs;
	writer->number = number;
	pthread_mutex_lock(&packs->lock);
	old = wn__packs_find_table(packs, number);
	err = old != UINT32_MAX ? EEXIST : wn__packs_new_table(packs, number, &writer->table);
	if (!err)
		packs->tables[writer->table].writing = true;
	pthread_mutex_unlock(&packs->lock);
	if (err) {
		free(writer);
		return err;
	}
	*writerp = writer;
	return 0;
}

/* ---- filters ------------------------------------------------------------ */

static int make_key_room(struct wn__pack_writer *writer, uint32_t count)
{
	size_t room = writer->key_room ? writer->key_room : 4096;
	unsigned char *records;

	if (writer->keys + count <= writer->key_room)
		return 0;
	if (writer->keys + count > UINT32_MAX)
		return ENOMEM;
	while (room < writer->keys + count)
		room *= 2;
	records = wn__realloc(writer->records, room * WN__PACK_RECORD_SIZE);
	if (!records)
		return ENOMEM;
	writer->records = records;
	writer->key_room = room;
	return 0;
}

static int make_filter_room(struct wn__pack_writer *writer, struct wn__pack_table *table)
{
	uint32_t room = writer->filter_room ? 2 * writer->filter_room : 256;
	struct wn__pack_entry *entries;

	if (writer->filters < writer->filter_room)
		return 0;
	entries = wn__realloc(table->entries, room * sizeof(*entries));
	if (!entries)
		return ENOMEM;
	table->entries = entries;
	writer->filter_room = room;
	return 0;
}

/* Is the id free, or that of a filter with the same keys? Then it is this table's now. */
static int claim_id(struct wn__pack_writer *writer, const struct wn__pack_entry *entry)
{
	struct wn__packs *packs = writer->packs;
	struct wn__pack_place *place = wn__packs_find(packs, entry->id.lo);
	struct wn__pack_place own = {entry->id.lo, writer->table, writer->filters};

	if (!place)
		return wn__packs_register(packs, own);
	if (!wn__packs_is_same(packs, place, entry))
		return WN_ERR_MISMATCH;
	packs->tables[place->table].robbed |= place->table != own.table;
	*place = own;
	return 0;
}

int wn__pack_add(struct wn__pack_writer *writer, struct wn__small_id id,
		 const struct wn_hash *hashes, uint32_t count)
{
	struct wn__pack_entry entry = {
		.id = id,
		.digest = wn__small_keys_digest(hashes, count),
		.first = (uint32_t)writer->keys,
		.count = count,
	};
	struct wn__packs *packs = writer->packs;
	int err = make_key_room(writer, count);

	if (err)
		return err;
	for (uint32_t i = 0; i < count; i++)
		put_le64(writer->records + (writer->keys + i) * WN__PACK_RECORD_SIZE,
			 wn__pack_record(hashes[i]));
	entry.sum = wn__pack_sum(id, writer->records + writer->keys * WN__PACK_RECORD_SIZE, count);
	pthread_mutex_lock(&packs->lock);
	err = make_filter_room(writer, &packs->tables[writer->table]);
	if (!err)
		err = claim_id(writer, &entry);
	if (!err) {
		packs->tables[writer->table].entries[writer->filters] = entry;
		packs->tables[writer->table].filters = ++writer->filters;
		packs->filters++;
		writer->keys += count;
	}
	pthread_mutex_unlock(&packs->lock);
	return err;
}

/* ---- the file ----------------------------------------------------------- */

static int write_pack(int fd, const struct wn__pack_writer *writer,
		      const struct wn__pack_entry *entries)
{
	struct wn__pack_header header = {
		.filters = writer->filters,
		.keys = writer->keys,
		.table = writer->number,
		.secret_sum = writer->packs->secret_sum,
	};
	size_t size = (size_t)wn__pack_records_at(writer->filters);
	unsigned char *bytes = wn__alloc(size);
	int err;

	if (!bytes)
		return ENOMEM;
	for (uint32_t i = 0; i < writer->filters; i++)
		wn__pack_put_entry(bytes + wn__pack_records_at(i), &entries[i]);
	header.index_sum =
		XXH3_64bits(bytes + WN__PACK_HEADER_SIZE, size - WN__PACK_HEADER_SIZE);
	wn__pack_put_header(bytes, &header);
	err = wn__write_all(fd, bytes, size);
	if (!err)
		err = wn__write_all(fd, writer->records, writer->keys * WN__PACK_RECORD_SIZE);
	free(bytes);
	return err;
}

/* Not synced: after a power failure the table may be without, and then does not learn. */
static int write_file(const struct wn__pack_writer *writer, const struct wn__pack_entry *entries)
{
	const struct wn__packs *packs = writer->packs;
	char *path = wn__alloc(packs->path_size), *temporary = wn__alloc(packs->path_size);
	int fd = -1, err = path && temporary ? 0 : ENOMEM;

	if (!err) {
		wn__pack_path(packs, writer->number, "pack", path);
		wn__pack_path(packs, writer->number, "pack.tmp", temporary);
		err = wn__file_create(AT_FDCWD, temporary, &fd);
		if (err == ENOENT && mkdir(packs->directory, 0700) == 0)
			err = wn__file_create(AT_FDCWD, temporary, &fd);
		if (!err)
			err = write_pack(fd, writer, entries);
	}
	if (fd >= 0 && close(fd) < 0 && !err)
		err = errno;
	if (!err && rename(temporary, path) < 0)
		err = errno;
	if (err && fd >= 0)
		unlink(temporary);
	free(path);
	free(temporary);
	return err;
}

int wn__pack_finish(struct wn__pack_writer *writer)
{
	struct wn__packs *packs = writer->packs;
	struct wn__pack_table *table;
	struct wn__pack_entry *entries;
	int err = 0;

	/* Only this thread changes them; others may read them. */
	pthread_mutex_lock(&packs->lock);
	entries = packs->tables[writer->table].entries;
	pthread_mutex_unlock(&packs->lock);
	if (writer->filters)
		err = write_file(writer, entries);
	pthread_mutex_lock(&packs->lock);
	table = &packs->tables[writer->table];
	table->writing = false;
	if (!err) {
		table->entries = NULL;
		table->bytes = writer->filters ? wn__pack_records_at(writer->filters) +
							 WN__PACK_RECORD_SIZE * writer->keys :
						 0;
		packs->bytes += table->bytes;
		free(entries);
	} /* else the ids stay taken, for as long as the table lives */
	if (!writer->filters)
		*table = (struct wn__pack_table){0};
	pthread_mutex_unlock(&packs->lock);
	free(writer->records);
	free(writer);
	return err;
}
