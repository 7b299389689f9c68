/* new_table.h - a table of the host's that is being built, and the filter blocks in it.
 *
 * Filters are built against the missing keys that are known to hurt, and the hashes of their keys
 * are handed to the worker, which puts them into the reverse map.
 *
 * Thread safety: one thread at a time. */
#ifndef WN_LEARN_NEW_TABLE_H
#define WN_LEARN_NEW_TABLE_H

#include <winnow/filter.h>

struct wn__learn;
struct wn__new_table;

/* A table with this number begins; 0: it has none (its end would not be told, so it does not
 * learn). *tablep is NULL without memory, which is fine to use: the table does not learn. */
void wn__new_table_begin(struct wn__learn *learn, uint64_t number, struct wn__new_table **tablep);

/* All keys of a filter are in the builder: add what other filters were wrong about, the costliest,
 * as many as there are keys, and at least WN__MIN_CARRIED. */
#define WN__MIN_CARRIED 1024
void wn__new_table_carry_over(struct wn__new_table *table, struct wn_builder *builder);

/* The builder has made a block; a table may have many. `keep`: leave the builder its keys. */
void wn__new_table_built(struct wn__new_table *table, struct wn_builder *builder, bool keep);

/* No more filters come. */
void wn__new_table_end(struct wn__new_table *table);

#endif /* WN_LEARN_NEW_TABLE_H */
