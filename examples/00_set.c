/* 00_set.c - a set that learns from its false positives: the README's example.
 * What stands between the two marks is shown there, one tab to the left;
 * tests/readme_example.sh compares. */
#include <stdio.h>

#include <winnow/winnow.h>

int main(void)
{
	/* README: begin */
	struct wn_set_options options = {.aqf = {.capacity = 2000}};
	struct wn_revmap *map;
	struct wn_set *set;
	int wrong[2] = {0, 0};

	if (wn_revmap_memory_create(true, &map) || wn_set_create(&options, NULL, map, &set))
		return 1;
	for (int key = 0; key < 1000; key++)
		if (wn_set_insert(set, &key, sizeof(key)))
			return 1;
	for (int pass = 0; pass < 2; pass++)
		for (int key = 1000; key < 50000; key++) /* none of these is in the set */
			if (wn_set_query(set, &key, sizeof(key))) {
				wrong[pass]++;
				wn_set_false_positive(set, &key, sizeof(key)); /* say so once */
			}
	printf("false positives: %d, then %d\n", wrong[0], wrong[1]);
	/* README: end */

	for (int key = 0; key < 1000; key++)
		if (!wn_set_query(set, &key, sizeof(key)))
			return 1;
	wn_set_destroy(set);
	/* About 47 are expected at first: none at all means that nothing was shown. */
	return wrong[0] == 0 || wrong[1] != 0;
}
