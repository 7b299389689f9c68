/* test_rocksdb_expiry.c - filters that learn, with tables and keys that go by themselves, and with
 * timestamps. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include <time.h>

#include "tests/support/rocksdb_model.h"

/* ---- tables and keys that go by themselves ------------------------------ */

static void set_small_fifo(rocksdb_options_t *options)
{
	rocksdb_fifo_compaction_options_t *fifo = rocksdb_fifo_compaction_options_create();

	rocksdb_fifo_compaction_options_set_max_table_files_size(fifo, 8 * number_count());
	rocksdb_options_set_write_buffer_size(options, 64 << 10);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_compaction_style(options, rocksdb_fifo_compaction);
	rocksdb_options_set_fifo_compaction_options(options, fifo);
	rocksdb_fifo_compaction_options_destroy(fifo);
}

/* The number's value, or nothing: FIFO compaction drops the oldest tables. */
static uint64_t count_kept(struct subject *subject)
{
	const struct model *model = &subject->models[0];
	uint64_t kept = 0;

	for (uint64_t number = 0; number < model->count; number++) {
		uint64_t value = ask(subject, 0, number);

		expect(value == 0 || value == model->values[number]);
		kept += value != 0;
	}
	return kept;
}

START_TEST(tables_that_fifo_compaction_drops_take_their_keys_along)
{
	static const struct feature feature = {.setup = {.name = "small_fifo"},
					       .change = set_small_fifo};
	struct subject subject = begin(&feature, &learner_stores[_i]);
	uint64_t kept, slice = subject.models[0].count / 8;

	for (uint64_t first = 0; first < 8 * slice; first += slice) {
		for (uint64_t number = (first + 1) / 2 * 2; number < first + slice; number += 2)
			put(&subject, 0, number);
		learner_flush(&subject.learner);
		count_kept(&subject);
	}
	learner_compact(&subject.learner);
	learner_quiet(&subject.learner);
	kept = count_kept(&subject);
	fprintf(stderr, "%" PRIu64 " of %" PRIu64 " kept\n", kept, 4 * slice);
	ck_assert_uint_lt(kept, 4 * slice);
	expect_paid_once(&subject);
	ck_assert_uint_eq(count_kept(&subject), kept);
	put_missing(&subject, 0);
	count_kept(&subject);
	end(&subject);
}
END_TEST

static unsigned char is_expired(void *state, int level, const char *key, size_t size,
				const char *value, size_t value_size, char **new_value,
				size_t *new_size, unsigned char *changed)
{
	(void)level;
	(void)value;
	(void)value_size;
	(void)new_value;
	(void)new_size;
	(void)changed;
	return *(bool *)state && size == DB_KEY_SIZE && key_number(key) % 3 == 0;
}

static const char *expiry_name(void *state)
{
	(void)state;
	return "expiry";
}

static bool expiring;
static rocksdb_compactionfilter_t *expiry;

static void keep_state(void *state)
{
	(void)state;
}

static void set_expiry(rocksdb_options_t *options)
{
	rocksdb_options_set_compaction_filter(options, expiry);
}

START_TEST(keys_that_a_compaction_filter_removes_can_come_back)
{
	static const struct feature feature = {.setup = {.name = "expiry", .no_compaction = true},
					       .change = set_expiry};
	struct subject subject;
	uint64_t *values;

	expiry = rocksdb_compactionfilter_create(&expiring, keep_state, is_expired, expiry_name);
	subject = begin(&feature, &learner_stores[_i]);
	values = subject.models[0].values;
	step(&subject, put_missing);
	ask_never_stored(&subject, subject.asked += number_count());
	expiring = true;
	learner_compact(&subject.learner);
	expiring = false;
	for (uint64_t number = 0; number < subject.models[0].count; number += 3)
		values[number] = 0;
	expect_right(&subject);
	expect_paid_once(&subject);
	step(&subject, put_missing);
	learner_compact(&subject.learner);
	expect_right(&subject);
	end(&subject);
	rocksdb_compactionfilter_destroy(expiry);
}
END_TEST

#define TTL_SECONDS 1

static uint64_t count_db(struct db *db, uint64_t count)
{
	uint64_t found = 0;

	for (uint64_t number = 0; number < count; number++) {
		bool has = db_has(db, number);

		expect(!has || number % 2 == 0);
		found += has;
	}
	return found;
}

/* RocksDB itself opens databases with a time to live, so the filters do not learn here. */
START_TEST(keys_whose_time_is_over_can_come_back)
{
	static const struct db_setup setup = {.winnow = LEARNER_FILTER, .no_compaction = true};
	struct db db = {.options = rocksdb_options_create(),
			.reading = rocksdb_readoptions_create()};
	uint64_t count = number_count() / 4 * 2;
	char *error = NULL;
	time_t written;

	db_set_options(&db, &setup);
	db_set_table(&db, &setup);
	db.rocks = rocksdb_open_with_ttl(db.options, test_path("ttl"), TTL_SECONDS, &error);
	expect_no(error);
	db_put(&db, 0, count);
	db_flush(&db);
	/* An expired key is there until a compaction meets it. */
	ck_assert_uint_eq(count_db(&db, count), count / 2);
	written = time(NULL);
	while (time(NULL) <= written + TTL_SECONDS + 1)
		usleep(100000);
	db_compact(&db);
	ck_assert_uint_eq(count_db(&db, count), 0);
	db_put(&db, 0, count);
	db_flush(&db);
	ck_assert_uint_eq(count_db(&db, count), count / 2);
	rocksdb_close(db.rocks);
	rocksdb_readoptions_destroy(db.reading);
	rocksdb_options_destroy(db.options);
}
END_TEST

