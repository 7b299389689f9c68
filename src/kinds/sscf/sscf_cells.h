/* sscf_cells.h - where a key's cells are, for the living and the frozen form alike.
 *
 * The cells lie in blocks of equal size (one block, if the whole array is one). The
 * hash's upper half says which block; function i takes the place in it from the upper
 * bits of lower half * c^(i+1), a multiplicative generator that starts at the hash: all
 * 64 bits have their say in every function. Rotations of one hash, or a + i * b, have
 * too few patterns for so small a range. Functions 0 to k-1 are the initial ones (the
 * paper's H_A), those from k on the backup ones (H_B). The modulator's cell (h_0) comes
 * from the upper half, mixed: what is left of it within one block is its lower bits.
 *
 * A filter that is built again against its own false positives would make all of them
 * again. So there are variants: a number that is added, bit by bit, to the lower half. */
#ifndef WN_KINDS_SSCF_SSCF_CELLS_H
#define WN_KINDS_SSCF_SSCF_CELLS_H

#include <winnow/hash.h>

#include "base/bits.h"
#include "sscf_format.h"

/* The most backup functions: a modulator cell of 4 bits names one of 15, or none. */
#define WN__SSCF_MAX_BACKUPS ((1u << WN__SSCF_MAX_MODULATOR_BITS) - 1)
#define WN__SSCF_MAX_FUNCTIONS (WN__SSCF_MAX_HASHES + WN__SSCF_MAX_BACKUPS)

/* Powers of 0xd1342543de82ef95, a multiplier with good lattices. */
static const uint64_t wn__sscf_powers[WN__SSCF_MAX_FUNCTIONS] = {
	UINT64_C(0xd1342543de82ef95), UINT64_C(0xb1b9d47c9f8b8cb9), UINT64_C(0x739d9fcd088b9ead),
	UINT64_C(0x49136017ec40ddb1), UINT64_C(0xe7fc1700229b4705), UINT64_C(0x2d320d22823800e9),
	UINT64_C(0x35f577dd97c40e9d), UINT64_C(0xce3a3efbf07b1461), UINT64_C(0xee0b12b556eb6b75),
	UINT64_C(0xc348830c67c1c619), UINT64_C(0x79400ad1926ba38d), UINT64_C(0xce38d51109f0d411),
	UINT64_C(0x6c66c4d80dc94ce5), UINT64_C(0xa2921075973d8c49), UINT64_C(0xe375cda707dccd7d),
	UINT64_C(0x6913f39876d54cc1), UINT64_C(0xc9a06b11a4cfdb55), UINT64_C(0xe9936c2311e90379),
	UINT64_C(0xc32a3d23a84efc6d), UINT64_C(0xb905a86c68fcae71), UINT64_C(0x31eca946954f06c5),
	UINT64_C(0xe0c70408f45adba9), UINT64_C(0x1de7803225c6a05d), UINT64_C(0x36b345b9818c2921),
	UINT64_C(0xf04fa264c1bbbf35), UINT64_C(0x00aa7a8918b2c4d9), UINT64_C(0x1af9c3216a05294d),
	UINT64_C(0xb069050445a9ecd1), UINT64_C(0x7f8ad3e0b01ff4a5), UINT64_C(0x65ae1cc4a9c96f09),
	UINT64_C(0x55e59be91179073d), UINT64_C(0xfad0dfaabc2d2981), UINT64_C(0x264acebda18a9715),
	UINT64_C(0xb34f291357608a39), UINT64_C(0x54d677a39b2daa2d), UINT64_C(0xc0dbd1a3644e0f31),
	UINT64_C(0x3e313e61767f9685), UINT64_C(0xfa50bb7bdb52c669), UINT64_C(0x10c8036bbdbb821d),
	UINT64_C(0x879fc67bb555cde1), UINT64_C(0x8b48e94a5067e2f5), UINT64_C(0x3a74e4027fc3d399),
	UINT64_C(0xbce13bb75137ff0d), UINT64_C(0x46865589574e9591), UINT64_C(0xf7229700e0016c65),
	UINT64_C(0xe15ca8cb565061c9), UINT64_C(0xe39f42273e2590fd),
};

/* The hash as the other functions here want it. */
WN__INLINE struct wn_hash wn__sscf_vary(struct wn_hash hash, unsigned variant)
{
	hash.lo ^= variant * UINT64_C(0xda942042e4dd58b5);
	return hash;
}

WN__INLINE uint64_t wn__sscf_block(struct wn_hash hash, uint32_t blocks)
{
	return (uint64_t)((wn__u128)hash.hi * blocks >> 64);
}

/* Place of function `function` within the block. */
WN__INLINE uint64_t wn__sscf_place(struct wn_hash hash, unsigned function, uint32_t block_cells)
{
	return (hash.lo * wn__sscf_powers[function] >> 32) * block_cells >> 32;
}

/* The hash's modulator cell; `cells` is not 0. */
WN__INLINE uint32_t wn__sscf_modulator_cell(struct wn_hash hash, uint32_t cells)
{
	uint64_t mixed = hash.hi * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)((mixed >> 32) * cells >> 32);
}

WN__INLINE bool wn__sscf_bit(const unsigned char *bits, uint64_t at)
{
	return bits[at >> 3] >> (at & 7) & 1;
}

WN__INLINE void wn__sscf_set_bit(unsigned char *bits, uint64_t at)
{
	bits[at >> 3] = (unsigned char)(bits[at >> 3] | 1u << (at & 7));
}

WN__INLINE void wn__sscf_clear_bit(unsigned char *bits, uint64_t at)
{
	bits[at >> 3] = (unsigned char)(bits[at >> 3] & ~(1u << (at & 7)));
}

/* `width` bits from bit `at` on, 1 to 8, of an array that may end with the byte that
 * holds the last of them. */
WN__INLINE unsigned wn__sscf_get_bits(const unsigned char *bits, uint64_t at, unsigned width)
{
	unsigned value = (unsigned)bits[at >> 3] >> (at & 7);

	if ((at & 7) + width > 8)
		value |= (unsigned)bits[(at >> 3) + 1] << (8 - (at & 7));
	return value & ((1u << width) - 1);
}

WN__INLINE void wn__sscf_put_bits(unsigned char *bits, uint64_t at, unsigned width, unsigned value)
{
	for (unsigned i = 0; i < width; i++) {
		if (value >> i & 1)
			wn__sscf_set_bit(bits, at + i);
		else
			wn__sscf_clear_bit(bits, at + i);
	}
}

#endif /* WN_KINDS_SSCF_SSCF_CELLS_H */
