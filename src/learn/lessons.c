/* lessons.c - one filter's lessons: pages, the directory to them, and how readers look
 * into them while they change. lessons_internal.h says why it is all right. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "lessons_internal.h"

/* More than one round is needed only when the page was split or dropped, and given
 * to somebody else, in the few nanoseconds since it was looked up. */
#define READ_TRIES 4

/* ---- finding ------------------------------------------------------------ */

/* The directory takes the lowest bits, the place within the page the highest. */
static uint64_t place_of(uint64_t minirun, uint32_t rank)
{
	uint64_t mixed = minirun + rank * UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
	mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return mixed ^ mixed >> 32;
}

static unsigned first_in_page(uint64_t place)
{
	return (unsigned)((place >> 32) * WN__PAGE_LESSONS >> 32);
}

static unsigned next_in_page(unsigned at)
{
	return at + 1 < WN__PAGE_LESSONS ? at + 1 : 0;
}

static size_t slot_of(const struct wn__directory *directory, uint64_t place)
{
	return (size_t)(place & wn__low_bits(directory->depth));
}

/* ---- reading ------------------------------------------------------------ */

/* What a page says of the fingerprint at a rank, and, with rank 0, of its minirun. */
struct verdict {
	bool refuted;
	uint64_t count; /* of the minirun's keys */
};

static const struct verdict no_verdict = {.count = WN__COUNT_UNKNOWN};

/* Several lessons on one fingerprint must all agree with the query. */
static struct verdict ask_page(const struct wn__page *page, uint64_t place, uint64_t minirun,
			       uint32_t rank, struct wn__tail tail)
{
	struct verdict verdict = no_verdict;
	unsigned at = first_in_page(place);

	for (unsigned left = WN__PAGE_LESSONS; left; left--, at = next_in_page(at)) {
		const struct wn__lesson *lesson = &page->lessons[at];
		uint64_t word = __atomic_load_n(&lesson->word, __ATOMIC_ACQUIRE);

		if (!word)
			break;
		if (wn__lesson_rank(word) != rank ||
		    __atomic_load_n(&lesson->minirun, __ATOMIC_RELAXED) != minirun)
			continue;
		if (wn__lesson_is_count(word))
			verdict.count = wn__lesson_count(word);
		else if (wn__lesson_bits(word) != wn__tail_piece(tail, wn__lesson_piece(word)))
			verdict.refuted = true;
	}
	return verdict;
}

/* Does the directory still lead there? */
static bool is_current(const struct wn__lessons *lessons, const struct wn__directory *directory,
		       size_t slot, const struct wn__page *page)
{
	return __atomic_load_n(&directory->pages[slot], __ATOMIC_ACQUIRE) == page &&
	       __atomic_load_n(&lessons->directory, __ATOMIC_ACQUIRE) == directory;
}

static struct verdict ask(const struct wn__lessons *lessons, uint64_t minirun, uint32_t rank,
			  struct wn__tail tail)
{
	uint64_t place = place_of(minirun, rank);

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		const struct wn__directory *directory =
			__atomic_load_n(&lessons->directory, __ATOMIC_ACQUIRE);
		const struct wn__page *page;
		uint64_t version;
		size_t slot;
		struct verdict verdict;

		if (!directory)
			break;
		slot = slot_of(directory, place);
		page = __atomic_load_n(&directory->pages[slot], __ATOMIC_ACQUIRE);
		version = __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
		if (version & 1 ||
		    __atomic_load_n(&page->owner, __ATOMIC_RELAXED) != lessons->serial ||
		    !is_current(lessons, directory, slot, page))
			continue;
		verdict = ask_page(page, place, minirun, rank, tail);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&page->version, __ATOMIC_RELAXED) == version)
			return verdict;
	}
	return no_verdict;
}

bool wn__lessons_refute(const struct wn__lessons *lessons, uint64_t minirun, uint32_t rank,
			struct wn__tail tail)
{
	return ask(lessons, minirun, rank, tail).refuted;
}

bool wn__lessons_refute_minirun(const struct wn__lessons *lessons, uint64_t minirun,
				struct wn__tail tail)
{
	struct verdict verdict = ask(lessons, minirun, 0, tail);

	if (verdict.count == WN__COUNT_UNKNOWN || (verdict.count > 0 && !verdict.refuted))
		return false;
	for (uint32_t rank = 1; rank < verdict.count; rank++) {
		if (!wn__lessons_refute(lessons, minirun, rank, tail))
			return false;
	}
	return true;
}

/* ---- directories -------------------------------------------------------- */

static size_t directory_size(uint32_t depth)
{
	return sizeof(struct wn__directory) + (sizeof(struct wn__page *) << depth);
}

/* Reused after lessons were dropped: a reader that still has it finds pages of the
 * same owner there, or pages whose owner is another. */
