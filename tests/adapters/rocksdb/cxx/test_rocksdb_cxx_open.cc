/* test_rocksdb_cxx_open.cc - winnow/rocksdb.hpp: opening, closing, sizes, filters alone. */
#include <stdexcept>

#include <rocksdb/convenience.h>

#include "tests/support/rocksdb_cxx.h"


/* ---- open and close ------------------------------------------------------- */

START_TEST(what_was_learned_is_there_after_reopening)
{
	const std::string path = test_path("reopen" + std::to_string(_i));
	const winnow::Options given = cxx_winnow(stores[_i]);
	rocks::DB *db;

	must(winnow::Open(cxx_options(), path, given, &db));
	cxx_fill(db);
	cxx_wait(db, 1);
	must_learn(db);
	if (_i == 0)
		must(db->Close());
	delete db;

	std::unique_ptr<winnow::DB> again;

	must(winnow::Open(cxx_options(), path, given, &again));
	if (stores[_i] == winnow::Store::kMemory)
		ck_assert_uint_gt(ask_missing(again.get()), 0);
	else
		ck_assert_uint_eq(ask_missing(again.get()), 0);
}
END_TEST

/* What the last flush wrote learns, too. */
START_TEST(tables_that_closing_writes_learn)
{
	const std::string path = test_path("last");
	rocks::Options options = cxx_options();
	rocks::WriteOptions writing;
	std::unique_ptr<rocks::DB> db;

	writing.disableWAL = true;
	must(winnow::Open(options, path, cxx_winnow(), &db));
	for (uint64_t number = 0; number < 2 * cxx_keys; number += 2)
		must(db->Put(writing, cxx_key(number), cxx_value(number)));
	must(db->Close());
	db.reset();
	must(winnow::Open(options, path, cxx_winnow(), &db));
	must_learn(db.get());
}
END_TEST

START_TEST(a_closed_database_has_nothing_to_say)
{
	std::unique_ptr<winnow::DB> db;

	must(winnow::Open(cxx_options(), test_path("closed"), &db));
	cxx_fill(db.get(), nullptr, 100);
	must(db->Close());
	must(db->Close());
	ck_assert_uint_eq(db->GetStats().lookups, 0);
	db->DrainLessons();
	must(db->SyncLessons());
	must(db->AddNegative("key"));
}
END_TEST

START_TEST(a_snapshot_keeps_a_database_open_and_harms_nothing)
{
	const std::string path = test_path("snapshot");
	std::unique_ptr<rocks::DB> db;

	must(winnow::Open(cxx_options(), path, cxx_winnow(), &db));
	cxx_fill(db.get());

	const rocks::Snapshot *snapshot = db->GetSnapshot();

	ck_assert(db->Close().IsAborted());
	std::string value;

	must(db->Get(rocks::ReadOptions(), cxx_key(0), &value));
	db->ReleaseSnapshot(snapshot);
	must(db->Close());
	db.reset();
	must(winnow::Open(cxx_options(), path, cxx_winnow(), &db));
	must_learn(db.get());
}
END_TEST

START_TEST(families_learn_each_for_itself_also_new_ones)
{
	const std::string path = test_path("families");
	const rocks::Options options = cxx_options();
	winnow::Families families = default_family(options);
	winnow::Handles handles;
	rocks::DB *db;

	families.emplace_back("users", options);
	must(winnow::Open(options, path, families, &handles, cxx_winnow(), &db));
	ck_assert_uint_eq(handles.size(), 2);
	ck_assert(handles[1]->GetName() == "users");

	rocks::ColumnFamilyHandle *later;
	std::vector<rocks::ColumnFamilyHandle *> more;

	must(db->CreateColumnFamily(options, "later", &later));
	handles.push_back(later);
	must(db->CreateColumnFamilies(options, {"a", "b"}, &more));
	handles.insert(handles.end(), more.begin(), more.end());
	must(db->CreateColumnFamilies({rocks::ColumnFamilyDescriptor("c", options)}, &more));
	handles.insert(handles.end(), more.begin(), more.end());
	for (rocks::ColumnFamilyHandle *handle : handles)
		cxx_fill(db, handle);
	cxx_wait(db, handles.size());
	for (rocks::ColumnFamilyHandle *handle : handles)
		must_learn(db, handle);
	destroy(&handles);
	delete db;
}
END_TEST

