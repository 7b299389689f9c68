/* sscf_theory.h - what the paper's section IV says about seesaw counting filters, and the
 * same for the frozen form. Formulas only; tests hold them against measurement. */
#ifndef WN_SSCF_THEORY_H
#define WN_SSCF_THEORY_H

#include <winnow/common.h>

/* ---- the frozen form ---------------------------------------------------- */

/* The chance that all k cells of a key that is not there are set, in a block of
 * `block_cells` cells among many, with `keys_per_block` keys on average. */
double wn__sscf_blocked_rate(double keys_per_block, double block_cells, unsigned hashes);

struct wn__sscf_shape {
	uint32_t block_cells;
	uint32_t blocks;
	unsigned hashes;
	double rate; /* expected, before anything is modulated */
};

/* The layout of `cells` cells for `keys` keys: the smallest blocks that cost at most a
 * third of accuracy against one block, and the number of functions that is best for
 * them (or `hashes`, if it is not 0). */
struct wn__sscf_shape wn__sscf_choose_shape(uint64_t cells, uint64_t keys, unsigned hashes);

/* Costs of vulnerable keys, by size: what choosing among them needs to know. */
#define WN__SSCF_COST_CLASSES 512

struct wn__sscf_costs {
	uint64_t count[WN__SSCF_COST_CLASSES];
	double sum[WN__SSCF_COST_CLASSES];
};

/* The class of a cost, above 0; a higher class costs more. Four to a doubling. */
unsigned wn__sscf_cost_class(double cost);

struct wn__sscf_choice {
	uint64_t vulnerable;      /* so many, the costliest, */
	unsigned cost_class;      /* all above this class and some of it */
	uint64_t of_class;        /* so many of it */
	uint64_t modulator_cells;
};

/* How many of the vulnerable keys to serve, and the modulator that it takes: what makes
 * the cost-weighted rate least (section IV-D, for a filter whose builder modulates only
 * where a vulnerable key would be a false positive). `rate` and `hashes` are those of the
 * shape; `limit` bounds the vulnerable keys; the listed ones are taken to make up
 * `listed_share` of the costs of all negatives. */
struct wn__sscf_choice wn__sscf_choose_vulnerable(const struct wn__sscf_costs *costs, uint64_t keys,
						  double bits_per_key, double rate,
						  unsigned hashes, unsigned modulator_bits,
						  double listed_share, uint64_t limit);

#endif /* WN_SSCF_THEORY_H */
