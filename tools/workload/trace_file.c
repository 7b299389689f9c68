/* trace_file.c - reading a file of operations; see workload.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "workload.h"

struct reader {
	struct keyspace *keyspace;
	struct op *ops;
	uint64_t count, room;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* 0x... in place of its bytes; anything else stays. False: half a byte, or no digit. */
static bool decode_key(char *key, size_t *sizep)
{
	const size_t digits = *sizep - 2;

	if (*sizep < 2 || key[0] != '0' || key[1] != 'x')
		return true;
	if (digits == 0 || digits % 2 != 0)
		return false;
	for (size_t i = 0; i < digits / 2; i++) {
		const int high = hex_digit(key[2 + 2 * i]), low = hex_digit(key[3 + 2 * i]);

		if (high < 0 || low < 0)
			return false;
		key[i] = (char)(high << 4 | low);
	}
	*sizep = digits / 2;
	return true;
}

static bool add_op(struct reader *reader, enum op_type type, const char *key, size_t size)
{
	uint64_t number;

	if (reader->count == reader->room) {
		const uint64_t room = reader->room > 0 ? 2 * reader->room : 1024;
		struct op *larger = wn__realloc(reader->ops, (size_t)room * sizeof(*larger));

		if (!larger)
			return false;
		reader->ops = larger;
		reader->room = room;
	}
	if (!keyspace_name(reader->keyspace, key, size, &number))
		return false;
	reader->ops[reader->count++] = (struct op){ .type = type, .number = number };
	return true;
}

static bool read_line(struct reader *reader, const char *path, uint64_t number, char *line,
		      size_t length, char *message, size_t message_size)
{
	enum op_type type;
	size_t size;

	while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
		length--;
	if (length == 0)
		return true;
	if (length > 4 && memcmp(line, "get ", 4) == 0) {
		type = OP_GET;
	} else if (length > 4 && memcmp(line, "put ", 4) == 0) {
		type = OP_UPDATE;
	} else {
		snprintf(message, message_size,
			 "line %llu of '%s' is neither \"get KEY\" nor \"put KEY\"",
			 (unsigned long long)number, path);
		return false;
	}
	size = length - 4;
	if (!decode_key(line + 4, &size) || size > KEY_MAX_SIZE) {
		snprintf(message, message_size,
			 "line %llu of '%s': the key is not whole bytes in hexadecimal, or longer "
			 "than %d bytes",
			 (unsigned long long)number, path, KEY_MAX_SIZE);
		return false;
	}
	if (!add_op(reader, type, line + 4, size)) {
		snprintf(message, message_size, "no memory for the operations of '%s'", path);
		return false;
	}
	return true;
}

bool trace_read(const char *path, struct keyspace *keyspace, struct op **opsp, uint64_t *countp,
		char *message, size_t size)
{
	struct reader reader = { .keyspace = keyspace };
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	ssize_t length;
	bool good = true;

	if (!file) {
		snprintf(message, size, "cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	for (uint64_t number = 1; good && (length = getline(&line, &room, file)) >= 0; number++)
		good = read_line(&reader, path, number, line, (size_t)length, message, size);
	if (good && ferror(file)) {
		snprintf(message, size, "reading '%s' failed: %s", path, strerror(errno));
		good = false;
	} else if (good && reader.count == 0) {
		snprintf(message, size, "'%s' holds no operation", path);
		good = false;
	}
	free(line);
	fclose(file);
	if (!good) {
		free(reader.ops);
		return false;
	}
	*opsp = reader.ops;
	*countp = reader.count;
	return true;
}
