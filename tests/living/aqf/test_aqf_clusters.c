/* test_aqf_clusters.c - clusters so long that a block's offset byte cannot say how long.
 *
 * Hashes are made to fall on a few neighbouring quotients. Their fingerprints then fill
 * thousands of slots in a row: many blocks in a row have a full offset byte, and the
 * longest reach over several of the regions that writers lock. */
#include "tests/support/shelf.h"

struct cluster {
	uint64_t first;  /* quotient */
	uint64_t spread; /* quotients */
	uint64_t keys;
	uint64_t strays; /* random keys elsewhere */
	uint64_t capacity;
	unsigned steps; /* changes, each followed by a look at everything */
};

/* The last two cross region borders, at multiples of 4,096. */
static const struct cluster clusters[] = {
	{.first = 0, .spread = 1, .keys = 700, .strays = 300, .capacity = 3000, .steps = 120},
	{.first = 100, .spread = 20, .keys = 1200, .strays = 300, .capacity = 3000, .steps = 120},
	{.first = 1000, .spread = 300, .keys = 1200, .strays = 100, .capacity = 3000, .steps = 120},
	{.first = 2900, .spread = 250, .keys = 600, .strays = 900, .capacity = 3000, .steps = 120},
	{.first = 4000, .spread = 90, .keys = 2000, .strays = 200, .capacity = 12000, .steps = 60},
	{.first = 3900, .spread = 100, .keys = 9000, .strays = 100, .capacity = 18000, .steps = 12},
};

#define CLUSTERS ((int)(sizeof(clusters) / sizeof(clusters[0])))

static struct wn_hash key_of(const struct cluster *cluster, const struct wn_aqf *aqf,
			     uint64_t *random)
{
	uint64_t quotient = cluster->first + test_random(random) % cluster->spread;

	return craft_key(aqf, quotient,
			 test_random(random) & wn__low_bits(aqf->table.remainder_bits), random);
}

static struct subject new_cluster(const struct cluster *cluster, unsigned remainder_bits,
				  uint64_t *random)
{
	struct wn_aqf_options options = {
		.capacity = cluster->capacity,
		.remainder_bits = remainder_bits,
		.tag_bits = remainder_bits % 2,
	};
	struct subject subject = create_subject(&options);

	for (uint64_t i = 0; i < cluster->strays; i++)
		expect(insert_item(&subject, test_random_hash(random)) == 0);
	for (uint64_t i = 0; i < cluster->keys; i++)
		expect(insert_item(&subject, key_of(cluster, subject.aqf, random)) == 0);
	return subject;
}

static uint64_t count_full_offsets(const struct wn_aqf *aqf)
{
	uint64_t full = 0;

	for (uint64_t block = 0; block < aqf->table.blocks; block++)
		full += aqf->offsets[block] == WN__OFFSET_MANY;
	return full;
}

/* One random change at item `at`, or at its quotient. */
static void change(struct subject *subject, size_t at, uint64_t *random)
{
	struct wn_hash hash = subject->items[at].hash;
	unsigned bits = subject->aqf->table.remainder_bits;
	uint64_t minirun = subject->items[at].minirun;
	int err = 0;

	switch (test_random(random) % 6) {
	case 0:
		err = insert_item(subject, craft_key(subject->aqf, minirun >> bits,
						     test_random(random) & wn__low_bits(bits),
						     random));
		break;
	case 1:
		err = insert_item(subject, craft_relative(subject->aqf, hash, bits, random));
		break;
	case 2:
		err = adapt_item(subject, at, craft_relative(subject->aqf, hash,
							     bits + (unsigned)(test_random(random) %
									       50),
							     random));
		break;
	case 3:
		err = count_item(subject, at, test_random(random) >> (test_random(random) % 64));
		break;
	default:
		delete_item(subject, at);
	}
	expect(err == 0 || err == WN_ERR_RANGE || err == WN_ERR_FULL);
}

