/* small.h - filters of a few dozen to a few thousand keys, with four bytes around them.
 *
 * LevelDB makes a filter for every data block, of 36 keys on average. A kind that can be that
 * small has a small form beside its block: a row of bytes without header, id or checksum.
 *
 *	front      3 bytes: bits 0 to 9 of the secret's id; bits 10 to 19 of it, added bit by bit
 *	           to the filter's size (1,023 if it is more); the kind, 4 bits
 *	size       3 bytes, if the filter has 1,023 bytes or more
 *	...        the kind's own
 *	last byte  128, and seven bits of the kind's own
 *
 * The last byte is more than 30: LevelDB's own filters take such a filter for one of a later
 * version and say "maybe". The front tells a filter under another secret from ours, and one that
 * was cut off from one that is whole: all else is derived from the size, and bits in the wrong
 * places would deny keys. The size field stands in front, too, so that a cut never moves other
 * bytes into its place.
 *
 * The first filter of a table may have a header in front, which makes the table known: what its
 * filters learn is found under the table's id (learn/small_table.h).
 *
 *	front      3 bytes, as above; the kind is 0, the size that of all, and there is no field
 *	id         16 bytes, drawn at random for each table
 *	secret     8 bytes, wn__small_secret_sum()
 *	...        a whole filter
 *
 * Thread safety: bytes that do not change. */
#ifndef WN_KINDS_SMALL_H
#define WN_KINDS_SMALL_H

#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/filter.h>
#include <winnow/hash.h>

#include "base/bits.h"
#include "base/bytes.h"

WN_BEGIN_DECLS

#define WN__SMALL_FRONT 3
#define WN__SMALL_SIZE_FIELD 3
#define WN__SMALL_LONG 1023 /* from this size on a filter has the field */
#define WN__SMALL_SIZE_SHIFT 10 /* bits of the front in front of the size's */
#define WN__SMALL_HEADER 27 /* of a table: front, id, digest */
#define WN__SMALL_LEAST_SIZE 13
#define WN__SMALL_LAST 0x80
#define WN__SMALL_LEVELDB_LAST 30 /* of LevelDB's own filters, at most: the number of probes */
#define WN__SMALL_MAX_KEYS (UINT32_C(1) << 22)
#define WN__SMALL_MAX_SIZE (((size_t)1 << 24) - 1) /* what the size field can hold */
#define WN__SMALL_KINDS 16 /* the kind's id is its number here, too: 1 to 15 */
#define WN__SMALL_SECRET_MASK UINT32_C(0xfffff)

/* A missing key that will be asked for. */
struct wn__small_negative {
	struct wn_hash hash;
	double cost; /* above 0 */
};

struct wn__small_input {
	const struct wn_config *config;
	const struct wn_hash *keys; /* ascending, no two equal */
	uint32_t key_count;         /* 1 to WN__SMALL_MAX_KEYS */
	struct wn__small_negative *negatives; /* in any order, which is changed; may be NULL */
	size_t negative_count;
};

/* Does the filter say "maybe"? `bytes` is a whole filter with front and last byte; it may still be
 * damaged or crafted, and then the answer is "maybe" and no byte outside of it is read. */
typedef bool wn__small_query_fn(const unsigned char *bytes, size_t size, struct wn_hash hash);

struct wn__small_info {
	uint32_t key_count;
	bool counts_keys; /* false: this form does not know how many keys it has */
	double bits_per_key; /* 0: it does not know */
	double expected_fpr;
	unsigned fact_count; /* as in struct wn_filter_info */
	struct wn_filter_fact facts[WN_FILTER_FACTS];
};

/* Where the kind's own begins in a filter of so many bytes, and how many bytes it has. */
static inline size_t wn__small_start(size_t size)
{
	return WN__SMALL_FRONT + (size < WN__SMALL_LONG ? 0 : WN__SMALL_SIZE_FIELD);
}

static inline size_t wn__small_payload(size_t size)
{
	return size - wn__small_start(size) - 1;
}

/* A filter with so many bytes of the kind's own, or some more if there would be too few. */
static inline size_t wn__small_size_around(size_t payload)
{
	size_t size = WN__SMALL_FRONT + payload + 1;

	if (size < WN__SMALL_LEAST_SIZE)
		return WN__SMALL_LEAST_SIZE;
	return size < WN__SMALL_LONG ? size : size + WN__SMALL_SIZE_FIELD;
}

