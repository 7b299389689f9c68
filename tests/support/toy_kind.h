/* toy_kind.h - a filter kind in a few lines: sorted tags of 16 bits, in a block and in the small
 * form. It shows what a kind has to have, and tests have a kind that the library does not know. It
 * learns, and has no code of its own for it. */
#ifndef WN_TESTS_TOY_KIND_H
#define WN_TESTS_TOY_KIND_H

#include <stdlib.h>

#include <winnow/error.h>

#include "base/bytes.h"
#include "kinds/block_build.h"
#include "kinds/kind.h"
#include "kinds/small.h"

#define TOY_KIND_ID 9

static inline bool toy_has(const unsigned char *tags, size_t size, struct wn_hash hash)
{
	uint16_t tag = (uint16_t)(hash.hi >> 48);

	for (size_t at = 0; at + 2 <= size; at += 2)
		if (get_le16(tags + at) == tag)
			return true;
	return false;
}

static inline void toy_fill(const struct wn_hash *keys, size_t count, unsigned char *tags)
{
	for (size_t i = 0; i < count; i++)
		put_le16(tags + 2 * i, (uint16_t)(keys[i].hi >> 48));
}

/* ---- in a block --------------------------------------------------------- */

static inline int toy_build(const struct wn__build_input *input, struct wn__block_writer *writer,
			    unsigned char *params)
{
	unsigned char *tags;
	int err = wn__block_begin(writer, 2 * input->key_count, &tags);

	if (!err)
		toy_fill(input->keys, input->key_count, tags);
	params[0] = 16;
	return err;
}

static inline int toy_open(struct wn_filter *filter, enum wn_check check, const char **reasonp)
{
	(void)check;
	filter->state = &filter->info;
	if (filter->info.payload_size == 2 * filter->info.key_count)
		return 0;
	*reasonp = "toy: the number of tags does not fit";
	return WN_ERR_CORRUPT;
}

static inline void toy_close(struct wn_filter *filter)
{
	(void)filter;
}

static inline bool toy_query(const void *state, struct wn_hash hash, struct wn_match *matchp)
{
	const struct wn_block_info *info = state;

	if (matchp)
		*matchp = (struct wn_match){.known = false};
	return toy_has(info->payload, info->payload_size, hash);
}

static inline void toy_query_batch(const void *state, const struct wn_hash *hashes, size_t count,
				   bool *answersp)
{
	for (size_t i = 0; i < count; i++)
		answersp[i] = toy_query(state, hashes[i], NULL);
}

static inline void toy_describe(const struct wn_filter *filter, struct wn_filter_info *infop)
{
	(void)filter;
	infop->expected_fpr = (double)infop->key_count / 65536;
	wn__add_fact(infop->facts, &infop->fact_count, "tag_bits", 16);
}

/* ---- the small form ----------------------------------------------------- */

/* What is left of the least size is filled with the last key's tag, and the number of filling
 * tags is in the last byte. */
static inline size_t toy_small_size(const struct wn_config *config, uint32_t count)
{
	(void)config;
	return wn__small_size_around(2 * (size_t)count);
}

static inline size_t toy_small_build(const struct wn__small_input *input, unsigned char *bytes,
				     size_t size, unsigned *lastp)
{
	unsigned char *tags = bytes + wn__small_start(size);
	size_t room = wn__small_payload(size) / 2;

	toy_fill(input->keys, input->key_count, tags);
	for (size_t i = input->key_count; i < room; i++)
		toy_fill(&input->keys[input->key_count - 1], 1, tags + 2 * i);
	*lastp = (unsigned)(room - input->key_count);
	return 0;
}

static inline bool toy_small_query(const unsigned char *bytes, size_t size, struct wn_hash hash)
{
	return toy_has(bytes + wn__small_start(size), wn__small_payload(size), hash);
}

static inline bool toy_small_describe(const unsigned char *bytes, size_t size,
				      struct wn__small_info *infop)
{
	size_t room = wn__small_payload(size) / 2, filling = bytes[size - 1] & 0x7f;

	*infop = (struct wn__small_info){.counts_keys = true};
	if (filling >= room)
		return false;
	infop->key_count = (uint32_t)(room - filling);
	infop->bits_per_key = 8 * (double)size / infop->key_count;
	infop->expected_fpr = (double)infop->key_count / 65536;
	wn__add_fact(infop->facts, &infop->fact_count, "tag_bits", 16);
	return true;
}

static const struct wn__small_form toy_small_form = {
	.size = toy_small_size,
	.build = toy_small_build,
	.query = toy_small_query,
	.describe = toy_small_describe,
};

static const struct wn__option toy_options[] = {
	{"number", WN__OPTION_INTEGER, 1, 9, 5, true}, /* of no use */
};

static const struct wn__kind toy_kind = {
	.id = TOY_KIND_ID,
	.name = "toy",
	.options = toy_options,
	.option_count = 1,
	.learns = WN__LEARNS_BY_LESSON, /* in the plain shape */
	.build = toy_build,
	.open = toy_open,
	.close = toy_close,
	.query = toy_query,
	.query_batch = toy_query_batch,
	.describe = toy_describe,
	.small = &toy_small_form,
};

#endif /* WN_TESTS_TOY_KIND_H */
