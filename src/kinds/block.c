/* block.c - reading and writing the block around a filter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "base/alloc.h"
#include "block_build.h"
#include "block_format.h"

/* ---- read --------------------------------------------------------------- */

bool wn_block_is_ours(const void *block, size_t size)
{
	return size >= WN__BLOCK_MAGIC_SIZE && wn__block_has_magic(block);
}

static int refuse(int error, const char *reason, const char **reasonp)
{
	*reasonp = reason;
	return error;
}

static int check_sizes(const unsigned char *block, size_t size, const char **reasonp)
{
	if (wn__block_header_size(block) != WN__BLOCK_HEADER_SIZE)
		return refuse(WN_ERR_CORRUPT, "the header has the wrong size", reasonp);
	/* The subtraction cannot wrap: `size` is that of a header and tail at least. */
	if (wn__block_payload_size(block) != size - WN__BLOCK_MIN_SIZE)
		return refuse(WN_ERR_CORRUPT, "the block is longer or shorter than its header says",
			      reasonp);
	return 0;
}

static int check_header(const unsigned char *block, size_t size, const char **reasonp)
{
	int err;

	if (size < WN__BLOCK_MIN_SIZE)
		return refuse(WN_ERR_CORRUPT, "the block is cut off within its header", reasonp);
	if (wn__block_version(block) != WN__BLOCK_VERSION)
		return refuse(WN_ERR_VERSION, "a block version this library does not know",
			      reasonp);
	if (wn__block_header_sum(block) != wn__block_sum_header(block))
		return refuse(WN_ERR_CORRUPT, "the header's checksum is wrong", reasonp);
	err = check_sizes(block, size, reasonp);
	if (err)
		return err;
	if (wn__block_flags(block) || wn__block_reserved(block))
		return refuse(WN_ERR_VERSION, "the block uses a feature this library does not know",
			      reasonp);
	if (!wn__block_has_trailer(block, size))
		return refuse(WN_ERR_CORRUPT, "the block does not end in its trailer", reasonp);
	return 0;
}

static int read_block(const unsigned char *block, size_t size, enum wn_check check,
		      struct wn_block_info *infop, const char **reasonp)
{
	size_t length;
	int err = check_header(block, size, reasonp);

	if (err)
		return err;
	length = size - WN__BLOCK_MIN_SIZE;
	if (check != WN_CHECK_HEADER &&
	    wn__block_payload_sum(block, length) != wn__block_sum_payload(block, length))
		return refuse(WN_ERR_CORRUPT, "the payload's checksum is wrong", reasonp);

	infop->version = wn__block_version(block);
	infop->kind = wn__block_kind(block);
	infop->key_count = wn__block_key_count(block);
	wn__block_get_id(block, infop->id);
	wn__block_get_seed(block, infop->seed);
	wn__block_get_params(block, infop->params);
	infop->secret_id = wn__seed_id(infop->seed);
	infop->payload = block + WN__BLOCK_HEADER_SIZE;
	infop->payload_size = length;
	return 0;
}

int wn_block_read(const void *block, size_t size, enum wn_check check,
		  struct wn_block_info *infop, const char **reasonp)
{
	const char *unwanted;

	if (!reasonp)
		reasonp = &unwanted;
	*reasonp = NULL;
	memset(infop, 0, sizeof(*infop));
	if (!wn_block_is_ours(block, size))
		return refuse(WN_ERR_CORRUPT, "not a winnow block", reasonp);
	return read_block(block, size, check, infop, reasonp);
}

/* ---- write -------------------------------------------------------------- */

static void *take_memory(const struct wn__block_writer *writer, size_t size)
{
	void *memory;

	if (!writer->memory)
		return wn__alloc_large(size);
	memory = writer->memory->take(size);
	if (memory)
		wn__advise_large(memory, size);
	return memory;
}

static void give_back(const struct wn__block_writer *writer, void *memory)
{
	if (!writer->memory)
		free(memory);
	else if (memory)
		writer->memory->give_back(memory);
}

