/* problems.c - a list of what is wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "problems.h"

/* Names from a file may be part of it: no byte of theirs is to command a terminal. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			*text = '?';
}

void problems_add(struct problems *problems, uint64_t offset, const char *format, ...)
{
	va_list arguments;

	if (problems->count < MAX_PROBLEMS) {
		struct problem *problem = &problems->list[problems->count];

		problem->offset = offset;
		va_start(arguments, format);
		vsnprintf(problem->text, sizeof(problem->text), format, arguments);
		va_end(arguments);
		make_printable(problem->text);
	}
	problems->count++;
}
