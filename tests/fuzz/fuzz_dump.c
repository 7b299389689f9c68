/* libFuzzer target: winnow-dump on any bytes. They are taken as they are, and once more
 * with their checksums put right, so that what lies behind those is reached as well.
 *
 * The first byte chooses; the rest is the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/dump/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_magic(unsigned char *end, unsigned choice)
{
	if (choice & 1) {
		put_le64(end - 8, UINT64_C(0xdb4775248b80fb57));
		return;
	}
	put_le64(end - 8, UINT64_C(0x88e241b785f4cff7));
	/* No checksums, so that no block is refused for them. */
	end[-53] = 0;
	put_le32(end - 12, choice >> 1 & 7);
}

static void look_at(const unsigned char *bytes, size_t size, bool verify)
{
	static struct dump dump;
	static FILE *nowhere;
	struct dump_options options = {.verify = verify};

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	dump_read(&dump, (struct span){bytes, size}, &options);
	if (nowhere) {
		dump_print_text(&dump, "file", nowhere);
		dump_print_json(&dump, "file", nowhere);
	}
	dump_release(&dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *copy;

	if (size < 1)
		return 0;
	/* Of exactly this size, so that a step beyond is seen. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	look_at(copy, size - 1, data[0] & 128);
	if (size - 1 >= 53) {
		put_magic(copy + size - 1, data[0]);
		look_at(copy, size - 1, true);
	}
	free(copy);
	return 0;
}
