/* contender_fuse.c - a binary fuse filter over winnow's hashes of the keys. */
#include <stdlib.h>

#include "bench/filters/binary_fuse.h"
#include "contender.h"

static uint64_t hash_of(const struct job *job, const struct bench_key *key)
{
	return wn_hash_key(job->secret, key, BENCH_KEY_SIZE).hi;
}

static void make(const struct job *job, const struct contender *contender,
		 const struct bench_key *keys, size_t count, struct made *madep)
{
	const uint64_t start = bench_now();
	struct binary_fuse *fuse = bench_alloc(1, sizeof(*fuse));
	uint64_t *hashes = bench_alloc(count, sizeof(*hashes));
	uint64_t added;

	for (size_t i = 0; i < count; i++)
		hashes[i] = hash_of(job, &keys[i]);
	added = bench_now();
	if (!binary_fuse_build(hashes, count, contender->width, fuse))
		bench_die("no binary fuse filter could be built");
	free(hashes);
	*madep = (struct made){
		.own = fuse,
		.bytes = fuse->table,
		.size = fuse->bytes,
		.adding = per(start, added, count),
		.finishing = per(added, bench_now(), count),
	};
}

static void unmake(struct made *made)
{
	binary_fuse_free(made->own);
	free(made->own);
}

static void *open_fuse(const struct job *job, const struct made *made, const void *bytes)
{
	struct binary_fuse *fuse = bench_alloc(1, sizeof(*fuse));

	(void)job;
	*fuse = *(const struct binary_fuse *)made->own;
	fuse->table = bytes;
	return fuse;
}

static bool query_fuse(const struct job *job, const void *fuse, const struct bench_key *key)
{
	return binary_fuse_query(fuse, hash_of(job, key));
}

static void batch_fuse(const struct job *job, const void *fuse, const struct bench_key *keys,
		       bool *answersp)
{
	uint64_t hashes[BATCH];

	for (size_t i = 0; i < BATCH; i++)
		hashes[i] = hash_of(job, &keys[i]);
	binary_fuse_query_batch(fuse, hashes, BATCH, answersp);
}

static unsigned turn_fuses(const struct job *job, void *const *fuses, const struct bench_key *key)
{
	const uint64_t hash = hash_of(job, key);
	unsigned sum = 0;

	for (unsigned i = 0; i < TURN; i++)
		sum += binary_fuse_query(fuses[i], hash);
	return sum;
}

static double time_fuse(const struct job *job, enum loop loop, const void *fuse,
			const struct bench_key *keys)
{
	return time_loop(job, loop, query_fuse, batch_fuse, fuse, keys);
}

static double time_turn(const struct job *job, void *const *fuses, const struct bench_key *keys)
{
	return time_turns(job, turn_fuses, fuses, keys);
}

const struct contender_type contender_fuse = {
	.make = make,
	.unmake = unmake,
	.open = open_fuse,
	.close = free,
	.query = query_fuse,
	.batch = batch_fuse,
	.time = time_fuse,
	.time_turn = time_turn,
};
