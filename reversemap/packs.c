/* packs.c - which filter is where, and reading its records; packs_write.c writes. See packs.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_CLOEXEC and friends */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "packs_internal.h"

/* ---- the registry of ids: linear probing, no tombstones ------------------ */

#define FIRST_PLACES 1024

struct wn__pack_place *wn__packs_find(struct wn__packs *packs, uint64_t id_lo)
{
	size_t at;

	if (!packs->place_count)
		return NULL;
	for (at = (size_t)id_lo & (packs->place_count - 1); packs->places[at].id_lo;
	     at = (at + 1) & (packs->place_count - 1))
		if (packs->places[at].id_lo == id_lo)
			return &packs->places[at];
	return NULL;
}

static void put_place(struct wn__pack_place *places, size_t count, struct wn__pack_place place)
{
	size_t at = (size_t)place.id_lo & (count - 1);

	while (places[at].id_lo)
		at = (at + 1) & (count - 1);
	places[at] = place;
}

int wn__packs_register(struct wn__packs *packs, struct wn__pack_place place)
{
	if (packs->places_used >= packs->place_count / 8 * 5) {
		size_t count = packs->place_count ? 2 * packs->place_count : FIRST_PLACES;
		struct wn__pack_place *places = wn__calloc(count, sizeof(*places));

		if (!places)
			return ENOMEM;
		for (size_t i = 0; i < packs->place_count; i++)
			if (packs->places[i].id_lo)
				put_place(places, count, packs->places[i]);
		free(packs->places);
		packs->places = places;
		packs->place_count = count;
	}
	put_place(packs->places, packs->place_count, place);
	packs->places_used++;
	return 0;
}

void wn__packs_unregister(struct wn__packs *packs, struct wn__pack_place *place)
{
	size_t mask = packs->place_count - 1;
	size_t hole = (size_t)(place - packs->places), at = hole;

	for (;;) {
		size_t home;

		at = (at + 1) & mask;
		if (!packs->places[at].id_lo)
			break;
		home = (size_t)packs->places[at].id_lo & mask;
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		packs->places[hole] = packs->places[at];
		hole = at;
	}
	packs->places[hole].id_lo = 0;
	packs->places_used--;
}

/* ---- tables ------------------------------------------------------------- */

uint32_t wn__packs_find_table(const struct wn__packs *packs, uint64_t number)
{
	for (uint32_t i = 0; i < packs->table_count; i++)
		if (packs->tables[i].used && packs->tables[i].number == number)
			return i;
	return UINT32_MAX;
}

int wn__packs_new_table(struct wn__packs *packs, uint64_t number, uint32_t *tablep)
{
	uint32_t at = 0;

	while (at < packs->table_count && packs->tables[at].used)
		at++;
	if (at == packs->table_count) {
		uint32_t count = packs->table_count ? 2 * packs->table_count : 64;
		struct wn__pack_table *tables =
			wn__realloc(packs->tables, count * sizeof(*tables));

		if (!tables)
			return ENOMEM;
		memset(tables + packs->table_count, 0,
		       (count - packs->table_count) * sizeof(*tables));
		packs->tables = tables;
		packs->table_count = count;
	}
	packs->tables[at] = (struct wn__pack_table){.used = true, .number = number};
	*tablep = at;
	return 0;
}

/* ---- files -------------------------------------------------------------- */

void wn__pack_path(const struct wn__packs *packs, uint64_t number, const char *suffix, char *path)
{
	snprintf(path, packs->path_size, "%s/%06llu.%s", packs->directory,
		 (unsigned long long)number, suffix);
}

