/* lessons_internal.h - what the files of the learned state share.
 *
 * The lessons of a filter lie in pages of 512 bytes, found by extendible hashing: a
 * directory of 2^depth pointers, a full page is split in two, and the directory
 * doubles when a page that only one pointer leads to is full.
 *
 * Readers hold nothing that says how long they look, so no memory that a reader may
 * look at is given back while the registry lives: pages go to a pool and from there
 * to any filter. What a reader sees in a page counts only if the page was its
 * filter's all the time:
 *
 *  - `owner` is the serial number of the lessons the page was given to. Serial
 *    numbers are never used again;
 *  - `version` is odd while the page changes hands, and rises each time. A reader
 *    looks at it before and after; if it was odd or has changed, the reader starts
 *    over, and after a few rounds takes it that nothing was learned.
 *
 * Within one owner's time lessons are only added, the word that makes one visible
 * last. But a page that was split may come back to the same owner, for other places:
 * a reader that still has it from before would find its lessons missing. So the
 * directory must lead to the page once more after the version was read. From there to
 * the version's second look the page is this place's, or has been split meanwhile and
 * still holds the same lessons.
 *
 * The words of pages and directories are read and written as relaxed atomics. */
#ifndef WN_LEARN_LESSONS_INTERNAL_H
#define WN_LEARN_LESSONS_INTERNAL_H

#include <pthread.h>

#include "base/bits.h"
#include "lessons.h"

/* A lesson in two words. The second is never 0, and written last. The bits behind the
 * remainder, 126 at most, are told in pieces of 42: a lesson has one whole piece, the
 * first in which query and stored key differ. More bits than were asked for, but
 * they cost nothing, and spare the fingerprint nearly all further mistakes. */
#define WN__PIECES 3
#define WN__MAX_RANK ((UINT32_C(1) << 20) - 1)

struct wn__lesson {
	uint64_t minirun;
	uint64_t word; /* rank, 20 bits | piece + 1, 2 bits | the piece's bits, 42 */
};

/* Filters without fingerprints have lessons of a second sort as well: how many stored keys a
 * minirun has. Rank and piece are 0 then, and the number plus 1 stands in the piece's place.
 * It lies beside the lessons on rank 0: one page mostly tells all there is to know. */
#define WN__COUNT_UNKNOWN UINT64_MAX

WN__INLINE uint64_t wn__lesson_of_count(uint32_t count)
{
	return (uint64_t)count + 1;
}

WN__INLINE bool wn__lesson_is_count(uint64_t word)
{
	return (word >> WN__PIECE_BITS & 3) == 0;
}

WN__INLINE uint64_t wn__lesson_count(uint64_t word)
{
	return (word & wn__low_bits(WN__PIECE_BITS)) - 1;
}

WN__INLINE bool wn__lesson_is_valid(uint64_t word)
{
	return !wn__lesson_is_count(word) || (word >= 1 && word <= WN__MAX_RANK + 2);
}

WN__INLINE uint64_t wn__lesson_word(uint32_t rank, unsigned piece, uint64_t bits)
{
	return (uint64_t)rank << 44 | (uint64_t)(piece + 1) << WN__PIECE_BITS | bits;
}

WN__INLINE uint32_t wn__lesson_rank(uint64_t word)
{
	return (uint32_t)(word >> 44);
}

WN__INLINE unsigned wn__lesson_piece(uint64_t word)
{
	return (unsigned)(word >> WN__PIECE_BITS & 3) - 1;
}

WN__INLINE uint64_t wn__lesson_bits(uint64_t word)
{
	return word & wn__low_bits(WN__PIECE_BITS);
}

/* What a fraction has behind the remainder, the first bit on top. */
struct wn__tail {
	uint64_t hi, lo;
};

WN__INLINE uint64_t wn__tail_piece(struct wn__tail tail, unsigned piece)
{
	return wn__fraction_bits(tail.hi, tail.lo, piece * WN__PIECE_BITS, WN__PIECE_BITS);
}

/* ---- pages -------------------------------------------------------------- */

#define WN__PAGE_LESSONS 30
#define WN__PAGE_FULL 28 /* a search ends at the first gap: leave some */

struct wn__page {
	uint64_t version;
	uint64_t owner;
	struct wn__page *next; /* in the pool */
	uint32_t count;
	uint32_t depth; /* bits of the place that all its lessons share */
	struct wn__lesson lessons[WN__PAGE_LESSONS];
};

_Static_assert(sizeof(struct wn__page) == 512, "a page is eight cache lines");

#define WN__MAX_DEPTH 24

/* One of each depth at most, kept until no reader is left. */
struct wn__directory {
	struct wn__directory *older;
	uint32_t depth;
	struct wn__page *pages[];
};

