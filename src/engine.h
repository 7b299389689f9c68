/* engine.h - how the filters of one database learn, whatever the storage engine.
 *
 *	build     the builder hands the hashes of a finished filter to the worker, which puts
 *	          them into the store of runs
 *	read      a reader asks the block and then its lessons, and notes its "maybe"s in the
 *	          thread's trace while a lookup of ours is under way
 *	feedback  when the lookup is over, what was wrong goes to the worker, which looks up the
 *	          stored key's hash and makes a lesson of it
 *
 * Nothing here writes to disk on a thread of the host's: a flush that waits for a write waits
 * for itself. The host's threads only put jobs into a queue that is bounded.
 *
 * A host's readers may outlive its database (in a cache that several share), so the engine is
 * counted by references. After wn__worker_stop() nothing is learned and nothing is queued; what
 * was learned still helps.
 *
 * Thread safety: any thread, any time, but for create, adopt, start and stop.
 *
 * Not for users: adapters are libraries of their own, therefore WN_PUBLIC. */
#ifndef WN_ENGINE_H
#define WN_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <winnow/common.h>

#include "learned.h"
#include "negatives.h"
#include "rebuild.h"
#include "runs.h"
#include "saved.h"
#include "trace.h"

WN_BEGIN_DECLS

/* Zero means default. */
struct wn__engine_options {
	bool synchronous;     /* learn before the lookup returns */
	size_t learned_bytes; /* memory for lessons; 0: WN__LEARNED_BUDGET */
	size_t queue_length;  /* false positives that may wait; 0: 4096 */
	unsigned save_ms;     /* between two syncs of what is saved; 0: 1000 */
	const char *name;     /* the database's; copied. An engine of the same name that its readers
			       * kept alive hands on what was learned: they go on reading it, in
			       * a cache that outlives the database. NULL: none does */
	const struct wn_config *config; /* of new filters; copied. NULL: filters of kinds that
					 * learn by being built again do not learn */
};

struct wn__engine_stats {
	uint64_t lookups, lookups_discarded;
	uint64_t positives, false_positives;
	uint64_t repeated_false_positives; /* same key, same filter, as far as remembered */
	uint64_t adaptations, unfixable, map_misses, queue_drops;
	uint64_t runs_stored, runs_lost, runs_retired;
	uint64_t carried_over;
	uint64_t lessons, learned_bytes, lessons_dropped;
	uint64_t negatives;
	uint64_t map_runs, map_bytes, map_reads; /* of the store: runs, their size, pages read */
	uint64_t saves, save_failures;
	uint64_t rebuilt, rebuild_failures; /* filters of kinds that learn in this way */
};

enum wn__engine_counter {
	WN__LOOKUPS,
	WN__LOOKUPS_DISCARDED,
	WN__POSITIVES,
	WN__FALSE_POSITIVES,
	WN__REPEATED_FALSE_POSITIVES,
	WN__ADAPTATIONS,
	WN__UNFIXABLE,
	WN__MAP_MISSES,
	WN__QUEUE_DROPS,
	WN__RUNS_STORED,
	WN__RUNS_LOST,
	WN__RUNS_RETIRED,
	WN__CARRIED_OVER,
	WN__SAVE_FAILURES,
	WN__ENGINE_COUNTERS
};

/* Every lookup counts something, on any number of threads: each thread has a stripe, so that
 * they do not all write to one cache line. */
#define WN__ENGINE_STRIPES 16

struct wn__engine_stripe {
	_Alignas(64) atomic_uint_fast64_t counters[WN__ENGINE_COUNTERS];
};

/* What the worker does besides learning: put a run, or drop the runs of a table. In order. */
struct wn__job {
	struct wn__job *next;
	struct wn__run run;     /* to drop a table's: the owner alone */
	struct wn_hash *hashes; /* NULL: drop */
};

/* Which run is which table's: the store's list, kept in memory. The worker's own. */
struct wn__owned {
	uint64_t owner;
	unsigned char id[WN_BLOCK_ID_SIZE];
};

struct wn__engine {
	atomic_size_t references;
	struct wn__engine *elder; /* held; whose lessons these are. NULL: its own */
	char *name;
	struct wn__engine *next; /* of those that have a name */
	struct wn__learned *learned;
	struct wn__negatives *negatives; /* bound to the secret of new filters */
	struct wn__runs *runs;           /* NULL until the database is open */
	struct wn__rebuilds *rebuilds;   /* NULL: none of its filters is built again */
	struct wn__saved *saved;         /* NULL: nothing is saved */
	bool synchronous;
	void (*charge)(void *arg, uint64_t bytes); /* NULL: nobody wants to know */
	void *charge_arg;
	atomic_uint learned_since; /* so many were learned from since the last telling, or so */
	struct wn__engine_stripe stripes[WN__ENGINE_STRIPES];
	atomic_uint_fast64_t *reported;  /* tags of false positives, by their last bits */

	/* ---- engine_worker.c; under the lock ---- */
	pthread_mutex_t lock;
	pthread_cond_t jobs, reports, idle;
	pthread_t keeper, learner;
	bool started, stopping, keeper_busy, learner_busy;
	unsigned save_ms;
	struct wn__job *first_job, **last_job;
	struct wn__job *current_job; /* no longer in the list, and not done yet */
	uint64_t waiting_bytes; /* of the jobs' hashes */
	struct wn__trace_entry *feedback; /* a ring */
	size_t feedback_length, feedback_first, feedback_count;

	/* ---- the worker's alone ---- */
	struct wn__owned *owned;
	size_t owned_count, owned_room;
};

/* Filters are built under `secret`, which is not retained. The caller has the one reference. */
WN_PUBLIC int wn__engine_create(const struct wn__engine_options *options,
				const struct wn_secret *secret, struct wn__engine **enginep);
