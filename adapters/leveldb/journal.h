/* journal.h - what was learned, written down about once a second.
 *
 * A record names a key of a filter that was extended, and the absent key that it was mistaken
 * for, if it is known; nothing else: the bits come from the pack when the record is read, so a
 * record that is old or wrong can at most cost a lookup.
 *
 * Thread safety: any thread may add; the rest is the worker's, or alone. */
#ifndef WN_ADAPTERS_LEVELDB_JOURNAL_H
#define WN_ADAPTERS_LEVELDB_JOURNAL_H

#include <stdio.h>

#include <winnow/common.h>

#include "kinds/aqf/aqf_small.h"

#define WN__JOURNAL_NO_INDEX UINT32_MAX /* a key alone */

struct wn__journal;

/* size 0: without a key. */
typedef void wn__journal_fn(void *arg, struct wn__small_id id, uint32_t index, const char *key,
			    size_t size);

int wn__journal_create(const char *directory, uint64_t secret_sum, struct wn__journal **journalp);
void wn__journal_destroy(struct wn__journal *journal); /* NULL is fine */

/* Call for every record that can be read, up to the first that cannot. Before anything else. */
void wn__journal_load(struct wn__journal *journal, wn__journal_fn *each, void *arg);

void wn__journal_add(struct wn__journal *journal, struct wn__small_id id, uint32_t index,
		     const char *key, size_t size);

/* Write what was added, and sync it if asked to. Before the first flush the database's lock
 * must be held. */
int wn__journal_flush(struct wn__journal *journal, bool sync);

/* Is it much longer than what it says? Then begin anew: what was added is forgotten, and `all`
 * adds everything again. */
bool wn__journal_is_long(struct wn__journal *journal);
int wn__journal_rewrite(struct wn__journal *journal, void (*all)(void *arg), void *arg);

#endif /* WN_ADAPTERS_LEVELDB_JOURNAL_H */
