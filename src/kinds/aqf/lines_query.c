/* lines_query.c - queries over an AdaptiveQF in lines; the essay is in lines.h. */
#include <winnow/error.h>

#include "base/secret.h"
#include "lines_search.h"

/* ---- any fingerprint: the slow, complete way ----------------------------- */

/* The fingerprints equal to a query's: items of a line, or of an odd span. */
struct equals {
	uint32_t count;
	bool damaged;
};

static struct equals count_in_line(const struct wn__lines *lines, const unsigned char *line,
				   uint64_t upper, uint64_t first_byte)
{
	unsigned v = (unsigned)((first_byte >> 8) - line[0]) & 255;
	struct wn__run run = wn__line_run(line, v, false);
	unsigned wanted = lines->extra_bits ? wn__wanted_extra(lines, upper) : 0;
	unsigned max = wn__lines_max_items(&lines->shape);
	struct equals equals = {0, run.first + run.length > max};

	for (unsigned item = run.first; item < run.first + run.length && item < max; item++) {
		if (line[wn__item_byte(lines->extra_bits, item)] == (first_byte & 255) &&
		    (!lines->extra_bits ||
		     wn__item_extra(line, item, lines->extra_bits) == wanted))
			equals.count++;
	}
	return equals;
}

static uint32_t odd_span_at(const struct wn__lines *lines, uint32_t index)
{
	return get_le32(lines->odd_span_list + (size_t)index * WN__ODD_SPAN_SIZE);
}

/* The number of an odd span's first fingerprint; index may be one behind the last. */
static uint64_t odd_first(const struct wn__lines *lines, uint32_t index)
{
	if (index >= lines->odd_spans)
		return lines->odd_prints;
	return get_le64(lines->odd_span_list + (size_t)index * WN__ODD_SPAN_SIZE + 4);
}

/* The first of [low, high) that is not below. */
static uint64_t first_odd_print(const struct wn__lines *lines, uint64_t low, uint64_t high,
				uint64_t distance)
{
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (get_le32(lines->odd_print_list + middle * WN__ODD_PRINT_SIZE) < distance)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct equals count_in_odd_span(const struct wn__lines *lines, uint64_t span,
				       uint64_t print)
{
	uint64_t distance = print - span * WN__STEPS * wn__lines_step(&lines->shape);
	uint32_t low = 0, high = lines->odd_spans;
	uint64_t first, last;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (odd_span_at(lines, middle) < span)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == lines->odd_spans || odd_span_at(lines, low) != span)
		return (struct equals){0, true};
	first = odd_first(lines, low);
	last = odd_first(lines, low + 1);
	if (first > last || last > lines->odd_prints || distance > UINT32_MAX)
		return (struct equals){0, true};
	first = first_odd_print(lines, first, last, distance);
	last = first_odd_print(lines, first, last, distance + 1);
	return (struct equals){(uint32_t)(last - first), false};
}

static uint64_t extended_key(const struct wn__lines *lines, uint32_t index)
{
	return get_le64(lines->extended_list + (size_t)index * WN__EXTENDED_SIZE);
}

/* Are the keys of this fingerprint listed? Where they begin. */
static bool find_extended(const struct wn__lines *lines, uint64_t print, uint32_t *firstp)
{
	uint32_t low = 0, high = lines->extended;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (wn__scale(extended_key(lines, middle), lines->prints) < print)
			low = middle + 1;
		else
			high = middle;
	}
	*firstp = low;
	return low < lines->extended &&
	       wn__scale(extended_key(lines, low), lines->prints) == print;
}

/* The first rank from `rank` on, below `count`, whose fingerprint does not stand for another
 * key; `count` if there is none. */
static uint32_t first_match(const struct wn__lines *lines, uint64_t upper, uint64_t print,
			    uint32_t rank, uint32_t count)
{
	uint32_t first;

	if (!lines->extended || !find_extended(lines, print, &first))
		return rank < count ? rank : count;
	for (; rank < count; rank++) {
		/* A list that is too short is damaged. */
		if ((uint64_t)first + rank >= lines->extended ||
		    extended_key(lines, first + rank) == upper ||
		    wn__scale(extended_key(lines, first + rank), lines->prints) != print)
			break;
	}
	return rank < count ? rank : count;
}

