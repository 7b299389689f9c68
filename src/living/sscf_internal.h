/* sscf_internal.h - the inside of the living seesaw counting filter.
 *
 * Cells lie in groups of eight: a byte of negative bits, eight counters of cell_bits bits
 * (that is cell_bits bytes), and a byte of adaptive bits if the filter is adaptive. One
 * word then holds all there is to know of a cell, and the paper's "1-bit" cell is one
 * bit. A modulator cell has its counter in the lower bits, its index above. */
#ifndef WN_LIVING_SSCF_INTERNAL_H
#define WN_LIVING_SSCF_INTERNAL_H

#include <string.h>

#include <winnow/sscf.h>

#include "base/bytes.h"
#include "kinds/sscf/sscf_cells.h"

struct wn_sscf {
	unsigned char *groups;
	unsigned char *modulator;
	uint32_t cells;
	uint32_t modulator_cells; /* at least 1 */
	unsigned hashes;
	unsigned stride; /* bytes of a group */
	unsigned cell_bits;
	unsigned counter_bits, index_bits;
	bool adaptive;

	uint64_t keys;
	uint64_t sealed; /* cells, those to be sealed included */
	uint64_t sealed_limit;
	uint64_t triggered, failed;
	uint64_t bytes;
	double expected_rate, expected_vulnerable_rate;
};

/* The group of a cell as a number; what lies behind its bytes is the next group's. */
WN__INLINE uint64_t wn__sscf_group(const struct wn_sscf *sscf, uint32_t cell)
{
	return get_le64(sscf->groups + (uint64_t)(cell / 8) * sscf->stride);
}

WN__INLINE bool wn__group_negative(uint64_t group, uint32_t cell)
{
	return group >> cell % 8 & 1;
}

WN__INLINE unsigned wn__group_count(const struct wn_sscf *sscf, uint64_t group, uint32_t cell)
{
	unsigned most = (1u << sscf->cell_bits) - 1;

	return (unsigned)(group >> (8 + cell % 8 * sscf->cell_bits)) & most;
}

/* Only of adaptive filters. */
WN__INLINE bool wn__group_waiting(const struct wn_sscf *sscf, uint64_t group, uint32_t cell)
{
	return group >> (8 + 8 * sscf->cell_bits + cell % 8) & 1;
}

WN__INLINE uint32_t wn__sscf_cell(const struct wn_sscf *sscf, struct wn_hash hash,
				  unsigned function)
{
	return (uint32_t)wn__sscf_place(hash, function, sscf->cells);
}

/* Counter and index of a modulator cell. */
WN__INLINE unsigned wn__sscf_modulator(const struct wn_sscf *sscf, uint32_t cell)
{
	unsigned width = sscf->counter_bits + sscf->index_bits;
	uint64_t at = (uint64_t)cell * width;

	return get_le32(sscf->modulator + at / 8) >> at % 8 & ((1u << width) - 1);
}

WN__INLINE unsigned wn__modulator_count(const struct wn_sscf *sscf, unsigned value)
{
	return value & ((1u << sscf->counter_bits) - 1);
}

WN__INLINE unsigned wn__modulator_index(const struct wn_sscf *sscf, unsigned value)
{
	return value >> sscf->counter_bits;
}

#endif /* WN_LIVING_SSCF_INTERNAL_H */
