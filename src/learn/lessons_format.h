/* lessons_format.h - the bytes of saved lessons; see doc/formats.md. */
#ifndef WN_LEARN_LESSONS_FORMAT_H
#define WN_LEARN_LESSONS_FORMAT_H

#include <string.h>

#include <winnow/block.h>

#include "base/bytes.h"
#include "base/secret.h"

/* ---- one filter's record ------------------------------------------------ */

#define WN__RECORD_MAGIC "WNLESSON"
#define WN__RECORD_VERSION 3
#define WN__RECORD_DISTRUSTED 1u /* the one flag */

enum {
	WN__RECORD_VERSION_AT = 8,
	WN__RECORD_FLAGS_AT = 12,
	WN__RECORD_ID_AT = 16,
	WN__RECORD_SLOTS_AT = 32,
	WN__RECORD_REMAINDER_BITS_AT = 40,
	WN__RECORD_RESERVED_AT = 44,
	WN__RECORD_COUNT_AT = 48,
	WN__RECORD_LESSONS_AT = 56,
	WN__RECORD_LESSON_SIZE = 16,
	WN__RECORD_MIN_SIZE = WN__RECORD_LESSONS_AT + 8
};

static inline size_t wn__record_size(uint64_t count)
{
	return WN__RECORD_MIN_SIZE + (size_t)count * WN__RECORD_LESSON_SIZE;
}

static inline bool wn__record_has_magic(const unsigned char *record)
{
	return memcmp(record, WN__RECORD_MAGIC, 8) == 0;
}

static inline uint32_t wn__record_version(const unsigned char *record)
{
	return get_le32(record + WN__RECORD_VERSION_AT);
}

static inline uint32_t wn__record_flags(const unsigned char *record)
{
	return get_le32(record + WN__RECORD_FLAGS_AT);
}

static inline const unsigned char *wn__record_id(const unsigned char *record)
{
	return record + WN__RECORD_ID_AT;
}

static inline uint64_t wn__record_slots(const unsigned char *record)
{
	return get_le64(record + WN__RECORD_SLOTS_AT);
}

static inline uint32_t wn__record_remainder_bits(const unsigned char *record)
{
	return get_le32(record + WN__RECORD_REMAINDER_BITS_AT);
}

static inline uint32_t wn__record_reserved(const unsigned char *record)
{
	return get_le32(record + WN__RECORD_RESERVED_AT);
}

static inline uint64_t wn__record_count(const unsigned char *record)
{
	return get_le64(record + WN__RECORD_COUNT_AT);
}

static inline void wn__record_get_lesson(const unsigned char *record, uint64_t index,
					 uint64_t *minirunp, uint64_t *wordp)
{
	const unsigned char *at =
		record + WN__RECORD_LESSONS_AT + (size_t)index * WN__RECORD_LESSON_SIZE;

	*minirunp = get_le64(at);
	*wordp = get_le64(at + 8);
}

static inline void wn__record_set_lesson(unsigned char *record, uint64_t index, uint64_t minirun,
					 uint64_t word)
{
	unsigned char *at = record + WN__RECORD_LESSONS_AT + (size_t)index * WN__RECORD_LESSON_SIZE;

	put_le64(at, minirun);
	put_le64(at + 8, word);
}

/* All but the lessons and the sum. */
static inline void wn__record_write_head(unsigned char *record, uint32_t flags,
					 const unsigned char *id, uint64_t slots,
					 uint32_t remainder_bits, uint64_t count)
{
	memcpy(record, WN__RECORD_MAGIC, 8);
	put_le32(record + WN__RECORD_VERSION_AT, WN__RECORD_VERSION);
	put_le32(record + WN__RECORD_FLAGS_AT, flags);
	memcpy(record + WN__RECORD_ID_AT, id, WN_BLOCK_ID_SIZE);
	put_le64(record + WN__RECORD_SLOTS_AT, slots);
	put_le32(record + WN__RECORD_REMAINDER_BITS_AT, remainder_bits);
	put_le32(record + WN__RECORD_RESERVED_AT, 0);
	put_le64(record + WN__RECORD_COUNT_AT, count);
}

/* ---- all records in one piece ------------------------------------------- */

#define WN__RECORDS_MAGIC "WNLEARND"
#define WN__RECORDS_VERSION 1

enum {
	WN__RECORDS_VERSION_AT = 8,
	WN__RECORDS_RESERVED_AT = 12,
	WN__RECORDS_COUNT_AT = 16,
	WN__RECORDS_SIZE_AT = 24,
	WN__RECORDS_AT = 32,
	WN__RECORDS_MIN_SIZE = WN__RECORDS_AT + 8
};

static inline bool wn__records_have_magic(const unsigned char *records)
{
	return memcmp(records, WN__RECORDS_MAGIC, 8) == 0;
}

static inline uint32_t wn__records_version(const unsigned char *records)
{
	return get_le32(records + WN__RECORDS_VERSION_AT);
}

static inline uint32_t wn__records_reserved(const unsigned char *records)
{
	return get_le32(records + WN__RECORDS_RESERVED_AT);
}

static inline uint64_t wn__records_count(const unsigned char *records)
{
	return get_le64(records + WN__RECORDS_COUNT_AT);
}

static inline uint64_t wn__records_size(const unsigned char *records)
{
	return get_le64(records + WN__RECORDS_SIZE_AT);
}

static inline void wn__records_write_head(unsigned char *records, uint64_t count, uint64_t size)
{
	memcpy(records, WN__RECORDS_MAGIC, 8);
	put_le32(records + WN__RECORDS_VERSION_AT, WN__RECORDS_VERSION);
	put_le32(records + WN__RECORDS_RESERVED_AT, 0);
	put_le64(records + WN__RECORDS_COUNT_AT, count);
	put_le64(records + WN__RECORDS_SIZE_AT, size);
}

/* ---- the sum at the end of either --------------------------------------- */

static inline void wn__record_seal(unsigned char *bytes, size_t size)
{
	put_le64(bytes + size - 8, XXH3_64bits(bytes, size - 8));
}

static inline bool wn__record_is_whole(const unsigned char *bytes, size_t size)
{
	return get_le64(bytes + size - 8) == XXH3_64bits(bytes, size - 8);
}

#endif /* WN_LEARN_LESSONS_FORMAT_H */