bool wn__lines_query_from(const void *state, struct wn_hash hash, uint32_t rank,
			  struct wn_match *matchp)
{
	const struct wn__lines *lines = state;
	struct wn__target target = wn__lines_target(lines, hash.hi, false);
	uint64_t print = wn__scale(hash.hi, lines->prints);
	struct equals equals;

	if (target.line)
		equals = count_in_line(lines, target.line, hash.hi, target.first_byte);
	else
		equals = count_in_odd_span(lines, wn__scale(hash.hi, lines->steps) >> 6, print);
	if (equals.damaged) {
		if (matchp)
			*matchp = (struct wn_match){.known = false};
		return true;
	}
	rank = first_match(lines, hash.hi, print, rank, equals.count);
	if (rank >= equals.count)
		return false;
	if (matchp)
		*matchp = (struct wn_match){.minirun = print, .rank = rank, .known = true};
	return true;
}

/* Out of line, so that the common case needs no stack frame for it. */
static bool __attribute__((noinline)) query_slowly(const struct wn__lines *lines,
						   struct wn_hash hash, struct wn_match *matchp)
{
	return wn__lines_query_from(lines, hash, 0, matchp);
}

static bool is_extended(const struct wn__lines *lines, uint64_t upper)
{
	uint32_t first;

	return find_extended(lines, wn__scale(upper, lines->prints), &first);
}

/* ---- the fast way ------------------------------------------------------- */

/* Is there an item with these extra bits among those of the mask that are in the run? */
WN__INLINE bool has_extra(const struct wn__lines *lines, const unsigned char *line, uint64_t upper,
			  uint64_t in_run, unsigned first)
{
	unsigned wanted = wn__wanted_extra(lines, upper);

	while (in_run) {
		unsigned offset = (unsigned)__builtin_clzll(in_run);

		if (wn__item_extra(line, (first + offset) & 63, lines->extra_bits) == wanted)
			return true;
		in_run &= ~(UINT64_C(1) << 63 >> offset);
	}
	return false;
}

#define IS_FAST(way) ((way).path == WN__PATH_AVX2)

/* One of the line's bytes is the one looked for: is it in the quotient's run? */
WN__INLINE bool is_in_run(const struct wn__lines *lines, struct wn__target target, uint64_t upper,
			  uint64_t mask, struct wn__way way)
{
	const bool fast = IS_FAST(way);
	unsigned v = (unsigned)((target.first_byte >> 8) - target.line[0]) & 255;
	struct wn__run run = wn__line_run(target.line, v, fast);
	uint64_t in_run;

	if (way.extra) {
#if WN__HAVE_X86
		if (fast) {
			__asm__("pextq %1, %0, %0" : "+r"(mask) : "r"(lines->items));
			mask <<= lines->item_shift;
		} else
#endif
			mask = wn__pack_items(mask & lines->items, lines->extra_bits);
	}
	/* Without extra bits item i is byte 63 - i already. */
	in_run = mask << run.first;
	if (!way.extra)
		return wn__leading_zeros(in_run, fast) < run.length;
	in_run &= ~(run.length < 64 ? UINT64_MAX >> run.length : 0);
	return in_run && has_extra(lines, target.line, upper, in_run, run.first);
}

/* The fingerprint is in the line, and some stand for one key only. */
static bool __attribute__((noinline)) conclude_slowly(const struct wn__lines *lines, uint64_t upper,
						      struct wn_match *matchp)
{
	if (is_extended(lines, upper))
		return query_slowly(lines, (struct wn_hash){upper, 0}, matchp);
	if (matchp)
		*matchp = (struct wn_match){
			.minirun = wn__scale(upper, lines->prints),
			.known = true,
		};
	return true;
}

/* The fingerprint is in the line: of which rank, and may it answer? */
WN__INLINE bool conclude(const struct wn__lines *lines, uint64_t upper, struct wn_match *matchp)
{
	if (WN__UNLIKELY(lines->extended))
		return conclude_slowly(lines, upper, matchp);
	if (matchp)
		*matchp = (struct wn_match){
			.minirun = wn__scale(upper, lines->prints),
			.known = true,
		};
	return true;
}

