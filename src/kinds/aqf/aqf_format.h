/* aqf_format.h - the AdaptiveQF's part of a block: parameters and payload.
 * doc/formats.md has it in words. All numbers are little-endian.
 *
 *   params  0  u8   remainder bits
 *           1  u8   extension bits
 *           2  u8   tag bits
 *           3  u8   metadata words a block of slots: 2, or 3 with extensions
 *           4  u32  counter slots, UINT32_MAX if there are more
 *           8  u64  slots (quotients)
 *          16  u64  blocks of 64 slots
 *          24  u64  used slots
 *   payload: one offset byte a block, zero bytes up to a multiple of 8, then the
 *            blocks' words (aqf_table.h). */
#ifndef WN_KINDS_AQF_AQF_FORMAT_H
#define WN_KINDS_AQF_AQF_FORMAT_H

#include "base/bytes.h"

struct wn__aqf_params {
	unsigned remainder_bits;
	unsigned extension_bits;
	unsigned tag_bits;
	unsigned meta_words;
	uint32_t counters;
	uint64_t slots;
	uint64_t blocks;
	uint64_t used;
};

static inline void wn__aqf_params_put(unsigned char *at, const struct wn__aqf_params *params)
{
	at[0] = (unsigned char)params->remainder_bits;
	at[1] = (unsigned char)params->extension_bits;
	at[2] = (unsigned char)params->tag_bits;
	at[3] = (unsigned char)params->meta_words;
	put_le32(at + 4, params->counters);
	put_le64(at + 8, params->slots);
	put_le64(at + 16, params->blocks);
	put_le64(at + 24, params->used);
}

static inline struct wn__aqf_params wn__aqf_params_get(const unsigned char *at)
{
	return (struct wn__aqf_params){
		.remainder_bits = at[0],
		.extension_bits = at[1],
		.tag_bits = at[2],
		.meta_words = at[3],
		.counters = get_le32(at + 4),
		.slots = get_le64(at + 8),
		.blocks = get_le64(at + 16),
		.used = get_le64(at + 24),
	};
}

/* Bytes of the payload before the words. */
static inline uint64_t wn__aqf_offsets_size(uint64_t blocks)
{
	return (blocks + 7) / 8 * 8;
}

#endif /* WN_KINDS_AQF_AQF_FORMAT_H */
