/* pages.c - finding hashes in a key list's pages.
 *
 * Hashes ascend, and so do their miniruns. What is looked for is the first hash of
 * a minirun; the entry is `rank` hashes behind it. Hashes are evenly spread: where
 * a hash should stand among n of them is known to about sqrt(n) / 2 places, one page
 * for a million keys, and from a page nearby all but exactly. So guess, read, and
 * guess again between what is now known on both sides. Crafted hashes make bad
 * guesses; after a few, halving takes over.
 *
 * A store with an index of its own says which page it should be. Only the pages' own
 * checksums are trusted: the page is the right one if it begins below the minirun, or if
 * the page in front of it ends below. With a page taken for the minirun's first that is
 * not, ranks would be wrong, and a lesson could hide a key. */
#include <errno.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "pages.h"

#define MAX_GUESSES 6

void wn__keylist_header_init(struct wn__keylist_header *header, const struct wn__keylist *list)
{
	unsigned char bytes[WN__KEYLIST_HEADER_SIZE];

	wn__keylist_header_put(bytes, list);
	*header = (struct wn__keylist_header){
		.list = *list,
		.digest = get_le64(bytes + WN__KEYLIST_DIGEST_AT),
	};
}

struct wn__keylist_info wn__keylist_header_info(const struct wn__keylist_header *header)
{
	return (struct wn__keylist_info){
		.list = header->list,
		.bytes = wn__keylist_size(header),
	};
}

int wn__keylist_infos_add(struct wn__keylist_infos *list, const struct wn__keylist_info *info)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 64;
		struct wn__keylist_info *infos;

		infos = wn__realloc(list->infos, capacity * sizeof(*infos));
		if (!infos)
			return ENOMEM;
		list->infos = infos;
		list->capacity = capacity;
	}
	list->infos[list->count++] = *info;
	return 0;
}

/* ---- a page ------------------------------------------------------------- */

struct page {
	const unsigned char *hashes;
	uint64_t number;
	uint64_t first; /* the number of its first hash */
	size_t count;
	unsigned char buffer[WN__KEYLIST_PAGE_SIZE];
};

static int take_page(struct wn__keylist_pages *pages, uint64_t number, const unsigned char *bytes,
		     struct page *page)
{
	pages->reads++;
	if (!wn__keylist_page_is_whole(&pages->header, number, bytes))
		return WN_ERR_CORRUPT;
	page->hashes = bytes + wn__keylist_page_head(number);
	page->number = number;
	page->first = wn__keylist_page_first(number);
	page->count = wn__keylist_page_hashes(&pages->header, number);
	return 0;
}

static int read_page(struct wn__keylist_pages *pages, uint64_t number, struct page *page)
{
	const unsigned char *bytes;
	int err = pages->read(pages->arg, &pages->header, number, page->buffer, &bytes);

	return err ? err : take_page(pages, number, bytes, page);
}

static uint64_t upper_at(const struct page *page, size_t index)
{
	return wn__keylist_upper_get(page->hashes + index * WN__KEYLIST_HASH_BYTES);
}

static uint64_t minirun_of(const struct wn__keylist *list, uint64_t upper)
{
	return wn__hash_minirun((struct wn_hash){upper, 0}, list->slots, list->remainder_bits);
}

static uint64_t minirun_at(const struct wn__keylist_pages *pages, const struct page *page,
			   size_t index)
{
	return minirun_of(&pages->header.list, upper_at(page, index));
}

