/* table_block.c - entries. */
#include <stdlib.h>

#include "table_block.h"

/* RocksDB's data blocks may have a small hash table behind the restarts; the highest
 * bit of their number tells. */
#define HAS_HASH_TABLE UINT32_C(0x80000000)

static bool cut_restarts(struct span *content)
{
	uint64_t behind = 4;
	uint32_t restarts;

	if (content->size < behind)
		return false;
	restarts = get_le32(content->at + content->size - 4);
	if (restarts & HAS_HASH_TABLE) {
		restarts &= ~HAS_HASH_TABLE;
		if (content->size < 6)
			return false;
		behind += 2u + get_le16(content->at + content->size - 6);
	}
	behind += (uint64_t)restarts * 4;
	if (behind > content->size)
		return false;
	content->size -= (size_t)behind;
	return true;
}

void block_cursor_begin(struct block_cursor *cursor, struct span content, enum entry_form form)
{
	*cursor = (struct block_cursor){ .form = form, .start = content.at, .left = content };
	if (!cut_restarts(&cursor->left)) {
		cursor->wrong = "the list of restarts does not fit in";
		cursor->left.size = 0;
	}
}

static bool end_with(struct block_cursor *cursor, const char *wrong)
{
	cursor->wrong = wrong;
	cursor->left.size = 0;
	return false;
}

static bool keep_key(struct block_cursor *cursor, uint64_t shared, struct span rest)
{
	size_t size = (size_t)shared + rest.size;

	if (size > cursor->key_room) {
		size_t room = size * 2;
		unsigned char *key = realloc(cursor->key, room);

		if (!key)
			return end_with(cursor, "not enough memory for a key");
		cursor->key = key;
		cursor->key_room = room;
	}
	if (rest.size > 0)
		memcpy(cursor->key + shared, rest.at, rest.size);
	cursor->key_size = size;
	return true;
}

/* The difference of two sizes: the lowest bit is the sign. */
static bool take_delta(struct block_cursor *cursor)
{
	struct handle before = cursor->handle;
	uint64_t folded;

	if (!span_varint(&cursor->left, &folded))
		return false;
	cursor->handle.offset = before.offset + before.size + TABLE_TRAILER_SIZE;
	cursor->handle.size = before.size + (folded >> 1 ^ (0 - (folded & 1)));
	return true;
}

static bool take_handles(struct block_cursor *cursor, uint64_t shared)
{
	struct span key;
	uint64_t size;

	if (cursor->form == ENTRY_HANDLE)
		return take_handle(&(struct span){ cursor->value.at, cursor->value.size },
				   &cursor->handle);
	if (!(shared ? take_delta(cursor) : take_handle(&cursor->left, &cursor->handle)))
		return false;
	return cursor->form != ENTRY_HANDLE_DELTA_KEY ||
	       (span_varint(&cursor->left, &size) && span_take(&cursor->left, size, &key));
}

bool block_cursor_next(struct block_cursor *cursor)
{
	bool has_length = cursor->form == ENTRY_PLAIN || cursor->form == ENTRY_HANDLE;
	uint64_t shared, unshared, length = 0;
	struct span rest;

	if (cursor->wrong || cursor->left.size == 0)
		return false;
	if (!span_varint(&cursor->left, &shared) || !span_varint(&cursor->left, &unshared) ||
	    (has_length && !span_varint(&cursor->left, &length)))
		return end_with(cursor, "an entry's lengths are cut off");
	if (shared > cursor->key_size)
		return end_with(cursor, "an entry shares more than there is with the key before");
	if (!span_take(&cursor->left, unshared, &rest))
		return end_with(cursor, "an entry's key is cut off");
	if (!keep_key(cursor, shared, rest))
		return false;
	if (!span_take(&cursor->left, length, &cursor->value))
		return end_with(cursor, "an entry's value is cut off");
	if (cursor->form != ENTRY_PLAIN && !take_handles(cursor, shared))
		return end_with(cursor, "an entry has no handle");
	return true;
}

void block_cursor_end(struct block_cursor *cursor)
{
	free(cursor->key);
	cursor->key = NULL;
}