START_TEST(changes_anywhere_in_a_long_cluster_keep_every_key)
{
	const struct cluster *cluster = &clusters[_i];
	uint64_t random = test_seed("cluster", 40 + (uint64_t)_i);
	struct subject subject = new_cluster(cluster, 8 + (unsigned)_i % 2, &random);
	unsigned steps = test_is_quick() ? cluster->steps / 10 : cluster->steps;

	ck_assert_uint_ge(count_full_offsets(subject.aqf), 3);
	check_subject(&subject);
	for (unsigned step = 0; step < steps; step++) {
		/* From one end of the cluster to the other. */
		size_t at = subject.count * step / steps;

		change(&subject, at, &random);
		check_subject(&subject);
	}
	end_subject(&subject);
}
END_TEST

START_TEST(a_long_cluster_is_taken_down_from_any_end)
{
	const struct cluster *cluster = &clusters[_i % (CLUSTERS - 1)];
	int order = _i / (CLUSTERS - 1);
	uint64_t random = test_seed("down", 50 + (uint64_t)_i);
	struct subject subject = new_cluster(cluster, 7, &random);

	while (subject.count > 0) {
		size_t at = order == 0 ? 0 : order == 1 ? subject.count - 1
							: (size_t)(test_random(&random) %
								   subject.count);

		delete_item(&subject, at);
		if (subject.count % 200 == 0)
			check_subject(&subject);
		else if (subject.count % 50 == 0)
			check_keys(&subject);
	}
	check_subject(&subject);
	for (uint64_t block = 0; block < subject.aqf->table.blocks; block++)
		expect(subject.aqf->offsets[block] == 0);
	end_subject(&subject);
}
END_TEST

/* An offset byte passes from exact to full and back at 255: one key at a time. */
START_TEST(offsets_are_right_around_their_largest_number)
{
	struct wn_aqf_options options = {.capacity = 2000, .remainder_bits = 8};
	struct subject subject = create_subject(&options);
	uint64_t random = test_seed("255", 60);
	uint64_t quotient = 63;

	for (int i = 0; i < 240; i++)
		expect(insert_item(&subject, craft_key(subject.aqf, quotient, 1, &random)) == 0);
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 240; i < 340; i++) {
			unsigned offset = i - 1; /* of block 1: all but the first slot */

			expect(subject.aqf->offsets[1] ==
			       (offset < WN__OFFSET_MANY ? offset : WN__OFFSET_MANY));
			check_subject(&subject);
			insert_item(&subject, craft_key(subject.aqf, quotient, i % 256, &random));
		}
		while (subject.count > 240) {
			delete_item(&subject, (size_t)(test_random(&random) % subject.count));
			check_subject(&subject);
		}
	}
	end_subject(&subject);
}
END_TEST

static void load_shelf(const struct subject *from, struct subject *to)
{
	struct wn_hash *hashes = malloc(from->count * sizeof(*hashes));
	struct wn_aqf_options options = {
		.capacity = from->aqf->insert_limit,
		.remainder_bits = from->aqf->table.remainder_bits,
		.tag_bits = from->aqf->table.tag_bits,
	};
	struct wn_aqf *aqf;

	/* Within a minirun a bulk load goes by hash, so put the shelf in that order. */
	for (size_t i = 0; i < from->count; i++) {
		size_t at = i;

		for (; at > 0 && wn_hash_compare(hashes[at - 1], from->items[i].hash) > 0; at--)
			hashes[at] = hashes[at - 1];
		hashes[at] = from->items[i].hash;
	}
	expect(wn_aqf_bulk_load(&options, hashes, from->count, &aqf) == 0);
	*to = start_subject(aqf);
	for (size_t i = 0; i < from->count; i++)
		shelve(to, i, (struct shelf_item){
				      .hash = hashes[i],
				      .minirun = minirun_of(aqf, hashes[i]),
				      .count = 1,
			      });
	free(hashes);
}

START_TEST(a_long_cluster_can_be_bulk_loaded_and_changed)
{
	const struct cluster *cluster = &clusters[_i];
	uint64_t random = test_seed("bulk", 70 + (uint64_t)_i);
	struct subject inserted = new_cluster(cluster, 8, &random);
	struct subject loaded;

	load_shelf(&inserted, &loaded);
	ck_assert_uint_eq(loaded.aqf->table.slots, inserted.aqf->table.slots);
	check_image(loaded.aqf, take_image(inserted.aqf));
	check_subject(&loaded);
	for (int step = 0; step < 20; step++)
		change(&loaded, (size_t)(test_random(&random) % loaded.count), &random);
	check_subject(&loaded);
	end_subject(&inserted);
	end_subject(&loaded);
}
END_TEST

