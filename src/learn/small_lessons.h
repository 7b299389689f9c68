/* small_lessons.h - what the small filters of one database have learned.
 *
 * A lesson says: key number `index` of the filter `id` has these 48 bits in its hash, behind the
 * fingerprint's. A query that matched this fingerprint and has others is not that key. All
 * filters share one table of 32-byte entries, asked only after a filter said "maybe".
 *
 * Readers take no lock and write nothing but a mark that a lesson was of use. Entries move and
 * go under a version that readers compare before they believe a refusal; in doubt they do not.
 * A table that grows leaves the old one where it is, for readers that are still in it, until
 * all is destroyed: together they are no larger than the new one.
 *
 * Past the budget lessons go that were not of use since the last round (a clock).
 *
 * Thread safety: any function, any thread, but for destroy. */
#ifndef WN_LEARN_SMALL_LESSONS_H
#define WN_LEARN_SMALL_LESSONS_H

#include <winnow/common.h>
#include <winnow/hash.h>

#include "kinds/aqf/aqf_small.h"

WN_BEGIN_DECLS

#define WN__SMALL_LESSON_MASK UINT64_C(0xffffffffffff)

struct wn__small_lessons;

struct wn__small_lessons_stats {
	uint64_t lessons, bytes, dropped;
};

/* What a lesson keeps of a hash. */
static inline uint64_t wn__small_lesson_bits(struct wn_hash hash)
{
	return hash.lo & WN__SMALL_LESSON_MASK;
}

/* budget: bytes; 0: 64 MB. */
int wn__small_lessons_create(size_t budget, struct wn__small_lessons **lessonsp);
void wn__small_lessons_destroy(struct wn__small_lessons *lessons); /* NULL is fine */

/* Is there a lesson that says that a query with `bits` is not this key? */
bool wn__small_lessons_refute(struct wn__small_lessons *lessons, struct wn__small_id id,
				       uint32_t index, uint64_t bits);

/* The key `index` of the filter has `bits`. 0 also if that was known. WN_ERR_MISMATCH: it was
 * known otherwise; the lesson is gone. ENOMEM. */
int wn__small_lessons_learn(struct wn__small_lessons *lessons, struct wn__small_id id,
				     uint32_t index, uint64_t bits);

/* The filter, of `count` keys, is gone. */
void wn__small_lessons_forget(struct wn__small_lessons *lessons, struct wn__small_id id,
				       uint32_t count);

/* Call for each lesson, under the lock: the function must not come back here. */
typedef void wn__small_lesson_fn(void *arg, struct wn__small_id id, uint32_t index);
void wn__small_lessons_each(struct wn__small_lessons *lessons, wn__small_lesson_fn *each,
				     void *arg);

void wn__small_lessons_describe(struct wn__small_lessons *lessons,
					 struct wn__small_lessons_stats *statsp);

WN_END_DECLS

#endif /* WN_LEARN_SMALL_LESSONS_H */
