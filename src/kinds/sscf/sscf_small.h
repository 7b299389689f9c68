/* sscf_small.h - the small form of the seesaw counting filter, within the frame of small.h.
 *
 *	cells      bits, as in the large form (sscf_cells.h)
 *	modulator  none, or a 32nd, 16th or 8th of the kind's bytes: cells of two bits
 *	last byte  bits 5 and 6: the modulator's share; 3 and 4: variant; 0 to 2: hashes - 3
 *
 * The size tells all else.
 *
 * It is built against the missing keys that are known then, and never changes afterwards: what is
 * learned later are lessons of its table (learn/small_table.h). With so
 * few keys it is mostly enough to choose among four variants of the hash functions: one of them
 * makes no mistake. Where none is without, functions are modulated (build.c).
 *
 * Thread safety: bytes that do not change. */
#ifndef WN_KINDS_SSCF_SSCF_SMALL_H
#define WN_KINDS_SSCF_SSCF_SMALL_H

#include "kinds/small.h"

WN_BEGIN_DECLS

extern const struct wn__small_form wn__sscf_small_form;

WN_END_DECLS

#endif /* WN_KINDS_SSCF_SSCF_SMALL_H */