START_TEST(a_long_cluster_survives_growing_shrinking_merging_and_thawing)
{
	const struct cluster *cluster = &clusters[_i];
	uint64_t random = test_seed("whole", 80 + (uint64_t)_i);
	struct subject subject = new_cluster(cluster, 6, &random);
	struct wn_secret *secret = test_secret(2);
	struct wn_aqf *grown, *shrunk, *thawed, *merged;
	size_t size, count;
	void *block;

	for (int step = 0; step < 50; step++)
		change(&subject, (size_t)(test_random(&random) % subject.count), &random);
	check_subject(&subject);
	ck_assert_int_eq(wn_aqf_grow(subject.aqf, &grown), 0);
	ck_assert_int_eq(wn_aqf_shrink(grown, &shrunk), 0);
	check_same_content(subject.aqf, grown);
	check_image(subject.aqf, take_image(shrunk));
	ck_assert_int_eq(wn_aqf_freeze(subject.aqf, secret, &block, &size), 0);
	ck_assert_int_eq(wn_aqf_thaw(block, size, NULL, &thawed), 0);
	check_image(subject.aqf, take_image(thawed));
	free(block);
	ck_assert_int_eq(wn_aqf_merge(subject.aqf, thawed, &merged), 0);
	wn_aqf_destroy(subject.aqf);
	subject.aqf = merged;
	/* Everything twice: each minirun followed by itself. */
	count = subject.count;
	for (size_t at = 0; at < count; ) {
		uint64_t minirun = subject.items[2 * at].minirun;
		size_t length = length_of_minirun(&subject, minirun);

		for (size_t i = 0; i < length; i++)
			shelve(&subject, 2 * at + length + i, subject.items[2 * at + i]);
		at += length;
	}
	check_listing(&subject);
	check_frozen(&subject);
	wn_aqf_destroy(grown);
	wn_aqf_destroy(shrunk);
	wn_aqf_destroy(thawed);
	end_subject(&subject);
	wn_secret_destroy(secret);
}
END_TEST

/* The same changes with and without the CPU's bit instructions. */
START_TEST(both_ways_to_search_agree_on_long_clusters)
{
	const struct cluster *cluster = &clusters[_i];
	uint64_t seed = test_seed("portable", 90 + (uint64_t)_i);
	uint64_t fast_random = seed, slow_random = seed;
	struct subject fast = new_cluster(cluster, 8, &fast_random);
	struct subject slow = new_cluster(cluster, 8, &slow_random);

	slow.aqf->fast = false;
	for (int step = 0; step < 500; step++) {
		size_t at = (size_t)(test_random(&fast_random) % fast.count);

		test_random(&slow_random);
		change(&fast, at, &fast_random);
		change(&slow, at, &slow_random);
	}
	check_image(fast.aqf, take_image(slow.aqf));
	check_subject(&slow);
	end_subject(&fast);
	end_subject(&slow);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aqf_clusters");
	TCase *tests = tcase_create("clusters");

	tcase_set_timeout(tests, 600);
	tcase_add_loop_test(tests, changes_anywhere_in_a_long_cluster_keep_every_key, 0, CLUSTERS);
	tcase_add_loop_test(tests, a_long_cluster_is_taken_down_from_any_end, 0,
			    3 * (CLUSTERS - 1));
	tcase_add_test(tests, offsets_are_right_around_their_largest_number);
	tcase_add_loop_test(tests, a_long_cluster_can_be_bulk_loaded_and_changed, 0, CLUSTERS);
	tcase_add_loop_test(tests, a_long_cluster_survives_growing_shrinking_merging_and_thawing, 0,
			    CLUSTERS);
	tcase_add_loop_test(tests, both_ways_to_search_agree_on_long_clusters, 0, CLUSTERS);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
