/* lines_format.h - the parameters of AdaptiveQFs in lines; doc/formats.md has them in words.
 * All numbers are little-endian.
 *
 *   params  0  u8   remainder bits, 8 to 16
 *           1  u8   quotients a span
 *           2  u8   zero
 *           3  u8   form: WN__AQF_LINES
 *           4  u32  extended fingerprints
 *           8  u64  spans
 *          16  u32  lines
 *          20  u32  odd spans
 *          24  u64  fingerprints in odd spans
 *   payload: the lines, the last first; a directory byte a span; the odd spans; their
 *            fingerprints; the extended fingerprints. */
#ifndef WN_KINDS_AQF_LINES_FORMAT_H
#define WN_KINDS_AQF_LINES_FORMAT_H

#include "base/bytes.h"

/* Where blocks in slots have their number of metadata words. */
#define WN__AQF_LINES 0x40

enum {
	WN__LINE_SIZE = 64,
	WN__ODD_SPAN_SIZE = 12,     /* u32 span, u64 number of its first fingerprint */
	WN__ODD_PRINT_SIZE = 4,     /* u32: how far behind the span's first fingerprint */
	WN__EXTENDED_SIZE = 8       /* u64: the upper half of a stored key's hash */
};

struct wn__lines_params {
	unsigned remainder_bits;
	unsigned quotients;
	unsigned zero;
	uint32_t extended;
	uint64_t spans;
	uint32_t lines;
	uint32_t odd_spans;
	uint64_t odd_prints;
};

/* Which form a block of the kind has. */
static inline bool wn__params_are_lines(const unsigned char *at)
{
	return at[3] == WN__AQF_LINES;
}

static inline void wn__lines_params_put(unsigned char *at, const struct wn__lines_params *params)
{
	at[0] = (unsigned char)params->remainder_bits;
	at[1] = (unsigned char)params->quotients;
	at[2] = (unsigned char)params->zero;
	at[3] = WN__AQF_LINES;
	put_le32(at + 4, params->extended);
	put_le64(at + 8, params->spans);
	put_le32(at + 16, params->lines);
	put_le32(at + 20, params->odd_spans);
	put_le64(at + 24, params->odd_prints);
}

static inline struct wn__lines_params wn__lines_params_get(const unsigned char *at)
{
	return (struct wn__lines_params){
		.remainder_bits = at[0],
		.quotients = at[1],
		.zero = at[2],
		.extended = get_le32(at + 4),
		.spans = get_le64(at + 8),
		.lines = get_le32(at + 16),
		.odd_spans = get_le32(at + 20),
		.odd_prints = get_le64(at + 24),
	};
}

/* Bytes of the payload, each term of which has been checked to be small. */
static inline uint64_t wn__lines_payload_size(const struct wn__lines_params *params)
{
	return (uint64_t)params->lines * WN__LINE_SIZE + params->spans +
	       (uint64_t)params->odd_spans * WN__ODD_SPAN_SIZE +
	       params->odd_prints * WN__ODD_PRINT_SIZE +
	       (uint64_t)params->extended * WN__EXTENDED_SIZE;
}

#endif /* WN_KINDS_AQF_LINES_FORMAT_H */
