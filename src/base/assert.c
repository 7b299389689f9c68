/* assert.c - what fails in builds that assert, and which locks a thread holds there. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lock.h"

/* More than there are levels. */
#define MAX_HELD 8

static _Thread_local struct {
	const void *lock;
	enum wn__lock_level level;
} held[MAX_HELD];
static _Thread_local unsigned held_count;

void wn__assert_failed(const char *file, unsigned line, const char *what)
{
	char text[512];
	int length = snprintf(text, sizeof(text), "winnow: %s:%u: not so: %s\n", file, line, what);

	/* Not through stdio: its lock may be held. What cannot be written is lost. */
	if (length > 0 && write(STDERR_FILENO, text, (size_t)length < sizeof(text) ?
							   (size_t)length : sizeof(text) - 1) < 0)
		abort();
	abort();
}

bool wn__lock_is_held(const void *lock)
{
	for (unsigned i = 0; i < held_count; i++) {
		if (held[i].lock == lock)
			return true;
	}
	return false;
}

void wn__lock_note(const void *lock, enum wn__lock_level level)
{
	/* Each was of a higher level than the one before. */
	wn__assert(held_count == 0 || held[held_count - 1].level < level);
	wn__assert(held_count < MAX_HELD);
	held[held_count].lock = lock;
	held[held_count++].level = level;
}

/* Not always the last one. */
void wn__lock_forget(const void *lock)
{
	unsigned at = 0;

	while (at < held_count && held[at].lock != lock)
		at++;
	wn__assert(at < held_count);
	for (held_count--; at < held_count; at++)
		held[at] = held[at + 1];
}
