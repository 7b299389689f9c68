/* lessons_save.c - lessons to and from bytes.
 *
 * The lessons of a record are in ascending order, so that equal lessons make equal
 * bytes and a second lesson on the same bits is next to the first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "lessons_format.h"
#include "lessons_internal.h"
#include "base/sort.h"

/* ---- save --------------------------------------------------------------- */

/* A filter's lessons as they were at one moment. */
struct excerpt {
	struct wn_hash *lessons; /* (minirun, word) */
	uint64_t count;
	bool distrusted;
};

static int take_excerpt(struct wn__lessons *lessons, struct excerpt *excerptp)
{
	int err = 0;

	wn__lock(&lessons->registry->lock, WN__LOCK_LAST);
	*excerptp = (struct excerpt){
		.lessons = wn__alloc((size_t)lessons->count * sizeof(struct wn_hash)),
		.count = lessons->count,
		.distrusted = lessons->distrusted,
	};
	if (excerptp->lessons)
		wn__lessons_copy(lessons, excerptp->lessons);
	else
		err = ENOMEM;
	wn__unlock(&lessons->registry->lock);
	if (!err)
		err = wn__sort_hashes(excerptp->lessons, (size_t)excerptp->count);
	if (err)
		free(excerptp->lessons);
	return err;
}

static void write_record(unsigned char *record, const unsigned char *id, struct wn__shape shape,
			 const struct excerpt *excerpt)
{
	wn__record_write_head(record, excerpt->distrusted ? WN__RECORD_DISTRUSTED : 0, id,
			      shape.slots, shape.remainder_bits, excerpt->count);
	for (uint64_t i = 0; i < excerpt->count; i++)
		wn__record_set_lesson(record, i, excerpt->lessons[i].hi, excerpt->lessons[i].lo);
	wn__record_seal(record, wn__record_size(excerpt->count));
}

/* With the lock held. */
static struct wn__lessons *hold(struct wn__lessons *lessons)
{
	wn__assert_locked(&lessons->registry->lock);
	lessons->refs++;
	lessons->registry->users++;
	return lessons;
}

/* Those worth saving, the coldest first: loading warms them in the same order. */
static int list_lessons(struct wn__registry *registry, struct wn__lessons ***listp, size_t *countp)
{
	struct wn__lessons **list;

	*countp = 0;
	wn__lock(&registry->lock, WN__LOCK_LAST);
	*listp = list = wn__calloc(registry->object_count, sizeof(struct wn__lessons *));
	for (size_t at = 0; list && at < registry->bucket_count; at++) {
		for (struct wn__lessons *lessons = registry->buckets[at]; lessons;
		     lessons = lessons->chain)
			if (lessons->distrusted)
				list[(*countp)++] = hold(lessons);
	}
	for (struct wn__link *link = registry->coldest.next; list && link != &registry->coldest;
	     link = link->next)
		list[(*countp)++] = hold(WN__LESSONS_OF(link, warmth));
	wn__unlock(&registry->lock);
	return list ? 0 : ENOMEM;
}

/* Bytes that grow; *bytesp is NULL after a failure. */
static unsigned char *make_space(unsigned char **bytesp, size_t *sizep, size_t more)
{
	unsigned char *bytes = wn__realloc(*bytesp, *sizep + more);
	size_t at = *sizep;

	if (!bytes) {
		free(*bytesp);
		*bytesp = NULL;
		return NULL;
	}
	*bytesp = bytes;
	*sizep += more;
	return bytes + at;
}

static int append_record(struct wn__lessons *lessons, unsigned char **bytesp, size_t *sizep)
{
	struct excerpt excerpt;
	unsigned char *record;
	int err = take_excerpt(lessons, &excerpt);

	if (err)
		return err;
	record = make_space(bytesp, sizep, wn__record_size(excerpt.count));
	if (record)
		write_record(record, lessons->id, lessons->shape, &excerpt);
	free(excerpt.lessons);
	return record ? 0 : ENOMEM;
}

int wn__registry_save(struct wn__registry *registry, void **bytesp, size_t *sizep)
{
	struct wn__lessons **list;
	unsigned char *bytes = NULL;
	size_t size = 0, count;
	int err = list_lessons(registry, &list, &count);

	*bytesp = NULL;
	*sizep = 0;
	if (!err && !make_space(&bytes, &size, WN__RECORDS_AT))
		err = ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (!err)
			err = append_record(list[i], &bytes, &size);
		wn__lessons_release(list[i]);
	}
	free(list);
	if (!err && !make_space(&bytes, &size, 8))
		err = ENOMEM;
	if (err) {
		free(bytes);
		return err;
	}
	wn__records_write_head(bytes, count, size);
	wn__record_seal(bytes, size);
	*bytesp = bytes;
	*sizep = size;
	return 0;
}

