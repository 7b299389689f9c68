/* test_rocksdb_cxx_layers.cc - winnow/rocksdb.hpp with other layers, and RocksDB's utilities. */
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/utilities/db_ttl.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>

#include "tests/support/rocksdb_cxx.h"

/* winnow stands above. */
START_TEST(transaction_databases_learn)
{
	const rocks::Options options = cxx_options();
	const rocks::TransactionDBOptions locking;
	rocks::TransactionDB *transactions = nullptr;
	winnow::Handles handles;
	winnow::DB *db;
	const auto open = [&](const rocks::DBOptions &own, const std::string &path,
			      const winnow::Families &families, winnow::Handles *opened,
			      rocks::DB **dbp) {
		const rocks::Status status = rocks::TransactionDB::Open(
			own, locking, path, families, opened, &transactions);

		*dbp = transactions;
		return status;
	};

	for (int round = 0; round < 2; round++) {
		must(winnow::OpenBy(open, options, test_path("transactions"),
				    default_family(options), &handles, cxx_winnow(), &db));

		std::unique_ptr<rocks::Transaction> transaction(
			transactions->BeginTransaction(rocks::WriteOptions()));

		for (uint64_t number = 0; number < 2 * cxx_keys; number += 2)
			must(transaction->Put(cxx_key(number), cxx_value(number)));
		must(transaction->Commit());
		must(db->Flush(rocks::FlushOptions()));
		cxx_wait(db, 1 + static_cast<uint64_t>(round));
		if (round == 0)
			must_learn(db);
		transaction.reset();
		destroy(&handles);
		delete db;
	}
}
END_TEST

/* A transaction goes past the database; a frame of winnow's around it makes it teach. */
START_TEST(a_frame_makes_other_lookups_teach)
{
	const rocks::Options options = cxx_options();
	rocks::OptimisticTransactionDB *transactions = nullptr;
	winnow::Handles handles;
	winnow::DB *db;
	uint64_t wrong[3];

	must(winnow::OpenBy(
		[&](const rocks::DBOptions &own, const std::string &path,
		    const winnow::Families &families, winnow::Handles *opened, rocks::DB **dbp) {
			const rocks::Status status = rocks::OptimisticTransactionDB::Open(
				own, path, families, opened, &transactions);

			*dbp = transactions;
			return status;
		},
		options, test_path("optimistic"), default_family(options), &handles, cxx_winnow(),
		&db));
	cxx_fill(db);
	cxx_wait(db, 1);

	std::unique_ptr<rocks::Transaction> transaction(
		transactions->BeginTransaction(rocks::WriteOptions()));

	for (int pass = 0; pass < 3; pass++) {
		const uint64_t before = db->GetStats().false_positives;

		for (uint64_t number = 0; number < 2 * cxx_keys; number++) {
			const std::string key = cxx_key(number);
			std::string value;
			rocks::Status status;

			if (pass == 0) {
				status = transaction->Get(rocks::ReadOptions(), key, &value);
			} else {
				winnow::Lookup lookup(db, key);

				status = transaction->Get(rocks::ReadOptions(), key, &value);
				lookup.Found(rocks::ReadOptions(), status);
			}
			ck_assert_int_eq(status.ok(), number % 2 == 0);
		}
		wrong[pass] = db->GetStats().false_positives - before;
	}
	ck_assert_uint_eq(wrong[0], 0);
	ck_assert_uint_gt(wrong[1], 0);
	ck_assert_uint_eq(wrong[2], 0);
	transaction.reset();
	destroy(&handles);
	delete db;
}
END_TEST

/* winnow stands below. */
START_TEST(a_database_that_learns_may_be_wrapped)
{
	rocks::Options options = cxx_options();
	winnow::Families families = default_family(options);
	std::vector<size_t> compacted;
	winnow::Handles handles;
	winnow::DB *below;
	rocks::TransactionDB *db;

	rocks::TransactionDB::PrepareWrap(&options, &families, &compacted);
	must(winnow::Open(options, test_path("wrapped"), families, &handles, cxx_winnow(), &below));
	must(rocks::TransactionDB::WrapStackableDB(below, rocks::TransactionDBOptions(), compacted,
						   handles, &db));
	cxx_fill(db);
	cxx_wait(db, 1);
	must_learn(db);
	destroy(&handles);
	must(db->Close());
	delete db;
}
END_TEST

START_TEST(a_layer_that_changes_values_learns)
{
	const rocks::Options options = cxx_options();
	winnow::Handles handles;
	winnow::DB *db;
	const auto open = [&](const rocks::DBOptions &own, const std::string &path,
			      const winnow::Families &families, winnow::Handles *opened,
			      rocks::DB **dbp) {
		const std::vector<int32_t> seconds(families.size(), 0);
		rocks::DBWithTTL *timed = nullptr;
		const rocks::Status status =
			rocks::DBWithTTL::Open(own, path, families, opened, &timed, seconds);

		*dbp = timed;
		return status;
	};

	for (int round = 0; round < 2; round++) {
		must(winnow::OpenBy(open, options, test_path("ttl" + std::to_string(_i)),
				    default_family(options), &handles, cxx_winnow(stores[_i]),
				    &db));
		if (round == 0)
			cxx_fill(db);
		cxx_wait(db, 1);
		if (round == 0)
			must_learn(db);
		else
			ck_assert_uint_eq(ask_missing(db), 0);
		destroy(&handles);
		delete db;
	}
}
END_TEST

START_TEST(utilities_take_it_for_a_database)
{
	const std::string path = test_path("utilities");
	std::unique_ptr<winnow::DB> db;
	rocks::Checkpoint *made;
	rocks::BackupEngine *engine;

	must(winnow::Open(cxx_options(), path, cxx_winnow(), &db));
	cxx_fill(db.get());
	cxx_wait(db.get(), 1);
	must_learn(db.get());
	must(rocks::Checkpoint::Create(db.get(), &made));
	must(made->CreateCheckpoint(path + ".checkpoint"));
	delete made;
	must(rocks::BackupEngine::Open(rocks::Env::Default(),
				       rocks::BackupEngineOptions(path + ".backup"), &engine));
	must(engine->CreateNewBackup(db.get()));
	must(engine->RestoreDBFromLatestBackup(path + ".restored", path + ".restored"));
	delete engine;
	db.reset();
	for (const char *copy : {".checkpoint", ".restored"}) {
		must(winnow::Open(cxx_options(), path + copy, cxx_winnow(), &db));
		ask_missing(db.get());
		ck_assert_uint_eq(ask_missing(db.get()), 0);
	}
}
END_TEST

static Suite *make_suite()
{
	Suite *suite = suite_create("rocksdb_cxx_layers");
	TCase *tcase = tcase_create("layers");

	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, transaction_databases_learn);
	tcase_add_test(tcase, a_frame_makes_other_lookups_teach);
	tcase_add_test(tcase, a_database_that_learns_may_be_wrapped);
	tcase_add_loop_test(tcase, a_layer_that_changes_values_learns, 0, 2);
	tcase_add_test(tcase, utilities_take_it_for_a_database);
	return suite;
}

int main()
{
	return cxx_run(make_suite());
}
