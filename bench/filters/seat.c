/* seat.c - see seat.h. */
#define _GNU_SOURCE
#include "seat.h"

#include <string.h>
#include <sys/mman.h>

#define LINE ((size_t)64)
#define HUGE ((size_t)2 << 20)

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) & ~(unit - 1);
}

/* Room before and behind: no filter shares a line with another. */
static size_t room_of(const struct made *made)
{
	return round_up(made->size, LINE) + 2 * LINE;
}

/* Whole pages of 2 MiB, which start where such pages do. */
static void map(const struct job *job, size_t size, struct seat *seat)
{
	const bool huge = strcmp(job->pages, "huge") == 0;
	unsigned char *memory;

	seat->mapped = round_up(size, HUGE) + HUGE;
	memory = mmap(NULL, seat->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		bench_die("no memory for a filter of %zu bytes", size);
	if (madvise(memory, seat->mapped, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0 && huge)
		bench_die("there are no huge pages; --pages=small does without");
	seat->memory = memory;
}

void seat_take(const struct job *job, const struct contender *contender, const struct made *made,
	       size_t count, unsigned offset, struct seat *seatp)
{
	unsigned char *at;
	size_t size = 0;

	*seatp = (struct seat){ .contender = contender, .offset = offset, .count = count };
	for (size_t i = 0; i < count; i++)
		size += room_of(&made[i]);
	map(job, size, seatp);
	at = (unsigned char *)round_up((uintptr_t)seatp->memory, HUGE);
	for (size_t i = 0; i < count; i++) {
		memcpy(at + offset, made[i].bytes, made[i].size);
		seatp->filters[i] = contender->type->open(job, &made[i], at + offset);
		at += room_of(&made[i]);
	}
}

void seat_leave(struct seat *seat)
{
	for (size_t i = 0; i < seat->count; i++)
		seat->contender->type->close(seat->filters[i]);
	munmap(seat->memory, seat->mapped);
}
