/* runs.h - the reverse map of immutable filters, a run at a time.
 *
 * A filter over an SSTable is built once, and so is its part of the reverse map:
 * the hashes of its keys in fingerprint order, a *run*. An entry is addressed as in
 * reversemap.h, by minirun and rank. Hashes in ascending order are in fingerprint
 * order too, and a hash tells its minirun, so a run is the sorted hashes and no
 * index. Those who bring the filter's block know all that is needed to find a run
 * and to see that it is the right one (struct wn__run).
 *
 * No false negative, ever: what is learned from a wrong hash would hide a key. So a
 * run names its filter, every page of it has a checksum that only fits this page of
 * this run, and what is read must have the minirun that was asked for. A run that
 * is missing, another filter's or damaged is an error and a counter; it costs a
 * lesson, not an answer. The learner compares the hash with the fingerprint again.
 *
 * Thread safety: any number of threads may call any of these functions on one
 * store, but for destroy. Puts, and drops, write to disk: call them from a worker,
 * never from a storage engine's callback.
 *
 * Not for users: adapters are libraries of their own, therefore WN_PUBLIC. */
#ifndef WN_RUNS_H
#define WN_RUNS_H

#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/hash.h>

WN_BEGIN_DECLS

struct wn__runs;

/* What a filter's block says of itself. */
struct wn__run {
	unsigned char id[WN_BLOCK_ID_SIZE];
	uint64_t key_count;
	uint64_t slots;
	uint32_t secret_id;
	unsigned remainder_bits;
	bool rebuilds;  /* it learns by being built again from the run: not kept, not compared */
	uint64_t owner; /* the caller's own: the SSTable's number, say. Kept and listed,
			 * not compared. */
};

/* From a block's header; owner becomes 0. A filter of a kind without miniruns has a
 * run like any other, to be streamed, under slots and remainder bits of its own making;
 * put it with all 16 bytes of each hash if a filter is to be built from it again.
 * WN_ERR_INVALID: a kind that is not known, or parameters out of range. */
WN_PUBLIC int wn__run_of_block(const struct wn_block_info *info, struct wn__run *runp);

/* One stored hash, as far as it is known: a run may hold the first bytes of each
 * hash only, and what is behind them reads as 0. Of the fraction that wn__split(hash,
 * slots) gives, the first `fraction_bits` bits are then those of the stored key;
 * those behind may be wrong. They always cover the remainder; 128 if all is known.
 *
 * A lesson that has a bit from behind them HIDES THE STORED KEY: even one asked for
 * by mistake with the key itself as the query, which differs from it only where it is
 * not known. Functions that are given a whole stored hash and choose themselves how
 * much of it they use (wn_aqf_adapt(), wn__filter_learn()) may be given this one only
 * after wn__run_entry_tells() said so; otherwise the false positive is unfixable. */
struct wn__run_entry {
	struct wn_hash hash;
	unsigned fraction_bits;
};

/* Can a lesson tell `query`, which matched this entry's fingerprint, from the stored
 * key by known bits only? Lessons come in whole pieces of `piece_bits` bits behind the
 * remainder, up to the one in which the two differ: a filter's extension bits, or
 * those of a learned lesson. Always true if all is known. */
WN_PUBLIC bool wn__run_entry_tells(const struct wn__run *run, const struct wn__run_entry *entry,
				   struct wn_hash query, unsigned piece_bits);

struct wn__run_info {
	struct wn__run run;  /* if error is set: the id only */
	unsigned hash_bytes; /* 8 to 16 */
	uint64_t bytes;      /* what it takes in the store */
	int error;           /* why the run cannot be read, or 0 */
};

/* Called with the next `count` hashes of the run, the first info->hash_bytes bytes of
 * each as they were put and the rest 0. A result other than 0 ends the walk and is
 * returned. */
typedef int wn__run_visit_fn(void *arg, const struct wn__run_info *info,
			     const struct wn_hash *hashes, size_t count);

/* Put a run of run->key_count hashes in ascending order, as wn_builder_hashes()
 * gives them; they are not retained. A run with the same id is replaced. On failure
 * the store is as it was.
 *
 * hash_bytes: how much to keep of each hash, 8 to 16; 0 means all 16. With less,
 * about 8 * hash_bytes - log2(slots) bits of the fraction are known, and of one key
 * in 2^n up to n fewer. Where a doubt would be left about any key's minirun, the run
 * is kept with 16 bytes all the same (8 bytes, a million keys, 9-bit remainders: one
 * run in 2^15). WN_ERR_INVALID: out of order, another hash_bytes, impossible
 * parameters. */
WN_PUBLIC int wn__runs_put(struct wn__runs *runs, const struct wn__run *run,
			   const struct wn_hash *hashes, unsigned hash_bytes);