/* The compiler would load the pointer first, and be short of a register all the way. */
WN__INLINE const struct wn__lines *after_hash(const struct wn__asker *asker)
{
	__asm__ volatile("" : : : "memory");
	return asker->state;
}

/* A key that is not denied, unless its fingerprint is in no line, or stands for another key. */
static bool WN__HOT __attribute__((noinline)) tell(const struct wn__asker *asker,
						   struct wn_hash hash, bool in_line)
{
	const struct wn__lines *lines = asker->state;
	struct wn_match match = {.known = true};

	if (in_line && !lines->extended)
		match.minirun = wn__scale(hash.hi, lines->prints);
	else if (!wn__lines_query_from(lines, hash, 0, &match))
		return false;
	return !asker->maybe || asker->maybe(asker, hash, &match);
}

/* Is there nobody to tell, and no fingerprint that stands for one key? */
WN__INLINE bool is_all(const struct wn__asker *asker, const struct wn__lines *lines)
{
	return !asker->maybe && WN__LIKELY(!lines->extended);
}

/* As tell(), of a hash that lacks wn__hash_finish(). */
static bool WN__HOT __attribute__((noinline)) finish_and_tell(const struct wn__asker *asker,
							      struct wn_hash hash, bool in_line)
{
	return tell(asker, wn__hash_finish(&asker->secret->words, hash), in_line);
}

/* Keys of a batch whose lines are on their way, and those whose directory byte is. */
enum { BATCH = 32, AHEAD = 4 };

WN__INLINE void fetch_line(const unsigned char *line)
{
	__builtin_prefetch(line);
	/* A block lies where the host has put it. */
	__builtin_prefetch(line + WN__LINE_SIZE - 1);
}

WN__INLINE void fetch_entry(const struct wn__lines *lines, uint64_t upper)
{
	__builtin_prefetch(lines->directory + (wn__scale(upper, lines->steps) >> 6));
}

/* The line of each hash of a batch, all of them asked for. */
WN__INLINE void find_lines(const struct wn__lines *lines, const struct wn_hash *hashes,
			   size_t count, struct wn__target *targets, bool fast)
{
	for (size_t i = 0; i < count + AHEAD; i++) {
		if (i < count)
			fetch_entry(lines, hashes[i].hi);
		if (i < AHEAD)
			continue;
		targets[i - AHEAD] = wn__lines_target(lines, hashes[i - AHEAD].hi, fast);
		if (WN__LIKELY(targets[i - AHEAD].line))
			fetch_line(targets[i - AHEAD].line);
	}
}

/* The same of keys, and their hashes. Memory is asked for while the next keys are hashed. */
WN__INLINE void hash_and_find_lines(const struct wn__asker *asker, const struct wn_key *keys,
				    size_t count, struct wn_hash *hashes,
				    struct wn__target *targets, bool fast)
{
	const struct wn__lines *lines = asker->state;

	for (size_t i = 0; i < count + AHEAD; i++) {
		if (i < count) {
			hashes[i] = wn__hash_key(asker->secret, keys[i].data, keys[i].size);
			fetch_entry(lines, hashes[i].hi);
		}
		if (i < AHEAD)
			continue;
		targets[i - AHEAD] = wn__lines_target(lines, hashes[i - AHEAD].hi, fast);
		if (WN__LIKELY(targets[i - AHEAD].line))
			fetch_line(targets[i - AHEAD].line);
	}
}

/* Ask for the two lines that a step is mostly in, before the directory has told which it is: of all
 * steps of a span c half are in line c - 2, and 36% in line c - 1. So a lookup waits for directory
 * and line side by side: at 10 M keys 36 ns in place of 39, one alone 107 in place of 160
 * (bench_filters: negative, fenced). A third line would gain 2 ns more of memory that nobody else
 * wants. Batches find their lines early enough, and only lost by it. */
