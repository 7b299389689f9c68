/* test_rocksdb_cxx.cc - winnow/rocksdb.hpp: lookups that teach.
 *
 * Of a database of even numbers every odd one is asked for. The first pass of a lookup that teaches
 * has false positives, and the second one has none. */
#include <atomic>
#include <thread>

#include "tests/support/rocksdb_cxx.h"

#define BATCH 50

/* ---- ways to look up ------------------------------------------------------ */

/* Ask for `count` numbers from `first` on; foundp[i]: is it there, with its value? */
using Ask = void (*)(rocks::DB *db, uint64_t first, size_t count, bool *foundp);

struct Way {
	const char *name;
	Ask ask;
};

static bool is_right(const rocks::Status &status, const rocks::Slice &value, uint64_t number)
{
	ck_assert_msg(status.ok() || status.IsNotFound(), "%s", status.ToString().c_str());
	ck_assert(!status.ok() || value == cxx_value(number));
	return status.ok();
}

static rocks::ReadOptions reading()
{
	return rocks::ReadOptions();
}

static void get_string(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	std::string value;

	for (size_t i = 0; i < count; i++) {
		const rocks::Status status = db->Get(reading(), cxx_key(first + i), &value);

		foundp[i] = is_right(status, value, first + i);
	}
}

static void get_string_of_family(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	std::string value;

	for (size_t i = 0; i < count; i++) {
		const rocks::Status status =
			db->Get(reading(), db->DefaultColumnFamily(), cxx_key(first + i), &value);

		foundp[i] = is_right(status, value, first + i);
	}
}

static void get_pinnable(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	for (size_t i = 0; i < count; i++) {
		rocks::PinnableSlice value;

		const rocks::Status status =
			db->Get(reading(), db->DefaultColumnFamily(), cxx_key(first + i), &value);

		foundp[i] = is_right(status, value, first + i);
	}
}

static void may_exist(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	for (size_t i = 0; i < count; i++) {
		std::string value;
		bool there = false;

		foundp[i] = db->KeyMayExist(reading(), cxx_key(first + i), &value, &there);
		/* The blocks are in the cache by now, and so is a key's value. */
		ck_assert(!foundp[i] || (there && value == cxx_value(first + i)));
	}
}

/* The keys of a batch and their slices. */
struct Batch {
	Batch(uint64_t first, size_t count)
	{
		texts.reserve(count);
		for (size_t i = 0; i < count; i++) {
			texts.push_back(cxx_key(first + i));
			keys.push_back(texts.back());
		}
	}

	std::vector<std::string> texts;
	std::vector<rocks::Slice> keys;
};

static void multi_get_listed(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<std::string> values;
	const auto statuses = db->MultiGet(reading(), batch.keys, &values);

	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(statuses[i], values[i], first + i);
}

static void multi_get_listed_families(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<std::string> values;
	const auto statuses = db->MultiGet(
		reading(),
		std::vector<rocks::ColumnFamilyHandle *>(count, db->DefaultColumnFamily()),
		batch.keys, &values);

	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(statuses[i], values[i], first + i);
}

static void multi_get_family(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<rocks::PinnableSlice> values(count);
	std::vector<rocks::Status> statuses(count);

	db->MultiGet(reading(), db->DefaultColumnFamily(), count, batch.keys.data(), values.data(),
		     statuses.data(), true);
	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(statuses[i], values[i], first + i);
}

static void multi_get_families(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<rocks::ColumnFamilyHandle *> families(count, db->DefaultColumnFamily());
	std::vector<rocks::PinnableSlice> values(count);
	std::vector<rocks::Status> statuses(count);

	db->MultiGet(reading(), count, families.data(), batch.keys.data(), values.data(),
		     statuses.data());
	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(statuses[i], values[i], first + i);
}

#if WINNOW_ROCKSDB_VERSION >= 7006
static void get_entity(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	for (size_t i = 0; i < count; i++) {
		rocks::PinnableWideColumns columns;
		const rocks::Status status = db->GetEntity(reading(), db->DefaultColumnFamily(),
							   cxx_key(first + i), &columns);

		foundp[i] = is_right(status,
				     status.ok() ? columns.columns()[0].value() : rocks::Slice(),
				     first + i);
	}
}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8000
static void multi_get_entity(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<rocks::PinnableWideColumns> columns(count);
	std::vector<rocks::Status> statuses(count);

	db->MultiGetEntity(reading(), db->DefaultColumnFamily(), count, batch.keys.data(),
			   columns.data(), statuses.data());
	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(statuses[i],
				     statuses[i].ok() ? columns[i].columns()[0].value() :
							rocks::Slice(),
				     first + i);
}

