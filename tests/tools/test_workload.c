/* test_workload.c - what winnow-bench makes its workloads of: keys, the truth about them,
 * distributions, streams of operations, histograms. */
#include <math.h>
#include <string.h>

#include "tests/support/common.h"
#include "tools/workload/histogram.h"
#include "tools/workload/id_set.h"
#include "tools/workload/memory_map.h"
#include "tools/workload/truth.h"
#include "tools/workload/workload.h"

/* ---- histograms --------------------------------------------------------- */

START_TEST(percentiles_are_within_a_sixty_fourth)
{
	static struct histogram histogram;

	histogram_init(&histogram);
	for (uint64_t i = 1; i <= 100000; i++)
		histogram_add(&histogram, i * 1000);
	for (double percent = 1; percent < 100; percent += 0.5) {
		const double exact = percent * 1e6;

		ck_assert_double_le(fabs(histogram_percentile(&histogram, percent) - exact),
				    exact / 64);
	}
	ck_assert_double_eq(histogram_percentile(&histogram, 0), 1000);
	ck_assert_double_eq(histogram_percentile(&histogram, 100), 1e8);
	ck_assert_double_eq_tol(histogram_mean(&histogram), 50000500, 1e-3);
}
END_TEST

START_TEST(any_value_has_a_bucket)
{
	static struct histogram histogram;

	for (unsigned bit = 0; bit < 64; bit++) {
		histogram_init(&histogram);
		histogram_add(&histogram, (UINT64_C(1) << bit) - 1);
		histogram_add(&histogram, UINT64_C(1) << bit);
		histogram_add(&histogram, UINT64_MAX >> (63 - bit));
		ck_assert_uint_eq(histogram.count, 3);
		ck_assert_double_eq_tol(histogram_percentile(&histogram, 50),
					ldexp(1, (int)bit), ldexp(1, (int)bit) / 64);
	}
}
END_TEST

START_TEST(merged_histograms_are_as_one)
{
	static struct histogram one, two, both;
	uint64_t state = test_seed("histogram", 1);

	histogram_init(&one);
	histogram_init(&two);
	histogram_init(&both);
	for (int i = 0; i < 10000; i++) {
		const uint64_t value = test_random(&state) >> (test_random(&state) % 60);

		histogram_add(i % 3 ? &one : &two, value);
		histogram_add(&both, value);
	}
	histogram_merge(&one, &two);
	ck_assert_mem_eq(one.counts, both.counts, sizeof(both.counts));
	ck_assert_uint_eq(one.min, both.min);
	ck_assert_uint_eq(one.max, both.max);
	ck_assert_uint_eq(one.count, both.count);
}
END_TEST

START_TEST(an_empty_histogram_says_zero)
{
	static struct histogram histogram;

	histogram_init(&histogram);
	ck_assert_double_eq(histogram_percentile(&histogram, 50), 0);
	ck_assert_double_eq(histogram_mean(&histogram), 0);
}
END_TEST

/* ---- keys --------------------------------------------------------------- */

static void init_keyspace(struct keyspace *keyspace, uint64_t count)
{
	*keyspace = (struct keyspace){ .seed = 1, .key_size = 16, .count = count,
				       .inserts = 10, .absent = 10 * count };
}

START_TEST(stored_keys_are_in_order_and_found_again)
{
	static const size_t sizes[] = { 8, 9, 16, 20, 100 };
	char before[KEY_MAX_SIZE], key[KEY_MAX_SIZE];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct keyspace keyspace;

		init_keyspace(&keyspace, 1000);
		keyspace.key_size = sizes[s];
		memset(before, 0, sizeof(before));
		for (uint64_t i = 0; i < 1010; i++) {
			uint64_t index;

			ck_assert_uint_eq(keyspace_stored(&keyspace, i, key), sizes[s]);
			if (i > 0)
				expect(memcmp(before, key, sizes[s]) < 0);
			memcpy(before, key, sizes[s]);
			expect(keyspace_find(&keyspace, key, sizes[s], &index) && index == i);
		}
	}
}
END_TEST

