/* table_block.h - the entries of a block, one after the other.
 *
 * An entry is a key, of which only what differs from the key before is stored, and a
 * value; behind them is a list of places to start from, which a walk does not need. */
#ifndef WN_TOOLS_SST_TABLE_BLOCK_H
#define WN_TOOLS_SST_TABLE_BLOCK_H

#include "table.h"

enum entry_form {
	ENTRY_PLAIN,         /* key and value */
	ENTRY_HANDLE,        /* the value starts with a handle */
	ENTRY_HANDLE_DELTA,  /* as above, but told by what differs from the one before, and the
			      * value's length is not told: RocksDB's indexes since format 4 */
	ENTRY_HANDLE_DELTA_KEY /* as above, and the block's first key behind the handle */
};

struct block_cursor {
	enum entry_form form;
	struct span left;        /* entries to come */
	const unsigned char *start;
	unsigned char *key;      /* the entry's, good until the next one */
	size_t key_size, key_room;
	struct span value;       /* nothing with ENTRY_HANDLE_DELTA */
	struct handle handle;    /* unless ENTRY_PLAIN */
	const char *wrong;       /* why it ended early, or NULL */
};

/* Over a block's content, which is borrowed. End it with block_cursor_end(), whatever
 * happened. */
void block_cursor_begin(struct block_cursor *cursor, struct span content, enum entry_form form);
/* false: no more entries, or `wrong` says what is. */
bool block_cursor_next(struct block_cursor *cursor);
void block_cursor_end(struct block_cursor *cursor);

/* How far from the block's start the walk has come. */
static inline uint64_t block_cursor_place(const struct block_cursor *cursor)
{
	return (uint64_t)(cursor->left.at - cursor->start);
}

#endif /* WN_TOOLS_SST_TABLE_BLOCK_H */