WN__INLINE struct wn__target find_line(const struct wn__lines *lines, uint64_t upper, bool fast)
{
	uint64_t step = wn__scale_by(upper, &lines->steps, fast);
	/* Somewhere in line c, or on its end. */
	const unsigned char *near = lines->directory - step;

	__builtin_prefetch(near + WN__LINE_SIZE);
	__builtin_prefetch(near + 2 * WN__LINE_SIZE);
	return wn__lines_target_of(lines, upper, step, fast);
}

#define QUERY_BODY(mask_of, find_here, settle_here)                                                \
	const struct wn__lines *lines = state;                                                     \
	struct wn__target target = find_line(lines, hash.hi, IS_FAST(way));                        \
	uint64_t mask;                                                                             \
	if (WN__UNLIKELY(!target.line))                                                            \
		return query_slowly(lines, hash, matchp);                                          \
	mask = mask_of(target.line, target.first_byte, way.few);                                   \
	if (WN__LIKELY(!mask))                                                                     \
		return false;                                                                      \
	if (matchp || lines->extended)                                                             \
		return settle_here(lines, hash.hi, target, mask, matchp);                          \
	return find_here(lines, hash.hi, target, mask);

#define ASK_BODY(mask_of, look)                                                                    \
	struct wn_hash hash = wn__hash_short(&asker->secret->words, key, size);                    \
	const struct wn__lines *lines = after_hash(asker);                                         \
	struct wn__target target = find_line(lines, hash.hi, IS_FAST(way));                        \
	uint64_t mask;                                                                             \
	if (WN__UNLIKELY(!target.line))                                                            \
		return finish_and_tell(asker, hash, false);                                        \
	mask = mask_of(target.line, target.first_byte, way.few);                                   \
	return WN__LIKELY(!mask) ? false : look(asker, hash, target, mask);

/* The answers of a batch whose targets are known: `odd` where there is no line, `certain` where the
 * fingerprint is in the line. Both may look at hashes[i]. */
#define ANSWER_BODY(mask_of, here, odd, certain)                                                   \
	for (size_t i = 0; i < (here); i++)                                                        \
		if (WN__UNLIKELY(!targets[i].line)) {                                              \
			answersp[i] = (odd);                                                       \
		} else {                                                                           \
			uint64_t mask = mask_of(targets[i].line, targets[i].first_byte, way.few);  \
			answersp[i] = WN__UNLIKELY(mask) &&                                        \
				      is_in_run(lines, targets[i], hashes[i].hi, mask, way) &&     \
				      (certain);                                                   \
		}

#define BATCH_BODY(mask_of)                                                                        \
	const struct wn__lines *lines = state;                                                     \
	struct wn__target targets[BATCH];                                                          \
	for (size_t here; count; count -= here, hashes += here, answersp += here) {                \
		here = count < BATCH ? count : BATCH;                                              \
		find_lines(lines, hashes, here, targets, IS_FAST(way));                            \
		ANSWER_BODY(mask_of, here, query_slowly(lines, hashes[i], NULL),                   \
			    conclude(lines, hashes[i].hi, NULL))                                   \
	}

#define ASK_BATCH_BODY(mask_of)                                                                    \
	const struct wn__lines *lines = asker->state;                                              \
	struct wn__target targets[BATCH];                                                          \
	struct wn_hash hashes[BATCH];                                                              \
	for (size_t here; count; count -= here, keys += here, answersp += here) {                  \
		here = count < BATCH ? count : BATCH;                                              \
		hash_and_find_lines(asker, keys, here, hashes, targets, IS_FAST(way));             \
		ANSWER_BODY(mask_of, here, tell(asker, hashes[i], false),                          \
			    is_all(asker, lines) || tell(asker, hashes[i], true))                  \
	}