START_TEST(absent_keys_lie_between_the_stored_and_are_none_of_them)
{
	char key[KEY_MAX_SIZE], first[KEY_MAX_SIZE], last[KEY_MAX_SIZE];
	struct keyspace keyspace;
	uint64_t index;

	init_keyspace(&keyspace, 100);
	keyspace_stored(&keyspace, 0, first);
	keyspace_stored(&keyspace, 99, last);
	for (uint64_t i = 0; i < 100000; i++) {
		const size_t size = keyspace_absent(&keyspace, i, key);

		expect(!keyspace_find(&keyspace, key, size, &index));
		expect(memcmp(first, key, size) < 0);
		if (i % 100 != 99)
			expect(memcmp(key, last, size) < 0);
	}
}
END_TEST

START_TEST(another_seed_makes_other_keys_and_values)
{
	char one[KEY_MAX_SIZE], two[KEY_MAX_SIZE], value[64];
	struct keyspace keyspace;

	init_keyspace(&keyspace, 100);
	keyspace_stored(&keyspace, 5, one);
	keyspace_value(&keyspace, 5, 1, value, sizeof(value));
	keyspace.seed = 2;
	keyspace_stored(&keyspace, 5, two);
	ck_assert_mem_ne(one, two, 16);
	ck_assert(!keyspace_is_value(&keyspace, 5, 1, value, sizeof(value)));
}
END_TEST

START_TEST(keys_of_a_list_are_found_and_doubles_are_refused)
{
	struct keyspace keyspace;
	char key[KEY_MAX_SIZE], message[200];
	uint64_t index;

	init_keyspace(&keyspace, 1000);
	for (int i = 0; i < 1000; i++) {
		const int size = snprintf(key, sizeof(key), "key %d", i);

		ck_assert(key_list_add(&keyspace.keys, key, (size_t)size));
	}
	ck_assert(keyspace_index_lists(&keyspace, message, sizeof(message)));
	for (uint64_t i = 0; i < 1010; i++) {
		const size_t size = keyspace_stored(&keyspace, i, key);

		expect(keyspace_find(&keyspace, key, size, &index) && index == i);
	}
	for (uint64_t i = 0; i < 10000; i++)
		expect(!keyspace_find(&keyspace, key, keyspace_absent(&keyspace, i, key), &index));
	ck_assert(key_list_add(&keyspace.negatives, "key 17", 6));
	ck_assert(!keyspace_index_lists(&keyspace, message, sizeof(message)));
	ck_assert(key_list_add(&keyspace.keys, "key 1", 5));
	ck_assert(!keyspace_index_lists(&keyspace, message, sizeof(message)));
	keyspace_fini(&keyspace);
}
END_TEST

START_TEST(keys_that_a_trace_names_get_indexes_of_their_own)
{
	struct keyspace keyspace;
	char key[KEY_MAX_SIZE];
	uint64_t index;

	init_keyspace(&keyspace, 100);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 3000; i++) {
			const int size = snprintf(key, sizeof(key), "named %d", (int)i);

			expect(keyspace_name(&keyspace, key, (size_t)size, &index));
			expect(index == 110 + i);
			expect(keyspace_stored(&keyspace, index, key) == (size_t)size);
		}
	expect(keyspace_name(&keyspace, key, keyspace_stored(&keyspace, 42, key), &index));
	ck_assert_uint_eq(index, 42);
	ck_assert_uint_eq(keyspace_room(&keyspace), 3110);
	keyspace_fini(&keyspace);
}
END_TEST

/* ---- truth -------------------------------------------------------------- */

static void write_version(struct truth *truth, uint64_t index, char *valuep)
{
	const unsigned version = truth_begin_write(truth, index);

	keyspace_value(truth->keyspace, index, version, valuep, truth->value_size);
	truth_end_write(truth, index, version, true);
}

