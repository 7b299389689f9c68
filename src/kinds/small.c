/* small.c - the frame of small filters; see small.h. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/bytes.h"
#include "base/secret.h"
#include "base/sort.h"
#include "kind.h"
#include "small.h"

/* Bits of the secret's id that have no size in them. */
#define PLAIN_MASK ((UINT32_C(1) << WN__SMALL_SIZE_SHIFT) - 1)
#define KIND_SHIFT 20

enum { ID_AT = WN__SMALL_FRONT, SUM_AT = ID_AT + WN_BLOCK_ID_SIZE };

static uint32_t get_le24(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
}

static void put_le24(unsigned char *bytes, uint32_t value)
{
	bytes[0] = (unsigned char)value;
	bytes[1] = (unsigned char)(value >> 8);
	bytes[2] = (unsigned char)(value >> 16);
}

static uint32_t size_code(size_t size)
{
	return (uint32_t)(size < WN__SMALL_LONG ? size : WN__SMALL_LONG)
	       << WN__SMALL_SIZE_SHIFT;
}

static uint32_t make_front(unsigned kind, size_t size, uint32_t secret_id)
{
	return kind << KIND_SHIFT | ((secret_id & WN__SMALL_SECRET_MASK) ^ size_code(size));
}

/* ---- the kinds ---------------------------------------------------------- */

/* Bit k: kind k has a small form. 0 before it was looked up; this is on the path of every lookup,
 * and whoever looks it up finds the same. */
static _Atomic uint32_t known_kinds;

static uint32_t find_kinds(void)
{
	uint32_t known = UINT32_C(1) << 31;
	const struct wn__kind *kind;

	for (size_t i = 0; (kind = wn__kind_at(i)); i++)
		if (kind->small && kind->id < WN__SMALL_KINDS)
			known |= UINT32_C(1) << kind->id;
	atomic_store_explicit(&known_kinds, known, memory_order_relaxed);
	return known;
}

static bool is_known(unsigned kind)
{
	uint32_t known = atomic_load_explicit(&known_kinds, memory_order_relaxed);

	if (WN__UNLIKELY(known == 0))
		known = find_kinds();
	return known >> kind & 1;
}

static wn__small_query_fn *queries[WN__SMALL_KINDS];

static void fill_queries(void)
{
	bool fast = wn__cpu_is_fast();
	const struct wn__kind *kind;

	for (size_t i = 0; (kind = wn__kind_at(i)); i++)
		if (kind->small && kind->id < WN__SMALL_KINDS)
			queries[kind->id] = fast && kind->small->query_fast
						    ? kind->small->query_fast
						    : kind->small->query;
}

wn__small_query_fn *const *wn__small_queries(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_queries);
	return queries;
}

/* ---- asking ------------------------------------------------------------- */

/* Does the front fit, and the size, of a filter without a header? */
static bool is_filter(const unsigned char *bytes, size_t size, uint32_t secret_id)
{
	uint32_t front = get_le24(bytes);
	unsigned kind = front >> KIND_SHIFT;

	return front == make_front(kind, size, secret_id) && is_known(kind) &&
	       bytes[size - 1] >= WN__SMALL_LAST && size <= WN__SMALL_MAX_SIZE &&
	       (size < WN__SMALL_LONG || get_le24(bytes + WN__SMALL_FRONT) == size);
}

/* The size of a large one is in the filter behind the header. */
static bool is_header(const unsigned char *bytes, size_t size, uint32_t secret_id)
{
	return size >= WN__SMALL_HEADER + WN__SMALL_LEAST_SIZE &&
	       get_le24(bytes) == make_front(0, size, secret_id) &&
	       is_filter(bytes + WN__SMALL_HEADER, size - WN__SMALL_HEADER, secret_id);
}

enum wn__small_claim wn__small_claims(const unsigned char *bytes, size_t size, uint32_t secret_id,
				      unsigned *kindp)
{
	*kindp = 0;
	if (WN__UNLIKELY(size < WN__SMALL_LEAST_SIZE))
		return WN__SMALL_DAMAGED;
	if (WN__LIKELY(is_filter(bytes, size, secret_id))) {
		*kindp = wn__small_kind(bytes);
		return WN__SMALL_WHOLE;
	}
	if (is_header(bytes, size, secret_id))
		return WN__SMALL_WHOLE;
	/* Our own are never foreign, cut where they may be, of whatever kind. */
	if (((get_le24(bytes) ^ secret_id) & PLAIN_MASK) == 0 ||
	    bytes[size - 1] > WN__SMALL_LEVELDB_LAST)
		return WN__SMALL_DAMAGED;
	return WN__SMALL_FOREIGN;
}

bool wn__small_ask(const unsigned char *bytes, size_t size, uint32_t secret_id,
		   struct wn_hash hash)
{
	unsigned kind;

