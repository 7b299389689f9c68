/* aqf_block.h - a block's parameters and table, for those who read or write whole blocks. */
#ifndef WN_KINDS_AQF_AQF_BLOCK_H
#define WN_KINDS_AQF_AQF_BLOCK_H

#include <winnow/block.h>

#include "aqf_table.h"

/* The state of an open filter. */
struct wn__aqf_frozen {
	struct wn__table table; /* first: the query functions get a pointer to it */
	uint64_t used;
	uint64_t counters;
};

/* Bytes of the payload for a table of this shape. */
uint64_t wn__aqf_payload_size(const struct wn__table *table);

/* Write WN_BLOCK_PARAMS_SIZE bytes of parameters. */
void wn__aqf_put_params(unsigned char *to, const struct wn__table *table, uint64_t used,
			uint64_t counters);

/* Check the block's parameters, and all of its payload too if `check` is WN_CHECK_ALL. The
 * table points into the payload. On WN_ERR_CORRUPT *reasonp says what is wrong. */
int wn__aqf_open_frozen(const struct wn_block_info *info, enum wn_check check,
			struct wn__aqf_frozen *frozen, const char **reasonp);

#endif /* WN_KINDS_AQF_AQF_BLOCK_H */
