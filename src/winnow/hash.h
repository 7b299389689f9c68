/* hash.h - keyed 128-bit hashes of keys.
 *
 * All filters of one database share one secret, so that one hash per lookup
 * serves every table asked. The secret is derived from 32 random bytes (the
 * seed); keep the seed, and the same hashes come out for ever.
 *
 * Thread safety: a secret never changes; any number of threads may use it. */
#ifndef WINNOW_HASH_H
#define WINNOW_HASH_H

#include <winnow/common.h>

WN_BEGIN_DECLS

#define WN_SEED_SIZE 32

/* A key's hash, read as the binary fraction 0.hi,lo in [0,1). */
struct wn_hash {
	uint64_t hi;
	uint64_t lo;
};

struct wn_secret;

/* Derive the secret that belongs to the WN_SEED_SIZE bytes at `seed`, which
 * are copied. The caller owns *secretp. */
WN_PUBLIC int wn_secret_create(const void *seed, struct wn_secret **secretp);

/* As wn_secret_create(), with a seed drawn from the system's random source.
 * Fails with an errno if that source cannot be read. */
WN_PUBLIC int wn_secret_create_random(struct wn_secret **secretp);

/* Save the seed to a new file at `path`, or load it back. Saving writes and
 * syncs a temporary file beside it and renames: the file is whole or absent.
 * Loading checks length, magic and checksum: WN_ERR_CORRUPT on damage. What is not
 * a regular file is refused: EISDIR, EINVAL. */
WN_PUBLIC int wn_secret_save(const struct wn_secret *secret, const char *path);
WN_PUBLIC int wn_secret_load(const char *path, struct wn_secret **secretp);

/* NULL is fine. */
WN_PUBLIC void wn_secret_destroy(struct wn_secret *secret);

/* The WN_SEED_SIZE bytes the secret was derived from; borrowed from it. */
WN_PUBLIC const void *wn_secret_seed(const struct wn_secret *secret);

/* The hash of `size` bytes at `key` (any bytes, zero bytes included; size 0 is
 * a key like any other). `key` is not retained. */
WN_PUBLIC struct wn_hash wn_hash_key(const struct wn_secret *secret, const void *key, size_t size);

/* For databases whose comparator takes keys with different bytes for equal (ignoring case,
 * say): filters hash bytes, and would deny a key that is stored with other bytes. Writes to
 * `room`, which has `size` bytes, what all keys that are equal to this one have in common, and
 * returns its size, at most `size`. Equal keys must give equal bytes, always; others need not
 * differ. Called by any thread, also inside the database: it must not call back. */
typedef size_t wn_canonical_fn(void *arg, const char *key, size_t size, char *room);

/* -1, 0 or 1 in the order of the fractions. */
static inline int wn_hash_compare(struct wn_hash a, struct wn_hash b)
{
	if (a.hi != b.hi)
		return a.hi < b.hi ? -1 : 1;
	if (a.lo != b.lo)
		return a.lo < b.lo ? -1 : 1;
	return 0;
}

WN_END_DECLS

#endif /* WINNOW_HASH_H */
