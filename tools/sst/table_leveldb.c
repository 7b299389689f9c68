/* table_leveldb.c - the filters, the places where they start, the place where that list
 * starts (which ends the last filter), and one byte for the range that each is for. */
#include "table_leveldb.h"

const char *small_filters_open(struct small_filters *small, struct span content)
{
	*small = (struct small_filters){ .content = content };
	if (content.size < 5)
		return "too short for a list of filters";
	small->base_lg = content.at[content.size - 1];
	small->offsets_at = get_le32(content.at + content.size - 5);
	if (small->base_lg > 40)
		return "the range of a filter cannot be true";
	if (small->offsets_at > content.size - 5 || (content.size - 5 - small->offsets_at) % 4 != 0)
		return "the list of filters does not fit in";
	small->count = (content.size - 5 - small->offsets_at) / 4;
	return NULL;
}

bool small_filters_get(const struct small_filters *small, size_t index, struct span *bytesp)
{
	const unsigned char *at = small->content.at + small->offsets_at + index * 4;
	uint32_t start = get_le32(at), end = get_le32(at + 4);

	if (start > end || end > small->offsets_at)
		return false;
	*bytesp = (struct span){ small->content.at + start, end - start };
	return true;
}