/* A kind's small form. All functions are given whole filters, front and last byte included. */
struct wn__small_form {
	/* Refuse options that make no sense in this form; NULL: all do. Fills `message` with a
	 * sentence. */
	int (*check_config)(const struct wn_config *config, char *message, size_t size);
	/* The bytes that the filter takes with front, size field and last byte, by
	 * wn__small_size_around(). */
	size_t (*size)(const struct wn_config *config, uint32_t key_count);
	/* Fill what is the kind's own (wn__small_start(), wn__small_payload()), which is zeroed;
	 * *lastp becomes its seven bits of the last byte. Without memory negatives are not heeded.
	 * How many of these would be false positives otherwise, and are none. */
	size_t (*build)(const struct wn__small_input *input, unsigned char *bytes, size_t size,
			unsigned *lastp);
	wn__small_query_fn *query;
	wn__small_query_fn *query_fast; /* where wn__cpu_is_fast(); NULL: there is none */
	/* What is in it; false: it is damaged. For tools. */
	bool (*describe)(const unsigned char *bytes, size_t size, struct wn__small_info *infop);
};

/* ---- asking ------------------------------------------------------------- */

enum wn__small_claim {
	WN__SMALL_FOREIGN, /* none of ours: LevelDB's own, most likely */
	/* Ours and cut off, or under another secret, or of an unknown kind; or bytes that are no
	 * filter of LevelDB's either. One in 1,024 of LevelDB's own is taken for one of these. */
	WN__SMALL_DAMAGED,
	WN__SMALL_WHOLE
};

/* What are these bytes to the database with this secret (wn__small_secret_id())? *kindp: of a
 * whole filter; 0: it has a table's header, and a filter behind it. */
enum wn__small_claim wn__small_claims(const unsigned char *bytes, size_t size,
				      uint32_t secret_id, unsigned *kindp);

/* The query functions of all kinds for this CPU, by the kind's id; NULL: no such kind. */
wn__small_query_fn *const *wn__small_queries(void);

/* The query function of a filter that wn__small_claims() would call whole, if it has no table's
 * header: nearly all, in few instructions. NULL: ask wn__small_claims(). */
WN__INLINE wn__small_query_fn *wn__small_quick_query(wn__small_query_fn *const *queries,
						     const unsigned char *bytes, size_t size,
						     uint32_t secret_id)
{
	uint32_t code = (uint32_t)size << WN__SMALL_SIZE_SHIFT, rest;

	if (size < WN__SMALL_LEAST_SIZE || bytes[size - 1] < WN__SMALL_LAST)
		return NULL;
	if (size >= WN__SMALL_LONG) {
		/* Four bytes are there; the size is in the upper three. */
		if (get_le32(bytes + WN__SMALL_FRONT - 1) >> 8 != size)
			return NULL;
		code = WN__SMALL_LONG << WN__SMALL_SIZE_SHIFT;
	}
	rest = (get_le32(bytes) ^ code ^ (secret_id & WN__SMALL_SECRET_MASK)) & 0xffffff;
	return rest & WN__SMALL_SECRET_MASK ? NULL : queries[rest >> 20];
}

/* Does the filter, of the database with this secret, say "maybe"? The long way, for those who ask
 * one filter now and then: what is not whole says so, too. */
bool wn__small_ask(const unsigned char *bytes, size_t size, uint32_t secret_id,
		   struct wn_hash hash);

/* For tools: the kind that the front names, whoever's filter it is, or 0 for a table's header; and
 * the secret's id that it names, if it was not cut off. Of WN__SMALL_LEAST_SIZE bytes or more. */
unsigned wn__small_kind(const unsigned char *bytes);
uint32_t wn__small_named_secret(const unsigned char *bytes, size_t size);

struct wn__small_header {
	unsigned char id[WN_BLOCK_ID_SIZE];
	uint64_t secret_sum; /* wn__small_secret_sum() */
};

/* The header of a table's first filter. False: it has none, or was cut off. */
bool wn__small_get_header(const unsigned char *bytes, size_t size, uint32_t secret_id,
			  struct wn__small_header *headerp);

/* ---- building ----------------------------------------------------------- */

/* Put hashes in order, each once; how many are left. 0: no memory. */
size_t wn__small_sort(struct wn_hash *hashes, size_t count);

/* A filter; `header`, which may be NULL, goes in front. *bytesp is malloc()ed. *deniedp: what
 * the form's build() returned. WN_ERR_INVALID: the config's kind has no small form, or too many
 * keys; ENOMEM. */
int wn__small_build(const struct wn__small_input *input, uint32_t secret_id,
		    const struct wn__small_header *header, unsigned char **bytesp, size_t *sizep,
		    size_t *deniedp);

/* Has the config's kind a small form, and does it take these options? WN_ERR_OPTION, with a
 * sentence in `message`. */
int wn__small_check_config(const struct wn_config *config, char *message, size_t size);

/* The short id of a secret, 20 bits, from its 32 bytes. */
uint32_t wn__small_secret_id(const struct wn_secret *secret);
/* A digest of the secret and, where keys are changed before they are hashed, of that. */
uint64_t wn__small_secret_sum(const struct wn_secret *secret, bool canonical);

WN_END_DECLS

#endif /* WN_KINDS_SMALL_H */
