/* may_match.h - filters behind RocksDB's FilterBitsReader::MayMatch(), driven from C.
 *
 * What is measured is a call of ask() or ask_batch(): these functions are never inlined and call
 * MayMatch() and nothing else, so that callgrind can be told to count inside of them only. */
#ifndef BENCH_MAY_MATCH_H
#define BENCH_MAY_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#include <rocksdb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASK_MAX_BATCH 32

struct asked; /* an open filter */
struct asked_keys;

/* A Bloom filter policy of RocksDB's. */
rocksdb_filterpolicy_t *asked_bloom(double bits);

/* Build a filter of `count` keys that stand one behind the other as RocksDB builds a table's, and
 * open it; the policy is borrowed for as long. NULL policy: a reader that says "no" at once, which
 * shows what the call itself costs. NULL on failure. */
struct asked *asked_create(const rocksdb_filterpolicy_t *policy, const void *keys, size_t key_size,
			   size_t count);
void asked_destroy(struct asked *asked);

bool ask(const struct asked *asked, const void *key, size_t size);

/* A batch's keys as RocksDB has them; at most ASK_MAX_BATCH. */
struct asked_keys *asked_keys_create(void);
void asked_keys_set(struct asked_keys *batch, const void *keys, size_t key_size, size_t count);
void asked_keys_destroy(struct asked_keys *batch);

void ask_batch(const struct asked *asked, struct asked_keys *batch, bool *answersp);

#ifdef __cplusplus
}
#endif

#endif /* BENCH_MAY_MATCH_H */
