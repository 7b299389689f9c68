/* small_table.h - tables with a small filter for each data block, as LevelDB makes them.
 *
 * Such a table learns as a whole: it has one id, one key list in the reverse map, and one set of
 * lessons. A lesson says of a minirun of the table's plain shape how many stored keys it has, and
 * how these go on; it holds for the table, and so for each of its filters, of whatever kind.
 *
 * The id is a digest of the bytes of all its filters, 16 of which were drawn at random: those in
 * the header of the first (kinds/small.h). So lessons and key lists are bound to the very table: a
 * restored backup, another database's files, a number that is used again have other ids, and
 * nothing is learned about them or believed of them. A key list that does not have the keys of all
 * filters would deny keys; it has another id as well.
 *
 * While a table is built, the missing keys that are known and lie among its own are tried on its
 * filters. Kinds that heed costs are built against them; where a filter is wrong all the same,
 * the table begins its life with a lesson.
 *
 * Thread safety: building, one thread at a time; readers may be asked by any number of threads. */
#ifndef WN_LEARN_SMALL_TABLE_H
#define WN_LEARN_SMALL_TABLE_H

#include <winnow/filter.h>
#include <winnow/hash.h>

#include "kinds/small.h"

struct wn__learn;
struct wn__metrics;
struct wn__registry;

/* What all small filters of a database have in common. */
struct wn__small_world {
	const struct wn_config *config; /* of new filters */
	const struct wn_secret *secret;
	uint32_t secret_id;  /* wn__small_secret_id(), changed where keys are canonical */
	uint64_t secret_sum; /* wn__small_secret_sum() */
	struct wn__metrics *metrics;
};

/* ---- building ----------------------------------------------------------- */

struct wn__small_table;

struct wn__small_key {
	const void *bytes;
	size_t size;
};

/* The keys of one filter. */
struct wn__small_block {
	struct wn_hash *hashes; /* of all keys, in any order, which is changed */
	size_t count;
	struct wn__small_key first, last; /* in the order of keys */
};

/* The table with this number begins; key lists that an earlier file of this number left are
 * dropped. NULL: no memory; its filters are built, and do not learn. */
struct wn__small_table *wn__small_table_begin(struct wn__learn *learn,
					      const struct wn__small_world *world,
					      uint64_t number);

/* The next filter. `table` may be NULL: a filter by itself. *bytesp is malloc()ed; NULL: no
 * memory. */
void wn__small_table_add(struct wn__small_table *table, const struct wn__small_world *world,
			 const struct wn__small_block *block, unsigned char **bytesp,
			 size_t *sizep);

/* All filters are there: from now on the table learns. May be called twice; NULL is fine. */
void wn__small_table_end(struct wn__small_table *table);
void wn__small_table_free(struct wn__small_table *table); /* ends it, too; NULL is fine */

/* ---- reading ------------------------------------------------------------ */

struct wn__small_reader;

/* Where filters lie in the bytes that the host has read. */
struct wn__small_extent {
	size_t filters_size; /* all of them, from the beginning on */
	size_t first, first_size; /* the first that is not empty */
};

/* Open a table's filters: `block` is all the bytes that they lie in, which are copied.
 * WN_ERR_NOT_FOUND: the first filter has no header of this database; WN_ERR_MISMATCH: it has one
 * of another secret with the same short id. In either case they must not be asked. ENOMEM: they
 * may be asked where they are, and learn nothing. The registry must outlive the reader. */
int wn__small_reader_open(struct wn__registry *registry, const struct wn__small_world *world,
			  const void *block, size_t size, const struct wn__small_extent *extent,
			  struct wn__small_reader **readerp);
/* The copy, which has to be asked instead of the block. */
const void *wn__small_reader_block(const struct wn__small_reader *reader);
void wn__small_reader_close(struct wn__small_reader *reader); /* NULL is fine */

/* A filter of the database said "maybe": what do its table's lessons say? `filter` is its first
 * byte, wherever it lies. True: still "maybe"; it is noted in the lookup that is under way. */
bool wn__small_reader_heed(struct wn__registry *registry, const void *filter,
			   struct wn_hash hash);

#endif /* WN_LEARN_SMALL_TABLE_H */
