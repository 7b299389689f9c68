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

static bool claims_full(const unsigned char *block, size_t size)
{
	return size >= WN__BLOCK_MAGIC_SIZE && wn__block_has_magic(block);
}

static bool claims_tiny(const unsigned char *block, size_t size)
{
	return size >= WN__SMALL_MIN_SIZE && wn__block_has_trailer(block, size) &&
	       wn__small_has_magic(block + size);
}

bool wn_block_is_ours(const void *block, size_t size)
{
	return claims_full(block, size) || claims_tiny(block, size);
}

static int refuse(int error, const char *reason, const char **reasonp)
{
	*reasonp = reason;
	return error;
}

static int check_full_sizes(const unsigned char *block, size_t size, const char **reasonp)
{
	if (wn__block_header_size(block) != WN__BLOCK_HEADER_SIZE)
		return refuse(WN_ERR_CORRUPT, "the header has the wrong size", reasonp);
	/* The subtraction cannot wrap: `size` is that of a header and tail at least. */
	if (wn__block_payload_size(block) != size - WN__BLOCK_MIN_SIZE)
		return refuse(WN_ERR_CORRUPT, "the block is longer or shorter than its header says",
			      reasonp);
	return 0;
}

static int check_full_header(const unsigned char *block, size_t size, const char **reasonp)
{
	int err;

	if (size < WN__BLOCK_MIN_SIZE)
		return refuse(WN_ERR_CORRUPT, "the block is cut off within its header", reasonp);
	if (wn__block_version(block) != WN__BLOCK_VERSION)
		return refuse(WN_ERR_VERSION, "a block version this library does not know",
			      reasonp);
	if (wn__block_header_sum(block) != wn__block_sum_header(block))
		return refuse(WN_ERR_CORRUPT, "the header's checksum is wrong", reasonp);
	err = check_full_sizes(block, size, reasonp);
	if (err)
		return err;
	if (wn__block_flags(block) || wn__block_reserved(block))
		return refuse(WN_ERR_VERSION, "the block uses a feature this library does not know",
			      reasonp);
	if (!wn__block_has_trailer(block, size))
		return refuse(WN_ERR_CORRUPT, "the block does not end in its trailer", reasonp);
	return 0;
}

