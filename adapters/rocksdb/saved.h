/* saved.h - what a database's filters learned, from one opening to the next.
 *
 * Three files in the sidecar directory, beside the runs: "secret", "lessons", "negatives".
 * The last two are written when the database is closed, whole or not at all; after a crash
 * they are those of the close before. Lessons stay true for as long as their filter exists,
 * so old ones do no harm. */
#ifndef WN_ROCKSDB_SAVED_H
#define WN_ROCKSDB_SAVED_H

#include <winnow/hash.h>

#include "engine.h"

/* The directory's secret, or a new one if it has none that can be read. *newp: save it. */
int wn__saved_secret(const char *directory, struct wn_secret **secretp, bool *newp);
int wn__save_secret(const char *directory, const struct wn_secret *secret);

/* What cannot be read, or written, costs what was learned and nothing else. */
void wn__saved_load(const char *directory, struct wn__engine *engine);
void wn__saved_store(const char *directory, struct wn__engine *engine);

#endif /* WN_ROCKSDB_SAVED_H */
