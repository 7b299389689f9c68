/* saved.h - what a database's filters learned, from one opening to the next.
 *
 * Three files in the sidecar directory, beside the runs: "secret", "lessons", "negatives".
 * The last two are written when the database is closed, whole or not at all; after a crash
 * they are those of the close before. Lessons stay true for as long as their filter exists,
 * so old ones do no harm. */
#ifndef WN_SAVED_H
#define WN_SAVED_H

#include <winnow/hash.h>

#include "engine.h"

WN_BEGIN_DECLS

/* The directory's secret, or a new one if it has none that can be read. *newp: save it. */
WN_PUBLIC int wn__saved_secret(const char *directory, struct wn_secret **secretp, bool *newp);
WN_PUBLIC int wn__save_secret(const char *directory, const struct wn_secret *secret);

/* What cannot be read, or written, costs what was learned and nothing else. */
WN_PUBLIC void wn__saved_load(const char *directory, struct wn__engine *engine);
WN_PUBLIC void wn__saved_store(const char *directory, struct wn__engine *engine);

WN_END_DECLS

#endif /* WN_SAVED_H */
