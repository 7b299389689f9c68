/* run_format.h - the bytes of a run; see doc/formats.md.
 *
 * A run is a row of pages, the first with a header in front. Pages are alike in all
 * stores: those of a sidecar file stand one behind the other, an ordered store keeps
 * each under its number. Offsets, sizes and checksums live here and nowhere else. */
#ifndef WN_RUN_FORMAT_H
#define WN_RUN_FORMAT_H

#include <string.h>

#include <winnow/error.h>

#include "bytes.h"
#include "runs.h"
#include "secret.h"

#define WN__RUN_MAGIC "WNREVRUN"
#define WN__RUN_MAGIC_SIZE 8
#define WN__RUN_VERSION 1

enum {
	WN__RUN_VERSION_AT = 8,
	WN__RUN_HASH_BYTES_AT = 10,
	WN__RUN_REMAINDER_BITS_AT = 11,
	WN__RUN_SECRET_ID_AT = 12,
	WN__RUN_ID_AT = 16,
	WN__RUN_KEY_COUNT_AT = 32,
	WN__RUN_SLOTS_AT = 40,
	WN__RUN_OWNER_AT = 48,
	WN__RUN_DIGEST_AT = 56,
	WN__RUN_HEADER_SIZE = 64,
	WN__RUN_PAGE_SIZE = 4096,
	WN__RUN_SUM_SIZE = 8,
	WN__RUN_MAX_PAGE_HASHES = (WN__RUN_PAGE_SIZE - WN__RUN_SUM_SIZE) / 8
};

/* The header, and what binds the pages to it. */
struct wn__run_header {
	struct wn__run run;
	unsigned hash_bytes;
	uint64_t digest;
};

static inline void wn__run_header_put(unsigned char *at, const struct wn__run *run,
				      unsigned hash_bytes)
{
	memcpy(at, WN__RUN_MAGIC, WN__RUN_MAGIC_SIZE);
	put_le16(at + WN__RUN_VERSION_AT, WN__RUN_VERSION);
	at[WN__RUN_HASH_BYTES_AT] = (unsigned char)hash_bytes;
	at[WN__RUN_REMAINDER_BITS_AT] = (unsigned char)run->remainder_bits;
	put_le32(at + WN__RUN_SECRET_ID_AT, run->secret_id);
	memcpy(at + WN__RUN_ID_AT, run->id, WN_BLOCK_ID_SIZE);
	put_le64(at + WN__RUN_KEY_COUNT_AT, run->key_count);
	put_le64(at + WN__RUN_SLOTS_AT, run->slots);
	put_le64(at + WN__RUN_OWNER_AT, run->owner);
	put_le64(at + WN__RUN_DIGEST_AT, XXH3_64bits(at, WN__RUN_DIGEST_AT));
}

/* WN__RUN_HEADER_SIZE bytes. WN_ERR_CORRUPT or WN_ERR_VERSION unless all is well. */
static inline int wn__run_header_get(const unsigned char *at, struct wn__run_header *headerp)
{
	struct wn__run *run = &headerp->run;

	memset(headerp, 0, sizeof(*headerp));
	if (memcmp(at, WN__RUN_MAGIC, WN__RUN_MAGIC_SIZE) != 0)
		return WN_ERR_CORRUPT;
	if (get_le16(at + WN__RUN_VERSION_AT) != WN__RUN_VERSION)
		return WN_ERR_VERSION;
	headerp->hash_bytes = at[WN__RUN_HASH_BYTES_AT];
	run->remainder_bits = at[WN__RUN_REMAINDER_BITS_AT];
	run->secret_id = get_le32(at + WN__RUN_SECRET_ID_AT);
	memcpy(run->id, at + WN__RUN_ID_AT, WN_BLOCK_ID_SIZE);
	run->key_count = get_le64(at + WN__RUN_KEY_COUNT_AT);
	run->slots = get_le64(at + WN__RUN_SLOTS_AT);
	run->owner = get_le64(at + WN__RUN_OWNER_AT);
	headerp->digest = get_le64(at + WN__RUN_DIGEST_AT);
	if (headerp->digest != XXH3_64bits(at, WN__RUN_DIGEST_AT) || !wn__run_is_valid(run) ||
	    headerp->hash_bytes < 8 || headerp->hash_bytes > 16)
		return WN_ERR_CORRUPT;
	return 0;
}

/* ---- which hash is on which page ---------------------------------------- */

/* Bytes in front of a page's hashes. */
static inline size_t wn__run_page_head(uint64_t page)
{
	return page == 0 ? WN__RUN_HEADER_SIZE : 0;
}