START_TEST(only_what_was_written_last_is_true)
{
	char old[20], new[20];
	struct keyspace keyspace;
	struct truth truth;
	unsigned before;

	init_keyspace(&keyspace, 100);
	ck_assert(truth_init(&truth, &keyspace, sizeof(old)));
	ck_assert(truth_allows(&truth, 7, truth_version(&truth, 7), false, NULL, 0));
	/* Versions come round. */
	for (int i = 0; i < 600; i++) {
		write_version(&truth, 7, old);
		write_version(&truth, 7, new);
		before = truth_version(&truth, 7);
		expect(truth_allows(&truth, 7, before, true, new, sizeof(new)));
		expect(!truth_allows(&truth, 7, before, true, old, sizeof(old)));
		expect(!truth_allows(&truth, 7, before, true, new, sizeof(new) - 1));
		expect(!truth_allows(&truth, 7, before, false, NULL, 0));
	}
	truth_fini(&truth);
}
END_TEST

START_TEST(what_is_written_during_a_lookup_may_be_seen_or_not)
{
	char old[20], new[20];
	struct keyspace keyspace;
	struct truth truth;
	unsigned before;

	init_keyspace(&keyspace, 100);
	ck_assert(truth_init(&truth, &keyspace, sizeof(old)));
	write_version(&truth, 3, old);
	before = truth_version(&truth, 3);
	write_version(&truth, 3, new);
	ck_assert(truth_allows(&truth, 3, before, true, old, sizeof(old)));
	ck_assert(truth_allows(&truth, 3, before, true, new, sizeof(new)));
	/* A write that failed may have come through, and need not. */
	before = truth_begin_write(&truth, 3);
	keyspace_value(&keyspace, 3, before, old, sizeof(old));
	truth_end_write(&truth, 3, before, false);
	before = truth_version(&truth, 3);
	ck_assert(truth_allows(&truth, 3, before, true, old, sizeof(old)));
	ck_assert(truth_allows(&truth, 3, before, true, new, sizeof(new)));
	truth_fini(&truth);
}
END_TEST

START_TEST(a_database_from_before_is_believed_if_it_is_ours)
{
	char value[20];
	struct keyspace keyspace;
	struct truth truth;

	init_keyspace(&keyspace, 100);
	ck_assert(truth_init(&truth, &keyspace, sizeof(value)));
	keyspace_value(&keyspace, 9, 200, value, sizeof(value));
	ck_assert(!truth_adopt(&truth, 8, value, sizeof(value)));
	ck_assert(!truth_adopt(&truth, 9, value, sizeof(value) - 1));
	ck_assert(truth_adopt(&truth, 9, value, sizeof(value)));
	ck_assert_uint_eq(truth_version(&truth, 9), 200);
	truth_fini(&truth);
}
END_TEST

/* ---- distributions ------------------------------------------------------ */

START_TEST(distributions_are_read_and_printed)
{
	static const char *const good[] = { "uniform", "latest", "zipfian:1.5", "zipfian:0.99",
					    "hotset:0.01:0.8", "adversarial:0.1" };
	static const char *const bad[] = { "", "uniform:1", "zipfian", "zipfian:", "zipfian:0",
					   "zipfian:21", "zipfian:1x", "hotset:0", "hotset:1.5",
					   "hotset:0.1:", "adversarial:2", "normal", "zipf:1" };
	char text[64], message[400];
	struct dist dist;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(dist_parse(good[i], &dist, message, sizeof(message)), "%s", good[i]);
		dist_print(&dist, text, sizeof(text));
		ck_assert_str_eq(text, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(!dist_parse(bad[i], &dist, message, sizeof(message)), "%s", bad[i]);
		ck_assert(strstr(message, "zipfian:EXPONENT"));
	}
}
END_TEST

#define ITEMS 1000
#define DRAWS 200000

static void draw(const char *text, bool ranked, uint64_t seed, unsigned *seen)
{
	char message[400];
	struct picker picker;
	struct dist dist;

	memset(seen, 0, ITEMS * sizeof(*seen));
	ck_assert(dist_parse(text, &dist, message, sizeof(message)));
	ck_assert(picker_init(&picker, &dist, ITEMS, ranked, 1));
	for (int i = 0; i < DRAWS; i++) {
		const uint64_t number = picker_next(&picker, &seed);

		expect(number < ITEMS);
		seen[number]++;
	}
}

/* Six standard deviations; for a right sampler once in 5e8. */
static bool is_near(double seen, double share)
{
	return fabs(seen - share * DRAWS) <= 6.0 * sqrt(share * DRAWS) + 1.0;
}

