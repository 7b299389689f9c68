/* list_format.h - the bytes of a key list; see doc/formats.md.
 *
 * A key list is a row of pages, the first with a header in front. Pages are alike in all
 * stores: those of a sidecar file stand one behind the other, an ordered store keeps
 * each under its number. Offsets, sizes and checksums live here and nowhere else. */
#ifndef WN_REVERSEMAP_LIST_FORMAT_H
#define WN_REVERSEMAP_LIST_FORMAT_H

#include <string.h>

#include <winnow/error.h>

#include "base/bytes.h"
#include "map.h"
#include "base/secret.h"

#define WN__KEYLIST_MAGIC "WNREVRUN"
#define WN__KEYLIST_MAGIC_SIZE 8
#define WN__KEYLIST_VERSION 2

enum {
	WN__KEYLIST_VERSION_AT = 8,
	WN__KEYLIST_HASH_BYTES_AT = 10,
	WN__KEYLIST_REMAINDER_BITS_AT = 11,
	WN__KEYLIST_SECRET_ID_AT = 12,
	WN__KEYLIST_ID_AT = 16,
	WN__KEYLIST_KEY_COUNT_AT = 32,
	WN__KEYLIST_SLOTS_AT = 40,
	WN__KEYLIST_OWNER_AT = 48,
	WN__KEYLIST_DIGEST_AT = 56,
	WN__KEYLIST_HEADER_SIZE = 64,
	WN__KEYLIST_PAGE_SIZE = 4096,
	WN__KEYLIST_SUM_SIZE = 8,
	WN__KEYLIST_HASH_BYTES = 8, /* of each hash */
	WN__KEYLIST_MAX_PAGE_HASHES = (WN__KEYLIST_PAGE_SIZE - WN__KEYLIST_SUM_SIZE) / 8
};

/* The header, and what binds the pages to it. */
struct wn__keylist_header {
	struct wn__keylist list;
	uint64_t digest;
};

static inline void wn__keylist_header_put(unsigned char *at, const struct wn__keylist *list)
{
	memcpy(at, WN__KEYLIST_MAGIC, WN__KEYLIST_MAGIC_SIZE);
	put_le16(at + WN__KEYLIST_VERSION_AT, WN__KEYLIST_VERSION);
	at[WN__KEYLIST_HASH_BYTES_AT] = WN__KEYLIST_HASH_BYTES;
	at[WN__KEYLIST_REMAINDER_BITS_AT] = (unsigned char)list->remainder_bits;
	put_le32(at + WN__KEYLIST_SECRET_ID_AT, list->secret_id);
	memcpy(at + WN__KEYLIST_ID_AT, list->id, WN_BLOCK_ID_SIZE);
	put_le64(at + WN__KEYLIST_KEY_COUNT_AT, list->key_count);
	put_le64(at + WN__KEYLIST_SLOTS_AT, list->slots);
	put_le64(at + WN__KEYLIST_OWNER_AT, list->owner);
	put_le64(at + WN__KEYLIST_DIGEST_AT, XXH3_64bits(at, WN__KEYLIST_DIGEST_AT));
}

/* WN__KEYLIST_HEADER_SIZE bytes. WN_ERR_CORRUPT or WN_ERR_VERSION unless all is well. */
static inline int wn__keylist_header_get(const unsigned char *at,
					 struct wn__keylist_header *headerp)
{
	struct wn__keylist *list = &headerp->list;

	memset(headerp, 0, sizeof(*headerp));
	if (memcmp(at, WN__KEYLIST_MAGIC, WN__KEYLIST_MAGIC_SIZE) != 0)
		return WN_ERR_CORRUPT;
	if (get_le16(at + WN__KEYLIST_VERSION_AT) != WN__KEYLIST_VERSION)
		return WN_ERR_VERSION;
	list->remainder_bits = at[WN__KEYLIST_REMAINDER_BITS_AT];
	list->secret_id = get_le32(at + WN__KEYLIST_SECRET_ID_AT);
	memcpy(list->id, at + WN__KEYLIST_ID_AT, WN_BLOCK_ID_SIZE);
	list->key_count = get_le64(at + WN__KEYLIST_KEY_COUNT_AT);
	list->slots = get_le64(at + WN__KEYLIST_SLOTS_AT);
	list->owner = get_le64(at + WN__KEYLIST_OWNER_AT);
	headerp->digest = get_le64(at + WN__KEYLIST_DIGEST_AT);
	if (headerp->digest != XXH3_64bits(at, WN__KEYLIST_DIGEST_AT) ||
	    !wn__keylist_is_valid(list) ||
	    at[WN__KEYLIST_HASH_BYTES_AT] != WN__KEYLIST_HASH_BYTES)
		return WN_ERR_CORRUPT;
	return 0;
}