static int open_pack(const struct wn__packs *packs, uint64_t number)
{
	char *path = wn__alloc(packs->path_size);
	int fd;

	if (!path)
		return -1;
	wn__pack_path(packs, number, "pack", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	free(path);
	return fd;
}

static int read_at(int fd, unsigned char *bytes, size_t size, uint64_t at)
{
	while (size) {
		ssize_t got = pread(fd, bytes, size, (off_t)at);

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

static int read_header(const struct wn__packs *packs, int fd, uint64_t number,
		       struct wn__pack_header *headerp)
{
	unsigned char bytes[WN__PACK_HEADER_SIZE];
	struct stat status;
	int err = fstat(fd, &status) < 0 ? errno : read_at(fd, bytes, sizeof(bytes), 0);

	if (err)
		return err;
	if (!wn__pack_get_header(bytes, headerp) || headerp->table != number ||
	    headerp->secret_sum != packs->secret_sum || headerp->keys > UINT32_MAX ||
	    (uint64_t)status.st_size != wn__pack_records_at(headerp->filters) +
						WN__PACK_RECORD_SIZE * headerp->keys)
		return WN_ERR_CORRUPT;
	return 0;
}

int wn__pack_read_index(const struct wn__packs *packs, uint64_t number,
			unsigned char **indexp, struct wn__pack_header *headerp)
{
	int fd = open_pack(packs, number), err;
	size_t size;

	*indexp = NULL;
	if (fd < 0)
		return WN_ERR_NOT_FOUND;
	err = read_header(packs, fd, number, headerp);
	size = err ? 0 : (size_t)headerp->filters * WN__PACK_ENTRY_SIZE;
	if (!err) {
		*indexp = wn__alloc(size);
		err = *indexp ? read_at(fd, *indexp, size, WN__PACK_HEADER_SIZE) : ENOMEM;
	}
	close(fd);
	if (!err && XXH3_64bits(*indexp, size) != headerp->index_sum)
		err = WN_ERR_CORRUPT;
	if (err) {
		free(*indexp);
		*indexp = NULL;
	}
	return err;
}

/* The entry of the filter at a place, from the file or while it is still in memory. */
int wn__packs_read_entry(struct wn__packs *packs, const struct wn__pack_place *place,
			 struct wn__pack_entry *entryp)
{
	const struct wn__pack_table *table = &packs->tables[place->table];
	unsigned char bytes[WN__PACK_ENTRY_SIZE];
	int fd, err;

	if (table->entries) {
		*entryp = table->entries[place->at];
		return 0;
	}
	fd = open_pack(packs, table->number);
	if (fd < 0)
		return errno;
	err = read_at(fd, bytes, sizeof(bytes),
		      WN__PACK_HEADER_SIZE + (uint64_t)place->at * WN__PACK_ENTRY_SIZE);
	close(fd);
	if (!err)
		*entryp = wn__pack_get_entry(bytes);
	return err;
}

bool wn__packs_is_same(struct wn__packs *packs, const struct wn__pack_place *place,
		       const struct wn__pack_entry *entry)
{
	struct wn__pack_entry other;

	return place->table != WN__PACK_STRANGER &&
	       wn__packs_read_entry(packs, place, &other) == 0 && other.id.lo == entry->id.lo &&
	       other.id.hi == entry->id.hi && other.digest.lo == entry->digest.lo &&
	       other.digest.hi == entry->digest.hi && other.count == entry->count;
}

/* ---- lookups ------------------------------------------------------------ */

/* The file as memory: a lesson then takes no system call. It was checked when it was opened
 * that the file is as long as its header says; a file that is cut off while it is mapped is
 * as bad for LevelDB's own. */
static bool map_table(struct wn__packs *packs, struct wn__pack_table *table)
{
	struct wn__pack_header header;
	int fd = table->map ? -1 : open_pack(packs, table->number);

	if (fd >= 0 && read_header(packs, fd, table->number, &header) == 0 &&
	    header.filters == table->filters) {
		size_t size = (size_t)(wn__pack_records_at(header.filters) +
				       WN__PACK_RECORD_SIZE * header.keys);
		void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

		if (map != MAP_FAILED) {
			table->map = map;
			table->map_size = size;
		}
	}
	if (fd >= 0)
		close(fd);
	return table->map;
}

static int copy_records(const struct wn__pack_table *table, uint32_t at, struct wn__small_id id,
			uint64_t **recordsp, uint32_t *countp)
{
	struct wn__pack_entry entry = wn__pack_get_entry(table->map + wn__pack_records_at(at));
	size_t first = (size_t)wn__pack_records_at(table->filters);
	const unsigned char *records;

	if (entry.id.lo != id.lo || entry.id.hi != id.hi)
		return WN_ERR_NOT_FOUND;
	if ((uint64_t)entry.first + entry.count >
	    (table->map_size - first) / WN__PACK_RECORD_SIZE)
		return WN_ERR_CORRUPT;
	records = table->map + first + (size_t)entry.first * WN__PACK_RECORD_SIZE;
	if (wn__pack_sum(id, records, entry.count) != entry.sum)
		return WN_ERR_CORRUPT;
	*recordsp = wn__alloc((size_t)entry.count * sizeof(**recordsp));
	if (!*recordsp)
		return ENOMEM;
	for (uint32_t i = 0; i < entry.count; i++)
		(*recordsp)[i] = get_le64(records + (size_t)i * WN__PACK_RECORD_SIZE);
	*countp = entry.count;
	return 0;
}

int wn__packs_read(struct wn__packs *packs, struct wn__small_id id, uint64_t **recordsp,
		   uint32_t *countp)
{
	const struct wn__pack_place *place;
	int err = WN_ERR_NOT_FOUND;

	*recordsp = NULL;
	*countp = 0;
	pthread_mutex_lock(&packs->lock);
	place = wn__packs_find(packs, id.lo);
	if (place && place->table != WN__PACK_STRANGER && !packs->tables[place->table].entries &&
	    map_table(packs, &packs->tables[place->table]))
		err = copy_records(&packs->tables[place->table], place->at, id, recordsp, countp);
	pthread_mutex_unlock(&packs->lock);
	return err;
}

/* ---- retiring ----------------------------------------------------------- */

/* Under the lock: nobody else registers these ids meanwhile. */
static void forget_filter(struct wn__packs *packs, uint32_t table, uint32_t at,
			  const struct wn__pack_entry *entry, wn__pack_gone_fn *gone, void *arg)
{
	struct wn__pack_place *place = wn__packs_find(packs, entry->id.lo);

	if (!place || place->table != table || place->at != at)
		return;
	wn__packs_unregister(packs, place);
	if (gone)
		gone(arg, entry->id, entry->count);
}

/* A pack that cannot be read any more: its ids are found the long way. Their lessons stay, since
 * nobody knows of how many keys; so nobody else may have the ids. */
static void forget_unread(struct wn__packs *packs, uint32_t table)
{
	for (size_t i = 0; i < packs->place_count; i++)
		if (packs->places[i].id_lo && packs->places[i].table == table)
			wn__packs_estrange(packs, &packs->places[i]);
}

static void forget_filters(struct wn__packs *packs, uint32_t table, wn__pack_gone_fn *gone,
			   void *arg)
{
	struct wn__pack_table *own = &packs->tables[table];
	struct wn__pack_header header;
	unsigned char *index;

	if (own->strange)
		return;
	if (own->entries) {
		for (uint32_t i = 0; i < own->filters; i++)
			forget_filter(packs, table, i, &own->entries[i], gone, arg);
		return;
	}
	if (wn__pack_read_index(packs, own->number, &index, &header) ||
	    header.filters != own->filters) {
		free(index);
		forget_unread(packs, table);
		return;
	}
	for (uint32_t i = 0; i < header.filters; i++) {
		struct wn__pack_entry entry =
			wn__pack_get_entry(index + (size_t)i * WN__PACK_ENTRY_SIZE);

		forget_filter(packs, table, i, &entry, gone, arg);
	}
	free(index);
}

static int claim_back(struct wn__packs *packs, uint32_t table)
{
	struct wn__pack_header header;
	unsigned char *index;
	int err = wn__pack_read_index(packs, packs->tables[table].number, &index, &header);

	for (uint32_t i = 0; !err && i < header.filters; i++) {
		uint64_t id_lo = get_le64(index + (size_t)i * WN__PACK_ENTRY_SIZE);

		if (id_lo && !wn__packs_find(packs, id_lo))
			err = wn__packs_register(packs,
						 (struct wn__pack_place){id_lo, table, i});
	}
	free(index);
	return err;
}

/* A later table went first: a compaction that failed. Else those it robbed are gone by now. */
static void claim_all_back(struct wn__packs *packs)
{
	for (uint32_t i = 0; i < packs->table_count; i++)
		if (packs->tables[i].used && packs->tables[i].robbed &&
		    !packs->tables[i].entries && claim_back(packs, i) != 0)
			wn__packs_set_unread(packs, i);
}

void wn__packs_remove_table(struct wn__packs *packs, uint32_t table, wn__pack_gone_fn *gone,
			    void *arg)
{
	struct wn__pack_table *own = &packs->tables[table];
	char *path = wn__alloc(packs->path_size);

	forget_filters(packs, table, gone, arg);
	wn__packs_forget_strangers(packs, table);
	if (path) {
		wn__pack_path(packs, own->number, "pack", path);
		unlink(path);
	}
	free(path);
	free(own->entries);
	if (own->map)
		munmap(own->map, own->map_size);
	packs->bytes -= own->bytes;
	packs->filters -= own->filters;
	*own = (struct wn__pack_table){0};
	claim_all_back(packs);
}

void wn__packs_retire(struct wn__packs *packs, uint64_t number, wn__pack_gone_fn *gone, void *arg)
{
	uint32_t table;

	pthread_mutex_lock(&packs->lock);
	table = wn__packs_find_table(packs, number);
	/* One that is being written is its writer's. */
	if (table != UINT32_MAX && !packs->tables[table].writing)
		wn__packs_remove_table(packs, table, gone, arg);
	pthread_mutex_unlock(&packs->lock);
}

static bool is_live(uint64_t number, const uint64_t *live, size_t count)
{
	for (size_t low = 0; low < count;) {
		size_t middle = low + (count - low) / 2;

		if (live[middle] == number)
			return true;
		if (live[middle] < number)
			low = middle + 1;
		else
			count = middle;
	}
	return false;
}

void wn__packs_sweep(struct wn__packs *packs, const uint64_t *live, size_t count,
		     wn__pack_gone_fn *gone, void *arg)
{
	pthread_mutex_lock(&packs->lock);
	for (uint32_t i = 0; i < packs->table_count; i++)
		if (packs->tables[i].used && !packs->tables[i].writing &&
		    !is_live(packs->tables[i].number, live, count))
			wn__packs_remove_table(packs, i, gone, arg);
	pthread_mutex_unlock(&packs->lock);
}

/* ---- life --------------------------------------------------------------- */

/* Two filters with one id and other keys cannot be, see wn__pack_add(), unless packs were away for
 * a while and came back: then neither learns. The same filter in two tables is: then the one
 * that is read later counts. */
static int load_filter(struct wn__packs *packs, uint32_t table, uint32_t at,
		       const struct wn__pack_entry *entry)
{
	struct wn__pack_place *place = wn__packs_find(packs, entry->id.lo);
	struct wn__pack_place own = {entry->id.lo, table, at};

	if (!place)
		return entry->id.lo ? wn__packs_register(packs, own) : 0;
	if (!wn__packs_is_same(packs, place, entry)) {
		wn__packs_estrange(packs, place);
		return 0;
	}
	packs->tables[place->table].robbed |= place->table != table;
	*place = own;
	return 0;
}

static int load_pack(struct wn__packs *packs, uint64_t number)
{
	struct wn__pack_header header;
	unsigned char *index;
	uint32_t table;
	int err = wn__pack_read_index(packs, number, &index, &header);

	if (err)
		return err == ENOMEM ? err : 0;
	err = wn__packs_new_table(packs, number, &table);
	for (uint32_t i = 0; i < header.filters && !err; i++) {
		struct wn__pack_entry entry =
			wn__pack_get_entry(index + (size_t)i * WN__PACK_ENTRY_SIZE);

		err = load_filter(packs, table, i, &entry);
	}
	free(index);
	if (err)
		return err;
	packs->tables[table].filters = header.filters;
	packs->tables[table].bytes = wn__pack_records_at(header.filters) +
				     WN__PACK_RECORD_SIZE * header.keys;
	packs->filters += header.filters;
	packs->bytes += packs->tables[table].bytes;
	return 0;
}

static int load_packs(struct wn__packs *packs)
{
	DIR *directory = opendir(packs->directory);
	const struct dirent *entry;
	int err = 0;

	if (!directory)
		return errno == ENOENT ? 0 : errno;
	while (!err && (entry = readdir(directory))) {
		char *end;
		unsigned long long number = strtoull(entry->d_name, &end, 10);

		if (end != entry->d_name && strcmp(end, ".pack") == 0)
			err = load_pack(packs, number);
	}
	closedir(directory);
	return err;
}

int wn__packs_open(const char *directory, uint64_t secret_sum, struct wn__packs **packsp)
{
	struct wn__packs *packs = wn__calloc(1, sizeof(*packs));
	int err = ENOMEM;

	*packsp = NULL;
	if (!packs)
		return ENOMEM;
	packs->secret_sum = secret_sum;
	packs->path_size = strlen(directory) + 48;
	packs->directory = wn__alloc(strlen(directory) + 1);
	if (packs->directory && pthread_mutex_init(&packs->lock, NULL) == 0) {
		strcpy(packs->directory, directory);
		err = load_packs(packs);
		if (!err) {
			*packsp = packs;
			return 0;
		}
		wn__packs_close(packs);
		return err;
	}
	free(packs->directory);
	free(packs);
	return err;
}

void wn__packs_close(struct wn__packs *packs)
{
	if (!packs)
		return;
	for (uint32_t i = 0; i < packs->table_count; i++) {
		free(packs->tables[i].entries);
		free(packs->tables[i].strangers);
		if (packs->tables[i].map)
			munmap(packs->tables[i].map, packs->tables[i].map_size);
	}
	free(packs->tables);
	free(packs->places);
	free(packs->directory);
	pthread_mutex_destroy(&packs->lock);
	free(packs);
}

void wn__packs_describe(struct wn__packs *packs, struct wn__packs_stats *statsp)
{
	*statsp = (struct wn__packs_stats){0};
	pthread_mutex_lock(&packs->lock);
	for (uint32_t i = 0; i < packs->table_count; i++) {
		statsp->packs += packs->tables[i].used && !packs->tables[i].strange;
		statsp->strangers += packs->tables[i].strange;
	}
	statsp->unread = atomic_load_explicit(&packs->unread, memory_order_relaxed);
	statsp->filters = packs->filters;
	statsp->bytes = packs->bytes;
	pthread_mutex_unlock(&packs->lock);
}