/* ---- objects ------------------------------------------------------------ */

struct wn__link {
	struct wn__link *prev, *next; /* both NULL: in no list */
};

struct wn__lessons {
	struct wn__directory *directory; /* NULL: nothing learned */
	uint64_t serial;
	struct wn__shape shape;
	unsigned char id[WN_BLOCK_ID_SIZE];
	/* The rest is under the registry's lock. */
	struct wn__registry *registry;
	struct wn__lessons *chain; /* the next in the bucket */
	struct wn__directory *directories;
	struct wn__link warmth; /* in registry->coldest; if there are lessons */
	uint64_t refs;
	uint64_t count;
	bool linked;     /* false: forgotten */
	bool distrusted; /* learns nothing any more */
};

/* A lesson that was learned and not saved yet. */
struct wn__change {
	unsigned char id[WN_BLOCK_ID_SIZE];
	struct wn__shape shape;
	struct wn__lesson lesson; /* word 0: the filter is distrusted from here on */
};

struct wn__slab;

struct wn__registry {
	pthread_mutex_t lock;
	uint64_t users; /* the owners, and each reference to lessons */
	char *name;     /* NULL: it has none */
	struct wn__registry *next_named;
	size_t budget;
	uint64_t last_serial;
	struct wn__lessons **buckets;
	size_t bucket_count;
	size_t object_count;
	struct wn__link coldest; /* a ring: the coldest is next, the warmest prev */
	bool tracked;
	struct wn__change *changes;
	size_t change_count, change_room;
	bool changes_lost;
	struct wn__page *pool;
	size_t pool_count;
	struct wn__slab *slabs;
	struct wn__registry_stats stats;
};

#define WN__LESSONS_OF(link, member)                                                              \
	((struct wn__lessons *)(void *)((char *)(link)-offsetof(struct wn__lessons, member)))

/* All with the lock held. */
void wn__registry_warm(struct wn__lessons *lessons);
void wn__registry_cool(struct wn__lessons *lessons); /* out of the ring */
/* To be saved; word 0: distrusted. */
void wn__registry_changed(struct wn__lessons *lessons, uint64_t minirun, uint64_t word);
/* Has the budget room for so many bytes, if need be after lessons were dropped that nobody
 * reads? Whoever allocates adds to stats.bytes. */
bool wn__registry_afford(struct wn__registry *registry, size_t size);
/* Take these lessons away, for the budget. Those that nobody reads are gone altogether. */
void wn__registry_drop(struct wn__lessons *lessons);
/* Fill the pool up to `count` pages. May drop lessons, in the end the caller's own. */
int wn__registry_reserve(struct wn__registry *registry, size_t count);
struct wn__page *wn__registry_take_page(struct wn__lessons *lessons, uint32_t depth);
void wn__registry_return_page(struct wn__registry *registry, struct wn__page *page);

/* ---- registry_names.c --------------------------------------------------- */

/* Out of the list of names, if it has one. Nobody holds the registry any more; who finds it in the
 * list meanwhile leaves it alone. */
void wn__registry_leave_name(struct wn__registry *registry);

/* ---- lessons.c ---------------------------------------------------------- */

/* Is there anything to ask? */
WN__INLINE bool wn__lessons_exist(const struct wn__lessons *lessons)
{
	return lessons && __atomic_load_n(&lessons->directory, __ATOMIC_RELAXED) != NULL;
}

/* Do the lessons say that a query with this tail did not mean the fingerprint? For
 * readers: no lock. */
bool wn__lessons_refute(const struct wn__lessons *lessons, uint64_t minirun, uint32_t rank,
			struct wn__tail tail);

/* Do they say that a query with this tail is none of the minirun's stored keys? Yes if their
 * number is known and each of them is refuted. */
bool wn__lessons_refute_minirun(const struct wn__lessons *lessons, uint64_t minirun,
				struct wn__tail tail);

/* Add a lesson; results as of wn__lessons_learn(). `saved`: it comes from a file. */
int wn__lessons_add(struct wn__lessons *lessons, uint64_t minirun, uint64_t word, bool saved);

/* A file says so: drop the lessons and learn no more. */
void wn__lessons_distrust(struct wn__lessons *lessons);

/* With the lock held: take everything away; free the directories (when there are no
 * readers); copy all lessons to an array of lessons->count. */
void wn__lessons_clear(struct wn__lessons *lessons);
void wn__lessons_free_directories(struct wn__lessons *lessons);
void wn__lessons_copy(const struct wn__lessons *lessons, struct wn_hash *to);

#endif /* WN_LEARN_LESSONS_INTERNAL_H */