/* A query, a batch and an asking function for each path and layout of lines. */
#define FUNCTIONS(name, target_of, path, mask_of, few, extra)                                      \
	/* Out of line: it saves registers, and four of five queries do not come here. */          \
	target_of static __attribute__((noinline)) bool settle_##name(                             \
		const struct wn__lines *lines, uint64_t upper, struct wn__target target,           \
		uint64_t mask, struct wn_match *matchp)                                            \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		return is_in_run(lines, target, upper, mask, way) &&                               \
		       conclude(lines, upper, matchp);                                             \
	}                                                                                          \
	target_of static __attribute__((noinline)) bool find_##name(                               \
		const struct wn__lines *lines, uint64_t upper, struct wn__target target,           \
		uint64_t mask)                                                                     \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		return is_in_run(lines, target, upper, mask, way);                                 \
	}                                                                                          \
	target_of static bool query_##name(const void *state, struct wn_hash hash,                 \
					   struct wn_match *matchp)                                \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		QUERY_BODY(mask_of, find_##name, settle_##name)                                    \
	}                                                                                          \
	target_of static __attribute__((noinline)) bool look_##name(                               \
		const struct wn__asker *asker, struct wn_hash hash, struct wn__target target,      \
		uint64_t mask)                                                                     \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		return is_in_run(asker->state, target, hash.hi, mask, way) &&                      \
		       (is_all(asker, asker->state) || finish_and_tell(asker, hash, true));        \
	}                                                                                          \
	target_of static bool ask_##name(const struct wn__asker *asker, const void *key,           \
					 size_t size)                                              \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		ASK_BODY(mask_of, look_##name)                                                     \
	}                                                                                          \
	target_of static void batch_##name(const void *state, const struct wn_hash *hashes,        \
					   size_t count, bool *answersp)                           \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		BATCH_BODY(mask_of)                                                                \
	}                                                                                          \
	target_of static void ask_batch_##name(const struct wn__asker *asker,                      \
					       const struct wn_key *keys, size_t count,            \
					       bool *answersp)                                     \
	{                                                                                          \
		const struct wn__way way = {path, few, extra};                                     \
		ASK_BATCH_BODY(mask_of)                                                            \
	}

#define PATH_FUNCTIONS(name, target_of, path, mask_of)                                             \
	FUNCTIONS(name##_few, target_of, path, mask_of, true, false)                               \
	FUNCTIONS(name##_many, target_of, path, mask_of, false, false)                             \
	FUNCTIONS(name##_extra, target_of, path, mask_of, false, true)

#define CALLS(name)                                                                                \
	{                                                                                          \
		{query_##name##_few, batch_##name##_few, ask_##name##_few,                         \
		 ask_batch_##name##_few},                                                          \
		{query_##name##_many, batch_##name##_many, ask_##name##_many,                      \
		 ask_batch_##name##_many},                                                         \
		{query_##name##_extra, batch_##name##_extra, ask_##name##_extra,                   \
		 ask_batch_##name##_extra},                                                        \
	}

PATH_FUNCTIONS(portable, , WN__PATH_PORTABLE, wn__mask_portable)
#if WN__HAVE_X86
PATH_FUNCTIONS(sse2, , WN__PATH_SSE2, wn__mask_sse2)
PATH_FUNCTIONS(avx2, WN__TARGET_AVX2 WN__HOT, WN__PATH_AVX2, wn__mask_avx2)
#endif

/* By path and layout: few remainders, many, extra bits. */
static const struct wn__lines_calls calls[WN__PATHS][3] = {
	[WN__PATH_PORTABLE] = CALLS(portable),
#if WN__HAVE_X86
	[WN__PATH_SSE2] = CALLS(sse2),
	[WN__PATH_AVX2] = CALLS(avx2),
#endif
};

static bool cpu_can(enum wn__lines_path path)
{
#if WN__HAVE_X86
	if (path == WN__PATH_AVX2)
		/* Every CPU with BMI2 has lzcnt, which clang 14 cannot be asked for. */
		return __builtin_cpu_supports("avx2") && wn__cpu_is_fast();
#endif
	return calls[path][0].query;
}

struct wn__lines_calls wn__lines_calls_of(const struct wn__lines *lines, enum wn__lines_path path)
{
	static const struct wn__lines_calls none;
	unsigned layout = lines->shape.extra_bits ? 2 : wn__lines_are_few(&lines->shape) ? 0 : 1;

	return cpu_can(path) ? calls[path][layout] : none;
}

struct wn__lines_calls wn__lines_calls(const struct wn__lines *lines)
{
	enum wn__lines_path path = WN__PATHS - 1;

	while (path > WN__PATH_PORTABLE && !cpu_can(path))
		path--;
	return wn__lines_calls_of(lines, path);
}
