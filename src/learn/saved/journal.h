/* journal.h - what a database's filters learned, from one opening to the next.
 *
 * Files in a directory of the host's, beside the key lists if these are files:
 *
 *	secret      what hashes are keyed with
 *	lessons     all lessons there were when it was written
 *	negatives   all negatives there were, where hashes of missing keys are kept
 *	missing     all missing keys there were, where the keys themselves are
 *	journal     what was learned since: pieces in the formats of the three, one behind the
 *	            other, appended about once a second and synced
 *
 * The first three are replaced when the journal has become long, and at the end; then
 * the journal is emptied. A crash anywhere in between leaves a journal that says again what is
 * in the others, which does no harm. Behind the first piece that is damaged the journal
 * is cut off: that is what was being written when the machine stopped.
 *
 * Lessons stay true for as long as their filter exists, so old ones do no harm either.
 *
 * Thread safety: sync may be called by any thread; open and close by one. */
#ifndef WN_LEARN_SAVED_JOURNAL_H
#define WN_LEARN_SAVED_JOURNAL_H

#include <winnow/hash.h>

#include "learn/lessons.h"
#include "learn/negatives/missing.h"
#include "learn/negatives/negatives.h"

WN_BEGIN_DECLS

struct wn__journal;

/* What is saved; all borrowed. */
struct wn__journal_state {
	struct wn__registry *registry;
	struct wn__negatives *negatives; /* NULL: there are none */
	struct wn__missing *missing;     /* NULL: there are none */
};

/* Load what is there; what cannot be read is passed over, and costs what was learned and
 * nothing else. Then track changes. The directory is made if it is not there. An errno: the
 * journal cannot be written. */
int wn__journal_open(const char *directory, const struct wn__journal_state *state,
		     struct wn__journal **journalp);

/* Load only. */
void wn__journal_load(const char *directory, const struct wn__journal_state *state);

/* Write what has changed since the last time, so that it survives a crash of the machine. An
 * errno: it was not written; the next sync tries again. ENOENT: the directory or its journal
 * was removed or replaced since it was opened; what is learned is not saved until the database
 * is opened again. */
int wn__journal_sync(struct wn__journal *journal);

/* Write all anew, if anything changed since they were written, and end.
 * NULL is fine. */
void wn__journal_close(struct wn__journal *journal);

struct wn__journal_stats {
	uint64_t syncs;    /* that wrote something */
	uint64_t failures; /* syncs that could not write */
	uint64_t bytes;    /* on disk now */
	uint64_t damaged;  /* files that could not be read, in whole or to their end */
};

/* Never waits, not even for a sync that is under way. */
void wn__journal_describe(const struct wn__journal *journal, struct wn__journal_stats *statsp);

WN_END_DECLS

#endif /* WN_LEARN_SAVED_JOURNAL_H */
