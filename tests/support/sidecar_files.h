/* sidecar_files.h - a sidecar's directory and its files, for tests that change them. */
#ifndef WN_TESTS_SIDECAR_FILES_H
#define WN_TESTS_SIDECAR_FILES_H

#include "tests/support/key_lists.h"

static char directory[PATH_MAX];

static inline void set_up(void)
{
	make_directory(directory);
}

static inline void tear_down(void)
{
	remove_directory(directory);
}

static inline struct wn__map *open_store(void)
{
	struct wn__map *map;

	ck_assert_int_eq(wn__map_sidecar_open(directory, NULL, &map), 0);
	return map;
}

/* Put a key list into the directory and close it again. */
static inline void store_sample(const struct sample *sample)
{
	struct wn__map *map = open_store();

	ck_assert_int_eq(wn__map_put(map, &sample->list, sample->uppers), 0);
	wn__map_destroy(map);
}

static inline void path_of(const unsigned char *id, char *path)
{
	size_t at = (size_t)snprintf(path, PATH_MAX, "%s/", directory);

	for (unsigned i = 0; i < WN_BLOCK_ID_SIZE; i++)
		at += (size_t)snprintf(path + at, PATH_MAX - at, "%02x", id[i]);
	ck_assert_uint_lt(at + 5, PATH_MAX);
	strcpy(path + at, ".run");
}

static inline unsigned char *read_whole(const struct sample *sample, size_t *sizep)
{
	char path[PATH_MAX];
	unsigned char *bytes = malloc(1 << 20);
	FILE *file;

	path_of(sample->list.id, path);
	file = fopen(path, "rb");
	ck_assert_ptr_nonnull(file);
	*sizep = fread(bytes, 1, 1 << 20, file);
	ck_assert_uint_lt(*sizep, 1 << 20);
	fclose(file);
	return bytes;
}

#endif /* WN_TESTS_SIDECAR_FILES_H */