START_TEST(to_read_only_nothing_is_written)
{
	const std::string path = test_path("read_only");
	std::unique_ptr<rocks::DB> db;

	must(winnow::Open(cxx_options(), path, cxx_winnow(), &db));
	cxx_fill(db.get());
	db.reset();
	must(winnow::OpenForReadOnly(cxx_options(), path, cxx_winnow(), &db));
	must_learn(db.get());
	ck_assert(db->Put(rocks::WriteOptions(), "a", "b").IsNotSupported());
	db.reset();
	must(winnow::OpenForReadOnly(cxx_options(), path, cxx_winnow(), &db));
	ck_assert_uint_gt(ask_missing(db.get()), 0);
}
END_TEST

#if WINNOW_ROCKSDB_VERSION >= 9010
/* Then the identity is in the manifest only. Another database at the same path gets none of the
 * lessons of the first. */
START_TEST(a_database_without_a_file_for_its_identity_has_one)
{
	const std::string path = test_path("identity");
	rocks::Options options = cxx_options();
	std::unique_ptr<winnow::DB> db;

	options.write_identity_file = false;
	options.write_dbid_to_manifest = true;
	must(winnow::Open(options, path, cxx_winnow(), &db));
	ck_assert(!std::filesystem::exists(path + "/IDENTITY"));
	cxx_fill(db.get());
	cxx_wait(db.get(), 1);
	must_learn(db.get());
	db.reset();
	must(winnow::Open(options, path, cxx_winnow(), &db));
	ck_assert_uint_eq(ask_missing(db.get()), 0);
	db.reset();

	must(rocks::DestroyDB(path, options));
	must(winnow::Open(options, path, cxx_winnow(), &db));
	ck_assert_uint_eq(db->GetStats().lessons, 0);
	ck_assert_uint_eq(db->GetStats().key_lists, 0);
	cxx_fill(db.get());
	cxx_wait(db.get(), 1);
	must_learn(db.get());
}
END_TEST
#endif

/* ---- what goes wrong ------------------------------------------------------ */

template <typename Pointer> static void must_be_empty(const Pointer &db)
{
	ck_assert(db == nullptr);
}

START_TEST(errors_are_rocksdbs_own_or_say_what_is_wrong)
{
	const std::string path = test_path("errors");
	winnow::Options given = cxx_winnow();
	rocks::Options options = cxx_options();
	std::unique_ptr<rocks::DB> db, other;
	rocks::DB *bare;
	rocks::Status status;

	options.create_if_missing = false;
	status = winnow::Open(options, path, given, &db);
	ck_assert_msg(status.IsInvalidArgument(), "%s", status.ToString().c_str());
	must_be_empty(db);
	ck_assert(!std::filesystem::exists(path + ".winnow"));

	given.filter = "aqf:bits=3";
	options.create_if_missing = true;
	status = winnow::Open(options, path + "2", given, &bare);
	ck_assert(status.IsInvalidArgument());
	ck_assert(status.ToString().find("unknown option \"bits\"") != std::string::npos);
	must_be_empty(bare);
	ck_assert(!std::filesystem::exists(path + "2"));

	given.filter = "";
	options.table_factory.reset(rocks::NewPlainTableFactory());
	status = winnow::Open(options, path, given, &db);
	ck_assert(status.IsInvalidArgument());
	ck_assert(status.ToString().find("block-based") != std::string::npos);

	must(winnow::Open(cxx_options(), path, given, &db));
	status = winnow::Open(cxx_options(), path, given, &other);
	ck_assert_msg(status.IsIOError(), "%s", status.ToString().c_str());

	winnow::Handles handles;

	status = winnow::Open(cxx_options(), test_path("none"), {}, &handles, given, &other);
	ck_assert(status.IsInvalidArgument());
}
END_TEST

