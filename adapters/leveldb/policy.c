/* policy.c - asking filters, and the policy that LevelDB is given. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "policy.h"
#include "base/secret.h"
#include "kinds/aqf/aqf_small.h"
#include "kinds/sscf/sscf_small.h"

#define DEFAULT_REMAINDER 7
#define DEFAULT_BITS 1000

_Thread_local struct wn__frame *wn__current_frame;

/* ---- keys --------------------------------------------------------------- */

void wn__canonicalize(const struct wn__policy *policy, const char *key, size_t size,
		      struct wn__canonical *canonicalp)
{
	canonicalp->size = 0;
	canonicalp->key = size <= sizeof(canonicalp->room) ? canonicalp->room : wn__alloc(size);
	if (!canonicalp->key)
		return;
	canonicalp->size = policy->canonical(policy->canonical_arg, key, size, canonicalp->key);
	/* It has written past its room: what else it has done nobody knows. */
	if (canonicalp->size > size)
		abort();
}

void wn__canonical_free(struct wn__canonical *canonical)
{
	if (canonical->key != canonical->room)
		free(canonical->key);
}

/* ---- asking ------------------------------------------------------------- */

static struct wn_hash hash_key(struct wn__policy *policy, struct wn__frame *frame, const char *key,
			       size_t size)
{
	struct wn_hash hash;

	if (frame && frame->hashed && frame->size == size && memcmp(frame->key, key, size) == 0)
		return frame->hash;
	hash = wn__hash_key(policy->secret, key, size);
	if (frame && frame->size == size && memcmp(frame->key, key, size) == 0) {
		frame->hash = hash;
		frame->hashed = true;
	}
	return hash;
}

static struct wn__positive *note_positive(struct wn__frame *frame)
{
	uint32_t at;

	if (!frame)
		return NULL;
	at = frame->count++;
	if (at >= WN__FRAME_POSITIVES)
		return NULL;
	frame->positives[at].count = 0;
	return &frame->positives[at];
}

static uint16_t slack_of(const struct wn__small *tiny)
{
	uint64_t fingerprints = (uint64_t)tiny->buckets << tiny->remainder_bits;

	return (uint16_t)(fingerprints > 65536 ? 1 : 65536 / fingerprints + 1 > UINT16_MAX ?
							     UINT16_MAX :
							     65536 / fingerprints + 1);
}

/* What the filter has learned decides. The matches that stay are noted for the lookup's end. */
static bool ask_lessons(struct wn__policy *policy, struct wn__frame *frame,
			const struct wn__small *tiny, struct wn_hash hash)
{
	uint32_t indexes[WN__FRAME_MATCHES];
	int count = wn__small_matches(tiny, hash, indexes, WN__FRAME_MATCHES);
	struct wn__positive *positive;
	struct wn__small_id id;
	int left = 0;

	if (count == 0)
		return false;
	if (count < 0)
		wn__count(policy, WN__FOREIGN_FILTERS, 1);
	if (count < 0 || count > WN__FRAME_MATCHES || !policy->lessons || !wn__small_learns(tiny) ||
	    wn__packs_in_doubt(policy->packs)) {
		note_positive(frame);
		return true;
	}
	id = wn__small_id(tiny->bytes, tiny->size);
	for (int i = 0; i < count; i++)
		if (!wn__small_lessons_refute(policy->lessons, id, indexes[i],
					     wn__small_lesson_bits(hash)))
			indexes[left++] = indexes[i];
	if (left == 0)
		return false;
	positive = note_positive(frame);
	if (positive) {
		positive->id = id;
		positive->slack = slack_of(tiny);
		positive->count = left;
		memcpy(positive->indexes, indexes, sizeof(indexes));
	}
	return true;
}