static int get_directory(struct wn__lessons *lessons, uint32_t depth,
			 struct wn__directory **directoryp)
{
	struct wn__directory *directory = lessons->directories;

	while (directory && directory->depth != depth)
		directory = directory->older;
	*directoryp = directory;
	if (directory)
		return 0;
	if (!wn__registry_afford(lessons->registry, directory_size(depth)))
		return WN_ERR_FULL;
	directory = wn__calloc(1, directory_size(depth));
	if (!directory)
		return ENOMEM;
	directory->depth = depth;
	directory->older = lessons->directories;
	lessons->directories = directory;
	lessons->registry->stats.bytes += directory_size(depth);
	*directoryp = directory;
	return 0;
}

void wn__lessons_free_directories(struct wn__lessons *lessons)
{
	struct wn__directory **at = &lessons->directories;

	wn__assert_locked(&lessons->registry->lock);
	while (*at) {
		struct wn__directory *directory = *at;

		if (directory == lessons->directory) {
			at = &directory->older;
			continue;
		}
		*at = directory->older;
		lessons->registry->stats.bytes -= directory_size(directory->depth);
		free(directory);
	}
}

static void set_page(struct wn__directory *directory, size_t slot, struct wn__page *page)
{
	__atomic_store_n(&directory->pages[slot], page, __ATOMIC_RELEASE);
}

static void publish(struct wn__lessons *lessons, struct wn__directory *directory)
{
	__atomic_store_n(&lessons->directory, directory, __ATOMIC_RELEASE);
}

static int start_directory(struct wn__lessons *lessons)
{
	struct wn__directory *directory;
	int err = get_directory(lessons, 0, &directory);

	if (err)
		return err;
	set_page(directory, 0, wn__registry_take_page(lessons, 0));
	publish(lessons, directory);
	return 0;
}

/* Where the budget has no room for it the filter loses its lessons, and starts over. */
static int double_directory(struct wn__lessons *lessons)
{
	struct wn__directory *old = lessons->directory, *new;
	size_t slots = (size_t)1 << old->depth;
	int err;

	/* Evenly spread places need far fewer slots than there are lessons. */
	if (old->depth == WN__MAX_DEPTH || slots > 64 + lessons->count)
		return WN_ERR_FULL;
	err = get_directory(lessons, old->depth + 1, &new);
	if (err == WN_ERR_FULL) {
		wn__registry_drop(lessons);
		return 0;
	}
	if (err)
		return err;
	for (size_t slot = 0; slot < 2 * slots; slot++)
		set_page(new, slot, old->pages[slot & (slots - 1)]);
	publish(lessons, new);
	return 0;
}

/* ---- adding ------------------------------------------------------------- */

static struct wn__page *page_of(const struct wn__lessons *lessons, uint64_t place)
{
	const struct wn__directory *directory = lessons->directory;

	return directory ? directory->pages[slot_of(directory, place)] : NULL;
}

/* The lesson on the same piece of the same fingerprint, or on the same number, or 0. */
static uint64_t known_word(const struct wn__page *page, uint64_t place, uint64_t minirun,
			   uint64_t word)
{
	unsigned at = first_in_page(place);

	for (unsigned left = WN__PAGE_LESSONS; left && page->lessons[at].word; left--) {
		const struct wn__lesson *lesson = &page->lessons[at];

		if (lesson->minirun == minirun &&
		    lesson->word >> WN__PIECE_BITS == word >> WN__PIECE_BITS)
			return lesson->word;
		at = next_in_page(at);
	}
	return 0;
}

/* There is room. */
static void put_lesson(struct wn__page *page, uint64_t place, uint64_t minirun, uint64_t word)
{
	unsigned at = first_in_page(place);

	while (page->lessons[at].word)
		at = next_in_page(at);
	__atomic_store_n(&page->lessons[at].minirun, minirun, __ATOMIC_RELAXED);
	__atomic_store_n(&page->lessons[at].word, word, __ATOMIC_RELEASE);
	page->count++;
}

/* Two new pages for an old one that more than one slot leads to. */
static void split_page(struct wn__lessons *lessons, uint64_t place)
{
	struct wn__directory *directory = lessons->directory;
	struct wn__page *old = page_of(lessons, place);
	unsigned bit = old->depth;
	struct wn__page *halves[2];

	halves[0] = wn__registry_take_page(lessons, bit + 1);
	halves[1] = wn__registry_take_page(lessons, bit + 1);
	for (unsigned at = 0; at < WN__PAGE_LESSONS; at++) {
		const struct wn__lesson *lesson = &old->lessons[at];
		uint64_t its = place_of(lesson->minirun, wn__lesson_rank(lesson->word));

		if (lesson->word)
			put_lesson(halves[its >> bit & 1], its, lesson->minirun, lesson->word);
	}
	for (size_t slot = (size_t)(place & wn__low_bits(bit)); slot >> directory->depth == 0;
	     slot += (size_t)1 << bit)
		set_page(directory, slot, halves[slot >> bit & 1]);
	wn__registry_return_page(lessons->registry, old);
}

