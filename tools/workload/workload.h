/* workload.h - which operations a benchmark makes, in which order.
 *
 * Everything is drawn from a seed, the benchmark's place in the list and the thread's
 * number: the same command gives the same operations, to every filter. Only what an
 * adversary repeats depends on the answers.
 *
 * Thread safety: a workload never changes; each thread has its own stream. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keyspace.h"
#include "bench/zipf.h"

/* ---- distributions ------------------------------------------------------ */

enum dist_type { DIST_UNIFORM, DIST_ZIPFIAN, DIST_HOTSET, DIST_ADVERSARIAL, DIST_LATEST };

struct dist {
	enum dist_type type;
	double parameter; /* exponent; share of hot keys; share of repeated queries */
	double share;     /* hot set: of the operations that it gets */
};

/* "uniform", "zipfian:1.5", "hotset:0.01" or "hotset:0.01:0.9", "adversarial:0.1",
 * "latest". False: a sentence in `message`. */
bool dist_parse(const char *text, struct dist *distp, char *message, size_t size);
void dist_print(const struct dist *dist, char *textp, size_t size);

/* Numbers from 0 to count - 1, drawn from a distribution. */
struct picker {
	struct dist dist;
	uint64_t count;
	uint64_t hot; /* hot set: this many ranks */
	bool ranked;  /* rank 1 is number 0, and so on; else ranks lie anywhere */
	struct zipf zipf;
};

bool picker_init(struct picker *picker, const struct dist *dist, uint64_t count, bool ranked,
		 uint64_t seed);
uint64_t picker_next(const struct picker *picker, uint64_t *state);

/* ---- benchmarks --------------------------------------------------------- */

enum work_type {
	WORK_FILL_SEQUENTIAL, /* every key once, in the order of the keys */
	WORK_FILL_RANDOM,     /* every key once, in random order */
	WORK_FLUSH,
	WORK_COMPACT,
	WORK_OPERATIONS,
	WORK_REOPEN,
	WORK_STATS,
	WORK_REPLAY
};

enum op_type { OP_GET, OP_GET_ABSENT, OP_UPDATE, OP_INSERT, OP_SCAN, OP_MODIFY, OP_TYPES };

struct bench_kind {
	const char *name;
	enum work_type type;
	unsigned percent[OP_TYPES]; /* of the operations */
	const char *dist;           /* unless the user says; NULL: --dist or uniform */
};

/* NULL: there is none of this name. */
const struct bench_kind *bench_kind_find(const char *name, size_t length);

/* Does it look anything up? Does it write anything? A trace may do both. */
bool bench_kind_reads(const struct bench_kind *kind);
bool bench_kind_writes(const struct bench_kind *kind);

/* Operations that leave the database as it is, so that they can be repeated. */
bool bench_kind_only_reads(const struct bench_kind *kind);

/* All names, NULL at the end. */
extern const struct bench_kind bench_kinds[];

struct op {
	enum op_type type;
	uint64_t number; /* an index, or an absent key's number */
	unsigned length; /* of a scan, in keys */
	bool repeated;   /* by an adversary */
};

struct workload {
	const struct bench_kind *kind;
	const struct keyspace *keyspace; /* borrowed */
	const struct op *trace;          /* borrowed; for replay */
	struct dist dist;
	struct picker stored, absent;
	uint64_t ops;     /* of all threads */
	uint64_t clients; /* each with popular absent keys of his own */
	uint64_t seed;
	double absent_share; /* readmix */
};

/* Sets the pickers; everything else is set before. False: a count that is impossible. */
bool workload_init(struct workload *workload);

struct stream {
	const struct workload *workload;
	uint64_t state;
	uint64_t next, end; /* of the workload's operations: this thread's share */
	uint64_t *found;    /* absent keys that were false positives: the adversary's list */
	size_t found_count, found_room;
};

void stream_init(struct stream *stream, const struct workload *workload, unsigned thread,
		 unsigned threads);
void stream_fini(struct stream *stream);

/* The next operation; false at the end. `newest` is the number of keys that are stored. */
bool stream_next(struct stream *stream, uint64_t newest, struct op *opp);

/* This absent key's lookup was a false positive; an adversary notes it. */
void stream_false_positive(struct stream *stream, uint64_t number);

/* ---- traces ------------------------------------------------------------- */

/* Read a file of operations, a line each: "get KEY" or "put KEY", where 0x... is a key in
 * hexadecimal. Keys that are new are added to the keyspace. *opsp is to be freed. */
bool trace_read(const char *path, struct keyspace *keyspace, struct op **opsp, uint64_t *countp,
		char *message, size_t size);

#endif /* WORKLOAD_H */