static void multi_get_entity_families(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<rocks::ColumnFamilyHandle *> families(count, db->DefaultColumnFamily());
	std::vector<rocks::PinnableWideColumns> columns(count);
	std::vector<rocks::Status> statuses(count);

	db->MultiGetEntity(reading(), count, families.data(), batch.keys.data(), columns.data(),
			   statuses.data());
	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(statuses[i],
				     statuses[i].ok() ? columns[i].columns()[0].value() :
							rocks::Slice(),
				     first + i);
}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8009
static void get_entity_groups(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	for (size_t i = 0; i < count; i++) {
		rocks::PinnableAttributeGroups groups;

		groups.emplace_back(db->DefaultColumnFamily());
		must(db->GetEntity(reading(), cxx_key(first + i), &groups));
		foundp[i] = is_right(groups[0].status(),
				     groups[0].status().ok() ? groups[0].columns()[0].value() :
							       rocks::Slice(),
				     first + i);
	}
}

static void multi_get_entity_groups(rocks::DB *db, uint64_t first, size_t count, bool *foundp)
{
	Batch batch(first, count);
	std::vector<rocks::PinnableAttributeGroups> results(count);

	for (auto &groups : results)
		groups.emplace_back(db->DefaultColumnFamily());
	db->MultiGetEntity(reading(), count, batch.keys.data(), results.data());
	for (size_t i = 0; i < count; i++)
		foundp[i] = is_right(results[i][0].status(),
				     results[i][0].status().ok() ?
					     results[i][0].columns()[0].value() :
					     rocks::Slice(),
				     first + i);
}
#endif

static const Way ways[] = {
	{"Get, a string", get_string},
	{"Get, a string, of a family", get_string_of_family},
	{"Get, a pinnable slice", get_pinnable},
	{"KeyMayExist", may_exist},
	{"MultiGet, lists", multi_get_listed},
	{"MultiGet, lists, families", multi_get_listed_families},
	{"MultiGet, arrays, a family", multi_get_family},
	{"MultiGet, arrays, families", multi_get_families},
#if WINNOW_ROCKSDB_VERSION >= 7006
	{"GetEntity", get_entity},
#endif
#if WINNOW_ROCKSDB_VERSION >= 8000
	{"MultiGetEntity, a family", multi_get_entity},
	{"MultiGetEntity, families", multi_get_entity_families},
#endif
#if WINNOW_ROCKSDB_VERSION >= 8009
	{"GetEntity, attribute groups", get_entity_groups},
	{"MultiGetEntity, attribute groups", multi_get_entity_groups},
#endif
};

/* All numbers, there or not, in batches; how many false positives? */
static uint64_t ask_all(rocks::DB *db, const Way &way)
{
	const uint64_t before = cxx_stats(db).false_positives;
	bool found[BATCH];

	for (uint64_t first = 0; first < 2 * cxx_keys; first += BATCH) {
		way.ask(db, first, BATCH, found);
		for (size_t i = 0; i < BATCH; i++)
			ck_assert_msg(found[i] == ((first + i) % 2 == 0), "%s: %d", way.name,
				      (int)(first + i));
	}
	return cxx_stats(db).false_positives - before;
}

static std::unique_ptr<rocks::DB> open_filled(const std::string &name)
{
	std::unique_ptr<rocks::DB> db;

	must(winnow::Open(cxx_options(), test_path(name), cxx_winnow(), &db));
	cxx_fill(db.get());
	cxx_wait(db.get(), 1);
	return db;
}

/* Every way in a database of its own. */
START_TEST(every_lookup_teaches)
{
	const Way &way = ways[_i];
	const std::unique_ptr<rocks::DB> db = open_filled("way" + std::to_string(_i));
	const uint64_t before = cxx_stats(db.get()).lookups;
	std::string value;

	for (uint64_t number = 0; number < 2 * cxx_keys; number += 2)
		must(db->Get(reading(), cxx_key(number), &value)); /* into the cache */
	ck_assert_uint_eq(cxx_stats(db.get()).lookups - before, cxx_keys);

	const uint64_t first = ask_all(db.get(), way), second = ask_all(db.get(), way);

	fprintf(stderr, "%s: %" PRIu64 " false positives, then %" PRIu64 "\n", way.name, first,
		second);
	ck_assert_uint_gt(first, cxx_keys / 100);
	ck_assert_uint_eq(second, 0);
	ck_assert_uint_eq(cxx_stats(db.get()).lookups - before, 5 * cxx_keys);
	ck_assert_uint_eq(cxx_stats(db.get()).repeated_false_positives, 0);
}
END_TEST

/* ---- lookups that do not --------------------------------------------------- */

