/* shim.h - what LevelDB shows to C++ only: its Env, its comparator, its own filters. */
#ifndef WN_ADAPTERS_LEVELDB_SHIM_H
#define WN_ADAPTERS_LEVELDB_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <leveldb/c.h>

#include <winnow/common.h>

WN_BEGIN_DECLS

enum wn__level_read {
	WN__LEVEL_READ_ON,     /* watch on */
	WN__LEVEL_READ_DONE,   /* there is nothing more to watch */
	WN__LEVEL_READ_REFUSED /* nor; and LevelDB must not get these bytes */
};

/* Called on LevelDB's threads. */
struct wn__level_calls {
	/* This thread begins to write the table; the result comes back to the next two. */
	void *(*begin_table)(void *owner, uint64_t number);
	void (*end_table)(void *owner, void *table); /* its bytes are all given to the file */
	void (*drop_table)(void *owner, void *table); /* the file is closed; NULL never comes */
	void (*remove_table)(void *owner, uint64_t number);

	/* LevelDB opens a table to read; the result comes back to the next two. NULL: no memory;
	 * the table is not opened. */
	void *(*begin_reading)(void *owner);
	/* It has read these bytes. They may be replaced by as many others, which must be there
	 * until end_reading(). */
	enum wn__level_read (*was_read)(void *owner, void *table, uint64_t offset, size_t size,
				       const char **bytesp);
	void (*end_reading)(void *owner, void *table);
};

struct wn__level_shim;

/* The number in the name of a table's file; 0: it is none. */
uint64_t wn__level_table_number(const char *name);

/* A copy of `options` (borrowed) with an Env around its own. NULL: no memory, or LevelDB's
 * options are not where this library expects them (*odd). `calls` is borrowed. */
struct wn__level_shim *wn__level_watch(const leveldb_options_t *options,
				const struct wn__level_calls *calls, bool *odd);
/* Before the database is opened: the calls' first argument, borrowed. */
void wn__level_set_owner(struct wn__level_shim *shim, void *owner);
leveldb_options_t *wn__level_options(struct wn__level_shim *shim);
/* After the database is closed. NULL is fine. */
void wn__level_unwatch(struct wn__level_shim *shim);

/* Do they let a database be made that is not there? */
bool wn__level_creates(const struct wn__level_shim *shim);
/* How many bits a key their filters have; 0: they have none. */
double wn__level_bits_per_key(const struct wn__level_shim *shim);
/* Is their comparator LevelDB's own, by bytes? */
bool wn__level_is_bytewise(const struct wn__level_shim *shim);
/* By the options' comparator. */
int wn__level_compare(const struct wn__level_shim *shim, const void *a, size_t a_size,
		      const void *b, size_t b_size);

/* LevelDB's own Bloom filters. */
void *wn__level_bloom_create(void);
void wn__level_bloom_destroy(void *bloom);
bool wn__level_bloom_may_match(const void *bloom, const char *key, size_t size, const char *filter,
			      size_t filter_size);

WN_END_DECLS

#endif /* WN_ADAPTERS_LEVELDB_SHIM_H */