START_TEST(a_directory_in_use_is_busy_and_what_was_opened_is_closed)
{
	const std::string path = test_path("busy");
	winnow::Options given = cxx_winnow();
	std::unique_ptr<rocks::DB> one, other;

	given.sidecar_directory = test_path("busy_shared");
	must(winnow::Open(cxx_options(), path + "1", given, &one));

	winnow::Handles handles;
	const rocks::Status status = winnow::Open(cxx_options(), path + "2",
						  default_family(cxx_options()), &handles, given,
						  &other);

	ck_assert_msg(status.IsBusy(), "%s", status.ToString().c_str());
	ck_assert(handles.empty());
	must_be_empty(other);
	given.sidecar_directory = "";
	must(winnow::Open(cxx_options(), path + "2", given, &other));
}
END_TEST

static rocks::Status open_not(const rocks::DBOptions &, const std::string &,
			      const winnow::Families &, winnow::Handles *, rocks::DB **)
{
	return rocks::Status::TimedOut("not today");
}

static rocks::Status open_and_throw(const rocks::DBOptions &, const std::string &,
				    const winnow::Families &, winnow::Handles *, rocks::DB **)
{
	throw std::runtime_error("thrown");
}

static rocks::Status open_nothing(const rocks::DBOptions &, const std::string &,
				  const winnow::Families &, winnow::Handles *, rocks::DB **)
{
	return rocks::Status::OK();
}

/* The database is open, and no handle comes with it. */
static rocks::Status open_without_handles(const rocks::DBOptions &options, const std::string &path,
					  const winnow::Families &families, winnow::Handles *,
					  rocks::DB **dbp)
{
	const winnow::detail::Open open;
	winnow::Handles handles;
	const rocks::Status status = open(options, path, families, &handles, dbp);

	destroy(&handles);
	return status;
}

START_TEST(an_opener_may_fail)
{
	const rocks::Options options = cxx_options();
	winnow::Handles handles;
	rocks::DB *db;
	rocks::Status status = winnow::OpenBy(open_not, options, test_path("not"),
					      default_family(options), &handles, {}, &db);

	ck_assert(status.IsTimedOut());
	must_be_empty(db);
	status = winnow::OpenBy(open_and_throw, options, test_path("not"), default_family(options),
				&handles, {}, &db);
	ck_assert(status.IsAborted() && status.ToString().find("thrown") != std::string::npos);
	must_be_empty(db);
	for (const auto opener : {open_nothing, open_without_handles}) {
		status = winnow::OpenBy(opener, options, test_path("not"), default_family(options),
					&handles, {}, &db);
		ck_assert(status.IsAborted());
		must_be_empty(db);
		ck_assert(handles.empty());
	}
	must(winnow::Open(options, test_path("not"), &db));
	delete db;
}
END_TEST

START_TEST(other_versions_are_refused)
{
	char message[128];

	ck_assert_int_eq(wn_rocksdb_fits(ROCKSDB_MAJOR, ROCKSDB_MINOR, message, sizeof(message)),
			 0);
	ck_assert_str_eq(message, "");
	ck_assert_int_eq(wn_rocksdb_fits(ROCKSDB_MAJOR, ROCKSDB_MINOR + 1, message,
					 sizeof(message)),
			 WN_ERR_MISMATCH);
	ck_assert_ptr_nonnull(strstr(message, "this program was compiled for RocksDB"));
	ck_assert_int_eq(wn_rocksdb_fits(ROCKSDB_MAJOR - 1, ROCKSDB_MINOR, nullptr, 0),
			 WN_ERR_MISMATCH);
}
END_TEST

/* ---- numbers -------------------------------------------------------------- */

START_TEST(statistics_are_a_structure_a_map_numbers_and_text)
{
	std::unique_ptr<winnow::DB> db;
	std::map<std::string, std::string> map;
	std::string text;
	uint64_t number = 0;

	must(winnow::Open(cxx_options(), test_path("numbers"), cxx_winnow(), &db));
	cxx_fill(db.get());
	cxx_wait(db.get(), 1);
	ask_missing(db.get());

	const winnow::Stats stats = db->GetStats();
	rocks::DB *any = db.get();

	ck_assert_uint_eq(stats.lookups, 2 * cxx_keys);
	ck_assert_uint_eq(cxx_stats(any).false_positives, stats.false_positives);
	ck_assert(any->GetIntProperty("winnow.false_positives", &number));
	ck_assert_uint_eq(number, stats.false_positives);
	ck_assert(any->GetMapProperty("winnow.stats", &map));
	ck_assert(map["false_positives"] == std::to_string(stats.false_positives));
	ck_assert(any->GetProperty("winnow.stats", &text));
	ck_assert(text.find("false_positives: " + map["false_positives"]) != std::string::npos);
	ck_assert(any->GetProperty("winnow.prometheus", &text));
	ck_assert(!any->GetProperty("winnow.nonsense", &text));
	ck_assert(!any->GetIntProperty("winnow.nonsense", &number));
	ck_assert(any->GetIntProperty("rocksdb.estimate-num-keys", &number));
	ck_assert_uint_eq(number, cxx_keys);
	ck_assert(any->GetProperty("rocksdb.stats", &text));
	ck_assert(any->GetMapProperty("rocksdb.cfstats", &map));
}
END_TEST

