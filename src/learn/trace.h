/* trace.h - the positives of one lookup, noted by the thread that makes it.
 *
 * A lookup asks several tables' filters; when it is over, its caller knows which of
 * the "maybe"s were wrong. The trace tells him where they came from. It holds copies
 * only: a reader may be closed between its answer and the end of the lookup.
 *
 * Lookups may be nested (a merge operator that reads, a store of ours that reads in
 * the middle of a lookup): each has a frame of its own, and what is noted goes to the
 * innermost. While no frame is open nothing is noted.
 *
 * Thread safety: every thread has its own trace and sees no other. It is made at the
 * thread's first wn__trace_begin() and freed at the thread's end; noting allocates
 * nothing. */
#ifndef WN_LEARN_TRACE_H
#define WN_LEARN_TRACE_H

#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

#include "reversemap/map.h"

WN_BEGIN_DECLS

#define WN__TRACE_ENTRIES 64 /* of all frames together */
#define WN__TRACE_DEPTH 8

struct wn__trace_entry {
	struct wn__keylist filter; /* which one: all that its run is looked up with */
	struct wn_hash hash;   /* the query's, under the filter's secret */
	struct wn_match match;
	uint64_t began; /* wn__trace_clock() when the lookup began */
};

/* A clock that ticks when what was learned from a false positive is there for all. What a
 * lookup cannot know, because it began before, it does not repeat. */
uint64_t wn__trace_clock(void);
uint64_t wn__trace_tick(void); /* the time after it */

/* A lookup begins: open a frame. Every begin has its end, also where it fails:
 * ENOMEM (the thread has no trace) or WN_ERR_FULL (too many frames) mean that the
 * lookup is not traced. */
int wn__trace_begin(void);
void wn__trace_end(void);

/* Open frames, those that are not traced included. */
unsigned wn__trace_depth(void);

/* Note a positive in the innermost frame. When there is no room it is counted. */
void wn__trace_note(const struct wn__keylist *filter, struct wn_hash hash,
			      const struct wn_match *match);

/* The innermost frame's positives, in the order in which they were noted; borrowed
 * until the next call of anything here but wn__trace_depth(). *lostp (may be NULL):
 * how many came after these and were not noted. If any were lost, the last one that
 * is here is not the lookup's last. */
const struct wn__trace_entry *wn__trace_entries(size_t *countp, uint64_t *lostp);

/* A filter was asked for a key, whatever it said: leave the hash in the innermost frame. The
 * last one stays. asked() tells it; false if there is none. */
void wn__trace_ask(uint32_t secret_id, struct wn_hash hash);
bool wn__trace_asked(uint32_t *secret_idp, struct wn_hash *hashp);

/* Empty the innermost frame: the next lookup uses it. */
void wn__trace_clear(void);

WN_END_DECLS

#endif /* WN_LEARN_TRACE_H */