/* The hash_bytes that make `fraction_bits` bits known of all but one key in 250. */
WN_PUBLIC unsigned wn__run_hash_bytes(const struct wn__run *run, unsigned fraction_bits);

/* The hash at a place of the filter `run`. WN_ERR_NOT_FOUND: no such run, or no
 * such place in it; WN_ERR_MISMATCH: the run is another filter's; WN_ERR_CORRUPT,
 * WN_ERR_VERSION: it is damaged or cannot be understood; or an errno. */
WN_PUBLIC int wn__runs_lookup(struct wn__runs *runs, const struct wn__run *run, uint64_t minirun,
			      uint32_t rank, struct wn__run_entry *entryp);

/* All hashes of a run in order, in pieces, for rebuilding a filter. What was visited
 * before a failure was right. Hashes that are not kept whole have the miniruns of the
 * run's own slots and remainder bits; in a filter of another shape they may not, and
 * a key would be missing: rebuild with the same shape, or from 16 bytes. */
WN_PUBLIC int wn__runs_stream(struct wn__runs *runs, const unsigned char *id,
			      wn__run_visit_fn *fn, void *arg);

/* Forget a run. WN_ERR_NOT_FOUND if there is none. */
WN_PUBLIC int wn__runs_drop(struct wn__runs *runs, const unsigned char *id);

/* All runs, in no order; those that cannot be read as well, so that they can be
 * dropped. *infosp is to be freed with free(). */
WN_PUBLIC int wn__runs_list(struct wn__runs *runs, struct wn__run_info **infosp, size_t *countp);

/* NULL is fine. Runs on disk stay. */
WN_PUBLIC void wn__runs_destroy(struct wn__runs *runs);

struct wn__runs_stats {
	uint64_t puts, failed_puts;
	uint64_t drops;
	uint64_t lookups;    /* all of them; of these: */
	uint64_t missing;    /* WN_ERR_NOT_FOUND */
	uint64_t mismatched; /* WN_ERR_MISMATCH */
	uint64_t damaged;    /* WN_ERR_CORRUPT, WN_ERR_VERSION */
	uint64_t failed;     /* an errno */
	uint64_t reads;      /* pages read by lookups and streams */
	uint64_t runs;       /* in the store now */
	uint64_t bytes;      /* they take */
};

WN_PUBLIC void wn__runs_stats(const struct wn__runs *runs, struct wn__runs_stats *statsp);

/* ---- stores ------------------------------------------------------------- */

/* In memory; gone with the store. */
WN_PUBLIC int wn__runs_memory_create(struct wn__runs **runsp);

/* Zero means default. */
struct wn__sidecar_options {
	bool sync;         /* fsync each run; without it a power cut may cost the last ones */
	bool read_only;    /* put and drop are WN_ERR_READONLY; nothing is swept */
	unsigned max_open; /* files kept open; each lookup under way may add one; default 64 */
};

/* A directory of flat files, one a run (doc/formats.md). It is made if it is not
 * there (its parent must be). Temporary files that a crash left behind are swept. At
 * most one process may have it open to write; the database's own lock sees to that.
 * options may be NULL. */
WN_PUBLIC int wn__runs_sidecar_open(const char *directory,
				    const struct wn__sidecar_options *options,
				    struct wn__runs **runsp);

/* ---- for stores --------------------------------------------------------- */

/* What a store implements. run, hashes and hash_bytes have been checked. */
struct wn__runs_ops {
	int (*put)(struct wn__runs *runs, const struct wn__run *run, const struct wn_hash *hashes,
		   unsigned hash_bytes);
	int (*lookup)(struct wn__runs *runs, const struct wn__run *run, uint64_t minirun,
		      uint32_t rank, struct wn__run_entry *entryp);
	int (*stream)(struct wn__runs *runs, const unsigned char *id, wn__run_visit_fn *fn,
		      void *arg);
	int (*drop)(struct wn__runs *runs, const unsigned char *id);
	int (*list)(struct wn__runs *runs, struct wn__run_info **infosp, size_t *countp);
	void (*destroy)(struct wn__runs *runs);
};

/* A store embeds this as its first member. The numbers are for atomic access. */
struct wn__runs {
	const struct wn__runs_ops *ops;
	struct wn__runs_stats stats;
};

static inline void wn__runs_count(uint64_t *counter, uint64_t add)
{
	__atomic_fetch_add(counter, add, __ATOMIC_RELAXED);
}

/* Are these parameters within the limits? */
WN_PUBLIC bool wn__run_is_valid(const struct wn__run *run);

/* The bits of hash.lo that a run of this hash_bytes does not keep. */
static inline uint64_t wn__run_lost_bits(unsigned hash_bytes)
{
	return hash_bytes < 16 ? UINT64_MAX >> 8 * (hash_bytes - 8) : 0;
}

WN_END_DECLS

#endif /* WN_RUNS_H */
