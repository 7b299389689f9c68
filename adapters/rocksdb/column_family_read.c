/* column_family_read.c - looking up key lists in a column family; see column_family.c. */
#include <string.h>

#include "column_family_internal.h"

/* A key list that is being read. */
struct reading {
	struct wn__family_map *family;
	rocksdb_iterator_t *iterator;
	const unsigned char *id;
};

/* The page under the iterator, of the size that it must have. WN_ERR_NOT_FOUND: there is none
 * of this key list. */
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
		err = wn__family_error(text);
		return err ? err : WN_ERR_NOT_FOUND;
	}
	key = rocksdb_iter_key(reading->iterator, &key_size);
	if (key_size < WN_BLOCK_ID_SIZE || memcmp(key, reading->id, WN_BLOCK_ID_SIZE) != 0)
		return WN_ERR_NOT_FOUND;
	if (key_size != WN__FAMILY_KEY_SIZE)
		return WN_ERR_CORRUPT;
	*pagep = wn__family_key_page(key);
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
	char key[WN__FAMILY_KEY_SIZE];

	wn__family_key(reading->id, hash_hi, 0, key);
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
		/* Pages are in order, and none is missing; if the key list was dropped a moment
		 * ago, all are. */
		if (!err && at != (last < page ? last + 1 : last - 1))
			err = WN_ERR_CORRUPT;
	}
	return err;
}

static int start_reading(struct wn__family_map *family, const unsigned char *id,
			 struct reading *reading, struct wn__keylist_pages *pages)
{
	struct wn__family_list known;

	if (!wn__family_known(family, id, &known))
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

int wn__family_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
			 uint32_t rank, struct wn__keylist_entry *entries, size_t max,
			 size_t *countp)
{
	struct wn__keylist_pages pages;
	struct reading reading;
	int err = start_reading(wn__to_family(map), list->id, &reading, &pages);

	if (err)
		return err;
	err = wn__keylist_pages_lookup(&pages, list, minirun, rank, entries, max, countp);
	wn__map_count(&map->stats.reads, pages.reads);
	rocksdb_iter_destroy(reading.iterator);
	return err;
}

int wn__family_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
			 void *arg)
{
	struct wn__keylist_pages pages;
	struct reading reading;
	int err = start_reading(wn__to_family(map), id, &reading, &pages);

	if (err)
		return err;
	err = wn__keylist_pages_stream(&pages, fn, arg);
	wn__map_count(&map->stats.reads, pages.reads);
	rocksdb_iter_destroy(reading.iterator);
	return err;
}
