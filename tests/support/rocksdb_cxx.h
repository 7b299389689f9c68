/* rocksdb_cxx.h - databases of the C++ interface for tests: even numbers are stored. */
#ifndef WN_TESTS_ROCKSDB_CXX_H
#define WN_TESTS_ROCKSDB_CXX_H

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <rocksdb/table.h>
#include <winnow/rocksdb.hpp>

#include <check.h> /* last: it has macros with short names */

namespace rocks = ROCKSDB_NAMESPACE;

/* Holds the directories of all tests of a program. */
inline std::string test_top;

inline std::string test_path(const std::string &name)
{
	return test_top + "/" + name;
}

/* Made and removed by the program itself, not by the processes that Check starts for the tests:
 * those may end early. */
inline int cxx_run(Suite *suite)
{
	const char *tmp = getenv("TMPDIR");
	SRunner *runner = srunner_create(suite);
	int failed;

	test_top = std::string(tmp && *tmp ? tmp : "/tmp") + "/winnow-rocksdb-XXXXXX";
	if (!mkdtemp(&test_top[0])) {
		perror(test_top.c_str());
		return 1;
	}
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	std::filesystem::remove_all(test_top);
	return failed != 0;
}

const uint64_t cxx_keys = 20000; /* stored; as many odd ones are not */

inline std::string cxx_key(uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "key%012" PRIu64, number);
	return text;
}

/* Every number's value is its own. */
inline std::string cxx_value(uint64_t number)
{
	return "value of " + std::to_string(number);
}

inline void must(const rocks::Status &status)
{
	ck_assert_msg(status.ok(), "%s", status.ToString().c_str());
}

/* Filters of 6 bits a key: one question in 30 is a false positive. */
inline winnow::Options cxx_winnow(winnow::Store store = winnow::Store::kColumnFamily)
{
	winnow::Options given;

	given.filter = "aqf:remainder_bits=4";
	given.store = store;
	return given;
}

inline rocks::Options cxx_options()
{
	rocks::Options options;

	options.create_if_missing = true;
	options.create_missing_column_families = true;
	return options;
}

inline rocks::BlockBasedTableOptions *table_options(rocks::Options *options)
{
	return options->table_factory->GetOptions<rocks::BlockBasedTableOptions>();
}

inline void cxx_fill(rocks::DB *db, rocks::ColumnFamilyHandle *family = nullptr,
		     uint64_t keys = cxx_keys)
{
	rocks::ColumnFamilyHandle *to = family ? family : db->DefaultColumnFamily();

	for (uint64_t number = 0; number < 2 * keys; number += 2)
		must(db->Put(rocks::WriteOptions(), to, cxx_key(number), cxx_value(number)));
	must(db->Flush(rocks::FlushOptions(), to));
}

inline winnow::Stats cxx_stats(rocks::DB *db)
{
	winnow::Stats stats;

	ck_assert(winnow::GetStats(db, &stats));
	return stats;
}

/* The key lists are stored by a thread beside, and what is not there yet teaches nothing. */
inline void cxx_wait(rocks::DB *db, uint64_t lists)
{
	for (int i = 0; i < 60000 && cxx_stats(db).key_lists < lists; i++)
		usleep(1000);
	ck_assert_uint_ge(cxx_stats(db).key_lists, lists);
}

/* Ask for the odd numbers, and see that the even ones are there; how many false positives? */
inline uint64_t ask_missing(rocks::DB *db, rocks::ColumnFamilyHandle *family = nullptr,
			    uint64_t keys = cxx_keys)
{
	rocks::ColumnFamilyHandle *in = family ? family : db->DefaultColumnFamily();
	const uint64_t before = cxx_stats(db).false_positives;

	for (uint64_t number = 0; number < 2 * keys; number++) {
		std::string value;
		const rocks::Status status =
			db->Get(rocks::ReadOptions(), in, cxx_key(number), &value);

		ck_assert_msg(number % 2 ? status.IsNotFound() :
					   status.ok() && value == cxx_value(number),
			      "%d: %s", (int)number, status.ToString().c_str());
	}
	return cxx_stats(db).false_positives - before;
}

inline void must_learn(rocks::DB *db, rocks::ColumnFamilyHandle *family = nullptr)
{
	ck_assert_uint_gt(ask_missing(db, family), cxx_keys / 100);
	ck_assert_uint_eq(ask_missing(db, family), 0);
}

inline winnow::Families default_family(const rocks::Options &options)
{
	return {rocks::ColumnFamilyDescriptor(rocks::kDefaultColumnFamilyName, options)};
}

inline void destroy(winnow::Handles *handles)
{
	for (rocks::ColumnFamilyHandle *handle : *handles)
		delete handle;
	handles->clear();
}

const winnow::Store stores[] = {winnow::Store::kColumnFamily, winnow::Store::kSidecar,
				       winnow::Store::kMemory};

#endif /* WN_TESTS_ROCKSDB_CXX_H */
