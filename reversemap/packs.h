/* packs.h - the reverse map of many small filters: one file for each table.
 *
 * A pack holds, filter after filter in the order they were built in, 8 bytes of every key's
 * hash in the order of the hashes: the first 16 bits, which the fingerprint must fit, and the
 * 48 bits that a lesson is made of. A filter is found by its id, the hash of its bytes; where it
 * is stands in memory, 16 bytes a filter.
 *
 * The ids of all filters that may learn are registered here while they are built. So it is known
 * whether a filter's id is that of another with other keys: then it must be given another salt,
 * or be frozen. A lesson made for an id is therefore true for every filter that has it.
 *
 * A pack is bound to the secret, to its table's number and, filter by filter, to their ids and
 * keys by checksums. A pack that is damaged or missing costs lessons, never an answer: whoever
 * opens the packs must look for live tables without one, and say which ids they have. These are
 * *strangers*, taken by keys that nobody knows. Where not even the ids can be told, no lesson
 * may be believed for as long as that table lives.
 *
 * Thread safety: any function, any thread, but for open and close; one thread per writer. */
#ifndef WN_REVERSEMAP_PACKS_H
#define WN_REVERSEMAP_PACKS_H

#include <winnow/common.h>
#include <winnow/hash.h>

#include "kinds/aqf/aqf_small.h"

WN_BEGIN_DECLS

struct wn__packs;
struct wn__pack_writer;

struct wn__packs_stats {
	uint64_t packs, filters, bytes; /* on disk */
	uint64_t strangers;             /* tables without a pack */
	uint64_t unread;                /* tables of which the ids are not known */
};

/* What a pack keeps of a key's hash. */
static inline uint64_t wn__pack_record(struct wn_hash hash)
{
	return (hash.hi & UINT64_C(0xffff) << 48) | (hash.lo & UINT64_C(0xffffffffffff));
}

/* The packs in `directory`, made under the secret with this sum. What cannot be read is left
 * out. The directory need not be there: it is made when it is needed. */
int wn__packs_open(const char *directory, uint64_t secret_sum,
			     struct wn__packs **packsp);
void wn__packs_close(struct wn__packs *packs); /* NULL is fine */

/* Is there a pack of the table, or is one being made? */
bool wn__packs_have(struct wn__packs *packs, uint64_t table);
/* A live table without a pack has filters with these ids; `ids` NULL: nobody knows which. Before
 * any lesson is read or made. With an error the packs are of no use. */
int wn__packs_add_strangers(struct wn__packs *packs, uint64_t table,
				      const struct wn__small_id *ids, size_t count);
/* Is there a table of which the ids are not known? Then no lesson may be believed. */
bool wn__packs_in_doubt(struct wn__packs *packs);

/* A table begins. EEXIST: there is a pack of this number; retire it first. */
int wn__pack_begin(struct wn__packs *packs, uint64_t table,
			     struct wn__pack_writer **writerp);
/* A filter of it, before its bytes are given away. WN_ERR_MISMATCH: the id is taken by other
 * keys; ENOMEM: not registered. Either way it must not learn. */
int wn__pack_add(struct wn__pack_writer *writer, struct wn__small_id id,
			   const struct wn_hash *hashes, uint32_t count);
/* The table is written: keep the pack. An error: there is none, and the table does not learn. */
int wn__pack_finish(struct wn__pack_writer *writer);

/* The records of the filter, `*countp` of them; free() them. WN_ERR_NOT_FOUND, WN_ERR_CORRUPT,
 * an errno. */
int wn__packs_read(struct wn__packs *packs, struct wn__small_id id, uint64_t **recordsp,
			     uint32_t *countp);

/* The table is gone, and its filters, unless they are another table's as well. */
typedef void wn__pack_gone_fn(void *arg, struct wn__small_id id, uint32_t count);
void wn__packs_retire(struct wn__packs *packs, uint64_t table, wn__pack_gone_fn *gone,
				void *arg);
/* The same for all tables but those in `live`, ascending. */
void wn__packs_sweep(struct wn__packs *packs, const uint64_t *live, size_t count,
			       wn__pack_gone_fn *gone, void *arg);

void wn__packs_describe(struct wn__packs *packs, struct wn__packs_stats *statsp);

WN_END_DECLS

#endif /* WN_REVERSEMAP_PACKS_H */
