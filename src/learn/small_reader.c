/* small_reader.c - tables of small filters that are open; see small_table.h.
 *
 * The host asks a filter by the address of its bytes. They lie in a copy of the table's filters,
 * in pages of its own, and the page tells the table (base/page_map.h). This is looked up only
 * after a "maybe". An address in nobody's page is a filter that does not learn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/page_map.h"
#include "lessons_internal.h"
#include "lookup.h"
#include "small_table_internal.h"

struct wn__small_reader {
	struct wn__registry *registry;
	struct wn__lessons *lessons; /* NULL: the budget has no room for them */
	struct wn__keylist list;
	void *copy;
	size_t size;
};

static int copy_block(struct wn__small_reader *reader, const void *block, size_t size)
{
	reader->size = size;
	reader->copy = wn__owned_alloc(size, reader);
	if (!reader->copy)
		return ENOMEM;
	memcpy(reader->copy, block, size);
	return 0;
}

int wn__small_reader_open(struct wn__registry *registry, const struct wn__small_world *world,
			  const void *block, size_t size,
			  const struct wn__small_extent *extent,
			  struct wn__small_reader **readerp)
{
	struct wn__shape shape = {WN__SMALL_SLOTS, WN__PLAIN_REMAINDER_BITS};
	struct wn__small_header header;
	struct wn__small_reader *reader;

	*readerp = NULL;
	if (!wn__small_get_header((const unsigned char *)block + extent->first,
				  extent->first_size, world->secret_id, &header))
		return WN_ERR_NOT_FOUND;
	if (header.secret_sum != world->secret_sum)
		return WN_ERR_MISMATCH;
	reader = wn__calloc(1, sizeof(*reader));
	if (!reader)
		return ENOMEM;
	reader->registry = registry;
	reader->list = (struct wn__keylist){
		.key_count = WN__KEYS_UNKNOWN,
		.slots = shape.slots,
		.secret_id = world->secret->id,
		.remainder_bits = shape.remainder_bits,
		.plain = true,
	};
	wn__small_table_id(XXH3_128bits(block, extent->filters_size), reader->list.id);
	wn__registry_acquire(registry, reader->list.id, shape, &reader->lessons);
	/* Last: from here on it can be found. */
	if (copy_block(reader, block, size)) {
		wn__lessons_release(reader->lessons);
		free(reader);
		return ENOMEM;
	}
	*readerp = reader;
	return 0;
}

const void *wn__small_reader_block(const struct wn__small_reader *reader)
{
	return reader->copy;
}

void wn__small_reader_close(struct wn__small_reader *reader)
{
	if (!reader)
		return;
	wn__owned_free(reader->copy, reader->size);
	wn__lessons_release(reader->lessons);
	free(reader);
}

bool wn__small_reader_heed(struct wn__registry *registry, const void *filter,
			   struct wn_hash hash)
{
	static const struct wn__keylist no_list;
	const struct wn__small_reader *reader = wn__page_owner(filter);
	struct wn_match match = {.known = true};

	if (!reader || reader->registry != registry) {
		wn__lookup_note(registry, &no_list, hash, NULL);
		return true;
	}
	match.minirun = wn__hash_minirun(hash, WN__SMALL_SLOTS, WN__PLAIN_REMAINDER_BITS);
	if (wn__lessons_exist(reader->lessons) &&
	    wn__lessons_deny(reader->lessons, match.minirun, hash))
		return false;
	wn__lookup_note(registry, &reader->list, hash, &match);
	return true;
}