WN_PUBLIC struct wn__engine *wn__engine_hold(struct wn__engine *engine);
WN_PUBLIC void wn__engine_release(struct wn__engine *engine); /* NULL is fine */

WN_PUBLIC void wn__engine_count(struct wn__engine *engine, enum wn__engine_counter counter,
				uint64_t more);
uint64_t wn__engine_counted(struct wn__engine *engine, enum wn__engine_counter counter);

WN_PUBLIC void wn__engine_describe(struct wn__engine *engine, struct wn__engine_stats *statsp);

/* ---- lookups (lookup by key, table after table) ------------------------- */

/* A lookup of the host's begins on this thread; every begin has its end. */
WN_PUBLIC bool wn__engine_begin_lookup(void);

/* It is over. `traced` is what begin said, `failed`: it came to no answer. The host asked its
 * tables from the newest to the oldest and stopped where it found: every positive but the last
 * was false, and the last was true if `found`. */
WN_PUBLIC void wn__engine_end_lookup(struct wn__engine *engine, bool traced, bool found,
				     bool failed);

/* A batch of lookups, which began as one does, is over: its positives are sorted out, and
 * then each of its keys is confirmed. A batch may bring a key twice; what is learned from it
 * then is no less true. Filters under another secret than `secret_id` are left aside. */
#define WN__BATCH_BUCKETS 256

struct wn__batch {
	struct wn__engine *engine;
	bool traced;
	bool lost; /* some positives are not here: of a key that was found, which is the last? */
	size_t count;
	struct wn__trace_entry entries[WN__TRACE_ENTRIES];
	uint8_t first[WN__BATCH_BUCKETS], next[WN__TRACE_ENTRIES]; /* UINT8_MAX: none */
};

WN_PUBLIC void wn__engine_end_batch(struct wn__engine *engine, bool traced,
				    struct wn__batch *batchp);
WN_PUBLIC void wn__batch_confirm(struct wn__batch *batch, uint32_t secret_id,
				 struct wn_hash hash, bool found, bool failed);

/* Load what was saved in `directory` and, unless `read_only`, save there from now on: about
 * once a second, and when the worker stops. Between adopt and start. Lessons of filters
 * without a run are forgotten: their table went while nobody listened. That something cannot
 * be read or written is counted, and costs what was learned. */
WN_PUBLIC void wn__engine_keep(struct wn__engine *engine, const char *directory, bool read_only);

/* Save now what was learned so far. 0 also if nothing is saved at all; or an errno. */
WN_PUBLIC int wn__engine_sync(struct wn__engine *engine);

/* Tell `charge` now and then how much memory what was learned takes, and now; NULL: no longer.
 * It is called by the worker and by those who learn at once, and must not call back. Neither
 * may be at work when it changes. */
typedef void wn__charge_fn(void *arg, uint64_t bytes);
WN_PUBLIC void wn__engine_charge(struct wn__engine *engine, wn__charge_fn *charge, void *arg);

/* The user knows that this key, which is not there, will be asked for: cost as in
 * wn__negatives_add(). */
WN_PUBLIC int wn__engine_add_negative(struct wn__engine *engine, const struct wn_secret *secret,
				      struct wn_hash hash, double cost);

/* Have the builder build against what is known to hurt: the costliest, as many as there are
 * keys, and at least WN__MIN_CARRIED. `view` is what wn__negatives_view() gave. */
#define WN__MIN_CARRIED 1024
WN_PUBLIC void wn__engine_carry_over(struct wn__engine *engine,
				     const struct wn__negatives_view *view,
				     struct wn_builder *builder);

/* This positive was false. Learns at once, or leaves it to the worker. */
WN_PUBLIC void wn__engine_report(struct wn__engine *engine,
				 const struct wn__trace_entry *entry);

/* Learn from a false positive, now. Reads the store. */
void wn__engine_learn(struct wn__engine *engine, const struct wn__trace_entry *entry);

/* ---- the worker (engine_worker.c) --------------------------------------- */

int wn__worker_init(struct wn__engine *engine, size_t queue_length);
void wn__worker_fini(struct wn__engine *engine);

/* A stored key's hash from a run that is still waiting to be stored; WN_ERR_NOT_FOUND if this
 * one is not. A store may take its time, and false positives come at once. */
int wn__worker_lookup(struct wn__engine *engine, const struct wn__run *run, uint64_t minirun,
		      uint32_t rank, struct wn__run_entry *entryp);
bool wn__worker_is_waiting(struct wn__engine *engine, const struct wn__run *run);
void wn__worker_describe(struct wn__engine *engine, struct wn__engine_stats *statsp);

/* Take over the store and learn which runs are there; then begin. */
WN_PUBLIC int wn__worker_adopt(struct wn__engine *engine, struct wn__runs *runs);
WN_PUBLIC int wn__worker_start(struct wn__engine *engine);
/* Do what is queued, and end; the store is then gone. Nobody may report any more. */
WN_PUBLIC void wn__worker_stop(struct wn__engine *engine);
/* Wait until there is nothing left to store and to learn. While others report faster than can be
 * learned that may be never. */
WN_PUBLIC void wn__worker_drain(struct wn__engine *engine);

/* From any thread, the host's too; never waits for long. The hashes are copied. */
WN_PUBLIC void wn__worker_put(struct wn__engine *engine, const struct wn__run *run,
			      const struct wn_hash *hashes);
WN_PUBLIC void wn__worker_retire(struct wn__engine *engine, uint64_t owner);
void wn__worker_report(struct wn__engine *engine, const struct wn__trace_entry *entry);

WN_END_DECLS

#endif /* WN_ENGINE_H */