START_TEST(other_databases_have_no_statistics)
{
	rocks::DB *db = nullptr;
	winnow::Stats stats;

	{
		const winnow::detail::Open open;
		winnow::Handles handles;
		const rocks::Options options = cxx_options();

		must(open(options, test_path("stock"), default_family(options), &handles, &db));
		destroy(&handles);
	}
	ck_assert(!winnow::GetStats(db, &stats));
	delete db;
}
END_TEST

/* A filter takes the size of the one whose place it takes, unless it is told one. */
struct Size {
	const rocks::FilterPolicy *(*stock)();
	const char *filter;
	double least, most;
};

static const rocks::FilterPolicy *bloom_10()
{
	return rocks::NewBloomFilterPolicy(10);
}

static const rocks::FilterPolicy *bloom_14()
{
	return rocks::NewBloomFilterPolicy(13.9);
}

static const rocks::FilterPolicy *ribbon_10()
{
	return rocks::NewRibbonFilterPolicy(10);
}

static const rocks::FilterPolicy *ribbon_16()
{
	return rocks::NewRibbonFilterPolicy(16);
}

static const rocks::FilterPolicy *winnow_16()
{
	return winnow::NewFilterPolicy("aqf:bits_per_key=16");
}

static const rocks::FilterPolicy *nothing()
{
	return nullptr;
}

static const Size sizes[] = {
	{bloom_10, "", 9.9, 10.1},
	{bloom_10, "sscf", 9.9, 10.2},
	{bloom_14, "", 13.8, 14.1},
	{ribbon_10, "", 9.9, 10.4},
	{ribbon_16, "", 15.7, 16.3},
	{winnow_16, "", 15.8, 16.2},
	{nothing, "", 11.7, 12.0},
	{bloom_10, "aqf:bits_per_key=15", 14.9, 15.1},
	{bloom_10, "aqf:remainder_bits=12", 14, 16},
	{bloom_10, "sscf:hashes=3", 9.9, 10.2},
};

START_TEST(a_filter_has_the_size_that_was_chosen)
{
	const Size &size = sizes[_i];
	rocks::Options options = cxx_options();
	winnow::Options given;
	std::unique_ptr<winnow::DB> db;

	table_options(&options)->filter_policy.reset(size.stock());
	given.filter = size.filter;
	must(winnow::Open(options, test_path("size" + std::to_string(_i)), given, &db));
	cxx_fill(db.get(), nullptr, 100000);

	const winnow::Stats stats = db->GetStats();
	const double bits = 8.0 * static_cast<double>(stats.filter_bytes) /
			    static_cast<double>(stats.filter_keys);

	ck_assert_uint_eq(stats.filter_keys, 100000);
	ck_assert_msg(bits >= size.least && bits <= size.most, "%s: %.2f", size.filter, bits);
}
END_TEST

/* ---- filters alone -------------------------------------------------------- */

START_TEST(a_policy_alone_makes_filters_or_says_why_not)
{
	std::shared_ptr<const rocks::FilterPolicy> policy;
	rocks::Status status = winnow::NewFilterPolicy("aqf:bits_per_key=10", &policy);
	bool thrown = false;

	must(status);
	ck_assert_str_eq(policy->Name(), "winnow.aqf:bits_per_key=10");
	status = winnow::NewFilterPolicy("aqf:bits_per_key=99999", &policy);
	ck_assert(status.IsInvalidArgument() && policy == nullptr);
	ck_assert(status.ToString().find("allowed is") != std::string::npos);
	try {
		policy.reset(winnow::NewFilterPolicy("nosuch"));
	} catch (const std::invalid_argument &error) {
		thrown = strstr(error.what(), "unknown filter kind") != nullptr;
	}
	ck_assert(thrown);
	policy.reset(winnow::NewFilterPolicy());
	ck_assert(policy != nullptr);
}
END_TEST

