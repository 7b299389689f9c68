/* packs_format.h - the bytes of a pack (doc/formats.md). */
#ifndef WN_REVERSEMAP_PACKS_FORMAT_H
#define WN_REVERSEMAP_PACKS_FORMAT_H

#include "base/bytes.h"
#include "base/secret.h"
#include "kinds/aqf/aqf_small.h"

#define WN__PACK_MAGIC "WNPACK\r\n"
#define WN__PACK_VERSION 1

/* Offsets in the header. */
enum {
	WN__PACK_VERSION_AT = 8,
	WN__PACK_FILTERS_AT = 12,
	WN__PACK_KEYS_AT = 16,
	WN__PACK_TABLE_AT = 24,
	WN__PACK_SECRET_AT = 32,
	WN__PACK_INDEX_SUM_AT = 40,
	WN__PACK_HEADER_SUM_AT = 48,
	WN__PACK_HEADER_SIZE = 56
};

/* One for each filter, behind the header. */
enum {
	WN__PACK_ENTRY_ID_AT = 0,
	WN__PACK_ENTRY_DIGEST_AT = 16,
	WN__PACK_ENTRY_FIRST_AT = 32,
	WN__PACK_ENTRY_COUNT_AT = 36,
	WN__PACK_ENTRY_SUM_AT = 40,
	WN__PACK_ENTRY_SIZE = 48
};

#define WN__PACK_RECORD_SIZE 8

struct wn__pack_header {
	uint32_t filters;
	uint64_t keys, table, secret_sum, index_sum;
};

struct wn__pack_entry {
	struct wn__small_id id, digest;
	uint32_t first, count;
	uint64_t sum; /* of id and records */
};

static inline void wn__pack_put_header(unsigned char *bytes, const struct wn__pack_header *header)
{
	memcpy(bytes, WN__PACK_MAGIC, 8);
	put_le32(bytes + WN__PACK_VERSION_AT, WN__PACK_VERSION);
	put_le32(bytes + WN__PACK_FILTERS_AT, header->filters);
	put_le64(bytes + WN__PACK_KEYS_AT, header->keys);
	put_le64(bytes + WN__PACK_TABLE_AT, header->table);
	put_le64(bytes + WN__PACK_SECRET_AT, header->secret_sum);
	put_le64(bytes + WN__PACK_INDEX_SUM_AT, header->index_sum);
	put_le64(bytes + WN__PACK_HEADER_SUM_AT, XXH3_64bits(bytes, WN__PACK_HEADER_SUM_AT));
}

static inline bool wn__pack_get_header(const unsigned char *bytes, struct wn__pack_header *headerp)
{
	headerp->filters = get_le32(bytes + WN__PACK_FILTERS_AT);
	headerp->keys = get_le64(bytes + WN__PACK_KEYS_AT);
	headerp->table = get_le64(bytes + WN__PACK_TABLE_AT);
	headerp->secret_sum = get_le64(bytes + WN__PACK_SECRET_AT);
	headerp->index_sum = get_le64(bytes + WN__PACK_INDEX_SUM_AT);
	return memcmp(bytes, WN__PACK_MAGIC, 8) == 0 &&
	       get_le32(bytes + WN__PACK_VERSION_AT) == WN__PACK_VERSION &&
	       get_le64(bytes + WN__PACK_HEADER_SUM_AT) ==
		       XXH3_64bits(bytes, WN__PACK_HEADER_SUM_AT);
}

static inline uint64_t wn__pack_records_at(uint32_t filters)
{
	return WN__PACK_HEADER_SIZE + (uint64_t)filters * WN__PACK_ENTRY_SIZE;
}

static inline void wn__pack_put_id(unsigned char *bytes, struct wn__small_id id)
{
	put_le64(bytes, id.lo);
	put_le64(bytes + 8, id.hi);
}

static inline struct wn__small_id wn__pack_get_id(const unsigned char *bytes)
{
	return (struct wn__small_id){get_le64(bytes), get_le64(bytes + 8)};
}

static inline void wn__pack_put_entry(unsigned char *bytes, const struct wn__pack_entry *entry)
{
	wn__pack_put_id(bytes + WN__PACK_ENTRY_ID_AT, entry->id);
	wn__pack_put_id(bytes + WN__PACK_ENTRY_DIGEST_AT, entry->digest);
	put_le32(bytes + WN__PACK_ENTRY_FIRST_AT, entry->first);
	put_le32(bytes + WN__PACK_ENTRY_COUNT_AT, entry->count);
	put_le64(bytes + WN__PACK_ENTRY_SUM_AT, entry->sum);
}

static inline struct wn__pack_entry wn__pack_get_entry(const unsigned char *bytes)
{
	return (struct wn__pack_entry){
		.id = wn__pack_get_id(bytes + WN__PACK_ENTRY_ID_AT),
		.digest = wn__pack_get_id(bytes + WN__PACK_ENTRY_DIGEST_AT),
		.first = get_le32(bytes + WN__PACK_ENTRY_FIRST_AT),
		.count = get_le32(bytes + WN__PACK_ENTRY_COUNT_AT),
		.sum = get_le64(bytes + WN__PACK_ENTRY_SUM_AT),
	};
}

/* Over the records as they lie in the file; the id is part of it. */
static inline uint64_t wn__pack_sum(struct wn__small_id id, const unsigned char *records,
				    uint32_t count)
{
	return XXH3_64bits_withSeed(records, (size_t)count * WN__PACK_RECORD_SIZE,
				    id.lo ^ (id.hi << 1 | id.hi >> 63));
}

#endif /* WN_REVERSEMAP_PACKS_FORMAT_H */
