/* sscf_baselines.h - what seesaw counting filters are compared with: a counting Bloom
 * filter, and three of them stacked. Small and plain; 4-bit counters that stay at their
 * maximum, all memory counted. */
#ifndef SSCF_BASELINES_H
#define SSCF_BASELINES_H

#include <stdbool.h>
#include <stdint.h>

#include <winnow/hash.h>

/* ---- counting Bloom filter ---------------------------------------------- */

struct cbf {
	unsigned char *counters; /* two a byte */
	uint64_t cells;
	unsigned hashes;
};

/* `bits` in all, for `keys` keys. */
struct cbf *cbf_create(double bits, double keys);
void cbf_destroy(struct cbf *cbf);
void cbf_insert(struct cbf *cbf, struct wn_hash hash);
void cbf_delete(struct cbf *cbf, struct wn_hash hash);
bool cbf_query(const struct cbf *cbf, struct wn_hash hash);

/* ---- stacked filter ----------------------------------------------------- */

/* Three layers: keys; known negatives; keys that the second layer takes for negatives.
 * The space is shared out such that all have the same rate. */
struct stacked {
	struct cbf *layers[3];
};

struct stacked *stacked_create(double bits, double keys, double negatives);
void stacked_destroy(struct stacked *stacked);
/* Negatives first: a key's way depends on them. */
void stacked_add_negative(struct stacked *stacked, struct wn_hash hash);
void stacked_insert(struct stacked *stacked, struct wn_hash hash);
void stacked_delete(struct stacked *stacked, struct wn_hash hash);
bool stacked_query(const struct stacked *stacked, struct wn_hash hash);

#endif /* SSCF_BASELINES_H */