__attribute__((noinline)) static bool
ask_other(struct wn__policy *policy, struct wn__frame *frame, const char *key, size_t size,
	  const char *filter, size_t filter_size, bool ours)
{
	const unsigned char *bytes = (const unsigned char *)filter;
	struct wn__sscf_frozen frozen;
	struct wn__positive *positive;
	bool sscf = wn__small_sscf_open(bytes, filter_size, policy->secret_id, &frozen);
	bool answer = true;

	if (sscf)
		answer = wn__small_sscf_says_maybe(&frozen, hash_key(policy, frame, key, size));
	else if (ours)
		wn__count(policy, WN__FOREIGN_FILTERS, 1);
	else if (!policy->canonical && /* Bloom filters hash keys as they are */
		 !wn__small_sscf_claims(bytes, filter_size, policy->secret_id))
		answer = wn__shim_bloom_may_match(policy->bloom, key, size, filter, filter_size);
	if (!answer)
		return false;
	positive = note_positive(frame);
	if (positive && sscf)
		positive->count = -1;
	return true;
}

WN__INLINE unsigned char ask(struct wn__policy *policy, const char *key, size_t size,
			     const char *filter, size_t filter_size, bool fast)
{
	const unsigned char *bytes = (const unsigned char *)filter;
	struct wn__frame *frame = wn__current_frame;
	struct wn__small tiny;
	struct wn_hash hash;
	bool whole, ours;

	if (frame && frame->policy != policy)
		frame = NULL;
	if (frame)
		frame->queries++;
	ours = wn__small_claims(bytes, filter_size, policy->secret_id, &whole);
	if (WN__UNLIKELY(!whole || !wn__small_open(bytes, filter_size, &tiny)))
		return ask_other(policy, frame, key, size, filter, filter_size, ours);
	hash = hash_key(policy, frame, key, size);
	if (wn__small_refuses(&tiny, hash, fast))
		return 0;
	return ask_lessons(policy, frame, &tiny, hash);
}

static unsigned char ask_portably(void *policy, const char *key, size_t size, const char *filter,
				  size_t filter_size)
{
	return ask(policy, key, size, filter, filter_size, false);
}

WN__TARGET_FAST static unsigned char ask_fast(void *policy, const char *key, size_t size,
					      const char *filter, size_t filter_size)
{
	return ask(policy, key, size, filter, filter_size, true);
}

static unsigned char ask_canonically(void *policy, const char *key, size_t size,
				     const char *filter, size_t filter_size)
{
	struct wn__canonical canonical;
	unsigned char answer = 1;

	wn__canonicalize(policy, key, size, &canonical);
	if (canonical.key)
		answer = ask(policy, canonical.key, canonical.size, filter, filter_size, false);
	wn__canonical_free(&canonical);
	return answer;
}

/* ---- options ------------------------------------------------------------ */

static int refuse_options(const char *text, char *message, size_t size)
{
	if (message && size)
		snprintf(message, size,
			 "\"%.60s\": not \"aqf\", \"aqf:remainder_bits=\" with 1 to 16, "
			 "\"aqf:bits_per_key=\" with 4 to 18, \"sscf\", or "
			 "\"sscf:bits_per_key=\" with 4 to 18",
			 text);
	return WN_ERR_OPTION;
}

/* Digits, a point and digits: in hundredths. -1: something else. strtod() has a locale. */
static long read_hundredths(const char *text)
{
	long value = 0;
	int decimals = -1;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text == '.' && decimals < 0) {
			decimals = 0;
			continue;
		}
		if (*text < '0' || *text > '9' || value > 100000)
			return -1;
		if (decimals < 2)
			value = 10 * value + (*text - '0');
		decimals += decimals >= 0;
	}
	for (decimals = decimals < 0 ? 0 : decimals; decimals < 2; decimals++)
		value *= 10;
	return value;
}

