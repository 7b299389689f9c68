/* packs_internal.h - what packs.c and packs_write.c share. */
#ifndef WN_REVERSEMAP_PACKS_INTERNAL_H
#define WN_REVERSEMAP_PACKS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "packs.h"
#include "packs_format.h"

#define WN__PACK_STRANGER UINT32_MAX

/* Where a filter is. Ids are told apart by their lower half; should two live filters ever share
 * it, the one that is built later is refused as if the ids were equal. */
struct wn__pack_place {
	uint64_t id_lo; /* 0: empty */
	uint32_t table; /* in tables[]; or a stranger */
	uint32_t at;    /* in the table's index; of a stranger, how often it is there */
};

struct wn__pack_table {
	bool used, writing;
	bool robbed; /* a later table has a filter of it, too, and is registered with it */
	uint64_t number, bytes;
	uint32_t filters;
	unsigned char *map; /* the file, once it was needed; else NULL */
	size_t map_size;
	struct wn__pack_entry *entries; /* while it is written, and if that failed; else NULL */
	bool strange;                   /* there is no pack */
	bool unread;                    /* it has ids that are not known */
	uint64_t *strangers;            /* the ids' lower halves */
	size_t stranger_count;
};

struct wn__packs {
	char *directory;
	size_t path_size;
	uint64_t secret_sum;
	pthread_mutex_t lock; /* of all below */
	struct wn__pack_place *places;
	size_t place_count, places_used;
	struct wn__pack_table *tables;
	uint32_t table_count;
	uint64_t filters, bytes;
	atomic_uint_fast64_t unread; /* tables; changed under the lock */
};

/* All under the lock, but for reading files. */
struct wn__pack_place *wn__packs_find(struct wn__packs *packs, uint64_t id_lo);
int wn__packs_register(struct wn__packs *packs, struct wn__pack_place place);
void wn__packs_unregister(struct wn__packs *packs, struct wn__pack_place *place);
uint32_t wn__packs_find_table(const struct wn__packs *packs, uint64_t number);
int wn__packs_new_table(struct wn__packs *packs, uint64_t number, uint32_t *tablep);
void wn__packs_remove_table(struct wn__packs *packs, uint32_t table, wn__pack_gone_fn *gone,
			    void *arg);
int wn__packs_read_entry(struct wn__packs *packs, const struct wn__pack_place *place,
			 struct wn__pack_entry *entryp);
/* Has the filter at a place the entry's keys? One that cannot be read has not. */
bool wn__packs_is_same(struct wn__packs *packs, const struct wn__pack_place *place,
		       const struct wn__pack_entry *entry);
void wn__pack_path(const struct wn__packs *packs, uint64_t number, const char *suffix, char *path);
int wn__pack_read_index(const struct wn__packs *packs, uint64_t number, unsigned char **indexp,
			struct wn__pack_header *headerp);

/* ---- packs_strangers.c -------------------------------------------------- */

/* The table has ids that are not known. */
void wn__packs_set_unread(struct wn__packs *packs, uint32_t table);
/* The id is taken by nobody knows whom, until the packs are closed. */
void wn__packs_estrange(struct wn__packs *packs, struct wn__pack_place *place);
/* The table is gone. */
void wn__packs_forget_strangers(struct wn__packs *packs, uint32_t table);

#endif /* WN_REVERSEMAP_PACKS_INTERNAL_H */
