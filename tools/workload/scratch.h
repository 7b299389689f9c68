/* scratch.h - directories for databases: made, and removed with all that is in them. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include "tools/bench/bench_engine.h"

/* A new directory under $TMPDIR or /tmp; free *pathp with free(). */
bool scratch_create(char **pathp, struct failure *failure);

/* Make a directory, which may be there already, and see that it can be written. */
bool directory_make(const char *path, struct failure *failure);

/* Remove a directory tree, as far as it can be. */
void directory_remove(const char *path);

#endif /* SCRATCH_H */
