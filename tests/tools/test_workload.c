/* test_workload.c - what winnow-bench makes its workloads of: distributions, streams of
 * operations, histograms. */
#include <math.h>
#include <string.h>

#include "tests/support/common.h"
#include "tests/support/keyspace.h"
#include "tools/workload/histogram.h"
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

int main(void)
{
	Suite *suite = suite_create("workload");
	TCase *tests = tcase_create("workload");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, percentiles_are_within_a_sixty_fourth);
	tcase_add_test(tests, any_value_has_a_bucket);
	tcase_add_test(tests, merged_histograms_are_as_one);
	tcase_add_test(tests, an_empty_histogram_says_zero);
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
	return test_run(suite);
}
