/* seat.h - memory for the filters that are asked, alike for all. */
#ifndef BENCH_FILTERS_SEAT_H
#define BENCH_FILTERS_SEAT_H

#include "contender.h"

/* One filter, or TURN of them: copies of what was made, one behind the other in a mapping of
 * their own, with huge pages or without as job->pages says. */
struct seat {
	const struct contender *contender;
	unsigned offset; /* of each from a line of 64 bytes */
	unsigned char *memory;
	size_t mapped;
	size_t count;
	void *filters[TURN];
};

void seat_take(const struct job *job, const struct contender *contender, const struct made *made,
	       size_t count, unsigned offset, struct seat *seatp);
void seat_leave(struct seat *seat);

/* How glibc's malloc() lays what is large enough for a mapping of its own; so lie the filters that
 * RocksDB makes, or reads into its block cache. (Smaller ones lie anyhow.) */
#define MALLOC_OFFSET 16

#endif /* BENCH_FILTERS_SEAT_H */
