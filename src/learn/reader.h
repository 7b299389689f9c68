/* reader.h - an open filter block, asked together with what it has learned since.
 *
 * Thread safety: any number of threads may ask one reader. */
#ifndef WN_LEARN_READER_H
#define WN_LEARN_READER_H

#include <winnow/filter.h>
#include <winnow/hash.h>

struct wn__filter_reader;
struct wn__registry;

/* Open a filter over a block, which is borrowed, as its secret is if it is the block's. `registry`
 * has its lessons; it must outlive the reader or be held by one (NULL: it does not learn). Whatever
 * fails in learning, the filter is asked as it was built. Results as of wn_filter_open(). */
int wn__filter_reader_open(const void *block, size_t size, const struct wn_secret *secret,
			   struct wn__registry *registry, struct wn__filter_reader **readerp);
void wn__filter_reader_close(struct wn__filter_reader *reader); /* NULL is fine */

/* What keys are hashed with, see wn__lookup_hash(). */
const struct wn_secret *wn__filter_reader_secret(const struct wn__filter_reader *reader);

/* May the key be in the table? A "maybe" is noted in the lookup that is under way. */
bool wn__filter_reader_ask(const struct wn__filter_reader *reader, struct wn_hash hash);
void wn__filter_reader_ask_batch(const struct wn__filter_reader *reader,
				 const struct wn_hash *hashes, size_t count, bool *answersp);

#endif /* WN_LEARN_READER_H */