static void set_payload_size(struct wn__block_writer *writer, size_t payload_size,
			     unsigned char **payloadp)
{
	writer->size = payload_size + WN__BLOCK_MIN_SIZE;
	writer->payload_size = payload_size;
	*payloadp = writer->block + WN__BLOCK_HEADER_SIZE;
}

int wn__block_begin_raw(struct wn__block_writer *writer, size_t payload_size, size_t more,
			unsigned char **payloadp)
{
	*payloadp = NULL;
	*writer = (struct wn__block_writer){.memory = writer->memory};
	if (payload_size > SIZE_MAX - WN__BLOCK_MIN_SIZE - more)
		return ENOMEM;
	writer->room = payload_size + WN__BLOCK_MIN_SIZE + more;
	writer->block = take_memory(writer, writer->room);
	if (!writer->block)
		return ENOMEM;
	set_payload_size(writer, payload_size, payloadp);
	return 0;
}

int wn__block_begin(struct wn__block_writer *writer, size_t payload_size,
		    unsigned char **payloadp)
{
	int err = wn__block_begin_raw(writer, payload_size, 0, payloadp);

	if (!err)
		memset(*payloadp, 0, payload_size);
	return err;
}

int wn__block_resize(struct wn__block_writer *writer, size_t payload_size,
		     unsigned char **payloadp)
{
	unsigned char *block;

	if (payload_size > SIZE_MAX - WN__BLOCK_MIN_SIZE)
		return ENOMEM;
	if (payload_size + WN__BLOCK_MIN_SIZE > writer->room) {
		writer->room = payload_size + WN__BLOCK_MIN_SIZE;
		block = take_memory(writer, writer->room);
		if (!block)
			return ENOMEM;
		memcpy(block, writer->block, writer->size);
		give_back(writer, writer->block);
		writer->block = block;
	}
	set_payload_size(writer, payload_size, payloadp);
	return 0;
}

static int next_id(struct wn__id_row *row, unsigned char *id)
{
	int err;

	if (!row)
		return wn__random(id, WN_BLOCK_ID_SIZE);
	err = row->next == 0 ? wn__random(row->prefix, sizeof(row->prefix)) : 0;
	if (!err)
		err = wn__random(id + WN__ID_PREFIX_SIZE + 4,
				 WN_BLOCK_ID_SIZE - WN__ID_PREFIX_SIZE - 4);
	if (err)
		return err;
	row->next++; /* after 2^32 filters it is 0, and a new prefix is drawn */
	memcpy(id, row->prefix, sizeof(row->prefix));
	for (unsigned i = 0; i < 4; i++)
		id[WN__ID_PREFIX_SIZE + i] = (unsigned char)(row->next >> 8 * (3 - i));
	return 0;
}

int wn__block_end(struct wn__block_writer *writer, unsigned kind, const unsigned char *params,
		  uint64_t key_count, const struct wn_secret *secret)
{
	unsigned char *block = writer->block;
	int err;

	if (kind > UINT8_MAX)
		return WN_ERR_INVALID;
	err = next_id(writer->row, wn__block_id(block));
	if (err)
		return err;
	wn__block_set_magic(block);
	wn__block_set_version(block, WN__BLOCK_VERSION);
	wn__block_set_kind(block, kind);
	wn__block_set_flags(block, 0);
	wn__block_set_header_size(block, WN__BLOCK_HEADER_SIZE);
	memset(block + WN__BLOCK_RESERVED_AT, 0, 8);
	memset(block + writer->size - WN__BLOCK_TRAILER_SIZE, 0, WN__BLOCK_TRAILER_SIZE);
	wn__block_set_payload_size(block, writer->payload_size);
	wn__block_set_key_count(block, key_count);
	wn__block_set_seed(block, secret->seed);
	wn__block_set_params(block, params);
	wn__block_set_header_sum(block);
	wn__block_set_payload_sum(block, writer->payload_size);
	return 0;
}

void wn__block_abandon(struct wn__block_writer *writer)
{
	give_back(writer, writer->block);
	*writer = (struct wn__block_writer){.memory = writer->memory};
}
