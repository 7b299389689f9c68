/* rocksdb.h - winnow's filters in a stock RocksDB.
 *
 * A filter policy for RocksDB's C API: tables that are written with it have winnow's filters
 * instead of Bloom filters. Tables with Bloom or Ribbon filters are read as before, and a
 * RocksDB without winnow reads winnow's tables, with right answers and without the benefit of
 * their filters; so a database can change to winnow and back at any time.
 *
 * The filters of this policy do not learn yet.
 *
 * With this library in the process, RocksDB's options strings and OPTIONS files know the
 * policy, too: "filter_policy=winnow.aqf:remainder_bits=9".
 *
 * Thread safety: any thread, any time. */
#ifndef WINNOW_ROCKSDB_H
#define WINNOW_ROCKSDB_H

#include <rocksdb/c.h>

#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

/* Make a filter policy. `options` is a filter's options string, as wn_config_parse() takes it
 * ("aqf:remainder_bits=9"); NULL: "aqf". `secret` is copied; NULL: a random one. Every filter
 * carries its secret's seed, so any winnow policy reads the filters of any other.
 * Give *policyp to rocksdb_block_based_options_set_filter_policy(), which takes it, or to
 * rocksdb_filterpolicy_destroy().
 * WN_ERR_OPTION: the options string cannot be understood; wn_config_parse() says why.
 * WN_ERR_MISMATCH: this RocksDB is not the version that winnow was built for. */
WN_PUBLIC int wn_rocksdb_filterpolicy(const char *options, const struct wn_secret *secret,
				      rocksdb_filterpolicy_t **policyp);

/* Counted from a policy's making. Filters are counted by blocks: a table with partitioned
 * filters has many. */
struct wn_rocksdb_stats {
	uint64_t filters_built;
	uint64_t filter_keys;      /* in them: distinct keys, and prefixes if they are filtered */
	uint64_t filter_bytes;
	uint64_t filters_given_up; /* not built, for want of memory: they say "maybe" */
	uint64_t readers_opened;   /* over winnow's filters; again after each eviction */
	uint64_t readers_foreign;  /* over RocksDB's own filters, read by its own reader */
	uint64_t readers_refused;  /* over damaged filters, or unknown ones: they say "maybe" */
};

/* What `policy` did so far; NULL: all policies of this process, gone ones and those from
 * options strings included. RocksDB keeps a policy for as long as options or databases with
 * it are there; do not ask for longer. WN_ERR_INVALID: not a policy of winnow's. */
WN_PUBLIC int wn_rocksdb_filterpolicy_stats(const rocksdb_filterpolicy_t *policy,
					    struct wn_rocksdb_stats *statsp);

WN_END_DECLS

#endif /* WINNOW_ROCKSDB_H */