START_TEST(uniform_is_uniform)
{
	static unsigned seen[ITEMS];

	draw("uniform", false, test_seed("uniform", 3), seen);
	for (int i = 0; i < ITEMS; i++)
		expect(is_near(seen[i], 1.0 / ITEMS));
}
END_TEST

START_TEST(in_a_list_the_first_line_is_the_most_frequent)
{
	static unsigned seen[ITEMS];
	double sum = 0.0;

	for (int i = 1; i <= ITEMS; i++)
		sum += pow(i, -1.5);
	draw("zipfian:1.5", true, test_seed("zipfian", 4), seen);
	for (int i = 0; i < 20; i++)
		expect(is_near(seen[i], pow(i + 1, -1.5) / sum));
	draw("zipfian:1.5", false, test_seed("zipfian", 4), seen);
	ck_assert(!is_near(seen[0], 1.0 / sum));
}
END_TEST

START_TEST(the_latest_are_the_last)
{
	static unsigned seen[ITEMS];

	draw("latest", false, test_seed("latest", 5), seen);
	ck_assert_uint_gt(seen[ITEMS - 1], seen[ITEMS - 2]);
	ck_assert_uint_gt(seen[ITEMS - 2], seen[ITEMS / 2]);
}
END_TEST

START_TEST(a_hot_set_gets_its_share)
{
	static unsigned seen[ITEMS];
	unsigned hot = 0, hot_draws = 0;

	draw("hotset:0.02:0.75", false, test_seed("hotset", 6), seen);
	for (int i = 0; i < ITEMS; i++)
		if (seen[i] > DRAWS / ITEMS * 5) {
			hot++;
			hot_draws += seen[i];
		}
	ck_assert_uint_eq(hot, 20);
	ck_assert(is_near(hot_draws, 0.75));
}
END_TEST

/* ---- streams ------------------------------------------------------------ */

static void init_workload(struct workload *workload, const struct keyspace *keyspace,
			  const char *name, const char *dist, uint64_t seed)
{
	char message[400];

	*workload = (struct workload){ .kind = bench_kind_find(name, strlen(name)),
				       .keyspace = keyspace, .ops = 10000, .clients = 1,
				       .seed = seed, .absent_share = 0.5 };
	ck_assert_ptr_nonnull(workload->kind);
	ck_assert(dist_parse(dist, &workload->dist, message, sizeof(message)));
	ck_assert(workload_init(workload));
}

static bool same_op(const struct op *a, const struct op *b)
{
	return a->type == b->type && a->number == b->number && a->length == b->length;
}

START_TEST(the_same_seed_gives_the_same_operations)
{
	static const char *const names[] = { "fillseq", "fillrandom", "overwrite", "readrandom",
					     "readmissing", "readmix", "ycsba", "ycsbb", "ycsbc",
					     "ycsbd", "ycsbe", "ycsbf" };
	const uint64_t seed = test_seed("streams", 7);
	struct keyspace keyspace;

	init_keyspace(&keyspace, 1000);
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct workload one, two, other;
		struct stream a, b, c;
		struct op x, y, z;
		unsigned different = 0;

		init_workload(&one, &keyspace, names[n], "zipfian:0.99", seed);
		init_workload(&two, &keyspace, names[n], "zipfian:0.99", seed);
		init_workload(&other, &keyspace, names[n], "zipfian:0.99", seed + 1);
		stream_init(&a, &one, 1, 3);
		stream_init(&b, &two, 1, 3);
		stream_init(&c, &other, 1, 3);
		while (stream_next(&a, 1000, &x)) {
			expect(stream_next(&b, 1000, &y));
			expect(stream_next(&c, 1000, &z));
			expect(same_op(&x, &y));
			different += !same_op(&x, &z);
		}
		expect(!stream_next(&b, 1000, &y));
		ck_assert_msg(n < 2 ? different == 0 : different > 100, "%s: %u", names[n],
			      different);
	}
}
END_TEST

