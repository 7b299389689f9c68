/* learn.h - how the filters of one database learn, whatever the storage engine.
 *
 *	build     the builder hands the hashes of a finished filter to the worker, which puts
 *	          them into the store of runs
 *	read      a reader asks the block and then its lessons, and notes its "maybe"s in the
 *	          thread's trace while a lookup of ours is under way
 *	feedback  when the lookup is over, the stored key's hash is looked up for what was wrong,
 *	          and made a lesson of, before the lookup returns: on a busy machine a thread
 *	          beside comes too late, and the same mistake is paid for again meanwhile
 *
 * Nothing here writes to disk on a thread of the host's: a flush that waits for a write waits
 * for itself. The host's threads put jobs into a queue that is bounded; a lookup that was wrong
 * reads the store, about one page for each mistake, which has cost a read already.
 *
 * Threads of the host's may still be at work when it closes its database (a flush, a listener),
 * so the engine is counted by references. After wn__worker_stop() nothing is learned and nothing
 * is queued. Readers hold no reference: they may outlive the database for long, in a cache that
 * several share, and what they need, the lessons, is counted by itself (learned.h).
 *
 * Thread safety: any thread, any time, but for create, adopt, start and stop. */
#ifndef WN_LEARN_LEARN_H
#define WN_LEARN_LEARN_H

#include <pthread.h>
#include <stdatomic.h>

#include <winnow/common.h>

#include "popular.h"
#include "base/ids.h"
#include "lessons.h"
#include "negatives.h"
#include "reversemap/map.h"
#include "journal.h"
#include "trace.h"

WN_BEGIN_DECLS

/* Zero means default. */
struct wn__learn_options {
	bool background;      /* learn on a thread beside, soon after the lookup returned. Default:
			       * before it returns, so that nobody pays twice */
	size_t learned_bytes; /* wn__registry_create()'s budget; 0: WN__REGISTRY_BUDGET */
	size_t queue_length;  /* in the background: false positives that may wait; 0: 4096 */
	unsigned save_ms;     /* between two syncs of what is saved; 0: 1000 */
	const char *name;     /* the database's; not retained. Two that name the same database are
			       * spelled the same. Engines of one name share their lessons: see
			       * wn__registry_open(). NULL: it shares them with none */
	const struct wn_config *config; /* of new filters; not retained. NULL: of a kind that
					 * does not want costs */
};

struct wn__learn_stats {
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
};

enum wn__learn_counter {
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
	WN__LEARN_COUNTERS
};

/* Every lookup counts something, on any number of threads: each thread has a stripe, so that
 * they do not all write to one cache line. */
#define WN__LEARN_STRIPES 16

struct wn__learn_stripe {
	_Alignas(64) atomic_uint_fast64_t counters[WN__LEARN_COUNTERS];
};

/* A false positive, and since when it should not come again, by wn__trace_clock(). */
struct wn__reported {
	atomic_uint_fast64_t tag, since;
};

/* A run that waits to be stored. */
struct wn__waiting {
	struct wn__keylist list; /* begins with the id */
	struct wn__waiting *next;
	struct wn_hash *hashes;
};

/* What the worker does besides learning: put runs of a table, or drop all of a table's. In
 * order. */
struct wn__job {
	struct wn__job *next;
	uint64_t owner;
	struct wn__waiting *first, **last; /* to put, in one go; none: drop */
	size_t count;
	uint64_t bytes; /* of their hashes */
};

/* Which run is which table's: the store's list, kept in memory. The worker's own. */
struct wn__owned {
	uint64_t owner;
	unsigned char id[WN_BLOCK_ID_SIZE];
};

struct wn__learn {
	atomic_size_t references;
	struct wn__registry *registry;
	struct wn__negatives *negatives; /* bound to the secret of new filters */
	struct wn__map *map;           /* NULL until the database is open */
	struct wn__hot *hot;             /* NULL: new filters do not heed costs */
	struct wn__saved *saved;         /* NULL: nothing is saved */
	int save_error;                  /* why nothing is, although it should be */
	bool background;
	void (*charge)(void *arg, uint64_t bytes); /* NULL: nobody wants to know */
	void *charge_arg;
	atomic_uint learned_since; /* so many were learned from since the last telling, or so */
	struct wn__learn_stripe stripes[WN__LEARN_STRIPES];
	struct wn__reported *reported; /* false positives, by the last bits of their tags */

	/* ---- engine_worker.c; under the lock ---- */
	pthread_mutex_t lock;
	pthread_cond_t jobs, reports, idle;
	pthread_t keeper, learner;
	bool started, stopping, keeper_busy, learner_busy;
	unsigned save_ms;
	struct wn__job *first_job, **last_job;
	struct wn__job *held; /* runs of tables that are still being built */
	uint64_t held_bytes;
	struct wn__ids waiting; /* runs that are held, in the queue or just being stored */
	uint64_t waiting_bytes; /* of the hashes that are held or in the queue */
	struct wn__trace_entry *feedback; /* a ring */
	size_t feedback_length, feedback_first, feedback_count;

	/* ---- the worker's alone ---- */
	struct wn__owned *owned;
	size_t owned_count, owned_room;
};

/* Filters are built under `secret`, which is not retained. The caller has the one reference. */
int wn__learn_create(const struct wn__learn_options *options,
				const struct wn_secret *secret, struct wn__learn **enginep);
struct wn__learn *wn__learn_hold(struct wn__learn *learn);
void wn__learn_release(struct wn__learn *learn); /* NULL is fine */

void wn__learn_count(struct wn__learn *learn, enum wn__learn_counter counter,
				uint64_t more);
