/* lines_search.h - asking one line; written once, and compiled for each kind of CPU.
 *
 * The bodies take what is constant for a filter or a CPU as arguments that are constant where
 * they are inlined. */
#ifndef WN_KINDS_AQF_LINES_SEARCH_H
#define WN_KINDS_AQF_LINES_SEARCH_H

#include "lines.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define WN__HAVE_X86 1
#define WN__TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#else
#define WN__HAVE_X86 0
#define WN__TARGET_AVX2
#endif

/* What a filter's functions are compiled for. */
struct wn__way {
	enum wn__lines_path path;
	bool few;   /* wn__lines_are_few() */
	bool extra; /* there are extra bits */
};

/* Where a hash leads: the line, and what to look for in it. */
struct wn__target {
	const unsigned char *line; /* NULL: an odd span */
	uint64_t first_byte;       /* the quotient, and the remainder's first 8 bits */
};

/* wn__scale() without the moves to and from the registers that mul is bound to. */
WN__INLINE uint64_t wn__scale_by(uint64_t upper, const uint64_t *factor, bool fast)
{
#if WN__HAVE_X86
	if (fast) {
		uint64_t low, high;

		__asm__("mulxq %3, %0, %1" : "=r"(low), "=r"(high) : "d"(upper), "m"(*factor));
		return high;
	}
#endif
	(void)fast;
	return wn__scale(upper, *factor);
}

WN__INLINE struct wn__target wn__lines_target_of(const struct wn__lines *lines, uint64_t upper,
						 uint64_t step, bool fast)
{
	int64_t entry = (signed char)lines->directory[step >> 6];
	struct wn__target target = {NULL, wn__scale_by(upper, &lines->first_bytes, fast)};

	if (WN__LIKELY(entry != WN__ODD)) {
		target.line = lines->directory + ((entry - (int64_t)step) & ~INT64_C(63));
		/* Or it is compared with NULL once more. */
		if (!target.line)
			__builtin_unreachable();
	}
	return target;
}

WN__INLINE struct wn__target wn__lines_target(const struct wn__lines *lines, uint64_t upper,
					      bool fast)
{
	return wn__lines_target_of(lines, upper, wn__scale_by(upper, &lines->steps, fast), fast);
}

/* ---- bytes that are equal ----------------------------------------------- */

/* Which bytes of a word are equal to those of another: the highest bit of each. */
WN__INLINE uint64_t wn__equal_bytes(uint64_t word, uint64_t other)
{
	uint64_t differ = word ^ other, low = UINT64_C(0x7f7f7f7f7f7f7f7f);

	return ~(((differ & low) + low) | differ | low);
}

