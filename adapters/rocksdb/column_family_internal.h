/* column_family_internal.h - what the parts of the store in a column family share. */
#ifndef WN_ADAPTERS_ROCKSDB_COLUMN_FAMILY_INTERNAL_H
#define WN_ADAPTERS_ROCKSDB_COLUMN_FAMILY_INTERNAL_H

#include <pthread.h>

#include <rocksdb/c.h>

#include <winnow/error.h>

#include "base/ids.h"
#include "kinds/block_build.h"
#include "reversemap/pages.h"

/* The filter's id, the first 64 bits of the page's last hash, the page's number: all with
 * the most significant byte first. */
#define WN__FAMILY_PAGE_AT (WN_BLOCK_ID_SIZE + 8)
#define WN__FAMILY_KEY_SIZE (WN__FAMILY_PAGE_AT + 4)
#define WN__FAMILY_LIMIT_SIZE (WN__FAMILY_KEY_SIZE + 1) /* a key behind all of a run's */

/* What is known of a key list in the store, so that a lookup reads the page it looks for and
 * no other: some 100 bytes each, with its place in the table. */
struct wn__family_list {
	struct wn__keylist_header header; /* begins with the id */
	int error;                    /* it cannot be read; the header has the id alone */
};

struct wn__family_map {
	struct wn__map base;
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family;
	rocksdb_options_t *options;
	rocksdb_envoptions_t *env_options;
	rocksdb_readoptions_t *read_options;
	rocksdb_writeoptions_t *write_options;
	rocksdb_ingestexternalfileoptions_t *ingest_options;
	pthread_mutex_t change; /* one put or drop at a time: the accounts stay right */
	uint64_t files;         /* written so far */
	char *directory;        /* NULL: read only */
	pthread_mutex_t lock;   /* over `known`, which those who hold `change` may read without */
	struct wn__ids known;
};

static inline struct wn__family_map *wn__to_family(struct wn__map *map)
{
	return (struct wn__family_map *)map;
}

/* ---- column_family.c: keys, errors, which key lists are there ------------ */

void wn__family_key(const unsigned char *id, uint64_t hash_hi, uint64_t page, char *key);
uint64_t wn__family_key_page(const char *key);
/* A key behind all keys of the key list. */
void wn__family_limit(const unsigned char *id, char *limit);

/* RocksDB's C interface tells errors as text. NULL is no error; the text is freed. */
int wn__family_error(char *text);

bool wn__family_known(struct wn__family_map *family, const unsigned char *id,
		      struct wn__family_list *knownp);
void wn__family_forget(struct wn__family_map *family, const unsigned char *id);
/* `known` is taken, or freed on failure. Another of the same id is forgotten. */
int wn__family_remember(struct wn__family_map *family, struct wn__family_list *known);

/* ---- the functions of struct wn__map_ops --------------------------------- */

/* column_family_read.c */
int wn__family_lookup(struct wn__map *map, const struct wn__keylist *list, uint64_t minirun,
		      uint32_t rank, struct wn__keylist_entry *entries, size_t max,
		      size_t *countp);
int wn__family_stream(struct wn__map *map, const unsigned char *id, wn__keylist_visit_fn *fn,
		      void *arg);

/* column_family_write.c */
int wn__family_put(struct wn__map *map, const struct wn__keylist *list,
		   const uint64_t *uppers);
void wn__family_put_many(struct wn__map *map, struct wn__keylist_put *puts, size_t count);
int wn__family_drop(struct wn__map *map, const unsigned char *id);
size_t wn__family_drop_many(struct wn__map *map, const unsigned char (*ids)[WN_BLOCK_ID_SIZE],
			    size_t count);

#endif /* WN_ADAPTERS_ROCKSDB_COLUMN_FAMILY_INTERNAL_H */
