/* reader.h - an open filter block, asked together with what it has learned since.
 *
 * A host asks the filters of many tables for one key, and nearly all say "no". What a "no" takes
 * is therefore inlined where the host asks, and calls one function by a pointer: the kind's, which
 * fits the CPU. All else is in reader.c.
 *
 * Thread safety: any number of threads may ask one reader. */
#ifndef WN_LEARN_READER_H
#define WN_LEARN_READER_H

#include <winnow/filter.h>
#include <winnow/hash.h>

#include "base/bits.h"
#include "base/secret.h"
#include "kinds/kind.h"
#include "lookup.h"

struct wn__lessons;
struct wn__registry;

struct wn__filter_reader {
	/* What a "no" reads: one cache line. The rest of what it reads is the kind's, and the
	 * secret's words, which all tables share. */
	struct wn__asker asker; /* first */
	wn__ask_short_fn *ask_short;
	wn__query_fn *query;
	const struct wn_secret *secret; /* the filter's. NULL: keys are not hashed as they are */
	struct wn__lessons *lessons;    /* NULL: it does not learn */
	/* What others read. */
	struct wn_filter *filter;
	struct wn__registry *registry; /* of the lessons */
	struct wn__keylist list;       /* what a lookup notes; only if it learns */
};

/* Open a filter over a block, which is borrowed, as its secret is if it is the block's. `registry`
 * has its lessons; it must outlive the reader or be held by one (NULL: it does not learn). Whatever
 * fails in learning, the filter is asked as it was built. Results as of wn_filter_open(). After a
 * failure there is nothing to fini. */
int wn__filter_reader_init(struct wn__filter_reader *reader, const void *block, size_t size,
			   const struct wn_secret *secret, struct wn__registry *registry);
void wn__filter_reader_fini(struct wn__filter_reader *reader);

/* The same with memory from the heap. */
int wn__filter_reader_open(const void *block, size_t size, const struct wn_secret *secret,
			   struct wn__registry *registry, struct wn__filter_reader **readerp);
void wn__filter_reader_close(struct wn__filter_reader *reader); /* NULL is fine */

/* What keys are hashed with, see wn__lookup_hash(). */
const struct wn_secret *wn__filter_reader_secret(const struct wn__filter_reader *reader);

/* The filter knows keys by hashes that the host makes in a way of its own: from now on
 * wn__filter_reader_ask_quickly() passes keys to `ask_short`, or leaves them to the host. */
void wn__filter_reader_hash_by(struct wn__filter_reader *reader, wn__ask_short_fn *ask_short);

/* The same, NULL after wn__filter_reader_hash_by(). */
WN__INLINE const struct wn_secret *
wn__filter_reader_key_secret(const struct wn__filter_reader *reader)
{
	return reader->secret;
}

/* ---- asking -------------------------------------------------------------- */

/* May the key be in the table? A "maybe" is noted in the lookup that is under way. */
bool wn__filter_reader_ask(const struct wn__filter_reader *reader, struct wn_hash hash);
void wn__filter_reader_ask_batch(const struct wn__filter_reader *reader,
				 const struct wn_key *keys, size_t count, bool *answersp);

/* The same of a filter that learns, less the count of queries: the lookup has it already. */
bool wn__filter_reader_ask_learned(const struct wn__filter_reader *reader, struct wn_hash hash);

/* The answer for the key of the lookup that is under way, which is hashed. */
WN__INLINE bool wn__filter_reader_ask_hashed(const struct wn__filter_reader *reader,
					     struct wn__lookup *lookup)
{
	lookup->queries++;
	return reader->lessons ? wn__filter_reader_ask_learned(reader, lookup->hash) :
				 reader->query(reader->asker.state, lookup->hash, NULL);
}

/* The answer for a key, if it is to be had quickly: in a lookup that has hashed this key for
 * another table; outside of a lookup if the key is of the usual size. Otherwise *answerp is not
 * set, and the host hashes the key and asks.
 *
 * Each way ends in a call that nothing follows, so nothing is kept over it. */
WN__INLINE bool wn__filter_reader_ask_quickly(const struct wn__filter_reader *reader,
					      const void *key, size_t size, bool *answerp)
{
	struct wn__lookup *lookup = wn__current_lookup;

	if (!lookup) {
		if (WN__UNLIKELY(size - WN__SHORT_MIN >= WN__SHORT_SIZES))
			return false;
		*answerp = reader->ask_short(&reader->asker, key, size);
		return true;
	}
	if (!wn__lookup_has(lookup, reader->secret, key, size))
		return false;
	*answerp = wn__filter_reader_ask_hashed(reader, lookup);
	return true;
}

#endif /* WN_LEARN_READER_H */