/* Including the header is enough; a string that is wrong is an error whatever
 * ignore_unsupported_options says. */
START_TEST(options_strings_know_winnow)
{
	rocks::ConfigOptions config;
	std::shared_ptr<const rocks::FilterPolicy> policy;

	for (const bool ignore : {true, false}) {
		config.ignore_unsupported_options = ignore;
		policy.reset();
		must(rocks::FilterPolicy::CreateFromString(config, "winnow.aqf:bits_per_key=10",
							   &policy));
		ck_assert(policy != nullptr);
		ck_assert(!rocks::FilterPolicy::CreateFromString(config, "winnow.aqf:bits=10",
								 &policy)
				   .ok());
	}
	ck_assert_int_eq(wn_rocksdb_register(), 0);

	rocks::Options options;

	must(rocks::GetOptionsFromString(
		config, cxx_options(),
		"block_based_table_factory={filter_policy={winnow.aqf:bits_per_key=10};}",
		&options));
	ck_assert(table_options(&options)->filter_policy != nullptr);
}
END_TEST

/* ---- the end -------------------------------------------------------------- */

START_TEST(a_database_goes_back_to_rocksdb)
{
	const std::string path = test_path("back");
	const winnow::detail::Open open;
	const rocks::Options options = cxx_options();
	std::unique_ptr<rocks::DB> db;
	winnow::Handles handles;
	rocks::DB *stock;
	std::string value;

	must(winnow::Open(options, path, cxx_winnow(), &db));
	cxx_fill(db.get());
	db.reset();
	must(winnow::Uninstall(path));
	ck_assert(!std::filesystem::exists(path + ".winnow"));
	must(open(options, path, default_family(options), &handles, &stock));
	must(stock->Get(rocks::ReadOptions(), cxx_key(0), &value));
	destroy(&handles);
	delete stock;
	must(winnow::Open(options, path, cxx_winnow(), &db));
	db.reset();
	must(winnow::DestroyDB(path, options));
	ck_assert(!std::filesystem::exists(path) && !std::filesystem::exists(path + ".winnow"));
}
END_TEST

template <size_t N> static int count_of(const Size (&)[N])
{
	return static_cast<int>(N);
}

static Suite *make_suite()
{
	Suite *suite = suite_create("rocksdb_cxx_open");
	TCase *tcase = tcase_create("open");

	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, what_was_learned_is_there_after_reopening, 0, 3);
	tcase_add_test(tcase, tables_that_closing_writes_learn);
	tcase_add_test(tcase, a_closed_database_has_nothing_to_say);
	tcase_add_test(tcase, a_snapshot_keeps_a_database_open_and_harms_nothing);
	tcase_add_test(tcase, families_learn_each_for_itself_also_new_ones);
	tcase_add_test(tcase, to_read_only_nothing_is_written);
#if WINNOW_ROCKSDB_VERSION >= 9010
	tcase_add_test(tcase, a_database_without_a_file_for_its_identity_has_one);
#endif
	tcase_add_test(tcase, errors_are_rocksdbs_own_or_say_what_is_wrong);
	tcase_add_test(tcase, a_directory_in_use_is_busy_and_what_was_opened_is_closed);
	tcase_add_test(tcase, an_opener_may_fail);
	tcase_add_test(tcase, other_versions_are_refused);
	tcase_add_test(tcase, statistics_are_a_structure_a_map_numbers_and_text);
	tcase_add_test(tcase, other_databases_have_no_statistics);
	tcase_add_loop_test(tcase, a_filter_has_the_size_that_was_chosen, 0, count_of(sizes));
	tcase_add_test(tcase, a_policy_alone_makes_filters_or_says_why_not);
	tcase_add_test(tcase, options_strings_know_winnow);
	tcase_add_test(tcase, a_database_goes_back_to_rocksdb);
	return suite;
}

int main()
{
	return cxx_run(make_suite());
}
