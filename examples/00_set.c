/* 00_set.c - a set that learns from its false positives: the README's example.
 * What stands between the two marks is shown there, one tab to the left;
 * tests/readme_example.sh compares. */
#include <stdio.h>

#include <winnow/winnow.h>

int main(void)
{
	struct wn_aqf_info info;
	int again = 0;

	/* README: begin */
	struct wn_set_options options = {.aqf = {.capacity = 2000}};
	struct wn_revmap *map;
	struct wn_set *set;

	if (wn_revmap_memory_create(true, &map) || wn_set_create(&options, NULL, map, &set))
		return 1;
	for (int key = 0; key < 1000; key++)
		if (wn_set_insert(set, &key, sizeof(key)))
			return 1;
	for (int key = 1000; key < 50000; key++)
		if (wn_set_query(set, &key, sizeof(key)))              /* a mistake, */
			wn_set_false_positive(set, &key, sizeof(key)); /* not made again */
	/* README: end */

	wn_aqf_describe(wn_set_filter(set), &info);
	for (int key = 1000; key < 50000; key++)
		again += wn_set_query(set, &key, sizeof(key));
	printf("extensions learned: %d; false positives after that: %d\n", (int)info.extensions,
	       again);
	for (int key = 0; key < 1000; key++)
		if (!wn_set_query(set, &key, sizeof(key)))
			return 1;
	wn_set_destroy(set);
	/* About 47 are expected; none at all would mean that nothing was shown. */
	return info.extensions == 0 || again != 0;
}