/* One step towards room for a lesson at `place`. */
static int make_room(struct wn__lessons *lessons, uint64_t place)
{
	struct wn__page *page;
	int err = wn__registry_reserve(lessons->registry, 2);

	if (err)
		return err;
	/* Anything may have been dropped for it. */
	page = page_of(lessons, place);
	if (!page)
		return start_directory(lessons);
	if (page->depth == lessons->directory->depth) {
		err = double_directory(lessons);
		if (err || !lessons->directory)
			return err;
	}
	split_page(lessons, place);
	return 0;
}

/* Two lessons on the same bits that differ: a stored hash was wrong. It may have been
 * the first one, so that a stored key is being denied: none of them can stay. */
static void distrust(struct wn__lessons *lessons)
{
	wn__assert_locked(&lessons->registry->lock);
	if (lessons->distrusted)
		return;
	wn__lessons_clear(lessons);
	lessons->distrusted = true;
	lessons->registry->stats.distrusted++;
}

static void keep_lesson(struct wn__lessons *lessons, struct wn__page *page, uint64_t place,
			uint64_t minirun, uint64_t word)
{
	put_lesson(page, place, minirun, word);
	if (lessons->count++ == 0)
		lessons->registry->stats.filters++;
	lessons->registry->stats.lessons++;
	wn__registry_warm(lessons);
}

static int add_lesson(struct wn__lessons *lessons, uint64_t minirun, uint64_t word, bool saved)
{
	uint64_t place = place_of(minirun, wn__lesson_rank(word));

	wn__assert_locked(&lessons->registry->lock);
	if (!lessons->linked)
		return WN_ERR_NOT_FOUND;
	if (lessons->distrusted)
		return WN_ERR_MISMATCH;
	wn__registry_warm(lessons);
	for (;;) {
		struct wn__page *page = page_of(lessons, place);
		uint64_t known = page ? known_word(page, place, minirun, word) : 0;
		int err;

		if (known == word)
			return 0;
		if (known) {
			distrust(lessons);
			wn__registry_changed(lessons, 0, 0);
			return WN_ERR_MISMATCH;
		}
		if (page && page->count < WN__PAGE_FULL) {
			keep_lesson(lessons, page, place, minirun, word);
			if (!saved)
				wn__registry_changed(lessons, minirun, word);
			return 0;
		}
		err = make_room(lessons, place);
		if (err) {
			lessons->registry->stats.refused++;
			return err;
		}
	}
}

int wn__lessons_add(struct wn__lessons *lessons, uint64_t minirun, uint64_t word, bool saved)
{
	int err;

	wn__lock(&lessons->registry->lock, WN__LOCK_LAST);
	err = add_lesson(lessons, minirun, word, saved);
	wn__unlock(&lessons->registry->lock);
	return err;
}

void wn__lessons_distrust(struct wn__lessons *lessons)
{
	wn__lock(&lessons->registry->lock, WN__LOCK_LAST);
	distrust(lessons);
	wn__unlock(&lessons->registry->lock);
}

/* ---- all of them -------------------------------------------------------- */

/* The page at a slot if this is the first slot that leads to it. */
static struct wn__page *page_at(const struct wn__directory *directory, size_t slot)
{
	struct wn__page *page = directory->pages[slot];

	return slot >> page->depth == 0 ? page : NULL;
}

void wn__lessons_clear(struct wn__lessons *lessons)
{
	struct wn__directory *directory = lessons->directory;

	wn__assert_locked(&lessons->registry->lock);
	if (!directory)
		return;
	publish(lessons, NULL);
	for (size_t slot = 0; slot >> directory->depth == 0; slot++) {
		struct wn__page *page = page_at(directory, slot);

		if (page)
			wn__registry_return_page(lessons->registry, page);
	}
	if (lessons->linked && lessons->count) {
		lessons->registry->stats.filters--;
		lessons->registry->stats.lessons -= lessons->count;
	}
	lessons->count = 0;
	wn__registry_cool(lessons);
}

void wn__lessons_copy(const struct wn__lessons *lessons, struct wn_hash *to)
{
	const struct wn__directory *directory = lessons->directory;

	wn__assert_locked(&lessons->registry->lock);
	for (size_t slot = 0; directory && slot >> directory->depth == 0; slot++) {
		const struct wn__page *page = page_at(directory, slot);

		for (unsigned at = 0; page && at < WN__PAGE_LESSONS; at++) {
			const struct wn__lesson *lesson = &page->lessons[at];

			if (lesson->word)
				*to++ = (struct wn_hash){lesson->minirun, lesson->word};
		}
	}
}