START_TEST(threads_share_the_operations_and_none_is_lost)
{
	static const char *const names[] = { "fillseq", "fillrandom" };
	static unsigned char seen[10007];
	struct keyspace keyspace;

	init_keyspace(&keyspace, 10007);
	for (size_t n = 0; n < 2; n++)
		for (unsigned threads = 1; threads <= 7; threads++) {
			struct workload workload;
			struct stream stream;
			struct op op;

			init_workload(&workload, &keyspace, names[n], "uniform", 1);
			workload.ops = 10007;
			memset(seen, 0, sizeof(seen));
			for (unsigned t = 0; t < threads; t++) {
				stream_init(&stream, &workload, t, threads);
				while (stream_next(&stream, 10007, &op)) {
					expect(op.type == OP_UPDATE && seen[op.number] == 0);
					seen[op.number] = 1;
				}
			}
			ck_assert_ptr_null(memchr(seen, 0, sizeof(seen)));
		}
}
END_TEST

START_TEST(ycsb_mixes_as_it_should)
{
	static const struct {
		const char *name;
		enum op_type type;
		double share;
	} mixes[] = {
		{ "ycsba", OP_UPDATE, 0.5 },  { "ycsbb", OP_UPDATE, 0.05 },
		{ "ycsbc", OP_GET, 1 },       { "ycsbd", OP_INSERT, 0.05 },
		{ "ycsbe", OP_SCAN, 0.95 },   { "ycsbf", OP_MODIFY, 0.5 },
	};
	const uint64_t seed = test_seed("mixes", 8);
	struct keyspace keyspace;

	init_keyspace(&keyspace, 1000);
	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
		struct workload workload;
		struct stream stream;
		struct op op;
		unsigned count = 0;

		init_workload(&workload, &keyspace, mixes[i].name, "uniform", seed);
		workload.ops = DRAWS;
		stream_init(&stream, &workload, 0, 1);
		while (stream_next(&stream, 1000, &op)) {
			count += op.type == mixes[i].type;
			expect(op.number < 1000);
			expect(op.type != OP_SCAN || (op.length >= 1 && op.length <= 100));
		}
		ck_assert_msg(is_near(count, mixes[i].share), "%s: %u", mixes[i].name, count);
	}
}
END_TEST

START_TEST(an_adversary_repeats_what_was_wrong_and_changes_nothing_else)
{
	struct workload workload;
	struct stream plain, wronged;
	struct keyspace keyspace;
	unsigned repeated = 0;
	struct op x, y;

	init_keyspace(&keyspace, 100000);
	init_workload(&workload, &keyspace, "readmissing", "adversarial:0.2", test_seed("foe", 9));
	workload.ops = DRAWS;
	stream_init(&plain, &workload, 0, 1);
	stream_init(&wronged, &workload, 0, 1);
	stream_false_positive(&wronged, 17);
	stream_false_positive(&wronged, 18);
	while (stream_next(&plain, 0, &x)) {
		expect(stream_next(&wronged, 0, &y));
		expect(!x.repeated);
		if (y.repeated)
			expect(y.number == 17 || y.number == 18);
		else
			expect(same_op(&x, &y));
		repeated += y.repeated;
	}
	ck_assert(is_near(repeated, 0.2));
	stream_fini(&plain);
	stream_fini(&wronged);
}
END_TEST

START_TEST(clients_have_popular_keys_of_their_own)
{
	static unsigned seen[40];
	struct workload workload;
	struct keyspace keyspace;
	struct stream stream;
	struct op op;

	init_keyspace(&keyspace, 10);
	keyspace.absent = 10;
	init_workload(&workload, &keyspace, "readmissing", "zipfian:3", test_seed("clients", 10));
	workload.ops = DRAWS;
	workload.clients = 4;
	stream_init(&stream, &workload, 0, 1);
	while (stream_next(&stream, 0, &op)) {
		expect(op.number < 40);
		seen[op.number]++;
	}
	for (unsigned client = 0; client < 4; client++) {
		unsigned most = 0;

		for (unsigned i = 0; i < 10; i++)
			most = seen[10 * client + i] > most ? seen[10 * client + i] : most;
		expect(most > DRAWS / 4 / 2);
	}
}
END_TEST

/* ---- sets and maps ------------------------------------------------------ */

