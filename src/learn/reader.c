/* reader.c - see reader.h. */
#include <errno.h>
#include <stdlib.h>

#include <winnow/block.h>

#include "base/alloc.h"
#include "lessons_internal.h"
#include "reader.h"

/* The filter has said "maybe": heed its lessons, and note what stays a "maybe". */
static bool WN__HOT heed(const struct wn__asker *asker, struct wn_hash hash, struct wn_match *match)
{
	const struct wn__filter_reader *reader = (const void *)asker;
	struct wn__lookup *lookup = wn__current_lookup;

	if (!reader->lessons)
		return true;
	if (WN__UNLIKELY(reader->list.plain || wn__lessons_exist(reader->lessons)) &&
	    !wn__filter_heed(reader->filter, reader->lessons, hash, match))
		return false;
	if (lookup && lookup->registry == reader->registry)
		wn__lookup_note_in(lookup, &reader->list, hash, match);
	return true;
}

/* For kinds that have none. */
static bool hash_and_ask(const struct wn__asker *asker, const void *key, size_t size)
{
	const struct wn__filter_reader *reader = (const void *)asker;

	return wn__filter_reader_ask(reader, wn__hash_key(reader->secret, key, size));
}

static void attach(struct wn__filter_reader *reader, struct wn__registry *registry)
{
	reader->lessons = NULL;
	reader->registry = registry;
	if (registry && wn__keylist_of_block(&reader->filter->info, &reader->list) == 0)
		wn__filter_lessons(registry, reader->filter, &reader->lessons);
}

int wn__filter_reader_init(struct wn__filter_reader *reader, const void *block, size_t size,
			   const struct wn_secret *secret, struct wn__registry *registry)
{
	struct wn_filter *filter;
	/* The host has checksummed the bytes. */
	int err = wn_filter_open(block, size, WN_CHECK_HEADER, secret, &filter, NULL);

	if (err)
		return err;
	*reader = (struct wn__filter_reader){
		.asker = {filter->state, filter->secret, heed},
		.ask_short = filter->ask_short ? filter->ask_short : hash_and_ask,
		.query = filter->query,
		.secret = filter->secret,
		.filter = filter,
	};
	attach(reader, registry);
	return 0;
}

void wn__filter_reader_fini(struct wn__filter_reader *reader)
{
	wn__lessons_release(reader->lessons);
	wn_filter_close(reader->filter);
}

int wn__filter_reader_open(const void *block, size_t size, const struct wn_secret *secret,
			   struct wn__registry *registry, struct wn__filter_reader **readerp)
{
	struct wn__filter_reader *reader = wn__alloc(sizeof(*reader));
	int err;

	*readerp = NULL;
	if (!reader)
		return ENOMEM;
	err = wn__filter_reader_init(reader, block, size, secret, registry);
	if (err) {
		free(reader);
		return err;
	}
	*readerp = reader;
	return 0;
}

void wn__filter_reader_close(struct wn__filter_reader *reader)
{
	if (!reader)
		return;
	wn__filter_reader_fini(reader);
	free(reader);
}

const struct wn_secret *wn__filter_reader_secret(const struct wn__filter_reader *reader)
{
	return reader->filter->secret;
}

void wn__filter_reader_hash_by(struct wn__filter_reader *reader, wn__ask_short_fn *ask_short)
{
	reader->secret = NULL;
	reader->ask_short = ask_short;
}

/* ---- asking -------------------------------------------------------------- */

static void count_queries(uint32_t count)
{
	if (wn__current_lookup)
		wn__current_lookup->queries += count;
}

/* In memory as a whole: what a "maybe" needs is not kept in registers over the query, which is
 * nearly always "no". */
struct question {
	const struct wn__filter_reader *reader;
	struct wn_hash hash;
	struct wn_match match;
};

static bool WN__HOT __attribute__((noinline)) heed_question(struct question *question)
{
	return heed(&question->reader->asker, question->hash, &question->match);
}

bool WN__HOT __attribute__((noinline))
wn__filter_reader_ask_learned(const struct wn__filter_reader *reader, struct wn_hash hash)
{
	struct question question;

	question.reader = reader;
	question.hash = hash;
	if (WN__LIKELY(!reader->query(reader->asker.state, hash, &question.match)))
		return false;
	return heed_question(&question);
}

bool wn__filter_reader_ask(const struct wn__filter_reader *reader, struct wn_hash hash)
{
	count_queries(1);
	if (!reader->lessons)
		return reader->query(reader->asker.state, hash, NULL);
	return wn__filter_reader_ask_learned(reader, hash);
}

void wn__filter_reader_ask_batch(const struct wn__filter_reader *reader,
				 const struct wn_key *keys, size_t count, bool *answersp)
{
	count_queries((uint32_t)count);
	wn__filter_ask_batch(reader->filter, &reader->asker, keys, count, answersp);
}