int wn__parse_options(const char *text, struct wn__level_filter *filterp, char *message,
		      size_t size)
{
	static const char bits[] = "aqf:remainder_bits=", each[] = "aqf:bits_per_key=",
			  sscf[] = "sscf:bits_per_key=";
	long value;

	*filterp = (struct wn__level_filter){.remainder_bits = DEFAULT_REMAINDER,
					     .bits = DEFAULT_BITS};
	if (!text || strcmp(text, "aqf") == 0)
		return 0;
	filterp->sscf = strncmp(text, "sscf", 4) == 0;
	if (strcmp(text, "sscf") == 0)
		return 0;
	if (strncmp(text, sscf, sizeof(sscf) - 1) == 0) {
		value = read_hundredths(text + sizeof(sscf) - 1);
		if (value < WN__SMALL_SSCF_LEAST_BITS || value > WN__SMALL_SSCF_MOST_BITS)
			return refuse_options(text, message, size);
		filterp->bits = (unsigned)value;
		return 0;
	}
	if (strncmp(text, bits, sizeof(bits) - 1) == 0) {
		value = read_hundredths(text + sizeof(bits) - 1);
		if (value < 100 || value > 100 * WN__SMALL_MAX_REMAINDER || value % 100)
			return refuse_options(text, message, size);
		filterp->remainder_bits = (unsigned)(value / 100);
		return 0;
	}
	if (strncmp(text, each, sizeof(each) - 1) != 0)
		return refuse_options(text, message, size);
	value = read_hundredths(text + sizeof(each) - 1);
	if (value < 400 || value > 1800)
		return refuse_options(text, message, size);
	/* A key takes its remainder and two and a third bits; the four bytes around come out of
	 * the last third, at 36 keys. */
	filterp->remainder_bits = (unsigned)((value - 234) / 100);
	return 0;
}

/* ---- the policy --------------------------------------------------------- */

int wn__level_policy_create(const struct wn__level_filter *filter, const struct wn_secret *secret,
			    struct wn__policy **policyp)
{
	struct wn__policy *policy = wn__calloc(1, sizeof(*policy));
	int err;

	*policyp = NULL;
	if (!policy)
		return ENOMEM;
	err = wn_secret_create(wn_secret_seed(secret), &policy->secret);
	if (err) {
		free(policy);
		return err;
	}
	policy->secret_id = wn__small_secret_id(secret);
	policy->filter = *filter;
	policy->fast = wn__cpu_is_fast();
	policy->bloom = wn__shim_bloom_create();
	*policyp = policy;
	return 0;
}

/* A filter of hashes of another sort would deny its keys: it is a foreign one. */
void wn__level_policy_canonicalize(struct wn__policy *policy, wn_canonical_fn *canonical, void *arg)
{
	policy->canonical = canonical;
	policy->canonical_arg = arg;
	if (canonical)
		policy->secret_id ^= WN__SMALL_SECRET_MASK;
}

void wn__level_policy_destroy(void *given)
{
	struct wn__policy *policy = given;

	if (!policy)
		return;
	wn__shim_bloom_destroy(policy->bloom);
	wn_secret_destroy(policy->secret);
	free(policy);
}

static const char *get_name(void *policy)
{
	(void)policy;
	return WN__FILTER_NAME;
}

static void leave_alone(void *policy)
{
	(void)policy;
}

leveldb_filterpolicy_t *wn__level_policy_show(struct wn__policy *policy, bool owned)
{
	return leveldb_filterpolicy_create(policy, owned ? wn__level_policy_destroy : leave_alone,
					   wn__create_filter,
					   policy->canonical ? ask_canonically :
					   policy->fast      ? ask_fast :
							       ask_portably,
					   get_name);
}

int wn_leveldb_filterpolicy(const char *text, const struct wn_secret *secret, char *message,
			    size_t message_size, leveldb_filterpolicy_t **policyp)
{
	static const unsigned char seed[WN_SEED_SIZE] = "winnow: the same for everybody.";
	struct wn_secret *common = NULL;
	struct wn__policy *policy;
	struct wn__level_filter filter;
	int err = wn__parse_options(text, &filter, message, message_size);

	*policyp = NULL;
	if (!err && !secret)
		err = wn_secret_create(seed, &common);
	if (!err)
		err = wn__level_policy_create(&filter, secret ? secret : common, &policy);
	wn_secret_destroy(common);
	if (err)
		return err;
	*policyp = wn__level_policy_show(policy, true);
	return 0;
}
