/* leveldb_bloom.h - LevelDB's own Bloom filter, or any policy of it, to be called from C.
 *
 * LevelDB's C interface makes such a policy and takes it, but has no way to ask it, and
 * LevelDB counts nothing: to count its answers one has to stand in between. */
#ifndef LEVELDB_BLOOM_H
#define LEVELDB_BLOOM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leveldb_bloom;
struct leveldb_filterpolicy_t;

/* NULL: no memory. */
struct leveldb_bloom *leveldb_bloom_create(int bits_per_key);
/* Takes the policy, one of LevelDB's C interface. */
struct leveldb_bloom *leveldb_bloom_wrap(struct leveldb_filterpolicy_t *policy);
void leveldb_bloom_destroy(struct leveldb_bloom *bloom);

const char *leveldb_bloom_name(const struct leveldb_bloom *bloom);

/* *sizep bytes from malloc(); NULL: no memory. */
char *leveldb_bloom_build(const struct leveldb_bloom *bloom, const char *const *keys,
			  const size_t *sizes, int count, size_t *sizep);
bool leveldb_bloom_may_match(const struct leveldb_bloom *bloom, const char *key, size_t size,
			     const char *filter, size_t filter_size);

#ifdef __cplusplus
}
#endif

#endif /* LEVELDB_BLOOM_H */
