/* learn_internal.h - what the files of this room share. */
#ifndef WN_LEARN_LEARN_INTERNAL_H
#define WN_LEARN_LEARN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/ids.h"
#include "learn/saved/journal.h"
#include "learn.h"
#include "lessons.h"
#include "lookup.h"
#include "metrics.h"
#include "learn/negatives/missing.h"
#include "learn/negatives/negatives.h"
#include "learn/negatives/popular.h"

/* A false positive, and since when it should not come again, by the lesson clock. */
struct wn__reported {
	atomic_uint_fast64_t tag, since;
};

/* A key list that waits to be stored. */
struct wn__waiting {
	struct wn__keylist list; /* begins with the id */
	struct wn__waiting *next;
	uint64_t *uppers; /* of hashes, ascending */
};

/* What the worker does besides learning: put the key lists of a table, or drop all of a
 * table's. In order. */
struct wn__job {
	struct wn__job *next;
	uint64_t owner;
	struct wn__waiting *first, **last; /* to put, in one go; none: drop */
	size_t count;
	uint64_t bytes; /* of their hashes */
};

/* Which key list is which table's: the store's list, kept in memory. The worker's own. */
struct wn__owned {
	uint64_t owner;
	unsigned char id[WN_BLOCK_ID_SIZE];
};

struct wn__learn {
	atomic_size_t references;
	const struct wn_secret *secret; /* of new filters */
	struct wn__registry *registry;
	struct wn__negatives *negatives; /* bound to the secret; NULL: missing keys are kept */
	struct wn__missing *missing;     /* NULL: negatives are kept */
	struct wn__popular *popular;     /* NULL: new filters do not heed costs */
	struct wn__map *map;             /* NULL until the database is open */
	struct wn__journal *journal;     /* NULL: nothing is saved */
	int save_error;                  /* why nothing is, although it should be */
	bool background;
	void (*charge)(void *arg, uint64_t bytes); /* NULL: nobody wants to know */
	void *charge_arg;
	atomic_uint learned_since; /* lessons since the charge was told, about */
	struct wn__metrics metrics;
	struct wn__reported *reported; /* false positives, by the last bits of their tags */

	/* ---- worker.c; under the lock ---- */
	pthread_mutex_t lock;
	pthread_cond_t jobs, reports, idle;
	pthread_t writer, learner;
	bool started, stopping, writer_busy, learner_busy;
	unsigned save_ms;
	struct wn__job *first_job, **last_job;
	struct wn__job *held; /* key lists of tables that are still being built */
	uint64_t held_bytes;
	struct wn__ids waiting; /* key lists that are held, in the queue or just being stored */
	uint64_t waiting_bytes; /* of the hashes that are held or in the queue */
	struct wn__positive *feedback; /* a ring */
	size_t feedback_length, feedback_first, feedback_count;

	/* ---- the worker's alone ---- */
	struct wn__owned *owned;
	size_t owned_count, owned_room;
};

/* ---- learn.c ------------------------------------------------------------ */

/* This positive was false. Learns at once, or leaves it to the thread beside. `began`: when the
 * lookup did, by the lesson clock. */
void wn__learn_report(struct wn__learn *learn, const struct wn__positive *positive,
		      uint64_t began);

/* Learn from a false positive, now. Reads the store. */
void wn__learn_from(struct wn__learn *learn, const struct wn__positive *positive);

/* Nothing was found. */
void wn__learn_note_missing(struct wn__learn *learn, const struct wn__lookup *lookup);
void wn__learn_note_missing_hash(struct wn__learn *learn, uint32_t secret_id,
				 struct wn_hash hash);

/* ---- queue.c ------------------------------------------------------------ */

/* Under the lock: the first job; what is held waits for no more; the
 * job's key lists no longer wait. */
struct wn__job *wn__queue_take(struct wn__learn *learn);
void wn__queue_release(struct wn__learn *learn);
void wn__queue_forget(struct wn__learn *learn, const struct wn__job *job);
/* A job that is in no list or table any more. */
void wn__queue_free(struct wn__job *job);

int wn__worker_init(struct wn__learn *learn, size_t queue_length);
void wn__worker_fini(struct wn__learn *learn);

/* As wn__map_lookup_minirun(), in a key list that is still waiting to be stored;
 * WN_ERR_NOT_FOUND if this one is not. A store may take its time, and false positives come at
 * once. */
int wn__worker_lookup(struct wn__learn *learn, const struct wn__keylist *list, uint64_t minirun,
		      uint32_t rank, struct wn__keylist_entry *entries, size_t max,
		      size_t *countp);

/* ---- worker.c ----------------------------------------------------------- */

/* Take over the store and learn which key lists are there, in the order of their owners; then
 * begin. */
int wn__worker_adopt(struct wn__learn *learn, struct wn__map *map);
int wn__worker_start(struct wn__learn *learn);
void wn__worker_stop(struct wn__learn *learn);

/* From any thread, the host's too; never waits for long. The upper halves are taken, to be
 * free()d; NULL: there was no memory for them. */
void wn__worker_put(struct wn__learn *learn, const struct wn__keylist *list, uint64_t *uppers);
/* The same for a table with many filters, whose ids begin alike (block_build.h): its key lists
 * wait for each other and are stored together, when the table is at its end, when they have
 * become many, or when the worker is drained or stopped. Meanwhile they can be learned from. The
 * end is told with the id of any of them. */
void wn__worker_hold(struct wn__learn *learn, const struct wn__keylist *list, uint64_t *uppers);
void wn__worker_end_table(struct wn__learn *learn, const unsigned char *id);
void wn__worker_retire(struct wn__learn *learn, uint64_t owner);
void wn__worker_report(struct wn__learn *learn, const struct wn__positive *positive);
void wn__worker_describe(struct wn__learn *learn, struct wn_stats *statsp);

#endif /* WN_LEARN_LEARN_INTERNAL_H */