static int read_full(const unsigned char *block, size_t size, enum wn_check check,
		     struct wn_block_info *infop, const char **reasonp)
{
	size_t length;
	int err = check_full_header(block, size, reasonp);

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

static int check_tiny_tail(const unsigned char *block, size_t size, const char **reasonp)
{
	const unsigned char *end = block + size;

	if (wn__small_version(end) != WN__SMALL_VERSION)
		return refuse(WN_ERR_VERSION, "a block version this library does not know",
			      reasonp);
	if (wn__small_params_length(end) > WN_BLOCK_PARAMS_SIZE)
		return refuse(WN_ERR_CORRUPT, "there are too many parameters", reasonp);
	if (wn__small_tail_size(end) > size)
		return refuse(WN_ERR_CORRUPT, "the block is shorter than its own tail", reasonp);
	if (size - wn__small_tail_size(end) > WN__SMALL_MAX_PAYLOAD)
		return refuse(WN_ERR_CORRUPT, "the block is too long for a tiny one", reasonp);
	return 0;
}

/* The id is wanted whatever `check` says, and the checksum is part of it. */
static int read_tiny(const unsigned char *block, size_t size, struct wn_block_info *infop,
		     const char **reasonp)
{
	const unsigned char *end = block + size;
	unsigned char id[WN_BLOCK_ID_SIZE];
	int err = check_tiny_tail(block, size, reasonp);

	if (err)
		return err;
	wn__small_get_id(block, size, id);
	if (!wn__small_sum_fits(end, id))
		return refuse(WN_ERR_CORRUPT, "the block's checksum is wrong", reasonp);

	infop->version = wn__small_version(end);
	infop->kind = wn__small_kind(end);
	infop->tiny = true;
	infop->key_count = wn__small_key_count(end);
	infop->secret_id = wn__small_secret_id(end);
	memcpy(infop->id, id, sizeof(id));
	wn__small_get_params(end, infop->params);
	infop->payload = block;
	infop->payload_size = size - wn__small_tail_size(end);
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
	if (claims_full(block, size))
		return read_full(block, size, check, infop, reasonp);
	if (claims_tiny(block, size))
		return read_tiny(block, size, infop, reasonp);
	return refuse(WN_ERR_CORRUPT, "not a winnow block", reasonp);
}

/* ---- write -------------------------------------------------------------- */

int wn__block_begin(struct wn__block_writer *writer, bool tiny, size_t payload_size,
		    unsigned char **payloadp)
{
	size_t around;

	*payloadp = NULL;
	memset(writer, 0, sizeof(*writer));
	tiny = tiny && payload_size <= WN__SMALL_MAX_PAYLOAD;
	around = tiny ? (size_t)WN__SMALL_MAX_TAIL_SIZE : (size_t)WN__BLOCK_MIN_SIZE;
	if (payload_size > SIZE_MAX - around)
		return ENOMEM;
	writer->block = wn__alloc_table(payload_size + around);
	if (!writer->block)
		return ENOMEM;
	writer->size = payload_size + around;
	writer->payload_size = payload_size;
	writer->tiny = tiny;
	*payloadp = writer->block + (tiny ? 0 : WN__BLOCK_HEADER_SIZE);
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

static int end_full(struct wn__block_writer *writer, unsigned kind, const unsigned char *params,
		    uint64_t key_count, const struct wn_secret *secret)
{
	unsigned char *block = writer->block;
	int err = next_id(writer->row, wn__block_id(block));

	if (err)
		return err;
	wn__block_set_magic(block);
	wn__block_set_version(block, WN__BLOCK_VERSION);
	wn__block_set_kind(block, kind);
	wn__block_set_flags(block, 0);
	wn__block_set_header_size(block, WN__BLOCK_HEADER_SIZE);
	wn__block_set_payload_size(block, writer->payload_size);
	wn__block_set_key_count(block, key_count);
	wn__block_set_seed(block, secret->seed);
	wn__block_set_params(block, params);
	wn__block_set_header_sum(block);
	wn__block_set_payload_sum(block, writer->payload_size);
	return 0;
}

static size_t trimmed_params_length(const unsigned char *params)
{
	size_t length = WN_BLOCK_PARAMS_SIZE;

	while (length && !params[length - 1])
		length--;
	return length;
}

static unsigned count_length_log2(uint64_t count)
{
	unsigned log2 = 0;

	while (log2 < 3 && count >> (8u << log2))
		log2++;
	return log2;
}

static void end_tiny(struct wn__block_writer *writer, unsigned kind, const unsigned char *params,
		     uint64_t key_count, const struct wn_secret *secret)
{
	size_t params_length = trimmed_params_length(params);
	unsigned log2 = count_length_log2(key_count);
	unsigned char *end;

	writer->size = writer->payload_size + params_length + ((size_t)1 << log2) +
		       WN__SMALL_FIXED_SIZE;
	end = writer->block + writer->size;
	memset(writer->block + writer->payload_size, 0, writer->size - writer->payload_size);
	wn__small_set_magic(end);
	wn__small_set_version_and_kind(end, WN__SMALL_VERSION, kind);
	wn__small_set_lengths(end, params_length, log2);
	wn__small_set_secret_id(end, secret->id);
	wn__small_set_key_count(end, key_count);
	wn__small_set_params(end, params);
	wn__small_set_sum(writer->block, writer->size);
}

int wn__block_end(struct wn__block_writer *writer, unsigned kind, const unsigned char *params,
		  uint64_t key_count, const struct wn_secret *secret)
{
	if (kind > (writer->tiny ? WN__SMALL_MAX_KIND : UINT8_MAX))
		return WN_ERR_INVALID;
	if (!writer->tiny)
		return end_full(writer, kind, params, key_count, secret);
	end_tiny(writer, kind, params, key_count, secret);
	return 0;
}

void wn__block_abandon(struct wn__block_writer *writer)
{
	free(writer->block);
	memset(writer, 0, sizeof(*writer));
}
