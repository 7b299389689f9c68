/* aqf_freeze.c - a living filter to a block and back. */
#include <string.h>

#include <winnow/error.h>

#include "aqf_internal.h"
#include "kinds/aqf/aqf_block.h"
#include "kinds/aqf/aqf_bulk.h"
#include "kinds/aqf/aqf_format.h"
#include "kinds/block_build.h"

/* Blocks up to the last that anything reaches into. */
static uint64_t blocks_in_use(const struct wn_aqf *aqf)
{
	const struct wn__table *table = &aqf->table;
	uint64_t blocks = table->blocks;

	while (blocks > (table->slots + 63) / 64 &&
	       wn__offset_byte(table, blocks - 1) == 0 &&
	       wn__meta(table, blocks - 1, WN__OCCUPIEDS, true) == 0)
		blocks--;
	return blocks;
}

static void copy_words(const struct wn__table *from, const struct wn__table *to,
		       unsigned char *words)
{
	uint32_t left_out = from->meta_words - to->meta_words;

	for (uint64_t block = 0; block < to->blocks; block++) {
		for (uint32_t at = 0; at < to->block_words; at++, words += 8) {
			uint64_t index = block * from->block_words + at;

			if (at >= to->meta_words)
				index += left_out;
			put_le64(words, wn__word(from, index, true));
		}
	}
}

int wn_aqf_freeze(const struct wn_aqf *aqf, const struct wn_secret *secret, void **blockp,
		  size_t *sizep)
{
	unsigned char params[WN_BLOCK_PARAMS_SIZE] = {0};
	struct wn__block_writer writer = {0};
	struct wn_aqf_info info;
	struct wn__table table;
	unsigned char *payload;
	int err;

	*blockp = NULL;
	*sizep = 0;
	wn_aqf_describe(aqf, &info);
	wn__table_shape(&table, info.slots, blocks_in_use(aqf), info.remainder_bits,
			info.extension_bits, info.tag_bits, info.used_slots > info.fingerprints);
	err = wn__block_begin(&writer, wn__aqf_payload_size(&table), &payload);
	if (err)
		return err;
	memcpy(payload, aqf->offsets, table.blocks);
	copy_words(&aqf->table, &table, payload + wn__aqf_offsets_size(table.blocks));
	wn__aqf_put_params(params, &table, info.used_slots, info.counters);
	err = wn__block_end(&writer, WN_KIND_AQF, params, info.fingerprints, secret);
	if (err) {
		wn__block_abandon(&writer);
		return err;
	}
	*blockp = writer.block;
	*sizep = writer.size;
	return 0;
}

int wn_aqf_thaw(const void *block, size_t size, const struct wn_aqf_options *given,
		struct wn_aqf **aqfp)
{
	struct wn_aqf_options wanted = given ? *given : (struct wn_aqf_options){0};
	struct wn_block_info info;
	struct wn__aqf_frozen frozen;
	struct wn__scan scan;
	struct wn_aqf *aqf;
	const char *reason;
	int err;

	*aqfp = NULL;
	wanted.capacity = 1; /* the block says how many there are */
	wanted.remainder_bits = 0;
	wanted.tag_bits = 0;
	err = wn__aqf_check_options(&wanted, &wanted);
	if (!err)
		err = wn_block_read(block, size, WN_CHECK_ALL, &info, &reason);
	if (!err && info.kind != WN_KIND_AQF)
		err = WN_ERR_MISMATCH;
	if (!err)
		err = wn__aqf_open_frozen(&info, WN_CHECK_ALL, &frozen, &reason);
	if (err)
		return err;
	err = wn__aqf_create_shape(frozen.table.slots, frozen.table.remainder_bits,
				   frozen.table.extension_bits, frozen.table.tag_bits,
				   wanted.load, wanted.adapt_load, &aqf);
	if (err)
		return err;
	wn__scan_init(&scan, &frozen.table, false);
	err = wn__aqf_load_scan(aqf, &scan);
	if (err) {
		wn_aqf_destroy(aqf);
		return err;
	}
	*aqfp = aqf;
	return 0;
}
