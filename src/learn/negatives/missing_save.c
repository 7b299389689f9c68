/* missing_save.c - missing keys to and from bytes; doc/formats.md has them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/lock.h"
#include "base/secret.h"
#include "missing_internal.h"

#define MAGIC "WNMISSNG"
#define PIECE_VERSION 1

enum {
	VERSION_AT = 8,
	RESERVED_AT = 12,
	SEED_SUM_AT = 16,
	SIZE_AT = 24, /* of the entries: a byte with the key's size, the key */
	ENTRIES_AT = 32,
	SUM_SIZE = 8
};

static uint64_t sum_seed(const struct wn__missing *missing)
{
	return XXH3_64bits(missing->secret->seed, WN_SEED_SIZE);
}

/* ---- writing ------------------------------------------------------------ */

/* Around `size` bytes of entries, which are in their place. */
static size_t seal(const struct wn__missing *missing, unsigned char *bytes, size_t size)
{
	memcpy(bytes, MAGIC, 8);
	put_le32(bytes + VERSION_AT, PIECE_VERSION);
	put_le32(bytes + RESERVED_AT, 0);
	put_le64(bytes + SEED_SUM_AT, sum_seed(missing));
	put_le64(bytes + SIZE_AT, size);
	put_le64(bytes + ENTRIES_AT + size, XXH3_64bits(bytes, ENTRIES_AT + size));
	return ENTRIES_AT + size + SUM_SIZE;
}

static size_t put_entry(unsigned char *at, const void *key, size_t size)
{
	*at = (unsigned char)size;
	if (size)
		memcpy(at + 1, key, size);
	return size + 1;
}

int wn__missing_save(struct wn__missing *missing, void **bytesp, size_t *sizep)
{
	struct wn__missing_list *list = wn__missing_list(missing, true);
	unsigned char *bytes = NULL;
	size_t size = 0;

	*bytesp = NULL;
	*sizep = 0;
	if (list)
		bytes = wn__alloc(ENTRIES_AT + SUM_SIZE +
				  list->count * (WN__MISSING_MAX_SIZE + 1));
	for (size_t i = 0; bytes && i < list->count; i++)
		size += put_entry(bytes + ENTRIES_AT + size, list->items[i].key,
				  list->items[i].size);
	wn__missing_release(missing, list);
	if (!bytes)
		return ENOMEM;
	*sizep = seal(missing, bytes, size);
	*bytesp = bytes;
	return 0;
}

/* ---- what has changed --------------------------------------------------- */

static bool make_room(struct wn__missing *missing, size_t more)
{
	size_t room = missing->changes_room ? 2 * missing->changes_room : 4096;
	unsigned char *changes;

	if (missing->changes_size + more <= missing->changes_room)
		return true;
	changes = wn__realloc(missing->changes, room);
	if (!changes)
		return false;
	missing->changes = changes;
	missing->changes_room = room;
	return true;
}

void wn__missing_changed(struct wn__missing *missing, const void *key, size_t size)
{
	wn__assert_locked(&missing->lock);
	if (!missing->tracked || missing->changes_lost)
		return;
	if (missing->change_count == WN__MISSING_MAX_CHANGES || !make_room(missing, size + 1)) {
		missing->changes_lost = true;
		return;
	}
	missing->changes_size += put_entry(missing->changes + missing->changes_size, key, size);
	missing->change_count++;
}

void wn__missing_track(struct wn__missing *missing)
{
	wn__lock(&missing->lock, WN__LOCK_LAST);
	missing->tracked = true;
	wn__unlock(&missing->lock);
}

static int copy_changes(struct wn__missing *missing, unsigned char **bytesp, size_t *sizep)
{
	size_t size = missing->changes_size;
	unsigned char *bytes = NULL;

	wn__assert_locked(&missing->lock);
	if (size && !missing->changes_lost) {
		bytes = wn__alloc(ENTRIES_AT + size + SUM_SIZE);
		if (bytes)
			memcpy(bytes + ENTRIES_AT, missing->changes, size);
		missing->changes_lost = !bytes;
	}
	*bytesp = bytes;
	*sizep = bytes ? seal(missing, bytes, size) : 0;
	return missing->changes_lost ? WN_ERR_FULL : 0;
}

int wn__missing_take_changes(struct wn__missing *missing, void **bytesp, size_t *sizep)
{
	unsigned char *bytes;
	int err;

	wn__lock(&missing->lock, WN__LOCK_LAST);
	err = copy_changes(missing, &bytes, sizep);
	missing->changes_size = missing->change_count = 0;
	missing->changes_lost = false;
	wn__unlock(&missing->lock);
	*bytesp = bytes;
	return err;
}

/* ---- reading ------------------------------------------------------------ */

/* The size of the piece, 0 if it is damaged. */
static size_t check_piece(const unsigned char *bytes, size_t size, int *errp)
{
	uint64_t entries;

	*errp = WN_ERR_CORRUPT;
	if (size < ENTRIES_AT + SUM_SIZE || memcmp(bytes, MAGIC, 8) != 0)
		return 0;
	entries = get_le64(bytes + SIZE_AT);
	if (entries > size - ENTRIES_AT - SUM_SIZE ||
	    get_le64(bytes + ENTRIES_AT + entries) != XXH3_64bits(bytes, ENTRIES_AT + entries))
		return 0;
	*errp = get_le32(bytes + VERSION_AT) == PIECE_VERSION ? 0 : WN_ERR_VERSION;
	return *errp ? 0 : (size_t)(ENTRIES_AT + entries + SUM_SIZE);
}

static void note_entries(struct wn__missing *missing, const unsigned char *at,
			 const unsigned char *end)
{
	while (at < end && *at < end - at) {
		if (*at <= WN__MISSING_MAX_SIZE)
			wn__missing_note(missing, wn__hash_key(missing->secret, at + 1, *at),
					 at + 1, *at);
		at += *at + 1;
	}
}

int wn__missing_load_first(struct wn__missing *missing, const void *given, size_t size,
			   size_t *usedp)
{
	const unsigned char *bytes = given;
	int err;

	*usedp = check_piece(bytes, size, &err);
	if (!*usedp)
		return err;
	if (get_le64(bytes + SEED_SUM_AT) != sum_seed(missing))
		return WN_ERR_MISMATCH;
	note_entries(missing, bytes + ENTRIES_AT, bytes + *usedp - SUM_SIZE);
	return 0;
}
