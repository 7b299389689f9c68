/* bench_cold.h - taking a database's files out of the page cache, for --cold.
 *
 * Thread safety: any thread; other threads may read the files meanwhile: then some pages stay. */
#ifndef BENCH_COLD_H
#define BENCH_COLD_H

#include "bench_engine.h"

/* Operations from one drop to the next: few, because the kernel reads ahead around a page that is
 * mapped (here 4 MB), and so 100 reads bring a lot back. */
#define COLD_INTERVAL 100

/* Can files in this directory be dropped at all? Not where the file system is memory. */
bool cold_check(const char *path, struct failure *failure);

/* Drop the database in the directory `path`, and the directory beside it where winnow's files are.
 * `mapped`: these are LevelDB's tables, which are mapped; of them the filters and the index stay,
 * which other engines read once, into memory of their own. `written`: write back first what is
 * not on the disk yet, because it cannot be dropped. What cannot be dropped stays; there is no
 * error. */
void cold_drop(const char *path, bool mapped, bool written);

/* Bytes that this process has had read from disks so far; 0 where the kernel does not say. */
uint64_t cold_bytes_read(void);

#endif /* BENCH_COLD_H */
