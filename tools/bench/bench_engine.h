/* bench_engine.h - what winnow-bench needs of a storage engine: one table of functions.
 *
 * engine_memory.c, engine_rocksdb.c and engine_leveldb.c fill it; an engine that is not
 * built in has no table, and bench_engine_find() says so.
 *
 * Functions that can fail return false and leave a sentence in struct failure.
 *
 * Thread safety: each thread opens a session of its own for gets, puts and scans; the
 * other functions are called while no session is open. */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct failure {
	char text[600];
};

/* Leave a sentence; returns false. */
bool fail(struct failure *failure, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

enum feedback { FEEDBACK_WRAPPER, FEEDBACK_STATISTICS, FEEDBACK_NONE };

struct engine_options {
	const char *filter; /* as the user wrote it: "aqf:remainder_bits=9" */
	const char *path;   /* the database's directory; NULL in memory */
	enum feedback feedback;
	bool background; /* learn on a thread beside, not before the lookup returns */
	bool direct_reads, disable_wal;
	uint64_t cache_size, block_size, write_buffer_size;
	uint64_t seed;
};

/* What one lookup did. */
struct look {
	bool found;
	size_t size;          /* of the value; no more of it was copied than there was room */
	uint64_t queries;     /* of filters */
	uint64_t positives;   /* of these: "maybe" */
	uint64_t block_reads; /* of data blocks */
};

/* Sums since the engine was opened, and sizes as of now. 0 where an engine has none. */
struct engine_stats {
	uint64_t adaptations, unfixable, map_misses, queue_drops, carried_over;
	uint64_t filter_bytes, filter_keys;
	uint64_t learned_bytes, reversemap_bytes;
};

/* One pair of a scan; false ends it. */
typedef bool scan_fn(void *arg, const void *key, size_t key_size, const void *value,
		     size_t value_size);

struct engine;
struct session;

struct engine_kind {
	const char *name;
	bool persistent; /* has a directory */
	bool maps_tables; /* filters and indexes are used in the page cache, see bench_cold.h */

	/* Can it run with these options? Otherwise a sentence for the user. */
	bool (*accept)(const struct engine_options *options, struct failure *failure);

	/* `options` is borrowed for the engine's life. NULL: failure. */
	struct engine *(*open)(const struct engine_options *options, struct failure *failure);
	bool (*close)(struct engine *engine, struct failure *failure);

	/* Everything written goes to tables with filters; all tables become one level.
	 * Both end when the work in the background has. */
	bool (*flush)(struct engine *engine, struct failure *failure);
	bool (*compact)(struct engine *engine, struct failure *failure);
	void (*settle)(struct engine *engine); /* wait for what is under way */

	void (*stats)(struct engine *engine, struct engine_stats *statsp);
	void (*print_stats)(struct engine *engine, FILE *to);

	struct session *(*begin)(struct engine *engine, struct failure *failure);
	void (*end)(struct session *session);
	bool (*put)(struct session *session, const void *key, size_t key_size, const void *value,
		    size_t value_size, struct failure *failure);
	bool (*get)(struct session *session, const void *key, size_t size, void *valuep,
		    size_t room, struct look *lookp, struct failure *failure);
	bool (*scan)(struct session *session, const void *key, size_t size, size_t limit,
		     scan_fn *fn, void *arg, struct failure *failure);
};

extern const struct engine_kind engine_memory, engine_rocksdb, engine_leveldb;

/* NULL: unknown or not built in, with a sentence. */
const struct engine_kind *bench_engine_find(const char *name, struct failure *failure);

/* ---- filters by name ---------------------------------------------------- */

enum filter_family {
	FILTER_NONE,
	FILTER_BLOOM,
	FILTER_RIBBON,
	FILTER_WINNOW /* one of winnow's kinds */
};

#define STOCK_BITS_PER_KEY 10.0 /* RocksDB's and LevelDB's customary number */

struct filter_choice {
	enum filter_family family;
	double bits_per_key; /* of Bloom and Ribbon filters: their real size */
};

/* Take a filter's name and options apart. False: a sentence. */
bool filter_choose(const char *text, struct filter_choice *choicep, struct failure *failure);

/* The number to give RocksDB such that a Ribbon filter has so many bits a key. */
double ribbon_parameter(double bits_per_key);

#endif /* BENCH_ENGINE_H */