START_TEST(iterators_and_lookups_without_disk_teach_nothing)
{
	const std::unique_ptr<rocks::DB> db = open_filled("quiet");
	const std::unique_ptr<rocks::Iterator> iterator(db->NewIterator(reading()));
	rocks::ReadOptions cached;
	std::string value;

	cached.read_tier = rocks::kBlockCacheTier;
	for (uint64_t number = 1; number < 2 * cxx_keys; number += 2) {
		iterator->Seek(cxx_key(number));
		const rocks::Status status = db->Get(cached, cxx_key(number), &value);

		ck_assert(status.IsNotFound() || status.IsIncomplete());
	}

	const winnow::Stats stats = cxx_stats(db.get());

	ck_assert_uint_eq(stats.false_positives, 0);
	ck_assert_uint_eq(stats.adaptations, 0);
}
END_TEST

#if WINNOW_ROCKSDB_VERSION >= 11008
namespace {

class Done final : public rocks::DB::AsyncCallback {
public:
	void OnComplete(const rocks::PerfContext *, const rocks::IOStatsContext *) override
	{
		done = true;
	}

	std::atomic<bool> done{false};
};

} // namespace

static void wait_for(const Done &callback)
{
	while (!callback.done)
		std::this_thread::yield();
}

START_TEST(asynchronous_lookups_teach_nothing)
{
	const std::unique_ptr<rocks::DB> db = open_filled("async");

	for (uint64_t number = 0; number < 2 * cxx_keys; number++) {
		rocks::PinnableSlice value;
		rocks::Status status;
		Done callback;

		db->GetAsync(reading(), db->DefaultColumnFamily(), cxx_key(number), &value, nullptr,
			     status, callback);
		wait_for(callback);
		ck_assert_int_eq(is_right(status, value, number), number % 2 == 0);
	}
	for (uint64_t first = 0; first < 2 * cxx_keys; first += BATCH) {
		Batch batch(first, BATCH);
		std::vector<rocks::ColumnFamilyHandle *> families(BATCH, db->DefaultColumnFamily());
		std::vector<rocks::PinnableSlice> values(BATCH);
		std::vector<rocks::Status> statuses(BATCH);
		Done callback;

		db->MultiGetAsync(reading(), BATCH, families.data(), batch.keys.data(),
				  values.data(), statuses.data(), callback);
		wait_for(callback);
		for (size_t i = 0; i < BATCH; i++)
			ck_assert_int_eq(is_right(statuses[i], values[i], first + i),
					 (first + i) % 2 == 0);
	}
	ck_assert_uint_eq(cxx_stats(db.get()).lookups, 0);
	ck_assert_uint_eq(cxx_stats(db.get()).false_positives, 0);
	/* And they have the benefit. */
	ck_assert_uint_gt(ask_all(db.get(), ways[0]), 0);
	ck_assert_uint_eq(ask_all(db.get(), ways[0]), 0);
}
END_TEST
#endif

/* ---- threads --------------------------------------------------------------- */

START_TEST(threads_look_up_while_others_write)
{
	const std::unique_ptr<rocks::DB> db = open_filled("threads");
	std::atomic<int> wrong{0};
	std::vector<std::thread> threads;

	for (size_t i = 0; i < 4; i++)
		threads.emplace_back([&db, &wrong, i] {
			const Way &way = ways[i % 2 ? 0 : 7];
			bool found[BATCH];

			for (uint64_t first = 0; first < 2 * cxx_keys; first += BATCH) {
				way.ask(db.get(), first, BATCH, found);
				for (size_t j = 0; j < BATCH; j++)
					wrong += found[j] != ((first + j) % 2 == 0);
			}
		});
	for (int round = 0; round < 3; round++)
		cxx_fill(db.get());
	must(db->CompactRange(rocks::CompactRangeOptions(), nullptr, nullptr));
	for (std::thread &thread : threads)
		thread.join();
	ck_assert_int_eq(wrong, 0);
}
END_TEST

static Suite *make_suite()
{
	Suite *suite = suite_create("rocksdb_cxx");
	TCase *lookups = tcase_create("lookups");

	tcase_add_loop_test(lookups, every_lookup_teaches, 0,
			    static_cast<int>(sizeof(ways) / sizeof(*ways)));
	tcase_add_test(lookups, iterators_and_lookups_without_disk_teach_nothing);
#if WINNOW_ROCKSDB_VERSION >= 11008
	tcase_add_test(lookups, asynchronous_lookups_teach_nothing);
#endif
	tcase_add_test(lookups, threads_look_up_while_others_write);
	suite_add_tcase(suite, lookups);
	return suite;
}

int main()
{
	return cxx_run(make_suite());
}
