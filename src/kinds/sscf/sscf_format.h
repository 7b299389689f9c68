/* sscf_format.h - the frozen seesaw counting filter's part of a block.
 * doc/formats.md has it in words. All numbers are little-endian.
 *
 *   params  0  u8   initial hash functions k
 *           1  u8   bits of a modulator cell; 0 if there are no modulator cells
 *           2  u8   flags: 1, the negative bits are kept
 *           3  u8   variant of the functions
 *           4  u32  cells in a block
 *           8  u32  blocks
 *          12  u32  modulator cells
 *          16  u32  modulator cells in use
 *   payload: the cells' bits, block by block; the negative bits likewise, if kept; the
 *            modulator cells. Each part is filled up with zero bits to a whole byte. */
#ifndef WN_KINDS_SSCF_SSCF_FORMAT_H
#define WN_KINDS_SSCF_SSCF_FORMAT_H

#include <winnow/common.h>

#include "base/bytes.h"

#define WN__SSCF_MAX_HASHES 32
#define WN__SSCF_MAX_MODULATOR_BITS 4
#define WN__SSCF_FLAG_NEGATIVES 1u

struct wn__sscf_params {
	unsigned hashes;
	unsigned modulator_bits;
	bool keeps_negatives;
	unsigned variant;
	uint32_t block_cells;
	uint32_t blocks;
	uint32_t modulator_cells;
	uint32_t modulated;
};

static inline void wn__sscf_params_put(unsigned char *at, const struct wn__sscf_params *params)
{
	at[0] = (unsigned char)params->hashes;
	at[1] = (unsigned char)params->modulator_bits;
	at[2] = params->keeps_negatives ? WN__SSCF_FLAG_NEGATIVES : 0;
	at[3] = (unsigned char)params->variant;
	put_le32(at + 4, params->block_cells);
	put_le32(at + 8, params->blocks);
	put_le32(at + 12, params->modulator_cells);
	put_le32(at + 16, params->modulated);
}

static inline struct wn__sscf_params wn__sscf_params_get(const unsigned char *at)
{
	return (struct wn__sscf_params){
		.hashes = at[0],
		.modulator_bits = at[1],
		.keeps_negatives = at[2] & WN__SSCF_FLAG_NEGATIVES,
		.variant = at[3],
		.block_cells = get_le32(at + 4),
		.blocks = get_le32(at + 8),
		.modulator_cells = get_le32(at + 12),
		.modulated = get_le32(at + 16),
	};
}

/* Nothing is set that has no meaning. */
static inline bool wn__sscf_params_are_known(const unsigned char *at)
{
	for (unsigned i = 20; i < 32; i++)
		if (at[i])
			return false;
	return (at[2] & ~WN__SSCF_FLAG_NEGATIVES) == 0;
}

/* Bytes of the parts. Cannot overflow: both factors have 32 bits. */
static inline uint64_t wn__sscf_cells_size(const struct wn__sscf_params *params)
{
	uint64_t bits = (uint64_t)params->blocks * params->block_cells;

	return bits / 8 + (bits % 8 != 0);
}

static inline uint64_t wn__sscf_modulator_size(const struct wn__sscf_params *params)
{
	return ((uint64_t)params->modulator_cells * params->modulator_bits + 7) / 8;
}

static inline uint64_t wn__sscf_payload_size(const struct wn__sscf_params *params)
{
	return wn__sscf_cells_size(params) * (params->keeps_negatives ? 2 : 1) +
	       wn__sscf_modulator_size(params);
}

#endif /* WN_KINDS_SSCF_SSCF_FORMAT_H */