/* The first hash of the page whose minirun is not below; its count if all are. */
static size_t find_in_page(const struct wn__keylist_pages *pages, const struct page *page,
			   uint64_t minirun)
{
	size_t low = 0, high = page->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (minirun_at(pages, page, middle) < minirun)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- the right page ----------------------------------------------------- */

/* The page looked for is the first whose last hash's minirun is not below the one
 * wanted. It is in [low, high]; if it is `high`, either all pages are below or the
 * page is known to begin with that minirun or a higher one. */
struct bracket {
	uint64_t low, high;
	/* What is known at both sides, to guess by: a hash's number and its minirun. */
	double low_index, low_value;
	double high_index, high_value;
	unsigned guesses;
};

static struct bracket bracket_all(const struct wn__keylist_header *header)
{
	return (struct bracket){
		.high = wn__keylist_page_count(header),
		.high_index = (double)header->list.key_count,
		.high_value = (double)(header->list.slots << header->list.remainder_bits),
	};
}

static uint64_t guess_page(struct bracket *bracket, uint64_t minirun)
{
	double width = bracket->high_value - bracket->low_value;
	double offset = (double)minirun - bracket->low_value;
	double index;
	uint64_t page;

	if (bracket->guesses++ >= MAX_GUESSES || !(width > 0) || offset < 0 || offset > width)
		return bracket->low + (bracket->high - bracket->low) / 2;
	index = bracket->low_index +
		offset / width * (bracket->high_index - bracket->low_index);
	page = wn__keylist_page_of((uint64_t)index);
	if (page < bracket->low)
		return bracket->low;
	return page < bracket->high ? page : bracket->high - 1;
}

static void raise_low(struct bracket *bracket, const struct page *page, uint64_t last)
{
	bracket->low = page->number + 1;
	bracket->low_index = (double)(page->first + page->count);
	bracket->low_value = (double)last;
}

static void lower_high(struct bracket *bracket, const struct page *page, uint64_t first)
{
	bracket->high = page->number;
	bracket->high_index = (double)page->first;
	bracket->high_value = (double)first;
}

/* The first 64 bits of the smallest hash that is of the minirun. */
static uint64_t smallest_of(const struct wn__keylist *list, uint64_t minirun)
{
	uint64_t miniruns = list->slots << list->remainder_bits;

	if (minirun >= miniruns)
		return UINT64_MAX;
	return (uint64_t)(((wn__u128)minirun << 64) / miniruns);
}

/* The page that the store's index says, or, if it says none, the last. */
static int seek_page(struct wn__keylist_pages *pages, uint64_t minirun, struct page *page)
{
	const struct wn__keylist_header *header = &pages->header;
	uint64_t number, count = wn__keylist_page_count(header);
	const unsigned char *bytes;
	int err = pages->seek(pages->arg, header, smallest_of(&header->list, minirun), &bytes,
			      &number);

	if (err == WN_ERR_NOT_FOUND)
		return read_page(pages, count - 1, page);
	if (!err && number >= count)
		err = WN_ERR_CORRUPT;
	return err ? err : take_page(pages, number, bytes, page);
}

/* The next page to read. With an index the first was all but right, and the next is beside
 * it. */
static int read_next(struct wn__keylist_pages *pages, struct bracket *bracket, uint64_t minirun,
		     struct page *page)
{
	uint64_t all = wn__keylist_page_count(&pages->header);

	if (!pages->seek)
		return read_page(pages, guess_page(bracket, minirun), page);
	if (bracket->guesses++ == 0)
		return seek_page(pages, minirun, page);
	return read_page(pages, bracket->high < all ? bracket->high - 1 : bracket->low, page);
}

/* Read the page that has the first hash whose minirun is not below. The key list must
 * have hashes. WN__MAP_NO_PLACE if all are below: the last page was seen. All hashes
 * before the page are below: it is the first, or the one before it was seen. */
static int find_page(struct wn__keylist_pages *pages, uint64_t minirun, struct page *page)
{
	const struct wn__keylist_header *header = &pages->header;
	struct bracket bracket = bracket_all(header);

	while (bracket.low < bracket.high) {
		uint64_t first, last;
		int err = read_next(pages, &bracket, minirun, page);

		if (err)
			return err;
		first = minirun_at(pages, page, 0);
		last = minirun_at(pages, page, page->count - 1);
		if (last < minirun) {
			raise_low(&bracket, page, last);
		} else if (first < minirun || page->number == bracket.low) {
			return 0;
		} else {
			lower_high(&bracket, page, first);
		}
	}
	if (bracket.low == wn__keylist_page_count(header))
		return WN__MAP_NO_PLACE;
	return read_page(pages, bracket.low, page);
}

/* ---- lookup ------------------------------------------------------------- */

bool wn__keylist_is_of(const struct wn__keylist *stored, const struct wn__keylist *wanted)
{
	return memcmp(stored->id, wanted->id, sizeof(stored->id)) == 0 &&
	       (stored->key_count == wanted->key_count ||
		wanted->key_count == WN__KEYS_UNKNOWN) &&
	       stored->slots == wanted->slots && stored->secret_id == wanted->secret_id &&
	       stored->remainder_bits == wanted->remainder_bits;
}

/* Go from the page with the minirun's first hash to the one `index` is on. */
static int turn_to(struct wn__keylist_pages *pages, struct page *page, uint64_t index)
{
	if (index >= pages->header.list.key_count)
		return WN__MAP_NO_PLACE;
	if (index < page->first + page->count)
		return 0;
	return read_page(pages, wn__keylist_page_of(index), page);
}

/* The hash of this number, which must be of the minirun. */
static int get_entry(struct wn__keylist_pages *pages, struct page *page, uint64_t index,
		     uint64_t minirun, struct wn__keylist_entry *entryp)
{
	const struct wn__keylist *list = &pages->header.list;
	uint64_t upper;
	int err = turn_to(pages, page, index);

	if (err)
		return err;
	upper = upper_at(page, (size_t)(index - page->first));
	if (minirun_of(list, upper) != minirun)
		return WN__MAP_NO_PLACE;
	*entryp = (struct wn__keylist_entry){{upper, 0}, wn__keylist_known_bits(list)};
	return 0;
}

int wn__keylist_pages_lookup(struct wn__keylist_pages *pages, const struct wn__keylist *list,
			     uint64_t minirun, uint32_t rank, struct wn__keylist_entry *entries,
			     size_t max, size_t *countp)
{
	struct page page;
	uint64_t index;
	size_t first;
	int err;

	*countp = 0;
	if (!wn__keylist_is_of(&pages->header.list, list))
		return WN_ERR_MISMATCH;
	if (list->key_count == 0) /* no page to see it in */
		return WN_ERR_NOT_FOUND;
	err = find_page(pages, minirun, &page);
	if (err)
		return err;
	first = find_in_page(pages, &page, minirun);
	index = page.first + first + rank;
	while (!err && *countp < max) {
		err = get_entry(pages, &page, index + *countp, minirun, &entries[*countp]);
		*countp += !err;
	}
	return err;
}

/* ---- stream ------------------------------------------------------------- */

int wn__keylist_pages_stream(struct wn__keylist_pages *pages, wn__keylist_visit_fn *fn, void *arg)
{
	struct wn__keylist_info info = wn__keylist_header_info(&pages->header);
	uint64_t count = wn__keylist_page_count(&pages->header);
	uint64_t uppers[WN__KEYLIST_MAX_PAGE_HASHES];
	struct page page;
	int err;

	for (uint64_t number = 0; number < count; number++) {
		err = read_page(pages, number, &page);
		if (err)
			return err;
		for (size_t i = 0; i < page.count; i++)
			uppers[i] = upper_at(&page, i);
		err = page.count ? fn(arg, &info, uppers, page.count) : 0;
		if (err)
			return err;
	}
	return 0;
}
