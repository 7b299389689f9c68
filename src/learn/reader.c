/* reader.c - see reader.h. */
#include <errno.h>
#include <stdlib.h>

#include <winnow/block.h>

#include "base/alloc.h"
#include "kinds/kind.h"
#include "lessons.h"
#include "lookup.h"
#include "reader.h"

struct wn__filter_reader {
	struct wn_filter *filter;
	struct wn__lessons *lessons;   /* NULL: it does not learn */
	struct wn__registry *registry; /* of the lessons */
	struct wn__keylist list;       /* what a lookup notes; only if it learns */
};

static void attach(struct wn__filter_reader *reader, struct wn__registry *registry)
{
	reader->lessons = NULL;
	reader->registry = registry;
	if (registry && wn__keylist_of_block(&reader->filter->info, &reader->list) == 0)
		wn__filter_lessons(registry, reader->filter, &reader->lessons);
}

int wn__filter_reader_open(const void *block, size_t size, const struct wn_secret *secret,
			   struct wn__registry *registry, struct wn__filter_reader **readerp)
{
	struct wn__filter_reader *reader = wn__alloc(sizeof(*reader));
	int err;

	*readerp = NULL;
	if (!reader)
		return ENOMEM;
	/* The host has checksummed the bytes. */
	err = wn_filter_open(block, size, WN_CHECK_HEADER, secret, &reader->filter, NULL);
	if (err) {
		free(reader);
		return err;
	}
	attach(reader, registry);
	*readerp = reader;
	return 0;
}

void wn__filter_reader_close(struct wn__filter_reader *reader)
{
	if (!reader)
		return;
	wn__lessons_release(reader->lessons);
	wn_filter_close(reader->filter);
	free(reader);
}

const struct wn_secret *wn__filter_reader_secret(const struct wn__filter_reader *reader)
{
	return reader->filter->secret;
}

static void count_queries(uint32_t count)
{
	if (wn__current_lookup)
		wn__current_lookup->queries += count;
}

static bool ask_and_note(const struct wn__filter_reader *reader, struct wn_hash hash)
{
	struct wn_match match;

	if (!wn__filter_query_learned(reader->filter, reader->lessons, hash, &match))
		return false;
	if (wn__current_lookup)
		wn__lookup_note(reader->registry, &reader->list, hash, &match);
	return true;
}

bool wn__filter_reader_ask(const struct wn__filter_reader *reader, struct wn_hash hash)
{
	count_queries(1);
	if (!reader->lessons)
		return reader->filter->query(reader->filter->state, hash, NULL);
	return ask_and_note(reader, hash);
}

void wn__filter_reader_ask_batch(const struct wn__filter_reader *reader,
				 const struct wn_hash *hashes, size_t count, bool *answersp)
{
	count_queries((uint32_t)count);
	reader->filter->query_batch(reader->filter->state, hashes, count, answersp);
	for (size_t i = 0; i < count && reader->lessons; i++)
		answersp[i] = answersp[i] && ask_and_note(reader, hashes[i]);
}
