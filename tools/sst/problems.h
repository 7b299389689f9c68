/* problems.h - what is wrong with a file, and where. */
#ifndef WN_TOOLS_SST_PROBLEMS_H
#define WN_TOOLS_SST_PROBLEMS_H

#include <stddef.h>
#include <stdint.h>

/* The first ones are kept, all are counted. */
#define MAX_PROBLEMS 20

struct problem {
	uint64_t offset;
	char text[160];
};

struct problems {
	size_t count;
	struct problem list[MAX_PROBLEMS];
};

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void problems_add(struct problems *problems, uint64_t offset, const char *format, ...);

#endif /* WN_TOOLS_SST_PROBLEMS_H */
