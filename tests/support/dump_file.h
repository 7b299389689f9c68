/* dump_file.h - a file looked at as winnow-dump does, for tests. */
#ifndef WN_TESTS_DUMP_FILE_H
#define WN_TESTS_DUMP_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "tools/dump/dump.h"

/* A whole file; the caller frees the bytes. */
static inline struct span read_whole_file(const char *path)
{
	FILE *from = fopen(path, "rb");
	unsigned char *bytes;
	long size;

	if (!from)
		ck_abort_msg("cannot open %s", path);
	fseek(from, 0, SEEK_END);
	size = ftell(from);
	rewind(from);
	bytes = malloc((size_t)size + 1);
	ck_assert_ptr_nonnull(bytes);
	ck_assert_uint_eq(fread(bytes, 1, (size_t)size, from), (size_t)size);
	fclose(from);
	return (struct span){bytes, (size_t)size};
}

/* Both kinds of output, to nowhere: they must not stumble over anything. */
static inline void print_to_nowhere(const struct dump *dump)
{
	FILE *nowhere = fopen("/dev/null", "w");

	ck_assert_ptr_nonnull(nowhere);
	dump_print_text(dump, "file", nowhere);
	dump_print_json(dump, "file", nowhere);
	fclose(nowhere);
}

static inline void expect_good(const struct dump *dump, const char *what)
{
	if (!dump->is_table || dump->problems.count > 0)
		ck_abort_msg("%s: offset %llu: %s", what,
			     (unsigned long long)dump->problems.list[0].offset,
			     dump->problems.list[0].text);
}

#endif /* WN_TESTS_DUMP_FILE_H */
