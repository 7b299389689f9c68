/* sscf_frozen.h - the frozen seesaw counting filter, opened. */
#ifndef WN_KINDS_SSCF_SSCF_FROZEN_H
#define WN_KINDS_SSCF_SSCF_FROZEN_H

#include <winnow/filter.h>

#include "kinds/block_build.h"
#include "kinds/kind.h"
#include "sscf_cells.h"

struct wn__sscf_frozen {
	const unsigned char *cells;
	const unsigned char *negatives; /* NULL if they are not kept */
	const unsigned char *modulator;
	struct wn__sscf_params params;
};

/* A modulator cell's value: 0, or the number of a backup function plus one. */
WN__INLINE unsigned wn__sscf_modulator_value(const struct wn__sscf_frozen *frozen, uint32_t cell)
{
	unsigned width = frozen->params.modulator_bits;

	return wn__sscf_get_bits(frozen->modulator, (uint64_t)cell * width, width);
}

/* Queries for a number of hash functions; `state` is a struct wn__sscf_frozen. */
wn__query_fn *wn__sscf_query_for(unsigned hashes);
wn__query_batch_fn *wn__sscf_batch_for(unsigned hashes);
wn__query_fn wn__sscf_query;             /* any number */
wn__query_batch_fn wn__sscf_query_batch; /* any number */

/* The options of the kind (kind.c), as build() reads them. */
enum wn__sscf_option {
	WN__SSCF_BITS_PER_KEY,
	WN__SSCF_VULNERABLE_SHARE,
	WN__SSCF_LISTED_SHARE,
	WN__SSCF_HASHES
};

int wn__sscf_build(const struct wn__build_input *input, struct wn__block_writer *writer,
		   unsigned char *params);

/* The bits of a filter whose parameters are chosen, into a payload of zeros. All negatives are
 * served, as far as the modulator's cells of two bits reach; *costp: what is still wrong costs. */
int wn__sscf_fill(const struct wn__build_input *input, const struct wn__sscf_params *params,
		  unsigned char *payload, double *costp);

#endif /* WN_KINDS_SSCF_SSCF_FROZEN_H */