/* Bit i of the result is byte i's highest bit. */
WN__INLINE uint64_t wn__gather_tops(uint64_t tops)
{
	return (tops >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

WN__INLINE uint64_t wn__mask_portable(const unsigned char *line, uint64_t byte, bool few)
{
	uint64_t wanted = (byte & 0xff) * UINT64_C(0x0101010101010101);
	uint64_t any = 0, mask = 0;

	for (unsigned word = few ? 2 : 1; word < 8; word++)
		any |= wn__equal_bytes(get_le64(line + 8 * word), wanted);
	if (WN__LIKELY(!any))
		return 0;
	for (unsigned word = few ? 2 : 1; word < 8; word++)
		mask |= wn__gather_tops(wn__equal_bytes(get_le64(line + 8 * word), wanted))
			<< 8 * word;
	return mask;
}

#if WN__HAVE_X86
WN__INLINE uint64_t wn__mask_sse2(const unsigned char *line, uint64_t byte, bool few)
{
	const __m128i wanted = _mm_set1_epi8((char)byte);
	const unsigned first = few ? 16 : 8;
	__m128i equal[4];
	uint64_t mask = 0;

#pragma GCC unroll 4
	for (unsigned i = few; i < 4; i++) {
		unsigned at = i ? 16 * i : first;

		equal[i] = _mm_cmpeq_epi8(
			_mm_loadu_si128((const __m128i *)(const void *)(line + at)), wanted);
		mask |= (uint64_t)(unsigned)_mm_movemask_epi8(equal[i]) << at;
	}
	return mask;
}

/* A function of its own: intrinsics need the target of those they are inlined into. */
WN__TARGET_AVX2 static inline __attribute__((always_inline)) uint64_t
wn__mask_avx2(const unsigned char *line, uint64_t byte, bool few)
{
	const unsigned first = few ? 16 : 8;
	__m256i wanted = _mm256_broadcastb_epi8(_mm_cvtsi32_si128((int)byte));
	__m256i low = _mm256_cmpeq_epi8(
		_mm256_loadu_si256((const __m256i *)(const void *)(line + first)), wanted);
	__m256i high = _mm256_cmpeq_epi8(
		_mm256_loadu_si256((const __m256i *)(const void *)(line + 32)), wanted);
	__m256i any = _mm256_or_si256(low, high);

	if (WN__LIKELY(_mm256_testz_si256(any, any)))
		return 0;
	return (uint64_t)(unsigned)_mm256_movemask_epi8(low) << first |
	       (uint64_t)(unsigned)_mm256_movemask_epi8(high) << 32;
}
#endif

/* Bytes of groups of 8 + e brought together: bit 63 - i of the result is item i. */
WN__INLINE uint64_t wn__pack_items(uint64_t mask, unsigned extra_bits)
{
	uint64_t packed = 0;

	for (unsigned group = 0; group * (8 + extra_bits) + extra_bits < 64; group++) {
		uint64_t from_top = mask << (group * (8 + extra_bits) + extra_bits);

		packed |= from_top >> 56 << (56 - 8 * group);
	}
	return packed;
}

/* ---- the row ------------------------------------------------------------ */

struct wn__run {
	unsigned first;  /* number of the run's first item in the line */
	unsigned length;
};

/* The word that has zero number `index` of a row's three, and how many zeros and words are before
 * it. */
struct wn__row_word {
	uint64_t zeros, before, words;
};

/* Which of the words it is is as good as random, and the compiler would branch on it: here are the
 * conditional moves. */
WN__INLINE struct wn__row_word wn__row_word_of(const uint64_t *zeros, uint64_t index, bool fast)
{
	uint64_t count0 = wn__count_bits(zeros[0], fast);
	uint64_t both = count0 + wn__count_bits(zeros[1], fast);
	struct wn__row_word word = {zeros[0], 0, 0};
	uint64_t beyond0, beyond1;

#if WN__HAVE_X86
	if (fast) {
		__asm__("cmpq %[count], %[index]\n\t"
			"cmovaeq %[zeros1], %[zeros]\n\t"
			"cmovaeq %[count], %[before]\n\t"
			"sbbq $-1, %[words]\n\t"
			"cmpq %[both], %[index]\n\t"
			"cmovaeq %[zeros2], %[zeros]\n\t"
			"cmovaeq %[both], %[before]\n\t"
			"sbbq $-1, %[words]"
			: [zeros] "+&r"(word.zeros), [before] "+&r"(word.before),
			  [words] "+&r"(word.words)
			: [index] "r"(index), [count] "r"(count0), [both] "r"(both),
			  [zeros1] "r"(zeros[1]), [zeros2] "r"(zeros[2])
			: "cc");
		return word;
	}
#endif
	(void)fast;
	beyond0 = -(uint64_t)(index >= count0);
	beyond1 = -(uint64_t)(index >= both);
	/* The compiler must not know that they are all ones or 0. */
	__asm__("" : "+r"(beyond0), "+r"(beyond1));
	word.zeros = (zeros[0] & ~beyond0) | (zeros[1] & (beyond0 ^ beyond1)) |
		     (zeros[2] & beyond1);
	word.before = (count0 & beyond0) + ((both - count0) & beyond1);
	word.words = 0 - beyond0 - beyond1;
	return word;
}

/* The run of quotient number v of a line. Bit 7 stands for the zero in front of the first. */
WN__INLINE struct wn__run wn__line_run(const unsigned char *line, unsigned v, bool fast)
{
	const uint64_t zeros[3] = {~(get_le64(line) | 0xff) | 0x80, ~get_le64(line + 8),
				   ~get_le64(line + 16)};
	struct wn__row_word word = wn__row_word_of(zeros, v, fast);
	unsigned start = 64 * (unsigned)word.words + 1 +
			 wn__select(word.zeros, (unsigned)(v - word.before) & 63, fast);
	uint64_t ones = get_le64(line + (start >> 3)) >> (start & 7);

	return (struct wn__run){
		.first = (start - WN__ROW_START - v) & 63,
		.length = wn__lowest_bit(~ones, fast),
	};
}

/* The lower bits of an item's remainder. */
WN__INLINE unsigned wn__item_extra(const unsigned char *line, unsigned item, unsigned extra_bits)
{
	unsigned group = item >> 3;
	uint64_t bits = get_le64(line + 56 - group * (8 + extra_bits)) >> (64 - 8 * extra_bits);

	return (unsigned)(bits >> ((item & 7) * extra_bits)) & ((1u << extra_bits) - 1);
}

/* The lower bits of a hash's remainder. */
WN__INLINE unsigned wn__wanted_extra(const struct wn__lines *lines, uint64_t upper)
{
	return (unsigned)(upper * lines->first_bytes >> (64 - lines->extra_bits));
}

#endif /* WN_KINDS_AQF_LINES_SEARCH_H */