/* ---- save what has changed ---------------------------------------------- */

/* By filter, and within one in the order of a record; a distrust first. */
static int compare_changes(const void *a, const void *b)
{
	const struct wn__change *left = a, *right = b;
	int ids = memcmp(left->id, right->id, WN_BLOCK_ID_SIZE);

	if (ids != 0)
		return ids;
	if (!left->lesson.word != !right->lesson.word)
		return left->lesson.word ? 1 : -1;
	return wn_hash_compare((struct wn_hash){left->lesson.minirun, left->lesson.word},
			       (struct wn_hash){right->lesson.minirun, right->lesson.word});
}

/* The same lesson may be there twice: dropped for the budget, and learned again. */
static bool is_repeated(const struct wn__change *change, const struct wn__change *first)
{
	return change > first && change[-1].lesson.minirun == change->lesson.minirun &&
	       change[-1].lesson.word == change->lesson.word;
}

/* The changes of one filter, from *atp on, as a record. */
static int append_changes(const struct wn__change **atp, const struct wn__change *end,
			  unsigned char **bytesp, size_t *sizep)
{
	const struct wn__change *first = *atp, *change = first;
	struct excerpt excerpt = {.distrusted = first->lesson.word == 0};
	unsigned char *record;

	while (change < end && memcmp(change->id, first->id, WN_BLOCK_ID_SIZE) == 0)
		change++;
	*atp = change;
	excerpt.lessons = wn__alloc((size_t)(change - first) * sizeof(*excerpt.lessons));
	if (!excerpt.lessons)
		return ENOMEM;
	for (const struct wn__change *at = first; at < change && !excerpt.distrusted; at++)
		if (!is_repeated(at, first))
			excerpt.lessons[excerpt.count++] =
				(struct wn_hash){at->lesson.minirun, at->lesson.word};
	record = make_space(bytesp, sizep, wn__record_size(excerpt.count));
	if (record)
		write_record(record, first->id, first->shape, &excerpt);
	free(excerpt.lessons);
	return record ? 0 : ENOMEM;
}

static int write_changes(struct wn__change *changes, size_t count, unsigned char **bytesp,
			 size_t *sizep)
{
	const struct wn__change *at = changes, *end = at + count;
	int err = 0;

	qsort(changes, count, sizeof(*changes), compare_changes);
	while (at < end && !err)
		err = append_changes(&at, end, bytesp, sizep);
	return err;
}

int wn__registry_take_changes(struct wn__registry *registry, void **bytesp, size_t *sizep)
{
	struct wn__change *changes;
	unsigned char *bytes = NULL;
	size_t size = 0, count;
	bool lost;

	/* They are sorted and written with the lock open: the next ones go into a new list. */
	wn__lock(&registry->lock, WN__LOCK_LAST);
	changes = registry->changes;
	count = registry->change_count;
	lost = registry->changes_lost;
	registry->changes = NULL;
	registry->stats.bytes -= registry->change_room * sizeof(*changes);
	registry->change_room = 0;
	registry->change_count = registry->stats.changes = 0;
	registry->changes_lost = false;
	wn__unlock(&registry->lock);
	if (!lost && count && write_changes(changes, count, &bytes, &size)) {
		free(bytes);
		bytes = NULL;
		size = 0;
		lost = true;
	}
	free(changes);
	*bytesp = bytes;
	*sizep = size;
	return lost ? WN_ERR_FULL : 0;
}

/* ---- load --------------------------------------------------------------- */

/* In order, in the filter's range, and of one mind. */
static bool lessons_fit(const unsigned char *record)
{
	uint64_t count = wn__record_count(record);
	uint64_t miniruns = wn__record_slots(record) << wn__record_remainder_bits(record);
	uint64_t minirun, word, last_minirun = 0, last_word = 0;

	for (uint64_t i = 0; i < count; i++, last_minirun = minirun, last_word = word) {
		wn__record_get_lesson(record, i, &minirun, &word);
		/* All 64 bits in use make the product 0. */
		if (!wn__lesson_is_valid(word) || minirun > miniruns - 1)
			return false;
		if (minirun < last_minirun)
			return false;
		if (i > 0 && minirun == last_minirun &&
		    word >> WN__PIECE_BITS <= last_word >> WN__PIECE_BITS)
			return false;
	}
	return true;
}