uint64_t wn__learn_counted(struct wn__learn *learn, enum wn__learn_counter counter);

void wn__learn_describe(struct wn__learn *learn, struct wn__learn_stats *statsp);

/* ---- lookups (lookup by key, table after table) ------------------------- */

/* A lookup of the host's begins on this thread; every begin has its end. */
bool wn__learn_begin_lookup(void);

/* It is over. `traced` is what begin said, `failed`: it came to no answer. The host asked its
 * tables from the newest to the oldest and stopped where it found: every positive but the last
 * was false, and the last was true if `found`. */
void wn__learn_end_lookup(struct wn__learn *learn, bool traced, bool found,
				     bool failed);

/* Are readers to leave the query's hash in the trace (wn__trace_ask())? */
static inline bool wn__learn_wants_queries(const struct wn__learn *learn)
{
	return learn->hot != NULL;
}

/* A batch of lookups, which began as one does, is over: its positives are sorted out, and
 * then each of its keys is confirmed. A batch may bring a key twice; what is learned from it
 * then is no less true. Filters under another secret than `secret_id` are left aside. */
#define WN__BATCH_BUCKETS 256

struct wn__batch {
	struct wn__learn *learn;
	bool traced;
	bool lost; /* some positives are not here: of a key that was found, which is the last? */
	size_t count;
	struct wn__trace_entry entries[WN__TRACE_ENTRIES];
	uint8_t first[WN__BATCH_BUCKETS], next[WN__TRACE_ENTRIES]; /* UINT8_MAX: none */
};

void wn__learn_end_batch(struct wn__learn *learn, bool traced,
				    struct wn__batch *batchp);
void wn__batch_confirm(struct wn__batch *batch, uint32_t secret_id,
				 struct wn_hash hash, bool found, bool failed);

/* Load what was saved in `directory` and, unless `read_only`, save there from now on: about
 * once a second, and when the worker stops. Between adopt and start. Lessons of filters
 * without a run are forgotten: their table went while nobody listened. That something cannot
 * be read or written costs what was learned, is counted, and every sync says so. */
void wn__learn_keep(struct wn__learn *learn, const char *directory, bool read_only);

/* Save now what was learned so far. 0 also if nothing is to be saved at all; or an errno. */
int wn__learn_sync(struct wn__learn *learn);

/* Tell `charge` now and then how much memory what was learned takes, and now; NULL: no longer.
 * It is called by the worker and by those who learn at once, and must not call back. Neither
 * may be at work when it changes. */
typedef void wn__charge_fn(void *arg, uint64_t bytes);
void wn__learn_charge(struct wn__learn *learn, wn__charge_fn *charge, void *arg);

/* The user knows that this key, which is not there, will be asked for: cost as in
 * wn__negatives_add(). */
int wn__learn_add_negative(struct wn__learn *learn, const struct wn_secret *secret,
				      struct wn_hash hash, double cost);

/* Have the builder build against what is known to hurt: the costliest, as many as there are
 * keys, and at least WN__MIN_CARRIED. `view` is what wn__negatives_view() gave. */
#define WN__MIN_CARRIED 1024
void wn__learn_carry_over(struct wn__learn *learn,
				     const struct wn__negatives_view *view,
				     struct wn_builder *builder);

/* This positive was false. Learns at once, or leaves it to the thread beside. */
void wn__learn_report(struct wn__learn *learn,
				 const struct wn__trace_entry *entry);

/* Learn from a false positive, now. Reads the store. */
void wn__learn_learn(struct wn__learn *learn, const struct wn__trace_entry *entry);

/* ---- the worker (engine_worker.c) --------------------------------------- */

int wn__worker_init(struct wn__learn *learn, size_t queue_length);
void wn__worker_fini(struct wn__learn *learn);

/* As wn__map_lookup_minirun(), in a run that is still waiting to be stored;
 * WN_ERR_NOT_FOUND if this one is not. A store may take its time, and false positives come at
 * once. */
int wn__worker_lookup(struct wn__learn *learn, const struct wn__keylist *list, uint64_t minirun,
		      uint32_t rank, struct wn__keylist_entry *entries, size_t max, size_t *countp);
void wn__worker_describe(struct wn__learn *learn, struct wn__learn_stats *statsp);

/* Take over the store and learn which runs are there, in the order of their owners; then
 * begin. */
int wn__worker_adopt(struct wn__learn *learn, struct wn__map *map);
int wn__worker_start(struct wn__learn *learn);
/* Do what is queued, and end; the store is then gone. Nobody may report any more. */
void wn__worker_stop(struct wn__learn *learn);
/* Wait until there is nothing left to store and to learn. While others report faster than can be
 * learned that may be never. */
void wn__worker_drain(struct wn__learn *learn);

/* From any thread, the host's too; never waits for long. The hashes are copied. */
void wn__worker_put(struct wn__learn *learn, const struct wn__keylist *list,
			      const struct wn_hash *hashes);
/* The same for a table with many filters, whose ids begin alike (block_build.h): its runs wait
 * for each other and are stored together, when the table is at its end, when they have become
 * many, or when the worker is drained or stopped. Meanwhile they can be learned from. The end
 * is told with the id of any of them. */
void wn__worker_hold(struct wn__learn *learn, const struct wn__keylist *list,
			       const struct wn_hash *hashes);
void wn__worker_end_table(struct wn__learn *learn, const unsigned char *id);
void wn__worker_retire(struct wn__learn *learn, uint64_t owner);
void wn__worker_report(struct wn__learn *learn, const struct wn__trace_entry *entry);

WN_END_DECLS

#endif /* WN_LEARN_LEARN_H */
