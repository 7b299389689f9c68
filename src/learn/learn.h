/* learn.h - how the filters of one database learn, whatever the storage engine: all that a host
 * has to know.
 *
 *	open      create, then open once the database is there; close before it is gone
 *	tables    a table begins, its filters are built, it ends (new_table.h; small_table.h where a
 *	          table has many small filters); later its file is gone
 *	readers   a filter is opened, asked and closed (reader.h, small_table.h)
 *	lookups   a lookup begins, the host asks its tables, the lookup ends with what the host
 *	          found (lookup.h); what its filters got wrong is learned from before it returns:
 *	          on a busy machine a thread beside comes too late, and the same mistake is paid
 *	          for again meanwhile
 *
 * Behind it: the reverse map has the hashes of the stored keys of each filter (reversemap/map.h).
 * When a "maybe" was wrong, the hashes that were taken for the query's are looked up there, and
 * how they go on becomes a lesson (lessons.h). One thread, the worker, writes the reverse map and
 * the journal.
 *
 * Nothing here writes to disk on a thread of the host's: a flush that waits for a write waits
 * for itself. The host's threads put jobs into a queue that is bounded; a lookup that was wrong
 * reads the reverse map, about one page for each mistake, which has cost a read already.
 *
 * Threads of the host's may still be at work when it closes its database (a flush, a listener),
 * so the object is counted by references. After wn__learn_close() nothing is learned and nothing
 * is queued. Readers hold no reference: they may outlive the database for long, in a cache that
 * several share, and what they need, the lessons, is counted by itself.
 *
 * Thread safety: any thread, any time, but for create, open and close. */
#ifndef WN_LEARN_LEARN_H
#define WN_LEARN_LEARN_H

#include <winnow/filter.h>
#include <winnow/hash.h>
#include <winnow/stats.h>

#include "reversemap/map.h"

struct wn__learn;
struct wn__metrics;
struct wn__registry;

/* The order of keys: below 0, 0, above 0. */
typedef int wn__compare_fn(void *arg, const void *a, size_t a_size, const void *b, size_t b_size);

/* Zero means default. */
struct wn__learn_options {
	bool background;      /* learn on a thread beside, soon after the lookup returned. Default:
			       * before it returns, so that nobody pays twice */
	size_t learned_bytes; /* wn__registry_create()'s budget; 0: WN__REGISTRY_BUDGET */
	size_t queue_length;  /* in the background: false positives that may wait; 0: 4096 */
	unsigned save_ms;     /* between two syncs of what is saved; 0: 1000 */
	const char *name;     /* the database's; not retained. Two that name the same database are
			       * spelled the same. Objects of one name share their lessons: see
			       * wn__registry_open(). NULL: it shares them with none */
	const struct wn_config *config; /* of new filters; not retained. NULL: of a kind that
					 * does not want costs */

	/* Where a filter covers a range of keys, a hash does not tell which filter will be asked
	 * for it: keep the missing keys themselves (missing.h), and not their hashes. */
	bool keeps_missing_keys;
	size_t missing_keys;     /* so many; 0: 131,072 */
	wn__compare_fn *compare; /* NULL: by their bytes */
	void *compare_arg;
};

/* New filters hash with `secret`, which is borrowed. The caller has the one reference. */
int wn__learn_create(const struct wn__learn_options *options, const struct wn_secret *secret,
		     struct wn__learn **learnp);
struct wn__learn *wn__learn_hold(struct wn__learn *learn);
void wn__learn_release(struct wn__learn *learn); /* NULL is fine */

/* What belongs to the database that is now open. */
struct wn__learn_place {
	struct wn__map *map;    /* the reverse map's store; taken, also on failure */
	const char *directory;  /* of what was learned; NULL: nothing is saved */
	bool read_only;         /* load, and write nothing */
	const uint64_t *tables; /* the numbers of its tables, ascending */
	size_t table_count;
};

/* Key lists of tables that are gone are dropped, what was saved is loaded and, unless read only,
 * saved from now on: about once a second, and at the close. Lessons of filters without a key list
 * are forgotten: their table went while nobody listened. That something cannot be read or written
 * costs what was learned, is counted, and every sync says so; it is no error here. */
int wn__learn_open(struct wn__learn *learn, const struct wn__learn_place *place);

/* Do what is queued, save, and end; the store is then gone. No lookup may be under way. */
void wn__learn_close(struct wn__learn *learn);

/* Save now what was learned so far. 0 also if nothing is to be saved at all; or an errno. */
int wn__learn_sync(struct wn__learn *learn);

/* Wait until there is nothing left to store and to learn. While others report faster than can be
 * learned that may be never. */
void wn__learn_drain(struct wn__learn *learn);

/* Add to the numbers. */
void wn__learn_describe(struct wn__learn *learn, struct wn_stats *statsp);

/* Tell `charge` now and then how much memory what was learned takes, and now; NULL: no longer.
 * It is called by the worker and by those who learn at once, and must not call back. Neither
 * may be at work when it changes. */
typedef void wn__charge_fn(void *arg, uint64_t bytes);
void wn__learn_charge(struct wn__learn *learn, wn__charge_fn *charge, void *arg);

/* The user knows that this key, which is not there, will be asked for. Its hash under the
 * database's secret; cost as in wn__negatives_add(). */
int wn__learn_add_negative(struct wn__learn *learn, struct wn_hash hash, const void *key,
			   size_t size, double cost);

/* The table's file is gone: its key lists and lessons go, too. From any thread, never waits for
 * long. */
void wn__learn_table_gone(struct wn__learn *learn, uint64_t number);

/* Where the lessons are. It is there for as long as somebody holds it or one of its lessons. */
struct wn__registry *wn__learn_registry(struct wn__learn *learn);

#endif /* WN_LEARN_LEARN_H */