/* Check a record that starts at `record`; *sizep is how long it is. */
static int check_record(const unsigned char *record, size_t room, size_t *sizep)
{
	uint32_t flags;
	uint64_t count;

	if (room < WN__RECORD_MIN_SIZE || !wn__record_has_magic(record))
		return WN_ERR_CORRUPT;
	if (wn__record_version(record) != WN__RECORD_VERSION)
		return WN_ERR_VERSION;
	count = wn__record_count(record);
	if (count > (room - WN__RECORD_MIN_SIZE) / WN__RECORD_LESSON_SIZE)
		return WN_ERR_CORRUPT;
	*sizep = wn__record_size(count);
	if (!wn__record_is_whole(record, *sizep) || wn__record_reserved(record) != 0)
		return WN_ERR_CORRUPT;
	flags = wn__record_flags(record);
	if (flags & ~WN__RECORD_DISTRUSTED)
		return WN_ERR_VERSION;
	if (flags & WN__RECORD_DISTRUSTED && count > 0)
		return WN_ERR_CORRUPT;
	if (!wn__shape_is_valid((struct wn__shape){wn__record_slots(record),
						   wn__record_remainder_bits(record)}))
		return WN_ERR_CORRUPT;
	return lessons_fit(record) ? 0 : WN_ERR_CORRUPT;
}

static int add_lessons(struct wn__lessons *lessons, const unsigned char *record)
{
	uint64_t count = wn__record_count(record);
	uint64_t minirun, word;
	int err = 0;

	if (wn__record_flags(record) & WN__RECORD_DISTRUSTED)
		wn__lessons_distrust(lessons);
	for (uint64_t i = 0; i < count && !err; i++) {
		wn__record_get_lesson(record, i, &minirun, &word);
		err = wn__lessons_add(lessons, minirun, word, true);
	}
	return err;
}

/* The record has been checked. */
static int add_record(struct wn__registry *registry, const unsigned char *record)
{
	struct wn__shape shape = {
		.slots = wn__record_slots(record),
		.remainder_bits = wn__record_remainder_bits(record),
	};
	struct wn__lessons *lessons;
	int err = wn__registry_acquire(registry, wn__record_id(record), shape, &lessons);

	if (err)
		return err;
	err = add_lessons(lessons, record);
	wn__lessons_release(lessons);
	return err;
}

int wn__registry_load_record(struct wn__registry *registry, const void *bytes, size_t size,
			    size_t *usedp)
{
	int err = check_record(bytes, size, usedp);

	if (err) {
		*usedp = 0;
		return err;
	}
	return add_record(registry, bytes);
}

static int check_records(const unsigned char *bytes, size_t size)
{
	const unsigned char *at = bytes + WN__RECORDS_AT;
	size_t left, record_size;

	if (size < WN__RECORDS_MIN_SIZE || !wn__records_have_magic(bytes))
		return WN_ERR_CORRUPT;
	if (wn__records_version(bytes) != WN__RECORDS_VERSION)
		return WN_ERR_VERSION;
	if (wn__records_size(bytes) != size || wn__records_reserved(bytes) != 0 ||
	    !wn__record_is_whole(bytes, size))
		return WN_ERR_CORRUPT;
	left = size - WN__RECORDS_MIN_SIZE;
	for (uint64_t count = wn__records_count(bytes); count > 0; count--) {
		int err = check_record(at, left, &record_size);

		if (err)
			return err;
		at += record_size;
		left -= record_size;
	}
	return left == 0 ? 0 : WN_ERR_CORRUPT;
}

int wn__registry_load(struct wn__registry *registry, const void *bytes, size_t size)
{
	const unsigned char *at = (const unsigned char *)bytes + WN__RECORDS_AT;
	int err = check_records(bytes, size), failed = 0;

	if (err)
		return err;
	for (uint64_t count = wn__records_count(bytes); count > 0; count--) {
		err = add_record(registry, at);
		if (err && err != WN_ERR_MISMATCH)
			return err;
		failed = err ? err : failed;
		at += wn__record_size(wn__record_count(at));
	}
	return failed;
}
