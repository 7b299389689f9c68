/* stats.h - what the filters of a database did and learned, in numbers.
 *
 * One list for every storage engine; a number that an engine has no use for stays 0. Counters
 * rise from the opening of the database on (filters and readers: from the making of the filter
 * policy on); gauges say how it is now. wn_rocksdb_property() and wn_leveldb_property() show the
 * same list as text. */
#ifndef WINNOW_STATS_H
#define WINNOW_STATS_H

#include <winnow/common.h>

WN_BEGIN_DECLS

#define WN_STATS(COUNTER, GAUGE)                                                                   \
	COUNTER(lookups, "Lookups that teach")                                                     \
	COUNTER(lookups_discarded,                                                                 \
		"Lookups that failed or asked too many filters, and taught nothing")               \
	COUNTER(filter_queries, "Filters asked in these lookups")                                  \
	COUNTER(positives, "Filters that said maybe in these lookups")                             \
	COUNTER(false_positives, "Filters that said maybe and were wrong")                         \
	COUNTER(repeated_false_positives, "False positives of the same key and filter as before")  \
	COUNTER(adaptations, "False positives that will not come again")                           \
	COUNTER(unfixable, "Positives of keys that are in the filter, deleted keys mostly")        \
	COUNTER(reversemap_misses, "False positives whose stored key's hash was unavailable")      \
	COUNTER(queue_drops, "False positives that found the queue full")                          \
	COUNTER(carried_over, "Known missing keys that new filters were built against")            \
	GAUGE(lessons, "Lessons in memory")                                                        \
	GAUGE(learned_bytes, "Memory of lessons and of the readers of lessons")                    \
	COUNTER(lessons_dropped, "Lessons dropped, or not learned, for lack of memory")            \
	GAUGE(negatives, "Missing keys known to hurt, for the filters that are built next")        \
	GAUGE(negatives_bytes, "Memory of known missing keys")                                     \
	GAUGE(key_lists, "Filters whose stored keys' hashes are in the reverse map")               \
	GAUGE(reversemap_bytes, "Size of the reverse map")                                         \
	COUNTER(reversemap_reads, "Pages of the reverse map that were read")                       \
	COUNTER(key_lists_stored, "Filters whose stored keys' hashes were stored")                 \
	COUNTER(key_lists_lost,                                                                    \
		"Filters whose stored keys' hashes were not stored: they do not learn")            \
	COUNTER(key_lists_dropped, "Filters whose stored keys' hashes went with their table")      \
	COUNTER(saves, "Times that something learned was written to disk")                         \
	COUNTER(save_failures, "Times that it could not be written")                               \
	COUNTER(filters_built, "Filters built")                                                    \
	COUNTER(filter_keys, "Keys in the filters built")                                          \
	COUNTER(filter_bytes, "Bytes of the filters built")                                        \
	COUNTER(filters_given_up, "Filters not built for lack of memory: they say maybe")          \
	COUNTER(readers_opened, "Filters opened, or tables of small filters")                      \
	COUNTER(readers_foreign, "Filters opened that the storage engine built itself")            \
	COUNTER(readers_refused,                                                                   \
		"Filters that could not be read, or are under another secret: maybe")

/* Numbers that later versions add come at the end of the list, and out of `reserved`, which is
 * zero: the structure keeps its size. */
struct wn_stats {
#define WN_STATS_MEMBER(name, help) uint64_t name;
	WN_STATS(WN_STATS_MEMBER, WN_STATS_MEMBER)
#undef WN_STATS_MEMBER
#define WN_STATS_ONE(name, help) +1
	uint64_t reserved[64 - (WN_STATS(WN_STATS_ONE, WN_STATS_ONE))];
#undef WN_STATS_ONE
};

WN_END_DECLS

#endif /* WINNOW_STATS_H */