/* Hashes that fit on a page. */
static inline uint64_t wn__run_page_capacity(const struct wn__run_header *header, uint64_t page)
{
	return (WN__RUN_PAGE_SIZE - WN__RUN_SUM_SIZE - wn__run_page_head(page)) /
	       header->hash_bytes;
}

/* The number of a page's first hash. */
static inline uint64_t wn__run_page_first(const struct wn__run_header *header, uint64_t page)
{
	if (page == 0)
		return 0;
	return wn__run_page_capacity(header, 0) + (page - 1) * wn__run_page_capacity(header, 1);
}

/* The page of a hash. */
static inline uint64_t wn__run_page_of(const struct wn__run_header *header, uint64_t index)
{
	uint64_t first = wn__run_page_capacity(header, 0);

	return index < first ? 0 : 1 + (index - first) / wn__run_page_capacity(header, 1);
}

static inline uint64_t wn__run_page_count(const struct wn__run_header *header)
{
	uint64_t count = header->run.key_count;

	return count == 0 ? 1 : wn__run_page_of(header, count - 1) + 1;
}

/* The number of hashes on a page. */
static inline size_t wn__run_page_hashes(const struct wn__run_header *header, uint64_t page)
{
	uint64_t left = header->run.key_count - wn__run_page_first(header, page);
	uint64_t capacity = wn__run_page_capacity(header, page);

	return (size_t)(left < capacity ? left : capacity);
}

/* All pages are of one size; the last one ends with what it holds. */
static inline size_t wn__run_page_size(const struct wn__run_header *header, uint64_t page)
{
	if (page + 1 < wn__run_page_count(header))
		return WN__RUN_PAGE_SIZE;
	return wn__run_page_head(page) + wn__run_page_hashes(header, page) * header->hash_bytes +
	       WN__RUN_SUM_SIZE;
}

static inline uint64_t wn__run_size(const struct wn__run_header *header)
{
	uint64_t last = wn__run_page_count(header) - 1;

	return last * WN__RUN_PAGE_SIZE + wn__run_page_size(header, last);
}

/* ---- a page's bytes ----------------------------------------------------- */

/* A hash's first bytes, the most significant first: any number of them is a prefix. */
static inline struct wn_hash wn__run_hash_get(const unsigned char *at, unsigned hash_bytes)
{
	struct wn_hash hash = {.hi = 0, .lo = 0};

	for (unsigned i = 0; i < 8; i++)
		hash.hi = hash.hi << 8 | at[i];
	for (unsigned i = 8; i < hash_bytes; i++)
		hash.lo |= (uint64_t)at[i] << 8 * (15 - i);
	return hash;
}

static inline void wn__run_hash_put(unsigned char *at, unsigned hash_bytes, struct wn_hash hash)
{
	for (unsigned i = 0; i < 8; i++)
		at[i] = (unsigned char)(hash.hi >> 8 * (7 - i));
	for (unsigned i = 8; i < hash_bytes; i++)
		at[i] = (unsigned char)(hash.lo >> 8 * (15 - i));
}

/* Fits this page of this run only. */
static inline uint64_t wn__run_page_sum(const struct wn__run_header *header, uint64_t page,
					const unsigned char *at, size_t size)
{
	return XXH3_64bits_withSeed(at, size - WN__RUN_SUM_SIZE, header->digest + page);
}

static inline bool wn__run_page_is_whole(const struct wn__run_header *header, uint64_t page,
					 const unsigned char *at)
{
	size_t size = wn__run_page_size(header, page);

	return get_le64(at + size - WN__RUN_SUM_SIZE) ==
	       wn__run_page_sum(header, page, at, size);
}

/* Write a page from the run's hashes; its size is returned. */
static inline size_t wn__run_page_put(unsigned char *at, const struct wn__run_header *header,
				      uint64_t page, const struct wn_hash *hashes)
{
	size_t size = wn__run_page_size(header, page);
	size_t count = wn__run_page_hashes(header, page);
	unsigned char *to = at + wn__run_page_head(page);

	if (page == 0)
		wn__run_header_put(at, &header->run, header->hash_bytes);
	hashes += wn__run_page_first(header, page);
	for (size_t i = 0; i < count; i++, to += header->hash_bytes)
		wn__run_hash_put(to, header->hash_bytes, hashes[i]);
	memset(to, 0, (size_t)(at + size - to));
	put_le64(at + size - WN__RUN_SUM_SIZE, wn__run_page_sum(header, page, at, size));
	return size;
}

#endif /* WN_RUN_FORMAT_H */
