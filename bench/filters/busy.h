/* busy.h - processes that only spin, one a processor: a machine that is busy with other things. */
#ifndef BENCH_FILTERS_BUSY_H
#define BENCH_FILTERS_BUSY_H

/* The processes end with this one, at the latest. Dies if one cannot be started. */
void busy_start(void);
void busy_stop(void);

#endif /* BENCH_FILTERS_BUSY_H */