	if (wn__small_claims(bytes, size, secret_id, &kind) != WN__SMALL_WHOLE)
		return true;
	if (kind == 0)
		return wn__small_ask(bytes + WN__SMALL_HEADER, size - WN__SMALL_HEADER, secret_id,
				     hash);
	return wn__small_queries()[kind](bytes, size, hash);
}

unsigned wn__small_kind(const unsigned char *bytes)
{
	return get_le24(bytes) >> KIND_SHIFT;
}

uint32_t wn__small_named_secret(const unsigned char *bytes, size_t size)
{
	return (get_le24(bytes) ^ size_code(size)) & WN__SMALL_SECRET_MASK;
}

bool wn__small_get_header(const unsigned char *bytes, size_t size, uint32_t secret_id,
			  struct wn__small_header *headerp)
{
	memset(headerp, 0, sizeof(*headerp));
	if (size < WN__SMALL_LEAST_SIZE || !is_header(bytes, size, secret_id))
		return false;
	memcpy(headerp->id, bytes + ID_AT, sizeof(headerp->id));
	headerp->secret_sum = get_le64(bytes + SUM_AT);
	return true;
}

/* ---- building ----------------------------------------------------------- */

size_t wn__small_sort(struct wn_hash *hashes, size_t count)
{
	size_t kept = 0;

	if (wn__sort_hashes(hashes, count) != 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || wn_hash_compare(hashes[kept - 1], hashes[i]) != 0)
			hashes[kept++] = hashes[i];
	return kept;
}

static void put_header(const struct wn__small_header *header, uint32_t secret_id,
		       unsigned char *bytes, size_t size)
{
	put_le24(bytes, make_front(0, size, secret_id));
	memcpy(bytes + ID_AT, header->id, sizeof(header->id));
	put_le64(bytes + SUM_AT, header->secret_sum);
}

static size_t build_filter(const struct wn__small_input *input, uint32_t secret_id,
			   unsigned char *bytes, size_t size)
{
	const struct wn__kind *kind = input->config->kind;
	unsigned last = 0;
	size_t denied;

	put_le24(bytes, make_front(kind->id, size, secret_id));
	if (size >= WN__SMALL_LONG)
		put_le24(bytes + WN__SMALL_FRONT, (uint32_t)size);
	denied = kind->small->build(input, bytes, size, &last);
	bytes[size - 1] = (unsigned char)(WN__SMALL_LAST | last);
	return denied;
}

int wn__small_build(const struct wn__small_input *input, uint32_t secret_id,
		    const struct wn__small_header *header, unsigned char **bytesp, size_t *sizep,
		    size_t *deniedp)
{
	const struct wn__small_form *form = input->config->kind->small;
	size_t ahead = header ? WN__SMALL_HEADER : 0, size;
	unsigned char *bytes;

	*bytesp = NULL;
	*sizep = *deniedp = 0;
	if (!form || input->key_count == 0 || input->key_count > WN__SMALL_MAX_KEYS)
		return WN_ERR_INVALID;
	size = form->size(input->config, input->key_count);
	if (size < WN__SMALL_LEAST_SIZE || size > WN__SMALL_MAX_SIZE)
		return WN_ERR_INVALID;
	bytes = wn__calloc(1, ahead + size);
	if (!bytes)
		return ENOMEM;
	if (header)
		put_header(header, secret_id, bytes, ahead + size);
	*deniedp = build_filter(input, secret_id, bytes + ahead, size);
	*bytesp = bytes;
	*sizep = ahead + size;
	return 0;
}

int wn__small_check_config(const struct wn_config *config, char *message, size_t size)
{
	const struct wn__kind *kind = config->kind;

	if (size > 0)
		message[0] = '\0';
	if (!kind->small) {
		snprintf(message, size, "filters of the kind '%s' have no small form", kind->name);
		return WN_ERR_OPTION;
	}
	return kind->small->check_config ? kind->small->check_config(config, message, size) : 0;
}

/* ---- the secret --------------------------------------------------------- */

/* What the sums below are for; each use has a seed of its own. */
enum { SEED_OF_ID = 1, SEED_OF_SUM, SEED_OF_CANONICAL_SUM };

static uint64_t sum_secret(const struct wn_secret *secret, uint64_t seed)
{
	return XXH3_64bits_withSeed(wn_secret_seed(secret), WN_SEED_SIZE, seed);
}

uint32_t wn__small_secret_id(const struct wn_secret *secret)
{
	return (uint32_t)sum_secret(secret, SEED_OF_ID) & WN__SMALL_SECRET_MASK;
}

uint64_t wn__small_secret_sum(const struct wn_secret *secret, bool canonical)
{
	return sum_secret(secret, canonical ? SEED_OF_CANONICAL_SUM : SEED_OF_SUM);
}