/* ---- timestamps of the user's ------------------------------------------- */

#define TIME_SIZE 8
#define TIMES 5

static void encode_time(uint64_t when, char *text)
{
	for (unsigned i = 0; i < TIME_SIZE; i++)
		text[i] = (char)(when >> 8 * (TIME_SIZE - 1 - i));
}

static int compare_times(void *state, const char *a, size_t a_size, const char *b, size_t b_size)
{
	(void)state;
	expect(a_size == TIME_SIZE && b_size == TIME_SIZE);
	return memcmp(a, b, TIME_SIZE);
}

static int compare_plain(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

	return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

static int compare_without_time(void *state, const char *a, size_t a_size,
				unsigned char a_has_time, const char *b, size_t b_size,
				unsigned char b_has_time)
{
	(void)state;
	return compare_plain(a, a_has_time ? a_size - TIME_SIZE : a_size, b,
			     b_has_time ? b_size - TIME_SIZE : b_size);
}

/* The newest of a key's versions comes first. */
static int compare_with_time(void *state, const char *a, size_t a_size, const char *b,
			     size_t b_size)
{
	int order = compare_without_time(state, a, a_size, 1, b, b_size, 1);

	if (order)
		return order;
	return compare_times(state, b + b_size - TIME_SIZE, TIME_SIZE, a + a_size - TIME_SIZE,
			     TIME_SIZE);
}

static const char *comparator_name(void *state)
{
	(void)state;
	return "keys with times";
}

static rocksdb_comparator_t *timely;

static void set_timely(rocksdb_options_t *options)
{
	rocksdb_options_set_comparator(options, timely);
}

/* What is done to a number at a time: nothing, or it is written or deleted. */
enum deed { NOTHING, WRITTEN, DELETED };

static enum deed deed(uint64_t number, uint64_t when)
{
	uint64_t state = number * TIMES + when;

	if (number % 2)
		return NOTHING;
	return when == 1 ? WRITTEN : (enum deed)(test_random(&state) % 3);
}

static uint64_t value_at(uint64_t number, uint64_t when)
{
	while (when > 0 && deed(number, when) == NOTHING)
		when--;
	return when == 0 || deed(number, when) == DELETED ? 0 : number + when * ONE_VERSION;
}

static void do_deed(struct subject *subject, uint64_t number, uint64_t when)
{
	uint64_t value = number + when * ONE_VERSION;
	rocksdb_t *rocks = subject->learner.db.rocks;
	char key[DB_KEY_SIZE], stamp[TIME_SIZE];
	char *error = NULL;

	db_key(number, key);
	encode_time(when, stamp);
	if (deed(number, when) == WRITTEN)
		rocksdb_put_with_ts(rocks, subject->writing, key, sizeof(key), stamp,
				    sizeof(stamp), (char *)&value, sizeof(value), &error);
	else if (deed(number, when) == DELETED)
		rocksdb_delete_with_ts(rocks, subject->writing, key, sizeof(key), stamp,
				       sizeof(stamp), &error);
	expect_no(error);
}

/* At every time up to now; and it is `now` from then on. */
static void expect_times(struct subject *subject, uint64_t now)
{
	static char stamp[TIME_SIZE]; /* borrowed by the options */

	for (uint64_t when = 0; when <= now; when++) {
		encode_time(when, stamp);
		rocksdb_readoptions_set_timestamp(subject->learner.db.reading, stamp,
						  sizeof(stamp));
		for (uint64_t number = 0; number < number_count(); number++)
			expect(ask(subject, 0, number) == value_at(number, when));
	}
}

START_TEST(every_time_has_its_own_answer)
{
	static const struct feature feature = {.setup = {.name = "timestamps"},
					       .change = set_timely,
					       .vouched = true};
	struct subject subject;

	timely = rocksdb_comparator_with_ts_create(NULL, keep_state, compare_with_time,
						   compare_times, compare_without_time,
						   comparator_name, TIME_SIZE);
	subject = begin(&feature, &learner_stores[_i]);
	for (uint64_t when = 1; when <= TIMES; when++) {
		for (uint64_t number = 0; number < number_count(); number++)
			do_deed(&subject, number, when);
		learner_flush(&subject.learner);
		expect_times(&subject, when);
	}
	learner_compact(&subject.learner);
	expect_times(&subject, TIMES);
	expect_paid_once(&subject);
	close_subject(&subject);
	open_subject(&subject);
	expect_times(&subject, TIMES);
	end(&subject);
	rocksdb_comparator_destroy(timely);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rocksdb_expiry");
	TCase *tcase = tcase_create("features");
	int result;

	test_make_top();
	suite_add_tcase(suite, tcase);
	/* Shortened: all features in one store, and some of them in all. */
	tcase_add_loop_test(tcase, tables_that_fifo_compaction_drops_take_their_keys_along, 0,
			    LEARNER_STORES);
	tcase_add_loop_test(tcase, keys_that_a_compaction_filter_removes_can_come_back, 0,
			    LEARNER_STORES);
	tcase_add_test(tcase, keys_whose_time_is_over_can_come_back);
	tcase_add_loop_test(tcase, every_time_has_its_own_answer, 0, LEARNER_STORES);
	result = test_run(suite);
	test_remove_top();
	return result;
}
