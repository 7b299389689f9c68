/* shim.h - what LevelDB shows to C++ only: its Env, its comparator, its own filters. */
#ifndef WN_ADAPTERS_LEVELDB_SHIM_H
#define WN_ADAPTERS_LEVELDB_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <leveldb/c.h>

#include <winnow/common.h>

WN_BEGIN_DECLS

/* Called on LevelDB's threads. */
struct wn__shim_calls {
	/* This thread begins to write the table; the result comes back to the next two. */
	void *(*begin_table)(void *owner, uint64_t number);
	void (*end_table)(void *owner, void *table); /* its bytes are all given to the file */
	void (*drop_table)(void *owner, void *table); /* the file is closed; NULL never comes */
	void (*remove_table)(void *owner, uint64_t number);
};

struct wn__shim;

/* The number in the name of a table's file; 0: it is none. */
uint64_t wn__shim_table_number(const char *name);

/* A copy of `options` (borrowed) with an Env around its own. NULL: no memory, or LevelDB's
 * options are not where this library expects them (*odd). `calls` and `owner` are borrowed. */
struct wn__shim *wn__shim_watch(const leveldb_options_t *options,
				 const struct wn__shim_calls *calls, void *owner, bool *odd);
leveldb_options_t *wn__shim_options(struct wn__shim *shim);
/* After the database is closed. NULL is fine. */
void wn__shim_unwatch(struct wn__shim *shim);

/* Is their comparator LevelDB's own, by bytes? */
bool wn__shim_is_bytewise(const struct wn__shim *shim);
/* By the options' comparator. */
int wn__shim_compare(const struct wn__shim *shim, const void *a, size_t a_size, const void *b,
		     size_t b_size);

/* LevelDB's own Bloom filters. */
void *wn__shim_bloom_create(void);
void wn__shim_bloom_destroy(void *bloom);
bool wn__shim_bloom_may_match(const void *bloom, const char *key, size_t size, const char *filter,
			      size_t filter_size);

WN_END_DECLS

#endif /* WN_ADAPTERS_LEVELDB_SHIM_H */
