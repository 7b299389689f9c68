/* sscf_theory.h - what the paper's section IV says about seesaw counting filters, and the
 * same for the frozen form. Formulas only; tests hold them against measurement. */
#ifndef WN_KINDS_SSCF_SSCF_THEORY_H
#define WN_KINDS_SSCF_SSCF_THEORY_H

#include <winnow/common.h>

/* ---- the living form: section IV ---------------------------------------- */

/* A filter, in the paper's letters. */
struct wn__sscf_letters {
	double keys;            /* N_p */
	double vulnerable;      /* N_n */
	double cells;           /* m = B * N_p */
	double modulator_cells; /* n */
	unsigned hashes;        /* k */
	unsigned backups;       /* 2^eta_2 */
	double vulnerable_cost; /* epsilon: the vulnerable keys' share of all costs */
	/* The second round is as printed in Algorithm 3: any empty cell will do. Ours asks
	 * that it be the one that an insertion would have modulated. */
	bool as_printed;
};

struct wn__sscf_rates {
	double negative;   /* Lemma 1, mu: share of cells with a vulnerable key */
	double triggered;  /* Lemma 2, phi: keys with a function to be modulated */
	double load;       /* Lemma 3, L: share of modulator cells in use */
	double modulated;  /* Lemma 4, P_ms: share of the triggered that succeed */
	double mixed;      /* Lemma 5, psi: share of the negative cells with a key */
	double positive;   /* Lemma 6, lambda: share of the other cells with a key */
	double vulnerable_rate; /* Theorem 1, FP_V */
	double other_rate;      /* Theorem 2, FP_N */
	double cost_rate;       /* Theorem 3, CFPR */
};

/* Lemmas IV.1 to IV.6 and Theorems IV.1 to IV.3. Where the paper rounds (k mu for
 * 1 - (1 - mu)^k, an unnamed constant tau for the mean of P_ms while the modulator
 * fills) the sums are taken as they are. */
struct wn__sscf_rates wn__sscf_theory(const struct wn__sscf_letters *letters);

/* The bits of one cell and of one modulator cell. */
struct wn__sscf_widths {
	unsigned cell;
	unsigned modulator;
};

/* Section IV-D: the cells, modulator cells and hash functions (if given as 0) that make
 * the cost-weighted rate least within `bits` bits. Sets these three in *letters. `share`,
 * if not 0, is the modulator's share of the bits. */
void wn__sscf_minimise(struct wn__sscf_letters *letters, double bits,
		       struct wn__sscf_widths widths, double share);

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

/* Sort `count` costs into their classes; NULL: each of them is 1. */
void wn__sscf_class_costs(const double *given, size_t count, struct wn__sscf_costs *costs);

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

#endif /* WN_KINDS_SSCF_SSCF_THEORY_H */