START_TEST(a_set_of_ids_tells_new_from_known)
{
	struct id_set set;

	id_set_init(&set);
	for (uint64_t i = 1; i <= 10000; i++)
		expect(!id_set_add(&set, i * i, i, i + 10));
	/* One that began before the first was over does not repeat it. */
	for (uint64_t i = 1; i <= 10000; i++)
		expect(!id_set_add(&set, i * i, i + 9, i + 20));
	for (uint64_t i = 1; i <= 10000; i++)
		expect(id_set_add(&set, i * i, i + 10, i + 20));
	id_set_clear(&set);
	ck_assert(!id_set_add(&set, 25, 100, 200));
	id_set_fini(&set);
}
END_TEST

START_TEST(the_map_in_memory_is_in_order)
{
	uint64_t state = test_seed("map", 11);
	struct map_entry *entry;
	struct memory_map map;
	unsigned count = 0;

	ck_assert_int_eq(memory_map_init(&map), 0);
	for (int i = 0; i < 5000; i++) {
		const uint32_t key = (uint32_t)(test_random(&state) % 3000);
		char text[16];
		const int size = snprintf(text, sizeof(text), "%u", key);

		ck_assert_int_eq(memory_map_put(&map, text, (size_t)size, &key, sizeof(key),
						&entry), 0);
		expect(memory_map_find(&map, text, (size_t)size) == entry);
		expect(memory_map_seek(&map, text, (size_t)size) == entry);
	}
	for (entry = memory_map_first(&map); entry; entry = entry->next[0]) {
		char text[16];
		uint32_t key;
		int size;

		memcpy(&key, entry->value, sizeof(key));
		size = snprintf(text, sizeof(text), "%u", key);
		expect(entry->key_size == (uint32_t)size);
		expect(memcmp(map_entry_key(entry), text, (size_t)size) == 0);
		if (entry->next[0]) {
			const struct map_entry *next = entry->next[0];
			const size_t common = next->key_size < entry->key_size ? next->key_size :
										 entry->key_size;
			const int order = memcmp(text, map_entry_key(next), common);

			expect(order < 0 || (order == 0 && entry->key_size < next->key_size));
		}
		count++;
	}
	ck_assert_uint_eq(count, map.count);
	ck_assert_ptr_null(memory_map_find(&map, "x", 1));
	memory_map_fini(&map);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("workload");
	TCase *tests = tcase_create("workload");

	tcase_add_test(tests, percentiles_are_within_a_sixty_fourth);
	tcase_add_test(tests, any_value_has_a_bucket);
	tcase_add_test(tests, merged_histograms_are_as_one);
	tcase_add_test(tests, an_empty_histogram_says_zero);
	tcase_add_test(tests, stored_keys_are_in_order_and_found_again);
	tcase_add_test(tests, absent_keys_lie_between_the_stored_and_are_none_of_them);
	tcase_add_test(tests, another_seed_makes_other_keys_and_values);
	tcase_add_test(tests, keys_of_a_list_are_found_and_doubles_are_refused);
	tcase_add_test(tests, keys_that_a_trace_names_get_indexes_of_their_own);
	tcase_add_test(tests, only_what_was_written_last_is_true);
	tcase_add_test(tests, what_is_written_during_a_lookup_may_be_seen_or_not);
	tcase_add_test(tests, a_database_from_before_is_believed_if_it_is_ours);
	tcase_add_test(tests, distributions_are_read_and_printed);
	tcase_add_test(tests, uniform_is_uniform);
	tcase_add_test(tests, in_a_list_the_first_line_is_the_most_frequent);
	tcase_add_test(tests, the_latest_are_the_last);
	tcase_add_test(tests, a_hot_set_gets_its_share);
	tcase_add_test(tests, the_same_seed_gives_the_same_operations);
	tcase_add_test(tests, threads_share_the_operations_and_none_is_lost);
	tcase_add_test(tests, ycsb_mixes_as_it_should);
	tcase_add_test(tests, an_adversary_repeats_what_was_wrong_and_changes_nothing_else);
	tcase_add_test(tests, clients_have_popular_keys_of_their_own);
	tcase_add_test(tests, a_set_of_ids_tells_new_from_known);
	tcase_add_test(tests, the_map_in_memory_is_in_order);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