/* ---- which hash is on which page ---------------------------------------- */

/* Bytes in front of a page's hashes. */
static inline size_t wn__keylist_page_head(uint64_t page)
{
	return page == 0 ? WN__KEYLIST_HEADER_SIZE : 0;
}

/* Hashes that fit on a page. */
static inline uint64_t wn__keylist_page_capacity(uint64_t page)
{
	return (WN__KEYLIST_PAGE_SIZE - WN__KEYLIST_SUM_SIZE - wn__keylist_page_head(page)) /
	       WN__KEYLIST_HASH_BYTES;
}

/* The number of a page's first hash. */
static inline uint64_t wn__keylist_page_first(uint64_t page)
{
	if (page == 0)
		return 0;
	return wn__keylist_page_capacity(0) +
	       (page - 1) * wn__keylist_page_capacity(1);
}

/* The page of a hash. */
static inline uint64_t wn__keylist_page_of(uint64_t index)
{
	uint64_t first = wn__keylist_page_capacity(0);

	return index < first ? 0 : 1 + (index - first) / wn__keylist_page_capacity(1);
}

static inline uint64_t wn__keylist_page_count(const struct wn__keylist_header *header)
{
	uint64_t count = header->list.key_count;

	return count == 0 ? 1 : wn__keylist_page_of(count - 1) + 1;
}

/* The number of hashes on a page. */
static inline size_t wn__keylist_page_hashes(const struct wn__keylist_header *header, uint64_t page)
{
	uint64_t left = header->list.key_count - wn__keylist_page_first(page);
	uint64_t capacity = wn__keylist_page_capacity(page);

	return (size_t)(left < capacity ? left : capacity);
}

/* All pages are of one size; the last one ends with what it holds. */
static inline size_t wn__keylist_page_size(const struct wn__keylist_header *header, uint64_t page)
{
	if (page + 1 < wn__keylist_page_count(header))
		return WN__KEYLIST_PAGE_SIZE;
	return wn__keylist_page_head(page) +
	       wn__keylist_page_hashes(header, page) * WN__KEYLIST_HASH_BYTES +
	       WN__KEYLIST_SUM_SIZE;
}

static inline uint64_t wn__keylist_size(const struct wn__keylist_header *header)
{
	uint64_t last = wn__keylist_page_count(header) - 1;

	return last * WN__KEYLIST_PAGE_SIZE + wn__keylist_page_size(header, last);
}

/* ---- a page's bytes ----------------------------------------------------- */

/* The upper half of a hash, the most significant byte first. */
static inline uint64_t wn__keylist_upper_get(const unsigned char *at)
{
	return __builtin_bswap64(get_le64(at));
}

static inline void wn__keylist_upper_put(unsigned char *at, uint64_t upper)
{
	put_le64(at, __builtin_bswap64(upper));
}

/* Fits this page of this key list only. */
static inline uint64_t wn__keylist_page_sum(const struct wn__keylist_header *header, uint64_t page,
					const unsigned char *at, size_t size)
{
	return XXH3_64bits_withSeed(at, size - WN__KEYLIST_SUM_SIZE, header->digest + page);
}

static inline bool wn__keylist_page_is_whole(const struct wn__keylist_header *header, uint64_t page,
					 const unsigned char *at)
{
	size_t size = wn__keylist_page_size(header, page);

	return get_le64(at + size - WN__KEYLIST_SUM_SIZE) ==
	       wn__keylist_page_sum(header, page, at, size);
}

/* Write a page from the key list's upper halves; its size is returned. */
static inline size_t wn__keylist_page_put(unsigned char *at,
					  const struct wn__keylist_header *header, uint64_t page,
					  const uint64_t *uppers)
{
	size_t size = wn__keylist_page_size(header, page);
	size_t count = wn__keylist_page_hashes(header, page);
	unsigned char *to = at + wn__keylist_page_head(page);

	if (page == 0)
		wn__keylist_header_put(at, &header->list);
	uppers += wn__keylist_page_first(page);
	for (size_t i = 0; i < count; i++, to += WN__KEYLIST_HASH_BYTES)
		wn__keylist_upper_put(to, uppers[i]);
	memset(to, 0, (size_t)(at + size - to));
	put_le64(at + size - WN__KEYLIST_SUM_SIZE, wn__keylist_page_sum(header, page, at, size));
	return size;
}

#endif /* WN_REVERSEMAP_LIST_FORMAT_H */
